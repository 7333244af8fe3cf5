//! A monitor's store of its part of the log that monitors agree on.

mod page_cache;
mod redb_log;
mod upgrade;

pub use redb_log::RedbLog;

use raft::{Persist, ServerId, Stored};
use types::Fsid;

/// The log's owner: decided when the store is made, and never changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    pub fsid: Fsid,
    /// The monitor's name, as in the monitor map.
    pub name: String,
    /// Number of this store. Another store of the same monitor is another server.
    pub server: ServerId,
}

/// Content of a log when it was opened.
#[derive(Clone, PartialEq, Debug)]
pub struct Loaded {
    pub identity: Identity,
    pub stored: Stored,
}

/// One monitor's part of the log that all of them agree on: its vote, its newest snapshot, the entries behind that.
pub trait MemberLog {
    /// Returns everything that was written. To be called once, before anything else.
    fn load(&mut self) -> Result<Loaded, LogError>;

    /// Carries out `writes` in their order, all or none. They are durable when this returns.
    fn write(&mut self, writes: &[Persist]) -> Result<(), LogError>;
}

/// Reason why the log cannot be used.
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
