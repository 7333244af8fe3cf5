//! Sums of OSDs' reports.

use super::{Monitor, Now};
use crate::state::LogPriority;
use crate::volatile::{IoCounts, IoRates, OsdStat, PgStat};
use std::collections::{BTreeMap, BTreeSet};
use types::{OsdId, PgId, PoolId};
use wire::nacre::PgTimes;
use wire::nacre::mon::{OsdBeacon, PgReport, PgScrubReport, pg_state};

/// Time over which rates are averages, about.
const RATE_WINDOW_S: f64 = 5.0;

/// Pools and OSDs with which the statistics were last brought into step.
#[derive(Default)]
pub(super) struct Covered {
    pg_nums: BTreeMap<PoolId, u32>,
    up: BTreeSet<OsdId>,
}

/// Brings rates on by the counts of the last `seconds`.
fn follow<K: Ord + Copy>(rates: &mut BTreeMap<K, IoRates>, counted: BTreeMap<K, IoCounts>, seconds: f64) {
    let keys: BTreeSet<K> = counted.keys().chain(rates.keys()).copied().collect();
    for key in keys {
        let counts = counted.get(&key).copied().unwrap_or_default();
        rates.entry(key).or_default().follow(&counts, seconds, RATE_WINDOW_S);
    }
    // The remainder of a burst after a while is noise.
    rates.retain(|_, rates| !rates.is_idle());
}

/// Returns the sentence for objects that repair leaves as they are.
pub(crate) fn undecided(report: &PgReport) -> String {
    let (pgid, count) = (report.pgid, report.scrub.undecided);
    let (objects, have) = if count == 1 { ("object", "has") } else { ("objects", "have") };
    format!(
        "{count} {objects} {have} copies that differ, nothing proves one of them right, and repair does not choose; \
         'ceph tell {pgid} keep_copy OBJECT OSD' has one kept ('rados list-inconsistent-obj {pgid}' lists them)"
    )
}

/// Returns findings of a scrub since the report before, a line each for the cluster log.
fn scrub_news(before: &PgReport, report: &PgReport) -> Vec<(LogPriority, String)> {
    let (old, new, pgid) = (&before.scrub, &report.scrub, report.pgid);
    let what = if new.deep_at == old.deep_at { "scrub" } else { "deep-scrub" };
    let mut lines = Vec::new();
    let sum = |scrub: &PgScrubReport| scrub.shallow_errors.saturating_add(scrub.deep_errors);
    let errors = sum(new);
    if errors > sum(old) {
        lines.push((LogPriority::ERROR, format!("{pgid} {what} {errors} errors")));
    }
    if let Some(repaired) = new.repaired.checked_sub(old.repaired).filter(|repaired| *repaired > 0) {
        lines.push((LogPriority::WARN, format!("{pgid} {what} {repaired} errors found and repaired")));
    }
    if new.undecided > 0 && new.light_at != old.light_at {
        lines.push((LogPriority::ERROR, format!("{pgid} {what}: {}", undecided(report))));
    }
    lines
}

impl Monitor {
    /// Takes a beacon's numbers in.
    pub(super) fn take_statistics(&mut self, now: Now, beacon: OsdBeacon) {
        let stat = OsdStat { stats: beacon.stats, epoch: beacon.epoch, at: now.wall };
        self.volatile.osds.insert(beacon.osd, stat);
        if let Some(options) = beacon.options {
            self.volatile.options_told(beacon.osd.to_string(), options);
        }
        if let Some(pings) = beacon.pings {
            self.volatile.pings_told(beacon.osd, pings);
        }
        let mut found = Vec::new();
        for report in beacon.pgs {
            let Some(known) = self.volatile.pgs.get_mut(&report.pgid) else { continue };
            // The report may be of other objects than the group has now.
            if self.state.pgs.get(&report.pgid).is_some_and(|record| report.epoch < record.range_since) {
                continue;
            }
            let counts = IoCounts::between(&known.report, &report);
            let pool = report.pgid.pool;
            // Findings from before this monitor knew of the group were logged by others.
            let news = if known.times.fresh.is_zero() { Vec::new() } else { scrub_news(&known.report, &report) };
            if known.update(report, now.wall) {
                found.extend(news);
                self.volatile.io.entry(pool).or_default().add(&counts);
                self.volatile.osd_io.entry(beacon.osd).or_default().add(&counts);
            }
        }
        for (priority, line) in found {
            self.note(now, priority, line);
        }
    }

