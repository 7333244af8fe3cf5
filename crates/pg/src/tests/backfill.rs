//! Members that are brought to what the others have object by object, with all that can come between.

use super::cluster::{Cluster, PG, appending};
use crate::messages::healing::PgObjects;
use crate::ops::Limits;
use std::collections::BTreeMap;
use std::time::Duration;
use types::{ObjectId, OsdId};
use wire::Message;
use wire::messages::Op;
use wire::nacre::mon::pg_state;

const A: OsdId = OsdId(0);
const B: OsdId = OsdId(1);
const C: OsdId = OsdId(2);
const D: OsdId = OsdId(3);

/// A cluster whose group's first primary is `A`, and what its objects should hold.
struct Written {
    cluster: Cluster,
    contents: BTreeMap<u32, String>,
    tid: u64,
}

fn limits() -> Limits {
    Limits { backfill_objects: 3, log_entries_min: 40, ..Limits::default() }
}

fn name(n: u32) -> Vec<u8> {
    format!("o{n}").into_bytes()
}

impl Written {
    fn new(osds: i32, seed: u64, objects: u32) -> Written {
        let mut written =
            Written { cluster: Cluster::limited(osds, seed, limits()), contents: BTreeMap::new(), tid: 0 };
        for n in 0..objects {
            written.append(n);
        }
        written.cluster.settle();
        written
    }

    fn ask(&mut self, n: u32, op: Op) {
        self.tid += 1;
        let session = self.cluster.connect(A);
        let epoch = self.cluster.map.epoch;
        self.cluster.ask_of(A, session, self.tid, epoch, 0, (n, &name(n)), op);
    }

    fn append(&mut self, n: u32) {
        self.ask(n, appending(self.tid + 1));
        *self.contents.entry(n).or_default() += &format!("{},", self.tid);
    }

    fn remove(&mut self, n: u32) {
        self.ask(n, Op::delete());
        self.contents.remove(&n);
    }

    fn heal(&mut self) {
        self.cluster.heal(3);
    }

    fn move_group(&mut self, acting: &[i32]) {
        self.cluster.move_group(acting);
        self.cluster.update_all();
    }

    fn set_up(&mut self, osd: OsdId, up: bool) {
        match up {
            true => self.cluster.mark_up(osd.0),
            false => self.cluster.mark_down(osd.0),
        };
        self.cluster.update_all();
    }

    /// Lets so many things happen in the cluster.
    fn some(&mut self, steps: u64) {
        (0..steps).for_each(|pick| self.cluster.step(pick));
    }

    fn pushed_to(&self, osd: OsdId) -> Vec<ObjectId> {
        let to = self.cluster.pushed.iter().filter(|(to, object)| *to == osd && !object.max);
        to.map(|(_, object)| object.clone()).collect()
    }

    /// Checks that clients read every object as it was written if `primary` leads, `others` being the other members.
    fn check(&mut self, primary: OsdId, others: [OsdId; 2]) {
        self.move_group(&[primary.0, others[0].0, others[1].0]);
        self.heal();
        assert!(self.cluster.is_active(primary), "{primary} leads");
        let session = self.cluster.connect(primary);
        for n in 0..40 {
            let tid = 1_000_000 + self.cluster.answers.len() as u64;
            let epoch = self.cluster.map.epoch;
            self.cluster.ask_of(primary, session, tid, epoch, 0, (n, &name(n)), Op::read(0, 0));
            self.cluster.settle();
            let answers = self.cluster.answers_to(tid);
            let [(_, result, content)] = &answers[..] else { panic!("object {n}: {answers:?}") };
            let found = (*result >= 0).then_some(content);
            assert_eq!(found, self.contents.get(&n), "object {n} by {primary}: {result}");
        }
    }
}

#[test]
fn a_new_member_gets_everything_and_goes_on_where_it_was_interrupted() {
    let mut written = Written::new(4, 7, 30);
    written.move_group(&[0, 1, 3]);
    let mut steps = 0;
    while written.pushed_to(D).len() < 15 {
        written.some(5);
        steps += 1;
        assert!(steps < 10_000, "{:?}", written.cluster.pushed);
    }
    (0..30).step_by(4).for_each(|n| written.append(n));
    written.some(20);
    written.set_up(D, false);
    written.heal();
    let before = written.pushed_to(D);
    assert!((12..25).contains(&before.len()), "{}", before.len());
    // An object that is there, perhaps, and objects that are not.
    written.append(0);
    written.remove(1);
    written.append(31);
    written.heal();
    written.set_up(D, true);
    written.heal();
    let all = written.pushed_to(D).len();
    let again = all - 30;
    assert!(again <= 12, "{all} objects were sent, {} of them before the interruption", before.len());
    written.check(D, [A, B]);
}

