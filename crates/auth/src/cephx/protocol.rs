//! Messages of `cephx`, as bytes.
//!
//! Each structure begins with a version of one byte. Versions that are not known here are refused.

use crate::key::Key;
use std::fmt;
use types::{EntityType, Utime};
use wire::basic::AuthName;
use wire::{Decode, DecodeError, Encode, Reader, Target, Writer};
use zeroize::Zeroizing;

/// Numbers of requests to a monitor.
pub(crate) mod request {
    /// A session of one's own, with tickets.
    pub const SESSION: u16 = 0x0100;
    /// More tickets, or newer ones.
    pub const TICKETS: u16 = 0x0200;
    /// The secrets of a daemon's service.
    pub const ROTATING_SECRETS: u16 = 0x0400;
}

fn version(r: &mut Reader<'_>, what: &'static str, known: &[u8]) -> Result<u8, DecodeError> {
    let version = r.u8()?;
    known.contains(&version).then_some(version).ok_or(DecodeError::Value { what, value: version.into() })
}

fn flag(r: &mut Reader<'_>, what: &'static str) -> Result<bool, DecodeError> {
    match r.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(DecodeError::Value { what, value: other.into() }),
    }
}

fn service(r: &mut Reader<'_>) -> Result<EntityType, DecodeError> {
    let number = r.u32()?;
    let number = u8::try_from(number).map_err(|_| DecodeError::Value { what: "service", value: number.into() })?;
    Ok(EntityType(number))
}

/// A random number that the other side must prove to have read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Challenge(pub u64);

impl Encode for Challenge {
    fn encode(&self, w: &mut Writer) {
        w.u8(1);
        w.u64(self.0);
    }
}

impl Decode for Challenge {
    const MIN_BYTES: usize = 9;

    fn decode(r: &mut Reader<'_>) -> Result<Challenge, DecodeError> {
        version(r, "version of a challenge", &[1])?;
        Ok(Challenge(r.u64()?))
    }
}

/// Challenges of both sides of a monitor's connection, in the form that is encrypted as a proof.
pub(crate) struct Challenges {
    pub server: u64,
    pub client: u64,
}

impl Encode for Challenges {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.server);
        w.u64(self.client);
    }
}

/// A ticket as its owner holds it: only the service reads what is sealed.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct TicketBlob {
    /// Number of the service's secret that it is sealed with; 0 in place of a ticket.
    pub secret_id: u64,
    /// A [`TicketInfo`].
    pub sealed: Vec<u8>,
}

impl Encode for TicketBlob {
    fn encode(&self, w: &mut Writer) {
        w.u8(1);
        w.u64(self.secret_id);
        w.blob(&self.sealed);
    }
}

impl Decode for TicketBlob {
    const MIN_BYTES: usize = 13;

    fn decode(r: &mut Reader<'_>) -> Result<TicketBlob, DecodeError> {
        version(r, "version of a ticket's blob", &[1])?;
        Ok(TicketBlob { secret_id: r.u64()?, sealed: r.blob()?.to_vec() })
    }
}

/// The first request to a monitor: proves the key, asks for tickets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Authenticate {
    /// 3 promises that an earlier id is proven by `old_ticket`; 2 did not have to.
    pub version: u8,
    pub client_challenge: u64,
    /// See [`super::proof`].
    pub proof: u64,
    /// The ticket of the id that is asked for again.
    pub old_ticket: TicketBlob,
    /// The services for which tickets are wanted: a bit each.
    pub services: u32,
}

impl Encode for Authenticate {
    fn encode(&self, w: &mut Writer) {
        w.u8(self.version);
        w.u64(self.client_challenge);
        w.u64(self.proof);
        w.put(&self.old_ticket);
        if self.version >= 2 {
            w.u32(self.services);
        }
    }
}

impl Decode for Authenticate {
    const MIN_BYTES: usize = 17 + TicketBlob::MIN_BYTES;

