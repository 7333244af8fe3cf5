//! Snapshots of objects, as clients take, use and remove them.

use cluster_tests::{TestCluster, assert_same_lines, clients_are_here, python, said_by_ceph};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(180);

/// Snapshots show, share and do to objects what they do on a real Ceph. When a Ceph has trimmed what was removed, and
/// when its clients and OSDs know of a snapshot that a command has made, nobody can tell, so that is checked on Nacre
/// alone.
#[test]
fn snapshots_are_as_cephs() {
    if !clients_are_here(&["ceph", "rados", "python3-rados"]) {
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/snapshots.py");
    let run = |cluster: TestCluster, parts: &[&str], is_ceph: bool| {
        for pool in ["p", "named"] {
            cluster.ceph(&["osd", "pool", "create", pool, "8"]).ok();
        }
        cluster.ceph(&["osd", "erasure-code-profile", "set", "two", "k=2", "m=1", "plugin=jerasure"]).ok();
        for pool in ["coded", "coded_named"] {
            cluster.ceph(&["osd", "pool", "create", pool, "8", "8", "erasure", "two"]).ok();
            if !is_ceph {
                cluster.refuse_overwrites(pool);
            }
        }
        cluster.wait_until_clean(LIMIT);
        let pools = ["p", "named", "coded", "coded_named"];
        cluster_tests::run(cluster.command(python(), &[&[script][..], &pools, parts].concat()), LIMIT).ok()
    };
    let all = run(TestCluster::start("snapshots", 3), &[], false);
    let parts = ["single_steps", "ranges", "by_chance", "coded_steps", "coded_by_chance"];
    let cephs = said_by_ceph("snapshots", || run(TestCluster::start_ceph("snapshots-ceph", 3), &parts, true));
    let (mut ours, mut removal, mut is_removal) = (Vec::new(), Vec::new(), false);
    for line in all.lines() {
        is_removal =
            if line.starts_with("-- ") { line.contains("removal") || line.contains("named") } else { is_removal };
        if is_removal { &mut removal } else { &mut ours }.push(line);
    }
    assert!(ours.len() > 900, "{all}");
    assert_same_lines(&ours.join("\n"), &cephs, "left Nacre, right Ceph");

    let lines = |begin: &str| removal.iter().filter(|line| line.starts_with(begin)).copied().collect::<Vec<_>>();
    assert_eq!(lines("left to be trimmed: "), ["left to be trimmed: 0"; 6], "{removal:#?}");
    let counted = lines("objects and clones: ");
    assert!(counted.len() == 4 && counted.iter().all(|line| line.ends_with(", 0)")), "{removal:#?}");
}
