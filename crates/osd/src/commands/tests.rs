//! Answers beside those of a Ceph 16.2.15.
//!
//! `fixtures/answers.jsonl` has a line per command as `ceph tell osd.0` took it: its words, the exit status, the text
//! for people, and the structure of the answer: `number`, `text` and `bool` stand for values.

use super::*;
use crate::OsdConfig;
use crate::heartbeat::{Network, Took};
use control::signature::{Kind, Signature};
use op_dump::OpDump;
use pg::hops::{OpSample, OpState, Stamp, WaitReasons};
use pg::{GroupView, PacingView, ReservationsView, ScrubView, WatchView};
use std::time::Duration;
use types::{EntityName, EntityType, Epoch, ObjectId, PoolId, ReqId, Utime};
use wire::msgr::SessionId;
use wire::nacre::mon::pg_state;

/// Parts of a Ceph's answers that are absent: caches that an OSD does not have. Running counts have an exception of
/// their own.
const ABSENT: &[&str] = &["bluestore_onode", "bluestore_buffers"];

fn op(tid: u64, began_s: u64, took_us: Option<u32>) -> OpSample {
    OpSample {
        reqid: ReqId { name: EntityName { kind: EntityType::CLIENT, num: 4 }, tid, inc: 0 },
        session: SessionId(1),
        pg: PgId::new(1, 3),
        object: b"x".to_vec(),
        what: "write 0~4096".to_owned(),
        is_write: true,
        bytes: 4096,
        result: 0,
        began: Duration::from_secs(began_s),
        whole: Stamp(10),
        started: Stamp(20),
        executed: Stamp(30),
        handed_over: Stamp(40),
        written: Stamp(50),
        durable: Stamp(60),
        lookup_us: 0,
        read_us: 0,
        waits: WaitReasons::default(),
        sampled: true,
        members: Vec::new(),
        last_member: None,
        replicated: Stamp(70),
        answered: took_us.map_or(Stamp::NEVER, Stamp),
    }
}

fn shard_facts() -> ShardFacts {
    let pgid = PgId::new(1, 3);
    let group = GroupView { pgid, is_primary: true, is_member: true, state: pg_state::ACTIVE | pg_state::CLEAN };
    let watched = ObjectId::head(PoolId(1), 3, b"", b"x");
    let watcher = EntityName { kind: EntityType::CLIENT, num: 4 };
    ShardFacts {
        usage: store::SpaceUsage { total_bytes: 1000, free_bytes: 400, ..Default::default() },
        caches: Default::default(),
        check: Default::default(),
        recovery: PacingView::default(),
        replica_reads: Default::default(),
        backoffs: Default::default(),
        ops: Default::default(),
        one_op_kept_in: 1,
        recent_ops: vec![op(1, 90, Some(80)), op(2, 95, Some(90))],
        slowest_ops: vec![op(3, 40, Some(15_000_000))],
        ops_in_flight: vec![(op(4, 60, None), OpState::WaitsForMembers), (op(5, 99, None), OpState::Queued)],
        groups: vec![group.clone(), GroupView { pgid: PgId::new(2, 1), is_primary: false, ..group }],
        reservations: (
            ReservationsView { slots: 3, held: vec![(pgid, 180)], waiting: vec![(PgId::new(1, 4), 100)] },
            ReservationsView { slots: 3, ..Default::default() },
        ),
        scrubs: vec![ScrubView { pgid, at: Duration::from_secs(5), by: Duration::from_secs(9), ordered: false }],
        scrubbing: 1,
        watches: vec![WatchView { object: watched, watcher, cookie: 7, info: Default::default() }],
        checkpoint_runs: false,
    }
}

/// A peer whose answers took so long.
fn ping(osd: OsdId, network: Network, ms: u64) -> PingView {
    let took = Duration::from_millis(ms);
    let over_minutes = [Took { average: took, least: took / 2, most: 2 * took }; 3];
    PingView { osd, network, over_minutes, last: took, age: Duration::from_secs(3) }
}

