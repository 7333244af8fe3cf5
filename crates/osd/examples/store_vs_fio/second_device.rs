//! Small writes to a store whose log and metadata have files of their own, in turns with a store that is one file.

use crate::Scratch;
use crate::arguments::Arguments;
use crate::driver::{StoreRun, Until};
use crate::files::StoreFiles;
use crate::fio::Fio;
use crate::measure::{Measured, median};
use crate::workload::{Kind, MIB, OBJECT_BYTES};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::path::PathBuf;
use store::StoreConfig;

pub const NAME: &str = "second-device";

pub struct SecondDevice {
    one: Vec<Measured>,
    several: Vec<Measured>,
}

/// Bytes for the metadata tree, which stays far below that.
const METADATA_BYTES: u64 = 256 << 20;

pub fn run(arguments: &Arguments) -> Result<SecondDevice> {
    let device_bytes = arguments.age_bytes;
    let wal_bytes = (device_bytes / 16).max(8 << 20);
    let objects = (device_bytes - wal_bytes) / 4 / OBJECT_BYTES;
    let beside = |name: &str| -> Result<PathBuf> {
        let parent = arguments.second.clone().or_else(|| Some(arguments.path.parent()?.to_owned()));
        Ok(parent.context("FILE has no directory")?.join(format!("store-bench-{name}.img")))
    };
    let (wal, metadata, main) = (beside("wal")?, beside("metadata")?, arguments.path.with_extension("data"));
    let mut scratch = Vec::new();
    let sizes = [(&wal, wal_bytes + StoreConfig::LABEL_BYTES), (&metadata, METADATA_BYTES), (&main, device_bytes)];
    for (path, bytes) in sizes {
        let file = OpenOptions::new().write(true).create_new(true).open(path);
        let file = file.with_context(|| format!("making {}", path.display()))?;
        scratch.push(Scratch(Some(path.clone())));
        file.set_len(bytes)?;
        if !arguments.sparse {
            Fio { path: path.clone(), offset: 0, len: bytes }.lay_out()?;
        }
    }
    let files =
        StoreFiles { main, device_bytes, wal: Some(wal), metadata: Some(metadata), metadata_bytes: METADATA_BYTES };
    let one = StoreFiles::one(&arguments.path, device_bytes);
    let mut stores = Vec::new();
    for files in [&one, &files] {
        let mut store = StoreRun::new(files, arguments, wal_bytes, objects)?;
        store.run(Kind::WriteInOrder { bytes: MIB }, 8, Until::Operations(objects * OBJECT_BYTES / MIB))?;
        store.settle(true)?;
        stores.push(store);
    }
    let mut runs = [Vec::new(), Vec::new()];
    for round in 0..arguments.rounds {
        for turn in 0..2 {
            let which = (round + turn) % 2;
            let kind = Kind::WriteAnywhere { bare: false };
            runs[which].push(stores[which].run(kind, 32, Until::Time(arguments.time))?);
            stores[which].settle(false)?;
        }
    }
    let [one, several] = runs;
    let result = SecondDevice { one, several };
    let (one, several) = result.rates();
    eprintln!("{NAME}: {one:.0} writes/s on one file, {several:.0} on three");
    Ok(result)
}

impl SecondDevice {
    /// Writes per second on one file and on several.
    pub fn rates(&self) -> (f64, f64) {
        let rate = |runs: &[Measured]| median(runs.iter().map(Measured::per_second));
        (rate(&self.one), rate(&self.several))
    }

    /// Several over one, the median of the rounds.
    pub fn ratio(&self) -> f64 {
        median(self.one.iter().zip(&self.several).map(|(one, several)| several.per_second() / one.per_second()))
    }

    pub fn to_json(&self) -> Value {
        let rates = |runs: &[Measured]| runs.iter().map(Measured::per_second).collect::<Vec<_>>();
        json!({
            "one_per_second": rates(&self.one),
            "several_per_second": rates(&self.several),
            "ratio": self.ratio(),
        })
    }
}
