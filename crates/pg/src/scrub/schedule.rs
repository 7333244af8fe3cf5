//! Schedule of a shard's scrubs: which groups are scrubbed, and when. One at a time unless an operator wants more, each
//! by a byte budget.

use super::mark::ScrubMark;
use super::run::{RunState, ScrubOrder};
use crate::context::Context;
use crate::group::pg::Pg;
use crate::tuning::ScrubTuning;
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
const _: () = assert!(
    BYTES_PER_SECOND <= BYTES_PER_SECOND_MAX && BYTES_PER_SECOND_MAX <= ORDERED_BYTES_PER_SECOND,
    "scrubs in a hurry are faster than others, and those that somebody waits for are the fastest"
);
/// Time between looks for a group that is due; shorter if groups are due more often than anybody would want.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// Time after which a group is tried again that cannot be scrubbed now, because it recovers; and the time after which
/// it is given up.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(250);
const GIVE_UP_AFTER: Duration = Duration::from_secs(60);
const _: () = assert!(
    10 * TRY_AGAIN_AFTER.as_millis() < GIVE_UP_AFTER.as_millis(),
    "a group is tried several times before it is given up"
);

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

/// A group that is being scrubbed.
#[derive(Debug)]
struct Running {
    id: PgId,
    order: ScrubOrder,
    /// No chunk begins before.
    next_at: Duration,
    /// The group cannot be scrubbed since then.
    stuck_since: Option<Duration>,
}

/// A shard's scrubs.
#[derive(Debug, Default)]
pub(crate) struct ScrubSchedule {
    /// Zero: never.
    light: Duration,
    deep: Duration,
    ordered: BTreeMap<PgId, ScrubOrder>,
    running: Vec<Running>,
    /// No look for a group that is due before.
    look_at: Duration,
    /// No order begins before.
    orders_at: Duration,
}

impl ScrubSchedule {
    pub fn set_periods(&mut self, light: Duration, deep: Duration) {
        (self.light, self.deep, self.look_at) = (light, deep, Duration::ZERO);
    }

    /// Lets groups go on that wait for their next chunk.
    pub fn end_pauses(&mut self, now: Duration) {
        self.running.iter_mut().for_each(|running| running.next_at = running.next_at.min(now));
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
        self.orders_at = now;
    }

    /// Returns the time of the next thing to do, where `at_a_time` groups are scrubbed at a time. Groups that are due
    /// are looked for with the ticks that there are anyway.
    pub fn next_wake(&self, at_a_time: usize) -> Option<Duration> {
        let has_room = self.running.len() < at_a_time || self.running.iter().any(|running| !running.order.ordered);
        let orders = (!self.ordered.is_empty() && has_room).then_some(self.orders_at);
        self.running.iter().map(|running| running.next_at).chain(orders).min()
    }

    /// Returns the groups that are being scrubbed.
    pub fn running(&self) -> impl Iterator<Item = PgId> {
        self.running.iter().map(|running| running.id)
    }

    fn is_running(&self, id: PgId) -> bool {
        self.running().any(|running| running == id)
    }

