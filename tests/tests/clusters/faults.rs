//! Faults of real daemons while a real client writes and reads, with a journal of what was acknowledged: OSDs killed,
//! stopped for a while, without their disks, cut off by the network, and with bits flipped in their stores.

use cluster_tests::{Background, Host, Journal, TestCluster, binary, clients_are_here, hosts_can_be_made, run};
use rustix::process::Signal;
use serde_json::Value;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);

/// The command of an OSD, as an operator would give it.
fn osd_command(cluster: &TestCluster, osd: u32, more: &[&str]) -> Command {
    let mut command = Command::new(binary());
    complete(&mut command, cluster, osd, more);
    command
}

fn complete(command: &mut Command, cluster: &TestCluster, osd: u32, more: &[&str]) {
    command.args(["osd", "--id", &osd.to_string(), "--conf"]).arg(cluster.conf()).args(more);
}

/// Waits until the process of a daemon that was started with the cluster is gone.
#[track_caller]
fn kill(cluster: &TestCluster, osd: u32) {
    let pid = cluster.pid_of(&format!("osd.{osd}"));
    cluster.signal(&format!("osd.{osd}"), Signal::KILL);
    let end = Instant::now() + LIMIT;
    while fs::exists(format!("/proc/{}/exe", pid.as_raw_nonzero())).unwrap_or(false) {
        assert!(Instant::now() < end, "osd.{osd} does not die");
        sleep(Duration::from_millis(20));
    }
}

/// Flips one bit in each of up to three blocks of an OSD's store that hold `marker`. Gives how many.
fn flip_bits(cluster: &TestCluster, osd: u32, marker: &[u8]) -> usize {
    let path = cluster.dir().join(format!("osd.{osd}")).join("block");
    let store = OpenOptions::new().read(true).write(true).open(&path).expect("an OSD's store");
    let mut chunk = vec![0; 1 << 20];
    let mut flipped = 0;
    for at in (0..1 << 30).step_by(chunk.len()) {
        let read = store.read_at(&mut chunk, at).expect("the store can be read");
        for (index, block) in chunk[..read].chunks(4096).enumerate() {
            if block.starts_with(marker) && flipped < 3 {
                let at = at + index as u64 * 4096 + 100;
                store.write_all_at(&[block[100] ^ 4], at).expect("the store can be written");
                flipped += 1;
            }
        }
    }
    store.sync_all().expect("the store can be written");
    flipped
}

/// Every OSD's store holds together, once none runs.
#[track_caller]
pub(crate) fn stores_are_clean(cluster: &TestCluster, osds: u32) {
    for osd in 0..osds {
        let dir = cluster.dir().join(format!("osd.{osd}"));
        let mut command = Command::new(binary());
        command.args(["store", "check", dir.to_str().expect("plain path"), "--json"]);
        let out = run(command, LIMIT).ok();
        let report: Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(report["status"], "clean", "osd.{osd}: {report:#}");
        assert!(report["objects"].as_u64() > Some(0), "osd.{osd}: {report:#}");
    }
}

