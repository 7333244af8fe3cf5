//! OSDs that are far behind.

use super::cluster::{Cluster, appending};
use std::time::Duration;
use types::{Epoch, OsdId};

const A: OsdId = OsdId(0);
const B: OsdId = OsdId(1);

/// Makes a cluster of three in which A has missed `count` maps; in the first of them B became the primary, in the
/// second A again if `back`.
fn behind(count: u32, back: bool) -> Cluster {
    let mut cluster = Cluster::new(3);
    cluster.move_group(&[1, 0, 2]);
    cluster.move_group(if back { &[0, 1, 2] } else { &[1, 2, 0] });
    for _ in 2..count {
        cluster.change(|_| ());
    }
    cluster
}

#[test]
fn maps_come_in_pages_and_each_page_asks_for_the_next() {
    const PAGE: u32 = 40;
    let mut cluster = behind(1200, true);
    let session = cluster.connect(A);
    let newest = cluster.map.epoch;
    cluster.update(B);
    cluster.update(OsdId(2));
    let mut pages = 0;
    while cluster.epoch_of(A) < newest {
        let from = cluster.epoch_of(A).next();
        let until = Epoch(newest.0.min(from.0 + PAGE - 1));
        let message = cluster.message(from, until);
        cluster.wanted.clear();
        cluster.maps(A, &message).unwrap();
        assert_eq!(cluster.epoch_of(A), until);
        let wanted = (until < newest).then_some((A, until.next()));
        assert_eq!(cluster.wanted.last().copied(), wanted);
        pages += 1;
    }
    assert_eq!(pages, 30);
    cluster.settle();
    assert!(cluster.is_active(A));
    // All maps were walked, so it is known since when this primary serves.
    cluster.append(A, session, 1, Epoch(2));
    cluster.settle();
    assert!(cluster.answers.is_empty());
    cluster.append(A, session, 2, Epoch(3));
    cluster.settle();
    assert_eq!(cluster.answers_to(2).len(), 1);
}

#[test]
fn news_that_do_not_follow_are_asked_for_and_change_nothing() {
    let mut cluster = behind(100, true);
    let newest = cluster.map.epoch;
    let message = cluster.message(newest, newest);
    cluster.maps(A, &message).unwrap();
    assert_eq!(cluster.epoch_of(A), Epoch(1));
    assert_eq!(cluster.wanted.last(), Some(&(A, Epoch(2))));
}

#[test]
fn maps_whose_groups_take_long_to_place_come_into_force_later_and_in_order() {
    let mut cluster = Cluster::slow_to_place(3, 1, 64);
    let session = cluster.connect(A);
    let next = cluster.move_group(&[0, 2, 1]);
    cluster.update_all();
    let last = cluster.move_group(&[0, 1, 2]);
    cluster.update_all();
    assert_eq!(cluster.epoch_of(A), Epoch(1), "it takes many turns");
    // The map that is in force serves, and what needs another one waits for it; nobody asks for it again.
    cluster.append(A, session, 1, Epoch(1));
    cluster.append(A, session, 2, next);
    cluster.append(A, session, 3, last);
    assert_eq!((cluster.epoch_of(A), cluster.wanted.len()), (Epoch(1), 0));
    let mut epochs = vec![Epoch(1)];
    while cluster.epoch_of(A) < last {
        cluster.turn(A);
        epochs.push(cluster.epoch_of(A));
    }
    epochs.dedup();
    assert_eq!(epochs, [Epoch(1), next, last]);
    cluster.settle();
    assert!([1, 2, 3].iter().all(|tid| cluster.answers_to(*tid).len() == 1));
    assert_eq!(cluster.content(A), "1,2,3,");
}

