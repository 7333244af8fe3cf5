//! Updates, from their admission to the moment when all members have them.
//!
//! * **Owns** updates in flight, how far members have them durably, room that was promised, and the walk over snapshots
//!   that are removed.
//! * **Takes** executed operations, commits here, acknowledgements, and room that members promise.
//! * **Causes** answers to clients, members to serve that have caught up, and, on a member that has missed updates, the
//!   end of the session with the primary.
//!
//! It is a machine: inputs are methods of [`machine::Updates`], the state is in [`replication`]. What has to be known
//! at once of an update (whether the store has taken it, what is to be copied instead) is what its submission returns.
//!
//! * [`replicate`] — start here: an update on its way to all members. [`preparation`]: all that an executed update is
//!   made of. [`replication`]: those in flight. [`durability`]: how far members have them. [`forward`]: members learn
//!   that updates will stay. [`logged`]: their entries in the log. [`going_back`]: updates by which objects go back to
//!   what they were.
//! * [`admission`], [`room_wait`]: updates for which there is no room. [`rooms`]: what OSDs promise each other.
//! * [`snap_trim`], [`trim_run`]: what no snapshot needs any more is removed. [`trim_turns`]: which groups do so at a
//!   time.
//! * [`schedule`]: the steps in which other parts act on what becomes of an update. No other module knows the group.

pub(crate) mod admission;
pub(crate) mod durability;
pub(crate) mod forward;
pub(crate) mod going_back;
pub(crate) mod logged;
pub(crate) mod machine;
pub(crate) mod preparation;
pub(crate) mod replicate;
pub(crate) mod replication;
pub(crate) mod room_wait;
pub(crate) mod rooms;
pub(crate) mod schedule;
pub(crate) mod snap_trim;
pub(crate) mod trim_run;
pub(crate) mod trim_turns;
