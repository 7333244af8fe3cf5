//! Opening: labels, the metadata tree's blocks (`tree_loading`), log, free blocks (`counting`).
//!
//! The log is replayed from the checkpoint on. Of the records behind the highest LSN that any record vouches for, the
//! first that is torn (itself, or a data block whose content is not what the record says) ends the log: it was never
//! acknowledged. Anything wrong at or before that LSN is damage, and the store does not open. Nor does it if a block that
//! cannot be read may have held the record behind the last one. Opened to be mended, it ends with the last record before.

use crate::allocator::{Allocator, Run};
use crate::btree::{Damage, Depth, Fetch, PageCache, ReadId};
use crate::budget::Memory;
use crate::checkpoint::Checkpoint;
use crate::commit_times::CommitLog;
use crate::config::BLOCK;
use crate::counting::Counting;
use crate::destroying::Destroyed;
use crate::device_labels;
use crate::freeing::{Discards, Freeing};
use crate::io_queue::IoQueue;
use crate::loading::Need;
use crate::losses::Loss;
use crate::mending::{LostLog, Mended, Mending};
use crate::metadata_space::MetadataSpace;
use crate::opening_io::{OnError, OpeningIo};
use crate::preparing::Preparing;
use crate::redo::Redo;
use crate::redo_bytes::decode_body;
use crate::state::{State, Totals};
use crate::store::SPARE_BYTES;
use crate::superblock::{ROOT_OFFSETS, Root, SUPERBLOCK_OFFSETS, Superblock, WAL_OFFSET};
use crate::tree_loading::TreeLoading;
use crate::turns::Turns;
use crate::wal::{RecordHead, RecordHeader, Wal};
use crate::{Device, FormatError, IoDone, IoId, IoRequest, Slice, Store, StoreConfig};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use types::{AlignedBuf, BufPool, Errno, Fsid, OsdId, crc32c};
use wire::DecodeError;

/// Why a device does not open as this OSD's store. Nothing was written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OpenError {
    #[error("indirection unit of {unit_bytes} bytes; a power of two from 16 KiB to 256 KiB is possible")]
    IndirectionUnit { unit_bytes: u32 },
    #[error("not a store: no superblock where one should be")]
    NotAStore,
    #[error(
        "store of format {version} with blocks of {block_bytes} bytes and features {features:#x}; this software knows format 2 with 4096 and features 0x1"
    )]
    UnknownFormat { version: u32, block_bytes: u32, features: u64 },
    #[error("log record at {offset:#x} has layout {version} and flags {flags:#x}; this software knows 1 and no flags")]
    UnknownRecord { version: u8, flags: u8, offset: u64 },
    #[error("store of {found}, not of {expected}")]
    ForeignOsd { found: OsdId, expected: OsdId },
    #[error("the store is part {} of {} of its devices, not part {} of {}", found.index + 1, found.count, expected.index + 1, expected.count)]
    OtherSlice { found: Slice, expected: Slice },
    #[error("store of cluster {found}, not of {expected}")]
    ForeignCluster { found: Fsid, expected: Fsid },
    #[error("{device} has {device_bytes} bytes, but the store on it {store_bytes}: it was cut short")]
    Truncated { device: Device, device_bytes: u64, store_bytes: u64 },
    #[error("the store has a {device} of its own, and none is given")]
    MissingDevice { device: Device },
    #[error("a {device} is given, and the store has none")]
    UnexpectedDevice { device: Device },
    #[error("what is given as the {device} is no part of a store: no superblock where one should be")]
    NotAPart { device: Device },
    #[error("what is given as the {device} is the {found} of a store")]
    WrongRole { device: Device, found: Device },
    /// Of another store, or of another life of this one.
    #[error("the {device} belongs to store {found}, the main device to {expected}")]
    ForeignDevice { device: Device, found: Fsid, expected: Fsid },
    #[error(
        "the {device} is of this store, but not the one that it has now: another took its place, or it was cut off while the store was made"
    )]
    StaleDevice { device: Device },
    #[error("superblock with impossible sizes: {0}")]
    Sizes(FormatError),
    #[error("neither checkpoint root is readable")]
    NoCheckpoint,
    #[error("checkpoint damaged at {offset:#x}: {what}")]
    DamagedCheckpoint { offset: u64, what: &'static str },
    #[error("the topmost page of the metadata tree is damaged: {0}; see `nacre store check` and `nacre store repair`")]
    DamagedTree(Damage),
    #[error("checkpoint damaged: {0}")]
    CheckpointEntry(DecodeError),
    #[error(
        "log record {lsn} is damaged, although records up to {vouched_lsn} were durable; see `nacre store check` and `nacre store repair`"
    )]
    DamagedLog { lsn: u64, vouched_lsn: u64 },
    /// Whether there ever was such a record cannot be told.
    #[error(
        "log record {lsn}, if there is one, lies where the device cannot be read, at {offset:#x}: {}; see `nacre store check` and `nacre store repair`", Errno(*errno)
    )]
    UnreadableLog { lsn: u64, offset: u64, errno: i32 },
    #[error(
        "log record {lsn} lies at {offset:#x}, where the records around it leave no room: it was written to a wrong place; see `nacre store check` and `nacre store repair`"
    )]
    MisplacedRecord { lsn: u64, offset: u64 },
    #[error("log record {lsn}: {source}")]
    RecordBody { lsn: u64, source: DecodeError },
    #[error("blocks {start} to {end} belong to an object, but not to the device's data area or not to it alone")]
    DamagedSpace { start: u32, end: u32 },
    #[error("{device}: error at {offset:#x}: {}", Errno(*errno))]
    Device { device: Device, offset: u64, errno: i32 },
}

