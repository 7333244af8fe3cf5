//! Handshakes as [`wire::msgr`] carries them: its traits for our secrets, its answers for our steps.

use crate::accepted::{Accepted, Granted, Step};
use crate::cephx::client::{Client, ClientError, Connected, MonitorConnect, Request, ServiceConnect};
use crate::cephx::rotating::RotatingSecrets;
use crate::cephx::service::{ServiceAccept, ServiceView};
use crate::clock::TOLERANCE;
use crate::entropy::Entropy;
use crate::key::Key;
use crate::policy::{Method, ServerPolicies, ServerPolicy};
use crate::refusal::Refusal;
use crate::secure::{ConnectionSecret, Opener, Revision, Sealer, Side};
use crate::signature;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use types::{EntityType, Errno, Utime};
use wire::msgr::{
    AuthAnswer, AuthStep, Cause, ConnId, Identity, Keys, Open, RecordError, Records, Rights, SIGNATURE_BYTES, Seal,
    Sign, TAG_BYTES,
};

#[derive(Debug)]
struct Signer(Key);

impl Sign for Signer {
    fn sign(&self, pieces: &[&[u8]]) -> [u8; SIGNATURE_BYTES] {
        signature::sign(Some(&self.0), pieces)
    }

    fn verify(&self, pieces: &[&[u8]], signature: &[u8; SIGNATURE_BYTES]) -> bool {
        signature::verify(Some(&self.0), pieces, signature)
    }
}

impl Seal for Sealer {
    fn seal(&mut self, record: &mut [u8]) -> Result<[u8; TAG_BYTES], RecordError> {
        Sealer::seal(self, record).map_err(|_| RecordError)
    }

    fn is_worn(&self) -> bool {
        Sealer::is_worn(self)
    }
}

impl Open for Opener {
    fn open(&mut self, record: &mut [u8], tag: &[u8; TAG_BYTES]) -> Result<(), RecordError> {
        self.open_apart(record, tag).map_err(|_| RecordError)
    }
}

/// The secrets of a handshake's outcome. Secure mode follows from a connection's secret.
fn keys(side: Side, session_key: Option<Key>, connection_secret: Option<&ConnectionSecret>) -> Keys {
    let records = connection_secret.map(|secret| {
        let (seal, open) = secret.directions(side, Revision::One);
        Records { seal: Box::new(seal), open: Box::new(open) }
    });
    Keys { sign: session_key.map(|key| -> Box<dyn Sign> { Box::new(Signer(key)) }), records }
}

/// The answer of an accepting side for a peer at `peer`, and the reason of a refusal, for the log.
pub fn answer(step: Step, policy: &ServerPolicy, peer: Option<IpAddr>) -> (AuthAnswer, Option<Refusal>) {
    match step {
        Step::More(payload) => (AuthAnswer::More(payload.into()), None),
        Step::Accepted(accepted) => (accept(*accepted), None),
        Step::Refused(refusal @ Refusal::TooManyFailures) => {
            let cause = Cause::Authentication(refusal.to_string());
            (AuthAnswer::Fail { cause, again: true }, Some(refusal))
        }
        Step::Refused(refusal) => {
            let methods = policy.methods(peer).into_iter().map(Method::number).collect();
            let modes = policy.modes.iter().map(|mode| mode.number()).collect();
            (AuthAnswer::Refused { errno: refusal.errno(), methods, modes }, Some(refusal))
        }
    }
}

fn accept(accepted: Accepted) -> AuthAnswer {
    let rights = match accepted.caps {
        Granted::Everything => Rights::Everything,
        Granted::Text(text) => Rights::Caps(text.into()),
    };
    let is_proven = accepted.method != Method::None;
    let identity = Identity { name: accepted.name, is_proven, global_id: accepted.global_id, rights };
    let keys = keys(Side::Accepting, accepted.session_key, accepted.connection_secret.as_ref());
    AuthAnswer::Accepted { identity, wants_id: false, payload: accepted.payload.into(), keys }
}

