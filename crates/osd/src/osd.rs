//! The reactor's handler of an OSD.

mod cluster_log;
mod commanding;
mod from_monitor;
mod handing_over;
mod memory;
mod metadata;
mod proving;
mod reporting;

pub use memory::ConnectionMemory;

use crate::OsdConfig;
use crate::commands::Asker;
use crate::connection_shares::ConnectionShares;
use crate::failure::{Failure, NotReady, StorePlace};
use crate::heartbeat::{self, Board, DiskWait, HeartbeatAddrs, Reports, UNWELL_AFTER};
use crate::leaving::{Leaving, SETTLE_EVERY};
use crate::link::Link;
use crate::monitor::MonitorLink;
use crate::peers::Peers;
use crate::run::Stop;
use crate::shard_making::{limits, make_shard, ready_store, store_memory};
use crate::shards::{Others, ToWorker};
use commanding::Commands;
use devices::{DeviceFiles, Division};
use metadata::metadata;
use osdmap::OsdState;
use pg::Shard;
use pg::ops::Limits;
use proving::ConnectedClient;
use reactor::{Event, Handler, Io, ListenerId};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use stdx::ClockWatch;
use store::{IoDone, IoId, Opening, Store};
use types::{EntityType, Epoch, Fsid};
use wire::messages::{self, Command, Ping, kind_name};
use wire::msgr::limits::SEALED_AHEAD_BYTES;
use wire::msgr::{self, Config, Messenger, SessionId};
use wire::nacre::mon::{OsdBoot, OsdFailure, OsdGoingDown};
use wire::{DecodeError, EntityAddrVec, Envelope, Message, Target};

/// Numbers of timers.
const TICK: u64 = 1;
const MESSENGERS: u64 = 2;
const SETTLE: u64 = 3;

pub(crate) const TICK_EVERY: Duration = Duration::from_secs(1);
/// The largest gain of the wall clock between two looks that counts as normal. There is at least one look per second,
/// so a clock that is being set right gains no more than this. Other OSDs keep their promises for longer than this
/// beyond their end.
pub(crate) const CLOCK_GAIN_MAX: Duration = Duration::from_millis(100);
/// Time after which a drive that owes an answer is given up. Other OSDs have long taken over by then.
pub(crate) const DRIVE_GIVEN_UP_AFTER: Duration = Duration::from_secs(60);

enum Stage {
    /// The OSD reads its store.
    Opening(Box<Opening>),
    /// The store is open; other shards' stores are not yet.
    Open(Box<Store>),
    Running(Box<Running>),
    Ended,
}

/// An OSD at work.
struct Running {
    /// The OSD's first shard.
    shard: Shard,
    others: Others,
    uuid: Fsid,
    public: Link,
    cluster: Link,
    monitor: MonitorLink,
    peers: Peers,
    beacon_at: Duration,
    boot_at: Duration,
    /// The reason why the monitors last refused to mark this OSD up.
    refused: Option<String>,
    /// True once the map has shown the OSD up since this start.
    was_up: bool,
    /// True if an operator has the OSD stop.
    is_unwanted: bool,
    /// Progress of an orderly stop, once it has begun.
    leaving: Option<Leaving>,
    /// A map has come into force, and this OSD has not yet compared its own state with it.
    map_is_new: bool,
    /// Sessions of clients.
    clients: BTreeMap<SessionId, ConnectedClient>,
    /// Clients' breaches of the protocol that the log has told of.
    breaches: msgr::BreachesTold,
    /// Connections without a session that the log has told of.
    refusals: msgr::RefusalsTold,
    /// The OSD has asked for maps from this epoch on. It does not ask again before the next tick.
    asked_from: Option<Epoch>,
    disk_wait: DiskWait,
    /// Value of [`Limits::message_bytes`].
    message_bytes: usize,
    clock_watch: ClockWatch,
    commands: Commands,
}

