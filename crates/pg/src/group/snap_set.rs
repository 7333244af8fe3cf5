//! States of an object that snapshots preserve.

use types::SnapId;
use wire::basic::IntervalSet;
use wire::{DecodeError, Encode, Reader, Writer};

/// An object as it was before it was first changed after a snapshot: an object of its own, named by
/// [`ObjectClone::id`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectClone {
    /// The newest snapshot that had been taken when it was made.
    pub id: SnapId,
    /// The snapshots whose content it is, newest first. Those that are removed are taken out.
    pub snaps: Vec<SnapId>,
    pub size_bytes: u64,
    /// Ranges that are the same in the next newer state.
    pub overlap: IntervalSet,
}

impl ObjectClone {
    /// Returns the bytes that no newer state has.
    pub fn own_bytes(&self) -> u64 {
        self.size_bytes.saturating_sub(self.overlap.size())
    }
}

/// Snapshots of an object, as far as they are known; kept with its present state.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SnapSet {
    /// The newest snapshot that a writer of the object knew.
    pub seq: SnapId,
    /// Oldest first.
    pub clones: Vec<ObjectClone>,
    /// The object has been removed; it is there for the sake of its clones only.
    pub is_whiteout: bool,
}

/// Place of an object's content at a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtSnap {
    Head,
    Clone(SnapId),
    /// The object did not exist when the snapshot was taken, or the snapshot is removed.
    Nothing,
}

impl SnapSet {
    /// Returns true if there is nothing that would have to be kept.
    pub fn is_empty(&self) -> bool {
        *self == SnapSet::default()
    }

    /// Returns the place of the content at `snap`.
    pub fn at(&self, snap: SnapId) -> AtSnap {
        if snap > self.seq {
            return AtSnap::Head;
        }
        let clone = self.clones.iter().find(|clone| clone.id >= snap);
        // The oldest snapshot that it belongs to says how far back it goes.
        match clone.filter(|clone| clone.snaps.last().is_some_and(|oldest| *oldest <= snap)) {
            Some(clone) => AtSnap::Clone(clone.id),
            None => AtSnap::Nothing,
        }
    }

    /// Returns the bytes that clones have for themselves.
    pub fn clone_bytes(&self) -> u64 {
        self.clones.iter().map(ObjectClone::own_bytes).sum()
    }

    /// Makes the present state the clone of `snaps`, newest first, which were taken up to `id`.
    pub fn add_clone(&mut self, id: SnapId, snaps: Vec<SnapId>, size_bytes: u64) {
        let mut overlap = IntervalSet::new();
        overlap.insert(0, size_bytes);
        self.clones.push(ObjectClone { id, snaps, size_bytes, overlap });
    }

    /// Notes that these ranges of the present state have changed. Returns the bytes that the newest clone then has for
    /// itself and had not before.
    pub fn head_changed(&mut self, changed: &IntervalSet) -> u64 {
        let Some(newest) = self.clones.last_mut() else { return 0 };
        let before = newest.overlap.size();
        newest.overlap.subtract(changed);
        before - newest.overlap.size()
    }

    /// Returns the ranges in which the present state and the clone are known to be the same.
    pub fn overlap_with_head(&self, clone: SnapId) -> IntervalSet {
        let mut newer = self.clones.iter().skip_while(|known| known.id < clone);
        let mut overlap = newer.next().map(|clone| clone.overlap.clone()).unwrap_or_default();
        newer.for_each(|clone| overlap.intersect(&clone.overlap));
        overlap
    }

    /// Forgets a clone: what it shared with a newer state, the one before it may share.
    pub fn remove_clone(&mut self, id: SnapId) {
        let Some(at) = self.clones.iter().position(|clone| clone.id == id) else { return };
        let removed = self.clones.remove(at);
        if let Some(before) = at.checked_sub(1) {
            self.clones[before].overlap.intersect(&removed.overlap);
        }
    }

    /// Returns the oldest clone that one of `removed` belongs to.
    pub fn find_removed(&self, removed: &IntervalSet) -> Option<SnapId> {
        let is_removed = |clone: &&ObjectClone| clone.snaps.iter().any(|snap| removed.contains(snap.0));
        self.clones.iter().find(is_removed).map(|clone| clone.id)
    }
}

impl Encode for ObjectClone {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.id);
        w.put(&self.snaps);
        w.u64(self.size_bytes);
        self.overlap.encode_compact(w);
    }
}

/// Every update of an object writes this anew and every read decodes it, so it has what clones share in the compact
/// form.
impl Encode for SnapSet {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.seq);
        w.put(&self.clones);
        w.bool(self.is_whiteout);
    }
}

/// Form in which the ranges that clones share are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Overlaps {
    /// Form of Ceph's interval sets, until version 4 of object information.
    Plain,
    Compact,
}

