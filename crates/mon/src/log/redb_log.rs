//! The log in a redb file.
//!
//! Tables: `meta` (`format` → u32 little-endian; `fsid` → 16 bytes; `name`; `server` → u64 little-endian; `vote` →
//! record), `entries` (index → record of a log entry), `states` (index → record of a snapshot; one row, or none before
//! the first). A record is a `u32` crc32c (seed -1) of the bytes behind it, little-endian, then the encoded value.
//!
//! Format 1, of monitors that were alone, had `log` (index → record of a batch) and `snapshot` (index → record of a
//! state) instead. A store of format 1 is turned into this one when it is opened (`upgrade.rs`).

use super::{Identity, Loaded, LogError, MemberLog, page_cache, upgrade};
use bytes::Bytes;
use raft::{Entry, Persist, ServerId, Snapshot, Stored, Vote};
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use types::{Fsid, crc32c};
use wire::{Decode, Encode, Reader, Target, Writer};

pub(super) const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");
const ENTRIES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("entries");
const STATES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("states");

/// Number of the layout that the module's documentation describes.
const FORMAT: u32 = 2;
/// Bytes of redb's page cache: few, because the log is written once and read at start.
const CACHE_BYTES: usize = 4 << 20;

/// A [`MemberLog`] in one file.
#[derive(Debug)]
pub struct RedbLog {
    db: Database,
    path: PathBuf,
}

impl RedbLog {
    /// Makes a new log at `path` that begins with `stored`. It has everybody's keys: nobody but the owner may ever read
    /// it.
    ///
    /// Errors: [`LogError::Exists`] if something is there already; it is left alone.
    pub fn create(path: &Path, identity: &Identity, stored: &Stored) -> Result<RedbLog, LogError> {
        let file = std::fs::OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path);
        let file = file.map_err(|e| match e.kind() {
            std::io::ErrorKind::AlreadyExists => LogError::Exists { path: path.display().to_string() },
            _ => open_error(path, e),
        })?;
        let backend = redb::backends::FileBackend::new(file).map_err(|e| open_error(path, e))?;
        let db = redb::Builder::new().set_cache_size(CACHE_BYTES).create_with_backend(backend);
        let log = RedbLog { db: db.map_err(|e| open_error(path, e))?, path: path.to_owned() };
        log.transact(|txn| begin(txn, identity, stored))?;
        // The file's name must be as durable as its later content.
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::File::open(folder).and_then(|dir| dir.sync_all()).map_err(|e| open_error(path, e))?;
        Ok(log)
    }

    /// Opens the log at `path`, in whatever known format it is. Only one process can have it open.
    pub fn open(path: &Path) -> Result<RedbLog, LogError> {
        if !path.exists() {
            return Err(LogError::NotAStore { path: path.display().to_string() });
        }
        page_cache::forget_cached(path).map_err(|e| open_error(path, e))?;
        let db = redb::Builder::new().set_cache_size(CACHE_BYTES).open(path).map_err(|e| open_error(path, e))?;
        let log = RedbLog { db, path: path.to_owned() };
        let found = log.meta("format")?.and_then(|v| v.as_slice().try_into().ok()).map(u32::from_le_bytes);
        match found {
            Some(FORMAT) => Ok(log),
            Some(upgrade::FORMAT_1) => {
                let (identity, stored) = log.read(|txn| Ok(upgrade::from_format_1(txn)))??;
                log.transact(|txn| {
                    upgrade::drop_format_1(txn)?;
                    begin(txn, &identity, &stored)
                })?;
                Ok(log)
            }
            Some(found) if found > FORMAT => Err(LogError::TooNew { found, known: FORMAT }),
            _ => Err(LogError::Damaged(format!("{} names no known format", path.display()))),
        }
    }

    /// Makes it another log, which begins with `stored`, in one step.
    pub fn replace(&self, identity: &Identity, stored: &Stored) -> Result<(), LogError> {
        self.transact(|txn| {
            txn.delete_table(ENTRIES)?;
            txn.delete_table(STATES)?;
            begin(txn, identity, stored)
        })
    }

    fn meta(&self, key: &str) -> Result<Option<Vec<u8>>, LogError> {
        self.read(|txn| Ok(txn.open_table(META)?.get(key)?.map(|v| v.value().to_vec())))
    }

    fn transact(&self, f: impl FnOnce(&WriteTransaction) -> Result<(), redb::Error>) -> Result<(), LogError> {
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

    fn identity(&self) -> Result<Identity, LogError> {
        let lacks = |what: &str| LogError::Damaged(format!("{} does not say its {what}", self.path.display()));
        let fsid = self.meta("fsid")?.and_then(|v| v.try_into().ok()).ok_or_else(|| lacks("cluster"))?;
        let name = self.meta("name")?.and_then(|v| String::from_utf8(v).ok()).ok_or_else(|| lacks("name"))?;
        let server = self.meta("server")?.and_then(|v| v.try_into().ok()).ok_or_else(|| lacks("number"))?;
        Ok(Identity { fsid: Fsid(fsid), name, server: ServerId(u64::from_le_bytes(server)) })
    }
}

fn open_error(path: &Path, e: impl std::fmt::Display) -> LogError {
    LogError::Open { path: path.display().to_string(), reason: e.to_string() }
}

