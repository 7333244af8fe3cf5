//! Connections that silently cease to carry anything: the objecter and real sessions, joined by streams in memory.

use super::scripted::{MON_ADDRS, Scripted};
use super::{read, write};
use crate::objecter::{Answer, Event, Objecter, Request, Settings, Subject};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;
use types::{OsdId, PoolId};
use wire::basic::{AuthName, Locator};
use wire::messages as msg;
use wire::msgr::{Config, ConnId, Messenger, Output};
use wire::{EntityAddrVec, Message, Target};

const TICK: Duration = Duration::from_millis(50);

/// A daemon: a monitor that gives the map, or an OSD that answers everything.
struct Daemon {
    addr: SocketAddr,
    messenger: Messenger,
    /// Transaction ids and attempt numbers of the operations received.
    received: Vec<(u64, i32)>,
    /// The daemon takes operations and does not answer them.
    lazy: bool,
}

struct BlackHole {
    client: Messenger,
    objecter: Objecter<u64>,
    daemons: Vec<Daemon>,
    map: msg::OsdMap,
    /// Streams by the client's connection: the daemon, the daemon's connection, and true if bytes vanish.
    streams: BTreeMap<ConnId, (usize, ConnId, bool)>,
    now: Duration,
    done: Vec<(u64, Duration)>,
    lost_watches: usize,
}

impl BlackHole {
    /// A client that has the map of three OSDs.
    fn new() -> BlackHole {
        let script = Scripted::new(1);
        let daemon = |addr: EntityAddrVec, config: Config| Daemon {
            addr: addr.front().sockaddr.expect("an address"),
            messenger: Messenger::new(config),
            received: Vec::new(),
            lazy: false,
        };
        let mon_addr = EntityAddrVec::msgr2(MON_ADDRS[0].parse().unwrap(), 0);
        let mut daemons = vec![daemon(mon_addr.clone(), Config::mon(0, "a", mon_addr.clone(), 1))];
        daemons[0].messenger.set_global_ids(4100..4200);
        for osd in (0..3).map(OsdId) {
            let addr = script.map.osd(osd).expect("an OSD").client_addrs.clone();
            daemons.push(daemon(addr.clone(), Config::osd(osd, addr, 2 + osd.0 as u64)));
        }
        let settings = Settings {
            mons: vec![mon_addr],
            hostname: "h".into(),
            op_timeout: None,
            mon_op_timeout: None,
            seed: 3,
            resend: Default::default(),
            near: BTreeSet::new(),
        };
        let client = Config::client(AuthName::new(types::EntityType::CLIENT, "admin"), 9);
        let mut world = BlackHole {
            client: Messenger::new(Config { bulk_min_bytes: None, ..client }),
            objecter: Objecter::new(settings),
            daemons,
            map: script.full(),
            streams: BTreeMap::new(),
            now: Duration::from_secs(100),
            done: Vec::new(),
            lost_watches: 0,
        };
        world.objecter.start(&mut world.client, world.now);
        world.run(Duration::from_secs(1));
        assert!(world.objecter.placement().is_some());
        world
    }

    fn submit(&mut self, request: Request, who: u64) {
        self.objecter.submit(request, who, &mut self.client, self.now);
    }

    fn watch(&mut self, name: &str, cookie: u64) {
        let subject = Subject::Object { locator: Locator::pool(PoolId(1)), name: name.to_owned().into() };
        self.objecter.watch(subject, cookie, 0, 1000 + cookie, &mut self.client, self.now);
    }

    /// The daemon that has received most operations.
    fn busiest(&self) -> usize {
        (1..4).max_by_key(|daemon| self.daemons[*daemon].received.len()).expect("there are three")
    }

