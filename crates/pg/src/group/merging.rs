//! Tables of groups that are one group from some epoch on are brought together: their pool has fewer groups.
//!
//! Groups are ranges of one key space, so no object moves. Before, both have stopped serving: they are recorded in one
//! more interval, the same for both, in which no update is made (`docs/peering.md`). So on every member that took part
//! in that interval of both, both logs end alike, and by that interval such members recognise each other. They forget
//! what the logs say, but for the requests, and begin a new log whose start tells the interval. What has not taken part
//! lacks updates, nobody knows which: it is to be backfilled.

use crate::context::{Context, OnCommit};
use crate::group::dups;
use crate::group::info::{PgInfo, PgStats};
use crate::group::log::{PgLog, log_key};
use crate::group::missing::missing_step;
use crate::group::pg::Pg;
use crate::scrub::ScrubMark;
use bytes::Bytes;
use mutant::Mutant;
use std::collections::BTreeMap;
use store::{PG_KEYS_END, Step, Transaction};
use types::{EVersion, Epoch, ObjectId, PgId, Utime};
use wire::{Encode, Target};

/// Counters left free for requests, below the start of a merged log, beside those of the longer log.
const COUNTERS_MAX: u64 = 1 << 16;

/// Makes the table of group `target`, of a pool that has `pg_num` groups now, of `tables`: all that the store has of
/// groups whose objects are `target`'s now, read whole, its own first.
///
/// The other tables go after that one is written: should the OSD stop in between, they are found to be parts of what is
/// there.
pub(crate) fn merge_tables(cx: &mut Context<'_>, target: PgId, pg_num: u32, tables: &[Pg]) {
    let ids: Vec<PgId> = tables.iter().map(|pg| pg.core.id).collect();
    if tables.iter().any(|pg| pg.core.id == target && covers(pg, target, pg_num)) {
        tracing::info!(pg = %target, tables = ?ids, "has all that was to be merged already");
    } else {
        let steps = match halves(target, pg_num, tables) {
            Some((lower, upper)) => merged_table(cx, pg_num, lower, upper),
            None => rest_missing(tables.iter().map(|pg| &pg.core.info), pg_num),
        };
        tracing::info!(pg = %target, tables = ?ids, "is merged");
        // Updates that the merged log begins behind will stay, and others cannot be taken back any more.
        tables.iter().for_each(|table| table.core.drop_kept_back(cx));
        cx.submit_or_stop(Transaction { pg: target, steps }, OnCommit::Nothing);
    }
    for table in tables.iter().filter(|table| table.core.id != target) {
        cx.submit_or_stop(Transaction { pg: table.core.id, steps: vec![no_table()] }, OnCommit::Nothing);
    }
}

fn no_table() -> Step {
    Step::PgRemoveRange { begin: Bytes::new(), end: PG_KEYS_END }
}

/// Returns true if the table is of all objects that are group `target`'s in a pool of `pg_num` groups.
fn covers(table: &Pg, target: PgId, pg_num: u32) -> bool {
    let written = table.core.info.pg_num;
    written != 0 && osdmap::split_bits(target.seed, written) <= osdmap::split_bits(target.seed, pg_num)
}

/// Returns the two tables, if they are the halves of the group and stand at the end of the same interval.
fn halves(target: PgId, pg_num: u32, tables: &[Pg]) -> Option<(&Pg, &Pg)> {
    let [lower, upper] = tables else { return None };
    let is_half = |pg: &Pg| {
        let written = pg.core.info.pg_num;
        pg.core.id.seed < written
            && osdmap::split_bits(pg.core.id.seed, written) == osdmap::split_bits(target.seed, pg_num) + 1
    };
    let since = lower.core.info.last_epoch_started;
    let is_same =
        since > Epoch(0) && since == upper.core.info.last_epoch_started || mutant::is(Mutant::MergedThoughStale);
    let are_whole = lower.core.info.complete && upper.core.info.complete;
    (lower.core.id == target && is_half(lower) && is_half(upper) && are_whole && is_same).then_some((lower, upper))
}