/// Log bytes read at once while looking for records.
const SCAN_BYTES: u64 = 1 << 20;
/// The most read at once when data blocks are verified.
const VERIFY_BLOCKS_MAX: u32 = 256;
/// Steps whose needs are read ahead.
const AHEAD: usize = 256;

#[derive(Debug)]
enum Step {
    Superblocks,
    /// The superblocks of the other devices.
    OtherSuperblocks,
    Roots,
    /// Pages of the tree are being read.
    Tree,
    /// Looking for the beginnings of records; this many bytes of the log are done.
    Scan(u64),
    Record(RecordHeader),
    /// The data of a record that nothing vouches for is being compared: first block and checksums of each buffer in turn.
    Verify {
        header: RecordHeader,
        steps: Vec<Redo>,
        crcs: Vec<(u32, Vec<u32>)>,
    },
    /// The steps of a record are being applied, from the first of these on: pages that they need are being read.
    Apply(VecDeque<Redo>),
    /// The log has ended; what lost parts of the tree leave behind is cleared away.
    Mend(Box<Mending>),
    /// Everything is looked at once.
    Count(Box<Counting>),
    /// So many flushes are under way.
    Flush(Box<Counting>, u32),
    Over,
}

/// A store being opened: carry out what [`Opening::poll_io`] asks for and hand it to [`Opening::io_done`], until
/// [`Opening::poll_result`] answers.
#[derive(Debug)]
pub struct Opening {
    config: StoreConfig,
    io: OpeningIo,
    step: Step,
    result: Option<Result<Store, OpenError>>,
    // What is known so far:
    superblock: Option<Superblock>,
    root: Option<Root>,
    /// The one before, for a store that is to be mended.
    older_root: Option<Root>,
    /// There from the roots on.
    state: Option<State>,
    tree: Option<TreeLoading>,
    tree_blocks: u64,
    /// Reads of the tree under way.
    pages: BTreeMap<IoId, ReadId>,
    /// Beginnings of records by LSN, with their place in the ring; of several, the one of the latest session.
    headers: BTreeMap<u64, (RecordHeader, u64)>,
    /// Session and end of the last record that the checkpoint covers, if it is still there.
    covered: Option<(u64, u64)>,
    vouched_lsn: u64,
    session: u64,
    /// Records of the log that were applied.
    replayed: u64,
    wal: Option<Wal>,
    /// Blocks written by records that nothing vouches for.
    unvouched: Vec<Run>,
    /// Whether lost parts of the metadata are given up.
    is_to_mend: bool,
    mended: Option<Box<Mended>>,
    /// The end of the log that was given up.
    lost_log: Option<LostLog>,
    /// Why the older root is used.
    lost_tree: Option<Box<OpenError>>,
}

