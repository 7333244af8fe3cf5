//! Clients that are asked to hold back what a group cannot serve, or nobody has.

use super::cluster::{Cluster, HASH, OBJECT, PG, POOL, appending};
use super::healing::{filled, heal, move_group, name, object, spoil, text};
use crate::ops::Limits;
use crate::{BackoffCounts, Output};
use osdmap::{pg_cursor_end, pg_range};
use std::time::Duration;
use types::{Errno, ObjectId, OsdId};
use wire::basic::{Locator, NO_SHARD, SPgId};
use wire::messages::{BackoffOp, Op, OsdBackoff, OsdOp, OsdOpReply, Watch};
use wire::msgr::SessionId;
use wire::{Message, Target};

const A: OsdId = OsdId(0);
const B: OsdId = OsdId(1);
const C: OsdId = OsdId(2);

fn append(cluster: &mut Cluster, session: SessionId, tid: u64, attempt: i32) {
    let epoch = cluster.map.epoch;
    cluster.ask(A, session, tid, epoch, attempt, appending(tid));
    cluster.settle();
}

/// Returns the one thing that a session was told since this was asked last.
fn one(cluster: &mut Cluster, session: SessionId) -> OsdBackoff {
    match &cluster.backoffs_said(session)[..] {
        [message] => message.clone(),
        other => panic!("{other:?}"),
    }
}

fn is_answered(cluster: &Cluster, tid: u64) -> bool {
    !cluster.answers_to(tid).is_empty()
}

#[test]
fn clients_of_a_group_with_too_few_members_hold_back_until_there_are_enough() {
    let mut cluster = Cluster::new(3);
    let (patient, other) = (cluster.connect_patient(A), cluster.connect(A));
    cluster.down(&[B, C]);
    append(&mut cluster, patient, 1, 0);
    let block = one(&mut cluster, patient);
    let (begin, end) = (pg_range(PG, 1).0, pg_cursor_end(PG, 1));
    assert_eq!((block.op, block.epoch, block.pgid.pg), (BackoffOp::Block, cluster.map.epoch, PG));
    assert_eq!((&block.begin, &block.end), (&begin, &end));
    assert_eq!(cluster.client_bytes(A), 0, "nothing is kept");
    append(&mut cluster, patient, 2, 0);
    cluster.acknowledge(A, patient, &block);
    assert!(cluster.backoffs_said(patient).is_empty() && cluster.client_bytes(A) == 0);
    // A client that cannot be asked to hold back waits here.
    append(&mut cluster, other, 11, 0);
    assert!(cluster.backoffs_said(other).is_empty() && cluster.client_bytes(A) > 0);
    cluster.pass(Duration::from_secs(60));
    assert_eq!(cluster.shard(A).backoff_counts(), BackoffCounts { standing: 1, begun: 1, dropped: 2 });
    cluster.up(C);
    let unblock = one(&mut cluster, patient);
    let expected = OsdBackoff { op: BackoffOp::Unblock, epoch: unblock.epoch, ..block };
    assert_eq!(unblock, expected);
    assert!(unblock.epoch > block.epoch && is_answered(&cluster, 11) && !is_answered(&cluster, 1));
    append(&mut cluster, patient, 1, 1);
    append(&mut cluster, patient, 2, 1);
    assert_eq!(cluster.content(A), "11,1,2,");
    assert_eq!((cluster.client_bytes(A), cluster.shard(A).backoff_counts().standing), (0, 0));
}

#[test]
fn what_was_sent_before_the_client_knew_does_not_overtake_what_was_dropped() {
    let mut cluster = Cluster::new(3);
    let session = cluster.connect_patient(A);
    cluster.down(&[B, C]);
    append(&mut cluster, session, 1, 0);
    let block = one(&mut cluster, session);
    // The client has not read that yet when the group serves again.
    cluster.up(C);
    assert!(cluster.is_active(A));
    append(&mut cluster, session, 2, 0);
    cluster.pass(Duration::from_secs(5));
    assert!(cluster.backoffs_said(session).is_empty() && cluster.answers.is_empty());
    cluster.acknowledge(A, session, &block);
    assert_eq!(one(&mut cluster, session).op, BackoffOp::Unblock);
    append(&mut cluster, session, 1, 1);
    append(&mut cluster, session, 2, 1);
    assert_eq!(cluster.content(A), "1,2,");
}

