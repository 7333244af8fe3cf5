//! Reads of objects' bytes.

use crate::btree::{Damage, Fetch, ReadId};
use crate::config::BLOCK;
use crate::data::in_flight::InFlightPart;
use crate::disk::key::{Key, known_object, object_key};
use crate::engine::io_queue::Purpose;
use crate::engine::queue::Accepted;
use crate::metadata::block_map::BlockMap;
use crate::metadata::onode::{Onode, inline_part};
use crate::space::run::Run;
use crate::{Lookup, LookupId, ReadError, Store, StoreEvent};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Bound;
use types::{AlignedBuf, ObjectId, crc32c};
use wire::Rope;

/// Maximum number of blocks that one request reads: 1 MiB, so that many buffers of one size come and go.
const READ_BLOCKS_MAX: u32 = 256;

static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// Returns `len` zeros that take no memory.
fn zeros(mut len: u64) -> Rope {
    let mut rope = Rope::new();
    while len > 0 {
        let piece = len.min(ZEROS.len() as u64);
        rope.push(Bytes::from_static(&ZEROS[..piece as usize]));
        len -= piece;
    }
    rope
}

#[derive(Debug)]
enum ReadPart {
    Ready(Rope),
    /// Bytes on their way from the device: first object block, place, and expected checksums.
    Device {
        first: u32,
        run: Run,
        crcs: Vec<u32>,
        /// Blocks read so far after the read failed. The read is then repeated block by block, so that the error names
        /// the bad block.
        singly: Option<Rope>,
    },
    /// A block that is still being merged; it will come whole.
    Merge {
        first: u32,
        device: u32,
    },
}

#[derive(Debug)]
struct Read {
    object: Key,
    parts: Vec<ReadPart>,
    /// Number of parts that are not ready.
    pending: usize,
    /// Number of bytes of the parts before the wanted range, and the range's length.
    skip: usize,
    len: usize,
    number: u64,
    /// True if the data goes to the block cache.
    cached: bool,
    error: Option<ReadError>,
}

/// The origin of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ReadFor {
    Caller,
    /// The caller, to check that the device still has the data.
    Check,
    Store,
}

/// A read whose blocks are not known yet.
#[derive(Debug)]
struct Parked {
    id: LookupId,
    object: Key,
    offset: u64,
    len: u64,
    reader: ReadFor,
    /// The read comes behind the transactions up to this one.
    behind: u64,
}

/// Reads under way.
#[derive(Default, Debug)]
pub(crate) struct Reads {
    reads: BTreeMap<LookupId, Read>,
    /// Parked reads by the page of metadata that they wait for.
    for_page: BTreeMap<ReadId, Vec<Parked>>,
    /// Parked reads by the transaction that they wait for.
    for_ticket: BTreeMap<u64, Vec<Parked>>,
    /// Objects of all parked reads, with the transactions that come before them: later transactions on them wait.
    parked: BTreeMap<Key, Vec<u64>>,
}

impl Reads {
    /// Returns true if the transaction would change the bytes of a parked read that comes before it.
    pub fn are_disturbed_by(&self, ticket: u64, txn: &Accepted) -> bool {
        if self.parked.is_empty() {
            return false;
        }
        let before = |behind: &[u64]| behind.iter().any(|behind| *behind < ticket);
        let of_object = |object: &Key| self.parked.get(object).is_some_and(|behind| before(behind));
        let of_range = |(begin, end): (Key, Key)| {
            let bounds = (Bound::Included(&*begin), Bound::Excluded(&*end));
            begin < end && self.parked.range::<[u8], _>(bounds).any(|(_, behind)| before(behind))
        };
        txn.objects().any(of_object) || txn.ranges().any(of_range)
    }

    /// Returns true if a read waits to learn where the object's blocks are.
    pub fn wait_for(&self, object: &[u8]) -> bool {
        self.parked.contains_key(object)
    }

    pub fn is_idle(&self) -> bool {
        self.reads.is_empty() && self.parked.is_empty()
    }

    fn park(&mut self, read: Parked, page: Option<ReadId>) {
        self.parked.entry(read.object.clone()).or_default().push(read.behind);
        let waiting = match page {
            Some(page) => self.for_page.entry(page).or_default(),
            None => self.for_ticket.entry(read.behind).or_default(),
        };
        waiting.push(read);
    }

    fn unpark(&mut self, read: &Parked) {
        let behind = self.parked.get_mut(&read.object).expect("parked reads name their objects");
        let at = behind.iter().position(|behind| *behind == read.behind).expect("each of them");
        behind.swap_remove(at);
        if behind.is_empty() {
            self.parked.remove(&read.object);
        }
    }
}

