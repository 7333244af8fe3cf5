//! Compares all content of a store with everything that the store says about itself.

use crate::verify::Verifier;
use crate::{Device, Finding, OfflineError, OfflineStore, Progress, losses};
use pg::PgTable;
use pg::log::LogKind;
use pg::object_info::{OBJECT_INFO_ATTR, ObjectInfo};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use store::{LABEL_OFFSETS, LabelBlock, ObjectStat, PlacedExtent, ReadError, StoreLabel};
use types::{BLOCK_BYTES, Errno, ObjectId, PgId, SnapId};

const BLOCK: u64 = BLOCK_BYTES as u64;
/// The most findings that are kept. Further ones are only counted, so that memory stays bounded on a wholly rotten
/// device.
const FINDINGS_MAX: usize = 10_000;

/// Results of a check.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CheckReport {
    /// The store's label; `None` if no superblock was sound.
    pub label: Option<StoreLabel>,
    pub objects: u64,
    pub omap_keys: u64,
    pub groups: u64,
    /// Bytes of blocks that were read and compared. A shared block counts once for each object.
    pub verified_bytes: u64,
    pub bad_blocks: u64,
    /// The first ten thousand findings.
    pub findings: Vec<Finding>,
    /// Number of damages, including those that are not listed.
    pub damage: u64,
}

impl CheckReport {
    pub fn is_clean(&self) -> bool {
        self.damage == 0
    }

    pub(crate) fn find(&mut self, finding: Finding) {
        self.damage += u64::from(finding.is_damage());
        self.bad_blocks += u64::from(matches!(finding, Finding::Block { .. }));
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        }
    }

    fn accounting(&mut self, what: String) {
        self.find(Finding::Accounting { what });
    }

    pub fn json(&self) -> Value {
        json!({
            "status": if self.is_clean() { "clean" } else { "damaged" },
            "store": self.label.as_ref().map(label_json),
            "objects": self.objects, "omap_keys": self.omap_keys, "pgs": self.groups,
            "verified_bytes": self.verified_bytes, "bad_blocks": self.bad_blocks, "damage": self.damage,
            "findings": self.findings.iter().map(Finding::json).collect::<Vec<_>>(),
        })
    }
}

pub(crate) fn label_json(label: &StoreLabel) -> Value {
    json!({
        "osd": label.osd.0, "fsid": label.fsid.to_string(), "uuid": label.uuid.to_string(),
        "device_bytes": label.device_bytes, "wal_bytes": label.wal_bytes,
        "wal_device_bytes": label.wal_device_bytes, "metadata_device_bytes": label.metadata_device_bytes,
    })
}

/// Opens the store on a device and checks all of it. Writes nothing. Errors: there is no store to check, or this
/// software does not know its format.
pub fn check<D: Device>(device: D, progress: Progress<'_>) -> Result<CheckReport, OfflineError> {
    match OfflineStore::open_to_mend(device) {
        Ok(mut store) => check_open(&mut store, progress),
        Err(error) if error.is_damage() => {
            let mut report = CheckReport::default();
            report.find(Finding::DoesNotOpen { why: error.to_string() });
            Ok(report)
        }
        Err(error) => Err(error),
    }
}

/// Checks an open store.
pub(crate) fn check_open<D: Device>(
    store: &mut OfflineStore<D>,
    progress: Progress<'_>,
) -> Result<CheckReport, OfflineError> {
    let mut report = CheckReport { label: Some(store.label()), ..CheckReport::default() };
    check_labels(store, &mut report);
    let lost = check_metadata(store, &mut report)?;
    let mut walk = Walk::new(store);
    let mut bad = Vec::new();
    store.for_each_object(&ObjectId::min(), &ObjectId::max(), |store, object| {
        walk.object(store, &object, &mut report, &mut bad)?;
        bad.drain(..).for_each(|error| report.find(Finding::Block { error }));
        progress(walk.verifier.bytes(), Some(walk.total_bytes));
        Ok(())
    })?;
    walk.verifier.finish(store, &mut bad)?;
    bad.drain(..).for_each(|error| report.find(Finding::Block { error }));
    report.verified_bytes = walk.verifier.bytes();
    progress(walk.verifier.bytes(), Some(walk.total_bytes));
    walk.compare_totals(store, &mut report);
    for pg in store.store().pgs() {
        report.groups += 1;
        check_group(store, pg, &lost, &mut report)?;
    }
    Ok(report)
}

