//! Messages that OSDs send each other.
//!
//! * [`table`] — start here: every message with its number, its name for logs, the shards that it is for, and the
//!   objects' names in it. Decoding, routing and renaming follow from the table; [`crate::Shard`] handles each message
//!   in one exhaustive match.
//! * The bodies, by what they are about: [`replication`], [`peering`], [`healing`], [`scrub`], [`coded`], [`room`],
//!   [`lease`]. [`steps`]: the store's steps within an update.
//! * [`sequence`]: log entries that another OSD sends follow each other.
//! * [`route`]: which shards of an OSD a message is for. [`rename`]: names of objects that come from another shard of
//!   an erasure-coded group.
//!
//! Most messages name a group and the *interval* they belong to ([`PgInterval`]), by the first epoch in which the
//! group's primary saw the present acting set. A member follows one primary at a time: it joins an interval when that
//! primary's [`peering::PgQuery`] arrives, and ignores messages that name another one.
//!
//! A new message takes a line of the table, a body, and an arm of the match. No other message can be sent
//! ([`table::PeerBound`]).

pub mod coded;
pub mod healing;
mod interval;
pub mod lease;
pub mod peering;
pub(crate) mod rename;
pub mod replication;
pub mod room;
pub mod route;
pub mod scrub;
pub(crate) mod sequence;
mod steps;
pub mod table;

pub use interval::PgInterval;
pub use table::{PeerKind, PeerMessage, kind_name};
