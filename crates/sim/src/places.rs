//! The operator places groups anywhere while other things happen: on other OSDs, or on some of the same ones in another
//! order.

use crate::faults::{Away, Fault};
use reactor::sim::Rng;
use std::time::Duration;
use types::{PgId, PoolId};

/// Adds placements of a pool's groups to a plan. Each places a group on `members` of `osds` OSDs.
pub fn add(
    plan: &mut Vec<(Duration, Fault)>,
    rng: &mut Rng,
    (pool, groups): (PoolId, u32),
    osds: usize,
    members: usize,
) {
    let lasts_ms = plan.iter().map(|(at, _)| at.as_millis() as u64).max().unwrap_or(0).max(5_000);
    for _ in 0..4 + rng.below(12) {
        // Half of the placements come soon after another event of the plan; the rest come at any time.
        let at = match !plan.is_empty() && rng.one_in(2) {
            true => plan[rng.below(plan.len() as u64) as usize].0 + Duration::from_micros(rng.below(400_000)),
            false => Duration::from_millis(100 + rng.below(lasts_ms)),
        };
        let pg = PgId { pool, seed: rng.below(groups.into()) as u32 };
        let mut left: Vec<usize> = (0..osds).collect();
        let ids: Vec<String> =
            (0..members).map(|_| left.swap_remove(rng.below(left.len() as u64) as usize).to_string()).collect();
        let command = format!(r#"{{"prefix": "osd pg-upmap", "pgid": "{pg}", "id": [{}]}}"#, ids.join(", "));
        plan.push((at, Fault::Change { command, undo: None, lasts: Away(Duration::ZERO) }));
    }
    plan.sort_by_key(|(at, _)| *at);
}
