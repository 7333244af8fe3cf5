//! Simulated machines that sleep, clocks that stand, and handlers that take time.

use bytes::Bytes;
use reactor::sim::{Crash, NodeId, SimIo, Sleep, Stalls, World, WorldConfig};
use reactor::{ConnId, Event, Handler, Io};
use std::net::SocketAddr;
use std::time::Duration;

const PORT: u16 = 6800;
const MS: Duration = Duration::from_millis(1);
const TICK_EVERY: Duration = Duration::from_millis(10);

/// Sends the world's time every ten milliseconds, and compares what it is sent with its own loop's time.
struct Ticker {
    to: Option<SocketAddr>,
    conn: Option<ConnId>,
    ticks: u64,
    came: u64,
    /// Of a time that has not come whole.
    part: Vec<u8>,
    /// Most by which a message had been sent later than the loop's time at its arrival says.
    behind: Duration,
    /// The most that passed between two reads of the clock in one call.
    longest_call: Duration,
}

impl Ticker {
    fn start(io: &mut SimIo, own: SocketAddr, to: Option<SocketAddr>) -> Ticker {
        io.listen(own).expect("the address is free");
        io.set_timer(TICK_EVERY, 1);
        let conn = to.map(|to| io.connect(to));
        Ticker { to, conn, ticks: 0, came: 0, part: Vec::new(), behind: Duration::ZERO, longest_call: Duration::ZERO }
    }
}

impl Handler<SimIo> for Ticker {
    fn received(&mut self, io: &mut SimIo, _conn: ConnId, bytes: &[u8]) -> usize {
        self.part.extend_from_slice(bytes);
        let whole = self.part.len() / 8 * 8;
        for sent in self.part.drain(..whole).as_slice().chunks_exact(8) {
            let sent = Duration::from_nanos(u64::from_le_bytes(sent.try_into().expect("eight bytes")));
            self.behind = self.behind.max(sent.saturating_sub(io.now()));
            self.came += 1;
        }
        bytes.len()
    }

    fn event(&mut self, io: &mut SimIo, event: Event) {
        match event {
            Event::Timer { .. } => {
                self.ticks += 1;
                if let Some(conn) = self.conn {
                    io.send(conn, Bytes::copy_from_slice(&(io.world_time().as_nanos() as u64).to_le_bytes()));
                }
                io.set_timer(io.now() + TICK_EVERY, 1);
            }
            Event::Closed { .. } => self.conn = self.to.map(|to| io.connect(to)),
            _ => {}
        }
    }

    fn turn_end(&mut self, io: &mut SimIo) {
        let begun = io.clock();
        (0..4).for_each(|_| self.longest_call = self.longest_call.max(io.clock() - begun));
    }
}

fn two(stalls: Option<Stalls>) -> (World<Ticker>, NodeId, NodeId) {
    let mut world = World::new(7, WorldConfig { segment_bytes_max: 4096, stalls, ..WorldConfig::default() });
    let (a, b) = (world.add_node(), world.add_node());
    [a, b].into_iter().for_each(|node| world.take_time(node));
    let (addr_a, addr_b) = (SocketAddr::new(world.address(a), PORT), SocketAddr::new(world.address(b), PORT));
    world.start(b, |io| Ticker::start(io, addr_b, None));
    world.start(a, |io| Ticker::start(io, addr_a, Some(addr_b)));
    (world, a, b)
}

#[test]
fn what_comes_in_a_turn_that_takes_long_is_handled_with_a_later_time() {
    let stalls = Stalls { one_in: 20, short: 5 * MS..=60 * MS, long_one_in: 10, long: 300 * MS..=900 * MS };
    let (mut world, a, b) = two(Some(stalls));
    world.run_for(60_000 * MS);
    let (ticks, receiver) = (world.handler(a).expect("it runs").ticks, world.handler(b).expect("it runs"));
    assert!((300..5000).contains(&ticks) && receiver.came > 200, "{ticks} ticks, {} came", receiver.came);
    assert!(receiver.longest_call >= 5 * MS, "calls take time: {:?}", receiver.longest_call);
    // Both started within a moment of each other.
    assert!(receiver.behind < MS, "handled with a time before it was sent: {:?}", receiver.behind);
    world.take_no_time();
    world.run_for(2000 * MS);
    let before = world.handler(a).expect("it runs").ticks;
    world.run_for(10_000 * MS);
    assert!(world.handler(a).expect("it runs").ticks >= before + 990, "no timer is lost");
    world.kill(b, Crash::Process);
}

#[test]
fn who_sleeps_does_nothing_and_counts_the_time_or_not() {
    for (sleep, counted, wall_right) in
        [(Sleep::Counted, true, true), (Sleep::Paused, false, true), (Sleep::Unnoticed, false, false)]
    {
        let (mut world, a, b) = two(None);
        world.run_for(1000 * MS);
        let clocks = |world: &mut World<Ticker>| {
            let of = |_: &mut Ticker, io: &mut SimIo| (io.now(), io.wall_clock().to_unix());
            world.call(b, of).expect("it runs")
        };
        let (before, wall_before) = clocks(&mut world);
        let ticks = world.handler(b).expect("it runs").ticks;
        world.sleep(b, 9000 * MS, sleep);
        world.run_for(7900 * MS);
        let came = world.handler(b).expect("it runs").came;
        assert!(came < 110 && world.handler(b).expect("it runs").ticks <= ticks + 1, "{sleep:?}: it sleeps");
        world.run_for(2100 * MS);
        let (after, wall_after) = clocks(&mut world);
        let is = |passed: Duration, all: bool| passed.abs_diff(if all { 10_000 * MS } else { 2000 * MS }) < 5 * MS;
        assert!(is(after - before, counted), "{sleep:?}: {before:?}, {after:?}");
        assert!(is(wall_after - wall_before, wall_right), "{sleep:?}: {wall_before:?}, {wall_after:?}");
        let (sender, receiver) = (world.handler(a).expect("it runs"), world.handler(b).expect("it runs"));
        assert!(receiver.came + 30 > sender.ticks, "TCP brings what was sent meanwhile: {}", receiver.came);
        assert!(receiver.ticks >= ticks + 195, "{sleep:?}: timers go on: {ticks}, {}", receiver.ticks);
        world.set_wall_clock_right(b);
        assert!(is(clocks(&mut world).1 - wall_before, true));
    }
}