/// One OSD in one reactor: its first shard, and all work that concerns the OSD as a whole.
pub struct Osd {
    config: OsdConfig,
    stop: Stop,
    files: DeviceFiles,
    public_listener: ListenerId,
    cluster_listener: ListenerId,
    public_addrs: EntityAddrVec,
    cluster_addrs: EntityAddrVec,
    limits: Limits,
    shares: ConnectionShares,
    /// Memory that the store's metadata may take.
    store_memory: store::Memory,
    heartbeats: Option<Heartbeats>,
    /// The other shards, until the OSD runs.
    others: Others,
    stage: Stage,
}

/// The heartbeats of this OSD. Another thread or handler sends and answers them.
struct Heartbeats {
    board: Arc<Board>,
    addrs: HeartbeatAddrs,
    reports: Reports,
}

impl Heartbeats {
    /// Has the heartbeats watch the right OSDs after a new map.
    fn follow_map(&self, shard: &Shard) {
        let map = shard.map();
        let sharing = shard.sharing_osds();
        self.board.set_peers(map.epoch, heartbeat::neighbours(map, shard.whoami(), sharing.iter().copied()));
    }
}

pub(crate) fn advertised(bound: SocketAddr, advertise: Option<SocketAddr>, nonce: u32) -> EntityAddrVec {
    let mut addr = advertise.unwrap_or(bound);
    if addr.port() == 0 {
        addr.set_port(bound.port());
    }
    EntityAddrVec::msgr2(addr, nonce)
}

impl Osd {
    /// Opens the device and the listening sockets, and begins to read the store.
    ///
    /// Errors: a device that is missing or in use by another process; an address that cannot be bound.
    pub fn new(io: &mut impl Io, config: OsdConfig, stop: Stop) -> io::Result<Osd> {
        Osd::of_shards(io, config, stop, Division::WHOLE)
    }

    /// Opens the first part of a divided store by one shard's `config`. [`Osd::set_others`] follows before any turn.
    pub(crate) fn of_shards(io: &mut impl Io, config: OsdConfig, stop: Stop, division: Division) -> io::Result<Osd> {
        let files = DeviceFiles::open(io, &config.devices, division)?;
        let (public_listener, public_bound) = io.listen(config.public_bind)?;
        let (cluster_listener, cluster_bound) = io.listen(config.cluster_bind)?;
        // The nonce tells this start from earlier ones.
        let nonce = (io.random() as u32).max(1);
        let public_addrs = advertised(public_bound, config.public_advertise, nonce);
        let cluster_addrs = advertised(cluster_bound, config.cluster_advertise, nonce);
        let store_config = config.store_config(division.slice(0), files.bytes(io)?);
        let opening = Box::new(Store::open(store_config));
        let (limits, store_memory) = (limits(&config), store_memory(&config));
        let mut osd = Osd {
            config,
            stop,
            files,
            public_listener,
            cluster_listener,
            public_addrs,
            cluster_addrs,
            limits,
            shares: ConnectionShares::of(None),
            store_memory,
            heartbeats: None,
            others: Others::default(),
            stage: Stage::Opening(opening),
        };
        osd.pump_opening(io);
        Ok(osd)
    }

    /// Ends the session with another OSD, as a malformed message does.
    pub fn end_peer_session(&mut self, osd: types::OsdId) {
        if let Stage::Running(run) = &mut self.stage {
            run.end_peer_session(osd);
        }
    }

    /// Gives up the unfound objects of a group of the first shard, for an operator. Returns true if there were any.
    pub fn give_up_unfound(&mut self, pgid: types::PgId) -> bool {
        match &mut self.stage {
            Stage::Running(run) => run.shard.give_up_unfound(pgid).is_ok(),
            Stage::Opening(_) | Stage::Open(_) | Stage::Ended => false,
        }
    }

    /// Epoch of the OSD's map. `None` until all stores are open.
    pub fn epoch(&self) -> Option<Epoch> {
        match &self.stage {
            Stage::Running(running) => Some(running.shard.map().epoch),
            Stage::Opening(_) | Stage::Open(_) | Stage::Ended => None,
        }
    }

    /// Replaces the limits on operations and logs. Must be called before the first turn.
    pub fn with_limits(mut self, limits: Limits) -> Osd {
        self.limits = limits;
        self
    }

