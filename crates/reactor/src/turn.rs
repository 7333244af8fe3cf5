//! One turn of the loop: from completions to events.

use crate::backend::{Completion, OpKind};
use crate::conn::{Conn, Phase};
use crate::disk::Progress;
use crate::loop_io::{Local, LoopIo, TimerKey};
use crate::{ConnId, Event, Handler, ListenerId, sockets};
use socket2::Socket;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// One turn in this many times each of its handler calls.
const SAMPLE_EVERY: u64 = 16;
/// A turn ends after so many reads from files, so that the requests that follow from them are submitted before the rest
/// is handled. Drives finish reads in batches; handling a whole batch at once would leave the drive idle meanwhile.
const READS_PER_TURN: usize = 8;

impl LoopIo {
    pub(crate) fn run<H: Handler<LoopIo>>(&mut self, handler: &mut H) -> io::Result<()> {
        self.stopped = false;
        self.now = self.started.elapsed();
        let mut turn_began = self.now;
        loop {
            self.waits += 1;
            self.start_sends();
            let before = self.started.elapsed();
            self.stats.turn_longest = self.stats.turn_longest.max(before.saturating_sub(turn_began));
            let timeout = self.time_to_wait(before);
            self.backend.wait(timeout, &mut self.stats)?;
            if self.stopped {
                self.backend.push_out();
                return Ok(());
            }
            turn_began = self.started.elapsed();
            if !handler.heeds_sent() && self.finish_sends() && !self.has_work(turn_began) {
                continue;
            }
            self.turn(handler);
        }
    }

    /// Finishes sends at the front of the completions that have taken all that was queued, and that were submitted
    /// after the last turn. Returns true if there were any.
    fn finish_sends(&mut self) -> bool {
        let mut any = false;
        while let Some(done) = self.backend.peek_send() {
            let conn = self.conns.at(done.op.slot());
            let is_whole = usize::try_from(done.result).is_ok_and(|bytes| bytes == conn.outgoing.bytes());
            if conn.phase != Phase::Open || conn.sent_at_wait != self.waits || !is_whole {
                break;
            }
            conn.sending = false;
            conn.outgoing.sent(done.result as usize);
            self.stats.bytes_sent += done.result as u64;
            self.stats.completions += 1;
            self.backend.next();
            any = true;
        }
        any
    }

    /// Returns true if a turn has something to do.
    fn has_work(&mut self, now: Duration) -> bool {
        self.backend.ready() > 0 || !self.local.is_empty() || self.timers.first().is_some_and(|at| at <= now)
    }

    /// Time to wait; `None` for no limit.
    fn time_to_wait(&self, now: Duration) -> Option<Duration> {
        if self.stopped || !self.local.is_empty() {
            return Some(Duration::ZERO);
        }
        self.timers.first().map(|at| at.saturating_sub(now))
    }

    fn turn<H: Handler<LoopIo>>(&mut self, handler: &mut H) {
        self.pulse.turn_begins();
        // Completions counted here have come before the time read below, however long the loop stands still after it.
        let ready = self.backend.ready();
        self.now = self.started.elapsed();
        self.stats.turns += 1;
        self.sampling = self.stats.turns.is_multiple_of(SAMPLE_EVERY);
        self.reads_done = 0;
        for _ in 0..ready {
            if self.reads_done == READS_PER_TURN {
                break;
            }
            let Some(completion) = self.backend.next() else { break };
            if self.backend.tries_when_asked() && !mutant::is(mutant::Mutant::StaleTurnTime) {
                self.now = self.started.elapsed();
            }
            self.stats.completions += 1;
            self.complete(handler, completion);
        }
        self.fire_timers(handler);
        // Events that result from these wait for the next turn, so that this one ends.
        for _ in 0..self.local.len() {
            match self.local.pop_front() {
                Some(Local::Event(event)) => self.event(handler, event),
                Some(Local::Deliver(conn)) => self.deliver_kept(handler, conn),
                None => break,
            }
        }
        self.timed(|io| handler.turn_end(io));
        self.pulse.turn_ends();
    }

