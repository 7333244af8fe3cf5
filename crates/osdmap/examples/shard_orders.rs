//! Counts how often a change of the map wants OSDs of an erasure-coded pool's group at other places than their present
//! ones, and how many shards move: if a place is a shard, and if a member that stays keeps its shard
//! ([`osdmap::shards_to_be`]).
//!
//! ```console
//! $ cargo run --release -p osdmap --example shard_orders
//! ```

use crush::{CrushMap, Location, WEIGHT_ONE};
use osdmap::{Incremental, OsdMap, PgPool, PoolKind, shards_to_be};
use types::{Fsid, OsdId, PgId, PoolId, Utime};
use wire::EntityAddrVec;

const POOL: PoolId = PoolId(1);
const GROUPS: u32 = 1024;
/// Changes of each kind that are tried.
const TRIES: u32 = 40;

/// A change of one OSD, or of the pool.
type Change = fn(&mut OsdMap, OsdId);

#[derive(Default)]
struct Count {
    groups: u64,
    moved: u64,
    reordered: u64,
    only_reordered: u64,
    shards_by_place: u64,
    shards: u64,
}

fn main() {
    let changes: [(&str, Change); 4] = [
        ("an OSD is out", |map, osd| change(map, |inc| inc.mark_out(osd))),
        ("its weight falls to 0.8", |map, osd| {
            change(map, |inc| {
                inc.new_weight.insert(osd, 0xcccc);
            });
        }),
        ("its CRUSH weight grows to 1.5", |map, osd| {
            let mut crush = (*map.crush).clone();
            crush.reweight(&format!("osd.{}", osd.0), WEIGHT_ONE * 3 / 2).expect("it is there");
            change(map, |inc| inc.set_crush(&crush));
        }),
        ("pgp_num doubles", |map, _| {
            let pool = PgPool { pgp_num: 2 * map.pools[&POOL].pgp_num, ..map.pools[&POOL].clone() };
            change(map, |inc| drop(inc.new_pools.insert(POOL, pool)));
        }),
    ];
    for (osds, size) in [(4, 3), (5, 4), (8, 6), (12, 6), (40, 6), (200, 11), (1000, 11)] {
        let first = first_map(osds, size);
        println!("{osds} OSDs, {size} shards:");
        for (what, change) in &changes {
            let mut count = Count::default();
            for n in 0..TRIES.min(osds as u32) {
                let mut map = first.clone();
                change(&mut map, OsdId(n as i32 * (osds / TRIES as i32).max(1)));
                count.compare(&first, &map);
            }
            let percent = |n: u64| 100.0 * n as f64 / count.groups as f64;
            println!(
                "  {what}: of all groups {:.2} % change, {:.2} % have an OSD at another place, {:.2} % the same OSDs \
                 in another order; shards that move: {} if places are shards, {} if not",
                percent(count.moved),
                percent(count.reordered),
                percent(count.only_reordered),
                count.shards_by_place,
                count.shards
            );
        }
    }
}

impl Count {
    fn compare(&mut self, before: &OsdMap, after: &OsdMap) {
        for pg in (0..GROUPS).map(|seed| PgId { pool: POOL, seed }) {
            let [had, wanted] = [before, after].map(|map| map.pg_to_up_acting(pg).expect("it can be placed").up);
            let differ = |to: &[OsdId]| had.iter().zip(to).filter(|(a, b)| a != b && b.is_some()).count() as u64;
            let stay = had.iter().filter(|osd| osd.is_some() && wanted.contains(osd)).count();
            let in_place = had.iter().zip(&wanted).filter(|(a, b)| a == b && a.is_some()).count();
            self.groups += 1;
            self.moved += u64::from(had != wanted);
            self.reordered += u64::from(stay > in_place);
            self.only_reordered += u64::from(stay > in_place && stay == had.len());
            self.shards_by_place += differ(&wanted);
            self.shards += differ(&shards_to_be(&had, &wanted));
        }
    }
}

fn change(map: &mut OsdMap, with: impl FnOnce(&mut Incremental)) {
    let mut inc = Incremental::after(map, stamp(2));
    with(&mut inc);
    map.apply(&inc).expect("it follows");
}

fn stamp(sec: u32) -> Utime {
    Utime { sec: 1_795_000_000 + sec, nsec: 0 }
}

/// Returns a map with hosts of one OSD each, all of one weight.
fn first_map(osds: i32, size: u8) -> OsdMap {
    let mut crush = CrushMap::new();
    for osd in 0..osds {
        let host = format!("host{osd}");
        let location = Location::from([("root", "default"), ("host", &host)]);
        crush.insert_item(osd, WEIGHT_ONE, &format!("osd.{osd}"), &location).expect("it is new");
    }
    let rule = crush.create_erasure_rule("coded", "default", "host", None, size).expect("there is a root");
    let mut map = OsdMap::new(Fsid::from_random([7; 16]));
    let mut inc = Incremental::after(&map, stamp(1));
    inc.new_max_osd = Some(osds);
    inc.set_crush(&crush);
    for osd in (0..osds).map(OsdId) {
        let addrs = |offset: i32| -> EntityAddrVec {
            format!("v2:10.0.{}.{}:{}/77", osd.0 / 256, osd.0 % 256, 6800 + offset).parse().expect("an address")
        };
        inc.new_weight.insert(osd, 0x10000);
        inc.new_uuid.insert(osd, Fsid::from_random([osd.0 as u8; 16]));
        inc.mark_up(osd, addrs(0), addrs(1), addrs(2), addrs(3));
    }
    inc.new_pool_max = Some(POOL.0);
    inc.new_pool_names.insert(POOL, "coded".to_owned());
    let pool = PgPool { kind: PoolKind::ERASURE, pgp_num: GROUPS / 2, ..PgPool::replicated(size, GROUPS, rule as u8) };
    inc.new_pools.insert(POOL, pool);
    map.apply(&inc).expect("the first");
    map
}
