//! Memory that a shard holds for clients.

use super::Shard;
use super::deferred::Deferred;
use crate::group::pg::Pg;
use crate::intake::memory_use::MemoryUse;
use crate::intake::operations::{ClientOp, OP_BYTES};

impl Shard {
    /// Returns the memory held for clients, as it is counted and as a look at each operation finds it.
    pub fn memory_use(&self) -> MemoryUse {
        let deferred = self.deferred.values().flatten().map(|deferred| match deferred {
            Deferred::ClientOp { op, .. } => op.input_bytes() + OP_BYTES,
            Deferred::Ack { .. } | Deferred::Query { .. } => 0,
        });
        let in_groups = self.pgs.values().flat_map(Pg::unanswered).map(ClientOp::held_bytes);
        MemoryUse {
            counted: self.host.shared.held.bytes(),
            found: deferred.chain(in_groups).sum(),
            copied: self.host.shared.copies.held_bytes(),
            copied_found: self.host.shared.copies.found_bytes(),
            waiting: self.sent.bytes(),
            uncommitted: self.host.store.uncommitted_bytes(),
        }
    }
}
