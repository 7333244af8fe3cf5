//! Block images: librbd and the command `rbd` do on Nacre what they do on Ceph.

use crate::erasure::{kill_osd, osd_command};
use cluster_tests::{
    Killed, Pattern, TestCluster, assert_same_bytes, assert_same_lines, clients_are_here, python, recorded_of_ceph,
    said_by_ceph,
};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(400);

/// A kind of pool in which images lie. A Ceph's are replicated.
#[derive(Clone, Copy)]
enum Images {
    Replicated,
    /// Two data shards, one parity shard, and no second pool.
    Coded,
}

/// Runs a script on Nacre and compares what it says, more than `lines` lines, with what it says on a Ceph under the
/// name `recorded`.
fn check_as_on_ceph(images: Images, recorded: &str, script: &str, wants_files: bool, lines: usize) {
    let run = |cluster: TestCluster, images: Images| {
        match images {
            Images::Replicated => drop(cluster.ceph(&["osd", "pool", "create", "rbd", "8"]).ok()),
            Images::Coded => cluster.make_coded_pool("rbd", 8, 2, 1),
        }
        // The setting that Nacre begins with: images are cloned without protecting snapshots first.
        cluster.ceph(&["osd", "set-require-min-compat-client", "mimic", "--yes-i-really-mean-it"]).ok();
        cluster.wait_until_clean(LIMIT);
        let files = cluster.scratch("files");
        std::fs::create_dir_all(&files).expect("a folder");
        let script = format!("{}/python/{script}", env!("CARGO_MANIFEST_DIR"));
        let mut arguments = vec![script.as_str(), "rbd"];
        arguments.extend(wants_files.then(|| files.to_str().expect("plain path")));
        cluster_tests::run(cluster.command(python(), &arguments), LIMIT).ok()
    };
    let (ours, cephs) = match images {
        Images::Replicated => {
            let on_ceph = || run(TestCluster::start_ceph(&format!("{recorded}-ceph"), 3), Images::Replicated);
            (run(TestCluster::start(recorded, 3), images), said_by_ceph(recorded, on_ceph))
        }
        Images::Coded => (run(TestCluster::start(&format!("{recorded}-coded"), 3), images), recorded_of_ceph(recorded)),
    };
    assert!(ours.lines().count() > lines, "{ours}");
    assert_same_lines(&ours, &cephs, "left Nacre, right Ceph");
}

#[test]
fn librbd_does_what_it_does_on_ceph() {
    if !clients_are_here(&["ceph", "python3-rbd"]) {
        return;
    }
    check_as_on_ceph(Images::Replicated, "rbd-images", "rbd_images.py", false, 250);
}

#[test]
fn commands_do_what_they_do_on_ceph() {
    if !clients_are_here(&["ceph", "rbd"]) {
        return;
    }
    check_as_on_ceph(Images::Replicated, "rbd-commands", "rbd_commands.py", true, 300);
}

#[test]
fn librbd_does_on_an_erasure_coded_pool_what_a_ceph_does() {
    if !clients_are_here(&["ceph", "python3-rbd"]) {
        return;
    }
    check_as_on_ceph(Images::Coded, "rbd-images", "rbd_images.py", false, 250);
}

#[test]
fn commands_do_on_an_erasure_coded_pool_what_a_ceph_does() {
    if !clients_are_here(&["ceph", "rbd"]) {
        return;
    }
    check_as_on_ceph(Images::Coded, "rbd-commands", "rbd_commands.py", true, 300);
}

/// fio with its own check of every block, then again after all daemons were killed.
#[test]
fn what_fio_wrote_into_an_image_it_reads_again() {
    if !clients_are_here(&["ceph", "rbd", "fio"]) {
        return;
    }
    let cluster = TestCluster::start("rbd-fio", 4);
    cluster.make_pool("rbd", 16, 3);
    fio_reads_what_it_wrote(&cluster);
}

/// Images that lie wholly on two data and two parity shards hold what fio wrote, too, also when it is computed of the
/// shards that are left once the OSDs of two are gone.
#[test]
fn what_fio_wrote_into_an_erasure_coded_image_it_reads_again() {
    if !clients_are_here(&["ceph", "rbd", "fio"]) {
        return;
    }
    let cluster = TestCluster::start("rbd-fio-coded", 4);
    cluster.make_coded_pool("rbd", 16, 2, 2);
    cluster.ceph(&["osd", "pool", "set", "rbd", "min_size", "2"]).ok();
    fio_reads_what_it_wrote(&cluster);
    let files = ["all", "left"].map(|name| cluster.scratch(name));
    let export = |to: &std::path::Path| rbd(&cluster, &["export", "rbd/mixed", to.to_str().expect("plain path")]);
    export(&files[0]);
    let mut started = Vec::new();
    for gone in [["0", "1"], ["2", "3"]] {
        gone.iter().for_each(|osd| kill_osd(&cluster, osd));
        export(&files[1]);
        assert_same_bytes(&files[0], &files[1]);
        std::fs::remove_file(&files[1]).expect("it is there");
        started.extend(gone.map(|osd| Killed(osd_command(&cluster, osd).spawn().expect("nacre runs"))));
        cluster.wait_until_clean(LIMIT);
    }
}

