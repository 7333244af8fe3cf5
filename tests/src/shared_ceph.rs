//! One real Ceph for all tests that compare with one, which they use in turn.
//!
//! `NACRE_TEST_CEPH` names the folder. The first test that wants it starts it there; whoever has set the variable stops
//! it. Each test finds it without pools, profiles and options of others. Without the variable every test starts its
//! own.

use crate::cluster::TestCluster;
use std::fs::File;
use std::path::PathBuf;

/// OSDs that it has.
pub const OSDS: u32 = 3;

/// The folder of the Ceph that this run of the tests shares.
pub fn folder() -> Option<PathBuf> {
    std::env::var_os("NACRE_TEST_CEPH").map(PathBuf::from)
}

/// Waits for the tests that have it before. It is taken until the file is dropped.
pub fn take(folder: &std::path::Path) -> File {
    let lock = File::create(folder.with_extension("lock")).expect("a file beside the folder can be made");
    lock.lock().expect("locks are there");
    lock
}

/// Removes what tests leave in a Ceph.
#[track_caller]
pub fn clear(cluster: &TestCluster) {
    for pool in cluster.ceph(&["osd", "pool", "ls"]).ok().lines() {
        cluster.ceph(&["osd", "pool", "rm", pool, pool, "--yes-i-really-really-mean-it"]).ok();
    }
    for profile in cluster.ceph(&["osd", "erasure-code-profile", "ls"]).ok().lines().filter(|name| *name != "default") {
        cluster.ceph(&["osd", "erasure-code-profile", "rm", profile]).ok();
    }
    let rules = cluster.ceph(&["osd", "crush", "rule", "ls"]).ok();
    for rule in rules.lines().filter(|name| *name != "replicated_rule") {
        cluster.ceph(&["osd", "crush", "rule", "rm", rule]).ok();
    }
}
