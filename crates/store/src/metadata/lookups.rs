//! Lookups of metadata: answered from memory, or once pages were read or transactions applied.

use crate::btree::{Damage, Fetch, ReadId};
use crate::config::BLOCK;
use crate::disk::key::{self, Key, behind_prefix, object_key, omap_key, pg_key};
use crate::disk::tree_key::{TABLE_BYTES, TableId, tree_key};
use crate::metadata::gathering::{Entries, Gathering, Listing, Values};
use crate::metadata::loading::Need;
use crate::metadata::onode::Onode;
use crate::{Lookup, LookupId, ObjectStat, Store, StoreEvent};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use types::{ObjectId, PgId};

/// Lookups that wait, and objects kept for them.
#[derive(Default, Debug)]
pub(crate) struct Lookups {
    next_id: u64,
    for_page: BTreeMap<ReadId, Vec<LookupId>>,
    /// Lookups by the ticket of the transaction that must be applied first.
    for_ticket: BTreeMap<u64, Vec<LookupId>>,
    /// Objects that stay in memory until they are asked for again, because they were not wholly known, with the number
    /// of the lookup that asked last.
    kept: BTreeMap<Key, u64>,
}

/// Maximum number of objects kept.
const KEPT_MAX: usize = 64;
/// An object is no longer kept if it was not asked for again while this many lookups had to wait.
const FORGOTTEN: u64 = 4096;

impl Lookups {
    pub fn next_id(&mut self) -> LookupId {
        self.next_id += 1;
        LookupId(self.next_id)
    }

    pub fn wait_for_page(&mut self, read: ReadId) -> LookupId {
        let id = self.next_id();
        self.for_page.entry(read).or_default().push(id);
        id
    }

    /// Returns true if an object must stay in memory.
    pub fn keeps(&self, object: &[u8]) -> bool {
        self.kept.contains_key(object)
    }

    fn keep(&mut self, object: Key) {
        let now = self.next_id;
        if self.kept.len() >= KEPT_MAX {
            self.kept.retain(|_, asked| *asked + FORGOTTEN > now);
        }
        if self.kept.len() < KEPT_MAX {
            self.kept.insert(object, now);
        }
    }

    fn wait_for_ticket(&mut self, ticket: u64) -> LookupId {
        let id = self.next_id();
        self.for_ticket.entry(ticket).or_default().push(id);
        id
    }
}

/// Reasons why a lookup has no value.
pub(crate) enum Unready {
    Pending(LookupId),
    Damaged(Damage),
}

impl<T> From<Result<T, Unready>> for Lookup<T> {
    fn from(result: Result<T, Unready>) -> Lookup<T> {
        match result {
            Ok(value) => Lookup::Ready(value),
            Err(Unready::Pending(id)) => Lookup::Pending(id),
            Err(Unready::Damaged(damage)) => Lookup::Damaged(damage),
        }
    }
}

/// Returns an entry without the prefix that all keys of its table share, in memory of its own: a part of a page would
/// keep the whole page.
fn own_entry((key, value): &(Bytes, Bytes), prefix_bytes: usize) -> (Bytes, Bytes) {
    (Bytes::copy_from_slice(&key[TABLE_BYTES + prefix_bytes..]), Bytes::copy_from_slice(value))
}

impl Store {
    /// Returns size, attributes and the omap flag; `None` for an absent object.
    pub fn stat(&mut self, object: &ObjectId) -> Lookup<Option<Arc<ObjectStat>>> {
        self.head(object).map(|onode| onode.map(|onode| onode.stat.clone())).into()
    }

    /// Returns the allocated ranges (offset, length) within `offset .. offset + len`, clipped to the size, in order,
    /// adjoining ones joined; none for an absent object. Bytes in an object's record count as allocated.
    pub fn extents(&mut self, object: &ObjectId, offset: u64, len: u64) -> Lookup<Vec<(u64, u64)>> {
        let extents = |onode: Option<&Onode>| {
            let mut extents: Vec<(u64, u64)> = Vec::new();
            let Some(onode) = onode else { return extents };
            let end = offset.saturating_add(len).min(onode.size());
            let inline = end.min(onode.inline.len() as u64);
            if offset < inline {
                extents.push((offset, inline - offset));
            }
            if offset < end {
                for (first, run) in onode.blocks.runs((offset / BLOCK) as u32, end.div_ceil(BLOCK)) {
                    let begin = (u64::from(first) * BLOCK).max(offset);
                    let stop = ((u64::from(first) + u64::from(run.count)) * BLOCK).min(end);
                    match extents.last_mut() {
                        Some((at, len)) if *at + *len == begin => *len += stop - begin,
                        _ => extents.push((begin, stop - begin)),
                    }
                }
            }
            extents
        };
        self.blocks(object, offset, len).map(extents).into()
    }

