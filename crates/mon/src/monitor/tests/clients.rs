//! Answers and messages that clients get.

use super::harness::*;
use super::prelude::*;

#[test]
fn a_client_gets_what_it_waits_for() {
    let mut h = Harness::new();
    let client = h.client();
    let everything = [("config", 0, false), ("monmap", 0, false), ("mgrmap", 0, false), ("osdmap", 0, true)];
    h.say(client, subscribe(&everything));
    let monmap = osdmap::MonMap::from_slice(&h.heard::<msg::MonMap>(client)[0].map).unwrap();
    assert_eq!((monmap.fsid, monmap.epoch), (FSID, Epoch(1)));
    assert_eq!(h.heard::<msg::ConfigOptions>(client), [msg::ConfigOptions::default()]);
    let mgrmap = osdmap::MgrMap::from_slice(&h.heard::<msg::MgrMap>(client)[0].map).unwrap();
    assert!(!mgrmap.available);
    let maps = h.heard::<msg::OsdMap>(client);
    assert_eq!(OsdMap::from_slice(&maps[0].fulls[&Epoch(1)]).unwrap(), *h.map());
    h.say(client, subscribe(&[("osdmap", 1, false)]));
    let maps = h.heard::<msg::OsdMap>(client);
    assert_eq!(maps[0].last(), Epoch(1), "from the oldest on");
    // There is nothing new: nothing is sent until there is.
    h.say(client, subscribe(&[("osdmap", 2, false), ("monmap", 2, false)]));
    assert_eq!(h.sent, []);
    h.boot(0);
    let maps = h.heard::<msg::OsdMap>(client);
    assert_eq!(maps[0].incrementals.keys().copied().collect::<Vec<_>>(), [Epoch(2)]);
    assert_eq!((maps[0].oldest, maps[0].newest), (Epoch(1), Epoch(2)));
}

