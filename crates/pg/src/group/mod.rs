//! One placement group, as one OSD has it.
//!
//! * **Owns** what the group is: its name, its interval, its log, what is missing here, and the tables in which the
//!   store keeps them.
//! * **Takes** intervals from the shard, and tables from the store.
//! * **Causes** the end of everything that was on its way, where an interval ends; a report to the monitors.
//!
//! * [`pg`] — start here: the group with all its parts, and what an interval's end means to each. [`core`]: the facts
//!   that all parts read; [`interval`]: the members of a stretch of epochs. [`effects`]: notices
//!   between the parts.
//! * Kept durably: [`info`], [`log`] and [`dups`] (requests that the log has trimmed) of the group; [`object_info`],
//!   [`snap_set`] and [`digests`] of an object. [`missing`]: notes about
//!   objects. [`loading`] reads the table ([`load_progress`]: how far); [`table`] does without a group, for tools.
//! * [`split`], [`merging`]: tables of groups of a pool whose number of groups changes.
//! * [`operators`]: what operators see and decide.
//! * [`lookup`]: what the store's lookups mean to a group.

pub(crate) mod core;
pub mod digests;
pub(crate) mod dups;
pub(crate) mod effects;
pub mod info;
pub(crate) mod interval;
pub(crate) mod load_progress;
pub(crate) mod loading;
pub mod log;
pub(crate) mod lookup;
pub(crate) mod merging;
pub(crate) mod missing;
pub mod object_info;
pub(crate) mod operators;
pub(crate) mod pg;
pub mod snap_set;
pub(crate) mod split;
pub(crate) mod table;
