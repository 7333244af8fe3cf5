//! `ceph osd pool get` and `ceph osd pool set`.

use super::command::Command;
use super::context::Context;
use super::pool_print::{opt_text, opt_value};
use super::{Answer, Format, Reply, done, refuse};
use crate::options::value::parse_size;
use crate::osd_shards;
use crate::pg_numbers::{check_growth, end_orders};
use crate::pools::pg_num_max;
use osdmap::{AutoscaleMode, PgPool, PoolFlags, PoolOpt, PoolOptKey};
use serde_json::{Map, Value, json};
use types::{Errno, PoolId};

pub(super) const COMMANDS: &[Command] = &[
    Command::new(
        "osd pool get {pool:Poolname} {var:Choices,strings=size|min_size|pg_num|pgp_num|crush_rule|hashpspool|nodelete|\
         nopgchange|nosizechange|write_fadvise_dontneed|noscrub|nodeep-scrub|hit_set_type|hit_set_period|hit_set_count|\
         hit_set_fpp|use_gmt_hitset|target_max_objects|target_max_bytes|cache_target_dirty_ratio|\
         cache_target_dirty_high_ratio|cache_target_full_ratio|cache_min_flush_age|cache_min_evict_age|\
         erasure_code_profile|min_read_recency_for_promote|all|min_write_recency_for_promote|fast_read|\
         hit_set_grade_decay_rate|hit_set_search_last_n|scrub_min_interval|scrub_max_interval|deep_scrub_interval|\
         recovery_priority|recovery_op_priority|scrub_priority|compression_mode|compression_algorithm|\
         compression_required_ratio|compression_max_blob_size|compression_min_blob_size|csum_type|csum_min_block|\
         csum_max_block|allow_ec_overwrites|fingerprint_algorithm|pg_autoscale_mode|pg_autoscale_bias|pg_num_min|\
         pg_num_max|target_size_bytes|target_size_ratio|dedup_tier|dedup_chunk_algorithm|dedup_cdc_chunk_size|bulk}",
        "r",
        "print a pool's settings",
        get,
    ),
    Command::new(
        "osd pool set {pool:Poolname} {var:Choices,strings=size|min_size|pg_num|pgp_num|pgp_num_actual|crush_rule|\
         hashpspool|nodelete|nopgchange|nosizechange|write_fadvise_dontneed|noscrub|nodeep-scrub|hit_set_type|\
         hit_set_period|hit_set_count|hit_set_fpp|use_gmt_hitset|target_max_bytes|target_max_objects|\
         cache_target_dirty_ratio|cache_target_dirty_high_ratio|cache_target_full_ratio|cache_min_flush_age|\
         cache_min_evict_age|min_read_recency_for_promote|min_write_recency_for_promote|fast_read|\
         hit_set_grade_decay_rate|hit_set_search_last_n|scrub_min_interval|scrub_max_interval|deep_scrub_interval|\
         recovery_priority|recovery_op_priority|scrub_priority|compression_mode|compression_algorithm|\
         compression_required_ratio|compression_max_blob_size|compression_min_blob_size|csum_type|csum_min_block|\
         csum_max_block|allow_ec_overwrites|fingerprint_algorithm|pg_autoscale_mode|pg_autoscale_bias|pg_num_min|\
         pg_num_max|target_size_bytes|target_size_ratio|dedup_tier|dedup_chunk_algorithm|dedup_cdc_chunk_size|bulk} \
         {val:String} {yes_i_really_mean_it:Bool,req=false}",
        "rw",
        "change a pool's settings",
        set,
    ),
];

/// Settings that only cache tiers have.
const TIER_ONLY: &[&str] = &[
    "hit_set_type",
    "hit_set_period",
    "hit_set_count",
    "hit_set_fpp",
    "target_max_objects",
    "target_max_bytes",
    "cache_target_dirty_ratio",
    "cache_target_dirty_high_ratio",
    "cache_target_full_ratio",
    "cache_min_flush_age",
    "cache_min_evict_age",
    "min_read_recency_for_promote",
    "min_write_recency_for_promote",
    "hit_set_grade_decay_rate",
    "hit_set_search_last_n",
];
const ERASURE_ONLY: &[&str] = &["allow_ec_overwrites", "erasure_code_profile"];

