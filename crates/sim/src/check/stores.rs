//! Reads the content of a cluster's stores, by groups of its pool.

use super::Violation;
use crate::cluster::Cluster;
use crate::stored::Stored;
use reactor::sim::Crash;
use std::collections::BTreeMap;
use types::{OsdId, PgId};

/// Content of a group on the OSDs of its acting set: the OSD, its place in the set, and the content.
pub(super) type Held<T> = Vec<(OsdId, usize, T)>;

/// Ends every OSD of a cluster whose pool has `pg_num` groups, and checks their stores. `read` reads the content of a
/// group, at that place of its acting set, from a store. Its error tells why the content cannot be right.
pub(super) fn what_groups_hold<T>(
    cluster: &mut Cluster,
    pg_num: u32,
    crash: Crash,
    mut read: impl FnMut(&mut Stored, PgId, usize) -> Result<T, String>,
) -> Result<BTreeMap<PgId, Held<T>>, Violation> {
    let pool = cluster.find_pool();
    let map = cluster.monitor().expect("the monitor runs").state().osdmap().clone();
    let osds = cluster.osd_count();
    (0..osds).for_each(|osd| cluster.kill_osd(osd, crash));
    let mut groups: BTreeMap<PgId, Held<T>> = BTreeMap::new();
    for osd in (0..osds).filter(|osd| cluster.is_present(*osd)).collect::<Vec<_>>() {
        let id = OsdId(osd as i32);
        let failed = |why: String| Violation(format!("the disks of {id}: {why}"));
        let mut shards = Vec::new();
        for shard in 0..cluster.shards() {
            let report = cluster.check(osd, shard).map_err(failed)?;
            if let Some(finding) = report.findings.iter().find(|finding| finding.is_damage()) {
                return Err(failed(finding.to_string()));
            }
            shards.push(cluster.stored_by(osd, shard).map_err(failed)?);
        }
        for pg in (0..pg_num).map(|seed| PgId { pool, seed }) {
            let placed = map.pg_to_up_acting(pg).expect("the pool can be placed");
            if let Some(place) = placed.acting.iter().position(|other| *other == id) {
                let has = |stored: &&mut Stored| stored.groups().iter().any(|group| group.base() == pg);
                let mut having = shards.iter_mut().filter(has);
                let held = match (having.next(), having.next()) {
                    (Some(stored), None) => read(stored, pg, place),
                    (Some(_), Some(_)) => Err(format!("pg {pg} is on two shards")),
                    (None, _) => read(&mut shards[0], pg, place),
                };
                let held = held.map_err(failed)?;
                groups.entry(pg).or_default().push((id, place, held));
            }
        }
    }
    Ok(groups)
}
