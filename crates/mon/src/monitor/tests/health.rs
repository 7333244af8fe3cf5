//! Alarms.

use super::harness::*;
use super::prelude::*;

fn alarms(h: &Harness) -> Vec<(&'static str, String)> {
    let report = crate::health::evaluate(h.monitor.state(), h.monitor.volatile());
    report.checks.into_iter().map(|(code, check)| (code, check.summary)).collect()
}

#[test]
fn health_names_what_is_wrong() {
    let mut h = Harness::new();
    let client = h.client();
    assert_eq!(alarms(&h), [("TOO_FEW_OSDS", "OSD count 0 < osd_pool_default_size 3".to_owned())]);
    let sessions: Vec<SessionId> = (0..3).map(|id| h.boot(id)).collect();
    assert_eq!(alarms(&h), []);
    h.pool_op(client, msg::PoolOpKind::CREATE, 0, "x");
    assert_eq!(alarms(&h), [], "a new pool may take a moment");
    let report = |h: &Harness, seed: u32, state: u64| nacre::PgReport {
        pgid: PgId::new(1, seed),
        state,
        epoch: h.map().epoch,
        sequence: h.now.as_millis() as u64,
        acting: vec![OsdId(0)],
        objects: 2,
        degraded_copies: if state & pg_state::DEGRADED != 0 { 4 } else { 0 },
        ..nacre::PgReport::default()
    };
    let mut clean: Vec<nacre::PgReport> = (1..32).map(|s| report(&h, s, pg_state::ACTIVE | pg_state::CLEAN)).collect();
    clean.iter_mut().for_each(|pg| pg.objects = 0);
    h.beacon(sessions[0], 0, clean);
    h.beacon(sessions[0], 0, vec![report(&h, 0, pg_state::ACTIVE | pg_state::UNDERSIZED | pg_state::DEGRADED)]);
    let degraded = "Degraded data redundancy: 4/6 objects degraded (66.667%), 1 pg degraded".to_owned();
    let no_app = "1 pool(s) do not have an application enabled".to_owned();
    assert_eq!(alarms(&h), [("PG_DEGRADED", degraded), ("POOL_APP_NOT_ENABLED", no_app)]);
    h.pass(secs(1));
    let line = |h: &Harness, text: &str| h.monitor.state().log.entries.iter().any(|entry| entry.message.contains(text));
    assert!(line(&h, "Health check failed: Degraded data redundancy"));

    h.beacon(sessions[0], 0, vec![report(&h, 0, pg_state::PEERING)]);
    for _ in 0..14 {
        (0..3).for_each(|id| h.beacon(sessions[id], id as i32, Vec::new()));
        h.pass(secs(5));
    }
    let availability = "Reduced data availability: 1 pg inactive, 1 pg peering".to_owned();
    assert!(alarms(&h).contains(&("PG_AVAILABILITY", availability)), "{:?}", alarms(&h));
    h.beacon(sessions[0], 0, vec![nacre::PgReport { objects: 0, ..report(&h, 0, pg_state::ACTIVE | pg_state::CLEAN) }]);
    h.pass(secs(2));
    assert_eq!(alarms(&h), []);
    assert!(line(&h, "Health check cleared: PG_AVAILABILITY") && line(&h, "Cluster is now healthy"));

    h.flag(OsdMapFlags::NOOUT, true);
    h.say(sessions[0], failure(&h, 2, true));
    let codes: Vec<&str> = alarms(&h).into_iter().map(|(code, _)| code).collect();
    assert_eq!(codes, ["OSDMAP_FLAGS", "OSD_DOWN", "OSD_HOST_DOWN"]);
    let summaries: Vec<String> = alarms(&h).into_iter().map(|(_, summary)| summary).collect();
    assert_eq!(summaries, ["noout flag(s) set", "1 osds down", "1 host (1 osds) down"]);
}

