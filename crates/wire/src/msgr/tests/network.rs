//! A network in memory: streams cut anywhere, cut off at any time, with a clock of its own.

use crate::msgr::{Config, ConnId, Messenger, Output, Peer, SessionId, TransportLoss};
use crate::{Envelope, Header, Rope};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;
use types::AlignedBuf;

/// SplitMix64.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// One end of a stream.
struct End {
    node: usize,
    conn: ConnId,
    /// Bytes on their way to this end.
    inbox: VecDeque<u8>,
    /// The bulk segment being received, and how much of it is there.
    bulk: Option<(AlignedBuf, usize)>,
    /// The other end sends nothing more.
    finished: bool,
    /// This end wants to hear nothing more.
    gone: bool,
}

/// Answers steps of a node's handshakes.
pub type Authority = Box<dyn FnMut(&mut Messenger, Duration)>;

pub struct Node {
    pub messenger: Messenger,
    /// Method `none` at first.
    pub authority: Authority,
    pub addr: SocketAddr,
    pub opened: Vec<(SessionId, Peer)>,
    pub resets: Vec<(SessionId, String)>,
    pub faults: Vec<String>,
    pub refused: Vec<String>,
    pub received: Vec<(SessionId, Envelope)>,
    pub muted: bool,
    /// Sessions in the order of their news; true: it was opened, false: it was reset.
    pub order: Vec<(SessionId, bool)>,
    /// When the first byte of each message received came.
    pub began: Vec<Duration>,
}

pub struct Network {
    pub nodes: Vec<Node>,
    streams: BTreeMap<u64, [End; 2]>,
    next_stream: u64,
    pub now: Duration,
    pub rng: Rng,
    /// Longest piece in which bytes are delivered.
    pub chunk_max: usize,
    /// Bytes handed to each node's transport, for limits on chattiness.
    pub transmitted: usize,
    /// All that node 1 transmits, if it is wanted.
    pub record: Option<Vec<u8>>,
}

impl Network {
    pub fn new(seed: u64) -> Network {
        Network {
            nodes: Vec::new(),
            streams: BTreeMap::new(),
            next_stream: 2,
            now: Duration::from_secs(1),
            rng: Rng(seed),
            chunk_max: 1 << 16,
            transmitted: 0,
            record: None,
        }
    }

    /// Adds a node that listens at its first own address, or nowhere.
    pub fn add(&mut self, config: Config) -> usize {
        let addr = config.my_addrs.front().sockaddr.unwrap_or_else(|| "10.0.0.99:1".parse().unwrap());
        self.nodes.push(Node {
            messenger: Messenger::new(config),
            authority: Box::new(Messenger::answer_unproven),
            addr,
            opened: Vec::new(),
            resets: Vec::new(),
            faults: Vec::new(),
            refused: Vec::new(),
            received: Vec::new(),
            began: Vec::new(),
            muted: false,
            order: Vec::new(),
        });
        self.nodes.len() - 1
    }

    pub fn messenger(&mut self, node: usize) -> &mut Messenger {
        &mut self.nodes[node].messenger
    }

    pub fn send(&mut self, node: usize, session: SessionId, envelope: Envelope) {
        self.nodes[node].messenger.send(session, envelope);
        self.collect(node);
    }

    /// The first session the node reported.
    pub fn session(&self, node: usize) -> SessionId {
        self.nodes[node].opened[0].0
    }

    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Does what the messenger asks for.
    pub fn collect(&mut self, node: usize) {
        while let Some(output) = self.nodes[node].messenger.poll() {
            match output {
                Output::Connect { conn, to } => self.dial(node, conn, to),
                Output::Transmit { conn, data } => {
                    self.transmitted += data.len();
                    if let Some(record) = self.record.as_mut().filter(|_| node == 1) {
                        record.extend(data.to_vec());
                    }
                    if let (Some((stream, side)), false) = (self.find(node, conn), self.nodes[node].muted) {
                        let other = &mut self.streams.get_mut(&stream).unwrap()[1 - side];
                        other.inbox.extend(data.to_vec());
                    }
                }
                Output::Close { conn } => {
                    if let Some((stream, side)) = self.find(node, conn) {
                        let ends = self.streams.get_mut(&stream).unwrap();
                        ends[side].gone = true;
                        ends[1 - side].finished = true;
                        if ends[1 - side].gone {
                            self.streams.remove(&stream);
                        }
                    }
                }
                Output::Opened { session, peer } => {
                    self.nodes[node].opened.push((session, peer));
                    self.nodes[node].order.push((session, true));
                }
                Output::Message { session, envelope, began } => {
                    self.nodes[node].received.push((session, envelope));
                    self.nodes[node].began.push(began);
                }
                Output::Reset { session, reason } => {
                    self.nodes[node].resets.push((session, reason.to_string()));
                    self.nodes[node].order.push((session, false));
                }
                Output::Faulted { reason, .. } => self.nodes[node].faults.push(reason.to_string()),
                Output::Refused { reason, .. } => self.nodes[node].refused.push(reason.to_string()),
            }
        }
    }