#[test]
fn clients_find_a_manager_that_answers_as_one() {
    let mut h = Harness::new();
    let at: wire::EntityAddrVec = "v2:10.0.0.1:7000/0".parse().unwrap();
    h.monitor.set_manager_addrs(at.clone());
    h.pass(secs(2));
    let client = h.client();
    h.say(client, subscribe(&[("mgrmap", 0, false)]));
    let map = osdmap::MgrMap::from_slice(&h.heard::<msg::MgrMap>(client)[0].map).unwrap();
    assert_eq!((map.available, map.active_addrs, map.active_name.as_str()), (true, at, "a"));
    h.say(client, msg::MonGetVersion { handle: 5, what: "mgrmap".to_owned() });
    assert_eq!(h.heard::<msg::MonGetVersionReply>(client)[0].version, u64::from(map.epoch.0));
    let stat: serde_json::Value =
        serde_json::from_slice(&h.command(client, r#"{"prefix":"mgr dump","format":"json"}"#).output.to_vec()).unwrap();
    assert_eq!((&stat["active_gid"], &stat["active_addr"]), (&1.into(), &"10.0.0.1:7000/0".into()));

    let manager = h.client_at_manager();
    let cmd = vec![r#"{"prefix":"pg stat"}"#.to_owned()];
    h.say(manager, msg::MgrCommand { fsid: FSID, cmd: cmd.clone(), input: Default::default() });
    assert_eq!(h.heard::<msg::MgrCommandReply>(manager)[0].result, 0);
    h.say(manager, msg::Command { fsid: FSID, cmd: cmd.clone(), input: Default::default() });
    assert_eq!(h.heard::<msg::CommandReply>(manager)[0].result, 0);
    h.say(manager, msg::MgrCommand { fsid: Fsid([1; 16]), cmd, input: Default::default() });
    assert_eq!(h.heard::<msg::MgrCommandReply>(manager)[0].result, Errno::EPERM.as_result());
    let cmd = vec!["{".to_owned()];
    h.say(manager, msg::MgrCommand { fsid: FSID, cmd, input: Default::default() });
    assert_eq!(h.heard::<msg::MgrCommandReply>(manager)[0].result, Errno::EINVAL.as_result());
}

#[test]
fn versions_and_plain_questions_are_answered() {
    let mut h = Harness::new();
    let client = h.client();
    for (what, version) in [("osdmap", 1), ("monmap", 1)] {
        h.say(client, msg::MonGetVersion { handle: 5, what: what.to_owned() });
        assert_eq!(
            h.heard::<msg::MonGetVersionReply>(client),
            [msg::MonGetVersionReply { handle: 5, version, oldest: 1 }]
        );
    }
    h.say(client, msg::Ping { status: None });
    assert!(h.heard::<msg::Ping>(client)[0].status.as_ref().unwrap().contains("HEALTH_WARN"));
    h.say(client, msg::Statfs { have: 0, fsid: FSID, pool: None });
    assert_eq!(h.heard::<msg::StatfsReply>(client)[0].objects, 0);
}

#[test]
fn commands_are_answered_and_malformed_ones_refused() {
    let mut h = Harness::new();
    let client = h.client();
    let ack = h.command(client, r#"{"prefix":"fsid"}"#);
    assert_eq!((ack.result, ack.output.to_vec()), (0, format!("{FSID}\n").into_bytes()));
    assert_eq!(h.command(client, r#"{"prefix":"no such thing"}"#).result, Errno::EINVAL.as_result());
    assert_eq!(h.command(client, "{").result, Errno::EINVAL.as_result());
    h.say(client, msg::MonCommand { have: 0, fsid: FSID, cmd: vec![], input: Default::default() });
    assert_eq!(h.heard::<msg::MonCommandAck>(client)[0].result, Errno::EINVAL.as_result());
    let elsewhere =
        msg::MonCommand { have: 0, fsid: Fsid([1; 16]), cmd: vec![String::new()], input: Default::default() };
    h.say(client, elsewhere);
    assert_eq!(h.heard::<msg::MonCommandAck>(client)[0].result, Errno::EPERM.as_result());
}

#[test]
fn a_message_that_cannot_be_read_ends_only_its_session() {
    let mut h = Harness::new();
    let (good, bad) = (h.client(), h.client());
    let mut envelope = subscribe(&[("osdmap", 0, false)]).seal(1, Target::PACIFIC);
    envelope.front = envelope.front.slice(..3);
    h.input(MonitorInput::Message { session: bad, envelope });
    assert_eq!(h.closed, [bad]);
    h.input(MonitorInput::Message {
        session: good,
        envelope: Envelope { header: wire::Header { kind: 9999, ..Default::default() }, ..Default::default() },
    });
    assert_eq!(h.closed, [bad], "an unknown type is ignored");
    assert_eq!(h.command(good, r#"{"prefix":"fsid"}"#).result, 0);
}

#[test]
fn ids_are_never_handed_out_twice() {
    let h = Harness::new();
    let first = h.ids.clone();
    assert_eq!(first.len(), 1);
    let mut again = Harness::continuing(h.monitor.state.clone(), h.log);
    assert_eq!(again.ids.len(), 1);
    again.input(MonitorInput::GlobalIdsLeft(10));
    let all: Vec<Range<u64>> = first.into_iter().chain(again.ids).collect();
    assert_eq!(all.len(), 3);
    assert!(all.windows(2).all(|pair| pair[0].end <= pair[1].start), "{all:?}");
}

#[test]
fn log_lines_are_kept_acknowledged_and_shown() {
    let mut h = Harness::new();
    let (client, watcher) = (h.client(), h.client());
    h.say(watcher, subscribe(&[("log-warn", 0, false)]));
    let line = |seq, priority, text: &str| msg::LogEntry {
        seq,
        priority,
        message: text.to_owned(),
        channel: "cluster".to_owned(),
        ..msg::LogEntry::default()
    };
    let entries = vec![line(1, msg::LogPriority::INFO, "quiet"), line(2, msg::LogPriority::ERROR, "loud")];
    h.say(client, msg::Log { have: 0, fsid: FSID, entries });
    assert_eq!(h.heard::<msg::LogAck>(client)[0].last, 2);
    let shown: Vec<String> =
        h.heard::<msg::Log>(watcher).into_iter().flat_map(|log| log.entries).map(|entry| entry.message).collect();
    assert_eq!(shown, ["loud"]);
    let flood = (0..1000).map(|i| line(i, msg::LogPriority::DEBUG, &"ä".repeat(100_000))).collect();
    h.say(client, msg::Log { have: 0, fsid: FSID, entries: flood });
    let kept = &h.monitor.state().log.entries;
    assert!(kept.len() < 300 && kept.iter().all(|entry| entry.message.len() <= 4096));
}

#[test]
fn configuration_reaches_those_it_concerns() {
    let mut h = Harness::new();
    let client = h.client();
    h.say(client, subscribe(&[("config", 0, false)]));
    assert_eq!(h.heard::<msg::ConfigOptions>(client).len(), 1);
    let at = h.at();
    let set = |who: &str, value: &str| crate::Update::Config {
        who: who.to_owned(),
        name: "x".to_owned(),
        value: Some(value.to_owned()),
    };
    let mut index = h.log.len() as u64;
    let mut apply = |h: &mut Harness, update| {
        index += 1;
        h.monitor.state.apply(index, &Batch { stamp: at.wall, updates: vec![update] });
        let mut out = Vec::new();
        h.monitor.publish(&mut out);
        h.perform(out);
    };
    apply(&mut h, set("osd", "1"));
    assert!(h.heard::<msg::ConfigOptions>(client).is_empty(), "not for clients");
    apply(&mut h, set("client.admin", "2"));
    assert_eq!(h.heard::<msg::ConfigOptions>(client)[0].options["x"], "2");
}

#[test]
fn what_a_client_sent_before_it_turned_to_another_session_takes_nothing_back() {
    let mut h = Harness::new();
    let start = |h: &mut Harness, nonce: u32| {
        let session = h.client();
        let peer = Peer { addrs: addrs(3, nonce), ..h.monitor.sessions[&session].peer.clone() };
        h.input(MonitorInput::Closed { session });
        h.input(MonitorInput::Opened { session, peer });
        session
    };
    let command = |h: &mut Harness, session: SessionId, tid: u64, ratio: f32| {
        let cmd = vec![format!("{{\"prefix\": \"osd set-full-ratio\", \"ratio\": {ratio}}}")];
        let message = msg::MonCommand { have: 0, fsid: FSID, cmd, input: Default::default() };
        h.input(MonitorInput::Message { session, envelope: message.seal(tid, Target::PACIFIC) });
        h.heard::<msg::MonCommandAck>(session).len()
    };
    let (first, second) = (start(&mut h, 1), start(&mut h, 1));
    assert_eq!(command(&mut h, first, 1, 0.5), 1);
    assert_eq!(command(&mut h, second, 2, 0.6), 1);
    assert_eq!(command(&mut h, second, 3, 0.7), 1);
    assert_eq!(command(&mut h, first, 2, 0.6), 0, "it was asked again by the second session");
    assert_eq!(h.map().full_ratio, 0.7);
    assert_eq!(command(&mut h, first, 4, 0.8), 1, "a session may be used beside a later one");
    // Another start of the client counts anew.
    let third = start(&mut h, 2);
    assert_eq!(command(&mut h, third, 3, 0.9), 1);
    assert_eq!(command(&mut h, second, 3, 0.7), 1, "asked again by the same session");
    assert_eq!(h.map().full_ratio, 0.7);
}

#[test]
fn options_of_osds_are_known_as_the_osds_tell_them_until_they_are_gone() {
    let mut h = Harness::new();
    let session = h.boot(0);
    let values = vec![(nacre::option_source::FILE, "5".to_owned())];
    let told = nacre::OptionReport { name: "osd_max_backfills".to_owned(), values, is_ignored: false };
    let (epoch, stats) = (h.map().epoch, nacre::OsdStats::default());
    let beacon = |options| nacre::OsdBeacon { osd: OsdId(0), epoch, stats, pgs: Vec::new(), options, pings: None };
    h.say(session, beacon(Some(vec![told.clone()])));
    h.say(session, beacon(None));
    assert_eq!(h.monitor.volatile.options["osd.0"], vec![told.clone()], "silence changes nothing");
    assert_eq!(h.monitor.what_osds_said()[0].options, Some(vec![told]), "other monitors hear of it");
    h.say(session, beacon(Some(Vec::new())));
    assert_eq!(h.monitor.volatile.options["osd.0"], Vec::new());
    h.change(|incremental| {
        incremental.new_state.insert(OsdId(0), osdmap::OsdState::EXISTS | osdmap::OsdState::UP);
    });
    assert!(!h.monitor.volatile.options.contains_key("osd.0"));
}

#[test]
fn the_time_that_osds_take_to_answer_is_known_and_not_passed_on_to_other_monitors() {
    let mut h = Harness::new();
    let session = h.boot(0);
    let (epoch, stats) = (h.map().epoch, nacre::OsdStats::default());
    let (one, osd, answered_at) = (nacre::PingTook::default(), OsdId(1), h.at().wall);
    let ping = nacre::PingReport { osd, is_front: false, one, five: one, fifteen: one, last_us: 5, answered_at };
    let beacon = |pings| nacre::OsdBeacon { osd: OsdId(0), epoch, stats, pgs: Vec::new(), options: None, pings };
    h.say(session, beacon(Some(vec![ping.clone()])));
    h.say(session, beacon(None));
    h.say(session, beacon(Some(vec![ping.clone(); 1001])));
    assert_eq!(h.monitor.volatile.pings[&OsdId(0)], vec![ping], "silence, and what is too much, changes nothing");
    assert!(h.monitor.what_osds_said().into_iter().all(|beacon| beacon.pings.is_none()));
    h.say(session, beacon(Some(Vec::new())));
    assert!(h.monitor.volatile.pings[&OsdId(0)].is_empty());
}
