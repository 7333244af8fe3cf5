//! Pools get more placement groups, or fewer.

use super::balancing::{CLEAN, live, uneven};
use super::harness::*;
use super::prelude::*;
use osdmap::PgPool;

const POOL: PoolId = PoolId(1);

fn set(h: &mut Harness, var: &str, val: u32) {
    let client = h.client();
    let command = format!(r#"{{"prefix": "osd pool set", "pool": "p", "var": "{var}", "val": "{val}"}}"#);
    let ack = h.command(client, &command);
    assert_eq!(ack.result, 0, "{}", ack.status);
}

fn pool(h: &Harness) -> &PgPool {
    &h.map().pools[&POOL]
}

#[test]
fn the_number_doubles_while_groups_are_clean_and_placement_follows_in_small_steps() {
    let (mut h, sessions) = uneven();
    let client = h.client();
    h.command(client, r#"{"prefix": "balancer off"}"#);
    live(&mut h, &sessions, CLEAN, 10);
    set(&mut h, "pg_num", 130);
    live(&mut h, &sessions, pg_state::ACTIVE, 30);
    assert_eq!(pool(&h).pg_num, 64, "not while they are not clean");
    let mut seen = vec![(64, 64)];
    for _ in 0..100 {
        live(&mut h, &sessions, CLEAN, 5);
        let now = (pool(&h).pg_num, pool(&h).pgp_num);
        assert_eq!(pool(&h).pg_num_pending, now.0);
        if seen.last() != Some(&now) {
            seen.push(now);
        }
    }
    assert_eq!(seen[..3], [(64, 64), (128, 64), (130, 64)]);
    assert_eq!(seen.last(), Some(&(130, 130)));
    let moved = |(_, a): &(u32, u32), (_, b): &(u32, u32)| {
        (0..130).filter(|seed| osdmap::split_parent(*seed, *a) != osdmap::split_parent(*seed, *b)).count()
    };
    for pair in seen[2..].windows(2) {
        assert!(moved(&pair[0], &pair[1]) <= 3, "{pair:?}: at most a fortieth at a time");
    }
}

#[test]
fn nothing_moves_when_groups_are_split() {
    let (mut h, sessions) = uneven();
    let client = h.client();
    live(&mut h, &sessions, CLEAN, 600);
    assert!(!h.map().pg_upmap_items.is_empty(), "some are placed by exceptions");
    h.command(client, r#"{"prefix": "balancer off"}"#);
    let stands_in = PgId::new(1, 7);
    let turned: Vec<OsdId> = h.map().pg_to_up_acting(stands_in).unwrap().acting.into_iter().rev().collect();
    h.change(|incremental| drop(incremental.new_pg_temp.insert(stands_in, turned.into())));
    let before: Vec<_> = h.map().pgs().map(|pg| h.map().pg_to_up_acting(pg).unwrap()).collect();
    set(&mut h, "pgp_num", 63);
    set(&mut h, "pg_num", 128);
    // Reports are of groups that are not misplaced, so placement would change next.
    while pool(&h).pg_num == 64 {
        live(&mut h, &sessions, CLEAN, 5);
    }
    for pg in h.map().pgs() {
        assert_eq!(h.map().pg_to_up_acting(pg).unwrap(), before[pg.seed as usize % 64], "{pg}");
    }
}

fn activate(h: &mut Harness, session: SessionId, pgid: PgId, since: Epoch) -> usize {
    let acting = h.map().pg_to_up_acting(pgid).unwrap().acting;
    let pgs = vec![nacre::PgActivation {
        pgid,
        interval_since: since,
        acting: acting.clone(),
        members: acting,
        recovered: true,
        member_shards: Vec::new(),
        basis: None,
    }];
    let epoch = h.map().epoch;
    h.say(session, nacre::PgActivate { epoch, pgs });
    h.heard::<nacre::PgActivated>(session).pop().expect("an answer").pgs.len()
}

#[test]
fn what_is_known_of_a_group_is_known_of_those_that_come_of_it() {
    let (mut h, sessions) = uneven();
    let primary =
        |h: &Harness, pg: PgId| sessions[h.map().pg_to_up_acting(pg).unwrap().acting_primary.unwrap().index()];
    let (served, never_served) = (PgId::new(1, 3), PgId::new(1, 4));
    let (of_served, of_never_served, new) = (PgId::new(1, 67), PgId::new(1, 68), PgId::new(1, 70));
    let before = h.map().epoch;
    let session = primary(&h, served);
    assert_eq!(activate(&mut h, session, served, before), 1);
    let known = h.monitor.state().pgs[&served].clone();
    let grow = |h: &mut Harness, pg_num: u32| {
        h.change(|incremental| {
            drop(incremental.new_pools.insert(POOL, PgPool { pg_num, ..PgPool::replicated(3, 64, 0) }))
        });
        h.map().epoch
    };
    let first = grow(&mut h, 70);
    for pg in [served, of_served] {
        let record = &h.monitor.state().pgs[&pg];
        assert_eq!((&record.members, record.last_epoch_started), (&known.members, known.last_epoch_started));
        assert_eq!(record.range_since, first);
    }
    // A primary that asks for an interval from before the split has not heard of it.
    for pg in [served, of_served, never_served, of_never_served] {
        let session = primary(&h, pg);
        assert_eq!(activate(&mut h, session, pg, before), 0, "{pg}");
        assert_eq!(activate(&mut h, session, pg, first), 1, "{pg}");
    }
    // Groups that were not split go on.
    let untouched = PgId::new(1, 20);
    let session = primary(&h, untouched);
    assert_eq!(activate(&mut h, session, untouched, before), 1);
    let second = grow(&mut h, 71);
    assert_eq!(h.monitor.state().pgs[&served].range_since, first);
    assert_eq!(h.monitor.state().pgs[&new].range_since, second);
    // Other monitors, and this one after a restart, have the same records.
    let log = h.log.clone();
    let mut state = MonState::default();
    for (index, batch) in &log {
        state.apply(*index, &Batch::from_slice(batch).unwrap());
    }
    assert_eq!(state.pgs, h.monitor.state().pgs);
    let snapshot = MonState::from_slice(&state.to_vec(Target::PACIFIC)).unwrap();
    assert_eq!(snapshot.pgs, state.pgs);
}

#[test]
fn pools_that_leave_it_to_the_cluster_get_enough() {
    let (mut h, sessions) = uneven();
    let client = h.client();
    // A small pool is made that will have all the data.
    h.change(|incremental| {
        incremental.new_pool_max = Some(2);
        incremental.new_pool_names.insert(PoolId(2), "q".to_owned());
        incremental.new_pools.insert(PoolId(2), PgPool::replicated(3, 8, 0));
    });
    live(&mut h, &sessions, CLEAN, 100);
    assert_eq!(h.map().pools[&PoolId(2)].pg_num_target, 8, "not unless it is told to");
    for (var, val) in [("target_size_ratio", "0.9"), ("pg_autoscale_mode", "on")] {
        let command = format!(r#"{{"prefix": "osd pool set", "pool": "q", "var": "{var}", "val": "{val}"}}"#);
        assert_eq!(h.command(client, &command).result, 0);
    }
    let status = |h: &mut Harness| {
        let answer = h.command(client, r#"{"prefix": "osd pool autoscale-status"}"#);
        String::from_utf8(answer.output.to_vec()).unwrap()
    };
    let before = status(&mut h);
    assert!(before.contains("256"), "{before}");
    live(&mut h, &sessions, CLEAN, 200);
    assert_eq!((h.map().pools[&PoolId(2)].pg_num, pool(&h).pg_num), (256, 64));
    assert!(!status(&mut h).contains(" 256 256 "));
}

fn merging(h: &Harness) -> Vec<PgId> {
    let pool = pool(h);
    pool.pgs(POOL).filter(|pg| osdmap::is_merging(pg.seed, pool.pg_num, pool.pg_num_pending)).collect()
}

/// Lets OSDs report everything clean until groups stop. Returns the epoch since which they have.
fn until_groups_stop(h: &mut Harness, sessions: &[SessionId]) -> Epoch {
    for _ in 0..100 {
        if pool(h).pg_num_pending < pool(h).pg_num {
            return pool(h).last_force_op_resend_prenautilus;
        }
        live(h, sessions, CLEAN, 5);
    }
    panic!("{:?}", pool(h));
}

#[test]
fn groups_are_merged_once_they_have_stopped() {
    let (mut h, sessions) = uneven();
    let client = h.client();
    h.command(client, r#"{"prefix": "balancer off"}"#);
    live(&mut h, &sessions, CLEAN, 10);
    set(&mut h, "pg_num", 40);
    let stopped = until_groups_stop(&mut h, &sessions);
    assert_eq!((pool(&h).pg_num, pool(&h).pgp_num, pool(&h).pg_num_pending), (64, 40, 48), "placement goes first");
    assert_eq!(merging(&h).len(), 32);
    // The groups do not stop in time.
    h.pass(secs(8));
    assert_eq!((pool(&h).pg_num, pool(&h).pg_num_pending), (64, 64));
    let stopped_again = until_groups_stop(&mut h, &sessions);
    assert!(stopped_again > stopped);
    let primary =
        |h: &Harness, pg: PgId| sessions[h.map().pg_to_up_acting(pg).unwrap().acting_primary.unwrap().index()];
    let groups = merging(&h);
    for pg in &groups[1..] {
        let session = primary(&h, *pg);
        assert_eq!(activate(&mut h, session, *pg, stopped_again), 1);
    }
    h.pass(secs(1));
    assert_eq!(pool(&h).pg_num, 64, "one has not stopped");
    let session = primary(&h, groups[0]);
    activate(&mut h, session, groups[0], stopped_again);
    h.pass(secs(1));
    assert_eq!((pool(&h).pg_num, pool(&h).pg_num_pending), (48, 48));
    let epoch = pool(&h).last_pg_merge_meta.ready_epoch;
    assert!(epoch > stopped_again);
    for pg in groups {
        let record = h.monitor.state().pgs.get(&pg);
        assert_eq!(record.is_some(), pg.seed < 48);
        let Some(record) = record.cloned() else { continue };
        assert_eq!((record.last_epoch_started, record.range_since), (stopped_again, epoch));
        // A primary that asks for the interval from before the merge has not heard of it.
        let session = primary(&h, pg);
        assert_eq!(activate(&mut h, session, pg, stopped_again), 0, "{pg}");
    }
    // A merged group must serve first.
    live(&mut h, &sessions, CLEAN, 20);
    assert_eq!(pool(&h).pg_num_pending, 48);
    for pg in (0..48).map(|seed| PgId { pool: POOL, seed }) {
        let (session, now) = (primary(&h, pg), h.map().epoch);
        assert_eq!(activate(&mut h, session, pg, now), 1, "{pg}");
    }
    until_groups_stop(&mut h, &sessions);
    assert_eq!(pool(&h).pg_num_pending, 40);
    // One of the groups concerned is put elsewhere: they serve again.
    let moved = merging(&h)[0];
    let turned: Vec<OsdId> = h.map().pg_to_up_acting(moved).unwrap().acting.into_iter().rev().collect();
    h.change(|incremental| drop(incremental.new_pg_temp.insert(moved, turned.into())));
    h.pass(secs(1));
    assert_eq!((pool(&h).pg_num, pool(&h).pg_num_pending), (48, 48));
    // The pool is to have more groups after all.
    set(&mut h, "pg_num", 64);
    for _ in 0..20 {
        live(&mut h, &sessions, CLEAN, 10);
    }
    assert_eq!((pool(&h).pg_num, pool(&h).pgp_num), (64, 64));
}

#[test]
fn groups_that_are_to_be_merged_are_placed_alike() {
    let (mut h, sessions) = uneven();
    let client = h.client();
    h.command(client, r#"{"prefix": "balancer off"}"#);
    // Exceptions place a group that goes, and one that stays.
    for seed in [40, 9] {
        let pg = PgId { pool: POOL, seed };
        let up = h.map().pg_to_up_acting(pg).unwrap().up;
        let other = (0..6).map(OsdId).find(|osd| !up.contains(osd)).unwrap();
        h.change(|incremental| drop(incremental.new_pg_upmap_items.insert(pg, vec![(up[2], other)])));
    }
    set(&mut h, "pg_num", 32);
    until_groups_stop(&mut h, &sessions);
    for source in 32..64 {
        let of = |seed| h.map().pg_to_up_acting(PgId { pool: POOL, seed }).unwrap();
        assert_eq!(of(source), of(source - 32), "{source}");
    }
    let excepted: Vec<u32> = h.map().pg_upmap_items.keys().map(|pg| pg.seed).collect();
    assert_eq!(excepted, [9, 41]);
}

#[test]
fn pools_that_leave_it_to_the_cluster_get_rid_of_what_is_too_much() {
    let (mut h, sessions) = uneven();
    let client = h.client();
    h.change(|incremental| {
        incremental.new_pool_max = Some(2);
        incremental.new_pool_names.insert(PoolId(2), "q".to_owned());
        incremental.new_pools.insert(PoolId(2), PgPool::replicated(3, 128, 0));
    });
    live(&mut h, &sessions, CLEAN, 100);
    assert_eq!(h.map().pools[&PoolId(2)].pg_num_target, 128, "not unless it is told to");
    let command = r#"{"prefix": "osd pool set", "pool": "q", "var": "pg_autoscale_mode", "val": "on"}"#;
    assert_eq!(h.command(client, command).result, 0);
    live(&mut h, &sessions, CLEAN, 100);
    let q = &h.map().pools[&PoolId(2)];
    assert_eq!((q.pg_num_target, q.pgp_num_target, pool(&h).pg_num_target), (32, 32, 64));
}

#[test]
fn a_pool_keeps_as_many_groups_as_an_osd_has_shards() {
    let (mut h, sessions) = uneven();
    let client = h.client();
    h.command(client, r#"{"prefix": "balancer off"}"#);
    live(&mut h, &sessions, CLEAN, 10);
    set(&mut h, "pg_num", 40);
    // The OSD starts anew, with another store.
    let mut boot = boot_message(2, "host2", 2);
    boot.metadata.insert(nacre::OSD_SHARDS.to_owned(), "56".to_owned());
    h.say(sessions[2], boot);
    h.pass(Duration::from_millis(200));
    let fewer = r#"{"prefix": "osd pool set", "pool": "p", "var": "pg_num", "val": "30"}"#;
    let ack = h.command(client, fewer);
    assert_eq!(ack.result, Errno::EINVAL.as_result(), "{}", ack.status);
    assert!(ack.status.contains("specified pg_num 30 < 56, the number of shards of osd.2"), "{}", ack.status);
    assert_eq!(pool(&h).pg_num_target, 40);
    until_groups_stop(&mut h, &sessions);
    assert_eq!((pool(&h).pg_num, pool(&h).pg_num_pending), (64, 56), "without it, 48 would be next");
}
