//! Groups wait for OSDs that served before, and are up, before they serve with fewer members.

use super::cluster::{Cluster, PG, POOL};
use super::healing::filled;
use super::stand_ins::place;
use crate::ops::Limits;
use bytes::Bytes;
use osdmap::{OsdMapFlags, PgPool};
use std::time::Duration;
use types::OsdId;
use wire::messages::Op;
use wire::nacre::mon::pg_state;

const A: OsdId = OsdId(0);
const B: OsdId = OsdId(1);
const C: OsdId = OsdId(2);
const D: OsdId = OsdId(3);
const WAITS: u64 = pg_state::PEERING | pg_state::REMAPPED;
/// The request that comes while the group waits.
const TID: u64 = 70;

/// Makes a group of which A, B and C have all, and that a new map has on A and D, which has nothing. A single member
/// may serve.
fn moved() -> Cluster {
    let mut cluster = filled(4, 3);
    let pool = cluster.map.pools[&POOL].clone();
    cluster.change(|next| {
        next.new_pools.insert(POOL, PgPool { min_size: 1, ..pool });
        next.new_flags = Some(OsdMapFlags::NOBACKFILL);
    });
    place(&mut cluster, 4, &[A, D]);
    cluster.temps.clear();
    cluster.move_group(&[0, 3]);
    cluster.update_all();
    cluster.settle();
    cluster
}

/// Makes a group of two data shards and a parity shard that is on A, B and D. The one of D is still with C.
fn coded_and_moved() -> Cluster {
    let mut cluster = Cluster::coded_of(4, 3, Limits::default());
    let session = cluster.connect(A);
    cluster.ask(A, session, 1, cluster.map.epoch, 0, Op::append(Bytes::from(vec![b'x'; 16_384])));
    cluster.settle();
    cluster.put_on_devices();
    cluster.change(|next| next.new_flags = Some(OsdMapFlags::NOBACKFILL));
    place(&mut cluster, 4, &[A, B, D]);
    cluster.temps.clear();
    cluster.move_group(&[0, 1, 3]);
    cluster.update_all();
    cluster.settle();
    cluster
}

fn append(cluster: &mut Cluster) {
    let session = cluster.connect(A);
    cluster.append(A, session, TID, cluster.map.epoch);
    cluster.settle();
}

fn is_answered(cluster: &Cluster) -> bool {
    match &cluster.answers_to(TID)[..] {
        [] => false,
        [(_, result, _)] => *result == 0,
        more => panic!("{} answers", more.len()),
    }
}

fn state(cluster: &mut Cluster) -> u64 {
    cluster.shard(A).pg_view(PG).expect("A leads").state
}

#[test]
fn a_group_takes_no_update_before_those_act_that_served_before() {
    let mut cluster = moved();
    let wanted = vec![A, B, C, D];
    assert_eq!(cluster.temps, std::slice::from_ref(&wanted));
    let recorded = cluster.history();
    append(&mut cluster);
    assert_eq!((state(&mut cluster) & WAITS, is_answered(&cluster)), (WAITS, false));
    // A request that is lost comes again.
    (0..10).for_each(|_| cluster.pass(Duration::from_secs(1)));
    assert_eq!((state(&mut cluster) & WAITS, is_answered(&cluster)), (WAITS, false));
    assert!((3..=5).contains(&cluster.temps.len()) && cluster.temps.iter().all(|temp| *temp == wanted));
    assert_eq!(cluster.history(), recorded, "nobody else is to be recorded");
    cluster.move_group(&[0, 1, 2, 3]);
    cluster.update_all();
    cluster.settle();
    assert!(is_answered(&cluster));
    assert_eq!(cluster.history().members, [A, B, C]);
}

#[test]
fn a_group_goes_on_without_those_that_go_down_while_it_waits() {
    let mut cluster = moved();
    append(&mut cluster);
    cluster.mark_down(1);
    cluster.update_all();
    cluster.settle();
    assert!(!is_answered(&cluster), "C is left");
    assert_eq!(cluster.temps.last(), Some(&vec![A, C, D]));
    cluster.mark_down(2);
    cluster.update_all();
    cluster.settle();
    assert!(is_answered(&cluster), "with the map that tells it, and no later");
    assert_eq!(cluster.history().members, [A]);
}

#[test]
fn a_group_with_as_many_members_as_copies_waits_for_nobody() {
    let mut cluster = moved();
    let pool = cluster.map.pools[&POOL].clone();
    cluster.change(|next| drop(next.new_pools.insert(POOL, PgPool { size: 1, ..pool })));
    cluster.update_all();
    cluster.settle();
    append(&mut cluster);
    assert!(is_answered(&cluster));
}

#[test]
fn a_coded_group_takes_no_update_before_the_osd_acts_that_has_the_shard() {
    let mut cluster = coded_and_moved();
    assert_eq!(cluster.temps, [vec![A, B, C]]);
    append(&mut cluster);
    assert_eq!((state(&mut cluster) & WAITS, is_answered(&cluster)), (WAITS, false));
    cluster.move_group(&[0, 1, 2]);
    cluster.update_all();
    cluster.settle();
    assert!(is_answered(&cluster));
    assert_eq!(cluster.history().members, [A, B, C]);
}

#[test]
fn a_coded_group_goes_on_without_an_osd_that_goes_down_while_it_waits() {
    let mut cluster = coded_and_moved();
    append(&mut cluster);
    cluster.mark_down(2);
    cluster.update_all();
    cluster.settle();
    assert!(is_answered(&cluster));
    assert_eq!(cluster.history().members, [A, B]);
}

/// Has the map give a group of three shards no OSD for the first one, which A still has.
fn without_the_first_shard(cluster: &mut Cluster) {
    place(cluster, 3, &[B, C]);
    cluster.temps.clear();
    cluster.move_group(&[OsdId::NONE.0, 1, 2]);
    cluster.update_all();
    cluster.settle();
    cluster.pass(Duration::from_secs(2));
}

#[test]
fn an_osd_that_has_the_first_shard_leads_again_though_the_map_has_no_osd_for_it() {
    let mut cluster = Cluster::coded(3);
    without_the_first_shard(&mut cluster);
    assert_eq!(cluster.temps.first(), Some(&vec![A, B, C]));
    assert!(!cluster.is_active(B));
    cluster.temps.clear();
    cluster.move_group(&[0, 1, 2]);
    cluster.update_all();
    (0..3).for_each(|_| cluster.pass(Duration::from_secs(1)));
    assert!(cluster.is_active(A));
    assert_eq!((cluster.history().members, &cluster.temps), (vec![A, B, C], &Vec::new()));
}

#[test]
fn an_osd_that_has_started_since_it_served_does_not_lead_for_its_shard() {
    let mut cluster = Cluster::coded(3);
    cluster.mark_down(0);
    cluster.mark_up(0);
    without_the_first_shard(&mut cluster);
    assert!(cluster.is_active(B));
    assert!(!cluster.temps.contains(&vec![A, B, C]), "it may have come back without the shard");
}

#[test]
fn an_osd_that_is_to_lead_and_goes_down_is_not_waited_for() {
    let mut cluster = filled(4, 3);
    place(&mut cluster, 4, &[D]);
    cluster.temps.clear();
    cluster.move_group(&[3]);
    cluster.update_all();
    cluster.settle();
    assert_eq!(cluster.temps, [vec![A, B, C, D]]);
    cluster.mark_down(0);
    cluster.update_all();
    cluster.settle();
    assert_eq!(cluster.temps.last(), Some(&vec![B, C, D]), "with the map that tells it, and no later");
}
