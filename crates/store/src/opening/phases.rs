//! Opening a store: labels, the metadata tree's blocks (`tree_loading`), log, free blocks (`counting`).
//!
//! The log is replayed from the checkpoint on. Among the records behind the highest LSN that any record vouches for,
//! the first torn one (its own bytes, or a data block whose content does not match the record) ends the log: it was
//! never acknowledged. Anything wrong at or before that LSN is damage, and the store does not open. It does not open
//! either if an unreadable block may have held the record behind the last one. A store that is opened to be mended ends
//! with the last record before the damage.

use crate::btree::{Depth, PageCache, ReadId};
use crate::config::BLOCK;
use crate::disk::numbers::{ROOT_OFFSETS, SUPERBLOCK_OFFSETS, WAL_OFFSET};
use crate::disk::redo::Redo;
use crate::disk::superblock::{CheckpointRoot, Superblock};
use crate::engine::budget::Memory;
use crate::engine::wal::{RecordHeader, Wal};
use crate::metadata::state::{State, Totals};
use crate::opening::counting::Counting;
use crate::opening::device_labels;
use crate::opening::io::{OnError, OpeningIo};
use crate::opening::mending::{LostLog, Mended, Mending};
use crate::opening::replay::apply_steps;
use crate::opening::tree_loading::TreeLoading;
use crate::space::allocator::Allocator;
use crate::space::run::Run;
use crate::{Device, IoDone, IoId, IoRequest, OpenError, Store, StoreConfig};
use std::collections::{BTreeMap, VecDeque};
use types::{AlignedBuf, crc32c};

#[derive(Debug)]
pub(super) enum OpeningPhase {
    Superblocks,
    /// Reads the superblocks of the other devices.
    OtherSuperblocks,
    Roots,
    /// Reads pages of the tree.
    Tree,
    /// Searches for the beginnings of records; this many bytes of the log are done.
    Scan(u64),
    Record(RecordHeader),
    /// Compares the data of a record that nothing vouches for: first block and checksums of each buffer in turn.
    Verify {
        header: RecordHeader,
        steps: Vec<Redo>,
        crcs: Vec<(u32, Vec<u32>)>,
    },
    /// Applies the steps of a record, of which these are left: pages that they need are being read.
    Apply(VecDeque<Redo>),
    /// Clears away the remains of lost parts of the tree, after the end of the log.
    Mend(Box<Mending>),
    /// Looks at all metadata once.
    Count(Box<Counting>),
    /// Flushes the devices; this many flushes are under way.
    Flush(Box<Counting>, u32),
    Over,
}

/// A store being opened. Carry out the requests of [`Opening::poll_io`] and hand their outcomes to
/// [`Opening::io_done`], until [`Opening::poll_result`] answers.
#[derive(Debug)]
pub struct Opening {
    pub(super) config: StoreConfig,
    pub(super) io: OpeningIo,
    pub(super) phase: OpeningPhase,
    pub(super) result: Option<Result<Store, OpenError>>,
    // The fields from here on are the knowledge so far.
    pub(super) superblock: Option<Superblock>,
    pub(super) root: Option<CheckpointRoot>,
    /// The root before, for a store that is to be mended.
    pub(super) older_root: Option<CheckpointRoot>,
    /// Set from the roots on.
    pub(super) state: Option<State>,
    pub(super) tree: Option<TreeLoading>,
    pub(super) tree_blocks: u64,
    /// Reads of the tree under way.
    pub(super) pages: BTreeMap<IoId, ReadId>,
    /// Headers of records by LSN, with their place in the ring; among several, the one of the latest session.
    pub(super) headers: BTreeMap<u64, (RecordHeader, u64)>,
    /// Session and end of the last record that the checkpoint covers, if it is still in the ring.
    pub(super) covered: Option<(u64, u64)>,
    pub(super) vouched_lsn: u64,
    pub(super) session: u64,
    /// Number of log records that were applied.
    pub(super) replayed: u64,
    pub(super) wal: Option<Wal>,
    /// Blocks written by records that nothing vouches for.
    pub(super) unvouched: Vec<Run>,
    /// True if lost parts of the metadata are given up.
    pub(super) is_to_mend: bool,
    pub(super) mended: Option<Box<Mended>>,
    /// The end of the log that was given up.
    pub(super) lost_log: Option<LostLog>,
    /// The reason why the older root is used.
    pub(super) lost_tree: Option<Box<OpenError>>,
}

