//! Simulated connections: the kernels of both nodes, and the wire between them.

use super::io::{Happening, SimIo};
use super::node::Inbox;
use crate::conn::{Bulk, Phase};
use crate::{ConnId, Event, ListenerId};
use bytes::{Buf, Bytes};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// A segment on its way to an endpoint.
#[derive(Debug)]
pub(crate) enum Segment {
    /// The connect has succeeded.
    Established,
    Bytes(Bytes),
    /// The peer's stream ends.
    End,
    Reset,
}

/// One side of a connection.
pub(crate) struct Endpoint {
    pub(crate) node: usize,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) phase: Phase,
    /// The other side, once it exists. It may be gone.
    pub(crate) peer: Option<ConnId>,
    pub(crate) peer_node: usize,
    pub(crate) accepted_by: Option<ListenerId>,
    /// The peer lost its power and answers nothing.
    pub(crate) orphaned: bool,
    /// TCP tries to reach the lost peer.
    pub(crate) retrying: bool,
    pub(crate) outgoing: VecDeque<Bytes>,
    pub(crate) queued_bytes: usize,
    /// Bytes that were sent and not yet taken by the handler of the other side.
    pub(crate) unread_bytes: usize,
    pub(crate) dirty: bool,
    /// Segments on their way here, in order, with times of arrival.
    pub(crate) wire: VecDeque<(Duration, Segment)>,
    /// Time from which the first segment on the wire has been held up.
    pub(crate) held_up_since: Option<Duration>,
    /// Bytes that have arrived.
    pub(crate) inbound: VecDeque<Bytes>,
    pub(crate) peer_ended: bool,
    pub(crate) paused: bool,
    pub(crate) bulk: Option<Bulk>,
}

impl Endpoint {
    pub(crate) fn new(node: usize, local: SocketAddr, remote: SocketAddr, phase: Phase) -> Endpoint {
        Endpoint {
            node,
            local,
            remote,
            phase,
            peer: None,
            peer_node: node,
            accepted_by: None,
            orphaned: false,
            retrying: false,
            outgoing: VecDeque::new(),
            queued_bytes: 0,
            unread_bytes: 0,
            dirty: false,
            wire: VecDeque::new(),
            held_up_since: None,
            inbound: VecDeque::new(),
            peer_ended: false,
            paused: false,
            bulk: None,
        }
    }
}

impl SimIo {
    fn is_blocked(&self, from: usize, to: usize) -> bool {
        let asleep = |node: usize| self.nodes[node].asleep_until > self.clock;
        self.blocked.contains(&(from, to)) || asleep(from) || asleep(to)
    }

    /// Handles a connect that reaches its address: it is accepted, refused, or tried again.
    pub(crate) fn syn(&mut self, conn: ConnId, since: Duration) {
        let Some(endpoint) = self.endpoints.get(&conn) else { return };
        let (from, remote, local) = (endpoint.node, endpoint.remote, endpoint.local);
        let listener = self.listeners.get(&remote).copied();
        let owner = listener.map(|(node, _)| node).or_else(|| self.owners.get(&remote).copied());
        let unreachable = owner.is_some_and(|to| self.is_blocked(from, to) || !self.nodes[to].powered);
        if unreachable {
            if self.clock - since >= self.config.tcp_timeout {
                return self.fail_connect(conn, libc::ETIMEDOUT);
            }
            let again = self.clock + self.config.retransmit_after;
            return self.schedule(again, Happening::Syn { conn, since });
        }
        let Some((node, listener)) = listener else {
            return self.send_segment(conn, Segment::Reset);
        };
        let server = self.next_conn_id();
        self.endpoints.get_mut(&conn).expect("just found").peer_node = node;
        let limit = self.nodes[node].accepted_max.get(&listener).copied();
        let is_crowded = limit.is_some_and(|max| {
            let of_listener = |other: &&Endpoint| other.node == node && other.accepted_by == Some(listener);
            self.endpoints.values().filter(of_listener).count() >= max
        });
        if is_crowded || self.nodes[node].connections >= self.config.connections_max {
            self.nodes[node].stats.refused += 1;
            self.send_segment(conn, Segment::Established);
            return self.send_segment(conn, Segment::End);
        }
        self.endpoints.get_mut(&conn).expect("just found").peer = Some(server);
        let mut accepted = Endpoint::new(node, remote, local, Phase::Open);
        (accepted.peer, accepted.peer_node, accepted.accepted_by) = (Some(conn), from, Some(listener));
        self.endpoints.insert(server, accepted);
        self.nodes[node].connections += 1;
        self.nodes[node].stats.accepted += 1;
        self.tell(node, Inbox::Event(Event::Accepted { listener, conn: server, peer: local }));
        self.send_segment(conn, Segment::Established);
    }