impl Store {
    /// Reads the bytes `offset .. offset + len`, clipped to the object's size. Holes read as zeros; an absent object
    /// has no bytes. If pending, [`StoreEvent::ReadDone`] brings the bytes as they were at this call.
    pub fn read(&mut self, object: &ObjectId, offset: u64, len: u64) -> Lookup<Rope> {
        self.read_for(ReadFor::Caller, object, offset, len)
    }

    /// Reads like [`Store::read`], but takes data from the device, not from the cache: to check that it can still be
    /// read.
    pub fn verify(&mut self, object: &ObjectId, offset: u64, len: u64) -> Lookup<Rope> {
        self.read_for(ReadFor::Check, object, offset, len)
    }

    /// Reads like [`Store::read`], for the store's own use.
    pub(crate) fn read_quietly(&mut self, object: &ObjectId, offset: u64, len: u64) -> Lookup<Rope> {
        self.read_for(ReadFor::Store, object, offset, len)
    }

    fn read_for(&mut self, reader: ReadFor, object: &ObjectId, offset: u64, len: u64) -> Lookup<Rope> {
        let key = object_key(object);
        if reader == ReadFor::Caller {
            self.relocation.compaction.disturb();
        }
        if let Some(ticket) = self.queue.last_of_object(&key) {
            let id = self.lookups.next_id();
            self.reads.park(Parked { id, object: key, offset, len, reader, behind: ticket }, None);
            return Lookup::Pending(id);
        }
        match self.load_for_read(&key, offset, len) {
            Ok(Fetch::Ready(None)) => Lookup::Ready(Rope::new()),
            Ok(Fetch::Ready(Some(end))) => match self.begin_read(None, key, offset, end, reader) {
                Begun::Whole(bytes) => Lookup::Ready(bytes),
                Begun::Pending(id) => Lookup::Pending(id),
            },
            Ok(Fetch::Pending(page)) => {
                let id = self.lookups.next_id();
                let behind = self.turns.last_staged();
                self.reads.park(Parked { id, object: key, offset, len, reader, behind }, Some(page));
                Lookup::Pending(id)
            }
            Err(damage) => Lookup::Damaged(damage),
        }
    }

    /// Loads the block map of a range; returns the end of the range's bytes, or `None` if there are none.
    fn load_for_read(&mut self, object: &[u8], offset: u64, len: u64) -> Result<Fetch<Option<u64>>, Damage> {
        if let Fetch::Pending(page) = self.state.load_head(object)? {
            return Ok(Fetch::Pending(page));
        }
        let size = self.state.known(object).map_or(0, Onode::size);
        let end = offset.saturating_add(len).min(size);
        if offset >= end {
            return Ok(Fetch::Ready(None));
        }
        Ok(match self.state.load_blocks(object, (offset / BLOCK) as u32, end.div_ceil(BLOCK))? {
            Fetch::Pending(page) => Fetch::Pending(page),
            Fetch::Ready(()) => Fetch::Ready(Some(end)),
        })
    }

    /// Begins to read `offset .. end` of an object whose blocks there are known. `id`: the id of a parked read.
    fn begin_read(&mut self, id: Option<LookupId>, key: Key, offset: u64, end: u64, reader: ReadFor) -> Begun {
        let onode = self.state.known(&key).expect("it has bytes");
        let (first, behind, is_inline) = (offset / BLOCK, end.div_ceil(BLOCK), !onode.inline.is_empty());
        let cached = reader != ReadFor::Check;
        let (parts, error) = match is_inline {
            true => (inline_parts(&onode.inline, first, behind), None),
            false => self.read_parts(&key, &onode.blocks, first, behind, cached),
        };
        // Only reads of the caller are waited for, so only they show scattered data.
        if reader == ReadFor::Caller && !is_inline && self.relocation.is_scattered(behind - first, parts.len() as u64) {
            self.note_scattered(&key, first, behind);
        }
        let pending = parts.iter().filter(|part| !matches!(part, ReadPart::Ready(_))).count();
        let (skip, len) = ((offset % BLOCK) as usize, (end - offset) as usize);
        if pending == 0 && error.is_none() {
            return Begun::Whole(assemble(parts, skip, len));
        }
        let id = id.unwrap_or_else(|| self.lookups.next_id());
        if let Some(error) = error {
            // The error is known at once, but callers expect errors in the event that brings the bytes.
            self.events.push_back(StoreEvent::ReadDone { id, result: Err(error) });
            return Begun::Pending(id);
        }
        for (at, part) in parts.iter().enumerate() {
            match part {
                ReadPart::Ready(_) => {}
                ReadPart::Device { run, .. } => self.io.read(Purpose::Read { id, part: at }, *run, &self.buffers),
                ReadPart::Merge { device, .. } => self.merges.wait(*device, id, at),
            }
        }
        let number = self.freeing.begin_read();
        self.reads.reads.insert(
            id,
            Read { object: key, parts, pending, skip, len, number, cached: reader == ReadFor::Caller, error: None },
        );
        Begun::Pending(id)
    }

