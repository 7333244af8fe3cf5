//! Voters, learners and majorities.

use crate::ServerId;
use std::collections::BTreeSet;
use wire::{Decode, DecodeError, Encode, Reader, Writer};

/// The servers that keep the log.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Membership {
    /// Servers among which majorities are counted.
    pub voters: BTreeSet<ServerId>,
    /// Servers that get the log, and count for nothing.
    pub learners: BTreeSet<ServerId>,
}

/// One step from a membership to the next. Majorities before and after a step always have a server in common, which is
/// why there is one at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// A new server begins to get the log.
    AddLearner(ServerId),
    /// A learner that has caught up becomes a voter.
    Promote(ServerId),
    /// A server is no member any more, whatever it was.
    Remove(ServerId),
}

impl Membership {
    pub fn of_voters(voters: impl IntoIterator<Item = ServerId>) -> Membership {
        Membership { voters: voters.into_iter().collect(), learners: BTreeSet::new() }
    }

    /// Returns all members.
    pub fn members(&self) -> impl Iterator<Item = ServerId> + '_ {
        self.voters.iter().chain(&self.learners).copied()
    }

    pub fn contains(&self, server: ServerId) -> bool {
        self.voters.contains(&server) || self.learners.contains(&server)
    }

    /// Returns the number of voters that are a majority.
    pub fn majority(&self) -> usize {
        self.voters.len() / 2 + 1
    }

    pub fn is_majority(&self, servers: &BTreeSet<ServerId>) -> bool {
        self.voters.intersection(servers).count() >= self.majority()
    }

    /// Returns the greatest value that a majority of voters has reached. `None` without voters.
    pub fn reached_by_majority<T: Ord>(&self, value: impl Fn(ServerId) -> T) -> Option<T> {
        let mut values: Vec<T> = self.voters.iter().map(|voter| value(*voter)).collect();
        values.sort_by(|a, b| b.cmp(a));
        values.into_iter().nth(self.majority() - 1)
    }

    /// Returns the membership after `change`, or `None` if it changes nothing or cannot be made.
    pub(crate) fn after(&self, change: Change) -> Option<Membership> {
        let mut next = self.clone();
        let changed = match change {
            Change::AddLearner(server) => !self.contains(server) && next.learners.insert(server),
            Change::Promote(server) => next.learners.remove(&server) && next.voters.insert(server),
            Change::Remove(server) => next.voters.remove(&server) || next.learners.remove(&server),
        };
        (changed && !next.voters.is_empty()).then_some(next)
    }
}

impl Encode for Membership {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            for servers in [&self.voters, &self.learners] {
                w.count(servers.len());
                servers.iter().for_each(|server| w.put(server));
            }
        });
    }
}

impl Decode for Membership {
    const MIN_BYTES: usize = 14;

    fn decode(r: &mut Reader<'_>) -> Result<Membership, DecodeError> {
        let (_, mut r) = r.versioned("membership", 1)?;
        let mut servers = || -> Result<BTreeSet<ServerId>, DecodeError> {
            let count = r.count("servers", ServerId::MIN_BYTES)?;
            (0..count).map(|_| r.get()).collect()
        };
        Ok(Membership { voters: servers()?, learners: servers()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers<const N: usize>(ids: [u64; N]) -> BTreeSet<ServerId> {
        ids.into_iter().map(ServerId).collect()
    }

    #[test]
    fn majorities_of_neighbours_meet() {
        let before = Membership { voters: servers([1, 2, 3, 4]), learners: servers([5]) };
        for change in [Change::Promote(ServerId(5)), Change::Remove(ServerId(2)), Change::AddLearner(ServerId(9))] {
            let after = before.after(change).expect("it can be made");
            for bits in 0..1u64 << 6 {
                let side: BTreeSet<ServerId> = (0..6).filter(|i| bits >> i & 1 == 1).map(|i| ServerId(i + 1)).collect();
                let other: BTreeSet<ServerId> =
                    before.members().chain(after.members()).filter(|s| !side.contains(s)).collect();
                assert!(!(before.is_majority(&side) && after.is_majority(&other)), "{change:?}: {side:?}, {other:?}");
            }
        }
    }

    #[test]
    fn a_step_that_changes_nothing_is_none() {
        let one = Membership { voters: servers([1]), learners: servers([2]) };
        for change in [
            Change::AddLearner(ServerId(1)),
            Change::AddLearner(ServerId(2)),
            Change::Promote(ServerId(1)),
            Change::Promote(ServerId(3)),
            Change::Remove(ServerId(3)),
            Change::Remove(ServerId(1)),
        ] {
            assert_eq!(one.after(change), None, "{change:?}");
        }
    }

    #[test]
    fn what_a_majority_has_reached() {
        let five = Membership::of_voters([1, 2, 3, 4, 5].map(ServerId));
        assert_eq!(five.reached_by_majority(|s| s.0 * 10), Some(30));
        let two = Membership::of_voters([1, 2].map(ServerId));
        assert_eq!(two.reached_by_majority(|s| s.0 * 10), Some(10));
        assert_eq!(Membership::default().reached_by_majority(|s| s.0), None);
    }
}
