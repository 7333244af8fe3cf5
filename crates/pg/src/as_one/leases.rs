//! Leases that every shard grants.

use crate::agreement::leases::LEASE;
use crate::messages::lease::LeaseGrant;
use mutant::Mutant;
use std::collections::BTreeMap;
use std::time::Duration;
use types::{Epoch, OsdId};

/// Every shard answers every question; what is not complete after so long was asked twice at once.
const FORGET_AFTER: Duration = Duration::from_secs(5);
const _: () = assert!(FORGET_AFTER.as_millis() > LEASE.as_millis(), "no grant is forgotten that would still be of use");

#[derive(Debug)]
struct Grant {
    /// Shards that have granted it.
    by: Vec<bool>,
    epoch: Epoch,
    begun: Duration,
}

/// Grants on their way, by who asked and its stamp.
#[derive(Debug)]
pub(super) struct LeaseGrants {
    shards: usize,
    grants: BTreeMap<(OsdId, u64), Grant>,
}

impl LeaseGrants {
    pub fn new(shards: usize) -> LeaseGrants {
        LeaseGrants { shards, grants: BTreeMap::new() }
    }

    /// Takes a lease that a shard has granted. Returns the OSD's grant if that was the last one.
    pub fn granted(&mut self, shard: usize, holder: OsdId, grant: &LeaseGrant, now: Duration) -> Option<LeaseGrant> {
        let key = (holder, grant.stamp);
        let new = || Grant { by: vec![false; self.shards], epoch: Epoch(0), begun: now };
        let gathered = self.grants.entry(key).or_insert_with(new);
        gathered.by[shard] = true;
        // The lease covers the groups that the holder has when it has that map, too.
        gathered.epoch = gathered.epoch.max(grant.epoch);
        if !gathered.by.iter().all(|granted| *granted) && !mutant::is(Mutant::FirstShardGrants) {
            return None;
        }
        let gathered = self.grants.remove(&key).expect("just seen");
        Some(LeaseGrant { stamp: grant.stamp, epoch: gathered.epoch })
    }

    pub fn tick(&mut self, now: Duration) {
        self.grants.retain(|_, grant| now < grant.begun + FORGET_AFTER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_granted_once_every_shard_has_as_of_the_newest_map() {
        let mut grants = LeaseGrants::new(3);
        let (a, b) = (OsdId(1), OsdId(2));
        let mut granted = |shard, holder, stamp, epoch| {
            let grant = LeaseGrant { stamp, epoch: Epoch(epoch) };
            grants.granted(shard, holder, &grant, Duration::ZERO).map(|grant| (grant.stamp, grant.epoch.0))
        };
        assert_eq!(granted(0, a, 7, 5), None);
        assert_eq!(granted(0, a, 7, 5), None, "the same shard again");
        assert_eq!(granted(1, b, 7, 5), None, "another holder");
        assert_eq!(granted(1, a, 8, 5), None, "another question");
        assert_eq!(granted(2, a, 7, 6), None);
        assert_eq!(granted(1, a, 7, 4), Some((7, 6)));
        assert_eq!(granted(1, a, 7, 4), None, "it begins anew");
        grants.tick(FORGET_AFTER);
        assert!(grants.grants.is_empty());
    }
}