    /// Times a call of the handler, in sampled turns. Only callers of this function call the handler.
    fn timed<T>(&mut self, call: impl FnOnce(&mut LoopIo) -> T) -> T {
        if !self.sampling {
            return call(self);
        }
        let begun = Instant::now();
        let result = call(self);
        self.stats.handler_longest = self.stats.handler_longest.max(begun.elapsed());
        result
    }

    fn event<H: Handler<LoopIo>>(&mut self, handler: &mut H, event: Event) {
        self.timed(|io| handler.event(io, event));
    }

    fn complete<H: Handler<LoopIo>>(&mut self, handler: &mut H, completion: Completion) {
        let slot = completion.op.slot();
        match completion.op.kind() {
            OpKind::Ignored => {}
            OpKind::Wake => self.event(handler, Event::Woken),
            OpKind::Accept => self.accepted(handler, slot, completion),
            OpKind::Connect => self.connected(handler, slot, completion.result),
            OpKind::Receive => self.received(handler, slot, completion),
            OpKind::ReceiveBulk => self.received_bulk(handler, slot, completion),
            OpKind::Send => self.sent(handler, slot, completion.result),
            OpKind::Disk => self.disk_done(handler, slot, completion.result),
        }
    }

    fn fire_timers<H: Handler<LoopIo>>(&mut self, handler: &mut H) {
        let mut due = std::mem::take(&mut self.due);
        self.timers.due(self.now, &mut due);
        for (at, key) in due.drain(..) {
            if !self.timers.take(at, key) {
                continue;
            }
            match key {
                TimerKey::Handler(token) => self.event(handler, Event::Timer { token }),
                TimerKey::Linger(conn) => {
                    if self.conns.get(conn).is_some() {
                        self.end(conn.slot(), "closed by this side; the peer did not end in time");
                    }
                }
                TimerKey::Accept(slot) => self.start_accepting(slot),
            }
        }
        self.due = due;
    }

    fn accepted<H: Handler<LoopIo>>(&mut self, handler: &mut H, slot: usize, completion: Completion) {
        let listener = self.listeners[slot].as_mut().expect("a listener stays while it accepts");
        let closing = listener.closing;
        listener.accepting = completion.more;
        let starved = listener.starved;
        if completion.result >= 0 {
            #[allow(unsafe_code)]
            // SAFETY: the kernel has just made this descriptor for us.
            let socket = Socket::from(unsafe { OwnedFd::from_raw_fd(completion.result) });
            listener.starved = false;
            if !closing {
                self.admit(handler, slot, socket);
            }
        }
        let Some(listener) = &self.listeners[slot] else { return };
        if listener.accepting {
            return;
        }
        if listener.closing {
            self.backend.forget(listener.socket.as_raw_fd());
            self.listeners[slot] = None;
            return;
        }
        match -completion.result {
            // The peer gave up meanwhile, or the kernel ended a multishot accept without an error.
            libc::ECONNABORTED | libc::EINTR | libc::EAGAIN | libc::ECANCELED | libc::EPROTO | i32::MIN..=0 => {
                self.start_accepting(slot);
            }
            errno => {
                if !starved {
                    let error = io::Error::from_raw_os_error(errno);
                    tracing::warn!(%error, "cannot accept connections; trying again until it succeeds");
                }
                self.listeners[slot].as_mut().expect("just seen").starved = true;
                self.timers.set(self.now + self.config.accept_backoff, TimerKey::Accept(slot));
            }
        }
    }

    /// Accepts a new connection, if there is room for it.
    fn admit<H: Handler<LoopIo>>(&mut self, handler: &mut H, slot: usize, socket: Socket) {
        let has_room = self.listeners[slot].as_mut().expect("a listener stays while it accepts").has_room();
        if !has_room || self.conns.len() >= self.config.connections_max {
            self.stats.refused += 1;
            return;
        }
        // The call fails if the peer is gone already.
        let Ok(peer) = socket.peer_addr().and_then(sockets::address) else { return };
        let _ = socket.set_tcp_nodelay(true);
        stdx::notice_dead_peers(&socket);
        self.stats.accepted += 1;
        let conn = self.conns.reserve();
        let mut accepted = Conn::new(conn, socket, peer.into(), Phase::Open);
        accepted.accepted_by = Some(slot);
        self.conns.insert(accepted);
        self.listeners[slot].as_mut().expect("just seen").accepted += 1;
        self.event(handler, Event::Accepted { listener: ListenerId(slot as u32), conn, peer });
        if self.conns.get(conn).is_some() {
            self.arm_receive(conn.slot());
        }
    }

