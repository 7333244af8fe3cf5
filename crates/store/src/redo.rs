//! What a transaction does, once blocks are chosen: the content of log records.
//!
//! A redo step says the same when it is applied again after a crash to the state in which it was made. The live store
//! changes its state only by applying redo steps, so that replay cannot differ from it.

use crate::allocator::Run;
use crate::copying::CopyOf;
use crate::key::{Key, decode_object};
use crate::onode::{decode_run, encode_run};
use bytes::Bytes;
use types::{PgId, PoolId};
use wire::{Decode, DecodeError, Reader, Target, Writer};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Redo {
    Touch {
        object: Key,
    },
    /// Puts blocks at object block `first ..` and sets the size.
    Map {
        object: Key,
        size: u64,
        first: u32,
        runs: Vec<Run>,
        crcs: Vec<u32>,
    },
    /// Makes holes of the object blocks `first .. end`.
    Unmap {
        object: Key,
        first: u32,
        end: u32,
    },
    /// Sets the size; blocks wholly behind it go.
    Resize {
        object: Key,
        size: u64,
    },
    Remove {
        object: Key,
    },
    SetAttr {
        object: Key,
        name: Vec<u8>,
        value: Bytes,
    },
    RemoveAttr {
        object: Key,
        name: Vec<u8>,
    },
    OmapSet {
        object: Key,
        entries: Vec<(Bytes, Bytes)>,
    },
    OmapRemove {
        object: Key,
        keys: Vec<Bytes>,
    },
    OmapRemoveRange {
        object: Key,
        begin: Bytes,
        end: Bytes,
    },
    OmapClear {
        object: Key,
    },
    OmapSetHeader {
        object: Key,
        header: Bytes,
    },
    Clone {
        from: Key,
        to: Key,
    },
    PgSet {
        pg: PgId,
        key: Bytes,
        value: Bytes,
    },
    PgRemove {
        pg: PgId,
        key: Bytes,
    },
    PgRemoveRange {
        pg: PgId,
        begin: Bytes,
        end: Bytes,
    },
    PgDestroy {
        pg: PgId,
        pg_num: u32,
    },
    /// Sets size and bytes of an object without blocks; behind `data` all is zeros.
    Inline {
        object: Key,
        size: u64,
        data: Bytes,
    },
    /// Makes blocks and holes of `to` what they are in `from`, shared, and sets its size.
    CloneRange {
        from: Key,
        to: Key,
        size: u64,
        from_first: u32,
        to_first: u32,
        count: u32,
    },
    /// Like a clone, but the entries of the omap are there already, under the id of the copy, and so are the segments, if
    /// they were copied.
    CloneCopied {
        from: Key,
        of: CopyOf,
    },
    /// Removes a copy that no clone took.
    DropCopy {
        of: CopyOf,
    },
    /// Omaps made from here on get ids from `next` on: those before it are of copies that the transaction takes.
    OmapIds {
        next: u64,
    },
}

fn put_copy(w: &mut Writer, of: &CopyOf) {
    w.blob(&of.to);
    w.u64(of.id);
    w.bool(of.segments);
}

fn get_copy(r: &mut Reader<'_>) -> Result<CopyOf, DecodeError> {
    Ok(CopyOf { to: get_object(r)?, id: r.u64()?, segments: r.bool()? })
}

fn put_pg(w: &mut Writer, pg: PgId) {
    w.i64(pg.pool.0);
    w.u32(pg.seed);
}

fn get_pg(r: &mut Reader<'_>) -> Result<PgId, DecodeError> {
    Ok(PgId { pool: PoolId(r.i64()?), seed: r.u32()? })
}

/// An object's key. Errors: bytes that are none.
fn get_object(r: &mut Reader<'_>) -> Result<Key, DecodeError> {
    let key = r.blob()?;
    decode_object(key)?;
    Ok(key.into())
}

impl Redo {
    /// The object that changes; `None` for steps on a group.
    pub fn object(&self) -> Option<&[u8]> {
        match self {
            Redo::Touch { object }
            | Redo::Map { object, .. }
            | Redo::Unmap { object, .. }
            | Redo::Resize { object, .. }
            | Redo::Remove { object }
            | Redo::SetAttr { object, .. }
            | Redo::RemoveAttr { object, .. }
            | Redo::OmapSet { object, .. }
            | Redo::OmapRemove { object, .. }
            | Redo::OmapRemoveRange { object, .. }
            | Redo::OmapClear { object }
            | Redo::OmapSetHeader { object, .. }
            | Redo::Inline { object, .. }
            | Redo::Clone { to: object, .. }
            | Redo::CloneRange { to: object, .. } => Some(object),
            Redo::CloneCopied { of, .. } | Redo::DropCopy { of } => Some(&of.to),
            Redo::PgSet { .. }
            | Redo::PgRemove { .. }
            | Redo::PgRemoveRange { .. }
            | Redo::PgDestroy { .. }
            | Redo::OmapIds { .. } => None,
        }
    }

