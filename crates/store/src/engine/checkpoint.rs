//! Checkpoints: the changes of the metadata since the last one go into the tree, in slices beside the commits; then the
//! log is trimmed.
//!
//! 1. *Begin*: the overlay is frozen, with all transactions submitted so far (up to the *boundary*).
//! 2. *Cover*: once those transactions have LSNs, the checkpoint covers the log up to the last of these.
//! 3. *Merge*: a slice of work per turn; new pages go to free blocks.
//! 4. When pages are written and the covered records durable: flush, write the root, flush. Now the log up to the
//!    covered LSN and the blocks of replaced pages are free.
//!
//! A page of the old tree that the merge needs and cannot use stops the store: its content is not in memory, and only
//! the other members of the placement groups concerned have it too.

use crate::btree::{Amount, Merge, MergeError, Merged, Progress, TableChanges};
use crate::disk::key::OMAP_PREFIX_BYTES;
use crate::disk::superblock::CheckpointRoot;
use crate::disk::totals::TreeTotals;
use crate::disk::tree_key::{TABLE_BYTES, TableId};
use crate::engine::io_queue::Purpose;
use crate::engine::merge_pace::{MergePace, Pressure};
use crate::metadata::state::Totals;
use crate::space::metadata_space::MergeSpace;
use crate::space::run::Run;
use crate::{Device, StopReason, Store};

/// A checkpoint begins when the used part of the log exceeds its size divided by this.
pub(crate) const LOG_PER_CHECKPOINT: u64 = 2;
/// Maximum number of page writes under way.
const WRITES_MAX: usize = 8;
/// Number of merged changes whose memory is freed in one turn, without and with a commit on its way.
const SHED: usize = 500;
const SHED_BESIDE_COMMITS: usize = 128;
const _: () = assert!(SHED_BESIDE_COMMITS < SHED);
/// Changes crowd out new data when the blocks kept for them exceed their common room divided by this.
const CROWDED_PART: u64 = 2;
/// Fewer blocks than this are not worth a checkpoint: 1 MiB.
const GROWTH_MIN_BLOCKS: u64 = 256;
/// Tables whose entries a merge counts.
const COUNTED: &[u8] = &[TableId::Objects as u8, TableId::Omap as u8];
/// Bytes before the client's key in an omap entry's key in the tree: table and omap id.
const OMAP_KEY_PREFIX_BYTES: u64 = (TABLE_BYTES + OMAP_PREFIX_BYTES) as u64;

#[derive(Debug)]
enum CheckpointPhase {
    Idle,
    /// The transactions of the checkpoint do not all have LSNs yet.
    Covering,
    Merging(Box<Merge>),
    /// All pages are written or under way; the covered records are not all durable yet.
    Waiting(Merged),
    FlushingPages(Merged),
    WritingRoot(Merged),
    FlushingRoot(Merged),
}

/// The last durable checkpoint and the one being made.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    phase: CheckpointPhase,
    /// The ticket that [`Store::checkpoint`] was called at: a checkpoint must take the transactions up to it.
    pub wanted: Option<u64>,
    /// Number of blocks of the last durable checkpoint's tree.
    pub tree_blocks: u64,
    sequence: u64,
    /// Sums over that tree, if they are known.
    totals: Option<TreeTotals>,
    // The fields from here on belong to the checkpoint being made.
    boundary: u64,
    covered: Option<u64>,
    writes: usize,
    next_omap_id: u64,
    /// Sums over all objects with all changes, and the number of blocks that objects hold.
    frozen_totals: Totals,
    frozen_data_blocks: u64,
    /// True if all blocks that are no longer held were found.
    knows_data_blocks: bool,
    /// Number of flushes under way, one per device.
    flushes: u32,
    pace: MergePace,
    /// Bytes of the log in use when the checkpoint began.
    log_bytes_before: u64,
    /// Number of blocks kept for changes when the checkpoint began.
    growth_before: u64,
}

fn blocks_of(runs: &[Run]) -> u64 {
    runs.iter().map(|run| u64::from(run.count)).sum()
}

