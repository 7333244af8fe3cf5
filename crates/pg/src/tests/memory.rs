//! Memory that clients' operations hold is bounded.

use super::cluster::{Cluster, HASH, OBJECT, PG, POOL};
use super::steps::Client;
use crate::ops::Limits;
use crate::{ClientRights, Output};
use std::sync::Arc;
use std::time::Duration;
use types::{EntityName, Epoch, OsdId};
use wire::basic::{Locator, NO_SHARD, SPgId};
use wire::messages::{Op, OsdOp, Watch};
use wire::msgr::SessionId;
use wire::{EntityAddr, Message, Target};

const A: OsdId = OsdId(0);
const READS: u64 = 40;

#[test]
fn reads_wait_for_room() {
    let mut cluster = Cluster::new(3);
    let session = cluster.connect(A);
    // More than the store keeps with the object's record, so that reads go to the device.
    cluster.ask(A, session, 1, Epoch(1), 0, Op::write(0, vec![b'x'; 8000]));
    cluster.settle();
    cluster.answers.clear();
    cluster.stuck_disks = [A].into();
    let tids: Vec<u64> = (2..2 + READS).collect();
    tids.iter().for_each(|tid| cluster.read(A, session, *tid, Epoch(1)));
    cluster.settle();
    let limit = Limits::default().client_bytes;
    let held = cluster.client_bytes(A);
    assert!(held >= limit && held < limit + (5 << 20), "a read without a length counts as 4 MiB: {held} are held");
    assert!(cluster.shard(A).is_full() && cluster.answers.is_empty());
    cluster.stuck_disks.clear();
    cluster.settle();
    // Reads may overtake each other.
    let mut answered: Vec<u64> = cluster.answers.iter().map(|answer| answer.tid).collect();
    answered.sort_unstable();
    assert_eq!(answered, tids);
    assert_eq!(cluster.client_bytes(A), 0);
    assert!(!cluster.shard(A).is_full());
}

#[test]
fn answers_that_the_network_has_not_taken_count() {
    let mut cluster = Cluster::new(3);
    let session = cluster.connect(A);
    cluster.shard(A).set_unsent_bytes(Limits::default().client_bytes);
    cluster.append(A, session, 1, Epoch(1));
    let gone = cluster.connect(A);
    cluster.append(A, gone, 2, Epoch(1));
    cluster.disconnect(A, gone);
    cluster.settle();
    assert!(cluster.answers.is_empty() && cluster.shard(A).is_full());
    cluster.shard(A).set_unsent_bytes(0);
    cluster.turn(A);
    cluster.settle();
    assert_eq!(cluster.answers.iter().map(|answer| answer.tid).collect::<Vec<_>>(), [1]);
    assert_eq!(cluster.content(A), "1,", "what a client sent that was gone before it began is forgotten");
}

#[test]
fn reads_wait_for_answers_that_nobody_takes() {
    let mut cluster = Cluster::new(3);
    let session = cluster.connect(A);
    cluster.ask(A, session, 1, Epoch(1), 0, Op::write(0, vec![b'x'; 8000]));
    cluster.settle();
    cluster.answers.clear();
    let limit = Limits::default().client_bytes;
    cluster.shard(A).set_unsent_bytes(limit - 1);
    cluster.read(A, session, 2, Epoch(1));
    cluster.settle();
    assert!(cluster.answers.is_empty(), "it would bring another answer");
    cluster.shard(A).set_unsent_bytes(limit / 2 - 1);
    cluster.turn(A);
    cluster.settle();
    assert_eq!(cluster.answers.iter().map(|answer| answer.tid).collect::<Vec<_>>(), [2]);
    assert_eq!(cluster.client_bytes(A), 0);
}