    /// Replaces the memory for the store's metadata; with little, lookups wait. Must be called before the first turn.
    pub fn with_store_memory(mut self, memory: store::Memory) -> Osd {
        self.store_memory = memory;
        self
    }

    /// Gives each kind of connections its share. Must be called before the first turn.
    pub(crate) fn limit_connections(&mut self, io: &mut impl Io, shares: ConnectionShares) {
        self.shares = shares;
        io.limit_accepted(self.public_listener, shares.clients);
        io.limit_accepted(self.cluster_listener, shares.peers);
    }

    /// Sets the OSD's other shards. Must be called before the first turn.
    pub(crate) fn set_others(&mut self, others: Others) {
        self.others = others;
    }

    /// Connects the OSD with its heartbeats, which run elsewhere at `addrs`. Must be called before the first turn.
    pub fn set_heartbeats(&mut self, board: Arc<Board>, addrs: HeartbeatAddrs) {
        self.heartbeats = Some(Heartbeats { board, addrs, reports: Reports::default() });
    }

    fn pump_opening(&mut self, io: &mut impl Io) {
        let Stage::Opening(opening) = &mut self.stage else { return };
        while let Some(request) = opening.poll_io() {
            self.files.submit(io, request);
        }
        match opening.poll_result() {
            None => {}
            Some(Err(e)) => self.fail(io, &Failure::Store { place: self.place(), why: NotReady::Open(e) }),
            Some(Ok(store)) => {
                match ready_store(io, &self.files, &self.config, self.store_memory, store) {
                    Ok(store) => self.stage = Stage::Open(Box::new(store)),
                    Err(why) => self.fail(io, &Failure::Store { place: self.place(), why }),
                }
                self.begin_if_open(io);
            }
        }
    }

    /// The place of the first shard's store, for messages.
    fn place(&self) -> StorePlace {
        StorePlace { device: self.config.devices.main.clone(), shard: None }
    }

    /// Begins to run once every shard's store is open.
    fn begin_if_open(&mut self, io: &mut impl Io) {
        if let Stage::Opening(_) | Stage::Open(_) = &self.stage
            && let Some(why) = self.others.take_opened()
        {
            return self.fail(io, &why);
        }
        if let Stage::Open(_) = &self.stage
            && self.others.all_opened()
            && let Stage::Open(store) = std::mem::replace(&mut self.stage, Stage::Ended)
        {
            self.begin(io, *store);
        }
    }

    fn fail(&mut self, io: &mut impl Io, why: &Failure) {
        tracing::error!("{why}");
        self.stop.failed(why);
        self.stage = Stage::Ended;
        io.stop();
    }

    fn begin(&mut self, io: &mut impl Io, store: Store) {
        let mut others = std::mem::take(&mut self.others);
        let homes = match others.begin(store.pgs(), &self.public_addrs) {
            Ok(homes) => homes,
            Err(why) => return self.fail(io, &Failure::Homes { place: self.place(), why }),
        };
        let id = self.config.id;
        let uuid = store.uuid();
        let login = self.config.login.as_ref();
        let shares = self.shares;
        let (public_seed, cluster_seed) = (io.random(), io.random());
        let buffers = io.buffers();
        let link = |addrs: &EntityAddrVec, seed, speaks_with_monitors, share| {
            let half_open_max = ConnectionShares::half_open_of(share);
            let sealed_ahead_bytes = SEALED_AHEAD_BYTES;
            let config = Config { half_open_max, sealed_ahead_bytes, ..Config::osd(id, addrs.clone(), seed) };
            Link::proving(Messenger::new(config).with_buffers(buffers.clone()), login, speaks_with_monitors)
        };
        let monitor = MonitorLink::new(self.config.monitors.clone(), io.random() as usize);
        let shard = make_shard(&self.config, store, self.limits, self.public_addrs.clone()).as_part(0, homes);
        self.stage = Stage::Running(Box::new(Running {
            shard,
            others,
            uuid,
            public: link(&self.public_addrs, public_seed, true, shares.clients),
            cluster: link(&self.cluster_addrs, cluster_seed, false, shares.peers),
            monitor,
            peers: Peers::default(),
            beacon_at: Duration::ZERO,
            boot_at: Duration::ZERO,
            refused: None,
            was_up: false,
            is_unwanted: false,
            leaving: None,
            map_is_new: false,
            clients: BTreeMap::new(),
            breaches: msgr::BreachesTold::default(),
            refusals: msgr::RefusalsTold::default(),
            asked_from: None,
            disk_wait: DiskWait::default(),
            message_bytes: self.limits.message_bytes,
            clock_watch: ClockWatch::new(CLOCK_GAIN_MAX),
            commands: Commands::new(self.config.clone(), self.heartbeats.as_ref().map(|it| it.board.clone())),
        }));
        self.stop.opened();
        self.tick(io);
    }

