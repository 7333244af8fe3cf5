//! The object map, while the lock is held. The stored map never shows fewer objects than exist.
//!
//! The map is written before an object is. A note thus proves that an object is absent, never that one exists: the
//! write after the note may have failed, may still be in flight, or may have been lost with its client.

use super::header::ImageState;
use super::image::{Inner, is_final, locked};
use super::spec::{input, lock_input};
use super::{flag, map_object};
use crate::error::Error;
use crate::operation::Operation;
use std::collections::BTreeMap;
use std::sync::Mutex;
use tokio::sync::MutexGuard;
use types::Errno;
use wire::lock::LockInfo;
use wire::rbd::object_map::{ObjectMap, state};

/// Number of turns. Changes of an object's state take its turn; objects share turns by their numbers.
const TURNS: usize = 64;

/// Knowledge of which objects exist.
pub(super) struct Known {
    map: Mutex<Option<Loaded>>,
    turns: [tokio::sync::Mutex<()>; TURNS],
    traffic: Mutex<Traffic>,
}

/// Updates in flight, by object.
#[derive(Default)]
struct Traffic {
    writes: BTreeMap<u64, usize>,
    /// Removals; true if a write was in flight at any time during the removal.
    removals: BTreeMap<u64, bool>,
}

/// A write of an object in flight; dropped when it is answered.
pub(super) struct Writing<'a> {
    known: &'a Known,
    object: u64,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let writes = &mut locked(&self.known.traffic).writes;
        let count = writes.get_mut(&self.object).expect("counted when it began");
        *count -= 1;
        if *count == 0 {
            writes.remove(&self.object);
        }
    }
}

/// A removal of an object, in the object's turn.
pub(super) struct Removing<'a> {
    known: &'a Known,
    object: u64,
}

impl Removing<'_> {
    /// The object's state after the removal. A write sent before the removal may arrive after it: the cluster holds
    /// writes back where a pool is full, and lets removals pass.
    pub fn state_after(&self) -> u8 {
        match locked(&self.known.traffic).removals.get(&self.object) {
            Some(false) => state::NONEXISTENT,
            _ => state::EXISTS,
        }
    }
}

impl Drop for Removing<'_> {
    fn drop(&mut self) {
        locked(&self.known.traffic).removals.remove(&self.object);
    }
}

struct Loaded {
    map: ObjectMap,
    /// The map is true. A map that is not is kept up, but not trusted.
    valid: bool,
}

impl Default for Known {
    fn default() -> Known {
        let turns = std::array::from_fn(|_| tokio::sync::Mutex::new(()));
        Known { map: Mutex::new(None), turns, traffic: Mutex::new(Traffic::default()) }
    }
}

impl Known {
    /// The state of an object, if there is a map.
    fn state_of(&self, object: u64) -> Option<u8> {
        locked(&self.map).as_ref().map(|loaded| loaded.map.get(object).unwrap_or(state::NONEXISTENT))
    }

    fn set(&self, object: u64, value: u8) {
        if let Some(loaded) = locked(&self.map).as_mut() {
            loaded.map.set(object, value);
        }
    }

    fn distrust(&self) {
        if let Some(loaded) = locked(&self.map).as_mut() {
            loaded.valid = false;
        }
    }

    /// True if an object certainly does not exist.
    pub fn is_absent(&self, object: u64) -> bool {
        let map = locked(&self.map);
        map.as_ref().is_some_and(|known| known.valid && known.map.get(object) == Some(state::NONEXISTENT))
    }

    /// True if an object is known not to have been written since the newest snapshot.
    pub fn is_clean(&self, object: u64) -> bool {
        self.state_of(object) == Some(state::EXISTS_CLEAN)
    }

    /// True if the map notes that an object may exist.
    pub fn is_noted(&self, object: u64) -> bool {
        matches!(self.state_of(object), Some(state::EXISTS | state::EXISTS_CLEAN))
    }

    fn begin_write(&self, object: u64) -> Writing<'_> {
        let mut traffic = locked(&self.traffic);
        *traffic.writes.entry(object).or_default() += 1;
        if let Some(met) = traffic.removals.get_mut(&object) {
            *met = true;
        }
        Writing { known: self, object }
    }

    /// Begins a removal. The caller holds the object's turn, and has not yet noted that the object is about to be
    /// removed: a write that begins later finds that note.
    pub fn begin_removal(&self, object: u64) -> Removing<'_> {
        let mut traffic = locked(&self.traffic);
        let met = traffic.writes.contains_key(&object);
        traffic.removals.insert(object, met);
        Removing { known: self, object }
    }

    /// Waits for the object's turn, in which its state in the map may be changed.
    pub async fn turn(&self, object: u64) -> MutexGuard<'_, ()> {
        self.turns[(object % TURNS as u64) as usize].lock().await
    }

    /// Changes the map in memory, after the stored map was changed.
    pub fn change(&self, change: impl FnOnce(&mut ObjectMap)) {
        if let Some(loaded) = locked(&self.map).as_mut() {
            change(&mut loaded.map);
        }
    }

    /// True if there is a map.
    pub fn is_loaded(&self) -> bool {
        locked(&self.map).is_some()
    }
}

