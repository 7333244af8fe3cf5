//! Objects' names in messages that come from another shard of an erasure-coded group.
//!
//! Each shard of a group names objects by its own pool ([`PoolId::of_shard`]). A message from another shard is renamed
//! once, on arrival. [`super::table`] tells which fields of a message name objects; here is what that means for what
//! such fields hold.

use super::peering::MemberState;
use crate::group::info::PgInfo;
use crate::group::log::LogEntry;
use crate::scrub::ScrubMark;
use crate::scrub::map::{ObjectScan, ScrubMap};
use crate::scrub::mark::ScrubCursor;
use std::collections::BTreeMap;
use store::Step;
use types::{ObjectId, PoolId};

/// A part of a message that names objects of one group.
pub(crate) trait Rehome {
    /// Makes all objects belong to `pool`.
    fn rehome(&mut self, pool: PoolId);
}

impl Rehome for ObjectId {
    fn rehome(&mut self, pool: PoolId) {
        // The cursors before and behind everything belong to no pool.
        if self.max || self.pool == ObjectId::MIN_POOL {
            return;
        }
        // A pool's last group ends where the pool with the next number begins.
        let behind = i64::from(self.pool.base().0 > pool.base().0);
        self.pool = PoolId(pool.0 + behind);
    }
}

impl<T: Rehome> Rehome for Option<T> {
    fn rehome(&mut self, pool: PoolId) {
        if let Some(inner) = self {
            inner.rehome(pool);
        }
    }
}

impl<T: Rehome> Rehome for Vec<T> {
    fn rehome(&mut self, pool: PoolId) {
        self.iter_mut().for_each(|item| item.rehome(pool));
    }
}

/// An object with something about it that names none.
impl<V> Rehome for (ObjectId, V) {
    fn rehome(&mut self, pool: PoolId) {
        self.0.rehome(pool);
    }
}

impl<V> Rehome for BTreeMap<ObjectId, V> {
    fn rehome(&mut self, pool: PoolId) {
        let renamed = |(mut object, value): (ObjectId, V)| {
            object.rehome(pool);
            (object, value)
        };
        *self = std::mem::take(self).into_iter().map(renamed).collect();
    }
}

impl Rehome for Step {
    fn rehome(&mut self, pool: PoolId) {
        match self {
            Step::Touch { object }
            | Step::Write { object, .. }
            | Step::Xor { object, .. }
            | Step::Zero { object, .. }
            | Step::Truncate { object, .. }
            | Step::Remove { object }
            | Step::SetAttr { object, .. }
            | Step::RemoveAttr { object, .. }
            | Step::OmapSet { object, .. }
            | Step::OmapRemove { object, .. }
            | Step::OmapRemoveRange { object, .. }
            | Step::OmapClear { object }
            | Step::OmapSetHeader { object, .. } => object.rehome(pool),
            Step::Clone { from, to } => {
                from.rehome(pool);
                to.rehome(pool);
            }
            Step::CloneRange { source, target, .. } => {
                source.rehome(pool);
                target.rehome(pool);
            }
            Step::PgSet { .. } | Step::PgRemove { .. } | Step::PgRemoveRange { .. } | Step::PgDestroy { .. } => {}
        }
    }
}

/// Renames in some fields of a struct. All its fields are told, so that a new one cannot be forgotten.
macro_rules! rehome {
    ($($ty:ident { $($renamed:ident),* $(,)? } keeps { $($kept:ident),* $(,)? })*) => {
        $(impl Rehome for $ty {
            fn rehome(&mut self, pool: PoolId) {
                let $ty { $($renamed,)* $($kept: _,)* } = self;
                $($renamed.rehome(pool);)*
            }
        })*
    };
}

rehome! {
    LogEntry { object } keeps {
        version, kind, prior_version, reqid, user_version, mtime, result, op_results, undo, skipped, voids,
    }
    PgInfo { last_backfill } keeps {
        last_update, log_tail, last_epoch_started, complete, created, last_user_version, stats, pg_num,
        rolled_forward, own_in, own_until, answered,
    }
    MemberState { info, missing } keeps {}
    ScrubMap { until, objects } keeps { list_error }
    ObjectScan { object } keeps {
        size_bytes, info, attrs_crc, attrs, omap_keys, omap_bytes, omap_crc, omap_digest, data_crc, fingerprints,
        read_error, metadata_error,
    }
    ScrubMark { cursor } keeps {
        light_at, light_version, deep_at, deep_version, clean_at, shallow_errors, deep_errors, repaired, omap_keys,
        omap_bytes, undecided, large_omaps,
    }
    ScrubCursor { next } keeps { shallow_errors, deep_errors, omap_keys, omap_bytes, undecided, large_omaps }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coded::undo::Undo;
    use crate::group::log::LogKind;
    use crate::messages::PgInterval;
    use crate::messages::replication::RepOp;
    use crate::messages::table::GroupMessage;
    use types::{EVersion, Epoch, PgId, SnapId};
    use wire::{Header, Message, Reader, Rope, Target, Writer};

    #[test]
    fn all_states_of_an_object_come_to_the_receivers_pool() {
        let head = |pool| ObjectId::head(pool, 1, b"", b"x");
        let clone = |pool| ObjectId { snap: SnapId(3), ..head(pool) };
        let entry = |object: ObjectId, version, undo| LogEntry {
            undo,
            ..LogEntry::new(EVersion::new(2, version), LogKind::Modify, object)
        };
        let update = |pool, undo: Undo| RepOp {
            pg: PgInterval { pgid: PgId { pool: PoolId(4), seed: 1 }, since: Epoch(2) },
            entry: entry(head(pool), 8, undo.clone()),
            others: vec![entry(clone(pool), 7, undo)],
            info: PgInfo::default(),
            committed: EVersion::ZERO,
            steps: vec![Step::Clone { from: head(pool), to: clone(pool) }],
            hops_wanted: false,
        };
        let (theirs, ours) = (PoolId(4).of_shard(2), PoolId(4).of_shard(0));
        for (undo, version) in [(Undo::Created, 4), (Undo::Nothing, 3)] {
            let mut w = Writer::new(Target::default());
            update(theirs, undo.clone()).encode_front(&mut w);
            let front = w.into_vec();
            assert_eq!(front[..2], [version, version]);
            let mut came = RepOp::decode(&Header::default(), &mut Reader::new(&front), &Rope::new()).expect("whole");
            came.rehome(ours);
            assert_eq!(came, update(ours, undo));
        }
    }

    #[test]
    fn objects_and_cursors_come_to_the_receivers_pool() {
        let (theirs, ours) = (PoolId(4).of_shard(2), PoolId(4).of_shard(0));
        let mut object = ObjectId::head(theirs, 1, b"", b"x");
        object.rehome(ours);
        assert_eq!(object, ObjectId::head(ours, 1, b"", b"x"));
        for mut cursor in [ObjectId::min(), ObjectId::max()] {
            let before = cursor.clone();
            cursor.rehome(ours);
            assert_eq!(cursor, before);
        }
        for seed in 0..5 {
            let range = |pool| osdmap::pg_range(types::PgId { pool, seed }, 5);
            let (mut from, mut until) = range(theirs);
            from.rehome(ours);
            until.rehome(ours);
            assert_eq!((from, until), range(ours));
        }
    }
}
