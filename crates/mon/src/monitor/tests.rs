//! The monitor as a whole, by events.

use super::osd_changes::is_at;
use super::*;
use crate::bootstrap::{BootstrapSpec, bootstrap};
use crate::update::Batch;
use osdmap::{Incremental, OsdMap, OsdMapFlags};
use proptest::prelude::*;
use std::collections::BTreeMap;
use types::{EntityName, EntityType, Epoch, Errno, Fsid, OsdId, PgId, PoolId, SnapId};
use wire::basic::AuthName;
use wire::codec::features;
use wire::messages as msg;
use wire::nacre::mon::{self as nacre, pg_state};
use wire::{Decode, Encode, EntityAddrVec, Message, Target};

const FSID: Fsid = Fsid([7; 16]);

/// A monitor whose log is always at once durable, unless `hold_commits`.
struct Harness {
    monitor: Monitor,
    now: Duration,
    log: Vec<(u64, Bytes)>,
    snapshots: Vec<(u64, Bytes)>,
    sent: Vec<(SessionId, Envelope)>,
    closed: Vec<SessionId>,
    ids: Vec<Range<u64>>,
    hold_commits: bool,
    held: Vec<u64>,
    next_session: u64,
}

fn first_batch() -> Batch {
    bootstrap(&BootstrapSpec {
        fsid: FSID,
        monitors: vec![("a".to_owned(), "v2:127.0.0.1:3300/0".parse().unwrap())],
        config: Vec::new(),
        now: Utime { sec: 1_000_000, nsec: 0 },
    })
}

impl Harness {
    fn new() -> Harness {
        let mut state = MonState::default();
        let first = first_batch();
        state.apply(1, &first);
        Harness::continuing(state, vec![(1, first.to_vec(Target::PACIFIC).into())])
    }

    fn continuing(state: MonState, log: Vec<(u64, Bytes)>) -> Harness {
        let mut fill = 0u8;
        let entropy = Box::new(move || {
            fill = fill.wrapping_add(1);
            [fill; 32]
        });
        let mut harness = Harness {
            monitor: Monitor::new("a", state, entropy),
            now: Duration::from_secs(100),
            log,
            snapshots: Vec::new(),
            sent: Vec::new(),
            closed: Vec::new(),
            ids: Vec::new(),
            hold_commits: false,
            held: Vec::new(),
            next_session: 1,
        };
        let mut out = Vec::new();
        harness.monitor.start(harness.at(), &mut out);
        harness.perform(out);
        harness
    }

    fn at(&self) -> Now {
        Now { since_start: self.now, wall: Utime::from_unix(Duration::from_secs(1_000_000) + self.now) }
    }

    fn input(&mut self, input: Input) {
        let mut out = Vec::new();
        self.monitor.handle(self.at(), input, &mut out);
        self.perform(out);
    }

