//! A pool's code, made ready.

use ec::{Code, StripeLayout};

/// A pool's code, made ready.
#[derive(Debug)]
pub(crate) struct PoolCode {
    pub(super) layout: StripeLayout,
    pub(super) code: Code,
}
