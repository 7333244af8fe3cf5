//! A store that is three quarters full, before and after all of its data was overwritten ten times in small pieces.

use crate::arguments::Arguments;
use crate::driver::{StoreRun, Until};
use crate::files::StoreFiles;
use crate::workload::{BLOCK, Kind, MIB, OBJECT_BYTES};
use anyhow::Result;
use serde_json::{Value, json};
use std::time::Duration;

pub const NAME: &str = "ageing";

const OVERWRITES: u64 = 10;
/// So many times a run's time is given for scattered data to be brought together.
const MENDING_RUNS: u32 = 10;

pub struct Ageing {
    /// Reads of whole objects in order, 1 MiB at a time: bytes per second.
    pub fresh_read: f64,
    pub aged_read: f64,
    /// After some time of being read like that, while the store brings together what it finds scattered.
    pub mended_read: f64,
    pub mending: Duration,
    /// 4 KiB writes per second: the first and the last tenth of the overwrites.
    pub fresh_writes: f64,
    pub aged_writes: f64,
    /// Bytes to the device for each byte overwritten.
    pub amplification: f64,
}

pub fn run(arguments: &Arguments) -> Result<Ageing> {
    let device_bytes = arguments.age_bytes;
    let wal_bytes = (device_bytes / 16).max(8 << 20);
    let objects = (device_bytes - wal_bytes) / 4 * 3 / OBJECT_BYTES;
    let files = StoreFiles::one(&arguments.path, device_bytes);
    let mut store = StoreRun::new(&files, arguments, wal_bytes, objects)?;
    let pieces = objects * OBJECT_BYTES / MIB;
    store.run(Kind::WriteInOrder { bytes: MIB }, 8, Until::Operations(pieces))?;
    let fresh_read = read(&mut store, pieces)?;
    let writes = OVERWRITES * objects * OBJECT_BYTES / BLOCK;
    let anywhere = Kind::WriteAnywhere { bare: false };
    let first = store.run(anywhere, 32, Until::Operations(writes / 10))?;
    let middle = store.run(anywhere, 32, Until::Operations(writes / 10 * 8))?;
    let last = store.run(anywhere, 32, Until::Operations(writes / 10))?;
    let runs = [&first, &middle, &last];
    let written: u64 = runs.iter().map(|run| run.written_bytes).sum();
    let bytes: u64 = runs.iter().map(|run| run.bytes).sum();
    let aged_read = read(&mut store, pieces)?;
    let mending = arguments.time * MENDING_RUNS;
    store.run(Kind::ReadInOrder { bytes: MIB }, 1, Until::Time(mending))?;
    let mended_read = read(&mut store, pieces)?;
    let (fresh_writes, aged_writes) = (first.per_second(), last.per_second());
    eprintln!("{NAME}: {fresh_writes:.0} writes/s, then {aged_writes:.0}");
    Ok(Ageing {
        fresh_read,
        aged_read,
        mended_read,
        mending,
        fresh_writes,
        aged_writes,
        amplification: written as f64 / bytes as f64,
    })
}

/// All objects twice, in order. The cache, which never holds them all, does not help in that.
fn read(store: &mut StoreRun, pieces: u64) -> Result<f64> {
    store.settle(true)?;
    store.rewind();
    let run = store.run(Kind::ReadInOrder { bytes: MIB }, 8, Until::Operations(2 * pieces))?;
    Ok(run.per_second() * MIB as f64)
}

impl Ageing {
    pub fn to_json(&self) -> Value {
        json!({
            "fresh_read_bytes_per_second": self.fresh_read,
            "aged_read_bytes_per_second": self.aged_read,
            "mended_read_bytes_per_second": self.mended_read,
            "mending_seconds": self.mending.as_secs(),
            "fresh_writes_per_second": self.fresh_writes,
            "aged_writes_per_second": self.aged_writes,
            "bytes_written_per_byte": self.amplification,
        })
    }
}
