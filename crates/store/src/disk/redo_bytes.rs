//! Redo steps as bytes of log records.
//!
//! Metadata takes most of a small write's share of the log. Numbers therefore take as few bytes as possible (seven bits
//! each, the lowest first), and a step does not repeat the object or the group of the step before it.

use crate::disk::copies::CopyOf;
use crate::disk::key::{Key, decode_object};
use crate::disk::numbers::{MORE, NUMBER_BITS, RedoCode, SAME_SUBJECT};
use crate::disk::redo::Redo;
use crate::space::run::Run;
use bytes::Bytes;
use types::{PgId, PoolId};
use wire::{DecodeError, Reader};

/// Returns the number of bytes that a number takes.
const fn number_bytes(number: u64) -> usize {
    let bits = 64 - (number | 1).leading_zeros() as usize;
    bits.div_ceil(NUMBER_BITS)
}

fn each_byte(mut number: u64, mut put: impl FnMut(u8)) {
    while number >= u64::from(MORE) {
        put(number as u8 | MORE);
        number >>= NUMBER_BITS;
    }
    put(number as u8);
}

fn put_number(out: &mut Vec<u8>, number: u64) {
    each_byte(number, |byte| out.push(byte));
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The steps of one transaction, one after another.
#[derive(Clone, Default, Debug)]
pub(crate) struct RedoBytes {
    bytes: Vec<u8>,
    count: usize,
    /// Range in `bytes` of the key of the object named last; empty at the beginning.
    object: std::ops::Range<usize>,
    pg: Option<PgId>,
    checksums_at: usize,
}

/// Room for the steps of a small write: data of a block, an attribute, a log entry and a group's information. Memory
/// that grows bit by bit is copied with each growth.
const STEPS_BYTES: usize = 768;

impl RedoBytes {
    /// Creates a transaction without steps.
    pub fn new() -> RedoBytes {
        RedoBytes { bytes: Vec::with_capacity(STEPS_BYTES), ..RedoBytes::default() }
    }

    /// Removes all steps, and keeps memory of the usual size for others. Returns false if it has more memory.
    pub fn clear(&mut self) -> bool {
        self.bytes.clear();
        (self.count, self.object, self.pg, self.checksums_at) = (0, 0..0, None, 0);
        self.bytes.capacity() <= 4 * STEPS_BYTES
    }

    /// Returns the bytes that the transaction takes in a record's body.
    pub fn len(&self) -> usize {
        number_bytes(self.count as u64) + self.bytes.len()
    }

    /// Returns the offset of the checksums of the mapping pushed last, for [`RedoBytes::set_checksum`].
    pub fn checksums_at(&self) -> usize {
        self.checksums_at
    }

    /// Sets a checksum of a mapping that has become known: that of block `index`, of the checksums that begin at
    /// `checksums_at`.
    pub fn set_checksum(&mut self, checksums_at: usize, index: usize, crc: u32) {
        self.bytes[checksums_at + 4 * index..][..4].copy_from_slice(&crc.to_le_bytes());
    }

    fn is_same(&self, object: &[u8]) -> bool {
        !self.object.is_empty() && self.bytes[self.object.clone()] == *object
    }

    fn key(&mut self, object: &[u8]) {
        put_bytes(&mut self.bytes, object);
        self.object = self.bytes.len() - object.len()..self.bytes.len();
    }

    /// Writes the head of a step on an object.
    fn on(&mut self, code: RedoCode, object: &[u8]) {
        if self.is_same(object) {
            return self.bytes.push(code as u8 | SAME_SUBJECT);
        }
        self.bytes.push(code as u8);
        self.key(object);
    }

    /// Writes the head of a step on a group.
    fn of(&mut self, code: RedoCode, pg: PgId) {
        if self.pg == Some(pg) {
            return self.bytes.push(code as u8 | SAME_SUBJECT);
        }
        self.pg = Some(pg);
        self.bytes.push(code as u8);
        // The sign goes to the lowest bit, so that small pool numbers of either sign take few bytes.
        put_number(&mut self.bytes, ((pg.pool.0 << 1) ^ (pg.pool.0 >> 63)) as u64);
        self.number(pg.seed);
    }

    fn number(&mut self, number: impl Into<u64>) {
        put_number(&mut self.bytes, number.into());
    }

    fn blob(&mut self, bytes: &[u8]) {
        put_bytes(&mut self.bytes, bytes);
    }

    fn copy(&mut self, of: &CopyOf) {
        self.number(of.id);
        self.bytes.push(u8::from(of.segments));
    }

    /// Adds a step: its number, its subject unless that is the one named last, its fields.
    pub fn push(&mut self, redo: &Redo) {
        self.count += 1;
        match (redo.object(), redo.pg()) {
            (Some(object), _) => self.on(redo.code(), object),
            (None, Some(pg)) => self.of(redo.code(), pg),
            (None, None) => self.bytes.push(redo.code() as u8),
        }
        self.fields(redo);
    }

    fn fields(&mut self, redo: &Redo) {
        match redo {
            Redo::Touch { .. } | Redo::Remove { .. } | Redo::OmapClear { .. } => {}
            Redo::Map { size, first, runs, crcs, .. } => {
                self.number(*size);
                self.number(*first);
                self.number(runs.len() as u64);
                for run in runs {
                    self.number(run.count);
                    self.number(run.start);
                }
                let blocks: u64 = runs.iter().map(|run| u64::from(run.count)).sum();
                assert_eq!(crcs.len() as u64, blocks, "a checksum per block");
                self.checksums_at = self.bytes.len();
                self.bytes.extend(crcs.iter().flat_map(|crc| crc.to_le_bytes()));
            }
            Redo::Unmap { first, end, .. } => {
                self.number(*first);
                self.number(*end);
            }
            Redo::Resize { size, .. } => self.number(*size),
            Redo::SetAttr { name, value, .. } => {
                self.blob(name);
                self.blob(value);
            }
            Redo::RemoveAttr { name, .. } => self.blob(name),
            Redo::OmapSet { entries, .. } => {
                self.number(entries.len() as u64);
                for (key, value) in entries {
                    self.blob(key);
                    self.blob(value);
                }
            }
            Redo::OmapRemove { keys, .. } => {
                self.number(keys.len() as u64);
                keys.iter().for_each(|key| self.blob(key));
            }
            Redo::OmapRemoveRange { begin, end, .. } | Redo::PgRemoveRange { begin, end, .. } => {
                self.blob(begin);
                self.blob(end);
            }
            Redo::OmapSetHeader { header, .. } => self.blob(header),
            Redo::Clone { from, .. } => self.blob(from),
            Redo::PgSet { key, value, .. } => {
                self.blob(key);
                self.blob(value);
            }
            Redo::PgRemove { key, .. } => self.blob(key),
            Redo::PgDestroy { pg_num, .. } => self.number(*pg_num),
            Redo::Inline { size, data, .. } => {
                self.number(*size);
                self.blob(data);
            }
            Redo::CloneRange { from, size, from_first, to_first, count, .. } => {
                self.blob(from);
                self.number(*size);
                [from_first, to_first, count].into_iter().for_each(|number| self.number(*number));
            }
            Redo::CloneCopied { from, of } => {
                self.blob(from);
                self.copy(of);
            }
            Redo::DropCopy { of } => self.copy(of),
            Redo::OmapIds { next } => self.number(*next),
        }
    }
}

/// Returns the bytes of a record's body with these transactions.
pub(crate) fn body_bytes<'a>(transactions: impl ExactSizeIterator<Item = &'a RedoBytes>) -> usize {
    number_bytes(transactions.len() as u64) + transactions.map(RedoBytes::len).sum::<usize>()
}

