//! Digests of what an object holds, by which a copy or a shard proves itself.
//!
//! They are part of the object information, and Ceph's: crc32c registers from [`SEED`] on. That of the data is over all
//! its bytes, holes as zeros. That of the omap is over its header, and behind it keys and values in their order, each
//! behind its length. Of an erasure-coded object there is one for each shard, over the shard's bytes.
//!
//! An update keeps a digest up where that costs no look at bytes that it does not bring ([`Digests::follow`]), else it
//! drops it. A deep scrub has digests of replicated objects recorded that are not known ([`crate::scrub::record`]).

use crate::group::object_info::{OBJECT_INFO_ATTR, ObjectInfo};
use bytes::Bytes;
use mutant::Mutant;
use std::collections::BTreeMap;
use store::Step;
use types::crc32c::{self, SEED};
use wire::{Decode, DecodeError, Reader, Rope, Writer};

/// Digests of one object, as far as they are known.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Digests {
    /// Digest of a replicated object's bytes.
    pub data: Option<u32>,
    pub omap: Option<u32>,
    /// Digests of an erasure-coded object's shards, in their order; none if they are not known.
    pub shards: Vec<u32>,
}

const DATA: u8 = 1;
const OMAP: u8 = 2;
const SHARDS: u8 = 4;

impl Digests {
    /// Returns the digests in the object information among these attributes, if it is there and can be read.
    pub(crate) fn among(attrs: &BTreeMap<Bytes, Bytes>) -> Option<Digests> {
        let info = attrs.get(OBJECT_INFO_ATTR)?;
        ObjectInfo::from_slice(info).ok().map(|info| info.digests)
    }

    pub fn are_unknown(&self) -> bool {
        *self == Digests::default()
    }

    /// Follows a step of an update of the object, which is `size_bytes` long before it. In erasure-coded pools written
    /// data counts when it is encoded ([`Digests::encoded`]).
    pub fn follow(&mut self, step: &Step, size_bytes: u64, is_coded: bool) {
        match step {
            Step::Write { offset, data, .. } if !is_coded => self.data = self.written(*offset, data, size_bytes),
            Step::Write { .. } | Step::Touch { .. } | Step::SetAttr { .. } | Step::RemoveAttr { .. } => {}
            Step::Truncate { size, .. } => {
                self.data = (*size == 0 && !is_coded).then_some(SEED);
                self.shards.clear();
            }
            Step::Zero { .. } | Step::CloneRange { .. } | Step::Xor { .. } => {
                self.data = None;
                self.shards.clear();
            }
            // The digests of a clone are those of its source, which the caller copies.
            Step::Remove { .. } | Step::Clone { .. } => *self = Digests::default(),
            Step::OmapSet { .. }
            | Step::OmapRemove { .. }
            | Step::OmapRemoveRange { .. }
            | Step::OmapClear { .. }
            | Step::OmapSetHeader { .. } => self.omap = self.omap.filter(|_| mutant::is(Mutant::OmapDigestKept)),
            Step::PgSet { .. } | Step::PgRemove { .. } | Step::PgRemoveRange { .. } | Step::PgDestroy { .. } => {}
        }
    }

    fn written(&self, offset: u64, data: &Rope, size_bytes: u64) -> Option<u32> {
        if offset == 0 && data.len() as u64 >= size_bytes {
            return Some(data.digest(SEED));
        }
        if offset == size_bytes {
            return self.data.map(|before| data.digest(before));
        }
        self.data.filter(|_| mutant::is(Mutant::DigestKeptOverWrite))
    }

    /// Counts bytes that are appended to each shard at `offset`, its present end. Panics if there are no shards.
    pub(crate) fn encoded(&mut self, offset: u64, shards: &[Rope]) {
        let before = match offset {
            0 => vec![SEED; shards.len()],
            _ => std::mem::take(&mut self.shards),
        };
        if before.len() == shards.len() {
            self.shards = before.iter().zip(shards).map(|(before, data)| data.digest(*before)).collect();
        }
    }

    /// Writes the digests. They stand behind everything else of object information, in whichever version that is, and
    /// take no room where none is known: software that knows of none passes over them, and makes object information
    /// without.
    pub(crate) fn encode(&self, w: &mut Writer) {
        if self.are_unknown() {
            return;
        }
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        let has_shards = !self.shards.is_empty();
        w.u8(flag(self.data.is_some(), DATA) | flag(self.omap.is_some(), OMAP) | flag(has_shards, SHARDS));
        self.data.iter().chain(&self.omap).for_each(|digest| w.u32(*digest));
        if has_shards {
            w.u8(u8::try_from(self.shards.len()).expect("an object has less than 256 shards"));
            self.shards.iter().for_each(|digest| w.u32(*digest));
        }
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Digests, DecodeError> {
        if r.is_empty() {
            return Ok(Digests::default());
        }
        let known = r.u8()?;
        let mut digest = |flag: u8| if known & flag != 0 { r.u32().map(Some) } else { Ok(None) };
        let (data, omap) = (digest(DATA)?, digest(OMAP)?);
        let count = if known & SHARDS != 0 { r.u8()? } else { 0 };
        Ok(Digests { data, omap, shards: (0..count).map(|_| r.u32()).collect::<Result<_, _>>()? })
    }
}

/// The digest of an omap of which the parts come one after another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OmapDigest(u32);

impl OmapDigest {
    pub fn of_header(header: &[u8]) -> OmapDigest {
        OmapDigest(crc32c::update(SEED, header))
    }

