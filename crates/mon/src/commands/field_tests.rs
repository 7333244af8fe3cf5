//! Questions of operators' tools and habits: answers of Ceph 16.2.15 to commands that once were answered otherwise.

use super::test_cluster::{NOW, TestCluster};
use super::{Outcome, Request, SessionInfo, handle};
use crate::identity::Party;
use crate::volatile::PgStat;
use bytes::Bytes;
use osdmap::{Incremental, TempSet};
use serde_json::{Value, json};
use types::{EntityName, OsdId, PgId, Utime};
use wire::nacre::mon::{PgReport, PingReport, PingTook, pg_state};

/// Checks code and sentence of an answer.
fn check(cluster: &mut TestCluster, command: Value, code: i32, status: &str) {
    let reply = cluster.run(command.clone());
    assert_eq!((reply.code, reply.status.as_str()), (code, status), "{command}");
}

fn parsed(cluster: &mut TestCluster, mut command: Value) -> Value {
    command["format"] = json!("json");
    serde_json::from_str(&cluster.ok(command)).unwrap()
}

#[test]
fn an_osd_that_comes_in_again_has_the_weight_it_had() {
    let mut cluster = TestCluster::with_osds();
    cluster.ok(json!({"prefix": "osd reweight", "id": 0, "weight": 0.5}));
    cluster.ok(json!({"prefix": "osd out", "ids": ["0"]}));
    cluster.ok(json!({"prefix": "osd in", "ids": ["0"]}));
    assert_eq!(cluster.state.osdmap().weight(OsdId(0)), 0x8000);
    cluster.ok(json!({"prefix": "osd reweight", "id": 0, "weight": 1}));
    cluster.ok(json!({"prefix": "osd out", "ids": ["0"]}));
    cluster.ok(json!({"prefix": "osd in", "ids": ["0"]}));
    assert_eq!(cluster.state.osdmap().weight(OsdId(0)), 0x1_0000);
}

#[test]
fn pools_keep_their_kind_and_what_is_locked() {
    let mut cluster = TestCluster::with_pools();
    let set = |var: &str, val: &str| json!({"prefix": "osd pool set", "pool": "rep3", "var": var, "val": val});
    cluster.ok(set("nosizechange", "1"));
    let disabled =
        |what: &str| format!("pool {what} change is disabled; you must unset nosizechange flag for the pool first");
    check(&mut cluster, set("size", "2"), -1, &disabled("size"));
    check(&mut cluster, set("min_size", "1"), -1, &disabled("min size"));
    cluster.ok(set("nosizechange", "0"));
    cluster.ok(set("min_size", "1"));
    let create =
        |pool: &str, kind: &str| json!({"prefix": "osd pool create", "pool": pool, "pg_num": 8, "pool_type": kind});
    check(&mut cluster, create("rep3", "erasure"), -22, "pool 'rep3' cannot change to type erasure");
    check(&mut cluster, create("rep3", "replicated"), 0, "pool 'rep3' already exists");
}

#[test]
fn pools_that_are_not_scrubbed_are_named_and_settings_are_unset() {
    let mut cluster = TestCluster::with_pools();
    let set = |var: &str, val: &str| json!({"prefix": "osd pool set", "pool": "rep3", "var": var, "val": val});
    cluster.ok(set("noscrub", "1"));
    cluster.ok(set("nodeep-scrub", "1"));
    let health = crate::health::evaluate(&cluster.state, &cluster.volatile);
    let told = &health.checks["POOL_SCRUB_FLAGS"];
    assert_eq!(told.summary, "Some pool(s) have the noscrub, nodeep-scrub flag(s) set");
    assert_eq!(told.detail, ["Pool rep3 has noscrub flag", "Pool rep3 has nodeep-scrub flag"]);
    cluster.ok(set("csum_type", "crc32c"));
    check(&mut cluster, set("csum_type", "unset"), 0, "unset pool 1 csum_type");
    let get = json!({"prefix": "osd pool get", "pool": "rep3", "var": "csum_type"});
    check(&mut cluster, get, -2, "option 'csum_type' is not set on pool 'rep3'");
}

