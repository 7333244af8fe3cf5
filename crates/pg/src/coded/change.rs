//! Changes that one update makes to the shards of an object.

use super::PoolCode;
use super::coding::encode;
use super::undo::Undo;
use crate::group::object_info::{OBJECT_INFO_ATTR, ObjectInfo};
use crate::group::pg::Pg;
use bytes::Bytes;
use ec::StripeLayout;
use mutant::Mutant;
use std::collections::BTreeSet;
use store::{ObjectStat, Step};
use types::ObjectId;
use wire::{Decode, Rope};

/// The part of an update that differs from shard to shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CodedChange {
    /// Means to take the update back, one for all shards.
    pub undo: Undo,
    /// Bytes that are written, in order and apart from each other. Each extent begins between stripes. Today there is
    /// at most one, which reaches to the object's end.
    pub extents: Vec<Extent>,
}

/// Bytes that are written to an object, from this offset on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Extent {
    pub offset: u64,
    pub data: Rope,
}

impl Extent {
    fn end(&self) -> u64 {
        self.offset + self.data.len() as u64
    }
}

/// Takes the data out of an update's `steps`, which replace `object` or add to it in whole stripes (the last one may be
/// short). What is left is the same on all shards; of other states of the object it clones and removes whole ones.
///
/// Panics if what is written is not one run of bytes: steps that write elsewhere are refused before they come here.
///
/// `before`: the primary's shard as it was, also of an object that is there in name only. `size_before`: of the object.
pub(crate) fn take_data(
    object: &ObjectId,
    steps: &mut Vec<Step>,
    before: Option<&ObjectStat>,
    size_before: u64,
    layout: &StripeLayout,
) -> CodedChange {
    let (mut replaced, mut extents) = (false, Vec::<Extent>::new());
    let mut attrs = BTreeSet::new();
    for step in steps.iter_mut().filter(|step| step.object() == Some(object)) {
        match step {
            Step::Remove { .. } | Step::Truncate { .. } | Step::Clone { .. } => {
                replaced = true;
                extents.clear();
            }
            Step::Write { data: more, offset, .. } => {
                let more = std::mem::take(more);
                match extents.last_mut().filter(|last| last.end() == *offset) {
                    Some(last) => last.data.append(more),
                    None if more.is_empty() => {}
                    None => extents.push(Extent { offset: *offset, data: more }),
                }
            }
            Step::SetAttr { name, .. } | Step::RemoveAttr { name, .. } => drop(attrs.insert(name.clone())),
            _ => {}
        }
    }
    steps.retain(|step| !matches!(step, Step::Write { .. }));
    assert!(
        extents.len() <= 1,
        "an update of {object} writes apart: {:?}",
        extents.iter().map(|e| e.offset).collect::<Vec<_>>()
    );
    let undo = match before {
        _ if steps.is_empty() => Undo::Nothing,
        None => Undo::Created,
        Some(_) if replaced => Undo::KeptBack,
        Some(before) => {
            let was = |name: Vec<u8>| {
                let value = before.attrs.get(&name).cloned();
                (Bytes::from(name), value)
            };
            Undo::Restore { shard_bytes: layout.shard_bytes(size_before), attrs: attrs.into_iter().map(was).collect() }
        }
    };
    CodedChange { undo, extents }
}

/// Has the object information that an update keeps tell what the shards are that it writes to, from `offset` of each
/// on.
fn digest_shards(object: &ObjectId, steps: &mut [Step], offset: u64, shards: &[Rope]) {
    let is_info = |step: &Step| matches!(step, Step::SetAttr { name, .. } if name == OBJECT_INFO_ATTR);
    let kept = steps.iter_mut().rev().find(|step| step.object() == Some(object) && is_info(step));
    let Some(Step::SetAttr { value, .. }) = kept else { return };
    let Ok(mut info) = ObjectInfo::from_slice(value) else { return };
    let offset = if mutant::is(Mutant::ShardDigestFromZero) { 0 } else { offset };
    info.digests.encoded(offset, shards);
    *value = info.to_bytes();
}

/// Bytes that are written to each shard.
pub(crate) struct ShardWrites {
    object: ObjectId,
    extents: Vec<ShardExtent>,
    /// Memory that the shards take beside that of the update, if it is much.
    pub new_bytes: usize,
}

/// One extent of the object on each shard, from the same offset on.
struct ShardExtent {
    offset: u64,
    shards: Vec<Rope>,
}

impl ShardWrites {
    /// Returns all steps of one shard: `steps`, which all shards have in common, and its own writes.
    pub fn of(&self, steps: &[Step], shard: Option<u8>) -> Vec<Step> {
        let mut steps = steps.to_vec();
        let of_shard = |extent: &ShardExtent| {
            let data = extent.shards.get(usize::from(shard?))?.clone();
            Some(Step::Write { object: self.object.clone(), offset: extent.offset, data })
        };
        steps.extend(self.extents.iter().filter_map(of_shard));
        steps
    }
}

