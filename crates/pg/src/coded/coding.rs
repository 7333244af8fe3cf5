//! Coding of a pool's objects.

use bytes::Bytes;
use ec::{Code, Profile, StripeLayout, Technique};
use osdmap::{OsdMap, PgPool};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use types::{AlignedBuf, BLOCK_BYTES, crc32c};
use wire::Rope;

/// An erasure-coded pool's code and layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Coding {
    technique: Technique,
    k: u8,
    m: u8,
    unit_bytes: u32,
}

/// A pool that this version cannot read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CodingError {
    #[error("its erasure code profile '{0}' is not in the map")]
    NoProfile(String),
    #[error("its erasure code profile '{0}' cannot be used: {1}")]
    Profile(String, ec::ProfileError),
    #[error(
        "its profile has {shards} shards and stripes of {k} data shards; the pool has size {size} and stripes of {width} bytes"
    )]
    Shape { shards: usize, k: usize, size: u8, width: u32 },
}

impl Coding {
    /// Returns the coding of a pool's objects; `None` for replicated pools.
    pub fn of(map: &OsdMap, pool: &PgPool) -> Result<Option<Coding>, CodingError> {
        if !pool.is_erasure() {
            return Ok(None);
        }
        let name = &pool.erasure_code_profile;
        let settings = map.erasure_code_profiles.get(name).ok_or_else(|| CodingError::NoProfile(name.clone()))?;
        let profile = Profile::from_settings(settings.clone()).map_err(|e| CodingError::Profile(name.clone(), e))?;
        let (k, m, size, width) = (profile.k(), profile.m(), pool.size, pool.stripe_width);
        // The pool's stripes are those of the cluster's default stripe unit when it was made.
        let unit_bytes = width / k as u32;
        let fits = k + m == usize::from(size) && unit_bytes > 0 && unit_bytes * k as u32 == width;
        if !fits || StripeLayout::new(k, unit_bytes).is_none() {
            return Err(CodingError::Shape { shards: k + m, k, size, width });
        }
        Ok(Some(Coding { technique: profile.technique(), k: k as u8, m: m as u8, unit_bytes }))
    }

    /// Returns the number of data shards: so many shards of an object, whichever, give the others.
    pub fn k(&self) -> usize {
        self.k.into()
    }

    pub fn layout(&self) -> StripeLayout {
        StripeLayout::new(self.k(), self.unit_bytes).expect("checked when it was made")
    }

    pub fn code(&self) -> Code {
        Code::new(self.technique, self.k.into(), self.m.into()).expect("checked when it was made")
    }
}

/// Larger data is not copied for its shards: these then share its memory, as many small pieces. Up to what clients cut
/// large data into copies cost less time than pieces, and little memory.
const COPIED_BYTES_MAX: usize = 4 << 20;

/// All shards of some data.
pub(crate) struct Encoded {
    pub shards: Vec<Rope>,
    /// Memory that they take beside that of the data, if it is much.
    pub new_bytes: usize,
}

/// Returns all shards of `data`, which begins with a stripe and is filled up with zeros to the end of its last one.
pub(crate) fn encode(code: &Code, layout: &StripeLayout, data: &Rope) -> Encoded {
    let in_blocks = layout.unit_bytes().is_multiple_of(BLOCK_BYTES as u64);
    match data.len() > COPIED_BYTES_MAX && in_blocks {
        true => encode_shared(code, layout, data),
        false => encode_copied(code, layout, data),
    }
}

/// Returns the bytes of a stripe unit, and of each shard of `data`.
fn sizes(layout: &StripeLayout, data: &Rope) -> (usize, usize) {
    (layout.unit_bytes() as usize, layout.shard_bytes(data.len() as u64) as usize)
}

