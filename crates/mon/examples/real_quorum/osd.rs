//! A stand-in for an OSD as monitors see it: a session over TCP, by our own messenger.

use crate::FSID;
use osdmap::{Incremental, MonMap, OsdMap};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use types::{EntityName, Epoch, Fsid, OsdId};
use wire::messages as msg;
use wire::msgr::{Config, ConnId, Messenger, Output, Policy, SessionId};
use wire::nacre::mon::{OsdBeacon, OsdBoot, OsdFailure, OsdStats, osd_features};
use wire::{Decode, EntityAddrVec, Message, Target};

const BEACON_EVERY: Duration = Duration::from_secs(5);
/// Pause before the next monitor is tried.
const RECONNECT: Duration = Duration::from_millis(500);
const DIAL_TIME: Duration = Duration::from_secs(3);
const READ_BYTES: usize = 64 << 10;
/// OSDs of a host, and of a rack.
pub const HOST_OSDS: usize = 20;
pub const RACK_OSDS: usize = 400;

/// An order for an OSD.
pub enum Order {
    /// Start, as a new process.
    Start,
    /// Be gone at once.
    Vanish,
    /// Report another one, which cannot be reached.
    Report(usize, EntityAddrVec),
    /// Ask for something that only a client would ask for.
    Command(String),
}

/// Figures that all OSDs share.
pub struct Known {
    pub zero: Instant,
    /// The newest epoch of each OSD.
    pub epochs: Vec<AtomicU32>,
    pub bytes: AtomicU64,
    /// Time at which an OSD last got a new map.
    pub heard_ms: AtomicU64,
    pub sent_away: AtomicU64,
    /// The map, which the first OSD keeps in full, and the number of monitors.
    pub map: Mutex<Option<OsdMap>>,
    pub monitors: AtomicU32,
}

pub fn addrs(osd: usize, network: usize, start: u32) -> EntityAddrVec {
    let (a, b, port) = (osd / 5000, 1 + osd / HOST_OSDS % 250, 6800 + osd % 5000);
    format!("[v2:10.{network}.{a}.{b}:{port}/{start}]").parse().expect("valid")
}

pub struct Osd {
    id: usize,
    monitors: Arc<Vec<EntityAddrVec>>,
    known: Arc<Known>,
    messenger: Messenger,
    socket: Option<(ConnId, TcpStream)>,
    session: Option<SessionId>,
    /// The monitor of the session, counted on.
    monitor: usize,
    reconnect_at: Option<Duration>,
    beacon_at: Duration,
    starts: u32,
    runs: bool,
}

impl Osd {
    pub fn new(id: usize, monitors: Arc<Vec<EntityAddrVec>>, known: Arc<Known>) -> Osd {
        let config = Config { bulk_min_bytes: None, ..Config::osd(OsdId(id as i32), addrs(id, 1, 1), id as u64 + 1) };
        Osd {
            id,
            monitors,
            known,
            messenger: Messenger::new(config),
            socket: None,
            session: None,
            monitor: id,
            reconnect_at: Some(Duration::from_micros(200 * id as u64)),
            beacon_at: Duration::MAX,
            starts: 0,
            runs: true,
        }
    }

    fn now(&self) -> Duration {
        self.known.zero.elapsed()
    }

    fn epoch(&self) -> Epoch {
        Epoch(self.known.epochs[self.id].load(Ordering::Relaxed))
    }

