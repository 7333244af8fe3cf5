//! OSDs come, fail and go.

use super::harness::*;
use super::prelude::*;
use serde_json::json;

#[test]
fn an_osd_that_starts_is_placed_and_marked_up() {
    let mut h = Harness::new();
    h.boot(3);
    let map = h.map();
    assert!(map.is_up(OsdId(3)) && map.is_in(OsdId(3)) && !map.exists(OsdId(2)));
    assert_eq!(map.max_osd(), 4);
    assert!(is_at(map, OsdId(3), &addrs(3, 1)));
    assert_eq!(map.crush.full_location(3), [("host", "host3"), ("root", "default")]);
    assert_eq!(map.crush.class_of(3), Some("ssd"));
    assert_eq!(h.monitor.state().osd_metadata[&OsdId(3)]["hostname"], "host3");
}

#[test]
fn once_all_osds_tell_what_they_can_none_that_cannot_gets_in() {
    let bit = nacre::osd_features::SKIPPED_SHARDS;
    let mut h = Harness::new();
    let start = |h: &mut Harness, id: i32, nonce: u32, features: u64| {
        let session = h.open(EntityType::OSD, id.into());
        let boot = nacre::OsdBoot { features, ..boot_message(id, &format!("host{id}"), nonce) };
        h.say(session, boot.clone());
        h.pass(secs(1));
        (session, boot)
    };
    // Bits that these monitors do not know are not shown.
    for id in 0..3 {
        start(&mut h, id, 1, if id == 0 { 0 } else { bit | 1 << 63 });
        assert_eq!(h.map().osd(OsdId(id)).unwrap().xinfo.features & !bit, wire::codec::features::PACIFIC);
    }
    assert!(h.map().is_up(OsdId(0)) && !h.map().all_osds_have(bit), "osd.0 has earlier software");
    // Earlier software may come back as long as one OSD has it, though that is down.
    let client = h.client();
    assert_eq!(h.command(client, r#"{"prefix": "osd down", "ids": ["0"]}"#).result, 0);
    start(&mut h, 1, 2, 0);
    assert!(is_at(h.map(), OsdId(1), &addrs(1, 2)) && h.map().is_up(OsdId(1)));
    start(&mut h, 1, 3, bit);
    assert!(!h.map().all_osds_have(bit));
    // A start with earlier software that is on its way when the last of the others tells comes too late.
    h.hold_commits = true;
    start(&mut h, 0, 2, bit);
    let (late, boot) = start(&mut h, 1, 4, 0);
    h.release_commits();
    h.pass(secs(1));
    assert!(h.map().all_osds_have(bit));
    assert!(!is_at(h.map(), OsdId(1), &addrs(1, 4)), "it has not come up");
    h.say(late, boot);
    assert_eq!(h.heard::<nacre::OsdRefused>(late).len(), 1);
    // A new OSD is as little welcome, and those that can it come and go as before.
    let (session, _) = start(&mut h, 7, 1, 0);
    assert_eq!(h.heard::<nacre::OsdRefused>(session).len(), 1);
    assert!(!h.map().exists(OsdId(7)));
    start(&mut h, 7, 1, bit);
    start(&mut h, 1, 5, bit);
    assert!(h.map().is_up(OsdId(7)) && is_at(h.map(), OsdId(1), &addrs(1, 5)));
    assert!(h.map().all_osds_have(bit));
}

#[test]
fn who_is_made_anew_in_place_of_earlier_software_lets_none_in() {
    let bit = nacre::osd_features::SKIPPED_SHARDS;
    let mut h = Harness::new();
    let uuid = Fsid(9u128.to_le_bytes());
    let start = |h: &mut Harness, id: i32, nonce: u32, features: u64| {
        let session = h.open(EntityType::OSD, id.into());
        let boot = nacre::OsdBoot { features, ..boot_message(id, &format!("host{id}"), nonce) };
        let osd_uuid = if nonce == 1 { boot.osd_uuid } else { uuid };
        h.say(session, nacre::OsdBoot { osd_uuid, ..boot });
        h.pass(secs(1));
        h.heard::<nacre::OsdRefused>(session).len()
    };
    start(&mut h, 0, 1, 0);
    start(&mut h, 1, 1, bit);
    assert!(!h.map().all_osds_have(bit));
    let client = h.client();
    let commands = [
        r#"{"prefix": "osd down", "ids": ["0"]}"#.to_owned(),
        r#"{"prefix": "osd destroy", "id": 0, "yes_i_really_mean_it": true}"#.to_owned(),
        format!(r#"{{"prefix": "osd new", "uuid": "{uuid}", "id": 0}}"#),
        // It is not new any more, and was never started.
        r#"{"prefix": "osd reweight", "id": 0, "weight": 1.0}"#.to_owned(),
    ];
    for (at, command) in commands.iter().enumerate() {
        let answer = h.command(client, command);
        assert_eq!(answer.result, 0, "{command}: {}", answer.status);
        h.pass(secs(1));
        assert_eq!(h.map().all_osds_have(bit), at > 0, "{command}");
    }
    assert_eq!(start(&mut h, 0, 2, 0), 1, "its software is earlier still");
    assert!(!h.map().is_up(OsdId(0)));
    assert_eq!(start(&mut h, 0, 3, bit), 0);
    assert!(h.map().is_up(OsdId(0)) && h.map().all_osds_have(bit));
}

#[test]
fn many_starts_share_an_epoch() {
    let mut h = Harness::new();
    h.hold_commits = true;
    for id in 0..100 {
        let session = h.open(EntityType::OSD, id.into());
        h.say(session, boot_message(id, &format!("host{}", id / 10), 1));
    }
    h.release_commits();
    h.pass(secs(1));
    assert_eq!(h.map().counts().1, 100);
    assert!(h.map().epoch <= Epoch(4), "{} for 100 starts", h.map().epoch);
}

/// The hierarchy that 2000 OSDs add for 2600 listeners is costly, and is not sent again at once.
#[test]
fn newcomers_of_a_large_cluster_are_collected_and_nobody_else_waits_for_them() {
    let mut h = Harness::new();
    h.hold_commits = true;
    let sessions: Vec<SessionId> = (0..2600).map(|id| h.open(EntityType::OSD, id)).collect();
    let host = |id: i32| format!("host{}", id / 20);
    for id in 0..2500 {
        h.say(sessions[id as usize], boot_message(id, &host(id), 1));
    }
    h.release_commits();
    h.pass(Duration::from_millis(60));
    assert_eq!((h.map().counts().1, h.map().epoch), (2000, Epoch(2)), "no more come with one map");
    let collected_from = h.now;
    h.say(sessions[7], failure(&h, 3, true));
    h.pass(Duration::from_millis(60));
    assert!(!h.map().is_up(OsdId(3)), "a failure does not wait");
    assert_eq!(h.map().counts().1, 1999);
    let wakes = h.monitor.next_wake();
    for id in 2500..2600 {
        h.say(sessions[id as usize], boot_message(id, &host(id), 1));
        assert_eq!(h.monitor.next_wake(), wakes, "nothing can be done for it yet");
    }
    h.pass(secs(2));
    assert_eq!((h.map().counts().1, h.map().epoch), (2599, Epoch(4)), "all that came meanwhile share a map");
    assert!(h.now < collected_from + secs(3));
    // Once the cost is made up for, one more comes in at once.
    h.pass(secs(20));
    let at = h.now;
    h.boot_on(9000, "another", 1);
    assert!(h.map().is_up(OsdId(9000)) && h.now <= at + Duration::from_millis(200));
    let crush = &h.map().crush;
    assert_eq!(crush.full_location(2599), [("host", "host129"), ("root", "default")]);
    assert_eq!(crush.class_of(2599), Some("ssd"));
}

#[test]
fn an_osd_that_cannot_be_placed_keeps_nobody_else_out() {
    let mut h = Harness::new();
    h.hold_commits = true;
    let sessions = [0, 1, 2].map(|id| h.open(EntityType::OSD, id));
    for (id, session) in (0..).zip(sessions) {
        let mut boot = boot_message(id, "host", 1);
        if id == 1 {
            boot.location.insert("planet".to_owned(), "earth".to_owned());
        }
        h.say(session, boot);
    }
    h.release_commits();
    h.pass(secs(1));
    assert!(h.map().is_up(OsdId(0)) && h.map().is_up(OsdId(2)) && !h.map().exists(OsdId(1)));
    let lines = &h.monitor.state().log.entries;
    assert!(lines.iter().any(|line| line.message.contains("osd.1 cannot be placed")), "{lines:?}");
}

#[test]
fn while_a_batch_is_on_its_way_no_tick_is_asked_for_in_vain() {
    let mut h = Harness::new();
    h.boot(0);
    h.hold_commits = true;
    let sessions = [1, 2].map(|id| (h.open(EntityType::OSD, id), id));
    for (session, id) in sessions {
        h.say(session, boot_message(id as i32, "host", 1));
        h.now += Duration::from_millis(60);
        h.input(MonitorInput::Tick);
    }
    assert_eq!(h.held.len(), 1, "the second start waits for the batch of the first");
    assert!(h.monitor.next_wake() > h.now, "a driver would turn round and round until the log is written");
    h.release_commits();
    assert!(h.map().is_up(OsdId(2)), "the commit alone is enough");
}

#[test]
fn a_restarted_osd_goes_down_and_up() {
    let mut h = Harness::new();
    h.boot(0);
    let before = h.map().epoch;
    h.boot_on(0, "elsewhere", 2);
    assert!(h.map().is_up(OsdId(0)));
    assert_eq!(h.map().epoch.0, before.0 + 2);
    assert!(is_at(h.map(), OsdId(0), &addrs(0, 2)));
    assert_eq!(h.map().crush.full_location(0)[0], ("host", "host0"), "only a new OSD is placed");
    // A repeated boot changes nothing.
    h.boot_on(0, "elsewhere", 2);
    assert_eq!(h.map().epoch.0, before.0 + 2);
}

/// A network may hold back a boot that an OSD sent while it still was in the cluster.
#[test]
fn an_osd_that_was_removed_does_not_come_back_by_what_it_said_before() {
    let mut h = Harness::new();
    h.boot(0);
    let session = h.boot(1);
    let known = h.open(EntityType::OSD, 1);
    let client = h.open(EntityType::CLIENT, 7);
    h.change(|incremental| incremental.mark_down(OsdId(1)));
    let purged = h.command(client, r#"{"prefix": "osd purge", "id": 1, "yes_i_really_mean_it": true}"#);
    assert_eq!(purged.result, 0, "{purged:?}");
    h.pass(secs(1));
    for session in [session, known] {
        h.say(session, boot_message(1, "host1", 1));
        h.pass(secs(1));
        assert!(!h.map().exists(OsdId(1)));
        let told = h.heard::<nacre::OsdRefused>(session).pop().expect("it is told");
        assert!(told.reason.contains("removed from the cluster"), "{told:?}");
    }
    // Another store takes the removed one's place, also by a session that was there before.
    let mut other = boot_message(1, "host1", 3);
    other.osd_uuid = Fsid([99; 16]);
    h.say(known, other);
    h.pass(secs(1));
    assert!(h.map().is_up(OsdId(1)));
}

#[test]
fn another_store_under_the_same_number_is_refused() {
    let mut h = Harness::new();
    h.boot(0);
    let session = h.open(EntityType::OSD, 0);
    let mut boot = boot_message(0, "host0", 9);
    boot.osd_uuid = Fsid([99; 16]);
    h.say(session, boot.clone());
    h.say(session, boot);
    h.pass(secs(1));
    assert!(is_at(h.map(), OsdId(0), &addrs(0, 1)));
    let refusals = h.monitor.state().log.entries.iter().filter(|e| e.message.contains("may not start")).count();
    assert_eq!(refusals, 1);
    // The OSD is refused each time: the first answer may have been lost.
    let told = h.heard::<nacre::OsdRefused>(session);
    assert_eq!(told.len(), 2);
    assert!(told.iter().all(|told| told.osd == OsdId(0) && told.reason.contains("ceph osd destroy")), "{told:?}");
    // No OSD may speak for another, either.
    let liar = h.open(EntityType::OSD, 5);
    h.say(liar, boot_message(0, "host0", 10));
    h.pass(secs(1));
    assert!(is_at(h.map(), OsdId(0), &addrs(0, 1)));
}

#[test]
fn a_silent_osd_goes_down_and_later_out() {
    let mut h = Harness::new();
    let sessions: Vec<SessionId> = (0..6).map(|id| h.boot(id)).collect();
    let live = |h: &mut Harness, seconds: u64| {
        for _ in 0..seconds / 5 {
            for id in 1..6 {
                h.beacon(sessions[id as usize], id, Vec::new());
            }
            h.pass(secs(5));
        }
    };
    live(&mut h, 15);
    assert!(h.map().is_up(OsdId(0)));
    live(&mut h, 15);
    assert!(!h.map().is_up(OsdId(0)) && h.map().is_in(OsdId(0)));
    assert!((1..6).all(|id| h.map().is_up(OsdId(id))));
    live(&mut h, 570);
    assert!(h.map().is_in(OsdId(0)));
    live(&mut h, 60);
    assert!(!h.map().is_in(OsdId(0)));
    // The OSD comes back, and in again: no operator put it out.
    h.boot_on(0, "host0", 2);
    assert!(h.map().is_up(OsdId(0)) && h.map().is_in(OsdId(0)));
    assert_eq!(h.map().weight(OsdId(0)), 0x1_0000);
    // An OSD that was marked out for its silence comes in again each time.
    live(&mut h, 690);
    assert!(!h.map().is_in(OsdId(0)));
    h.boot_on(0, "host0", 3);
    assert!(h.map().is_up(OsdId(0)) && h.map().is_in(OsdId(0)));
}

#[test]
fn flags_hold_osds_in_their_state() {
    let mut h = Harness::new();
    h.boot(0);
    h.boot(1);
    h.flag(OsdMapFlags::NODOWN, true);
    h.pass(secs(60));
    assert!(h.map().is_up(OsdId(0)));
    h.flag(OsdMapFlags::NODOWN, false);
    h.flag(OsdMapFlags::NOUP, true);
    h.pass(secs(60));
    assert!(!h.map().is_up(OsdId(0)));
    h.boot_on(0, "host0", 2);
    assert!(!h.map().is_up(OsdId(0)));
    h.flag(OsdMapFlags::NOUP, false);
    h.flag(OsdMapFlags::NOIN, true);
    h.boot(2);
    assert!(h.map().is_up(OsdId(2)) && !h.map().is_in(OsdId(2)));
}

#[test]
fn peers_reports_mark_an_osd_down() {
    let mut h = Harness::new();
    let sessions: Vec<SessionId> = (0..4).map(|id| h.boot(id)).collect();
    let report = failure(&h, 0, false);
    h.say(sessions[1], report.clone());
    h.pass(secs(1));
    assert!(h.map().is_up(OsdId(0)), "one report of a time-out is not enough");
    h.say(sessions[2], report);
    h.pass(secs(1));
    assert!(!h.map().is_up(OsdId(0)));

    let mut old = failure(&h, 3, true);
    old.target_addrs = addrs(3, 77);
    h.say(sessions[1], old);
    h.pass(secs(1));
    assert!(h.map().is_up(OsdId(3)), "a report about another start is void");
    let refused = failure(&h, 3, true);
    let stranger = h.client();
    h.say(stranger, refused.clone());
    h.pass(secs(1));
    assert!(h.map().is_up(OsdId(3)), "only OSDs are believed");
    h.say(sessions[1], refused);
    assert!(!h.map().is_up(OsdId(3)), "a refused connection is proof enough, at once");
}

/// `mon_osd_min_down_reporters` says how many hosts must miss an OSD; its own host is none of them.
#[test]
fn as_many_hosts_must_agree_as_the_option_says() {
    for (reporters, enough) in [("1", 1), ("2", 2), ("3", 3), ("9", 3)] {
        let mut h = Harness::new();
        let client = h.client();
        let sessions: Vec<SessionId> = (0..4).map(|id| h.boot(id)).collect();
        let set = json!({
            "prefix": "config set", "who": "mon", "name": "mon_osd_min_down_reporters", "value": reporters,
        });
        assert_eq!(h.command(client, &set.to_string()).result, 0);
        let report = failure(&h, 0, false);
        for (said, session) in sessions[1..].iter().enumerate() {
            assert_eq!(h.map().is_up(OsdId(0)), said < enough, "{reporters} wanted, {said} said so");
            h.say(*session, report.clone());
            h.pass(secs(1));
        }
        assert!(!h.map().is_up(OsdId(0)));
    }
}

#[test]
fn an_orderly_stop_is_acknowledged_once_the_map_shows_it() {
    let mut h = Harness::new();
    let session = h.boot(0);
    h.hold_commits = true;
    h.say(session, nacre::OsdGoingDown { osd: OsdId(0), public_addrs: addrs(0, 1), epoch: h.map().epoch });
    assert!(h.heard::<nacre::OsdGoingDownAck>(session).is_empty());
    h.release_commits();
    let acks = h.heard::<nacre::OsdGoingDownAck>(session);
    assert_eq!(acks, [nacre::OsdGoingDownAck { osd: OsdId(0), epoch: h.map().epoch }]);
    assert!(!h.map().is_up(OsdId(0)));
}

/// Of many OSDs one may always be about to connect again.
#[test]
fn osds_that_are_connected_are_told_to_scrub_though_others_are_not() {
    let mut h = Harness::new();
    let osds = [0, 1, 2].map(|id| h.boot(id));
    let client = h.client();
    assert_eq!(h.command(client, r#"{"prefix": "osd pool create", "pool": "p", "pg_num": 16}"#).result, 0);
    let order = |h: &mut Harness| {
        let ack = h.command(client, r#"{"prefix": "osd deep-scrub", "who": "all"}"#);
        let told: Vec<Vec<nacre::PgScrub>> = osds.iter().map(|osd| h.heard(*osd)).collect();
        let groups = told.iter().flatten().map(|order| order.pgs.len()).sum::<usize>();
        assert!(told.iter().flatten().all(|order| order.deep && !order.repair));
        (ack.result, ack.status, told.iter().map(Vec::len).collect::<Vec<_>>(), groups)
    };
    let (result, status, told, groups) = order(&mut h);
    assert_eq!((result, &*status), (0, "instructed osd(s) 0,1,2 to deep-scrub"));
    assert_eq!((told, groups), (vec![1, 1, 1], 16));
    h.input(MonitorInput::Closed { session: osds[1] });
    let (result, status, told, _) = order(&mut h);
    assert_eq!((result, &*status), (0, "instructed osd(s) 0,2 to deep-scrub; osd(s) 1 are not connected"));
    assert_eq!(told, [1, 0, 1]);
    h.input(MonitorInput::Closed { session: osds[0] });
    h.input(MonitorInput::Closed { session: osds[2] });
    let again = Errno::EAGAIN.as_result();
    let (result, status, told, _) = order(&mut h);
    assert_eq!((result, &*status, told), (again, "osd(s) 0,1,2 are not connected", vec![0, 0, 0]));
    let primary = h.map().pg_to_up_acting(PgId::new(1, 3)).unwrap().acting_primary.unwrap();
    let ack = h.command(client, r#"{"prefix": "pg scrub", "pgid": "1.3"}"#);
    assert_eq!((ack.result, ack.status), (again, format!("{primary} is not currently connected")));
}
