//! Conversations with a daemon, honest but for the harm that is done to them.

use super::harm::{Harm, HarmfulSeal, PREAMBLE_BYTES, Random, flip, frame};
use auth::cephx::client::Client;
use auth::messenger::Connector;
use auth::{ClientPolicy, Mode};
use client::{ConfFile, Login, Who};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};
use types::{EntityName, EntityType, Fsid, Utime};
use wire::messages::MonCommand;
use wire::msgr::{AuthAnswer, Config, ConnId, Messenger, Output, Policy, Records, SessionId};
use wire::{EntityAddrVec, Envelope, Header, Message, Target};

/// The outcome of a visit whose session stood.
pub const CAME_IN: &str = "came in";

/// Time for one visit.
const VISIT: Duration = Duration::from_millis(1500);
/// Time without a byte after which a visitor has nothing more to say, where daemons are quick.
const SILENCE: Duration = Duration::from_millis(60);
const MESSAGES: u64 = 12;
/// The most connections that somebody who comes as an OSD has made before. An OSD drops the attempt of a peer that has
/// made fewer than at its last one, and the OSD that runs at the same address has made some dozens.
const DIALLED_MAX: u64 = 2000;
/// Type of a client's operation.
const OSD_OP: u16 = 42;
/// Connections that stay open, half a conversation each.
const KEPT: usize = 300;

/// One port of a daemon.
pub struct Place {
    pub kind: EntityType,
    pub number: i64,
    pub name: String,
    pub addrs: EntityAddrVec,
    pub to: SocketAddr,
}

impl Place {
    /// True for ports where OSDs keep sessions with each other.
    fn is_for_peers(&self) -> bool {
        self.name.starts_with("cluster_addrs") || self.name.starts_with("public_addrs")
    }
}

/// Somebody with a key, who visits daemons.
pub struct Visitor {
    /// The key's owner with tickets, as a monitor gave them last: in crc mode, and in secure mode.
    clients: [Client; 2],
    /// False where the cluster takes secure mode alone.
    takes_crc: bool,
    random: File,
    /// Pieces of the last whole conversation with each port.
    recorded: BTreeMap<SocketAddr, Vec<Vec<u8>>>,
    kept: VecDeque<TcpStream>,
    /// [`SILENCE`], or what the last visit without harm took to come in, if that was longer.
    silence: Duration,
    pub replays_let_in: u64,
    /// The daemon that the visitor says it is, with its addresses; `None`: a client.
    daemon: Option<(EntityName, EntityAddrVec)>,
    says: Says,
}

/// Makes what a visitor says.
pub type Says = Box<dyn FnMut(&mut Random) -> Envelope>;

/// The honest end of one conversation.
struct Talk {
    messenger: Messenger,
    connector: Connector,
    random: File,
    begin: Instant,
    session: SessionId,
    came_in: bool,
    /// Harm that is done to records before they are sealed: after how many, and by which numbers.
    harms_records: Option<(u64, Random)>,
}

impl Talk {
    fn answer_steps(&mut self) {
        while let Some((conn, step)) = self.messenger.poll_auth() {
            let random = &mut self.random;
            let mut fill = |out: &mut [u8]| random.read_exact(out).expect("the kernel has random bytes");
            let mut answer = self.connector.answer(conn, step, Utime::from(SystemTime::now()), &mut fill);
            if let AuthAnswer::Connected { keys, .. } = &mut answer
                && let Some((honest, random)) = self.harms_records.take()
            {
                keys.records = keys.records.take().map(|Records { seal, open }| {
                    let seal = Box::new(HarmfulSeal { seal, honest, random });
                    Records { seal, open }
                });
            }
            self.messenger.answer(conn, answer, self.begin.elapsed());
        }
    }

    /// Bytes to send. `None`: the conversation is over.
    fn next(&mut self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        while let Some(output) = self.messenger.poll() {
            match output {
                Output::Transmit { data, .. } => data.into_pieces().for_each(|piece| bytes.extend_from_slice(&piece)),
                Output::Opened { .. } => self.came_in = true,
                Output::Close { .. } | Output::Reset { .. } if bytes.is_empty() => return None,
                _ => {}
            }
        }
        Some(bytes)
    }
}

impl Visitor {
    /// A visitor as `client.admin`.
    pub fn new(conf: &Path) -> Visitor {
        let conf = ConfFile::load(conf).expect("a ceph.conf");
        Visitor::with(&conf, &Who::new("client", "admin"))
    }

    /// A visitor who comes as a client, with an OSD's key.
    pub fn as_osd(conf: &Path, osd: u32, keyring: &Path) -> Visitor {
        Visitor::with_key(conf, &Who::new("osd", &osd.to_string()), keyring)
    }

