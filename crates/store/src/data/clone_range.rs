//! Clones of ranges of objects.
//!
//! Whole blocks are shared, as by the clone of a whole object. A block of which only a part is in the range is made of
//! two blocks: the target's, and that part of the source's over it. Bytes that the source keeps in its record are
//! written.

use crate::Store;
use crate::config::BLOCK;
use crate::data::merges::{Base, Patch, merged};
use crate::disk::key::Key;
use crate::disk::redo::Redo;
use crate::engine::submit::Contents;
use crate::engine::turns::Staged;
use crate::metadata::block_map::BlockRef;
use crate::metadata::onode::inline_part;
use wire::Rope;

/// Maximum length of one clone of a range: 128 MiB, so that no step takes long.
pub const CLONE_RANGE_BYTES_MAX: u64 = 128 << 20;

/// A range of bytes in a source and its place in a target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByteRange {
    pub source_offset: u64,
    pub length: u64,
    pub target_offset: u64,
}

impl Store {
    /// Stages a clone of a range that was checked. Panics if there is no source.
    pub(crate) fn stage_clone_range(&mut self, source: Key, target: Key, range: ByteRange, staged: &mut Staged) {
        let ByteRange { source_offset, length, target_offset } = range;
        if length == 0 {
            return self.apply(Redo::Touch { object: target }, staged);
        }
        let onode = self.state.known(&source).expect("a clone has a source");
        let (source_end, target_end) = (source_offset + length, target_offset + length);
        if onode.blocks.segment_count() == 0 {
            let bytes = inline_part(&onode.inline, source_offset, source_end);
            let zeros_from = target_offset + bytes.len() as u64;
            if !bytes.is_empty() {
                self.stage_write(target.clone(), target_offset, bytes.into(), staged);
            }
            self.stage_zero(target.clone(), zeros_from, target_end - zeros_from, staged);
            return self.extend(target, target_end, staged);
        }
        // The last block becomes the source's block if the range ends behind the ends of both objects.
        let is_last = source_end >= onode.size() && target_end >= self.size(&target);
        self.move_inline_to_block(&target, staged);
        let whole_begin = source_offset.next_multiple_of(BLOCK);
        let whole_end = if is_last { source_end.next_multiple_of(BLOCK) } else { source_end / BLOCK * BLOCK };
        let place = |at: u64| at - source_offset + target_offset;
        if source_offset < whole_begin {
            let end = source_end.min(whole_begin);
            self.copy_in_block(&source, source_offset..end, &target, target_offset, staged);
        }
        if whole_begin < whole_end {
            let redo = Redo::CloneRange {
                from: source.clone(),
                to: target.clone(),
                size: self.size(&target).max(target_end.min(place(whole_end))),
                from_first: (whole_begin / BLOCK) as u32,
                to_first: (place(whole_begin) / BLOCK) as u32,
                count: ((whole_end - whole_begin) / BLOCK) as u32,
            };
            self.apply_clone_range(redo, staged);
        }
        if whole_end >= whole_begin && source_end > whole_end {
            self.copy_in_block(&source, whole_end..source_end, &target, place(whole_end), staged);
        }
        self.extend(target, target_end, staged);
    }

    /// Grows an object to at least this size.
    fn extend(&mut self, key: Key, size: u64, staged: &mut Staged) {
        if self.size(&key) < size {
            self.apply(Redo::Resize { object: key, size }, staged);
        }
    }

    fn apply_clone_range(&mut self, redo: Redo, staged: &mut Staged) {
        let Redo::CloneRange { from, to, from_first, to_first, count, .. } = &redo else {
            panic!("{redo:?} clones no range")
        };
        let (from, to, from_first, to_first, count) = (from.clone(), to.clone(), *from_first, *to_first, *count);
        self.apply(redo, staged);
        if !self.merges.is_empty() {
            let source = &self.state.known(&from).expect("a clone leaves its source").blocks;
            self.merges.cloned(&from, &to, |at, device| {
                let index = at.checked_sub(from_first).filter(|index| *index < count)?;
                source.get(at).filter(|block| block.device == device).map(|_| to_first + index)
            });
        }
    }

    /// Stages the copy of bytes within one block of the source.
    fn copy_in_block(
        &mut self,
        source: &Key,
        bytes: std::ops::Range<u64>,
        target: &Key,
        target_offset: u64,
        staged: &mut Staged,
    ) {
        let (size, len) = (self.size(target), bytes.end - bytes.start);
        let onode = self.state.known(source).expect("a clone leaves its source");
        let Some(found) = onode.blocks.get((bytes.start / BLOCK) as u32) else {
            if target_offset < size {
                self.zero_in_block(target.clone(), size, target_offset, target_offset + len, staged);
            }
            return;
        };
        let (at, block) = ((target_offset % BLOCK) as usize, (target_offset / BLOCK) as u32);
        let contents = self.block_over(found, at, len as usize, self.base_of(target, block, at, len as usize));
        self.put_blocks(target.clone(), size.max(target_offset + len), block, contents, staged);
    }

    /// Returns the contents of one block: `base`, with the `len` bytes at `at` taken from the block `over`.
    fn block_over(&self, over: BlockRef, at: usize, len: usize, base: Base) -> Contents {
        let mut contents = Contents::default();
        let (old, old_damaged) = match &base {
            Base::Zeros => (None, false),
            Base::Memory { block, damaged } => (Some(block.clone().into_bytes()), *damaged),
            Base::Device { .. } | Base::Merge(_) => {
                let nothing = Patch::over(0, Rope::new());
                contents.push_merge(base, Some((at..at + len, self.content_of(over))), nothing);
                return contents;
            }
        };
        match self.content_of(over) {
            Base::Memory { block, damaged } => {
                let patch = Patch::over(at, block.slice(at, len));
                contents.push_block(merged(old.as_deref(), &patch, &self.buffers), damaged || old_damaged);
            }
            over => contents.push_merge(base, Some((at..at + len, over)), Patch::over(0, Rope::new())),
        }
        contents
    }
}
