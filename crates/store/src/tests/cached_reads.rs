//! Data that was read stays in memory as long as objects hold it.

use super::harness::{Bench, contents, finish, object, read, txn, write};
use crate::metadata::jobs::CopyRules;
use crate::{Lookup, ReadError, Step};
use types::BLOCK_BYTES;

/// Makes a store with one settled object of four blocks and an empty block cache.
fn settled() -> Bench {
    let mut bench = Bench::new(1);
    bench.submit(txn(vec![write(1, 0, vec![9; 4 * BLOCK_BYTES])])).unwrap();
    bench.settle();
    bench.store.set_block_cache_bytes(0);
    bench.store.set_block_cache_bytes(1 << 20);
    bench
}

#[test]
fn what_was_read_is_read_from_memory_and_goes_with_its_blocks() {
    let mut bench = settled();
    let empty = bench.store.block_cache_stats();
    assert_eq!((empty.hits, empty.misses), (0, 0));
    assert_eq!(read(&mut bench.store, &mut bench.device, &object(1), 0, 16_384).unwrap().to_vec(), vec![9; 16_384]);
    let Lookup::Ready(data) = bench.store.read(&object(1), 5000, 7000) else { panic!("not in memory") };
    assert_eq!(data.to_vec(), vec![9; 7000]);
    let stats = bench.store.block_cache_stats();
    assert_eq!((stats.hits, stats.misses, stats.hit_bytes, stats.miss_bytes), (1, 1, 8192, 16_384));
    assert!(stats.bytes > empty.bytes + 16_384);
    // A clone shares blocks, and so the cached data. A clone of a small object does not wait for a turn.
    bench.store.state.copy_rules = CopyRules::default();
    bench.submit(txn(vec![Step::Clone { from: object(1), to: object(2) }, write(1, 4096, vec![7; 4096])])).unwrap();
    assert!(matches!(bench.store.read(&object(2), 0, 16_384), Lookup::Ready(_)));
    bench.settle();
    let expected = [vec![9; 4096], vec![7; 4096], vec![9; 8192]].concat();
    assert_eq!(read(&mut bench.store, &mut bench.device, &object(1), 0, 16_384).unwrap().to_vec(), expected);
    assert!(matches!(bench.store.read(&object(2), 4096, 1), Lookup::Ready(_)));
    // Once the last holder is gone and the blocks are free, nothing is left in the cache.
    bench.submit(txn(vec![Step::Remove { object: object(1) }, Step::Remove { object: object(2) }])).unwrap();
    bench.submit(txn(vec![Step::Touch { object: object(3) }])).unwrap();
    bench.settle();
    bench.submit(txn(vec![Step::Touch { object: object(3) }])).unwrap();
    bench.store.checkpoint();
    bench.settle();
    assert_eq!(bench.store.block_cache_stats().bytes, empty.bytes);
}

#[test]
fn damaged_blocks_are_read_again_and_again() {
    let mut bench = settled();
    let at = bench.store.placement(&object(1), 0, 1);
    let Lookup::Ready(at) = at else { panic!("placements are in memory") };
    bench.device.corrupt(at[0].device_offset + 77, 1);
    for misses in 0..3 {
        let error = read(&mut bench.store, &mut bench.device, &object(1), 0, 16_384).unwrap_err();
        assert!(matches!(error, ReadError::Checksum { object_offset: 0, .. }));
        assert_eq!(bench.store.block_cache_stats().misses, misses);
        // The sound blocks beside it may stay.
        read(&mut bench.store, &mut bench.device, &object(1), 4096 * (1 + misses), 4096).unwrap();
    }
    assert_eq!(bench.store.block_cache_stats().misses, 3);
}

#[test]
fn what_is_verified_comes_from_the_device() {
    let mut bench = settled();
    let empty = bench.store.block_cache_stats();
    let sound = finish(&mut bench.store, &mut bench.device, |store| store.verify(&object(1), 0, 16_384));
    assert_eq!(sound.unwrap().to_vec(), vec![9; 16_384]);
    assert_eq!(bench.store.block_cache_stats(), empty, "it is not kept");
    read(&mut bench.store, &mut bench.device, &object(1), 0, 16_384).unwrap();
    assert!(matches!(bench.store.read(&object(1), 0, 16_384), Lookup::Ready(_)));
    let Lookup::Ready(at) = bench.store.placement(&object(1), 0, 1) else { panic!("placements are in memory") };
    bench.device.corrupt(at[0].device_offset + 5000, 1);
    let verified = finish(&mut bench.store, &mut bench.device, |store| store.verify(&object(1), 0, 16_384));
    assert!(matches!(verified, Err(ReadError::Checksum { object_offset: 4096, .. })), "{verified:?}");
}

#[test]
fn histories_read_from_small_caches_are_what_they_are_without() {
    let mut hits = 0;
    for seed in 0..12 {
        let mut bench = Bench::new(seed);
        bench.store.set_block_cache_bytes((16 << 10) << (seed % 6));
        for _ in 0..120 {
            bench.turn();
        }
        bench.settle();
        bench.check_all();
        // All is read again, now that much is in memory.
        assert_eq!(contents(&mut bench.store, &mut bench.device), bench.model);
        let stats = bench.store.block_cache_stats();
        assert!(stats.bytes <= (16 << 10) << (seed % 6) && stats.misses > 0);
        hits += stats.hits;
    }
    assert!(hits > 300, "{hits} hits");
}
