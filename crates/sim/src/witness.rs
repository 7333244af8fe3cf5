//! Everything that anybody in the cluster has seen of the monitors' decisions, and checks that nothing contradicts it
//! later.
//!
//! Monitors report their state after every step. Clients report their questions to monitors and the answers. The first
//! contradiction is kept until the run looks.

use mon::MonState;
use mon::member::Member;
use raft::ServerId;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use types::{Epoch, crc32c};
use wire::{Encode, Target};

/// States are compared after every this many batches. Most batches leave a trace in all later states.
const COMPARED_EVERY: u64 = 8;

/// Leases count as shorter by one part in this many.
const LEASE_MARGIN: u32 = 50;

/// Knowledge about a key that is set once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum KeyState {
    /// Somebody has asked to set the key.
    Asked,
    /// Setting the key was acknowledged, or the key was read.
    Seen,
}

#[derive(Default, Debug)]
struct Seen {
    /// Checksums of states, by the number of batches applied.
    states: BTreeMap<u64, u32>,
    /// The leader of each term.
    leaders: BTreeMap<u64, ServerId>,
    /// The leases of leaders, by which they may answer without asking anybody: term and end, in the world's time.
    leases: BTreeMap<ServerId, (u64, Duration)>,
    /// The newest epoch of the OSD map that anybody outside the monitors has.
    epoch: Epoch,
    keys: BTreeMap<String, KeyState>,
    /// Number of times that clients were asked to hold back.
    backoffs: u64,
    violation: Option<String>,
}

/// The witness that all processes of a cluster share.
#[derive(Clone, Default, Debug)]
pub struct Witness(Rc<RefCell<Seen>>);

/// A member's progress when it was last looked at.
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

    /// Notes that an OSD has asked a client to hold back.
    pub(crate) fn held_back(&self) {
        self.0.borrow_mut().backoffs += 1;
    }

    /// Number of times that OSDs asked clients to hold back.
    pub(crate) fn backoffs(&self) -> u64 {
        self.0.borrow().backoffs
    }

    fn contradicts(&self, what: String) {
        tracing::error!("{what}");
        self.0.borrow_mut().violation.get_or_insert(what);
    }

    /// Looks at a member after a step. `clock`, `world`: the times of its clock and of the world.
    pub(crate) fn member(&self, member: &Member, before: &mut Looked, clock: Duration, world: Duration) {
        let (raft, state) = (member.raft(), member.monitor().state());
        self.lease(member, clock, world);
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

    /// Checks leases: a leader that may answer without asking anybody relies on being the only one.
    fn lease(&self, member: &Member, clock: Duration, world: Duration) {
        let (raft, server) = (member.raft(), member.identity().server);
        let (name, term) = (&member.identity().name, raft.term());
        let mut violation = None;
        {
            let mut seen = self.0.borrow_mut();
            seen.leases.remove(&server);
            if let Some(left) = raft.lease_left(clock) {
                // The member's clock may be ahead of the world's by a hundredth.
                seen.leases.insert(server, (term, world + left - left / LEASE_MARGIN));
                if let Some((newer, other)) = seen.leaders.range(term + 1..).next() {
                    let newer = format!("server {other} leads term {newer}");
                    violation = Some(format!("mon.{name} may answer by its lease of term {term}, but {newer}"));
                }
            }
            if raft.is_leader()
                && let Some((other, (old, until))) =
                    seen.leases.iter().find(|(_, (of, until))| *of < term && *until > world)
            {
                let left = *until - world;
                violation = Some(format!(
                    "mon.{name} leads term {term}, but server {other} has a lease of term {old} for {left:?}"
                ));
            }
        }
        violation.into_iter().for_each(|what| self.contradicts(what));
    }

    /// Notes that a server's process has ended, and its lease with it.
    pub(crate) fn ended(&self, server: ServerId) {
        self.0.borrow_mut().leases.remove(&server);
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

    /// `who` has a map of epoch `epoch` now, and had one of `before`.
    pub fn has_map(&self, who: impl FnOnce() -> String, before: Epoch, epoch: Epoch) {
        if epoch < before {
            return self.contradicts(format!("{} went back from epoch {before} to {epoch}", who()));
        }
        let mut seen = self.0.borrow_mut();
        seen.epoch = seen.epoch.max(epoch);
    }

    /// `who` was told that `epoch` is the newest one. It had asked when somebody had `least`.
    pub fn told_newest(&self, who: impl FnOnce() -> String, least: Epoch, epoch: Epoch) {
        if epoch < least {
            return self.contradicts(format!("{} was given stale epoch {epoch}, asked after {least}", who()));
        }
        self.has_map(who, epoch, epoch);
    }

    /// Notes that somebody asks to set a key. This happens once for each key.
    pub fn asks_to_set(&self, key: &str) {
        self.0.borrow_mut().keys.entry(key.to_owned()).or_insert(KeyState::Asked);
    }

    /// Notes that somebody was told that the key is set.
    pub fn is_set(&self, key: &str) {
        self.0.borrow_mut().keys.insert(key.to_owned(), KeyState::Seen);
    }

    /// True if somebody knows that the key is set.
    pub fn is_known(&self, key: &str) -> bool {
        self.0.borrow().keys.get(key) == Some(&KeyState::Seen)
    }

    /// Keys that somebody knows to be set.
    pub fn known_keys(&self) -> BTreeSet<String> {
        let seen = self.0.borrow();
        let known = seen.keys.iter().filter(|(_, key)| **key == KeyState::Seen);
        known.map(|(key, _)| key.clone()).collect()
    }

    /// Somebody asked for the keys that are set when `known` were known to be, and was told `listed`.
    pub fn was_listed(&self, known: &BTreeSet<String>, listed: &BTreeSet<String>) {
        if let Some(key) = known.difference(listed).next() {
            return self.contradicts(format!("key {key} was set or read, and then it was not listed: stale or undone"));
        }
        if let Some(key) = listed.iter().find(|key| !self.0.borrow().keys.contains_key(*key)) {
            return self.contradicts(format!("key {key} is listed, but nobody has asked for it to be set"));
        }
        listed.iter().for_each(|key| self.is_set(key));
    }

    /// Somebody asked for a key and was told whether it is set. `known`: it was known to be set when the question was
    /// asked.
    pub fn was_read(&self, key: &str, known: bool, is_set: bool) {
        match is_set {
            true => self.is_set(key),
            false if known => {
                self.contradicts(format!("key {key} was acknowledged and is stale or undone in an answer"))
            }
            false => {}
        }
    }

    /// One of the keys that were asked for, chosen by a number.
    pub fn key(&self, number: u64) -> Option<String> {
        let seen = self.0.borrow();
        let count = seen.keys.len() as u64;
        (count > 0).then(|| seen.keys.keys().nth((number % count) as usize).expect("below their count").clone())
    }

    /// `Ok` if a state has everything that was acknowledged. The error names a key that it lacks.
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
    fn a_listing_has_all_that_is_known_and_nothing_else() {
        let witness = Witness::default();
        let keys = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        ["a", "b"].into_iter().for_each(|key| witness.asks_to_set(key));
        witness.was_listed(&keys(&[]), &keys(&["a"]));
        assert_eq!((witness.violation(), witness.known_keys()), (None, keys(&["a"])));
        witness.was_listed(&keys(&["a"]), &keys(&["b"]));
        assert!(witness.violation().expect("a is gone").contains("not listed"));
        let witness = Witness::default();
        witness.was_listed(&keys(&[]), &keys(&["c"]));
        assert!(witness.violation().expect("c is nobody's").contains("nobody"));
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