/// Maximum number of bytes that a body takes besides its transactions: their count.
pub(crate) const BODY_HEAD_BYTES_MAX: usize = 10;
const _: () = assert!(BODY_HEAD_BYTES_MAX == number_bytes(u64::MAX), "any count of transactions fits");

/// Writes a record's body to `out`, whose length must be that of [`body_bytes`]: the number of transactions; for each
/// of them the number of its steps and the steps.
pub(crate) fn write_body<'a>(transactions: impl ExactSizeIterator<Item = &'a RedoBytes>, out: &mut [u8]) {
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        out[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    each_byte(transactions.len() as u64, |byte| put(&[byte]));
    for transaction in transactions {
        each_byte(transaction.count as u64, |byte| put(&[byte]));
        put(&transaction.bytes);
    }
    assert_eq!(at, out.len(), "a body of another length than was foreseen");
}

/// The object and the group that later steps of the transaction being read may refer to.
#[derive(Default)]
struct Before {
    object: Option<Key>,
    pg: Option<PgId>,
}

fn number(r: &mut Reader<'_>) -> Result<u64, DecodeError> {
    let mut number = 0;
    for shift in (0..64).step_by(NUMBER_BITS) {
        let byte = r.u8()?;
        let bits = u64::from(byte & !MORE);
        // The tenth byte has one bit left, and a last byte of zero would be superfluous.
        if bits << shift >> shift != bits || byte == 0 && shift > 0 {
            return Err(DecodeError::Value { what: "number", value: byte.into() });
        }
        number |= bits << shift;
        if byte < MORE {
            return Ok(number);
        }
    }
    Err(DecodeError::Value { what: "number", value: number })
}

fn number_u32(r: &mut Reader<'_>, what: &'static str) -> Result<u32, DecodeError> {
    let value = number(r)?;
    u32::try_from(value).map_err(|_| DecodeError::Value { what, value })
}

/// Reads a count of things that take at least `min_bytes` each.
fn count(r: &mut Reader<'_>, what: &'static str, min_bytes: usize) -> Result<usize, DecodeError> {
    let count = usize::try_from(number(r)?).unwrap_or(usize::MAX);
    match count.saturating_mul(min_bytes) <= r.left() {
        true => Ok(count),
        false => Err(DecodeError::Count { what, count, left: r.left() }),
    }
}

fn blob<'a>(r: &mut Reader<'a>) -> Result<&'a [u8], DecodeError> {
    let len = count(r, "bytes", 1)?;
    r.raw(len)
}

