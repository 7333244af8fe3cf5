//! Binary form of pools: version 29, 30 for stretch pools, and 32 for Tentacle and later.

use crate::{AutoscaleMode, PeeringCrush, PgMergeMeta, PgPool, PoolFlags, PoolKind, PoolSnap};
use bytes::Bytes;
use wire::{Decode, DecodeError, Encode, Reader, Release, Writer};

/// The newest version known.
const NEWEST: u8 = 32;
/// Oldest version read, Pacific's; nothing from before Nautilus finds its way into a map of today.
const OLDEST: u8 = 29;
/// Far above any pool; keeps a damaged number from filling memory where every placement group is visited.
const PG_NUM_MAX: u32 = 1 << 22;

impl Encode for PgPool {
    fn encode(&self, w: &mut Writer) {
        let tentacle = w.target().release >= Release::TENTACLE;
        let version = match (tentacle, self.peering_crush) {
            (true, _) => NEWEST,
            (false, Some(_)) => 30,
            (false, None) => 29,
        };
        w.versioned(version, 5, |w| {
            self.encode_base(w);
            self.encode_tiering(w);
            self.encode_tail(w);
            match self.peering_crush {
                Some(crush) => {
                    if tentacle {
                        w.bool(true);
                    }
                    w.u32(crush.bucket_count);
                    w.u32(crush.bucket_target);
                    w.u32(crush.bucket_barrier);
                    w.i32(crush.mandatory_member);
                }
                None if tentacle => w.bool(false),
                None => {}
            }
            if tentacle {
                w.varint(self.nonprimary_shards as u64);
                w.varint((self.nonprimary_shards >> 64) as u64);
            }
        });
    }
}

impl PgPool {
    fn encode_base(&self, w: &mut Writer) {
        w.u8(self.kind.0);
        w.u8(self.size);
        w.u8(self.crush_rule);
        w.u8(self.object_hash);
        w.u32(self.pg_num);
        w.u32(self.pgp_num);
        // Ceph once had the counts of "localized" placement groups here.
        w.u32(0);
        w.u32(0);
        w.put(&self.last_change);
        w.put(&self.snap_seq);
        w.put(&self.snap_epoch);
        w.put(&self.snaps);
        w.put(&self.removed_snaps);
        w.u64(self.auid);
        w.u64(self.flags.0);
        // Ceph once had an interval here after which a crash was replayed.
        w.u32(0);
        w.u8(self.min_size);
        w.u64(self.quota_max_bytes);
        w.u64(self.quota_max_objects);
    }

    fn encode_tiering(&self, w: &mut Writer) {
        w.put(&self.tiers);
        w.put(&self.tier_of);
        w.u8(self.cache_mode);
        w.put(&self.read_tier);
        w.put(&self.write_tier);
        w.put(&self.properties);
        w.versioned(1, 1, |w| w.raw(&self.hit_set_params));
        w.u32(self.hit_set_period);
        w.u32(self.hit_set_count);
        w.u32(self.stripe_width);
        w.u64(self.target_max_bytes);
        w.u64(self.target_max_objects);
        w.u32(self.cache_target_dirty_ratio_micro);
        w.u32(self.cache_target_full_ratio_micro);
        w.u32(self.cache_min_flush_age);
        w.u32(self.cache_min_evict_age);
    }

    fn encode_tail(&self, w: &mut Writer) {
        w.str(&self.erasure_code_profile);
        w.put(&self.last_force_op_resend_preluminous);
        w.u32(self.min_read_recency_for_promote);
        w.u64(self.expected_num_objects);
        w.u32(self.cache_target_dirty_high_ratio_micro);
        w.u32(self.min_write_recency_for_promote);
        w.bool(self.use_gmt_hitset);
        w.bool(self.fast_read);
        w.u32(self.hit_set_grade_decay_rate);
        w.u32(self.hit_set_search_last_n);
        w.put(&self.opts);
        w.put(&self.last_force_op_resend_prenautilus);
        w.put(&self.application_metadata);
        w.put(&self.create_time);
        w.u32(self.pg_num_target);
        w.u32(self.pgp_num_target);
        w.u32(self.pg_num_pending);
        // Ceph once had the epochs of a pending merge here.
        w.u32(0);
        w.u32(0);
        w.put(&self.last_force_op_resend);
        w.u8(self.autoscale_mode.0);
        w.put(&self.last_pg_merge_meta);
    }
}

impl Decode for PgPool {
    const MIN_BYTES: usize = 200;

