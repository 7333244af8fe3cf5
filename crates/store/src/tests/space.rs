//! Space: counted exactly, refused before anything happens, always enough to delete.

use super::harness::{Bench, KIB, config, object, txn, write};
use crate::{IoRequest, Step, StoreConfig, SubmitError};

#[test]
fn usage_counts_what_is_there() {
    let mut bench = Bench::new(1);
    let empty = bench.store.usage();
    assert_eq!((empty.data_bytes, empty.stored_bytes, empty.objects), (0, 0, 0));
    assert_eq!(empty.total_bytes, 4 << 20);
    bench.submit(txn(vec![write(1, 0, vec![1; 10_000]), write(2, 100 * KIB, vec![1; 1])])).unwrap();
    bench.submit(txn(vec![Step::Clone { from: object(1), to: object(3) }, write(3, 0, vec![2; 4096])])).unwrap();
    bench
        .submit(txn(vec![Step::OmapSet { object: object(1), entries: vec![("key".into(), "value".into())] }]))
        .unwrap();
    bench.settle();
    let usage = bench.store.usage();
    // Three blocks of the first object, one of the second, and one that the clone no longer shares.
    assert_eq!(usage.data_bytes, 5 * 4096);
    assert_eq!(usage.stored_bytes, 10_000 + 100 * KIB + 1 + 10_000);
    assert_eq!((usage.omap_bytes, usage.objects), (8, 3));
    assert_eq!(usage.total_bytes, usage.free_bytes + usage.data_bytes + usage.metadata_bytes);
    bench.submit(txn((1..4).map(|n| Step::Remove { object: object(n) }).collect())).unwrap();
    bench.settle();
    // Changes in no checkpoint yet take room too, and the next checkpoint tells how much of an omap is gone.
    let usage = bench.store.usage();
    assert_eq!((usage.objects, usage.data_bytes, usage.stored_bytes), (0, 0, 0));
    assert_eq!(usage.total_bytes, usage.free_bytes + usage.metadata_bytes);
    bench.store.checkpoint();
    bench.settle();
    assert_eq!(bench.store.usage(), empty);
}

/// Fills the store with objects from number `from` on until it refuses; returns the number of the first refused.
fn fill_from(bench: &mut Bench, from: u64) -> u64 {
    for n in from.. {
        match bench.submit(txn(vec![write(n, 0, vec![n as u8; 20_000])])) {
            Ok(_) => {}
            Err(SubmitError::NoSpace { .. }) => {
                assert!(bench.ask(|store| store.stat(&object(n))).is_none(), "a refused write leaves nothing");
                return n;
            }
            Err(error) => panic!("{error}"),
        }
        if n % 7 == 0 {
            bench.settle();
        }
    }
    unreachable!("some write is refused")
}

/// Fills an empty store; returns the number of objects that fit.
fn fill(bench: &mut Bench) -> u64 {
    let refused = fill_from(bench, 0);
    // The first refusal asks for the record that makes the last freed blocks usable.
    bench.settle();
    let objects = fill_from(bench, refused);
    bench.settle();
    objects
}

#[test]
fn a_full_store_refuses_writes_takes_deletes_and_goes_on() {
    let mut bench = Bench::new(1);
    let mut objects = fill(&mut bench);
    assert!(objects > 150, "{objects} objects of 20 KiB on 4 MiB");
    bench.settle();
    for round in 0..5 {
        // A group's log grows with each delete; partial zeroing needs blocks of its own.
        for n in 0..objects {
            let key = format!("log-{round}-{n}");
            let log = Step::PgSet { key: key.into(), value: vec![0; 50].into() };
            let cut = Step::Truncate { object: object(n), size: 9000 };
            bench.submit(txn(vec![log, Step::Zero { object: object(n), offset: 10, len: 5000 }, cut])).unwrap();
            bench.submit(txn(vec![Step::Remove { object: object(n) }])).unwrap();
            if n % 5 == 0 {
                bench.settle();
            }
        }
        bench.submit(txn(vec![Step::PgRemoveRange { begin: "".into(), end: "z".into() }])).unwrap();
        bench.settle();
        assert_eq!(bench.store.usage().data_bytes, 0);
        // The last checkpoint's size depends on the time when it was made.
        let again = fill(&mut bench);
        assert!(again.abs_diff(objects) <= 2, "round {round}: {objects} objects fitted once, now {again}");
        objects = again;
        bench.settle();
    }
    bench.check_all();
    bench.reopen(bench.device.after_crash(&mut || 0));
}

