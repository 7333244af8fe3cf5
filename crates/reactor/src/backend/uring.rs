//! io_uring: one ring, entered once per turn.
//!
//! Alternatives that were measured with `examples/echo_bench` on Linux 6.18 over loopback, and left out: multishot
//! receives save less than 5 % of a small message, and take the beginning of a bulk away from its buffer; a `sendmsg`
//! call per connection costs the same with one connection and a fifth more with 64; registered descriptors instead of
//! plain ones could save 1 %.

use super::buf_ring::{BUFFER_GROUP, BufRing};
use super::{CALL_BYTES_MAX, Completion, DiskCall, OpId, OpKind};
use crate::{Config, Stats, Waker};
use io_uring::types::{CancelBuilder, Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use socket2::SockAddr;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};
use types::AlignedBuf;

/// Flag that makes a receive wait for readiness before its first attempt (`IORING_RECVSEND_POLL_FIRST`).
const POLL_FIRST: u16 = 1;

/// Longest time that [`Uring::drain`] waits for operations that cannot be cancelled, such as a write that the drive has
/// begun.
const DRAIN_TIME: Duration = Duration::from_secs(30);

pub(crate) struct Uring {
    ring: IoUring,
    /// Entries that found the submission queue full.
    backlog: VecDeque<squeue::Entry>,
    buffers: BufRing,
    receive_buffer_bytes: u32,
    waker: Waker,
    /// Memory for the waker's count, which the kernel writes. Boxed, so that it stays in place.
    wake_count: Box<[u8; 8]>,
    /// Number of operations without their last completion, those in the backlog included.
    in_flight: usize,
    /// A completion that was taken from the ring and not returned yet.
    peeked: Option<Completion>,
    drained: bool,
}

impl Uring {
    /// Makes a ring. Errors: the kernel's, where io_uring is forbidden (`EPERM`), absent (`ENOSYS`) or too old
    /// (`EINVAL`).
    pub(crate) fn new(config: &Config, waker: Waker) -> io::Result<Uring> {
        let ring = build_ring(config.queue_entries)?;
        let buffers = BufRing::register(&ring.submitter(), config.receive_buffers, config.receive_buffer_bytes)?;
        let mut uring = Uring {
            ring,
            backlog: VecDeque::new(),
            buffers,
            receive_buffer_bytes: config.receive_buffer_bytes as u32,
            waker,
            wake_count: Box::new([0; 8]),
            in_flight: 0,
            peeked: None,
            drained: false,
        };
        uring.await_wake();
        Ok(uring)
    }

    fn await_wake(&mut self) {
        let fd = Fd(self.waker.fd().as_raw_fd());
        let entry = opcode::Read::new(fd, self.wake_count.as_mut_ptr(), 8).build();
        self.push(OpId::new(OpKind::Wake, 0), entry);
    }

    /// Queues an entry. All callers promise that its memory and descriptor outlive it.
    fn push(&mut self, op: OpId, entry: squeue::Entry) {
        self.in_flight += 1;
        let entry = entry.user_data(op.0);
        if !self.backlog.is_empty() || !self.try_push(&entry) {
            self.backlog.push_back(entry);
        }
    }

    fn try_push(&mut self, entry: &squeue::Entry) -> bool {
        #[allow(unsafe_code)]
        // SAFETY: the callers of `push` keep memory and descriptor valid until completion: the memory is in slots that
        // are not freed before, and `drain` waits for all operations.
        unsafe {
            self.ring.submission().push(entry).is_ok()
        }
    }

    fn fill_from_backlog(&mut self) {
        while let Some(entry) = self.backlog.front().cloned() {
            if !self.try_push(&entry) {
                break;
            }
            self.backlog.pop_front();
        }
    }

    pub(crate) fn accept(&mut self, op: OpId, fd: RawFd) {
        self.push(op, opcode::AcceptMulti::new(Fd(fd)).flags(libc::SOCK_CLOEXEC).build());
    }

