//! What anybody in the cluster has seen of the monitors' decisions, and what must never be seen after that.
//!
//! Monitors tell it after every step what their state is; clients tell what they asked of monitors and what they were answered.
//! What contradicts itself is kept until the run looks.

use mon::MonState;
use mon::member::Member;
use raft::ServerId;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use types::{Epoch, crc32c};
use wire::{Encode, Target};

/// States after every so many batches are compared: most batches leave their trace in all states after them.
const COMPARED_EVERY: u64 = 8;

/// What is known of a key that is set once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum KeyState {
    /// Somebody has asked for it to be set.
    Asked,
    /// Its being set was acknowledged, or it was read.
    Seen,
}

#[derive(Default, Debug)]
struct Seen {
    /// Checksums of states, by the batches applied.
    states: BTreeMap<u64, u32>,
    /// Who leads which term.
    leaders: BTreeMap<u64, ServerId>,
    /// The newest epoch of the OSD map that anybody outside the monitors has.
    epoch: Epoch,
    keys: BTreeMap<String, KeyState>,
    violation: Option<String>,
}

/// Shared by all processes of a cluster.
#[derive(Clone, Default, Debug)]
pub struct Witness(Rc<RefCell<Seen>>);

/// How far a member had come when it was last looked at.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Looked {
    applied: u64,
    term: u64,
    leads: bool,
}

impl Witness {
    /// The first contradiction.
    pub fn violation(&self) -> Option<String> {
        self.0.borrow().violation.clone()
    }

    fn contradicts(&self, what: String) {
        tracing::error!("{what}");
        self.0.borrow_mut().violation.get_or_insert(what);
    }

    /// Looks at a member after a step.
    pub(crate) fn member(&self, member: &Member, before: &mut Looked) {
        let (raft, state) = (member.raft(), member.monitor().state());
        let now = Looked { applied: state.applied, term: raft.term(), leads: raft.is_leader() };
        let name = &member.identity().name;
        let before = std::mem::replace(before, now);
        if now.applied < before.applied {
            let Looked { applied, .. } = before;
            self.contradicts(format!("mon.{name} went back from batch {applied} to {}", now.applied));
        }
        if now.applied != before.applied && now.applied.is_multiple_of(COMPARED_EVERY) {
            self.state(name, state);
        }
        if now.leads && (now.term, now.leads) != (before.term, before.leads) {
            let server = member.identity().server;
            let leader = *self.0.borrow_mut().leaders.entry(now.term).or_insert(server);
            if leader != server {
                self.contradicts(format!("term {} has two leaders, servers {leader} and {server}", now.term));
            }
        }
    }

    fn state(&self, name: &str, state: &MonState) {
        let sum = crc32c::update(u32::MAX, &state.to_vec(Target::PACIFIC));
        let known = *self.0.borrow_mut().states.entry(state.applied).or_insert(sum);
        if known != sum {
            self.contradicts(format!("the state of mon.{name} diverges from others' after batch {}", state.applied));
        }
    }

    /// The newest epoch that anybody has.
    pub fn epoch(&self) -> Epoch {
        self.0.borrow().epoch
    }

    /// `who` has a map of this epoch now, and had one of `before`.
    pub fn has_map(&self, who: impl FnOnce() -> String, before: Epoch, epoch: Epoch) {
        if epoch < before {
            return self.contradicts(format!("{} went back from epoch {before} to {epoch}", who()));
        }
        let mut seen = self.0.borrow_mut();
        seen.epoch = seen.epoch.max(epoch);
    }

    /// `who` was answered with this epoch as the newest one, and had asked when somebody had one of `least`.
    pub fn told_newest(&self, who: impl FnOnce() -> String, least: Epoch, epoch: Epoch) {
        if epoch < least {
            return self.contradicts(format!("{} was given stale epoch {epoch}, asked after {least}", who()));
        }
        self.has_map(who, epoch, epoch);
    }

    /// Somebody asks for a key to be set; that is asked once for each.
    pub fn asks_to_set(&self, key: &str) {
        self.0.borrow_mut().keys.entry(key.to_owned()).or_insert(KeyState::Asked);
    }

    /// Somebody was told that it is set.
    pub fn is_set(&self, key: &str) {
        self.0.borrow_mut().keys.insert(key.to_owned(), KeyState::Seen);
    }

    /// Whether somebody knows that it is set.
    pub fn is_known(&self, key: &str) -> bool {
        self.0.borrow().keys.get(key) == Some(&KeyState::Seen)
    }

    /// Somebody asked for it, when it was `known` or not, and was told whether it is set.
    pub fn was_read(&self, key: &str, known: bool, is_set: bool) {
        match is_set {
            true => self.is_set(key),
            false if known => {
                self.contradicts(format!("key {key} was acknowledged and is stale or undone in an answer"))
            }
            false => {}
        }
    }

    /// Any of the keys that were asked for, by a number.
    pub fn key(&self, number: u64) -> Option<String> {
        let seen = self.0.borrow();
        let count = seen.keys.len() as u64;
        (count > 0).then(|| seen.keys.keys().nth((number % count) as usize).expect("below their count").clone())
    }

    /// Whether a state has everything that was acknowledged.
    pub fn is_in(&self, name: &str, state: &MonState) -> Result<(), String> {
        let seen = self.0.borrow();
        let mut known = seen.keys.iter().filter(|(_, key)| **key == KeyState::Seen);
        match known.find(|(key, _)| !state.config_keys.contains_key(*key)) {
            Some((key, _)) => Err(format!("key {key} was acknowledged and undone: mon.{name} lacks it")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_not_unseen() {
        let witness = Witness::default();
        witness.asks_to_set("a");
        witness.was_read("a", witness.is_known("a"), false);
        witness.was_read("a", false, true);
        assert_eq!((witness.violation(), witness.is_known("a")), (None, true));
        assert!(witness.is_in("x", &MonState::default()).is_err());
        witness.was_read("a", true, false);
        assert!(witness.violation().expect("it is gone").contains("undone"));
    }

    #[test]
    fn epochs_do_not_go_back() {
        let witness = Witness::default();
        witness.has_map(|| "x".to_owned(), Epoch(2), Epoch(5));
        witness.told_newest(|| "y".to_owned(), Epoch(4), Epoch(4));
        assert_eq!((witness.violation(), witness.epoch()), (None, Epoch(5)));
        witness.told_newest(|| "y".to_owned(), Epoch(5), Epoch(4));
        assert!(witness.violation().expect("an old map").contains("stale"));
        let witness = Witness::default();
        witness.has_map(|| "x".to_owned(), Epoch(3), Epoch(2));
        assert!(witness.violation().expect("an older map").contains("went back"));
    }
}
