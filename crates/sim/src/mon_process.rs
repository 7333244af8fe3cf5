//! A monitor as a process of the simulated world: its core, a messenger, and a log.

use crate::mon_log::MonLog;
use crate::port::{Answers, Port};
use crate::witness::{Looked, Witness};
use auth::{ClientPolicy, Key, ServerPolicy};
use mon::MonState;
use mon::handshakes::{Door, Handshakes, Proofs};
use mon::member::{Action, Input, Member, MemberConfig, raft_config};
use mon::monitor::Now;
use reactor::sim::{Rng, SimIo};
use reactor::{Event, Handler, Io};
use std::net::SocketAddr;
use std::time::Duration;
use types::EntityName;
use wire::msgr::{Config, Messenger, Output, Policy};
use wire::{Decode, EntityAddrVec};

const WAKE: u64 = 1;
const LOG_DONE: u64 = 2;

/// The longest time of one write, in milliseconds.
const WRITE_MS_MAX: u64 = 8;

/// One run of a monitor's process.
pub struct MonProcess {
    member: Member,
    port: Port,
    /// `None`: nobody proves anything.
    handshakes: Option<Handshakes>,
    log: MonLog,
    actions: Vec<Action>,
    /// Each write takes this many times as long.
    slowness: u32,
    wakes_at: Option<Duration>,
    witness: Witness,
    looked: Looked,
    /// The reason why the monitor has ended by itself.
    stopped: Option<String>,
}

impl MonProcess {
    /// Starts a monitor with the content of `log`. Panics if that cannot be read, because nobody damages it. `peers`:
    /// addresses of the others, for a monitor that has to join. `keys`: those that monitors share, where all prove who
    /// they are.
    pub fn start(
        io: &mut SimIo,
        addr: SocketAddr,
        log: MonLog,
        (peers, keys): (&[EntityAddrVec], Option<Vec<Key>>),
        witness: Witness,
    ) -> MonProcess {
        let loaded = log.load();
        let state = loaded.stored.snapshot.as_ref().map(|snapshot| MonState::from_slice(&snapshot.data));
        let state = state.map(|state| state.expect("the monitor reads what it has written"));
        let rank = state.and_then(|state| state.monmap.rank(&loaded.identity.name)).map_or(-1, |rank| rank as i64);
        io.listen(addr).expect("the monitor's address is free");
        let mut random = Rng::new(io.random());
        let entropy = Box::new(move || {
            let mut bytes = [0; 32];
            random.fill(&mut bytes);
            bytes
        });
        let addrs = EntityAddrVec::msgr2(addr, 0);
        let name = loaded.identity.name.clone();
        let config = Config { bulk_min_bytes: None, ..Config::mon(rank, &name, addrs.clone(), io.random()) };
        let member = MemberConfig {
            addrs,
            peers: peers.to_vec(),
            manager_addrs: EntityAddrVec::default(),
            metadata: [("hostname".to_owned(), name)].into(),
            seed: io.random(),
            raft: raft_config(),
        };
        let mut member = Member::new(loaded, member, entropy, now(io)).expect("the monitor reads what it has written");
        let answers = if keys.is_some() { Answers::ByOwner } else { Answers::Unproven };
        let handshakes = keys.map(|keys| {
            let keyring = if log.keyring.is_empty() { keys } else { log.keyring.clone() };
            let key = member.monitor_mut().set_auth_policy(ServerPolicy::cephx(), &keyring);
            let mut random = Rng::new(io.random());
            let entropy = Box::new(move || {
                let mut bytes = [0; 32];
                random.fill(&mut bytes);
                bytes
            });
            Handshakes::new(Proofs { connect: ClientPolicy::cephx(), key, entropy })
        });
        let mut process = MonProcess {
            member,
            port: Port::new(Messenger::new(config), answers),
            handshakes,
            log,
            actions: Vec::new(),
            slowness: 1,
            wakes_at: None,
            witness,
            looked: Looked::default(),
            stopped: None,
        };
        process.settle(io);
        process
    }

    pub fn member(&self) -> &Member {
        &self.member
    }

    /// The reason why the monitor has ended by itself, if it has.
    pub fn stopped(&self) -> Option<&str> {
        self.stopped.as_deref()
    }

    /// Has each write take `times` times as long from now on.
    pub fn slow_disk(&mut self, times: u32) {
        self.slowness = times;
    }

    /// The log, which outlives the process.
    pub fn into_log(self, rng: &mut Rng) -> MonLog {
        self.witness.ended(self.member.identity().server);
        self.log.crash(rng)
    }

    fn input(&mut self, io: &SimIo, input: Input) {
        if self.stopped.is_none() {
            let now = now(io);
            self.member.handle(now, input, &mut self.actions);
            self.witness.member(&self.member, &mut self.looked, now.since_start, io.world_time());
        }
    }

