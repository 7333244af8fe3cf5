//! `ceph mon add|rm|set-*` changes the set of monitors and what the map has of each. `ceph mon confirm-survivor`
//! confirms that the records of a monitor that was made the only one are complete.

use super::command::Command;
use super::context::Context;
use super::mon::majority;
use super::{Answer, Reply, done, refuse};
use crate::update::Update;
use osdmap::{MonInfo, MonMap, mon_features};
use std::collections::BTreeMap;
use types::Errno;
use wire::addr::AddrKind;
use wire::nacre::mon::doubt;
use wire::{Encode, EntityAddr, EntityAddrVec, Target};

/// The largest number of places of a monitor.
const PLACES_MAX: usize = 32;
/// The most bytes of one of them, its kind included.
const PLACE_BYTES_MAX: usize = 256;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("mon add {name:String} {addr:IPAddr}", "rw", "add a monitor, which is to join", add),
    Command::new("mon remove {name:String}", "rw", "remove a monitor", remove),
    Command::new("mon rm {name:String}", "rw", "remove a monitor", remove),
    Command::new(
        "mon feature set {feature_name:String} {yes_i_really_mean_it:Bool,req=false}",
        "rw",
        "have all monitors need a feature",
        set_feature,
    ),
    Command::new(
        "mon set election_strategy {strategy:String}",
        "rw",
        "choose how the monitors choose who leads",
        set_strategy,
    ),
    Command::new("mon add disallowed_leader {name:String}", "rw", "keep a monitor from leading", no_disallowed_leader),
    Command::new("mon rm disallowed_leader {name:String}", "rw", "let a monitor lead again", no_disallowed_leader),
    Command::new("mon set-rank {name:String} {rank:Int}", "rw", "set a monitor's place among them", set_rank),
    Command::new("mon set-weight {name:String} {weight:Int,range=0|65535}", "rw", "set a monitor's weight", |c| {
        change_one(c, |mon| mon.weight = c.args.int("weight").and_then(|w| u16::try_from(w).ok()).unwrap_or_default())
    }),
    Command::new("mon set_location {name:String} {args:String,n=N}", "rw", "say where a monitor is", set_location),
    Command::new("mon set-addrs {name:String} {addrs:String}", "rw", "set a monitor's addresses", set_addrs),
    // All monitors listen for msgr2, and for nothing else.
    Command::new("mon enable-msgr2", "rw", "have all monitors listen for msgr2, as they do anyway", |_| done("")),
    Command::new(
        "mon confirm-survivor {yes_i_really_mean_it:Bool,req=false}",
        "rw",
        "say that what the only monitor that was left knows is all there is",
        confirm_survivor,
    ),
];

/// Numbers of pools that are skipped: more than can have been given unknown to the survivor, so that none is given
/// twice.
const POOLS_SKIPPED: i64 = 1000;

/// Port of monitors whose address names none.
const PORT: u16 = 3300;

fn addrs(text: &str) -> Option<EntityAddrVec> {
    let addr = EntityAddr::parse(text, AddrKind::MSGR2).ok()?;
    let mut sockaddr = addr.sockaddr.filter(|sockaddr| !sockaddr.ip().is_unspecified())?;
    if sockaddr.port() == 0 {
        sockaddr.set_port(PORT);
    }
    Some(EntityAddrVec::msgr2(sockaddr, 0))
}

fn add(c: &Context<'_>) -> Answer {
    let (name, text) = (c.args.word("name"), c.args.word("addr"));
    let Some(addrs) = addrs(text) else {
        return refuse(Errno::EINVAL, format!("'{text}' is no address that a monitor could listen at"));
    };
    let map = &c.state.monmap;
    if let Some(known) = map.mons.get(name) {
        let sentence = format!("mon.{name} at {} already exists", known.addrs);
        return if known.addrs == addrs { done(sentence) } else { refuse(Errno::EEXIST, sentence) };
    }
    if let Some(other) = map.mons.values().find(|mon| mon.addrs == addrs) {
        return refuse(Errno::EEXIST, format!("mon.{} at {addrs} already exists", other.name));
    }
    let mut map = map.clone();
    map.add(name, addrs.clone());
    c.propose(vec![next(c, map)], Reply::status(format!("adding mon.{name} at {addrs}")))
}

