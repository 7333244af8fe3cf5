//! Facts that the monitor knows but never decides: statistics that OSDs report, and its own circumstances. None of it
//! is in the log; a restarted monitor learns it again within a few seconds.

mod io;
mod pg_stat;
mod progress;
mod quorum;
mod services;
mod space;

pub(crate) use space::writable_bytes;

pub use io::{IoCounts, IoRates};
pub use pg_stat::PgStat;
pub use progress::{Progress, ProgressEvent};
pub use quorum::{ClockSample, Quorum};
pub use services::{Introduction, RegisteredDaemon, Services};
pub use wire::nacre::{pg_state_bit, pg_state_text};

use std::collections::BTreeMap;
use types::{Epoch, OsdId, PgId, PoolId, Utime};
use wire::EntityAddrVec;
use wire::nacre::mon::{OptionReport, OsdStats, PgReport, PingReport, pg_state};

/// An OSD's last report on itself.
#[derive(Clone, PartialEq, Debug)]
pub struct OsdStat {
    pub stats: OsdStats,
    /// Newest map it has.
    pub epoch: Epoch,
    /// Time of the report, by the monitor's clock.
    pub at: Utime,
}

impl OsdStat {
    /// Returns the number of the report: the time at which it came, in milliseconds.
    pub fn seq(&self) -> u64 {
        u64::try_from(self.at.to_unix().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Bytes whose copying takes about as long as an object costs beside its own bytes.
const OBJECT_COST_BYTES: u64 = 16 << 10;

/// Most options in one daemon's report, and most values.
const OPTIONS_MAX: usize = 10_000;

/// Most times of answers that one OSD tells: those of two networks of some hundred neighbours.
const PINGS_MAX: usize = 1000;

/// Sums over the placement groups of a pool, or of all.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PgTotals {
    pub pgs: u64,
    pub objects: u64,
    /// The objects among them that are there for snapshots.
    pub clones: u64,
    /// Removed snapshots that groups are not done with.
    pub trim_queue: u64,
    pub bytes: u64,
    pub omap_bytes: u64,
    pub omap_keys: u64,
    /// Copies there should be: objects times replicas.
    pub copies: u64,
    pub degraded_copies: u64,
    /// Copies that are to be elsewhere.
    pub misplaced_copies: u64,
    pub missing_on_primary: u64,
    pub unfound: u64,
    pub recovered_objects: u64,
    pub recovered_bytes: u64,
    pub log_entries: u64,
    pub read_ops: u64,
    pub read_kib: u64,
    pub write_ops: u64,
    pub write_kib: u64,
    /// Remaining cost, in bytes, of bringing objects to OSDs that lack them: the bytes of each copy, and a cost for
    /// every object.
    pub healing_bytes: u64,
    /// Errors that scrubs found and that are not repaired.
    pub shallow_errors: u64,
    pub deep_errors: u64,
    /// Copies that scrubs have replaced.
    pub repaired: u64,
    /// Objects with larger omaps than an operator wants.
    pub large_omaps: u64,
}

/// Statistics and circumstances.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Volatile {
    /// Wall clock at the last event.
    pub now: Utime,
    /// The monitors that decide.
    pub quorum: Quorum,
    /// This monitor's name.
    pub name: String,
    /// Addresses at which clients reach this monitor as the cluster's manager while it leads; empty ones are not
    /// announced.
    pub manager_addrs: EntityAddrVec,
    /// Groups by id. Every group of every pool of the map is here, `unknown` until its primary reports; no other is.
    pub pgs: BTreeMap<PgId, PgStat>,
    pub osds: BTreeMap<OsdId, OsdStat>,
    /// Options of daemons that have values of their own, by the daemons' names (`osd.3`), as they told.
    pub options: BTreeMap<String, Vec<OptionReport>>,
    /// The monitors compare their states, and the outcome is not known yet.
    pub compares_states: bool,
    /// The time that other OSDs took to answer each.
    pub pings: BTreeMap<OsdId, Vec<PingReport>>,
    /// Rates of client I/O by pool.
    pub rates: BTreeMap<PoolId, IoRates>,
    /// Rates of client I/O by OSD, of the groups that it leads.
    pub osd_rates: BTreeMap<OsdId, IoRates>,
    /// Client I/O by pool since the rates were last computed.
    pub(crate) io: BTreeMap<PoolId, IoCounts>,
    pub(crate) osd_io: BTreeMap<OsdId, IoCounts>,
    /// Events that move objects, and their progress.
    pub progress: Progress,
    /// Daemons that have registered with the manager.
    pub services: Services,
    /// The balancer's last outcome.
    pub balancer: crate::balancer::BalancerOutcome,
    /// Copies of each object by pool.
    pub(crate) pool_sizes: BTreeMap<PoolId, u8>,
}

impl Volatile {
    /// Takes over which options of a daemon have values of their own. A report that is too large is dropped.
    pub(crate) fn options_told(&mut self, daemon: String, options: Vec<OptionReport>) {
        let bytes: usize = options.iter().map(OptionReport::bytes).sum();
        let values: usize = options.iter().map(|option| option.values.len()).sum();
        if bytes <= control::REPORT_BYTES_MAX && options.len() <= OPTIONS_MAX && values <= OPTIONS_MAX {
            self.options.insert(daemon, options);
        }
    }

    /// Takes over the time that other OSDs took to answer one. A report that is too large is dropped.
    pub(crate) fn pings_told(&mut self, osd: OsdId, pings: Vec<PingReport>) {
        if pings.len() <= PINGS_MAX {
            self.pings.insert(osd, pings);
        }
    }

