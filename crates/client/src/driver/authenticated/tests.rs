//! A client, a monitor and an OSD in memory, with one clock. The OSD refuses tickets that have expired.

use super::*;
use auth::cephx::monitor::{MonitorAccept, MonitorView, ServiceSecrets, TicketLifetimes, requests};
use auth::clock::TOLERANCE;
use auth::keyring::{Keyring, parse_entity};
use auth::messenger::Acceptor;
use auth::{Accepted, ClientPolicy, Key, KeyKind, Mode, Refusal, ServerPolicy, Step};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use types::OsdId;
use wire::msgr::{AuthAnswer, AuthStep, Config};

const MON: &str = "v2:10.0.0.1:3300/0";
const OSD: &str = "v2:10.0.0.2:6800/5";
const BEGIN: u32 = 1_795_780_000;

fn entropy(seed: &mut u64) -> impl FnMut(&mut [u8]) {
    move |out: &mut [u8]| {
        for byte in out {
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (*seed >> 33) as u8;
        }
    }
}

/// A daemon and its handshakes.
struct Daemon {
    messenger: Messenger,
    monitor: BTreeMap<ConnId, MonitorAccept>,
    refusals: Vec<String>,
    /// Names and modes that were let in.
    accepted: Vec<(String, Mode)>,
}

struct World {
    client: Authenticated,
    /// 0 is the monitor, 1 the OSD.
    daemons: [Daemon; 2],
    /// The client's connections: with whom, and its number there.
    streams: BTreeMap<ConnId, (usize, ConnId)>,
    entities: Keyring,
    secrets: ServiceSecrets,
    /// The OSD's accepting side.
    acceptor: Acceptor,
    /// The monitor's view of the client.
    peer: Option<Accepted>,
    policy: ServerPolicy,
    seed: u64,
    ids: u64,
    now: Duration,
    wall: Arc<AtomicU32>,
    opened: Vec<SessionId>,
    resets: Vec<String>,
    requests: usize,
}

impl World {
    fn new(mode: Mode, has_right_key: bool) -> World {
        let mut seed = 5;
        let began = Utime { sec: BEGIN, nsec: 0 };
        let key = Key::generate(KeyKind::Aes, began, &mut entropy(&mut seed));
        let other = Key::generate(KeyKind::Aes, began, &mut entropy(&mut seed));
        let text =
            format!("[client.x]\nkey = {}\ncaps mon = \"allow r\"\ncaps osd = \"allow rw\"\n", key.to_text().as_str());
        let entities = Keyring::parse(Path::new("k"), text.as_bytes()).unwrap();
        let policy = ClientPolicy { monitor_modes: vec![mode], service_modes: vec![mode], ..ClientPolicy::cephx() };
        let name = parse_entity("client.x").unwrap();
        let key = if has_right_key { key } else { other };
        let client = Client::new(name.clone(), Some(key), policy, &[EntityType::OSD]);
        let wall = Arc::new(AtomicU32::new(BEGIN));
        let mut client = Authenticated::new(Messenger::new(Config::client(name, 3)), client).unwrap();
        let clock = wall.clone();
        client.clock = Box::new(move || Utime { sec: clock.load(Ordering::Relaxed), nsec: 0 });
        let daemon = |config| Daemon {
            messenger: Messenger::new(config),
            monitor: BTreeMap::new(),
            refusals: Vec::new(),
            accepted: Vec::new(),
        };
        let mut world = World {
            client,
            daemons: [
                daemon(Config::mon(0, "a", MON.parse().unwrap(), 1)),
                daemon(Config::osd(OsdId(0), OSD.parse().unwrap(), 2)),
            ],
            streams: BTreeMap::new(),
            entities,
            secrets: BTreeMap::new(),
            acceptor: Acceptor::new(EntityType::OSD, ServerPolicy::cephx()),
            peer: None,
            policy: ServerPolicy::cephx(),
            seed,
            ids: 4100,
            now: Duration::from_secs(1),
            wall,
            opened: Vec::new(),
            resets: Vec::new(),
            requests: 0,
        };
        world.rotate();
        world
    }

    fn wall(&self) -> Utime {
        Utime { sec: self.wall.load(Ordering::Relaxed), nsec: 0 }
    }