    fn tick(&mut self, io: &mut impl Io) {
        let Stage::Running(run) = &mut self.stage else { return };
        let now = io.now();
        run.shard.set_time(now);
        run.shard.tick();
        run.public.messenger.tick(now);
        run.cluster.messenger.tick(now);
        run.monitor.hunt(&mut run.public.messenger, now);
        run.renew_credentials(io);
        run.turn_out_ended(io);
        run.asked_from = None;
        run.tune(io);
        if let Some(as_one) = run.others.as_one() {
            as_one.tick(now);
        }
        let own_disk_wait = run.disk_wait.tick(now);
        let disk_wait = own_disk_wait.max(run.others.disk_wait());
        if disk_wait >= DRIVE_GIVEN_UP_AFTER {
            return self.fail(io, &Failure::DriveHangs { place: self.place(), owed: disk_wait });
        }
        if disk_wait >= UNWELL_AFTER {
            tracing::warn!("the drive has owed an answer for {} s", disk_wait.as_secs());
        }
        if let Some(heartbeats) = &self.heartbeats {
            heartbeats.board.set_disk_wait(disk_wait);
            heartbeats.board.set_pace(run.commands.pace());
        }
        run.boot_if_needed(&self.config, &self.public_addrs, &self.cluster_addrs, self.heartbeats.as_ref(), now);
        run.report_failures(self.heartbeats.as_mut(), now);
        if self.stop.is_wanted() {
            run.leave(&self.public_addrs, now);
        }
        io.set_timer(now + TICK_EVERY, TICK);
    }
}

impl Running {
    fn boot_if_needed(
        &mut self,
        config: &OsdConfig,
        public_addrs: &EntityAddrVec,
        cluster_addrs: &EntityAddrVec,
        heartbeats: Option<&Heartbeats>,
        now: Duration,
    ) {
        let map = self.shard.map();
        let shown = map.is_up(config.id) && map.osd(config.id).is_some_and(|osd| osd.client_addrs == *public_addrs);
        let too_early = map.epoch == Epoch(0) || !self.monitor.is_open() || now < self.boot_at;
        // If its drive hangs, this OSD was marked down for that, and would only be marked down again.
        let is_unwell = heartbeats.is_some_and(|heartbeats| !heartbeats.board.drive_answers());
        if shown {
            self.refused = None;
            self.was_up = true;
        }
        // This does not hold for an OSD that was started again: it comes up all the same.
        if self.was_up
            && map.osd(config.id).is_some_and(|osd| osd.state.contains(OsdState::STOP))
            && self.leaving.is_none()
        {
            tracing::info!(osd = config.id.0, epoch = map.epoch.0, "an operator has it stop");
            self.is_unwanted = true;
            return self.leave(public_addrs, now);
        }
        // A shard that has not seen that this OSD was down would confuse its promises from before and from afterwards.
        let all_know = self.others.all_follow(map.epoch);
        let is_blind = config.login.as_ref().is_some_and(|login| !login.are_there());
        if is_blind || shown || too_early || is_unwell || !all_know || self.leaving.is_some() {
            return;
        }
        self.boot_at = now + Duration::from_secs(1);
        let usage = self.others.usage(self.shard.store().usage());
        let tebibytes = usage.total_bytes as f64 / (1u64 << 40) as f64;
        let boot = OsdBoot {
            fsid: config.fsid,
            osd: config.id,
            osd_uuid: self.uuid,
            public_addrs: public_addrs.clone(),
            cluster_addrs: cluster_addrs.clone(),
            hb_back_addrs: heartbeats.map_or(cluster_addrs, |own| &own.addrs.back).clone(),
            hb_front_addrs: heartbeats.map_or(public_addrs, |own| &own.addrs.front).clone(),
            epoch: map.epoch,
            weight: ((tebibytes * 65536.0) as u32).max(1),
            location: config.location.clone(),
            device_class: config.device_class.clone(),
            metadata: BTreeMap::new(),
            features: config.features,
        };
        let boot = OsdBoot { metadata: metadata(config, (self.others.shards(), usage.total_bytes), &boot), ..boot };
        if self.refused.is_none() {
            tracing::info!(osd = config.id.0, epoch = map.epoch.0, "asks the monitors to be marked up");
        }
        self.monitor.send(&mut self.public.messenger, boot.seal(0, Target::default()));
    }

