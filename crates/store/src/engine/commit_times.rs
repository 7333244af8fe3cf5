//! Times of the last turns on their way to becoming durable, for measurements of where an operation's time went.

use crate::{Store, Ticket};
use std::collections::VecDeque;
use std::time::Duration;

/// Number of turns remembered. Callers take events at least once per turn of their loop, in which few turns become
/// durable.
const TURNS_KEPT: usize = 16;

/// The times of one turn, as [`Store::set_time`] and [`Store::handed_over`] gave them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CommitTimes {
    /// Time at which the turn's writes went to the device. Before that, the turn waited for earlier turns or for
    /// metadata.
    pub handed_over: Duration,
    /// Time at which the turn's data and log record were written.
    pub written: Duration,
    /// Time at which the flush behind the turn's writes was done.
    pub durable: Duration,
}

/// The turns that became durable last, by their last tickets.
#[derive(Debug, Default)]
pub(crate) struct CommitLog(VecDeque<(Ticket, CommitTimes)>);

impl CommitLog {
    pub fn push(&mut self, last: Ticket, times: CommitTimes) {
        if self.0.len() == TURNS_KEPT {
            self.0.pop_front();
        }
        self.0.push_back((last, times));
    }
}

impl Store {
    /// Sets the time. [`Store::commit_times`] depends on it, and how long transactions wait for others.
    pub fn set_time(&mut self, now: Duration) {
        self.now = now;
    }

    /// Returns the times of the turn whose last transaction is `ticket`, as [`crate::StoreEvent::Committed`] names it;
    /// `None` if too many turns have become durable since.
    pub fn commit_times(&self, ticket: Ticket) -> Option<CommitTimes> {
        self.commit_log.0.iter().rev().find(|(last, _)| *last == ticket).map(|(_, times)| *times)
    }
}
