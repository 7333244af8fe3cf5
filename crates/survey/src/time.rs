//! Where the time of operations goes.

use bench::hops::{Breakdown, OpHops};
use serde::Serialize;

/// Operations of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Kind {
    /// `writes` or `reads`.
    pub name: &'static str,
    /// The operations are the slowest that OSDs kept, as a Ceph keeps no others.
    pub of_slowest: bool,
    pub breakdown: Breakdown,
}

/// Writes and reads, as far as there are any. Of Nacre's operations only those count that stand for all.
pub fn kinds(operations: &[OpHops], from_ceph: bool) -> Vec<Kind> {
    let kind = |(name, write): (&'static str, bool)| {
        let counts = |op: &&OpHops| op.write == write && (op.sampled || from_ceph);
        let chosen: Vec<&OpHops> = operations.iter().filter(counts).collect();
        Some(Kind { name, of_slowest: from_ceph, breakdown: Breakdown::of(&chosen)? })
    };
    [("writes", true), ("reads", false)].into_iter().filter_map(kind).collect()
}
