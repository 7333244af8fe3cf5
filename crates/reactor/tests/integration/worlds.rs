//! The simulated world with several nodes: its runs follow from their seeds, and its faults are the documented ones.

use bytes::Bytes;
use reactor::sim::{Crash, DiskFault, NodeId, SimIo, World, WorldConfig};
use reactor::{ConnId, Event, FileId, FileOptions, Handler, Io};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use types::AlignedBuf;

const SECOND: Duration = Duration::from_secs(1);

/// Counts the bytes sent to it; keeps one connection to its peer and sends a byte every millisecond.
struct Talker {
    peer: Option<SocketAddr>,
    conn: Option<ConnId>,
    established: bool,
    received: usize,
    endings: Vec<String>,
}

const PORT: u16 = 6800;

impl Talker {
    fn start<I: Io>(io: &mut I, own: SocketAddr, peer: Option<SocketAddr>) -> Talker {
        io.listen(own).expect("the address is free");
        io.set_timer(Duration::ZERO, 1);
        Talker { peer, conn: None, established: false, received: 0, endings: Vec::new() }
    }
}

impl<I: Io> Handler<I> for Talker {
    fn received(&mut self, _io: &mut I, _conn: ConnId, bytes: &[u8]) -> usize {
        self.received += bytes.len();
        bytes.len()
    }

    fn event(&mut self, io: &mut I, event: Event) {
        match event {
            Event::Timer { .. } => {
                if let (None, Some(peer)) = (self.conn, self.peer) {
                    self.conn = Some(io.connect(peer));
                }
                if let Some(conn) = self.conn {
                    io.send(conn, Bytes::from_static(b"x"));
                }
                io.set_timer(io.now() + Duration::from_millis(1), 1);
            }
            Event::Connected { result: Ok(_), .. } => self.established = true,
            Event::Connected { conn, result: Err(error) } => {
                assert_eq!(Some(conn), self.conn);
                self.endings.push(error.to_string());
                self.conn = None;
            }
            Event::Closed { conn, cause } => {
                self.endings.push(cause);
                if Some(conn) == self.conn {
                    self.conn = None;
                }
            }
            _ => {}
        }
    }
}

fn two_talkers(seed: u64, config: WorldConfig) -> (World<Talker>, NodeId, NodeId) {
    let mut world = World::new(seed, config);
    let (a, b) = (world.add_node(), world.add_node());
    let (addr_a, addr_b) = (SocketAddr::new(world.address(a), PORT), SocketAddr::new(world.address(b), PORT));
    world.start(b, |io| Talker::start(io, addr_b, None));
    world.start(a, |io| Talker::start(io, addr_a, Some(addr_b)));
    (world, a, b)
}

fn restart(world: &mut World<Talker>, node: NodeId) {
    let addr = SocketAddr::new(world.address(node), PORT);
    world.start(node, |io| Talker::start(io, addr, None));
}

fn received(world: &World<Talker>, node: NodeId) -> usize {
    world.handler(node).expect("started").received
}

fn endings(world: &World<Talker>, node: NodeId) -> Vec<&str> {
    world.handler(node).expect("started").endings.iter().map(String::as_str).collect()
}

#[test]
fn equal_seeds_give_equal_runs_and_others_do_not() {
    let run = |seed| {
        let (mut world, a, b) = two_talkers(seed, WorldConfig { reset_one_in: 50, ..WorldConfig::default() });
        world.run_for(SECOND);
        world.kill(b, Crash::Process);
        world.run_for(SECOND);
        restart(&mut world, b);
        world.run_for(SECOND);
        (world.fingerprint(), received(&world, b), endings(&world, a).len())
    };
    let runs: Vec<_> = (0..5).map(run).collect();
    assert_eq!(runs, (0..5).map(run).collect::<Vec<_>>());
    assert_eq!(runs.iter().map(|run| run.0).collect::<BTreeSet<_>>().len(), 5);
    assert!(runs.iter().all(|(_, received, endings)| *received > 500 && *endings > 10), "{runs:?}");
}

#[test]
fn a_killed_process_is_seen_at_once_and_its_address_refuses() {
    let (mut world, a, b) = two_talkers(1, WorldConfig::default());
    world.run_for(SECOND);
    assert!(received(&world, b) > 900);
    world.kill(b, Crash::Process);
    world.run_for(SECOND / 10);
    let endings = endings(&world, a);
    assert!(endings.len() > 10 && endings[1..].iter().all(|ending| ending.contains("refused")), "{endings:?}");
    restart(&mut world, b);
    world.run_for(SECOND);
    assert!(received(&world, b) > 900);
}

