//! Making, listing, renaming and deleting pools, their quotas and snapshots, and their I/O.

use super::command::Command;
use super::context::Context;
use super::text_table::TextTable;
use super::{Answer, Reply, done, pool_print, refuse, units};
use crate::autoscaler::{self, PoolPlan};
use crate::pools::{self, NewPool, PoolError};
use crate::volatile::IoRates;
use osdmap::{AutoscaleMode, PgPool, PoolFlags, PoolOpt, PoolOptKey};
use serde_json::{Map, Value, json};
use types::{Errno, PoolId};

pub(super) const COMMANDS: &[Command] = &[
    Command::new(
        "osd pool create {pool:Poolname} {pg_num:Int,range=0,req=false} {pgp_num:Int,range=0,req=false} \
         {pool_type:Choices,req=false,strings=replicated|erasure} {erasure_code_profile:String,req=false} \
         {rule:String,req=false} {expected_num_objects:Int,range=0,req=false} {size:Int,range=0,req=false} \
         {pg_num_min:Int,range=0,req=false} {pg_num_max:Int,range=0,req=false} \
         {autoscale_mode:Choices,req=false,strings=on|off|warn} {bulk:Bool,req=false} \
         {target_size_bytes:Int,range=0,req=false} {target_size_ratio:Float,range=0.0,req=false}",
        "rw",
        "make a pool",
        create,
    ),
    Command::new(
        "osd pool delete {pool:Poolname} {pool2:Poolname,req=false} {yes_i_really_really_mean_it:Bool,req=false} \
         {yes_i_really_really_mean_it_not_faking:Bool,req=false}",
        "rw",
        "delete a pool and all its data",
        delete,
    ),
    Command::new(
        "osd pool rm {pool:Poolname} {pool2:Poolname,req=false} {yes_i_really_really_mean_it:Bool,req=false} \
         {yes_i_really_really_mean_it_not_faking:Bool,req=false}",
        "rw",
        "delete a pool and all its data",
        delete,
    ),
    Command::new("osd pool rename {srcpool:Poolname} {destpool:Poolname}", "rw", "rename a pool", rename),
    Command::new("osd pool ls {detail:Choices,req=false,strings=detail}", "r", "list pools", list),
    Command::new("osd lspools", "r", "list pools with their ids", list_with_ids),
    Command::new("osd pool stats {pool_name:Poolname,req=false}", "r", "print what goes on in pools", stats),
    Command::new("osd pool get-quota {pool:Poolname}", "r", "print how much a pool may hold", get_quota),
    Command::new(
        "osd pool set-quota {pool:Poolname} {field:Choices,strings=max_objects|max_bytes} {val:String}",
        "rw",
        "set how much a pool may hold; 0 for no limit",
        set_quota,
    ),
    Command::new("osd pool mksnap {pool:Poolname} {snap:String}", "rw", "take a snapshot of a pool", make_snapshot),
    Command::new("osd pool rmsnap {pool:Poolname} {snap:String}", "rw", "remove a snapshot of a pool", remove_snapshot),
    Command::new(
        "osd pool autoscale-status",
        "r",
        "print how many placement groups pools have and need",
        autoscale_status,
    ),
];

fn pool_error(e: &PoolError) -> Reply {
    Reply::error(e.errno(), e.to_string())
}