/// The tool `ceph` shows the first commands where the words fit none.
#[test]
fn commands_about_data_are_described_first() {
    let described: Value = serde_json::from_str(&super::table::descriptions()).unwrap();
    assert_eq!(described["cmd000"]["sig"][0], "pg");
}

#[test]
fn locked_out_clients_are_one_list_and_networks_another() {
    let mut cluster = TestCluster::with_osds();
    let list = |format: &str| json!({"prefix": "osd blocklist ls", "format": format});
    assert_eq!(cluster.ok(list("json")), "[]");
    cluster.ok(json!({"prefix": "osd blocklist", "blocklistop": "add", "addr": "10.1.2.3"}));
    let one = parsed(&mut cluster, json!({"prefix": "osd blocklist ls"}));
    assert_eq!(one[0]["addr"], "10.1.2.3:0/0");
    let range = json!({"prefix": "osd blocklist", "range": "range", "blocklistop": "add", "addr": "10.1.4.0/22"});
    cluster.ok(range);
    let text = cluster.ok(list("json"));
    let mut arrays = serde_json::Deserializer::from_str(&text).into_iter::<Value>().map(Result::unwrap);
    assert_eq!(arrays.next().unwrap()[0]["addr"], "10.1.2.3:0/0");
    assert_eq!(arrays.next().unwrap()[0]["range"], "10.1.4.0:0/22");
    let xml = cluster.ok(list("xml"));
    assert!(xml.starts_with("<blocklist><entry><addr>10.1.2.3:0/0</addr>"), "{xml}");
    assert!(xml.contains("</blocklist><range_blocklist><entry><range>10.1.4.0:0/22</range>"), "{xml}");
}

#[test]
fn classes_of_devices_are_printed_for_scripts() {
    let mut cluster = TestCluster::with_osds();
    let class = |ids: &[&str]| json!({"prefix": "osd crush get-device-class", "ids": ids});
    assert_eq!(cluster.ok(class(&["osd.0"])), "ssd\n");
    assert_eq!(cluster.ok(class(&["osd.0", "osd.2"])), "osd.0 ssd\nosd.2 \n");
    assert_eq!(cluster.ok(class(&["77"])), "\n");
    check(&mut cluster, class(&["x"]), -22, "unable to parse osd id:'x'");
}

#[test]
fn flags_are_for_osds_buckets_and_classes() {
    let mut cluster = TestCluster::with_osds();
    check(
        &mut cluster,
        json!({"prefix": "osd add-noout", "ids": ["host1", "osd.0", "ssd", "77"]}),
        0,
        "osd.77 does not exist. ",
    );
    let dump = parsed(&mut cluster, json!({"prefix": "osd dump"}));
    assert_eq!(dump["crush_node_flags"], json!({"host1": ["noout"]}));
    assert_eq!(dump["device_class_flags"], json!({"ssd": ["noout"]}));
    assert_eq!(dump["osds"][0]["state"], json!(["exists", "noout", "up"]));
    let unknown = "unable to parse osd id or crush node or device class: \"nope\". ";
    check(&mut cluster, json!({"prefix": "osd rm-noout", "ids": ["host1", "nope"]}), -22, unknown);
    check(&mut cluster, json!({"prefix": "osd rm-noout", "ids": ["host1", "osd.0", "ssd"]}), 0, "");
    let dump = parsed(&mut cluster, json!({"prefix": "osd dump"}));
    assert_eq!(dump["crush_node_flags"], json!({}));
    let group = |who: &str| json!({"prefix": "osd set-group", "flags": "noup", "who": [who]});
    check(&mut cluster, group("osd.77"), 0, "osd.77 does not exist. ");
}

