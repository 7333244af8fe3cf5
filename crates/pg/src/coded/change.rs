//! Changes that one update makes to the shards of an object.

use super::coding::encode;
use super::pool_code::PoolCode;
use super::rewrite::{Rewrite, Stripes};
use super::skipped::Skipped;
use super::undo::{FormerOmap, ShardRange, Undo};
use crate::group::log::LogEntry;
use crate::group::object_info::{OBJECT_INFO_ATTR, ObjectInfo};
use bytes::Bytes;
use ec::{ShardSet, StripeLayout};
use mutant::Mutant;
use std::collections::BTreeSet;
use std::ops::Range;
use store::{ObjectStat, Step};
use types::{BLOCK_BYTES, ObjectId};
use wire::{Decode, Rope};

/// The part of an update that differs from shard to shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CodedChange {
    /// Means to take the update back on shards on which bytes change.
    pub undo: Undo,
    /// Means to take it back on the other shards.
    undo_unwritten: Undo,
    /// Bytes that are written, in order and apart from each other. Each extent begins between stripes.
    pub extents: Vec<Stripes>,
    /// The object had bytes in its stripes up to here.
    old_end: u64,
    /// Length of each shard after the update, if there is an object then.
    shard_bytes: u64,
    /// Digests of shards can be kept up.
    only_appends: bool,
}

/// The omap of an object before an update.
pub(crate) enum OmapBefore {
    /// Entries that the update changes; none, of most updates.
    Changed(FormerOmap),
    /// The update changes more entries than are kept with the log.
    TooMuch,
}

impl OmapBefore {
    /// The update leaves the omap as it is.
    pub const SAME: OmapBefore = OmapBefore::Changed(FormerOmap { entries: Vec::new(), header: None });
}

/// Takes the data out of an update's `steps` of `object`; `rewrite` is what they make of its bytes, with all old bytes
/// that it wants. What is left is the same on all shards, and counts bytes of shards; of other states of the object it
/// clones and removes whole ones.
///
/// `before`: the primary's shard as it was, also of an object that is there in name only. `size_before`: of the object.
pub(crate) fn take_data(
    object: &ObjectId,
    steps: &mut Vec<Step>,
    before: Option<&ObjectStat>,
    size_before: u64,
    rewrite: &Rewrite,
    omap_before: OmapBefore,
    layout: &StripeLayout,
) -> CodedChange {
    let (mut replaced, omap) = match omap_before {
        OmapBefore::Changed(omap) => (false, omap),
        OmapBefore::TooMuch => (true, FormerOmap::default()),
    };
    let mut attrs = BTreeSet::new();
    let mut size = size_before;
    for step in steps.iter_mut().filter(|step| step.object() == Some(object)) {
        match step {
            Step::Remove { .. } | Step::Clone { .. } => replaced = true,
            Step::Truncate { size: to, .. } => {
                replaced |= *to == 0 || *to < size;
                size = *to;
                *to = layout.shard_bytes(size);
            }
            Step::Write { offset, data, .. } => size = size.max(*offset + data.len() as u64),
            Step::SetAttr { name, .. } | Step::RemoveAttr { name, .. } => drop(attrs.insert(name.clone())),
            _ => {}
        }
    }
    steps.retain(|step| match step {
        Step::Write { .. } => false,
        Step::Zero { object: of, .. } => of != object,
        _ => true,
    });
    let punched = rewrite.punched();
    steps.extend(punched.iter().map(|range| {
        let (offset, len) = (layout.shard_bytes(range.start), layout.shard_bytes(range.end - range.start));
        Step::Zero { object: object.clone(), offset, len }
    }));
    let extents = rewrite.stripes();
    let old_end = rewrite.old_end();
    let (undo, undo_unwritten) = match before {
        _ if steps.is_empty() => (Undo::Nothing, Undo::Nothing),
        None => (Undo::Created, Undo::Created),
        Some(_) if replaced => (Undo::KeptBack, Undo::KeptBack),
        Some(before) => {
            let was = |name: Vec<u8>| {
                let value = before.attrs.get(&name).cloned();
                (Bytes::from(name), value)
            };
            let attrs: Vec<_> = attrs.into_iter().map(was).collect();
            let shard_bytes = layout.shard_bytes(size_before);
            let restore = Undo::Restore { shard_bytes, attrs: attrs.clone() };
            let of_range = |range: Range<u64>| {
                let (start, end) = (layout.shard_bytes(range.start), layout.shard_bytes(range.end).min(shard_bytes));
                ShardRange::pieces(start..end)
            };
            let written = extents.iter().map(|extent| extent.offset..extent.offset + extent.data.len() as u64);
            let of_punched: Vec<ShardRange> = punched.iter().cloned().flat_map(of_range).collect();
            let ranges: Vec<ShardRange> = written.flat_map(of_range).chain(of_punched.iter().copied()).collect();
            let undo = |ranges: Vec<ShardRange>, attrs, omap: FormerOmap| match ranges.is_empty() && omap.is_empty() {
                true => restore.clone(),
                false => Undo::Overwritten { ranges, shard_bytes, attrs, omap },
            };
            (undo(ranges, attrs.clone(), omap.clone()), undo(of_punched, attrs, omap))
        }
    };
    let (shard_bytes, only_appends) = (layout.shard_bytes(rewrite.size()), rewrite.only_appends());
    CodedChange { undo, undo_unwritten, extents, old_end, shard_bytes, only_appends }
}

