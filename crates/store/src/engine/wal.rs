//! The write-ahead log: records in a ring.
//!
//! A record begins on a block boundary and does not wrap: where it would, the rest of the ring is skipped. A record
//! carries the store's uuid, so that no other bytes can pass for one, and the session (each opening of the store is
//! one) that wrote it. Sessions never go back along the log, so the records that a former session wrote behind the
//! place where the log was cut cannot continue those of a later session.

use crate::StoreConfig;
use crate::config::BLOCK;
use crate::disk::numbers::{
    RECORD_CRC_BYTES, RECORD_FLAGS_KNOWN, RECORD_HEADER_BYTES, RECORD_MAGIC, RECORD_UUID, RECORD_VERSION,
};
use std::collections::VecDeque;
use types::{AlignedBuf, BufPool, Fsid, crc32c};
use wire::{DecodeError, Reader};

/// The header of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RecordHeader {
    pub session: u64,
    /// Log sequence number: one more than the record before has.
    pub lsn: u64,
    /// The highest LSN known to be durable when the record was written.
    pub durable_lsn: u64,
    pub body_bytes: u32,
    pub body_crc: u32,
}

/// The header in a block that begins a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecordHead {
    Known(RecordHeader),
    /// A record of this store in a layout that is not known here.
    Unknown {
        version: u8,
        flags: u8,
    },
}

impl RecordHeader {
    fn encode(&self, uuid: Fsid) -> [u8; RECORD_HEADER_BYTES] {
        let (mut header, mut at) = ([0; RECORD_HEADER_BYTES], 0);
        let mut put = |field: &[u8]| {
            header[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        };
        put(&RECORD_MAGIC);
        put(&[RECORD_VERSION, RECORD_FLAGS_KNOWN, 0, 0]);
        put(&uuid.0);
        [self.session, self.lsn, self.durable_lsn].iter().for_each(|number| put(&number.to_le_bytes()));
        [self.body_bytes, self.body_crc, 0].iter().for_each(|number| put(&number.to_le_bytes()));
        let crc_at = RECORD_HEADER_BYTES - RECORD_CRC_BYTES;
        assert_eq!(at, crc_at, "fields of another length than the header has");
        let crc = crc32c::checksum(&header[..crc_at]);
        header[crc_at..].copy_from_slice(&crc.to_le_bytes());
        header
    }

    /// Returns `None` if these bytes do not begin a record of the store `uuid`.
    pub fn decode(bytes: &[u8], uuid: Fsid) -> Option<RecordHead> {
        let head = bytes.get(..RECORD_HEADER_BYTES)?;
        if !head.starts_with(&RECORD_MAGIC) || head[RECORD_UUID] != uuid.0 {
            return None;
        }
        Self::fields(head).ok()?
    }

    fn fields(head: &[u8]) -> Result<Option<RecordHead>, DecodeError> {
        let mut r = Reader::new(head);
        r.skip(RECORD_MAGIC.len())?;
        let (version, flags) = (r.u8()?, r.u8()?);
        r.skip(RECORD_UUID.end - RECORD_MAGIC.len() - 2)?;
        let (session, lsn, durable_lsn) = (r.u64()?, r.u64()?, r.u64()?);
        let (body_bytes, body_crc) = (r.u32()?, r.u32()?);
        r.u32()?;
        if r.u32()? != crc32c::checksum(&head[..RECORD_HEADER_BYTES - RECORD_CRC_BYTES]) {
            return Ok(None);
        }
        Ok(Some(match version {
            RECORD_VERSION if flags & !RECORD_FLAGS_KNOWN == 0 => {
                RecordHead::Known(RecordHeader { session, lsn, durable_lsn, body_bytes, body_crc })
            }
            version => RecordHead::Unknown { version, flags },
        }))
    }

    /// Returns the bytes of the blocks of header and body.
    pub fn record_bytes(&self) -> u64 {
        record_bytes(self.body_bytes as usize)
    }

    /// Returns the body in a record's bytes; `None` if it is incomplete or its checksum is wrong.
    pub fn body<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        let body = record.get(RECORD_HEADER_BYTES..)?.get(..self.body_bytes as usize)?;
        (crc32c::checksum(body) == self.body_crc).then_some(body)
    }
}

/// Returns the bytes of the blocks of a record with such a body.
pub(crate) fn record_bytes(body_bytes: usize) -> u64 {
    ((RECORD_HEADER_BYTES + body_bytes) as u64).next_multiple_of(BLOCK)
}

