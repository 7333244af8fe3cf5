//! Binary form of whole maps: outer version 8; client part 9, or 10 for Reef and later; OSD part 9, or as much newer as
//! its content needs; checksum.

use crate::temp_set::{get_further, put_further};
use crate::{Osd, OsdMap, OsdMapFlags, OsdState, StretchMode};
use crush::CrushMap;
use std::collections::BTreeMap;
use std::sync::Arc;
use types::{Fsid, PoolId, crc32c};
use wire::basic::IntervalSet;
use wire::codec::features;
use wire::{Decode, DecodeError, Encode, Reader, Release, Target, Writer};

const OUTER: u8 = 8;
const CLIENT_NEWEST: u8 = 10;
const CLIENT_OLDEST: u8 = 9;
const OSD_NEWEST: u8 = 12;
const OSD_OLDEST: u8 = 9;
/// Fewest bytes of the client part that follow the states for each OSD: a weight and a list of addresses.
const OSD_BYTES_MIN: usize = 9;

/// Writes one of the two parts of a map or increment. Any decoder may read it: fields are only ever added.
pub(crate) fn put_part(w: &mut Writer, version: u8, body: impl FnOnce(&mut Writer)) {
    w.versioned(version, 1, body);
}

pub(crate) fn get_snaps(r: &mut Reader<'_>) -> Result<BTreeMap<PoolId, IntervalSet>, DecodeError> {
    r.get()
}

impl OsdMap {
    /// Returns the encoding for `target`, with its checksum.
    pub fn encode_with_checksum(&self, target: Target) -> (Vec<u8>, u32) {
        let bytes = self.to_vec(target);
        let crc = bytes.last_chunk::<4>().expect("an encoded map ends with its checksum");
        let crc = u32::from_le_bytes(*crc);
        (bytes, crc)
    }

    /// Returns the checksum of the map in its encoding for `target`, as increments carry it.
    pub fn checksum(&self, target: Target) -> u32 {
        self.encode_with_checksum(target).1
    }

    fn encode_client(&self, w: &mut Writer) {
        let version = if !self.pg_upmap_primaries.is_empty() || w.target().has(features::SERVER_REEF) { 10 } else { 9 };
        put_part(w, version, |w| {
            w.put(&self.fsid);
            w.put(&self.epoch);
            w.put(&self.created);
            w.put(&self.modified);
            w.put(&self.pools);
            w.put(&self.pool_names);
            w.i32(self.pool_max);
            w.u32(self.flags.0);
            w.i32(self.max_osd());
            self.per_osd(w, |osd, w| w.put(&osd.state));
            w.put(&self.weights);
            self.per_osd(w, |osd, w| w.put(&osd.client_addrs));
            w.put(&self.pg_temp);
            w.put(&self.primary_temp);
            w.put(self.primary_affinity.as_deref().unwrap_or_default());
            w.sized(|w| w.put(&*self.crush));
            w.put(&self.erasure_code_profiles);
            w.put(&self.pg_upmap);
            w.put(&self.pg_upmap_items);
            w.u32(self.crush_version);
            w.put(&self.new_removed_snaps);
            w.put(&self.new_purged_snaps);
            w.put(&self.last_up_change);
            w.put(&self.last_in_change);
            if version >= 10 {
                w.put(&self.pg_upmap_primaries);
            }
        });
    }

