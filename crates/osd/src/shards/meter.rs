//! Numbers that the front and a worker show each other.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Each number is written by one side and read by the other now and then. Only `queued_bytes` and `answering_bytes` are
/// changed by both sides. No number depends on another, but for `answering_bytes` and `unsent_bytes`: bytes go from the
/// former to the latter, and are in both for a moment.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// Written by the worker: true if nothing more is to be read from clients, or from other OSDs.
    holds_clients: AtomicBool,
    holds_peers: AtomicBool,
    /// Written by the worker: true if clients' requests and answers hold as much as they may.
    is_full: AtomicBool,
    /// Written by the worker: bytes that clients' requests and answers hold.
    client_bytes: AtomicUsize,
    /// Written by the worker: microseconds for which the drive has owed it an answer.
    disk_wait_us: AtomicU64,
    /// Written by the front: the worker's part of the bytes that the network has not taken yet.
    unsent_bytes: AtomicUsize,
    /// Bytes of answers on their way from the worker to the front's next look at the network. The worker adds to them,
    /// the front takes from them.
    answering_bytes: AtomicUsize,
    /// Bytes of payload on their way to the worker. The front adds to them, the worker takes from them.
    queued_bytes: AtomicUsize,
}

impl Meter {
    /// Sets both holds. Returns true if one of them ends.
    pub fn set_holds(&self, clients: bool, peers: bool) -> bool {
        let freed = |now: bool, flag: &AtomicBool| flag.swap(now, Ordering::AcqRel) && !now;
        freed(clients, &self.holds_clients) | freed(peers, &self.holds_peers)
    }

    pub fn holds_clients(&self) -> bool {
        self.holds_clients.load(Ordering::Acquire)
    }

    pub fn holds_peers(&self) -> bool {
        self.holds_peers.load(Ordering::Acquire)
    }

    pub fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::SeqCst);
    }

    pub fn is_full(&self) -> bool {
        self.is_full.load(Ordering::SeqCst)
    }

    pub fn set_client_bytes(&self, bytes: usize) {
        self.client_bytes.store(bytes, Ordering::Relaxed);
    }

    pub fn client_bytes(&self) -> usize {
        self.client_bytes.load(Ordering::Relaxed)
    }

    pub fn set_disk_wait(&self, wait: Duration) {
        self.disk_wait_us.store(wait.as_micros() as u64, Ordering::Relaxed);
    }

    pub fn disk_wait(&self) -> Duration {
        Duration::from_micros(self.disk_wait_us.load(Ordering::Relaxed))
    }

    /// Notes that the worker has given answers of so many bytes.
    pub fn answered(&self, bytes: usize) {
        self.answering_bytes.fetch_add(bytes, Ordering::SeqCst);
    }

    /// Sets the worker's part of the bytes that the network has not taken yet. `arrived`: bytes of the worker's answers
    /// that are counted so for the first time. Returns true if its answers hold less than the worker may have seen, and
    /// it may wait for that.
    pub fn set_unsent_bytes(&self, bytes: usize, arrived: usize) -> bool {
        let before = self.unsent_bytes.swap(bytes, Ordering::SeqCst);
        self.answering_bytes.fetch_sub(arrived, Ordering::SeqCst);
        // The worker may have counted what arrived twice.
        (arrived > 0 || bytes < before) && self.is_full()
    }

    /// Bytes of the worker's answers that the network has not taken yet, on their way to it or by the last look at it.
    pub fn unsent_bytes(&self) -> usize {
        // In this order: what arrives between the two is counted twice, and never not at all.
        let answering = self.answering_bytes.load(Ordering::SeqCst);
        answering + self.unsent_bytes.load(Ordering::SeqCst)
    }

    pub fn answering_bytes(&self) -> usize {
        self.answering_bytes.load(Ordering::SeqCst)
    }

    pub fn queued(&self, bytes: usize) {
        self.queued_bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    pub fn taken(&self, bytes: usize) {
        self.queued_bytes.fetch_sub(bytes, Ordering::AcqRel);
    }

    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_when_something_is_free_again() {
        let meter = Meter::default();
        assert!(!meter.set_holds(true, false) && meter.holds_clients());
        assert!(!meter.set_holds(true, true) && meter.holds_peers());
        assert!(meter.set_holds(true, false) && !meter.holds_peers());
        assert!(meter.set_holds(false, true) && !meter.holds_clients());
    }

    #[test]
    fn a_worker_that_is_full_is_told_once_the_network_takes_something() {
        let meter = Meter::default();
        assert!(!meter.set_unsent_bytes(100, 0) && !meter.set_unsent_bytes(90, 0), "it waits for nothing");
        meter.set_full(true);
        assert!(!meter.set_unsent_bytes(90, 0) && !meter.set_unsent_bytes(100, 0), "nothing was taken");
        assert!(meter.set_unsent_bytes(99, 0) && meter.unsent_bytes() == 99);
    }

    #[test]
    fn answers_count_from_when_they_are_given() {
        let meter = Meter::default();
        meter.set_full(true);
        meter.answered(50);
        meter.answered(20);
        assert_eq!((meter.unsent_bytes(), meter.answering_bytes()), (70, 70));
        assert!(meter.set_unsent_bytes(50, 50), "the worker may have seen 120");
        assert_eq!((meter.unsent_bytes(), meter.answering_bytes()), (70, 20));
        assert!(meter.set_unsent_bytes(60, 20), "a part of it");
        assert_eq!((meter.unsent_bytes(), meter.answering_bytes()), (60, 0));
    }
}
