//! The OSD map and how it came about.

use bytes::Bytes;
use osdmap::{Incremental, OsdMap};
use std::collections::BTreeMap;
use std::sync::Arc;
use types::{Epoch, Fsid};
use wire::{Decode, DecodeError, Encode, Reader, Target, Writer};

/// A full map is kept for every so many epochs, so that any kept epoch can be rebuilt from the one before it.
const FULL_EVERY: u32 = 250;
/// So many increments are kept at least; peers further behind start from a full map.
const INCREMENTALS_MIN: usize = 500;
/// Beyond so many, the oldest are dropped.
const INCREMENTALS_MAX: usize = INCREMENTALS_MIN + 2 * FULL_EVERY as usize;

/// The newest map, and the increments and some full maps before it, encoded as peers get them.
#[derive(Clone, PartialEq, Debug)]
pub struct OsdMaps {
    current: Arc<OsdMap>,
    current_full: Bytes,
    /// Each leads to its epoch from the one before. Those behind the oldest full map, without gaps.
    incrementals: BTreeMap<Epoch, Bytes>,
    /// The oldest kept map, and later ones now and then.
    fulls: BTreeMap<Epoch, Bytes>,
}

/// Before a cluster begins: an empty map of epoch 0.
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

    pub fn current(&self) -> &Arc<OsdMap> {
        &self.current
    }

    /// The newest map, encoded.
    pub fn current_full(&self) -> Bytes {
        self.current_full.clone()
    }

    /// The oldest epoch from which a peer can be brought up to date; its map is kept in full.
    pub fn oldest(&self) -> Epoch {
        self.fulls.keys().next().copied().unwrap_or_default()
    }

    /// The map of [`OsdMaps::oldest`], encoded.
    pub fn oldest_full(&self) -> Bytes {
        self.fulls.values().next().cloned().unwrap_or_default()
    }

    pub fn incremental(&self, epoch: Epoch) -> Option<Bytes> {
        self.incrementals.get(&epoch).cloned()
    }

    /// The increments from `epoch` on.
    pub fn incrementals_from(&self, epoch: Epoch) -> impl Iterator<Item = (Epoch, Bytes)> {
        self.incrementals.range(epoch..).map(|(epoch, bytes)| (*epoch, bytes.clone()))
    }

    /// The map of an epoch in full, encoded; `None` if it is not kept or is yet to come.
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
        if expected.0.is_multiple_of(FULL_EVERY) {
            self.fulls.insert(expected, self.current_full.clone());
        }
        if self.incrementals.len() > INCREMENTALS_MAX {
            self.prune();
        }
        incremental
    }

    /// Drops the oldest increments, up to a full map from which those that are left lead on.
    fn prune(&mut self) {
        let newest = self.current.epoch.0;
        let Some(keep_from) = newest.checked_sub(INCREMENTALS_MIN as u32).map(Epoch) else { return };
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
