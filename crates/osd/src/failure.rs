//! Reasons for which an OSD ends by itself.

use pg::{Fatal, TwoHomes};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use store::{OpenError, StopReason};
use wire::DecodeError;

/// The main device of a shard's store.
#[derive(Clone, Debug)]
pub(crate) struct StorePlace {
    pub device: PathBuf,
    /// The shard's number, if it is not the OSD's first.
    pub shard: Option<usize>,
}

impl fmt::Display for StorePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.device.display())?;
        self.shard.map_or(Ok(()), |shard| write!(f, ", shard {shard}"))
    }
}

/// The reason why a store does not open, or why an open one cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotReady {
    #[error("{0}")]
    Open(OpenError),
    #[error("{0}")]
    Stopped(StopReason),
    #[error("{0}")]
    Device(io::Error),
}

/// The reason why an OSD ends by itself.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{place}: {why}")]
    Store { place: StorePlace, why: NotReady },
    #[error("{place}: {why}")]
    Homes { place: StorePlace, why: TwoHomes },
    #[error("{place}: no answer for {} s: the drive hangs", .owed.as_secs())]
    DriveHangs { place: StorePlace, owed: Duration },
    #[error("{0}")]
    Shard(Fatal),
    #[error("a message of shard {shard} is malformed: {why}")]
    Message { shard: usize, why: DecodeError },
    #[error("a message of shard {shard} to another is malformed: {why}")]
    MessageBetweenShards { shard: usize, why: DecodeError },
}
