//! `ceph pg dump`: all statistics of placement groups.

use super::command::Command;
use super::context::{Context, with_status};
use super::osd_network;
use super::osd_query::perf_value;
use super::pg::OMAP_NOTE;
use super::pg_print::{self, statfs_value, sum_value};
use super::text_table::TextTable;
use super::{Answer, Format, units};
use crate::volatile::{OsdStat, PgStat, PgTotals};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use types::{OsdId, PoolId};
use wire::nacre::mon::{OsdStats, PingReport};

pub(super) const COMMANDS: &[Command] = &[
    Command::new(
        "pg dump {dumpcontents:Choices,n=N,req=false,strings=all|summary|sum|delta|pools|osds|pgs|pgs_brief}",
        "r",
        "print what is known of placement groups",
        dump,
    ),
    Command::new(
        "pg dump_json {dumpcontents:Choices,n=N,req=false,strings=all|summary|sum|pools|osds|pgs}",
        "r",
        "print what is known of placement groups as JSON",
        |c| with_status(compact(c, &contents_value(c)), "dumped all"),
    ),
    Command::new("pg dump_pools_json", "r", "print what is known of pools as JSON", |c| {
        with_status(compact(c, &json!({"pg_ready": true, "pool_stats": pools_value(c)})), "dumped pools")
    }),
];

/// Answers on one line, unless indented JSON is asked for.
fn compact(c: &Context<'_>, value: &Value) -> Answer {
    if c.format.is_xml() {
        return c.value(value.clone());
    }
    let format = if c.format == Format::JsonPretty { c.format } else { Format::Json };
    c.text(format.render(value))
}

fn dump(c: &Context<'_>) -> Answer {
    let wanted = c.args.texts("dumpcontents");
    let status = format!("dumped {}", if wanted.is_empty() { "all".to_owned() } else { wanted.join(",") });
    with_status(c.either(|| contents_text(c), || contents_value(c)), status)
}

/// Returns true if the arguments ask for one of `names`, or for all.
fn asks(c: &Context<'_>, names: &[&str]) -> bool {
    let wanted = c.args.texts("dumpcontents");
    wanted.is_empty() || wanted.iter().any(|wanted| *wanted == "all" || names.contains(wanted))
}

fn pgs<'a>(c: &Context<'a>) -> Vec<&'a PgStat> {
    c.volatile.pgs.values().collect()
}

fn header(c: &Context<'_>) -> String {
    let (version, epoch) = (c.state.applied, c.map().epoch.0);
    format!("version {version}\nstamp {}\nlast_osdmap_epoch {epoch}\nlast_pg_scan {epoch}\n", c.volatile.now)
}

fn contents_text(c: &Context<'_>) -> String {
    let wanted = c.args.texts("dumpcontents");
    let only = |name: &str| wanted.len() == 1 && wanted[0] == name;
    if only("delta") {
        // The monitor keeps rates, not differences of counters.
        return String::new();
    }
    if only("pgs_brief") {
        return pg_print::brief_text(c.map(), &pgs(c));
    }
    let (all, sum) = (asks(c, &[]), asks(c, &["sum", "summary"]));
    let mut out = String::new();
    if all || sum {
        out += &header(c);
    }
    if asks(c, &["pgs"]) {
        out += &pg_print::full_text(c.map(), &pgs(c));
    }
    if asks(c, &["pgs_brief"]) && !all {
        out += &pg_print::brief_text(c.map(), &pgs(c));
    }
    if all {
        out += &format!("\n{}\n{}", pool_rows(c, false), sum_row(c, false));
    } else {
        if asks(c, &["pools"]) {
            out += &pool_rows(c, true);
        }
        if sum {
            out += &sum_row(c, true);
        }
    }
    if asks(c, &["osds"]) {
        out += &osd_rows(c);
    } else if sum {
        out += &osd_sum_row(c);
    }
    if asks(c, &["pgs", "pools", "sum", "summary"]) { out + OMAP_NOTE } else { out }
}

