//! Connections: bytes arrive in order and once, bulk lands in aligned buffers, each end is told once.

use super::scenario::{Scenario, any_port, check, pattern, pattern_bytes};
use bytes::Bytes;
use reactor::{ConnId, Event, Io, ListenerId};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

/// The client sends a stream in pieces of many sizes; the server echoes it; the client closes when all of it has come
/// back.
struct Echo {
    listen: SocketAddr,
    client: Option<ConnId>,
    server: Option<ConnId>,
    returned: usize,
    closed: BTreeMap<ConnId, String>,
}

const ECHO_BYTES: usize = 300_000;

impl Scenario for Echo {
    fn start<I: Io>(&mut self, io: &mut I) {
        let (_, addr) = io.listen(self.listen).expect("a listener");
        assert_ne!(addr.port(), 0);
        let client = io.connect(addr);
        self.client = Some(client);
        // The bytes are queued before the connection is established.
        let all = Bytes::from(pattern_bytes(0, ECHO_BYTES));
        let (mut at, mut len) = (0, 0);
        while at < ECHO_BYTES {
            let end = (at + len).min(ECHO_BYTES);
            io.send(client, all.slice(at..end));
            at = end;
            len = (len * 3 + 1) % 9973;
        }
        assert_eq!(io.queued_bytes(client), ECHO_BYTES);
    }

    fn received<I: Io>(&mut self, io: &mut I, conn: ConnId, bytes: &[u8]) -> usize {
        if Some(conn) == self.server {
            io.send(conn, Bytes::copy_from_slice(bytes));
            return bytes.len();
        }
        // The handler takes some of the bytes at a time.
        let taken = bytes.len().min(1 + self.returned % 5000);
        for (index, byte) in bytes[..taken].iter().enumerate() {
            assert_eq!(*byte, pattern(self.returned + index), "byte {}", self.returned + index);
        }
        self.returned += taken;
        if self.returned == ECHO_BYTES {
            io.close(conn);
        }
        taken
    }

    fn event<I: Io>(&mut self, io: &mut I, event: Event) {
        match event {
            Event::Accepted { conn, peer, .. } => {
                assert_eq!(peer.ip(), self.listen.ip());
                self.server = Some(conn);
            }
            Event::Connected { conn, result } => {
                assert_eq!((Some(conn), result.expect("connected").ip()), (self.client, self.listen.ip()));
            }
            Event::Sent { conn, queued_bytes } => assert_eq!(queued_bytes, io.queued_bytes(conn)),
            Event::Closed { conn, cause } => {
                assert!(self.closed.insert(conn, cause).is_none(), "{conn:?} is closed twice");
                if self.closed.len() == 2 {
                    io.stop();
                }
            }
            event => panic!("unexpected {event:?}"),
        }
    }

    fn check(&mut self) {
        assert_eq!(self.returned, ECHO_BYTES);
        assert_eq!(self.closed[&self.client.expect("connected")], "closed by this side");
        assert_eq!(self.closed[&self.server.expect("accepted")], "closed by the peer");
    }
}

fn echo(listen: &str) -> Echo {
    let listen = listen.parse().expect("an address");
    Echo { listen, client: None, server: None, returned: 0, closed: BTreeMap::new() }
}

#[test]
fn bytes_come_back_in_order() {
    check(|| echo("127.0.0.1:0"));
}

#[test]
fn ipv6_works_like_ipv4() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        eprintln!("SKIPPED: this machine has no IPv6");
        return;
    }
    check(|| echo("[::1]:0"));
}

/// Frames of a four-byte length and a payload of that length, which goes into a bulk.
#[derive(Default)]
struct Bulks {
    server: Option<ConnId>,
    header: Vec<u8>,
    expected: usize,
    received: usize,
    pause: bool,
}

const SIZES: [usize; 12] = [1, 100, 4096, 9_996, 9_997, 20_000, 3, (4 << 20) + 5, 65_536, 10, 1 << 20, 4096];

