//! No group serves with fewer members than the pool's `min_size`.

use super::Violation;
use mon::MonState;
use std::collections::BTreeSet;

/// Checks the record that each group must have before it serves.
pub fn groups_serve_with_enough_members(state: &MonState) -> Result<(), Violation> {
    let map = state.osdmap();
    for (pg, record) in &state.pgs {
        let Some(pool) = map.pools.get(&pg.pool) else { continue };
        if pool.last_change > record.last_epoch_started {
            // The record is of another interval, in which another number of members may have been enough.
            continue;
        }
        // Each shard counts once, even if several members have it.
        let members = match record.member_shards.is_empty() {
            true => record.members.len(),
            false => record.member_shards.iter().collect::<BTreeSet<_>>().len(),
        };
        let min_size = usize::from(pool.min_size);
        if members < min_size {
            let since = record.last_epoch_started;
            return Err(Violation(format!(
                "pg {pg} serves since {since} with {members} members, fewer than min_size {min_size}"
            )));
        }
    }
    Ok(())
}