/// Adds the digests of the shards that an update writes, from `offset` of each on, to the object information that it
/// keeps.
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
    /// Length of each shard after the update, if one of them does not become so long by its writes.
    grows_to: Option<u64>,
    /// Shards become longer.
    is_longer: bool,
    /// Number of data shards, which are the first ones.
    k: usize,
    undo_unwritten: Undo,
    /// Memory that the shards take beside that of the update, if it is much.
    pub new_bytes: usize,
}

/// The part of each shard in one extent of the object. `None`: the extent leaves the shard as it is.
struct ShardExtent {
    shards: Vec<Option<ShardWrite>>,
}

/// Bytes that a shard writes from this offset of the shard on, or by which its bytes change (exclusive or).
#[derive(Clone, PartialEq, Eq, Debug)]
struct ShardWrite {
    offset: u64,
    data: Rope,
    is_difference: bool,
}

impl ShardWrites {
    /// Returns all steps of one shard: `steps`, which all shards have in common, and its own writes.
    pub fn of(&self, steps: &[Step], shard: Option<u8>) -> Vec<Step> {
        let mut steps = steps.to_vec();
        steps.extend(self.writes(shard).cloned().map(|ShardWrite { offset, data, is_difference }| {
            let object = self.object.clone();
            match is_difference {
                true => Step::Xor { object, offset, data },
                false => Step::Write { object, offset, data },
            }
        }));
        let grown = self.grows_to.map(|size| Step::Truncate { object: self.object.clone(), size });
        steps.extend(grown);
        steps
    }

    /// Returns the shards that the update skips, with what they take instead. `steps`: those that all shards have in
    /// common. An update skips shards if these are the same after it but for the object information: it overwrites
    /// parts of stripes, and changes nothing else.
    pub fn skipped(&self, steps: &[Step]) -> Skipped {
        let Undo::Restore { shard_bytes, attrs } = &self.undo_unwritten else { return Skipped::default() };
        let [Step::SetAttr { object, name, value }] = steps else { return Skipped::default() };
        let [(name_before, Some(info_before))] = &attrs[..] else { return Skipped::default() };
        let is_info = |name: &[u8]| name == OBJECT_INFO_ATTR;
        let is_edge = *object == self.object && is_info(name) && is_info(name_before) && self.grows_to.is_none();
        if !is_edge || self.is_longer || self.extents.is_empty() {
            return Skipped::default();
        }
        let count = self.extents[0].shards.len();
        let shards: ShardSet = (0..count).filter(|shard| self.writes(Some(*shard as u8)).next().is_none()).collect();
        // Any k shards that are read, or agree on the group's log, have at least one that the update writes.
        let is_parity_written = shards.is_subset(ShardSet::first(self.k));
        if shards.is_empty() || shards.len() >= self.k || !is_parity_written {
            return Skipped::default();
        }
        let (info, info_before) = (value.clone(), info_before.clone());
        Skipped { shards, info, info_before, shard_bytes: *shard_bytes }
    }

