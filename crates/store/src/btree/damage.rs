//! Ways in which a page or an overflow run can be damaged.

use crate::space::run::Run;
use types::Errno;

/// Blocks whose content is not the expected one, with the reason.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{kind} (blocks {start}..{end})", start = run.start, end = run.end())]
pub struct Damage {
    pub run: Run,
    pub kind: DamageKind,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DamageKind {
    #[error("device error: {}", Errno(*.0))]
    Device(i32),
    #[error("{found_bytes} bytes read of {wanted_bytes}")]
    Short { wanted_bytes: usize, found_bytes: usize },
    #[error("checksum {found:#010x}, where {expected:#010x} was written")]
    Checksum { expected: u32, found: u32 },
    #[error("no page of a tree (magic number)")]
    Magic,
    #[error("page version {0}, which this software does not know")]
    Version(u8),
    #[error("page of another store")]
    Tag,
    #[error("page of generation {found}, where {expected} was written")]
    Generation { expected: u64, found: u64 },
    #[error("page that belongs to block {0}")]
    Place(u64),
    #[error("page of level {found}, where level {expected} was written")]
    Level { expected: u8, found: u8 },
    #[error("malformed page: {0}")]
    Structure(&'static str),
    #[error("keys outside of the range that the page above gives")]
    Bounds,
}

impl DamageKind {
    pub(crate) fn at(self, run: Run) -> Damage {
        Damage { run, kind: self }
    }
}
