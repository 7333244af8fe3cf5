//! A state machine that is a hash of all its entries.

use crate::{Entry, Payload};
use bytes::Bytes;

/// The state machine after the entry at `applied`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Machine {
    pub applied: u64,
    pub hash: u64,
}

/// Bytes of a snapshot, of which only the first matter: it takes some chunks to send.
const SNAPSHOT_BYTES: usize = 70;

pub fn hash(state: u64, bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(state ^ 0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

pub fn hash_of(payload: &Payload) -> u64 {
    match payload {
        Payload::TermStart => 1,
        Payload::Data(data) => hash(2, data),
        Payload::Membership(membership) => hash(3, format!("{membership:?}").as_bytes()),
    }
}

impl Machine {
    pub fn apply(&mut self, entry: &Entry) {
        self.applied = entry.position.index;
        self.hash = hash(self.hash, &hash_of(&entry.payload).to_le_bytes());
        self.hash = hash(self.hash, &entry.position.term.to_le_bytes());
    }

    pub fn snapshot(&self) -> Bytes {
        let mut data = self.applied.to_le_bytes().to_vec();
        data.extend(self.hash.to_le_bytes());
        data.extend((data.len()..SNAPSHOT_BYTES).map(|at| hash(self.hash, &[at as u8]) as u8));
        data.into()
    }

    /// Returns the state that a snapshot holds. Error: a sentence with the reason why it holds none.
    pub fn from_snapshot(data: &[u8]) -> Result<Machine, String> {
        let word = |at: usize| data.get(at..at + 8).and_then(|word| word.try_into().ok()).map(u64::from_le_bytes);
        let machine = Machine { applied: word(0).ok_or("cut short")?, hash: word(8).ok_or("cut short")? };
        if machine.snapshot() != data {
            return Err(format!("the snapshot at {} is garbled", machine.applied));
        }
        Ok(machine)
    }
}
