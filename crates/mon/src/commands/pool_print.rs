//! A pool as a line of text and as a value.

use super::context::{short_float, stamp};
use super::osd_dump::intervals_text;
use osdmap::{PgPool, PoolOpt, PoolOptKey};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use types::PoolId;

/// Returns a pool as `ceph osd pool ls detail` prints it, without an end of line.
pub(super) fn text(id: PoolId, name: &str, pool: &PgPool) -> String {
    let mut out = format!("pool {id} '{name}' {}", pool.kind.name());
    let mut add = |text: std::fmt::Arguments<'_>| out.write_fmt(text).expect("writing to a string");
    if pool.is_erasure() {
        add(format_args!(" profile {}", pool.erasure_code_profile));
    }
    add(format_args!(" size {} min_size {} crush_rule {}", pool.size, pool.min_size, pool.crush_rule));
    add(format_args!(" object_hash {}", if pool.object_hash == 2 { "rjenkins" } else { "linux" }));
    add(format_args!(" pg_num {} pgp_num {}", pool.pg_num, pool.pgp_num));
    if pool.pg_num_target != pool.pg_num {
        add(format_args!(" pg_num_target {}", pool.pg_num_target));
    }
    if pool.pgp_num_target != pool.pgp_num {
        add(format_args!(" pgp_num_target {}", pool.pgp_num_target));
    }
    if pool.pg_num_pending != pool.pg_num {
        add(format_args!(" pg_num_pending {}", pool.pg_num_pending));
    }
    add(format_args!(" autoscale_mode {} last_change {}", pool.autoscale_mode.name(), pool.last_change.0));
    let resend =
        [pool.last_force_op_resend, pool.last_force_op_resend_prenautilus, pool.last_force_op_resend_preluminous];
    if resend.iter().any(|epoch| epoch.0 != 0) {
        add(format_args!(" lfor {}/{}/{}", resend[0].0, resend[1].0, resend[2].0));
    }
    if !pool.flags.is_empty() {
        add(format_args!(" flags {}", pool.flags.names()));
    }
    if pool.quota_max_bytes != 0 {
        add(format_args!(" max_bytes {}", pool.quota_max_bytes));
    }
    if pool.quota_max_objects != 0 {
        add(format_args!(" max_objects {}", pool.quota_max_objects));
    }
    add(format_args!(" stripe_width {}", pool.stripe_width));
    if pool.expected_num_objects != 0 {
        add(format_args!(" expected_num_objects {}", pool.expected_num_objects));
    }
    for (name, value) in sorted_opts(pool) {
        add(format_args!(" {name} {}", opt_text(value)));
    }
    if !pool.application_metadata.is_empty() {
        let names: Vec<&str> = pool.application_metadata.keys().map(String::as_str).collect();
        add(format_args!(" application {}", names.join(",")));
    }
    for snap in pool.snaps.values() {
        add(format_args!("\n\tsnap {} '{}' {}", snap.id.0, snap.name, snap.stamp));
    }
    out
}

fn sorted_opts(pool: &PgPool) -> Vec<(String, &PoolOpt)> {
    let name = |key: &PoolOptKey| key.name().map_or_else(|| format!("option_{}", key.0), str::to_owned);
    let mut opts: Vec<_> = pool.opts.0.iter().map(|(key, value)| (name(key), value)).collect();
    opts.sort_by(|a, b| a.0.cmp(&b.0));
    opts
}

/// Returns an optional setting's value.
pub(super) fn opt_text(value: &PoolOpt) -> String {
    match value {
        PoolOpt::Str(text) => text.clone(),
        PoolOpt::Int(n) => n.to_string(),
        PoolOpt::Double(f) => short_float(*f),
    }
}

pub(super) fn opt_value(value: &PoolOpt) -> Value {
    match value {
        PoolOpt::Str(text) => json!(text),
        PoolOpt::Int(n) => json!(n),
        PoolOpt::Double(f) => json!(f),
    }
}