    /// Goes on with the reads that waited for a page of metadata, which was read or cannot be.
    pub(crate) fn begin_reads_with_page(&mut self, page: ReadId) {
        for read in self.reads.for_page.remove(&page).into_iter().flatten() {
            self.reads.unpark(&read);
            self.begin_parked(read);
        }
    }

    /// Goes on with the reads that waited for a transaction, which is applied now.
    pub(crate) fn begin_reads_behind(&mut self, ticket: u64) {
        for read in self.reads.for_ticket.remove(&ticket).into_iter().flatten() {
            self.reads.unpark(&read);
            self.begin_parked(read);
        }
    }

    fn begin_parked(&mut self, read: Parked) {
        let id = read.id;
        let result = match self.load_for_read(&read.object, read.offset, read.len) {
            Ok(Fetch::Pending(page)) => return self.reads.park(read, Some(page)),
            Ok(Fetch::Ready(None)) => Ok(Rope::new()),
            Ok(Fetch::Ready(Some(end))) => {
                match self.begin_read(Some(id), read.object, read.offset, end, read.reader) {
                    Begun::Whole(bytes) => Ok(bytes),
                    Begun::Pending(_) => return,
                }
            }
            Err(damage) => Err(ReadError::Metadata { object: known_object(&read.object), damage: Box::new(damage) }),
        };
        self.events.push_back(StoreEvent::ReadDone { id, result });
    }

    /// Returns the parts of the object's blocks `first .. end`, in order, and the first error that is known without
    /// reading.
    fn read_parts(
        &self,
        key: &[u8],
        blocks: &BlockMap,
        first: u64,
        end: u64,
        cached: bool,
    ) -> (Vec<ReadPart>, Option<ReadError>) {
        let mut parts = Vec::new();
        let mut at = first;
        let mut error = None;
        for (begin, run) in blocks.runs(first as u32, end) {
            if at < u64::from(begin) {
                parts.push(ReadPart::Ready(zeros((u64::from(begin) - at) * BLOCK)));
            }
            at = u64::from(begin) + u64::from(run.count);
            let object_block = |device: u32| begin + (device - run.start);
            for found in self.in_flight.split(run) {
                match found {
                    InFlightPart::Here { data, damaged: false, .. } => parts.push(ReadPart::Ready(data)),
                    InFlightPart::Here { run, .. } => {
                        error = error.or(Some(checksum_error(key, object_block(run.start), run.start)));
                    }
                    InFlightPart::OnDevice(mut rest) => {
                        while rest.count > 0 {
                            let merge = self.merges.first_in(rest);
                            if merge == Some(rest.start) {
                                parts.push(ReadPart::Merge { first: object_block(rest.start), device: rest.start });
                                rest = Run { start: rest.start + 1, count: rest.count - 1 };
                                continue;
                            }
                            let until = merge.unwrap_or(rest.end()).min(rest.start + READ_BLOCKS_MAX);
                            let mut part = Run { start: rest.start, count: until - rest.start };
                            let first = object_block(part.start);
                            let mut crcs = Vec::with_capacity(part.count as usize);
                            blocks.for_each(first, u64::from(first) + u64::from(part.count), |_, b| crcs.push(b.crc));
                            match cached.then(|| self.block_cache.find(part, &crcs)).flatten() {
                                Some((found, data)) if found.start == part.start => {
                                    let crcs = crcs[..found.count as usize].into();
                                    parts.push(ReadPart::Ready(Rope::from(data).with_block_crcs(crcs)));
                                    rest = Run { start: found.end(), count: rest.end() - found.end() };
                                    continue;
                                }
                                Some((behind, _)) => part.count = behind.start - part.start,
                                None => {}
                            }
                            crcs.truncate(part.count as usize);
                            parts.push(ReadPart::Device { first, run: part, crcs, singly: None });
                            rest = Run { start: part.end(), count: rest.end() - part.end() };
                        }
                    }
                }
            }
        }
        if at < end {
            parts.push(ReadPart::Ready(zeros((end - at) * BLOCK)));
        }
        (parts, error)
    }

