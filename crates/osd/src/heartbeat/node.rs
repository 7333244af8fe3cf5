//! Sockets and messages of the heartbeats.

use super::{Board, HeartbeatAddrs, Network, Watch};
use crate::link::Link;
use crate::osd::DRIVE_GIVEN_UP_AFTER;
use crate::pulse_watch::{COUNTED_MAX, GIVE_UP_AFTER, PulseWatch, Verdict};
use crate::{OsdConfig, Stop};
use reactor::{Event, Handler, Io, ListenerId, Pulse};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use types::{EntityName, EntityType, Epoch, OsdId};
use wire::msgr::{self, Config, Messenger, Policy, SessionId};
use wire::nacre::heartbeat::{OsdPing, OsdPingReply};
use wire::{EntityAddrVec, Message, Target};

/// Numbers of timers. They differ from the OSD's, because both may share a loop.
const TICK: u64 = 1 << 32;
const MESSENGERS: u64 = TICK + 1;

/// Interval at which the heartbeats look at the loop and the drive.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// An OSD whose drive has owed an answer for this long, or whose loop has been in one turn for this long, answers
/// nobody. The others take it for dead, although this thread still lives.
pub(crate) const UNWELL_AFTER: Duration = Duration::from_secs(10);
const _: () = assert!(
    UNWELL_AFTER.as_millis() < GIVE_UP_AFTER.as_millis() && UNWELL_AFTER.as_millis() < DRIVE_GIVEN_UP_AFTER.as_millis(),
    "other OSDs take over before a process ends itself, which may be long before it is back"
);
const _: () = assert!(
    LOOK_EVERY.as_millis() < COUNTED_MAX.as_millis(),
    "the time between two looks counts in full, unless the watcher itself did not run"
);

/// Connections of others without a session. Of those that others began there may be twice as many, or more.
const HALF_OPEN_MAX: usize = 256;

/// Listener and sessions of the heartbeats on one network.
struct Port {
    listener: ListenerId,
    link: Link,
    /// Sessions that this side began.
    asking: BTreeMap<OsdId, (EntityAddrVec, SessionId)>,
}

impl Port {
    fn open(io: &mut impl Io, osd: &OsdConfig, bind: SocketAddr, advertise: Option<SocketAddr>) -> io::Result<Port> {
        let (listener, bound) = io.listen(SocketAddr::new(bind.ip(), 0))?;
        let nonce = (io.random() as u32).max(1);
        let advertise = advertise.map(|addr| SocketAddr::new(addr.ip(), 0));
        let addrs = crate::osd::advertised(bound, advertise, nonce);
        // Each OSD asks on a session that it began itself, so a new session from a peer does not end the other one.
        let accept = BTreeMap::from([(EntityType::OSD, Policy { fences: false, ..Policy::LOSSY_SERVER })]);
        let config = Config { accept, half_open_max: HALF_OPEN_MAX, ..Config::osd(osd.id, addrs, io.random()) };
        let link = Link::proving(Messenger::new(config), osd.login.as_ref(), false);
        Ok(Port { listener, link, asking: BTreeMap::new() })
    }

    fn session(&mut self, osd: OsdId, addrs: &EntityAddrVec, anew: bool, now: Duration) -> SessionId {
        if let Some((known, session)) = self.asking.get(&osd) {
            if known == addrs && !anew {
                return *session;
            }
            self.link.messenger.close(*session);
        }
        let session = self.link.messenger.connect(EntityName::osd(osd), addrs, Policy::LOSSY_CLIENT, now);
        self.asking.insert(osd, (addrs.clone(), session));
        session
    }

    /// Ends the sessions with OSDs that are not asked any more.
    fn retain(&mut self, keep: impl Fn(OsdId) -> bool) {
        let gone: Vec<OsdId> = self.asking.keys().copied().filter(|osd| !keep(*osd)).collect();
        for (_, session) in gone.iter().filter_map(|osd| self.asking.remove(osd)) {
            self.link.messenger.close(session);
        }
    }

    fn forget(&mut self, session: SessionId) {
        self.asking.retain(|_, (_, known)| *known != session);
    }
}

/// Pulses of the OSD's loops, one for each shard, if the heartbeats have a loop of their own.
pub(crate) struct Beside {
    pub pulses: Vec<Pulse>,
    pub stop: Stop,
}