    fn decode(r: &mut Reader<'_>) -> Result<Authenticate, DecodeError> {
        let version = version(r, "version of a request for a session", &[1, 2, 3])?;
        Ok(Authenticate {
            version,
            client_challenge: r.u64()?,
            proof: r.u64()?,
            old_ticket: r.get()?,
            services: if version >= 2 { r.u32()? } else { 0 },
        })
    }
}

/// The services whose bits are set.
pub(crate) fn services(bits: u32) -> impl Iterator<Item = EntityType> {
    (0..8).map(|bit| EntityType(1 << bit)).filter(move |service| bits & u32::from(service.0) != 0)
}

/// Asks for tickets, behind an authorizer for the monitors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TicketRequest {
    pub services: u32,
}

impl Encode for TicketRequest {
    fn encode(&self, w: &mut Writer) {
        w.u8(1);
        w.u32(self.services);
    }
}

impl Decode for TicketRequest {
    const MIN_BYTES: usize = 5;

    fn decode(r: &mut Reader<'_>) -> Result<TicketRequest, DecodeError> {
        version(r, "version of a request for tickets", &[1])?;
        Ok(TicketRequest { services: r.u32()? })
    }
}

/// One ticket in a monitor's answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct GrantedTicket {
    pub service: EntityType,
    /// A [`TicketSession`], sealed for who asked.
    pub session: Vec<u8>,
    /// True if `blob` is sealed with the session key of the ticket that was shown.
    pub blob_is_sealed: bool,
    /// A [`TicketBlob`] or, sealed, its [`Sized`] form.
    pub blob: Vec<u8>,
}

/// Tickets in a monitor's answer.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct GrantedTickets(pub Vec<GrantedTicket>);

impl Encode for GrantedTickets {
    fn encode(&self, w: &mut Writer) {
        w.u8(1);
        w.count(self.0.len());
        for ticket in &self.0 {
            w.u32(ticket.service.0.into());
            w.u8(1);
            w.blob(&ticket.session);
            w.u8(ticket.blob_is_sealed.into());
            w.blob(&ticket.blob);
        }
    }
}

impl Decode for GrantedTickets {
    const MIN_BYTES: usize = 5;

    fn decode(r: &mut Reader<'_>) -> Result<GrantedTickets, DecodeError> {
        version(r, "version of a list of tickets", &[1])?;
        let count = r.count("tickets", 14)?;
        let mut tickets = Vec::with_capacity(count);
        for _ in 0..count {
            let service = service(r)?;
            version(r, "version of a ticket", &[1])?;
            let session = r.blob()?.to_vec();
            let blob_is_sealed = flag(r, "mark of a sealed ticket")?;
            tickets.push(GrantedTicket { service, session, blob_is_sealed, blob: r.blob()?.to_vec() });
        }
        Ok(GrantedTickets(tickets))
    }
}

/// The part of a ticket that its owner reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TicketSession {
    pub key: Key,
    /// The time for which the ticket is good, from when it was given.
    pub validity: Utime,
}

impl Encode for TicketSession {
    fn encode(&self, w: &mut Writer) {
        w.u8(1);
        w.put(&self.key);
        w.put(&self.validity);
    }
}

impl Decode for TicketSession {
    const MIN_BYTES: usize = 9 + Key::MIN_BYTES;

    fn decode(r: &mut Reader<'_>) -> Result<TicketSession, DecodeError> {
        version(r, "version of a ticket's session", &[1])?;
        Ok(TicketSession { key: r.get()?, validity: r.get()? })
    }
}

/// A value after its length: what is a buffer inside another structure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Sized<T>(pub T);

impl<T: Encode> Encode for Sized<T> {
    fn encode(&self, w: &mut Writer) {
        w.sized(|w| w.put(&self.0));
    }
}

impl<T: Decode> Decode for Sized<T> {
    const MIN_BYTES: usize = 4 + T::MIN_BYTES;

