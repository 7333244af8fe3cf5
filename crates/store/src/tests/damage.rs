//! Damage of media is never returned as data and never hidden.

use super::harness::{Bench, ask, object, open, read, txn, write};
use crate::disk::numbers::WAL_OFFSET;
use crate::{Device, IoRequest, Lookup, OpenError, ReadError, Step, StoreEvent};
use types::BLOCK_BYTES;

/// Makes a store with one settled object of `blocks` blocks; returns the device offset of the first.
fn settled(blocks: usize) -> (Bench, u64) {
    let mut bench = Bench::new(1);
    bench.submit(txn(vec![write(1, 0, vec![9; blocks * BLOCK_BYTES])])).unwrap();
    bench.settle();
    let Lookup::Pending(_) = bench.store.read(&object(1), 0, 1) else { panic!("blocks are not cached") };
    let Some(IoRequest::Read { offset, .. }) = bench.store.poll_io() else { panic!("a read") };
    let (store, device, _) = bench.reopen(bench.device.after_crash(&mut || 0));
    let bench = Bench::on(bench.config.clone(), store, device, bench.model.clone(), bench.random.clone());
    (bench, offset)
}

#[test]
fn a_rotten_block_is_an_error_that_names_it_and_its_neighbours_still_read() {
    let (mut bench, at) = settled(4);
    bench.device.corrupt(at + 2 * 4096 + 77, 0x10);
    let error = read(&mut bench.store, &mut bench.device, &object(1), 100, 16_000).unwrap_err();
    let expected = ReadError::Checksum { object: object(1), object_offset: 8192, device_offset: at + 8192 };
    assert_eq!(error, expected);
    assert_eq!(read(&mut bench.store, &mut bench.device, &object(1), 0, 8192).unwrap().to_vec(), vec![9; 8192]);
    assert_eq!(read(&mut bench.store, &mut bench.device, &object(1), 12_288, 9).unwrap().to_vec(), vec![9; 9]);
    bench.device.make_unreadable(at);
    let error = read(&mut bench.store, &mut bench.device, &object(1), 0, 10).unwrap_err();
    assert_eq!(error, ReadError::Device { object: object(1), object_offset: 0, device_offset: at, errno: 5 });
}

/// A partial write onto a damaged block must not give the damage a good checksum.
#[test]
fn a_partial_write_does_not_launder_a_damaged_block() {
    for unreadable in [false, true] {
        let (mut bench, at) = settled(2);
        if unreadable {
            bench.device.make_unreadable(at)
        } else {
            bench.device.corrupt(at, 1)
        }
        bench.store.submit(txn(vec![write(1, 10, "new")])).unwrap();
        // One reader waits while the block is made, one comes before it is durable, one after.
        let waiting = bench.store.read(&object(1), 0, 20);
        bench.pump();
        let done = bench.device.complete(0);
        bench.store.io_done(done);
        bench.pump();
        assert!(matches!(waiting, Lookup::Pending(_)));
        let is_damage =
            |event| matches!(event, Some(StoreEvent::ReadDone { result: Err(ReadError::Checksum { .. }), .. }));
        assert!(is_damage(bench.store.poll_event()));
        bench.store.end_turn();
        bench.pump();
        assert!(matches!(
            read(&mut bench.store, &mut bench.device, &object(1), 0, 20),
            Err(ReadError::Checksum { .. })
        ));
        bench.store.submit(txn(vec![Step::Clone { from: object(1), to: object(2) }, write(2, 50, "more")])).unwrap();
        while !bench.store.is_idle() {
            bench.store.end_turn();
            bench.pump();
            bench.complete_some();
        }
        let mut device = bench.device.after_kill(&mut || 0);
        let mut store = open(&mut device, &bench.config).expect("damaged data does not keep the store from opening");
        for n in [1, 2] {
            assert!(matches!(read(&mut store, &mut device, &object(n), 0, 20), Err(ReadError::Checksum { .. })));
            assert_eq!(read(&mut store, &mut device, &object(n), 4096, 9).unwrap().to_vec(), vec![9; 9]);
        }
        // A write of the whole block repairs it.
        store.submit(txn(vec![write(1, 0, vec![3; 4096])])).unwrap();
        assert_eq!(read(&mut store, &mut device, &object(1), 0, 20).unwrap().to_vec(), vec![3; 20]);
    }
}

/// Returns the blocks of the log that hold records, oldest first.
fn log_blocks(bench: &Bench) -> Vec<u64> {
    let begins = (0..bench.config.wal_bytes).step_by(BLOCK_BYTES).map(|at| WAL_OFFSET + at);
    begins.filter(|at| bench.device.byte(*at) == b'N').collect()
}

