//! A store that is opened without its OSD.

use crate::Device;
use std::collections::{BTreeMap, BTreeSet};
use store::btree::Damage;
use store::{
    IoId, IoRequest, LABEL_OFFSETS, LabelBlock, Labels, Lookup, LookupId, OpenError, Opening, ReadError, StopReason,
    Store, StoreConfig, StoreEvent, StoreLabel, SubmitError, Transaction,
};
use types::{AlignedBuf, BLOCK_BYTES, Errno, ObjectId, PgId};
use wire::Rope;

/// The reason why an operation on an offline store failed. Each variant says all in one sentence, and has no cause to
/// print behind it.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    #[error("not a store of an OSD: {device_bytes} bytes without a superblock")]
    NotAStore { device_bytes: u64 },
    #[error("both copies of the superblock are damaged; nothing says any longer what is where")]
    NoSuperblock,
    #[error("the store does not open: {0}")]
    Open(OpenError),
    #[error("the store has stopped: {0}")]
    Stopped(Box<StopReason>),
    #[error("the store has stopped: the superblock at {offset:#x} cannot be read: {}", Errno(*errno))]
    SuperblockRead { offset: u64, errno: i32 },
    #[error("the store has stopped: the device cannot be written at {offset:#x}: {}", Errno(*errno))]
    Write { offset: u64, errno: i32 },
    #[error("the store takes no more: {0}")]
    Submit(SubmitError),
    #[error("{0}")]
    Read(ReadError),
    #[error("metadata cannot be read: {0}")]
    Metadata(Damage),
    #[error("{0}")]
    Stream(crate::StreamError),
    /// The request cannot be carried out; the text tells the reason.
    #[error("{0}")]
    Refused(String),
}

macro_rules! from {
    ($($error:ty => $variant:ident;)*) => {
        $(impl From<$error> for OfflineError {
            fn from(error: $error) -> OfflineError {
                OfflineError::$variant(error)
            }
        })*
    };
}

from! {
    OpenError => Open;
    SubmitError => Submit;
    ReadError => Read;
    Damage => Metadata;
    crate::StreamError => Stream;
}

impl OfflineError {
    /// True if the store itself is damaged; false if the request or the surroundings are at fault.
    pub fn is_damage(&self) -> bool {
        match self {
            OfflineError::NoSuperblock | OfflineError::Read(_) | OfflineError::Metadata(_) => true,
            OfflineError::Open(error) => !matches!(
                error,
                OpenError::NotAStore
                    | OpenError::UnknownFormat { .. }
                    | OpenError::UnknownRecord { .. }
                    | OpenError::ForeignOsd { .. }
                    | OpenError::ForeignCluster { .. }
                    | OpenError::OtherSlice { .. }
                    | OpenError::Truncated { .. }
                    | OpenError::MissingDevice { .. }
                    | OpenError::UnexpectedDevice { .. }
                    | OpenError::NotAPart { .. }
                    | OpenError::WrongRole { .. }
                    | OpenError::ForeignDevice { .. }
                    | OpenError::StaleDevice { .. }
            ),
            _ => false,
        }
    }
}

/// A read that has begun.
#[derive(Debug)]
pub(crate) enum PendingRead {
    Ready(Rope),
    Waiting(LookupId),
    Damaged(Damage),
}

/// An open store on its device. Its methods wait for I/O under way.
pub struct OfflineStore<D> {
    device: D,
    store: Store,
    labels: Labels,
    /// Both copies of the superblock of each device.
    superblocks: Vec<(store::Device, [LabelBlock<StoreLabel>; 2])>,
    under_way: usize,
    reads: BTreeMap<LookupId, Result<Rope, ReadError>>,
    lookups: BTreeSet<LookupId>,
    stopped: Option<Box<StopReason>>,
}