    fn decode(r: &mut Reader<'_>) -> Result<Sized<T>, DecodeError> {
        let mut body = r.sized()?;
        let value = body.get()?;
        match body.left() {
            0 => Ok(Sized(value)),
            left => Err(DecodeError::Value { what: "bytes behind a value", value: left as u64 }),
        }
    }
}

/// The owner of a ticket, and his rights.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ticket {
    pub name: AuthName,
    pub global_id: u64,
    /// In a ticket for managers, which monitors give and monitors alone open: the mark of the key for which it was
    /// given. All ones in others, and in those of earlier versions.
    pub auid: u64,
    pub created: Utime,
    pub expires: Utime,
    /// True if everything is allowed, whatever `caps` says.
    pub allow_all: bool,
    /// Capabilities for the service: a text with its length, or nothing.
    pub caps: Vec<u8>,
    pub flags: u32,
}

impl Ticket {
    /// The value of `auid`, which meant an account once.
    pub const NO_AUID: u64 = u64::MAX;

    /// The bytes of `caps` for a text.
    pub fn caps_bytes(text: &str) -> Vec<u8> {
        text.to_owned().to_vec(Target::PACIFIC)
    }

    /// The mark of the key for which the ticket was given, if it says so.
    pub fn mark(&self) -> Option<u64> {
        (self.auid != Ticket::NO_AUID).then_some(self.auid)
    }

    /// The text in `caps`; empty if there are none.
    pub fn caps_text(&self) -> Result<String, DecodeError> {
        if self.caps.is_empty() { Ok(String::new()) } else { String::from_slice(&self.caps) }
    }
}

impl Encode for Ticket {
    fn encode(&self, w: &mut Writer) {
        w.u8(2);
        w.put(&self.name);
        w.u64(self.global_id);
        w.u64(self.auid);
        w.put(&self.created);
        w.put(&self.expires);
        w.u8(1);
        w.u8(self.allow_all.into());
        w.blob(&self.caps);
        w.u32(self.flags);
    }
}

impl Decode for Ticket {
    const MIN_BYTES: usize = 43 + AuthName::MIN_BYTES;

    fn decode(r: &mut Reader<'_>) -> Result<Ticket, DecodeError> {
        version(r, "version of a ticket's content", &[2])?;
        let (name, global_id, auid) = (r.get()?, r.u64()?, r.u64()?);
        let (created, expires) = (r.get()?, r.get()?);
        version(r, "version of a ticket's capabilities", &[1])?;
        let allow_all = flag(r, "mark of a ticket that allows everything")?;
        Ok(Ticket { name, global_id, auid, created, expires, allow_all, caps: r.blob()?.to_vec(), flags: r.u32()? })
    }
}

/// The part of a ticket that the service reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TicketInfo {
    pub ticket: Ticket,
    pub session_key: Key,
}

impl Encode for TicketInfo {
    fn encode(&self, w: &mut Writer) {
        w.u8(1);
        w.put(&self.ticket);
        w.put(&self.session_key);
    }
}

impl Decode for TicketInfo {
    const MIN_BYTES: usize = 1 + Ticket::MIN_BYTES + Key::MIN_BYTES;

    fn decode(r: &mut Reader<'_>) -> Result<TicketInfo, DecodeError> {
        version(r, "version of a sealed ticket", &[1])?;
        Ok(TicketInfo { ticket: r.get()?, session_key: r.get()? })
    }
}

/// A ticket with the proof that its sender owns it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Authorizer {
    pub global_id: u64,
    pub service: EntityType,
    pub ticket: TicketBlob,
    /// An [`Authorize`], sealed with the ticket's session key.
    pub sealed: Vec<u8>,
}

impl Encode for Authorizer {
    fn encode(&self, w: &mut Writer) {
        w.u8(1);
        w.u64(self.global_id);
        w.u32(self.service.0.into());
        w.put(&self.ticket);
        w.blob(&self.sealed);
    }
}

