//! A monitor, an OSD and clients in memory, with one clock.

use crate::accepted::{Accepted, Step};
use crate::cephx::client::{Client, ClientError, Connected, Request};
use crate::cephx::monitor::{MonitorAccept, MonitorView, ServiceSecrets, TicketLifetimes};
use crate::cephx::service::{ServiceAccept, ServiceView};
use crate::clock::TOLERANCE;
use crate::key::{Key, KeyKind};
use crate::keyring::{Entry, Keyring, parse_entity};
use crate::policy::{ClientPolicy, Method, Mode, ServerPolicy};
use crate::refusal::Refusal;
use crate::signature;
use crate::testing::{Seeded, seeded};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;
use types::{EntityType, Utime};

pub(super) const SERVICES: [EntityType; 3] = [EntityType::MON, EntityType::OSD, EntityType::MGR];

pub(super) struct World {
    pub entities: Keyring,
    pub secrets: ServiceSecrets,
    pub policy: ServerPolicy,
    pub lifetimes: TicketLifetimes,
    pub now: Utime,
    /// Seconds by which the OSD's clock is ahead.
    pub osd_ahead: i64,
    pub peer: Option<IpAddr>,
    pub ids_left: u64,
    pub entropy: Seeded,
}

/// The side that gave up, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Failure {
    Refused(Refusal),
    Client(ClientError),
    /// A signature of the handshake was wrong.
    Signature,
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        Failure::Client(error)
    }
}

/// A message of a handshake, for who may change it on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    Request,
    ReplyMore,
    RequestMore,
    Done,
}

/// Outcomes of a handshake at both ends.
#[derive(Debug)]
pub(super) struct Met {
    pub client: Connected,
    pub server: Accepted,
}

/// A path that changes nothing.
pub(super) fn honest(_: Part, _: &mut Vec<u8>) {}

impl World {
    /// `client.old` has a key of kind aes, `client.new` one of kind aes256k, and so has `osd.0`.
    pub fn new() -> World {
        let now = Utime { sec: 1_795_780_000, nsec: 0 };
        let mut entropy = seeded(11);
        let mut entities = Keyring::default();
        for (name, kind, caps) in [
            ("client.old", KeyKind::Aes, &[("mon", "allow r"), ("osd", "allow rw pool=x")][..]),
            ("client.new", KeyKind::Aes256k, &[("mon", "allow *"), ("osd", "allow *")][..]),
            ("client.nothing", KeyKind::Aes256k, &[("osd", "allow *")][..]),
            ("osd.0", KeyKind::Aes256k, &[("mon", "allow profile osd")][..]),
        ] {
            let caps = caps.iter().map(|(service, caps)| ((*service).to_owned(), (*caps).to_owned())).collect();
            let entry = Entry { key: Key::generate(kind, now, &mut entropy), pending_key: None, caps };
            entities.entries.insert(parse_entity(name).unwrap(), entry);
        }
        let mut world = World {
            entities,
            secrets: BTreeMap::new(),
            policy: ServerPolicy::cephx(),
            lifetimes: TicketLifetimes::default(),
            now,
            osd_ahead: 0,
            peer: Some("10.1.2.3".parse().unwrap()),
            ids_left: 100,
            entropy,
        };
        world.rotate();
        world
    }

    /// Makes secrets that are due.
    pub fn rotate(&mut self) {
        for service in [EntityType::AUTH, EntityType::MON, EntityType::OSD, EntityType::MGR] {
            let lifetimes = self.lifetimes;
            let lifetime = if service == EntityType::AUTH { lifetimes.monitor } else { lifetimes.service };
            let secrets = self.secrets.entry(service).or_default();
            secrets.rotate(self.now, lifetime, KeyKind::Aes256k, &mut self.entropy);
        }
    }

    pub fn pass(&mut self, time: Duration) {
        self.now = Utime::from_unix(self.now.to_unix() + time);
    }

    pub fn client(&self, name: &str, mode: Mode) -> Client {
        let name = parse_entity(name).unwrap();
        let key = self.entities.find(&name).map(|entry| entry.key.clone());
        let policy = ClientPolicy { monitor_modes: vec![mode], service_modes: vec![mode], ..ClientPolicy::cephx() };
        Client::new(name, key, policy, &SERVICES)
    }

