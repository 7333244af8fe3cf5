//! Small things that could have been in the standard library, one file each.
//!
//! The crate knows no other crate of ours but the list of deliberate bugs.
//!
//! [`BootClock`] is a clock that goes on while the machine sleeps, [`ClockWatch`] notices pauses that it did not count.
//! [`notice_dead_peers`] has the kernel end connections whose peer is gone without a word. [`TimeZone`] tells the time
//! of day, [`load_per_processor`] how busy the machine is. [`hex()`] shows bytes as digits.

mod boot_clock;
mod clock_watch;
mod dead_peers;
mod hex;
mod load;
mod time_zone;

pub use boot_clock::BootClock;
pub use clock_watch::ClockWatch;
pub use dead_peers::{DEAD_AFTER, notice_dead_peers};
pub use hex::hex;
pub use load::load_per_processor;
pub use time_zone::TimeZone;
