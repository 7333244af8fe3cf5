//! The kind of a pool: the one place that tells kinds apart.

use super::coding::{Coding, CodingError};
use super::undo::Undo;
use ec::{Code, StripeLayout};
use osdmap::{OsdMap, PgPool};
use types::OsdId;

/// Protection of a pool's objects against the failure of OSDs.
///
/// The kinds differ in these matters; the rest of the crate asks about them, or matches the kind where the ways part:
///
/// * Reading: one member is enough, or several are needed ([`needed`](Protection::needed)); members have the same, or
///   each a shard of its own ([`is_whole_on_each`](Protection::is_whole_on_each)).
/// * Membership: only those act who are in the acting set, or also those that are to come in
///   ([`also_members`](Protection::also_members)).
/// * Undoing: members copy what others have, or each takes updates back by itself
///   ([`keeps_undo`](Protection::keeps_undo)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protection {
    /// Each member has whole objects.
    Copies,
    /// Each member has one shard of every object.
    Shards(Coding),
}

impl Protection {
    /// Returns the protection of a pool's objects. Errors: an erasure-coded pool whose code is not known here.
    pub fn of(map: &OsdMap, pool: &PgPool) -> Result<Protection, CodingError> {
        Ok(Coding::of(map, pool)?.map_or(Protection::Copies, Protection::Shards))
    }

    /// Tells whether what one member has is all of an object. Then each member can answer reads, and a member that
    /// lacks an object takes it from another one as it is.
    pub fn is_whole_on_each(self) -> bool {
        match self {
            Protection::Copies => true,
            Protection::Shards(_) => false,
        }
    }

    /// Returns of how many members an object is read.
    pub fn needed(self) -> usize {
        match self {
            Protection::Copies => 1,
            Protection::Shards(coding) => coding.k(),
        }
    }

    /// Returns the stripes in which objects lie over their shards, if they do.
    pub fn stripes(self) -> Option<StripeLayout> {
        match self {
            Protection::Copies => None,
            Protection::Shards(coding) => Some(coding.layout()),
        }
    }

    /// Returns the code of objects, if they are coded.
    pub fn code(self) -> Option<Code> {
        match self {
            Protection::Copies => None,
            Protection::Shards(coding) => Some(coding.code()),
        }
    }

    /// Returns those of the up set that are members though the acting set has no room for them: there each is brought
    /// the shard that it is to have.
    pub fn also_members(self, up: &[OsdId]) -> &[OsdId] {
        match self {
            Protection::Copies => &[],
            Protection::Shards(_) => up,
        }
    }

    /// Tells whether each member keeps with its log what takes its last updates back.
    pub fn keeps_undo(self) -> bool {
        match self {
            Protection::Copies => false,
            Protection::Shards(_) => true,
        }
    }

    /// Returns what takes an update back that has changed an object so that `undo` does.
    pub fn undo(self, undo: impl FnOnce() -> Undo) -> Undo {
        match self {
            Protection::Copies => Undo::Nothing,
            Protection::Shards(_) => undo(),
        }
    }
}
