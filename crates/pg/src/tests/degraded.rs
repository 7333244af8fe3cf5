//! Groups that serve though members are down, and what becomes of members that come back.

use super::cluster::{Cluster, PG, POOL, appending};
use osdmap::{OsdMapFlags, OsdState, PgPool};
use std::time::Duration;
use types::{Epoch, OsdId};
use wire::messages::Op;
use wire::nacre::mon::pg_state;

const A: OsdId = OsdId(0);
const B: OsdId = OsdId(1);
const C: OsdId = OsdId(2);

#[test]
fn two_of_three_serve_and_the_third_gets_what_it_lacks() {
    let mut cluster = Cluster::new(3);
    let session = cluster.connect(A);
    cluster.append(A, session, 1, Epoch(1));
    cluster.settle();
    cluster.down(&[C]);
    for tid in 2..=30 {
        cluster.append(A, session, tid, cluster.map.epoch);
        cluster.settle();
        assert_eq!(cluster.answers_to(tid).len(), 1, "{tid}");
    }
    cluster.up(C);
    let expected: String = (1..=30).map(|tid| format!("{tid},")).collect();
    assert_eq!(cluster.content_by(&[C, A, B]), expected);
    assert_eq!(cluster.content_by(&[B, C, A]), expected);
    assert!(cluster.temps.is_empty(), "{:?}", cluster.temps);
}

#[test]
fn fewer_than_min_size_do_not_serve() {
    let mut cluster = Cluster::new(3);
    let session = cluster.connect(A);
    cluster.down(&[B]);
    cluster.down(&[C]);
    cluster.append(A, session, 1, cluster.map.epoch);
    cluster.read(A, session, 2, cluster.map.epoch);
    cluster.settle();
    cluster.pass(Duration::from_secs(10));
    assert!(cluster.answers.is_empty());
    cluster.up(C);
    assert_eq!(cluster.answers_to(1).len(), 1);
    assert_eq!(cluster.answers_to(2), [(session, 0, "1,".to_owned())]);
}

#[test]
fn an_update_that_nobody_else_has_is_taken_back() {
    // The object was there before or not, and others change it or not.
    for (existed, changed) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut cluster = Cluster::new(3);
        let session = cluster.connect(A);
        let other = cluster.connect(B);
        if existed {
            cluster.append(A, session, 1, Epoch(1));
            cluster.settle();
        }
        cluster.cut = [(A, B), (A, C)].into();
        cluster.append(A, session, 2, cluster.map.epoch);
        cluster.settle();
        cluster.lose(A, B);
        cluster.lose(A, C);
        cluster.cut.clear();
        cluster.down(&[A]);
        assert!(cluster.is_active(B));
        if changed {
            cluster.append(B, other, 3, cluster.map.epoch);
        } else {
            // Something must come in its place, else it is not divergent but only ahead.
            cluster.ask(B, other, 3, cluster.map.epoch, 0, Op::set_xattr(b"x", b"y"));
        }
        cluster.settle();
        assert_eq!(cluster.answers_to(3).len(), 1);
        cluster.up(A);
        let expected = [existed.then_some("1,"), changed.then_some("3,")].into_iter().flatten().collect::<String>();
        assert_eq!(cluster.content_by(&[A, B, C]), expected, "existed {existed}, changed {changed}");
        assert_eq!(cluster.content_by(&[C, A, B]), expected);
    }
}

#[test]
fn what_the_primary_lacks_is_fetched_when_a_client_wants_it() {
    let mut cluster = Cluster::new(3);
    let session = cluster.connect(B);
    cluster.down(&[A]);
    cluster.append(B, session, 1, cluster.map.epoch);
    cluster.settle();
    // Pushes to A stay on their way.
    cluster.cut = [(B, A)].into();
    cluster.mark_up(0);
    cluster.update_all();
    cluster.settle();
    let session = cluster.connect(A);
    cluster.read(A, session, 2, cluster.map.epoch);
    cluster.append(A, session, 3, cluster.map.epoch);
    cluster.settle();
    assert!(cluster.answers_to(2).is_empty());
    cluster.cut.clear();
    cluster.settle();
    cluster.pass(Duration::from_secs(4));
    assert_eq!(cluster.answers_to(2), [(session, 0, "1,".to_owned())]);
    assert_eq!(cluster.content(A), "1,3,");
    assert_eq!(cluster.content_by(&[C, A, B]), "1,3,");
}

