//! The monitor: keeps the cluster's maps, configuration and records, and tells everybody about them.
//!
//! The path of a change: somebody asks (a command, an OSD's report) → the monitor decides on the state as committed
//! → an [`Update`] is appended to the log → once it is durable, [`MonState::apply`] → answers and maps go out. Nothing
//! changes [`MonState`] in any other way, so that a consensus engine can stand in for the log.
//!
//! * [`state`] — start here: [`MonState`], everything the cluster decides.
//! * [`update`]: [`Update`] and [`Batch`], what the log holds.
//! * [`volatile`]: [`Volatile`], what is known but never decided: statistics that OSDs report.
//! * [`commands`]: what `ceph` asks.
//!
//! The core opens no socket and reads no clock.

pub mod commands;
pub mod log;
pub mod state;
pub mod update;
pub mod volatile;

pub use state::MonState;
pub use update::{Batch, Update};
pub use volatile::Volatile;
