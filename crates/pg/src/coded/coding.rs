//! How a pool's objects are coded.

use bytes::Bytes;
use ec::{Code, Profile, StripeLayout, Technique};
use osdmap::{OsdMap, PgPool};
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
    /// `None` for replicated pools.
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

    /// Data shards: so many shards of an object, whichever, give the others.
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

/// All shards of `data`, which begins with a stripe and is filled up with zeros to the end of its last one.
pub(crate) fn encode(code: &Code, layout: &StripeLayout, data: &Rope) -> Vec<Rope> {
    let shard_bytes = layout.shard_bytes(data.len() as u64) as usize;
    let mut shards: Vec<AlignedBuf> = (0..code.k() + code.m()).map(|_| AlignedBuf::zeroed(shard_bytes)).collect();
    let mut at = 0;
    for piece in data.pieces() {
        let mut rest = &piece[..];
        while !rest.is_empty() {
            let (shard, offset) = layout.locate(at as u64);
            let left_of_unit = layout.unit_bytes() as usize - at % layout.unit_bytes() as usize;
            let (now, later) = rest.split_at(rest.len().min(left_of_unit));
            shards[shard].as_mut_slice()[offset as usize..][..now.len()].copy_from_slice(now);
            (at, rest) = (at + now.len(), later);
        }
    }
    let (of_data, of_parity) = shards.split_at_mut(code.k());
    let sources: Vec<&[u8]> = of_data.iter().map(AlignedBuf::as_slice).collect();
    let mut targets: Vec<&mut [u8]> = of_parity.iter_mut().map(AlignedBuf::as_mut_slice).collect();
    code.encode(&sources, &mut targets).expect("shards of one length, as many as the code has");
    shards.into_iter().map(|shard| with_block_crcs(shard.freeze())).collect()
}

/// A shard with the checksums of its blocks. One look at its bytes then serves its digest, the frame in which it goes
/// to its OSD, and the store.
fn with_block_crcs(shard: Bytes) -> Rope {
    let crcs: Arc<[u32]> = shard.chunks(BLOCK_BYTES).map(crc32c::checksum).collect();
    Rope::from(shard).with_block_crcs(crcs)
}

/// The bytes `offset .. offset + len` of an object, of data shards' bytes from `shard_offset` on. `shard(i)`: those of
/// data shard i. Panics if they do not reach so far: whoever has read them has seen to that.
pub(crate) fn assemble<'a>(
    layout: &StripeLayout,
    (offset, len): (u64, u64),
    shard_offset: u64,
    shard: impl Fn(usize) -> &'a [u8],
) -> Rope {
    let mut out = AlignedBuf::zeroed(len as usize);
    for piece in layout.pieces(offset..offset + len) {
        let from = &shard(piece.shard)[(piece.shard_offset - shard_offset) as usize..][..piece.bytes as usize];
        out.as_mut_slice()[(piece.logical_offset - offset) as usize..][..from.len()].copy_from_slice(from);
    }
    Rope::from(out.freeze())
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
            let shards: Vec<bytes::Bytes> = encode(&code, &layout, &data).into_iter().map(Rope::into_bytes).collect();
            prop_assert_eq!(shards.len(), usize::from(k + m));
            let from = from.min(len);
            let want = want.min(len - from);
            let range = layout.shard_range_around(from as u64..(from + want) as u64);
            let part = |i: usize| &shards[i][range.start as usize..];
            let back = assemble(&layout, (from as u64, want as u64), range.start, part);
            prop_assert_eq!(back.to_vec(), &bytes[from..from + want]);
        }
    }
}