    /// Adds the next entry in the order of the keys.
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        let with_length =
            |crc, part: &[u8]| crc32c::update(crc32c::update(crc, &(part.len() as u32).to_le_bytes()), part);
        self.0 = with_length(with_length(self.0, key), value);
    }

    pub fn get(self) -> u32 {
        self.0
    }
}

/// The digest of bytes of which runs come in their order, with holes between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataDigest {
    digest: u32,
    /// Bytes up to here are in the digest.
    end: u64,
    /// A run came that lies before the one before it.
    is_void: bool,
}

impl Default for DataDigest {
    fn default() -> DataDigest {
        DataDigest { digest: SEED, end: 0, is_void: false }
    }
}

impl DataDigest {
    /// Adds the bytes from `offset` on. Bytes that have come before are passed over.
    pub fn add(&mut self, offset: u64, bytes: &Rope) {
        self.zeros_until(offset);
        let known = self.end.saturating_sub(offset).min(bytes.len() as u64);
        let new = bytes.slice(known as usize, bytes.len() - known as usize);
        self.digest = new.digest(self.digest);
        self.end = self.end.max(offset + bytes.len() as u64);
    }

    /// Adds bytes of a sender that must not send anything twice.
    pub fn add_once(&mut self, offset: u64, bytes: &Rope) {
        self.is_void |= offset < self.end;
        self.add(offset, bytes);
    }

    fn zeros_until(&mut self, offset: u64) {
        let zeros = offset.saturating_sub(self.end);
        if zeros > 0 {
            self.digest = crc32c::combine(self.digest, crc_of_zeros(zeros), zeros);
            self.end += zeros;
        }
    }

    /// Returns how far it goes.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Returns the digest of `size_bytes` in all. `None`: what came was not in order, or more.
    pub fn of(mut self, size_bytes: u64) -> Option<u32> {
        self.zeros_until(size_bytes);
        (!self.is_void && self.end == size_bytes).then_some(self.digest)
    }
}

/// Returns the register after so many zeros.
fn crc_of_zeros(bytes: u64) -> u32 {
    let (mut crc, mut done) = (SEED, 0);
    for bit in (0..64 - bytes.leading_zeros()).rev() {
        crc = crc32c::combine(crc, crc, done);
        done *= 2;
        if bytes >> bit & 1 == 1 {
            crc = crc32c::update(crc, &[0]);
            done += 1;
        }
    }
    crc
}

/// The whole of an object, or of a shard, that is sent or comes piece by piece.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    data: DataDigest,
    omap: OmapDigest,
}

impl Content {
    pub fn new(omap_header: &[u8]) -> Content {
        Content { data: DataDigest::default(), omap: OmapDigest::of_header(omap_header) }
    }

    pub fn add(&mut self, omap: &[(Bytes, Bytes)], runs: &[(u64, u64)], data: &Rope) {
        omap.iter().for_each(|(key, value)| self.omap.add(key, value));
        let mut at = 0;
        for (offset, len) in runs {
            let len = (*len as usize).min(data.len() - at);
            self.data.add_once(*offset, &data.slice(at, len));
            at += len;
        }
    }

    /// Compares all that came with what is known of the object. `shard`: it is this shard, of an erasure-coded object.
    pub fn check(&self, known: &Digests, size_bytes: u64, shard: Option<u8>) -> Result<(), Wrong> {
        let data = match shard {
            None => known.data,
            Some(shard) => known.shards.get(usize::from(shard)).copied(),
        };
        if data.is_some() && data != self.data.of(size_bytes) {
            return Err(Wrong::Data);
        }
        match known.omap.filter(|_| shard.is_none()) {
            Some(omap) if omap != self.omap.get() => Err(Wrong::Omap),
            _ => Ok(()),
        }
    }
}

