//! Sends that the network takes at once make no turn of a handler that does not heed them; others do.

use bytes::Bytes;
use reactor::{BackendKind, Config, ConnId, Event, Handler, Io, LoopIo, Reactor};
use std::io::Read;
use std::net::TcpStream;
use std::thread::JoinHandle;
use std::time::Duration;

const SEND: u64 = 1;
const END: u64 = 2;
/// A busy machine seldom keeps the loop from running for so long between a send and what it makes.
const PAUSE: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(30);

/// Sends a piece at each timer, to whoever connects.
struct Sender {
    heeds: bool,
    /// The last turn has seen bytes that wait.
    saw_some_wait: bool,
    piece: Bytes,
    left: u64,
    peer: Option<ConnId>,
    sent_events: u64,
    turns: u64,
    /// True once a turn has seen that nothing waits.
    saw_all_gone: bool,
    /// That turn is the last one. It must come by itself, within a while.
    ends_when_gone: bool,
}

impl Sender {
    fn new(heeds: bool, piece_bytes: usize, pieces: u64) -> Sender {
        let piece = Bytes::from(vec![7; piece_bytes]);
        Sender {
            heeds,
            saw_some_wait: false,
            piece,
            left: pieces,
            peer: None,
            sent_events: 0,
            turns: 0,
            saw_all_gone: false,
            ends_when_gone: false,
        }
    }
}

impl Handler<LoopIo> for Sender {
    fn received(&mut self, _io: &mut LoopIo, _conn: ConnId, bytes: &[u8]) -> usize {
        bytes.len()
    }

    fn event(&mut self, io: &mut LoopIo, event: Event) {
        match event {
            Event::Accepted { conn, .. } => {
                self.peer = Some(conn);
                io.set_timer(io.now() + PAUSE, SEND);
            }
            Event::Timer { token: SEND } => {
                io.send(self.peer.expect("accepted before"), self.piece.clone());
                self.left -= 1;
                let end_after = if self.ends_when_gone { PATIENCE } else { 20 * PAUSE };
                let (after, token) = if self.left == 0 { (end_after, END) } else { (PAUSE, SEND) };
                io.set_timer(io.now() + after, token);
            }
            Event::Timer { .. } if self.ends_when_gone => panic!("no turn came when all bytes were gone"),
            Event::Timer { .. } => io.stop(),
            Event::Sent { .. } => self.sent_events += 1,
            event => panic!("unexpected {event:?}"),
        }
    }

    fn turn_end(&mut self, io: &mut LoopIo) {
        self.turns += 1;
        self.saw_some_wait = self.peer.is_some_and(|peer| io.queued_bytes(peer) > 0);
        self.saw_all_gone = self.left == 0 && self.peer.is_some_and(|peer| io.queued_bytes(peer) == 0);
        if self.saw_all_gone && self.ends_when_gone {
            io.close(self.peer.expect("just seen"));
            io.stop();
        }
    }

    fn heeds_sent(&self) -> bool {
        self.heeds || (self.ends_when_gone && self.saw_some_wait)
    }
}

/// Runs a sender whose peer begins to read after a while. Returns the sender, and how many bytes came.
fn run(backend: BackendKind, mut sender: Sender, reads_after: Duration) -> Option<(Sender, usize)> {
    let mut reactor = match Reactor::new(Config { backend, ..Config::default() }) {
        Err(error) if backend == BackendKind::Uring => {
            eprintln!("SKIPPED on io_uring: {error}");
            return None;
        }
        made => made.expect("a reactor"),
    };
    let (_, addr) = reactor.io().listen("127.0.0.1:0".parse().expect("an address")).expect("a listener");
    let peer: JoinHandle<usize> = std::thread::spawn(move || {
        let mut stream = TcpStream::connect(addr).expect("connected");
        std::thread::sleep(reads_after);
        let mut bytes = Vec::new();
        // The stream ends by a reset where the reactor is dropped.
        let _ = stream.read_to_end(&mut bytes);
        bytes.len()
    });
    reactor.run(&mut sender).expect("the loop runs");
    drop(reactor);
    Some((sender, peer.join().expect("no panic")))
}

#[test]
fn sends_that_are_taken_at_once_make_no_turn() {
    const PIECES: u64 = 40;
    for backend in [BackendKind::Uring, BackendKind::Epoll] {
        let of = |heeds| run(backend, Sender::new(heeds, 100, PIECES), Duration::ZERO);
        let (Some((heeding, bytes)), Some((other, other_bytes))) = (of(true), of(false)) else { continue };
        assert_eq!((bytes, other_bytes), (100 * PIECES as usize, 100 * PIECES as usize));
        assert_eq!(heeding.sent_events, PIECES);
        // Where the loop was kept from running, a send and the next timer share a turn.
        let least = 2 * PIECES - PIECES / 4;
        assert!(heeding.turns >= least, "a turn for each timer and one for each send: {}", heeding.turns);
        assert!(other.saw_all_gone && heeding.saw_all_gone);
        if backend == BackendKind::Uring {
            assert_eq!(other.sent_events, 0);
            // The accept and the end make turns, too, and now and then a timer is waited for twice.
            assert!(other.turns < PIECES + PIECES / 4 + 2, "a turn for each timer: {}", other.turns);
        }
    }
}

#[test]
fn a_send_that_has_to_wait_makes_a_turn_once_it_is_done() {
    // More than the kernel takes of a stream that nobody reads.
    const BYTES: usize = 32 << 20;
    for backend in [BackendKind::Uring, BackendKind::Epoll] {
        let sender = Sender { ends_when_gone: true, ..Sender::new(false, BYTES, 1) };
        let Some((sender, bytes)) = run(backend, sender, Duration::from_millis(50)) else { continue };
        assert_eq!(bytes, BYTES);
        assert!(sender.saw_all_gone && sender.sent_events > 0, "{} events", sender.sent_events);
    }
}
