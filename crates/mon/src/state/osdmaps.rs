//! The OSD map and its history.

use bytes::Bytes;
use osdmap::{Incremental, OsdMap};
use std::collections::BTreeMap;
use std::sync::Arc;
use types::{Epoch, Fsid};
use wire::{Decode, DecodeError, Encode, Reader, Target, Writer};

/// Epochs from one kept full map to the next, so that any kept epoch can be rebuilt from the full map before it.
const FULL_EVERY: u32 = 250;
/// Least increments that are kept; a peer further behind starts from a full map.
const INCREMENTALS_MIN: usize = 500;
/// Most increments that are kept; beyond, the oldest are dropped.
const INCREMENTALS_MAX: usize = INCREMENTALS_MIN + 2 * FULL_EVERY as usize;
/// Most bytes of increments that are kept: in large clusters an increment that changes the hierarchy has half a
/// megabyte. Then fewer than [`INCREMENTALS_MIN`] may be left.
const INCREMENTAL_BYTES_MAX: usize = 64 << 20;
/// Bytes of increments since the last full map beyond which a full map is kept as well.
const BYTES_PER_FULL: usize = INCREMENTAL_BYTES_MAX / 4;

/// The newest map, and the increments and some full maps before it, encoded as peers get them.
#[derive(Clone, PartialEq, Debug)]
pub struct OsdMaps {
    current: Arc<OsdMap>,
    current_full: Bytes,
    /// Increments, each leading to its epoch from the one before; without gaps behind the oldest full map.
    incrementals: BTreeMap<Epoch, Bytes>,
    /// The oldest kept map, and later ones now and then.
    fulls: BTreeMap<Epoch, Bytes>,
}

/// No map: an empty one of epoch 0, before a cluster begins.
impl Default for OsdMaps {
    fn default() -> OsdMaps {
        OsdMaps {
            current: Arc::new(OsdMap::new(Fsid::default())),
            current_full: Bytes::new(),
            incrementals: BTreeMap::new(),
            fulls: BTreeMap::new(),
        }
    }
}

impl OsdMaps {
    /// Begins with a full map, encoded.
    pub fn new(full: Bytes) -> Result<OsdMaps, DecodeError> {
        let current = OsdMap::from_slice(&full)?;
        let fulls = BTreeMap::from([(current.epoch, full.clone())]);
        Ok(OsdMaps { current: Arc::new(current), current_full: full, incrementals: BTreeMap::new(), fulls })
    }

    /// Begins with a map, whatever was before it: every peer is to get it in full.
    pub fn begin_anew(map: &OsdMap) -> OsdMaps {
        let (full, _) = map.encode_with_checksum(Target::PACIFIC);
        OsdMaps::new(full.into()).expect("it has just been encoded")
    }

    pub fn current(&self) -> &Arc<OsdMap> {
        &self.current
    }

    /// Returns the newest map, encoded.
    pub fn current_full(&self) -> Bytes {
        self.current_full.clone()
    }

    /// Returns the oldest epoch from which a peer can be brought up to date; its map is kept in full.
    pub fn oldest(&self) -> Epoch {
        self.fulls.keys().next().copied().unwrap_or_default()
    }

    /// Returns the map of [`OsdMaps::oldest`], encoded.
    pub fn oldest_full(&self) -> Bytes {
        self.fulls.values().next().cloned().unwrap_or_default()
    }

    pub fn incremental(&self, epoch: Epoch) -> Option<Bytes> {
        self.incrementals.get(&epoch).cloned()
    }

    /// Returns the increments from `epoch` on.
    pub fn incrementals_from(&self, epoch: Epoch) -> impl Iterator<Item = (Epoch, Bytes)> {
        self.incrementals.range(epoch..).map(|(epoch, bytes)| (*epoch, bytes.clone()))
    }

    /// Returns the map of an epoch in full, encoded; `None` if it is not kept or is yet to come.
    pub fn full(&self, epoch: Epoch) -> Option<Bytes> {
        if epoch == self.current.epoch {
            return Some(self.current_full());
        }
        if epoch > self.current.epoch {
            return None;
        }
        let (from, full) = self.fulls.range(..=epoch).next_back()?;
        if *from == epoch {
            return Some(full.clone());
        }
        let mut map = OsdMap::from_slice(full).expect("a map that was kept decodes");
        for (_, bytes) in self.incrementals.range(from.next()..=epoch) {
            let incremental = Incremental::from_slice(bytes).expect("an increment that was kept decodes");
            map.apply(&incremental).expect("an increment that was applied applies");
        }
        Some(map.to_vec(Target::PACIFIC).into())
    }

