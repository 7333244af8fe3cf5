mod power;

use super::*;
use raft::{Membership, Payload, Position};

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

fn identity() -> Identity {
    Identity { fsid: Fsid([3; 16]), name: "b".to_owned(), server: ServerId(77) }
}

fn entry(term: u64, index: u64) -> Entry {
    let payload = Payload::Data(Bytes::from(format!("entry {term}.{index}")));
    Entry { position: Position { term, index }, payload }
}

fn snapshot(term: u64, index: u64) -> Snapshot {
    let membership = Membership::of_voters([ServerId(77), ServerId(78)]);
    Snapshot { last: Position { term, index }, membership, data: Bytes::from_static(b"state") }
}

/// The redb file equals raft's own picture of a disk, after every write and after opening it again.
#[test]
fn what_was_written_is_loaded_again() {
    let file = Scratch::new("load");
    let mut stored = Stored::first(snapshot(1, 1));
    let mut log = RedbLog::create(&file.0, &identity(), &stored).unwrap();
    let writes = [
        Persist::Vote(Vote { term: 2, voted_for: Some(ServerId(78)) }),
        Persist::Entries(vec![entry(1, 2), entry(2, 3), entry(2, 4)]),
        Persist::Entries(vec![entry(3, 3), entry(3, 4), entry(3, 5)]),
        Persist::Snapshot { snapshot: snapshot(3, 4), keep_from: Some(4) },
        Persist::Entries(vec![entry(4, 5)]),
        Persist::Vote(Vote { term: 9, voted_for: None }),
        Persist::Snapshot { snapshot: snapshot(8, 40), keep_from: None },
        Persist::Entries(vec![entry(9, 41)]),
    ];
    for write in writes {
        log.write(std::slice::from_ref(&write)).unwrap();
        stored.apply(write);
        assert_eq!(log.load().unwrap(), Loaded { identity: identity(), stored: stored.clone() });
        drop(log);
        log = RedbLog::open(&file.0).unwrap();
    }
    let several = vec![Persist::Entries(vec![entry(9, 42)]), Persist::Vote(Vote { term: 10, voted_for: None })];
    log.write(&several).unwrap();
    several.into_iter().for_each(|write| stored.apply(write));
    assert_eq!(log.load().unwrap().stored, stored);
}

#[test]
fn a_server_that_never_had_anything_is_kept_too() {
    let file = Scratch::new("empty");
    let mut log = RedbLog::create(&file.0, &identity(), &Stored::default()).unwrap();
    assert_eq!(log.load().unwrap(), Loaded { identity: identity(), stored: Stored::default() });
}

#[test]
fn a_log_is_its_owners_alone_from_the_beginning() {
    use std::os::unix::fs::PermissionsExt;
    let file = Scratch::new("mode");
    let log = RedbLog::create(&file.0, &identity(), &Stored::first(snapshot(1, 1))).unwrap();
    assert_eq!(std::fs::metadata(&file.0).unwrap().permissions().mode() & 0o777, 0o600);
    drop(log);
}

#[test]
fn damage_and_strangers_are_told_apart() {
    let file = Scratch::new("damage");
    assert!(matches!(RedbLog::open(&file.0), Err(LogError::NotAStore { .. })));
    std::fs::write(&file.0, b"something else entirely").unwrap();
    assert!(matches!(RedbLog::open(&file.0), Err(LogError::Open { .. })));
    let create = || RedbLog::create(&file.0, &identity(), &Stored::first(snapshot(1, 1)));
    assert!(matches!(create(), Err(LogError::Exists { .. })));
    std::fs::remove_file(&file.0).unwrap();

    let mut log = create().unwrap();
    assert!(matches!(RedbLog::open(&file.0), Err(LogError::Open { .. })), "two processes at once");
    log.write(&[Persist::Entries(vec![entry(1, 2), entry(1, 3)])]).unwrap();
    let damage = |log: &RedbLog, index: u64, bytes: &[u8]| {
        log.transact(|txn| {
            txn.open_table(ENTRIES)?.insert(index, bytes)?;
            Ok(())
        })
        .unwrap();
    };
    damage(&log, 2, b"xxxxentry");
    assert!(matches!(log.load(), Err(LogError::Damaged(_))), "a checksum");
    damage(&log, 2, &record(&entry(1, 3).to_vec(Target::PACIFIC)));
    assert!(matches!(log.load(), Err(LogError::Damaged(_))), "an entry at another place");
    log.transact(|txn| {
        txn.open_table(META)?.insert("format", 9u32.to_le_bytes().as_slice())?;
        Ok(())
    })
    .unwrap();
    drop(log);
    assert!(matches!(RedbLog::open(&file.0), Err(LogError::TooNew { found: 9, known: 2 })));
}
