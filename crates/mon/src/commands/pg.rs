//! `ceph pg`: placement groups in short and in lists.

use super::command::Command;
use super::context::{Context, osds_text, osds_value, with_status};
use super::pg_print;
use super::text_table::TextTable;
use super::{Answer, Format, Reply, done, pools, refuse, units};
use crate::volatile::{IoRates, PgStat, pg_state_bit, pg_state_text};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use types::{Errno, OsdId, PgId, PoolId};
use wire::nacre::mon::pg_state;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("pg stat", "r", "print in one line how placement groups are", stat),
    Command::new(
        "pg debug {debugop:Choices,strings=unfound_objects_exist|degraded_pgs_exist}",
        "r",
        "say whether there are unfound objects, or groups that lack copies",
        debug,
    ),
    Command::new("pg getmap", "r", "get statistics of groups in the form of a Ceph's own; not known here", |_| {
        refuse(Errno::EOPNOTSUPP, "a Ceph's own form of these statistics is not written here: see `ceph pg dump`")
    }),
    Command::new(
        "osd force-create-pg {pgid:Pgid} {yes_i_really_mean_it:Bool,req=false}",
        "rw",
        "make a group anew of which nothing is left",
        force_create,
    ),
    Command::new("pg map {pgid:Pgid}", "r", "print where a placement group is placed", map),
    Command::new(
        "pg ls {pool:Int,req=false} {states:String,n=N,req=false}",
        "r",
        "list placement groups, of one pool or in some states",
        |c| {
            let pool = existing_pool_id(c)?;
            list(c, |pg| pool.is_none_or(|pool| pg.report.pgid.pool == pool))
        },
    ),
    Command::new(
        "pg ls-by-pool {poolstr:String} {states:String,n=N,req=false}",
        "r",
        "list the placement groups of a pool",
        |c| {
            let name = c.args.word("poolstr");
            let Some(pool) = c.map().pool_by_name(name) else {
                return refuse(Errno::ENOENT, format!("pool {name} does not exist"));
            };
            list(c, |pg| pg.report.pgid.pool == pool)
        },
    ),
    Command::new(
        "pg ls-by-osd {osd:OsdName} {pool:Int,req=false} {states:String,n=N,req=false}",
        "r",
        "list the placement groups on an OSD",
        |c| list_on_osd(c, |pg, osd| pg.report.up.contains(&osd) || pg.acting_shown(c.map()).contains(&osd)),
    ),
    Command::new(
        "pg ls-by-primary {osd:OsdName} {pool:Int,req=false} {states:String,n=N,req=false}",
        "r",
        "list the placement groups whose primary an OSD is",
        |c| list_on_osd(c, |pg, osd| pg.primary() == Some(osd)),
    ),
    Command::new(
        "pg dump_stuck {stuckops:Choices,n=N,req=false,strings=inactive|unclean|stale|undersized|degraded} \
         {threshold:Int,req=false}",
        "r",
        "list placement groups that have not been well for a while",
        dump_stuck,
    ),
];

