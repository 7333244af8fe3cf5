//! Clients' operations, from their arrival at the group to their answer.
//!
//! * **Owns** operations that wait, are queued or run, in their order per object; what they hold in memory; backoffs.
//! * **Takes** operations, lookups that they waited for, and the news that an object, room, memory or a lease has come.
//! * **Causes** updates to be submitted, objects to be fetched that an operation needs, and answers to clients.
//!
//! * [`client_ops`] — start here: execution and answers; also reads by members that are not the primary
//!   ([`replica_state`]). [`operations`]: those that have come, and their order. [`replies`]: what their answers say.
//! * [`backoffs`]: operations that clients are asked to hold back.
//! * [`memory`]: operations that wait for room in memory. [`memory_use`]: what is held, for operators.

pub(crate) mod backoffs;
pub(crate) mod client_ops;
pub(crate) mod memory;
pub(crate) mod memory_use;
pub(crate) mod operations;
pub(crate) mod replica_state;
pub(crate) mod replies;
