//! Blocks of the log that are damaged or cannot be read: a store that opens has lost nothing, and a mended one is in a
//! state that it once had.

use super::devices::split;
use super::harness::{Bench, Random, config, contents, finish_opening, found, next_tuning, object, open, txn, write};
use super::model::Model;
use crate::disk::numbers::{ROOT_OFFSETS, WAL_OFFSET};
use crate::{IoRequest, Mended, OpenError, SimDevice, Store, StoreConfig, StoreEvent};
use types::BLOCK_BYTES;

const NEW: u64 = 5000;

fn open_to_mend(device: &mut SimDevice, config: &StoreConfig) -> Result<Store, OpenError> {
    finish_opening(device, Store::open_to_mend(StoreConfig { tuning: next_tuning(), ..config.clone() }))
}

/// A store after some work, with all the states that it was in.
fn used(seed: u64) -> Bench {
    let mut bench = Bench::with(split(config(), seed % 4 == 3, seed % 4 > 1), seed);
    bench.keep_history = true;
    for _ in 0..50 {
        bench.turn();
    }
    while !bench.store.is_idle() {
        bench.store.end_turn();
        bench.pump();
        bench.complete_some();
        bench.events();
    }
    bench
}

/// Returns the index of the state that the store is in, from the first on; errors of reads match anything.
fn state(bench: &Bench, store: &mut Store, device: &mut SimDevice) -> Option<usize> {
    let content = found(store, device);
    assert!(content.damaged.is_empty());
    bench.history.iter().rposition(|(_, _, model)| content.is(model))
}

fn settle(store: &mut Store, device: &mut SimDevice) {
    for _ in 0..10_000 {
        store.end_turn();
        while let Some(request) = store.poll_io() {
            device.submit(request);
        }
        while device.queued() > 0 {
            store.io_done(device.complete(0));
        }
        while let Some(event) = store.poll_event() {
            assert!(!matches!(event, StoreEvent::Failed { .. }), "{event:?}");
        }
        if store.is_idle() {
            return;
        }
    }
    panic!("never idle");
}

/// Mends the store on the device, once cut off in between, and compares the rest. Returns the reported losses.
fn mend(bench: &Bench, device: &SimDevice, random: &mut Random) -> (Mended, usize) {
    let mut device = device.after_kill(&mut || 0);
    let mut store = open_to_mend(&mut device, &bench.config).unwrap_or_else(|error| panic!("{error}"));
    let mended = store.mended().cloned().expect("it did not open otherwise");
    assert!(mended.objects.is_empty() && mended.losses.is_empty() && store.stopped().is_none());
    assert!(store.blocks_add_up());
    let at = state(bench, &mut store, &mut device).expect("a state that never was");
    store.submit(txn(vec![write(NEW, 0, vec![3; 70_000])])).unwrap();
    store.checkpoint();
    for _ in 0..random.below(30) {
        store.end_turn();
        while let Some(request) = store.poll_io() {
            device.submit(request);
        }
        if device.queued() > 0 {
            store.io_done(device.complete(random.below(device.queued() as u64) as usize));
        }
    }
    // Until the checkpoint is durable nothing has changed; afterwards all of it has.
    let mut crashed = device.after_crash(&mut || random.next());
    let mut again = open_to_mend(&mut crashed, &bench.config).unwrap_or_else(|error| panic!("{error}"));
    let is_new = |store: &mut Store, device: &mut SimDevice| {
        let stat = super::harness::ask(store, device, |store| store.stat(&object(NEW))).unwrap();
        stat.is_some_and(|stat| stat.size_bytes == 70_000)
    };
    if is_new(&mut again, &mut crashed) {
        again.submit(txn(vec![crate::Step::Remove { object: object(NEW) }])).unwrap();
        again.checkpoint();
        settle(&mut again, &mut crashed);
    } else {
        assert!(again.mended().is_some(), "neither as before nor mended");
    }
    assert_eq!(state(bench, &mut again, &mut crashed), Some(at));
    settle(&mut store, &mut device);
    // Records that were given up and cannot be read yet are overwritten.
    for offset in store.unreadable_log() {
        let (id, data) = (crate::IoId(0), types::AlignedBuf::zeroed(4096).freeze().into());
        let device_of_log = log_device(bench);
        if device.part(device_of_log).is_unreadable(*offset) {
            device.submit(IoRequest::Write { id, device: device_of_log, offset: *offset, data });
            device.complete(0).result.unwrap();
        }
    }
    let mut device = device.after_crash(&mut || random.next());
    let mut whole = open(&mut device, &bench.config).unwrap_or_else(|error| panic!("{error}"));
    assert!(whole.stopped().is_none() && whole.losses().is_empty() && whole.blocks_add_up());
    assert!(is_new(&mut whole, &mut device));
    whole.submit(txn(vec![crate::Step::Remove { object: object(NEW) }])).unwrap();
    settle(&mut whole, &mut device);
    assert_eq!(state(bench, &mut whole, &mut device), Some(at));
    // The mended store works like any other.
    whole.submit(txn(vec![write(NEW, 0, vec![4; 9000])])).unwrap();
    settle(&mut whole, &mut device);
    let mut device = device.after_crash(&mut || random.next());
    let mut last = open(&mut device, &bench.config).unwrap_or_else(|error| panic!("{error}"));
    assert!(last.replayed_records() > 0 && last.blocks_add_up());
    assert!(open_to_mend(&mut device.after_kill(&mut || 0), &bench.config).unwrap().mended().is_none());
    assert!(super::harness::read(&mut last, &mut device, &object(NEW), 0, 9000).unwrap().to_vec() == vec![4; 9000]);
    (mended, at)
}

