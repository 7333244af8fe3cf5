//! Copies of groups that this OSD is no member of any more. They stay until the group's primary says that nobody needs
//! them, as then the group is clean without; then they are removed, a few objects at a time.

use crate::context::{Context, OnCommit, Waiter};
use crate::group::info::{INFO_KEY, PgInfo};
use crate::group::lookup::{NoAnswer, ready};
use crate::group::missing::missing_key_range;
use crate::messages::peering::PgStrays;
use osdmap::{OsdMap, PgMapping};
use std::collections::BTreeMap;
use std::time::Duration;
use store::{LookupId, Step, Transaction};
use types::{ObjectId, OsdId, PgId};
use wire::Decode;

/// Primaries are asked this often.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// Groups asked about at a time.
const ASKED_MAX: usize = 64;
/// Objects removed at a time, and how often.
const SLICE_OBJECTS: usize = 32;
const SLICE_EVERY: Duration = Duration::from_millis(20);

/// One OSD's copies that may go.
#[derive(Debug, Default)]
pub(crate) struct Strays {
    ask_at: Duration,
    /// The group asked about last: the next ones come next.
    asked: Option<PgId>,
    removing: BTreeMap<PgId, Removal>,
    next_at: Duration,
    /// Objects removed since the OSD started.
    pub removed_objects: u64,
}

#[derive(Debug)]
struct Removal {
    /// Set once the group's information says that this copy answers for no object.
    is_marked: bool,
    from: ObjectId,
    end: ObjectId,
    pg_num: u32,
    waits_for: Option<LookupId>,
}

impl Strays {
    /// Asks the primaries of groups that are here and should not be. `is_no_stray`: this OSD acts for the group, or it
    /// is still to be read what the group is. `needs_no_copy`: this OSD leads the group, and nobody needs the copy.
    pub fn ask(
        &mut self,
        cx: &mut Context<'_>,
        mapping: &PgMapping,
        is_no_stray: impl Fn(PgId) -> bool,
        needs_no_copy: impl Fn(PgId) -> bool,
    ) {
        if cx.now < self.ask_at {
            return;
        }
        self.ask_at = cx.now + ASK_EVERY;
        let is_stray = |pgid: &PgId| !self.removing.contains_key(pgid) && !is_no_stray(*pgid);
        let mut questions: BTreeMap<OsdId, Vec<PgId>> = BTreeMap::new();
        let strays: Vec<PgId> = cx.store.pgs().into_iter().filter(is_stray).collect();
        let next = strays.partition_point(|pgid| self.asked.is_some_and(|asked| *pgid <= asked));
        for pgid in strays[next..].iter().chain(&strays[..next]).take(ASKED_MAX).copied() {
            self.asked = Some(pgid);
            let placed = mapping.get(pgid.base()).filter(|placed| {
                // An OSD that is a member may still have another shard than it has there.
                pgid.pool.shard().is_some() || !placed.acting.contains(&cx.whoami)
            });
            let primary = placed.and_then(|placed| placed.acting_primary);
            if primary == Some(cx.whoami) {
                if needs_no_copy(pgid) {
                    self.remove(cx.map, pgid);
                }
            } else if let Some(primary) = primary {
                questions.entry(primary).or_default().push(pgid);
            }
        }
        let epoch = cx.map.epoch;
        for (primary, groups) in questions {
            cx.send_osd(primary, PgStrays { epoch, groups });
        }
    }

    /// Begins to remove this copy, of which the group's primary says that it is not needed.
    pub fn remove(&mut self, map: &OsdMap, pgid: PgId) {
        let Some(pool) = map.pools.get(&pgid.pool.base()) else { return };
        let (from, end) = osdmap::pg_range(pgid, pool.pg_num);
        tracing::info!(pg = %pgid, "this copy is not needed any more and is removed");
        let removal = Removal { is_marked: false, from, end, pg_num: pool.pg_num, waits_for: None };
        self.removing.entry(pgid).or_insert(removal);
    }

    /// Drops copies that are no strays any more: this OSD has become a member again, or the group is gone.
    pub fn keep_only(&mut self, is_stray: impl Fn(&PgId) -> bool) {
        self.removing.retain(|pgid, _| is_stray(pgid));
    }

    pub fn next_wake(&self) -> Option<Duration> {
        self.removing.values().any(|removal| removal.waits_for.is_none()).then_some(self.next_at)
    }

    /// Removes what is due.
    pub fn run(&mut self, cx: &mut Context<'_>) {
        if self.next_wake().is_none_or(|at| at > cx.now) {
            return;
        }
        let first = self.removing.iter_mut().find(|(_, removal)| removal.waits_for.is_none());
        let Some((&pgid, removal)) = first else { return };
        match removal.slice(cx, pgid) {
            Ok(Slice::Removed(objects)) => {
                self.removed_objects += objects as u64;
                self.next_at = cx.now + SLICE_EVERY;
            }
            Ok(Slice::Done) => drop(self.removing.remove(&pgid)),
            Err(NoAnswer::Pending(id)) => {
                removal.waits_for = Some(id);
                cx.wait(id, Waiter::Stray { pgid });
            }
            Err(NoAnswer::Damaged(damage)) => {
                tracing::error!(pg = %pgid, "a copy that is not needed cannot be removed: {damage}");
                self.removing.remove(&pgid);
            }
        }
    }

    pub fn lookup_done(&mut self, cx: &mut Context<'_>, pgid: PgId, id: LookupId) {
        if let Some(removal) = self.removing.get_mut(&pgid).filter(|removal| removal.waits_for == Some(id)) {
            removal.waits_for = None;
            self.run(cx);
        }
    }
}

enum Slice {
    Removed(usize),
    Done,
}

impl Removal {
    fn slice(&mut self, cx: &mut Context<'_>, pg: PgId) -> Result<Slice, NoAnswer> {
        if !self.is_marked {
            // The mark is set before anything goes: should this OSD become a member again, it answers for no object.
            let kept = ready(cx.store.pg_get(pg, &INFO_KEY))?;
            let info = kept.map(|kept| PgInfo::from_slice(&kept)).transpose();
            let mut steps = Vec::new();
            if let Ok(Some(info)) = info {
                steps.push(PgInfo { complete: false, last_backfill: None, ..info }.step());
                let (begin, end) = missing_key_range();
                steps.push(Step::PgRemoveRange { begin, end });
            }
            self.is_marked = true;
            cx.submit_or_stop(Transaction { pg, steps }, OnCommit::Nothing);
            return Ok(Slice::Removed(0));
        }
        let page = ready(cx.store.list(&self.from, &self.end, SLICE_OBJECTS))?;
        let Some(last) = page.last() else {
            let steps = vec![Step::PgDestroy { pg_num: self.pg_num }];
            cx.submit_or_stop(Transaction { pg, steps }, OnCommit::Nothing);
            if pg.pool.shard().is_some() {
                let kept_back = PgId { pool: pg.pool.kept_back(), seed: pg.seed };
                let steps = vec![Step::PgDestroy { pg_num: self.pg_num }];
                cx.submit_or_stop(Transaction { pg: kept_back, steps }, OnCommit::Nothing);
            }
            tracing::info!(%pg, "the copy that was not needed is gone");
            return Ok(Slice::Done);
        };
        self.from = crate::healing::walks::behind(last);
        let count = page.len();
        let steps = page.into_iter().map(|object| Step::Remove { object }).collect();
        cx.submit_or_stop(Transaction { pg, steps }, OnCommit::Nothing);
        Ok(Slice::Removed(count))
    }
}