#[test]
fn a_full_osd_stops_writes_to_its_pools() {
    let mut h = Harness::new();
    let client = h.client();
    let sessions: Vec<SessionId> = (0..3).map(|id| h.boot(id)).collect();
    h.pool_op(client, msg::PoolOpKind::CREATE, 0, "x");
    let fill = |h: &mut Harness, percent: u64| {
        let epoch = h.map().epoch;
        let stats =
            nacre::OsdStats { total_bytes: 1000, free_bytes: 1000 - 10 * percent, ..nacre::OsdStats::default() };
        h.say(
            sessions[1],
            nacre::OsdBeacon { osd: OsdId(1), epoch, stats, pgs: Vec::new(), options: None, pings: None },
        );
        h.pass(secs(3));
    };
    let flags = |h: &Harness| h.map().pools[&PoolId(1)].flags.names();
    fill(&mut h, 50);
    assert_eq!(flags(&h), "hashpspool");
    fill(&mut h, 86);
    assert_eq!(flags(&h), "hashpspool,nearfull");
    fill(&mut h, 96);
    assert_eq!(flags(&h), "hashpspool,full");
    let codes: Vec<&str> = alarms(&h).into_iter().map(|(code, _)| code).collect();
    assert_eq!(codes, ["OSD_FULL", "POOL_FULL"]);
    fill(&mut h, 10);
    assert_eq!(flags(&h), "hashpspool");
    assert_eq!(alarms(&h), []);
}

/// The OSD that is full dies, and reports nothing any more: the others have room.
#[test]
fn a_full_osd_that_is_down_or_out_stops_nobodys_writes() {
    for ratio in [96, 91, 86] {
        let mut h = Harness::new();
        let client = h.client();
        let sessions: Vec<SessionId> = (0..4).map(|id| h.boot(id)).collect();
        h.pool_op(client, msg::PoolOpKind::CREATE, 0, "x");
        let stats = nacre::OsdStats { total_bytes: 100, free_bytes: 100 - ratio, ..nacre::OsdStats::default() };
        let fill = |h: &mut Harness| {
            let epoch = h.map().epoch;
            h.say(
                sessions[1],
                nacre::OsdBeacon { osd: OsdId(1), epoch, stats, pgs: Vec::new(), options: None, pings: None },
            );
            h.pass(secs(3));
        };
        let flags = |h: &Harness| h.map().pools[&PoolId(1)].flags.names();
        let state = |h: &Harness| h.map().osd(OsdId(1)).unwrap().state.names();
        fill(&mut h);
        assert_ne!(flags(&h), "hashpspool");
        // An OSD that is out is not written any more.
        h.change(|incremental| incremental.mark_out(OsdId(1)));
        h.pass(secs(3));
        assert_eq!(flags(&h), "hashpspool");
        h.change(|incremental| incremental.mark_in(OsdId(1)));
        h.pass(secs(3));
        assert_ne!(flags(&h), "hashpspool", "{ratio}");
        let report = failure(&h, 1, true);
        h.say(sessions[0], report);
        h.pass(secs(3));
        assert!(!h.map().is_up(OsdId(1)));
        assert_eq!(flags(&h), "hashpspool", "{ratio}");
        assert_eq!(state(&h), "exists");
        let codes: Vec<&str> = alarms(&h).into_iter().map(|(code, _)| code).collect();
        assert_eq!(codes, ["OSD_DOWN", "OSD_HOST_DOWN"]);
        // A full state that an earlier leader left in the map goes, too.
        h.change(|incremental| incremental.flip_state(OsdId(1), osdmap::OsdState::FULL));
        h.pass(secs(3));
        assert_eq!((flags(&h).as_str(), state(&h).as_str()), ("hashpspool", "exists"));
    }
}

