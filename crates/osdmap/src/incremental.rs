//! The difference from one epoch's map to the next.

use crate::{OsdMap, OsdMapFlags, OsdState, OsdXInfo, PgPool, TempSet, WEIGHT_IN};
use bytes::Bytes;
use crush::CrushMap;
use std::collections::{BTreeMap, BTreeSet};
use types::{Epoch, Fsid, OsdId, PgId, PoolId, Utime};
use wire::basic::IntervalSet;
use wire::codec::features;
use wire::{EntityAddr, EntityAddrVec, Release};

/// Two sites and a tiebreaker, as far as the map records it. Nothing acts on it yet.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct StretchMode {
    pub enabled: bool,
    pub bucket_count: u32,
    pub degraded: u32,
    pub recovering: u32,
    pub bucket: i32,
}

/// The changes from one epoch to the next. Fields left at their defaults change nothing.
///
/// [`OsdMap::apply`] gives the order in which changes take effect. `Default` is not useful by itself: start from
/// [`Incremental::after`].
#[derive(Clone, PartialEq, Debug)]
pub struct Incremental {
    pub fsid: Fsid,
    /// The epoch of the map that results.
    pub epoch: Epoch,
    pub modified: Utime,
    pub new_pool_max: Option<i64>,
    pub new_flags: Option<OsdMapFlags>,
    /// A whole encoded map that replaces everything; empty for none.
    pub full_map: Bytes,
    /// An encoded CRUSH map; empty for none.
    pub crush: Bytes,
    pub new_max_osd: Option<i32>,
    pub new_pools: BTreeMap<PoolId, PgPool>,
    pub new_pool_names: BTreeMap<PoolId, String>,
    pub old_pools: BTreeSet<PoolId>,
    /// OSDs that come up, with their addresses; they must be in the two heartbeat maps, too.
    pub new_up_client: BTreeMap<OsdId, EntityAddrVec>,
    /// State bits that flip; none given means [`OsdState::UP`].
    pub new_state: BTreeMap<OsdId, OsdState>,
    pub new_weight: BTreeMap<OsdId, u32>,
    /// Acting sets to stand in; an empty list removes the entry.
    pub new_pg_temp: BTreeMap<PgId, TempSet>,
    /// Primaries to stand in; `None` removes the entry.
    pub new_primary_temp: BTreeMap<PgId, Option<OsdId>>,
    pub new_primary_affinity: BTreeMap<OsdId, u32>,
    pub new_erasure_code_profiles: BTreeMap<String, BTreeMap<String, String>>,
    pub old_erasure_code_profiles: Vec<String>,
    pub new_pg_upmap: BTreeMap<PgId, Vec<OsdId>>,
    pub old_pg_upmap: BTreeSet<PgId>,
    pub new_pg_upmap_items: BTreeMap<PgId, Vec<(OsdId, OsdId)>>,
    pub old_pg_upmap_items: BTreeSet<PgId>,
    pub new_pg_upmap_primary: BTreeMap<PgId, OsdId>,
    pub old_pg_upmap_primary: BTreeSet<PgId>,
    pub new_removed_snaps: BTreeMap<PoolId, IntervalSet>,
    /// Purged snapshots; each must be in the map's queue.
    pub new_purged_snaps: BTreeMap<PoolId, IntervalSet>,
    /// Stamp of the last change of OSDs that are up. Zero leaves it as it is, as it does `new_last_in_change`.
    pub new_last_up_change: Utime,
    pub new_last_in_change: Utime,
    pub new_hb_back_up: BTreeMap<OsdId, EntityAddrVec>,
    pub new_hb_front_up: BTreeMap<OsdId, EntityAddrVec>,
    pub new_up_cluster: BTreeMap<OsdId, EntityAddrVec>,
    pub new_up_thru: BTreeMap<OsdId, Epoch>,
    pub new_last_clean_interval: BTreeMap<OsdId, (Epoch, Epoch)>,
    pub new_lost: BTreeMap<OsdId, Epoch>,
    pub new_blocklist: BTreeMap<EntityAddr, Utime>,
    pub old_blocklist: Vec<EntityAddr>,
    pub new_range_blocklist: BTreeMap<EntityAddr, Utime>,
    pub old_range_blocklist: Vec<EntityAddr>,
    pub cluster_snapshot: String,
    pub new_uuid: BTreeMap<OsdId, Fsid>,
    pub new_xinfo: BTreeMap<OsdId, OsdXInfo>,
    /// Feature bits with which maps of this epoch are encoded; checksums refer to that encoding.
    pub encode_features: u64,
    pub new_nearfull_ratio: Option<f32>,
    pub new_full_ratio: Option<f32>,
    pub new_backfillfull_ratio: Option<f32>,
    pub new_require_min_compat_client: Option<Release>,
    pub new_require_osd_release: Option<Release>,
    /// Flags by CRUSH item. No flags remove the entry, as they do in `new_device_class_flags`.
    pub new_crush_node_flags: BTreeMap<i32, OsdState>,
    pub new_device_class_flags: BTreeMap<i32, OsdState>,
    pub new_stretch_mode: Option<StretchMode>,
    pub new_allow_crimson: Option<bool>,
    /// Checksum of the resulting full map in its canonical encoding; 0 if its writer did not know it.
    pub full_crc: u32,
}

