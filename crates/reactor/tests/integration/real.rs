//! Properties of the real loop alone: other threads, idleness, descriptors that run out, being dropped at a bad moment.

use bytes::Bytes;
use reactor::{BackendKind, Config, ConnId, Event, FileId, FileOptions, Handler, Io, LoopIo, Reactor, Stats};
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use types::AlignedBuf;

fn reactors() -> impl Iterator<Item = Reactor> {
    [BackendKind::Uring, BackendKind::Epoll].into_iter().filter_map(|backend| {
        let reactor = Reactor::new(Config { backend, ..Config::default() });
        if let (BackendKind::Uring, Err(error)) = (backend, &reactor) {
            eprintln!("SKIPPED on io_uring: {error}");
            return None;
        }
        let reactor = reactor.expect("a reactor");
        assert_eq!(reactor.backend(), backend);
        Some(reactor)
    })
}

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().expect("an address")
}

/// A handler made of one closure.
struct On<F>(F);

impl<F: FnMut(&mut LoopIo, Event)> Handler<LoopIo> for On<F> {
    fn received(&mut self, _io: &mut LoopIo, _conn: ConnId, bytes: &[u8]) -> usize {
        bytes.len()
    }

    fn event(&mut self, io: &mut LoopIo, event: Event) {
        (self.0)(io, event);
    }
}

#[test]
fn other_threads_wake_the_loop_and_what_they_queued_is_seen() {
    const MESSAGES: u32 = 20_000;
    for mut reactor in reactors() {
        let waker = reactor.waker();
        let (sender, receiver) = mpsc::channel();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (waker, sender) = (waker.clone(), sender.clone());
                std::thread::spawn(move || {
                    for n in 0..MESSAGES {
                        sender.send(n).expect("the reactor listens");
                        waker.wake();
                    }
                })
            })
            .collect();
        let mut seen = 0;
        let mut handler = On(|io: &mut LoopIo, event| {
            assert!(matches!(event, Event::Woken), "unexpected {event:?}");
            seen += receiver.try_iter().count() as u32;
            if seen == 2 * MESSAGES {
                io.stop();
            }
        });
        reactor.run(&mut handler).expect("the loop runs");
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    }
}

/// Loops of one process share a file: each holds its part, beside the first one's lock of the whole file.
#[test]
fn a_part_of_a_file_is_locked_against_whoever_wants_some_of_it() {
    let path = std::env::temp_dir().join(format!("nacre-parts-{}", std::process::id()));
    std::fs::write(&path, vec![0; 1 << 20]).expect("a file");
    let mut loops = [(); 4].map(|()| Reactor::new(Config::default()).expect("a reactor"));
    let mut open = |index: usize, lock, lock_part| {
        let io = loops[index].io();
        let options = FileOptions { lock, lock_part, ..FileOptions::default() };
        io.open_file(&path, options).map(|file| (index, file)).map_err(|error| error.kind())
    };
    open(0, true, Some((0, 4096))).expect("nobody has it");
    let held = open(1, false, Some((4096, 4096))).expect("nobody has this part");
    let busy = Some(std::io::ErrorKind::WouldBlock);
    assert_eq!(open(2, false, Some((8191, 10))).err(), busy);
    open(2, false, Some((8192, 10))).expect("nobody has this part");
    assert_eq!(open(3, true, None).err(), busy);
    loops[held.0].io().close_file(held.1);
    let options = FileOptions { lock_part: Some((4096, 4096)), ..FileOptions::default() };
    loops[3].io().open_file(&path, options).expect("it was given up");
    std::fs::remove_file(&path).expect("removed");
}

