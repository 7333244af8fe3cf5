//! The object map, as long as the lock is held: what is stored is never less than what exists.

use super::header::State;
use super::image::{Inner, locked};
use super::object_map::{ObjectMap, state};
use super::spec::{input, lock_input};
use super::{flag, map_object};
use crate::error::Error;
use crate::operation::Operation;
use std::sync::Mutex;
use tokio::sync::MutexGuard;
use types::Errno;

/// Changes of one object's state take turns; objects share turns, by their numbers.
const TURNS: usize = 64;

/// What is known of which objects exist.
pub(super) struct Known {
    map: Mutex<Option<Loaded>>,
    turns: [tokio::sync::Mutex<()>; TURNS],
}

struct Loaded {
    map: ObjectMap,
    /// It says what exists. Otherwise it is kept up, but believed by nobody.
    valid: bool,
}

impl Default for Known {
    fn default() -> Known {
        Known { map: Mutex::new(None), turns: std::array::from_fn(|_| tokio::sync::Mutex::new(())) }
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

    /// Whether it is sure that an object exists.
    pub fn is_present(&self, object: u64) -> bool {
        let map = locked(&self.map);
        let exists = |known: &Loaded| matches!(known.map.get(object), Some(state::EXISTS | state::EXISTS_CLEAN));
        map.as_ref().is_some_and(|known| known.valid && exists(known))
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
            match self.pool.operate(name.clone(), lock).await {
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
        match self.pool.operate(map_object(&self.fixed.id, None), operation).await {
            Ok(_) | Err(Error::Errno(Errno::ENOENT)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// To be called before an object is written: notes that it exists.
    pub async fn note_written(&self, object: u64) -> Result<(), Error> {
        match self.known.state_of(object) {
            None | Some(state::EXISTS) => return Ok(()),
            Some(_) => {}
        }
        let _turn = self.known.turn(object).await;
        self.note(object, state::EXISTS, None).await
    }

    /// Changes an object's state in what is stored, then in what is known; in its turn. `expected`: only from this state.
    pub async fn note(&self, object: u64, wanted: u8, expected: Option<u8>) -> Result<(), Error> {
        match self.known.state_of(object) {
            None => return Ok(()),
            Some(now) if now == wanted || expected.is_some_and(|expected| expected != now) => return Ok(()),
            Some(_) => {}
        }
        let operation = map_locked().call_write("rbd", "object_map_update", update_input(object, wanted, expected));
        match self.pool.operate(map_object(&self.fixed.id, None), operation).await {
            Ok(_) => self.known.set(object, wanted),
            // Its lock has been broken, so the image's has been as well.
            Err(Error::Errno(Errno::EBUSY)) => {
                self.lock.lose();
                return Err(Errno::EBLOCKLISTED.into());
            }
            Err(error @ (Error::Errno(Errno::EBLOCKLISTED) | Error::Closed | Error::TimedOut { .. })) => {
                return Err(error);
            }
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