/// Answers of a turn hold memory before the driver has looked at the network. What waits for that keeps its order.
#[test]
fn what_waits_for_an_answer_of_its_turn_goes_on_in_the_order_in_which_it_came() {
    let mut cluster = Cluster::new(3);
    let session = cluster.connect(A);
    let objects: [&[u8]; 4] = [b"d", b"c", b"b", b"a"];
    for (tid, object) in (1..).zip(objects) {
        cluster.ask_of(A, session, tid, Epoch(1), 0, (HASH, object), Op::write(0, vec![b'x'; 8000]));
    }
    cluster.settle();
    // The leases that this brings last a while: reads that wait for leases go on by the order of objects.
    cluster.ask_of(A, session, 9, Epoch(1), 0, (HASH, objects[0]), Op::read(0, 0));
    cluster.settle();
    assert_eq!(cluster.answers.last().map(|answer| answer.tid), Some(9));
    cluster.answers.clear();
    let limit = Limits::default().client_bytes;
    cluster.shard(A).set_unsent_bytes(limit);
    for (tid, object) in (5..).zip(objects) {
        cluster.ask_of(A, session, tid, Epoch(1), 0, (HASH, object), Op::read(0, 0));
    }
    cluster.settle();
    assert!(cluster.answers.is_empty());
    cluster.shard(A).set_unsent_bytes(limit - 6000);
    cluster.turn(A);
    cluster.settle();
    assert_eq!(cluster.answers.iter().map(|answer| answer.tid).collect::<Vec<_>>(), [5, 6, 7, 8]);
}

#[test]
fn maps_that_a_client_is_sent_count_until_they_have_left() {
    let mut cluster = Cluster::new(3);
    cluster.change(|_| ());
    cluster.update_all();
    cluster.settle();
    let (shard, session) = (cluster.shard(A), SessionId(99));
    shard.client_opened(session, EntityName::client(5), EntityAddr::default(), 0, Arc::new(ClientRights::Everything));
    shard.set_unsent_bytes(0);
    shard.client_op(session, &sent_with(Epoch(1)).seal(1, Target::default()), Duration::ZERO).expect("well-formed");
    let counted = shard.leaving_bytes();
    let given: usize = shard.take_outputs().iter().map(Output::answer_bytes).sum();
    assert!(given > 0 && counted == given, "{given} bytes of maps were given, {counted} are counted");
    shard.set_unsent_bytes(7);
    assert_eq!((shard.leaving_bytes(), shard.unsent_bytes()), (0, 7));
}

#[test]
fn reads_that_wait_for_an_update_hold_what_they_are_until_they_start() {
    let (b, c) = (OsdId(1), OsdId(2));
    let mut cluster = Cluster::new(3);
    let session = cluster.connect(A);
    cluster.ask(A, session, 1, Epoch(1), 0, Op::write(0, vec![b'x'; 8000]));
    cluster.settle();
    cluster.cut = [(A, b), (A, c)].into();
    cluster.ask(A, session, 2, Epoch(1), 0, Op::write(0, vec![b'y'; 8000]));
    cluster.settle();
    cluster.answers.clear();
    let tids: Vec<u64> = (3..3 + READS).collect();
    tids.iter().for_each(|tid| cluster.read(A, session, *tid, Epoch(1)));
    cluster.settle();
    let held = cluster.client_bytes(A);
    assert!(!cluster.shard(A).is_full() && held < 100_000, "{held} are held");
    cluster.cut.clear();
    // The update becomes durable everywhere, and then the disk hangs.
    while cluster.answers.is_empty() {
        cluster.step(0);
        (1..4).for_each(|osd| cluster.step(osd));
    }
    cluster.stuck_disks = [A].into();
    cluster.settle();
    let (limit, held) = (Limits::default().client_bytes, cluster.client_bytes(A));
    assert!(held > limit / 2 && held < limit + (5 << 20), "not all start at once: {held} are held");
    cluster.stuck_disks.clear();
    cluster.settle();
    let mut answered: Vec<u64> = cluster.answers.iter().map(|answer| answer.tid).filter(|tid| *tid > 2).collect();
    answered.sort_unstable();
    assert_eq!(answered, tids);
    assert_eq!(cluster.client_bytes(A), 0);
}

