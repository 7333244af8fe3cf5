//! Space comes back once a pool is gone, also that of copies which no longer belonged anywhere.

use cluster_tests::{Pattern, TestCluster, assert_same_bytes, clients_are_here};
use std::os::unix::fs::MetadataExt;
use std::thread::sleep;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
const OSDS: u32 = 4;
const WRITTEN: u64 = 100 << 20;
/// Bytes that may stay: records of groups that have been, checkpoints of uneven size.
const SLACK: u64 = 8 << 20;

/// Used bytes by the cluster's word, per OSD.
fn used(cluster: &TestCluster) -> Vec<u64> {
    let df = cluster.ceph_json(&["osd", "df"]);
    let nodes = df["nodes"].as_array().unwrap_or_else(|| panic!("{df}"));
    assert_eq!(nodes.len(), OSDS as usize, "{df}");
    nodes.iter().map(|node| node["kb_used"].as_u64().expect("a number") << 10).collect()
}

/// Used bytes by the cluster's word, once every OSD has told.
fn used_as_told(cluster: &TestCluster) -> Vec<u64> {
    let end = Instant::now() + LIMIT;
    loop {
        let used = used(cluster);
        if !used.contains(&0) {
            return used;
        }
        assert!(Instant::now() < end, "an OSD does not tell what it uses: {used:?}");
        sleep(Duration::from_millis(200));
    }
}

/// Bytes that the OSDs' files take on the file system below, per OSD.
fn allocated(cluster: &TestCluster) -> Vec<u64> {
    let file = |osd| cluster.dir().join(format!("osd.{osd}/block"));
    (0..OSDS).map(|osd| file(osd).metadata().expect("the OSD's file is there").blocks() * 512).collect()
}

fn mib(sizes: &[u64]) -> Vec<u64> {
    sizes.iter().map(|bytes| bytes >> 20).collect()
}

/// Waits until the sizes of all OSDs are as low as they should be. Fails once they have not fallen for [`LIMIT`].
fn falls(what: &str, sizes: impl Fn() -> Vec<u64>, low: impl Fn(&[u64]) -> bool) {
    let started = Instant::now();
    let (mut least, mut end) = (u64::MAX, started + LIMIT);
    loop {
        let now = sizes();
        if low(&now) {
            eprintln!("after {:.1} s: {what} {:?} MiB", started.elapsed().as_secs_f64(), mib(&now));
            return;
        }
        let sum = now.iter().sum();
        if sum < least {
            (least, end) = (sum, Instant::now() + LIMIT);
        }
        assert!(Instant::now() < end, "space is not given back: {what} {:?} MiB", mib(&now));
        sleep(Duration::from_millis(500));
    }
}

#[test]
fn a_deleted_pool_gives_its_space_back() {
    if !clients_are_here(&["ceph", "rados"]) {
        return;
    }
    let cluster = TestCluster::start("space", OSDS);
    let ceph = |args: &[&str]| cluster.ceph(args).ok();
    ceph(&["config", "set", "mon", "mon_allow_pool_delete", "true"]);
    let (used_empty, allocated_empty) = (used_as_told(&cluster), allocated(&cluster));
    eprintln!("empty: used {:?} MiB, allocated {:?} MiB", mib(&used_empty), mib(&allocated_empty));
    cluster.make_pool("p", 16, 2);
    cluster.make_pool("kept", 8, 2);
    let kept = cluster.scratch("kept");
    Pattern::new(7).write(&kept, (4 << 20) + 1);
    cluster.rados(&["-p", "kept", "put", "object", kept.to_str().expect("a path")]).ok();
    let count = (WRITTEN >> 20).to_string();
    let bench =
        ["-p", "p", "bench", "120", "write", "-b", "1048576", "-t", "8", "--no-cleanup", "--max-objects", &count];
    cluster.rados_within(&bench, Duration::from_secs(150)).ok();

    // Every group that moves away and back leaves a copy behind, for a while at least.
    for osd in ["1", "2"] {
        ceph(&["osd", "out", osd]);
        cluster.wait_until_clean(Duration::from_secs(90));
        ceph(&["osd", "in", osd]);
        cluster.wait_until_clean(Duration::from_secs(90));
    }
    let end = Instant::now() + LIMIT;
    while used(&cluster).iter().sum::<u64>() < used_empty.iter().sum::<u64>() + 2 * WRITTEN {
        assert!(Instant::now() < end, "less is used than was written: {:?} MiB", mib(&used(&cluster)));
        sleep(Duration::from_millis(500));
    }
    let (used_full, allocated_full) = (used(&cluster), allocated(&cluster));
    eprintln!("full: used {:?} MiB, allocated {:?} MiB", mib(&used_full), mib(&allocated_full));
    assert!(allocated_full.iter().sum::<u64>() >= allocated_empty.iter().sum::<u64>() + 2 * WRITTEN);

    ceph(&["osd", "pool", "delete", "p", "p", "--yes-i-really-really-mean-it"]);
    let within =
        |sizes: &[u64], empty: &[u64], slack| sizes.iter().zip(empty).all(|(now, empty)| *now <= empty + slack);
    falls("used", || used(&cluster), |now| within(now, &used_empty, SLACK));
    // Stores with nothing to do return their free blocks to the file system below, without any checkpoint.
    falls("allocated", || allocated(&cluster), |now| within(now, &allocated_empty, 3 * SLACK));
    // Objects that were not deleted are there, also after everything has been read back from the devices.
    cluster.down();
    cluster.up();
    cluster.wait_until_clean(Duration::from_secs(60));
    let got = cluster.scratch("got");
    cluster.rados(&["-p", "kept", "get", "object", got.to_str().expect("a path")]).ok();
    assert_same_bytes(&kept, &got);
    let used_now = used_as_told(&cluster);
    let near = within(&used_now, &used_empty, SLACK);
    assert!(near, "used after a restart: {:?} MiB, empty: {:?} MiB", mib(&used_now), mib(&used_empty));
}
