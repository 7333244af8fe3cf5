//! Pace at which objects are sent to where they are missing, so that clients hardly feel it.
//!
//! Every OSD watches how long its clients' operations take and compares times in which objects are on their way with
//! quiet ones: those before, and a short slot every few seconds in which no OSD sends any. All OSDs keep the same
//! slots, by their wall clocks, so that what is measured in them is without the others' too. From the difference
//! follows the rate: it falls quickly when clients wait, grows slowly when they do not, and without clients there is
//! none.

use std::time::Duration;

/// Beginning with every multiple of this since 1970, nothing is sent for a while.
const SLOT_EVERY: Duration = Duration::from_secs(4);
const SLOT: Duration = Duration::from_millis(160);
/// Time after which pieces that were on their way when the slot began have arrived.
const SLOT_SETTLES: Duration = Duration::from_millis(60);
const _: () = assert!(
    SLOT_SETTLES.as_millis() < SLOT.as_millis() && 10 * SLOT.as_millis() < SLOT_EVERY.as_millis(),
    "a slot shows how fast operations are without pieces beside them, and takes little of the time"
);
/// Time without anything sent after which times are quiet again.
const QUIET_AFTER: Duration = Duration::from_millis(500);
/// Time without an operation after which there are no clients to speak of.
const NOBODY_AFTER: Duration = Duration::from_secs(1);
const ADJUST_EVERY: Duration = Duration::from_millis(250);
/// Clients may wait longer by this factor: above the second the rate falls, below the first it grows.
const CALM: f64 = 1.10;
const DISTURBED: f64 = 1.25;
const _: () = assert!(1.0 < CALM && CALM < DISTURBED, "the rate does not grow and fall at once");
/// Bytes per second. The least brings 1 TiB to its place in 9 hours where five others send.
const RATE_MIN: f64 = (8 << 20) as f64;
const RATE_MAX: f64 = (8u64 << 30) as f64;
/// Rate at the beginning, while there are clients.
const RATE_FIRST: f64 = (32 << 20) as f64;
const _: () = assert!(RATE_MIN < RATE_FIRST && RATE_FIRST < RATE_MAX, "the rate is clamped to this range");
/// An object costs as much as so many bytes, beside its bytes.
const OBJECT_BYTES: u64 = 16 << 10;
/// Operations that an average remembers, about.
const REMEMBERED_QUIET: f64 = 200.0;
const REMEMBERED_BUSY: f64 = 50.0;
/// Operations that an average needs before it counts.
const ENOUGH: f64 = 8.0;
/// Small reads, small updates, large reads, large updates: their times do not compare.
const KINDS: usize = 4;
const LARGE_BYTES: u64 = 64 << 10;

/// Mean of the logarithms of times, so that a few very slow operations do not decide.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    count: f64,
    mean: f64,
}

impl Level {
    fn add(&mut self, value: f64, remembered: f64) {
        self.count = (self.count + 1.0).min(remembered);
        self.mean += (value - self.mean) / self.count;
    }
}

/// Present state of the pacing, as it is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacingView {
    /// Absent if nothing limits what this OSD sends.
    pub limit_bytes_per_s: Option<u64>,
    /// Against quiet times; absent if that is not known.
    pub clients_slowed_by_percent: Option<i64>,
}

#[derive(Debug)]
pub(crate) struct Pacing {
    now: Duration,
    /// The wall clock when `now` is zero, as time since 1970.
    unix_zero: Duration,
    quiet: [Level; KINDS],
    busy: [Level; KINDS],
    /// Times when something was sent last, and when an operation was answered last.
    last_sent: Option<Duration>,
    last_answered: Option<Duration>,
    adjusted: Duration,
    /// Bytes since then.
    sent: u64,
    rate: f64,
    /// Bytes that may be sent now; below zero after a large piece.
    tokens: f64,
    filled: Duration,
    /// Pause behind each object, and the end of the present one.
    pause: Duration,
    pause_ends: Duration,
}

impl Default for Pacing {
    fn default() -> Pacing {
        Pacing {
            now: Duration::ZERO,
            unix_zero: Duration::ZERO,
            quiet: Default::default(),
            busy: Default::default(),
            last_sent: None,
            last_answered: None,
            adjusted: Duration::ZERO,
            sent: 0,
            rate: RATE_MAX,
            tokens: 0.0,
            filled: Duration::ZERO,
            pause: Duration::ZERO,
            pause_ends: Duration::ZERO,
        }
    }
}

