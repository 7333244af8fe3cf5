//! Erasure-coded pools get fewer placement groups: shards are put in order before groups are merged.

use super::balancing::{CLEAN, live};
use super::harness::*;
use super::prelude::*;
use crate::health::evaluate;
use osdmap::{PgPool, TempSet, shards_to_be};

const POOL: PoolId = PoolId(1);
const NO_ROOM: &str = "POOL_PG_MERGE_NO_ROOM";

/// Returns a clean cluster with an erasure-coded pool of two data shards and one parity.
fn coded(osds: i32, groups: u32) -> (Harness, Vec<SessionId>) {
    let mut h = Harness::new();
    let sessions: Vec<SessionId> = (0..osds).map(|id| h.boot(id)).collect();
    let client = h.client();
    let profile = r#"{"prefix": "osd erasure-code-profile set", "name": "p", "profile": ["k=2", "m=1"]}"#;
    let pool = format!(
        r#"{{"prefix": "osd pool create", "pool": "e", "pg_num": {groups},
            "pool_type": "erasure", "erasure_code_profile": "p"}}"#
    );
    for command in [r#"{"prefix": "balancer off"}"#, profile, &pool] {
        let ack = h.command(client, command);
        assert_eq!(ack.result, 0, "{}", ack.status);
    }
    live(&mut h, &sessions, CLEAN, 10);
    (h, sessions)
}

