//! The log in a redb file.
//!
//! Tables: `meta` (`format` → u32 little-endian), `log` (index → record), `snapshot` (index → record; one row).
//! A record is a `u32` crc32c (seed -1) of what follows it, little-endian, then the encoded batch or state.

use super::{Loaded, LogError, MapLog};
use bytes::Bytes;
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};
use std::path::{Path, PathBuf};
use types::crc32c;

const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");
const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");
const SNAPSHOT: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("snapshot");

/// The layout described above.
const FORMAT: u32 = 1;
/// redb's page cache: the log is written once and read at start.
const CACHE_BYTES: usize = 4 << 20;

/// A [`MapLog`] in one file.
#[derive(Debug)]
pub struct RedbLog {
    db: Database,
    path: PathBuf,
}

impl RedbLog {
    /// Makes a new, empty log at `path`.
    ///
    /// Errors: [`LogError::Exists`] if something is there already; it is left alone.
    pub fn create(path: &Path) -> Result<RedbLog, LogError> {
        let file = std::fs::OpenOptions::new().read(true).write(true).create_new(true).open(path);
        let file = file.map_err(|e| match e.kind() {
            std::io::ErrorKind::AlreadyExists => LogError::Exists { path: path.display().to_string() },
            _ => open_error(path, e),
        })?;
        let backend = redb::backends::FileBackend::new(file).map_err(|e| open_error(path, e))?;
        let db = redb::Builder::new().set_cache_size(CACHE_BYTES).create_with_backend(backend);
        let log = RedbLog { db: db.map_err(|e| open_error(path, e))?, path: path.to_owned() };
        log.write(|txn| {
            txn.open_table(META)?.insert("format", FORMAT.to_le_bytes().as_slice())?;
            txn.open_table(LOG)?;
            txn.open_table(SNAPSHOT)?;
            Ok(())
        })?;
        // The file's name must be as durable as what will be written to it.
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::File::open(folder).and_then(|dir| dir.sync_all()).map_err(|e| open_error(path, e))?;
        Ok(log)
    }

    /// Opens the log at `path`. Only one process can have it open.
    pub fn open(path: &Path) -> Result<RedbLog, LogError> {
        if !path.exists() {
            return Err(LogError::NotAStore { path: path.display().to_string() });
        }
        let db = redb::Builder::new().set_cache_size(CACHE_BYTES).open(path).map_err(|e| open_error(path, e))?;
        let log = RedbLog { db, path: path.to_owned() };
        let found = log.read(|txn| {
            let meta = txn.open_table(META)?;
            Ok(meta.get("format")?.and_then(|v| v.value().try_into().ok()).map(u32::from_le_bytes))
        })?;
        match found {
            Some(FORMAT) => Ok(log),
            Some(found) if found > FORMAT => Err(LogError::TooNew { found, known: FORMAT }),
            _ => Err(LogError::Damaged(format!("{} names no known format", path.display()))),
        }
    }

    fn write(&self, f: impl FnOnce(&redb::WriteTransaction) -> Result<(), redb::Error>) -> Result<(), LogError> {
        let run = || -> Result<(), redb::Error> {
            let mut txn = self.db.begin_write()?;
            txn.set_durability(Durability::Immediate)?;
            f(&txn)?;
            Ok(txn.commit()?)
        };
        run().map_err(|e| LogError::Write(e.to_string()))
    }

    fn read<T>(&self, f: impl FnOnce(&redb::ReadTransaction) -> Result<T, redb::Error>) -> Result<T, LogError> {
        let run = || -> Result<T, redb::Error> { f(&self.db.begin_read()?) };
        run().map_err(|e| LogError::Damaged(format!("{}: {e}", self.path.display())))
    }
}

fn open_error(path: &Path, e: impl std::fmt::Display) -> LogError {
    LogError::Open { path: path.display().to_string(), reason: e.to_string() }
}

fn record(body: &[u8]) -> Vec<u8> {
    let mut out = crc32c::update(u32::MAX, body).to_le_bytes().to_vec();
    out.extend_from_slice(body);
    out
}

fn checked(what: &str, index: u64, record: &[u8]) -> Result<Bytes, LogError> {
    let Some((crc, body)) = record.split_first_chunk::<4>() else {
        return Err(LogError::Damaged(format!("{what} {index} is cut short")));
    };
    if crc32c::update(u32::MAX, body) != u32::from_le_bytes(*crc) {
        return Err(LogError::Damaged(format!("{what} {index} does not match its checksum")));
    }
    Ok(Bytes::copy_from_slice(body))
}

