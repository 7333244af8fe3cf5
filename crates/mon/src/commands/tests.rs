//! Answers beside those that Ceph 16.2.15 gave, and input of every kind.

use super::signature::{Kind, Parameter, Signature};
use super::table;
use super::test_cluster::TestCluster;
use super::{Asked, Order, Outcome, Reply};
use crate::volatile::IoRates;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use types::{OsdId, PgId};
use wire::nacre::mon::{PgForce, pg_state};

/// Checks that `command` fails with `code` and `status`.
fn check_error(cluster: &mut TestCluster, command: Value, code: i32, status: &str) {
    let reply = cluster.run(command.clone());
    assert_eq!((reply.code, reply.status.as_str()), (code, status), "{command}");
}

fn check_status(cluster: &mut TestCluster, command: Value, status: &str) {
    check_error(cluster, command, 0, status);
}

// --- Ceph's own output ---

/// Commands whose keys may differ, each with paths that Ceph has and we have not, or the other way round.
const DIFFERENCES: &[(&str, &[&str])] = &[
    // Ceph has a pool of its own there, and applications on it.
    ("osd pool ls", &[".options.pg_num_max", ".options.pg_num_min", ".application_metadata.mgr_devicehealth"]),
    ("osd pool ls", &[".application_metadata.rados"]),
    ("osd pool application get", &[".device_health_metrics", ".ecp", ".rep3"]),
    ("osd dump", &[".erasure_code_profiles.default"]),
    // The cluster was idle on one side.
    ("osd pool stats", &[".client_io_rate"]),
    ("osd find", &[".container_name"]),
    // There is no manager, and the test's monitor says nothing of its host.
    ("node ls", &[".mgr.", ".mon."]),
    // Ceph 16.2 prints the table in every format; its JSON here is that of later releases.
    ("osd status", &["Ceph has null"]),
    ("status", &[".health.checks", ".pgmap.pgs_by_state"]),
    ("health", &[".checks"]),
    // Facts that daemons tell of themselves: the test's tell next to nothing.
    ("report", &[".osd_metadata", ".health.checks", ".osdmap.erasure_code_profiles.default"]),
    ("report", &[".crushmap.devices.class", ".osd_sum_by_class.ssd", ".osdmap.pools.options"]),
    ("report", &[".osdmap.pools.application_metadata", ".fsmap.compat.incompat"]),
    ("mgr metadata", &["."]),
    ("mon_status", &[".feature_map"]),
];

/// Collects the keys of `ceph` and `ours` that differ, as paths.
fn key_differences(ceph: &Value, ours: &Value, path: &str, out: &mut Vec<String>) {
    match (ceph, ours) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().filter(|key| !b.contains_key(*key)) {
                out.push(format!("{path}.{key} is missing"));
            }
            for key in b.keys().filter(|key| !a.contains_key(*key)) {
                out.push(format!("{path}.{key} is not Ceph's"));
            }
            let common = |from: &Map<String, Value>, other: &Map<String, Value>| {
                from.keys().filter(|key| other.contains_key(*key)).cloned().collect::<Vec<_>>()
            };
            if common(a, b) != common(b, a) {
                out.push(format!("{path}: keys are in another order: {:?}", common(b, a)));
            }
            for (key, value) in a.iter().filter(|(key, _)| b.contains_key(*key)) {
                key_differences(value, &b[key], &format!("{path}.{key}"), out);
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            if let (Some(a), Some(b)) = (a.first(), b.first()) {
                key_differences(a, b, path, out);
            }
        }
        (Value::Number(_), Value::Number(_)) | (Value::String(_), Value::String(_)) => {}
        (Value::Bool(_), Value::Bool(_)) | (Value::Null, Value::Null) => {}
        (a, b) => out.push(format!("{path} is {b}, Ceph has {a}")),
    }
}

