//! The cluster at a glance: `ceph -s`, `ceph df`, `ceph versions` and the like.

use super::command::Command;
use super::context::Context;
use super::osd_query::{count, important_flags, osd_counts, remapped_pgs, stat_text, stat_value};
use super::text_table::TextTable;
use super::{Answer, health, pg, pools, progress, services, units};
use crate::erasure_pools::data_shards;
use crate::volatile::{pg_state_text, writable_bytes};
use osdmap::PgPool;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use types::{EntityType, PoolId};
use wire::nacre::mon::pg_state;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("status", "r", "print how the cluster is", status),
    Command::new(
        "df {detail:Choices,req=false,strings=detail}",
        "r",
        "print how full the cluster and its pools are",
        df,
    ),
    Command::new("fsid", "r", "print the cluster's id", |c| {
        c.either(|| format!("{}\n", c.state.fsid), || json!({"fsid": c.state.fsid.to_string()}))
    }),
    Command::new("versions", "r", "count the versions that daemons run", versions),
    Command::new("features", "r", "count the features of daemons", features),
    Command::new(
        "node ls {type:Choices,req=false,strings=all|osd|mon|mds|mgr}",
        "r",
        "list hosts with their daemons",
        node_ls,
    ),
];

fn status(c: &Context<'_>) -> Answer {
    c.either(|| status_text(c), || status_value(c))
}

fn status_text(c: &Context<'_>) -> String {
    let report = health::report(c);
    let mut out = format!("  cluster:\n    id:     {}\n    health: {}\n", c.state.fsid, report.status().word());
    for (code, check) in &report.checks {
        if !report.is_muted(code) {
            out += &format!("            {}\n", check.summary);
        }
    }
    if let Some(muted) = health::muted_text(c, &report) {
        out += &format!("            {muted}\n");
    }
    let monmap = &c.state.monmap;
    let quorum = &c.volatile.quorum;
    let age = units::age(c.since(quorum.since));
    let names = quorum.names(monmap).join(",");
    let absent = quorum.absent(monmap).join(",");
    let absent = if absent.is_empty() { absent } else { format!(", out of quorum: {absent}") };
    let others = services::summaries(c);
    let width = 1 + others.iter().map(|(name, _)| name.len()).max().unwrap_or(0).max(3);
    let label = |name: &str| format!("    {:<width$} ", format!("{name}:"));
    out +=
        &format!(" \n  services:\n{}{} daemons, quorum {names} (age {age}){absent}\n", label("mon"), monmap.mons.len());
    // The monitor does the work of managers in Ceph.
    out += &format!("{}{}(active, since {age})\n", label("mgr"), c.volatile.name);
    out += &format!("{}{}", label("osd"), stat_text(c));
    let remapped = remapped_pgs(c);
    if remapped > 0 {
        out += &format!("; {remapped} remapped pgs");
    }
    out.push('\n');
    let flags = important_flags(c);
    if !flags.is_empty() {
        out += &format!("    {:width$} flags {flags}\n", "");
    }
    others.iter().for_each(|(name, summary)| out += &format!("{}{summary}\n", label(name)));
    out += &data_text(c);
    let rates = pg::total_rates(c);
    let lines = [("client:   ", pools::io_text(&rates)), ("recovery: ", pools::recovery_text(&rates))];
    let lines: String = lines.into_iter().filter_map(|(what, io)| Some(format!("    {what}{}\n", io?))).collect();
    if !lines.is_empty() {
        out += &format!(" \n  io:\n{lines}");
    }
    out += &progress::status_text(c);
    out + " \n"
}

