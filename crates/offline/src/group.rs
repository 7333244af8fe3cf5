//! Tells which objects of a store belong to which placement group, without the cluster's maps.

use crate::{Device, OfflineError, OfflineStore};
use pg::PgTable;
use types::{ObjectId, PgId};

/// A group of this store with the range of its objects.
#[derive(Debug)]
pub(crate) struct Group {
    pub pg: PgId,
    pub pg_num: u32,
    pub table: PgTable,
    /// The group's objects are those in `from .. until`.
    pub from: ObjectId,
    pub until: ObjectId,
}

/// Finds a group of the store. `pg_num`: number of groups in its pool, from the operator, for a table that does not
/// tell it.
pub(crate) fn find<D: Device>(
    store: &mut OfflineStore<D>,
    pg: PgId,
    pg_num: Option<u32>,
) -> Result<Group, OfflineError> {
    let refused = |what: String| Err(OfflineError::Refused(what));
    if !store.store().pgs_contain(pg) {
        let mut known: Vec<String> = store.store().pgs().iter().take(21).map(PgId::to_string).collect();
        let known = match known.len() {
            0 => "none".to_owned(),
            21 => format!("{}, ...", known[..20].join(", ")),
            _ => std::mem::take(&mut known).join(", "),
        };
        return refused(format!("the store has no pg {pg}; it has: {known}"));
    }
    let entries = store.pg_table(pg)?;
    let table = PgTable::decode(entries).map_err(|e| OfflineError::Refused(format!("pg {pg}: {e}")))?;
    let kept = Some(table.info.pg_num).filter(|kept| *kept > 0);
    let pg_num = match (kept, pg_num) {
        (Some(kept), Some(said)) if kept != said => {
            return refused(format!("pg {pg} is of a pool with {kept} groups, not {said}"));
        }
        (Some(pg_num), _) | (None, Some(pg_num)) => pg_num,
        (None, None) => {
            return refused(format!(
                "pg {pg} does not say how many groups its pool has; give it with --pg-num (ceph osd pool get POOL pg_num)"
            ));
        }
    };
    if pg.seed >= pg_num {
        return refused(format!("a pool with {pg_num} groups has no pg {pg}"));
    }
    let (from, until) = osdmap::pg_range(pg, pg_num);
    Ok(Group { pg, pg_num, table, from, until })
}

/// The group that an object belongs to, if the store has the group and the group's table tells its range.
pub(crate) fn of_object<D: Device>(
    store: &mut OfflineStore<D>,
    object: &ObjectId,
) -> Result<Option<Group>, OfflineError> {
    for pg in store.store().pgs() {
        if pg.pool != object.pool {
            continue;
        }
        match find(store, pg, None) {
            Ok(group) if group.from <= *object && *object < group.until => return Ok(Some(group)),
            // A group whose table does not tell its range, or cannot be read, does not count as the object's group.
            Ok(_) | Err(OfflineError::Refused(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}