#[test]
fn who_led_before_others_did_is_not_joined_in_what_is_past() {
    let mut cluster = Cluster::new(3);
    let session = cluster.connect(B);
    cluster.move_group(&[1, 0, 2]);
    cluster.update_all();
    cluster.settle();
    cluster.append(B, session, 1, cluster.map.epoch);
    cluster.settle();
    // A is to lead, and asks nobody that hears it. Then it is down and up again, which it does not hear of.
    cluster.cut = [B, OsdId(2)].into_iter().flat_map(|other| [(A, other), (other, A)]).collect();
    cluster.move_group(&[0, 1, 2]);
    cluster.update_all();
    cluster.settle();
    cluster.mark_down(0);
    for osd in [B, OsdId(2)] {
        cluster.update(osd);
    }
    cluster.pass(Duration::from_secs(4));
    cluster.append(B, session, 2, cluster.map.epoch);
    cluster.settle();
    assert_eq!(cluster.answers_to(2).len(), 1);
    cluster.mark_up(0);
    for osd in [B, OsdId(2)] {
        cluster.update(osd);
    }
    // The members act for the group as when A was to lead first, but it does not lead as it did then.
    cluster.cut.clear();
    cluster.pass(Duration::from_secs(4));
    assert!(!cluster.is_active(A));
    cluster.update(A);
    cluster.pass(Duration::from_secs(4));
    assert!(cluster.is_active(A));
    assert_eq!(cluster.content(A), "1,2,");
}

#[test]
fn where_maps_are_gone_operations_that_clients_do_not_send_again_are_taken() {
    let mut cluster = Cluster::new(3);
    cluster.move_group(&[1, 0, 2]);
    cluster.update_all();
    cluster.settle();
    assert!(cluster.is_active(B));
    let session = cluster.connect(A);
    // In map 3 A becomes the primary; the client sees that and sends to A, which hears of it much later, when nobody
    // keeps that map any more.
    let chosen = cluster.move_group(&[0, 1, 2]);
    cluster.append(A, session, 1, chosen);
    for _ in 0..1500 {
        cluster.change(|_| ());
    }
    let newest = cluster.map.epoch;
    for osd in [A, B, OsdId(2)] {
        let message = cluster.whole(newest);
        cluster.maps(osd, &message).unwrap();
    }
    cluster.settle();
    assert!(cluster.is_active(A));
    assert_eq!(cluster.answers_to(1).len(), 1);
    // An operation that was sent before, to the other primary, still comes again.
    cluster.append(A, session, 2, Epoch(2));
    cluster.settle();
    assert!(cluster.answers_to(2).is_empty());
    cluster.ask(A, session, 2, chosen, 1, appending(2));
    cluster.settle();
    assert_eq!(cluster.content(A), "1,2,");
}

#[test]
fn a_member_of_the_group_only_since_a_map_that_is_gone_takes_them_too() {
    let mut cluster = Cluster::new(4);
    let late = OsdId(3);
    // The late member has been one before, and has what the others have.
    for acting in [[0, 1, 3], [0, 1, 2]] {
        cluster.move_group(&acting);
        cluster.update_all();
        cluster.settle();
    }
    let session = cluster.connect(late);
    let chosen = cluster.move_group(&[3, 1, 2]);
    cluster.append(late, session, 1, chosen);
    cluster.change(|_| ());
    let newest = cluster.map.epoch;
    for osd in (0..4).map(OsdId) {
        let message = cluster.whole(newest);
        cluster.maps(osd, &message).unwrap();
    }
    cluster.settle();
    assert!(cluster.is_active(late));
    assert_eq!(cluster.answers_to(1).len(), 1);
}

#[test]
fn the_very_next_map_may_come_whole() {
    let mut cluster = Cluster::new(3);
    let session = cluster.connect(A);
    let next = cluster.move_group(&[0, 2, 1]);
    for osd in [A, B, OsdId(2)] {
        let message = cluster.whole(next);
        cluster.maps(osd, &message).unwrap();
        assert_eq!(cluster.epoch_of(osd), next);
    }
    cluster.settle();
    cluster.append(A, session, 1, Epoch(1));
    cluster.settle();
    assert_eq!(cluster.answers_to(1).len(), 1, "the primary has not changed");
    assert!(cluster.shared.contains(&(session, next)));
}

#[test]
fn clients_that_are_behind_get_maps_without_gaps() {
    let mut cluster = behind(700, true);
    cluster.update_all();
    cluster.settle();
    let newest = cluster.map.epoch;
    // One epoch lies within what is kept, one far behind it.
    for since in [Epoch(newest.0 - 450), Epoch(3)] {
        cluster.shared.clear();
        let session = cluster.connect(A);
        cluster.append(A, session, u64::from(since.0), since);
        cluster.settle();
        assert_eq!(cluster.shared.last(), Some(&(session, newest)));
        let epochs: Vec<Epoch> = cluster.shared.iter().map(|(_, epoch)| *epoch).collect();
        assert!(epochs.is_sorted(), "{epochs:?}");
        assert_eq!(cluster.answers_to(since.0.into()).len(), 1);
    }
}
