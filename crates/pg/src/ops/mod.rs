//! Execution of a client's compound operation on one object: a pure function of the object's state.
//!
//! [`execute()`] runs the operation's steps in order and gives what the client gets and what the store must do. Where a
//! lookup is not answered from memory it gives [`Run::Blocked`]; the caller runs it again, from the start, once the
//! lookup is done, with the [`Answers`] it has got so far. Nothing happens before a run has ended, so running again is
//! safe.

mod answers;
mod attrs;
mod data;
mod execute;
mod listing;
mod omap;

pub use answers::Answers;
pub use execute::{Effects, Limits, OpResult, Request, Run, execute};
pub(crate) use listing::ListError;
pub use listing::{Listing, ListingRun};
