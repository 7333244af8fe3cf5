//! Images by our own client library, on Nacre and on a real Ceph, in turn with librbd: what the one writes the other
//! reads, and each gives the lock up to the other.

use crate::own_images_model::{Model, Random};
use bytes::Bytes;
use client::rbd::{self, Image, ImageOptions, Layout, feature};
use client::{Cluster, Config, Error, Pool};
use cluster_tests::{Background, TestCluster, clients_are_here, python};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use types::Errno;

const LIMIT: Duration = Duration::from_secs(120);
const MIB: u64 = 1 << 20;

/// Runs a command while our client goes on.
async fn run(command: Command) -> cluster_tests::Outcome {
    tokio::task::spawn_blocking(|| cluster_tests::run(command, LIMIT)).await.expect("the command's thread ends")
}

async fn rbd(cluster: &TestCluster, args: &[&str]) -> String {
    run(cluster.command("rbd", args)).await.ok()
}

async fn connect(cluster: &TestCluster) -> Cluster {
    let mut config = Config::from_conf(cluster.conf()).expect("a configuration");
    config.op_timeout = Some(Duration::from_secs(90));
    config.mon_op_timeout = Some(Duration::from_secs(90));
    Cluster::connect(config).await.expect("a connection")
}

fn errno<T>(result: Result<T, Error>) -> Errno {
    result.map(drop).expect_err("an error is due").errno()
}

fn on(cluster: TestCluster, work: impl AsyncFnOnce(&TestCluster, &Pool)) {
    cluster.ceph(&["osd", "pool", "create", "rbd", "8"]).ok();
    cluster.ceph(&["osd", "set-require-min-compat-client", "mimic", "--yes-i-really-mean-it"]).ok();
    cluster.wait_until_clean(LIMIT);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let pool = connect(&cluster).await.pool("rbd").await.expect("the pool");
        work(&cluster, &pool).await;
    });
}

fn librbd_is_here() -> bool {
    clients_are_here(&["ceph-mon", "ceph-osd", "ceph-mgr", "monmaptool", "ceph", "rbd", "python3-rbd"])
}

async fn everything(cluster: &TestCluster, pool: &Pool) {
    errors(cluster, pool).await;
    for (name, layout) in
        [("plain", Layout::plain(20)), ("striped", Layout { order: 20, stripe_unit_bytes: 65_536, stripe_count: 3 })]
    {
        random_operations(cluster, pool, name, layout).await;
    }
    clones(cluster, pool).await;
    data_pool(cluster, pool).await;
    hand_over(cluster, pool).await;
    requests_to_the_owner(cluster, pool).await;
    broken_lock(cluster, pool).await;
    nothing_is_left(cluster, pool).await;
}

#[test]
fn images_on_nacre() {
    if librbd_is_here() {
        on(TestCluster::start("own-images", 3), async |cluster, pool| everything(cluster, pool).await);
    }
}

#[test]
fn images_on_ceph() {
    if librbd_is_here() {
        on(TestCluster::start_ceph("own-images-ceph", 3), async |cluster, pool| everything(cluster, pool).await);
    }
}

/// An owner that is killed keeps nobody out for longer than its watch lives.
#[test]
fn the_lock_of_a_dead_owner_is_taken() {
    if !librbd_is_here() {
        return;
    }
    on(TestCluster::start("own-images-dead", 3), async |cluster, pool| {
        rbd::create(pool, "dead", 8 * MIB, &ImageOptions::default()).await.expect("an image");
        let writing =
            Background::start(cluster.command(python(), &[&script("rbd_writer.py"), "rbd", "dead", "0", "1000"]));
        tokio::task::spawn_blocking(move || {
            writing.says("wrote", LIMIT);
            writing.signal(rustix::process::Signal::KILL);
            writing
        })
        .await
        .expect("it was killed");
        let image = Image::open(pool, "dead").await.expect("it opens");
        image.write(0, "taken").await.expect("the lock is taken");
        assert!(cluster.ceph(&["osd", "blocklist", "ls"]).ok().contains("127.0.0.1"), "the owner has been shut out");
        image.close().await.expect("it closes");
    });
}

fn script(name: &str) -> String {
    format!("{}/python/{name}", env!("CARGO_MANIFEST_DIR"))
}