    fn perform(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send { session, envelope } => self.sent.push((session, envelope)),
                Action::Close { session } => self.closed.push(session),
                Action::Append { index, batch } => {
                    assert_eq!(index, self.log.len() as u64 + 1);
                    self.log.push((index, batch));
                    if self.hold_commits {
                        self.held.push(index);
                    } else {
                        self.input(Input::Committed { index });
                    }
                }
                Action::Snapshot { index, state } => self.snapshots.push((index, state)),
                Action::GlobalIds(ids) => self.ids.push(ids),
            }
        }
    }

    fn release_commits(&mut self) {
        self.hold_commits = false;
        for index in std::mem::take(&mut self.held) {
            self.input(Input::Committed { index });
        }
    }

    /// Lets time pass, with a tick whenever the monitor asks for one.
    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while self.monitor.next_wake() <= until {
            self.now = self.now.max(self.monitor.next_wake());
            self.input(Input::Tick);
        }
        self.now = until;
    }

    fn open(&mut self, kind: EntityType, id: i64) -> SessionId {
        let session = SessionId(self.next_session);
        self.next_session += 1;
        let peer = Peer {
            name: EntityName { kind, num: id },
            auth_name: AuthName::new(
                kind,
                if kind == EntityType::CLIENT { "admin".to_owned() } else { id.to_string() },
            ),
            addrs: EntityAddrVec::default(),
            features: features::PACIFIC,
            global_id: 4200 + session.0,
            lossy: true,
        };
        self.input(Input::Opened { session, peer });
        session
    }

    fn client(&mut self) -> SessionId {
        self.open(EntityType::CLIENT, 4123)
    }

    fn say(&mut self, session: SessionId, message: impl Message) {
        let envelope = message.seal(77, Target::PACIFIC);
        self.input(Input::Message { session, envelope });
    }

    /// The messages of one type sent to a session since the last look, removed.
    fn heard<M: Message>(&mut self, session: SessionId) -> Vec<M> {
        let (these, others) = std::mem::take(&mut self.sent)
            .into_iter()
            .partition(|(to, envelope)| *to == session && envelope.header.kind == M::TYPE);
        self.sent = others;
        let these: Vec<(SessionId, Envelope)> = these;
        these.iter().map(|(_, envelope)| M::open(envelope).unwrap()).collect()
    }

    fn map(&self) -> &OsdMap {
        self.monitor.state().osdmap()
    }

    /// An OSD on a host of its own says that it has started.
    fn boot(&mut self, id: i32) -> SessionId {
        self.boot_on(id, &format!("host{id}"), 1)
    }

    fn boot_on(&mut self, id: i32, host: &str, nonce: u32) -> SessionId {
        let session = self.open(EntityType::OSD, id.into());
        let boot = boot_message(id, host, nonce);
        self.say(session, boot);
        self.pass(Duration::from_millis(200));
        session
    }

    fn beacon(&mut self, session: SessionId, id: i32, pgs: Vec<nacre::PgReport>) {
        let epoch = self.map().epoch;
        let stats = nacre::OsdStats { total_bytes: 1 << 40, free_bytes: 1 << 39, ..nacre::OsdStats::default() };
        self.say(session, nacre::OsdBeacon { osd: OsdId(id), epoch, stats, pgs });
    }

    fn flag(&mut self, flag: OsdMapFlags, on: bool) {
        let mut flags = self.map().flags;
        flags.set(flag, on);
        self.change(|incremental| incremental.new_flags = Some(flags));
    }

    /// Changes the map as a command would.
    fn change(&mut self, f: impl FnOnce(&mut Incremental)) {
        let at = self.at();
        let mut incremental = self.monitor.state.next_incremental(at.wall);
        f(&mut incremental);
        let update = self.monitor.state.osd_update(incremental).expect("a change");
        let batch = Batch { stamp: at.wall, updates: vec![update] };
        let index = self.log.len() as u64 + 1;
        self.log.push((index, batch.to_vec(Target::PACIFIC).into()));
        self.monitor.state.apply(index, &batch);
        self.monitor.map_changed(at);
    }

    fn pool_op(&mut self, session: SessionId, op: msg::PoolOpKind, pool: u32, name: &str) -> msg::PoolOpReply {
        self.snap_op(session, op, pool, name, 0)
    }

    fn snap_op(
        &mut self,
        session: SessionId,
        op: msg::PoolOpKind,
        pool: u32,
        name: &str,
        snap: u64,
    ) -> msg::PoolOpReply {
        let (name, snap) = (name.to_owned(), SnapId(snap));
        self.say(session, msg::PoolOp { have: 0, fsid: FSID, pool, op, snap, name, crush_rule: -1 });
        self.heard(session).pop().expect("an answer")
    }

    fn command(&mut self, session: SessionId, json: &str) -> msg::MonCommandAck {
        self.say(
            session,
            msg::MonCommand { have: 0, fsid: FSID, cmd: vec![json.to_owned()], input: Default::default() },
        );
        self.heard(session).pop().expect("an answer")
    }
}

fn addrs(id: i32, nonce: u32) -> EntityAddrVec {
    format!("v2:127.0.0.1:{}/{nonce}", 6800 + id).parse().unwrap()
}

fn boot_message(id: i32, host: &str, nonce: u32) -> nacre::OsdBoot {
    nacre::OsdBoot {
        fsid: FSID,
        osd: OsdId(id),
        osd_uuid: Fsid((id as u128 + 1).to_le_bytes()),
        public_addrs: addrs(id, nonce),
        cluster_addrs: addrs(id + 1000, nonce),
        epoch: Epoch(1),
        weight: 0x1_0000,
        location: BTreeMap::from([("host".to_owned(), host.to_owned())]),
        device_class: "ssd".to_owned(),
        metadata: BTreeMap::from([("hostname".to_owned(), host.to_owned())]),
    }
}

fn subscribe(what: &[(&str, u64, bool)]) -> msg::MonSubscribe {
    let subscription = |(what, start, onetime): &(&str, u64, bool)| {
        ((*what).to_owned(), msg::Subscription { start: *start, onetime: *onetime })
    };
    msg::MonSubscribe { what: what.iter().map(subscription).collect(), hostname: "here".to_owned() }
}

fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