#[test]
fn what_a_group_has_when_it_stops_goes_to_its_client_as_a_whole() {
    let mut cluster = Cluster::new(3);
    let session = cluster.connect_patient(A);
    cluster.cut = [(A, C)].into();
    append(&mut cluster, session, 1, 0);
    append(&mut cluster, session, 2, 0);
    cluster.read(A, session, 3, cluster.map.epoch);
    cluster.settle();
    assert!(cluster.answers.is_empty() && cluster.client_bytes(A) > 0);
    cluster.lose(A, C);
    cluster.cut.clear();
    cluster.down(&[B, C]);
    let block = one(&mut cluster, session);
    assert_eq!((block.op, cluster.client_bytes(A)), (BackoffOp::Block, 0));
    append(&mut cluster, session, 4, 0);
    cluster.acknowledge(A, session, &block);
    cluster.up(C);
    assert_eq!(one(&mut cluster, session).op, BackoffOp::Unblock);
    // Both updates are in the log already.
    append(&mut cluster, session, 1, 1);
    append(&mut cluster, session, 2, 1);
    cluster.ask(A, session, 3, cluster.map.epoch, 1, Op::read(0, 0));
    append(&mut cluster, session, 4, 1);
    assert_eq!(cluster.answers_to(3), [(session, 0, "1,2,".to_owned())]);
    assert_eq!(cluster.content(A), "1,2,4,");
    assert!((1..=4).all(|tid| cluster.answers_to(tid).len() == 1));
}

#[test]
fn a_group_that_stops_again_is_blocked_still() {
    let mut cluster = Cluster::new(3);
    let session = cluster.connect_patient(A);
    cluster.down(&[B, C]);
    append(&mut cluster, session, 1, 0);
    let block = one(&mut cluster, session);
    cluster.acknowledge(A, session, &block);
    // The group does not serve in the next intervals, either.
    cluster.mark_up(1);
    cluster.cut = [(A, B), (B, A)].into();
    cluster.update_all();
    cluster.settle();
    cluster.down(&[B]);
    assert!(cluster.backoffs_said(session).is_empty());
    cluster.lose(A, B);
    cluster.cut.clear();
    cluster.up(C);
    assert_eq!(one(&mut cluster, session).op, BackoffOp::Unblock);
    append(&mut cluster, session, 1, 1);
    assert_eq!(cluster.content(A), "1,");
}

#[test]
fn a_session_that_ends_takes_its_backoffs_with_it() {
    let mut cluster = Cluster::new(3);
    let gone = cluster.connect_patient(A);
    cluster.down(&[B, C]);
    append(&mut cluster, gone, 1, 0);
    let before = one(&mut cluster, gone);
    cluster.disconnect(A, gone);
    let session = cluster.connect_patient(A);
    append(&mut cluster, session, 1, 1);
    let block = one(&mut cluster, session);
    assert_ne!(block.id, before.id);
    cluster.acknowledge(A, gone, &before);
    cluster.up(C);
    assert!(cluster.backoffs_said(gone).is_empty() && cluster.backoffs_said(session).is_empty());
    cluster.acknowledge(A, session, &block);
    assert_eq!(one(&mut cluster, session).id, block.id);
    append(&mut cluster, session, 1, 2);
    assert_eq!(cluster.content(A), "1,");
}

