//! Redo steps: the effects of a transaction once its blocks are chosen. They are the content of log records
//! (`redo_bytes`).
//!
//! A redo step has the same effect when it is applied again after a crash, to the state in which it was made. The live
//! store changes its state only by applying redo steps, so replay cannot differ from it.

use crate::disk::copies::CopyOf;
use crate::disk::key::Key;
use crate::disk::numbers::RedoCode;
use crate::space::run::Run;
use bytes::Bytes;
use types::PgId;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Redo {
    Touch {
        object: Key,
    },
    /// Puts blocks at object block `first ..` and sets the size.
    Map {
        object: Key,
        size: u64,
        first: u32,
        runs: Vec<Run>,
        crcs: Vec<u32>,
    },
    /// Makes holes of the object blocks `first .. end`.
    Unmap {
        object: Key,
        first: u32,
        end: u32,
    },
    /// Sets the size and drops the blocks wholly behind it.
    Resize {
        object: Key,
        size: u64,
    },
    Remove {
        object: Key,
    },
    SetAttr {
        object: Key,
        name: Vec<u8>,
        value: Bytes,
    },
    RemoveAttr {
        object: Key,
        name: Vec<u8>,
    },
    OmapSet {
        object: Key,
        entries: Vec<(Bytes, Bytes)>,
    },
    OmapRemove {
        object: Key,
        keys: Vec<Bytes>,
    },
    OmapRemoveRange {
        object: Key,
        begin: Bytes,
        end: Bytes,
    },
    OmapClear {
        object: Key,
    },
    OmapSetHeader {
        object: Key,
        header: Bytes,
    },
    Clone {
        from: Key,
        to: Key,
    },
    PgSet {
        pg: PgId,
        key: Bytes,
        value: Bytes,
    },
    PgRemove {
        pg: PgId,
        key: Bytes,
    },
    PgRemoveRange {
        pg: PgId,
        begin: Bytes,
        end: Bytes,
    },
    PgDestroy {
        pg: PgId,
        pg_num: u32,
    },
    /// Sets size and bytes of an object without blocks; all bytes behind `data` are zeros.
    Inline {
        object: Key,
        size: u64,
        data: Bytes,
    },
    /// Makes blocks and holes of `to` those of `from`, shared, and sets its size.
    CloneRange {
        from: Key,
        to: Key,
        size: u64,
        from_first: u32,
        to_first: u32,
        count: u32,
    },
    /// Clones an object whose omap entries are in place already, under the id of the copy, and whose segments are too,
    /// if they were copied.
    CloneCopied {
        from: Key,
        of: CopyOf,
    },
    /// Removes a copy that no clone took.
    DropCopy {
        of: CopyOf,
    },
    /// Sets the id of the next omap made. Ids below `next` belong to copies that the transaction takes.
    OmapIds {
        next: u64,
    },
}

impl Redo {
    /// Returns the step's number in log records.
    pub fn code(&self) -> RedoCode {
        match self {
            Redo::Touch { .. } => RedoCode::Touch,
            Redo::Map { .. } => RedoCode::Map,
            Redo::Unmap { .. } => RedoCode::Unmap,
            Redo::Resize { .. } => RedoCode::Resize,
            Redo::Remove { .. } => RedoCode::Remove,
            Redo::SetAttr { .. } => RedoCode::SetAttr,
            Redo::RemoveAttr { .. } => RedoCode::RemoveAttr,
            Redo::OmapSet { .. } => RedoCode::OmapSet,
            Redo::OmapRemove { .. } => RedoCode::OmapRemove,
            Redo::OmapRemoveRange { .. } => RedoCode::OmapRemoveRange,
            Redo::OmapClear { .. } => RedoCode::OmapClear,
            Redo::OmapSetHeader { .. } => RedoCode::OmapSetHeader,
            Redo::Clone { .. } => RedoCode::Clone,
            Redo::PgSet { .. } => RedoCode::PgSet,
            Redo::PgRemove { .. } => RedoCode::PgRemove,
            Redo::PgRemoveRange { .. } => RedoCode::PgRemoveRange,
            Redo::PgDestroy { .. } => RedoCode::PgDestroy,
            Redo::Inline { .. } => RedoCode::Inline,
            Redo::CloneRange { .. } => RedoCode::CloneRange,
            Redo::CloneCopied { .. } => RedoCode::CloneCopied,
            Redo::DropCopy { .. } => RedoCode::DropCopy,
            Redo::OmapIds { .. } => RedoCode::OmapIds,
        }
    }

    /// Returns the group that the step is on; `None` for all other steps.
    pub fn pg(&self) -> Option<PgId> {
        match self {
            Redo::PgSet { pg, .. }
            | Redo::PgRemove { pg, .. }
            | Redo::PgRemoveRange { pg, .. }
            | Redo::PgDestroy { pg, .. } => Some(*pg),
            _ => None,
        }
    }

    /// Returns the object that changes; `None` for steps on a group.
    pub fn object(&self) -> Option<&[u8]> {
        match self {
            Redo::Touch { object }
            | Redo::Map { object, .. }
            | Redo::Unmap { object, .. }
            | Redo::Resize { object, .. }
            | Redo::Remove { object }
            | Redo::SetAttr { object, .. }
            | Redo::RemoveAttr { object, .. }
            | Redo::OmapSet { object, .. }
            | Redo::OmapRemove { object, .. }
            | Redo::OmapRemoveRange { object, .. }
            | Redo::OmapClear { object }
            | Redo::OmapSetHeader { object, .. }
            | Redo::Inline { object, .. }
            | Redo::Clone { to: object, .. }
            | Redo::CloneRange { to: object, .. } => Some(object),
            Redo::CloneCopied { of, .. } | Redo::DropCopy { of } => Some(&of.to),
            Redo::PgSet { .. }
            | Redo::PgRemove { .. }
            | Redo::PgRemoveRange { .. }
            | Redo::PgDestroy { .. }
            | Redo::OmapIds { .. } => None,
        }
    }
}
