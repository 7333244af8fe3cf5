//! Measures small writes to stores whose log, or whose log and metadata, lie in files of their own. A store in one file
//! is measured in turns with them.

use crate::Scratch;
use crate::arguments::Arguments;
use crate::driver::{StoreRun, Until};
use crate::files::StoreFiles;
use crate::fio::Fio;
use crate::measure::{Latencies, Measured, median};
use crate::workload::{Kind, MIB, OBJECT_BYTES};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use store::StoreConfig;

pub const NAME: &str = "second-device";

const LAYOUTS: [&str; 3] = ["one file", "log apart", "log and metadata apart"];

/// The runs of each layout.
pub struct SecondDevice([Vec<Measured>; LAYOUTS.len()]);

/// Bytes for the metadata tree. The tree stays far smaller.
const METADATA_BYTES: u64 = 256 << 20;

pub fn run(arguments: &Arguments) -> Result<SecondDevice> {
    let device_bytes = arguments.age_bytes;
    let wal_bytes = (device_bytes / 16).max(8 << 20);
    let objects = (device_bytes - wal_bytes) / 4 / OBJECT_BYTES;
    let beside = arguments.path.parent().context("FILE has no directory")?;
    let mut scratch = Vec::new();
    let mut file = |dir: Option<&Path>, name: &str, bytes: u64| -> Result<PathBuf> {
        let path = dir.unwrap_or(beside).join(format!("store-bench-{name}.img"));
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        let file = file.with_context(|| format!("making {}", path.display()))?;
        scratch.push(Scratch(Some(path.clone())));
        file.set_len(bytes)?;
        if !arguments.sparse {
            Fio { path: path.clone(), offset: 0, len: bytes }.lay_out()?;
        }
        Ok(path)
    };
    let log_bytes = wal_bytes + StoreConfig::LABEL_BYTES;
    let (log_dir, metadata_dir) = (arguments.wal_dir.as_deref(), arguments.metadata_dir.as_deref());
    let log_apart = StoreFiles {
        main: file(None, "main-1", device_bytes)?,
        wal: Some(file(log_dir, "wal-1", log_bytes)?),
        metadata: None,
        device_bytes,
        metadata_bytes: 0,
    };
    let both_apart = StoreFiles {
        main: file(None, "main-2", device_bytes)?,
        wal: Some(file(log_dir, "wal-2", log_bytes)?),
        metadata: Some(file(metadata_dir, "metadata-2", METADATA_BYTES)?),
        device_bytes,
        metadata_bytes: METADATA_BYTES,
    };
    let mut stores = Vec::new();
    for files in [&StoreFiles::one(&arguments.path, device_bytes), &log_apart, &both_apart] {
        let mut store = StoreRun::new(files, arguments, wal_bytes, objects)?;
        store.run(Kind::WriteInOrder { bytes: MIB }, 8, Until::Operations(objects * OBJECT_BYTES / MIB))?;
        store.settle(true)?;
        stores.push(store);
    }
    let mut runs = [Vec::new(), Vec::new(), Vec::new()];
    for round in 0..arguments.rounds {
        for turn in 0..LAYOUTS.len() {
            let which = (round + turn) % LAYOUTS.len();
            let kind = Kind::WriteAnywhere { bare: false };
            runs[which].push(stores[which].run(kind, 32, Until::Time(arguments.time))?);
            stores[which].settle(false)?;
        }
    }
    let result = SecondDevice(runs);
    for (at, layout) in LAYOUTS.into_iter().enumerate() {
        eprintln!("{NAME}: {:.0} writes/s, {layout}", result.rate(at));
    }
    Ok(result)
}

impl SecondDevice {
    fn rate(&self, layout: usize) -> f64 {
        median(self.0[layout].iter().map(Measured::per_second))
    }

    /// The rate of a layout divided by the rate of the store in one file: the median of the rounds.
    fn ratio(&self, layout: usize) -> f64 {
        let pairs = self.0[0].iter().zip(&self.0[layout]);
        median(pairs.map(|(one, apart)| apart.per_second() / one.per_second()))
    }

    /// p50, p99 and p99.9 of a layout's writes, in microseconds.
    fn latencies(&self, layout: usize) -> [u32; 3] {
        let mut all = Latencies::default();
        self.0[layout].iter().for_each(|run| all.extend(&run.latencies));
        [500, 990, 999].map(|mille| all.per_mille(mille).unwrap_or(0))
    }

    pub fn print(&self) {
        println!("\n| 4 KiB random writes | IOPS | of one file | latency p50, p99, p99.9, us |\n|---|---|---|---|");
        for (at, layout) in LAYOUTS.into_iter().enumerate() {
            let [p50, p99, p999] = self.latencies(at);
            println!("| {layout} | {:.0} | **{:.2}** | {p50}, {p99}, {p999} |", self.rate(at), self.ratio(at));
        }
    }

    pub fn to_json(&self) -> Value {
        let layouts = LAYOUTS.iter().enumerate().map(|(at, layout)| {
            json!({
                "layout": layout,
                "per_second": self.0[at].iter().map(Measured::per_second).collect::<Vec<_>>(),
                "of_one_file": self.ratio(at),
                "latency_us_p50_p99_p999": self.latencies(at),
            })
        });
        Value::Array(layouts.collect())
    }
}
