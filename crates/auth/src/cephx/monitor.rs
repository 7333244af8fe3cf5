//! The accepting side of a monitor: it knows everybody's key, gives ids and tickets.

use super::envelope::{open, seal, seal_sized};
use super::protocol::*;
use super::rotating::RotatingSecrets;
use super::verify::TicketReader;
use super::{audience, none, proof};
use crate::accepted::{Accepted, Granted, Step};
use crate::clock::later;
use crate::crypto;
use crate::entropy::{Entropy, draw_number};
use crate::key::{Key, Usage};
use crate::keyring::{Entry, Keyring};
use crate::policy::{Method, Mode, ServerPolicy};
use crate::refusal::Refusal;
use crate::secure::ConnectionSecret;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;
use types::{EntityType, Utime};
use wire::basic::AuthName;
use wire::{Encode, Reader, Target, Writer};

/// Where a monitor finds keys and capabilities.
pub trait Entities {
    fn find(&self, name: &AuthName) -> Option<Entry>;
}

impl Entities for Keyring {
    fn find(&self, name: &AuthName) -> Option<Entry> {
        Keyring::find(self, name).cloned()
    }
}

/// The secrets of all services. [`EntityType::AUTH`] is the service of the monitors themselves.
pub type ServiceSecrets = BTreeMap<EntityType, RotatingSecrets>;

/// Times for which tickets are good. Secrets of the service must be the current ones for as long at least.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TicketLifetimes {
    /// Of tickets for the monitors (`auth_mon_ticket_ttl`).
    pub monitor: Duration,
    /// Of tickets for other daemons (`auth_service_ticket_ttl`).
    pub service: Duration,
}

impl Default for TicketLifetimes {
    fn default() -> TicketLifetimes {
        TicketLifetimes { monitor: Duration::from_secs(72 * 3600), service: Duration::from_secs(3600) }
    }
}

/// The state of a monitor that a handshake or a request needs.
pub struct MonitorView<'a> {
    pub policy: &'a ServerPolicy,
    pub entities: &'a dyn Entities,
    pub secrets: &'a ServiceSecrets,
    pub lifetimes: TicketLifetimes,
    /// Gives an id that nobody ever had, or nothing if there is none at hand. An id that is given may stay unused.
    pub new_global_id: &'a mut dyn FnMut() -> Option<u64>,
    pub now: Utime,
    /// Usually [`crate::clock::TOLERANCE`].
    pub tolerance: Duration,
    /// The address of the connection's other end.
    pub peer: Option<IpAddr>,
    pub entropy: &'a mut dyn Entropy,
}

/// A peer's handshake with a monitor. A refusal ends it; the next request needs a new one.
#[derive(Debug)]
pub struct MonitorAccept {
    mode: Mode,
    name: AuthName,
    /// The id that the peer had before; 0 asks for a new one.
    global_id: u64,
    challenge: u64,
}

impl MonitorAccept {
    /// Answers a request. There is something to wait for only after [`Step::More`].
    pub fn begin(
        view: &mut MonitorView<'_>,
        method: u32,
        preferred_modes: &[u32],
        payload: &[u8],
    ) -> (Step, Option<MonitorAccept>) {
        match begin(view, method, preferred_modes, payload) {
            Ok((step, accept)) => (step, accept),
            Err(refusal) => (Step::Refused(refusal), None),
        }
    }

    /// The name that the peer says it has.
    pub fn name(&self) -> &AuthName {
        &self.name
    }

    /// Answers the peer's answer to the challenge.
    pub fn more(self, view: &mut MonitorView<'_>, payload: &[u8]) -> Step {
        Step::of(self.proven(view, payload))
    }

    fn proven(self, view: &mut MonitorView<'_>, payload: &[u8]) -> Result<Step, Refusal> {
        let mut r = Reader::new(payload);
        match r.u16()? {
            request::SESSION => {}
            other => return Err(Refusal::UnknownRequest(other)),
        }
        let asked: Authenticate = r.get()?;
        let entry = proven_entry(view, &self.name, self.challenge, &asked)?;
        let caps = entry.caps.get("mon").ok_or_else(|| Refusal::NoCaps(self.name.clone()))?.clone();
        if asked.services == 0 && self.mode == Mode::Secure {
            // A peer that asks for no service is of a time before connections had secrets.
            return Err(Refusal::Modes(vec![Mode::Secure.number()]));
        }
        let (global_id, old) = self.global_id(view, &asked)?;
        let (old_key, came_before) = old.map_or((None, None), |old| (Some(old.session_key), Some(old.ticket.created)));
        let connection_secret = (self.mode == Mode::Secure).then(|| ConnectionSecret::generate(view.entropy));
        let maker = TicketMaker { view, name: &self.name, entry: &entry, global_id };
        let secret = SecretBytes::new(connection_secret.as_ref().map_or(&[], ConnectionSecret::as_slice));
        let (payload, info) = maker.session(asked.services, old_key.as_ref(), Some(&secret))?;
        Ok(Step::Accepted(Box::new(Accepted {
            method: Method::Cephx,
            mode: self.mode,
            name: self.name,
            global_id,
            caps: Granted::Text(caps),
            session_key: Some(info.session_key),
            connection_secret,
            expires: Some(info.ticket.expires),
            proven: Some(entry.key),
            came_before,
            challenge: Some(self.challenge),
            secret_id: None,
            ticket_mark: None,
            payload,
        })))
    }