/// Reports the lost parts of the metadata. Returns the objects that are lost with them.
fn check_metadata<D: Device>(
    store: &mut OfflineStore<D>,
    report: &mut CheckReport,
) -> Result<BTreeSet<ObjectId>, OfflineError> {
    let Some(losses) = losses::of(store)? else { return Ok(BTreeSet::new()) };
    for (what, groups) in losses.parts {
        report.find(Finding::Lost { what, groups });
    }
    if let Some(why) = losses.refused {
        report.find(Finding::Hopeless { why });
    }
    let lost = losses.objects.iter().map(|(object, _)| object.clone()).collect();
    for (object, group) in losses.objects {
        report.find(Finding::LostObject { object, group });
    }
    Ok(lost)
}

fn check_labels<D: Device>(store: &OfflineStore<D>, report: &mut CheckReport) {
    let labels = store.labels();
    fn fault<T>(label: &LabelBlock<T>) -> Option<String> {
        Some(match label {
            LabelBlock::Sound(_) => return None,
            LabelBlock::UnknownFormat { version, .. } => format!("of format {version}, unlike the other copy"),
            LabelBlock::Blank => "blank".to_owned(),
            LabelBlock::Damaged => "damaged".to_owned(),
            LabelBlock::Unreadable(errno) => format!("cannot be read: {}", Errno(*errno)),
        })
    }
    for (device, copies) in store.superblocks() {
        for (offset, copy) in LABEL_OFFSETS.into_iter().zip(copies) {
            if let Some(what) = fault(copy) {
                let what = format!("{what}; the other copy is sound");
                report.find(Finding::Superblock { device: *device, offset, what });
            }
        }
    }
    // If the end of the log is lost, another finding tells of the block that it was lost with.
    let lost = store.store().mended().is_some_and(|mended| mended.log.is_some());
    for offset in store.store().unreadable_log().iter().filter(|_| !lost) {
        report.find(Finding::LogBlock { device: store.store().log_device(), offset: *offset });
    }
    // A store that never wrote a checkpoint has one root only.
    let fresh = labels.roots.iter().filter_map(LabelBlock::sound).all(|sequence| *sequence == 0);
    for (offset, root) in LABEL_OFFSETS[2..].iter().zip(&labels.roots) {
        match fault(root) {
            Some(_) if fresh && matches!(root, LabelBlock::Blank) => {}
            Some(what) => {
                let damage = matches!(root, LabelBlock::Unreadable(_));
                let what = format!("{what} (an interrupted write, or damage); the other root is in use");
                report.find(Finding::Root { offset: *offset, what, damage });
            }
            None => {}
        }
    }
}

/// Sums over all objects, to be compared with the store's own counts.
struct Walk {
    verifier: Verifier,
    total_bytes: u64,
    /// One bit for each block; a set bit means that some object holds the block.
    claimed: Vec<u64>,
    claimed_blocks: u64,
    stored_bytes: u64,
    omap_bytes: u64,
}

impl Walk {
    fn new<D: Device>(store: &OfflineStore<D>) -> Walk {
        let blocks = store.label().device_bytes / BLOCK;
        Walk {
            verifier: Verifier::default(),
            total_bytes: store.store().usage().data_bytes,
            claimed: vec![0; blocks.div_ceil(64) as usize],
            claimed_blocks: 0,
            stored_bytes: 0,
            omap_bytes: 0,
        }
    }

    fn object<D: Device>(
        &mut self,
        store: &mut OfflineStore<D>,
        object: &ObjectId,
        report: &mut CheckReport,
        bad: &mut Vec<ReadError>,
    ) -> Result<(), OfflineError> {
        report.objects += 1;
        let Some(stat) = store.ready(|store| store.stat(object))? else {
            report.accounting(format!("object {object} is listed, but absent"));
            return Ok(());
        };
        self.stored_bytes += stat.size_bytes;
        check_object_info(object, &stat, report);
        check_clone_lists(store, object, &stat, report)?;
        let extents = store.ready(|store| store.placement(object, 0, u64::MAX))?;
        self.claim(object, &extents, store.label().device_bytes, report);
        self.verifier.object(store, object, &extents, bad)?;
        if stat.has_omap {
            let mut keys = 0;
            let mut last: Option<bytes::Bytes> = None;
            let mut in_order = true;
            store.for_each_omap_page(object, |page| {
                for (key, value) in page {
                    keys += 1;
                    self.omap_bytes += (key.len() + value.len()) as u64;
                    in_order &= last.as_ref().is_none_or(|last| last < key);
                    last = Some(key.clone());
                }
                Ok(())
            })?;
            report.omap_keys += keys;
            if !in_order {
                report.accounting(format!("object {object}: its omap is out of order"));
            }
        }
        Ok(())
    }

