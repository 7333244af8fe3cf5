//! What checkpoints write, and that everything comes back from the tree.

use super::harness::{Bench, KIB, config, object, open, ready, txn, write};
use crate::OpenError;
use crate::allocator::Run;
use crate::btree::PageCache;
use crate::checkpoint::CACHE_BYTES;
use crate::tree_key::TABLE_KEY_BYTES_MAX;
use crate::{IoRequest, Step, StoreConfig, SubmitError};
use bytes::Bytes;
use types::{ObjectId, PoolId};

fn roomy() -> StoreConfig {
    StoreConfig { device_bytes: 256 << 20, wal_bytes: 8 << 20, ..config() }
}

/// Makes a checkpoint; returns bytes written meanwhile.
fn checkpoint(bench: &mut Bench) -> u64 {
    bench.store.checkpoint();
    let mut written = 0;
    while !bench.store.is_idle() {
        bench.store.end_turn();
        while let Some(request) = bench.store.poll_io() {
            if let IoRequest::Write { data, .. } = &request {
                written += data.len() as u64;
            }
            bench.device.submit(request);
        }
        bench.complete_some();
        bench.events();
    }
    written
}

#[test]
fn a_checkpoint_writes_what_changed_and_not_the_rest() {
    let mut bench = Bench::with(roomy(), 4);
    for n in 0..3000 {
        let steps = vec![
            write(n, 0, vec![1; 5000]),
            Step::SetAttr { object: object(n), name: b"_".to_vec(), value: vec![2; 200].into() },
        ];
        bench.submit(txn(steps)).unwrap();
        if n % 50 == 0 {
            bench.settle();
        }
    }
    bench.settle();
    checkpoint(&mut bench);
    let tree = bench.store.checkpoint.tree_blocks * 4 * KIB;
    assert!(tree > 900 * KIB, "{tree} bytes of tree");
    bench.submit(txn(vec![write(77, 100, "changed")])).unwrap();
    bench.settle();
    let written = checkpoint(&mut bench);
    // A path to the object, one to its segment, the root.
    assert!(written <= 64 * KIB, "{written} bytes written for one change");
    assert!(bench.store.blocks_add_up());
    bench.reopen(bench.device.after_crash(&mut || 0));
}

#[test]
fn large_attributes_and_omap_values_come_back() {
    let mut bench = Bench::with(roomy(), 5);
    for n in 0..10 {
        let attr =
            |i: u8| Step::SetAttr { object: object(n), name: vec![i], value: vec![i ^ n as u8; 64 << 10].into() };
        let entries = (0..4u8).map(|i| (Bytes::from(vec![i; 300]), Bytes::from(vec![i; 700_000]))).collect();
        bench.submit(txn(vec![attr(1), attr(2), attr(3), Step::OmapSet { object: object(n), entries }])).unwrap();
        bench.settle();
        checkpoint(&mut bench);
    }
    bench.submit(txn(vec![Step::Remove { object: object(3) }, Step::OmapClear { object: object(4) }])).unwrap();
    bench.submit(txn(vec![Step::Clone { from: object(5), to: object(50) }])).unwrap();
    bench.settle();
    checkpoint(&mut bench);
    bench.check_all();
    let (store, ..) = bench.reopen(bench.device.after_crash(&mut || 0));
    assert_eq!(store.wal.used_bytes(), 0);
}

#[test]
fn objects_with_far_apart_blocks_come_back() {
    let mut bench = Bench::with(roomy(), 6);
    for n in 0..5 {
        for at in [0, 40, 1 << 20, 5 << 20, 12 << 20] {
            bench.submit(txn(vec![write(n, at, vec![n as u8 + 1; 3000])])).unwrap();
        }
        bench.settle();
        checkpoint(&mut bench);
    }
    // All segments of one go, some of another.
    bench.submit(txn(vec![Step::Truncate { object: object(1), size: 0 }])).unwrap();
    bench.submit(txn(vec![Step::Zero { object: object(2), offset: 4096, len: 6 << 20 }])).unwrap();
    bench.settle();
    checkpoint(&mut bench);
    bench.reopen(bench.device.after_crash(&mut || 0));
}

