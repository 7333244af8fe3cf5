//! How the members of a group come to agree, so that it serves.
//!
//! * **Owns** how far peering is, what each member has told, each member's part in the interval, and leases.
//! * **Takes** answers of members, commits of what was agreed, records of the monitors, members that have got further,
//!   and time.
//! * **Causes** what waits to be started when the group becomes active; healing of members that lack something; objects
//!   to go back; another acting set, by a wish to the monitors.
//!
//! It is a machine: [`phase`] has its state, into which only this folder sees. Inputs are methods of
//! [`machine::Agreement`]; others ask [`progress::Progress`] how far the group is.
//!
//! * [`peering`] — start here: the way to serving; [`phase`]: how far a group is on it.
//! * [`joining`]: a member's way into the interval, and logs on their way to all. [`merge`]: how one log is brought to
//!   another. [`coded_log`]: which log is an erasure-coded group's, and which OSDs should act for which shard;
//!   [`log_holders`]: where that log ends.
//! * [`acting_sets`]: others that should act.
//! * [`members`]: what the primary knows of the others.
//! * [`leases`]: until when reads may be answered. [`readers`]: who may still answer reads of an earlier interval.
//! * [`adopted`], [`going_back`]: updates that a new interval takes over, and objects that go back to what they were
//!   ([`ways_back`]).
//! * [`doubt`], [`found_copies`], [`lost_osds`]: records that may be behind, and OSDs that the operator has given up.
//! * [`schedule`], [`interruption`]: where an interval ends, or other parts act between two steps, all of the group is
//!   needed. Only these two know it.
//!
//! `docs/peering.md` gives the reasons.

pub(crate) mod acting_sets;
pub(crate) mod adopted;
pub(crate) mod coded_log;
pub(crate) mod doubt;
pub(crate) mod found_copies;
pub(crate) mod going_back;
pub(crate) mod interruption;
pub(crate) mod joining;
pub(crate) mod leases;
pub(crate) mod log_holders;
pub(crate) mod lost_osds;
pub(crate) mod machine;
pub(crate) mod members;
pub(crate) mod merge;
pub(crate) mod peering;
pub(crate) mod phase;
pub(crate) mod progress;
pub(crate) mod readers;
pub(crate) mod schedule;
pub(crate) mod ways_back;
