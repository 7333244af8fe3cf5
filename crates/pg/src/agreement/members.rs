//! The primary's knowledge of the other members of the acting set while the group is peered.

use std::collections::BTreeMap;
use types::{EVersion, ObjectId, OsdId};

/// A member's part in the interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// The member has the whole log, and gets every update: no client is answered without it.
    Serving,
    /// The member's log does not meet the authoritative one. It may still have objects that others lack.
    Behind,
    /// The member is backfilled. It has the whole log and gets every update, those of objects that it does not have yet
    /// as log entries only.
    Backfilling,
    /// The member has got copies of everything, and no client is answered without it from now on. It serves once it has
    /// durably what clients were answered for before, up to this version.
    Backfilled(EVersion),
}

/// The other members.
#[derive(Debug, Default)]
pub(crate) struct Members(BTreeMap<OsdId, Member>);

#[derive(Debug)]
struct Member {
    standing: Standing,
    missing: BTreeMap<ObjectId, EVersion>,
}

impl Members {
    pub fn clear(&mut self) {
        self.0.clear();
    }

    pub fn insert(&mut self, osd: OsdId, standing: Standing, missing: BTreeMap<ObjectId, EVersion>) {
        self.0.insert(osd, Member { standing, missing });
    }

    pub fn standing(&self, osd: OsdId) -> Option<Standing> {
        self.0.get(&osd).map(|member| member.standing)
    }

    pub fn set_standing(&mut self, osd: OsdId, standing: Standing) {
        self.0.get_mut(&osd).expect("a member of the interval").standing = standing;
    }

    pub fn lacks_nothing(&self, osd: OsdId) -> bool {
        self.0.get(&osd).is_some_and(|member| member.standing == Standing::Serving && member.missing.is_empty())
    }

    /// Returns the members that lack the object.
    pub fn lacking(&self, object: &ObjectId) -> Vec<OsdId> {
        let lacks = |(osd, member): (&OsdId, &Member)| member.missing.contains_key(object).then_some(*osd);
        self.0.iter().filter_map(lacks).collect()
    }

    pub fn lacks(&self, osd: OsdId, object: &ObjectId) -> bool {
        self.0.get(&osd).is_some_and(|member| member.missing.contains_key(object))
    }

    /// Returns the objects that the member lacks.
    pub fn missing(&self, osd: OsdId) -> impl Iterator<Item = &ObjectId> {
        self.0.get(&osd).into_iter().flat_map(|member| member.missing.keys())
    }

    /// Returns the version in which members lack the object, if any does.
    pub fn wanted(&self, object: &ObjectId) -> Option<EVersion> {
        self.0.values().find_map(|member| member.missing.get(object).copied())
    }

    /// Returns all objects that members lack; each once for every member that does.
    pub fn all_missing(&self) -> impl Iterator<Item = &ObjectId> {
        self.0.values().flat_map(|member| member.missing.keys())
    }

    /// Returns the objects that members lack in a version behind this one.
    pub fn missing_after(&self, version: EVersion) -> impl Iterator<Item = &ObjectId> {
        let missing = self.0.values().flat_map(|member| &member.missing);
        missing.filter(move |(_, wanted)| **wanted > version).map(|(object, _)| object)
    }

    pub fn missing_count(&self) -> usize {
        self.0.values().map(|member| member.missing.len()).sum()
    }

    /// Notes that the member's copy of the object turned out to be bad.
    pub fn lost(&mut self, osd: OsdId, object: ObjectId, version: EVersion) {
        if let Some(member) = self.0.get_mut(&osd) {
            member.missing.insert(object, version);
        }
    }

    /// Notes that the member has the object now.
    pub fn has_now(&mut self, osd: OsdId, object: &ObjectId) {
        if let Some(member) = self.0.get_mut(&osd) {
            member.missing.remove(object);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (OsdId, Standing)> {
        self.0.iter().map(|(osd, member)| (*osd, member.standing))
    }

    /// Returns true if all members serve, so that none can be added.
    pub fn all_serve(&self) -> bool {
        self.0.values().all(|member| member.standing == Standing::Serving)
    }

    /// Returns the members that updates are sent to.
    pub fn receiving(&self) -> impl Iterator<Item = (OsdId, Standing)> {
        self.iter().filter(|(_, standing)| *standing != Standing::Behind)
    }
}
