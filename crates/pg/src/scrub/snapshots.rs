//! Comparison of the states of an object that snapshots preserve with the states that the object knows of.
//!
//! Objects come in their order: states that snapshots preserve, oldest first, then the present one, which lists them. A
//! chunk may end between them, and updates may come between chunks: of an object that has changed meanwhile nothing is
//! said.

use crate::group::object_info::ObjectInfo;
use crate::group::snap_set::SnapSet;
use types::{EVersion, ObjectId, SnapId};

/// Errors of states at snapshots; bits are those of librados (`inconsistent_snapset_t`).
pub mod snap_error {
    /// The present state lists a state that is not there.
    pub const CLONE_MISSING: u64 = 1 << 2;
    /// There is a state that the present one does not list, or no present one.
    pub const HEADLESS: u64 = 1 << 5;
    /// A state is longer or shorter than the present state says.
    pub const SIZE_MISMATCH: u64 = 1 << 6;
    /// There are states that the present one does not list.
    pub const EXTRA_CLONES: u64 = 1 << 9;
}

/// A state of an object that does not go with the others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapFinding {
    pub object: ObjectId,
    /// Bits of [`snap_error`].
    pub errors: u64,
    /// Of a present state: states that it does not list, and states that it lists and that are not there.
    pub extra: Vec<SnapId>,
    pub missing: Vec<SnapId>,
    /// Snapshots that a present state lists.
    pub known: Option<SnapSet>,
}

impl SnapFinding {
    fn of(object: ObjectId, errors: u64) -> SnapFinding {
        SnapFinding { object, errors, extra: Vec::new(), missing: Vec::new(), known: None }
    }
}

/// The states of one object that were seen.
#[derive(Clone, Debug)]
struct Family {
    head: ObjectId,
    /// The group's version when the first of them was seen.
    since: EVersion,
    /// Clones that were seen, with their sizes.
    clones: Vec<(SnapId, u64)>,
    /// True if it is not known what one of the states is.
    unknown: bool,
    /// The present one, if it was seen.
    known: Option<SnapSet>,
}

/// A state as it is on the copies that are taken for good, with its size.
pub(super) enum Seen<'a> {
    Is(&'a ObjectInfo, u64),
    Nothing,
    /// The state is not known, nor if it is there.
    Unknown,
}

/// Compares states, object by object.
#[derive(Debug, Default)]
pub(super) struct Families {
    family: Option<Family>,
    /// Object of which not all states will be seen.
    passed_over: Option<ObjectId>,
}

impl Families {
    /// Takes the next state of an object, in a group that is at version `at`. Returns what is wrong with the object
    /// before, where `has_changed` does not say that it was updated after some version.
    pub fn see(
        &mut self,
        object: &ObjectId,
        seen: Seen<'_>,
        at: EVersion,
        has_changed: impl Fn(&ObjectId, EVersion) -> bool,
    ) -> Vec<SnapFinding> {
        let head = object.head_of();
        if self.passed_over.as_ref() == Some(&head) {
            return Vec::new();
        }
        let ended = match &self.family {
            Some(family) if family.head == head => Vec::new(),
            _ => self.end(&has_changed),
        };
        let new = Family { head, since: at, clones: Vec::new(), unknown: false, known: None };
        let family = self.family.get_or_insert(new);
        match seen {
            Seen::Unknown => family.unknown = true,
            Seen::Nothing => {}
            Seen::Is(_, size) if object.is_clone() => family.clones.push((object.snap, size)),
            Seen::Is(info, _) => family.known = Some(info.snap_set.clone()),
        }
        ended
    }

    /// Judges the last object, of which all states were seen.
    pub fn end(&mut self, has_changed: impl Fn(&ObjectId, EVersion) -> bool) -> Vec<SnapFinding> {
        match self.family.take() {
            Some(family) if !family.unknown => {
                let found = family.judge();
                // The log is asked only where something seems to be wrong.
                let is_wrong = !found.is_empty() && !has_changed(&family.head, family.since);
                if is_wrong { found } else { Vec::new() }
            }
            _ => Vec::new(),
        }
    }

    /// Notes that objects up to `until` were not seen.
    pub fn pass_over(&mut self, until: &ObjectId) {
        *self = Families { family: None, passed_over: Some(until.head_of()) };
    }
}

