//! Questions about the monitors, and `ceph tell mon.X`.

use super::command::Command;
use super::context::{Context, addrs_value, legacy_addr, stamp, with_status};
use super::{Answer, Outcome, Reply, cluster, refuse};
use crate::Update;
use crate::state::{LogEntry, LogPriority, STATE_CHECK_CHANNEL};
use osdmap::mon_features;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use types::{EntityName, EntityType, Errno, Utime};
use wire::basic::AuthName;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("sessions", "r", "list who is connected to this monitor", sessions),
    Command::new("mon stat", "r", "print in one line who the monitors are", stat),
    Command::new("mon dump {epoch:Int,range=0,req=false}", "r", "print the monitor map", dump),
    Command::new("mon scrub", "rw", "have the monitors compare their states; the cluster log tells the outcome", scrub),
    Command::new("mon getmap {epoch:Int,range=0,req=false}", "r", "get the monitor map, encoded", get_map),
    Command::new("mon metadata {id:String,req=false}", "r", "print what monitors say about themselves", metadata),
    Command::new("mon versions", "r", "count the versions that monitors run", |c| {
        c.value(json!(cluster::mon_counts(c, "ceph_version")))
    }),
    Command::new("mon count-metadata {property:String}", "r", "count monitors by a property", |c| {
        c.value(json!(cluster::mon_counts(c, c.args.word("property"))))
    }),
    Command::new(
        "mon feature ls {with_value:Choices,req=false,strings=--with-value}",
        "r",
        "list what all monitors can do",
        features,
    ),
    Command::new("mon ok-to-stop {ids:String,n=N}", "r", "say whether monitors can stop without harm", ok_to_stop),
    Command::new("mon ok-to-rm {id:String}", "r", "say whether a monitor can be removed without harm", ok_to_rm),
    Command::new(
        "mon ok-to-add-offline",
        "r",
        "say whether a monitor can be added, and started later, without harm",
        ok_to_add_offline,
    ),
    Command::new("quorum_status", "r", "print who of the monitors decides", quorum_status),
    Command::new("time-sync-status", "r", "print how far the monitors' clocks are apart", time_sync_status),
    Command::new("mon_status", "r", "print how this monitor is", mon_status),
    Command::new("version", "r", "print what this monitor runs", version),
];

/// Returns a stamp with `Z`, as the monitor map prints it.
fn zulu(t: Utime) -> String {
    stamp(t).replace("+0000", "Z")
}

/// Returns the monitor map as a value.
pub(super) fn map_value(c: &Context<'_>) -> Value {
    let map = &c.state.monmap;
    let mons = map.by_rank().enumerate().map(|(rank, mon)| {
        json!({
            "rank": rank,
            "name": mon.name,
            "public_addrs": addrs_value(&mon.addrs),
            "addr": legacy_addr(&mon.addrs),
            "public_addr": legacy_addr(&mon.addrs),
            "priority": mon.priority,
            "weight": mon.weight,
            "crush_location": location_text(&mon.crush_location),
        })
    });
    json!({
        "epoch": map.epoch.0,
        "fsid": map.fsid.to_string(),
        "modified": zulu(map.last_changed),
        "created": zulu(map.created),
        "min_mon_release": map.min_mon_release.0,
        "min_mon_release_name": map.min_mon_release.name(),
        "election_strategy": map.strategy,
        // The keys `disallowed_leaders: ` and `removed_ranks: ` end so in Ceph.
        "disallowed_leaders: ": map.disallowed_leaders.iter().cloned().collect::<Vec<_>>().join(","),
        "stretch_mode": map.stretch_mode,
        "tiebreaker_mon": map.tiebreaker,
        "removed_ranks: ": map.removed_ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
        "features": {
            "persistent": mon_features::names(map.persistent_features),
            "optional": mon_features::names(map.optional_features),
        },
        "mons": mons.collect::<Vec<_>>(),
    })
}

fn location_text(location: &BTreeMap<String, String>) -> String {
    let pairs: Vec<String> = location.iter().map(|(kind, name)| format!("{kind}={name}")).collect();
    format!("{{{}}}", pairs.join(","))
}

