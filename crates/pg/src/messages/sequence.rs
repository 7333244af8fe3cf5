//! Log entries that another OSD sends follow each other: logs rest on that. Whoever sends others is not believed.

use super::PeerMessage;
use super::replication::RepOp;
use crate::group::log::LogEntry;
use types::EVersion;
use wire::DecodeError;

/// Counts of updates in versions are below this one, so that none overflows that follows.
const COUNT_MAX: u64 = 1 << 62;

fn wrong(version: EVersion) -> DecodeError {
    DecodeError::Value { what: "version that does not follow the one before", value: version.version }
}

/// Errors: the entries do not follow `head` one by one.
fn follow<'a>(mut head: EVersion, entries: impl IntoIterator<Item = &'a LogEntry>) -> Result<(), DecodeError> {
    if head.version > COUNT_MAX {
        return Err(wrong(head));
    }
    for LogEntry { version, .. } in entries {
        if version.version != head.version + 1 || version.epoch < head.epoch || version.version > COUNT_MAX {
            return Err(wrong(*version));
        }
        head = *version;
    }
    Ok(())
}

/// Checks the log entries of an update.
///
/// Errors: they do not follow each other. The sender's session is to be closed.
pub(crate) fn check_update(update: &RepOp) -> Result<(), DecodeError> {
    let first = update.others.first().unwrap_or(&update.entry).version;
    let before = first.version.checked_sub(1).ok_or_else(|| wrong(first))?;
    follow(EVersion { version: before, ..first }, update.others.iter().chain([&update.entry]))
}

/// Checks the log entries of a message.
///
/// Errors: they do not follow each other. The sender's session is to be closed.
pub(crate) fn check(message: &PeerMessage) -> Result<(), DecodeError> {
    match message {
        PeerMessage::RepOp(update) => check_update(update),
        PeerMessage::PgLogEntries(log) => follow(log.after, &log.entries),
        PeerMessage::PgStart(start) => follow(start.after, &start.entries),
        _ => Ok(()),
    }
}
