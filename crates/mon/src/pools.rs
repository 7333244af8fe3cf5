//! Making, deleting and snapshotting pools: the common part of `ceph osd pool create` and `rados mkpool`.

use crate::MonState;
use crate::erasure_pools;
use crate::update::Update;
use bytes::Bytes;
use crush::RuleKind;
use osdmap::{AutoscaleMode, Incremental, PgPool, PoolFlags, TempSet};
use std::collections::BTreeSet;
use types::{Errno, PoolId, SnapId, Utime};
use wire::messages::{PoolOp, PoolOpKind};

/// Placement groups of a new pool unless told otherwise (`osd_pool_default_pg_num`).
pub const PG_NUM_DEFAULT: u32 = 32;
/// Replicas of a new pool unless told otherwise (`osd_pool_default_size`), if there are as many failure domains.
pub const SIZE_DEFAULT: u8 = 3;
/// The most placement groups one pool may have.
pub const PG_NUM_MAX: u32 = 65_536;
/// The most copies of placement groups there may be per OSD that is in (`mon_max_pg_per_osd`).
pub const PGS_PER_OSD_MAX: u64 = 250;

/// Wishes for a new pool. `None` is the default.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct NewPool {
    pub name: String,
    pub pg_num: Option<u32>,
    pub pgp_num: Option<u32>,
    /// Name of a CRUSH rule.
    pub rule: Option<String>,
    /// Number of a CRUSH rule; counts only without a name.
    pub rule_id: Option<u32>,
    pub size: Option<u8>,
    pub expected_num_objects: Option<u64>,
    /// Name of an erasure-coded pool's profile; `None` makes a replicated pool.
    pub erasure_code_profile: Option<String>,
}

/// Reason why a pool cannot be made or deleted as asked.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum PoolError {
    #[error("pool '{0}' already exists")]
    Exists(String),
    #[error("pool name must not be empty")]
    NoName,
    #[error(
        "pools are not made until it is confirmed what the surviving monitor knows, as numbers of pools that it has \
         not heard of would be given again: see `ceph health detail`"
    )]
    InDoubt,
    #[error(
        "'pg_num' must be greater than 0 and less than or equal to {0} (you may adjust 'mon max pool pg num' \
         for higher values)"
    )]
    PgNum(u32),
    #[error("'pgp_num' must be greater than 0 and lower or equal than 'pg_num', which in this case is {0}")]
    PgpNum(u32),
    #[error("pool size must be between 1 and 10")]
    Size,
    #[error("specified rule {0} doesn't exist")]
    NoRule(String),
    #[error("rule {0} is not for replicated pools of size {1}")]
    UnfitRule(String, u8),
    #[error("rule {0} is not for erasure-coded pools of {1} shards")]
    UnfitErasureRule(String, u8),
    #[error("unknown erasure code profile '{0}'")]
    NoProfile(String),
    #[error("erasure code profile '{0}' cannot be used: {1}")]
    Profile(String, UnfitProfile),
    #[error("there is no crush rule for replicated pools")]
    NoDefaultRule,
    #[error(
        "pg_num {pg_num} size {size} would mean {would_be} total pgs, which exceeds max {max} (mon_max_pg_per_osd \
         {per_osd} * num_in_osds {osds_in})"
    )]
    TooManyPgs { pg_num: u32, size: u8, would_be: u64, max: u64, per_osd: u64, osds_in: u64 },
    #[error(
        "pool deletion is disabled; you must first set the mon_allow_pool_delete config option to true before you can \
         destroy a pool"
    )]
    DeletionDisabled,
    #[error("pool deletion is disabled; you must unset nodelete flag for the pool first")]
    NoDelete,
}

