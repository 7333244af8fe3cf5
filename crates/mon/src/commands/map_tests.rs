//! Commands about placement beside the answers that Ceph 16.2.15 gave (`tests/recorded/map_commands.jsonl`; the script
//! `tests/python/map_commands.py` records them), and plans of the balancer.

use super::test_cluster::TestCluster;
use osdmap::PgMapping;
use serde_json::{Value, json};
use types::{OsdId, PgId, PoolId};

/// A cluster as the one that gave the answers: without device classes.
fn cluster() -> TestCluster {
    let mut cluster = TestCluster::with_pools();
    cluster.ok(json!({"prefix": "osd crush rm-device-class", "ids": ["0", "1"]}));
    cluster.ok(json!({"prefix": "osd crush class rm", "class": "ssd"}));
    cluster.ok(json!({"prefix": "osd pool rm", "pool": "rep2", "pool2": "rep2", "yes_i_really_really_mean_it": true}));
    let pools: Vec<PgId> = cluster.volatile.pgs.keys().filter(|pg| pg.pool != PoolId(1)).copied().collect();
    pools.iter().for_each(|pg| drop(cluster.volatile.pgs.remove(pg)));
    cluster
}

/// Returns an output as the script prints it: pools of weight sets by their names, numbers alike.
fn normal(cluster: &TestCluster, command: &Value, output: &str) -> Value {
    let Ok(mut value) = serde_json::from_str::<Value>(output) else { return json!(output) };
    if command["prefix"] == "osd crush weight-set dump" {
        let sets = std::mem::take(value.as_object_mut().unwrap());
        let name = |index: &str| {
            let pool = index.parse().ok().map(PoolId).and_then(|pool| cluster.state.osdmap().pool_name(pool));
            pool.unwrap_or(index).to_owned()
        };
        value = sets.into_iter().map(|(index, sets)| (name(&index), sets)).collect();
    }
    numbers_alike(value)
}

/// Numbers as fractions: a Ceph prints 1 where 1.0 is meant.
fn numbers_alike(value: Value) -> Value {
    match value {
        Value::Number(n) => json!(n.as_f64()),
        Value::Array(items) => items.into_iter().map(numbers_alike).collect(),
        Value::Object(fields) => fields.into_iter().map(|(key, field)| (key, numbers_alike(field))).collect(),
        other => other,
    }
}