impl Scenario for Bulks {
    fn start<I: Io>(&mut self, io: &mut I) {
        let (_, addr) = io.listen(any_port()).expect("a listener");
        let client = io.connect(addr);
        for len in SIZES {
            io.send(client, Bytes::copy_from_slice(&(len as u32).to_le_bytes()));
            io.send(client, Bytes::from(pattern_bytes(len, len)));
        }
    }

    fn received<I: Io>(&mut self, io: &mut I, conn: ConnId, bytes: &[u8]) -> usize {
        assert_eq!(self.expected, 0, "bytes before the bulk is complete");
        let taken = bytes.len().min(4 - self.header.len());
        self.header.extend(&bytes[..taken]);
        if let Ok(header) = <[u8; 4]>::try_from(self.header.as_slice()) {
            self.header.clear();
            self.expected = u32::from_le_bytes(header) as usize;
            assert_eq!(self.expected, SIZES[self.received]);
            io.receive_bulk(conn, self.expected);
            if self.pause {
                io.pause_reading(conn);
                io.set_timer(io.now() + Duration::from_millis(2), 1);
            }
        }
        taken
    }

    fn event<I: Io>(&mut self, io: &mut I, event: Event) {
        match event {
            Event::Accepted { conn, .. } => self.server = Some(conn),
            Event::Connected { result, .. } => drop(result.expect("connected")),
            Event::Sent { .. } => {}
            Event::Timer { token: 1 } => io.resume_reading(self.server.expect("accepted")),
            Event::BulkReceived { conn, buf } => {
                assert_eq!((Some(conn), buf.len()), (self.server, self.expected));
                assert!(buf.as_slice().as_ptr().addr().is_multiple_of(4096));
                assert!(buf.as_slice() == pattern_bytes(buf.len(), buf.len()));
                self.expected = 0;
                self.received += 1;
                if self.received == SIZES.len() {
                    io.stop();
                }
            }
            event => panic!("unexpected {event:?}"),
        }
    }
}

#[test]
fn bulk_is_whole_and_aligned_wherever_it_begins() {
    check(Bulks::default);
    check(|| Bulks { pause: true, ..Bulks::default() });
}

/// The handler asks for the next bulk while handling the event of the last: a stream cut into equal buffers.
#[derive(Default)]
struct BulkAfterBulk {
    received: usize,
}

const CUT: usize = 30_000;

impl Scenario for BulkAfterBulk {
    fn start<I: Io>(&mut self, io: &mut I) {
        let (_, addr) = io.listen(any_port()).expect("a listener");
        let client = io.connect(addr);
        io.send(client, Bytes::from(pattern_bytes(0, 10 * CUT)));
        io.close(client);
        let client = io.connect(addr);
        io.send(client, Bytes::from(pattern_bytes(0, 10 * CUT)));
    }

    fn received<I: Io>(&mut self, io: &mut I, conn: ConnId, _bytes: &[u8]) -> usize {
        io.receive_bulk(conn, CUT);
        0
    }

    fn event<I: Io>(&mut self, io: &mut I, event: Event) {
        match event {
            Event::BulkReceived { conn, buf } => {
                assert!(buf.as_slice() == pattern_bytes(self.received, CUT));
                self.received += CUT;
                if self.received == 10 * CUT {
                    io.stop();
                } else {
                    io.receive_bulk(conn, CUT);
                }
            }
            // The aborted connection may have been accepted.
            Event::Connected { .. } | Event::Accepted { .. } | Event::Sent { .. } | Event::Closed { .. } => {}
            event => panic!("unexpected {event:?}"),
        }
    }
}

#[test]
fn a_bulk_may_follow_a_bulk_and_closing_an_unestablished_connection_aborts_it() {
    check(BulkAfterBulk::default);
}

