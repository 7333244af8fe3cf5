//! Memory of answers that the network has not taken yet.
//!
//! A client that stands still, or is cut off, takes none of its answers, and TCP waits for it for a quarter of an hour
//! and longer. Answers that wait count as memory for clients. A connection that takes nothing for a while is therefore
//! given up once no such memory is left for others. Its client, if there is one, asks again.

use reactor::ConnId;
use std::collections::BTreeMap;
use std::time::Duration;

/// A connection that has taken nothing for so long is stuck. A slow network takes some bytes each second; kernels tell
/// of it once a third of their buffer, of some MiB, is free.
const STUCK_AFTER: Duration = Duration::from_secs(10);
/// The longest time between two looks at the connections, unless this process stood still.
const LOOKS_WITHIN: Duration = Duration::from_secs(3);
const _: () = assert!(
    3 * LOOKS_WITHIN.as_millis() < STUCK_AFTER.as_millis(),
    "a connection is looked at several times before it counts as stuck"
);

#[derive(Clone, Copy, Debug)]
struct Unsent {
    bytes: usize,
    /// When the network took some of them last, or the first were queued.
    moved_at: Duration,
}

/// The connections to which something was sent that the network may not have taken yet.
#[derive(Debug, Default)]
pub(crate) struct Sending {
    conns: BTreeMap<ConnId, Unsent>,
    looked_at: Duration,
}

impl Sending {
    /// Notes that `bytes` more are queued on a connection.
    pub fn queued(&mut self, conn: ConnId, bytes: usize, now: Duration) {
        self.conns.entry(conn).or_insert(Unsent { bytes: 0, moved_at: now }).bytes += bytes;
    }

    /// Forgets a connection that is gone.
    pub fn closed(&mut self, conn: ConnId) {
        self.conns.remove(&conn);
    }

    /// Looks at what the network has not taken yet of each connection. Returns the bytes of all.
    pub fn look(&mut self, now: Duration, unsent_bytes: impl Fn(ConnId) -> usize) -> usize {
        let gap = now.saturating_sub(std::mem::replace(&mut self.looked_at, now));
        // Whoever stood still has not been told yet what the network took meanwhile.
        let stood_still = if gap > LOOKS_WITHIN { gap } else { Duration::ZERO };
        let mut all = 0;
        self.conns.retain(|conn, unsent| {
            let bytes = unsent_bytes(*conn);
            let moved_at = if bytes < unsent.bytes { now } else { (unsent.moved_at + stood_still).min(now) };
            *unsent = Unsent { bytes, moved_at };
            all += bytes;
            bytes > 0
        });
        all
    }

    /// Connections that have taken nothing for a while, and how many bytes wait for each.
    pub fn stuck(&self, now: Duration) -> Vec<(ConnId, usize)> {
        let is_stuck = |unsent: &Unsent| now >= unsent.moved_at + STUCK_AFTER;
        self.conns.iter().filter(|(_, unsent)| is_stuck(unsent)).map(|(conn, unsent)| (*conn, unsent.bytes)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ConnId = ConnId(1);
    const B: ConnId = ConnId(2);

    /// Looks each second, until `until`, at connections of which A has taken nothing and B a byte more each time.
    fn look(sending: &mut Sending, from: u64, until: u64) {
        for second in from..until {
            let of = |conn| if conn == A { 1000 } else { 1000 - second as usize };
            sending.look(Duration::from_secs(second), of);
        }
    }

    #[test]
    fn who_takes_nothing_for_a_while_is_stuck_and_who_is_slow_is_not() {
        let mut sending = Sending::default();
        sending.queued(A, 1000, Duration::ZERO);
        sending.queued(B, 1000, Duration::ZERO);
        look(&mut sending, 0, 10);
        assert_eq!(sending.stuck(Duration::from_millis(9900)), []);
        assert_eq!(sending.stuck(STUCK_AFTER), [(A, 1000)]);
        // More is sent to it, which it does not take either.
        sending.queued(A, 500, Duration::from_secs(10));
        assert_eq!(sending.look(Duration::from_secs(11), |conn| if conn == A { 1500 } else { 0 }), 1500);
        assert_eq!(sending.stuck(Duration::from_secs(11)), [(A, 1500)]);
        assert_eq!(sending.look(Duration::from_secs(12), |_| 1499), 1499, "B has taken all, and is not looked at");
        assert_eq!(sending.stuck(Duration::from_secs(12)), [], "it moves again");
    }

    #[test]
    fn time_in_which_this_process_stood_still_does_not_count() {
        let mut sending = Sending::default();
        sending.queued(A, 1000, Duration::ZERO);
        look(&mut sending, 0, 5);
        sending.look(Duration::from_secs(40), |_| 1000);
        assert_eq!(sending.stuck(Duration::from_secs(40)), []);
        look(&mut sending, 41, 47);
        assert_eq!(sending.stuck(Duration::from_secs(46)), [(A, 1000)]);
    }
}
