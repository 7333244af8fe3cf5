//! Clusters that change at random, reproducibly.

#[path = "../../../../crush/tests/integration/support/mod.rs"]
pub mod hierarchies;

use crush::{CrushMap, Location, WEIGHT_ONE};
pub use hierarchies::Dice;
use osdmap::{
    AutoscaleMode, Incremental, OsdMap, OsdMapFlags, OsdState, OsdXInfo, PgPool, PoolFlags, PoolKind, PoolOptKey,
    TempSet,
};
use std::collections::BTreeMap;
use types::{Epoch, Fsid, OsdId, PgId, PoolId, Utime};
use wire::{EntityAddr, EntityAddrVec, Release};

/// Returns up to `count` different OSDs of `map`, existing or not.
fn some_osds(map: &OsdMap, count: u32, dice: &mut Dice) -> Vec<OsdId> {
    let mut osds = Vec::new();
    for _ in 0..count {
        let osd = OsdId(dice.below(map.max_osd() as u32) as i32);
        if !osds.contains(&osd) {
            osds.push(osd);
        }
    }
    osds
}

pub fn fsid() -> Fsid {
    "6f7c1e0a-52f0-4c9a-9d68-0123456789ab".parse().unwrap()
}

pub fn stamp(sec: u32) -> Utime {
    Utime { sec: 1_795_000_000 + sec, nsec: 5_000_000 + sec }
}

fn addrs(osd: OsdId, offset: u32, nonce: u32) -> EntityAddrVec {
    let port = 6800 + (osd.0 as u32 * 8 + offset) % 50_000;
    let text = format!("[v2:10.0.{}.{}:{port}/{nonce},v1:10.0.0.9:{}/{nonce}]", osd.0 / 200, osd.0 % 200, port + 1);
    text.parse().unwrap()
}

pub fn mark_up(inc: &mut Incremental, osd: OsdId, nonce: u32) {
    inc.mark_up(osd, addrs(osd, 0, nonce), addrs(osd, 2, nonce), addrs(osd, 4, nonce), addrs(osd, 6, nonce));
}

/// Returns a hierarchy of ten hosts with four OSDs each, two device classes, four rules.
pub fn small_crush() -> CrushMap {
    let mut crush = CrushMap::new();
    for osd in 0..40 {
        let (host, rack) = (format!("host{}", osd / 4), format!("rack{}", osd / 4 % 3));
        let location = Location::from([("root", "default"), ("rack", &rack), ("host", &host)]);
        crush.insert_item(osd, WEIGHT_ONE + (osd as u32 % 5) * 0x2000, &format!("osd.{osd}"), &location).unwrap();
        crush.set_device_class(osd, if osd % 4 < 2 { "ssd" } else { "hdd" }).unwrap();
    }
    crush.create_replicated_rule("replicated_rule", "default", "host", None).unwrap();
    crush.create_replicated_rule("ssd", "default", "host", Some("ssd")).unwrap();
    crush.create_erasure_rule("erasure", "default", "host", None, 20).unwrap();
    crush.create_erasure_rule("erasure-hdd", "default", "osd", Some("hdd"), 20).unwrap();
    crush
}

/// Returns the first epoch of a cluster over `crush`: every device is up and in; `pools` by number from 1.
pub fn first_map(crush: &CrushMap, pools: Vec<PgPool>) -> OsdMap {
    let mut map = OsdMap::new(fsid());
    let mut inc = Incremental::after(&map, stamp(1));
    let devices = crush.devices();
    inc.new_max_osd = Some(devices.last().unwrap() + 1);
    inc.set_crush(crush);
    for device in devices {
        let osd = OsdId(device);
        inc.new_weight.insert(osd, 0x10000);
        inc.new_uuid.insert(osd, Fsid::from_random([device as u8; 16]));
        mark_up(&mut inc, osd, 77);
    }
    inc.new_pool_max = Some(pools.len() as i64);
    for (n, pool) in pools.into_iter().enumerate() {
        let id = PoolId(n as i64 + 1);
        inc.new_pool_names.insert(id, format!("pool{}", id.0));
        inc.new_pools.insert(id, pool);
    }
    inc.new_flags = Some(OsdMapFlags::NEW_MAP);
    inc.new_require_osd_release = Some(Release::PACIFIC);
    map.apply(&inc).unwrap();
    map
}

pub fn replicated(size: u8, pg_num: u32, rule: u8) -> PgPool {
    let mut pool = PgPool::replicated(size, pg_num, rule);
    pool.create_time = stamp(1);
    pool
}

pub fn erasure(size: u8, pg_num: u32, rule: u8) -> PgPool {
    PgPool {
        kind: PoolKind::ERASURE,
        min_size: size - 1,
        stripe_width: 4096 * (u32::from(size) - 2),
        erasure_code_profile: "default".into(),
        ..replicated(size, pg_num, rule)
    }
}

