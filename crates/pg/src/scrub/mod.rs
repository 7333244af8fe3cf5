//! Scrub: the copies of a group's objects are compared, and what is provably bad is replaced. `docs/scrub.md` is the
//! account.
//!
//! * **Owns** a group's run with its findings, ranges that are read for it, and the place of the background check.
//! * **Takes** orders of the schedule, lookups, what members have, and the news that updates are durable.
//! * **Causes** updates of a chunk to be held and let go, objects to be noted as missing where they are bad, and
//!   records of digests.
//!
//! The primary goes through its group chunk by chunk: holds updates of the chunk's objects until those in flight are
//! durable everywhere, has every member tell what it has ([`scan`], [`map`]), and judges ([`verdict`]). What is bad it
//! has replaced ([`Effect::Replace`](crate::group::effects::Effect)). [`repair`]: an operator's choice. [`run`] drives
//! one group, [`schedule`] decides which and when, [`record`] has digests recorded, [`mark`] is what is kept of it, and
//! [`listing`] tells clients. [`counts`] are what updates see of it. [`snapshots`] compares the states of one object
//! with each other. [`background_check`] is apart from all that: it walks over everything in the store and reads it, to
//! find what has rotted.

pub(crate) mod background_check;
mod ceph_forms;
pub(crate) mod counts;
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
