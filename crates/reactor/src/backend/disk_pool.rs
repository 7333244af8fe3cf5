//! Threads that carry out disk requests where there is no io_uring.

use super::{CALL_BYTES_MAX, DiskCall, OpId, minus_errno};
use crate::Waker;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

struct Job {
    op: OpId,
    fd: RawFd,
    call: DiskCall,
}

#[allow(unsafe_code)]
// SAFETY: the memory named by a job belongs to the job alone until its result is taken (contract of `Backend::disk`).
unsafe impl Send for Job {}

#[derive(Default)]
struct Queues {
    jobs: VecDeque<Job>,
    done: Vec<(OpId, i32)>,
    ended: bool,
}

struct Shared {
    queues: Mutex<Queues>,
    jobs_wait: Condvar,
    /// Woken when there are results.
    waker: Waker,
}

impl Shared {
    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct DiskPool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    threads_max: usize,
    outstanding: usize,
}

impl DiskPool {
    pub(crate) fn new(threads_max: usize) -> io::Result<DiskPool> {
        let shared = Shared { queues: Mutex::default(), jobs_wait: Condvar::new(), waker: Waker::new()? };
        Ok(DiskPool { shared: Arc::new(shared), threads: Vec::new(), threads_max: threads_max.max(1), outstanding: 0 })
    }

    /// The descriptor that becomes readable when there are results.
    pub(crate) fn results_fd(&self) -> RawFd {
        self.shared.waker.fd().as_raw_fd()
    }

    /// # Safety
    /// See [`super::Backend::disk`].
    #[allow(unsafe_code)]
    pub(crate) unsafe fn submit(&mut self, op: OpId, fd: RawFd, call: DiskCall) {
        self.outstanding += 1;
        if self.threads.len() < self.threads_max.min(self.outstanding) {
            let shared = self.shared.clone();
            let named = std::thread::Builder::new().name("disk".into()).spawn(move || work(&shared));
            match named {
                Ok(thread) => self.threads.push(thread),
                Err(error) if self.threads.is_empty() => panic!("no thread for disk requests: {error}"),
                Err(_) => {}
            }
        }
        self.shared.queues().jobs.push_back(Job { op, fd, call });
        self.shared.jobs_wait.notify_one();
    }

    /// Results since the last call: the operation and a count or a negative errno.
    pub(crate) fn take_results(&mut self) -> Vec<(OpId, i32)> {
        let mut count = [0; 8];
        let _ = rustix::io::read(self.shared.waker.fd(), &mut count);
        self.shared.waker.rearm();
        let results = std::mem::take(&mut self.shared.queues().done);
        self.outstanding -= results.len();
        results
    }
}

impl Drop for DiskPool {
    /// Waits for everything that was submitted.
    fn drop(&mut self) {
        self.shared.queues().ended = true;
        self.shared.jobs_wait.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn work(shared: &Shared) {
    let mut queues = shared.queues();
    loop {
        let Some(job) = queues.jobs.pop_front() else {
            if queues.ended {
                return;
            }
            queues = shared.jobs_wait.wait(queues).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        drop(queues);
        let result = perform(&job);
        queues = shared.queues();
        queues.done.push((job.op, result));
        shared.waker.wake();
    }
}

/// Makes the system call of a job. Returns the number of bytes done, or a negative errno.
fn perform(job: &Job) -> i32 {
    loop {
        #[allow(unsafe_code)]
        // SAFETY: the memory named by the job belongs to it until its result is taken, and its descriptor stays open.
        let result = unsafe {
            match job.call {
                DiskCall::Read { offset, ptr, len } => {
                    libc::pread64(job.fd, ptr.cast(), len.min(CALL_BYTES_MAX), offset as i64)
                }
                DiskCall::Write { offset, iovecs, count } => {
                    libc::pwritev64(job.fd, iovecs, count as i32, offset as i64)
                }
                DiskCall::Flush => libc::fdatasync(job.fd) as isize,
                DiskCall::Discard { offset, len } => {
                    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                    libc::fallocate64(job.fd, mode, offset as i64, len as i64) as isize
                }
            }
        };
        match if result < 0 { minus_errno() } else { result as i32 } {
            interrupted if interrupted == -libc::EINTR => {}
            result => return result,
        }
    }
}
