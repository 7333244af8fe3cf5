//! Parts of a Ceph that are not here: file systems, metadata servers, an orchestrator, devices with health records,
//! telemetry, cache tiers. Questions are answered as on a Ceph that has none of them; changes are refused.

use super::command::Command;
use super::context::Context;
use super::mgr_modules;
use super::text_table::TextTable;
use super::{Answer, done, refuse, with_status};
use serde_json::{Map, Value, json};
use types::Errno;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("device ls", "r", "list devices with health records", |c| {
        devices(c, &["DEVICE", "HOST:DEV", "DAEMONS", "WEAR", "LIFE EXPECTANCY"])
    }),
    Command::new("device ls-by-daemon {who:String}", "r", "list devices of a daemon with health records", |c| {
        devices(c, &["DEVICE", "HOST:DEV", "EXPECTED FAILURE"])
    }),
    Command::new("device ls-by-host {host:String}", "r", "list devices of a machine with health records", |c| {
        devices(c, &["DEVICE", "DEV", "DAEMONS", "EXPECTED FAILURE"])
    }),
    Command::new("device info {devid:String}", "r", "print a device", no_device),
    Command::new(
        "device get-health-metrics {devid:String} {sample:String,req=false}",
        "r",
        "print a device's health",
        no_device,
    ),
    Command::new("device ls-lights", "r", "list devices whose lights are on", |c| {
        c.value(json!({"fault": [], "ident": []}))
    }),
    Command::new(
        "device set-life-expectancy {devid:String} {from:String} {to:String,req=false}",
        "rw",
        "expect a device's end",
        no_device,
    ),
    Command::new("device rm-life-expectancy {devid:String}", "rw", "expect no end of a device", no_device),
    Command::new(
        "device light {enable:Choices,strings=on|off} {devid:String} {light_type:Choices,strings=ident|fault,req=false} {force:Bool,req=false}",
        "rw",
        "switch a device's light",
        |_| no_orchestrator(),
    ),
    Command::new("device monitoring on", "rw", "collect health records of devices", no_records),
    Command::new("device monitoring off", "rw", "collect no health records of devices", |_| done("")),
    Command::new("device scrape-health-metrics {devid:String,req=false}", "r", "collect health records", no_records),
    Command::new("fs ls", "r", "list file systems; there are none", |c| {
        c.either(|| "No filesystems enabled\n".to_owned(), || json!([]))
    }),
    Command::new("fs status {fs:String,req=false}", "r", "print how file systems are; there are none", |c| {
        match c.args.text("fs") {
            Some(name) => refuse(Errno::EINVAL, format!("Filesystem not found: '{name}'")),
            None => c.either(String::new, || json!({"clients": [], "mds_version": [], "mdsmap": [], "pools": []})),
        }
    }),
    Command::new("fs dump {epoch:Int,range=0,req=false}", "r", "print file systems; there are none", fs_dump),
    Command::new("fs new {fs_name:String} {metadata:String} {data:String}", "rw", "make a file system", |_| {
        refuse(Errno::EOPNOTSUPP, "there are no file systems: nothing here is a metadata server")
    }),
    Command::new("mds stat", "r", "print how metadata servers are; there are none", |c| {
        c.either(
            || "\n".to_owned(),
            || json!({"fsmap": file_systems(), "mdsmap_first_committed": 1, "mdsmap_last_committed": 1}),
        )
    }),
    Command::new("mds metadata {who:String,req=false}", "r", "print what metadata servers say of themselves", |c| {
        match c.args.text("who") {
            Some(who) => refuse(Errno::EINVAL, format!("MDS named '{who}' does not exist, or is not up")),
            None => c.value(json!([])),
        }
    }),
    Command::new("fs get {fs_name:String}", "r", "print a file system; there are none", |c| {
        refuse(Errno::ENOENT, format!("filesystem '{}' not found", c.args.word("fs_name")))
    }),
    Command::new("fs feature ls", "r", "list what clients of file systems may be asked for", |c| {
        let text = || CLIENT_FEATURES.iter().enumerate().map(|(index, name)| format!("{index} {name}\n")).collect();
        let of = |(index, name): (usize, &&str)| json!({"index": index, "name": name});
        c.either(text, || CLIENT_FEATURES.iter().enumerate().map(of).collect())
    }),
    Command::new("mds compat show", "r", "print what metadata servers have to know", |c| {
        c.either(|| format!("{}\n", compat_text()), || file_systems()["compat"].clone())
    }),
    Command::new("mds count-metadata {property:String}", "r", "count metadata servers by a property", |c| {
        c.value(json!({}))
    }),
    Command::new("mds ok-to-stop {ids:String,n=N}", "r", "tell if metadata servers may stop; there are none", |c| {
        done(format!("should be safe to stop [{}]", c.args.texts("ids").join(",")))
    }),
    Command::new("mds versions", "r", "count the versions of metadata servers", |c| c.value(json!({}))),
    Command::new("orch status {detail:Bool,req=false}", "r", "print the orchestrator; there is none", |_| {
        no_orchestrator()
    }),
    Command::new(
        "orch ls {service_type:String,req=false} {service_name:String,req=false}",
        "r",
        "list services of the orchestrator",
        |_| no_orchestrator(),
    ),
    Command::new("orch ps {hostname:String,req=false}", "r", "list daemons of the orchestrator", |_| no_orchestrator()),
    Command::new("orch host ls", "r", "list machines of the orchestrator", |_| no_orchestrator()),
    Command::new("orch device ls {hostname:String,n=N,req=false}", "r", "list devices of the orchestrator", |_| {
        no_orchestrator()
    }),
    Command::new(
        "orch apply {service_type:String,req=false}",
        "rw",
        "have the orchestrator bring services about",
        |_| no_orchestrator(),
    ),
    Command::new("orch upgrade status", "r", "print an upgrade by the orchestrator", |_| no_orchestrator()),
    Command::new(
        "orch set backend {module_name:String,req=false}",
        "rw",
        "choose the orchestrator; there is none to choose",
        |c| match c.args.text("module_name").filter(|name| !name.is_empty()) {
            Some(name) => refuse(Errno::EINVAL, format!("Module '{name}' not found")),
            None => done(""),
        },
    ),
    Command::new("healthcheck history ls", "r", "list which alarms there were", no_health_history),
    Command::new("healthcheck history clear", "rw", "forget which alarms there were", no_health_history),
    Command::new("insights", "r", "print a report on the cluster", insights),
    Command::new("insights prune-health {hours:Int}", "rw", "forget what a report has", insights),
    Command::new("telemetry status", "r", "print what is reported to others: nothing", telemetry_status),
    Command::new("telemetry show {channels:String,n=N,req=false}", "r", "print what would be reported: nothing", |c| {
        c.value(json!({}))
    }),
    Command::new("telemetry show-all", "r", "print what would be reported of all: nothing", |c| c.value(json!({}))),
    Command::new("telemetry show-device", "r", "print what would be reported of devices: nothing", |c| {
        c.value(json!({}))
    }),
    Command::new(
        "telemetry send {endpoint:Choices,strings=ceph|device,n=N,req=false} {license:String,req=false}",
        "rw",
        "report to others now",
        |_| refuse(Errno::EOPNOTSUPP, "nothing is reported to others, and there is no way to have it reported"),
    ),
    Command::new("telemetry on {license:String,req=false}", "rw", "report to others", |_| {
        refuse(Errno::EOPNOTSUPP, "nothing is reported to others, and there is no way to have it reported")
    }),
    Command::new(
        "osd tier add {pool:Poolname} {tierpool:Poolname} {force_nonempty:Bool,req=false}",
        "rw",
        "make a pool a cache of another one",
        no_tiers,
    ),
    Command::new(
        "osd tier add-cache {pool:Poolname} {tierpool:Poolname} {size:Int,range=0}",
        "rw",
        "make a pool a cache of another one, with the usual settings",
        no_tiers,
    ),
    Command::new(
        "osd tier cache-mode {pool:Poolname} {mode:Choices,strings=none|writeback|readproxy|readonly} \
         {yes_i_really_mean_it:Bool,req=false}",
        "rw",
        "set how a cache is used",
        no_tiers,
    ),
    Command::new("osd tier remove {pool:Poolname} {tierpool:Poolname}", "rw", "end a pool's being a cache", no_tiers),
    Command::new("osd tier rm {pool:Poolname} {tierpool:Poolname}", "rw", "end a pool's being a cache", no_tiers),
    Command::new("osd tier remove-overlay {pool:Poolname}", "rw", "send clients to the pool itself", no_tiers),
    Command::new("osd tier rm-overlay {pool:Poolname}", "rw", "send clients to the pool itself", no_tiers),
    Command::new(
        "osd tier set-overlay {pool:Poolname} {overlaypool:Poolname}",
        "rw",
        "send a pool's clients to its cache",
        no_tiers,
    ),
    Command::new("telemetry off", "rw", "report nothing to others", |_| done("")),
];

