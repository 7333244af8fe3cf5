//! Where decided changes become durable.

mod redb_log;

pub use redb_log::RedbLog;

use bytes::Bytes;

/// What a log held when it was opened.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Loaded {
    /// The newest snapshot: the state after the batch with this index, encoded.
    pub snapshot: Option<(u64, Bytes)>,
    /// The batches behind the snapshot, with consecutive indices.
    pub batches: Vec<(u64, Bytes)>,
}

/// A log of batches, and snapshots that stand for its beginning.
///
/// The one implementation now is [`RedbLog`], on this monitor's disk. A consensus engine is another: then `append`
/// returns once a majority has the batch.
pub trait MapLog {
    /// Everything that was appended, in order. Call it once, before anything else.
    fn load(&mut self) -> Result<Loaded, LogError>;

    /// Appends batch `index`, the one after the last. Durable when this returns.
    fn append(&mut self, index: u64, batch: &[u8]) -> Result<(), LogError>;

    /// Keeps `state`, the state after batch `index`, in place of all batches up to `index`. Durable when this returns.
    fn snapshot(&mut self, index: u64, state: &[u8]) -> Result<(), LogError>;
}

/// Why the log cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("cannot open the monitor's store {path}: {reason}")]
    Open { path: String, reason: String },
    #[error("{path} holds no monitor's store: make one first (`nacre mon --mkfs`)")]
    NotAStore { path: String },
    #[error("{path} already holds a monitor's store")]
    Exists { path: String },
    #[error("the monitor's store has format {found}, this program knows up to {known}: use a newer version of it")]
    TooNew { found: u32, known: u32 },
    #[error("the monitor's store is damaged: {0}")]
    Damaged(String),
    #[error("cannot write the monitor's store: {0}")]
    Write(String),
}