    fn claim(&mut self, object: &ObjectId, extents: &[PlacedExtent], device_bytes: u64, report: &mut CheckReport) {
        let mut own: Vec<(u64, u64)> = extents.iter().map(|e| (e.device_offset, e.device_offset + e.len)).collect();
        own.sort_unstable();
        for pair in own.windows(2) {
            if pair[0].1 > pair[1].0 {
                report.accounting(format!("object {object} holds the block at {:#x} twice", pair[1].0));
            }
        }
        for (from, until) in own {
            if until > device_bytes {
                report.accounting(format!("object {object} holds blocks beyond the device, at {from:#x}"));
                continue;
            }
            for block in from / BLOCK..until / BLOCK {
                let (word, bit) = (&mut self.claimed[(block / 64) as usize], 1 << (block % 64));
                self.claimed_blocks += u64::from(*word & bit == 0);
                *word |= bit;
            }
        }
    }

    fn compare_totals<D: Device>(&self, store: &OfflineStore<D>, report: &mut CheckReport) {
        let mut usage = store.store().usage();
        if store.store().replayed_records() > 0 {
            // The count still includes entries that changes since the last checkpoint replaced or removed.
            usage.omap_bytes = usage.omap_bytes.min(self.omap_bytes);
        }
        let totals = [
            ("objects", report.objects, usage.objects),
            ("bytes of objects", self.stored_bytes, usage.stored_bytes),
            ("bytes of omap entries", self.omap_bytes, usage.omap_bytes),
            ("bytes of data blocks", self.claimed_blocks * BLOCK, usage.data_bytes),
        ];
        for (what, found, kept) in totals {
            if found != kept {
                report.accounting(format!("{found} {what} found, but {kept} counted"));
            }
        }
        for (offset, len) in store.store().free_ranges() {
            let held = (offset / BLOCK..(offset + len) / BLOCK)
                .find(|block| self.claimed[(block / 64) as usize] >> (block % 64) & 1 == 1);
            if let Some(block) = held {
                report.accounting(format!("the block at {:#x} counts as free, but an object holds it", block * BLOCK));
            }
        }
    }
}

fn check_object_info(object: &ObjectId, stat: &ObjectStat, report: &mut CheckReport) {
    if stat.attrs.contains_key(OBJECT_INFO_ATTR)
        && let Err(error) = ObjectInfo::of(stat)
    {
        let what = format!("its information is damaged: {error}");
        report.find(Finding::ObjectInfo { object: object.clone(), what });
    }
}

/// Checks that a clone is listed under each of its snapshots. One that is not listed would stay when its snapshots are
/// removed.
fn check_clone_lists<D: Device>(
    store: &mut OfflineStore<D>,
    object: &ObjectId,
    stat: &ObjectStat,
    report: &mut CheckReport,
) -> Result<(), OfflineError> {
    if !object.is_clone() || object.pool.is_beside() || !store.store().lists_clones() {
        return Ok(());
    }
    let behind = ObjectId { snap: SnapId(object.snap.0 + 1), ..object.clone() };
    for snap in store::snaps_of_clone(&stat.attrs) {
        if store.ready(|store| store.clones_of(snap, object, &behind, 1))?.is_empty() {
            report.accounting(format!("object {object} is not listed under snapshot {}", snap.0));
        }
    }
    Ok(())
}

/// Checks a group's table by itself, and its log against the objects. An object must be as the last log entry about it
/// says, unless it is noted as missing or backfill has not come to it.
fn check_group<D: Device>(
    store: &mut OfflineStore<D>,
    pg: PgId,
    lost: &BTreeSet<ObjectId>,
    report: &mut CheckReport,
) -> Result<(), OfflineError> {
    let entries = store.pg_table(pg)?;
    let table = match PgTable::decode(entries) {
        Ok(table) => table,
        Err(error) => {
            report.find(Finding::Group { pg, what: error.to_string() });
            return Ok(());
        }
    };
    let mut last = BTreeMap::new();
    for entry in table.log.iter().filter(|entry| entry.kind != LogKind::Unchanged) {
        last.insert(&entry.object, entry);
    }
    for (object, entry) in last {
        if table.missing.contains_key(object) || lost.contains(object) || !table.info.covers(object) {
            continue;
        }
        let stat = store.ready(|store| store.stat(object))?;
        let found = stat.as_deref().map(ObjectInfo::of);
        let what = match (entry.kind, found) {
            (LogKind::Modify, None) => format!("object {object} is absent, but the log has it at {}", entry.version),
            (LogKind::Modify, Some(Ok(info))) if info.version != entry.version => {
                format!("object {object} is at {}, but the log has it at {}", info.version, entry.version)
            }
            (LogKind::Modify, Some(Err(error))) => format!("object {object} has no sound information: {error}"),
            (LogKind::Delete, Some(_)) => {
                format!("object {object} is there, but the log has it removed at {}", entry.version)
            }
            _ => continue,
        };
        report.find(Finding::Group { pg, what });
    }
    Ok(())
}