#[test]
fn a_primary_that_leads_no_more_lets_its_clients_go() {
    for is_acknowledged in [true, false] {
        let mut cluster = Cluster::new(3);
        let session = cluster.connect_patient(A);
        cluster.down(&[B, C]);
        append(&mut cluster, session, 1, 0);
        let block = one(&mut cluster, session);
        if is_acknowledged {
            cluster.acknowledge(A, session, &block);
        }
        cluster.mark_up(1);
        cluster.mark_up(2);
        let since = cluster.move_group(&[1, 2, 0]);
        cluster.update_all();
        cluster.settle();
        assert!(cluster.shared.contains(&(session, since)), "the client learns whom to send to");
        if !is_acknowledged {
            assert!(cluster.backoffs_said(session).is_empty());
            cluster.acknowledge(A, session, &block);
        }
        assert_eq!(one(&mut cluster, session).op, BackoffOp::Unblock);
        let session = cluster.connect_patient(B);
        cluster.ask(B, session, 1, since, 1, appending(1));
        cluster.settle();
        cluster.pass(Duration::from_secs(4));
        assert_eq!(cluster.content(B), "1,");
        assert!(cluster.backoffs_said(session).is_empty());
    }
}

/// Reads an object, and so finds that nobody has it.
fn lose_object(cluster: &mut Cluster, n: u32) {
    for osd in [A, B, C] {
        spoil(cluster, osd, n);
    }
    let session = cluster.connect(A);
    cluster.ask_of(A, session, 9_000_000, cluster.map.epoch, 0, (n, &name(n)), Op::read(0, 0));
    heal(cluster);
    assert!(!is_answered(cluster, 9_000_000));
}

fn ask_of(cluster: &mut Cluster, session: SessionId, tid: u64, attempt: i32, n: u32, op: Op) {
    cluster.ask_of(A, session, tid, cluster.map.epoch, attempt, (n, &name(n)), op);
    cluster.settle();
}

#[test]
fn an_unfound_object_is_held_back_alone_until_it_is_given_up() {
    let mut cluster = filled(3, 3);
    let session = cluster.connect_patient(A);
    // Requests that wait already are held back, too.
    for osd in [A, B, C] {
        spoil(&mut cluster, osd, 1);
    }
    ask_of(&mut cluster, session, 1001, 0, 1, Op::read(0, 0));
    ask_of(&mut cluster, session, 1002, 0, 1, appending(1002));
    heal(&mut cluster);
    let block = one(&mut cluster, session);
    assert_eq!((block.op, &block.begin, &block.end), (BackoffOp::Block, &object(1), &object(1)));
    assert_eq!(cluster.client_bytes(A), 0);
    ask_of(&mut cluster, session, 1003, 0, 2, Op::read(0, 0));
    assert_eq!(cluster.answers_to(1003)[0].2, text(2), "the others are served");
    // Given up before the client has acknowledged.
    assert_eq!(cluster.shard(A).give_up_unfound(PG), Ok(1));
    cluster.turn(A);
    ask_of(&mut cluster, session, 1004, 0, 1, appending(1004));
    heal(&mut cluster);
    assert!(!is_answered(&cluster, 1004) && cluster.backoffs_said(session).is_empty());
    cluster.acknowledge(A, session, &block);
    assert_eq!(one(&mut cluster, session).op, BackoffOp::Unblock);
    ask_of(&mut cluster, session, 1001, 1, 1, Op::read(0, 0));
    ask_of(&mut cluster, session, 1002, 1, 1, appending(1002));
    ask_of(&mut cluster, session, 1004, 1, 1, appending(1004));
    ask_of(&mut cluster, session, 1005, 0, 1, Op::read(0, 0));
    heal(&mut cluster);
    assert_eq!(cluster.answers_to(1001)[0].1, Errno::ENOENT.as_result());
    assert_eq!(cluster.answers_to(1005)[0].2, "1002,1004,");
    assert_eq!(cluster.client_bytes(A), 0);
}

