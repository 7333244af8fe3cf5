//! States of objects that no snapshot needs any more are removed.
//!
//! The map names the snapshots that were removed. The primary of a group that is clean takes the clones that were made
//! for such a snapshot from the store's list of them, and has their objects changed, a few at a time, each by an update
//! like any other. So what it costs depends on how many clones there are of the snapshot, not on how many objects there
//! are in the group. A store that was made before there was this list has none: there the group's objects are looked at
//! one after another. What a primary has done is not kept: another one looks again, and finds nothing to do. Once all
//! groups of a pool tell that they are done with a snapshot, the monitors forget it.

use crate::context::{Context, Waiter};
use crate::group::lookup::{NoAnswer, ready};
use crate::group::pg::Pg;
use crate::updates::trim_run::{Page, Place, SnapTrim, Trim, TrimRun};
use osdmap::OsdMapFlags;
use std::time::Duration;
use store::{LookupId, UNKNOWN_SNAP};
use types::ObjectId;
use wire::nacre::mon::pg_state;

/// Objects that are changed at a time.
const UPDATES_MAX: usize = 2;
/// Objects that are listed at a time.
const PAGE_OBJECTS: usize = 128;
/// Pages listed in one turn at most, empty ones included; and pages that are full.
const PAGES: usize = 32;
const FULL_PAGES: usize = 2;
/// Time after which a state that could not be trimmed is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(30);
/// Time between two steps.
const PAUSE: Duration = Duration::from_millis(10);

impl Pg {
    /// Bits of the group's state.
    pub(crate) fn trim_bits(&self) -> u64 {
        match &self.snap_trim {
            SnapTrim { run: Some(_), .. } => pg_state::SNAPTRIM,
            SnapTrim { waits: true, .. } => pg_state::SNAPTRIM_WAIT,
            _ => 0,
        }
    }

    /// Returns true if the group has its turn, or waits for it.
    pub(crate) fn wants_to_trim(&self) -> bool {
        self.trim_bits() != 0
    }

    /// Goes on with what is to be removed, if there is anything.
    pub(crate) fn trim_on(&mut self, cx: &mut Context<'_>) {
        let removed = cx.map.removed_snaps_queue.get(&self.core.id.pool.base());
        let trim = &self.snap_trim;
        if removed.is_none() && trim.run.is_none() && trim.done.is_empty() && !trim.waits {
            return;
        }
        let removed = removed.cloned().unwrap_or_default();
        self.snap_trim.done.intersect(&removed);
        let is_done = self.snap_trim.done.contains_all(&removed);
        let must_wait = is_done || cx.now < self.snap_trim.not_before;
        if !self.may_trim(cx) || self.snap_trim.run.is_none() && must_wait {
            return self.leave_turn(cx);
        }
        if self.snap_trim.run.is_none() {
            if !cx.shared.trim_turns.ask(self.core.id) {
                return self.wait_for_turn(cx);
            }
            tracing::debug!(pg = %self.core.id, %removed, "removed snapshots are trimmed");
            let (cursor, _) = self.core.range();
            let snap = cx.store.lists_clones().then_some(UNKNOWN_SNAP);
            let (objects, in_flight) = Default::default();
            let place = Some(Place { snap, cursor });
            self.snap_trim.run =
                Some(TrimRun { snaps: removed, place, objects, in_flight, waits_for: None, has_failed: false });
            self.snap_trim.waits = false;
            self.queue_report(cx);
        }
        let mut full_pages = 0;
        for _ in 0..PAGES {
            while let Some(run) = &mut self.snap_trim.run {
                if run.in_flight.len() >= UPDATES_MAX || run.waits_for.is_some() {
                    return;
                }
                let Some(object) = run.objects.pop_front() else { break };
                run.in_flight.insert(object.clone());
                self.queue_trim(cx, object);
            }
            match self.trim_page(cx) {
                Page::Nothing => return,
                Page::Full => full_pages += 1,
                Page::Last => {}
            }
            if full_pages == FULL_PAGES {
                break;
            }
        }
        cx.agenda.wakes.insert((cx.now + PAUSE, self.core.id));
    }

    /// Leaves the turn, as the group may not, or need not, trim now. What it has not come to, it begins anew.
    fn leave_turn(&mut self, cx: &mut Context<'_>) {
        let trim = &mut self.snap_trim;
        if trim.run.as_ref().is_some_and(|run| !run.in_flight.is_empty()) {
            return;
        }
        let is_told = trim.run.take().is_some() || trim.waits;
        trim.waits = false;
        if is_told {
            self.queue_report(cx);
            self.end_turn(cx);
        }
    }

