//! The connecting side: towards monitors by its key, towards other daemons by tickets.

use super::envelope::{open, open_sized, seal};
use super::protocol::*;
use super::rotating::RotatingSecrets;
use super::{OpenError, audience, monitor, none, proof};
use crate::clock::later;
use crate::entropy::{Entropy, draw_number};
use crate::key::{Key, KeyKind, Usage};
use crate::policy::{ClientPolicy, Method, Mode};
use crate::secure::ConnectionSecret;
use std::collections::BTreeMap;
use types::{EntityType, Errno, Utime};
use wire::basic::AuthName;
use wire::{Decode, DecodeError, Encode, Reader, Target, Writer};

/// Reason why the connecting side gives up.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ClientError {
    #[error("a message cannot be read: {0}")]
    Malformed(DecodeError),
    #[error("a message came out of turn")]
    OutOfTurn,
    /// The other side does not know our key or session key: it is not who we mean.
    #[error("{what} does not open: {why}")]
    NotOpened { what: &'static str, why: OpenError },
    #[error("the monitor refused a request: {0}")]
    Refused(Errno),
    #[error("the answer is to another request ({0:#06x})")]
    OtherAnswer(u16),
    #[error("the other side chose connection mode {0}, which was not offered")]
    ModeNotOffered(u32),
    #[error("the monitor gave a session key of kind {0}, which is not allowed")]
    KeyKind(KeyKind),
    #[error("the monitor gave no ticket for itself")]
    NoSession,
    #[error("the connection is to be secure, and no secret for it came")]
    NoConnectionSecret,
    #[error("the daemon could not read our ticket: its proof is of another number")]
    NotProven,
    #[error("there is no ticket for service '{}'", .0.word())]
    NoTicket(EntityType),
    #[error("there is no key")]
    NoKey,
    #[error("another monitor has let us in meanwhile")]
    OtherMonitor,
    #[error("the monitor gave id {given}, and we are {own} already")]
    OtherId { own: u64, given: u64 },
}

impl From<DecodeError> for ClientError {
    fn from(error: DecodeError) -> ClientError {
        ClientError::Malformed(error)
    }
}

/// A ticket and the key of its session.
#[derive(Clone, PartialEq, Eq, Debug)]
struct HeldTicket {
    session_key: Key,
    blob: TicketBlob,
    /// Time from which it should be replaced, and time from which it is of no use.
    renew: Utime,
    expires: Utime,
}

/// One party: name, key, id and tickets. It makes handshakes and keeps what comes out of them.
#[derive(Clone, Debug)]
pub struct Client {
    name: AuthName,
    key: Option<Key>,
    policy: ClientPolicy,
    global_id: u64,
    /// The challenge of the monitor that is spoken with, which a renewed session answers again.
    challenge: Option<u64>,
    tickets: BTreeMap<EntityType, HeldTicket>,
    services: u32,
}

/// A request as the first frame of a handshake has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    pub method: Method,
    /// Best first.
    pub modes: Vec<Mode>,
    pub payload: Vec<u8>,
}

/// Outcome of a handshake for the connecting side.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Connected {
    pub mode: Mode,
    pub global_id: u64,
    /// The secret that both ends know; none with [`Method::None`].
    pub session_key: Option<Key>,
    /// The secret for frames in [`Mode::Secure`].
    pub connection_secret: Option<ConnectionSecret>,
    /// The challenge of a monitor, for [`Client::keep`].
    challenge: Option<u64>,
    /// Tickets of a monitor, for [`Client::keep`].
    tickets: BTreeMap<EntityType, HeldTicket>,
}

impl Connected {
    /// The outcome with a monitor that was satisfied with `none`.
    #[cfg(test)]
    pub(super) fn unproven(global_id: u64) -> Connected {
        Connected::without_keys(Mode::Crc, global_id)
    }

    /// Outcome of method `none`, which proves nothing and gives no keys.
    fn without_keys(mode: Mode, global_id: u64) -> Connected {
        let tickets = BTreeMap::new();
        Connected { mode, global_id, session_key: None, connection_secret: None, challenge: None, tickets }
    }
}

impl Client {
    /// `key` may be absent if the policy allows [`Method::None`]. `services`: those for which tickets are wanted.
    pub fn new(name: AuthName, key: Option<Key>, policy: ClientPolicy, services: &[EntityType]) -> Client {
        let mut client =
            Client { name, key, policy, global_id: 0, challenge: None, tickets: BTreeMap::new(), services: 0 };
        client.ask_for(services);
        client
    }

