//! Drives that lie: writes that are reported and never land or land elsewhere, bits that flip, blocks that cannot be
//! read. In all cases a read gives the right bytes or an error that names the block, and the store opens in a state
//! that it once had.

use super::devices::split;
use super::harness::{Bench, Random, config, found, object, open, read, txn, write};
use crate::disk::numbers::{SUPERBLOCK_OFFSETS, WAL_OFFSET};
use crate::{Device, IoDone, IoRequest, OpenError, ReadError, StoreConfig, StoreEvent};

/// Faults of the drive, each with a chance of one in this many; 0: never.
#[derive(Clone, Copy, Default)]
struct Faults {
    lost: u64,
    misdirected: u64,
    torn: u64,
    rot: u64,
    unreadable: u64,
    /// True if log, tree and labels may be hit too; otherwise data only.
    metadata: bool,
}

impl Faults {
    fn hits(&self, one_in: u64, random: &mut Random) -> bool {
        one_in > 0 && random.chance(one_in)
    }

    /// Completes one request, perhaps wrongly. Returns the number of faults.
    fn complete_some(&self, bench: &mut Bench) -> u64 {
        if bench.device.queued() == 0 {
            return 0;
        }
        let index = bench.random.below(bench.device.queued() as u64) as usize;
        let device = bench.device.queued_device(index);
        let (done, faults) = match bench.device.queued_write(index) {
            Some((offset, len)) if self.may_strike(bench) && self.concern(bench, device, offset) => {
                if self.hits(self.lost, &mut bench.random) {
                    (bench.device.complete_lost(index), 1)
                } else if self.hits(self.misdirected, &mut bench.random) {
                    let to = self.target(bench, device, len);
                    (bench.device.complete_misdirected(index, to), 1)
                } else if self.hits(self.torn, &mut bench.random) {
                    let random = &mut bench.random;
                    (bench.device.complete_torn(index, &mut || random.next()), 1)
                } else {
                    (bench.device.complete(index), 0)
                }
            }
            _ => (bench.device.complete(index), 0),
        };
        bench.store.io_done(done);
        bench.pump();
        faults
    }

    /// Returns true if a fault may happen now: where no metadata may be hit, only while none is being written.
    fn may_strike(&self, bench: &Bench) -> bool {
        self.metadata || !bench.store.checkpoint.is_running()
    }

    /// Returns true if a write to this place may be hit.
    fn concern(&self, bench: &Bench, device: Device, offset: u64) -> bool {
        self.metadata || device == Device::Main && offset >= self.begin(bench)
    }

    /// Returns the offset from which on the main device may be hit.
    fn begin(&self, bench: &Bench) -> u64 {
        if self.metadata { 0 } else { 4096 * u64::from(bench.store.superblock.data_begin()) }
    }

    /// Returns a place where a misdirected write may land.
    fn target(&self, bench: &mut Bench, device: Device, len: u64) -> u64 {
        let media = bench.device.part(device);
        let (begin, used) = match device {
            Device::Main => (self.begin(bench), 4096 * u64::from(bench.store.allocator.high_water())),
            // The place is before the end of the last block that was ever written.
            _ => (0, media.blocks().last().map_or(0, |(offset, _)| offset + 4096)),
        };
        let end = used.max(begin + len + 4096).min(media.bytes());
        let has_tree = device == bench.store.superblock.tree_device();
        let tree = if self.metadata || !has_tree { Vec::new() } else { bench.tree_runs() };
        loop {
            let at = begin + bench.random.below((end - begin - len) / 4096 + 1) * 4096;
            if tree.iter().all(|run| run.offset_bytes() + run.len_bytes() <= at || at + len <= run.offset_bytes()) {
                return at;
            }
        }
    }

    /// Lets bits of stored blocks decay.
    fn decay(&self, bench: &mut Bench) -> u64 {
        let mut faults = 0;
        for (one_in, rot) in [(self.rot, true), (self.unreadable, false)] {
            if self.may_strike(bench) && self.hits(one_in, &mut bench.random) {
                let device = match self.metadata {
                    true => some_device(bench),
                    false => Device::Main,
                };
                let at = self.target(bench, device, 4096);
                faults += 1;
                match rot {
                    true => {
                        // Records and chunks end in zeros without meaning, so the decay hits their begin.
                        let end = if bench.random.chance(2) { 256 } else { 4096 };
                        let (byte, bit) = (bench.random.below(end), bench.random.below(8));
                        bench.device.part_mut(device).corrupt(at + byte, 1 << bit);
                    }
                    false => bench.device.part_mut(device).make_unreadable(at),
                }
            }
        }
        faults
    }
}

