//! The OSD map as the objecter uses it: targets of operations.

use super::request::{Request, Subject};
use osdmap::{Incremental, OsdMap, OsdMapFlags, PgPool, PoolFlags, UpActing};
use std::collections::BTreeMap;
use std::sync::Arc;
use types::{Epoch, OsdId, PgId, PoolId};
use wire::basic::{NO_SHARD, SPgId};
use wire::messages::{self as msg, OpFlags};
use wire::{Decode, DecodeError, EntityAddrVec};

/// Target of a placement group's operations. Two that differ belong to different intervals: an operation sent in the
/// first must be sent again in the second.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupTarget {
    pub pg: SPgId,
    /// `None` while the group has no primary.
    pub primary: Option<OsdId>,
    up: Vec<OsdId>,
    acting: Vec<OsdId>,
    /// Number of groups, of replicas, and of replicas needed to serve.
    shape: (u32, u32, u32),
    /// Epoch from which on operations have to be sent again, whatever else the map says.
    force_resend: Epoch,
}

/// Map changes after which an operation in flight is sent again.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Resend {
    /// Every change that begins a new interval of the placement group. OSDs need not remember operations of earlier
    /// intervals.
    #[default]
    NewInterval,
    /// Changes of the primary, of its place in the acting set, or of the number of groups, as in Ceph's clients. A
    /// primary that stays must answer in the end. Watches and notifications are sent again in every new interval all
    /// the same.
    NewPrimary,
}

impl GroupTarget {
    /// The OSDs that hold whole copies of the objects; none in erasure-coded pools.
    pub fn copies(&self) -> impl Iterator<Item = OsdId> {
        let has_copies = self.pg.shard == NO_SHARD;
        self.acting.iter().copied().filter(move |osd| has_copies && osd.is_some())
    }

    /// True if an operation sent to this target must be sent again now that the map says `next`.
    fn is_left_for(&self, next: &GroupTarget, resend: Resend) -> bool {
        match resend {
            Resend::NewInterval => self != next,
            Resend::NewPrimary => {
                let rank = |group: &GroupTarget| group.acting.iter().position(|osd| Some(*osd) == group.primary);
                let aim = |group: &GroupTarget| (group.pg, group.primary, rank(group), group.acting.is_empty());
                aim(self) != aim(next) || self.shape.0 != next.shape.0 || self.force_resend != next.force_resend
            }
        }
    }
}

/// Target of an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// Placement hash of the object, all 32 bits.
    pub hash: u32,
    pub group: Arc<GroupTarget>,
}

impl Target {
    /// True if an operation sent to this target must be sent again now that the map says `next` (`None`: the pool is
    /// gone).
    pub fn is_left_for(&self, next: Option<&Target>, resend: Resend) -> bool {
        next.is_none_or(|next| self.hash != next.hash || self.group.is_left_for(&next.group, resend))
    }
}

/// Relation of a map to the one before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The map is the very next.
    Next,
    /// Maps between the two were not seen: intervals may have begun and ended there.
    Skipped,
}

/// The newest OSD map, and a cache of targets computed from it.
pub struct Placement {
    map: OsdMap,
    /// Targets of the groups that operations went to in this epoch: computing one costs microseconds.
    groups: BTreeMap<PgId, Arc<GroupTarget>>,
}

impl Placement {
    pub fn new(map: OsdMap) -> Placement {
        Placement { map, groups: BTreeMap::new() }
    }

    /// Applies the next map of `message`: the one after the present map or, only where increments do not lead on, the
    /// newest full map. `None` if the message has nothing newer.
    ///
    /// Errors: a map that cannot be read; maps applied before it stay.
    pub fn step(placement: &mut Option<Placement>, message: &msg::OsdMap) -> Result<Option<Step>, DecodeError> {
        let have = placement.as_ref().map(Placement::epoch);
        if have.is_some_and(|have| have >= message.last()) {
            return Ok(None);
        }
        let next = have.and_then(|have| message.incrementals.get_key_value(&have.next()));
        if let (Some(now), Some((epoch, bytes))) = (placement.as_mut(), next) {
            let increment = Incremental::from_slice(bytes)?;
            let mut map = now.map.clone();
            let applied = map.apply(&increment);
            if applied.is_ok() && map.epoch == *epoch {
                *now = Placement::new(map);
                return Ok(Some(Step::Next));
            }
            tracing::warn!(%epoch, error = ?applied.err(), "increment does not fit the map");
        }
        // The newest full map is used if it is newer than the present map.
        let full = message.fulls.last_key_value().filter(|(epoch, _)| have.is_none_or(|have| **epoch > have));
        let Some((epoch, bytes)) = full else { return Ok(None) };
        let map = OsdMap::from_slice(bytes)?;
        if map.epoch != *epoch {
            return Err(DecodeError::Value { what: "epoch of a full map", value: map.epoch.0.into() });
        }
        let is_next = have.is_some_and(|have| have.next() == *epoch);
        *placement = Some(Placement::new(map));
        Ok(Some(if is_next { Step::Next } else { Step::Skipped }))
    }