fn encode_copied(code: &Code, layout: &StripeLayout, data: &Rope) -> Encoded {
    let (unit_bytes, shard_bytes) = sizes(layout, data);
    let mut shards: Vec<AlignedBuf> = (0..code.k() + code.m()).map(|_| AlignedBuf::zeroed(shard_bytes)).collect();
    let mut at = 0;
    for piece in data.pieces() {
        let mut rest = &piece[..];
        while !rest.is_empty() {
            let (shard, offset) = layout.locate(at as u64);
            let left_of_unit = unit_bytes - at % unit_bytes;
            let (now, later) = rest.split_at(rest.len().min(left_of_unit));
            shards[shard].as_mut_slice()[offset as usize..][..now.len()].copy_from_slice(now);
            (at, rest) = (at + now.len(), later);
        }
    }
    let (of_data, of_parity) = shards.split_at_mut(code.k());
    let sources: Vec<&[u8]> = of_data.iter().map(AlignedBuf::as_slice).collect();
    let mut targets: Vec<&mut [u8]> = of_parity.iter_mut().map(AlignedBuf::as_mut_slice).collect();
    code.encode(&sources, &mut targets).expect("shards of one length, as many as the code has");
    Encoded { shards: shards.into_iter().map(|shard| with_block_crcs(shard.freeze().into())).collect(), new_bytes: 0 }
}

/// Encodes `data` into shards that share its memory: data shards are made of the stripe units as they lie in it. Only
/// units that it has in several pieces, or in part, are copied. Parity is computed stripe by stripe.
fn encode_shared(code: &Code, layout: &StripeLayout, data: &Rope) -> Encoded {
    let (unit_bytes, shard_bytes) = sizes(layout, data);
    let mut of_parity: Vec<AlignedBuf> = (0..code.m()).map(|_| AlignedBuf::zeroed(shard_bytes)).collect();
    let mut of_data = vec![Rope::new(); code.k()];
    let mut new_bytes = of_parity.len() * shard_bytes;
    let mut units = Units { rest: data.pieces().cloned().collect(), unit_bytes };
    for stripe in 0..shard_bytes / unit_bytes {
        let sources: Vec<Bytes> = (0..code.k()).map(|_| units.next(&mut new_bytes)).collect();
        let slices: Vec<&[u8]> = sources.iter().map(|unit| &unit[..]).collect();
        let begin = stripe * unit_bytes;
        let mut targets: Vec<&mut [u8]> =
            of_parity.iter_mut().map(|shard| &mut shard.as_mut_slice()[begin..][..unit_bytes]).collect();
        code.encode(&slices, &mut targets).expect("units of one length, as many as the code has");
        sources.into_iter().zip(&mut of_data).for_each(|(unit, shard)| shard.push(unit));
    }
    let of_parity = of_parity.into_iter().map(|shard| Rope::from(shard.freeze()));
    Encoded { shards: of_data.into_iter().chain(of_parity).map(with_block_crcs).collect(), new_bytes }
}

/// The stripe units of some data, one after the other.
struct Units {
    rest: VecDeque<Bytes>,
    unit_bytes: usize,
}

impl Units {
    /// Returns the next unit, filled up with zeros. Bytes that are copied for it are added to `new_bytes`.
    fn next(&mut self, new_bytes: &mut usize) -> Bytes {
        if let Some(front) = self.rest.front_mut().filter(|front| front.len() >= self.unit_bytes) {
            let unit = front.split_to(self.unit_bytes);
            if front.is_empty() {
                self.rest.pop_front();
            }
            return unit;
        }
        let (mut unit, mut filled) = (AlignedBuf::zeroed(self.unit_bytes), 0);
        *new_bytes += self.unit_bytes;
        while let Some(front) = self.rest.front_mut().filter(|_| filled < self.unit_bytes) {
            let part = front.split_to(front.len().min(self.unit_bytes - filled));
            unit.as_mut_slice()[filled..][..part.len()].copy_from_slice(&part);
            filled += part.len();
            if front.is_empty() {
                self.rest.pop_front();
            }
        }
        unit.freeze()
    }
}

