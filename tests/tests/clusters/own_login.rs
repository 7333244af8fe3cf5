//! Our own client on a real Ceph that asks everybody for proof: in crc mode and in secure mode, objects, images and the
//! load generator; and what it says where a key is wrong.

use crate::own_client_basics;
use client::rbd::{self, Image, ImageOptions};
use client::{Cluster, Config, ConnectError};
use cluster_tests::{Outcome, TestCluster, binary, clients_are_here, run};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use types::Errno;

const LIMIT: Duration = Duration::from_secs(120);

/// A copy of the cluster's configuration with more options for clients.
fn conf_with(cluster: &TestCluster, name: &str, options: &str) -> PathBuf {
    let text = std::fs::read_to_string(cluster.conf()).expect("the configuration");
    let path = cluster.dir().join(name);
    std::fs::write(&path, format!("{text}\n[client]\n{options}\n")).expect("it is written");
    path
}

fn nacre(args: &[&str], conf: &Path) -> Outcome {
    let mut command = Command::new(binary());
    command.args(args).arg("--conf").arg(conf);
    run(command, LIMIT)
}

async fn connect(conf: &Path) -> Result<Cluster, ConnectError> {
    let mut config = Config::from_conf(conf).expect("a configuration");
    config.op_timeout = Some(Duration::from_secs(60));
    config.mon_op_timeout = Some(Duration::from_secs(60));
    Cluster::connect(config).await
}

#[test]
fn who_has_the_key_is_let_in_and_nobody_else() {
    if !clients_are_here(&["ceph-mon", "ceph-osd", "ceph-mgr", "monmaptool", "ceph", "rados", "ceph-authtool"]) {
        return;
    }
    let cluster = TestCluster::start_ceph_with_keys("own-login", 3);
    cluster.ceph(&["osd", "pool", "create", "kept", "8"]).ok();
    cluster.ceph(&["osd", "pool", "create", "images", "8"]).ok();
    cluster.wait_until_clean(LIMIT);
    for mode in ["crc", "secure"] {
        let options = format!("ms client mode = {mode}\nms mon client mode = {mode}");
        let conf = conf_with(&cluster, &format!("{mode}.conf"), &options);
        in_mode(&cluster, mode, &conf);
    }
    rights(&cluster);
    wrong_keys(&cluster);
    renewal(&cluster);
}

fn in_mode(cluster: &TestCluster, mode: &str, conf: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let connected = connect(conf).await.expect("a connection");
        own_client_basics::everything(&connected, 2).await;
        image(&connected).await;
    });
    // The command line, and Ceph's own reading of what it wrote.
    let file = cluster.scratch("put");
    let bytes: Vec<u8> = (0..5_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(&file, &bytes).expect("a file");
    let (file, back) = (file.display().to_string(), cluster.scratch("got").display().to_string());
    nacre(&["put", "kept", mode, &file], conf).ok();
    nacre(&["get", "kept", mode, &back], conf).ok();
    assert!(std::fs::read(&back).expect("a file") == bytes, "{mode}: what comes back was written");
    run(cluster.command("rados", &["-p", "kept", "get", mode, &back]), LIMIT).ok();
    assert!(std::fs::read(&back).expect("a file") == bytes, "{mode}: Ceph's client reads it");
    let mut bench = Command::new(binary());
    let flags = "bench run --object-size 64KiB --objects 60 --pgs 8 --warm-up 0.3 --seconds 1.5 --mode write";
    bench.args(flags.split_whitespace()).arg("--cluster").arg(format!("ceph={}", conf.display()));
    bench.arg("--out").arg(cluster.scratch(&format!("bench-{mode}")));
    run(bench, LIMIT).ok();
}

async fn image(connected: &Cluster) {
    let pool = connected.pool("images").await.expect("the pool");
    rbd::create(&pool, "i", 8 << 20, &ImageOptions::default()).await.expect("an image");
    let image = Image::open(&pool, "i").await.expect("it opens");
    image.write(5_000_000, "written").await.expect("a write");
    image.create_snapshot("s").await.expect("a snapshot");
    image.write(5_000_000, "changed").await.expect("a write");
    assert_eq!(image.read(5_000_000, 7).await.expect("a read").to_vec(), b"changed");
    image.close().await.expect("it closes");
    let before = Image::open(&pool.clone(), "i").await.expect("it opens");
    before.remove_snapshot("s").await.expect("no snapshot any more");
    before.close().await.expect("it closes");
    rbd::remove(&pool, "i").await.expect("no image any more");
}