/// Asks and answers, in a loop of its own or, in the simulator, in the OSD's.
pub struct HeartbeatNode {
    osd: OsdId,
    board: Arc<Board>,
    beside: Option<Beside>,
    ports: BTreeMap<Network, Port>,
    addrs: HeartbeatAddrs,
    watch: Watch,
    epoch: Epoch,
    /// One watch for each of the OSD's loops.
    pulse_watches: Vec<PulseWatch>,
    ask_at: Duration,
}

impl HeartbeatNode {
    /// Listens on the OSD's networks.
    ///
    /// Errors: an address that cannot be bound.
    pub fn new(io: &mut impl Io, config: &OsdConfig, board: Arc<Board>) -> io::Result<HeartbeatNode> {
        let back = Port::open(io, config, config.cluster_bind, config.cluster_advertise)?;
        let mut addrs =
            HeartbeatAddrs { back: back.link.messenger.addrs().clone(), front: back.link.messenger.addrs().clone() };
        let mut ports = BTreeMap::from([(Network::Back, back)]);
        if config.public_bind.ip() != config.cluster_bind.ip() || config.public_advertise != config.cluster_advertise {
            let front = Port::open(io, config, config.public_bind, config.public_advertise)?;
            addrs.front = front.link.messenger.addrs().clone();
            ports.insert(Network::Front, front);
        }
        let now = io.now();
        io.set_timer(now + LOOK_EVERY, TICK);
        Ok(HeartbeatNode {
            osd: config.id,
            board,
            beside: None,
            ports,
            addrs,
            watch: Watch::default(),
            epoch: Epoch(0),
            pulse_watches: Vec::new(),
            ask_at: now,
        })
    }

    /// The addresses at which this OSD answers.
    pub fn addrs(&self) -> &HeartbeatAddrs {
        &self.addrs
    }

    /// Limits the connections that others begin, on each network.
    pub(crate) fn limit_connections(&self, io: &mut impl Io, accepted_max: usize) {
        self.ports.values().for_each(|port| io.limit_accepted(port.listener, accepted_max));
    }

    /// Tells the heartbeats to watch the OSD's loops, and to wake the OSD when they find another OSD silent.
    pub(crate) fn stand_beside(&mut self, beside: Beside) {
        self.pulse_watches = beside.pulses.iter().map(|_| PulseWatch::default()).collect();
        self.beside = Some(beside);
    }

    /// The port that a connection belongs to.
    fn port_of(&mut self, conn: reactor::ConnId) -> Option<&mut Port> {
        self.ports.values_mut().find(|port| port.link.owns(conn))
    }

    /// True if a connection is one of the heartbeats'.
    pub fn owns(&self, conn: reactor::ConnId) -> bool {
        self.ports.values().any(|port| port.link.owns(conn))
    }

    /// True if an event is one of the heartbeats'. Needed if they share a loop with others.
    pub fn concerns(&self, event: &Event) -> bool {
        match event {
            Event::Accepted { listener, .. } => self.ports.values().any(|port| port.listener == *listener),
            Event::Connected { conn, .. }
            | Event::BulkReceived { conn, .. }
            | Event::Closed { conn, .. }
            | Event::Sent { conn, .. } => self.owns(*conn),
            Event::Timer { token } => *token == TICK || *token == MESSENGERS,
            Event::Disk { .. } | Event::Woken => false,
        }
    }

    fn tick(&mut self, now: Duration) {
        self.look(now);
        let Self { board, watch, epoch, ports, .. } = self;
        *epoch = board.peers_since(*epoch, |peers| {
            watch.set_peers(peers);
            ports.values_mut().for_each(|port| port.retain(|osd| peers.contains_key(&osd)));
        });
        for port in self.ports.values_mut() {
            port.link.messenger.tick(now);
        }
        self.watch.pace = self.board.pace();
        // An interval that was made shorter holds from the next look on.
        self.ask_at = self.ask_at.min(now + self.watch.pace.ask_every);
        if now >= self.ask_at {
            self.ask_at = now + self.watch.pace.ask_every;
            self.board.set_ping_times(self.watch.ping_times(now));
            for question in self.watch.tick(now) {
                let Some(port) = self.ports.get_mut(&question.network) else { continue };
                let session = port.session(question.osd, &question.addrs, question.connect_anew, now);
                let ping = OsdPing { osd: self.osd, epoch: self.epoch, sent_us: question.sent.as_micros() as u64 };
                port.link.messenger.send(session, ping.seal(0, Target::default()));
            }
        }
        if self.board.set_silent(self.watch.silent(now))
            && let Some(beside) = &self.beside
        {
            beside.stop.wake();
        }
    }

