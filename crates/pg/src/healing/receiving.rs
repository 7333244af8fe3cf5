//! Objects that come from another member piece by piece.
//!
//! What has come of an object of several pieces lies beside the group's objects, under a name that nobody looks up,
//! until its last piece is there; with that, in one transaction, it takes the place of what this member had of the
//! object. So a member has either what it had before or the whole of what was sent, whoever stops in between: the
//! former state may be what an object must go back to ([`crate::agreement::going_back`]).
//!
//! Pieces are counted, and say of which version they are: one that does not go on with what is here is not taken. The
//! group's table names what is on its way, so that the rest of it is dropped when an OSD starts again.

use crate::group::digests::{Content, Digests, Wrong};
use crate::group::missing::object_key;
use crate::messages::healing::PgPush;
use bytes::Bytes;
use mutant::Mutant;
use std::collections::BTreeMap;
use store::Step;
use types::{EVersion, ObjectId, OsdId};

/// First byte of the keys, in the group's table, of objects of which only some has come.
pub(crate) const RECEIVED_PREFIX: u8 = b'r';

/// Pieces of one object that have come, as far as later ones must go on with them.
#[derive(Clone, Debug)]
struct Received {
    from: OsdId,
    version: EVersion,
    pieces: u32,
    content: Content,
    /// Digests that the first piece told.
    digests: Digests,
}

/// Objects of which some has come.
#[derive(Debug, Default)]
pub(crate) struct Receiving {
    objects: BTreeMap<ObjectId, Received>,
}

/// Content that has come of an object, as far as it is known, with the object's digests.
#[derive(Debug)]
pub(crate) struct Digested {
    content: Content,
    digests: Digests,
}

/// A piece does not go on with what has come.
#[derive(Debug)]
pub(crate) struct OutOfOrder;

/// Returns the name under which pieces of an object wait for the rest.
fn in_part(object: &ObjectId) -> ObjectId {
    match mutant::is(Mutant::ReceivedInPlace) {
        true => object.clone(),
        false => ObjectId { pool: object.pool.in_part(), ..object.clone() },
    }
}

fn received_key(object: &ObjectId) -> Bytes {
    object_key(RECEIVED_PREFIX, object)
}

/// Returns the steps that drop the part that has come of an object.
pub(super) fn drop_steps(object: &ObjectId) -> [Step; 2] {
    [Step::Remove { object: in_part(object) }, Step::PgRemove { key: received_key(object) }]
}

impl Receiving {
    /// Returns `Ok` if the piece goes on with the part of its object that has come.
    pub fn follows(&self, from: OsdId, push: &PgPush) -> Result<(), OutOfOrder> {
        if push.first || mutant::is(Mutant::PiecesInAnyOrder) {
            return Ok(());
        }
        let before = self.objects.get(&push.object).ok_or(OutOfOrder)?;
        let goes_on = before.from == from && before.version == push.version && before.pieces == push.piece;
        // Software that does not count them sends them in order, too.
        if goes_on || push.piece == 0 && before.from == from { Ok(()) } else { Err(OutOfOrder) }
    }

    /// Adds this piece, which goes on with what is here, to the part of its object that has come. `shard`: this is that
    /// shard of an erasure-coded object.
    ///
    /// Errors: all has come, and is not what its digests say.
    pub fn with_piece(&self, push: &PgPush, shard: Option<u8>) -> Result<Digested, Wrong> {
        let before = self.objects.get(&push.object).filter(|_| !push.first);
        let mut content = before.map_or_else(|| Content::new(&push.omap_header), |before| before.content.clone());
        content.add(&push.omap, &push.runs, &push.data);
        let told = || before.map(|before| before.digests.clone());
        let digests = Digests::among(&push.attrs).or_else(told).unwrap_or_default();
        if push.last && !push.absent && !mutant::is(Mutant::ReceiverTrusts) {
            content.check(&digests, push.size_bytes, shard)?;
        }
        Ok(Digested { content, digests })
    }

    /// Notes that a piece is taken (the first one, the last one?), by which that has come.
    pub fn taken(
        &mut self,
        from: OsdId,
        object: &ObjectId,
        version: EVersion,
        (first, last): (bool, bool),
        Digested { content, digests }: Digested,
    ) {
        if last {
            self.objects.remove(object);
            return;
        }
        let before = self.objects.get(object).filter(|_| !first).map_or(0, |part| part.pieces);
        let part = Received { from, version, pieces: before + 1, content, digests };
        self.objects.insert(object.clone(), part);
    }

    /// Notes that some of the object had come before this OSD started.
    pub fn left(&mut self, object: ObjectId) {
        let (content, digests) = (Content::new(b""), Digests::default());
        let part = Received { from: OsdId::NONE, version: EVersion::ZERO, pieces: 0, content, digests };
        self.objects.insert(object, part);
    }