/// The guard of each update of the image's own map: it fails unless this client holds the map's lock.
pub(super) fn map_locked() -> Operation {
    Operation::new().call("lock", "assert_locked", lock_input::assert_locked(b"", ""))
}

pub(super) fn update_input(object: u64, wanted: u8, expected: Option<u8>) -> Vec<u8> {
    input(|w| {
        w.u64(object);
        w.u64(object + 1);
        w.u8(wanted);
        w.put(&expected);
    })
}

impl Inner {
    /// Takes the map's lock, from a former owner if need be, and loads the map. The image's lock is held.
    pub async fn load_map(&self, now: &ImageState) -> Result<(), Error> {
        let name = map_object(&self.fixed.id, None);
        loop {
            let lock = Operation::new().call_write("lock", "lock", lock_input::lock(b"", ""));
            match self.change(&self.pool, name.clone(), lock).await {
                Ok(_) | Err(Error::Errno(Errno::EEXIST)) => break,
                Err(Error::Errno(Errno::EBUSY)) => {}
                Err(error) => return Err(error),
            }
            // The lock belongs to a former owner of the image's lock, which has been blocklisted.
            let info = Operation::new().call("lock", "get_info", lock_input::get_info());
            let info: LockInfo = self.pool.operate(name.clone(), info).await?.decode(0)?;
            for owner in info.lockers.keys() {
                let operation = Operation::new().call_write("lock", "break_lock", lock_input::break_lock(owner));
                match self.pool.operate(name.clone(), operation).await {
                    Ok(_) | Err(Error::Errno(Errno::ENOENT)) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        let objects = self.fixed.layout.object_count(now.size);
        let load = Operation::new().call("rbd", "object_map_load", []);
        let loaded = match self.pool.operate(name, load).await {
            Ok(outcome) => outcome.decode::<ObjectMap>(0),
            Err(error) => Err(error),
        };
        let mut valid = now.flags & flag::OBJECT_MAP_INVALID == 0;
        let map = match loaded {
            Ok(map) if map.len() >= objects => map,
            Ok(_) | Err(Error::Answer(_) | Error::Errno(Errno::EINVAL | Errno::EIO | Errno::ENOENT)) => {
                // The map is damaged, or older than a resize: it is not trusted until it is rebuilt.
                if valid {
                    self.invalidate_map(None, true).await?;
                }
                valid = false;
                ObjectMap::new(objects)
            }
            Err(error) => return Err(error),
        };
        *locked(&self.known.map) = Some(Loaded { map, valid });
        Ok(())
    }

    /// Gives the map's lock up. No update is in flight.
    pub async fn unload_map(&self) -> Result<(), Error> {
        if locked(&self.known.map).take().is_none() {
            return Ok(());
        }
        let operation = Operation::new().call_write("lock", "unlock", lock_input::unlock(b""));
        match self.change(&self.pool, map_object(&self.fixed.id, None), operation).await {
            Ok(_) | Err(Error::Errno(Errno::ENOENT)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Notes that an object exists, before it is written. The caller keeps the returned guard until the write is
    /// answered; until then no removal notes that the object is gone.
    pub async fn note_written(&self, object: u64) -> Result<Writing<'_>, Error> {
        let writing = self.known.begin_write(object);
        match self.known.state_of(object) {
            None | Some(state::EXISTS) => return Ok(writing),
            Some(_) => {}
        }
        let _turn = self.known.turn(object).await;
        self.note(object, state::EXISTS, None).await?;
        Ok(writing)
    }

    /// Changes an object's state in the stored map, then in memory. The caller holds the object's turn. `expected`: the
    /// only state from which it is changed.
    pub async fn note(&self, object: u64, wanted: u8, expected: Option<u8>) -> Result<(), Error> {
        match self.known.state_of(object) {
            None => return Ok(()),
            Some(now) if now == wanted || expected.is_some_and(|expected| expected != now) => return Ok(()),
            Some(_) => {}
        }
        let operation = map_locked().call_write("rbd", "object_map_update", update_input(object, wanted, expected));
        match self.change(&self.pool, map_object(&self.fixed.id, None), operation).await {
            Ok(_) => self.known.set(object, wanted),
            // The map's lock was broken, so the image's lock was broken as well.
            Err(Error::Errno(Errno::EBUSY)) => {
                self.lock.lose();
                return Err(Errno::EBLOCKLISTED.into());
            }
            Err(error) if is_final(&error) => return Err(error),
            Err(error) => {
                tracing::warn!(image = self.fixed.name, %error, "object map cannot be kept up");
                self.distrust_map().await?;
                self.known.set(object, wanted);
            }
        }
        Ok(())
    }

    /// Marks the map invalid, in the header and in memory.
    pub async fn distrust_map(&self) -> Result<(), Error> {
        self.invalidate_map(None, true).await?;
        self.known.distrust();
        Ok(())
    }
}
