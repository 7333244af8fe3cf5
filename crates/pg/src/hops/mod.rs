//! Hops of operations: stamps that every operation carries and by which its time is told, and the few operations that
//! are kept.
//! A stamp is the time that the driver told last, so the hops of an operation are as fine as turns of its loop. Members
//! of a group have clocks of their own and tell durations ([`MemberHops`]).

mod counts;
mod kept;
mod member;
mod recorder;
mod sample;
#[cfg(test)]
mod tests;
mod times;

pub use counts::{OpCount, OpCounts};
pub use kept::{COMPLAIN_AFTER, OpState};
pub use member::MemberHops;
pub(crate) use member::{MemberAck, MemberTimes};
pub use recorder::DEFAULT_PER_SECOND;
pub(crate) use recorder::{Recorder, Replicated};
pub use sample::{Hop, MemberSample, OpSample};
pub(crate) use times::OpTimes;
pub use times::{Stamp, WaitReasons};
