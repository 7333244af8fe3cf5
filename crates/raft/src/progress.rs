//! A leader's knowledge of one other member.

use crate::Snapshot;
use std::collections::VecDeque;
use std::time::Duration;

/// One follower, as its leader sees it.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Index up to which its log is the leader's, durably.
    pub matched: u64,
    /// Index of the entry to be sent next.
    pub next: u64,
    pub pace: Pace,
    /// Time at which something was last sent to it.
    pub last_sent: Option<Duration>,
    /// Time at which the newest of the leader's messages that it has answered was sent.
    pub answered: Option<Duration>,
    /// The commit index it was last told.
    pub commit_told: u64,
}

/// The way in which entries are sent.
#[derive(Debug)]
pub(crate) enum Pace {
    /// The leader looks for the place where the logs meet: one message at a time.
    Probe { asked: bool },
    /// Messages follow each other without waiting. Holds the last index of each one on its way that brings entries.
    Stream { in_flight: VecDeque<u64> },
    /// The member lacks entries that the log no longer has. `asked`: the `sent` of the last chunk or question; `None`
    /// if it was answered.
    Snapshot { snapshot: Snapshot, received: u64, asked: Option<u64> },
}

impl Progress {
    /// Makes the progress of a member of which nothing is known yet, to be tried with the entry at `next`.
    pub fn new(next: u64) -> Progress {
        Progress {
            matched: 0,
            next,
            pace: Pace::Probe { asked: false },
            last_sent: None,
            answered: None,
            commit_told: 0,
        }
    }

    /// Notes that its log matches up to `index`.
    pub fn matches(&mut self, index: u64) {
        self.matched = self.matched.max(index);
        self.next = self.next.max(self.matched + 1);
        match &mut self.pace {
            Pace::Stream { in_flight } => in_flight.retain(|last| *last > index),
            Pace::Probe { .. } => self.pace = Pace::Stream { in_flight: VecDeque::new() },
            Pace::Snapshot { snapshot, .. } if self.matched >= snapshot.last.index => {
                self.pace = Pace::Stream { in_flight: VecDeque::new() };
            }
            Pace::Snapshot { .. } => {}
        }
    }

    /// Notes that it does not have the entry at `prev`, and nothing of the leader's behind `last`.
    pub fn refuses(&mut self, prev: u64, last: u64) {
        let is_old = prev <= self.matched || matches!(self.pace, Pace::Snapshot { .. });
        if is_old {
            return;
        }
        self.next = prev.min(last.saturating_add(1)).max(self.matched + 1);
        self.pace = Pace::Probe { asked: false };
    }

    pub fn answered(&mut self, sent: Duration) {
        self.answered = self.answered.max(Some(sent));
    }
}
