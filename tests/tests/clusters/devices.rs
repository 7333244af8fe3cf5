//! OSDs whose log and metadata lie on devices of their own.

use cluster_tests::{Outcome, TestCluster, binary, run};
use std::fs;
use std::process::Command;
use std::time::Duration;

fn check(dir: &str) -> Outcome {
    let mut command = Command::new(binary());
    command.args(["store", "check", dir]);
    run(command, Duration::from_secs(120))
}

#[test]
fn osds_on_three_devices_survive_the_death_of_every_process_and_miss_what_is_gone() {
    let cluster = TestCluster::start_split("devices", 3);
    let limit = Duration::from_secs(60);
    cluster.nacre(&["pool", "create", "p", "--pg-num", "8"], limit).ok();
    let source = cluster.scratch("source");
    let content = |n: u8| vec![n; 20_000 + usize::from(n)];
    let put = |n: u8| {
        fs::write(&source, content(n)).expect("a file can be written");
        cluster.nacre(&["put", "p", &format!("o{n}"), source.to_str().expect("plain path")], limit).ok();
    };
    (0..8).for_each(put);
    cluster.kill_all();
    let osd = |n: u32| cluster.dir().join(format!("osd.{n}")).display().to_string();
    for n in 0..3 {
        assert!(check(&osd(n)).ok().contains("clean"), "osd.{n}");
        for what in ["wal", "metadata"] {
            let file = fs::read_link(format!("{}/block.{what}", osd(n))).expect("a link");
            assert!(file.is_file() && file.starts_with(cluster.drive(what)), "{}", file.display());
        }
    }
    cluster.up();
    (8..12).for_each(put);
    cluster.down();
    cluster.up();
    let target = cluster.scratch("target");
    for n in 0..12 {
        cluster.nacre(&["get", "p", &format!("o{n}"), target.to_str().expect("plain path")], limit).ok();
        assert!(fs::read(&target).expect("it was fetched") == content(n), "o{n}");
    }
    cluster.down();

    let wal = |n: u32| fs::read_link(format!("{}/block.wal", osd(n))).expect("a link");
    let kept = cluster.scratch("kept");
    fs::rename(wal(0), &kept).expect("a file can be renamed");
    let refusal = check(&osd(0));
    assert!(!refusal.succeeded() && refusal.stderr.contains("there is no"), "{refusal:?}");
    fs::copy(wal(1), wal(0)).expect("a file can be copied");
    let refusal = check(&osd(0));
    assert!(!refusal.succeeded() && refusal.stderr.contains("the WAL device belongs to store"), "{refusal:?}");
    fs::rename(&kept, wal(0)).expect("a file can be renamed");
    assert!(check(&osd(0)).ok().contains("clean"));
}
