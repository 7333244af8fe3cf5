//! The end of an opening: the store is put together.

use crate::disk::numbers::WAL_OFFSET;
use crate::engine::budget::Memory;
use crate::engine::checkpoint::Checkpoint;
use crate::engine::commit_times::CommitLog;
use crate::engine::io_queue::IoQueue;
use crate::engine::store::SPARE_BYTES;
use crate::engine::turns::Turns;
use crate::opening::counting::Counting;
use crate::opening::phases::Opening;
use crate::space::allocator::Allocator;
use crate::space::freeing::{Discards, Freeing};
use crate::space::metadata_space::MetadataSpace;
use crate::space::preparing::Preparing;
use crate::space::run::Run;
use crate::{StopReason, Store};
use std::collections::VecDeque;
use std::time::Duration;
use types::BufPool;

impl Opening {
    pub(super) fn build(&mut self, counting: Counting) -> Store {
        let superblock = self.superblock().clone();
        let Counting { mut allocator, mut own, shared, totals, groups, copies, data_blocks, losses, .. } = counting;
        let mut state = self.state.take().expect("the tree was read");
        state.shared = Some(shared);
        let mut tree_totals = self.root().totals.filter(|_| self.mended.is_none());
        let is_whole = self.mended.is_some() || losses.is_empty() && state.damaged.is_empty();
        if !is_whole {
            // Any block may belong to a lost part.
            allocator = Allocator::with_units(superblock.device_blocks(), allocator.unit_blocks());
            own = own.map(|own| Allocator::new(own.blocks()));
        }
        if let Some(counted) = totals.filter(|_| is_whole) {
            let known = tree_totals.map(|_| (state.totals.objects, state.totals.stored_bytes));
            assert!(
                known.is_none_or(|known| known == (counted.objects, counted.stored_bytes)),
                "{known:?}, not {counted:?}"
            );
            if state.overlay.is_clean() {
                let counted = counted.of_tree(data_blocks);
                assert!(tree_totals.is_none_or(|known| known == counted), "{tree_totals:?}, not {counted:?}");
                tree_totals = Some(counted);
            }
            state.totals = counted.totals();
        }
        allocator.settle();
        let mut discards = Discards::new(superblock.device_blocks());
        let data_begin = superblock.data_begin();
        discards.freed(Run { start: data_begin, count: allocator.high_water().saturating_sub(data_begin) });
        let wal = self.wal.take().expect("made at the end of the scan");
        let durable_lsn = wal.next_lsn - 1;
        let mut freeing = Freeing::default();
        let unvouched = self.unvouched.iter().flat_map(|run| run.start..run.end());
        let mut held = Vec::new();
        for block in unvouched {
            if allocator.is_free(block) {
                allocator.take(Run { start: block, count: 1 });
                held.push(Run { start: block, count: 1 });
            }
        }
        freeing.push(durable_lsn, held);
        let metadata = match own {
            Some(own) => MetadataSpace::on_its_own(own),
            None => MetadataSpace::new(superblock.device_blocks()),
        };
        let io_device = superblock.tree_device();
        let log_device = superblock.log_device();
        let unreadable_log = self.io.unreadable(log_device, WAL_OFFSET, superblock.wal_bytes);
        let mut store = Store {
            turns: Turns::new(durable_lsn, self.vouched_lsn),
            checkpoint: Checkpoint::new(self.root().sequence, self.tree_blocks, tree_totals),
            metadata,
            superblock,
            state,
            groups,
            queue: Default::default(),
            lookups: Default::default(),
            copies: None,
            destroyed_ticket: 0,
            memory: Memory::default(),
            allocator,
            wal,
            data_blocks,
            in_flight: Default::default(),
            merges: Default::default(),
            reads: Default::default(),
            relocation: Default::default(),
            block_cache: Default::default(),
            freeing,
            discards,
            preparing: Preparing::off(),
            idle: Default::default(),
            io: IoQueue::new(io_device),
            buffers: BufPool::new(SPARE_BYTES),
            events: VecDeque::new(),
            stopped: (!is_whole).then(|| StopReason::of_losses(&losses)),
            losses,
            unreadable_log,
            mended: self.mended.take(),
            replayed_records: self.replayed,
            now: Duration::ZERO,
            commit_log: CommitLog::default(),
        };
        store.set_metadata_aside();
        store.drop_copies(copies);
        store
    }
}