#[test]
fn mutes_end() {
    let mut h = Harness::new();
    for id in 0..3 {
        h.boot(id);
    }
    h.flag(OsdMapFlags::NOOUT, true);
    let mute = |sticky, expires| crate::state::HealthMute { sticky, expires, summary: String::new(), count: 1 };
    let at = h.at().wall;
    let lasting = crate::Update::HealthMute { code: "OSDMAP_FLAGS".to_owned(), mute: Some(mute(false, None)) };
    let short = Utime { sec: at.sec + 2, nsec: 0 };
    let passing = crate::Update::HealthMute { code: "OSD_DOWN".to_owned(), mute: Some(mute(true, Some(short))) };
    let index = h.log.len() as u64 + 1;
    let batch = Batch { stamp: at, updates: vec![lasting, passing] };
    h.log.push((index, batch.to_vec(Target::PACIFIC).into()));
    h.monitor.state.apply(index, &batch);
    assert_eq!(crate::health::evaluate(h.monitor.state(), h.monitor.volatile()).status(), crate::health::Severity::Ok);
    h.pass(secs(5));
    assert_eq!(h.monitor.state().health_mutes.keys().collect::<Vec<_>>(), ["OSDMAP_FLAGS"]);
    h.flag(OsdMapFlags::NOOUT, false);
    h.pass(secs(5));
    assert!(h.monitor.state().health_mutes.is_empty());
}

#[test]
fn osds_that_replace_many_bad_copies_are_named() {
    let mut h = Harness::new();
    let client = h.client();
    let sessions: Vec<SessionId> = (0..3).map(|id| h.boot(id)).collect();
    let told = |h: &mut Harness, id: i32, bad_copies| {
        let stats = nacre::OsdStats { bad_copies, ..nacre::OsdStats::default() };
        let epoch = h.map().epoch;
        h.say(
            sessions[id as usize],
            nacre::OsdBeacon { osd: OsdId(id), epoch, stats, pgs: Vec::new(), options: None, pings: None },
        );
        h.pass(secs(1));
        let report = crate::health::evaluate(h.monitor.state(), h.monitor.volatile());
        report.checks.get("OSD_TOO_MANY_REPAIRS").map(|check| (check.summary.clone(), check.detail.clone()))
    };
    assert_eq!(told(&mut h, 1, 10), None);
    let one = ("Too many repaired reads on 1 OSDs".to_owned(), vec!["osd.1 had 11 reads repaired".to_owned()]);
    assert_eq!(told(&mut h, 1, 11), Some(one));
    h.pass(secs(2));
    let line = "Health check failed: Too many repaired reads on 1 OSDs (OSD_TOO_MANY_REPAIRS)";
    let is_told = |h: &Harness| h.monitor.state().log.entries.iter().any(|entry| entry.message == line);
    assert!(is_told(&h), "the cluster log tells of it");
    let more = r#"{"prefix": "config set", "who": "mon", "name": "mon_osd_warn_num_repaired", "value": "11"}"#;
    assert_eq!(h.command(client, more).result, 0);
    assert_eq!(told(&mut h, 2, 0), None);
    assert!(told(&mut h, 2, 12).is_some_and(|(_, detail)| detail == ["osd.2 had 12 reads repaired"]));
}

#[test]
fn osds_that_keep_clients_waiting_are_named() {
    let mut h = Harness::new();
    let sessions: Vec<SessionId> = (0..3).map(|id| h.boot(id)).collect();
    let tell = |h: &mut Harness, id: i32, slow_ops, oldest_slow_op_ms| {
        let epoch = h.map().epoch;
        let stats = nacre::OsdStats { slow_ops, oldest_slow_op_ms, ..nacre::OsdStats::default() };
        h.say(
            sessions[id as usize],
            nacre::OsdBeacon { osd: OsdId(id), epoch, stats, pgs: Vec::new(), options: None, pings: None },
        );
        h.pass(secs(1));
    };
    let slow = |h: &Harness| alarms(h).into_iter().find(|(code, _)| *code == "SLOW_OPS").map(|(_, summary)| summary);
    tell(&mut h, 1, 2, 31_900);
    assert_eq!(slow(&h).unwrap(), "2 slow ops, oldest one blocked for 31 sec, osd.1 has slow ops");
    tell(&mut h, 2, 1, 40_000);
    let both = "3 slow ops, oldest one blocked for 40 sec, daemons [osd.1,osd.2] have slow ops.";
    assert_eq!(slow(&h).unwrap(), both);
    tell(&mut h, 1, 0, 0);
    tell(&mut h, 2, 0, 0);
    assert_eq!(slow(&h), None);
}

