//! `ceph osd dump`, `ceph osd info`: the OSD map as text and as values.

use super::command::Command;
use super::context::{Context, addrs_value, legacy_addr, osds_text, osds_value, short_float, stamp, weight};
use super::{Answer, osd_tree, pool_print, refuse};
use osdmap::{Osd, OsdMap, OsdState, PRIMARY_AFFINITY_MAX};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use types::{Errno, OsdId, PoolId};
use wire::basic::IntervalSet;
use wire::{EntityAddrVec, Release};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("osd dump {epoch:Int,range=0,req=false}", "r", "print the OSD map", dump),
    Command::new("osd info {id:OsdName,req=false}", "r", "print what the map says of one OSD or of all", info),
];

fn dump(c: &Context<'_>) -> Answer {
    let map = osd_tree::map_at(c)?;
    c.either(|| text(&map), || value(&map))
}

/// Returns the oldest release whose clients understand everything in the map.
pub(super) fn min_compat_client(map: &OsdMap) -> Release {
    if !map.pg_upmap.is_empty() || !map.pg_upmap_items.is_empty() || map.crush.choose_args().next().is_some() {
        return Release::LUMINOUS;
    }
    let tunables = map.crush.tunables();
    match () {
        () if tunables.chooseleaf_stable != 0 => Release::JEWEL,
        () => Release(8),
    }
}

fn text(map: &OsdMap) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    line(format!("epoch {}", map.epoch.0));
    line(format!("fsid {}", map.fsid));
    line(format!("created {}", stamp(map.created)));
    line(format!("modified {}", stamp(map.modified)));
    line(format!("flags {}", map.flags.names()));
    line(format!("crush_version {}", map.crush_version));
    line(format!("full_ratio {}", short_float(map.full_ratio.into())));
    line(format!("backfillfull_ratio {}", short_float(map.backfillfull_ratio.into())));
    line(format!("nearfull_ratio {}", short_float(map.nearfull_ratio.into())));
    line(format!("require_min_compat_client {}", map.require_min_compat_client.name()));
    line(format!("min_compat_client {}", min_compat_client(map).name()));
    line(format!("require_osd_release {}", map.require_osd_release.name()));
    line(format!("stretch_mode_enabled {}", map.stretch_mode.enabled));
    for (id, pool) in &map.pools {
        line(pool_print::text(*id, map.pool_name(*id).unwrap_or_default(), pool));
        if let Some(queue) = map.removed_snaps_queue.get(id).filter(|queue| !queue.is_empty()) {
            line(format!("\tremoved_snaps_queue {}", intervals_text(queue)));
        }
    }
    line(format!("max_osd {}", map.max_osd()));
    for (id, osd) in map.osds() {
        line(osd_text(map, id, osd));
    }
    for (pg, osds) in &map.pg_upmap {
        line(format!("pg_upmap {pg} {}", osds_text(osds)));
    }
    for (pg, pairs) in &map.pg_upmap_items {
        let flat: Vec<OsdId> = pairs.iter().flat_map(|(from, to)| [*from, *to]).collect();
        line(format!("pg_upmap_items {pg} {}", osds_text(&flat)));
    }
    for (pg, osds) in &map.pg_temp {
        line(format!("pg_temp {pg} {}", osds_text(osds.shown())));
    }
    for (pg, osd) in &map.primary_temp {
        line(format!("primary_temp {pg} {}", osd.0));
    }
    for (addr, until) in &map.blocklist {
        line(format!("blocklist {addr} expires {until}"));
    }
    for (addr, until) in &map.range_blocklist {
        line(format!("range blocklist {addr} expires {until}"));
    }
    out
}

