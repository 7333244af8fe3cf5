//! Descriptors run out: the listener rests instead of spinning, and goes on when descriptors are free again.
//!
//! This test has a process of its own, because the limit concerns the whole process.

use reactor::{BackendKind, Config, ConnId, Event, Handler, Io, LoopIo, Reactor};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

#[derive(Default)]
struct Acceptor {
    hoard: Vec<File>,
    accepted: usize,
    turns_hungry: u64,
}

impl Handler<LoopIo> for Acceptor {
    fn received(&mut self, _io: &mut LoopIo, _conn: ConnId, bytes: &[u8]) -> usize {
        bytes.len()
    }

    fn event(&mut self, io: &mut LoopIo, event: Event) {
        match event {
            Event::Accepted { .. } => self.accepted += 1,
            Event::Timer { token: 1 } => {
                assert_eq!(self.accepted, 0);
                self.turns_hungry = io.stats().turns;
                self.hoard.clear();
            }
            Event::Timer { .. } => io.stop(),
            _ => {}
        }
    }
}

#[test]
fn a_listener_rests_while_there_are_no_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..limit }).expect("lowering the limit");
    for backend in [BackendKind::Uring, BackendKind::Epoll] {
        let accept_backoff = Duration::from_millis(20);
        let mut reactor = match Reactor::new(Config { backend, accept_backoff, ..Config::default() }) {
            Ok(reactor) => reactor,
            Err(error) => {
                assert_eq!(backend, BackendKind::Uring, "{error}");
                eprintln!("SKIPPED on io_uring: {error}");
                continue;
            }
        };
        let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        let (_, addr) = reactor.io().listen(any).expect("a listener");
        let peers: Vec<_> = (0..3).map(|_| TcpStream::connect(addr).expect("the backlog takes it")).collect();
        let mut acceptor = Acceptor::default();
        while let Ok(file) = File::open("/dev/null") {
            acceptor.hoard.push(file);
        }
        reactor.io().set_timer(Duration::from_millis(200), 1);
        reactor.io().set_timer(Duration::from_millis(400), 2);
        reactor.run(&mut acceptor).expect("the loop runs");
        assert_eq!(acceptor.accepted, 3, "{backend:?}");
        // Ten attempts, each with a turn for the timer and one for the result.
        assert!(acceptor.turns_hungry <= 30, "{} turns of hunger on {backend:?}", acceptor.turns_hungry);
        drop(peers);
    }
}