/// The server pauses at once; the client's queue stops draining; after a while the server reads on and gets everything.
#[derive(Default)]
struct Paused {
    client: Option<ConnId>,
    server: Option<ConnId>,
    received: usize,
    paused: bool,
}

const PAUSED_BYTES: usize = 32 << 20;

impl Scenario for Paused {
    fn start<I: Io>(&mut self, io: &mut I) {
        let (_, addr) = io.listen(any_port()).expect("a listener");
        let client = io.connect(addr);
        self.client = Some(client);
        let all = Bytes::from(pattern_bytes(0, PAUSED_BYTES));
        (0..PAUSED_BYTES).step_by(1 << 20).for_each(|at| io.send(client, all.slice(at..at + (1 << 20))));
        // The timer counts from now, because making these bytes takes time.
        io.set_timer(io.clock() + Duration::from_millis(300), 1);
    }

    fn received<I: Io>(&mut self, io: &mut I, conn: ConnId, bytes: &[u8]) -> usize {
        assert!(!self.paused, "bytes while paused");
        let first = self.received == 0;
        let taken = if first { bytes.len().div_ceil(2) } else { bytes.len() };
        assert!(bytes[..taken] == pattern_bytes(self.received, taken));
        self.received += taken;
        if first {
            io.pause_reading(conn);
            self.paused = true;
        }
        if self.received == PAUSED_BYTES {
            io.stop();
        }
        taken
    }

    fn event<I: Io>(&mut self, io: &mut I, event: Event) {
        match event {
            Event::Accepted { conn, .. } => self.server = Some(conn),
            Event::Timer { token: 1 } => {
                assert!(self.received > 0);
                assert!(io.queued_bytes(self.client.expect("connecting")) > 0, "the pause reaches the sender");
                self.paused = false;
                io.resume_reading(self.server.expect("accepted"));
            }
            Event::Connected { .. } | Event::Sent { .. } => {}
            event => panic!("unexpected {event:?}"),
        }
    }
}

#[test]
fn a_paused_reader_slows_the_sender_and_loses_nothing() {
    check(Paused::default);
}

/// The client closes with many bytes still queued: all of them arrive, then the end. Bytes sent after the close do not
/// arrive.
#[derive(Default)]
struct CloseFlushes {
    client: Option<ConnId>,
    received: usize,
    closed: Vec<ConnId>,
}

impl Scenario for CloseFlushes {
    fn start<I: Io>(&mut self, io: &mut I) {
        let (_, addr) = io.listen(any_port()).expect("a listener");
        self.client = Some(io.connect(addr));
    }

    fn received<I: Io>(&mut self, io: &mut I, conn: ConnId, bytes: &[u8]) -> usize {
        assert_ne!(Some(conn), self.client, "bytes after close");
        self.received += bytes.len();
        // These bytes go to a side that has closed, which drops them undisturbed.
        io.send(conn, Bytes::copy_from_slice(bytes));
        bytes.len()
    }

    fn event<I: Io>(&mut self, io: &mut I, event: Event) {
        match event {
            Event::Connected { conn, result } => {
                result.expect("connected");
                io.send(conn, Bytes::from(vec![1; 8 << 20]));
                io.close(conn);
                io.send(conn, Bytes::from_static(b"never"));
                io.close(conn);
            }
            Event::Closed { conn, .. } => {
                self.closed.push(conn);
                if self.closed.len() == 2 {
                    io.stop();
                }
            }
            Event::Accepted { .. } | Event::Sent { .. } => {}
            event => panic!("unexpected {event:?}"),
        }
    }

    fn check(&mut self) {
        assert_eq!(self.received, 8 << 20);
        assert_ne!(self.closed[0], self.closed[1]);
    }
}

#[test]
fn close_sends_what_is_queued() {
    check(CloseFlushes::default);
}

/// A peer that neither reads nor ends cannot delay a close beyond the bound.
#[derive(Default)]
struct CloseIsBounded {
    client: Option<ConnId>,
    asked_at: Duration,
}