impl MapLog for RedbLog {
    fn load(&mut self) -> Result<Loaded, LogError> {
        let (snapshot, records) = self.read(|txn| {
            let snapshot = txn.open_table(SNAPSHOT)?;
            let snapshot = snapshot.last()?.map(|(index, record)| (index.value(), record.value().to_vec()));
            let log = txn.open_table(LOG)?;
            let mut records = Vec::new();
            for row in log.iter()? {
                let (index, record) = row?;
                records.push((index.value(), record.value().to_vec()));
            }
            Ok((snapshot, records))
        })?;
        let mut loaded = Loaded::default();
        let mut next = 1;
        if let Some((index, record)) = snapshot {
            loaded.snapshot = Some((index, checked("snapshot", index, &record)?));
            next = index + 1;
        }
        for (index, record) in records {
            if index != next {
                return Err(LogError::Damaged(format!("batch {next} is missing, {index} follows")));
            }
            loaded.batches.push((index, checked("batch", index, &record)?));
            next += 1;
        }
        Ok(loaded)
    }

    fn append(&mut self, index: u64, batch: &[u8]) -> Result<(), LogError> {
        self.write(|txn| {
            let mut log = txn.open_table(LOG)?;
            let taken = log.insert(index, record(batch).as_slice())?.is_some();
            assert!(!taken, "batch {index} was appended before");
            Ok(())
        })
    }

    fn snapshot(&mut self, index: u64, state: &[u8]) -> Result<(), LogError> {
        self.write(|txn| {
            let mut snapshots = txn.open_table(SNAPSHOT)?;
            snapshots.retain(|_, _| false)?;
            snapshots.insert(index, record(state).as_slice())?;
            txn.open_table(LOG)?.retain(|at, _| at > index)?;
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that goes away with the value.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("nacre-mon-log-{name}-{}", std::process::id()));
            let _ = std::fs::remove_file(&path);
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn what_was_appended_is_loaded_again() {
        let file = Scratch::new("load");
        let mut log = RedbLog::create(&file.0).unwrap();
        assert_eq!(log.load().unwrap(), Loaded::default());
        for index in 1..=5 {
            log.append(index, format!("batch {index}").as_bytes()).unwrap();
        }
        log.snapshot(3, b"state").unwrap();
        log.append(6, b"batch 6").unwrap();
        drop(log);
        let loaded = RedbLog::open(&file.0).unwrap().load().unwrap();
        assert_eq!(loaded.snapshot, Some((3, Bytes::from_static(b"state"))));
        let batches: Vec<_> = loaded.batches.iter().map(|(i, b)| (*i, std::str::from_utf8(b).unwrap())).collect();
        assert_eq!(batches, [(4, "batch 4"), (5, "batch 5"), (6, "batch 6")]);
    }

    #[test]
    fn damage_and_strangers_are_told_apart() {
        let file = Scratch::new("damage");
        assert!(matches!(RedbLog::open(&file.0), Err(LogError::NotAStore { .. })));
        std::fs::write(&file.0, b"something else entirely").unwrap();
        assert!(matches!(RedbLog::open(&file.0), Err(LogError::Open { .. })));
        assert!(matches!(RedbLog::create(&file.0), Err(LogError::Exists { .. })));
        std::fs::remove_file(&file.0).unwrap();

        let mut log = RedbLog::create(&file.0).unwrap();
        assert!(matches!(RedbLog::open(&file.0), Err(LogError::Open { .. })), "two processes at once");
        log.append(1, b"one").unwrap();
        log.append(3, b"three").unwrap();
        assert!(matches!(log.load(), Err(LogError::Damaged(_))), "a gap");
        log.write(|txn| {
            let mut table = txn.open_table(LOG)?;
            table.remove(3)?;
            table.insert(1, b"xxxxone".as_slice())?;
            Ok(())
        })
        .unwrap();
        assert!(matches!(log.load(), Err(LogError::Damaged(_))), "a checksum");
        log.write(|txn| {
            txn.open_table(META)?.insert("format", 9u32.to_le_bytes().as_slice())?;
            Ok(())
        })
        .unwrap();
        drop(log);
        assert!(matches!(RedbLog::open(&file.0), Err(LogError::TooNew { found: 9, known: 1 })));
    }
}
