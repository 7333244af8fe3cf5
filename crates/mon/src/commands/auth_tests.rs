//! Commands about entities beside the answers that Ceph 16.2.15 gave (`tests/recorded/auth_commands.jsonl`; the script
//! `tests/python/auth_commands.py` records them), and those that later releases have.

use super::test_cluster::{NOW, TestCluster};
use crate::Update;
use crate::bootstrap::first_entities;
use serde_json::{Value, json};

/// A cluster that is as new as the one that gave the answers.
fn new_cluster() -> TestCluster {
    let mut cluster = TestCluster::empty();
    let mut next = 0u8;
    let mut entropy = |out: &mut [u8]| {
        next += 1;
        out.fill(next);
    };
    let entities = first_entities(None, NOW, &mut entropy).unwrap();
    let updates = entities.into_iter().map(|(entity, entry)| Update::Auth { entity, entry: Some(entry) });
    cluster.apply(updates.collect());
    cluster
}

/// Returns the text with keys that the cluster made as KEY1, KEY2 ... in the order in which they are first seen.
fn normal(text: &str, given: &str, seen: &mut Vec<String>) -> String {
    const KEY_CHARS: usize = 40;
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("AQ") {
        out += &rest[..at];
        rest = &rest[at..];
        match rest.get(..KEY_CHARS).filter(|key| key.ends_with("==") && !key.contains(char::is_whitespace)) {
            Some(key) => {
                let place = seen.iter().position(|known| known == key);
                out += &match place {
                    Some(place) => format!("KEY{}", place + 1),
                    None if given.contains(key) => key.to_owned(),
                    None => {
                        seen.push(key.to_owned());
                        format!("KEY{}", seen.len())
                    }
                };
                rest = &rest[KEY_CHARS..];
            }
            None => {
                out += "AQ";
                rest = &rest[2..];
            }
        }
    }
    out + rest
}

/// True if the sentence about what is refused is Nacre's own: Ceph has none, or one about its parser.
fn is_own_sentence(command: &Value, status: &str) -> bool {
    let says_nothing = status.is_empty() || ["", "invalid command", "don't have "].contains(&status);
    says_nothing || status.starts_with("error decoding keyring") || command["input"] == "[client.e]\n"
}

#[test]
fn entities_are_made_shown_and_removed_as_on_a_ceph() {
    let recorded = include_str!("../../../../tests/recorded/auth_commands.jsonl");
    let given = include_str!("../../../../tests/python/auth_commands.txt");
    let (mut cluster, mut seen, mut wrong, mut count) = (new_cluster(), Vec::new(), Vec::new(), 0);
    for line in recorded.lines() {
        count += 1;
        let recorded: Value = serde_json::from_str(line).unwrap();
        let input = recorded["input"].as_str().unwrap().to_owned();
        let reply = cluster.run_with(recorded["command"].clone(), input);
        let status = normal(&reply.status, given, &mut seen);
        let output = normal(std::str::from_utf8(&reply.output).unwrap(), given, &mut seen);
        // Keyrings that are read again need a backslash before these; Ceph forgets it.
        let output = output.replace("\\;", ";").replace("\\#", "#");
        let code = i64::from(reply.code);
        let same_status = status == recorded["status"]
            || code < 0 && is_own_sentence(&recorded, recorded["status"].as_str().unwrap());
        // Of what is missing, Ceph sometimes says that it does not exist.
        let same_code = code == recorded["code"]
            || recorded["command"].get("entity").is_none_or(|entity| entity == "") && code == -22;
        if !same_code || !same_status || output != recorded["output"] {
            wrong.push(format!("{line}\nNacre {code} {status:?} {output:?}"));
        }
    }
    assert!(count >= 400, "{count}");
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n\n"));
}

#[test]
fn a_key_is_replaced_by_way_of_a_pending_one() {
    let mut c = new_cluster();
    let made = c.ok(json!({"prefix": "auth get-or-create", "entity": "client.p", "caps": ["mon", "allow r"]}));
    let before = c.ok(json!({"prefix": "auth get-key", "entity": "client.p"}));
    assert_eq!(made, format!("[client.p]\n\tkey = {before}\n"));
    let pending = json!({"prefix": "auth get-or-create-pending", "entity": "client.p"});
    let text = c.ok(pending.clone());
    let after = text.split("pending key = ").nth(1).unwrap().trim().to_owned();
    assert_eq!(text, format!("[client.p]\n\tkey = {before}\n\tpending key = {after}\n"));
    assert_ne!(after, before);
    assert_eq!(c.ok(pending.clone()), text);
    let export = c.ok(json!({"prefix": "auth export", "entity": "client.p"}));
    assert_eq!(export, format!("{text}\tcaps mon = \"allow r\"\n"));
    let value: Value =
        serde_json::from_str(&c.ok(json!({"prefix": "auth get", "entity": "client.p", "format": "json"}))).unwrap();
    assert_eq!(value, json!([{"entity": "client.p", "key": before, "pending_key": after, "caps": {"mon": "allow r"}}]));
    c.ok(json!({"prefix": "auth commit-pending", "entity": "client.p"}));
    assert_eq!(c.ok(json!({"prefix": "auth get-key", "entity": "client.p"})), after);
    assert_eq!(c.run(json!({"prefix": "auth commit-pending", "entity": "client.p"})).status, "no pending key");
    c.ok(pending);
    c.ok(json!({"prefix": "auth clear-pending", "entity": "client.p"}));
    c.ok(json!({"prefix": "auth clear-pending", "entity": "client.p"}));
    let export = c.ok(json!({"prefix": "auth export", "entity": "client.p"}));
    assert_eq!(export, format!("[client.p]\n\tkey = {after}\n\tcaps mon = \"allow r\"\n"));
    for prefix in ["auth get-or-create-pending", "auth commit-pending", "auth clear-pending", "auth rotate"] {
        let reply = c.run(json!({"prefix": prefix, "entity": "client.none"}));
        assert_eq!((reply.code, reply.status.as_str()), (-2, "entity client.none does not exist"), "{prefix}");
    }
}

