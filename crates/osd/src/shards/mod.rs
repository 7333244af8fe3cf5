//! Several shards in one OSD.
//!
//! The first shard is the OSD's *front* ([`crate::Osd`]). Besides its own groups it has the sockets, the session with a
//! monitor, and all work that concerns the OSD as a whole. Each other shard has a *worker*: a thread with a reactor for
//! the I/O and timers of its groups and of its part of the store. The front hands workers the messages for their
//! groups, and sends the workers' messages. Both go through bounded queues ([`queue`]). Front and workers share no
//! state but a few numbers ([`Meter`]).
//!
//! * [`messages`]: the messages in the queues.
//! * [`worker`]: the reactor's handler of a worker. [`thread`] runs one; [`one_loop`] runs all of them in turns.
//! * [`others`]: the workers as the front sees them.
//! * [`facts`]: facts for operators, gathered from all shards.

pub(crate) mod facts;
pub(crate) mod messages;
mod meter;
mod one_loop;
pub(crate) mod others;
mod part_io;
pub(crate) mod queue;
pub(crate) mod thread;
mod worker;

pub(crate) use facts::ShardFacts;
pub(crate) use messages::{FromWorker, ToWorker};
pub(crate) use meter::Meter;
pub use one_loop::{OsdInOneLoop, ShardLimits};
pub(crate) use others::Others;
pub(crate) use worker::Worker;