fn stat(c: &Context<'_>) -> Answer {
    let (totals, space) = (c.volatile.totals(None), c.volatile.space());
    let used = space.total_bytes.saturating_sub(space.free_bytes);
    let rates = total_rates(c);
    let states = c.volatile.pgs_by_state();
    let text = || {
        let counts: Vec<String> = states.iter().map(|(state, n)| format!("{n} {}", pg_state_text(*state))).collect();
        let mut out = format!("{} pgs: {}", totals.pgs, counts.join(", "));
        let (data, used) = (units::bytes(totals.bytes), units::bytes(used));
        out += &format!(
            "; {data} data, {used} used, {} / {} avail",
            units::bytes(space.free_bytes),
            units::bytes(space.total_bytes)
        );
        if let Some(io) = io_short(&rates) {
            out += &format!("; {io}");
        }
        for complaint in totals.complaints() {
            out += &format!("; {complaint}");
        }
        out + "\n"
    };
    let value = || {
        let states: Vec<Value> =
            states.iter().map(|(state, n)| json!({"name": pg_state_text(*state), "num": n})).collect();
        let mut summary = Map::new();
        let mut put = |key: &str, value: Value| drop(summary.insert(key.to_owned(), value));
        put("num_pg_by_state", json!(states));
        put("num_pgs", json!(totals.pgs));
        put("num_bytes", json!(totals.bytes));
        put("total_bytes", json!(space.total_bytes));
        put("total_avail_bytes", json!(space.free_bytes));
        put("total_used_bytes", json!(used));
        put("total_used_raw_bytes", json!(used));
        let (read, written) = (rates.read_bytes.round() as u64, rates.write_bytes.round() as u64);
        let ops = (rates.read_ops + rates.write_ops).round() as u64;
        for (key, n) in [("read_bytes_sec", read), ("write_bytes_sec", written), ("io_sec", ops)] {
            if n > 0 {
                put(key, json!(n));
            }
        }
        totals.put_complaints(&mut summary);
        json!({"pg_ready": true, "pg_summary": summary})
    };
    c.either(text, value)
}

/// Returns the client I/O over all pools.
pub(super) fn total_rates(c: &Context<'_>) -> IoRates {
    c.volatile.rates.values().fold(IoRates::default(), |sum, rates| IoRates {
        read_ops: sum.read_ops + rates.read_ops,
        read_bytes: sum.read_bytes + rates.read_bytes,
        write_ops: sum.write_ops + rates.write_ops,
        write_bytes: sum.write_bytes + rates.write_bytes,
        recovered_objects: sum.recovered_objects + rates.recovered_objects,
        recovered_bytes: sum.recovered_bytes + rates.recovered_bytes,
    })
}

/// Returns `1.7 MiB/s wr, 8 op/s`.
fn io_short(rates: &IoRates) -> Option<String> {
    pools::io_text(rates)?;
    let mut parts = Vec::new();
    if rates.read_bytes.round() > 0.0 {
        parts.push(format!("{}/s rd", units::bytes(rates.read_bytes.round() as u64)));
    }
    if rates.write_bytes.round() > 0.0 {
        parts.push(format!("{}/s wr", units::bytes(rates.write_bytes.round() as u64)));
    }
    parts.push(format!("{} op/s", units::count((rates.read_ops + rates.write_ops).round() as u64)));
    Some(parts.join(", "))
}

fn debug(c: &Context<'_>) -> Answer {
    let mut groups = c.volatile.pgs.values();
    let any = match c.args.word("debugop") {
        "unfound_objects_exist" => groups.any(|pg| pg.report.unfound > 0),
        _ => groups.any(|pg| pg.report.state & pg_state::DEGRADED != 0),
    };
    c.text(if any { "TRUE\n" } else { "FALSE\n" })
}

