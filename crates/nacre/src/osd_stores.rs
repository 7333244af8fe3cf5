//! The stores of an OSD that does not run: one for each of its shards.

use anyhow::{Context, Result, bail};
use devices::{Division, StorePaths};
use offline::{FileDevice, OfflineStore};
use osd::Homes;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use types::PgId;

/// The device or file of the store: `path` itself, or the one in an OSD's directory.
fn device_path(path: &Path) -> Result<PathBuf> {
    let metadata = std::fs::metadata(path).with_context(|| format!("cannot look at {}", path.display()))?;
    if !metadata.is_dir() {
        return Ok(path.to_owned());
    }
    let block = path.join(crate::osd_daemon::STORE_FILE);
    if !block.exists() {
        bail!("{} holds no '{}': it is not the directory of an OSD", path.display(), crate::osd_daemon::STORE_FILE);
    }
    Ok(block)
}

/// The stores of an OSD: one for each of its shards.
pub struct Stores<'a> {
    path: &'a Path,
    paths: StorePaths,
    division: Division,
}

impl Stores<'_> {
    pub fn at(path: &Path) -> Result<Stores<'_>> {
        let paths = StorePaths::beside(&device_path(path)?);
        let division = Division::read(&paths).with_context(|| path.display().to_string())?;
        Ok(Stores { path, paths, division })
    }

    pub fn count(&self) -> usize {
        self.division.shards()
    }

    pub fn name(&self, shard: usize) -> String {
        match self.count() {
            1 => self.path.display().to_string(),
            _ => format!("{}, shard {shard}", self.path.display()),
        }
    }

    pub fn device(&self, shard: usize, read_only: bool) -> Result<FileDevice> {
        Ok(FileDevice::open_part(&self.paths, read_only, self.division, shard)?)
    }

    pub fn open(&self, shard: usize, read_only: bool) -> Result<OfflineStore<FileDevice>> {
        let store = OfflineStore::open(self.device(shard, read_only)?).with_context(|| self.name(shard))?;
        let (found, expected) = (store.label().slice, self.division.slice(shard));
        if found != expected {
            bail!("{}: it says that it is shard {} of {}", self.name(shard), found.index, found.count);
        }
        Ok(store)
    }

    /// The store that has the group; the first if none has.
    pub fn with_group(&self, pg: PgId) -> Result<OfflineStore<FileDevice>> {
        for shard in 0..self.count() {
            let store = self.open(shard, true)?;
            if store.store().pgs().contains(&pg) {
                return Ok(store);
            }
        }
        self.open(0, true)
    }

    /// The shard that a stream's groups belong to.
    pub fn shard_for(&self, stream: &Path) -> Result<usize> {
        if self.count() == 1 {
            return Ok(0);
        }
        let cannot = || format!("cannot read {}", stream.display());
        let groups = offline::groups_of_stream(io::BufReader::new(File::open(stream).with_context(cannot)?))
            .with_context(|| stream.display().to_string())?;
        let stored = |shard| Ok(self.open(shard, true)?.store().pgs());
        let stored = (0..self.count()).map(stored).collect::<Result<Vec<_>>>()?;
        let homes = Homes::found(&stored).with_context(|| self.path.display().to_string())?;
        let shards: BTreeSet<usize> = groups.iter().map(|pg| homes.for_import(*pg)).collect();
        match (shards.first(), shards.len()) {
            (Some(home), 1) => {
                for other in (0..self.count()).filter(|shard| shard != home) {
                    let input = io::BufReader::new(File::open(stream).with_context(cannot)?);
                    offline::check_beside(&mut self.open(other, true)?, input)?;
                }
                Ok(*home)
            }
            _ => bail!(
                "{}: its groups belong to {} shards of the OSD; import groups one by one",
                stream.display(),
                shards.len()
            ),
        }
    }

    /// Says which shard what follows is about, if there are several.
    pub fn head(&self, shard: usize, as_json: bool) {
        if self.count() > 1 && !as_json {
            println!("shard {shard} of {}:", self.count());
        }
    }

    /// The report on all shards as one; that of an only shard as it is.
    pub fn as_one_report(&self, mut of_shards: Vec<Value>, status: &str) -> Value {
        match self.count() {
            1 => of_shards.pop().unwrap_or(Value::Null),
            _ => together(of_shards, status),
        }
    }
}

/// Reports of several shards, with the sums of what all of them count.
fn together(of_shards: Vec<Value>, status: &str) -> Value {
    let mut report = json!({"status": status});
    for (name, value) in of_shards.first().and_then(Value::as_object).into_iter().flatten() {
        let counts: Option<Vec<u64>> = of_shards.iter().map(|shard| shard[name].as_u64()).collect();
        if let Some(counts) = counts.filter(|_| value.is_u64()) {
            report[name] = counts.iter().sum::<u64>().into();
        }
    }
    report["shards"] = of_shards.into();
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_shards_count_is_summed() {
        let shard = |objects: u64, status: &str| json!({"status": status, "objects": objects, "findings": []});
        let shards = vec![shard(3, "clean"), shard(4, "damaged")];
        let report = together(shards.clone(), "damaged");
        assert_eq!(report, json!({"status": "damaged", "objects": 7, "shards": shards}));
        assert_eq!(together(Vec::new(), "done"), json!({"status": "done", "shards": []}));
    }
}
