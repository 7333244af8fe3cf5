//! Servers, links and time.

use super::checks::Checks;
use super::disk::Disk;
use super::machine::{Machine, hash};
use super::rng::Rng;
use super::{EVENTS_MAX, Outcome};
use crate::{Action, Config, Event, Membership, Message, Raft, ReadId, ServerId, Snapshot, Stored, Ticket};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub const MS: u64 = 1_000_000;

/// A future event of the simulation.
#[derive(Debug)]
pub enum Coming {
    Message {
        from: ServerId,
        to: ServerId,
        message: Message,
    },
    Written {
        server: ServerId,
        start: u64,
        ticket: Ticket,
    },
    Wake {
        server: ServerId,
        start: u64,
    },
    Restart(ServerId),
    /// The servers that voted for this new leader crash, and it is cut off.
    Usurp(ServerId),
    /// The second half of an attack on this leader's lease, with this voter.
    Attack(ServerId, ServerId),
    Clients,
    Operator,
    Fault,
}

/// A machine with a disk and a clock, and the process on it.
pub struct Server {
    pub disk: Disk,
    pub process: Option<Process>,
    /// Nanoseconds of its clock in a second.
    pub clock_rate: u64,
    /// Factor by which its disk is slower.
    pub slowness: u64,
    /// Time until which its process does not run.
    pub paused_until: u64,
}

pub struct Process {
    pub raft: Raft,
    pub machine: Machine,
    /// Number of the process's start.
    pub start: u64,
    started_at: u64,
    clock_base: u64,
    wake_at: u64,
}

impl Process {
    fn clock(&self, rate: u64, at: u64) -> Duration {
        let passed = u128::from(at - self.started_at) * u128::from(rate) / 1_000_000_000;
        Duration::from_nanos(self.clock_base + passed as u64)
    }

    fn when(&self, rate: u64, clock: Duration) -> u64 {
        let passed = clock.as_nanos().saturating_sub(u128::from(self.clock_base)) * 1_000_000_000 / u128::from(rate);
        self.started_at + passed as u64 + 1
    }
}

pub struct World {
    pub rng: Rng,
    pub now: u64,
    coming: BTreeMap<(u64, u64), Coming>,
    counter: u64,
    pub servers: BTreeMap<ServerId, Server>,
    /// Links, from one server to another, on which messages are lost.
    pub cut: BTreeSet<(ServerId, ServerId)>,
    pub loss_percent: u64,
    pub delay_max: u64,
    pub checks: Checks,
    pub outcome: Outcome,
    pub is_calm: bool,
    pub voters_wanted: u64,
    pub focus: Focus,
    next_server: u64,
    next_value: u64,
    next_read: u64,
    shows: bool,
}

/// The kind of trouble in which a run concentrates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Focus {
    Everything,
    /// Leaders that are cut off and still asked, with clocks that differ much.
    Leases,
    /// New leaders that are cut off at once, while the servers that voted for them crash.
    Elections,
}

fn config(focus: Focus) -> Config {
    Config {
        election_timeout: Duration::from_millis(50),
        heartbeat: Duration::from_millis(12),
        clock_error_ppm: if focus == Focus::Leases { 200_000 } else { 50_000 },
        unnoticed_stand: Duration::ZERO,
        message_bytes_max: 400,
        messages_in_flight_max: 4,
        waiting_bytes_max: 6000,
        proposal_bytes_max: 100,
        kept_bytes: 500,
        chunk_bytes: 32,
        snapshot_bytes_max: 1000,
        reads_max: 50,
    }
}

