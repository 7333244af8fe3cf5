//! Measures a store that is three quarters full: before its data is overwritten, after all of it was overwritten ten
//! times in small pieces, and after the store was then left alone for half a minute at most. fio measures the drive
//! itself behind the store's part, because earlier writes may slow the drive down.

use crate::arguments::Arguments;
use crate::driver::{StoreRun, Until};
use crate::files::StoreFiles;
use crate::fio::{Fio, Job};
use crate::workload::{BLOCK, Kind, MIB, OBJECT_BYTES};
use anyhow::Result;
use serde_json::{Value, json};
use std::time::Duration;

pub const NAME: &str = "ageing";

const OVERWRITES: u64 = 10;
/// The longest time for which the store is left alone.
const REST_MAX: Duration = Duration::from_secs(30);
const DRIVE_TIME: Duration = Duration::from_secs(5);

pub struct Ageing {
    /// Reads of whole objects in order, 1 MiB at a time: bytes per second.
    pub fresh_read: f64,
    pub aged_read: f64,
    /// Reads after the store was left alone, in the same unit.
    pub rested_read: f64,
    /// 4 KiB writes per second: in the first tenth of the overwrites, in the last tenth, and in as many more after the
    /// rest.
    pub fresh_writes: f64,
    pub aged_writes: f64,
    pub rested_writes: f64,
    /// fio's 4 KiB writes per second, measured just before each of the three figures above.
    pub drive_writes: [f64; 3],
    /// Bytes written to the device for each byte overwritten.
    pub amplification: f64,
    /// The time for which the store was left alone, and the bytes that it wrote in that time for each byte overwritten
    /// before.
    pub rest: Duration,
    pub rest_amplification: f64,
}

pub fn run(arguments: &Arguments, fio: &Fio) -> Result<Ageing> {
    let device_bytes = arguments.age_bytes;
    let wal_bytes = (device_bytes / 16).max(8 << 20);
    let objects = (device_bytes - wal_bytes) * arguments.age_percent / 100 / OBJECT_BYTES;
    let files = StoreFiles::one(&arguments.path, device_bytes);
    let mut store = StoreRun::new(&files, arguments, wal_bytes, objects)?;
    let pieces = objects * OBJECT_BYTES / MIB;
    store.run(Kind::WriteInOrder { bytes: MIB }, 8, Until::Operations(pieces))?;
    let fresh_read = read(&mut store, pieces)?;
    let drive_fresh = drive_writes(fio)?;
    let writes = OVERWRITES * objects * OBJECT_BYTES / BLOCK;
    let anywhere = Kind::WriteAnywhere { bare: false };
    let first = store.run(anywhere, 32, Until::Operations(writes / 10))?;
    let middle = store.run(anywhere, 32, Until::Operations(writes / 10 * 8))?;
    store.settle(false)?;
    let drive_aged = drive_writes(fio)?;
    let last = store.run(anywhere, 32, Until::Operations(writes / 10))?;
    let runs = [&first, &middle, &last];
    let written: u64 = runs.iter().map(|run| run.written_bytes).sum();
    let bytes: u64 = runs.iter().map(|run| run.bytes).sum();
    let aged_read = read(&mut store, pieces)?;
    let (rest, rest_bytes) = store.rest(REST_MAX)?;
    let rested_read = read(&mut store, pieces)?;
    let drive_rested = drive_writes(fio)?;
    let rested = store.run(anywhere, 32, Until::Operations(writes / 10))?;
    let result = Ageing {
        fresh_read,
        aged_read,
        rested_read,
        fresh_writes: first.per_second(),
        aged_writes: last.per_second(),
        rested_writes: rested.per_second(),
        drive_writes: [drive_fresh, drive_aged, drive_rested],
        amplification: written as f64 / bytes as f64,
        rest,
        rest_amplification: rest_bytes as f64 / bytes as f64,
    };
    let Ageing { fresh_writes, aged_writes, rested_writes, .. } = result;
    eprintln!("{NAME}: {fresh_writes:.0} writes/s, then {aged_writes:.0}, rested {rested_writes:.0}");
    Ok(result)
}

/// 4 KiB writes per second of the drive without a store: 32 at a time, with a flush behind each 32.
fn drive_writes(fio: &Fio) -> Result<f64> {
    let job =
        Job { mode: "randwrite", block_bytes: BLOCK, depth: 32, flush_every: 32, in_batches: true, time: DRIVE_TIME };
    Ok(fio.run(&job)?.per_second)
}

/// Reads all objects twice, in order. The cache never holds all of them, so it does not help.
fn read(store: &mut StoreRun, pieces: u64) -> Result<f64> {
    store.settle(false)?;
    store.rewind();
    let run = store.run(Kind::ReadInOrder { bytes: MIB }, 8, Until::Operations(2 * pieces))?;
    Ok(run.per_second() * MIB as f64)
}

impl Ageing {
    pub fn to_json(&self) -> Value {
        json!({
            "fresh_read_bytes_per_second": self.fresh_read,
            "aged_read_bytes_per_second": self.aged_read,
            "rested_read_bytes_per_second": self.rested_read,
            "fresh_writes_per_second": self.fresh_writes,
            "aged_writes_per_second": self.aged_writes,
            "rested_writes_per_second": self.rested_writes,
            "drive_writes_per_second": self.drive_writes,
            "bytes_written_per_byte": self.amplification,
            "rest_seconds": self.rest.as_secs_f64(),
            "bytes_written_in_rest_per_byte": self.rest_amplification,
        })
    }
}
