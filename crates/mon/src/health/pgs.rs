//! Alarms about placement groups.

use super::{HealthReport, Severity};
use crate::MonState;
use crate::volatile::{PgStat, Volatile, pg_state_text};
use std::time::Duration;
use types::Utime;
use wire::nacre::mon::{PgReport, pg_state};

/// Time for which a group may be in some passing states before it counts as stuck.
const STUCK_AFTER: Duration = Duration::from_secs(60);

/// A state that raises an alarm.
struct Watched {
    name: &'static str,
    /// Test of a group's state bits.
    is: fn(u64) -> bool,
    /// Time at which a group was last known to be out of the state. If set, the state counts only once the group is
    /// stuck in it.
    last_fine: Option<fn(&PgStat) -> Utime>,
}

const UNAVAILABLE: [Watched; 5] = [
    Watched { name: "inactive", is: |state| state & pg_state::ACTIVE == 0, last_fine: Some(|pg| pg.times.active) },
    Watched { name: "down", is: |state| state & pg_state::DOWN != 0, last_fine: None },
    Watched { name: "incomplete", is: |state| state & pg_state::INCOMPLETE != 0, last_fine: None },
    Watched { name: "peering", is: |state| state & pg_state::PEERING != 0, last_fine: Some(|pg| pg.times.peered) },
    Watched { name: "stale", is: |state| state & pg_state::STALE != 0, last_fine: Some(|pg| pg.times.unstale) },
];

const DEGRADED: [Watched; 2] = [
    Watched { name: "degraded", is: |state| state & pg_state::DEGRADED != 0, last_fine: None },
    Watched {
        name: "undersized",
        is: |state| state & pg_state::UNDERSIZED != 0,
        last_fine: Some(|pg| pg.times.fullsized),
    },
];

const BACKFILL_FULL: [Watched; 1] =
    [Watched { name: "backfill_toofull", is: |state| state & pg_state::BACKFILL_TOOFULL != 0, last_fine: None }];

const RECOVERY_FULL: [Watched; 1] =
    [Watched { name: "recovery_toofull", is: |state| state & pg_state::RECOVERY_TOOFULL != 0, last_fine: None }];

const DAMAGED: [Watched; 1] =
    [Watched { name: "inconsistent", is: |state| state & pg_state::INCONSISTENT != 0, last_fine: None }];