    fn encode_osd(&self, w: &mut Writer) {
        let version = match () {
            () if self.allow_crimson => 12,
            () if !self.range_blocklist.is_empty() => 11,
            () if self.stretch_mode.enabled => 10,
            () => 9,
        };
        put_part(w, version, |w| {
            self.per_osd(w, |osd, w| w.put(&osd.hb_back_addrs));
            self.per_osd(w, |osd, w| w.put(&osd.info));
            w.put(&self.blocklist);
            self.per_osd(w, |osd, w| w.put(&osd.cluster_addrs));
            w.put(&self.cluster_snapshot_epoch);
            w.str(&self.cluster_snapshot);
            self.per_osd(w, |osd, w| w.put(&osd.uuid));
            self.per_osd(w, |osd, w| w.put(&osd.xinfo));
            self.per_osd(w, |osd, w| w.put(&osd.hb_front_addrs));
            w.f32(self.nearfull_ratio);
            w.f32(self.full_ratio);
            w.f32(self.backfillfull_ratio);
            w.u8(self.require_min_compat_client.0);
            w.u8(self.require_osd_release.0);
            w.put(&self.removed_snaps_queue);
            w.put(&self.crush_node_flags);
            w.put(&self.device_class_flags);
            if version >= 10 {
                w.bool(self.stretch_mode.enabled);
                w.u32(self.stretch_mode.bucket_count);
                w.u32(self.stretch_mode.degraded);
                w.u32(self.stretch_mode.recovering);
                w.i32(self.stretch_mode.bucket);
            }
            if version >= 11 {
                w.put(&self.range_blocklist);
            }
            if version >= 12 {
                w.bool(self.allow_crimson);
            }
            put_further(w, &self.pg_temp);
        });
    }

    fn per_osd(&self, w: &mut Writer, field: impl Fn(&Osd, &mut Writer)) {
        w.count(self.osds.len());
        self.osds.iter().for_each(|osd| field(osd, w));
    }
}

impl Encode for OsdMap {
    fn encode(&self, w: &mut Writer) {
        let start = w.len();
        w.versioned(OUTER, 7, |w| {
            self.encode_client(w);
            self.encode_osd(w);
            w.u32(0);
        });
        let crc_at = w.len() - 4;
        let crc = crc32c::checksum(&w.as_slice()[start..crc_at]);
        w.as_mut_slice()[crc_at..].copy_from_slice(&crc.to_le_bytes());
    }
}

impl Decode for OsdMap {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<OsdMap, DecodeError> {
        let whole = r.peek();
        let (head, mut body) = r.versioned("OSD map", OUTER)?;
        if head.version < OUTER {
            return Err(DecodeError::TooOld { what: "OSD map", version: head.version, oldest: OUTER });
        }
        let end = whole.len() - r.left();
        let mut map = OsdMap::new(Fsid::default());
        map.decode_client(&mut body)?;
        map.decode_osd(&mut body)?;
        let crc_at = end - body.left();
        let stored = body.u32()?;
        let computed = crc32c::update(crc32c::checksum(&whole[..crc_at]), body.peek());
        if stored != computed {
            return Err(DecodeError::Checksum { what: "OSD map", stored, computed });
        }
        Ok(map)
    }
}