/// Reads bytes into memory of their own, which outlives the record's.
fn owned(r: &mut Reader<'_>) -> Result<Bytes, DecodeError> {
    blob(r).map(Bytes::copy_from_slice)
}

/// Reads an object's key. Errors: bytes that are no key.
fn key(r: &mut Reader<'_>) -> Result<Key, DecodeError> {
    let key = blob(r)?;
    decode_object(key)?;
    Ok(key.into())
}

fn runs(r: &mut Reader<'_>, first: u32) -> Result<(Vec<Run>, Vec<u32>), DecodeError> {
    let (mut runs, mut blocks) = (Vec::new(), 0u32);
    for _ in 0..count(r, "block runs", 2)? {
        let (count, device) = (number_u32(r, "block run")?, number(r)?);
        let start = u32::try_from(device).ok().filter(|start| start.checked_add(count).is_some());
        let start = start.ok_or(DecodeError::Value { what: "device block", value: device })?;
        let end = blocks.checked_add(count).filter(|end| first.checked_add(*end).is_some() && count > 0);
        blocks = end.ok_or(DecodeError::Value { what: "block run", value: count.into() })?;
        runs.push(Run { start, count });
    }
    if blocks as usize > r.left() / 4 {
        return Err(DecodeError::Count { what: "block checksums", count: blocks as usize, left: r.left() });
    }
    let crcs = (0..blocks).map(|_| r.u32()).collect::<Result<_, _>>()?;
    Ok((runs, crcs))
}

impl Before {
    fn object(&mut self, r: &mut Reader<'_>, same: bool) -> Result<Key, DecodeError> {
        if !same {
            self.object = Some(key(r)?);
        }
        self.object.clone().ok_or(DecodeError::Value { what: "step on the object before, of which there is", value: 0 })
    }

    fn pg(&mut self, r: &mut Reader<'_>, same: bool) -> Result<PgId, DecodeError> {
        if !same {
            let pool = number(r)?;
            let pool = PoolId((pool >> 1) as i64 ^ -((pool & 1) as i64));
            self.pg = Some(PgId { pool, seed: number_u32(r, "group")? });
        }
        self.pg.ok_or(DecodeError::Value { what: "step on the group before, of which there is", value: 0 })
    }

    fn copy(&mut self, r: &mut Reader<'_>, to: Key) -> Result<CopyOf, DecodeError> {
        Ok(CopyOf { to, id: number(r)?, segments: r.bool()? })
    }

