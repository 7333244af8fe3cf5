//! Clients' operations when an interval ends. Ceph's clients send an operation again only if the group's primary
//! changes or their session is lost; until then the primary that stays owes them the answer.

use super::cluster::{Cluster, appending};
use std::time::Duration;
use types::{Epoch, OsdId};
use wire::messages::Op;

const A: OsdId = OsdId(0);
const B: OsdId = OsdId(1);
const C: OsdId = OsdId(2);
const D: OsdId = OsdId(3);

#[test]
fn an_update_in_flight_is_carried_out_once_and_answered_by_the_primary_that_stays() {
    // The members that the update does not reach before the interval ends.
    for unreached in [vec![C], vec![B, C]] {
        let mut cluster = Cluster::new(3);
        let session = cluster.connect(A);
        cluster.cut = unreached.iter().map(|osd| (A, *osd)).collect();
        cluster.append(A, session, 1, Epoch(1));
        cluster.settle();
        assert!(cluster.answers_to(1).is_empty(), "a member lacks it");
        unreached.iter().for_each(|osd| cluster.lose(A, *osd));
        cluster.cut.clear();
        cluster.mark_down(2);
        cluster.update_all();
        cluster.settle();
        assert_eq!(cluster.answers_to(1), [(session, 0, String::new())], "two copies are enough");
        cluster.mark_up(2);
        cluster.update_all();
        cluster.settle();
        assert_eq!(cluster.answers_to(1).len(), 1);
        assert_eq!(cluster.content(A), "1,");
        assert_eq!(cluster.client_bytes(A), 0);
    }
}

#[test]
fn what_waits_behind_it_keeps_its_order() {
    let mut cluster = Cluster::new(3);
    let session = cluster.connect(A);
    cluster.cut = [(A, C)].into();
    cluster.append(A, session, 1, Epoch(1));
    cluster.append(A, session, 2, Epoch(1));
    cluster.read(A, session, 3, Epoch(1));
    cluster.append(A, session, 4, Epoch(1));
    cluster.settle();
    assert!(cluster.answers.is_empty());
    cluster.lose(A, C);
    cluster.cut.clear();
    cluster.mark_down(2);
    cluster.update_all();
    cluster.settle();
    cluster.mark_down(1);
    cluster.update_all();
    // Comes while the group does not serve.
    cluster.append(A, session, 5, cluster.map.epoch);
    cluster.settle();
    assert_eq!(cluster.answers.len(), 4);
    cluster.mark_up(2);
    cluster.update_all();
    cluster.settle();
    let order: Vec<u64> = cluster.answers.iter().map(|answer| answer.tid).collect();
    assert_eq!(order, [1, 2, 3, 4, 5]);
    assert_eq!(cluster.answers_to(3), [(session, 0, "1,2,".to_owned())]);
    assert_eq!(cluster.content(A), "1,2,4,5,");
    assert_eq!(cluster.client_bytes(A), 0);
}

#[test]
fn a_read_that_waits_for_the_device_is_answered_once() {
    let mut cluster = Cluster::new(3);
    let session = cluster.connect(A);
    // More than the store keeps with the object's record, so that reads go to the device.
    cluster.ask(A, session, 1, Epoch(1), 0, Op::write(0, vec![b'x'; 8000]));
    cluster.settle();
    cluster.stuck_disks = [A].into();
    cluster.read(A, session, 2, Epoch(1));
    cluster.settle();
    assert!(cluster.answers_to(2).is_empty(), "the disk does not answer");
    cluster.mark_down(2);
    cluster.mark_up(2);
    cluster.update_all();
    cluster.stuck_disks.clear();
    cluster.settle();
    assert_eq!(cluster.answers_to(2), [(session, 0, "x".repeat(8000))]);
    assert_eq!(cluster.client_bytes(A), 0);
}

#[test]
fn several_intervals_in_one_message_of_maps_are_as_one() {
    let mut cluster = Cluster::new(4);
    let session = cluster.connect(A);
    cluster.cut = [(A, C)].into();
    cluster.append(A, session, 1, Epoch(1));
    cluster.settle();
    cluster.lose(A, C);
    cluster.cut.clear();
    for _ in 0..3 {
        cluster.move_group(&[0, 1, 3]);
        cluster.move_group(&[0, 2, 1]);
    }
    cluster.update_all();
    cluster.settle();
    cluster.pass(Duration::from_secs(5));
    assert_eq!(cluster.answers_to(1), [(session, 0, String::new())]);
    assert_eq!(cluster.content(A), "1,");
}

#[test]
fn operations_sent_before_the_interval_to_the_primary_that_stayed_are_taken() {
    let mut cluster = Cluster::new(4);
    let session = cluster.connect(A);
    cluster.move_group(&[0, 1, 3]);
    cluster.update_all();
    cluster.settle();
    assert!(cluster.is_active(A));
    // This client has not heard of the change, and once it does, nothing in it makes it send again.
    cluster.append(A, session, 1, Epoch(1));
    cluster.settle();
    assert_eq!(cluster.answers_to(1), [(session, 0, String::new())]);
    assert!(cluster.shared.contains(&(session, cluster.map.epoch)), "it is told of the newer map");
}

