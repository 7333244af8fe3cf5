//! Versions and times.

use crate::{Decode, DecodeError, Encode, Reader, Writer};
use types::{EVersion, Utime};

/// `eversion_t`: the counter first, then the epoch.
impl Encode for EVersion {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.version);
        w.put(&self.epoch);
    }
}

impl Decode for EVersion {
    const MIN_BYTES: usize = 12;

    fn decode(r: &mut Reader<'_>) -> Result<EVersion, DecodeError> {
        let version = r.u64()?;
        Ok(EVersion { epoch: r.get()?, version })
    }
}

/// `utime_t`, also `ceph_timespec`.
impl Encode for Utime {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.sec);
        w.u32(self.nsec);
    }
}

impl Decode for Utime {
    const MIN_BYTES: usize = 8;

    fn decode(r: &mut Reader<'_>) -> Result<Utime, DecodeError> {
        Ok(Utime { sec: r.u32()?, nsec: r.u32()? })
    }
}