/// A client with fewer rights, by its own keyring.
fn rights(cluster: &TestCluster) {
    let caps = ["mon", "allow r", "osd", "allow r pool=kept"];
    let keyring = cluster.dir().join("reader.keyring");
    let path = keyring.display().to_string();
    cluster.ceph(&[&["auth", "get-or-create", "client.reader"], &caps[..], &["-o", &path]].concat()).ok();
    let back = cluster.scratch("read").display().to_string();
    for who in [["--id", "reader"], ["--name", "client.reader"]] {
        let as_reader = [&["get", "kept", "crc", &back][..], &who, &["--keyring", &path]].concat();
        nacre(&as_reader, &cluster.conf()).ok();
    }
    let file = cluster.scratch("put").display().to_string();
    let said = nacre(&["put", "kept", "new", &file, "--id", "reader", "--keyring", &path], &cluster.conf());
    assert!(said.failure().contains("not permitted"), "a reader writes nothing");
    // By default the keyring is the one that the file names, which does not know that client.
    let said = nacre(&["get", "kept", "crc", &back, "--id", "reader"], &cluster.conf()).failure();
    assert!(said.contains("client.reader has no key: keyring ") && said.contains("has no 'client.reader'"), "{said}");
}

fn wrong_keys(cluster: &TestCluster) {
    let keyring = cluster.dir().join("wrong.keyring").display().to_string();
    let mut authtool = Command::new("ceph-authtool");
    authtool.args(["--create-keyring", &keyring, "--gen-key", "-n", "client.admin"]);
    run(authtool, LIMIT).ok();
    let conf = conf_with(cluster, "wrong.conf", &format!("keyring = {keyring}"));
    let began = Instant::now();
    let said = nacre(&["pool", "ls"], &conf).failure();
    assert!(began.elapsed() < Duration::from_secs(8), "it does not try for long");
    assert!(
        said.contains("the monitors refuse client.admin") && said.contains(&format!("keyring {keyring}")),
        "{said}"
    );
    // A name that does not exist sounds like a wrong key.
    let mut authtool = Command::new("ceph-authtool");
    authtool.args([&keyring, "--gen-key", "-n", "client.nobody"]);
    run(authtool, LIMIT).ok();
    let said = nacre(&["pool", "ls", "--id", "nobody", "--keyring", &keyring], &cluster.conf()).failure();
    assert!(said.contains("the monitors refuse client.nobody"), "{said}");
    // Without any proof nobody is let in either.
    let text = std::fs::read_to_string(cluster.conf()).expect("the configuration");
    let conf = cluster.dir().join("none.conf");
    std::fs::write(&conf, text.replace("client required = cephx", "client required = none")).expect("it is written");
    let said = nacre(&["pool", "ls"], &conf).failure();
    assert!(said.contains("the monitors refuse client.admin") && said.contains("allowed are methods [2]"), "{said}");
}

/// Tickets that are good for 20 s, secrets of the OSDs that change, and a client that stays.
fn renewal(cluster: &TestCluster) {
    cluster.ceph(&["config", "set", "mon", "auth_service_ticket_ttl", "20"]).ok();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let connected = connect(&cluster.conf()).await.expect("a connection");
        let pool = connected.pool("kept").await.expect("the pool");
        let until = Instant::now() + Duration::from_secs(45);
        let mut round = 0u32;
        while Instant::now() < until {
            round += 1;
            pool.write_full("renewed", round.to_string()).await.expect("a write");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        assert_eq!(pool.read("renewed", 0, 0).await.expect("a read"), round.to_string().as_bytes());
        assert_eq!(pool.stat("nothing").await.map(drop).map_err(|e| e.errno()), Err(Errno::ENOENT));
    });
}
