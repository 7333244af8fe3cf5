//! What a shard needs to take an update back by itself.
//!
//! An update that fewer shards have than are needed to read it can be neither completed nor rebuilt: it is taken back
//! where it is. No client was answered for it. Each shard keeps what that takes with its log entry, until it is known
//! that the update will stay.

use bytes::Bytes;
use mutant::Mutant;
use store::Step;
use types::{EVersion, ObjectId, SnapId};
use wire::{Decode, DecodeError, Encode, Reader, Writer};

/// How one shard takes one update back.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Undo {
    /// Nothing has changed; or the pool is replicated, where updates are taken back by copying.
    #[default]
    Nothing,
    /// The object was not there before.
    Created,
    /// The object was appended to, or only its attributes changed: it was so long on this shard, and these attributes
    /// were as given (`None`: absent).
    Restore { shard_bytes: u64, attrs: Vec<(Bytes, Option<Bytes>)> },
    /// The whole object, as it was, is kept back (see [`kept_back`]).
    KeptBack,
    /// This shard did not carry the update out by itself: the object came otherwise, or not at all.
    Lost,
}

/// Where a shard keeps what an object was before its update `version`.
pub fn kept_back(object: &ObjectId, version: EVersion) -> ObjectId {
    ObjectId { pool: object.pool.kept_back(), snap: SnapId(version.version), ..object.clone() }
}

impl Undo {
    /// What must be done together with the update, before its own steps.
    pub(crate) fn prepare(&self, object: &ObjectId, version: EVersion) -> Option<Step> {
        matches!(self, Undo::KeptBack).then(|| Step::Clone { from: object.clone(), to: kept_back(object, version) })
    }

    /// What is to be removed once the update will stay.
    pub(crate) fn forget(&self, object: &ObjectId, version: EVersion) -> Option<Step> {
        matches!(self, Undo::KeptBack).then(|| Step::Remove { object: kept_back(object, version) })
    }

    /// What makes the object what it was before the update. `None`: this shard cannot.
    pub(crate) fn steps(&self, object: &ObjectId, version: EVersion) -> Option<Vec<Step>> {
        let object = || object.clone();
        match self {
            Undo::Nothing => Some(Vec::new()),
            Undo::Created => Some(vec![Step::Remove { object: object() }]),
            Undo::Restore { shard_bytes, attrs } => {
                let mut steps = vec![Step::Truncate { object: object(), size: *shard_bytes }];
                if mutant::is(Mutant::AppendNotUndone) {
                    steps.clear();
                }
                steps.extend(attrs.iter().map(|(name, value)| match value {
                    Some(value) => Step::SetAttr { object: object(), name: name[..].to_vec(), value: value.clone() },
                    None => Step::RemoveAttr { object: object(), name: name[..].to_vec() },
                }));
                Some(steps)
            }
            Undo::KeptBack => {
                let kept = kept_back(&object(), version);
                if mutant::is(Mutant::KeptBackNotRestored) {
                    return Some(vec![Step::Remove { object: kept }]);
                }
                Some(vec![
                    Step::Remove { object: object() },
                    Step::Clone { from: kept.clone(), to: object() },
                    Step::Remove { object: kept },
                ])
            }
            Undo::Lost => None,
        }
    }
}

const NOTHING: u8 = 0;
const CREATED: u8 = 1;
const RESTORE: u8 = 2;
const KEPT_BACK: u8 = 3;
const LOST: u8 = 4;

impl Encode for Undo {
    fn encode(&self, w: &mut Writer) {
        match self {
            Undo::Nothing => w.u8(NOTHING),
            Undo::Created => w.u8(CREATED),
            Undo::Restore { shard_bytes, attrs } => {
                w.u8(RESTORE);
                w.u64(*shard_bytes);
                w.count(attrs.len());
                for (name, value) in attrs {
                    w.put(name);
                    w.put(value);
                }
            }
            Undo::KeptBack => w.u8(KEPT_BACK),
            Undo::Lost => w.u8(LOST),
        }
    }
}

impl Decode for Undo {
    const MIN_BYTES: usize = 1;

    fn decode(r: &mut Reader<'_>) -> Result<Undo, DecodeError> {
        // Kept for long: it must not pin what it came in.
        let own = |bytes: Bytes| Bytes::copy_from_slice(&bytes);
        Ok(match r.u8()? {
            NOTHING => Undo::Nothing,
            CREATED => Undo::Created,
            RESTORE => {
                let shard_bytes = r.u64()?;
                let count = r.count("attributes of an undo", 5)?;
                let attrs = (0..count).map(|_| Ok((own(r.get()?), r.get::<Option<Bytes>>()?.map(own))));
                Undo::Restore { shard_bytes, attrs: attrs.collect::<Result<_, DecodeError>>()? }
            }
            KEPT_BACK => Undo::KeptBack,
            LOST => Undo::Lost,
            other => return Err(DecodeError::Value { what: "undo code", value: other.into() }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use types::PoolId;
    use wire::Target;

    fn undo() -> impl Strategy<Value = Undo> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..9).prop_map(Bytes::from);
        let attrs = proptest::collection::vec((bytes(), proptest::option::of(bytes())), 0..4);
        prop_oneof![
            Just(Undo::Nothing),
            Just(Undo::Created),
            Just(Undo::KeptBack),
            Just(Undo::Lost),
            (any::<u64>(), attrs).prop_map(|(shard_bytes, attrs)| Undo::Restore { shard_bytes, attrs }),
        ]
    }

    proptest! {
        #[test]
        fn every_undo_reads_back(undo in undo()) {
            prop_assert_eq!(Undo::from_slice(&undo.to_vec(Target::default())).unwrap(), undo);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = Undo::from_slice(&bytes);
        }
    }

    #[test]
    fn what_is_kept_back_is_where_nothing_else_is() {
        let object = |pool: PoolId| ObjectId::head(pool, 7, b"", b"name");
        let shards: Vec<PoolId> = (0..3).map(|shard| PoolId(5).of_shard(shard)).collect();
        let kept: Vec<ObjectId> = shards.iter().map(|pool| kept_back(&object(*pool), EVersion::new(3, 9))).collect();
        for (shard, kept) in shards.iter().zip(&kept) {
            let (from, until) = osdmap::pg_range(types::PgId { pool: *shard, seed: 0 }, 1);
            assert!(from <= object(*shard) && object(*shard) < until);
            assert!(!(from <= *kept && *kept < until));
            let (from, until) = osdmap::pg_range(types::PgId { pool: shard.kept_back(), seed: 0 }, 1);
            assert!(from <= *kept && *kept < until);
            assert_eq!((shard.base(), kept.pool.base()), (PoolId(5), PoolId(5)));
        }
        assert!(kept[0] != kept[1] && kept_back(&object(shards[0]), EVersion::new(3, 10)) != kept[0]);
    }
}