impl Incremental {
    /// Makes an increment that follows `map` and changes nothing but the epoch and the stamp.
    pub fn after(map: &OsdMap, modified: Utime) -> Incremental {
        Incremental::new(map.fsid, map.epoch.next(), modified)
    }

    pub fn new(fsid: Fsid, epoch: Epoch, modified: Utime) -> Incremental {
        Incremental {
            fsid,
            epoch,
            modified,
            new_pool_max: None,
            new_flags: None,
            full_map: Bytes::new(),
            crush: Bytes::new(),
            new_max_osd: None,
            new_pools: BTreeMap::new(),
            new_pool_names: BTreeMap::new(),
            old_pools: BTreeSet::new(),
            new_up_client: BTreeMap::new(),
            new_state: BTreeMap::new(),
            new_weight: BTreeMap::new(),
            new_pg_temp: BTreeMap::new(),
            new_primary_temp: BTreeMap::new(),
            new_primary_affinity: BTreeMap::new(),
            new_erasure_code_profiles: BTreeMap::new(),
            old_erasure_code_profiles: Vec::new(),
            new_pg_upmap: BTreeMap::new(),
            old_pg_upmap: BTreeSet::new(),
            new_pg_upmap_items: BTreeMap::new(),
            old_pg_upmap_items: BTreeSet::new(),
            new_pg_upmap_primary: BTreeMap::new(),
            old_pg_upmap_primary: BTreeSet::new(),
            new_removed_snaps: BTreeMap::new(),
            new_purged_snaps: BTreeMap::new(),
            new_last_up_change: Utime::ZERO,
            new_last_in_change: Utime::ZERO,
            new_hb_back_up: BTreeMap::new(),
            new_hb_front_up: BTreeMap::new(),
            new_up_cluster: BTreeMap::new(),
            new_up_thru: BTreeMap::new(),
            new_last_clean_interval: BTreeMap::new(),
            new_lost: BTreeMap::new(),
            new_blocklist: BTreeMap::new(),
            old_blocklist: Vec::new(),
            new_range_blocklist: BTreeMap::new(),
            old_range_blocklist: Vec::new(),
            cluster_snapshot: String::new(),
            new_uuid: BTreeMap::new(),
            new_xinfo: BTreeMap::new(),
            encode_features: features::OSDMAP_SIGNIFICANT,
            new_nearfull_ratio: None,
            new_full_ratio: None,
            new_backfillfull_ratio: None,
            new_require_min_compat_client: None,
            new_require_osd_release: None,
            new_crush_node_flags: BTreeMap::new(),
            new_device_class_flags: BTreeMap::new(),
            new_stretch_mode: None,
            new_allow_crimson: None,
            full_crc: 0,
        }
    }

    /// Returns true if nothing but epoch and stamp changes.
    pub fn is_empty(&self) -> bool {
        *self
            == Incremental {
                encode_features: self.encode_features,
                full_crc: self.full_crc,
                ..Incremental::new(self.fsid, self.epoch, self.modified)
            }
    }

    /// Makes a new OSD number: it exists, is down, out and new.
    pub fn create_osd(&mut self, map: &OsdMap, osd: OsdId, uuid: Fsid) {
        if osd.0 >= self.new_max_osd.unwrap_or(map.max_osd()) {
            self.new_max_osd = Some(osd.0 + 1);
        }
        self.new_state.insert(osd, OsdState::EXISTS | OsdState::NEW);
        self.new_uuid.insert(osd, uuid);
        self.new_weight.insert(osd, 0);
    }

    /// Marks an OSD up at its addresses. Heartbeats go to `hb_back` and `hb_front`.
    pub fn mark_up(
        &mut self,
        osd: OsdId,
        client: EntityAddrVec,
        cluster: EntityAddrVec,
        hb_back: EntityAddrVec,
        hb_front: EntityAddrVec,
    ) {
        self.new_up_client.insert(osd, client);
        self.new_up_cluster.insert(osd, cluster);
        self.new_hb_back_up.insert(osd, hb_back);
        self.new_hb_front_up.insert(osd, hb_front);
        self.new_last_up_change = self.modified;
    }

    /// Marks an OSD that is up down.
    pub fn mark_down(&mut self, osd: OsdId) {
        self.flip_state(osd, OsdState::UP);
        self.new_last_up_change = self.modified;
    }

    pub fn mark_out(&mut self, osd: OsdId) {
        self.new_weight.insert(osd, 0);
        self.new_last_in_change = self.modified;
    }

    pub fn mark_in(&mut self, osd: OsdId) {
        self.new_weight.insert(osd, WEIGHT_IN);
        self.new_last_in_change = self.modified;
    }

    /// Flips state bits, in addition to those already flipped here.
    pub fn flip_state(&mut self, osd: OsdId, bits: OsdState) {
        let state = self.new_state.entry(osd).or_default();
        *state = *state ^ bits;
    }

    /// Replaces the CRUSH map.
    pub fn set_crush(&mut self, crush: &CrushMap) {
        use wire::Encode;
        let target = wire::Target { features: self.encode_features, ..wire::Target::PACIFIC };
        self.crush = crush.to_vec(target).into();
    }
}
