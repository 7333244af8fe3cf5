//! The OSD: drives its shard's placement groups, store and sessions with the reactor's events.
//!
//! This crate moves messages, device results and time between `pg`, `store` and `wire`. It decides nothing that one of
//! them could decide.
//!
//! * [`OsdConfig`] and [`run()`]: start here.
//! * [`Osd`]: the reactor's handler.
//! * `shards`: additions for an OSD of several shards.
//! * [`heartbeat`]: signs of life between OSDs.

mod beacon;
mod commands;
mod config;
mod connection_shares;
mod failure;
pub mod heartbeat;
mod joins;
mod leaving;
mod link;
mod memory_shares;
mod monitor;
mod osd;
mod peers;
mod proofs;
mod pulse_watch;
mod receiving;
mod run;
mod sending;
mod shard_making;
mod shards;
mod store_holder;

pub use commands::new_settings;
pub use config::OsdConfig;
pub use control::Settings;
pub use memory_shares::{MEMORY_BYTES_MIN, MemoryShares, default_memory_bytes};
pub use osd::{ConnectionMemory, Osd};
pub use pg::Homes;
pub use pg::hops::DEFAULT_PER_SECOND as KEPT_OPS_PER_SECOND;
pub use pg::{CHECK_PERIOD, LIGHT_SCRUB_PERIOD};
pub use proofs::{Credentials, OsdLogin};
pub use run::{Stop, run};
pub use shards::{OsdInOneLoop, ShardLimits};
