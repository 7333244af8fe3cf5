//! Groups of erasure-coded pools: what differs from replication. `docs/erasure-coding.md` gives the reasons.
//!
//! Each position of the acting set is a shard, and an OSD keeps each shard of a group apart, as if it were a group of a
//! pool of its own ([`types::PoolId::of_shard`]). Everything that one such instance says and keeps names its own pool;
//! what comes from another one is renamed on arrival ([`crate::messages`]). So log, missing objects, backfill and scrub
//! are those of replicated groups. What is here:
//!
//! * [`protection`] — start here: what depends on the kind of a pool. [`coding`], [`pool_code`]: how its objects are
//!   coded. [`change`]: what an update does to the shards.
//! * [`undo`]: updates that too few shards have are taken back; until then each shard keeps what it needs for that.
//!   [`skipped`]: shards that an update leaves as they were.
//! * [`fingerprint`]: by which shards prove that they are one code word.
//!
//! Reads over several shards are a machine: inputs are methods of [`gatherer::Gatherer`], the state is in [`state`].
//!
//! * [`gathering`]: bytes of an object from its shards ([`wanted`]: which, [`parts`]: on which shards), computed where
//!   they are missing; [`gather`]: one such read. [`hedging`]: reads that do not wait for a late shard.
//! * [`serve`], [`shard_reading`]: the other end. [`shard_sources`], [`source`]: who has what.
//! * [`old_shards`], [`old_shard_search`]: what members cannot make up for is read from those that served before.
//! * [`rebuild`], [`own_shard`]: the primary's own shard. [`proof`]: which shards another one cannot be computed of.
//! * [`schedule`]: the steps between two of which healing acts. No other module knows the group.
//!
//! * **Owns** reads over several shards, what is computed of them, and what is known of shards that former members
//!   have.
//! * **Takes** wishes for bytes, and shards' bytes, of members and of this OSD.
//! * **Causes** lookups to end, shards to be noted as bad, pieces of the own shard to be taken, and what could not be
//!   read to be tried again.

pub(crate) mod change;
pub mod coding;
pub mod fingerprint;
pub(crate) mod forward;
mod gather;
pub(crate) mod gatherer;
mod gathering;
pub(crate) mod hedging;
mod old_shard_search;
pub(crate) mod old_shards;
mod own_shard;
mod parts;
pub(crate) mod pool_code;
mod proof;
pub mod protection;
mod rebuild;
pub(crate) mod rewrite;
mod schedule;
mod serve;
mod shard_reading;
pub(crate) mod shard_sources;
pub mod skipped;
pub(crate) mod source;
pub(crate) mod state;
pub mod undo;
pub(crate) mod wanted;

use hedging::Hedging;
pub(crate) use old_shards::OldShardReads;
use std::collections::VecDeque;
use store::{LookupId, ReadError};
use wire::Rope;

/// Reads over several shards, of all groups of an OSD. They are waited for like lookups of the store.
#[derive(Debug, Default)]
pub(crate) struct CodedReads {
    made: u64,
    pub hedging: Hedging,
    /// Reads that have ended.
    pub done: VecDeque<(LookupId, Result<Rope, ReadError>)>,
}

impl CodedReads {
    /// The store counts its own from below.
    const FIRST: u64 = 1 << 63;

    pub fn next_id(&mut self) -> LookupId {
        self.made += 1;
        LookupId(Self::FIRST + self.made)
    }

    /// Returns how many have begun.
    #[cfg(test)]
    pub fn made(&self) -> u64 {
        self.made
    }
}