/// Hands the facts of an OSD to `with`.
fn with_facts<T>(of_shards: &ShardFacts, with: impl FnOnce(&Facts<'_>) -> T) -> T {
    let machine = [("devices".to_owned(), "vda,vdb".to_owned())].into();
    let map = OsdMap::new(Fsid([1; 16]));
    let ops = OpDump {
        whoami: OsdId(0),
        facts: of_shards,
        now: Duration::from_secs(100),
        wall: Utime::from_unix(Duration::from_secs(1_700_000_000)),
        client_addr: &|_| "127.0.0.1:0/7".to_owned(),
        history: Default::default(),
        complain_after: Duration::from_secs(30),
    };
    with(&Facts {
        whoami: OsdId(0),
        uuid: Fsid([2; 16]),
        map: &map,
        state: "active",
        oldest_map: Epoch(1),
        machine: &machine,
        shards: 1,
        of_shards,
        sessions: 2,
        client_bytes: (10, 100),
        reactor: reactor::Stats { turns: 3, ..reactor::Stats::default() },
        ops,
        pings: vec![ping(OsdId(1), Network::Back, 2), ping(OsdId(2), Network::Front, 40)],
        slow_ping: Duration::from_millis(350),
        scrubs_at_a_time: 1,
    })
}

/// Returns the command that `ceph tell` makes of words; `None` if no command begins with them.
fn command(words: &str) -> Option<Value> {
    let forms = forms().map(|form| Signature::parse(form.signature));
    let begins = |signature: &Signature| format!("{words} ").starts_with(&format!("{} ", signature.prefix));
    let signature = forms.filter(begins).max_by_key(|signature| signature.prefix.len());
    let Some(signature) = signature else {
        return groups::is_known(&json!({"prefix": words}).to_string()).then(|| json!({"prefix": words}));
    };
    let mut rest = words[signature.prefix.len()..].split_ascii_whitespace();
    let mut command = json!({"prefix": signature.prefix});
    for parameter in &signature.parameters {
        let value = match (parameter.many, parameter.kind) {
            (true, _) => json!(rest.by_ref().collect::<Vec<_>>()),
            (false, Kind::Int) => rest.next().map_or(Value::Null, |word| json!(word.parse::<i64>().unwrap())),
            (false, _) => json!(rest.next()),
        };
        command[parameter.name] = value;
    }
    Some(command)
}

/// Collects what `ceph` has and `ours` lacks, or has with another type.
fn differences(ceph: &Value, ours: &Value, at: &str, found: &mut Vec<String>) {
    match (ceph, ours) {
        (Value::Object(fields), Value::Object(own)) => {
            for (key, field) in fields {
                match own.get(key) {
                    Some(value) => differences(field, value, &format!("{at}.{key}"), found),
                    None if ABSENT.contains(&key.as_str()) => {}
                    None => found.push(format!("{at}.{key} is absent")),
                }
            }
        }
        (Value::Array(items), Value::Array(own)) => match (items.first(), own.first()) {
            (Some(item), Some(value)) => differences(item, value, &format!("{at}[0]"), found),
            (Some(_), None) if !at.ends_with(".history") => found.push(format!("{at} is empty")),
            _ => {}
        },
        (Value::String(kind), value) => {
            let fits = match kind.as_str() {
                "number" => value.is_number(),
                "text" => value.is_string(),
                "bool" => value.is_boolean(),
                other => value.as_str() == Some(other),
            };
            if !fits {
                found.push(format!("{at}: {value} is no {kind}"));
            }
        }
        _ => found.push(format!("{at}: {ours} where a Ceph has {ceph}")),
    }
}

#[test]
fn answers_have_the_structure_of_cephs() {
    let of_shards = shard_facts();
    let mut settings = new_settings(OsdId(0));
    let mut counters = Counters::default();
    let mut found = Vec::new();
    let mut unknown = Vec::new();
    for line in include_str!("fixtures/answers.jsonl").lines() {
        let (words, code, said, ceph): (String, i32, String, Value) = serde_json::from_str(line).unwrap();
        let Some(command) = command(&words) else {
            unknown.push(words.split(' ').next().unwrap().to_owned());
            continue;
        };
        let told = match read(&command.to_string()).unwrap_or_else(|e| panic!("{words}: {e}")) {
            Asked::Daemon(told) => told,
            // Without a group they are refused alike; `groups` has its own tests.
            Asked::Group(group) => {
                assert_eq!((group, said.as_str()), (None, "EINVAL: no pgid specified"), "{words}");
                continue;
            }
            // It takes a store, and `own_copies` has tests of its own.
            Asked::Copy(_) => continue,
        };
        if Work::of(&told).is_some() {
            continue;
        }
        let reply = everywhere::answer(&told, &mut settings)
            .or_else(|| set_by_another_word(&told, &mut settings))
            .unwrap_or_else(|| with_facts(&of_shards, |facts| answer(&told, facts, &mut counters)));
        if code != 0 {
            let (name, why) = said.split_once(": ").unwrap();
            let errno = [("ENOENT", -2), ("EINVAL", -22), ("EPERM", -1), ("ENOTSUP", -95)];
            let errno = errno.iter().find(|(word, _)| *word == name).unwrap().1;
            assert_eq!((reply.result, reply.status.trim()), (errno, why.trim()), "{words}");
            continue;
        }
        let text = String::from_utf8(reply.output.to_vec()).unwrap();
        assert_eq!(reply.result, 0, "{words}: {}", reply.status);
        // A Ceph prints two lists here, which no program reads as one value.
        if told.prefix != "dump_blocklist" {
            let ours = serde_json::from_str(&text).unwrap_or_else(|_| json!(text));
            differences(&ceph, &ours, &words, &mut found);
        }
    }
    assert_eq!(unknown, Vec::<String>::new());
    let is_count = |line: &String| {
        ["perf dump.osd.", "perf schema.osd.", "perf dump throttle-"].iter().any(|begin| line.starts_with(begin))
    };
    let (counts, found): (Vec<String>, Vec<String>) = found.into_iter().partition(is_count);
    assert!(counts.iter().all(|line| line.ends_with(" is absent")), "{counts:#?}");
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn counts_begin_anew_and_averages_too() {
    let mut facts = shard_facts();
    facts.ops.updates = pg::hops::OpCount { ops: 4, in_bytes: 400, out_bytes: 0, took: Duration::from_secs(2) };
    let mut counters = Counters::default();
    let dump = |facts: &ShardFacts, counters: &Counters, logger: Option<&str>, counter: Option<&str>| {
        with_facts(facts, |facts| counters.dump(&perf::sections(facts), logger, counter))
    };
    let reset = |facts: &ShardFacts, counters: &mut Counters, var: &str| {
        with_facts(facts, |facts| counters.reset(&perf::sections(facts), var))
    };
    let latency = json!({"osd": {"op_w_latency": {"avgcount": 4, "sum": 2.0, "avgtime": 0.5}}});
    assert_eq!(dump(&facts, &counters, Some("osd"), Some("op_w_latency")), latency);
    assert_eq!(reset(&facts, &mut counters, "nonsense"), json!({"error": "Not find: nonsense"}));
    assert_eq!(reset(&facts, &mut counters, "store"), json!({"success": "perf reset store"}));
    assert_eq!(dump(&facts, &counters, Some("osd"), Some("op")), json!({"osd": {"op": 4}}), "another section");
    let turns = json!({"reactor": {"turns": 3}});
    assert_eq!(dump(&facts, &counters, Some("reactor"), Some("turns")), turns);
    assert_eq!(reset(&facts, &mut counters, "all"), json!({"success": "perf reset all"}));
    facts.ops.updates = pg::hops::OpCount { ops: 6, in_bytes: 450, out_bytes: 0, took: Duration::from_secs(5) };
    let since = dump(&facts, &counters, None, None);
    assert_eq!((&since["osd"]["op_w"], &since["osd"]["op_in_bytes"]), (&json!(2), &json!(50)));
    assert_eq!(since["osd"]["op_latency"], json!({"avgcount": 2, "sum": 3.0, "avgtime": 1.5}));
    assert_eq!(since["osd"]["stat_bytes_used"], json!(600), "no count");
    assert_eq!(
        (&since["reactor"]["turns"], &since["reactor"]["connections"]),
        (&json!(0), &json!(0)),
        "as of the reset"
    );
    assert_eq!((&since["osd"]["numpg"], &since["osd"]["numpg_replica"]), (&json!(2), &json!(1)));
    assert_eq!(dump(&facts, &counters, Some("nonsense"), None), json!({}));
}

#[test]
fn lists_of_operations_follow_options_and_filters() {
    let facts = shard_facts();
    with_facts(&facts, |facts| {
        let count = |list: &Value, key: &str| list[key].as_array().unwrap().len();
        assert_eq!(count(&facts.ops.historic(&[]), "ops"), 2);
        assert_eq!(count(&facts.ops.historic(&["127.0.0.1:0/7"]), "ops"), 2);
        assert_eq!(count(&facts.ops.historic(&["127.0.0.1:0/8"]), "ops"), 0);
        assert_eq!(facts.ops.in_flight(&[])["num_ops"], 2);
        assert_eq!(facts.ops.blocked(&[])["num_blocked_ops"], 1, "one is 40 s old");
        assert_eq!(count(&facts.ops.historic_slow(&[]), "Ops"), 1);
        let history = tuned::History { size: 1, slow_after: Duration::from_secs(20), ..Default::default() };
        let complain_after = Duration::from_secs(50);
        let ops = OpDump { history, complain_after, client_addr: &|_| String::new(), ..facts.ops };
        assert_eq!(ops.historic(&[])["ops"][0]["type_data"]["client_info"]["tid"], 2, "the newest");
        assert_eq!((count(&ops.historic(&[]), "ops"), count(&ops.historic_slow(&[]), "Ops")), (1, 0));
        assert_eq!(
            (&ops.blocked(&[])["num_blocked_ops"], &ops.blocked(&[])["complaint_time"]),
            (&json!(0), &json!(50.0))
        );
    });
}

#[test]
fn each_option_that_is_said_to_have_an_effect_sets_something() {
    let names: Vec<&str> = tuned::names().collect();
    assert_eq!(names, control::options::honoured_by_osds().collect::<Vec<_>>());
    let config = OsdConfig::new(OsdId(3), types::Fsid([1; 16]), devices::StorePaths::one("/none".into()));
    let default = tuned::Tuned::by(&config, &new_settings(OsdId(3)));
    for name in names {
        let mut settings = new_settings(OsdId(3));
        assert_eq!(tuned::Tuned::by(&config, &settings), default);
        let option = control::options::find(name).unwrap();
        let other = match option.default_for(true).as_str() {
            "true" => "false",
            "false" => "true",
            _ => "5",
        };
        let change = settings.set(name, other).unwrap();
        assert!(change.contains(&format!("'{other}")) && !change.contains("not observed"), "{change}");
        assert_ne!(tuned::Tuned::by(&config, &settings), default, "{name}");
        settings.unset(name).unwrap();
        // A value that is the default sets the default.
        settings.set_from_monitors([(name, option.default_for(true).as_str())]);
        assert_eq!(tuned::Tuned::by(&config, &settings), default, "{name}");
    }
}

#[test]
fn slow_answers_to_heartbeats_are_listed_slowest_first() {
    let facts = shard_facts();
    with_facts(&facts, |facts| {
        let dump = |value: Value| {
            let line = json!({"prefix": "dump_osd_network", "value": value}).to_string();
            let Ok(Asked::Daemon(told)) = read(&line) else { panic!("{line}") };
            let reply = answer(&told, facts, &mut Counters::default());
            serde_json::from_slice::<Value>(&reply.output.to_vec()).unwrap()
        };
        assert_eq!(dump(Value::Null), json!({"threshold": 350, "entries": []}));
        assert_eq!(dump(json!(-4))["threshold"], 0);
        let all = dump(json!(0));
        assert_eq!(all["entries"].as_array().unwrap().iter().map(|it| &it["to osd"]).collect::<Vec<_>>(), [2, 1]);
        let slow = json!({
            "last update": "Tue Nov 14 22:13:17 2023",
            "stale": false,
            "from osd": 0,
            "to osd": 2,
            "interface": "front",
            "average": {"1min": 40, "5min": 40, "15min": 40},
            "min": {"1min": 20, "5min": 20, "15min": 20},
            "max": {"1min": 80, "5min": 80, "15min": 80},
            "last": 40,
        });
        assert_eq!(dump(json!(40)), json!({"threshold": 40, "entries": [slow]}));
    });
}

#[test]
fn every_command_is_described() {
    let described = table().descriptions(groups::descriptions());
    let all = described.as_object().unwrap();
    assert_eq!(all.len(), forms().count() + groups::descriptions().len());
    assert!(all.values().all(|entry| entry["sig"].is_array() && entry["help"].is_string()));
}

#[test]
fn what_an_osd_does_not_do_for_tests_it_says() {
    let facts = shard_facts();
    let mut settings = new_settings(OsdId(0));
    let told = |line: Value| match read(&line.to_string()) {
        Ok(Asked::Daemon(told)) => told,
        _ => panic!("{line}"),
    };
    let delay = told(json!({"prefix": "set_recovery_delay", "utime": 5}));
    let reply = set_by_another_word(&delay, &mut settings).unwrap();
    let text = reply.output.to_vec();
    assert_eq!((reply.result, &*text), (0, &b"set_recovery_delay: set osd_recovery_delay_start to 5\n"[..]));
    assert!(reply.status.contains("no effect"), "{}", reply.status);
    assert_eq!(settings.number("osd_recovery_delay_start"), Some(5.0));
    assert_eq!(set_by_another_word(&told(json!({"prefix": "injectfull"})), &mut settings), None);
    with_facts(&facts, |facts| {
        let code = |line: Value| answer(&told(line), facts, &mut Counters::default()).result;
        assert_eq!(code(json!({"prefix": "injectfull", "type": "none"})), 0);
        assert_eq!(code(json!({"prefix": "injectfull", "type": "nearfull", "count": 1})), -95);
        assert_eq!(code(json!({"prefix": "injectfull"})), -95, "full is meant");
        assert_eq!(code(json!({"prefix": "injectfull", "type": "half"})), -22);
        let queues = answer(&told(json!({"prefix": "dump_op_pq_state"})), facts, &mut Counters::default());
        let queues: Value = serde_json::from_slice(&queues.output.to_vec()).unwrap();
        assert_eq!(queues, json!({"OSD:ShardedOpWQ:0": {"high_queues": [], "queues": []}}));
    });
}
