//! Reasons for which a server refuses somebody, for its log; the peer hears an error number alone.

use crate::clock::ClockSkew;
use crate::key::KeyKind;
use std::time::Duration;
use types::{EntityType, Errno};
use wire::DecodeError;
use wire::basic::AuthName;

/// Reason why somebody is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// The method is unknown, or not allowed for this peer.
    #[error("authentication method {0} is not allowed")]
    Method(u32),
    /// No mode that the peer takes is allowed.
    #[error("none of the connection modes {0:?} is allowed")]
    Modes(Vec<u32>),
    #[error("a message cannot be read: {0}")]
    Malformed(DecodeError),
    /// A monitor's part was said to a daemon, or a daemon's to a monitor.
    #[error("the peer takes this daemon for one of another kind (audience {0})")]
    Audience(u8),
    #[error("a message came out of turn")]
    OutOfTurn,
    #[error("request {0:#06x} is not known")]
    UnknownRequest(u16),
    #[error("there is no '{0}'")]
    UnknownEntity(AuthName),
    #[error("'{0}' does not have the key that belongs to it")]
    WrongKey(AuthName),
    #[error("keys of kind {kind} are not allowed, and '{name}' has one")]
    KeyKind { name: AuthName, kind: KeyKind },
    #[error("'{0}' has no capabilities for monitors")]
    NoCaps(AuthName),
    /// No id is left to give; another attempt may find one.
    #[error("no new id can be given now")]
    NoGlobalId,
    /// The secrets of a service have not been made or fetched yet; another attempt may find them.
    #[error("there are no secrets of service '{}' yet", .0.word())]
    NoSecrets(EntityType),
    #[error("an earlier id is asked for with no ticket that proves it")]
    OldTicketMissing,
    #[error("the ticket for an earlier id does not open: {0}")]
    OldTicketUnreadable(&'static str),
    #[error("the ticket for id {claimed} is of id {found}")]
    OldTicketOfOther { claimed: u64, found: u64 },
    #[error("a new id is asked for, and an old ticket shown")]
    OldTicketUnasked,
    #[error("the ticket is for service '{}', not for '{}'", .wanted.word(), .own.word())]
    OtherService { wanted: EntityType, own: EntityType },
    /// The secret of the ticket is not at hand: retired, or newer than those that were fetched.
    #[error("the ticket is sealed with secret {id}, and those at hand are {oldest} to {newest}")]
    SecretNotAtHand { id: u64, oldest: u64, newest: u64 },
    #[error("the ticket does not open with the secret that it names, or was changed")]
    TicketUnreadable,
    #[error("the ticket is of id {ticket}, the authorizer of id {authorizer}")]
    TicketOfOther { ticket: u64, authorizer: u64 },
    #[error("the ticket expired {} s ago", .0.as_secs())]
    TicketExpired(Duration),
    #[error("the authorizer is not sealed with the ticket's session key: who sent it does not own the ticket")]
    AuthorizerUnreadable,
    #[error("the authorizer answers no challenge")]
    ChallengeUnanswered,
    #[error("the authorizer answers another challenge: it is from another connection")]
    OtherChallenge,
    #[error(transparent)]
    ClockSkew(ClockSkew),
    /// Nothing of it was looked at. The peer hears nothing, and may come again.
    #[error("too many logins from its machine have failed; the next is looked at in a moment")]
    TooManyFailures,
}

impl Refusal {
    /// The error that the peer hears.
    pub fn errno(&self) -> Errno {
        match self {
            Refusal::Method(_) | Refusal::Modes(_) => Errno::EOPNOTSUPP,
            Refusal::Malformed(_)
            | Refusal::Audience(_)
            | Refusal::OutOfTurn
            | Refusal::UnknownRequest(_)
            | Refusal::OldTicketUnasked => Errno::EINVAL,
            Refusal::NoGlobalId | Refusal::NoSecrets(_) | Refusal::TooManyFailures => Errno::EAGAIN,
            _ => Errno::EACCES,
        }
    }

    /// True if the peer has failed to prove who it is, or is nobody. Others ask for something that is not to be had.
    pub fn is_failed_login(&self) -> bool {
        match self {
            Refusal::UnknownEntity(_)
            | Refusal::WrongKey(_)
            | Refusal::OldTicketMissing
            | Refusal::OldTicketUnreadable(_)
            | Refusal::OldTicketOfOther { .. }
            | Refusal::TicketUnreadable
            | Refusal::TicketOfOther { .. }
            | Refusal::AuthorizerUnreadable
            | Refusal::ChallengeUnanswered
            | Refusal::OtherChallenge
            | Refusal::Malformed(_)
            | Refusal::Audience(_)
            | Refusal::OutOfTurn
            | Refusal::UnknownRequest(_)
            | Refusal::OldTicketUnasked => true,
            Refusal::Method(_)
            | Refusal::Modes(_)
            | Refusal::KeyKind { .. }
            | Refusal::NoCaps(_)
            | Refusal::NoGlobalId
            | Refusal::NoSecrets(_)
            | Refusal::OtherService { .. }
            | Refusal::SecretNotAtHand { .. }
            | Refusal::TicketExpired(_)
            | Refusal::ClockSkew(_)
            | Refusal::TooManyFailures => false,
        }
    }

    /// True if the peer should ask the monitors for new tickets and come again.
    pub fn new_ticket_may_help(&self) -> bool {
        matches!(self, Refusal::SecretNotAtHand { .. } | Refusal::TicketExpired(_))
    }
}

impl From<DecodeError> for Refusal {
    fn from(error: DecodeError) -> Refusal {
        Refusal::Malformed(error)
    }
}
