//! Statistics of placement groups as values and tables.
//!
//! Counters of Ceph for features that do not exist here yet (cache tiers) are 0.

use super::context::{osds_text, osds_value, stamp};
use super::text_table::TextTable;
use crate::volatile::{PgStat, PgTotals, pg_state_text};
use osdmap::OsdMap;
use serde_json::{Map, Value, json};
use types::OsdId;
use wire::nacre::mon::{PgReport, PgScrubReport};

/// Returns the first OSD that is there; -1 for none.
pub(super) fn primary(osds: &[OsdId]) -> i32 {
    osds.iter().find(|osd| osd.is_some()).map_or(-1, |osd| osd.0)
}

/// Counters in Ceph's order; [`sum_value`] sets unknown ones to 0.
const SUM_KEYS: &[&str] = &[
    "num_bytes",
    "num_objects",
    "num_object_clones",
    "num_object_copies",
    "num_objects_missing_on_primary",
    "num_objects_missing",
    "num_objects_degraded",
    "num_objects_misplaced",
    "num_objects_unfound",
    "num_objects_dirty",
    "num_whiteouts",
    "num_read",
    "num_read_kb",
    "num_write",
    "num_write_kb",
    "num_scrub_errors",
    "num_shallow_scrub_errors",
    "num_deep_scrub_errors",
    "num_objects_recovered",
    "num_bytes_recovered",
    "num_keys_recovered",
    "num_objects_omap",
    "num_objects_hit_set_archive",
    "num_bytes_hit_set_archive",
    "num_flush",
    "num_flush_kb",
    "num_evict",
    "num_evict_kb",
    "num_promote",
    "num_flush_mode_high",
    "num_flush_mode_low",
    "num_evict_mode_some",
    "num_evict_mode_full",
    "num_objects_pinned",
    "num_legacy_snapsets",
    "num_large_omap_objects",
    "num_objects_manifest",
    "num_omap_bytes",
    "num_omap_keys",
    "num_objects_repaired",
];

/// Returns `stat_sum`.
pub(super) fn sum_value(totals: &PgTotals) -> Value {
    let mut object = Map::new();
    for key in SUM_KEYS {
        let n = match *key {
            "num_bytes" => totals.bytes,
            // Every object counts as changed since it was last in a cache tier, because it never was in one.
            "num_objects" | "num_objects_dirty" => totals.objects,
            "num_object_clones" => totals.clones,
            "num_object_copies" => totals.copies,
            "num_objects_degraded" => totals.degraded_copies,
            "num_objects_misplaced" => totals.misplaced_copies,
            "num_objects_unfound" => totals.unfound,
            "num_objects_missing_on_primary" => totals.missing_on_primary,
            "num_objects_recovered" => totals.recovered_objects,
            "num_bytes_recovered" => totals.recovered_bytes,
            "num_read" => totals.read_ops,
            "num_read_kb" => totals.read_kib,
            "num_write" => totals.write_ops,
            "num_write_kb" => totals.write_kib,
            "num_omap_bytes" => totals.omap_bytes,
            "num_omap_keys" => totals.omap_keys,
            "num_scrub_errors" => totals.shallow_errors.saturating_add(totals.deep_errors),
            "num_shallow_scrub_errors" => totals.shallow_errors,
            "num_deep_scrub_errors" => totals.deep_errors,
            "num_objects_repaired" => totals.repaired,
            "num_large_omap_objects" => totals.large_omaps,
            _ => 0,
        };
        object.insert((*key).to_owned(), json!(n));
    }
    Value::Object(object)
}

/// Returns space by kind. Only OSDs know how much space they take on devices; groups do not.
pub(super) fn statfs_value(total: u64, available: u64, allocated: u64, stored: u64, omap: u64, meta: u64) -> Value {
    json!({
        "total": total,
        "available": available,
        "internally_reserved": 0,
        "allocated": allocated,
        "data_stored": stored,
        "data_compressed": 0,
        "data_compressed_allocated": 0,
        "data_compressed_original": 0,
        "omap_allocated": omap,
        "internal_metadata": meta,
    })
}

