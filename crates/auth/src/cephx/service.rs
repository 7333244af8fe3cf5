//! The accepting side of a daemon: it believes tickets.

use super::envelope::seal;
use super::protocol::{AuthorizeReply, Authorizer, Challenge, SecretBytes};
use super::rotating::RotatingSecrets;
use super::verify::TicketReader;
use super::{audience, none};
use crate::accepted::{Accepted, Granted, Step};
use crate::entropy::{Entropy, draw_number};
use crate::key::{KeyKind, Usage};
use crate::policy::{Method, Mode, ServerPolicy};
use crate::refusal::Refusal;
use crate::secure::ConnectionSecret;
use std::net::IpAddr;
use std::time::Duration;
use types::{EntityType, Utime};
use wire::{Decode, Target};

/// The state of a daemon that a handshake needs.
pub struct ServiceView<'a> {
    /// The kind of the daemon, for which tickets must be.
    pub service: EntityType,
    pub policy: &'a ServerPolicy,
    /// The service's secrets, as the monitors gave them.
    pub secrets: &'a RotatingSecrets,
    pub now: Utime,
    /// Usually [`crate::clock::TOLERANCE`].
    pub tolerance: Duration,
    /// The address of the connection's other end.
    pub peer: Option<IpAddr>,
    pub entropy: &'a mut dyn Entropy,
}

/// A peer's handshake with a daemon. A refusal ends it; the next request needs a new one.
#[derive(Debug)]
pub struct ServiceAccept {
    mode: Mode,
    challenge: u64,
    global_id: u64,
}

impl ServiceAccept {
    /// Answers a request. There is something to wait for only after [`Step::More`].
    pub fn begin(
        view: &mut ServiceView<'_>,
        method: u32,
        preferred_modes: &[u32],
        payload: &[u8],
    ) -> (Step, Option<ServiceAccept>) {
        match begin(view, method, preferred_modes, payload) {
            Ok((step, accept)) => (step, accept),
            Err(refusal) => (Step::Refused(refusal), None),
        }
    }

    /// Answers the peer's answer to the challenge.
    pub fn more(self, view: &mut ServiceView<'_>, payload: &[u8]) -> Step {
        Step::of(self.answered(view, payload))
    }

    fn answered(self, view: &mut ServiceView<'_>, payload: &[u8]) -> Result<Step, Refusal> {
        let authorizer = Authorizer::from_slice(payload)?;
        let secret_id = Some(authorizer.ticket.secret_id);
        let (info, authorize) = reader(view).authorizer(&authorizer)?;
        if info.ticket.global_id != self.global_id {
            return Err(Refusal::TicketOfOther { ticket: info.ticket.global_id, authorizer: self.global_id });
        }
        match authorize.challenge_plus_one {
            None => return Err(Refusal::ChallengeUnanswered),
            Some(answer) if answer != self.challenge.wrapping_add(1) => return Err(Refusal::OtherChallenge),
            Some(_) => {}
        }
        let session_key = info.session_key;
        check_kind(view, &info.ticket.name, session_key.kind())?;
        let connection_secret = (self.mode == Mode::Secure).then(|| ConnectionSecret::generate(view.entropy));
        let reply = AuthorizeReply {
            nonce_plus_one: authorize.nonce.wrapping_add(1),
            connection_secret: SecretBytes::new(connection_secret.as_ref().map_or(&[], ConnectionSecret::as_slice)),
        };
        let mut payload = wire::Writer::new(Target::PACIFIC);
        payload.blob(&seal(&session_key, Usage::AuthorizeReply, &reply, view.entropy));
        let ticket_mark = info.ticket.mark();
        let caps = if info.ticket.allow_all { Granted::Everything } else { Granted::Text(info.ticket.caps_text()?) };
        Ok(Step::Accepted(Box::new(Accepted {
            method: Method::Cephx,
            mode: self.mode,
            name: info.ticket.name,
            global_id: info.ticket.global_id,
            caps,
            session_key: Some(session_key),
            connection_secret,
            expires: Some(info.ticket.expires),
            proven: None,
            came_before: None,
            challenge: None,
            secret_id,
            ticket_mark,
            payload: payload.into_vec(),
        })))
    }
}

fn reader<'a>(view: &'a ServiceView<'_>) -> TicketReader<'a> {
    TicketReader { service: view.service, secrets: view.secrets, now: view.now, tolerance: view.tolerance }
}

fn check_kind(view: &ServiceView<'_>, name: &wire::basic::AuthName, kind: KeyKind) -> Result<(), Refusal> {
    if view.policy.key_kinds.contains(&kind) { Ok(()) } else { Err(Refusal::KeyKind { name: name.clone(), kind }) }
}

fn begin(
    view: &mut ServiceView<'_>,
    number: u32,
    preferred_modes: &[u32],
    payload: &[u8],
) -> Result<(Step, Option<ServiceAccept>), Refusal> {
    let method = Method::from_number(number).filter(|method| view.policy.methods(view.peer).contains(method));
    let method = method.ok_or(Refusal::Method(number))?;
    let mode = view.policy.choose_mode(method, preferred_modes);
    let mode = mode.ok_or_else(|| Refusal::Modes(preferred_modes.to_vec()))?;
    if method == Method::None {
        let (name, global_id) = none::read_request(payload, audience::SERVICE)?;
        return Ok((Step::Accepted(Box::new(Accepted::unproven(name, global_id))), None));
    }
    if payload.first() == Some(&audience::MONITOR) {
        return Err(Refusal::Audience(audience::MONITOR));
    }
    let (info, authorize) = reader(view).authorizer(&Authorizer::from_slice(payload)?)?;
    if authorize.challenge_plus_one.is_some() {
        return Err(Refusal::OtherChallenge);
    }
    check_kind(view, &info.ticket.name, info.session_key.kind())?;
    let challenge = draw_number(view.entropy);
    let sealed = seal(&info.session_key, Usage::AuthorizeChallenge, &Challenge(challenge), view.entropy);
    Ok((Step::More(sealed), Some(ServiceAccept { mode, challenge, global_id: info.ticket.global_id })))
}