/// Returns one OSD's line.
pub(super) fn osd_text(map: &OsdMap, id: OsdId, osd: &Osd) -> String {
    let mut out = id.to_string();
    out.push_str(if osd.is_up() { " up  " } else { " down" });
    out.push_str(if map.is_in(id) { " in " } else { " out" });
    let mut add = |text: std::fmt::Arguments<'_>| out.write_fmt(text).expect("writing to a string");
    add(format_args!(" weight {}", short_float(weight(map.weight(id)))));
    if map.primary_affinity(id) != PRIMARY_AFFINITY_MAX {
        add(format_args!(" primary_affinity {}", short_float(weight(map.primary_affinity(id)))));
    }
    let at = &osd.info;
    let (up_from, up_thru, down_at) = (at.up_from.0, at.up_thru.0, at.down_at.0);
    add(format_args!(" up_from {up_from} up_thru {up_thru} down_at {down_at}"));
    add(format_args!(" last_clean_interval [{},{})", at.last_clean_begin.0, at.last_clean_end.0));
    if at.lost_at.0 != 0 {
        add(format_args!(" lost_at {}", at.lost_at.0));
    }
    let addrs = |addrs: &EntityAddrVec| if addrs.0.is_empty() { String::new() } else { addrs.to_string() };
    add(format_args!(" {} {}", addrs(&osd.client_addrs), addrs(&osd.cluster_addrs)));
    add(format_args!(" {}", state_names(osd.state).join(",")));
    if !osd.uuid.is_zero() {
        add(format_args!(" {}", osd.uuid));
    }
    out
}

pub(super) fn state_names(state: OsdState) -> Vec<&'static str> {
    let mut names: Vec<_> = state.iter_names().collect();
    names.sort_unstable();
    names
}

/// Returns the whole map as a value.
pub(super) fn value(map: &OsdMap) -> Value {
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| drop(object.insert(key.to_owned(), value));
    put("epoch", json!(map.epoch.0));
    put("fsid", json!(map.fsid.to_string()));
    put("created", json!(stamp(map.created)));
    put("modified", json!(stamp(map.modified)));
    put("last_up_change", json!(stamp(map.last_up_change)));
    put("last_in_change", json!(stamp(map.last_in_change)));
    put("flags", json!(map.flags.names()));
    put("flags_num", json!(map.flags.0));
    let mut flags: Vec<_> = map.flags.iter_names().collect();
    flags.sort_unstable();
    put("flags_set", json!(flags));
    put("crush_version", json!(map.crush_version));
    put("full_ratio", json!(f64::from(map.full_ratio)));
    put("backfillfull_ratio", json!(f64::from(map.backfillfull_ratio)));
    put("nearfull_ratio", json!(f64::from(map.nearfull_ratio)));
    put("cluster_snapshot", json!(map.cluster_snapshot));
    put("pool_max", json!(map.pool_max));
    put("max_osd", json!(map.max_osd()));
    put("require_min_compat_client", json!(map.require_min_compat_client.name()));
    put("min_compat_client", json!(min_compat_client(map).name()));
    put("require_osd_release", json!(map.require_osd_release.name()));
    let pools = map.pools.iter();
    put("pools", pools.map(|(id, pool)| pool_print::value("pool", *id, map.pool_name(*id), pool)).collect());
    put("osds", map.osds().map(|(id, osd)| osd_value(map, id, osd)).collect());
    put("osd_xinfo", map.osds().map(|(id, osd)| xinfo_value(id, osd)).collect());
    let upmaps = map.pg_upmap.iter().map(|(pg, osds)| json!({"pgid": pg.to_string(), "osds": osds_value(osds)}));
    put("pg_upmap", upmaps.collect());
    let upmap_items = map.pg_upmap_items.iter().map(|(pg, pairs)| {
        let mappings: Vec<Value> = pairs.iter().map(|(from, to)| json!({"from": from.0, "to": to.0})).collect();
        json!({"pgid": pg.to_string(), "mappings": mappings})
    });
    put("pg_upmap_items", upmap_items.collect());
    let temps = map.pg_temp.iter().map(|(pg, osds)| json!({"pgid": pg.to_string(), "osds": osds_value(osds.shown())}));
    put("pg_temp", temps.collect());
    let primaries = map.primary_temp.iter().map(|(pg, osd)| json!({"pgid": pg.to_string(), "osd": osd.0}));
    put("primary_temp", primaries.collect());
    let until = |entries: &std::collections::BTreeMap<wire::EntityAddr, types::Utime>| {
        let mut object = Map::new();
        for (addr, until) in entries {
            object.insert(addr.to_string(), json!(until.to_string()));
        }
        Value::Object(object)
    };
    put("blocklist", until(&map.blocklist));
    put("range_blocklist", until(&map.range_blocklist));
    put("erasure_code_profiles", json!(map.erasure_code_profiles));
    put("removed_snaps_queue", snaps_value(&map.removed_snaps_queue));
    put("new_removed_snaps", snaps_value(&map.new_removed_snaps));
    put("new_purged_snaps", snaps_value(&map.new_purged_snaps));
    let flags_of = |entries: Vec<(String, OsdState)>| {
        let entries = entries.into_iter().map(|(name, flags)| (name, json!(state_names(flags))));
        Value::Object(entries.collect())
    };
    let node_name = |id: i32| map.crush.name(id).map_or_else(|| id.to_string(), str::to_owned);
    put("crush_node_flags", flags_of(map.crush_node_flags.iter().map(|(id, f)| (node_name(*id), *f)).collect()));
    let class_name = |id: i32| {
        let known = map.crush.classes().find(|(class, _)| *class == id);
        known.map_or_else(|| id.to_string(), |(_, name)| name.to_owned())
    };
    put("device_class_flags", flags_of(map.device_class_flags.iter().map(|(id, f)| (class_name(*id), *f)).collect()));
    let stretch = &map.stretch_mode;
    put(
        "stretch_mode",
        json!({
            "stretch_mode_enabled": stretch.enabled,
            "stretch_bucket_count": stretch.bucket_count,
            "degraded_stretch_mode": stretch.degraded,
            "recovering_stretch_mode": stretch.recovering,
            "stretch_mode_bucket": stretch.bucket,
        }),
    );
    Value::Object(object)
}

