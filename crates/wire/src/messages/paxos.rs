//! The head of many messages to and from monitors.

use crate::{DecodeError, Reader, Writer};

/// Writes the head. `version`: newest version that the sender has of the map that the message concerns.
pub(super) fn put_head(w: &mut Writer, version: u64) {
    w.u64(version);
    // Unused fields: a monitor's rank and a transaction id, by which monitors once forwarded requests.
    w.i16(-1);
    w.u64(0);
}

/// Reads the head's version.
pub(super) fn get_head(r: &mut Reader<'_>) -> Result<u64, DecodeError> {
    let version = r.u64()?;
    r.skip(2 + 8)?;
    Ok(version)
}
