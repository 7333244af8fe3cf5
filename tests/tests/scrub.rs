//! Bits that rot in a running OSD's store are found, repaired and reported.

use cluster_tests::{TestCluster, clients_are_here};
use serde_json::Value;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::thread::sleep;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// 64 KiB that are nowhere else.
fn content(seed: u64) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = |_| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x as u8
    };
    (0..65_536).map(next).collect()
}

fn put(cluster: &TestCluster, object: &str, bytes: &[u8]) {
    let file = cluster.scratch(object);
    std::fs::write(&file, bytes).expect("scratch can be written");
    cluster.rados(&["-p", "p", "put", object, file.to_str().expect("plain path")]).ok();
}

/// Flips a bit of the block of an OSD's store that holds these bytes' third block.
fn rot(cluster: &TestCluster, osd: u32, bytes: &[u8]) {
    let path = cluster.dir().join(format!("osd.{osd}")).join("block");
    let store = OpenOptions::new().read(true).write(true).open(&path).expect("an OSD's store");
    let (wanted, store_bytes) = (&bytes[8192..12_288], store.metadata().expect("it is open").len());
    let mut chunk = vec![0; 1 << 20];
    for at in (0..store_bytes).step_by(chunk.len()) {
        let read = store.read_at(&mut chunk, at).expect("the store can be read");
        let found = chunk[..read].chunks(4096).position(|block| block == wanted);
        if let Some(index) = found {
            let at = at + index as u64 * 4096 + 100;
            store.write_all_at(&[bytes[8292] ^ 4], at).expect("the store can be written");
            return store.sync_all().expect("the store can be written");
        }
    }
    panic!("osd.{osd} does not hold the object's bytes");
}

fn group(cluster: &TestCluster, pgid: &str) -> Value {
    let dump = cluster.ceph_json(&["pg", "dump", "pgs"]);
    let groups = dump["pg_stats"].as_array().or(dump.as_array()).cloned().unwrap_or_default();
    groups.into_iter().find(|pg| pg["pgid"] == pgid).unwrap_or_else(|| panic!("{dump}"))
}

/// Orders a scrub and waits for its end. Gives what is then known of the group.
fn scrub(cluster: &TestCluster, what: &str, pgid: &str) -> Value {
    let stamp = if what == "scrub" { "last_scrub_stamp" } else { "last_deep_scrub_stamp" };
    let before = group(cluster, pgid)[stamp].clone();
    cluster.ceph(&["pg", what, pgid]).ok();
    let started = Instant::now();
    loop {
        let pg = group(cluster, pgid);
        let state = pg["state"].as_str().expect("a name").to_owned();
        if pg[stamp] != before && !state.contains("scrubbing") && !state.contains("recover") {
            return pg;
        }
        assert!(started.elapsed() < LIMIT, "{what} does not end: {pg}");
        sleep(Duration::from_millis(200));
    }
}

#[test]
fn rotten_bits_are_found_and_repaired() {
    if !clients_are_here(&["ceph", "rados"]) {
        return;
    }
    let cluster = TestCluster::start("scrub", 3);
    cluster.make_pool("p", 1, 3);
    let pgid =
        cluster.ceph_json(&["pg", "ls-by-pool", "p"])["pg_stats"][0]["pgid"].as_str().expect("a group").to_owned();
    let contents: Vec<Vec<u8>> = (0..4).map(content).collect();
    for (i, bytes) in contents.iter().enumerate() {
        put(&cluster, &format!("o{i}"), bytes);
    }
    let pg = scrub(&cluster, "deep-scrub", &pgid);
    assert_eq!((&pg["state"], &pg["stat_sum"]["num_scrub_errors"]), (&"active+clean".into(), &0.into()), "{pg}");

    // One copy is bad: it is replaced.
    (0..3).for_each(|osd| rot(&cluster, osd, &contents[osd as usize]));
    let pg = scrub(&cluster, "deep-scrub", &pgid);
    assert_eq!(pg["stat_sum"]["num_objects_repaired"], 3, "{pg}");
    assert_eq!((&pg["state"], &pg["stat_sum"]["num_scrub_errors"]), (&"active+clean".into(), &0.into()), "{pg}");
    for (i, bytes) in contents.iter().enumerate() {
        let file = cluster.scratch("got");
        cluster.rados(&["-p", "p", "get", &format!("o{i}"), file.to_str().expect("plain path")]).ok();
        assert!(std::fs::read(&file).expect("it was got") == *bytes, "o{i} after repair");
    }

    // All are: that is reported.
    (0..3).for_each(|osd| rot(&cluster, osd, &contents[3]));
    let pg = scrub(&cluster, "deep-scrub", &pgid);
    assert_eq!(pg["state"], "active+clean+inconsistent", "{pg}");
    let health = cluster.ceph(&["health", "detail"]).ok();
    assert!(
        health.contains("Possible data damage: 1 pg inconsistent") && health.contains("3 scrub errors"),
        "{health}"
    );
    let damaged = cluster.ceph_json(&["pg", "ls", "inconsistent"]);
    assert_eq!(damaged["pg_stats"].as_array().expect("a list").len(), 1, "{damaged}");
    assert_eq!(damaged["pg_stats"][0]["pgid"], *pgid, "{damaged}");
    let listed = cluster.rados(&["list-inconsistent-obj", &pgid, "--format=json"]).ok();
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    let found = listed["inconsistents"].as_array().expect("a list");
    assert_eq!(found.len(), 1, "{listed}");
    assert_eq!((&found[0]["object"]["name"], &found[0]["union_shard_errors"][0]), (&"o3".into(), &"read_error".into()));
    assert_eq!(found[0]["shards"].as_array().expect("a list").len(), 3, "{listed}");
    put(&cluster, "o3", &contents[3]);
    let pg = scrub(&cluster, "repair", &pgid);
    assert_eq!(pg["state"], "active+clean", "{pg}");
    let listed = cluster.rados(&["list-inconsistent-obj", &pgid, "--format=json"]).ok();
    assert!(listed.contains("\"inconsistents\":[]"), "{listed}");
    let refused = cluster.ceph(&["pg", "scrub", "77.0"]).failure();
    assert!(refused.contains("does not exist"), "{refused}");
    assert!(cluster.ceph(&["osd", "deep-scrub", "all"]).succeeded());
}