/// The reason why no pool can be made with an erasure code profile.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum UnfitProfile {
    #[error(transparent)]
    Profile(#[from] ec::ProfileError),
    #[error("it has too many shards")]
    Shards,
    #[error("no rule can be made of it: {0}")]
    Rule(#[from] crush::BuildError),
}

impl PoolError {
    pub fn errno(&self) -> Errno {
        match self {
            PoolError::Exists(_) => Errno::EEXIST,
            PoolError::NoRule(_) | PoolError::NoDefaultRule => Errno::ENOENT,
            PoolError::PgNum(_) | PoolError::PgpNum(_) | PoolError::TooManyPgs { .. } => Errno::ERANGE,
            PoolError::DeletionDisabled | PoolError::NoDelete => Errno::EPERM,
            PoolError::InDoubt => Errno::EBUSY,
            PoolError::NoName | PoolError::Size | PoolError::UnfitRule(..) => Errno::EINVAL,
            PoolError::UnfitErasureRule(..) | PoolError::NoProfile(_) | PoolError::Profile(..) => Errno::EINVAL,
        }
    }
}

/// Adds a pool to `incremental`. Returns its id.
pub fn create(state: &MonState, new: &NewPool, incremental: &mut Incremental) -> Result<PoolId, PoolError> {
    let map = state.osdmap();
    if new.name.is_empty() {
        return Err(PoolError::NoName);
    }
    if map.pool_by_name(&new.name).is_some() {
        return Err(PoolError::Exists(new.name.clone()));
    }
    if state.in_doubt {
        return Err(PoolError::InDoubt);
    }
    let pg_num = new.pg_num.or(config_number(state, "osd_pool_default_pg_num")).unwrap_or(PG_NUM_DEFAULT);
    let most = pg_num_max(state);
    if pg_num == 0 || pg_num > most {
        return Err(PoolError::PgNum(most));
    }
    let pgp_num = new.pgp_num.unwrap_or(pg_num);
    if pgp_num == 0 || pgp_num > pg_num {
        return Err(PoolError::PgpNum(pg_num));
    }
    let pool = match &new.erasure_code_profile {
        None => replicated(state, new, pg_num)?,
        Some(profile) => {
            let shape = erasure_pools::shape(state, &new.name, profile, new.rule.as_deref(), incremental)?;
            check_pg_count(state, pg_num, shape.size)?;
            shape.pool(profile, pg_num)
        }
    };
    let pool = PgPool { flags: pool.flags | default_flags(state), ..pool };
    let mode = state.mon_option("", "osd_pool_default_pg_autoscale_mode").and_then(AutoscaleMode::from_name);
    let epoch = incremental.epoch;
    let id = PoolId(i64::from(map.pool_max).max(incremental.new_pool_max.unwrap_or(0)).max(0) + 1);
    incremental.new_pool_max = Some(id.0);
    incremental.new_pool_names.insert(id, new.name.clone());
    incremental.new_pools.insert(
        id,
        PgPool {
            pgp_num,
            pgp_num_target: pgp_num,
            last_change: epoch,
            expected_num_objects: new.expected_num_objects.unwrap_or(0),
            create_time: incremental.modified,
            autoscale_mode: mode.unwrap_or(AutoscaleMode::OFF),
            ..pool
        },
    );
    crate::balancer::place_new_pool(state, id, incremental);
    Ok(id)
}

/// Returns the flags that options give to new pools.
fn default_flags(state: &MonState) -> PoolFlags {
    let options = [
        ("osd_pool_default_flag_bulk", PoolFlags::BULK),
        ("osd_pool_default_flag_nodelete", PoolFlags::NODELETE),
        ("osd_pool_default_flag_nopgchange", PoolFlags::NOPGCHANGE),
        ("osd_pool_default_flag_nosizechange", PoolFlags::NOSIZECHANGE),
    ];
    let wanted = options.into_iter().filter(|(option, _)| state.mon_option("", option) == Some("true"));
    wanted.fold(PoolFlags(0), |flags, (_, flag)| flags | flag)
}

/// Returns a replicated pool as it is wanted.
fn replicated(state: &MonState, new: &NewPool, pg_num: u32) -> Result<PgPool, PoolError> {
    let map = state.osdmap();
    let (rule, rule_name) = rule_for(state, new)?;
    let size = match new.size.or(config_number(state, "osd_pool_default_size")) {
        Some(size) => size,
        // The default is three replicas where there are three failure domains; fewer beat placement groups that never
        // become whole. Before there is any OSD their number is unknown.
        None => match failure_domains(state, rule) {
            0 => SIZE_DEFAULT,
            domains => domains.min(SIZE_DEFAULT.into()) as u8,
        },
    };
    if !(1..=10).contains(&size) {
        return Err(PoolError::Size);
    }
    if map.crush.find_rule(rule as u8, RuleKind::REPLICATED, size.into()).is_none() {
        return Err(PoolError::UnfitRule(rule_name, size));
    }
    check_pg_count(state, pg_num, size)?;
    let min_size = config_number(state, "osd_pool_default_min_size").filter(|min| (1..=size).contains(min));
    let min_size = min_size.unwrap_or(size - size / 2);
    Ok(PgPool { min_size, ..PgPool::replicated(size, pg_num, rule as u8) })
}

fn config_number<T: std::str::FromStr>(state: &MonState, option: &str) -> Option<T> {
    state.mon_option("", option)?.parse().ok()
}

/// Returns number and name of the rule of a new pool: as asked for, else the first one for replicated pools.
fn rule_for(state: &MonState, new: &NewPool) -> Result<(u32, String), PoolError> {
    let crush = &state.osdmap().crush;
    let name_of = |rule: u32| crush.rule_name(rule).unwrap_or_default().to_owned();
    match (&new.rule, new.rule_id) {
        (Some(name), _) => {
            let rule = crush.rule_by_name(name).ok_or_else(|| PoolError::NoRule(name.clone()))?;
            Ok((rule, name.clone()))
        }
        (None, Some(rule)) => match crush.rule(rule) {
            Some(_) => Ok((rule, name_of(rule))),
            None => Err(PoolError::NoRule(rule.to_string())),
        },
        (None, None) => {
            let first = crush.rules().find(|(_, rule)| rule.kind == RuleKind::REPLICATED);
            first.map(|(rule, _)| (rule, name_of(rule))).ok_or(PoolError::NoDefaultRule)
        }
    }
}

/// Counts the hosts of the OSDs below a rule.
fn failure_domains(state: &MonState, rule: u32) -> usize {
    let devices = state.osdmap().crush.rule_weights(rule);
    let hosts = devices.iter().filter(|(_, weight)| **weight > 0.0).map(|(osd, _)| state.host_of(types::OsdId(*osd)));
    hosts.collect::<BTreeSet<_>>().len()
}

/// Returns the most placement groups of a pool: `mon_max_pool_pg_num` lowers the bound.
pub(crate) fn pg_num_max(state: &MonState) -> u32 {
    config_number(state, "mon_max_pool_pg_num").unwrap_or(PG_NUM_MAX).clamp(1, PG_NUM_MAX)
}

/// Refuses a pool that would put more placement groups on the OSDs than they should carry.
pub fn check_pg_count(state: &MonState, pg_num: u32, size: u8) -> Result<(), PoolError> {
    check_pg_count_instead(state, 0, pg_num, size)
}

/// Refuses as [`check_pg_count`] does, for a pool that has `has` copies of groups already.
pub(crate) fn check_pg_count_instead(state: &MonState, has: u64, pg_num: u32, size: u8) -> Result<(), PoolError> {
    let map = state.osdmap();
    let per_osd = config_number(state, "mon_max_pg_per_osd").unwrap_or(PGS_PER_OSD_MAX);
    let existing: u64 = map.pools.values().map(|pool| u64::from(pool.pg_num) * u64::from(pool.size)).sum();
    let would_be = existing.saturating_sub(has) + u64::from(pg_num) * u64::from(size);
    let (_, _, osds_in) = map.counts();
    let osds_in = osds_in.max(1) as u64;
    let max = per_osd.saturating_mul(osds_in);
    if would_be > max {
        return Err(PoolError::TooManyPgs { pg_num, size, would_be, max, per_osd, osds_in });
    }
    Ok(())
}

/// Removes a pool in `incremental`.
///
/// Panics if there is no such pool.
pub fn delete(state: &MonState, id: PoolId, incremental: &mut Incremental) -> Result<(), PoolError> {
    let map = state.osdmap();
    let pool = &map.pools[&id];
    if !deletion_allowed(state) {
        return Err(PoolError::DeletionDisabled);
    }
    if pool.flags.contains(PoolFlags::NODELETE) {
        return Err(PoolError::NoDelete);
    }
    incremental.old_pools.insert(id);
    // Entries of the map that concern the pool go with it.
    let of_pool = |pg: &&types::PgId| pg.pool == id;
    for pg in map.pg_temp.keys().filter(of_pool) {
        incremental.new_pg_temp.insert(*pg, TempSet::default());
    }
    for pg in map.primary_temp.keys().filter(of_pool) {
        incremental.new_primary_temp.insert(*pg, None);
    }
    let mut crush = (*map.crush).clone();
    if crush.remove_weight_set(id.0) {
        incremental.set_crush(&crush);
    }
    incremental.old_pg_upmap.extend(map.pg_upmap.keys().filter(of_pool));
    incremental.old_pg_upmap_items.extend(map.pg_upmap_items.keys().filter(of_pool));
    Ok(())
}

/// Returns true if `mon_allow_pool_delete` allows it; it does unless it is set to something else.
pub fn deletion_allowed(state: &MonState) -> bool {
    !matches!(state.mon_option("", "mon_allow_pool_delete"), Some("false" | "0" | "no" | "off"))
}

/// Decision on a [`PoolOp`].
#[derive(Clone, PartialEq, Debug)]
pub enum PoolOpOutcome {
    /// `code`: 0 or a negative error number.
    Reply { code: i32, data: Option<Bytes> },
    /// Append the updates, then answer with success and `data`.
    Propose { updates: Vec<Update>, data: Option<Bytes> },
}

impl PoolOpOutcome {
    fn done() -> PoolOpOutcome {
        PoolOpOutcome::Reply { code: 0, data: None }
    }

    fn error(errno: Errno) -> PoolOpOutcome {
        PoolOpOutcome::Reply { code: errno.as_result(), data: None }
    }
}

/// Decides on a pool operation of a client library.
pub fn pool_op(state: &MonState, op: &PoolOp, now: Utime) -> PoolOpOutcome {
    let mut incremental = state.next_incremental(now);
    let mut data = None;
    let decided = match op.op {
        // The pool may exist because this is a repetition of a request whose answer was lost: as in Ceph that is
        // success, and a client that needs to know looks at its map first.
        PoolOpKind::CREATE if state.osdmap().pool_by_name(&op.name).is_some() => return PoolOpOutcome::done(),
        PoolOpKind::CREATE => {
            let rule_id = u32::try_from(op.crush_rule).ok();
            let new = NewPool { name: op.name.clone(), rule_id, ..NewPool::default() };
            create(state, &new, &mut incremental).map(drop).map_err(|e| e.errno())
        }
        PoolOpKind::DELETE => match state.osdmap().pools.contains_key(&PoolId(op.pool.into())) {
            true => delete(state, PoolId(op.pool.into()), &mut incremental).map_err(|e| e.errno()),
            false => return PoolOpOutcome::done(),
        },
        PoolOpKind::AUID_CHANGE => Err(Errno::EOPNOTSUPP),
        _ => match snapshot_op(state, op, &mut incremental) {
            Ok(Snapshots::Changed(reply)) => {
                data = reply;
                Ok(())
            }
            Ok(Snapshots::Unchanged) => return PoolOpOutcome::done(),
            Err(errno) => Err(errno),
        },
    };
    match decided {
        Ok(()) => PoolOpOutcome::Propose { updates: state.osd_update(incremental).into_iter().collect(), data },
        Err(errno) => PoolOpOutcome::error(errno),
    }
}

enum Snapshots {
    Unchanged,
    Changed(Option<Bytes>),
}

/// Makes and removes snapshots of pools, by name or (for block images) by number.
fn snapshot_op(state: &MonState, op: &PoolOp, incremental: &mut Incremental) -> Result<Snapshots, Errno> {
    let id = PoolId(op.pool.into());
    let mut pool = state.osdmap().pools.get(&id).ok_or(Errno::ENOENT)?.clone();
    let mut reply = None;
    let by_name = pool.flags.contains(PoolFlags::POOL_SNAPS);
    let by_number = pool.flags.contains(PoolFlags::SELFMANAGED_SNAPS);
    let named = pool.snaps.iter().find(|(_, snap)| snap.name == op.name).map(|(id, _)| *id);
    match op.op {
        PoolOpKind::CREATE_SNAP | PoolOpKind::DELETE_SNAP if by_number => return Err(Errno::EINVAL),
        PoolOpKind::CREATE_SNAP => {
            if named.is_some() {
                return Ok(Snapshots::Unchanged);
            }
            pool.add_snap(&op.name, incremental.modified);
        }
        PoolOpKind::DELETE_SNAP => {
            let Some(snap) = named else { return Ok(Snapshots::Unchanged) };
            pool.remove_snap(snap);
            incremental.new_removed_snaps.entry(id).or_default().insert(snap.0, 1);
        }
        PoolOpKind::CREATE_UNMANAGED_SNAP => {
            if by_name {
                return Err(Errno::EINVAL);
            }
            reply = Some(Bytes::copy_from_slice(&pool.add_unmanaged_snap().0.to_le_bytes()));
        }
        PoolOpKind::DELETE_UNMANAGED_SNAP => {
            if by_name || !by_number {
                return Err(Errno::EOPNOTSUPP);
            }
            if op.snap > pool.snap_seq {
                return Err(Errno::ENOENT);
            }
            let removed = state.osdmap().removed_snaps_queue.get(&id);
            if removed.is_some_and(|removed| removed.contains(op.snap.0)) {
                return Ok(Snapshots::Unchanged);
            }
            // As in Ceph, a removal takes a number, too: writers see that something has changed.
            pool.snap_seq = SnapId(pool.snap_seq.0 + 1);
            incremental.new_removed_snaps.entry(id).or_default().insert(op.snap.0, 1);
        }
        _ => return Err(Errno::EINVAL),
    }
    pool.snap_epoch = incremental.epoch;
    pool.last_change = incremental.epoch;
    incremental.new_pools.insert(id, pool);
    Ok(Snapshots::Changed(reply))
}
