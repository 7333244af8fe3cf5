//! A disk that takes its time.

use super::rng::Rng;
use crate::{Persist, Stored, Ticket};
use std::collections::VecDeque;

#[derive(Debug, Default)]
pub struct Disk {
    pub stored: Stored,
    queue: VecDeque<(Ticket, Persist)>,
    /// Time at which the last write of the queue is done.
    pub busy_until: u64,
}

impl Disk {
    pub fn new(stored: Stored) -> Disk {
        Disk { stored, ..Disk::default() }
    }

    pub fn submit(&mut self, ticket: Ticket, write: Persist) {
        self.queue.push_back((ticket, write));
    }

    /// Completes the write `ticket`, and those before it.
    pub fn done(&mut self, ticket: Ticket) {
        while let Some((_, write)) = self.queue.pop_front_if(|(of, _)| *of <= ticket) {
            self.stored.apply(write);
        }
    }

    /// Ends the process: some of the writes under way were done, and the next may have been torn.
    pub fn crash(&mut self, rng: &mut Rng) {
        for _ in 0..rng.below(self.queue.len() as u64 + 1) {
            let (_, write) = self.queue.pop_front().expect("it is in the queue");
            self.stored.apply(write);
        }
        if let Some((_, Persist::Entries(mut entries))) = self.queue.pop_front() {
            let whole = rng.below(entries.len() as u64 + 1) as usize;
            entries.truncate(whole);
            if !entries.is_empty() {
                self.stored.apply(Persist::Entries(entries));
            }
        }
        self.queue.clear();
        self.busy_until = 0;
    }
}
