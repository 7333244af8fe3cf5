//! Applying increments.

use crate::{ApplyError, Incremental, Osd, OsdMap, OsdMapFlags, OsdState, PRIMARY_AFFINITY_MAX};
use crush::CrushMap;
use std::sync::Arc;
use types::{Epoch, OsdId};
use wire::{Decode, Release};

/// More OSDs than any cluster has; keeps a damaged number from filling memory.
const MAX_OSD_LIMIT: usize = 1 << 20;

impl OsdMap {
    /// Becomes the next epoch's map.
    ///
    /// Errors: [`ApplyError`], and the map is unchanged.
    pub fn apply(&mut self, inc: &Incremental) -> Result<(), ApplyError> {
        if Some(inc.epoch.0) != self.epoch.0.checked_add(1) {
            return Err(ApplyError::Epoch { map: self.epoch, increment: inc.epoch });
        }
        if inc.fsid != self.fsid && inc.epoch != Epoch(1) {
            return Err(ApplyError::Fsid { map: self.fsid, increment: inc.fsid });
        }
        if !inc.full_map.is_empty() {
            let map = OsdMap::from_slice(&inc.full_map).map_err(|source| ApplyError::FullMap { source })?;
            if map.epoch != inc.epoch {
                return Err(ApplyError::Epoch { map: map.epoch, increment: inc.epoch });
            }
            *self = map;
            return Ok(());
        }
        let crush = match inc.crush.is_empty() {
            true => None,
            false => Some(CrushMap::from_slice(&inc.crush).map_err(|source| ApplyError::Crush { source })?),
        };
        self.check_osds(inc)?;
        self.check_snaps(inc)?;

        self.fsid = inc.fsid;
        self.epoch = inc.epoch;
        self.modified = inc.modified;
        if let Some(flags) = inc.new_flags {
            self.flags = flags;
        }
        if let Some(max_osd) = inc.new_max_osd {
            self.set_max_osd(max_osd as usize);
        }
        self.apply_pools(inc);
        self.apply_osds(inc);
        self.apply_placements(inc);
        self.apply_settings(inc);
        // The hierarchy is replaced last, so that it meets the OSDs that it places on.
        if let Some(mut crush) = crush {
            crush.recount_devices();
            self.crush_version = self.crush_version.wrapping_add(1);
            self.device_class_flags.retain(|class, _| crush.classes().any(|(id, _)| id == *class));
            self.crush = Arc::new(crush);
        }
        if let Some(stretch) = inc.new_stretch_mode {
            self.stretch_mode = stretch;
        }
        if let Some(allow) = inc.new_allow_crimson {
            self.allow_crimson = allow;
        }
        Ok(())
    }

    /// Checks that every OSD that the increment names has a place in the map that results.
    fn check_osds(&self, inc: &Incremental) -> Result<(), ApplyError> {
        let max_osd = inc.new_max_osd.map_or(self.osds.len(), |max| max as usize);
        if max_osd > MAX_OSD_LIMIT {
            return Err(ApplyError::TooManyOsds { max_osd, limit: MAX_OSD_LIMIT });
        }
        let named = [
            inc.new_up_client.keys().collect::<Vec<_>>(),
            inc.new_state.keys().collect(),
            inc.new_weight.keys().collect(),
            inc.new_primary_affinity.keys().collect(),
            inc.new_up_cluster.keys().collect(),
            inc.new_up_thru.keys().collect(),
            inc.new_last_clean_interval.keys().collect(),
            inc.new_lost.keys().collect(),
            inc.new_uuid.keys().collect(),
            inc.new_xinfo.keys().collect(),
        ];
        let outside = |osd: &OsdId| usize::try_from(osd.0).ok().is_none_or(|n| n >= max_osd);
        if let Some(osd) = named.into_iter().flatten().copied().find(outside) {
            return Err(ApplyError::OsdOutOfRange { osd, max_osd });
        }
        let silent = |osd: &&OsdId| !inc.new_hb_back_up.contains_key(osd) || !inc.new_hb_front_up.contains_key(osd);
        match inc.new_up_client.keys().find(silent) {
            Some(osd) => Err(ApplyError::NoHeartbeatAddrs { osd: *osd }),
            None => Ok(()),
        }
    }

