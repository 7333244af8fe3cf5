//! Space that can still be written.

use super::Volatile;
use crate::erasure_pools::data_shards;
use osdmap::{OsdMap, PgPool};
use types::{OsdId, PoolId};

/// Returns the bytes that clients can write into `raw` bytes of OSDs.
pub(crate) fn writable_bytes(map: &OsdMap, pool: &PgPool, raw: u64) -> u64 {
    let shards = u128::from(data_shards(map, pool));
    (u128::from(raw) * shards / u128::from(pool.size.max(1))) as u64
}

impl Volatile {
    /// Returns the bytes that can be written to a pool before the first OSD below it is full, given that CRUSH spreads
    /// them by weight. `None` if the pool does not exist.
    pub fn pool_available_bytes(&self, map: &OsdMap, pool: PoolId) -> Option<u64> {
        let pool = map.pools.get(&pool)?;
        let raw = self.rule_available_bytes(map, pool.crush_rule.into());
        Some(writable_bytes(map, pool, raw))
    }

    /// Returns the bytes that can be written to all OSDs below a rule before the first is full, replicas not yet
    /// divided out.
    pub fn rule_available_bytes(&self, map: &OsdMap, rule: u32) -> u64 {
        let mut least: Option<f64> = None;
        for (osd, share) in map.crush.rule_weights(rule) {
            // An OSD without a share, or one that has never reported, limits nothing.
            let Some(stat) = self.osds.get(&OsdId(osd)) else { continue };
            if share <= 0.0 || stat.stats.total_bytes == 0 || !map.is_in(OsdId(osd)) {
                continue;
            }
            let reserve = stat.stats.total_bytes as f64 * (1.0 - f64::from(map.full_ratio));
            let room = (stat.stats.free_bytes as f64 - reserve).max(0.0) / share;
            least = Some(least.map_or(room, |least| least.min(room)));
        }
        least.unwrap_or(0.0) as u64
    }
}