fn log_device(bench: &Bench) -> crate::Device {
    bench.store.superblock.log_device()
}

/// No acknowledged transaction is lost because of an unreadable block, wherever in the log it is.
#[test]
fn an_unreadable_block_of_the_log_hides_nothing() {
    let (mut opened, mut mended, mut states) = (0, 0, std::collections::BTreeSet::new());
    for seed in 0..12 {
        let bench = used(seed);
        let mut random = Random::new(seed + 50);
        let last = bench.history.len() - 1;
        for at in (0..bench.config.wal_bytes).step_by(BLOCK_BYTES) {
            let mut device = bench.device.after_kill(&mut || 0);
            device.part_mut(log_device(&bench)).make_unreadable(WAL_OFFSET + at);
            match open(&mut device, &bench.config) {
                Ok(mut store) => {
                    opened += 1;
                    assert_eq!(state(&bench, &mut store, &mut device), Some(last), "seed {seed}, {at:#x}");
                }
                Err(error) => {
                    assert!(matches!(error, OpenError::UnreadableLog { .. }), "{error}");
                    let (lost, at) = mend(&bench, &device, &mut random);
                    let lost = lost.log.expect("the log is what cannot be read");
                    assert!(lost.why == error && lost.last_lsn >= lost.lsn);
                    mended += 1;
                    states.insert((seed, at));
                }
            }
        }
    }
    assert!(opened > 20 && mended > 20 && states.len() > 15, "{opened} opened, {mended} mended, {}", states.len());
}

/// A crash takes the records that were written beside a checkpoint, but not the checkpoint: the log goes on where its
/// root says, which is behind the lost records. Transactions acknowledged there are not lost either.
#[test]
fn an_unreadable_block_hides_nothing_where_the_log_went_on_behind_records_that_were_lost() {
    let mut tried = 0;
    for seed in 0..60 {
        let mut bench = Bench::with(split(config(), seed % 4 == 3, seed % 4 > 1), seed);
        for turn in 0..40 {
            bench.begin_turn();
            if turn % 4 == 0 {
                bench.store.checkpoint();
            }
            for _ in 0..bench.random.below(6) {
                bench.complete_some();
                bench.events();
                let mut fates = Random::new(bench.random.next());
                let mut device = bench.device.after_crash(&mut || fates.next());
                let mut store = open(&mut device, &bench.config).unwrap_or_else(|error| panic!("{error}"));
                if store.wal.live_records() > 0 || store.wal.head_in_ring() == 0 {
                    continue;
                }
                let head = store.wal.head_in_ring();
                store.submit(txn(vec![write(NEW, 0, vec![3; 100])])).unwrap();
                settle(&mut store, &mut device);
                // The record did not fit before the ring's end, or a checkpoint covers it already.
                if store.wal.live_records() != 1 || store.wal.head_in_ring() != head + store.wal.used_bytes() {
                    continue;
                }
                let mut device = device.after_crash(&mut || fates.next());
                device.part_mut(log_device(&bench)).make_unreadable(WAL_OFFSET + head);
                tried += 1;
                match open(&mut device, &bench.config) {
                    Ok(_) => panic!("seed {seed}, turn {turn}: an acknowledged record at {head:#x} is not missed"),
                    Err(error) => assert!(matches!(error, OpenError::UnreadableLog { .. }), "{error}"),
                }
            }
        }
    }
    assert!(tried > 100, "{tried} tried");
}

