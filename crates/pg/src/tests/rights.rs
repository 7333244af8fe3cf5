//! Clients that may not do everything.

use super::cluster::{Cluster, appending};
use crate::ClientRights;
use std::sync::Arc;
use types::{EntityName, Errno, OsdId};
use wire::EntityAddr;
use wire::messages::{Op, OpArgs, OpCode};
use wire::msgr::Rights;

const PRIMARY: OsdId = OsdId(0);

/// The answers to an update, to a read, and to both in one, for a client with these capabilities.
fn answers(caps: &str) -> [i32; 3] {
    let mut cluster = Cluster::new(3);
    let everything = cluster.connect(PRIMARY);
    let epoch = cluster.map.epoch;
    cluster.append(PRIMARY, everything, 1, epoch);
    cluster.settle();
    let session = cluster.connect(PRIMARY);
    let rights = ClientRights::of(&Rights::Caps(caps.into()), Some("10.0.0.7".parse().unwrap()));
    let (name, addr) = (EntityName::client(9), EntityAddr::default());
    cluster.shard(PRIMARY).client_opened(session, name, addr, 0, Arc::new(rights));
    let stat = || Op::new(OpCode::STAT, OpArgs::None, Vec::new());
    let asked = [vec![appending(2)], vec![stat()], vec![stat(), appending(3)]];
    let mut answers = [1; 3];
    for (tid, (ops, answer)) in (10..).zip(asked.into_iter().zip(&mut answers)) {
        cluster.ask_all(PRIMARY, session, tid, ops);
        cluster.settle();
        let [(to, result, _)] = &cluster.answers_to(tid)[..] else { panic!("one answer to {tid}") };
        assert_eq!(*to, session);
        *answer = *result;
    }
    answers
}

/// Operations of a session that ended may still wait when its end is known; they are dropped.
#[test]
fn a_session_that_is_not_known_may_do_nothing() {
    let mut cluster = Cluster::new(3);
    cluster.settle();
    let session = cluster.connect(PRIMARY);
    cluster.shard(PRIMARY).client_closed(session);
    cluster.ask_all(PRIMARY, session, 1, vec![appending(2)]);
    cluster.settle();
    let client = cluster.connect(PRIMARY);
    cluster.ask_all(PRIMARY, client, 2, vec![Op::new(OpCode::STAT, OpArgs::None, Vec::new())]);
    cluster.settle();
    let [(to, result, _)] = &cluster.answers_to(2)[..] else { panic!("one answer") };
    assert_eq!((*to, *result), (client, Errno::ENOENT.as_result()), "nothing was written");
}

#[test]
fn an_operation_is_done_if_the_capabilities_allow_all_of_it() {
    let (done, refused) = (0, Errno::EPERM.as_result());
    let check = |caps: &str, expect: [i32; 3]| assert_eq!(answers(caps), expect, "{caps:?}");
    check("allow *", [done; 3]);
    check("allow rw", [done; 3]);
    check("allow r", [refused, done, refused]);
    check("allow w", [done, refused, refused]);
    check("", [refused; 3]);
    check("no capabilities", [refused; 3]);
    check("allow rw pool=pool", [done; 3]);
    check("allow rw pool=another", [refused; 3]);
    check("allow rw network 10.0.0.0/8", [done; 3]);
    check("allow rw network 11.0.0.0/8", [refused; 3]);
}