    /// Reports peers that cannot be reached to the monitors.
    fn report_failures(&mut self, heartbeats: Option<&mut Heartbeats>, now: Duration) {
        let map = self.shard.map();
        let mut failures = self.peers.failures(&self.cluster.messenger, map, now);
        // An OSD that is not well itself blames nobody.
        if let Some(heartbeats) = heartbeats.filter(|heartbeats| heartbeats.board.drive_answers()) {
            failures.extend(heartbeats.reports.due(&heartbeats.board.silent(), map, now));
        }
        for failure in failures {
            let OsdFailure { target, immediate, failed_for_ms, .. } = failure;
            tracing::info!(peer = %target, immediate, failed_for_ms, "peer cannot be reached");
            self.monitor.send(&mut self.public.messenger, failure.seal(0, Target::default()));
        }
    }

    /// Begins an orderly stop unless one has begun.
    fn leave(&mut self, public_addrs: &EntityAddrVec, now: Duration) {
        if self.leaving.is_none() {
            tracing::info!("stops in good order");
            self.leaving = Some(Leaving::begin(now, self.monitor.is_open()));
            let (osd, epoch) = (self.shard.whoami(), self.shard.map().epoch);
            let farewell = OsdGoingDown { osd, public_addrs: public_addrs.clone(), epoch };
            self.monitor.send(&mut self.public.messenger, farewell.seal(0, Target::default()));
        }
    }

    /// Tells whether an orderly stop has come to its end.
    fn has_left(&self, now: Duration) -> bool {
        let idle = self.shard.store().is_idle() && self.others.all_idle();
        let over = self.leaving.is_some_and(|leaving| leaving.is_over(now, idle));
        match (over, idle) {
            (false, _) => {}
            (true, true) => tracing::info!("has stopped; the next start has nothing to replay"),
            (true, false) => tracing::warn!("stops before its checkpoint is done: the next start replays the log"),
        }
        over
    }

    /// Tells whether something waits for memory that answers of the last turn hold, until the network has taken them.
    fn waits_for_network(&self) -> bool {
        self.shard.waits_for_answers() || self.shard.leaving_bytes() > 0 && self.public.waits_for_room()
    }

    /// Tells whether the OSD handles no more messages.
    fn is_deaf(&self) -> bool {
        self.leaving.is_some_and(|leaving| leaving.is_settling())
    }

    /// Handles all events of the messengers. Returns true if there were any.
    fn pump_links(&mut self, io: &mut impl Io) -> bool {
        let mut any = false;
        let deaf = self.is_deaf();
        let ignored = |event: &msgr::Output| deaf && matches!(event, msgr::Output::Message { .. });
        while let Some(event) = self.public.poll(io) {
            any = true;
            if !ignored(&event) {
                self.public_event(io, event);
            }
        }
        while let Some(event) = self.cluster.poll(io) {
            any = true;
            if !ignored(&event) {
                self.cluster_event(event, io.now());
            }
        }
        any
    }