/// Returns all fields; `id_key` is `pool` in the map's dump and `pool_id` in listings.
pub(super) fn value(id_key: &str, id: PoolId, name: Option<&str>, pool: &PgPool) -> Value {
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| drop(object.insert(key.to_owned(), value));
    put(id_key, json!(id.0));
    put("pool_name", json!(name.unwrap_or_default()));
    put("create_time", json!(stamp(pool.create_time)));
    put("flags", json!(pool.flags.0));
    put("flags_names", json!(pool.flags.names()));
    put("type", json!(pool.kind.0));
    put("size", json!(pool.size));
    put("min_size", json!(pool.min_size));
    put("crush_rule", json!(pool.crush_rule));
    let peering = pool.peering_crush.as_ref();
    put("peering_crush_bucket_count", json!(peering.map_or(0, |p| p.bucket_count)));
    put("peering_crush_bucket_target", json!(peering.map_or(0, |p| p.bucket_target)));
    put("peering_crush_bucket_barrier", json!(peering.map_or(0, |p| p.bucket_barrier)));
    put("peering_crush_bucket_mandatory_member", json!(peering.map_or(crush::ITEM_NONE, |p| p.mandatory_member)));
    put("object_hash", json!(pool.object_hash));
    put("pg_autoscale_mode", json!(pool.autoscale_mode.name()));
    put("pg_num", json!(pool.pg_num));
    put("pg_placement_num", json!(pool.pgp_num));
    put("pg_placement_num_target", json!(pool.pgp_num_target));
    put("pg_num_target", json!(pool.pg_num_target));
    put("pg_num_pending", json!(pool.pg_num_pending));
    let merge = &pool.last_pg_merge_meta;
    put(
        "last_pg_merge_meta",
        json!({
            "source_pgid": merge.source.to_string(),
            "ready_epoch": merge.ready_epoch.0,
            "last_epoch_started": merge.last_epoch_started.0,
            "last_epoch_clean": merge.last_epoch_clean.0,
            "source_version": merge.source_version.to_string(),
            "target_version": merge.target_version.to_string(),
        }),
    );
    // Ceph prints these epochs as texts.
    put("last_change", json!(pool.last_change.0.to_string()));
    put("last_force_op_resend", json!(pool.last_force_op_resend.0.to_string()));
    put("last_force_op_resend_prenautilus", json!(pool.last_force_op_resend_prenautilus.0.to_string()));
    put("last_force_op_resend_preluminous", json!(pool.last_force_op_resend_preluminous.0.to_string()));
    put("auid", json!(pool.auid));
    let by_pool = pool.flags.contains(osdmap::PoolFlags::POOL_SNAPS) || !pool.snaps.is_empty();
    put("snap_mode", json!(if by_pool { "pool" } else { "selfmanaged" }));
    put("snap_seq", json!(pool.snap_seq.0));
    put("snap_epoch", json!(pool.snap_epoch.0));
    let snaps = pool.snaps.values();
    put("pool_snaps", snaps.map(|s| json!({"snapid": s.id.0, "stamp": stamp(s.stamp), "name": s.name})).collect());
    put("removed_snaps", json!(intervals_text(&pool.removed_snaps)));
    put("quota_max_bytes", json!(pool.quota_max_bytes));
    put("quota_max_objects", json!(pool.quota_max_objects));
    put("tiers", pool.tiers.iter().map(|tier| json!(tier.0)).collect());
    put("tier_of", json!(pool.tier_of.0));
    put("read_tier", json!(pool.read_tier.0));
    put("write_tier", json!(pool.write_tier.0));
    let cache_modes = ["none", "writeback", "forward", "readonly", "readforward", "readproxy", "proxy"];
    put("cache_mode", json!(cache_modes.get(usize::from(pool.cache_mode)).copied().unwrap_or("unknown")));
    put("target_max_bytes", json!(pool.target_max_bytes));
    put("target_max_objects", json!(pool.target_max_objects));
    put("cache_target_dirty_ratio_micro", json!(pool.cache_target_dirty_ratio_micro));
    put("cache_target_dirty_high_ratio_micro", json!(pool.cache_target_dirty_high_ratio_micro));
    put("cache_target_full_ratio_micro", json!(pool.cache_target_full_ratio_micro));
    put("cache_min_flush_age", json!(pool.cache_min_flush_age));
    put("cache_min_evict_age", json!(pool.cache_min_evict_age));
    put("erasure_code_profile", json!(pool.erasure_code_profile));
    put("hit_set_params", json!({"type": "none"}));
    put("hit_set_period", json!(pool.hit_set_period));
    put("hit_set_count", json!(pool.hit_set_count));
    put("use_gmt_hitset", json!(pool.use_gmt_hitset));
    put("min_read_recency_for_promote", json!(pool.min_read_recency_for_promote));
    put("min_write_recency_for_promote", json!(pool.min_write_recency_for_promote));
    put("hit_set_grade_decay_rate", json!(pool.hit_set_grade_decay_rate));
    put("hit_set_search_last_n", json!(pool.hit_set_search_last_n));
    put("grade_table", json!([]));
    put("stripe_width", json!(pool.stripe_width));
    put("expected_num_objects", json!(pool.expected_num_objects));
    put("fast_read", json!(pool.fast_read));
    let opts = sorted_opts(pool).into_iter().map(|(name, value)| (name, opt_value(value)));
    put("options", Value::Object(opts.collect()));
    put("application_metadata", json!(pool.application_metadata));
    Value::Object(object)
}
