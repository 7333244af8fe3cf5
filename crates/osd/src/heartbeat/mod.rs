//! Signs of life between OSDs, apart from the loop that does the work.
//!
//! Each OSD asks the OSDs with which it shares placement groups, and a few neighbours, for signs of life. It asks over
//! the storage network, and also over the clients' network if that is another one. It reports an OSD that does not
//! answer in time to the monitors.
//!
//! Questions and answers have a thread and sockets of their own, so that a busy loop is not taken for dead. An OSD
//! whose loop or drive does not move gives no answers, although its heartbeats' thread could.
//!
//! * [`Watch`]: tells whom to ask at what time, and who has been silent too long. No I/O.
//! * [`HeartbeatNode`]: sockets and messages.
//! * [`Board`]: facts that the OSD's loop and the heartbeats tell each other.
//! * [`HeartbeatThread`]: runs a node on a thread.

mod board;
mod disk_wait;
mod neighbours;
mod node;
mod ping_times;
mod reports;
mod thread;
mod watch;

pub use board::{Board, HeartbeatAddrs};
pub(crate) use disk_wait::DiskWait;
pub(crate) use neighbours::neighbours;
pub use node::HeartbeatNode;
pub(crate) use node::UNWELL_AFTER;
pub(crate) use ping_times::{PingView, Took};
pub(crate) use reports::{REPORT_EVERY, Reports};
pub(crate) use thread::HeartbeatThread;
pub(crate) use watch::{Network, Pace};
use watch::{PeerAddrs, Watch};