    fn public_event(&mut self, io: &mut impl Io, event: msgr::Output) {
        match event {
            msgr::Output::Opened { session, .. } if self.monitor.is(session) => {
                self.monitor.opened();
                tracing::info!("has a session with a monitor");
                let epoch = self.shard.newest_epoch();
                let from = if epoch == Epoch(0) { epoch } else { epoch.next() };
                self.monitor.subscribe(&mut self.public.messenger, from);
                self.renew_credentials(io);
                self.asked_from = None;
                self.shard.monitor_connected();
                self.others.forget_reports();
                self.others.tell_all(|| ToWorker::MonitorConnected);
                self.commands.tells_options = true;
                self.commands.pings_told_at = None;
                self.beacon_at = io.now();
                self.commands.cluster_log.begin_session();
                self.send_cluster_log();
            }
            msgr::Output::Opened { session, peer } => {
                // Daemons of any kind are clients here, with the rights of their keys.
                let (name, addr, features) = (peer.name, peer.addrs.front(), peer.features);
                let rights = Arc::new(self.public.rights(session, &peer));
                let opened = || ToWorker::ClientOpened { session, name, addr, features, rights: rights.clone() };
                self.others.tell_all(opened);
                self.shard.client_opened(session, name, addr, features, rights.clone());
                self.clients.insert(session, ConnectedClient { peer, rights });
            }
            msgr::Output::Message { session, envelope, .. } if self.monitor.is(session) => {
                self.monitor_said(io, &envelope)
            }
            msgr::Output::Message { session, envelope, began } => self.client_message(io, session, &envelope, began),
            msgr::Output::Reset { session, reason } if self.monitor.is(session) => {
                tracing::info!("lost its monitor: {reason}");
                self.monitor.lost();
            }
            msgr::Output::Reset { session, reason } => {
                match self.breaches.is_news(&reason) {
                    true => tracing::info!("{reason}"),
                    false => tracing::debug!("{reason}"),
                }
                self.client_gone(session);
            }
            msgr::Output::Refused { reason, .. } => self.turned_away(&reason, io.now()),
            // The link has seen to the others; clients' sessions are lossy.
            _ => {}
        }
    }

    fn client_message(&mut self, io: &impl Io, session: SessionId, envelope: &Envelope, began: Duration) {
        let outcome = match envelope.header.kind {
            messages::OsdOp::TYPE => self.client_op(session, envelope, began),
            Command::TYPE if !self.may_command(session) => self.refuse_command(session, envelope),
            Command::TYPE => Command::open(envelope).map(|command| {
                let asker = Asker::Client { session, tid: envelope.header.tid };
                self.command(io, asker, command.cmd.first().map(String::as_str).unwrap_or_default());
            }),
            Ping::TYPE => {
                let pong = Ping { status: None }.seal(envelope.header.tid, Target::default());
                self.public.messenger.send(session, pong);
                Ok(())
            }
            messages::OsdBackoff::TYPE => self.client_backoff(session, envelope),
            other => {
                tracing::debug!(kind = kind_name(other), "message ignored");
                Ok(())
            }
        };
        if let Err(e) = outcome {
            self.close_client(session, envelope.header.kind, &e);
        }
    }

    fn close_client(&mut self, session: SessionId, kind: u16, why: &DecodeError) {
        let peer = self.clients.get(&session).map(|client| client.peer.name.to_string()).unwrap_or_default();
        tracing::warn!(%peer, kind = kind_name(kind), "malformed message: {why}; session closed");
        self.public.messenger.close(session);
        self.client_gone(session);
    }

    fn client_gone(&mut self, session: SessionId) {
        self.clients.remove(&session);
        self.others.forget_early(session);
        self.others.tell_all(|| ToWorker::ClientClosed { session });
        self.shard.client_closed(session);
    }

