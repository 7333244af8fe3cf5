//! Reports of groups in beacons.

use super::cluster::{Cluster, PG};
use crate::PeeringStep;
use std::time::Duration;
use types::{Epoch, OsdId};

const A: OsdId = OsdId(0);

#[test]
fn groups_that_have_served_are_reported_once() {
    let mut cluster = Cluster::new(3);
    cluster.settle();
    let served = |cluster: &mut Cluster| {
        let reports = cluster.shard(A).beacon(0, 0).pgs;
        reports.iter().map(|report| (report.read_ops, report.write_ops)).collect::<Vec<_>>()
    };
    served(&mut cluster);
    let (session, epoch): (_, Epoch) = (cluster.connect(A), cluster.map.epoch);
    cluster.append(A, session, 1, epoch);
    cluster.settle();
    assert_eq!(served(&mut cluster), [(0, 1)]);
    // Reads alone, too.
    cluster.read(A, session, 2, epoch);
    cluster.read(A, session, 3, epoch);
    cluster.settle();
    assert_eq!(served(&mut cluster), [(2, 1)]);
    assert_eq!(served(&mut cluster), []);
    // An update that is on its way when a beacon is due is in that or in the next one.
    cluster.append(A, session, 4, epoch);
    let meanwhile = served(&mut cluster);
    cluster.settle();
    assert_eq!([meanwhile, served(&mut cluster)].concat(), [(2, 2)]);
}

#[test]
fn operators_are_shown_a_group_with_the_times_of_its_states_and_the_epochs_of_its_sets() {
    let mut cluster = Cluster::new(3);
    cluster.settle();
    let first = cluster.shard(A).pg_view(PG).expect("A leads");
    cluster.shard(A).set_wall_clock(Duration::from_secs(1_700_000_000));
    cluster.move_group_of(PG, &[0, 2, 1]);
    cluster.update_all();
    (0..50).for_each(|_| cluster.pass(Duration::from_millis(100)));
    let view = cluster.shard(A).pg_view(PG).expect("A leads");
    assert_eq!((view.step, &view.waits_for, view.last_complete), (PeeringStep::Done, &Vec::new(), view.last_update));
    assert!(view.up_since == first.up_since && view.interval_since > first.interval_since, "{view:?}");
    assert_eq!(view.primary_since, first.primary_since, "A still leads");
    assert_eq!(view.report.state, view.state);
    let times = view.times;
    assert!(view.began_at.sec >= 1_700_000_000 && times.became_active >= view.began_at, "{view:?}");
    assert!(times.fresh >= times.became_active && times.active >= times.became_active, "{times:?}");
    let members: Vec<OsdId> = view.members.iter().map(|member| member.osd).collect();
    assert_eq!(members, [OsdId(1), OsdId(2)]);
    assert!(view.members.iter().all(|member| member.had.is_some()), "each told what it had");
}
