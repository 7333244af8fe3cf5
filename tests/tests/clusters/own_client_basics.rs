//! Objects by our own client library, on Nacre and on a real Ceph: contents, attributes, omaps, guards, listings, and
//! an OSD that dies meanwhile.

use bytes::Bytes;
use client::{Cluster, Comparison, Config, Error, Operation, Pool};
use cluster_tests::{TestCluster, clients_are_here};
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;
use types::Errno;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

async fn connect(conf: &Path) -> Cluster {
    let mut config = Config::from_conf(conf).unwrap();
    config.op_timeout = Some(Duration::from_secs(60));
    config.mon_op_timeout = Some(Duration::from_secs(60));
    Cluster::connect(config).await.unwrap()
}

/// Bytes that differ from place to place.
fn pattern(len: usize, seed: u32) -> Bytes {
    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 11) as u8).collect()
}

fn errno<T: std::fmt::Debug>(result: Result<T, Error>) -> Errno {
    result.expect_err("an error is due").errno()
}

fn everything_on(daemons: &TestCluster) {
    runtime().block_on(async {
        let cluster = connect(&daemons.conf()).await;
        assert_eq!(cluster.fsid().to_string(), daemons.ceph(&["fsid"]).ok().trim());
        everything(&cluster, 2).await;
        let pool = make_pool(&cluster, "failures", 2).await;
        pool.write_full("warm", "up").await.unwrap();
    });
    std::thread::scope(|scope| {
        let trouble = scope.spawn(|| an_osd_dies_and_comes_back(daemons));
        runtime().block_on(writes_that_are_answered_stay(&daemons.conf()));
        trouble.join().expect("the OSD comes back");
    });
}

#[test]
fn everything_works_on_nacre() {
    if clients_are_here(&["ceph"]) {
        everything_on(&TestCluster::start_supervised("own-basics", 3));
    }
}

#[test]
fn everything_works_on_a_real_ceph() {
    if clients_are_here(&["ceph-mon", "ceph-osd", "ceph-mgr", "monmaptool", "ceph"]) {
        everything_on(&TestCluster::start_ceph("own-basics-ceph", 3));
    }
}

#[test]
fn where_nobody_listens_connecting_ends_with_a_reason() {
    let config = "[global]\nmon host = 127.0.0.1:9\nclient mount timeout = 1\n";
    let conf = client::ConfFile::parse(config, Path::new("c")).unwrap();
    let config = Config::from_file(&conf, &client::Who::new("client", "admin")).unwrap();
    let error = runtime().block_on(Cluster::connect(config)).map(drop).unwrap_err().to_string();
    assert!(error.contains("within 1 s") && error.contains("127.0.0.1:9") && error.contains("refused"), "{error}");
}

pub(crate) async fn everything(cluster: &Cluster, size: u32) {
    let pool = make_pool(cluster, "live", size).await;
    contents(&pool).await;
    attributes(&pool).await;
    omap(&pool).await;
    compounds(&pool).await;
    listing(&pool).await;
    many_at_once(&pool).await;
    statistics(cluster).await;
    cluster.delete_pool("live").await.unwrap();
    assert!(matches!(cluster.pool("live").await, Err(Error::NoPool(_))));
    // The handle outlives its pool, and says so.
    assert_eq!(errno(pool.stat("big").await), Errno::ENOENT);
}