    pub(crate) fn read_part_done(&mut self, id: LookupId, at: usize, result: Result<AlignedBuf, i32>) {
        let read = self.reads.reads.get_mut(&id).unwrap_or_else(|| panic!("a part of {id:?}, which is over"));
        let ReadPart::Device { first, run, crcs, singly } = &mut read.parts[at] else {
            panic!("part {at} of {id:?} was not read")
        };
        let done = singly.as_ref().map_or(0, |blocks| blocks.len() / BLOCK as usize);
        let outcome = match result {
            Err(_) if singly.is_none() && run.count > 1 => {
                *singly = Some(Rope::new());
                let one = Run { start: run.start, count: 1 };
                return self.io.read(Purpose::Read { id, part: at }, one, &self.buffers);
            }
            Err(errno) => Err(ReadError::Device {
                object: known_object(&read.object),
                object_offset: u64::from(*first + done as u32) * BLOCK,
                device_offset: u64::from(run.start + done as u32) * BLOCK,
                errno,
            }),
            Ok(buf) => {
                let blocks = buf.as_slice().chunks_exact(BLOCK as usize).zip(&crcs[done..]);
                let is_bad = |(block, crc): (&[u8], &u32)| {
                    crc32c::checksum(block) != *crc && !mutant::is(mutant::Mutant::CrcUnchecked)
                };
                match blocks.into_iter().position(is_bad) {
                    Some(bad) => {
                        let bad = (done + bad) as u32;
                        Err(checksum_error(&read.object, *first + bad, run.start + bad))
                    }
                    None => match singly {
                        None => {
                            let held_bytes = buf.capacity();
                            let data = buf.freeze();
                            let rope = Rope::from(data.clone()).with_block_crcs(crcs[..].into());
                            if read.cached {
                                self.block_cache.offer(*run, &data, held_bytes, std::mem::take(crcs));
                            }
                            Ok(rope)
                        }
                        Some(blocks) => {
                            blocks.push(buf.freeze());
                            if done + 1 < run.count as usize {
                                let next = Run { start: run.start + done as u32 + 1, count: 1 };
                                return self.io.read(Purpose::Read { id, part: at }, next, &self.buffers);
                            }
                            Ok(std::mem::take(blocks))
                        }
                    },
                }
            }
        };
        self.part_ready(id, at, outcome);
    }

    /// Completes a part that waited for a merged block; `None` if the block is made of damaged bytes.
    pub(crate) fn merged_part_ready(&mut self, id: LookupId, at: usize, data: Option<Rope>) {
        let read = self.reads.reads.get(&id).unwrap_or_else(|| panic!("a part of {id:?}, which is over"));
        let ReadPart::Merge { first, device } = read.parts[at] else { panic!("part {at} of {id:?} was not merged") };
        let outcome = data.ok_or_else(|| checksum_error(&read.object, first, device));
        self.part_ready(id, at, outcome);
    }

    fn part_ready(&mut self, id: LookupId, at: usize, outcome: Result<Rope, ReadError>) {
        let read = self.reads.reads.get_mut(&id).expect("looked up by the caller");
        match outcome {
            Ok(data) => read.parts[at] = ReadPart::Ready(data),
            Err(error) => read.error = read.error.take().or(Some(error)),
        }
        read.pending -= 1;
        if read.pending > 0 {
            return;
        }
        let read = self.reads.reads.remove(&id).expect("just there");
        self.freeing.end_read(read.number);
        self.release_freed();
        let result = match read.error {
            Some(error) => Err(error),
            None => Ok(assemble(read.parts, read.skip, read.len)),
        };
        self.events.push_back(StoreEvent::ReadDone { id, result });
    }
}

/// The state of a read whose blocks are known.
enum Begun {
    Whole(Rope),
    Pending(LookupId),
}

/// Returns the parts of blocks `first .. end` of an object whose first bytes are `inline`.
fn inline_parts(inline: &Bytes, first: u64, end: u64) -> Vec<ReadPart> {
    let data = inline_part(inline, first * BLOCK, end * BLOCK);
    let behind = zeros((end - first) * BLOCK - data.len() as u64);
    vec![ReadPart::Ready(data.into()), ReadPart::Ready(behind)]
}

fn checksum_error(key: &[u8], block: u32, device: u32) -> ReadError {
    let (object_offset, device_offset) = (u64::from(block) * BLOCK, u64::from(device) * BLOCK);
    ReadError::Checksum { object: known_object(key), object_offset, device_offset }
}

fn assemble(parts: Vec<ReadPart>, skip: usize, len: usize) -> Rope {
    // Checksums of all blocks, as long as every part has them.
    let (mut rope, mut crcs) = (Rope::new(), Some(Vec::new()));
    let is_one = parts.len() == 1;
    for part in parts {
        let ReadPart::Ready(data) = part else { panic!("{part:?} in a finished read") };
        match (data.block_crcs(), &mut crcs) {
            (Some(of_part), Some(crcs)) if !is_one => crcs.extend_from_slice(of_part),
            _ => crcs = None,
        }
        rope.append(data);
    }
    if let Some(crcs) = crcs {
        rope = rope.with_block_crcs(crcs.into());
    }
    if skip == 0 && rope.len() == len { rope } else { rope.slice(skip, len) }
}