    /// Returns the next scrub of a group with this mark; `None` if nobody wants one. `now`: time since 1970.
    pub fn view(&self, id: PgId, mark: &ScrubMark, now: Duration) -> Option<ScrubView> {
        let is_ordered = |running: &Running| running.id == id && running.order.ordered;
        if self.ordered.contains_key(&id) || self.running.iter().any(is_ordered) {
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
        for running in &mut self.running {
            if let Some(pg) = pgs.get_mut(&running.id)
                && pg.scrub.tick(&pg.core, cx)
            {
                running.next_at = cx.now + TRY_AGAIN_AFTER;
            }
        }
        let is_wanted = self.light > Duration::ZERO || self.deep > Duration::ZERO;
        if self.has_room(cx) && self.ordered.is_empty() && is_wanted && cx.now >= self.look_at {
            let periods = [self.light, self.deep].into_iter().filter(|period| !period.is_zero());
            let often = periods.min().unwrap_or(LOOK_EVERY) / 8;
            self.look_at = cx.now + LOOK_EVERY.min(often);
            while self.has_room(cx)
                && let Some((id, order)) = self.due(cx, pgs)
            {
                self.start(cx, pgs, id, order);
            }
        }
    }

    fn has_room(&self, cx: &Context<'_>) -> bool {
        self.running.len() < cx.shared.tuning.scrubs.at_a_time
    }

    fn start(&mut self, cx: &mut Context<'_>, pgs: &mut BTreeMap<PgId, Pg>, id: PgId, order: ScrubOrder) {
        let pg = pgs.get_mut(&id).expect("just chosen");
        pg.scrub.begin(&pg.core, cx, order);
        self.running.push(Running { id, order, next_at: cx.now, stuck_since: None });
    }

    /// Ends the group's scrub. Returns false: the scrub no longer runs.
    fn end(&mut self, cx: &mut Context<'_>, pg: &mut Pg) -> bool {
        pg.scrub.end(&pg.core, cx);
        (self.look_at, self.orders_at) = (cx.now, cx.now);
        false
    }

    pub fn run(&mut self, cx: &mut Context<'_>, pgs: &mut BTreeMap<PgId, Pg>) {
        self.begin_orders(cx, pgs);
        let mut running = std::mem::take(&mut self.running);
        running.retain_mut(|running| self.go_on(cx, pgs, running));
        self.running = running;
    }

    /// Begins ordered scrubs as far as there is room. An ordered scrub displaces one that nobody ordered, which begins
    /// again later; a deep one goes on where it was.
    fn begin_orders(&mut self, cx: &mut Context<'_>, pgs: &mut BTreeMap<PgId, Pg>) {
        if self.ordered.is_empty() {
            return;
        }
        let is_full = !self.has_room(cx);
        let gives_way = |running: &Running| {
            !running.order.ordered
                && (is_full || self.ordered.contains_key(&running.id))
                && pgs.get(&running.id).is_none_or(|pg| !pg.scrub.is_busy())
        };
        if let Some(place) = self.running.iter().position(gives_way) {
            let id = self.running.remove(place).id;
            if let Some(pg) = pgs.get_mut(&id) {
                pg.scrub.end(&pg.core, cx);
            }
        }
        while self.has_room(cx) && !self.ordered.is_empty() && cx.now >= self.orders_at {
            self.ordered.retain(|id, _| pgs.get(id).is_some_and(|pg| pg.core.is_primary(cx.whoami)));
            let ready = self.ordered.keys().find(|id| pgs[id].may_scrub(cx) && !self.is_running(**id)).copied();
            match ready.and_then(|id| self.ordered.remove_entry(&id)) {
                None => self.orders_at = cx.now + TRY_AGAIN_AFTER,
                Some((id, order)) => self.start(cx, pgs, id, order),
            }
        }
    }

    /// Goes on with one group's scrub. Returns false if it has ended.
    fn go_on(&mut self, cx: &mut Context<'_>, pgs: &mut BTreeMap<PgId, Pg>, running: &mut Running) -> bool {
        let Running { id, order, .. } = *running;
        let Some(pg) = pgs.get_mut(&id).filter(|pg| pg.core.is_primary(cx.whoami)) else { return false };
        match pg.scrub.run_state() {
            RunState::Busy => true,
            RunState::Ended => self.end(cx, pg),
            RunState::None => {
                // An interval has ended it.
                if order.ordered {
                    self.ordered.entry(id).or_insert(order);
                }
                (self.look_at, self.orders_at) = (cx.now + TRY_AGAIN_AFTER, cx.now + TRY_AGAIN_AFTER);
                false
            }
            RunState::Between(bytes) => {
                if bytes > 0 {
                    let takes = Duration::from_secs_f64(bytes as f64 / rate(order, cx, self.deep) as f64);
                    running.next_at = cx.now + takes.max(cx.shared.tuning.scrubs.pause);
                }
                if cx.now < running.next_at {
                    return true;
                }
                if !order.ordered && !may(cx, id, order.deep) {
                    return self.end(cx, pg);
                }
                if pg.may_scrub(cx) {
                    running.stuck_since = None;
                    pg.scrub.chunk(&mut pg.core, cx, &pg.requests.in_flight());
                    return true;
                }
                running.next_at = cx.now + TRY_AGAIN_AFTER;
                let is_given_up = cx.now >= *running.stuck_since.get_or_insert(cx.now) + GIVE_UP_AFTER;
                if is_given_up { self.end(cx, pg) } else { true }
            }
        }
    }

    /// Returns the group that has waited longest beyond its time.
    fn due(&self, cx: &mut Context<'_>, pgs: &mut BTreeMap<PgId, Pg>) -> Option<(PgId, ScrubOrder)> {
        let now = cx.unix_zero + cx.now;
        let ScrubTuning { in_time, while_healing, overdue_after, .. } = cx.shared.tuning.scrubs;
        let is_time = in_time && (while_healing || !cx.shared.reservations.anyone_heals());
        let mut due: Option<(Duration, PgId, ScrubOrder)> = None;
        for (id, pg) in pgs.iter_mut() {
            if !pg.may_scrub(cx) || self.is_running(*id) {
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
            let is_overdue = !overdue_after.is_zero() && pg.scrub.mark().light_at.to_unix() + overdue_after <= now;
            if !is_time && !is_overdue {
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
