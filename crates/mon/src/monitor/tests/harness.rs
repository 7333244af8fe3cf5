//! A monitor whose log and sessions are data of the test.

use super::prelude::*;
use crate::volatile::Quorum;
use ::auth::Key;
use wire::nacre::quorum::QuorumReport;

pub(super) const FSID: Fsid = Fsid([7; 16]);

/// A monitor whose log is always at once durable, unless `hold_commits`.
pub(super) struct Harness {
    pub(super) monitor: Monitor,
    pub(super) now: Duration,
    pub(super) log: Vec<(u64, Bytes)>,
    pub(super) snapshots: Vec<(u64, Bytes)>,
    pub(super) sent: Vec<(SessionId, Envelope)>,
    pub(super) closed: Vec<SessionId>,
    pub(super) ids: Vec<Range<u64>>,
    /// Keys of monitors that were to be kept in the keyring, the last ones.
    pub(super) keyring: Vec<Key>,
    pub(super) hold_commits: bool,
    pub(super) held: Vec<u64>,
    pub(super) next_session: u64,
}

pub(super) fn first_batch() -> Batch {
    bootstrap(&BootstrapSpec {
        fsid: FSID,
        monitors: vec![("a".to_owned(), "v2:127.0.0.1:3300/0".parse().unwrap())],
        auth: Default::default(),
        config: Vec::new(),
        now: Utime { sec: 1_000_000, nsec: 0 },
    })
}

impl Harness {
    pub(super) fn new() -> Harness {
        let mut state = MonState::default();
        let first = first_batch();
        state.apply(1, &first);
        Harness::continuing(state, vec![(1, first.to_vec(Target::PACIFIC).into())])
    }

