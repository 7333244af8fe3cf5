//! Every process killed at once, in the middle of writing.

use crate::faults::stores_are_clean;
use cluster_tests::{TestCluster, clients_are_here, python};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A client writes objects, each named and filled by its number, and prints a number once its write is acknowledged.
/// All processes die; after a restart every acknowledged object must be there and whole.
#[test]
fn acknowledged_writes_survive_the_death_of_every_process() {
    if !clients_are_here(&["ceph", "rados", "python3-rados"]) {
        return;
    }
    let cluster = TestCluster::start("kill", 6);
    cluster.make_pool("p", 32, 3);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/writer.py");
    let mut sizes: BTreeMap<u64, u64> = BTreeMap::new();
    for round in 0..3 {
        let first = (round * 1_000_000).to_string();
        let mut command = cluster.command(python(), &[script, "p", &first]);
        let mut writer = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("python3 starts");
        let lines = BufReader::new(writer.stdout.take().expect("piped")).lines();
        let started = Instant::now();
        let mut killed = false;
        for line in lines {
            let line = line.expect("text");
            let (number, size) = line.split_once(' ').unwrap_or_else(|| panic!("writer says: {line}"));
            sizes.insert(number.parse().expect("number"), size.parse().expect("size"));
            if !killed && started.elapsed() > Duration::from_secs(2) && sizes.len() > 50 {
                cluster.kill_all();
                killed = true;
                // Lines that were acknowledged before are still read from the pipe.
                writer.kill().expect("writer can be killed");
            }
        }
        let _ = writer.wait();
        assert!(killed, "the writer ended by itself");
        // As the death of its process left it, each holds together.
        stores_are_clean(&cluster, 6);
        cluster.up();
        cluster.wait_until_clean(Duration::from_secs(60));
        let check = concat!(env!("CARGO_MANIFEST_DIR"), "/python/check.py");
        let list = cluster.scratch("acknowledged");
        let text: String = sizes.iter().map(|(number, size)| format!("{number} {size}\n")).collect();
        std::fs::write(&list, text).expect("list can be written");
        let list = list.to_str().expect("plain path").to_owned();
        let out = cluster_tests::run(cluster.command(python(), &[check, "p", &list]), Duration::from_secs(300)).ok();
        assert!(out.contains(&format!("{} objects are whole", sizes.len())), "{out}");
    }
}
