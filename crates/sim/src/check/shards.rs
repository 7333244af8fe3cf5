//! All shards of a placement group belong together: the same objects, and parities that are those of the data.

use super::Violation;
use crate::cluster::Cluster;
use crate::stored::StoredObject;
use reactor::sim::Crash;
use std::collections::BTreeMap;
use types::{ObjectId, OsdId, PgId};

/// Ends every OSD of a cluster whose pool has so many groups of `k` data and `m` parity shards, checks their stores, and
/// compares what these hold.
pub fn all_shards_agree(cluster: &mut Cluster, pg_num: u32, (k, m): (u8, u8), crash: Crash) -> Result<(), Violation> {
    let pool = cluster.find_pool();
    let map = cluster.monitor().expect("the monitor runs").state().osdmap().clone();
    let osds = cluster.osd_count();
    (0..osds).for_each(|osd| cluster.kill_osd(osd, crash));
    let mut groups: BTreeMap<PgId, BTreeMap<u8, BTreeMap<ObjectId, StoredObject>>> = BTreeMap::new();
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
            if let Some(shard) = placed.acting.iter().position(|other| *other == id) {
                let shard = shard as u8;
                let (from, until) = osdmap::pg_range(pg.of_shard(shard), pg_num);
                let objects = stored.objects(&from, &until).map_err(failed)?;
                // All updates stay by now, so nothing is kept to take any back.
                let kept_back = PgId { pool: pg.of_shard(shard).pool.kept_back(), seed: pg.seed };
                let (from, until) = osdmap::pg_range(kept_back, pg_num);
                if let Some(object) = stored.objects(&from, &until).map_err(failed)?.keys().next() {
                    return Err(failed(format!("{object} is still kept back")));
                }
                let named = objects.into_iter().map(|(object, stored)| (ObjectId { pool, ..object }, stored));
                groups.entry(pg).or_default().insert(shard, named.collect());
            }
        }
    }
    let words = [format!("k={k}"), format!("m={m}"), "plugin=isa".to_owned()];
    let profile = ec::Profile::from_words(words.iter().map(String::as_str)).expect("as the pool was made");
    let code = profile.code();
    groups.iter().try_for_each(|(pg, shards)| {
        if shards.len() != usize::from(k + m) {
            return Err(Violation(format!("pg {pg} has shards {:?} only", shards.keys())));
        }
        shards_agree(*pg, &code, shards)
    })
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
