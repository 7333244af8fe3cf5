//! Memory by pools, as Ceph's daemons print it.

use serde_json::{Map, Value, json};

/// Pools of memory that a Ceph tells apart.
const MEMPOOLS: &[&str] = &[
    "bloom_filter",
    "bluestore_alloc",
    "bluestore_cache_data",
    "bluestore_cache_onode",
    "bluestore_cache_meta",
    "bluestore_cache_other",
    "bluestore_Buffer",
    "bluestore_Extent",
    "bluestore_Blob",
    "bluestore_SharedBlob",
    "bluestore_inline_bl",
    "bluestore_fsck",
    "bluestore_txc",
    "bluestore_writing_deferred",
    "bluestore_writing",
    "bluefs",
    "bluefs_file_reader",
    "bluefs_file_writer",
    "buffer_anon",
    "buffer_meta",
    "osd",
    "osd_mapbl",
    "osd_pglog",
    "osdmap",
    "osdmap_mapping",
    "pgmap",
    "mds_co",
    "unittest_1",
    "unittest_2",
];

/// Returns the pools; `bytes` gives what each takes.
pub fn value(bytes: impl Fn(&str) -> u64) -> Value {
    let pool = |name: &&str| ((*name).to_owned(), json!({"items": 0, "bytes": bytes(name)}));
    let by_pool: Map<String, Value> = MEMPOOLS.iter().map(pool).collect();
    let total: u64 = MEMPOOLS.iter().map(|name| bytes(name)).sum();
    json!({"mempool": {"by_pool": by_pool, "total": {"items": 0, "bytes": total}}})
}
