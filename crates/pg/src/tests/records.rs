//! Records of the monitors, by which primaries know who served last.

use super::cluster::Cluster;
use std::time::Duration;
use types::OsdId;

const A: OsdId = OsdId(0);
const B: OsdId = OsdId(1);
const D: OsdId = OsdId(3);

fn append(cluster: &mut Cluster, osd: OsdId, tid: u64) {
    let (session, epoch) = (cluster.connect(osd), cluster.map.epoch);
    cluster.append(osd, session, tid, epoch);
    cluster.settle();
}

/// A cluster of four in which A was taken for down while B and C acknowledged an update; now these are gone, and A is
/// to serve, with D. The record of the time when A last served, and its epoch, go with it.
fn without_those_that_served_last(hears_old: bool) -> Cluster {
    let mut cluster = Cluster::new(4);
    append(&mut cluster, A, 1);
    let old = (cluster.map.epoch, cluster.history());
    cluster.mark_down(0);
    for osd in 1..4 {
        cluster.update(OsdId(osd));
    }
    cluster.settle();
    cluster.pass(Duration::from_secs(4));
    append(&mut cluster, B, 2);
    assert_eq!(cluster.answers_to(2).len(), 1, "acknowledged by B and C");
    cluster.mark_down(1);
    cluster.mark_down(2);
    cluster.mark_up(0);
    cluster.move_group(&[0, 3]);
    for gone in [1, 2].map(OsdId) {
        cluster.stuck_disks.insert(gone);
        cluster.cut.extend((0..4).map(OsdId).flat_map(|osd| [(osd, gone), (gone, osd)]));
    }
    cluster.old_history = hears_old.then_some(old);
    cluster.update(A);
    cluster.update(D);
    cluster.settle();
    cluster
}

/// Maps may overtake an answer, as they come by another monitor's connection.
#[test]
fn a_record_from_before_the_interval_is_not_gone_by() {
    for hears_old in [false, true] {
        let mut cluster = without_those_that_served_last(hears_old);
        assert!(cluster.old_history.is_none(), "A has asked");
        for _ in 0..4 {
            cluster.pass(Duration::from_secs(4));
        }
        assert!(!cluster.is_active(A), "it serves without those that have what was acknowledged");
        assert!(!cluster.history().members.contains(&A), "{:?}", cluster.history());
        assert_eq!(cluster.outdated_activations, 0, "the monitors had to refuse it");
    }
}

/// A primary's request of an interval that is over is recorded after it has asked for the record in the next one.
#[test]
fn a_record_that_comes_late_has_the_primary_peer_anew() {
    let mut cluster = Cluster::new(3);
    append(&mut cluster, A, 1);
    let earlier = cluster.map.epoch;
    cluster.move_group(&[0, 2, 1]);
    cluster.move_group(&[0, 1, 2]);
    for osd in (0..3).map(OsdId) {
        cluster.update(osd);
    }
    // A knows the record and waits for its members.
    let late = wire::nacre::mon::PgHistory { last_epoch_started: earlier.next(), ..cluster.history() };
    cluster.record(late);
    cluster.settle();
    cluster.pass(Duration::from_secs(4));
    assert!(cluster.is_active(A));
    assert!(cluster.history().last_epoch_started > earlier.next().next(), "{:?}", cluster.history());
    append(&mut cluster, A, 2);
    assert_eq!(cluster.content(A), "1,2,");
}