#[test]
fn osds_that_copy_are_told_to_ask_later_where_clients_are_asked_to_hold_back() {
    let mut cluster = filled(3, 3);
    lose_object(&mut cluster, 1);
    // A client that cannot be asked waits.
    let held = cluster.client_bytes(A);
    assert!(held > 0);
    let question = |cluster: &mut Cluster, tid: u64| {
        let pgid = SPgId { pg: PG, shard: NO_SHARD };
        let (epoch, ops) = (cluster.map.epoch, vec![Op::read(0, 8 << 20)]);
        let op = OsdOp::new(pgid, 1, epoch, Locator::pool(POOL), name(1).into(), ops);
        let now = cluster.now();
        let envelope = op.seal(tid, Target::default());
        cluster.shard(A).peer_message(B, &envelope, now).expect("well-formed");
        let said = cluster.shard(A).take_outputs();
        cluster.turn(A);
        said.into_iter().find_map(|output| match output {
            Output::ToClient { envelope, .. } => Some(OsdOpReply::open(&envelope).expect("an answer").result),
            _ => None,
        })
    };
    assert_eq!(question(&mut cluster, 7), Some(Errno::EAGAIN.as_result()));
    assert_eq!(cluster.client_bytes(A), held);
    cluster.down(&[B, C]);
    let held = cluster.client_bytes(A);
    assert_eq!(question(&mut cluster, 8), Some(Errno::EAGAIN.as_result()));
    assert_eq!(cluster.client_bytes(A), held);
}

#[test]
fn an_unfound_object_is_let_go_when_somebody_brings_it() {
    let mut cluster = filled(4, 3);
    move_group(&mut cluster, &[0, 1, 3]);
    // The time is too short for anybody to look for copies that are not needed any more.
    cluster.settle();
    for osd in [A, B, OsdId(3)] {
        cluster.put_on_device(osd);
        spoil(&mut cluster, osd, 1);
    }
    let session = cluster.connect_patient(A);
    ask_of(&mut cluster, session, 1001, 0, 1, Op::read(0, 0));
    ask_of(&mut cluster, session, 1002, 0, 1, appending(1002));
    let block = one(&mut cluster, session);
    cluster.acknowledge(A, session, &block);
    assert!(block.op == BackoffOp::Block && cluster.backoffs_said(session).is_empty());
    // The OSD that comes back has a copy still.
    move_group(&mut cluster, &[0, 1, 2]);
    heal(&mut cluster);
    assert_eq!(one(&mut cluster, session).op, BackoffOp::Unblock);
    ask_of(&mut cluster, session, 1001, 1, 1, Op::read(0, 0));
    ask_of(&mut cluster, session, 1002, 1, 1, appending(1002));
    heal(&mut cluster);
    assert_eq!(cluster.answers_to(1001)[0].2, text(1));
    assert_eq!(cluster.answers_to(1002)[0].1, 0);
}

#[test]
fn a_request_that_was_carried_out_is_not_forgotten_while_its_object_is_unfound() {
    let mut cluster = filled(3, 3);
    let lost = cluster.connect_patient(A);
    // Lies behind what is spoiled.
    ask_of(&mut cluster, lost, 1001, 0, 1, appending(1001));
    cluster.put_on_device(A);
    lose_object(&mut cluster, 1);
    // The answer is lost with the session.
    cluster.disconnect(A, lost);
    let session = cluster.connect_patient(A);
    let held = cluster.client_bytes(A);
    ask_of(&mut cluster, session, 1001, 1, 1, appending(1001));
    assert!(cluster.backoffs_said(session).is_empty() && cluster.client_bytes(A) > held);
    ask_of(&mut cluster, session, 1002, 0, 1, appending(1002));
    let block = one(&mut cluster, session);
    cluster.acknowledge(A, session, &block);
    assert_eq!(cluster.shard(A).give_up_unfound(PG), Ok(1));
    cluster.turn(A);
    heal(&mut cluster);
    assert_eq!(cluster.answers_to(1001).last().map(|(to, result, _)| (*to, *result)), Some((session, 0)));
    assert_eq!(one(&mut cluster, session).op, BackoffOp::Unblock);
    ask_of(&mut cluster, session, 1002, 1, 1, appending(1002));
    ask_of(&mut cluster, session, 1003, 0, 1, Op::read(0, 0));
    heal(&mut cluster);
    assert_eq!(cluster.answers_to(1003)[0].2, "1002,");
    assert_eq!(cluster.client_bytes(A), 0);
}

