//! Digests that are not known are recorded where a deep scrub has seen that all copies are equal.
//!
//! By an update of the group like any other, so that all members have them. Objects come first that have been left
//! alone for longest, and those not at all that were changed a short while ago: they may well be changed again, which
//! would drop the digest. States that snapshots preserve have what the present state had when they were made; nothing
//! is recorded for them.

use super::map::ObjectScan;
use super::verdict::Shards;
use crate::group::digests::Digests;
use crate::group::object_info::ObjectInfo;
use std::collections::BTreeMap;
use std::time::Duration;
use types::{EVersion, OsdId, Utime};
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

/// Returns the digests of an object of which `own` is this OSD's copy. `copies` are all there are, and are found to be
/// equal, or to be a code word. `None`: a shard was not read.
pub(super) fn found(
    own: &ObjectScan,
    copies: &BTreeMap<OsdId, Option<ObjectScan>>,
    shards: &Shards<'_>,
) -> Option<Digests> {
    let Some(code) = shards.code else {
        return Some(Digests { data: own.data_crc, omap: own.omap_digest, shards: Vec::new() });
    };
    let of_copy = |(osd, scan): (&OsdId, &Option<ObjectScan>)| {
        let scan = scan.as_ref().filter(|scan| scan.fingerprints.is_some())?;
        Some(((shards.of)(*osd)?, scan.data_crc?))
    };
    let by_shard: BTreeMap<u8, u32> = copies.iter().filter_map(of_copy).collect();
    let is_whole = by_shard.len() == code.k() + code.m();
    // An omap that is not there takes no digest.
    let omap = own.omap_digest.filter(|_| own.omap_keys > 0 || own.omap_bytes > 0);
    is_whole.then(|| Digests { data: None, omap, shards: by_shard.into_values().collect() })
}

/// Returns the digests that are to be recorded of an object, and when it was changed. `found`: those of all copies,
/// which are as `scan` says. `None`: nothing.
pub(super) fn wanted(scan: &ObjectScan, found: Digests, now: Utime, after: Duration) -> Option<(Record, Utime)> {
    let info = ObjectInfo::from_slice(scan.info.as_ref()?).ok()?;
    let known = &info.digests;
    let is_new = known.data.is_none() && found.data.is_some()
        || known.omap.is_none() && found.omap.is_some()
        || known.shards.is_empty() && !found.shards.is_empty();
    let age = now.to_unix().saturating_sub(info.mtime.to_unix());
    let may = !scan.object.is_clone() && !info.snap_set.is_whiteout && age >= after;
    (may && is_new).then_some((Record { version: info.version, digests: found }, info.mtime))
}
