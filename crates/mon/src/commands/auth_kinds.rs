//! Which kinds of keys there may be: the options of the names that Ceph's newest releases give them.
//!
//! * `auth_allowed_ciphers`: kinds of keys by which somebody is let in. Others are neither made nor imported.
//! * `auth_preferred_cipher`: the kind of new keys, where a command names none.
//! * `auth_service_cipher`: the kind of the secrets that seal tickets.

use super::context::Context;
use super::{Reply, refuse};
use crate::state::{ALLOWED_CIPHERS, PREFERRED_CIPHER, SERVICE_CIPHER};
use crate::update::Update;
use auth::{Key, KeyKind};
use types::Errno;

/// Names that a refusal gives, at most.
const NAMED_MAX: usize = 5;

/// Refuses a value that names no kind of key.
pub(super) fn check_value(option: &str, value: &str) -> Result<(), Reply> {
    let judged = match option {
        ALLOWED_CIPHERS => KeyKind::list(value).map(|_| ()),
        PREFERRED_CIPHER | SERVICE_CIPHER => value.parse::<KeyKind>().map(|_| ()),
        _ => Ok(()),
    };
    judged.or_else(|why| refuse(Errno::EINVAL, format!("error parsing value: {why}")))
}

/// Refuses a target for which monitors would differ.
pub(super) fn check_target(who: &str, option: &str) -> Result<(), Reply> {
    let is_about_kinds = [ALLOWED_CIPHERS, PREFERRED_CIPHER, SERVICE_CIPHER].contains(&option);
    if is_about_kinds && !["mon", "global"].contains(&who) {
        return refuse(Errno::EINVAL, format!("all monitors have one '{option}': set it for 'mon'"));
    }
    Ok(())
}

/// Refuses changes of options after which somebody who has a key would be shut out.
pub(super) fn check_updates(c: &Context<'_>, updates: &[Update]) -> Result<(), Reply> {
    let changes = updates.iter().filter_map(|update| match update {
        Update::Config { who, name, value } if name == ALLOWED_CIPHERS => Some((who, value.as_deref())),
        _ => None,
    });
    let mut changes = changes.peekable();
    if changes.peek().is_none() {
        return Ok(());
    }
    let mut config = c.state.config.clone();
    for (who, value) in changes {
        config.set(who, ALLOWED_CIPHERS, value);
    }
    let allowed = config.allowed_kinds();
    let others = c.state.auth.iter().filter(|(_, entry)| entry.keys().any(|key| !allowed.contains(&key.kind())));
    let names: Vec<&str> = others.map(|(name, _)| name.as_str()).collect();
    if names.is_empty() {
        return Ok(());
    }
    let more = if names.len() > NAMED_MAX { format!(" and {} more", names.len() - NAMED_MAX) } else { String::new() };
    let named = names[..names.len().min(NAMED_MAX)].join(", ");
    let why = format!(
        "these have keys of other kinds and would be shut out: {named}{more}; replace their keys first (by 'nacre auth \
         rotate NAME --kind KIND'), or remove them"
    );
    refuse(Errno::EBUSY, why)
}

/// Refuses a key of a kind that is not allowed.
pub(super) fn check_key(c: &Context<'_>, entity: &str, key: &Key) -> Result<(), Reply> {
    let kind = key.kind();
    if c.state.allowed_kinds().contains(&kind) {
        return Ok(());
    }
    refuse(
        Errno::EINVAL,
        format!("keys of kind '{kind}' are not allowed ('{ALLOWED_CIPHERS}'), and {entity} would have one"),
    )
}

/// The kind of a new key: the one that the command asks for, else `usual`, unless that is not allowed, else the
/// preferred one.
pub(super) fn of_new_key(c: &Context<'_>, usual: Option<KeyKind>) -> KeyKind {
    let asked = c.args.text("key_type").map(|word| word.parse().expect("the signature has the kinds"));
    let usual = usual.filter(|kind| c.state.allowed_kinds().contains(kind));
    asked.or(usual).unwrap_or_else(|| c.state.preferred_kind())
}

#[cfg(test)]
mod tests {
    use crate::commands::test_cluster::TestCluster;
    use serde_json::{Value, json};

    const AES: &str = "[client.x]\n\tkey = AQBpkAlrW/XJBRAAsrk6AiloMTqp6z6JQC4YaQ==\n\tcaps mon = \"allow r\"\n";

    /// Has a command fail, and returns the reason.
    fn fails(cluster: &mut TestCluster, command: Value, input: &'static str) -> String {
        let reply = cluster.run_with(command, input);
        assert!(reply.code < 0, "{reply:?}");
        reply.status
    }

    fn set(name: &str, value: &str) -> Value {
        json!({"prefix": "config set", "who": "mon", "name": name, "value": value})
    }