pub(super) fn quorum(c: &Context<'_>) -> Vec<usize> {
    c.volatile.quorum.ranks(&c.state.monmap)
}

fn stat(c: &Context<'_>) -> Answer {
    let (map, decides) = (&c.state.monmap, &c.volatile.quorum);
    let text = || {
        let mons: Vec<String> = map.by_rank().map(|mon| format!("{}={}", mon.name, mon.addrs)).collect();
        let ranks: Vec<String> = quorum(c).iter().map(usize::to_string).collect();
        format!(
            "{}: {} mons at {{{}}} removed_ranks: {{}}, election epoch {}, leader {} {}, quorum {} {}\n",
            map.epoch,
            map.mons.len(),
            mons.join(","),
            decides.epoch,
            map.rank(&decides.leader).unwrap_or(0),
            decides.leader,
            ranks.join(","),
            decides.names(map).join(","),
        )
    };
    let value = || {
        let members = quorum(c).into_iter().map(|rank| json!({"rank": rank, "name": map.ranks[rank]}));
        json!({
            "epoch": map.epoch.0,
            "min_mon_release_name": map.min_mon_release.name(),
            "num_mons": map.mons.len(),
            "leader": decides.leader,
            "quorum": members.collect::<Vec<_>>(),
        })
    };
    c.either(text, value)
}

/// Refuses epochs but the present one: older monitor maps are not kept.
fn check_epoch(c: &Context<'_>) -> Result<(), Reply> {
    match c.args.int("epoch").filter(|epoch| *epoch != 0 && *epoch != i64::from(c.state.monmap.epoch.0)) {
        Some(epoch) => refuse(Errno::ENOENT, format!("there is no map for epoch {epoch}")),
        None => Ok(()),
    }
}

fn dump(c: &Context<'_>) -> Answer {
    check_epoch(c)?;
    let map = &c.state.monmap;
    let text = || {
        let mut out = format!("epoch {}\nfsid {}\n", map.epoch.0, map.fsid);
        out += &format!("last_changed {}\ncreated {}\n", stamp(map.last_changed), stamp(map.created));
        out += &format!("min_mon_release {} ({})\n", map.min_mon_release.0, map.min_mon_release.name());
        out += &format!("election_strategy: {}\n", map.strategy);
        for (rank, mon) in map.by_rank().enumerate() {
            out += &format!("{rank}: {} mon.{}\n", mon.addrs, mon.name);
        }
        out
    };
    let value = || {
        let mut value = map_value(c);
        value["quorum"] = json!(quorum(c));
        value
    };
    with_status(c.either(text, value), format!("dumped monmap epoch {}", map.epoch.0))
}

fn get_map(c: &Context<'_>) -> Answer {
    check_epoch(c)?;
    let encoded = wire::Encode::to_vec(&c.state.monmap, wire::Target::PACIFIC);
    with_status(Ok(Outcome::Reply(Reply::output(encoded))), format!("got monmap epoch {}", c.state.monmap.epoch.0))
}

fn metadata(c: &Context<'_>) -> Answer {
    let value = |name: &str, with_name: bool| {
        let mut object = Map::new();
        if with_name {
            object.insert("name".to_owned(), json!(name));
        }
        if let Some(mon) = c.state.monmap.mons.get(name) {
            object.insert("addrs".to_owned(), json!(mon.addrs.to_string()));
        }
        // A monitor does not say which drive its records are on, and compresses nothing.
        for key in ["compression_algorithms", "device_ids", "device_paths", "devices"] {
            object.insert(key.to_owned(), json!(""));
        }
        for (key, value) in c.state.mon_metadata.get(name).into_iter().flatten() {
            object.insert(key.clone(), json!(value));
        }
        Value::Object(object)
    };
    match c.args.text("id").filter(|id| !id.is_empty()) {
        Some(id) => {
            let id = id.strip_prefix("mon.").unwrap_or(id);
            match c.state.monmap.mons.contains_key(id) {
                true => c.value(value(id, false)),
                false => refuse(Errno::ENOENT, "requested mon not found"),
            }
        }
        None => c.value(c.state.monmap.ranks.iter().map(|name| value(name, true)).collect()),
    }
}

