//! Measures for how long a drive has owed an answer.

use std::collections::VecDeque;
use std::time::Duration;

/// Requests that were given to the drive in one span of time.
struct Span {
    /// All requests of the span were made before this time; set when the span is over.
    ended: Duration,
    first_id: u64,
    outstanding: u64,
}

/// The longest time between two ticks that counts; there is one tick per second. If more has passed, this thread did
/// not run either, and the machine may have slept: the drive is not to blame.
const COUNTED_MAX: Duration = Duration::from_secs(5);

/// Counts outstanding requests by the second in which they were made. A request then costs an addition and no entry in
/// a map. Requests are made in the order of their numbers.
pub(crate) struct DiskWait {
    /// Spans, oldest first; never empty.
    spans: VecDeque<Span>,
    next_id: u64,
    ticked_at: Option<Duration>,
}

impl Default for DiskWait {
    fn default() -> DiskWait {
        let spans = [Span { ended: Duration::ZERO, first_id: 0, outstanding: 0 }].into();
        DiskWait { spans, next_id: 0, ticked_at: None }
    }
}

impl DiskWait {
    pub fn submitted(&mut self, id: u64) {
        self.next_id = id + 1;
        self.spans.back_mut().expect("never empty").outstanding += 1;
    }

    pub fn done(&mut self, id: u64) {
        let span = self.spans.iter_mut().rev().find(|span| span.first_id <= id);
        span.expect("a request that was made, and is not done").outstanding -= 1;
    }

    /// Begins a new second. Returns a time for which the oldest outstanding request has waited at least; zero if no
    /// request of earlier seconds is outstanding.
    pub fn tick(&mut self, now: Duration) -> Duration {
        let since = self.ticked_at.replace(now).map_or(Duration::ZERO, |before| now.saturating_sub(before));
        let lapse = since.saturating_sub(COUNTED_MAX);
        self.spans.iter_mut().for_each(|span| span.ended += lapse);
        self.spans.back_mut().expect("never empty").ended = now;
        self.spans.push_back(Span { ended: now, first_id: self.next_id, outstanding: 0 });
        let oldest = self.spans.iter().find(|span| span.outstanding > 0).map(|span| span.ended);
        let last = self.spans.len() - 1;
        let mut index = 0;
        self.spans.retain(|span| {
            index += 1;
            span.outstanding > 0 || index > last
        });
        oldest.map_or(Duration::ZERO, |ended| now.saturating_sub(ended))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    #[test]
    fn the_oldest_outstanding_request_is_found() {
        let mut wait = DiskWait::default();
        wait.submitted(0);
        wait.submitted(1);
        assert_eq!(wait.tick(secs(1)), secs(0));
        wait.submitted(2);
        assert_eq!(wait.tick(secs(2)), secs(1));
        wait.done(0);
        assert_eq!(wait.tick(secs(3)), secs(2), "request 1 is still out");
        wait.done(1);
        assert_eq!(wait.tick(secs(4)), secs(2), "request 2 was made between 1 and 2");
        wait.done(2);
        assert_eq!(wait.tick(secs(5)), secs(0));
        wait.submitted(3);
        wait.done(3);
        assert_eq!(wait.tick(secs(6)), secs(0));
    }

    #[test]
    fn time_in_which_nobody_looked_does_not_count() {
        let mut wait = DiskWait::default();
        wait.tick(secs(9));
        wait.submitted(0);
        assert_eq!(wait.tick(secs(10)), secs(0));
        assert_eq!(wait.tick(secs(13)), secs(3), "a busy loop");
        assert_eq!(wait.tick(secs(3600)), secs(8), "the machine slept");
        assert_eq!(wait.tick(secs(3601)), secs(9));
    }

    #[test]
    fn answers_out_of_order_are_counted_where_they_belong() {
        let mut wait = DiskWait::default();
        let mut next = 0;
        for second in 1..20 {
            for _ in 0..3 {
                wait.submitted(next);
                next += 1;
            }
            wait.tick(secs(second));
        }
        (1..next).rev().for_each(|id| wait.done(id));
        assert_eq!(wait.tick(secs(20)), secs(19), "request 0 is out since the first second");
        wait.done(0);
        assert_eq!(wait.tick(secs(21)), secs(0));
    }
}