    pub(super) fn continuing(state: MonState, log: Vec<(u64, Bytes)>) -> Harness {
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
            keyring: Vec::new(),
            hold_commits: false,
            held: Vec::new(),
            next_session: 1,
        };
        let mut out = Vec::new();
        let at = harness.at();
        harness.monitor.start(at);
        let report = QuorumReport { epoch: 2, leader: "a".into(), members: ["a".to_owned()].into(), since: at.wall };
        harness.monitor.lead(at, Quorum { report, ..Quorum::default() }, &mut out);
        harness.perform(out);
        harness
    }

    pub(super) fn at(&self) -> Now {
        Now { since_start: self.now, wall: Utime::from_unix(Duration::from_secs(1_000_000) + self.now) }
    }

    pub(super) fn input(&mut self, input: MonitorInput) {
        let mut out = Vec::new();
        self.monitor.handle(self.at(), input, &mut out);
        self.perform(out);
    }

    pub(super) fn perform(&mut self, actions: Vec<MonitorAction>) {
        for action in actions {
            match action {
                MonitorAction::Send { session, envelope } => self.sent.push((session, envelope)),
                MonitorAction::Close { session } => self.closed.push(session),
                MonitorAction::Append { index, batch } => {
                    assert_eq!(index, self.log.len() as u64 + 1);
                    self.log.push((index, batch));
                    if self.hold_commits {
                        self.held.push(index);
                    } else {
                        self.input(MonitorInput::Committed { index });
                    }
                }
                MonitorAction::Snapshot { index, state } => self.snapshots.push((index, state)),
                MonitorAction::GlobalIds(ids) => self.ids.push(ids),
                MonitorAction::SharedKeys(keys) => self.keyring = keys,
                MonitorAction::GlobalIdsFor { .. } => panic!("no other monitor asks for ids"),
            }
        }
    }

    pub(super) fn release_commits(&mut self) {
        self.hold_commits = false;
        for index in std::mem::take(&mut self.held) {
            self.input(MonitorInput::Committed { index });
        }
    }

    /// Lets time pass, with a tick whenever the monitor asks for one.
    pub(super) fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while self.monitor.next_wake() <= until {
            self.now = self.now.max(self.monitor.next_wake());
            self.input(MonitorInput::Tick);
        }
        self.now = until;
    }

    pub(super) fn open(&mut self, kind: EntityType, id: i64) -> SessionId {
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
            rights: wire::msgr::Rights::Everything,
            lossy: true,
            global_seq: session.0,
        };
        self.input(MonitorInput::Opened { session, peer });
        session
    }

    /// Opens a client's session at the manager's address.
    pub(super) fn client_at_manager(&mut self) -> SessionId {
        let client = self.client();
        let peer = self.monitor.sessions[&client].peer.clone();
        let session = SessionId((1 << 62) + self.next_session);
        self.next_session += 1;
        self.input(MonitorInput::OpenedAtManager { session, peer });
        session
    }

    pub(super) fn client(&mut self) -> SessionId {
        self.open(EntityType::CLIENT, 4123)
    }

    pub(super) fn say(&mut self, session: SessionId, message: impl Message) {
        let envelope = message.seal(77, Target::PACIFIC);
        self.input(MonitorInput::Message { session, envelope });
    }

    /// Returns the messages of one type sent to a session since the last look, and removes them.
    pub(super) fn heard<M: Message>(&mut self, session: SessionId) -> Vec<M> {
        let (these, others) = std::mem::take(&mut self.sent)
            .into_iter()
            .partition(|(to, envelope)| *to == session && envelope.header.kind == M::TYPE);
        self.sent = others;
        let these: Vec<(SessionId, Envelope)> = these;
        these.iter().map(|(_, envelope)| M::open(envelope).unwrap()).collect()
    }

    pub(super) fn map(&self) -> &OsdMap {
        self.monitor.state().osdmap()
    }

    /// Has an OSD on a host of its own report that it has started.
    pub(super) fn boot(&mut self, id: i32) -> SessionId {
        self.boot_on(id, &format!("host{id}"), 1)
    }

    pub(super) fn boot_on(&mut self, id: i32, host: &str, nonce: u32) -> SessionId {
        let session = self.open(EntityType::OSD, id.into());
        let boot = boot_message(id, host, nonce);
        self.say(session, boot);
        self.pass(Duration::from_millis(200));
        session
    }

    pub(super) fn beacon(&mut self, session: SessionId, id: i32, pgs: Vec<nacre::PgReport>) {
        let epoch = self.map().epoch;
        let stats = nacre::OsdStats { total_bytes: 1 << 40, free_bytes: 1 << 39, ..nacre::OsdStats::default() };
        self.say(session, nacre::OsdBeacon { osd: OsdId(id), epoch, stats, pgs, options: None, pings: None });
    }

    pub(super) fn flag(&mut self, flag: OsdMapFlags, on: bool) {
        let mut flags = self.map().flags;
        flags.set(flag, on);
        self.change(|incremental| incremental.new_flags = Some(flags));
    }

    /// Changes the map as a command would.
    pub(super) fn change(&mut self, f: impl FnOnce(&mut Incremental)) {
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

    pub(super) fn pool_op(
        &mut self,
        session: SessionId,
        op: msg::PoolOpKind,
        pool: u32,
        name: &str,
    ) -> msg::PoolOpReply {
        self.snap_op(session, op, pool, name, 0)
    }

    pub(super) fn snap_op(
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

    pub(super) fn command_unanswered(&mut self, session: SessionId, json: &str) {
        let (cmd, input) = (vec![json.to_owned()], Default::default());
        self.say(session, msg::MonCommand { have: 0, fsid: FSID, cmd, input });
    }

    pub(super) fn command(&mut self, session: SessionId, json: &str) -> msg::MonCommandAck {
        self.command_unanswered(session, json);
        self.heard(session).pop().expect("an answer")
    }
}

pub(super) fn addrs(id: i32, nonce: u32) -> EntityAddrVec {
    format!("v2:127.0.0.1:{}/{nonce}", 6800 + id).parse().unwrap()
}

pub(super) fn boot_message(id: i32, host: &str, nonce: u32) -> nacre::OsdBoot {
    nacre::OsdBoot {
        fsid: FSID,
        osd: OsdId(id),
        osd_uuid: Fsid((id as u128 + 1).to_le_bytes()),
        public_addrs: addrs(id, nonce),
        cluster_addrs: addrs(id + 1000, nonce),
        hb_back_addrs: addrs(id + 2000, nonce),
        hb_front_addrs: addrs(id + 3000, nonce),
        epoch: Epoch(1),
        weight: 0x1_0000,
        location: BTreeMap::from([("host".to_owned(), host.to_owned())]),
        device_class: "ssd".to_owned(),
        metadata: BTreeMap::from([("hostname".to_owned(), host.to_owned())]),
        features: nacre::osd_features::ALL,
    }
}

pub(super) fn subscribe(what: &[(&str, u64, bool)]) -> msg::MonSubscribe {
    let subscription = |(what, start, onetime): &(&str, u64, bool)| {
        ((*what).to_owned(), msg::Subscription { start: *start, onetime: *onetime })
    };
    msg::MonSubscribe { what: what.iter().map(subscription).collect(), hostname: "here".to_owned() }
}

pub(super) fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

pub(super) fn failure(h: &Harness, target: i32, immediate: bool) -> nacre::OsdFailure {
    nacre::OsdFailure {
        target: OsdId(target),
        target_addrs: addrs(target, 1),
        epoch: h.map().epoch,
        immediate,
        failed_for_ms: 5000,
    }
}
