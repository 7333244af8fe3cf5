//! The OSD maps a shard has seen: the one in force, those that come next, and recent changes to hand on to clients that
//! are behind.

use bytes::Bytes;
use mutant::Mutant;
use osdmap::{Incremental, OsdMap};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use types::{Epoch, Fsid};
use wire::messages;
use wire::nacre::mon::osd_features;
use wire::{Decode, DecodeError, Encode, Target};

/// Changes kept for clients, and their bytes: in a large cluster one change may name thousands of OSDs.
const KEPT_CHANGES: usize = 500;
const KEPT_BYTES: usize = 8 << 20;
/// Changes in one message to a client.
const CHANGES_PER_MESSAGE: u32 = 40;

/// Why a message of maps is not taken.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    #[error("a map of another cluster: {theirs}, ours is {ours}")]
    OtherCluster { theirs: Fsid, ours: Fsid },
    #[error("map of epoch {epoch} cannot be read")]
    Decode { epoch: u32, source: DecodeError },
    #[error("change to epoch {epoch} does not apply")]
    Apply { epoch: u32, source: osdmap::ApplyError },
}

/// Maps in the order in which they come into force.
pub(crate) struct Maps {
    current: Arc<OsdMap>,
    /// By the map in force, all OSDs understand updates that skip shards.
    may_skip_shards: bool,
    /// Maps that have come and are not in force yet, in order.
    coming: VecDeque<Coming>,
    /// The last changes that are in force, without gaps.
    changes: BTreeMap<Epoch, Bytes>,
    changes_bytes: usize,
    /// The map in force as one piece, made when a client first needs it.
    full: Option<Bytes>,
}

/// A map that is not in force yet.
struct Coming {
    epoch: Epoch,
    /// Set for the next map and the newest one; others are made again when they are needed, since maps are large.
    map: Option<Arc<OsdMap>>,
    sent: SentMap,
    skipped_since: Option<Epoch>,
}

/// Form in which a map was sent.
enum SentMap {
    Change(Bytes),
    Whole(Bytes),
}

impl SentMap {
    /// Returns the map itself, `before` being the one before it.
    fn made(&self, epoch: Epoch, before: &OsdMap) -> Result<OsdMap, MapError> {
        let unreadable = |source| MapError::Decode { epoch: epoch.0, source };
        match self {
            SentMap::Whole(blob) => OsdMap::from_slice(blob).map_err(unreadable),
            SentMap::Change(blob) => {
                let change = Incremental::from_slice(blob).map_err(unreadable)?;
                let mut map = before.clone();
                map.apply(&change).map_err(|source| MapError::Apply { epoch: epoch.0, source })?;
                Ok(map)
            }
        }
    }
}

/// A map that has come into force.
pub(crate) struct Advance {
    /// The map that was in force.
    pub before: Arc<OsdMap>,
    pub map: Arc<OsdMap>,
    /// The map in force before, if those in between were not seen: what changed meanwhile, and when, is unknown.
    pub skipped_since: Option<Epoch>,
}

impl Maps {
    pub fn new() -> Maps {
        Maps {
            current: Arc::new(OsdMap::new(Fsid::default())),
            may_skip_shards: false,
            coming: VecDeque::new(),
            changes: BTreeMap::new(),
            changes_bytes: 0,
            full: None,
        }
    }

    /// Returns the map in force.
    pub fn current(&self) -> &Arc<OsdMap> {
        &self.current
    }

    /// Returns true if updates may skip shards: all OSDs understand that.
    pub fn may_skip_shards(&self) -> bool {
        self.may_skip_shards || mutant::is(Mutant::SkipsUntold)
    }

    pub fn epoch(&self) -> Epoch {
        self.current.epoch
    }

    /// Returns the newest map, in force or not.
    fn newest(&self) -> &Arc<OsdMap> {
        self.coming.back().map_or(&self.current, |coming| coming.map.as_ref().expect("the newest one is kept"))
    }

    pub fn newest_epoch(&self) -> Epoch {
        self.newest().epoch
    }

    /// Returns the map that comes into force next.
    pub fn next(&mut self) -> Option<Arc<OsdMap>> {
        let Coming { epoch, map, sent, .. } = self.coming.front_mut()?;
        let map =
            map.get_or_insert_with(|| Arc::new(sent.made(*epoch, &self.current).expect("it was made when it came")));
        Some(map.clone())
    }

    /// Returns true if a map has come that is not in force yet.
    pub fn is_coming(&self) -> bool {
        !self.coming.is_empty()
    }