#[test]
fn groups_that_are_not_scrubbed_in_time_are_named() {
    let mut h = Harness::new();
    let client = h.client();
    let sessions: Vec<SessionId> = (0..3).map(|id| h.boot(id)).collect();
    h.pool_op(client, msg::PoolOpKind::CREATE, 0, "x");
    let day = 86_400;
    let overdue = |h: &Harness| -> Vec<(&str, String)> {
        alarms(h).into_iter().filter(|(code, _)| code.contains("SCRUBBED")).collect()
    };
    assert_eq!(overdue(&h), []);
    let groups = h.map().pools[&PoolId(1)].pg_num;
    // Eleven days later only one group has been scrubbed.
    h.now += secs(11 * day);
    let pgid = types::PgId { pool: PoolId(1), seed: 0 };
    let scrub = nacre::PgScrubReport { light_at: h.at().wall, ..Default::default() };
    let report = nacre::PgReport { pgid, epoch: h.map().epoch, sequence: 1, scrub, ..Default::default() };
    h.beacon(sessions[0], 0, vec![report]);
    let summary = format!("{} pgs not scrubbed in time", groups - 1);
    assert_eq!(overdue(&h), [("PG_NOT_SCRUBBED", summary.clone())]);
    h.now += secs(2 * day);
    h.pass(secs(1));
    let deep = format!("{groups} pgs not deep-scrubbed in time");
    assert_eq!(overdue(&h), [("PG_NOT_DEEP_SCRUBBED", deep), ("PG_NOT_SCRUBBED", summary)]);
}

/// Returns a cluster of three OSDs with a pool whose groups osd.0 leads and reports clean, and has not reported for ten
/// minutes.
fn long_idle() -> (Harness, Vec<SessionId>) {
    let mut h = Harness::new();
    let client = h.client();
    let sessions: Vec<SessionId> = (0..3).map(|id| h.boot(id)).collect();
    h.pool_op(client, msg::PoolOpKind::CREATE, 0, "x");
    let clean = (0..h.map().pools[&PoolId(1)].pg_num).map(|seed| group(&h, seed, pg_state::ACTIVE | pg_state::CLEAN));
    let clean = clean.collect();
    h.beacon(sessions[0], 0, clean);
    live(&mut h, &sessions, 600);
    (h, sessions)
}

fn group(h: &Harness, seed: u32, state: u64) -> nacre::PgReport {
    nacre::PgReport {
        pgid: PgId::new(1, seed),
        state,
        epoch: h.map().epoch,
        sequence: h.now.as_millis() as u64,
        acting: vec![OsdId(0)],
        ..nacre::PgReport::default()
    }
}

/// Lets OSDs report that they live, and nothing else.
fn live(h: &mut Harness, sessions: &[SessionId], seconds: u64) {
    for _ in 0..seconds / 5 {
        (0..sessions.len()).for_each(|id| h.beacon(sessions[id], id as i32, Vec::new()));
        h.pass(secs(5));
    }
}

fn availability(h: &Harness) -> Option<String> {
    alarms(h).into_iter().find(|(code, _)| *code == "PG_AVAILABILITY").map(|(_, summary)| summary)
}

#[test]
fn groups_are_stuck_a_minute_after_they_stopped_and_not_after_their_last_report() {
    let (mut h, sessions) = long_idle();
    let peering = group(&h, 0, pg_state::PEERING);
    h.beacon(sessions[0], 0, vec![peering]);
    h.pass(secs(2));
    assert_eq!(availability(&h), None);
    live(&mut h, &sessions, 50);
    assert_eq!(availability(&h), None);
    live(&mut h, &sessions, 15);
    assert_eq!(availability(&h).unwrap(), "Reduced data availability: 1 pg inactive, 1 pg peering");
    let report = crate::health::evaluate(h.monitor.state(), h.monitor.volatile());
    let detail = &report.checks["PG_AVAILABILITY"].detail[0];
    assert_eq!(detail, "pg 1.0 is stuck inactive for 66s, current state peering, last acting [0]");
}

