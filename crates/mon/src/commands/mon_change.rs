//! `ceph mon add|rm`: who the monitors are to be.

use super::context::Context;
use super::mon::majority;
use super::table::Command;
use super::{Answer, Reply, done, refuse};
use crate::update::Update;
use osdmap::MonMap;
use types::Errno;
use wire::addr::AddrKind;
use wire::{Encode, EntityAddr, EntityAddrVec, Target};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("mon add {name:String} {addr:IPAddr}", "rw", "add a monitor, which is to join", add),
    Command::new("mon remove {name:String}", "rw", "remove a monitor", remove),
    Command::new("mon rm {name:String}", "rw", "remove a monitor", remove),
];

/// Where monitors listen unless told otherwise.
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
        // Only one of two decides: it is not to be removed, the other may.
        assert_eq!(cluster.run(json!({"prefix": "mon rm", "name": "a"})).code, Errno::EBUSY.as_result());
        let removed = said(&mut cluster, json!({"prefix": "mon rm", "name": "b"}));
        assert_eq!(removed, "removing mon.b at v2:10.0.0.2:3300/0, there will be 1 monitors");
        assert_eq!(cluster.state.monmap.ranks, ["a"]);
        assert_eq!(cluster.run(json!({"prefix": "mon rm", "name": "a"})).code, Errno::EINVAL.as_result());
        let gone = said(&mut cluster, json!({"prefix": "mon remove", "name": "b"}));
        assert_eq!(gone, "mon.b does not exist or has already been removed");
    }
}