impl Scenario for CloseIsBounded {
    fn start<I: Io>(&mut self, io: &mut I) {
        let (_, addr) = io.listen(any_port()).expect("a listener");
        self.client = Some(io.connect(addr));
    }

    fn event<I: Io>(&mut self, io: &mut I, event: Event) {
        match event {
            Event::Accepted { conn, .. } => io.pause_reading(conn),
            Event::Connected { conn, result } => {
                result.expect("connected");
                io.send(conn, Bytes::from(vec![1; 32 << 20]));
                io.close(conn);
                self.asked_at = io.now();
            }
            Event::Closed { conn, cause } => {
                assert_eq!(Some(conn), self.client);
                assert!(cause.contains("in time"), "{cause}");
                let took = io.now() - self.asked_at;
                assert!(took >= Duration::from_millis(100) && took < Duration::from_secs(30), "{took:?}");
                assert_eq!(io.queued_bytes(conn), 0);
                io.stop();
            }
            Event::Sent { .. } => {}
            event => panic!("unexpected {event:?}"),
        }
    }
}

#[test]
fn a_close_takes_no_longer_than_its_bound() {
    check(CloseIsBounded::default);
}

/// Aborts while handling every kind of event, refused connects, commands to connections that are gone.
#[derive(Default)]
struct Aborts {
    addr: Option<SocketAddr>,
    refused: Option<ConnId>,
    aborted_early: Option<ConnId>,
    clients: Vec<ConnId>,
    accepted: BTreeSet<ConnId>,
    ended: BTreeSet<ConnId>,
}

impl Scenario for Aborts {
    fn start<I: Io>(&mut self, io: &mut I) {
        // No listener is left at this port.
        let (listener, nobody) = io.listen(any_port()).expect("a listener");
        io.close_listener(listener);
        let (_, addr) = io.listen(any_port()).expect("a listener");
        self.addr = Some(addr);
        self.refused = Some(io.connect(nobody));
        let early = io.connect(addr);
        io.send(early, Bytes::from_static(b"dropped"));
        io.abort(early);
        self.aborted_early = Some(early);
        for _ in 0..4 {
            let client = io.connect(addr);
            io.send(client, Bytes::from(pattern_bytes(0, 100_000)));
            self.clients.push(client);
        }
    }

    fn received<I: Io>(&mut self, io: &mut I, conn: ConnId, bytes: &[u8]) -> usize {
        assert!(!self.ended.contains(&conn), "bytes after the end");
        match self.accepted.iter().position(|id| *id == conn).expect("only the accepted side gets bytes") % 3 {
            0 => {
                io.abort(conn);
                0
            }
            1 => {
                io.receive_bulk(conn, 50_000);
                bytes.len().min(10)
            }
            _ => {
                io.pause_reading(conn);
                io.abort(conn);
                bytes.len()
            }
        }
    }

    fn event<I: Io>(&mut self, io: &mut I, event: Event) {
        match event {
            Event::Accepted { conn, .. } => drop(self.accepted.insert(conn)),
            Event::Connected { conn, result: Err(error) } => {
                assert!(self.ended.insert(conn), "{conn:?} fails twice");
                if Some(conn) == self.refused {
                    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
                } else {
                    assert_eq!((Some(conn), error.kind()), (self.aborted_early, std::io::ErrorKind::ConnectionAborted));
                }
            }
            Event::BulkReceived { conn, .. } => io.abort(conn),
            Event::Closed { conn, .. } => {
                assert!(self.ended.insert(conn), "{conn:?} is closed twice");
                // None of these commands has an effect.
                io.send(conn, Bytes::from_static(b"nobody"));
                io.receive_bulk(conn, 10);
                io.pause_reading(conn);
                io.resume_reading(conn);
                io.close(conn);
                io.abort(conn);
                assert_eq!(io.queued_bytes(conn), 0);
            }
            Event::Connected { .. } | Event::Sent { .. } => {}
            event => panic!("unexpected {event:?}"),
        }
        let clients_ended = self.clients.iter().all(|conn| self.ended.contains(conn));
        let early = [self.refused, self.aborted_early].into_iter().flatten().all(|conn| self.ended.contains(&conn));
        if clients_ended && early && self.accepted.iter().all(|conn| self.ended.contains(conn)) {
            io.stop();
        }
    }
}

