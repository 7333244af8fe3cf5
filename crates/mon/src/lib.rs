//! The monitor: keeps the cluster's maps, configuration and records, and sends them to clients and daemons.
//!
//! The path of a change: a command or an OSD's report asks for it → the monitor decides on the state as committed → an
//! [`Update`] is appended to the log that all monitors agree on → once it is decided, each of them calls
//! [`MonState::apply`] → maps and answers go out. Nothing changes [`MonState`] in any other way.
//!
//! * [`state`] — start here: [`MonState`], everything the cluster decides. [`bootstrap`] makes the first one.
//! * [`update`]: [`Update`] and [`Batch`], the content of the log. [`log`]: the store where a monitor keeps its part of
//!   it.
//! * [`volatile`]: [`Volatile`], facts that are never decided: statistics that OSDs report. [`health`] judges both.
//! * [`monitor`]: [`Monitor`], messages and time in, messages and appends out.
//! * [`identity`]: who somebody is, and what he may do.
//! * [`member`]: [`Member`], a monitor as one of several: it finds out which one decides and which one answers.
//! * [`commands`]: the commands of `ceph`. [`pools`] (and [`erasure_pools`]): making and deleting pools.
//! * [`crashes`]: reports of daemons that ended by themselves.
//! * [`options`]: the options that there are, and which of them have an effect.
//! * [`survivor`]: a way on once a majority of the monitors' disks is lost.
//! * [`driver`], [`daemon`]: sockets, clock, disk; a monitor as a process.
//!
//! Only [`driver`] and [`daemon`] open sockets and read clocks.

// Answers with many fields are written as one `json!`.
#![recursion_limit = "256"]

pub mod autoscaler;
pub mod balancer;
pub mod bootstrap;
mod bounds;
pub mod commands;
pub mod crashes;
pub mod daemon;
pub mod driver;
pub mod erasure_pools;
mod half_received;
pub mod handshakes;
pub mod health;
pub mod identity;
pub mod log;
pub mod member;
pub mod monitor;
pub use control::options;
mod osd_shards;
mod pg_numbers;
pub mod pools;
mod shard_orders;
pub mod state;
pub mod survivor;
pub mod update;
pub mod volatile;

pub use bootstrap::BootstrapSpec;
pub use daemon::{MonError, MonOptions, mkfs, mkfs_to_join, run};
pub use member::Member;
pub use monitor::Monitor;
pub use state::MonState;
pub use survivor::{Survivor, SurvivorError};
pub use update::{Batch, Update};
pub use volatile::Volatile;
