//! Bits that rot in a running OSD's store are found, repaired and reported.

use bytes::Bytes;
use cluster_tests::{TestCluster, clients_are_here};
use devices::{Division, StorePaths};
use offline::{FileDevice, OfflineStore};
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::thread::sleep;
use std::time::{Duration, Instant};
use store::{Step, Transaction};
use types::{ObjectId, PgId, SnapId};

const LIMIT: Duration = Duration::from_secs(180);

/// 64 KiB that are nowhere else.
fn content(seed: u64) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = |_| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x as u8
    };
    (0..65_536).map(next).collect()
}

fn put(cluster: &TestCluster, object: &str, bytes: &[u8]) {
    let file = cluster.scratch(object);
    std::fs::write(&file, bytes).expect("scratch can be written");
    cluster.rados(&["-p", "p", "put", object, file.to_str().expect("plain path")]).ok();
}

/// Flips a bit of the block of an OSD's store that holds these bytes' third block.
fn rot(cluster: &TestCluster, osd: u32, bytes: &[u8]) {
    let path = cluster.dir().join(format!("osd.{osd}")).join("block");
    let store = OpenOptions::new().read(true).write(true).open(&path).expect("an OSD's store");
    let (wanted, store_bytes) = (&bytes[8192..12_288], store.metadata().expect("it is open").len());
    let mut chunk = vec![0; 1 << 20];
    for at in (0..store_bytes).step_by(chunk.len()) {
        let read = store.read_at(&mut chunk, at).expect("the store can be read");
        let found = chunk[..read].chunks(4096).position(|block| block == wanted);
        if let Some(index) = found {
            let at = at + index as u64 * 4096 + 100;
            store.write_all_at(&[bytes[8292] ^ 4], at).expect("the store can be written");
            return store.sync_all().expect("the store can be written");
        }
    }
    panic!("osd.{osd} does not hold the object's bytes");
}

fn group(cluster: &TestCluster, pgid: &str) -> Value {
    let dump = cluster.ceph_json(&["pg", "dump", "pgs"]);
    let groups = dump["pg_stats"].as_array().or(dump.as_array()).cloned().unwrap_or_default();
    groups.into_iter().find(|pg| pg["pgid"] == pgid).unwrap_or_else(|| panic!("{dump}"))
}

/// Orders a scrub and waits for its end. Gives what is then known of the group.
fn scrub(cluster: &TestCluster, what: &str, pgid: &str) -> Value {
    let stamp = if what == "scrub" { "last_scrub_stamp" } else { "last_deep_scrub_stamp" };
    let before = group(cluster, pgid)[stamp].clone();
    cluster.ceph(&["pg", what, pgid]).ok();
    let started = Instant::now();
    loop {
        let pg = group(cluster, pgid);
        let state = pg["state"].as_str().expect("a name").to_owned();
        if pg[stamp] != before && !state.contains("scrubbing") && !state.contains("recover") {
            return pg;
        }
        assert!(started.elapsed() < LIMIT, "{what} does not end: {pg}");
        sleep(Duration::from_millis(200));
    }
}

