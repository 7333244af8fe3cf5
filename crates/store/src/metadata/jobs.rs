//! Work on metadata that is done bit by bit, as the state keeps it between two bits.

use crate::btree::{self, Cursor, Overlay};
use crate::disk::copies::CopyOf;
use bytes::Bytes;

/// Limits of copying.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyRules {
    /// Objects with at most this many segments and no omap are cloned without a copy: those of 8 MiB.
    pub at_once_segments: u32,
    /// Number of entries copied at a time.
    pub slice_entries: usize,
    /// A clone that copies more bytes than this waits for a checkpoint.
    pub replayed_bytes: u64,
}

impl Default for CopyRules {
    fn default() -> CopyRules {
        CopyRules { at_once_segments: 64, slice_entries: 200, replayed_bytes: 1 << 20 }
    }
}

/// A copy being made.
#[derive(Debug)]
pub(crate) struct Copying {
    pub(super) of: CopyOf,
    /// The place among the source's segments; `None` if all are copied.
    pub(super) segments: Option<Cursor>,
    pub(super) omap: Option<Cursor>,
    pub(super) bytes: u64,
}

/// A destroyed group, object or part of an object whose content is not looked at yet.
#[derive(Debug)]
pub(crate) struct Destroying {
    /// Number of the job. Jobs count up.
    pub number: u64,
    /// The unfrozen changes at the moment of the destruction.
    pub(super) changes: Overlay,
    /// The tree at the moment of the destruction. `None`: the tree of the last checkpoint, with the frozen changes if
    /// there are any.
    pub(super) tree: Option<Option<btree::Root>>,
    /// The place among the objects' records; `None` if all were seen.
    pub(super) heads: Option<Cursor>,
    pub(super) segments: Option<Cursor>,
}

/// The entries of an omap in the tree, which stay in memory until the copy is made.
#[derive(Debug)]
pub(crate) struct OmapCopy {
    /// The tree that the entries so far were read from.
    pub(super) root: Option<btree::Root>,
    pub(super) cursor: Cursor,
    pub(super) entries: Vec<(Bytes, Bytes)>,
    pub(super) is_whole: bool,
}

impl OmapCopy {
    /// Returns the entries with their keys in the tree.
    pub fn entries(&self) -> &[(Bytes, Bytes)] {
        assert!(self.is_whole, "a part of an omap for the whole");
        &self.entries
    }
}