    /// Returns the entries of the object's omap under `keys`, in the order asked. `None`: the values have more than
    /// `bytes_max` bytes together, and most of them were not read.
    pub fn omap_get(
        &mut self,
        object: &ObjectId,
        keys: &[Bytes],
        bytes_max: usize,
    ) -> Lookup<Option<Vec<(Bytes, Bytes)>>> {
        self.omap_get_or_wait(object, keys, bytes_max).into()
    }

    fn omap_get_or_wait(
        &mut self,
        object: &ObjectId,
        keys: &[Bytes],
        bytes_max: usize,
    ) -> Result<Option<Vec<(Bytes, Bytes)>>, Unready> {
        let Some(omap) = self.omap_id(object)? else { return Ok(Some(Vec::new())) };
        let in_tree = |key| tree_key(TableId::Omap, &omap_key(omap, key), &mut Vec::new()).to_vec();
        let values = Values::new(keys.iter().map(|key| in_tree(key)).collect());
        let Gathering::Values(mut values) = self.state.gatherings.take(Gathering::Values(values)) else {
            panic!("values for values")
        };
        let mut wait = None;
        let mut bytes = 0;
        for at in 0..keys.len() {
            if let Some(known) = &values.found[at] {
                bytes += known.as_ref().map_or(0, Bytes::len);
                continue;
            }
            match self.state.view().value_len(values.key(at)) {
                Ok(Fetch::Ready(len)) => bytes += len,
                Ok(Fetch::Pending(id)) => {
                    wait = wait.or(Some(id));
                    continue;
                }
                Err(damage) => return Err(Unready::Damaged(damage)),
            }
            if bytes > bytes_max {
                return Ok(None);
            }
            // All values are asked for at once.
            match self.state.view().get(values.key(at)) {
                Ok(Fetch::Ready(value)) => values.found[at] = Some(value.map(|value| Bytes::copy_from_slice(&value))),
                Ok(Fetch::Pending(id)) => wait = wait.or(Some(id)),
                Err(damage) => return Err(Unready::Damaged(damage)),
            }
        }
        if let Some(read) = wait {
            self.state.gatherings.keep(Gathering::Values(values));
            return Err(Unready::Pending(self.lookups.wait_for_page(read)));
        }
        if bytes > bytes_max {
            return Ok(None);
        }
        let found = keys.iter().zip(values.found);
        Ok(Some(found.filter_map(|(key, value)| value.flatten().map(|value| (key.clone(), value))).collect()))
    }

    /// Returns at most `max` entries with keys behind `start_after` (empty: from the first, the empty key included)
    /// that begin with `prefix`, in order; and true if there are more.
    pub fn omap_list(
        &mut self,
        object: &ObjectId,
        start_after: &[u8],
        prefix: &[u8],
        max: usize,
    ) -> Lookup<(Vec<(Bytes, Bytes)>, bool)> {
        self.omap_page(object, start_after, prefix, (max, usize::MAX))
    }

    /// Returns entries like [`Store::omap_list`], with at most `most` = (entries, bytes of keys and values); but at
    /// least one entry, besides that of the empty key.
    pub fn omap_page(
        &mut self,
        object: &ObjectId,
        start_after: &[u8],
        prefix: &[u8],
        most: (usize, usize),
    ) -> Lookup<(Vec<(Bytes, Bytes)>, bool)> {
        self.omap_page_or_wait(object, start_after, prefix, most).into()
    }

    fn omap_page_or_wait(
        &mut self,
        object: &ObjectId,
        start_after: &[u8],
        prefix: &[u8],
        (max, bytes_max): (usize, usize),
    ) -> Result<(Vec<(Bytes, Bytes)>, bool), Unready> {
        let Some(omap) = self.omap_id(object)? else { return Ok((Vec::new(), false)) };
        let begin = omap_key(omap, prefix);
        let end = behind_prefix(&begin);
        // The first key behind another is that key with a zero byte.
        let after = [&omap_key(omap, start_after)[..], &[0]].concat();
        let from = if start_after.is_empty() { &begin[..] } else { begin.as_ref().max(&after[..]) };
        let most = (max.saturating_add(1), bytes_max);
        let (mut entries, cut) = self.entries_within(TableId::Omap, from, end.as_deref(), most, true)?;
        let more = cut || entries.len() > max;
        entries.truncate(max);
        Ok((entries.iter().map(|entry| own_entry(entry, key::OMAP_PREFIX_BYTES)).collect(), more))
    }