    /// Puts the next map into force.
    pub fn enter(&mut self) -> Option<Advance> {
        let map = self.next()?;
        let Coming { sent, skipped_since, .. } = self.coming.pop_front()?;
        let before = std::mem::replace(&mut self.current, map);
        self.may_skip_shards = self.current.all_osds_have(osd_features::SKIPPED_SHARDS);
        match sent {
            SentMap::Change(change) => {
                self.full = None;
                self.keep_change(self.current.epoch, change);
            }
            SentMap::Whole(whole) => {
                (self.changes, self.changes_bytes) = (BTreeMap::new(), 0);
                self.full = Some(whole);
            }
        }
        Some(Advance { before, map: self.current.clone(), skipped_since })
    }

    /// Forgets maps that have come: no map comes into force any more.
    pub fn forget_coming(&mut self) {
        self.coming.clear();
    }

    /// Takes the next maps out of a message; [`Maps::enter`] has them come into force. Returns whether there
    /// are more, which must be asked for: monitors send OSDs a bounded number at once.
    pub fn take(&mut self, message: &messages::OsdMap) -> Result<bool, MapError> {
        let ours = self.newest().fsid;
        if !ours.is_zero() && message.fsid != ours {
            return Err(MapError::OtherCluster { theirs: message.fsid, ours });
        }
        self.take_whole(message)?;
        while let Some(blob) = message.incrementals.get(&self.newest_epoch().next())
            && self.newest_epoch() > Epoch(0)
        {
            // A copy, lest the whole message stays in memory.
            self.comes(self.newest_epoch().next(), SentMap::Change(Bytes::copy_from_slice(blob)), None)?;
        }
        Ok(message.newest > self.newest_epoch())
    }

    /// Takes a whole map where changes do not lead on: the first of all; the very next, where the sender has it whole
    /// only; or a later one, if the sender has nothing between.
    fn take_whole(&mut self, message: &messages::OsdMap) -> Result<(), MapError> {
        let (now, next) = (self.newest_epoch(), self.newest_epoch().next());
        if now > Epoch(0) && message.incrementals.contains_key(&next) {
            return Ok(());
        }
        let is_gap = now == Epoch(0) || message.oldest > next;
        let whole = if is_gap { message.fulls.last_key_value() } else { message.fulls.get_key_value(&next) };
        let Some((&epoch, blob)) = whole.filter(|(epoch, _)| **epoch > now) else { return Ok(()) };
        let skipped_since = (now != Epoch(0) && epoch != next).then_some(now);
        self.comes(epoch, SentMap::Whole(blob.clone()), skipped_since)
    }

    /// Takes the map after the newest one.
    fn comes(&mut self, epoch: Epoch, sent: SentMap, skipped_since: Option<Epoch>) -> Result<(), MapError> {
        let map = Arc::new(sent.made(epoch, self.newest())?);
        if self.coming.len() > 1
            && let Some(newest) = self.coming.back_mut()
        {
            newest.map = None;
        }
        self.coming.push_back(Coming { epoch, map: Some(map), sent, skipped_since });
        Ok(())
    }

    fn keep_change(&mut self, epoch: Epoch, blob: Bytes) {
        self.changes_bytes += blob.len();
        self.changes.insert(epoch, blob);
        while self.changes.len() > KEPT_CHANGES || self.changes_bytes > KEPT_BYTES {
            let Some((_, oldest)) = self.changes.pop_first() else { break };
            self.changes_bytes -= oldest.len();
        }
    }

    /// Returns the maps that bring a client from map `since` nearer to the map in force; `None` if it has that.
    pub fn message_since(&mut self, since: Epoch) -> Option<messages::OsdMap> {
        if since >= self.epoch() {
            return None;
        }
        let mut message = messages::OsdMap {
            fsid: self.current.fsid,
            incrementals: BTreeMap::new(),
            fulls: BTreeMap::new(),
            oldest: Epoch(1),
            newest: self.epoch(),
            gap_removed_snaps: BTreeMap::new(),
        };
        if since != Epoch(0) && self.changes.contains_key(&since.next()) {
            let last = Epoch(since.0.saturating_add(CHANGES_PER_MESSAGE));
            let range = self.changes.range(since.next()..=last);
            message.incrementals = range.map(|(epoch, blob)| (*epoch, blob.clone())).collect();
        } else {
            let current = &self.current;
            let full = self.full.get_or_insert_with(|| current.to_vec(Target::default()).into());
            message.fulls.insert(current.epoch, full.clone());
        }
        Some(message)
    }
}