    /// Asks for tickets for `services` from now on, in place of those that were wanted before.
    pub fn ask_for(&mut self, services: &[EntityType]) {
        // The bit of the monitors themselves stands for itself alone: without any bit there is no connection secret.
        self.services = services.iter().fold(EntityType::AUTH.0.into(), |bits, service| bits | u32::from(service.0));
    }

    pub fn name(&self) -> &AuthName {
        &self.name
    }

    pub(super) fn key(&self) -> Option<&Key> {
        self.key.as_ref()
    }

    /// Proves another key from now on.
    pub fn set_key(&mut self, key: Key) {
        self.key = Some(key);
    }

    /// The id that a monitor gave; 0 before.
    pub fn global_id(&self) -> u64 {
        self.global_id
    }

    /// The first method of the policy that can be used.
    pub fn method(&self) -> Result<Method, ClientError> {
        let mut usable = self.policy.methods.iter().filter(|m| **m == Method::None || self.key.is_some());
        usable.next().copied().ok_or(ClientError::NoKey)
    }

    /// The method towards daemons that believe tickets: `none`, where it is allowed and a monitor has let us in by it,
    /// which gives no tickets.
    pub fn method_with_tickets(&self) -> Result<Method, ClientError> {
        let has_none = self.global_id != 0 && self.tickets.is_empty() && self.policy.methods.contains(&Method::None);
        if has_none { Ok(Method::None) } else { self.method() }
    }

    /// The method for another attempt after a server that refused [`Client::method`] named those that it allows.
    pub fn other_method(&self, tried: Method, allowed: &[u32]) -> Option<Method> {
        let usable = |m: &Method| *m == Method::None || self.key.is_some();
        let mut left = self.policy.methods.iter().skip_while(|m| **m != tried).skip(1);
        left.find(|m| allowed.contains(&m.number()) && usable(m)).copied()
    }

    /// Begins a handshake with a monitor. Several may go on at once; one is kept.
    pub fn connect_monitor(&self, method: Method) -> Result<MonitorConnect, ClientError> {
        let key = match method {
            Method::None => None,
            Method::Cephx => Some(self.key.clone().ok_or(ClientError::NoKey)?),
        };
        Ok(MonitorConnect {
            name: self.name.clone(),
            key,
            modes: modes(&self.policy.monitor_modes, method),
            key_kinds: self.policy.key_kinds.clone(),
            global_id: self.global_id,
            old: self.tickets.get(&EntityType::AUTH).cloned(),
            services: self.services,
            challenge: None,
        })
    }

    /// Begins a handshake with a daemon.
    ///
    /// Errors: [`ClientError::NoTicket`] without a ticket for it.
    pub fn connect_service(
        &self,
        service: EntityType,
        method: Method,
        entropy: &mut dyn Entropy,
    ) -> Result<ServiceConnect, ClientError> {
        let ticket = match method {
            Method::None => None,
            Method::Cephx => Some(self.tickets.get(&service).cloned().ok_or(ClientError::NoTicket(service))?),
        };
        Ok(ServiceConnect {
            name: self.name.clone(),
            global_id: self.global_id,
            service,
            ticket,
            modes: modes(&self.policy.service_modes, method),
            nonce: draw_number(entropy),
            answered: false,
        })
    }

    /// Keeps id and tickets of a handshake with the monitor that is spoken with from now on.
    pub fn keep(&mut self, connected: &Connected) {
        self.global_id = connected.global_id;
        self.challenge = connected.challenge;
        for (service, ticket) in &connected.tickets {
            self.tickets.insert(*service, ticket.clone());
        }
    }

    /// Keeps a ticket that no monitor gave. It is never renewed.
    pub(super) fn hold(&mut self, service: EntityType, session_key: Key, blob: TicketBlob, expires: Utime) {
        self.tickets.insert(service, HeldTicket { session_key, blob, renew: expires, expires });
    }

    /// Forgets the ticket for a service that refused it. A new one is asked for at once.
    pub fn forget_ticket(&mut self, service: EntityType) {
        self.tickets.remove(&service);
    }

    /// Forgets id and tickets: what the monitors do not accept again. The next handshake asks for a new id.
    pub fn forget(&mut self) {
        self.global_id = 0;
        self.challenge = None;
        self.tickets.clear();
    }

