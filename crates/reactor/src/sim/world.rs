//! The world: nodes with their handlers, and the course of events.

use super::config::WorldConfig;
use super::disk::SimDisk;
use super::io::{Happening, SimIo};
use super::node::{Inbox, Node, Turn};
use super::node_clock::NodeClock;
use super::rng::Rng;
use crate::conn::Phase;
use crate::{ConnId, Event, Handler};
use bytes::Bytes;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

/// One simulated machine, with at most one process at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub usize);

/// The way in which a node ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crash {
    /// The process is killed. The machine lives, and so do its disks' caches; its peers are told.
    Process,
    /// The machine loses its power: caches are lost, and peers hear nothing.
    Power,
}

/// Knowledge of the time that has passed, of a machine that slept or was paused by its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sleep {
    /// All: it sleeps, and has a clock that counts sleep, as the loop's is.
    Counted,
    /// It is a virtual machine whose clocks stood, and whose wall clock has been set right when it goes on.
    Paused,
    /// It is one whose wall clock is set right later only, by [`World::set_wall_clock_right`].
    Unnoticed,
}

/// Many nodes, each with one handler, in one thread and virtual time. A run is a function of the seed, the
/// configuration and the calls made from outside.
///
/// * Make nodes with [`World::add_node`], start them with [`World::start`], end them with [`World::kill`].
/// * Let time pass with [`World::run_for`], [`World::run_until`] or single [`World::step`]s.
/// * Disturb with [`World::block`], [`World::sever`], [`World::disk`].
/// * Inspect with [`World::handler`]; act from outside with [`World::call`].
pub struct World<H> {
    io: SimIo,
    handlers: Vec<Option<H>>,
}

impl<H: Handler<SimIo>> World<H> {
    pub fn new(seed: u64, config: WorldConfig) -> World<H> {
        World { io: SimIo::new(seed, config), handlers: Vec::new() }
    }

    /// Adds a machine that has power and runs no process.
    pub fn add_node(&mut self) -> NodeId {
        self.io.nodes.push(Node { powered: true, ..Node::default() });
        self.handlers.push(None);
        NodeId(self.handlers.len() - 1)
    }

    /// The address at which a node that listens there can be reached. Nodes may also listen on any other address that
    /// no node has taken: all share one address space, loopback included.
    pub fn address(&self, node: NodeId) -> IpAddr {
        SimIo::address(node.0)
    }

    /// Starts a process; `make` may give commands. Panics if one is running.
    pub fn start(&mut self, node: NodeId, make: impl FnOnce(&mut SimIo) -> H) {
        let clock = self.io.clock;
        let state = &mut self.io.nodes[node.0];
        assert!(!state.running, "{node:?} is running already");
        *state = Node {
            incarnation: state.incarnation + 1,
            running: true,
            powered: true,
            clock: NodeClock::starting(clock, state.clock.ahead_ppm()),
            wall_skew_ms: state.wall_skew_ms,
            wall_behind: state.wall_behind,
            takes_time: state.takes_time,
            ..Node::default()
        };
        self.io.current = node.0;
        self.handlers[node.0] = Some(make(&mut self.io));
        self.after_handler(node.0);
    }

    /// Ends a process, or its machine; returns its handler for inspection. A node that is not running is unchanged,
    /// except that it may lose its power.
    pub fn kill(&mut self, node: NodeId, crash: Crash) -> Option<H> {
        let power_fails = crash == Crash::Power;
        if self.io.nodes[node.0].running {
            self.end_process(node.0, power_fails, false);
        }
        if power_fails {
            self.io.nodes[node.0].powered = false;
            let disks = self.io.disks.range_mut((node.0, "".into())..(node.0 + 1, "".into()));
            disks.for_each(|(_, disk)| disk.lose_power(self.io.config.sector_bytes, &mut self.io.rng));
        }
        self.handlers[node.0].take()
    }

    fn end_process(&mut self, node: usize, power_fails: bool, in_peace: bool) {
        self.io.drop_files(node, in_peace);
        self.io.drop_connections(node, power_fails);
        let state = &mut self.io.nodes[node];
        state.running = false;
        state.inbox.clear();
    }

    /// True while the node's process runs: not before the start, nor after [`crate::Io::stop`] or [`World::kill`].
    pub fn is_running(&self, node: NodeId) -> bool {
        self.io.nodes[node.0].running
    }

    /// The node's handler, also of a process that has stopped by itself.
    pub fn handler(&self, node: NodeId) -> Option<&H> {
        self.handlers[node.0].as_ref()
    }

