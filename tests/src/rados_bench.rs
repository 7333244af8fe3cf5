//! `rados bench` as a writer whose every object is checked.

use crate::cluster::TestCluster;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);

/// `rados bench` writes objects of 8 KiB for so long, with so many at a time, so many at most; every write must
/// succeed. Gives their number.
#[track_caller]
pub fn write_benched(cluster: &TestCluster, pool: &str, seconds: u32, depth: u32, objects_max: u32) -> usize {
    let [seconds, depth, objects_max] = [seconds, depth, objects_max].map(|n| n.to_string());
    let what = ["-p", pool, "bench", &seconds, "write", "-b", "8192", "-t", &depth];
    let kept = ["--max-objects", &objects_max, "--no-cleanup"];
    let out = cluster.rados_within(&[&what[..], &kept].concat(), LIMIT).ok();
    let made = out.lines().find_map(|line| line.strip_prefix("Total writes made:")).unwrap_or_default();
    eprintln!("{pool}: {} writes", made.trim());
    made.trim().parse().expect("a number")
}

/// All that was written is listed, once, and reads back.
#[track_caller]
pub fn check_benched(cluster: &TestCluster, pool: &str, written: usize) {
    let out = cluster.rados_within(&["-p", pool, "bench", "60", "seq", "-t", "8"], LIMIT).ok();
    assert!(!out.contains("does not match") && !out.contains("is not correct"), "{pool}: {out}");
    // Beside the data there is what `rados bench` notes of it.
    let listed = cluster.rados_within(&["-p", pool, "ls"], LIMIT).ok();
    let data = listed.lines().filter(|name| name.starts_with("benchmark_data")).count();
    assert_eq!((data, listed.lines().count()), (written, written + 1), "{pool}");
}