/// Rots one bit or a whole block, anywhere in the log, in one block or several.
#[test]
fn a_damaged_log_is_cut_where_the_damage_is() {
    let (mut opened, mut mended) = (0, 0);
    for seed in 0..12 {
        let bench = used(seed);
        let mut random = Random::new(seed + 70);
        for _ in 0..25 {
            let mut device = bench.device.after_kill(&mut || 0);
            for _ in 0..1 + random.below(3) {
                let at = WAL_OFFSET + random.below(bench.config.wal_bytes / 4096) * 4096;
                let media = device.part_mut(log_device(&bench));
                match random.below(3) {
                    0 => media.corrupt(at + random.below(200), 1 << random.below(8)),
                    1 => (0..8).for_each(|n| media.corrupt(at + n * 8, 0xff)),
                    _ => media.make_unreadable(at),
                }
            }
            match open(&mut device, &bench.config) {
                Ok(mut store) => {
                    opened += 1;
                    // Nothing vouches for the very last record.
                    assert!(state(&bench, &mut store, &mut device).is_some());
                }
                Err(error) => {
                    assert!(
                        matches!(
                            error,
                            OpenError::UnreadableLog { .. }
                                | OpenError::DamagedLog { .. }
                                | OpenError::MisplacedRecord { .. }
                        ),
                        "{error}"
                    );
                    mend(&bench, &device, &mut random);
                    mended += 1;
                }
            }
        }
    }
    assert!(opened > 20 && mended > 20, "{opened} opened, {mended} mended");
}

/// Loses the topmost page of the tree: the tree before it is as good, if the log behind that is whole.
#[test]
fn without_its_topmost_page_a_tree_is_replaced_by_the_one_before() {
    let (mut whole, mut cut, mut hopeless) = (0, 0, 0);
    for seed in 0..24 {
        let mut bench = used(seed);
        // There are more transactions after the last checkpoint, or none.
        bench.store.checkpoint();
        for _ in 0..seed % 4 * 2 {
            bench.turn();
        }
        while !bench.store.is_idle() {
            bench.store.end_turn();
            bench.pump();
            bench.complete_some();
            bench.events();
        }
        let Some(top) = bench.store.state.root.map(|root| root.page().run()) else { continue };
        let mut device = bench.device.after_kill(&mut || 0);
        let media = device.part_mut(bench.store.superblock.tree_device());
        match seed % 2 {
            0 => media.corrupt(top.offset_bytes() + 50, 2),
            _ => media.make_unreadable(top.offset_bytes() + 4096),
        }
        let error = open(&mut device, &bench.config).map(drop).unwrap_err();
        assert!(matches!(error, OpenError::DamagedTree(_) | OpenError::Device { .. }), "{error}");
        let mut random = Random::new(seed + 90);
        let Ok(mut store) = open_to_mend(&mut device, &bench.config) else {
            hopeless += 1;
            continue;
        };
        let mended = store.mended().cloned().expect("the tree is an older one");
        assert_eq!(mended.tree.as_deref(), Some(&error));
        if !mended.losses.is_empty() {
            // Pages of the older tree have been used again.
            continue;
        }
        match mended.log {
            None => {
                assert!(contents(&mut store, &mut device) == bench.model, "nothing is lost");
                let (_, at) = mend(&bench, &device, &mut random);
                assert_eq!(at, bench.history.len() - 1);
                whole += 1;
            }
            Some(_) => {
                mend(&bench, &device, &mut random);
                cut += 1;
            }
        }
    }
    assert!(whole > 2 && whole + cut > 4, "{whole} whole, {cut} cut, {hopeless} not mended");
}

/// One root cannot be read, and the other one is of a moment whose log is gone: an opening does not take that for the
/// present.
#[test]
fn an_older_root_does_not_pass_for_the_newest() {
    for seed in 0..8 {
        let bench = used(seed);
        for offset in ROOT_OFFSETS {
            let mut device = bench.device.after_kill(&mut || 0);
            device.part_mut(bench.store.superblock.tree_device()).corrupt(offset + 40, 1);
            match open(&mut device, &bench.config) {
                Ok(mut store) => assert!(contents(&mut store, &mut device) == bench.model),
                Err(error) => {
                    let mut random = Random::new(seed);
                    let Ok(store) = open_to_mend(&mut device, &bench.config) else { continue };
                    if store.mended().is_some_and(|mended| mended.losses.is_empty()) {
                        mend(&bench, &device, &mut random);
                    }
                    assert!(!matches!(error, OpenError::NotAStore));
                }
            }
        }
    }
}

#[test]
fn a_device_full_of_unreadable_blocks_does_not_open() {
    let config = StoreConfig { device_bytes: 128 << 20, wal_bytes: 32 << 20, ..config() };
    let bench = Bench::with(config.clone(), 1);
    let mut device = bench.device.after_kill(&mut || 0);
    (0..5000).for_each(|block| device.make_unreadable(WAL_OFFSET + block * 4096));
    let mut copy = device.after_kill(&mut || 0);
    for error in [open(&mut device, &config).map(drop), open_to_mend(&mut copy, &config).map(drop)] {
        assert!(matches!(error, Err(OpenError::Device { .. })), "{error:?}");
    }
    assert!(bench.model == Model::default());
}
