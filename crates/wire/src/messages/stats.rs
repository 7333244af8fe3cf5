//! Statistics of pools.

use crate::{Decode, DecodeError, Encode, Reader, Writer};

macro_rules! counters {
    (
        $(#[$doc:meta])* $name:ident what $what:literal version $version:literal compat $compat:literal
        { $($field:ident: $int:ident,)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
        pub struct $name {
            $(pub $field: $int,)*
        }

        impl $name {
            /// Adds every counter of `other`.
            pub fn add(&mut self, other: &$name) {
                $(self.$field = self.$field.wrapping_add(other.$field);)*
            }
        }

        impl Encode for $name {
            fn encode(&self, w: &mut Writer) {
                w.versioned($version, $compat, |w| {
                    $(w.$int(self.$field);)*
                });
            }
        }

        impl Decode for $name {
            const MIN_BYTES: usize = 6;

            fn decode(r: &mut Reader<'_>) -> Result<$name, DecodeError> {
                let (head, mut r) = r.versioned($what, $version)?;
                if head.version < $version {
                    return Err(DecodeError::TooOld { what: $what, version: head.version, oldest: $version });
                }
                Ok($name { $($field: r.$int()?,)* })
            }
        }
    };
}

counters! {
    /// Counts of objects and of events on them. Ceph's `object_stat_sum_t`.
    ObjectStats what "object statistics" version 20 compat 14 {
        num_bytes: i64,
        num_objects: i64,
        num_object_clones: i64,
        num_object_copies: i64,
        num_objects_missing_on_primary: i64,
        num_objects_degraded: i64,
        num_objects_unfound: i64,
        num_rd: i64,
        num_rd_kb: i64,
        num_wr: i64,
        num_wr_kb: i64,
        num_scrub_errors: i64,
        num_objects_recovered: i64,
        num_bytes_recovered: i64,
        num_keys_recovered: i64,
        num_shallow_scrub_errors: i64,
        num_deep_scrub_errors: i64,
        num_objects_dirty: i64,
        num_whiteouts: i64,
        num_objects_omap: i64,
        num_objects_hit_set_archive: i64,
        num_objects_misplaced: i64,
        num_bytes_hit_set_archive: i64,
        num_flush: i64,
        num_flush_kb: i64,
        num_evict: i64,
        num_evict_kb: i64,
        num_promote: i64,
        num_flush_mode_high: i32,
        num_flush_mode_low: i32,
        num_evict_mode_some: i32,
        num_evict_mode_full: i32,
        num_objects_pinned: i64,
        num_objects_missing: i64,
        num_legacy_snapsets: i64,
        num_large_omap_objects: i64,
        num_objects_manifest: i64,
        num_omap_bytes: i64,
        num_omap_keys: i64,
        num_objects_repaired: i64,
    }
}

counters! {
    /// Space of a store, or of one pool in it, in bytes. Ceph's `store_statfs_t`.
    StoreStatfs what "store space" version 1 compat 1 {
        total: u64,
        available: u64,
        internally_reserved: u64,
        allocated: i64,
        data_stored: i64,
        data_compressed: i64,
        data_compressed_allocated: i64,
        data_compressed_original: i64,
        omap_allocated: i64,
        internal_metadata: i64,
    }
}

/// Statistics of one pool. Ceph's `pool_stat_t`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct PoolStat {
    pub objects: ObjectStats,
    pub log_size: i64,
    pub ondisk_log_size: i64,
    /// Sums over placement groups of the sizes of their up and acting sets.
    pub up: i32,
    pub acting: i32,
    pub store: StoreStatfs,
    /// Number of OSDs that report `store`.
    pub num_store_stats: i32,
}

impl Encode for PoolStat {
    fn encode(&self, w: &mut Writer) {
        w.versioned(7, 5, |w| {
            w.put(&ObjectStatCollection(self.objects));
            w.i64(self.log_size);
            w.i64(self.ondisk_log_size);
            w.i32(self.up);
            w.i32(self.acting);
            w.put(&self.store);
            w.i32(self.num_store_stats);
        });
    }
}

impl Decode for PoolStat {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<PoolStat, DecodeError> {
        let (head, mut r) = r.versioned("pool statistics", 7)?;
        if head.version < 7 {
            return Err(DecodeError::TooOld { what: "pool statistics", version: head.version, oldest: 7 });
        }
        Ok(PoolStat {
            objects: r.get::<ObjectStatCollection>()?.0,
            log_size: r.i64()?,
            ondisk_log_size: r.i64()?,
            up: r.i32()?,
            acting: r.i32()?,
            store: r.get()?,
            num_store_stats: r.i32()?,
        })
    }
}

/// A sum, and in old layouts sums by category. Ceph's `object_stat_collection_t`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ObjectStatCollection(pub ObjectStats);

impl Encode for ObjectStatCollection {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 2, |w| {
            w.put(&self.0);
            w.u32(0); // categories
        });
    }
}

impl Decode for ObjectStatCollection {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<ObjectStatCollection, DecodeError> {
        let (_, mut r) = r.versioned("object statistics by category", 2)?;
        let sum = r.get()?;
        match r.u32()? {
            0 => Ok(ObjectStatCollection(sum)),
            count => Err(DecodeError::Value { what: "categories of object statistics", value: count.into() }),
        }
    }
}
