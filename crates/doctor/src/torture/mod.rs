//! Tells if a drive keeps what it said it had flushed, as far as software can.
//!
//! * [`timing`]: how long a flush takes, beside what such a drive can do. It can show that flushes are ignored, never
//!   that they are honoured.
//! * [`ring`]: the test in two steps. The first writes numbered [`record`]s, each flushed before the next, until the
//!   power is cut; the second looks for records that are missing.
//! * [`medium`]: where records lie: a file or a block device.

pub mod medium;
pub mod record;
pub mod ring;
pub mod timing;

#[cfg(test)]
mod tests;

pub use medium::{FileMedium, MediumError};
pub use ring::{Kept, Medium, Torn};
pub use timing::{DriveFacts, Judgement, Timing};
