use std::collections::BTreeMap;
use std::io;

use super::record::{RECORD_BYTES, Record};
use super::ring::{self, Kept, Medium, Torn};
use super::timing::{DriveFacts, Judgement, Timing, judge};

/// A drive with a volatile cache, in memory.
struct Drive {
    durable: BTreeMap<u64, Vec<u8>>,
    cache: BTreeMap<u64, Vec<u8>>,
    /// Flushes do nothing from this record on.
    lies_from: u64,
    flushes: u64,
}

impl Drive {
    fn new(lies_from: u64) -> Drive {
        Drive { durable: BTreeMap::new(), cache: BTreeMap::new(), lies_from, flushes: 0 }
    }

    /// The power goes: of the cache some blocks are kept, by bits of `seed`, and the last one may be half written.
    fn cut(&mut self, mut seed: u64, torn: bool) {
        let newest = self.cache.iter().max_by_key(|(_, block)| Record::decode(block).map(|one| one.sequence));
        let newest = newest.map(|(slot, _)| *slot);
        for (slot, block) in std::mem::take(&mut self.cache) {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if torn && Some(slot) == newest {
                self.durable.get_mut(&slot).expect("slots are prepared")[..512].copy_from_slice(&block[..512]);
            } else if seed >> 63 == 1 {
                self.durable.insert(slot, block);
            }
        }
    }
}

impl Medium for Drive {
    fn write(&mut self, slot: u64, block: &[u8]) -> io::Result<()> {
        self.cache.insert(slot, block.to_vec());
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flushes += 1;
        if self.flushes < self.lies_from {
            self.durable.append(&mut self.cache);
        }
        Ok(())
    }

    fn read(&mut self, slot: u64, block: &mut [u8]) -> io::Result<()> {
        match self.durable.get(&slot) {
            Some(there) => block.copy_from_slice(there),
            None => block.fill(0),
        }
        Ok(())
    }
}

const SLOTS: u32 = 8;

/// Writes `count` records, begins another one, and cuts the power.
fn after_a_cut(lies_from: u64, count: u64, seed: u64, torn: bool) -> Drive {
    let mut drive = Drive::new(lies_from);
    ring::write(&mut drive, SLOTS, 7, |sequence| sequence < count).unwrap();
    let mut block = vec![0; RECORD_BYTES];
    let (sequence, slot) = (count + 1, (count + 1) % u64::from(SLOTS));
    Record { slots: SLOTS, run: 7, sequence, slot }.encode(&mut block);
    drive.write(slot, &block).unwrap();
    drive.cut(seed, torn);
    drive
}

#[test]
fn a_drive_that_keeps_its_word_has_all() {
    for count in 0..40 {
        for seed in 0..8 {
            for torn in [false, true] {
                let mut drive = after_a_cut(u64::MAX, count, seed, torn);
                let kept = ring::verify(&mut drive, SLOTS, Some(count)).unwrap();
                assert!(kept.is_good(), "{count} records, seed {seed}, torn {torn}: {kept:?}");
                assert!(ring::verify(&mut drive, SLOTS, None).unwrap().is_good(), "{count} {seed} {torn}");
                assert!(kept.newest == count || kept.newest == count + 1, "{kept:?}");
            }
        }
    }
}

#[test]
fn a_drive_that_ignores_flushes_is_found_by_whoever_saw_the_last_number() {
    for seed in 0..64 {
        // The last two records were told as flushed, and lie in the cache with the one under way.
        let mut drive = after_a_cut(20, 20, seed, false);
        let all_there = [19, 20].iter().all(|sequence| {
            let there = drive.durable.get(&(sequence % u64::from(SLOTS))).and_then(|block| Record::decode(block));
            there.is_some_and(|record| record.sequence == *sequence)
        });
        let kept = ring::verify(&mut drive, SLOTS, Some(20)).unwrap();
        assert_eq!(kept.is_good(), all_there, "seed {seed}: {kept:?}");
    }
}

#[test]
fn a_hole_shows_without_anybody_who_saw_numbers() {
    let mut drive = after_a_cut(u64::MAX, 20, 0, false);
    let older = {
        let mut block = vec![0; RECORD_BYTES];
        Record { slots: SLOTS, run: 7, sequence: 11, slot: 3 }.encode(&mut block);
        block
    };
    drive.durable.insert(3, older);
    let kept = ring::verify(&mut drive, SLOTS, None).unwrap();
    assert_eq!((kept.lost.as_slice(), kept.is_good()), (&[19][..], false));
    drive.durable.insert(5, vec![0; RECORD_BYTES]);
    // Slot 5 is that of record 21, which was under way, unless it is there.
    let Kept { newest, lost, .. } = ring::verify(&mut drive, SLOTS, None).unwrap();
    assert!(newest == 20 && lost == [19], "{newest} {lost:?}");
    drive.durable.insert(2, vec![0; RECORD_BYTES]);
    assert_eq!(ring::verify(&mut drive, SLOTS, None).unwrap().lost, [18, 19]);
}

