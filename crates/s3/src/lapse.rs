//! Lifecycle rules and the versions of one key: what is due, judged by the state that is changed.

use crate::present::{FoundVersion, NULL_VERSION, Present};
use crate::records::{Older, Versioning};
use s3rules::UnixMillis;
use s3rules::lifecycle::{LifecycleAction, LifecycleClock, LifecycleConfiguration, VersionFacts, VersionState};
use s3rules::tagging::TagSet;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The storage class of all objects.
pub const STORAGE_CLASS: &str = "STANDARD";

/// A look at a version of a key by lifecycle rules.
#[derive(Clone, Debug)]
pub(crate) struct Lapse {
    pub rules: Arc<LifecycleConfiguration>,
    /// Seconds that count as a day, for tests.
    pub day_s: Option<u32>,
    pub versioning: Versioning,
    /// Owner of delete markers.
    pub owner: String,
    /// Name of the version.
    pub version: String,
    /// Tags of older versions by their places, which never change. Rules that look at tags do nothing with an older
    /// version whose place is not here.
    pub tags: Arc<BTreeMap<String, TagSet>>,
}

/// Fate of a version by lifecycle rules.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Lapsing<'a> {
    /// As by a deletion that names no version.
    Expires,
    /// As by a deletion that names it.
    Goes(FoundVersion<'a>),
}

impl Lapse {
    /// Tells what is to be done with the version, if the key is in this state.
    pub fn judge<'a>(&self, present: &'a Present, now_ms: u64) -> Option<Lapsing<'a>> {
        let found = present.find(&self.version)?;
        let none = TagSet::default();
        let key = present.head.key.as_str();
        let facts = match found {
            FoundVersion::Newest(head) => {
                let state = match head.is_marker {
                    true => VersionState::CurrentMarker { alone: present.older.is_empty() },
                    false => VersionState::Current,
                };
                let (tags, modified) = (&head.tags, UnixMillis::from_unsigned(head.mtime_ms));
                VersionFacts { key, size_bytes: head.size, tags, storage_class: STORAGE_CLASS, modified, state }
            }
            FoundVersion::Older(older) => {
                let tags = match &older.place {
                    Some(place) if self.rules.looks_at_tags() => self.tags.get(place)?,
                    _ => &none,
                };
                let modified = UnixMillis::from_unsigned(older.entry.mtime_ms);
                let state = state_of(present, older)?;
                VersionFacts { key, size_bytes: older.entry.size, tags, storage_class: STORAGE_CLASS, modified, state }
            }
        };
        let clock = LifecycleClock { now: UnixMillis::from_unsigned(now_ms), debug_day_s: self.day_s };
        match self.rules.due(&facts, &clock)?.action {
            LifecycleAction::Expire => Some(Lapsing::Expires),
            LifecycleAction::RemoveVersion => Some(Lapsing::Goes(found)),
            // There is one class, so nothing moves.
            LifecycleAction::Transition(_) => None,
        }
    }
}

/// The state of an older version. Delete markers before it do not count among the newer versions, so that rules keep as
/// many versions with bytes as they tell.
fn state_of(present: &Present, older: &Older) -> Option<VersionState> {
    let at = present.older.iter().position(|other| other == older)?;
    let since = match at {
        0 => present.head.mtime_ms,
        _ => present.older[at - 1].entry.mtime_ms,
    };
    let newer = present.older[..at].iter().filter(|other| other.place.is_some()).count();
    Some(VersionState::Noncurrent {
        since: UnixMillis::from_unsigned(since),
        newer: u32::try_from(newer).unwrap_or(u32::MAX),
        delete_marker: older.place.is_none(),
    })
}

/// Names of a key's versions, the oldest first: once those are gone, a delete marker may be alone.
pub(crate) fn oldest_first(present: &Present) -> Vec<String> {
    let versions = present.versions().into_iter().rev();
    versions.map(|(_, version)| version.version.unwrap_or_else(|| NULL_VERSION.to_owned())).collect()
}