    fn check_snaps(&self, inc: &Incremental) -> Result<(), ApplyError> {
        let queued = |pool| self.removed_snaps_queue.contains_key(pool) || inc.new_removed_snaps.contains_key(pool);
        match inc.new_purged_snaps.keys().find(|pool| !queued(pool)) {
            Some(pool) => Err(ApplyError::NothingToPurge { pool: *pool }),
            None => Ok(()),
        }
    }

    fn apply_pools(&mut self, inc: &Incremental) {
        if let Some(pool_max) = inc.new_pool_max {
            self.pool_max = pool_max as i32;
        }
        for (id, pool) in &inc.new_pools {
            let mut pool = pool.clone();
            pool.last_change = inc.epoch;
            self.pools.insert(*id, pool);
        }
        self.new_removed_snaps = inc.new_removed_snaps.clone();
        self.new_purged_snaps = inc.new_purged_snaps.clone();
        for (id, snaps) in &inc.new_removed_snaps {
            self.removed_snaps_queue.entry(*id).or_default().union(snaps);
        }
        for (id, snaps) in &inc.new_purged_snaps {
            let queue = self.removed_snaps_queue.get_mut(id).expect("checked before");
            queue.subtract(snaps);
            if queue.is_empty() {
                self.removed_snaps_queue.remove(id);
            }
        }
        self.pool_names.extend(inc.new_pool_names.iter().map(|(id, name)| (*id, name.clone())));
        for id in &inc.old_pools {
            self.pools.remove(id);
            self.pool_names.remove(id);
        }
    }

    fn apply_osds(&mut self, inc: &Incremental) {
        if !inc.new_last_up_change.is_zero() {
            self.last_up_change = inc.new_last_up_change;
        }
        if !inc.new_last_in_change.is_zero() {
            self.last_in_change = inc.new_last_in_change;
        }
        for (id, weight) in &inc.new_weight {
            self.weights[id.index()] = *weight;
            if *weight > 0 {
                let osd = &mut self.osds[id.index()];
                osd.state.remove(OsdState::AUTOOUT | OsdState::NEW);
                osd.xinfo.old_weight = 0;
                // An OSD that is given a weight exists.
                osd.state.insert(OsdState::EXISTS);
            }
        }
        for (id, affinity) in &inc.new_primary_affinity {
            self.set_primary_affinity(*id, *affinity);
        }
        for (id, bits) in &inc.new_state {
            let bits = if bits.is_empty() { OsdState::UP } else { *bits };
            let osd = &mut self.osds[id.index()];
            if osd.state.contains(OsdState::UP) && bits.contains(OsdState::UP) {
                osd.info.down_at = inc.epoch;
                osd.xinfo.down_stamp = inc.modified;
            }
            if osd.state.contains(OsdState::EXISTS) && bits.contains(OsdState::EXISTS) {
                *osd = Osd::default();
                self.set_primary_affinity(*id, PRIMARY_AFFINITY_MAX);
            } else {
                osd.state = osd.state ^ bits;
            }
        }
        for (id, addrs) in &inc.new_up_client {
            let osd = &mut self.osds[id.index()];
            osd.state.insert(OsdState::EXISTS | OsdState::UP);
            osd.state.remove(OsdState::STOP);
            osd.client_addrs = addrs.clone();
            osd.hb_back_addrs = inc.new_hb_back_up[id].clone();
            osd.hb_front_addrs = inc.new_hb_front_up[id].clone();
            osd.info.up_from = inc.epoch;
        }
        for (id, addrs) in &inc.new_up_cluster {
            self.osds[id.index()].cluster_addrs = addrs.clone();
        }
        for (id, epoch) in &inc.new_up_thru {
            self.osds[id.index()].info.up_thru = *epoch;
        }
        for (id, (begin, end)) in &inc.new_last_clean_interval {
            let info = &mut self.osds[id.index()].info;
            (info.last_clean_begin, info.last_clean_end) = (*begin, *end);
        }
        for (id, epoch) in &inc.new_lost {
            self.osds[id.index()].info.lost_at = *epoch;
        }
        for (id, xinfo) in &inc.new_xinfo {
            self.osds[id.index()].xinfo = *xinfo;
        }
        for (id, uuid) in &inc.new_uuid {
            self.osds[id.index()].uuid = *uuid;
        }
    }