    /// Services whose tickets are missing or grow old.
    fn due(&self, now: Utime) -> u32 {
        let due = services(self.services).filter(|service| self.tickets.get(service).is_none_or(|t| t.renew <= now));
        due.fold(0, |bits, service| bits | u32::from(service.0))
    }

    /// The time at which [`Client::renewal`] should be asked next; `None` with tickets for nothing.
    pub fn renew_at(&self) -> Option<Utime> {
        self.tickets.values().map(|ticket| ticket.renew).min()
    }

    /// The request for tickets that are missing or grow old: the payload of a message to the monitor. `None` if there
    /// are none, or if there is no session whose ticket could be shown.
    pub fn renewal(&self, now: Utime, entropy: &mut dyn Entropy) -> Option<Vec<u8>> {
        let (services, own) = (self.due(now), self.tickets.get(&EntityType::AUTH)?);
        if services == 0 || own.expires <= now {
            return None;
        }
        if services & u32::from(EntityType::AUTH.0) != 0 {
            let (key, challenge) = self.key.as_ref().zip(self.challenge)?;
            return Some(session_request(key, challenge, Some(own), services, entropy));
        }
        let authorize = Authorize { nonce: draw_number(entropy), challenge_plus_one: None };
        let mut w = Writer::new(Target::PACIFIC);
        w.u16(request::TICKETS);
        w.put(&authorizer(self.global_id, EntityType::AUTH, own, &authorize, entropy));
        w.put(&TicketRequest { services });
        Some(w.into_vec())
    }

    /// Keeps the tickets in a monitor's answer to [`Client::renewal`], or those that it gives without being asked.
    pub fn renewed(&mut self, answer: &[u8], now: Utime) -> Result<(), ClientError> {
        let own = self.tickets.get(&EntityType::AUTH).ok_or(ClientError::NoTicket(EntityType::AUTH))?;
        let kinds = &self.policy.key_kinds;
        let tickets = if answer.starts_with(&request::SESSION.to_le_bytes()) {
            let key = self.key.as_ref().ok_or(ClientError::NoKey)?;
            open_session(answer, key, Some(own), kinds, now)?.tickets
        } else {
            open_tickets(&open_answer(answer, request::TICKETS)?.get()?, &own.session_key, None, kinds, now)?
        };
        let services = self.services;
        self.tickets.extend(tickets.into_iter().filter(|(service, _)| services & u32::from(service.0) != 0));
        Ok(())
    }

    /// The request of a daemon for the secrets of its service: the payload of a message to the monitor.
    pub fn secrets_request() -> Vec<u8> {
        request::ROTATING_SECRETS.to_le_bytes().to_vec()
    }

    /// Opens a monitor's answer to [`Client::secrets_request`].
    pub fn open_secrets(&self, answer: &[u8]) -> Result<RotatingSecrets, ClientError> {
        let key = self.key.as_ref().ok_or(ClientError::NoKey)?;
        let r = open_answer(answer, request::ROTATING_SECRETS)?;
        monitor::open_secrets(key, r.peek())
            .map_err(|why| ClientError::NotOpened { what: "the secrets of the service", why })
    }
}

/// The modes to offer; `none` has no secret for more than crc.
fn modes(policy: &[Mode], method: Method) -> Vec<Mode> {
    policy.iter().copied().filter(|mode| method == Method::Cephx || *mode == Mode::Crc).collect()
}

fn chosen(modes: &[Mode], number: u32) -> Result<Mode, ClientError> {
    let mode = Mode::from_number(number).filter(|mode| modes.contains(mode));
    mode.ok_or(ClientError::ModeNotOffered(number))
}

fn authorizer(
    global_id: u64,
    service: EntityType,
    ticket: &HeldTicket,
    authorize: &Authorize,
    entropy: &mut dyn Entropy,
) -> Authorizer {
    let sealed = seal(&ticket.session_key, Usage::Authorize, authorize, entropy);
    Authorizer { global_id, service, ticket: ticket.blob.clone(), sealed }
}

/// The body of a monitor's answer to a request.
fn open_answer(answer: &[u8], request: u16) -> Result<Reader<'_>, ClientError> {
    let mut r = Reader::new(answer);
    let (found, status) = (r.u16()?, r.i32()?);
    if found != request {
        return Err(ClientError::OtherAnswer(found));
    }
    match Errno::from_result(status) {
        Some(errno) => Err(ClientError::Refused(errno)),
        None => Ok(r),
    }
}