    /// A visitor who comes as a client, with the key of `who`.
    pub fn with_key(conf: &Path, who: &Who, keyring: &Path) -> Visitor {
        let mut conf = ConfFile::load(conf).expect("a ceph.conf");
        conf.set(who, "keyring", &keyring.display().to_string());
        Visitor::with(&conf, who)
    }

    /// A visitor with the key that monitors share.
    pub fn as_monitor(conf: &Path, keyring: &Path) -> Visitor {
        let mut conf = ConfFile::load(conf).expect("a ceph.conf");
        let who = Who::new("mon", "");
        conf.set(&who, "keyring", &keyring.display().to_string());
        Visitor::with(&conf, &who)
    }

    /// The visitor, who says that it is this daemon, at these addresses, and says this.
    pub fn coming_as(self, me: EntityName, addrs: EntityAddrVec, says: Says) -> Visitor {
        Visitor { daemon: Some((me, addrs)), says, ..self }
    }

    fn with(conf: &ConfFile, who: &Who) -> Visitor {
        let login = Login::from_file(conf, who).expect("a key");
        let name = who.entity().expect("a name");
        let services = [EntityType::OSD, EntityType::MGR];
        let clients = [Mode::Crc, Mode::Secure].map(|mode| {
            let policy = ClientPolicy {
                methods: login.policy.methods.clone(),
                monitor_modes: vec![mode],
                service_modes: vec![mode],
                ..ClientPolicy::cephx()
            };
            Client::new(name.clone(), login.key.clone(), policy, &services)
        });
        let random = File::open("/dev/urandom").expect("the kernel has random bytes");
        let takes_crc = login.policy.service_modes.contains(&Mode::Crc);
        let (recorded, kept) = (BTreeMap::new(), VecDeque::new());
        Visitor {
            clients,
            takes_crc,
            random,
            recorded,
            kept,
            silence: SILENCE,
            replays_let_in: 0,
            daemon: None,
            says: Box::new(envelope),
        }
    }

    /// Gets new tickets from a monitor, by conversations that nobody harms.
    pub fn renew(&mut self, monitor: &Place, random: &mut Random) {
        let takes_crc = self.takes_crc;
        for (client, secure) in [(0, false), (1, true)].into_iter().filter(|(_, secure)| *secure || takes_crc) {
            self.clients[client].forget();
            // Failures of visits before may count against this one, for a moment.
            let end = Instant::now() + Duration::from_secs(120);
            while self.visit(monitor, Harm::None { secure }, random) != CAME_IN {
                assert!(Instant::now() < end, "{} lets nobody in", monitor.name);
            }
        }
    }

    fn talk(&self, place: &Place, is_secure: bool, seed: u64) -> (Talk, ConnId) {
        let client = self.clients[usize::from(is_secure)].clone();
        let me = EntityName { kind: EntityType::CLIENT, num: -1 };
        let mut config = Config { me, bulk_min_bytes: None, ..Config::client(client.name().clone(), seed) };
        let (mut policy, mut dialled) = (Policy::LOSSY_CLIENT, 0);
        if let Some((me, addrs)) = &self.daemon {
            (config.me, config.my_addrs) = (*me, addrs.clone());
            let is_peer = (me.kind, place.kind) == (EntityType::OSD, EntityType::OSD) && place.is_for_peers();
            policy.lossy = !is_peer;
            dialled = if is_peer { Random(seed).below(DIALLED_MAX) } else { 0 };
        }
        let mut messenger = Messenger::new(config);
        let name = EntityName { kind: place.kind, num: place.number };
        for _ in 0..dialled {
            let before = messenger.connect(name, &place.addrs, policy, Duration::ZERO);
            messenger.close(before);
            while messenger.poll().is_some() {}
        }
        let session = messenger.connect(name, &place.addrs, policy, Duration::ZERO);
        let Some(Output::Connect { conn, .. }) = messenger.poll() else { panic!("{} cannot be dialled", place.name) };
        let is_monitor = self.daemon.as_ref().is_some_and(|(me, _)| me.kind == EntityType::MON);
        let connector = if is_monitor { Connector::among_monitors(client) } else { Connector::new(client) };
        let begin = Instant::now();
        messenger.connected(conn, begin.elapsed());
        let random = self.random.try_clone().expect("a descriptor");
        (Talk { messenger, connector, random, begin, session, came_in: false, harms_records: None }, conn)
    }

    fn is_secure(&self, harm: &Harm) -> bool {
        harm.is_secure() || !self.takes_crc
    }