    /// The step's number (1), then its fields in order: objects as keys behind their length (4), byte strings behind
    /// their length, lists behind their count (4).
    pub fn encode(&self, w: &mut Writer) {
        match self {
            Redo::Touch { object } => {
                w.u8(1);
                w.blob(object);
            }
            Redo::Map { object, size, first, runs, crcs } => {
                w.u8(2);
                w.blob(object);
                w.u64(*size);
                w.count(runs.len());
                let (mut at, mut crcs) = (*first, &crcs[..]);
                for run in runs {
                    let (head, tail) = crcs.split_at(run.count as usize);
                    encode_run(w, at, *run, head);
                    (at, crcs) = (at + run.count, tail);
                }
            }
            Redo::Unmap { object, first, end } => {
                w.u8(3);
                w.blob(object);
                w.u32(*first);
                w.u32(*end);
            }
            Redo::Resize { object, size } => {
                w.u8(4);
                w.blob(object);
                w.u64(*size);
            }
            Redo::Remove { object } => {
                w.u8(5);
                w.blob(object);
            }
            Redo::SetAttr { object, name, value } => {
                w.u8(6);
                w.blob(object);
                w.blob(name);
                w.blob(value);
            }
            Redo::RemoveAttr { object, name } => {
                w.u8(7);
                w.blob(object);
                w.blob(name);
            }
            Redo::OmapSet { object, entries } => {
                w.u8(8);
                w.blob(object);
                w.put(entries);
            }
            Redo::OmapRemove { object, keys } => {
                w.u8(9);
                w.blob(object);
                w.put(keys);
            }
            Redo::OmapRemoveRange { object, begin, end } => {
                w.u8(10);
                w.blob(object);
                w.blob(begin);
                w.blob(end);
            }
            Redo::OmapClear { object } => {
                w.u8(11);
                w.blob(object);
            }
            Redo::OmapSetHeader { object, header } => {
                w.u8(12);
                w.blob(object);
                w.blob(header);
            }
            Redo::Clone { from, to } => {
                w.u8(13);
                w.blob(from);
                w.blob(to);
            }
            Redo::PgSet { pg, key, value } => {
                w.u8(14);
                put_pg(w, *pg);
                w.blob(key);
                w.blob(value);
            }
            Redo::PgRemove { pg, key } => {
                w.u8(15);
                put_pg(w, *pg);
                w.blob(key);
            }
            Redo::PgRemoveRange { pg, begin, end } => {
                w.u8(16);
                put_pg(w, *pg);
                w.blob(begin);
                w.blob(end);
            }
            Redo::PgDestroy { pg, pg_num } => {
                w.u8(17);
                put_pg(w, *pg);
                w.u32(*pg_num);
            }
            Redo::Inline { object, size, data } => {
                w.u8(18);
                w.blob(object);
                w.u64(*size);
                w.blob(data);
            }
            Redo::CloneRange { from, to, size, from_first, to_first, count } => {
                w.u8(19);
                w.blob(from);
                w.blob(to);
                w.u64(*size);
                w.u32(*from_first);
                w.u32(*to_first);
                w.u32(*count);
            }
            Redo::CloneCopied { from, of } => {
                w.u8(20);
                w.blob(from);
                put_copy(w, of);
            }
            Redo::DropCopy { of } => {
                w.u8(21);
                put_copy(w, of);
            }
            Redo::OmapIds { next } => {
                w.u8(22);
                w.u64(*next);
            }
        }
    }

