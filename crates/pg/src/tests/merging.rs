//! Groups that are merged while clients use them and members come and go.

use super::cluster::{Cluster, PG};
use super::split::{append, append_all, content, contents, expected, split};
use std::time::Duration;
use types::{OsdId, PgId};

const A: OsdId = OsdId(0);
const B: OsdId = OsdId(1);
const C: OsdId = OsdId(2);
const D: OsdId = OsdId(3);

const OBJECTS: u64 = 16;

fn group(seed: u32) -> PgId {
    PgId { seed, ..PG }
}

/// Has groups stop; those of `osds` learn of it, and the others do not.
fn stop(cluster: &mut Cluster, pending: u32, osds: &[OsdId]) {
    cluster.prepare_merge(pending);
    osds.iter().for_each(|osd| cluster.update(*osd));
    cluster.settle();
    cluster.pass(Duration::from_secs(4));
}

fn merge(cluster: &mut Cluster, pending: u32) {
    let all: Vec<OsdId> = [A, B, C].into();
    stop(cluster, pending, &all);
    cluster.merge();
    cluster.update_all();
    cluster.settle();
}

fn objects(cluster: &mut Cluster, osd: OsdId) -> u64 {
    let views = (0..16).filter_map(|seed| cluster.shard(osd).pg_view(group(seed)));
    views.map(|view| view.objects).sum()
}

#[test]
fn objects_stay_where_they_are_and_are_found() {
    for (from, steps) in [(2, &[1][..]), (8, &[4, 2, 1]), (12, &[9, 8, 5, 4, 3]), (16, &[8])] {
        let mut cluster = Cluster::new(3);
        append_all(&mut cluster, A, 1000);
        split(&mut cluster, from);
        append_all(&mut cluster, A, 2000);
        for pg_num in steps {
            merge(&mut cluster, *pg_num);
            assert!(cluster.all_active(A), "{pg_num}");
            for osd in [A, B, C] {
                assert_eq!(cluster.shard(osd).store().pgs().len(), *pg_num as usize);
            }
            assert_eq!(objects(&mut cluster, A), OBJECTS);
        }
        assert_eq!(contents(&mut cluster, A), expected(&[1000, 2000]));
        append_all(&mut cluster, A, 3000);
        split(&mut cluster, 7);
        append_all(&mut cluster, A, 4000);
        merge(&mut cluster, 4);
        assert_eq!(contents(&mut cluster, A), expected(&[1000, 2000, 3000, 4000]));
        assert!(cluster.pushed.is_empty() && cluster.temps.is_empty(), "{from} {steps:?}");
        assert_eq!(cluster.client_bytes(A), 0);
    }
}

#[test]
fn nobody_is_answered_while_groups_wait_and_the_others_go_on() {
    let mut cluster = Cluster::new(3);
    split(&mut cluster, 4);
    append_all(&mut cluster, A, 1000);
    let before = cluster.map.epoch;
    stop(&mut cluster, 3, &[A, B, C]);
    // Groups 1 and 3 become one.
    for hash in 0..4 {
        append(&mut cluster, A, 2000 + u64::from(hash), before, 0, hash);
    }
    cluster.settle();
    let answered = |cluster: &Cluster| (0..4).map(|n| cluster.answers_to(2000 + n).len()).collect::<Vec<_>>();
    assert_eq!(answered(&cluster), [1, 0, 1, 0]);
    // Groups are not merged this time: what waited is carried out.
    cluster.prepare_merge(4);
    cluster.update_all();
    cluster.settle();
    assert_eq!(answered(&cluster), [1, 1, 1, 1], "clients have no reason to send it again");
    stop(&mut cluster, 3, &[A, B, C]);
    append(&mut cluster, A, 3001, None, 0, 1);
    append(&mut cluster, A, 3003, None, 0, 3);
    cluster.settle();
    cluster.merge();
    cluster.update_all();
    cluster.settle();
    assert!(cluster.answers_to(3001).is_empty(), "the client sends it again");
    for hash in [1, 3] {
        append(&mut cluster, A, 3000 + u64::from(hash), None, 1, hash);
        cluster.settle();
        let tid = 1000 + hash;
        assert_eq!(content(&mut cluster, A, hash), format!("{tid},{},{},", tid + 1000, tid + 2000));
    }
}