fn data_text(c: &Context<'_>) -> String {
    let (totals, space) = (c.volatile.totals(None), c.volatile.space());
    let used = units::bytes(space.total_bytes.saturating_sub(space.free_bytes));
    let (free, total) = (units::bytes(space.free_bytes), units::bytes(space.total_bytes));
    let (objects, data) = (units::count(totals.objects), units::bytes(totals.bytes));
    let mut out = format!(" \n  data:\n    pools:   {} pools, {} pgs\n", c.map().pools.len(), totals.pgs);
    out += &format!("    objects: {objects} objects, {data}\n    usage:   {used} used, {free} / {total} avail\n");
    let mut lines = Vec::new();
    let (inactive, unknown) = inactive_ratios(c);
    if unknown > 0.0 {
        lines.push(format!("{:.3}% pgs unknown", unknown * 100.0));
    }
    if inactive > 0.0 {
        lines.push(format!("{:.3}% pgs not active", inactive * 100.0));
    }
    lines.extend(totals.complaints());
    let states = states_by_count(c);
    let width = states.first().map_or(0, |(n, _)| n.to_string().len());
    lines.extend(states.iter().map(|(n, name)| format!("{n:<width$} {name}")));
    for (i, line) in lines.iter().enumerate() {
        let head = if i == 0 { "    pgs:     " } else { "             " };
        out += &format!("{head}{line}\n");
    }
    if lines.is_empty() {
        out += "    pgs:     \n";
    }
    out
}

/// Returns the states of groups, the most frequent first.
fn states_by_count(c: &Context<'_>) -> Vec<(u64, String)> {
    let mut states: Vec<(u64, String)> =
        c.volatile.pgs_by_state().into_iter().map(|(state, n)| (n, pg_state_text(state))).collect();
    states.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    states
}

/// Returns the share of groups that are known but do not serve, and the share of unknown ones.
fn inactive_ratios(c: &Context<'_>) -> (f64, f64) {
    let all = c.volatile.pgs.len().max(1) as f64;
    let unknown = c.volatile.pgs.values().filter(|pg| pg.report.state == 0).count() as f64;
    let active = c.volatile.pgs.values().filter(|pg| pg.report.state & pg_state::ACTIVE != 0).count() as f64;
    ((c.volatile.pgs.len() as f64 - unknown - active) / all, unknown / all)
}

fn status_value(c: &Context<'_>) -> Value {
    let monmap = &c.state.monmap;
    let report = health::report(c);
    json!({
        "fsid": c.state.fsid.to_string(),
        "health": health::value(c, &report, false),
        "election_epoch": c.volatile.quorum.epoch,
        "quorum": c.volatile.quorum.ranks(monmap),
        "quorum_names": c.volatile.quorum.names(monmap),
        "quorum_age": c.since(c.volatile.quorum.since).as_secs(),
        "monmap": {
            "epoch": monmap.epoch.0,
            "min_mon_release_name": monmap.min_mon_release.name(),
            "num_mons": monmap.mons.len(),
        },
        "osdmap": stat_value(c),
        "pgmap": pgmap_value(c),
        "fsmap": {"epoch": 1, "by_rank": [], "up:standby": 0},
        "mgrmap": {
            "available": true,
            "num_standbys": 0,
            "modules": super::mgr_modules::enabled(c),
            "services": {},
        },
        "servicemap": services::map_value(c),
        "progress_events": progress::status_value(c),
    })
}

fn pgmap_value(c: &Context<'_>) -> Value {
    let (totals, space) = (c.volatile.totals(None), c.volatile.space());
    let states: Vec<Value> =
        states_by_count(c).into_iter().map(|(count, name)| json!({"state_name": name, "count": count})).collect();
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| drop(object.insert(key.to_owned(), value));
    put("pgs_by_state", json!(states));
    put("num_pgs", json!(totals.pgs));
    put("num_pools", json!(c.map().pools.len()));
    put("num_objects", json!(totals.objects));
    put("data_bytes", json!(totals.bytes));
    put("bytes_used", json!(space.total_bytes.saturating_sub(space.free_bytes)));
    put("bytes_avail", json!(space.free_bytes));
    put("bytes_total", json!(space.total_bytes));
    let (inactive, unknown) = inactive_ratios(c);
    if unknown > 0.0 {
        put("unknown_pgs_ratio", json!(unknown));
    }
    if inactive > 0.0 {
        put("inactive_pgs_ratio", json!(inactive));
    }
    totals.put_complaints(&mut object);
    let rates = pg::total_rates(c);
    pools::add_io(&rates, &mut object);
    pools::add_recovery(&rates, &mut object);
    Value::Object(object)
}

