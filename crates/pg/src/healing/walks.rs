//! Progress of comparisons of members, object by object.

use crate::context::Context;
use crate::group::lookup::{NoAnswer, ready};
use crate::group::object_info::ObjectInfo;
use crate::messages::PgInterval;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use store::LookupId;
use types::{EVersion, ObjectId, OsdId, SnapId};

/// Progress of a member that is backfilled.
#[derive(Debug)]
pub(crate) struct Backfill {
    /// Objects before this one are the same there, or in the queue, or on their way.
    pub compared: ObjectId,
    /// The member has been told so up to here.
    pub(super) told: ObjectId,
    /// Time at which the member was asked which objects it has.
    pub(super) asked: Option<Duration>,
    /// The member's objects from `compared` on.
    pub(super) listed: Option<Listed>,
    /// The member has been told that all has been sent, when the log ended here.
    pub announced: Option<EVersion>,
}

/// A part of what a member has.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) objects: BTreeMap<ObjectId, Option<EVersion>>,
    pub(super) end: Option<ObjectId>,
}

/// As member: the primary's question of which objects are here, while it is being answered.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(super) primary: OsdId,
    pub(super) pg: PgInterval,
    pub(super) from: ObjectId,
    /// `None` until listed.
    pub(super) names: Option<VecDeque<ObjectId>>,
    pub(super) end: Option<ObjectId>,
    pub(super) objects: Vec<(ObjectId, Option<EVersion>)>,
    pub(super) waits_for: Option<LookupId>,
}

impl Backfill {
    pub(super) fn from(cursor: ObjectId) -> Backfill {
        Backfill { compared: cursor.clone(), told: cursor, asked: None, listed: None, announced: None }
    }

    pub(super) fn has_compared_all(&self) -> bool {
        self.compared.max
    }
}

impl Scan {
    /// Takes one lookup's step. `Ok(false)`: all is known.
    pub(super) fn step(&mut self, cx: &mut Context<'_>, range_end: &ObjectId) -> Result<bool, NoAnswer> {
        let Some(names) = &mut self.names else {
            // Objects that the primary does not come to before its own list is full are listed once more.
            let count = 2 * cx.limits.backfill_objects;
            let (page, end) = whole_objects(cx, (&self.from, range_end), count)?;
            self.end = end;
            self.names = Some(page.into());
            return Ok(true);
        };
        let Some(object) = names.front() else { return Ok(false) };
        let version = match ready(cx.store.stat(object)) {
            Ok(Some(stat)) => ObjectInfo::of(&stat).ok().map(|info| info.version),
            Ok(None) | Err(NoAnswer::Damaged(_)) => None,
            Err(pending) => return Err(pending),
        };
        let object = names.pop_front().expect("just seen");
        self.objects.push((object, version));
        Ok(true)
    }
}

/// Returns a page of objects that does not end between two states of an object, so that what follows builds on nothing
/// that was before; and where the next one begins. The last page of a range, which is shorter than `count`, is left as
/// it is.
pub(super) fn whole_objects(
    cx: &mut Context<'_>,
    (from, until): (&ObjectId, &ObjectId),
    count: usize,
) -> Result<(Vec<ObjectId>, Option<ObjectId>), NoAnswer> {
    if !from.name.is_empty() && from.snap <= SnapId::HEAD {
        // A cursor at an object's states, as below: there may be more than a page takes. One lookup in one step, as
        // several might take each other's place in memory for ever.
        let end = from.behind_all_states();
        return Ok((ready(cx.store.list(from, &end, usize::MAX))?, Some(end)));
    }
    let mut page = ready(cx.store.list(from, until, count))?;
    let Some(last) = page.last().filter(|_| page.len() == count).cloned() else { return Ok((page, None)) };
    if last == last.head_of() {
        return Ok((page, Some(behind(&last))));
    }
    let begin = last.before_all_states();
    page.retain(|object| *object < begin);
    Ok((page, Some(begin)))
}

/// Returns the cursor right behind an object.
pub(crate) fn behind(object: &ObjectId) -> ObjectId {
    ObjectId { snap: SnapId(object.snap.0 + 1), ..object.clone() }
}
