//! Which clones were made for a snapshot.
//!
//! A clone's attribute [`SNAPS_ATTR`] names its snapshots; the store lists it under each of them, in the same transaction, whoever
//! sets or removes the attribute or the object. What the list says is told by the objects alone. Keys begin with pool and
//! snapshot, and go on like those of objects: of one snapshot, the clones of a placement group are a range, so groups that are
//! split or merged take theirs with them. A clone without the attribute is listed under [`UNKNOWN_SNAP`]. What erasure-coded
//! groups keep back is not listed.
//!
//! A store that was made before there was this list has none, and says so.

use crate::disk::key::{
    POOL_BYTES, SNAP_PREFIX_BYTES, behind_prefix, is_listed_clone, object_key, object_of_snap_key, snap_key,
};
use crate::disk::tree_key::{TABLE_BYTES, TableId, tree_key};
use crate::metadata::lookups::Unready;
use crate::metadata::onode::Onode;
use crate::metadata::state::State;
use crate::{Attrs, Lookup, Store};
use bytes::Bytes;
use std::collections::BTreeSet;
use types::{ObjectId, SnapId};

/// The attribute that names the snapshots for which a clone was made: see [`snaps_attr`].
pub const SNAPS_ATTR: &[u8] = b"snaps";
/// Clones of which it is not known what they were made for are listed under this one, which is no snapshot.
pub const UNKNOWN_SNAP: SnapId = SnapId(0);

/// The value of [`SNAPS_ATTR`]: each snapshot's number (8, little-endian).
pub fn snaps_attr(snaps: &[SnapId]) -> Bytes {
    snaps.iter().flat_map(|snap| snap.0.to_le_bytes()).collect()
}

/// The snapshots under which a clone with these attributes is listed, [`UNKNOWN_SNAP`] among them.
pub fn snaps_of_clone(attrs: &Attrs) -> BTreeSet<SnapId> {
    let (numbers, _) = attrs.get(SNAPS_ATTR).map_or(&[][..], |value| value).as_chunks();
    let mut snaps: BTreeSet<SnapId> = numbers.iter().map(|number| SnapId(u64::from_le_bytes(*number))).collect();
    if snaps.is_empty() {
        snaps.insert(UNKNOWN_SNAP);
    }
    snaps
}

/// Under which snapshots an object's record has it listed.
fn listed_under(key: &[u8], onode: Option<&Onode>) -> BTreeSet<SnapId> {
    match onode.filter(|_| is_listed_clone(key)) {
        Some(onode) => snaps_of_clone(&onode.stat.attrs),
        None => BTreeSet::new(),
    }
}

impl State {
    /// To be called right before an object comes or goes, or its snapshots change. It must be in memory.
    pub fn snaps_change(&mut self, key: &[u8]) {
        if self.lists_clones && is_listed_clone(key) && !self.listed_before.contains_key(key) {
            let snaps = listed_under(key, self.known(key));
            self.listed_before.insert(key.into(), snaps);
        }
    }

    /// Brings the list up to date.
    pub fn settle_snaps(&mut self) {
        for (key, before) in std::mem::take(&mut self.listed_before) {
            let after = listed_under(&key, self.known(&key));
            before.difference(&after).for_each(|snap| self.unlist_clone(&key, *snap));
            after.difference(&before).for_each(|snap| self.list_clone(&key, *snap));
        }
    }

    fn list_clone(&mut self, key: &[u8], snap: SnapId) {
        self.put_entry(TableId::Snaps, &snap_key(key, snap), &[]);
    }

    fn unlist_clone(&mut self, key: &[u8], snap: SnapId) {
        self.delete_entry(TableId::Snaps, &snap_key(key, snap));
    }

    /// Lists an object that is in the tree, whatever was listed.
    pub fn list_anew(&mut self, key: &[u8], onode: &Onode) {
        if self.lists_clones {
            listed_under(key, Some(onode)).into_iter().for_each(|snap| self.list_clone(key, snap));
        }
    }

    /// An object is gone, as `onode`, with all of its range. There may be another of its name by now, whose record is a change
    /// that is in no checkpoint.
    pub fn unlist_destroyed(&mut self, key: &[u8], onode: &Onode) {
        let gone = listed_under(key, Some(onode));
        if !self.lists_clones || gone.is_empty() {
            return;
        }
        let record = self.overlay.put_since_frozen(tree_key(TableId::Objects, key, &mut self.tree_key));
        let present = record.and_then(|record| Onode::decode_head(&mut wire::Reader::new(&record)).ok());
        let kept = listed_under(key, present.as_ref());
        gone.difference(&kept).for_each(|snap| self.unlist_clone(key, *snap));
    }

    /// Has nothing listed, for all to be listed anew.
    pub fn unlist_all(&mut self) {
        if self.lists_clones {
            self.delete_entries(TableId::Snaps, &[], None);
        }
    }
}

impl Store {
    /// Whether [`Store::clones_of`] has answers: not in stores that were made before it was there.
    pub fn lists_clones(&self) -> bool {
        self.state.lists_clones
    }

    /// Makes do without lists until the store is opened again, as one that was made before there were any: for tests.
    #[doc(hidden)]
    pub fn pass_over_clone_lists(&mut self) {
        self.state.lists_clones = false;
    }

    /// At most `max` clones in `from .. until` that were made for a snapshot, in order; none if [`Store::lists_clones`] says
    /// no. Both cursors are of one pool, or `until` is behind it. For a moment there may be such that were destroyed with
    /// their group.
    pub fn clones_of(&mut self, snap: SnapId, from: &ObjectId, until: &ObjectId, max: usize) -> Lookup<Vec<ObjectId>> {
        self.clones_or_wait(snap, &object_key(from), &object_key(until), max).into()
    }

    fn clones_or_wait(
        &mut self,
        snap: SnapId,
        from: &[u8],
        until: &[u8],
        max: usize,
    ) -> Result<Vec<ObjectId>, Unready> {
        if !self.state.lists_clones || until <= from {
            return Ok(Vec::new());
        }
        self.applied_up_to(self.queue.last_in_range(from, until))?;
        let begin = snap_key(from, snap);
        let of_snap = &begin[..SNAP_PREFIX_BYTES];
        let end = match until.starts_with(&from[..POOL_BYTES]) {
            true => Some(snap_key(until, snap)),
            false => behind_prefix(of_snap),
        };
        let entries = self.entries(TableId::Snaps, &begin, end.as_deref(), max, false)?;
        let objects: Option<Vec<ObjectId>> =
            entries.iter().map(|(key, _)| object_of_snap_key(&key[TABLE_BYTES..])).collect();
        objects.ok_or_else(|| Unready::Damaged(self.state.malformed("key of a listed clone")))
    }
}
