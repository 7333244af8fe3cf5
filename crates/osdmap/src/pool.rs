//! Pools.

use crate::object_hash::{HASH_LINUX, HASH_RJENKINS, hash_name, hash_name_linux, stable_mask, stable_mod};
use crate::{PoolFlags, PoolOpts};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use types::{EVersion, Epoch, PgId, PoolId, SnapId, Utime};
use wire::basic::IntervalSet;

/// The way a pool protects its objects. The numbers are the protocol's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PoolKind(pub u8);

impl PoolKind {
    pub const REPLICATED: PoolKind = PoolKind(1);
    pub const ERASURE: PoolKind = PoolKind(3);

    pub fn name(self) -> &'static str {
        match self {
            PoolKind::REPLICATED => "replicated",
            PoolKind::ERASURE => "erasure",
            _ => "unknown",
        }
    }
}

/// Handling of a pool's number of placement groups by the autoscaler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AutoscaleMode(pub u8);

impl AutoscaleMode {
    pub const OFF: AutoscaleMode = AutoscaleMode(0);
    pub const WARN: AutoscaleMode = AutoscaleMode(1);
    pub const ON: AutoscaleMode = AutoscaleMode(2);

    const NAMES: [&'static str; 3] = ["off", "warn", "on"];

    pub fn name(self) -> &'static str {
        Self::NAMES.get(usize::from(self.0)).copied().unwrap_or("???")
    }

    pub fn from_name(name: &str) -> Option<AutoscaleMode> {
        Self::NAMES.iter().position(|n| *n == name).map(|mode| AutoscaleMode(mode as u8))
    }
}

/// A snapshot of a whole pool. Ceph's `pool_snap_info_t`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolSnap {
    pub id: SnapId,
    pub stamp: Utime,
    pub name: String,
}

/// The last merge of two placement groups of a pool. Ceph's `pg_merge_meta_t`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct PgMergeMeta {
    pub source: PgId,
    pub ready_epoch: Epoch,
    pub last_epoch_started: Epoch,
    pub last_epoch_clean: Epoch,
    pub source_version: EVersion,
    pub target_version: EVersion,
}

/// Stretch pools: number and type of the buckets that a placement group must span to become active.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeeringCrush {
    pub bucket_count: u32,
    pub bucket_target: u32,
    pub bucket_barrier: u32,
    pub mandatory_member: i32,
}

/// One pool. Ceph's `pg_pool_t`.
///
/// Fields of cache tiering are carried but nothing acts on them.
#[derive(Clone, PartialEq, Debug)]
pub struct PgPool {
    pub kind: PoolKind,
    /// Replicas, or data and parity shards together.
    pub size: u8,
    /// Fewest of the `size` members that must be there to serve.
    pub min_size: u8,
    pub crush_rule: u8,
    /// Method that hashes names; 2 on every pool.
    pub object_hash: u8,
    pub pg_num: u32,
    /// Count of placement groups for placement; less than `pg_num` while groups that were split still stay together.
    pub pgp_num: u32,
    /// Targets of the counts, and the count while a merge is prepared (else `pg_num`).
    pub pg_num_target: u32,
    pub pgp_num_target: u32,
    pub pg_num_pending: u32,
    pub last_change: Epoch,
    pub snap_seq: SnapId,
    pub snap_epoch: Epoch,
    pub snaps: BTreeMap<SnapId, PoolSnap>,
    /// Empty since Octopus; see the map's queue.
    pub removed_snaps: IntervalSet,
    pub auid: u64,
    pub flags: PoolFlags,
    pub quota_max_bytes: u64,
    pub quota_max_objects: u64,
    pub tiers: BTreeSet<PoolId>,
    /// Base pool of a tier; -1 for none, as in `read_tier` and `write_tier`.
    pub tier_of: PoolId,
    pub cache_mode: u8,
    pub read_tier: PoolId,
    pub write_tier: PoolId,
    pub properties: BTreeMap<String, String>,
    /// Encoded parameters of hit sets; one zero byte for none.
    pub hit_set_params: Bytes,
    pub hit_set_period: u32,
    pub hit_set_count: u32,
    /// Bytes of data in one stripe of an erasure-coded pool; 0 for replicated ones.
    pub stripe_width: u32,
    pub target_max_bytes: u64,
    pub target_max_objects: u64,
    pub cache_target_dirty_ratio_micro: u32,
    pub cache_target_full_ratio_micro: u32,
    pub cache_target_dirty_high_ratio_micro: u32,
    pub cache_min_flush_age: u32,
    pub cache_min_evict_age: u32,
    pub erasure_code_profile: String,
    /// Epochs of maps at which clients resend everything.
    pub last_force_op_resend: Epoch,
    pub last_force_op_resend_prenautilus: Epoch,
    pub last_force_op_resend_preluminous: Epoch,
    pub min_read_recency_for_promote: u32,
    pub min_write_recency_for_promote: u32,
    pub expected_num_objects: u64,
    pub use_gmt_hitset: bool,
    pub fast_read: bool,
    pub hit_set_grade_decay_rate: u32,
    pub hit_set_search_last_n: u32,
    pub opts: PoolOpts,
    /// Purposes of the pool: application -> key -> value.
    pub application_metadata: BTreeMap<String, BTreeMap<String, String>>,
    pub create_time: Utime,
    pub autoscale_mode: AutoscaleMode,
    pub last_pg_merge_meta: PgMergeMeta,
    pub peering_crush: Option<PeeringCrush>,
    /// Shards that may not be primary, one bit each; only Tentacle and later carry it.
    pub nonprimary_shards: u128,
}