/// Settings in the order of `osd pool get POOL all`.
const ALL: &[&str] = &[
    "size",
    "min_size",
    "pg_num",
    "pgp_num",
    "crush_rule",
    "hashpspool",
    "allow_ec_overwrites",
    "nodelete",
    "nopgchange",
    "nosizechange",
    "write_fadvise_dontneed",
    "noscrub",
    "nodeep-scrub",
    "use_gmt_hitset",
    "erasure_code_profile",
    "fast_read",
    "scrub_min_interval",
    "scrub_max_interval",
    "deep_scrub_interval",
    "recovery_priority",
    "recovery_op_priority",
    "scrub_priority",
    "compression_mode",
    "compression_algorithm",
    "compression_required_ratio",
    "compression_max_blob_size",
    "compression_min_blob_size",
    "csum_type",
    "csum_max_block",
    "csum_min_block",
    "fingerprint_algorithm",
    "pg_autoscale_mode",
    "pg_num_min",
    "target_size_bytes",
    "target_size_ratio",
    "pg_autoscale_bias",
    "dedup_tier",
    "dedup_chunk_algorithm",
    "dedup_cdc_chunk_size",
    "bulk",
];

/// Names of checksums by their numbers in the protocol.
const CHECKSUMS: &[&str] = &["", "none", "xxhash32", "xxhash64", "crc32c", "crc32c_16", "crc32c_8"];

/// Returns a setting as text and as value; `None` if the pool does not have it set.
fn setting(c: &Context<'_>, pool: &PgPool, var: &str) -> Option<(String, Value)> {
    let number = |n: u32| Some((n.to_string(), json!(n)));
    match var {
        "size" => number(pool.size.into()),
        "min_size" => number(pool.min_size.into()),
        "pg_num" => number(pool.pg_num),
        "pgp_num" => number(pool.pgp_num),
        "crush_rule" => {
            let rule = c.crush().rule_name(pool.crush_rule.into());
            let rule = rule.map_or_else(|| pool.crush_rule.to_string(), str::to_owned);
            Some((rule.clone(), json!(rule)))
        }
        "erasure_code_profile" => Some((pool.erasure_code_profile.clone(), json!(pool.erasure_code_profile))),
        "fast_read" => number(pool.fast_read.into()),
        "use_gmt_hitset" => Some((u8::from(pool.use_gmt_hitset).to_string(), json!(pool.use_gmt_hitset))),
        "pg_autoscale_mode" => {
            let name = pool.autoscale_mode.name();
            Some((name.to_owned(), json!(name)))
        }
        _ => {
            if let Some(flag) = flag(var) {
                let on = pool.flags.contains(flag);
                return Some((on.to_string(), json!(on)));
            }
            let value = pool.opts.get(PoolOptKey::from_name(var)?)?;
            if let (true, PoolOpt::Int(n)) = (var == "csum_type", value) {
                let name = usize::try_from(*n).ok().and_then(|n| CHECKSUMS.get(n)).copied().unwrap_or("unknown");
                return Some((name.to_owned(), json!(name)));
            }
            Some((opt_text(value), opt_value(value)))
        }
    }
}

/// Returns the flag that a setting switches.
fn flag(var: &str) -> Option<PoolFlags> {
    Some(match var {
        "hashpspool" => PoolFlags::HASHPSPOOL,
        "nodelete" => PoolFlags::NODELETE,
        "nopgchange" => PoolFlags::NOPGCHANGE,
        "nosizechange" => PoolFlags::NOSIZECHANGE,
        "write_fadvise_dontneed" => PoolFlags::WRITE_FADVISE_DONTNEED,
        "noscrub" => PoolFlags::NOSCRUB,
        "nodeep-scrub" => PoolFlags::NODEEP_SCRUB,
        "allow_ec_overwrites" => PoolFlags::EC_OVERWRITES,
        "bulk" => PoolFlags::BULK,
        _ => return None,
    })
}

