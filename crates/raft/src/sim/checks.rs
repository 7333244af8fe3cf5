//! Invariants of a run. Each check is a sentence; its error says how it is violated.

use super::disk::Disk;
use super::machine::{Machine, hash_of};
use crate::{Entry, Membership, Payload, Position, Raft, ReadId, ServerId, Snapshot};
use std::collections::BTreeMap;

/// Knowledge of the run so far.
#[derive(Default)]
pub struct Checks {
    /// The leader of each term.
    leaders: BTreeMap<u64, ServerId>,
    /// Decided entries: by index, the position and the state machine after it.
    history: BTreeMap<u64, (Position, Machine)>,
    /// Entries made: by position, a hash of the payload and the position before it.
    made: BTreeMap<Position, (u64, Position)>,
    /// The decided index when each read was asked.
    reads: BTreeMap<ReadId, u64>,
    /// The members last decided, and their index.
    members: (u64, Membership),
    /// Servers that were members and are none any more.
    removed: Vec<ServerId>,
}

impl Checks {
    pub fn begin(&mut self, snapshot: &Snapshot, machine: Machine) {
        self.history.insert(snapshot.last.index, (snapshot.last, machine));
        self.members = (snapshot.last.index, snapshot.membership.clone());
    }

    /// Returns the index up to which the cluster has decided.
    pub fn decided(&self) -> u64 {
        self.history.last_key_value().map_or(0, |(index, _)| *index)
    }

    pub fn elections(&self) -> u64 {
        self.leaders.len() as u64
    }

    pub fn removed(&self) -> &[ServerId] {
        &self.removed
    }

    pub fn members(&self) -> &(u64, Membership) {
        &self.members
    }

    /// A read that is asked now must see everything that is decided now.
    pub fn asks(&mut self, read: ReadId) {
        self.reads.insert(read, self.decided());
    }

    pub fn fails(&mut self, read: ReadId) {
        self.reads.remove(&read);
    }

    /// No read misses an entry that was decided before it was asked.
    pub fn answers(&mut self, id: ServerId, read: ReadId, machine: Machine) -> Result<(), String> {
        let Some(floor) = self.reads.remove(&read) else {
            return Err(format!("{id} answers {read:?} that nobody asks"));
        };
        if machine.applied < floor {
            return Err(format!(
                "stale read: {id} answers from {}, but {floor} was decided before it was asked",
                machine.applied
            ));
        }
        Ok(())
    }

    /// All state machines take equal entries, and only entries that their own disk will still have after a crash.
    pub fn applies(&mut self, id: ServerId, entry: &Entry, machine: Machine, disk: &Disk) -> Result<(), String> {
        let index = entry.position.index;
        let known = *self.history.entry(index).or_insert((entry.position, machine));
        if known != (entry.position, machine) {
            return Err(format!(
                "state machines differ: {id} takes {} at {index}, another took {}",
                entry.position, known.0
            ));
        }
        if let Payload::Membership(members) = &entry.payload
            && index > self.members.0
        {
            let gone = self.members.1.members().filter(|id| !members.contains(*id));
            self.removed.extend(gone);
            self.members = (index, members.clone());
        }
        let in_snapshot = disk.stored.snapshot.as_ref().is_some_and(|snapshot| snapshot.last.index >= index);
        if !in_snapshot && !disk.stored.entries.iter().rev().any(|stored| stored.position == entry.position) {
            return Err(format!("{id} applies {} which is not on its disk", entry.position));
        }
        Ok(())
    }

    /// A snapshot is the state that every server had there.
    pub fn installs(&self, id: ServerId, snapshot: &Snapshot, machine: Machine) -> Result<(), String> {
        match self.history.get(&snapshot.last.index) {
            Some(known) if *known == (snapshot.last, machine) => Ok(()),
            known => Err(format!("{id} installs a snapshot at {}, where the state was {known:?}", snapshot.last)),
        }
    }

    /// Checks a server after each of its steps.
    pub fn server(&mut self, raft: &Raft, disk: &Disk) -> Result<(), String> {
        if raft.is_leader() {
            let leader = *self.leaders.entry(raft.term()).or_insert_with(|| raft.id());
            if leader != raft.id() {
                return Err(format!("two leaders in term {}: {leader} and {}", raft.term(), raft.id()));
            }
            if raft.last().term == raft.term() && raft.last().index == raft.log_range().1 {
                self.leader_is_complete(raft)?;
            }
        }
        let bytes = raft.log_bytes();
        if bytes > 40_000 {
            return Err(format!("{}'s log takes {bytes} bytes", raft.id()));
        }
        if disk.stored.vote.term > raft.term() {
            return Err(format!("{} is in term {}, its disk in {}", raft.id(), raft.term(), disk.stored.vote.term));
        }
        Ok(())
    }

    /// The leader of the newest term has everything that is decided.
    fn leader_is_complete(&self, raft: &Raft) -> Result<(), String> {
        if self.leaders.last_key_value().is_some_and(|(term, _)| *term > raft.term()) {
            return Ok(());
        }
        let (base, _) = raft.log_range();
        let missing = self
            .history
            .range(base.max(1)..)
            .rev()
            .take(30)
            .find(|(index, (position, _))| raft.position(**index) != Some(*position));
        match missing {
            None => Ok(()),
            Some((index, (position, _))) => Err(format!(
                "{} leads term {} without {position} (it has {:?})",
                raft.id(),
                raft.term(),
                raft.position(*index)
            )),
        }
    }

    /// Two logs with an entry at the same position are equal up to there: each position was made once, behind one
    /// other.
    pub fn logs_match(&mut self, raft: &Raft) -> Result<(), String> {
        let (base, last) = raft.log_range();
        for index in base + 1..=last {
            let (Some(entry), Some(before)) = (raft.entry(index), raft.position(index - 1)) else {
                return Err(format!("{}'s log has a hole at {index}", raft.id()));
            };
            let what = (hash_of(&entry.payload), before);
            let known = *self.made.entry(entry.position).or_insert(what);
            if known != what {
                return Err(format!(
                    "logs differ: {} has {} behind {before}, another behind {}",
                    raft.id(),
                    entry.position,
                    known.1
                ));
            }
        }
        Ok(())
    }
}
