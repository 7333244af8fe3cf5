//! The store's face: signatures to build against; bodies follow.

use crate::*;
use bytes::Bytes;
use std::sync::Arc;
use types::{ObjectId, PgId};
use wire::Rope;

/// An open store. See the crate's documentation for the order of calls.
pub struct Store {}

impl Store {
    /// The requests that make the device an empty store. Carry them out in order, one after another; the last is a
    /// flush. Errors: sizes that do not fit.
    pub fn format(_config: &StoreConfig) -> Result<Vec<IoRequest>, FormatError> {
        unimplemented!()
    }
    /// Begins to open the store on a device. Nothing is written.
    pub fn open(_config: StoreConfig) -> Opening {
        unimplemented!()
    }
    /// Takes a transaction: lookups see it at once; it is durable when [`StoreEvent::Committed`] names its ticket.
    /// Errors: nothing has happened.
    pub fn submit(&mut self, _txn: Transaction) -> Result<Ticket, SubmitError> {
        unimplemented!()
    }
    pub fn stat(&mut self, _object: &ObjectId) -> Lookup<Option<Arc<ObjectStat>>> {
        unimplemented!()
    }
    /// Bytes of `offset .. offset + len`, clipped to the object's size; none for an absent object. Answered with
    /// [`StoreEvent::ReadDone`] if pending.
    pub fn read(&mut self, _object: &ObjectId, _offset: u64, _len: u64) -> Lookup<Rope> {
        unimplemented!()
    }
    /// Allocated ranges (offset, length) within `offset .. offset + len`, clipped to the size, in order, adjoining
    /// ones joined.
    pub fn extents(&mut self, _object: &ObjectId, _offset: u64, _len: u64) -> Lookup<Vec<(u64, u64)>> {
        unimplemented!()
    }
    /// Those of `keys` that exist, with their values, in the order asked.
    pub fn omap_get(&mut self, _object: &ObjectId, _keys: &[Bytes]) -> Lookup<Vec<(Bytes, Bytes)>> {
        unimplemented!()
    }
    /// At most `max` entries with keys behind `start_after` (empty: from the first) that begin with `prefix`, in
    /// order; and whether there are more.
    pub fn omap_list(
        &mut self,
        _object: &ObjectId,
        _start_after: &[u8],
        _prefix: &[u8],
        _max: usize,
    ) -> Lookup<(Vec<(Bytes, Bytes)>, bool)> {
        unimplemented!()
    }
    pub fn omap_header(&mut self, _object: &ObjectId) -> Lookup<Bytes> {
        unimplemented!()
    }
    /// At most `max` objects in `from .. until`, in order.
    pub fn list(&mut self, _from: &ObjectId, _until: &ObjectId, _max: usize) -> Lookup<Vec<ObjectId>> {
        unimplemented!()
    }
    /// Placement groups with anything in their table, in order.
    pub fn pgs(&self) -> Vec<PgId> {
        unimplemented!()
    }
    pub fn pgs_contain(&self, _pg: PgId) -> bool {
        unimplemented!()
    }
    pub fn pg_get(&mut self, _pg: PgId, _key: &[u8]) -> Lookup<Option<Bytes>> {
        unimplemented!()
    }
    /// Entries of the group's table in `begin .. end`, in order.
    pub fn pg_list(&mut self, _pg: PgId, _begin: &[u8], _end: &[u8]) -> Lookup<Vec<(Bytes, Bytes)>> {
        unimplemented!()
    }
    /// Ends a turn of the caller's loop: what was submitted is laid out and sent to the device, as far as the two
    /// turns in flight allow. Call it after completions were fed in.
    pub fn end_turn(&mut self) {
        unimplemented!()
    }
    pub fn poll_io(&mut self) -> Option<IoRequest> {
        unimplemented!()
    }
    pub fn io_done(&mut self, _done: IoDone) {
        unimplemented!()
    }
    pub fn poll_event(&mut self) -> Option<StoreEvent> {
        unimplemented!()
    }
    pub fn usage(&self) -> SpaceUsage {
        unimplemented!()
    }
    /// The store's own identity, as it was formatted with. The OSD tells it to the monitors.
    pub fn uuid(&self) -> types::Fsid {
        unimplemented!()
    }
    /// Whether nothing is under way: all commits done, no checkpoint running, no read or discard pending.
    pub fn is_idle(&self) -> bool {
        unimplemented!()
    }
    /// Starts a checkpoint at the next turn, so that the next open replays little. For an orderly stop: call this,
    /// then turn the loop until [`Store::is_idle`].
    pub fn checkpoint(&mut self) {
        unimplemented!()
    }
}

/// A store being opened: carry out what [`Opening::poll_io`] asks for until [`Opening::poll_result`] answers.
pub struct Opening {}

impl Opening {
    pub fn poll_io(&mut self) -> Option<IoRequest> {
        unimplemented!()
    }
    pub fn io_done(&mut self, _done: IoDone) {
        unimplemented!()
    }
    pub fn poll_result(&mut self) -> Option<Result<Store, OpenError>> {
        unimplemented!()
    }
}

/// Why a device cannot be made a store.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FormatError {
    #[error("device of {bytes} bytes: a store takes {min} to {max}", min = StoreConfig::DEVICE_BYTES_MIN, max = StoreConfig::DEVICE_BYTES_MAX)]
    DeviceSize { bytes: u64 },
    #[error("log of {bytes} bytes on a device of {device_bytes}: it takes a multiple of 4096 from {min} to half of the device", min = StoreConfig::WAL_BYTES_MIN)]
    WalSize { bytes: u64, device_bytes: u64 },
}

/// Why a device does not open as this OSD's store. Nothing was written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OpenError {
    #[error("not a store: neither superblock has its magic and checksum")]
    NotAStore,
}
