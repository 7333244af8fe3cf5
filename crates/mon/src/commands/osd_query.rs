//! Questions about single OSDs and about the map as a whole.

use super::command::Command;
use super::context::{Context, addrs_value, osds_text, osds_value, primary_number, with_status};
use super::text_table::TextTable;
use super::{Answer, Outcome, Reply, osd_tree, refuse, units};
use crate::volatile::OsdStat;
use bytes::Bytes;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use types::{Epoch, Errno, OsdId, PgId};
use wire::basic::Locator;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("osd stat", "r", "print how many OSDs are up and in", stat),
    Command::new("osd ls {epoch:Int,range=0,req=false}", "r", "list OSDs", list),
    Command::new("osd find {id:OsdName}", "r", "print where an OSD is", find),
    Command::new("osd metadata {id:OsdName,req=false}", "r", "print what OSDs say about themselves", metadata),
    Command::new("osd versions", "r", "count the versions that OSDs run", versions),
    Command::new("osd count-metadata {property:String}", "r", "count OSDs by a property", count_metadata),
    Command::new(
        "osd map {pool:Poolname} {object:Objectname} {nspace:String,req=false}",
        "r",
        "print where an object is placed",
        map_object,
    ),
    Command::new("osd perf", "r", "print how long OSDs take to commit", perf),
    Command::new("osd getmap {epoch:Int,range=0,req=false}", "r", "get the map, encoded", get_map),
    Command::new("osd getcrushmap {epoch:Int,range=0,req=false}", "r", "get the CRUSH map, encoded", get_crush_map),
    Command::new("osd getmaxosd", "r", "print how many OSDs the map has room for", get_max_osd),
    Command::new(
        "osd get-require-min-compat-client",
        "r",
        "print the oldest release that clients may be of",
        min_client,
    ),
    Command::new("osd blocked-by", "r", "print which OSDs keep peers waiting", blocked_by),
    Command::new("osd last-stat-seq {id:OsdName}", "r", "print the number of an OSD's last report", last_stat_seq),
    Command::new("osd numa-status", "r", "print to which NUMA nodes OSDs are bound", numa_status),
];

/// Counts placement groups for which other OSDs stand in than their up sets, or the same ones in another order.
pub(super) fn remapped_pgs(c: &Context<'_>) -> usize {
    let differs = |pg: &&PgId| c.map().pg_to_up_acting(**pg).is_ok_and(|place| place.up != place.acting);
    c.map().pg_temp.keys().filter(differs).count()
}

/// Returns the part of `osd stat` and `status` about OSDs.
pub(super) fn stat_value(c: &Context<'_>) -> Value {
    let map = c.map();
    let (count, up, inside) = map.counts();
    json!({
        "epoch": map.epoch.0,
        "num_osds": count,
        "num_up_osds": up,
        "osd_up_since": map.last_up_change.sec,
        "num_in_osds": inside,
        "osd_in_since": map.last_in_change.sec,
        "num_remapped_pgs": remapped_pgs(c),
    })
}

/// Returns `3 osds: 3 up (since 7m), 3 in (since 7m)`.
pub(super) fn stat_text(c: &Context<'_>) -> String {
    let map = c.map();
    let (count, up, inside) = map.counts();
    let since = |stamp: types::Utime| {
        if stamp.is_zero() { String::new() } else { format!(" (since {})", units::age(c.since(stamp))) }
    };
    format!("{count} osds: {up} up{}, {inside} in{}", since(map.last_up_change), since(map.last_in_change))
}

/// Returns flags that an operator set, as `status` and `osd stat` show them.
pub(super) fn important_flags(c: &Context<'_>) -> String {
    c.map().flags.without(osdmap::OsdMapFlags::NEW_MAP).names()
}

fn stat(c: &Context<'_>) -> Answer {
    let text = || {
        let mut out = format!("{}; epoch: {}", stat_text(c), c.map().epoch);
        let remapped = remapped_pgs(c);
        if remapped > 0 {
            out += &format!("; {remapped} remapped pgs");
        }
        out.push('\n');
        let flags = important_flags(c);
        if !flags.is_empty() {
            out += &format!("flags {flags}\n");
        }
        out
    };
    c.either(text, || stat_value(c))
}

fn list(c: &Context<'_>) -> Answer {
    let map = osd_tree::map_at(c)?;
    let ids: Vec<i32> = map.osds().map(|(id, _)| id.0).collect();
    c.either(|| ids.iter().map(|id| format!("{id}\n")).collect(), || json!(ids))
}

