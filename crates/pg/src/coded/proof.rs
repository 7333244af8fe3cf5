//! Search for bad shards among those that another one was computed of.
//!
//! A shard that was computed and is not what its digest says shows that one of its sources is bad, not which. So what
//! sources send of an object is digested on the way, and compared with their own digests then.

use crate::group::digests::{DataDigest, Digests};
use std::collections::BTreeMap;
use types::{EVersion, ObjectId, OsdId};
use wire::Rope;

/// Data of one object as its sources have sent it.
#[derive(Debug)]
struct Proof {
    version: EVersion,
    sent: BTreeMap<(OsdId, usize), DataDigest>,
}

impl Proof {
    fn of(version: EVersion) -> Proof {
        Proof { version, sent: BTreeMap::new() }
    }

    /// Adds bytes of a shard from `offset` on that have come, of that version of the object. They count as long as
    /// nothing lies between.
    fn add(&mut self, version: EVersion, source: (OsdId, usize), offset: u64, bytes: &Rope) {
        if self.version != version {
            *self = Proof::of(version);
        }
        let sent = self.sent.entry(source).or_default();
        if sent.end() == offset {
            sent.add(offset, bytes);
        }
    }

    /// Returns the sources whose shard came whole and contradicts its digest.
    fn wrong(&self, version: EVersion, digests: &Digests, shard_bytes: u64) -> Vec<OsdId> {
        let is_wrong = |shard: usize, sent: &DataDigest| {
            sent.end() == shard_bytes
                && digests.shards.get(shard).is_some_and(|known| sent.of(shard_bytes) != Some(*known))
        };
        let wrong = self.sent.iter().filter(|((_, shard), sent)| self.version == version && is_wrong(*shard, sent));
        wrong.map(|((osd, _), _)| *osd).collect()
    }
}

/// Proofs of objects of which shards are computed.
#[derive(Debug, Default)]
pub(super) struct Proofs(BTreeMap<ObjectId, Proof>);

impl Proofs {
    /// Adds bytes of a shard that have come, as [`Proof::add`] says.
    pub fn add(&mut self, object: &ObjectId, version: EVersion, source: (OsdId, usize), offset: u64, bytes: &Rope) {
        self.0.entry(object.clone()).or_insert_with(|| Proof::of(version)).add(version, source, offset, bytes);
    }

    /// Forgets what sources have sent of the object.
    pub fn forget(&mut self, object: &ObjectId) {
        self.0.remove(object);
    }

    /// Returns the sources whose shard is not what its digest says, and forgets what they have sent.
    pub fn take_wrong(&mut self, object: &ObjectId, version: EVersion, digests: &Digests) -> Vec<OsdId> {
        let Some(proof) = self.0.remove(object) else { return Vec::new() };
        // All shards are equally long.
        let shard_bytes = proof.sent.values().map(DataDigest::end).max().unwrap_or(0);
        proof.wrong(version, digests, shard_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::crc32c::checksum;

    #[test]
    fn sources_are_compared_with_their_own_digests() {
        let (v1, v2) = (EVersion::new(1, 1), EVersion::new(1, 2));
        let digests = Digests { shards: vec![checksum(b"abcd"), checksum(b"efgh"), 0], ..Digests::default() };
        let mut proof = Proof::of(v1);
        let (a, b) = ((OsdId(4), 0), (OsdId(5), 1));
        proof.add(v2, a, 0, &Rope::from("ab"));
        proof.add(v2, b, 0, &Rope::from("ef"));
        assert_eq!(proof.wrong(v2, &digests, 4), [], "they are not whole");
        proof.add(v2, a, 2, &Rope::from("cd"));
        proof.add(v2, a, 0, &Rope::from("ab"));
        proof.add(v2, b, 2, &Rope::from("gx"));
        assert_eq!(proof.wrong(v2, &digests, 4), [OsdId(5)]);
        assert_eq!(proof.wrong(v1, &digests, 4), []);
        assert_eq!(proof.wrong(v2, &Digests::default(), 4), [], "nothing says what they should be");
        proof.add(v1, a, 0, &Rope::from("ab"));
        assert_eq!(proof.wrong(v1, &digests, 4), [], "another version begins anew");
    }
}