    /// Checks that this OSD itself is well. Ends the process if its loop is beyond hope. The supervisor starts it
    /// again, and the new process replays everything that was acknowledged.
    fn look(&mut self, now: Duration) {
        // A turn may take long before the store is open.
        let Some(beside) = self.beside.as_ref().filter(|beside| beside.stop.is_open()) else { return };
        let osd = self.osd;
        for (shard, (watch, pulse)) in self.pulse_watches.iter_mut().zip(&beside.pulses).enumerate() {
            match watch.look(now, pulse.read()) {
                Verdict::Moves => {}
                Verdict::Stuck(time) => tracing::warn!(%osd, shard, "one turn of the loop has taken {time:.1?} so far"),
                Verdict::Dead(time) => {
                    tracing::error!(%osd, shard, "the loop is stuck: one turn has taken {time:.1?}; ends the process");
                    std::process::abort();
                }
            }
        }
    }

    fn is_well(&self) -> bool {
        let is_stuck = |watch: &PulseWatch| watch.stuck_for() >= UNWELL_AFTER;
        !self.pulse_watches.iter().any(is_stuck) && self.board.drive_answers()
    }

    fn pump(&mut self, io: &mut impl Io) {
        let now = io.now();
        let (osd, epoch, is_well) = (self.osd, self.epoch, self.is_well());
        for (network, port) in &mut self.ports {
            while let Some(event) = port.link.poll(io) {
                match event {
                    msgr::Output::Message { session, envelope, .. } => match envelope.header.kind {
                        OsdPing::TYPE if !is_well => {}
                        OsdPing::TYPE => match OsdPing::open(&envelope) {
                            Ok(ping) => {
                                let reply = OsdPingReply { osd, epoch, sent_us: ping.sent_us };
                                port.link.messenger.send(session, reply.seal(0, Target::default()));
                            }
                            Err(e) => {
                                tracing::warn!("malformed heartbeat: {e}; session closed");
                                port.link.messenger.close(session);
                            }
                        },
                        OsdPingReply::TYPE => {
                            let asked = port.asking.iter().find(|(_, (_, known))| *known == session);
                            if let (Some((peer, _)), Ok(reply)) = (asked, OsdPingReply::open(&envelope)) {
                                self.watch.answered(*peer, *network, Duration::from_micros(reply.sent_us), now);
                            }
                        }
                        _ => {}
                    },
                    msgr::Output::Reset { session, reason } => {
                        tracing::debug!("heartbeats: {reason}");
                        port.forget(session);
                    }
                    _ => {}
                }
            }
        }
    }
}

impl<I: Io> Handler<I> for HeartbeatNode {
    fn received(&mut self, io: &mut I, conn: reactor::ConnId, bytes: &[u8]) -> usize {
        self.port_of(conn).map_or(bytes.len(), |port| port.link.received(io, conn, bytes))
    }

    fn event(&mut self, io: &mut I, event: Event) {
        match event {
            Event::Accepted { listener, conn, peer } => {
                if let Some(port) = self.ports.values_mut().find(|port| port.listener == listener) {
                    port.link.accepted(io, conn, peer);
                }
            }
            Event::Connected { conn, result } => {
                let Some(port) = self.port_of(conn) else { return };
                match result {
                    Ok(_) => port.link.connected(io, conn),
                    Err(e) => port.link.closed(io, conn, &e),
                }
            }
            Event::BulkReceived { conn, buf } => {
                if let Some(port) = self.port_of(conn) {
                    port.link.bulk_received(io, conn, buf);
                }
            }
            Event::Closed { conn, cause } => {
                if let Some(port) = self.port_of(conn) {
                    port.link.closed(io, conn, cause.as_str());
                }
            }
            Event::Timer { token: TICK } => {
                let now = io.now();
                self.tick(now);
                io.set_timer(now + LOOK_EVERY, TICK);
            }
            Event::Timer { .. } => {
                let now = io.now();
                for port in self.ports.values_mut() {
                    port.link.end_connections(io);
                    port.link.messenger.tick(now);
                }
            }
            Event::Woken => {
                if self.board.is_ended() {
                    io.stop();
                }
            }
            Event::Sent { .. } | Event::Disk { .. } => {}
        }
    }

    fn turn_end(&mut self, io: &mut I) {
        self.pump(io);
        let wake = self.ports.values().filter_map(|port| port.link.messenger.next_wake()).min();
        if let Some(at) = wake {
            io.set_timer(at.max(io.now() + Duration::from_millis(1)), MESSENGERS);
        }
    }

    fn heeds_sent(&self) -> bool {
        false
    }
}
