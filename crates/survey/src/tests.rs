//! Surveys of clusters whose answers are written by hand, and of a recorded Ceph.

use bench::hops::OpHops;
use serde_json::{Value, json};

use crate::answers::Answers;
use crate::cluster::Protection;
use crate::{Measured, Survey};

/// Six OSDs on three hosts with a pool of three copies, all well.
fn healthy() -> Answers {
    let osd = |id: i64| json!({"osd": id, "up": 1, "in": 1});
    let usage = |id: i64| json!({"id": id, "kb": 1_000_000_000u64, "kb_used": 300_000_000u64, "pgs": 96});
    let perf = |id: i64| json!({"id": id, "perf_stats": {"commit_latency_ms": 1, "commit_latency_ns": 900_000}});
    let metadata = |id: i64| json!({"id": id, "devices": "nvme0n1", "rotational": "0"});
    let each = |of: &dyn Fn(i64) -> Value| (0..6).map(of).collect::<Vec<_>>();
    let host = |number: i64| {
        json!({"id": -2 - number, "type": "host", "name": format!("host{number}"),
               "children": [2 * number, 2 * number + 1]})
    };
    Answers {
        status: json!({"fsid": "f", "health": {"status": "HEALTH_OK", "checks": {}},
            "monmap": {"num_mons": 3}, "quorum": [0, 1, 2],
            "pgmap": {"read_bytes_sec": 1000, "write_bytes_sec": 2000, "read_op_per_sec": 1, "write_op_per_sec": 2}}),
        df: json!({"stats": {"total_bytes": 6_144_000_000_000u64, "total_used_raw_bytes": 1_843_200_000_000u64},
            "pools": [{"name": "p", "stats": {"stored": 614_400_000_000u64, "objects": 150_000,
                                              "max_avail": 1_300_000_000_000u64}}]}),
        osd_df: json!({"nodes": each(&usage)}),
        osd_dump: json!({"full_ratio": 0.95, "nearfull_ratio": 0.85, "flags": "sortbitwise,recovery_deletes",
            "osds": each(&osd), "erasure_code_profiles": {"k4": {"k": "4", "m": "2"}},
            "pools": [{"pool_name": "p", "type": 1, "size": 3, "min_size": 2, "pg_num": 192, "crush_rule": 0}]}),
        osd_tree: json!({"nodes": [host(0), host(1), host(2)]}),
        osd_perf: json!({"osdstats": {"osd_perf_infos": each(&perf)}}),
        osd_metadata: Value::Array(each(&metadata)),
        crush_rules: json!([{"rule_id": 0, "steps": [{"op": "take"}, {"op": "chooseleaf_firstn", "type": "host"},
                                                      {"op": "emit"}]}]),
        versions: json!({"overall": {"ceph version 16.2.15": 10}}),
        ..Answers::default()
    }
}

fn ids(answers: &Answers) -> Vec<&'static str> {
    Survey::of(answers, vec![]).advice.iter().map(|one| one.id).collect()
}

#[test]
fn a_cluster_that_is_well_gets_no_advice() {
    let survey = Survey::of(&healthy(), vec![]);
    assert_eq!(survey.advice, []);
    let cluster = &survey.cluster;
    assert_eq!((cluster.osds.len(), cluster.hosts().len(), cluster.monitors_in_quorum), (6, 3, 3));
    assert_eq!(cluster.osds[3].host, "host1");
    assert_eq!(cluster.osds[3].commit_ms, Some(0.9));
    assert_eq!(
        (cluster.pools[0].failure_domain.as_str(), cluster.pools[0].protection),
        ("host", Protection::Copies(3))
    );
    assert!(cluster.flags.is_empty(), "{:?}", cluster.flags);
    let risk = &survey.risk;
    assert!((risk.fill.unwrap() - 0.3).abs() < 1e-9 && (risk.imbalance.unwrap() - 1.0).abs() < 1e-9);
    // Two of six OSDs are lost: their share comes upon the other four.
    assert!((risk.fill_without_host.as_ref().unwrap().1 - 0.45).abs() < 1e-9);
    assert_eq!(risk.failures, Some(2));
}

/// A change of the answers, the rule that must come first, and words of its evidence.
type Fault = (fn(&mut Answers), &'static str, &'static str);