async fn make_pool(cluster: &Cluster, name: &str, size: u32) -> Pool {
    let commands = [
        format!(r#"{{"prefix": "osd pool create", "pool": "{name}", "pg_num": 8, "pgp_num": 8, "size": {size}}}"#),
        format!(r#"{{"prefix": "osd pool set", "pool": "{name}", "var": "size", "val": "{size}"}}"#),
        format!(r#"{{"prefix": "osd pool set", "pool": "{name}", "var": "min_size", "val": "1"}}"#),
        format!(r#"{{"prefix": "osd pool application enable", "pool": "{name}", "app": "test"}}"#),
    ];
    for command in commands {
        let reply = cluster.mon_command(&command, Bytes::new()).await.unwrap();
        assert_eq!(reply.result, 0, "{command}: {}", reply.status);
    }
    let reply = cluster.mon_command(r#"{"prefix": "no such thing"}"#, Bytes::new()).await.unwrap();
    assert_eq!(reply.result, Errno::EINVAL.as_result());
    cluster.pool(name).await.unwrap()
}

async fn contents(pool: &Pool) {
    assert_eq!(errno(pool.read("a", 0, 0).await), Errno::ENOENT);
    assert_eq!(errno(pool.remove("a").await), Errno::ENOENT);
    for (name, len) in [("empty", 0), ("one", 1), ("page", 4096), ("odd", 70_001), ("big", (4 << 20) + 1)] {
        let data = pattern(len, 7);
        pool.write_full(name, data.clone()).await.unwrap();
        assert_eq!(pool.read(name, 0, 0).await.unwrap(), data, "{name}");
        assert_eq!(pool.stat(name).await.unwrap().size_bytes, len as u64);
    }
    let big = pattern((4 << 20) + 1, 7);
    assert_eq!(pool.read("big", 4_000_000, 5000).await.unwrap(), big.slice(4_000_000..4_005_000));
    assert_eq!(pool.read("big", 4 << 20, 100).await.unwrap(), big.slice(4 << 20..), "short at the end");
    assert!(pool.read("big", 5 << 20, 100).await.unwrap().is_empty(), "nothing behind it");
    pool.write("a", 10, "hello").await.unwrap();
    pool.append("a", " world").await.unwrap();
    assert_eq!(pool.read("a", 0, 0).await.unwrap(), [&[0; 10][..], b"hello world"].concat());
    pool.operate("a", Operation::new().zero(12, 3)).await.unwrap();
    pool.truncate("a", 18).await.unwrap();
    assert_eq!(pool.read("a", 10, 0).await.unwrap(), &b"he\0\0\0 wo"[..]);
    pool.remove("a").await.unwrap();
    assert_eq!(errno(pool.stat("a").await), Errno::ENOENT);
    assert_eq!(errno(pool.operate("one", Operation::new().create(true)).await), Errno::EEXIST);
    // Names are bytes, and placement may go by something else than the name.
    let name = Bytes::from_static(b"not \xff UTF-8");
    pool.write_full(name.clone(), "x").await.unwrap();
    assert_eq!(pool.read(name, 0, 0).await.unwrap(), "x");
    let keyed = pool.placed_by("together");
    keyed.write_full("kept", "1").await.unwrap();
    assert_eq!(keyed.read("kept", 0, 0).await.unwrap(), "1");
    assert_eq!(errno(pool.read("kept", 0, 0).await), Errno::ENOENT, "without the key it is another object");
    keyed.remove("kept").await.unwrap();
}

async fn attributes(pool: &Pool) {
    let set = Operation::new().set_xattr("color", "blue").set_xattr("empty", "").set_xattr("gone", "x");
    pool.operate("attrs", set).await.unwrap();
    pool.operate("attrs", Operation::new().remove_xattr("gone")).await.unwrap();
    let got = pool.operate("attrs", Operation::new().get_xattr("color").get_xattrs()).await.unwrap();
    assert_eq!(got.bytes(0).unwrap(), "blue");
    let all = got.map(1).unwrap();
    assert_eq!(all, BTreeMap::from([("color".into(), "blue".into()), ("empty".into(), Bytes::new())]));
    assert_eq!(errno(pool.operate("attrs", Operation::new().get_xattr("gone")).await), Errno::ENODATA);
}

async fn omap(pool: &Pool) {
    let entries: BTreeMap<Bytes, Bytes> =
        (0..50).map(|i| (format!("key{i:02}").into(), format!("value{i}").into())).collect();
    pool.operate("omap", Operation::new().omap_set(&entries).omap_set_header("head")).await.unwrap();
    let some = BTreeSet::from([Bytes::from("key07"), Bytes::from("nokey")]);
    let look = Operation::new().omap_keys("key10", 5).omap_entries("", 100, "key4").omap_get(&some).omap_header();
    let got = pool.operate("omap", look).await.unwrap();
    let (keys, more) = got.keys(0).unwrap();
    assert_eq!((keys[0].clone(), keys.len(), more), ("key11".into(), 5, true));
    let (listed, more) = got.entries(1).unwrap();
    assert_eq!((listed.len(), listed[0].1.clone(), more), (10, "value40".into(), false));
    assert_eq!(got.map(2).unwrap(), BTreeMap::from([("key07".into(), "value7".into())]));
    assert_eq!(got.bytes(3).unwrap(), "head");
    pool.operate("omap", Operation::new().omap_remove(&some)).await.unwrap();
    let (keys, _) = pool.operate("omap", Operation::new().omap_keys("", 100)).await.unwrap().keys(0).unwrap();
    assert_eq!(keys.len(), 49);
    pool.operate("omap", Operation::new().omap_clear()).await.unwrap();
    let got = pool.operate("omap", Operation::new().omap_keys("", 100).omap_header()).await.unwrap();
    assert!(got.keys(0).unwrap().0.is_empty() && got.bytes(1).unwrap().is_empty());
}

async fn compounds(pool: &Pool) {
    let first = pool.operate("c", Operation::new().create(true).write_full("one").set_xattr("v", "1")).await.unwrap();
    let guarded = |value: &'static str, content: &'static str| {
        Operation::new().compare_xattr("v", Comparison::Equal, value).write_full(content)
    };
    assert_eq!(errno(pool.operate("c", guarded("2", "two")).await), Errno::ECANCELED);
    assert_eq!(pool.read("c", 0, 0).await.unwrap(), "one", "nothing of it took place");
    let second = pool.operate("c", guarded("1", "two")).await.unwrap();
    assert!(second.version > first.version);
    let version = pool.operate("c", Operation::new().stat().read(0, 0)).await.unwrap();
    assert_eq!((version.version, version.bytes(1).unwrap()), (second.version, "two".into()));
    let stale = Operation::new().assert_version(first.version).write_full("three");
    assert!(pool.operate("c", stale).await.is_err());
    let forgiving = Operation::new().get_xattr("none").may_fail().read(0, 0);
    let got = pool.operate("c", forgiving).await.unwrap();
    assert_eq!(errno(got.bytes(0)), Errno::ENODATA);
    assert_eq!(got.bytes(1).unwrap(), "two");
}

async fn listing(pool: &Pool) {
    let space = pool.namespace("space");
    let names: BTreeSet<Bytes> = (0..600).map(|i| format!("object-{i}").into()).collect();
    for chunk in names.iter().cloned().collect::<Vec<_>>().chunks(100) {
        let mut writes = tokio::task::JoinSet::new();
        for name in chunk {
            let (space, name) = (space.clone(), name.clone());
            writes.spawn(async move { space.write_full(name, "x").await });
        }
        assert!(writes.join_all().await.into_iter().all(|result| result.is_ok()));
    }
    let listed = space.list().with_page_size(20).collect().await.unwrap();
    assert_eq!(listed.len(), names.len(), "each once");
    assert_eq!(listed.into_iter().map(|object| object.name).collect::<BTreeSet<_>>(), names);
    let outside = pool.list().collect().await.unwrap();
    assert!(outside.iter().any(|object| object.name == "big") && outside.iter().all(|o| o.nspace.is_empty()));
    let all = pool.list_all().collect().await.unwrap();
    assert_eq!(all.len(), names.len() + outside.len());
}

/// Deep queues, in both directions, with payloads of all kinds of sizes.
async fn many_at_once(pool: &Pool) {
    let mut tasks = tokio::task::JoinSet::new();
    for i in 0..64u32 {
        let pool = pool.clone();
        tasks.spawn(async move {
            let len = [0, 1, 4096, 16_383, 16_384, 100_000, 1 << 20][i as usize % 7];
            let (name, data) = (format!("many-{i}"), pattern(len, i));
            pool.write_full(name.clone(), data.clone()).await.unwrap();
            pool.read(name, 0, 0).await.unwrap() == data
        });
    }
    assert!(tasks.join_all().await.into_iter().all(|same| same));
}

async fn statistics(cluster: &Cluster) {
    // A Ceph whose manager has just started knows no figures: zeros are right.
    let whole = cluster.statfs(None).await.unwrap();
    assert!(whole.fsid == cluster.fsid() && whole.kib >= whole.kib_avail, "{whole:?}");
    let pools = cluster.pools().await.unwrap();
    assert_eq!(pools.get("live").copied(), Some(cluster.pool("live").await.unwrap().id()));
    cluster.pool_stats(&["live"]).await.unwrap();
    let df = cluster.mon_command(r#"{"prefix": "df", "format": "json"}"#, Bytes::new()).await.unwrap();
    assert!(df.result == 0 && df.output.starts_with(b"{") || df.output.starts_with(b"\n{"), "{df:?}");
}

fn an_osd_dies_and_comes_back(daemons: &TestCluster) {
    std::thread::sleep(Duration::from_millis(200));
    daemons.signal("osd.1", Signal::KILL);
    daemons.ceph(&["osd", "down", "1"]).ok();
    // Whoever looks after the cluster starts it again.
    daemons.wait_until_up(1, true, Duration::from_secs(90));
}

/// Every write that was answered is there afterwards.
async fn writes_that_are_answered_stay(conf: &Path) {
    let pool = connect(conf).await.pool("failures").await.unwrap();
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..8u32 {
        let pool = pool.clone();
        writers.spawn(async move {
            for i in 0..60u32 {
                pool.write_full(format!("w{writer}-{i}"), pattern(3000, writer * 1000 + i)).await.unwrap();
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
    }
    writers.join_all().await;
    for writer in 0..8u32 {
        for i in 0..60u32 {
            let got = pool.read(format!("w{writer}-{i}"), 0, 0).await.unwrap();
            assert_eq!(got, pattern(3000, writer * 1000 + i), "w{writer}-{i}");
        }
    }
}