/// A handshake that goes on.
#[derive(Debug)]
enum Handshake {
    Monitor(MonitorConnect),
    Service(ServiceConnect),
}

/// A handshake and the method that was tried.
#[derive(Debug)]
struct Attempt {
    to: EntityType,
    method: Method,
    handshake: Handshake,
}

/// The connecting side of all connections of one party.
///
/// Several monitors may be asked at once. The first that lets us in is the one that is spoken with: its id and tickets
/// are kept, and the others are left alone until its connection ends.
#[derive(Debug)]
pub struct Connector {
    pub client: Client,
    attempts: BTreeMap<ConnId, Attempt>,
    /// The connection to the monitor that is spoken with.
    monitor: Option<ConnId>,
    /// The error with which a monitor last refused us.
    denied: Option<Errno>,
    /// True for a monitor: all of them share a key, and it makes its own tickets for the others.
    is_monitor: bool,
}

impl Connector {
    pub fn new(client: Client) -> Connector {
        Connector { client, attempts: BTreeMap::new(), monitor: None, denied: None, is_monitor: false }
    }

    /// A monitor that dials other monitors. The key of `client` is the one that all of them share.
    pub fn among_monitors(client: Client) -> Connector {
        Connector { is_monitor: true, ..Connector::new(client) }
    }

    /// The error with which a monitor refused our name or key, unless one has let us in since.
    pub fn denied(&self) -> Option<Errno> {
        self.denied
    }

    /// Forgets a connection that ended.
    pub fn closed(&mut self, conn: ConnId) {
        self.attempts.remove(&conn);
        if self.monitor == Some(conn) {
            self.monitor = None;
        }
    }

    /// Answers a step of a connection that we made.
    pub fn answer(&mut self, conn: ConnId, step: AuthStep, now: Utime, entropy: &mut dyn Entropy) -> AuthAnswer {
        let answered = match step {
            AuthStep::Begin { to } => {
                if self.is_monitor {
                    self.client.vouch_for_itself(to, now, entropy);
                }
                let at_monitor = to == EntityType::MON && !self.is_monitor;
                let method = if at_monitor { self.client.method() } else { self.client.method_with_tickets() };
                method.and_then(|method| self.begin(conn, to, method, entropy))
            }
            AuthStep::Challenge(payload) => self.challenged(conn, &payload, entropy),
            AuthStep::BadMethod { method, result, methods, modes } => {
                return self.refused(conn, method, result, methods, modes, entropy);
            }
            AuthStep::Done { global_id, mode, payload } => self.done(conn, global_id, mode, &payload, now),
            AuthStep::Request { .. } | AuthStep::More(_) => Err(ClientError::OutOfTurn),
        };
        answered.unwrap_or_else(|error| {
            self.attempts.remove(&conn);
            // A ticket that is missing comes with the next renewal.
            let again = matches!(error, ClientError::NoTicket(_));
            AuthAnswer::Fail { cause: Cause::Authentication(error.to_string()), again }
        })
    }

    fn begin(
        &mut self,
        conn: ConnId,
        to: EntityType,
        method: Method,
        entropy: &mut dyn Entropy,
    ) -> Result<AuthAnswer, ClientError> {
        let (handshake, request) = match to {
            EntityType::MON if !self.is_monitor => {
                let handshake = self.client.connect_monitor(method)?;
                let request = handshake.request();
                (Handshake::Monitor(handshake), request)
            }
            service => {
                let handshake = self.client.connect_service(service, method, entropy)?;
                let request = handshake.request(entropy);
                (Handshake::Service(handshake), request)
            }
        };
        self.attempts.insert(conn, Attempt { to, method, handshake });
        let Request { method, modes, payload } = request;
        let modes = modes.into_iter().map(|mode| mode.number()).collect();
        Ok(AuthAnswer::Request { method: method.number(), modes, payload: payload.into() })
    }

