//! Our own client library beside reading and writing, on Nacre and on a real Ceph: watches, snapshots of both kinds,
//! copies, comparisons, checksums, quotas.

use bytes::Bytes;
use client::{ChecksumKind, Cluster, Comparison, Config, Error, Operation, Pool, SnapContext};
use cluster_tests::{TestCluster, clients_are_here};
use std::collections::BTreeMap;
use std::time::Duration;
use types::{Errno, SnapId};

const LIMIT: Duration = Duration::from_secs(120);

async fn connect(cluster: &TestCluster) -> Cluster {
    let mut config = Config::from_conf(cluster.conf()).expect("a configuration");
    config.op_timeout = Some(Duration::from_secs(60));
    config.mon_op_timeout = Some(Duration::from_secs(60));
    Cluster::connect(config).await.expect("a connection")
}

fn errno<T>(result: Result<T, Error>) -> Errno {
    result.map(drop).expect_err("an error is due").errno()
}

fn everything_on(cluster: TestCluster) {
    for pool in ["plain", "kept", "managed", "held"] {
        cluster.ceph(&["osd", "pool", "create", pool, "8"]).ok();
    }
    cluster.wait_until_clean(LIMIT);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (ours, other) = (connect(&cluster).await, connect(&cluster).await);
        let pool = ours.pool("plain").await.expect("the pool");
        watches(&pool, &other.pool("plain").await.expect("the pool")).await;
        comparisons(&pool).await;
        copies(&pool).await;
        pool_snapshots(&ours.pool("kept").await.expect("the pool")).await;
        managed_snapshots(&ours.pool("managed").await.expect("the pool")).await;
        held_back(&cluster, &ours.pool("held").await.expect("the pool"), &pool).await;
        quota(&cluster, &pool).await;
    });
}

#[test]
fn operations_on_nacre() {
    if clients_are_here(&["ceph"]) {
        everything_on(TestCluster::start("own-client", 3));
    }
}

#[test]
fn operations_on_ceph() {
    if clients_are_here(&["ceph-mon", "ceph-osd", "ceph-mgr", "monmaptool", "ceph"]) {
        let cluster = TestCluster::start_ceph("own-client-ceph", 3);
        // A client that says that it holds something back, and sends it, ends the OSD.
        cluster.ceph(&["config", "set", "osd", "osd_debug_crash_on_ignored_backoff", "true"]).ok();
        everything_on(cluster);
    }
}

async fn watches(pool: &Pool, other: &Pool) {
    let wait = Duration::from_secs(10);
    assert_eq!(errno(pool.watch("w", wait).await), Errno::ENOENT);
    assert_eq!(errno(pool.notify("w", "x", wait).await), Errno::ENOENT);
    pool.write_full("w", "watched").await.expect("written");
    let nobody = other.notify("w", "x", wait).await.expect("nobody need answer");
    assert!(nobody.replies.is_empty() && nobody.missing.is_empty());
    let mut watch = pool.watch("w", wait).await.expect("a watch");
    let watchers = other.watchers("w").await.expect("watchers");
    let id = pool.cluster().client_id();
    assert_eq!((watchers.len(), watchers[0].cookie, watchers[0].name.num as u64), (1, watch.cookie(), id));
    let notifier = other.cluster().client_id();
    let told = tokio::spawn({
        let other = other.clone();
        async move { other.notify("w", "news", wait).await }
    });
    let heard = watch.next().await.expect("a notification");
    assert_eq!((heard.payload, heard.notifier), (Bytes::from("news"), notifier));
    watch.acknowledge(heard.id, "heard").await.expect("acknowledged");
    let answered = told.await.expect("it ends").expect("answers");
    assert_eq!(answered.replies, BTreeMap::from([((id, watch.cookie()), "heard".into())]));
    // A watcher that does not answer is missed.
    let mute = other.notify("w", "again", Duration::from_secs(1)).await.expect("time is up");
    assert_eq!((mute.replies.len(), mute.missing), (0, vec![(id, watch.cookie())]));
    assert_eq!(watch.next().await.expect("it did arrive").payload, "again");
    // It outlives its timeout, being kept alive.
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert_eq!(other.watchers("w").await.expect("watchers").len(), 1);
    assert!(watch.check().expect("it stands") < wait, "it was confirmed a short while ago");
    watch.end().await.expect("the end");
    assert!(other.watchers("w").await.expect("watchers").is_empty());
    let mut watch = pool.watch("w", wait).await.expect("a watch");
    other.remove("w").await.expect("removed");
    assert_eq!(errno(watch.next().await), Errno::ENOTCONN, "the object is gone");
    assert_eq!(errno(watch.check()), Errno::ENOTCONN);
}

