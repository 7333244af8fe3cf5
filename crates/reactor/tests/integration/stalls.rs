//! A loop that stands still in the middle of a turn.

use reactor::{BackendKind, Config, ConnId, Event, Handler, Io, LoopIo, Reactor};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::time::Duration;
use stdx::BootClock;

struct Stalls {
    first: Option<ConnId>,
    stuck: mpsc::Sender<()>,
    free: mpsc::Receiver<Duration>,
    clock: BootClock,
    /// Time when the late bytes were sent.
    sent: Duration,
    /// The loop's time when they are handed over, and at the turn's end.
    handled: Vec<Duration>,
}

impl Handler<LoopIo> for Stalls {
    fn received(&mut self, io: &mut LoopIo, conn: ConnId, bytes: &[u8]) -> usize {
        if self.first.is_none() {
            self.first = Some(conn);
            // The loop stalls here, as by a signal, a frozen group of processes, time taken by a hypervisor, or a page
            // fault.
            self.stuck.send(()).expect("somebody watches");
            self.sent = self.free.recv().expect("somebody frees");
        } else if bytes.ends_with(b"late") {
            self.handled.push(io.now());
        }
        bytes.len()
    }

    fn event(&mut self, _io: &mut LoopIo, _event: Event) {}

    fn turn_end(&mut self, io: &mut LoopIo) {
        if !self.handled.is_empty() {
            self.handled.push(io.now());
            io.stop();
        }
    }
}

/// Leases are judged by the loop's time: a message is never handled with a time before it was sent.
#[test]
fn what_comes_during_a_stall_is_handled_with_a_time_from_after_it() {
    for backend in [BackendKind::Uring, BackendKind::Epoll] {
        let clock = BootClock::start();
        let mut reactor = match Reactor::new(Config { backend, started: Some(clock), ..Config::default() }) {
            Ok(reactor) => reactor,
            Err(error) => {
                assert_eq!(backend, BackendKind::Uring, "{error}");
                eprintln!("SKIPPED on io_uring: {error}");
                continue;
            }
        };
        let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        let (_, addr) = reactor.io().listen(any).expect("a listener");
        let (stuck, watch) = mpsc::channel();
        let (free, wait) = mpsc::channel();
        let peer = std::thread::spawn(move || {
            let connect = || {
                let stream = TcpStream::connect(addr).expect("connected");
                stream.set_nodelay(true).expect("an option of TCP");
                stream
            };
            let (mut one, mut two) = (connect(), connect());
            std::thread::sleep(Duration::from_millis(200));
            // Both connections are readable in one turn; the late bytes of the second come during the stall.
            one.write_all(b"1").expect("sent");
            two.write_all(b"2").expect("sent");
            watch.recv().expect("the loop stalls");
            std::thread::sleep(Duration::from_millis(300));
            let sent = clock.elapsed();
            two.write_all(b"late").expect("sent");
            std::thread::sleep(Duration::from_millis(50));
            free.send(sent).expect("the loop waits");
            (one, two)
        });
        let mut handler = Stalls { first: None, stuck, free: wait, clock, sent: Duration::ZERO, handled: Vec::new() };
        reactor.run(&mut handler).expect("the loop runs");
        drop(peer.join().expect("no panic"));
        let Stalls { sent, handled, clock, .. } = handler;
        assert!(handled.iter().all(|at| *at >= sent), "{backend:?}: sent at {sent:?}, handled at {handled:?}");
        assert!(handled.is_sorted() && clock.elapsed() >= handled[1]);
    }
}