/// Makes a write of 50,000 bytes by a client that has that map.
fn sent_with(epoch: Epoch) -> OsdOp {
    let name = bytes::Bytes::from_static(OBJECT);
    let pgid = SPgId { pg: PG, shard: NO_SHARD };
    OsdOp::new(pgid, HASH, epoch, Locator::pool(POOL), name, vec![Op::write_full(vec![1; 50_000])])
}

#[test]
fn what_waits_for_a_newer_map_counts_and_goes_with_its_client() {
    let mut cluster = Cluster::new(3);
    let (session, gone) = (cluster.connect(A), cluster.connect(A));
    let next = cluster.map.epoch.next();
    for session in [session, gone] {
        cluster.ask(A, session, 1, next, 0, Op::write_full(vec![1; 50_000]));
    }
    let held = cluster.client_bytes(A);
    assert!((100_000..110_000).contains(&held), "{held} are held");
    assert!(cluster.wanted.contains(&(A, next)));
    cluster.disconnect(A, gone);
    cluster.turn(A);
    let held = cluster.client_bytes(A);
    assert!((50_000..55_000).contains(&held), "{held} are held");
    cluster.change(|_| ());
    cluster.update_all();
    cluster.settle();
    assert_eq!(cluster.answers.iter().map(|answer| answer.session).collect::<Vec<_>>(), [session]);
    assert_eq!(cluster.client_bytes(A), 0);
}

#[test]
fn what_is_computed_of_a_large_update_of_a_coded_object_counts_until_it_is_answered() {
    const BYTES: usize = (4 << 20) + 8192;
    let mut cluster = Cluster::coded(3);
    let session = cluster.connect(A);
    cluster.cut = [(A, OsdId(1)), (A, OsdId(2))].into();
    cluster.ask(A, session, 1, Epoch(1), 0, Op::write_full(vec![1; BYTES]));
    cluster.settle();
    let (held, parity) = (cluster.client_bytes(A), BYTES / 2);
    assert!((BYTES + parity..BYTES + parity + 10_000).contains(&held), "{held} are held");
    cluster.cut.clear();
    cluster.settle();
    assert_eq!(cluster.answers_to(1).first().map(|answer| answer.1), Some(0));
    assert_eq!(cluster.client_bytes(A), 0);
}

#[test]
fn what_is_far_ahead_of_all_maps_is_not_kept() {
    let mut cluster = Cluster::new(3);
    let shard = cluster.shard(A);
    let session = SessionId(99);
    shard.client_opened(session, EntityName::client(5), EntityAddr::default(), 0, Arc::new(ClientRights::Everything));
    let mut ask = |epoch| {
        let envelope = sent_with(epoch).seal(1, Target::default());
        (shard.client_op(session, &envelope, Duration::ZERO).is_ok(), shard.client_bytes())
    };
    assert_eq!(ask(Epoch(u32::MAX)), (false, 0), "its session is to be closed");
    let (is_taken, held) = ask(Epoch(900));
    assert!(is_taken && held > 50_000);
    cluster.turn(A);
    assert!(cluster.wanted.contains(&(A, Epoch(2))));
}

#[test]
fn a_watch_is_removed_once_though_its_object_cannot_be_changed_for_long() {
    let mut client = Client::new();
    assert_eq!(client.result(vec![Op::write_full(vec![b'x'; 9000])]), 0);
    assert_eq!(client.result(vec![Op::watch(5, Watch::WATCH, 0)]), 0);
    let (cluster, session) = (&mut client.cluster, client.session);
    cluster.stuck_disks = [A].into();
    cluster.read(A, session, 900, Epoch(1));
    cluster.settle();
    cluster.disconnect(A, session);
    let mut held = Vec::new();
    for _ in 0..8 {
        cluster.pass(Duration::from_secs(31));
        held.push(cluster.client_bytes(A));
    }
    assert!(held.windows(2).skip(1).all(|pair| pair[0] == pair[1]) && held[7] > 0, "{held:?}");
    cluster.stuck_disks.clear();
    cluster.settle();
    assert_eq!(cluster.client_bytes(A), 0);
}