#[test]
fn requests_are_known_in_the_merged_group() {
    let mut cluster = Cluster::new(3);
    append_all(&mut cluster, A, 1000);
    split(&mut cluster, 4);
    append_all(&mut cluster, A, 2000);
    merge(&mut cluster, 2);
    merge(&mut cluster, 1);
    for first in [1000, 2000] {
        for hash in 0..OBJECTS {
            append(&mut cluster, A, first + hash, None, 1, hash as u32);
            cluster.settle();
            assert_eq!(cluster.answers_to(first + hash).len(), 2);
        }
    }
    assert_eq!(contents(&mut cluster, A), expected(&[1000, 2000]));
    // Groups that other members lead know them, too.
    cluster.move_group(&[1, 0, 2]);
    cluster.update_all();
    cluster.settle();
    cluster.pass(Duration::from_secs(4));
    append(&mut cluster, B, 1007, None, 2, 7);
    cluster.settle();
    assert_eq!(content(&mut cluster, B, 7), "1007,2007,");
}

#[test]
fn an_update_in_flight_is_carried_out_once() {
    for hash in [0, 7] {
        for (unreached, unheard) in [(vec![C], vec![]), (vec![B, C], vec![]), (vec![], vec![B]), (vec![C], vec![B])] {
            let mut cluster = Cluster::new(3);
            split(&mut cluster, 2);
            append_all(&mut cluster, A, 1000);
            cluster.cut = unreached.iter().map(|osd| (A, *osd)).chain(unheard.iter().map(|osd| (*osd, A))).collect();
            append(&mut cluster, A, 1, None, 0, hash);
            cluster.settle();
            assert!(cluster.answers_to(1).is_empty());
            unreached.iter().for_each(|osd| cluster.lose(A, *osd));
            unheard.iter().for_each(|osd| cluster.lose(*osd, A));
            cluster.cut.clear();
            merge(&mut cluster, 1);
            append(&mut cluster, A, 1, None, 1, hash);
            cluster.settle();
            assert_eq!(content(&mut cluster, A, hash), format!("{},1,", 1000 + hash), "{unreached:?} {unheard:?}");
            append(&mut cluster, A, 1, None, 2, hash);
            cluster.settle();
            assert_eq!(content(&mut cluster, A, hash), format!("{},1,", 1000 + hash), "still known");
        }
    }
}

/// C is away from before groups stop until after they are merged, and perhaps split again.
#[test]
fn members_that_were_away_are_backfilled() {
    for (pending, again) in [(&[2][..], None), (&[2, 1], None), (&[3, 2], Some(4)), (&[2, 1], Some(4)), (&[1], Some(8))]
    {
        let mut cluster = Cluster::new(3);
        append_all(&mut cluster, A, 1000);
        split(&mut cluster, if pending == [1] { 2 } else { 4 });
        append_all(&mut cluster, A, 2000);
        cluster.mark_down(2);
        cluster.update(A);
        cluster.update(B);
        cluster.settle();
        append_all(&mut cluster, A, 3000);
        for pending in pending {
            stop(&mut cluster, *pending, &[A, B]);
            cluster.merge();
            cluster.update(A);
            cluster.update(B);
            cluster.settle();
            cluster.pass(Duration::from_secs(4));
        }
        append_all(&mut cluster, A, 4000);
        if let Some(pg_num) = again {
            cluster.split(pg_num);
            cluster.update(A);
            cluster.update(B);
            cluster.settle();
        }
        cluster.mark_up(2);
        // The OSD gets all maps at once, as if it had just started.
        let whole = cluster.whole(cluster.map.epoch);
        cluster.maps(C, &whole).expect("the map is good");
        cluster.update_all();
        cluster.settle();
        (0..10).for_each(|_| cluster.pass(Duration::from_secs(4)));
        let pg_num = cluster.map.pools[&super::cluster::POOL].pg_num;
        assert_eq!(cluster.shard(C).store().pgs().len(), pg_num as usize, "{pending:?} {again:?}");
        let brought = cluster.pushed.iter().filter(|(to, _)| *to == C).count();
        assert_eq!(brought, OBJECTS as usize, "each object has changed: {pending:?} {again:?}");
        for seed in 0..pg_num {
            cluster.move_group_of(group(seed), &[2, 1, 0]);
        }
        cluster.update_all();
        cluster.settle();
        cluster.pass(Duration::from_secs(4));
        assert_eq!(contents(&mut cluster, C), expected(&[1000, 2000, 3000, 4000]), "{pending:?} {again:?}");
    }
}

