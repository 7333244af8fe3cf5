//! Space that a store still has, for layers that must know before they promise it to others.

use crate::config::BLOCK;
use crate::engine::submit::RoomNeed;
use crate::metadata::state::tree_blocks_max;
use crate::{Step, Store, SubmitError, Ticket, Transaction};

/// The tree takes at most the total of a step's space divided by this.
const METADATA_PART: u64 = 8;
/// Bytes that the tree may take for the copy of one object, besides those of every step.
const CLONE_BYTES: u64 = 64 << 10;

/// Returns an upper estimate of the bytes of [`Store::room_bytes`] that steps take; 0 if they store nothing new. The
/// reserve for deletes makes up for what this estimate ignores, such as the size of the tree.
pub fn growth_bytes(steps: &[Step]) -> u64 {
    let (mut need, mut clones) = (RoomNeed::default(), 0);
    for step in steps {
        need.add(step);
        clones += u64::from(matches!(step, Step::Clone { .. }));
    }
    if !need.grows {
        return 0;
    }
    // Every change may split a page, and a checkpoint holds pages twice.
    let pages = 2 * tree_blocks_max(need.metadata_bytes + clones * CLONE_BYTES) + 3 * (steps.len() as u64 + 3);
    (need.blocks + pages) * BLOCK
}

impl Store {
    /// Returns the bytes that transactions which store something new may take at present, as [`growth_bytes`] counts
    /// them.
    pub fn room_bytes(&mut self) -> u64 {
        if self.lacks_pages() {
            return 0;
        }
        let waiting = self.queue.blocks + tree_blocks_max(self.queue.metadata_bytes);
        let allocatable = u64::from(self.allocator.free_blocks());
        let unreserved = (allocatable + self.metadata.blocks()).saturating_sub(self.reserved_blocks());
        let of_main = unreserved.min(allocatable).saturating_sub(waiting);
        let of_metadata = self.metadata.own_free_blocks().map_or(u64::MAX, |free| {
            free.saturating_sub(self.metadata_device_reserved_blocks()).saturating_mul(METADATA_PART)
        });
        of_main.min(of_metadata) * BLOCK
    }

    /// Makes blocks that were freed last usable as soon as possible.
    pub fn want_room(&mut self) {
        self.turns.vouch_wanted = true;
    }

    /// Submits, like [`Store::submit`], a transaction that cannot be refused any more because other OSDs have it
    /// already: it may take the reserve. A caller that promised room for it ([`Store::room_bytes`]) never gets
    /// [`SubmitError::NoSpace`].
    pub fn submit_owed(&mut self, txn: Transaction) -> Result<Ticket, SubmitError> {
        self.take_in(txn, true, false)
    }

    /// Submits, like [`Store::submit_owed`], a transaction for which nobody waits ([`Store::submit_patiently`]).
    pub fn submit_owed_patiently(&mut self, txn: Transaction) -> Result<Ticket, SubmitError> {
        self.take_in(txn, true, true)
    }
}