/// The content is not what its digest says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Wrong {
    #[error("its data is not what its digest says")]
    Data,
    #[error("its omap is not what its digest says")]
    Omap,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use types::{ObjectId, PoolId};
    use wire::{Encode, Target};

    fn object() -> ObjectId {
        ObjectId::head(PoolId(1), 7, b"", b"o")
    }

    fn write(offset: u64, text: &'static str) -> Step {
        Step::Write { object: object(), offset, data: Rope::from(text) }
    }

    #[test]
    fn zeros_are_digested_without_being_there() {
        for bytes in [0, 1, 2, 3, 4095, 4096, 100_001] {
            assert_eq!(crc_of_zeros(bytes), crc32c::checksum(&vec![0; bytes as usize]), "{bytes}");
        }
    }

    #[test]
    fn the_digest_of_an_omap_is_cephs() {
        // Over "hd", 1 as 32 bits, "k", 2 as 32 bits, "vv".
        let mut digest = OmapDigest::of_header(b"hd");
        digest.add(b"k", b"vv");
        assert_eq!(digest.get(), crc32c::checksum(b"hd\x01\0\0\0k\x02\0\0\0vv"));
        assert_eq!(OmapDigest::of_header(b"").get(), SEED, "of no omap");
    }

    #[test]
    fn what_replaces_all_and_what_is_appended_is_known_and_what_else_is_written_is_not() {
        let mut digests = Digests { omap: Some(3), ..Digests::default() };
        let mut follow = |step: Step, size: u64| {
            digests.follow(&step, size, false);
            digests.data
        };
        let of = |text: &str| Some(crc32c::checksum(text.as_bytes()));
        assert_eq!(follow(write(0, "abc"), 2), of("abc"));
        assert_eq!(follow(write(3, "de"), 3), of("abcde"));
        assert_eq!(follow(write(1, "x"), 5), None);
        assert_eq!(follow(write(5, "x"), 5), None, "it was not known before");
        assert_eq!(follow(write(0, "abcdef"), 6), of("abcdef"));
        assert_eq!(follow(write(8, "x"), 6), None, "there is a hole");
        assert_eq!(follow(Step::Truncate { object: object(), size: 0 }, 9), of(""));
        assert_eq!(follow(write(0, "abc"), 0), of("abc"));
        assert_eq!(follow(Step::Zero { object: object(), offset: 0, len: 1 }, 3), None);
        assert_eq!(digests.omap, Some(3));
        digests.follow(&Step::OmapClear { object: object() }, 3, false);
        assert_eq!(digests.omap, None);
    }

    #[test]
    fn shards_are_known_from_their_first_byte_on_or_not_at_all() {
        let shards = |texts: [&'static str; 2]| texts.map(Rope::from);
        let mut digests = Digests::default();
        digests.encoded(4, &shards(["ab", "cd"]));
        assert_eq!(digests.shards, []);
        digests.encoded(0, &shards(["ab", "cd"]));
        digests.encoded(2, &shards(["ef", "gh"]));
        assert_eq!(digests.shards, [b"abef", b"cdgh"].map(|all| crc32c::checksum(all)));
    }

    proptest! {
        #[test]
        fn runs_and_holes_are_digested_as_one(
            cuts in prop::collection::vec((0usize..9000, 1usize..9000), 0..5),
            tail in 0usize..5000,
        ) {
            let (mut bytes, mut digest) = (Vec::new(), DataDigest::default());
            for (hole, len) in cuts {
                bytes.resize(bytes.len() + hole, 0);
                let run: Vec<u8> = (0..len).map(|i| (i * 31 + len) as u8).collect();
                digest.add_once(bytes.len() as u64, &Rope::from(run.clone()));
                bytes.extend(run);
            }
            bytes.resize(bytes.len() + tail, 0);
            prop_assert_eq!(digest.of(bytes.len() as u64), Some(crc32c::checksum(&bytes)));
            if !bytes.is_empty() && tail == 0 {
                prop_assert_eq!(digest.of(bytes.len() as u64 - 1), None);
                digest.add_once(0, &Rope::from("x"));
                prop_assert_eq!(digest.of(bytes.len() as u64), None);
            }
        }

        #[test]
        fn digests_read_back(
            data: Option<u32>,
            omap: Option<u32>,
            shards in prop::collection::vec(any::<u32>(), 0..9),
        ) {
            let digests = Digests { data, omap, shards };
            let info = ObjectInfo { digests: digests.clone(), ..ObjectInfo::default() };
            let bytes = info.to_vec(Target::default());
            prop_assert_eq!(ObjectInfo::from_slice(&bytes), Ok(info));
            let bare = ObjectInfo::default().to_vec(Target::default());
            let of_shards = if digests.shards.is_empty() { 0 } else { 1 + 4 * digests.shards.len() };
            let of_others = 4 * usize::from(data.is_some()) + 4 * usize::from(omap.is_some());
            let flags = usize::from(!digests.are_unknown());
            prop_assert_eq!(bytes.len() - bare.len(), flags + of_others + of_shards);
            // Software that knows of no digests reads what is before them, and passes over the rest.
            prop_assert_eq!(&bytes[..2], &bare[..2]);
            prop_assert_eq!(&bytes[6..bare.len()], &bare[6..]);
        }
    }
}
