//! Commands about options beside the answers that Ceph 16.2.15 gave (`tests/recorded/config_commands.txt`; the script
//! `tests/python/config_commands.py` records them).

use super::test_cluster::{NOW, TestCluster};
use serde_json::{Map, Value, json};

/// One command with its answer.
struct Recorded {
    line: &'static str,
    command: Value,
    input: String,
    /// Number and sentence, as Python prints them.
    head: &'static str,
    output: Vec<&'static str>,
}

fn recorded() -> Vec<Recorded> {
    let mut all: Vec<Recorded> = Vec::new();
    for line in include_str!("../../../../tests/recorded/config_commands.txt").lines() {
        if let Some(line) = line.strip_prefix("> ") {
            let (text, input) = line.split_once(" <<< ").unwrap_or((line, ""));
            let input = input.replace("\\n", "\n").replace("\\\\", "\\");
            all.push(Recorded { line, command: command(text), input, head: "", output: Vec::new() });
        } else {
            let last = all.last_mut().expect("a command comes first");
            match line.strip_prefix("  ") {
                Some(text) if !last.head.is_empty() => last.output.push(text),
                _ => last.head = line,
            }
        }
    }
    all
}

/// Reads `config get who=osd key="osd max backfills"`.
fn command(text: &str) -> Value {
    let (mut words, mut arguments) = (Vec::new(), Map::new());
    let mut quoted = false;
    let split = |c: char| {
        quoted ^= c == '"';
        c == ' ' && !quoted
    };
    for part in text.split(split) {
        let part = part.replace('"', "");
        match part.split_once('=') {
            Some(("force", _)) => drop(arguments.insert("force".to_owned(), json!(true))),
            Some((name, value)) => {
                let number = value.strip_prefix('#').and_then(|digits| digits.parse::<i64>().ok());
                arguments.insert(name.to_owned(), number.map_or_else(|| json!(value), |number| json!(number)));
            }
            None => words.push(part),
        }
    }
    arguments.insert("prefix".to_owned(), json!(words.join(" ")));
    Value::Object(arguments)
}

/// Returns an answer without versions and times.
fn normal(prefix: &str, text: &str) -> String {
    let text = text.replace(&NOW.to_string(), "TIME");
    if !prefix.starts_with("config log") {
        return text;
    }
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        match line.strip_prefix("--- ").and_then(|rest| rest.split_once(" ---")) {
            Some((_, rest)) => {
                let end = rest.find("reset to ").map_or(rest.len(), |at| at + "reset to ".len());
                let digits = rest[end..].bytes().take_while(u8::is_ascii_digit).count();
                let number = if digits > 0 { "N" } else { "" };
                out += &format!("--- N ---{}{number}{}", &rest[..end], &rest[end + digits..]);
            }
            None => out += line,
        }
    }
    let parts: Vec<&str> = out.split("\"version\":").collect();
    let rest =
        parts[1..].iter().map(|part| format!("\"version\":N{}", part.trim_start_matches(|c: char| c.is_ascii_digit())));
    format!("{}{}", parts[0], rest.collect::<String>())
}

/// Compares an explanation without the sentences about the option, which are each side's own.
fn same_explanation(ours: &str, cephs: &[&str]) -> bool {
    if let (Ok(mut ours), Ok(cephs)) =
        (serde_json::from_str::<Value>(ours), serde_json::from_str::<Value>(&cephs.concat()))
    {
        ours["desc"] = json!("");
        return ours == cephs;
    }
    let named = |line: &str| line.split(" - ").next().map(str::to_owned);
    let ours = ours.lines().enumerate().map(|(at, line)| if at == 0 { named(line) } else { Some(line.to_owned()) });
    let cephs = cephs.iter().enumerate().map(|(at, line)| if at == 0 { named(line) } else { Some((*line).to_owned()) });
    ours.eq(cephs)
}

#[test]
fn options_are_set_asked_for_and_explained_as_on_a_ceph() {
    let all = recorded();
    assert!(all.len() >= 150, "{}", all.len());
    let mut cluster = TestCluster::with_osds();
    let mut wrong = Vec::new();
    for Recorded { line, command, input, head, output } in all {
        let prefix = command["prefix"].as_str().unwrap().to_owned();
        let reply = cluster.run_with(command, input);
        let text = normal(&prefix, std::str::from_utf8(&reply.output).unwrap());
        let code = head.split(' ').next().unwrap();
        // Sentences that begin otherwise are Nacre's own; the recording has none for them.
        let quoted = &head[code.len() + 1..];
        let sentence = &quoted[1..quoted.len() - 1];
        let same_head =
            code == reply.code.to_string() && (sentence == reply.status || code != "0" && sentence.is_empty());
        let same_output = match prefix.as_str() {
            "config help" => same_explanation(&text, &output),
            _ => text.lines().eq(output.iter().copied()),
        };
        if !same_head || !same_output {
            wrong.push(format!(
                "> {line}\nCeph  {head}\n{}\nNacre {} '{}'\n{text}",
                output.join("\n"),
                reply.code,
                reply.status
            ));
        }
    }
    assert!(wrong.is_empty(), "{} answers differ:\n{}", wrong.len(), wrong.join("\n"));
}

