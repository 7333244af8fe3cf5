//! Optional settings of a pool.

use std::collections::BTreeMap;
use wire::{Decode, DecodeError, Encode, Reader, Writer};

/// Value of one setting.
#[derive(Clone, PartialEq, Debug)]
pub enum PoolOpt {
    Str(String),
    Int(i64),
    Double(f64),
}

/// Key of a setting. The numbers are the protocol's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PoolOptKey(pub i32);

/// Kind of a setting's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Str,
    Int,
    Double,
}

/// Settings that every Pacific map may have, by number.
const KEYS: [(&str, Kind); 24] = [
    ("scrub_min_interval", Kind::Double),
    ("scrub_max_interval", Kind::Double),
    ("deep_scrub_interval", Kind::Double),
    ("recovery_priority", Kind::Int),
    ("recovery_op_priority", Kind::Int),
    ("scrub_priority", Kind::Int),
    ("compression_mode", Kind::Str),
    ("compression_algorithm", Kind::Str),
    ("compression_required_ratio", Kind::Double),
    ("compression_max_blob_size", Kind::Int),
    ("compression_min_blob_size", Kind::Int),
    ("csum_type", Kind::Int),
    ("csum_max_block", Kind::Int),
    ("csum_min_block", Kind::Int),
    ("fingerprint_algorithm", Kind::Str),
    ("pg_num_min", Kind::Int),
    ("target_size_bytes", Kind::Int),
    ("target_size_ratio", Kind::Double),
    ("pg_autoscale_bias", Kind::Double),
    ("read_lease_interval", Kind::Double),
    ("dedup_tier", Kind::Int),
    ("dedup_chunk_algorithm", Kind::Str),
    ("dedup_cdc_chunk_size", Kind::Int),
    ("pg_num_max", Kind::Int),
];

impl PoolOptKey {
    pub const RECOVERY_PRIORITY: PoolOptKey = PoolOptKey(3);
    pub const COMPRESSION_MODE: PoolOptKey = PoolOptKey(6);
    pub const PG_NUM_MIN: PoolOptKey = PoolOptKey(15);
    pub const TARGET_SIZE_BYTES: PoolOptKey = PoolOptKey(16);
    pub const TARGET_SIZE_RATIO: PoolOptKey = PoolOptKey(17);
    pub const PG_NUM_MAX: PoolOptKey = PoolOptKey(23);
    pub const PG_AUTOSCALE_BIAS: PoolOptKey = PoolOptKey(18);

    /// Returns the name that `ceph osd pool set` uses.
    pub fn name(self) -> Option<&'static str> {
        KEYS.get(usize::try_from(self.0).ok()?).map(|(name, _)| *name)
    }

    pub fn from_name(name: &str) -> Option<PoolOptKey> {
        KEYS.iter().position(|(n, _)| *n == name).map(|key| PoolOptKey(key as i32))
    }

    /// Parses `text` as a value of this setting; `None` if it is none or the setting is unknown.
    pub fn parse(self, text: &str) -> Option<PoolOpt> {
        let (_, kind) = KEYS.get(usize::try_from(self.0).ok()?)?;
        match kind {
            Kind::Str => Some(PoolOpt::Str(text.to_owned())),
            Kind::Int => text.parse().ok().map(PoolOpt::Int),
            Kind::Double => text.parse().ok().filter(|v: &f64| v.is_finite()).map(PoolOpt::Double),
        }
    }
}

/// The settings that are set. Ceph's `pool_opts_t`.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct PoolOpts(pub BTreeMap<PoolOptKey, PoolOpt>);

impl PoolOpts {
    pub fn get(&self, key: PoolOptKey) -> Option<&PoolOpt> {
        self.0.get(&key)
    }

    pub fn int(&self, key: PoolOptKey) -> Option<i64> {
        if let Some(PoolOpt::Int(value)) = self.get(key) { Some(*value) } else { None }
    }

    pub fn double(&self, key: PoolOptKey) -> Option<f64> {
        if let Some(PoolOpt::Double(value)) = self.get(key) { Some(*value) } else { None }
    }
}

/// Numbers of the kinds of values in encoded options.
mod kind_code {
    pub const STR: i32 = 0;
    pub const INT: i32 = 1;
    pub const DOUBLE: i32 = 2;
}

/// First version of encoded options whose integers have 64 bits. Before Nautilus they had 32.
const LONG_INTEGERS: u8 = 2;

impl Encode for PoolOpts {
    fn encode(&self, w: &mut Writer) {
        w.versioned(LONG_INTEGERS, 1, |w| {
            w.count(self.0.len());
            for (key, value) in &self.0 {
                w.i32(key.0);
                match value {
                    PoolOpt::Str(text) => {
                        w.i32(kind_code::STR);
                        w.str(text);
                    }
                    PoolOpt::Int(value) => {
                        w.i32(kind_code::INT);
                        w.i64(*value);
                    }
                    PoolOpt::Double(value) => {
                        w.i32(kind_code::DOUBLE);
                        w.f64(*value);
                    }
                }
            }
        });
    }
}

impl Decode for PoolOpts {
    const MIN_BYTES: usize = 10;

    fn decode(r: &mut Reader<'_>) -> Result<PoolOpts, DecodeError> {
        let (head, mut r) = r.versioned("pool options", LONG_INTEGERS)?;
        let mut opts = BTreeMap::new();
        for _ in 0..r.count("pool options", 12)? {
            let key = PoolOptKey(r.i32()?);
            let value = match r.i32()? {
                kind_code::STR => PoolOpt::Str(r.get()?),
                kind_code::INT if head.version < LONG_INTEGERS => PoolOpt::Int(r.i32()?.into()),
                kind_code::INT => PoolOpt::Int(r.i64()?),
                kind_code::DOUBLE => PoolOpt::Double(r.f64()?),
                kind => return Err(DecodeError::Value { what: "kind of a pool option", value: kind as u32 as u64 }),
            };
            opts.insert(key, value);
        }
        Ok(PoolOpts(opts))
    }
}
