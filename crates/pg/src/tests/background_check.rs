//! Blocks that rot are found.

use super::cluster::{Cluster, PG, POOL};
use crate::scrub::background_check::{CHECK_KEY, CheckMark};
use std::time::Duration;
use store::Step;
use types::{ObjectId, OsdId};
use wire::nacre::mon::pg_state;
use wire::{Decode, Rope};

const A: OsdId = OsdId(0);
const OBJECTS: u32 = 40;
/// Five blocks, the last one not full.
const BYTES: usize = 20_000;
const PERIOD: Duration = Duration::from_secs(100);

fn object(n: u32) -> ObjectId {
    ObjectId::head(POOL, n << 20, b"", format!("o{n}").as_bytes())
}

fn write(cluster: &mut Cluster, n: u32) {
    let data = Rope::from(vec![n as u8; BYTES]);
    cluster.change_store(A, vec![Step::Write { object: object(n), offset: 0, data }]);
}

fn filled() -> Cluster {
    let mut cluster = Cluster::new(3);
    (0..OBJECTS).for_each(|n| write(&mut cluster, n));
    cluster.shard(A).set_check_period(PERIOD);
    cluster
}

fn mark(cluster: &mut Cluster) -> Option<CheckMark> {
    let kept = cluster.ready(A, |store| store.pg_get(PG, &CHECK_KEY));
    kept.map(|kept| CheckMark::from_slice(&kept).unwrap())
}

fn pass(cluster: &mut Cluster, seconds: u32) {
    (0..seconds).for_each(|_| cluster.pass(Duration::from_secs(1)));
}

/// Returns true if the group's newest report calls it inconsistent; `None` if there is no report.
fn is_inconsistent(cluster: &mut Cluster) -> Option<bool> {
    let reports = cluster.shard(A).beacon(0, 0).pgs;
    let report = reports.iter().find(|report| report.pgid == PG)?;
    assert_eq!(report.state & !pg_state::INCONSISTENT, pg_state::ACTIVE | pg_state::CLEAN);
    Some(report.state & pg_state::INCONSISTENT != 0)
}

#[test]
fn everything_is_read_once_in_the_time_given() {
    let mut cluster = filled();
    pass(&mut cluster, 50);
    let half = cluster.shard(A).check_counts();
    assert!((OBJECTS / 2 - 2..OBJECTS / 2 + 3).contains(&(half.objects as u32)), "{half:?}");
    pass(&mut cluster, 52);
    let all = cluster.shard(A).check_counts();
    assert!((OBJECTS..OBJECTS + 3).contains(&(all.objects as u32)), "{all:?}");
    assert!(all.bytes >= u64::from(OBJECTS) * BYTES as u64 && all.bad == 0, "{all:?}");
    assert_eq!(mark(&mut cluster).unwrap().rounds, 1);
    cluster.shard(A).set_check_period(Duration::ZERO);
    pass(&mut cluster, 50);
    assert_eq!(cluster.shard(A).check_counts(), all, "never");
}

#[test]
fn bad_blocks_are_counted_and_make_the_group_inconsistent_until_it_is_sound() {
    let mut cluster = filled();
    is_inconsistent(&mut cluster);
    for (n, offset) in [(3, 4096), (3, 12_288), (30, 16_384)] {
        cluster.spoil(A, &object(n), offset);
    }
    pass(&mut cluster, 104);
    assert_eq!(cluster.shard(A).check_counts().bad, 3);
    assert_eq!(is_inconsistent(&mut cluster), Some(true));
    // A restart does not forget.
    cluster.shard(A).forget_check(PERIOD);
    pass(&mut cluster, 1);
    assert_eq!(mark(&mut cluster).unwrap().bad_before, 3);
    write(&mut cluster, 3);
    write(&mut cluster, 30);
    pass(&mut cluster, 208);
    assert_eq!(cluster.shard(A).check_counts().bad, 0);
    assert_eq!(is_inconsistent(&mut cluster), Some(false));
}

#[test]
fn a_restart_goes_on_where_the_walk_was() {
    for seconds in [10, 37, 80] {
        let mut cluster = filled();
        pass(&mut cluster, seconds);
        let before = cluster.shard(A).check_counts().objects;
        cluster.shard(A).forget_check(PERIOD);
        while mark(&mut cluster).is_none_or(|mark| mark.rounds == 0) {
            pass(&mut cluster, 1);
        }
        let all = before + cluster.shard(A).check_counts().objects;
        assert!((OBJECTS..OBJECTS + 3).contains(&(all as u32)), "{seconds}: {all}");
    }
}

#[test]
fn a_group_that_goes_while_it_is_read_is_forgotten() {
    let mut cluster = Cluster::new(4);
    (0..OBJECTS).for_each(|n| write(&mut cluster, n));
    cluster.shard(A).set_check_period(PERIOD);
    for stuck in [false, true] {
        pass(&mut cluster, 20);
        if stuck {
            cluster.stuck_disks = [A].into();
            pass(&mut cluster, 5);
        }
        cluster.move_group(&[1, 2, 3]);
        cluster.update_all();
        cluster.settle();
        cluster.stuck_disks.clear();
        // The primary does not hear that the copy is here; else it would be removed.
        cluster.cut = [1, 2, 3].map(|osd| (A, OsdId(osd))).into();
        let read = cluster.shard(A).check_counts().objects;
        pass(&mut cluster, 200);
        assert!(cluster.shard(A).check_counts().objects <= read + 1);
        cluster.cut.clear();
        cluster.move_group(&[0, 1, 2]);
        cluster.update_all();
        cluster.settle();
        pass(&mut cluster, 200);
        assert!(cluster.shard(A).check_counts().objects > read + u64::from(OBJECTS) / 2);
    }
}