#[test]
fn acknowledged_writes_survive_what_befalls_osds() {
    if !clients_are_here(&["ceph", "rados", "python3-rados"]) {
        return;
    }
    let cluster = TestCluster::start("faults", 4);
    cluster.make_pool("p", 16, 3);
    // Of this nobody writes anew: bits flip in it.
    let (quiet, file) = (vec![0xa5; 64 << 10], cluster.scratch("quiet"));
    fs::write(&file, &quiet).expect("scratch can be written");
    for n in 0..8 {
        cluster.rados(&["-p", "p", "put", &format!("quiet{n}"), file.to_str().expect("plain path")]).ok();
    }
    let mut journal = Journal::begin(&cluster, "p");
    journal.goes_on(100, LIMIT);

    // Killed, and back soon, twice: once before anybody has noticed.
    let mut by_hand = Vec::new();
    for away in [Duration::from_millis(100), Duration::from_secs(8)] {
        let osd = by_hand.len() as u32;
        kill(&cluster, osd);
        sleep(away);
        by_hand.push(Background::start(osd_command(&cluster, osd, &[])));
        journal.goes_on(50, LIMIT);
        cluster.wait_until_up(osd, true, LIMIT);
    }
    cluster.wait_until_clean(LIMIT);
    eprintln!("killed and back: {} writes", journal.acknowledged());

    // Stopped by an operator, and started again; and a group peers anew.
    cluster.ceph(&["osd", "stop", "0"]).ok();
    assert_eq!(by_hand[0].exit_code(LIMIT), Some(4), "whoever looks after it is not to start it again");
    cluster.wait_until_up(0, false, LIMIT);
    journal.goes_on(30, LIMIT);
    by_hand[0] = Background::start(osd_command(&cluster, 0, &[]));
    cluster.ceph(&["pg", "repeer", "1.0"]).ok();
    journal.goes_on(30, LIMIT);
    cluster.wait_until_up(0, true, LIMIT);
    cluster.wait_until_clean(LIMIT);
    eprintln!("stopped by an operator, and back: {} writes", journal.acknowledged());

    // Stopped for so long that others serve, and gone on as if nothing had been.
    cluster.signal("osd.2", Signal::STOP);
    journal.goes_on(30, LIMIT);
    sleep(Duration::from_secs(4));
    cluster.signal("osd.2", Signal::CONT);
    journal.goes_on(50, LIMIT);
    cluster.wait_until_up(2, true, LIMIT);
    cluster.wait_until_clean(LIMIT);
    eprintln!("stopped and gone on: {} writes", journal.acknowledged());

    // Bits flip: what is read is right all the same, and a scrub replaces what is bad.
    // On one OSD only: the others' copies are what it is read from.
    let flipped = flip_bits(&cluster, 1, &quiet[..4096]);
    assert!(flipped > 0, "osd.1 holds one of the quiet objects");
    for n in 0..8 {
        let got = cluster.scratch("got");
        cluster.rados(&["-p", "p", "get", &format!("quiet{n}"), got.to_str().expect("plain path")]).ok();
        assert!(fs::read(got).expect("just got") == quiet, "quiet{n} with flipped bits in a store");
    }
    cluster.ceph(&["osd", "deep-scrub", "all"]).ok();
    journal.goes_on(50, LIMIT);
    eprintln!("{flipped} bits flipped: {} writes", journal.acknowledged());

    // The disk is gone: an empty OSD takes the place.
    kill(&cluster, 3);
    cluster.wait_until_up(3, false, LIMIT);
    cluster.ceph(&["osd", "purge", "3", "--yes-i-really-mean-it"]).ok();
    fs::remove_dir_all(cluster.dir().join("osd.3")).expect("the OSD's folder");
    run(osd_command(&cluster, 3, &["--mkfs", "--size", "2GiB"]), LIMIT).ok();
    cluster.import_key(3);
    by_hand.push(Background::start(osd_command(&cluster, 3, &[])));
    journal.goes_on(50, LIMIT);
    cluster.wait_until_up(3, true, LIMIT);
    cluster.wait_until_clean(LIMIT);
    eprintln!("an empty OSD in place of another: {} writes", journal.acknowledged());

    journal.end(&cluster);
    cluster.deep_scrub_all(LIMIT);
    cluster.wait_until_clean(LIMIT);
    by_hand.iter().for_each(|osd| osd.signal(Signal::TERM));
    by_hand.iter_mut().for_each(|osd| assert_eq!(osd.exit_code(LIMIT), Some(0)));
    cluster.down();
    stores_are_clean(&cluster, 4);
}

#[test]
fn an_osd_whose_cable_is_cut_serves_nothing_old() {
    if !clients_are_here(&["ceph", "rados", "python3-rados"]) || !hosts_can_be_made() {
        return;
    }
    let host = Host::start(0);
    let cluster = TestCluster::start_at("cut", 3, host.gateway());
    let address = host.address().to_string();
    let data = cluster.dir().join("osd.3");
    let data = data.to_str().expect("plain path");
    let there = |more: &[&str]| {
        let mut command = host.command(binary());
        let all = [&["--data", data, "--public-addr", &address, "--cluster-addr", &address], more].concat();
        complete(&mut command, &cluster, 3, &all);
        command
    };
    run(there(&["--mkfs", "--size", "2GiB"]), LIMIT).ok();
    cluster.import_key(3);
    let mut osd = Background::start(there(&[]));
    cluster.wait_until_up(3, true, LIMIT);
    cluster.make_pool("p", 16, 3);
    let mut journal = Journal::begin(&cluster, "p");
    journal.goes_on(100, LIMIT);
    for long in [false, true] {
        host.cut();
        if long {
            cluster.wait_until_up(3, false, LIMIT);
        }
        sleep(Duration::from_secs(2));
        host.mend();
        journal.goes_on(100, LIMIT);
        cluster.wait_until_up(3, true, LIMIT);
        cluster.wait_until_clean(LIMIT);
        eprintln!("cut until it was called down: {long}; {} writes", journal.acknowledged());
    }
    journal.end(&cluster);
    osd.signal(Signal::TERM);
    assert_eq!(osd.exit_code(LIMIT), Some(0));
    cluster.down();
    stores_are_clean(&cluster, 4);
}