impl Store {
    /// Begins to open the store on a device, or on the devices whose present sizes `config` names. They must be
    /// labelled with its `fsid` and `osd`. Nothing is written.
    pub fn open(config: StoreConfig) -> Opening {
        let mut opening = Opening {
            config,
            io: OpeningIo::default(),
            phase: OpeningPhase::Superblocks,
            result: None,
            superblock: None,
            root: None,
            older_root: None,
            state: None,
            tree: None,
            tree_blocks: 0,
            pages: BTreeMap::new(),
            headers: BTreeMap::new(),
            covered: None,
            vouched_lsn: 0,
            session: 0,
            replayed: 0,
            wal: None,
            unvouched: Vec::new(),
            is_to_mend: false,
            mended: None,
            lost_log: None,
            lost_tree: None,
        };
        let unit_bytes = opening.config.indirection_unit_bytes;
        if !unit_bytes.is_power_of_two() || !(16 << 10..=256 << 10).contains(&unit_bytes) {
            opening.end(Err(OpenError::IndirectionUnit { unit_bytes }));
        } else if opening.config.device_bytes < WAL_OFFSET {
            opening.end(Err(OpenError::NotAStore));
        } else {
            SUPERBLOCK_OFFSETS.into_iter().for_each(|offset| opening.io.read(Device::Main, offset, BLOCK));
        }
        opening
    }

    /// Begins to open a store for mending, parts of whose metadata cannot be read: reads all metadata and gives up the
    /// lost parts ([`Store::mended`] lists them). The rest can be used and changed, and a checkpoint makes it a whole
    /// store. Nothing is written before that. Blocks that only lost parts refer to count as free, so writes may
    /// overwrite data that would come back if the device recovered by itself.
    pub fn open_to_mend(config: StoreConfig) -> Opening {
        Opening { is_to_mend: true, ..Store::open(config) }
    }
}

impl Opening {
    pub fn poll_io(&mut self) -> Option<IoRequest> {
        self.io.poll()
    }

    /// Returns the store, or the reason why there is none; `None` as long as requests are under way. Answers once.
    pub fn poll_result(&mut self) -> Option<Result<Store, OpenError>> {
        self.result.take()
    }

    /// Takes the outcome of a request. Panics for a request that was not made.
    pub fn io_done(&mut self, done: IoDone) {
        if matches!(self.phase, OpeningPhase::Over) {
            return;
        }
        if let Some(page) = self.pages.remove(&done.id) {
            let result = done.result.map(|buf| buf.expect("a read that succeeded hands its buffer back"));
            self.state().cache.read_done(page, result);
            if let Err(error) = self.advance_pages() {
                self.end(Err(error));
            }
            return;
        }
        if let OpeningPhase::Flush(_, left) = &mut self.phase {
            *left -= 1;
            if *left > 0 && done.result.is_ok() {
                return;
            }
            let result = match (std::mem::replace(&mut self.phase, OpeningPhase::Over), done.result) {
                (OpeningPhase::Flush(counting, _), Ok(_)) => Ok(self.build(*counting)),
                (_, Err(errno)) => Err(OpenError::Device { device: Device::Main, offset: 0, errno }),
                (phase, _) => panic!("{phase:?} is no flush"),
            };
            return self.end(result);
        }
        let on_error = match self.phase {
            // An unreadable superblock is only noted, because each superblock has another copy.
            OpeningPhase::Superblocks | OpeningPhase::OtherSuperblocks => OnError::Note,
            OpeningPhase::Scan(_) | OpeningPhase::Record(_) | OpeningPhase::Verify { .. } => OnError::Note,
            _ => OnError::Fail,
        };
        let result = self.io.done(done, on_error);
        let advanced = result.and_then(|buffers| buffers.map_or(Ok(()), |buffers| self.advance(buffers)));
        if let Err(error) = advanced {
            self.end(Err(error));
        }
    }