    pub fn epoch(&self) -> Epoch {
        self.map.epoch
    }

    pub fn map(&self) -> &OsdMap {
        &self.map
    }

    pub fn has_pool(&self, pool: PoolId) -> bool {
        self.map.pools.contains_key(&pool)
    }

    pub fn pool_id(&self, name: &str) -> Option<PoolId> {
        self.map.pool_by_name(name)
    }

    pub fn pool_names(&self) -> BTreeMap<String, PoolId> {
        self.map.pool_names.iter().map(|(id, name)| (name.clone(), *id)).collect()
    }

    /// Addresses at which an OSD that is up listens to clients.
    pub fn addrs(&self, osd: OsdId) -> Option<&EntityAddrVec> {
        self.map.osd(osd).filter(|osd| osd.is_up()).map(|osd| &osd.client_addrs)
    }

    /// The OSDs that are up.
    pub fn up_osds(&self) -> Vec<OsdId> {
        self.map.osds().map(|(osd, _)| osd).filter(|osd| self.map.is_up(*osd)).collect()
    }

    /// True if flags of the map or of the pool forbid the operation for now.
    pub fn is_paused(&self, request: &Request) -> bool {
        let flags = self.map.flags;
        let Some(pool) = self.map.pools.get(&request.subject.pool()) else { return false };
        let read = request.is_read() && flags.contains(OsdMapFlags::PAUSERD);
        let full = flags.contains(OsdMapFlags::FULL) || pool.flags.contains(PoolFlags::FULL);
        let insists = request.flags.has(OpFlags::FULL_TRY) || request.flags.has(OpFlags::FULL_FORCE);
        let write = request.is_write() && (flags.contains(OsdMapFlags::PAUSEWR) || (full && !insists));
        read || write
    }

    /// Target of an operation on `subject`; `None` if there is no such pool.
    pub fn target(&mut self, subject: &Subject) -> Option<Target> {
        let id = subject.pool();
        let pool = self.map.pools.get(&id)?;
        let hash = match subject {
            Subject::Object { locator, name } => match u32::try_from(locator.hash) {
                Ok(hash) => hash,
                Err(_) => pool.hash_name(&locator.nspace, name, &locator.key)?,
            },
            Subject::Group { hash, .. } => *hash,
        };
        let pg = PgId { pool: id, seed: pool.seed_of_hash(hash) };
        let group = match self.groups.get(&pg) {
            Some(group) => group.clone(),
            None => {
                let group = Arc::new(work_out(&self.map, pg, pool));
                self.groups.insert(pg, group.clone());
                group
            }
        };
        Some(Target { hash, group })
    }
}

fn work_out(map: &OsdMap, pg: PgId, pool: &PgPool) -> GroupTarget {
    let placed = map.pg_to_up_acting(pg).unwrap_or_else(|error| {
        tracing::warn!(%pg, %error, "group cannot be placed");
        UpActing::default()
    });
    // Further members are none of a client's business, as they are none of a Ceph's clients'.
    let (acting, primary, up) = (placed.acting_shown().to_vec(), placed.acting_primary, placed.up);
    let shard = if pool.is_erasure() {
        let index = acting.iter().position(|osd| Some(*osd) == primary);
        index.map_or(NO_SHARD, |index| index as i8)
    } else {
        NO_SHARD
    };
    let shape = (pool.pg_num, pool.size.into(), pool.min_size.into());
    GroupTarget { pg: SPgId { pg, shard }, primary, up, acting, shape, force_resend: pool.last_force_op_resend }
}