    /// Length of [`Redo::encode`]'s bytes.
    pub fn encoded_bytes(&self) -> u64 {
        let lists = |pairs: &[(Bytes, Bytes)]| pairs.iter().map(|(k, v)| k.len() + v.len() + 8).sum::<usize>() + 4;
        let bytes = match self {
            Redo::Touch { object } | Redo::Remove { object } | Redo::OmapClear { object } => 5 + object.len(),
            Redo::Map { object, runs, crcs, .. } => 17 + object.len() + 16 * runs.len() + 4 * crcs.len(),
            Redo::Unmap { object, .. } | Redo::Resize { object, .. } => 13 + object.len(),
            Redo::SetAttr { object, name, value } => 13 + object.len() + name.len() + value.len(),
            Redo::RemoveAttr { object, name } => 9 + object.len() + name.len(),
            Redo::OmapSet { object, entries } => 5 + object.len() + lists(entries),
            Redo::OmapRemove { object, keys } => 9 + object.len() + keys.iter().map(|key| key.len() + 4).sum::<usize>(),
            Redo::OmapRemoveRange { object, begin, end } => 13 + object.len() + begin.len() + end.len(),
            Redo::OmapSetHeader { object, header } => 9 + object.len() + header.len(),
            Redo::Clone { from, to } => 9 + from.len() + to.len(),
            Redo::PgSet { key, value, .. } => 21 + key.len() + value.len(),
            Redo::PgRemove { key, .. } => 17 + key.len(),
            Redo::PgRemoveRange { begin, end, .. } => 21 + begin.len() + end.len(),
            Redo::PgDestroy { .. } => 17,
            Redo::Inline { object, data, .. } => 17 + object.len() + data.len(),
            Redo::CloneRange { from, to, .. } => 29 + from.len() + to.len(),
            Redo::CloneCopied { from, of } => 18 + from.len() + of.to.len(),
            Redo::DropCopy { of } => 14 + of.to.len(),
            Redo::OmapIds { .. } => 9,
        };
        bytes as u64
    }

    fn decode_map(r: &mut Reader<'_>) -> Result<Redo, DecodeError> {
        let (object, size) = (get_object(r)?, r.u64()?);
        let (mut first, mut next, mut runs, mut crcs) = (0, None, Vec::new(), Vec::new());
        for _ in 0..r.count("block runs", 20)? {
            let (at, run, run_crcs) = decode_run(r)?;
            match next {
                None => first = at,
                Some(next) if next == at => {}
                Some(_) => return Err(DecodeError::Value { what: "object block", value: at.into() }),
            }
            next = Some(at + run.count);
            runs.push(run);
            crcs.extend(run_crcs);
        }
        Ok(Redo::Map { object, size, first, runs, crcs })
    }

    fn decode_inline(r: &mut Reader<'_>) -> Result<Redo, DecodeError> {
        // The bytes outlive the record's.
        let (object, size, data) = (get_object(r)?, r.u64()?, Bytes::copy_from_slice(r.blob()?));
        if data.len() as u64 > size {
            return Err(DecodeError::Value { what: "inline bytes", value: data.len() as u64 });
        }
        Ok(Redo::Inline { object, size, data })
    }

    fn decode_clone_range(r: &mut Reader<'_>) -> Result<Redo, DecodeError> {
        let (from, to, size) = (get_object(r)?, get_object(r)?, r.u64()?);
        let (from_first, to_first, count) = (r.u32()?, r.u32()?, r.u32()?);
        if from_first.checked_add(count).is_none() || to_first.checked_add(count).is_none() {
            return Err(DecodeError::Value { what: "cloned blocks", value: count.into() });
        }
        Ok(Redo::CloneRange { from, to, size, from_first, to_first, count })
    }
}

impl Decode for Redo {
    const MIN_BYTES: usize = 5;

    fn decode(r: &mut Reader<'_>) -> Result<Redo, DecodeError> {
        Ok(match r.u8()? {
            1 => Redo::Touch { object: get_object(r)? },
            2 => Redo::decode_map(r)?,
            3 => Redo::Unmap { object: get_object(r)?, first: r.u32()?, end: r.u32()? },
            4 => Redo::Resize { object: get_object(r)?, size: r.u64()? },
            5 => Redo::Remove { object: get_object(r)? },
            6 => Redo::SetAttr { object: get_object(r)?, name: r.blob()?.to_vec(), value: r.blob_bytes()? },
            7 => Redo::RemoveAttr { object: get_object(r)?, name: r.blob()?.to_vec() },
            8 => Redo::OmapSet { object: get_object(r)?, entries: r.get()? },
            9 => Redo::OmapRemove { object: get_object(r)?, keys: r.get()? },
            10 => Redo::OmapRemoveRange { object: get_object(r)?, begin: r.blob_bytes()?, end: r.blob_bytes()? },
            11 => Redo::OmapClear { object: get_object(r)? },
            12 => Redo::OmapSetHeader { object: get_object(r)?, header: r.blob_bytes()? },
            13 => Redo::Clone { from: get_object(r)?, to: get_object(r)? },
            14 => Redo::PgSet { pg: get_pg(r)?, key: r.blob_bytes()?, value: r.blob_bytes()? },
            15 => Redo::PgRemove { pg: get_pg(r)?, key: r.blob_bytes()? },
            16 => Redo::PgRemoveRange { pg: get_pg(r)?, begin: r.blob_bytes()?, end: r.blob_bytes()? },
            17 => Redo::PgDestroy { pg: get_pg(r)?, pg_num: r.u32()? },
            18 => Redo::decode_inline(r)?,
            19 => Redo::decode_clone_range(r)?,
            20 => Redo::CloneCopied { from: get_object(r)?, of: get_copy(r)? },
            21 => Redo::DropCopy { of: get_copy(r)? },
            22 => Redo::OmapIds { next: r.u64()? },
            other => return Err(DecodeError::Value { what: "redo step", value: other.into() }),
        })
    }
}