pub fn small_map() -> OsdMap {
    let pools = vec![replicated(3, 64, 0), replicated(2, 40, 1), erasure(6, 32, 2), erasure(5, 24, 3)];
    first_map(&small_crush(), pools)
}

/// Returns an increment with a few changes of any kind that a monitor makes.
pub fn random_increment(map: &OsdMap, dice: &mut Dice) -> Incremental {
    let mut inc = Incremental::after(map, stamp(map.epoch.0));
    for _ in 0..1 + dice.below(6) {
        match dice.below(5) {
            0 => change_osd(map, &mut inc, dice),
            1 | 2 => change_placement(map, &mut inc, dice),
            3 => change_pool(map, &mut inc, dice),
            _ => change_setting(map, &mut inc, dice),
        }
    }
    inc
}

fn change_osd(map: &OsdMap, inc: &mut Incremental, dice: &mut Dice) {
    let osd = OsdId(dice.below(map.max_osd() as u32) as i32);
    let touched = inc.new_state.contains_key(&osd) || inc.new_up_client.contains_key(&osd);
    match dice.below(12) {
        _ if touched => {}
        0..=2 if map.is_up(osd) => inc.mark_down(osd),
        0..=3 if map.exists(osd) => mark_up(inc, osd, 1000 + map.epoch.0),
        3 => inc.create_osd(map, osd, Fsid::from_random([map.epoch.0 as u8; 16])),
        4 => inc.mark_out(osd),
        5 if map.exists(osd) => inc.mark_in(osd),
        6 if map.exists(osd) => drop(inc.new_weight.insert(osd, 1 + dice.below(0xffff))),
        7 => drop(inc.new_primary_affinity.insert(osd, dice.below(4) * 0x5555 + 1)),
        8 => drop(inc.new_up_thru.insert(osd, map.epoch)),
        9 => {
            inc.new_last_clean_interval.insert(osd, (Epoch(3), map.epoch));
            inc.new_lost.insert(osd, map.epoch);
        }
        10 if map.exists(osd) && map.is_down(osd) => drop(inc.new_state.insert(osd, OsdState::EXISTS)),
        11 => {
            let xinfo = OsdXInfo { laggy_probability: dice.below(1000), features: 0x3f01, ..OsdXInfo::default() };
            inc.new_xinfo.insert(osd, xinfo);
        }
        _ => drop(inc.new_state.insert(osd, OsdState::NEARFULL)),
    }
}

fn change_placement(map: &OsdMap, inc: &mut Incremental, dice: &mut Dice) {
    let pools: Vec<PoolId> = map.pools.keys().copied().collect();
    let Some(pool) = (!pools.is_empty()).then(|| *dice.pick(&pools)) else { return };
    let pg = PgId { pool, seed: dice.below(map.pools[&pool].pg_num) };
    let size = map.pools[&pool].size.into();
    let osds = some_osds(map, size, dice);
    let current = map.pg_to_osds_raw(pg).unwrap_or_default();
    match dice.below(8) {
        0 if map.pools[&pool].can_shift_osds() => {
            let shown = 1 + dice.below(osds.len().max(1) as u32) as usize;
            inc.new_pg_temp.insert(pg, TempSet::showing(osds, shown));
        }
        0 | 1 => drop(inc.new_pg_temp.insert(pg, osds.into())),
        2 => inc.new_pg_temp.extend(map.pg_temp.keys().next().map(|pg| (*pg, TempSet::default()))),
        3 => drop(inc.new_primary_temp.insert(pg, osds.first().copied().filter(|_| dice.below(3) > 0))),
        4 => drop(inc.new_pg_upmap.insert(pg, osds)),
        5 => inc.old_pg_upmap.extend(map.pg_upmap.keys().next()),
        6 if !current.is_empty() => {
            let items = osds.iter().take(2).map(|to| (*dice.pick(&current), *to)).collect();
            inc.new_pg_upmap_items.insert(pg, items);
        }
        _ => inc.old_pg_upmap_items.extend(map.pg_upmap_items.keys().next()),
    }
}