#[test]
fn who_was_not_there_when_others_served_does_not_lead() {
    let mut cluster = Cluster::new(4);
    let session = cluster.connect(A);
    cluster.down(&[C]);
    cluster.append(A, session, 1, cluster.map.epoch);
    cluster.settle();
    cluster.down(&[A]);
    cluster.down(&[B]);
    // Alone it has an older state, and with an OSD that never had any no better one.
    cluster.up(C);
    let reader = cluster.connect(C);
    cluster.read(C, reader, 2, cluster.map.epoch);
    cluster.settle();
    assert!(!cluster.is_active(C));
    cluster.move_group(&[2, 3]);
    cluster.update_all();
    cluster.settle();
    cluster.pass(Duration::from_secs(10));
    assert!(!cluster.is_active(C) && cluster.answers_to(2).is_empty());
    assert!(cluster.temps.is_empty(), "nobody could lead");
    // An OSD that was there comes back, but is not in the acting set.
    cluster.up(B);
    let temp = cluster.temps.first().expect("another acting set is asked for").clone();
    assert_eq!(temp, [B, C, OsdId(3)]);
    let temp: Vec<i32> = temp.iter().map(|osd| osd.0).collect();
    cluster.move_group(&temp);
    cluster.update_all();
    cluster.settle();
    cluster.pass(Duration::from_secs(4));
    assert!(cluster.is_active(B), "{PG} has two that have everything");
    assert_eq!(cluster.content(B), "1,");
}

#[test]
fn a_deposed_primary_that_does_not_know_it_answers_no_reads() {
    for partitioned_from in [vec![B, C], vec![C]] {
        let mut cluster = Cluster::new(3);
        let session = cluster.connect(A);
        cluster.append(A, session, 1, Epoch(1));
        cluster.read(A, session, 2, Epoch(1));
        cluster.settle();
        assert_eq!(cluster.answers_to(2), [(session, 0, "1,".to_owned())]);
        for osd in partitioned_from {
            cluster.cut.extend([(A, osd), (osd, A)]);
        }
        // A hears nothing of this.
        let since = cluster.mark_down(0);
        let answered_at = |cluster: &Cluster, tid| !cluster.answers_to(tid).is_empty();
        for osd in [B, C] {
            cluster.update(osd);
        }
        cluster.settle();
        let other = cluster.connect(B);
        cluster.append(B, other, 3, since);
        cluster.settle();
        for tid in 100..140 {
            let changed = answered_at(&cluster, 3);
            cluster.read(A, session, tid, Epoch(1));
            cluster.pass(Duration::from_millis(50));
            // Either the old primary reads, or the new one serves.
            assert!(!(changed && answered_at(&cluster, tid)), "{tid}");
        }
        assert!(answered_at(&cluster, 100), "the lease lasts a while");
        assert!(answered_at(&cluster, 3), "and ends");
        assert_eq!(cluster.content(B), "1,3,");
    }
}