#[test]
fn groups_are_stale_a_minute_after_their_primary_went() {
    let (mut h, sessions) = long_idle();
    h.say(sessions[1], failure(&h, 0, true));
    h.pass(secs(5));
    assert!(!h.map().is_up(OsdId(0)));
    assert_eq!(availability(&h), None);
    let groups = h.map().pools[&PoolId(1)].pg_num;
    for _ in 0..12 {
        (1..3).for_each(|id| h.beacon(sessions[id], id as i32, Vec::new()));
        h.pass(secs(5));
    }
    assert_eq!(availability(&h).unwrap(), format!("Reduced data availability: {groups} pgs stale"));
    // The next primary has not got the group to serve yet: the group was active as long as that was known.
    let peering = group(&h, 0, pg_state::PEERING);
    h.beacon(sessions[1], 1, vec![peering]);
    let (rest, one) = (groups - 1, "1 pg inactive, 1 pg peering");
    assert_eq!(availability(&h).unwrap(), format!("Reduced data availability: {one}, {rest} pgs stale"));
}

#[test]
fn numbers_of_placement_groups_on_their_way_alarm_nobody() {
    let mut h = Harness::new();
    let client = h.client();
    for id in 0..3 {
        h.boot(id);
    }
    h.pool_op(client, msg::PoolOpKind::CREATE, 0, "x");
    let smaller = |h: &Harness| alarms(h).into_iter().any(|(code, _)| code == "SMALLER_PGP_NUM");
    let mut pool = h.map().pools[&PoolId(1)].clone();
    let pg_num = pool.pg_num;
    (pool.pgp_num, pool.pgp_num_target) = (pg_num / 2, pg_num);
    h.change(|incremental| drop(incremental.new_pools.insert(PoolId(1), pool.clone())));
    assert!(!smaller(&h), "it follows");
    pool.pgp_num_target = pg_num / 2;
    h.change(|incremental| drop(incremental.new_pools.insert(PoolId(1), pool.clone())));
    assert!(smaller(&h));
}

#[test]
fn what_scrubs_find_and_repair_stands_in_the_cluster_log() {
    let (mut h, sessions) = long_idle();
    let lines = |h: &Harness| -> Vec<(crate::state::LogPriority, String)> {
        let entries = h.monitor.state().log.entries.iter();
        let ours = entries.filter(|entry| entry.message.starts_with("1.0 "));
        ours.map(|entry| (entry.priority, entry.message.clone())).collect()
    };
    let mut scrubbed = |deep_at: u32, shallow_errors, deep_errors, repaired| {
        let deep_at = Utime { sec: deep_at, nsec: 0 };
        let scrub = nacre::PgScrubReport { deep_at, shallow_errors, deep_errors, repaired, ..Default::default() };
        let report = nacre::PgReport { scrub, ..group(&h, 0, pg_state::ACTIVE | pg_state::CLEAN) };
        h.beacon(sessions[0], 0, vec![report]);
        h.pass(secs(2));
        lines(&h)
    };
    assert_eq!(scrubbed(1, 0, 0, 0), []);
    let repaired = || (crate::state::LogPriority::WARN, "1.0 deep-scrub 2 errors found and repaired".to_owned());
    assert_eq!(scrubbed(2, 0, 0, 2), [repaired()]);
    assert_eq!(scrubbed(3, 0, 0, 2), [repaired()], "no more than before");
    let left = || (crate::state::LogPriority::ERROR, "1.0 scrub 3 errors".to_owned());
    assert_eq!(scrubbed(3, 3, 0, 2), [repaired(), left()]);
    assert_eq!(scrubbed(4, 0, 0, 0), [repaired(), left()], "a count that starts anew");
}