    fn writes(&self, shard: Option<u8>) -> impl Iterator<Item = &ShardWrite> {
        self.extents.iter().filter_map(move |extent| extent.shards.get(usize::from(shard?))?.as_ref())
    }

    /// The update's own entry as this shard keeps it.
    pub fn entry(&self, entry: &LogEntry, shard: Option<u8>) -> LogEntry {
        let is_unwritten = shard.is_some() && self.writes(shard).next().is_none() && !self.extents.is_empty();
        let undo = if is_unwritten { &self.undo_unwritten } else { &entry.undo };
        LogEntry { undo: undo.clone(), ..entry.clone() }
    }
}

/// The part of one shard's bytes of an extent that it writes. `bytes`: all of them; where the extent's change is known
/// only, those of the change. Blocks behind all that the object has on the shard, or for a parity shard on any, are not
/// written: nothing was there, and what is not there is zeros.
fn written(extent: &Stripes, layout: &StripeLayout, old_end: u64, shard: usize, bytes: &Rope) -> Option<ShardWrite> {
    let begin = layout.shard_bytes(extent.offset);
    let data_end = layout.padded_bytes(extent.offset + extent.data.len() as u64);
    let is_data = shard < layout.k();
    if data_end > old_end {
        let end = extent.offset + extent.data.len() as u64;
        // It fits: bytes in memory.
        let used = (layout.used_shard_bytes(end, if is_data { shard } else { 0 }) - begin) as usize;
        // Whole blocks have their checksums already; little is kept without a block.
        let len = if used <= BLOCK_BYTES / 2 { used } else { used.next_multiple_of(BLOCK_BYTES).min(bytes.len()) };
        return (len > 0).then(|| ShardWrite { offset: begin, data: bytes.slice(0, len), is_difference: false });
    }
    let of_shard = |part: &Range<u64>| match is_data {
        true => layout.shard_range(shard, part.clone()),
        false if mutant::is(Mutant::ParityNotWritten) => 0..0,
        false => layout.parity_range(part.clone()),
    };
    let parts = extent.changed.iter().map(of_shard).filter(|part| !part.is_empty());
    let part = parts.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end))?;
    let (offset, len) = ((part.start - begin) as usize, (part.end - part.start) as usize);
    match (&extent.difference, &extent.changed[..]) {
        (Some(_), [changed]) if is_data => {
            let mut data = Rope::new();
            for piece in layout.pieces(changed.clone()).filter(|piece| piece.shard == shard) {
                let at = (piece.logical_offset - extent.offset) as usize;
                data.append(extent.data.slice(at, piece.bytes as usize));
            }
            Some(ShardWrite { offset: part.start, data, is_difference: false })
        }
        (difference, _) => {
            let is_difference = difference.is_some() && !mutant::is(Mutant::DifferenceWritten);
            Some(ShardWrite { offset: part.start, data: bytes.slice(offset, len), is_difference })
        }
    }
}