    fn challenged(
        &mut self,
        conn: ConnId,
        payload: &[u8],
        entropy: &mut dyn Entropy,
    ) -> Result<AuthAnswer, ClientError> {
        let attempt = self.attempts.get_mut(&conn).ok_or(ClientError::OutOfTurn)?;
        let answer = match &mut attempt.handshake {
            Handshake::Monitor(handshake) => handshake.more(payload, entropy)?,
            Handshake::Service(handshake) => handshake.more(payload, entropy)?,
        };
        Ok(AuthAnswer::More(answer.into()))
    }

    fn refused(
        &mut self,
        conn: ConnId,
        method: u32,
        result: i32,
        methods: Vec<u32>,
        modes: Vec<u32>,
        entropy: &mut dyn Entropy,
    ) -> AuthAnswer {
        let attempt = self.attempts.remove(&conn);
        let errno = Errno::from_result(result);
        if let Some(attempt) = &attempt {
            let is_other = errno == Some(Errno::EOPNOTSUPP);
            let other = self.client.other_method(attempt.method, &methods).filter(|_| is_other);
            if let Some(Ok(answer)) = other.map(|other| self.begin(conn, attempt.to, other, entropy)) {
                return answer;
            }
        }
        let is_monitor = attempt.as_ref().is_none_or(|attempt| attempt.to == EntityType::MON);
        let mut again = false;
        match attempt {
            Some(Attempt { to, method: Method::Cephx, .. }) if !is_monitor && errno == Some(Errno::EACCES) => {
                // The daemon may have newer secrets than the ticket, and we none for the next attempt.
                self.client.forget_ticket(to);
                again = true;
            }
            // The daemon lacks something for now: secrets, or a map.
            Some(Attempt { method: Method::Cephx, .. }) if !is_monitor && errno == Some(Errno::EAGAIN) => again = true,
            _ if is_monitor => self.denied = errno.filter(|errno| *errno != Errno::EAGAIN),
            _ => {}
        }
        AuthAnswer::Fail { cause: Cause::MethodRefused { method, result, methods, modes }, again }
    }

    fn done(
        &mut self,
        conn: ConnId,
        global_id: u64,
        mode: u32,
        payload: &[u8],
        now: Utime,
    ) -> Result<AuthAnswer, ClientError> {
        let attempt = self.attempts.remove(&conn).ok_or(ClientError::OutOfTurn)?;
        let connected = match attempt.handshake {
            Handshake::Monitor(handshake) => {
                if self.monitor.is_some() {
                    return Err(ClientError::OtherMonitor);
                }
                let connected = handshake.done(global_id, mode, payload, now)?;
                // Operations are known by the id: it is the client's for ever.
                let own = self.client.global_id();
                if own != 0 && own != connected.global_id {
                    return Err(ClientError::OtherId { own, given: connected.global_id });
                }
                self.client.keep(&connected);
                (self.monitor, self.denied) = (Some(conn), None);
                connected
            }
            Handshake::Service(handshake) => handshake.done(global_id, mode, payload)?,
        };
        let Connected { global_id, session_key, connection_secret, .. } = connected;
        let keys = keys(Side::Connecting, session_key, connection_secret.as_ref());
        Ok(AuthAnswer::Connected { global_id, keys })
    }
}

/// The accepting side of all connections to one daemon that believes tickets.
#[derive(Debug)]
pub struct Acceptor {
    /// The kind of the daemon, for which tickets must be.
    pub service: EntityType,
    pub policies: ServerPolicies,
    /// The service's secrets, as the monitors gave them; without any, `cephx` is refused for now.
    secrets: RotatingSecrets,
    /// Secrets below this number were replaced all at once: somebody knew them who was to know them no more.
    replaced_below: u64,
    handshakes: BTreeMap<ConnId, Pending>,
    /// Connections of daemons of the service itself, and of all others.
    daemons: AcceptedTickets,
    clients: AcceptedTickets,
}

/// Connections with ended tickets that are ended in one second, at least: thousands of clients do not come again all at
/// once.
const ENDED_AT_ONCE: usize = 16;
/// Seconds in which the count of those falls to a third where secrets were replaced, which somebody may abuse.
const REPLACED_SECONDS: usize = 16;

