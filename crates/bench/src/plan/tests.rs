use serde_json::{Value, json};

use super::*;

fn good() -> Value {
    json!({
        "version": 1, "name": "mixed", "seed": 9,
        "clusters": [{"name": "a", "engine": "nacre", "configuration": "a/ceph.conf"}],
        "pools": [{"name": "r3", "redundancy": {"replicated": {"size": 3}}, "pg_count": 64},
                  {"name": "ec", "redundancy": {"erasure": {"k": 4, "m": 2}}, "pg_count": 32}],
        "workloads": [{
            "name": "w", "pool": "r3", "stop": {"steady": {"round_s": 5}},
            "groups": [
                {"name": "readers", "object_bytes": 262144, "objects": 1000, "operations": {"random_read": 100},
                 "instances": 60, "load": {"closed": {"queue_depth": 16}}},
                {"name": "mixed", "object_bytes": 4194304, "io_bytes": 4096, "objects": 10,
                 "operations": {"random_read": 70, "random_write": 30}, "instances": 2,
                 "load": {"open": {"arrivals_per_s": 500.5, "spacing": "poisson", "in_flight_max": 64}}}
            ]
        }]
    })
}

#[test]
fn good_plan_survives_a_round_trip() {
    let plan = Plan::from_json(&good().to_string()).unwrap();
    assert_eq!(Plan::from_json(&plan.to_json()).unwrap(), plan);
    assert_eq!((plan.iterations, plan.confidence), (5, 0.9));
    let Stop::Steady { rules, .. } = plan.workloads[0].stop else { panic!("{:?}", plan.workloads[0].stop) };
    assert_eq!(rules, SteadyRules::default());
    let groups = &plan.workloads[0].groups;
    assert_eq!((groups[0].io_bytes(), groups[0].blocks(), groups[0].workers()), (262_144, 1000, 960));
    assert_eq!((groups[1].io_bytes(), groups[1].blocks(), groups[1].workers()), (4096, 10_240, 128));
    assert!(groups[0].prefill() && groups[1].prefill());
}

#[test]
fn pools_may_be_there_already() {
    let mut plan = good();
    plan["pools"][0] = json!({"name": "r3"});
    let plan = Plan::from_json(&plan.to_string()).unwrap();
    assert_eq!(plan.pool("r3").unwrap().to_make(), None);
    assert_eq!(plan.pool("ec").unwrap().to_make(), Some((Redundancy::Erasure { k: 4, m: 2 }, 32)));
    assert_eq!(Plan::from_json(&plan.to_json()).unwrap(), plan);
}

/// Sets the value at JSON pointer `at` and expects a refusal that names `field` and contains `words`.
fn check(at: &str, value: Value, field: &str, words: &str) {
    let mut plan = good();
    let (parent, key) = at.rsplit_once('/').unwrap();
    let parent = plan.pointer_mut(parent).unwrap();
    match parent {
        Value::Array(items) => items[key.parse::<usize>().unwrap()] = value,
        _ => parent[key] = value,
    }
    let error = Plan::from_json(&plan.to_string()).unwrap_err();
    assert_eq!(error.field(), field, "{error}");
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn wrong_forms_name_their_field() {
    let group = "/workloads/0/groups/1";
    check("/sede", json!(1), "sede", "unknown field `sede`");
    check("/seed", json!("x"), "seed", "invalid type");
    check("/seed", json!(-1), "seed", "invalid value");
    check("/workloads/0/stop", json!({"durations": 1}), "workloads[0].stop", "unknown variant `durations`");
    check(&format!("{group}/operations/reed"), json!(1), "workloads[0].groups[1].operations.reed", "unknown field");
    check(&format!("{group}/load/open/spacing"), json!("x"), "workloads[0].groups[1].load.open.spacing", "constant");
    check("/clusters/0/engine", json!("minio"), "clusters[0].engine", "unknown variant `minio`");
    check("/version", json!(2), "version", "this release reads version 1");
    let error = Plan::from_json("{").unwrap_err();
    assert!(error.to_string().contains("EOF"), "{error}");
    assert!(Plan::from_json(&format!("{} x", good())).unwrap_err().to_string().contains("trailing"));
}

#[test]
fn wrong_values_name_their_field() {
    let (at, path) = ("/workloads/0/groups/1", "workloads[0].groups[1]");
    let group = |name: &str, value: Value, field: &str, words: &str| {
        check(&format!("{at}/{name}"), value, &format!("{path}.{field}"), words);
    };
    group("object_bytes", json!(2048), "object_bytes", "not within 4096 to 67108864");
    group("object_bytes", json!(5000), "object_bytes", "multiple of 4096");
    group("io_bytes", json!(0), "io_bytes", "not within");
    group("io_bytes", json!(12288), "io_bytes", "divides");
    group("objects", json!(0), "objects", "not within");
    group("objects", json!(u64::MAX), "objects", "not within");
    group("objects", json!(1 << 28), "objects", "at most 268435456");
    group("io_bytes", json!(4_194_304), "objects", "fewer than 128 workers");
    group("operations/random_read", json!(60), "operations", "add up to 90");
    group("instances", json!(0), "instances", "not within 1");
    group("instances", json!(4096), "instances", "workers");
    group("load/open/arrivals_per_s", json!(0), "load.open.arrivals_per_s", "not within");
    group("load/open/in_flight_max", json!(0), "load.open.in_flight_max", "not within");
    group("prefill", json!(false), "prefill", "nothing to read");
    group("name", json!("readers"), "name", "twice");
    check("/workloads/0/pool", json!("r2"), "workloads[0].pool", "no pool \"r2\"");
    check("/workloads/0/warm_up_s", json!(-1), "workloads[0].warm_up_s", "not within");
    check("/workloads/0/stop", json!({"duration_s": 0}), "workloads[0].stop.duration_s", "not within");
    let rules = json!({"steady": {"round_s": 1, "rules": {"window": 30}}});
    check("/workloads/0/stop", rules, "workloads[0].stop.steady.rules.rounds_max", "not within 30");
    check("/pools/0/pg_count", json!(48), "pools[0].pg_count", "power of two");
    check("/pools/1/redundancy/erasure/k", json!(1), "pools[1].redundancy.erasure.k", "not within 2");
    check("/pools/0", json!({"name": "r3", "pg_count": 8}), "pools[0].redundancy", "is missing");
    let no_groups = json!({"name": "r3", "redundancy": {"replicated": {"size": 3}}});
    check("/pools/0", no_groups, "pools[0].pg_count", "is missing");
    check("/clusters", json!([]), "clusters", "is empty");
    check("/clusters/0/name", json!("a b"), "clusters[0].name", "letters");
    check("/clusters/0/configuration", json!(""), "clusters[0].configuration", "empty");
    check("/iterations", json!(0), "iterations", "not within");
    check("/confidence", json!(1), "confidence", "not within");
}
