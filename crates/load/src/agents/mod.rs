//! Load from several machines: agents carry instances on theirs, one coordinator tells them what to do.
//!
//! * [`protocol`], [`frames`]: what the two say to each other, as length-prefixed JSON over TCP.
//! * [`server`], [`job`]: an agent.
//! * [`links`]: the coordinator's connections to agents; [`crew`]: the agents at work on one iteration.
//!
//! The coordinator makes pools, judges rounds and merges; what an instance does is the same here and there, as the
//! plan's seed and the instance's number decide it.

pub mod crew;
pub mod frames;
mod job;
pub mod links;
pub mod protocol;
pub mod server;
#[cfg(test)]
mod tests;