impl OsdMap {
    fn decode_client(&mut self, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        let what = "client part of an OSD map";
        let (head, mut r) = r.versioned(what, CLIENT_NEWEST)?;
        if head.version < CLIENT_OLDEST {
            return Err(DecodeError::TooOld { what, version: head.version, oldest: CLIENT_OLDEST });
        }
        let r = &mut r;
        self.fsid = r.get()?;
        self.epoch = r.get()?;
        self.created = r.get()?;
        self.modified = r.get()?;
        self.pools = r.get()?;
        self.pool_names = r.get()?;
        self.pool_max = r.i32()?;
        self.flags = OsdMapFlags(r.u32()?);
        let max_osd = r.i32()?;
        let states: Vec<OsdState> = r.get()?;
        if usize::try_from(max_osd) != Ok(states.len()) {
            return Err(mismatch("number of OSD states", states.len()));
        }
        // The bytes that each OSD takes in this part alone bound the memory that may be allocated for it.
        if r.left() / OSD_BYTES_MIN < states.len() {
            return Err(DecodeError::Count { what: "OSDs", count: states.len(), left: r.left() });
        }
        self.osds = states.into_iter().map(|state| Osd { state, ..Osd::default() }).collect();
        self.weights = r.get()?;
        if self.weights.len() != self.osds.len() {
            return Err(mismatch("number of OSD weights", self.weights.len()));
        }
        self.read_per_osd(r, "number of OSD client addresses", |osd, v| osd.client_addrs = v)?;
        self.pg_temp = r.get()?;
        self.primary_temp = r.get()?;
        let affinities: Vec<u32> = r.get()?;
        if !affinities.is_empty() && affinities.len() != self.osds.len() {
            return Err(mismatch("number of OSD primary affinities", affinities.len()));
        }
        self.primary_affinity = Some(affinities).filter(|affinities| !affinities.is_empty());
        self.crush = Arc::new(CrushMap::decode(&mut r.sized()?)?);
        self.erasure_code_profiles = r.get()?;
        self.pg_upmap = r.get()?;
        self.pg_upmap_items = r.get()?;
        self.crush_version = r.u32()?;
        self.new_removed_snaps = get_snaps(r)?;
        self.new_purged_snaps = get_snaps(r)?;
        self.last_up_change = r.get()?;
        self.last_in_change = r.get()?;
        if head.version >= 10 {
            self.pg_upmap_primaries = r.get()?;
        }
        Ok(())
    }

    fn decode_osd(&mut self, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        let what = "OSD part of an OSD map";
        let (head, mut r) = r.versioned(what, OSD_NEWEST)?;
        if head.version < OSD_OLDEST {
            return Err(DecodeError::TooOld { what, version: head.version, oldest: OSD_OLDEST });
        }
        let r = &mut r;
        self.read_per_osd(r, "number of OSD back heartbeat addresses", |osd, v| osd.hb_back_addrs = v)?;
        self.read_per_osd(r, "number of OSD infos", |osd, v| osd.info = v)?;
        self.blocklist = r.get()?;
        self.read_per_osd(r, "number of OSD cluster addresses", |osd, v| osd.cluster_addrs = v)?;
        self.cluster_snapshot_epoch = r.get()?;
        self.cluster_snapshot = r.get()?;
        self.read_per_osd(r, "number of OSD uuids", |osd, v| osd.uuid = v)?;
        self.read_per_osd(r, "number of OSD extra infos", |osd, v| osd.xinfo = v)?;
        self.read_per_osd(r, "number of OSD front heartbeat addresses", |osd, v| osd.hb_front_addrs = v)?;
        self.nearfull_ratio = r.f32()?;
        self.full_ratio = r.f32()?;
        self.backfillfull_ratio = r.f32()?;
        self.require_min_compat_client = Release(r.u8()?);
        self.require_osd_release = Release(r.u8()?);
        self.removed_snaps_queue = get_snaps(r)?;
        self.crush_node_flags = r.get()?;
        self.device_class_flags = r.get()?;
        if head.version >= 10 {
            self.stretch_mode = StretchMode {
                enabled: r.bool()?,
                bucket_count: r.u32()?,
                degraded: r.u32()?,
                recovering: r.u32()?,
                bucket: r.i32()?,
            };
        }
        if head.version >= 11 {
            self.range_blocklist = r.get()?;
        }
        if head.version >= 12 {
            self.allow_crimson = r.bool()?;
        }
        get_further(r, &mut self.pg_temp)
    }

    /// Reads one value per OSD.
    fn read_per_osd<T: Decode>(
        &mut self,
        r: &mut Reader<'_>,
        what: &'static str,
        set: impl Fn(&mut Osd, T),
    ) -> Result<(), DecodeError> {
        let count = r.u32()? as usize;
        if count != self.osds.len() {
            return Err(mismatch(what, count));
        }
        for osd in &mut self.osds {
            set(osd, r.get()?);
        }
        Ok(())
    }
}

fn mismatch(what: &'static str, count: usize) -> DecodeError {
    DecodeError::Value { what, value: count as u64 }
}