    fn connected<H: Handler<LoopIo>>(&mut self, handler: &mut H, slot: usize, result: i32) {
        let conn = self.conns.at(slot);
        conn.connecting = false;
        if conn.phase == Phase::Dead {
            return self.free_if_idle(slot);
        }
        let id = conn.id;
        let local: io::Result<SocketAddr> = if result < 0 {
            Err(io::Error::from_raw_os_error(-result))
        } else {
            conn.socket.local_addr().and_then(sockets::address)
        };
        let established = local.is_ok();
        if established {
            conn.phase = Phase::Open;
            self.mark_dirty(slot);
        } else {
            self.bury(slot);
        }
        self.event(handler, Event::Connected { conn: id, result: local });
        if self.conns.get(id).is_some() {
            self.arm_receive(slot);
        }
    }

    fn received<H: Handler<LoopIo>>(&mut self, handler: &mut H, slot: usize, completion: Completion) {
        let conn = self.conns.at(slot);
        conn.receiving = false;
        conn.more_bytes = completion.more_bytes;
        let (id, phase) = (conn.id, conn.phase);
        if let Some(buffer) = completion.buffer {
            let buf = self.backend.take_buffer(buffer);
            if phase == Phase::Open && completion.result > 0 {
                let bytes = &buf.as_slice()[..completion.result as usize];
                self.stats.bytes_received += bytes.len() as u64;
                self.deliver(handler, id, bytes);
            }
            self.backend.give_buffer(buffer, buf);
        }
        self.after_receive(slot, completion.result);
    }

    fn received_bulk<H: Handler<LoopIo>>(&mut self, handler: &mut H, slot: usize, completion: Completion) {
        let conn = self.conns.at(slot);
        conn.receiving = false;
        conn.more_bytes = completion.more_bytes;
        let id = conn.id;
        if conn.phase != Phase::Open {
            conn.bulk = None;
        } else if completion.result > 0 {
            let bulk = conn.bulk.as_mut().expect("a bulk stays while it is received");
            bulk.filled += completion.result as usize;
            self.stats.bytes_received += completion.result as u64;
            self.stats.bytes_received_bulk += completion.result as u64;
            self.deliver(handler, id, &[]);
        }
        self.after_receive(slot, completion.result);
    }

    /// Starts the next receive, or ends the connection, depending on the result of a receive.
    fn after_receive(&mut self, slot: usize, result: i32) {
        match self.conns.at(slot).phase {
            Phase::Dead => return self.free_if_idle(slot),
            Phase::Connecting => panic!("bytes on a connection that is not established"),
            Phase::Open | Phase::Closing { .. } => {}
        }
        match result {
            0 => self.peer_ended(slot),
            1.. => self.arm_receive(slot),
            _ if -result == libc::ENOBUFS => {
                // The buffers will be back by the time this is submitted.
                self.stats.receive_buffers_missing += 1;
                self.conns.at(slot).more_bytes = true;
                self.arm_receive(slot);
            }
            _ if matches!(-result, libc::EINTR | libc::EAGAIN) => self.arm_receive(slot),
            _ => self.end(slot, &io::Error::from_raw_os_error(-result).to_string()),
        }
    }

    fn peer_ended(&mut self, slot: usize) {
        match &mut self.conns.at(slot).phase {
            Phase::Closing { end_sent: false, peer_ended } => *peer_ended = true,
            Phase::Closing { end_sent: true, .. } => self.end(slot, "closed by this side"),
            _ => self.end(slot, "closed by the peer"),
        }
    }

