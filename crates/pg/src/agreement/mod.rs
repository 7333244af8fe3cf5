//! How the members of a group come to agree, so that it serves.
//!
//! * **Owns** how far peering is, what each member has told, each member's part in the interval, and leases.
//! * **Takes** answers of members, commits of what was agreed, records of the monitors, and time.
//! * **Causes** what waits to be started when the group becomes active; healing of members that lack something; another
//!   acting set, by a wish to the monitors.
//!
//! * [`peering`] — start here: the way to serving; [`phase`]: how far a group is on it. [`merge`]: how one log is
//!   brought to another.
//! * [`members`]: what the primary knows of the others. [`leases`]: until when reads may be answered.
//! * [`adopted`], [`going_back`]: updates that a new interval takes over, and objects that go back to what they were
//!   ([`ways_back`]).
//! * [`doubt`], [`found_copies`], [`lost_osds`]: records that may be behind, and OSDs that the operator has given up.
//! * [`interruption`]: the end of a session between two OSDs of a group.
//!
//! `docs/peering.md` gives the reasons.

pub(crate) mod adopted;
pub(crate) mod doubt;
pub(crate) mod found_copies;
pub(crate) mod going_back;
pub(crate) mod interruption;
pub(crate) mod leases;
pub(crate) mod lost_osds;
pub(crate) mod members;
pub(crate) mod merge;
pub(crate) mod peering;
pub(crate) mod phase;
pub(crate) mod ways_back;