/// Opens tickets. `reader`: the key that our parts are sealed with; `old`: the ticket that was shown.
fn open_tickets(
    granted: &GrantedTickets,
    reader: &Key,
    old: Option<&HeldTicket>,
    key_kinds: &[KeyKind],
    now: Utime,
) -> Result<BTreeMap<EntityType, HeldTicket>, ClientError> {
    let mut tickets = BTreeMap::new();
    for ticket in &granted.0 {
        let session: TicketSession = open(reader, Usage::TicketSessionKey, &ticket.session)
            .map_err(|why| ClientError::NotOpened { what: "the session key of a ticket", why })?;
        if !key_kinds.contains(&session.key.kind()) {
            return Err(ClientError::KeyKind(session.key.kind()));
        }
        let blob = match (ticket.blob_is_sealed, old) {
            (false, _) => TicketBlob::from_slice(&ticket.blob)?,
            (true, None) => return Err(ClientError::NoSession),
            (true, Some(old)) => {
                let blob: Sized<TicketBlob> = open(&old.session_key, Usage::TicketBlob, &ticket.blob)
                    .map_err(|why| ClientError::NotOpened { what: "a ticket", why })?;
                blob.0
            }
        };
        let validity = session.validity.to_unix();
        let held = HeldTicket {
            session_key: session.key,
            blob,
            renew: later(now, validity * 3 / 4),
            expires: later(now, validity),
        };
        tickets.insert(ticket.service, held);
    }
    Ok(tickets)
}

/// The request for a session. `old`: the ticket of the id that is asked for again.
fn session_request(
    key: &Key,
    challenge: u64,
    old: Option<&HeldTicket>,
    services: u32,
    entropy: &mut dyn Entropy,
) -> Vec<u8> {
    let client_challenge = draw_number(entropy);
    let asked = Authenticate {
        version: 3,
        client_challenge,
        proof: proof(key, challenge, client_challenge),
        old_ticket: old.map_or_else(TicketBlob::default, |ticket| ticket.blob.clone()),
        services,
    };
    let mut w = Writer::new(Target::PACIFIC);
    w.u16(request::SESSION);
    w.put(&asked);
    w.into_vec()
}

/// A session that a monitor gave.
struct Session {
    key: Key,
    connection_secret: SecretBytes,
    tickets: BTreeMap<EntityType, HeldTicket>,
}

/// Opens the answer to a request for a session.
fn open_session(
    answer: &[u8],
    key: &Key,
    old: Option<&HeldTicket>,
    key_kinds: &[KeyKind],
    now: Utime,
) -> Result<Session, ClientError> {
    let mut r = open_answer(answer, request::SESSION)?;
    let mut tickets = open_tickets(&r.get()?, key, old, key_kinds, now)?;
    let key = tickets.get(&EntityType::AUTH).ok_or(ClientError::NoSession)?.session_key.clone();
    // Monitors of a time before connections had secrets end here.
    let (sealed, more) = if r.is_empty() { (&[][..], &[][..]) } else { (r.blob()?, r.blob()?) };
    let mut connection_secret = SecretBytes::default();
    if !sealed.is_empty() {
        connection_secret = open_sized(&key, Usage::ConnectionSecret, sealed)
            .map_err(|why| ClientError::NotOpened { what: "the connection's secret", why })?;
    }
    if !more.is_empty() {
        let mut more = open_tickets(&GrantedTickets::from_slice(more)?, &key, None, key_kinds, now)?;
        // The session is the one that was given first.
        more.remove(&EntityType::AUTH);
        tickets.extend(more);
    }
    Ok(Session { key, connection_secret, tickets })
}

/// The connecting side of a handshake with a monitor.
#[derive(Debug)]
pub struct MonitorConnect {
    name: AuthName,
    key: Option<Key>,
    modes: Vec<Mode>,
    key_kinds: Vec<KeyKind>,
    global_id: u64,
    old: Option<HeldTicket>,
    services: u32,
    challenge: Option<u64>,
}

impl MonitorConnect {
    /// The first request.
    pub fn request(&self) -> Request {
        let method = if self.key.is_some() { Method::Cephx } else { Method::None };
        let payload = none::request(audience::MONITOR, &self.name, self.global_id);
        Request { method, modes: self.modes.clone(), payload }
    }

