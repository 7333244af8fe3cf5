//! Hops of operations, as their primary tells them.

use super::cluster::{Cluster, PG, appending};
use crate::hops::{Hop, MemberHops, OpSample, OpState, WaitReasons};
use crate::messages::PgInterval;
use crate::messages::replication::RepOpReply;
use bytes::Bytes;
use std::time::Duration;
use types::{EVersion, Epoch, OsdId};
use wire::{Message, Target};

const A: OsdId = OsdId(0);
const C: OsdId = OsdId(2);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Returns the sample of one operation.
fn sample(cluster: &mut Cluster, tid: u64) -> OpSample {
    let shard = cluster.shard(A);
    shard.recent_ops().find(|op| op.reqid.tid == tid).cloned().expect("with few operations each is kept")
}

fn hop(sample: &OpSample, hop: Hop) -> u32 {
    sample.hops().iter().find(|(name, _)| *name == hop).map_or(0, |(_, us)| *us)
}

/// Checks that the stretches of time follow each other and add up to the whole.
fn hops_add_up(sample: &OpSample) {
    let hops = sample.hops();
    assert!(hops.is_sorted_by_key(|(hop, _)| *hop), "{hops:?}");
    assert_eq!(hops.iter().map(|(_, us)| us).sum::<u32>(), sample.total_us(), "{sample:?}");
}

#[test]
fn an_update_tells_which_member_was_slowest_and_how_long_each_took() {
    let mut cluster = Cluster::new(3);
    let session = cluster.connect(A);
    cluster.stuck_disks.insert(C);
    cluster.append(A, session, 1, Epoch(1));
    cluster.settle();
    let flying = cluster.shard(A).ops_in_flight(10);
    assert_eq!(
        flying.iter().map(|(op, state)| (op.reqid.tid, *state)).collect::<Vec<_>>(),
        [(1, OpState::WaitsForMembers)]
    );
    cluster.later(ms(70));
    cluster.stuck_disks.clear();
    cluster.settle();
    assert_eq!(cluster.answers_to(1).len(), 1);
    let update = sample(&mut cluster, 1);
    hops_add_up(&update);
    assert!(update.is_write && update.sampled && update.result == 0);
    assert_eq!(update.last_member, Some(C));
    assert_eq!(hop(&update, Hop::Replicas), 70_000);
    let mut members: Vec<_> = update.members.iter().map(|m| (m.osd.0, m.acked.0, m.hops.total_us())).collect();
    members.sort_unstable();
    assert_eq!(members, [(1, 0, 0), (2, 70_000, 70_000)]);
    assert!(update.members.iter().all(|member| member.hops.total_us() <= member.acked.0));
    assert!(cluster.shard(A).ops_in_flight(10).is_empty());
}

#[test]
fn the_primarys_own_device_shows_as_its_writes_and_flush() {
    let mut cluster = Cluster::new(3);
    let session = cluster.connect(A);
    cluster.stuck_disks.insert(A);
    cluster.append(A, session, 1, Epoch(1));
    cluster.settle();
    cluster.later(ms(5));
    cluster.stuck_disks.clear();
    cluster.settle();
    let update = sample(&mut cluster, 1);
    hops_add_up(&update);
    // Some lookups go to the device as well.
    let own = [Hop::Lookup, Hop::Read, Hop::Queue, Hop::Write, Hop::Flush];
    assert_eq!(own.iter().map(|name| hop(&update, *name)).sum::<u32>(), 5_000);
    assert_eq!(hop(&update, Hop::Replicas), 0);
}

#[test]
fn an_operation_that_waits_for_its_group_says_so() {
    let mut cluster = Cluster::new(4);
    let session = cluster.connect(A);
    // B is left for D, which does not answer yet.
    cluster.cut.insert((A, OsdId(3)));
    cluster.move_group(&[0, 3, 2]);
    cluster.update_all();
    cluster.settle();
    cluster.ask(A, session, 1, cluster.map.epoch, 0, appending(1));
    assert_eq!(cluster.shard(A).ops_in_flight(10)[0].1, OpState::WaitsForGroup);
    cluster.later(ms(1500));
    cluster.cut.clear();
    cluster.settle();
    assert_eq!(cluster.answers_to(1).len(), 1);
    let update = sample(&mut cluster, 1);
    hops_add_up(&update);
    assert!(update.waits.has(WaitReasons::INACTIVE) && !update.waits.has(WaitReasons::MEMORY));
    assert_eq!(hop(&update, Hop::Wait), 1_500_000);
    assert_eq!(cluster.shard(A).slowest_ops().next().map(|op| op.reqid.tid), Some(1));
}

#[test]
fn a_member_that_was_slow_tells_without_being_asked() {
    let mut cluster = Cluster::new(3);
    // A burst: most of it is not chosen.
    let session = cluster.connect(A);
    for tid in 1..=200 {
        cluster.append(A, session, tid, Epoch(1));
    }
    cluster.settle();
    cluster.stuck_disks.insert(C);
    cluster.append(A, session, 300, Epoch(1));
    cluster.settle();
    cluster.later(ms(400));
    cluster.stuck_disks.clear();
    cluster.settle();
    let slowest = cluster.shard(A).slowest_ops().find(|op| op.reqid.tid == 300).cloned().expect("it was slow");
    assert!(!slowest.sampled);
    hops_add_up(&slowest);
    assert_eq!((slowest.last_member, hop(&slowest, Hop::Replicas)), (Some(C), 400_000));
    let members: Vec<_> = slowest.members.iter().map(|m| (m.osd, m.hops.total_us())).collect();
    assert_eq!(members, [(C, 400_000)], "the other one was quick");
}

/// Acknowledgements that tell no hops have the bytes that they had before there were hops, and are understood.
#[test]
fn acknowledgements_without_hops_are_those_of_version_1() {
    let group = PgInterval { pgid: PG, since: Epoch(7) };
    let version = EVersion { epoch: Epoch(7), version: 3 };
    let hops = MemberHops { receive_us: 1, queue_us: 2, write_us: 3, flush_us: 4 };
    let of = |hops| RepOpReply { durable: vec![(group, version)], hops };
    let front = |message: RepOpReply| message.seal(0, Target::default()).front;
    let (plain, told) = (front(of(Vec::new())), front(of(vec![((group, version), hops)])));
    // Version, oldest version that can read it, length.
    assert_eq!((&plain[..2], &told[..2]), (&[1, 1][..], &[2, 1][..]));
    assert_eq!(plain.len() - 6, 4 + 21 + 12);
    assert_eq!(told[6..][..plain.len() - 6], plain[6..], "version 2 only adds to it");
    let open = |front: Bytes| {
        let header = wire::Header { kind: RepOpReply::TYPE, ..Default::default() };
        RepOpReply::open(&wire::Envelope { header, front, ..Default::default() })
    };
    assert_eq!(open(plain).unwrap(), of(Vec::new()));
    assert_eq!(open(told.clone()).unwrap(), of(vec![((group, version), hops)]));
    for end in 0..told.len() {
        assert!(open(told.slice(..end)).is_err(), "{end} bytes of {}", told.len());
    }
}
