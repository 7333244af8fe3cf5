//! Monitors that have not heard of everything: a survivor that was made the only one.

use super::cluster::Cluster;
use std::time::Duration;
use types::{Epoch, OsdId};
use wire::messages::OsdMap;
use wire::{Encode, Target};

const A: OsdId = OsdId(0);
const B: OsdId = OsdId(1);
const C: OsdId = OsdId(2);
const D: OsdId = OsdId(3);

fn append(cluster: &mut Cluster, osd: OsdId, tid: u64) {
    let (session, epoch) = (cluster.connect(osd), cluster.map.epoch);
    cluster.append(osd, session, tid, epoch);
    cluster.settle();
    assert_eq!(cluster.answers_to(tid).len(), 1, "{tid} by {osd}");
}

/// Makes a group that served on A and B; then on B and C, then on C and D, each time all that was written was brought
/// to them, and more was. The monitors know of the first time only, and let A and B act.
fn moved_on() -> Cluster {
    let mut cluster = Cluster::new(4);
    cluster.move_group(&[0, 1]);
    cluster.update_all();
    cluster.heal(2);
    append(&mut cluster, A, 1);
    let known = cluster.history();
    for (down, acting, leads, tid) in [(0, [1, 2], B, 2), (1, [2, 3], C, 3)] {
        // The primary goes on with one OSD that has everything beside it.
        cluster.move_group(&[acting[0], acting[1], down]);
        cluster.update_all();
        cluster.heal(3);
        cluster.mark_down(down);
        cluster.move_group(&acting);
        cluster.update_all();
        cluster.heal(3);
        append(&mut cluster, leads, tid);
    }
    cluster.fall_back(known);
    cluster.mark_up(0);
    cluster.mark_up(1);
    cluster.temps.clear();
    cluster.move_group(&[0, 1]);
    cluster
}

/// Gives primaries what they ask for until nobody asks any more.
fn as_asked(cluster: &mut Cluster) {
    for _ in 0..6 {
        cluster.update_all();
        cluster.heal(2);
        let Some(osds) = cluster.temps.pop().filter(|osds| !osds.is_empty()) else { continue };
        cluster.temps.clear();
        let osds: Vec<i32> = osds.iter().map(|osd| osd.0).collect();
        cluster.move_group(&osds);
    }
}

#[test]
fn those_that_served_last_lead_though_the_record_does_not_know_them() {
    let mut cluster = moved_on();
    as_asked(&mut cluster);
    let leads = [A, B, C, D].into_iter().find(|osd| cluster.is_active(*osd)).expect("somebody leads");
    assert_eq!(cluster.content(leads), "1,2,3,");
    let history = cluster.history();
    assert!(history.members.contains(&C) && history.members.contains(&D), "{history:?}");
    assert_eq!(history.doubt, wire::nacre::mon::doubt::UNCONFIRMED, "nobody lacks anything");
}

#[test]
fn copies_that_nobody_needs_stay_until_the_operator_has_confirmed() {
    let mut cluster = moved_on();
    as_asked(&mut cluster);
    // The record knows those that serve now. Others are strays.
    cluster.move_group(&[3, 2, 0]);
    cluster.update_all();
    cluster.heal(4);
    assert!(cluster.is_active(D));
    let has = |cluster: &mut Cluster, osd: OsdId| !cluster.store(osd).pgs().is_empty();
    cluster.heal(8);
    assert!(has(&mut cluster, B));
    assert_eq!(cluster.history().doubt, wire::nacre::mon::doubt::UNCONFIRMED);
    cluster.confirm();
    cluster.heal(40);
    assert!(has(&mut cluster, A) && !has(&mut cluster, B));
    assert_eq!(cluster.content(D), "1,2,3,");
}

#[test]
fn who_is_down_is_waited_for_unless_it_is_given_up() {
    let mut cluster = moved_on();
    cluster.mark_down(3);
    as_asked(&mut cluster);
    assert!([A, B, C].into_iter().all(|osd| !cluster.is_active(osd)), "D may have what nobody else has");
    cluster.change(|next| {
        let epoch = next.epoch;
        next.new_lost.insert(D, epoch);
    });
    as_asked(&mut cluster);
    let leads = [A, B, C].into_iter().find(|osd| cluster.is_active(*osd)).expect("somebody leads");
    assert_eq!(cluster.content(leads), "1,2,3,");
}

/// A pool that the map has never known of is none that was deleted.
#[test]
fn a_map_that_has_never_known_of_a_pool_takes_no_data_away() {
    for known in [false, true] {
        let mut cluster = Cluster::new(3);
        append(&mut cluster, A, 1);
        let mut map = cluster.map.clone();
        map.epoch = Epoch(map.epoch.0 + 1_000_000);
        map.pools.clear();
        map.pool_names.clear();
        map.pg_temp.clear();
        map.pool_max = if known { map.pool_max } else { 0 };
        let epoch = map.epoch;
        let fulls = [(epoch, map.to_vec(Target::default()).into())].into();
        let whole = OsdMap { fsid: map.fsid, oldest: epoch, newest: epoch, fulls, ..OsdMap::default() };
        cluster.maps(A, &whole).expect("the map is good");
        cluster.settle();
        cluster.pass(Duration::from_secs(4));
        assert_eq!(cluster.store(A).pgs().is_empty(), known, "it was deleted: {known}");
    }
}