#[test]
fn a_client_gets_what_it_waits_for() {
    let mut h = Harness::new();
    let client = h.client();
    let everything = [("config", 0, false), ("monmap", 0, false), ("mgrmap", 0, false), ("osdmap", 0, true)];
    h.say(client, subscribe(&everything));
    let monmap = osdmap::MonMap::from_slice(&h.heard::<msg::MonMap>(client)[0].map).unwrap();
    assert_eq!((monmap.fsid, monmap.epoch), (FSID, Epoch(1)));
    assert_eq!(h.heard::<msg::Config>(client), [msg::Config::default()]);
    let mgrmap = osdmap::MgrMap::from_slice(&h.heard::<msg::MgrMap>(client)[0].map).unwrap();
    assert!(!mgrmap.available);
    let maps = h.heard::<msg::OsdMap>(client);
    assert_eq!(OsdMap::from_slice(&maps[0].fulls[&Epoch(1)]).unwrap(), *h.map());
    h.say(client, subscribe(&[("osdmap", 1, false)]));
    let maps = h.heard::<msg::OsdMap>(client);
    assert_eq!(maps[0].last(), Epoch(1), "from the oldest on");
    // Nothing new: nothing is sent until there is.
    h.say(client, subscribe(&[("osdmap", 2, false), ("monmap", 2, false)]));
    assert_eq!(h.sent, []);
    h.boot(0);
    let maps = h.heard::<msg::OsdMap>(client);
    assert_eq!(maps[0].incrementals.keys().copied().collect::<Vec<_>>(), [Epoch(2)]);
    assert_eq!((maps[0].oldest, maps[0].newest), (Epoch(1), Epoch(2)));
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
    // Saying it again changes nothing.
    h.boot_on(0, "elsewhere", 2);
    assert_eq!(h.map().epoch.0, before.0 + 2);
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
    // Nor may anybody speak for another.
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
    // It comes back, and in again: nobody put it out by hand.
    h.boot_on(0, "host0", 2);
    assert!(h.map().is_up(OsdId(0)) && h.map().is_in(OsdId(0)));
    assert_eq!(h.map().weight(OsdId(0)), 0x1_0000);
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

fn failure(h: &Harness, target: i32, immediate: bool) -> nacre::OsdFailure {
    nacre::OsdFailure {
        target: OsdId(target),
        target_addrs: addrs(target, 1),
        epoch: h.map().epoch,
        immediate,
        failed_for_ms: 5000,
    }
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
    assert_eq!(reply.response.as_deref(), Some(&1u64.to_le_bytes()[..]));
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
        pgs: vec![nacre::PgActivation { pgid, interval_since: Epoch(since), acting: acting.to_vec() }],
    };
    h.say(primary, activate(&mapped.acting[..2], created.0));
    assert_eq!(h.heard::<nacre::PgActivated>(primary), [nacre::PgActivated { pgs: vec![] }], "another acting set");
    let replica = sessions[mapped.acting[1].index()];
    h.say(replica, activate(&mapped.acting, created.0));
    assert_eq!(h.heard::<nacre::PgActivated>(replica), [nacre::PgActivated { pgs: vec![] }], "not the primary");
    assert_eq!(ask(&mut h), [blank]);

    h.hold_commits = true;
    h.say(primary, activate(&mapped.acting, created.0));
    assert!(h.heard::<nacre::PgActivated>(primary).is_empty(), "not durable yet");
    h.release_commits();
    assert_eq!(h.heard::<nacre::PgActivated>(primary), [nacre::PgActivated { pgs: vec![(pgid, created)] }]);
    let known = nacre::PgHistory { pgid, created, last_epoch_started: created, acting: mapped.acting.clone() };
    assert_eq!(ask(&mut h), [known]);
    // The same again is answered without another record.
    let log = h.log.len();
    h.say(primary, activate(&mapped.acting, created.0));
    assert_eq!(h.heard::<nacre::PgActivated>(primary), [nacre::PgActivated { pgs: vec![(pgid, created)] }]);
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
    h.input(Input::Message { session: bad, envelope });
    assert_eq!(h.closed, [bad]);
    h.input(Input::Message {
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
    again.input(Input::GlobalIdsLeft(10));
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
    assert_eq!(h.heard::<msg::Config>(client).len(), 1);
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
    assert!(h.heard::<msg::Config>(client).is_empty(), "not for clients");
    apply(&mut h, set("client.admin", "2"));
    assert_eq!(h.heard::<msg::Config>(client)[0].options["x"], "2");
}

#[test]
fn a_peer_far_behind_gets_batches() {
    let mut h = Harness::new();
    h.boot(0);
    for i in 0..2000u32 {
        h.change(|incremental| {
            incremental.new_weight.insert(OsdId(0), 1 + i);
        });
    }
    let client = h.client();
    let newest = h.map().epoch;
    h.say(client, subscribe(&[("osdmap", 1, false)]));
    let messages = h.heard::<msg::OsdMap>(client);
    let mut map: Option<OsdMap> = None;
    for message in &messages {
        assert!(message.incrementals.len() <= 40);
        for full in message.fulls.values() {
            map = Some(OsdMap::from_slice(full).unwrap());
        }
        for bytes in message.incrementals.values() {
            let incremental = Incremental::from_slice(bytes).unwrap();
            map.as_mut().expect("a full map first").apply(&incremental).unwrap();
        }
    }
    assert_eq!(map.as_ref(), Some(h.map()));
    let maps = &h.monitor.state().osdmaps;
    assert!(maps.oldest() > Epoch(1) && newest.0 - maps.oldest().0 >= 500, "old increments are dropped");
    let (middle, before) = (Epoch(newest.0 - 77), Epoch(newest.0 - 78));
    let mut rebuilt = OsdMap::from_slice(&maps.full(before).unwrap()).unwrap();
    rebuilt.apply(&Incremental::from_slice(&maps.incremental(middle).unwrap()).unwrap()).unwrap();
    assert_eq!(OsdMap::from_slice(&maps.full(middle).unwrap()).unwrap(), rebuilt);
    // Asked once, one message comes.
    h.say(client, subscribe(&[("osdmap", u64::from(maps_oldest(&h).0), true)]));
    assert_eq!(h.heard::<msg::OsdMap>(client).len(), 1);
}

fn maps_oldest(h: &Harness) -> Epoch {
    h.monitor.state().osdmaps.oldest()
}

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
        h.say(sessions[1], nacre::OsdBeacon { osd: OsdId(1), epoch, stats, pgs: Vec::new() });
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

/// The log on disk, snapshots and trimming included, gives the state back.
#[test]
fn what_the_disk_holds_is_the_state() {
    use crate::log::{MapLog, RedbLog};
    let path = std::env::temp_dir().join(format!("nacre-mon-disk-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let mut h = Harness::new();
    let client = h.client();
    for i in 0..proposals::SNAPSHOT_EVERY + 10 {
        let entry = msg::LogEntry { message: i.to_string(), ..msg::LogEntry::default() };
        h.say(client, msg::Log { have: 0, fsid: FSID, entries: vec![entry] });
    }
    assert_eq!(h.snapshots.len(), 1);
    let mut log = RedbLog::create(&path).unwrap();
    for (index, batch) in &h.log {
        log.append(*index, batch).unwrap();
        if let Some((_, state)) = h.snapshots.iter().find(|(at, _)| at == index) {
            log.snapshot(*index, state).unwrap();
        }
    }
    drop(log);
    let mut log = RedbLog::open(&path).unwrap();
    let loaded = log.load().unwrap();
    assert_eq!(loaded.snapshot.as_ref().map(|(at, _)| *at), Some(proposals::SNAPSHOT_EVERY));
    assert!(loaded.batches.len() < 50, "the log is trimmed");
    let state = crate::daemon::load(&mut log).unwrap();
    let _ = std::fs::remove_file(&path);
    assert_eq!(&state, h.monitor.state());
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
            let pgs = vec![nacre::PgActivation { pgid, interval_since, acting: mapped.acting }];
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

    /// However the monitor is killed: what it acknowledged is in the log, and the log alone, from the beginning or from
    /// a snapshot on, gives the state back.
    #[test]
    fn the_log_is_the_state(steps in prop::collection::vec(any_step(), 1..60), cut: prop::sample::Index, snap: prop::sample::Index) {
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
                // A monitor that continues from here has the same maps to give, and goes on.
                let log = h.log[..cut_at as usize].to_vec();
                let mut again = Harness::continuing(state.clone(), log);
                let client = again.client();
                again.say(client, subscribe(&[("osdmap", 0, true)]));
                let maps = again.heard::<msg::OsdMap>(client);
                prop_assert_eq!(maps[0].fulls.values().next().unwrap(), &state.osdmaps.current_full());
                again.boot_on(7, "late", 1);
                prop_assert!(again.map().is_up(OsdId(7)));
            }
        }
        prop_assert_eq!(&state, h.monitor.state());
        prop_assert_eq!(OsdMap::from_slice(&state.osdmaps.current_full()).unwrap(), h.map().clone());
    }

    #[test]
    fn no_message_brings_a_monitor_down(kind in prop::sample::select(vec![2u16, 5, 6, 13, 15, 19, 49, 50, 52, 58, 63, 97, 0x4e01, 0x4e02, 0x4e03, 0x4e04, 0x4e06, 0x4e08, 1]), front: Vec<u8>, version in 0..6u16) {
        let mut h = Harness::new();
        let session = h.open(EntityType::OSD, 0);
        let header = wire::Header { kind, version, ..wire::Header::default() };
        h.input(Input::Message { session, envelope: Envelope { header, front: front.into(), ..Envelope::default() } });
        h.pass(secs(2));
    }
}
