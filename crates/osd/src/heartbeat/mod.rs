//! Signs of life between OSDs, apart from the loop that does the work.
//!
//! Each OSD asks the OSDs that it shares placement groups with, and a few neighbours, whether they live: over the
//! storage network, and over the clients' network where that is another. Whoever does not answer in time is reported to
//! the monitors. Questions and answers have a thread and sockets of their own, so that a loop with much to do is not
//! taken for dead; and an OSD whose loop or drive does not move gives no answers, though its thread still could.
//!
//! * [`Watch`]: whom to ask when, and who has been silent too long. No I/O.
//! * [`HeartbeatNode`]: sockets and messages.
//! * [`Board`]: what the OSD's loop and the heartbeats tell each other.
//! * [`HeartbeatThread`]: runs a node on a thread.

mod board;
mod disk_wait;
mod neighbours;
mod node;
mod reports;
mod thread;
mod watch;

pub use board::{Board, HeartbeatAddrs};
pub(crate) use disk_wait::DiskWait;
pub(crate) use neighbours::neighbours;
pub use node::HeartbeatNode;
pub(crate) use node::UNWELL_AFTER;
pub(crate) use reports::{REPORT_EVERY, Reports};
pub(crate) use thread::HeartbeatThread;
use watch::{Network, PeerAddrs, Watch};
