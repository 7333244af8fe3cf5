//! The store's lookups wait for the device, one after another, while everything else goes on.

use super::cluster::{Cluster, PG, POOL, appending};
use crate::group::info::{INFO_KEY, PgInfo};
use crate::group::lookup::NoAnswer;
use crate::ops::{ListError, ListingRun};
use bytes::Bytes;
use std::time::Duration;
use store::{Memory, Step, Store, Transaction};
use types::{EVersion, Epoch, Errno, ObjectId, OsdId};
use wire::messages::{Op, op_flag};
use wire::{Encode, Target};

const A: OsdId = OsdId(0);
const B: OsdId = OsdId(1);

/// Multiplicative congruential numbers: good enough to choose what happens next.
struct Choices(u64);

impl Choices {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }

    fn steps(&mut self, cluster: &mut Cluster, max: u64) {
        for _ in 0..self.below(max) {
            let pick = self.below(1 << 30);
            cluster.step(pick);
        }
    }
}

fn appended(tids: impl Iterator<Item = u64>) -> String {
    tids.map(|tid| format!("{tid},")).collect()
}

#[test]
fn updates_keep_their_order_and_reads_see_those_before_them() {
    for seed in 0..60 {
        let mut cluster = Cluster::seeded(4, seed);
        let mut choices = Choices(seed);
        let session = cluster.connect(A);
        let mut appends = Vec::new();
        let mut reads = Vec::new();
        for tid in 1..=40 {
            let epoch = cluster.map.epoch;
            match choices.below(3) {
                0 => {
                    reads.push((tid, appended(appends.iter().copied())));
                    cluster.read(A, session, tid, epoch);
                }
                _ => {
                    appends.push(tid);
                    cluster.append(A, session, tid, epoch);
                }
            }
            choices.steps(&mut cluster, 6);
            // The members change; the primary stays.
            if choices.below(12) == 0 {
                cluster.move_group([[0, 1, 2], [0, 3, 1], [0, 2, 3]][choices.below(3) as usize].as_slice());
                cluster.update_all();
                choices.steps(&mut cluster, 40);
            }
        }
        cluster.settle();
        // Messages that were lost on their way between intervals are sent again.
        cluster.pass(Duration::from_secs(4));
        assert!(cluster.is_active(A), "seed {seed}");
        for (tid, expected) in reads {
            // A read that is older than the first update finds nothing.
            let result = if expected.is_empty() { Errno::ENOENT.as_result() } else { 0 };
            assert_eq!(cluster.answers_to(tid), [(session, result, expected)], "seed {seed}, read {tid}");
        }
        for tid in &appends {
            assert_eq!(cluster.answers_to(*tid), [(session, 0, String::new())], "seed {seed}, update {tid}");
        }
        let answered = cluster.answers.iter().map(|answer| answer.tid).filter(|tid| appends.contains(tid));
        assert!(answered.is_sorted(), "seed {seed}");
        assert_eq!(cluster.content(A), appended(appends.into_iter()), "seed {seed}");
        assert_eq!(cluster.client_bytes(A), 0, "seed {seed}");
    }
}

#[test]
fn operations_of_a_group_that_is_left_and_comes_back_do_not_meet_those_sent_again() {
    for seed in 0..60 {
        let mut cluster = Cluster::seeded(4, seed);
        let mut choices = Choices(seed);
        let session = cluster.connect(A);
        let first = cluster.map.epoch;
        for tid in 1..=6 {
            cluster.append(A, session, tid, first);
            cluster.read(A, session, 100 + tid, first);
            choices.steps(&mut cluster, 4);
        }
        cluster.answers.clear();
        let first_left = 1 + choices.below(6);
        // The disk of A answers only when all is over.
        cluster.stuck_disks = [A].into();
        cluster.move_group(&[1, 2, 3]);
        cluster.update_all();
        cluster.move_group(&[0, 1, 2]);
        cluster.update_all();
        let again = cluster.map.epoch;
        for tid in first_left..=6 {
            cluster.ask(A, session, tid, again, 1, appending(tid));
            cluster.ask(A, session, 100 + tid, again, 1, Op::read(0, 0));
        }
        choices.steps(&mut cluster, 30);
        cluster.stuck_disks.clear();
        cluster.settle();
        cluster.pass(Duration::from_secs(4));
        assert!(cluster.is_active(A), "seed {seed}");
        for tid in first_left..=6 {
            assert_eq!(cluster.answers_to(tid), [(session, 0, String::new())], "seed {seed}, update {tid}");
            let [(_, 0, seen)] = &cluster.answers_to(100 + tid)[..] else {
                panic!("seed {seed}: {:?}", cluster.answers)
            };
            assert!(seen.ends_with(&format!("{tid},")) || tid < 6, "seed {seed}: read {tid} saw {seen}");
        }
        let content = cluster.content(A);
        let tids: Vec<u64> = content.split_terminator(',').map(|tid| tid.parse().unwrap()).collect();
        assert!(tids.ends_with(&(first_left..=6).collect::<Vec<_>>()), "seed {seed}: {content}");
        assert!(tids.is_sorted_by(|a, b| a < b), "seed {seed}, once each: {content}");
        assert_eq!(cluster.client_bytes(A), 0, "seed {seed}");
    }
}

