//! Commands about Ceph's manager daemon. The monitor does its work; there are no modules to load.

use super::context::{Context, stamp};
use super::progress;
use super::table::Command;
use super::text_table::TextTable;
use super::{Answer, refuse};
use serde_json::json;
use types::Errno;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("mgr dump {epoch:Int,range=0,req=false}", "r", "print the manager map", dump),
    Command::new("mgr stat", "r", "print who does a manager's work", stat),
    Command::new("mgr module ls", "r", "list modules; there are none", module_ls),
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
                _ => refuse(Errno::EOPNOTSUPP, "there is no manager daemon that could fail: the monitor does its work"),
            }
        },
    ),
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
    Command::new("progress", "r", "print what is going on", progress::print),
    Command::new("progress json", "r", "print what is going on as JSON", progress::json),
    Command::new("device ls", "r", "list devices with health records", |c| {
        let columns = [("DEVICE", 'l'), ("HOST:DEV", 'l'), ("DAEMONS", 'l'), ("WEAR", 'l'), ("LIFE EXPECTANCY", 'l')];
        c.either(|| TextTable::with_columns(&columns).render(true), || json!([]))
    }),
    Command::new("device ls-by-daemon {who:String}", "r", "list devices of a daemon with health records", |c| {
        let columns = [("DEVICE", 'l'), ("HOST:DEV", 'l'), ("EXPECTED FAILURE", 'l')];
        c.either(|| TextTable::with_columns(&columns).render(true), || json!([]))
    }),
    Command::new("crash ls", "r", "list crashes", |c| c.either(String::new, || json!([]))),
    Command::new("crash stat", "r", "count crashes", |c| c.text("0 crashes recorded\n")),
    Command::new("fs ls", "r", "list file systems; there are none", |c| {
        c.either(|| "No filesystems enabled\n".to_owned(), || json!([]))
    }),
    Command::new("mds stat", "r", "print how metadata servers are; there are none", |c| {
        c.either(|| "\n".to_owned(), || json!({"fsmap": {"epoch": 1, "standbys": [], "filesystems": []}}))
    }),
    Command::new("orch status", "r", "print the orchestrator; there is none", |_| {
        refuse(Errno::ENOENT, "No orchestrator configured (try `ceph orch set backend`)")
    }),
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
        "modules": [],
        "available_modules": [],
        "services": {},
        "always_on_modules": {},
        "last_failure_osd_epoch": 0,
        "active_clients": [],
    }))
}

fn stat(c: &Context<'_>) -> Answer {
    let epoch = c.state.manager_epoch().0;
    c.value(json!({"epoch": epoch, "available": true, "active_name": c.volatile.name, "num_standby": 0}))
}

fn module_ls(c: &Context<'_>) -> Answer {
    c.value(json!({"always_on_modules": [], "enabled_modules": [], "disabled_modules": []}))
}