impl Pacing {
    pub fn set_time(&mut self, now: Duration) {
        self.now = now;
    }

    pub fn set_wall_clock(&mut self, at_zero: Duration) {
        self.unix_zero = at_zero;
    }

    /// Sets the pause behind each object, which an operator wants. A pause that has begun ends at once.
    pub fn set_pause(&mut self, pause: Duration) {
        (self.pause, self.pause_ends) = (pause, Duration::ZERO);
    }

    /// Counts a client's operation that was answered.
    pub fn answered(&mut self, took: Duration, bytes: u64, is_update: bool) {
        let kind = usize::from(is_update) + 2 * usize::from(bytes > LARGE_BYTES);
        let value = took.as_secs_f64().max(1e-6).ln();
        self.last_answered = Some(self.now);
        match self.is_quiet() {
            Some(true) => self.quiet[kind].add(value, REMEMBERED_QUIET),
            Some(false) => self.busy[kind].add(value, REMEMBERED_BUSY),
            None => {}
        }
    }

    /// Returns `Ok` if a piece may be sent now; else the time at which to ask again.
    pub fn may_send(&mut self) -> Result<(), Duration> {
        if self.now < self.pause_ends {
            return Err(self.pause_ends);
        }
        let in_slot = self.in_slot();
        if in_slot < SLOT && self.has_clients() {
            return Err(self.now + (SLOT - in_slot));
        }
        if self.is_over() {
            // A new time of healing begins.
            self.rate = if self.has_clients() { RATE_FIRST } else { RATE_MAX };
            (self.busy, self.tokens, self.filled) = (Default::default(), 0.0, self.now);
            (self.adjusted, self.sent) = (self.now, 0);
        }
        self.adjust();
        let room = self.rate * 0.05;
        self.tokens = (self.tokens + self.rate * (self.now - self.filled).as_secs_f64()).min(room);
        self.filled = self.now;
        if self.tokens >= 0.0 {
            return Ok(());
        }
        Err(self.now + Duration::from_secs_f64(-self.tokens / self.rate).max(Duration::from_micros(500)))
    }

    /// Counts a piece that was sent.
    pub fn sent(&mut self, bytes: u64, is_last: bool) {
        let cost = bytes + if is_last { OBJECT_BYTES } else { 0 };
        self.sent += cost;
        self.tokens -= cost as f64;
        self.last_sent = Some(self.now);
        if is_last {
            self.pause_ends = self.now + self.pause;
        }
    }

    pub fn view(&self) -> PacingView {
        let slowed = self.disturbance().map(|ratio| ((ratio - 1.0) * 100.0).round() as i64);
        PacingView {
            limit_bytes_per_s: (!self.is_over() && self.rate < RATE_MAX).then_some(self.rate as u64),
            clients_slowed_by_percent: slowed.filter(|_| !self.is_over()),
        }
    }

    fn in_slot(&self) -> Duration {
        let wall = (self.unix_zero + self.now).as_nanos() % SLOT_EVERY.as_nanos();
        Duration::from_nanos(wall as u64)
    }

    fn is_over(&self) -> bool {
        self.last_sent.is_none_or(|at| self.now.saturating_sub(at) > QUIET_AFTER)
    }

    fn has_clients(&self) -> bool {
        let known = |levels: &[Level; KINDS]| levels.iter().any(|level| level.count >= ENOUGH);
        known(&self.quiet) && self.last_answered.is_some_and(|at| self.now.saturating_sub(at) < NOBODY_AFTER)
    }

    /// Returns `Some(true)` if operations that are answered now take as long as they do by themselves, `Some(false)` if
    /// healing slows them down, `None` if neither is certain.
    fn is_quiet(&self) -> Option<bool> {
        if self.is_over() {
            return Some(true);
        }
        match self.in_slot() {
            at if at < SLOT_SETTLES => None,
            at if at < SLOT => Some(true),
            at if at < SLOT + SLOT_SETTLES => None,
            _ => Some(false),
        }
    }

    /// Returns how much longer operations take than in quiet times; `None` if that is not known.
    fn disturbance(&self) -> Option<f64> {
        let known = self.busy.iter().zip(&self.quiet).filter(|(b, q)| b.count >= ENOUGH && q.count >= ENOUGH);
        let (weight, sum) = known.fold((0.0, 0.0), |(weight, sum), (busy, quiet)| {
            (weight + busy.count, sum + busy.count * (busy.mean - quiet.mean))
        });
        (weight > 0.0).then(|| (sum / weight).exp())
    }

