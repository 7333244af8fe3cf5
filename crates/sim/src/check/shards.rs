//! All shards of a placement group belong together: they have the same objects, and the parities are those of the data.

use super::Violation;
use super::converged::{clones_are_known, known_digests, removed_snapshots_are_gone};
use super::stores::what_groups_hold;
use crate::cluster::Cluster;
use crate::stored::StoredObject;
use pg::object_info::{OBJECT_INFO_ATTR, ObjectInfo};
use reactor::sim::Crash;
use std::collections::BTreeMap;
use types::crc32c::checksum;
use types::{ObjectId, PgId, SnapId};
use wire::Decode;

/// Ends every OSD of a cluster, checks their stores, and compares their content. The pool has `pg_num` groups of `k`
/// data and `m` parity shards. Returns the number of objects and bytes of each group. `is_gone`: tells whether nothing
/// of an object may be kept for a snapshot.
pub fn all_shards_agree(
    cluster: &mut Cluster,
    pg_num: u32,
    (k, m): (u8, u8),
    is_gone: &dyn Fn(&ObjectId, SnapId) -> bool,
    crash: Crash,
) -> Result<BTreeMap<PgId, (u64, u64)>, Violation> {
    let held = what_groups_hold(cluster, pg_num, crash, |stored, pg, shard| {
        let group = pg.of_shard(shard as u8);
        let (from, until) = osdmap::pg_range(group, pg_num);
        let objects = stored.objects(&from, &until)?;
        // All updates are final by now, so nothing is kept to undo one.
        let kept_back = PgId { pool: group.pool.kept_back(), seed: pg.seed };
        let (from, until) = osdmap::pg_range(kept_back, pg_num);
        if let Some(object) = stored.objects(&from, &until)?.keys().next() {
            return Err(format!("{object} is still kept back"));
        }
        let named = objects.into_iter().map(|(object, stored)| (ObjectId { pool: pg.pool, ..object }, stored));
        Ok(named.collect::<BTreeMap<ObjectId, StoredObject>>())
    })?;
    let by_shard = held.into_iter().map(|(pg, members)| {
        let shards = members.into_iter().map(|(_, shard, objects)| (shard as u8, objects));
        (pg, shards.collect::<BTreeMap<u8, _>>())
    });
    let groups: BTreeMap<PgId, _> = by_shard.collect();
    let words = [format!("k={k}"), format!("m={m}"), "plugin=isa".to_owned()];
    let profile = ec::Profile::from_words(words.iter().map(String::as_str)).expect("as the pool was made");
    let code = profile.code();
    groups.iter().try_for_each(|(pg, shards)| {
        if shards.len() != usize::from(k + m) {
            return Err(Violation(format!("pg {pg} has shards {:?} only", shards.keys())));
        }
        shards_agree(*pg, &code, shards)?;
        // All shards of an object have the same attributes, so one shard tells for all.
        clones_are_known(*pg, &shards[&0])?;
        removed_snapshots_are_gone(*pg, &shards[&0], is_gone)
    })?;
    groups.iter().map(|(pg, shards)| Ok((*pg, (shards[&0].len() as u64, bytes(*pg, &shards[&0])?)))).collect()
}

/// Bytes of objects as clients see them. Bytes that clones have for themselves count with the present state.
fn bytes(pg: PgId, shard: &BTreeMap<ObjectId, StoredObject>) -> Result<u64, Violation> {
    let size = |(object, stored): (&ObjectId, &StoredObject)| {
        let info = stored.attrs.get(OBJECT_INFO_ATTR).and_then(|bytes| ObjectInfo::from_slice(bytes).ok());
        let size = info.and_then(|info| Some((info.size_bytes?, info.snap_set.clone_bytes())));
        let (own, of_clones) =
            size.ok_or_else(|| Violation(format!("pg {pg}: {object}: its size is not on shard 0")))?;
        Ok(if object.is_clone() { 0 } else { own + of_clones })
    };
    shard.iter().map(size).sum()
}

fn shards_agree(
    pg: PgId,
    code: &ec::Code,
    shards: &BTreeMap<u8, BTreeMap<ObjectId, StoredObject>>,
) -> Result<(), Violation> {
    let wrong = |object: &ObjectId, what: String| Err(Violation(format!("pg {pg}: {object}: {what}")));
    let first = &shards[&0];
    for (shard, objects) in shards {
        if let Some(object) = objects.keys().find(|object| !first.contains_key(object)) {
            return wrong(object, format!("is on shard {shard} and not on shard 0"));
        }
        for (object, reference) in first {
            let Some(stored) = objects.get(object) else { return wrong(object, format!("is not on shard {shard}")) };
            if stored.attrs != reference.attrs || stored.omap != reference.omap {
                return wrong(object, format!("has other attributes on shard {shard} than on shard 0"));
            }
            if stored.bytes.len() != reference.bytes.len() {
                let lengths = (reference.bytes.len(), stored.bytes.len());
                return wrong(object, format!("has {} bytes on shard 0 and {} on shard {shard}", lengths.0, lengths.1));
            }
            let known = known_digests(stored).and_then(|known| known.shards.get(usize::from(*shard)).copied());
            let is = checksum(&stored.bytes);
            if let Some(known) = known.filter(|known| *known != is) {
                let what = format!("the digest of shard {shard} is {is:#x}, and is told as {known:#x}");
                return wrong(object, what);
            }
        }
    }
    for (object, reference) in first {
        let of = |shard: usize| &shards[&(shard as u8)][object].bytes;
        let data: Vec<&[u8]> = (0..code.k()).map(|shard| &of(shard)[..]).collect();
        let mut parity = vec![vec![0; reference.bytes.len()]; code.m()];
        let mut targets: Vec<&mut [u8]> = parity.iter_mut().map(|bytes| &mut bytes[..]).collect();
        code.encode(&data, &mut targets).expect("all are equally long");
        for (index, expected) in parity.iter().enumerate() {
            let found = of(code.k() + index);
            if let Some(at) = (0..expected.len()).find(|&at| expected[at] != found[at]) {
                return wrong(
                    object,
                    format!("parity {index} is not that of the data, from byte {at} of the shard on"),
                );
            }
        }
    }
    Ok(())
}
