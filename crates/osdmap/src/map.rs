//! The OSD map and its lookups.

use crate::{OsdInfo, OsdMapFlags, OsdState, OsdXInfo, PgPool, StretchMode, TempSet};
use crush::CrushMap;
use std::collections::BTreeMap;
use std::sync::Arc;
use types::{Epoch, Fsid, OsdId, PgId, PoolId, Utime};
use wire::basic::IntervalSet;
use wire::{EntityAddr, EntityAddrVec, Release};

/// Weight (16.16) of an OSD that is fully in; 0 is out.
pub const WEIGHT_IN: u32 = 0x1_0000;
/// Primary affinity (16.16) of an OSD that may always be primary; also the default.
pub const PRIMARY_AFFINITY_MAX: u32 = 0x1_0000;

/// One OSD. Its number is its index in [`OsdMap::osds`].
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Osd {
    pub state: OsdState,
    /// Addresses at which clients reach it.
    pub client_addrs: EntityAddrVec,
    /// Addresses at which other OSDs reach it.
    pub cluster_addrs: EntityAddrVec,
    /// Addresses to which its heartbeats go, on either network.
    pub hb_back_addrs: EntityAddrVec,
    pub hb_front_addrs: EntityAddrVec,
    pub info: OsdInfo,
    pub xinfo: OsdXInfo,
    /// Identity of its store; zero if none has started yet.
    pub uuid: Fsid,
}

impl Osd {
    pub fn exists(&self) -> bool {
        self.state.contains(OsdState::EXISTS)
    }

    pub fn is_up(&self) -> bool {
        self.state.contains(OsdState::EXISTS | OsdState::UP)
    }
}

/// The state of the cluster's OSDs and pools at one epoch.
///
/// Cloning is cheap enough for one clone per epoch; the hierarchy is shared.
#[derive(Clone, PartialEq, Debug)]
pub struct OsdMap {
    pub fsid: Fsid,
    pub epoch: Epoch,
    pub created: Utime,
    pub modified: Utime,
    pub pools: BTreeMap<PoolId, PgPool>,
    pub pool_names: BTreeMap<PoolId, String>,
    /// The highest pool number given out so far; -1 or 0 at first.
    pub pool_max: i32,
    pub flags: OsdMapFlags,
    pub(crate) osds: Vec<Osd>,
    /// Weights beside the OSDs, as CRUSH takes them: 16.16, as many as OSDs.
    pub(crate) weights: Vec<u32>,
    /// Acting sets that differ from the computed placement.
    pub pg_temp: BTreeMap<PgId, TempSet>,
    pub primary_temp: BTreeMap<PgId, OsdId>,
    /// Affinity of each OSD; `None` until one is changed.
    pub(crate) primary_affinity: Option<Vec<u32>>,
    pub crush: Arc<CrushMap>,
    pub erasure_code_profiles: BTreeMap<String, BTreeMap<String, String>>,
    /// Placements set by hand or by a balancer: whole ones, and exchanges of single OSDs (from, to).
    pub pg_upmap: BTreeMap<PgId, Vec<OsdId>>,
    pub pg_upmap_items: BTreeMap<PgId, Vec<(OsdId, OsdId)>>,
    /// Primaries set by hand or by a balancer; known from Reef on.
    pub pg_upmap_primaries: BTreeMap<PgId, OsdId>,
    pub crush_version: u32,
    /// Snapshots removed, and removed for good, in this very epoch.
    pub new_removed_snaps: BTreeMap<PoolId, IntervalSet>,
    pub new_purged_snaps: BTreeMap<PoolId, IntervalSet>,
    pub last_up_change: Utime,
    pub last_in_change: Utime,
    /// Clients that are locked out, with the end of the lock-out.
    pub blocklist: BTreeMap<EntityAddr, Utime>,
    pub range_blocklist: BTreeMap<EntityAddr, Utime>,
    pub cluster_snapshot_epoch: Epoch,
    pub cluster_snapshot: String,
    pub nearfull_ratio: f32,
    pub full_ratio: f32,
    pub backfillfull_ratio: f32,
    pub require_min_compat_client: Release,
    pub require_osd_release: Release,
    /// Snapshots whose objects are still to be trimmed.
    pub removed_snaps_queue: BTreeMap<PoolId, IntervalSet>,
    /// State flags (noup, noin, ...) of all OSDs below a CRUSH item, or of a device class.
    pub crush_node_flags: BTreeMap<i32, OsdState>,
    pub device_class_flags: BTreeMap<i32, OsdState>,
    pub stretch_mode: StretchMode,
    pub allow_crimson: bool,
}