#[test]
fn what_repair_does_not_choose_is_told_with_the_command_that_does() {
    let (mut h, sessions) = long_idle();
    let mut scrubbed = |light_at: u32, undecided| {
        let light_at = Utime { sec: light_at, nsec: 0 };
        let scrub = nacre::PgScrubReport { light_at, shallow_errors: undecided, undecided, ..Default::default() };
        let state = pg_state::ACTIVE | pg_state::CLEAN | if undecided > 0 { pg_state::INCONSISTENT } else { 0 };
        let report = nacre::PgReport { scrub, ..group(&h, 0, state) };
        h.beacon(sessions[0], 0, vec![report]);
        h.pass(secs(2));
        let says = |line: &str| line.contains("repair does not choose; 'ceph tell 1.0 keep_copy OBJECT OSD'");
        let entries = h.monitor.state().log.entries.iter();
        let logged = entries.filter(|entry| entry.message.starts_with("1.0 scrub: ") && says(&entry.message)).count();
        let report = crate::health::evaluate(h.monitor.state(), h.monitor.volatile());
        let detail = report.checks.get("PG_DAMAGED").map(|check| check.detail.clone()).unwrap_or_default();
        (logged, detail.iter().filter(|line| line.starts_with("pg 1.0: 2 objects have copies") && says(line)).count())
    };
    assert_eq!(scrubbed(1, 0), (0, 0));
    assert_eq!(scrubbed(2, 2), (1, 1));
    assert_eq!(scrubbed(2, 2), (1, 1), "of each scrub once");
    assert_eq!(scrubbed(3, 2), (2, 1));
    assert_eq!(scrubbed(4, 0), (2, 0));
}

/// Where the map has too few OSDs, copies stay on others and are misplaced: nothing is to be waited for.
#[test]
fn copies_that_have_no_other_place_are_told_and_are_no_work() {
    let (mut h, sessions) = long_idle();
    let told = |h: &Harness| {
        let totals = h.monitor.volatile().totals(None);
        (totals.complaints().join(", "), totals.healing_bytes)
    };
    let state = pg_state::ACTIVE | pg_state::CLEAN | pg_state::REMAPPED;
    let stays = nacre::PgReport { objects: 2, bytes: 8192, misplaced_copies: 2, ..group(&h, 0, state) };
    h.beacon(sessions[0], 0, vec![stays.clone()]);
    assert_eq!(told(&h), ("2/6 objects misplaced (33.333%)".to_owned(), 0));
    assert!(alarms(&h).iter().all(|(code, _)| !code.starts_with("PG_")), "{:?}", alarms(&h));
    let sequence = stays.sequence + 1;
    h.beacon(sessions[0], 0, vec![nacre::PgReport { state: pg_state::ACTIVE | pg_state::REMAPPED, sequence, ..stays }]);
    assert!(told(&h).1 >= 8192, "these are to be copied: {}", told(&h).1);
}

#[test]
fn objects_with_large_omaps_are_counted_by_pool() {
    let (mut h, sessions) = long_idle();
    let mut scrubbed = |deep_at: u32, large_omaps| {
        let deep_at = Utime { sec: deep_at, nsec: 0 };
        let scrub = nacre::PgScrubReport { deep_at, large_omaps, ..Default::default() };
        let report = nacre::PgReport { scrub, ..group(&h, 0, pg_state::ACTIVE | pg_state::CLEAN) };
        h.beacon(sessions[0], 0, vec![report]);
        h.pass(secs(2));
        let report = crate::health::evaluate(h.monitor.state(), h.monitor.volatile());
        let check = report.checks.get("LARGE_OMAP_OBJECTS");
        check.map(|check| (check.summary.clone(), check.count, check.detail.clone()))
    };
    assert_eq!(scrubbed(1, 0), None);
    let detail =
        ["2 large objects found in pool 'x'", "Search the cluster log for 'Large omap object found' for more details."];
    let raised = Some(("2 large omap objects".to_owned(), 2, detail.map(str::to_owned).to_vec()));
    assert_eq!(scrubbed(2, 2), raised);
    assert_eq!(scrubbed(3, 0), None);
}
