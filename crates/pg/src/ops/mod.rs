//! Execution of a client's compound operation on one object: a pure function of the object's state.
//!
//! [`execute()`] runs the operation's steps in order and gives what the client gets and what the store must do. Where a
//! lookup is not answered from memory it gives [`Run::Blocked`]; the caller runs it again, from the start, once the
//! lookup is done, with the [`Answers`] it has got so far. Nothing happens before a run has ended, so running again is
//! safe.

mod answers;
mod attrs;
mod budget;
mod call;
mod checksum;
mod copy;
mod data;
mod execute;
mod giving_up;
mod listing;
mod omap;
mod recording;
mod snapshots;
mod watch;

pub use answers::Answers;
pub(crate) use call::{class_and_method, may_write, refused_call};
pub use execute::{Effects, Limits, OpResult, OtherChange, Request, Run, Watchers, execute};
pub(crate) use execute::{OP_BYTES_MAX, STEPS_MAX, WRITE_REPLY_BYTES_MAX, after};
pub(crate) use giving_up::{GiveUp, give_up};
pub(crate) use listing::{ListError, ListFilter};
pub use listing::{Listing, ListingRun};
pub(crate) use recording::record;
pub(crate) use snapshots::trim;
pub use watch::WatchEffect;
pub(crate) use watch::watch_effects_of;