const FAULTS: &[Fault] = &[
    (
        |a| {
            a.osd_dump["osds"][2]["up"] = json!(0);
            a.status["pgmap"]["degraded_objects"] = json!(50);
            a.status["pgmap"]["degraded_total"] = json!(1000);
        },
        "osds-down",
        "osd.2; 5.0 % of copies are missing",
    ),
    (|a| a.osd_dump["pools"][0]["size"] = json!(2), "few-copies", "p (2x)"),
    (|a| a.osd_dump["pools"][0]["min_size"] = json!(1), "min-size", "p"),
    (
        |a| {
            (0..6).for_each(|id| a.osd_df["nodes"][id]["kb_used"] = json!(840_000_000u64));
            a.osd_df["nodes"][4]["kb_used"] = json!(900_000_000u64);
        },
        "nearly-full",
        "osd.4 is 90 % full; at 95 %",
    ),
    (
        |a| (0..6).for_each(|id| a.osd_df["nodes"][id]["kb_used"] = json!(600_000_000u64)),
        "no-room-for-a-host",
        "the others would be 90 % full",
    ),
    (|a| a.status["quorum"] = json!([0, 2]), "monitors", "2 of 3"),
    (
        |a| {
            a.status["monmap"]["num_mons"] = json!(1);
            a.status["quorum"] = json!([0]);
        },
        "monitors",
        "1 of 1",
    ),
    (|a| a.crush_rules[0]["steps"][1]["type"] = json!("osd"), "failure-domain", "3 hosts: p"),
    (|a| a.osd_dump["flags"] = json!("noout,sortbitwise,nodeep-scrub"), "flags", "nodeep-scrub, noout"),
    (
        |a| a.osd_perf["osdstats"]["osd_perf_infos"][5]["perf_stats"]["commit_latency_ns"] = json!(40_000_000),
        "slow-osd",
        "osd.5 commits in 40.0 ms, the median OSD in 0.9 ms",
    ),
    (|a| a.osd_df["nodes"][1]["kb_used"] = json!(600_000_000u64), "imbalance", "osd.1 is 60 % full, 1.71 times"),
    (|a| a.osd_dump["pools"][0]["pg_num"] = json!(8), "placement-groups", "4 placement groups per OSD"),
    (|a| a.osd_dump["pools"][0]["pg_num"] = json!(1024), "placement-groups", "512 placement groups per OSD"),
    (|a| a.versions["overall"]["ceph version 17.2.0"] = json!(3), "versions", "3 of ceph version 17.2.0"),
    (
        |a| {
            let hops = vec![("queue".to_owned(), 100), ("flush".to_owned(), 900)];
            let op = OpHops { write: true, sampled: true, total_us: 1000, hops, ..OpHops::default() };
            a.operations = vec![op];
        },
        "slowest-hop",
        "90 % of the time of writes goes into 'flush'",
    ),
    (
        |a| a.status["health"]["checks"]["MON_CLOCK_SKEW"] = json!({"summary": {"message": "clock skew on mon.b"}}),
        "health",
        "MON_CLOCK_SKEW: clock skew on mon.b",
    ),
];

#[test]
fn each_fault_is_told_and_nothing_else() {
    for (change, id, evidence) in FAULTS {
        let mut answers = healthy();
        change(&mut answers);
        let advice = Survey::of(&answers, vec![]).advice;
        let [first, rest @ ..] = advice.as_slice() else { panic!("{id}: nothing is advised") };
        assert_eq!(first.id, *id, "{advice:?}");
        assert!(first.evidence.contains(evidence), "{id}: {}", first.evidence);
        // OSDs that are nearly full leave no room for a host.
        assert!(rest.iter().all(|one| *id == "nearly-full" && one.id == "no-room-for-a-host"), "{advice:?}");
    }
}

#[test]
fn a_cluster_without_data_may_have_few_groups() {
    let mut answers = healthy();
    answers.osd_dump["pools"][0]["pg_num"] = json!(1);
    assert_eq!(ids(&answers), ["placement-groups"]);
    answers.df["pools"][0]["stats"]["stored"] = json!(5_000_000_000u64);
    assert_eq!(ids(&answers), [""; 0]);
}

#[test]
fn what_loses_data_comes_first_and_three_stand_first() {
    let mut answers = healthy();
    answers.versions["overall"]["other"] = json!(1);
    answers.osd_dump["flags"] = json!("noout");
    answers.osd_dump["pools"][0]["min_size"] = json!(1);
    answers.osd_dump["osds"][0]["up"] = json!(0);
    assert_eq!(ids(&answers), ["osds-down", "min-size", "flags", "versions"]);
    let text = Survey::of(&answers, vec![]).page().to_text(100);
    let places = ["Three changes worth making", "Bring back", "Clear the flags", "Further changes", "End the upgrade"];
    let found: Vec<usize> = places.iter().map(|words| text.find(words).unwrap_or_else(|| panic!("{text}"))).collect();
    assert!(found.is_sorted(), "{text}");
}