impl World {
    pub fn new(seed: u64) -> World {
        let mut rng = Rng::new(seed);
        let focus = [Focus::Everything, Focus::Everything, Focus::Leases, Focus::Elections][(seed % 4) as usize];
        let count = match focus {
            Focus::Everything => [3, 3, 3, 5, 5, 1, 2, 4][rng.below(8) as usize],
            Focus::Leases | Focus::Elections => 3,
        };
        let mut world = World {
            rng,
            now: 0,
            coming: BTreeMap::new(),
            counter: 0,
            servers: BTreeMap::new(),
            cut: BTreeSet::new(),
            loss_percent: 0,
            delay_max: 3 * MS,
            checks: Checks::default(),
            outcome: Outcome::default(),
            is_calm: false,
            voters_wanted: count,
            focus,
            next_server: count + 1,
            next_value: 0,
            next_read: 0,
            shows: std::env::var_os("RAFT_TRACE").is_some(),
        };
        let first = Machine { applied: 1, hash: 0 };
        let snapshot = Snapshot::first(Membership::of_voters((1..=count).map(ServerId)), first.snapshot());
        world.checks.begin(&snapshot, first);
        for id in 1..=count {
            world.add_server(ServerId(id), Stored::first(snapshot.clone()));
        }
        world.at(2 * MS, Coming::Clients);
        world.at(60 * MS, Coming::Operator);
        world.at(100 * MS, Coming::Fault);
        world
    }

    pub fn outcome(&self) -> Outcome {
        Outcome { decided: self.checks.decided(), elections: self.checks.elections(), ..self.outcome }
    }

    fn add_server(&mut self, id: ServerId, stored: Stored) {
        // Rates of any two clocks differ by at most the configured error.
        let clock_rate = match self.focus {
            Focus::Leases => [910_000_000, 1_000_000_000, 1_090_000_000][self.rng.below(3) as usize],
            _ => self.rng.between(976_000_000, 1_024_000_000),
        };
        let disk = Disk::new(stored);
        self.servers.insert(id, Server { disk, process: None, clock_rate, slowness: 1, paused_until: 0 });
        self.start(id);
    }

    /// Adds a server with an empty disk.
    pub fn new_server(&mut self) -> ServerId {
        let id = ServerId(self.next_server);
        self.next_server += 1;
        self.add_server(id, Stored::default());
        id
    }

    pub fn at(&mut self, at: u64, what: Coming) {
        self.counter += 1;
        self.coming.insert((at.max(self.now), self.counter), what);
    }

    pub fn note(&mut self, what: impl FnOnce() -> String) {
        if self.shows {
            println!("{:>12.3} ms {}", self.now as f64 / 1e6, what());
        }
    }

    pub fn start(&mut self, id: ServerId) {
        self.counter += 1;
        let (start, seed, clock_base) = (self.counter, self.rng.next(), self.rng.below(1 << 40));
        let Some(server) = self.servers.get_mut(&id).filter(|server| server.process.is_none()) else { return };
        let stored = server.disk.stored.clone();
        let machine = match &stored.snapshot {
            Some(snapshot) => Machine::from_snapshot(&snapshot.data).expect("a snapshot on a disk is whole"),
            None => Machine::default(),
        };
        let raft = Raft::new(id, config(self.focus), stored, seed, Duration::from_nanos(clock_base))
            .expect("a disk keeps its order");
        server.process = Some(Process { raft, machine, start, started_at: self.now, clock_base, wake_at: u64::MAX });
        self.note(|| format!("{id} starts"));
        // An error can come of events only.
        self.drive(id, |_, _| ()).expect("a start decides nothing");
    }

    /// Ends the process; writes under way may be lost.
    pub fn crash(&mut self, id: ServerId) {
        if let Some(server) = self.servers.get_mut(&id).filter(|server| server.process.is_some()) {
            server.process = None;
            server.paused_until = 0;
            server.disk.crash(&mut self.rng);
            self.outcome.crashes += 1;
            self.note(|| format!("{id} crashes"));
        }
    }

    /// Returns the servers that have a process.
    pub fn running(&self) -> Vec<ServerId> {
        self.servers.iter().filter(|(_, server)| server.process.is_some()).map(|(id, _)| *id).collect()
    }

    pub fn raft(&self, id: ServerId) -> Option<&Raft> {
        self.servers.get(&id)?.process.as_ref().map(|process| &process.raft)
    }

    /// Runs until `until`; meanwhile clients, operators and faults come by themselves.
    pub fn run_until(&mut self, until: u64) -> Result<(), String> {
        while let Some((&(at, _), _)) = self.coming.first_key_value() {
            if at > until {
                break;
            }
            let (_, what) = self.coming.pop_first().expect("there is a first one");
            self.now = at;
            self.outcome.events += 1;
            if self.outcome.events > EVENTS_MAX {
                return Err("the run does not end".to_owned());
            }
            self.happen(what)?;
        }
        self.now = until;
        Ok(())
    }

