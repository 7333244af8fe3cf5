//! Kinds of keys that options allow, at handshakes.

use super::authentication::{asking, meet_as_monitor, name_of};
use super::harness::*;
use super::prelude::*;
use auth::{Key, KeyKind, Refusal, ServerPolicy};

const CLIENT: &[(&str, &str)] = &[("mon", "allow r"), ("osd", "allow rw")];

fn allow(h: &mut Harness, admin: SessionId, kinds: &str) -> String {
    let reply = h.command(
        admin,
        &format!(r#"{{"prefix":"config set","who":"mon","name":"auth_allowed_ciphers","value":"{kinds}"}}"#),
    );
    reply.status
}

#[test]
fn who_has_a_key_of_another_kind_is_refused_with_the_reason() {
    let mut h = asking(&[("client.a", KeyKind::Aes, CLIENT), ("client.z", KeyKind::Aes256k, CLIENT)]);
    let admin = h.join(2, "client.admin", EntityName::client(1));
    let status = allow(&mut h, admin, "aes256k");
    for name in ["client.a", "client.admin", "4 more"] {
        assert!(status.contains(name), "{status}");
    }
    assert!(!status.contains("client.z"), "{status}");
    let monitors: Key = h.monitor.state.auth["mon."].key.clone();
    // Tickets by which monitors know each other have session keys of another kind than the key that they share.
    assert_eq!(h.command(admin, r#"{"prefix":"auth rm","entity":"client.z"}"#).result, 0);
    assert_eq!(allow(&mut h, admin, "aes"), "");
    assert!(meet_as_monitor(&mut h, 4, &monitors).is_ok());
    let mut client = h.party("client.a");
    assert!(h.meet(6, &mut client).is_ok());
    assert!(h.reach(&client).is_ok(), "secrets are of another kind, too");
    // A monitor's own `ceph.conf` says so.
    let policy = ServerPolicy { key_kinds: vec![KeyKind::Aes256k], ..ServerPolicy::cephx() };
    h.monitor.set_auth_policy(policy, &[]);
    let refusal = |name: &str| Refusal::KeyKind { name: name_of(name), kind: KeyKind::Aes };
    assert_eq!(h.meet(8, &mut client).unwrap_err(), refusal("client.a"));
    assert_eq!(meet_as_monitor(&mut h, 10, &monitors).unwrap_err(), refusal("mon."));
}