    /// Gives the handler the next bytes, and every bulk that is full or becomes so, until all bytes are taken or it
    /// wants no more for now.
    fn deliver<H: Handler<LoopIo>>(&mut self, handler: &mut H, id: ConnId, mut bytes: &[u8]) {
        let slot = id.slot();
        self.conns.at(slot).delivering = true;
        loop {
            let conn = self.conns.at(slot);
            if conn.phase != Phase::Open {
                break;
            }
            if conn.paused {
                conn.stash = bytes.to_vec();
                break;
            }
            if let Some(bulk) = &mut conn.bulk {
                let (head, rest) = bytes.split_at(bytes.len().min(bulk.buf.len() - bulk.filled));
                bulk.buf.as_mut_slice()[bulk.filled..][..head.len()].copy_from_slice(head);
                bulk.filled += head.len();
                bytes = rest;
                let Some(full) = conn.bulk.take_if(|bulk| bulk.is_full()) else { break };
                self.event(handler, Event::BulkReceived { conn: id, buf: full.buf });
                continue;
            }
            if bytes.is_empty() {
                break;
            }
            let taken = self.timed(|io| handler.received(io, id, bytes));
            assert!(taken <= bytes.len(), "handler took {taken} of {} bytes of {id:?}", bytes.len());
            let conn = self.conns.at(slot);
            let reason = conn.phase != Phase::Open || conn.paused || conn.bulk.is_some();
            assert!(taken > 0 || reason, "handler took nothing of {} bytes of {id:?}, without a reason", bytes.len());
            bytes = &bytes[taken..];
        }
        self.conns.at(slot).delivering = false;
    }

    /// Delivers bytes that were kept while reading was paused.
    fn deliver_kept<H: Handler<LoopIo>>(&mut self, handler: &mut H, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id).filter(|conn| conn.phase == Phase::Open && !conn.paused) else {
            return;
        };
        let slot = id.slot();
        if conn.receiving {
            // The bytes were delivered already: no receive starts while bytes are kept.
            assert!(conn.stash.is_empty(), "bytes of {id:?} are kept while more are received");
            return;
        }
        let kept = std::mem::take(&mut conn.stash);
        self.deliver(handler, id, &kept);
        if self.conns.get(id).is_some() {
            self.arm_receive(slot);
        } else {
            self.free_if_idle(slot);
        }
    }

    fn sent<H: Handler<LoopIo>>(&mut self, handler: &mut H, slot: usize, result: i32) {
        let conn = self.conns.at(slot);
        conn.sending = false;
        if conn.phase == Phase::Dead {
            return self.free_if_idle(slot);
        }
        if result < 0 && !matches!(-result, libc::EINTR | libc::EAGAIN) {
            return self.end(slot, &io::Error::from_raw_os_error(-result).to_string());
        }
        let bytes = result.max(0) as usize;
        conn.outgoing.sent(bytes);
        self.stats.bytes_sent += bytes as u64;
        let (id, phase, queued_bytes) = (conn.id, conn.phase, conn.outgoing.bytes());
        if queued_bytes > 0 {
            self.mark_dirty(slot);
        } else if let Phase::Closing { .. } = phase {
            return self.end_stream(slot);
        }
        if phase == Phase::Open {
            self.event(handler, Event::Sent { conn: id, queued_bytes });
        }
    }

    fn disk_done<H: Handler<LoopIo>>(&mut self, handler: &mut H, slot: usize, result: i32) {
        let request = self.requests.at(slot);
        let (is_read, is_flush) = (request.is_read(), request.is_flush());
        let done = match request.progress(result) {
            Progress::Continue => return self.submit_call(slot),
            Progress::Done(result) => result,
        };
        if let Ok(bytes) = done.as_ref() {
            match bytes {
                Some(buf) if is_read => self.stats.bytes_read += buf.len() as u64,
                _ if is_flush => self.stats.flushes += 1,
                _ => {}
            }
        }
        self.reads_done += usize::from(is_read);
        let request = self.requests.remove(slot);
        self.stats.bytes_written += request.bytes_to_write() as u64 * u64::from(done.is_ok());
        self.files.end(request.file);
        if let Some(recorder) = self.recorder.as_mut().filter(|_| !is_read) {
            recorder.done(request.file, request.io, done.is_ok());
        }
        self.event(handler, Event::Disk { io: request.io, result: done });
    }
}
