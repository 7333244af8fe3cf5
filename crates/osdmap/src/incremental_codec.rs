//! Binary form of increments: outer version 8; client part 8, or 9 for Reef and later; OSD part 9, or as much newer as
//! its content needs.

use crate::map_codec::{get_snaps, put_part};
use crate::temp_set::{get_further, put_further};
use crate::{Incremental, OsdMapFlags, OsdState, StretchMode};
use std::collections::BTreeMap;
use types::{Epoch, Fsid, OsdId, Utime, crc32c};
use wire::codec::features;
use wire::{Decode, DecodeError, Encode, Reader, Release, Writer};

const OUTER: u8 = 8;
const CLIENT_NEWEST: u8 = 9;
const CLIENT_OLDEST: u8 = 8;
const OSD_NEWEST: u8 = 12;
const OSD_OLDEST: u8 = 9;
const RELEASE_UNSET: u8 = 0xff;
const RATIO_UNSET: f32 = -1.0;

/// Numbers of the changes of `allow_crimson`.
mod crimson {
    pub const UNCHANGED: u8 = 0;
    pub const ALLOWED: u8 = 1;
    pub const FORBIDDEN: u8 = 2;
}

impl Encode for Incremental {
    fn encode(&self, w: &mut Writer) {
        let start = w.len();
        let mut crc_at = 0;
        w.versioned(OUTER, 7, |w| {
            self.encode_client(w);
            self.encode_osd(w);
            crc_at = w.len();
            w.u32(0);
            w.u32(self.full_crc);
        });
        let crc = crc32c::update(crc32c::checksum(&w.as_slice()[start..crc_at]), &w.as_slice()[crc_at + 4..]);
        w.as_mut_slice()[crc_at..crc_at + 4].copy_from_slice(&crc.to_le_bytes());
    }
}

impl Incremental {
    fn encode_client(&self, w: &mut Writer) {
        let has_primaries = !self.new_pg_upmap_primary.is_empty() || !self.old_pg_upmap_primary.is_empty();
        let version = if has_primaries || w.target().has(features::SERVER_REEF) { 9 } else { 8 };
        put_part(w, version, |w| {
            w.put(&self.fsid);
            w.put(&self.epoch);
            w.put(&self.modified);
            w.i64(self.new_pool_max.unwrap_or(-1));
            w.i32(self.new_flags.map_or(-1, |flags| flags.0 as i32));
            w.blob(&self.full_map);
            w.blob(&self.crush);
            w.i32(self.new_max_osd.unwrap_or(-1));
            w.put(&self.new_pools);
            w.put(&self.new_pool_names);
            w.put(&self.old_pools);
            w.put(&self.new_up_client);
            w.put(&self.new_state);
            w.put(&self.new_weight);
            w.put(&self.new_pg_temp);
            w.count(self.new_primary_temp.len());
            for (pg, osd) in &self.new_primary_temp {
                w.put(pg);
                w.i32(osd.map_or(-1, |osd| osd.0));
            }
            w.put(&self.new_primary_affinity);
            w.put(&self.new_erasure_code_profiles);
            w.put(&self.old_erasure_code_profiles);
            w.put(&self.new_pg_upmap);
            w.put(&self.old_pg_upmap);
            w.put(&self.new_pg_upmap_items);
            w.put(&self.old_pg_upmap_items);
            w.put(&self.new_removed_snaps);
            w.put(&self.new_purged_snaps);
            w.put(&self.new_last_up_change);
            w.put(&self.new_last_in_change);
            if version >= 9 {
                w.put(&self.new_pg_upmap_primary);
                w.put(&self.old_pg_upmap_primary);
            }
        });
    }

    fn encode_osd(&self, w: &mut Writer) {
        let has_ranges = !self.new_range_blocklist.is_empty() || !self.old_range_blocklist.is_empty();
        let version = match () {
            () if self.new_allow_crimson.is_some() => 12,
            () if has_ranges => 11,
            () if self.new_stretch_mode.is_some() => 10,
            () => 9,
        };
        put_part(w, version, |w| {
            w.put(&self.new_hb_back_up);
            w.put(&self.new_up_thru);
            w.put(&self.new_last_clean_interval);
            w.put(&self.new_lost);
            w.put(&self.new_blocklist);
            w.put(&self.old_blocklist);
            w.put(&self.new_up_cluster);
            w.str(&self.cluster_snapshot);
            w.put(&self.new_uuid);
            w.put(&self.new_xinfo);
            w.put(&self.new_hb_front_up);
            w.u64(self.encode_features);
            for ratio in [self.new_nearfull_ratio, self.new_full_ratio, self.new_backfillfull_ratio] {
                w.f32(ratio.unwrap_or(RATIO_UNSET));
            }
            for release in [self.new_require_min_compat_client, self.new_require_osd_release] {
                w.u8(release.map_or(RELEASE_UNSET, |release| release.0));
            }
            w.put(&self.new_crush_node_flags);
            w.put(&self.new_device_class_flags);
            if version >= 10 {
                let stretch = self.new_stretch_mode.unwrap_or_default();
                w.bool(self.new_stretch_mode.is_some());
                w.u32(stretch.bucket_count);
                w.u32(stretch.degraded);
                w.u32(stretch.recovering);
                w.i32(stretch.bucket);
                w.bool(stretch.enabled);
            }
            if version >= 11 {
                w.put(&self.new_range_blocklist);
                w.put(&self.old_range_blocklist);
            }
            if version >= 12 {
                w.u8(match self.new_allow_crimson {
                    None => crimson::UNCHANGED,
                    Some(true) => crimson::ALLOWED,
                    Some(false) => crimson::FORBIDDEN,
                });
            }
            put_further(w, &self.new_pg_temp);
        });
    }
}

