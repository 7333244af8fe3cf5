//! Scrub: the copies of a group's objects are compared, and what is provably bad is replaced. `docs/scrub.md` is the
//! account.
//!
//! The primary goes through its group chunk by chunk: holds updates of the chunk's objects until those in flight are
//! durable everywhere, has every member tell what it has ([`scan`], [`map`]), and judges ([`verdict`]). What is bad is
//! noted as missing where it is ([`repair`]), and recovery brings it. [`run`] drives one group, [`schedule`] decides
//! which and when, [`record`] has digests recorded, [`mark`] is what is kept of it, and [`listing`] tells clients.
//! [`snapshots`] compares the states of one object with each other.

mod ceph_forms;
pub(crate) mod listing;
pub mod map;
pub mod mark;
pub(crate) mod record;
pub mod repair;
pub(crate) mod run;
mod scan;
pub(crate) mod schedule;
pub mod snapshots;
pub mod verdict;

pub use mark::{SCRUB_KEY, ScrubMark};