    pub async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        let mut buf = vec![0; READ_BYTES];
        loop {
            while let Some(output) = self.messenger.poll() {
                self.output(output).await;
            }
            let dues = [self.messenger.next_wake(), self.reconnect_at, Some(self.beacon_at)];
            let wait = dues.into_iter().flatten().min().unwrap_or(Duration::MAX).saturating_sub(self.now());
            let wait = wait.clamp(Duration::from_millis(1), Duration::from_secs(60));
            let reading = async {
                match &mut self.socket {
                    Some((conn, socket)) => (*conn, socket.read(&mut buf).await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                order = orders.recv() => match order {
                    Some(order) => self.order(order),
                    None => return,
                },
                (conn, read) = reading => match read {
                    Ok(len) if len > 0 => {
                        self.known.bytes.fetch_add(len as u64, Ordering::Relaxed);
                        let now = self.now();
                        self.messenger.received(conn, &buf[..len], now);
                        self.messenger.answer_unproven(now);
                    }
                    _ => self.lost("closed by the monitor"),
                },
                () = tokio::time::sleep(wait) => self.due(),
            }
        }
    }

    fn lost(&mut self, cause: &str) {
        if let Some((conn, _)) = self.socket.take() {
            let now = self.now();
            self.messenger.closed(conn, cause, now);
        }
    }

    fn due(&mut self) {
        let now = self.now();
        self.messenger.tick(now);
        if self.runs && self.reconnect_at.is_some_and(|at| at <= now) {
            self.reconnect_at = None;
            self.monitor += 1;
            let addrs = &self.monitors[self.monitor % self.monitors.len()];
            self.session = Some(self.messenger.connect(EntityName::mon(-1), addrs, Policy::MON_CLIENT, now));
        }
        if self.beacon_at <= now {
            self.beacon_at = now + BEACON_EVERY;
            let stats = OsdStats { total_bytes: 1 << 40, free_bytes: 1 << 39, ..OsdStats::default() };
            self.say(OsdBeacon {
                osd: OsdId(self.id as i32),
                epoch: self.epoch(),
                stats,
                pgs: Vec::new(),
                options: None,
                pings: None,
            });
        }
    }

    fn say(&mut self, message: impl Message) {
        if let Some(session) = self.session {
            self.messenger.send(session, message.seal(1, Target::PACIFIC));
        }
    }

    fn order(&mut self, order: Order) {
        match order {
            Order::Start => {
                self.starts += 1;
                self.beacon_at = self.now() + BEACON_EVERY * (self.id % 97) as u32 / 97;
                match std::mem::replace(&mut self.runs, true) {
                    true => self.say(self.boot()),
                    false => self.reconnect_at = Some(self.now()),
                }
            }
            Order::Vanish => {
                self.lost("gone");
                (self.session, self.reconnect_at, self.beacon_at, self.runs) = (None, None, Duration::MAX, false);
            }
            Order::Report(target, target_addrs) => {
                let (failed_for_ms, epoch, target) = (21_000, self.epoch(), OsdId(target as i32));
                self.say(OsdFailure { target, target_addrs, epoch, immediate: false, failed_for_ms });
            }
            Order::Command(json) => {
                self.say(msg::MonCommand { have: 0, fsid: FSID, cmd: vec![json], input: Default::default() });
            }
        }
    }

    async fn output(&mut self, output: Output) {
        match output {
            Output::Connect { conn, to } => {
                let dialled = tokio::time::timeout(DIAL_TIME, TcpStream::connect(to)).await;
                let now = self.now();
                match dialled {
                    Ok(Ok(socket)) => {
                        self.socket = Some((conn, socket));
                        self.messenger.connected(conn, now);
                    }
                    _ => self.messenger.closed(conn, "cannot be dialled", now),
                }
            }
            Output::Transmit { conn, data } => {
                let Some((_, socket)) = self.socket.as_mut().filter(|(of, _)| *of == conn) else { return };
                for piece in data.into_pieces() {
                    if socket.write_all(&piece).await.is_err() {
                        return self.lost("cannot be written");
                    }
                }
            }
            Output::Close { .. } => self.socket = None,
            Output::Opened { .. } => self.opened(),
            Output::Message { envelope, .. } if envelope.header.kind == msg::OsdMap::TYPE => {
                self.heard(msg::OsdMap::open(&envelope).expect("well-formed"));
            }
            Output::Message { envelope, .. } if envelope.header.kind == msg::MonMap::TYPE => {
                let map = msg::MonMap::open(&envelope).expect("well-formed").map;
                let map = MonMap::from_slice(&map).expect("well-formed");
                self.known.monitors.store(map.mons.len() as u32, Ordering::Relaxed);
            }
            Output::Reset { .. } if self.runs => {
                self.known.sent_away.fetch_add(1, Ordering::Relaxed);
                self.session = None;
                self.reconnect_at = Some(self.now() + RECONNECT);
            }
            _ => {}
        }
    }

    /// Asks for the maps that the OSD lacks, and reports that it is there.
    fn opened(&mut self) {
        self.subscribe();
        if self.starts > 0 {
            self.say(self.boot());
        }
    }

    fn subscribe(&mut self) {
        let start = match self.epoch() {
            Epoch(0) => 0,
            have => u64::from(have.0) + 1,
        };
        let mut what = BTreeMap::from([("osdmap".to_owned(), msg::Subscription { start, onetime: false })]);
        if self.id == 0 {
            what.insert("monmap".to_owned(), msg::Subscription { start: 0, onetime: false });
        }
        self.say(msg::MonSubscribe { what, hostname: "here".to_owned() });
    }

    fn heard(&mut self, message: msg::OsdMap) {
        let last = message.last();
        if last <= self.epoch() {
            return;
        }
        self.known.epochs[self.id].store(last.0, Ordering::Relaxed);
        self.known.heard_ms.fetch_max(self.now().as_millis() as u64, Ordering::Relaxed);
        if last < message.newest {
            // One message does not hold all maps.
            self.subscribe();
        }
        if self.id != 0 {
            return;
        }
        let mut map = self.known.map.lock().expect("nobody panics under it");
        for full in message.fulls.values() {
            *map = Some(OsdMap::from_slice(full).expect("well-formed"));
        }
        for (epoch, incremental) in &message.incrementals {
            if let Some(map) = map.as_mut().filter(|map| map.epoch.next() == *epoch) {
                let incremental = Incremental::from_slice(incremental).expect("well-formed");
                map.apply(&incremental).expect("it follows");
            }
        }
    }

    fn boot(&self) -> OsdBoot {
        let host = format!("host{}", self.id / HOST_OSDS);
        let addrs = |network| addrs(self.id, network, self.starts);
        OsdBoot {
            fsid: FSID,
            osd: OsdId(self.id as i32),
            osd_uuid: Fsid((self.id as u128 + 1).to_le_bytes()),
            public_addrs: addrs(1),
            cluster_addrs: addrs(2),
            hb_back_addrs: addrs(3),
            hb_front_addrs: addrs(4),
            epoch: self.epoch().max(Epoch(1)),
            weight: 0x1_0000,
            location: BTreeMap::from([
                ("host".to_owned(), host.clone()),
                ("rack".to_owned(), format!("rack{}", self.id / RACK_OSDS)),
            ]),
            device_class: "ssd".to_owned(),
            metadata: BTreeMap::from([("hostname".to_owned(), host)]),
            features: osd_features::ALL,
        }
    }
}
