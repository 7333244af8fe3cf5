//! Bytes of small objects, kept in the objects' records instead of blocks.
//!
//! An object's bytes are inline from its first write on, as long as they end by [`INLINE_BYTES_MAX`], unless the object
//! is longer than a block at that write. A write beyond that limit moves them to a block, in the same transaction. All
//! bytes behind the inline ones are zeros, whatever the object's size. The checksum that guards the record also guards
//! them: that of its page in the tree, or of the log record.

use crate::config::BLOCK;
use crate::disk::key::Key;
use crate::disk::redo::Redo;
use crate::engine::queue::KeyedStep;
use crate::engine::turns::Staged;
use crate::{Step, Store};
use bytes::Bytes;
use wire::Rope;

/// Maximum number of inline bytes. With usual attributes, a record with this many fits a leaf of the tree
/// ([`crate::btree::INLINE_BYTES_MAX`]) and costs less there than a block of 4 KiB.
pub(crate) const INLINE_BYTES_MAX: u64 = 1536;

const _: () = assert!(INLINE_BYTES_MAX < BLOCK, "one block has room for all inline bytes");
// A record with the longest inline bytes and 256 bytes of attributes stays in its leaf.
const _: () = assert!(INLINE_BYTES_MAX as usize + 256 <= crate::btree::INLINE_BYTES_MAX);

impl Store {
    /// Returns true if a step may need a block for bytes that were inline before it. `before`: the steps before it.
    pub(crate) fn may_spill(&self, step: &KeyedStep, before: &[KeyedStep]) -> bool {
        let (Step::Write { offset, data, .. } | Step::Xor { offset, data, .. }, Some(key)) = (&step.step, &step.object)
        else {
            return false;
        };
        if *offset == 0 || offset + data.len() as u64 <= INLINE_BYTES_MAX {
            return false;
        }
        let changes =
            self.queue.last_of_object(key).is_some() || before.iter().any(|step| step.object.as_ref() == Some(key));
        match self.state.onodes.get(key).filter(|_| !changes) {
            Some(onode) => onode.is_some_and(|onode| !onode.inline.is_empty()),
            // The object is not known yet.
            None => true,
        }
    }

    fn inline(&self, key: &[u8]) -> Option<&Bytes> {
        self.state.known(key).map(|onode| &onode.inline).filter(|inline| !inline.is_empty())
    }

    /// Stages a write if the object's bytes are, or become, inline with it. Otherwise returns the data; the inline
    /// bytes that the write does not cover have then moved to a block.
    pub(crate) fn stage_inline_write(
        &mut self,
        key: &Key,
        offset: u64,
        data: Rope,
        staged: &mut Staged,
    ) -> Result<(), Rope> {
        let end = offset + data.len() as u64;
        let onode = self.state.known(key);
        // Only writes to the first block ask this, and that block is known then.
        let is_empty =
            || onode.is_none_or(|onode| onode.size() == 0 || onode.size() <= BLOCK && onode.blocks.get(0).is_none());
        let inline = onode.map(|onode| &onode.inline).filter(|inline| !inline.is_empty());
        if end <= INLINE_BYTES_MAX && (inline.is_some() || is_empty()) {
            let size = onode.map_or(0, |onode| onode.size()).max(end);
            let old = inline.map_or(&[][..], |inline| inline);
            let mut bytes = vec![0; old.len().max(end as usize)];
            bytes[..old.len()].copy_from_slice(old);
            let mut at = offset as usize;
            for piece in data.pieces() {
                bytes[at..at + piece.len()].copy_from_slice(piece);
                at += piece.len();
            }
            self.apply(Redo::Inline { object: key.clone(), size, data: bytes.into() }, staged);
            return Ok(());
        }
        if inline.is_some_and(|inline| offset > 0 || end < inline.len() as u64) {
            self.move_inline_to_block(key, staged);
        }
        Err(data)
    }

    /// Moves an object's inline bytes, if it has any, into a block.
    pub(crate) fn move_inline_to_block(&mut self, key: &Key, staged: &mut Staged) {
        let Some(bytes) = self.inline(key).cloned() else { return };
        let mut block = self.buffers.take(BLOCK as usize);
        block.as_mut_slice().fill(0);
        block.as_mut_slice()[..bytes.len()].copy_from_slice(&bytes);
        self.put_block(key.clone(), self.size(key), 0, block, staged);
    }

    /// Stages zeros over `begin .. end` if the object is inline. Returns true if it is.
    pub(crate) fn stage_inline_zero(&mut self, key: &Key, begin: u64, end: u64, staged: &mut Staged) -> bool {
        let Some(inline) = self.inline(key) else { return false };
        let len = inline.len() as u64;
        let range = begin.min(len) as usize..end.min(len) as usize;
        let redo = match range.is_empty() {
            true => Redo::Touch { object: key.clone() },
            false => {
                let mut bytes = inline.to_vec();
                bytes[range].fill(0);
                Redo::Inline { object: key.clone(), size: self.size(key), data: bytes.into() }
            }
        };
        self.apply(redo, staged);
        true
    }

    pub(crate) fn is_inline(&self, key: &[u8]) -> bool {
        self.inline(key).is_some()
    }
}
