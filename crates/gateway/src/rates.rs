//! Rate limits of users and buckets, as this gateway counts. Others count by themselves.

use crate::convert::{now, told};
use http::{HeaderMap, HeaderValue, Method, header::RETRY_AFTER};
use s3rules::rate::{Direction, RateLimit, RateState, TooFast};
use s3s::{S3Error, S3Result};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Users and buckets that are remembered. If there are more, all of them begin anew.
const REMEMBERED_MAX: usize = 100_000;

/// The user or bucket that a limit is for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Limited {
    User(String),
    /// By the bucket's id.
    Bucket(String),
}

/// The state of all limits: how much is left of each.
#[derive(Default)]
pub(crate) struct Rates(Mutex<BTreeMap<Limited, RateState>>);

/// The limits that one request counts for.
#[derive(Default)]
pub(crate) struct Meter {
    rates: Arc<Rates>,
    limits: Vec<(Limited, RateLimit)>,
    direction: Option<Direction>,
}

/// The direction of requests by this method.
pub(crate) fn direction(method: &Method) -> Direction {
    if [Method::GET, Method::HEAD].contains(method) { Direction::Read } else { Direction::Write }
}

fn refusal(fast: TooFast) -> S3Error {
    let mut error = told(s3rules::S3Error::from(fast).into());
    error.set_headers(HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from(fast.retry_after_s))]));
    error
}

impl Rates {
    /// Counts a request for all of some limits, or for none of them. Errors: `SlowDown`, with `Retry-After`.
    pub fn take(self: &Arc<Rates>, limits: Vec<(Limited, RateLimit)>, direction: Direction) -> S3Result<Meter> {
        let limits: Vec<_> = limits.into_iter().filter(|(_, limit)| *limit != RateLimit::default()).collect();
        if !limits.is_empty() {
            let now = now();
            let mut states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if states.len() >= REMEMBERED_MAX {
                states.clear();
            }
            let mut taken = Vec::new();
            for (limited, limit) in &limits {
                let mut state = states.get(limited).copied().unwrap_or_default();
                state.take(limit, direction, now).map_err(refusal)?;
                taken.push((limited.clone(), state));
            }
            states.extend(taken);
        }
        Ok(Meter { rates: self.clone(), limits, direction: Some(direction) })
    }
}

impl Meter {
    /// Counts bytes that the request moves.
    pub fn moved(&self, bytes: u64) {
        let Some(direction) = self.direction.filter(|_| !self.limits.is_empty()) else { return };
        let mut states = self.rates.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (limited, limit) in &self.limits {
            states.entry(limited.clone()).or_default().moved(limit, direction, bytes, now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use s3s::S3ErrorCode;

    #[test]
    fn a_request_counts_for_all_limits_or_none() {
        let rates = Arc::new(Rates::default());
        let writes = |most| RateLimit { write_ops: Some(most), ..RateLimit::default() };
        let (user, bucket) = (Limited::User("ann".into()), Limited::Bucket("b1".into()));
        let both = || vec![(user.clone(), writes(2)), (bucket.clone(), writes(1))];
        rates.take(both(), Direction::Write).expect("it is the first");
        let refused = rates.take(both(), Direction::Write).err().expect("the bucket has had its request");
        assert_eq!(
            (refused.code(), refused.status_code()),
            (&S3ErrorCode::SlowDown, Some(http::StatusCode::SERVICE_UNAVAILABLE))
        );
        let headers = refused.to_http_response().expect("an answer").headers().clone();
        let wait: u64 = headers[RETRY_AFTER].to_str().expect("text").parse().expect("seconds");
        assert!((50..=60).contains(&wait), "{wait}");
        rates.take(both(), Direction::Read).expect("reads are not limited");
        rates.take(vec![(user.clone(), writes(2))], Direction::Write).expect("what was refused did not count");
        rates.take(vec![(user.clone(), writes(2))], Direction::Write).err().expect("a third one");
        let other = Limited::User("bob".into());
        rates.take(vec![(other, writes(2))], Direction::Write).expect("others have their own");
    }

    #[test]
    fn bytes_count_behind_the_request() {
        let rates = Arc::new(Rates::default());
        let limit = RateLimit { read_bytes: Some(100), ..RateLimit::default() };
        let user = || vec![(Limited::User("ann".into()), limit)];
        rates.take(user(), Direction::Read).expect("it is the first").moved(500);
        rates.take(user(), Direction::Read).err().expect("500 bytes take five minutes");
        rates.take(user(), Direction::Write).expect("writes are not limited").moved(500);
        rates.take(user(), Direction::Write).expect("and their bytes do not count");
        Meter::default().moved(1);
    }

    #[test]
    fn reads_are_gets_and_heads() {
        for (method, expected) in [
            (Method::GET, Direction::Read),
            (Method::HEAD, Direction::Read),
            (Method::PUT, Direction::Write),
            (Method::POST, Direction::Write),
            (Method::DELETE, Direction::Write),
        ] {
            assert_eq!(direction(&method), expected, "{method}");
        }
    }
}
