//! Pools, their groups and statistics.

use super::harness::*;
use super::prelude::*;

#[test]
fn pools_are_made_and_deleted() {
    let mut h = Harness::new();
    let client = h.client();
    for id in 0..3 {
        h.boot(id);
    }
    let reply = h.pool_op(client, msg::PoolOpKind::CREATE, 0, "x");
    assert_eq!((reply.result, reply.epoch), (0, h.map().epoch));
    let id = h.map().pool_by_name("x").unwrap();
    let pool = &h.map().pools[&id];
    assert_eq!((pool.size, pool.min_size, pool.pg_num), (3, 2, 32));
    assert_eq!(h.monitor.volatile().pgs.len(), 32);
    assert_eq!(h.pool_op(client, msg::PoolOpKind::CREATE, 0, "x").result, 0, "there is there");
    assert_eq!(h.map().pools.len(), 1);
    assert_eq!(h.pool_op(client, msg::PoolOpKind::CREATE, 0, "").result, Errno::EINVAL.as_result());
    assert_eq!(h.pool_op(client, msg::PoolOpKind::DELETE, id.0 as u32, "").result, 0);
    assert_eq!(h.map().pool_by_name("x"), None);
    assert_eq!(h.monitor.volatile().pgs.len(), 0);
    assert_eq!(h.pool_op(client, msg::PoolOpKind::DELETE, id.0 as u32, "").result, 0, "gone is gone");
    h.pool_op(client, msg::PoolOpKind::CREATE, 0, "x");
    assert_eq!(h.map().pool_by_name("x"), Some(PoolId(id.0 + 1)), "numbers are never used again");
}

#[test]
fn snapshots_by_name_and_by_number_exclude_each_other() {
    use msg::PoolOpKind as Op;
    let mut h = Harness::new();
    let client = h.client();
    for id in 0..3 {
        h.boot(id);
    }
    h.pool_op(client, Op::CREATE, 0, "named");
    h.pool_op(client, Op::CREATE, 0, "numbered");
    let (named, numbered) = (1, 2);
    assert_eq!(h.pool_op(client, Op::CREATE_SNAP, named, "s").result, 0);
    assert_eq!(h.pool_op(client, Op::CREATE_SNAP, named, "s").result, 0, "idempotent");
    assert_eq!(h.map().pools[&PoolId(1)].snaps.len(), 1);
    assert_eq!(h.pool_op(client, Op::CREATE_UNMANAGED_SNAP, named, "").result, Errno::EINVAL.as_result());
    let reply = h.pool_op(client, Op::CREATE_UNMANAGED_SNAP, numbered, "");
    assert_eq!(reply.response.as_deref(), Some(&2u64.to_le_bytes()[..]), "as Ceph counts");
    assert_eq!(h.pool_op(client, Op::CREATE_SNAP, numbered, "s").result, Errno::EINVAL.as_result());
    assert_eq!(h.snap_op(client, Op::DELETE_UNMANAGED_SNAP, numbered, "", 9).result, Errno::ENOENT.as_result());
    assert_eq!(h.snap_op(client, Op::DELETE_UNMANAGED_SNAP, numbered, "", 1).result, 0);
    assert_eq!(h.snap_op(client, Op::DELETE_UNMANAGED_SNAP, numbered, "", 1).result, 0);
    assert_eq!(h.pool_op(client, Op::DELETE_SNAP, named, "s").result, 0);
    assert_eq!(h.pool_op(client, Op::DELETE_SNAP, named, "s").result, 0);
    assert_eq!(h.pool_op(client, Op::AUID_CHANGE, named, "").result, Errno::EOPNOTSUPP.as_result());
    assert_eq!(h.pool_op(client, Op::CREATE_SNAP, 99, "s").result, Errno::ENOENT.as_result());
}

