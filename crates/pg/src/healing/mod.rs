//! Objects on their way to where they are missing.
//!
//! * **Owns** what is pulled, pushed, received and compared; what cannot be read; whose turn it is, and how fast it
//!   goes.
//! * **Takes** pieces of objects and their acknowledgements, lookups, slots that OSDs give, and what members lack.
//! * **Causes** operations on objects that have come to go on, members to serve that have everything, and reports.
//!
//! * [`healer`] — start here: healing at work, with the parts of its group that it is lent; [`state`]: all that is
//!   under way. Inputs are methods of [`healer::Healer`]; what needs its answer at once is a question to
//!   [`whereabouts`].
//! * [`schedule`]: the steps that need the group's reads over several shards. No other module knows the group.
//! * [`recovery`]: objects that logs tell to be missing; [`pulls`]: those that the primary gets. [`backfill`]: members
//!   that are compared object by object; [`walks`]: how far.
//! * [`sending`], [`push_queue`], [`object_reading`]: the sender. [`receiving`], [`incoming`]: the receiver.
//!   [`sent_back`], [`refusals`]: objects for which there is no room.
//! * [`work`]: what a group has to do. [`turn`]: whether it may. [`reservations`]: who gives turns. [`pacing`]: how
//!   fast.
//! * [`bad_copies`]: copies that are replaced. [`unfound`], [`rereading`]: objects that cannot be had, and objects that
//!   are read again ([`rereads`]).
//! * [`strays`]: copies that are not needed any more. [`counts`], [`recovered`]: figures.
//!
//! `docs/recovery.md` gives the reasons.

pub(crate) mod backfill;
pub(crate) mod bad_copies;
pub(crate) mod counts;
pub(crate) mod healer;
pub(crate) mod incoming;
pub(crate) mod object_reading;
pub(crate) mod pacing;
pub(crate) mod pulls;
pub(crate) mod push_queue;
pub(crate) mod receiving;
pub(crate) mod recovered;
pub(crate) mod recovery;
pub(crate) mod refusals;
pub(crate) mod rereading;
pub(crate) mod rereads;
pub(crate) mod reservations;
pub(crate) mod schedule;
pub(crate) mod sending;
pub(crate) mod sent_back;
pub(crate) mod state;
pub(crate) mod strays;
pub(crate) mod turn;
pub(crate) mod unfound;
pub(crate) mod walks;
pub(crate) mod whereabouts;
pub(crate) mod work;