async fn errors(cluster: &TestCluster, pool: &Pool) {
    let options = ImageOptions::default();
    assert_eq!(errno(Image::open(pool, "none").await), Errno::ENOENT);
    assert_eq!(errno(rbd::remove(pool, "none").await), Errno::ENOENT);
    assert_eq!(errno(rbd::create(pool, "", MIB, &options).await), Errno::EINVAL);
    let odd = ImageOptions { features: feature::FAST_DIFF, ..ImageOptions::default() };
    assert_eq!(errno(rbd::create(pool, "odd", MIB, &odd).await), Errno::EINVAL);
    assert!(rbd::list(pool).await.expect("a list").is_empty(), "nothing was made");
    rbd::create(pool, "e", 10 * MIB + 1, &options).await.expect("an image");
    assert_eq!(errno(rbd::create(pool, "e", MIB, &options).await), Errno::EEXIST);
    assert_eq!(rbd(cluster, &["ls"]).await, "e\n");
    let info = rbd(cluster, &["info", "e"]).await;
    for words in ["3 objects", "order 22", "layering, exclusive-lock, object-map, fast-diff, deep-flatten"] {
        assert!(info.contains(words), "{words}: {info}");
    }
    let image = Image::open(pool, "e").await.expect("it opens");
    assert_eq!(errno(image.write(10 * MIB, "xy").await), Errno::EINVAL, "beyond the end");
    assert_eq!(errno(image.read(u64::MAX, 2).await), Errno::EINVAL);
    image.write(10 * MIB, "x").await.expect("the last byte");
    assert_eq!(errno(rbd::remove(pool, "e").await), Errno::EBUSY, "it is open");
    image.create_snapshot("s").await.expect("a snapshot");
    assert_eq!(errno(image.create_snapshot("s").await), Errno::EEXIST);
    image.protect_snapshot("s").await.expect("protected");
    assert_eq!(errno(image.protect_snapshot("s").await), Errno::EBUSY);
    assert_eq!(errno(image.remove_snapshot("s").await), Errno::EBUSY);
    image.unprotect_snapshot("s").await.expect("not protected");
    assert_eq!(errno(image.unprotect_snapshot("s").await), Errno::EINVAL);
    assert_eq!(errno(image.remove_snapshot("t").await), Errno::ENOENT);
    assert_eq!(errno(image.flatten().await), Errno::EINVAL);
    let old = Image::open_snapshot(pool, "e", "s").await.expect("the snapshot");
    assert_eq!(errno(old.write(0, "x").await), Errno(30), "read-only");
    image.close().await.expect("it closes");
    assert_eq!(errno(rbd::remove(pool, "e").await), Errno::ENOTEMPTY);
    rbd::rename(pool, "e", "f").await.expect("renamed");
    assert_eq!(errno(rbd::rename(pool, "e", "g").await), Errno::ENOENT);
    rbd(cluster, &["snap", "rm", "f@s"]).await;
    rbd::remove(pool, "f").await.expect("removed");
    assert_eq!(rbd(cluster, &["ls"]).await, "");
}

/// Random operations by ours and by librbd in turn, beside a model of what must be there.
async fn random_operations(cluster: &TestCluster, pool: &Pool, name: &str, layout: Layout) {
    let options = ImageOptions { layout, ..ImageOptions::default() };
    rbd::create(pool, name, 24 * MIB + 4096, &options).await.expect("an image");
    let mut model = Model::new(24 * MIB + 4096);
    let mut random = Random(layout.stripe_count + 11);
    let file = cluster.scratch(name);
    for round in 0..3 {
        let image = Image::open(pool, name).await.expect("it opens");
        for _ in 0..18 {
            model.step(&image, &mut random).await;
        }
        model.check(&image).await;
        assert!(rbd(cluster, &["lock", "ls", name]).await.contains("auto "), "its lock is seen");
        image.close().await.expect("it closes");
        assert_eq!(rbd(cluster, &["lock", "ls", name]).await, "", "closed images are not locked");
        // As librbd sees it.
        let check = run(cluster.command("rbd", &["object-map", "check", name])).await;
        assert!(check.succeeded() && !check.stderr.contains("rror"), "{check:?}");
        let info = rbd(cluster, &["info", name]).await;
        assert!(!info.contains("invalid"), "{info}");
        check_export(cluster, name, &file, &model.bytes).await;
        let snapshots: Vec<String> = model.snapshots.keys().cloned().collect();
        for snapshot in &snapshots {
            check_export(cluster, &format!("{name}@{snapshot}"), &file, &model.snapshots[snapshot]).await;
            check_diff(cluster, name, snapshot, &model).await;
        }
        // And now librbd changes it.
        let seed = (100 + round).to_string();
        let size = model.bytes.len().to_string();
        let wrote = run(cluster.command(python(), &[&script("rbd_pattern.py"), "rbd", name, &seed, &size])).await.ok();
        model.take_from(&wrote, round + 100);
    }
    let image = Image::open(pool, name).await.expect("it opens");
    model.check(&image).await;
    for snapshot in image.snapshots().await.expect("snapshots") {
        image.remove_snapshot(&snapshot.name).await.expect("removed");
    }
    model.snapshots.clear();
    model.check(&image).await;
    image.close().await.expect("it closes");
    let check = run(cluster.command("rbd", &["object-map", "check", name])).await;
    assert!(check.succeeded() && !check.stderr.contains("rror"), "{check:?}");
    rbd::remove(pool, name).await.expect("removed");
}