#[test]
fn a_machine_without_power_is_silent_until_it_is_back() {
    let (mut world, a, b) = two_talkers(2, WorldConfig::default());
    world.run_for(SECOND);
    world.kill(b, Crash::Power);
    world.run_for(10 * SECOND);
    assert_eq!(endings(&world, a), [""; 0], "no news is the news");
    restart(&mut world, b);
    world.run_for(SECOND);
    assert_eq!(endings(&world, a).len(), 1);
    assert!(endings(&world, a)[0].contains("reset"), "{:?}", endings(&world, a));
    assert!(received(&world, b) > 500);

    world.kill(b, Crash::Power);
    world.run_for(100 * SECOND);
    assert!(endings(&world, a)[1].contains("timed out"), "{:?}", endings(&world, a));
}

#[test]
fn a_partition_holds_bytes_up_and_a_long_one_ends_the_connection() {
    let (mut world, a, b) = two_talkers(3, WorldConfig::default());
    world.run_for(SECOND);
    world.block(a, b);
    world.run_for(SECOND / 10);
    let before = received(&world, b);
    world.run_for(10 * SECOND);
    assert_eq!(received(&world, b), before, "nothing passes");
    world.unblock(a, b);
    world.run_for(SECOND);
    assert!(received(&world, b) > before + 10_000, "what was held up arrives");
    assert_eq!(endings(&world, a), [""; 0]);
    world.block(a, b);
    world.run_for(100 * SECOND);
    assert!(endings(&world, a)[0].contains("timed out"), "{:?}", endings(&world, a));
    assert_eq!(endings(&world, b), [""; 0], "the other side has not heard of it");
    world.unblock_all();
    world.run_for(10 * SECOND);
    assert!(world.handler(a).expect("running").established);
}

#[test]
fn the_other_direction_of_a_one_way_partition_works() {
    let (mut world, a, b) = two_talkers(4, WorldConfig::default());
    world.block(b, a);
    world.run_for(SECOND);
    assert!(!world.handler(a).expect("running").established, "the answer does not pass");
    world.unblock(b, a);
    world.run_for(SECOND);
    world.block(b, a);
    let before = received(&world, b);
    world.run_for(SECOND);
    assert!(received(&world, b) > before + 900);
}

#[test]
fn severed_connections_are_reset_on_both_sides() {
    let (mut world, a, b) = two_talkers(5, WorldConfig::default());
    world.run_for(SECOND);
    world.sever(a, b);
    world.run_for(SECOND);
    for node in [a, b] {
        assert_eq!(endings(&world, node).len(), 1);
        assert!(endings(&world, node)[0].contains("reset"), "{:?}", endings(&world, node));
    }
    assert!(received(&world, b) > 1900);
}

/// Writes blocks one after another: block `n` holds `n`. Flushes after every fourth and remembers the flushed ones.
#[derive(Default)]
struct Writer {
    file: Option<FileId>,
    written: u64,
    flushed: u64,
    failed: Option<i32>,
}

const BLOCK: usize = 4096;
const FLUSH: u64 = u64::MAX;

impl Writer {
    fn start<I: Io>(io: &mut I) -> Writer {
        let options = FileOptions { create: true, lock: true, len_bytes: 1 << 20, ..FileOptions::default() };
        let mut writer = Writer { file: Some(io.open_file(path(), options).expect("not locked")), ..Writer::default() };
        writer.write(io);
        writer
    }

    fn write<I: Io>(&mut self, io: &mut I) {
        let mut block = AlignedBuf::zeroed(BLOCK);
        block.as_mut_slice().fill(self.written as u8 + 1);
        io.write(self.file.expect("open"), self.written * BLOCK as u64, vec![block.freeze()], self.written);
    }
}

fn path() -> &'static Path {
    Path::new("/store")
}

impl<I: Io> Handler<I> for Writer {
    fn received(&mut self, _io: &mut I, _conn: ConnId, bytes: &[u8]) -> usize {
        bytes.len()
    }

    fn event(&mut self, io: &mut I, event: Event) {
        match event {
            Event::Disk { result: Err(errno), .. } => {
                self.failed = Some(errno);
                io.stop();
            }
            Event::Disk { io: FLUSH, .. } => {
                self.flushed = self.written;
                self.write(io);
            }
            Event::Disk { .. } => {
                self.written += 1;
                if self.written.is_multiple_of(4) { io.flush(self.file.expect("open"), FLUSH) } else { self.write(io) }
            }
            event => panic!("unexpected {event:?}"),
        }
    }
}

