//! The way from the store of a monitor that was alone (format 1) to that of a member, the only one for now.

use super::redb_log::{META, checked, rows};
use super::{Identity, LogError};
use crate::state::MonState;
use crate::update::{Batch, Update};
use raft::{Membership, ServerId, Snapshot, Stored};
use redb::{TableDefinition, WriteTransaction};
use wire::{Decode, Encode, Target};

/// Number of the layout in the store of a monitor that was alone.
pub(super) const FORMAT_1: u32 = 1;

/// Format 1: index → record of a batch.
const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");
/// Format 1: index → record of a state; one row at most.
const SNAPSHOT: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("snapshot");

/// Returns the beginning of a log of the present format in place of one of format 1: the state after all its batches,
/// as the snapshot that a cluster of one member begins with. Changes nothing.
///
/// The server's number comes from the cluster's id: a copy of the same store is the same server.
pub(super) fn from_format_1(txn: &redb::ReadTransaction) -> Result<(Identity, Stored), LogError> {
    let mut state = state_of_format_1(txn)?;
    let Some(monitor) = state.monmap.by_rank().next().cloned() else {
        return Err(LogError::Damaged("its monitor map names nobody".to_owned()));
    };
    let server = u64::from_le_bytes(state.fsid.0[..8].try_into().expect("8 of 16 bytes"));
    let update = Update::MonServer { name: monitor.name.clone(), server, addrs: monitor.addrs };
    state.apply(state.applied + 1, &Batch { stamp: state.stamp, updates: vec![update] });
    let identity = Identity { fsid: state.fsid, name: monitor.name, server: ServerId(server) };
    let membership = Membership::of_voters([identity.server]);
    let stored = Stored::first(Snapshot::first(membership, state.to_vec(Target::PACIFIC).into()));
    Ok((identity, stored))
}

fn state_of_format_1(txn: &redb::ReadTransaction) -> Result<MonState, LogError> {
    let read = |table| rows(txn, table).map_err(|e| LogError::Damaged(e.to_string()));
    let undecodable = |what: &str, index: u64, e| LogError::Damaged(format!("{what} {index} does not decode: {e}"));
    let mut state = MonState::default();
    if let Some((index, record)) = read(SNAPSHOT)?.last() {
        let bytes = checked("snapshot", *index, record)?;
        state = MonState::from_slice(&bytes).map_err(|e| undecodable("snapshot", *index, e))?;
    }
    for (index, record) in read(LOG)? {
        if index != state.applied + 1 {
            let next = state.applied + 1;
            return Err(LogError::Damaged(format!("batch {next} is missing, {index} follows")));
        }
        let bytes = checked("batch", index, &record)?;
        let batch = Batch::from_slice(&bytes).map_err(|e| undecodable("batch", index, e))?;
        state.apply(index, &batch);
    }
    Ok(state)
}

/// Removes the tables that only format 1 has.
pub(super) fn drop_format_1(txn: &WriteTransaction) -> Result<(), redb::Error> {
    txn.delete_table(LOG)?;
    txn.delete_table(SNAPSHOT)?;
    txn.open_table(META).map(drop)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::redb_log::record;
    use super::super::{MemberLog, RedbLog};
    use super::*;
    use crate::bootstrap::{BootstrapSpec, bootstrap};
    use redb::ReadableDatabase;
    use types::{Fsid, Utime};

    /// Makes a store as monitors that were alone made it: a state at the snapshot's index, if there is one, and the
    /// batches behind it.
    fn format_1(path: &std::path::Path, batches: &[Batch], snapshot: Option<(u64, MonState)>) {
        let db = redb::Database::create(path).unwrap();
        let txn = db.begin_write().unwrap();
        txn.open_table(META).unwrap().insert("format", 1u32.to_le_bytes().as_slice()).unwrap();
        {
            let mut log = txn.open_table(LOG).unwrap();
            let mut states = txn.open_table(SNAPSHOT).unwrap();
            let from = snapshot.as_ref().map_or(0, |(at, _)| *at);
            for (index, batch) in (1..).zip(batches).filter(|(index, _)| *index > from) {
                log.insert(index, record(&batch.to_vec(Target::PACIFIC)).as_slice()).unwrap();
            }
            if let Some((at, state)) = &snapshot {
                states.insert(*at, record(&state.to_vec(Target::PACIFIC)).as_slice()).unwrap();
            }
        }
        txn.commit().unwrap();
    }

    #[test]
    fn a_store_of_a_lone_monitor_opens_with_all_that_it_had() {
        let first = bootstrap(&BootstrapSpec {
            fsid: Fsid([9; 16]),
            monitors: vec![("a".to_owned(), "v2:127.0.0.1:3300/0".parse().unwrap())],
            auth: Default::default(),
            config: vec![("global".to_owned(), "some_option".to_owned(), "7".to_owned())],
            now: Utime { sec: 1_000_000, nsec: 0 },
        });
        let ids =
            |below| Batch { stamp: Utime { sec: 1_000_001, nsec: 0 }, updates: vec![Update::GlobalIds { below }] };
        let batches = [first, ids(5000), ids(6000), ids(7000)];
        let mut state = MonState::default();
        let mut at_2 = None;
        for (index, batch) in (1..).zip(&batches) {
            state.apply(index, batch);
            at_2 = at_2.or_else(|| (index == 2).then(|| state.clone()));
        }
        for with_snapshot in [false, true] {
            let path = std::env::temp_dir().join(format!("nacre-mon-v1-{with_snapshot}-{}", std::process::id()));
            let _ = std::fs::remove_file(&path);
            format_1(&path, &batches, at_2.clone().filter(|_| with_snapshot).map(|state| (2, state)));
            let loaded = RedbLog::open(&path).unwrap().load().unwrap();
            let server = ServerId(u64::from_le_bytes([9; 8]));
            assert_eq!(loaded.identity, Identity { fsid: Fsid([9; 16]), name: "a".to_owned(), server });
            let snapshot = loaded.stored.snapshot.as_ref().unwrap();
            assert_eq!(snapshot.membership, Membership::of_voters([server]));
            let now = MonState::from_slice(&snapshot.data).unwrap();
            assert_eq!((now.global_ids_below, now.applied), (7000, state.applied + 1));
            assert_eq!((&now.osdmaps, &now.monmap, &now.config), (&state.osdmaps, &state.monmap, &state.config));
            assert_eq!(now.mon_servers["a"].server, server.0);
            // The store, opened again, stays in the new format.
            assert_eq!(RedbLog::open(&path).unwrap().load().unwrap(), loaded);
            let db = redb::Database::open(&path).unwrap();
            assert!(db.begin_read().unwrap().open_table(LOG).is_err(), "the old log is gone");
            drop(db);
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn a_gap_is_told_and_nothing_is_changed() {
        let path = std::env::temp_dir().join(format!("nacre-mon-v1-gap-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let batch = Batch { stamp: Utime::ZERO, updates: Vec::new() };
        let state = MonState { applied: 5, ..MonState::default() };
        format_1(&path, &vec![batch; 8], Some((6, state)));
        let error = RedbLog::open(&path).unwrap_err();
        assert!(error.to_string().contains("batch 6 is missing"), "{error}");
        let error = RedbLog::open(&path).unwrap_err();
        assert!(error.to_string().contains("batch 6 is missing"), "{error}");
        std::fs::remove_file(&path).unwrap();
    }
}
