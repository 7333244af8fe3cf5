//! Requests to a monitor about its maps.

use crate::envelope::{Header, Message};
use crate::{DecodeError, Reader, Rope, Writer};

/// Asks for the monitor map. Ceph's `MMonGetMap`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct MonGetMap;

impl Message for MonGetMap {
    const TYPE: u16 = 5;

    fn encode_front(&self, _: &mut Writer) {}

    fn decode(_: &Header, _: &mut Reader<'_>, _: &Rope) -> Result<MonGetMap, DecodeError> {
        Ok(MonGetMap)
    }
}

/// Asks for the newest version of a map (`osdmap`, `monmap`, `mdsmap`, `fsmap`). Ceph's `MMonGetVersion`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct MonGetVersion {
    /// Number that the answer repeats.
    pub handle: u64,
    pub what: String,
}

impl Message for MonGetVersion {
    const TYPE: u16 = 19;

    fn encode_front(&self, w: &mut Writer) {
        w.u64(self.handle);
        w.str(&self.what);
    }

    fn decode(_: &Header, r: &mut Reader<'_>, _: &Rope) -> Result<MonGetVersion, DecodeError> {
        Ok(MonGetVersion { handle: r.u64()?, what: r.get()? })
    }
}

/// The answer to a [`MonGetVersion`]. Ceph's `MMonGetVersionReply`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct MonGetVersionReply {
    pub handle: u64,
    /// The newest committed version.
    pub version: u64,
    /// The oldest version kept.
    pub oldest: u64,
}

impl Message for MonGetVersionReply {
    const TYPE: u16 = 20;
    const VERSION: u16 = 2;
    const COMPAT: u16 = 2;

    fn encode_front(&self, w: &mut Writer) {
        w.u64(self.handle);
        w.u64(self.version);
        w.u64(self.oldest);
    }

    fn decode(_: &Header, r: &mut Reader<'_>, _: &Rope) -> Result<MonGetVersionReply, DecodeError> {
        Ok(MonGetVersionReply { handle: r.u64()?, version: r.u64()?, oldest: r.u64()? })
    }
}
