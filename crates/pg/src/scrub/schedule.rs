//! Schedule of a shard's scrubs: which group is scrubbed, and when. One at a time, by byte budget.

use super::mark::ScrubMark;
use super::run::{RunState, ScrubOrder};
use crate::context::Context;
use crate::group::pg::Pg;
use osdmap::{OsdMapFlags, PoolFlags};
use std::collections::BTreeMap;
use std::time::Duration;
use types::{PgId, Utime};

/// Time between scrubs of a group if nobody says otherwise.
pub const LIGHT_SCRUB_PERIOD: Duration = Duration::from_secs(86_400);

/// Scrubs that nobody ordered read no faster than this, unless everything could then not be read in time.
const BYTES_PER_SECOND: u64 = 4 << 20;
/// Bound on a faster pace, where everything could else not be read in time.
const BYTES_PER_SECOND_MAX: u64 = 32 << 20;
/// Pace of scrubs that an operator has ordered.
const ORDERED_BYTES_PER_SECOND: u64 = 64 << 20;
/// Time between looks for a group that is due; shorter if groups are due more often than anybody would want.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// A group that cannot be scrubbed now, as it recovers, is tried again after this time; and given up after that.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(250);
const GIVE_UP_AFTER: Duration = Duration::from_secs(60);

/// Time of the next scrub of a group that this OSD leads. Times are since 1970.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScrubView {
    pub pgid: PgId,
    /// Time from which on the group is looked at.
    pub at: Duration,
    /// Time of the scrub at the latest, as far as there is nothing else to do.
    pub by: Duration,
    /// True if an operator has ordered it.
    pub ordered: bool,
}

/// A shard's scrubs.
#[derive(Debug, Default)]
pub(crate) struct ScrubSchedule {
    /// Zero: never.
    light: Duration,
    deep: Duration,
    ordered: BTreeMap<PgId, ScrubOrder>,
    current: Option<(PgId, ScrubOrder)>,
    /// No chunk, and no look for a group, before.
    next_at: Duration,
    /// Time since which the present group cannot be scrubbed.
    stuck_since: Option<Duration>,
}

impl ScrubSchedule {
    pub fn set_periods(&mut self, light: Duration, deep: Duration) {
        (self.light, self.deep, self.next_at) = (light, deep, Duration::ZERO);
    }

    pub fn stop(&mut self) {
        *self = ScrubSchedule::default();
    }

    /// Orders a scrub of the group for an operator. An order that is not carried out yet is widened.
    pub fn order(&mut self, pgid: PgId, deep: bool, repair: bool, now: Duration) {
        let deep = deep || repair;
        let before = self.ordered.get(&pgid).copied();
        let order = before.unwrap_or(ScrubOrder { deep: false, repair: false, ordered: true });
        self.ordered.insert(pgid, ScrubOrder { deep: order.deep || deep, repair: order.repair || repair, ..order });
        if self.current.is_none_or(|(_, order)| !order.ordered) {
            self.next_at = now;
        }
    }

    /// Returns the time when there is something to do. Groups that are due are looked for with the ticks that there are
    /// anyway.
    pub fn next_wake(&self) -> Option<Duration> {
        (self.current.is_some() || !self.ordered.is_empty()).then_some(self.next_at)
    }

    /// Returns the group that is being scrubbed.
    pub fn current(&self) -> Option<PgId> {
        self.current.map(|(id, _)| id)
    }

    /// Returns the next scrub of a group with this mark; `None` if nobody wants one. `now`: time since 1970.
    pub fn view(&self, id: PgId, mark: &ScrubMark, now: Duration) -> Option<ScrubView> {
        if self.ordered.contains_key(&id) || self.current.is_some_and(|(current, order)| current == id && order.ordered)
        {
            return Some(ScrubView { pgid: id, at: now, by: now, ordered: true });
        }
        let scrubs = [(mark.light_at, self.light), (mark.deep_at, self.deep)];
        let wanted = scrubs.into_iter().filter(|(_, period)| !period.is_zero());
        let next = wanted.map(|(last, period)| (last.to_unix() + spread(id, period), last.to_unix() + period));
        let (at, by) = next.min()?;
        Some(ScrubView { pgid: id, at, by, ordered: false })
    }

    /// Looks, about once a second, if a group is due.
    pub fn tick(&mut self, cx: &mut Context<'_>, pgs: &mut BTreeMap<PgId, Pg>) {
        if let Some(pg) = self.current.and_then(|(id, _)| pgs.get_mut(&id))
            && pg.scrub.tick(&pg.core, cx)
        {
            self.next_at = cx.now + TRY_AGAIN_AFTER;
        }
        let is_wanted = self.light > Duration::ZERO || self.deep > Duration::ZERO;
        if self.current.is_none() && self.ordered.is_empty() && is_wanted && cx.now >= self.next_at {
            let periods = [self.light, self.deep].into_iter().filter(|period| !period.is_zero());
            let often = periods.min().unwrap_or(LOOK_EVERY) / 8;
            self.next_at = cx.now + LOOK_EVERY.min(often);
            self.current = self.due(cx, pgs);
            self.start(cx, pgs);
        }
    }

    fn start(&mut self, cx: &mut Context<'_>, pgs: &mut BTreeMap<PgId, Pg>) {
        if let Some((id, order)) = self.current {
            (self.next_at, self.stuck_since) = (cx.now, None);
            let pg = pgs.get_mut(&id).expect("just chosen");
            pg.scrub.begin(&pg.core, cx, order);
        }
    }