#[test]
fn a_group_that_loads_holds_what_comes_and_then_serves_it() {
    let mut waited = 0;
    for seed in 0..20 {
        let mut cluster = Cluster::seeded(4, seed);
        let session = cluster.connect(A);
        for tid in 1..=5 {
            cluster.append(A, session, tid, Epoch(1));
        }
        cluster.settle();
        cluster.move_group(&[1, 2, 3]);
        cluster.update_all();
        cluster.settle();
        // A and B read their tables at the same time; A is asked by B, then asks it.
        cluster.stuck_disks = [A].into();
        cluster.move_group(&[1, 0, 2]);
        cluster.update_all();
        cluster.settle();
        waited += u32::from(!cluster.is_active(B));
        let early = cluster.move_group(&[0, 1, 2]);
        cluster.update_all();
        cluster.append(A, session, 6, early);
        cluster.settle();
        cluster.stuck_disks.clear();
        cluster.settle();
        assert!(cluster.is_active(A), "seed {seed}: without anything said again");
        assert_eq!(cluster.answers_to(6), [(session, 0, String::new())], "seed {seed}");
        assert_eq!(cluster.content(A), "1,2,3,4,5,6,", "seed {seed}");
    }
    assert!(waited > 5, "{waited} groups had to wait for their tables");
}

#[test]
fn a_group_that_is_left_or_removed_while_it_loads_is_gone() {
    for seed in 0..20 {
        for remove in [false, true] {
            let mut cluster = Cluster::seeded(4, seed);
            let session = cluster.connect(A);
            cluster.append(A, session, 1, Epoch(1));
            cluster.settle();
            cluster.move_group(&[1, 2, 3]);
            cluster.update_all();
            cluster.settle();
            cluster.stuck_disks = [A].into();
            let back = cluster.move_group(&[0, 1, 2]);
            cluster.update_all();
            cluster.append(A, session, 2, back);
            match remove {
                true => cluster.change(|next| next.old_pools.extend([POOL])),
                false => cluster.move_group(&[1, 2, 3]),
            };
            cluster.update_all();
            cluster.stuck_disks.clear();
            cluster.settle();
            assert!(cluster.answers_to(2).is_empty(), "seed {seed}");
            assert_eq!(cluster.client_bytes(A), 0, "seed {seed}");
            assert_eq!(cluster.store(A).pgs_contain(PG), !remove, "seed {seed}");
        }
    }
}

#[test]
#[should_panic(expected = "its log ends at 1'1 and its information at 1'9")]
fn a_table_that_does_not_fit_together_stops_the_osd() {
    let mut cluster = Cluster::new(4);
    let session = cluster.connect(A);
    cluster.append(A, session, 1, Epoch(1));
    cluster.settle();
    cluster.move_group(&[1, 2, 3]);
    cluster.update_all();
    let info = PgInfo { last_update: EVersion::new(1, 9), ..PgInfo::default() };
    let steps = vec![Step::PgSet { key: INFO_KEY, value: info.to_vec(Target::default()).into() }];
    cluster.store(A).submit(Transaction { pg: PG, steps }).unwrap();
    cluster.move_group(&[0, 1, 2]);
    cluster.update_all();
    cluster.settle();
}

#[test]
fn an_object_whose_metadata_is_damaged_gives_eio_and_nothing_else_does() {
    let mut cluster = Cluster::new(3);
    let session = cluster.connect(A);
    cluster.append(A, session, 1, Epoch(1));
    cluster.settle();
    cluster.damage_metadata(A);
    cluster.read(A, session, 2, Epoch(1));
    cluster.append(A, session, 3, Epoch(1));
    cluster.settle();
    for tid in [2, 3] {
        assert_eq!(cluster.answers_to(tid), [(session, Errno::EIO.as_result(), String::new())]);
    }
    assert_eq!(cluster.client_bytes(A), 0);
}