/// Space of the whole cluster or of one device class.
#[derive(Clone, Copy, Default)]
struct Raw {
    total: u64,
    free: u64,
}

impl Raw {
    fn used(&self) -> u64 {
        self.total.saturating_sub(self.free)
    }

    fn ratio(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.used() as f64 / self.total as f64 }
    }

    fn cells(&self, name: &str) -> Vec<String> {
        let used = units::bytes(self.used());
        vec![
            name.to_owned(),
            units::bytes(self.total),
            units::bytes(self.free),
            used.clone(),
            used,
            units::percent(self.ratio()),
        ]
    }

    fn value(&self) -> Value {
        json!({
            "total_bytes": self.total,
            "total_avail_bytes": self.free,
            "total_used_bytes": self.used(),
            "total_used_raw_bytes": self.used(),
            "total_used_raw_ratio": self.ratio(),
        })
    }
}

/// Figures of a pool in `df`.
struct PoolSpace {
    stored: u64,
    omap: u64,
    objects: u64,
    used: u64,
    used_omap: u64,
    max_available: u64,
    available_raw: u64,
    reads: u64,
    read_bytes: u64,
    writes: u64,
    write_bytes: u64,
}

impl PoolSpace {
    fn of(c: &Context<'_>, id: PoolId, pool: &PgPool) -> PoolSpace {
        let totals = c.volatile.totals(Some(id));
        // The space used is bytes times the present copies: devices' allocation is known per OSD, not per pool.
        let groups = c.volatile.pgs.range(types::PgId { pool: id, seed: 0 }..=types::PgId { pool: id, seed: u32::MAX });
        let (mut used, mut used_omap) = (0u64, 0u64);
        let data_shards = data_shards(c.map(), pool);
        for (_, pg) in groups {
            let copies = pg.acting_shown(c.map()).iter().filter(|osd| osd.is_some()).count() as u64;
            let omap = pg.report.omap_bytes.saturating_mul(copies);
            used = used.saturating_add(pg.report.bytes.saturating_mul(copies) / data_shards).saturating_add(omap);
            used_omap = used_omap.saturating_add(omap);
        }
        let available_raw = c.volatile.rule_available_bytes(c.map(), pool.crush_rule.into());
        PoolSpace {
            stored: totals.bytes.saturating_add(totals.omap_bytes),
            omap: totals.omap_bytes,
            objects: totals.objects,
            used,
            used_omap,
            max_available: writable_bytes(c.map(), pool, available_raw),
            available_raw,
            reads: totals.read_ops,
            read_bytes: totals.read_kib.saturating_mul(1024),
            writes: totals.write_ops,
            write_bytes: totals.write_kib.saturating_mul(1024),
        }
    }

    fn ratio(&self) -> f64 {
        let whole = self.used.saturating_add(self.available_raw);
        if whole == 0 { 0.0 } else { self.used as f64 / whole as f64 }
    }
}

fn df(c: &Context<'_>) -> Answer {
    let mut total = Raw::default();
    let mut classes: BTreeMap<&str, Raw> = BTreeMap::new();
    for (osd, stat) in &c.volatile.osds {
        for raw in
            std::iter::once(&mut total).chain(c.crush().class_of(osd.0).map(|class| classes.entry(class).or_default()))
        {
            raw.total = raw.total.saturating_add(stat.stats.total_bytes);
            raw.free = raw.free.saturating_add(stat.stats.free_bytes);
        }
    }
    let detail = c.args.has("detail");
    let pools: Vec<(PoolId, &PgPool, PoolSpace)> =
        c.map().pools.iter().map(|(id, pool)| (*id, pool, PoolSpace::of(c, *id, pool))).collect();
    let text = || {
        let columns =
            [("CLASS", 'l'), ("SIZE", 'r'), ("AVAIL", 'r'), ("USED", 'r'), ("RAW USED", 'r'), ("%RAW USED", 'r')];
        let mut table = TextTable::with_columns(&columns);
        classes.iter().for_each(|(class, raw)| table.row(raw.cells(class)));
        table.row(total.cells("TOTAL"));
        let pools = pools_table(c, &pools, detail);
        format!("--- RAW STORAGE ---\n{} \n--- POOLS ---\n{pools}", table.render(true))
    };
    let value = || {
        let mut stats = total.value();
        for key in ["num_osds", "num_per_pool_osds", "num_per_pool_omap_osds"] {
            stats[key] = json!(c.volatile.osds.len());
        }
        let classes: Map<String, Value> =
            classes.iter().map(|(class, raw)| ((*class).to_owned(), raw.value())).collect();
        let pools: Vec<Value> = pools.iter().map(|(id, pool, space)| pool_value(c, *id, pool, space, detail)).collect();
        json!({"stats": stats, "stats_by_class": classes, "pools": pools})
    };
    c.either(text, value)
}

