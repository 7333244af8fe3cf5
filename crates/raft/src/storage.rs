//! Content of a server's disk.

use crate::{Entry, Position, ServerId, Snapshot};

/// Name of a write; tickets are counted up, and writes carried out in their order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Ticket(pub u64);

/// The newest term a server knows, and the server that it voted for in it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Vote {
    pub term: u64,
    pub voted_for: Option<ServerId>,
}

/// One write. Writes take effect in the order of their tickets, each as a whole or, for entries, up to one of them: a
/// later one is never on the disk without those before it.
#[derive(Clone, PartialEq, Debug)]
pub enum Persist {
    Vote(Vote),
    /// Entries with consecutive indices. They replace everything from the first one's index on. Never empty.
    Entries(Vec<Entry>),
    /// Replaces the snapshot before. Of the log, entries from `keep_from` on stay; `None`: none stay.
    Snapshot {
        snapshot: Snapshot,
        keep_from: Option<u64>,
    },
}

/// Content of the disk when the server started.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Stored {
    pub vote: Vote,
    /// `None` on a server that has never had anything.
    pub snapshot: Option<Snapshot>,
    /// Entries with consecutive indices; those that the snapshot stands for may be among them.
    pub entries: Vec<Entry>,
}

/// Reason why the content of the disk cannot be a server's.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StoredError {
    #[error("the log's entry {found} follows {before}")]
    Order { before: Position, found: Position },
    #[error("the log begins at {found}, but the snapshot ends at {snapshot}")]
    Gap { snapshot: Position, found: Position },
    #[error("the log has an entry of term {entry}, but the newest term known is {term}")]
    Term { entry: u64, term: u64 },
}

impl Stored {
    /// Returns the disk of a first member of a new cluster.
    pub fn first(snapshot: Snapshot) -> Stored {
        let vote = Vote { term: snapshot.last.term, voted_for: None };
        Stored { vote, snapshot: Some(snapshot), entries: Vec::new() }
    }

    /// Carries out one write, as a disk does.
    pub fn apply(&mut self, write: Persist) {
        match write {
            Persist::Vote(vote) => self.vote = vote,
            Persist::Entries(entries) => {
                if let Some(first) = entries.first() {
                    self.entries.retain(|entry| entry.position.index < first.position.index);
                }
                self.entries.extend(entries);
            }
            Persist::Snapshot { snapshot, keep_from } => {
                self.entries.retain(|entry| keep_from.is_some_and(|from| entry.position.index >= from));
                self.snapshot = Some(snapshot);
            }
        }
    }

    pub(crate) fn check(&self) -> Result<(), StoredError> {
        let snapshot = self.snapshot.as_ref().map_or(Position::default(), |snapshot| snapshot.last);
        if let Some(first) = self.entries.first().filter(|first| first.position.index > snapshot.index + 1) {
            return Err(StoredError::Gap { snapshot, found: first.position });
        }
        for pair in self.entries.windows(2) {
            let (before, found) = (pair[0].position, pair[1].position);
            if found.index != before.index + 1 || found.term < before.term {
                return Err(StoredError::Order { before, found });
            }
        }
        let at_end = self.entries.iter().find(|entry| entry.position.index == snapshot.index);
        if let Some(entry) = at_end.filter(|entry| entry.position != snapshot) {
            return Err(StoredError::Order { before: snapshot, found: entry.position });
        }
        let behind = self.entries.iter().find(|entry| entry.position.index > snapshot.index);
        if let Some(entry) = behind.filter(|entry| entry.position.term < snapshot.term) {
            return Err(StoredError::Order { before: snapshot, found: entry.position });
        }
        let newest = self.entries.last().map_or(0, |entry| entry.position.term).max(snapshot.term);
        if newest > self.vote.term {
            return Err(StoredError::Term { entry: newest, term: self.vote.term });
        }
        Ok(())
    }
}
