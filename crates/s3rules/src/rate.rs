//! Rate limits of users and buckets.

use crate::error::{S3Code, S3Error};
use crate::time::UnixMillis;
use serde::{Deserialize, Serialize};

/// Length of the interval that limits are given for.
const INTERVAL_MS: i128 = 60_000;

/// Limits for a minute, as Ceph's gateway has them. `None`: without limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateLimit {
    pub read_ops: Option<u64>,
    pub write_ops: Option<u64>,
    pub read_bytes: Option<u64>,
    pub write_bytes: Option<u64>,
}

/// Direction of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// GET and HEAD.
    Read,
    Write,
}

/// Tokens that are left of one limit. A minute's worth is there at first, and never more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bucket {
    /// In units of a token's 60,000th part: a millisecond adds as many as the limit. Below nothing after a request that
    /// moved more bytes than there were.
    level: i128,
    filled_at: UnixMillis,
}

/// Tokens of one user or bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateState {
    buckets: [Option<Bucket>; 4],
}

/// A request comes too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooFast {
    /// Value of `Retry-After`: seconds until the request will be taken, at least 1.
    pub retry_after_s: u64,
}

impl From<TooFast> for S3Error {
    fn from(_: TooFast) -> S3Error {
        S3Error::new(S3Code::SlowDown, "Please reduce your request rate.")
    }
}

impl Bucket {
    fn new(limit: u64, now: UnixMillis) -> Bucket {
        Bucket { level: i128::from(limit) * INTERVAL_MS, filled_at: now }
    }

    fn fill(&mut self, limit: u64, now: UnixMillis) {
        let limit = i128::from(limit);
        let passed_ms = i128::from(now.0) - i128::from(self.filled_at.0);
        // A clock that went back adds nothing.
        let filled = self.level.saturating_add(passed_ms.max(0).saturating_mul(limit));
        self.level = filled.min(limit * INTERVAL_MS);
        self.filled_at = self.filled_at.max(now);
    }

    /// Milliseconds until there are `tokens`, or all that there can be; 0 if they are there.
    fn wait_ms(&self, limit: u64, tokens: i128) -> i128 {
        let limit = i128::from(limit);
        let missing = (tokens.min(limit) * INTERVAL_MS).saturating_sub(self.level).max(0);
        match limit {
            0 => INTERVAL_MS,
            _ => missing.div_euclid(limit) + i128::from(missing.rem_euclid(limit) > 0),
        }
    }
}

impl RateLimit {
    fn of(&self, direction: Direction) -> [(usize, Option<u64>); 2] {
        match direction {
            Direction::Read => [(0, self.read_ops), (1, self.read_bytes)],
            Direction::Write => [(2, self.write_ops), (3, self.write_bytes)],
        }
    }
}

impl RateState {
    /// Takes a request, or says when to come again; then nothing is counted.
    ///
    /// Bytes are not known yet: a request is taken while there are any tokens for them, and
    /// [`RateState::moved`] counts them.
    pub fn take(&mut self, limit: &RateLimit, direction: Direction, now: UnixMillis) -> Result<(), TooFast> {
        let mut wait_ms = 0;
        for (index, limit) in limit.of(direction) {
            let Some(limit) = limit else { continue };
            let bucket = self.buckets[index].get_or_insert_with(|| Bucket::new(limit, now));
            bucket.fill(limit, now);
            wait_ms = wait_ms.max(bucket.wait_ms(limit, 1));
        }
        if wait_ms > 0 {
            let seconds = wait_ms.div_euclid(1000) + i128::from(wait_ms.rem_euclid(1000) > 0);
            return Err(TooFast { retry_after_s: u64::try_from(seconds).unwrap_or(u64::MAX) });
        }
        let [(operations, limited), _] = limit.of(direction);
        if let (Some(_), Some(bucket)) = (limited, &mut self.buckets[operations]) {
            bucket.level -= INTERVAL_MS;
        }
        Ok(())
    }

    /// Counts bytes that a request has moved.
    pub fn moved(&mut self, limit: &RateLimit, direction: Direction, bytes: u64, now: UnixMillis) {
        let [_, (index, limit)] = limit.of(direction);
        if let Some(limit) = limit {
            let bucket = self.buckets[index].get_or_insert_with(|| Bucket::new(limit, now));
            bucket.fill(limit, now);
            bucket.level = bucket.level.saturating_sub(i128::from(bytes) * INTERVAL_MS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn requests_wait_for_tokens() {
        let limit = RateLimit { write_ops: Some(2), ..RateLimit::default() };
        let mut state = RateState::default();
        let mut take = |direction, ms| state.take(&limit, direction, UnixMillis(ms)).map_err(|fast| fast.retry_after_s);
        for (direction, ms, answer) in [
            (Direction::Write, 0, Ok(())),
            (Direction::Write, 0, Ok(())),
            (Direction::Write, 0, Err(30)),
            (Direction::Read, 0, Ok(())),
            (Direction::Write, 29_000, Err(1)),
            (Direction::Write, 30_000, Ok(())),
            (Direction::Write, 30_001, Err(30)),
            (Direction::Write, 10_000, Err(30)),
            (Direction::Write, 1_000_000, Ok(())),
            (Direction::Write, 1_000_000, Ok(())),
            (Direction::Write, 1_000_000, Err(30)),
        ] {
            assert_eq!(take(direction, ms), answer, "{direction:?} {ms}");
        }
    }

    #[test]
    fn bytes_are_counted_afterwards() {
        let limit = RateLimit { read_bytes: Some(600), ..RateLimit::default() };
        let mut state = RateState::default();
        let at = UnixMillis;
        assert!(state.take(&limit, Direction::Read, at(0)).is_ok());
        state.moved(&limit, Direction::Read, 1200, at(0));
        assert_eq!(state.take(&limit, Direction::Read, at(0)), Err(TooFast { retry_after_s: 61 }));
        assert!(state.take(&limit, Direction::Write, at(0)).is_ok());
        assert!(state.take(&limit, Direction::Read, at(60_100)).is_ok());
        assert_eq!(S3Error::from(TooFast { retry_after_s: 1 }).code.status(), 503);
        let nothing = RateLimit { read_ops: Some(0), ..RateLimit::default() };
        assert_eq!(RateState::default().take(&nothing, Direction::Read, at(0)), Err(TooFast { retry_after_s: 60 }));
        let unlimited = RateLimit::default();
        assert!((0..10_000).all(|_| state.take(&unlimited, Direction::Read, at(0)).is_ok()));
    }

    proptest! {
        #[test]
        fn no_more_than_a_burst_and_the_rate(
            limit in 1u64..50,
            steps in proptest::collection::vec(0i64..2000, 1..200),
        ) {
            let limits = RateLimit { read_ops: Some(limit), ..RateLimit::default() };
            let (mut state, mut now, mut taken) = (RateState::default(), UnixMillis(0), 0u64);
            for step in steps {
                now = now.plus_ms(step);
                match state.take(&limits, Direction::Read, now) {
                    Ok(()) => taken += 1,
                    Err(fast) => {
                        let later = now.plus_ms(i64::try_from(fast.retry_after_s).unwrap() * 1000);
                        let mut waited = state;
                        prop_assert!(waited.take(&limits, Direction::Read, later).is_ok());
                    }
                }
                let passed = u64::try_from(now.0).unwrap();
                prop_assert!(taken <= limit + passed * limit / 60_000);
            }
        }
    }
}