fn totals_table(first: &'static str, rows: Vec<(String, PgTotals)>, headings: bool) -> String {
    let columns: Vec<(&str, char)> = pg_print::totals_columns(first).collect();
    let mut table = TextTable::with_columns(&columns);
    for (name, totals) in rows {
        table.row(std::iter::once(name).chain(pg_print::totals_cells(&totals)).collect());
    }
    table.render(headings)
}

fn pool_rows(c: &Context<'_>, headings: bool) -> String {
    let rows = c.map().pools.keys().rev().map(|id| (id.to_string(), c.volatile.totals(Some(*id))));
    totals_table("POOLID", rows.collect(), headings)
}

fn sum_row(c: &Context<'_>, headings: bool) -> String {
    totals_table("PG_STAT", vec![("sum".to_owned(), c.volatile.totals(None))], headings)
}

fn space_cells(stats: &OsdStats) -> [String; 4] {
    let used = stats.total_bytes.saturating_sub(stats.free_bytes);
    [used, stats.free_bytes, used, stats.total_bytes].map(units::bytes)
}

fn osd_sum_row(c: &Context<'_>) -> String {
    let columns = [("OSD_STAT", 'l'), ("USED", 'L'), ("AVAIL", 'L'), ("USED_RAW", 'L'), ("TOTAL", 'L')];
    let mut table = TextTable::with_columns(&columns);
    let total = c.volatile.space();
    table.row(std::iter::once("sum".to_owned()).chain(space_cells(&total)).collect());
    table.render(true)
}

/// Returns the number of groups of which an OSD holds a copy, and of those whose primary it is.
fn pg_counts(c: &Context<'_>, osd: OsdId) -> (usize, usize) {
    let pgs = c.volatile.pgs.values();
    let on = pgs.clone().filter(|pg| pg.report.up.contains(&osd) || pg.acting_shown(c.map()).contains(&osd)).count();
    (on, pgs.filter(|pg| pg.primary() == Some(osd)).count())
}

/// Returns the OSDs that share a group with `osd`.
fn peers(c: &Context<'_>, osd: OsdId) -> Vec<i32> {
    let mut peers: Vec<i32> = c
        .volatile
        .pgs
        .values()
        .filter(|pg| pg.report.acting.contains(&osd))
        .flat_map(|pg| pg.report.acting.iter())
        .filter(|peer| peer.is_some() && **peer != osd)
        .map(|peer| peer.0)
        .collect();
    peers.sort_unstable();
    peers.dedup();
    peers
}

fn osd_rows(c: &Context<'_>) -> String {
    let columns = [("OSD_STAT", 'l'), ("USED", 'R'), ("AVAIL", 'R'), ("USED_RAW", 'R'), ("TOTAL", 'R')];
    let more = [("HB_PEERS", 'R'), ("PG_SUM", 'R'), ("PRIMARY_PG_SUM", 'R')];
    let mut table = TextTable::with_columns(&[&columns[..], &more[..]].concat());
    for (osd, stat) in c.volatile.osds.iter().rev() {
        let (on, primary) = pg_counts(c, *osd);
        let peers: Vec<String> = peers(c, *osd).iter().map(i32::to_string).collect();
        let mut cells = vec![osd.0.to_string()];
        cells.extend(space_cells(&stat.stats));
        cells.extend([format!("[{}]", peers.join(",")), on.to_string(), primary.to_string()]);
        table.row(cells);
    }
    let mut sum = vec!["sum".to_owned()];
    sum.extend(space_cells(&c.volatile.space()));
    sum.resize(8, String::new());
    table.row(sum);
    table.render(true)
}