    /// Returns the sums over `pool`, or over all pools.
    pub fn totals(&self, pool: Option<PoolId>) -> PgTotals {
        let mut totals = PgTotals::default();
        let range = match pool {
            Some(pool) => self.pgs.range(PgId { pool, seed: 0 }..=PgId { pool, seed: u32::MAX }),
            None => self.pgs.range(..),
        };
        for (id, pg) in range {
            totals.add(&pg.report);
            let size = u64::from(self.pool_sizes.get(&id.pool).copied().unwrap_or(0));
            totals.copies = totals.copies.saturating_add(pg.report.objects.saturating_mul(size));
        }
        totals
    }

    /// Counts the groups in each state, by the state's bits.
    pub fn pgs_by_state(&self) -> BTreeMap<u64, u64> {
        let mut counts = BTreeMap::new();
        self.pgs.values().for_each(|pg| *counts.entry(pg.report.state).or_default() += 1);
        counts
    }

    /// Returns the sums over all OSDs that reported.
    pub fn space(&self) -> OsdStats {
        self.space_of(self.osds.keys().copied())
    }

    /// Returns the sums over those of these OSDs that reported.
    pub fn space_of(&self, osds: impl Iterator<Item = OsdId>) -> OsdStats {
        osds.filter_map(|osd| self.osds.get(&osd)).fold(OsdStats::default(), |sum, osd| OsdStats {
            total_bytes: sum.total_bytes.saturating_add(osd.stats.total_bytes),
            free_bytes: sum.free_bytes.saturating_add(osd.stats.free_bytes),
            data_bytes: sum.data_bytes.saturating_add(osd.stats.data_bytes),
            stored_bytes: sum.stored_bytes.saturating_add(osd.stats.stored_bytes),
            omap_bytes: sum.omap_bytes.saturating_add(osd.stats.omap_bytes),
            metadata_bytes: sum.metadata_bytes.saturating_add(osd.stats.metadata_bytes),
            commit_latency_us: sum.commit_latency_us.max(osd.stats.commit_latency_us),
            pg_count: sum.pg_count.saturating_add(osd.stats.pg_count),
            heartbeat_peers: sum.heartbeat_peers.saturating_add(osd.stats.heartbeat_peers),
            slow_ops: sum.slow_ops.saturating_add(osd.stats.slow_ops),
            oldest_slow_op_ms: sum.oldest_slow_op_ms.max(osd.stats.oldest_slow_op_ms),
            bad_copies: sum.bad_copies.saturating_add(osd.stats.bad_copies),
        })
    }
}

impl PgTotals {
    /// Returns the complaints about copies in Ceph's words, a line each.
    pub fn complaints(&self) -> Vec<String> {
        let of_all = |count: u64, all: u64, what: &str| {
            let share = count as f64 * 100.0 / all.max(1) as f64;
            (count > 0).then(|| format!("{count}/{all} objects {what} ({share:.3}%)"))
        };
        let all = [
            of_all(self.degraded_copies, self.copies, "degraded"),
            of_all(self.misplaced_copies, self.copies, "misplaced"),
            of_all(self.unfound, self.objects, "unfound"),
        ];
        all.into_iter().flatten().collect()
    }

    /// Adds the complaints about copies as entries of a JSON object.
    pub fn put_complaints(&self, object: &mut serde_json::Map<String, serde_json::Value>) {
        let counts = [
            ("degraded", self.degraded_copies, self.copies),
            ("misplaced", self.misplaced_copies, self.copies),
            ("unfound", self.unfound, self.objects),
        ];
        for (what, count, all) in counts.into_iter().filter(|(_, count, _)| *count > 0) {
            object.insert(format!("{what}_objects"), count.into());
            object.insert(format!("{what}_total"), all.into());
            object.insert(format!("{what}_ratio"), (count as f64 / all.max(1) as f64).into());
        }
    }

    /// Adds a group's report. OSDs may report any numbers: sums stop at the largest one.
    pub(crate) fn add(&mut self, pg: &PgReport) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.pgs, 1);
        add(&mut self.objects, pg.objects);
        add(&mut self.clones, pg.clones);
        add(&mut self.trim_queue, pg.trim_queue);
        add(&mut self.bytes, pg.bytes);
        add(&mut self.omap_bytes, pg.omap_bytes);
        add(&mut self.omap_keys, pg.omap_keys);
        add(&mut self.degraded_copies, pg.degraded_copies);
        add(&mut self.misplaced_copies, pg.misplaced_copies);
        let bytes_each = pg.bytes.checked_div(pg.objects).unwrap_or(0).saturating_add(OBJECT_COST_BYTES);
        // Copies of a clean group that are misplaced have no other place.
        let stay = pg.state & pg_state::CLEAN != 0;
        let to_copy = pg.degraded_copies.saturating_add(if stay { 0 } else { pg.misplaced_copies });
        add(&mut self.healing_bytes, to_copy.saturating_mul(bytes_each));
        add(&mut self.missing_on_primary, pg.missing_on_primary);
        add(&mut self.unfound, pg.unfound);
        add(&mut self.recovered_objects, pg.recovered_objects);
        add(&mut self.recovered_bytes, pg.recovered_bytes);
        add(&mut self.log_entries, pg.log_entries);
        add(&mut self.read_ops, pg.read_ops);
        add(&mut self.read_kib, pg.read_kib);
        add(&mut self.write_ops, pg.write_ops);
        add(&mut self.write_kib, pg.write_kib);
        add(&mut self.shallow_errors, pg.scrub.shallow_errors);
        add(&mut self.deep_errors, pg.scrub.deep_errors);
        add(&mut self.repaired, pg.scrub.repaired);
        add(&mut self.large_omaps, pg.scrub.large_omaps);
    }
}
