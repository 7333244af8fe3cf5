//! Content of the log.

use crate::{Membership, Position};
use bytes::Bytes;
use wire::{Decode, DecodeError, Encode, Reader, Writer};

/// One entry of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    pub position: Position,
    pub payload: Payload,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Payload {
    /// The first entry of a leader's term: once it is committed, so is everything before it.
    TermStart,
    /// Data for the state machine.
    Data(Bytes),
    /// The members from here on. In force as soon as it is in a server's log, committed or not.
    Membership(Membership),
}

impl Entry {
    /// Returns the memory that it takes, about.
    pub fn bytes(&self) -> usize {
        let payload = match &self.payload {
            Payload::TermStart => 0,
            Payload::Data(data) => data.len(),
            Payload::Membership(membership) => 32 * (membership.voters.len() + membership.learners.len()),
        };
        size_of::<Entry>() + payload
    }
}

/// The state machine after the entry at `last`, in place of the log up to there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    pub last: Position,
    /// Members in force after `last`.
    pub membership: Membership,
    pub data: Bytes,
}

impl Snapshot {
    /// Returns the snapshot on the disk of each first member of a new cluster: `data` is the state machine's first
    /// state.
    ///
    /// It stands for an entry of its own, so that a server with an empty disk, which comes later, lacks it and gets it.
    pub fn first(membership: Membership, data: Bytes) -> Snapshot {
        Snapshot { last: Position { term: 1, index: 1 }, membership, data }
    }
}

impl Encode for Entry {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.position);
            match &self.payload {
                Payload::TermStart => w.u8(0),
                Payload::Data(data) => {
                    w.u8(1);
                    w.blob(data);
                }
                Payload::Membership(membership) => {
                    w.u8(2);
                    w.put(membership);
                }
            }
        });
    }
}

impl Decode for Entry {
    const MIN_BYTES: usize = 23;

    fn decode(r: &mut Reader<'_>) -> Result<Entry, DecodeError> {
        let (_, mut r) = r.versioned("log entry", 1)?;
        let position = r.get()?;
        let payload = match r.u8()? {
            0 => Payload::TermStart,
            1 => Payload::Data(r.blob_bytes()?),
            2 => Payload::Membership(r.get()?),
            kind => return Err(DecodeError::Value { what: "kind of log entry", value: kind.into() }),
        };
        Ok(Entry { position, payload })
    }
}

impl Encode for Snapshot {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.last);
            w.put(&self.membership);
            w.blob(&self.data);
        });
    }
}

impl Decode for Snapshot {
    const MIN_BYTES: usize = 40;

    fn decode(r: &mut Reader<'_>) -> Result<Snapshot, DecodeError> {
        let (_, mut r) = r.versioned("snapshot", 1)?;
        Ok(Snapshot { last: r.get()?, membership: r.get()?, data: r.blob_bytes()? })
    }
}