    /// Answers the monitor's challenge.
    pub fn more(&mut self, payload: &[u8], entropy: &mut dyn Entropy) -> Result<Vec<u8>, ClientError> {
        let key = self.key.as_ref().filter(|_| self.challenge.is_none()).ok_or(ClientError::OutOfTurn)?;
        let challenge = Challenge::from_slice(payload)?.0;
        let old = self.old.as_ref().filter(|_| self.global_id != 0);
        self.challenge = Some(challenge);
        Ok(session_request(key, challenge, old, self.services, entropy))
    }

    /// Reads the good news.
    pub fn done(self, global_id: u64, mode: u32, payload: &[u8], now: Utime) -> Result<Connected, ClientError> {
        let mode = chosen(&self.modes, mode)?;
        let Some(key) = self.key else {
            return Ok(Connected::without_keys(mode, global_id));
        };
        let challenge = Some(self.challenge.ok_or(ClientError::OutOfTurn)?);
        let session = open_session(payload, &key, self.old.as_ref(), &self.key_kinds, now)?;
        let connection_secret = connection_secret(mode, &session.connection_secret)?;
        let (session_key, tickets) = (Some(session.key), session.tickets);
        Ok(Connected { mode, global_id, session_key, connection_secret, challenge, tickets })
    }
}

fn connection_secret(mode: Mode, bytes: &SecretBytes) -> Result<Option<ConnectionSecret>, ClientError> {
    match mode {
        Mode::Crc => Ok(None),
        Mode::Secure if bytes.as_slice().is_empty() => Err(ClientError::NoConnectionSecret),
        Mode::Secure => Ok(Some(ConnectionSecret::from_slice(bytes.as_slice())?)),
    }
}

/// The connecting side of a handshake with a daemon.
#[derive(Debug)]
pub struct ServiceConnect {
    name: AuthName,
    global_id: u64,
    service: EntityType,
    ticket: Option<HeldTicket>,
    modes: Vec<Mode>,
    nonce: u64,
    answered: bool,
}

impl ServiceConnect {
    /// The first request.
    pub fn request(&self, entropy: &mut dyn Entropy) -> Request {
        let modes = self.modes.clone();
        let Some(ticket) = &self.ticket else {
            let payload = none::request(audience::SERVICE, &self.name, self.global_id);
            return Request { method: Method::None, modes, payload };
        };
        let payload = self.authorizer(ticket, None, entropy);
        Request { method: Method::Cephx, modes, payload }
    }

    fn authorizer(&self, ticket: &HeldTicket, answer: Option<u64>, entropy: &mut dyn Entropy) -> Vec<u8> {
        let authorize = Authorize { nonce: self.nonce, challenge_plus_one: answer };
        authorizer(self.global_id, self.service, ticket, &authorize, entropy).to_vec(Target::PACIFIC)
    }

    /// Answers the daemon's challenge.
    pub fn more(&mut self, payload: &[u8], entropy: &mut dyn Entropy) -> Result<Vec<u8>, ClientError> {
        let ticket = self.ticket.as_ref().filter(|_| !self.answered).ok_or(ClientError::OutOfTurn)?;
        let challenge: Challenge = open(&ticket.session_key, Usage::AuthorizeChallenge, payload)
            .map_err(|why| ClientError::NotOpened { what: "the daemon's challenge", why })?;
        let answer = self.authorizer(ticket, Some(challenge.0.wrapping_add(1)), entropy);
        self.answered = true;
        Ok(answer)
    }

    /// Reads the good news.
    pub fn done(self, global_id: u64, mode: u32, payload: &[u8]) -> Result<Connected, ClientError> {
        let mode = chosen(&self.modes, mode)?;
        let tickets = BTreeMap::new();
        let Some(ticket) = self.ticket else {
            return Ok(Connected::without_keys(mode, global_id));
        };
        if !self.answered {
            return Err(ClientError::OutOfTurn);
        }
        let reply: AuthorizeReply = open_sized(&ticket.session_key, Usage::AuthorizeReply, payload)
            .map_err(|why| ClientError::NotOpened { what: "the daemon's proof", why })?;
        if reply.nonce_plus_one != self.nonce.wrapping_add(1) {
            return Err(ClientError::NotProven);
        }
        let connection_secret = connection_secret(mode, &reply.connection_secret)?;
        let session_key = Some(ticket.session_key);
        Ok(Connected { mode, global_id, session_key, connection_secret, challenge: None, tickets })
    }
}