    fn adjust(&mut self) {
        let passed = self.now.saturating_sub(self.adjusted);
        if passed < ADJUST_EVERY {
            return;
        }
        let reached = self.sent as f64 / passed.as_secs_f64();
        let limits = reached > self.rate * 0.5;
        let factor = match self.disturbance() {
            _ if !self.has_clients() => 2.0,
            Some(ratio) if ratio > DISTURBED => 0.75,
            Some(ratio) if ratio > CALM => 1.0,
            _ => 1.25,
        };
        if factor < 1.0 {
            // A rate that was allowed beyond what is possible says nothing.
            self.rate = self.rate.min(reached.max(RATE_MIN)) * factor;
            // Operations that are answered from now on are measured at the new rate.
            self.busy.iter_mut().for_each(|level| level.count = level.count.min(ENOUGH));
        } else if limits {
            self.rate *= factor;
        }
        self.rate = self.rate.clamp(RATE_MIN, RATE_MAX);
        (self.adjusted, self.sent) = (self.now, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs healing for some seconds beside clients' operations, whose time grows with the rate. Returns what was sent
    /// in the last quarter, in bytes per second.
    fn run(seconds: u64, ops_per_s: u64, capacity: f64, latency: impl Fn(f64) -> f64) -> f64 {
        let mut pacing = Pacing::default();
        pacing.set_wall_clock(Duration::from_millis(1_700_000_000_123));
        let ms = Duration::from_millis(1);
        let mut recent = std::collections::VecDeque::from([0u64; 50]);
        let (before, end) = (10_000, 10_000 + seconds * 1000);
        let (mut retry, mut late) = (Duration::ZERO, 0);
        for t in 0..end {
            pacing.set_time(ms * t as u32);
            let mut sent = 0;
            while t >= before && pacing.now >= retry && (sent as f64) < capacity / 1000.0 {
                match pacing.may_send() {
                    Ok(()) => {
                        pacing.sent(1 << 20, true);
                        sent += 1 << 20;
                    }
                    Err(at) => retry = at,
                }
            }
            recent.pop_front();
            recent.push_back(sent);
            late += if t >= end - seconds * 250 { sent } else { 0 };
            let load = recent.iter().sum::<u64>() as f64 * 20.0;
            if ops_per_s > 0 && t % (1000 / ops_per_s) == 0 {
                pacing.answered(Duration::from_secs_f64(latency(load)), 4096, t % 3 == 0);
            }
        }
        late as f64 / (seconds as f64 / 4.0)
    }

    #[test]
    fn nobody_waits_so_nothing_is_held_back() {
        let rate = run(8, 0, 1e9, |_| 0.0);
        assert!(rate > 0.9e9, "{rate}");
    }

    #[test]
    fn clients_that_feel_nothing_do_not_hinder() {
        let rate = run(40, 100, 1e9, |_| 1e-3);
        assert!(rate > 0.6e9, "{rate}");
    }

    #[test]
    fn the_rate_goes_where_clients_hardly_feel_it() {
        // Clients' operations take a quarter longer at 100 MB/s.
        let rate = run(60, 100, 1e9, |load| 1e-3 * (1.0 + load / 400e6));
        assert!((40e6..130e6).contains(&rate), "{rate}");
    }

    #[test]
    fn the_least_is_always_sent() {
        let rate = run(40, 100, 1e9, |load| if load > 0.0 { 1.0 } else { 1e-3 });
        assert!((0.7 * RATE_MIN..1.2 * RATE_MIN).contains(&rate), "{rate}");
    }

    #[test]
    fn an_operator_s_pause_is_kept_behind_each_object_and_not_within_one() {
        let mut pacing = Pacing::default();
        let second = Duration::from_secs(1);
        pacing.set_pause(second);
        pacing.set_time(10 * second);
        assert_eq!(pacing.may_send(), Ok(()));
        pacing.sent(4096, false);
        pacing.set_time(11 * second);
        assert_eq!(pacing.may_send(), Ok(()), "the object is not whole yet");
        pacing.sent(4096, true);
        pacing.set_time(11 * second + second / 2);
        assert_eq!(pacing.may_send(), Err(12 * second));
        pacing.set_time(12 * second);
        assert_eq!(pacing.may_send(), Ok(()));
        pacing.sent(4096, true);
        pacing.set_time(12 * second + second / 2);
        pacing.set_pause(Duration::ZERO);
        assert_eq!(pacing.may_send(), Ok(()), "the operator wants none any more");
    }
}