impl PgPool {
    /// Returns a replicated pool with `pg_num` placement groups, as the monitor makes it.
    pub fn replicated(size: u8, pg_num: u32, crush_rule: u8) -> PgPool {
        PgPool {
            kind: PoolKind::REPLICATED,
            size,
            min_size: size - size / 2,
            crush_rule,
            object_hash: HASH_RJENKINS,
            pg_num,
            pgp_num: pg_num,
            pg_num_target: pg_num,
            pgp_num_target: pg_num,
            pg_num_pending: pg_num,
            last_change: Epoch(0),
            snap_seq: SnapId(0),
            snap_epoch: Epoch(0),
            snaps: BTreeMap::new(),
            removed_snaps: IntervalSet::new(),
            auid: 0,
            flags: PoolFlags::HASHPSPOOL,
            quota_max_bytes: 0,
            quota_max_objects: 0,
            tiers: BTreeSet::new(),
            tier_of: PoolId(-1),
            cache_mode: 0,
            read_tier: PoolId(-1),
            write_tier: PoolId(-1),
            properties: BTreeMap::new(),
            hit_set_params: Bytes::from_static(&[0]),
            hit_set_period: 0,
            hit_set_count: 0,
            stripe_width: 0,
            target_max_bytes: 0,
            target_max_objects: 0,
            cache_target_dirty_ratio_micro: 400_000,
            cache_target_full_ratio_micro: 800_000,
            cache_target_dirty_high_ratio_micro: 600_000,
            cache_min_flush_age: 0,
            cache_min_evict_age: 0,
            erasure_code_profile: String::new(),
            last_force_op_resend: Epoch(0),
            last_force_op_resend_prenautilus: Epoch(0),
            last_force_op_resend_preluminous: Epoch(0),
            min_read_recency_for_promote: 0,
            min_write_recency_for_promote: 0,
            expected_num_objects: 0,
            use_gmt_hitset: true,
            fast_read: false,
            hit_set_grade_decay_rate: 0,
            hit_set_search_last_n: 0,
            opts: PoolOpts::default(),
            application_metadata: BTreeMap::new(),
            create_time: Utime::ZERO,
            autoscale_mode: AutoscaleMode::OFF,
            last_pg_merge_meta: PgMergeMeta::default(),
            peering_crush: None,
            nonprimary_shards: 0,
        }
    }

    pub fn is_replicated(&self) -> bool {
        self.kind == PoolKind::REPLICATED
    }

    pub fn is_erasure(&self) -> bool {
        self.kind == PoolKind::ERASURE
    }

    /// Returns true if OSDs move up when one before them is missing. Shards of an erasure code keep their places.
    pub fn can_shift_osds(&self) -> bool {
        !self.is_erasure()
    }

    /// Returns the placement group number of a raw hash.
    pub fn seed_of_hash(&self, hash: u32) -> u32 {
        stable_mod(hash, self.pg_num, stable_mask(self.pg_num))
    }

    /// Returns CRUSH's input for a raw hash or placement group number.
    pub fn placement_input(&self, pool: PoolId, hash: u32) -> u32 {
        let seed = stable_mod(hash, self.pgp_num, stable_mask(self.pgp_num));
        if self.flags.contains(PoolFlags::HASHPSPOOL) {
            crush::hash::hash2(seed, pool.0 as u32)
        } else {
            seed.wrapping_add(pool.0 as u32)
        }
    }

    /// Returns the raw placement hash of an object; `None` if the pool's method is unknown.
    pub fn hash_name(&self, nspace: &[u8], name: &[u8], key: &[u8]) -> Option<u32> {
        match self.object_hash {
            HASH_RJENKINS => Some(hash_name(nspace, name, key)),
            HASH_LINUX => Some(hash_name_linux(nspace, name, key)),
            _ => None,
        }
    }

    /// Returns all placement groups of the pool.
    pub fn pgs(&self, pool: PoolId) -> impl Iterator<Item = PgId> + use<> {
        (0..self.pg_num).map(move |seed| PgId { pool, seed })
    }

    /// Takes a snapshot of the whole pool; the pool must not have snapshots made by clients. Returns its id.
    pub fn add_snap(&mut self, name: &str, stamp: Utime) -> SnapId {
        self.flags.insert(PoolFlags::POOL_SNAPS);
        self.snap_seq = SnapId(self.snap_seq.0 + 1);
        self.snaps.insert(self.snap_seq, PoolSnap { id: self.snap_seq, stamp, name: name.to_owned() });
        self.snap_seq
    }

    /// Forgets a snapshot of the whole pool. Returns true if there was one; its objects are trimmed by way of the map's
    /// queue of removed snapshots.
    pub fn remove_snap(&mut self, id: SnapId) -> bool {
        let found = self.snaps.remove(&id).is_some();
        if found {
            self.snap_seq = SnapId(self.snap_seq.0 + 1);
        }
        found
    }

    /// Returns the snapshot of the whole pool that is called `name`.
    pub fn snap_by_name(&self, name: &str) -> Option<&PoolSnap> {
        self.snaps.values().find(|snap| snap.name == name)
    }

    /// Hands out an id for a snapshot that a client manages; the pool must not have snapshots of the whole pool.
    pub fn add_unmanaged_snap(&mut self) -> SnapId {
        self.flags.insert(PoolFlags::SELFMANAGED_SNAPS);
        if self.snap_seq == SnapId(0) {
            self.snap_seq = SnapId(1);
        }
        self.snap_seq = SnapId(self.snap_seq.0 + 1);
        self.snap_seq
    }

    /// Returns true if the applications enabled on the pool include `name`.
    pub fn has_application(&self, name: &str) -> bool {
        self.application_metadata.contains_key(name)
    }
}
