//! Unreasonable numbers from operators, from OSDs, and from a state that earlier software made.

use super::harness::*;
use super::prelude::*;
use crate::options;
use crate::update::Update;
use proptest::prelude::*;
use serde_json::json;

const EXTREMES: [&str; 24] = [
    "0",
    "1",
    "-1",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "18446744073s",
    "1E",
    "15E",
    "0.0000001",
    "1e9",
    "1e308",
    "-1e308",
    "inf",
    "NaN",
    "true",
    "false",
    "on",
    "",
];

/// Does the periodic work of a leader of some OSDs and pools, and runs the commands that operators use most.
fn live(h: &mut Harness, client: SessionId) {
    let sessions: Vec<SessionId> = (0..4).map(|id| h.boot(id)).collect();
    h.pool_op(client, msg::PoolOpKind::CREATE, 0, "x");
    h.command(client, &json!({"prefix": "osd pool create", "pool": "y", "pg_num": 8}).to_string());
    h.command(
        client,
        &json!({"prefix": "osd pool set", "pool": "y", "var": "pg_autoscale_mode", "val": "on"}).to_string(),
    );
    h.command(client, &json!({"prefix": "osd pool set", "pool": "y", "var": "pg_num", "val": "16"}).to_string());
    for _ in 0..3 {
        for (id, session) in sessions.iter().enumerate() {
            let groups = h.map().pgs().filter(|pg| pg.seed as usize % 4 == id);
            let report = |pgid: PgId| nacre::PgReport {
                pgid,
                state: pg_state::ACTIVE | pg_state::CLEAN,
                epoch: h.map().epoch,
                sequence: h.now.as_millis() as u64,
                acting: vec![OsdId(id as i32)],
                objects: 7,
                bytes: 7 << 20,
                misplaced_copies: 1,
                ..nacre::PgReport::default()
            };
            let reports = groups.map(report).collect();
            h.beacon(*session, id as i32, reports);
        }
        h.pass(secs(30));
    }
    let report = failure(h, 3, true);
    h.say(sessions[0], report);
    h.pass(secs(3));
    for prefix in ["status", "health", "df", "osd df", "osd pool autoscale-status", "balancer status", "config dump"] {
        h.command(client, &json!({ "prefix": prefix }).to_string());
    }
}

/// A number of seconds so large that the time never comes: earlier software took it for the balancer's interval, and it
/// is in the log.
#[test]
fn a_time_that_never_comes_in_the_state_stops_no_leader() {
    let mut state = MonState::default();
    let first = first_batch();
    state.apply(1, &first);
    let (who, name) = ("mgr".to_owned(), "mgr/balancer/sleep_interval".to_owned());
    let update = Update::Config { who, name, value: Some(u64::MAX.to_string()) };
    let second = Batch { stamp: first.stamp, updates: vec![update] };
    state.apply(2, &second);
    let log = [(1, &first), (2, &second)].map(|(index, batch)| (index, batch.to_vec(Target::PACIFIC).into()));
    let mut h = Harness::continuing(state, log.to_vec());
    let client = h.client();
    live(&mut h, client);
    let removal = json!({"prefix": "config rm", "who": "mgr", "name": "mgr/balancer/sleep_interval"}).to_string();
    assert_eq!(h.command(client, &removal).result, 0);
    let again = json!({
        "prefix": "config set", "who": "mgr", "name": "mgr/balancer/sleep_interval", "value": u64::MAX.to_string(),
    });
    let answer = h.command(client, &again.to_string());
    assert_eq!(answer.result, Errno::EINVAL.as_result(), "{}", answer.status);
}

/// Sets an option as earlier software may have: nothing checks the value.
fn put(h: &mut Harness, name: &str, value: &str) {
    let (who, name, value) = ("global".to_owned(), name.to_owned(), Some(value.to_owned()));
    let batch = Batch { stamp: h.at().wall, updates: vec![Update::Config { who, name, value }] };
    let index = h.log.len() as u64 + 1;
    h.log.push((index, batch.to_vec(Target::PACIFIC).into()));
    h.monitor.state.apply(index, &batch);
}

fn names() -> Vec<&'static str> {
    options::honoured().collect()
}