fn some_device(bench: &mut Bench) -> Device {
    let devices: Vec<Device> = bench.store.superblock.devices().collect();
    devices[bench.random.below(devices.len() as u64) as usize]
}

/// Returns settings on one device, or with devices of their own for log, metadata or both.
fn some_config(seed: u64) -> StoreConfig {
    split(config(), seed % 4 == 3, seed % 4 > 1)
}

/// Number of failed reads, and outcomes of openings.
#[derive(Default, Debug)]
struct Outcome {
    read_errors: u64,
    reads: u64,
    faults: u64,
    opened: u64,
    refused: u64,
}

/// Runs a history on a sound drive, then one on a drive that lies; compares all reads with the model.
fn history(config: StoreConfig, faults: Faults, seed: u64, aligned: bool, outcome: &mut Outcome) -> Bench {
    let mut bench = Bench::with(config, seed);
    bench.aligned_only = aligned;
    (0..20).for_each(|_| bench.turn());
    bench.settle();
    bench.store.checkpoint();
    bench.settle();
    bench.keep_history = true;
    bench.may_fail = faults.metadata;
    for _ in 0..40 {
        bench.begin_turn();
        for _ in 0..bench.random.below(6) {
            outcome.faults += faults.complete_some(&mut bench);
        }
        outcome.faults += faults.decay(&mut bench);
        let (reads, errors) = bench.events_with_errors(|device, error| names_a_bad_block(device, error, aligned));
        outcome.reads += reads;
        outcome.read_errors += errors;
    }
    bench
}

/// Accepts an error only about a block that the drive has touched wrongly. Blocks made in part of such ones are bad
/// too, wherever they lie; there are none if all writes are of whole blocks.
fn names_a_bad_block(device: &crate::SimDevice, error: &ReadError, aligned: bool) {
    let (ReadError::Checksum { device_offset, .. } | ReadError::Device { device_offset, .. }) = error else { return };
    assert!(!aligned || device.is_damaged(*device_offset), "{error}, but that block is sound");
}

/// Finishes everything that is under way on a drive that is sound again.
fn settle(bench: &mut Bench, aligned: bool, outcome: &mut Outcome) {
    for _ in 0..10_000 {
        bench.store.end_turn();
        bench.pump();
        while bench.device.queued() > 0 {
            bench.complete_some();
        }
        let (reads, errors) = bench.events_with_errors(|device, error| names_a_bad_block(device, error, aligned));
        outcome.reads += reads;
        outcome.read_errors += errors;
        if bench.store.is_idle() || bench.failed.is_some() {
            return;
        }
    }
    panic!("never idle");
}

/// Compares the whole content: bad blocks give errors that name them, and everything else equals the model.
fn compare(bench: &mut Bench, aligned: bool, outcome: &mut Outcome) {
    let content = found(&mut bench.store, &mut bench.device);
    outcome.reads += content.reads;
    outcome.read_errors += content.errors.len() as u64;
    content.errors.iter().for_each(|error| names_a_bad_block(&bench.device, error, aligned));
    assert!(content.is(&bench.model), "neither the right bytes nor an error");
}

/// Faults in data only: the store goes on, and after a crash it opens.
fn data_faults(faults: Faults, aligned: bool) -> Outcome {
    let mut outcome = Outcome::default();
    for seed in 0..60 {
        let mut bench = history(some_config(seed), faults, seed, aligned, &mut outcome);
        settle(&mut bench, aligned, &mut outcome);
        // Without a checkpoint the last turn could pass for torn.
        bench.store.checkpoint();
        settle(&mut bench, aligned, &mut outcome);
        compare(&mut bench, aligned, &mut outcome);
        let mut random = bench.random.clone();
        let mut device = bench.device.after_crash(&mut || random.next());
        let store = open(&mut device, &bench.config).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        outcome.opened += 1;
        (bench.store, bench.device) = (store, device);
        compare(&mut bench, aligned, &mut outcome);
    }
    outcome
}