impl Checkpoint {
    /// Creates the state after an opening. `sequence`: the number of the last checkpoint.
    pub fn new(sequence: u64, tree_blocks: u64, totals: Option<TreeTotals>) -> Checkpoint {
        Checkpoint {
            phase: CheckpointPhase::Idle,
            wanted: None,
            tree_blocks,
            sequence,
            totals,
            boundary: 0,
            covered: None,
            writes: 0,
            next_omap_id: 0,
            frozen_totals: Totals::default(),
            frozen_data_blocks: 0,
            knows_data_blocks: true,
            flushes: 0,
            pace: MergePace::default(),
            log_bytes_before: 0,
            growth_before: 0,
        }
    }

    pub fn is_idle(&self) -> bool {
        matches!(self.phase, CheckpointPhase::Idle) && self.wanted.is_none()
    }

    pub fn is_running(&self) -> bool {
        !matches!(self.phase, CheckpointPhase::Idle)
    }

    /// Returns the last ticket of the frozen changes, while transactions up to it may lack an LSN.
    pub fn boundary(&self) -> Option<u64> {
        (self.is_running() && self.covered.is_none()).then_some(self.boundary)
    }

    /// Notes that all transactions up to the boundary have LSNs, up to this one.
    pub fn cover(&mut self, lsn: u64) {
        self.covered = Some(lsn);
    }

    /// Returns the sums over the tree being made; `None` if those of the old tree are not known, or if entries were
    /// lost in unreadable pages. Panics if the sums contradict the frozen state.
    fn new_totals(&self, changes: &TableChanges) -> Option<TreeTotals> {
        let old = self.totals.filter(|_| changes.is_exact)?;
        let (objects, omap) = (changes.of(TableId::Objects as u8), changes.of(TableId::Omap as u8));
        let prefixes = |amount: Amount| amount.bytes - amount.entries * OMAP_KEY_PREFIX_BYTES;
        let expected = &self.frozen_totals;
        assert_eq!(
            old.objects + objects.gained.entries,
            expected.objects as u64 + objects.lost.entries,
            "objects of {old:?} with {changes:?}, where there should be {expected:?}"
        );
        Some(TreeTotals {
            objects: expected.objects as u64,
            stored_bytes: expected.stored_bytes as u64,
            omap_entries: old.omap_entries + omap.gained.entries - omap.lost.entries,
            omap_bytes: old.omap_bytes + prefixes(omap.gained) - prefixes(omap.lost),
            data_blocks: self.frozen_data_blocks,
        })
    }

    /// Returns the number of the last durable checkpoint.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Returns the number of blocks of the last durable checkpoint.
    pub fn durable_blocks(&self) -> u64 {
        self.tree_blocks
    }

    /// Returns the number of blocks of the tree being made besides those of the old one.
    pub fn blocks_taken(&self) -> u64 {
        match &self.phase {
            CheckpointPhase::Idle | CheckpointPhase::Covering => 0,
            CheckpointPhase::Merging(merge) => merge.blocks_taken(),
            CheckpointPhase::Waiting(merged)
            | CheckpointPhase::FlushingPages(merged)
            | CheckpointPhase::WritingRoot(merged)
            | CheckpointPhase::FlushingRoot(merged) => blocks_of(&merged.taken),
        }
    }
}

impl Store {
    /// Makes a checkpoint, so that the next opening replays nothing. For an orderly stop, call this, then turn the loop
    /// until [`Store::is_idle`].
    pub fn checkpoint(&mut self) {
        self.relocation.pause();
        self.checkpoint.wanted = Some(self.turns.last_ticket());
    }

    /// Returns true if a checkpoint is being made, or was asked for.
    pub fn checkpoint_is_pending(&self) -> bool {
        !self.checkpoint.is_idle()
    }

    /// Returns true if a checkpoint is being made.
    pub fn checkpoint_is_running(&self) -> bool {
        self.checkpoint.is_running()
    }