#[test]
fn a_rotated_key_is_of_the_kind_that_is_asked_for() {
    let mut c = new_cluster();
    c.ok(json!({"prefix": "auth add", "entity": "client.r", "caps": ["mon", "allow r"]}));
    let rotate =
        |kind: &str| json!({"prefix": "auth rotate", "entity": "client.r", "key_type": kind, "format": "json"});
    let mut last = c.ok(json!({"prefix": "auth get-key", "entity": "client.r"}));
    for (kind, first) in [("aes256k", "Ag"), ("aes", "AQ"), ("aes256k", "Ag")] {
        let value: Value = serde_json::from_str(&c.ok(rotate(kind))).unwrap();
        let key = value[0]["key"].as_str().unwrap().to_owned();
        assert!(key.starts_with(first) && key != last, "{kind}: {key}");
        assert_eq!(value[0]["caps"], json!({"mon": "allow r"}));
        last = key;
    }
    let kept = c.ok(json!({"prefix": "auth rotate", "entity": "client.r"}));
    assert!(kept.contains("key = Ag"), "{kept}");
    assert_eq!(c.run(rotate("des")).code, -22);
    let new = json!({"prefix": "auth get-or-create-key", "entity": "client.s", "key_type": "aes256k"});
    assert!(c.ok(new).starts_with("Ag"));
}

#[test]
fn keyrings_with_capabilities_that_cannot_be_read_change_nothing() {
    let mut c = new_cluster();
    let key = "AQBpkAlrW/XJBRAAsrk6AiloMTqp6z6JQC4YaQ==";
    for caps in ["caps mon = \"nonsense\"", "caps xyz = \"allow r\""] {
        for command in [json!({"prefix": "auth add", "entity": "client.x"}), json!({"prefix": "auth import"})] {
            let reply = c.run_with(command, format!("[client.x]\n\tkey = {key}\n\t{caps}\n"));
            assert_eq!(reply.code, -22, "{caps}");
            assert!(!reply.status.contains(key));
        }
    }
    let wrong = c.run_with(json!({"prefix": "auth import"}), format!("[client.x]\n\tsecret = {key}\n"));
    assert_eq!(wrong.code, -22);
    assert!(!wrong.status.contains(key), "{}", wrong.status);
    assert_eq!(c.run(json!({"prefix": "auth get", "entity": "client.x"})).code, -2);
    for name in ["auth.x", "client.with space", "client.\"q", "client.[x]", "client.a;b"] {
        let reply = c.run(json!({"prefix": "auth get-or-create", "entity": name}));
        assert_eq!((reply.code, reply.status.as_str()), (-22, "bad entity name"), "{name}");
    }
}

#[test]
fn the_monitors_own_key_is_not_listed_and_not_removed() {
    let mut c = new_cluster();
    assert_eq!(c.run(json!({"prefix": "auth rm", "entity": "mon."})).status, "entity mon. does not exist");
    assert!(c.ok(json!({"prefix": "auth get", "entity": "mon."})).starts_with("[mon.]\n"));
    for prefix in ["auth ls", "auth export"] {
        assert!(!c.ok(json!({"prefix": prefix})).contains("mon."), "{prefix}");
    }
}

#[test]
fn the_monitors_own_key_is_replaced_in_steps_and_only_while_all_monitors_are_there() {
    let mut c = new_cluster();
    let of_monitors = |prefix: &str| json!({"prefix": prefix, "entity": "mon."});
    let before = c.ok(json!({"prefix": "auth get-key", "entity": "mon."}));
    assert_eq!(c.run(of_monitors("auth rotate")).code, -22);
    let given = "[mon.]\n\tkey = AQBpkAlrW/XJBRAAsrk6AiloMTqp6z6JQC4YaQ==\n\tcaps mon = \"allow *\"\n".to_owned();
    assert_eq!(c.run_with(json!({"prefix": "auth import"}), given).code, -22);
    let pending = c.ok(of_monitors("auth get-or-create-pending"));
    assert!(pending.contains(before.trim()) && pending.contains("pending key = "), "{pending}");
    let all = std::mem::take(&mut c.volatile.quorum.report.members);
    let reply = c.run(of_monitors("auth commit-pending"));
    assert_eq!(reply.code, -16);
    assert!(reply.status.starts_with("not in quorum: mon.a;"), "{}", reply.status);
    c.volatile.quorum.report.members = all;
    c.ok(of_monitors("auth commit-pending"));
    let after = c.ok(json!({"prefix": "auth get-key", "entity": "mon."}));
    assert!(after != before && pending.contains(after.trim()), "{after}");
}
