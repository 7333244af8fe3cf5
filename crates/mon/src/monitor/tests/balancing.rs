//! The balancer's rounds.

use super::harness::*;
use super::prelude::*;
use osdmap::{PgMapping, PgPool, spread};

/// Returns a cluster with six OSDs and a pool that CRUSH spreads unevenly.
pub(super) fn uneven() -> (Harness, Vec<SessionId>) {
    let mut h = Harness::new();
    let sessions = (0..6).map(|id| h.boot(id)).collect();
    h.change(|incremental| {
        incremental.new_pool_max = Some(1);
        incremental.new_pool_names.insert(PoolId(1), "p".to_owned());
        incremental.new_pools.insert(PoolId(1), PgPool::replicated(3, 64, 0));
    });
    (h, sessions)
}

/// Has every OSD report its groups, which are in `state`, for `seconds`.
pub(super) fn live(h: &mut Harness, sessions: &[SessionId], state: u64, seconds: u64) {
    for _ in 0..seconds.div_ceil(5) {
        for (id, session) in sessions.iter().enumerate() {
            let map = h.map().clone();
            let report = |pgid: PgId| {
                let placed = map.pg_to_up_acting(pgid).unwrap();
                let leads = placed.acting_primary == Some(OsdId(id as i32));
                leads.then(|| nacre::PgReport {
                    pgid,
                    state,
                    epoch: map.epoch,
                    objects: 10,
                    up: placed.up,
                    acting: placed.acting,
                    ..nacre::PgReport::default()
                })
            };
            let reports = map.pgs().filter_map(report).collect();
            h.beacon(*session, id as i32, reports);
        }
        h.pass(secs(5));
    }
}

fn unevenness(h: &Harness) -> f64 {
    spread(h.map(), &PgMapping::compute(h.map()), None).pool_deviation_max
}

pub(super) const CLEAN: u64 = pg_state::ACTIVE | pg_state::CLEAN;

#[test]
fn what_is_clean_is_balanced_in_small_rounds() {
    let (mut h, sessions) = uneven();
    let before = unevenness(&h);
    assert!(before > 2.0, "CRUSH alone is uneven: {before}");
    live(&mut h, &sessions, CLEAN | pg_state::DEGRADED, 130);
    assert_eq!(unevenness(&h), before, "not while copies are lacking");
    let mut rounds = 0;
    while unevenness(&h) > 1.0 {
        let moved = h.map().pg_upmap_items.len();
        live(&mut h, &sessions, CLEAN, 60);
        assert!(h.map().pg_upmap_items.len() <= moved + 10, "small rounds");
        rounds += 1;
        assert!(rounds < 20);
    }
    // The remaining moves are of copies of all pools together.
    live(&mut h, &sessions, CLEAN, 200);
    let epoch = h.map().epoch;
    live(&mut h, &sessions, CLEAN, 200);
    assert_eq!(h.map().epoch, epoch, "what is even is left alone");
    let client = h.client();
    let status = h.command(client, r#"{"prefix": "balancer status"}"#).output;
    let status = String::from_utf8(status.to_vec()).unwrap();
    assert!(status.contains(r#""no_optimization_needed": true"#) && status.contains("already perfect"), "{status}");
}

#[test]
fn it_can_be_switched_off_and_on() {
    let (mut h, sessions) = uneven();
    let client = h.client();
    assert_eq!(h.command(client, r#"{"prefix": "balancer off"}"#).result, 0);
    live(&mut h, &sessions, CLEAN, 130);
    assert!(h.map().pg_upmap_items.is_empty());
    assert_eq!(h.command(client, r#"{"prefix": "balancer on"}"#).result, 0);
    let faster = r#"{"prefix": "config set", "who": "mgr", "name": "mgr/balancer/sleep_interval", "value": "5"}"#;
    assert_eq!(h.command(client, faster).result, 0);
    live(&mut h, &sessions, CLEAN, 10);
    assert!(!h.map().pg_upmap_items.is_empty());
}

/// Where pools are named, others stay as they are.
#[test]
fn only_pools_that_are_named_are_balanced() {
    let (mut h, sessions) = uneven();
    let client = h.client();
    let command = |h: &mut Harness, line: &str| h.command(client, line).result;
    assert_eq!(
        command(&mut h, r#"{"prefix": "config set", "who": "mgr", "name": "mgr/balancer/pool_ids", "value": "77"}"#),
        0
    );
    live(&mut h, &sessions, CLEAN, 130);
    assert!(h.map().pg_upmap_items.is_empty());
    let name = h.map().pool_names[&PoolId(1)].clone();
    assert_eq!(command(&mut h, &format!(r#"{{"prefix": "balancer pool add", "pools": ["{name}"]}}"#)), 0);
    live(&mut h, &sessions, CLEAN, 130);
    assert!(!h.map().pg_upmap_items.is_empty());
    assert!(h.map().pg_upmap_items.keys().all(|pg| pg.pool == PoolId(1)));
}

#[test]
fn exceptions_to_osds_that_are_out_go() {
    let (mut h, sessions) = uneven();
    let client = h.client();
    h.command(client, r#"{"prefix": "balancer off"}"#);
    let pg = PgId::new(1, 3);
    let raw = h.map().pg_to_osds_raw(pg).unwrap();
    let other = (0..6).map(OsdId).find(|osd| !raw.contains(osd)).unwrap();
    h.change(|incremental| drop(incremental.new_pg_upmap_items.insert(pg, vec![(raw[0], other)])));
    live(&mut h, &sessions, CLEAN, 10);
    assert_eq!(h.map().pg_upmap_items.len(), 1);
    h.change(|incremental| incremental.mark_out(other));
    live(&mut h, &sessions, CLEAN, 10);
    assert!(h.map().pg_upmap_items.is_empty());
}

#[test]
fn a_new_pool_is_placed_evenly() {
    let (mut h, _) = uneven();
    let client = h.client();
    let ack = h.command(client, r#"{"prefix": "osd pool create", "pool": "q", "pg_num": 32}"#);
    assert_eq!(ack.result, 0, "{}", ack.status);
    let id = h.map().pool_by_name("q").unwrap();
    let only = std::collections::BTreeSet::from([id]);
    let spread = spread(h.map(), &PgMapping::compute(h.map()), Some(&only));
    assert!(spread.pool_deviation_max <= 1.0, "{spread:?}");
}