#[test]
fn removed_snapshots_are_forgotten_once_all_groups_are_done_with_them() {
    use msg::PoolOpKind as Op;
    let mut h = Harness::new();
    let client = h.client();
    let sessions: Vec<SessionId> = (0..3).map(|id| h.boot(id)).collect();
    h.pool_op(client, Op::CREATE, 0, "x");
    let pool = PoolId(1);
    for _ in 0..2 {
        h.pool_op(client, Op::CREATE_UNMANAGED_SNAP, 1, "");
    }
    let seq = h.map().pools[&pool].snap_seq;
    h.snap_op(client, Op::DELETE_UNMANAGED_SNAP, 1, "", 2);
    assert_eq!(h.map().pools[&pool].snap_seq.0, seq.0 + 1, "writers see that something has changed");
    assert!(h.map().removed_snaps_queue[&pool].contains(2));
    let pg_num = h.map().pools[&pool].pg_num;
    let report = |h: &Harness, seed: u32| nacre::PgReport {
        pgid: PgId::new(1, seed),
        state: pg_state::ACTIVE | pg_state::CLEAN,
        epoch: h.map().epoch,
        sequence: 1,
        acting: vec![OsdId(0)],
        trimmed_snaps: [2].into_iter().collect(),
        ..nacre::PgReport::default()
    };
    let all_but_one = (1..pg_num).map(|seed| report(&h, seed)).collect();
    h.beacon(sessions[0], 0, all_but_one);
    h.pass(secs(2));
    assert!(h.map().removed_snaps_queue.contains_key(&pool), "one group is not done");
    let last = report(&h, 0);
    h.beacon(sessions[0], 0, vec![last]);
    h.pass(secs(2));
    assert!(!h.map().removed_snaps_queue.contains_key(&pool));
}

#[test]
fn what_groups_served_is_remembered() {
    let mut h = Harness::new();
    let client = h.client();
    let sessions: Vec<SessionId> = (0..3).map(|id| h.boot(id)).collect();
    h.pool_op(client, msg::PoolOpKind::CREATE, 0, "x");
    let pgid = PgId::new(1, 5);
    let created = h.map().epoch;
    let ask = |h: &mut Harness| {
        let epoch = h.map().epoch;
        h.say(sessions[0], nacre::PgHistoryGet { epoch, pgs: vec![pgid, PgId::new(1, 99), PgId::new(9, 0)] });
        let mut replies = h.heard::<nacre::PgHistoryReply>(sessions[0]);
        replies.pop().expect("an answer").pgs
    };
    let blank = nacre::PgHistory { pgid, created, ..nacre::PgHistory::default() };
    assert_eq!(ask(&mut h), std::slice::from_ref(&blank));

    let mapped = h.map().pg_to_up_acting(pgid).unwrap();
    let primary = sessions[mapped.acting_primary.unwrap().index()];
    let activate = |acting: &[OsdId], since: u32| nacre::PgActivate {
        epoch: created,
        pgs: vec![nacre::PgActivation {
            pgid,
            interval_since: Epoch(since),
            acting: acting.to_vec(),
            members: acting.to_vec(),
            recovered: true,
            member_shards: Vec::new(),
            basis: None,
        }],
    };
    h.say(primary, activate(&mapped.acting[..2], created.0));
    assert_eq!(h.heard::<nacre::PgActivated>(primary), [nacre::PgActivated { pgs: vec![] }], "another acting set");
    let replica = sessions[mapped.acting[1].index()];
    h.say(replica, activate(&mapped.acting, created.0));
    assert_eq!(h.heard::<nacre::PgActivated>(replica), [nacre::PgActivated { pgs: vec![] }], "not the primary");
    assert_eq!(ask(&mut h), std::slice::from_ref(&blank));

    h.hold_commits = true;
    h.say(primary, activate(&mapped.acting, created.0));
    assert!(h.heard::<nacre::PgActivated>(primary).is_empty(), "not durable yet");
    h.release_commits();
    let members = mapped.acting.clone();
    let known = nacre::PgHistory { last_epoch_started: created, members, ..blank };
    let answer = nacre::PgActivated { pgs: vec![known.clone()] };
    assert_eq!(h.heard::<nacre::PgActivated>(primary), std::slice::from_ref(&answer));
    assert_eq!(ask(&mut h), [known]);
    // A repeated activation is answered without another record.
    let log = h.log.len();
    h.say(primary, activate(&mapped.acting, created.0));
    assert_eq!(h.heard::<nacre::PgActivated>(primary), [answer]);
    assert_eq!(h.log.len(), log);

    h.pool_op(client, msg::PoolOpKind::DELETE, 1, "");
    assert_eq!(ask(&mut h), []);
    assert!(h.monitor.state().pgs.is_empty());
}