/// A group of which nothing is left is made anew by itself, once the operator has given up each OSD that served it. So
/// this command says who has to be given up, and changes nothing.
fn force_create(c: &Context<'_>) -> Answer {
    let pg = c.args.pg("pgid").expect("the signature requires it");
    if !c.map().has_pg(pg) {
        return refuse(Errno::ENOENT, format!("pg {pg} should not exist"));
    }
    if !c.args.flag("yes_i_really_mean_it") {
        let sentence = "This command will recreate a lost (as in data lost) PG with data in it, such that the cluster \
                        will give up ever trying to recover the lost data.  Do this only if you are certain that all \
                        copies of the PG are in fact lost and you are willing to accept that the data is permanently \
                        destroyed.  Pass --yes-i-really-mean-it to proceed.";
        return refuse(Errno::EPERM, sentence);
    }
    let serves = c.volatile.pgs.get(&pg).is_some_and(|known| known.report.state & pg_state::ACTIVE != 0);
    let record = c.state.pgs.get(&pg);
    let served = record.into_iter().flat_map(|record| record.members.iter().chain(&record.past));
    let since = record.map(|record| record.last_epoch_started).unwrap_or_default();
    let may_return = |osd: &&OsdId| {
        let known = c.map().osd(**osd).filter(|_| c.map().exists(**osd));
        known.is_some_and(|known| !known.is_up() && known.info.lost_at <= since)
    };
    let awaited: BTreeSet<&OsdId> = served.filter(may_return).collect();
    if !serves && !awaited.is_empty() {
        let names: Vec<String> = awaited.iter().map(|osd| osd.to_string()).collect();
        let sentence = format!(
            "pg {pg} is made anew once none of its OSDs can come back, and {} may: give up each by `ceph osd lost ID \
             --yes-i-really-mean-it`",
            names.join(", ")
        );
        return refuse(Errno::EBUSY, sentence);
    }
    done(format!("pg {pg} now creating, ok"))
}

fn map(c: &Context<'_>) -> Answer {
    let raw = c.args.pg("pgid").expect("the signature requires it");
    let Some(pool) = c.map().pool(raw.pool) else {
        return refuse(Errno::ENOENT, format!("pg '{raw}' does not exist"));
    };
    let pg = PgId { pool: raw.pool, seed: pool.seed_of_hash(raw.seed) };
    let place = c.map().pg_to_up_acting(pg).map_err(|e| Reply::error(Errno::EINVAL, e.to_string()))?;
    let epoch = c.map().epoch;
    let text = || {
        let (up, acting) = (osds_text(&place.up), osds_text(place.acting_shown()));
        format!("osdmap {epoch} pg {raw} ({pg}) -> up {up} acting {acting}\n")
    };
    let value = || {
        json!({
            "epoch": epoch.0,
            "raw_pgid": raw.to_string(),
            "pgid": pg.to_string(),
            "up": osds_value(&place.up),
            "acting": osds_value(place.acting_shown()),
        })
    };
    c.either(text, value)
}

/// Returns the states asked for: each a set of bits that must be set together, such as `active+clean`.
fn wanted_states(c: &Context<'_>) -> Result<Vec<u64>, Reply> {
    let state = |text: &&str| {
        text.split('+').map(pg_state_bit).try_fold(0, |bits, bit| Some(bits | bit?)).ok_or_else(|| {
            let choices = pg_state_text(u64::MAX);
            let sentence = format!("'{text}' is not a valid pg state, available choices: {choices}");
            Reply::error(Errno::EINVAL, sentence)
        })
    };
    c.args.texts("states").iter().map(state).collect()
}

/// Returns the pool whose number is given, if one is.
fn existing_pool_id(c: &Context<'_>) -> Result<Option<PoolId>, Reply> {
    match c.args.int("pool").map(PoolId) {
        Some(pool) if c.map().pool(pool).is_none() => refuse(Errno::ENOENT, format!("pool {pool} does not exist")),
        pool => Ok(pool),
    }
}

fn list_on_osd(c: &Context<'_>, on: impl Fn(&PgStat, OsdId) -> bool) -> Answer {
    let osd = c.args.osd("osd").expect("the signature requires it");
    if !c.map().is_up(osd) {
        return refuse(Errno::EAGAIN, format!("osd {} is not up", osd.0));
    }
    let pool = existing_pool_id(c)?;
    list(c, |pg| on(pg, osd) && pool.is_none_or(|pool| pg.report.pgid.pool == pool))
}

fn list(c: &Context<'_>, keep: impl Fn(&PgStat) -> bool) -> Answer {
    let states = wanted_states(c)?;
    let in_state = |pg: &PgStat| {
        let is = pg.report.state;
        states.is_empty() || states.iter().any(|state| if *state == 0 { is == 0 } else { is & state == *state })
    };
    let pgs: Vec<&PgStat> = c.volatile.pgs.values().filter(|pg| keep(pg) && in_state(pg)).collect();
    c.either(|| list_text(c, &pgs), || json!({"pg_ready": true, "pg_stats": pg_print::values(c.map(), &pgs)}))
}