/// A virtual machine was paused, which its clock does not count: leases seem to go on, while those who gave them have
/// seen them end.
#[test]
fn who_finds_that_its_clock_stood_still_reads_by_no_lease_from_before() {
    let mut cluster = Cluster::new(3);
    let session = cluster.connect(A);
    cluster.append(A, session, 1, Epoch(1));
    cluster.read(A, session, 2, Epoch(1));
    cluster.settle();
    assert_eq!(cluster.answers_to(2), [(session, 0, "1,".to_owned())]);
    // The read is not answered by a lease that was asked for before and comes now, either.
    cluster.later(Duration::from_millis(1000));
    cluster.read(A, session, 3, Epoch(1));
    cluster.turn(A);
    assert_eq!(cluster.answers_to(3).len(), 1, "the lease lasts still, and is asked for again");
    cluster.shard(A).clock_stood_still();
    // The answers to that come.
    cluster.settle_now();
    cluster.cut.extend([(A, B), (B, A)]);
    cluster.read(A, session, 4, Epoch(1));
    cluster.settle();
    assert_eq!(cluster.answers_to(4), []);
    cluster.cut.clear();
    cluster.pass(Duration::from_millis(1500));
    assert_eq!(cluster.answers_to(4), [(session, 0, "1,".to_owned())]);
}

/// Makes a group whose primary has got an object that it lacked, as a client reads it, and does not have it durably
/// yet.
fn with_a_primary_that_has_just_got_an_object() -> Cluster {
    let mut cluster = Cluster::new(3);
    let pool = cluster.map.pools[&POOL].clone();
    cluster.change(|next| {
        next.new_pools.insert(POOL, PgPool { min_size: 1, ..pool });
        next.new_flags = Some(OsdMapFlags::NORECOVER);
    });
    cluster.update_all();
    cluster.settle();
    cluster.down(&[A]);
    let session = cluster.connect(B);
    cluster.append(B, session, 1, cluster.map.epoch);
    cluster.settle();
    cluster.up(A);
    cluster.stuck_disks.insert(A);
    let session = cluster.connect(A);
    cluster.read(A, session, 2, cluster.map.epoch);
    cluster.settle();
    assert!(cluster.pushed.iter().any(|(to, _)| *to == A));
    cluster
}

/// The only copies are on others, so these must not be replaced.
#[test]
fn what_the_primary_has_just_got_is_changed_only_once_it_is_durable_there() {
    let mut cluster = with_a_primary_that_has_just_got_an_object();
    let session = cluster.connect(A);
    cluster.append(A, session, 3, cluster.map.epoch);
    cluster.settle();
    assert!(cluster.answers_to(3).is_empty());
    // The primary forgets it all, and serves alone for a while.
    cluster.mark_down(0);
    cluster.lose_power(A);
    cluster.stuck_disks.clear();
    cluster.mark_down(1);
    cluster.mark_down(2);
    cluster.mark_up(0);
    let maps = cluster.message(Epoch(1), cluster.map.epoch);
    cluster.maps(A, &maps).expect("the maps are good");
    cluster.update(B);
    cluster.update(C);
    cluster.settle();
    cluster.pass(Duration::from_secs(4));
    assert!(cluster.is_active(A), "it was recorded as one that serves");
    cluster.up(B);
    cluster.up(C);
    cluster.change(|next| next.new_flags = Some(OsdMapFlags(0)));
    cluster.update_all();
    cluster.settle();
    assert_eq!(cluster.content_by(&[A, B, C]), "1,");
    assert_eq!(cluster.content_by(&[C, A, B]), "1,");
}

#[test]
fn a_group_is_clean_only_once_what_its_primary_has_just_got_is_durable() {
    let mut cluster = with_a_primary_that_has_just_got_an_object();
    let is_clean = |cluster: &mut Cluster| cluster.shard(A).pg_view(PG).expect("A leads").state & pg_state::CLEAN != 0;
    cluster.pass(Duration::from_secs(4));
    assert!(!is_clean(&mut cluster));
    // An update waits for it and is carried out then.
    let session = cluster.connect(A);
    cluster.append(A, session, 3, cluster.map.epoch);
    cluster.settle();
    cluster.stuck_disks.clear();
    cluster.settle();
    assert_eq!(cluster.answers_to(3).len(), 1);
    assert!(is_clean(&mut cluster));
}

