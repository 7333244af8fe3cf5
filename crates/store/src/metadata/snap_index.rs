//! The list of clones by their snapshots.
//!
//! A clone's attribute [`SNAPS_ATTR`] names its snapshots. The store lists the clone under each of them, in the
//! transaction that sets or removes the attribute or the object. The objects alone determine the list. Keys begin with
//! pool and snapshot, and go on like those of objects: of one snapshot, the clones of a placement group are a range, so
//! groups that are split or merged take theirs with them. A clone without the attribute is listed under
//! [`UNKNOWN_SNAP`]. Objects that erasure-coded groups keep back are not listed.
//!
//! A store that was made before this list existed has none, and reports that.

use crate::disk::key::{
    POOL_BYTES, SNAP_PREFIX_BYTES, behind_prefix, is_listed_clone, object_key, object_of_snap_key, snap_key,
};
use crate::disk::tree_key::{TABLE_BYTES, TableId, tree_key};
use crate::metadata::attrs::SNAPS_ATTR;
use crate::metadata::lookups::Unready;
use crate::metadata::onode::Onode;
use crate::metadata::state::State;
use crate::{Attrs, Lookup, Store};
use bytes::Bytes;
use std::collections::BTreeSet;
use types::{ObjectId, SnapId};

/// The snapshot number, of no real snapshot, under which clones without known snapshots are listed.
pub const UNKNOWN_SNAP: SnapId = SnapId(0);

/// Returns the value of [`SNAPS_ATTR`]: each snapshot's number (8, little-endian).
pub fn snaps_attr(snaps: &[SnapId]) -> Bytes {
    snaps.iter().flat_map(|snap| snap.0.to_le_bytes()).collect()
}

/// Returns the snapshots under which a clone with these attributes is listed, including [`UNKNOWN_SNAP`].
pub fn snaps_of_clone(attrs: &Attrs) -> BTreeSet<SnapId> {
    let (numbers, _) = attrs.get(SNAPS_ATTR).map_or(&[][..], |value| value).as_chunks();
    let mut snaps: BTreeSet<SnapId> = numbers.iter().map(|number| SnapId(u64::from_le_bytes(*number))).collect();
    if snaps.is_empty() {
        snaps.insert(UNKNOWN_SNAP);
    }
    snaps
}

/// Returns the snapshots under which an object with this record is listed.
fn listed_under(key: &[u8], onode: Option<&Onode>) -> BTreeSet<SnapId> {
    match onode.filter(|_| is_listed_clone(key)) {
        Some(onode) => snaps_of_clone(&onode.stat.attrs),
        None => BTreeSet::new(),
    }
}

impl State {
    /// Notes an object before it comes, goes, or changes its snapshots. It must be in memory.
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

    /// Lists an object of the tree, whatever was listed before.
    pub fn list_anew(&mut self, key: &[u8], onode: &Onode) {
        if self.lists_clones {
            listed_under(key, Some(onode)).into_iter().for_each(|snap| self.list_clone(key, snap));
        }
    }

    /// Removes a destroyed object, which was `onode`, from the list. By now another object may have its name, with a
    /// record that is in no checkpoint.
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

    /// Empties the list, so that everything can be listed anew.
    pub fn unlist_all(&mut self) {
        if self.lists_clones {
            self.delete_entries(TableId::Snaps, &[], None);
        }
    }
}

impl Store {
    /// Returns true if [`Store::clones_of`] has answers: stores that were made before the list existed have none.
    pub fn lists_clones(&self) -> bool {
        self.state.lists_clones
    }

    /// For tests: ignores the list until the store is opened again, like a store that was made before the list existed.
    #[doc(hidden)]
    pub fn pass_over_clone_lists(&mut self) {
        self.state.lists_clones = false;
    }

    /// Returns at most `max` clones in `from .. until` that were made for a snapshot, in order; none if
    /// [`Store::lists_clones`] returns false. Both cursors must be of one pool, or `until` behind it. For a moment the
    /// answer may include clones that were destroyed with their group.
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
