//! Placement groups: the log of a group, how its members become equal, how updates reach all of them, and how
//! clients' operations are carried out. No sockets, no clock, no device.
//!
//! # Map
//!
//! Begin with [`Shard`], which is all that a driver sees; then `group`, then the folder that you need. Each folder's
//! `mod.rs` says what the folder owns, what it takes and what it causes elsewhere.
//!
//! ```text
//! shard       all groups of one shard of an OSD, with their store and the maps    as_one   an OSD's shards as one OSD
//! context     what a group is lent while it handles an event: time, maps, store, what goes out
//!
//! intake      clients' operations: order, memory, backoffs, answers
//! updates     updates on their way to all members: room, log entry, acknowledgements; removal of old snapshots
//! healing     objects on their way to where they are missing, and whose turn that is
//! scrub       copies are compared; a slow walk reads everything
//! watch       clients that watch objects, and notifications
//! agreement   how a group comes to serve: logs, members, leases, records that may be behind
//! coded       groups of erasure-coded pools
//! group       one group: what is kept durably of it, and in which interval it is
//!
//! ops         execution of one compound operation on one object    copy    objects that are copied from others
//! messages    what OSDs say to each other, in one table            hops    where the time of operations goes
//! ```
//!
//! All parts of a group are machines: they own their state, take inputs and note effects. Methods
//! of [`Pg`](group::pg::Pg) are in `group`, in `schedule` of each folder, which lends the part what it needs, and where
//! an interval ends or an operator chooses.

mod agreement;
pub mod as_one;
pub mod coded;
mod context;
mod copy;
mod group;
mod healing;
pub mod hops;
mod intake;
pub mod messages;
pub mod ops;
mod rights;
pub mod scrub;
mod shard;
#[cfg(test)]
mod tests;
mod tuning;
mod updates;
pub mod watch;

pub use agreement::leases::ReplicaReadCounts;
pub use agreement::phase::PeeringStep;
pub use context::{Fatal, Output};
pub use group::load_progress::LoadError;
pub use group::missing::missing_step;
pub use group::operators::{GiveUpError, MemberView, PgView};
pub use group::table::{PgTable, PgTableError};
pub use group::{digests, info, log, object_info, snap_set};
pub use healing::pacing::PacingView;
pub use healing::reservations::ReservationsView;
pub use intake::backoffs::BackoffCounts;
pub use intake::memory_use::MemoryUse;
pub use messages::route;
pub use rights::ClientRights;
pub use scrub::background_check::{CHECK_KEY, CHECK_PERIOD, CheckCounts, CheckMark};
pub use scrub::repair::{KeepCopyError, Kept};
pub use scrub::schedule::{LIGHT_SCRUB_PERIOD, ScrubView};
pub use shard::Shard;
pub use shard::bench::{BENCH_OBJECTS_MAX, BenchError, BenchOrder};
pub use shard::homes::{Homes, TwoHomes};
pub use shard::maps::MapError;
pub use shard::own_copy::OwnCopyError;
pub use shard::views::GroupView;
pub use tuning::{ScrubTuning, Tuning};
pub use watch::WatchView;