/// The log's size divided by this is the maximum size of a record.
pub(crate) const LOG_PER_RECORD: u64 = 8;
// The smallest log has room for so many records of a block each.
const _: () =
    assert!(StoreConfig::WAL_BYTES_MIN.is_multiple_of(BLOCK) && StoreConfig::WAL_BYTES_MIN / LOG_PER_RECORD >= BLOCK);

/// A record's place in the ring; `begin` and `end` keep counting over the laps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    lsn: u64,
    begin: u64,
    end: u64,
}

/// The ring: the places of records, and the room left.
#[derive(Debug)]
pub(crate) struct Wal {
    uuid: Fsid,
    session: u64,
    offset: u64,
    bytes: u64,
    head: u64,
    /// Records that no durable checkpoint covers, oldest first.
    live: VecDeque<Place>,
    pub next_lsn: u64,
    /// True if nothing is written until a checkpoint has made the present records superfluous.
    is_closed: bool,
}

impl Wal {
    /// Creates a ring at the device offset `offset`, without live records and with the next record at `head` bytes into
    /// it.
    pub fn new(uuid: Fsid, session: u64, offset: u64, bytes: u64, head: u64, next_lsn: u64) -> Wal {
        assert!(head <= bytes, "head {head} in a ring of {bytes}");
        Wal { uuid, session, offset, bytes, head, live: VecDeque::new(), next_lsn, is_closed: false }
    }

    /// Closes the ring until the next checkpoint is durable: new records would overwrite the evidence that records are
    /// missing. `next_lsn`: an LSN behind all that ever existed.
    pub fn close_at(&mut self, next_lsn: u64) {
        (self.is_closed, self.next_lsn) = (true, next_lsn);
    }

    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    pub fn session(&self) -> u64 {
        self.session
    }

    /// Returns the maximum bytes of one record: several must fit besides those that wait for a checkpoint.
    pub fn record_bytes_max(&self) -> u64 {
        (self.bytes / LOG_PER_RECORD / BLOCK * BLOCK).max(BLOCK)
    }

