//! Losses of a store's metadata, in the form in which its placement groups must know them.
//!
//! A group gets an object back from other members if it knows that it lacks the object. An object that is lost by name
//! is noted as missing. If not even names are known, or if the group's own table has lost entries, the group has to
//! start over. It then keeps nothing but a note that it is incomplete, so that it is never taken as a basis for
//! anything, and copies everything.

use crate::{Device, OfflineError, OfflineStore};
use pg::PgTable;
use pg::info::{INFO_KEY, PgInfo};
use pg::log::LogKind;
use pg::object_info::ObjectInfo;
use std::collections::{BTreeMap, BTreeSet};
use store::{LostObject, Mended};
use types::{EVersion, ObjectId, PgId, PoolId};
use wire::Decode;

/// The work that the losses make necessary.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// Each part that cannot be read, with the groups that may have lost table entries or unnamed objects with it.
    pub parts: Vec<(String, Vec<PgId>)>,
    /// Objects of which something is lost. With a group: the group has to note that it lacks this version.
    pub objects: Vec<(ObjectId, Option<(PgId, EVersion)>)>,
    /// Groups that have to start over, each with the number of groups in its pool.
    pub start_over: BTreeMap<PgId, u32>,
    /// True if the end of the log is lost. Blocks of the state before it may since have been given to other objects.
    pub log: bool,
    /// The reason why this store cannot be repaired.
    pub refused: Option<String>,
}

/// Lists the losses of a store that was opened to be mended.
pub(crate) fn of<D: Device>(store: &mut OfflineStore<D>) -> Result<Option<Losses>, OfflineError> {
    let Some(mended) = store.store().mended().cloned() else { return Ok(None) };
    let mut found = Losses::default();
    let (pg_nums, silent) = pg_nums(store)?;
    let mut groups: BTreeSet<PgId> = store.store().pgs().into_iter().collect();
    groups.extend(unknown_groups(store, &mended, &pg_nums)?);
    for loss in &mended.losses {
        let meets = |pg: &&PgId| {
            let pg_num = pg_nums.get(&pg.pool).copied();
            loss.meets_table_of(**pg) || pg_num.is_some_and(|pg_num| loss.meets_objects_of(**pg, pg_num))
        };
        let concerned: Vec<PgId> = groups.iter().filter(meets).copied().collect();
        for pg in &concerned {
            found.start_over.insert(*pg, pg_nums.get(&pg.pool).copied().unwrap_or(0));
        }
        found.parts.push((loss.to_string(), concerned));
    }
    if let Some(error) = &mended.tree {
        found.parts.push((format!("{error} (the tree of the checkpoint before it is used)"), Vec::new()));
    }
    if let Some(log) = &mended.log {
        found.log = true;
        let records = match log.last_lsn - log.lsn {
            0 => format!("log record {}", log.lsn),
            _ => format!("log records {} to {} at least", log.lsn, log.last_lsn),
        };
        let why = format!("{records}, what any group has done since, is lost: {}", log.why);
        found.start_over.extend(groups.iter().map(|pg| (*pg, pg_nums.get(&pg.pool).copied().unwrap_or(0))));
        found.parts.push((why, groups.iter().copied().collect()));
    }
    found.refused = refusal(store, &mended, &pg_nums, &silent)?;
    let mut table = None;
    for LostObject { object, stat } in mended.objects {
        let own = stat.and_then(|stat| ObjectInfo::of(&stat).ok()).map(|info| info.version);
        let pg = pg_nums.get(&object.pool).map(|pg_num| group_of(&object, *pg_num));
        let pg = pg.filter(|pg| groups.contains(pg) && !found.start_over.contains_key(pg));
        let Some(pg) = pg else {
            found.objects.push((object, None));
            continue;
        };
        if table.as_ref().is_none_or(|(of, _)| *of != pg) {
            table = Some((pg, PgTable::decode(store.pg_table(pg)?).ok()));
        }
        let table = table.as_ref().and_then(|(_, table)| table.as_ref());
        let last = table.and_then(|table| {
            table.log.iter().rev().find(|entry| entry.object == object && entry.kind != LogKind::Unchanged)
        });
        let noted = match (table, last) {
            (Some(_), Some(entry)) if entry.kind == LogKind::Delete => None,
            // Backfill has not come to this object yet.
            (Some(table), _) if !table.info.covers(&object) => None,
            (Some(table), _) => match table.version_of(&object).or(own) {
                Some(version) => Some((pg, version)),
                None => {
                    found.start_over.insert(pg, pg_nums[&pg.pool]);
                    None
                }
            },
            // The group's table is bad for other reasons, and no OSD would take it.
            (None, _) => None,
        };
        found.objects.push((object, noted));
    }
    // Groups that start over note nothing.
    for (_, noted) in &mut found.objects {
        *noted = noted.filter(|(pg, _)| !found.start_over.contains_key(pg));
    }
    Ok(Some(found))
}