    fn fail_connect(&mut self, conn: ConnId, errno: i32) {
        if let Some(endpoint) = self.endpoints.remove(&conn) {
            self.nodes[endpoint.node].connections -= 1;
            let result = Err(io::Error::from_raw_os_error(errno));
            self.tell(endpoint.node, Inbox::Event(Event::Connected { conn, result }));
        }
    }

    /// Hands over segments that have arrived on the wire.
    pub(crate) fn arrive(&mut self, conn: ConnId) {
        loop {
            let Some(endpoint) = self.endpoints.get_mut(&conn) else { return };
            let Some((at, _)) = endpoint.wire.front() else { return };
            let (at, from, to) = (*at, endpoint.peer_node, endpoint.node);
            if at > self.clock {
                return self.schedule(at, Happening::Arrival { conn });
            }
            if self.is_blocked(from, to) {
                return self.hold_up(conn);
            }
            if self.rng.one_in(self.config.loss_one_in) {
                return self.schedule(self.clock + self.config.retransmit_after, Happening::Arrival { conn });
            }
            let endpoint = self.endpoints.get_mut(&conn).expect("just found");
            endpoint.held_up_since = None;
            let (_, segment) = endpoint.wire.pop_front().expect("just seen");
            if matches!(segment, Segment::Bytes(_)) && self.rng.one_in(self.config.reset_one_in) {
                return self.break_connection(conn);
            }
            self.take_in(conn, segment);
        }
    }

    /// Holds the first segment up: TCP tries again later, until it gives up.
    fn hold_up(&mut self, conn: ConnId) {
        let again = self.clock + self.config.retransmit_after;
        let endpoint = self.endpoints.get_mut(&conn).expect("held up");
        let since = *endpoint.held_up_since.get_or_insert(self.clock);
        if self.clock - since < self.config.tcp_timeout {
            return self.schedule(again, Happening::Arrival { conn });
        }
        // The sender gives up. Its segments are lost; this side hears of that only when it sends itself.
        endpoint.wire.clear();
        endpoint.held_up_since = None;
        endpoint.orphaned = true;
        let peer = endpoint.peer.take();
        if let Some(peer) = peer
            && let Some(sender) = self.endpoints.get_mut(&peer)
        {
            sender.peer = None;
            self.end(peer, &io::Error::from_raw_os_error(libc::ETIMEDOUT).to_string());
        }
    }

    fn take_in(&mut self, conn: ConnId, segment: Segment) {
        let endpoint = self.endpoints.get_mut(&conn).expect("segments arrive at endpoints");
        let node = endpoint.node;
        match segment {
            Segment::Established => {
                if endpoint.phase == Phase::Connecting {
                    endpoint.phase = Phase::Open;
                    let result = Ok(endpoint.local);
                    self.tell(node, Inbox::Event(Event::Connected { conn, result }));
                    self.pump_on(conn);
                }
            }
            Segment::Bytes(bytes) => {
                if endpoint.phase == Phase::Open {
                    endpoint.inbound.push_back(bytes);
                    self.tell(node, Inbox::Readable(conn));
                } else {
                    self.credit(conn, bytes.len());
                }
            }
            Segment::End => {
                endpoint.peer_ended = true;
                match &mut endpoint.phase {
                    Phase::Closing { end_sent: false, peer_ended } => *peer_ended = true,
                    Phase::Closing { end_sent: true, .. } => self.end(conn, "closed by this side"),
                    _ => self.tell(node, Inbox::Readable(conn)),
                }
            }
            Segment::Reset if endpoint.phase == Phase::Connecting => self.fail_connect(conn, libc::ECONNREFUSED),
            Segment::Reset => {
                endpoint.peer = None;
                self.end(conn, &io::Error::from_raw_os_error(libc::ECONNRESET).to_string());
            }
        }
    }