fn create(c: &Context<'_>) -> Answer {
    let name = c.args.word("pool");
    let kind = c.args.text("pool_type").unwrap_or("replicated");
    let is_erasure = kind == "erasure";
    if let Some(pool) = c.map().pool_by_name(name).and_then(|id| c.map().pool(id)) {
        return match pool.is_erasure() == is_erasure {
            true => done(format!("pool '{name}' already exists")),
            false => refuse(Errno::EINVAL, format!("pool '{name}' cannot change to type {kind}")),
        };
    }
    let given = c.args.text("erasure_code_profile").filter(|profile| !profile.is_empty());
    if let Some(profile) = given.filter(|_| !is_erasure && !c.args.has("rule")) {
        // For replicated pools this position is the rule's.
        if c.crush().rule_by_name(profile).is_none() {
            return refuse(Errno::ENOENT, format!("specified rule {profile} doesn't exist"));
        }
    }
    let too_large = |_| pool_error(&PoolError::Size);
    // Zero means the default, as in Ceph.
    let number = |name: &'static str| -> Result<Option<u32>, Reply> {
        let given = c.args.int(name).filter(|n| *n != 0);
        given.map(u32::try_from).transpose().map_err(|_| pool_error(&PoolError::PgNum(pools::pg_num_max(c.state))))
    };
    let size = c.args.int("size").filter(|size| *size != 0).map(u8::try_from).transpose();
    let rule = c.args.text("rule").or(given.filter(|_| !is_erasure)).filter(|rule| !rule.is_empty());
    let profile = is_erasure.then(|| given.unwrap_or(crate::erasure_pools::DEFAULT_PROFILE).to_owned());
    let new = NewPool {
        name: name.to_owned(),
        pg_num: number("pg_num")?,
        pgp_num: number("pgp_num")?,
        rule: rule.map(str::to_owned),
        rule_id: None,
        size: size.map_err(too_large)?,
        expected_num_objects: c.args.int("expected_num_objects").map(|n| n as u64).filter(|n| *n != 0),
        erasure_code_profile: profile,
    };
    let mut incremental = c.state.next_incremental(c.request.now);
    let id = pools::create(c.state, &new, &mut incremental).map_err(|e| pool_error(&e))?;
    let pool = incremental.new_pools.get_mut(&id).expect("it was just added");
    apply_create_options(c, pool)?;
    let updates = c.state.osd_update(incremental).into_iter().collect();
    c.propose(updates, Reply::status(format!("pool '{name}' created")))
}

/// Applies settings that `osd pool create` can give at once.
fn apply_create_options(c: &Context<'_>, pool: &mut PgPool) -> Result<(), Reply> {
    if let Some(mode) = c.args.text("autoscale_mode").and_then(AutoscaleMode::from_name) {
        pool.autoscale_mode = mode;
    }
    if c.args.flag("bulk") {
        pool.flags.insert(PoolFlags::BULK);
    }
    let pg_num = i64::from(pool.pg_num);
    if let Some(min) = c.args.int("pg_num_min").filter(|n| *n != 0) {
        if min > pg_num {
            return refuse(Errno::ERANGE, format!("specified pg_num_min {min} > pg_num {pg_num}"));
        }
        pool.opts.0.insert(PoolOptKey::PG_NUM_MIN, PoolOpt::Int(min));
    }
    if let Some(bytes) = c.args.int("target_size_bytes").filter(|n| *n != 0) {
        pool.opts.0.insert(PoolOptKey::TARGET_SIZE_BYTES, PoolOpt::Int(bytes));
    }
    if let Some(ratio) = c.args.float("target_size_ratio").filter(|ratio| *ratio != 0.0) {
        pool.opts.0.insert(PoolOptKey::TARGET_SIZE_RATIO, PoolOpt::Double(ratio));
    }
    Ok(())
}

fn delete(c: &Context<'_>) -> Answer {
    let name = c.args.word("pool");
    let Some(id) = c.map().pool_by_name(name) else {
        return done(format!("pool '{name}' does not exist"));
    };
    let sure = c.args.text("pool2") == Some(name) && c.args.flag("yes_i_really_really_mean_it");
    if !sure && !c.args.flag("yes_i_really_really_mean_it_not_faking") {
        let sentence = format!(
            "WARNING: this will *PERMANENTLY DESTROY* all data stored in pool {name}.  If you are *ABSOLUTELY CERTAIN* \
             that is what you want, pass the pool name *twice*, followed by --yes-i-really-really-mean-it."
        );
        return refuse(Errno::EPERM, sentence);
    }
    let mut incremental = c.state.next_incremental(c.request.now);
    pools::delete(c.state, id, &mut incremental).map_err(|e| pool_error(&e))?;
    let updates = c.state.osd_update(incremental).into_iter().collect();
    c.propose(updates, Reply::status(format!("pool '{name}' removed")))
}

fn rename(c: &Context<'_>) -> Answer {
    let (from, to) = (c.args.word("srcpool"), c.args.word("destpool"));
    let there = c.map().pool_by_name(to).is_some();
    let Some(id) = c.map().pool_by_name(from) else {
        if there {
            return done(format!("pool '{from}' does not exist; pool '{to}' does -- assuming successful rename"));
        }
        return refuse(Errno::ENOENT, format!("unrecognized pool '{from}'"));
    };
    if there {
        return refuse(Errno::EEXIST, format!("pool '{to}' already exists"));
    }
    if to.is_empty() {
        return refuse(Errno::EINVAL, "pool name must not be empty");
    }
    c.change_map(format!("pool '{from}' renamed to '{to}'"), |incremental| {
        incremental.new_pool_names.insert(id, to.to_owned());
    })
}