/// Reads the main device's superblocks, and the roots from the places that the superblocks name. Errors: the main
/// device is too small for any store.
pub fn read_labels(device: &mut impl Device) -> Result<Labels, OfflineError> {
    let device_bytes = device.bytes();
    if device_bytes < StoreConfig::DEVICE_BYTES_MIN {
        return Err(OfflineError::NotAStore { device_bytes });
    }
    let mut blocks = LABEL_OFFSETS.map(|offset| read_label(device, store::Device::Main, offset));
    let labels = |blocks: &[Result<AlignedBuf, i32>; 4]| {
        Labels::of(std::array::from_fn(|i| blocks[i].as_ref().map(AlignedBuf::as_slice).map_err(|errno| *errno)))
    };
    let own = labels(&blocks).label().map_or(store::Device::Main, StoreLabel::tree_device);
    let holds_labels = |bytes: u64| bytes >= StoreConfig::LABEL_BYTES;
    if own != store::Device::Main && device.bytes_of(own).is_some_and(holds_labels) {
        for at in [2, 3] {
            blocks[at] = read_label(device, own, LABEL_OFFSETS[at]);
        }
    }
    Ok(labels(&blocks))
}

fn read_label(device: &mut impl Device, of: store::Device, offset: u64) -> Result<AlignedBuf, i32> {
    device.submit(IoRequest::Read { id: IoId(0), device: of, offset, buf: AlignedBuf::zeroed(BLOCK_BYTES) });
    device.wait().result.map(|buf| buf.expect("a read that succeeded hands its buffer back"))
}

/// The label by which the store is opened.
fn label_of(labels: &Labels, device_bytes: u64) -> Result<StoreLabel, OfflineError> {
    if let Some(label) = labels.label() {
        return Ok(*label);
    }
    let unknown = labels.superblocks.iter().find_map(|copy| match copy {
        LabelBlock::UnknownFormat { version, block_bytes, features } => {
            Some(OpenError::UnknownFormat { version: *version, block_bytes: *block_bytes, features: *features })
        }
        _ => None,
    });
    match unknown {
        Some(error) => Err(error.into()),
        None if labels.looks_like_store() => Err(OfflineError::NoSuperblock),
        None => Err(OfflineError::NotAStore { device_bytes }),
    }
}

impl<D: Device> OfflineStore<D> {
    /// Opens any store on the device. Writes nothing.
    ///
    /// A label that the device cannot read counts as absent. The other copy, or the other root, serves if everything is
    /// consistent with it.
    pub fn open(device: D) -> Result<OfflineStore<D>, OfflineError> {
        OfflineStore::open_by(device, Store::open)
    }

    /// Opens the store as [`Store::open_to_mend`] does: reads all metadata and gives up the parts that are lost.
    pub fn open_to_mend(device: D) -> Result<OfflineStore<D>, OfflineError> {
        OfflineStore::open_by(device, Store::open_to_mend)
    }

    fn open_by(mut device: D, open: fn(StoreConfig) -> Opening) -> Result<OfflineStore<D>, OfflineError> {
        let labels = read_labels(&mut device)?;
        let label = label_of(&labels, device.bytes())?;
        let config = StoreConfig {
            slice: label.slice,
            wal_device_bytes: device.bytes_of(store::Device::Wal),
            metadata_device_bytes: device.bytes_of(store::Device::Metadata),
            ..StoreConfig::one_device(device.bytes(), label.wal_bytes, label.fsid, label.osd, label.uuid)
        };
        let mut opening = open(config);
        let mut label_reads = BTreeSet::new();
        let store = loop {
            if let Some(result) = opening.poll_result() {
                break result?;
            }
            while let Some(request) = opening.poll_io() {
                if let IoRequest::Read { id, offset, buf, .. } = &request
                    && LABEL_OFFSETS.contains(offset)
                    && buf.len() == BLOCK_BYTES
                {
                    label_reads.insert(*id);
                }
                device.submit(request);
            }
            let mut done = device.wait();
            if label_reads.contains(&done.id) && done.result.is_err() {
                done.result = Ok(Some(AlignedBuf::zeroed(BLOCK_BYTES)));
            }
            opening.io_done(done);
        };
        // Tests run with lookups that wait for the device. Code that works with those also works with lookups that do
        // not wait.
        #[cfg(test)]
        let store = {
            let mut store = store;
            store.set_memory(store::Memory { page_bytes: 0, onode_bytes: 0, overlay_bytes: 32 << 10 });
            store
        };
        let mut superblocks = vec![(store::Device::Main, labels.superblocks)];
        for other in [store::Device::Wal, store::Device::Metadata] {
            if device.bytes_of(other).is_some() {
                let copies = [LABEL_OFFSETS[0], LABEL_OFFSETS[1]].map(|offset| read_label(&mut device, other, offset));
                let look = |copy: &Result<AlignedBuf, i32>| {
                    Labels::superblock(copy.as_ref().map(AlignedBuf::as_slice).map_err(|errno| *errno))
                };
                superblocks.push((other, [look(&copies[0]), look(&copies[1])]));
            }
        }
        Ok(OfflineStore {
            device,
            store,
            labels,
            superblocks,
            under_way: 0,
            reads: BTreeMap::new(),
            lookups: BTreeSet::new(),
            stopped: None,
        })
    }

