//! Small records of the monitor's state.

use types::{Epoch, OsdId, Utime};
use wire::{Decode, DecodeError, Encode, EntityAddrVec, Reader, Writer};

/// A monitor's server in the log, and its addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MonServer {
    /// The number of its store.
    pub server: u64,
    pub addrs: EntityAddrVec,
}

/// The cluster's manager as clients see it: the leading monitor at another address.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ManagerRecord {
    pub epoch: Epoch,
    pub name: String,
    pub addrs: EntityAddrVec,
    pub since: Utime,
}

/// Durable knowledge about a placement group that has ever served, so that it may hold data, or that was split; in that
/// case, if it never served, `last_epoch_started` is 0.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PgRecord {
    /// First epoch of the interval (same up and acting set) in which it last began to serve.
    pub last_epoch_started: Epoch,
    /// The members that served in it: each has every update that a client was answered for, at least in its log.
    pub members: Vec<OsdId>,
    /// OSDs that served before and may have objects that members still lack.
    pub past: Vec<OsdId>,
    /// In erasure-coded pools: the shard of each of `members`, and of each of `past`.
    pub member_shards: Vec<u8>,
    pub past_shards: Vec<u8>,
    /// The epoch in which the group got its present objects by a split; 0 if it was made with them. An interval from
    /// before is not recorded any more.
    pub range_since: Epoch,
    /// A value of [`wire::nacre::mon::doubt`]: the group may have served elsewhere since, or did.
    pub doubt: u8,
}

impl PgRecord {
    /// Returns the OSDs that served before and the members, each with its shard.
    pub fn holders(&self) -> impl Iterator<Item = (OsdId, Option<u8>)> {
        let pair = |(osds, shards): (&Vec<OsdId>, &Vec<u8>)| {
            let shards: Vec<Option<u8>> = (0..osds.len()).map(|i| shards.get(i).copied()).collect();
            osds.iter().copied().zip(shards).collect::<Vec<_>>()
        };
        pair((&self.past, &self.past_shards)).into_iter().chain(pair((&self.members, &self.member_shards)))
    }
}

/// A health code that an operator does not want to hear of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HealthMute {
    /// Time at which the mute ends by itself.
    pub expires: Option<Utime>,
    /// True if it outlives the end of the alarm.
    pub sticky: bool,
    /// The alarm's summary when it was muted.
    pub summary: String,
    /// The alarm's count when it was muted; a higher count ends the mute unless it is sticky.
    pub count: i64,
}

/// Versions of the encoding of [`PgRecord`]. Each has all fields of those before it.
mod form {
    /// Has the members.
    pub const PLAIN: u8 = 1;
    /// Adds those that served before.
    pub const PAST: u8 = 2;
    /// Adds the shards of both.
    pub const SHARDS: u8 = 3;
    /// Adds since when the group has its range of objects.
    pub const RANGE: u8 = 4;
    /// Adds the doubt that the group served elsewhere.
    pub const DOUBT: u8 = 5;
}

impl Encode for PgRecord {
    fn encode(&self, w: &mut Writer) {
        w.versioned(form::DOUBT, form::PLAIN, |w| {
            w.put(&self.last_epoch_started);
            w.put(&self.members);
            w.put(&self.past);
            w.put(&self.member_shards);
            w.put(&self.past_shards);
            w.put(&self.range_since);
            w.u8(self.doubt);
        });
    }
}

impl Decode for PgRecord {
    const MIN_BYTES: usize = 14;

    fn decode(r: &mut Reader<'_>) -> Result<PgRecord, DecodeError> {
        let (version, mut r) = r.versioned("placement group record", form::DOUBT)?;
        Ok(PgRecord {
            last_epoch_started: r.get()?,
            members: r.get()?,
            past: if version.version >= form::PAST { r.get()? } else { Vec::new() },
            member_shards: if version.version >= form::SHARDS { r.get()? } else { Vec::new() },
            past_shards: if version.version >= form::SHARDS { r.get()? } else { Vec::new() },
            range_since: if version.version >= form::RANGE { r.get()? } else { Epoch(0) },
            doubt: if version.version >= form::DOUBT { r.u8()? } else { 0 },
        })
    }
}

impl Encode for HealthMute {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.expires);
            w.bool(self.sticky);
            w.str(&self.summary);
            w.i64(self.count);
        });
    }
}

impl Decode for HealthMute {
    const MIN_BYTES: usize = 20;

    fn decode(r: &mut Reader<'_>) -> Result<HealthMute, DecodeError> {
        let (_, mut r) = r.versioned("health mute", 1)?;
        Ok(HealthMute { expires: r.get()?, sticky: r.bool()?, summary: r.get()?, count: r.i64()? })
    }
}

impl Encode for MonServer {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.u64(self.server);
            w.put(&self.addrs);
        });
    }
}

impl Decode for MonServer {
    const MIN_BYTES: usize = 14;

    fn decode(r: &mut Reader<'_>) -> Result<MonServer, DecodeError> {
        let (_, mut r) = r.versioned("server of a monitor", 1)?;
        Ok(MonServer { server: r.u64()?, addrs: r.get()? })
    }
}

impl Encode for ManagerRecord {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.epoch);
            w.str(&self.name);
            w.put(&self.addrs);
            w.put(&self.since);
        });
    }
}

impl Decode for ManagerRecord {
    fn decode(r: &mut Reader<'_>) -> Result<ManagerRecord, DecodeError> {
        let (_, mut r) = r.versioned("manager record", 1)?;
        Ok(ManagerRecord { epoch: r.get()?, name: r.get()?, addrs: r.get()?, since: r.get()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Version 4 ended before the doubt.
    #[test]
    fn a_record_of_version_4_is_read() {
        let record =
            PgRecord { last_epoch_started: Epoch(7), members: vec![OsdId(1), OsdId(2)], ..PgRecord::default() };
        let mut bytes = record.to_vec(wire::Target::PACIFIC);
        bytes.pop();
        let length = (bytes.len() - 6) as u32;
        bytes[0] = 4;
        bytes[2..6].copy_from_slice(&length.to_le_bytes());
        assert_eq!(PgRecord::from_slice(&bytes), Ok(record));
    }
}