    /// The peer's id: a new one, or its earlier one. If a ticket proves that, then also what is in that ticket.
    fn global_id(
        &self,
        view: &mut MonitorView<'_>,
        asked: &Authenticate,
    ) -> Result<(u64, Option<TicketInfo>), Refusal> {
        let shown = !asked.old_ticket.sealed.is_empty();
        if self.global_id == 0 {
            if shown {
                return Err(Refusal::OldTicketUnasked);
            }
            return Ok(((view.new_global_id)().ok_or(Refusal::NoGlobalId)?, None));
        }
        if !shown {
            // Where the peer may use `none`, it may claim any id: one that was given by that method has no ticket, and
            // its owner, who goes over to `cephx` while it works, is known by it.
            let may_claim = view.policy.methods(view.peer).contains(&Method::None);
            return if may_claim { Ok((self.global_id, None)) } else { Err(Refusal::OldTicketMissing) };
        }
        let old = old_session(view, &self.name, self.global_id, &asked.old_ticket)?;
        Ok((self.global_id, Some(old)))
    }
}

/// Finds a peer's entry, and checks the proof of its key. The entry's key is then the one that is proven: a pending key
/// is good beside the one that it is to replace.
fn proven_entry(
    view: &MonitorView<'_>,
    name: &AuthName,
    challenge: u64,
    asked: &Authenticate,
) -> Result<Entry, Refusal> {
    let mut entry = view.entities.find(name).ok_or_else(|| Refusal::UnknownEntity(name.clone()))?;
    let is_proven = |key: &Key| {
        let expected = proof(key, challenge, asked.client_challenge);
        crypto::equal(&expected.to_le_bytes(), &asked.proof.to_le_bytes())
    };
    if !is_proven(&entry.key) {
        let pending = entry.pending_key.take().filter(is_proven);
        entry.key = pending.ok_or_else(|| Refusal::WrongKey(name.clone()))?;
    }
    let kind = entry.key.kind();
    if !view.policy.key_kinds.contains(&kind) {
        return Err(Refusal::KeyKind { name: name.clone(), kind });
    }
    Ok(entry)
}

/// Opens a ticket for monitors that proves an id.
fn old_session(
    view: &MonitorView<'_>,
    name: &AuthName,
    claimed: u64,
    ticket: &TicketBlob,
) -> Result<TicketInfo, Refusal> {
    let info = match auth_reader(view)?.ticket(ticket) {
        Ok(info) => info,
        Err(Refusal::TicketUnreadable) => return Err(Refusal::OldTicketUnreadable("it was changed")),
        Err(Refusal::SecretNotAtHand { .. }) => {
            return Err(Refusal::OldTicketUnreadable("the secret that it is sealed with is not at hand"));
        }
        Err(other) => return Err(other),
    };
    let found = info.ticket.global_id;
    if claimed != found || info.ticket.name != *name {
        return Err(Refusal::OldTicketOfOther { claimed, found });
    }
    Ok(info)
}

fn begin(
    view: &mut MonitorView<'_>,
    number: u32,
    preferred_modes: &[u32],
    payload: &[u8],
) -> Result<(Step, Option<MonitorAccept>), Refusal> {
    let method = Method::from_number(number).filter(|method| view.policy.methods(view.peer).contains(method));
    let method = method.ok_or(Refusal::Method(number))?;
    let mode = view.policy.choose_mode(method, preferred_modes);
    let mode = mode.ok_or_else(|| Refusal::Modes(preferred_modes.to_vec()))?;
    let (name, mut global_id) = none::read_request(payload, audience::MONITOR)?;
    if method == Method::None {
        if global_id == 0 {
            global_id = (view.new_global_id)().ok_or(Refusal::NoGlobalId)?;
        }
        return Ok((Step::Accepted(Box::new(Accepted::unproven(name, global_id))), None));
    }
    // Nobody learns here whether the name exists: that and a wrong key are told alike, after the answer.
    let challenge = draw_number(view.entropy);
    let payload = Challenge(challenge).to_vec(Target::PACIFIC);
    Ok((Step::More(payload), Some(MonitorAccept { mode, name, global_id, challenge })))
}

