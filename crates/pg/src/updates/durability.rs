//! How far members have updates durably, and how far clients may be answered for that.

use mutant::Mutant;
use std::collections::{BTreeMap, BTreeSet};
use types::{EVersion, OsdId};

/// The primary's view of how far members are. Empty on other members.
#[derive(Debug, Default)]
pub(crate) struct Durability {
    /// How far each member that gets updates, the primary included, is durable.
    durable: BTreeMap<OsdId, EVersion>,
    /// Members without which no client is answered.
    needed: BTreeSet<OsdId>,
    /// How far all of these are. Clients may have been answered for updates behind it, which skip some of them.
    committed: EVersion,
    /// Version up to which members of an erasure-coded group may have been brought objects whole, which they could not
    /// take back. Until that is committed, members that can must stay.
    brought: EVersion,
}

impl Durability {
    /// Begins an active interval in which all members are at `head`.
    pub fn start(&mut self, members: &[OsdId], head: EVersion) {
        self.durable = members.iter().map(|osd| (*osd, head)).collect();
        self.needed = members.iter().copied().collect();
        self.committed = head;
    }

    /// Returns how far all members are without which no client is answered.
    pub fn committed(&self) -> EVersion {
        self.committed
    }

    /// Notes that a member has everything up to `version` durably. Returns false if that is no news.
    pub fn note_durable(&mut self, osd: OsdId, version: EVersion) -> bool {
        let durable = self.durable.entry(osd).or_default();
        let is_news = *durable < version;
        *durable = version.max(*durable);
        is_news
    }

    /// Commits what all have without whom no client is answered; `whoami` is the primary. Returns true if that is more
    /// than before.
    pub fn commit(&mut self, whoami: OsdId) -> bool {
        let committed = self.counting(whoami).map(|osd| self.durable_on(osd)).min().unwrap_or_default();
        let is_more = committed > self.committed;
        self.committed = committed.max(self.committed);
        is_more
    }

    /// Tells whether clients may be answered for the update `version`, which skips the shards of `skips`, as far as it
    /// alone is concerned. `whoami` is the primary.
    pub fn is_done(&self, version: EVersion, skips: &[OsdId], whoami: OsdId) -> bool {
        let is_skipped = |osd| match mutant::is(Mutant::TouchedNotAwaited) {
            false => skips.contains(&osd),
            true => !skips.is_empty(),
        };
        self.counting(whoami).all(|osd| self.durable_on(osd) >= version || is_skipped(osd))
    }

    /// Returns the members without which no client is answered.
    fn counting(&self, whoami: OsdId) -> impl Iterator<Item = OsdId> {
        let all_count = !mutant::is(Mutant::AckFromPrimary);
        self.needed.iter().copied().filter(move |osd| all_count || *osd == whoami)
    }

    /// Notes that a member was brought an object, while the log's head was `head`.
    pub fn brought(&mut self, head: EVersion) {
        self.brought = head;
    }

    /// Tells whether everything that was brought to members whole has come to stay.
    pub fn is_brought_to_stay(&self) -> bool {
        self.brought <= self.committed || mutant::is(Mutant::BroughtTooEarly)
    }

    /// Answers clients only with `osd` from now on, which has every update up to `durable`.
    pub fn need(&mut self, osd: OsdId, durable: EVersion) {
        self.note_durable(osd, durable);
        self.needed.insert(osd);
    }

    /// Tells whether a member has everything up to `until` durably, and so have all without whom no client is answered.
    pub fn is_settled_on(&self, osd: OsdId, until: EVersion) -> bool {
        let has_all = self.durable_on(osd) >= until || mutant::is(Mutant::ServesBeforeAll);
        has_all && self.committed >= until
    }

    /// Returns how far a member is.
    pub fn durable_on(&self, osd: OsdId) -> EVersion {
        self.durable.get(&osd).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::Epoch;

    const PRIMARY: OsdId = OsdId(0);

    fn at(version: u64) -> EVersion {
        EVersion { epoch: Epoch(1), version }
    }

    fn of_two(head: u64) -> Durability {
        let mut durability = Durability::default();
        durability.start(&[PRIMARY, OsdId(1)], at(head));
        durability
    }

    #[test]
    fn who_comes_in_is_settled_once_it_has_what_the_others_were_answered_for() {
        let mut durability = of_two(9);
        durability.need(OsdId(2), at(7));
        assert!(!durability.is_settled_on(OsdId(2), at(9)), "the others have all, but it does not");
        assert!(durability.note_durable(OsdId(2), at(9)));
        assert!(durability.is_settled_on(OsdId(2), at(9)));
        assert!(!durability.is_settled_on(OsdId(2), at(10)));
        assert!(durability.note_durable(OsdId(2), at(10)));
        assert!(!durability.is_settled_on(OsdId(2), at(10)), "it has more than the others");
    }

    #[test]
    fn what_all_have_is_committed_and_nothing_is_taken_back() {
        let mut durability = of_two(9);
        assert!(!durability.commit(PRIMARY), "nothing has come since");
        assert!(durability.note_durable(PRIMARY, at(11)) && !durability.commit(PRIMARY));
        assert!(durability.note_durable(OsdId(1), at(10)) && durability.commit(PRIMARY));
        assert_eq!(durability.committed(), at(10));
        assert!(!durability.note_durable(OsdId(1), at(10)), "it is known");
        assert!(!durability.note_durable(OsdId(1), at(9)) && !durability.commit(PRIMARY), "it comes late");
        assert_eq!((durability.durable_on(OsdId(1)), durability.committed()), (at(10), at(10)));
        // Somebody who has less is needed from now on: clients were answered all the same.
        durability.need(OsdId(2), at(4));
        assert!(durability.note_durable(OsdId(1), at(11)) && !durability.commit(PRIMARY));
        assert_eq!(durability.committed(), at(10));
    }

    #[test]
    fn an_update_is_done_without_those_that_it_skips_and_committed_with_them() {
        let mut durability = of_two(9);
        let (skipped, other) = (OsdId(1), OsdId(2));
        durability.need(other, at(9));
        let is_done = |durability: &Durability| durability.is_done(at(10), &[skipped], PRIMARY);
        durability.note_durable(PRIMARY, at(10));
        assert!(!is_done(&durability), "one that it touches lacks it");
        durability.note_durable(other, at(11));
        assert!(is_done(&durability) && !durability.is_done(at(10), &[], PRIMARY));
        assert!(!durability.is_done(at(11), &[skipped], PRIMARY));
        assert!(durability.is_done(at(11), &[PRIMARY, skipped], PRIMARY), "the primary may be skipped, too");
        assert!(!durability.commit(PRIMARY));
        durability.note_durable(skipped, at(10));
        assert!(durability.commit(PRIMARY) && durability.committed() == at(10));
    }

    #[test]
    fn what_was_brought_stays_once_all_have_it() {
        let mut durability = of_two(9);
        assert!(durability.is_brought_to_stay(), "nothing was");
        durability.brought(at(10));
        assert!(!durability.is_brought_to_stay());
        durability.note_durable(PRIMARY, at(10));
        durability.note_durable(OsdId(1), at(10));
        assert!(durability.commit(PRIMARY) && durability.is_brought_to_stay());
    }
}
