//! The service map: daemons that have registered with the manager.

use super::Answer;
use super::command::Command;
use super::context::{Context, stamp};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("service dump", "r", "print the service map", |c| c.value(map_value(c))),
    Command::new("service status", "r", "print what services say of themselves", status),
];

/// Returns the service map as a value.
pub(super) fn map_value(c: &Context<'_>) -> Value {
    let map = c.volatile.services.map();
    let mut services = Map::new();
    for (name, service) in &map.services {
        let mut daemons = Map::new();
        daemons.insert("summary".to_owned(), json!(service.summary));
        for (id, daemon) in &service.daemons {
            let addr = daemon.addr.sockaddr.map_or("-".to_owned(), |addr| addr.to_string());
            let entry = json!({
                "start_epoch": daemon.start_epoch.0,
                "start_stamp": stamp(daemon.start_stamp),
                "gid": daemon.gid,
                "addr": format!("{addr}/{}", daemon.addr.nonce),
                "metadata": daemon.metadata,
                "task_status": daemon.task_status,
            });
            daemons.insert(id.clone(), entry);
        }
        services.insert(name.clone(), json!({ "daemons": daemons }));
    }
    // Before the first daemon the map is as old as the cluster.
    let modified = if map.modified.is_zero() { c.state.monmap.created } else { map.modified };
    json!({"epoch": map.epoch.0, "modified": stamp(modified), "services": services})
}

fn status(c: &Context<'_>) -> Answer {
    let mut services = Map::new();
    for (service, name, daemon) in c.volatile.services.iter() {
        let entry = json!({
            "status_stamp": stamp(daemon.status_at),
            "last_beacon": stamp(daemon.heard),
            "status": daemon.status,
        });
        let of_service = services.entry(service.to_owned()).or_insert_with(|| json!({}));
        of_service[name] = entry;
    }
    c.value(Value::Object(services))
}

/// Returns a line for each service, for `ceph -s`: its name, and how many daemons on how many machines it has.
pub(super) fn summaries(c: &Context<'_>) -> Vec<(String, String)> {
    let mut kinds: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for (service, _, daemon) in c.volatile.services.iter() {
        let text = |key: &str, other| daemon.metadata.get(key).map_or(other, String::as_str);
        kinds.entry(service).or_default().push((text("daemon_type", "daemon"), text("hostname", "")));
    }
    let line = |(service, daemons): (&str, Vec<(&str, &str)>)| {
        let hosts: BTreeSet<&str> = daemons.iter().map(|(_, host)| *host).collect();
        let (count, kind) = (daemons.len(), daemons[0].0);
        let plural = if count == 1 { "" } else { "s" };
        (service.to_owned(), format!("{count} {kind}{plural} active ({} hosts)", hosts.len()))
    };
    kinds.into_iter().map(line).collect()
}