#[test]
fn statistics_are_summed_and_go_stale() {
    let mut h = Harness::new();
    let client = h.client();
    let sessions: Vec<SessionId> = (0..3).map(|id| h.boot(id)).collect();
    h.pool_op(client, msg::PoolOpKind::CREATE, 0, "x");
    let pgid = PgId::new(1, 0);
    let mapped = h.map().pg_to_up_acting(pgid).unwrap();
    let primary = mapped.acting_primary.unwrap();
    let report = nacre::PgReport {
        pgid,
        state: pg_state::ACTIVE | pg_state::CLEAN,
        epoch: h.map().epoch,
        sequence: 1,
        acting: mapped.acting.clone(),
        objects: 10,
        bytes: 4096,
        ..nacre::PgReport::default()
    };
    h.beacon(sessions[primary.index()], primary.0, vec![report]);
    h.say(client, msg::GetPoolStats { have: 0, fsid: FSID, pools: vec!["x".to_owned(), "none".to_owned()] });
    let stats = h.heard::<msg::GetPoolStatsReply>(client).pop().unwrap().stats;
    assert_eq!(stats.len(), 1);
    let objects = stats["x"].objects;
    assert_eq!((objects.num_objects, objects.num_bytes, objects.num_object_copies), (10, 4096, 30));
    h.say(client, msg::Statfs { have: 0, fsid: FSID, pool: None });
    let statfs = h.heard::<msg::StatfsReply>(client).pop().unwrap();
    assert_eq!((statfs.kib, statfs.kib_avail, statfs.objects), (1 << 30, 1 << 29, 10));
    let report = failure(&h, primary.0, true);
    let other = sessions.iter().find(|s| **s != sessions[primary.index()]).unwrap();
    h.say(*other, report);
    assert_eq!(h.monitor.volatile().pgs[&pgid].report.state & pg_state::STALE, pg_state::STALE);
}

#[test]
fn who_served_before_is_remembered_until_nothing_is_missing() {
    let mut h = Harness::new();
    let client = h.client();
    let sessions: Vec<SessionId> = (0..3).map(|id| h.boot(id)).collect();
    h.pool_op(client, msg::PoolOpKind::CREATE, 0, "x");
    let pgid = PgId::new(1, 5);
    let acting = h.map().pg_to_up_acting(pgid).unwrap().acting;
    let since = h.map().epoch;
    let primary = sessions[acting[0].index()];
    let mut record = |members: &[OsdId], recovered: bool| {
        let (acting, members) = (acting.clone(), members.to_vec());
        let pgs = vec![nacre::PgActivation {
            pgid,
            interval_since: since,
            acting,
            members,
            recovered,
            member_shards: Vec::new(),
            basis: None,
        }];
        h.say(primary, nacre::PgActivate { epoch: since, pgs });
        let answer = h.heard::<nacre::PgActivated>(primary).pop().expect("an answer").pgs;
        answer.into_iter().map(|known| (known.members, known.past)).collect::<Vec<_>>()
    };
    assert_eq!(record(&acting[..2], true), [(acting[..2].to_vec(), vec![])]);
    let fewer = [acting[0], acting[2]];
    assert_eq!(record(&fewer, false), [(fewer.to_vec(), vec![acting[1]])]);
    assert_eq!(record(&acting[..1], false)[0].1.len(), 2);
    assert_eq!(record(&fewer, true), [(fewer.to_vec(), vec![])]);
    assert_eq!(record(&acting[1..], true), [], "without the primary");
    assert_eq!(record(&[acting[0], OsdId(77)], true), [], "one that is no member");
}

