//! What clients asked for and what they were answered.

use crate::content::OpId;
use crate::model::{Change, Shown, State};
use std::fmt;
use std::time::Duration;
use types::Errno;

/// How an object is used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Usage {
    /// Changed in all ways.
    Register,
    /// Only appended to, and read.
    Log,
    /// Becomes a copy of the log with the same number, again and again.
    Copy,
}

/// One of the workload's objects.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ObjectName {
    pub usage: Usage,
    pub index: u8,
}

impl ObjectName {
    /// Every other object lies in a namespace of its own kind.
    pub fn nspace(self) -> &'static [u8] {
        if self.index.is_multiple_of(2) { b"" } else { b"other" }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.usage {
            Usage::Register => write!(f, "register-{}", self.index),
            Usage::Log => write!(f, "log-{}", self.index),
            Usage::Copy => write!(f, "copy-{}", self.index),
        }
    }
}

/// What is asked of an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ask {
    /// Everything about the object at one moment.
    Read,
    /// The same as it was at a snapshot.
    ReadAt(u64),
    Change(Vec<Change>),
}

/// What came back.
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
    /// A read that any member may answer: it may go past what its client has asked for before.
    pub balanced: bool,
    /// World time. A client's operations are in the order in which it asked.
    pub asked_at: Duration,
    /// `None`: never answered, so it may have happened or may still happen.
    pub answer: Option<(Duration, Answer)>,
}

impl Operation {
    /// Whether it may have ended without having done anything, whatever there was: what it copies could not be read in
    /// time.
    pub fn ran_out_of_time(&self) -> bool {
        matches!(self.answer, Some((_, Answer::Failed(Errno::ETIMEDOUT))))
    }

    pub fn is_change(&self) -> bool {
        matches!(self.ask, Ask::Change(_))
    }

    /// Whether it was over before `other` began.
    pub fn is_before(&self, other: &Operation) -> bool {
        self.answer.as_ref().is_some_and(|(at, _)| *at < other.asked_at)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} of client {} on {}: ", self.id, self.client, self.object)?;
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