async fn comparisons(pool: &Pool) {
    pool.write("c", 4096, vec![7; 8192]).await.expect("written");
    let found =
        pool.operate("c", Operation::new().sparse_read(0, 12_288).compare(4096, vec![7; 100])).await.expect("as is");
    let (extents, data) = found.extents(0).expect("extents");
    assert!(data.ends_with(&[7; 8192]) && extents.values().sum::<u64>() == data.len() as u64, "{extents:?}");
    let differs = pool.operate("c", Operation::new().compare(4090, vec![0, 0, 0, 0, 0, 0, 7, 8])).await;
    assert_eq!(errno(differs), Errno(4095 + 7));
    let operation = Operation::new().checksum(ChecksumKind::Crc32c, 0, 12_288, 4096);
    let sums = pool.operate("c", operation).await.expect("sums").checksums(0).expect("sums");
    assert_eq!((sums.len(), sums[1], sums[0] == sums[1]), (3, sums[2], false));
    pool.operate("c", Operation::new().write_same(0, 4096, vec![1, 2, 3, 4])).await.expect("written");
    assert_eq!(&pool.read("c", 4092, 8).await.expect("read")[..], [1, 2, 3, 4, 7, 7, 7, 7]);
    let keys = (0..9).map(|i| (Bytes::from(format!("k{i}")), Bytes::from(format!("v{i}")))).collect();
    let set = Operation::new().omap_set(&keys).set_xattr("count", "9");
    pool.operate("c", set).await.expect("set");
    let guarded = |value: &'static str| {
        Operation::new().omap_compare("k3", Comparison::Equal, value).omap_remove_range("k2", "k5")
    };
    assert_eq!(errno(pool.operate("c", guarded("v4")).await), Errno::ECANCELED);
    pool.operate("c", guarded("v3")).await.expect("removed");
    let (left, _) = pool.operate("c", Operation::new().omap_keys("", 100)).await.expect("keys").keys(0).expect("keys");
    assert_eq!(left, ["k0", "k1", "k5", "k6", "k7", "k8"]);
    let number = |how, value| Operation::new().compare_xattr_number("count", how, value);
    pool.operate("c", number(Comparison::Greater, 10)).await.expect("10 > 9");
    assert_eq!(errno(pool.operate("c", number(Comparison::Greater, 8)).await), Errno::ECANCELED);
}

async fn copies(pool: &Pool) {
    let source = pool.namespace("there");
    let outcome =
        source.operate("from", Operation::new().write_full("content").set_xattr("a", "b")).await.expect("written");
    pool.operate("to", Operation::new().copy_from(&source, "from", outcome.version)).await.expect("copied");
    let got = pool.operate("to", Operation::new().read(0, 0).get_xattr("a")).await.expect("there");
    assert_eq!((got.bytes(0).expect("bytes"), got.bytes(1).expect("bytes")), ("content".into(), "b".into()));
    let stale = pool.operate("to", Operation::new().copy_from(&source, "from", outcome.version + 1)).await;
    assert!(matches!(errno(stale), Errno::EOVERFLOW | Errno::ERANGE));
    assert_eq!(errno(pool.operate("to", Operation::new().copy_from(&source, "none", 0)).await), Errno::ENOENT);
}

async fn pool_snapshots(pool: &Pool) {
    pool.write_full("o", "before").await.expect("written");
    pool.create_snapshot("s").await.expect("a snapshot");
    assert_eq!(errno(pool.create_snapshot("s").await), Errno::EEXIST);
    assert_eq!(errno(pool.create_managed_snapshot().await), Errno::EINVAL, "the other kind");
    pool.write_full("o", "after").await.expect("written");
    pool.write_full("new", "x").await.expect("written");
    let snapshots = pool.snapshots().await.expect("snapshots");
    let (id, _) = snapshots.iter().find(|(_, name)| *name == "s").expect("it is there");
    let old = pool.at_snapshot(*id);
    assert_eq!(old.read("o", 0, 0).await.expect("read"), "before");
    assert_eq!(errno(old.read("new", 0, 0).await), Errno::ENOENT);
    assert_eq!(pool.read("o", 0, 0).await.expect("read"), "after");
    pool.roll_back("o", *id).await.expect("rolled back");
    assert_eq!(pool.read("o", 0, 0).await.expect("read"), "before");
    pool.remove_snapshot("s").await.expect("removed");
    assert_eq!(errno(pool.remove_snapshot("s").await), Errno::ENOENT);
    assert!(pool.snapshots().await.expect("snapshots").is_empty());
}