    fn end_turn(&self, cx: &mut Context<'_>) {
        if let Some(next) = cx.shared.trim_turns.end(self.core.id) {
            cx.agenda.wakes.insert((cx.now, next));
        }
    }

    fn wait_for_turn(&mut self, cx: &mut Context<'_>) {
        if !std::mem::replace(&mut self.snap_trim.waits, true) {
            self.queue_report(cx);
        }
    }

    fn may_trim(&self, cx: &Context<'_>) -> bool {
        !cx.map.flags.contains(OsdMapFlags::NOSNAPTRIM)
            && self.core.is_primary(cx.whoami)
            && !self.is_loading()
            && self.is_active()
            && self.core.missing.is_empty()
            && self.state_bits(cx.whoami) & pg_state::CLEAN != 0
    }

    /// Looks at the next objects.
    fn trim_page(&mut self, cx: &mut Context<'_>) -> Page {
        let (begin, end) = self.core.range();
        let Some(run) = &mut self.snap_trim.run else { return Page::Nothing };
        let Some(Place { snap, cursor }) = run.place.clone() else {
            if run.in_flight.is_empty() && run.objects.is_empty() {
                self.end_trim(cx);
            }
            return Page::Nothing;
        };
        let listed = match snap {
            Some(snap) => cx.store.clones_of(snap, &cursor, &end, PAGE_OBJECTS),
            None => cx.store.list(&cursor, &end, PAGE_OBJECTS),
        };
        let page = match ready(listed) {
            Ok(page) => page,
            Err(NoAnswer::Pending(id)) => {
                run.waits_for = Some(id);
                cx.wait(id, Waiter::Trim { pgid: self.core.id });
                return Page::Nothing;
            }
            Err(NoAnswer::Damaged(damage)) => {
                tracing::error!(pg = %self.core.id, "removed snapshots cannot be trimmed before the store is repaired: {damage}");
                // Meanwhile others have their turn.
                (run.place, run.has_failed) = (None, true);
                return Page::Last;
            }
        };
        self.snap_trim.listed += page.len() as u64;
        let run = self.snap_trim.run.as_mut().expect("just seen");
        let next = page.last().filter(|_| page.len() == PAGE_OBJECTS).map(crate::healing::walks::behind);
        let is_full = next.is_some();
        run.place = match (next, snap) {
            (Some(cursor), snap) => Some(Place { snap, cursor }),
            (None, Some(snap)) => run.next_snap(snap).map(|snap| Place { snap: Some(snap), cursor: begin }),
            (None, None) => None,
        };
        for object in page.iter().filter(|object| object.is_clone()).map(ObjectId::head_of) {
            if run.objects.back() != Some(&object) {
                run.objects.push_back(object);
            }
        }
        if is_full { Page::Full } else { Page::Last }
    }

    /// Ends a run in which all is done.
    fn end_trim(&mut self, cx: &mut Context<'_>) {
        let run = self.snap_trim.run.take().expect("there is something to end");
        let has_failed = run.has_failed;
        tracing::debug!(pg = %self.core.id, snaps = %run.snaps, listed = self.snap_trim.listed, has_failed, "they are trimmed");
        match has_failed {
            true => self.snap_trim.not_before = cx.now + TRY_AGAIN,
            false => self.snap_trim.done.union(&run.snaps),
        }
        self.queue_report(cx);
        self.end_turn(cx);
    }

    pub(crate) fn trim_lookup_done(&mut self, cx: &mut Context<'_>, id: LookupId) {
        if let Some(run) = self.snap_trim.run.as_mut().filter(|run| run.waits_for == Some(id)) {
            run.waits_for = None;
            self.trim_on(cx);
        }
    }

    /// Notes that states of an object which no snapshot needs any more could not be removed.
    pub(crate) fn trim_failed(&mut self, cx: &mut Context<'_>, object: &ObjectId) {
        tracing::error!(pg = %self.core.id, %object, "what removed snapshots have left of it stays: it will be tried again");
        if let Some(run) = &mut self.snap_trim.run {
            run.has_failed |= run.in_flight.remove(object);
            cx.agenda.wakes.insert((cx.now, self.core.id));
        }
    }

    /// Notes that one update of an object is done; or that there was nothing to do.
    pub(crate) fn trimmed(&mut self, cx: &mut Context<'_>, object: ObjectId, trim: Trim) {
        let Some(run) = &mut self.snap_trim.run else { return };
        if run.in_flight.remove(&object) && trim.more {
            run.objects.push_front(object);
        }
        // The walk goes on by a wake, as this may be within the run of an operation.
        cx.agenda.wakes.insert((cx.now, self.core.id));
    }
}
