//! The map's records of one OSD's past.

use types::{Epoch, Utime};
use wire::{Decode, DecodeError, Encode, Reader, Writer};

/// Epochs at which an OSD came and went. Ceph's `osd_info_t`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct OsdInfo {
    /// The last interval that ended with an orderly stop: first and last epoch.
    pub last_clean_begin: Epoch,
    pub last_clean_end: Epoch,
    /// Epoch in which it was last marked up.
    pub up_from: Epoch,
    /// Epoch up to which it is known to have lived: a primary records that before it may serve writes.
    pub up_thru: Epoch,
    /// Epoch in which it was last marked down.
    pub down_at: Epoch,
    /// Epoch in which an operator last declared its data lost.
    pub lost_at: Epoch,
}

impl Encode for OsdInfo {
    fn encode(&self, w: &mut Writer) {
        w.u8(1);
        for epoch in
            [self.last_clean_begin, self.last_clean_end, self.up_from, self.up_thru, self.down_at, self.lost_at]
        {
            w.put(&epoch);
        }
    }
}

impl Decode for OsdInfo {
    const MIN_BYTES: usize = 25;

    fn decode(r: &mut Reader<'_>) -> Result<OsdInfo, DecodeError> {
        let version = r.u8()?;
        if version != 1 {
            return Err(DecodeError::Value { what: "version of OSD info", value: version.into() });
        }
        Ok(OsdInfo {
            last_clean_begin: r.get()?,
            last_clean_end: r.get()?,
            up_from: r.get()?,
            up_thru: r.get()?,
            down_at: r.get()?,
            lost_at: r.get()?,
        })
    }
}

/// More about one OSD, of interest to daemons. Ceph's `osd_xinfo_t`.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct OsdXInfo {
    /// Time at which it was last marked down.
    pub down_stamp: Utime,
    /// Probability that it is laggy rather than dead, in 1 / 0xffffffff.
    pub laggy_probability: u32,
    /// Average time for which it was laggy.
    pub laggy_interval_s: u32,
    /// Feature bits it advertised.
    pub features: u64,
    /// Its weight before it was marked out automatically; 0 if it was not.
    pub old_weight: u32,
    pub last_purged_snaps_scrub: Utime,
    /// The last epoch at which it may have been alive when it was found dead.
    pub dead_epoch: Epoch,
}

impl Encode for OsdXInfo {
    fn encode(&self, w: &mut Writer) {
        w.versioned(4, 1, |w| {
            w.put(&self.down_stamp);
            w.u32(self.laggy_probability);
            w.u32(self.laggy_interval_s);
            w.u64(self.features);
            w.u32(self.old_weight);
            w.put(&self.last_purged_snaps_scrub);
            w.put(&self.dead_epoch);
        });
    }
}

impl Decode for OsdXInfo {
    const MIN_BYTES: usize = 34;

    fn decode(r: &mut Reader<'_>) -> Result<OsdXInfo, DecodeError> {
        let (head, mut r) = r.versioned("OSD extra info", 4)?;
        if head.version < 3 {
            return Err(DecodeError::TooOld { what: "OSD extra info", version: head.version, oldest: 3 });
        }
        let mut info = OsdXInfo {
            down_stamp: r.get()?,
            laggy_probability: r.u32()?,
            laggy_interval_s: r.u32()?,
            features: r.u64()?,
            old_weight: r.u32()?,
            ..OsdXInfo::default()
        };
        if head.version >= 4 {
            info.last_purged_snaps_scrub = r.get()?;
            info.dead_epoch = r.get()?;
        }
        Ok(info)
    }
}