fn get(c: &Context<'_>) -> Answer {
    let (id, name, pool) = c.pool("pool")?;
    let var = c.args.word("var");
    let wanted: Vec<&str> = match var {
        "all" => ALL.iter().copied().filter(|var| pool.is_erasure() || !ERASURE_ONLY.contains(var)).collect(),
        var => {
            if TIER_ONLY.contains(&var) {
                let sentence = format!("pool '{name}' is not a tier pool: variable not applicable");
                return refuse(Errno::EACCES, sentence);
            }
            if ERASURE_ONLY.contains(&var) && !pool.is_erasure() {
                let sentence = format!("pool '{name}' is not a erasure pool: variable not applicable");
                return refuse(Errno::EACCES, sentence);
            }
            vec![var]
        }
    };
    let found: Vec<(&str, (String, Value))> =
        wanted.iter().filter_map(|var| Some((*var, setting(c, pool, var)?))).collect();
    if found.is_empty() {
        return refuse(Errno::ENOENT, format!("option '{var}' is not set on pool '{name}'"));
    }
    if c.format == Format::Plain {
        return c.text(found.iter().map(|(var, (text, _))| format!("{var}: {text}\n")).collect::<String>());
    }
    let mut object = Map::new();
    object.insert("pool".to_owned(), json!(name));
    object.insert("pool_id".to_owned(), json!(id.0));
    for (var, (_, value)) in found {
        object.insert(var.to_owned(), value);
    }
    c.value(Value::Object(object))
}

fn truth(text: &str) -> Result<bool, Reply> {
    match text {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => refuse(Errno::EINVAL, "expecting value 'true', 'false', '0', or '1'"),
    }
}

fn integer(text: &str) -> Result<i64, Reply> {
    text.parse().map_err(|_| {
        let sentence =
            format!("error parsing integer value '{text}': Expected option value to be integer, got '{text}'");
        Reply::error(Errno::EINVAL, sentence)
    })
}

fn set(c: &Context<'_>) -> Answer {
    let (id, name, pool) = c.pool("pool")?;
    let (var, val) = (c.args.word("var"), c.args.word("val"));
    let status = format!("set pool {id} {var} to {val}");
    if TIER_ONLY.contains(&var) || var == "use_gmt_hitset" {
        return refuse(Errno::EACCES, format!("pool '{name}' is not a tier pool: variable not applicable"));
    }
    match var {
        "size" => set_size(c, id, pool, val),
        "min_size" if pool.flags.contains(PoolFlags::NOSIZECHANGE) => {
            let sentence = "pool min size change is disabled; you must unset nosizechange flag for the pool first";
            refuse(Errno::EPERM, sentence)
        }
        "min_size" => {
            let n = integer(val)?;
            let least = crate::erasure_pools::data_shards(c.map(), pool);
            if !(least as i64..=i64::from(pool.size)).contains(&n) {
                let size = pool.size;
                let sentence = format!("pool min_size must be between {least} and size, which is set to {size}");
                return refuse(Errno::EINVAL, sentence);
            }
            c.change_pool(id, status, |pool| pool.min_size = n as u8)
        }
        "pg_num" => set_pg_num(c, id, pool, val),
        "pgp_num" | "pgp_num_actual" => set_pgp_num(c, id, pool, var, val),
        "crush_rule" => {
            let Some(rule) = c.crush().rule_by_name(val) else {
                return refuse(Errno::ENOENT, format!("crush rule {val} does not exist"));
            };
            let kind = if pool.is_erasure() { crush::RuleKind::ERASURE } else { crush::RuleKind::REPLICATED };
            if c.crush().rule(rule).is_none_or(|rule| rule.kind != kind) {
                return refuse(Errno::EINVAL, format!("crush rule {val} type does not match pool"));
            }
            c.change_pool(id, status, |pool| pool.crush_rule = rule as u8)
        }
        "pg_autoscale_mode" => {
            let Some(mode) = AutoscaleMode::from_name(val) else {
                return refuse(Errno::EINVAL, format!("specified invalid mode {val}"));
            };
            c.change_pool(id, status, |pool| pool.autoscale_mode = mode)
        }
        "fast_read" => {
            if !pool.is_erasure() {
                return refuse(Errno::EINVAL, "fast read is not supported in replication pool");
            }
            let on = truth(val)?;
            c.change_pool(id, status, |pool| pool.fast_read = on)
        }
        "allow_ec_overwrites" if !pool.is_erasure() => {
            refuse(Errno::EINVAL, "ec overwrites can only be enabled for an erasure coded pool")
        }
        "hashpspool" if !c.args.flag("yes_i_really_mean_it") => refuse(
            Errno::EPERM,
            "are you SURE?  this will remap all placement groups in this pool, this triggers large data movement, pass \
             --yes-i-really-mean-it if you really do.",
        ),
        _ => match flag(var) {
            Some(flag) => {
                let on = truth(val)?;
                c.change_pool(id, status, |pool| pool.flags.set(flag, on))
            }
            None => set_option(c, id, pool, var, val),
        },
    }
}

