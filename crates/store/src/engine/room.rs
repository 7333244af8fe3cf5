//! How much more a store takes, for layers that must know before they promise it to others.

use crate::config::BLOCK;
use crate::engine::submit::RoomNeed;
use crate::metadata::state::tree_blocks_max;
use crate::{Step, Store, SubmitError, Ticket, Transaction};

/// Of what steps take, no more than this part lies in the tree.
const METADATA_PART: u64 = 8;
/// What the tree may take for the copy of one object, beside what every step takes.
const CLONE_BYTES: u64 = 64 << 10;

/// Bytes of [`Store::room_bytes`] that steps take at most, about; 0 if they store nothing new. What is kept in reserve for
/// deletes makes up for what this does not know, such as the size of the tree.
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
    /// Bytes that transactions which store something new may take at present, as [`growth_bytes`] counts them.
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

    /// What was freed last can be used sooner than it would be otherwise.
    pub fn want_room(&mut self) {
        self.turns.vouch_wanted = true;
    }

    /// [`Store::submit`] for what cannot be refused any more, since others have it already: it may take what is kept in
    /// reserve. Whoever promised room for it ([`Store::room_bytes`]) never meets [`SubmitError::NoSpace`].
    pub fn submit_owed(&mut self, txn: Transaction) -> Result<Ticket, SubmitError> {
        self.take_in(txn, true)
    }
}
