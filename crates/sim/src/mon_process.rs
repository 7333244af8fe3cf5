//! A monitor as a process of the simulated world: its core, a messenger, and a log.

use crate::mon_log::MonLog;
use crate::port::Port;
use mon::monitor::{Action, Input, Now};
use mon::{MonState, Monitor};
use reactor::sim::{Rng, SimIo};
use reactor::{Event, Handler, Io};
use std::net::SocketAddr;
use std::time::Duration;
use wire::EntityAddrVec;
use wire::msgr::{Config, Messenger, Output};

const WAKE: u64 = 1;
const LOG_DONE: u64 = 2;

/// How long one append takes.
const APPEND_MS_MAX: u64 = 8;

/// One start of the monitor.
pub struct MonProcess {
    monitor: Monitor,
    port: Port,
    log: MonLog,
    actions: Vec<Action>,
}

impl MonProcess {
    /// Starts a monitor called `name` on what `log` holds. Panics if that cannot be read: nobody damages it.
    pub fn start(io: &mut SimIo, name: &str, addr: SocketAddr, mut log: MonLog) -> MonProcess {
        let state: MonState = mon::daemon::load(&mut log).expect("the monitor reads what it has written");
        io.listen(addr).expect("the monitor's address is free");
        let mut random = Rng::new(io.random());
        let entropy = Box::new(move || {
            let mut bytes = [0; 32];
            random.fill(&mut bytes);
            bytes
        });
        let config =
            Config { bulk_min_bytes: None, ..Config::mon(0, name, EntityAddrVec::msgr2(addr, 0), io.random()) };
        let mut process = MonProcess {
            monitor: Monitor::new(name, state, entropy),
            port: Port::new(Messenger::new(config)),
            log,
            actions: Vec::new(),
        };
        process.monitor.start(now(io), &mut process.actions);
        process.settle(io);
        process
    }

    pub fn monitor(&self) -> &Monitor {
        &self.monitor
    }

    /// What outlives the process.
    pub fn into_log(self, rng: &mut Rng) -> MonLog {
        self.log.crash(rng)
    }

    fn input(&mut self, io: &SimIo, input: Input) {
        self.monitor.handle(now(io), input, &mut self.actions);
    }

    /// Hands outputs around until nothing is left to do.
    fn settle(&mut self, io: &mut SimIo) {
        loop {
            for action in std::mem::take(&mut self.actions) {
                self.perform(io, action);
            }
            if self.port.messenger.global_ids_left() < Monitor::GLOBAL_IDS_LOW {
                let left = self.port.messenger.global_ids_left();
                self.input(io, Input::GlobalIdsLeft(left));
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
                    Output::Connect { .. } | Output::Transmit { .. } | Output::Close { .. } => {}
                }
            }
            if self.actions.is_empty() {
                break;
            }
        }
        let wakes = [Some(self.monitor.next_wake()), self.port.messenger.next_wake()];
        if let Some(at) = wakes.into_iter().flatten().min() {
            io.set_timer(at.max(io.now() + Duration::from_millis(1)), WAKE);
        }
    }

    fn perform(&mut self, io: &mut SimIo, action: Action) {
        let was_writing = self.log.is_writing();
        match action {
            Action::Send { session, envelope } => self.port.messenger.send(session, envelope),
            Action::Close { session } => self.port.messenger.close(session),
            Action::Append { index, batch } => self.log.begin_append(index, batch),
            Action::Snapshot { index, state } => self.log.begin_snapshot(index, state),
            Action::GlobalIds(ids) => self.port.messenger.set_global_ids(ids),
        }
        if !was_writing && self.log.is_writing() {
            write_next(io);
        }
    }
}

fn now(io: &SimIo) -> Now {
    Now { since_start: io.now(), wall: io.wall_clock() }
}

fn write_next(io: &mut SimIo) {
    let takes = Duration::from_micros(200 + io.random() % (APPEND_MS_MAX * 1000));
    io.set_timer(io.now() + takes, LOG_DONE);
}

impl Handler<SimIo> for MonProcess {
    fn received(&mut self, io: &mut SimIo, conn: reactor::ConnId, bytes: &[u8]) -> usize {
        self.port.received(io, conn, bytes)
    }

    fn event(&mut self, io: &mut SimIo, event: Event) {
        match event {
            Event::Accepted { conn, peer, .. } => self.port.accepted(io, conn, peer),
            Event::Connected { conn, result } => self.port.connected(io, conn, result),
            Event::Closed { conn, cause } => self.port.closed(io, conn, &cause),
            Event::Timer { token: LOG_DONE } => {
                let durable = self.log.finish_first();
                if self.log.is_writing() {
                    write_next(io);
                }
                if let Some(index) = durable {
                    self.input(io, Input::Committed { index });
                }
            }
            Event::Timer { .. } => {
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