    /// Breaks a connection between two nodes: both sides learn of it.
    pub(crate) fn break_connection(&mut self, conn: ConnId) {
        let Some(endpoint) = self.endpoints.get_mut(&conn) else { return };
        endpoint.wire.clear();
        let peer = endpoint.peer;
        for side in [Some(conn), peer].into_iter().flatten() {
            self.send_segment(side, Segment::Reset);
        }
    }

    /// Puts bytes on the wire that were left, now that there is room. Bytes that a handler has queued since the last
    /// [`SimIo::pump`] leave when its turn ends: that turn may stand still, and be ahead of the world's time.
    fn pump_on(&mut self, conn: ConnId) {
        if self.endpoints.get(&conn).is_some_and(|endpoint| !endpoint.dirty && endpoint.queued_bytes > 0) {
            self.pump(conn);
        }
    }

    /// Puts queued bytes on the wire as far as the window reaches, and after them the end if the endpoint is closing.
    pub(crate) fn pump(&mut self, conn: ConnId) {
        let mut sent_bytes = 0;
        let is_new = self.endpoints.get(&conn).is_some_and(|endpoint| endpoint.dirty);
        loop {
            let segment_len_max = 1 + self.rng.below(self.config.segment_bytes_max as u64) as usize;
            let tiny = self.rng.one_in(8);
            let Some(endpoint) = self.endpoints.get_mut(&conn) else { return };
            endpoint.dirty = false;
            if endpoint.phase == Phase::Connecting || endpoint.queued_bytes == 0 {
                break;
            }
            if endpoint.orphaned {
                self.retry(conn);
                break;
            }
            let Some(peer) = endpoint.peer else { break };
            let room = self.config.window_bytes.saturating_sub(endpoint.unread_bytes);
            let len_max = room.min(if tiny { segment_len_max.min(100) } else { segment_len_max });
            if len_max == 0 {
                break;
            }
            let segment = take_front(&mut endpoint.outgoing, len_max);
            endpoint.queued_bytes -= segment.len();
            endpoint.unread_bytes += segment.len();
            sent_bytes += segment.len();
            self.send_segment(peer, Segment::Bytes(segment));
        }
        let Some(endpoint) = self.endpoints.get_mut(&conn) else { return };
        let (node, peer, empty) = (endpoint.node, endpoint.peer, endpoint.queued_bytes == 0);
        match &mut endpoint.phase {
            Phase::Closing { end_sent, peer_ended } if empty && !*end_sent => {
                *end_sent = true;
                if *peer_ended {
                    self.end(conn, "closed by this side");
                } else if let Some(peer) = peer {
                    self.send_segment(peer, Segment::End);
                }
            }
            Phase::Open if sent_bytes > 0 => {
                let stats = &mut self.nodes[node].stats;
                stats.bytes_sent += sent_bytes as u64;
                stats.sends += 1;
                // The real loop makes no turn of it either.
                if !is_new || !empty || self.nodes[node].heeds_sent {
                    self.tell(node, Inbox::Sent(conn));
                }
            }
            _ => {}
        }
    }

    /// Notes that the handler of `conn` has taken bytes: the sender may send more.
    pub(crate) fn credit(&mut self, conn: ConnId, bytes: usize) {
        let Some(peer) = self.endpoints.get(&conn).and_then(|endpoint| endpoint.peer) else { return };
        let Some(sender) = self.endpoints.get_mut(&peer) else { return };
        sender.unread_bytes -= bytes;
        self.pump_on(peer);
    }