    fn step(&mut self, r: &mut Reader<'_>) -> Result<Redo, DecodeError> {
        let head = r.u8()?;
        let same = head & SAME_SUBJECT != 0;
        let unknown = DecodeError::Value { what: "redo step", value: head.into() };
        let Some(code) = RedoCode::of(head & !SAME_SUBJECT) else { return Err(unknown) };
        Ok(match code {
            RedoCode::Touch => Redo::Touch { object: self.object(r, same)? },
            RedoCode::Map => {
                let (object, size, first) = (self.object(r, same)?, number(r)?, number_u32(r, "object block")?);
                let (runs, crcs) = runs(r, first)?;
                Redo::Map { object, size, first, runs, crcs }
            }
            RedoCode::Unmap => {
                let object = self.object(r, same)?;
                Redo::Unmap { object, first: number_u32(r, "object block")?, end: number_u32(r, "object block")? }
            }
            RedoCode::Resize => Redo::Resize { object: self.object(r, same)?, size: number(r)? },
            RedoCode::Remove => Redo::Remove { object: self.object(r, same)? },
            RedoCode::SetAttr => {
                Redo::SetAttr { object: self.object(r, same)?, name: blob(r)?.to_vec(), value: owned(r)? }
            }
            RedoCode::RemoveAttr => Redo::RemoveAttr { object: self.object(r, same)?, name: blob(r)?.to_vec() },
            RedoCode::OmapSet => {
                let (object, count) = (self.object(r, same)?, count(r, "entries", 2)?);
                let entries = (0..count).map(|_| Ok((owned(r)?, owned(r)?))).collect::<Result<_, DecodeError>>()?;
                Redo::OmapSet { object, entries }
            }
            RedoCode::OmapRemove => {
                let (object, count) = (self.object(r, same)?, count(r, "keys", 1)?);
                Redo::OmapRemove { object, keys: (0..count).map(|_| owned(r)).collect::<Result<_, _>>()? }
            }
            RedoCode::OmapRemoveRange => {
                Redo::OmapRemoveRange { object: self.object(r, same)?, begin: owned(r)?, end: owned(r)? }
            }
            RedoCode::OmapClear => Redo::OmapClear { object: self.object(r, same)? },
            RedoCode::OmapSetHeader => Redo::OmapSetHeader { object: self.object(r, same)?, header: owned(r)? },
            RedoCode::Clone => Redo::Clone { to: self.object(r, same)?, from: key(r)? },
            RedoCode::PgSet => Redo::PgSet { pg: self.pg(r, same)?, key: owned(r)?, value: owned(r)? },
            RedoCode::PgRemove => Redo::PgRemove { pg: self.pg(r, same)?, key: owned(r)? },
            RedoCode::PgRemoveRange => Redo::PgRemoveRange { pg: self.pg(r, same)?, begin: owned(r)?, end: owned(r)? },
            RedoCode::PgDestroy => {
                Redo::PgDestroy { pg: self.pg(r, same)?, pg_num: number_u32(r, "number of groups")? }
            }
            RedoCode::Inline => {
                let (object, size, data) = (self.object(r, same)?, number(r)?, owned(r)?);
                if data.len() as u64 > size {
                    return Err(DecodeError::Value { what: "inline bytes", value: data.len() as u64 });
                }
                Redo::Inline { object, size, data }
            }
            RedoCode::CloneRange => {
                let (to, from, size) = (self.object(r, same)?, key(r)?, number(r)?);
                let mut next = || number_u32(r, "cloned blocks");
                let (from_first, to_first, count) = (next()?, next()?, next()?);
                if from_first.checked_add(count).is_none() || to_first.checked_add(count).is_none() {
                    return Err(DecodeError::Value { what: "cloned blocks", value: count.into() });
                }
                Redo::CloneRange { from, to, size, from_first, to_first, count }
            }
            RedoCode::CloneCopied => {
                let (to, from) = (self.object(r, same)?, key(r)?);
                Redo::CloneCopied { from, of: self.copy(r, to)? }
            }
            RedoCode::DropCopy => {
                let to = self.object(r, same)?;
                Redo::DropCopy { of: self.copy(r, to)? }
            }
            // This step has no subject that it could share.
            RedoCode::OmapIds if same => return Err(unknown),
            RedoCode::OmapIds => Redo::OmapIds { next: number(r)? },
        })
    }
}