#[test]
fn an_activation_that_rests_on_an_earlier_record_is_refused() {
    let mut h = Harness::new();
    let client = h.client();
    let sessions: Vec<SessionId> = (0..3).map(|id| h.boot(id)).collect();
    h.pool_op(client, msg::PoolOpKind::CREATE, 0, "x");
    let pgid = PgId::new(1, 5);
    let acting = h.map().pg_to_up_acting(pgid).unwrap().acting;
    let primary = sessions[acting[0].index()];
    let created = h.map().epoch;
    for _ in 0..10 {
        h.flag(OsdMapFlags::NOOUT, !h.map().flags.contains(OsdMapFlags::NOOUT));
    }
    let mut record = |since: u32, basis: Option<Epoch>, members: &[OsdId]| {
        let (interval_since, acting, members) = (Epoch(since), acting.clone(), members.to_vec());
        let (recovered, member_shards) = (true, Vec::new());
        let pgs = vec![nacre::PgActivation { pgid, interval_since, acting, members, recovered, member_shards, basis }];
        h.say(primary, nacre::PgActivate { epoch: created, pgs });
        let answer = h.heard::<nacre::PgActivated>(primary).pop().expect("an answer");
        answer.pgs.first().map(|told| told.last_epoch_started.0)
    };
    let first = created.0;
    assert_eq!(record(first, Some(Epoch(first - 1)), &acting), None, "there has been no record so far");
    assert_eq!(record(first, Some(Epoch(0)), &acting[..2]), Some(first));
    assert_eq!(record(first, Some(Epoch(0)), &acting), Some(first), "the same interval's next one");
    assert_eq!(record(first + 5, Some(Epoch(first)), &acting), Some(first + 5));
    assert_eq!(record(u32::MAX, Some(Epoch(first + 5)), &acting), None, "there is no such epoch yet");
    assert_eq!(
        record(first + 9, Some(Epoch(first)), &acting),
        Some(first + 5),
        "others may have served since: told so"
    );
    assert_eq!(record(first + 9, Some(Epoch(0)), &acting), Some(first + 5));
    assert_eq!(record(first + 9, None, &acting), Some(first + 9), "OSDs of earlier software do not tell");
    assert_eq!(h.monitor.state().pgs[&pgid].last_epoch_started, Epoch(first + 9));
}

#[test]
fn osds_that_need_a_map_they_have_not_seen_get_one() {
    let mut h = Harness::new();
    let client = h.client();
    let session = h.boot(0);
    h.pass(std::time::Duration::from_secs(1));
    let epoch = h.map().epoch;
    let asked = |h: &mut Harness, session: SessionId, after: Epoch| {
        h.say(session, nacre::NewerMapGet { after });
        h.pass(std::time::Duration::from_secs(1));
        h.map().epoch
    };
    assert_eq!(asked(&mut h, client, epoch), epoch, "a client has no part in it");
    assert_eq!(asked(&mut h, session, Epoch(epoch.0 - 1)), epoch, "this is a newer one");
    assert_eq!(asked(&mut h, session, Epoch(u32::MAX)), epoch, "there is none of that epoch");
    assert_eq!(asked(&mut h, session, epoch), epoch.next());
    assert_eq!(asked(&mut h, session, epoch), epoch.next(), "it has come already");
}

#[test]
fn primaries_have_other_acting_sets_stand_in() {
    let mut h = Harness::new();
    let client = h.client();
    let sessions: Vec<SessionId> = (0..3).map(|id| h.boot(id)).collect();
    h.pool_op(client, msg::PoolOpKind::CREATE, 0, "x");
    let pgid = PgId::new(1, 5);
    let up = h.map().pg_to_up_acting(pgid).unwrap().acting;
    let turned: Vec<OsdId> = up.iter().rev().copied().collect();
    let ask = |h: &mut Harness, from: OsdId, osds: &[OsdId]| {
        let epoch = h.map().epoch;
        h.say(sessions[from.index()], nacre::PgTemp { epoch, pgs: vec![(pgid, osds.to_vec())] });
        h.pass(std::time::Duration::from_secs(1));
        let placed = h.map().pg_to_up_acting(pgid).unwrap();
        assert_eq!(placed.up, up);
        placed.acting
    };
    assert_eq!(ask(&mut h, up[1], &turned), up, "not the primary");
    assert_eq!(ask(&mut h, up[0], &[up[1], OsdId(77)]), up, "one that is not up");
    assert_eq!(ask(&mut h, up[0], &[up[1], up[1]]), up, "one twice");
    assert_eq!(ask(&mut h, up[0], &turned), turned);
    assert_eq!(ask(&mut h, up[0], &[]), turned, "not the primary any more");
    assert_eq!(ask(&mut h, turned[0], &[]), up);
    assert!(h.map().pg_temp.is_empty());
}