/// Two updates are answered. The third one only the primary has when the other member goes and an old one comes, with
/// which it is to serve: nothing is to depend on the primary's disk alone.
#[test]
fn what_only_the_primary_has_is_copied_before_the_group_serves() {
    let mut cluster = Cluster::new(3);
    cluster.change(|next| next.new_flags = Some(OsdMapFlags::NORECOVER));
    cluster.update_all();
    cluster.settle();
    cluster.down(&[C]);
    let session = cluster.connect(A);
    let object = |n: u32| (n, [&b"o1"[..], b"o2", b"o3"][n as usize - 1]);
    for n in 1..=3 {
        if n == 3 {
            cluster.cut.insert((A, B));
        }
        cluster.ask_of(A, session, n.into(), cluster.map.epoch, 0, object(n), appending(n.into()));
        cluster.settle();
        assert_eq!(cluster.answers_to(n.into()).len(), usize::from(n < 3));
    }
    cluster.lose(A, B);
    cluster.cut.clear();
    cluster.mark_down(1);
    cluster.mark_up(2);
    cluster.update_all();
    cluster.settle();
    assert!(cluster.is_active(A));
    let pushed: Vec<&[u8]> = cluster.pushed.iter().map(|(_, object)| &object.name[..]).collect();
    assert!(pushed.contains(&object(3).1) && !pushed.contains(&object(1).1), "{pushed:?}");
}

/// Makes a group that may serve alone, of which only B has the last update. Returns how many updates were answered.
fn alone(cluster: &mut Cluster) -> usize {
    let mut pool = cluster.map.pools[&POOL].clone();
    pool.min_size = 1;
    cluster.change(|next| drop(next.new_pools.insert(POOL, pool)));
    cluster.update_all();
    cluster.settle();
    let session = cluster.connect(A);
    cluster.append(A, session, 1, cluster.map.epoch);
    cluster.settle();
    cluster.down(&[A, C]);
    let session = cluster.connect(B);
    cluster.append(B, session, 2, cluster.map.epoch);
    cluster.settle();
    cluster.down(&[B]);
    cluster.up(A);
    cluster.up(C);
    cluster.answers.len()
}

#[test]
fn a_group_waits_for_who_served_last_until_that_one_is_given_up() {
    for removed in [false, true] {
        let mut cluster = Cluster::new(3);
        assert_eq!(alone(&mut cluster), 2);
        assert!(!cluster.is_active(A));
        let view = cluster.shard(A).pg_view(PG).expect("A leads");
        assert_eq!((view.state & pg_state::DOWN, view.blocked_by), (pg_state::DOWN, vec![B]));
        match removed {
            true => cluster.change(|next| next.flip_state(B, OsdState::EXISTS)),
            false => cluster.give_up(B),
        };
        cluster.update_all();
        cluster.settle();
        cluster.pass(Duration::from_secs(10));
        cluster.heal(10);
        assert!(cluster.is_active(A), "{removed}");
        assert_eq!(cluster.content(A), "1,", "what only B had is gone, all else is there");
        let session = cluster.connect(A);
        cluster.append(A, session, 3, cluster.map.epoch);
        cluster.settle();
        if !removed {
            // B comes back with what it had: that is taken back.
            cluster.up(B);
            cluster.heal(20);
            assert_eq!(cluster.content_by(&[B, A, C]), "1,3,");
        }
    }
}

#[test]
fn a_group_that_could_wait_for_another_goes_on_without_nobody() {
    let mut cluster = Cluster::new(3);
    let session = cluster.connect(A);
    cluster.down(&[A]);
    let other = cluster.connect(B);
    cluster.append(B, other, 1, cluster.map.epoch);
    cluster.settle();
    cluster.down(&[B]);
    cluster.down(&[C]);
    cluster.give_up(B);
    cluster.up(A);
    cluster.pass(Duration::from_secs(10));
    // C served last, too, and is only down.
    assert!(!cluster.is_active(A));
    cluster.append(A, session, 2, cluster.map.epoch);
    cluster.settle();
    assert!(cluster.answers_to(2).is_empty());
    cluster.up(C);
    cluster.heal(20);
    assert_eq!(cluster.content(A), "1,2,");
}
