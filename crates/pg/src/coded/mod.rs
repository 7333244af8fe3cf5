//! Groups of erasure-coded pools: what differs from replication. `docs/erasure-coding.md` gives the reasons.
//!
//! Each position of the acting set is a shard, and an OSD keeps each shard of a group apart, as if it were a group of a
//! pool of its own ([`types::PoolId::of_shard`]). Everything that one such instance says and keeps names its own pool;
//! what comes from another one is renamed on arrival ([`crate::messages`]). So log, missing objects, backfill and scrub
//! are those of replicated groups. What is here:
//!
//! * [`coding`]: how a pool's objects are coded. [`change`]: what an update does to the shards.
//! * [`undo`]: updates that too few shards have are taken back; until then each shard keeps what it needs for that.
//! * [`gather`]: bytes of an object from its shards, computed where they are missing; [`serve`] is the other end;
//!   [`shard_sources`]: who has what; [`rebuild`]: the primary's own shard;
//!   [`proof`]: which shards another one cannot be computed of.
//! * [`old_shards`]: what members cannot make up for is read from those that served before.
//! * [`authority`]: which log is the group's, and which OSDs should act for which shard.

pub(crate) mod authority;
pub(crate) mod change;
pub mod coding;
pub(crate) mod forward;
pub(crate) mod gather;
pub(crate) mod old_shards;
pub(crate) mod proof;
pub(crate) mod rebuild;
pub(crate) mod serve;
pub(crate) mod shard_sources;
pub mod undo;

use coding::Coding;
use ec::{Code, StripeLayout};
use gather::Gather;
use old_shards::OldShards;
use proof::Proof;
use rebuild::Rebuild;
use serve::Serve;
use std::collections::{BTreeMap, VecDeque};
use store::{LookupId, ReadError};
use types::{EVersion, ObjectId};
use wire::Rope;

/// What a group of an erasure-coded pool has beside what every group has.
#[derive(Debug)]
pub(crate) struct Coded {
    pub coding: Coding,
    pub layout: StripeLayout,
    pub code: Code,
    /// As primary.
    pub gathers: BTreeMap<LookupId, Gather>,
    pub rebuilds: BTreeMap<ObjectId, Rebuild>,
    /// Of objects of which shards are computed.
    pub proofs: BTreeMap<ObjectId, Proof>,
    pub old_shards: OldShards,
    /// How far members have been told to forget what updates replaced.
    pub told_forward: EVersion,
    /// As member, and as primary for itself.
    pub serves: BTreeMap<LookupId, Serve>,
}

impl Coded {
    pub fn new(coding: Coding) -> Coded {
        Coded {
            coding,
            layout: coding.layout(),
            code: coding.code(),
            gathers: BTreeMap::new(),
            rebuilds: BTreeMap::new(),
            proofs: BTreeMap::new(),
            old_shards: OldShards::default(),
            told_forward: EVersion::ZERO,
            serves: BTreeMap::new(),
        }
    }
}

/// Reads over several shards, of all groups of an OSD. They are waited for like lookups of the store.
#[derive(Debug, Default)]
pub(crate) struct CodedReads {
    made: u64,
    /// Those that have ended.
    pub done: VecDeque<(LookupId, Result<Rope, ReadError>)>,
}

impl CodedReads {
    /// The store counts its own from below.
    const FIRST: u64 = 1 << 63;

    pub fn next_id(&mut self) -> LookupId {
        self.made += 1;
        LookupId(Self::FIRST + self.made)
    }
}
