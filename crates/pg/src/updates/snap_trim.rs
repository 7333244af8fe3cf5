//! States of objects that no snapshot needs any more are removed.
//!
//! The map names the snapshots that were removed. The primary of a group that is clean takes the clones that were made
//! for such a snapshot from the store's list of them, and has their objects changed, a few at a time, each by an update
//! like any other. So what it costs depends on how many clones there are of the snapshot, not on how many objects there
//! are in the group. A store that was made before there was this list has none: there the group's objects are looked at
//! one after another. What a primary has done is not kept: another one looks again, and finds nothing to do. Once all
//! groups of a pool tell that they are done with a snapshot, the monitors forget it.

use crate::context::{Context, Waiter};
use crate::group::core::Core;
use crate::group::effects::Effect;
use crate::group::lookup::{NoAnswer, ready};
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

impl SnapTrim {
    /// Bits of the group's state.
    pub fn state_bits(&self) -> u64 {
        match self {
            SnapTrim { run: Some(_), .. } => pg_state::SNAPTRIM,
            SnapTrim { waits: true, .. } => pg_state::SNAPTRIM_WAIT,
            _ => 0,
        }
    }

    /// Returns true if the group has its turn, or waits for it.
    pub fn wants_turn(&self) -> bool {
        self.state_bits() != 0
    }

    /// Tells whether there is anything to do, or to forget.
    pub fn is_concerned(&self, core: &Core, cx: &Context<'_>) -> bool {
        let removed = cx.map.removed_snaps_queue.get(&core.id.pool.base());
        removed.is_some() || self.run.is_some() || !self.done.is_empty() || self.waits
    }

    /// Goes on with what is to be removed. `is_clean`: the group serves, and all its members have everything.
    pub fn go_on(&mut self, core: &Core, cx: &mut Context<'_>, is_clean: bool) {
        let removed = cx.map.removed_snaps_queue.get(&core.id.pool.base());
        let removed = removed.cloned().unwrap_or_default();
        self.done.intersect(&removed);
        let is_done = self.done.contains_all(&removed);
        let must_wait = is_done || cx.now < self.not_before;
        let may = is_clean && !cx.map.flags.contains(OsdMapFlags::NOSNAPTRIM);
        if !may || self.run.is_none() && must_wait {
            return self.leave_turn(core, cx);
        }
        if self.run.is_none() {
            if !cx.shared.trim_turns.ask(core.id) {
                return self.wait_for_turn(core, cx);
            }
            tracing::debug!(pg = %core.id, %removed, "removed snapshots are trimmed");
            let (cursor, _) = core.range();
            let snap = cx.store.lists_clones().then_some(UNKNOWN_SNAP);
            let (objects, in_flight) = Default::default();
            let place = Some(Place { snap, cursor });
            self.run = Some(TrimRun { snaps: removed, place, objects, in_flight, waits_for: None, has_failed: false });
            self.waits = false;
            cx.cause(core.id, Effect::Report);
        }
        let mut full_pages = 0;
        for _ in 0..PAGES {
            while let Some(run) = &mut self.run {
                if run.in_flight.len() >= UPDATES_MAX || run.waits_for.is_some() {
                    return;
                }
                let Some(object) = run.objects.pop_front() else { break };
                run.in_flight.insert(object.clone());
                cx.cause(core.id, Effect::Trim(object));
            }
            match self.page(core, cx) {
                Page::Nothing => return,
                Page::Full => full_pages += 1,
                Page::Last => {}
            }
            if full_pages == FULL_PAGES {
                break;
            }
        }
        cx.agenda.wakes.insert((cx.now + PAUSE, core.id));
    }

    /// Leaves the turn, as the group may not, or need not, trim now. What it has not come to, it begins anew.
    fn leave_turn(&mut self, core: &Core, cx: &mut Context<'_>) {
        if self.run.as_ref().is_some_and(|run| !run.in_flight.is_empty()) {
            return;
        }
        let is_told = self.run.take().is_some() || self.waits;
        self.waits = false;
        if is_told {
            cx.cause(core.id, Effect::Report);
            self.end_turn(core, cx);
        }
    }

    fn end_turn(&self, core: &Core, cx: &mut Context<'_>) {
        if let Some(next) = cx.shared.trim_turns.end(core.id) {
            cx.agenda.wakes.insert((cx.now, next));
        }
    }

    fn wait_for_turn(&mut self, core: &Core, cx: &mut Context<'_>) {
        if !std::mem::replace(&mut self.waits, true) {
            cx.cause(core.id, Effect::Report);
        }
    }

    /// Looks at the next objects.
    fn page(&mut self, core: &Core, cx: &mut Context<'_>) -> Page {
        let (begin, end) = core.range();
        let Some(run) = &mut self.run else { return Page::Nothing };
        let Some(Place { snap, cursor }) = run.place.clone() else {
            if run.in_flight.is_empty() && run.objects.is_empty() {
                self.end(core, cx);
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
                cx.wait(id, Waiter::Trim { pgid: core.id });
                return Page::Nothing;
            }
            Err(NoAnswer::Damaged(damage)) => {
                tracing::error!(pg = %core.id, "removed snapshots cannot be trimmed before the store is repaired: {damage}");
                // Meanwhile others have their turn.
                (run.place, run.has_failed) = (None, true);
                return Page::Last;
            }
        };
        self.listed += page.len() as u64;
        let run = self.run.as_mut().expect("just seen");
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
    fn end(&mut self, core: &Core, cx: &mut Context<'_>) {
        let run = self.run.take().expect("there is something to end");
        let has_failed = run.has_failed;
        tracing::debug!(pg = %core.id, snaps = %run.snaps, listed = self.listed, has_failed, "they are trimmed");
        match has_failed {
            true => self.not_before = cx.now + TRY_AGAIN,
            false => self.done.union(&run.snaps),
        }
        cx.cause(core.id, Effect::Report);
        self.end_turn(core, cx);
    }

    /// Tells whether an update of the object is under way, or about to be.
    pub fn is_wanted(&self, object: &ObjectId) -> bool {
        self.run.as_ref().is_some_and(|run| run.in_flight.contains(object))
    }

    /// Notes that a lookup is done. Returns true if the walk waited for it, and goes on.
    pub fn lookup_done(&mut self, id: LookupId) -> bool {
        let run = self.run.as_mut().filter(|run| run.waits_for == Some(id));
        run.is_some_and(|run| run.waits_for.take().is_some())
    }

    /// Notes that states of an object which no snapshot needs any more could not be removed.
    pub fn failed(&mut self, core: &Core, cx: &mut Context<'_>, object: &ObjectId) {
        tracing::error!(pg = %core.id, %object, "what removed snapshots have left of it stays: it will be tried again");
        if let Some(run) = &mut self.run {
            run.has_failed |= run.in_flight.remove(object);
            cx.agenda.wakes.insert((cx.now, core.id));
        }
    }

    /// Notes that one update of an object is done; or that there was nothing to do.
    pub fn trimmed(&mut self, core: &Core, cx: &mut Context<'_>, object: ObjectId, trim: Trim) {
        let Some(run) = &mut self.run else { return };
        if run.in_flight.remove(&object) && trim.more {
            run.objects.push_front(object);
        }
        // The walk goes on by a wake, as this may be within the run of an operation.
        cx.agenda.wakes.insert((cx.now, core.id));
    }
}