    /// Returns the bytes from the oldest live record to the head.
    pub fn used_bytes(&self) -> u64 {
        self.live.front().map_or(0, |oldest| self.head - oldest.begin)
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of records that no durable checkpoint covers.
    pub fn live_records(&self) -> u64 {
        self.live.len() as u64
    }

    /// Returns the offset in the ring where the next record would begin.
    pub fn head_in_ring(&self) -> u64 {
        self.head % self.bytes
    }

    /// Returns true if a record of `len` bytes can be written now.
    pub fn has_room(&self, len: u64) -> bool {
        let begin = self.begin(len);
        let oldest = self.live.front().map_or(begin, |oldest| oldest.begin);
        !self.is_closed && begin + len - oldest <= self.bytes
    }

    fn begin(&self, len: u64) -> u64 {
        let in_lap = self.head % self.bytes;
        if in_lap + len > self.bytes { self.head - in_lap + self.bytes } else { self.head }
    }

    /// Gives the next LSN to a record with a body of this many bytes, which `write_body` makes. Returns device offset
    /// and bytes. Panics without room.
    pub fn append(
        &mut self,
        body_bytes: usize,
        write_body: impl FnOnce(&mut [u8]),
        durable_lsn: u64,
        buffers: &BufPool,
    ) -> (u64, AlignedBuf) {
        let len = record_bytes(body_bytes);
        assert!(self.has_room(len), "log record of {len} bytes without room");
        let begin = self.begin(len);
        let mut record = buffers.take(len as usize);
        let (head, rest) = record.as_mut_slice().split_at_mut(RECORD_HEADER_BYTES);
        let (body, padding) = rest.split_at_mut(body_bytes);
        write_body(body);
        padding.fill(0);
        let header = RecordHeader {
            session: self.session,
            lsn: self.next_lsn,
            durable_lsn,
            body_bytes: body_bytes as u32,
            body_crc: crc32c::checksum(body),
        };
        head.copy_from_slice(&header.encode(self.uuid));
        self.place(begin, len);
        (self.offset + begin % self.bytes, record)
    }

    /// Gives the next LSN to effects that a checkpoint alone makes durable; takes no room.
    pub fn skip_lsn(&mut self) -> u64 {
        self.next_lsn += 1;
        self.next_lsn - 1
    }

    fn place(&mut self, begin: u64, len: u64) {
        self.live.push_back(Place { lsn: self.next_lsn, begin, end: begin + len });
        self.next_lsn += 1;
        self.head = begin + len;
    }

    /// Takes in a record found when the store was opened: `at` bytes into the ring, `len` bytes long. Records must come
    /// in the order of LSNs. Returns true if it fits behind the former ones.
    pub fn adopt(&mut self, at: u64, len: u64) -> bool {
        let lap = self.head - self.head % self.bytes;
        let begin = match self.live.is_empty() {
            true => at,
            false if lap + at >= self.head => lap + at,
            false => lap + self.bytes + at,
        };
        let oldest = self.live.front().map_or(begin, |oldest| oldest.begin);
        if at + len > self.bytes || begin + len - oldest > self.bytes {
            return false;
        }
        self.place(begin, len);
        true
    }

    /// Forgets the records up to `covered_lsn`, which a durable checkpoint covers.
    pub fn trim(&mut self, covered_lsn: u64) {
        self.is_closed = false;
        while self.live.front().is_some_and(|record| record.lsn <= covered_lsn) {
            self.live.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RING: u64 = 16 * BLOCK;

    proptest! {
        #[test]
        fn live_records_never_overlap(steps in prop::collection::vec((0usize..20_000, 0u64..6), 1..200)) {
            let mut wal = Wal::new(Fsid([1; 16]), 1, 1 << 20, RING, 0, 1);
            let mut live: VecDeque<(u64, u64, u64)> = VecDeque::new();
            for (body_bytes, trim) in steps {
                if wal.has_room(record_bytes(body_bytes)) {
                    let lsn = wal.next_lsn;
                    let (offset, record) = wal.append(body_bytes, |body| body.fill(7), lsn - 1, &BufPool::new(0));
                    let (begin, end) = (offset - (1 << 20), offset - (1 << 20) + record.len() as u64);
                    prop_assert!(end <= RING);
                    prop_assert!(live.iter().all(|(_, b, e)| end <= *b || *e <= begin));
                    let Some(RecordHead::Known(header)) = RecordHeader::decode(record.as_slice(), Fsid([1; 16])) else {
                        panic!("a record begins with its header")
                    };
                    prop_assert_eq!((header.lsn, header.durable_lsn, header.record_bytes()), (lsn, lsn - 1, record.len() as u64));
                    prop_assert_eq!(header.body(record.as_slice()), Some(&vec![7; body_bytes][..]));
                    live.push_back((lsn, begin, end));
                } else {
                    prop_assert!(!live.is_empty(), "an empty ring takes any record that fits it");
                }
                // A reopened ring with the same records has the same room.
                let (first, head) = live.front().map_or((wal.next_lsn, wal.head_in_ring()), |(lsn, at, _)| (*lsn, *at));
                let mut again = Wal::new(Fsid([1; 16]), 2, 1 << 20, RING, head, first);
                for (_, begin, end) in &live {
                    prop_assert!(again.adopt(*begin, end - begin));
                }
                prop_assert_eq!((again.next_lsn, again.used_bytes()), (wal.next_lsn, wal.used_bytes()));
                for _ in 0..trim.saturating_sub(3) {
                    if let Some((lsn, ..)) = live.pop_front() {
                        wal.trim(lsn);
                    }
                }
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            RecordHeader::decode(&[&RECORD_MAGIC[..], &bytes].concat(), Fsid::default());
        }
    }

    #[test]
    fn record_header_bytes_do_not_move() {
        let header = RecordHeader { session: 2, lsn: 3, durable_lsn: 1, body_bytes: 5, body_crc: 0x0403_0201 };
        let bytes = header.encode(Fsid([9; 16]));
        let expected = [
            &b"NCWL"[..],
            &[1, 0, 0, 0],
            &[9; 16],
            &[2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
            &[5, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0],
        ]
        .concat();
        assert_eq!(bytes[..60], expected);
        assert_eq!(bytes.len(), RECORD_HEADER_BYTES);
        assert_eq!(RecordHeader::decode(&bytes, Fsid([9; 16])), Some(RecordHead::Known(header)));
        assert_eq!(RecordHeader::decode(&bytes, Fsid([8; 16])), None);
    }

    #[test]
    fn records_of_another_layout_are_told_from_none() {
        let header = RecordHeader { session: 2, lsn: 3, durable_lsn: 1, body_bytes: 5, body_crc: 0x0403_0201 };
        let uuid = Fsid([9; 16]);
        for (at, value, version, flags) in [(4, 2, 2, 0), (5, 0x80, 1, 0x80)] {
            let mut bytes = header.encode(uuid);
            bytes[at] = value;
            assert_eq!(RecordHeader::decode(&bytes, uuid), None, "the checksum covers it");
            let crc = crc32c::checksum(&bytes[..RECORD_HEADER_BYTES - RECORD_CRC_BYTES]);
            bytes[RECORD_HEADER_BYTES - RECORD_CRC_BYTES..].copy_from_slice(&crc.to_le_bytes());
            assert_eq!(RecordHeader::decode(&bytes, uuid), Some(RecordHead::Unknown { version, flags }));
        }
    }
}