/// A record's body: transactions (count 4), each its steps (count 4). `bytes` is the length foreseen.
pub(crate) fn encode_body<'a>(transactions: impl ExactSizeIterator<Item = &'a [Redo]>, bytes: usize) -> Vec<u8> {
    let mut w = Writer::onto(Vec::with_capacity(bytes), Target::default());
    w.count(transactions.len());
    for steps in transactions {
        w.count(steps.len());
        steps.iter().for_each(|step| step.encode(&mut w));
    }
    w.into_vec()
}

/// Bytes a body takes besides the steps.
pub(crate) const fn body_overhead_bytes(transactions: usize) -> u64 {
    4 + 4 * transactions as u64
}

/// The steps of a record's body, in order.
pub(crate) fn decode_body(body: &[u8]) -> Result<Vec<Redo>, DecodeError> {
    let mut r = Reader::new(body);
    let mut steps = Vec::new();
    for _ in 0..r.count("transactions", 4)? {
        for _ in 0..r.count("steps", Redo::MIN_BYTES)? {
            steps.push(r.get()?);
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
    use crate::key::object_key;
    use proptest::prelude::*;
    use types::ObjectId;

    fn steps() -> impl Strategy<Value = Redo> {
        let object = || {
            (any::<u32>(), prop::collection::vec(any::<u8>(), 0..5))
                .prop_map(|(h, n)| object_key(&ObjectId::head(PoolId(1), h, b"", &n)))
        };
        let copies = || (object(), any::<(u64, bool)>()).prop_map(|(to, (id, segments))| CopyOf { to, id, segments });
        let bytes = || prop::collection::vec(any::<u8>(), 0..6).prop_map(Bytes::from);
        let names = || prop::collection::vec(any::<u8>(), 0..6);
        let pg = || any::<(i64, u32)>().prop_map(|(pool, seed)| PgId::new(pool, seed));
        let runs = prop::collection::vec((0u32..1000, 1u32..5), 1..4)
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

    proptest! {
        #[test]
        fn bodies_read_back_and_have_the_length_foreseen(all in prop::collection::vec(prop::collection::vec(steps(), 0..4), 0..4)) {
            let body = encode_body(all.iter().map(|steps| &steps[..]), 0);
            let foreseen: u64 = all.iter().flatten().map(Redo::encoded_bytes).sum();
            prop_assert_eq!(body.len() as u64, foreseen + body_overhead_bytes(all.len()));
            prop_assert_eq!(decode_body(&body).unwrap(), all.concat());
        }

        #[test]
        fn any_bytes_are_read_or_refused(count in 0u32..3, kind in 0u8..24, bytes: Vec<u8>) {
            let head = [1u32.to_le_bytes(), count.to_le_bytes()].concat();
            let _ = decode_body(&[&head[..], &[kind], &bytes].concat());
            let _ = decode_body(&bytes);
        }
    }

    #[test]
    fn a_write_and_a_log_entry_keep_their_bytes() {
        let map = Redo::Map {
            object: [1, 2].into(),
            size: 5000,
            first: 1,
            runs: vec![Run { start: 9, count: 1 }],
            crcs: vec![0xaabb_ccdd],
        };
        let set = Redo::PgSet { pg: PgId::new(1, 2), key: Bytes::from_static(b"k"), value: Bytes::from_static(b"v") };
        let expected = [
            &[1, 0, 0, 0, 2, 0, 0, 0][..],
            &[2, 2, 0, 0, 0, 1, 2, 0x88, 0x13, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0],
            &[1, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0xdd, 0xcc, 0xbb, 0xaa],
            &[14, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, b'k', 1, 0, 0, 0, b'v'],
        ]
        .concat();
        assert_eq!(encode_body([&[map, set][..]].into_iter(), 0), expected);
        // The upper half of a run's device block is where flags of compression and encryption will be.
        let device_block = 8 + 19 + 8;
        assert_eq!(expected[device_block], 9);
        for bit in 32..64 {
            let mut flagged = expected.clone();
            flagged[device_block + bit / 8] |= 1 << (bit % 8);
            assert!(decode_body(&flagged).is_err(), "bit {bit}");
        }
    }
}