fn find(c: &Context<'_>) -> Answer {
    let id = c.existing_osd("id")?;
    let osd = c.map().osd(id).expect("it exists");
    let mut object = Map::new();
    object.insert("osd".to_owned(), json!(id.0));
    object.insert("addrs".to_owned(), addrs_value(&osd.client_addrs));
    object.insert("osd_fsid".to_owned(), json!(osd.uuid.to_string()));
    if let Some(metadata) = c.state.osd_metadata.get(&id) {
        if let Some(host) = metadata.get("hostname") {
            object.insert("host".to_owned(), json!(host));
        }
        for key in ["pod_name", "pod_namespace", "container_name"] {
            if let Some(value) = metadata.get(key) {
                object.insert(key.to_owned(), json!(value));
            }
        }
    }
    let location: BTreeMap<&str, &str> = c.crush().full_location(id.0).into_iter().collect();
    object.insert("crush_location".to_owned(), json!(location));
    c.value(Value::Object(object))
}

fn metadata(c: &Context<'_>) -> Answer {
    let value = |id: OsdId| {
        let said = c.state.osd_metadata.get(&id);
        let mut object = Map::new();
        object.insert("id".to_owned(), json!(id.0));
        for (key, value) in said.into_iter().flatten() {
            object.insert(key.clone(), json!(value));
        }
        Value::Object(object)
    };
    match c.args.osd("id") {
        Some(_) => c.value(value(c.existing_osd("id")?)),
        None => c.value(c.map().osds().map(|(id, _)| value(id)).collect()),
    }
}

/// Counts daemons by their value of `property`.
pub(super) fn count<'a>(
    metadata: impl Iterator<Item = Option<&'a BTreeMap<String, String>>>,
    property: &str,
) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for said in metadata {
        let value = said.and_then(|said| said.get(property)).map_or("unknown", String::as_str);
        *counts.entry(value.to_owned()).or_default() += 1;
    }
    counts
}

/// Counts OSDs by their value of `property`.
pub(super) fn osd_counts(c: &Context<'_>, property: &str) -> BTreeMap<String, u64> {
    count(c.map().osds().map(|(id, _)| c.state.osd_metadata.get(&id)), property)
}

fn versions(c: &Context<'_>) -> Answer {
    c.value(json!(osd_counts(c, "ceph_version")))
}

fn count_metadata(c: &Context<'_>) -> Answer {
    c.value(json!(osd_counts(c, c.args.word("property"))))
}

fn map_object(c: &Context<'_>) -> Answer {
    let name = c.args.word("pool");
    let Some(pool) = c.map().pool_by_name(name) else {
        return refuse(Errno::ENOENT, format!("pool {name} does not exist"));
    };
    let object = c.args.word("object");
    let nspace = c.args.text("nspace").unwrap_or_default();
    let locator = Locator { nspace: Bytes::copy_from_slice(nspace.as_bytes()), ..Locator::pool(pool) };
    let unplaceable = |e: osdmap::PlacementError| Reply::error(Errno::EINVAL, e.to_string());
    let (pg, hash) = c.map().object_to_pg(object.as_bytes(), &locator).map_err(unplaceable)?;
    let place = c.map().pg_to_up_acting(pg).map_err(unplaceable)?;
    let full_name = if nspace.is_empty() { object.to_owned() } else { format!("{nspace}/{object}") };
    let raw = PgId { pool, seed: hash };
    let (up_primary, acting_primary) = (primary_number(place.up_primary), primary_number(place.acting_primary));
    let (up, acting) = (osds_text(&place.up), osds_text(place.acting_shown()));
    let epoch = c.map().epoch;
    let text = || {
        format!(
            "osdmap {epoch} pool '{name}' ({pool}) object '{full_name}' -> pg {raw} ({pg}) -> up ({up}, p{up_primary}) \
             acting ({acting}, p{acting_primary})\n"
        )
    };
    let value = || {
        json!({
            "epoch": epoch.0,
            "pool": name,
            "pool_id": pool.0,
            "objname": full_name,
            "raw_pgid": raw.to_string(),
            "pgid": pg.to_string(),
            "up": osds_value(&place.up),
            "up_primary": up_primary,
            "acting": osds_value(place.acting_shown()),
            "acting_primary": acting_primary,
        })
    };
    c.either(text, value)
}

