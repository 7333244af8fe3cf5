//! What `rados list-inconsistent-obj` gets.

use super::verdict::{Finding, object_error};
use crate::pg::Pg;
use types::crc32c::SEED;
use types::{Errno, OsdId};
use wire::basic::NO_SHARD;
use wire::{Decode, DecodeError, Reader, Target, Writer};

/// Objects of one answer.
const OBJECTS_MAX: u64 = 128;

/// The argument of the operation.
struct ListArgs {
    /// First epoch of the interval that the listing began in; 0 at its beginning.
    interval: u32,
    snapsets: bool,
    /// Name, namespace and snapshot of the last object that the client has; no name at the beginning.
    after: (Vec<u8>, Vec<u8>, u64),
    max: u64,
}

impl Decode for ListArgs {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<ListArgs, DecodeError> {
        let (_, mut r) = r.versioned("scrub_ls_arg_t", 1)?;
        let (interval, snapsets) = (r.u32()?, r.u32()? != 0);
        let after = (r.blob()?.to_vec(), r.blob()?.to_vec(), r.u64()?);
        Ok(ListArgs { interval, snapsets, after, max: r.u64()? })
    }
}

impl Pg {
    /// Answers one page of a listing of what the last scrub found and did not repair.
    pub(crate) fn list_inconsistent(&self, args: &[u8], primary: OsdId) -> Result<Vec<u8>, Errno> {
        let args = ListArgs::from_slice(args).map_err(|_| Errno::EINVAL)?;
        let interval = self.interval.since.0;
        if args.interval != 0 && args.interval != interval {
            return Err(Errno::EAGAIN);
        }
        let findings = self.scrub.findings.as_ref().ok_or(Errno::ENOENT)?;
        let (name, nspace, snap) = &args.after;
        let is_last = |finding: &&Finding| {
            let object = &finding.object;
            object.name == *name && object.nspace == *nspace && object.snap.0 == *snap
        };
        let skip = match name.is_empty() {
            true => 0,
            false => findings.values().position(|finding| is_last(&finding)).map_or(findings.len(), |at| at + 1),
        };
        // There are no snapshots that could contradict each other.
        let max = if args.snapsets { 0 } else { args.max.min(OBJECTS_MAX) as usize };
        let page: Vec<Vec<u8>> = findings.values().skip(skip).take(max).map(|f| encode(f, primary)).collect();
        let mut w = Writer::new(Target::default());
        w.versioned(1, 1, |w| {
            w.u32(interval);
            w.count(page.len());
            page.iter().for_each(|object| w.blob(object));
        });
        Ok(w.into_vec())
    }
}

/// Ceph's `inconsistent_obj_t`.
fn encode(finding: &Finding, primary: OsdId) -> Vec<u8> {
    let mut w = Writer::new(Target::default());
    let object = &finding.object;
    // With that bit, clients read every copy's object information in Ceph's own form, which copies here do not have.
    let versions_differ = finding.errors & object_error::INFO_INCONSISTENCY != 0;
    let errors = finding.errors & !object_error::INFO_INCONSISTENCY
        | if versions_differ { object_error::ATTR_VALUE_MISMATCH } else { 0 };
    let info = finding.copies.values().filter_map(|copy| copy.info.as_ref()).max_by_key(|info| info.version);
    w.versioned(2, 2, |w| {
        w.u64(errors);
        w.versioned(1, 1, |w| {
            w.blob(&object.name);
            w.blob(&object.nspace);
            w.blob(&object.key);
            w.u64(object.snap.0);
        });
        w.u64(info.map_or(0, |info| info.user_version));
        w.count(finding.copies.len());
        for (osd, copy) in &finding.copies {
            w.versioned(1, 1, |w| {
                w.put(osd);
                w.i8(NO_SHARD);
            });
            w.versioned(3, 3, |w| {
                w.u64(copy.errors);
                w.bool(*osd == primary);
                let Some(scan) = &copy.scan else { return };
                // No attributes.
                w.u32(0);
                w.u64(scan.size_bytes);
                let omap = Some(scan.omap_crc).filter(|_| scan.metadata_error.is_none());
                for digest in [omap, scan.data_crc] {
                    w.bool(digest.is_some());
                    w.u32(digest.unwrap_or(SEED));
                }
                // None of them is marked as the one whose object information was taken.
                w.bool(false);
            });
        }
        w.u64(finding.copies.values().fold(0, |all, copy| all | copy.errors));
    });
    w.into_vec()
}