impl SnapSet {
    pub(crate) fn decode(r: &mut Reader<'_>, overlaps: Overlaps) -> Result<SnapSet, DecodeError> {
        let seq = r.get()?;
        // An id, the number of snapshots, a size, and a set of two bytes at least.
        let count = r.count("clones", 22)?;
        let mut clones = Vec::with_capacity(count);
        for _ in 0..count {
            let (id, snaps, size_bytes) = (r.get()?, r.get()?, r.u64()?);
            let overlap = match overlaps {
                Overlaps::Plain => r.get()?,
                Overlaps::Compact => IntervalSet::decode_compact(r)?,
            };
            clones.push(ObjectClone { id, snaps, size_bytes, overlap });
        }
        Ok(SnapSet { seq, clones, is_whiteout: r.bool()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::Target;

    fn set(runs: &[(u64, u64)]) -> IntervalSet {
        let mut set = IntervalSet::new();
        runs.iter().for_each(|(start, len)| set.insert(*start, *len));
        set
    }

    fn snaps(ids: &[u64]) -> Vec<SnapId> {
        ids.iter().copied().map(SnapId).collect()
    }

    #[test]
    fn snapshots_are_found_where_they_are() {
        let mut known = SnapSet { seq: SnapId(9), ..SnapSet::default() };
        known.add_clone(SnapId(4), snaps(&[4, 3]), 100);
        known.add_clone(SnapId(9), snaps(&[8]), 50);
        for (snap, at) in [
            (2, AtSnap::Nothing),
            (3, AtSnap::Clone(SnapId(4))),
            (4, AtSnap::Clone(SnapId(4))),
            (5, AtSnap::Nothing),
            (8, AtSnap::Clone(SnapId(9))),
            (9, AtSnap::Clone(SnapId(9))),
            (10, AtSnap::Head),
        ] {
            assert_eq!(known.at(SnapId(snap)), at, "{snap}");
        }
        known.clones[1].snaps.clear();
        assert_eq!(known.at(SnapId(8)), AtSnap::Nothing, "no snapshot of it is left");
    }

    #[test]
    fn what_clones_share_shrinks_with_what_lies_between() {
        let mut known = SnapSet { seq: SnapId(1), ..SnapSet::default() };
        known.add_clone(SnapId(1), snaps(&[1]), 100);
        assert_eq!(known.head_changed(&set(&[(90, 20)])), 10);
        known.add_clone(SnapId(2), snaps(&[2]), 110);
        assert_eq!(known.head_changed(&set(&[(0, 10)])), 10);
        assert_eq!((known.clone_bytes(), known.overlap_with_head(SnapId(1))), (20, set(&[(10, 80)])));
        known.remove_clone(SnapId(2));
        assert_eq!((known.clone_bytes(), known.overlap_with_head(SnapId(1))), (20, set(&[(10, 80)])));
        let bytes = known.to_vec(Target::default());
        assert_eq!(SnapSet::decode(&mut Reader::new(&bytes), Overlaps::Compact), Ok(known));
    }

    /// Returns a byte of an object with many states, as a list of its contents from the oldest to the present one.
    fn overlaps(states: &[Vec<u8>]) -> Vec<IntervalSet> {
        let same = |old: &Vec<u8>, new: &Vec<u8>| {
            let end = old.len().min(new.len());
            (0..end).filter(|at| old[*at] == new[*at]).map(|at| at as u64).collect()
        };
        states.windows(2).map(|pair| same(&pair[0], &pair[1])).collect()
    }

    proptest! {
        /// Overlaps never say of bytes that they are the same if they are not, whatever is removed in between.
        #[test]
        fn overlaps_hold(changes in proptest::collection::vec((0u8..5, 0usize..20, 1usize..20), 1..40)) {
            let mut known = SnapSet::default();
            let (mut head, mut clones, mut value): (Vec<u8>, Vec<Vec<u8>>, u8) = (vec![0; 16], Vec::new(), 0);
            for (what, offset, len) in changes {
                match what {
                    0 => {
                        known.seq = SnapId(known.seq.0 + 1);
                        known.add_clone(known.seq, vec![known.seq], head.len() as u64);
                        clones.push(head.clone());
                    }
                    1 if !clones.is_empty() => {
                        let at = offset % clones.len();
                        known.remove_clone(known.clones[at].id);
                        clones.remove(at);
                    }
                    _ => {
                        value += 1;
                        head.resize(head.len().max(offset + len), value);
                        head[offset..offset + len].fill(value);
                        known.head_changed(&set(&[(offset as u64, len as u64)]));
                    }
                }
                let states: Vec<Vec<u8>> = clones.iter().cloned().chain([head.clone()]).collect();
                for (clone, truth) in known.clones.iter().zip(overlaps(&states)) {
                    prop_assert!(truth.contains_all(&clone.overlap), "{:?} {:?}", truth, clone);
                }
                for (at, clone) in known.clones.iter().enumerate() {
                    let with_head = overlaps(&[clones[at].clone(), head.clone()]).remove(0);
                    prop_assert!(with_head.contains_all(&known.overlap_with_head(clone.id)));
                }
            }
        }
    }
}
