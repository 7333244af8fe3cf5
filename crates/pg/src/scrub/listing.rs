//! Answers to `rados list-inconsistent-obj` and `list-inconsistent-snapset`.

use super::ceph_forms::{self, INFO_ATTR, SNAP_SET_ATTR};
use super::map::ObjectScan;
use super::run::Scrub;
use super::snapshots::SnapFinding;
use super::verdict::{CopyState, Finding, copy_error, differences, object_error};
use crate::group::core::Core;
use crate::group::object_info::{ObjectInfo, USER_ATTR_PREFIX};
use bytes::Bytes;
use std::collections::BTreeMap;
use types::crc32c::SEED;
use types::{Errno, ObjectId, OsdId};
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

impl Scrub {
    /// Answers one page of a listing of what the last scrub found and did not repair.
    pub fn list_inconsistent(&self, core: &Core, args: &[u8], primary: OsdId) -> Result<Vec<u8>, Errno> {
        let args = ListArgs::from_slice(args).map_err(|_| Errno::EINVAL)?;
        let interval = core.interval.since.0;
        if args.interval != 0 && args.interval != interval {
            return Err(Errno::EAGAIN);
        }
        let findings = self.findings.as_ref().ok_or(Errno::ENOENT)?;
        let snap_findings = &self.snap_findings;
        let primary_and_shards = |osd: OsdId| (osd == primary, core.interval.shard_of(osd));
        let page: Vec<Vec<u8>> = match args.snapsets {
            false => args.page(findings).map(|finding| encode(finding, primary_and_shards)).collect(),
            true => args.page(snap_findings).map(encode_snap_finding).collect(),
        };
        let mut w = Writer::new(Target::default());
        w.versioned(1, 1, |w| {
            w.u32(interval);
            w.count(page.len());
            page.iter().for_each(|object| w.blob(object));
        });
        Ok(w.into_vec())
    }
}

impl ListArgs {
    /// Returns the next findings of `all`, as many as a page has.
    fn page<'a, T>(&self, all: &'a BTreeMap<ObjectId, T>) -> impl Iterator<Item = &'a T> {
        let (name, nspace, snap) = &self.after;
        let is_last = |object: &ObjectId| object.name == *name && object.nspace == *nspace && object.snap.0 == *snap;
        let skip = match name.is_empty() {
            true => 0,
            false => all.keys().position(is_last).map_or(all.len(), |at| at + 1),
        };
        all.values().skip(skip).take(self.max.min(OBJECTS_MAX) as usize)
    }
}

/// Writes Ceph's `object_id_t`.
fn put_object(w: &mut Writer, object: &ObjectId) {
    w.versioned(1, 1, |w| {
        w.blob(&object.name);
        w.blob(&object.nspace);
        w.blob(&object.key);
        w.u64(object.snap.0);
    });
}

/// Returns Ceph's `inconsistent_obj_t`. `role` tells whether an OSD is the primary, and its shard.
fn encode(finding: &Finding, role: impl Fn(OsdId) -> (bool, Option<u8>)) -> Vec<u8> {
    let shown = Shown::of(finding);
    let all_errors = finding.copies.iter().fold(0, |all, (_, copy)| all | shown.copy_errors(copy));
    let mut w = Writer::new(Target::default());
    w.versioned(2, 2, |w| {
        w.u64(shown.errors);
        put_object(w, &finding.object);
        w.u64(shown.selected.and_then(|copy| copy.info.as_ref()).map_or(0, |info| info.user_version));
        w.count(finding.copies.len());
        for (osd, copy) in &finding.copies {
            let (is_primary, shard) = role(*osd);
            w.versioned(1, 1, |w| {
                w.put(osd);
                w.i8(shard.map_or(NO_SHARD, |shard| shard as i8));
            });
            w.versioned(3, 3, |w| {
                w.u64(shown.copy_errors(copy));
                w.bool(is_primary);
                let Some(scan) = &copy.scan else { return };
                w.put(&shown.attrs(copy));
                w.u64(scan.size_bytes);
                let is_readable = scan.metadata_error.is_none() && scan.read_error.is_none();
                // The digest of no omap is known also if the OSD computes none.
                let other = if has_omap(scan) { scan.omap_crc } else { SEED };
                let omap = scan.omap_digest.unwrap_or(other);
                for digest in [Some(omap).filter(|_| is_readable), scan.data_crc] {
                    w.bool(digest.is_some());
                    w.u32(digest.unwrap_or(SEED));
                }
                w.bool(finding.selected == Some(*osd));
            });
        }
        w.u64(all_errors);
    });
    w.into_vec()
}

fn has_omap(scan: &ObjectScan) -> bool {
    scan.omap_keys > 0 || scan.omap_bytes > 0
}