fn features(c: &Context<'_>) -> Answer {
    let all = mon_features::names(mon_features::THROUGH_PACIFIC);
    let map = &c.state.monmap;
    let with_values = c.args.has("with_value");
    let (persistent, optional) =
        (mon_features::names(map.persistent_features), mon_features::names(map.optional_features));
    let text = || {
        let bracket = |names: &[&str]| {
            let name = |(bit, name): (usize, &&str)| {
                if with_values { format!("{name}({})", 1u64 << bit) } else { (*name).to_owned() }
            };
            format!("[{}]", names.iter().enumerate().map(name).collect::<Vec<_>>().join(","))
        };
        let (known, here) = (bracket(&all), bracket(&persistent));
        let epoch = map.epoch.0;
        format!(
            "all features\n\tsupported: {known}\n\tpersistent: {known}\non current monmap \
             (epoch {epoch})\n\tpersistent: {here}\n\trequired: {here}\n"
        )
    };
    let value = || {
        json!({
            "all": {"supported": all, "persistent": all},
            "monmap": {"persistent": persistent, "optional": optional, "required": persistent},
        })
    };
    c.either(text, value)
}

/// Returns the number of monitors that decide, of `mons` in all.
pub(super) fn majority(mons: usize) -> usize {
    mons / 2 + 1
}

fn ok_to_stop(c: &Context<'_>) -> Answer {
    let ids = c.args.texts("ids");
    let ranks = &c.state.monmap.ranks;
    let left: Vec<&str> = ranks.iter().map(String::as_str).filter(|name| !ids.contains(name)).collect();
    let (left_text, ids_text) = (left.join(","), ids.join(","));
    if left.len() < majority(ranks.len()) {
        let sentence = format!("not enough monitors would be available ({left_text}) after stopping mons [{ids_text}]");
        return refuse(Errno::EBUSY, sentence);
    }
    super::done(format!("quorum should be preserved ({left_text}) after stopping [{ids_text}]"))
}

fn ok_to_rm(c: &Context<'_>) -> Answer {
    let id = c.args.word("id");
    let ranks = &c.state.monmap.ranks;
    if !ranks.iter().any(|name| name == id) {
        return super::done(format!("mon.{id} does not exist"));
    }
    let deciding = c.volatile.quorum.names(&c.state.monmap);
    let left: Vec<_> = deciding.into_iter().filter(|name| *name != id).collect();
    if left.len() < majority(ranks.len() - 1) {
        return refuse(Errno::EBUSY, format!("removing mon.{id} would break quorum"));
    }
    super::done(format!("safe to remove mon.{id}"))
}

fn ok_to_add_offline(c: &Context<'_>) -> Answer {
    let (mons, deciding) = (c.state.monmap.ranks.len(), c.volatile.quorum.names(&c.state.monmap).len());
    if deciding < majority(mons + 1) {
        return refuse(Errno::EBUSY, "adding a monitor may break quorum (until that monitor starts)");
    }
    super::done("adding another mon that is not yet online will not break quorum")
}

fn quorum_status(c: &Context<'_>) -> Answer {
    let value = json!({
        "election_epoch": c.volatile.quorum.epoch,
        "quorum": quorum(c),
        "quorum_names": c.volatile.quorum.names(&c.state.monmap),
        "quorum_leader_name": c.volatile.quorum.leader,
        "quorum_age": c.since(c.volatile.quorum.since).as_secs(),
        "features": {
            "quorum_con": wire::codec::features::PACIFIC.to_string(),
            "quorum_mon": mon_features::names(c.state.monmap.persistent_features),
        },
        "monmap": map_value(c),
    });
    match c.format {
        // Ceph prints this on one line if the command asks for no format.
        super::Format::Plain => c.text(super::Format::Json.render(&value) + "\n"),
        _ => c.value(value),
    }
}

fn time_sync_status(c: &Context<'_>) -> Answer {
    let clocks = &c.volatile.quorum.clocks;
    let known = clocks.iter().filter(|(name, _)| c.state.monmap.mons.contains_key(*name));
    let skews = known.map(|(name, clock)| {
        let value = json!({"skew": clock.ahead_s, "latency": clock.latency_s, "health": "HEALTH_OK"});
        (name.clone(), value)
    });
    let own = json!({"skew": 0.0, "latency": 0.0, "health": "HEALTH_OK"});
    let mut object = json!({"timechecks": {"epoch": c.volatile.quorum.epoch, "round": 0, "round_status": "finished"}});
    if !clocks.is_empty() {
        let skews: Map<String, Value> = skews.chain([(c.volatile.name.clone(), own)]).collect();
        object["time_skew_status"] = Value::Object(skews);
    }
    c.value(object)
}