#[test]
fn aborts_end_everything_once() {
    check(Aborts::default);
}

/// More connections than allowed: the accepting side closes the surplus, or the connecting side fails.
#[derive(Default)]
struct TooMany {
    accepted: usize,
    failed: usize,
    connected: usize,
}

impl Scenario for TooMany {
    fn start<I: Io>(&mut self, io: &mut I) {
        let (_, addr) = io.listen(any_port()).expect("a listener");
        for _ in 0..40 {
            io.connect(addr);
        }
    }

    fn event<I: Io>(&mut self, io: &mut I, event: Event) {
        match event {
            Event::Accepted { .. } => self.accepted += 1,
            Event::Connected { result: Ok(_), .. } => self.connected += 1,
            Event::Connected { result: Err(_), .. } => self.failed += 1,
            Event::Closed { .. } | Event::Sent { .. } => {}
            event => panic!("unexpected {event:?}"),
        }
        assert!(io.stats().connections <= 16);
        if self.failed + self.connected == 40 {
            io.stop();
        }
    }

    fn check(&mut self) {
        assert_eq!(self.failed, 24);
    }
}

#[test]
fn the_number_of_connections_is_bounded() {
    check(TooMany::default);
}

/// A listener that is full closes the newest connection until there is room again; another listener, and connects of
/// this side, go on.
#[derive(Default)]
struct Crowded {
    full: Option<(ListenerId, std::net::SocketAddr)>,
    free: Option<(ListenerId, std::net::SocketAddr)>,
    accepted: Vec<ConnId>,
    connected: Vec<ConnId>,
    closed: usize,
    again: bool,
    elsewhere: bool,
}

impl Scenario for Crowded {
    fn start<I: Io>(&mut self, io: &mut I) {
        let [full, free] = [(); 2].map(|()| io.listen(any_port()).expect("a listener"));
        io.limit_accepted(full.0, 2);
        for _ in 0..5 {
            io.connect(full.1);
        }
        (self.full, self.free) = (Some(full), Some(free));
        io.set_timer(io.now() + Duration::from_secs(1), 1);
    }

    fn event<I: Io>(&mut self, io: &mut I, event: Event) {
        let (full, free) = (self.full.expect("listening"), self.free.expect("listening"));
        match event {
            Event::Accepted { listener, conn, .. } if listener == full.0 => {
                self.accepted.push(conn);
                self.again = self.accepted.len() > 2;
            }
            Event::Accepted { .. } => self.elsewhere = true,
            Event::Connected { conn, result } => {
                result.expect("the kernel takes it");
                self.connected.push(conn);
            }
            Event::Closed { .. } => self.closed += 1,
            Event::Timer { token: 1 } => {
                assert_eq!((self.accepted.len(), self.connected.len(), self.closed), (2, 5, 3));
                io.connect(free.1);
                io.abort(self.accepted[0]);
                io.set_timer(io.now() + Duration::from_secs(1), 2);
            }
            Event::Timer { .. } => {
                io.connect(full.1);
            }
            Event::Sent { .. } => {}
            event => panic!("unexpected {event:?}"),
        }
        if self.again && self.elsewhere {
            io.stop();
        }
    }

    fn check(&mut self) {
        assert_eq!(self.accepted.len(), 3);
    }
}

#[test]
fn a_full_listener_takes_nothing_from_others() {
    check(Crowded::default);
}

