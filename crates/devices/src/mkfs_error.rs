//! Errors of making a store.

use crate::{Occupant, SHARDS_MAX};
use std::io;
use std::path::PathBuf;
use store::FormatError;
use types::OsdId;

/// The reason why no new store was made. An existing store is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum MkfsError {
    #[error("cannot open {path}")]
    Open { path: PathBuf, source: io::Error },
    #[error("{path} exists and is not empty; remove it first if nothing in it is needed")]
    NotEmpty { path: PathBuf },
    /// The device is in use. No option overrides this.
    #[error("{path} is in use: an OSD runs on it, it is mounted, or it belongs to another volume")]
    InUse { path: PathBuf },
    #[error(
        "{path} holds {occupant}; if nothing of that is needed, add --force-format {to_name}, and it is overwritten"
    )]
    Occupied { path: PathBuf, occupant: Occupant, to_name: OsdId },
    #[error("{path} is there already; remove it first if it is not needed")]
    LinkExists { path: PathBuf },
    #[error("cannot make the link {path}")]
    Link { path: PathBuf, source: io::Error },
    #[error("{path} is given twice")]
    Twice { path: PathBuf },
    #[error("cannot write {path}")]
    Write { path: PathBuf, source: io::Error },
    #[error("{shards} shards: an OSD has a power of two of them, {SHARDS_MAX} at most")]
    Shards { shards: usize },
    #[error(transparent)]
    Format(#[from] FormatError),
}