#[test]
fn an_idle_loop_does_not_turn() {
    for mut reactor in reactors() {
        let (_, addr) = reactor.io().listen(loopback()).expect("a listener");
        let peer = TcpStream::connect(addr).expect("connected");
        reactor.io().set_timer(Duration::from_millis(100), 1);
        let mut at_start = Stats::default();
        let mut turns = 0;
        let mut handler = On(|io: &mut LoopIo, event| match event {
            Event::Timer { token: 1 } => {
                at_start = io.stats();
                // Set here, it cannot be due in this turn, however late the turn comes.
                io.set_timer(io.now() + Duration::from_millis(300), 2);
            }
            Event::Timer { .. } => {
                turns = io.stats().turns - at_start.turns;
                io.stop();
            }
            _ => {}
        });
        reactor.run(&mut handler).expect("the loop runs");
        assert_eq!(turns, 1, "only the timer makes a turn");
        drop(peer);
    }
}

#[test]
fn a_stuck_handler_is_seen_from_outside() {
    for mut reactor in reactors() {
        let pulse = reactor.pulse();
        assert_eq!((pulse.read().turns, pulse.read().busy), (0, false));
        reactor.io().set_timer(Duration::ZERO, 1);
        let (stuck, watch) = mpsc::channel();
        let (free, wait) = mpsc::channel();
        let watcher = std::thread::spawn(move || {
            watch.recv().expect("the handler gets stuck");
            let reading = pulse.read();
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(pulse.read(), reading);
            free.send(()).expect("the handler waits");
            (pulse, reading)
        });
        let mut handler = On(|io: &mut LoopIo, _event| {
            stuck.send(()).expect("somebody watches");
            wait.recv().expect("somebody frees");
            io.stop();
        });
        reactor.run(&mut handler).expect("the loop runs");
        let (pulse, reading) = watcher.join().expect("no panic");
        assert!(reading.busy && !pulse.read().busy, "{reading:?}");
        assert!(reactor.io().stats().turn_longest >= Duration::from_millis(20));
    }
}

#[test]
fn dropping_a_reactor_waits_for_the_kernel() {
    let path = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("dropped-{}", std::process::id()));
    for mut reactor in reactors() {
        let io = reactor.io();
        let (_, addr) = io.listen(loopback()).expect("a listener");
        let mut peer = TcpStream::connect(addr).expect("connected");
        let options = FileOptions { direct: true, create: true, len_bytes: 64 << 20, ..FileOptions::default() };
        let file = io.open_file(&path, options).expect("a file");
        let begun = Instant::now();
        let mut handler = On(move |io: &mut LoopIo, event| {
            if let Event::Accepted { conn, .. } = event {
                // These are more bytes than the kernel takes, a bulk that never comes, and disk requests of every kind.
                io.send(conn, Bytes::from(vec![1; 64 << 20]));
                io.receive_bulk(conn, 1 << 20);
                for n in 0..16 {
                    io.write(file, n << 22, vec![AlignedBuf::zeroed(4 << 20).freeze()], n);
                    io.read(file, n << 22, AlignedBuf::zeroed(4 << 20), 100 + n);
                    io.flush(file, 200 + n);
                }
                io.stop();
            }
        });
        reactor.run(&mut handler).expect("the loop runs");
        drop(reactor);
        assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
        let mut rest = Vec::new();
        // The connection is gone: the read ends or fails without waiting.
        let _ = peer.read_to_end(&mut rest);
        assert!(!rest.is_empty());
        let again = TcpStream::connect(addr);
        assert!(again.is_err(), "the listener is gone");
    }
    let _ = std::fs::remove_file(&path);
}

#[test]
fn disk_errors_are_errnos() {
    for mut reactor in reactors() {
        let io = reactor.io();
        let full = io.open_file("/dev/full".as_ref(), FileOptions::default()).expect("/dev/full");
        io.write(full, 0, vec![Bytes::from_static(b"x")], 1);
        let locked = io.open_file("/dev/null".as_ref(), FileOptions::default()).expect("/dev/null");
        io.discard(locked, 0, 4096, 2);
        let mut results = std::collections::BTreeMap::new();
        let mut handler = On(|io: &mut LoopIo, event| {
            let Event::Disk { io: n, result } = event else { panic!("unexpected {event:?}") };
            results.insert(n, result.expect_err("both fail"));
            if results.len() == 2 {
                io.stop();
            }
        });
        reactor.run(&mut handler).expect("the loop runs");
        assert_eq!(results[&1], 28, "ENOSPC");
        assert!([19, 95].contains(&results[&2]), "ENODEV or EOPNOTSUPP, and not {}", results[&2]);
    }
}

