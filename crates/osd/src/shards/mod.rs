//! Several shards in one OSD.
//!
//! The first shard is the OSD's *front* ([`crate::Osd`]): besides its own groups it has the sockets, the monitor's
//! session and everything that concerns the OSD as a whole. Each other shard has a *worker*, a thread with a reactor
//! that carries disk and timers of its groups and of its part of the store. The front hands workers what is for their
//! groups, and sends what they have to say; both through bounded queues ([`queue`]). They share no state but a few
//! numbers ([`Meter`]).
//!
//! * [`division`]: the parts of the devices.
//! * [`messages`]: what goes through the queues.
//! * [`worker`]: the reactor's handler of a worker; [`thread`] runs it, or [`one_loop`] with all others in turns.
//! * [`others`]: the workers as the front sees them.
//! * [`facts`]: what operators ask, gathered from all shards.

pub(crate) mod division;
pub(crate) mod facts;
pub(crate) mod messages;
mod meter;
mod one_loop;
pub(crate) mod others;
mod part_io;
pub(crate) mod queue;
pub(crate) mod thread;
mod worker;

pub use division::{Division, parse_shards};
pub(crate) use facts::ShardFacts;
pub(crate) use messages::{FromWorker, ToWorker};
pub(crate) use meter::Meter;
pub use one_loop::{OsdInOneLoop, ShardLimits};
pub(crate) use others::Others;
pub(crate) use worker::Worker;
