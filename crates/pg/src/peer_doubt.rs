//! What OSDs say to each other about who has a group, where the monitors' record may be behind.

use types::{EVersion, Epoch, PgId};
use wire::nacre::kind;
use wire::own_message as message;
use wire::{Decode, DecodeError, Encode, Reader, Writer};

/// From primaries, to every OSD that is up: what do you have of these groups?
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgSought {
    /// The asker's map: whoever has not seen it may still serve.
    pub epoch: Epoch,
    /// As clients name them, whatever shard a copy is of.
    pub groups: Vec<PgId>,
}

message!(PgSought = kind::PG_SOUGHT, version 1 { epoch, groups });

/// Answers [`PgSought`]: each group with what is there of it, which may be nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgFound {
    /// The answerer's map.
    pub epoch: Epoch,
    pub groups: Vec<(PgId, Vec<FoundCopy>)>,
}

message!(PgFound = kind::PG_FOUND, version 1 { epoch, groups });

/// One copy of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundCopy {
    /// Of erasure-coded pools.
    pub shard: Option<u8>,
    /// It answers for all objects.
    pub complete: bool,
    pub last_epoch_started: Epoch,
    pub last_update: EVersion,
}

impl Encode for FoundCopy {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.shard);
            w.bool(self.complete);
            w.put(&self.last_epoch_started);
            w.put(&self.last_update);
        });
    }
}

impl Decode for FoundCopy {
    const MIN_BYTES: usize = 8;

    fn decode(r: &mut Reader<'_>) -> Result<FoundCopy, DecodeError> {
        let (_, mut r) = r.versioned("found copy", 1)?;
        Ok(FoundCopy { shard: r.get()?, complete: r.bool()?, last_epoch_started: r.get()?, last_update: r.get()? })
    }
}