#[test]
fn an_acknowledgement_waits_behind_what_waits_for_room() {
    let mut cluster = Cluster::new(3);
    let session = cluster.connect_patient(A);
    cluster.down(&[B, C]);
    append(&mut cluster, session, 1, 0);
    let block = one(&mut cluster, session);
    cluster.shard(A).set_unsent_bytes(Limits::default().client_bytes);
    append(&mut cluster, session, 2, 0);
    cluster.acknowledge(A, session, &block);
    cluster.up(C);
    assert!(cluster.backoffs_said(session).is_empty() && cluster.shard(A).is_full());
    cluster.shard(A).set_unsent_bytes(0);
    cluster.turn(A);
    cluster.settle();
    assert_eq!(one(&mut cluster, session).op, BackoffOp::Unblock);
    assert!(cluster.answers.is_empty(), "the other one is dropped before");
    append(&mut cluster, session, 1, 1);
    append(&mut cluster, session, 2, 1);
    assert_eq!(cluster.content(A), "1,2,");
}

#[test]
fn an_acknowledgement_waits_behind_what_waits_for_a_map() {
    let mut cluster = Cluster::new(3);
    let session = cluster.connect_patient(A);
    cluster.down(&[B, C]);
    append(&mut cluster, session, 1, 0);
    let block = one(&mut cluster, session);
    let serving = cluster.mark_up(2);
    let newest = cluster.change(|_| {});
    cluster.ask(A, session, 2, newest, 0, appending(2));
    cluster.acknowledge(A, session, &block);
    for osd in [A, B, C] {
        let from = cluster.epoch_of(osd).next();
        let message = cluster.message(from, serving);
        cluster.maps(osd, &message).unwrap();
    }
    cluster.settle();
    cluster.pass(Duration::from_secs(4));
    assert!(cluster.is_active(A) && cluster.backoffs_said(session).is_empty());
    cluster.update_all();
    cluster.settle();
    assert_eq!(one(&mut cluster, session).op, BackoffOp::Unblock);
    assert!(cluster.answers.is_empty());
    append(&mut cluster, session, 1, 1);
    append(&mut cluster, session, 2, 1);
    assert_eq!(cluster.content(A), "1,2,");
}

#[test]
fn groups_that_are_split_are_held_back_anew() {
    let mut cluster = Cluster::new(3);
    let session = cluster.connect_patient(A);
    cluster.down(&[B, C]);
    append(&mut cluster, session, 1, 0);
    let block = one(&mut cluster, session);
    cluster.split(2);
    cluster.update_all();
    cluster.settle();
    // Sent before the client knew of either.
    append(&mut cluster, session, 2, 0);
    let child = one(&mut cluster, session);
    assert_eq!((child.op, child.pgid.pg.seed), (BackoffOp::Block, HASH % 2));
    assert_ne!(child.id, block.id);
    cluster.acknowledge(A, session, &block);
    let unblock = one(&mut cluster, session);
    assert_eq!((unblock.op, unblock.id, unblock.pgid), (BackoffOp::Unblock, block.id, block.pgid));
    cluster.acknowledge(A, session, &child);
    cluster.up(C);
    assert_eq!(one(&mut cluster, session).id, child.id);
    append(&mut cluster, session, 1, 1);
    append(&mut cluster, session, 2, 1);
    assert_eq!(cluster.content(A), "1,2,");
}