#[test]
fn operations_from_a_newer_map_wait_for_it() {
    let mut cluster = Cluster::new(4);
    let session = cluster.connect(A);
    let newer = cluster.move_group(&[0, 3, 1]);
    cluster.append(A, session, 1, newer);
    cluster.settle();
    assert!(cluster.answers_to(1).is_empty());
    assert_eq!(cluster.wanted.last(), Some(&(A, newer)), "it asks for what it lacks");
    cluster.update_all();
    cluster.settle();
    assert_eq!(cluster.answers_to(1), [(session, 0, String::new())]);
    assert_eq!(cluster.content(A), "1,");
}

#[test]
fn a_deposed_primary_forgets_and_the_next_one_answers_what_is_sent_again() {
    // The update reaches the next primary before the interval ends, or it does not.
    for reached in [false, true] {
        let mut cluster = Cluster::new(3);
        let session = cluster.connect(A);
        cluster.cut = [(A, C)].into();
        if !reached {
            cluster.cut.insert((A, B));
        }
        cluster.append(A, session, 1, Epoch(1));
        cluster.settle();
        cluster.lose(A, B);
        cluster.lose(A, C);
        cluster.cut.clear();
        let since = cluster.move_group(&[1, 0, 2]);
        cluster.update_all();
        cluster.settle();
        assert!(cluster.is_active(B));
        assert!(cluster.answers.is_empty(), "the old primary is silent");
        assert!(cluster.shared.contains(&(session, since)), "and says why");
        assert_eq!(cluster.client_bytes(A), 0);
        let again = cluster.connect(B);
        cluster.ask(B, again, 1, since, 1, appending(1));
        cluster.settle();
        assert_eq!(cluster.answers_to(1), [(again, 0, String::new())]);
        assert_eq!(cluster.content(B), "1,");
    }
}

#[test]
fn operations_sent_to_a_primary_before_it_was_deposed_and_chosen_again_are_not_taken() {
    let mut cluster = Cluster::new(3);
    let session = cluster.connect(A);
    cluster.move_group(&[1, 0, 2]);
    cluster.move_group(&[0, 1, 2]);
    cluster.update_all();
    cluster.settle();
    assert!(cluster.is_active(A));
    // Whoever sent this learns of both changes and sends it again.
    cluster.append(A, session, 1, Epoch(1));
    cluster.settle();
    assert!(cluster.answers.is_empty());
    cluster.ask(A, session, 1, cluster.map.epoch, 1, appending(1));
    cluster.settle();
    assert_eq!(cluster.answers_to(1).len(), 1);
    assert_eq!(cluster.content(A), "1,");
}

#[test]
fn requests_that_come_again_meanwhile_are_carried_out_once() {
    let mut cluster = Cluster::new(3);
    let lost = cluster.connect(A);
    cluster.cut = [(A, C)].into();
    cluster.append(A, lost, 1, Epoch(1));
    cluster.append(A, lost, 2, Epoch(1));
    cluster.settle();
    cluster.lose(A, C);
    cluster.cut.clear();
    cluster.mark_down(2);
    cluster.update_all();
    cluster.settle();
    cluster.append(A, lost, 3, cluster.map.epoch);
    // The client loses its session and sends everything again on the next, twice over.
    cluster.disconnect(A, lost);
    let mut session = lost;
    for attempt in 1..=2 {
        session = cluster.connect(A);
        for tid in 1..=3 {
            cluster.ask(A, session, tid, cluster.map.epoch, attempt, appending(tid));
        }
        if attempt == 1 {
            cluster.disconnect(A, session);
        }
    }
    cluster.mark_up(2);
    cluster.update_all();
    cluster.settle();
    assert_eq!(cluster.content(A), "1,2,3,");
    for tid in 1..=3 {
        let answers = cluster.answers_to(tid);
        let live = answers.iter().filter(|(to, ..)| *to == session).count();
        assert!((1..=2).contains(&live), "{tid}: {answers:?}");
        assert!(answers.iter().all(|(_, result, _)| *result == 0));
    }
    assert_eq!(cluster.client_bytes(A), 0);
}

#[test]
fn an_update_that_fails_is_answered_with_its_error_once_more() {
    let mut cluster = Cluster::new(3);
    let session = cluster.connect(A);
    cluster.append(A, session, 1, Epoch(1));
    cluster.settle();
    cluster.cut = [(A, C)].into();
    cluster.ask(A, session, 2, Epoch(1), 0, Op::create(true));
    cluster.settle();
    cluster.lose(A, C);
    cluster.cut.clear();
    cluster.mark_down(2);
    cluster.mark_up(2);
    cluster.update_all();
    cluster.settle();
    let [(to, result, _)] = &cluster.answers_to(2)[..] else { panic!("{:?}", cluster.answers) };
    assert_eq!((*to, *result), (session, types::Errno::EEXIST.as_result()));
    assert_eq!(cluster.content(A), "1,");
}

#[test]
fn a_member_that_leaves_and_another_that_comes_do_not_lose_what_is_in_flight() {
    let mut cluster = Cluster::new(4);
    let session = cluster.connect(A);
    cluster.cut = [(A, B)].into();
    for tid in 1..=20 {
        cluster.append(A, session, tid, Epoch(1));
    }
    cluster.settle();
    cluster.lose(A, B);
    cluster.cut.clear();
    cluster.move_group(&[0, 2, 3]);
    cluster.update_all();
    cluster.settle();
    assert!(cluster.is_active(A), "{D} has caught up");
    let answered: Vec<u64> = cluster.answers.iter().map(|answer| answer.tid).collect();
    assert_eq!(answered, (1..=20).collect::<Vec<_>>());
    let expected: String = (1..=20).map(|tid| format!("{tid},")).collect();
    assert_eq!(cluster.content(A), expected);
}