    pub fn label(&self) -> StoreLabel {
        self.store.label()
    }

    /// The labels found at the fixed places when the store was opened.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Both copies of each device's superblock, as found when the store was opened.
    pub(crate) fn superblocks(&self) -> &[(store::Device, [LabelBlock<StoreLabel>; 2])] {
        &self.superblocks
    }

    /// The store itself, for questions that it answers at once.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Gives the device back. Uncommitted changes are lost.
    pub fn into_device(mut self) -> D {
        while self.under_way > 0 {
            self.device.wait();
            self.under_way -= 1;
        }
        self.device
    }

    /// Gives the device back with all its I/O still under way, as the end of a process does.
    #[cfg(test)]
    pub(crate) fn into_device_unsettled(self) -> D {
        self.device
    }

    /// Repeats a lookup until it gives an answer.
    pub fn ready<T>(&mut self, mut ask: impl FnMut(&mut Store) -> Lookup<T>) -> Result<T, OfflineError> {
        loop {
            match ask(&mut self.store) {
                Lookup::Ready(value) => return Ok(value),
                Lookup::Damaged(damage) => return Err(damage.into()),
                Lookup::Pending(id) => {
                    while !self.lookups.remove(&id) {
                        self.step()?;
                    }
                }
            }
        }
    }

    pub(crate) fn begin_read(&mut self, object: &ObjectId, offset: u64, len: u64) -> PendingRead {
        let read = match self.store.read(object, offset, len) {
            Lookup::Ready(data) => PendingRead::Ready(data),
            Lookup::Pending(id) => PendingRead::Waiting(id),
            Lookup::Damaged(damage) => PendingRead::Damaged(damage),
        };
        self.submit_io();
        read
    }

    /// The bytes of a read, or the reason why they cannot be read. The outer error: the store has stopped, or cannot
    /// tell where the bytes are.
    pub(crate) fn finish_read(&mut self, read: PendingRead) -> Result<Result<Rope, ReadError>, OfflineError> {
        let id = match read {
            PendingRead::Ready(data) => return Ok(Ok(data)),
            PendingRead::Waiting(id) => id,
            PendingRead::Damaged(damage) => return Err(damage.into()),
        };
        loop {
            if let Some(result) = self.reads.remove(&id) {
                return Ok(result);
            }
            self.step()?;
        }
    }

    /// Calls `visit` for each object of the range `from .. until`, in order. Lists a page at a time.
    pub(crate) fn for_each_object(
        &mut self,
        from: &ObjectId,
        until: &ObjectId,
        mut visit: impl FnMut(&mut Self, ObjectId) -> Result<(), OfflineError>,
    ) -> Result<(), OfflineError> {
        const PAGE: usize = 256;
        let mut from = from.clone();
        let mut last = None;
        loop {
            let page = self.ready(|store| store.list(&from, until, PAGE))?;
            let full = page.len() == PAGE;
            for object in page {
                // A page begins with the last object of the page before.
                if last.as_ref() != Some(&object) {
                    visit(self, object.clone())?;
                }
                from = object.clone();
                last = Some(object);
            }
            if !full {
                return Ok(());
            }
        }
    }

