//! Proofs of who an OSD is, and of who connects to it.
//!
//! An OSD proves itself to monitors by its key, and gets tickets and the secrets of OSDs from them: tickets to show to
//! other OSDs, secrets to open the tickets that others show. All its links share both ([`Credentials`]). The link that
//! speaks with monitors renews them.

use auth::cephx::client::Client;
use auth::cephx::rotating::RotatingSecrets;
use auth::clock::TOLERANCE;
use auth::messenger::{Acceptor, Connector};
use auth::{ClientPolicy, Key, Method, Mode, Refusal, ServerPolicies};
use reactor::Io;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use types::{EntityType, Errno, OsdId};
use wire::basic::AuthName;
use wire::messages::{Auth, AuthReply};
use wire::msgr::{AuthAnswer, AuthStep, ConnId, RefusalsTold};
use wire::{Envelope, Message, Target};

/// Shortest time between two requests for tickets or secrets.
const ASK_PAUSE: Duration = Duration::from_secs(1);
/// Time between two requests for secrets while those at hand are good.
const LOOK_PAUSE: Duration = Duration::from_secs(60);
/// Time after which secrets are taken that are older than those at hand, which may be those of monitors that are gone.
const FORMER_AFTER: Duration = Duration::from_secs(300);

/// Methods and modes of an OSD, and its key.
#[derive(Clone, Debug)]
pub struct OsdLogin {
    /// For those who connect.
    pub accept: ServerPolicies,
    /// Towards monitors and other OSDs.
    pub connect: ClientPolicy,
    pub key: Key,
}

/// Tickets and secrets of one OSD. Copies share them.
#[derive(Clone)]
pub struct Credentials(Arc<Mutex<Held>>);

struct Held {
    accept: ServerPolicies,
    /// Name, key and tickets of the OSD.
    client: Client,
    secrets: TakenSecrets,
    /// Counts changes of the two above.
    version: u64,
    /// The OSDs that there are, by the map in force; `None` before there is a map.
    osds: Option<BTreeSet<OsdId>>,
    /// Another OSD has refused the ticket.
    is_refused: bool,
    /// Somebody has shown a ticket that was made with a secret that is not at hand.
    lacks_secret: bool,
}

/// The secrets of OSDs, as monitors gave them.
#[derive(Default)]
struct TakenSecrets {
    secrets: RotatingSecrets,
    /// Time at which a monitor last gave them.
    at: Duration,
}

/// The outcome of secrets that a monitor has given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Same,
    Taken,
    /// They are older than those at hand, and not taken.
    Former,
}

impl TakenSecrets {
    /// Takes secrets in place of those at hand. A monitor may be behind the one that gave those, but not for long: one
    /// that hears of no leader gives nothing. So older ones are taken after a while: monitors were lost, and the one
    /// that is left has never heard of those at hand.
    fn take(&mut self, secrets: RotatingSecrets, now: Duration) -> Outcome {
        if self.secrets == secrets {
            self.at = now;
            return Outcome::Same;
        }
        if secrets.are_before(&self.secrets) && now < self.at + FORMER_AFTER {
            return Outcome::Former;
        }
        *self = TakenSecrets { secrets, at: now };
        Outcome::Taken
    }
}

impl Held {
    /// False for the name of an OSD that there is not.
    fn knows(&self, name: &AuthName) -> bool {
        let osds = self.osds.as_ref().filter(|_| name.kind == EntityType::OSD);
        osds.is_none_or(|osds| name.id.parse().is_ok_and(|id| osds.contains(&OsdId(id))))
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({}, not shown)", self.held().client.name())
    }
}

impl Credentials {
    pub fn new(osd: OsdId, login: OsdLogin) -> Credentials {
        let name = AuthName::new(EntityType::OSD, osd.0.to_string());
        let client = Client::new(name, Some(login.key), login.connect, &[EntityType::OSD]);
        Credentials(Arc::new(Mutex::new(Held {
            accept: login.accept,
            client,
            secrets: TakenSecrets::default(),
            version: 1,
            osds: None,
            is_refused: false,
            lacks_secret: false,
        })))
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().expect("nobody panics while holding it")
    }

    /// Sets the OSDs that there are. The key of another one is good for nothing here from now on.
    pub(crate) fn set_osds(&self, osds: BTreeSet<OsdId>) {
        self.held().osds = Some(osds);
    }

    /// True if those who connect can be judged. The OSD need not be found before.
    pub(crate) fn are_there(&self) -> bool {
        self.held().secrets.secrets.current().is_some()
    }
}