#[test]
fn rotten_bits_are_found_and_repaired() {
    if !clients_are_here(&["ceph", "rados"]) {
        return;
    }
    let cluster = TestCluster::start("scrub", 3);
    cluster.make_pool("p", 1, 3);
    let pgid =
        cluster.ceph_json(&["pg", "ls-by-pool", "p"])["pg_stats"][0]["pgid"].as_str().expect("a group").to_owned();
    let contents: Vec<Vec<u8>> = (0..4).map(content).collect();
    for (i, bytes) in contents.iter().enumerate() {
        put(&cluster, &format!("o{i}"), bytes);
    }
    let pg = scrub(&cluster, "deep-scrub", &pgid);
    assert_eq!((&pg["state"], &pg["stat_sum"]["num_scrub_errors"]), (&"active+clean".into(), &0.into()), "{pg}");

    // One copy is bad: it is replaced.
    (0..3).for_each(|osd| rot(&cluster, osd, &contents[osd as usize]));
    let pg = scrub(&cluster, "deep-scrub", &pgid);
    assert_eq!(pg["stat_sum"]["num_objects_repaired"], 3, "{pg}");
    assert_eq!((&pg["state"], &pg["stat_sum"]["num_scrub_errors"]), (&"active+clean".into(), &0.into()), "{pg}");
    for (i, bytes) in contents.iter().enumerate() {
        let file = cluster.scratch("got");
        cluster.rados(&["-p", "p", "get", &format!("o{i}"), file.to_str().expect("plain path")]).ok();
        assert!(std::fs::read(&file).expect("it was got") == *bytes, "o{i} after repair");
    }

    // All are: that is reported.
    (0..3).for_each(|osd| rot(&cluster, osd, &contents[3]));
    let pg = scrub(&cluster, "deep-scrub", &pgid);
    assert_eq!(pg["state"], "active+clean+inconsistent", "{pg}");
    let health = cluster.ceph(&["health", "detail"]).ok();
    assert!(
        health.contains("Possible data damage: 1 pg inconsistent") && health.contains("3 scrub errors"),
        "{health}"
    );
    let damaged = cluster.ceph_json(&["pg", "ls", "inconsistent"]);
    assert_eq!(damaged["pg_stats"].as_array().expect("a list").len(), 1, "{damaged}");
    assert_eq!(damaged["pg_stats"][0]["pgid"], *pgid, "{damaged}");
    let listed = cluster.rados(&["list-inconsistent-obj", &pgid, "--format=json"]).ok();
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    let found = listed["inconsistents"].as_array().expect("a list");
    assert_eq!(found.len(), 1, "{listed}");
    assert_eq!((&found[0]["object"]["name"], &found[0]["union_shard_errors"][0]), (&"o3".into(), &"read_error".into()));
    assert_eq!(found[0]["shards"].as_array().expect("a list").len(), 3, "{listed}");
    put(&cluster, "o3", &contents[3]);
    let pg = scrub(&cluster, "repair", &pgid);
    assert_eq!(pg["state"], "active+clean", "{pg}");
    let listed = cluster.rados(&["list-inconsistent-obj", &pgid, "--format=json"]).ok();
    assert!(listed.contains("\"inconsistents\":[]"), "{listed}");
    let refused = cluster.ceph(&["pg", "scrub", "77.0"]).failure();
    assert!(refused.contains("does not exist"), "{refused}");
    assert!(cluster.ceph(&["osd", "deep-scrub", "all"]).succeeded());
}

/// Changes the store of an OSD that does not run, by steps for the group's objects, which are given.
fn change(cluster: &TestCluster, osd: u64, pg: PgId, steps: impl FnOnce(&[ObjectId], &Bytes) -> Vec<Step>) {
    let paths = StorePaths::beside(&cluster.dir().join(format!("osd.{osd}")).join("block"));
    let division = Division::read(&paths).expect("an OSD's store");
    let device = FileDevice::open_part(&paths, false, division, 0).expect("an OSD's store");
    let mut store = OfflineStore::open(device).expect("it is sound");
    let (from, until) = (ObjectId { pool: pg.pool, ..ObjectId::min() }, ObjectId::max());
    let objects = store.ready(|store| store.list(&from, &until, 100)).expect("it is sound");
    let stat = store.ready(|store| store.stat(&objects[0])).expect("it is sound").expect("it is listed");
    let steps = steps(&objects, stat.attrs.get(b"oi").expect("each object has it"));
    store.submit(Transaction { pg, steps }).expect("it can be written");
    store.settle(true).expect("it can be written");
}

fn names(value: &Value) -> Vec<&str> {
    value.as_array().expect("a list").iter().map(|name| name.as_str().expect("a name")).collect()
}

