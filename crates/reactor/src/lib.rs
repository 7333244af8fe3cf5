//! The loop of one shard: one thread, one ring that carries sockets, disk and timers.
//!
//! One turn: reap completions, give each to the [`Handler`], tell it that the turn ends, then make one system call that
//! submits all requested operations and waits. There is no async runtime and no lock; an idle reactor sleeps.
//!
//! Start here:
//! * [`Handler`] and [`Event`]: input of a shard.
//! * [`Io`]: commands of a shard. Handlers are generic over it, so that one code runs in both worlds.
//! * [`Reactor`]: the real loop, on io_uring or, where that is forbidden, on epoll and threads.
//! * [`sim::World`]: the simulated loop, with many nodes in one thread under a seed.
//! * [`Waker`]: lets other threads wake the loop; [`Pulse`]: lets them see that it moves.

mod backend;
mod config;
mod conn;
mod disk;
mod event;
mod files;
mod ids;
mod io;
mod loop_io;
mod outgoing;
mod page_cache;
mod pulse;
mod random;
mod reactor;
mod record;
pub mod sim;
mod sockets;
mod stats;
mod timers;
mod turn;
mod waker;

pub use config::{BackendKind, Config};
pub use event::{Event, Handler};
pub use ids::{ConnId, FileId, ListenerId};
pub use io::{FileOptions, Io};
pub use loop_io::LoopIo;
pub use pulse::{Pulse, PulseReading};
pub use reactor::Reactor;
pub use record::{RecordedEntry, Recording};
pub use stats::Stats;
pub use waker::Waker;