/// All monitors have all features, so there is nothing to change.
fn set_feature(c: &Context<'_>) -> Answer {
    let name = c.args.word("feature_name");
    if !mon_features::names(mon_features::THROUGH_PACIFIC).contains(&name) {
        return refuse(Errno::ENOENT, format!("unknown feature '{name}'"));
    }
    let feature = format!("'mon_feature_t([{name}])'");
    if !c.args.flag("yes_i_really_mean_it") {
        let sentence = format!(
            "please specify '--yes-i-really-mean-it' if you really, **really** want to set feature {feature} in the \
             monmap."
        );
        return refuse(Errno::EPERM, sentence);
    }
    done(format!("setting feature {feature}"))
}

/// Refuses to keep a monitor from leading, as a Ceph does whose monitors choose their leader in the classic way.
fn no_disallowed_leader(_: &Context<'_>) -> Answer {
    refuse(Errno::EINVAL, "You cannot disallow monitors in your current election mode")
}

/// Monitors vote for whoever has the newest log. Ranks and scores of connections play no part.
fn set_strategy(c: &Context<'_>) -> Answer {
    match c.args.word("strategy") {
        "classic" => done(""),
        "disallow" | "connectivity" => refuse(
            Errno::EOPNOTSUPP,
            "monitors elect whoever has the newest log: neither can one be kept from leading, nor do connections count",
        ),
        other => refuse(Errno::EINVAL, format!("'{other}' is not one of classic, disallow, connectivity")),
    }
}

/// Changes what the map has of the monitor `name`.
fn change_one(c: &Context<'_>, change: impl FnOnce(&mut MonInfo)) -> Answer {
    let name = c.args.word("name");
    let mut map = c.state.monmap.clone();
    let Some(mon) = map.mons.get_mut(name) else {
        return refuse(Errno::ENOENT, format!("mon.{name} does not exist"));
    };
    change(mon);
    c.propose(vec![next(c, map)], Reply::default())
}

/// Moves a monitor to another place among the ranks. A place that there is not changes nothing, as on a Ceph.
fn set_rank(c: &Context<'_>) -> Answer {
    let name = c.args.word("name");
    let mut map = c.state.monmap.clone();
    let Some(from) = map.ranks.iter().position(|other| other == name) else {
        return refuse(Errno::ENOENT, format!("mon.{name} does not exist in monmap"));
    };
    let to = c.args.int("rank").and_then(|rank| usize::try_from(rank).ok());
    if let Some(to) = to.filter(|to| *to < map.ranks.len()) {
        let moved = map.ranks.remove(from);
        map.ranks.insert(to, moved);
    }
    c.propose(vec![next(c, map)], Reply::default())
}

/// Keeps the place of a monitor in the CRUSH hierarchy, which `mon dump` shows.
fn set_location(c: &Context<'_>) -> Answer {
    let mut location = BTreeMap::new();
    let words = c.args.texts("args");
    // The map of monitors goes to every client.
    if words.len() > PLACES_MAX || words.iter().any(|word| word.len() > PLACE_BYTES_MAX) {
        return refuse(Errno::E2BIG, format!("there are at most {PLACES_MAX} places of {PLACE_BYTES_MAX} bytes each"));
    }
    for word in words {
        let Some((kind, place)) = word.split_once('=').filter(|(kind, place)| !kind.is_empty() && !place.is_empty())
        else {
            return refuse(Errno::EINVAL, format!("'{word}' is no place: a kind of bucket, '=' and its name"));
        };
        location.insert(kind.to_owned(), place.to_owned());
    }
    change_one(c, |mon| mon.crush_location = location)
}

/// Monitors move only by being removed and added: one that is there keeps its address.
fn set_addrs(c: &Context<'_>) -> Answer {
    let (name, text) = (c.args.word("name"), c.args.word("addrs"));
    let Some(known) = c.state.monmap.mons.get(name) else {
        return refuse(Errno::ENOENT, format!("mon.{name} does not exist"));
    };
    match addrs(text.trim_start_matches('[').trim_end_matches(']')) {
        Some(addrs) if addrs == known.addrs => done(""),
        Some(_) => refuse(
            Errno::EOPNOTSUPP,
            format!("mon.{name} is at {}; a monitor gets another address by being removed and added", known.addrs),
        ),
        None => refuse(Errno::EINVAL, format!("'{text}' is no address that a monitor could listen at")),
    }
}

