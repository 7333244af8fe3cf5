//! The log is the state, and comes before answers.

use super::harness::*;
use super::prelude::*;
use proptest::prelude::*;

#[test]
fn a_command_is_answered_once_it_is_durable_and_its_maps_are_out() {
    let mut h = Harness::new();
    let client = h.client();
    for id in 0..3 {
        h.boot(id);
    }
    let next = u64::from(h.map().epoch.0) + 1;
    h.say(client, subscribe(&[("osdmap", next, false)]));
    h.hold_commits = true;
    let create = |name: &str| msg::MonCommand {
        have: 0,
        fsid: FSID,
        cmd: vec![format!(r#"{{"prefix":"osd pool create","pool":"{name}","pg_num":8}}"#)],
        input: Default::default(),
    };
    h.say(client, create("x"));
    h.say(client, create("y"));
    h.say(client, create("x"));
    assert_eq!(h.sent, [], "nothing is told before it is durable");
    h.release_commits();
    let kinds: Vec<u16> = h.sent.iter().map(|(_, envelope)| envelope.header.kind).collect();
    let (map, ack) = (msg::OsdMap::TYPE, msg::MonCommandAck::TYPE);
    assert_eq!(kinds, [map, ack, map, ack, ack], "the third changes nothing");
    let acks = h.heard::<msg::MonCommandAck>(client);
    assert!(acks.iter().all(|ack| ack.result == 0), "{acks:?}");
    assert_eq!(h.map().pool_names.values().collect::<Vec<_>>(), ["x", "y"]);
}

#[test]
fn what_changes_nothing_yet_waits_for_the_change_asked_for_before() {
    let mut h = Harness::new();
    let client = h.client();
    h.hold_commits = true;
    let pause = |word: &str| msg::MonCommand {
        have: 0,
        fsid: FSID,
        cmd: vec![format!(r#"{{"prefix":"osd {word}","key":"pause"}}"#)],
        input: Default::default(),
    };
    h.say(client, pause("set"));
    h.say(client, pause("unset"));
    assert_eq!(h.sent, [], "nothing is paused yet, and yet there is something to unset");
    h.release_commits();
    assert_eq!(h.heard::<msg::MonCommandAck>(client).len(), 2);
    assert!(!h.map().flags.contains(osdmap::OsdMapFlags::PAUSERD));
}

#[derive(Clone, Debug)]
enum Step {
    Boot(i32, u32),
    Fail(i32, i32),
    GoDown(i32),
    MakePool(u8),
    DropPool(u8),
    Activate(u8, u32),
    Log,
    Pass(u64),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..6i32, 1..4u32).prop_map(|(osd, nonce)| Step::Boot(osd, nonce)),
        (0..6i32, 0..6i32).prop_map(|(target, by)| Step::Fail(target, by)),
        (0..6i32).prop_map(Step::GoDown),
        (0..4u8).prop_map(Step::MakePool),
        (0..4u8).prop_map(Step::DropPool),
        (0..4u8, 0..32u32).prop_map(|(pool, seed)| Step::Activate(pool, seed)),
        Just(Step::Log),
        (1..40u64).prop_map(Step::Pass),
    ]
}

fn take(h: &mut Harness, step: &Step, client: SessionId) {
    match *step {
        Step::Boot(osd, nonce) => drop(h.boot_on(osd, &format!("host{}", osd / 2), nonce)),
        Step::Fail(target, by) => {
            let session = h.open(EntityType::OSD, by.into());
            let target_addrs = h.map().osd(OsdId(target)).map(|osd| osd.client_addrs.clone()).unwrap_or_default();
            let report = nacre::OsdFailure { target_addrs, ..failure(h, target, true) };
            h.say(session, report);
        }
        Step::GoDown(osd) => {
            let session = h.open(EntityType::OSD, osd.into());
            let public_addrs = h.map().osd(OsdId(osd)).map(|osd| osd.client_addrs.clone()).unwrap_or_default();
            h.say(session, nacre::OsdGoingDown { osd: OsdId(osd), public_addrs, epoch: h.map().epoch });
        }
        Step::MakePool(n) => drop(h.pool_op(client, msg::PoolOpKind::CREATE, 0, &format!("pool{n}"))),
        Step::DropPool(n) => {
            let id = h.map().pool_by_name(&format!("pool{n}")).map_or(0, |id| id.0 as u32);
            h.pool_op(client, msg::PoolOpKind::DELETE, id, "");
        }
        Step::Activate(n, seed) => {
            let Some(pool) = h.map().pool_by_name(&format!("pool{n}")) else { return };
            let pgid = PgId { pool, seed };
            let mapped = h.map().pg_to_up_acting(pgid).unwrap();
            let Some(primary) = mapped.acting_primary else { return };
            let session = h.open(EntityType::OSD, primary.0.into());
            let interval_since = h.map().epoch;
            let (acting, members) = (mapped.acting.clone(), mapped.acting);
            let pgs = vec![nacre::PgActivation {
                pgid,
                interval_since,
                acting,
                members,
                recovered: true,
                member_shards: Vec::new(),
                basis: None,
            }];
            h.say(session, nacre::PgActivate { epoch: interval_since, pgs });
        }
        Step::Log => {
            let entry = msg::LogEntry { message: "hello".to_owned(), ..msg::LogEntry::default() };
            h.say(client, msg::Log { have: 0, fsid: FSID, entries: vec![entry] });
        }
        Step::Pass(seconds) => h.pass(secs(seconds)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// The monitor is killed after any batch: everything that it acknowledged is in the log, and the log alone, from
    /// the beginning or from a snapshot on, gives the state back.
    #[test]
    fn the_log_is_the_state(
        steps in prop::collection::vec(any_step(), 1..60),
        cut: prop::sample::Index,
        snap: prop::sample::Index,
    ) {
        let mut h = Harness::new();
        let client = h.client();
        for step in &steps {
            take(&mut h, step, client);
        }
        let (snap_at, cut_at) = (snap.index(h.log.len()) as u64 + 1, cut.index(h.log.len()) as u64 + 1);
        let mut state = MonState::default();
        let mut from_snapshot = None;
        for (index, bytes) in &h.log {
            let batch = Batch::from_slice(bytes).unwrap();
            prop_assert_eq!(&batch.to_vec(Target::PACIFIC), bytes);
            state.apply(*index, &batch);
            if let Some(other) = &mut from_snapshot {
                let other: &mut MonState = other;
                other.apply(*index, &batch);
                prop_assert_eq!(&*other, &state);
            }
            if *index == snap_at {
                from_snapshot = Some(MonState::from_slice(&state.to_vec(Target::PACIFIC)).unwrap());
            }
            if *index == cut_at {
                // A monitor that continues from here has the same map to give, or one that it has made of it, and goes
                // on.
                let log = h.log[..cut_at as usize].to_vec();
                let mut again = Harness::continuing(state.clone(), log);
                let client = again.client();
                again.say(client, subscribe(&[("osdmap", 0, true)]));
                let maps = again.heard::<msg::OsdMap>(client);
                let (given, now) = (maps[0].fulls.values().next().unwrap(), again.monitor.state());
                prop_assert_eq!(given, &now.osdmaps.current_full());
                let earlier = now.osdmaps.full(state.osdmap().epoch).expect("it is kept");
                prop_assert_eq!(earlier, state.osdmaps.current_full());
                again.boot_on(7, "late", 1);
                prop_assert!(again.map().is_up(OsdId(7)));
            }
        }
        prop_assert_eq!(&state, h.monitor.state());
        prop_assert_eq!(OsdMap::from_slice(&state.osdmaps.current_full()).unwrap(), h.map().clone());
    }

    #[test]
    fn no_message_brings_a_monitor_down(
        kind in prop::sample::select(vec![
            2u16, 5, 6, 13, 15, 19, 49, 50, 52, 58, 63, 97, 0x4e01, 0x4e02, 0x4e03, 0x4e04, 0x4e06, 0x4e08, 1,
        ]),
        front: Vec<u8>,
        version in 0..6u16,
    ) {
        let mut h = Harness::new();
        let session = h.open(EntityType::OSD, 0);
        let header = wire::Header { kind, version, ..wire::Header::default() };
        let envelope = Envelope { header, front: front.into(), ..Envelope::default() };
        h.input(MonitorInput::Message { session, envelope });
        h.pass(secs(2));
    }
}
