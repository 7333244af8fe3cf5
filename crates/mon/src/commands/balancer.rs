//! `ceph balancer`.

use super::command::Command;
use super::context::Context;
use super::units;
use super::{Answer, balancer_plans, done, refuse};
use crate::balancer::{BalancerSettings, OPTION_ACTIVE, OPTION_MODE, OPTION_POOLS, score_of};
use crate::update::Update;
use osdmap::{PgMapping, spread};
use serde_json::json;
use std::collections::BTreeSet;
use types::{Errno, PoolId};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("balancer status", "r", "print what the balancer does", status),
    Command::new("balancer on", "rw", "begin balancing", |c| set(c, OPTION_ACTIVE, "true")),
    Command::new("balancer off", "rw", "stop balancing", |c| set(c, OPTION_ACTIVE, "false")),
    Command::new(
        "balancer mode {mode:Choices,strings=none|crush-compat|upmap}",
        "rw",
        "choose how to balance: by exceptions of placement (upmap), or not at all",
        |c| match c.args.word("mode") {
            "crush-compat" => refuse(Errno::EOPNOTSUPP, "mode crush-compat is not supported; use upmap"),
            mode => set(c, OPTION_MODE, mode),
        },
    ),
    Command::new("balancer pool ls", "r", "list the pools that are balanced, if not all are", list_pools),
    Command::new(
        "balancer pool add {pools:String,n=N}",
        "rw",
        "balance these pools, beside others so named",
        add_pools,
    ),
    Command::new("balancer pool rm {pools:String,n=N}", "rw", "name pools no more; none named means all", remove_pools),
    Command::new("balancer eval {option:String,req=false}", "r", "print how evenly data is spread", eval),
    Command::new(
        "balancer eval-verbose {option:String,req=false}",
        "r",
        "print how evenly data is spread",
        eval_verbose,
    ),
];

fn settings(c: &Context<'_>) -> BalancerSettings {
    BalancerSettings::of(c.state, &c.volatile.name)
}

fn status(c: &Context<'_>) -> Answer {
    let settings = settings(c);
    let last = &c.volatile.balancer;
    let looked = !last.at.is_zero();
    c.value(json!({
        "active": settings.active,
        // The duration of a round is unknown: the monitor reads no clock meanwhile.
        "last_optimize_duration": if looked { "0:00:00" } else { "" },
        "last_optimize_started": if looked { units::calendar(last.at) } else { String::new() },
        "mode": settings.mode,
        "no_optimization_needed": last.is_even,
        "optimize_result": last.result,
        "plans": balancer_plans::names(c),
    }))
}

fn set(c: &Context<'_>, option: &str, value: &str) -> Answer {
    if c.state.config.get("mgr", option) == Some(value) {
        return done("");
    }
    let (who, name) = ("mgr".to_owned(), option.to_owned());
    let update = Update::Config { who, name, value: Some(value.to_owned()) };
    c.propose(vec![update], super::Reply::default())
}

/// Lists the pools that are named and still there; none named means all.
fn list_pools(c: &Context<'_>) -> Answer {
    let Some(pools) = settings(c).pools else { return done("") };
    let mut names: Vec<&str> = pools.iter().filter_map(|id| c.map().pool_names.get(id)).map(String::as_str).collect();
    names.sort_unstable();
    c.value(json!(names))
}

fn add_pools(c: &Context<'_>) -> Answer {
    let known = |name: &&str| c.map().pool_by_name(name);
    let unknown: Vec<String> =
        c.args.texts("pools").iter().filter(|n| known(n).is_none()).map(|n| format!("'{n}'")).collect();
    if !unknown.is_empty() {
        return refuse(Errno::EINVAL, format!("pool(s) [{}] not found", unknown.join(", ")));
    }
    let mut pools = settings(c).pools.unwrap_or_default();
    pools.extend(c.args.texts("pools").iter().filter_map(known));
    keep_pools(c, pools)
}

/// Takes pools off the list. Names that are not known are passed over, as on a Ceph.
fn remove_pools(c: &Context<'_>) -> Answer {
    let Some(mut pools) = settings(c).pools else { return done("") };
    for name in c.args.texts("pools") {
        if let Some(id) = c.map().pool_by_name(name) {
            pools.remove(&id);
        }
    }
    keep_pools(c, pools)
}

/// Keeps the list of pools, without those that are gone.
fn keep_pools(c: &Context<'_>, pools: BTreeSet<PoolId>) -> Answer {
    let there = pools.iter().filter(|id| c.map().pools.contains_key(id));
    let ids: Vec<String> = there.map(|id| id.0.to_string()).collect();
    set(c, OPTION_POOLS, &ids.join(","))
}

/// Returns the pool that is asked about, if one is.
fn asked(c: &Context<'_>) -> Result<Option<PoolId>, super::Reply> {
    let Some(name) = c.args.text("option") else { return Ok(None) };
    match c.map().pool_by_name(name) {
        Some(pool) => Ok(Some(pool)),
        None => refuse(Errno::EINVAL, format!("option \"{name}\" not a plan or a pool")),
    }
}

fn eval(c: &Context<'_>) -> Answer {
    let name = c.args.text("option").unwrap_or_default();
    if let Some(plan) = balancer_plans::plan(c, name) {
        let score = balancer_plans::score(c, &plan)?;
        return c.text(format!("plan \"{name}\" score {score:.6} (lower is better)\n"));
    }
    let pool = asked(c)?;
    let score = score_of(c.map(), &PgMapping::compute(c.map()), pool);
    let what = c.args.text("option").map_or_else(|| "current cluster".to_owned(), |pool| format!("pool \"{pool}\""));
    c.text(format!("{what} score {score:.6} (lower is better)\n"))
}

fn eval_verbose(c: &Context<'_>) -> Answer {
    let pool = asked(c)?;
    let mapping = PgMapping::compute(c.map());
    let score = score_of(c.map(), &mapping, pool);
    let pools = pool.map(|pool| BTreeSet::from([pool]));
    let spread = spread(c.map(), &mapping, pools.as_ref());
    c.text(format!(
        "score {score:.6} (lower is better)\nfarthest from its share of one pool: {:.2} copies of placement groups\n\
         farthest from its share of all pools: {:.2} copies, {:.1} %\n",
        spread.pool_deviation_max,
        spread.deviation_max,
        100.0 * spread.relative_max,
    ))
}