fn remove(c: &Context<'_>) -> Answer {
    let name = c.args.word("name");
    let map = &c.state.monmap;
    let Some(known) = map.mons.get(name) else {
        return done(format!("mon.{name} does not exist or has already been removed"));
    };
    if map.mons.len() == 1 {
        return refuse(Errno::EINVAL, format!("error: refusing removal of last monitor {name}"));
    }
    let left = map.mons.len() - 1;
    let deciding = c.volatile.quorum.members.iter().filter(|member| *member != name).count();
    if deciding < majority(left) {
        let sentence =
            format!("without mon.{name} only {deciding} of {left} monitors would be there, which is no majority");
        return refuse(Errno::EBUSY, sentence);
    }
    let addrs = known.addrs.clone();
    let mut map = map.clone();
    map.mons.remove(name);
    map.ranks.retain(|other| other != name);
    let updates = vec![next(c, map), Update::MonGone { name: name.to_owned() }];
    c.propose(updates, Reply::status(format!("removing mon.{name} at {addrs}, there will be {left} monitors")))
}

/// Confirms the survivor's records: from then on they count as they are; OSDs remove copies of groups that are not
/// needed, and data of pools that are not known.
fn confirm_survivor(c: &Context<'_>) -> Answer {
    if !c.state.in_doubt {
        return done("nothing is to be confirmed");
    }
    let behind = c.state.pgs.values().filter(|record| record.doubt == doubt::BEHIND).count();
    if !c.args.flag("yes_i_really_mean_it") {
        let sentence = format!(
            "{behind} placement groups have not been made whole since by what all OSDs have, and would go by records \
             that may be behind; copies that no placement group needs then, and the data of pools that `ceph osd pool \
             ls` does not show, are removed for good. See that all OSDs are up and all placement groups active+clean, \
             then pass --yes-i-really-mean-it"
        );
        return refuse(Errno::EPERM, sentence);
    }
    let mut incremental = c.state.next_incremental(c.request.now);
    incremental.new_pool_max = Some(i64::from(c.map().pool_max) + POOLS_SKIPPED);
    let skips = c.state.osd_update(incremental);
    let updates = skips.into_iter().chain([Update::Confirmed]).collect();
    c.propose(updates, Reply::status("what the surviving monitor knows is confirmed"))
}

fn next(c: &Context<'_>, mut map: MonMap) -> Update {
    map.epoch = map.epoch.next();
    map.last_changed = c.request.now;
    Update::MonMap(map.to_vec(Target::PACIFIC).into())
}

#[cfg(test)]
mod tests {
    use super::super::test_cluster::TestCluster;
    use serde_json::json;
    use types::Errno;
    use wire::nacre::mon::doubt;

    #[test]
    fn what_a_survivor_knows_is_confirmed_once() {
        let mut cluster = TestCluster::with_pools();
        let confirm = |cluster: &mut TestCluster, really: bool| {
            cluster.run(json!({"prefix": "mon confirm-survivor", "yes_i_really_mean_it": really}))
        };
        assert_eq!(confirm(&mut cluster, true).status, "nothing is to be confirmed");
        cluster.state.in_doubt = true;
        let groups: Vec<_> = cluster.state.osdmap().pgs().collect();
        groups.iter().for_each(|group| cluster.state.pgs.entry(*group).or_default().doubt = doubt::BEHIND);
        let make = json!({"prefix": "osd pool create", "pool": "more"});
        let refused = cluster.run(make.clone());
        assert_eq!(refused.code, Errno::EBUSY.as_result(), "{}", refused.status);
        let detail = cluster.ok(json!({"prefix": "health", "detail": "detail"}));
        assert!(detail.contains("MON_SURVIVOR_UNCONFIRMED") && detail.contains("mon confirm-survivor"), "{detail}");
        let refused = confirm(&mut cluster, false);
        assert_eq!(refused.code, Errno::EPERM.as_result());
        assert!(refused.status.starts_with(&format!("{} placement groups", groups.len())), "{}", refused.status);
        let before = cluster.state.osdmap().pool_max;
        assert_eq!(confirm(&mut cluster, true).code, 0);
        assert!(!cluster.state.in_doubt && cluster.state.pgs.values().all(|record| record.doubt == doubt::NONE));
        assert_eq!(cluster.run(make).code, 0);
        assert!(cluster.state.osdmap().pool_max > before + 1000, "numbers that may have been given are skipped");
    }

