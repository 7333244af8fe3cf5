//! Digests that are not known are recorded where a deep scrub has seen that all copies are equal.
//!
//! By an update of the group like any other, so that all members have them. Objects come first that have been left
//! alone for longest, and those not at all that were changed a short while ago: they may well be changed again, which
//! would drop the digest. States that snapshots preserve have what the present state had when they were made; nothing
//! is recorded for them.

use super::map::ObjectScan;
use crate::group::digests::Digests;
use crate::group::object_info::ObjectInfo;
use std::time::Duration;
use types::{EVersion, Utime};
use wire::Decode;

/// An object that is not changed for so long gets its digests recorded, as in Ceph.
pub(crate) const RECORD_AFTER: Duration = Duration::from_secs(2 * 60 * 60);

/// Digests to be recorded of one object.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Record {
    /// Version of the object; the digests say nothing of another one.
    pub version: EVersion,
    pub digests: Digests,
}

/// Returns what is to be recorded of an object of which all copies are as `scan` says, and when the object was changed.
/// `None`: nothing.
pub(super) fn wanted(scan: &ObjectScan, now: Utime, after: Duration) -> Option<(Record, Utime)> {
    let info = ObjectInfo::from_slice(scan.info.as_ref()?).ok()?;
    let digests = Digests { data: scan.data_crc, omap: scan.omap_digest, shards: Vec::new() };
    let is_new =
        info.digests.data.is_none() && digests.data.is_some() || info.digests.omap.is_none() && digests.omap.is_some();
    let age = now.to_unix().saturating_sub(info.mtime.to_unix());
    let may = !scan.object.is_clone() && !info.snap_set.is_whiteout && age >= after;
    (may && is_new).then_some((Record { version: info.version, digests }, info.mtime))
}