impl Store {
    /// Begins to open the store on a device, or on those whose sizes `config` names: the sizes they have now. `fsid` and
    /// `osd` are those they must be labelled with. Nothing is written.
    pub fn open(config: StoreConfig) -> Opening {
        let mut opening = Opening {
            config,
            io: OpeningIo::default(),
            step: Step::Superblocks,
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

    /// The same, to mend a store parts of whose metadata cannot be read: reads all of it and gives up what is lost
    /// ([`Store::mended`] tells what that is). The rest can be used and changed, and a checkpoint makes it whole. Nothing is
    /// written before. Blocks that only lost parts refer to count as free, so what is written may take the place of data
    /// that a device which recovers by itself would have given back.
    pub fn open_to_mend(config: StoreConfig) -> Opening {
        Opening { is_to_mend: true, ..Store::open(config) }
    }
}

impl Opening {
    pub fn poll_io(&mut self) -> Option<IoRequest> {
        self.io.poll()
    }

    /// The store, or why there is none; `None` as long as requests are under way. Answers once.
    pub fn poll_result(&mut self) -> Option<Result<Store, OpenError>> {
        self.result.take()
    }

    /// Takes the outcome of a request. Panics for one that was not made.
    pub fn io_done(&mut self, done: IoDone) {
        if matches!(self.step, Step::Over) {
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
        if let Step::Flush(_, left) = &mut self.step {
            *left -= 1;
            if *left > 0 && done.result.is_ok() {
                return;
            }
            let result = match (std::mem::replace(&mut self.step, Step::Over), done.result) {
                (Step::Flush(counting, _), Ok(_)) => Ok(self.build(*counting)),
                (_, Err(errno)) => Err(OpenError::Device { device: Device::Main, offset: 0, errno }),
                (step, _) => panic!("{step:?} is no flush"),
            };
            return self.end(result);
        }
        let on_error = match self.step {
            // There is another copy.
            Step::Superblocks | Step::OtherSuperblocks => OnError::Note,
            Step::Scan(_) | Step::Record(_) | Step::Verify { .. } => OnError::Note,
            _ => OnError::Fail,
        };
        let result = self.io.done(done, on_error);
        let advanced = result.and_then(|buffers| buffers.map_or(Ok(()), |buffers| self.advance(buffers)));
        if let Err(error) = advanced {
            self.end(Err(error));
        }
    }

    fn end(&mut self, result: Result<Store, OpenError>) {
        self.step = Step::Over;
        self.io.clear();
        self.result = Some(result);
    }

    fn superblock(&self) -> &Superblock {
        self.superblock.as_ref().expect("the superblock comes first")
    }

    fn root(&self) -> &Root {
        self.root.as_ref().expect("the root comes before what it names")
    }

    /// Takes the buffers of a step and begins the next.
    fn advance(&mut self, buffers: Vec<AlignedBuf>) -> Result<(), OpenError> {
        match std::mem::replace(&mut self.step, Step::Over) {
            Step::Superblocks => self.take_superblocks(&buffers),
            Step::OtherSuperblocks => self.take_other_superblocks(&buffers),
            Step::Roots => self.take_roots(&buffers),
            Step::Scan(at) => self.scan(at, &buffers),
            Step::Record(header) => self.take_record(header, &buffers[0]),
            Step::Verify { header, steps, crcs } => {
                let blocks = |buf: &AlignedBuf| {
                    buf.as_slice().chunks_exact(BLOCK as usize).map(crc32c::checksum).collect::<Vec<u32>>()
                };
                // A block made of damaged bytes has the inverted checksum: written as it was meant to be.
                // One that cannot be read is not one that was not written: the record counts, and the block is bad.
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
            step @ (Step::Tree | Step::Apply(_) | Step::Mend(_) | Step::Count(_) | Step::Flush(..) | Step::Over) => {
                panic!("buffers for {step:?}")
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
        self.step = Step::OtherSuperblocks;
        if self.io.is_step_done() { self.take_other_superblocks(&[]) } else { Ok(()) }
    }

    /// Why there is no superblock: if a device did not give a copy, that.
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
        self.step = Step::Roots;
        Ok(())
    }

    fn take_roots(&mut self, buffers: &[AlignedBuf]) -> Result<(), OpenError> {
        let uuid = self.superblock().uuid;
        let mut roots: Vec<Root> = buffers.iter().filter_map(|block| Root::decode(block.as_slice(), uuid)).collect();
        roots.sort_by_key(|root| root.sequence);
        let root = roots.pop().ok_or(OpenError::NoCheckpoint)?;
        self.older_root = roots.pop().filter(|_| self.is_to_mend);
        (self.vouched_lsn, self.session) = (root.covered_lsn, root.session);
        self.begin_tree(root)
    }

    fn begin_tree(&mut self, root: Root) -> Result<(), OpenError> {
        if root.wal_head > self.superblock().wal_bytes {
            return Err(OpenError::DamagedCheckpoint { offset: root.offset(), what: "log position beyond the log" });
        }
        let cache = PageCache::new(self.superblock().tag(), Memory::default().page_bytes);
        let mut state = State::new(root.tree, cache, root.next_omap_id);
        state.lists_clones = self.superblock().lists_clones();
        state.onodes.set_budget(Memory::default().onode_bytes);
        if let Some(totals) = &root.totals {
            state.totals = Totals::from(totals);
        }
        self.state = Some(state);
        let depth = if self.is_to_mend { Depth::Values } else { Depth::Space };
        self.tree = Some(TreeLoading::new(root.tree, depth));
        self.root = Some(root);
        self.step = Step::Tree;
        self.advance_pages()
    }

    /// The topmost page of the tree cannot be used. The tree of the checkpoint before may still be there, for what of the
    /// log behind it is there too: what is known to have been durable stays known.
    fn fall_back(&mut self, error: OpenError) -> Result<(), OpenError> {
        let Some(older) = self.older_root.take() else { return Err(error) };
        assert!(self.pages.is_empty(), "pages below one that was not read");
        self.lost_tree = Some(Box::new(error));
        self.begin_tree(older)
    }

    fn state(&mut self) -> &mut State {
        self.state.as_mut().expect("the tree comes behind the root")
    }

    /// Goes on with what needs pages of the tree, and asks for those that are missing.
    fn advance_pages(&mut self) -> Result<(), OpenError> {
        let device = self.superblock().tree_device();
        let state = self.state.as_mut().expect("the tree comes behind the root");
        let is_tree = matches!(self.step, Step::Tree);
        let done = match &mut self.step {
            Step::Tree => self.tree.as_mut().expect("it comes behind the root").advance(&mut state.cache),
            Step::Apply(steps) => apply_steps(state, steps),
            Step::Mend(mending) => mending.advance(state),
            Step::Count(counting) => counting.advance(state),
            // Pages that were read ahead of need.
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
        // What was read ahead of need comes in first.
        if !done || !self.pages.is_empty() {
            return Ok(());
        }
        match std::mem::replace(&mut self.step, Step::Over) {
            Step::Tree => {
                self.step = Step::Scan(0);
                self.read_log(0);
            }
            Step::Apply(_) => return self.next_record(),
            Step::Mend(mending) => {
                let (log, tree) = (self.lost_log.take(), self.lost_tree.take());
                self.mended = Some(Box::new(Mended { log, tree, ..mending.finish()? }));
                return self.count();
            }
            Step::Count(mut counting) => {
                let tree = self.tree.as_mut().expect("the tree was walked");
                counting.losses.splice(..0, std::mem::take(&mut tree.losses));
                let runs = std::mem::take(&mut tree.runs);
                let superblock = self.superblock();
                let space = superblock.metadata_device.map(|_| superblock.tree_space());
                // Records that were found may sit in a device's cache. Whoever sees this state may rely on it.
                let devices: Vec<Device> = superblock.devices().collect();
                self.tree_blocks = counting.take_tree(&runs, space)?;
                self.step = Step::Flush(counting, devices.len() as u32);
                for device in devices {
                    let id = self.io.next_id();
                    self.io.push(IoRequest::Flush { id, device });
                }
            }
            step => panic!("{step:?} needs no pages"),
        }
        Ok(())
    }

    fn read_log(&mut self, at: u64) {
        let len = SCAN_BYTES.min(self.superblock().wal_bytes - at);
        self.io.read(self.superblock().log_device(), WAL_OFFSET + at, len);
    }

    fn scan(&mut self, at: u64, buffers: &[AlignedBuf]) -> Result<(), OpenError> {
        let bytes = buffers[0].as_slice();
        let uuid = self.superblock().uuid;
        for (index, block) in bytes.chunks_exact(BLOCK as usize).enumerate() {
            let place = at + index as u64 * BLOCK;
            let header = match RecordHeader::decode(block, uuid) {
                None => continue,
                Some(RecordHead::Unknown { version, flags }) => {
                    return Err(OpenError::UnknownRecord { version, flags, offset: WAL_OFFSET + place });
                }
                Some(RecordHead::Known(header)) => header,
            };
            self.vouched_lsn = self.vouched_lsn.max(header.durable_lsn);
            self.session = self.session.max(header.session);
            let covered_lsn = self.root().covered_lsn;
            if header.lsn == covered_lsn && self.covered.is_none_or(|(session, _)| session < header.session) {
                self.covered = Some((header.session, place + header.record_bytes()));
            }
            if header.lsn > covered_lsn {
                let known = self.headers.entry(header.lsn).or_insert((header, place));
                if known.0.session < header.session {
                    *known = (header, place);
                }
            }
        }
        let next = at + bytes.len() as u64;
        if next < self.superblock().wal_bytes {
            self.step = Step::Scan(next);
            self.read_log(next);
            return Ok(());
        }
        if mutant::is(mutant::Mutant::ReplayStopsEarly) {
            self.headers.pop_last();
        }
        let (root, superblock) = (self.root(), self.superblock());
        let wal =
            Wal::new(uuid, self.session + 1, WAL_OFFSET, superblock.wal_bytes, root.wal_head, root.covered_lsn + 1);
        // From here on the session is that of the last record replayed.
        let root_session = root.session;
        self.wal = Some(wal);
        self.session = root_session;
        self.next_record()
    }

    fn next_lsn(&self) -> u64 {
        self.wal.as_ref().expect("made at the end of the scan").next_lsn
    }

    fn next_record(&mut self) -> Result<(), OpenError> {
        let lsn = self.next_lsn();
        let Some((header, place)) =
            self.headers.get(&lsn).copied().filter(|(header, _)| header.session >= self.session)
        else {
            return self.end_of_log(lsn);
        };
        if place + header.record_bytes() > self.superblock().wal_bytes {
            return self.end_of_log(lsn);
        }
        self.step = Step::Record(header);
        self.io.read(self.superblock().log_device(), WAL_OFFSET + place, header.record_bytes());
        Ok(())
    }

    fn take_record(&mut self, header: RecordHeader, buf: &AlignedBuf) -> Result<(), OpenError> {
        let Some(body) = header.body(buf.as_slice()) else { return self.end_of_log(header.lsn) };
        let steps = decode_body(body).map_err(|source| OpenError::RecordBody { lsn: header.lsn, source })?;
        if header.lsn <= self.vouched_lsn || mutant::is(mutant::Mutant::TornAccepted) {
            return self.apply(header, steps);
        }
        let mut crcs = Vec::new();
        for step in &steps {
            let Redo::Map { runs, crcs: all, .. } = step else { continue };
            let mut rest = &all[..];
            for run in runs {
                if run.end() > self.superblock().device_blocks() {
                    return Err(OpenError::DamagedSpace { start: run.start, end: run.end() });
                }
                self.unvouched.push(*run);
                for start in (run.start..run.end()).step_by(VERIFY_BLOCKS_MAX as usize) {
                    let part = Run { start, count: VERIFY_BLOCKS_MAX.min(run.end() - start) };
                    let (here, behind) = rest.split_at(part.count as usize);
                    crcs.push((start, here.to_vec()));
                    rest = behind;
                    self.io.read(Device::Main, part.offset_bytes(), part.len_bytes());
                }
            }
        }
        if crcs.is_empty() {
            return self.apply(header, steps);
        }
        self.step = Step::Verify { header, steps, crcs };
        Ok(())
    }

    fn apply(&mut self, header: RecordHeader, steps: Vec<Redo>) -> Result<(), OpenError> {
        let (_, place) = self.headers[&header.lsn];
        let wal = self.wal.as_mut().expect("made at the end of the scan");
        if !wal.adopt(place, header.record_bytes()) {
            let error = OpenError::MisplacedRecord { lsn: header.lsn, offset: WAL_OFFSET + place };
            return self.give_up_log(header.lsn, error);
        }
        self.session = header.session;
        self.replayed += 1;
        self.step = Step::Apply(steps.into());
        self.advance_pages()
    }

    /// The log ends before `lsn`.
    fn end_of_log(&mut self, lsn: u64) -> Result<(), OpenError> {
        if let Some((offset, errno)) = self.unreadable_record(lsn) {
            return self.give_up_log(lsn, OpenError::UnreadableLog { lsn, offset, errno });
        }
        if lsn <= self.vouched_lsn {
            return self.give_up_log(lsn, OpenError::DamagedLog { lsn, vouched_lsn: self.vouched_lsn });
        }
        self.log_ended()
    }

    /// A block that cannot be read and may have held a part of the record `lsn`, of which no other part is missed.
    fn unreadable_record(&self, lsn: u64) -> Option<(u64, i32)> {
        let wal = self.wal.as_ref().expect("made at the end of the scan");
        let unreadable =
            |at: u64, len: u64| self.io.first_unreadable(self.superblock().log_device(), WAL_OFFSET + at, len);
        // One that is torn may be an earlier start's, behind which a later start wrote another with this number.
        let known = self.headers.get(&lsn).filter(|(header, _)| header.session >= self.session);
        let torn = known.and_then(|(header, place)| unreadable(*place, header.record_bytes()));
        // It began where the one before ended; or, if it did not fit there, where the ring begins. The first behind a
        // checkpoint that was written by a later start began where the root says: that lies apart if records were
        // written beside the checkpoint and then lost.
        let end = match (wal.live_records(), self.covered) {
            (0, Some((_, end))) => end % wal.bytes(),
            // Nothing was ever written.
            (0, None) if lsn == 1 => wal.head_in_ring(),
            (0, None) => return torn.or_else(|| unreadable(0, wal.bytes())),
            _ => wal.head_in_ring(),
        };
        if mutant::is(mutant::Mutant::LogEndGuessed) {
            return torn.or_else(|| [end, 0].into_iter().find_map(|at| unreadable(at, BLOCK)));
        }
        torn.or_else(|| [end, wal.head_in_ring(), 0].into_iter().find_map(|at| unreadable(at, BLOCK)))
    }

    /// The record `lsn` cannot be had, and may have been durable. Nothing behind it is of use without it.
    fn give_up_log(&mut self, lsn: u64, error: OpenError) -> Result<(), OpenError> {
        if !self.is_to_mend {
            return Err(error);
        }
        let last_lsn = self.headers.keys().next_back().map_or(lsn, |last| lsn.max(*last)).max(self.vouched_lsn);
        self.lost_log = Some(LostLog { lsn, last_lsn, why: error });
        // What is written from now on comes behind all that ever was.
        self.wal.as_mut().expect("made at the end of the scan").close_at(last_lsn + 1);
        self.log_ended()
    }

    fn log_ended(&mut self) -> Result<(), OpenError> {
        let (next_omap_id, state) = (self.root().next_omap_id, self.state.as_mut().expect("it comes behind the root"));
        let losses = &self.tree.as_ref().expect("the tree was walked").losses;
        if self.is_to_mend && !(losses.is_empty() && state.damaged.is_empty()) {
            self.step = Step::Mend(Box::new(Mending::new(state, losses.clone(), next_omap_id)));
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
        // Sums are known unless the last checkpoint came upon damage.
        let is_counted = self.root().totals.is_some() && self.mended.is_none();
        let sum_up = !is_counted || (cfg!(test) && self.root().sequence.is_multiple_of(2));
        let mut allocator = Allocator::with_units(device_blocks, self.config.indirection_unit_bytes / BLOCK as u32);
        let data = Run { start: begin, count: device_blocks - begin };
        allocator.release(data);
        let counting = Counting::new(allocator, data, sum_up);
        self.step = Step::Count(Box::new(counting));
        self.advance_pages()
    }

    fn build(&mut self, counting: Counting) -> Store {
        let superblock = self.superblock().clone();
        let Counting { mut allocator, mut own, shared, totals, groups, copies, data_blocks, losses, .. } = counting;
        let mut state = self.state.take().expect("the tree was read");
        state.shared = Some(shared);
        let mut tree_totals = self.root().totals.filter(|_| self.mended.is_none());
        let is_whole = self.mended.is_some() || losses.is_empty() && state.damaged.is_empty();
        if !is_whole {
            // Any block may belong to something that is lost.
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
            stopped: (!is_whole).then(|| why_damaged(&losses)),
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

/// Why a store accepts no change.
fn why_damaged(losses: &[Loss]) -> String {
    let what = match losses {
        [] => "changes in the log are of objects whose metadata is damaged".to_owned(),
        [one] => format!("metadata is damaged: {one}"),
        [first, ..] => format!("metadata is damaged in {} places, the first: {first}", losses.len()),
    };
    format!("{what}; see `nacre store check` and `nacre store repair`")
}

/// Applies steps of the log, as far as what they need was read; whether all are applied.
fn apply_steps(state: &mut State, steps: &mut VecDeque<Redo>) -> Result<bool, OpenError> {
    // Blocks that become free are not followed: those in use are counted when the log has ended.
    let mut freed = Vec::new();
    loop {
        while !state.destroying.is_empty() {
            if let Destroyed::Waiting(_) = state.destroy_some(&mut freed) {
                return Ok(false);
            }
        }
        let Some(redo) = steps.front() else { break };
        match is_ready(state, redo) {
            Ok(true) => state.apply(redo, &mut freed),
            Ok(false) => {
                // What the next ones need is read meanwhile.
                for redo in steps.iter().skip(1).take(AHEAD) {
                    let _ = is_loaded(state, redo);
                }
                return Ok(false);
            }
            Err(damage) => {
                let object = redo.object().expect("steps on groups need nothing");
                state.damaged.insert(object.into(), damage);
            }
        }
        steps.pop_front();
    }
    state.settle();
    state.omap_copies.clear();
    state.onodes.trim(|_| false);
    Ok(true)
}

/// Whether the next step can be applied: all that it needs is in memory, and what it takes is copied.
fn is_ready(state: &mut State, redo: &Redo) -> Result<bool, Damage> {
    Ok(is_loaded(state, redo)? && matches!(state.copy_for(redo)?, Fetch::Ready(())))
}

/// Whether all that a step needs is in memory; if not, it is being read.
fn is_loaded(state: &mut State, redo: &Redo) -> Result<bool, Damage> {
    let (mut loaded, mut failed) = (true, None);
    Need::of_redo(redo, &mut |need| match state.load(need) {
        Ok(Fetch::Ready(())) => {}
        Ok(Fetch::Pending(_)) => loaded = false,
        Err(damage) => drop(failed.get_or_insert(damage)),
    });
    failed.map_or(Ok(loaded), Err)
}
