//! Statistics of a store's content and its layout on the device.

use crate::check::label_json;
use crate::{Device, OfflineError, OfflineStore, Progress};
use pg::PgTable;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use store::{FreeSpace, LogState, SpaceUsage, StoreLabel};
use types::{EVersion, ObjectId, PgId, PoolId};

/// Sums over the objects of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PoolStats {
    pub objects: u64,
    /// Sum of the objects' sizes, in bytes.
    pub bytes: u64,
    pub omap_keys: u64,
    pub omap_bytes: u64,
}

/// One placement group's table in short.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgStatsReport {
    pub pg: PgId,
    /// `Err`: the reason why the table cannot be read.
    pub table: Result<PgSummary, String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PgSummary {
    pub last_update: EVersion,
    pub log_entries: u64,
    pub missing: u64,
    pub complete: bool,
    pub objects: i64,
    pub bytes: i64,
}

/// All facts about a store except its content.
#[derive(Clone, PartialEq, Debug)]
pub struct StoreStats {
    pub label: StoreLabel,
    pub usage: SpaceUsage,
    pub log: LogState,
    pub pools: BTreeMap<PoolId, PoolStats>,
    pub groups: Vec<PgStatsReport>,
    pub free_space: FreeSpace,
    /// Number of objects whose bytes are in their records, and the number of those bytes.
    pub inline_objects: u64,
    pub inline_bytes: u64,
    /// Number of objects that have blocks; number of pieces in which these lie on the device; the most pieces of one
    /// object.
    pub objects_with_data: u64,
    pub extents: u64,
    pub extents_of_one_max: u64,
    /// Bytes of blocks summed over objects: a shared block counts for each.
    pub referenced_bytes: u64,
}

impl StoreStats {
    pub fn json(&self) -> Value {
        let usage = &self.usage;
        let pools = self.pools.iter().map(|(pool, stats)| {
            json!({
                "pool": pool.0, "objects": stats.objects, "bytes": stats.bytes,
                "omap_keys": stats.omap_keys, "omap_bytes": stats.omap_bytes,
            })
        });
        let groups = self.groups.iter().map(|group| match &group.table {
            Ok(table) => json!({
                "pg": group.pg.to_string(), "last_update": table.last_update.to_string(),
                "log_entries": table.log_entries, "missing": table.missing, "complete": table.complete,
                "objects": table.objects, "bytes": table.bytes,
            }),
            Err(error) => json!({"pg": group.pg.to_string(), "error": error}),
        });
        let runs = self
            .free_space
            .runs
            .iter()
            .map(|runs| json!({"min_bytes": runs.min_bytes, "runs": runs.runs, "bytes": runs.bytes}));
        json!({
            "store": label_json(&self.label),
            "space": {
                "total_bytes": usage.total_bytes, "free_bytes": usage.free_bytes, "data_bytes": usage.data_bytes,
                "metadata_bytes": usage.metadata_bytes, "stored_bytes": usage.stored_bytes,
                "omap_bytes": usage.omap_bytes, "objects": usage.objects,
                "metadata_device": usage.metadata_device.map(|own| {
                    json!({"total_bytes": own.total_bytes, "free_bytes": own.free_bytes})
                }),
                "inline_objects": self.inline_objects, "inline_bytes": self.inline_bytes,
            },
            "log": {
                "bytes": self.log.log_bytes, "replay_bytes": self.log.replay_bytes,
                "replay_records": self.log.replay_records, "next_lsn": self.log.next_lsn,
            },
            "checkpoint": {"number": self.log.checkpoint, "bytes": self.log.checkpoint_bytes},
            "fragmentation": {
                "objects_with_data": self.objects_with_data, "extents": self.extents,
                "extents_of_one_max": self.extents_of_one_max, "referenced_bytes": self.referenced_bytes,
            },
            "free_runs": runs.collect::<Vec<_>>(), "largest_free_run_bytes": self.free_space.longest_run_bytes,
            "free_whole_units": {"unit_bytes": self.free_space.unit_bytes, "bytes": self.free_space.whole_units_bytes},
            "pools": pools.collect::<Vec<_>>(), "pgs": groups.collect::<Vec<_>>(),
        })
    }
}

/// Counts everything without reading data. `progress` is in objects.
pub fn stats<D: Device>(store: &mut OfflineStore<D>, progress: Progress<'_>) -> Result<StoreStats, OfflineError> {
    let usage = store.store().usage();
    let mut stats = StoreStats {
        label: store.label(),
        usage,
        log: store.store().log_state(),
        pools: BTreeMap::new(),
        groups: Vec::new(),
        free_space: store.store().free_space(),
        inline_objects: 0,
        inline_bytes: 0,
        objects_with_data: 0,
        extents: 0,
        extents_of_one_max: 0,
        referenced_bytes: 0,
    };
    let mut seen = 0;
    store.for_each_object(&ObjectId::min(), &ObjectId::max(), |store, object| {
        seen += 1;
        progress(seen, Some(usage.objects));
        count_object(store, &object, &mut stats)
    })?;
    for pg in store.store().pgs() {
        let entries = store.pg_table(pg)?;
        let summary = |table: PgTable| PgSummary {
            last_update: table.info.last_update,
            log_entries: table.log.len() as u64,
            missing: table.missing.len() as u64,
            complete: table.info.complete,
            objects: table.info.stats.objects,
            bytes: table.info.stats.bytes,
        };
        let table = PgTable::decode(entries).map(summary).map_err(|error| error.to_string());
        stats.groups.push(PgStatsReport { pg, table });
    }
    Ok(stats)
}

fn count_object<D: Device>(
    store: &mut OfflineStore<D>,
    object: &ObjectId,
    stats: &mut StoreStats,
) -> Result<(), OfflineError> {
    let Some(stat) = store.ready(|store| store.stat(object))? else { return Ok(()) };
    let extents = store.ready(|store| store.placement(object, 0, u64::MAX))?;
    let count = extents.len() as u64;
    stats.objects_with_data += u64::from(count > 0);
    if count == 0 && stat.size_bytes > 0 {
        // These bytes are allocated without a place on the device.
        let inline = store.ready(|store| store.extents(object, 0, u64::MAX))?;
        stats.inline_objects += u64::from(!inline.is_empty());
        stats.inline_bytes += inline.iter().map(|(_, len)| len).sum::<u64>();
    }
    stats.extents += count;
    stats.extents_of_one_max = stats.extents_of_one_max.max(count);
    stats.referenced_bytes += extents.iter().map(|extent| extent.len).sum::<u64>();
    let pool = stats.pools.entry(object.pool).or_default();
    pool.objects += 1;
    pool.bytes += stat.size_bytes;
    if stat.has_omap {
        store.for_each_omap_page(object, |page| {
            pool.omap_keys += page.len() as u64;
            pool.omap_bytes += page.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum::<u64>();
            Ok(())
        })?;
    }
    Ok(())
}