fn fio_reads_what_it_wrote(cluster: &TestCluster) {
    let jobs: [(&str, &[&str]); 4] = [
        ("small", &["--rw=randwrite", "--bs=4k", "--iodepth=16"]),
        ("mixed", &["--rw=randwrite", "--bsrange=512-128k", "--iodepth=8"]),
        // One at a time: what is trimmed is written next.
        ("trims", &["--rw=randtrimwrite", "--bs=64k", "--iodepth=1"]),
        ("large", &["--rw=write", "--bs=1m", "--iodepth=8"]),
    ];
    for (name, _) in jobs {
        rbd(cluster, &["create", &format!("rbd/{name}"), "--size", "48M", "--object-size", "1M"]);
    }
    let fio = |(name, options): (&str, &[&str]), more: &[&str]| {
        let (image, name) = (format!("--rbdname={name}"), format!("--name={name}"));
        let engine = ["--ioengine=rbd", "--clientname=admin", "--pool=rbd", "--size=48m", "--thread"];
        let verify = ["--verify=crc32c", "--verify_fatal=1"];
        let mut command =
            cluster.command("fio", &[&[&*name], &engine[..], &[&*image], &verify[..], options, more].concat());
        command.current_dir(cluster.dir());
        let out = cluster_tests::run(command, LIMIT).ok();
        assert!(out.contains("err= 0"), "{out}");
    };
    jobs.iter().for_each(|job| fio(*job, &["--do_verify=1"]));
    cluster.kill_all();
    cluster.up();
    jobs.iter().filter(|job| job.0 != "trims").for_each(|job| fio(*job, &["--verify_only"]));
}

/// Runs `rbd`, which must succeed, and gives what it said.
#[track_caller]
fn rbd(cluster: &TestCluster, args: &[&str]) -> String {
    cluster_tests::run(cluster.command("rbd", args), LIMIT).ok()
}

/// QEMU's driver: images copied in both directions and compared, a file system's worth of patterns, snapshots,
/// discards.
#[test]
fn qemu_reads_what_it_wrote() {
    if !clients_are_here(&["ceph", "rbd", "qemu-img", "qemu-io"]) {
        return;
    }
    let cluster = TestCluster::start("rbd-qemu", 3);
    cluster.make_pool("rbd", 16, 3);
    let conf = cluster.conf();
    let image = |name: &str| format!("rbd:rbd/{name}:id=admin:conf={}", conf.display());
    let run = |program: &str, args: &[&str]| cluster_tests::run(cluster.command(program, args), LIMIT);
    let file = cluster.scratch("disk.raw");
    Pattern::new(77).write(&file, 24 << 20);
    let file = file.to_str().expect("plain path");

    run("qemu-img", &["convert", "-f", "raw", "-O", "raw", file, &image("disk")]).ok();
    run("qemu-img", &["compare", "-f", "raw", "-F", "raw", file, &image("disk")]).ok();
    let info = run("qemu-img", &["info", "--output", "json", &image("disk")]).ok();
    assert!(info.contains("\"virtual-size\": 25165824"), "{info}");
    let qcow = cluster.scratch("disk.qcow2");
    let qcow = qcow.to_str().expect("plain path");
    run("qemu-img", &["convert", "-f", "raw", "-O", "qcow2", &image("disk"), qcow]).ok();
    run("qemu-img", &["compare", "-f", "qcow2", "-F", "raw", qcow, &image("disk")]).ok();

    rbd(&cluster, &["snap", "create", "rbd/disk@before"]);
    let script = [
        "write -P 0x5a 1M 64k",
        "write -P 0xa5 4095k 3k",
        "write -z 8M 2M",
        "discard 16M 4M",
        "flush",
        "read -P 0x5a 1M 64k",
        "read -P 0xa5 4095k 3k",
        "read -P 0 8M 2M",
        "read -P 0 16M 4M",
        "aio_write -P 0x11 20M 1M",
        "aio_write -P 0x22 21M 1M",
        "aio_flush",
        "read -P 0x11 20M 1M",
        "read -P 0x22 21M 1M",
    ];
    let mut args = vec!["-f", "raw"];
    script.iter().for_each(|line| args.extend(["-c", line]));
    let disk = image("disk");
    args.push(&disk);
    let out = run("qemu-io", &args).ok();
    assert!(!out.contains("fail") && !out.contains("rror"), "{out}");
    // The contents from before are still there, and nothing else is.
    run("qemu-img", &["compare", "-f", "raw", "-F", "raw", file, &image("disk@before")]).ok();
    assert!(!run("qemu-img", &["compare", "-f", "raw", "-F", "raw", file, &image("disk")]).succeeded());
    run("qemu-img", &["resize", "-f", "raw", &image("disk"), "32M"]).ok();
    assert!(rbd(&cluster, &["info", "rbd/disk"]).contains("size 32 MiB"));
}