/// A stream of frames of any sizes, some received as bulk, read with pauses and in bites of any size.
struct Frames {
    /// Payload sizes. Payloads from `bulk_from` on are received as bulk.
    sizes: Vec<usize>,
    bulk_from: usize,
    bite: usize,
    pause_every: usize,
    server: Option<ConnId>,
    /// Number of frames whose payload is complete, and the received part of the next one.
    complete: usize,
    header: Vec<u8>,
    payload: Option<Vec<u8>>,
    calls: usize,
    paused: bool,
}

impl Frames {
    fn frame_is_complete(&mut self, payload: &[u8]) {
        assert!(payload == pattern_bytes(self.complete, self.sizes[self.complete]), "payload {}", self.complete);
        self.complete += 1;
    }

    fn is_done<I: Io>(&self, io: &mut I) {
        if self.complete == self.sizes.len() {
            io.stop();
        }
    }
}

impl Scenario for Frames {
    fn start<I: Io>(&mut self, io: &mut I) {
        let (_, addr) = io.listen(any_port()).expect("a listener");
        let client = io.connect(addr);
        for (index, len) in self.sizes.iter().enumerate() {
            io.send(client, Bytes::copy_from_slice(&(*len as u32).to_le_bytes()));
            io.send(client, Bytes::from(pattern_bytes(index, *len)));
        }
    }

    fn received<I: Io>(&mut self, io: &mut I, conn: ConnId, bytes: &[u8]) -> usize {
        assert!(!self.paused, "bytes while paused");
        self.calls += 1;
        let mut taken = 0;
        while taken < bytes.len().min(self.bite) {
            let rest = &bytes[taken..];
            if let Some(mut payload) = self.payload.take() {
                let len = rest.len().min(self.sizes[self.complete] - payload.len());
                payload.extend(&rest[..len]);
                taken += len;
                if payload.len() == self.sizes[self.complete] {
                    self.frame_is_complete(&payload);
                } else {
                    self.payload = Some(payload);
                }
                continue;
            }
            let len = rest.len().min(4 - self.header.len());
            self.header.extend(&rest[..len]);
            taken += len;
            let Ok(header) = <[u8; 4]>::try_from(self.header.as_slice()) else { continue };
            self.header.clear();
            let len = u32::from_le_bytes(header) as usize;
            assert_eq!(len, self.sizes[self.complete]);
            if len >= self.bulk_from {
                io.receive_bulk(conn, len);
                break;
            }
            self.payload = Some(Vec::new());
        }
        if self.calls.is_multiple_of(self.pause_every) {
            io.pause_reading(conn);
            self.paused = true;
            io.set_timer(io.now() + Duration::from_micros(100), 1);
        }
        self.is_done(io);
        taken
    }

    fn event<I: Io>(&mut self, io: &mut I, event: Event) {
        match event {
            Event::Accepted { conn, .. } => self.server = Some(conn),
            Event::BulkReceived { buf, .. } => {
                assert!(!self.paused, "a bulk while paused");
                self.frame_is_complete(buf.as_slice());
                self.is_done(io);
            }
            Event::Timer { token: 1 } => {
                self.paused = false;
                io.resume_reading(self.server.expect("accepted"));
            }
            Event::Connected { .. } | Event::Sent { .. } => {}
            event => panic!("unexpected {event:?}"),
        }
    }
}

#[test]
fn frames_of_any_sizes_arrive_whole() {
    use proptest::prelude::*;
    let size = prop_oneof![1..100usize, 1..20_000usize, 1..300_000usize];
    let inputs = (prop::collection::vec(size, 1..30), 1..40_000usize, 1..30_000usize, 1..20usize);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig { cases: 48, ..ProptestConfig::default() });
    let outcome = runner.run(&inputs, |(sizes, bulk_from, bite, pause_every)| {
        check(|| Frames {
            sizes: sizes.clone(),
            bulk_from,
            bite,
            pause_every,
            server: None,
            complete: 0,
            header: Vec::new(),
            payload: None,
            calls: 0,
            paused: false,
        });
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}
