//! Statistics of placement groups as values and tables.
//!
//! Counters of Ceph for features that do not exist here yet (cache tiers) are 0.

use super::context::{osds_text, osds_value, stamp};
use super::text_table::TextTable;
use crate::volatile::{PgStat, PgTotals, pg_state_text};
use control::pg_stats;
use osdmap::OsdMap;
use serde_json::{Map, Value, json};
use types::{OsdId, PgId, Utime};
use wire::nacre::mon::{PgReport, PgScrubReport};

/// Returns the first OSD that is there; -1 for none.
pub(super) fn primary(osds: &[OsdId]) -> i32 {
    osds.iter().find(|osd| osd.is_some()).map_or(-1, |osd| osd.0)
}

/// Returns `stat_sum` of several groups.
pub(super) fn sum_value(totals: &PgTotals) -> Value {
    pg_stats::sum(|key| match key {
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
    })
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

/// Returns the times at which a group was scrubbed.
pub(super) fn scrubbed(map: &OsdMap, report: &PgReport) -> PgScrubReport {
    pg_stats::scrubbed(pool_made(map, report.pgid), &report.scrub)
}

fn pool_made(map: &OsdMap, pgid: PgId) -> Utime {
    map.pool(pgid.pool).map(|pool| pool.create_time).unwrap_or_default()
}

/// Returns the totals of one group.
fn totals(map: &OsdMap, pg: &PgStat) -> PgTotals {
    let mut totals = PgTotals::default();
    totals.add(&pg.report);
    totals.copies = pg.report.objects.saturating_mul(pg.acting_shown(map).len() as u64);
    totals
}

/// Returns one group in full.
fn value(map: &OsdMap, pg: &PgStat) -> Value {
    let pgid = pg.report.pgid;
    let mut value = Map::from_iter([("pgid".to_owned(), json!(pgid.to_string()))]);
    value.extend(pg_stats::stats(&pg.report, &pg.times, pg.acting_shown(map), pool_made(map, pgid)));
    Value::Object(value)
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
            stamp(pg.times.change),
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
