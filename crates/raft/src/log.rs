//! The log in memory: entries behind a base, with the memberships among them.

use crate::bug::{self, Bug};
use crate::{Entry, Membership, Payload, Position};
use std::collections::VecDeque;

/// Entries with consecutive indices behind `base`.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    base: Position,
    entries: VecDeque<Entry>,
    bytes: usize,
    /// The membership at the base, then those of entries, by index.
    memberships: VecDeque<(u64, Membership)>,
}

impl Log {
    pub fn new(base: Position, membership: Membership) -> Log {
        Log { base, entries: VecDeque::new(), bytes: 0, memberships: [(base.index, membership)].into() }
    }

    /// Returns the position before the first entry.
    pub fn base(&self) -> Position {
        self.base
    }

    pub fn last(&self) -> Position {
        self.entries.back().map_or(self.base, |entry| entry.position)
    }

    /// Returns the memory of the entries.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the position at `index`, if it is known: at the base or behind it.
    pub fn at(&self, index: u64) -> Option<Position> {
        if index == self.base.index {
            return Some(self.base);
        }
        self.get(index).map(|entry| entry.position)
    }

    pub fn get(&self, index: u64) -> Option<&Entry> {
        let offset = index.checked_sub(self.base.index + 1)?;
        self.entries.get(usize::try_from(offset).ok()?)
    }

    /// Returns entries from `from` on: one at least if there is one, more while they take no more than `bytes_max`.
    pub fn from(&self, from: u64, bytes_max: usize) -> Vec<Entry> {
        let mut bytes = 0;
        let mut entries = Vec::new();
        let mut index = from;
        while let Some(entry) = self.get(index) {
            bytes += entry.bytes();
            if !entries.is_empty() && bytes > bytes_max {
                break;
            }
            entries.push(entry.clone());
            index += 1;
        }
        entries
    }

    /// Returns all entries from `from` on.
    pub fn tail(&self, from: u64) -> Vec<Entry> {
        self.from(from, usize::MAX)
    }

    /// Returns the entries from `from` to `to`, both included.
    pub fn range(&self, from: u64, to: u64) -> Vec<Entry> {
        (from..=to).map_while(|index| self.get(index).cloned()).collect()
    }

    pub fn push(&mut self, entry: Entry) {
        let last = self.last();
        assert!(
            entry.position.index == last.index + 1 && entry.position.term >= last.term,
            "entry {} cannot follow {last}",
            entry.position
        );
        if let Payload::Membership(membership) = &entry.payload {
            self.memberships.push_back((entry.position.index, membership.clone()));
        }
        self.bytes += entry.bytes();
        self.entries.push_back(entry);
    }

    /// Removes the entries from `from` on, and the memberships they brought.
    pub fn truncate(&mut self, from: u64) {
        while self.entries.back().is_some_and(|entry| entry.position.index >= from) {
            let entry = self.entries.pop_back().expect("there is a last one");
            self.bytes -= entry.bytes();
        }
        while self.memberships.len() > 1 && self.memberships.back().is_some_and(|(at, _)| *at >= from) {
            if bug::is(Bug::MembershipKept) {
                break;
            }
            self.memberships.pop_back();
        }
    }

    /// Forgets the entries up to `through`.
    pub fn compact(&mut self, through: u64) {
        while self.entries.front().is_some_and(|entry| entry.position.index <= through) {
            let entry = self.entries.pop_front().expect("there is a first one");
            self.bytes -= entry.bytes();
            self.base = entry.position;
        }
        while self.memberships.get(1).is_some_and(|(at, _)| *at <= self.base.index) {
            self.memberships.pop_front();
        }
    }

    /// Returns the present members: those of the last entry with members, committed or not.
    pub fn membership(&self) -> &Membership {
        &self.memberships.back().expect("the base has one").1
    }

    /// Returns the index of the entry that brought the present members.
    pub fn membership_index(&self) -> u64 {
        self.memberships.back().expect("the base has one").0
    }

    /// Returns the members at `index`, which is not before the base.
    pub fn membership_at(&self, index: u64) -> &Membership {
        let found = self.memberships.iter().rev().find(|(at, _)| *at <= index);
        &found.unwrap_or_else(|| panic!("members at {index}, but the log begins at {}", self.base)).1
    }

    /// Returns the greatest index such that the entries behind it take no more than `bytes_max`.
    pub fn index_before_last_bytes(&self, bytes_max: usize) -> u64 {
        let mut bytes = 0;
        for entry in self.entries.iter().rev() {
            bytes += entry.bytes();
            if bytes > bytes_max {
                return entry.position.index;
            }
        }
        self.base.index
    }
}