/// Returns a shard with the checksums of its blocks. One look at its bytes then serves its digest, the frame in which
/// it goes to its OSD, and the store.
fn with_block_crcs(shard: Rope) -> Rope {
    // Pieces are of whole blocks, except perhaps the last.
    let crcs: Arc<[u32]> = shard.pieces().flat_map(|piece| piece.chunks(BLOCK_BYTES)).map(crc32c::checksum).collect();
    shard.with_block_crcs(crcs)
}

/// Returns a logical range of an object, made of bytes of its data shards, whose memory it shares. `part(i)`: bytes of
/// data shard i, and the shard offset of the first of them. `None` if they do not reach as far as it takes.
pub(crate) fn assemble<'a>(
    layout: &StripeLayout,
    logical: Range<u64>,
    part: impl Fn(usize) -> Option<(u64, &'a Rope)>,
) -> Option<Rope> {
    let (offset, len) = (logical.start, logical.end - logical.start);
    let mut shards: Vec<ShardBytes> = vec![ShardBytes::default(); layout.k()];
    for piece in layout.pieces(logical.clone()).take(layout.k()) {
        let range = layout.shard_range(piece.shard, logical.clone());
        let (start, bytes) = part(piece.shard)?;
        let (begin, end) = (range.start.checked_sub(start)?, range.end - start);
        if end > bytes.len() as u64 {
            return None;
        }
        let bytes = bytes.slice(begin as usize, (end - begin) as usize);
        if piece.bytes == len {
            return Some(bytes);
        }
        shards[piece.shard] = ShardBytes::of(bytes);
    }
    let (mut out, mut crcs) = (Rope::new(), Vec::new());
    for piece in layout.pieces(logical) {
        shards[piece.shard].take(piece.bytes as usize, &mut out, &mut crcs);
    }
    let in_blocks = [offset, len, layout.unit_bytes()].iter().all(|bytes| bytes.is_multiple_of(BLOCK_BYTES as u64));
    let is_known = in_blocks && crcs.len() == out.len() / BLOCK_BYTES;
    Some(if is_known { out.with_block_crcs(crcs.into()) } else { out })
}

/// The bytes of a shard that lie in some range, taken one after the other.
#[derive(Clone, Default)]
struct ShardBytes {
    bytes: Rope,
    taken: usize,
    rest: VecDeque<Bytes>,
}

impl ShardBytes {
    fn of(bytes: Rope) -> ShardBytes {
        ShardBytes { taken: 0, rest: bytes.pieces().cloned().collect(), bytes }
    }

    /// Adds the next bytes to `out`, and the checksums of their blocks to `crcs` if these are known. Panics if there
    /// are not so many.
    fn take(&mut self, mut wanted: usize, out: &mut Rope, crcs: &mut Vec<u32>) {
        let first = self.taken / BLOCK_BYTES;
        self.taken += wanted;
        if let Some(known) = self.bytes.block_crcs() {
            crcs.extend_from_slice(&known[first..(self.taken / BLOCK_BYTES).max(first)]);
        }
        while wanted > 0 {
            let front = self.rest.front_mut().expect("the shard's range has as many bytes as its pieces");
            let part = front.split_to(front.len().min(wanted));
            wanted -= part.len();
            if front.is_empty() {
                self.rest.pop_front();
            }
            out.push(part);
        }
    }
}

