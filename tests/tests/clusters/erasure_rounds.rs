//! Images that lie wholly on erasure-coded pools, in rounds of misfortunes, and whole disks copied into them and back.

use crate::erasure::{kill_osd, osd_command};
use cluster_tests::{Killed, Pattern, TestCluster, clients_are_here};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(240);
const OSDS: u32 = 4;
/// The pool has two data shards and two parity shards.
const PARITIES: u32 = 2;

/// A number that the environment gives.
fn given(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |value| value.parse().expect("a number"))
}

fn start(name: &str) -> TestCluster {
    let cluster = TestCluster::start(name, OSDS);
    cluster.make_coded_pool("rbd", 16, OSDS - PARITIES, PARITIES);
    cluster.ceph(&["osd", "pool", "set", "rbd", "min_size", &(OSDS - PARITIES).to_string()]).ok();
    cluster
}

/// fio on the image, with a check of every block that it reads.
fn fio(cluster: &TestCluster, more: &[&str]) -> Command {
    let job = ["--name=rounds", "--ioengine=rbd", "--clientname=admin", "--pool=rbd", "--rbdname=disk", "--thread"];
    let load = ["--rw=randwrite", "--bsrange=512-96k", "--iodepth=8", "--size=32m", "--rate_iops=200"];
    let verify = ["--verify=crc32c", "--verify_fatal=1", "--verify_backlog=64"];
    let mut command = cluster.command("fio", &[&job[..], &load[..], &verify[..], more].concat());
    command.current_dir(cluster.dir());
    command
}

/// Deep scrubs find nothing, and repair nothing.
fn all_is_well(cluster: &TestCluster, what: &str) {
    cluster.wait_until_clean(LIMIT);
    cluster.deep_scrub_all(LIMIT);
    cluster.wait_until_clean(LIMIT);
    let health = cluster.ceph(&["health", "detail"]).ok();
    assert!(!health.contains("inconsistent") && !health.contains("damage"), "{what}: {health}");
    let groups = cluster.ceph_json(&["pg", "ls-by-pool", "rbd"]);
    let groups = groups["pg_stats"].as_array().expect("a list");
    assert!(groups.iter().all(|pg| pg["stat_sum"]["num_objects_repaired"] == 0), "{what}: {groups:?}");
}

fn ends_well(child: Child, what: &str) {
    let out = child.wait_with_output().expect("fio runs");
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && said.contains("err= 0"), "{what}: {said}{}", String::from_utf8_lossy(&out.stderr));
}

/// While fio writes, reads and checks, as many OSDs are killed as there are parities, in some rounds all, and started
/// again. After each round deep scrubs find every stripe a code word. `NACRE_KILL_ROUNDS` says how many rounds.
#[test]
fn images_are_what_fio_wrote_round_after_round_of_kills() {
    if !clients_are_here(&["ceph", "rbd", "fio"]) {
        return;
    }
    let cluster = start("erasure-rounds");
    let rbd = |args: &[&str]| cluster_tests::run(cluster.command("rbd", args), LIMIT).ok();
    rbd(&["create", "rbd/disk", "--size", "32M", "--object-size", "256K"]);
    // OSDs that were started again.
    let mut running: BTreeMap<u32, Killed> = BTreeMap::new();
    let kill = |running: &mut BTreeMap<u32, Killed>, osd: u32| match running.remove(&osd) {
        Some(killed) => drop(killed),
        None => cluster.signal(&format!("osd.{osd}"), Signal::KILL),
    };
    for round in 0..given("NACRE_KILL_ROUNDS", 3) {
        let what = format!("round {round}");
        let seed = format!("--randseed={}", round + 1);
        let child = fio(&cluster, &["--time_based", "--runtime=12", &seed])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("fio runs");
        sleep(Duration::from_millis(1500 + round % 5 * 700));
        let count = if round % 4 == 3 { OSDS } else { 1 + round as u32 % PARITIES };
        let killed: Vec<u32> = (0..count).map(|i| (round as u32 + i) % OSDS).collect();
        killed.iter().for_each(|osd| kill(&mut running, *osd));
        if round % 2 == 0 {
            // The map learns of it, and groups go on without.
            killed.iter().for_each(|osd| cluster.wait_until_up(*osd, false, LIMIT));
        }
        sleep(Duration::from_secs(2));
        let start = |osd: &u32| (*osd, Killed(osd_command(&cluster, &osd.to_string()).spawn().expect("nacre runs")));
        running.extend(killed.iter().map(start));
        killed.iter().for_each(|osd| cluster.wait_until_up(*osd, true, LIMIT));
        ends_well(child, &what);
        all_is_well(&cluster, &what);
    }
    // All of the image is there without as many OSDs as there are parities.
    let [before, after] = ["before", "after"].map(|name| cluster.scratch(name));
    rbd(&["export", "rbd/disk", before.to_str().expect("plain path")]);
    for osd in 0..PARITIES {
        kill(&mut running, osd);
        cluster.wait_until_up(osd, false, LIMIT);
    }
    rbd(&["export", "rbd/disk", after.to_str().expect("plain path")]);
    cluster_tests::assert_same_bytes(&before, &after);
}

/// QEMU copies a disk into an image and back, and once more with as many OSDs gone as there are parities.
/// `NACRE_CONVERT_MIB` says how large it is.
#[test]
fn disks_that_qemu_copies_into_an_erasure_coded_image_come_back() {
    if !clients_are_here(&["ceph", "rbd", "qemu-img"]) {
        return;
    }
    let cluster = start("erasure-convert");
    let limit = Duration::from_secs(900);
    let file = |name: &str| cluster.scratch(name).to_str().expect("plain path").to_owned();
    let (disk, back) = (file("disk.raw"), file("back.raw"));
    let bytes = given("NACRE_CONVERT_MIB", 96) << 20;
    // The middle third is a hole.
    Pattern::new(78).write(std::path::Path::new(&disk), bytes / 3);
    let tail = file("tail.raw");
    Pattern::new(79).write(std::path::Path::new(&tail), bytes / 3);
    {
        use std::os::unix::fs::FileExt;
        let whole = std::fs::OpenOptions::new().write(true).open(&disk).expect("it was written");
        whole.set_len(bytes).expect("scratch has room");
        let tail = std::fs::read(&tail).expect("it was written");
        whole.write_all_at(&tail, bytes - tail.len() as u64).expect("scratch has room");
    }
    let image = format!("rbd:rbd/disk:id=admin:conf={}", cluster.conf().display());
    let qemu = |args: &[&str]| cluster_tests::run(cluster.command("qemu-img", args), limit).ok();
    let started = Instant::now();
    qemu(&["convert", "-f", "raw", "-O", "raw", &disk, &image]);
    qemu(&["compare", "-f", "raw", "-F", "raw", &disk, &image]);
    qemu(&["convert", "-f", "raw", "-O", "raw", &image, &back]);
    cluster_tests::assert_same_bytes(std::path::Path::new(&disk), std::path::Path::new(&back));
    eprintln!("{} MiB there and back: {:.1} s", bytes >> 20, started.elapsed().as_secs_f64());
    ["1", "2"].iter().for_each(|osd| kill_osd(&cluster, osd));
    qemu(&["convert", "-f", "raw", "-O", "raw", &image, &back]);
    cluster_tests::assert_same_bytes(std::path::Path::new(&disk), std::path::Path::new(&back));
}
