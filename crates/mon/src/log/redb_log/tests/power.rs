//! Power fails while the log is written: acknowledged writes are there, and the write under way is there or not, as a
//! whole.

use super::*;
use std::io;
use std::sync::{Arc, Mutex};

const SECTOR_BYTES: usize = 512;

/// SplitMix64.
struct PowerRng(u64);

impl PowerRng {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

#[derive(Clone, Debug)]
enum DiskOrder {
    Write { at: usize, data: Vec<u8> },
    SetLen(usize),
}

impl DiskOrder {
    /// Carries the order out. `keeps` tells of each sector whether it reaches the platter.
    fn carry_out(&self, image: &mut Vec<u8>, mut keeps: impl FnMut() -> bool) {
        match self {
            // The file's size is kept by the file system, which writes a journal.
            DiskOrder::SetLen(len) => image.resize(*len, 0),
            DiskOrder::Write { at, data } => {
                image.resize(image.len().max(at + data.len()), 0);
                let (mut at, mut data) = (*at, data.as_slice());
                while !data.is_empty() {
                    let (part, rest) = data.split_at(data.len().min(SECTOR_BYTES - at % SECTOR_BYTES));
                    if keeps() {
                        image[at..at + part.len()].copy_from_slice(part);
                    }
                    (at, data) = (at + part.len(), rest);
                }
            }
        }
    }
}

/// A disk in memory.
#[derive(Default, Debug)]
struct Disk {
    image: Vec<u8>,
    flushed: Vec<u8>,
    since_flush: Vec<DiskOrder>,
    /// Number of orders that are still carried out before power fails.
    orders_left: Option<u64>,
}

#[derive(Clone, Default, Debug)]
struct SharedDisk(Arc<Mutex<Disk>>);

impl SharedDisk {
    fn order(&self, order: DiskOrder) -> io::Result<()> {
        let mut disk = self.0.lock().unwrap();
        disk.power()?;
        order.carry_out(&mut disk.image, || true);
        disk.since_flush.push(order);
        Ok(())
    }
}

impl Disk {
    fn power(&mut self) -> io::Result<()> {
        match &mut self.orders_left {
            Some(0) => Err(io::Error::other("power has failed")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Returns the disk once power is back: of orders that were not flushed it has any sectors.
    fn after_power_failed(&self, rng: &mut PowerRng) -> Disk {
        let mut image = self.flushed.clone();
        let kept_in_four = rng.below(5);
        for order in &self.since_flush {
            order.carry_out(&mut image, || rng.below(4) < kept_in_four);
        }
        Disk { flushed: image.clone(), image, since_flush: Vec::new(), orders_left: None }
    }
}

impl redb::StorageBackend for SharedDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().image.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let (disk, at) = (self.0.lock().unwrap(), offset as usize);
        let part = disk.image.get(at..at + out.len()).ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        out.copy_from_slice(part);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.order(DiskOrder::SetLen(len as usize))
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut disk = self.0.lock().unwrap();
        disk.power()?;
        disk.since_flush.clear();
        disk.flushed = disk.image.clone();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.order(DiskOrder::Write { at: offset as usize, data: data.to_vec() })
    }
}

fn open(disk: &SharedDisk) -> RedbLog {
    let db = redb::Builder::new().set_cache_size(CACHE_BYTES).create_with_backend(disk.clone());
    RedbLog { db: db.expect("the file is whole"), path: "a disk in memory".into() }
}

fn draw(rng: &mut PowerRng, stored: &Stored) -> Vec<Persist> {
    let last = stored.entries.last().map_or(stored.snapshot.as_ref().unwrap().last, |entry| entry.position);
    let mut writes = Vec::new();
    for _ in 0..1 + rng.below(2) {
        writes.push(match rng.below(6) {
            0 => Persist::Vote(Vote { term: last.term + rng.below(5), voted_for: Some(ServerId(77)) }),
            1 => Persist::Snapshot { snapshot: snapshot(last.term, last.index), keep_from: Some(last.index) },
            n => {
                let mut next = entry(last.term + n / 5, last.index + 1);
                if rng.below(4) == 0 {
                    let data = vec![7; rng.below(60_000) as usize];
                    next.payload = raft::Payload::Data(data.into());
                }
                Persist::Entries(vec![next])
            }
        });
    }
    writes
}

#[test]
fn what_was_acknowledged_survives_a_loss_of_power() {
    let (mut in_time, mut too_late) = (0, 0);
    for seed in 0..60 {
        let mut rng = PowerRng(seed);
        let disk = SharedDisk::default();
        let mut stored = Stored::first(snapshot(1, 1));
        let mut log = open(&disk);
        log.transact(|txn| begin(txn, &identity(), &stored)).unwrap();
        for _ in 0..4 {
            disk.0.lock().unwrap().orders_left = Some(rng.below(150));
            let after = loop {
                let writes = draw(&mut rng, &stored);
                let mut after = stored.clone();
                writes.iter().for_each(|write| after.apply(write.clone()));
                match log.write(&writes) {
                    Ok(()) => stored = after,
                    Err(LogError::Write(_)) => break after,
                    Err(error) => panic!("seed {seed}: {error}"),
                }
            };
            drop(log);
            let found = disk.0.lock().unwrap().after_power_failed(&mut rng);
            *disk.0.lock().unwrap() = found;
            log = open(&disk);
            let loaded = log.load().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert!(loaded.stored == stored || loaded.stored == after, "seed {seed}: neither before nor after a write");
            match loaded.stored == after {
                true => in_time += 1,
                false => too_late += 1,
            }
            stored = loaded.stored;
        }
    }
    assert!(in_time > 0 && too_late > 0, "{in_time} writes that were cut off were there, {too_late} not");
}