#[test]
fn lost_misdirected_and_torn_data_writes_are_never_read_as_anything_else() {
    let none = Faults::default();
    for aligned in [true, false] {
        for faults in [Faults { lost: 3, ..none }, Faults { misdirected: 3, ..none }, Faults { torn: 3, ..none }] {
            let outcome = data_faults(faults, aligned);
            assert!(outcome.read_errors > 30 && outcome.faults > 60 && outcome.opened == 60, "{outcome:?}");
        }
    }
}

#[test]
fn rot_and_unreadable_blocks_are_never_read_as_anything_else() {
    for aligned in [true, false] {
        for faults in [Faults { rot: 2, ..Faults::default() }, Faults { unreadable: 2, ..Faults::default() }] {
            let outcome = data_faults(faults, aligned);
            assert!(outcome.read_errors > 30 && outcome.faults > 60 && outcome.opened == 60, "{outcome:?}");
        }
    }
}

/// Faults anywhere: the store opens in a former state, no further back than the faults explain, or is refused as
/// damaged.
#[test]
fn faults_in_metadata_are_refused_or_harmless() {
    let kinds = [
        Faults { lost: 25, metadata: true, ..Faults::default() },
        Faults { misdirected: 25, metadata: true, ..Faults::default() },
        Faults { torn: 25, metadata: true, ..Faults::default() },
        Faults { rot: 2, metadata: true, ..Faults::default() },
        Faults { unreadable: 3, metadata: true, ..Faults::default() },
        Faults { lost: 60, misdirected: 60, torn: 60, rot: 10, unreadable: 10, metadata: true },
    ];
    for (kind, faults) in kinds.into_iter().enumerate() {
        let mut outcome = Outcome::default();
        for seed in 0..120 {
            let before = outcome.faults;
            let mut bench = history(some_config(seed / 2), faults, seed, true, &mut outcome);
            if seed % 3 == 0 {
                settle(&mut bench, true, &mut outcome);
            }
            let injected = outcome.faults - before;
            let mut random = bench.random.clone();
            let mut device = match seed % 2 {
                0 => bench.device.after_crash(&mut || random.next()),
                _ => bench.device.after_kill(&mut || random.next()),
            };
            match open(&mut device, &bench.config) {
                Err(error) => {
                    outcome.refused += 1;
                    let headless = |of| SUPERBLOCK_OFFSETS.iter().all(|at| device.part(of).is_damaged(*at));
                    let damage = match error {
                        OpenError::NotAStore => headless(Device::Main),
                        OpenError::NotAPart { device } => headless(device),
                        _ => is_damage(&error),
                    };
                    assert!(injected > 0 && damage, "kind {kind}, seed {seed}: {error}");
                }
                Ok(mut store) => {
                    outcome.opened += 1;
                    let content = found(&mut store, &mut device);
                    content.errors.iter().for_each(|error| names_a_bad_block(&device, error, true));
                    let at = bench.history.iter().rposition(|(_, _, model)| content.is(model));
                    let at = at.unwrap_or_else(|| panic!("kind {kind}, seed {seed}: a state that never was"));
                    // Nothing vouches for the last two turns; each fault may take away another witness.
                    let lost = bench.committed.iter().filter(|ticket| **ticket > bench.history[at].0).count() as u64;
                    assert!(lost <= 2 * injected, "kind {kind}, seed {seed}: {lost} turns lost, {injected} faults");
                }
            }
        }
        assert!(outcome.opened > 10 && outcome.refused > 2, "kind {kind}: {outcome:?}");
    }
}

fn is_damage(error: &OpenError) -> bool {
    matches!(
        error,
        OpenError::DamagedLog { .. }
            | OpenError::UnreadableLog { .. }
            | OpenError::MisplacedRecord { .. }
            | OpenError::DamagedCheckpoint { .. }
            | OpenError::DamagedTree(_)
            | OpenError::CheckpointEntry(_)
            | OpenError::DamagedSpace { .. }
            | OpenError::NoCheckpoint
            | OpenError::Device { .. }
    )
}

