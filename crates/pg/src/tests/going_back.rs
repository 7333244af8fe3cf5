//! Objects whose newest state nobody has any more, and that go back where nobody was answered for it.

use super::cluster::{Cluster, HASH, OBJECT, PG, POOL};
use bytes::Bytes;
use osdmap::{PgPool, PoolFlags};
use std::time::Duration;
use types::{Epoch, ObjectId, OsdId, SnapId};
use wire::basic::SnapContext;
use wire::messages::Op;
use wire::nacre::mon::pg_state;

const A: OsdId = OsdId(0);
const B: OsdId = OsdId(1);
const C: OsdId = OsdId(2);

/// Returns too much to lie in the object's metadata.
fn text(tid: u64) -> String {
    format!("{tid},").repeat(6000)
}

fn append(cluster: &mut Cluster, osd: OsdId, tid: u64) {
    let (session, epoch) = (cluster.connect(osd), cluster.map.epoch);
    cluster.ask(osd, session, tid, epoch, 0, Op::append(Bytes::from(text(tid))));
    cluster.settle();
}

/// Spoils the object's last block on an OSD.
fn spoil(cluster: &mut Cluster, osd: OsdId) {
    cluster.put_on_device(osd);
    let object = ObjectId::head(POOL, HASH, b"", OBJECT);
    let size_bytes = cluster.ready(osd, |store| store.stat(&object)).expect("it is there").size_bytes;
    cluster.spoil(osd, &object, size_bytes - 1);
}

/// Makes a cluster in which one update is answered; another one, of the same object, only A has, as one of the two that
/// are recorded, and nobody was answered for it.
fn with_an_update_that_one_alone_has() -> Cluster {
    with_an_update_that_one_alone_has_behind(&SnapContext::default())
}

/// Makes the cluster of [`with_an_update_that_one_alone_has`], whose client took snapshots between the two updates.
fn with_an_update_that_one_alone_has_behind(snaps: &SnapContext) -> Cluster {
    let mut cluster = Cluster::new(3);
    let mut pool = cluster.map.pools[&POOL].clone();
    pool.flags.insert(PoolFlags::SELFMANAGED_SNAPS);
    cluster.change(|next| drop(next.new_pools.insert(POOL, pool)));
    cluster.update_all();
    cluster.settle();
    append(&mut cluster, A, 1);
    assert_eq!(cluster.answers_to(1).len(), 1);
    cluster.snaps = snaps.clone();
    cluster.mark_down(2);
    cluster.update_all();
    cluster.settle();
    cluster.cut.insert((A, B));
    append(&mut cluster, A, 2);
    assert!(cluster.answers_to(2).is_empty());
    cluster.lose(A, B);
    cluster.cut.clear();
    cluster
}

fn is_clean(cluster: &mut Cluster, primary: OsdId) -> bool {
    cluster.shard(primary).pg_view(PG).expect("it leads").state & pg_state::CLEAN != 0
}

#[test]
fn what_rotted_before_anybody_else_had_it_goes_back_and_is_carried_out_again() {
    let mut cluster = with_an_update_that_one_alone_has();
    spoil(&mut cluster, A);
    cluster.up(C);
    assert!(is_clean(&mut cluster, A));
    // A stays primary, so the request is not sent again: it was still to be answered.
    assert_eq!(cluster.answers_to(2).len(), 1);
    let expected = text(1) + &text(2);
    for acting in [[A, B, C], [C, A, B], [B, C, A]] {
        assert_eq!(cluster.content_by(&acting), expected, "{acting:?}");
    }
}

