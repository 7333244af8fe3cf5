//! Bounds on the bytes that one operation may make, whatever it is that makes them.

use super::cluster::{Cluster, POOL};
use super::steps::Client;
use crate::ops::Limits;
use bytes::Bytes;
use std::collections::BTreeMap;
use types::{Errno, OsdId, SnapId};
use wire::basic::{Locator, SnapContext};
use wire::messages::{Op, OpFlags, OsdOpReply, Watch, op_flag};

const A: OsdId = OsdId(0);
const LIMIT: usize = 100_000;
const TOO_MUCH: i32 = Errno::EMSGSIZE.as_result();
const TOO_BIG: i32 = Errno::EFBIG.as_result();

fn bounded() -> Client {
    Client::of(Cluster::limited(3, 7, Limits { op_bytes: LIMIT, ..Limits::default() }))
}

fn lenient(op: Op) -> Op {
    Op { flags: op_flag::FAILOK, ..op }
}

fn resize(elements: u64) -> Op {
    let input = [&elements.to_le_bytes()[..], &[0]].concat();
    Op::call_method("rbd", "object_map_resize", &input)
}

fn size(client: &mut Client) -> u64 {
    let reply = client.ask(vec![Op::stat()]);
    match reply.result {
        0 => u64::from_le_bytes(reply.ops[0].outdata.to_vec()[..8].try_into().unwrap()),
        absent => panic!("{absent}"),
    }
}

#[test]
fn what_the_steps_of_an_operation_write_is_bounded_together() {
    let mut client = bounded();
    let limit = LIMIT as u64;
    let same = |length: u64| Op::write_same(0, length, vec![7]);
    let large = |key: &'static [u8], bytes: usize| {
        Op::omap_set_vals(&BTreeMap::from([(Bytes::from_static(key), Bytes::from(vec![1; bytes]))]))
    };
    assert_eq!(client.result(vec![resize(10)]), 0);
    let before = size(&mut client);
    assert_eq!(client.result(vec![same(limit + 1)]), TOO_BIG);
    assert_eq!(client.result(vec![same(limit / 2), same(limit / 2 + 1)]), TOO_MUCH);
    // 80,000 bytes each, of input some 40.
    assert_eq!(client.result(vec![resize(320_000), resize(320_000)]), TOO_MUCH);
    // No operation goes on behind that, also if its steps may fail.
    assert_eq!(client.result(vec![lenient(resize(320_000)), lenient(resize(320_000)), Op::stat()]), TOO_MUCH);
    assert_eq!(client.result(vec![same(limit / 2), large(b"k", LIMIT / 2)]), TOO_MUCH);
    assert_eq!(client.result(vec![same(limit / 2), Op::set_xattr(b"a", &vec![1; LIMIT / 2 + 1])]), TOO_MUCH);
    assert_eq!(client.result(vec![same(limit / 2), Op::omap_set_header(vec![1; LIMIT / 2 + 1].into())]), TOO_MUCH);
    assert_eq!(size(&mut client), before, "nothing has changed");
    assert_eq!(client.result(vec![same(limit)]), 0);
    assert_eq!(client.result(vec![large(b"k", LIMIT - 20)]), 0, "whole, as data");
    assert_eq!(size(&mut client), limit);
    assert_eq!(client.cluster.client_bytes(A), 0);
}

#[test]
fn a_pattern_that_is_written_again_and_again_takes_little_memory() {
    let mut client = Client::new();
    for (pattern, length) in [(1, 150_001), (3, 150_000), (70_000, 140_000), (4096, 131_072)] {
        let bytes: Vec<u8> = (0..pattern).map(|i| (i % 251) as u8).collect();
        assert_eq!(client.result(vec![Op::write_same(5, length as u64, bytes.clone())]), 0);
        let read = client.ask(vec![Op::read(5, length as u64)]).ops[0].outdata.to_vec();
        assert!(read.len() == length && read.chunks(pattern).all(|chunk| chunk == &bytes[..chunk.len()]));
    }
    // Larger than an operation may be, and than memory is.
    assert_eq!(client.result(vec![Op::write_same(0, (4 << 30) - 1, vec![1])]), TOO_BIG);
    assert_eq!(client.result(vec![Op::write_same(0, 1 << 30, vec![1])]), TOO_BIG);
}

#[test]
fn what_an_operation_gives_is_bounded_whatever_gives_it() {
    let mut client = bounded();
    assert_eq!(client.result(vec![Op::write_full(vec![1; 9000])]), 0);
    // Eight bytes for each that is read.
    let checksums = || Op::checksum(wire::messages::Checksum::XXHASH64, 0, 9000, 1);
    assert_eq!(client.result(vec![checksums()]), 0);
    assert_eq!(client.result(vec![checksums(), checksums()]), TOO_MUCH);
    for cookie in 1..=40 {
        assert_eq!(client.result(vec![Op::watch(cookie, Watch::WATCH, 0)]), 0);
    }
    let watchers = client.ask(vec![Op::list_watchers()]).ops[0].outdata.len();
    let reply = client.ask(vec![Op::list_watchers(); LIMIT / watchers + 1]);
    assert_eq!(reply.result, TOO_MUCH, "{watchers} bytes each");
    for seq in 1..=40 {
        client.cluster.snaps = SnapContext { seq: SnapId(seq), snaps: (1..=seq).rev().map(SnapId).collect() };
        assert_eq!(client.result(vec![Op::write(1000 * seq, vec![1; 10])]), 0);
    }
    client.cluster.snaps = SnapContext::default();
    client.cluster.snap = SnapId::DIR;
    let snaps = client.ask(vec![Op::list_snaps()]).ops[0].outdata.len();
    let reply = client.ask(vec![Op::list_snaps(); LIMIT / snaps + 1]);
    assert_eq!(reply.result, TOO_MUCH, "{snaps} bytes each");
    client.cluster.snap = SnapId::HEAD;
    assert_eq!(client.cluster.client_bytes(A), 0);
}