#[test]
fn erasure_codes_count_as_they_are() {
    let mut answers = healthy();
    let pool = &mut answers.osd_dump["pools"][0];
    (pool["type"], pool["size"], pool["min_size"]) = (json!(3), json!(6), json!(5));
    (pool["erasure_code_profile"], pool["pg_num"]) = (json!("k4"), json!(128));
    let survey = Survey::of(&answers, vec![]);
    assert_eq!(survey.cluster.pools[0].protection, Protection::Erasure { k: 4, m: 2 });
    assert_eq!((survey.risk.failures, survey.advice.as_slice()), (Some(2), &[][..]));
    answers.osd_dump["pools"][0]["min_size"] = json!(4);
    assert_eq!(ids(&answers), ["min-size"]);
}

#[test]
fn a_load_gives_the_rate_of_a_rebuild() {
    let measured = Measured {
        workload: "w".into(),
        operations_per_s: 100.0,
        bytes_per_s: 4e8,
        mean_us: Some(1000.0),
        p99_us: None,
        writes: true,
        copies: 3.0,
    };
    let survey = Survey::of(&healthy(), vec![measured.clone()]);
    let rebuild = survey.risk.rebuild.clone().unwrap();
    assert_eq!((rebuild.bytes, rebuild.bytes_per_s), (307_200_000_000.0, 6e8));
    assert!((rebuild.hours - 307.2 / 0.6 / 3600.0).abs() < 1e-9);
    assert!(survey.page().to_text(120).contains("Measured for this report"));
    let reads = Measured { writes: false, ..measured };
    let published = Survey::of(&healthy(), vec![reads]).risk.rebuild.unwrap();
    assert!(published.assumed.contains("published"), "{published:?}");
    // More time to rebuild is more risk.
    assert!(published.hours > rebuild.hours && published.loss_per_year > rebuild.loss_per_year, "{published:?}");
}

#[test]
fn nothing_that_was_not_told_is_claimed() {
    let survey = Survey::of(&Answers::default(), vec![]);
    assert_eq!(survey.advice, []);
    assert_eq!((survey.risk.fill, survey.risk.rebuild.clone(), survey.risk.failures), (None, None, None));
    let text = survey.page().to_text(100);
    assert!(text.contains("do not tell their health") && !text.contains("Ceilings"), "{text}");
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    let json: Value = serde_json::from_str(&survey.to_json()).unwrap();
    assert_eq!((json["format"].as_str(), json["risk"]["fill"].clone()), (Some("nacre-survey"), Value::Null));
}

/// Answers of a Ceph 16.2.15 of three OSDs, after `rados bench` and fio.
fn recorded() -> Answers {
    let all: Value = serde_json::from_str(include_str!("fixtures/ceph-16.2.15.json")).unwrap();
    let mut answers = Answers { from_ceph: true, ..Answers::default() };
    for (prefix, place) in answers.commands() {
        *place = all[prefix].clone();
    }
    for (osd, dump) in all["dump_historic_ops"].as_array().unwrap().iter().enumerate() {
        answers.operations.extend(bench::hops::kept_by_ceph(i32::try_from(osd).unwrap(), dump).unwrap());
    }
    answers
}

#[test]
fn a_real_ceph_is_read() {
    let survey = Survey::of(&recorded(), vec![]);
    let cluster = &survey.cluster;
    assert_eq!((cluster.health.as_str(), cluster.monitors, cluster.monitors_in_quorum), ("HEALTH_OK", 1, 1));
    assert!(cluster.osds.iter().all(|osd| osd.up && osd.is_in && osd.rotates == Some(true) && osd.devices == "vda"));
    let hosts: Vec<&str> = cluster.osds.iter().map(|osd| osd.host.as_str()).collect();
    assert_eq!(hosts, ["host0", "host1", "host2"]);
    assert_eq!(cluster.osds[0].bytes, 6_291_456.0 * 1024.0);
    assert!(cluster.osds.iter().all(|osd| osd.commit_ms.is_some_and(|ms| ms > 1.0)), "{:?}", cluster.osds);
    let pool = cluster.pools.iter().find(|pool| pool.name == "p").unwrap();
    assert_eq!((pool.protection, pool.min_size, pool.pg_num), (Protection::Copies(3), 2, 32));
    assert_eq!((pool.failure_domain.as_str(), pool.objects), ("osd", 638.0));
    assert!((cluster.full - 0.95).abs() < 1e-6 && (cluster.near_full - 0.85).abs() < 1e-6);
    let advice: Vec<&str> = survey.advice.iter().map(|one| one.id).collect();
    assert_eq!(advice[..2], ["monitors", "failure-domain"], "{:?}", survey.advice);
    let kinds: Vec<&str> = survey.time.iter().map(|kind| kind.name).collect();
    assert!(!kinds.is_empty() && survey.time.iter().all(|kind| kind.of_slowest), "{kinds:?}");
    let page = survey.page();
    let html = page.to_html("");
    assert!(html.contains("Time of ") && html.contains("Fill of OSDs"));
    assert!(page.to_text(100).contains("of the slowest, as a Ceph keeps no others"));
}
