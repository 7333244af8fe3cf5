//! The command line.

use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::time::Duration;

const HELP: &str = "usage: store_vs_fio FILE [flags]
  --gib N         size of the store (16)
  --set-mib N     bytes of objects that are written and read (4096)
  --age-mib N     size of the store that is aged (1024)
  --age-percent N how full that one is (75)
  --seconds N     time of each run (4)
  --rounds N      runs of each row on either side (3)
  --memory-mib N  memory of an OSD that has such a store (1024; 112 is that of `nacre up`)
  --wal-dir DIR   where the file of a log apart is made: another drive (beside FILE)
  --metadata-dir DIR  the same of metadata apart
  --only TEXT     only rows whose names contain this
  --sparse        the store is on blocks that were never written, as in a new file of an OSD
  --quick         a small store, one short round: half a minute, for seeing that all works
  --json PATH     write all figures there too
  --overwrite     FILE may be a block device";

pub struct Arguments {
    pub path: PathBuf,
    pub store_bytes: u64,
    pub fio_bytes: u64,
    pub set_bytes: u64,
    pub age_bytes: u64,
    pub age_percent: u64,
    pub time: Duration,
    pub rounds: usize,
    pub memory_bytes: u64,
    pub wal_dir: Option<PathBuf>,
    pub metadata_dir: Option<PathBuf>,
    only: String,
    pub sparse: bool,
    pub json: Option<PathBuf>,
    pub overwrite: bool,
}

impl Arguments {
    /// Reads the command line. `None`: the user asked for help and got it.
    pub fn parse(mut args: impl Iterator<Item = String>) -> Result<Option<Arguments>> {
        let mut parsed = Arguments {
            path: PathBuf::new(),
            store_bytes: 16 << 30,
            fio_bytes: 2 << 30,
            set_bytes: 4 << 30,
            age_bytes: 1 << 30,
            age_percent: 75,
            time: Duration::from_secs(4),
            rounds: 3,
            memory_bytes: 1 << 30,
            wal_dir: None,
            metadata_dir: None,
            only: String::new(),
            sparse: false,
            json: None,
            overwrite: false,
        };
        let mut path = None;
        while let Some(arg) = args.next() {
            let mut value = || args.next().with_context(|| format!("{arg} needs a value"));
            let number = |text: String| text.parse::<u64>().with_context(|| format!("{text:?} is no number"));
            match arg.as_str() {
                "--help" | "-h" => {
                    println!("{HELP}");
                    return Ok(None);
                }
                "--gib" => parsed.store_bytes = number(value()?)? << 30,
                "--set-mib" => parsed.set_bytes = number(value()?)? << 20,
                "--age-mib" => parsed.age_bytes = number(value()?)? << 20,
                "--age-percent" => parsed.age_percent = number(value()?)?,
                "--seconds" => parsed.time = Duration::from_secs(number(value()?)?),
                "--rounds" => parsed.rounds = number(value()?)? as usize,
                "--memory-mib" => parsed.memory_bytes = number(value()?)? << 20,
                "--wal-dir" => parsed.wal_dir = Some(value()?.into()),
                "--metadata-dir" => parsed.metadata_dir = Some(value()?.into()),
                "--only" => parsed.only = value()?,
                "--sparse" => parsed.sparse = true,
                "--quick" => {
                    (parsed.store_bytes, parsed.fio_bytes) = (1 << 30, 256 << 20);
                    (parsed.set_bytes, parsed.age_bytes) = (256 << 20, 64 << 20);
                    (parsed.time, parsed.rounds) = (Duration::from_secs(1), 1);
                }
                "--json" => parsed.json = Some(value()?.into()),
                "--overwrite" => parsed.overwrite = true,
                flag if flag.starts_with('-') => bail!("unknown flag {flag}\n{HELP}"),
                name if path.is_none() => path = Some(PathBuf::from(name)),
                more => bail!("{more:?}: one FILE is enough\n{HELP}"),
            }
        }
        let Some(path) = path else { bail!("{HELP}") };
        parsed.path = path;
        if parsed.rounds == 0 || parsed.time.is_zero() {
            bail!("nothing can be measured in no time");
        }
        if parsed.set_bytes < 16 << 20 || parsed.set_bytes > parsed.store_bytes / 2 {
            bail!("the objects take at least 16 MiB and at most half of the store");
        }
        if parsed.age_bytes < 64 << 20 || parsed.age_bytes > parsed.store_bytes {
            bail!("the store that is aged takes at least 64 MiB and at most as much as the other");
        }
        if parsed.memory_bytes < osd::MEMORY_BYTES_MIN {
            bail!("an OSD has 64 MiB of memory at least");
        }
        if !(1..=95).contains(&parsed.age_percent) {
            bail!("the store that is aged is 1 to 95 % full");
        }
        Ok(Some(parsed))
    }

    pub fn wants(&self, row: &str) -> bool {
        row.contains(&self.only)
    }
}