/// Returns the table of a group that has come of two, by members that have all of both.
fn merged_table(cx: &Context<'_>, pg_num: u32, lower: &Pg, upper: &Pg) -> Vec<Step> {
    let both = [lower, upper];
    let (a, b) = (lower.core.log.head().version, upper.core.log.head().version);
    let interval = lower.core.info.last_epoch_started;
    // No update has been given a version of that epoch, and none a counter as high.
    let start = EVersion { epoch: interval, version: a.max(b) + a.min(b).min(COUNTERS_MAX) + 1 };
    let infos = both.map(|pg| &pg.core.info);
    let info = PgInfo {
        last_update: start,
        log_tail: start,
        last_epoch_started: interval,
        complete: true,
        rolled_forward: start,
        ..common_info(infos, pg_num)
    };
    let mut steps = vec![no_table()];
    if !mutant::is(Mutant::MergeForgetsRequests) {
        for dup in dups::merged(both.map(|pg| &pg.core.log), start.version, cx.dups_limit.bytes) {
            steps.push(Step::PgSet { key: log_key(dup.version), value: dup.to_vec(Target::default()).into() });
        }
    }
    let missing = both.into_iter().flat_map(|pg| &pg.core.missing);
    steps.extend(missing.map(|(object, version)| missing_step(object, *version)));
    steps.push(common_mark(both.map(|pg| pg.scrub.mark())).step());
    steps.push(info.step());
    steps
}

/// Returns the table of a group of which objects are here, nobody knows which.
fn rest_missing<'a>(infos: impl Iterator<Item = &'a PgInfo> + Clone, pg_num: u32) -> Vec<Step> {
    vec![no_table(), ScrubMark::default().step(), common_info(infos, pg_num).step()]
}

/// Returns the information that groups which become one have in common. The log is empty, and the member answers for no
/// object.
fn common_info<'a>(infos: impl IntoIterator<Item = &'a PgInfo, IntoIter: Clone>, pg_num: u32) -> PgInfo {
    let infos = infos.into_iter();
    let mut stats = PgStats::default();
    for info in infos.clone() {
        stats.objects += info.stats.objects;
        stats.clones += info.stats.clones;
        stats.bytes += info.stats.bytes;
        stats.write_ops += info.stats.write_ops;
        stats.write_kib += info.stats.write_kib;
    }
    PgInfo {
        created: infos.clone().map(|info| info.created).max().unwrap_or_default(),
        last_user_version: infos.map(|info| info.last_user_version).max().unwrap_or_default(),
        stats,
        pg_num,
        ..PgInfo::default()
    }
}

/// Returns the mark of the whole, each of whose times is that of the part which was scrubbed longer ago.
fn common_mark([a, b]: [&ScrubMark; 2]) -> ScrubMark {
    let older = |x: (Utime, EVersion), y: (Utime, EVersion)| if x.0 <= y.0 { x } else { y };
    let (light_at, light_version) = older((a.light_at, a.light_version), (b.light_at, b.light_version));
    let (deep_at, deep_version) = older((a.deep_at, a.deep_version), (b.deep_at, b.deep_version));
    ScrubMark {
        light_at,
        light_version,
        deep_at,
        deep_version,
        clean_at: a.clean_at.min(b.clean_at),
        shallow_errors: a.shallow_errors + b.shallow_errors,
        deep_errors: a.deep_errors + b.deep_errors,
        repaired: a.repaired + b.repaired,
        omap_keys: a.omap_keys + b.omap_keys,
        omap_bytes: a.omap_bytes + b.omap_bytes,
        undecided: a.undecided + b.undecided,
        large_omaps: a.large_omaps + b.large_omaps,
        cursor: None,
    }
}

impl Pg {
    /// Returns true if the group's table, which has just been read, is of a part of it only, and the store has none of
    /// the rest: the pool has fewer groups than when it was written.
    pub(crate) fn lacks_the_rest(&mut self, cx: &mut Context<'_>) {
        let pg_num = self.core.interval.shape.pg_num;
        tracing::info!(pg = %self.core.id, before = self.core.info.pg_num, pg_num, "was merged with what is not here");
        let steps = rest_missing([&self.core.info].into_iter(), pg_num);
        self.core.drop_kept_back(cx);
        self.core.info = common_info([&self.core.info], pg_num);
        self.core.log = PgLog::default();
        self.core.missing = BTreeMap::<ObjectId, EVersion>::new();
        self.scrub.set_mark(ScrubMark::default());
        cx.submit_or_stop(Transaction { pg: self.core.id, steps }, OnCommit::Nothing);
    }
}