/// The group's state as its primary tells it.
fn state(cluster: &mut Cluster) -> u64 {
    cluster.shard(A).pg_view(PG).expect("it leads").state
}

#[test]
fn a_primary_that_cannot_list_its_objects_rests_and_tries_again_later() {
    let mut written = Written::new(4, 7, 30);
    written.move_group(&[0]);
    written.heal();
    written.cluster.damage_metadata(A);
    written.move_group(&[0, 3]);
    // It ends.
    written.cluster.settle();
    assert_eq!(written.pushed_to(D), []);
    assert_eq!(state(&mut written.cluster) & pg_state::BACKFILLING, 0, "others have their turn");
    written.cluster.pass(Duration::from_secs(301));
    assert_eq!(state(&mut written.cluster) & pg_state::BACKFILLING, 0);
}

#[test]
fn a_member_that_does_not_tell_what_it_has_is_left_for_a_while() {
    let mut written = Written::new(3, 7, 30);
    written.set_up(C, false);
    written.heal();
    (0..60).for_each(|n| written.append(n % 7));
    written.heal();
    written.set_up(C, true);
    for step in 0.. {
        written.cluster.step(step);
        if !written.cluster.in_transit_of(C, A, PgObjects::TYPE).is_empty() {
            break;
        }
        assert!(step < 100_000, "its objects are asked for");
    }
    // As if it could not list them.
    written.cluster.lose(C, A);
    written.cluster.settle();
    let is_backfilled = |written: &mut Written| state(&mut written.cluster) & pg_state::BACKFILLING != 0;
    assert!(is_backfilled(&mut written));
    written.cluster.pass(Duration::from_secs(30));
    assert!(is_backfilled(&mut written), "it may take its time");
    written.cluster.pass(Duration::from_secs(31));
    assert!(!is_backfilled(&mut written), "others have their turn");
    assert_eq!(written.pushed_to(C), []);
    // It is asked again, and answers.
    written.cluster.pass(Duration::from_secs(301));
    written.heal();
    assert_ne!(written.pushed_to(C), []);
    written.check(C, [A, B]);
}

#[test]
fn what_a_member_that_is_far_behind_has_is_not_sent_again() {
    let mut written = Written::new(3, 7, 30);
    written.set_up(C, false);
    written.heal();
    for round in 0..30 {
        [3, 4, 5].into_iter().for_each(|n| written.append(n));
        if round == 10 {
            written.remove(7);
            written.append(35);
        }
        written.cluster.settle();
    }
    written.set_up(C, true);
    written.heal();
    let mut pushed = written.pushed_to(C);
    pushed.sort_unstable();
    pushed.dedup();
    let mut names: Vec<_> = pushed.iter().map(|object| object.name.clone()).collect();
    names.sort_unstable();
    assert_eq!(names, [3, 35, 4, 5, 7].map(name), "the log does not tell, comparing does");
    written.check(C, [A, B]);
}

#[test]
fn whatever_comes_between_nothing_is_lost() {
    for seed in 0..30u64 {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        let mut written = Written::new(4, seed, 20);
        written.move_group(&[0, 1, 3]);
        let mut up = true;
        for _ in 0..40 {
            let n = next(40) as u32;
            match next(14) {
                0..5 => written.append(n),
                5 if written.contents.contains_key(&n) => written.remove(n),
                6 => {
                    up = !up;
                    written.set_up(D, up);
                }
                7 => (0..next(60)).for_each(|_| written.append(n % 3)),
                8 => {
                    let others = [[1, 3], [1, 2], [2, 3], [3, 2]][next(4) as usize];
                    written.move_group(&[0, others[0], others[1]]);
                }
                9 => written.cluster.pass(Duration::from_millis(next(6000))),
                _ => {
                    for _ in 0..next(60) {
                        let pick = next(1000);
                        written.cluster.step(pick);
                    }
                }
            }
        }
        if !up {
            written.set_up(D, true);
        }
        written.move_group(&[0, 1, 3]);
        written.heal();
        written.check(D, [A, B]);
        written.check(B, [D, A]);
    }
}