    fn happen(&mut self, what: Coming) -> Result<(), String> {
        match what {
            Coming::Message { from, to, message } => {
                if let Some(at) = self.paused_until(to) {
                    self.at(at, Coming::Message { from, to, message });
                    return Ok(());
                }
                self.outcome.trace = hash(self.outcome.trace, &self.now.to_le_bytes());
                self.drive(to, |raft, now| raft.handle(now, Event::Message { from, message }))
            }
            Coming::Written { server: id, start, ticket } => {
                if !self.runs(id, start) {
                    return Ok(());
                }
                if let Some(at) = self.paused_until(id) {
                    self.at(at, Coming::Written { server: id, start, ticket });
                    return Ok(());
                }
                self.servers.get_mut(&id).expect("it runs").disk.done(ticket);
                self.drive(id, |raft, now| raft.handle(now, Event::Persisted(ticket)))
            }
            Coming::Wake { server: id, start } => {
                if !self.runs(id, start) {
                    return Ok(());
                }
                if let Some(at) = self.paused_until(id) {
                    self.at(at, Coming::Wake { server: id, start });
                    return Ok(());
                }
                self.process(id).expect("it runs").wake_at = u64::MAX;
                self.drive(id, |raft, now| {
                    if raft.next_wake().is_some_and(|at| at <= now) {
                        raft.handle(now, Event::Tick);
                    }
                })
            }
            Coming::Restart(id) => {
                self.start(id);
                Ok(())
            }
            Coming::Usurp(id) => {
                self.usurp(id);
                Ok(())
            }
            Coming::Attack(leader, voter) => {
                self.attack(leader, voter);
                Ok(())
            }
            Coming::Clients => {
                let often = if self.focus == Focus::Leases { 3 * MS } else { 9 * MS };
                let next = self.now + self.rng.between(MS / 2, often);
                self.at(next, Coming::Clients);
                self.clients()
            }
            Coming::Operator => {
                let next = self.now + self.rng.between(5 * MS, 80 * MS);
                self.at(next, Coming::Operator);
                self.operate()
            }
            Coming::Fault => {
                if !self.is_calm {
                    let next = self.now + self.rng.between(5 * MS, 90 * MS);
                    self.at(next, Coming::Fault);
                    self.fail();
                }
                Ok(())
            }
        }
    }

    /// Returns the time until which this server's process does not run, if it does not.
    pub fn paused_until(&self, id: ServerId) -> Option<u64> {
        let server = self.servers.get(&id).filter(|server| server.process.is_some())?;
        (self.now < server.paused_until).then_some(server.paused_until)
    }

    fn runs(&self, id: ServerId, start: u64) -> bool {
        self.servers.get(&id).and_then(|server| server.process.as_ref()).is_some_and(|process| process.start == start)
    }

    fn process(&mut self, id: ServerId) -> Option<&mut Process> {
        self.servers.get_mut(&id)?.process.as_mut()
    }

    /// Has a server do something, and carries out the resulting actions.
    pub fn drive(&mut self, id: ServerId, f: impl FnOnce(&mut Raft, Duration)) -> Result<(), String> {
        let now = self.now;
        let Some(server) = self.servers.get_mut(&id) else { return Ok(()) };
        let Some(process) = &mut server.process else { return Ok(()) };
        let clock = process.clock(server.clock_rate, now);
        f(&mut process.raft, clock);
        let mut actions = Vec::new();
        process.raft.poll(clock, &mut actions);
        for action in actions {
            self.perform(id, action)?;
        }
        let server = self.servers.get_mut(&id).expect("it is still there");
        let Some(process) = &mut server.process else { return Ok(()) };
        self.checks.server(&process.raft, &server.disk)?;
        if let Some(wake) = process.raft.next_wake() {
            let at = process.when(server.clock_rate, wake).max(now + 1000);
            if at < process.wake_at {
                process.wake_at = at;
                let start = process.start;
                self.at(at, Coming::Wake { server: id, start });
            }
        }
        // The state machine takes snapshots when the log grows.
        let process = self.process(id).expect("it is still there");
        if process.raft.log_bytes() > 1500 && process.machine.applied > 0 {
            let (index, data) = (process.machine.applied, process.machine.snapshot());
            process.raft.snapshot_taken(index, data);
        }
        Ok(())
    }

