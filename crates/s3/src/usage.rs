//! Bytes and objects: sums, changes, and what is known of them. Nothing here asks the cluster.

use crate::present::Present;
use s3rules::quota::{Usage, UsageChange};
use std::collections::BTreeMap;

pub(crate) fn added(a: UsageChange, b: UsageChange) -> UsageChange {
    UsageChange { bytes: a.bytes.saturating_add(b.bytes), objects: a.objects.saturating_add(b.objects) }
}

pub(crate) fn negative(change: UsageChange) -> UsageChange {
    UsageChange { bytes: change.bytes.saturating_neg(), objects: change.objects.saturating_neg() }
}

/// A change from nothing to this.
pub(crate) fn whole(usage: Usage) -> UsageChange {
    let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    UsageChange { bytes: signed(usage.bytes), objects: signed(usage.objects) }
}

/// Bytes and number of objects of these sizes.
pub(crate) fn size_of(sizes: impl Iterator<Item = u64>) -> Usage {
    sizes.fold(Usage::default(), |usage, size| Usage { bytes: usage.bytes + size, objects: usage.objects + 1 })
}

/// Bytes and objects of a key.
pub(crate) fn usage_of(present: Option<&Present>) -> Usage {
    let versions = present.into_iter().flat_map(Present::versions);
    size_of(versions.filter(|(_, version)| !version.is_marker).map(|(_, version)| version.entry.size))
}

/// The change of a range's counts by a change of a key. `None` if nobody who counts the entries would notice it.
pub(crate) fn counted(before: Option<&Present>, after: Option<&Present>) -> Option<UsageChange> {
    let change = added(whole(usage_of(after)), negative(whole(usage_of(before))));
    let are_plain = [before, after].into_iter().all(|present| present.is_none_or(Present::is_plain));
    Some(change).filter(|change| *change != UsageChange::default() || !are_plain)
}

/// The usage of a bucket, as far as this gateway knows it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KnownUsage {
    /// The last count, and when it began. `None` before the first time.
    pub counted: Option<(Usage, u64)>,
    pub asked_until_ms: u64,
    /// Somebody counts.
    pub is_counting: bool,
    /// Changes that have reached the index since then.
    pub moved: UsageChange,
    /// Changes of this gateway that have not.
    pub reserved: UsageChange,
    /// Changes reached the index while it was counted.
    pub is_blurred: bool,
}

/// By the ids of buckets.
pub(crate) type KnownUsages = BTreeMap<String, KnownUsage>;

impl KnownUsage {
    /// The usage with the changes that count already, as a change from nothing.
    pub fn change(&self) -> UsageChange {
        added(whole(self.counted.unwrap_or_default().0), added(self.moved, self.reserved))
    }
}
