//! Means by which a shard takes an update back by itself.
//!
//! An update that fewer shards have than are needed to read it can be neither completed nor rebuilt: it is taken back
//! where it is. No client was answered for it. Each shard keeps what that takes with its log entry, until it is known
//! that the update will stay.

use bytes::Bytes;
use mutant::Mutant;
use std::ops::Range;
use store::Step;
use types::{EVersion, ObjectId, SnapId};
use wire::{Decode, DecodeError, Encode, Reader, Writer};

/// Way in which one shard takes one update back.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Undo {
    /// The update changed nothing, or the pool is replicated: there members take updates back by copying the object.
    #[default]
    Nothing,
    /// The object was not there before.
    Created,
    /// The object was appended to, or only its attributes changed: it was so long on this shard, and these attributes
    /// were as given (`None`: absent).
    Restore { shard_bytes: u64, attrs: Vec<(Bytes, Option<Bytes>)> },
    /// Parts of the object were overwritten, and it may have grown: it was so long on this shard, what it held in these
    /// ranges is kept back (see [`kept_back`]) at the same offsets, these attributes were as given, and so was its
    /// omap.
    Overwritten { ranges: Vec<ShardRange>, shard_bytes: u64, attrs: Vec<(Bytes, Option<Bytes>)>, omap: FormerOmap },
    /// The shard keeps the whole former object under another name ([`kept_back`]).
    KeptBack,
    /// This shard did not carry the update out by its own steps, and cannot take it back: it got the object in another
    /// way, or does not have it.
    Lost,
}

/// The former state of that part of an object's omap which an update changes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FormerOmap {
    /// `None`: there was no such key.
    pub entries: Vec<(Bytes, Option<Bytes>)>,
    /// `None`: the update does not change it.
    pub header: Option<Bytes>,
}

impl FormerOmap {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.header.is_none()
    }

    /// Returns the steps that make the omap of the object what it was.
    fn steps(&self, object: &ObjectId) -> impl Iterator<Item = Step> + use<> {
        let (mut set, mut removed) = (Vec::new(), Vec::new());
        for (key, value) in &self.entries {
            match value {
                Some(value) => set.push((key.clone(), value.clone())),
                None => removed.push(key.clone()),
            }
        }
        let removed = (!removed.is_empty()).then(|| Step::OmapRemove { object: object.clone(), keys: removed });
        let set = (!set.is_empty()).then(|| Step::OmapSet { object: object.clone(), entries: set });
        let header = self.header.clone().map(|header| Step::OmapSetHeader { object: object.clone(), header });
        [removed, set, header].into_iter().flatten()
    }
}

/// Bytes of an object's shard, from this offset of the shard on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShardRange {
    pub offset: u64,
    pub len: u64,
}

impl ShardRange {
    /// Most bytes of one part of a range.
    const BYTES_MAX: u64 = 64 << 20;

    /// Returns the parts of a range, each so short that one step copies it.
    pub(crate) fn pieces(range: Range<u64>) -> impl Iterator<Item = ShardRange> {
        let end = range.end;
        let piece = move |offset: u64| ShardRange { offset, len: Self::BYTES_MAX.min(end - offset) };
        range.step_by(Self::BYTES_MAX as usize).map(piece)
    }

    /// Returns the step that makes the target's bytes in this range those of the source, which must exist.
    fn copied(self, source: &ObjectId, target: &ObjectId) -> Step {
        Step::CloneRange {
            source: source.clone(),
            target: target.clone(),
            source_offset: self.offset,
            length: self.len,
            target_offset: self.offset,
        }
    }
}

const _: () = assert!(ShardRange::BYTES_MAX <= store::CLONE_RANGE_BYTES_MAX, "one step of the store clones a part");

/// Returns the name under which a shard keeps what an object was before its update `version`.
pub fn kept_back(object: &ObjectId, version: EVersion) -> ObjectId {
    ObjectId { pool: object.pool.kept_back(), snap: SnapId(version.version), ..object.clone() }
}

impl Undo {
    /// Returns the steps that are carried out together with the update, before its own.
    pub(crate) fn prepare(&self, object: &ObjectId, version: EVersion) -> Vec<Step> {
        let kept = || kept_back(object, version);
        match self {
            Undo::KeptBack => vec![Step::Clone { from: object.clone(), to: kept() }],
            Undo::Overwritten { ranges, .. } => ranges.iter().map(|range| range.copied(object, &kept())).collect(),
            Undo::Nothing | Undo::Created | Undo::Restore { .. } | Undo::Lost => Vec::new(),
        }
    }

    /// Returns the step that removes what was kept back, to be carried out once the update will stay.
    pub(crate) fn forget(&self, object: &ObjectId, version: EVersion) -> Option<Step> {
        let keeps = match self {
            Undo::KeptBack => true,
            Undo::Overwritten { ranges, .. } => !ranges.is_empty(),
            Undo::Nothing | Undo::Created | Undo::Restore { .. } | Undo::Lost => false,
        };
        keeps.then(|| Step::Remove { object: kept_back(object, version) })
    }

