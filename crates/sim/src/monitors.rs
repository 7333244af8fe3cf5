//! The cluster's monitors. Each is a process on a machine of its own, with a log that outlives the process. This file
//! also has the things that can be done to monitors.

use crate::cluster::{Cluster, FSID, MON_PORT};
use crate::keys::Keys;
use crate::mon_log::MonLog;
use crate::mon_process::MonProcess;
use crate::process::{Process, Program};
use mon::BootstrapSpec;
use mon::daemon::founded;
use mon::log::Identity;
use mon::member::Member;
use mutant::Mutant;
use raft::{ServerId, Stored};
use reactor::sim::{Crash, NodeId, World};
use std::net::SocketAddr;
use wire::EntityAddrVec;

/// One monitor.
pub(crate) struct MonNode {
    name: String,
    pub(crate) node: NodeId,
    addr: SocketAddr,
    /// The log while the monitor does not run.
    log: Option<MonLog>,
    /// True if the monitor was removed from the cluster and has ended for good.
    is_removed: bool,
}

impl MonNode {
    fn addrs(&self) -> EntityAddrVec {
        EntityAddrVec::msgr2(self.addr, 0)
    }
}

/// All monitors.
pub(crate) struct Monitors {
    pub(crate) nodes: Vec<MonNode>,
    servers_made: u64,
}

impl Monitors {
    /// Makes machines for the first monitors, with empty disks.
    pub(crate) fn machines(world: &mut World<Process>, count: usize) -> Monitors {
        let mut monitors = Monitors { nodes: Vec::new(), servers_made: 0 };
        (0..count).for_each(|_| monitors.add_machine(world));
        monitors
    }

    fn add_machine(&mut self, world: &mut World<Process>) {
        let node = world.add_node();
        world.take_time(node);
        let name = char::from(b'a' + u8::try_from(self.nodes.len()).expect("few monitors")).to_string();
        let addr = SocketAddr::new(world.address(node), MON_PORT);
        self.nodes.push(MonNode { name, node, addr, log: None, is_removed: false });
    }

    fn new_server(&mut self) -> ServerId {
        self.servers_made += 1;
        ServerId(self.servers_made)
    }

    fn identity(&mut self, index: usize) -> Identity {
        Identity { fsid: FSID, name: self.nodes[index].name.clone(), server: self.new_server() }
    }

    /// Names and addresses of the first monitors.
    pub(crate) fn named(&self) -> Vec<(String, EntityAddrVec)> {
        self.nodes.iter().map(|mon| (mon.name.clone(), mon.addrs())).collect()
    }

    /// Writes the initial state of a new cluster to all disks.
    pub(crate) fn found(&mut self, spec: &BootstrapSpec) {
        let identities: Vec<Identity> = (0..self.nodes.len()).map(|index| self.identity(index)).collect();
        let servers: Vec<ServerId> = identities.iter().map(|identity| identity.server).collect();
        let stored = founded(spec, &servers);
        for (mon, identity) in self.nodes.iter_mut().zip(identities) {
            mon.log = Some(MonLog::new(identity, stored.clone()));
        }
    }
}

impl Cluster {
    /// Number of all monitors that there ever were.
    pub fn mon_count(&self) -> usize {
        self.monitors.nodes.len()
    }