    fn end(&mut self, result: Result<Store, OpenError>) {
        self.phase = OpeningPhase::Over;
        self.io.clear();
        self.result = Some(result);
    }

    pub(super) fn superblock(&self) -> &Superblock {
        self.superblock.as_ref().expect("the superblock comes first")
    }

    pub(super) fn root(&self) -> &CheckpointRoot {
        self.root.as_ref().expect("the root comes before what it names")
    }

    /// Takes the buffers of a phase and begins the next.
    fn advance(&mut self, buffers: Vec<AlignedBuf>) -> Result<(), OpenError> {
        match std::mem::replace(&mut self.phase, OpeningPhase::Over) {
            OpeningPhase::Superblocks => self.take_superblocks(&buffers),
            OpeningPhase::OtherSuperblocks => self.take_other_superblocks(&buffers),
            OpeningPhase::Roots => self.take_roots(&buffers),
            OpeningPhase::Scan(at) => self.scan(at, &buffers),
            OpeningPhase::Record(header) => self.take_record(header, &buffers[0]),
            OpeningPhase::Verify { header, steps, crcs } => {
                let blocks = |buf: &AlignedBuf| {
                    buf.as_slice().chunks_exact(BLOCK as usize).map(crc32c::checksum).collect::<Vec<u32>>()
                };
                // A block made of damaged bytes has the inverted checksum: it was written as intended. A block that
                // cannot be read may have been written all the same: the record counts, and the block is bad.
                let same = |(block, (found, crc)): (u32, (u32, &u32))| {
                    let offset = u64::from(block) * BLOCK;
                    found == *crc || found == !*crc || self.io.first_unreadable(Device::Main, offset, BLOCK).is_some()
                };
                let whole = |(buf, (first, crcs)): (&AlignedBuf, &(u32, Vec<u32>))| {
                    (*first..).zip(blocks(buf).into_iter().zip(crcs)).all(same)
                };
                if buffers.iter().zip(&crcs).all(whole) {
                    self.apply(header, steps)
                } else {
                    self.end_of_log(header.lsn)
                }
            }
            phase @ (OpeningPhase::Tree
            | OpeningPhase::Apply(_)
            | OpeningPhase::Mend(_)
            | OpeningPhase::Count(_)
            | OpeningPhase::Flush(..)
            | OpeningPhase::Over) => {
                panic!("buffers for {phase:?}")
            }
        }
    }

    fn take_superblocks(&mut self, buffers: &[AlignedBuf]) -> Result<(), OpenError> {
        let superblock = device_labels::main_superblock(&self.config, buffers);
        let superblock = superblock.map_err(|error| self.or_unreadable(error))?;
        self.superblock = Some(superblock.clone());
        for device in superblock.devices().filter(|device| *device != Device::Main) {
            SUPERBLOCK_OFFSETS.into_iter().for_each(|offset| self.io.read(device, offset, BLOCK));
        }
        self.phase = OpeningPhase::OtherSuperblocks;
        if self.io.is_phase_done() { self.take_other_superblocks(&[]) } else { Ok(()) }
    }

    /// Returns the read error of a superblock copy in place of the error that no superblock was found.
    fn or_unreadable(&self, error: OpenError) -> OpenError {
        let of = |device| {
            let found = SUPERBLOCK_OFFSETS.iter().find_map(|at| self.io.first_unreadable(device, *at, BLOCK));
            found.map(|(offset, errno)| OpenError::Device { device, offset, errno })
        };
        let unreadable = match error {
            OpenError::NotAStore => of(Device::Main),
            OpenError::NotAPart { device } => of(device),
            _ => None,
        };
        unreadable.unwrap_or(error)
    }