#[test]
fn groups_that_are_merged_hold_their_clients_back_meanwhile() {
    let mut cluster = Cluster::new(3);
    cluster.split(2);
    cluster.update_all();
    cluster.settle();
    let session = cluster.connect_patient(A);
    cluster.prepare_merge(1);
    cluster.update_all();
    cluster.settle();
    cluster.pass(Duration::from_secs(4));
    append(&mut cluster, session, 1, 0);
    let block = one(&mut cluster, session);
    cluster.acknowledge(A, session, &block);
    assert_eq!((block.op, block.pgid.pg.seed), (BackoffOp::Block, HASH % 2));
    let before = cluster.map.epoch;
    cluster.merge();
    cluster.update_all();
    cluster.settle();
    let unblock = one(&mut cluster, session);
    assert_eq!((unblock.op, unblock.pgid), (BackoffOp::Unblock, block.pgid));
    assert!(cluster.shared.iter().any(|(to, epoch)| *to == session && *epoch > before));
    append(&mut cluster, session, 1, 1);
    cluster.pass(Duration::from_secs(4));
    assert_eq!(cluster.content(A), "1,");
    assert_eq!(cluster.shard(A).backoff_counts().standing, 0);
}

#[test]
fn an_osd_of_several_shards_is_acknowledged_to_the_one_that_asked() {
    let mut cluster = Cluster::of_shards(3, 7, 4, 8);
    let session = cluster.connect_patient(A);
    cluster.down(&[B, C]);
    for hash in 0..8 {
        let epoch = cluster.map.epoch;
        cluster.ask_of(A, session, 100 + u64::from(hash), epoch, 0, (hash, OBJECT), appending(1));
    }
    cluster.settle();
    let blocks = cluster.backoffs_said(session);
    let ids: std::collections::BTreeSet<u64> = blocks.iter().map(|block| block.id).collect();
    assert_eq!((blocks.len(), ids.len()), (8, 8), "ids of a session are unique");
    let groups: std::collections::BTreeSet<u32> = blocks.iter().map(|block| block.pgid.pg.seed).collect();
    assert!(groups.len() == 8 && blocks.iter().all(|block| block.pgid.pg.pool == POOL));
    blocks.iter().for_each(|block| cluster.acknowledge(A, session, block));
    cluster.settle();
    cluster.up(C);
    let said = cluster.backoffs_said(session);
    assert_eq!(said.iter().filter(|message| message.op == BackoffOp::Unblock).count(), 8);
    assert_eq!(said.iter().map(|message| message.id).collect::<std::collections::BTreeSet<_>>(), ids);
    // No shard keeps a request in memory.
    assert_eq!(cluster.client_bytes(A), 0);
}

#[test]
fn an_erasure_coded_group_holds_its_clients_back_too() {
    let mut cluster = Cluster::coded(7);
    let session = cluster.connect_patient(A);
    cluster.down(&[B, C]);
    ask_of(&mut cluster, session, 1, 0, 1, Op::write_full(vec![b'a'; 8192]));
    ask_of(&mut cluster, session, 2, 0, 1, Op::append(vec![b'b'; 8192]));
    let block = one(&mut cluster, session);
    let (begin, end) = (pg_range(PG, 1).0, pg_cursor_end(PG, 1));
    // Backoffs name objects as clients do, not as the store does that has a shard of them.
    assert_eq!((block.op, &block.begin, &block.end), (BackoffOp::Block, &begin, &end));
    assert_eq!(cluster.client_bytes(A), 0);
    cluster.acknowledge(A, session, &block);
    cluster.up(C);
    assert_eq!(one(&mut cluster, session).op, BackoffOp::Unblock);
    ask_of(&mut cluster, session, 1, 1, 1, Op::write_full(vec![b'a'; 8192]));
    ask_of(&mut cluster, session, 2, 1, 1, Op::append(vec![b'b'; 8192]));
    ask_of(&mut cluster, session, 3, 0, 1, Op::read(0, 0));
    cluster.pass(Duration::from_secs(4));
    assert_eq!(cluster.answers_to(3)[0].2, "a".repeat(8192) + &"b".repeat(8192));
    assert!((1..=3).all(|tid| cluster.answers_to(tid).len() == 1));
}