fn set(h: &mut Harness, var: &str, val: &str) {
    let client = h.client();
    let command = format!(r#"{{"prefix": "osd pool set", "pool": "e", "var": "{var}", "val": "{val}"}}"#);
    let ack = h.command(client, &command);
    assert_eq!(ack.result, 0, "{}", ack.status);
}

fn pool(h: &Harness) -> &PgPool {
    &h.map().pools[&POOL]
}

fn pg(seed: u32) -> PgId {
    PgId { pool: POOL, seed }
}

fn acting(h: &Harness, seed: u32) -> Vec<OsdId> {
    h.map().pg_to_up_acting(pg(seed)).unwrap().acting
}

/// Gives a group's OSDs each other's shards.
fn turn(h: &mut Harness, seed: u32) {
    let mut turned = acting(h, seed);
    turned.rotate_left(1);
    h.change(|incremental| drop(incremental.new_pg_temp.insert(pg(seed), turned.into())));
}

/// Has the primary of a group that is to be elsewhere ask for the acting set that has everything.
fn bring(h: &mut Harness, sessions: &[SessionId], seed: u32, epoch: Epoch) {
    let placed = h.map().pg_to_up_acting(pg(seed)).unwrap();
    let wanted = shards_to_be(&placed.acting, &placed.up);
    let osds = if wanted == placed.up { Vec::new() } else { wanted };
    let primary = placed.acting_primary.unwrap();
    h.say(sessions[primary.index()], nacre::PgTemp { epoch, pgs: vec![(pg(seed), osds)] });
}

/// Returns the groups that are to be elsewhere.
fn on_their_way(h: &Harness) -> Vec<u32> {
    let is = |seed: &u32| {
        let placed = h.map().pg_to_up_acting(pg(*seed)).unwrap();
        shards_to_be(&placed.acting, &placed.up) != placed.acting
    };
    (0..pool(h).pg_num).filter(is).collect()
}

/// Has OSDs bring everything to its place, and report.
fn work(h: &mut Harness, sessions: &[SessionId]) {
    for seed in on_their_way(h) {
        let epoch = h.map().epoch;
        bring(h, sessions, seed, epoch);
    }
    h.pass(secs(1));
    live(h, sessions, CLEAN, 5);
}

fn is_stopping(h: &Harness) -> bool {
    pool(h).pg_num_pending < pool(h).pg_num
}

fn has_alarm(h: &Harness) -> bool {
    evaluate(h.monitor.state(), h.monitor.volatile()).checks.contains_key(NO_ROOM)
}

#[test]
fn groups_stop_once_each_osd_has_the_same_shard_of_both() {
    let (mut h, sessions) = coded(5, 8);
    let client = h.client();
    // All copies may move at once.
    let half = r#"{"prefix": "config set", "who": "mgr", "name": "target_max_misplaced_ratio", "value": "1"}"#;
    assert_eq!(h.command(client, half).result, 0);
    set(&mut h, "pgp_num", "4");
    while pool(&h).pgp_num > 4 {
        work(&mut h, &sessions);
    }
    for seed in [2, 5, 7] {
        turn(&mut h, seed);
    }
    let wanted: Vec<Vec<OsdId>> = (0..4).map(|seed| acting(&h, seed)).collect();
    live(&mut h, &sessions, CLEAN, 5);
    set(&mut h, "pg_num", "4");
    let mut before: Vec<Vec<OsdId>> = (0..8).map(|seed| acting(&h, seed)).collect();
    for round in 0.. {
        assert!(round < 60, "{before:?}");
        work(&mut h, &sessions);
        let now: Vec<Vec<OsdId>> = (0..8).map(|seed| acting(&h, seed)).collect();
        for (a, b) in before.iter().zip(&now) {
            assert!(a.iter().zip(b).filter(|(a, b)| a != b).count() <= 1, "from {a:?} to {b:?}: a shard at a time");
            let stays =
                |(shard, osd): (usize, &OsdId)| b.iter().position(|other| other == osd).is_none_or(|at| at == shard);
            assert!(a.iter().enumerate().all(stays), "from {a:?} to {b:?}: nobody gets another shard than it has");
        }
        before = now;
        if is_stopping(&h) {
            break;
        }
    }
    assert_eq!(pool(&h).pg_num_pending, 4, "all at once, as all are in order");
    assert_eq!(before[..4], wanted, "what stays does not move");
    assert_eq!(before[4..], wanted);
    assert!(h.map().pg_upmap.is_empty() && on_their_way(&h).is_empty(), "nothing is left of the way");
    let excepted: Vec<u32> = h.map().pg_temp.keys().map(|pg| pg.seed).collect();
    assert_eq!(excepted, [2, 6]);
    assert!(!has_alarm(&h));
}

#[test]
fn groups_that_are_in_order_do_not_wait_for_others() {
    let (mut h, sessions) = coded(4, 8);
    set(&mut h, "pg_num", "4");
    // The last group is ordered as its partner is; one before it is not.
    while pool(&h).pgp_num > 4 {
        work(&mut h, &sessions);
    }
    h.change(|incremental| (0..8).for_each(|seed| drop(incremental.new_pg_temp.insert(pg(seed), TempSet::default()))));
    turn(&mut h, 5);
    for _ in 0..20 {
        if !is_stopping(&h) {
            work(&mut h, &sessions);
        }
    }
    assert_eq!(pool(&h).pg_num_pending, 6);
}

#[test]
fn an_alarm_tells_that_no_osd_is_spare() {
    let (mut h, mut sessions) = coded(3, 8);
    set(&mut h, "pgp_num", "4");
    while pool(&h).pgp_num > 4 {
        work(&mut h, &sessions);
    }
    turn(&mut h, 7);
    set(&mut h, "pg_num", "4");
    for _ in 0..4 {
        work(&mut h, &sessions);
        assert!(!is_stopping(&h));
    }
    assert!(h.map().pg_upmap.is_empty());
    let report = evaluate(h.monitor.state(), h.monitor.volatile());
    let alarm = &report.checks[NO_ROOM];
    assert_eq!(alarm.summary, "1 pool(s) cannot merge placement groups for want of a spare OSD");
    let detail = &alarm.detail[0];
    assert!(detail.starts_with("pool 'e' should have 4 placement groups and has 8: 1.7 and 1.3 have"), "{detail}");
    assert!(detail.ends_with("add such an OSD, or set pg_num to 8 again"), "{detail}");
    sessions.push(h.boot(3));
    for round in 0.. {
        assert!(round < 60);
        work(&mut h, &sessions);
        if is_stopping(&h) {
            break;
        }
    }
    assert!(!has_alarm(&h));
}

#[test]
fn groups_that_are_in_order_need_no_spare_osd() {
    let (mut h, sessions) = coded(3, 8);
    set(&mut h, "pg_num", "4");
    for round in 0.. {
        assert!(round < 20);
        work(&mut h, &sessions);
        if is_stopping(&h) {
            break;
        }
    }
    assert_eq!(pool(&h).pg_num_pending, 4);
}

/// Returns a cluster with a group that is on its way to another order, and the epoch in which that began.
fn underway() -> (Harness, Vec<SessionId>, Epoch) {
    let (mut h, sessions) = coded(5, 8);
    set(&mut h, "pgp_num", "4");
    while pool(&h).pgp_num > 4 {
        work(&mut h, &sessions);
    }
    turn(&mut h, 7);
    set(&mut h, "pg_num", "4");
    for _ in 0..10 {
        if h.map().pg_upmap.is_empty() {
            live(&mut h, &sessions, CLEAN, 5);
        }
    }
    assert_eq!(on_their_way(&h), [7]);
    let since = h.map().epoch;
    (h, sessions, since)
}

#[test]
fn what_was_asked_for_before_a_step_does_not_end_it() {
    let (mut h, sessions, since) = underway();
    bring(&mut h, &sessions, 7, Epoch(since.0 - 1));
    h.pass(secs(1));
    assert_eq!(on_their_way(&h), [7]);
    bring(&mut h, &sessions, 7, since);
    h.pass(secs(1));
    assert!(on_their_way(&h).is_empty());
}

#[test]
fn nothing_is_left_of_the_way_if_more_are_wanted_after_all() {
    let (mut h, sessions, _) = underway();
    let before = acting(&h, 7);
    set(&mut h, "pg_num", "8");
    assert!(h.map().pg_upmap.is_empty());
    assert_eq!(acting(&h, 7), before, "it goes on where it is");
    for _ in 0..10 {
        work(&mut h, &sessions);
    }
    assert_eq!((pool(&h).pg_num, pool(&h).pgp_num), (8, 8));
}

#[test]
fn what_is_too_much_goes_by_itself_only_where_an_osd_is_spare() {
    let (mut h, mut sessions) = coded(3, 128);
    set(&mut h, "pg_autoscale_mode", "on");
    live(&mut h, &sessions, CLEAN, 130);
    assert_eq!(pool(&h).pg_num_target, 128);
    sessions.push(h.boot(3));
    live(&mut h, &sessions, CLEAN, 130);
    assert_eq!(pool(&h).pg_num_target, 32);
}

/// Returns where the group is wanted, and who acts.
fn sets(h: &Harness, seed: u32) -> [Vec<OsdId>; 2] {
    let placed = h.map().pg_to_up_acting(pg(seed)).unwrap();
    [placed.up, placed.acting]
}

#[test]
fn a_clean_group_is_wanted_in_the_order_of_its_shards() {
    let (mut h, sessions) = coded(5, 8);
    let by_crush: Vec<Vec<OsdId>> = (0..8).map(|seed| acting(&h, seed)).collect();
    turn(&mut h, 3);
    let order = acting(&h, 3);
    assert_ne!(order, by_crush[3]);
    live(&mut h, &sessions, CLEAN, 5);
    assert_eq!(sets(&h, 3), [order.clone(), order.clone()], "place by place");
    assert!(h.map().pg_temp.is_empty() && h.map().has_order(pg(3)));
    // The primary asks for what holds already, by an older map.
    let primary = sessions[order[0].index()];
    h.say(primary, nacre::PgTemp { epoch: Epoch(h.map().epoch.0 - 1), pgs: vec![(pg(3), order.clone())] });
    live(&mut h, &sessions, CLEAN, 5);
    assert!(h.map().pg_temp.is_empty());
    // Fewer groups: the order is an acting set again, which the steps to the merge begin with.
    set(&mut h, "pg_num", "4");
    assert!(h.map().pg_upmap.is_empty());
    assert_eq!(sets(&h, 3), [by_crush[3].clone(), order.clone()]);
    set(&mut h, "pg_num", "8");
    live(&mut h, &sessions, CLEAN, 5);
    assert_eq!(sets(&h, 3), [order.clone(), order], "and an order once no merge is wanted");
}

#[test]
fn an_order_ends_where_crush_gives_other_osds() {
    let (mut h, sessions) = coded(5, 8);
    (0..8).for_each(|seed| turn(&mut h, seed));
    live(&mut h, &sessions, CLEAN, 5);
    let orders: Vec<Vec<OsdId>> = (0..8).map(|seed| acting(&h, seed)).collect();
    assert_eq!(h.map().pg_upmap.len(), 8);
    let gone = OsdId(2);
    h.change(|incremental| _ = incremental.new_weight.insert(gone, 0));
    for (seed, order) in (0..).zip(&orders) {
        let [up, acting] = sets(&h, seed);
        let is_kept = h.map().pg_upmap.contains_key(&pg(seed));
        assert_eq!(&acting, order, "{seed}: it goes on with those who have its shards");
        assert!(!up.contains(&gone), "{seed}: {up:?}");
        assert_eq!(is_kept, !order.contains(&gone) && up == *order, "{seed}: {up:?}, {order:?}");
        assert_eq!(is_kept, !h.map().pg_temp.contains_key(&pg(seed)), "{seed}");
    }
    assert!(h.map().pg_upmap.len() < 8);
    for _ in 0..4 {
        work(&mut h, &sessions);
    }
    for seed in 0..8 {
        let [up, acting] = sets(&h, seed);
        assert_eq!(up, acting, "{seed}");
    }
    assert!(h.map().pg_temp.is_empty(), "{:?}", h.map().pg_temp);
}

#[test]
fn an_order_outlasts_the_balancer_s_looks_and_exchanges() {
    let (mut h, sessions) = coded(5, 8);
    turn(&mut h, 3);
    live(&mut h, &sessions, CLEAN, 5);
    let order = acting(&h, 3);
    let (from, to) = (order[1], (0..5).map(OsdId).find(|osd| !order.contains(osd)).unwrap());
    h.change(|incremental| drop(incremental.new_pg_upmap_items.insert(pg(3), vec![(from, to)])));
    live(&mut h, &sessions, CLEAN, 10);
    let wanted: Vec<OsdId> = order.iter().map(|osd| if *osd == from { to } else { *osd }).collect();
    assert_eq!(sets(&h, 3)[0], wanted);
    assert_eq!(h.map().pg_upmap[&pg(3)], order);
    assert_eq!(h.map().pg_upmap_items[&pg(3)], [(from, to)], "the exchange makes sense");
}

#[test]
fn no_order_is_shown_to_clients_that_do_not_understand_it() {
    let (mut h, sessions) = coded(5, 8);
    h.change(|incremental| incremental.new_require_min_compat_client = Some(wire::Release::JEWEL));
    turn(&mut h, 3);
    live(&mut h, &sessions, CLEAN, 5);
    assert!(h.map().pg_upmap.is_empty() && h.map().pg_temp.contains_key(&pg(3)));
}
