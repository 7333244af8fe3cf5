//! Evens out the number of placement groups' copies on each OSD, by exchanging single OSDs of single groups (`upmap`).
//!
//! * `rule_places.rs` — places that a CRUSH rule allows for copies, and which of them may not stand together.
//! * `optimizer.rs` — exchanges that make the spread even.
//! * `stale.rs` — exceptions that no longer make sense.

mod optimizer;
mod rule_places;
mod stale;
#[cfg(test)]
mod tests;

pub use optimizer::{BalanceLimits, Spread, balance, spread};
pub use rule_places::RulePlaces;
pub use stale::stale_upmaps;

use crate::Incremental;
use std::collections::{BTreeMap, BTreeSet};
use types::{OsdId, PgId};

/// Changes of placement exceptions.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct UpmapChanges {
    /// Exchanges (from, to) that groups shall have from now on, in place of their present ones.
    pub items: BTreeMap<PgId, Vec<(OsdId, OsdId)>>,
    /// Groups that shall have no exchanges any more.
    pub removed_items: BTreeSet<PgId>,
    /// Groups that shall not be placed by hand as a whole any more.
    pub removed_explicit: BTreeSet<PgId>,
    /// Number of copies that the changes move.
    pub moved_copies: usize,
}

impl UpmapChanges {
    pub fn is_empty(&self) -> bool {
        self.items.is_empty() && self.removed_items.is_empty() && self.removed_explicit.is_empty()
    }

    /// Notes the exchanges of one group; an empty list removes them.
    fn set(&mut self, pg: PgId, items: Vec<(OsdId, OsdId)>) {
        if items.is_empty() {
            self.items.remove(&pg);
            self.removed_items.insert(pg);
        } else {
            self.removed_items.remove(&pg);
            self.items.insert(pg, items);
        }
    }

    /// Puts the changes into an increment.
    pub fn add_to(&self, incremental: &mut Incremental) {
        incremental.new_pg_upmap_items.extend(self.items.iter().map(|(pg, items)| (*pg, items.clone())));
        incremental.old_pg_upmap_items.extend(&self.removed_items);
        incremental.old_pg_upmap.extend(&self.removed_explicit);
    }
}