    /// Returns true if the node's handler was given inputs of a turn, and is still to be told that the turn ends.
    pub fn is_amid_turn(&self, node: NodeId) -> bool {
        matches!(self.io.nodes[node.0].turn, Some(Turn::HandsOver(_) | Turn::Ends))
    }

    /// Calls into a running node as if an event outside had reached it.
    pub fn call<T>(&mut self, node: NodeId, f: impl FnOnce(&mut H, &mut SimIo) -> T) -> Option<T> {
        if !self.is_running(node) {
            return None;
        }
        self.io.current = node.0;
        self.refresh_now(node.0);
        let result = f(self.handlers[node.0].as_mut()?, &mut self.io);
        self.after_handler(node.0);
        Some(result)
    }

    /// Makes a node handle [`Event::Woken`], as a waker would.
    pub fn wake(&mut self, node: NodeId) {
        self.io.tell(node.0, Inbox::Event(Event::Woken));
    }

    /// Virtual time since the world began.
    pub fn now(&self) -> Duration {
        self.io.clock
    }

    /// The source of randomness, for decisions of the test that belong to the seed too.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.io.rng
    }

    /// A digest of all events: equal for equal seeds.
    pub fn fingerprint(&self) -> u64 {
        self.io.fingerprint
    }

    /// Lets no segment through from one node to another until [`World::unblock`]. TCP keeps trying.
    pub fn block(&mut self, from: NodeId, to: NodeId) {
        self.io.blocked.insert((from.0, to.0));
    }

    pub fn unblock(&mut self, from: NodeId, to: NodeId) {
        self.io.blocked.remove(&(from.0, to.0));
    }

    pub fn unblock_all(&mut self) {
        self.io.blocked.clear();
    }

    /// Delays segments from one node to another by so much more, until [`World::hasten`].
    pub fn delay(&mut self, from: NodeId, to: NodeId, by: Duration) {
        self.io.delayed.insert((from.0, to.0), by);
    }

    /// Slows one connection from one node to another, chosen by `which`: its bytes take longer by `by`, and other
    /// connections between the two overtake it. Returns false if there is none.
    pub fn slow_connection(&mut self, from: NodeId, to: NodeId, which: u64, by: Duration) -> bool {
        let between = |(_, endpoint): &(&ConnId, &super::network::Endpoint)| {
            (endpoint.node, endpoint.peer_node) == (to.0, from.0) && endpoint.phase == Phase::Open
        };
        let conns: Vec<ConnId> = self.io.endpoints.iter().filter(between).map(|(conn, _)| *conn).collect();
        let chosen = conns.get((which % conns.len().max(1) as u64) as usize);
        chosen.map(|conn| self.io.slow_conns.insert(*conn, by)).is_some()
    }

    /// All connections are as fast as their links.
    pub fn hasten_connections(&mut self) {
        self.io.slow_conns.clear();
    }

    pub fn hasten(&mut self, from: NodeId, to: NodeId) {
        self.io.delayed.remove(&(from.0, to.0));
    }

    /// Ends the additional delays of all links.
    pub fn hasten_all(&mut self) {
        self.io.delayed.clear();
    }

    /// Ends random resets of connections and losses of segments.
    pub fn calm(&mut self) {
        (self.io.config.reset_one_in, self.io.config.loss_one_in) = (0, 0);
    }

    /// Gives the process of a node no turn before `until`, as if it had been stopped. Its machine goes on: it takes
    /// segments in and carries out disk requests.
    pub fn pause(&mut self, node: NodeId, until: Duration) {
        let state = &mut self.io.nodes[node.0];
        state.paused_until = state.paused_until.max(until);
    }

    /// A machine stands still until a time: its process, its network, its disks.
    pub fn sleep(&mut self, node: NodeId, until: Duration, sleep: Sleep) {
        let now = self.io.clock;
        let state = &mut self.io.nodes[node.0];
        if until <= now.max(state.asleep_until) {
            return;
        }
        let gone = until - now.max(state.asleep_until);
        (state.asleep_until, state.paused_until) = (until, state.paused_until.max(until));
        if sleep == Sleep::Counted && !mutant::is(mutant::Mutant::SleepUncounted) {
            return;
        }
        state.clock = state.clock.standing(now, until);
        self.timers_anew(node);
        if sleep == Sleep::Unnoticed {
            self.io.nodes[node.0].wall_behind += gone;
        }
    }

    /// A wall clock that did not count a pause is set right.
    pub fn set_wall_clock_right(&mut self, node: NodeId) {
        self.io.nodes[node.0].wall_behind = Duration::ZERO;
    }

    /// Flushes that somebody asked for of a file of which one had failed before.
    pub fn flushes_tried_again(&self) -> u64 {
        self.io.flushes_tried_again
    }

    /// Handlers of this node take time from now on, if the weather has [`super::Stalls`].
    pub fn take_time(&mut self, node: NodeId) {
        self.io.nodes[node.0].takes_time = self.io.config.stalls.is_some();
        self.refresh_now(node.0);
    }

    /// Handlers take no time any more.
    pub fn take_no_time(&mut self) {
        self.io.config.stalls = None;
    }

    /// Resets every connection between two nodes.
    pub fn sever(&mut self, a: NodeId, b: NodeId) {
        let between: Vec<ConnId> = self
            .io
            .endpoints
            .iter()
            .filter(|(_, endpoint)| {
                endpoint.node == a.0 && endpoint.peer_node == b.0 && endpoint.phase != Phase::Connecting
            })
            .map(|(conn, _)| *conn)
            .collect();
        between.into_iter().for_each(|conn| self.io.break_connection(conn));
    }

    /// Puts a node's wall clock ahead, or behind if `ms` is negative.
    pub fn skew_wall_clock(&mut self, node: NodeId, ms: i64) {
        self.io.nodes[node.0].wall_skew_ms = ms;
    }

    /// Makes a node's monotonic clock run faster (or slower) than the world's from now on, by so many parts per
    /// million.
    pub fn set_clock_rate(&mut self, node: NodeId, ahead_ppm: i64) {
        let now = self.io.clock;
        let state = &mut self.io.nodes[node.0];
        state.clock = state.clock.with_rate(now, ahead_ppm);
        self.timers_anew(node);
    }

    /// The first timer is due at another time of the world, as the clock has changed.
    fn timers_anew(&mut self, node: NodeId) {
        let state = &self.io.nodes[node.0];
        if let Some(first) = state.timers.first().filter(|_| state.running) {
            let (incarnation, at) = (state.incarnation, state.clock.when(first));
            self.io.schedule(at, Happening::TimerDue { node: node.0, incarnation });
        }
    }

    /// Removes all disks of a node that does not run.
    pub fn lose_disks(&mut self, node: NodeId) {
        assert!(!self.is_running(node), "{node:?} uses its disks");
        self.io.disks.retain(|(owner, _), _| *owner != node.0);
    }

    /// The disk behind a file that a node has opened at least once.
    pub fn disk(&mut self, node: NodeId, path: &Path) -> Option<&mut SimDisk> {
        self.io.disks.get_mut(&(node.0, path.to_owned()))
    }

    /// The disk behind a file that a node has opened at least once, for inspection.
    pub fn peek_disk(&self, node: NodeId, path: &Path) -> Option<&SimDisk> {
        self.io.disks.get(&(node.0, path.to_owned()))
    }

    /// Carries out the next event. False if there is none.
    pub fn step(&mut self) -> bool {
        let Some(((at, _), happening)) = self.io.happenings.pop_first() else { return false };
        self.io.clock = at;
        let nodes = &mut self.io.nodes;
        match happening {
            Happening::Turn { node, incarnation } => {
                let Node { paused_until, .. } = nodes[node];
                if nodes[node].running && nodes[node].incarnation == incarnation {
                    match paused_until > at {
                        true => self.io.schedule(paused_until, happening),
                        false if nodes[node].turn.is_some() => nodes[node].turn_waits = true,
                        false => self.begin_turn(node),
                    }
                }
            }
            Happening::TurnGoesOn { node, incarnation } => {
                let Node { paused_until, .. } = nodes[node];
                if nodes[node].running && nodes[node].incarnation == incarnation {
                    match paused_until > at {
                        true => self.io.schedule(paused_until, happening),
                        false => self.turn(node),
                    }
                }
            }
            Happening::TimerDue { node, incarnation } => {
                let state = &nodes[node];
                let due = state.timers.first().is_some_and(|first| state.clock.when(first) <= at);
                if state.running && state.incarnation == incarnation && due {
                    self.io.wake(node);
                }
            }
            Happening::Syn { conn, since } => self.io.syn(conn, since),
            Happening::Arrival { conn } => self.io.arrive(conn),
            Happening::Orphan { conn, since } => self.io.orphan_tries(conn, since),
            Happening::Linger { conn } => self.io.end(conn, "closed by this side; the peer did not end in time"),
            Happening::DiskDone { node, incarnation, request } => {
                let Node { asleep_until, .. } = nodes[node];
                if nodes[node].running && nodes[node].incarnation == incarnation {
                    match asleep_until > at {
                        true => self.io.schedule(asleep_until, happening),
                        false => self.io.disk_done(node, request),
                    }
                }
            }
        }
        true
    }

    /// Carries out all events up to `at`, and sets the time to `at`.
    pub fn run_until(&mut self, at: Duration) {
        while self.io.happenings.first_key_value().is_some_and(|((next, _), _)| *next <= at) {
            self.step();
        }
        self.io.clock = self.io.clock.max(at);
    }

    pub fn run_for(&mut self, time: Duration) {
        self.run_until(self.io.clock + time);
    }

    /// Runs until `done`, but no longer than `time`. Returns the last result of `done`.
    pub fn run_until_done(&mut self, time: Duration, mut done: impl FnMut(&World<H>) -> bool) -> bool {
        let end = self.io.clock + time;
        while !done(self) {
            if self.io.happenings.first_key_value().is_none_or(|((next, _), _)| *next > end) {
                self.io.clock = end;
                return false;
            }
            self.step();
        }
        true
    }

    /// The loop's time of a node is what its clock shows.
    fn refresh_now(&mut self, node: usize) {
        let clock = self.io.clock;
        let state = &mut self.io.nodes[node];
        state.now = state.clock.at(clock);
    }

    fn begin_turn(&mut self, node: usize) {
        let state = &mut self.io.nodes[node];
        state.turn_scheduled = false;
        state.stats.turns += 1;
        state.stats.enters += 1;
        state.turn = Some(Turn::HandsOver(state.inbox.len()));
        self.refresh_now(node);
        self.turn(node);
    }

    /// A turn goes on until it ends, or a step of it takes long.
    fn turn(&mut self, node: usize) {
        self.io.current = node;
        while let Some(step) = self.io.nodes[node].turn {
            if step != Turn::Leaves
                && let Some(by) = self.io.stall(node)
            {
                return self.turn_stands(node, by);
            }
            let next = match step {
                Turn::HandsOver(0) => {
                    self.io.may_spend(node);
                    self.fire_timers(node);
                    Some(Turn::Ends)
                }
                Turn::HandsOver(left) => {
                    // All that is handed over now has come by now.
                    if !mutant::is(mutant::Mutant::StaleTurnTime) {
                        self.refresh_now(node);
                    }
                    self.io.may_spend(node);
                    self.hand_over(node);
                    Some(Turn::HandsOver(left - 1))
                }
                Turn::Ends => {
                    self.io.may_spend(node);
                    self.handlers[node].as_mut().expect("a running node has a handler").turn_end(&mut self.io);
                    Some(Turn::Leaves)
                }
                Turn::Leaves => None,
            };
            self.io.nodes[node].turn = next;
            let spent = self.io.spending.take();
            if !spent.is_zero() {
                return self.turn_stands(node, spent);
            }
        }
        self.after_handler(node);
        let clock = self.io.clock;
        let state = &mut self.io.nodes[node];
        if !state.takes_time || !state.running {
            return;
        }
        if std::mem::take(&mut state.turn_waits) {
            let turn = Happening::Turn { node, incarnation: state.incarnation };
            self.io.schedule(clock + Duration::from_nanos(1), turn);
        } else if state.timers.first().is_some_and(|first| state.clock.when(first) <= clock) {
            // Its time came during the turn, which went by the time before.
            self.io.wake(node);
        }
    }

    fn turn_stands(&mut self, node: usize, by: Duration) {
        let goes_on = Happening::TurnGoesOn { node, incarnation: self.io.nodes[node].incarnation };
        self.io.schedule(self.io.clock + by, goes_on);
    }

    fn hand_over(&mut self, node: usize) {
        match self.io.nodes[node].inbox.pop_front() {
            Some(Inbox::Event(event)) => self.completed(node, event),
            Some(Inbox::FlushFailed { file, event }) => {
                // From now on the handler knows. What it asks for in a turn that began before, it asks unknowingly.
                if let Some(open) = &mut self.io.nodes[node].files[file.0 as usize] {
                    open.flush_failed = true;
                }
                self.completed(node, event);
            }
            Some(Inbox::Readable(conn)) => self.deliver(conn),
            Some(Inbox::Sent(conn)) => {
                if let Some(endpoint) = self.io.endpoints.get(&conn).filter(|endpoint| endpoint.phase == Phase::Open) {
                    let queued_bytes = endpoint.queued_bytes;
                    self.event(Event::Sent { conn, queued_bytes });
                }
            }
            None => {}
        }
    }

    fn completed(&mut self, node: usize, event: Event) {
        self.io.nodes[node].stats.completions += 1;
        self.event(event);
    }

    fn fire_timers(&mut self, node: usize) {
        let mut due = Vec::new();
        let state = &self.io.nodes[node];
        let now = if state.takes_time { state.now } else { state.clock.at(self.io.clock) };
        state.timers.due(now, &mut due);
        for (at, token) in due {
            if self.io.nodes[node].timers.take(at, token) {
                self.event(Event::Timer { token });
            }
        }
    }

    fn event(&mut self, event: Event) {
        let node = self.io.current;
        self.io.note(node as u64);
        self.io.note(self.io.clock.as_nanos() as u64);
        self.io.note(match &event {
            Event::Accepted { conn, .. } => conn.0 << 8 | 1,
            Event::Connected { conn, result } => conn.0 << 8 | 2 | u64::from(result.is_ok()) << 4,
            Event::BulkReceived { conn, buf } => conn.0 << 8 | 3 | (buf.len() as u64) << 32,
            Event::Sent { conn, .. } => conn.0 << 8 | 4,
            Event::Closed { conn, .. } => conn.0 << 8 | 5,
            Event::Disk { io, result } => io << 8 | 6 | u64::from(result.is_ok()) << 4,
            Event::Timer { token } => token << 8 | 7,
            Event::Woken => 8,
        });
        tracing::trace!(node, at = ?self.io.clock, ?event, "simulated event");
        self.handlers[node].as_mut().expect("a running node has a handler").event(&mut self.io, event);
    }

    /// Sends queued bytes, or ends the process if it has stopped.
    fn after_handler(&mut self, node: usize) {
        self.io.nodes[node].heeds_sent = self.handlers[node].as_ref().is_none_or(|handler| handler.heeds_sent());
        for conn in std::mem::take(&mut self.io.nodes[node].dirty) {
            self.io.pump(conn);
        }
        if self.io.nodes[node].stopped {
            self.end_process(node, false, true);
        }
    }

    /// Gives the handler the bytes that have arrived, as far as it takes them, by the rules of the real loop.
    fn deliver(&mut self, conn: ConnId) {
        let node = self.io.current;
        loop {
            let Some(endpoint) = self.io.endpoints.get_mut(&conn) else { return };
            if endpoint.phase != Phase::Open || endpoint.paused {
                return;
            }
            let Some(mut segment) = endpoint.inbound.pop_front() else { break };
            self.io.nodes[node].stats.bytes_received += if endpoint.bulk.is_some() { 0 } else { segment.len() as u64 };
            if let Some(bulk) = &mut endpoint.bulk {
                let head = segment.split_to(segment.len().min(bulk.buf.len() - bulk.filled));
                bulk.buf.as_mut_slice()[bulk.filled..][..head.len()].copy_from_slice(&head);
                bulk.filled += head.len();
                put_back(&mut endpoint.inbound, segment);
                let full = endpoint.bulk.take_if(|bulk| bulk.is_full());
                self.io.credit(conn, head.len());
                if let Some(full) = full {
                    self.event(Event::BulkReceived { conn, buf: full.buf });
                }
                continue;
            }
            self.io.note(conn.0 << 32 | segment.len() as u64);
            let handler = self.handlers[node].as_mut().expect("a running node has a handler");
            let taken = handler.received(&mut self.io, conn, &segment);
            assert!(taken <= segment.len(), "handler took {taken} of {} bytes of {conn:?}", segment.len());
            let len = segment.len();
            drop(segment.split_to(taken));
            // A connection that is being closed or aborted drops the rest.
            let mut reason = true;
            let mut credit = len;
            if let Some(endpoint) = self.io.endpoints.get_mut(&conn).filter(|endpoint| endpoint.phase == Phase::Open) {
                put_back(&mut endpoint.inbound, segment);
                credit = taken;
                reason = endpoint.paused || endpoint.bulk.is_some();
            }
            assert!(taken > 0 || reason, "handler took nothing of {len} bytes of {conn:?}, without a reason");
            self.io.credit(conn, credit);
        }
        if self.io.endpoints.get(&conn).is_some_and(|endpoint| endpoint.peer_ended) {
            self.io.end(conn, "closed by the peer");
        }
    }
}

fn put_back(inbound: &mut std::collections::VecDeque<Bytes>, rest: Bytes) {
    if !rest.is_empty() {
        inbound.push_front(rest);
    }
}