    fn take_other_superblocks(&mut self, buffers: &[AlignedBuf]) -> Result<(), OpenError> {
        let superblock = self.superblock();
        let others = superblock.devices().filter(|device| *device != Device::Main);
        for (device, copies) in others.zip(buffers.chunks_exact(SUPERBLOCK_OFFSETS.len())) {
            let checked = device_labels::check_other(&self.config, superblock, device, copies);
            checked.map_err(|error| self.or_unreadable(error))?;
        }
        let tree_device = superblock.tree_device();
        ROOT_OFFSETS.into_iter().for_each(|offset| self.io.read(tree_device, offset, BLOCK));
        self.phase = OpeningPhase::Roots;
        Ok(())
    }

    fn take_roots(&mut self, buffers: &[AlignedBuf]) -> Result<(), OpenError> {
        let uuid = self.superblock().uuid;
        let mut roots: Vec<CheckpointRoot> =
            buffers.iter().filter_map(|block| CheckpointRoot::decode(block.as_slice(), uuid)).collect();
        roots.sort_by_key(|root| root.sequence);
        let root = roots.pop().ok_or(OpenError::NoCheckpoint)?;
        self.older_root = roots.pop().filter(|_| self.is_to_mend);
        (self.vouched_lsn, self.session) = (root.covered_lsn, root.session);
        self.begin_tree(root)
    }

    fn begin_tree(&mut self, root: CheckpointRoot) -> Result<(), OpenError> {
        if root.wal_head > self.superblock().wal_bytes {
            return Err(OpenError::DamagedCheckpoint { offset: root.offset(), what: "log position beyond the log" });
        }
        let cache = PageCache::new(self.superblock().tag(), Memory::default().page_bytes);
        let mut state = State::new(root.tree, cache, root.next_omap_id);
        state.lists_clones = self.superblock().lists_clones();
        state.segments_at_once = self.config.tuning.segments_at_once;
        state.onodes.set_budget(Memory::default().onode_bytes);
        if let Some(totals) = &root.totals {
            state.totals = Totals::from(totals);
        }
        self.state = Some(state);
        let depth = if self.is_to_mend { Depth::Values } else { Depth::Space };
        self.tree = Some(TreeLoading::new(root.tree, depth));
        self.root = Some(root);
        self.phase = OpeningPhase::Tree;
        self.advance_pages()
    }

    /// Falls back to the tree of the checkpoint before, since the topmost page cannot be used. That tree may still be
    /// intact if the log behind it is. Records known to have been durable stay known.
    fn fall_back(&mut self, error: OpenError) -> Result<(), OpenError> {
        let Some(older) = self.older_root.take() else { return Err(error) };
        assert!(self.pages.is_empty(), "pages below one that was not read");
        self.lost_tree = Some(Box::new(error));
        self.begin_tree(older)
    }

    fn state(&mut self) -> &mut State {
        self.state.as_mut().expect("the tree comes behind the root")
    }