/// The part of a link in handshakes.
pub(crate) struct Proofs {
    credentials: Credentials,
    connector: Connector,
    acceptor: Acceptor,
    /// The version of the credentials that connector and acceptor have.
    version: u64,
    /// True for the link that speaks with monitors.
    renews: bool,
    /// Addresses of those who connect.
    peers: BTreeMap<ConnId, IpAddr>,
    /// Refusals that the log has told of.
    refusals: RefusalsTold,
    /// Times before which tickets, and secrets, are not asked for again.
    tickets_at: Duration,
    secrets_at: Duration,
}

impl Proofs {
    pub fn new(credentials: &Credentials, renews: bool) -> Proofs {
        let held = credentials.held();
        let connector = Connector::new(held.client.clone());
        let acceptor = Acceptor::new(EntityType::OSD, held.accept.clone());
        drop(held);
        let credentials = credentials.clone();
        let (tickets_at, secrets_at) = (Duration::ZERO, Duration::ZERO);
        let (peers, refusals) = (BTreeMap::new(), RefusalsTold::default());
        Proofs { credentials, connector, acceptor, version: 0, renews, peers, refusals, tickets_at, secrets_at }
    }

    pub fn osds_are(&self, osds: BTreeSet<OsdId>) {
        self.credentials.set_osds(osds);
    }

    /// Takes over what the link that speaks with monitors has got.
    fn follow(&mut self) {
        let held = self.credentials.held();
        if held.version == self.version {
            return;
        }
        self.version = held.version;
        if !self.renews {
            self.connector.client = held.client.clone();
        }
        self.acceptor.set_secrets(held.secrets.secrets.clone());
    }

    /// Answers a step of a handshake.
    pub fn answer(&mut self, io: &mut impl Io, conn: ConnId, step: AuthStep) -> AuthAnswer {
        self.follow();
        match step {
            AuthStep::Request { addr, .. } => {
                self.peers.insert(conn, addr.ip());
                self.judged(io, conn, step)
            }
            AuthStep::More(_) => self.judged(io, conn, step),
            AuthStep::Begin { .. } | AuthStep::Challenge(_) | AuthStep::BadMethod { .. } | AuthStep::Done { .. } => {
                let eacces = Errno::EACCES.as_result();
                let is_refusal = matches!(step, AuthStep::BadMethod { result, .. } if result == eacces);
                let wall = io.wall_clock();
                let answer = self.connector.answer(conn, step, wall, &mut |out: &mut [u8]| io.fill_random(out));
                if self.renews {
                    self.publish();
                } else if is_refusal {
                    self.credentials.held().is_refused = true;
                }
                answer
            }
        }
    }

    /// The acceptor's answer. Whoever has proven to be an OSD that the map does not know is told to come again: it may
    /// be newer than the map. One that was purged comes in vain.
    fn judged(&mut self, io: &mut impl Io, conn: ConnId, step: AuthStep) -> AuthAnswer {
        let (from, now) = (self.peers.get(&conn).copied(), io.now());
        let wall = io.wall_clock();
        let (answer, refusal) = self.acceptor.answer(conn, step, wall, &mut |out: &mut [u8]| io.fill_random(out));
        self.refused(refusal, from, now);
        let AuthAnswer::Accepted { identity, .. } = &answer else { return answer };
        if !identity.is_proven || self.credentials.held().knows(&identity.name) {
            return answer;
        }
        self.tell(from, now, format_args!("the OSD map has no {}", identity.name));
        let modes = [Mode::Crc, Mode::Secure].map(Mode::number).to_vec();
        AuthAnswer::Refused { errno: Errno::EAGAIN, methods: vec![Method::Cephx.number()], modes }
    }

    fn refused(&mut self, refusal: Option<Refusal>, from: Option<IpAddr>, now: Duration) {
        let Some(refusal) = refusal else { return };
        self.tell(from, now, format_args!("{refusal}"));
        if matches!(refusal, Refusal::SecretNotAtHand { id, newest, .. } if id > newest) {
            self.credentials.held().lacks_secret = true;
        }
    }

    /// Has the log tell why a peer is refused, unless it has told enough of that machine.
    fn tell(&mut self, from: Option<IpAddr>, now: Duration, why: fmt::Arguments<'_>) {
        if self.refusals.is_news(from, now) {
            let from = from.map_or_else(|| "unknown".to_owned(), |from| from.to_string());
            tracing::info!("a peer at {from} is refused: {why}");
        }
    }

    /// Gives other links the tickets of this one.
    fn publish(&self) {
        let mut held = self.credentials.held();
        held.client = self.connector.client.clone();
        held.version += 1;
    }