fn change_pool(map: &OsdMap, inc: &mut Incremental, dice: &mut Dice) {
    let pools: Vec<PoolId> = map.pools.keys().copied().filter(|id| !inc.old_pools.contains(id)).collect();
    let id = if pools.is_empty() { PoolId(0) } else { *dice.pick(&pools) };
    let mut pool = inc.new_pools.get(&id).or(map.pools.get(&id)).cloned();
    match (dice.below(12), &mut pool) {
        (0, _) | (_, None) => {
            let id = PoolId(inc.new_pool_max.unwrap_or(map.pool_max.into()) + 1);
            let size = 2 + dice.below(5) as u8;
            let pg_num = 1 + dice.below(70);
            let new = if dice.below(2) == 0 { replicated(size, pg_num, 0) } else { erasure(size.max(3), pg_num, 2) };
            inc.new_pools.insert(id, new);
            inc.new_pool_names.insert(id, format!("pool{}", id.0));
            inc.new_pool_max = Some(id.0);
            return;
        }
        (1, _) if pools.len() > 3 => {
            inc.old_pools.insert(id);
            inc.new_pools.remove(&id);
            inc.new_pool_names.remove(&id);
            return;
        }
        (2, _) => drop(inc.new_pool_names.insert(id, format!("renamed{}", map.epoch.0))),
        (3, Some(pool)) => {
            let grown = pool.pg_num + dice.below(9);
            (pool.pg_num, pool.pg_num_target, pool.pg_num_pending) = (grown, grown, grown);
        }
        (4, Some(pool)) => (pool.pgp_num, pool.pgp_num_target) = (pool.pg_num, pool.pg_num),
        (5, Some(pool)) => pool.flags.set(*dice.pick(&[PoolFlags::NODELETE, PoolFlags::FULL_QUOTA]), true),
        (6, Some(pool)) => {
            let tags = BTreeMap::from([("k".to_owned(), format!("v{}", map.epoch.0))]);
            pool.application_metadata.insert("rados".into(), tags);
        }
        (7, Some(pool)) => {
            for (name, value) in [("compression_mode", "force"), ("pg_num_min", "4"), ("target_size_ratio", "0.25")] {
                let key = PoolOptKey::from_name(name).unwrap();
                pool.opts.0.insert(key, key.parse(value).unwrap());
            }
        }
        (8, Some(pool)) => drop(pool.add_snap(&format!("s{}", pool.snap_seq.0 + 1), stamp(7))),
        (9, _) => inc.new_removed_snaps.entry(id).or_default().insert(u64::from(map.epoch.0) * 10, 3),
        (10, _) => {
            let queued = map.removed_snaps_queue.iter().next().map(|(id, snaps)| (*id, snaps.clone()));
            inc.new_purged_snaps.extend(queued);
            return;
        }
        (_, Some(pool)) => {
            pool.autoscale_mode = AutoscaleMode(dice.below(3) as u8);
            pool.quota_max_bytes = dice.below(1000).into();
        }
    }
    inc.new_pools.insert(id, pool.expect("matched above"));
}

fn change_setting(map: &OsdMap, inc: &mut Incremental, dice: &mut Dice) {
    match dice.below(9) {
        0 => {
            let flags = inc.new_flags.unwrap_or(map.flags);
            // Decoders clear the flags that the required release stands for, and set others.
            let changeable: Vec<OsdMapFlags> = OsdMapFlags::ALL.iter().map(|(flag, _)| *flag).collect();
            let changeable: Vec<OsdMapFlags> = changeable
                .into_iter()
                .filter(|flag| !(15..=20).contains(&flag.0.trailing_zeros()) && flag.0 < 1 << 22)
                .collect();
            inc.new_flags = Some(flags ^ *dice.pick(&changeable));
        }
        1 => {
            let addr: EntityAddr = format!("v2:10.9.8.7:0/{}", 1 + dice.below(20)).parse().unwrap();
            inc.new_blocklist.insert(addr, stamp(map.epoch.0 + 3600));
        }
        2 => inc.old_blocklist.extend(map.blocklist.keys().next()),
        3 => {
            let profile = BTreeMap::from([("k".to_owned(), "2".to_owned()), ("m".to_owned(), "1".to_owned())]);
            inc.new_erasure_code_profiles.insert(format!("profile{}", dice.below(5)), profile);
        }
        4 => inc.old_erasure_code_profiles.extend(map.erasure_code_profiles.keys().next().cloned()),
        5 => {
            inc.new_nearfull_ratio = Some(0.80 + dice.below(10) as f32 / 100.0);
            inc.new_full_ratio = Some(0.97);
        }
        6 => {
            let flags = if dice.below(2) == 0 { OsdState::NOOUT } else { OsdState::default() };
            inc.new_crush_node_flags.insert(-1, flags);
            inc.new_device_class_flags.insert(0, flags);
        }
        7 => inc.new_require_min_compat_client = Some(Release(12 + dice.below(4) as u8)),
        _ => {
            let mut crush = (*map.crush).clone();
            let osd = format!("osd.{}", dice.below(map.max_osd() as u32));
            if crush.reweight(&osd, 0x8000 + dice.below(0x20000)).is_ok() {
                inc.set_crush(&crush);
            }
        }
    }
}
