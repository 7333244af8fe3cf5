//! Objects that come from another member piece by piece.
//!
//! What has come of an object of several pieces lies beside the group's objects, under a name that nobody looks up, until its
//! last piece is there; with that, in one transaction, it takes the place of what this member had of the object. So a member
//! has either what it had before or the whole of what was sent, whoever stops in between: the former state may be what
//! an object must go back to ([`crate::going_back`]).
//!
//! Pieces are counted, and say of which version they are: one that does not go on with what is here is not taken. The group's
//! table names what is on its way, so that the rest of it is dropped when an OSD starts again.

use crate::context::{Context, OnCommit};
use crate::messages::healing::PgPush;
use crate::pg::{Pg, object_key};
use bytes::Bytes;
use mutant::Mutant;
use std::collections::BTreeMap;
use store::{Step, Transaction};
use types::{EVersion, ObjectId, OsdId};

/// First byte of the keys, in the group's table, of objects of which only some has come.
pub(crate) const RECEIVED_PREFIX: u8 = b'r';

/// What has come of one object.
#[derive(Clone, Debug)]
struct Received {
    from: OsdId,
    version: EVersion,
    pieces: u32,
}

/// Objects of which some has come.
#[derive(Debug, Default)]
pub(crate) struct Receiving {
    objects: BTreeMap<ObjectId, Received>,
}

/// A piece does not go on with what has come.
#[derive(Debug)]
pub(crate) struct OutOfOrder;

/// Where pieces of an object wait for the rest.
fn in_part(object: &ObjectId) -> ObjectId {
    match mutant::is(Mutant::ReceivedInPlace) {
        true => object.clone(),
        false => ObjectId { pool: object.pool.in_part(), ..object.clone() },
    }
}

fn received_key(object: &ObjectId) -> Bytes {
    object_key(RECEIVED_PREFIX, object)
}

/// What drops the part that has come of an object.
fn drop_steps(object: &ObjectId) -> [Step; 2] {
    [Step::Remove { object: in_part(object) }, Step::PgRemove { key: received_key(object) }]
}

impl Receiving {
    /// Whether the piece goes on with what has come of its object.
    pub fn follows(&self, from: OsdId, push: &PgPush) -> Result<(), OutOfOrder> {
        if push.first || mutant::is(Mutant::PiecesInAnyOrder) {
            return Ok(());
        }
        let before = self.objects.get(&push.object).ok_or(OutOfOrder)?;
        let goes_on = before.from == from && before.version == push.version && before.pieces == push.piece;
        // Software that does not count them sends them in order, too.
        if goes_on || push.piece == 0 && before.from == from { Ok(()) } else { Err(OutOfOrder) }
    }

    /// Notes that a piece is taken (the first one, the last one?).
    pub fn taken(&mut self, from: OsdId, object: &ObjectId, version: EVersion, (first, last): (bool, bool)) {
        if last {
            self.objects.remove(object);
            return;
        }
        let fresh = Received { from, version, pieces: 0 };
        let part = self.objects.entry(object.clone()).or_insert(fresh.clone());
        if first {
            *part = fresh;
        }
        part.pieces += 1;
    }

    /// Some of the object had come before this OSD started.
    pub fn left(&mut self, object: ObjectId) {
        self.objects.insert(object, Received { from: OsdId::NONE, version: EVersion::ZERO, pieces: 0 });
    }

    /// Nothing more is taken of the object. Whether some of it had come.
    pub fn forget(&mut self, object: &ObjectId) -> bool {
        self.objects.remove(object).is_some()
    }
}

