//! Clients' operations and their answers.

use crate::content::OpId;
use crate::model::{Change, Shown, State};
use std::fmt;
use std::time::Duration;
use types::Errno;

/// The way in which an object is used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Usage {
    /// The object is changed in all ways.
    Register,
    /// The object is only appended to and read.
    Log,
    /// The object becomes a copy of the log with its number, again and again.
    Copy,
}

/// Registers from this number on have the longest names that there may be.
pub const LONG_NAMES_FROM: u8 = 200;
const NAME_BYTES_MAX: usize = 2048;

/// One of the workload's objects.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ObjectName {
    pub usage: Usage,
    pub index: u8,
}

impl ObjectName {
    /// The object's namespace: every other object lies in another one.
    pub fn nspace(self) -> &'static [u8] {
        if self.index.is_multiple_of(2) { b"" } else { b"other" }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.usage {
            Usage::Register if self.index >= LONG_NAMES_FROM => write!(f, "{:_<NAME_BYTES_MAX$}", self.index),
            Usage::Register => write!(f, "register-{}", self.index),
            Usage::Log => write!(f, "log-{}", self.index),
            Usage::Copy => write!(f, "copy-{}", self.index),
        }
    }
}

/// A request for an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ask {
    /// Reads everything about the object at one moment.
    Read,
    /// Reads everything about the object at a snapshot.
    ReadAt(u64),
    Change(Vec<Change>),
}

/// The answer to a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    Seen(State),
    Done,
    Failed(Errno),
}

/// One operation of one client.
#[derive(Clone, Debug)]
pub struct Operation {
    pub id: OpId,
    pub client: u64,
    pub object: ObjectName,
    pub ask: Ask,
    /// A read that any member may answer. It may overtake earlier requests of its client.
    pub balanced: bool,
    /// Time of the request, in world time. A client's operations have the order in which it asked.
    pub asked_at: Duration,
    /// Time of the answer, and the answer. `None`: there was none, so the operation may have happened or may still
    /// happen.
    pub answer: Option<(Duration, Answer)>,
}

impl Operation {
    /// True if the operation may have ended without an effect, whatever the state was, because the object that it
    /// copies could not be read in time.
    pub fn ran_out_of_time(&self) -> bool {
        matches!(self.answer, Some((_, Answer::Failed(Errno::ETIMEDOUT))))
    }

    /// True if the operation may have ended without an effect because an object that it reads is too large.
    pub fn found_too_much(&self) -> bool {
        let reads = |change: &Change| change.copies() || matches!(change, Change::Peek { .. });
        let may_read = matches!(&self.ask, Ask::Change(changes) if changes.iter().any(reads));
        may_read && matches!(self.answer, Some((_, Answer::Failed(Errno::EMSGSIZE))))
    }

    pub fn is_change(&self) -> bool {
        matches!(self.ask, Ask::Change(_))
    }

    /// True for a change that was refused for its own size, whatever the object is. An OSD may refuse it at once, while
    /// earlier changes of the same client wait.
    pub fn is_refused_by_size(&self) -> bool {
        let Ask::Change(changes) = &self.ask else { return false };
        changes.contains(&Change::TooMuch) && matches!(self.answer, Some((_, Answer::Failed(Errno::EMSGSIZE))))
    }

    /// True if the operation was over before `other` began.
    pub fn is_before(&self, other: &Operation) -> bool {
        self.answer.as_ref().is_some_and(|(at, _)| *at < other.asked_at)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} of client {} on {:.20}: ", self.id, self.client, self.object.to_string())?;
        match &self.ask {
            Ask::Read if self.balanced => write!(f, "read of any member")?,
            Ask::Read => write!(f, "read")?,
            Ask::ReadAt(snap) => write!(f, "read at snapshot {snap}")?,
            Ask::Change(changes) => write!(f, "{changes:?}")?,
        }
        write!(f, ", asked at {:.6}", self.asked_at.as_secs_f64())?;
        match &self.answer {
            None => write!(f, ", never answered"),
            Some((at, Answer::Seen(state))) => write!(f, ", at {:.6} saw {}", at.as_secs_f64(), Shown(state)),
            Some((at, Answer::Done)) => write!(f, ", done at {:.6}", at.as_secs_f64()),
            Some((at, Answer::Failed(errno))) => write!(f, ", failed at {:.6}: {errno}", at.as_secs_f64()),
        }
    }
}