    /// Calls `visit` for each page of entries of an object's omap.
    pub(crate) fn for_each_omap_page(
        &mut self,
        object: &ObjectId,
        mut visit: impl FnMut(&[(bytes::Bytes, bytes::Bytes)]) -> Result<(), OfflineError>,
    ) -> Result<(), OfflineError> {
        const PAGE: usize = 1000;
        let mut after = bytes::Bytes::new();
        loop {
            let (page, more) = self.ready(|store| store.omap_list(object, &after, b"", PAGE))?;
            visit(&page)?;
            match page.last() {
                Some((key, _)) if more => after = key.clone(),
                _ => return Ok(()),
            }
        }
    }

    /// All entries of a group's table, in order.
    pub(crate) fn pg_table(&mut self, pg: PgId) -> Result<Vec<(bytes::Bytes, bytes::Bytes)>, OfflineError> {
        // No key of a group's table begins with so many bytes 0xff.
        const BEHIND_ALL: [u8; 64] = [0xff; 64];
        self.ready(|store| store.pg_list(pg, b"", &BEHIND_ALL, usize::MAX))
    }

    /// Submits a transaction and starts its I/O. The transaction is durable after [`OfflineStore::settle`].
    pub fn submit(&mut self, txn: Transaction) -> Result<(), OfflineError> {
        self.store.submit(txn)?;
        self.store.end_turn();
        self.submit_io();
        self.events()
    }

    /// Makes everything submitted durable. `checkpoint`: also writes a checkpoint.
    pub fn settle(&mut self, checkpoint: bool) -> Result<(), OfflineError> {
        if checkpoint {
            self.store.checkpoint();
        }
        loop {
            self.store.end_turn();
            self.submit_io();
            self.events()?;
            if self.store.is_idle() {
                return Ok(());
            }
            if self.under_way > 0 {
                self.step()?;
            }
        }
    }

    /// Writes a block past the store and flushes. For repairs of places that the store does not write itself.
    pub(crate) fn write_raw(
        &mut self,
        device: store::Device,
        offset: u64,
        block: AlignedBuf,
    ) -> Result<(), OfflineError> {
        assert!(self.under_way == 0 && self.store.is_idle(), "nothing else is under way");
        let requests = [
            IoRequest::Write { id: IoId(0), device, offset, data: Rope::from(block.freeze()) },
            IoRequest::Flush { id: IoId(1), device },
        ];
        for request in requests {
            self.device.submit(request);
            self.device.wait().result.map_err(|errno| OfflineError::Write { offset, errno })?;
        }
        Ok(())
    }

    /// Reads blocks past the store.
    pub(crate) fn read_raw(&mut self, device: store::Device, offset: u64, len: usize) -> Result<AlignedBuf, i32> {
        assert!(self.under_way == 0, "nothing else is under way");
        self.device.submit(IoRequest::Read { id: IoId(0), device, offset, buf: AlignedBuf::zeroed(len) });
        self.device.wait().result.map(|buf| buf.expect("a read that succeeded hands its buffer back"))
    }

    fn submit_io(&mut self) {
        while let Some(request) = self.store.poll_io() {
            self.under_way += 1;
            self.device.submit(request);
        }
    }

    /// Takes in one completion and its consequences.
    fn step(&mut self) -> Result<(), OfflineError> {
        let before = (self.reads.len(), self.lookups.len());
        self.submit_io();
        self.events()?;
        if before != (self.reads.len(), self.lookups.len()) {
            return Ok(());
        }
        assert!(self.under_way > 0, "the store waits for nothing");
        let done = self.device.wait();
        self.under_way -= 1;
        self.store.io_done(done);
        self.submit_io();
        self.events()
    }

    fn events(&mut self) -> Result<(), OfflineError> {
        while let Some(event) = self.store.poll_event() {
            match event {
                StoreEvent::Committed(_) => {}
                StoreEvent::LookupDone(id) => drop(self.lookups.insert(id)),
                StoreEvent::ReadDone { id, result } => drop(self.reads.insert(id, result)),
                StoreEvent::Failed { reason } => self.stopped = Some(reason),
            }
        }
        match &self.stopped {
            Some(reason) => Err(OfflineError::Stopped(reason.clone())),
            None => Ok(()),
        }
    }
}
