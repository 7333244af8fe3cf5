//! Commands about Ceph's manager daemon. The monitor does its work; there are no modules to load.

use super::command::Command;
use super::context::{Context, stamp};
use super::mgr_modules;
use super::progress;
use super::{Answer, cluster, refuse};
use serde_json::{Map, Value, json};
use types::Errno;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("mgr dump {epoch:Int,range=0,req=false}", "r", "print the manager map", dump),
    Command::new("mgr stat", "r", "print who does a manager's work", stat),
    Command::new(
        "mgr fail {who:String,req=false}",
        "rw",
        "have another manager take over; the monitor does its work",
        |c| {
            match c.args.text("who") {
                // Ceph does nothing for a name that is not the active manager's, either.
                Some(who) if who != c.state.manager_map().active_name => {
                    super::done(format!("Daemon not found '{who}', already failed?"))
                }
                _ => super::done("Currently no active mgr daemon: the monitor that leads does its work"),
            }
        },
    ),
    Command::new("mgr services", "r", "list addresses that modules serve", |c| c.value(json!({}))),
    Command::new("mgr metadata {who:String,req=false}", "r", "print what managers say about themselves", metadata),
    Command::new("mgr versions", "r", "count the versions that managers run", |c| {
        c.value(json!(cluster::manager_counts(c, "ceph_version")))
    }),
    Command::new("mgr count-metadata {property:String}", "r", "count managers by a property", |c| {
        c.value(json!(cluster::manager_counts(c, c.args.word("property"))))
    }),
    Command::new("progress", "r", "print what is going on", progress::print),
    Command::new("progress json", "r", "print what is going on as JSON", progress::json),
    Command::new("progress on", "rw", "print what is going on in the status", |c| progress::enable(c, true)),
    Command::new("progress off", "rw", "leave what is going on out of the status", |c| progress::enable(c, false)),
    Command::new("progress clear", "rw", "forget what was going on", progress::clear),
];

fn dump(c: &Context<'_>) -> Answer {
    let map = c.state.manager_map();
    let addr = map.active_addrs.msgr2_addr();
    let shown = addr.sockaddr.map_or("(unrecognized address family 0)".to_owned(), |addr| addr.to_string());
    let addrs = addr.sockaddr.map(|addr| json!({"type": "v2", "addr": addr.to_string(), "nonce": 0}));
    c.value(json!({
        "epoch": map.epoch.0,
        "active_gid": map.active_gid,
        "active_name": map.active_name,
        "active_addrs": {"addrvec": addrs.into_iter().collect::<Vec<_>>()},
        "active_addr": format!("{shown}/0"),
        "active_change": stamp(map.active_change),
        "active_mgr_features": map.active_mgr_features,
        "available": true,
        "standbys": [],
        "modules": mgr_modules::enabled(c),
        "available_modules": [],
        "services": {},
        "always_on_modules": mgr_modules::always_on(),
        "last_failure_osd_epoch": 0,
        "active_clients": [],
    }))
}

/// Prints facts about the monitor that does a manager's work.
fn metadata(c: &Context<'_>) -> Answer {
    let of = |name: &String| {
        let addrs = &c.state.manager_map().active_addrs;
        let addr = addrs.msgr2_addr();
        let ip = addr.ip().map(|ip| ip.to_string()).unwrap_or_default();
        let mut object = Map::from_iter([("name".to_owned(), json!(name)), ("addr".to_owned(), json!(ip))]);
        object.insert("addrs".to_owned(), json!(addrs.to_string()));
        let said = c.state.mon_metadata.get(name).into_iter().flatten();
        // Drives and what compresses are a monitor's.
        let is_own = |key: &str| !key.starts_with("device") && key != "compression_algorithms";
        object.extend(said.filter(|(key, _)| is_own(key)).map(|(key, value)| (key.clone(), json!(value))));
        Value::Object(object)
    };
    let name = cluster::manager(c);
    match c.args.text("who") {
        Some(who) => match name.filter(|name| *name == who) {
            Some(name) => c.value(of(name)),
            None => refuse(Errno::ENOENT, format!("mgr.{who} does not exist")),
        },
        None => c.value(name.map(of).into_iter().collect()),
    }
}

fn stat(c: &Context<'_>) -> Answer {
    let epoch = c.state.manager_epoch().0;
    c.value(json!({"epoch": epoch, "available": true, "active_name": c.volatile.name, "num_standby": 0}))
}