    pub fn monitor<T>(&mut self, part: impl FnOnce(&mut MonitorView<'_>) -> T) -> T {
        let left = &mut self.ids_left;
        let mut new_global_id = move || {
            *left = left.checked_sub(1)?;
            Some(5000 - *left)
        };
        part(&mut MonitorView {
            policy: &self.policy,
            entities: &self.entities,
            secrets: &self.secrets,
            lifetimes: self.lifetimes,
            new_global_id: &mut new_global_id,
            now: self.now,
            tolerance: TOLERANCE,
            peer: self.peer,
            entropy: &mut self.entropy,
        })
    }

    pub fn osd<T>(&mut self, part: impl FnOnce(&mut ServiceView<'_>) -> T) -> T {
        let now = self.now.sec.checked_add_signed(self.osd_ahead.try_into().unwrap()).unwrap();
        part(&mut ServiceView {
            service: EntityType::OSD,
            policy: &self.policy,
            secrets: &self.secrets[&EntityType::OSD],
            now: Utime { sec: now, nsec: 0 },
            tolerance: TOLERANCE,
            peer: self.peer,
            entropy: &mut self.entropy,
        })
    }

    /// The request's answer of a monitor.
    pub fn monitor_begins(&mut self, request: &Request) -> (Step, Option<MonitorAccept>) {
        let modes: Vec<u32> = request.modes.iter().map(|mode| mode.number()).collect();
        self.monitor(|view| MonitorAccept::begin(view, request.method.number(), &modes, &request.payload))
    }

    pub fn osd_begins(&mut self, request: &Request) -> (Step, Option<ServiceAccept>) {
        let modes: Vec<u32> = request.modes.iter().map(|mode| mode.number()).collect();
        self.osd(|view| ServiceAccept::begin(view, request.method.number(), &modes, &request.payload))
    }

    /// A handshake with a server over a path that may change messages, up to the server's last one, which comes back as
    /// the client receives it. `begins`, `goes_on`: the server's steps. `answers`: the client's answer to a challenge.
    fn meet<A>(
        &mut self,
        mut request: Request,
        path: &mut impl FnMut(Part, &mut Vec<u8>),
        begins: impl FnOnce(&mut World, &Request) -> (Step, Option<A>),
        goes_on: impl FnOnce(&mut World, A, &[u8]) -> Step,
        answers: impl FnOnce(&[u8], &mut Seeded) -> Result<Vec<u8>, ClientError>,
    ) -> Result<(Talk, Accepted, Vec<u8>), Failure> {
        let mut talk = Talk::default();
        talk.client_says(Part::Request, &mut request.payload, path);
        let server = match begins(self, &request) {
            (Step::Accepted(accepted), _) => accepted,
            (Step::Refused(refusal), _) => return Err(Failure::Refused(refusal)),
            (Step::More(mut challenge), accept) => {
                talk.server_says(Part::ReplyMore, &mut challenge, path);
                let mut answer = answers(&challenge, &mut self.entropy)?;
                talk.client_says(Part::RequestMore, &mut answer, path);
                match goes_on(self, accept.unwrap(), &answer) {
                    Step::Accepted(accepted) => accepted,
                    Step::Refused(refusal) => return Err(Failure::Refused(refusal)),
                    Step::More(_) => panic!("a server asks once"),
                }
            }
        };
        let mut payload = server.payload.clone();
        talk.server_says(Part::Done, &mut payload, path);
        Ok((talk, *server, payload))
    }

    /// A handshake with the monitor over a path that may change messages. The client keeps what comes of it.
    pub fn join_over(&mut self, client: &mut Client, mut path: impl FnMut(Part, &mut Vec<u8>)) -> Result<Met, Failure> {
        let mut connect = client.connect_monitor(client.method()?)?;
        let request = connect.request();
        let goes_on =
            |world: &mut World, accept: MonitorAccept, answer: &[u8]| world.monitor(|view| accept.more(view, answer));
        let answers = |challenge: &[u8], entropy: &mut Seeded| connect.more(challenge, entropy);
        let (talk, server, payload) = self.meet(request, &mut path, World::monitor_begins, goes_on, answers)?;
        let connected = connect.done(server.global_id, server.mode.number(), &payload, self.now)?;
        let met = talk.signed(connected, server)?;
        client.keep(&met.client);
        Ok(met)
    }

    pub fn join(&mut self, client: &mut Client) -> Result<Met, Failure> {
        self.join_over(client, honest)
    }

    /// A handshake with the OSD over a path that may change messages.
    pub fn reach_over(&mut self, client: &Client, mut path: impl FnMut(Part, &mut Vec<u8>)) -> Result<Met, Failure> {
        let mut connect = client.connect_service(EntityType::OSD, client.method()?, &mut self.entropy)?;
        let request = connect.request(&mut self.entropy);
        let goes_on =
            |world: &mut World, accept: ServiceAccept, answer: &[u8]| world.osd(|view| accept.more(view, answer));
        let answers = |challenge: &[u8], entropy: &mut Seeded| connect.more(challenge, entropy);
        let (talk, server, payload) = self.meet(request, &mut path, World::osd_begins, goes_on, answers)?;
        let connected = connect.done(server.global_id, server.mode.number(), &payload)?;
        talk.signed(connected, server)
    }

    pub fn reach(&mut self, client: &Client) -> Result<Met, Failure> {
        self.reach_over(client, honest)
    }
}

/// The bytes of a handshake as each side sent and received them.
#[derive(Default)]
struct Talk {
    client_sent: Vec<u8>,
    client_received: Vec<u8>,
    server_sent: Vec<u8>,
    server_received: Vec<u8>,
}

impl Talk {
    fn client_says(&mut self, part: Part, message: &mut Vec<u8>, path: &mut impl FnMut(Part, &mut Vec<u8>)) {
        self.client_sent.extend_from_slice(message);
        path(part, message);
        self.server_received.extend_from_slice(message);
    }

    fn server_says(&mut self, part: Part, message: &mut Vec<u8>, path: &mut impl FnMut(Part, &mut Vec<u8>)) {
        self.server_sent.extend_from_slice(message);
        path(part, message);
        self.client_received.extend_from_slice(message);
    }

    /// Both sides sign what they received, and check the other's signature.
    fn signed(&self, client: Connected, server: Accepted) -> Result<Met, Failure> {
        let (ours, theirs) = (client.session_key.as_ref(), server.session_key.as_ref());
        let by_client = signature::sign(ours, &[&self.client_received]);
        let by_server = signature::sign(theirs, &[&self.server_received]);
        let agreed = signature::verify(ours, &[&self.client_sent], &by_server)
            && signature::verify(theirs, &[&self.server_sent], &by_client);
        if agreed { Ok(Met { client, server }) } else { Err(Failure::Signature) }
    }
}

pub(super) fn refused<T: std::fmt::Debug>(result: Result<T, Failure>) -> Refusal {
    match result {
        Err(Failure::Refused(refusal)) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

pub(super) fn given_up<T: std::fmt::Debug>(result: Result<T, Failure>) -> ClientError {
    match result {
        Err(Failure::Client(error)) => error,
        other => panic!("the client did not give up: {other:?}"),
    }
}

pub(super) const CEPHX: Method = Method::Cephx;