fn pools_table(c: &Context<'_>, pools: &[(PoolId, &PgPool, PoolSpace)], detail: bool) -> String {
    let mut columns = vec![("POOL", 'l'), ("ID", 'r'), ("PGS", 'r'), ("STORED", 'r')];
    let data = [("(DATA)", 'r'), ("(OMAP)", 'r')];
    if detail {
        columns.extend(data);
    }
    columns.extend([("OBJECTS", 'r'), ("USED", 'r')]);
    if detail {
        columns.extend(data);
    }
    columns.extend([("%USED", 'r'), ("MAX AVAIL", 'r')]);
    if detail {
        columns.extend([("QUOTA OBJECTS", 'r'), ("QUOTA BYTES", 'r'), ("DIRTY", 'r'), ("USED COMPR", 'r')]);
        columns.push(("UNDER COMPR", 'r'));
    }
    let mut table = TextTable::with_columns(&columns);
    for (id, pool, space) in pools {
        let mut cells = vec![
            c.map().pool_name(*id).unwrap_or_default().to_owned(),
            id.to_string(),
            pool.pg_num.to_string(),
            units::bytes(space.stored),
        ];
        if detail {
            cells.extend([space.stored - space.omap, space.omap].map(units::bytes));
        }
        cells.extend([units::count(space.objects), units::bytes(space.used)]);
        if detail {
            cells.extend([space.used - space.used_omap, space.used_omap].map(units::bytes));
        }
        cells.extend([units::percent(space.ratio()), units::bytes(space.max_available)]);
        if detail {
            let quota = |n: u64, text: fn(u64) -> String| if n == 0 { "N/A".to_owned() } else { text(n) };
            cells.push(quota(pool.quota_max_objects, units::count));
            cells.push(quota(pool.quota_max_bytes, units::bytes));
            cells.push("N/A".to_owned());
            cells.extend([0, 0].map(units::bytes));
        }
        table.row(cells);
    }
    table.render(true)
}

fn pool_value(c: &Context<'_>, id: PoolId, pool: &PgPool, space: &PoolSpace, detail: bool) -> Value {
    let mut stats = Map::new();
    let mut put = |key: &str, value: Value| drop(stats.insert(key.to_owned(), value));
    put("stored", json!(space.stored));
    if detail {
        put("stored_data", json!(space.stored - space.omap));
        put("stored_omap", json!(space.omap));
    }
    put("objects", json!(space.objects));
    put("kb_used", json!(space.used.div_ceil(1024)));
    put("bytes_used", json!(space.used));
    if detail {
        put("data_bytes_used", json!(space.used - space.used_omap));
        put("omap_bytes_used", json!(space.used_omap));
    }
    put("percent_used", json!(space.ratio()));
    put("max_avail", json!(space.max_available));
    if detail {
        put("quota_objects", json!(pool.quota_max_objects));
        put("quota_bytes", json!(pool.quota_max_bytes));
        put("dirty", json!(0));
        put("rd", json!(space.reads));
        put("rd_bytes", json!(space.read_bytes));
        put("wr", json!(space.writes));
        put("wr_bytes", json!(space.write_bytes));
        put("compress_bytes_used", json!(0));
        put("compress_under_bytes", json!(0));
        put("stored_raw", json!(space.stored.saturating_mul(pool.size.into()) / data_shards(c.map(), pool)));
        put("avail_raw", json!(space.available_raw));
    }
    json!({"name": c.map().pool_name(id).unwrap_or_default(), "id": id.0, "stats": stats})
}