    fn find(&self, node: usize, conn: ConnId) -> Option<(u64, usize)> {
        self.streams.iter().find_map(|(id, ends)| {
            let side = ends.iter().position(|end| end.node == node && end.conn == conn)?;
            Some((*id, side))
        })
    }

    fn dial(&mut self, node: usize, conn: ConnId, to: SocketAddr) {
        let now = self.now;
        let Some(peer) = self.nodes.iter().position(|n| n.addr == to) else {
            self.nodes[node].messenger.closed(conn, TransportLoss::Refused, now);
            return;
        };
        let stream = self.next_stream;
        self.next_stream += 2;
        let end = |node, conn| End { node, conn, inbox: VecDeque::new(), bulk: None, finished: false, gone: false };
        self.streams.insert(stream, [end(node, conn), end(peer, ConnId(stream))]);
        let from = SocketAddr::new(self.nodes[node].addr.ip(), 30_000 + stream as u16);
        self.nodes[peer].messenger.accepted(ConnId(stream), from, now);
        self.nodes[node].messenger.connected(conn, now);
        self.collect(peer);
    }

    /// Cuts a stream: what is on its way is lost.
    pub fn cut(&mut self, index: usize) {
        let Some(&stream) = self.streams.keys().nth(index) else { return };
        let ends = self.streams.remove(&stream).unwrap();
        for end in ends.iter().filter(|end| !end.gone) {
            self.nodes[end.node].messenger.closed(end.conn, "connection reset", self.now);
        }
        for end in ends {
            self.collect(end.node);
        }
    }

    /// Nothing that the node sends arrives any more.
    pub fn mute(&mut self, node: usize) {
        self.nodes[node].muted = true;
    }

    /// Changes a byte on its way, counted over all streams.
    pub fn flip(&mut self, mut at: usize) {
        for end in self.streams.values_mut().flatten() {
            if let Some(byte) = end.inbox.get_mut(at) {
                *byte ^= 0x10;
                return;
            }
            at -= end.inbox.len();
        }
        panic!("only so many bytes are on their way");
    }

    /// Delivers some bytes to one end of some stream. False if there is nothing to do.
    pub fn step(&mut self) -> bool {
        let busy: Vec<(u64, usize)> = self
            .streams
            .iter()
            .flat_map(|(id, ends)| (0..2).filter(|i| has_news(&ends[*i])).map(|i| (*id, i)))
            .collect();
        if busy.is_empty() {
            return false;
        }
        let (stream, side) = busy[self.rng.below(busy.len())];
        let take = 1 + self.rng.below(self.chunk_max);
        let end = &mut self.streams.get_mut(&stream).unwrap()[side];
        let (node, conn) = (end.node, end.conn);
        let Node { messenger, authority, .. } = &mut self.nodes[node];
        if end.gone {
            end.inbox.clear();
        } else if end.inbox.is_empty() {
            end.gone = true;
            messenger.closed(conn, "closed by peer", self.now);
        } else {
            let chunk: Vec<u8> = end.inbox.drain(..take.min(end.inbox.len())).collect();
            deliver(messenger, authority, end, &chunk, self.now);
        }
        if self.streams[&stream].iter().all(|end| end.gone) {
            self.streams.remove(&stream);
        }
        self.collect(node);
        true
    }

    /// Runs until nothing more happens without the clock.
    pub fn settle(&mut self) {
        for node in 0..self.nodes.len() {
            self.collect(node);
        }
        while self.step() {}
    }