fn mon_status(c: &Context<'_>) -> Answer {
    let features = mon_features::names(c.state.monmap.persistent_features);
    let bits = wire::codec::features::PACIFIC.to_string();
    c.value(json!({
        "name": c.volatile.name,
        "rank": c.state.monmap.rank(&c.volatile.name),
        "state": if c.volatile.quorum.leader == c.volatile.name { "leader" } else { "peon" },
        "election_epoch": c.volatile.quorum.epoch,
        "quorum": quorum(c),
        "quorum_age": c.since(c.volatile.quorum.since).as_secs(),
        "features": {
            "required_con": bits,
            "required_mon": features,
            "quorum_con": bits,
            "quorum_mon": features,
        },
        "outside_quorum": c.volatile.quorum.absent(&c.state.monmap),
        "extra_probe_peers": [],
        "sync_provider": [],
        "monmap": map_value(c),
        "feature_map": cluster::feature_map(c),
        "stretch_mode": c.state.monmap.stretch_mode,
    }))
}

fn version(c: &Context<'_>) -> Answer {
    if c.request.tell {
        return c.value(control::version::value());
    }
    let text = control::version::text();
    c.either(|| format!("{text}\n"), || json!({"version": text}))
}

/// Prints who is connected to this monitor.
fn sessions(c: &Context<'_>) -> Answer {
    if !c.request.tell {
        return refuse(Errno::EINVAL, "only one monitor is asked for its sessions: `ceph tell mon.NAME sessions`");
    }
    let addr = |addr: &wire::EntityAddr| {
        let kind = match addr.kind {
            wire::AddrKind::MSGR2 => "v2",
            wire::AddrKind::LEGACY => "v1",
            wire::AddrKind::ANY => "any",
            _ => "none",
        };
        let shown = addr.sockaddr.map_or("(unrecognized address family 0)".to_owned(), |addr| addr.to_string());
        json!({"type": kind, "addr": shown, "nonce": addr.nonce})
    };
    let one = |session: &super::SessionInfo| {
        let first = session.addrs.iter().next().copied().unwrap_or_default();
        json!({
            // Monitors that dial have no number.
            "name": if session.name.num < 0 { session.entity.clone() } else { session.name.to_string() },
            "entity_name": session.entity,
            "addrs": {"addrvec": session.addrs.iter().map(addr).collect::<Vec<_>>()},
            "socket_addr": addr(&first),
            "con_type": session.name.kind.word(),
            "con_features": session.features,
            "con_features_hex": format!("{:x}", session.features),
            "con_features_release": super::cluster::release_of(session.features),
            "open": true,
            "caps": {"text": session.caps},
            "authenticated": true,
            "global_id": session.global_id,
            // Ceph tells by this how an id was come by; without a proof there is nothing to tell.
            "global_id_status": if session.is_proven { "new_ok" } else { "none" },
            "osd_epoch": session.osd_epoch,
            "remote_host": session.host,
        })
    };
    c.value(c.request.sessions.iter().map(one).collect())
}

/// Adds the line that has all monitors compare their states.
fn scrub(c: &Context<'_>) -> Answer {
    if c.volatile.compares_states {
        return refuse(Errno::EBUSY, "the monitors compare their states already: the cluster log tells the outcome");
    }
    let own = &c.volatile.name;
    let line = LogEntry {
        name: AuthName::new(EntityType::MON, own),
        rank: EntityName::mon(c.state.monmap.rank(own).unwrap_or(0) as i64),
        stamp: c.request.now,
        priority: LogPriority::DEBUG,
        channel: STATE_CHECK_CHANNEL.to_owned(),
        message: "the monitors compare their states".to_owned(),
        ..LogEntry::default()
    };
    c.propose(vec![Update::Log(vec![line])], Reply::default())
}
