//! A store takes everything that it has reported room for.

use super::harness::{Bench, config, object, txn, write};
use crate::{Step, StoreConfig, growth_bytes};

fn some_steps(bench: &mut Bench, objects: u64) -> Vec<Step> {
    let n = bench.random.below(objects);
    let (offset, len) = (bench.random.below(40_000), 1 + bench.random.below(30_000) as usize);
    let data = bench.random.bytes(len);
    match bench.random.below(6) {
        0 => vec![Step::SetAttr {
            object: object(n),
            name: b"a".to_vec(),
            value: data[..data.len().min(3000)].to_vec().into(),
        }],
        1 => vec![
            write(n, 0, data[..data.len().min(700)].to_vec()),
            Step::PgSet { key: data[..1].to_vec().into(), value: vec![7; 300].into() },
        ],
        2 if n > 0 => {
            vec![
                Step::Touch { object: object(0) },
                Step::Clone { from: object(0), to: object(n) },
                write(n, offset, data),
            ]
        }
        _ => vec![write(n, offset, data)],
    }
}

/// Promises are kept until there is no room for even a small write, however they are mixed.
fn check(config: StoreConfig, seed: u64) {
    let mut bench = Bench::with(config, seed);
    let (mut objects, mut taken) = (20, 0);
    let least = growth_bytes(&[write(0, 0, vec![1; 4096])]);
    for round in 0.. {
        assert!(round < 10_000, "never full");
        let room = bench.store.room_bytes();
        let share = room / (1 + bench.random.below(4));
        let (mut promised, mut waiting) = (0, Vec::new());
        while waiting.len() < 12 {
            let steps = some_steps(&mut bench, objects);
            promised += growth_bytes(&steps);
            if promised > share {
                break;
            }
            waiting.push(steps);
        }
        for steps in waiting {
            taken += 1;
            bench.submit_owed(txn(steps));
            if bench.random.chance(3) {
                bench.store.end_turn();
                bench.pump();
                bench.complete_some();
                bench.events();
            }
        }
        if bench.random.chance(3) {
            bench.settle();
        }
        objects += bench.random.below(3);
        if room < least {
            bench.settle();
            if bench.store.room_bytes() < least {
                break;
            }
        }
    }
    assert!(taken > 40, "{taken}");
    bench.settle();
    for n in 0..objects {
        // Deletes find room whatever was promised.
        bench.submit(txn(vec![Step::Remove { object: object(n) }])).unwrap();
        bench.settle();
    }
    bench.store.checkpoint();
    bench.settle();
    assert!(bench.store.room_bytes() > 20 * least, "there is room again");
    bench.check_all();
}

#[test]
fn what_there_is_room_for_is_taken() {
    for seed in 0..4 {
        check(StoreConfig { device_bytes: 6 << 20, ..config() }, seed);
    }
}

#[test]
fn also_where_metadata_has_a_device_of_its_own() {
    for seed in 0..3 {
        check(StoreConfig { device_bytes: 6 << 20, metadata_device_bytes: Some(2 << 20), ..config() }, seed);
    }
}

#[test]
fn what_stores_nothing_new_needs_no_room() {
    let log = Step::PgSet { key: "log".into(), value: vec![0; 100].into() };
    assert_eq!(growth_bytes(&[Step::Remove { object: object(1) }, log]), 0);
    assert!(growth_bytes(&[write(1, 0, vec![1; 4 << 20])]) < (4 << 20) + (256 << 10));
}

/// Much of the tree was about to change, and much was set aside for it; then that was over, and there is little room.
#[test]
fn no_more_is_set_aside_beyond_what_is_wanted_than_is_free() {
    let mut bench = Bench::with(StoreConfig { device_bytes: 8 << 20, wal_bytes: 2 << 20, ..config() }, 1);
    let change_all = |bench: &mut Bench, byte: u8| {
        for n in 0..2000 {
            let key = format!("key{n:06}").into_bytes();
            bench.submit(txn(vec![Step::PgSet { key: key.into(), value: vec![byte; 200].into() }])).unwrap();
            if n % 50 == 0 {
                bench.settle();
            }
        }
    };
    change_all(&mut bench, 1);
    bench.store.checkpoint();
    bench.settle();
    change_all(&mut bench, 2);
    for n in 0.. {
        if bench.store.room_bytes() < 200 << 10 {
            break;
        }
        bench.submit(txn(vec![write(n, 0, vec![n as u8; 30_000])])).unwrap();
        bench.settle();
    }
    bench.store.checkpoint();
    bench.settle();
    let store = &bench.store;
    let (aside, wanted) = (store.metadata.blocks(), store.metadata_blocks_wanted());
    let free = u64::from(store.allocator.free_blocks());
    assert!(aside >= wanted && aside - wanted <= free, "{aside} of {wanted} wanted, {free} free");
}