    fn rotate(&mut self) {
        let now = self.wall();
        for (service, hours) in [(EntityType::AUTH, 72), (EntityType::OSD, 1)] {
            let secrets = self.secrets.entry(service).or_default();
            secrets.rotate(now, Duration::from_secs(hours * 3600), KeyKind::Aes256k, &mut entropy(&mut self.seed));
        }
    }

    /// Lets time pass in steps in which tickets can be renewed.
    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            self.now += Duration::from_secs(20);
            self.wall.fetch_add(20, Ordering::Relaxed);
            self.rotate();
            self.client.tick(self.now);
            self.settle();
        }
    }

    fn view<T>(&mut self, part: impl FnOnce(&mut MonitorView<'_>) -> T) -> T {
        let now = self.wall();
        let ids = &mut self.ids;
        part(&mut MonitorView {
            policy: &self.policy,
            entities: &self.entities,
            secrets: &self.secrets,
            lifetimes: TicketLifetimes::default(),
            new_global_id: &mut || {
                *ids += 1;
                Some(*ids)
            },
            now,
            tolerance: TOLERANCE,
            peer: None,
            entropy: &mut entropy(&mut self.seed),
        })
    }

    fn answer(&mut self, daemon: usize, conn: ConnId, step: AuthStep) {
        let now = self.wall();
        let (answer, refusal) = match daemon {
            0 => self.monitor_answers(conn, step),
            _ => {
                self.acceptor.set_secrets(self.secrets[&EntityType::OSD].clone());
                self.acceptor.answer(conn, step, now, &mut entropy(&mut self.seed))
            }
        };
        if let AuthAnswer::Accepted { identity, keys, .. } = &answer {
            let mode = if keys.records.is_some() { Mode::Secure } else { Mode::Crc };
            self.daemons[daemon].accepted.push((identity.name.to_string(), mode));
        }
        self.daemons[daemon].refusals.extend(refusal.map(|refusal| refusal.to_string()));
        self.daemons[daemon].messenger.answer(conn, answer, self.now);
    }

    fn monitor_answers(&mut self, conn: ConnId, step: AuthStep) -> (AuthAnswer, Option<Refusal>) {
        let outcome = match step {
            AuthStep::Request { method, modes, payload, .. } => {
                let (outcome, accept) = self.view(|view| MonitorAccept::begin(view, method, &modes, &payload));
                self.daemons[0].monitor.extend(accept.map(|accept| (conn, accept)));
                outcome
            }
            AuthStep::More(payload) => {
                let accept = self.daemons[0].monitor.remove(&conn).unwrap();
                self.view(|view| accept.more(view, &payload))
            }
            step => panic!("{step:?} at an accepting side"),
        };
        if let Step::Accepted(accepted) = &outcome {
            self.peer = Some((**accepted).clone());
        }
        auth::messenger::answer(outcome, &self.policy, None)
    }

    fn hand_to_daemon(&mut self, daemon: usize, conn: ConnId, bytes: &[u8]) {
        self.daemons[daemon].messenger.received(conn, bytes, self.now);
        while let Some((conn, step)) = self.daemons[daemon].messenger.poll_auth() {
            self.answer(daemon, conn, step);
        }
    }

    fn settle(&mut self) {
        loop {
            let mut idle = true;
            while let Some(output) = self.client.poll() {
                idle = false;
                self.client_does(output);
            }
            for daemon in 0..2 {
                while let Some(output) = self.daemons[daemon].messenger.poll() {
                    idle = false;
                    self.daemon_does(daemon, output);
                }
            }
            if idle {
                return;
            }
        }
    }

    fn client_does(&mut self, output: Output) {
        match output {
            Output::Connect { conn, to } => {
                let daemon = usize::from(to.port() != 3300);
                let theirs = ConnId(conn.0 * 2);
                self.streams.insert(conn, (daemon, theirs));
                self.daemons[daemon].messenger.accepted(theirs, "10.9.0.1:999".parse().unwrap(), self.now);
                self.client.connected(conn, self.now);
            }
            Output::Transmit { conn, data } => {
                if let Some((daemon, theirs)) = self.streams.get(&conn).copied() {
                    self.hand_to_daemon(daemon, theirs, &data.to_vec());
                }
            }
            Output::Close { conn } => {
                if let Some((daemon, theirs)) = self.streams.remove(&conn) {
                    self.daemons[daemon].messenger.closed(theirs, "closed", self.now);
                }
            }
            Output::Opened { session, .. } => self.opened.push(session),
            Output::Reset { reason, .. } => self.resets.push(reason.to_string()),
            Output::Message { .. } | Output::Faulted { .. } | Output::Refused { .. } => {}
        }
    }

    fn daemon_does(&mut self, daemon: usize, output: Output) {
        let ours = |conn: ConnId| self.streams.iter().find(|(_, to)| **to == (daemon, conn)).map(|(conn, _)| *conn);
        match output {
            Output::Transmit { conn, data } => {
                if let Some(conn) = ours(conn) {
                    self.client.received(conn, &data.to_vec(), self.now);
                }
            }
            Output::Close { conn } => {
                if let Some(conn) = ours(conn) {
                    self.streams.remove(&conn);
                    self.client.closed(conn, "closed", self.now);
                }
            }
            Output::Message { session, envelope, .. } if envelope.header.kind == Auth::TYPE => {
                self.requests += 1;
                let asked = Auth::open(&envelope).unwrap();
                let mut peer = self.peer.clone().unwrap();
                let payload = self.view(|view| requests(view, &mut peer, &asked.payload)).expect("it may ask");
                let reply = AuthReply {
                    method: 2,
                    result: 0,
                    global_id: peer.global_id,
                    payload: payload.into(),
                    status: String::new(),
                };
                self.daemons[daemon].messenger.send(session, reply.seal(0, Target::PACIFIC));
            }
            _ => {}
        }
    }

    fn dial(&mut self, peer: EntityName, addrs: &str, policy: Policy) -> SessionId {
        let session = self.client.connect(peer, &addrs.parse().unwrap(), policy, self.now);
        self.settle();
        session
    }

    fn dial_mon(&mut self) -> SessionId {
        self.dial(EntityName::mon(0), MON, Policy { keepalive: None, ..Policy::MON_CLIENT })
    }

    fn dial_osd(&mut self) -> SessionId {
        self.dial(EntityName::osd(OsdId(0)), OSD, Policy::LOSSY_CLIENT)
    }
}

