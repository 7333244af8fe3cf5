//! A monitor's log on a simulated disk.

use auth::Key;
use mon::log::{Identity, Loaded};
use raft::{Persist, Stored, Ticket};
use reactor::sim::Rng;
use std::collections::VecDeque;

/// A disk that keeps finished writes when its process dies, and each unfinished one by chance.
#[derive(Clone, Debug)]
pub struct MonLog {
    identity: Identity,
    kept: Stored,
    /// Orders under way, in their order. The first is being written.
    orders: VecDeque<(Ticket, Persist)>,
    /// Keys of the monitor's keyring. Empty: those that it was started with.
    pub(crate) keyring: Vec<Key>,
}

impl MonLog {
    pub fn new(identity: Identity, stored: Stored) -> MonLog {
        MonLog { identity, kept: stored, orders: VecDeque::new(), keyring: Vec::new() }
    }

    /// The content that is kept.
    pub fn load(&self) -> Loaded {
        Loaded { identity: self.identity.clone(), stored: self.kept.clone() }
    }

    pub(crate) fn begin(&mut self, ticket: Ticket, write: Persist) {
        self.orders.push_back((ticket, write));
    }

    pub(crate) fn is_writing(&self) -> bool {
        !self.orders.is_empty()
    }

    /// Makes the first order durable.
    pub(crate) fn finish_first(&mut self) -> Option<Ticket> {
        let (ticket, write) = self.orders.pop_front()?;
        self.kept.apply(write);
        Some(ticket)
    }

    /// Ends the process. Orders under way are kept or not: each as a whole, and none without those before it.
    pub(crate) fn crash(mut self, rng: &mut Rng) -> MonLog {
        for _ in 0..rng.below(self.orders.len() as u64 + 1) {
            self.finish_first();
        }
        self.orders.clear();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raft::{ServerId, Vote};
    use types::Fsid;

    #[test]
    fn a_crash_keeps_a_prefix_of_what_was_under_way() {
        let mut kept = std::collections::BTreeSet::new();
        for seed in 0..40 {
            let identity = Identity { fsid: Fsid([7; 16]), name: "a".to_owned(), server: ServerId(1) };
            let mut log = MonLog::new(identity, Stored::default());
            for term in 1..=3 {
                log.begin(Ticket(term), Persist::Vote(Vote { term, voted_for: None }));
            }
            assert_eq!(log.finish_first(), Some(Ticket(1)));
            kept.insert(log.crash(&mut Rng::new(seed)).load().stored.vote.term);
        }
        assert_eq!(kept.into_iter().collect::<Vec<_>>(), [1, 2, 3]);
    }
}
