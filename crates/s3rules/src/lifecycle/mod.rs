//! Lifecycle of objects: when they expire, move to another storage class, or uploads are given up.
//!
//! * `document` reads and writes rules, `validate` refuses those that S3 does not take.
//! * `evaluate` tells what is to be done with a version or an upload at a point in time.
//! * `survey` tells which keys of a bucket are worth a look.

mod document;
mod evaluate;
mod survey;
#[cfg(test)]
mod tests;
mod validate;

pub use evaluate::{Due, LifecycleAction, LifecycleClock, VersionFacts, VersionState};

use crate::tagging::Tag;
use crate::time::UnixMillis;
use serde::{Deserialize, Serialize};

/// Most rules of a bucket.
pub const LIFECYCLE_RULES_MAX: usize = 1000;

/// `LifecycleConfiguration` of a bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LifecycleConfiguration {
    pub rules: Vec<LifecycleRule>,
}

/// Rule: versions and uploads in its scope are treated so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LifecycleRule {
    /// Unique in the bucket. Reading a document gives one to rules without.
    pub id: String,
    pub enabled: bool,
    pub scope: LifecycleScope,
    pub expiration: Option<Expiration>,
    pub noncurrent_expiration: Option<NoncurrentExpiration>,
    pub transitions: Vec<Transition>,
    pub noncurrent_transitions: Vec<NoncurrentTransition>,
    /// Days after which an upload that is not completed is given up.
    pub abort_uploads_days: Option<i64>,
}

/// Versions that a rule is about. The form is kept, since answers have it, too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LifecycleScope {
    /// The older form: a prefix beside the actions.
    Prefix(String),
    Filter(LifecycleFilter),
}

/// Conditions that must all hold. Empty, it means all versions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LifecycleFilter {
    pub own: FilterTerms,
    /// `And`.
    pub and: Option<FilterTerms>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilterTerms {
    pub prefix: Option<String>,
    pub tags: Vec<Tag>,
    pub size_greater_than: Option<i64>,
    pub size_less_than: Option<i64>,
}

/// When a current version expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Expiration {
    /// Days after it was written.
    Days(i64),
    Date(UnixMillis),
    /// Delete markers without any version behind them are removed, if true.
    DeleteMarker(bool),
}

/// When versions that are not current are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoncurrentExpiration {
    /// Days after the version stopped being current.
    pub days: i64,
    /// Number of newer versions that are not current and are kept, however old.
    pub newer_versions: Option<i64>,
}

/// When a current version moves to another class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    pub at: TransitionTime,
    pub storage_class: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TransitionTime {
    Days(i64),
    Date(UnixMillis),
}

/// When versions that are not current move to another class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoncurrentTransition {
    pub days: i64,
    pub newer_versions: Option<i64>,
    pub storage_class: String,
}

impl LifecycleScope {
    /// Terms that must all hold.
    fn terms(&self) -> impl Iterator<Item = &FilterTerms> {
        let filter = match self {
            LifecycleScope::Prefix(_) => None,
            LifecycleScope::Filter(filter) => Some(filter),
        };
        filter.into_iter().flat_map(|filter| std::iter::once(&filter.own).chain(&filter.and))
    }

    /// Prefixes, all of which a key must have.
    fn prefixes(&self) -> impl Iterator<Item = &str> {
        let old = match self {
            LifecycleScope::Prefix(prefix) => Some(prefix.as_str()),
            LifecycleScope::Filter(_) => None,
        };
        old.into_iter().chain(self.terms().filter_map(|terms| terms.prefix.as_deref()))
    }

    /// True if the scope looks at more than the key: it is then not about delete markers and uploads.
    fn looks_at_content(&self) -> bool {
        self.terms()
            .any(|terms| !terms.tags.is_empty() || terms.size_greater_than.is_some() || terms.size_less_than.is_some())
    }
}
