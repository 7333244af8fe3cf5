//! Blocks whose write is not durable yet: they are read from memory.

use crate::config::BLOCK;
use crate::space::run::Run;
use std::collections::VecDeque;
use std::ops::Range;
use wire::Rope;

#[derive(Debug)]
struct InFlightRun {
    start: u32,
    count: u32,
    data: Rope,
    damaged: bool,
}

/// Runs of blocks with their content.
#[derive(Default, Debug)]
pub(crate) struct InFlight {
    /// In the order of blocks. Mostly they come behind the others and go before them, as space is taken in order.
    runs: VecDeque<InFlightRun>,
    bytes: u64,
}

/// A part of a run, as [`InFlight::split`] finds it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum InFlightPart {
    Here { run: Run, data: Rope, damaged: bool },
    OnDevice(Run),
}

impl InFlight {
    /// Takes in a run; `data` is whole blocks. `damaged`: the content was made of bytes that failed their checksum.
    pub fn insert(&mut self, start: u32, data: Rope, damaged: bool) {
        let count = (data.len() as u64 / BLOCK) as u32;
        self.bytes += data.len() as u64;
        let run = InFlightRun { start, count, data, damaged };
        if self.runs.back().is_none_or(|last| last.start < start) {
            return self.runs.push_back(run);
        }
        let at = self.runs.partition_point(|run| run.start < start);
        assert!(self.runs[at].start != start, "block {start} is in flight twice");
        self.runs.insert(at, run);
    }

    /// Forgets the run that began at `start`.
    pub fn remove(&mut self, start: u32) {
        let at = match self.runs.front() {
            Some(first) if first.start == start => 0,
            _ => self.runs.partition_point(|run| run.start < start),
        };
        let run = self.runs.remove(at).filter(|run| run.start == start);
        let run = run.unwrap_or_else(|| panic!("no run in flight at block {start}"));
        self.bytes -= run.data.len() as u64;
    }

    /// Returns the memory of all runs, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the parts of a run, in order.
    pub fn split(&self, run: Run) -> Vec<InFlightPart> {
        if self.runs.is_empty() {
            return vec![InFlightPart::OnDevice(run)];
        }
        let behind = self.runs.partition_point(|found| found.start < run.start);
        let mut parts = Vec::new();
        let mut at = run.start;
        let from_before = self.runs.range(behind.saturating_sub(1)..);
        for found in from_before.take_while(|found| found.start < run.end()) {
            let start = found.start;
            let Range { start: begin, end } = start.max(at)..(start + found.count).min(run.end());
            if begin >= end {
                continue;
            }
            if at < begin {
                parts.push(InFlightPart::OnDevice(Run { start: at, count: begin - at }));
            }
            let offset = u64::from(begin - start) * BLOCK;
            let part = Run { start: begin, count: end - begin };
            let data = found.data.slice(offset as usize, part.len_bytes() as usize);
            parts.push(InFlightPart::Here { run: part, data, damaged: found.damaged });
            at = end;
        }
        if at < run.end() {
            parts.push(InFlightPart::OnDevice(Run { start: at, count: run.end() - at }));
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn a_run_is_split_where_memory_and_device_meet() {
        let mut in_flight = InFlight::default();
        let block = |v: u8| Bytes::from(vec![v; BLOCK as usize]);
        in_flight.insert(15, block(4).into(), true);
        in_flight.insert(10, [block(1), block(2), block(3)].into_iter().collect(), false);
        in_flight.insert(13, block(5).into(), false);
        in_flight.insert(30, block(6).into(), false);
        in_flight.remove(13);
        in_flight.remove(30);
        let parts: Vec<(u32, u32, Option<u8>)> = in_flight
            .split(Run { start: 11, count: 6 })
            .into_iter()
            .map(|part| match part {
                InFlightPart::Here { run, data, damaged } => {
                    assert_eq!(damaged, run.start == 15);
                    (run.start, run.count, Some(data.to_vec()[0]))
                }
                InFlightPart::OnDevice(run) => (run.start, run.count, None),
            })
            .collect();
        assert_eq!(parts, [(11, 2, Some(2)), (13, 2, None), (15, 1, Some(4)), (16, 1, None)]);
        assert_eq!(in_flight.bytes(), 4 * BLOCK);
        in_flight.remove(10);
        assert_eq!(in_flight.bytes(), BLOCK);
        assert_eq!(in_flight.split(Run { start: 9, count: 3 }), [InFlightPart::OnDevice(Run { start: 9, count: 3 })]);
    }
}
