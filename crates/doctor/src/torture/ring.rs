//! The test in two steps.
//!
//! Record *n* lies in slot *n* modulo the number of slots. Record *n + 1* is begun after record *n* was flushed. So a
//! drive that keeps its word has, after any loss of power, every record up to the one before the newest, as far as
//! later ones have not taken its slot. At most one block, that of the write under way, may be half old and half new.

use std::collections::BTreeMap;
use std::io;

use serde::Serialize;

use super::record::{RECORD_BYTES, Record};

/// Records that a ring holds.
pub const SLOTS: u32 = 4096;

/// A place for records.
pub trait Medium {
    /// Writes a block of [`RECORD_BYTES`].
    fn write(&mut self, slot: u64, block: &[u8]) -> io::Result<()>;
    /// Returns once the medium says that everything written is durable.
    fn flush(&mut self) -> io::Result<()>;
    fn read(&mut self, slot: u64, block: &mut [u8]) -> io::Result<()>;
}

/// First step: prepares all slots, then writes records until `acknowledged`, which is called with each number that was
/// flushed, says no.
pub fn write(
    medium: &mut impl Medium,
    slots: u32,
    run: u64,
    mut acknowledged: impl FnMut(u64) -> bool,
) -> io::Result<()> {
    let mut block = vec![0; RECORD_BYTES];
    for slot in 0..u64::from(slots) {
        Record { slots, run, sequence: 0, slot }.encode(&mut block);
        medium.write(slot, &block)?;
    }
    medium.flush()?;
    let mut sequence = 0;
    while acknowledged(sequence) {
        sequence += 1;
        let slot = sequence % u64::from(slots);
        Record { slots, run, sequence, slot }.encode(&mut block);
        medium.write(slot, &block)?;
        medium.flush()?;
    }
    Ok(())
}

/// The finding of the second step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kept {
    pub run: u64,
    /// The newest record that is there.
    pub newest: u64,
    /// All records up to this one had been flushed.
    pub flushed: u64,
    /// Numbers of records that had been flushed and are not there, nor anything later in their slots.
    pub lost: Vec<u64>,
}

/// There is nothing that the second step could judge.
#[derive(Debug, thiserror::Error)]
pub enum Torn {
    #[error("no record of a first step is there")]
    Nothing,
    #[error("records of {0} first steps are there: the power was cut while a first step prepared its slots, or after")]
    SeveralRuns(usize),
    #[error("cannot read record {slot}")]
    Read { slot: u64, source: io::Error },
}

impl Kept {
    pub fn is_good(&self) -> bool {
        self.lost.is_empty()
    }
}

/// Second step. `acknowledged`: the last number that the first step had told, if somebody saw it.
pub fn verify(medium: &mut impl Medium, slots: u32, acknowledged: Option<u64>) -> Result<Kept, Torn> {
    let mut block = vec![0; RECORD_BYTES];
    let mut found: BTreeMap<u64, Record> = BTreeMap::new();
    for slot in 0..u64::from(slots) {
        medium.read(slot, &mut block).map_err(|source| Torn::Read { slot, source })?;
        if let Some(record) = Record::decode(&block).filter(|record| record.slot == slot && record.slots == slots) {
            found.insert(slot, record);
        }
    }
    let newest = found.values().max_by_key(|record| record.sequence).copied().ok_or(Torn::Nothing)?;
    let mut runs: Vec<u64> = found.values().map(|record| record.run).collect();
    runs.sort_unstable();
    runs.dedup();
    if runs.len() > 1 {
        return Err(Torn::SeveralRuns(runs.len()));
    }
    // The newest record was begun once those before it had been flushed.
    let flushed = newest.sequence.saturating_sub(1).max(acknowledged.unwrap_or(0));
    let under_way = newest.sequence + 1;
    let slots = u64::from(slots);
    let mut lost = Vec::new();
    for slot in 0..slots {
        // The latest record that must be in this slot or have been replaced by a later one; 0 if only prepared.
        let due = flushed.saturating_sub((flushed + slots - slot) % slots);
        let is_there = match found.get(&slot) {
            Some(record) => record.sequence >= due,
            None => slot == under_way % slots && under_way > flushed,
        };
        if !is_there {
            lost.push(due);
        }
    }
    lost.sort_unstable();
    Ok(Kept { run: newest.run, newest: newest.sequence, flushed, lost })
}