impl OsdMap {
    /// Returns the empty map before the first epoch.
    pub fn new(fsid: Fsid) -> OsdMap {
        OsdMap {
            fsid,
            epoch: Epoch(0),
            created: Utime::ZERO,
            modified: Utime::ZERO,
            pools: BTreeMap::new(),
            pool_names: BTreeMap::new(),
            pool_max: 0,
            flags: OsdMapFlags::NEW_MAP,
            osds: Vec::new(),
            weights: Vec::new(),
            pg_temp: BTreeMap::new(),
            primary_temp: BTreeMap::new(),
            primary_affinity: None,
            crush: Arc::new(CrushMap::new()),
            erasure_code_profiles: BTreeMap::new(),
            pg_upmap: BTreeMap::new(),
            pg_upmap_items: BTreeMap::new(),
            pg_upmap_primaries: BTreeMap::new(),
            crush_version: 1,
            new_removed_snaps: BTreeMap::new(),
            new_purged_snaps: BTreeMap::new(),
            last_up_change: Utime::ZERO,
            last_in_change: Utime::ZERO,
            blocklist: BTreeMap::new(),
            range_blocklist: BTreeMap::new(),
            cluster_snapshot_epoch: Epoch(0),
            cluster_snapshot: String::new(),
            nearfull_ratio: 0.85,
            full_ratio: 0.95,
            backfillfull_ratio: 0.90,
            require_min_compat_client: Release::LUMINOUS,
            require_osd_release: Release::PACIFIC,
            removed_snaps_queue: BTreeMap::new(),
            crush_node_flags: BTreeMap::new(),
            device_class_flags: BTreeMap::new(),
            stretch_mode: StretchMode::default(),
            allow_crimson: false,
        }
    }

    // --- OSDs ---

    /// Returns the number one above the highest OSD number that the map has room for.
    pub fn max_osd(&self) -> i32 {
        self.osds.len() as i32
    }

    /// Returns the OSDs that exist, by number.
    pub fn osds(&self) -> impl Iterator<Item = (OsdId, &Osd)> {
        self.osds.iter().enumerate().filter(|(_, osd)| osd.exists()).map(|(n, osd)| (OsdId(n as i32), osd))
    }

    /// Returns the OSDs that exist and are up.
    pub fn up_osds(&self) -> impl Iterator<Item = (OsdId, &Osd)> {
        self.osds().filter(|(_, osd)| osd.is_up())
    }

    /// Returns the OSD's entry; `None` if it does not exist.
    pub fn osd(&self, id: OsdId) -> Option<&Osd> {
        self.slot(id).filter(|osd| osd.exists())
    }

    pub(crate) fn slot(&self, id: OsdId) -> Option<&Osd> {
        self.osds.get(usize::try_from(id.0).ok()?)
    }

    pub fn exists(&self, id: OsdId) -> bool {
        self.osd(id).is_some()
    }

    pub fn is_up(&self, id: OsdId) -> bool {
        self.slot(id).is_some_and(Osd::is_up)
    }

    pub fn is_down(&self, id: OsdId) -> bool {
        !self.is_up(id)
    }

    /// Returns true if the OSD exists and takes data.
    pub fn is_in(&self, id: OsdId) -> bool {
        self.exists(id) && self.weight(id) > 0
    }

    pub fn is_out(&self, id: OsdId) -> bool {
        !self.is_in(id)
    }

    pub fn is_destroyed(&self, id: OsdId) -> bool {
        self.osd(id).is_some_and(|osd| osd.state.contains(OsdState::DESTROYED))
    }

    /// Returns the weight in 16.16; 0 for OSDs beyond the map.
    pub fn weight(&self, id: OsdId) -> u32 {
        usize::try_from(id.0).ok().and_then(|n| self.weights.get(n)).copied().unwrap_or(0)
    }

    /// Returns all weights, by OSD number, as CRUSH takes them.
    pub fn weights(&self) -> &[u32] {
        &self.weights
    }

    /// Returns the affinity in 16.16, see [`PRIMARY_AFFINITY_MAX`].
    pub fn primary_affinity(&self, id: OsdId) -> u32 {
        let of = |affinities: &Vec<u32>| affinities.get(usize::try_from(id.0).ok()?).copied();
        self.primary_affinity.as_ref().and_then(of).unwrap_or(PRIMARY_AFFINITY_MAX)
    }

    /// Counts the OSDs that exist, that are up, that are in.
    pub fn counts(&self) -> (usize, usize, usize) {
        let up = self.up_osds().count();
        let inside = self.osds().filter(|(id, _)| self.is_in(*id)).count();
        (self.osds().count(), up, inside)
    }

    /// Returns true if all OSDs have these bits ([`OsdXInfo::features`]): those that have ever been up and are not
    /// destroyed, at least one. An OSD that is to be made anew under the number of a destroyed one has no bits at all.
    /// Monitors then refuse an OSD without them, so it stays true in all later maps while there is an OSD.
    pub fn all_osds_have(&self, features: u64) -> bool {
        let is_told = |osd: &&Osd| osd.xinfo.features != 0 && !osd.state.contains(OsdState::DESTROYED);
        let mut told = self.osds().map(|(_, osd)| osd).filter(is_told);
        let has = |osd: &Osd| osd.xinfo.features & features == features;
        told.next().is_some_and(has) && told.all(has)
    }

