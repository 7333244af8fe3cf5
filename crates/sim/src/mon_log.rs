//! The monitor's log in the simulated world.

use bytes::Bytes;
use mon::log::{Loaded, LogError, MapLog};
use reactor::sim::Rng;
use std::collections::VecDeque;

/// What a monitor has asked its log to do.
#[derive(Clone, Debug)]
enum Order {
    Append(u64, Bytes),
    Snapshot(u64, Bytes),
}

/// A log that keeps what was appended when its process dies, and what was still being written with a chance.
#[derive(Clone, Default, Debug)]
pub struct MonLog {
    kept: Loaded,
    /// Under way, in order; the first is being written.
    orders: VecDeque<Order>,
}

impl MonLog {
    pub(crate) fn begin_append(&mut self, index: u64, batch: Bytes) {
        self.orders.push_back(Order::Append(index, batch));
    }

    pub(crate) fn begin_snapshot(&mut self, index: u64, state: Bytes) {
        self.orders.push_back(Order::Snapshot(index, state));
    }

    pub(crate) fn is_writing(&self) -> bool {
        !self.orders.is_empty()
    }

    /// The first order is durable. For an append, its index.
    pub(crate) fn finish_first(&mut self) -> Option<u64> {
        match self.orders.pop_front()? {
            Order::Append(index, batch) => {
                self.kept.batches.push((index, batch));
                Some(index)
            }
            Order::Snapshot(index, state) => {
                self.kept.batches.retain(|(at, _)| *at > index);
                self.kept.snapshot = Some((index, state));
                None
            }
        }
    }

    /// The process dies: what was being written is kept or not, each order as a whole and no later one without those
    /// before it.
    pub(crate) fn crash(mut self, rng: &mut Rng) -> MonLog {
        for _ in 0..rng.below(self.orders.len() as u64 + 1) {
            self.finish_first();
        }
        self.orders.clear();
        self
    }
}

impl MapLog for MonLog {
    fn load(&mut self) -> Result<Loaded, LogError> {
        Ok(self.kept.clone())
    }

    fn append(&mut self, index: u64, batch: &[u8]) -> Result<(), LogError> {
        self.kept.batches.push((index, Bytes::copy_from_slice(batch)));
        Ok(())
    }

    fn snapshot(&mut self, index: u64, state: &[u8]) -> Result<(), LogError> {
        self.begin_snapshot(index, Bytes::copy_from_slice(state));
        self.finish_first();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_keeps_a_prefix_of_what_was_under_way() {
        let mut kept = std::collections::BTreeSet::new();
        for seed in 0..40 {
            let mut log = MonLog::default();
            log.append(1, b"first").expect("memory does not fail");
            log.begin_append(2, Bytes::from_static(b"second"));
            log.begin_append(3, Bytes::from_static(b"third"));
            let mut log = log.crash(&mut Rng::new(seed));
            let batches = log.load().expect("memory does not fail").batches;
            let indices: Vec<u64> = batches.iter().map(|(index, _)| *index).collect();
            assert_eq!(indices, (1..=indices.len() as u64).collect::<Vec<_>>());
            kept.insert(indices.len());
        }
        assert_eq!(kept.into_iter().collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn a_snapshot_stands_for_what_is_before_it() {
        let mut log = MonLog::default();
        for index in 1..=4 {
            log.append(index, b"batch").expect("memory does not fail");
        }
        log.snapshot(3, b"state").expect("memory does not fail");
        let loaded = log.load().expect("memory does not fail");
        assert_eq!(loaded.snapshot, Some((3, Bytes::from_static(b"state"))));
        assert_eq!(loaded.batches.len(), 1);
    }
}