    #[test]
    fn nobody_who_has_a_key_is_shut_out_and_keys_of_other_kinds_are_not_made() {
        let mut cluster = TestCluster::empty();
        for (entity, kind) in [("client.a", "aes"), ("client.b", "aes256k")] {
            cluster.ok(json!({"prefix": "auth get-or-create", "entity": entity, "key_type": kind}));
        }
        let narrowed = set("auth_allowed_ciphers", "aes256k");
        let refused = fails(&mut cluster, narrowed.clone(), "");
        assert!(refused.contains("client.a") && !refused.contains("client.b"), "{refused}");
        cluster.ok(json!({"prefix": "auth rotate", "entity": "client.a", "key_type": "aes256k"}));
        cluster.ok(narrowed);
        // Keys are made of the kind that is left.
        let made = cluster.ok(json!({"prefix": "auth get-or-create", "entity": "client.c"}));
        assert!(made.contains("key = Ag"), "{made}");
        let refused =
            fails(&mut cluster, json!({"prefix": "auth get-or-create", "entity": "client.d", "key_type": "aes"}), "");
        assert!(refused.contains("keys of kind 'aes' are not allowed"), "{refused}");
        let refused = fails(&mut cluster, json!({"prefix": "auth import"}), AES);
        assert!(refused.contains("client.x would have one"), "{refused}");
        let refused = fails(&mut cluster, json!({"prefix": "auth add", "entity": "client.x"}), AES);
        assert!(refused.contains("client.x would have one"), "{refused}");
        cluster.ok(set("auth_allowed_ciphers", "aes, aes256k"));
        cluster.ok(set("auth_preferred_cipher", "aes256k"));
        let made = cluster.ok(json!({"prefix": "auth get-or-create", "entity": "client.e"}));
        assert!(made.contains("key = Ag"), "{made}");
        let made = cluster.ok(json!({"prefix": "auth get-or-create", "entity": "client.f", "key_type": "aes"}));
        assert!(made.contains("key = AQ"), "{made}");
    }

    /// However the option changes: by a value, by going back to another section's, or to a former one.
    #[test]
    fn nobody_is_shut_out_by_what_is_removed_taken_back_or_read_from_a_file() {
        let mut cluster = TestCluster::empty();
        cluster.ok(json!({"prefix": "auth get-or-create", "entity": "client.b", "key_type": "aes256k"}));
        let all = json!({"prefix": "config set", "who": "global", "name": "auth_allowed_ciphers", "value": "aes256k"});
        cluster.ok(all);
        let log: Value =
            serde_json::from_str(&cluster.ok(json!({"prefix": "config log", "format": "json"}))).expect("JSON");
        let versions = log.as_array().expect("a list").iter().filter_map(|version| version["version"].as_u64());
        let narrow = versions.max().expect("one version");
        cluster.ok(set("auth_allowed_ciphers", "aes,aes256k"));
        cluster.ok(json!({"prefix": "auth get-or-create", "entity": "client.a", "key_type": "aes"}));
        let removed = json!({"prefix": "config rm", "who": "mon", "name": "auth_allowed_ciphers"});
        assert!(fails(&mut cluster, removed.clone(), "").contains("client.a"));
        assert!(fails(&mut cluster, json!({"prefix": "config reset", "num": narrow}), "").contains("client.a"));
        cluster.ok(json!({"prefix": "config rm", "who": "global", "name": "auth_allowed_ciphers"}));
        cluster.ok(removed);
        let file = "[mon]\nauth_allowed_ciphers = aes256k\n[mon.a]\nauth_preferred_cipher = aes\n";
        let left = cluster.run_with(json!({"prefix": "config assimilate-conf"}), file);
        let left = String::from_utf8_lossy(&left.output).into_owned();
        assert!(left.contains("auth_allowed_ciphers") && left.contains("auth_preferred_cipher"), "{left}");
        cluster.ok(json!({"prefix": "auth get-or-create", "entity": "client.c", "key_type": "aes"}));
    }

    #[test]
    fn values_are_kinds_and_hold_for_all_monitors() {
        let mut cluster = TestCluster::empty();
        let refused = fails(&mut cluster, set("auth_allowed_ciphers", "aes des"), "");
        assert!(refused.contains("'des' is no kind of key"), "{refused}");
        assert!(fails(&mut cluster, set("auth_allowed_ciphers", ""), "").contains("is no kind of key"));
        assert!(fails(&mut cluster, set("auth_service_cipher", "aes,aes256k"), "").contains("is no kind of key"));
        let one = json!({"prefix": "config set", "who": "mon.a", "name": "auth_service_cipher", "value": "aes"});
        assert!(fails(&mut cluster, one, "").contains("all monitors have one"));
        cluster.ok(set("auth_service_cipher", "aes"));
    }
}