#[test]
fn nothing_and_mixtures_are_not_judged() {
    assert!(matches!(ring::verify(&mut Drive::new(u64::MAX), SLOTS, None), Err(Torn::Nothing)));
    let mut drive = after_a_cut(u64::MAX, 3, 0, false);
    let mut block = vec![0; RECORD_BYTES];
    Record { slots: SLOTS, run: 8, sequence: 0, slot: 0 }.encode(&mut block);
    drive.durable.insert(0, block);
    assert!(matches!(ring::verify(&mut drive, SLOTS, None), Err(Torn::SeveralRuns(2))));
}

#[test]
fn every_byte_of_a_record_counts() {
    let record = Record { slots: SLOTS, run: 5, sequence: 9, slot: 1 };
    let mut block = vec![0; RECORD_BYTES];
    record.encode(&mut block);
    assert_eq!(Record::decode(&block), Some(record));
    for at in (0..RECORD_BYTES).step_by(61).chain([RECORD_BYTES - 1]) {
        block[at] ^= 1;
        assert_eq!(Record::decode(&block), None, "byte {at}");
        block[at] ^= 1;
    }
    assert_eq!(Record::decode(&block[..4000]), None);
    assert_eq!(Record::decode(&[]), None);
}

#[test]
fn times_are_judged_by_the_drive() {
    let timing =
        |flush_us: f64| Timing { write_us: 20.0, flush_us, flush_p99_us: flush_us, idle_flush_us: 1.0, rounds: 500 };
    let drive = |rotates: bool, kernel: bool, volatile: Option<bool>| DriveFacts {
        name: "sda".into(),
        is_virtual: false,
        rotates: Some(rotates),
        kernel_flushes: Some(kernel),
        volatile,
    };
    let virtual_one = DriveFacts { is_virtual: true, ..drive(true, true, None) };
    for (flush_us, drive, wanted) in [
        (8_000.0, drive(true, true, Some(true)), Judgement::Plausible),
        (300.0, drive(true, true, Some(true)), Judgement::Impossible),
        (700.0, drive(false, true, Some(true)), Judgement::Plausible),
        (12.0, drive(false, true, Some(true)), Judgement::Quick),
        (5.0, drive(false, false, Some(true)), Judgement::KeptBack),
        (5.0, drive(false, false, Some(false)), Judgement::NothingToFlush),
        (5.0, virtual_one, Judgement::Another),
    ] {
        assert_eq!(judge(&timing(flush_us), Some(&drive)), wanted, "{flush_us} {drive:?}");
    }
    assert_eq!(judge(&timing(1.0), None), Judgement::NoDrive);
    assert!(Judgement::KeptBack.is_bad() && Judgement::Impossible.is_bad() && !Judgement::Quick.is_bad());
}

#[test]
fn files_are_written_read_and_never_overwritten() {
    use super::medium::{FileMedium, MediumError};
    let folder = crate::tests::Folder::new();
    let (file, bytes) = (folder.path().join("torture"), u64::from(SLOTS) * RECORD_BYTES as u64);
    let mut medium = FileMedium::create(&file, bytes).unwrap();
    ring::write(&mut medium, SLOTS, 1, |sequence| sequence < 20).unwrap();
    drop(medium);
    let mut medium = FileMedium::open(&file, bytes).unwrap();
    assert_eq!(
        ring::verify(&mut medium, SLOTS, Some(20)).unwrap(),
        Kept { run: 1, newest: 20, flushed: 20, lost: vec![] }
    );
    assert_eq!(ring::verify(&mut medium, SLOTS, Some(22)).unwrap().lost, [21, 22]);
    let timing = super::timing::measure(&mut FileMedium::create(&folder.path().join("t"), 16 << 20).unwrap()).unwrap();
    assert!(timing.flush_us > 0.0 && timing.flush_p99_us >= timing.flush_us && timing.rounds > 0, "{timing:?}");

    let other = folder.path().join("other");
    std::fs::write(&other, vec![0; 64 << 10]).unwrap();
    assert!(matches!(FileMedium::create(&other, bytes), Err(MediumError::Occupied { .. })));
    assert_eq!(std::fs::read(&other).unwrap(), vec![0; 64 << 10]);
    assert!(matches!(FileMedium::open(&file, bytes + 1), Err(MediumError::Small { .. })));
    assert!(matches!(FileMedium::open(&folder.path().join("none"), bytes), Err(MediumError::Open { .. })));
    assert!(matches!(FileMedium::open(folder.path(), bytes), Err(MediumError::Kind { .. })));
}