#[test]
fn flushed_blocks_survive_and_a_killed_process_loses_only_what_is_in_flight() {
    let (mut lost, mut torn) = (0, 0);
    for seed in 0..40 {
        for crash in [Crash::Process, Crash::Power] {
            let mut world: World<Writer> = World::new(seed, WorldConfig::default());
            let node = world.add_node();
            world.start(node, Writer::start::<SimIo>);
            world.run_for(Duration::from_millis(10));
            let writer = world.kill(node, crash).expect("it was running");
            assert!(writer.flushed > 0);
            let safe = if crash == Crash::Process { writer.written } else { writer.flushed };
            let disk = world.disk(node, path()).expect("it was opened");
            for n in 0..=writer.written {
                let block = disk.peek(n * BLOCK as u64, BLOCK);
                let whole = block == vec![n as u8 + 1; BLOCK];
                assert!(n >= safe || whole, "seed {seed}: block {n} of {safe} is lost");
                lost += u32::from(block == vec![0; BLOCK]);
                torn += u32::from(!whole && block != vec![0; BLOCK]);
            }
            // The lock ended with the process.
            world.start(node, Writer::start::<SimIo>);
        }
    }
    assert!(lost > 10 && torn > 10, "{lost} lost, {torn} torn");
}

#[test]
fn disk_errors_reach_the_handler() {
    let mut world: World<Writer> = World::new(1, WorldConfig::default());
    let node = world.add_node();
    world.start(node, Writer::start::<SimIo>);
    world.disk(node, path()).expect("open").inject(DiskFault::FailFlush(5));
    world.run_for(SECOND);
    assert!(!world.is_running(node));
    let writer = world.handler(node).expect("it stopped by itself");
    assert_eq!((writer.failed, writer.written, writer.flushed), (Some(5), 4, 0));
}

#[test]
fn clocks_start_with_the_process_and_disagree() {
    let mut world: World<Writer> = World::new(1, WorldConfig::default());
    let node = world.add_node();
    world.run_for(10 * SECOND);
    world.skew_wall_clock(node, -3000);
    world.start(node, Writer::start::<SimIo>);
    let (now, wall) = world.call(node, |_, io| (io.now(), io.wall_clock())).expect("running");
    assert_eq!((now, wall.to_unix()), (Duration::ZERO, Duration::from_secs(1_767_225_600 + 10 - 3)));
}

/// Sends a numbered stream on each of its connections and checks those of others, in bites and bulks of any size.
struct Checked {
    peers: Vec<SocketAddr>,
    /// Bytes sent on our own connections, and bytes received on accepted ones.
    sent: BTreeMap<ConnId, usize>,
    received: BTreeMap<ConnId, usize>,
    ended: BTreeSet<ConnId>,
    checked: usize,
}