    /// Goes on with the phase that needs pages of the tree, and asks for missing ones.
    pub(super) fn advance_pages(&mut self) -> Result<(), OpenError> {
        let device = self.superblock().tree_device();
        let state = self.state.as_mut().expect("the tree comes behind the root");
        let is_tree = matches!(self.phase, OpeningPhase::Tree);
        let done = match &mut self.phase {
            OpeningPhase::Tree => self.tree.as_mut().expect("it comes behind the root").advance(&mut state.cache),
            OpeningPhase::Apply(steps) => apply_steps(state, steps),
            OpeningPhase::Mend(mending) => mending.advance(state),
            OpeningPhase::Count(counting) => counting.advance(state),
            // The page was read ahead of need.
            _ => return Ok(()),
        };
        let done = match done {
            Ok(done) => done,
            Err(error) => {
                let error = match error {
                    OpenError::Device { offset, errno, .. } => OpenError::Device { device, offset, errno },
                    error => error,
                };
                return if is_tree { self.fall_back(error) } else { Err(error) };
            }
        };
        while let Some(read) = self.state().cache.poll_read() {
            let (Run { start, .. }, space) = (read.run, self.superblock().tree_space());
            if start < space.start || read.run.end() > space.end() {
                return Err(OpenError::DamagedSpace { start, end: read.run.end() });
            }
            let id = self.io.next_id();
            self.pages.insert(id, read.id);
            let buf = AlignedBuf::zeroed(read.run.len_bytes() as usize);
            let device = self.superblock().tree_device();
            self.io.push(IoRequest::Read { id, device, offset: read.run.offset_bytes(), buf });
        }
        // Pages read ahead of need come in first.
        if !done || !self.pages.is_empty() {
            return Ok(());
        }
        match std::mem::replace(&mut self.phase, OpeningPhase::Over) {
            OpeningPhase::Tree => {
                self.phase = OpeningPhase::Scan(0);
                self.read_log(0);
            }
            OpeningPhase::Apply(_) => return self.next_record(),
            OpeningPhase::Mend(mending) => {
                let (log, tree) = (self.lost_log.take(), self.lost_tree.take());
                self.mended = Some(Box::new(Mended { log, tree, ..mending.finish()? }));
                return self.count();
            }
            OpeningPhase::Count(mut counting) => {
                let tree = self.tree.as_mut().expect("the tree was walked");
                counting.losses.splice(..0, std::mem::take(&mut tree.losses));
                let runs = std::mem::take(&mut tree.runs);
                let superblock = self.superblock();
                let space = superblock.metadata_device.map(|_| superblock.tree_space());
                // Records that were found may sit in a device's cache, so a flush comes before any caller relies on
                // this state.
                let devices: Vec<Device> = superblock.devices().collect();
                self.tree_blocks = counting.take_tree(&runs, space)?;
                self.phase = OpeningPhase::Flush(counting, devices.len() as u32);
                for device in devices {
                    let id = self.io.next_id();
                    self.io.push(IoRequest::Flush { id, device });
                }
            }
            phase => panic!("{phase:?} needs no pages"),
        }
        Ok(())
    }

    pub(super) fn log_ended(&mut self) -> Result<(), OpenError> {
        let (next_omap_id, state) = (self.root().next_omap_id, self.state.as_mut().expect("it comes behind the root"));
        let losses = &self.tree.as_ref().expect("the tree was walked").losses;
        if self.is_to_mend && !(losses.is_empty() && state.damaged.is_empty()) {
            self.phase = OpeningPhase::Mend(Box::new(Mending::new(state, losses.clone(), next_omap_id)));
            return self.advance_pages();
        }
        if self.lost_log.is_some() || self.lost_tree.is_some() {
            let (log, tree) = (self.lost_log.take(), self.lost_tree.take());
            self.mended = Some(Box::new(Mended { log, tree, ..Mended::default() }));
        }
        self.count()
    }

    fn count(&mut self) -> Result<(), OpenError> {
        let (begin, device_blocks) = (self.superblock().data_begin(), self.superblock().device_blocks());
        // The sums are known unless the last checkpoint met damage.
        let is_counted = self.root().totals.is_some() && self.mended.is_none();
        let sum_up = !is_counted || self.config.tuning.counts_anew;
        let mut allocator = Allocator::with_units(device_blocks, self.config.indirection_unit_bytes / BLOCK as u32);
        let data = Run { start: begin, count: device_blocks - begin };
        allocator.release(data);
        let counting = Counting::new(allocator, data, sum_up);
        self.phase = OpeningPhase::Count(Box::new(counting));
        self.advance_pages()
    }
}