fn auth_reader<'a>(view: &'a MonitorView<'_>) -> Result<TicketReader<'a>, Refusal> {
    let service = EntityType::AUTH;
    let secrets = view.secrets.get(&service).ok_or(Refusal::NoSecrets(service))?;
    Ok(TicketReader { service, secrets, now: view.now, tolerance: view.tolerance })
}

/// The begin of an answer to a request that succeeded.
fn answer(request: u16) -> Writer {
    let mut w = Writer::new(Target::PACIFIC);
    w.u16(request);
    w.i32(0);
    w
}

/// Makes tickets of one peer.
struct TicketMaker<'a, 'v> {
    view: &'a mut MonitorView<'v>,
    name: &'a AuthName,
    entry: &'a Entry,
    global_id: u64,
}

impl TicketMaker<'_, '_> {
    /// Makes a ticket. `reader`: key of who asked, for its part; `old_key`: session key of the ticket that it showed.
    fn ticket(
        &mut self,
        service: EntityType,
        reader: &Key,
        old_key: Option<&Key>,
    ) -> Result<(GrantedTicket, TicketInfo), Refusal> {
        let view = &mut *self.view;
        let secrets = view.secrets.get(&service).and_then(RotatingSecrets::current);
        let (secret_id, secret) = secrets.ok_or(Refusal::NoSecrets(service))?;
        let lifetimes = view.lifetimes;
        let validity = if service == EntityType::AUTH { lifetimes.monitor } else { lifetimes.service };
        let caps = self.entry.caps.get(service.word());
        let ticket = Ticket {
            name: self.name.clone(),
            global_id: self.global_id,
            auid: if service == EntityType::MGR { self.entry.key.mark() } else { Ticket::NO_AUID },
            created: view.now,
            expires: later(view.now, validity),
            allow_all: false,
            caps: caps.map_or(Vec::new(), |text| Ticket::caps_bytes(text)),
            flags: 0,
        };
        // The session key is of the peer's own kind: it knows that one.
        let session_key = Key::generate(self.entry.key.kind(), view.now, view.entropy);
        let info = TicketInfo { ticket, session_key };
        let session = TicketSession { key: info.session_key.clone(), validity: later(Utime::ZERO, validity) };
        let sealed = seal(&secret.key, Usage::TicketInfo, &info, view.entropy);
        let blob = TicketBlob { secret_id, sealed };
        let granted = GrantedTicket {
            service,
            session: seal(reader, Usage::TicketSessionKey, &session, view.entropy),
            blob_is_sealed: old_key.is_some(),
            blob: match old_key {
                Some(key) => seal(key, Usage::TicketBlob, &Sized(blob), view.entropy),
                None => blob.to_vec(Target::PACIFIC),
            },
        };
        Ok((granted, info))
    }

    /// Makes the answer to a request for a session: a ticket for monitors under the peer's key, then the secret of the
    /// connection, if that is a new one, and tickets for services, both under the key of the session.
    /// `old_key`: session key of the ticket that the peer showed.
    fn session(
        mut self,
        services: u32,
        old_key: Option<&Key>,
        connection_secret: Option<&SecretBytes>,
    ) -> Result<(Vec<u8>, TicketInfo), Refusal> {
        let (granted, info) = self.ticket(EntityType::AUTH, &self.entry.key, old_key)?;
        let mut w = answer(request::SESSION);
        w.put(&GrantedTickets(vec![granted]));
        if services != 0 {
            let more = self.tickets(services, &info.session_key)?;
            let entropy = &mut *self.view.entropy;
            let seal = |secret| seal_sized(&info.session_key, Usage::ConnectionSecret, secret, entropy);
            w.blob(&connection_secret.map_or(Vec::new(), seal));
            let none = more.0.is_empty();
            w.blob(&if none { Vec::new() } else { more.to_vec(Target::PACIFIC) });
        }
        Ok((w.into_vec(), info))
    }

    /// Makes tickets for the services whose bits are set and that have secrets. There is none for monitors themselves
    /// among them: it would take the place of the session that it is asked for with. A ticket for a service where the
    /// peer has no capabilities has none either.
    fn tickets(&mut self, bits: u32, session_key: &Key) -> Result<GrantedTickets, Refusal> {
        let known = [EntityType::MON, EntityType::MDS, EntityType::OSD, EntityType::MGR];
        let mut granted = Vec::new();
        for service in services(bits).filter(|service| known.contains(service)) {
            match self.ticket(service, session_key, None) {
                Ok((ticket, _)) => granted.push(ticket),
                Err(Refusal::NoSecrets(_)) => {}
                Err(other) => return Err(other),
            }
        }
        Ok(GrantedTickets(granted))
    }
}