    /// # Safety
    /// See [`super::Backend::connect`].
    #[allow(unsafe_code)]
    pub(crate) unsafe fn connect(&mut self, op: OpId, fd: RawFd, addr: &SockAddr) {
        self.push(op, opcode::Connect::new(Fd(fd), addr.as_ptr().cast(), addr.len()).build());
    }

    pub(crate) fn receive(&mut self, op: OpId, fd: RawFd, likely_empty: bool) {
        let flags = if likely_empty { POLL_FIRST } else { 0 };
        let len = self.receive_buffer_bytes;
        let receive = opcode::Recv::new(Fd(fd), std::ptr::null_mut(), len).buf_group(BUFFER_GROUP).ioprio(flags);
        self.push(op, receive.build().flags(squeue::Flags::BUFFER_SELECT));
    }

    /// # Safety
    /// See [`super::Backend::receive_bulk`].
    #[allow(unsafe_code)]
    pub(crate) unsafe fn receive_bulk(&mut self, op: OpId, fd: RawFd, ptr: *mut u8, len: usize) {
        let len = len.min(CALL_BYTES_MAX) as u32;
        // With `MSG_WAITALL` the kernel goes on until all bytes are there: one completion per payload.
        self.push(op, opcode::Recv::new(Fd(fd), ptr, len).flags(libc::MSG_WAITALL).build());
    }

    /// # Safety
    /// See [`super::Backend::send`].
    #[allow(unsafe_code)]
    pub(crate) unsafe fn send(&mut self, op: OpId, fd: RawFd, message: *const libc::msghdr) {
        const FLAGS: i32 = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
        // SAFETY: the caller promises that message and vector are valid.
        let (first, count) = unsafe { (*(*message).msg_iov, (*message).msg_iovlen) };
        if count == 1 && first.iov_len <= CALL_BYTES_MAX {
            let send = opcode::Send::new(Fd(fd), first.iov_base.cast(), first.iov_len as u32);
            self.push(op, send.flags(FLAGS).build());
        } else {
            self.push(op, opcode::SendMsg::new(Fd(fd), message).flags(FLAGS as u32).build());
        }
    }

    /// # Safety
    /// See [`super::Backend::disk`].
    #[allow(unsafe_code)]
    pub(crate) unsafe fn disk(&mut self, op: OpId, fd: RawFd, call: DiskCall) {
        let fd = Fd(fd);
        let entry = match call {
            DiskCall::Read { offset, ptr, len } => {
                opcode::Read::new(fd, ptr, len.min(CALL_BYTES_MAX) as u32).offset(offset).build()
            }
            DiskCall::Write { offset, iovecs, count } => {
                // SAFETY: the caller promises at least one valid element.
                let first = unsafe { *iovecs };
                if count == 1 {
                    let len = first.iov_len.min(CALL_BYTES_MAX) as u32;
                    opcode::Write::new(fd, first.iov_base.cast_const().cast(), len).offset(offset).build()
                } else {
                    opcode::Writev::new(fd, iovecs, count as u32).offset(offset).build()
                }
            }
            DiskCall::Flush => opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build(),
            DiskCall::Discard { offset, len } => opcode::Fallocate::new(fd, len)
                .offset(offset)
                .mode(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE)
                .build(),
        };
        self.push(op, entry);
    }

    pub(crate) fn cancel(&mut self, fd: RawFd) {
        let cancel = opcode::AsyncCancel2::new(CancelBuilder::fd(Fd(fd)).all()).build();
        self.push(OpId::new(OpKind::Ignored, 0), cancel);
    }

    pub(crate) fn wait(&mut self, timeout: Option<Duration>, stats: &mut Stats) -> io::Result<()> {
        self.fill_from_backlog();
        while !self.backlog.is_empty() {
            stats.enters += 1;
            if !self.enter(Some(Duration::ZERO))? {
                // The kernel takes no more entries until completions are reaped.
                return Ok(());
            }
            self.fill_from_backlog();
        }
        stats.enters += 1;
        self.enter(timeout).map(drop)
    }