fn devices(c: &Context<'_>, headings: &[&str]) -> Answer {
    let columns: Vec<(&str, char)> = headings.iter().map(|heading| (*heading, 'l')).collect();
    c.either(|| TextTable::with_columns(&columns).render(true), || json!([]))
}

fn no_device(c: &Context<'_>) -> Answer {
    refuse(Errno::ENOENT, format!("device {} not found", c.args.word("devid")))
}

/// Refuses a change of cache tiers, once its pools are known.
fn no_tiers(c: &Context<'_>) -> Answer {
    for argument in ["pool", "tierpool", "overlaypool"].into_iter().filter(|argument| c.args.has(argument)) {
        c.pool(argument)?;
    }
    refuse(Errno::EOPNOTSUPP, "there are no cache tiers: every pool is read and written itself")
}

fn no_records(_: &Context<'_>) -> Answer {
    refuse(Errno::EOPNOTSUPP, "no health records of devices are collected")
}

fn no_orchestrator() -> Answer {
    refuse(Errno::ENOENT, "No orchestrator configured (try `ceph orch set backend`)")
}

fn fs_dump(c: &Context<'_>) -> Answer {
    if let Some(epoch) = c.args.int("epoch").filter(|epoch| *epoch > 1) {
        return refuse(Errno::ENOENT, format!("there is no map of file systems of epoch {epoch}"));
    }
    let text = || {
        let compat = compat_text();
        format!(
            "e1\nenable_multiple, ever_enabled_multiple: 1,1\ndefault compat: {compat}\nlegacy client fscid: -1\n \n\
             No filesystems configured\n"
        )
    };
    with_status(c.either(text, file_systems), "dumped fsmap epoch 1")
}

