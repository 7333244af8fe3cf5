//! Processor time per message: a server that echoes, and a client that keeps some messages in flight.
//!
//! ```text
//! cargo run --release -p reactor --example echo_bench -- \
//!     [uring|epoll] [connections] [depth] [message bytes] [messages]
//! ```
//!
//! Messages of 16 KiB and more are received as bulk.
//!
//! Each side runs a reactor on its own thread. Prints messages per second, and processor time per message of each
//! thread, as the kernel accounts it.

use bytes::Bytes;
use reactor::{BackendKind, Config, ConnId, Event, Handler, Io, LoopIo, Reactor};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const BULK_BYTES: usize = 16 << 10;

struct Server {
    message_bytes: usize,
    partial: BTreeMap<ConnId, usize>,
    answer: Bytes,
    connections: usize,
}

impl Handler<LoopIo> for Server {
    fn received(&mut self, io: &mut LoopIo, conn: ConnId, bytes: &[u8]) -> usize {
        if self.message_bytes >= BULK_BYTES {
            io.receive_bulk(conn, self.message_bytes);
            return 0;
        }
        let partial = self.partial.get_mut(&conn).expect("accepted");
        let have = *partial + bytes.len();
        *partial = have % self.message_bytes;
        (0..have / self.message_bytes).for_each(|_| io.send(conn, self.answer.clone()));
        bytes.len()
    }

    fn event(&mut self, io: &mut LoopIo, event: Event) {
        match event {
            Event::Accepted { conn, .. } => {
                self.partial.insert(conn, 0);
            }
            Event::BulkReceived { conn, .. } => io.send(conn, self.answer.clone()),
            Event::Closed { .. } => {
                self.connections -= 1;
                if self.connections == 0 {
                    io.stop();
                }
            }
            _ => {}
        }
    }
}

struct Client {
    message: Bytes,
    depth: usize,
    conns: Vec<ConnId>,
    partial: BTreeMap<ConnId, usize>,
    left: u64,
    open: u64,
}

impl Client {
    fn answered(&mut self, io: &mut LoopIo, conn: ConnId, count: usize) {
        for _ in 0..count {
            self.open -= 1;
            self.ask(io, conn);
        }
        if self.open == 0 {
            self.conns.iter().for_each(|conn| io.close(*conn));
            io.stop();
        }
    }

    fn ask(&mut self, io: &mut LoopIo, conn: ConnId) {
        if self.left > 0 {
            self.left -= 1;
            self.open += 1;
            io.send(conn, self.message.clone());
        }
    }
}

impl Handler<LoopIo> for Client {
    fn received(&mut self, io: &mut LoopIo, conn: ConnId, bytes: &[u8]) -> usize {
        if self.message.len() >= BULK_BYTES {
            io.receive_bulk(conn, self.message.len());
            return 0;
        }
        let partial = self.partial.get_mut(&conn).expect("connected");
        let have = *partial + bytes.len();
        *partial = have % self.message.len();
        self.answered(io, conn, have / self.message.len());
        bytes.len()
    }

    fn event(&mut self, io: &mut LoopIo, event: Event) {
        match event {
            Event::Connected { conn, result } => {
                result.expect("connected");
                self.partial.insert(conn, 0);
                (0..self.depth).for_each(|_| self.ask(io, conn));
            }
            Event::BulkReceived { conn, .. } => self.answered(io, conn, 1),
            _ => {}
        }
    }
}

fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: u64| args.get(index).map_or(default, |arg| arg.parse().expect("a number"));
    let backend = match args.first().map(String::as_str) {
        Some("epoll") => BackendKind::Epoll,
        Some("uring") | None => BackendKind::Uring,
        Some(other) => panic!("{other} is neither uring nor epoll"),
    };
    let (connections, depth) = (number(1, 1) as usize, number(2, 1) as usize);
    let (message_bytes, messages) = (number(3, 4096) as usize, number(4, 200_000));
    let (tell, told) = std::sync::mpsc::channel::<SocketAddr>();

    let server = std::thread::spawn(move || {
        let mut reactor = Reactor::new(Config { backend, ..Config::default() }).expect("a reactor");
        let (_, addr) = reactor.io().listen("127.0.0.1:0".parse().expect("an address")).expect("a listener");
        tell.send(addr).expect("the client waits");
        let answer = Bytes::from(vec![1; message_bytes]);
        let mut server = Server { message_bytes, partial: BTreeMap::new(), answer, connections };
        let before = thread_cpu();
        reactor.run(&mut server).expect("the loop runs");
        (thread_cpu() - before, reactor.io().stats())
    });

    let addr = told.recv().expect("the server listens");
    let mut reactor = Reactor::new(Config { backend, ..Config::default() }).expect("a reactor");
    let conns = (0..connections).map(|_| reactor.io().connect(addr)).collect();
    let message = Bytes::from(vec![2; message_bytes]);
    let mut client = Client { message, depth, conns, partial: BTreeMap::new(), left: messages, open: 0 };
    let (begun, before) = (Instant::now(), thread_cpu());
    reactor.run(&mut client).expect("the loop runs");
    let (took, client_cpu) = (begun.elapsed(), thread_cpu() - before);
    drop(reactor);
    let (server_cpu, stats) = server.join().expect("no panic");

    let per_message = |time: Duration| time.as_secs_f64() * 1e6 / messages as f64;
    println!(
        "{backend:?}, {connections} connections, depth {depth}, {message_bytes} B: {:.0} messages/s; \
         CPU per message: server {:.2} us, client {:.2} us; server: {:.1} messages per turn, {} enters, {} sends",
        messages as f64 / took.as_secs_f64(),
        per_message(server_cpu),
        per_message(client_cpu),
        messages as f64 / stats.turns as f64,
        stats.enters,
        stats.sends,
    );
}
