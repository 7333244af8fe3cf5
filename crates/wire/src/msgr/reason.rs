//! Reasons for which sessions end, connections are lost, and peers are turned away.

use super::frame::FrameError;
use super::machine::machine_of;
use crate::basic::AuthName;
use crate::messages::kind_name;
use crate::{DecodeError, EntityAddr, EntityAddrVec};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use types::{EntityName, EntityType, Errno};

/// Why a transport connection ended, or was not made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TransportLoss {
    /// The peer's machine answers, and nobody listens there.
    Refused,
    /// In the transport's words.
    Other(String),
}

impl From<&io::Error> for TransportLoss {
    fn from(error: &io::Error) -> TransportLoss {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => TransportLoss::Refused,
            _ => TransportLoss::Other(error.to_string()),
        }
    }
}

impl From<&str> for TransportLoss {
    fn from(words: &str) -> TransportLoss {
        TransportLoss::Other(words.to_owned())
    }
}

impl fmt::Display for TransportLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TransportLoss::Refused => f.write_str("connection refused"),
            TransportLoss::Other(words) => f.write_str(words),
        }
    }
}

/// An acknowledgement of messages that were never sent, or a repeated denial of acknowledged ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("peer claims to have received up to message {claimed}, possible are {first} to {last}")]
pub struct AckError {
    pub(super) claimed: u64,
    pub(super) first: u64,
    pub(super) last: u64,
}

/// Cause of the end of a session or a connection.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Cause {
    #[error("{0}")]
    Transport(TransportLoss),
    #[error("malformed frame: {0}")]
    Frame(FrameError),
    #[error("malformed frame: {0}")]
    Decode(DecodeError),
    #[error("{0}")]
    Acknowledgement(AckError),
    #[error("message {seq} where {expected} was expected")]
    MessageNumber { seq: u64, expected: u64 },

    // Time.
    #[error("no session within {0:?}")]
    NoSession(Duration),
    #[error("no room: {0} connections have no session yet, and most of them are of its machine")]
    HalfOpen(usize),
    #[error("no room for what it has sent before it has a session")]
    HalfOpenBytes,
    #[error("no answer to keepalives for {0:?}")]
    Silent(Duration),
    /// A monitor has none for a client, which has waited in vain or cannot wait.
    #[error("no global id is left to give; it may try again")]
    NoIdLeft,

    // The banner, who peers are, and authentication.
    #[error("peer speaks msgr v2.0; only v2.1 is spoken here")]
    OldRevision,
    #[error("peer requires messenger features {0:#x}")]
    MessengerFeatures(u64),
    #[error("{} (entity type {}) is not served by a {}", .peer.word(), .peer.0, .own.word())]
    NotServed { peer: EntityType, own: EntityType },
    #[error("peer is a {}, not a {}", .is.word(), .dialled.word())]
    OtherKind { is: EntityType, dialled: EntityType },
    #[error("{0} takes us for a monitor")]
    TakenForMonitor(AuthName),
    #[error("peer chose connection mode {0}, which we did not offer")]
    Mode(u32),
    #[error(
        "authentication method {method} refused: {}; allowed are methods {methods:?} with modes {modes:?} \
         (1 none, 2 cephx)",
        result_text(*.result)
    )]
    MethodRefused { method: u32, result: i32, methods: Vec<u32>, modes: Vec<u32> },
    #[error("signature of the handshake does not match")]
    Signature,
    /// In the words of whoever answers steps of the handshake.
    #[error("{0}")]
    Authentication(String),
    #[error("it says that it is {claimed}, and has proven to be {proven}")]
    OtherThanProven { claimed: EntityName, proven: AuthName },

    // Opening and resuming sessions.
    #[error("none of its addresses ({0}) can be dialled with msgr v2")]
    NotDialable(EntityAddrVec),
    #[error("it is {0}, which does not include the address dialled")]
    OtherPeer(EntityAddrVec),
    #[error("wants to reach {target}, but this is {own}")]
    OtherTarget { target: EntityAddr, own: EntityAddrVec },
    #[error("peer gives no address")]
    NoAddress,
    #[error("{0} cannot be dialled back")]
    NotDialableBack(EntityAddrVec),
    #[error("it lacks required features {0:#x}")]
    PeerLacks(u64),
    #[error("it requires features that we lack: {0:#x}")]
    WeLack(u64),
    #[error("features {here:#x} missing here, {there:#x} there")]
    BothLack { here: u64, there: u64 },
    /// In answer to what we told of ourselves.
    #[error("peer requires features that we lack: {0:#x}")]
    RefusedForFeatures(u64),
    #[error("lossless session without a cookie")]
    NoCookie,
    #[error("peer wants a lossless session without agreeing on one")]
    LosslessUnasked,
    #[error("peer opened a session where one was to be resumed")]
    OpenedInsteadOfResumed,
    #[error("peer does not know the session any more")]
    Forgotten,
    #[error("peer asks to retry an attempt that was not late")]
    RetryUnasked,

    // The end of sessions that stand.
    #[error("the connection's key is worn: another connection takes its place")]
    Worn,
    #[error("told to wait for its own connection")]
    ToldToWait,
    #[error("replaced by a lossless session")]
    ReplacedByLossless,
    #[error("replaced by a newer session of the same client")]
    ReplacedByNewer,
    #[error("peer began a new session")]
    BegunAnew,
    /// The bytes are those of front and data.
    #[error("message of type {} ({kind:#x}) of {front} and {data} bytes is too long", kind_name(*.kind))]
    MessageTooLong { kind: u16, front: usize, data: usize },
}