impl Decode for Authorizer {
    const MIN_BYTES: usize = 17 + TicketBlob::MIN_BYTES;

    fn decode(r: &mut Reader<'_>) -> Result<Authorizer, DecodeError> {
        version(r, "version of an authorizer", &[1])?;
        let (global_id, service) = (r.u64()?, service(r)?);
        Ok(Authorizer { global_id, service, ticket: r.get()?, sealed: r.blob()?.to_vec() })
    }
}

/// The sealed part of an authorizer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Authorize {
    pub nonce: u64,
    /// The service's challenge, plus one; none in the first authorizer.
    pub challenge_plus_one: Option<u64>,
}

impl Encode for Authorize {
    fn encode(&self, w: &mut Writer) {
        w.u8(2);
        w.u64(self.nonce);
        w.u8(self.challenge_plus_one.is_some().into());
        w.u64(self.challenge_plus_one.unwrap_or(0));
    }
}

impl Decode for Authorize {
    const MIN_BYTES: usize = 18;

    fn decode(r: &mut Reader<'_>) -> Result<Authorize, DecodeError> {
        version(r, "version of an authorizer's proof", &[2])?;
        let nonce = r.u64()?;
        let answered = flag(r, "mark of an answered challenge")?;
        match (answered, r.u64()?) {
            (true, value) => Ok(Authorize { nonce, challenge_plus_one: Some(value) }),
            (false, 0) => Ok(Authorize { nonce, challenge_plus_one: None }),
            (false, value) => Err(DecodeError::Value { what: "answer to no challenge", value }),
        }
    }
}

/// Secret bytes after their length; not printed, and wiped when they are dropped.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct SecretBytes(Zeroizing<Vec<u8>>);

impl SecretBytes {
    pub fn new(bytes: &[u8]) -> SecretBytes {
        SecretBytes(Zeroizing::new(bytes.to_vec()))
    }

    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretBytes({} bytes, not shown)", self.0.len())
    }
}

impl Encode for SecretBytes {
    fn encode(&self, w: &mut Writer) {
        w.blob(&self.0);
    }
}

impl Decode for SecretBytes {
    const MIN_BYTES: usize = 4;

    fn decode(r: &mut Reader<'_>) -> Result<SecretBytes, DecodeError> {
        Ok(SecretBytes::new(r.blob()?))
    }
}

/// A service's proof that it could read the ticket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AuthorizeReply {
    pub nonce_plus_one: u64,
    /// Empty in crc mode.
    pub connection_secret: SecretBytes,
}

impl Encode for AuthorizeReply {
    fn encode(&self, w: &mut Writer) {
        let secure = !self.connection_secret.as_slice().is_empty();
        w.u8(if secure { 2 } else { 1 });
        w.u64(self.nonce_plus_one);
        if secure {
            w.put(&self.connection_secret);
        }
    }
}

impl Decode for AuthorizeReply {
    const MIN_BYTES: usize = 9;

    fn decode(r: &mut Reader<'_>) -> Result<AuthorizeReply, DecodeError> {
        let version = version(r, "version of a service's proof", &[1, 2])?;
        let nonce_plus_one = r.u64()?;
        let connection_secret = if version == 2 { r.get()? } else { SecretBytes::default() };
        if version == 2 && connection_secret.as_slice().is_empty() {
            return Err(DecodeError::Value { what: "length of a connection's secret", value: 0 });
        }
        Ok(AuthorizeReply { nonce_plus_one, connection_secret })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{any_key, any_utime, check_bytes, check_codec};
    use proptest::prelude::*;

    fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(any::<u8>(), 0..40)
    }

    fn any_name() -> impl Strategy<Value = AuthName> {
        (any::<u8>(), "[ -~]{0,12}").prop_map(|(kind, id)| AuthName::new(EntityType(kind), id))
    }

