//! The way from one order of a group's shards to another one, a shard at a time.
//!
//! Two groups of an erasure-coded pool that are to be merged are on the same OSDs, but these may have the shards in
//! different orders, because a member that stays keeps its shard (`shard_places`). An OSD cannot be given another shard
//! while it has one. Therefore it leaves, and comes back for the shard that it should have: OSDs that have each other's
//! shards, in a circle, take a spare one for a while, which makes one step more than there are OSDs in the circle. Each
//! step is a change of one OSD, as when one is replaced, so the group has all its shards all the time.

use types::OsdId;

/// Returns the order, by shard, that a group should have next on its way from `present` to `wanted`: another OSD for
/// one shard. `present` itself if it is the wanted one. `None`: there is no way, because no spare OSD may take part.
///
/// `present` and `wanted` have no holes. `spares`: OSDs that may have a shard for a while, best first. `may_replace`:
/// tells whether in a group on these OSDs the second one may take the place of the first one.
pub fn next_order(
    present: &[OsdId],
    wanted: &[OsdId],
    spares: &[OsdId],
    may_replace: impl Fn(&[OsdId], OsdId, OsdId) -> bool,
) -> Option<Vec<OsdId>> {
    let replaced = |order: &[OsdId], shard: usize, osd: OsdId| {
        let may = !order.contains(&osd) && may_replace(order, order[shard], osd);
        may.then(|| order.iter().enumerate().map(|(n, now)| if n == shard { osd } else { *now }).collect::<Vec<_>>())
    };
    let wrong = |order: &[OsdId]| (0..order.len().min(wanted.len())).filter(|n| order[*n] != wanted[*n]).collect();
    // An OSD that has no shard now can be given the one that it should have.
    let with_one_right = |order: &[OsdId]| {
        let wrong: Vec<usize> = wrong(order);
        wrong.into_iter().find_map(|shard| replaced(order, shard, wanted[shard]))
    };
    let left: Vec<usize> = wrong(present);
    if left.is_empty() {
        return Some(present.to_vec());
    }
    if let Some(next) = with_one_right(present) {
        return Some(next);
    }
    if left.iter().any(|shard| !present.contains(&wanted[*shard])) {
        return None;
    }
    // All OSDs have shards of each other. A circle is opened only if it can be closed again.
    let closes = |opened: &[OsdId], shard: usize| {
        let mut order = opened.to_vec();
        while order[shard] != wanted[shard] {
            match with_one_right(&order) {
                Some(next) => order = next,
                None => return false,
            }
        }
        true
    };
    left.iter().find_map(|shard| {
        let opened = spares.iter().filter_map(|spare| replaced(present, *shard, *spare));
        opened.into_iter().find(|opened| closes(opened, *shard))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shards_to_be;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn osds(numbers: &[i32]) -> Vec<OsdId> {
        numbers.iter().map(|n| OsdId(*n)).collect()
    }

    /// Returns all orders from `present` on, if OSDs of one ten (10 to 19, and so on) may not be in one group.
    fn way(present: &[i32], wanted: &[i32], spares: &[i32]) -> Option<Vec<Vec<i32>>> {
        let (mut order, wanted, spares) = (osds(present), osds(wanted), osds(spares));
        let mut seen = Vec::new();
        let apart = |members: &[OsdId], from: OsdId, to: OsdId| {
            members.iter().all(|osd| *osd == from || osd.0 < 10 || osd.0 / 10 != to.0 / 10)
        };
        while order != wanted {
            order = next_order(&order, &wanted, &spares, apart)?;
            seen.push(order.iter().map(|osd| osd.0).collect());
            assert!(seen.len() < 100, "it does not end: {seen:?}");
        }
        Some(seen)
    }

    #[test]
    fn a_circle_takes_a_spare_one_for_a_while() {
        assert_eq!(way(&[1, 2, 3], &[1, 2, 3], &[]), Some(vec![]));
        let swapped = vec![vec![4, 2, 3], vec![4, 1, 3], vec![2, 1, 3]];
        assert_eq!(way(&[1, 2, 3], &[2, 1, 3], &[4]), Some(swapped));
        let turned = vec![vec![4, 2, 3], vec![4, 1, 3], vec![4, 1, 2], vec![3, 1, 2]];
        assert_eq!(way(&[1, 2, 3], &[3, 1, 2], &[4]), Some(turned));
        assert_eq!(way(&[1, 2, 3], &[2, 1, 3], &[]), None);
        assert_eq!(way(&[1, 2, 3], &[2, 1, 3], &[3]), None, "a member is no spare one");
    }

    #[test]
    fn who_is_not_in_the_group_needs_no_spare_one() {
        assert_eq!(way(&[1, 2, 3], &[1, 2, 4], &[]), Some(vec![vec![1, 2, 4]]));
        assert_eq!(way(&[4, 2, 3], &[2, 1, 3], &[]), Some(vec![vec![4, 1, 3], vec![2, 1, 3]]));
    }

    #[test]
    fn domains_of_failure_are_kept() {
        assert_eq!(way(&[11, 21, 31], &[21, 11, 31], &[12, 32]), None, "it would stand beside one of its domain");
        let by_the_other = vec![vec![41, 21, 31], vec![41, 11, 31], vec![21, 11, 31]];
        assert_eq!(way(&[11, 21, 31], &[21, 11, 31], &[12, 41]), Some(by_the_other));
    }

    proptest! {
        #[test]
        fn every_order_is_reached_by_replacing_one_at_a_time(
            present in Just((0..7).collect::<Vec<i32>>()).prop_shuffle(),
            wanted in Just((0..7).collect::<Vec<i32>>()).prop_shuffle(),
            others in 0usize..3,
        ) {
            // Some OSDs of each order are not in the other one.
            let present: Vec<OsdId> =
                present.iter().map(|n| if (*n as usize) < others { OsdId(20 + n) } else { OsdId(*n) }).collect();
            let wanted = osds(&wanted);
            let mut order = present.clone();
            let mut steps = 0;
            while order != wanted {
                let next = next_order(&order, &wanted, &[OsdId(30), OsdId(31)], |_, _, _| true).unwrap();
                let changed: Vec<usize> = (0..7).filter(|n| next[*n] != order[*n]).collect();
                prop_assert_eq!(changed.len(), 1);
                prop_assert!(!order.contains(&next[changed[0]]), "nobody is given another shard than it has");
                prop_assert_eq!(next.iter().collect::<BTreeSet<_>>().len(), 7);
                prop_assert!(next.iter().filter(|osd| osd.0 >= 30).count() <= 1);
                // A member that stays keeps its shard, so this order comes of this up set.
                prop_assert_eq!(&shards_to_be(&order, &next), &next);
                order = next;
                steps += 1;
                prop_assert!(steps <= 7 + 3, "each circle costs one step more than it has members");
            }
        }
    }
}