#[test]
fn listings_and_watches_are_held_back_like_everything_else() {
    let mut cluster = Cluster::new(3);
    let session = cluster.connect_patient(A);
    append(&mut cluster, session, 1, 0);
    let (watch, ping) = (|what| Op::watch(5, what, 0), Watch::PING);
    cluster.ask(A, session, 2, cluster.map.epoch, 0, watch(Watch::WATCH));
    cluster.settle();
    cluster.down(&[B, C]);
    let list = || Op::pg_nls(&ObjectId::min(), 10, 0);
    // The listing is of the group, whose hash is its number.
    cluster.ask_of(A, session, 3, cluster.map.epoch, 0, (0, b""), list());
    cluster.settle();
    let block = one(&mut cluster, session);
    cluster.ask(A, session, 4, cluster.map.epoch, 0, watch(ping));
    cluster.settle();
    cluster.acknowledge(A, session, &block);
    assert_eq!(cluster.shard(A).backoff_counts(), BackoffCounts { standing: 1, begun: 1, dropped: 2 });
    cluster.pass(Duration::from_secs(60));
    cluster.up(C);
    assert_eq!(one(&mut cluster, session).op, BackoffOp::Unblock);
    cluster.ask(A, session, 5, cluster.map.epoch, 0, watch(Watch::RECONNECT));
    cluster.ask_of(A, session, 3, cluster.map.epoch, 1, (0, b""), list());
    cluster.ask(A, session, 4, cluster.map.epoch, 1, watch(ping));
    cluster.settle();
    let of = |tid| cluster.answers.iter().filter(move |answer| answer.tid == tid);
    let results = |tid| of(tid).map(|answer| answer.reply.result);
    assert_eq!(results(3).collect::<Vec<_>>(), [1], "the end of the listing");
    assert_eq!(results(4).collect::<Vec<_>>(), [0], "the watch is there");
}

#[test]
fn what_is_on_its_way_is_waited_for_here() {
    // An object that is brought.
    let mut cluster = filled(3, 3);
    let session = cluster.connect_patient(A);
    spoil(&mut cluster, A, 1);
    cluster.cut = [(B, A), (C, A)].into();
    ask_of(&mut cluster, session, 1001, 0, 1, Op::read(0, 0));
    ask_of(&mut cluster, session, 1002, 0, 1, appending(1002));
    assert!(!is_answered(&cluster, 1001) && cluster.client_bytes(A) > 0);
    cluster.cut.clear();
    heal(&mut cluster);
    assert_eq!((cluster.answers_to(1001)[0].2.clone(), cluster.answers_to(1002)[0].1), (text(1), 0));
    // Leases that have ended.
    cluster.pass(Duration::from_secs(10));
    cluster.cut = [(B, A), (C, A)].into();
    cluster.pass(Duration::from_secs(10));
    ask_of(&mut cluster, session, 1003, 0, 2, Op::read(0, 0));
    assert!(!is_answered(&cluster, 1003) && cluster.client_bytes(A) > 0);
    cluster.cut.clear();
    cluster.pass(Duration::from_secs(4));
    assert_eq!(cluster.answers_to(1003)[0].2, text(2));
    // A group that is about to serve.
    cluster.mark_down(2);
    cluster.cut = [(B, A)].into();
    cluster.update_all();
    cluster.settle();
    ask_of(&mut cluster, session, 1004, 0, 2, Op::read(0, 0));
    cluster.pass(Duration::from_secs(10));
    assert!(!is_answered(&cluster, 1004) && cluster.client_bytes(A) > 0);
    cluster.cut.clear();
    cluster.pass(Duration::from_secs(10));
    assert_eq!(cluster.answers_to(1004)[0].2, text(2));
    assert!(cluster.backoffs_said(session).is_empty());
    assert_eq!(cluster.shard(A).backoff_counts(), BackoffCounts::default());
}