    /// Returns the omap's header; empty if there is none.
    pub fn omap_header(&mut self, object: &ObjectId) -> Lookup<Bytes> {
        let header = |onode: Option<&Onode>| {
            onode.and_then(|onode| onode.omap.as_ref()).map(|omap| omap.header.clone()).unwrap_or_default()
        };
        self.head(object).map(header).into()
    }

    /// Returns at most `max` objects in `from .. until`, in order. Objects whose last changes could not be replayed are
    /// among them, though they may be gone.
    pub fn list(&mut self, from: &ObjectId, until: &ObjectId, max: usize) -> Lookup<Vec<ObjectId>> {
        self.list_or_wait(&object_key(from), &object_key(until), max).into()
    }

    fn list_or_wait(&mut self, from: &[u8], until: &[u8], max: usize) -> Result<Vec<ObjectId>, Unready> {
        self.applied_up_to(self.queue.last_in_range(from, until))?;
        let entries = self.entries(TableId::Objects, from, Some(until), max, false)?;
        let mut keys: Vec<&[u8]> = entries.iter().map(|(key, _)| &key[TABLE_BYTES..]).collect();
        if !self.state.damaged.is_empty() && from < until {
            // The existence of these objects is unknown: a lookup of one reports the damage.
            let range = (Bound::Included(from), Bound::Excluded(until));
            keys.extend(self.state.damaged.range::<[u8], _>(range).map(|(key, _)| &key[..]));
            keys.sort_unstable();
            keys.dedup();
            keys.truncate(max);
        }
        let objects: Result<Vec<ObjectId>, _> = keys.into_iter().map(key::decode_object).collect();
        objects.map_err(|_| Unready::Damaged(self.state.malformed("object's key")))
    }

    /// Returns a value of the group's table.
    pub fn pg_get(&mut self, pg: PgId, key: &[u8]) -> Lookup<Option<Bytes>> {
        self.pg_get_or_wait(pg, key).into()
    }

    fn pg_get_or_wait(&mut self, pg: PgId, key: &[u8]) -> Result<Option<Bytes>, Unready> {
        self.applied_up_to(self.queue.last_of_group(pg))?;
        let mut tree = Vec::new();
        let found = self.state.view().get(tree_key(TableId::Pgs, &pg_key(pg, key), &mut tree));
        Ok(self.ready(found)?.map(|value| Bytes::copy_from_slice(&value)))
    }

    /// Returns at most `max` entries of the group's table in `begin .. end`, in order.
    pub fn pg_list(&mut self, pg: PgId, begin: &[u8], end: &[u8], max: usize) -> Lookup<Vec<(Bytes, Bytes)>> {
        self.pg_list_or_wait(pg, begin, end, max).into()
    }

    fn pg_list_or_wait(&mut self, pg: PgId, begin: &[u8], end: &[u8], max: usize) -> Result<Entries, Unready> {
        self.applied_up_to(self.queue.last_of_group(pg))?;
        let entries = self.entries(TableId::Pgs, &pg_key(pg, begin), Some(&pg_key(pg, end)), max, true)?;
        Ok(entries.iter().map(|entry| own_entry(entry, key::PG_PREFIX_BYTES)).collect())
    }

    /// Returns the placement groups, in order, whose table was put to since they were last destroyed, or had any entry
    /// when the store was opened.
    pub fn pgs(&self) -> Vec<PgId> {
        self.groups.iter().copied().collect()
    }

    /// Returns true if the group is one of [`Store::pgs`].
    pub fn pgs_contain(&self, pg: PgId) -> bool {
        self.groups.contains(&pg)
    }

    // Steps of lookups:

    /// Makes the lookup wait for a transaction, if one is given.
    pub(crate) fn applied_up_to(&mut self, ticket: Option<u64>) -> Result<(), Unready> {
        ticket.map_or(Ok(()), |ticket| Err(Unready::Pending(self.lookups.wait_for_ticket(ticket))))
    }

    fn ready<T>(&mut self, found: Result<Fetch<T>, Damage>) -> Result<T, Unready> {
        match found {
            Ok(Fetch::Ready(value)) => Ok(value),
            Ok(Fetch::Pending(read)) => Err(Unready::Pending(self.lookups.wait_for_page(read))),
            Err(damage) => Err(Unready::Damaged(damage)),
        }
    }