    fn cluster_event(&mut self, event: msgr::Output, now: Duration) {
        match event {
            msgr::Output::Opened { session, peer } => {
                let osd = types::OsdId(peer.name.num as i32);
                if peer.name.kind == EntityType::OSD && osd.is_some() {
                    if self.peers.opened(&mut self.cluster.messenger, osd, session, peer.addrs) {
                        self.peer_session_ended(osd);
                    }
                } else {
                    tracing::warn!(peer = %peer.name, "is no OSD and is turned away from the storage network");
                    self.cluster.messenger.close(session);
                }
            }
            msgr::Output::Message { session, envelope, began } => {
                let Some(from) = self.peers.osd_of(session) else { return };
                let kind = envelope.header.kind;
                let whole = self.peers.joined(session, envelope);
                if let Err(e) = whole.and_then(|whole| whole.map_or(Ok(()), |it| self.osd_message(from, &it, began))) {
                    self.bad_osd(from, kind, &e);
                }
            }
            msgr::Output::Reset { session, reason } => {
                tracing::info!("{reason}");
                if let Some(osd) = self.peers.reset(session) {
                    self.peer_session_ended(osd);
                }
            }
            msgr::Output::Faulted { session, reason } => {
                tracing::debug!("{reason}");
                self.peers.faulted(session, reason.is_refusal());
            }
            msgr::Output::Refused { reason, .. } => self.turned_away(&reason, now),
            // The link has seen to the others.
            _ => {}
        }
    }
}

impl<I: Io> Handler<I> for Osd {
    fn received(&mut self, io: &mut I, conn: reactor::ConnId, bytes: &[u8]) -> usize {
        let Stage::Running(run) = &mut self.stage else { return bytes.len() };
        let link = if run.cluster.owns(conn) { &mut run.cluster } else { &mut run.public };
        link.received(io, conn, bytes)
    }

    fn event(&mut self, io: &mut I, event: Event) {
        if let Event::Disk { io: id, result } = event {
            let done = IoDone { id: IoId(id), result };
            match &mut self.stage {
                Stage::Opening(opening) => {
                    opening.io_done(done);
                    self.pump_opening(io);
                }
                Stage::Running(run) => {
                    run.disk_wait.done(id);
                    run.shard.set_time(io.now());
                    run.shard.io_done(done);
                }
                Stage::Open(_) | Stage::Ended => {}
            }
            return;
        }
        let Stage::Running(run) = &mut self.stage else {
            // The OSD speaks to nobody before its store is open.
            if let Event::Accepted { conn, .. } = event {
                io.abort(conn);
            }
            return;
        };
        match event {
            Event::Accepted { listener, conn, peer } => {
                let link = if listener == self.public_listener { &mut run.public } else { &mut run.cluster };
                link.accepted(io, conn, peer);
            }
            Event::Connected { conn, result } => {
                let link = if run.cluster.owns(conn) { &mut run.cluster } else { &mut run.public };
                match result {
                    Ok(_) => link.connected(io, conn),
                    Err(e) => link.closed(io, conn, &e),
                }
            }
            Event::BulkReceived { conn, buf } => {
                let link = if run.cluster.owns(conn) { &mut run.cluster } else { &mut run.public };
                link.bulk_received(io, conn, buf);
            }
            Event::Closed { conn, cause } => {
                let link = if run.cluster.owns(conn) { &mut run.cluster } else { &mut run.public };
                link.closed(io, conn, cause.as_str());
            }
            Event::Timer { token: TICK } => self.tick(io),
            Event::Timer { .. } => {
                run.public.messenger.tick(io.now());
                run.cluster.messenger.tick(io.now());
            }
            Event::Woken => {
                let now = io.now();
                if self.stop.is_wanted() {
                    run.leave(&self.public_addrs, now);
                }
                run.report_failures(self.heartbeats.as_mut(), now);
            }
            Event::Sent { .. } | Event::Disk { .. } => {}
        }
    }

