//! Clients' operations, from their arrival at the group to their answer.
//!
//! * **Owns** operations that wait, are queued or run, in their order per object; what they hold in memory; reads of
//!   this OSD as a member that is not the primary; backoffs.
//! * **Takes** operations, lookups that they waited for, and the news that an object, room, memory or a lease has come.
//! * **Causes** updates to be submitted, objects to be fetched that an operation needs, shards to be read, and answers
//!   to clients.
//!
//! It is a machine: [`state`] has all that is not answered, into which only this folder sees. Inputs are methods of
//! [`machine::Intake`]. What another part must have done before the next operation runs is one of [`orders`].
//!
//! * [`running`] — start here: operations on one object, in their order. [`arrival`]: the way there. [`execution`]: one
//!   operation. [`answering`]: its answer, at once or when its update is done; [`replies`]: what answers say.
//! * [`operations`]: those that have come, and their order. [`waiting`]: what they wait for, and how they go on.
//!   [`holding_back`], [`backoffs`]: those that clients are asked to hold back.
//! * [`own_ops`]: operations that the group asks for itself. [`questions`]: those of other OSDs, which copy.
//!   [`group_ops`]: listings.
//! * [`replica_reads`]: reads by members that are not the primary ([`replica_state`]).
//! * [`memory`]: operations that wait for room in memory. [`memory_use`]: what is held, for operators.
//! * [`schedule`]: orders are carried out. No other module knows the group.

mod answering;
mod arrival;
pub(crate) mod backoffs;
mod execution;
mod group_ops;
mod holding_back;
pub(crate) mod machine;
pub(crate) mod memory;
pub(crate) mod memory_use;
mod numbered;
pub(crate) mod operations;
mod orders;
mod own_ops;
mod questions;
mod replica_reads;
mod replica_state;
pub(crate) mod replies;
mod running;
pub(crate) mod schedule;
pub(crate) mod state;
mod waiting;