/// Returns the steps of a record's body, in order.
pub(crate) fn decode_body(body: &[u8]) -> Result<Vec<Redo>, DecodeError> {
    let mut r = Reader::new(body);
    let mut steps = Vec::new();
    for _ in 0..count(&mut r, "transactions", 1)? {
        let mut before = Before::default();
        for _ in 0..count(&mut r, "steps", 1)? {
            steps.push(before.step(&mut r)?);
        }
    }
    match r.is_empty() {
        true => Ok(steps),
        false => Err(DecodeError::Value { what: "bytes behind the steps", value: r.left() as u64 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::key::object_key;
    use proptest::prelude::*;
    use types::ObjectId;

    fn steps() -> impl Strategy<Value = Redo> {
        // Few objects, so that steps often are on the object of the step before.
        let object = || {
            (0u32..2, prop::collection::vec(0u8..2, 0..2))
                .prop_map(|(h, n)| object_key(&ObjectId::head(PoolId(1), h, b"", &n)))
        };
        let copies = || (object(), any::<(u64, bool)>()).prop_map(|(to, (id, segments))| CopyOf { to, id, segments });
        let bytes = || prop::collection::vec(any::<u8>(), 0..6).prop_map(Bytes::from);
        let names = || prop::collection::vec(any::<u8>(), 0..6);
        let pg = || {
            prop_oneof![Just((i64::MIN, 0)), Just((-1, 1)), Just((3, u32::MAX)), any::<(i64, u32)>()]
                .prop_map(|(pool, seed)| PgId::new(pool, seed))
        };
        let runs = prop::collection::vec((0u32..100_000, 1u32..5), 0..4)
            .prop_map(|runs| runs.into_iter().map(|(start, count)| Run { start, count }).collect::<Vec<_>>());
        prop_oneof![
            object().prop_map(|object| Redo::Touch { object }),
            (object(), any::<u64>(), 0u32..1000, runs).prop_map(|(object, size, first, runs)| {
                let crcs = (0..runs.iter().map(|run| run.count).sum()).collect();
                Redo::Map { object, size, first, runs, crcs }
            }),
            (object(), any::<(u32, u32)>()).prop_map(|(object, (first, end))| Redo::Unmap { object, first, end }),
            (object(), any::<u64>()).prop_map(|(object, size)| Redo::Resize { object, size }),
            object().prop_map(|object| Redo::Remove { object }),
            (object(), names(), bytes()).prop_map(|(object, name, value)| Redo::SetAttr { object, name, value }),
            (object(), names()).prop_map(|(object, name)| Redo::RemoveAttr { object, name }),
            (object(), prop::collection::vec((bytes(), bytes()), 0..3))
                .prop_map(|(object, entries)| Redo::OmapSet { object, entries }),
            (object(), prop::collection::vec(bytes(), 0..3))
                .prop_map(|(object, keys)| Redo::OmapRemove { object, keys }),
            (object(), bytes(), bytes()).prop_map(|(object, begin, end)| Redo::OmapRemoveRange { object, begin, end }),
            object().prop_map(|object| Redo::OmapClear { object }),
            (object(), bytes()).prop_map(|(object, header)| Redo::OmapSetHeader { object, header }),
            (object(), object()).prop_map(|(from, to)| Redo::Clone { from, to }),
            (pg(), bytes(), bytes()).prop_map(|(pg, key, value)| Redo::PgSet { pg, key, value }),
            (pg(), bytes()).prop_map(|(pg, key)| Redo::PgRemove { pg, key }),
            (pg(), bytes(), bytes()).prop_map(|(pg, begin, end)| Redo::PgRemoveRange { pg, begin, end }),
            (pg(), any::<u32>()).prop_map(|(pg, pg_num)| Redo::PgDestroy { pg, pg_num }),
            (object(), 6u64.., bytes()).prop_map(|(object, size, data)| Redo::Inline { object, size, data }),
            (object(), object(), any::<u64>(), 0u32..9, 0u32..9, 0u32..9).prop_map(
                |(from, to, size, from_first, to_first, count)| {
                    Redo::CloneRange { from, to, size, from_first, to_first, count }
                }
            ),
            (object(), copies()).prop_map(|(from, of)| Redo::CloneCopied { from, of }),
            copies().prop_map(|of| Redo::DropCopy { of }),
            any::<u64>().prop_map(|next| Redo::OmapIds { next }),
        ]
    }

    fn body_of(transactions: &[RedoBytes]) -> Vec<u8> {
        let mut body = vec![0xee; body_bytes(transactions.iter())];
        write_body(transactions.iter(), &mut body);
        body
    }

    fn bytes_of(steps: &[Redo]) -> RedoBytes {
        let mut bytes = RedoBytes::default();
        steps.iter().for_each(|step| bytes.push(step));
        bytes
    }

    proptest! {
        #[test]
        fn bodies_read_back(all in prop::collection::vec(prop::collection::vec(steps(), 0..5), 0..4)) {
            let transactions: Vec<RedoBytes> = all.iter().map(|steps| bytes_of(steps)).collect();
            let body = body_of(&transactions);
            let foreseen: usize = transactions.iter().map(RedoBytes::len).sum();
            prop_assert!((foreseen..=foreseen + BODY_HEAD_BYTES_MAX).contains(&body.len()));
            prop_assert_eq!(decode_body(&body).unwrap(), all.concat());
        }

        #[test]
        fn any_bytes_are_read_or_refused(count in 0u8..3, step in 0u8..24, same: bool, bytes: Vec<u8>) {
            let head = [1, count + 1, 5, 0, 1, step | if same { SAME_SUBJECT } else { 0 }];
            let _ = decode_body(&[&head[..], &bytes].concat());
            let _ = decode_body(&[&[1, count], &head[5..], &bytes].concat());
            let _ = decode_body(&bytes);
        }

        #[test]
        fn numbers_read_back(bits in 0u32..65, low: u64) {
            let value = low.checked_shr(64 - bits).unwrap_or(0);
            let mut bytes = Vec::new();
            put_number(&mut bytes, value);
            prop_assert_eq!(bytes.len(), number_bytes(value));
            prop_assert_eq!(number(&mut Reader::new(&bytes)), Ok(value));
        }
    }

    #[test]
    fn numbers_have_one_form() {
        let read = |bytes: &[u8]| number(&mut Reader::new(bytes));
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]), Ok(u64::MAX));
        for bytes in [&[0x80, 0][..], &[0xff; 11], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2], &[0x80]]
        {
            assert!(read(bytes).is_err(), "{bytes:x?}");
        }
    }

    #[test]
    fn a_checksum_that_comes_later_is_the_one_meant() {
        let object = object_key(&ObjectId::head(PoolId(1), 7, b"", b"name"));
        let map = |crcs: Vec<u32>| {
            let runs = vec![Run { start: 900, count: 2 }, Run { start: 70_000, count: 1 }];
            Redo::Map { object: object.clone(), size: 5, first: 8, runs, crcs }
        };
        let mut bytes = RedoBytes::default();
        bytes.push(&map(vec![1, 2, 3]));
        let first = bytes.checksums_at();
        bytes.push(&map(vec![4, 0, 6]));
        let second = bytes.checksums_at();
        bytes.push(&Redo::Resize { object: object.clone(), size: 1 });
        bytes.set_checksum(second, 1, 5);
        bytes.set_checksum(first, 2, 9);
        let expected = vec![map(vec![1, 2, 9]), map(vec![4, 5, 6]), Redo::Resize { object: object.clone(), size: 1 }];
        assert_eq!(decode_body(&body_of(&[bytes])).unwrap(), expected);
    }

    #[test]
    fn a_write_and_a_log_entry_keep_their_bytes() {
        let object: Key = object_key(&ObjectId::head(PoolId(1), 0, b"", b"n"));
        let map = Redo::Map {
            object: object.clone(),
            size: 5000,
            first: 1,
            runs: vec![Run { start: 300, count: 1 }],
            crcs: vec![0xaabb_ccdd],
        };
        let attr = Redo::SetAttr { object: object.clone(), name: b"_".to_vec(), value: Bytes::from_static(b"a") };
        let entry = |key, value| Redo::PgSet {
            pg: PgId::new(-2, 200),
            key: Bytes::from_static(key),
            value: Bytes::from_static(value),
        };
        let steps = [map, attr, entry(b"k", b"v"), entry(b"l", b"")];
        let expected = [
            &[1, 4, 2, object.len() as u8][..],
            &object,
            &[0x88, 0x27, 1, 1, 1, 0xac, 2, 0xdd, 0xcc, 0xbb, 0xaa],
            &[0x86, 1, b'_', 1, b'a'],
            &[14, 3, 0xc8, 1, 1, b'k', 1, b'v'],
            &[0x8e, 1, b'l', 0],
        ]
        .concat();
        assert_eq!(body_of(&[bytes_of(&steps)]), expected);
        assert_eq!(decode_body(&expected).unwrap(), steps);
        // Device block numbers above 32 bits are reserved for flags of compression and encryption.
        let device = 4 + object.len() + 5;
        let flagged = [&expected[..device], &[0xac, 0x82, 0x80, 0x80, 0x10], &expected[device + 2..]].concat();
        assert!(matches!(decode_body(&flagged), Err(DecodeError::Value { what: "device block", .. })));
        // A step refers only to an object or group named in its own transaction.
        assert!(decode_body(&[1, 1, 0x81]).is_err());
        assert!(decode_body(&[1, 1, 0x8f, 0]).is_err());
        let touched = [&[2, 1, 1, object.len() as u8][..], &object, &[1, 0x81]].concat();
        assert!(decode_body(&touched).is_err());
    }
}
