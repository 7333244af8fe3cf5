//! Memory for bodies, shared out among requests.

use s3s::{S3Error, S3ErrorCode, S3Result};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of bodies that are in memory at once.
const BUDGET_BYTES: u64 = 256 << 20;
/// Bytes that are reserved together.
const UNIT_BYTES: u64 = 64 << 10;
/// Bytes of one request in memory: stripes on their way, and the one that is being filled or sent.
const REQUEST_MAX_BYTES: u64 = 24 << 20;
/// Time that a request waits for memory.
const WITHIN: Duration = Duration::from_secs(20);

/// The memory for bodies.
#[derive(Clone)]
pub(crate) struct Budget(Arc<Semaphore>);

/// A part of it, given back when this is dropped.
pub(crate) struct Reserved(#[expect(dead_code, reason = "it is held")] OwnedSemaphorePermit);

impl Budget {
    pub fn new() -> Budget {
        Budget(Arc::new(Semaphore::new((BUDGET_BYTES / UNIT_BYTES) as usize)))
    }

    /// Reserves the memory of a body of `bytes` bytes. Errors: `SlowDown` where others have it for too long.
    pub async fn reserve(&self, bytes: u64) -> S3Result<Reserved> {
        let units = bytes.min(REQUEST_MAX_BYTES).div_ceil(UNIT_BYTES) as u32;
        let permit = tokio::time::timeout(WITHIN, self.0.clone().acquire_many_owned(units));
        match permit.await {
            Ok(Ok(permit)) => Ok(Reserved(permit)),
            Ok(Err(_)) | Err(_) => Err(S3Error::new(S3ErrorCode::SlowDown)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn bodies_wait_for_memory() {
        let budget = Budget::new();
        let mut held = Vec::new();
        for _ in 0..BUDGET_BYTES / REQUEST_MAX_BYTES {
            held.push(budget.reserve(u64::MAX).await.expect("there is some"));
        }
        assert!(budget.reserve(u64::MAX).await.is_err());
        held.pop();
        budget.reserve(u64::MAX).await.expect("there is some again");
        budget.reserve(0).await.expect("nothing is always there");
    }
}