fn osd_value(map: &OsdMap, id: OsdId, osd: &Osd) -> Value {
    let at = &osd.info;
    json!({
        "osd": id.0,
        "uuid": osd.uuid.to_string(),
        "up": i32::from(osd.is_up()),
        "in": i32::from(map.is_in(id)),
        "weight": weight(map.weight(id)),
        "primary_affinity": weight(map.primary_affinity(id)),
        "last_clean_begin": at.last_clean_begin.0,
        "last_clean_end": at.last_clean_end.0,
        "up_from": at.up_from.0,
        "up_thru": at.up_thru.0,
        "down_at": at.down_at.0,
        "lost_at": at.lost_at.0,
        "public_addrs": addrs_value(&osd.client_addrs),
        "cluster_addrs": addrs_value(&osd.cluster_addrs),
        "heartbeat_back_addrs": addrs_value(&osd.hb_back_addrs),
        "heartbeat_front_addrs": addrs_value(&osd.hb_front_addrs),
        "public_addr": legacy_addr(&osd.client_addrs),
        "cluster_addr": legacy_addr(&osd.cluster_addrs),
        "heartbeat_back_addr": legacy_addr(&osd.hb_back_addrs),
        "heartbeat_front_addr": legacy_addr(&osd.hb_front_addrs),
        "state": state_names(osd.state),
    })
}

fn xinfo_value(id: OsdId, osd: &Osd) -> Value {
    let more = &osd.xinfo;
    json!({
        "osd": id.0,
        "down_stamp": stamp(more.down_stamp),
        "laggy_probability": f64::from(more.laggy_probability) / f64::from(u32::MAX),
        "laggy_interval": more.laggy_interval_s,
        "features": more.features,
        "old_weight": weight(more.old_weight),
        "last_purged_snaps_scrub": stamp(more.last_purged_snaps_scrub),
        "dead_epoch": more.dead_epoch.0,
    })
}

/// Returns runs of snapshots as `[1~2,5~1]`, in hexadecimal.
pub(super) fn intervals_text(set: &IntervalSet) -> String {
    let runs = set.runs().map(|(start, len)| format!("{start:x}~{len:x}"));
    format!("[{}]", runs.collect::<Vec<_>>().join(","))
}

fn snaps_value(pools: &std::collections::BTreeMap<PoolId, IntervalSet>) -> Value {
    let one = |(pool, set): (&PoolId, &IntervalSet)| {
        let runs: Vec<Value> = set.runs().map(|(begin, length)| json!({"begin": begin, "length": length})).collect();
        json!({"pool": pool.0, "snaps": runs})
    };
    pools.iter().map(one).collect()
}

fn info(c: &Context<'_>) -> Answer {
    let map = c.map();
    match c.args.osd("id") {
        Some(id) => {
            let Some(osd) = map.osd(id).filter(|_| map.exists(id)) else {
                return refuse(Errno::EINVAL, format!("{id} does not exist"));
            };
            c.either(|| format!("{}\n", osd_text(map, id, osd)), || osd_value(map, id, osd))
        }
        None => c.either(
            || map.osds().map(|(id, osd)| format!("{}\n", osd_text(map, id, osd))).collect(),
            || map.osds().map(|(id, osd)| osd_value(map, id, osd)).collect(),
        ),
    }
}
