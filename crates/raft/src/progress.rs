//! What a leader knows of one other member.

use crate::Snapshot;
use std::collections::VecDeque;
use std::time::Duration;

/// One follower, as its leader sees it.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Its log is the leader's up to here, durably.
    pub matched: u64,
    /// The entry to be sent next.
    pub next: u64,
    pub pace: Pace,
    /// When something was last sent to it.
    pub last_sent: Option<Duration>,
    /// When the newest of the leader's words that it has answered was sent.
    pub answered: Option<Duration>,
    /// The commit index it was last told.
    pub commit_told: u64,
}

/// How entries are sent.
#[derive(Debug)]
pub(crate) enum Pace {
    /// Where its log meets the leader's is being found out: one message at a time.
    Probe { asked: bool },
    /// Messages follow each other without waiting. Holds the last index of each one on its way that brings entries.
    Stream { in_flight: VecDeque<u64> },
    /// It lacks what the log no longer has. `asked`: what the last chunk or question was sent with; `None` if it was answered.
    Snapshot { snapshot: Snapshot, received: u64, asked: Option<u64> },
}

impl Progress {
    /// Somebody of whom nothing is known yet, to be tried with the entry at `next`.
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

    /// Its log is known to match up to `index`.
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

    /// It does not have the entry at `prev`, and nothing of the leader's behind `last`.
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
