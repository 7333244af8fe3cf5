//! Quotas of users and buckets.

use crate::error::{S3Code, S3Error};
use serde::{Deserialize, Serialize};

/// Upper bounds of what may be stored. `None`: without bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    /// A quota that is not enabled bounds nothing.
    pub enabled: bool,
    pub bytes_max: Option<u64>,
    pub objects_max: Option<u64>,
}

/// Bytes and objects that are stored. Every version and every part of an upload that is under way counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub bytes: u64,
    pub objects: u64,
}

/// Change of usage by a write; less than nothing where it replaces something larger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageChange {
    pub bytes: i64,
    pub objects: i64,
}

impl Usage {
    /// Usage after a change. It never falls below nothing.
    pub fn after(self, change: UsageChange) -> Usage {
        Usage {
            bytes: self.bytes.saturating_add_signed(change.bytes),
            objects: self.objects.saturating_add_signed(change.objects),
        }
    }
}

impl Quota {
    /// True if a change may be made. One that adds neither bytes nor objects always may.
    pub fn admits(&self, usage: Usage, change: UsageChange) -> bool {
        let after = usage.after(change);
        let within = |max: Option<u64>, change: i64, after: u64| change <= 0 || max.is_none_or(|max| after <= max);
        !self.enabled
            || (within(self.bytes_max, change.bytes, after.bytes)
                && within(self.objects_max, change.objects, after.objects))
    }
}

/// Refuses a write that would pass the quota of the bucket or of its owner. `bucket`, `owner`: quota and usage of each.
///
/// Errors: `QuotaExceeded`.
pub fn check_quotas(bucket: (Quota, Usage), owner: (Quota, Usage), change: UsageChange) -> Result<(), S3Error> {
    for (whose, (quota, usage)) in [("bucket", bucket), ("user", owner)] {
        if !quota.admits(usage, change) {
            return Err(S3Error::new(S3Code::QuotaExceeded, format!("the quota of the {whose} is used up")));
        }
    }
    Ok(())
}

/// Refuses a further bucket to a user who has `buckets`. `buckets_max`: `None` for a user who may have any number.
///
/// Errors: `TooManyBuckets`.
pub fn check_bucket_count(buckets_max: Option<u64>, buckets: u64) -> Result<(), S3Error> {
    match buckets_max {
        Some(max) if buckets >= max => {
            Err(S3Error::new(S3Code::TooManyBuckets, format!("a user may have {max} buckets, and has them")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn writes_within_quotas() {
        let none = Quota::default();
        let bytes = Quota { enabled: true, bytes_max: Some(100), objects_max: None };
        let objects = Quota { enabled: true, bytes_max: None, objects_max: Some(3) };
        let off = Quota { enabled: false, ..bytes };
        for (quota, used, change, admitted) in [
            (none, (u64::MAX, u64::MAX), (1, 1), true),
            (off, (100, 1), (1, 1), true),
            (bytes, (90, 1), (10, 1), true),
            (bytes, (90, 1), (11, 1), false),
            (bytes, (200, 1), (0, 1), true),
            (bytes, (200, 1), (-10, 0), true),
            (objects, (0, 2), (10, 1), true),
            (objects, (0, 3), (10, 1), false),
            (objects, (0, 3), (10, 0), true),
            (objects, (0, 9), (10, -1), true),
        ] {
            let usage = Usage { bytes: used.0, objects: used.1 };
            let change = UsageChange { bytes: change.0, objects: change.1 };
            assert_eq!(quota.admits(usage, change), admitted, "{quota:?} {usage:?} {change:?}");
            let checked = check_quotas((none, usage), (quota, usage), change);
            assert_eq!(checked.is_ok(), admitted);
            assert_eq!(check_quotas((quota, usage), (none, usage), change).is_ok(), admitted);
        }
        for (max, buckets, taken) in
            [(None, 5000, true), (Some(1000), 999, true), (Some(1000), 1000, false), (Some(0), 0, false)]
        {
            assert_eq!(check_bucket_count(max, buckets).is_ok(), taken);
        }
    }

    proptest! {
        #[test]
        fn what_is_admitted_stays_within(max in 0u64..100, sizes in proptest::collection::vec(-20i64..50, 0..40)) {
            let quota = Quota { enabled: true, bytes_max: Some(max), objects_max: None };
            let mut usage = Usage::default();
            for bytes in sizes {
                let change = UsageChange { bytes, objects: 1 };
                if quota.admits(usage, change) {
                    usage = usage.after(change);
                }
                prop_assert!(usage.bytes <= max);
            }
        }
    }
}