/// Note on the origin of the numbers of omap entries.
pub(super) const OMAP_NOTE: &str = "\n* NOTE: Omap statistics are gathered during deep scrub and may be inaccurate \
                                    soon afterwards depending on utilization. See \
                                    http://docs.ceph.com/en/latest/dev/placement-group/#omap-statistics for further \
                                    details.\n";

fn list_text(c: &Context<'_>, pgs: &[&PgStat]) -> String {
    let right = ["OBJECTS", "DEGRADED", "MISPLACED", "UNFOUND", "BYTES", "OMAP_BYTES*", "OMAP_KEYS*", "LOG", "STATE"];
    let right =
        right.into_iter().chain(["SINCE", "VERSION", "REPORTED", "UP", "ACTING", "SCRUB_STAMP", "DEEP_SCRUB_STAMP"]);
    let columns: Vec<(&str, char)> = [("PG", 'l')].into_iter().chain(right.map(|heading| (heading, 'R'))).collect();
    let mut table = TextTable::with_columns(&columns);
    for pg in pgs {
        let r = &pg.report;
        let scrubbed = pg_print::scrubbed(c.map(), r);
        let members = |osds: &[OsdId]| format!("{}p{}", osds_text(osds), pg_print::primary(osds));
        table.row(vec![
            r.pgid.to_string(),
            r.objects.to_string(),
            r.degraded_copies.to_string(),
            r.misplaced_copies.to_string(),
            r.unfound.to_string(),
            r.bytes.to_string(),
            r.omap_bytes.to_string(),
            r.omap_keys.to_string(),
            r.log_entries.to_string(),
            pg_state_text(r.state),
            units::age(c.since(pg.times.change)),
            r.last_update.to_string(),
            format!("{}:{}", r.epoch.0, r.sequence),
            members(&r.up),
            members(pg.acting_shown(c.map())),
            scrubbed.light_at.to_string(),
            scrubbed.deep_at.to_string(),
        ]);
    }
    table.render(true) + OMAP_NOTE
}

/// Seconds after which a state counts as stuck.
const STUCK_SECONDS: i64 = 60;

fn dump_stuck(c: &Context<'_>) -> Answer {
    let threshold = c.args.int("threshold").unwrap_or(STUCK_SECONDS).max(0) as u64;
    let kinds = c.args.texts("stuckops");
    let kinds = if kinds.is_empty() { vec!["inactive", "unclean", "stale", "undersized", "degraded"] } else { kinds };
    let is_stuck = |pg: &PgStat| {
        let state = pg.report.state;
        let since = |well: bool, stamp: types::Utime| !well && c.since(stamp).as_secs() >= threshold;
        kinds.iter().any(|kind| match *kind {
            "inactive" => since(state & pg_state::ACTIVE != 0, pg.times.active),
            "unclean" => since(state & pg_state::CLEAN != 0, pg.times.clean),
            "stale" => since(state & pg_state::STALE == 0, pg.times.unstale),
            "undersized" => since(state & pg_state::UNDERSIZED == 0, pg.times.fullsized),
            _ => since(state & pg_state::DEGRADED == 0, pg.times.undegraded),
        })
    };
    let pgs: Vec<&PgStat> = c.volatile.pgs.values().filter(|pg| is_stuck(pg)).collect();
    let answer = match c.format {
        Format::Plain if pgs.is_empty() => c.text(""),
        Format::Plain => c.text(pg_print::brief_text(c.map(), &pgs)),
        _ => c.value(json!({"pg_ready": true, "stuck_pg_stats": pg_print::brief_values(c.map(), &pgs)})),
    };
    with_status(answer, "ok")
}