impl PoolCode {
    /// Encodes what an update writes, and has the digests of what the shards are then among the update's `steps`, which
    /// all have in common.
    pub(crate) fn shard_steps(&self, object: &ObjectId, change: &CodedChange, steps: &mut [Step]) -> ShardWrites {
        let PoolCode { layout, code } = self;
        let mut new_bytes = 0;
        let encoded = |extent: &Stripes| {
            // Parity of the change is the change of parity.
            let of_extent = encode(code, layout, extent.difference.as_ref().unwrap_or(&extent.data));
            new_bytes += of_extent.new_bytes;
            if change.only_appends {
                digest_shards(object, steps, layout.shard_bytes(extent.offset), &of_extent.shards);
            }
            let shards = of_extent.shards.iter().enumerate();
            let part = |(shard, bytes)| written(extent, layout, change.old_end, shard, bytes);
            ShardExtent { shards: shards.map(part).collect() }
        };
        let extents: Vec<ShardExtent> = change.extents.iter().map(encoded).collect();
        let undo_unwritten = change.undo_unwritten.clone();
        let grows = |extent: &Stripes| layout.padded_bytes(extent.offset + extent.data.len() as u64) > change.old_end;
        let is_short = change
            .extents
            .last()
            .is_some_and(|extent| grows(extent) && !extent.data.len().is_multiple_of(layout.stripe_bytes() as usize));
        let grows_to = is_short.then_some(change.shard_bytes);
        let is_longer = change.extents.iter().any(grows);
        ShardWrites { object: object.clone(), extents, grows_to, is_longer, k: layout.k(), undo_unwritten, new_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coded::rewrite::zeros;
    use ec::{Code, Technique};
    use proptest::prelude::*;
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
        let size_before = size_before.unwrap_or(0);
        let mut rewrite = Rewrite::of(&object(), &steps, size_before, 16384, layout);
        for range in rewrite.wanted() {
            rewrite.fill(range.start, zeros(range.end - range.start));
        }
        let change =
            take_data(&object(), &mut steps, before.as_ref(), size_before, &rewrite, OmapBefore::SAME, &layout);
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
    fn what_is_overwritten_is_kept_where_it_is() {
        let old = || vec![(Bytes::from_static(OBJECT_INFO_ATTR), Some(Bytes::from_static(b"old")))];
        let kept = |ranges: &[(u64, u64)], shard_bytes| {
            let ranges = ranges.iter().map(|(offset, len)| ShardRange { offset: *offset, len: *len }).collect();
            Undo::Overwritten { ranges, shard_bytes, attrs: old(), omap: FormerOmap::default() }
        };
        let restored = |shard_bytes| Undo::Restore { shard_bytes, attrs: old() };
        let stripe = |text: &[u8], at: usize| {
            let mut stripe = vec![0; 8192];
            stripe[at..at + text.len()].copy_from_slice(text);
            stripe
        };
        let two = vec![write(8192, b"abc"), write(24579, b"de"), info()];
        let (first, second) = (stripe(b"abc", 0), stripe(b"de", 3));
        check(two, Some(40000), kept(&[(4096, 4096), (12288, 4096)], 20480), &[(8192, &first), (24576, &second)], 1);
        // Within the last stripe, and behind it.
        let last = stripe(b"abc", 7000);
        check(
            vec![write(8192 + 7000, b"abc"), info()],
            Some(9000),
            kept(&[(4096, 4096)], 8192),
            &[(8192, &last[..7003])],
            1,
        );
        check(vec![write(81920, b"abc"), info()], Some(9000), restored(8192), &[(81920, b"abc")], 1);
        let grown = Step::Truncate { object: object(), size: 81920 };
        check(vec![grown, info()], Some(9000), restored(8192), &[], 2);
        // Whole stripes of zeros are punched.
        assert_eq!(ShardRange::pieces(5..5).count(), 0);
        let piece = |offset, len| ShardRange { offset, len };
        let pieces: Vec<ShardRange> = ShardRange::pieces(4096..4096 + (64 << 20) + 8).collect();
        assert_eq!(pieces, [piece(4096, 64 << 20), piece(4096 + (64 << 20), 8)]);
        let zero = Step::Zero { object: object(), offset: 8192, len: 16384 };
        check(vec![zero, info()], Some(40000), kept(&[(4096, 8192)], 20480), &[], 2);
        let cut = Step::Truncate { object: object(), size: 8200 };
        check(vec![cut, info()], Some(40000), Undo::KeptBack, &[(8192, &[0; 8])], 2);
    }

    #[test]
    fn shards_on_which_nothing_changes_are_not_written() {
        let layout = StripeLayout::new(4, 4096).expect("a layout");
        let written_of = |offset: u64, bytes: u64, size: u64| {
            let steps = [Step::Write { object: object(), offset, data: zeros(bytes) }];
            let mut rewrite = Rewrite::of(&object(), &steps, size, 0, layout);
            for range in rewrite.wanted() {
                rewrite.fill(range.start, zeros(range.end - range.start));
            }
            let [extent] = &rewrite.stripes()[..] else { panic!("one run") };
            let shard = zeros(layout.shard_bytes(extent.data.len() as u64));
            let part = |of| written(extent, &layout, rewrite.old_end(), of, &shard);
            (0..6).map(|of| part(of).map(|part| (part.offset, part.data.len(), part.is_difference))).collect::<Vec<_>>()
        };
        let (new, parity) = (Some((4096 + 512, 1024, false)), Some((4096 + 512, 1024, true)));
        assert_eq!(written_of(16384 + 4096 + 512, 1024, 99_999), [None, new, None, None, parity, parity]);
        let (first, second) = (Some((8192 - 512, 512, false)), Some((4096, 512, false)));
        let hull = Some((4096, 4096, true));
        assert_eq!(written_of(16384 + 4096 - 512, 1024, 99_999), [first, second, None, None, hull, hull]);
        let whole = Some((4096, 4096, false));
        assert_eq!(written_of(16384, 16380, 99_999), [whole, whole, whole, Some((4096, 4092, false)), whole, whole]);
        let (small, whole) = (Some((0, 7, false)), Some((0, 4096, false)));
        assert_eq!(written_of(3, 4, 0), [small, None, None, None, small, small], "what is not there is zeros");
        assert_eq!(written_of(0, 4000, 0), [whole, None, None, None, whole, whole]);
        let (more, byte) = (Some((4096, 4096, false)), Some((4096, 1, false)));
        assert_eq!(written_of(16384, 4097, 16384), [more, byte, None, None, more, more]);
        let longer = Some((0, 8192, false));
        assert_eq!(written_of(0, 16384 + 4096, 0), [longer, whole, whole, whole, longer, longer]);
    }

    /// Returns what an update of these steps writes to each shard of an object that is so long.
    fn written_by(mut steps: Vec<Step>, size: u64, code: &PoolCode) -> ShardWrites {
        let attrs = [(OBJECT_INFO_ATTR.to_vec(), Bytes::from_static(b"old"))].into_iter().collect();
        let before = ObjectStat { size_bytes: code.layout.shard_bytes(size), attrs, has_omap: false };
        let mut rewrite = Rewrite::of(&object(), &steps, size, 0, code.layout);
        for range in rewrite.wanted() {
            rewrite.fill(range.start, zeros(range.end - range.start));
        }
        let change = take_data(&object(), &mut steps, Some(&before), size, &rewrite, OmapBefore::SAME, &code.layout);
        let writes = code.shard_steps(&object(), &change, &mut steps);
        assert_eq!(steps, [info()], "nothing else changes");
        writes
    }

    fn code_of(k: usize, m: usize) -> PoolCode {
        let layout = StripeLayout::new(k, 4096).expect("a layout");
        PoolCode { layout, code: Code::new(Technique::JerasureVandermonde, k, m).expect("a code") }
    }

    #[test]
    fn an_update_that_would_leave_parity_or_too_many_shards_as_they_were_skips_none() {
        let writes = || written_by(vec![write(4096, b"abc"), info()], 99_999, &code_of(4, 2));
        let skipped = |writes: &ShardWrites| writes.skipped(&[info()]).shards.iter().collect::<Vec<_>>();
        assert_eq!(skipped(&writes()), [0, 2, 3]);
        for unwritten in [1, 4, 5] {
            let mut less = writes();
            less.extents[0].shards[unwritten] = None;
            assert!(skipped(&less).is_empty(), "{unwritten}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn at_most_k_less_one_shards_are_skipped_and_parity_never(
            (k, m) in (2usize..7, 1usize..4),
            size in 1u64..200_000,
            runs in proptest::collection::vec((0u64..200_000, 1u64..40_000), 1..4),
        ) {
            let run = |(at, len): (u64, u64)| (at % size, len.min(size - at % size));
            let writes = runs.into_iter().map(run).map(|(offset, len)| {
                Step::Write { object: object(), offset, data: zeros(len) }
            });
            let writes = written_by(writes.chain([info()]).collect(), size, &code_of(k, m));
            let skipped = writes.skipped(&[info()]);
            prop_assert!(skipped.shards.len() < k, "{:?}", skipped);
            for shard in 0..k + m {
                let is_written = writes.writes(Some(shard as u8)).next().is_some();
                prop_assert!(is_written || shard < k, "parity {} is not written", shard);
                // All that are not written are skipped: the object becomes no longer.
                prop_assert_eq!(skipped.shards.contains(shard), !is_written, "{}", shard);
            }
        }
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