    /// Returns the OSD whose store has this identity.
    pub fn osd_by_uuid(&self, uuid: &Fsid) -> Option<OsdId> {
        self.osds().find(|(_, osd)| osd.uuid == *uuid).map(|(id, _)| id)
    }

    /// Returns the lowest OSD number that does not exist.
    pub fn free_osd_id(&self) -> OsdId {
        OsdId(self.osds.iter().position(|osd| !osd.exists()).unwrap_or(self.osds.len()) as i32)
    }

    /// Returns true if the OSD, or a CRUSH item above it, or its device class has a flag such as [`OsdState::NOOUT`],
    /// or the whole cluster has it.
    pub fn has_flag(&self, id: OsdId, flag: OsdState) -> bool {
        let cluster = match flag {
            OsdState::NOUP => self.flags.contains(OsdMapFlags::NOUP),
            OsdState::NODOWN => self.flags.contains(OsdMapFlags::NODOWN),
            OsdState::NOIN => self.flags.contains(OsdMapFlags::NOIN),
            OsdState::NOOUT => self.flags.contains(OsdMapFlags::NOOUT),
            _ => false,
        };
        cluster
            || self.osd(id).is_some_and(|osd| osd.state.contains(flag))
            || self.has_node_flag(id, flag)
            || self.has_class_flag(id, flag)
    }

    fn has_node_flag(&self, id: OsdId, flag: OsdState) -> bool {
        if self.crush_node_flags.is_empty() {
            return false;
        }
        let mut at = Some(id.0);
        while let Some(item) = at {
            if self.crush_node_flags.get(&item).is_some_and(|flags| flags.contains(flag)) {
                return true;
            }
            at = self.crush.parent(item);
        }
        false
    }

    fn has_class_flag(&self, id: OsdId, flag: OsdState) -> bool {
        let class = self.crush.class_of(id.0).and_then(|class| self.crush.class_id(class));
        class.and_then(|class| self.device_class_flags.get(&class)).is_some_and(|flags| flags.contains(flag))
    }

    // --- pools ---

    pub fn pool(&self, id: PoolId) -> Option<&PgPool> {
        self.pools.get(&id)
    }

    pub fn pool_by_name(&self, name: &str) -> Option<PoolId> {
        self.pool_names.iter().find(|(_, n)| *n == name).map(|(id, _)| *id)
    }

    pub fn pool_name(&self, id: PoolId) -> Option<&str> {
        self.pool_names.get(&id).map(String::as_str)
    }

    /// Returns true if the placement group exists.
    pub fn has_pg(&self, pg: PgId) -> bool {
        self.pool(pg.pool).is_some_and(|pool| pg.seed < pool.pg_num)
    }

    /// Returns all placement groups of all pools.
    pub fn pgs(&self) -> impl Iterator<Item = PgId> {
        self.pools.iter().flat_map(|(id, pool)| pool.pgs(*id))
    }

    // --- clients ---

    /// Returns true if a client is locked out: by its own address, or by its host's with port and nonce zero.
    pub fn is_blocklisted(&self, addr: &EntityAddr) -> bool {
        // Entries do not tell the protocol versions apart.
        let matches = |entry: &EntityAddr| {
            let same_ip = entry.ip().is_some() && entry.ip() == addr.ip();
            let same_party = entry.port() == addr.port() && entry.nonce == addr.nonce;
            same_ip && (same_party || entry.port() == 0 && entry.nonce == 0)
        };
        self.blocklist.keys().any(matches) || self.range_blocklist.keys().any(|range| in_range(range, addr))
    }

    pub(crate) fn set_max_osd(&mut self, max_osd: usize) {
        self.osds.resize(max_osd, Osd::default());
        self.weights.resize(max_osd, 0);
        if let Some(affinities) = &mut self.primary_affinity {
            affinities.resize(max_osd, PRIMARY_AFFINITY_MAX);
        }
    }

    pub(crate) fn set_primary_affinity(&mut self, id: OsdId, affinity: u32) {
        let count = self.osds.len();
        let affinities = self.primary_affinity.get_or_insert_with(|| vec![PRIMARY_AFFINITY_MAX; count]);
        affinities[id.index()] = affinity;
    }
}

/// Returns true if `addr` lies in a range of addresses, whose nonce is the length of its prefix in bits.
fn in_range(range: &EntityAddr, addr: &EntityAddr) -> bool {
    use std::net::IpAddr;
    let bits = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => (u128::from(u32::from(ip)) << 96, 32),
        IpAddr::V6(ip) => (u128::from(ip), 128),
    };
    let (Some(range_ip), Some(ip)) = (range.ip(), addr.ip()) else { return false };
    let ((network, width), (ip, ip_width)) = (bits(range_ip), bits(ip));
    let prefix = range.nonce.min(width);
    width == ip_width && (prefix == 0 || (network ^ ip) >> (128 - prefix) == 0)
}