/// Many connections at once, each of which sends a few bytes and gets them back.
struct Crowd {
    addr: SocketAddr,
    clients: std::collections::BTreeSet<ConnId>,
    answered: usize,
}

const CROWD: usize = 500;

impl Handler<LoopIo> for Crowd {
    fn received(&mut self, io: &mut LoopIo, conn: ConnId, bytes: &[u8]) -> usize {
        if !self.clients.contains(&conn) {
            io.send(conn, Bytes::copy_from_slice(bytes));
        } else {
            self.answered += bytes.len();
            if self.answered == CROWD * 100 {
                io.stop();
            }
        }
        bytes.len()
    }

    fn event(&mut self, io: &mut LoopIo, event: Event) {
        if let Event::Connected { conn, result } = event {
            result.unwrap_or_else(|error| panic!("{} does not answer: {error}", self.addr));
            io.send(conn, Bytes::from_static(&[7; 100]));
        }
    }
}

#[test]
fn a_crowd_is_served() {
    for mut reactor in reactors() {
        let io = reactor.io();
        let (_, addr) = io.listen(loopback()).expect("a listener");
        let clients = (0..CROWD).map(|_| io.connect(addr)).collect();
        let mut crowd = Crowd { addr, clients, answered: 0 };
        reactor.run(&mut crowd).expect("the loop runs");
        assert_eq!(reactor.io().stats().connections as usize, 2 * CROWD);
    }
}

/// Small writes, each followed by a flush, while a connection is busy.
#[test]
fn disk_and_sockets_share_a_loop() {
    let path = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("shared-{}", std::process::id()));
    for mut reactor in reactors() {
        let io = reactor.io();
        let options = FileOptions { direct: true, create: true, len_bytes: 1 << 20, ..FileOptions::default() };
        let file = io.open_file(&path, options).expect("a file");
        let (_, addr) = io.listen(loopback()).expect("a listener");
        let client = io.connect(addr);
        let block = AlignedBuf::copy_from(&[3; 4096]).freeze();
        io.write(file, 0, vec![block.clone()], 0);
        io.send(client, Bytes::from_static(b"ping"));
        let mut busy = Busy { file, block, client, writes: 0, pings: 0 };
        reactor.run(&mut busy).expect("the loop runs");
        assert!(busy.pings > 100 && busy.writes == 50, "{} pings, {} writes", busy.pings, busy.writes);
        assert!(reactor.io().stats().turns < reactor.io().stats().completions, "turns carry several completions");
    }
    let _ = std::fs::remove_file(&path);
}

struct Busy {
    file: FileId,
    block: Bytes,
    client: ConnId,
    writes: u64,
    pings: u64,
}

impl Handler<LoopIo> for Busy {
    fn received(&mut self, io: &mut LoopIo, conn: ConnId, bytes: &[u8]) -> usize {
        self.pings += u64::from(conn == self.client);
        io.send(conn, Bytes::copy_from_slice(bytes));
        if self.writes == 50 && self.pings > 100 {
            io.stop();
        }
        bytes.len()
    }

    fn event(&mut self, io: &mut LoopIo, event: Event) {
        if let Event::Disk { io: n, result } = event {
            result.expect("no error");
            if n % 2 == 0 {
                io.flush(self.file, n + 1);
            } else if self.writes < 49 {
                self.writes += 1;
                io.write(self.file, self.writes * 4096, vec![self.block.clone()], n + 1);
            } else {
                self.writes = 50;
            }
        }
    }
}
