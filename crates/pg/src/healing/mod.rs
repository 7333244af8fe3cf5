//! Objects on their way to where they are missing.
//!
//! * **Owns** what is pulled, pushed, received and compared; what cannot be read; whose turn it is, and how fast it
//!   goes.
//! * **Takes** pieces of objects and their acknowledgements, lookups, slots that OSDs give, and what members lack.
//! * **Causes** operations on objects that have come to go on, members to serve that have everything, and reports.
//!
//! * [`recovery`] — start here: objects that logs tell to be missing. [`backfill`]: members that are compared object by
//!   object.
//! * [`push_queue`], [`object_reading`]: the sender. [`receiving`]: the receiver. [`sent_back`]: objects for which
//!   there is no room.
//! * [`turn`]: what a group has to do, and whether it may. [`reservations`]: who gives turns. [`pacing`]: how fast.
//! * [`bad_copies`]: copies that are replaced. [`unfound`], [`rereading`]: objects that cannot be had, and objects that
//!   are read again.
//! * [`strays`]: copies that are not needed any more. [`counts`]: figures.
//!
//! `docs/recovery.md` gives the reasons.

pub(crate) mod backfill;
pub(crate) mod bad_copies;
pub(crate) mod counts;
pub(crate) mod object_reading;
pub(crate) mod pacing;
pub(crate) mod push_queue;
pub(crate) mod receiving;
pub(crate) mod recovery;
pub(crate) mod rereading;
pub(crate) mod reservations;
pub(crate) mod sent_back;
pub(crate) mod strays;
pub(crate) mod turn;
pub(crate) mod unfound;
