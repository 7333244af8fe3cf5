//! All members of a placement group hold the same objects, byte for byte.

use super::Violation;
use super::stores::{Held, what_groups_hold};
use crate::cluster::Cluster;
use crate::stored::StoredObject;
use pg::digests::{Digests, OmapDigest};
use pg::object_info::{OBJECT_INFO_ATTR, ObjectInfo};
use reactor::sim::Crash;
use std::collections::{BTreeMap, BTreeSet};
use types::crc32c::checksum;
use types::{ObjectId, OsdId, PgId, SnapId};
use wire::Decode;

/// Ends every OSD of a cluster, checks their stores, and compares their content. Returns the number of objects and
/// bytes of each group. `pg_num`: number of groups in the pool. `is_gone`: tells whether nothing of an object may be
/// kept for a snapshot.
pub fn all_replicas_are_identical(
    cluster: &mut Cluster,
    pg_num: u32,
    is_gone: &dyn Fn(&ObjectId, SnapId) -> bool,
    crash: Crash,
) -> Result<BTreeMap<PgId, (u64, u64)>, Violation> {
    let held = what_groups_hold(cluster, pg_num, crash, |stored, pg, _| {
        let (from, until) = osdmap::pg_range(pg, pg_num);
        stored.objects(&from, &until)
    })?;
    let members = |held: Held<_>| held.into_iter().map(|(osd, _, objects)| (osd, objects)).collect::<Vec<_>>();
    let groups: BTreeMap<PgId, _> = held.into_iter().map(|(pg, held)| (pg, members(held))).collect();
    groups.iter().try_for_each(|(pg, members)| replicas_are_identical(*pg, members))?;
    for (pg, members) in &groups {
        members.iter().try_for_each(|(_, objects)| removed_snapshots_are_gone(*pg, objects, is_gone))?;
    }
    let amount = |objects: &BTreeMap<ObjectId, StoredObject>| {
        (objects.len() as u64, objects.iter().map(|(id, object)| counted_bytes(id, object)).sum())
    };
    Ok(groups.iter().filter_map(|(pg, members)| Some((*pg, amount(&members.first()?.1)))).collect())
}

/// Bytes of an object as its group counts them. The record of the present state tells the bytes that clones have for
/// themselves, and these count with the present state.
fn counted_bytes(id: &ObjectId, object: &StoredObject) -> u64 {
    if id.is_clone() {
        return 0;
    }
    let info =
        object.attrs.get(OBJECT_INFO_ATTR).and_then(|info| ObjectInfo::from_slice(info).ok()).unwrap_or_default();
    object.bytes.len() as u64 + info.snap_set.clone_bytes()
}

/// Checks that every clone that an object knows is there, and no other.
pub(super) fn clones_are_known(pg: PgId, objects: &BTreeMap<ObjectId, StoredObject>) -> Result<(), Violation> {
    let mut known = BTreeSet::new();
    for (id, object) in objects.iter().filter(|(id, _)| !id.is_clone()) {
        let info = object.attrs.get(OBJECT_INFO_ATTR).and_then(|info| ObjectInfo::from_slice(info).ok());
        let info = info.ok_or_else(|| Violation(format!("pg {pg}: {id} has no object information")))?;
        known.extend(info.snap_set.clones.iter().map(|clone| ObjectId { snap: clone.id, ..id.clone() }));
    }
    let there: BTreeSet<ObjectId> = objects.keys().filter(|id| id.is_clone()).cloned().collect();
    match there.symmetric_difference(&known).next() {
        None => Ok(()),
        Some(id) if known.contains(id) => Err(Violation(format!("pg {pg}: clone {id} is known and not there"))),
        Some(id) => Err(Violation(format!("pg {pg}: clone {id} is there and not known"))),
    }
}

/// Checks that every clone is there for a snapshot, and for none that was removed.
pub(super) fn removed_snapshots_are_gone(
    pg: PgId,
    objects: &BTreeMap<ObjectId, StoredObject>,
    is_gone: &dyn Fn(&ObjectId, SnapId) -> bool,
) -> Result<(), Violation> {
    for (id, object) in objects.iter().filter(|(id, _)| !id.is_clone()) {
        let info = object.attrs.get(OBJECT_INFO_ATTR).and_then(|info| ObjectInfo::from_slice(info).ok());
        let info = info.unwrap_or_default();
        for clone in &info.snap_set.clones {
            if clone.snaps.is_empty() || clone.snaps.iter().any(|snap| is_gone(id, *snap)) {
                return Err(Violation(format!("pg {pg}: {id} is kept for removed snapshots: {clone:?}")));
            }
        }
        if info.snap_set.is_whiteout && info.snap_set.clones.is_empty() {
            return Err(Violation(format!("pg {pg}: {id} is kept for no snapshot")));
        }
    }
    Ok(())
}

/// Compares the content of all members of `pg`.
pub fn replicas_are_identical(
    pg: PgId,
    members: &[(OsdId, BTreeMap<ObjectId, StoredObject>)],
) -> Result<(), Violation> {
    let Some(((first, reference), others)) = members.split_first() else {
        return Err(Violation(format!("pg {pg} has no members")));
    };
    clones_are_known(pg, reference)?;
    reference.iter().try_for_each(|(id, object)| digests_are_right(pg, id, object))?;
    for (osd, objects) in others {
        if objects == reference {
            continue;
        }
        let names: BTreeSet<_> = reference.keys().chain(objects.keys()).collect();
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

/// Checks that the digests in an object's information are those of its content.
fn digests_are_right(pg: PgId, id: &ObjectId, object: &StoredObject) -> Result<(), Violation> {
    let Some(known) = known_digests(object) else { return Ok(()) };
    let mut omap = OmapDigest::of_header(&object.omap_header);
    object.omap.iter().for_each(|(key, value)| omap.add(key, value));
    for (what, known, is) in [("data", known.data, checksum(&object.bytes)), ("omap", known.omap, omap.get())] {
        if let Some(known) = known.filter(|known| *known != is) {
            return Err(Violation(format!(
                "pg {pg}: {id}: the digest of its {what} is {is:#x}, and is told as {known:#x}"
            )));
        }
    }
    Ok(())
}

/// The digests in an object's information.
pub(super) fn known_digests(object: &StoredObject) -> Option<Digests> {
    let info = object.attrs.get(OBJECT_INFO_ATTR).and_then(|info| ObjectInfo::from_slice(info).ok());
    info.map(|info| info.digests)
}

fn differences(a: &StoredObject, b: &StoredObject) -> String {
    let mut parts = Vec::new();
    if a.bytes != b.bytes {
        let at = a.bytes.iter().zip(&b.bytes).position(|(a, b)| a != b);
        let at = at.unwrap_or(a.bytes.len().min(b.bytes.len()));
        parts.push(format!("bytes (lengths {} and {}, from byte {at} on)", a.bytes.len(), b.bytes.len()));
    }
    for name in a.attrs.keys().chain(b.attrs.keys()).collect::<BTreeSet<_>>() {
        if a.attrs.get(name) != b.attrs.get(name) {
            parts.push(format!("attribute {}", name.escape_ascii()));
        }
    }
    if a.omap != b.omap || a.omap_header != b.omap_header {
        parts.push(format!("omap ({} and {} entries)", a.omap.len(), b.omap.len()));
    }
    parts.join(", ")
}