    /// Goes to the next epoch. Panics if `bytes` is not an increment that leads there: that was checked when it was
    /// made.
    pub(super) fn apply(&mut self, bytes: &Bytes) -> Incremental {
        let incremental = Incremental::from_slice(bytes).unwrap_or_else(|e| panic!("increment does not decode: {e}"));
        let expected = self.current.epoch.next();
        assert_eq!(incremental.epoch, expected, "increment for another epoch");
        let map = Arc::make_mut(&mut self.current);
        map.apply(&incremental).unwrap_or_else(|e| panic!("increment {expected} does not apply: {e}"));
        let (full, crc) = map.encode_with_checksum(Target::PACIFIC);
        assert_eq!(crc, incremental.full_crc, "increment {expected} leads to another map than when it was made");
        self.current_full = full.into();
        self.incrementals.insert(expected, bytes.clone());
        let last_full = self.fulls.keys().next_back().copied().unwrap_or_default();
        if expected.0.is_multiple_of(FULL_EVERY) || self.bytes_behind(last_full) > BYTES_PER_FULL {
            self.fulls.insert(expected, self.current_full.clone());
        }
        if self.incrementals.len() > INCREMENTALS_MAX {
            let keep_from = expected.0.saturating_sub(INCREMENTALS_MIN as u32);
            self.drop_before(Epoch(keep_from));
        }
        if self.bytes_behind(self.oldest()) > INCREMENTAL_BYTES_MAX {
            let is_little = |full: &&Epoch| self.bytes_behind(**full) <= INCREMENTAL_BYTES_MAX;
            let keep_from = self.fulls.keys().find(is_little).copied().unwrap_or_default();
            self.drop_before(keep_from);
        }
        incremental
    }

    /// Returns the bytes of all kept maps and increments.
    pub fn bytes(&self) -> usize {
        let fulls: usize = self.fulls.values().map(Bytes::len).sum();
        self.current_full.len() + fulls + self.bytes_behind(Epoch(0))
    }

    /// Returns the bytes of the increments behind an epoch.
    fn bytes_behind(&self, epoch: Epoch) -> usize {
        self.incrementals.range(epoch.next()..).map(|(_, bytes)| bytes.len()).sum()
    }

    /// Drops the oldest increments, up to a full map that is no newer than `keep_from`, from which the others lead on.
    fn drop_before(&mut self, keep_from: Epoch) {
        let Some((first, _)) = self.fulls.range(..=keep_from).next_back() else { return };
        let first = *first;
        self.fulls = self.fulls.split_off(&first);
        self.incrementals = self.incrementals.split_off(&first.next());
    }
}

impl Encode for OsdMaps {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.current_full);
            w.put(&self.incrementals);
            w.put(&self.fulls);
        });
    }
}

impl Decode for OsdMaps {
    const MIN_BYTES: usize = 18;

    fn decode(r: &mut Reader<'_>) -> Result<OsdMaps, DecodeError> {
        let (_, mut r) = r.versioned("OSD maps", 1)?;
        let current_full: Bytes = r.get()?;
        let current = match current_full.is_empty() {
            true => OsdMap::new(Fsid::default()),
            false => OsdMap::from_slice(&current_full)?,
        };
        Ok(OsdMaps { current: Arc::new(current), current_full, incrementals: r.get()?, fulls: r.get()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osdmap::PgPool;
    use types::PoolId;

    /// Increments of some megabytes each, as changes of a large hierarchy are.
    #[test]
    fn large_increments_are_kept_by_their_bytes() {
        let mut first = OsdMap::new(Fsid([1; 16]));
        first.epoch = Epoch(1);
        let mut maps = OsdMaps::begin_anew(&first);
        for nth in 0..40 {
            let mut incremental = Incremental::after(maps.current(), types::Utime::ZERO);
            incremental.new_pools.insert(PoolId(1), PgPool::replicated(3, 8, 0));
            incremental.new_pool_names.insert(PoolId(1), "x".repeat((4 << 20) + nth));
            let mut next = OsdMap::clone(maps.current());
            next.apply(&incremental).unwrap();
            incremental.full_crc = next.checksum(Target::PACIFIC);
            maps.apply(&incremental.to_vec(Target::PACIFIC).into());
        }
        assert_eq!(maps.current().epoch, Epoch(41));
        let kept: usize = maps.incrementals.values().map(Bytes::len).sum();
        assert!(kept <= INCREMENTAL_BYTES_MAX && kept > INCREMENTAL_BYTES_MAX / 2, "{kept}");
        // The increments lead on from the oldest map without gaps.
        let oldest = maps.oldest();
        assert!(oldest > Epoch(20) && maps.fulls.len() <= 6, "{oldest}, {} full maps", maps.fulls.len());
        let epochs: Vec<Epoch> = maps.incrementals_from(Epoch(0)).map(|(epoch, _)| epoch).collect();
        assert_eq!(epochs, (oldest.0 + 1..=41).map(Epoch).collect::<Vec<_>>());
        for epoch in oldest.0..=41 {
            let full = maps.full(Epoch(epoch)).expect("it is kept");
            assert_eq!(OsdMap::from_slice(&full).unwrap().epoch, Epoch(epoch));
        }
        assert_eq!(maps.full(Epoch(oldest.0 - 1)), None);
    }
}
