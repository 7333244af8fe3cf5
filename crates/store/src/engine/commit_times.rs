//! When the turns that were made durable lately took their steps towards it: for whoever wants to know where the time of
//! an operation went.

use crate::{Store, Ticket};
use std::collections::VecDeque;
use std::time::Duration;

/// Turns remembered. Events are taken at least once per turn of the caller's loop, in which few turns become durable.
const TURNS_KEPT: usize = 16;

/// The steps of one turn, in times as [`Store::set_time`] and [`Store::handed_over`] had them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CommitTimes {
    /// Its writes went to the device. Before, it waited for earlier turns or for metadata.
    pub handed_over: Duration,
    /// Data and log record are written.
    pub written: Duration,
    /// The flush behind them is done.
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
    /// Tells what time it is. Nothing depends on it but what [`Store::commit_times`] says.
    pub fn set_time(&mut self, now: Duration) {
        self.now = now;
    }

    /// The times of the turn whose last transaction is `ticket`, as [`crate::StoreEvent::Committed`] names it; `None` if
    /// too many have become durable since.
    pub fn commit_times(&self, ticket: Ticket) -> Option<CommitTimes> {
        self.commit_log.0.iter().rev().find(|(last, _)| *last == ticket).map(|(_, times)| *times)
    }
}