fn set(cluster: &mut TestCluster, who: &str, name: &str, value: &str) {
    cluster.ok(json!({"prefix": "config set", "who": who, "name": name, "value": value}));
}

/// Options that monitors act on have an effect; each of these had none before.
#[test]
fn options_have_their_effects() {
    let mut cluster = TestCluster::with_osds();
    set(&mut cluster, "mon", "mon_max_pool_pg_num", "16");
    let refused = cluster.run(json!({"prefix": "osd pool create", "pool": "x", "pg_num": 32}));
    assert_eq!(refused.code, -34);
    assert!(refused.status.contains("less than or equal to 16"), "{}", refused.status);
    set(&mut cluster, "global", "osd_pool_default_flag_nodelete", "true");
    set(&mut cluster, "global", "osd_pool_default_flag_bulk", "true");
    cluster.ok(json!({"prefix": "osd pool create", "pool": "x", "pg_num": 8}));
    let listed = cluster.ok(json!({"prefix": "osd pool ls", "detail": "detail"}));
    assert!(listed.contains("flags hashpspool,nodelete,bulk"), "{listed}");
    set(&mut cluster, "mon", "mon_osd_blocklist_default_expire", "60");
    let add = json!({"prefix": "osd blocklist", "blocklistop": "add", "addr": "10.0.0.1"});
    assert!(cluster.run(add).status.ends_with("(60 sec)"));
    set(&mut cluster, "global", "mon_reweight_min_bytes_per_osd", "1E");
    let refused = cluster.run(json!({"prefix": "osd test-reweight-by-utilization"}));
    assert!(refused.status.starts_with("Refusing to reweight"), "{}", refused.status);
    set(&mut cluster, "global", "mon_reweight_min_bytes_per_osd", "0");
    set(&mut cluster, "global", "mon_reweight_max_osds", "2");
    set(&mut cluster, "global", "mon_reweight_max_change", "0.125");
    let printed = cluster.ok(json!({"prefix": "osd test-reweight-by-utilization"}));
    assert!(printed.contains("max_change 0.125\nmax_change_osds 2\n"), "{printed}");
}

#[test]
fn groups_count_as_stuck_after_the_time_that_an_option_gives() {
    let mut cluster = TestCluster::with_pools();
    for pg in cluster.volatile.pgs.values_mut() {
        pg.report.state = 0;
    }
    let stuck = |cluster: &TestCluster| {
        crate::health::evaluate(&cluster.state, &cluster.volatile).checks.contains_key("PG_AVAILABILITY")
    };
    cluster.volatile.now.sec += 30;
    assert!(!stuck(&cluster));
    set(&mut cluster, "mgr", "mon_pg_stuck_threshold", "20");
    assert!(!stuck(&cluster), "it is the monitors that look");
    set(&mut cluster, "mon", "mon_pg_stuck_threshold", "20");
    assert!(stuck(&cluster));
}

#[test]
fn masks_are_places_in_the_hierarchy() {
    let mut cluster = TestCluster::with_osds();
    set(&mut cluster, "osd/host:host1", "debug_ms", "1");
    set(&mut cluster, "osd/root:default", "debug_ms", "2");
    set(&mut cluster, "osd/class:ssd", "debug_ms", "3");
    set(&mut cluster, "osd", "debug_ms", "4");
    set(&mut cluster, "client/host:host1", "debug_ms", "5");
    set(&mut cluster, "client/host:elsewhere", "debug_ms", "6");
    let of = |kind, id, host| {
        let effective = cluster.state.config.effective(&cluster.state.config_subject(kind, id, host));
        effective.get("debug_ms").map(|(value, _)| *value)
    };
    assert_eq!(of("osd", "1", None), Some("1/1"));
    assert_eq!(of("osd", "0", Some("host1")), Some("2/2"), "an OSD is where the hierarchy says");
    assert_eq!(of("osd", "9", None), Some("4/4"));
    assert_eq!(of("client", "x", Some("host1")), Some("5/5"));
    assert_eq!(of("client", "x", Some("elsewhere")), Some("6/6"));
    assert_eq!(of("client", "x", None), None);
}

#[test]
fn what_is_kept_of_options_belongs_to_them() {
    let mut cluster = TestCluster::with_osds();
    set(&mut cluster, "osd", "osd_max_backfills", "3");
    for command in [
        json!({"prefix": "config-key set", "key": "config/osd/osd_max_backfills", "val": "x"}),
        json!({"prefix": "config-key rm", "key": "config/osd/osd_max_backfills"}),
        json!({"prefix": "config-key set", "key": "config-history/7/", "val": "x"}),
    ] {
        assert_eq!(cluster.run(command).code, -1);
    }
    let key = |key: &str| json!({"prefix": "config-key get", "key": key});
    assert_eq!(cluster.ok(key("config/osd/osd_max_backfills")), "3");
    assert_eq!(cluster.ok(key("config-history/2/+osd/osd_max_backfills")), "3");
}
