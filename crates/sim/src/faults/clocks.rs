//! Misfortunes of clocks: wall clocks jump, monotonic clocks run at different rates, and machines sleep or are paused
//! together with their clocks.

use super::Away;
use crate::history::{Ask, Operation};
use crate::run::Run;
use crate::setup::DRIFT_PPM_MAX;
use reactor::sim::{Rng, Sleep};
use std::time::Duration;

/// The most by which a wall clock is off, in milliseconds.
const SKEW_MS_MAX: i64 = 10_000;

/// With several monitors, their clocks' rates differ by only one part in this many of the usual difference.
const MONITORS_SHARE: i64 = 5;

/// The most by which a wall clock that jumps far is off, in milliseconds.
const FAR_MS_MAX: i64 = 12 * 3_600_000;
/// Length of a lease by the slowest clock, plus a turn in which the lease is looked at.
const LEASE_MAX: Duration = Duration::from_millis(2500);

/// A misfortune of one node's clock. Nodes are numbered as in [`crate::cluster::Cluster::nodes`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClockFault {
    /// The clock's rate changes by this much, from now on.
    Rate { node: usize, ahead_ppm: i64 },
    /// The wall clock shows another time from now on.
    Skew { node: usize, ms: i64 },
    /// The machine stands still for `lasts`.
    ///
    /// * `alone`: the machine is an OSD's. Only clients that read reach the OSD, until this long after it goes on. With
    ///   `None` the operator may mark the OSD down meanwhile.
    /// * `right_after`: if its clocks stood, too, and that went unnoticed, its wall clock is set right this long after
    ///   it goes on.
    Sleep { node: usize, sleep: Sleep, lasts: Away, alone: Option<Duration>, right_after: Duration },
}

/// A random number from minus `max` to `max`.
fn around_zero(rng: &mut Rng, max: i64) -> i64 {
    rng.below(2 * max as u64 + 1) as i64 - max
}

impl ClockFault {
    pub(super) fn draw(rng: &mut Rng, nodes: usize) -> ClockFault {
        let node = rng.below(nodes as u64) as usize;
        match rng.below(4) {
            0 => ClockFault::Skew { node, ms: around_zero(rng, SKEW_MS_MAX) },
            // The clock is as fast or as slow as the limit allows.
            1 => ClockFault::Rate { node, ahead_ppm: if rng.one_in(2) { DRIFT_PPM_MAX } else { -DRIFT_PPM_MAX } },
            _ => ClockFault::Rate { node, ahead_ppm: around_zero(rng, DRIFT_PPM_MAX) },
        }
    }

    /// Draws a sleep of one machine, of `mons` monitors and `osds` OSDs in this order. Monitors that do not notice that
    /// their clocks stood answer by leases that have ended. Where nothing tells them, their clocks count the sleep.
    pub(super) fn draw_sleep(rng: &mut Rng, mons: usize, osds: usize) -> ClockFault {
        let is_mon = rng.one_in(5);
        let node = if is_mon { rng.below(mons as u64) } else { mons as u64 + rng.below(osds as u64) } as usize;
        if rng.one_in(6) {
            return ClockFault::Skew { node, ms: around_zero(rng, FAR_MS_MAX) };
        }
        let ms = |rng: &mut Rng, max| Duration::from_millis(rng.below(max));
        let lasts = Away(if rng.one_in(4) { ms(rng, 1500) } else { Duration::from_millis(1500) + ms(rng, 12_000) });
        let sleep = [Sleep::Counted, Sleep::Paused, Sleep::Paused, Sleep::Unnoticed][rng.below(4) as usize];
        let alone = (!is_mon && rng.one_in(2)).then(|| ms(rng, 3000));
        let sleep = if is_mon && sleep == Sleep::Unnoticed { Sleep::Counted } else { sleep };
        ClockFault::Sleep { node, sleep, lasts, alone, right_after: ms(rng, 4000) }
    }

    pub(crate) fn strike(self, run: &mut Run) {
        let nodes = run.cluster.nodes();
        match self {
            ClockFault::Sleep { node, sleep, lasts, alone, right_after } => {
                run.sleep(node, sleep, lasts.0, alone, right_after);
            }
            ClockFault::Rate { node, ahead_ppm } => run.set_clock_rate(node % nodes.len(), ahead_ppm),
            ClockFault::Skew { node, ms } => run.cluster.world.skew_wall_clock(nodes[node % nodes.len()], ms),
        }
    }
}

impl Run {
    fn sleep(&mut self, node: usize, sleep: Sleep, lasts: Duration, alone: Option<Duration>, right_after: Duration) {
        let (now, mons) = (self.cluster.world.now(), self.setup.mons);
        let until = now + lasts;
        // Nodes of monitors that were added since come before those of OSDs.
        let osd = node.checked_sub(mons).filter(|osd| *osd < self.cluster.osd_count());
        let node = osd.map_or_else(|| self.cluster.mon_node(node), |osd| self.cluster.osd_node(osd));
        if let (Some(osd), Some(longer)) = (osd, alone) {
            self.leave_alone(osd, until + longer);
        } else if let Some(osd) = osd.filter(|_| self.rng.one_in(2)) {
            self.mark_down(osd, now + lasts / 4);
        }
        self.cluster.world.sleep(node, until, sleep);
        if sleep == Sleep::Unnoticed {
            self.unsure.push((until, until + LEASE_MAX));
            self.later(until + right_after, move |run| run.cluster.world.set_wall_clock_right(node));
        }
    }

    /// Sets wall clocks right, that is to [`SKEW_MS_MAX`] off at most. Only runs with sleeps need this.
    pub(crate) fn set_clocks_right(&mut self) {
        if !self.setup.has(super::Mix::Sleeps) {
            return;
        }
        for node in self.cluster.nodes() {
            let ms = around_zero(&mut self.rng, SKEW_MS_MAX);
            self.cluster.world.skew_wall_clock(node, ms);
            self.cluster.world.set_wall_clock_right(node);
        }
    }

    /// The history without reads that were answered while a machine could not know that its leases had ended.
    pub(crate) fn without_unsure(&self, mut history: Vec<Operation>) -> Vec<Operation> {
        let is_unsure = |at: Duration| self.unsure.iter().any(|(from, until)| (*from..=*until).contains(&at));
        let is_read = |ask: &Ask| matches!(ask, Ask::Read | Ask::ReadAt(_));
        history.retain(|operation| {
            let answered = operation.answer.as_ref().map(|(at, _)| *at);
            !(is_read(&operation.ask) && answered.is_some_and(is_unsure))
        });
        history
    }

    /// Gives all clocks different rates.
    pub(crate) fn let_clocks_drift(&mut self) {
        for node in 0..self.cluster.nodes().len() {
            let ahead_ppm = around_zero(&mut self.rng, DRIFT_PPM_MAX);
            self.set_clock_rate(node, ahead_ppm);
        }
    }

    fn set_clock_rate(&mut self, node: usize, ahead_ppm: i64) {
        let mons = self.cluster.mon_count();
        let ahead_ppm = if mons > 1 && node < mons { ahead_ppm / MONITORS_SHARE } else { ahead_ppm };
        let node = self.cluster.nodes()[node];
        self.cluster.world.set_clock_rate(node, ahead_ppm);
    }
}
