//! Answers of a real Ceph, kept in `tests/recorded`, so that most runs need none.

use crate::command::is_whole_suite;
use std::fs;
use std::path::PathBuf;

/// Gives what `ask` gets from a real Ceph, or what it got when it was recorded under `name`.
///
/// The whole suite (`NACRE_SUITE=whole`) asks, and fails if the recording says something else; `NACRE_RECORD=1` asks
/// and records.
#[track_caller]
pub fn said_by_ceph(name: &str, ask: impl FnOnce() -> String) -> String {
    let path = path(name);
    if std::env::var("NACRE_RECORD").is_ok_and(|wanted| wanted == "1") {
        let said = ask();
        fs::write(&path, &said).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        return said;
    }
    let recorded = recorded_of_ceph(name);
    if is_whole_suite() {
        assert_same_lines(&ask(), &recorded, "left a real Ceph, right what is recorded of one");
    }
    recorded
}

/// Gives what a real Ceph said when it was recorded under `name`, where another test asks it anew.
#[track_caller]
pub fn recorded_of_ceph(name: &str) -> String {
    let path = path(name);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("recorded").join(format!("{name}.txt"))
}

/// Compares line by line, so that the first difference is shown and no more.
#[track_caller]
pub fn assert_same_lines(left: &str, right: &str, which: &str) {
    for (number, (left, right)) in left.lines().zip(right.lines()).enumerate() {
        assert_eq!(left, right, "line {}: {which}", number + 1);
    }
    assert_eq!(left.lines().count(), right.lines().count(), "lines: {which}");
}