    fn end(&mut self, cx: &mut Context<'_>, pgs: &mut BTreeMap<PgId, Pg>) {
        if let Some(pg) = self.current.take().and_then(|(id, _)| pgs.get_mut(&id)) {
            pg.scrub.end(&pg.core, cx);
        }
        self.next_at = cx.now;
    }

    pub fn run(&mut self, cx: &mut Context<'_>, pgs: &mut BTreeMap<PgId, Pg>) {
        if self.current.is_some_and(|(_, order)| !order.ordered) && !self.ordered.is_empty() {
            // An order goes before. What was begun is begun again, a deep scrub where it was.
            let pg = self.current.and_then(|(id, _)| pgs.get_mut(&id));
            if let Some(pg) = pg.filter(|pg| !pg.scrub.is_busy()) {
                pg.scrub.end(&pg.core, cx);
                self.current = None;
            }
        }
        if self.current.is_none() && !self.ordered.is_empty() && cx.now >= self.next_at {
            self.ordered.retain(|id, _| pgs.get(id).is_some_and(|pg| pg.core.is_primary(cx.whoami)));
            let ready = self.ordered.keys().find(|id| pgs[id].may_scrub(cx)).copied();
            match ready {
                None => self.next_at = cx.now + TRY_AGAIN_AFTER,
                Some(id) => {
                    self.current = self.ordered.remove(&id).map(|order| (id, order));
                    self.start(cx, pgs);
                }
            }
        }
        let Some((id, order)) = self.current else { return };
        let Some(pg) = pgs.get_mut(&id).filter(|pg| pg.core.is_primary(cx.whoami)) else {
            self.current = None;
            return;
        };
        match pg.scrub.run_state() {
            RunState::Busy => {}
            RunState::Ended => self.end(cx, pgs),
            RunState::None => {
                // An interval has ended it.
                self.current = None;
                if order.ordered {
                    self.ordered.entry(id).or_insert(order);
                }
                self.next_at = cx.now + TRY_AGAIN_AFTER;
            }
            RunState::Between(bytes) => {
                if bytes > 0 {
                    let rate = rate(order, cx, self.deep);
                    self.next_at = cx.now + Duration::from_secs_f64(bytes as f64 / rate as f64);
                }
                if cx.now < self.next_at {
                    return;
                }
                if !order.ordered && !may(cx, id, order.deep) {
                    return self.end(cx, pgs);
                }
                if pg.may_scrub(cx) {
                    self.stuck_since = None;
                    return pg.scrub.chunk(&mut pg.core, cx, &pg.ops.in_flight());
                }
                self.next_at = cx.now + TRY_AGAIN_AFTER;
                if cx.now >= *self.stuck_since.get_or_insert(cx.now) + GIVE_UP_AFTER {
                    self.end(cx, pgs);
                }
            }
        }
    }

    /// Returns the group that has waited longest beyond its time.
    fn due(&self, cx: &mut Context<'_>, pgs: &mut BTreeMap<PgId, Pg>) -> Option<(PgId, ScrubOrder)> {
        let now = cx.unix_zero + cx.now;
        let mut due: Option<(Duration, PgId, ScrubOrder)> = None;
        for (id, pg) in pgs.iter_mut() {
            if !pg.may_scrub(cx) {
                continue;
            }
            if pg.scrub.mark().light_at.is_zero() && pg.scrub.mark().deep_at.is_zero() {
                // The group was just made.
                let now = Utime::from_unix(now);
                let made = ScrubMark { light_at: now, deep_at: now, clean_at: now, ..pg.scrub.mark().clone() };
                pg.scrub.set_mark(made);
                pg.scrub.keep_mark(&pg.core, cx);
                pg.queue_report(cx);
                continue;
            }
            for (deep, period) in [(true, self.deep), (false, self.light)] {
                let last = if deep { pg.scrub.mark().deep_at } else { pg.scrub.mark().light_at };
                let at = last.to_unix() + spread(*id, period);
                let is_first = due.as_ref().is_none_or(|(other, ..)| at < *other);
                if period > Duration::ZERO && at <= now && is_first && may(cx, *id, deep) {
                    due = Some((at, *id, ScrubOrder { deep, repair: false, ordered: false }));
                    break;
                }
            }
        }
        due.map(|(_, id, order)| (id, order))
    }
}

/// Returns a time between half the period and all of it, so that groups made together are not scrubbed together.
fn spread(id: PgId, period: Duration) -> Duration {
    let part = id.seed.wrapping_mul(0x9e37_79b9) >> 22;
    period / 2 + period / 2 * part / 1024
}

/// Returns true if flags let groups be scrubbed though nobody has ordered it.
fn may(cx: &Context<'_>, id: PgId, deep: bool) -> bool {
    let (of_map, of_pool) = match deep {
        true => (OsdMapFlags::NODEEP_SCRUB, PoolFlags::NODEEP_SCRUB),
        false => (OsdMapFlags::NOSCRUB, PoolFlags::NOSCRUB),
    };
    let pool = cx.map.pools.get(&id.pool);
    !cx.map.flags.contains(of_map) && !pool.is_some_and(|pool| pool.flags.contains(of_pool))
}

/// Returns the pace, in bytes per second.
fn rate(order: ScrubOrder, cx: &Context<'_>, deep: Duration) -> u64 {
    if order.ordered {
        return ORDERED_BYTES_PER_SECOND;
    }
    let needed = 2 * cx.store.usage().data_bytes / deep.as_secs().max(1);
    needed.clamp(BYTES_PER_SECOND, BYTES_PER_SECOND_MAX)
}