fn contents_value(c: &Context<'_>) -> Value {
    let wanted = c.args.texts("dumpcontents");
    let only = |name: &str| wanted.len() == 1 && wanted[0] == name;
    let pg_stats = || pg_print::values(c.map(), &pgs(c));
    if only("pgs_brief") {
        return json!({"pg_ready": true, "pg_stats": pg_print::brief_values(c.map(), &pgs(c))});
    }
    if only("delta") {
        return json!({"pg_ready": true, "delta": {"pg_stats_delta": delta_value()}});
    }
    let (all, sum) = (asks(c, &[]), asks(c, &["sum", "summary"]));
    let mut object = json!({"pg_ready": true});
    if all || sum {
        let mut map = summary_value(c);
        if all {
            map["pg_stats"] = pg_stats();
            map["pool_stats"] = pools_value(c);
            map["osd_stats"] = osds_value(c);
            map["pool_statfs"] = pool_statfs(c);
        }
        object["pg_map"] = map;
    }
    if !all {
        if asks(c, &["pgs"]) {
            object["pg_stats"] = pg_stats();
        }
        if asks(c, &["pools"]) {
            object["pool_stats"] = pools_value(c);
        }
        if asks(c, &["osds"]) {
            object["osd_stats"] = osds_value(c);
            object["pool_statfs"] = pool_statfs(c);
        }
    }
    object
}

fn summary_value(c: &Context<'_>) -> Value {
    json!({
        "version": c.state.applied,
        "stamp": c.volatile.now.to_string(),
        "last_osdmap_epoch": c.map().epoch.0,
        "last_pg_scan": c.map().epoch.0,
        "pg_stats_sum": stats_value(c, None),
        "osd_stats_sum": osd_sum(c, |_| true),
        "pg_stats_delta": delta_value(),
    })
}

/// Returns zeros: differences of counters are not kept; rates are in `osd pool stats`.
fn delta_value() -> Value {
    let mut value = totals_value(&PgTotals::default(), 0, 0);
    value["stamp_delta"] = json!("0.000000");
    value
}

fn totals_value(totals: &PgTotals, up: usize, acting: usize) -> Value {
    json!({
        "stat_sum": sum_value(totals),
        "store_stats": statfs_value(0, 0, 0, 0, 0, 0),
        "log_size": totals.log_entries,
        "ondisk_log_size": totals.log_entries,
        "up": up,
        "acting": acting,
        "num_store_stats": 0,
    })
}

/// Returns the sums over the groups of a pool, or over all.
pub(super) fn stats_value(c: &Context<'_>, pool: Option<PoolId>) -> Value {
    let pgs = || c.volatile.pgs.values().filter(|pg| pool.is_none_or(|pool| pg.report.pgid.pool == pool));
    let up = pgs().map(|pg| pg.report.up.len()).sum();
    let acting = pgs().map(|pg| pg.acting_shown(c.map()).len()).sum();
    totals_value(&c.volatile.totals(pool), up, acting)
}

pub(super) fn pools_value(c: &Context<'_>) -> Value {
    let one = |id: &PoolId| {
        let mut value = json!({"poolid": id.0, "num_pg": c.volatile.totals(Some(*id)).pgs});
        if let Value::Object(stats) = stats_value(c, Some(*id)) {
            stats.into_iter().for_each(|(key, stat)| value[key] = stat);
        }
        value
    };
    c.map().pools.keys().rev().map(one).collect()
}

/// Returns a line for each pool and each OSD that has groups of it. Space is known by pool as its objects' bytes, for
/// all OSDs together, so the figures of single OSDs are zero, as those of a Ceph whose OSDs do not count by pool.
fn pool_statfs(c: &Context<'_>) -> Value {
    let mut holders: BTreeSet<(PoolId, OsdId)> = BTreeSet::new();
    for (pg, stat) in &c.volatile.pgs {
        let acting = stat.acting_shown(c.map()).iter().filter(|osd| osd.is_some());
        holders.extend(acting.map(|osd| (pg.pool, *osd)));
    }
    let one = |(pool, osd): (PoolId, OsdId)| {
        let mut object = Map::from_iter([("poolid".to_owned(), json!(pool.0)), ("osd".to_owned(), json!(osd.0))]);
        if let Value::Object(figures) = statfs_value(0, 0, 0, 0, 0, 0) {
            object.extend(figures);
        }
        Value::Object(object)
    };
    holders.into_iter().map(one).collect()
}