fn set_size(c: &Context<'_>, id: PoolId, pool: &PgPool, val: &str) -> Answer {
    let n = integer(val)?;
    if pool.flags.contains(PoolFlags::NOSIZECHANGE) {
        let sentence = "pool size change is disabled; you must unset nosizechange flag for the pool first";
        return refuse(Errno::EPERM, sentence);
    }
    if pool.is_erasure() {
        return refuse(Errno::EOPNOTSUPP, "can not change the size of an erasure-coded pool");
    }
    if !(1..=10).contains(&n) {
        return refuse(Errno::EINVAL, "pool size must be between 1 and 10");
    }
    if n == 1 && !c.args.flag("yes_i_really_mean_it") {
        let sentence = "WARNING: setting pool size 1 could lead to data loss without recovery. If you are *ABSOLUTELY \
                        CERTAIN* that is what you want, pass the flag --yes-i-really-mean-it.";
        return refuse(Errno::EPERM, sentence);
    }
    let size = n as u8;
    c.change_pool(id, format!("set pool {id} size to {val}"), |pool| {
        // `min_size` becomes that of a new pool of this size.
        pool.min_size = size - size / 2;
        pool.size = size;
    })
}

/// Sets the number of placement groups that the pool should have; the cluster gets there step by step.
fn set_pg_num(c: &Context<'_>, id: PoolId, pool: &PgPool, val: &str) -> Answer {
    let n = integer(val)?;
    if n == i64::from(pool.pg_num_target) {
        return done("");
    }
    check_pg_change(pool, "pg_num")?;
    let most = pg_num_max(c.state);
    if !(1..=i64::from(most)).contains(&n) {
        let sentence = format!(
            "'pg_num' must be greater than 0 and less than or equal to {most} (you may adjust 'mon max pool pg \
             num' for higher values)"
        );
        return refuse(Errno::ERANGE, sentence);
    }
    let bound = |key| pool.opts.int(key).filter(|bound| *bound > 0);
    if let Some(min) = bound(PoolOptKey::PG_NUM_MIN).filter(|min| n < *min) {
        return refuse(Errno::EINVAL, format!("specified pg_num {n} < pg_num_min {min}"));
    }
    if let Some(max) = bound(PoolOptKey::PG_NUM_MAX).filter(|max| n > *max) {
        return refuse(Errno::EINVAL, format!("specified pg_num {n} > pg_num_max {max}"));
    }
    let pg_num = n as u32;
    if let Some((osd, shards)) = osd_shards::most(c.state).filter(|(_, shards)| pg_num < pool.pg_num.min(*shards)) {
        let sentence = format!(
            "specified pg_num {pg_num} < {shards}, the number of shards of {osd}: it could not merge groups on \
             different shards"
        );
        return refuse(Errno::EINVAL, sentence);
    }
    if pg_num > pool.pg_num {
        check_growth(c.state, pool, pg_num).map_err(|e| Reply::error(e.errno(), e.to_string()))?;
    }
    // A `pgp_num` that was set apart stays so, as far as there are groups.
    let follows = pool.pgp_num_target == pool.pg_num_target;
    let pgp_num_target = if follows { pg_num } else { pool.pgp_num_target.min(pg_num) };
    c.change_map(format!("set pool {id} pg_num to {val}"), |incremental| {
        if pool.is_erasure() {
            end_orders(c.map(), id, pg_num, incremental);
        }
        let last_change = incremental.epoch;
        let changed = PgPool { pg_num_target: pg_num, pgp_num_target, last_change, ..pool.clone() };
        incremental.new_pools.insert(id, changed);
    })
}