#[test]
fn an_operation_has_a_bounded_number_of_steps() {
    let mut client = Client::new();
    assert_eq!(client.result(vec![Op::create(false); 1024]), 0);
    assert_eq!(client.result(vec![Op::create(false); 1025]), Errno::E2BIG.as_result());
    assert_eq!(client.result(vec![Op::stat(); 1025]), Errno::E2BIG.as_result());
}

#[test]
fn what_is_copied_counts_for_the_operation_that_copies() {
    let mut client = bounded();
    let (name, other) = (Bytes::from_static(b"source"), Bytes::from_static(b"large"));
    let (session, epoch) = (client.session, client.cluster.map.epoch);
    let hash =
        |client: &Client, name: &Bytes| client.cluster.map.object_to_pg(name, &Locator::pool(POOL)).expect("placed").1;
    for (tid, name, bytes) in [(5000, &name, 60_000), (5001, &other, 60_000), (5002, &other, LIMIT - 60_000)] {
        let object = (hash(&client, name), &name[..]);
        client.cluster.ask_of(A, session, tid, epoch, 0, object, Op::append(vec![3; bytes]));
        client.cluster.settle();
    }
    let copy = |name: &Bytes| Op::copy_from(name.clone(), Locator::pool(POOL), SnapId::HEAD, 0);
    assert_eq!(client.result(vec![copy(&name)]), 0);
    assert_eq!(client.result(vec![copy(&name), copy(&name)]), TOO_BIG);
    assert_eq!(size(&mut client), 60_000);
    assert_eq!(client.result(vec![copy(&other), lenient(copy(&name))]), 0, "there is no room for the other one");
    assert_eq!(size(&mut client), LIMIT as u64);
    assert_eq!(client.cluster.client_bytes(A), 0);
}

/// Carries out an update, and returns what its client is told then and when it asks again.
fn twice(client: &mut Client, flags: OpFlags, ops: Vec<Op>) -> [OsdOpReply; 2] {
    client.tid += 1;
    let tid = client.tid;
    [0, 1].map(|attempt| {
        client.cluster.ask_again(A, client.session, tid, (attempt, flags), ops.clone());
        client.cluster.settle();
        let at = client.cluster.answers.iter().position(|answer| answer.tid == tid).expect("it is answered");
        client.cluster.answers.remove(at).reply
    })
}

fn steps(reply: &OsdOpReply) -> Vec<(i32, usize)> {
    reply.ops.iter().map(|op| (op.result, op.outdata.len())).collect()
}

#[test]
fn outputs_are_kept_for_repeats_only_where_they_are_wanted_and_short() {
    let mut client = Client::new();
    assert_eq!(client.result(vec![Op::write_full(vec![1; 5000])]), 0);
    let exists = Errno::EEXIST.as_result();
    let fails = || vec![Op::read(0, 64), Op::read(0, 65), Op::create(true)];
    // The first answer has them all; a failure has no bound.
    let full = vec![(0, 64), (0, 65), (exists, 0)];
    let [first, again] = twice(&mut client, OpFlags::RETURNVEC, fails());
    assert_eq!((first.result, steps(&first)), (exists, full.clone()));
    assert_eq!((again.result, steps(&again)), (exists, vec![(0, 64), (0, 0), (exists, 0)]));
    let [first, again] = twice(&mut client, OpFlags::default(), fails());
    assert_eq!((first.result, steps(&first)), (exists, full));
    assert_eq!((again.result, steps(&again)), (exists, vec![(0, 0), (0, 0), (exists, 0)]));
    // An update that succeeds.
    let call = |method| vec![Op::call_method("hello", method, b""), Op::set_xattr(b"a", b"b")];
    let [first, again] = twice(&mut client, OpFlags::RETURNVEC, call("write_return_data"));
    assert_eq!((first.result, steps(&first)), (0, vec![(42, 18), (0, 0)]));
    assert_eq!((again.result, steps(&again)), (0, vec![(42, 18), (0, 0)]));
}

#[test]
fn an_update_that_would_give_too_much_gives_none_of_it_and_changes_nothing() {
    let mut client = Client::new();
    assert_eq!(client.result(vec![Op::write_full(vec![1; 5000])]), 0);
    let overflow = Errno::EOVERFLOW.as_result();
    let ops = || vec![Op::read(0, 64), lenient(Op::read(0, 65)), Op::set_xattr(b"a", b"b"), Op::read(0, 66)];
    for reply in twice(&mut client, OpFlags::RETURNVEC, ops()) {
        assert_eq!((reply.result, steps(&reply)), (overflow, vec![(0, 64), (overflow, 0), (0, 0), (overflow, 0)]));
    }
    assert_eq!(client.result(vec![Op::get_xattr(b"a")]), Errno::ENODATA.as_result());
}