/// A finding as Ceph would tell it.
struct Shown<'a> {
    object: &'a ObjectId,
    /// The copy whose object information is shown as the object's.
    selected: Option<&'a CopyState>,
    errors: u64,
    /// Clients read every copy's object information, which must be there or be said to be missing; and what is known of
    /// snapshots.
    shows_infos: bool,
    shows_snap_sets: bool,
}

impl<'a> Shown<'a> {
    fn of(finding: &'a Finding) -> Shown<'a> {
        let selected = finding.selected.map(|osd| &finding.copies[&osd]);
        let is_readable = |copy: &CopyState| copy.errors & (copy_error::STAT | copy_error::READ) == 0;
        let mut errors = finding.errors;
        for copy in finding.copies.values() {
            let readable = selected.filter(|_| is_readable(copy));
            errors |= readable.map_or(0, |selected| differences(selected, copy));
        }
        if finding.object.is_clone() {
            errors &= !object_error::SNAP_SET_INCONSISTENCY;
        }
        let info_errors = copy_error::INFO_MISSING | copy_error::INFO_CORRUPTED;
        let shows_infos = errors & object_error::INFO_INCONSISTENCY != 0
            || finding.copies.values().any(|copy| copy.errors & info_errors != 0);
        let shows_snap_sets = errors & object_error::SNAP_SET_INCONSISTENCY != 0;
        Shown { object: &finding.object, selected, errors, shows_infos, shows_snap_sets }
    }

    fn size_differs(&self, copy: &CopyState) -> bool {
        let size = |copy: &CopyState| {
            let readable = copy.scan.as_ref().filter(|scan| scan.metadata_error.is_none());
            readable.map(|scan| scan.size_bytes)
        };
        let selected = self.selected.and_then(size);
        selected.zip(size(copy)).is_some_and(|(selected, size)| selected != size)
    }

    /// Returns true if the copy is of the version that was selected.
    fn is_of_selected_version(&self, copy: &CopyState) -> bool {
        let version = |copy: &CopyState| copy.info.as_ref().map(|info| info.version);
        copy.info.is_some() && self.selected.and_then(version) == version(copy)
    }

    fn copy_errors(&self, copy: &CopyState) -> u64 {
        let mut errors = copy.errors;
        if copy.scan.is_none() {
            return errors;
        }
        if self.size_differs(copy) {
            errors |= copy_error::SIZE_MISMATCH_INFO;
            errors |= if self.is_of_selected_version(copy) { copy_error::OWN_SIZE_MISMATCH_INFO } else { 0 };
        }
        if copy.errors & copy_error::STAT != 0 && self.shows_infos {
            errors |= copy_error::INFO_MISSING;
        }
        if copy.info.is_none() && self.shows_snap_sets {
            errors |= copy_error::SNAP_SET_MISSING;
        }
        errors
    }

    /// Returns the copy's attributes under Ceph's names, object information and what is known of snapshots among them.
    fn attrs(&self, copy: &CopyState) -> BTreeMap<Bytes, Bytes> {
        let Some(scan) = &copy.scan else { return BTreeMap::new() };
        let mut attrs = match self.errors & (object_error::ATTR_NAME_MISMATCH | object_error::ATTR_VALUE_MISMATCH) {
            0 => BTreeMap::new(),
            _ => scan.attrs.clone().unwrap_or_default(),
        };
        // A client's attribute without a name would be taken for object information.
        attrs.retain(|name, _| name.first() == Some(&USER_ATTR_PREFIX) && name.len() > 1);
        let mut add = |name: &'static [u8], value: Bytes| drop(attrs.insert(Bytes::from_static(name), value));
        if let Some(info) = &copy.info {
            add(INFO_ATTR, self.info(copy, info).into());
            if !self.object.is_clone() {
                add(SNAP_SET_ATTR, ceph_forms::snap_set(&info.snap_set).into());
            }
        } else if let Some(garbled) = &scan.info {
            add(INFO_ATTR, garbled.clone());
        }
        attrs
    }

    fn info(&self, copy: &CopyState, info: &ObjectInfo) -> Vec<u8> {
        let of_version = self.selected.filter(|_| self.is_of_selected_version(copy)).unwrap_or(copy);
        let stored = of_version.scan.as_ref().map_or(0, |scan| scan.size_bytes);
        let has_omap = copy.scan.as_ref().is_some_and(has_omap);
        ceph_forms::object_info(self.object, info, info.size_bytes.unwrap_or(stored), has_omap)
    }
}

/// Returns Ceph's `inconsistent_snapset_t`.
fn encode_snap_finding(finding: &SnapFinding) -> Vec<u8> {
    let mut w = Writer::new(Target::default());
    w.versioned(2, 1, |w| {
        w.u64(finding.errors);
        put_object(w, &finding.object);
        w.put(&finding.extra);
        w.put(&finding.missing);
        w.blob(&finding.known.as_ref().map(ceph_forms::snap_set).unwrap_or_default());
    });
    w.into_vec()
}