    pub(crate) fn discard_inbound(&mut self, conn: ConnId) {
        let Some(endpoint) = self.endpoints.get_mut(&conn) else { return };
        let bytes = endpoint.inbound.drain(..).map(|piece| piece.len()).sum();
        self.credit(conn, bytes);
    }

    /// Removes a connection with its last event. The peer sees the end of the stream behind the bytes that were sent.
    pub(crate) fn end(&mut self, conn: ConnId, cause: &str) {
        let Some(endpoint) = self.endpoints.remove(&conn) else { return };
        self.nodes[endpoint.node].connections -= 1;
        let last = if endpoint.phase == Phase::Connecting {
            let error = io::Error::new(io::ErrorKind::ConnectionAborted, cause.to_owned());
            Event::Connected { conn, result: Err(error) }
        } else {
            Event::Closed { conn, cause: cause.to_owned() }
        };
        self.tell(endpoint.node, Inbox::Event(last));
        if let Some(peer) = endpoint.peer {
            self.send_segment(peer, Segment::End);
        }
    }

    /// Begins the attempts to reach a peer that lost its power.
    fn retry(&mut self, conn: ConnId) {
        let since = self.clock;
        let endpoint = self.endpoints.get_mut(&conn).expect("an orphan exists");
        if !std::mem::replace(&mut endpoint.retrying, true) {
            self.schedule(since + self.config.retransmit_after, Happening::Orphan { conn, since });
        }
    }

    /// Tries once more to send to a peer that lost its power.
    pub(crate) fn orphan_tries(&mut self, conn: ConnId, since: Duration) {
        let Some(endpoint) = self.endpoints.get(&conn) else { return };
        let (here, there) = (endpoint.node, endpoint.peer_node);
        let answers = self.nodes[there].powered && !self.is_blocked(here, there) && !self.is_blocked(there, here);
        if answers {
            self.end(conn, &io::Error::from_raw_os_error(libc::ECONNRESET).to_string());
        } else if self.clock - since >= self.config.tcp_timeout {
            self.end(conn, &io::Error::from_raw_os_error(libc::ETIMEDOUT).to_string());
        } else {
            self.schedule(self.clock + self.config.retransmit_after, Happening::Orphan { conn, since });
        }
    }

    /// Drops all connections of a node whose process has ended. Its kernel tells the peers, unless the power fails.
    pub(crate) fn drop_connections(&mut self, node: usize, power_fails: bool) {
        let conns: Vec<ConnId> =
            self.endpoints.iter().filter(|(_, endpoint)| endpoint.node == node).map(|(conn, _)| *conn).collect();
        for conn in conns {
            let endpoint = self.endpoints.remove(&conn).expect("just listed");
            let Some(peer) = endpoint.peer else { continue };
            if !power_fails {
                let segment = if self.rng.one_in(2) { Segment::Reset } else { Segment::End };
                self.send_segment(peer, segment);
            } else if let Some(peer) = self.endpoints.get_mut(&peer) {
                (peer.peer, peer.orphaned) = (None, true);
                if peer.queued_bytes > 0 || peer.unread_bytes > 0 {
                    let conn = endpoint.peer.expect("just found");
                    self.retry(conn);
                }
            }
        }
        self.nodes[node].connections = 0;
        for addr in std::mem::take(&mut self.nodes[node].listeners).into_values() {
            self.listeners.remove(&addr);
        }
    }
}

/// Up to `len_max` bytes from the front, joined if the pieces are small.
fn take_front(pieces: &mut VecDeque<Bytes>, len_max: usize) -> Bytes {
    let mut front = pieces.pop_front().expect("there are queued bytes");
    if front.len() > len_max {
        let head = front.split_to(len_max);
        pieces.push_front(front);
        return head;
    }
    if pieces.is_empty() || front.len() == len_max {
        return front;
    }
    pieces.push_front(front);
    let mut out = Vec::new();
    while let Some(piece) = pieces.front_mut() {
        let len = piece.len().min(len_max - out.len());
        out.extend_from_slice(&piece[..len]);
        piece.advance(len);
        if !piece.is_empty() {
            break;
        }
        pieces.pop_front();
    }
    Bytes::from(out)
}