/// Returns the pools by id with their names.
fn named<'a>(c: &Context<'a>) -> impl Iterator<Item = (PoolId, &'a str, &'a PgPool)> + use<'a> {
    let map = c.map();
    map.pools.iter().map(|(id, pool)| (*id, map.pool_name(*id).unwrap_or_default(), pool))
}

fn list(c: &Context<'_>) -> Answer {
    if c.args.has("detail") {
        return c.either(
            || {
                named(c)
                    .map(|(id, name, pool)| pool_print::text(id, name, pool) + "\n")
                    .chain(["\n".to_owned()])
                    .collect()
            },
            || named(c).map(|(id, name, pool)| pool_print::value("pool_id", id, Some(name), pool)).collect(),
        );
    }
    c.either(
        || named(c).map(|(_, name, _)| format!("{name}\n")).collect(),
        || named(c).map(|(_, name, _)| json!(name)).collect(),
    )
}

fn list_with_ids(c: &Context<'_>) -> Answer {
    c.either(
        || named(c).map(|(id, name, _)| format!("{id} {name}\n")).collect(),
        || named(c).map(|(id, name, _)| json!({"poolnum": id.0, "poolname": name})).collect(),
    )
}

/// Returns client I/O as `1.2 MiB/s rd, 568 KiB/s wr, 2 op/s rd, 5 op/s wr`, or `None` if there is none.
pub(super) fn io_text(rates: &IoRates) -> Option<String> {
    let (read, written) = (rates.read_bytes.round() as u64, rates.write_bytes.round() as u64);
    let (reads, writes) = (rates.read_ops.round() as u64, rates.write_ops.round() as u64);
    if read + written + reads + writes == 0 {
        return None;
    }
    let mut parts = Vec::new();
    if read > 0 {
        parts.push(format!("{}/s rd", units::bytes(read)));
    }
    if written > 0 {
        parts.push(format!("{}/s wr", units::bytes(written)));
    }
    parts.push(format!("{} op/s rd", units::count(reads)));
    parts.push(format!("{} op/s wr", units::count(writes)));
    Some(parts.join(", "))
}

/// Returns the rates of recovery, if there is any.
pub(super) fn recovery_text(rates: &IoRates) -> Option<String> {
    let (bytes, objects) = (rates.recovered_bytes.round() as u64, rates.recovered_objects.round() as u64);
    (bytes + objects > 0).then(|| format!("{}/s, {} objects/s", units::bytes(bytes), units::count(objects)))
}

/// Adds the rates of recovery as entries of an object, if there is any.
pub(super) fn add_recovery(rates: &IoRates, object: &mut Map<String, Value>) {
    let (bytes, objects) = (rates.recovered_bytes.round() as u64, rates.recovered_objects.round() as u64);
    if bytes + objects > 0 {
        object.insert("recovering_objects_per_sec".to_owned(), json!(objects));
        object.insert("recovering_bytes_per_sec".to_owned(), json!(bytes));
        object.insert("recovering_keys_per_sec".to_owned(), json!(0));
    }
}

/// Adds the rates that are not zero, as Ceph names them.
pub(super) fn add_io(rates: &IoRates, object: &mut Map<String, Value>) {
    let (read, written) = (rates.read_bytes.round() as u64, rates.write_bytes.round() as u64);
    let (reads, writes) = (rates.read_ops.round() as u64, rates.write_ops.round() as u64);
    if read + written + reads + writes == 0 {
        return;
    }
    if read > 0 {
        object.insert("read_bytes_sec".to_owned(), json!(read));
    }
    if written > 0 {
        object.insert("write_bytes_sec".to_owned(), json!(written));
    }
    object.insert("read_op_per_sec".to_owned(), json!(reads));
    object.insert("write_op_per_sec".to_owned(), json!(writes));
}