async fn check_export(cluster: &TestCluster, what: &str, file: &Path, expected: &[u8]) {
    let _ = std::fs::remove_file(file);
    rbd(cluster, &["export", "--no-progress", what, file.to_str().expect("a plain path")]).await;
    let got = std::fs::read(file).expect("the exported file");
    assert_eq!(got.len(), expected.len(), "size of {what}");
    if got != expected {
        let first = got.iter().zip(expected).position(|(got, expected)| got != expected);
        panic!("first byte of {what} that differs: {first:?}");
    }
    let _ = std::fs::remove_file(file);
}

/// Whatever differs between a snapshot and the image lies in what the object maps call changed.
async fn check_diff(cluster: &TestCluster, name: &str, snapshot: &str, model: &Model) {
    let fast = rbd(cluster, &["diff", "--whole-object", "--from-snap", snapshot, name]).await;
    let ranges: Vec<(usize, usize)> = fast
        .lines()
        .skip(1)
        .map(|line| {
            let mut words = line.split_whitespace().map(|word| word.parse().expect("a number"));
            (words.next().expect("an offset"), words.next().expect("a length"))
        })
        .collect();
    let (old, new) = (&model.snapshots[snapshot], &model.bytes);
    let blocks = old.chunks(4096).zip(new.chunks(4096)).enumerate().filter(|(_, (old, new))| old != new);
    for (block, (old, new)) in blocks {
        let differs = old.iter().zip(new).position(|(old, new)| old != new);
        let Some(at) = differs.map(|at| block * 4096 + at) else { continue };
        let seen = ranges.iter().any(|(offset, length)| (*offset..offset + length).contains(&at));
        assert!(seen, "byte {at} of {name} differs from {snapshot}, unknown to the object map: {fast}");
    }
}