    fn perform(&mut self, id: ServerId, action: Action) -> Result<(), String> {
        match action {
            Action::Send { to, message } => {
                self.note(|| format!("{id} to {to}: {message:?}"));
                self.send(id, to, message);
            }
            Action::Persist { ticket, write } => {
                let server = self.servers.get_mut(&id).expect("it acts");
                let takes = (20_000 + self.rng.below(2 * MS)) * server.slowness;
                // Writes that wait share a flush.
                let done = (server.disk.busy_until.max(self.now) + takes).min(self.now + 80 * MS);
                let done = done.max(server.disk.busy_until);
                server.disk.busy_until = done;
                let start = server.process.as_ref().expect("it acts").start;
                server.disk.submit(ticket, write);
                // Some writes are reported late, so that several are reported as one.
                if !self.rng.percent(20) {
                    self.at(done, Coming::Written { server: id, start, ticket });
                } else {
                    self.at(done + 3 * MS, Coming::Written { server: id, start, ticket });
                }
            }
            Action::Install(snapshot) => {
                self.note(|| format!("{id} installs {}", snapshot.last));
                self.outcome.installs += 1;
                let machine = Machine::from_snapshot(&snapshot.data)?;
                self.checks.installs(id, &snapshot, machine)?;
                self.process(id).expect("it acts").machine = machine;
            }
            Action::Apply(entries) => {
                for entry in entries {
                    let server = self.servers.get_mut(&id).expect("it acts");
                    let process = server.process.as_mut().expect("it acts");
                    process.machine.apply(&entry);
                    self.outcome.trace = hash(self.outcome.trace, &process.machine.hash.to_le_bytes());
                    self.checks.applies(id, &entry, process.machine, &server.disk)?;
                }
            }
            Action::ReadReady(read) => {
                self.outcome.reads += 1;
                let machine = self.process(id).expect("it acts").machine;
                self.checks.answers(id, read, machine)?;
            }
            Action::ReadFailed(read) => self.checks.fails(read),
            Action::Leadership { term, leader } => {
                self.note(|| format!("{id}: term {term}, leader {leader:?}"));
                if leader == Some(id) && self.focus == Focus::Elections && !self.is_calm && self.rng.percent(30) {
                    // A server cannot be crashed from inside its step; it is right after it.
                    self.at(self.now, Coming::Usurp(id));
                }
            }
        }
        Ok(())
    }

    fn send(&mut self, from: ServerId, to: ServerId, message: Message) {
        let copies = if self.rng.percent(2) { 2 } else { 1 };
        for _ in 0..copies {
            if self.cut.contains(&(from, to)) || self.rng.percent(self.loss_percent) {
                continue;
            }
            let mut delay = 30_000 + self.rng.below(self.delay_max);
            if !self.is_calm && self.rng.below(300) == 0 {
                delay += self.rng.below(400 * MS);
            }
            let at = self.now + delay;
            self.at(at, Coming::Message { from, to, message: message.clone() });
        }
    }

    /// Has clients ask every server that says that it leads, also former leaders.
    fn clients(&mut self) -> Result<(), String> {
        for id in self.running() {
            if self.paused_until(id).is_some() || !self.raft(id).is_some_and(Raft::is_leader) {
                continue;
            }
            let (value, reads) = (self.next_value, self.rng.percent(60));
            self.next_value += 1;
            self.next_read += 1;
            let read = ReadId(self.next_read);
            let proposals = match self.focus {
                Focus::Leases if !self.is_calm => u64::from(self.rng.percent(4)),
                _ => self.rng.below(4),
            };
            let mut is_waiting = false;
            if reads {
                self.checks.asks(read);
            }
            self.drive(id, |raft, now| {
                is_waiting = reads && raft.read(now, read);
                for copy in 0..proposals {
                    let _ = raft.propose(format!("{value}.{copy}").into());
                }
            })?;
            if reads && !is_waiting {
                self.checks.fails(read);
            }
        }
        Ok(())
    }
}