#[test]
fn what_is_lost_with_the_disk_of_the_one_that_had_it_goes_back() {
    for without_power in [false, true] {
        let mut cluster = with_an_update_that_one_alone_has();
        // B takes over A's log, and keeps that it had less itself; the group does not come to serve, so nothing is
        // copied.
        cluster.stuck_disks.insert(C);
        cluster.mark_up(2);
        cluster.update_all();
        cluster.settle();
        assert!(!cluster.is_active(A));
        let head = |cluster: &mut Cluster, osd| cluster.shard(osd).groups().next().expect("a member").core.log.head();
        assert_eq!(head(&mut cluster, A), head(&mut cluster, B));
        cluster.mark_down(0);
        cluster.stuck_disks.clear();
        if without_power {
            cluster.lose_power(B);
            let maps = cluster.message(Epoch(1), cluster.map.epoch);
            cluster.maps(B, &maps).expect("the maps are good");
        }
        cluster.update_all();
        cluster.settle();
        cluster.pass(Duration::from_secs(4));
        assert_eq!(cluster.content(B), text(1));
        assert_eq!(cluster.content_by(&[C, B]), text(1));
        // The client asks again, and is not answered from the log.
        append(&mut cluster, C, 2);
        assert_eq!(cluster.answers_to(2).len(), 1);
        let expected = text(1) + &text(2);
        assert_eq!(cluster.content(C), expected);
        // The OSD that had the lost state comes back with its disk after all.
        cluster.mark_up(0);
        cluster.update_all();
        for acting in [[A, B, C], [B, C, A]] {
            assert_eq!(cluster.content_by(&acting), expected, "{acting:?}");
        }
    }
}

/// Lets B lead with what A's log told, while A and what it alone had are gone.
fn without_who_had_it(cluster: &mut Cluster) {
    cluster.stuck_disks.insert(C);
    cluster.mark_up(2);
    cluster.update_all();
    cluster.settle();
    cluster.mark_down(0);
    cluster.stuck_disks.clear();
    cluster.update_all();
    cluster.settle();
    cluster.pass(Duration::from_secs(4));
}

#[test]
fn a_clone_that_a_lost_update_made_goes_with_it() {
    let snaps = SnapContext { seq: SnapId(1), snaps: vec![SnapId(1)] };
    let mut cluster = with_an_update_that_one_alone_has_behind(&snaps);
    without_who_had_it(&mut cluster);
    assert_eq!(cluster.content(B), text(1));
    let view = cluster.shard(B).pg_view(PG).expect("B leads");
    assert_eq!((view.objects, view.unfound.len()), (1, 0));
    assert!(view.members.iter().all(|member| member.missing == 0), "{view:?}");
    // The update preserves for the snapshot when it comes again.
    append(&mut cluster, B, 2);
    assert_eq!(cluster.content_by(&[C, B]), text(1) + &text(2));
    cluster.snap = SnapId(1);
    assert_eq!(cluster.content(C), text(1));
}

#[test]
fn what_was_made_by_updates_that_are_lost_is_not_there_any_more() {
    let mut cluster = Cluster::new(3);
    cluster.mark_down(2);
    cluster.update_all();
    cluster.settle();
    cluster.cut.insert((A, B));
    append(&mut cluster, A, 1);
    cluster.lose(A, B);
    cluster.cut.clear();
    without_who_had_it(&mut cluster);
    assert_eq!(cluster.content(B), "");
    let stats = cluster.shard(B).pg_view(PG).expect("B leads");
    assert_eq!((stats.objects, stats.unfound.len(), stats.degraded), (0, 0, 0));
    append(&mut cluster, B, 1);
    assert_eq!(cluster.content_by(&[C, B]), text(1));
}

/// The others that are recorded are away: they may have the update, and somebody may have been answered.
#[test]
fn what_somebody_may_have_been_answered_for_does_not_go_back() {
    let mut cluster = with_an_update_that_one_alone_has();
    let pool = cluster.map.pools[&POOL].clone();
    spoil(&mut cluster, A);
    cluster.change(|next| drop(next.new_pools.insert(POOL, PgPool { min_size: 1, ..pool })));
    cluster.mark_down(1);
    cluster.mark_up(2);
    cluster.update_all();
    cluster.settle();
    cluster.pass(Duration::from_secs(4));
    let view = cluster.shard(A).pg_view(PG).expect("A leads");
    assert!(cluster.is_active(A));
    assert_eq!(view.last_update.version, 2, "{view:?}");
    assert!(view.members.iter().any(|member| member.missing == 1), "{view:?}");
}
