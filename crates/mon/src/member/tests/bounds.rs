//! Batches and messages that are too large for the log, or for a message between monitors.

use super::*;
use crate::bounds::HANDED_ON_BYTES_MAX;
use types::Errno;

#[test]
fn a_batch_that_is_too_large_is_refused_and_the_leader_goes_on() {
    let raft = raft::Config { proposal_bytes_max: 16 << 10, ..raft_config() };
    let mut net = Net::with(&["a", "b", "c"], raft);
    net.wait_for_leader();
    net.pass(secs(1));
    for number in 1..=3 {
        let answer = net.ask(number, &set("large", &"x".repeat(32 << 10)));
        assert_eq!(answer.result, Errno::E2BIG.as_result(), "{}", answer.status);
        assert_eq!(net.ask(number, &set("small", "x")).result, 0);
        assert_eq!(net.ask(number, &get("large")).result, Errno::ENOENT.as_result());
    }
    net.pass(secs(1));
    net.states_are_equal();
    assert_eq!(net.nodes[&1].member.raft().term(), net.nodes[&2].member.raft().term());
}

#[test]
fn a_message_that_is_too_large_to_be_handed_on_ends_its_own_session_only() {
    let mut net = Net::new(&["a", "b", "c"]);
    net.wait_for_leader();
    net.pass(secs(1));
    let (leader, peon) = (net.leader().unwrap(), net.peon());
    let other = net.open(peon);
    let header = wire::Header { kind: msg::MonCommand::TYPE, ..wire::Header::default() };
    let beacon = wire::Header { kind: wire::nacre::kind::OSD_BEACON, ..wire::Header::default() };
    for header in [header, beacon] {
        for data in [0, 20 << 20] {
            let session = net.open(peon);
            let front = vec![0; HANDED_ON_BYTES_MAX + 1 - data].into();
            let data = Bytes::from(vec![0; data]).into();
            let envelope = Envelope { header, front, data, ..Envelope::default() };
            net.input(peon, Input::Message { session, envelope });
            net.pass(secs(1));
            assert!(net.closed.contains(&(peon, session)));
        }
    }
    net.command(peon, other, 9, &set("k", "v"));
    net.pass_until("the other one's answer", secs(2), |net| net.answer(other, 9).is_some());
    assert_eq!(net.leader(), Some(leader));
}

/// The leader itself gives the answer.
#[test]
fn an_answer_that_is_too_long_to_be_passed_on_says_so() {
    let mut net = Net::new(&["a"]);
    net.wait_for_leader();
    let member = &net.nodes[&1].member;
    let ack = |bytes: usize| {
        let output = Bytes::from(vec![b'x'; bytes]).into();
        msg::MonCommandAck { version: 1, result: 0, status: String::new(), cmd: vec!["y".to_owned()], output }
    };
    let short = ack(1000).seal(5, Target::PACIFIC);
    assert_eq!(member.fit_to_be_handed_on(short.clone()), Some(short));
    let told = member.fit_to_be_handed_on(ack(HANDED_ON_BYTES_MAX).seal(5, Target::PACIFIC)).expect("an answer");
    let answer = msg::MonCommandAck::open(&told).unwrap();
    assert_eq!((told.header.tid, answer.result), (5, Errno::E2BIG.as_result()));
    assert_eq!(answer.cmd, ["y"]);
    let other = Envelope { front: vec![0; HANDED_ON_BYTES_MAX + 1].into(), ..Envelope::default() };
    assert_eq!(member.fit_to_be_handed_on(other), None);
}