#[test]
fn a_client_is_let_in_by_its_key_and_by_tickets() {
    for mode in [Mode::Crc, Mode::Secure] {
        let mut world = World::new(mode, true);
        let (mon, osd) = (world.dial_mon(), world.dial_osd());
        assert_eq!(world.opened, [mon, osd], "{:?}", world.resets);
        assert_eq!(world.daemons[0].accepted, [("client.x".to_owned(), mode)]);
        assert_eq!(world.daemons[1].accepted, [("client.x".to_owned(), mode)]);
        assert_eq!((world.client.global_id(), world.client.denied()), (4101, None));
        // It comes again as the same client.
        world.client.close(mon);
        world.settle();
        let again = world.dial_mon();
        assert_eq!((world.opened.last(), world.client.global_id(), world.ids), (Some(&again), 4101, 4101));
    }
}

#[test]
fn tickets_are_renewed_before_they_expire() {
    let mut world = World::new(Mode::Secure, true);
    world.dial_mon();
    world.pass(Duration::from_secs(5 * 3600));
    // Three quarters of an hour each, and the ticket for the monitors is still good.
    assert_eq!(world.requests, 6);
    let osd = world.dial_osd();
    assert_eq!(world.opened.last(), Some(&osd), "{:?}", world.daemons[1].refusals);
    // The session itself is renewed, too, after 54 hours.
    world.pass(Duration::from_secs(80 * 3600));
    let osd = world.dial_osd();
    assert_eq!(world.opened.last(), Some(&osd), "{:?}", world.daemons[1].refusals);
    assert_eq!(world.daemons[0].refusals, [""; 0]);
}

