//! Placement groups: the log of a group, how its members become equal, how updates reach all of them, and how
//! clients' operations are carried out. No sockets, no clock, no device.
//!
//! * [`Shard`] — start here: all groups of one shard of an OSD, with their store and the maps.
//! * [`messages`]: what OSDs say to each other, in one table. [`route`], [`as_one`]: which shards of an OSD get it.
//! * [`pg`]: one group. Its parts:
//!   * clients' operations: `client_ops` (order and answers), `backoffs` (operations that clients are asked to hold
//!     back), `admission` (updates for which there is no room; `rooms`: what OSDs promise each other; `sent_back`:
//!     objects for which there is none), `leases` (until when reads may be answered; `client_ops::replica_reads`: by
//!     others than the primary);
//!   * updates: `replicate` (on their way to all members);
//!   * agreement: `loading` (the group's table on its way into memory), `peering` (how a group comes to serve; `merge`:
//!     how one log is brought to another);
//!   * healing: `recovery` (objects on their way to members that lack them), `backfill` (members that are compared
//!     object by object), `healing` (whose turn it is; `reservations`: who gives it), `strays` (copies that are not
//!     needed any more), `pacing` (how fast objects go to where they are missing, so that clients hardly feel it).
//! * [`coded`]: groups of erasure-coded pools.
//! * [`hops`]: where the time of operations goes.
//! * [`scrub`]: copies are compared, and what is bad is replaced.
//! * `background_check`: a slow walk that reads everything, to find what has rotted.
//! * `copy`: objects that are copied from others.
//! * [`watch`]: clients that watch objects, and notifications.
//! * [`ops`]: execution of one compound operation on one object.
//! * [`snap_set`]: which states of an object snapshots preserve; `snap_trim`: what no snapshot needs any more is
//!   removed.
//! * [`digests`]: proofs of what copies and shards hold.
//! * [`log`], [`info`], [`object_info`]: what is kept durably.

mod admission;
mod adopted;
pub mod as_one;
mod backfill;
mod background_check;
mod backoffs;
mod client_ops;
pub mod coded;
mod context;
mod copy;
mod counts;
pub mod digests;
mod doubt;
mod dups;
mod going_back;
mod healing;
mod homes;
pub mod hops;
pub mod info;
mod intake;
mod interruption;
mod leases;
mod loading;
pub mod log;
mod lookup;
mod lost_osds;
mod maps;
mod members;
mod memory_use;
mod merge;
mod merging;
pub mod messages;
pub mod object_info;
mod object_reading;
pub mod ops;
mod pacing;
mod peering;
pub mod pg;
mod push_queue;
mod receiving;
mod recovery;
mod replicate;
mod rereading;
mod reservations;
mod rooms;
pub mod route;
pub mod scrub;
mod sent_back;
mod shard;
pub mod snap_set;
mod snap_trim;
mod split;
mod strays;
mod table;
#[cfg(test)]
mod tests;
mod trim_turns;
mod unfound;
pub mod watch;

pub use background_check::{CHECK_KEY, CHECK_PERIOD, CheckCounts, CheckMark};
pub use backoffs::BackoffCounts;
pub use context::{Fatal, Output};
pub use homes::{Homes, SHARDS_MAX, TwoHomes, can_be_shards};
pub use leases::ReplicaReadCounts;
pub use loading::LoadError;
pub use maps::MapError;
pub use memory_use::MemoryUse;
pub use pacing::PacingView;
pub use scrub::repair::{KeepCopyError, Kept};
pub use scrub::schedule::LIGHT_SCRUB_PERIOD;
pub use shard::Shard;
pub use table::{PgTable, PgTableError};
pub use unfound::{GiveUpError, MemberView, PgView};
