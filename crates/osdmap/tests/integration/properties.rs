//! Laws that hold for any map, increment and bytes.

use crate::support;
use crate::support::{Dice, random_increment, small_map, stamp};
use osdmap::{
    ApplyError, Incremental, MappingUpdate, MgrMap, MonMap, OsdInfo, OsdMap, OsdState, OsdXInfo, PgMapping, PgPool,
    PoolFlags, TempSet, UpActing,
};
use proptest::prelude::*;
use std::collections::BTreeSet;
use types::{Epoch, Fsid, OsdId, PgId, PoolId, Utime};
use wire::{Decode, Encode, EntityAddr, Target};

fn after_changes(seed: u64, steps: u32) -> OsdMap {
    let (mut map, mut dice) = (small_map(), Dice::new(seed));
    for _ in 0..steps {
        let inc = random_increment(&map, &mut dice);
        map.apply(&inc).unwrap();
    }
    map
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn maps_and_increments_read_back(seed: u64, steps in 1u32..60) {
        let map = after_changes(seed, steps);
        let (bytes, crc) = map.encode_with_checksum(Target::PACIFIC);
        prop_assert_eq!(&OsdMap::from_slice(&bytes).unwrap(), &map);
        prop_assert_eq!(map.checksum(Target::PACIFIC), crc);

        let mut inc = random_increment(&map, &mut Dice::new(seed ^ 1));
        inc.full_crc = 7;
        let read = Incremental::from_slice(&inc.to_vec(Target::PACIFIC)).unwrap();
        prop_assert_eq!(&read, &inc);
        let (mut a, mut b) = (map.clone(), map);
        a.apply(&inc).unwrap();
        b.apply(&read).unwrap();
        prop_assert_eq!(a, b);
    }

    #[test]
    fn a_full_map_in_an_increment_replaces_everything(seed: u64) {
        let (mut map, next) = (small_map(), after_changes(seed, 1));
        let mut inc = Incremental::after(&map, stamp(9));
        inc.full_map = next.to_vec(Target::PACIFIC).into();
        map.apply(&inc).unwrap();
        prop_assert_eq!(map, next);
    }

    #[test]
    fn a_mapping_that_follows_changes_is_what_computing_it_anew_gives(seed: u64, steps in 1u32..60) {
        let (mut map, mut dice) = (small_map(), Dice::new(seed));
        let mut mapping = PgMapping::compute(&map);
        for _ in 0..steps {
            let before = map.clone();
            map.apply(&random_increment(&map, &mut dice)).unwrap();
            mapping.follow(&before, &map);
            prop_assert_eq!(&mapping, &PgMapping::compute(&map));
        }
    }

    #[test]
    fn a_mapping_that_follows_in_pieces_comes_to_the_same(seed: u64, steps in 1u32..20, work in 1usize..20_000) {
        let (mut map, mut dice) = (small_map(), Dice::new(seed));
        let mut mapping = PgMapping::compute(&map);
        for _ in 0..steps {
            let before = map.clone();
            map.apply(&random_increment(&map, &mut dice)).unwrap();
            let mut update = MappingUpdate::begin(mapping, &before, &map);
            while !update.step(&before, &map, &mut { work }) {}
            mapping = update.finish().0;
            prop_assert_eq!(&mapping, &PgMapping::compute(&map));
        }
    }

    #[test]
    fn placements_hold_what_they_promise(seed: u64, steps in 1u32..60) {
        let map = after_changes(seed, steps);
        let mapping = PgMapping::compute(&map);
        prop_assert!(mapping.errors().is_empty());
        prop_assert_eq!(mapping.iter().count(), map.pgs().count());
        for (pg, at) in mapping.iter() {
            let pool = map.pool(pg.pool).unwrap();
            let UpActing { up, up_primary, acting, .. } = at;
            prop_assert_eq!(&map.pg_to_up_acting(pg).unwrap(), at);
            for set in [up, acting] {
                let real: Vec<OsdId> = set.iter().copied().filter(|osd| *osd != OsdId::NONE).collect();
                prop_assert!(real.iter().all(|osd| map.is_up(*osd)), "{pg} has an OSD that is down: {set:?}");
                prop_assert!(pool.is_erasure() || real.len() == set.len(), "{pg} has a hole: {set:?}");
            }
            // An operator may pin one OSD to several places; placement by itself does not.
            if !map.pg_upmap.contains_key(&pg) && !map.pg_upmap_items.contains_key(&pg) {
                let real: Vec<OsdId> = up.iter().copied().filter(|osd| *osd != OsdId::NONE).collect();
                prop_assert_eq!(real.iter().collect::<BTreeSet<_>>().len(), real.len(), "{} twice in {:?}", pg, up);
            }
            prop_assert!(up_primary.is_none_or(|osd| up.contains(&osd)));
        }
        let pg = mapping.iter().next().map(|(pg, _)| pg);
        if let Some((pg, osd)) = pg.and_then(|pg| Some((pg, mapping.get(pg)?.acting_primary?))) {
            let primary_temp = map.primary_temp.contains_key(&pg);
            prop_assert!(primary_temp || mapping.acting_on(osd).any(|(at, _)| at == pg));
        }
    }

    #[test]
    fn refused_increments_change_nothing(seed: u64, kind in 0..5) {
        let map = after_changes(seed, 3);
        let mut inc = random_increment(&map, &mut Dice::new(seed ^ 2));
        inc.full_map = Default::default();
        let beyond = OsdId(map.max_osd() + 100);
        match kind {
            0 => inc.epoch = Epoch(inc.epoch.0 + 1),
            1 => inc.fsid = Fsid([9; 16]),
            2 => drop(inc.new_weight.insert(beyond, 1)),
            3 => drop(inc.new_up_client.insert(OsdId(0), Default::default())),
            _ => inc.crush = vec![1, 2, 3].into(),
        }
        if kind == 3 {
            inc.new_hb_back_up.remove(&OsdId(0));
        }
        let mut changed = map.clone();
        let error = changed.apply(&inc).unwrap_err();
        prop_assert_eq!(changed, map);
        let expected = match kind {
            0 => matches!(error, ApplyError::Epoch { .. }),
            1 => matches!(error, ApplyError::Fsid { .. }),
            2 => matches!(error, ApplyError::OsdOutOfRange { .. }),
            3 => matches!(error, ApplyError::NoHeartbeatAddrs { .. }),
            _ => matches!(error, ApplyError::Crush { .. }),
        };
        prop_assert!(expected, "{error}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes: Vec<u8>, body: Vec<u8>) {
        // A plausible head leads deeper.
        let mut headed = vec![29, 5];
        headed.extend((body.len() as u32).to_le_bytes());
        headed.extend(&body);
        for bytes in [bytes, headed] {
            let _ = OsdMap::from_slice(&bytes);
            let _ = Incremental::from_slice(&bytes);
            let _ = PgPool::from_slice(&bytes);
            let _ = MonMap::from_slice(&bytes);
            let _ = MgrMap::from_slice(&bytes);
            let _ = OsdInfo::from_slice(&bytes);
            let _ = OsdXInfo::from_slice(&bytes);
        }
    }

    /// Checksums hide code behind a damaged length; pools and monitor maps have none.
    #[test]
    fn damaged_pools_and_monitor_maps_are_read_or_refused(at in 0usize..400, byte: u8, cut in 0usize..400) {
        let pool = small_map().pools.values().next().unwrap().to_vec(Target::PACIFIC);
        let mut mons = MonMap::new(support::fsid(), stamp(1));
        mons.add("a", "v2:127.0.0.1:3300/0".parse().unwrap());
        let mons = mons.to_vec(Target::PACIFIC);
        for mut bytes in [pool, mons] {
            let (at, cut) = (at % bytes.len(), cut % bytes.len());
            bytes[at] = byte;
            let _ = PgPool::from_slice(&bytes);
            let _ = MonMap::from_slice(&bytes);
            prop_assert!(PgPool::from_slice(&bytes[..cut]).is_err());
            prop_assert!(MonMap::from_slice(&bytes[..cut]).is_err());
        }
    }
}

#[test]
fn an_osds_life_in_increments() {
    let mut map = small_map();
    let osd = OsdId(5);
    let mut step = |change: &dyn Fn(&mut Incremental)| {
        let mut inc = Incremental::after(&map, stamp(map.epoch.0));
        change(&mut inc);
        map.apply(&inc).unwrap();
        let entry = map.osd(osd).cloned().unwrap_or_default();
        (entry.state, entry.info, map.epoch)
    };
    let (state, info, epoch) = step(&|inc| inc.mark_down(osd));
    assert_eq!((state, info.down_at), (OsdState::EXISTS, epoch));
    let (state, info, epoch) = step(&|inc| support::mark_up(inc, osd, 9));
    assert_eq!((state, info.up_from), (OsdState::EXISTS | OsdState::UP, epoch));
    step(&|inc| inc.mark_down(osd));
    // Flipping "exists" of an OSD that exists forgets it.
    let (state, info, _) = step(&|inc| inc.flip_state(osd, OsdState::EXISTS));
    assert_eq!((state, info), (OsdState::default(), OsdInfo::default()));
}

#[test]
fn all_osds_have_what_each_that_was_ever_up_has() {
    let bit = 1 << 62;
    let mut map = OsdMap::new(Fsid([1; 16]));
    let mut step = |change: &dyn Fn(&mut Incremental)| {
        let mut inc = Incremental::after(&map, stamp(map.epoch.0));
        change(&mut inc);
        map.apply(&inc).unwrap();
        map.all_osds_have(bit)
    };
    let tells = |inc: &mut Incremental, osd: i32, features: u64| {
        inc.new_xinfo.insert(OsdId(osd), OsdXInfo { features, ..OsdXInfo::default() });
    };
    let starts = |inc: &mut Incremental, osd: i32, features: u64| {
        support::mark_up(inc, OsdId(osd), 1);
        tells(inc, osd, features);
    };
    assert!(!step(&|inc| inc.new_max_osd = Some(4)), "there is none");
    // A number is given out, of which nobody has started.
    assert!(!step(&|inc| inc.flip_state(OsdId(3), OsdState::EXISTS | OsdState::NEW)));
    assert!(step(&|inc| starts(inc, 0, bit | 5)));
    assert!(!step(&|inc| starts(inc, 1, 5)));
    assert!(!step(&|inc| inc.mark_down(OsdId(1))), "it may come back");
    assert!(!step(&|inc| starts(inc, 2, bit)));
    assert!(step(&|inc| inc.flip_state(OsdId(1), OsdState::DESTROYED)), "its store does not come back");
    assert!(step(&|inc| inc.mark_down(OsdId(2))));
    assert!(!step(&|inc| inc.flip_state(OsdId(1), OsdState::DESTROYED)));
    assert!(step(&|inc| tells(inc, 1, 0)), "it is to be made anew");
    assert!(!step(&|inc| starts(inc, 1, 5)));
    assert!(step(&|inc| tells(inc, 1, bit)));
}

#[test]
fn blocklists_lock_out_addresses_and_ranges() {
    let mut map = small_map();
    let addr = |text: &str| text.parse::<EntityAddr>().unwrap();
    let mut inc = Incremental::after(&map, stamp(9));
    inc.new_blocklist.insert(addr("v2:10.0.0.1:0/77"), stamp(99));
    inc.new_blocklist.insert(addr("v2:10.0.0.2:0/0"), stamp(99));
    inc.new_range_blocklist.insert(addr("v2:10.9.0.0:0/16"), stamp(99));
    map.apply(&inc).unwrap();
    let check = |text: &str, locked: bool| assert_eq!(map.is_blocklisted(&addr(text)), locked, "{text}");
    check("v2:10.0.0.1:0/77", true);
    check("v1:10.0.0.1:0/77", true);
    check("v2:10.0.0.1:0/78", false);
    check("v2:10.0.0.2:4000/5", true);
    check("v2:10.0.0.3:0/0", false);
    check("v2:10.9.200.1:1/1", true);
    check("v2:10.10.0.1:1/1", false);
}

#[test]
fn a_pool_without_a_rule_is_nowhere() {
    let mut map = small_map();
    let mut inc = Incremental::after(&map, stamp(9));
    let mut pool = map.pools[&types::PoolId(1)].clone();
    pool.crush_rule = 77;
    inc.new_pools.insert(types::PoolId(1), pool);
    map.apply(&inc).unwrap();
    assert_eq!(map.pg_to_up_acting(PgId::new(1, 0)).unwrap(), UpActing::default());
    assert_eq!(map.pg_to_up_acting(PgId::new(2, 5000)).unwrap(), UpActing::default());
    assert!(map.pg_to_up_acting(PgId::new(99, 0)).is_err());
}

/// OSDs that go down and come back, most settings, and changes of other pools do not make CRUSH place anything again.
#[test]
fn only_what_may_differ_is_placed_again() {
    let mut map = small_map();
    let mut mapping = PgMapping::compute(&map);
    let (osd, pool) = (OsdId(7), PoolId(1));
    let groups = map.pools[&pool].pg_num as usize;
    let all: usize = map.pools.values().map(|pool| pool.pg_num as usize).sum();
    // Counts the groups that the OSD has before the next change.
    let has_groups = std::cell::Cell::new(mapping.iter().filter(|(_, at)| at.up.contains(&osd)).count());
    let mut check = |what: &str, wanted: usize, change: &dyn Fn(&OsdMap, &mut Incremental)| {
        let before = map.clone();
        let mut inc = Incremental::after(&map, stamp(9));
        change(&before, &mut inc);
        map.apply(&inc).unwrap();
        assert_eq!(mapping.follow(&before, &map), wanted, "{what}");
        assert_eq!(mapping, PgMapping::compute(&map), "{what}");
        has_groups.set(mapping.iter().filter(|(_, at)| at.up.contains(&osd)).count());
    };
    check("nothing", 0, &|_, _| {});
    check("an OSD goes down", 0, &|_, inc| inc.mark_down(osd));
    check("and comes back", 0, &|_, inc| support::mark_up(inc, osd, 77));
    check("another number of OSDs", 0, &|map, inc| inc.new_max_osd = Some(map.max_osd() + 3));
    check("a group is placed by hand", 0, &|_, inc| {
        inc.new_pg_upmap.insert(PgId { pool, seed: 3 }, vec![OsdId(1), OsdId(2)]);
    });
    check("a pool is full", 0, &|map, inc| {
        let mut full = map.pools[&pool].clone();
        full.flags.insert(PoolFlags::FULL);
        inc.new_pools.insert(pool, full);
    });
    check("a pool keeps fewer copies", groups, &|map, inc| {
        inc.new_pools.insert(pool, PgPool { size: 2, ..map.pools[&pool].clone() });
    });
    // The OSD is placed nowhere by hand: CRUSH has to place its groups again and, perhaps, the one placed by hand.
    let has = has_groups.get();
    assert!(has > 5 && has < all / 2, "{has}");
    check("an OSD is out", has, &|_, inc| inc.mark_out(osd));
    check("an OSD is in again", all, &|_, inc| inc.mark_in(osd));
    check("and out again", has, &|_, inc| inc.mark_out(osd));
    check("a weight changes", all, &|map, inc| {
        let mut crush = (*map.crush).clone();
        crush.reweight("osd.7", 0x8000).unwrap();
        inc.set_crush(&crush);
    });
    check("a pool is gone", 0, &|_, inc| {
        inc.old_pools.insert(pool);
    });
}

/// A group's further members are theirs to know who decode the whole map; they act behind those that clients see, and
/// only while one of these is up.
#[test]
fn further_members_act_behind_those_that_clients_see() {
    let mut map = small_map();
    let pool = *map.pools.iter().find(|(_, pool)| pool.can_shift_osds()).expect("one is replicated").0;
    let pg = PgId { pool, seed: 0 };
    let [a, b, c, d] = [0, 1, 2, 3].map(OsdId);
    let plain = map.to_vec(Target::default());
    let mut inc = Incremental::after(&map, Utime::ZERO);
    inc.new_pg_temp.insert(pg, TempSet::showing(vec![c, a, b, d], 2));
    let inc = Incremental::from_slice(&inc.to_vec(Target::default())).expect("it is whole");
    map.apply(&inc).expect("it fits");
    let map = OsdMap::from_slice(&map.to_vec(Target::default())).expect("it is whole");
    assert_eq!((map.pg_temp[&pg].shown(), map.pg_temp[&pg].further()), (&[c, a][..], &[b, d][..]));
    let down = |map: &OsdMap, osds: &[OsdId]| {
        let mut map = map.clone();
        let mut inc = Incremental::after(&map, Utime::ZERO);
        inc.new_state.extend(osds.iter().map(|osd| (*osd, OsdState::UP)));
        map.apply(&inc).expect("it fits");
        let at = map.pg_to_up_acting(pg).expect("it is there");
        (at.acting_shown().to_vec(), at.acting[at.shown..].to_vec(), at.acting_primary, at.up)
    };
    assert_eq!(down(&map, &[]).0, [c, a]);
    assert_eq!(down(&map, &[c, d]), (vec![a], vec![b], Some(a), down(&map, &[c, d]).3));
    // A client takes the up set then.
    let (shown, further, _, up) = down(&map, &[a, c]);
    assert_eq!((shown, further), (up, vec![]));
    // Ceph's part of the map has nothing of them, and a map without them is as it was.
    let mut inc = Incremental::after(&map, Utime::ZERO);
    inc.new_pg_temp.insert(pg, TempSet::default());
    let mut without = map.clone();
    without.apply(&inc).expect("it fits");
    (without.epoch, without.modified) = Default::default();
    let mut plain = OsdMap::from_slice(&plain).expect("it is whole");
    (plain.epoch, plain.modified) = Default::default();
    assert_eq!(without.to_vec(Target::default()), plain.to_vec(Target::default()));
}