/// Writes everything that a log begins with.
fn begin(txn: &WriteTransaction, identity: &Identity, stored: &Stored) -> Result<(), redb::Error> {
    {
        let mut meta = txn.open_table(META)?;
        meta.insert("format", FORMAT.to_le_bytes().as_slice())?;
        meta.insert("fsid", identity.fsid.0.as_slice())?;
        meta.insert("name", identity.name.as_bytes())?;
        meta.insert("server", identity.server.0.to_le_bytes().as_slice())?;
    }
    txn.open_table(ENTRIES)?;
    txn.open_table(STATES)?;
    apply(txn, &Persist::Vote(stored.vote))?;
    if let Some(snapshot) = &stored.snapshot {
        apply(txn, &Persist::Snapshot { snapshot: snapshot.clone(), keep_from: None })?;
    }
    apply(txn, &Persist::Entries(stored.entries.clone()))
}

fn apply(txn: &WriteTransaction, write: &Persist) -> Result<(), redb::Error> {
    match write {
        Persist::Vote(vote) => drop(txn.open_table(META)?.insert("vote", record(&encode_vote(vote)).as_slice())?),
        Persist::Entries(entries) => {
            let mut table = txn.open_table(ENTRIES)?;
            if let Some(first) = entries.first() {
                table.retain_in(first.position.index.., |_, _| false)?;
            }
            for entry in entries {
                table.insert(entry.position.index, record(&entry.to_vec(Target::PACIFIC)).as_slice())?;
            }
        }
        Persist::Snapshot { snapshot, keep_from } => {
            let mut states = txn.open_table(STATES)?;
            states.retain(|_, _| false)?;
            states.insert(snapshot.last.index, record(&snapshot.to_vec(Target::PACIFIC)).as_slice())?;
            let mut entries = txn.open_table(ENTRIES)?;
            entries.retain(|at, _| keep_from.is_some_and(|from| at >= from))?;
        }
    }
    Ok(())
}

fn encode_vote(vote: &Vote) -> Vec<u8> {
    let mut w = Writer::new(Target::PACIFIC);
    w.u64(vote.term);
    w.put(&vote.voted_for);
    w.into_vec()
}

pub(super) fn record(body: &[u8]) -> Vec<u8> {
    let mut out = crc32c::update(u32::MAX, body).to_le_bytes().to_vec();
    out.extend_from_slice(body);
    out
}

pub(super) fn checked(what: &str, index: u64, record: &[u8]) -> Result<Bytes, LogError> {
    let Some((crc, body)) = record.split_first_chunk::<4>() else {
        return Err(LogError::Damaged(format!("{what} {index} is cut short")));
    };
    if crc32c::update(u32::MAX, body) != u32::from_le_bytes(*crc) {
        return Err(LogError::Damaged(format!("{what} {index} does not match its checksum")));
    }
    Ok(Bytes::copy_from_slice(body))
}

fn decoded<T: Decode>(what: &str, index: u64, record: &[u8]) -> Result<T, LogError> {
    let body = checked(what, index, record)?;
    T::from_slice(&body).map_err(|e| LogError::Damaged(format!("{what} {index} does not decode: {e}")))
}

/// Returns all rows of a table, in order.
pub(super) fn rows(
    txn: &redb::ReadTransaction,
    table: TableDefinition<'_, u64, &[u8]>,
) -> Result<Vec<(u64, Vec<u8>)>, redb::Error> {
    let table = txn.open_table(table)?;
    let mut rows = Vec::new();
    for row in table.iter()? {
        let (index, record) = row?;
        rows.push((index.value(), record.value().to_vec()));
    }
    Ok(rows)
}

impl MemberLog for RedbLog {
    fn load(&mut self) -> Result<Loaded, LogError> {
        let identity = self.identity()?;
        let vote = self.meta("vote")?.ok_or_else(|| LogError::Damaged("no vote is there".to_owned()))?;
        let vote = checked("vote", 0, &vote)?;
        let mut r = Reader::shared(&vote);
        let decode = |r: &mut Reader<'_>| Ok(Vote { term: r.u64()?, voted_for: r.get()? });
        let vote = decode(&mut r).map_err(|e: wire::DecodeError| LogError::Damaged(format!("vote: {e}")))?;
        let (states, records) = self.read(|txn| Ok((rows(txn, STATES)?, rows(txn, ENTRIES)?)))?;
        let mut stored = Stored { vote, ..Stored::default() };
        if let Some((index, record)) = states.last() {
            let snapshot: Snapshot = decoded("snapshot", *index, record)?;
            stored.snapshot = Some(snapshot);
        }
        for (index, record) in records {
            let entry: Entry = decoded("entry", index, &record)?;
            if entry.position.index != index {
                return Err(LogError::Damaged(format!("entry {} stands at {index}", entry.position)));
            }
            stored.entries.push(entry);
        }
        Ok(Loaded { identity, stored })
    }

    fn write(&mut self, writes: &[Persist]) -> Result<(), LogError> {
        self.transact(|txn| writes.iter().try_for_each(|write| apply(txn, write)))
    }
}

#[cfg(test)]
mod tests;
