//! Messages with cluster maps. The maps are bytes here; `osdmap` reads them.

use super::paxos::{get_head, put_head};
use crate::basic::IntervalSet;
use crate::envelope::{Header, Message};
use crate::{DecodeError, Reader, Rope, Writer};
use bytes::Bytes;
use std::collections::BTreeMap;
use types::{Epoch, Fsid, PoolId};

/// OSD maps, full ones and increments, by epoch. Ceph's `MOSDMap`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct OsdMap {
    pub fsid: Fsid,
    pub incrementals: BTreeMap<Epoch, Bytes>,
    pub fulls: BTreeMap<Epoch, Bytes>,
    /// Range of epochs that the sender keeps.
    pub oldest: Epoch,
    pub newest: Epoch,
    /// Snapshots removed in epochs that are missing from the message because a full map jumps over them.
    pub gap_removed_snaps: BTreeMap<PoolId, IntervalSet>,
}

impl OsdMap {
    /// The newest epoch in the message, 0 if there is none.
    pub fn last(&self) -> Epoch {
        let last = |maps: &BTreeMap<Epoch, Bytes>| maps.keys().next_back().copied().unwrap_or_default();
        last(&self.incrementals).max(last(&self.fulls))
    }
}

impl Message for OsdMap {
    const TYPE: u16 = 41;
    const VERSION: u16 = 4;
    const COMPAT: u16 = 3;

    fn encode_front(&self, w: &mut Writer) {
        w.put(&self.fsid);
        w.put(&self.incrementals);
        w.put(&self.fulls);
        w.put(&self.oldest);
        w.put(&self.newest);
        w.put(&self.gap_removed_snaps);
    }

    fn decode(header: &Header, r: &mut Reader<'_>, _: &Rope) -> Result<OsdMap, DecodeError> {
        if header.version < Self::COMPAT {
            return Err(DecodeError::Value { what: "layout of a map message", value: header.version.into() });
        }
        let mut maps = OsdMap {
            fsid: r.get()?,
            incrementals: r.get()?,
            fulls: r.get()?,
            oldest: r.get()?,
            newest: r.get()?,
            gap_removed_snaps: BTreeMap::new(),
        };
        if header.version >= 4 {
            maps.gap_removed_snaps = r.get()?;
        }
        Ok(maps)
    }
}

/// Asks for OSD maps by epoch; 0 for none. Only daemons send it. Ceph's `MMonGetOSDMap`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct MonGetOsdMap {
    pub have: u64,
    pub full_first: Epoch,
    pub full_last: Epoch,
    pub inc_first: Epoch,
    pub inc_last: Epoch,
}

impl Message for MonGetOsdMap {
    const TYPE: u16 = 6;

    fn encode_front(&self, w: &mut Writer) {
        put_head(w, self.have);
        w.put(&self.full_first);
        w.put(&self.full_last);
        w.put(&self.inc_first);
        w.put(&self.inc_last);
    }

    fn decode(_: &Header, r: &mut Reader<'_>, _: &Rope) -> Result<MonGetOsdMap, DecodeError> {
        Ok(MonGetOsdMap {
            have: get_head(r)?,
            full_first: r.get()?,
            full_last: r.get()?,
            inc_first: r.get()?,
            inc_last: r.get()?,
        })
    }
}

/// The monitor map, as bytes. Ceph's `MMonMap`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct MonMap {
    pub map: Bytes,
}

impl Message for MonMap {
    const TYPE: u16 = 4;

    fn encode_front(&self, w: &mut Writer) {
        w.blob(&self.map);
    }

    fn decode(_: &Header, r: &mut Reader<'_>, _: &Rope) -> Result<MonMap, DecodeError> {
        Ok(MonMap { map: r.blob_bytes()? })
    }
}

/// The manager map, as bytes, which are the whole message. Ceph's `MMgrMap`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct MgrMap {
    pub map: Bytes,
}

impl Message for MgrMap {
    const TYPE: u16 = 0x704;

    fn encode_front(&self, w: &mut Writer) {
        w.raw(&self.map);
    }

    fn decode(_: &Header, r: &mut Reader<'_>, _: &Rope) -> Result<MgrMap, DecodeError> {
        Ok(MgrMap { map: r.bytes(r.left())? })
    }
}