fn perf(c: &Context<'_>) -> Answer {
    let rows: Vec<(OsdId, u64)> =
        c.volatile.osds.iter().rev().map(|(id, stat)| (*id, stat.stats.commit_latency_us)).collect();
    let text = || {
        let columns = [("osd", 'R'), ("commit_latency(ms)", 'R'), ("apply_latency(ms)", 'R')];
        let mut table = TextTable::with_columns(&columns);
        for (id, us) in &rows {
            let ms = (us / 1000).to_string();
            table.row(vec![id.0.to_string(), ms.clone(), ms]);
        }
        table.render(true)
    };
    let value = || {
        let infos: Vec<Value> =
            rows.iter().map(|(id, us)| json!({"id": id.0, "perf_stats": perf_value(*us)})).collect();
        json!({"pg_ready": true, "osdstats": {"osd_perf_infos": infos}})
    };
    c.either(text, value)
}

/// Returns an OSD's latencies. A commit makes a write durable and readable at once, so both are equal.
pub(super) fn perf_value(us: u64) -> Value {
    json!({
        "commit_latency_ms": us / 1000,
        "apply_latency_ms": us / 1000,
        "commit_latency_ns": us.saturating_mul(1000),
        "apply_latency_ns": us.saturating_mul(1000),
    })
}

fn get_map(c: &Context<'_>) -> Answer {
    let newest = c.map().epoch;
    let epoch = match c.args.int("epoch") {
        Some(epoch) => u32::try_from(epoch).ok().map(Epoch),
        None => Some(newest),
    };
    let full = epoch.and_then(|epoch| c.state.osdmaps.full(epoch).map(|full| (epoch, full)));
    let Some((epoch, full)) = full else {
        let epoch = c.args.int("epoch").unwrap_or_default();
        return refuse(Errno::ENOENT, format!("there is no map for epoch {epoch}"));
    };
    let reply = Reply::output(full);
    with_status(Ok(Outcome::Reply(reply)), format!("got osdmap epoch {}", epoch.0))
}

fn get_crush_map(c: &Context<'_>) -> Answer {
    let map = osd_tree::map_at(c)?;
    let encoded = wire::Encode::to_vec(&*map.crush, wire::Target::PACIFIC);
    with_status(Ok(Outcome::Reply(Reply::output(encoded))), map.crush_version.to_string())
}

fn get_max_osd(c: &Context<'_>) -> Answer {
    let (epoch, max) = (c.map().epoch.0, c.map().max_osd());
    c.either(|| format!("max_osd = {max} in epoch {epoch}\n"), || json!({"epoch": epoch, "max_osd": max}))
}

fn min_client(c: &Context<'_>) -> Answer {
    c.text(format!("{}\n", c.map().require_min_compat_client.name()))
}

fn blocked_by(c: &Context<'_>) -> Answer {
    let mut blocked: BTreeMap<OsdId, u64> = BTreeMap::new();
    for osd in c.volatile.pgs.values().flat_map(|pg| &pg.report.blocked_by) {
        *blocked.entry(*osd).or_default() += 1;
    }
    let text = || {
        let mut table = TextTable::with_columns(&[("osd", 'l'), ("num_blocked", 'l')]);
        blocked.iter().for_each(|(osd, pgs)| table.row(vec![osd.0.to_string(), pgs.to_string()]));
        table.render(true)
    };
    let value = || {
        let infos = blocked.iter().map(|(osd, pgs)| json!({"id": osd.0, "num_blocked": pgs}));
        json!({"pg_ready": true, "osd_blocked_by": {"osd_blocked_by_infos": infos.collect::<Vec<_>>()}})
    };
    c.either(text, value)
}

fn last_stat_seq(c: &Context<'_>) -> Answer {
    // An OSD that is not known has told nothing.
    let id = c.args.osd("id").expect("an OSD is required by the signature");
    let seq = c.volatile.osds.get(&id).map_or(0, OsdStat::seq);
    c.either(|| format!("{seq}\n"), || json!(seq))
}

fn numa_status(c: &Context<'_>) -> Answer {
    let osds: Vec<(OsdId, &str)> = c.map().osds().map(|(id, _)| (id, c.host_name(id).unwrap_or_default())).collect();
    let text = || {
        let columns =
            [("OSD", 'r'), ("HOST", 'l'), ("NETWORK", 'r'), ("STORAGE", 'r'), ("AFFINITY", 'r'), ("CPUS", 'l')];
        let mut table = TextTable::with_columns(&columns);
        for (id, host) in &osds {
            let dash = || "-".to_owned();
            table.row(vec![id.0.to_string(), (*host).to_owned(), dash(), dash(), dash(), dash()]);
        }
        table.render(true)
    };
    c.either(text, || osds.iter().map(|(id, host)| json!({"osd": id.0, "host": host})).collect())
}
