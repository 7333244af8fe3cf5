//! Groups for which the map has fewer OSDs than there are to be copies keep former members, and are clean.

use super::cluster::{Cluster, PG, POOL};
use super::healing::{filled, heal};
use crate::PgView;
use bytes::Bytes;
use crush::{CrushMap, Location, WEIGHT_ONE};
use osdmap::OsdMapFlags;
use std::time::Duration;
use types::{ObjectId, OsdId};
use wire::messages::Op;
use wire::nacre::mon::pg_state;

const A: OsdId = OsdId(0);
const B: OsdId = OsdId(1);
const C: OsdId = OsdId(2);
const D: OsdId = OsdId(3);
const STAYS: u64 = pg_state::ACTIVE | pg_state::CLEAN | pg_state::REMAPPED;

/// Has a rule place the group on those of the first `osds` OSDs that are `inside`. Who acts stays as it was.
pub(super) fn place(cluster: &mut Cluster, osds: i32, inside: &[OsdId]) {
    let mut crush = CrushMap::new();
    for osd in 0..osds {
        let host = format!("host{osd}");
        let location = Location::from([("root", "default"), ("host", &host)]);
        crush.insert_item(osd, WEIGHT_ONE, &format!("osd.{osd}"), &location).expect("a place");
    }
    let rule = match cluster.map.pools[&POOL].is_erasure() {
        true => crush.create_erasure_rule("rule", "default", "host", None, 3),
        false => crush.create_replicated_rule("rule", "default", "host", None),
    };
    assert_eq!(rule.expect("a rule"), 0, "the pool's rule");
    cluster.change(|next| {
        next.set_crush(&crush);
        next.new_weight
            .extend((0..osds).map(OsdId).map(|osd| (osd, if inside.contains(&osd) { WEIGHT_ONE } else { 0 })));
    });
    cluster.update_all();
    heal(cluster);
}

fn view(cluster: &mut Cluster) -> PgView {
    cluster.shard(A).pg_view(PG).expect("A leads")
}

fn sorted(mut osds: Vec<OsdId>) -> Vec<OsdId> {
    osds.sort_unstable();
    osds
}

#[test]
fn a_group_with_a_member_that_has_no_successor_is_clean_and_tells_its_copies_as_misplaced() {
    let mut cluster = filled(3, 30);
    place(&mut cluster, 3, &[A, B]);
    let told = view(&mut cluster);
    assert_eq!((sorted(told.up), told.acting), (vec![A, B], vec![A, B, C]));
    assert_eq!((told.state, told.degraded, told.misplaced), (STAYS, 0, 30));
    place(&mut cluster, 3, &[B]);
    let told = view(&mut cluster);
    assert_eq!((told.state, told.degraded, told.misplaced), (STAYS, 0, 60));
    assert_eq!(cluster.temps, Vec::<Vec<OsdId>>::new(), "nobody else is wanted");
}

#[test]
fn a_coded_group_with_a_shard_that_has_no_other_place_is_clean_and_tells_it_as_misplaced() {
    let mut cluster = Cluster::coded(3);
    let session = cluster.connect(A);
    cluster.ask(A, session, 1, cluster.map.epoch, 0, Op::append(Bytes::from(vec![b'x'; 16_384])));
    cluster.settle();
    cluster.put_on_devices();
    (0..3).for_each(|_| cluster.pass(Duration::from_secs(1)));
    place(&mut cluster, 3, &[A, B]);
    let told = view(&mut cluster);
    assert_eq!((sorted(told.up), told.acting), (vec![A, B, OsdId::NONE], vec![A, B, C]));
    assert_eq!((told.state, told.degraded, told.misplaced), (STAYS, 0, 1));
    assert_eq!(cluster.temps, Vec::<Vec<OsdId>>::new(), "nobody else is wanted");
}

#[test]
fn a_group_is_not_clean_before_those_have_everything_whom_the_map_wants() {
    let mut cluster = filled(4, 30);
    cluster.change(|next| next.new_flags = Some(OsdMapFlags::NOBACKFILL));
    place(&mut cluster, 4, &[A, D]);
    assert_eq!(view(&mut cluster).state & pg_state::CLEAN, 0, "D does not act");
    let wanted = cluster.temps.last().cloned().expect("D is to act beside the others");
    assert_eq!((wanted[0], sorted(wanted.clone())), (A, vec![A, B, C, D]));
    cluster.move_group(&[0, 1, 2, 3]);
    cluster.update_all();
    heal(&mut cluster);
    let told = view(&mut cluster);
    assert_eq!(told.state & (pg_state::CLEAN | pg_state::DEGRADED), 0, "D has nothing");
    // All copies that D is to have, and those of a member that has no successor. For the other one D comes.
    assert_eq!((told.degraded, told.misplaced), (0, 60));
    cluster.change(|next| next.new_flags = Some(OsdMapFlags::default()));
    cluster.update_all();
    heal(&mut cluster);
    let told = view(&mut cluster);
    assert_eq!((told.state, told.degraded, told.misplaced), (STAYS, 0, 30));
}

#[test]
fn a_copy_goes_once_such_a_group_is_clean_and_those_of_members_stay() {
    let mut cluster = filled(4, 40);
    let objects = |cluster: &mut Cluster, osd: OsdId| {
        cluster.ready(osd, |store| store.list(&ObjectId::min(), &ObjectId::max(), 1000)).len()
    };
    place(&mut cluster, 4, &[A, B]);
    cluster.stuck_disks = [D].into();
    cluster.move_group(&[0, 1, 3]);
    cluster.update_all();
    heal(&mut cluster);
    let told = view(&mut cluster);
    assert_eq!(told.state & (pg_state::CLEAN | pg_state::UNDERSIZED), pg_state::UNDERSIZED);
    assert_eq!(objects(&mut cluster, C), 40, "D does not have everything yet");
    cluster.stuck_disks.clear();
    for _ in 0..60 {
        cluster.pass(Duration::from_millis(500));
    }
    let told = view(&mut cluster);
    assert_eq!((told.state, told.degraded, told.misplaced), (STAYS, 0, 40));
    assert_eq!([A, B, C, D].map(|osd| objects(&mut cluster, osd)), [40, 40, 0, 40]);
}
