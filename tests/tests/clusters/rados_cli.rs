//! Ceph's `rados` and `ceph` on a cluster of real processes.

use cluster_tests::{Pattern, TestCluster, assert_same_bytes, clients_are_here, wait_until};
use std::time::Duration;

#[test]
fn objects_come_back_as_they_were_put() {
    if !clients_are_here(&["ceph", "rados"]) {
        return;
    }
    let cluster = TestCluster::start("objects", 6);
    wait_until("it is healthy", Duration::from_secs(60), || cluster.ceph(&["-s"]).ok().contains("HEALTH_OK"));
    let tree = cluster.ceph(&["osd", "tree"]).ok();
    assert_eq!(tree.matches(" up ").count(), 6, "{tree}");
    assert_eq!(tree.matches(" host ").count(), 6, "{tree}");
    cluster.make_pool("p", 32, 3);

    let sizes = [("empty", 0), ("one", 1), ("block", 4096), ("large", (4 << 20) + 1), ("huge", 300 << 20)];
    let (given, got) = (cluster.scratch("given"), cluster.scratch("got"));
    let path = |p: &std::path::Path| p.to_str().expect("plain path").to_owned();
    for (seed, (name, len)) in sizes.into_iter().enumerate() {
        Pattern::new(seed as u64).write(&given, len);
        let limit = Duration::from_secs(180);
        cluster.rados_within(&["-p", "p", "put", name, &path(&given)], limit).ok();
        cluster.rados_within(&["-p", "p", "get", name, &path(&got)], limit).ok();
        assert_same_bytes(&given, &got);
        let stat = cluster.rados(&["-p", "p", "stat", name]).ok();
        assert!(stat.trim_end().ends_with(&format!("size {len}")), "{stat}");
    }
    let mut names: Vec<_> = cluster.rados(&["-p", "p", "ls"]).ok().lines().map(str::to_owned).collect();
    names.sort();
    assert_eq!(names, ["block", "empty", "huge", "large", "one"]);
    assert!(cluster.rados(&["df"]).ok().contains("\np "));

    cluster.rados(&["-p", "p", "rm", "one"]).ok();
    assert!(cluster.rados(&["-p", "p", "stat", "one"]).failure().contains("No such file"));
    assert!(cluster.rados(&["-p", "p", "get", "one", "-"]).failure().contains("No such file"));

    // Everything is stopped and started again; the data is still there.
    cluster.down();
    cluster.up();
    cluster.wait_until_clean(Duration::from_secs(30));
    cluster.rados_within(&["-p", "p", "get", "huge", &path(&got)], Duration::from_secs(180)).ok();
    assert_same_bytes(&given, &got);
    let mut names: Vec<_> = cluster.rados(&["-p", "p", "ls"]).ok().lines().map(str::to_owned).collect();
    names.sort();
    assert_eq!(names, ["block", "empty", "huge", "large"]);
}

#[test]
fn attributes_omap_and_namespaces() {
    if !clients_are_here(&["ceph", "rados"]) {
        return;
    }
    let cluster = TestCluster::start("attrs", 3);
    cluster.make_pool("p", 8, 3);
    let rados = |args: &[&str]| cluster.rados(&[&["-p", "p"], args].concat());
    rados(&["create", "o"]).ok();
    assert!(rados(&["create", "o"]).failure().contains("File exists"));
    rados(&["setxattr", "o", "colour", "blue"]).ok();
    rados(&["setxattr", "o", "shape", "round"]).ok();
    assert_eq!(rados(&["getxattr", "o", "colour"]).ok(), "blue");
    assert_eq!(rados(&["listxattr", "o"]).ok(), "colour\nshape\n");
    rados(&["rmxattr", "o", "colour"]).ok();
    assert!(rados(&["getxattr", "o", "colour"]).failure().contains("No data available"));

    for i in 0..50 {
        rados(&["setomapval", "o", &format!("key{i:02}"), &format!("value{i}")]).ok();
    }
    let keys = rados(&["listomapkeys", "o"]).ok();
    assert_eq!(keys.lines().collect::<Vec<_>>(), (0..50).map(|i| format!("key{i:02}")).collect::<Vec<_>>());
    assert!(rados(&["getomapval", "o", "key07"]).ok().contains("value7"));
    rados(&["rmomapkey", "o", "key07"]).ok();
    assert_eq!(rados(&["listomapkeys", "o"]).ok().lines().count(), 49);
    rados(&["setomapheader", "o", "head"]).ok();
    assert!(rados(&["getomapheader", "o"]).ok().contains("head"));
    rados(&["clearomap", "o"]).ok();
    assert_eq!(rados(&["listomapkeys", "o"]).ok(), "");

    rados(&["-N", "elsewhere", "create", "o2"]).ok();
    assert_eq!(rados(&["ls"]).ok(), "o\n");
    assert_eq!(rados(&["-N", "elsewhere", "ls"]).ok(), "o2\n");
    let all = rados(&["--all", "ls"]).ok();
    assert!(all.contains("elsewhere\to2") && all.contains("\to\n"), "{all}");

    rados(&["truncate", "o", "5000"]).ok();
    assert!(rados(&["stat", "o"]).ok().contains("size 5000"));
}