    /// Makes the statistics cover exactly the groups of the map, and marks those whose primary is gone. Goes over all
    /// groups only where pools have changed or OSDs went down: there may be a million.
    pub(super) fn sync_statistics_with_map(&mut self) {
        let map = self.state.osdmaps.current().clone();
        let pg_nums: BTreeMap<PoolId, u32> = map.pools.iter().map(|(id, pool)| (*id, pool.pg_num)).collect();
        if self.covered.pg_nums != pg_nums {
            self.cover_groups();
            self.covered.pg_nums = pg_nums;
        }
        self.volatile.pool_sizes = map.pools.iter().map(|(id, pool)| (*id, pool.size)).collect();
        let up: BTreeSet<OsdId> = map.up_osds().map(|(id, _)| id).collect();
        if !self.covered.up.is_subset(&up) {
            for pg in self.volatile.pgs.values_mut() {
                let reporter = pg.report.acting.iter().find(|osd| osd.is_some());
                if reporter.is_some_and(|osd| !up.contains(osd)) {
                    pg.mark_stale(self.volatile.now);
                }
            }
        }
        self.covered.up = up;
        let known = (0..map.weights().len() as i32).map(OsdId);
        let placed_on: BTreeSet<OsdId> = known.filter(|osd| map.exists(*osd) && map.is_in(*osd)).collect();
        // A monitor that was away follows old maps, too.
        let has_data = !map.pools.is_empty();
        self.volatile.progress.follow_map(placed_on, has_data, map.modified, self.volatile.now);
        self.volatile.osds.retain(|osd, _| map.exists(*osd));
        self.volatile.pings.retain(|osd, _| map.exists(*osd));
        self.volatile.options.retain(|daemon, _| match daemon.strip_prefix("osd.") {
            Some(number) => number.parse().is_ok_and(|osd| map.exists(OsdId(osd))),
            None => true,
        });
        self.volatile.osd_io.retain(|osd, _| map.exists(*osd));
        self.volatile.osd_rates.retain(|osd, _| map.exists(*osd));
        self.volatile.io.retain(|pool, _| map.pools.contains_key(pool));
        self.volatile.rates.retain(|pool, _| map.pools.contains_key(pool));
    }

    /// Makes the statistics cover the groups of pools that have come, gone, or changed their numbers of groups.
    fn cover_groups(&mut self) {
        self.add_up_merged();
        let map = self.state.osdmap();
        self.volatile.pgs.retain(|pg, _| map.pools.get(&pg.pool).is_some_and(|pool| pg.seed < pool.pg_num));
        for (id, pool) in &map.pools {
            for seed in 0..pool.pg_num {
                let pgid = PgId { pool: *id, seed };
                self.volatile.pgs.entry(pgid).or_insert_with(|| PgStat {
                    report: PgReport { pgid, ..PgReport::default() },
                    first_known: self.volatile.now,
                    times: PgTimes { change: self.volatile.now, ..PgTimes::default() },
                });
            }
        }
    }

    /// Adds the counts of groups that were merged into others to those others, until these report.
    fn add_up_merged(&mut self) {
        let map = self.state.osdmap();
        let pg_num = |pg: &PgId| map.pools.get(&pg.pool).map(|pool| pool.pg_num).filter(|pg_num| pg.seed >= *pg_num);
        let pgs = self.volatile.pgs.iter();
        let gone: Vec<_> = pgs.filter_map(|(pg, stat)| Some((*pg, pg_num(pg)?, stat.report.clone()))).collect();
        for (pg, pg_num, gone) in gone {
            let target = PgId { seed: osdmap::split_parent(pg.seed, pg_num), ..pg };
            let Some(stat) = self.volatile.pgs.get_mut(&target) else { continue };
            let sum = &mut stat.report;
            sum.objects = sum.objects.saturating_add(gone.objects);
            sum.clones = sum.clones.saturating_add(gone.clones);
            sum.bytes = sum.bytes.saturating_add(gone.bytes);
            sum.omap_bytes = sum.omap_bytes.saturating_add(gone.omap_bytes);
            sum.omap_keys = sum.omap_keys.saturating_add(gone.omap_keys);
            sum.write_ops = sum.write_ops.saturating_add(gone.write_ops);
            sum.write_kib = sum.write_kib.saturating_add(gone.write_kib);
            // Snapshots that one of the two is done with, the whole may not be done with.
            sum.trimmed_snaps = Default::default();
        }
    }

    /// Turns the counts of the last `seconds` into rates.
    pub(super) fn update_rates(&mut self, seconds: f64) {
        follow(&mut self.volatile.rates, std::mem::take(&mut self.volatile.io), seconds);
        follow(&mut self.volatile.osd_rates, std::mem::take(&mut self.volatile.osd_io), seconds);
        let totals = self.volatile.totals(None);
        let heals = pg_state::RECOVERING | pg_state::BACKFILLING | pg_state::RECOVERY_WAIT | pg_state::BACKFILL_WAIT;
        let moves = self.volatile.pgs.values().any(|pg| pg.report.state & heals != 0);
        self.volatile.progress.measure(totals.healing_bytes, moves, self.volatile.now);
    }

    /// Returns the share of an OSD's space that is used, if it has reported.
    pub(super) fn used_ratio(&self, osd: OsdId) -> Option<f32> {
        let stats = &self.volatile.osds.get(&osd)?.stats;
        let used = stats.total_bytes.saturating_sub(stats.free_bytes);
        (stats.total_bytes > 0).then(|| (used as f64 / stats.total_bytes as f64) as f32)
    }
}