/// Connections that are to be ended in one second, where secrets of `replaced` ones were replaced before their time.
pub fn ended_at_once(replaced: usize) -> usize {
    ENDED_AT_ONCE.max(replaced / REPLACED_SECONDS)
}

/// Connections that were accepted by a ticket, and the secrets that the tickets were sealed with.
#[derive(Default, Debug)]
struct AcceptedTickets {
    secrets: BTreeMap<ConnId, u64>,
    by_secret: BTreeSet<(u64, ConnId)>,
}

impl AcceptedTickets {
    fn insert(&mut self, conn: ConnId, secret: u64) {
        self.remove(conn);
        self.secrets.insert(conn, secret);
        self.by_secret.insert((secret, conn));
    }

    fn remove(&mut self, conn: ConnId) {
        if let Some(secret) = self.secrets.remove(&conn) {
            self.by_secret.remove(&(secret, conn));
        }
    }

    /// Count of those whose secret is older than `oldest`.
    fn count_before(&self, oldest: u64) -> usize {
        self.by_secret.range(..(oldest, ConnId(0))).count()
    }

    /// Takes out one whose secret is older than `oldest`.
    fn pop_before(&mut self, oldest: u64) -> Option<ConnId> {
        let (_, conn) = *self.by_secret.first().filter(|(secret, _)| *secret < oldest)?;
        self.remove(conn);
        Some(conn)
    }
}

/// A handshake whose challenge is not answered yet.
#[derive(Debug)]
struct Pending {
    accept: ServiceAccept,
    peer: IpAddr,
    /// The kind that the peer says it is of.
    kind: EntityType,
}

impl Acceptor {
    pub fn new(service: EntityType, policies: impl Into<ServerPolicies>) -> Acceptor {
        Acceptor {
            service,
            policies: policies.into(),
            secrets: RotatingSecrets::default(),
            replaced_below: 0,
            handshakes: BTreeMap::new(),
            daemons: AcceptedTickets::default(),
            clients: AcceptedTickets::default(),
        }
    }

    /// Goes by these secrets from now on.
    pub fn set_secrets(&mut self, secrets: RotatingSecrets) {
        if secrets.are_all_after(self.secrets.range().1) {
            self.replaced_below = secrets.range().0;
        }
        self.secrets = secrets;
    }

    /// Forgets a connection that ended.
    pub fn closed(&mut self, conn: ConnId) {
        self.handshakes.remove(&conn);
        self.daemons.remove(conn);
        self.clients.remove(conn);
    }

    /// Takes out a connection whose ticket has ended since it was accepted: the secret that it was sealed with is
    /// retired, so that monitors give others, and nobody is accepted by it any more. Daemons of the service are left
    /// alone unless all secrets were replaced at once: they are judged by the maps.
    pub fn take_ended(&mut self) -> Option<ConnId> {
        self.daemons.pop_before(self.replaced_below).or_else(|| self.clients.pop_before(self.secrets.range().0))
    }

    /// Count of connections that [`Acceptor::take_ended`] will take out for secrets that were replaced all at once.
    pub fn replaced(&self) -> usize {
        self.daemons.count_before(self.replaced_below) + self.clients.count_before(self.replaced_below)
    }

