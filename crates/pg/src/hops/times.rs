//! The stamps of one operation on its primary.

use std::time::Duration;
use store::CommitTimes;

/// Microseconds since the first byte of an operation came. Stands still after 71 minutes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Stamp(pub u32);

impl Stamp {
    /// Stamp of an event that has not happened (yet).
    pub const NEVER: Stamp = Stamp(u32::MAX);

    pub fn happened(self) -> bool {
        self != Stamp::NEVER
    }
}

/// Why an operation was not begun as soon as it had come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WaitReasons(u8);

impl WaitReasons {
    /// Clients' operations held as much memory as they may.
    pub const MEMORY: WaitReasons = WaitReasons(1);
    /// The client had a newer map.
    pub const MAP: WaitReasons = WaitReasons(2);
    /// The placement group did not serve.
    pub const INACTIVE: WaitReasons = WaitReasons(4);

    pub fn add(&mut self, reason: WaitReasons) {
        self.0 |= reason.0;
    }

    pub fn has(self, reason: WaitReasons) -> bool {
        self.0 & reason.0 != 0
    }
}

/// Times of what happened to an operation. Small and copied with it: every operation has this, whether it is kept or
/// not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OpTimes {
    /// The first byte of its message came.
    pub began: Duration,
    /// The message was whole.
    pub whole: Stamp,
    /// Stamp of the beginning of its first run.
    pub started: Stamp,
    /// Stamp of the end of its last run: a read has its bytes, an update is with the store and on its way to the other
    /// members.
    pub executed: Stamp,
    /// The update's writes went to this OSD's device, were done, and were made durable.
    pub handed_over: Stamp,
    pub written: Stamp,
    pub durable: Stamp,
    /// Between runs: waiting for metadata, and for data.
    pub lookup_us: u32,
    pub read_us: u32,
    blocked: Stamp,
    pub waits: WaitReasons,
    /// The operation was chosen to be kept, however long it takes.
    pub sampled: bool,
}

impl OpTimes {
    pub fn new(began: Duration, whole: Duration) -> OpTimes {
        let mut times = OpTimes {
            began: began.min(whole),
            whole: Stamp(0),
            started: Stamp::NEVER,
            executed: Stamp::NEVER,
            handed_over: Stamp::NEVER,
            written: Stamp::NEVER,
            durable: Stamp::NEVER,
            lookup_us: 0,
            read_us: 0,
            blocked: Stamp::NEVER,
            waits: WaitReasons::default(),
            sampled: false,
        };
        times.whole = times.stamp(whole);
        times
    }

    pub fn stamp(&self, at: Duration) -> Stamp {
        let us = at.saturating_sub(self.began).as_micros();
        Stamp(u32::try_from(us).unwrap_or(u32::MAX).min(u32::MAX - 1))
    }

    /// Notes that a run begins.
    pub fn run(&mut self, now: Duration) {
        if !self.started.happened() {
            self.started = self.stamp(now);
        }
    }

    pub fn blocked(&mut self, now: Duration) {
        self.blocked = self.stamp(now);
    }

    /// Notes that the object's bytes (`is_data`), or the metadata, that blocked a run are there.
    pub fn unblocked(&mut self, now: Duration, is_data: bool) {
        if self.blocked.happened() {
            let waited = self.stamp(now).0.saturating_sub(self.blocked.0);
            let sum = if is_data { &mut self.read_us } else { &mut self.lookup_us };
            *sum = sum.saturating_add(waited);
            self.blocked = Stamp::NEVER;
        }
    }

    pub fn executed(&mut self, now: Duration) {
        self.executed = self.stamp(now);
    }

    pub fn committed(&mut self, times: &CommitTimes) {
        self.handed_over = self.stamp(times.handed_over);
        self.written = self.stamp(times.written);
        self.durable = self.stamp(times.durable);
    }
}
