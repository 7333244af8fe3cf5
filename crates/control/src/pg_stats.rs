//! Statistics of a placement group, as a Ceph prints them: monitors tell them of all groups, and an OSD of one that it
//! leads.
//!
//! Counters of Ceph for features that are not here (cache tiers, manifests) are 0.

use serde_json::{Map, Value, json};
use types::{OsdId, Utime};
use wire::nacre::mon::{PgReport, PgScrubReport};
use wire::nacre::{PgTimes, pg_state_text};

/// Counters in Ceph's order.
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

/// Returns `stat_sum`; `count` gives each counter by its name.
pub fn sum(count: impl Fn(&str) -> u64) -> Value {
    Value::Object(SUM_KEYS.iter().map(|key| ((*key).to_owned(), json!(count(key)))).collect())
}

/// Returns a counter of one group that has so many `copies` of all objects.
pub fn count(report: &PgReport, copies: u64, key: &str) -> u64 {
    match key {
        "num_bytes" => report.bytes,
        // Every object counts as changed since it was last in a cache tier, because it never was in one.
        "num_objects" | "num_objects_dirty" => report.objects,
        "num_object_clones" => report.clones,
        "num_object_copies" => report.objects.saturating_mul(copies),
        "num_objects_degraded" => report.degraded_copies,
        "num_objects_misplaced" => report.misplaced_copies,
        "num_objects_unfound" => report.unfound,
        "num_objects_missing_on_primary" => report.missing_on_primary,
        "num_objects_recovered" => report.recovered_objects,
        "num_bytes_recovered" => report.recovered_bytes,
        "num_read" => report.read_ops,
        "num_read_kb" => report.read_kib,
        "num_write" => report.write_ops,
        "num_write_kb" => report.write_kib,
        "num_omap_bytes" => report.omap_bytes,
        "num_omap_keys" => report.omap_keys,
        "num_scrub_errors" => report.scrub.shallow_errors.saturating_add(report.scrub.deep_errors),
        "num_shallow_scrub_errors" => report.scrub.shallow_errors,
        "num_deep_scrub_errors" => report.scrub.deep_errors,
        "num_objects_repaired" => report.scrub.repaired,
        "num_large_omap_objects" => report.scrub.large_omaps,
        _ => 0,
    }
}

/// Returns the times at which a group was scrubbed; a scrub that was not done yet counts, as in Ceph, from when its
/// pool was made.
pub fn scrubbed(made: Utime, scrub: &PgScrubReport) -> PgScrubReport {
    let (light_at, deep_at) = (scrub.light_at.max(made), scrub.deep_at.max(made));
    PgScrubReport { light_at, deep_at, clean_at: scrub.clean_at.max(made), ..scrub.clone() }
}

/// Returns the fields that tell of a group's scrubs: its history has the same ones as its statistics.
pub fn scrub_fields(scrubbed: &PgScrubReport) -> Map<String, Value> {
    Map::from_iter([
        ("last_scrub".to_owned(), json!(scrubbed.light_version.to_string())),
        ("last_scrub_stamp".to_owned(), json!(stamp(scrubbed.light_at))),
        ("last_deep_scrub".to_owned(), json!(scrubbed.deep_version.to_string())),
        ("last_deep_scrub_stamp".to_owned(), json!(stamp(scrubbed.deep_at))),
        ("last_clean_scrub_stamp".to_owned(), json!(stamp(scrubbed.clean_at))),
    ])
}

/// Returns a time as a Ceph prints it; one that is not known as `0.000000`.
pub fn stamp(time: Utime) -> String {
    if time.is_zero() { "0.000000".to_owned() } else { time.to_string() }
}

fn numbers(osds: &[OsdId]) -> Vec<i32> {
    osds.iter().map(|osd| osd.0).collect()
}

fn first(osds: &[OsdId]) -> i32 {
    osds.iter().find(|osd| osd.is_some()).map_or(-1, |osd| osd.0)
}

/// Returns all but the group's name. `acting`: as clients see it. `made`: when the pool was.
pub fn stats(report: &PgReport, times: &PgTimes, acting: &[OsdId], made: Utime) -> Map<String, Value> {
    let before = json!({
        "version": report.last_update.to_string(),
        "reported_seq": report.sequence,
        "reported_epoch": report.epoch.0,
        "state": pg_state_text(report.state),
        "last_fresh": stamp(times.fresh),
        "last_change": stamp(times.change),
        "last_active": stamp(times.active),
        "last_peered": stamp(times.peered),
        "last_clean": stamp(times.clean),
        "last_became_active": stamp(times.became_active),
        "last_became_peered": stamp(times.became_peered),
        "last_unstale": stamp(times.unstale),
        "last_undegraded": stamp(times.undegraded),
        "last_fullsized": stamp(times.fullsized),
        "mapping_epoch": report.interval_since.0,
        "log_start": report.log_start.to_string(),
        "ondisk_log_start": report.log_start.to_string(),
        "created": report.created.0,
        "last_epoch_clean": times.epoch_clean.0,
        "parent": "0.0",
        "parent_split_bits": 0,
    });
    // Members that lack nothing are told, as by a Ceph, of groups that are not clean.
    let complete: Vec<String> = report.complete.iter().flatten().map(|member| member.to_string()).collect();
    let behind = json!({
        "log_size": report.log_entries,
        "ondisk_log_size": report.log_entries,
        "stats_invalid": false,
        "dirty_stats_invalid": false,
        "omap_stats_invalid": false,
        "hitset_stats_invalid": false,
        "hitset_bytes_stats_invalid": false,
        "pin_stats_invalid": false,
        "manifest_stats_invalid": false,
        "snaptrimq_len": report.trim_queue,
        "stat_sum": sum(|key| count(report, acting.len() as u64, key)),
        "up": numbers(&report.up),
        "acting": numbers(acting),
        "avail_no_missing": complete,
        "object_location_counts": [],
        "blocked_by": numbers(&report.blocked_by),
        "up_primary": first(&report.up),
        "acting_primary": first(&report.acting),
        "purged_snaps": [],
    });
    let fields = |value: Value| match value {
        Value::Object(fields) => fields,
        other => panic!("it was made as an object, and is {other}"),
    };
    let mut stats = fields(before);
    stats.extend(scrub_fields(&scrubbed(made, &report.scrub)));
    stats.extend(fields(behind));
    stats
}
