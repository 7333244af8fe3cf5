//! The shards that the OSDs of an erasure-coded pool's group have, and those that they are to have.
//!
//! Positions of the acting set are shards. CRUSH gives the up set as a list as well, but the order of its OSDs does not
//! matter as long as each has one shard. Therefore an OSD of both sets keeps its shard, whatever its place in the up
//! set, and the others of the up set get the shards of OSDs that are to go. No two OSDs exchange shards, and no more of
//! the shards move than OSDs change.

use types::OsdId;

fn place(osds: &[OsdId], osd: OsdId) -> Option<usize> {
    osds.iter().position(|other| *other == osd && osd.is_some())
}

/// Returns the OSD's shard if `acting` and `up` are a group's sets: its place in the acting set. If it has none there,
/// it is to have the shard of its place in the up set; if the holder of that shard stays with it, the shard of that
/// holder's place in the up set, and so on. `None`: it is in neither set.
///
/// OSDs that are to have shards which others have now get different ones: each OSD that is followed has one place in
/// each set. The places that are passed on the way are all those of OSDs that stay, so where a rule takes places from
/// different parts of the hierarchy, a shard stays in its part.
pub fn shard_of(acting: &[OsdId], up: &[OsdId], osd: OsdId) -> Option<u8> {
    let mut shard = place(acting, osd);
    if shard.is_none() {
        shard = place(up, osd);
        // Each step is another place of the up set.
        for _ in 0..up.len() {
            let holder = shard.and_then(|shard| acting.get(shard)).copied().unwrap_or(OsdId::NONE);
            let Some(next) = place(up, holder) else { break };
            shard = Some(next);
        }
    }
    shard.map(|shard| shard as u8)
}

/// Returns the acting set that a group should come to: the OSDs of the up set, each at the place of its shard.
pub fn shards_to_be(acting: &[OsdId], up: &[OsdId]) -> Vec<OsdId> {
    let mut wanted = vec![OsdId::NONE; up.len().max(acting.len())];
    for osd in up.iter().copied().filter(|osd| osd.is_some()) {
        let shard = shard_of(acting, up, osd).map(usize::from);
        if let Some(place) = shard.and_then(|shard| wanted.get_mut(shard)) {
            *place = osd;
        }
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::sample::subsequence;
    use std::collections::BTreeSet;

    fn osds(numbers: &[i32]) -> Vec<OsdId> {
        numbers.iter().map(|n| if *n < 0 { OsdId::NONE } else { OsdId(*n) }).collect()
    }

    fn check(acting: &[i32], up: &[i32], wanted: &[i32]) {
        assert_eq!(shards_to_be(&osds(acting), &osds(up)), osds(wanted), "from {acting:?} to {up:?}");
    }

    #[test]
    fn who_stays_keeps_its_shard() {
        check(&[1, 2, 3], &[1, 2, 3], &[1, 2, 3]);
        check(&[1, 2, 3], &[4, 5, 6], &[4, 5, 6]);
        check(&[1, 2, 3], &[3, 1, 2], &[1, 2, 3]);
        check(&[1, 2, 3], &[2, 4, 1], &[1, 2, 4]);
        check(&[1, 2, 3], &[2, 1, 4], &[1, 2, 4]);
        check(&[1, 2, 3, 4], &[5, 6, 1, 2], &[1, 2, 5, 6]);
        // Parts of the hierarchy, here below and above ten, keep their places.
        check(&[1, 2, 11, 12], &[3, 1, 13, 11], &[1, 3, 11, 13]);
    }

    #[test]
    fn shards_that_nobody_has_are_made_anew() {
        check(&[1, 2, -1, -1], &[5, 6, 1, 2], &[1, 2, 5, 6]);
        check(&[-1, 2, 3], &[2, 1, 4], &[1, 2, 4]);
        check(&[1, 2, 3], &[2, -1, 1], &[1, 2, -1]);
        check(&[-1, -1, -1], &[2, -1, 1], &[2, -1, 1]);
        check(&[], &[2, -1, 1], &[2, -1, 1]);
        check(&[1, 2], &[], &[-1, -1]);
        check(&[1, 2, 3], &[3, 4], &[-1, 4, 3]);
    }

    /// Generates different OSDs in some order, and holes.
    fn set() -> impl Strategy<Value = Vec<OsdId>> {
        let numbers = subsequence((0..9).collect::<Vec<i32>>(), 6).prop_shuffle();
        (numbers, prop::collection::vec(prop::bool::weighted(0.2), 6)).prop_map(|(numbers, holes)| {
            numbers.iter().zip(holes).map(|(n, hole)| if hole { OsdId::NONE } else { OsdId(*n) }).collect()
        })
    }

    proptest! {
        #[test]
        fn every_osd_of_the_up_set_has_one_shard(acting in set(), up in set()) {
            let wanted = shards_to_be(&acting, &up);
            let named = |osds: &[OsdId]| osds.iter().copied().filter(|osd| osd.is_some()).collect::<BTreeSet<_>>();
            prop_assert_eq!(named(&wanted), named(&up));
            prop_assert_eq!(wanted.iter().filter(|osd| osd.is_some()).count(), named(&up).len());
            for (shard, osd) in wanted.iter().enumerate().filter(|(_, osd)| osd.is_some()) {
                if let Some(has) = place(&acting, *osd) {
                    prop_assert_eq!(has, shard);
                } else if place(&up, acting[place(&up, *osd).expect("it is wanted")]).is_none() {
                    prop_assert_eq!(up[shard], *osd, "its place is free");
                }
            }
            // On the way there each OSD keeps the shard that it was to have; once there, nothing changes any more.
            prop_assert_eq!(&shards_to_be(&wanted, &up), &wanted);
            for moved in 0..acting.len() {
                let mut between = acting.clone();
                between[moved] = wanted[moved];
                prop_assert_eq!(&shards_to_be(&between, &up), &wanted);
            }
        }
    }
}