    /// Begins a checkpoint if it is due: the log, with the staged transactions, is half full; changes fill their
    /// memory; or the blocks kept for them are much of the free space.
    pub(crate) fn begin_checkpoint_if_due(&mut self) {
        let used = self.wal.used_bytes() + self.turns.staged_log_bytes();
        let wanted = self.checkpoint.wanted.is_some_and(|ticket| ticket <= self.turns.last_staged());
        let full = self.state.overlay.bytes().0 > self.memory.overlay_bytes;
        // A store that lost records of its log stays as it is until a caller that has noted the loss asks for a
        // checkpoint.
        let may = !self.wal.is_closed();
        let due = wanted
            || may
                && (full
                    || self.changes_crowd()
                    || self.copies_want_checkpoint()
                    || used > self.wal.bytes() / LOG_PER_CHECKPOINT);
        if due && !self.checkpoint.is_running() && self.can_begin_checkpoint() {
            self.begin_checkpoint();
        }
    }

    pub(crate) fn begin_checkpoint(&mut self) {
        assert!(!self.checkpoint.is_running(), "two checkpoints at once");
        assert!(self.state.is_settled(), "changes that are not in the overlay");
        assert!(self.can_begin_checkpoint(), "a checkpoint while records that it removes are needed");
        self.state.overlay.freeze();
        let boundary = self.turns.last_staged();
        let (growth, _) = self.growth_blocks();
        let checkpoint = &mut self.checkpoint;
        checkpoint.phase = CheckpointPhase::Covering;
        checkpoint.wanted = checkpoint.wanted.filter(|ticket| *ticket > boundary);
        checkpoint.boundary = boundary;
        checkpoint.covered = None;
        checkpoint.log_bytes_before = self.wal.used_bytes();
        checkpoint.growth_before = growth;
        checkpoint.next_omap_id = self.state.next_omap_id;
        checkpoint.totals = checkpoint.totals.filter(|_| !self.state.totals_are_lost);
        checkpoint.frozen_totals = self.state.totals;
        checkpoint.frozen_data_blocks = self.data_blocks;
        checkpoint.knows_data_blocks = self.state.destroying.is_empty();
        self.state.omap_put_bytes = 0;
    }

    /// Does this turn's part of the checkpoint under way, if any.
    pub(crate) fn advance_checkpoint(&mut self) {
        self.state.overlay.shed(if self.turns.any_recorded() { SHED_BESIDE_COMMITS } else { SHED });
        self.set_metadata_aside();
        let Some(covered) = self.checkpoint.covered.filter(|_| self.checkpoint.is_running()) else { return };
        if matches!(self.checkpoint.phase, CheckpointPhase::Covering) {
            let checkpoint = &mut self.checkpoint;
            let (tag, generation) = (self.state.cache.tag(), checkpoint.sequence + 1);
            let merge = Merge::new(self.state.root, tag, generation, self.buffers.clone()).counting(COUNTED);
            checkpoint.phase = CheckpointPhase::Merging(Box::new(merge));
        }
        if matches!(self.checkpoint.phase, CheckpointPhase::Merging(_)) {
            self.merge_slice();
        }
        let written = matches!(self.checkpoint.phase, CheckpointPhase::Waiting(_)) && self.checkpoint.writes == 0;
        if written && self.turns.settled_to(covered) {
            self.next_phase(|phase| match phase {
                CheckpointPhase::Waiting(merged) => CheckpointPhase::FlushingPages(merged),
                phase => panic!("{phase:?} instead of waiting"),
            });
            let tree = self.superblock.tree_device();
            if mutant::is(mutant::Mutant::RootBeforePages) {
                self.checkpoint.flushes = 1;
                return self.checkpoint_io_done(Purpose::CheckpointFlush { device: tree });
            }
            self.flush_for_checkpoint(tree);
            // The data of turns without a record has no flush of its own.
            if tree != Device::Main && self.turns.any_by_checkpoint() {
                self.flush_for_checkpoint(Device::Main);
            }
        }
    }

    fn flush_for_checkpoint(&mut self, device: Device) {
        self.checkpoint.flushes += 1;
        self.io.flush(Purpose::CheckpointFlush { device });
    }

    fn next_phase(&mut self, next: impl FnOnce(CheckpointPhase) -> CheckpointPhase) {
        let phase = std::mem::replace(&mut self.checkpoint.phase, CheckpointPhase::Idle);
        self.checkpoint.phase = next(phase);
    }

