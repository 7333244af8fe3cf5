//! Properties that must hold, one in each file. A check that fails returns a sentence about it.

mod applied_once;
mod client_order;
mod converged;
mod copies;
mod enough_members;
mod linearizable;
mod listing;
mod search;
mod shards;
mod statistics;
mod steady_maps;
mod stores;
mod watchers;

pub use applied_once::updates_are_applied_once;
pub use client_order::pipelined_updates_keep_their_order;
pub use converged::{all_replicas_are_identical, replicas_are_identical};
pub use copies::copies_are_what_their_logs_were;
pub use enough_members::groups_serve_with_enough_members;
pub use linearizable::histories_are_linearizable;
pub use listing::{Listed, listing_agrees_with_objects};
pub use shards::all_shards_agree;
pub use statistics::statistics_agree_with_objects;
pub use steady_maps::SteadyMaps;
pub use watchers::watchers_are_told;

use crate::history::{ObjectName, Operation};
use std::collections::BTreeMap;

/// A sentence about a property that does not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation(pub String);

impl Violation {
    /// Name of the check that failed.
    pub fn check(&self) -> &'static str {
        let has = |words: &str| self.0.contains(words);
        // The entries are in the order in which a run checks. The first words that fit name the check.
        let checks = [
            ("assertion", "panic: "),
            ("an OSD stopped by itself", "stopped by itself"),
            ("one leader", "has two leaders"),
            ("leases", "by its lease of term"),
            ("leases", "has a lease of term"),
            ("memory is counted", "bytes of clients' operations"),
            ("memory is counted", "that are being received"),
            ("memory is counted", "bytes for clients, of"),
            ("a failed flush ends an OSD", "of which a flush has failed"),
            ("a store has one process", "opens for another process"),
            ("the map comes to rest", "never comes to rest"),
            ("monitors agree", "diverges from others' after batch"),
            ("nothing stale or undone", "was acknowledged and"),
            ("nothing stale or undone", "was given stale epoch"),
            ("nothing goes back", "went back from"),
            ("enough members", "fewer than min_size"),
            ("an answer that makes no sense", "a read failed with"),
            ("an answer that makes no sense", "a change failed with"),
            ("statistics", "the monitor counts"),
            ("copies", "is no copy of"),
            ("copies", "could not be copied in time"),
            ("linearizable", "is not linearizable"),
            ("client order", "breaks a client's order"),
            ("applied once", "shows an append"),
            ("applied once", "shows bytes that nobody"),
            ("linearizable", "sees less than"),
            ("linearizable", "sees no earlier state"),
            ("linearizable", "lacks the acknowledged"),
            ("linearizable", "sees what was asked later"),
            ("linearizable", "was over before this"),
            ("client order", "stands behind #"),
            ("listing", "listed"),
            ("replicas converge", "differs between"),
            ("removed snapshots are gone", "is kept for"),
            ("shards agree", "is not that of the data"),
            ("shards agree", "on shard"),
            ("shards agree", "is still kept back"),
            ("store check", "the disks of"),
            ("watchers", ": a watcher "),
            ("heals in time", "takes longer than"),
        ];
        checks.iter().find(|(_, words)| has(words)).map_or("another", |(check, _)| check)
    }
}

/// The operations on each object.
fn by_object(history: &[Operation]) -> BTreeMap<ObjectName, Vec<&Operation>> {
    let mut objects: BTreeMap<ObjectName, Vec<&Operation>> = BTreeMap::new();
    history.iter().for_each(|operation| objects.entry(operation.object).or_default().push(operation));
    objects
}
