//! The head that many messages to and from monitors begin with.

use crate::{DecodeError, Reader, Writer};

/// Writes the head. `version`: the newest version of the map in question that the sender has.
pub(super) fn put_head(w: &mut Writer, version: u64) {
    w.u64(version);
    // A monitor's rank and a transaction id, from when monitors forwarded requests this way.
    w.i16(-1);
    w.u64(0);
}

/// Reads the head's version.
pub(super) fn get_head(r: &mut Reader<'_>) -> Result<u64, DecodeError> {
    let version = r.u64()?;
    r.skip(2 + 8)?;
    Ok(version)
}
