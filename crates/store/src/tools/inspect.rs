//! Questions of tools to an open store: places of data, free space, length of the log.

use crate::config::BLOCK;
use crate::metadata::onode::Onode;
use crate::space::run::{Run, push_run};
use crate::tools::labels::StoreLabel;
use crate::{Lookup, Store};
use types::ObjectId;

/// A part of an object that lies in one piece on the device. Offsets and length are whole blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlacedExtent {
    pub object_offset: u64,
    pub device_offset: u64,
    pub len: u64,
}

/// The log and the checkpoint, as an opening finds them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogState {
    /// Size of the ring, in bytes.
    pub log_bytes: u64,
    /// Bytes from the oldest record that the next opening replays to the newest.
    pub replay_bytes: u64,
    pub replay_records: u64,
    /// Number of the last durable checkpoint, counted from the store's making.
    pub checkpoint: u64,
    /// Bytes of the blocks that the checkpoint holds.
    pub checkpoint_bytes: u64,
    pub next_lsn: u64,
}

impl Store {
    /// Returns the store's owner and sizes.
    pub fn label(&self) -> StoreLabel {
        StoreLabel::from(&self.superblock)
    }

    /// Returns the places of the blocks with any of `offset .. offset + len`, in the object's order; none for an absent
    /// object.
    pub fn placement(&mut self, object: &ObjectId, offset: u64, len: u64) -> Lookup<Vec<PlacedExtent>> {
        let extents = |onode: Option<&Onode>| {
            let Some(onode) = onode else { return Vec::new() };
            let end = offset.saturating_add(len).min(onode.size());
            if offset >= end {
                return Vec::new();
            }
            let place = |(first, run): (u32, Run)| PlacedExtent {
                object_offset: u64::from(first) * BLOCK,
                device_offset: run.offset_bytes(),
                len: run.len_bytes(),
            };
            onode.blocks.runs((offset / BLOCK) as u32, end.div_ceil(BLOCK)).into_iter().map(place).collect()
        };
        self.blocks(object, offset, len).map(extents).into()
    }

    /// Returns the free ranges (device offset, length) in order, including those set aside for metadata. Blocks that
    /// were just freed and may not be written again yet are left out.
    pub fn free_ranges(&self) -> Vec<(u64, u64)> {
        let blocks = self.superblock.device_blocks();
        let all = vec![u64::MAX; blocks.div_ceil(64) as usize];
        let (mut runs, mut at) = (self.metadata.runs().to_vec(), 0);
        while at < blocks {
            let (found, next) = self.allocator.find_run(at, u32::MAX, 1, u32::MAX, &all);
            let Some(run) = found else { break };
            runs.push(run);
            at = next;
        }
        runs.sort_unstable_by_key(|run| run.start);
        let mut joined: Vec<Run> = Vec::new();
        runs.into_iter().for_each(|run| push_run(&mut joined, run));
        joined.into_iter().map(|run| (run.offset_bytes(), run.len_bytes())).collect()
    }

    pub fn log_state(&self) -> LogState {
        LogState {
            log_bytes: self.wal.bytes(),
            replay_bytes: self.wal.used_bytes(),
            replay_records: self.wal.live_records(),
            checkpoint: self.checkpoint.sequence(),
            checkpoint_bytes: self.checkpoint.durable_blocks() * BLOCK,
            next_lsn: self.wal.next_lsn,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::harness::{Bench, object, txn, write};

    #[test]
    fn free_ranges_and_placed_extents_are_the_whole_data_area() {
        let mut bench = Bench::new(4);
        (0..80).for_each(|_| bench.turn());
        bench.submit(txn(vec![write(1, 4096, vec![1; 9000])])).unwrap();
        bench.settle();
        bench.store.checkpoint();
        bench.settle();
        let (store, device, _) = bench.reopen(bench.device.after_kill(&mut || 0));
        let mut bench = Bench::on(bench.config.clone(), store, device, bench.model.clone(), bench.random.clone());
        let mut used: Vec<(u64, u64)> = Vec::new();
        for number in 0..bench.objects {
            let size = bench.ask(|store| store.stat(&object(number))).map_or(0, |stat| stat.size_bytes);
            for extent in bench.ask(|store| store.placement(&object(number), 0, u64::MAX)) {
                assert!(extent.object_offset < size && extent.len > 0);
                used.push((extent.device_offset, extent.len));
            }
        }
        used.sort_unstable();
        let free = bench.store.free_ranges();
        assert!(free.windows(2).all(|pair| pair[0].0 + pair[0].1 < pair[1].0));
        for (at, len) in &used {
            assert!(free.iter().all(|(from, free)| at + len <= *from || from + free <= *at));
        }
        let free: u64 = free.iter().map(|(_, len)| len).sum();
        let state = bench.store.log_state();
        let usage = bench.store.usage();
        let fixed = u64::from(bench.store.superblock.data_begin()) * BLOCK;
        assert_eq!(free + usage.data_bytes + state.checkpoint_bytes + fixed, usage.total_bytes);
        assert_eq!((state.replay_bytes, state.replay_records), (0, 0), "a checkpoint covers all");
        assert!(state.checkpoint > 0 && state.next_lsn > 1);
        // A part of an object gives the whole blocks around it.
        let part = bench.ask(|store| store.placement(&object(1), 5000, 10));
        assert_eq!(part.iter().map(|e| (e.object_offset, e.len)).collect::<Vec<_>>(), [(4096, 4096)]);
    }
}