pub(super) fn values(map: &OsdMap, pgs: &[&PgStat]) -> Value {
    pgs.iter().map(|pg| value(map, pg)).collect()
}

/// Returns the times at which a group was scrubbed; a scrub that was not done yet counts, as in Ceph, from when its
/// pool was made.
pub(super) fn scrubbed(map: &OsdMap, report: &PgReport) -> PgScrubReport {
    let made = map.pool(report.pgid.pool).map(|pool| pool.create_time).unwrap_or_default();
    let scrub = report.scrub.clone();
    let (light_at, deep_at) = (scrub.light_at.max(made), scrub.deep_at.max(made));
    PgScrubReport { light_at, deep_at, clean_at: scrub.clean_at.max(made), ..scrub }
}

/// Returns the totals of one group.
fn totals(map: &OsdMap, pg: &PgStat) -> PgTotals {
    let mut totals = PgTotals::default();
    totals.add(&pg.report);
    totals.copies = pg.report.objects.saturating_mul(pg.acting_shown(map).len() as u64);
    totals
}

/// Returns the members that lack nothing, as a Ceph tells them: of groups that are not clean.
fn available(report: &PgReport) -> Value {
    report.complete.iter().flatten().map(|member| json!(member.to_string())).collect()
}

/// Returns one group in full.
fn value(map: &OsdMap, pg: &PgStat) -> Value {
    let r = &pg.report;
    let scrubbed = scrubbed(map, r);
    json!({
        "pgid": r.pgid.to_string(),
        "version": r.last_update.to_string(),
        "reported_seq": r.sequence,
        "reported_epoch": r.epoch.0,
        "state": pg_state_text(r.state),
        "last_fresh": stamp(pg.last_fresh),
        "last_change": stamp(pg.last_change),
        "last_active": stamp(pg.last_active),
        "last_peered": stamp(pg.last_peered),
        "last_clean": stamp(pg.last_clean),
        "last_became_active": stamp(pg.last_became_active),
        "last_became_peered": stamp(pg.last_became_peered),
        "last_unstale": stamp(pg.last_unstale),
        "last_undegraded": stamp(pg.last_undegraded),
        "last_fullsized": stamp(pg.last_fullsized),
        "mapping_epoch": r.interval_since.0,
        "log_start": r.log_start.to_string(),
        "ondisk_log_start": r.log_start.to_string(),
        "created": r.created.0,
        "last_epoch_clean": pg.last_epoch_clean.0,
        "parent": "0.0",
        "parent_split_bits": 0,
        "last_scrub": r.scrub.light_version.to_string(),
        "last_scrub_stamp": stamp(scrubbed.light_at),
        "last_deep_scrub": r.scrub.deep_version.to_string(),
        "last_deep_scrub_stamp": stamp(scrubbed.deep_at),
        "last_clean_scrub_stamp": stamp(scrubbed.clean_at),
        "log_size": r.log_entries,
        "ondisk_log_size": r.log_entries,
        "stats_invalid": false,
        "dirty_stats_invalid": false,
        "omap_stats_invalid": false,
        "hitset_stats_invalid": false,
        "hitset_bytes_stats_invalid": false,
        "pin_stats_invalid": false,
        "manifest_stats_invalid": false,
        "snaptrimq_len": r.trim_queue,
        "stat_sum": sum_value(&totals(map, pg)),
        "up": osds_value(&r.up),
        "acting": osds_value(pg.acting_shown(map)),
        "avail_no_missing": available(r),
        "object_location_counts": [],
        "blocked_by": osds_value(&r.blocked_by),
        "up_primary": primary(&r.up),
        "acting_primary": primary(&r.acting),
        "purged_snaps": [],
    })
}

