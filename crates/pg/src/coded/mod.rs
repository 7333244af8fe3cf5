//! Groups of erasure-coded pools: what differs from replication. `docs/erasure-coding.md` gives the reasons.
//!
//! Each position of the acting set is a shard, and an OSD keeps each shard of a group apart, as if it were a group of a
//! pool of its own ([`types::PoolId::of_shard`]). Everything that one such instance says and keeps names its own pool;
//! what comes from another one is renamed on arrival ([`crate::messages`]). So log, missing objects, backfill and scrub
//! are those of replicated groups. What is here:
//!
//! * [`protection`] — start here: what depends on the kind of a pool. [`coding`]: how its objects are coded.
//!   [`change`]: what an update does to the shards.
//! * [`undo`]: updates that too few shards have are taken back; until then each shard keeps what it needs for that.
//!   [`skipped`]: shards that an update leaves as they were.
//! * [`gather`]: bytes of an object from its shards ([`wanted`]: which, [`parts`]: on which shards), computed where
//!   they are missing; [`serve`] is the other end; [`shard_sources`]: who has what; [`rebuild`]: the primary's own
//!   shard; [`proof`]: which shards another one cannot be computed of.
//! * [`hedging`]: reads that do not wait for a late shard.
//! * [`old_shards`]: what members cannot make up for is read from those that served before.
//! * [`fingerprint`]: by which shards prove that they are one code word.
//!
//! * **Owns** reads over several shards, what is computed of them, and what is known of shards that former members
//!   have.
//! * **Takes** shards' bytes, of members and of this OSD.
//! * **Causes** lookups to end, shards to be noted as bad, and what could not be read to be tried again.

pub(crate) mod change;
pub mod coding;
pub mod fingerprint;
pub(crate) mod forward;
pub(crate) mod gather;
pub(crate) mod hedging;
pub(crate) mod old_shards;
mod parts;
pub(crate) mod proof;
pub mod protection;
pub(crate) mod rebuild;
pub(crate) mod rewrite;
pub(crate) mod serve;
pub(crate) mod shard_sources;
pub mod skipped;
pub mod undo;
pub(crate) mod wanted;

use ec::{Code, StripeLayout};
use gather::{Gather, OwnAnswers};
use hedging::Hedging;
pub(crate) use old_shards::OldShardReads;
use old_shards::OldShards;
use proof::Proof;
use protection::Protection;
use rebuild::Rebuild;
use serve::Serve;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use store::{LookupId, ReadError};
use types::ObjectId;
use wire::Rope;

/// Reads over several shards of one group, and what is computed of them. Groups of replicated pools have none.
#[derive(Debug)]
pub(crate) struct Coded {
    /// The code of an erasure-coded pool.
    code: Option<PoolCode>,
    /// Reads of this OSD as primary.
    gathers: BTreeMap<LookupId, Gather>,
    /// Answers that this OSD gives itself to gathers, until these have taken them.
    own_answers: OwnAnswers,
    /// Time at which reads that may be late are looked at.
    hedge_at: Option<Duration>,
    rebuilds: BTreeMap<ObjectId, Rebuild>,
    /// Proofs of objects of which shards are computed.
    proofs: BTreeMap<ObjectId, Proof>,
    old_shards: OldShards,
    /// Reads that this OSD answers, as member and as primary for itself.
    serves: BTreeMap<LookupId, Serve>,
}

/// A pool's code, made ready.
#[derive(Debug)]
struct PoolCode {
    layout: StripeLayout,
    code: Code,
}

impl Coded {
    pub fn new(protection: Protection) -> Coded {
        let code = match protection {
            Protection::Copies => None,
            Protection::Shards(coding) => Some(PoolCode { layout: coding.layout(), code: coding.code() }),
        };
        Coded {
            code,
            gathers: BTreeMap::new(),
            own_answers: OwnAnswers::default(),
            hedge_at: None,
            rebuilds: BTreeMap::new(),
            proofs: BTreeMap::new(),
            old_shards: OldShards::default(),
            serves: BTreeMap::new(),
        }
    }

    /// Panics in replicated pools, where nothing is gathered or encoded.
    fn code(&self) -> &PoolCode {
        self.code.as_ref().expect("only groups of erasure-coded pools have shards")
    }

    /// Forgets everything but the code.
    fn clear(&mut self) {
        *self = Coded { code: self.code.take(), ..Coded::new(Protection::Copies) };
    }
}

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