    /// Makes all bytes vanish, in both directions, on the present connections to a daemon.
    fn swallow(&mut self, daemon: usize) {
        let to_it = self.streams.values_mut().filter(|(other, ..)| *other == daemon);
        to_it.for_each(|(_, _, swallows)| *swallows = true);
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.settle();
            self.now += TICK;
            self.client.tick(self.now);
            self.objecter.tick(&mut self.client, self.now);
            self.daemons.iter_mut().for_each(|daemon| daemon.messenger.tick(self.now));
        }
        self.settle();
    }

    fn settle(&mut self) {
        loop {
            let mut idle = true;
            while let Some(output) = self.client.poll() {
                idle = false;
                self.client_does(output);
            }
            for daemon in 0..self.daemons.len() {
                while let Some(output) = self.daemons[daemon].messenger.poll() {
                    idle = false;
                    self.daemon_does(daemon, output);
                }
            }
            if idle {
                break;
            }
        }
        while let Some(done) = self.objecter.poll_done() {
            assert!(matches!(done.result, Ok(Answer::Op(_))), "{:?}", done.result);
            self.done.push((done.completion, self.now));
        }
        while let Some(event) = self.objecter.poll_event() {
            self.lost_watches += usize::from(matches!(event, Event::WatchLost { .. }));
        }
    }

    fn client_does(&mut self, output: Output) {
        let now = self.now;
        match output {
            Output::Connect { conn, to } => {
                let daemon = self.daemons.iter().position(|daemon| daemon.addr == to).expect("somebody listens");
                // The driver gives accepted connections even numbers.
                let theirs = ConnId(conn.0 * 2);
                self.streams.insert(conn, (daemon, theirs, false));
                self.daemons[daemon].messenger.accepted(theirs, "10.9.0.1:999".parse().unwrap(), now);
                self.client.connected(conn, now);
            }
            Output::Transmit { conn, data } => {
                if let Some((daemon, theirs, false)) = self.streams.get(&conn) {
                    self.daemons[*daemon].messenger.received_all(*theirs, &data.to_vec(), now);
                }
            }
            Output::Close { conn } => {
                if let Some((daemon, theirs, false)) = self.streams.remove(&conn) {
                    self.daemons[daemon].messenger.closed(theirs, "closed", now);
                }
            }
            Output::Opened { session, .. } => self.objecter.opened(session, &mut self.client),
            Output::Message { session, envelope, .. } => {
                self.objecter.message(session, envelope, &mut self.client, now);
            }
            Output::Reset { session, reason } => self.objecter.reset(session, reason, &mut self.client, now),
            Output::Faulted { .. } | Output::Refused { .. } => {}
        }
    }

    fn daemon_does(&mut self, number: usize, output: Output) {
        let now = self.now;
        let ours = |streams: &BTreeMap<ConnId, (usize, ConnId, bool)>, theirs: ConnId| {
            let found = streams.iter().find(|(_, (daemon, conn, _))| (*daemon, *conn) == (number, theirs));
            found.map(|(conn, (.., swallows))| (*conn, *swallows))
        };
        match output {
            Output::Transmit { conn, data } => {
                if let Some((conn, false)) = ours(&self.streams, conn) {
                    self.client.received_all(conn, &data.to_vec(), now);
                }
            }
            Output::Close { conn } => {
                if let Some((conn, false)) = ours(&self.streams, conn) {
                    self.streams.remove(&conn);
                    self.client.closed(conn, "closed", now);
                }
            }
            Output::Message { session, envelope, .. } => {
                let daemon = &mut self.daemons[number];
                match envelope.header.kind {
                    msg::MonSubscribe::TYPE => {
                        daemon.messenger.send(session, self.map.clone().seal(0, Target::default()));
                    }
                    msg::OsdOp::TYPE => {
                        let op = msg::OsdOp::open(&envelope).expect("an operation");
                        daemon.received.push((envelope.header.tid, op.retry_attempt));
                        if !daemon.lazy {
                            let reply = msg::OsdOpReply::to(&op, 0, op.epoch);
                            daemon.messenger.send(session, reply.seal(envelope.header.tid, Target::default()));
                        }
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
}

/// Hands in all bytes at once: no bulk segments are received here.
trait ReceivedAll {
    fn received_all(&mut self, conn: ConnId, bytes: &[u8], now: Duration);
}

impl ReceivedAll for Messenger {
    fn received_all(&mut self, conn: ConnId, bytes: &[u8], now: Duration) {
        let mut at = 0;
        while at < bytes.len() {
            at += self.received(conn, &bytes[at..], now);
            self.answer_unproven(now);
            let Some(wanted) = self.bulk_wanted(conn) else { continue };
            let mut bulk = types::AlignedBuf::zeroed(wanted);
            bulk.as_mut_slice().copy_from_slice(&bytes[at..at + wanted]);
            at += wanted;
            self.bulk_received(conn, bulk, now);
        }
    }
}

#[test]
fn a_connection_that_swallows_everything_is_left_and_its_operations_are_sent_again() {
    let mut world = BlackHole::new();
    world.submit(write("a"), 0);
    world.run(Duration::from_secs(60));
    assert_eq!(world.done.len(), 1);
    let daemon = world.busiest();
    world.swallow(daemon);
    let since = world.now;
    world.submit(write("a"), 1);
    world.submit(read("a"), 2);
    world.run(Duration::from_secs(60));
    assert_eq!(world.done.len(), 3, "all are answered in the end");
    assert!(world.done[1..].iter().all(|(_, at)| *at < since + Duration::from_secs(22)), "{:?}", world.done);
    let attempts: Vec<i32> = world.daemons[daemon].received.iter().map(|(_, attempt)| *attempt).collect();
    assert_eq!(attempts, [0, 1, 1], "the first to reach it were second attempts");
}

#[test]
fn a_watch_whose_connection_swallows_everything_is_connected_again_before_osds_drop_it() {
    let mut world = BlackHole::new();
    world.watch("a", 7);
    world.run(Duration::from_secs(31));
    let daemon = world.busiest();
    world.swallow(daemon);
    let (since, before) = (world.now, world.objecter.watch_confirmed(7).expect("confirmed"));
    while world.objecter.watch_confirmed(7) == Some(before) && world.now < since + Duration::from_secs(60) {
        world.run(TICK);
    }
    assert!(world.now < before + Duration::from_secs(30), "after {:?}", world.now - before);
    assert_eq!(world.lost_watches, 0);
}

#[test]
fn an_osd_that_lives_is_waited_for_however_long_it_takes() {
    let mut world = BlackHole::new();
    world.daemons[1..].iter_mut().for_each(|daemon| daemon.lazy = true);
    world.submit(write("a"), 1);
    world.run(Duration::from_secs(300));
    let daemon = world.busiest();
    assert_eq!(world.daemons[daemon].received, [(1, 0)], "sent once, as its connection lives");
}
