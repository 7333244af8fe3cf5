//! The state of a group's reads over several shards.

use super::gather::{Gather, Own};
use super::old_shards::OldShards;
use super::own_shard::Rebuild;
use super::pool_code::PoolCode;
use super::proof::Proofs;
use super::protection::Protection;
use super::shard_reading::Serve;
use crate::context::Context;
use crate::group::digests::Digests;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use store::LookupId;
use types::{EVersion, ObjectId, OsdId};

/// Reads over several shards of one group, and what is computed of them. Groups of replicated pools have none. Only
/// this folder sees into it.
#[derive(Debug)]
pub(crate) struct Coded {
    /// The code of an erasure-coded pool.
    code: Option<PoolCode>,
    /// Reads of this OSD as primary.
    pub(super) gathers: BTreeMap<LookupId, Gather>,
    /// Questions of gathers to this OSD itself, and its answers, in their order.
    pub(super) own: VecDeque<Own>,
    /// Time at which reads that may be late are looked at.
    pub(super) hedge_at: Option<Duration>,
    pub(super) rebuilds: BTreeMap<ObjectId, Rebuild>,
    /// Proofs of objects of which shards are computed.
    pub(super) proofs: Proofs,
    pub(super) old_shards: OldShards,
    /// Reads that this OSD answers, as member and as primary for itself.
    pub(super) serves: BTreeMap<LookupId, Serve>,
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
            own: VecDeque::new(),
            hedge_at: None,
            rebuilds: BTreeMap::new(),
            proofs: Proofs::default(),
            old_shards: OldShards::default(),
            serves: BTreeMap::new(),
        }
    }

    /// Returns the pool's code. Panics in replicated pools, where nothing is gathered or encoded.
    pub fn code(&self) -> &PoolCode {
        self.code.as_ref().expect("only groups of erasure-coded pools have shards")
    }

    /// Returns what is known of shards that former members have.
    pub fn old_shards(&self) -> &OldShards {
        &self.old_shards
    }

    /// Returns a read under way, to go on with it by the pool's code.
    pub(super) fn gather_mut(&mut self, id: LookupId) -> Option<(&mut Gather, &PoolCode)> {
        let gather = self.gathers.get_mut(&id)?;
        Some((gather, self.code.as_ref().expect("only groups of erasure-coded pools have shards")))
    }

    /// Forgets all but the code, as nothing that is under way is wanted any more. Nobody waits for these reads then.
    pub fn interval_ended(&mut self, cx: &mut Context<'_>) {
        for id in self.gathers.keys() {
            cx.agenda.waiters.remove(id);
        }
        *self = Coded { code: self.code.take(), ..Coded::new(Protection::Copies) };
    }

    /// Gives up computing this OSD's own shard of the object.
    pub fn forget_rebuild(&mut self, object: &ObjectId) {
        self.rebuilds.remove(object);
    }

    /// Forgets what sources have sent of the object.
    pub fn forget_proof(&mut self, object: &ObjectId) {
        self.proofs.forget(object);
    }

    /// Returns the sources whose shard is not what its digest says, after a shard that was computed of them is not
    /// either.
    pub fn wrong_sources(&mut self, object: &ObjectId, version: EVersion, digests: &Digests) -> Vec<OsdId> {
        self.proofs.take_wrong(object, version, digests)
    }
}