/// Output of `list-inconsistent-obj` and `list-inconsistent-snapset` on copies that differ is what they print of a
/// Ceph's (16.2.15) whose copies were made to differ in the same way. Copies that digests prove wrong are replaced at
/// once.
#[test]
fn copies_that_differ_are_told() {
    if !clients_are_here(&["ceph", "rados"]) {
        return;
    }
    let cluster = TestCluster::start("scrub-differ", 3);
    cluster.make_pool("p", 1, 3);
    let group = cluster.ceph_json(&["pg", "ls-by-pool", "p"])["pg_stats"][0].clone();
    let pgid = group["pgid"].as_str().expect("a group").to_owned();
    let acting: Vec<u64> =
        group["acting"].as_array().expect("a list").iter().map(|osd| osd.as_u64().expect("an OSD")).collect();
    let (primary, changed) = (acting[0], acting[1]);
    for object in ["attr", "data", "omap", "size", "snap"] {
        put(&cluster, object, &content(7)[..9000]);
    }
    cluster.rados(&["-p", "p", "setxattr", "attr", "name", "value"]).ok();
    cluster.rados(&["-p", "p", "setxattr", "attr", "other", "x"]).ok();
    cluster.rados(&["-p", "p", "setomapval", "omap", "k", "v"]).ok();
    cluster.wait_until_clean(LIMIT);
    cluster.down();
    let pool = pgid.split('.').next().and_then(|pool| pool.parse().ok()).expect("a pool's number");
    let pg = PgId::new(pool, 0);
    change(&cluster, changed, pg, |objects, _| {
        let of = |name: &str| objects.iter().find(|object| object.name == name.as_bytes()).expect("it was put").clone();
        let text = Bytes::from_static;
        vec![
            Step::SetAttr { object: of("attr"), name: b"_name".to_vec(), value: text(b"other") },
            Step::RemoveAttr { object: of("attr"), name: b"_other".to_vec() },
            Step::OmapSet { object: of("omap"), entries: vec![(text(b"k"), text(b"other"))] },
            Step::Truncate { object: of("size"), size: 5000 },
        ]
    });
    for osd in acting {
        change(&cluster, osd, pg, |objects, info| {
            let head = objects.iter().find(|object| object.name == b"snap").expect("it was put");
            let object = ObjectId { snap: SnapId(4), ..head.clone() };
            let data = objects.iter().find(|object| object.name == b"data").expect("it was put").clone();
            vec![
                Step::SetAttr { object: object.clone(), name: b"oi".to_vec(), value: info.clone() },
                Step::Write { object, offset: 0, data: content(7)[..9000].to_vec().into() },
                Step::Write { object: data, offset: 0, data: content(8)[..9000].to_vec().into() },
            ]
        });
    }
    cluster.up();
    cluster.wait_until_clean(LIMIT);
    let found = scrub(&cluster, "deep-scrub", &pgid);
    assert_eq!(found["state"], "active+clean+inconsistent", "{found}");
    assert_eq!(found["stat_sum"]["num_objects_repaired"], 1, "the short copy is not what its digest says: {found}");
    let listed = |what: &str| {
        let listed = cluster.rados(&[what, &pgid, "--format=json"]).ok();
        let mut listed: Value = serde_json::from_str(&listed).expect("JSON");
        listed["inconsistents"].as_array_mut().map(std::mem::take).expect("a list")
    };
    let objects = listed("list-inconsistent-obj");
    assert_eq!(objects.len(), 3, "{objects:?}");
    let info_keys = [
        "alloc_hint_flags",
        "data_digest",
        "expected_object_size",
        "expected_write_size",
        "flags",
        "last_reqid",
        "local_mtime",
        "lost",
        "manifest",
        "mtime",
        "oid",
        "omap_digest",
        "prior_version",
        "size",
        "truncate_seq",
        "truncate_size",
        "user_version",
        "version",
        "watchers",
    ];
    for (name, errors, of_copies, flags) in [
        ("attr", &["attr_value_mismatch", "attr_name_mismatch"][..], &[][..], &["dirty", "data_digest"][..]),
        ("data", &[], &["data_digest_mismatch_info"], &["dirty", "data_digest"]),
        ("omap", &["omap_digest_mismatch"], &[], &["dirty", "omap", "data_digest"]),
    ] {
        let told = objects.iter().find(|told| told["object"]["name"] == name).expect("it is told of");
        let info = &told["selected_object_info"];
        let mut keys: Vec<&String> = info.as_object().expect("of a good copy").keys().collect();
        keys.sort();
        assert_eq!(keys, info_keys, "{told}");
        assert_eq!((names(&told["errors"]), names(&told["union_shard_errors"])), (errors.to_vec(), of_copies.to_vec()));
        assert_eq!((&told["object"]["snap"], &told["object"]["version"]), (&json!("head"), &info["user_version"]));
        assert_eq!((&info["size"], names(&info["flags"]), &info["lost"]), (&json!(9000), flags.to_vec(), &json!(0)));
        let oid = &info["oid"];
        assert_eq!(
            (&oid["oid"], &oid["snapid"], &oid["pool"], &oid["max"]),
            (&json!(name), &json!(-2), &json!(pool), &json!(0))
        );
        assert!(info["last_reqid"].as_str().is_some_and(|reqid| reqid.starts_with("client.")), "{info}");
        for shard in told["shards"].as_array().expect("a list") {
            let is_changed = shard["osd"] == changed;
            assert_eq!(shard["primary"], json!(shard["osd"] == primary), "{told}");
            assert_eq!(names(&shard["errors"]), of_copies, "{told}");
            assert_eq!(shard["size"], 9000, "{told}");
            assert!(shard["data_digest"].is_string() && shard["omap_digest"].is_string(), "{told}");
            assert_eq!(shard["omap_digest"] == "0xffffffff", name != "omap", "{told}");
            assert_eq!(shard.get("object_info"), None, "{told}");
            let attr = |name: &str, value: &str| json!({"name": name, "value": value, "Base64": false});
            let attrs = match is_changed {
                true => json!([attr("name", "other")]),
                false => json!([attr("name", "value"), attr("other", "x")]),
            };
            assert_eq!(shard.get("attrs"), (name == "attr").then_some(&attrs), "{told}");
        }
    }
    let told = listed("list-inconsistent-snapset");
    let name = json!({"name": "snap", "nspace": "", "locator": ""});
    let of = |more: Value| {
        let all = name.as_object().into_iter().chain(more.as_object()).flatten();
        Value::Object(all.map(|(key, value)| (key.clone(), value.clone())).collect())
    };
    let clone = of(json!({"snap": 4, "errors": ["headless"]}));
    let head = of(json!({
        "snap": "head", "snapset": {"seq": 0, "clones": []}, "errors": ["extra_clones"], "extra clones": [4],
    }));
    assert_eq!(told, [clone, head]);
    // An order to repair proves none of the copies right: an operator chooses.
    scrub(&cluster, "repair", &pgid);
    assert_eq!(listed("list-inconsistent-obj").len(), 3);
    let health = cluster.ceph(&["health", "detail"]).ok();
    let says = format!("and repair does not choose; 'ceph tell {pgid} keep_copy OBJECT OSD'");
    assert!(health.contains("3 objects have copies") && health.contains(&says), "{health}");
    let keep = |object: &str, osd: &str| cluster.ceph(&["tell", &pgid, "keep_copy", object, osd]);
    let refused = keep("nothing", "osd.0").failure();
    assert!(refused.contains("list-inconsistent-obj"), "{refused}");
    for object in ["attr", "data", "omap"] {
        keep(object, &format!("osd.{primary}")).ok();
    }
    // It begins once the copies are replaced. States that nobody lists stay.
    let found = scrub(&cluster, "deep-scrub", &pgid);
    assert_eq!(found["state"], "active+clean+inconsistent", "{found}");
    assert_eq!((listed("list-inconsistent-obj").len(), listed("list-inconsistent-snapset").len()), (0, 2));
    let file = cluster.scratch("got");
    cluster.rados(&["-p", "p", "get", "size", file.to_str().expect("plain path")]).ok();
    assert!(std::fs::read(&file).expect("it was got") == content(7)[..9000], "after repair");
}