    /// Makes one visit. Returns its outcome in a word or two.
    pub fn visit(&mut self, place: &Place, harm: Harm, random: &mut Random) -> &'static str {
        let stream = TcpStream::connect_timeout(&place.to, Duration::from_secs(10));
        let mut stream = stream.unwrap_or_else(|e| panic!("{} at {} is not there: {e}", place.name, place.to));
        stream.set_nodelay(true).expect("a socket");
        stream.set_read_timeout(Some(self.silence)).expect("a socket");
        stream.set_write_timeout(Some(VISIT)).expect("a socket");
        match harm {
            Harm::Noise { banner } => {
                let mut bytes = if banner { BANNER.to_vec() } else { Vec::new() };
                bytes.extend(random.bytes(100_000));
                let _ = stream.write_all(&bytes);
                drain(&mut stream)
            }
            Harm::Replay => {
                let pieces = self.recorded.get(&place.to).cloned().unwrap_or_default();
                for piece in &pieces {
                    let _ = stream.write_all(piece);
                }
                let outcome = drain(&mut stream);
                self.replays_let_in += u64::from(outcome == LET_IN);
                outcome
            }
            harm => self.talk_with_harm(place, stream, harm, random),
        }
    }

    fn talk_with_harm(
        &mut self,
        place: &Place,
        mut stream: TcpStream,
        harm: Harm,
        random: &mut Random,
    ) -> &'static str {
        let (mut talk, conn) = self.talk(place, self.is_secure(&harm), random.next());
        if let Harm::Sealed { honest } = harm {
            talk.harms_records = Some((honest, Random(random.next())));
        }
        let (mut pieces, mut sent, mut held) = (Vec::new(), 0, None);
        let (mut to_say, mut entered) = (0, None);
        let is_harmless = matches!(harm, Harm::None { .. });
        while talk.begin.elapsed() < VISIT {
            if talk.came_in && to_say < MESSAGES && harm.goes_on() {
                to_say += 1;
                talk.messenger.send(talk.session, (self.says)(random));
            }
            let Some(bytes) = talk.next() else { break };
            entered = entered.or(talk.came_in.then(|| talk.begin.elapsed()));
            if !bytes.is_empty() {
                let at = (pieces.len(), sent, talk.came_in);
                pieces.push(bytes.clone());
                sent += bytes.len();
                let out = harmed(&harm, bytes, at, &mut held, random);
                let written = out.iter().try_for_each(|piece| match harm {
                    Harm::Slow => piece.chunks(1).try_for_each(|byte| stream.write_all(byte)),
                    _ => stream.write_all(piece),
                });
                if written.is_err() {
                    break;
                }
                if let Harm::Truncate { at, stays } = harm
                    && sent >= at
                {
                    if stays {
                        let _ = stream.shutdown(Shutdown::Write);
                        self.keep(stream);
                    }
                    return "broken off";
                }
            }
            let mut buf = [0; 16 << 10];
            match stream.read(&mut buf) {
                Ok(0) => break,
                Ok(count) => {
                    talk.messenger.received(conn, &buf[..count], talk.begin.elapsed());
                    talk.answer_steps();
                }
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    // A daemon that is silent to a visit without harm is slow.
                    let may_come_in = is_harmless && !talk.came_in;
                    if !may_come_in && (to_say >= MESSAGES || !harm.goes_on()) {
                        break;
                    }
                }
                Err(_) => break,
            }
        }
        let (came_in, client) = (talk.came_in, talk.connector.client.clone());
        if !came_in {
            return "kept out";
        }
        if let Some(took) = entered.filter(|_| is_harmless) {
            self.silence = took.max(SILENCE);
        }
        if place.kind == EntityType::MON {
            let mode = usize::from(self.is_secure(&harm));
            self.clients[mode] = client;
        }
        self.recorded.insert(place.to, pieces);
        CAME_IN
    }

    /// Makes a visit and stays. The connection ends when the daemon ends the session.
    pub fn stay(&mut self, place: &Place, random: &mut Random) -> TcpStream {
        self.enter(place, random).0
    }

    /// Makes a visit, in which a broken frame follows upon a message at once.
    pub fn say_and_break(&mut self, place: &Place, said: Envelope, random: &mut Random) {
        let (mut stream, mut talk) = self.enter(place, random);
        talk.messenger.send(talk.session, said);
        let mut bytes = talk.next().expect("the session stands");
        bytes.extend([0xff; 4096]);
        stream.write_all(&bytes).expect("it reads");
        stream.set_read_timeout(Some(VISIT)).expect("a socket");
        drain(&mut stream);
    }

    /// Begins a visit, in which a message comes but for its last `left` bytes. The visit goes on.
    pub fn say_in_part(&mut self, place: &Place, said: Envelope, left: usize, random: &mut Random) -> TcpStream {
        let (mut stream, mut talk) = self.enter(place, random);
        talk.messenger.send(talk.session, said);
        let bytes = talk.next().expect("the session stands");
        stream.write_all(&bytes[..bytes.len() - left]).expect("it reads");
        stream
    }

    fn enter(&mut self, place: &Place, random: &mut Random) -> (TcpStream, Talk) {
        let mut stream = TcpStream::connect(place.to).expect("it is there");
        let (mut talk, conn) = self.talk(place, !self.takes_crc, random.next());
        let mut buf = [0; 16 << 10];
        while !talk.came_in {
            let bytes = talk.next().unwrap_or_else(|| panic!("{} lets nobody in", place.name));
            stream.write_all(&bytes).expect("it reads");
            if !talk.came_in {
                let count = stream.read(&mut buf).expect("it answers");
                assert!(count > 0, "{} hangs up", place.name);
                talk.messenger.received(conn, &buf[..count], talk.begin.elapsed());
                talk.answer_steps();
            }
        }
        (stream, talk)
    }

    fn keep(&mut self, stream: TcpStream) {
        self.kept.push_back(stream);
        if self.kept.len() > KEPT {
            self.kept.pop_front();
        }
    }
}