    /// Monitors that were not removed.
    pub fn mons_present(&self) -> impl Iterator<Item = usize> + '_ {
        self.monitors.nodes.iter().enumerate().filter(|(_, mon)| !mon.is_removed).map(|(index, _)| index)
    }

    pub fn mon_node(&self, mon: usize) -> NodeId {
        self.monitors.nodes[mon].node
    }

    pub fn mon_name(&self, mon: usize) -> &str {
        &self.monitors.nodes[mon].name
    }

    pub fn mon_runs(&self, mon: usize) -> bool {
        self.world.is_running(self.mon_node(mon))
    }

    /// Addresses of monitors, as a `ceph.conf` has them that is kept up to date.
    pub(crate) fn mon_addrs(&self) -> Vec<EntityAddrVec> {
        self.mons_present().map(|mon| self.monitors.nodes[mon].addrs()).collect()
    }

    /// Starts all monitors that do not run.
    pub fn start_mons(&mut self) {
        self.mons_present().collect::<Vec<_>>().into_iter().for_each(|mon| self.start_mon(mon));
    }

    pub fn start_mon(&mut self, mon: usize) {
        let peers = if self.mon_count() > 1 { self.mon_addrs() } else { Vec::new() };
        let MonNode { name, node, addr, log, is_removed } = &mut self.monitors.nodes[mon];
        if *is_removed {
            return;
        }
        let Some(log) = log.take() else { return };
        let (name, node, addr, witness) = (format!("mon.{name}"), *node, *addr, self.witness.clone());
        let keys = self.keys.as_ref().map(Keys::of_monitors);
        self.start(node, name, |io| Program::Mon(Box::new(MonProcess::start(io, addr, log, (&peers, keys), witness))));
    }

    pub fn kill_mon(&mut self, mon: usize, crash: Crash) {
        let killed = self.world.kill(self.mon_node(mon), crash);
        if let Some(Process { program: Program::Mon(process), .. }) = killed {
            self.monitors.nodes[mon].log = Some(process.into_log(self.world.rng()));
        }
    }

    /// Ends a monitor and removes its disk. It gets a new store, with which it may join.
    pub fn wipe_mon(&mut self, mon: usize) {
        self.kill_mon(mon, Crash::Power);
        let old = self.monitors.nodes[mon].log.as_ref().map(|log| log.load().identity);
        let identity = match old.filter(|_| mutant::is(Mutant::WipedKeepsNumber)) {
            Some(old) => old,
            None => self.monitors.identity(mon),
        };
        self.monitors.nodes[mon].log = Some(MonLog::new(identity, Stored::default()));
    }

    /// Adds a machine for another monitor, with a store that is made to join. Returns its index.
    pub fn add_mon(&mut self) -> usize {
        self.monitors.add_machine(&mut self.world);
        let index = self.mon_count() - 1;
        let identity = self.monitors.identity(index);
        self.monitors.nodes[index].log = Some(MonLog::new(identity, Stored::default()));
        index
    }

    /// Has each write to the disk of a running monitor take `times` times as long.
    pub fn slow_mon_disk(&mut self, mon: usize, times: u32) {
        self.world.call(self.mon_node(mon), |process, _| {
            if let Program::Mon(mon) = &mut process.program {
                mon.slow_disk(times);
            }
        });
    }

    fn mon_process(&self, mon: usize) -> Option<&MonProcess> {
        match &self.world.handler(self.mon_node(mon))?.program {
            Program::Mon(process) => Some(process),
            _ => None,
        }
    }

    /// The core of a running monitor.
    pub fn member(&self, mon: usize) -> Option<&Member> {
        self.mon_process(mon).map(MonProcess::member)
    }

    fn members(&self) -> impl Iterator<Item = &Member> {
        (0..self.mon_count()).filter_map(|mon| self.member(mon))
    }

    /// The monitor that leads. If several believe that they lead: the one with the newest term.
    pub fn leading_mon(&self) -> Option<usize> {
        let term =
            |mon: usize| Some(self.member(mon)?).filter(|member| member.monitor().leads()).map(|m| m.raft().term());
        (0..self.mon_count()).filter(|mon| term(*mon).is_some()).max_by_key(|mon| term(*mon))
    }

    /// The leader, if one runs. It may not have everything that was decided: one that has just started may know less
    /// for a moment.
    pub fn monitor(&self) -> Option<&mon::Monitor> {
        self.member(self.leading_mon()?).map(Member::monitor)
    }

    /// `Ok` if all monitors run, vote, follow one leader and have the leader's state. The error tells what is missing.
    pub fn quorum_is_whole(&self) -> Result<(), String> {
        let leader = self.leading_mon().ok_or("no monitor leads")?;
        let leader = self.member(leader).expect("it leads");
        let (state, members) = (leader.monitor().state(), leader.raft().membership());
        if state.mon_servers.len() != self.mons_present().count() {
            return Err(format!("monitors should be {:?}", state.mon_servers.keys().collect::<Vec<_>>()));
        }
        if members.voters.len() != state.mon_servers.len() || !members.learners.is_empty() {
            return Err(format!("{} monitors should vote: {members:?}", state.mon_servers.len()));
        }
        for mon in self.mons_present() {
            let name = self.mon_name(mon);
            let Some(member) = self.member(mon) else { return Err(format!("mon.{name} does not run")) };
            let server = member.identity().server;
            if state.mon_servers.get(name).is_none_or(|known| known.server != server.0)
                || !members.voters.contains(&server)
            {
                return Err(format!("mon.{name} is not a member"));
            }
            let of = |member: &Member| (member.raft().term(), member.raft().leader(), member.monitor().state().applied);
            if of(member) != of(leader) {
                return Err(format!("mon.{name} is at {:?}, the leader at {:?}", of(member), of(leader)));
            }
        }
        Ok(())
    }

    /// `Ok` if all monitors have come together in the same state, it has everything that was acknowledged, and all OSDs
    /// have its map. The error tells what differs.
    pub fn monitors_agree(&self) -> Result<(), String> {
        self.quorum_is_whole()?;
        let monitor = self.monitor().expect("one leads");
        for member in self.members() {
            let name = &member.identity().name;
            if member.monitor().state() != monitor.state() {
                return Err(format!("the state of mon.{name} differs"));
            }
            self.witness.is_in(name, member.monitor().state())?;
        }
        let epoch = monitor.state().osdmap().epoch;
        let is_late = |osd: &usize| self.osd_epoch(*osd).is_some_and(|known| known != epoch);
        match (0..self.osd_count()).find(is_late) {
            Some(osd) => Err(format!("osd.{osd} has epoch {:?}, the newest is {epoch}", self.osd_epoch(osd))),
            None => Ok(()),
        }
    }

    /// Ends monitors that were told to stop.
    ///
    /// Errors: a monitor ended by itself that was neither removed nor replaced.
    pub(crate) fn end_stopped_mons(&mut self) -> Result<(), String> {
        for mon in 0..self.mon_count() {
            let Some((reason, server)) = self
                .mon_process(mon)
                .and_then(|process| Some((process.stopped()?.to_owned(), process.member().identity().server)))
            else {
                continue;
            };
            let is_former = self.members().any(|member| member.monitor().state().former_servers.contains(&server.0));
            if !is_former {
                return Err(format!("mon.{} stopped by itself: {reason}", self.mon_name(mon)));
            }
            self.kill_mon(mon, Crash::Process);
            self.monitors.nodes[mon].is_removed = true;
        }
        Ok(())
    }
}
