//! A scenario: a handler that plays all parts on one shard, talks to itself, and stops when it has seen enough.

use reactor::sim::{SimIo, World, WorldConfig};
use reactor::{BackendKind, Config, ConnId, Event, Handler, Io, LoopIo, Reactor};
use std::time::Duration;

/// A [`Handler`] for any world, with a start.
pub trait Scenario {
    fn start<I: Io>(&mut self, io: &mut I);

    fn received<I: Io>(&mut self, _io: &mut I, conn: ConnId, bytes: &[u8]) -> usize {
        panic!("unexpected {} bytes on {conn:?}", bytes.len());
    }

    fn event<I: Io>(&mut self, io: &mut I, event: Event);

    fn turn_end<I: Io>(&mut self, _io: &mut I) {}

    /// Checks the state after the loop has ended.
    fn check(&mut self) {}
}

/// Number of simulated runs of each scenario.
const SEEDS: u64 = 8;

/// Timer that fails a scenario that does not end.
const WATCHDOG: u64 = u64::MAX;

pub struct Playing<S>(pub S);

impl<S: Scenario, I: Io> Handler<I> for Playing<S> {
    fn received(&mut self, io: &mut I, conn: ConnId, bytes: &[u8]) -> usize {
        self.0.received(io, conn, bytes)
    }

    fn event(&mut self, io: &mut I, event: Event) {
        match event {
            Event::Timer { token: WATCHDOG } => panic!("the scenario does not end"),
            event => self.0.event(io, event),
        }
    }

    fn turn_end(&mut self, io: &mut I) {
        self.0.turn_end(io);
    }
}

fn set_watchdog(io: &mut impl Io) {
    io.set_timer(io.now() + Duration::from_secs(20), WATCHDOG);
}

fn config() -> Config {
    Config {
        close_linger: Duration::from_millis(100),
        connections_max: 16,
        // Buffers and entries are few and small, so that they run out.
        receive_buffers: 2,
        receive_buffer_bytes: 10_000,
        queue_entries: 4,
        ..Config::default()
    }
}

fn play_real<S: Scenario>(backend: BackendKind, scenario: S) {
    let mut reactor = match Reactor::new(Config { backend, ..config() }) {
        Ok(reactor) => reactor,
        Err(error) if backend == BackendKind::Uring => {
            eprintln!("SKIPPED on io_uring: {error}");
            return;
        }
        Err(error) => panic!("no reactor on {backend:?}: {error}"),
    };
    set_watchdog(reactor.io());
    let mut playing = Playing(scenario);
    playing.0.start::<LoopIo>(reactor.io());
    reactor.run(&mut playing).expect("the loop runs");
    playing.0.check();
}

fn play_simulated<S: Scenario>(seed: u64, scenario: S) {
    let config =
        WorldConfig { close_linger: Duration::from_millis(100), connections_max: 16, ..WorldConfig::default() };
    let mut world = World::new(seed, config);
    let node = world.add_node();
    world.start(node, |io| {
        set_watchdog(io);
        let mut playing = Playing(scenario);
        playing.0.start::<SimIo>(io);
        playing
    });
    let stopped = world.run_until_done(Duration::from_secs(30), |world| !world.is_running(node));
    assert!(stopped, "the scenario does not end with seed {seed}");
    world.kill(node, reactor::sim::Crash::Process).expect("a stopped node keeps its handler").0.check();
}

/// Plays a scenario in every world.
pub fn check<S: Scenario>(make: impl Fn() -> S) {
    play_real(BackendKind::Uring, make());
    play_real(BackendKind::Epoll, make());
    (0..SEEDS).for_each(|seed| play_simulated(seed, make()));
}

/// The byte at `index` of a stream that does not repeat soon.
pub fn pattern(index: usize) -> u8 {
    (index.wrapping_mul(2_654_435_761) >> 13) as u8
}

pub fn pattern_bytes(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(pattern).collect()
}

pub fn any_port() -> std::net::SocketAddr {
    "127.0.0.1:0".parse().expect("an address")
}