/// A drive with latency spikes, where some requests take much longer than all others, costs nothing but time.
#[test]
fn stragglers_change_nothing_but_the_time() {
    for seed in 0..20 {
        let mut bench = Bench::with(some_config(seed), seed);
        bench.stragglers = true;
        for _ in 0..60 {
            bench.turn();
            let mut random = bench.random.clone();
            bench.reopen(bench.device.after_crash(&mut || random.next()));
        }
        bench.stragglers = false;
        bench.settle();
        bench.check_all();
    }
}

/// One turn's write never arrives, and another turn follows: the log vouches for the first, so it is missed.
#[test]
fn a_lost_log_record_is_missed_as_soon_as_a_later_one_vouches_for_it() {
    let mut bench = Bench::new(1);
    for n in 0..4 {
        bench.submit(txn(vec![write(n, 0, vec![n as u8; 4096])])).unwrap();
        bench.store.end_turn();
        bench.pump();
        let is_log =
            |at: usize| bench.device.queued_write(at).is_some_and(|(offset, _)| offset < WAL_OFFSET + (64 << 10));
        if n == 1 {
            let log = (0..bench.device.queued()).find(|at| is_log(*at)).expect("a log write");
            let done = bench.device.complete_lost(log);
            bench.store.io_done(done);
        }
        bench.settle();
    }
    let error = open(&mut bench.device.after_kill(&mut || 0), &bench.config).err();
    assert_eq!(error, Some(OpenError::DamagedLog { lsn: 2, vouched_lsn: 3 }));
}

/// A record that lies where records before and behind it leave no room was misdirected.
#[test]
fn a_misplaced_log_record_is_damage() {
    let mut bench = Bench::new(1);
    for n in 0..4 {
        bench.submit(txn(vec![write(n, 0, vec![n as u8; 4096])])).unwrap();
        bench.store.end_turn();
        bench.pump();
        if n == 1 {
            let log =
                |at: &usize| bench.device.queued_write(*at).is_some_and(|(offset, _)| offset < WAL_OFFSET + (64 << 10));
            let log = (0..bench.device.queued()).find(log).expect("a log write");
            let done = bench.device.complete_misdirected(log, WAL_OFFSET + 12 * 4096);
            bench.store.io_done(done);
        }
        bench.settle();
    }
    let error = open(&mut bench.device.after_kill(&mut || 0), &bench.config).err();
    assert!(matches!(error, Some(OpenError::MisplacedRecord { lsn: 3, .. })), "{error:?}");
}

/// A failed read of a live store is an error of that read alone.
#[test]
fn an_unreadable_block_fails_reads_of_it_alone() {
    let mut bench = Bench::new(3);
    bench.submit(txn(vec![write(1, 0, vec![5; 16_384])])).unwrap();
    bench.settle();
    let begin = bench.ask(|store| store.placement(&object(1), 0, 1))[0].device_offset;
    let device_offset = begin + 8192;
    bench.device.make_unreadable(device_offset);
    let expected = ReadError::Device { object: object(1), object_offset: 8192, device_offset, errno: 5 };
    let mut check = |offset, len, good: bool| {
        let result = read(&mut bench.store, &mut bench.device, &object(1), offset, len);
        assert_eq!(
            result.map(|data| data.to_vec()),
            if good { Ok(vec![5; len as usize]) } else { Err(expected.clone()) }
        );
    };
    check(0, 8192, true);
    check(8192, 10, false);
    check(12_288, 4096, true);
    // The request for all four blocks fails; the error still names the bad one.
    check(0, 16_384, false);
    check(4096, 5000, false);
    // A failure that does not recur has no effect.
    bench.store.read(&object(1), 0, 8192);
    let Some(IoRequest::Read { id, .. }) = bench.store.poll_io() else { panic!("a read") };
    bench.store.io_done(IoDone { id, result: Err(5) });
    bench.pump();
    while bench.device.queued() > 0 {
        bench.complete_some();
    }
    let Some(StoreEvent::ReadDone { result, .. }) = bench.store.poll_event() else { panic!("the read is done") };
    assert_eq!(result.unwrap().to_vec(), vec![5; 8192]);
}