#[test]
fn placement_is_changed_and_told_as_on_a_ceph() {
    let recorded = include_str!("../../../../tests/recorded/map_commands.jsonl");
    assert!(recorded.lines().count() > 70);
    let (mut cluster, mut wrong) = (cluster(), Vec::new());
    for line in recorded.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let command = &line["command"];
        let reply = cluster.run(command.clone());
        let output = String::from_utf8(reply.output.to_vec()).unwrap();
        let ours = (json!(reply.code), json!(reply.status), normal(&cluster, command, &output));
        // Monitors here ping each other in a way of their own.
        let said = line["output"].as_str().unwrap().replace(r#", "elector-pinging""#, "");
        let said = said.replace(",elector-pinging(128)", "").replace(",elector-pinging", "");
        let said = serde_json::from_str(&said).map_or_else(|_| json!(said), numbers_alike);
        let cephs = (line["code"].clone(), line["status"].clone(), said);
        // A Ceph says nothing of some refusals.
        let says_why = reply.code < 0 && line["status"] == "" && !reply.status.is_empty();
        let ours = if says_why { (ours.0, json!(""), ours.2) } else { ours };
        if ours != cephs {
            wrong.push(format!("{command}\n  here {ours:?}\n  Ceph {cephs:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn osds_with_more_groups_than_their_share_get_lower_weights() {
    let mut cluster = cluster();
    // 24 copies on weights of 4 in all: 6 each.
    cluster.ok(json!({"prefix": "osd crush reweight", "name": "osd.2", "weight": 2}));
    let on = [[0, 0, 0], [0, 0, 0], [0, 0, 0], [1, 1, 2], [1, 1, 2], [1, 2, 2], [2, 2, 2], [2, 2, 2]];
    for (seed, osds) in on.into_iter().enumerate() {
        cluster.report(PgId { pool: PoolId(1), seed: seed as u32 }).acting = osds.map(OsdId).into();
    }
    let test = json!({"prefix": "osd test-reweight-by-pg", "oload": 110, "max_change": 0.5, "format": "json"});
    let refused = cluster.run(test.clone());
    assert_eq!(refused.status, "Refusing to reweight: we only have 24 PGs across 3 osds!\nFAILED reweight-by-pg");
    cluster.ok(json!({"prefix": "config set", "who": "mgr", "name": "mon_reweight_min_pgs_per_osd", "value": "8"}));
    let told: Value = serde_json::from_str(&cluster.ok(test)).unwrap();
    assert_eq!((told["average_utilization"].as_f64(), told["max_change_osds"].as_u64()), (Some(6.0), Some(4)));
    // osd.0 has 9 by a weight of 1; osd.1 has 5, and may have no more than all.
    assert_eq!(told["reweights"].as_array().unwrap().len(), 1);
    assert_eq!(told["reweights"][0]["osd"], 0);
    assert_eq!(cluster.state.osdmap().weight(OsdId(0)), 0x1_0000, "that was a test");
    cluster.ok(json!({"prefix": "osd reweight-by-pg", "oload": 110, "max_change": 0.5}));
    assert_eq!(cluster.state.osdmap().weight(OsdId(0)), 0x1_0000 * 2 / 3);
    assert_eq!(cluster.state.osdmap().weight(OsdId(1)), 0x1_0000);
}

#[test]
fn pools_that_are_balanced_can_be_named() {
    let mut cluster = cluster();
    for pool in ["one", "two"] {
        cluster.ok(json!({"prefix": "osd pool create", "pool": pool}));
    }
    let named = |cluster: &mut TestCluster| cluster.ok(json!({"prefix": "balancer pool ls", "format": "json"}));
    let pools = |verb: &str, names: &[&str]| json!({"prefix": format!("balancer pool {verb}"), "pools": names});
    assert_eq!(named(&mut cluster), "");
    let unknown = cluster.run(pools("add", &["two", "nothing", "other"]));
    assert_eq!((unknown.code, unknown.status.as_str()), (-22, "pool(s) ['nothing', 'other'] not found"));
    assert_eq!(named(&mut cluster), "");
    cluster.ok(pools("add", &["two"]));
    cluster.ok(pools("add", &["one"]));
    assert_eq!(named(&mut cluster), r#"["one","two"]"#);
    cluster.ok(pools("rm", &["two", "nothing"]));
    assert_eq!(named(&mut cluster), r#"["one"]"#);
    cluster.ok(pools("rm", &["one"]));
    assert_eq!(named(&mut cluster), "");
}

#[test]
fn a_plan_is_kept_looked_at_and_carried_out() {
    let mut cluster = cluster();
    cluster.ok(json!({"prefix": "balancer off"}));
    // All copies of a pool are on two OSDs: the third one has none.
    cluster.ok(json!({"prefix": "osd pool create", "pool": "two", "pg_num": 16, "size": 2}));
    let pool = cluster.state.osdmap().pool_by_name("two").unwrap();
    for seed in 0..16 {
        let pg = PgId { pool, seed };
        let up = cluster.state.osdmap().pg_to_up_acting(pg).unwrap().up;
        if up.contains(&OsdId(2)) {
            let other = if up.contains(&OsdId(0)) { 1 } else { 0 };
            cluster.ok(json!({"prefix": "osd pg-upmap-items", "pgid": pg.to_string(), "id": [2, other]}));
        }
    }
    let plan = |verb: &str| json!({"prefix": format!("balancer {verb}"), "plan": "one"});
    let before = cluster.state.osdmap().clone();
    cluster.ok(json!({"prefix": "balancer optimize", "plan": "one", "pools": ["two"]}));
    assert_eq!(*cluster.state.osdmap(), before, "a plan changes nothing");
    assert_eq!(cluster.ok(json!({"prefix": "balancer ls", "format": "json"})), r#"["one"]"#);
    let status: Value = serde_json::from_str(&cluster.ok(json!({"prefix": "balancer status"}))).unwrap();
    assert_eq!(status["plans"], json!(["one"]));
    let dump: Value = serde_json::from_str(&cluster.ok(plan("dump"))).unwrap();
    let count = |key: &str| dump[key].as_array().unwrap().len();
    assert!(count("new_pg_upmap_items") + count("old_pg_upmap_items") > 0, "{dump}");
    let score = |cluster: &mut TestCluster, option: &str| -> f64 {
        let text = cluster.ok(json!({"prefix": "balancer eval", "option": option}));
        text.split(' ').find_map(|word| word.parse().ok()).unwrap()
    };
    let (planned, present) = (score(&mut cluster, "one"), cluster.ok(json!({"prefix": "balancer eval"})));
    assert!(planned < present.split(' ').find_map(|word| word.parse().ok()).unwrap(), "{planned}, {present}");
    cluster.ok(plan("execute"));
    let mapping = PgMapping::compute(cluster.state.osdmap());
    assert!(mapping.iter().any(|(pg, place)| pg.pool == pool && place.up.contains(&OsdId(2))));
    assert_eq!(cluster.ok(json!({"prefix": "balancer ls", "format": "json"})), "[]");
    assert_eq!(cluster.run(plan("execute")).code, -2);
}

#[test]
fn a_group_is_made_anew_only_where_nobody_can_bring_it_back() {
    use crate::Update;
    use crate::state::PgRecord;
    use types::Epoch;
    use wire::nacre::mon::pg_state;
    let mut cluster = cluster();
    let pg = PgId { pool: PoolId(1), seed: 0 };
    let create = json!({"prefix": "osd force-create-pg", "pgid": "1.0", "yes_i_really_mean_it": true});
    assert_eq!(cluster.run(create.clone()).status, "pg 1.0 now creating, ok", "it serves");
    let record = PgRecord { last_epoch_started: Epoch(3), members: vec![OsdId(0), OsdId(1)], ..PgRecord::default() };
    cluster.apply(vec![Update::PgActivated(vec![(pg, record)])]);
    cluster.report(pg).state = pg_state::DOWN;
    cluster.ok(json!({"prefix": "osd down", "ids": ["0", "1"]}));
    let refused = cluster.run(create.clone());
    assert_eq!(refused.code, -16, "{}", refused.status);
    assert!(refused.status.contains("osd.0, osd.1 may"), "{}", refused.status);
    for id in 0..2 {
        cluster.ok(json!({"prefix": "osd lost", "id": id, "yes_i_really_mean_it": true}));
    }
    assert_eq!(cluster.run(create).status, "pg 1.0 now creating, ok");
}
