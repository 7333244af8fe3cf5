//! Reports of groups in beacons.

use super::cluster::Cluster;
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