/// Puts an object into an erasure-coded pool of one group, and overwrites a part of it, so that it has no digests.
/// Returns the group's name, and the OSD of each shard.
fn coded_group(cluster: &TestCluster, pool: &str, k: u32, m: u32, bytes: &[u8]) -> (String, Vec<u64>) {
    cluster.make_coded_pool(pool, 1, k, m);
    let [whole, part] = ["whole", "part"].map(|name| cluster.scratch(name));
    std::fs::write(&whole, bytes).expect("scratch can be written");
    std::fs::write(&part, &bytes[9000..9100]).expect("scratch can be written");
    let [whole, part] = [&whole, &part].map(|path| path.to_str().expect("plain path"));
    cluster.rados(&["-p", pool, "put", "o", whole]).ok();
    cluster.rados(&["-p", pool, "put", "o", part, "--offset", "9000"]).ok();
    let group = cluster.ceph_json(&["pg", "ls-by-pool", pool])["pg_stats"][0].clone();
    let osds = group["acting"].as_array().expect("a list").iter().map(|osd| osd.as_u64().expect("an OSD")).collect();
    (group["pgid"].as_str().expect("a group").to_owned(), osds)
}

/// A shard's bytes are changed by a writer that keeps all checksums right, as a bug would. Where there are two parities
/// a deep scrub names the shard and has it computed anew; one parity shows no more than that something is wrong.
#[test]
fn shards_that_are_no_code_word_are_found() {
    if !clients_are_here(&["ceph", "rados"]) {
        return;
    }
    let cluster = TestCluster::start("scrub-coded", 4);
    let bytes = content(11);
    let (wide, wide_osds) = coded_group(&cluster, "wide", 2, 2, &bytes);
    let (narrow, narrow_osds) = coded_group(&cluster, "narrow", 2, 1, &bytes);
    cluster.wait_until_clean(LIMIT);
    let garble = |pgid: &str, osds: &[u64], shard: u8| {
        let pool: i64 = pgid.split('.').next().and_then(|pool| pool.parse().ok()).expect("a pool's number");
        let pg = PgId::new(pool, 0).of_shard(shard);
        change(&cluster, osds[usize::from(shard)], pg, |objects, _| {
            let object = objects.iter().find(|object| object.name == b"o").expect("it was put").clone();
            vec![Step::Write { object, offset: 5000, data: b"garbled".to_vec().into() }]
        });
    };
    cluster.down();
    garble(&wide, &wide_osds, 3);
    garble(&narrow, &narrow_osds, 2);
    cluster.up();
    cluster.wait_until_clean(LIMIT);

    let found = scrub(&cluster, "deep-scrub", &wide);
    assert_eq!((&found["state"], &found["stat_sum"]["num_objects_repaired"]), (&json!("active+clean"), &json!(1)));
    let found = scrub(&cluster, "deep-scrub", &wide);
    assert_eq!((&found["state"], &found["stat_sum"]["num_objects_repaired"]), (&json!("active+clean"), &json!(1)));
    let found = scrub(&cluster, "repair", &narrow);
    assert_eq!(found["state"], "active+clean+inconsistent", "{found}");
    let listed = cluster.rados(&["list-inconsistent-obj", &narrow, "--format=json"]).ok();
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    let told = &listed["inconsistents"][0];
    assert_eq!(
        (&told["object"]["name"], names(&told["errors"])),
        (&json!("o"), vec!["data_digest_mismatch"]),
        "{told}"
    );
    assert_eq!(told["shards"].as_array().expect("a list").len(), 3, "{told}");

    // The parity that was computed anew is right: the object is what it was without both data shards.
    cluster.ceph(&["osd", "pool", "set", "wide", "min_size", "2"]).ok();
    wide_osds[..2].iter().for_each(|osd| crate::erasure::kill_osd(&cluster, &osd.to_string()));
    let file = cluster.scratch("got");
    cluster.rados_within(&["-p", "wide", "get", "o", file.to_str().expect("plain path")], LIMIT).ok();
    assert!(std::fs::read(&file).expect("it was got") == bytes);
}