fn stats(c: &Context<'_>) -> Answer {
    let wanted = match c.args.text("pool_name") {
        Some(_) => Some(c.pool("pool_name")?.0),
        None => None,
    };
    let pools = || named(c).filter(|(id, ..)| wanted.is_none_or(|wanted| wanted == *id));
    let rates = |id: PoolId| c.volatile.rates.get(&id).copied().unwrap_or_default();
    let text = || {
        let one = |(id, name, _): (PoolId, &str, &PgPool)| {
            let totals = c.volatile.totals(Some(id));
            let mut lines = Vec::new();
            lines.extend(totals.complaints().into_iter().map(|complaint| format!("  {complaint}")));
            if let Some(io) = recovery_text(&rates(id)) {
                lines.push(format!("  recovery io {io}"));
            }
            if let Some(io) = io_text(&rates(id)) {
                lines.push(format!("  client io {io}"));
            }
            if lines.is_empty() {
                lines.push("  nothing is going on".to_owned());
            }
            format!("pool {name} id {id}\n{}\n\n", lines.join("\n"))
        };
        pools().map(one).collect()
    };
    let value = || {
        let one = |(id, name, _): (PoolId, &str, &PgPool)| {
            let totals = c.volatile.totals(Some(id));
            let (mut recovery, mut recovery_rate) = (Map::new(), Map::new());
            totals.put_complaints(&mut recovery);
            add_recovery(&rates(id), &mut recovery_rate);
            let mut io = Map::new();
            add_io(&rates(id), &mut io);
            json!({
                "pool_name": name,
                "pool_id": id.0,
                "recovery": recovery,
                "recovery_rate": recovery_rate,
                "client_io_rate": io,
            })
        };
        pools().map(one).collect()
    };
    c.either(text, value)
}

fn get_quota(c: &Context<'_>) -> Answer {
    let (id, name, pool) = c.pool("pool")?;
    let totals = c.volatile.totals(Some(id));
    let text = || {
        let objects = match pool.quota_max_objects {
            0 => "N/A".to_owned(),
            max => {
                format!(
                    "{} objects  (current num objects: {} objects)",
                    units::count(max),
                    units::count(totals.objects)
                )
            }
        };
        let bytes = match pool.quota_max_bytes {
            0 => "N/A".to_owned(),
            max => format!("{}  (current num bytes: {} bytes)", units::bytes(max), totals.bytes),
        };
        format!("quotas for pool '{name}':\n  max objects: {objects}\n  max bytes  : {bytes}\n")
    };
    let value = || {
        json!({
            "pool_name": name,
            "pool_id": id.0,
            "quota_max_objects": pool.quota_max_objects,
            "current_num_objects": totals.objects,
            "quota_max_bytes": pool.quota_max_bytes,
            "current_num_bytes": totals.bytes,
        })
    };
    c.either(text, value)
}

fn set_quota(c: &Context<'_>) -> Answer {
    let (id, name, _) = c.pool("pool")?;
    let (field, text) = (c.args.word("field"), c.args.word("val"));
    let value = if field == "max_bytes" { units::parse_bytes(text) } else { units::parse_count(text) };
    let value = value.map_err(|why| Reply::error(Errno::EINVAL, format!("error parsing value '{text}': {why}")))?;
    c.change_pool(id, format!("set-quota {field} = {value} for pool {name}"), |pool| {
        let slot = if field == "max_bytes" { &mut pool.quota_max_bytes } else { &mut pool.quota_max_objects };
        *slot = value;
    })
}

/// Refuses snapshots of a pool whose clients take their own.
fn takes_own_snapshots(name: &str, pool: &PgPool) -> Result<(), Reply> {
    match pool.flags.contains(PoolFlags::SELFMANAGED_SNAPS) {
        true => refuse(Errno::EINVAL, format!("pool {name} is in unmanaged snaps mode")),
        false => Ok(()),
    }
}

fn make_snapshot(c: &Context<'_>) -> Answer {
    let (id, name, pool) = c.pool("pool")?;
    let snap = c.args.word("snap");
    takes_own_snapshots(name, pool)?;
    if pool.snaps.values().any(|known| known.name == snap) {
        return done(format!("pool {name} snap {snap} already exists"));
    }
    let mut incremental = c.state.next_incremental(c.request.now);
    let mut pool = pool.clone();
    pool.add_snap(snap, c.request.now);
    (pool.snap_epoch, pool.last_change) = (incremental.epoch, incremental.epoch);
    incremental.new_pools.insert(id, pool);
    let updates = c.state.osd_update(incremental).into_iter().collect();
    c.propose(updates, Reply::status(format!("created pool {name} snap {snap}")))
}