/// Counts the monitors of each version.
pub(super) fn mon_counts(c: &Context<'_>, property: &str) -> BTreeMap<String, u64> {
    count(c.state.monmap.ranks.iter().map(|name| c.state.mon_metadata.get(name)), property)
}

/// Counts by a property the monitors that do a manager's work: the leader, once it is known.
pub(super) fn manager_counts(c: &Context<'_>, property: &str) -> BTreeMap<String, u64> {
    count(manager(c).map(|name| c.state.mon_metadata.get(name)).into_iter(), property)
}

/// Returns the name of the monitor that does a manager's work.
pub(super) fn manager<'a>(c: &Context<'a>) -> Option<&'a String> {
    let name = &c.volatile.quorum.leader;
    c.state.monmap.mons.contains_key(name).then_some(name)
}

fn versions(c: &Context<'_>) -> Answer {
    let (mons, osds) = (mon_counts(c, "ceph_version"), osd_counts(c, "ceph_version"));
    let managers = manager_counts(c, "ceph_version");
    let mut overall = mons.clone();
    managers.iter().chain(&osds).for_each(|(version, n)| *overall.entry(version.clone()).or_default() += n);
    c.value(json!({"mon": mons, "mgr": managers, "osd": osds, "mds": {}, "overall": overall}))
}

/// Counts features: those of daemons are our own, those of clients what they have negotiated with this monitor.
fn features(c: &Context<'_>) -> Answer {
    c.value(feature_map(c))
}

/// Returns the counts of [`features`].
pub(super) fn feature_map(c: &Context<'_>) -> Value {
    let own = |count: usize| BTreeMap::from([(wire::codec::features::PACIFIC, count)]);
    let mut clients: BTreeMap<u64, usize> = BTreeMap::new();
    for session in c.request.sessions.iter().filter(|session| session.name.kind == EntityType::CLIENT) {
        *clients.entry(session.features).or_default() += 1;
    }
    let mut groups = Map::new();
    let has_manager = usize::from(!c.state.manager_map().active_name.is_empty());
    for (kind, counts) in [
        ("mon", own(c.state.monmap.mons.len())),
        ("osd", own(c.map().up_osds().count())),
        ("client", clients),
        ("mgr", own(has_manager)),
    ] {
        let entry = |(features, num): (&u64, &usize)| json!({"features": format!("0x{features:x}"), "release": release_of(*features), "num": num});
        let entries: Vec<Value> = counts.iter().filter(|(_, num)| **num > 0).map(entry).collect();
        if !entries.is_empty() || kind == "mon" {
            groups.insert(kind.to_owned(), Value::Array(entries));
        }
    }
    Value::Object(groups)
}

/// Returns the release whose features are all there, as Ceph names it.
pub(super) fn release_of(features: u64) -> &'static str {
    use wire::codec::features as bits;
    if features & bits::SERVER_LUMINOUS == bits::SERVER_LUMINOUS { "luminous" } else { "jewel" }
}

fn node_ls(c: &Context<'_>) -> Answer {
    let host = |name: &String| {
        c.state.mon_metadata.get(name).and_then(|said| said.get("hostname")).cloned().unwrap_or_default()
    };
    let mut mons: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for name in &c.state.monmap.ranks {
        mons.entry(host(name)).or_default().push(name);
    }
    let managers: BTreeMap<String, Vec<&String>> =
        manager(c).map(|name| (host(name), vec![name])).into_iter().collect();
    let mut osds: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    for (osd, _) in c.map().osds() {
        osds.entry(c.host_name(osd).unwrap_or_default().to_owned()).or_default().push(osd.0);
    }
    match c.args.text("type").unwrap_or("all") {
        "mon" => c.value(json!(mons)),
        "osd" => c.value(json!(osds)),
        "mgr" => c.value(json!(managers)),
        "mds" => c.value(json!({})),
        _ => c.value(json!({"mon": mons, "osd": osds, "mgr": managers})),
    }
}