/// The last two of the members see that groups are merged only when the first serves the merged one.
#[test]
fn members_that_learn_of_it_late_have_everything() {
    for skip in [false, true] {
        let mut cluster = Cluster::new(3);
        split(&mut cluster, 4);
        append_all(&mut cluster, A, 1000);
        stop(&mut cluster, 2, &[A, B, C]);
        let epoch = cluster.merge();
        cluster.update(A);
        cluster.settle();
        for osd in [B, C] {
            match skip {
                true => {
                    let whole = cluster.whole(epoch);
                    cluster.maps(osd, &whole).expect("the map is good");
                }
                false => cluster.update(osd),
            }
        }
        cluster.settle();
        cluster.pass(Duration::from_secs(4));
        assert!(cluster.all_active(A));
        append_all(&mut cluster, A, 2000);
        assert!(cluster.pushed.is_empty() && cluster.temps.is_empty());
        assert_eq!(contents(&mut cluster, A), expected(&[1000, 2000]));
    }
}

#[test]
fn copies_that_were_left_are_merged_and_told_from_those_that_have_everything() {
    let mut cluster = Cluster::new(4);
    append_all(&mut cluster, A, 1000);
    split(&mut cluster, 4);
    // C's copy of one half of each pair stays where it is, and D has everything of that.
    for seed in [0, 1] {
        cluster.move_group_of(group(seed), &[0, 1, 3]);
    }
    cluster.update_all();
    cluster.settle();
    cluster.pass(Duration::from_secs(4));
    append_all(&mut cluster, A, 2000);
    for seed in [2, 3] {
        cluster.move_group_of(group(seed), &[0, 1, 3]);
    }
    cluster.update_all();
    cluster.settle();
    (0..10).for_each(|_| cluster.pass(Duration::from_secs(4)));
    stop(&mut cluster, 2, &[A, B, C, D]);
    cluster.merge();
    cluster.update_all();
    cluster.settle();
    assert!(cluster.all_active(A));
    assert!(cluster.shard(C).store().pgs().len() <= 2, "{:?}", cluster.shard(C).store().pgs());
    append_all(&mut cluster, A, 3000);
    for seed in [0, 1] {
        cluster.move_group_of(group(seed), &[2, 0, 3]);
    }
    cluster.update_all();
    cluster.settle();
    cluster.pass(Duration::from_secs(4));
    let asked = std::mem::take(&mut cluster.temps);
    assert!(!asked.is_empty() && asked.iter().all(|osds| osds.first() != Some(&C)), "it cannot lead: {asked:?}");
    for seed in [0, 1] {
        cluster.move_group_of(group(seed), &[0, 3, 2]);
    }
    cluster.update_all();
    cluster.settle();
    (0..10).for_each(|_| cluster.pass(Duration::from_secs(4)));
    for seed in [0, 1] {
        cluster.move_group_of(group(seed), &[2, 0, 3]);
    }
    cluster.update_all();
    cluster.settle();
    cluster.pass(Duration::from_secs(4));
    assert_eq!(contents(&mut cluster, C), expected(&[1000, 2000, 3000]));
}
