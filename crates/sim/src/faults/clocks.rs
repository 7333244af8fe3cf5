//! Clocks: wall clocks that jump, and monotonic ones that run at different rates.

use crate::run::Run;
use crate::setup::DRIFT_PPM_MAX;
use reactor::sim::Rng;

/// Wall clocks are at most so far off.
const SKEW_MS_MAX: i64 = 10_000;

/// Clocks of several monitors run at rates that differ by a fifth of what those of others may.
const MONITORS_SHARE: i64 = 5;

/// What happens to one node's clock. Nodes are numbered as in [`crate::cluster::Cluster::nodes`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClockFault {
    /// It runs so much faster, or slower, from now on.
    Rate { node: usize, ahead_ppm: i64 },
    /// The wall clock shows another time from now on.
    Skew { node: usize, ms: i64 },
}

/// A number from minus `max` to `max`.
fn around_zero(rng: &mut Rng, max: i64) -> i64 {
    rng.below(2 * max as u64 + 1) as i64 - max
}

impl ClockFault {
    pub(super) fn draw(rng: &mut Rng, nodes: usize) -> ClockFault {
        let node = rng.below(nodes as u64) as usize;
        match rng.below(4) {
            0 => ClockFault::Skew { node, ms: around_zero(rng, SKEW_MS_MAX) },
            // As fast or as slow as may be.
            1 => ClockFault::Rate { node, ahead_ppm: if rng.one_in(2) { DRIFT_PPM_MAX } else { -DRIFT_PPM_MAX } },
            _ => ClockFault::Rate { node, ahead_ppm: around_zero(rng, DRIFT_PPM_MAX) },
        }
    }

    pub(crate) fn strike(self, run: &mut Run) {
        let nodes = run.cluster.nodes();
        match self {
            ClockFault::Rate { node, ahead_ppm } => run.set_clock_rate(node % nodes.len(), ahead_ppm),
            ClockFault::Skew { node, ms } => run.cluster.world.skew_wall_clock(nodes[node % nodes.len()], ms),
        }
    }
}

impl Run {
    /// All clocks differ from the beginning.
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