#[test]
fn all_options_at_an_extreme_bring_no_leader_down() {
    for value in EXTREMES {
        let mut h = Harness::new();
        let client = h.client();
        names().into_iter().for_each(|name| put(&mut h, name, value));
        live(&mut h, client);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Options may have any value: as commands take them, and as they may be in the state.
    #[test]
    fn no_value_of_any_option_brings_a_leader_down(
        set in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(&EXTREMES[..])), 1..12),
        by_command: bool,
    ) {
        let mut h = Harness::new();
        let client = h.client();
        let names = names();
        for (name, value) in &set {
            let name = *name.get(&names);
            let command = json!({"prefix": "config set", "who": "global", "name": name, "value": value, "force": true});
            if by_command {
                h.command(client, &command.to_string());
            } else {
                put(&mut h, name, value);
            }
        }
        live(&mut h, client);
    }

    /// OSDs may report any numbers of themselves and of groups.
    #[test]
    fn no_number_in_a_report_brings_a_leader_down(
        numbers in prop::collection::vec(prop::sample::select(vec![0u64, 1, 7 << 30, 1 << 62, 1 << 63, u64::MAX]), 16),
        stamps in prop::collection::vec(prop::sample::select(vec![0u32, 1, 1 << 31, u32::MAX]), 4),
    ) {
        let mut h = Harness::new();
        let client = h.client();
        let sessions: Vec<SessionId> = (0..3).map(|id| h.boot(id)).collect();
        h.pool_op(client, msg::PoolOpKind::CREATE, 0, "x");
        for round in 0..3 {
            let number = |nth: usize| numbers[(nth + round) % numbers.len()];
            let stamp = |nth: usize| Utime { sec: stamps[nth % 4], nsec: stamps[(nth + 1) % 4] };
            let stats = nacre::OsdStats {
                total_bytes: number(0), free_bytes: number(1), data_bytes: number(2), stored_bytes: number(3),
                omap_bytes: number(4), metadata_bytes: number(5), commit_latency_us: number(6), pg_count: number(7),
                heartbeat_peers: number(8), slow_ops: number(9), oldest_slow_op_ms: number(10),
                bad_copies: number(11),
            };
            let scrub = nacre::PgScrubReport {
                light_at: stamp(0), deep_at: stamp(1), clean_at: stamp(2), shallow_errors: number(1),
                deep_errors: number(2), repaired: number(3), large_omaps: number(4), ..nacre::PgScrubReport::default()
            };
            let report = |pgid: PgId| nacre::PgReport {
                pgid, state: pg_state::ACTIVE, epoch: h.map().epoch, sequence: round as u64 + 1, acting: vec![OsdId(0)],
                objects: number(0), bytes: number(1), omap_bytes: number(2), omap_keys: number(3),
                log_entries: number(4), degraded_copies: number(5), misplaced_copies: number(6),
                missing_on_primary: number(7), unfound: number(8), recovered_objects: number(9),
                recovered_bytes: number(10), read_ops: number(11), read_kib: number(12), write_ops: number(13),
                write_kib: number(14), clones: number(15), trim_queue: number(0), scrub: scrub.clone(),
                ..nacre::PgReport::default()
            };
            let pgs: Vec<nacre::PgReport> = h.map().pgs().map(report).collect();
            let epoch = h.map().epoch;
            h.say(sessions[0], nacre::OsdBeacon { osd: OsdId(0), epoch, stats, pgs, options: None, pings: None });
            let silent = nacre::OsdBeacon { osd: OsdId(1), epoch, stats, pgs: Vec::new(), options: None, pings: None };
            h.say(sessions[1], silent);
            h.pass(secs(4));
        }
        h.say(client, msg::Statfs { have: 0, fsid: FSID, pool: Some(PoolId(1)) });
        h.say(client, msg::GetPoolStats { have: 0, fsid: FSID, pools: vec!["x".to_owned()] });
        for prefix in [
            "status", "health detail", "df", "osd df", "osd perf", "pg dump", "pg stat", "osd pool stats", "progress",
        ] {
            for format in ["plain", "json"] {
                h.command(client, &json!({ "prefix": prefix, "format": format }).to_string());
            }
        }
    }
}