async fn clones(cluster: &TestCluster, pool: &Pool) {
    let options = ImageOptions { layout: Layout::plain(20), ..ImageOptions::default() };
    rbd::create(pool, "parent", 8 * MIB, &options).await.expect("an image");
    let parent = Image::open(pool, "parent").await.expect("it opens");
    let (mut base, mut random) = (Model::new(8 * MIB), Random(3));
    for (offset, length) in [(0, 5000), (MIB - 7, 20_000), (3 * MIB, 2 * MIB + 17)] {
        base.write(&parent, offset, length, &mut random).await;
    }
    parent.create_snapshot("base").await.expect("a snapshot");
    base.write(&parent, 0, 3 * MIB, &mut random).await;
    rbd::clone(pool, "parent", "base", pool, "child", &options).await.expect("a clone");
    let base = base.before_last;
    assert!(rbd(cluster, &["info", "child"]).await.contains("parent: rbd/parent@base"));
    assert_eq!(rbd(cluster, &["children", "parent@base"]).await, "rbd/child\n");
    let mut model = Model::of(base.clone());
    let child = Image::open(pool, "child").await.expect("it opens");
    assert_eq!(child.info().await.expect("info").parent_overlap_bytes, Some(8 * MIB));
    model.check(&child).await;
    for _ in 0..30 {
        model.step(&child, &mut random).await;
    }
    model.check(&child).await;
    child.close().await.expect("it closes");
    let check = run(cluster.command("rbd", &["object-map", "check", "child"])).await;
    assert!(check.succeeded() && !check.stderr.contains("rror"), "{check:?}");
    let file = cluster.scratch("child");
    check_export(cluster, "child", &file, &model.bytes).await;
    for (name, bytes) in &model.snapshots {
        check_export(cluster, &format!("child@{name}"), &file, bytes).await;
    }
    // The parent's snapshot goes to the trash while it has clones, and then for good.
    parent.remove_snapshot("base").await.expect("removed");
    assert!(rbd(cluster, &["snap", "ls", "--all", "parent"]).await.contains("trash"));
    parent.close().await.expect("it closes");
    let child = Image::open(pool, "child").await.expect("it opens");
    child.flatten().await.expect("flattened");
    model.check(&child).await;
    assert_eq!(child.info().await.expect("info").parent_overlap_bytes, None);
    child.close().await.expect("it closes");
    check_export(cluster, "child", &file, &model.bytes).await;
    for (name, bytes) in &model.snapshots {
        check_export(cluster, &format!("child@{name}"), &file, bytes).await;
    }
    let check = run(cluster.command("rbd", &["object-map", "check", "child"])).await;
    assert!(check.succeeded() && !check.stderr.contains("rror"), "{check:?}");
    assert!(!rbd(cluster, &["snap", "ls", "--all", "parent"]).await.contains("trash"));
    rbd(cluster, &["snap", "purge", "--no-progress", "child"]).await;
    // One that librbd makes, of the format that needs protection.
    rbd(cluster, &["snap", "create", "--no-progress", "parent@old"]).await;
    rbd(cluster, &["snap", "protect", "parent@old"]).await;
    rbd(cluster, &["clone", "--rbd-default-clone-format", "1", "parent@old", "older"]).await;
    let parent = Image::open(pool, "parent").await.expect("it opens");
    assert_eq!(errno(parent.unprotect_snapshot("old").await), Errno::EBUSY, "it has a clone");
    let old = Image::open_snapshot(pool, "parent", "old").await.expect("the snapshot");
    let older = Image::open(pool, "older").await.expect("it opens");
    assert_eq!(
        older.read(0, 8 * MIB).await.expect("read").to_vec(),
        old.read(0, 8 * MIB).await.expect("read").to_vec()
    );
    older.write(MIB + 5, "changed").await.expect("written");
    older.close().await.expect("it closes");
    rbd::remove(pool, "older").await.expect("removed");
    parent.unprotect_snapshot("old").await.expect("it has no clones");
    parent.remove_snapshot("old").await.expect("removed");
    parent.close().await.expect("it closes");
    rbd::remove(pool, "child").await.expect("removed");
    rbd::remove(pool, "parent").await.expect("removed");
}

async fn data_pool(cluster: &TestCluster, pool: &Pool) {
    cluster.ceph(&["osd", "pool", "create", "elsewhere", "8"]).ok();
    cluster.wait_until_clean(LIMIT);
    let data = pool.cluster().pool("elsewhere").await.expect("the pool");
    let options = ImageOptions { data_pool: Some(data.clone()), ..ImageOptions::default() };
    rbd::create(pool, "apart", 8 * MIB, &options).await.expect("an image");
    let image = Image::open(pool, "apart").await.expect("it opens");
    let mut model = Model::new(8 * MIB);
    model.write(&image, 3 * MIB, 3 * MIB, &mut Random(5)).await;
    image.create_snapshot("s").await.expect("a snapshot");
    model.write(&image, 100, 4 * MIB, &mut Random(6)).await;
    image.close().await.expect("it closes");
    assert!(!data.list().collect().await.expect("a list").is_empty());
    assert!(rbd(cluster, &["info", "apart"]).await.contains("data_pool: elsewhere"));
    let file = cluster.scratch("apart");
    check_export(cluster, "apart", &file, &model.bytes).await;
    check_export(cluster, "apart@s", &file, &model.before_last).await;
    rbd(cluster, &["snap", "rm", "--no-progress", "apart@s"]).await;
    rbd::remove(pool, "apart").await.expect("removed");
    only_left(&data, &[]).await;
}

