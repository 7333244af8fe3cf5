//! Peers that an accepting side has accepted.

use crate::key::Key;
use crate::policy::{Method, Mode};
use crate::refusal::Refusal;
use crate::secure::ConnectionSecret;
use types::Utime;
use wire::basic::AuthName;

/// Capabilities that were granted, not read yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Granted {
    /// Everything: with `none`, or by a ticket that says so.
    Everything,
    /// The rights in the text; none, if it is empty or cannot be read.
    Text(String),
}

/// A peer that is accepted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Accepted {
    pub method: Method,
    pub mode: Mode,
    /// The name that is proven; only claimed with [`Method::None`].
    pub name: AuthName,
    pub global_id: u64,
    pub caps: Granted,
    /// The secret that both ends know; none with [`Method::None`].
    pub session_key: Option<Key>,
    /// The secret for frames in [`Mode::Secure`].
    pub connection_secret: Option<ConnectionSecret>,
    /// The time after which the peer must prove itself anew to be accepted again.
    pub expires: Option<Utime>,
    /// The key that the peer has proven to a monitor.
    pub(crate) proven: Option<Key>,
    /// The time at which the ticket was made by which the peer has proven to a monitor that it was here before, or an
    /// earlier one ([`Accepted::may_hold_former_tickets`]).
    pub(crate) came_before: Option<Utime>,
    /// The challenge of a monitor's handshake, which a renewed session of the same connection answers again.
    pub(crate) challenge: Option<u64>,
    /// The number of the secret that the ticket was sealed with that the peer has shown to a daemon.
    pub(crate) secret_id: Option<u64>,
    /// The mark of the key for which the ticket was given that the peer has shown, if it says so.
    pub(crate) ticket_mark: Option<u64>,
    /// The payload that goes to the peer along with the good news.
    pub payload: Vec<u8>,
}

impl Accepted {
    /// True if `key` is the one that the peer has proven to a monitor.
    pub fn proves(&self, key: &Key) -> bool {
        self.proven.as_ref() == Some(key)
    }

    /// True if the ticket that the peer has shown may have been given for `key`: it was, or it does not say for which.
    pub fn may_be_by(&self, key: &Key) -> bool {
        self.ticket_mark.is_none_or(|mark| mark == key.mark())
    }

    /// True if the peer may hold tickets from before `time`: it has proven to a monitor that it was here then, or that
    /// was noted of it.
    pub fn came_before(&self, time: Utime) -> bool {
        self.came_before.is_some_and(|made| made < time)
    }

    /// True if the ticket that the peer has shown was sealed with a secret older than `oldest`, by its number. Where
    /// that is the oldest at hand nobody is accepted by such a ticket any more.
    pub fn is_by_secret_before(&self, oldest: u64) -> bool {
        self.secret_id.is_some_and(|secret| secret < oldest)
    }

    /// Notes that the peer may hold tickets from any time before now.
    pub fn may_hold_former_tickets(&mut self) {
        self.came_before = Some(Utime::ZERO);
    }

    /// Notes the key that the peer has proven.
    pub fn has_proven(&mut self, key: &Key) {
        self.proven = Some(key.clone());
    }

    /// A peer of the method `none`.
    pub(crate) fn unproven(name: AuthName, global_id: u64) -> Accepted {
        Accepted {
            method: Method::None,
            mode: Mode::Crc,
            name,
            global_id,
            caps: Granted::Everything,
            session_key: None,
            connection_secret: None,
            expires: None,
            proven: None,
            came_before: None,
            challenge: None,
            secret_id: None,
            ticket_mark: None,
            payload: Vec::new(),
        }
    }
}

/// Answer of an accepting side.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// The peer must say more.
    More(Vec<u8>),
    Accepted(Box<Accepted>),
    /// The connection is not to be continued, but for another attempt from its beginning.
    Refused(Refusal),
}

impl Step {
    pub(crate) fn of(result: Result<Step, Refusal>) -> Step {
        result.unwrap_or_else(Step::Refused)
    }
}
