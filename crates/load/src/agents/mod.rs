//! Load from several machines: agents carry instances on their machines, and one coordinator commands them.
//!
//! * [`protocol`], [`frames`]: the messages between the two, as length-prefixed JSON over TCP; [`sealing`]: how both
//!   prove that they know a token, and encrypt what follows.
//! * [`server`], `job`: an agent. [`options`]: what its machine gives it.
//! * [`links`]: the coordinator's connections to agents; [`crew`]: the agents at work on one iteration.
//!
//! The coordinator makes pools, judges rounds and merges results. An instance does the same work on any machine, as the
//! plan's seed and the instance's number determine it.

pub mod crew;
pub mod frames;
mod job;
pub mod links;
pub mod options;
pub mod protocol;
pub mod sealing;
pub mod server;
#[cfg(test)]
mod tests;