    fn turn_end(&mut self, io: &mut I) {
        self.begin_if_open(io);
        let Stage::Running(run) = &mut self.stage else { return };
        let now = io.now();
        run.shard.set_time(now);
        if let Some(gain) = run.clock_watch.look(io.clock(), io.wall_clock().to_unix()) {
            tracing::warn!(
                osd = self.config.id.0,
                "wall-clock time jumped ahead by {gain:.1?}: it was set, or this machine stood still; read leases are asked for anew"
            );
            run.shard.clock_stood_still();
        }
        let fatal_elsewhere = run.take_from_workers(io);
        run.pump_links(io);
        // The workers begin while this shard does its own part.
        run.others.flush();
        for (line, answers) in self.stop.take_questions() {
            run.command(io, Asker::Socket(answers), &line);
        }
        run.commands_go_on(io);
        run.maps_go_on();
        if std::mem::take(&mut run.map_is_new) {
            run.boot_if_needed(&self.config, &self.public_addrs, &self.cluster_addrs, self.heartbeats.as_ref(), now);
            if let Some(heartbeats) = &self.heartbeats {
                heartbeats.follow_map(&run.shard);
            }
        }
        if run.leaving.as_mut().is_some_and(|leaving| leaving.may_settle(now)) {
            run.shard.retire();
            run.others.tell_all(|| ToWorker::Retire);
        }
        let unsent_bytes = run.public.unsent_bytes(io) + run.cluster.sealed_bytes(io);
        run.others.set_unsent_bytes(unsent_bytes);
        run.shard.set_unsent_bytes(unsent_bytes / run.others.shards());
        // The rest of the turn gets a new time, so that a long turn shows in the times of its operations.
        run.shard.set_time(io.clock());
        run.shard.end_turn();
        run.bench_goes_on();
        let left = run.has_left(now);
        if left && run.is_unwanted {
            self.stop.stopped_by_operator();
        }
        let fatal = fatal_elsewhere.or_else(|| run.route(now));
        while let Some(request) = run.shard.poll_io() {
            run.disk_wait.submitted(request.id().0);
            self.files.submit(io, request);
        }
        run.shard.turn_sent(io.clock());
        let beacon_at = run.beacon_if_due(io);
        // Messages of this turn leave now. What comes of events that result is handled in the next turn.
        let goes_on = run.pump_links(io);
        run.others.flush();
        // An OSD that is about to stop takes nothing new from clients.
        let (store, shares) = (run.shard.store(), self.config.memory());
        let behind = store.is_behind();
        let uncommitted = store.uncommitted_bytes() > shares.uncommitted_bytes;
        let (clients_wait, peers_wait) = run.others.hold(shares.client_bytes);
        let (joined, _) = run.peers.joins.held_bytes();
        let of_first = run.shard.client_bytes() + run.shard.leaving_bytes();
        let held = of_first + run.others.client_bytes() + unsent_bytes + joined;
        let (room, is_full) = ((shares.client_bytes * run.others.shards()).saturating_sub(held), run.shard.is_full());
        run.public.set_room(io, room, is_full || run.others.is_full());
        run.public.pause_accepted(io, is_full || behind || clients_wait || run.leaving.is_some());
        // A message that comes in parts is mostly data that is to be written. Who has no room waits with its sender.
        run.peers
            .joins
            .set_room((shares.uncommitted_bytes - store.uncommitted_bytes().min(shares.uncommitted_bytes)) as usize);
        run.cluster.hold(io, run.peers.joins.waiting());
        // Other OSDs mostly send data, which becomes durable here without waiting for others: reading resumes soon.
        run.cluster.pause_all(io, behind || uncommitted || peers_wait);
        if run.is_deaf() {
            io.set_timer(now + SETTLE_EVERY, SETTLE);
        }
        let messengers = [run.public.messenger.next_wake(), run.cluster.messenger.next_wake()];
        let work = (run.shard.store().wants_turn() || run.waits_for_network()).then_some(now);
        let wakes = messengers.into_iter().chain([
            Some(beacon_at),
            run.shard.next_wake(),
            work,
            run.commands.wake(),
            goes_on.then_some(now),
        ]);
        if let Some(at) = wakes.flatten().min() {
            io.set_timer(at.max(now + Duration::from_millis(1)), MESSENGERS);
        }
        if let Some(why) = fatal {
            self.fail(io, &why);
        } else if left {
            self.stage = Stage::Ended;
            io.stop();
        }
    }

    fn heeds_sent(&self) -> bool {
        match &self.stage {
            Stage::Running(run) => run.public.heeds_sent() || run.cluster.heeds_sent() || run.waits_for_network(),
            Stage::Opening(_) | Stage::Open(_) | Stage::Ended => true,
        }
    }
}
