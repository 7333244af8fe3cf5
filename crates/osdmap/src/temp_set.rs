//! Acting sets that stand in for those that placement gives.

use std::collections::BTreeMap;
use std::ops::Deref;
use types::{OsdId, PgId};
use wire::{Decode, DecodeError, Encode, Reader, Writer};

/// The acting set of a group for the time being: the OSDs that clients and tools see, and behind them OSDs that act
/// beside these.
///
/// Clients and tools expect as many as the pool has copies, at most. A group that moves keeps further members until
/// everybody has everything; they stand in a part of the map that Ceph's programs pass over ([`put_further`]).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TempSet {
    osds: Vec<OsdId>,
    shown: usize,
}

impl TempSet {
    /// A set of which clients see the first `at_most`.
    pub fn showing(osds: Vec<OsdId>, at_most: usize) -> TempSet {
        TempSet { shown: osds.len().min(at_most.max(1)), osds }
    }

    /// The OSDs that clients see.
    pub fn shown(&self) -> &[OsdId] {
        &self.osds[..self.shown]
    }

    /// The OSDs that act beside those that clients see.
    pub fn further(&self) -> &[OsdId] {
        &self.osds[self.shown..]
    }
}

/// A set that clients see as it is.
impl From<Vec<OsdId>> for TempSet {
    fn from(osds: Vec<OsdId>) -> TempSet {
        TempSet { shown: osds.len(), osds }
    }
}

impl FromIterator<OsdId> for TempSet {
    fn from_iter<I: IntoIterator<Item = OsdId>>(osds: I) -> TempSet {
        TempSet::from(Vec::from_iter(osds))
    }
}

impl Deref for TempSet {
    type Target = [OsdId];

    fn deref(&self) -> &[OsdId] {
        &self.osds
    }
}

/// Ceph's form, which has the OSDs that clients see.
impl Encode for TempSet {
    fn encode(&self, w: &mut Writer) {
        w.put(self.shown());
    }
}

impl Decode for TempSet {
    const MIN_BYTES: usize = 4;

    fn decode(r: &mut Reader<'_>) -> Result<TempSet, DecodeError> {
        r.get::<Vec<OsdId>>().map(TempSet::from)
    }
}

/// Begins what Ceph's programs pass over at the end of a map's part for OSDs.
const FURTHER_MAGIC: u32 = 0x6e61_6372;

/// Writes the members of `sets` that clients do not see; nothing if there are none.
pub(crate) fn put_further(w: &mut Writer, sets: &BTreeMap<PgId, TempSet>) {
    let further: Vec<(&PgId, &TempSet)> = sets.iter().filter(|(_, set)| !set.further().is_empty()).collect();
    if further.is_empty() {
        return;
    }
    w.u32(FURTHER_MAGIC);
    w.versioned(1, 1, |w| {
        w.count(further.len());
        for (group, set) in further {
            w.put(group);
            w.put(set.further());
        }
    });
}

/// Reads what [`put_further`] wrote, if it is there, and gives each set its further members.
///
/// Errors: a group whose set is not among `sets`, or is empty.
pub(crate) fn get_further(r: &mut Reader<'_>, sets: &mut BTreeMap<PgId, TempSet>) -> Result<(), DecodeError> {
    if r.left() < 4 || r.u32()? != FURTHER_MAGIC {
        return Ok(());
    }
    let what = "further members of acting sets";
    let (_, mut r) = r.versioned(what, 1)?;
    let further: Vec<(PgId, Vec<OsdId>)> = r.get()?;
    for (group, osds) in further {
        let set = sets.get_mut(&group).filter(|set| !set.is_empty());
        let set = set.ok_or(DecodeError::Value { what, value: osds.len() as u64 })?;
        set.osds.extend(osds);
    }
    Ok(())
}
