//! A group's objects are shared out to more groups: its pool has more of them from some epoch on.
//!
//! Groups are ranges of one key space, so no object moves. What moves is what the group's table says of objects. Every
//! new group continues the log of the one it comes from: entries of objects that are not its own keep their places, as
//! versions' counters have no gaps, but tell nothing more; and repeated requests are recognised where they now belong.
//! Members split by themselves, each when it sees the map; where their logs differ then, they differ in the new groups
//! in the same way, and peering of each brings them together.

use crate::context::{Context, OnCommit};
use crate::group::info::{PgInfo, PgStats};
use crate::group::log::log_key;
use crate::group::missing::{found_step, missing_step};
use crate::group::pg::Pg;
use crate::scrub::counts::ScrubCounts;
use bytes::Bytes;
use std::collections::BTreeMap;
use store::{PG_KEYS_END, Step, Transaction};
use types::{EVersion, ObjectId, PgId};
use wire::{Encode, Target};

impl Pg {
    /// Brings the group's table, which was written when the pool had `info.pg_num` groups, to `pg_num` groups. Returns
    /// the groups whose tables have come of it; they are in the store now.
    ///
    /// The tables of the new ones are written before this one's, those that new ones would come of last: should the OSD
    /// stop in between, the rest is done when it starts again, and those that are there stay as they are.
    pub(crate) fn split(&mut self, cx: &mut Context<'_>, pg_num: u32) -> Vec<PgId> {
        let before = self.core.info.pg_num;
        self.core.info.pg_num = pg_num;
        if before == 0 || !self.core.stored || osdmap::same_range(self.core.id.seed, before, pg_num) {
            return Vec::new();
        }
        assert!(before < pg_num, "pg {} has a table of {before} groups, the map has {pg_num}", self.core.id);
        let of_seed = |seed| PgId { seed, ..self.core.id };
        let is_there = |seed: u32| seed >= before && cx.store.pgs_contain(of_seed(seed));
        // A group that comes of another one which is there already is made where that one is split.
        let is_made = |seed: &u32| is_there(*seed) || ancestors(*seed).any(is_there);
        let mut seeds: Vec<u32> =
            osdmap::split_children(self.core.id.seed, before, pg_num).filter(|seed| !is_made(seed)).collect();
        seeds.reverse();
        let children: Vec<PgId> = seeds.into_iter().map(of_seed).collect();
        tracing::info!(pg = %self.core.id, ?children, "is split");
        self.scrub.interval_ended();
        self.healer().drop_parts(cx);
        let stats = self.core.info.stats;
        for child in &children {
            // The objects of each part are not counted. Each child takes its share of the sums by the size of its
            // range, so that the sums over all groups stay right.
            let share = 1 << (osdmap::split_bits(child.seed, pg_num) - osdmap::split_bits(self.core.id.seed, before));
            let (objects, clones, bytes) = (stats.objects / share, stats.clones / share, stats.bytes / share);
            self.core.info.stats.objects -= objects;
            self.core.info.stats.clones -= clones;
            self.core.info.stats.bytes -= bytes;
            let steps = self.child_table(*child, PgStats { objects, clones, bytes, ..PgStats::default() });
            cx.submit_or_stop(Transaction { pg: *child, steps }, OnCommit::Nothing);
        }
        let range = osdmap::pg_range(self.core.id, pg_num);
        let mut steps: Vec<Step> = Vec::new();
        for version in self.core.log.narrow(&range) {
            let entry = self.core.log.entry(version).expect("just narrowed");
            steps.push(Step::PgSet { key: log_key(version), value: entry.to_vec(Target::default()).into() });
        }
        let (missing, gone): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut self.core.missing)
            .into_iter()
            .partition(|(object, _): &(ObjectId, EVersion)| within(object, &range));
        self.core.missing = missing;
        steps.extend(gone.keys().map(found_step));
        self.core.info.last_backfill = cursor_within(self.core.info.last_backfill.take(), &range);
        // Errors that scrubs of the whole group found may lie in any of its parts: it is not known where.
        steps.push(ScrubCounts::of(&mut self.scrub).count_anew());
        steps.push(self.core.info.step());
        cx.submit_or_stop(Transaction { pg: self.core.id, steps }, OnCommit::Nothing);
        children
    }

    /// Returns the table of a group that has come of this one.
    fn child_table(&self, child: PgId, stats: PgStats) -> Vec<Step> {
        let range = osdmap::pg_range(child, self.core.info.pg_num);
        let last_backfill = cursor_within(self.core.info.last_backfill.clone(), &range);
        let info = PgInfo { stats, last_backfill, ..self.core.info.clone() };
        let mut steps = vec![Step::PgRemoveRange { begin: Bytes::new(), end: PG_KEYS_END }];
        for entry in self.core.log.entries() {
            let value = match within(&entry.object, &range) {
                true => entry.to_vec(Target::default()),
                false => entry.placeholder().to_vec(Target::default()),
            };
            steps.push(Step::PgSet { key: log_key(entry.version), value: value.into() });
        }
        for dup in self.core.log.dups().entries().filter(|dup| within(&dup.object, &range)) {
            steps.push(Step::PgSet { key: log_key(dup.version), value: dup.to_vec(Target::default()).into() });
        }
        let missing = self.core.missing.range(range.0..range.1);
        steps.extend(missing.map(|(object, version)| missing_step(object, *version)));
        steps.push(self.scrub.mark().counted_anew().step());
        steps.push(info.step());
        steps
    }
}

/// Numbers of the groups that had the objects of group `seed` when there were fewer groups.
pub(crate) fn ancestors(seed: u32) -> impl Iterator<Item = u32> {
    let mut rest = seed;
    std::iter::from_fn(move || {
        rest &= !(1 << rest.checked_ilog2()?);
        Some(rest)
    })
}

fn within(object: &ObjectId, (begin, end): &(ObjectId, ObjectId)) -> bool {
    begin <= object && object < end
}

/// Returns a cursor of backfill as it stands in a part of the group.
fn cursor_within(cursor: Option<ObjectId>, (begin, end): &(ObjectId, ObjectId)) -> Option<ObjectId> {
    cursor.filter(|cursor| cursor > begin).map(|cursor| cursor.min(end.clone()))
}