/// The entry of an accepted peer, with the key that it has proven. A key that was replaced, or whose entity was
/// removed, is good for nothing from then on.
fn current_entry(view: &MonitorView<'_>, peer: &Accepted) -> Result<Entry, Refusal> {
    let mut entry = view.entities.find(&peer.name).ok_or_else(|| Refusal::UnknownEntity(peer.name.clone()))?;
    let proven = peer.proven.clone().ok_or(Refusal::OutOfTurn)?;
    if entry.key != proven && entry.pending_key.as_ref() != Some(&proven) {
        return Err(Refusal::WrongKey(peer.name.clone()));
    }
    entry.key = proven;
    Ok(entry)
}

/// Answers a request that an accepted peer of `cephx` makes in a message: for tickets, for a new session when its own
/// grows old, or for a daemon's secrets.
///
/// A new session has another key, which `peer` has from then on.
///
/// Errors: what the peer hears is [`Refusal::errno`].
pub fn requests(view: &mut MonitorView<'_>, peer: &mut Accepted, payload: &[u8]) -> Result<Vec<u8>, Refusal> {
    let mut r = Reader::new(payload);
    let entry = current_entry(view, peer)?;
    match r.u16()? {
        request::TICKETS => {
            let authorizer: Authorizer = r.get()?;
            let asked: TicketRequest = r.get()?;
            let (info, _) = auth_reader(view)?.authorizer(&authorizer)?;
            let (ticket, authorizer) = (info.ticket.global_id, peer.global_id);
            if ticket != authorizer || info.ticket.name != peer.name {
                return Err(Refusal::TicketOfOther { ticket, authorizer });
            }
            let mut maker = TicketMaker { view, name: &peer.name, entry: &entry, global_id: ticket };
            let mut w = answer(request::TICKETS);
            w.put(&maker.tickets(asked.services, &info.session_key)?);
            Ok(w.into_vec())
        }
        request::SESSION => {
            let asked: Authenticate = r.get()?;
            let challenge = peer.challenge.ok_or(Refusal::OutOfTurn)?;
            let entry = proven_entry(view, &peer.name, challenge, &asked)?;
            if asked.old_ticket.sealed.is_empty() {
                return Err(Refusal::OldTicketMissing);
            }
            let old = old_session(view, &peer.name, peer.global_id, &asked.old_ticket)?;
            let maker = TicketMaker { view, name: &peer.name, entry: &entry, global_id: peer.global_id };
            let (answer, info) = maker.session(asked.services, Some(&old.session_key), None)?;
            peer.session_key = Some(info.session_key);
            Ok(answer)
        }
        request::ROTATING_SECRETS => secrets_for(view, &peer.name, &entry),
        other => Err(Refusal::UnknownRequest(other)),
    }
}

/// The secrets of a daemon's service, as an answer to its request for them.
fn secrets_for(view: &mut MonitorView<'_>, name: &AuthName, entry: &Entry) -> Result<Vec<u8>, Refusal> {
    let service = name.kind;
    let daemons = [EntityType::MON, EntityType::MDS, EntityType::OSD, EntityType::MGR];
    let secrets = view.secrets.get(&service).filter(|secrets| daemons.contains(&service) && !secrets.is_empty());
    let secrets = secrets.ok_or(Refusal::NoSecrets(service))?;
    let mut w = answer(request::ROTATING_SECRETS);
    w.raw(&seal_sized(&entry.key, Usage::RotatingSecrets, secrets, view.entropy));
    Ok(w.into_vec())
}

/// Answers to requests that an accepted peer of `cephx` has not made, and needs after the secrets of services were
/// replaced: tickets, and then, if it is a daemon of one of them, its secrets. None where its key is no longer good.
pub fn given_anew(view: &mut MonitorView<'_>, peer: &Accepted, services: &[EntityType]) -> Vec<Vec<u8>> {
    let (Ok(entry), Some(session_key)) = (current_entry(view, peer), &peer.session_key) else { return Vec::new() };
    let mut answers = Vec::new();
    let mut maker = TicketMaker { view, name: &peer.name, entry: &entry, global_id: peer.global_id };
    let bits = services.iter().fold(0, |bits, service| bits | u32::from(service.0));
    if let Ok(tickets) = maker.tickets(bits, session_key) {
        let mut w = answer(request::TICKETS);
        w.put(&tickets);
        answers.push(w.into_vec());
    }
    if services.contains(&peer.name.kind) {
        answers.extend(secrets_for(view, &peer.name, &entry));
    }
    answers
}

/// Opens a monitor's answer to a daemon that asked for its service's secrets.
pub(super) fn open_secrets(key: &Key, answer: &[u8]) -> Result<RotatingSecrets, super::OpenError> {
    let sealed = Reader::new(answer).blob().map_err(super::OpenError::Content)?;
    open(key, Usage::RotatingSecrets, sealed)
}