async fn managed_snapshots(pool: &Pool) {
    pool.write_full("o", vec![1; 8192]).await.expect("written");
    let (first, second) =
        (pool.create_managed_snapshot().await.expect("an id"), pool.create_managed_snapshot().await.expect("an id"));
    assert!(first < second);
    let context = |snaps: &[SnapId]| SnapContext { seq: *snaps.first().expect("one"), snaps: snaps.to_vec() };
    pool.under(context(&[first])).expect("valid").write("o", 4096, vec![2; 4096]).await.expect("written");
    pool.under(context(&[second, first])).expect("valid").remove("o").await.expect("removed");
    assert_eq!(errno(pool.under(context(&[first, second]))), Errno::EINVAL, "newest first");
    assert_eq!(errno(pool.read("o", 0, 0).await), Errno::ENOENT);
    assert_eq!(pool.at_snapshot(first).read("o", 0, 0).await.expect("read"), vec![1; 8192]);
    assert_eq!(pool.at_snapshot(second).read("o", 4096, 0).await.expect("read"), vec![2; 4096]);
    let states = pool.object_states("o").await.expect("states");
    let ids: Vec<SnapId> = states.clones.iter().map(|state| state.id).collect();
    assert_eq!((ids, states.clones[0].overlap.clone()), (vec![first, second], vec![(0, 4096)]));
    pool.under(context(&[second, first])).expect("valid").roll_back("o", first).await.expect("rolled back");
    assert_eq!(pool.read("o", 0, 0).await.expect("read"), vec![1; 8192]);
    pool.remove_managed_snapshot(first).await.expect("removed");
    assert_eq!(errno(pool.at_snapshot(first).read("o", 0, 0).await), Errno::ENOENT);
    assert_eq!(pool.at_snapshot(second).read("o", 4096, 0).await.expect("read"), vec![2; 4096]);
}

/// A pool that wants more copies than there are OSDs serves nobody until it wants fewer; what was asked for meanwhile
/// is done then, in the order in which it was asked for. Others are served by the same OSDs.
async fn held_back(cluster: &TestCluster, held: &Pool, other: &Pool) {
    held.write_full("h", "zero").await.expect("written");
    let set = |what: &str, count: &str| drop(cluster.ceph(&["osd", "pool", "set", "held", what, count]).ok());
    set("size", "4");
    set("min_size", "4");
    let waiting = |number: usize| {
        let held = held.clone();
        tokio::spawn(async move {
            let object = format!("many{}", number % 16);
            held.operate(object, Operation::new().append(format!("{number},"))).await
        })
    };
    wait_for_state(cluster, "peered").await;
    let mut updates = Vec::new();
    for number in 0..160 {
        updates.push(waiting(number));
        // They are to be sent in this order, and some before the client has been told to hold back.
        tokio::task::yield_now().await;
    }
    for round in 0..40 {
        let name = format!("meanwhile{round}");
        other.write_full(name.clone(), "x").await.expect("written");
        assert_eq!(other.read(name.clone(), 0, 0).await.expect("read"), "x");
        other.remove(name).await.expect("removed");
    }
    assert!(updates.iter().all(|update| !update.is_finished()), "there are too few copies");
    set("min_size", "2");
    set("size", "3");
    for update in updates {
        update.await.expect("it ends").expect("written");
    }
    for object in 0..16 {
        let expected: String = (0..10).map(|round| format!("{},", round * 16 + object)).collect();
        assert_eq!(held.read(format!("many{object}"), 0, 0).await.expect("read"), expected);
    }
    assert_eq!(held.read("h", 0, 0).await.expect("read"), "zero");
    wait_for_state(cluster, "active+clean").await;
}

/// Waits until each group of the pool `held` has told that it is in this state.
async fn wait_for_state(cluster: &TestCluster, state: &str) {
    let deadline = tokio::time::Instant::now() + LIMIT;
    loop {
        let listed = cluster.ceph_json(&["pg", "ls-by-pool", "held"]);
        let groups = listed["pg_stats"].as_array().or(listed.as_array()).expect("groups");
        let is_so = |group: &serde_json::Value| group["state"].as_str().is_some_and(|it| it.contains(state));
        if !groups.is_empty() && groups.iter().all(is_so) {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "not all are {state}: {listed}");
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

/// A full pool keeps updates waiting, or refuses those that ask for that.
async fn quota(cluster: &TestCluster, pool: &Pool) {
    cluster.ceph(&["osd", "pool", "set-quota", "plain", "max_objects", "1"]).ok();
    let deadline = tokio::time::Instant::now() + LIMIT;
    let full = pool.placed_by("full");
    for attempt in 0.. {
        // Each a new object: what takes no more room is let in. All lie in one group, since other OSDs may hear later
        // that the pool is full.
        match full.operate(format!("more-{attempt}"), Operation::new().write_full("x").full_try()).await {
            Err(Error::Errno(Errno::EDQUOT)) => break,
            other => assert!(tokio::time::Instant::now() < deadline, "{other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let waiting = tokio::time::timeout(Duration::from_secs(2), full.write_full("more", "x")).await;
    assert!(waiting.is_err(), "it waits for room");
    pool.remove("c").await.expect("a full pool can become less full");
    let waiting = tokio::spawn({
        let full = full.clone();
        async move { full.write_full("more", "y").await }
    });
    cluster.ceph(&["osd", "pool", "set-quota", "plain", "max_objects", "0"]).ok();
    waiting.await.expect("it ends").expect("there is room again");
    assert_eq!(full.read("more", 0, 0).await.expect("read"), "y");
}