    /// Returns the object, if it exists, without regard to its blocks.
    fn head(&mut self, object: &ObjectId) -> Result<Option<&Onode>, Unready> {
        let key = object_key(object);
        self.applied_up_to(self.queue.last_of_object(&key))?;
        let found = self.state.load_head(&key);
        self.ready(found)?;
        Ok(self.state.known(&key))
    }

    /// Returns the object, if it exists, with the blocks of a range.
    pub(crate) fn blocks(&mut self, object: &ObjectId, offset: u64, len: u64) -> Result<Option<&Onode>, Unready> {
        let key = object_key(object);
        self.applied_up_to(self.queue.last_of_object(&key))?;
        let found = self.state.load_head(&key);
        self.ready(found)?;
        let size = self.state.known(&key).map_or(0, Onode::size);
        let end = offset.saturating_add(len).min(size);
        if offset < end {
            let (first, end) = ((offset / BLOCK) as u32, end.div_ceil(BLOCK));
            let found = self.state.load(Need::Blocks { object: &key, first, end });
            match found {
                Ok(Fetch::Pending(_)) => self.lookups.keep(key.clone()),
                // The blocks are known now, or never will be.
                _ => drop(self.lookups.kept.remove(&key)),
            }
            self.ready(found)?;
        }
        Ok(self.state.known(&key))
    }

    fn omap_id(&mut self, object: &ObjectId) -> Result<Option<u64>, Unready> {
        Ok(self.head(object)?.and_then(|onode| onode.omap.as_ref()).map(|omap| omap.id))
    }

    /// Returns the first `max` entries of a table in `begin .. end`.
    pub(crate) fn entries(
        &mut self,
        table: TableId,
        begin: &[u8],
        end: Option<&[u8]>,
        max: usize,
        with_values: bool,
    ) -> Result<Entries, Unready> {
        self.entries_within(table, begin, end, (max, usize::MAX), with_values).map(|(entries, _)| entries)
    }

    /// Returns entries like [`Store::entries`], with at most this many bytes, but at least one besides that of `begin`
    /// itself; and true if entries are, or may be, left out for their bytes.
    fn entries_within(
        &mut self,
        table: TableId,
        begin: &[u8],
        end: Option<&[u8]>,
        (max, bytes_max): (usize, usize),
        with_values: bool,
    ) -> Result<(Entries, bool), Unready> {
        let (mut first, mut behind) = (Vec::new(), Vec::new());
        tree_key(table, begin, &mut first);
        match end {
            Some(end) => drop(tree_key(table, end, &mut behind)),
            None => behind.push(table as u8 + 1),
        }
        let listing = Gathering::Listing(Box::new(Listing::new(first, behind, max, with_values)));
        let Gathering::Listing(mut listing) = self.state.gatherings.take(listing) else {
            panic!("a listing for a listing")
        };
        let mut cut = false;
        while listing.entries.len() < max {
            let bytes = if bytes_max == usize::MAX { 0 } else { listing.bytes() };
            if bytes >= bytes_max && listing.entries.len() >= listing.least() {
                cut = true;
                break;
            }
            let left = (max - listing.entries.len(), bytes_max.saturating_sub(bytes));
            let page = listing.cursor.next_page(&mut self.state.view(), left.0, left.1);
            if let Ok(Fetch::Pending(read)) = page {
                self.state.gatherings.keep(Gathering::Listing(listing));
                return Err(Unready::Pending(self.lookups.wait_for_page(read)));
            }
            let page = self.ready(page)?;
            listing.extend(page.entries);
            if page.done {
                break;
            }
        }
        // Changes may have added entries before those that were found.
        listing.entries.truncate(max);
        let fitting = listing.fitting(bytes_max);
        cut |= fitting < listing.entries.len();
        listing.entries.truncate(fitting);
        Ok((listing.entries, cut))
    }

    /// Completes the lookups that waited for a page, which was read or cannot be.
    pub(crate) fn page_lookups_done(&mut self, read: ReadId) {
        let ids = self.lookups.for_page.remove(&read).into_iter().flatten();
        self.events.extend(ids.map(StoreEvent::LookupDone));
    }

    /// Completes the lookups that waited for a transaction, which is applied now.
    pub(crate) fn applied(&mut self, ticket: u64) {
        let ids = self.lookups.for_ticket.remove(&ticket).into_iter().flatten();
        self.events.extend(ids.map(StoreEvent::LookupDone));
        self.begin_reads_behind(ticket);
    }
}
