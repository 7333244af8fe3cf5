//! The durable record of a watch.

use types::{EntityName, ObjectId};
use wire::{Decode, DecodeError, Encode, EntityAddr, Reader, Writer};

/// A watch, beside its cookie and client.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct WatchInfo {
    /// Seconds that the client may be silent.
    pub timeout_s: u32,
    /// Address of the client when it began to watch.
    pub addr: EntityAddr,
}

/// One client that watches an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WatchView {
    pub object: ObjectId,
    pub watcher: EntityName,
    pub cookie: u64,
    pub info: WatchInfo,
}

impl Encode for WatchInfo {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.u32(self.timeout_s);
            w.put(&self.addr);
        });
    }
}

impl Decode for WatchInfo {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<WatchInfo, DecodeError> {
        let (_, mut r) = r.versioned("watch", 1)?;
        Ok(WatchInfo { timeout_s: r.u32()?, addr: r.get()? })
    }
}
