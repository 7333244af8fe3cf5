//! Requests that come again long after their group's log has forgotten them.

use super::cluster::{Cluster, PG, appending};
use crate::ops::Limits;
use std::time::Duration;
use types::OsdId;
use wire::messages::Op;

const A: OsdId = OsdId(0);
const B: OsdId = OsdId(1);
const D: OsdId = OsdId(3);
const OBJECTS: u32 = 8;

fn name(hash: u32) -> Vec<u8> {
    format!("o{hash}").into_bytes()
}

fn ask(cluster: &mut Cluster, osd: OsdId, tid: u64, attempt: i32) {
    let (session, epoch) = (cluster.connect(osd), cluster.map.epoch);
    let hash = tid as u32 % OBJECTS;
    // Some fail, and are not carried out the second time either.
    let op = if tid.is_multiple_of(9) { Op::create(true) } else { appending(tid) };
    cluster.ask_of(osd, session, tid, epoch, attempt, (hash, &name(hash)), op);
}

/// Makes a cluster whose group has carried out `updates` requests, and a log of 40 entries.
fn written(osds: i32, seed: u64, updates: u64, limits: Limits) -> Cluster {
    let limits = Limits { log_entries_min: 40, backfill_objects: 3, ..limits };
    let mut cluster = Cluster::limited(osds, seed, limits);
    for tid in 1..=updates {
        ask(&mut cluster, A, tid, 0);
        if tid % 16 == 0 {
            cluster.settle();
        }
    }
    cluster.settle();
    cluster
}

fn contents(cluster: &mut Cluster, osd: OsdId) -> Vec<String> {
    let read = |hash| {
        let tid = 1_000_000 + u64::from(hash);
        cluster.answers.retain(|answer| answer.tid != tid);
        let (session, epoch) = (cluster.connect(osd), cluster.map.epoch);
        cluster.ask_of(osd, session, tid, epoch, 0, (hash, &name(hash)), Op::read(0, 0));
        cluster.settle();
        let [(_, 0, content)] = &cluster.answers_to(tid)[..] else { panic!("{hash}: {:?}", cluster.answers_to(tid)) };
        content.clone()
    };
    (0..OBJECTS).map(read).collect()
}

/// Has every request come again, at the primary `osd`: it gets the answer that it had, and nothing changes.
fn all_come_again(cluster: &mut Cluster, osd: OsdId, updates: u64) {
    let before = contents(cluster, osd);
    for tid in 1..=updates {
        let first: Vec<i32> = cluster.answers_to(tid).iter().map(|(_, result, _)| *result).collect();
        ask(cluster, osd, tid, 1);
        cluster.settle();
        let answers = cluster.answers_to(tid);
        assert!(answers.len() == first.len() + 1 && answers.iter().all(|(_, result, _)| *result == first[0]), "{tid}");
    }
    assert_eq!(contents(cluster, osd), before);
}

#[test]
fn requests_that_the_log_has_trimmed_are_recognised() {
    let mut cluster = written(3, 7, 200, Limits::default());
    all_come_again(&mut cluster, A, 200);
    // Another member knows them as well; and one that reads its table from its store.
    cluster.move_group(&[1, 0, 2]);
    cluster.update_all();
    cluster.settle();
    all_come_again(&mut cluster, B, 200);
    cluster.move_group(&[1, 2]);
    cluster.update_all();
    cluster.settle();
    cluster.move_group(&[0, 1, 2]);
    cluster.update_all();
    cluster.settle();
    all_come_again(&mut cluster, A, 200);
}

#[test]
fn a_member_that_starts_over_gets_them() {
    let mut cluster = written(4, 8, 200, Limits::default());
    cluster.move_group(&[0, 3, 1]);
    cluster.update_all();
    for _ in 0..4 {
        cluster.settle();
        cluster.pass(Duration::from_secs(4));
    }
    cluster.move_group(&[3, 0, 1]);
    cluster.update_all();
    for _ in 0..4 {
        cluster.settle();
        cluster.pass(Duration::from_secs(4));
    }
    assert!(cluster.is_active(D));
    all_come_again(&mut cluster, D, 200);
}

#[test]
fn groups_that_are_split_share_them() {
    let mut cluster = written(3, 9, 200, Limits::default());
    cluster.split(4);
    cluster.update_all();
    cluster.settle();
    all_come_again(&mut cluster, A, 200);
}

#[test]
fn what_they_take_is_limited() {
    for limits in [
        Limits { dups_max: 0, ..Limits::default() },
        Limits { dups_bytes: 20_000, dups_max: 10_000, ..Limits::default() },
    ] {
        let mut cluster = written(3, 7, 400, limits);
        let before = contents(&mut cluster, A);
        ask(&mut cluster, A, 1, 1);
        cluster.settle();
        let mut after = contents(&mut cluster, A);
        assert_eq!(after[1], format!("{}1,", before[1]), "too old to be known");
        after[1].clone_from(&before[1]);
        assert_eq!(after, before);
        // Dups that are removed from memory are removed from the tables as well.
        for osd in [A, B] {
            let entries = cluster.ready(osd, |store| store.pg_list(PG, b"l", b"m", 1000));
            assert!(entries.len() < 250, "{} entries", entries.len());
        }
    }
}