/// An alarm about groups that are scrubbed too seldom.
struct Overdue {
    code: &'static str,
    /// The word for a scrub that was done: `scrubbed`.
    done: &'static str,
    last: fn(&PgReport) -> Utime,
    /// Share of [`SCRUB_WITHIN`] by which a scrub may be late: an option, and its default. 0 turns the alarm off.
    ratio: (&'static str, f64),
}

/// Time within which a group is scrubbed, in both ways.
const SCRUB_WITHIN: Duration = Duration::from_secs(7 * 86_400);

const OVERDUE: [Overdue; 2] = [
    Overdue {
        code: "PG_NOT_SCRUBBED",
        done: "scrubbed",
        last: |report| report.scrub.light_at,
        ratio: ("mon_warn_pg_not_scrubbed_ratio", 0.5),
    },
    Overdue {
        code: "PG_NOT_DEEP_SCRUBBED",
        done: "deep-scrubbed",
        last: |report| report.scrub.deep_at,
        ratio: ("mon_warn_pg_not_deep_scrubbed_ratio", 0.75),
    },
];

fn overdue(state: &MonState, volatile: &Volatile, what: &Overdue, report: &mut HealthReport) {
    let (option, default) = what.ratio;
    let set = state.mon_option("", option).and_then(|text| text.parse().ok());
    let ratio = set.filter(|ratio: &f64| ratio.is_finite()).unwrap_or(default);
    if ratio <= 0.0 {
        return;
    }
    let longest_s = SCRUB_WITHIN.as_secs_f64() * (1.0 + ratio);
    let mut detail = Vec::new();
    for (id, pg) in &volatile.pgs {
        // A group that was never scrubbed, or whose primary has not reported yet, counts from when it was first known.
        let last = (what.last)(&pg.report).max(pg.first_known);
        if volatile.now.to_unix().saturating_sub(last.to_unix()).as_secs_f64() > longest_s {
            detail.push(format!("pg {id} not {} since {last}", what.done));
        }
    }
    if !detail.is_empty() {
        let summary = format!("{} pgs not {} in time", detail.len(), what.done);
        report.raise(what.code, Severity::Warn, summary, detail);
    }
}

pub(super) fn check(state: &MonState, volatile: &Volatile, report: &mut HealthReport) {
    OVERDUE.iter().for_each(|what| overdue(state, volatile, what, report));
    let (counts, detail) = watch(state, volatile, &UNAVAILABLE);
    if !detail.is_empty() {
        let summary = format!("Reduced data availability: {}", counts.join(", "));
        report.raise("PG_AVAILABILITY", Severity::Warn, summary, detail);
    }
    let (mut counts, detail) = watch(state, volatile, &DEGRADED);
    let totals = volatile.totals(None);
    let of_all = |count: u64, all: u64| format!("{count}/{all} objects");
    let percent = |count: u64, all: u64| 100.0 * count as f64 / all.max(1) as f64;
    if totals.degraded_copies > 0 {
        let (degraded, copies) = (totals.degraded_copies, totals.copies);
        counts.insert(0, format!("{} degraded ({:.3}%)", of_all(degraded, copies), percent(degraded, copies)));
    }
    if !counts.is_empty() {
        let summary = format!("Degraded data redundancy: {}", counts.join(", "));
        report.raise("PG_DEGRADED", Severity::Warn, summary, detail);
    }
    let (counts, detail) = watch(state, volatile, &BACKFILL_FULL);
    if !detail.is_empty() {
        let hint = "Low space hindering backfill (add storage if this doesn't resolve itself)";
        report.raise("PG_BACKFILL_FULL", Severity::Warn, format!("{hint}: {}", counts.join(", ")), detail);
    }
    let (counts, detail) = watch(state, volatile, &RECOVERY_FULL);
    if !detail.is_empty() {
        let summary = format!("Full OSDs blocking recovery: {}", counts.join(", "));
        report.raise("PG_RECOVERY_FULL", Severity::Error, summary, detail);
    }
    if totals.unfound > 0 {
        let (unfound, objects) = (totals.unfound, totals.objects);
        let summary = format!("{} unfound ({:.3}%)", of_all(unfound, objects), percent(unfound, objects));
        let some = volatile.pgs.iter().filter(|(_, pg)| pg.report.unfound > 0);
        let detail = some.map(|(id, pg)| format!("pg {id} has {} unfound objects", pg.report.unfound)).collect();
        report.raise("OBJECT_UNFOUND", Severity::Warn, summary, detail);
    }
    let errors = totals.shallow_errors.saturating_add(totals.deep_errors);
    if errors > 0 {
        report.raise("OSD_SCRUB_ERRORS", Severity::Error, format!("{errors} scrub errors"), Vec::new());
    }
    large_omaps(state, volatile, totals.large_omaps, report);
    let (counts, mut detail) = watch(state, volatile, &DAMAGED);
    let undecided = volatile.pgs.iter().filter(|(_, pg)| pg.report.scrub.undecided > 0);
    detail.extend(undecided.map(|(id, pg)| format!("pg {id}: {}", crate::monitor::undecided(&pg.report))));
    if !detail.is_empty() {
        let summary = format!("Possible data damage: {}", counts.join(", "));
        report.raise("PG_DAMAGED", Severity::Error, summary, detail);
    }
}

/// `all`: how many there are in all pools.
fn large_omaps(state: &MonState, volatile: &Volatile, all: u64, report: &mut HealthReport) {
    if all == 0 {
        return;
    }
    let pools = state.osdmap().pool_names.iter().map(|(id, name)| (volatile.totals(Some(*id)).large_omaps, name));
    let found = pools.filter(|(count, _)| *count > 0);
    let mut detail: Vec<String> =
        found.map(|(count, name)| format!("{count} large objects found in pool '{name}'")).collect();
    detail.push("Search the cluster log for 'Large omap object found' for more details.".to_owned());
    let summary = format!("{all} large omap objects");
    let count = usize::try_from(all.min(i64::MAX as u64)).unwrap_or(usize::MAX);
    report.raise_counted("LARGE_OMAP_OBJECTS", Severity::Warn, summary, count, detail);
}

/// Counts the groups in each watched state, and returns a line for each group, about the first state that applies.
fn watch(state: &MonState, volatile: &Volatile, watched: &[Watched]) -> (Vec<String>, Vec<String>) {
    let mut counts = vec![0u64; watched.len()];
    let stuck_after = state.mon_number("mon_pg_stuck_threshold").map_or(STUCK_AFTER, Duration::from_secs);
    let mut detail = Vec::new();
    for (id, pg) in &volatile.pgs {
        let mut line = None;
        for (seen, count) in watched.iter().zip(&mut counts) {
            if !(seen.is)(pg.report.state) {
                continue;
            }
            // A group that was never fine counts from when it was first known.
            let since = seen.last_fine.map(|last_fine| last_fine(pg).max(pg.first_known));
            let stuck = since.map(|since| volatile.now.to_unix().saturating_sub(since.to_unix()));
            if stuck.is_some_and(|stuck| stuck < stuck_after) {
                continue;
            }
            *count += 1;
            let acting = pg.acting_shown(state.osdmap());
            let acting: Vec<String> = acting.iter().map(|osd| osd.0.to_string()).collect();
            let (text, acting) = (pg_state_text(pg.report.state), acting.join(","));
            line.get_or_insert_with(|| match stuck {
                Some(stuck) => format!(
                    "pg {id} is stuck {} for {}, current state {text}, last acting [{acting}]",
                    seen.name,
                    age(stuck)
                ),
                None => format!("pg {id} is {text}, acting [{acting}]"),
            });
        }
        detail.extend(line);
    }
    let plural = |n: u64| if n == 1 { "" } else { "s" };
    let counted = watched.iter().zip(counts).filter(|(_, count)| *count > 0);
    let counts = counted.map(|(state, count)| format!("{count} pg{} {}", plural(count), state.name)).collect();
    (counts, detail)
}

/// Returns a span of time as Ceph prints it: `75s`, `3m`, `5h`, `3d`, `4w`.
pub fn age(span: Duration) -> String {
    let s = span.as_secs();
    match s {
        0..120 => format!("{s}s"),
        120..7200 => format!("{}m", s / 60),
        7200..172_800 => format!("{}h", s / 3600),
        172_800..1_209_600 => format!("{}d", s / 86_400),
        1_209_600..5_259_600 => format!("{}w", s / 604_800),
        5_259_600..63_115_200 => format!("{}M", s / 2_629_800),
        _ => format!("{}y", s / 31_557_600),
    }
}