impl Decode for Incremental {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<Incremental, DecodeError> {
        let whole = r.peek();
        let (head, mut body) = r.versioned("OSD map increment", OUTER)?;
        if head.version < OUTER {
            return Err(DecodeError::TooOld { what: "OSD map increment", version: head.version, oldest: OUTER });
        }
        let end = whole.len() - r.left();
        let mut inc = Incremental::new(Fsid::default(), Epoch(0), Utime::ZERO);
        inc.decode_client(&mut body)?;
        inc.decode_osd(&mut body)?;
        let crc_at = end - body.left();
        let stored = body.u32()?;
        let computed = crc32c::update(crc32c::checksum(&whole[..crc_at]), body.peek());
        if stored != computed {
            return Err(DecodeError::Checksum { what: "OSD map increment", stored, computed });
        }
        inc.full_crc = body.u32()?;
        Ok(inc)
    }
}

impl Incremental {
    fn decode_client(&mut self, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        let what = "client part of an OSD map increment";
        let (head, mut r) = r.versioned(what, CLIENT_NEWEST)?;
        if head.version < CLIENT_OLDEST {
            return Err(DecodeError::TooOld { what, version: head.version, oldest: CLIENT_OLDEST });
        }
        self.fsid = r.get()?;
        self.epoch = r.get()?;
        self.modified = r.get()?;
        self.new_pool_max = Some(r.i64()?).filter(|max| *max != -1);
        self.new_flags = Some(r.i32()?).filter(|flags| *flags >= 0).map(|flags| OsdMapFlags(flags as u32));
        self.full_map = r.blob_bytes()?;
        self.crush = r.blob_bytes()?;
        self.new_max_osd = Some(r.i32()?).filter(|max| *max >= 0);
        self.new_pools = r.get()?;
        self.new_pool_names = r.get()?;
        self.old_pools = r.get()?;
        self.new_up_client = r.get()?;
        self.new_state = r.get()?;
        self.new_weight = r.get()?;
        self.new_pg_temp = r.get()?;
        let primaries: BTreeMap<_, OsdId> = r.get()?;
        self.new_primary_temp =
            primaries.into_iter().map(|(pg, osd)| (pg, Some(osd).filter(|osd| osd.0 != -1))).collect();
        self.new_primary_affinity = r.get()?;
        self.new_erasure_code_profiles = r.get()?;
        self.old_erasure_code_profiles = r.get()?;
        self.new_pg_upmap = r.get()?;
        self.old_pg_upmap = r.get()?;
        self.new_pg_upmap_items = r.get()?;
        self.old_pg_upmap_items = r.get()?;
        self.new_removed_snaps = get_snaps(&mut r)?;
        self.new_purged_snaps = get_snaps(&mut r)?;
        self.new_last_up_change = r.get()?;
        self.new_last_in_change = r.get()?;
        if head.version >= 9 {
            self.new_pg_upmap_primary = r.get()?;
            self.old_pg_upmap_primary = r.get()?;
        }
        Ok(())
    }

    fn decode_osd(&mut self, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        let what = "OSD part of an OSD map increment";
        let (head, mut r) = r.versioned(what, OSD_NEWEST)?;
        if head.version < OSD_OLDEST {
            return Err(DecodeError::TooOld { what, version: head.version, oldest: OSD_OLDEST });
        }
        self.new_hb_back_up = r.get()?;
        self.new_up_thru = r.get()?;
        self.new_last_clean_interval = r.get()?;
        self.new_lost = r.get()?;
        self.new_blocklist = r.get()?;
        self.old_blocklist = r.get()?;
        self.new_up_cluster = r.get()?;
        self.cluster_snapshot = r.get()?;
        self.new_uuid = r.get()?;
        self.new_xinfo = r.get()?;
        self.new_hb_front_up = r.get()?;
        self.encode_features = r.u64()?;
        for ratio in [&mut self.new_nearfull_ratio, &mut self.new_full_ratio, &mut self.new_backfillfull_ratio] {
            *ratio = Some(r.f32()?).filter(|ratio| *ratio != RATIO_UNSET);
        }
        for release in [&mut self.new_require_min_compat_client, &mut self.new_require_osd_release] {
            *release = Some(r.u8()?).filter(|release| *release != RELEASE_UNSET).map(Release);
        }
        self.new_crush_node_flags = r.get()?;
        self.new_device_class_flags = r.get()?;
        if head.version >= 10 {
            let change = r.bool()?;
            let stretch = StretchMode {
                bucket_count: r.u32()?,
                degraded: r.u32()?,
                recovering: r.u32()?,
                bucket: r.i32()?,
                enabled: r.bool()?,
            };
            self.new_stretch_mode = change.then_some(stretch);
        }
        if head.version >= 11 {
            self.new_range_blocklist = r.get()?;
            self.old_range_blocklist = r.get()?;
        }
        if head.version >= 12 {
            self.new_allow_crimson = match r.u8()? {
                crimson::UNCHANGED => None,
                crimson::ALLOWED => Some(true),
                crimson::FORBIDDEN => Some(false),
                other => return Err(DecodeError::Value { what: "change of allow_crimson", value: other.into() }),
            };
        }
        get_further(&mut r, &mut self.new_pg_temp)
    }
}

impl Encode for OsdState {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.0);
    }
}

impl Decode for OsdState {
    const MIN_BYTES: usize = 4;

    fn decode(r: &mut Reader<'_>) -> Result<OsdState, DecodeError> {
        r.u32().map(OsdState)
    }
}