#[test]
fn bench_writes_reads_and_cleans_up() {
    if !clients_are_here(&["ceph", "rados"]) {
        return;
    }
    let cluster = TestCluster::start("bench", 3);
    cluster.make_pool("p", 16, 3);
    for size in ["4096", "262144", "4194304"] {
        // The bound keeps the OSDs, of 2 GiB each, from running full, however fast the machine is.
        let at_most = ["--max-objects", "250", "--no-cleanup"];
        cluster.rados(&[&["-p", "p", "bench", "3", "write", "-t", "16", "-b", size][..], &at_most].concat()).ok();
        // The reading benchmarks compare every byte with what was written.
        for mode in ["seq", "rand"] {
            let out = cluster.rados(&["-p", "p", "bench", "3", mode, "-t", "16"]).ok();
            assert!(!out.contains("does not match") && !out.contains("is not correct"), "{out}");
        }
        cluster.rados(&["-p", "p", "cleanup"]).ok();
        assert_eq!(cluster.rados(&["-p", "p", "ls"]).ok(), "", "after {size}");
    }
}

/// `perf dump` of the OSDs counts what their clients have done.
#[test]
fn operations_are_counted() {
    if !clients_are_here(&["ceph", "rados"]) {
        return;
    }
    let cluster = TestCluster::start("counted", 3);
    cluster.make_pool("p", 16, 3);
    let counted = || {
        let dumps =
            (0..3).map(|osd| cluster.ceph_json(&["tell", &format!("osd.{osd}"), "perf", "dump"])["osd"].clone());
        let dumps: Vec<_> = dumps.collect();
        ["op", "op_w", "op_r", "op_w_in_bytes", "op_r_out_bytes"].map(|name| {
            dumps.iter().map(|osd| osd[name].as_u64().unwrap_or_else(|| panic!("{name} is counted"))).sum::<u64>()
        })
    };
    let before = counted();
    cluster
        .rados(&["-p", "p", "bench", "60", "write", "-t", "8", "-b", "65536", "--max-objects", "200", "--no-cleanup"])
        .ok();
    let written = counted();
    // The benchmark keeps notes of its own in an object or two.
    let writes = written[1] - before[1];
    assert!((200..=205).contains(&writes), "{writes}");
    assert!((200 * 65_536..201 * 65_536).contains(&(written[3] - before[3])), "{written:?}");
    cluster.rados(&["-p", "p", "bench", "60", "seq", "-t", "8"]).ok();
    let read = counted();
    assert_eq!(read[1], written[1], "reading changes nothing");
    assert!((200..=205).contains(&(read[2] - written[2])), "{read:?}");
    assert!((200 * 65_536..201 * 65_536).contains(&(read[4] - written[4])), "{read:?}");
    assert_eq!(read[0], read[1] + read[2]);
    let latency = cluster.ceph_json(&["tell", "osd.0", "perf", "dump"])["osd"]["op_w_latency"].clone();
    let (sum, count) = (latency["sum"].as_f64().unwrap(), latency["avgcount"].as_u64().unwrap());
    assert!(count > 0 && sum > 0.0 && sum < 60.0 * 8.0, "{latency}");
}