/// Returns the runs of bytes that lie from `offset` on, without blocks of zeros, and what is in them. Zeros need not be
/// sent, and take no room where they are not written. Of a single block of which less than half is used, the rest is
/// left out, too: so little is kept without a block.
pub(crate) fn without_zeros(offset: u64, bytes: Rope) -> (Vec<(u64, u64)>, Rope) {
    let (mut runs, mut kept): (Vec<(u64, u64)>, Rope) = (Vec::new(), Rope::new());
    for at in (0..bytes.len()).step_by(BLOCK_BYTES) {
        let block = bytes.slice(at, BLOCK_BYTES.min(bytes.len() - at));
        if block.pieces().all(|piece| piece.iter().all(|byte| *byte == 0)) {
            continue;
        }
        let (begin, len) = (offset + at as u64, block.len() as u64);
        match runs.last_mut().filter(|(start, len)| start + *len == begin) {
            Some((_, run)) => *run += len,
            None => runs.push((begin, len)),
        }
        kept.append(block);
    }
    if let [(_, len)] = &mut runs[..]
        && kept.len() <= BLOCK_BYTES
    {
        let used = kept.to_vec().iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        if used <= BLOCK_BYTES / 2 {
            *len = used as u64;
            return (runs, kept.slice(0, used));
        }
    }
    if kept.len() == bytes.len() { (runs, bytes) } else { (runs, kept) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_encoded_is_assembled_again(
            k in 2u8..6, m in 1u8..4, len in 1usize..70_000, from in 0usize..70_000, want in 0usize..70_000, cut in 1usize..9000,
        ) {
            let coding = Coding { technique: Technique::JerasureVandermonde, k, m, unit_bytes: 4096 };
            let (code, layout) = (coding.code(), coding.layout());
            let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + i / 251) as u8).collect();
            let data: Rope = bytes.chunks(cut).map(bytes::Bytes::copy_from_slice).collect();
            let encoded = encode_copied(&code, &layout, &data).shards;
            prop_assert!(encoded.iter().all(|shard| shard.block_crcs().is_some()));
            let shards: Vec<Bytes> = encoded.iter().cloned().map(Rope::into_bytes).collect();
            prop_assert_eq!(shards.len(), usize::from(k + m));
            let shared = encode_shared(&code, &layout, &data).shards;
            for (shared, copied) in shared.into_iter().zip(&encoded) {
                prop_assert_eq!(shared.block_crcs(), copied.block_crcs());
                prop_assert_eq!(shared.into_bytes(), copied.clone().into_bytes());
            }
            let from = from.min(len);
            let want = want.min(len - from);
            let logical = from as u64..(from + want) as u64;
            let start = layout.shard_range_around(logical.clone()).start;
            let in_pieces = |shard: &Rope| -> Rope {
                shard.to_vec()[start as usize..].chunks(cut).map(Bytes::copy_from_slice).collect()
            };
            let parts: Vec<Rope> = encoded.iter().map(in_pieces).collect();
            let back = assemble(&layout, logical.clone(), |i| Some((start, &parts[i]))).expect("all is there");
            prop_assert_eq!(back.to_vec(), &bytes[from..from + want]);
        }
    }

    #[test]
    fn what_is_assembled_shares_memory_and_has_the_checksums_of_its_blocks() {
        // Stripe units of two blocks. Each shard has come from its second block on, four blocks of it.
        let layout = StripeLayout::new(2, 8192).unwrap();
        let shard = |first: u8| {
            let blocks: Vec<u8> = (first..first + 4).flat_map(|fill| [fill; 4096]).collect();
            with_block_crcs(Rope::from(blocks))
        };
        let shards = [shard(10), shard(20)];
        let part = |i: usize| Some((4096, &shards[i]));
        let memory = shards.each_ref().map(|shard| shard.pieces().next().expect("bytes").as_ptr_range());
        let is_shared = |piece: &Bytes| memory.iter().any(|range| range.contains(&piece.as_ptr()));
        let blocks = |fills: &[u8]| -> Vec<u8> { fills.iter().flat_map(|fill| [*fill; 4096]).collect() };
        let read = |from: u64, to: u64| assemble(&layout, from..to, part);
        for (from, to, fills) in [(1, 2, &[10][..]), (4, 9, &[11, 12, 21, 22, 13]), (7, 8, &[22])] {
            let back = read(from * 4096, to * 4096).expect("it has come");
            assert_eq!(back.to_vec(), blocks(fills), "{from}..{to}");
            assert!(back.pieces().all(is_shared));
            let crcs: Vec<u32> = back.to_vec().chunks(4096).map(crc32c::checksum).collect();
            assert_eq!(back.block_crcs(), Some(&crcs[..]), "{from}..{to}");
        }
        assert_eq!(read(2 * 4096, 4 * 4096), None, "a block that was not asked for");
        assert_eq!(read(4 * 4096, 20 * 4096), None, "shards end before");
        let odd = read(4 * 4096 + 5, 8 * 4096 + 9).expect("it has come");
        assert_eq!(odd.to_vec(), [&blocks(&[11, 12, 21, 22])[5..], &blocks(&[13])[..9]].concat());
        assert_eq!(odd.block_crcs(), None, "it is not cut where blocks are");
        assert_eq!(assemble(&layout, 4096..4 * 4096, |i| part(i).filter(|_| i == 0)), None, "a shard is not there");
    }

    #[test]
    fn blocks_of_zeros_are_left_out_and_all_else_stays() {
        let mut bytes = vec![0; 5 * 4096 + 9];
        (bytes[4096], bytes[3 * 4096 - 1], bytes[5 * 4096 + 8]) = (1, 2, 3);
        let (runs, kept) = without_zeros(8192, Rope::from(bytes.clone()));
        assert_eq!(runs, [(8192 + 4096, 8192), (8192 + 5 * 4096, 9)]);
        assert_eq!(kept.to_vec(), [&bytes[4096..3 * 4096], &bytes[5 * 4096..]].concat());
        let (runs, kept) = without_zeros(7, Rope::from(vec![1; 5000]));
        assert_eq!((runs, kept.len()), (vec![(7, 5000)], 5000));
        let (runs, kept) = without_zeros(0, Rope::from([&[0, 5, 0, 6][..], &[0; 4092]].concat()));
        assert_eq!((runs, kept.to_vec()), (vec![(0, 4)], vec![0, 5, 0, 6]));
        let (runs, kept) = without_zeros(7, Rope::from(vec![0; 5000]));
        assert_eq!((runs, kept.len()), (vec![], 0));
    }

    #[test]
    fn shards_of_large_data_share_its_memory_but_for_parity() {
        const LARGE: usize = COPIED_BYTES_MAX + 8192;
        let coding = Coding { technique: Technique::JerasureVandermonde, k: 2, m: 1, unit_bytes: 4096 };
        let (code, layout) = (coding.code(), coding.layout());
        let mut whole = AlignedBuf::zeroed(LARGE);
        whole.as_mut_slice().iter_mut().enumerate().for_each(|(i, byte)| *byte = (i / 251) as u8);
        let whole = whole.freeze();
        let range = whole.as_ptr_range();
        let is_within = |piece: &Bytes| range.contains(&piece.as_ptr());
        let encoded = encode(&code, &layout, &Rope::from(whole.clone()));
        assert_eq!(encoded.new_bytes, LARGE / 2, "parity");
        assert!(encoded.shards[..2].iter().flat_map(Rope::pieces).all(is_within));
        // The last stripe is not whole: one unit is copied, and there is one of zeros.
        let encoded = encode(&code, &layout, &[whole.clone(), Bytes::from_static(b"more")].into_iter().collect());
        assert_eq!(encoded.new_bytes, LARGE / 2 + 3 * 4096);
        let back = assemble(&layout, 0..LARGE as u64, |i| Some((0, &encoded.shards[i]))).expect("all is there");
        assert!(back.pieces().count() == LARGE / 4096 && back.into_bytes() == whole);
        let small = encode(&code, &layout, &Rope::from(whole.slice(..8192)));
        assert!(!small.shards[..2].iter().flat_map(Rope::pieces).any(is_within), "copied");
    }
}