    /// Hands outputs around until none is left.
    fn settle(&mut self, io: &mut SimIo) {
        loop {
            for action in std::mem::take(&mut self.actions) {
                self.perform(io, action);
            }
            let left = match self.handshakes {
                Some(_) => self.member.monitor().global_ids_left(),
                None => self.port.messenger.global_ids_left(),
            };
            if left < Member::GLOBAL_IDS_LOW {
                self.input(io, Input::GlobalIdsLeft(left));
            }
            if let Some(handshakes) = &mut self.handshakes {
                let monitor = self.member.monitor_mut();
                handshakes.answer_those_that_wait(now(io), monitor, &mut self.port.messenger);
            }
            while let Some(output) = self.port.poll(io) {
                match output {
                    Output::Opened { session, peer } => self.input(io, Input::Opened { session, peer }),
                    Output::Message { session, envelope, .. } => self.input(io, Input::Message { session, envelope }),
                    Output::Reset { session, reason } => {
                        tracing::debug!("{reason}");
                        self.input(io, Input::Closed { session });
                    }
                    Output::Refused { reason, .. } | Output::Faulted { reason, .. } => tracing::debug!("{reason}"),
                    // The port has seen to the others.
                    _ => {}
                }
            }
            if self.actions.is_empty() {
                break;
            }
        }
        let wakes = [Some(self.member.next_wake()), self.port.messenger.next_wake()];
        if let Some(at) = wakes.into_iter().flatten().min() {
            // An event that is due stays due, however often others happen meanwhile.
            let at = at.max(io.now() + Duration::from_millis(1));
            if self.wakes_at.is_none_or(|wakes_at| at < wakes_at) {
                self.wakes_at = Some(at);
                io.set_timer(at, WAKE);
            }
        }
    }

    fn perform(&mut self, io: &mut SimIo, action: Action) {
        let was_writing = self.log.is_writing();
        match action {
            Action::Send { session, envelope } => self.port.messenger.send(session, envelope),
            Action::Close { session } => self.port.messenger.close(session),
            Action::Dial { addrs } => {
                let session = self.port.messenger.connect(EntityName::mon(-1), &addrs, Policy::MON_PEER, io.now());
                self.input(io, Input::Dialled { addrs, session });
            }
            Action::Persist { ticket, write } => self.log.begin(ticket, write),
            Action::Stop { reason } => self.stopped = Some(reason),
            Action::GlobalIds(ids) if self.handshakes.is_some() => self.member.monitor_mut().take_global_ids(ids),
            Action::SharedKeys(keys) => {
                if let Some(handshakes) = &mut self.handshakes {
                    handshakes.prove(keys[0].clone());
                }
                self.log.keyring = keys;
            }
            Action::GlobalIds(ids) => self.port.messenger.set_global_ids(ids),
        }
        if !was_writing && self.log.is_writing() {
            self.write_next(io);
        }
    }

    fn write_next(&self, io: &mut SimIo) {
        let takes = Duration::from_micros(200 + io.random() % (WRITE_MS_MAX * 1000)) * self.slowness;
        io.set_timer(io.now() + takes, LOG_DONE);
    }
}

fn now(io: &SimIo) -> Now {
    Now { since_start: io.clock(), wall: io.wall_clock() }
}

impl Handler<SimIo> for MonProcess {
    fn received(&mut self, io: &mut SimIo, conn: reactor::ConnId, bytes: &[u8]) -> usize {
        let taken = self.port.received(io, conn, bytes);
        if let Some(handshakes) = &mut self.handshakes {
            let monitor = self.member.monitor_mut();
            handshakes.answer_steps(now(io), monitor, &mut self.port.messenger, Door::Monitor);
        }
        taken
    }

    fn event(&mut self, io: &mut SimIo, event: Event) {
        match event {
            Event::Accepted { conn, peer, .. } => self.port.accepted(io, conn, peer),
            Event::Connected { conn, result } => self.port.connected(io, conn, result),
            Event::Closed { conn, cause } => self.port.closed(io, conn, &cause),
            Event::Timer { token: LOG_DONE } => {
                let durable = self.log.finish_first();
                if self.log.is_writing() {
                    self.write_next(io);
                }
                if let Some(ticket) = durable {
                    self.input(io, Input::Persisted(ticket));
                }
            }
            Event::Timer { .. } => {
                self.wakes_at = None;
                self.port.messenger.tick(io.now());
                self.input(io, Input::Tick);
            }
            _ => {}
        }
    }

    fn turn_end(&mut self, io: &mut SimIo) {
        self.settle(io);
    }
}