impl Cause {
    /// Tells whether the peer sent what the protocol does not allow. Damage on the way and the end of a transport are
    /// none of that.
    pub fn is_breach(&self) -> bool {
        match self {
            Cause::Frame(error) => !error.is_damage(),
            Cause::Decode(_) | Cause::Acknowledgement(_) | Cause::MessageNumber { .. } => true,
            _ => false,
        }
    }
}

fn result_text(result: i32) -> String {
    Errno::from_result(result).map_or_else(|| format!("result {result}"), |errno| errno.to_string())
}

impl From<FrameError> for Cause {
    fn from(error: FrameError) -> Cause {
        Cause::Frame(error)
    }
}

impl From<DecodeError> for Cause {
    fn from(error: DecodeError) -> Cause {
        Cause::Decode(error)
    }
}

impl From<AckError> for Cause {
    fn from(error: AckError) -> Cause {
        Cause::Acknowledgement(error)
    }
}

/// The other end of a session, or of a connection that has none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OtherEnd {
    Session {
        name: EntityName,
        addr: EntityAddr,
    },
    /// `name`: as the peer has authenticated, if it has come so far.
    Connection {
        addr: SocketAddr,
        name: Option<AuthName>,
    },
}

impl fmt::Display for OtherEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OtherEnd::Session { name, addr } => write!(f, "{name} at {addr}"),
            OtherEnd::Connection { addr, name: None } => write!(f, "connection from {addr}"),
            OtherEnd::Connection { addr, name: Some(name) } => write!(f, "connection from {addr} ({name})"),
        }
    }
}

/// A cause and the peer that it concerns. Displayed, it is a line for logs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reason {
    pub peer: OtherEnd,
    pub cause: Cause,
}

impl Reason {
    /// Tells whether the peer's machine answers, and nobody listens there.
    pub fn is_refusal(&self) -> bool {
        self.cause == Cause::Transport(TransportLoss::Refused)
    }

    /// The address of the peer's machine; `None` if it is of no network.
    pub fn machine(&self) -> Option<IpAddr> {
        match &self.peer {
            OtherEnd::Session { addr, .. } => addr.ip(),
            OtherEnd::Connection { addr, .. } => Some(addr.ip()),
        }
    }
}

/// Machines of which a log tells already that they do not keep to the protocol. A client of another kind may be cut off
/// many times a second: a line for each end of a session would bury the rest of the log.
#[derive(Debug, Default)]
pub struct BreachesTold {
    machines: VecDeque<IpAddr>,
}

impl BreachesTold {
    /// Most machines that are remembered. The one told of first is forgotten first.
    pub const MACHINES_MAX: usize = 64;

    /// Tells whether a session or connection ended for a breach of the protocol, by a machine of which nothing was told
    /// yet; notes that machine.
    pub fn is_news(&mut self, reason: &Reason) -> bool {
        let Some(machine) = reason.machine().filter(|_| reason.cause.is_breach()) else { return false };
        if self.machines.contains(&machine) {
            return false;
        }
        if self.machines.len() == BreachesTold::MACHINES_MAX {
            self.machines.pop_front();
        }
        self.machines.push_back(machine);
        true
    }
}