#[test]
fn overwriting_a_nearly_full_store_goes_on_for_ever() {
    let mut bench = Bench::new(1);
    let objects = fill(&mut bench) - 3;
    bench.submit(txn((objects..objects + 3).map(|n| Step::Remove { object: object(n) }).collect())).unwrap();
    bench.settle();
    let mut refused = 0;
    for n in 0..3000 {
        let offset = bench.random.below(4) * 4096;
        if bench.submit(txn(vec![write(n % objects, offset, vec![n as u8; 4096])])).is_err() {
            refused += 1;
        }
        bench.settle();
    }
    // The blocks freed last are usable one record later, which the first refusal asks for.
    assert!(refused <= 1, "{refused}");
    bench.check_all();
}

#[test]
fn large_freed_runs_are_given_back_to_the_device_and_never_while_in_use() {
    let config = StoreConfig { device_bytes: 64 << 20, wal_bytes: 1 << 20, ..config() };
    let mut bench = Bench::with(config, 2);
    for n in 0..8 {
        bench.submit(txn(vec![write(n, 0, vec![n as u8 + 1; 4 << 20])])).unwrap();
    }
    bench.settle();
    bench.submit(txn((0..6).map(|n| Step::Remove { object: object(n) }).collect())).unwrap();
    bench.settle();
    bench.store.checkpoint();
    let mut discarded = 0;
    while !bench.store.is_idle() {
        bench.store.end_turn();
        while let Some(request) = bench.store.poll_io() {
            if let IoRequest::Discard { len, .. } = &request {
                discarded += len;
            }
            bench.device.submit(request);
        }
        bench.complete_some();
        bench.events();
    }
    assert!(discarded >= 23 << 20, "{discarded} bytes of 24 MiB");
    bench.check_all();
    let mut random = bench.random.clone();
    bench.reopen(bench.device.after_crash(&mut || random.next()));
}

/// Small writes into a sparse file go where zeros were written before; large ones go elsewhere; no block is lost, and a
/// full store gives all of its blocks.
#[test]
fn small_writes_find_blocks_prepared() {
    let config = StoreConfig { device_bytes: 20 << 20, wal_bytes: 1 << 20, ..config() };
    let mut bench = Bench::with(config, 2);
    bench.store.prepare_ahead_by(256);
    bench.settle();
    assert_eq!(bench.store.allocator.ready_blocks(), 256);
    let mut fresh = 0;
    for n in 0..300 {
        let prepared = bench.store.allocator.high_water();
        bench.submit(txn(vec![write(n, 0, vec![n as u8; 4096])])).unwrap();
        fresh += u32::from(bench.store.allocator.high_water() > prepared);
        bench.settle();
    }
    assert_eq!(fresh, 0, "of 300 writes");
    let ready = bench.store.allocator.ready_blocks();
    bench.submit(txn(vec![write(1000, 0, vec![1; 3 << 20])])).unwrap();
    assert_eq!(bench.store.allocator.ready_blocks(), ready, "a large write leaves them alone");
    bench.settle();
    let usage = bench.store.usage();
    assert_eq!(usage.total_bytes, usage.free_bytes + usage.data_bytes + usage.metadata_bytes);
    // The request takes more blocks than are free apart from the prepared ones.
    fill(&mut bench);
    assert_eq!(bench.store.allocator.ready_blocks(), 0);
    bench.check_all();
    bench.reopen(bench.device.after_crash(&mut || 0));
}

#[test]
fn a_store_with_nothing_to_do_gives_back_what_was_freed() {
    let config = StoreConfig { device_bytes: 64 << 20, wal_bytes: 1 << 20, ..config() };
    let mut bench = Bench::with(config, 2);
    bench.submit(txn((0..4).map(|n| write(n, 0, vec![n as u8 + 1; 4 << 20])).collect())).unwrap();
    bench.settle();
    bench.submit(txn((0..4).map(|n| Step::Remove { object: object(n) }).collect())).unwrap();
    let mut discarded = 0;
    for tick in 0..20 {
        bench.store.tick();
        for _ in 0..50 {
            bench.store.end_turn();
            while let Some(request) = bench.store.poll_io() {
                if let IoRequest::Discard { len, .. } = &request {
                    assert!(tick >= 5, "not before it has been idle for a while");
                    discarded += len;
                }
                bench.device.submit(request);
            }
            bench.complete_some();
            bench.events();
        }
    }
    assert_eq!(discarded, 16 << 20);
    bench.check_all();
}