    pub fn closed(&mut self, conn: ConnId) {
        self.connector.closed(conn);
        self.acceptor.closed(conn);
        self.peers.remove(&conn);
    }

    /// Takes out a connection whose ticket has ended.
    pub fn take_ended(&mut self) -> Option<ConnId> {
        self.follow();
        self.acceptor.take_ended()
    }

    /// Count of connections whose tickets have ended before their time, as all secrets were replaced.
    pub fn replaced(&mut self) -> usize {
        self.follow();
        self.acceptor.replaced()
    }

    /// Requests to the monitor for tickets and secrets that are missing or grow old.
    pub fn requests(&mut self, io: &mut impl Io) -> Vec<Envelope> {
        let (now, wall) = (io.now(), io.wall_clock());
        let mut requests = Vec::new();
        let mut ask = |payload: Vec<u8>| {
            let request = Auth { method: Method::Cephx.number(), payload: payload.into(), monmap_epoch: 0 };
            requests.push(request.seal(0, Target::PACIFIC));
        };
        let mut held = self.credentials.held();
        if std::mem::take(&mut held.is_refused) {
            self.connector.client.forget_ticket(EntityType::OSD);
        }
        if now >= self.tickets_at
            && let Some(payload) = self.connector.client.renewal(wall, &mut |out: &mut [u8]| io.fill_random(out))
        {
            ask(payload);
            self.tickets_at = now + ASK_PAUSE;
        }
        let wants_secrets = held.secrets.secrets.is_due(wall) || std::mem::take(&mut held.lacks_secret);
        if now >= self.secrets_at || (wants_secrets && now + LOOK_PAUSE >= self.secrets_at + ASK_PAUSE) {
            ask(Client::secrets_request());
            self.secrets_at = now + LOOK_PAUSE;
        }
        requests
    }

    /// Takes a monitor's answer to one of the requests.
    pub fn answered(&mut self, io: &mut impl Io, envelope: &Envelope) {
        let reply = match AuthReply::open(envelope) {
            Ok(reply) => reply,
            Err(why) => return tracing::error!("a monitor's answer about tickets cannot be read: {why}"),
        };
        if let Some(errno) = Errno::from_result(reply.result) {
            return tracing::warn!("the monitor gives no tickets or secrets: {errno}");
        }
        if let Err(why) = self.take(io, &reply.payload) {
            tracing::error!("a monitor's tickets or secrets are of no use: {why}");
        }
    }

    fn take(&mut self, io: &mut impl Io, payload: &[u8]) -> Result<(), auth::cephx::client::ClientError> {
        if payload.starts_with(&Client::secrets_request()) {
            let secrets = self.connector.client.open_secrets(payload)?;
            // New secrets come from monitors that have just made them by their clock.
            let skew = secrets.check_clock(io.wall_clock(), TOLERANCE);
            let mut held = self.credentials.held();
            match held.secrets.take(secrets, io.now()) {
                Outcome::Same => {}
                Outcome::Former => tracing::info!("a monitor that is behind gives former secrets, which are not taken"),
                Outcome::Taken => {
                    held.version += 1;
                    skew.unwrap_or_else(|skew| tracing::warn!("{skew}"));
                }
            }
        } else {
            self.connector.client.renewed(payload, io.wall_clock())?;
            self.publish();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use auth::KeyKind;
    use types::Utime;

    #[test]
    fn former_secrets_are_taken_back_only_after_a_while() {
        let hour = Duration::from_secs(3600);
        let mut fill = |out: &mut [u8]| out.fill(7);
        let mut now = Utime { sec: 1_000_000, nsec: 0 };
        let mut former = RotatingSecrets::default();
        former.rotate(now, hour, KeyKind::Aes256k, &mut fill);
        now.sec += 100;
        let mut secrets = former.clone();
        secrets.replace(now, hour, KeyKind::Aes256k, &mut fill);
        let s = Duration::from_secs;
        let mut taken = TakenSecrets::default();
        assert_eq!(taken.take(former.clone(), s(1000)), Outcome::Taken);
        assert_eq!(taken.take(former.clone(), s(1001)), Outcome::Same);
        assert_eq!(taken.take(secrets.clone(), s(1002)), Outcome::Taken);
        assert_eq!(taken.take(former.clone(), s(1003)), Outcome::Former);
        assert_eq!(taken.take(secrets.clone(), s(1200)), Outcome::Same);
        assert_eq!(taken.take(former.clone(), s(1499)), Outcome::Former);
        assert_eq!(taken.secrets, secrets);
        assert_eq!(taken.take(former.clone(), s(1500)), Outcome::Taken);
        assert_eq!(taken.secrets, former);
    }
}
