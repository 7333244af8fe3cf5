//! `ceph mon scrub`: monitors compare their states.

use super::harness::*;
use super::prelude::*;
use crate::volatile::Quorum;
use wire::nacre::quorum::{QuorumReport, StateSum};

const SCRUB: &str = r#"{"prefix": "mon scrub"}"#;

/// Lines of the cluster log that tell of the comparison, each with its priority.
fn told(h: &Harness) -> Vec<(msg::LogPriority, String)> {
    let entries = h.monitor.state().log.entries.iter().filter(|entry| entry.channel == "cluster");
    let told = entries.filter(|entry| entry.message.starts_with("scrub") || entry.message.starts_with(" mon."));
    told.map(|entry| (entry.priority, entry.message.clone())).collect()
}

fn words(line: &str) -> &str {
    line.split(": ScrubResult").next().unwrap_or_default()
}

#[test]
fn a_monitor_that_is_alone_agrees_with_itself() {
    let mut h = Harness::new();
    let client = h.client();
    assert_eq!(told(&h), []);
    assert_eq!(h.command(client, SCRUB).result, 0);
    h.pass(secs(2));
    let lines = told(&h);
    assert_eq!(lines.iter().map(|(_, line)| words(line)).collect::<Vec<_>>(), ["scrub ok on 0"], "{lines:?}");
    let sum = h.monitor.state_sum().expect("it was computed");
    assert!(lines[0].1.ends_with(&format!("crc {{state={}}})", sum.crc)), "{lines:?}");
    h.pass(secs(60));
    assert_eq!(told(&h).len(), 1, "it is told once");
}

#[test]
fn monitors_that_differ_or_say_nothing_are_named() {
    let mut h = Harness::new();
    let client = h.client();
    let add = r#"{"prefix": "mon add", "name": "NAME", "addr": "127.0.0.NUM:3300"}"#;
    for (name, number) in [("b", "2"), ("c", "3")] {
        assert_eq!(h.command(client, &add.replace("NAME", name).replace("NUM", number)).result, 0);
    }
    let members = ["a", "b", "c"].map(str::to_owned).into();
    let report = QuorumReport { epoch: 2, leader: "a".into(), members, since: h.at().wall };
    let at = h.at();
    h.monitor.set_quorum(at, Quorum { report, ..Quorum::default() });
    assert_eq!(h.command(client, SCRUB).result, 0);
    let sum = h.monitor.state_sum().expect("it was computed");
    assert_eq!(h.command(client, SCRUB).result, Errno::EBUSY.as_result(), "one at a time");
    h.monitor.told_state_sum("b", StateSum { applied: sum.applied - 1, ..sum.clone() });
    h.pass(secs(5));
    assert_eq!(told(&h), [], "what b told is of another batch");
    h.monitor.told_state_sum("b", StateSum { crc: sum.crc ^ 1, ..sum.clone() });
    h.pass(secs(5));
    assert_eq!(told(&h), [], "c has some more time");
    h.pass(secs(30));
    let lines = told(&h);
    let (errors, others): (Vec<_>, Vec<_>) =
        lines.iter().partition(|(priority, _)| *priority == msg::LogPriority::ERROR);
    assert_eq!(errors.len(), 3, "{lines:?}");
    assert!(errors[2].1.starts_with(" mon.1 ") && errors[2].1.ends_with(&format!("{{state={}}})", sum.crc ^ 1)));
    let others: Vec<&str> = others.iter().map(|(_, line)| words(line)).collect();
    assert_eq!(others, ["scrub: mon.c has not told how its state is"], "all is not well");
}

#[test]
fn monitors_of_other_software_are_not_compared() {
    let mut h = Harness::new();
    let client = h.client();
    assert_eq!(h.command(client, r#"{"prefix": "mon add", "name": "b", "addr": "127.0.0.2:3300"}"#).result, 0);
    let report = QuorumReport {
        epoch: 2,
        leader: "a".into(),
        members: ["a", "b"].map(str::to_owned).into(),
        since: h.at().wall,
    };
    let at = h.at();
    h.monitor.set_quorum(at, Quorum { report, ..Quorum::default() });
    assert_eq!(h.command(client, SCRUB).result, 0);
    let sum = h.monitor.state_sum().expect("it was computed");
    h.monitor.told_state_sum("b", StateSum { software: "0.0.1".to_owned(), crc: 7, ..sum });
    h.pass(secs(2));
    let lines: Vec<String> = told(&h).into_iter().map(|(_, line)| line).collect();
    assert_eq!(lines, ["scrub: mon.b runs other software (0.0.1), not compared"]);
    assert_eq!(h.command(client, SCRUB).result, 0, "the next one may begin");
}

#[test]
fn clients_cannot_have_states_compared_by_lines_of_their_own() {
    let mut h = Harness::new();
    let client = h.client();
    let rank = EntityName { kind: EntityType::MON, num: 0 };
    let channel = crate::state::STATE_CHECK_CHANNEL.to_owned();
    let line = msg::LogEntry { seq: 1, rank, channel, message: "compare".to_owned(), ..msg::LogEntry::default() };
    h.say(client, msg::Log { have: 0, fsid: FSID, entries: vec![line] });
    h.pass(secs(2));
    assert_eq!(h.monitor.state_sum(), None);
}