#[test]
fn rot_in_the_log_below_the_vouched_lsn_is_damage_and_above_it_a_torn_end() {
    let mut bench = Bench::new(1);
    for n in 0..5 {
        bench.submit(txn(vec![write(n, 0, vec![n as u8; 4096])])).unwrap();
        bench.settle();
    }
    let blocks = log_blocks(&bench);
    assert_eq!(blocks.len(), 5);
    // The last record was written when the one before was durable, and states that.
    for (index, expected) in [(0, Some(1)), (1, Some(2)), (3, Some(4)), (4, None)] {
        for at in [5, 70] {
            let mut device = bench.device.after_kill(&mut || 0);
            device.corrupt(blocks[index] + at, 4);
            let result = open(&mut device, &bench.config);
            match expected {
                // Nothing vouches for the last record.
                None => assert!(result.is_ok()),
                Some(lsn) => {
                    assert_eq!(
                        result.err(),
                        Some(OpenError::DamagedLog { lsn, vouched_lsn: 4 }),
                        "record {index} at {at}"
                    );
                }
            }
        }
    }
}

#[test]
fn rot_in_a_checkpoint_is_damage() {
    let mut bench = Bench::new(1);
    (0..20).for_each(|_| bench.submit_some());
    bench.submit(txn(vec![write(1, 0, vec![1; 4096])])).unwrap();
    bench.store.checkpoint();
    bench.settle();
    let page = bench.store.state.root.unwrap().page().run();
    for at in [0, 4, 30, 63, 64, 200, 4096, 8191] {
        let mut device = bench.device.after_kill(&mut || 0);
        device.corrupt(page.offset_bytes() + at, 0x80);
        let error = open(&mut device, &bench.config).err();
        assert!(matches!(error, Some(OpenError::DamagedTree(ref damage)) if damage.run == page), "{error:?}");
    }
    // The damage hits the root in use: the other one is of a moment whose log is gone.
    for root in crate::disk::numbers::ROOT_OFFSETS {
        let mut device = bench.device.after_kill(&mut || 0);
        device.corrupt(root + 40, 1);
        match open(&mut device, &bench.config) {
            Ok(mut store) => assert_eq!(super::harness::contents(&mut store, &mut device), bench.model),
            Err(error) => {
                assert!(matches!(error, OpenError::DamagedLog { .. } | OpenError::DamagedCheckpoint { .. }), "{error}")
            }
        }
    }
}

/// Damage matters in each of the tree's own blocks, and only there.
#[test]
fn unreadable_blocks_beside_the_tree_do_not_keep_the_store_from_opening() {
    let mut bench = Bench::new(1);
    bench.submit(txn(vec![write(1, 0, vec![1; 4096])])).unwrap();
    bench.store.checkpoint();
    bench.settle();
    let page = bench.store.state.root.unwrap().page().run();
    let mut device = bench.device.after_kill(&mut || 0);
    device.make_unreadable(page.offset_bytes() + page.len_bytes());
    open(&mut device, &bench.config).expect("the tree itself is sound");
    for block in 0..2 {
        let mut device = bench.device.after_kill(&mut || 0);
        device.make_unreadable(page.offset_bytes() + block * 4096);
        let error = open(&mut device, &bench.config).err();
        assert_eq!(error, Some(OpenError::Device { device: Device::Main, offset: page.offset_bytes(), errno: 5 }));
    }
}

/// Flips one bit anywhere: the store opens with everything it acknowledged, or reports damage; its reads then give the
/// right bytes or an error.
#[test]
fn any_flipped_bit_is_harmless_or_reported() {
    let (mut opened, mut reported) = (0, 0);
    for seed in 0..20 {
        let mut bench = Bench::new(seed);
        (0..60).for_each(|_| bench.turn());
        bench.settle();
        let used = 4096 * u64::from(bench.store.allocator.high_water());
        for _ in 0..60 {
            let mut device = bench.device.after_kill(&mut || 0);
            let area = if bench.random.chance(2) { WAL_OFFSET + bench.config.wal_bytes } else { used };
            device.corrupt(bench.random.below(area), 1 << bench.random.below(8));
            let Ok(mut store) = open(&mut device, &bench.config) else {
                reported += 1;
                continue;
            };
            opened += 1;
            for (id, expected) in &bench.model.objects {
                let stat = match ask(&mut store, &mut device, |store| store.stat(id)) {
                    Ok(stat) => stat,
                    Err(_) => {
                        reported += 1;
                        continue;
                    }
                };
                // Nothing vouches for the very last record.
                let Some(stat) = stat.filter(|stat| stat.size_bytes == expected.data.len() as u64) else { continue };
                match read(&mut store, &mut device, id, 0, stat.size_bytes) {
                    Ok(data) if store.wal.next_lsn == bench.store.wal.next_lsn => {
                        assert_eq!(data.to_vec(), *expected.data)
                    }
                    Ok(_) => {}
                    Err(ReadError::Checksum { .. } | ReadError::Metadata { .. }) => reported += 1,
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
    assert!(opened > 100 && reported > 20, "{opened} opened, {reported} reported");
}