impl Pg {
    /// Encodes what an update writes, and has the digests of what the shards are then among the update's `steps`, which
    /// all have in common. Panics in replicated pools.
    pub(crate) fn shard_steps(&self, object: &ObjectId, change: &CodedChange, steps: &mut [Step]) -> ShardWrites {
        let PoolCode { layout, code } = self.coded.code();
        let mut new_bytes = 0;
        let encoded = |extent: &Extent| {
            let of_extent = encode(code, layout, &extent.data);
            new_bytes += of_extent.new_bytes;
            ShardExtent { offset: layout.shard_bytes(extent.offset), shards: of_extent.shards }
        };
        let extents: Vec<ShardExtent> = change.extents.iter().map(encoded).collect();
        for extent in &extents {
            digest_shards(object, steps, extent.offset, &extent.shards);
        }
        ShardWrites { object: object.clone(), extents, new_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::PoolId;

    fn object() -> ObjectId {
        ObjectId::head(PoolId(4).of_shard(1), 7, b"", b"name")
    }

    fn info() -> Step {
        Step::SetAttr { object: object(), name: OBJECT_INFO_ATTR.to_vec(), value: Bytes::from_static(b"new") }
    }

    fn write(offset: u64, text: &'static [u8]) -> Step {
        Step::Write { object: object(), offset, data: Rope::from(Bytes::from_static(text)) }
    }

    fn check(mut steps: Vec<Step>, size_before: Option<u64>, undo: Undo, written: &[(u64, &[u8])], left: usize) {
        let layout = StripeLayout::new(2, 4096).expect("a layout");
        let attrs = [(OBJECT_INFO_ATTR.to_vec(), Bytes::from_static(b"old"))].into_iter().collect();
        let before = size_before.map(|_| ObjectStat { size_bytes: 4096, attrs, has_omap: false });
        let change = take_data(&object(), &mut steps, before.as_ref(), size_before.unwrap_or(0), &layout);
        let extents: Vec<(u64, Vec<u8>)> = change.extents.iter().map(|e| (e.offset, e.data.to_vec())).collect();
        let written: Vec<(u64, Vec<u8>)> = written.iter().map(|(offset, data)| (*offset, data.to_vec())).collect();
        assert_eq!((change.undo, extents), (undo, written));
        assert_eq!(steps.len(), left);
    }

    #[test]
    fn each_update_can_be_taken_back_in_the_cheapest_way() {
        let old = || vec![(Bytes::from_static(OBJECT_INFO_ATTR), Some(Bytes::from_static(b"old")))];
        let touch = || Step::Touch { object: object() };
        check(vec![touch(), write(0, b"abc"), info()], None, Undo::Created, &[(0, b"abc")], 2);
        let appended = Undo::Restore { shard_bytes: 4096, attrs: old() };
        check(vec![write(8192, b"abc"), info()], Some(8192), appended.clone(), &[(8192, b"abc")], 1);
        check(vec![info()], Some(8192), appended.clone(), &[], 1);
        let two = vec![write(8192, b"abc"), write(8195, b"de"), info()];
        check(two, Some(8192), appended, &[(8192, b"abcde")], 1);
        let cut = || Step::Truncate { object: object(), size: 0 };
        check(vec![write(8192, b"gone"), cut(), write(0, b"x"), info()], Some(8192), Undo::KeptBack, &[(0, b"x")], 2);
        check(vec![Step::Remove { object: object() }], Some(5), Undo::KeptBack, &[], 1);
        check(vec![], Some(5), Undo::Nothing, &[], 0);
    }

    #[test]
    #[should_panic(expected = "writes apart: [8192, 16384]")]
    fn writes_that_leave_a_gap_are_not_taken_for_one() {
        check(vec![write(8192, b"abc"), write(16384, b"de"), info()], Some(8192), Undo::Nothing, &[], 1);
    }

    #[test]
    fn states_that_come_and_go_beside_the_object_are_not_its_own_change() {
        let clone = ObjectId { snap: types::SnapId(4), ..object() };
        let of_clone = |name: &[u8]| Step::SetAttr {
            object: clone.clone(),
            name: name.to_vec(),
            value: Bytes::from_static(b"clone's"),
        };
        let old = || vec![(Bytes::from_static(OBJECT_INFO_ATTR), Some(Bytes::from_static(b"old")))];
        let appended = Undo::Restore { shard_bytes: 4096, attrs: old() };
        let keep = || Step::Clone { from: object(), to: clone.clone() };
        let preserving = |step: Step| vec![keep(), of_clone(OBJECT_INFO_ATTR), of_clone(b"snaps"), step, info()];
        check(preserving(write(8192, b"abc")), Some(8192), appended.clone(), &[(8192, b"abc")], 4);
        let trimmed = vec![Step::Remove { object: clone.clone() }, info()];
        check(trimmed, Some(8192), appended, &[], 2);
        // Bytes that are added to a state that was gone back to begin where that one ends.
        let back = || Step::Clone { from: clone.clone(), to: object() };
        check(vec![back(), write(16384, b"abc"), info()], Some(5), Undo::KeptBack, &[(16384, b"abc")], 2);
        check(vec![back(), info()], None, Undo::Created, &[], 2);
    }
}
