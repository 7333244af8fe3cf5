//! Operations that are kept, or not answered yet, as they are shown.

use super::sample::OpSample;
use super::times::OpTimes;
use std::time::Duration;

/// An operation that is not answered after this time has waited for too long, unless
/// [`Tuning::complain_after`](crate::Tuning::complain_after) says otherwise.
pub const COMPLAIN_AFTER: Duration = Duration::from_secs(30);

/// Progress of an operation that is not answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpState {
    /// The operation waits, as its placement group does not serve.
    WaitsForGroup,
    /// The operation waits behind others on the same object, or for a lookup.
    Queued,
    /// The operation waits for members of the group.
    WaitsForMembers,
}

impl OpSample {
    /// Returns how long it has taken, or had by `now` if it is not answered.
    pub fn age_us(&self, now: Duration) -> u64 {
        match self.answered.happened() {
            true => self.total_us().into(),
            false => OpTimes::new(self.began, self.began).stamp(now).0.into(),
        }
    }
}