    #[test]
    fn ranks_weights_and_places_of_monitors_are_kept() {
        let mut cluster = TestCluster::empty();
        cluster.ok(json!({"prefix": "mon add", "name": "b", "addr": "10.0.0.2"}));
        for (command, sentence) in [
            (json!({"prefix": "mon set-rank", "name": "z", "rank": 0}), "mon.z does not exist in monmap"),
            (json!({"prefix": "mon set-weight", "name": "z", "weight": 1}), "mon.z does not exist"),
            (json!({"prefix": "mon set_location", "name": "z", "args": ["host=h"]}), "mon.z does not exist"),
            (json!({"prefix": "mon set-addrs", "name": "z", "addrs": "[v2:10.0.0.9:3300/0]"}), "mon.z does not exist"),
        ] {
            let reply = cluster.run(command);
            assert_eq!((reply.code, reply.status.as_str()), (Errno::ENOENT.as_result(), sentence));
        }
        cluster.ok(json!({"prefix": "mon set-rank", "name": "b", "rank": 0}));
        assert_eq!(cluster.state.monmap.ranks, ["b", "a"]);
        // There is no third place.
        cluster.ok(json!({"prefix": "mon set-rank", "name": "b", "rank": 2}));
        assert_eq!(cluster.state.monmap.ranks, ["b", "a"]);
        cluster.ok(json!({"prefix": "mon set-weight", "name": "b", "weight": 7}));
        cluster.ok(json!({"prefix": "mon set_location", "name": "b", "args": ["host=h1", "rack=r1"]}));
        let known = &cluster.state.monmap.mons["b"];
        assert_eq!(known.weight, 7);
        assert_eq!(
            known.crush_location.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>(),
            ["host=h1", "rack=r1"]
        );
        let epoch = cluster.state.monmap.epoch;
        let code = |cluster: &mut TestCluster, command| cluster.run(command).code;
        let long = json!({"prefix": "mon set_location", "name": "b", "args": [format!("rack={}", "r".repeat(256))]});
        assert_eq!(cluster.run(long).code, Errno::E2BIG.as_result());
        let bad_place = json!({"prefix": "mon set_location", "name": "b", "args": ["nowhere"]});
        assert_eq!(code(&mut cluster, bad_place), Errno::EINVAL.as_result());
        let same = json!({"prefix": "mon set-addrs", "name": "b", "addrs": "[v2:10.0.0.2:3300/0]"});
        assert_eq!(code(&mut cluster, same), 0);
        let other = json!({"prefix": "mon set-addrs", "name": "b", "addrs": "v2:10.0.0.3:3300/0"});
        assert_eq!(code(&mut cluster, other), Errno::EOPNOTSUPP.as_result());
        assert_eq!(cluster.state.monmap.epoch, epoch);
    }

    #[test]
    fn monitors_are_added_and_removed() {
        let mut cluster = TestCluster::empty();
        let said = |cluster: &mut TestCluster, command| {
            let reply = cluster.run(command);
            assert_eq!(reply.code, 0, "{}", reply.status);
            reply.status
        };
        let added = said(&mut cluster, json!({"prefix": "mon add", "name": "b", "addr": "10.0.0.2"}));
        assert_eq!(added, "adding mon.b at v2:10.0.0.2:3300/0");
        assert_eq!(cluster.state.monmap.epoch.0, 2);
        let again = said(&mut cluster, json!({"prefix": "mon add", "name": "b", "addr": "10.0.0.2:3300"}));
        assert_eq!(again, "mon.b at v2:10.0.0.2:3300/0 already exists");
        for (name, addr) in [("b", "10.0.0.3"), ("c", "10.0.0.2"), ("c", "nowhere"), ("c", "0.0.0.0:1")] {
            let reply = cluster.run(json!({"prefix": "mon add", "name": name, "addr": addr}));
            assert!(reply.code < 0, "{name} {addr}: {}", reply.status);
        }
        // One of two monitors decides: it may not be removed, the other one may.
        assert_eq!(cluster.run(json!({"prefix": "mon rm", "name": "a"})).code, Errno::EBUSY.as_result());
        let removed = said(&mut cluster, json!({"prefix": "mon rm", "name": "b"}));
        assert_eq!(removed, "removing mon.b at v2:10.0.0.2:3300/0, there will be 1 monitors");
        assert_eq!(cluster.state.monmap.ranks, ["a"]);
        assert_eq!(cluster.run(json!({"prefix": "mon rm", "name": "a"})).code, Errno::EINVAL.as_result());
        let gone = said(&mut cluster, json!({"prefix": "mon remove", "name": "b"}));
        assert_eq!(gone, "mon.b does not exist or has already been removed");
    }
}