#[test]
fn keys_and_columns_are_those_of_ceph() {
    let recorded: Vec<Value> = serde_json::from_str(include_str!("fixtures/ceph-16.2.15.json")).unwrap();
    assert!(recorded.len() > 50);
    let mut cluster = TestCluster::with_pools();
    let mut wrong = Vec::new();
    for sample in &recorded {
        let mut command = sample["command"].clone();
        let prefix = command["prefix"].as_str().unwrap().to_owned();
        if let Some(heading) = sample["heading"].as_array() {
            let text = cluster.ok(command.clone());
            let first = text.lines().next().unwrap_or_default();
            let cells: Vec<&str> = first.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
            if heading.iter().map(|cell| cell.as_str().unwrap()).ne(cells.iter().copied()) {
                wrong.push(format!("{command}: heading {cells:?}"));
            }
        }
        command["format"] = json!("json");
        let ours: Value = match serde_json::from_str(&cluster.ok(command.clone())) {
            Ok(value) => value,
            // Some commands answer with bare text in every format, in Ceph as well.
            Err(_) if !sample["json"].is_object() && !sample["json"].is_array() => continue,
            Err(e) => panic!("{command}: {e}"),
        };
        let mut found = Vec::new();
        key_differences(&sample["json"], &ours, "", &mut found);
        found.retain(|path| {
            !DIFFERENCES.iter().any(|(of, paths)| *of == prefix && paths.iter().any(|known| path.contains(known)))
        });
        wrong.extend(found.into_iter().map(|path| format!("{command}: {path}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn trees_print_as_ceph_prints_them() {
    let mut cluster = TestCluster::with_osds();
    let tree = "ID  CLASS  WEIGHT   TYPE NAME       STATUS  REWEIGHT  PRI-AFF
-1         3.00000  root default                             
-2         1.00000      host host0                           
 0    ssd  1.00000          osd.0       up   1.00000  1.00000
-3         1.00000      host host1                           
 1    ssd  1.00000          osd.1       up   1.00000  1.00000
-4         1.00000      host host2                           
 2         1.00000          osd.2       up   1.00000  1.00000
";
    assert_eq!(cluster.ok(json!({"prefix": "osd tree"})), tree);
    let shadow = "ID  CLASS  WEIGHT   TYPE NAME         
-8    ssd  2.00000  root default~ssd  
-5    ssd  1.00000      host host0~ssd
 0    ssd  1.00000          osd.0     
-6    ssd  1.00000      host host1~ssd
 1    ssd  1.00000          osd.1     
-7    ssd        0      host host2~ssd
-1         3.00000  root default      
-2         1.00000      host host0    
 0    ssd  1.00000          osd.0     
-3         1.00000      host host1    
 1    ssd  1.00000          osd.1     
-4         1.00000      host host2    
 2         1.00000          osd.2     
";
    assert_eq!(cluster.ok(json!({"prefix": "osd crush tree", "shadow": "--show-shadow"})), shadow);
    cluster.ok(json!({"prefix": "osd reweight", "id": 1, "weight": 0.8}));
    cluster.ok(json!({"prefix": "osd primary-affinity", "id": 0, "weight": 0.5}));
    cluster.ok(json!({"prefix": "osd down", "ids": ["2"]}));
    cluster.ok(json!({"prefix": "osd new", "uuid": "11111111-2222-3333-4444-55555555aaaa"}));
    let down = "ID  CLASS  WEIGHT   TYPE NAME       STATUS  REWEIGHT  PRI-AFF
-1         3.00000  root default                             
-4         1.00000      host host2                           
 2         1.00000          osd.2     down   1.00000  1.00000
 3               0  osd.3             down   1.00000  1.00000
";
    assert_eq!(cluster.ok(json!({"prefix": "osd tree", "states": ["down"]})), down);
    assert!(cluster.ok(json!({"prefix": "osd tree"})).contains("osd.1       up   0.79999  1.00000\n"));
    let dump = cluster.ok(json!({"prefix": "osd dump"}));
    assert!(
        dump.contains(
            "\nosd.3 down in  weight 1 up_from 0 up_thru 0 down_at 0 last_clean_interval [0,0)   exists,new "
        ),
        "{dump}"
    );
    assert!(dump.contains("\nosd.0 up   in  weight 1 primary_affinity 0.5 up_from 2 "), "{dump}");
}

#[test]
fn space_prints_as_ceph_prints_it() {
    let mut cluster = TestCluster::with_pools();
    let df = cluster.ok(json!({"prefix": "df"}));
    let expected = "--- RAW STORAGE ---
CLASS   SIZE  AVAIL   USED  RAW USED  %RAW USED
ssd    4 GiB  2 GiB  2 GiB     2 GiB      50.00
TOTAL  6 GiB  3 GiB  3 GiB     3 GiB      50.00
 
--- POOLS ---
POOL  ID  PGS   STORED  OBJECTS     USED  %USED  MAX AVAIL
rep3   1    8  7.6 MiB       80   23 MiB   0.82    922 MiB
rep2   2    4  3.8 MiB       40  7.6 MiB   0.28    1.3 GiB
";
    assert_eq!(df, expected);
    let df = cluster.ok(json!({"prefix": "osd df"}));
    let first = " 0    ssd  1.00000   1.00000  2 GiB    1 GiB  1 MiB   0 B  256 KiB  1 GiB  50.00  1.00   ";
    assert!(df.lines().nth(1).unwrap().starts_with(first), "{df}");
    assert!(df.ends_with("MIN/MAX VAR: 1.00/1.00  STDDEV: 0\n"), "{df}");
}

#[test]
fn osds_status_prints_as_a_manager_prints_it() {
    let mut cluster = TestCluster::with_pools();
    let rates = IoRates { write_ops: 5.0, write_bytes: 1_249_759.0, read_ops: 12_345.0, ..IoRates::default() };
    cluster.volatile.osd_rates.insert(OsdId(1), rates);
    let status = cluster.ok(json!({"prefix": "osd status"}));
    let expected = "ID  HOST   USED  AVAIL  WR OPS  WR DATA  RD OPS  RD DATA  STATE      
 0  vm    1024M  1024M      0        0       0        0   exists,up  
 1  vm    1024M  1024M      5     1220k   12.3k       0   exists,up  
 2  vm    1024M  1024M      0        0       0        0   exists,up  
";
    assert_eq!(status, expected);
    let one = cluster.ok(json!({"prefix": "osd status", "bucket": "host1"}));
    assert_eq!(one.lines().skip(1).collect::<Vec<_>>(), [expected.lines().nth(2).unwrap()]);
    check_error(&mut cluster, json!({"prefix": "osd status", "bucket": "x"}), -2, "Bucket 'x' not found");
    let value: Value = serde_json::from_str(&cluster.ok(json!({"prefix": "osd status", "format": "json"}))).unwrap();
    let rate = value["OSDs"][1]["write ops rate"].as_f64();
    assert_eq!((&value["OSDs"][1]["kb used"], rate), (&json!(1 << 20), Some(5.0)));
    assert_eq!(value["OSDs"][1]["state"], json!(["exists", "up"]));
}

#[test]
fn monitors_say_whether_one_less_or_more_would_do() {
    let mut cluster = TestCluster::with_osds();
    check_error(&mut cluster, json!({"prefix": "mon ok-to-rm", "id": "a"}), -16, "removing mon.a would break quorum");
    check_status(&mut cluster, json!({"prefix": "mon ok-to-rm", "id": "z"}), "mon.z does not exist");
    let offline = json!({"prefix": "mon ok-to-add-offline"});
    check_error(&mut cluster, offline, -16, "adding a monitor may break quorum (until that monitor starts)");
}

#[test]
fn status_prints_as_ceph_prints_it() {
    let mut cluster = TestCluster::with_pools();
    let status = cluster.ok(json!({"prefix": "status"}));
    let expected = "  cluster:
    id:     42424242-4242-4242-4242-424242424242
    health: HEALTH_WARN
            1 pool(s) do not have an application enabled
 
  services:
    mon: 1 daemons, quorum a (age 7m)
    mgr: a(active, since 7m)
    osd: 3 osds: 3 up (since 7m), 3 in (since 7m)
 
  data:
    pools:   2 pools, 12 pgs
    objects: 120 objects, 11 MiB
    usage:   3 GiB used, 3 GiB / 6 GiB avail
    pgs:     12 active+clean
 
  io:
    client:   1.2 MiB/s wr, 0 op/s rd, 5 op/s wr
 
";
    assert_eq!(status, expected);
    cluster.ok(json!({"prefix": "osd set", "key": "noout"}));
    *cluster.report(PgId::new(1, 3)) = wire::nacre::mon::PgReport {
        pgid: PgId::new(1, 3),
        state: pg_state::PEERING,
        acting: vec![OsdId(1)],
        ..Default::default()
    };
    let status = cluster.ok(json!({"prefix": "status"}));
    assert!(status.contains("\n         flags noout\n"), "{status}");
    assert!(
        status
            .contains("\n    pgs:     8.333% pgs not active\n             11 active+clean\n             1  peering\n"),
        "{status}"
    );
}

// --- changes ---

#[test]
fn erasure_code_profiles_are_checked_and_completed() {
    let mut c = TestCluster::with_pools();
    let set = |words: &[&str]| json!({"prefix": "osd erasure-code-profile set", "name": "p", "profile": words});
    c.ok(set(&["k=4", "m=2", "crush-failure-domain=osd"]));
    assert_eq!(
        c.ok(json!({"prefix": "osd erasure-code-profile get", "name": "p"})),
        "crush-device-class=\ncrush-failure-domain=osd\ncrush-root=default\njerasure-per-chunk-alignment=false\n\
         k=4\nm=2\n\
         plugin=jerasure\ntechnique=reed_sol_van\nw=8\n"
    );
    c.ok(set(&["m=2", "k=4", "plugin=jerasure", "crush-failure-domain=osd"]));
    assert_eq!(c.run(set(&["k=5", "m=2"])).code, -1, "another profile of that name");
    let lrc = "erasure code plugin 'lrc' is not supported; use plugin=jerasure or plugin=isa";
    check_error(&mut c, set(&["plugin=lrc"]), -5, lrc);
    check_error(&mut c, set(&["k=1"]), -22, "k=1 must be at least 2");
    let unaligned = json!({"prefix": "osd erasure-code-profile set", "name": "u", "profile": ["stripe_unit=8224"]});
    let sentence =
        "stripe_unit should be a multiple of 4096 bytes for best performance. use --force to override this check";
    check_error(&mut c, unaligned, -22, sentence);
    // The first map's profile has fewer settings than are filled in today, and counts as equal nevertheless.
    c.ok(json!({"prefix": "osd erasure-code-profile set", "name": "default", "profile": ["k=2", "m=2"]}));
}

#[test]
fn erasure_coded_pools_follow_their_profile() {
    let mut c = TestCluster::with_pools();
    let words = ["k=2", "m=1", "plugin=isa", "stripe_unit=8K"];
    c.ok(json!({"prefix": "osd erasure-code-profile set", "name": "p21", "profile": words}));
    let create = |name: &str, profile: &str| {
        json!({"prefix": "osd pool create", "pool": name, "pg_num": 8, "pgp_num": 8, "pool_type": "erasure",
               "erasure_code_profile": profile})
    };
    check_error(&mut c, create("e", "none"), -22, "unknown erasure code profile 'none'");
    check_status(&mut c, create("e", "p21"), "pool 'e' created");
    let detail = c.ok(json!({"prefix": "osd pool ls", "detail": "detail"}));
    let line = detail.lines().find(|line| line.contains("'e'")).expect("it is there");
    let expected = " 'e' erasure profile p21 size 3 min_size 2 crush_rule 1 object_hash rjenkins pg_num 8 pgp_num 8 ";
    assert!(line.contains(" flags hashpspool,ec_overwrites "), "{line}");
    assert!(line.contains(expected) && line.ends_with(" stripe_width 16384"), "{line}");
    assert_eq!(c.ok(json!({"prefix": "osd crush rule ls"})), "replicated_rule\ne\n");
    // `min_size` is one more shard than reads need, where there is one more.
    check_status(&mut c, json!({"prefix": "osd pool create", "pool": "d", "pool_type": "erasure"}), "pool 'd' created");
    let pool = |c: &TestCluster, name: &str| {
        let map = c.state.osdmap();
        map.pools[&map.pool_by_name(name).expect("just made")].clone()
    };
    let d = pool(&c, "d");
    assert_eq!((d.size, d.min_size, d.stripe_width, &*d.erasure_code_profile), (4, 3, 8192, "default"));
    assert_eq!(c.state.osdmap().crush.rule_name(d.crush_rule.into()), Some("erasure-code"));
    let set = |var: &str, val: &str| json!({"prefix": "osd pool set", "pool": "e", "var": var, "val": val});
    let takes_overwrites = |c: &TestCluster| pool(c, "e").flags.contains(osdmap::PoolFlags::EC_OVERWRITES);
    assert!(takes_overwrites(&c), "as a new pool does");
    check_status(&mut c, set("allow_ec_overwrites", "false"), "set pool 3 allow_ec_overwrites to false");
    assert!(!takes_overwrites(&c));
    check_status(&mut c, set("allow_ec_overwrites", "true"), "set pool 3 allow_ec_overwrites to true");
    assert!(takes_overwrites(&c));
    check_error(&mut c, set("min_size", "1"), -22, "pool min_size must be between 2 and size, which is set to 3");
    let other =
        json!({"prefix": "osd erasure-code-profile set", "name": "p21", "profile": ["k=3", "m=1"], "force": true});
    assert_eq!(c.run(other).code, -16, "the pool's objects are coded with it");
    assert_eq!(c.run(json!({"prefix": "osd erasure-code-profile rm", "name": "p21"})).code, -16);
    // Three bytes of devices hold two of clients.
    let (map, raw) = (c.state.osdmap(), 3000);
    let e = pool(&c, "e");
    assert_eq!(crate::volatile::writable_bytes(map, &e, raw), 2000);
}

#[test]
fn pools_come_and_go() {
    let mut c = TestCluster::with_pools();
    check_status(&mut c, json!({"prefix": "osd pool create", "pool": "x"}), "pool 'x' created");
    check_status(&mut c, json!({"prefix": "osd pool create", "pool": "x"}), "pool 'x' already exists");
    assert_eq!(c.ok(json!({"prefix": "osd pool get", "pool": "x", "var": "pg_num"})), "pg_num: 32\n");
    check_error(
        &mut c,
        json!({"prefix": "osd pool create", "pool": "y", "rule": "no"}),
        -2,
        "specified rule no doesn't exist",
    );
    let warning = "WARNING: this will *PERMANENTLY DESTROY* all data stored in pool x.  If you are *ABSOLUTELY \
                   CERTAIN* that is what you want, pass the pool name *twice*, followed by \
                   --yes-i-really-really-mean-it.";
    check_error(&mut c, json!({"prefix": "osd pool delete", "pool": "x"}), -1, warning);
    let sure = json!({"prefix": "osd pool delete", "pool": "x", "pool2": "x", "yes_i_really_really_mean_it": true});
    c.ok(json!({"prefix": "config set", "who": "mon", "name": "mon_allow_pool_delete", "value": "false"}));
    assert_eq!(c.run(sure.clone()).code, -1);
    c.ok(json!({"prefix": "config rm", "who": "mon", "name": "mon_allow_pool_delete"}));
    check_status(&mut c, sure.clone(), "pool 'x' removed");
    check_status(&mut c, sure, "pool 'x' does not exist");
    check_status(
        &mut c,
        json!({"prefix": "osd pool rename", "srcpool": "rep2", "destpool": "r"}),
        "pool 'rep2' renamed to 'r'",
    );
    check_error(
        &mut c,
        json!({"prefix": "osd pool rename", "srcpool": "r", "destpool": "rep3"}),
        -17,
        "pool 'rep3' already exists",
    );
    assert_eq!(c.ok(json!({"prefix": "osd lspools"})), "1 rep3\n2 r\n");
    check_status(
        &mut c,
        json!({"prefix": "osd pool set-quota", "pool": "r", "field": "max_bytes", "val": "10Ki"}),
        "set-quota max_bytes = 10240 for pool r",
    );
}

#[test]
fn pool_settings_are_checked_and_read_back() {
    let mut c = TestCluster::with_pools();
    let set = |var: &str, val: &str| json!({"prefix": "osd pool set", "pool": "rep3", "var": var, "val": val});
    check_status(&mut c, set("size", "2"), "set pool 1 size to 2");
    check_error(&mut c, set("size", "11"), -22, "pool size must be between 1 and 10");
    assert_eq!(c.run(set("size", "1")).code, -1);
    check_error(&mut c, set("min_size", "3"), -22, "pool min_size must be between 1 and size, which is set to 2");
    check_error(&mut c, set("nodelete", "maybe"), -22, "expecting value 'true', 'false', '0', or '1'");
    check_error(&mut c, set("crush_rule", "no"), -2, "crush rule no does not exist");
    check_status(&mut c, set("pg_num", "8"), "");
    check_status(&mut c, set("pg_num", "4"), "set pool 1 pg_num to 4");
    let detail = c.ok(json!({"prefix": "osd pool ls", "detail": "detail"}));
    assert!(detail.contains("pg_num 8 pgp_num 8 pg_num_target 4 pgp_num_target 4"), "{detail}");
    check_status(&mut c, set("pg_num", "8"), "set pool 1 pg_num to 8");
    assert_eq!(c.run(set("pg_num", "0")).code, -34);
    assert!(c.run(set("pg_num", "60000")).status.contains("exceeds max"));
    check_error(&mut c, set("pgp_num", "9"), -22, "specified pgp_num 9 > pg_num 8");
    check_status(&mut c, set("pg_num", "16"), "set pool 1 pg_num to 16");
    let detail = c.ok(json!({"prefix": "osd pool ls", "detail": "detail"}));
    assert!(detail.contains("pg_num 8 pgp_num 8 pg_num_target 16 pgp_num_target 16"), "{detail}");
    check_status(&mut c, set("pg_num", "8"), "set pool 1 pg_num to 8");
    for (var, val) in [
        ("compression_mode", "aggressive"),
        ("compression_required_ratio", ".5"),
        ("target_size_bytes", "10G"),
        ("csum_type", "crc32c"),
        ("recovery_priority", "3"),
        ("noscrub", "1"),
        ("pg_autoscale_mode", "on"),
    ] {
        check_status(&mut c, set(var, val), &format!("set pool 1 {var} to {val}"));
    }
    check_error(&mut c, set("compression_mode", "x"), -22, "unrecognized compression mode 'x'");
    let all = c.ok(json!({"prefix": "osd pool get", "pool": "rep3", "var": "all"}));
    let expected = "size: 2\nmin_size: 1\npg_num: 8\npgp_num: 8\ncrush_rule: replicated_rule\nhashpspool: \
                    true\nnodelete: false\nnopgchange: false\nnosizechange: false\nwrite_fadvise_dontneed: \
                    false\nnoscrub: true\nnodeep-scrub: false\nuse_gmt_hitset: 1\nfast_read: 0\nrecovery_priority: \
                    3\ncompression_mode: aggressive\ncompression_required_ratio: 0.5\ncsum_type: \
                    crc32c\npg_autoscale_mode: on\ntarget_size_bytes: 10737418240\nbulk: false\n";
    assert_eq!(all, expected);
    let unset = json!({"prefix": "osd pool get", "pool": "rep3", "var": "scrub_min_interval"});
    check_error(&mut c, unset, -2, "option 'scrub_min_interval' is not set on pool 'rep3'");
}

#[test]
fn osds_are_marked_and_removed() {
    let mut c = TestCluster::with_osds();
    check_status(&mut c, json!({"prefix": "osd out", "ids": ["1"]}), "marked out osd.1. ");
    check_status(
        &mut c,
        json!({"prefix": "osd out", "ids": ["osd.1", "9"]}),
        "osd.1 is already out. osd.9 does not exist. ",
    );
    check_status(&mut c, json!({"prefix": "osd in", "ids": ["any"]}), "marked in osd.1. ");
    check_status(&mut c, json!({"prefix": "osd reweight", "id": 1, "weight": 0.5}), "reweighted osd.1 to 0.5 (8000)");
    let uuid = "11111111-2222-3333-4444-555555555555";
    for _ in 0..2 {
        assert_eq!(c.ok(json!({"prefix": "osd new", "uuid": uuid})), "3\n");
    }
    check_error(
        &mut c,
        json!({"prefix": "osd new", "uuid": uuid, "id": 5}),
        -17,
        &format!("uuid {uuid} already in use for different id 3"),
    );
    let sure = |command: &str, id: i32| json!({"prefix": command, "id": id, "yes_i_really_mean_it": true});
    check_error(&mut c, sure("osd destroy", 0), -16, "osd.0 is not `down`.");
    check_status(&mut c, sure("osd destroy", 3), "destroyed osd.3");
    assert!(c.ok(json!({"prefix": "osd tree"})).contains("osd.3           destroyed   1.00000"));
    let other = "11111111-2222-3333-4444-666666666666";
    assert_eq!(c.ok(json!({"prefix": "osd new", "uuid": other, "id": 3})), "3\n");
    assert!(!c.state.osdmap().is_destroyed(OsdId(3)));
    check_status(&mut c, sure("osd purge", 3), "purged osd.3");
    assert!(!c.state.osdmap().exists(OsdId(3)));
    c.ok(json!({"prefix": "osd down", "ids": ["2"]}));
    check_status(&mut c, sure("osd purge", 2), "purged osd.2");
    assert!(!c.ok(json!({"prefix": "osd tree"})).contains("osd.2"));
    check_error(
        &mut c,
        json!({"prefix": "osd rm", "ids": ["0"]}),
        -16,
        "osd.0 is still up; must be down before removal. ",
    );
}

#[test]
fn ranges_of_clients_are_locked_out_by_their_bits() {
    let mut cluster = TestCluster::empty();
    let change =
        |op: &str, addr: &str| json!({"prefix": "osd blocklist", "range": "range", "blocklistop": op, "addr": addr});
    // Without bits, a range would be every address.
    for (addr, shown) in
        [("10.0.0.0", "v2:10.0.0.0:0/0"), ("10.0.0.0/0", "v2:10.0.0.0:0/0"), ("any:127.0.0.1", "127.0.0.1:0/0")]
    {
        let sentence = format!("You specified a range command, but {shown} does not parse as a CIDR range");
        check_error(&mut cluster, change("add", addr), -22, &sentence);
        check_error(&mut cluster, change("rm", addr), -22, &sentence);
    }
    for addr in ["10.0.0.0/33", "10.0.0.0/40", "fe80::/129"] {
        check_error(&mut cluster, change("add", addr), -22, "Too many bits in range for that protocol!");
    }
    assert!(cluster.state.osdmap().range_blocklist.is_empty());
    for (addr, shown) in [("10.0.0.0/24", "cidr:10.0.0.0:0/24"), ("fe80::/64", "cidr:[fe80::]:0/64")] {
        let status = cluster.run(change("add", addr)).status;
        assert!(status.starts_with(&format!("blocklisting {shown} until ")), "{status}");
        let listed = cluster.ok(json!({"prefix": "osd blocklist ls"}));
        assert!(listed.starts_with(&format!("{shown} ")), "{listed}");
        let dump = cluster.ok(json!({"prefix": "osd dump"}));
        assert!(dump.contains(&format!("\nrange blocklist {shown} expires ")), "{dump}");
        let dump = cluster.ok(json!({"prefix": "osd dump", "format": "json"}));
        let dump: Value = serde_json::from_str(&dump).unwrap();
        assert!(dump["range_blocklist"][shown].is_string(), "{dump}");
        check_status(&mut cluster, change("rm", addr), &format!("un-blocklisting {shown}"));
        check_status(&mut cluster, change("rm", addr), &format!("{shown} isn't blocklisted"));
    }
    let one = json!({"prefix": "osd blocklist", "blocklistop": "add", "addr": "10.0.0.1:0/7"});
    assert!(cluster.run(one).status.starts_with("blocklisting 10.0.0.1:0/7 until "));
}

#[test]
fn quotas_are_read_as_ceph_reads_them() {
    let mut cluster = TestCluster::with_pools();
    let set =
        |field: &str, val: &str| json!({"prefix": "osd pool set-quota", "pool": "rep3", "field": field, "val": val});
    check_status(&mut cluster, set("max_objects", "1K"), "set-quota max_objects = 1000 for pool rep3");
    check_status(&mut cluster, set("max_bytes", "10Ki"), "set-quota max_bytes = 10240 for pool rep3");
    let sentence = "error parsing value '1MiB': strict_iecstrtoll: illegal prefix (length > 2)";
    check_error(&mut cluster, set("max_bytes", "1MiB"), -22, sentence);
    let max = u64::MAX;
    let sentence = format!("error parsing value '{max}': The option value '{max}' seems to be invalid");
    check_error(&mut cluster, set("max_bytes", &max.to_string()), -22, &sentence);
    let pool = cluster.state.osdmap().pool(types::PoolId(1)).unwrap();
    assert_eq!((pool.quota_max_objects, pool.quota_max_bytes), (1000, 10_240));
}

#[test]
fn pools_whose_clients_take_snapshots_have_none_of_their_own() {
    let mut cluster = TestCluster::with_pools();
    let mut incremental = cluster.state.next_incremental(super::test_cluster::NOW);
    let mut pool = cluster.state.osdmap().pool(types::PoolId(1)).unwrap().clone();
    pool.flags.insert(osdmap::PoolFlags::SELFMANAGED_SNAPS);
    incremental.new_pools.insert(types::PoolId(1), pool);
    let update = cluster.state.osd_update(incremental).unwrap();
    cluster.apply(vec![update]);
    for prefix in ["osd pool mksnap", "osd pool rmsnap"] {
        let command = json!({"prefix": prefix, "pool": "rep3", "snap": "s"});
        check_error(&mut cluster, command, -22, "pool rep3 is in unmanaged snaps mode");
    }
    let command = json!({"prefix": "osd pool rmsnap", "pool": "rep2", "snap": "s"});
    check_status(&mut cluster, command, "pool rep2 snap s does not exist");
}

/// Returns a cluster of three OSDs that use `mib` MiB each of 2 GiB.
fn filled(mib: [u64; 3]) -> TestCluster {
    let mut cluster = TestCluster::with_pools();
    for (id, used) in mib.into_iter().enumerate() {
        let stats = &mut cluster.volatile.osds.get_mut(&OsdId(id as i32)).unwrap().stats;
        stats.free_bytes = stats.total_bytes - (used << 20);
    }
    cluster
}

#[test]
fn weights_even_out_how_full_osds_are() {
    let mut cluster = filled([1500, 600, 600]);
    cluster.ok(json!({"prefix": "osd reweight", "id": 2, "weight": 0.5}));
    let epoch = cluster.state.osdmap().epoch;
    let test = |oload: i64, change: f64, osds: i64| {
        let prefix = "osd test-reweight-by-utilization";
        json!({"prefix": prefix, "oload": oload, "max_change": change, "max_osds": osds})
    };
    let plain = cluster.run(json!({"prefix": "osd test-reweight-by-utilization"}));
    let text = String::from_utf8(plain.output.to_vec()).unwrap();
    let weights = "\noload 120\nmax_change 0.05\nmax_change_osds 4\naverage_utilization 0.4395\noverload_utilization \
                   0.5273\nosd.0 weight 1.0000 -> 0.9500\nosd.2 weight 0.5000 -> 0.5500\n";
    assert!(text.ends_with(weights), "{text}");
    assert!(
        text.starts_with("moved ") && text.contains(" / 32 (") && text.contains("\navg 10.6667\nstddev "),
        "{text}"
    );
    assert_eq!((plain.code, plain.status.as_str()), (0, "no change"));
    // The weights change by no more than evens them out; of the fullest OSDs only; and none is raised.
    let text = cluster.ok(test(101, 0.7, 4));
    assert!(text.ends_with("osd.0 weight 1.0000 -> 0.6000\nosd.2 weight 0.5000 -> 0.7500\n"), "{text}");
    let text = cluster.ok(test(101, 0.1, 1));
    assert!(text.ends_with("\nosd.0 weight 1.0000 -> 0.9000\n"), "{text}");
    let mut lower = test(101, 0.1, 4);
    lower["no_increasing"] = json!(true);
    lower["format"] = json!("json");
    let value: Value = serde_json::from_str(&cluster.ok(lower)).unwrap();
    assert_eq!(value["reweights"].as_array().unwrap().len(), 1, "{value}");
    assert_eq!((&value["reweights"][0]["osd"], &value["utilization"]["total_pgs"]), (&json!(0), &json!(32)));
    assert_eq!(cluster.state.osdmap().epoch, epoch, "that was to look at only");

    check_status(&mut cluster, json!({"prefix": "osd reweight-by-utilization", "max_change": 0.2, "max_osds": 1}), "");
    let weights: Vec<u32> = (0..3).map(|id| cluster.state.osdmap().weight(OsdId(id))).collect();
    assert_eq!(weights, [52_429, 65_536, 32_768]);
    let even = json!({"prefix": "osd reweight-by-utilization", "oload": 1000, "no_increasing": true});
    check_status(&mut cluster, even, "no change");

    for (command, errno, sentence) in [
        (test(100, 0.1, 1), -22, "You must give a percentage higher than 100. "),
        (test(101, -1.0, 1), -22, "max_change -1 must be positive"),
        (test(101, 0.1, -3), -22, "max_osds -3 must be positive"),
    ] {
        let reply = cluster.run(command);
        assert!(reply.code == errno && reply.status.starts_with(sentence), "{reply:?}");
    }
    let empty = filled([1, 2, 3]).run(test(101, 0.1, 1));
    assert!(
        empty.code == -33 && empty.status.starts_with("Refusing to reweight: we only have 6144 kb used"),
        "{empty:?}"
    );
    check_status(&mut TestCluster::with_osds(), test(120, 0.1, 1), "no change");
    assert_eq!(TestCluster::empty().run(test(120, 0.1, 1)).code, -33);
}

#[test]
fn pools_are_scrubbed_as_a_whole() {
    let mut cluster = TestCluster::with_pools();
    let command = json!({"prefix": "osd pool deep-scrub", "who": ["rep2"]});
    let Outcome::Order { orders, .. } = cluster.outcome(&command.to_string()) else { panic!("no order") };
    let scrub = |order: &Order| match order {
        Order::Scrub(order) => order.clone(),
        other => panic!("{other:?}"),
    };
    let orders: Vec<_> = orders.iter().map(|(osd, order)| (*osd, scrub(order))).collect();
    let mut pgs: Vec<PgId> = orders.iter().flat_map(|(_, order)| order.pgs.clone()).collect();
    pgs.sort_unstable();
    assert_eq!(pgs, (0..4).map(|seed| PgId::new(2, seed)).collect::<Vec<_>>());
    assert!(orders.iter().all(|(_, order)| order.deep && !order.repair));
    check_status(&mut cluster, command, "");
    check_status(&mut cluster, json!({"prefix": "osd pool repair", "who": ["rep2", "rep3"]}), "");
    let command = json!({"prefix": "osd pool scrub", "who": ["rep2", "x"]});
    check_error(&mut cluster, command, -2, "unrecognized pool 'x'");
}

#[test]
fn what_is_not_there_is_refused_with_the_errno_of_ceph() {
    let mut cluster = TestCluster::with_pools();
    check_error(&mut cluster, json!({"prefix": "pg ls-by-primary", "osd": "77"}), -11, "osd 77 is not up");
    check_error(&mut cluster, json!({"prefix": "pg ls-by-osd", "osd": "0", "pool": 9}), -2, "pool 9 does not exist");
    check_error(&mut cluster, json!({"prefix": "osd scrub", "who": "99"}), -11, "osd.99 is not up");
    assert_eq!(cluster.run(json!({"prefix": "osd scrub", "who": "bogus"})).code, -22);
    let sentence = "option \"x\" not a plan or a pool";
    check_error(&mut cluster, json!({"prefix": "balancer eval", "option": "x"}), -22, sentence);
    let reply = cluster.run(json!({"prefix": "pg ls", "states": ["active+bogus"]}));
    let choices = "'active+bogus' is not a valid pg state, available choices: stale+creating+active+";
    assert!(reply.code == -22 && reply.status.starts_with(choices), "{}", reply.status);
}

#[test]
fn what_was_never_scrubbed_counts_from_when_its_pool_was_made() {
    let mut cluster = TestCluster::with_pools();
    let made = cluster.state.osdmap().pool(types::PoolId(1)).unwrap().create_time;
    assert!(!made.is_zero());
    let scrubbed_at = types::Utime { sec: made.sec + 50, nsec: 0 };
    cluster.report(PgId::new(1, 0)).scrub.light_at = scrubbed_at;
    let list = cluster.ok(json!({"prefix": "pg ls", "pool": 1}));
    let line = |pg: &str| list.lines().find(|line| line.starts_with(pg)).unwrap().trim_end().to_owned();
    assert!(line("1.0 ").ends_with(&format!("{scrubbed_at}  {made}")), "{list}");
    assert!(line("1.1 ").ends_with(&format!("{made}  {made}")), "{list}");
    let dump: Value = serde_json::from_str(&cluster.ok(json!({"prefix": "pg ls", "format": "json"}))).unwrap();
    assert_eq!(dump["pg_stats"][0]["last_scrub_stamp"], json!(scrubbed_at.to_string()));
    assert_eq!(dump["pg_stats"][0]["last_deep_scrub_stamp"], json!(made.to_string()));
}

#[test]
fn what_rbd_asks_a_manager_for_is_not_there_or_refused_with_the_reason() {
    let mut cluster = TestCluster::empty();
    for (prefix, nothing) in [
        ("rbd mirror snapshot schedule list", json!({})),
        ("rbd mirror snapshot schedule status", json!({"scheduled_images": []})),
    ] {
        let told = cluster.ok(json!({"prefix": prefix, "level_spec": "", "format": "json"}));
        assert_eq!(serde_json::from_str::<Value>(&told).unwrap(), nothing, "{prefix}");
        let elsewhere = json!({"prefix": prefix, "level_spec": "nowhere/n1/"});
        check_error(&mut cluster, elsewhere, -2, "there is no pool 'nowhere'");
    }
    // `rbd` has a quote too many there.
    let command = "\n{\n \"prefix\": \"rbd perf image stats\",\n \"pool_spec\": \"p\",\n \
                   \"sort_by\": \"write_ops\",\n \"format\": \"json\"\n}\"";
    let Outcome::Reply(reply) = cluster.outcome(command) else { panic!("it only answers") };
    let images = "operations are not counted by image; `ceph osd pool stats` has them by pool";
    assert_eq!((reply.code, reply.status.as_str()), (-22, images), "of -95 rbd says that a module is to be enabled");
}

#[test]
fn only_pools_that_leave_their_groups_to_the_cluster_get_other_numbers() {
    let mut cluster = TestCluster::with_pools();
    let mut would = || -> bool {
        let status = cluster.ok(json!({"prefix": "osd pool autoscale-status", "format": "json"}));
        cluster.ok(json!({"prefix": "osd pool set", "pool": "rep3", "var": "pg_autoscale_mode", "val": "on"}));
        serde_json::from_str::<Value>(&status).unwrap()[0]["would_adjust"] == true
    };
    assert_eq!([would(), would()], [false, true]);
}

#[test]
fn flags_and_ratios_are_set() {
    let mut c = TestCluster::with_osds();
    check_status(&mut c, json!({"prefix": "osd set", "key": "noout"}), "noout is set");
    check_status(&mut c, json!({"prefix": "osd set", "key": "pause"}), "pauserd,pausewr is set");
    check_status(&mut c, json!({"prefix": "osd unset", "key": "pause"}), "pauserd,pausewr is unset");
    let flags = "flags noout,sortbitwise,recovery_deletes,purged_snapdirs,pglog_hardlimit\n";
    assert!(c.ok(json!({"prefix": "osd dump"})).contains(flags));
    check_status(&mut c, json!({"prefix": "osd set-full-ratio", "ratio": 0.96}), "osd set-full-ratio 0.96");
    assert!(c.ok(json!({"prefix": "osd dump"})).contains("full_ratio 0.96\n"));
    c.ok(json!({"prefix": "osd set-group", "flags": "noup,noout", "who": ["osd.0", "host1"]}));
    assert!(c.ok(json!({"prefix": "osd dump"})).contains(" exists,noout,noup,up "));
    let dump: Value = serde_json::from_str(&c.ok(json!({"prefix": "osd dump", "format": "json"}))).unwrap();
    assert_eq!(dump["crush_node_flags"], json!({"host1": ["noout", "noup"]}));
    c.ok(json!({"prefix": "osd set-group", "flags": "nodown", "who": ["ssd"]}));
    let alarms = crate::health::evaluate(&c.state, &c.volatile).checks;
    let lines =
        ["osd.0 has flags noup,noout", "host host1 has flags noup,noout", "device class 'ssd' has flags nodown"];
    assert_eq!(alarms["OSD_FLAGS"].detail, lines);
    let reply = c.run(json!({"prefix": "osd set-group", "flags": "x", "who": ["osd.0"]}));
    assert_eq!(
        reply,
        Reply {
            code: -22,
            status: "unrecognized flag 'x', must be one of {noup,nodown,noin,noout}".into(),
            ..reply.clone()
        }
    );
}

#[test]
fn the_hierarchy_changes() {
    let mut c = TestCluster::with_osds();
    check_status(
        &mut c,
        json!({"prefix": "osd crush add-bucket", "name": "r", "type": "rack"}),
        "added bucket r type rack to crush map",
    );
    check_error(
        &mut c,
        json!({"prefix": "osd crush add-bucket", "name": "s", "type": "no"}),
        -22,
        "type 'no' does not exist",
    );
    check_status(
        &mut c,
        json!({"prefix": "osd crush move", "name": "r", "args": ["root=default"]}),
        "moved item id -9 name 'r' to location {root=default} in crush map",
    );
    check_status(
        &mut c,
        json!({"prefix": "osd crush move", "name": "r", "args": ["root=default"]}),
        "no need to move item id -9 name 'r' to location {root=default} in crush map",
    );
    check_status(
        &mut c,
        json!({"prefix": "osd crush move", "name": "host0", "args": ["rack=r"]}),
        "moved item id -2 name 'host0' to location {rack=r} in crush map",
    );
    assert_eq!(c.run(json!({"prefix": "osd crush rm", "name": "r"})).code, -39);
    check_status(
        &mut c,
        json!({"prefix": "osd crush set", "id": 2, "weight": 2.0, "args": ["host=host2"]}),
        "set item id 2 name 'osd.2' weight 2 at location {host=host2} to crush map",
    );
    check_status(
        &mut c,
        json!({"prefix": "osd crush reweight", "name": "osd.2", "weight": 1.0}),
        "reweighted item id 2 name 'osd.2' to 1 in crush map",
    );
    check_status(
        &mut c,
        json!({"prefix": "osd crush rule \
                          create-replicated", "name": "r1", "root": "default", "type": "host", "class": "ssd"}),
        "",
    );
    check_error(
        &mut c,
        json!({"prefix": "osd crush class rm", "class": "ssd"}),
        -16,
        "class 'ssd' still referenced by crush_rule(s): 'r1'",
    );
    assert_eq!(c.ok(json!({"prefix": "osd crush rule ls"})), "replicated_rule\nr1\n");
    check_status(&mut c, json!({"prefix": "osd crush rule rm", "name": "r1"}), "");
    check_error(
        &mut c,
        json!({"prefix": "osd crush set-device-class", "class": "hdd", "ids": ["0"]}),
        -16,
        "osd.0 has already bound to class 'ssd', can not reset class to 'hdd'; use 'ceph osd crush rm-device-class \
         <id>' to remove old class first",
    );
    check_status(
        &mut c,
        json!({"prefix": "osd crush rm-device-class", "ids": ["0"]}),
        "done removing class of osd(s): 0",
    );
}

#[test]
fn keys_are_made_once() {
    let mut c = TestCluster::empty();
    let make = json!({"prefix": "auth get-or-create", "entity": "client.a", "caps": ["mon", "allow r"]});
    let keyring = c.ok(make.clone());
    assert!(keyring.starts_with("[client.a]\n\tkey = AQ") && keyring.ends_with("==\n"), "{keyring}");
    assert_eq!(c.ok(make), keyring);
    let other = json!({"prefix": "auth get-or-create", "entity": "client.a", "caps": ["mon", "allow *"]});
    check_error(&mut c, other, -22, "key for client.a exists but cap mon does not match");
    let get = c.run(json!({"prefix": "auth get", "entity": "client.a"}));
    assert_eq!(get.output, format!("{keyring}\tcaps mon = \"allow r\"\n"));
    check_error(&mut c, json!({"prefix": "auth get", "entity": "client.b"}), -2, "failed to find client.b in keyring");
    let bad = json!({"prefix": "auth add", "entity": "client.b", "caps": ["osd", "bogus"]});
    check_error(&mut c, bad, -22, "osd capability parse failed, stopped at 'bogus' of 'bogus'");
    check_status(&mut c, json!({"prefix": "auth rm", "entity": "client.a"}), "updated");
}

// --- every command, every input ---

#[test]
fn unknown_commands_and_bad_json_are_refused() {
    let cluster = TestCluster::empty();
    let check = |command: &str, status: &str| {
        let Outcome::Reply(reply) = cluster.outcome(command) else { panic!("{command} changes something") };
        assert_eq!((reply.code, reply.status.as_str()), (-22, status));
    };
    check("", "command is not a JSON object");
    check("[]", "command is not a JSON object");
    check("{}", "command has no prefix");
    check(r#"{"prefix":"no such"}"#, "command not known");
    check(r#"{"prefix":"osd find"}"#, "osd find: missing argument 'id'");
}

/// Words that mean something somewhere.
const WORDS: &[&str] = &[
    "rep3",
    "rep2",
    "osd.0",
    "0",
    "2",
    "-1",
    "default",
    "host0",
    "osd",
    "host",
    "ssd",
    "replicated_rule",
    "1.0",
    "2.ff",
    "all",
    "*",
    "k=2",
    "root=default",
    "host=host1",
    "rack=",
    "mon",
    "allow *",
    "client.admin",
    "size",
    "pg_num",
    "noout",
    "plain",
    "tree",
    "11111111-2222-3333-4444-555555555555",
    "1.2.3.4:0/5",
    "65536",
    "99999999999999999999",
    "0.5",
    "",
    "é~",
    "active+clean",
    "true",
    "{\"0\": 5}",
    "4h",
    "pacific",
    "up",
    "down",
    "add",
    "rm",
    "none",
    "erasure",
];

/// Generates values of every kind, which an argument may or may not take.
fn any_argument() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        6 => prop::sample::select(WORDS).prop_map(|word| json!(word)),
        2 => any::<i64>().prop_map(|n| json!(n)),
        2 => (-2i64..12).prop_map(|n| json!(n)),
        1 => any::<f64>().prop_map(|n| json!(n)),
        1 => any::<bool>().prop_map(|b| json!(b)),
        1 => ".{0,12}".prop_map(|text| json!(text)),
    ];
    prop_oneof![4 => leaf.clone(), 1 => prop::collection::vec(leaf, 0..5).prop_map(|items| json!(items))].boxed()
}

/// Generates values that `parameter` takes, many of which name something that is there.
fn fitting_argument(parameter: &Parameter) -> BoxedStrategy<Value> {
    let one_of = |words: &'static [&'static str]| prop::sample::select(words).prop_map(|word| json!(word)).boxed();
    let value = match parameter.kind {
        Kind::Int => prop::sample::select(vec![0i64, 1, 2, 3, 8, 100]).prop_map(|n| json!(n)).boxed(),
        Kind::Float => prop::sample::select(vec![0.0, 0.5, 0.95, 1.0]).prop_map(|n| json!(n)).boxed(),
        Kind::Bool => any::<bool>().prop_map(|b| json!(b)).boxed(),
        Kind::Choices => prop::sample::select(parameter.choices.clone()).prop_map(|word| json!(word)).boxed(),
        Kind::OsdName => (0i64..5).prop_map(|n| json!(n)).boxed(),
        Kind::Uuid => one_of(&["11111111-2222-3333-4444-555555555555", "11111111-2222-3333-4444-555555555556"]),
        Kind::Pgid => one_of(&["1.0", "1.7", "2.1", "2.ff", "3.0"]),
        Kind::Text(_) => match parameter.name {
            "pool" | "pool2" | "srcpool" | "destpool" | "poolstr" | "pool_name" => one_of(&["rep3", "rep2", "new"]),
            "ids" => one_of(&["0", "osd.1", "2", "3", "all"]),
            "args" => one_of(&["root=default", "host=host1", "host=new", "rack=rack1"]),
            "type" => one_of(&["osd", "host", "rack", "root"]),
            "root" => one_of(&["default", "host0"]),
            "name" | "srcname" | "dstname" | "source" | "dest" | "node" | "bucket" | "ancestor" => one_of(&[
                "default",
                "host0",
                "host1",
                "osd.0",
                "rack1",
                "replicated_rule",
                "ssd",
                "x",
                "osd_max_backfills",
            ]),
            "class" => one_of(&["ssd", "hdd"]),
            "rule" | "erasure_code_profile" => one_of(&["replicated_rule", "default"]),
            "profile" => one_of(&["k=2", "m=1", "default", "crush-failure-domain=osd"]),
            "entity" => one_of(&["client.admin", "client.a", "osd.0"]),
            "caps" => one_of(&["mon", "allow *", "osd"]),
            "who" => one_of(&["osd.0", "osd", "global", "client.a", "mon", "host1"]),
            "key" => one_of(&["a/b", "osd_max_backfills", "k"]),
            "val" | "value" => one_of(&["1", "3", "0.5", "true", "replicated_rule", "on", "none", "10Gi"]),
            "app" => one_of(&["rbd", "rados"]),
            "flags" => one_of(&["noup,noout", "noin"]),
            "addr" => one_of(&["1.2.3.4:0/5", "1.2.3.4:0/6"]),
            "version" => one_of(&["luminous", "mimic", "pacific"]),
            "weights" => one_of(&["{\"0\": 32768}", "{\"osd.1\": 0}"]),
            "code" => one_of(&["POOL_APP_NOT_ENABLED", "OSDMAP_FLAGS"]),
            "states" => one_of(&["active", "clean", "active+clean"]),
            "range" => one_of(&["range"]),
            _ => prop::sample::select(WORDS).prop_map(|word| json!(word)).boxed(),
        },
    };
    match parameter.many {
        true => prop::collection::vec(value, 1..4).prop_map(|items| json!(items)).boxed(),
        false => value,
    }
}

/// Generates a command with arguments of its own names, most of them fitting.
fn command() -> impl Strategy<Value = Value> {
    let known: Vec<&'static Signature> = table::signatures().collect();
    let formats = prop::sample::select(vec!["plain", "json", "json-pretty"]);
    (prop::sample::select(known), formats).prop_flat_map(|(signature, format)| {
        let arguments: Vec<BoxedStrategy<Option<Value>>> = signature
            .parameters
            .iter()
            .map(|parameter| {
                let value = prop_oneof![19 => fitting_argument(parameter), 1 => any_argument()];
                prop::option::weighted(if parameter.required { 0.98 } else { 0.5 }, value).boxed()
            })
            .collect();
        arguments.prop_map(move |values| {
            let mut command = json!({"prefix": signature.prefix, "format": format});
            for (parameter, value) in signature.parameters.iter().zip(values) {
                if let Some(value) = value {
                    command[parameter.name] = value;
                }
            }
            command
        })
    })
}

#[test]
fn every_command_answers_without_arguments() {
    let mut cluster = TestCluster::with_pools();
    let prefixes: Vec<String> = table::signatures().map(|signature| signature.prefix.clone()).collect();
    for prefix in prefixes {
        for format in ["plain", "json", "json-pretty"] {
            let reply = cluster.run(json!({"prefix": prefix, "format": format}));
            assert!(
                reply.code == 0 || !reply.status.is_empty(),
                "'{prefix}' fails with {} and says nothing",
                reply.code
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Handlers neither panic nor propose updates that do not apply: applying is where contradictions would show.
    #[test]
    fn sequences_of_commands_never_panic(commands in prop::collection::vec(command(), 1..25)) {
        let mut cluster = TestCluster::with_pools();
        for command in commands {
            let reply = cluster.run(command.clone());
            prop_assert!(reply.code == 0 || !reply.status.is_empty(), "{} fails and says nothing", command);
            // A manager's module for crashes has positive numbers for what it refuses.
            prop_assert!(reply.code <= 0 || command["prefix"].as_str().is_some_and(|prefix| prefix.starts_with("crash ")));
        }
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,60}", rest in prop::collection::btree_map("[a-z]{1,6}", any_argument(), 0..4)) {
        let cluster = TestCluster::empty();
        cluster.outcome(&text);
        let rest: BTreeMap<String, Value> = rest;
        cluster.outcome(&json!(rest).to_string());
    }
}

// --- the ceph tool itself ---

/// Reads descriptions from a file and lines from another as the `ceph` tool does, and prints the commands it would
/// send.
const TOOL: &str = "
import json, shlex, sys
import ceph_argparse
known = ceph_argparse.parse_json_funcsigs(open(sys.argv[1]).read(), 'cli')
for line in open(sys.argv[2]):
    words = shlex.split(line)
    if words == ['-s']:
        words = ['status']
    try:
        command = ceph_argparse.validate_command(known, words)
    except ceph_argparse.ArgumentError as e:
        command = {'refused': str(e)}
    print(json.dumps(command or {'refused': 'no valid command found'}))
";

/// Ceph's tool understands an operator's words by our descriptions, and we understand the commands that it then sends.
#[test]
fn the_ceph_tool_understands_what_people_type() {
    let folder = std::env::temp_dir().join(format!("nacre-mon-lines-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (descriptions, lines) = (folder.join("descriptions.json"), folder.join("lines.txt"));
    std::fs::write(&descriptions, table::descriptions()).unwrap();
    std::fs::write(&lines, include_str!("fixtures/lines.txt")).unwrap();
    let run = std::process::Command::new("/usr/bin/python3").args(["-c", TOOL]).args([&descriptions, &lines]).output();
    std::fs::remove_dir_all(&folder).unwrap();
    let output = match run {
        Ok(output) if !String::from_utf8_lossy(&output.stderr).contains("No module named") => output,
        _ => {
            let required = std::env::var_os("NACRE_REQUIRE_ORACLES").is_some_and(|value| value == "1");
            assert!(!required, "python3 with ceph_argparse (of ceph-common) is required");
            eprintln!("skipped: there is no /usr/bin/python3 with ceph_argparse (of ceph-common)");
            return;
        }
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let sent = String::from_utf8(output.stdout).unwrap();
    let typed: Vec<&str> = include_str!("fixtures/lines.txt").lines().collect();
    assert_eq!(sent.lines().count(), typed.len());
    let mut cluster = TestCluster::with_pools();
    for (line, command) in typed.iter().zip(sent.lines()) {
        let command: Value = serde_json::from_str(command).unwrap();
        assert!(command.get("refused").is_none(), "the ceph tool refuses '{line}': {}", command["refused"]);
        let reply = cluster.run(command.clone());
        assert_eq!(reply.code, 0, "'{line}' as {command}: {}", reply.status);
    }
}

/// The sentences are Ceph's.
#[test]
fn groups_are_forced_as_their_states_have_it() {
    let mut cluster = TestCluster::with_pools();
    let (one, two, gone) = (PgId::new(2, 0), PgId::new(2, 1), PgId::new(9, 9));
    let force = |what: &str, pgs: &[PgId]| {
        let pgs: Vec<String> = pgs.iter().map(PgId::to_string).collect();
        json!({"prefix": format!("pg {what}"), "pgid": pgs})
    };
    check_status(&mut cluster, force("force-recovery", &[one]), "pg 2.0 doesn't require recovery; \n");
    check_status(&mut cluster, force("force-backfill", &[one]), "pg 2.0 doesn't require backfilling; \n");
    check_status(&mut cluster, force("cancel-force-recovery", &[one]), "pg 2.0 recovery not forced; \n");
    let sentence = "pg 2.0 doesn't require recovery; pg 2.1 doesn't require recovery; pg 9.9 does not exist; \n";
    check_error(&mut cluster, force("force-recovery", &[gone, two, one]), -2, sentence);
    let sentence = "unrecognized pool 'nope'";
    check_error(&mut cluster, json!({"prefix": "osd pool force-recovery", "who": ["nope"]}), -2, sentence);
    cluster.report(one).state = pg_state::ACTIVE | pg_state::DEGRADED | pg_state::RECOVERY_WAIT;
    let placed = cluster.state.osdmap().pg_to_up_acting(one).expect("placed");
    let osd = placed.acting_primary.expect("led");
    let Outcome::Order { orders, .. } = cluster.outcome(&force("force-recovery", &[one, two]).to_string()) else {
        panic!("no order")
    };
    assert_eq!(orders, [(osd, Order::Force(PgForce { pgs: vec![one], backfill: false, cancel: false }))]);
    let sentence = format!("pg 2.1 doesn't require recovery; instructing pg(s) [2.0] on {osd} to force-recovery; \n");
    check_status(&mut cluster, force("force-recovery", &[one, two]), &sentence);
    cluster.report(one).state |= pg_state::FORCED_RECOVERY;
    check_error(&mut cluster, force("force-recovery", &[one]), -22, "pg 2.0 recovery already forced; \n");
    let sentence = format!("instructing pg(s) [2.0] on {osd} to cancel-force-recovery; \n");
    check_status(&mut cluster, force("cancel-force-recovery", &[one]), &sentence);
    let absent = Asked::Force(force_asked(&mut cluster, &force("cancel-force-recovery", &[one]))).reply(&[], &[osd]);
    assert_eq!((absent.code, absent.status), (-11, format!("{osd} is not currently connected; \n")));
}

fn force_asked(cluster: &mut TestCluster, command: &serde_json::Value) -> super::force::ForceAsked {
    match cluster.outcome(&command.to_string()) {
        Outcome::Order { asked: Asked::Force(asked), .. } => asked,
        other => panic!("{other:?}"),
    }
}

#[test]
fn acting_sets_are_set_by_hand_and_groups_peer_anew() {
    let mut cluster = TestCluster::with_pools();
    let (pg, text) = (PgId::new(2, 0), "2.0");
    let temp = |osds: &[&str]| json!({"prefix": "osd pg-temp", "pgid": text, "id": osds});
    check_status(&mut cluster, temp(&["0", "1"]), "set 2.0 pg_temp mapping to [0,1]");
    assert_eq!(cluster.state.osdmap().pg_temp[&pg][..], [OsdId(0), OsdId(1)]);
    check_status(&mut cluster, json!({"prefix": "osd pg-temp", "pgid": text}), "done cleaning up pg_temp of 2.0");
    assert!(!cluster.state.osdmap().pg_temp.contains_key(&pg));
    check_error(&mut cluster, temp(&["77"]), -2, "osd.77 does not exist");
    check_error(
        &mut cluster,
        json!({"prefix": "osd pg-temp", "pgid": "9.9", "id": ["0"]}),
        -2,
        "pg 9.9 does not exist",
    );
    assert_eq!(cluster.run(temp(&["0", "0"])).code, -22);
    let lead = json!({"prefix": "osd primary-temp", "pgid": text, "id": "1"});
    check_status(&mut cluster, lead, "set 2.0 primary_temp mapping to 1");
    assert_eq!(cluster.state.osdmap().primary_temp[&pg], OsdId(1));
    let not = json!({"prefix": "osd rm-primary-temp", "pgid": text});
    check_status(&mut cluster, not, "clear 2.0 primary_temp mapping");
    let before = cluster.state.osdmap().pg_to_up_acting(pg).expect("placed");
    check_status(&mut cluster, json!({"prefix": "pg repeer", "pgid": text}), "");
    let after = cluster.state.osdmap().pg_to_up_acting(pg).expect("placed");
    assert_eq!(after.acting_primary, before.acting_primary);
    assert_eq!(after.acting.len() + 1, before.acting.len(), "one stands aside, until the primary asks for it");
    check_error(&mut cluster, json!({"prefix": "pg repeer", "pgid": "9.9"}), -2, "pg '9.9' does not exist");
}

#[test]
fn osds_are_stopped_and_marked_down() {
    let mut cluster = TestCluster::with_osds();
    let stop = |ids: &[&str]| json!({"prefix": "osd stop", "ids": ids});
    check_status(&mut cluster, stop(&["1", "77"]), "stop osd.1. osd.77 does not exist. ");
    let osd = cluster.state.osdmap().osd(OsdId(1)).expect("it exists").state;
    assert!(osd.contains(osdmap::OsdState::STOP) && !osd.contains(osdmap::OsdState::UP));
    check_status(&mut cluster, stop(&["osd.1"]), "osd.1 is already stopped. ");
}
