//! `ceph osd pool set noautoscale`: the number of groups of all pools, and of pools to come, at once.

use super::command::Command;
use super::context::Context;
use super::{Answer, Reply, done};
use crate::Update;
use osdmap::AutoscaleMode;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("osd pool set noautoscale", "rw", "leave the number of groups of no pool to the cluster", |c| {
        set(c, true)
    }),
    Command::new("osd pool unset noautoscale", "rw", "leave the number of groups of all pools to the cluster", |c| {
        set(c, false)
    }),
    Command::new("osd pool get noautoscale", "r", "say whether noautoscale is set", get),
];

/// Options that keep the flag, and the mode of pools to come.
const FLAG: &str = "mgr/pg_autoscaler/noautoscale";
const MODE: &str = "osd_pool_default_pg_autoscale_mode";

fn is_set(c: &Context<'_>) -> bool {
    c.state.config.get("mgr", FLAG) == Some("true")
}

fn set(c: &Context<'_>, on: bool) -> Answer {
    let word = if on { "set" } else { "unset" };
    let (mode, name) = if on { (AutoscaleMode::OFF, "off") } else { (AutoscaleMode::ON, "on") };
    if is_set(c) == on {
        return done(format!("noautoscale is already {word}!"));
    }
    let option = |who: &str, name: &str, value: &str| Update::Config {
        who: who.to_owned(),
        name: name.to_owned(),
        value: Some(value.to_owned()),
    };
    let flag = if on { "true" } else { "false" };
    let mut updates = vec![option("mgr", FLAG, flag), option("global", MODE, name)];
    let mut incremental = c.state.next_incremental(c.request.now);
    for (id, pool) in c.map().pools.iter().filter(|(_, pool)| pool.autoscale_mode != mode) {
        let mut pool = pool.clone();
        pool.autoscale_mode = mode;
        pool.last_change = incremental.epoch;
        incremental.new_pools.insert(*id, pool);
    }
    updates.extend(c.state.osd_update(incremental));
    c.propose(updates, Reply::status(format!("noautoscale is {word}, all pools now have autoscale {name}")))
}

fn get(c: &Context<'_>) -> Answer {
    done(format!("noautoscale is {}", if is_set(c) { "on" } else { "off" }))
}
