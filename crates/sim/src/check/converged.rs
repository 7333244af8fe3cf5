//! All members of a placement group hold the same objects, byte for byte.

use super::Violation;
use crate::cluster::Cluster;
use crate::stored::StoredObject;
use reactor::sim::Crash;
use std::collections::BTreeMap;
use types::{ObjectId, OsdId, PgId};

/// Ends every OSD of a cluster whose pool has so many groups, checks their stores, and compares what these hold.
pub fn all_replicas_are_identical(cluster: &mut Cluster, pg_num: u32, crash: Crash) -> Result<(), Violation> {
    let pool = cluster.find_pool();
    let map = cluster.monitor().expect("the monitor runs").state().osdmap().clone();
    let osds = cluster.osd_count();
    (0..osds).for_each(|osd| cluster.kill_osd(osd, crash));
    let mut groups: BTreeMap<PgId, Vec<(OsdId, _)>> = BTreeMap::new();
    for osd in 0..osds {
        let id = OsdId(osd as i32);
        let failed = |why: String| Violation(format!("the disks of {id}: {why}"));
        let report = cluster.check(osd).map_err(failed)?;
        if let Some(finding) = report.findings.iter().find(|finding| finding.is_damage()) {
            return Err(failed(finding.to_string()));
        }
        let mut stored = cluster.stored(osd).map_err(failed)?;
        for pg in (0..pg_num).map(|seed| PgId { pool, seed }) {
            let placed = map.pg_to_up_acting(pg).expect("the pool can be placed");
            if placed.acting.contains(&id) {
                let (from, until) = osdmap::pg_range(pg, pg_num);
                let objects = stored.objects(&from, &until).map_err(failed)?;
                groups.entry(pg).or_default().push((id, objects));
            }
        }
    }
    groups.iter().try_for_each(|(pg, members)| replicas_are_identical(*pg, members))
}

/// What each member of `pg` holds of it.
pub fn replicas_are_identical(
    pg: PgId,
    members: &[(OsdId, BTreeMap<ObjectId, StoredObject>)],
) -> Result<(), Violation> {
    let Some(((first, reference), others)) = members.split_first() else {
        return Err(Violation(format!("pg {pg} has no members")));
    };
    for (osd, objects) in others {
        if objects == reference {
            continue;
        }
        let names: std::collections::BTreeSet<_> = reference.keys().chain(objects.keys()).collect();
        for name in names {
            let differ = match (reference.get(name), objects.get(name)) {
                (Some(_), None) => format!("is missing on {osd}"),
                (None, Some(_)) => format!("is on {osd} alone"),
                (Some(a), Some(b)) if a != b => differences(a, b),
                _ => continue,
            };
            return Err(Violation(format!("pg {pg}: {name} differs between {first} and {osd}: {differ}")));
        }
    }
    Ok(())
}

fn differences(a: &StoredObject, b: &StoredObject) -> String {
    let mut parts = Vec::new();
    if a.bytes != b.bytes {
        let at = a.bytes.iter().zip(&b.bytes).position(|(a, b)| a != b);
        let at = at.unwrap_or(a.bytes.len().min(b.bytes.len()));
        parts.push(format!("bytes (lengths {} and {}, from byte {at} on)", a.bytes.len(), b.bytes.len()));
    }
    for name in a.attrs.keys().chain(b.attrs.keys()).collect::<std::collections::BTreeSet<_>>() {
        if a.attrs.get(name) != b.attrs.get(name) {
            parts.push(format!("attribute {}", name.escape_ascii()));
        }
    }
    if a.omap != b.omap || a.omap_header != b.omap_header {
        parts.push(format!("omap ({} and {} entries)", a.omap.len(), b.omap.len()));
    }
    parts.join(", ")
}