pub(super) fn brief_values(map: &OsdMap, pgs: &[&PgStat]) -> Value {
    let one = |pg: &&PgStat| {
        let r = &pg.report;
        json!({
            "pgid": r.pgid.to_string(),
            "state": pg_state_text(r.state),
            "up": osds_value(&r.up),
            "acting": osds_value(pg.acting_shown(map)),
            "up_primary": primary(&r.up),
            "acting_primary": primary(&r.acting),
        })
    };
    pgs.iter().map(one).collect()
}

/// Returns the columns of tables of totals; the leftmost is called `first`.
pub(super) fn totals_columns(first: &'static str) -> impl Iterator<Item = (&'static str, char)> {
    let right = [
        "OBJECTS",
        "MISSING_ON_PRIMARY",
        "DEGRADED",
        "MISPLACED",
        "UNFOUND",
        "BYTES",
        "OMAP_BYTES*",
        "OMAP_KEYS*",
        "LOG",
        "DISK_LOG",
    ];
    std::iter::once((first, 'l')).chain(right.map(|heading| (heading, 'R')))
}

/// Returns the cells below [`totals_columns`] but the first.
pub(super) fn totals_cells(t: &PgTotals) -> [String; 10] {
    let counts = [t.objects, t.missing_on_primary, t.degraded_copies, t.misplaced_copies, t.unfound, t.bytes];
    let more = [t.omap_bytes, t.omap_keys, t.log_entries, t.log_entries];
    std::array::from_fn(|i| counts.iter().chain(&more).nth(i).expect("as many as columns").to_string())
}

pub(super) fn brief_text(map: &OsdMap, pgs: &[&PgStat]) -> String {
    let columns =
        [("PG_STAT", 'l'), ("STATE", 'R'), ("UP", 'R'), ("UP_PRIMARY", 'R'), ("ACTING", 'R'), ("ACTING_PRIMARY", 'R')];
    let mut table = TextTable::with_columns(&columns);
    for pg in pgs {
        let r = &pg.report;
        table.row(vec![
            r.pgid.to_string(),
            pg_state_text(r.state),
            osds_text(&r.up),
            primary(&r.up).to_string(),
            osds_text(pg.acting_shown(map)),
            primary(&r.acting).to_string(),
        ]);
    }
    table.render(true)
}

pub(super) fn full_text(map: &OsdMap, pgs: &[&PgStat]) -> String {
    let right = [
        "STATE",
        "STATE_STAMP",
        "VERSION",
        "REPORTED",
        "UP",
        "UP_PRIMARY",
        "ACTING",
        "ACTING_PRIMARY",
        "LAST_SCRUB",
        "SCRUB_STAMP",
        "LAST_DEEP_SCRUB",
        "DEEP_SCRUB_STAMP",
        "SNAPTRIMQ_LEN",
    ];
    let columns: Vec<(&str, char)> = totals_columns("PG_STAT").chain(right.map(|heading| (heading, 'R'))).collect();
    let mut table = TextTable::with_columns(&columns);
    for pg in pgs {
        let r = &pg.report;
        let scrubbed = scrubbed(map, r);
        let mut cells = vec![r.pgid.to_string()];
        cells.extend(totals_cells(&totals(map, pg)));
        cells.extend([
            pg_state_text(r.state),
            stamp(pg.last_change),
            r.last_update.to_string(),
            format!("{}:{}", r.epoch.0, r.sequence),
            osds_text(&r.up),
            primary(&r.up).to_string(),
            osds_text(pg.acting_shown(map)),
            primary(&r.acting).to_string(),
            r.scrub.light_version.to_string(),
            stamp(scrubbed.light_at),
            r.scrub.deep_version.to_string(),
            stamp(scrubbed.deep_at),
            "0".to_owned(),
        ]);
        table.row(cells);
    }
    table.render(true)
}