    /// Takes nothing more of the object. Returns true if some of it had come.
    pub fn forget(&mut self, object: &ObjectId) -> bool {
        self.objects.remove(object).is_some()
    }

    /// Takes nothing more of any object. Returns the steps that drop all that has come.
    pub(super) fn forget_all(&mut self) -> Vec<Step> {
        std::mem::take(&mut self.objects).keys().flat_map(drop_steps).collect()
    }
}

/// Returns the steps that a piece takes: into the object itself if it comes in one piece, else beside it; with the last
/// one to its place.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::digests::OmapDigest;
    use crate::group::object_info::{OBJECT_INFO_ATTR, ObjectInfo};
    use crate::messages::PgInterval;
    use types::{Epoch, PgId, crc32c};
    use wire::Rope;

    const FROM: OsdId = OsdId(3);

    fn object() -> ObjectId {
        ObjectId::head(types::PoolId(1), 7, b"", b"x")
    }

    fn piece(piece: u32, version: u64) -> PgPush {
        let pg = PgInterval { pgid: PgId::new(1, 0), since: Epoch(2) };
        PgPush { first: piece == 0, piece, version: EVersion::new(2, version), ..PgPush::empty(pg, object()) }
    }

    fn take(receiving: &mut Receiving, push: PgPush) {
        let digested = receiving.with_piece(&push, None).expect("nothing says what it should be");
        receiving.taken(FROM, &push.object, push.version, (push.first, push.last), digested);
    }

    #[test]
    fn what_has_come_is_compared_with_its_digests_when_it_is_whole() {
        let info = |digests: Digests| {
            let info = ObjectInfo { digests, ..ObjectInfo::default() }.to_bytes();
            [(Bytes::from_static(OBJECT_INFO_ATTR), info)].into()
        };
        let bytes = [b"abc".as_slice(), &[0; 4], b"de", &[0]].concat();
        let mut omap = OmapDigest::of_header(b"header");
        omap.add(b"k1", b"v1");
        omap.add(b"k2", b"v2");
        let right = Digests { data: Some(crc32c::checksum(&bytes)), omap: Some(omap.get()), shards: Vec::new() };
        let of_shard = Digests { shards: vec![1, crc32c::checksum(&bytes)], ..Digests::default() };
        let entry = |n: u32| vec![(Bytes::from(format!("k{n}")), Bytes::from(format!("v{n}")))];
        let come = |told: &Digests, shard: Option<u8>, second: &'static str| {
            let mut receiving = Receiving::default();
            let (header, data) = (Bytes::from_static(b"header"), Rope::from("abc"));
            let first = PgPush { omap_header: header, omap: entry(1), runs: vec![(0, 3)], data, ..piece(0, 5) };
            take(&mut receiving, PgPush { attrs: info(told.clone()), ..first });
            let (data, size_bytes) = (Rope::from(second), 10);
            let last = PgPush { last: true, omap: entry(2), runs: vec![(7, 2)], data, size_bytes, ..piece(1, 5) };
            receiving.with_piece(&last, shard).map(drop)
        };
        assert_eq!(come(&right, None, "de"), Ok(()));
        assert_eq!(come(&right, None, "dE"), Err(Wrong::Data));
        assert_eq!(come(&Digests { omap: Some(5), ..right.clone() }, None, "de"), Err(Wrong::Omap));
        assert_eq!(come(&Digests::default(), None, "dE"), Ok(()), "nothing says what it should be");
        assert_eq!(come(&of_shard, Some(1), "de"), Ok(()));
        assert_eq!(come(&of_shard, Some(1), "dE"), Err(Wrong::Data));
        assert_eq!(come(&of_shard, Some(0), "de"), Err(Wrong::Data), "it is another shard");
    }

    #[test]
    fn pieces_are_taken_in_their_order_from_one_sender_and_of_one_version() {
        let mut receiving = Receiving::default();
        assert!(receiving.follows(FROM, &piece(1, 5)).is_err(), "the first one is missing");
        for number in 0..2 {
            receiving.follows(FROM, &piece(number, 5)).expect("in order");
            take(&mut receiving, piece(number, 5));
        }
        assert!(receiving.follows(FROM, &piece(3, 5)).is_err(), "one is missing");
        assert!(receiving.follows(FROM, &piece(1, 5)).is_err(), "it was taken");
        assert!(receiving.follows(FROM, &piece(2, 6)).is_err(), "it is of another version");
        assert!(receiving.follows(OsdId(4), &piece(2, 5)).is_err(), "it is somebody else's");
        receiving.follows(FROM, &piece(2, 5)).expect("in order");
        receiving.follows(FROM, &piece(0, 6)).expect("it begins anew");
        take(&mut receiving, piece(0, 6));
        receiving.follows(FROM, &piece(1, 6)).expect("in order");
        take(&mut receiving, PgPush { last: true, ..piece(1, 6) });
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
