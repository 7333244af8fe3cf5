//! Runs of blocks.

use crate::config::BLOCK;

/// Adjoining blocks on the device, in block numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub struct Run {
    pub start: u32,
    pub count: u32,
}

impl Run {
    pub fn end(self) -> u32 {
        self.start + self.count
    }

    pub fn offset_bytes(self) -> u64 {
        u64::from(self.start) * BLOCK
    }

    pub fn len_bytes(self) -> u64 {
        u64::from(self.count) * BLOCK
    }
}

/// Adds a run to a list, and joins it with the last run if it continues that.
pub(crate) fn push_run(runs: &mut Vec<Run>, run: Run) {
    match runs.last_mut() {
        Some(last) if last.end() == run.start => last.count += run.count,
        _ => runs.push(run),
    }
}
