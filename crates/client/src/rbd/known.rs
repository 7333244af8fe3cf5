//! The object map, as long as the lock is held: what is stored is never less than what exists.
//!
//! It is written before an object is. So it proves that an object is not there, and never that one is: what came after the note may
//! have failed, be under way still, or have died with its client.

use super::header::State;
use super::image::{Inner, is_final, locked};
use super::object_map::{ObjectMap, state};
use super::spec::{input, lock_input};
use super::{flag, map_object};
use crate::error::Error;
use crate::operation::Operation;
use std::collections::BTreeMap;
use std::sync::Mutex;
use tokio::sync::MutexGuard;
use types::Errno;

/// Changes of one object's state take turns; objects share turns, by their numbers.
const TURNS: usize = 64;

/// What is known of which objects exist.
pub(super) struct Known {
    map: Mutex<Option<Loaded>>,
    turns: [tokio::sync::Mutex<()>; TURNS],
    traffic: Mutex<Traffic>,
}

/// What is under way, by object.
#[derive(Default)]
struct Traffic {
    writes: BTreeMap<u64, usize>,
    /// Removals, and whether a write was under way at any time meanwhile.
    removals: BTreeMap<u64, bool>,
}

/// A write of an object is under way, until it is answered.
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

/// An object is being removed, in its turn.
pub(super) struct Removing<'a> {
    known: &'a Known,
    object: u64,
}

impl Removing<'_> {
    /// The state of the object afterwards. A write that was asked for before the removal may come later than it: the cluster
    /// holds writes back where a pool is full, and lets removals pass.
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
    /// It says what exists. Otherwise it is kept up, but believed by nobody.
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

    /// Whether it is sure that an object does not exist.
    pub fn is_absent(&self, object: u64) -> bool {
        let map = locked(&self.map);
        map.as_ref().is_some_and(|known| known.valid && known.map.get(object) == Some(state::NONEXISTENT))
    }

    /// Whether an object is known not to have been written since the newest snapshot.
    pub fn is_clean(&self, object: u64) -> bool {
        self.state_of(object) == Some(state::EXISTS_CLEAN)
    }

    /// Whether it is noted that an object may exist.
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

    /// To be called in the object's turn, before it is noted that the object is about to be removed: a write that begins later finds
    /// that note.
    pub fn begin_removal(&self, object: u64) -> Removing<'_> {
        let mut traffic = locked(&self.traffic);
        let met = traffic.writes.contains_key(&object);
        traffic.removals.insert(object, met);
        Removing { known: self, object }
    }

    /// The leave to change whether an object exists; `None` without a map.
    pub async fn turn(&self, object: u64) -> MutexGuard<'_, ()> {
        self.turns[(object % TURNS as u64) as usize].lock().await
    }

    /// Changes what is known of all objects, after it was changed in what is stored.
    pub fn change(&self, change: impl FnOnce(&mut ObjectMap)) {
        if let Some(loaded) = locked(&self.map).as_mut() {
            change(&mut loaded.map);
        }
    }

    /// Whether there is a map.
    pub fn is_loaded(&self) -> bool {
        locked(&self.map).is_some()
    }
}

/// The guard of each update of the image's own map: this client holds its lock.
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
    /// Takes the lock of the map, whoever had it, and loads the map. The image's lock is held.
    pub async fn load_map(&self, now: &State) -> Result<(), Error> {
        let name = map_object(&self.fixed.id, None);
        loop {
            let lock = Operation::new().call_write("lock", "lock", lock_input::lock(b"", ""));
            match self.change(&self.pool, name.clone(), lock).await {
                Ok(_) | Err(Error::Errno(Errno::EEXIST)) => break,
                Err(Error::Errno(Errno::EBUSY)) => {}
                Err(error) => return Err(error),
            }
            // A former owner of the image's lock, which has been shut out.
            let info = Operation::new().call("lock", "get_info", lock_input::get_info());
            let info: super::spec::LockInfo = self.pool.operate(name.clone(), info).await?.decode(0)?;
            for owner in &info.lockers {
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
                // Damaged, or from before the image grew: it is not believed until somebody rebuilds it.
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

    /// Gives the map's lock up. Nothing is under way.
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

    /// To be called before an object is written: notes that it exists. As long as what it gives is kept, which is to be until the
    /// write is answered, nobody notes the contrary.
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

    /// Changes an object's state in what is stored, then in what is known; in its turn. `expected`: only from this state.
    pub async fn note(&self, object: u64, wanted: u8, expected: Option<u8>) -> Result<(), Error> {
        match self.known.state_of(object) {
            None => return Ok(()),
            Some(now) if now == wanted || expected.is_some_and(|expected| expected != now) => return Ok(()),
            Some(_) => {}
        }
        let operation = map_locked().call_write("rbd", "object_map_update", update_input(object, wanted, expected));
        match self.change(&self.pool, map_object(&self.fixed.id, None), operation).await {
            Ok(_) => self.known.set(object, wanted),
            // Its lock has been broken, so the image's has been as well.
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

    /// From now on nobody believes the map.
    pub async fn distrust_map(&self) -> Result<(), Error> {
        self.invalidate_map(None, true).await?;
        self.known.distrust();
        Ok(())
    }
}