#[test]
fn an_operation_that_meets_a_store_that_has_stopped_is_not_answered() {
    for seed in 0..20 {
        let mut cluster = Cluster::seeded(3, seed);
        cluster.may_stop = [A].into();
        let session = cluster.connect(A);
        cluster.append(A, session, 1, Epoch(1));
        cluster.settle();
        cluster.device_of(A).fail_flushes(1);
        // The first one makes the store stop; the others wait for lookups, or come while it does.
        for tid in 2..=5 {
            cluster.append(A, session, tid, Epoch(1));
        }
        cluster.settle();
        assert!(cluster.stopped.contains(&A), "seed {seed}");
        assert!((2..=5).all(|tid| cluster.answers_to(tid).is_empty()), "seed {seed}: {:?}", cluster.answers);
    }
}

#[test]
fn a_lookup_that_meets_damage_shifts_no_other_answer() {
    let key = |n: u32| if n == 30 { "k30-damaged".to_owned() } else { format!("k{n:02}") };
    let value = |n: u32| Bytes::from(vec![b'a' + (n % 26) as u8; 1500]);
    let by_key = |n: u32| Op::omap_get_vals_by_keys(&[Bytes::from(key(n))].into());
    let lenient = |op: Op| Op { flags: op_flag::FAILOK, ..op };
    for seed in 0..12 {
        let mut cluster = Cluster::seeded(3, seed);
        let session = cluster.connect(A);
        let entries = (0..60).map(|n| (Bytes::from(key(n)), value(n))).collect();
        cluster.ask_all(A, session, 1, vec![Op::write_full(vec![b'x'; 9000]), Op::omap_set_vals(&entries)]);
        cluster.settle();
        cluster.damage_metadata_with(A, b"-damaged");
        let values = vec![lenient(by_key(30)), by_key(2), by_key(55), by_key(2)];
        for (tid, mut ops) in [(2, values), (3, vec![lenient(by_key(30)), Op::read(0, 9000)])] {
            if seed % 2 == 1 {
                ops.push(lenient(by_key(30)));
            }
            cluster.ask_all(A, session, tid, ops);
            cluster.settle();
        }
        let of = |tid| &cluster.answers.iter().find(|answer| answer.tid == tid).expect("it is answered").reply;
        let given = |tid: u64, step: usize| of(tid).ops[step].outdata.to_vec();
        for tid in [2, 3] {
            assert_eq!((of(tid).result, of(tid).ops[0].result), (0, Errno::EIO.as_result()), "seed {seed}, {tid}");
            assert!(given(tid, 0).is_empty());
        }
        for (step, n) in [(1, 2), (2, 55), (3, 2)] {
            assert!(given(2, step).ends_with(&value(n)), "seed {seed}: value {n}");
        }
        assert!(given(3, 1) == vec![b'x'; 9000], "seed {seed}");
        assert_eq!(cluster.client_bytes(A), 0);
    }
}

/// Pages of at most `max` objects of a namespace, one after another.
fn list(cluster: &mut Cluster, nspace: &[u8], max: u64) -> Vec<ObjectId> {
    let (mut all, mut cursor) = (Vec::new(), ObjectId::min());
    loop {
        let mut run = ListingRun::default();
        let page = loop {
            match run.run(cluster.store(A), (PG, 1), &cursor, (nspace, None), max) {
                Ok(page) => break page,
                Err(ListError::NoAnswer(NoAnswer::Pending(_))) => {
                    cluster.turn(A);
                    cluster.settle();
                }
                Err(other) => panic!("{other:?}"),
            }
        };
        assert!(page.at_end || page.objects.len() as u64 == max);
        all.extend(page.objects);
        if page.at_end {
            return all;
        }
        cursor = page.next;
    }
}

#[test]
fn a_listing_that_passes_over_many_objects_goes_on_where_it_waited() {
    let mut cluster = Cluster::new(3);
    let memory = Memory { page_bytes: 16 << 10, onode_bytes: 0, overlay_bytes: 16 << 10 };
    cluster.store(A).set_memory(memory);
    let mut rare = Vec::new();
    for batch in 0..13u32 {
        let store: &mut Store = cluster.store(A);
        let objects = (0..256).map(|i| {
            let n = batch * 256 + i;
            let nspace: &[u8] = if n % 300 == 7 { b"rare" } else { b"" };
            ObjectId::head(POOL, n << 20, nspace, format!("o{n}").as_bytes())
        });
        let objects: Vec<ObjectId> = objects.collect();
        rare.extend(objects.iter().filter(|object| object.nspace == b"rare").cloned());
        let steps = objects.into_iter().map(|object| Step::Touch { object }).collect();
        store.submit(Transaction { pg: PG, steps }).unwrap();
        cluster.turn(A);
        cluster.settle();
    }
    rare.sort();
    for max in [3, 100] {
        assert_eq!(list(&mut cluster, b"rare", max), rare);
    }
}