    fn apply_placements(&mut self, inc: &Incremental) {
        for (pg, osds) in &inc.new_pg_temp {
            if osds.is_empty() {
                self.pg_temp.remove(pg);
            } else {
                self.pg_temp.insert(*pg, osds.clone());
            }
        }
        for (pg, osd) in &inc.new_primary_temp {
            match osd {
                Some(osd) => drop(self.primary_temp.insert(*pg, *osd)),
                None => drop(self.primary_temp.remove(pg)),
            }
        }
        self.pg_upmap.extend(inc.new_pg_upmap.iter().map(|(pg, osds)| (*pg, osds.clone())));
        self.pg_upmap.retain(|pg, _| !inc.old_pg_upmap.contains(pg));
        self.pg_upmap_items.extend(inc.new_pg_upmap_items.iter().map(|(pg, items)| (*pg, items.clone())));
        self.pg_upmap_items.retain(|pg, _| !inc.old_pg_upmap_items.contains(pg));
        self.pg_upmap_primaries.extend(&inc.new_pg_upmap_primary);
        self.pg_upmap_primaries.retain(|pg, _| !inc.old_pg_upmap_primary.contains(pg));
    }

    fn apply_settings(&mut self, inc: &Incremental) {
        self.erasure_code_profiles.retain(|name, _| !inc.old_erasure_code_profiles.contains(name));
        for (name, profile) in &inc.new_erasure_code_profiles {
            self.erasure_code_profiles.insert(name.clone(), profile.clone());
        }
        self.blocklist.extend(&inc.new_blocklist);
        self.blocklist.retain(|addr, _| !inc.old_blocklist.contains(addr));
        self.range_blocklist.extend(&inc.new_range_blocklist);
        self.range_blocklist.retain(|addr, _| !inc.old_range_blocklist.contains(addr));
        for (flags, changes) in [
            (&mut self.crush_node_flags, &inc.new_crush_node_flags),
            (&mut self.device_class_flags, &inc.new_device_class_flags),
        ] {
            flags.extend(changes);
            flags.retain(|_, flags| !flags.is_empty());
        }
        let snapshot_epoch = if inc.cluster_snapshot.is_empty() { Epoch(0) } else { inc.epoch };
        self.cluster_snapshot.clone_from(&inc.cluster_snapshot);
        self.cluster_snapshot_epoch = snapshot_epoch;
        for (ratio, new) in [
            (&mut self.nearfull_ratio, inc.new_nearfull_ratio),
            (&mut self.full_ratio, inc.new_full_ratio),
            (&mut self.backfillfull_ratio, inc.new_backfillfull_ratio),
        ] {
            if let Some(new) = new.filter(|new| *new >= 0.0) {
                *ratio = new;
            }
        }
        if let Some(release) = inc.new_require_min_compat_client.filter(|release| *release > Release::UNKNOWN) {
            self.require_min_compat_client = release;
        }
        if let Some(release) = inc.new_require_osd_release {
            self.require_osd_release = release;
            if release >= Release::LUMINOUS {
                self.flags.remove(OsdMapFlags::LEGACY_REQUIRE);
                self.flags.insert(OsdMapFlags::RECOVERY_DELETES);
            }
            if release >= Release::NAUTILUS {
                self.flags.insert(OsdMapFlags::PGLOG_HARDLIMIT);
            }
        }
    }
}
