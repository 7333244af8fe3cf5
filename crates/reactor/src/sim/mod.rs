//! The simulated twin of the reactor: many nodes, one thread, virtual time, everything drawn from a seed.
//!
//! [`crate::Handler`]s run here as on the real loop; `tests/conformance` plays all scenarios in both. Start with
//! [`World`]. It models:
//! * **Network**: streams cut into segments of random sizes, each direction in order, with random delays and a bounded
//!   window; partitions (also one-way) during which TCP tries again; lost segments and slow links; resets; half-open
//!   connections after a power failure.
//! * **Disks**: requests that complete in any order, and a volatile cache: after a power failure an unflushed write is
//!   there, is lost, or is there in part. A request in flight when its process dies may or may not happen. Failing,
//!   lost and misdirected writes, flushes that fail and lose what they were to make durable, bit rot, slow disks.
//! * **Nodes**: killed at any time and started again, stopped for a while; machines that sleep, or are paused with
//!   their clocks; wall clocks that disagree, and clocks that run at different rates.
//! * **Handlers** that take time, where that is wished for: between two things that a turn hands over, before its end,
//!   and when they read the clock; other nodes go on meanwhile.
//!
//! Absent: the bandwidth of links and disks, data lost or changed by TCP.

mod config;
mod disk;
mod io;
mod network;
mod node;
mod node_clock;
mod rng;
mod world;

pub use config::{Stalls, WorldConfig};
pub use disk::{DiskFault, SimDisk};
pub use io::SimIo;
pub use rng::Rng;
pub use world::{Crash, NodeId, Sleep, World};