#[test]
fn the_same_crush_map_is_a_new_version() {
    let mut cluster = TestCluster::with_osds();
    let map = wire::Encode::to_vec(cluster.state.osdmap().crush.as_ref(), wire::Target::PACIFIC);
    let version = cluster.state.osdmap().crush_version;
    let set = json!({"prefix": "osd setcrushmap", "prior_version": version});
    assert_eq!(cluster.run_with(set.clone(), map.clone()).status, (version + 1).to_string());
    assert_eq!(cluster.state.osdmap().crush_version, version + 1);
    assert_eq!(cluster.run_with(set, map).status, (version + 1).to_string(), "a repeated request is answered alike");
}

/// Six OSDs, two in each of three racks; each group has a copy in each rack.
#[test]
fn as_many_osds_may_stop_as_groups_bear() {
    let mut cluster = TestCluster::with_pools();
    let bear = |max: i64, ids: &[&str]| json!({"prefix": "osd ok-to-stop", "ids": ids, "max": max});
    // Groups of three copies bear the loss of one, and those of two copies of none that both are on.
    let one = parsed(&mut cluster, bear(20, &["0"]));
    assert_eq!((&one["ok_to_stop"], &one["osds"]), (&json!(true), &json!([0])), "{one}");
    for pg in cluster.volatile.pgs.values_mut() {
        pg.report.acting = vec![OsdId(2), OsdId(2), OsdId(2)];
    }
    let two = parsed(&mut cluster, bear(2, &["0"]));
    assert_eq!(two["osds"], json!([0, 1]), "nothing is on these two");
    let as_many = parsed(&mut cluster, bear(20, &["0"]));
    assert_eq!(as_many["osds"], json!([0, 1]));
    assert_eq!(parsed(&mut cluster, bear(0, &["0"]))["osds"], json!([0]));
}

#[test]
fn formats_that_are_not_known_are_plain_and_xml_is_printed() {
    let mut cluster = TestCluster::with_osds();
    let ls = |format: &str| json!({"prefix": "osd ls", "format": format});
    assert_eq!(cluster.ok(ls("xml")), "<osds><osd>0</osd><osd>1</osd><osd>2</osd></osds>");
    assert_eq!(cluster.ok(ls("xml-pretty")), "<osds>\n <osd>0</osd>\n <osd>1</osd>\n <osd>2</osd>\n</osds>\n\n");
    assert_eq!(cluster.ok(ls("yaml")), cluster.ok(ls("plain")));
}

#[test]
fn modules_are_enabled_and_disabled_by_name() {
    let mut cluster = TestCluster::with_osds();
    let module = |what: &str, name: &str, force: bool| json!({"prefix": format!("mgr module {what}"), "module": name, "force": force});
    let enabled =
        |cluster: &mut TestCluster| parsed(cluster, json!({"prefix": "mgr module ls"}))["enabled_modules"].clone();
    assert_eq!(enabled(&mut cluster), json!(["iostat", "nfs", "restful"]));
    check(&mut cluster, module("enable", "prometheus", false), 0, "");
    let unknown = "all mgr daemons do not support module 'rook', pass --force to force enablement";
    check(&mut cluster, module("enable", "rook", false), -2, unknown);
    check(&mut cluster, module("enable", "rook", true), 0, "");
    assert_eq!(enabled(&mut cluster), json!(["iostat", "nfs", "prometheus", "restful", "rook"]));
    check(&mut cluster, module("enable", "iostat", false), 0, "module 'iostat' is already enabled");
    check(&mut cluster, module("enable", "balancer", false), 0, "module 'balancer' is already enabled (always-on)");
    check(&mut cluster, module("disable", "balancer", false), -22, "module 'balancer' cannot be disabled (always-on)");
    check(&mut cluster, module("disable", "prometheus", false), 0, "");
    check(&mut cluster, module("disable", "prometheus", false), 0, "module 'prometheus' is already disabled");
    check(&mut cluster, module("disable", "rook", false), 0, "");
    assert_eq!(enabled(&mut cluster), json!(["iostat", "nfs", "restful"]));
    let dump = parsed(&mut cluster, json!({"prefix": "mgr dump"}));
    assert!(dump["always_on_modules"]["pacific"].as_array().unwrap().contains(&json!("rbd_support")));
}