fn group_of(object: &ObjectId, pg_num: u32) -> PgId {
    let seed = osdmap::stable_mod(object.hash, pg_num, pg_num.next_power_of_two() - 1);
    PgId { pool: object.pool, seed }
}

/// The number of groups in each pool for which any group tells it, and the groups of pools for which none does.
fn pg_nums<D: Device>(store: &mut OfflineStore<D>) -> Result<(BTreeMap<PoolId, u32>, Vec<PgId>), OfflineError> {
    let mut pg_nums = BTreeMap::new();
    let pgs = store.store().pgs();
    for pg in &pgs {
        let info = store.ready(|store| store.pg_get(*pg, &INFO_KEY))?;
        let info = info.and_then(|info| PgInfo::from_slice(&info).ok());
        if let Some(pg_num) = info.map(|info| info.pg_num).filter(|pg_num| *pg_num > pg.seed) {
            pg_nums.insert(pg.pool, pg_num);
        }
    }
    let silent = pgs.into_iter().filter(|pg| !pg_nums.contains_key(&pg.pool)).collect();
    Ok((pg_nums, silent))
}

/// Groups that have lost their whole tables, but not all of their objects.
fn unknown_groups<D: Device>(
    store: &mut OfflineStore<D>,
    mended: &Mended,
    pg_nums: &BTreeMap<PoolId, u32>,
) -> Result<Vec<PgId>, OfflineError> {
    let mut unknown = Vec::new();
    for (pool, pg_num) in pg_nums.iter().filter(|_| mended.losses.iter().any(store::Loss::meets_groups)) {
        for pg in (0..*pg_num).map(|seed| PgId { pool: *pool, seed }) {
            if store.store().pgs_contain(pg) || !mended.losses.iter().any(|loss| loss.meets_table_of(pg)) {
                continue;
            }
            let (from, until) = osdmap::pg_range(pg, *pg_num);
            let has_objects = !store.ready(|store| store.list(&from, &until, 1))?.is_empty()
                || mended.losses.iter().any(|loss| loss.meets_objects_of(pg, *pg_num))
                || mended.objects.iter().any(|lost| from <= lost.object && lost.object < until);
            if has_objects {
                unknown.push(pg);
            }
        }
    }
    Ok(unknown)
}

/// The reason why nobody can tell which groups are concerned, if there is one.
fn refusal<D: Device>(
    store: &mut OfflineStore<D>,
    mended: &Mended,
    pg_nums: &BTreeMap<PoolId, u32>,
    silent: &[PgId],
) -> Result<Option<String>, OfflineError> {
    if let Some(pg) = silent.first() {
        return Ok(Some(format!(
            "pg {pg} does not say how many groups its pool has, so it cannot be told what its group lacks"
        )));
    }
    if !mended.losses.iter().any(store::Loss::meets_groups) {
        return Ok(None);
    }
    if pg_nums.is_empty() {
        return Ok(Some("no placement group's table is left".to_owned()));
    }
    let untold =
        |pool: PoolId| format!("pool {} has objects, and what is left does not say of which placement groups", pool.0);
    if let Some(lost) = mended.objects.iter().find(|lost| !pg_nums.contains_key(&lost.object.pool)) {
        return Ok(Some(untold(lost.object.pool)));
    }
    let mut from = ObjectId::min();
    while let Some(object) = store.ready(|store| store.list(&from, &ObjectId::max(), 1))?.pop() {
        if !pg_nums.contains_key(&object.pool) {
            return Ok(Some(untold(object.pool)));
        }
        from = osdmap::pg_range(PgId { pool: object.pool, seed: 0 }, 1).1;
    }
    Ok(None)
}