const BANNER: &[u8] = b"ceph v2\n\x10\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00";
/// Types of frames by which a daemon turns somebody away, or lets him in.
const BAD_METHOD: u8 = 3;
const AUTH_DONE: u8 = 6;
/// The outcome of bytes by which a daemon was convinced.
const LET_IN: &str = "let in";

/// Reads what a daemon says until it says no more.
fn drain(stream: &mut TcpStream) -> &'static str {
    let (mut said, mut buf, begin) = (Vec::new(), [0; 16 << 10], Instant::now());
    let is_closed = loop {
        match stream.read(&mut buf) {
            Ok(0) => break true,
            Ok(count) => said.extend_from_slice(&buf[..count]),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break false,
            Err(_) => break true,
        }
        if begin.elapsed() > VISIT {
            break false;
        }
    };
    let mut rest = said.get(BANNER.len()..).unwrap_or_default();
    while rest.len() >= PREAMBLE_BYTES {
        let length = u32::from_le_bytes(rest[2..6].try_into().expect("four bytes")) as usize;
        match rest[0] {
            AUTH_DONE => return LET_IN,
            BAD_METHOD => return "refused",
            _ => rest = rest.get(PREAMBLE_BYTES + length + 4..).unwrap_or_default(),
        }
    }
    if is_closed { "closed" } else { "left alone" }
}

/// The pieces that go out in place of one, which is the `number`th, behind `sent` bytes.
fn harmed(
    harm: &Harm,
    mut bytes: Vec<u8>,
    (number, sent, came_in): (usize, usize, bool),
    held: &mut Option<Vec<u8>>,
    random: &mut Random,
) -> Vec<Vec<u8>> {
    let end = sent + bytes.len();
    match *harm {
        Harm::Flip { at, bits } if (sent..end).contains(&at) => flip(&mut bytes[at - sent..], bits, random),
        Harm::Later { .. } if came_in && random.below(3) == 0 => flip(&mut bytes, 1, random),
        Harm::Frames { at } if (sent..end).contains(&at) => {
            let rest = bytes.split_off(at - sent);
            for _ in 0..=random.below(3) {
                bytes.extend(frame(random));
            }
            bytes.extend(rest);
        }
        Harm::Truncate { at, .. } if end >= at => bytes.truncate(at.saturating_sub(sent)),
        Harm::Twice { piece } if number == piece => return vec![bytes.clone(), bytes],
        Harm::Swapped { piece } if number == piece => {
            *held = Some(bytes);
            return Vec::new();
        }
        Harm::Swapped { piece } if number == piece + 1 => return std::iter::once(bytes).chain(held.take()).collect(),
        Harm::Left { piece } if number == piece => return Vec::new(),
        _ => {}
    }
    vec![bytes]
}

/// A message of any type that says anything, or a question that has a few bits wrong.
fn envelope(random: &mut Random) -> Envelope {
    let tid = random.next();
    if random.below(4) == 0 {
        let cmd = vec![r#"{"prefix": "status", "format": "json"}"#.to_owned()];
        let command = MonCommand { have: 0, fsid: Fsid::default(), cmd, input: random.bytes(5000).into() };
        let mut envelope = command.seal(tid, Target::PACIFIC);
        let mut front = envelope.front.to_vec();
        flip(&mut front, random.below(3), random);
        envelope.front = front.into();
        return envelope;
    }
    let kind = match random.below(4) {
        0 => random.next() as u16,
        1 => OSD_OP,
        _ => random.below(200) as u16,
    };
    let version = random.below(12) as u16;
    let header = Header { tid, kind, version, compat_version: version.min(2), ..Header::default() };
    let (front, middle) = (random.bytes(4000).into(), random.bytes(20).into());
    Envelope { header, front, middle, data: random.bytes(70_000).into() }
}