#[test]
fn the_number_of_groups_is_left_alone_everywhere_at_once() {
    let mut cluster = TestCluster::with_pools();
    let of = |what: &str| json!({"prefix": format!("osd pool {what} noautoscale")});
    check(&mut cluster, of("get"), 0, "noautoscale is off");
    check(&mut cluster, of("unset"), 0, "noautoscale is already unset!");
    check(&mut cluster, of("set"), 0, "noautoscale is set, all pools now have autoscale off");
    check(&mut cluster, of("get"), 0, "noautoscale is on");
    check(&mut cluster, of("unset"), 0, "noautoscale is unset, all pools now have autoscale on");
    let modes = |cluster: &TestCluster| -> Vec<&str> {
        cluster.state.osdmap().pools.values().map(|pool| pool.autoscale_mode.name()).collect()
    };
    assert_eq!(modes(&cluster), ["on", "on"]);
    cluster.ok(json!({"prefix": "osd pool create", "pool": "new", "pg_num": 8}));
    cluster.ok(of("set"));
    assert_eq!(modes(&cluster), ["off", "off", "off"]);
}

#[test]
fn progress_is_shown_until_it_is_switched_off() {
    let mut cluster = TestCluster::with_osds();
    check(&mut cluster, json!({"prefix": "progress off"}), 0, "progress disabled");
    check(&mut cluster, json!({"prefix": "progress off"}), 0, "progress already disabled!");
    check(&mut cluster, json!({"prefix": "progress on"}), 0, "progress enabled");
    check(&mut cluster, json!({"prefix": "progress clear"}), 0, "");
}

fn report(id: &str, at: Utime) -> String {
    json!({
        "crash_id": id, "timestamp": at.to_string(), "entity_name": "client.demo", "utsname_hostname": "h1",
        "backtrace": ["a"],
    })
    .to_string()
}

#[test]
fn many_weights_are_given_in_cephs_form() {
    let mut cluster = TestCluster::with_osds();
    let command = |weights: &str| json!({"prefix": "osd reweightn", "weights": weights});
    for weights in ["{'0': '32768', '1': '65536'}", "{\"0\":\"32768\"}", "{\"0\": 32768}"] {
        cluster.ok(json!({"prefix": "osd reweight", "id": 0, "weight": 1.0}));
        cluster.ok(command(weights));
        assert_eq!(cluster.state.osdmap().weight(types::OsdId(0)), 0x8000, "{weights}");
    }
    for weights in ["nothing", "[1]", "{\"0\": \"x\"}", "{\"0\": \"65537\"}", "{\"0\": -1}"] {
        check(&mut cluster, command(weights), -22, &format!("unable to parse 'weights' value '{weights}'"));
    }
    check(&mut cluster, command("{'77': '1'}"), -2, "unable to parse 'weights' value '{'77': '1'}'");
}

