//! Small things that could have been in the standard library, one file each.
//!
//! The crate knows no other crate of ours but the list of deliberate bugs.
//!
//! [`BootClock`] is a clock that goes on while the machine sleeps. [`notice_dead_peers`] has the kernel end connections
//! whose peer is gone without a word.

mod boot_clock;
mod dead_peers;

pub use boot_clock::BootClock;
pub use dead_peers::{DEAD_AFTER, notice_dead_peers};