/// Sets the number of groups by which the pool's groups are placed.
fn set_pgp_num(c: &Context<'_>, id: PoolId, pool: &PgPool, var: &str, val: &str) -> Answer {
    let n = integer(val)?;
    if n == i64::from(pool.pgp_num_target) {
        return done("");
    }
    check_pg_change(pool, var)?;
    if n <= 0 {
        return refuse(Errno::EINVAL, format!("specified pgp_num must > 0, but you set to {n}"));
    }
    if n > i64::from(pool.pg_num_target) {
        return refuse(Errno::EINVAL, format!("specified pgp_num {n} > pg_num {}", pool.pg_num_target));
    }
    c.change_pool(id, format!("set pool {id} {var} to {val}"), |pool| pool.pgp_num_target = n as u32)
}

fn check_pg_change(pool: &PgPool, var: &str) -> Result<(), Reply> {
    match pool.flags.contains(PoolFlags::NOPGCHANGE) {
        true => refuse(
            Errno::EPERM,
            format!("pool {var} change is disabled; you must unset nopgchange flag for the pool first"),
        ),
        false => Ok(()),
    }
}

/// Sets numbers or words in the pool's list of options. Zero or an empty word removes one.
fn set_option(c: &Context<'_>, id: PoolId, pool: &PgPool, var: &str, val: &str) -> Answer {
    let Some(key) = PoolOptKey::from_name(var) else {
        return refuse(Errno::EINVAL, format!("unrecognized variable '{var}'"));
    };
    let value = match var {
        "target_size_bytes"
        | "compression_max_blob_size"
        | "compression_min_blob_size"
        | "csum_max_block"
        | "csum_min_block" => parse_size(val).ok().and_then(|n| i64::try_from(n).ok()).map(PoolOpt::Int),
        "csum_type" if val == "unset" => Some(PoolOpt::Int(0)),
        "csum_type" => {
            let number = CHECKSUMS.iter().position(|name| *name == val && !val.is_empty());
            number.map(|n| PoolOpt::Int(n as i64))
        }
        _ => key.parse(val),
    };
    let Some(value) = value else {
        return refuse(Errno::EINVAL, format!("error parsing value '{val}' of {var}"));
    };
    check_option(pool, var, val, &value)?;
    let removes = match &value {
        PoolOpt::Str(text) => text.is_empty() || text == "unset",
        PoolOpt::Int(n) => *n == 0,
        PoolOpt::Double(f) => *f == 0.0,
    };
    let status =
        if val == "unset" { format!("unset pool {id} {var}") } else { format!("set pool {id} {var} to {val}") };
    c.change_pool(id, status, |pool| {
        if removes {
            pool.opts.0.remove(&key);
        } else {
            pool.opts.0.insert(key, value);
        }
    })
}

fn check_option(pool: &PgPool, var: &str, val: &str, value: &PoolOpt) -> Result<(), Reply> {
    let int = if let PoolOpt::Int(n) = value { *n } else { 0 };
    let float = if let PoolOpt::Double(f) = value { *f } else { 0.0 };
    let invalid = |sentence: String| refuse(Errno::EINVAL, sentence);
    match var {
        "recovery_priority" if !(-10..=10).contains(&int) => {
            invalid("pool recovery_priority must be between -10 and 10".to_owned())
        }
        "pg_num_min" if int > i64::from(pool.pg_num_target) => {
            invalid(format!("specified pg_num_min {int} > pg_num {}", pool.pg_num_target))
        }
        "compression_mode" if !["none", "passive", "aggressive", "force", "unset", ""].contains(&val) => {
            invalid(format!("unrecognized compression mode '{val}'"))
        }
        "compression_algorithm" if !["none", "snappy", "zlib", "zstd", "lz4", "unset", ""].contains(&val) => {
            invalid(format!("unrecognized compression_algorithm '{val}'"))
        }
        "compression_required_ratio" if !(0.0..=1.0).contains(&float) => {
            invalid(format!("compression_required_ratio is out of range (0-1): '{val}'"))
        }
        "target_size_ratio" if float < 0.0 => invalid(format!("target_size_ratio cannot be negative: '{val}'")),
        _ => Ok(()),
    }
}