    /// Answers a step of a connection that was made to us, and gives the reason of a refusal, for the log.
    pub fn answer(
        &mut self,
        conn: ConnId,
        step: AuthStep,
        now: Utime,
        entropy: &mut dyn Entropy,
    ) -> (AuthAnswer, Option<Refusal>) {
        let (outcome, kind, peer) = match step {
            AuthStep::Request { peer: kind, addr, method, modes, payload } => {
                let peer = addr.ip();
                let (outcome, accept) =
                    ServiceAccept::begin(&mut self.view(kind, peer, now, entropy), method, &modes, &payload);
                self.handshakes.extend(accept.map(|accept| (conn, Pending { accept, peer, kind })));
                (outcome, kind, Some(peer))
            }
            AuthStep::More(payload) => match self.handshakes.remove(&conn) {
                Some(Pending { accept, peer, kind }) => {
                    (accept.more(&mut self.view(kind, peer, now, entropy), &payload), kind, Some(peer))
                }
                None => (Step::Refused(Refusal::OutOfTurn), EntityType::CLIENT, None),
            },
            _ => (Step::Refused(Refusal::OutOfTurn), EntityType::CLIENT, None),
        };
        if let Step::Accepted(accepted) = &outcome
            && let Some(secret) = accepted.secret_id
        {
            let is_own = accepted.name.kind == self.service;
            if is_own { &mut self.daemons } else { &mut self.clients }.insert(conn, secret);
        }
        answer(outcome, self.policies.of(kind), peer)
    }

    fn view<'a>(&'a self, kind: EntityType, peer: IpAddr, now: Utime, entropy: &'a mut dyn Entropy) -> ServiceView<'a> {
        ServiceView {
            service: self.service,
            policy: self.policies.of(kind),
            secrets: &self.secrets,
            now,
            tolerance: TOLERANCE,
            peer: Some(peer),
            entropy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_taken_out_by_the_age_of_their_secrets_and_not_once_they_are_closed() {
        let mut it = AcceptedTickets::default();
        for (conn, secret) in [(2, 7), (4, 5), (6, 6), (8, 5), (10, 6)] {
            it.insert(ConnId(conn), secret);
        }
        // One proves itself anew, and one goes.
        it.insert(ConnId(10), 8);
        it.remove(ConnId(8));
        it.remove(ConnId(9));
        let mut taken = |oldest| std::iter::from_fn(|| it.pop_before(oldest)).map(|conn| conn.0).collect::<Vec<_>>();
        assert_eq!((taken(0), taken(5), taken(7)), (vec![], vec![], vec![4, 6]));
        assert_eq!((taken(8), taken(100), taken(u64::MAX)), (vec![2], vec![10], vec![]));
        assert!(it.secrets.is_empty() && it.by_secret.is_empty());
    }

    #[test]
    fn daemons_are_taken_out_only_where_all_secrets_were_replaced() {
        let now = Utime { sec: 10_000, nsec: 0 };
        let mut entropy = crate::testing::seeded(1);
        let mut secrets = RotatingSecrets::default();
        let hour = std::time::Duration::from_secs(3600);
        let kind = crate::KeyKind::Aes256k;
        secrets.rotate(now, hour, kind, &mut entropy);
        let mut acceptor = Acceptor::new(EntityType::OSD, crate::ServerPolicy::cephx());
        acceptor.set_secrets(secrets.clone());
        for (conn, secret) in [(2, 2), (4, 2)] {
            acceptor.clients.insert(ConnId(conn), secret);
            acceptor.daemons.insert(ConnId(conn + 100), secret);
        }
        // Secret 2 is retired in time.
        for sec in [20_000, 30_000] {
            secrets.rotate(Utime { sec, nsec: 0 }, hour, kind, &mut entropy);
            acceptor.set_secrets(secrets.clone());
        }
        assert_eq!((secrets.range().0, acceptor.replaced()), (5, 0));
        assert_eq!([0; 3].map(|_| acceptor.take_ended()), [Some(ConnId(2)), Some(ConnId(4)), None]);
        acceptor.clients.insert(ConnId(6), 6);
        secrets.replace(Utime { sec: 30_001, nsec: 0 }, hour, kind, &mut entropy);
        acceptor.set_secrets(secrets.clone());
        acceptor.clients.insert(ConnId(8), secrets.range().0 + 1);
        assert_eq!(acceptor.replaced(), 3);
        let taken: Vec<_> = std::iter::from_fn(|| acceptor.take_ended()).collect();
        assert_eq!((taken, acceptor.replaced()), (vec![ConnId(102), ConnId(104), ConnId(6)], 0));
    }
}
