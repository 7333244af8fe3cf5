//! Execution of a client's compound operation on one object: a pure function of the object's state.
//!
//! [`execute()`] runs the operation's steps in order and gives what the client gets and what the store must do. Where a
//! lookup is not answered from memory it gives [`Run::Blocked`]; the caller runs it again, from the start, once the
//! lookup is done. Nothing happens before a run has ended, so running again is safe.

mod attrs;
mod data;
mod execute;
mod listing;
mod omap;
mod reads;

pub use execute::{Effects, Limits, OpResult, Request, Run, execute};
pub use listing::{ListError, Listing, list_group};
pub use reads::DataReads;