    /// Returns the steps that make the object what it was before the update. `None`: this shard cannot.
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
                steps.extend(former_attrs(&object(), attrs));
                Some(steps)
            }
            Undo::Overwritten { ranges, shard_bytes, attrs, omap } => {
                let kept = kept_back(&object(), version);
                let mut steps: Vec<Step> = ranges.iter().map(|range| range.copied(&kept, &object())).collect();
                if mutant::is(Mutant::OverwriteNotUndone) {
                    steps.clear();
                }
                steps.push(Step::Truncate { object: object(), size: *shard_bytes });
                steps.extend(former_attrs(&object(), attrs));
                if !mutant::is(Mutant::OmapNotUndone) {
                    steps.extend(omap.steps(&object()));
                }
                steps.extend((!ranges.is_empty()).then_some(Step::Remove { object: kept }));
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

/// Returns the steps that make the object's attributes what they were.
fn former_attrs(object: &ObjectId, attrs: &[(Bytes, Option<Bytes>)]) -> impl Iterator<Item = Step> {
    attrs.iter().map(|(name, value)| match value {
        Some(value) => Step::SetAttr { object: object.clone(), name: name[..].to_vec(), value: value.clone() },
        None => Step::RemoveAttr { object: object.clone(), name: name[..].to_vec() },
    })
}

const NOTHING: u8 = 0;
const CREATED: u8 = 1;
const RESTORE: u8 = 2;
const KEPT_BACK: u8 = 3;
const LOST: u8 = 4;
const OVERWRITTEN: u8 = 5;
/// As [`OVERWRITTEN`], with the omap behind.
const OMAP_CHANGED: u8 = 6;

impl Encode for Undo {
    fn encode(&self, w: &mut Writer) {
        match self {
            Undo::Nothing => w.u8(NOTHING),
            Undo::Created => w.u8(CREATED),
            Undo::Restore { shard_bytes, attrs } => {
                w.u8(RESTORE);
                encode_former(*shard_bytes, attrs, w);
            }
            Undo::Overwritten { ranges, shard_bytes, attrs, omap } => {
                w.u8(if omap.is_empty() { OVERWRITTEN } else { OMAP_CHANGED });
                w.count(ranges.len());
                for range in ranges {
                    w.u64(range.offset);
                    w.u64(range.len);
                }
                encode_former(*shard_bytes, attrs, w);
                if !omap.is_empty() {
                    encode_pairs(&omap.entries, w);
                    w.put(&omap.header);
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
        Ok(match r.u8()? {
            NOTHING => Undo::Nothing,
            CREATED => Undo::Created,
            RESTORE => {
                let (shard_bytes, attrs) = decode_former(r)?;
                Undo::Restore { shard_bytes, attrs }
            }
            code @ (OVERWRITTEN | OMAP_CHANGED) => {
                let count = r.count("ranges of an undo", 16)?;
                let ranges = (0..count).map(|_| Ok(ShardRange { offset: r.u64()?, len: r.u64()? }));
                let ranges = ranges.collect::<Result<_, DecodeError>>()?;
                let (shard_bytes, attrs) = decode_former(r)?;
                let omap = match code {
                    OVERWRITTEN => FormerOmap::default(),
                    _ => FormerOmap { entries: decode_pairs(r)?, header: r.get::<Option<Bytes>>()?.map(own) },
                };
                Undo::Overwritten { ranges, shard_bytes, attrs, omap }
            }
            KEPT_BACK => Undo::KeptBack,
            LOST => Undo::Lost,
            other => return Err(DecodeError::Value { what: "undo code", value: other.into() }),
        })
    }
}

fn encode_former(shard_bytes: u64, attrs: &[(Bytes, Option<Bytes>)], w: &mut Writer) {
    w.u64(shard_bytes);
    encode_pairs(attrs, w);
}

fn encode_pairs(pairs: &[(Bytes, Option<Bytes>)], w: &mut Writer) {
    w.count(pairs.len());
    for (name, value) in pairs {
        w.put(name);
        w.put(value);
    }
}

/// Length of the object on this shard, and attributes that it had.
type Former = (u64, Vec<(Bytes, Option<Bytes>)>);

fn decode_former(r: &mut Reader<'_>) -> Result<Former, DecodeError> {
    Ok((r.u64()?, decode_pairs(r)?))
}

/// Bytes that are kept for long: they do not pin what they came in.
fn own(bytes: Bytes) -> Bytes {
    Bytes::copy_from_slice(&bytes)
}

/// Names or keys, and their values.
fn decode_pairs(r: &mut Reader<'_>) -> Result<Vec<(Bytes, Option<Bytes>)>, DecodeError> {
    let count = r.count("values of an undo", 5)?;
    (0..count).map(|_| Ok((own(r.get()?), r.get::<Option<Bytes>>()?.map(own)))).collect()
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
        let ranges = proptest::collection::vec((any::<u64>(), any::<u64>()), 0..4);
        prop_oneof![
            Just(Undo::Nothing),
            Just(Undo::Created),
            Just(Undo::KeptBack),
            Just(Undo::Lost),
            (any::<u64>(), attrs.clone()).prop_map(|(shard_bytes, attrs)| Undo::Restore { shard_bytes, attrs }),
            (ranges, any::<u64>(), attrs.clone(), attrs, proptest::option::of(bytes())).prop_map(
                |(ranges, shard_bytes, attrs, entries, header)| {
                    let ranges = ranges.into_iter().map(|(offset, len)| ShardRange { offset, len }).collect();
                    Undo::Overwritten { ranges, shard_bytes, attrs, omap: FormerOmap { entries, header } }
                }
            ),
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