fn remove_snapshot(c: &Context<'_>) -> Answer {
    let (id, name, pool) = c.pool("pool")?;
    let snap = c.args.word("snap");
    takes_own_snapshots(name, pool)?;
    let Some(found) = pool.snaps.values().find(|known| known.name == snap).map(|known| known.id) else {
        return done(format!("pool {name} snap {snap} does not exist"));
    };
    let mut incremental = c.state.next_incremental(c.request.now);
    let mut pool = pool.clone();
    pool.remove_snap(found);
    (pool.snap_epoch, pool.last_change) = (incremental.epoch, incremental.epoch);
    incremental.new_pools.insert(id, pool);
    incremental.new_removed_snaps.entry(id).or_default().insert(found.0, 1);
    let updates = c.state.osd_update(incremental).into_iter().collect();
    c.propose(updates, Reply::status(format!("removed pool {name} snap {snap}")))
}

/// Returns bytes as the autoscaler prints them: `703.1k`, `46464M`.
fn scaled(n: u64) -> String {
    units::fixed(n as f64, 6, 1024)
}

fn autoscale_status(c: &Context<'_>) -> Answer {
    let plans = autoscaler::plans(c.state, c.volatile);
    let rows: Vec<_> = named(c).map(|(id, name, pool)| (id, name, pool, &plans[&id])).collect();
    let text = || {
        let right = ["SIZE", "TARGET SIZE", "RATE", "RAW CAPACITY", "RATIO", "TARGET RATIO", "EFFECTIVE RATIO", "BIAS"];
        let right = right.into_iter().chain(["PG_NUM", "NEW PG_NUM"]);
        let columns: Vec<(&str, char)> = [("POOL", 'l')]
            .into_iter()
            .chain(right.map(|heading| (heading, 'r')))
            .chain([("AUTOSCALE", 'l'), ("BULK", 'l')])
            .collect();
        let mut table = TextTable::with_columns(&columns);
        for (_, name, pool, plan) in &rows {
            let opt_bytes = pool.opts.int(PoolOptKey::TARGET_SIZE_BYTES).map(|n| scaled(n.max(0) as u64));
            let opt_ratio = pool.opts.double(PoolOptKey::TARGET_SIZE_RATIO).map(|ratio| format!("{ratio:.4}"));
            let effective = (plan.target_ratio > 0.0).then(|| format!("{:.4}", plan.effective_target_ratio));
            let wanted = plan.would_adjust.then(|| plan.pg_num_final.to_string());
            table.row(vec![
                (*name).to_owned(),
                scaled(plan.used_bytes),
                opt_bytes.unwrap_or_default(),
                format!("{:.1}", plan.raw_rate),
                scaled(plan.capacity_bytes),
                format!("{:.4}", plan.ratio),
                opt_ratio.unwrap_or_default(),
                effective.unwrap_or_default(),
                format!("{:.1}", plan.bias),
                pool.pg_num_target.to_string(),
                wanted.unwrap_or_default(),
                pool.autoscale_mode.name().to_owned(),
                if pool.flags.contains(PoolFlags::BULK) { "True" } else { "False" }.to_owned(),
            ]);
        }
        table.render(true)
    };
    let value = || {
        let one = |(id, name, pool, plan): &(PoolId, &str, &PgPool, &PoolPlan)| {
            json!({
                "actual_capacity_ratio": plan.actual_ratio,
                "actual_raw_used": plan.actual_raw_bytes(),
                "bias": plan.bias,
                "bulk": pool.flags.contains(PoolFlags::BULK),
                "capacity_ratio": plan.ratio,
                "crush_root_id": plan.root,
                "effective_target_ratio": plan.effective_target_ratio,
                "logical_used": plan.used_bytes,
                "pg_autoscale_mode": pool.autoscale_mode.name(),
                "pg_num_final": plan.pg_num_final,
                "pg_num_ideal": plan.pg_num_ideal,
                "pg_num_target": pool.pg_num_target,
                "pool_id": id.0,
                "pool_name": name,
                "raw_used": plan.raw_bytes(),
                "raw_used_rate": plan.raw_rate,
                "subtree_capacity": plan.capacity_bytes,
                "target_bytes": plan.target_bytes,
                "target_ratio": plan.target_ratio,
                "would_adjust": plan.would_adjust,
            })
        };
        rows.iter().map(one).collect()
    };
    c.either(text, value)
}