    /// Submits queued entries and waits for a completion. False if no entry could be submitted.
    fn enter(&mut self, timeout: Option<Duration>) -> io::Result<bool> {
        let queued = self.ring.submission().len();
        let entered = match timeout {
            None => self.ring.submitter().submit_and_wait(1),
            Some(timeout) => {
                let timeout = Timespec::from(timeout);
                // The call asks for one completion even if it must not wait: only then does the kernel run work that it
                // has deferred to this call.
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timeout))
            }
        };
        match entered {
            Ok(_) => {}
            Err(error) => match error.raw_os_error() {
                // The time is over, a signal came, or completions wait to be reaped.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => {}
                _ => return Err(error),
            },
        }
        Ok(self.ring.submission().len() < queued)
    }

    pub(crate) fn ready(&mut self) -> usize {
        self.ring.completion().len() + usize::from(self.peeked.is_some())
    }

    pub(crate) fn next(&mut self) -> Option<Completion> {
        self.peeked.take().or_else(|| self.take_from_ring())
    }

    /// The completion that [`Uring::next`] returns next.
    pub(crate) fn peek(&mut self) -> Option<Completion> {
        if self.peeked.is_none() {
            self.peeked = self.take_from_ring();
        }
        self.peeked
    }

    fn take_from_ring(&mut self) -> Option<Completion> {
        let entry = self.ring.completion().next()?;
        let op = OpId(entry.user_data());
        let more = cqueue::more(entry.flags());
        if !more {
            self.in_flight -= 1;
        }
        if op.kind() == OpKind::Wake && !self.drained {
            self.waker.rearm();
            self.await_wake();
        }
        Some(Completion {
            op,
            result: entry.result(),
            more,
            buffer: cqueue::buffer_select(entry.flags()),
            more_bytes: cqueue::sock_nonempty(entry.flags()),
        })
    }

    pub(crate) fn take_buffer(&mut self, id: u16) -> AlignedBuf {
        self.buffers.take(id)
    }

    pub(crate) fn give_buffer(&mut self, id: u16, buf: AlignedBuf) {
        self.buffers.give(id, buf);
    }

    pub(crate) fn drain(&mut self) -> bool {
        self.drained = true;
        let begun = Instant::now();
        while self.in_flight > 0 && begun.elapsed() < DRAIN_TIME {
            // The cancellation is queued behind all other entries, so that it finds all of them. It is repeated for
            // operations that could not be cancelled the first time.
            self.push(OpId::new(OpKind::Ignored, 0), opcode::AsyncCancel2::new(CancelBuilder::any().all()).build());
            if self.wait(Some(Duration::from_millis(100)), &mut Stats::default()).is_err() {
                break;
            }
            while let Some(completion) = self.next() {
                if completion.op.kind() == OpKind::Accept && completion.result >= 0 {
                    close(completion.result);
                }
            }
        }
        let _ = self.ring.submitter().unregister_buf_ring(BUFFER_GROUP);
        if self.in_flight > 0 {
            std::mem::forget(std::mem::take(&mut self.wake_count));
            self.buffers.leak();
        }
        self.in_flight == 0
    }
}

/// Closes a descriptor that no connection has taken over.
fn close(fd: RawFd) {
    #[allow(unsafe_code)]
    // SAFETY: the kernel has just made this descriptor for us.
    drop(unsafe { <std::os::fd::OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(fd) });
}

/// Makes a ring with the options that this kernel offers: completions delivered only when we enter (6.1), no interrupts
/// for them (5.19).
fn build_ring(entries: u32) -> io::Result<IoUring> {
    let mut attempt = Err(io::Error::from_raw_os_error(libc::EINVAL));
    for level in 0..3 {
        let mut builder = IoUring::builder();
        builder.dontfork().setup_clamp().setup_cqsize(entries.saturating_mul(4)).setup_submit_all();
        match level {
            0 => builder.setup_single_issuer().setup_defer_taskrun(),
            1 => builder.setup_coop_taskrun(),
            _ => &mut builder,
        };
        attempt = builder.build(entries);
        match &attempt {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            _ => return attempt,
        }
    }
    attempt
}