/// Features of metadata servers of Pacific, by their numbers from 1 on; an empty name is none.
const SERVER_FEATURES: [&str; 10] = [
    "base v0.20",
    "client writeable ranges",
    "default file layouts on dirs",
    "dir inode in separate object",
    "mds uses versioned encoding",
    "dirfrag is stored in omap",
    "",
    "no anchor table",
    "file layout v2",
    "snaprealm v2",
];

/// Features of file systems' clients of Pacific, by their numbers from 0 on.
const CLIENT_FEATURES: [&str; 19] = [
    "reserved",
    "reserved",
    "reserved",
    "reserved",
    "reserved",
    "jewel",
    "kraken",
    "luminous",
    "mimic",
    "reply_encoding",
    "reclaim_client",
    "lazy_caps_wanted",
    "multi_reconnect",
    "deleg_ino",
    "metric_collect",
    "alternate_name",
    "notify_session_state",
    "op_getvxattr",
    "32bits_retry_fwd",
];

fn server_features() -> impl Iterator<Item = (usize, &'static str)> {
    SERVER_FEATURES.into_iter().enumerate().filter(|(_, name)| !name.is_empty()).map(|(at, name)| (at + 1, name))
}

fn compat_text() -> String {
    let names: Vec<String> = server_features().map(|(number, name)| format!("{number}={name}")).collect();
    format!("compat={{}},rocompat={{}},incompat={{{}}}", names.join(","))
}

/// Returns the map of file systems, of which there are none.
pub(super) fn file_systems() -> Value {
    let incompat: Map<String, Value> =
        server_features().map(|(number, name)| (format!("feature_{number}"), json!(name))).collect();
    json!({
        "epoch": 1,
        "default_fscid": -1,
        "compat": {"compat": {}, "ro_compat": {}, "incompat": incompat},
        "feature_flags": {"enable_multiple": true, "ever_enabled_multiple": true},
        "standbys": [],
        "filesystems": [],
    })
}

fn insights(c: &Context<'_>) -> Answer {
    of_module(c, "insights", "there is no report of this kind: `ceph report` and `ceph health detail` tell")
}

fn no_health_history(c: &Context<'_>) -> Answer {
    of_module(c, "prometheus", "no history of alarms is kept: `ceph log last 100 info cluster` tells of the last ones")
}

/// Refuses a command of a manager's module: as a Ceph does where the module is not enabled, else with `sentence`.
fn of_module(c: &Context<'_>, module: &str, sentence: &str) -> Answer {
    if mgr_modules::enabled(c).contains(module) {
        return refuse(Errno::EOPNOTSUPP, sentence);
    }
    let sentence = format!(
        "Module '{module}' is not enabled/loaded (required by command '{}'): use `ceph mgr module enable {module}` to \
         enable it",
        c.prefix
    );
    refuse(Errno::EOPNOTSUPP, sentence)
}

fn telemetry_status(c: &Context<'_>) -> Answer {
    let value: Value = json!({
        "channel_basic": false,
        "channel_crash": false,
        "channel_device": false,
        "channel_ident": false,
        "contact": null,
        "description": null,
        "device_url": "",
        "enabled": false,
        "interval": 24,
        "last_opt_revision": 1,
        "last_upload": null,
        "leaderboard": false,
        "log_level": "",
        "log_to_cluster": false,
        "log_to_cluster_level": "info",
        "log_to_file": false,
        "organization": null,
        "proxy": null,
        "url": "",
    });
    c.value(value)
}
