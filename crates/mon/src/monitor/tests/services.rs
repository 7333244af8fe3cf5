//! Daemons of other services at the manager's address.

use super::super::manager_clients::{MgrClose, MgrConfigure, MgrOpen, MgrReport};
use super::harness::*;
use super::prelude::*;
use serde_json::json;

fn texts(pairs: &[(&str, &str)]) -> std::collections::BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn open() -> MgrOpen {
    MgrOpen {
        daemon: "gw1".to_owned(),
        service: "iscsi-gw".to_owned(),
        registers: true,
        metadata: texts(&[("hostname", "h1"), ("daemon_type", "gateway")]),
        status: texts(&[("state", "starting")]),
    }
}

fn shown(h: &mut Harness, client: SessionId, prefix: &str) -> serde_json::Value {
    let answer = h.command(client, &json!({"prefix": prefix, "format": "json"}).to_string());
    serde_json::from_slice(&answer.output.to_vec()).unwrap()
}

#[test]
fn a_daemon_registers_reports_and_leaves() {
    let mut h = Harness::new();
    let client = h.client();
    let daemon = h.client_at_manager();
    assert_eq!(shown(&mut h, client, "service dump")["services"], json!({}));
    h.say(daemon, open());
    assert_eq!(h.heard::<MgrConfigure>(daemon), [MgrConfigure { period_s: 5, counters_from: 11 }]);
    let first = shown(&mut h, client, "service dump");
    assert_eq!(first["services"]["iscsi-gw"]["daemons"]["gw1"]["metadata"]["hostname"], "h1");
    assert_eq!(first["epoch"], 2);
    h.say(daemon, MgrReport { status: Some(texts(&[("state", "serving")])) });
    h.say(daemon, MgrReport::default());
    let status = shown(&mut h, client, "service status");
    assert_eq!(status["iscsi-gw"]["gw1"]["status"], json!({"state": "serving"}));
    let text = h.command(client, r#"{"prefix": "status"}"#).output.to_vec();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("\n    iscsi-gw: 1 gateway active (1 hosts)\n"), "{text}");
    assert!(text.contains("\n    mon:      1 daemons"), "{text}");
    let close = MgrClose { daemon: "gw1".to_owned(), service: "iscsi-gw".to_owned() };
    h.say(daemon, close.clone());
    assert_eq!(h.heard::<MgrClose>(daemon), [close]);
    assert_eq!(shown(&mut h, client, "service dump")["services"], json!({}));
}

#[test]
fn a_daemon_that_is_gone_without_a_word_stays_for_a_minute() {
    let mut h = Harness::new();
    let client = h.client();
    let daemon = h.client_at_manager();
    h.say(daemon, open());
    h.input(MonitorInput::Closed { session: daemon });
    h.pass(secs(50));
    assert!(shown(&mut h, client, "service dump")["services"].get("iscsi-gw").is_some());
    h.pass(secs(15));
    assert_eq!(shown(&mut h, client, "service dump")["services"], json!({}));
}

#[test]
fn what_is_no_daemon_or_says_too_much_is_not_in_the_map() {
    let mut h = Harness::new();
    let client = h.client();
    let daemon = h.client_at_manager();
    h.say(daemon, MgrOpen { registers: false, ..open() });
    h.say(daemon, MgrOpen { metadata: texts(&[("x", &"y".repeat(100_000))]), ..open() });
    h.say(client, open());
    assert_eq!(shown(&mut h, client, "service dump")["services"], json!({}));
}
