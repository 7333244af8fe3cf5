//! Measures the cost of large clusters' maps: time and memory to decode, to follow and to place all groups, as each OSD
//! and each monitor does it.
//!
//! ```console
//! $ cargo run --release -p osdmap --example scale -- 10000 1048576
//! ```

use crush::{CrushMap, Location, WEIGHT_ONE};
use osdmap::{Incremental, MappingUpdate, OsdMap, PgMapping, PgPool};
use std::time::{Duration, Instant};
use types::{Fsid, OsdId, PgId, PoolId, Utime};
use wire::{Decode, Encode, EntityAddrVec, Target};

const OSDS_PER_HOST: u32 = 20;
const HOSTS_PER_RACK: u32 = 20;
const PGS_PER_POOL_MAX: u32 = 1 << 18;

/// A change that a monitor makes.
type Change = fn(&mut Incremental);

fn main() {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse::<u32>());
    let (Some(Ok(osds)), Some(Ok(pgs)), None) = (numbers.next(), numbers.next(), numbers.next()) else {
        eprintln!("usage: scale OSDS PLACEMENT_GROUPS");
        std::process::exit(2);
    };
    let mut map = first_map(osds, pgs);
    println!("{osds} OSDs, {} placement groups of three copies", map.pgs().count());
    let (encoded, took) = timed(|| map.encode_with_checksum(Target::PACIFIC).0);
    println!("whole map: {} KiB, encoded in {}", encoded.len() >> 10, ms(took));
    let (decoded, took) = timed(|| OsdMap::from_slice(&encoded).expect("just encoded"));
    println!("decoded in {}", ms(took));
    assert_eq!(decoded.epoch, map.epoch);
    let before_bytes = resident_bytes();
    let (mut mapping, took) = timed(|| PgMapping::compute(&map));
    println!(
        "all groups placed in {}: {:.2} us each; {} MiB of memory",
        ms(took),
        took.as_secs_f64() * 1e6 / f64::from(pgs),
        resident_bytes().saturating_sub(before_bytes) >> 20
    );
    assert!(mapping.errors().is_empty());
    let (mine, took) = timed(|| mapping.acting_on(OsdId(0)).count());
    println!("{mine} groups of one OSD found in {}", ms(took));
    let changes: [(&str, Change); 4] = [
        ("an OSD goes down", |inc| inc.mark_down(OsdId(7))),
        ("it is out", |inc| inc.mark_out(OsdId(7))),
        ("a group gets a temporary acting set", |inc| {
            let group = PgId { pool: PoolId(1), seed: 3 };
            inc.new_pg_temp.insert(group, vec![OsdId(1), OsdId(2), OsdId(3)].into());
        }),
        ("a client is blocklisted", |inc| {
            inc.new_blocklist.insert("v2:10.0.0.1:0/5".parse().expect("an address"), stamp(900));
        }),
    ];
    for (what, change) in changes {
        let mut inc = Incremental::after(&map, stamp(map.epoch.0));
        change(&mut inc);
        let before = map.clone();
        let (_, applied) = timed(|| map.apply(&inc).expect("it follows"));
        let (computed, followed) = timed(|| mapping.follow(&before, &map));
        let bytes = inc.to_vec(Target::PACIFIC).len();
        println!(
            "{what}: {bytes} bytes, applied in {}, groups followed in {} ({computed} by CRUSH)",
            ms(applied),
            ms(followed)
        );
    }
    comes_in(&mut map, mapping);
    println!("{} MiB of memory in all", resident_bytes() >> 20);
}

/// Measures an OSD that is out and comes in: CRUSH has to place every group, in as many turns as that takes.
fn comes_in(map: &mut OsdMap, mapping: PgMapping) {
    let mut inc = Incremental::after(map, stamp(map.epoch.0));
    inc.new_weight.insert(OsdId(7), 0x10000);
    let before = map.clone();
    map.apply(&inc).expect("it follows");
    let mut turns = Vec::new();
    let (mut update, took) = timed(|| MappingUpdate::begin(mapping, &before, map));
    turns.push(took);
    loop {
        let (is_done, took) = timed(|| update.step(&before, map, &mut { MappingUpdate::TEN_MS }));
        turns.push(took);
        if is_done {
            break;
        }
    }
    let longest = turns.iter().max().copied().unwrap_or_default();
    let all = turns.iter().sum();
    println!("an OSD comes in: {} turns, the longest {}, in all {}", turns.len(), ms(longest), ms(all));
}

fn stamp(sec: u32) -> Utime {
    Utime { sec: 1_795_000_000 + sec, nsec: 0 }
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}

fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
    text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number") * 4096
}

fn first_map(osds: u32, pgs: u32) -> OsdMap {
    let mut crush = CrushMap::new();
    for osd in 0..osds {
        let (host, rack) = (osd / OSDS_PER_HOST, osd / OSDS_PER_HOST / HOSTS_PER_RACK);
        let (host, rack) = (format!("host{host}"), format!("rack{rack}"));
        let location = Location::from([("root", "default"), ("rack", &rack), ("host", &host)]);
        crush.insert_item(osd as i32, WEIGHT_ONE, &format!("osd.{osd}"), &location).expect("it is new");
        crush.set_device_class(osd as i32, "ssd").expect("it is there");
    }
    crush.create_replicated_rule("replicated_rule", "default", "host", None).expect("there is a root");
    let mut map = OsdMap::new(Fsid::from_random([7; 16]));
    let mut inc = Incremental::after(&map, stamp(1));
    inc.new_max_osd = Some(osds as i32);
    inc.set_crush(&crush);
    for osd in (0..osds as i32).map(OsdId) {
        let addrs = |offset: u32| -> EntityAddrVec {
            let (n, port) = (osd.0 as u32, 6800 + offset);
            format!("[v2:10.{}.{}.{}:{port}/77]", n / 65536, n / 256 % 256, n % 256).parse().expect("an address")
        };
        inc.new_weight.insert(osd, 0x10000);
        inc.new_uuid.insert(osd, Fsid::from_random([osd.0 as u8; 16]));
        inc.mark_up(osd, addrs(0), addrs(1), addrs(2), addrs(3));
    }
    let pools = pgs.div_ceil(PGS_PER_POOL_MAX);
    inc.new_pool_max = Some(i64::from(pools));
    for n in 0..pools {
        let id = PoolId(i64::from(n) + 1);
        inc.new_pool_names.insert(id, format!("pool{n}"));
        inc.new_pools.insert(id, PgPool::replicated(3, pgs / pools, 0));
    }
    map.apply(&inc).expect("the first");
    map
}
