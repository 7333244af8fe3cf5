//! What Ceph's manager daemon is asked. The monitor does what a manager would; there are no modules to load.

use super::context::{Context, stamp, with_status};
use super::progress;
use super::table::Command;
use super::text_table::TextTable;
use super::{Answer, done, refuse};
use osdmap::PgMapping;
use serde_json::json;
use types::{Errno, PoolId};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("mgr dump {epoch:Int,range=0,req=false}", "r", "print the manager map", dump),
    Command::new("mgr stat", "r", "print who does a manager's work", stat),
    Command::new("mgr module ls", "r", "list modules; there are none", module_ls),
    Command::new("mgr services", "r", "list addresses that modules serve", |c| c.value(json!({}))),
    Command::new("mgr metadata {who:String,req=false}", "r", "print what managers say about themselves", |c| {
        match c.args.text("who") {
            Some(who) => refuse(Errno::ENOENT, format!("there is no manager daemon '{who}'")),
            None => c.value(json!([])),
        }
    }),
    Command::new("mgr versions", "r", "count the versions that managers run", |c| c.value(json!({}))),
    Command::new("mgr count-metadata {property:String}", "r", "count managers by a property", |c| c.value(json!({}))),
    Command::new("service dump", "r", "print the service map", |c| {
        c.value(json!({"epoch": 1, "modified": stamp(c.state.monmap.created), "services": {}}))
    }),
    Command::new("service status", "r", "print what services say", |c| c.value(json!({}))),
    Command::new("balancer status", "r", "print what the balancer does", balancer_status),
    Command::new("balancer eval {option:String,req=false}", "r", "print how evenly data is spread", balancer_eval),
    Command::new("balancer off", "rw", "stop balancing", |_| done("")),
    Command::new("balancer on", "rw", "begin balancing", no_balancer),
    Command::new("progress", "r", "print what is going on", progress::print),
    Command::new("progress json", "r", "print what is going on as JSON", progress::json),
    Command::new("device ls", "r", "list devices with health records", |c| {
        let columns = [("DEVICE", 'l'), ("HOST:DEV", 'l'), ("DAEMONS", 'l'), ("WEAR", 'l'), ("LIFE EXPECTANCY", 'l')];
        c.either(|| TextTable::with_columns(&columns).render(true), || json!([]))
    }),
    Command::new("crash ls", "r", "list crashes", |c| c.either(String::new, || json!([]))),
    Command::new("fs ls", "r", "list file systems; there are none", |c| {
        c.either(|| "No filesystems enabled\n".to_owned(), || json!([]))
    }),
    Command::new("mds stat", "r", "print how metadata servers are; there are none", |c| {
        c.either(|| "\n".to_owned(), || json!({"fsmap": {"epoch": 1, "standbys": [], "filesystems": []}}))
    }),
    Command::new("orch status", "r", "print the orchestrator; there is none", |_| {
        refuse(Errno::ENOENT, "No orchestrator configured")
    }),
];

fn dump(c: &Context<'_>) -> Answer {
    c.value(json!({
        "epoch": 1,
        "active_gid": 0,
        "active_name": c.volatile.name,
        "active_addrs": {"addrvec": []},
        "active_addr": "(unrecognized address family 0)/0",
        "active_change": stamp(c.volatile.started),
        "active_mgr_features": 0,
        // Not as a daemon that could be talked to, but whatever it would answer is answered here.
        "available": true,
        "standbys": [],
        "modules": [],
        "available_modules": [],
        "services": {},
        "always_on_modules": {},
        "last_failure_osd_epoch": 0,
        "active_clients": [],
    }))
}

fn stat(c: &Context<'_>) -> Answer {
    c.value(json!({"epoch": 1, "available": true, "active_name": c.volatile.name, "num_standby": 0}))
}

fn module_ls(c: &Context<'_>) -> Answer {
    c.value(json!({"always_on_modules": [], "enabled_modules": [], "disabled_modules": []}))
}

fn balancer_status(c: &Context<'_>) -> Answer {
    c.value(json!({
        "active": false,
        "last_optimize_duration": "",
        "last_optimize_started": "",
        "mode": "none",
        "no_optimization_needed": false,
        "optimize_result": "",
        "plans": [],
    }))
}

fn no_balancer(_: &Context<'_>) -> Answer {
    refuse(Errno::EOPNOTSUPP, "there is no balancer yet; placement is as CRUSH gives it")
}

/// How uneven the spread of placement groups' copies over OSDs is: standard deviation by mean, over all pools or one.
fn balancer_eval(c: &Context<'_>) -> Answer {
    let pool: Option<PoolId> = match c.args.text("option") {
        Some(name) => match c.map().pool_by_name(name) {
            Some(pool) => Some(pool),
            None => return refuse(Errno::ENOENT, format!("option \"{name}\" not a plan or a pool")),
        },
        None => None,
    };
    let mut counts: std::collections::BTreeMap<types::OsdId, f64> =
        c.map().osds().filter(|(osd, _)| c.map().is_in(*osd)).map(|(osd, _)| (osd, 0.0)).collect();
    let mapping = PgMapping::compute(c.map());
    for (_, place) in mapping.iter().filter(|(pg, _)| pool.is_none_or(|pool| pg.pool == pool)) {
        for osd in &place.up {
            if let Some(count) = counts.get_mut(osd) {
                *count += 1.0;
            }
        }
    }
    let n = counts.len().max(1) as f64;
    let mean = counts.values().sum::<f64>() / n;
    let deviation = (counts.values().map(|count| (count - mean).powi(2)).sum::<f64>() / n).sqrt();
    let score = if mean == 0.0 { 0.0 } else { deviation / mean };
    let what = c.args.text("option").map_or_else(|| "current cluster".to_owned(), |pool| format!("pool \"{pool}\""));
    with_status(c.text(""), format!("{what} score {score:.6} (lower is better)"))
}