#[test]
fn keys_that_are_too_long_are_refused() {
    let mut bench = Bench::new(7);
    let named = |len: usize| ObjectId::head(PoolId(1), 5, b"space", &vec![b'n'; len]);
    let refused = |bytes| Err(SubmitError::KeyTooLong { bytes, bytes_max: TABLE_KEY_BYTES_MAX });
    // The longest that Ceph has, and the longest of all.
    assert!(bench.submit(txn(vec![Step::Touch { object: named(2048) }])).is_ok());
    let rest = crate::key::object_key(&named(0)).len();
    assert!(bench.submit(txn(vec![Step::Touch { object: named(TABLE_KEY_BYTES_MAX - rest) }])).is_ok());
    let result = bench.submit(txn(vec![Step::Touch { object: named(TABLE_KEY_BYTES_MAX - rest + 1) }]));
    assert_eq!(result.map(drop), refused(TABLE_KEY_BYTES_MAX + 1));
    let omap = |len: usize| Step::OmapSet { object: object(1), entries: vec![(vec![b'k'; len].into(), "".into())] };
    assert!(bench.submit(txn(vec![omap(TABLE_KEY_BYTES_MAX - 8)])).is_ok());
    assert_eq!(bench.submit(txn(vec![omap(TABLE_KEY_BYTES_MAX - 7)])).map(drop), refused(TABLE_KEY_BYTES_MAX + 1));
    let table = |len: usize| Step::PgSet { key: vec![b'k'; len].into(), value: "".into() };
    assert!(bench.submit(txn(vec![table(TABLE_KEY_BYTES_MAX - 12)])).is_ok());
    assert_eq!(bench.submit(txn(vec![table(TABLE_KEY_BYTES_MAX)])).map(drop), refused(TABLE_KEY_BYTES_MAX + 12));
    bench.settle();
    checkpoint(&mut bench);
    bench.check_all();
    bench.reopen(bench.device.after_crash(&mut || 0));
    assert!(ready(bench.store.stat(&named(2048))).is_some());
}

/// Makes blocks of the tree unusable, and forgets what of it is in memory.
fn ruin(bench: &mut Bench, runs: &[Run]) {
    for run in runs {
        match bench.random.chance(2) {
            true => bench.device.corrupt(run.offset_bytes() + 100, 1),
            false => bench.device.make_unreadable(run.offset_bytes()),
        }
    }
    bench.store.checkpoint.cache = PageCache::new(bench.store.checkpoint.cache.tag(), CACHE_BYTES);
}

fn is_of_the_tree(error: &OpenError) -> bool {
    matches!(error, OpenError::DamagedTree(_) | OpenError::Device { .. })
}

/// All pages of a small tree, while work goes on.
#[test]
fn a_tree_that_cannot_be_read_is_made_anew() {
    let mut anew = 0;
    for seed in 0..40 {
        let mut bench = Bench::new(seed);
        (0..30).for_each(|_| bench.turn());
        bench.settle();
        checkpoint(&mut bench);
        let old = bench.tree_runs();
        ruin(&mut bench, &old);
        if seed % 3 > 0 {
            // More than the log takes: only a checkpoint makes it durable, and all that comes while that begins anew.
            let entries = vec![(b"large".as_slice().into(), vec![seed as u8; 70_000].into())];
            bench.submit(txn(vec![Step::OmapSet { object: object(1), entries }])).unwrap();
        } else {
            bench.submit(txn(vec![Step::Touch { object: object(1) }])).unwrap();
            bench.store.checkpoint();
        }
        for _ in 0..60 {
            bench.turn();
            anew += u64::from(bench.store.checkpoint.is_anew());
            assert!(bench.store.blocks_add_up());
            let mut random = bench.random.clone();
            let mut device = bench.device.after_crash(&mut || random.next());
            match open(&mut device, &bench.config) {
                Ok(_) => drop(bench.reopen(device)),
                Err(error) => assert!(is_of_the_tree(&error), "seed {seed}: {error}"),
            }
        }
        bench.settle();
        checkpoint(&mut bench);
        bench.check_all();
        let (store, ..) = bench.reopen(bench.device.after_crash(&mut || 0));
        assert_eq!(store.wal.used_bytes(), 0);
    }
    assert!(anew > 40, "{anew} turns with a checkpoint that began anew");
}

/// One page of a larger tree. What only it refers to stays unused until the store is opened again.
#[test]
fn a_page_that_cannot_be_read_costs_no_entry() {
    for seed in 0..16 {
        let mut bench = Bench::with(roomy(), seed);
        let set = |bench: &mut Bench, n: u64, value: u8, len: usize| {
            let value = vec![value; len].into();
            bench.submit(txn(vec![Step::SetAttr { object: object(n), name: b"_".to_vec(), value }])).unwrap();
        };
        (0..300).for_each(|n| set(&mut bench, n, 1, 300));
        (0..20).for_each(|n| set(&mut bench, n * 15, 2, 20_000));
        bench.settle();
        checkpoint(&mut bench);
        let runs = bench.tree_runs();
        let one = runs[bench.random.below(runs.len() as u64) as usize];
        ruin(&mut bench, &[one]);
        (0..300).for_each(|n| set(&mut bench, n, 3, 300));
        bench.settle();
        checkpoint(&mut bench);
        bench.check_all();
        let (store, device, _) = bench.reopen(bench.device.after_crash(&mut || 0));
        assert!(store.free_blocks() >= bench.store.free_blocks());
        let mut bench = Bench::on(bench.config.clone(), store, device, bench.model.clone(), bench.random.clone());
        (0..300).for_each(|n| set(&mut bench, n, 4, 100));
        bench.settle();
        checkpoint(&mut bench);
        bench.check_all();
    }
}