    /// Returns how much of the room that was left when the checkpoint began has been used since.
    fn checkpoint_pressure(&self) -> Pressure {
        let before = self.checkpoint.log_bytes_before;
        let log = (self.wal.used_bytes().saturating_sub(before), self.wal.bytes().saturating_sub(before));
        let before = self.checkpoint.growth_before;
        let (growth, room) = self.growth_blocks();
        let max = room.saturating_sub(before).max(GROWTH_MIN_BLOCKS);
        // The pressure is bounded: on a full device a faster checkpoint frees nothing more.
        let space = (growth.saturating_sub(before).min(max), max);
        Pressure::of((self.state.overlay.bytes().0, self.memory.overlay_bytes), log, space)
    }

    /// Returns the number of blocks kept for changes since the last checkpoint, and the room that these and new data
    /// have.
    fn growth_blocks(&self) -> (u64, u64) {
        let tree = self.checkpoint.tree_blocks;
        let (free, deletes) = match self.metadata.own_free_blocks() {
            Some(free) => (free, self.metadata_device_delete_blocks()),
            None => (u64::from(self.allocator.free_blocks()) + self.metadata.blocks(), self.delete_blocks()),
        };
        let reserved = tree + deletes;
        (self.metadata_blocks_wanted().saturating_sub(tree), free.saturating_sub(reserved))
    }

    /// Returns true if changes have nearly taken the room that was left for them, so that the next ones may not fit
    /// before the checkpoint under way is done.
    pub(crate) fn changes_fill_room(&self) -> bool {
        let (growth, room) = self.growth_blocks();
        growth > (room / 5 * 4).max(GROWTH_MIN_BLOCKS)
    }

    /// Returns true if the blocks kept for changes leave too little to new data on a nearly full device, though most of
    /// these blocks will not be needed. A checkpoint that writes more of the tree than has changed gains nothing, so a
    /// large tree raises the limit.
    fn changes_crowd(&self) -> bool {
        let (growth, room) = self.growth_blocks();
        growth > (room / CROWDED_PART).max(self.checkpoint.tree_blocks / 4).max(GROWTH_MIN_BLOCKS)
    }

    /// Notes that a turn has been sent to the device, so that the checkpoint may go on.
    pub(crate) fn pace_checkpoint(&mut self) {
        let pressure = self.checkpoint_pressure();
        self.checkpoint.pace.commit(pressure);
    }

    fn merge_slice(&mut self) {
        let pressure = self.checkpoint_pressure();
        let (committing, unsent) = (self.turns.any_recorded(), self.io.has_unsent_writes());
        let promised = self.promised_blocks();
        let checkpoint = &mut self.checkpoint;
        let CheckpointPhase::Merging(merge) = &mut checkpoint.phase else { panic!("a slice of no merge") };
        if checkpoint.writes >= WRITES_MAX {
            return;
        }
        let mut space = MergeSpace { promised, allocator: &mut self.allocator, metadata: &mut self.metadata };
        let budget = checkpoint.pace.slice_ns(pressure, committing, unsent);
        if budget == 0 {
            return;
        }
        let progress = merge.step(&self.state.overlay, &mut self.state.cache, &mut space, budget);
        checkpoint.pace.spent(budget.saturating_sub(merge.budget_left_ns()));
        while let Some(write) = merge.poll_write() {
            checkpoint.writes += 1;
            self.io.write(Purpose::PageWrite, write.run.offset_bytes(), write.data);
        }
        match progress {
            Ok(Progress::Working | Progress::Waiting(_)) => {}
            Ok(Progress::Done(merged)) => checkpoint.phase = CheckpointPhase::Waiting(merged),
            Err(MergeError::Damage(damage)) => self.fail(StopReason::CheckpointDamage(damage)),
            Err(MergeError::NoSpace) => self.fail(StopReason::CheckpointSpace),
        }
    }