fn osds_value(c: &Context<'_>) -> Value {
    let one = |(osd, stat): (&OsdId, &OsdStat)| osd_value(c, &stat.stats, 1, Some((*osd, stat.seq())));
    c.volatile.osds.iter().rev().map(one).collect()
}

/// Returns how long other OSDs took to answer this one, by OSD and network. Times are in milliseconds.
fn ping_times(c: &Context<'_>, osd: OsdId) -> Value {
    let on_network = |ping: &PingReport| {
        json!({
            "interface": osd_network::interface(ping),
            "average": osd_network::over_minutes(ping, |took| took.average_us),
            "min": osd_network::over_minutes(ping, |took| took.least_us),
            "max": osd_network::over_minutes(ping, |took| took.most_us),
            "last": osd_network::ms(ping.last_us),
        })
    };
    let mut by_osd: BTreeMap<OsdId, Vec<&PingReport>> = BTreeMap::new();
    let pings = c.volatile.pings.get(&osd).into_iter().flatten();
    pings.for_each(|ping| by_osd.entry(ping.osd).or_default().push(ping));
    let of_osd = |(to, mut pings): (OsdId, Vec<&PingReport>)| {
        pings.sort_by_key(|ping| ping.is_front);
        let last = pings.iter().map(|ping| ping.answered_at).max().unwrap_or_default();
        let interfaces: Vec<Value> = pings.into_iter().map(on_network).collect();
        json!({"osd": to.0, "last update": units::calendar(last), "interfaces": interfaces})
    };
    by_osd.into_iter().map(of_osd).collect()
}

/// Returns the sum over OSDs.
pub(super) fn osd_sum(c: &Context<'_>, is_meant: impl Fn(OsdId) -> bool) -> Value {
    let osds = || c.volatile.osds.keys().copied().filter(|osd| is_meant(*osd));
    osd_value(c, &c.volatile.space_of(osds()), osds().count(), None)
}

/// Returns one OSD with the number of its last report, or the sum over several.
fn osd_value(c: &Context<'_>, stats: &OsdStats, osds: usize, one: Option<(OsdId, u64)>) -> Value {
    let used = stats.total_bytes.saturating_sub(stats.free_bytes);
    let (osd, seq) = one.map_or((None, 0), |(osd, seq)| (Some(osd), seq));
    let up_from = osd.and_then(|osd| c.map().osd(osd)).map_or(0, |osd| osd.info.up_from.0);
    let mut value = match osd {
        Some(osd) => json!({"osd": osd.0}),
        None => json!({}),
    };
    let rest = json!({
        "up_from": up_from,
        "seq": seq,
        "num_pgs": stats.pg_count,
        "num_osds": osds,
        "num_per_pool_osds": osds,
        "num_per_pool_omap_osds": osds,
        "kb": stats.total_bytes / 1024,
        "kb_used": used / 1024,
        "kb_used_data": stats.data_bytes / 1024,
        "kb_used_omap": stats.omap_bytes / 1024,
        "kb_used_meta": stats.metadata_bytes / 1024,
        "kb_avail": stats.free_bytes / 1024,
        "statfs": statfs_value(
            stats.total_bytes,
            stats.free_bytes,
            stats.data_bytes,
            stats.stored_bytes,
            stats.omap_bytes,
            stats.metadata_bytes,
        ),
        "hb_peers": osd.map(|osd| peers(c, osd)).unwrap_or_default(),
        "snap_trim_queue_len": 0,
        "num_snap_trimming": 0,
        "num_shards_repaired": stats.bad_copies,
        "op_queue_age_hist": {"histogram": [], "upper_bound": 1},
        "perf_stat": perf_value(stats.commit_latency_us),
        "alerts": [],
        "network_ping_times": osd.map_or(json!([]), |osd| ping_times(c, osd)),
    });
    if let Value::Object(fields) = rest {
        fields.into_iter().for_each(|(key, field)| value[key] = field);
    }
    value
}
