//! Rounds of the balancer: it evens out the spread of placement groups' copies over OSDs, and removes exceptions of
//! placement that no longer make sense.

use super::osd_changes::Draft;
use super::{Monitor, Now};
use crate::balancer::{BalancerSettings, Obstacle, obstacle};
use crate::state::LogPriority;
use osdmap::{BalanceLimits, MappingUpdate, OsdMap, PgMapping, UpmapChanges, balance, stale_upmaps};
use std::sync::Arc;
use std::time::Duration;
use types::Epoch;

/// State of the balancer that lasts from round to round.
#[derive(Default)]
pub(super) struct Balancing {
    /// The map last looked at, and its placements.
    mapping: Option<(Arc<OsdMap>, PgMapping)>,
    /// Placements on their way to a later map. In large clusters that takes seconds, in which clients are not to wait.
    catching_up: Option<CatchingUp>,
    /// Epoch up to which exceptions that make no sense were looked for.
    swept: Epoch,
    /// Time of the next round.
    next_round: Option<Duration>,
    /// Epoch that the last round led to: reports of earlier ones do not count.
    changed_in: Epoch,
}

/// Placements on their way from those of one map to those of another.
struct CatchingUp {
    from: Arc<OsdMap>,
    to: Arc<OsdMap>,
    update: MappingUpdate,
}

/// Work of a [`CatchingUp`] that is done at a time.
const SLICE: usize = 2 * MappingUpdate::TEN_MS;

impl Balancing {
    /// Begins to decide: reports of maps before `epoch` may be from before another monitor's rounds.
    pub fn begin(&mut self, epoch: Epoch) {
        (self.changed_in, self.next_round) = (epoch, None);
    }

    /// Returns the placements of the newest map. `None`: not yet, to be asked again soon.
    fn follow(&mut self, map: &Arc<OsdMap>) -> Option<&PgMapping> {
        if let Some(mut under_way) = self.catching_up.take() {
            let CatchingUp { from, to, update } = &mut under_way;
            if !update.step(from, to, &mut { SLICE }) {
                self.catching_up = Some(under_way);
                return None;
            }
            self.mapping = Some((under_way.to, under_way.update.finish().0));
        }
        if self.mapping.as_ref().is_none_or(|(of, _)| of.epoch != map.epoch) {
            let (from, mut update) = match self.mapping.take() {
                Some((from, mapping)) => (from.clone(), MappingUpdate::begin(mapping, &from, map)),
                None => (map.clone(), MappingUpdate::anew(map)),
            };
            if !update.step(&from, map, &mut { SLICE }) {
                self.catching_up = Some(CatchingUp { from, to: map.clone(), update });
                return None;
            }
            self.mapping = Some((map.clone(), update.finish().0));
        }
        self.mapping.as_ref().map(|(_, mapping)| mapping)
    }
}

impl Monitor {
    /// Adds changes of exceptions to an increment in which nothing else changes.
    pub(super) fn balance(&mut self, now: Now, draft: &mut Draft) {
        if !draft.is_empty() {
            // A decision on the present map need not be right for the next one.
            return;
        }
        let map = self.state.osdmaps.current().clone();
        let Some(stale) = self.sweep(&map) else { return self.osd_changes.look(now.since_start) };
        if !stale.is_empty() {
            let count = stale.items.len() + stale.removed_items.len() + stale.removed_explicit.len();
            draft.note(
                LogPriority::INFO,
                format!("{count} placement exception(s) make no sense any more and are removed"),
            );
            stale.add_to(draft.incremental());
            return;
        }
        let Some(changes) = self.balancer_round(now, &map) else { return self.osd_changes.look(now.since_start) };
        if !changes.is_empty() {
            self.balancing.changed_in = map.epoch.next();
            let moved = changes.moved_copies;
            draft.note(LogPriority::DEBUG, format!("balancer: {moved} copies of placement groups are to move"));
            changes.add_to(draft.incremental());
        }
    }

    /// Returns the exceptions that make no sense in this map; looked for once in each map. `None`: not known yet.
    fn sweep(&mut self, map: &Arc<OsdMap>) -> Option<UpmapChanges> {
        let any = !map.pg_upmap.is_empty() || !map.pg_upmap_items.is_empty();
        if self.balancing.swept == map.epoch || !any {
            return Some(UpmapChanges::default());
        }
        let stale = stale_upmaps(map, self.balancing.follow(map)?);
        self.balancing.swept = map.epoch;
        Some(stale)
    }

    /// Returns the changes of a round that is due. `None`: placements are not known yet.
    fn balancer_round(&mut self, now: Now, map: &Arc<OsdMap>) -> Option<UpmapChanges> {
        let settings = BalancerSettings::of(&self.state, &self.volatile.name);
        if mutant::is(mutant::Mutant::IntervalUnbounded) {
            let _ = now.since_start + settings.interval;
        }
        let due = *self.balancing.next_round.get_or_insert(now.since_start.saturating_add(settings.interval));
        if !settings.is_on() || due > now.since_start {
            // A shorter interval counts at once.
            self.balancing.next_round = Some(due.min(now.since_start.saturating_add(settings.interval)));
            return Some(UpmapChanges::default());
        }
        let totals = self.volatile.totals(None);
        let told_since = self.balancing.changed_in;
        let told = |osd| self.volatile.osds.get(&osd).is_some_and(|stat| stat.epoch >= told_since);
        // Until primaries have seen the last round's map, their reports are from before it.
        let can_judge = map.up_osds().all(|(osd, _)| told(osd)) && !map.pools.is_empty();
        let why_not = obstacle(&self.volatile, settings.misplaced_max);
        if can_judge && why_not.is_none() {
            self.balancing.follow(map)?;
        }
        self.balancing.next_round = Some(now.since_start.saturating_add(settings.interval));
        if !can_judge {
            return Some(UpmapChanges::default());
        }
        let changes = match why_not {
            Some(_) => UpmapChanges::default(),
            None => {
                let copies: u64 = map.pools.values().map(|pool| u64::from(pool.pg_num) * u64::from(pool.size)).sum();
                let still = settings.misplaced_max * copies as f64
                    - copies as f64 * totals.misplaced_copies as f64 / totals.copies.max(1) as f64;
                let moves_max = settings.moves_max.min((still as usize).max(1));
                let pools = settings.balanced(map);
                balance(map, self.balancing.follow(map)?, &BalanceLimits { moves_max, pools })
            }
        };
        self.volatile.balancer.looked(now.wall, why_not.as_ref().map(Obstacle::to_string), changes.moved_copies);
        Some(changes)
    }
}