/// An OSD ends the session of a client whose ticket has ended. The client has renewed its tickets, and comes again.
#[test]
fn a_session_ends_with_its_ticket_and_the_next_is_let_in() {
    let mut world = World::new(Mode::Secure, true);
    world.dial_mon();
    let first = world.dial_osd();
    let ended = |world: &mut World| {
        world.acceptor.set_secrets(world.secrets[&EntityType::OSD].clone());
        world.acceptor.take_ended()
    };
    world.pass(Duration::from_secs(3600 - 20));
    assert_eq!(ended(&mut world), None, "its ticket is good");
    world.pass(Duration::from_secs(3600 + 20));
    let conn = ended(&mut world).expect("the secret of its ticket is retired");
    assert_eq!(ended(&mut world), None, "it is the only one");
    let session = world.daemons[1].messenger.session_on(conn).expect("it stands");
    world.daemons[1].messenger.close(session);
    world.settle();
    assert_eq!(world.resets.len(), 1);
    let next = world.dial_osd();
    assert_eq!((world.opened.contains(&first), world.opened.last()), (true, Some(&next)));
    assert_eq!((world.daemons[1].refusals.len(), ended(&mut world)), (0, None));
    world.pass(Duration::from_secs(2 * 3600));
    assert!(ended(&mut world).is_some(), "the next one ends as well");
}

#[test]
fn a_ticket_that_an_osd_refuses_is_replaced() {
    let mut world = World::new(Mode::Crc, true);
    world.dial_mon();
    // The OSDs' secrets are made anew, all of them.
    for _ in 0..4 {
        world.wall.fetch_add(2 * 3600, Ordering::Relaxed);
        world.rotate();
    }
    let refused = world.dial_osd();
    assert!(!world.opened.contains(&refused));
    assert!(
        world.daemons[1].refusals[0].contains("the ticket is sealed with secret"),
        "{:?}",
        world.daemons[1].refusals
    );
    world.pass(Duration::from_secs(20));
    let osd = world.dial_osd();
    assert_eq!(world.opened.last(), Some(&osd), "{:?}", world.daemons[1].refusals);
}

#[test]
fn a_wrong_key_is_told_as_such() {
    let mut world = World::new(Mode::Secure, false);
    world.dial_mon();
    assert_eq!((world.opened.len(), world.client.denied()), (0, Some(Errno::EACCES)));
    assert!(
        world.daemons[0].refusals[0].contains("'client.x' does not have the key"),
        "{:?}",
        world.daemons[0].refusals
    );
    assert!(world.resets[0].contains("method 2 refused: "), "{:?}", world.resets);
    // Without a ticket for it no OSD is asked.
    world.dial_osd();
    assert!(world.resets[1].contains("there is no ticket for service 'osd'"), "{:?}", world.resets);
    assert_eq!(world.daemons[1].refusals, [""; 0]);
}

#[test]
fn of_several_monitors_the_first_is_spoken_with() {
    let mut world = World::new(Mode::Secure, true);
    let policy = Policy { keepalive: None, ..Policy::MON_CLIENT };
    let sessions: Vec<SessionId> =
        (0..3).map(|_| world.client.connect(EntityName::mon(0), &MON.parse().unwrap(), policy, world.now)).collect();
    world.settle();
    assert_eq!((world.opened.len(), world.resets.len()), (1, 2), "{:?}", world.resets);
    assert!(sessions.contains(&world.opened[0]));
    assert!(world.resets.iter().all(|reason| reason.contains("another monitor has let us in")), "{:?}", world.resets);
    let osd = world.dial_osd();
    assert_eq!(world.opened.last(), Some(&osd), "{:?}", world.daemons[1].refusals);
}

#[test]
fn nothing_prints_a_key() {
    let world = World::new(Mode::Secure, true);
    let secret = world.entities.entries.values().next().unwrap().key.to_text();
    let printed = format!("{:?}", world.client.connector);
    assert!(!printed.contains(secret.as_str()) && printed.contains("secret not shown"), "{printed}");
}

/// A daemon that has no secrets yet lets nobody in, and the client tries on.
#[test]
fn an_osd_without_secrets_refuses_for_now() {
    let mut world = World::new(Mode::Crc, true);
    world.dial_mon();
    let secrets = std::mem::take(world.secrets.get_mut(&EntityType::OSD).unwrap());
    world.dial_osd();
    assert_eq!((world.opened.len(), world.daemons[1].refusals.len()), (1, 1), "{:?}", world.daemons[1].refusals);
    world.secrets.insert(EntityType::OSD, secrets);
    world.pass(Duration::from_secs(20));
    let osd = world.dial_osd();
    assert_eq!(world.opened.last(), Some(&osd), "{:?}", world.daemons[1].refusals);
}