/// Peers that were turned away and told of, by machine. Somebody who comes again and again, or many times at once,
/// would bury the rest of a log.
#[derive(Debug, Default)]
pub struct RefusalsTold {
    /// Each with the begin of its minute, and the lines in it.
    machines: VecDeque<(IpAddr, Duration, u32)>,
}

impl RefusalsTold {
    /// Most lines about a machine in a minute.
    pub const LINES_MAX: u32 = 10;
    const MINUTE: Duration = Duration::from_secs(60);

    /// Tells whether the log is to have a line about a peer at this address; counts that line.
    pub fn is_news(&mut self, from: Option<IpAddr>, now: Duration) -> bool {
        self.machines.retain(|(_, begin, _)| now < *begin + RefusalsTold::MINUTE);
        let Some(machine) = from.map(machine_of) else { return true };
        if let Some((_, _, lines)) = self.machines.iter_mut().find(|(known, ..)| *known == machine) {
            *lines += 1;
            return *lines <= RefusalsTold::LINES_MAX;
        }
        if self.machines.len() == BreachesTold::MACHINES_MAX {
            return false;
        }
        self.machines.push_back((machine, now, 1));
        true
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.peer, self.cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(cause: Cause) -> Reason {
        let peer = OtherEnd::Session { name: EntityName::osd(types::OsdId(1)), addr: EntityAddr::BLANK };
        Reason { peer, cause }
    }

    #[test]
    fn a_refusal_is_told_by_its_type_and_not_by_its_words() {
        let refused = reason(Cause::Transport((&io::Error::from(io::ErrorKind::ConnectionRefused)).into()));
        assert!(refused.is_refusal());
        assert!(refused.to_string().ends_with(": connection refused"), "{refused}");
        let reset = io::Error::from(io::ErrorKind::ConnectionReset);
        assert!(!reason(Cause::Transport((&reset).into())).is_refusal());
        assert!(!reason(Cause::Transport("the request was refused".into())).is_refusal());
        let method = Cause::MethodRefused { method: 2, result: -95, methods: vec![1], modes: vec![1] };
        let text = reason(method.clone()).to_string();
        assert!(text.contains("method 2 refused: ") && text.contains("methods [1] with modes [1]"), "{text}");
        assert!(!reason(method).is_refusal());
    }

    fn ended_at(address: &str, cause: Cause) -> Reason {
        Reason { peer: OtherEnd::Connection { addr: address.parse().unwrap(), name: None }, cause }
    }

    #[test]
    fn refusals_are_told_a_few_times_a_minute_for_each_machine() {
        let mut told = RefusalsTold::default();
        let mut lines = |address: &str, second: u64| {
            let (from, now) = (Some(address.parse().unwrap()), Duration::from_secs(second));
            (0..100).filter(|_| told.is_news(from, now)).count() as u32
        };
        assert_eq!((lines("10.0.0.1", 5), lines("10.0.0.2", 6)), (RefusalsTold::LINES_MAX, RefusalsTold::LINES_MAX));
        assert_eq!((lines("10.0.0.1", 64), lines("10.0.0.1", 65)), (0, RefusalsTold::LINES_MAX));
        let all: u32 = (0..=255).map(|number| lines(&format!("10.1.0.{number}"), 66)).sum();
        assert!(all < BreachesTold::MACHINES_MAX as u32 * RefusalsTold::LINES_MAX, "{all}");
    }

    #[test]
    fn breaches_are_told_once_for_each_machine() {
        let breach = |address: &str| ended_at(address, Cause::Frame(FrameError::Tag(77)));
        let mut told = BreachesTold::default();
        assert!(told.is_news(&breach("10.0.0.1:5000")) && !told.is_news(&breach("10.0.0.1:5001")));
        assert!(told.is_news(&breach("[2001:db8::1]:1")));
        let damage = FrameError::Checksum { what: "preamble", stored: 1, computed: 2 };
        for cause in [Cause::Frame(damage), Cause::Transport("reset".into()), Cause::ReplacedByNewer] {
            assert!(!told.is_news(&ended_at("10.0.0.2:1", cause)));
        }
        for number in 0..BreachesTold::MACHINES_MAX {
            assert!(told.is_news(&breach(&format!("10.1.0.{number}:1"))));
        }
        assert!(!told.is_news(&breach("10.1.0.0:1")) && told.is_news(&breach("10.0.0.1:1")), "the oldest is forgotten");
        assert_eq!(told.machines.len(), BreachesTold::MACHINES_MAX);
    }
}