    /// Lets time pass, with all that is due within it.
    pub fn sleep(&mut self, time: Duration) {
        let until = self.now + time;
        self.settle();
        loop {
            let next = self.nodes.iter().filter_map(|n| n.messenger.next_wake()).min();
            let Some(next) = next.filter(|at| *at <= until) else { break };
            self.now = self.now.max(next);
            for node in 0..self.nodes.len() {
                let now = self.now;
                self.nodes[node].messenger.tick(now);
                self.collect(node);
            }
            self.settle();
        }
        self.now = until;
    }

    /// Bytes straight into a node, as from a peer that is no messenger; what it answers, and whether it hung up.
    pub fn feed(&mut self, node: usize, conn: ConnId, bytes: &[u8]) -> (Vec<u8>, bool) {
        let mut end = End { node, conn, inbox: VecDeque::new(), bulk: None, finished: false, gone: false };
        let (now, mut answer, mut closed) = (self.now, Vec::new(), false);
        let mut rest = bytes;
        loop {
            let take = rest.len().min(1 + self.rng.below(self.chunk_max));
            let (chunk, tail) = rest.split_at(take);
            let Node { messenger, authority, .. } = &mut self.nodes[node];
            deliver(messenger, authority, &mut end, chunk, now);
            rest = tail;
            while let Some(output) = self.nodes[node].messenger.poll() {
                match output {
                    Output::Transmit { conn: c, data } if c == conn => answer.extend(data.to_vec()),
                    Output::Close { conn: c } if c == conn => closed = true,
                    Output::Opened { session, peer } => self.nodes[node].opened.push((session, peer)),
                    Output::Message { session, envelope, .. } => self.nodes[node].received.push((session, envelope)),
                    Output::Reset { session, reason } => self.nodes[node].resets.push((session, reason.to_string())),
                    Output::Refused { reason, .. } => self.nodes[node].refused.push(reason.to_string()),
                    other => panic!("unexpected {other:?}"),
                }
            }
            if rest.is_empty() {
                return (answer, closed);
            }
        }
    }
}

fn has_news(end: &End) -> bool {
    !end.inbox.is_empty() || (end.finished && !end.gone)
}

/// Hands received bytes to a messenger, as a driver does.
fn deliver(messenger: &mut Messenger, authority: &mut Authority, end: &mut End, mut chunk: &[u8], now: Duration) {
    while !chunk.is_empty() {
        if let Some((buf, filled)) = &mut end.bulk {
            let take = chunk.len().min(buf.len() - *filled);
            let (head, tail) = chunk.split_at(take);
            buf.as_mut_slice()[*filled..*filled + take].copy_from_slice(head);
            (*filled, chunk) = (*filled + take, tail);
            if *filled == buf.len() {
                let (buf, _) = end.bulk.take().unwrap();
                messenger.bulk_received(end.conn, buf, now);
            }
            continue;
        }
        let taken = messenger.received(end.conn, chunk, now);
        authority(messenger, now);
        chunk = &chunk[taken..];
        if let Some(n) = messenger.bulk_wanted(end.conn) {
            end.bulk = Some((AlignedBuf::zeroed(n), 0));
        } else {
            assert!(chunk.is_empty(), "bytes were left without a bulk segment to come");
        }
    }
}

/// A message with a number and some payload that depends on it.
pub fn message(number: u64, front: usize, data: usize) -> Envelope {
    let fill =
        |len: usize, salt: u64| -> Bytes { (0..len as u64).map(|i| (i * 7 + number * 31 + salt) as u8).collect() };
    let bytes = fill(data, 1);
    // In pieces, as payloads often come.
    let cut = data / 3;
    let data: Rope = [bytes.slice(..cut), bytes.slice(cut..)].into_iter().collect();
    let header = Header { tid: number, kind: 42, priority: 127, version: 8, compat_version: 3, data_off: 5 };
    Envelope { header, front: fill(front, 2), data, ..Envelope::default() }
}

/// Compares all that travels.
pub fn assert_same(received: &Envelope, sent: &Envelope) {
    assert_eq!(received.header, sent.header);
    assert!(received.front == sent.front && received.middle == sent.middle, "message {}", sent.header.tid);
    assert!(received.data.to_vec() == sent.data.to_vec(), "data of message {}", sent.header.tid);
}
