//! fio's rados engine, which writes with many in flight and reads back what it wrote.

use cluster_tests::{TestCluster, clients_are_here, run};
use std::time::Duration;

const JOBS: [(&str, &[&str]); 4] = [
    ("small", &["--rw=randwrite", "--bs=4k", "--size=16m", "--nrfiles=8", "--iodepth=16"]),
    ("mixed", &["--rw=randwrite", "--bsrange=512-128k", "--size=48m", "--nrfiles=8", "--iodepth=8"]),
    ("unaligned", &["--rw=randwrite", "--bs=5000", "--ba=1000", "--size=8m", "--nrfiles=4", "--iodepth=8"]),
    ("large", &["--rw=write", "--bs=1m", "--size=128m", "--nrfiles=16", "--iodepth=8"]),
];

/// Runs a job, with fio's own check of every block that it reads.
#[track_caller]
fn fio(cluster: &TestCluster, (name, options): (&str, &[&str]), more: &[&str]) {
    let conf = format!("--conf={}", cluster.conf().display());
    let name = format!("--name={name}");
    let engine = ["--clientname=admin", "--pool=p", "--verify=crc32c", "--verify_fatal=1", "--thread"];
    let mut command =
        cluster.command("fio", &[&[&*name, "--ioengine=rados", &*conf], &engine[..], options, more].concat());
    command.current_dir(cluster.dir());
    let out = run(command, Duration::from_secs(120)).ok();
    assert!(out.contains("err= 0"), "{out}");
}

#[test]
fn what_fio_wrote_it_reads_again() {
    if !clients_are_here(&["ceph", "fio"]) {
        return;
    }
    let cluster = TestCluster::start("fio", 4);
    cluster.make_pool("p", 16, 3);
    for job in JOBS {
        fio(&cluster, job, &["--do_verify=1"]);
    }
    // After everything has stopped and started, and after everything was killed.
    cluster.down();
    cluster.up();
    for job in JOBS {
        fio(&cluster, job, &["--verify_only"]);
    }
    cluster.kill_all();
    cluster.up();
    for job in JOBS {
        fio(&cluster, job, &["--verify_only"]);
    }
    // fio notices bytes that are not its own.
    cluster.rados(&["-p", "p", "put", "large.0.3", "/bin/true"]).ok();
    let out = std::panic::catch_unwind(|| fio(&cluster, JOBS[3], &["--verify_only"]));
    assert!(out.is_err(), "fio accepts what it did not write");
}
