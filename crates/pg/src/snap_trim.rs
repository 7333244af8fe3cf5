//! What no snapshot needs any more is removed.
//!
//! The map names the snapshots that were removed. The primary of a group that is clean walks over its objects and has those
//! changed that have a clone for such a snapshot, a few at a time, each by an update like any other. What it has done is not
//! kept: another primary walks again, and finds nothing to do. Once all groups of a pool tell that they are done with a
//! snapshot, the monitors forget it.

use crate::context::{Context, Waiter};
use crate::lookup::{NoAnswer, ready};
use crate::pg::Pg;
use osdmap::OsdMapFlags;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use store::LookupId;
use types::ObjectId;
use wire::basic::IntervalSet;
use wire::nacre::mon::pg_state;

/// Objects that are changed at a time.
const UPDATES_MAX: usize = 2;
/// Objects that are listed at a time.
const PAGE_OBJECTS: usize = 128;
/// Pages listed in one turn, and when it goes on.
const PAGES: usize = 2;
const PAUSE: Duration = Duration::from_millis(10);

/// An object's part in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Trim {
    /// The object has more that is to go.
    pub more: bool,
}

/// A group's part in it, as primary.
#[derive(Debug, Default)]
pub(crate) struct SnapTrim {
    /// Removed snapshots of which nothing is left in the group.
    done: IntervalSet,
    run: Option<Run>,
}

/// A walk.
#[derive(Debug)]
struct Run {
    snaps: IntervalSet,
    /// Objects before this one have been looked at. `None`: all.
    cursor: Option<ObjectId>,
    /// Those that have clones, by their present states.
    objects: VecDeque<ObjectId>,
    in_flight: BTreeSet<ObjectId>,
    waits_for: Option<LookupId>,
}

impl SnapTrim {
    /// The interval ends.
    pub fn forget(&mut self) {
        *self = SnapTrim::default();
    }

    /// Removed snapshots of which nothing is left.
    pub fn done(&self) -> IntervalSet {
        self.done.clone()
    }

    /// How many snapshots of `removed` are not done with.
    pub fn queued(&self, removed: Option<&IntervalSet>) -> u64 {
        let mut left = removed.cloned().unwrap_or_default();
        left.subtract(&self.done);
        left.size()
    }
}

impl Pg {
    /// Bits of the group's state.
    pub(crate) fn trim_bits(&self) -> u64 {
        if self.snap_trim.run.is_some() { pg_state::SNAPTRIM } else { 0 }
    }

    /// Goes on with what is to be removed, if there is anything.
    pub(crate) fn trim_on(&mut self, cx: &mut Context<'_>) {
        let removed = cx.map.removed_snaps_queue.get(&self.id.pool.base());
        if removed.is_none() && self.snap_trim.run.is_none() && self.snap_trim.done.is_empty() {
            return;
        }
        let removed = removed.cloned().unwrap_or_default();
        self.snap_trim.done.intersect(&removed);
        if !self.may_trim(cx) {
            return;
        }
        if self.snap_trim.run.is_none() && !self.snap_trim.done.contains_all(&removed) {
            let (begin, _) = self.range();
            tracing::debug!(pg = %self.id, %removed, "removed snapshots are trimmed");
            let (objects, in_flight) = Default::default();
            let snaps = removed;
            self.snap_trim.run = Some(Run { snaps, cursor: Some(begin), objects, in_flight, waits_for: None });
            self.queue_report(cx);
        }
        for _ in 0..PAGES {
            while let Some(run) = &mut self.snap_trim.run {
                if run.in_flight.len() >= UPDATES_MAX || run.waits_for.is_some() {
                    return;
                }
                let Some(object) = run.objects.pop_front() else { break };
                run.in_flight.insert(object.clone());
                self.queue_trim(cx, object);
            }
            if !self.trim_page(cx) {
                return;
            }
        }
        cx.wakes.insert((cx.now + PAUSE, self.id));
    }

    fn may_trim(&self, cx: &Context<'_>) -> bool {
        !cx.map.flags.contains(OsdMapFlags::NOSNAPTRIM)
            && self.is_primary(cx.whoami)
            && !self.is_loading()
            && self.is_active()
            && self.missing.is_empty()
            && self.state_bits(cx.whoami) & pg_state::CLEAN != 0
    }

    /// Looks at the next objects. False: there is nothing more to do now.
    fn trim_page(&mut self, cx: &mut Context<'_>) -> bool {
        let (_, end) = self.range();
        let Some(run) = &mut self.snap_trim.run else { return false };
        let Some(cursor) = &run.cursor else {
            if run.in_flight.is_empty() && run.objects.is_empty() {
                let run = self.snap_trim.run.take().expect("just seen");
                self.snap_trim.done.union(&run.snaps);
                self.queue_report(cx);
            }
            return false;
        };
        let page = match ready(cx.store.list(cursor, &end, PAGE_OBJECTS)) {
            Ok(page) => page,
            Err(NoAnswer::Pending(id)) => {
                run.waits_for = Some(id);
                cx.wait(id, Waiter::Trim { pgid: self.id });
                return false;
            }
            Err(NoAnswer::Damaged(damage)) => {
                // It is tried again once the metadata is repaired.
                tracing::error!(pg = %self.id, "removed snapshots cannot be trimmed: {damage}");
                return false;
            }
        };
        run.cursor = page.last().filter(|_| page.len() == PAGE_OBJECTS).map(crate::backfill::behind);
        for object in page.iter().filter(|object| object.is_clone()).map(ObjectId::head_of) {
            if run.objects.back() != Some(&object) {
                run.objects.push_back(object);
            }
        }
        true
    }

    pub(crate) fn trim_lookup_done(&mut self, cx: &mut Context<'_>, id: LookupId) {
        if let Some(run) = self.snap_trim.run.as_mut().filter(|run| run.waits_for == Some(id)) {
            run.waits_for = None;
            self.trim_on(cx);
        }
    }

    /// One update of an object is done; or there was nothing to do.
    pub(crate) fn trimmed(&mut self, cx: &mut Context<'_>, object: ObjectId, trim: Trim) {
        let Some(run) = &mut self.snap_trim.run else { return };
        if run.in_flight.remove(&object) && trim.more {
            run.objects.push_front(object);
        }
        // From here, as this may come from within the run of an operation.
        cx.wakes.insert((cx.now, self.id));
    }
}