#[test]
fn crashes_are_kept_listed_archived_and_removed() {
    let mut cluster = TestCluster::with_osds();
    let crash = |what: &str| json!({"prefix": format!("crash {what}")});
    let of = |what: &str, id: &str| json!({"prefix": format!("crash {what}"), "id": id});
    let alarm = |cluster: &TestCluster| {
        let health = crate::health::evaluate(&cluster.state, &cluster.volatile);
        health.checks.get("RECENT_CRASH").map(|check| (check.summary.clone(), check.detail.clone()))
    };
    assert_eq!(parsed(&mut cluster, crash("ls")), json!([]));
    check(&mut cluster, of("info", "nothing"), 22, "crash info: nothing not found");
    for (input, why) in [("junk", "malformed"), ("{\"a\": 1}", "missing 'crash_id' field"), ("[]", "malformed")] {
        let reply = cluster.run_with(crash("post"), input);
        assert!(reply.code == 22 && reply.status.contains(why), "{}", reply.status);
    }
    let old = Utime { sec: NOW.sec - 20 * 86_400, nsec: 0 };
    let recent = Utime { sec: NOW.sec - 3600, nsec: 0 };
    for (id, at) in [("old", old), ("recent", recent), ("recent", recent)] {
        assert_eq!(cluster.run_with(crash("post"), report(id, at)).code, 0);
    }
    let (summary, detail) = alarm(&cluster).unwrap();
    assert_eq!(summary, "1 daemons have recently crashed");
    assert_eq!(detail, [format!("client.demo crashed on host h1 at {recent}")]);
    let table = cluster.ok(crash("ls"));
    assert!(table.starts_with("ID      ENTITY       NEW\nold     client.demo   * \n"), "{table}");
    assert_eq!(cluster.ok(crash("stat")).lines().next(), Some("2 crashes recorded"));
    for (hours, told) in [("2", "{\"unknown\":1}"), ("480", "{\"unknown\":2}"), ("0", "{}")] {
        check(&mut cluster, json!({"prefix": "crash json_report", "hours": hours}), 0, told);
    }
    assert_eq!(cluster.run(json!({"prefix": "crash json_report", "hours": "x"})).code, 22);
    assert_eq!(parsed(&mut cluster, of("info", "old"))["utsname_hostname"], "h1");
    cluster.ok(of("archive", "old"));
    assert_eq!(parsed(&mut cluster, crash("ls-new")).as_array().unwrap().len(), 1);
    cluster.ok(crash("archive-all"));
    assert_eq!(alarm(&cluster), None);
    assert_eq!(parsed(&mut cluster, crash("ls-new")), json!([]));
    assert_eq!(cluster.run(json!({"prefix": "crash prune", "keep": "x"})).code, 22);
    cluster.ok(json!({"prefix": "crash prune", "keep": "7"}));
    assert_eq!(parsed(&mut cluster, crash("ls")).as_array().unwrap().len(), 1);
    cluster.ok(of("rm", "recent"));
    assert_eq!(parsed(&mut cluster, crash("ls")), json!([]));
}

#[test]
fn what_is_not_here_is_said_as_on_a_ceph_without_it() {
    let mut cluster = TestCluster::with_osds();
    let none = "No orchestrator configured (try `ceph orch set backend`)";
    for orch in ["orch ls", "orch ps", "orch status"] {
        check(&mut cluster, json!({"prefix": orch}), -2, none);
    }
    for of_a_device in ["device info", "device get-health-metrics"] {
        check(&mut cluster, json!({"prefix": of_a_device, "devid": "x"}), -2, "device x not found");
    }
    assert_eq!(parsed(&mut cluster, json!({"prefix": "device ls-lights"})), json!({"fault": [], "ident": []}));
    assert_eq!(parsed(&mut cluster, json!({"prefix": "telemetry status"}))["enabled"], false);
    for what in ["telemetry show", "telemetry show-all", "telemetry show-device"] {
        assert_eq!(parsed(&mut cluster, json!({"prefix": what})), json!({}), "{what}");
    }
    let sentence = "nothing is reported to others, and there is no way to have it reported";
    check(&mut cluster, json!({"prefix": "telemetry send"}), -95, sentence);
    for pool in ["a", "b"] {
        let unknown = format!("unrecognized pool '{pool}'");
        check(&mut cluster, json!({"prefix": "osd tier rm", "pool": pool, "tierpool": pool}), -2, &unknown);
        assert_eq!(cluster.run(json!({"prefix": "osd pool create", "pool": pool})).code, 0);
    }
    let no_tiers = "there are no cache tiers: every pool is read and written itself";
    for (word, more) in [
        ("add", json!({"tierpool": "b"})),
        ("add-cache", json!({"tierpool": "b", "size": 1000})),
        ("cache-mode", json!({"mode": "writeback"})),
        ("remove", json!({"tierpool": "b"})),
        ("rm", json!({"tierpool": "b"})),
        ("remove-overlay", json!({})),
        ("rm-overlay", json!({})),
        ("set-overlay", json!({"overlaypool": "b"})),
    ] {
        let mut command = more;
        command["prefix"] = json!(format!("osd tier {word}"));
        command["pool"] = json!("a");
        check(&mut cluster, command, -95, no_tiers);
    }
    let insights = cluster.run(json!({"prefix": "insights"}));
    assert!(insights.code == -95 && insights.status.starts_with("Module 'insights' is not enabled"), "{insights:?}");
    let history = "Module 'prometheus' is not enabled/loaded (required by command 'healthcheck history ls'): use `ceph mgr \
                   module enable prometheus` to enable it";
    check(&mut cluster, json!({"prefix": "healthcheck history ls"}), -95, history);
    let backend = json!({"prefix": "orch set backend", "module_name": "nothing"});
    check(&mut cluster, backend, -22, "Module 'nothing' not found");
    check(&mut cluster, json!({"prefix": "orch set backend", "module_name": ""}), 0, "");
    let classic = "You cannot disallow monitors in your current election mode";
    check(&mut cluster, json!({"prefix": "mon add disallowed_leader", "name": "a"}), -22, classic);
    check(&mut cluster, json!({"prefix": "mon rm disallowed_leader", "name": "a"}), -22, classic);
    assert_eq!(parsed(&mut cluster, json!({"prefix": "mds versions"})), json!({}));
    check(&mut cluster, json!({"prefix": "fs get", "fs_name": "x"}), -2, "filesystem 'x' not found");
    check(&mut cluster, json!({"prefix": "mds ok-to-stop", "ids": ["a", "b"]}), 0, "should be safe to stop [a,b]");
    let compat = "compat={},rocompat={},incompat={1=base v0.20,2=client writeable ranges,3=default file layouts on dirs,\
                  4=dir inode in separate object,5=mds uses versioned encoding,6=dirfrag is stored in omap,8=no anchor \
                  table,9=file layout v2,10=snaprealm v2}\n";
    assert_eq!(cluster.ok(json!({"prefix": "mds compat show"})), compat);
    assert!(cluster.ok(json!({"prefix": "fs dump"})).contains(&format!("\ndefault compat: {compat}legacy")));
    assert!(cluster.ok(json!({"prefix": "fs feature ls"})).ends_with("\n17 op_getvxattr\n18 32bits_retry_fwd\n"));
    check(&mut cluster, json!({"prefix": "fs dump"}), 0, "dumped fsmap epoch 1");
}