    pub(crate) fn checkpoint_io_done(&mut self, purpose: Purpose) {
        if matches!(purpose, Purpose::CheckpointFlush { .. }) {
            self.checkpoint.flushes -= 1;
            if self.checkpoint.flushes > 0 {
                return;
            }
        }
        match (purpose, &self.checkpoint.phase) {
            (Purpose::PageWrite, _) => self.checkpoint.writes -= 1,
            (Purpose::CheckpointFlush { .. }, CheckpointPhase::FlushingPages(merged)) => {
                let root = CheckpointRoot {
                    uuid: self.superblock.uuid,
                    sequence: self.checkpoint.sequence + 1,
                    session: self.wal.session(),
                    covered_lsn: self.covered(),
                    wal_head: self.wal.head_in_ring(),
                    next_omap_id: self.checkpoint.next_omap_id,
                    tree: merged.root,
                    // The root has all sums or none.
                    totals: self.checkpoint.new_totals(&merged.changes).filter(|_| self.checkpoint.knows_data_blocks),
                };
                self.io.write(Purpose::CheckpointRoot, root.offset(), root.encode().into());
                self.next_phase(|phase| match phase {
                    CheckpointPhase::FlushingPages(merged) => CheckpointPhase::WritingRoot(merged),
                    phase => phase,
                });
            }
            (Purpose::CheckpointRoot, CheckpointPhase::WritingRoot(_)) => {
                self.flush_for_checkpoint(self.superblock.tree_device());
                self.next_phase(|phase| match phase {
                    CheckpointPhase::WritingRoot(merged) => CheckpointPhase::FlushingRoot(merged),
                    phase => phase,
                });
            }
            (Purpose::CheckpointFlush { .. }, CheckpointPhase::FlushingRoot(_)) => self.checkpoint_durable(),
            (purpose, phase) => panic!("{purpose:?} done while {phase:?}"),
        }
    }

    fn covered(&self) -> u64 {
        self.checkpoint.covered.expect("nothing is written before it is known what is covered")
    }

    fn checkpoint_durable(&mut self) {
        let covered = self.covered();
        let phase = std::mem::replace(&mut self.checkpoint.phase, CheckpointPhase::Idle);
        let CheckpointPhase::FlushingRoot(merged) = phase else { panic!("a checkpoint is durable before its root") };
        self.checkpoint.sequence += 1;
        self.state.root = merged.root;
        self.checkpoint.totals = self.checkpoint.new_totals(&merged.changes);
        if let Some(totals) = self.checkpoint.totals {
            // Only now it is known what entries were replaced, and how many were deleted.
            self.state.totals.omap_bytes = totals.omap_bytes as i64 + self.state.omap_put_bytes;
        }
        self.checkpoint.tree_blocks = self.checkpoint.tree_blocks + blocks_of(&merged.taken) - blocks_of(&merged.freed);
        for damage in &merged.damaged {
            tracing::warn!(%damage, "deleted metadata is damaged: some blocks stay unused until the store is opened \
                again");
        }
        self.state.overlay.retire();
        // Reads ahead for a need that is gone may have found other bytes by now.
        self.state.cache.forget_failures();
        match self.state.tree_replaced(merged.root) {
            Some(last) => self.metadata.hold(last, merged.freed),
            None => self.take_back_pages(merged.freed),
        }
        self.wal.trim(covered);
        self.turns.vouched_lsn = self.turns.vouched_lsn.max(covered);
        self.turns_durable(covered);
        self.discards.begin_sweep();
    }

    /// Frees pages that no tree holds any longer.
    fn take_back_pages(&mut self, runs: Vec<Run>) {
        let wanted = self.metadata_blocks_wanted();
        for run in runs {
            if self.superblock.tree_device() == Device::Main {
                self.discards.freed(run);
            }
            self.metadata.take_back(run, wanted, &mut self.allocator);
        }
    }

    /// Frees held pages that no job looks at any longer.
    pub(crate) fn release_held_pages(&mut self) {
        while let Some(runs) = self.metadata.next_held(self.state.first_destroying()) {
            self.take_back_pages(runs);
        }
    }

    /// Returns true if every block of the devices is accounted for once.
    #[cfg(test)]
    pub(crate) fn blocks_add_up(&self) -> bool {
        let tree = self.checkpoint.tree_blocks + self.checkpoint.blocks_taken();
        let on_main = match self.metadata.own_free_blocks() {
            None => tree,
            Some(free) => {
                let held = self.metadata.held_blocks();
                if free + held + tree != u64::from(self.superblock.tree_space().count) {
                    return false;
                }
                0
            }
        };
        let fixed = u64::from(self.superblock.data_begin());
        let held = self.data_blocks + on_main + fixed;
        self.free_blocks() + held == u64::from(self.superblock.device_blocks())
    }
}