    fn decode(r: &mut Reader<'_>) -> Result<PgPool, DecodeError> {
        let (head, mut r) = r.versioned("pool", NEWEST)?;
        if head.version < OLDEST {
            return Err(DecodeError::TooOld { what: "pool", version: head.version, oldest: OLDEST });
        }
        let r = &mut r;
        let mut pool = PgPool::replicated(0, 0, 0);
        pool.decode_base(r)?;
        pool.decode_tiering(r)?;
        pool.decode_tail(r)?;
        let has_peering_crush = match head.version {
            ..30 => false,
            30 => true,
            31.. => r.bool()?,
        };
        if has_peering_crush {
            let crush = PeeringCrush {
                bucket_count: r.u32()?,
                bucket_target: r.u32()?,
                bucket_barrier: r.u32()?,
                mandatory_member: r.i32()?,
            };
            pool.peering_crush = Some(crush);
        }
        if head.version >= 32 {
            let (low, high) = (r.varint()?, r.varint()?);
            pool.nonprimary_shards = u128::from(high) << 64 | u128::from(low);
        }
        Ok(pool)
    }
}

impl PgPool {
    fn decode_base(&mut self, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        self.kind = PoolKind(r.u8()?);
        self.size = r.u8()?;
        self.crush_rule = r.u8()?;
        self.object_hash = r.u8()?;
        self.pg_num = r.u32()?;
        self.pgp_num = r.u32()?;
        if self.pg_num > PG_NUM_MAX {
            return Err(DecodeError::Value { what: "number of placement groups", value: self.pg_num.into() });
        }
        r.skip(8)?;
        self.last_change = r.get()?;
        self.snap_seq = r.get()?;
        self.snap_epoch = r.get()?;
        self.snaps = r.get()?;
        self.removed_snaps = r.get()?;
        self.auid = r.u64()?;
        self.flags = PoolFlags(r.u64()?);
        r.skip(4)?;
        self.min_size = r.u8()?;
        self.quota_max_bytes = r.u64()?;
        self.quota_max_objects = r.u64()?;
        Ok(())
    }

    fn decode_tiering(&mut self, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        self.tiers = r.get()?;
        self.tier_of = r.get()?;
        self.cache_mode = r.u8()?;
        self.read_tier = r.get()?;
        self.write_tier = r.get()?;
        self.properties = r.get()?;
        let (_, params) = r.versioned("hit set parameters", 1)?;
        self.hit_set_params = Bytes::copy_from_slice(params.peek());
        self.hit_set_period = r.u32()?;
        self.hit_set_count = r.u32()?;
        self.stripe_width = r.u32()?;
        self.target_max_bytes = r.u64()?;
        self.target_max_objects = r.u64()?;
        self.cache_target_dirty_ratio_micro = r.u32()?;
        self.cache_target_full_ratio_micro = r.u32()?;
        self.cache_min_flush_age = r.u32()?;
        self.cache_min_evict_age = r.u32()?;
        Ok(())
    }

    fn decode_tail(&mut self, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        self.erasure_code_profile = r.get()?;
        self.last_force_op_resend_preluminous = r.get()?;
        self.min_read_recency_for_promote = r.u32()?;
        self.expected_num_objects = r.u64()?;
        self.cache_target_dirty_high_ratio_micro = r.u32()?;
        self.min_write_recency_for_promote = r.u32()?;
        self.use_gmt_hitset = r.bool()?;
        self.fast_read = r.bool()?;
        self.hit_set_grade_decay_rate = r.u32()?;
        self.hit_set_search_last_n = r.u32()?;
        self.opts = r.get()?;
        self.last_force_op_resend_prenautilus = r.get()?;
        self.application_metadata = r.get()?;
        self.create_time = r.get()?;
        self.pg_num_target = r.u32()?;
        self.pgp_num_target = r.u32()?;
        self.pg_num_pending = r.u32()?;
        r.skip(8)?;
        self.last_force_op_resend = r.get()?;
        self.autoscale_mode = AutoscaleMode(r.u8()?);
        self.last_pg_merge_meta = r.get()?;
        Ok(())
    }
}

impl Encode for PoolSnap {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 2, |w| {
            w.put(&self.id);
            w.put(&self.stamp);
            w.str(&self.name);
        });
    }
}

impl Decode for PoolSnap {
    const MIN_BYTES: usize = 26;

    fn decode(r: &mut Reader<'_>) -> Result<PoolSnap, DecodeError> {
        let (_, mut r) = r.versioned("pool snapshot", 2)?;
        Ok(PoolSnap { id: r.get()?, stamp: r.get()?, name: r.get()? })
    }
}

impl Encode for PgMergeMeta {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.source);
            w.put(&self.ready_epoch);
            w.put(&self.last_epoch_started);
            w.put(&self.last_epoch_clean);
            w.put(&self.source_version);
            w.put(&self.target_version);
        });
    }
}

impl Decode for PgMergeMeta {
    const MIN_BYTES: usize = 59;

    fn decode(r: &mut Reader<'_>) -> Result<PgMergeMeta, DecodeError> {
        let (_, mut r) = r.versioned("placement group merge", 1)?;
        Ok(PgMergeMeta {
            source: r.get()?,
            ready_epoch: r.get()?,
            last_epoch_started: r.get()?,
            last_epoch_clean: r.get()?,
            source_version: r.get()?,
            target_version: r.get()?,
        })
    }
}