/// Ours and librbd write to one image at the same time: the lock goes to and fro.
async fn hand_over(cluster: &TestCluster, pool: &Pool) {
    rbd::create(pool, "shared", 8 * MIB, &ImageOptions::default()).await.expect("an image");
    let image = Image::open(pool, "shared").await.expect("it opens");
    image.write(0, "ours first").await.expect("written");
    let command = cluster.command(python(), &[&script("rbd_writer.py"), "rbd", "shared", "1048576", "10"]);
    let theirs = tokio::spawn(run(command));
    let mut written = 0u64;
    while !theirs.is_finished() {
        image.write(written * 512, Bytes::from(vec![written as u8 + 1; 512])).await.expect("written");
        written += 1;
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    theirs.await.expect("it ends").ok();
    assert!(written > 3, "both were writing: {written}");
    image.close().await.expect("it closes");
    let file = cluster.scratch("shared");
    let mut expected = vec![0; 8 * MIB as usize];
    (0..written as usize).for_each(|i| expected[i * 512..][..512].fill(i as u8 + 1));
    (0..10usize).for_each(|i| expected[MIB as usize + i * 4096..][..4096].fill(i as u8 + 1));
    check_export(cluster, "shared", &file, &expected).await;
    rbd::remove(pool, "shared").await.expect("removed");
}

/// An operation that librbd asks of the lock's owner, it then does itself.
async fn requests_to_the_owner(cluster: &TestCluster, pool: &Pool) {
    rbd::create(pool, "owned", 8 * MIB, &ImageOptions::default()).await.expect("an image");
    let image = Image::open(pool, "owned").await.expect("it opens");
    image.write(0, "first").await.expect("written");
    rbd(cluster, &["snap", "create", "--no-progress", "owned@theirs"]).await;
    image.write(0, "other").await.expect("written");
    rbd(cluster, &["resize", "--no-progress", "--size", "12", "owned"]).await;
    assert_eq!(image.size_bytes().await.expect("a size"), 12 * MIB, "told by a notification");
    image.write(12 * MIB - 4, "last").await.expect("written");
    let old = Image::open_snapshot(pool, "owned", "theirs").await.expect("the snapshot");
    assert_eq!(old.read(0, 5).await.expect("read").to_vec(), b"first");
    assert_eq!(image.snapshots().await.expect("snapshots").len(), 1);
    image.roll_back("theirs").await.expect("rolled back");
    assert_eq!(image.read(0, 5).await.expect("read").to_vec(), b"first");
    image.remove_snapshot("theirs").await.expect("removed");
    image.close().await.expect("it closes");
    rbd::remove(pool, "owned").await.expect("removed");
}

/// An owner that has lost the lock writes no more.
async fn broken_lock(cluster: &TestCluster, pool: &Pool) {
    rbd::create(pool, "broken", 8 * MIB, &ImageOptions::default()).await.expect("an image");
    let other = connect(cluster).await.pool("rbd").await.expect("the pool");
    let image = Image::open(&other, "broken").await.expect("it opens");
    image.write(0, "mine").await.expect("written");
    let locks = rbd(cluster, &["lock", "ls", "broken"]).await;
    let line = locks.lines().last().expect("a lock");
    let words: Vec<&str> = line.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect();
    rbd(cluster, &["lock", "rm", "broken", words[1], words[0]]).await;
    assert_eq!(errno(image.write(0, "late").await), Errno::EBLOCKLISTED);
    assert_eq!(errno(image.write(4 * MIB, "late").await), Errno::EBLOCKLISTED);
    let again = Image::open(pool, "broken").await.expect("it opens");
    again.write(4, " too").await.expect("written");
    assert_eq!(again.read(0, 8).await.expect("read").to_vec(), b"mine too");
    again.close().await.expect("it closes");
    drop(image);
    rbd::remove(pool, "broken").await.expect("removed");
}

async fn nothing_is_left(cluster: &TestCluster, pool: &Pool) {
    only_left(pool, &["rbd_directory", "rbd_children", "rbd_info", "rbd_trash", "rbd_mirroring", "rbd_task"]).await;
    assert_eq!(rbd(cluster, &["ls"]).await, "");
}

/// In the end nothing but these is listed: names stay until what snapshots kept has been trimmed.
async fn only_left(pool: &Pool, known: &[&str]) {
    let end = tokio::time::Instant::now() + LIMIT;
    loop {
        let left = pool.list().collect().await.expect("a list");
        let names = left.iter().map(|object| String::from_utf8_lossy(&object.name).into_owned());
        let unknown: Vec<String> = names.filter(|name| !known.contains(&name.as_str())).collect();
        if unknown.is_empty() {
            return;
        }
        assert!(tokio::time::Instant::now() < end, "{unknown:?}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