impl Family {
    fn judge(&self) -> Vec<SnapFinding> {
        let mut findings = Vec::new();
        let clone = |snap: SnapId| ObjectId { snap, ..self.head.clone() };
        let nothing = SnapSet::default();
        let known = self.known.as_ref().unwrap_or(&nothing);
        let mut extra = Vec::new();
        for (snap, size) in &self.clones {
            match known.clones.iter().find(|known| known.id == *snap) {
                None => {
                    findings.push(SnapFinding::of(clone(*snap), snap_error::HEADLESS));
                    extra.push(*snap);
                }
                Some(known) if known.size_bytes != *size => {
                    findings.push(SnapFinding::of(clone(*snap), snap_error::SIZE_MISMATCH));
                }
                Some(_) => {}
            }
        }
        let is_there = |snap: SnapId| self.clones.iter().any(|(seen, _)| *seen == snap);
        let missing: Vec<SnapId> = known.clones.iter().map(|known| known.id).filter(|id| !is_there(*id)).collect();
        let mut errors = if missing.is_empty() { 0 } else { snap_error::CLONE_MISSING };
        errors |= if extra.is_empty() { 0 } else { snap_error::EXTRA_CLONES };
        if errors != 0 && self.known.is_some() {
            findings.push(SnapFinding {
                extra,
                missing,
                known: self.known.clone(),
                ..SnapFinding::of(self.head.clone(), errors)
            });
        }
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::PoolId;

    const AT: EVersion = EVersion::new(1, 9);

    fn state(name: &str, snap: u64) -> ObjectId {
        ObjectId { snap: SnapId(snap), ..ObjectId::head(PoolId(1), 7, b"", name.as_bytes()) }
    }

    fn head(name: &str) -> ObjectId {
        state(name, 0).head_of()
    }

    fn listing(clones: &[(u64, u64)]) -> ObjectInfo {
        let mut snap_set = SnapSet { seq: SnapId(99), ..SnapSet::default() };
        clones.iter().for_each(|(id, size)| snap_set.add_clone(SnapId(*id), vec![SnapId(*id)], *size));
        ObjectInfo { snap_set, ..ObjectInfo::default() }
    }

    /// A finding: name, snapshot, errors, and the clones that are too many and that are missing.
    type Told = (Vec<u8>, u64, u64, Vec<u64>, Vec<u64>);

    /// States in their order, `None` for one of which nothing is known; and which of them, by name, changed meanwhile.
    fn found(states: &[(ObjectId, Option<ObjectInfo>)], changed: &str) -> Vec<Told> {
        let mut families = Families::default();
        let has_changed = |object: &ObjectId, since: EVersion| {
            assert_eq!(since, AT);
            object.name == changed.as_bytes()
        };
        let mut findings = Vec::new();
        for (object, info) in states {
            let seen = match info {
                Some(info) => Seen::Is(info, 10),
                None => Seen::Unknown,
            };
            findings.extend(families.see(object, seen, AT, has_changed));
        }
        findings.extend(families.end(has_changed));
        let ids = |snaps: &[SnapId]| snaps.iter().map(|snap| snap.0).collect();
        let told = |f: SnapFinding| (f.object.name.to_vec(), f.object.snap.0, f.errors, ids(&f.extra), ids(&f.missing));
        findings.into_iter().map(told).collect()
    }

    #[test]
    fn states_go_with_what_the_present_one_lists() {
        let plain = || Some(ObjectInfo::default());
        let well = [
            (state("a", 3), plain()),
            (state("a", 5), plain()),
            (head("a"), Some(listing(&[(3, 10), (5, 10)]))),
            (head("b"), plain()),
        ];
        assert_eq!(found(&well, ""), []);
        let wrong = [
            (state("a", 3), plain()),
            (state("a", 4), plain()),
            (head("a"), Some(listing(&[(3, 11), (5, 10)]))),
            (state("b", 3), plain()),
            (head("c"), plain()),
        ];
        let errors = snap_error::CLONE_MISSING | snap_error::EXTRA_CLONES;
        let of_a = vec![
            (b"a".to_vec(), 3, snap_error::SIZE_MISMATCH, vec![], vec![]),
            (b"a".to_vec(), 4, snap_error::HEADLESS, vec![], vec![]),
            (b"a".to_vec(), SnapId::HEAD.0, errors, vec![4], vec![5]),
        ];
        let of_b = vec![(b"b".to_vec(), 3, snap_error::HEADLESS, vec![], vec![])];
        assert_eq!(found(&wrong, ""), [of_a.clone(), of_b.clone()].concat());
        assert_eq!(found(&wrong, "a"), of_b);
        assert_eq!(found(&wrong, "b"), of_a);
    }

    #[test]
    fn of_what_was_not_seen_whole_nothing_is_said() {
        let plain = || Some(ObjectInfo::default());
        assert_eq!(found(&[(state("a", 3), None), (head("a"), plain())], ""), []);
        assert_eq!(found(&[(state("a", 3), plain()), (head("a"), None)], ""), []);
        let mut families = Families::default();
        families.pass_over(&state("a", 5));
        let info = listing(&[(3, 10)]);
        assert_eq!(families.see(&head("a"), Seen::Is(&info, 10), AT, |_, _| false), []);
        assert_eq!(families.end(|_, _| false), []);
    }
}