/// The steps that a piece takes: into the object itself if it comes in one piece, else beside it; with the last one to its place.
pub(crate) fn piece_steps(push: PgPush) -> Vec<Step> {
    let PgPush { object, first, last, absent, size_bytes, attrs, omap_header, omap, runs, data, .. } = push;
    let mut steps = Vec::new();
    let is_whole = first && last;
    let to = if is_whole { object.clone() } else { in_part(&object) };
    if first {
        steps.push(Step::Remove { object: to.clone() });
    }
    if absent {
        return steps;
    }
    if first && !last {
        steps.push(Step::PgSet { key: received_key(&object), value: Bytes::new() });
    }
    steps.push(Step::Touch { object: to.clone() });
    for (name, value) in attrs {
        steps.push(Step::SetAttr { object: to.clone(), name: name[..].to_vec(), value });
    }
    if !omap_header.is_empty() {
        steps.push(Step::OmapSetHeader { object: to.clone(), header: omap_header });
    }
    if !omap.is_empty() {
        steps.push(Step::OmapSet { object: to.clone(), entries: omap });
    }
    let mut at = 0;
    for (offset, len) in runs {
        let data = data.slice(at, len as usize);
        at += len as usize;
        steps.push(Step::Write { object: to.clone(), offset, data });
    }
    if last {
        steps.push(Step::Truncate { object: to.clone(), size: size_bytes });
    }
    if last && !is_whole && !mutant::is(Mutant::ReceivedInPlace) {
        steps.push(Step::Remove { object: object.clone() });
        steps.push(Step::Clone { from: to, to: object.clone() });
        steps.extend(drop_steps(&object));
    }
    steps
}

impl Pg {
    /// Drops what has come of an object, if any has.
    pub(crate) fn drop_part(&mut self, cx: &mut Context<'_>, object: &ObjectId) {
        if self.receiving.forget(object) {
            let steps = drop_steps(object).into();
            cx.submit_or_stop(Transaction { pg: self.id, steps }, OnCommit::Nothing);
        }
    }

    /// Drops what has come of all objects that are not whole.
    pub(crate) fn drop_parts(&mut self, cx: &mut Context<'_>) {
        let parts = std::mem::take(&mut self.receiving.objects);
        let steps: Vec<Step> = parts.keys().flat_map(drop_steps).collect();
        if !steps.is_empty() {
            cx.submit_or_stop(Transaction { pg: self.id, steps }, OnCommit::Nothing);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::PgInterval;
    use types::{Epoch, PgId};

    const FROM: OsdId = OsdId(3);

    fn object() -> ObjectId {
        ObjectId::head(types::PoolId(1), 7, b"", b"x")
    }

    fn piece(piece: u32, version: u64) -> PgPush {
        let pg = PgInterval { pgid: PgId::new(1, 0), since: Epoch(2) };
        PgPush { first: piece == 0, piece, version: EVersion::new(2, version), ..PgPush::empty(pg, object()) }
    }

    #[test]
    fn pieces_are_taken_in_their_order_from_one_sender_and_of_one_version() {
        let mut receiving = Receiving::default();
        assert!(receiving.follows(FROM, &piece(1, 5)).is_err(), "the first one is missing");
        for number in 0..2 {
            receiving.follows(FROM, &piece(number, 5)).expect("in order");
            receiving.taken(FROM, &object(), EVersion::new(2, 5), (number == 0, false));
        }
        assert!(receiving.follows(FROM, &piece(3, 5)).is_err(), "one is missing");
        assert!(receiving.follows(FROM, &piece(1, 5)).is_err(), "it was taken");
        assert!(receiving.follows(FROM, &piece(2, 6)).is_err(), "it is of another version");
        assert!(receiving.follows(OsdId(4), &piece(2, 5)).is_err(), "it is somebody else's");
        receiving.follows(FROM, &piece(2, 5)).expect("in order");
        receiving.follows(FROM, &piece(0, 6)).expect("it begins anew");
        receiving.taken(FROM, &object(), EVersion::new(2, 6), (true, false));
        receiving.follows(FROM, &piece(1, 6)).expect("in order");
        receiving.taken(FROM, &object(), EVersion::new(2, 6), (false, true));
        assert!(receiving.follows(FROM, &piece(2, 6)).is_err(), "it is whole");
    }

    #[test]
    fn nothing_of_the_object_changes_before_its_last_piece() {
        let touches = |push: PgPush| piece_steps(push).iter().filter(|step| step.object() == Some(&object())).count();
        assert_eq!(touches(piece(0, 5)), 0);
        assert_eq!(touches(piece(1, 5)), 0);
        assert!(touches(PgPush { last: true, ..piece(2, 5) }) > 0);
        assert!(touches(PgPush { last: true, ..piece(0, 5) }) > 0);
    }
}