/// Asks as somebody else than the tests usually do.
fn ask(cluster: &TestCluster, command: &str, tell: bool, to_manager: bool, sessions: &[SessionInfo]) -> super::Reply {
    let who = Party::claimed(&Default::default());
    let request = Request {
        command,
        input: Bytes::new(),
        from: EntityName::client(4123),
        who: &who,
        tell,
        to_manager,
        sessions,
        now: NOW,
        random: [9; 32],
    };
    match handle(&cluster.state, &cluster.volatile, &request) {
        Outcome::Reply(reply) => reply,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_unknown_command_is_refused_by_who_was_asked() {
    let cluster = TestCluster::with_osds();
    let unknown = r#"{"prefix": "rbd no such task"}"#;
    assert_eq!(ask(&cluster, unknown, false, false, &[]).status, "command not known");
    assert_eq!(ask(&cluster, unknown, false, true, &[]).status, "No handler found for 'rbd no such task'");
}

#[test]
fn who_is_connected_is_told_and_counted() {
    let cluster = TestCluster::with_osds();
    let session = |id: u64, features: u64| SessionInfo {
        name: EntityName::client(id),
        entity: "client.admin".to_owned(),
        addrs: wire::EntityAddrVec::msgr2("10.0.0.1:0".parse().unwrap(), 7),
        features,
        global_id: id,
        host: "h1".to_owned(),
        osd_epoch: 3,
        caps: "allow r".to_owned(),
        is_proven: id == 4,
    };
    let new = wire::codec::features::PACIFIC;
    let sessions = [session(4, new), session(5, new), session(6, 1 << 20)];
    let features = ask(&cluster, r#"{"prefix": "features", "format": "json"}"#, false, false, &sessions);
    let features: Value = serde_json::from_slice(&features.output).unwrap();
    assert_eq!(features["client"][0], json!({"features": "0x100000", "release": "jewel", "num": 1}));
    assert_eq!(features["client"][1]["num"], 2);
    let listed = ask(&cluster, r#"{"prefix": "sessions", "format": "json"}"#, true, false, &sessions);
    let listed: Value = serde_json::from_slice(&listed.output).unwrap();
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["name"]), (3, &json!("client.4")));
    assert_eq!((&listed[0]["caps"]["text"], &listed[0]["global_id_status"]), (&json!("allow r"), &json!("new_ok")));
    assert_eq!(listed[1]["global_id_status"], "none");
    assert_eq!(listed[0]["addrs"]["addrvec"][0], json!({"type": "v2", "addr": "10.0.0.1:0", "nonce": 7}));
    assert_eq!(ask(&cluster, r#"{"prefix": "sessions"}"#, false, false, &sessions).code, -22);
}

#[test]
fn space_in_use_is_that_of_the_copies_that_are_shown() {
    let mut cluster = TestCluster::with_pools();
    let used = |cluster: &mut TestCluster| {
        let pools = parsed(cluster, json!({"prefix": "df"}))["pools"].clone();
        pools.as_array().unwrap().iter().map(|pool| pool["stats"]["bytes_used"].clone()).collect::<Vec<_>>()
    };
    let before = used(&mut cluster);
    assert_eq!(before, [json!(24_000_000), json!(8_000_000)], "8 groups of 3 copies, 4 of 2, 1 MB each");
    for pg in cluster.volatile.pgs.values_mut() {
        pg.report.acting.push(OsdId(7));
    }
    assert_eq!(used(&mut cluster), before, "members beside them are about to go, or to take others' places");
}

#[test]
fn reports_have_a_checksum_and_the_numbers_of_statistics() {
    let mut cluster = TestCluster::with_pools();
    for format in ["json", "json-pretty"] {
        let reply = cluster.run(json!({"prefix": "report", "format": format}));
        let checksum = types::crc32c::update(6789, &reply.output);
        assert_eq!((reply.code, reply.status), (0, format!("report {checksum}")));
    }
    assert_eq!(parsed(&mut cluster, json!({"prefix": "osd last-stat-seq", "id": 77})), json!(0));
    let last = parsed(&mut cluster, json!({"prefix": "osd last-stat-seq", "id": 1}));
    assert_eq!(last, json!(u64::from(NOW.sec) * 1000));
    let dump = parsed(&mut cluster, json!({"prefix": "pg dump", "dumpcontents": ["osds"]}));
    let report = parsed(&mut cluster, json!({"prefix": "report"}));
    for stats in [&dump["osd_stats"], &report["osd_stats"]] {
        let of_one = stats.as_array().unwrap().iter().find(|osd| osd["osd"] == 1).unwrap();
        assert_eq!(of_one["seq"], last, "{of_one}");
    }
}

#[test]
fn lines_of_the_log_have_the_name_of_who_wrote_them() {
    let mut cluster = TestCluster::with_osds();
    cluster.who = Party::claimed(&wire::basic::AuthName::new(types::EntityType::CLIENT, "admin"));
    cluster.ok(json!({"prefix": "log", "logtext": ["hello", "world"]}));
    let last = parsed(&mut cluster, json!({"prefix": "log last", "num": 1}));
    assert_eq!((&last[0]["name"], &last[0]["message"]), (&json!("client.admin"), &json!("hello world")));
    let line = cluster.ok(json!({"prefix": "log last", "num": 1}));
    assert!(line.contains(" client.admin (client.4123) 1 : cluster [INF] hello world"), "{line}");
}

/// A group of copies that moves and keeps a further member, and a coded one whose shards are in another order.
#[test]
fn groups_for_which_others_stand_in_are_told_alike() {
    let mut cluster = TestCluster::with_pools();
    let profile = ["k=2", "m=1", "crush-failure-domain=osd"];
    cluster.ok(json!({"prefix": "osd erasure-code-profile set", "name": "e", "profile": profile}));
    cluster.ok(json!({
        "prefix": "osd pool create", "pool": "e", "pg_num": 2, "pool_type": "erasure", "erasure_code_profile": "e",
    }));
    let told = |cluster: &mut TestCluster| {
        let stat = parsed(cluster, json!({"prefix": "osd stat"}));
        let status = parsed(cluster, json!({"prefix": "status"}));
        let temps = parsed(cluster, json!({"prefix": "osd dump"}))["pg_temp"].as_array().unwrap().len();
        let listed = parsed(cluster, json!({"prefix": "pg ls", "states": ["remapped"]}));
        let listed = listed["pg_stats"].as_array().unwrap().len();
        let number = |value: &Value| value.as_u64().unwrap() as usize;
        [number(&stat["num_remapped_pgs"]), number(&status["osdmap"]["num_remapped_pgs"]), temps, listed]
    };
    assert_eq!(told(&mut cluster), [0; 4]);
    let (copies, coded) = (PgId::new(2, 1), PgId::new(3, 0));
    let mut shards = cluster.state.osdmap().pg_to_up_acting(coded).unwrap().up;
    assert_eq!(shards.len(), 3);
    shards.swap(0, 1);
    let mut incremental = Incremental::after(cluster.state.osdmap(), NOW);
    let up = cluster.state.osdmap().pg_to_up_acting(copies).unwrap().up;
    let further = (0..3).map(OsdId).find(|osd| !up.contains(osd)).unwrap();
    incremental.new_pg_temp.insert(copies, TempSet::showing([up.as_slice(), &[further]].concat(), 2));
    incremental.new_pg_temp.insert(coded, shards.into());
    let update = cluster.state.osd_update(incremental).unwrap();
    cluster.apply(vec![update]);
    for (pgid, state) in [(copies, pg_state::ACTIVE), (coded, pg_state::ACTIVE | pg_state::CLEAN)] {
        let placed = cluster.state.osdmap().pg_to_up_acting(pgid).unwrap();
        let state = state | pg_state::REMAPPED;
        let report = PgReport { pgid, state, up: placed.up, acting: placed.acting, ..PgReport::default() };
        cluster.volatile.pgs.insert(pgid, PgStat { report, ..PgStat::default() });
    }
    assert_eq!(told(&mut cluster), [2; 4]);
}

#[test]
fn the_time_that_osds_take_to_answer_each_other_is_shown_by_network() {
    let mut cluster = TestCluster::with_osds();
    let took = |us| PingTook { average_us: us, least_us: us - 1, most_us: us + 1 };
    let ping = |osd, is_front, us| PingReport {
        osd: OsdId(osd),
        is_front,
        one: took(us),
        five: took(us + 10),
        fifteen: took(us + 20),
        last_us: 5,
        answered_at: types::Utime { sec: 1_795_812_800, nsec: 0 },
    };
    cluster.volatile.pings.insert(OsdId(1), vec![ping(2, true, 2000), ping(0, false, 300), ping(2, false, 1000)]);
    let dump = parsed(&mut cluster, json!({"prefix": "pg dump", "dumpcontents": ["osds"]}));
    let of_osd = |osd: i32| dump["osd_stats"].as_array().unwrap().iter().find(|stat| stat["osd"] == osd).unwrap();
    assert_eq!(of_osd(0)["network_ping_times"], json!([]));
    let times = &of_osd(1)["network_ping_times"];
    let back = json!({
        "interface": "back",
        "average": {"1min": 0.3, "5min": 0.31, "15min": 0.32},
        "min": {"1min": 0.299, "5min": 0.309, "15min": 0.319},
        "max": {"1min": 0.301, "5min": 0.311, "15min": 0.321},
        "last": 0.005,
    });
    assert_eq!(times[0], json!({"osd": 0, "last update": "Fri Nov 27 20:53:20 2026", "interfaces": [back]}));
    let networks: Vec<&Value> = times[1]["interfaces"].as_array().unwrap().iter().map(|at| &at["interface"]).collect();
    assert_eq!((&times[1]["osd"], networks), (&json!(2), vec![&json!("back"), &json!("front")]));
}
