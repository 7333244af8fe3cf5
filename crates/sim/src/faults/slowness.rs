//! Slowness: processes that get no turn, and links that take long.

use super::Away;
use crate::run::Run;
use reactor::sim::Rng;
use std::time::Duration;

/// A misfortune of being slow. Nodes are numbered as in [`crate::cluster::Cluster::nodes`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlownessFault {
    /// A process stands still, as if stopped by a signal, and goes on later.
    Pause { node: usize, lasts: Away },
    /// Everything that one node sends to the other takes longer by `by`.
    SlowLink { from: usize, to: usize, by: Duration, lasts: Away },
}

impl SlownessFault {
    pub(super) fn draw(rng: &mut Rng, nodes: usize) -> SlownessFault {
        let node = rng.below(nodes as u64) as usize;
        let ms = Duration::from_millis;
        match rng.one_in(2) {
            true => {
                let lasts = if rng.one_in(2) { ms(rng.below(500)) } else { ms(500 + rng.below(5000)) };
                SlownessFault::Pause { node, lasts: Away(lasts) }
            }
            false => {
                let to = (node + 1 + rng.below(nodes as u64 - 1) as usize) % nodes;
                let by = ms(5 << rng.below(8));
                SlownessFault::SlowLink { from: node, to, by, lasts: Away(ms(1000 + rng.below(10_000))) }
            }
        }
    }

    pub(crate) fn strike(self, run: &mut Run) {
        let (nodes, now) = (run.cluster.nodes(), run.cluster.world.now());
        match self {
            SlownessFault::Pause { node, lasts } => run.cluster.world.pause(nodes[node % nodes.len()], now + lasts.0),
            SlownessFault::SlowLink { from, to, by, lasts } => {
                let (from, to) = (nodes[from % nodes.len()], nodes[to % nodes.len()]);
                run.cluster.world.delay(from, to, by);
                run.later(now + lasts.0, move |run| run.cluster.world.hasten(from, to));
            }
        }
    }
}