    prop_compose! {
        fn any_blob()(secret_id in any::<u64>(), sealed in any_bytes()) -> TicketBlob {
            TicketBlob { secret_id, sealed }
        }
    }

    prop_compose! {
        fn any_authenticate()(version in 1..=3u8, client_challenge in any::<u64>(), proof in any::<u64>(),
            old_ticket in any_blob(), services in any::<u32>()) -> Authenticate {
            let services = if version == 1 { 0 } else { services };
            Authenticate { version, client_challenge, proof, old_ticket, services }
        }
    }

    prop_compose! {
        fn any_granted()(service in any::<u8>(), session in any_bytes(), blob_is_sealed in any::<bool>(),
            blob in any_bytes()) -> GrantedTicket {
            GrantedTicket { service: EntityType(service), session, blob_is_sealed, blob }
        }
    }

    prop_compose! {
        fn any_ticket()(name in any_name(), global_id in any::<u64>(), auid in any::<u64>(), created in any_utime(),
            expires in any_utime(), allow_all in any::<bool>(), caps in any_bytes(), flags in any::<u32>()) -> Ticket {
            Ticket { name, global_id, auid, created, expires, allow_all, caps, flags }
        }
    }

    prop_compose! {
        fn any_authorizer()(global_id in any::<u64>(), service in any::<u8>(), ticket in any_blob(),
            sealed in any_bytes()) -> Authorizer {
            Authorizer { global_id, service: EntityType(service), ticket, sealed }
        }
    }

    proptest! {
        #[test]
        fn values_read_back(
            number in any::<u64>(),
            blob in any_blob(),
            authenticate in any_authenticate(),
            granted in proptest::collection::vec(any_granted(), 0..3),
            ticket in any_ticket(),
            key in any_key(),
            validity in any_utime(),
            authorizer in any_authorizer(),
            answer in any::<Option<u64>>(),
            connection_secret in any_bytes(),
        ) {
            check_codec(&Challenge(number))?;
            check_codec(&blob)?;
            check_codec(&Sized(blob))?;
            check_codec(&authenticate)?;
            check_codec(&TicketRequest { services: number as u32 })?;
            check_codec(&GrantedTickets(granted))?;
            check_codec(&ticket)?;
            check_codec(&TicketInfo { ticket, session_key: key.clone() })?;
            check_codec(&TicketSession { key, validity })?;
            check_codec(&authorizer)?;
            check_codec(&Authorize { nonce: number, challenge_plus_one: answer })?;
            let connection_secret = SecretBytes::new(&connection_secret);
            check_codec(&connection_secret)?;
            check_codec(&AuthorizeReply { nonce_plus_one: number, connection_secret })?;
        }

        #[test]
        fn arbitrary_bytes_are_refused_or_a_value(version in 0..4u8, rest in any::<Vec<u8>>()) {
            let mut bytes = vec![version];
            bytes.extend_from_slice(&rest);
            check_bytes::<Challenge>(&bytes)?;
            check_bytes::<TicketBlob>(&bytes)?;
            check_bytes::<Sized<TicketBlob>>(&rest)?;
            check_bytes::<Authenticate>(&bytes)?;
            check_bytes::<TicketRequest>(&bytes)?;
            check_bytes::<GrantedTickets>(&bytes)?;
            check_bytes::<Ticket>(&bytes)?;
            check_bytes::<TicketInfo>(&bytes)?;
            check_bytes::<TicketSession>(&bytes)?;
            check_bytes::<Authorizer>(&bytes)?;
            check_bytes::<Authorize>(&bytes)?;
            check_bytes::<AuthorizeReply>(&bytes)?;
        }
    }

    #[test]
    fn services_are_bits() {
        let names: Vec<&str> = services(0x35).map(EntityType::word).collect();
        assert_eq!(names, ["mon", "osd", "mgr", "auth"]);
    }
}
