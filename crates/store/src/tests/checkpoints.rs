//! The writes of checkpoints, and the return of everything from the tree.

use super::harness::{Bench, KIB, ask, config, object, open, txn, write};
use crate::OpenError;
use crate::btree::PageCache;
use crate::disk::tree_key::TABLE_KEY_BYTES_MAX;
use crate::space::run::Run;
use crate::{IoRequest, Step, StopReason, StoreConfig, SubmitError};
use bytes::Bytes;
use types::{ObjectId, PoolId};

fn roomy() -> StoreConfig {
    StoreConfig { device_bytes: 256 << 20, wal_bytes: 8 << 20, ..config() }
}

/// Makes a checkpoint; returns the bytes written meanwhile.
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
    bench.store.set_memory(crate::Memory::default());
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
    // The checkpoint writes a path to the object, one to its segment, and the root.
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
    // All segments of one object go, and some of another.
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
    // Names are Ceph's longest, and the longest possible.
    assert!(bench.submit(txn(vec![Step::Touch { object: named(2048) }])).is_ok());
    let rest = crate::disk::key::object_key(&named(0)).len();
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
    assert!(bench.ask(|store| store.stat(&named(2048))).is_some());
}

/// Makes a block of the tree unusable, or usable again, and forgets the pages in memory.
fn flip(bench: &mut Bench, run: Run) {
    bench.device.corrupt(run.offset_bytes() + 100, 1);
    let state = &mut bench.store.state;
    state.cache = PageCache::new(state.cache.tag(), 1 << 20);
    state.onodes.set_budget(0);
    state.onodes.trim(|_| false);
    state.onodes.set_budget(1 << 20);
}

/// Checks that a page which a checkpoint needs and cannot read stops the store. Nothing is lost: acknowledged changes
/// are in the log.
#[test]
fn a_checkpoint_that_meets_a_damaged_page_stops_the_store() {
    let mut stopped = 0;
    for seed in 0..40 {
        let mut bench = Bench::new(seed);
        (0..30).for_each(|_| bench.turn());
        bench.settle();
        checkpoint(&mut bench);
        let Some(root) = bench.store.state.root else { continue };
        let page = root.page().run();
        flip(&mut bench, page);
        bench.may_fail = true;
        bench.submit(txn(vec![Step::PgSet { key: "key".into(), value: vec![seed as u8].into() }])).unwrap();
        bench.store.checkpoint();
        for _ in 0..40 {
            bench.turn();
        }
        let reason = bench.failed.clone().expect("the store stops");
        let (StopReason::CheckpointDamage(damage) | StopReason::TransactionDamage(damage)) = &reason else {
            panic!("{reason}")
        };
        assert_eq!(damage.run.start, page.start, "{reason}");
        assert!(matches!(bench.submit(txn(vec![])), Err(SubmitError::Stopped(_))));
        stopped += 1;
        let mut random = bench.random.clone();
        let mut device = bench.device.after_crash(&mut || random.next());
        assert!(open(&mut device, &bench.config).is_err_and(|error| is_of_the_tree(&error)));
        device.corrupt(page.offset_bytes() + 100, 1);
        bench.reopen(device);
    }
    assert!(stopped > 20, "{stopped} stopped");
}

fn is_of_the_tree(error: &OpenError) -> bool {
    matches!(error, OpenError::DamagedTree(_) | OpenError::Device { .. })
}

/// Checks that lookups that meet a damaged page report it, and that all others are answered.
#[test]
fn a_damaged_page_of_objects_is_an_error_for_those_objects_alone() {
    let mut damaged = 0;
    for seed in 0..6 {
        let mut bench = Bench::with(roomy(), seed);
        for n in 0..300 {
            let value = vec![n as u8; 300].into();
            bench.submit(txn(vec![Step::SetAttr { object: object(n), name: b"_".to_vec(), value }])).unwrap();
        }
        bench.settle();
        checkpoint(&mut bench);
        let runs = bench.tree_runs();
        let one = runs[bench.random.below(runs.len() as u64) as usize];
        let page = Run { start: one.start, count: 2 };
        if page == bench.store.state.root.unwrap().page().run() {
            continue;
        }
        flip(&mut bench, page);
        let mut here = 0;
        for n in 0..300 {
            match ask(&mut bench.store, &mut bench.device, |store| store.stat(&object(n))) {
                Ok(stat) => assert_eq!(stat.unwrap().attrs.get(b"_").unwrap()[..], [n as u8; 300]),
                Err(damage) => {
                    assert_eq!(damage.run, page);
                    here += 1;
                }
            }
        }
        assert!((1..100).contains(&here), "{here} objects on one page");
        damaged += here;
        let list =
            ask(&mut bench.store, &mut bench.device, |store| store.list(&ObjectId::min(), &ObjectId::max(), 300));
        assert_eq!(list.map_err(|damage| damage.run), Err(page));
        flip(&mut bench, page);
        bench.check_all();
    }
    assert!(damaged > 0);
}