fn numbered(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|index| (index.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

impl Checked {
    fn start<I: Io>(io: &mut I, own: SocketAddr, peers: Vec<SocketAddr>) -> Checked {
        io.listen(own).expect("the address is free");
        io.set_timer(Duration::ZERO, 1);
        let (sent, received) = (BTreeMap::new(), BTreeMap::new());
        Checked { peers, sent, received, ended: BTreeSet::new(), checked: 0 }
    }

    fn check(&mut self, conn: ConnId, bytes: &[u8]) {
        let at = self.received.get_mut(&conn).expect("bytes come on accepted connections, before they end");
        assert!(bytes == numbered(*at, bytes.len()), "{} bytes at {at} of {conn:?}", bytes.len());
        *at += bytes.len();
        self.checked += bytes.len();
    }

    fn end(&mut self, conn: ConnId) {
        assert!(self.ended.insert(conn), "{conn:?} ends twice");
        assert!(self.sent.remove(&conn).is_some() != self.received.remove(&conn).is_some(), "{conn:?} is unknown");
    }
}

impl<I: Io> Handler<I> for Checked {
    fn received(&mut self, io: &mut I, conn: ConnId, bytes: &[u8]) -> usize {
        let chance = io.random();
        if chance.is_multiple_of(16) {
            io.receive_bulk(conn, 1 + (chance >> 8) as usize % 100_000);
            return 0;
        }
        if chance % 64 == 1 {
            io.pause_reading(conn);
            return 0;
        }
        let taken = 1 + (chance >> 8) as usize % bytes.len();
        self.check(conn, &bytes[..taken]);
        taken
    }

    fn event(&mut self, io: &mut I, event: Event) {
        match event {
            Event::Accepted { conn, .. } => drop(self.received.insert(conn, 0)),
            Event::BulkReceived { conn, buf } => self.check(conn, buf.as_slice()),
            Event::Connected { conn, result: Err(_) } | Event::Closed { conn, .. } => self.end(conn),
            Event::Timer { .. } => {
                if let Some(peer) = self.peers.get(io.random() as usize % (2 * self.peers.len())) {
                    self.sent.insert(io.connect(*peer), 0);
                }
                let conns: Vec<ConnId> = self.sent.keys().chain(self.received.keys()).copied().collect();
                for conn in conns {
                    match io.random() % 40 {
                        0 => io.close(conn),
                        1 => io.abort(conn),
                        2..20 => io.resume_reading(conn),
                        _ => {}
                    }
                    let len = io.random() as usize % 20_000;
                    if let Some(sent) = self.sent.get_mut(&conn).filter(|_| io.queued_bytes(conn) < 1 << 20) {
                        io.send(conn, Bytes::from(numbered(*sent, len)));
                        *sent += len;
                    }
                }
                io.set_timer(io.now() + Duration::from_millis(5), 1);
            }
            _ => {}
        }
    }
}

#[test]
fn streams_are_prefixes_whatever_happens() {
    const NODES: usize = 4;
    for seed in 0..8 {
        let config = WorldConfig { reset_one_in: 500, tcp_timeout: SECOND, ..WorldConfig::default() };
        let mut world: World<Checked> = World::new(seed, config);
        let nodes: Vec<NodeId> = (0..NODES).map(|_| world.add_node()).collect();
        let addrs: Vec<SocketAddr> = nodes.iter().map(|node| SocketAddr::new(world.address(*node), PORT)).collect();
        let start = |world: &mut World<Checked>, node: NodeId| {
            let (own, peers) = (addrs[node.0], addrs.clone());
            world.start(node, |io| Checked::start(io, own, peers));
        };
        nodes.iter().for_each(|node| start(&mut world, *node));
        let mut checked = 0;
        for _ in 0..100 {
            world.run_for(SECOND / 20);
            let [what, a, b] = [6, NODES as u64, NODES as u64].map(|bound| world.rng().below(bound) as usize);
            let (a, b) = (nodes[a], nodes[b]);
            match what {
                0 => world.block(a, b),
                1 => world.unblock_all(),
                2 => world.sever(a, b),
                3 if world.is_running(a) => {
                    let crash = if world.rng().one_in(2) { Crash::Power } else { Crash::Process };
                    checked += world.kill(a, crash).expect("it was running").checked;
                }
                _ => nodes
                    .iter()
                    .filter(|node| !world.is_running(**node))
                    .copied()
                    .collect::<Vec<_>>()
                    .into_iter()
                    .for_each(|node| start(&mut world, node)),
            }
        }
        assert!(checked > 1 << 20, "seed {seed} checked only {checked} bytes");
    }
}

/// Greets every client; connects to its peer, and pauses and resumes reading before the peer has answered.
struct Greeter {
    peer: Option<SocketAddr>,
    established: bool,
    greeted: usize,
}

impl<I: Io> Handler<I> for Greeter {
    fn received(&mut self, _io: &mut I, _conn: ConnId, bytes: &[u8]) -> usize {
        assert!(self.established, "greeted by whom it has not reached yet");
        self.greeted += bytes.len();
        bytes.len()
    }

    fn event(&mut self, io: &mut I, event: Event) {
        match event {
            Event::Timer { .. } => {
                let conn = io.connect(self.peer.expect("only who has a peer has a timer"));
                io.pause_reading(conn);
                io.resume_reading(conn);
            }
            Event::Accepted { conn, .. } => io.send(conn, Bytes::from_static(b"hello")),
            Event::Connected { result, .. } => self.established = result.is_ok(),
            _ => {}
        }
    }
}

#[test]
fn nothing_is_received_before_the_word_that_the_connection_is_there() {
    let ms = Duration::from_millis(1);
    // A turn may begin after the peer has accepted and answered.
    let config = WorldConfig { turn_delay: ms..=10 * ms, ..WorldConfig::default() };
    for seed in 0..50 {
        let mut world = World::new(seed, config.clone());
        let (a, b) = (world.add_node(), world.add_node());
        let addr = SocketAddr::new(world.address(b), PORT);
        world.start(b, |io| {
            io.listen(addr).expect("the address is free");
            Greeter { peer: None, established: false, greeted: 0 }
        });
        world.start(a, |io| {
            io.set_timer(10 * ms, 1);
            Greeter { peer: Some(addr), established: false, greeted: 0 }
        });
        world.run_for(SECOND);
        assert_eq!(world.handler(a).expect("started").greeted, b"hello".len());
    }
}
