//! Reads the content of an OSD's disks by opening its store without the OSD.

use crate::disk_overlay::DiskOverlay;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Range;
use store::{Lookup, LookupId, ReadError, Store, StoreConfig, StoreEvent};
use types::{ObjectId, PgId};
use wire::Rope;

/// Number of objects, or of entries of an omap, in one request.
const PAGE: usize = 100;

/// Everything of one object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredObject {
    pub bytes: Vec<u8>,
    pub attrs: BTreeMap<Vec<u8>, Bytes>,
    pub omap_header: Bytes,
    pub omap: Vec<(Bytes, Bytes)>,
}

/// A store that is only read. Its own writes stay in memory.
pub struct Stored<'a> {
    disks: DiskOverlay<'a>,
    store: Store,
    read: BTreeMap<LookupId, Result<Rope, ReadError>>,
}

impl<'a> Stored<'a> {
    /// Opens the store on these disks.
    ///
    /// Errors: the store does not open.
    pub fn open(mut disks: DiskOverlay<'a>, config: StoreConfig) -> Result<Stored<'a>, String> {
        let mut opening = Store::open(config);
        loop {
            match opening.poll_result() {
                Some(Ok(store)) => return Ok(Stored { disks, store, read: BTreeMap::new() }),
                Some(Err(e)) => return Err(format!("the store does not open: {e}")),
                None => {}
            }
            let request = opening.poll_io().ok_or("the store waits for nothing and does not open")?;
            opening.io_done(disks.carry_out(request));
        }
    }

    /// Number of records of the log that had to be replayed.
    pub fn replayed_records(&self) -> u64 {
        self.store.replayed_records()
    }

    /// Groups, or shards of groups, that have a table.
    pub fn groups(&self) -> Vec<PgId> {
        self.store.pgs()
    }

    fn ready<T>(&mut self, mut lookup: impl FnMut(&mut Store) -> Lookup<T>) -> Result<T, String> {
        loop {
            match lookup(&mut self.store) {
                Lookup::Ready(value) => return Ok(value),
                Lookup::Pending(_) if self.pump() => {}
                Lookup::Pending(_) => return Err("a lookup waits for nothing".to_owned()),
                Lookup::Damaged(damage) => return Err(damage.to_string()),
            }
        }
    }

    /// Carries out the store's requests. Returns true if there were any.
    fn pump(&mut self) -> bool {
        let mut any = false;
        while let Some(request) = self.store.poll_io() {
            any = true;
            self.store.io_done(self.disks.carry_out(request));
        }
        while let Some(event) = self.store.poll_event() {
            if let StoreEvent::ReadDone { id, result } = event {
                self.read.insert(id, result);
            }
        }
        any
    }

    fn bytes(&mut self, object: &ObjectId, len: u64) -> Result<Vec<u8>, String> {
        let id = match self.store.read(object, 0, len) {
            Lookup::Ready(bytes) => return Ok(bytes.to_vec()),
            Lookup::Pending(id) => id,
            Lookup::Damaged(damage) => return Err(damage.to_string()),
        };
        self.pump();
        let result = self.read.remove(&id).ok_or("a read waits for nothing")?;
        result.map(|bytes| bytes.to_vec()).map_err(|e| e.to_string())
    }

    /// Ranges of the blocks of all objects in `from .. until` on the disk.
    pub fn data_runs(&mut self, from: &ObjectId, until: &ObjectId) -> Result<Vec<Range<u64>>, String> {
        let mut runs = Vec::new();
        for object in self.names(from, until)? {
            let placed = self.ready(|store| store.placement(&object, 0, u64::MAX))?;
            runs.extend(placed.into_iter().map(|extent| extent.device_offset..extent.device_offset + extent.len));
        }
        Ok(runs)
    }

    /// Every object in `from .. until` that has bytes on the disk.
    pub fn with_data(&mut self, from: &ObjectId, until: &ObjectId) -> Result<Vec<ObjectId>, String> {
        let mut names = self.names(from, until)?;
        let mut failed = Ok(());
        names.retain(|object| match self.ready(|store| store.placement(object, 0, u64::MAX)) {
            Ok(placed) => !placed.is_empty(),
            Err(why) => {
                failed = Err(why);
                false
            }
        });
        failed.map(|()| names)
    }

    fn names(&mut self, from: &ObjectId, until: &ObjectId) -> Result<Vec<ObjectId>, String> {
        let mut names = Vec::new();
        let mut cursor = from.clone();
        loop {
            let page = self.ready(|store| store.list(&cursor, until, PAGE))?;
            let end = page.len() < PAGE;
            if let Some(last) = page.last() {
                cursor = ObjectId { snap: types::SnapId(last.snap.0 + 1), ..last.clone() };
            }
            names.extend(page);
            if end {
                return Ok(names);
            }
        }
    }

    /// Every object in `from .. until`.
    pub fn objects(&mut self, from: &ObjectId, until: &ObjectId) -> Result<BTreeMap<ObjectId, StoredObject>, String> {
        let names = self.names(from, until)?;
        names.into_iter().map(|name| Ok((name.clone(), self.object(&name)?))).collect()
    }

    fn object(&mut self, name: &ObjectId) -> Result<StoredObject, String> {
        let stat = self.ready(|store| store.stat(name))?.ok_or_else(|| format!("{name} is listed and absent"))?;
        let bytes = self.bytes(name, stat.size_bytes).map_err(|e| format!("{name}: {e}"))?;
        let mut omap: Vec<(Bytes, Bytes)> = Vec::new();
        loop {
            let after = omap.last().map(|(key, _)| key.clone()).unwrap_or_default();
            let (entries, more) = self.ready(|store| store.omap_list(name, &after, b"", PAGE))?;
            omap.extend(entries);
            if !more {
                break;
            }
        }
        let omap_header = self.ready(|store| store.omap_header(name))?;
        let attrs = stat.attrs.iter().map(|(name, value)| (name.to_vec(), value.clone())).collect();
        Ok(StoredObject { bytes, attrs, omap_header, omap })
    }
}
