//! What must hold, one property a file. Each check gives a sentence about what does not.

mod applied_once;
mod client_order;
mod converged;
mod linearizable;
mod listing;
mod search;
mod shards;

pub use applied_once::updates_are_applied_once;
pub use client_order::pipelined_updates_keep_their_order;
pub use converged::{all_replicas_are_identical, replicas_are_identical};
pub use linearizable::histories_are_linearizable;
pub use listing::{Listed, listing_agrees_with_objects};
pub use shards::all_shards_agree;

use crate::history::{ObjectName, Operation};
use std::collections::BTreeMap;

/// What does not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation(pub String);

/// The operations on each object.
fn by_object(history: &[Operation]) -> BTreeMap<ObjectName, Vec<&Operation>> {
    let mut objects: BTreeMap<ObjectName, Vec<&Operation>> = BTreeMap::new();
    history.iter().for_each(|operation| objects.entry(operation.object).or_default().push(operation));
    objects
}
