//! The monitor as a whole, by events.

mod at_manager;
mod authentication;
mod balancing;
mod blocklist;
mod bounds;
mod clients;
mod doubt;
mod durability;
mod extremes;
mod harness;
mod health;
mod key_kinds;
mod maps;
mod osds;
mod pg_numbers;
mod pools;
mod replaced_secrets;
mod services;
mod shard_orders;
mod state_check;

/// Names that all the tests use.
mod prelude {
    pub(super) use super::super::osd_changes::is_at;
    pub(super) use super::super::*;
    pub(super) use crate::bootstrap::{BootstrapSpec, bootstrap};
    pub(super) use crate::update::Batch;
    pub(super) use osdmap::{Incremental, OsdMap, OsdMapFlags};
    pub(super) use std::collections::BTreeMap;
    pub(super) use types::{EntityName, EntityType, Epoch, Errno, Fsid, OsdId, PgId, PoolId, SnapId};
    pub(super) use wire::basic::AuthName;
    pub(super) use wire::codec::features;
    pub(super) use wire::messages as msg;
    pub(super) use wire::nacre::mon::{self as nacre, pg_state};
    pub(super) use wire::{Decode, Encode, EntityAddrVec, Message, Target};
}
