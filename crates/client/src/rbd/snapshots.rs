//! Snapshots of an image: made, removed, protected, gone back to.

use super::header::{Snapshot, State, ask};
use super::image::{Image, Inner};
use super::known::map_locked;
use super::object_map::{ObjectMap, state};
use super::parent_link;
use super::spec::{ParentSpec, SnapshotKind, input, put_user_namespace};
use super::{CHILDREN, feature, flag, map_object};
use crate::error::Error;
use crate::operation::Operation;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::RwLockWriteGuard;
use types::{Errno, SnapId};

/// States of a snapshot's protection.
pub(super) const UNPROTECTED: u8 = 0;
const UNPROTECTING: u8 = 1;
const PROTECTED: u8 = 2;

/// "Stale handle": somebody else took a snapshot meanwhile.
const ESTALE: Errno = Errno(116);

impl Image {
    /// Takes a snapshot. Updates that are under way are waited for, others wait.
    /// Errors: `EEXIST`, `EINVAL` for an empty name, `EDQUOT` where the image's limit is reached.
    pub async fn create_snapshot(&self, name: &str) -> Result<(), Error> {
        let inner = &self.inner;
        if name.is_empty() {
            return Err(Errno::EINVAL.into());
        }
        let (_turn, now) = inner.exclusive_turn().await?;
        if now.snapshot(name).is_ok() {
            return Err(Errno::EEXIST.into());
        }
        let id = loop {
            let id = inner.data.create_managed_snapshot().await?;
            let fields = input(|w| {
                w.str(name);
                w.u64(id.0);
                put_user_namespace(w);
            });
            match inner.tell_header(&now, "snapshot_add", fields).await {
                Ok(()) => break id,
                Err(error) => {
                    inner.data.remove_managed_snapshot(id).await?;
                    if error.errno() != ESTALE {
                        return Err(error);
                    }
                }
            }
        };
        inner.keep_map(&now, id).await?;
        inner.refresh().await?;
        inner.header_changed().await
    }

    /// Removes a snapshot. One with clones (of the format that needs no protection) goes when the last of them does.
    /// Errors: `ENOENT`, `EBUSY` if it is protected.
    pub async fn remove_snapshot(&self, name: &str) -> Result<(), Error> {
        let inner = &self.inner;
        let (_turn, now) = inner.exclusive_turn().await?;
        let snapshot = now.snapshot(name)?.clone();
        if snapshot.is_protected {
            return Err(Errno::EBUSY.into());
        }
        if snapshot.child_count > 0 {
            inner.tell_header(&now, "snapshot_trash_add", input(|w| w.u64(snapshot.id.0))).await?;
            return inner.header_changed().await;
        }
        inner.drop_snapshot(&now, &snapshot).await
    }

    /// Removes a snapshot that is in the trash, if no clone shows it any more.
    pub(super) async fn remove_trashed_snapshot(&self, id: SnapId) -> Result<(), Error> {
        let (_turn, now) = self.inner.exclusive_turn().await?;
        let unused = |snapshot: &&Snapshot| {
            snapshot.id == id && snapshot.kind == SnapshotKind::Trash && snapshot.child_count == 0
        };
        match now.snapshots.iter().find(unused).cloned() {
            Some(snapshot) => self.inner.drop_snapshot(&now, &snapshot).await,
            None => Ok(()),
        }
    }

    /// Keeps a snapshot from being removed; clones of the old format need that. Errors: `ENOENT`, `EBUSY` if it is already.
    pub async fn protect_snapshot(&self, name: &str) -> Result<(), Error> {
        let inner = &self.inner;
        let (_turn, now) = inner.exclusive_turn().await?;
        let snapshot = now.snapshot(name)?;
        if snapshot.is_protected {
            return Err(Errno::EBUSY.into());
        }
        inner.set_protection(&now, snapshot.id, PROTECTED).await?;
        inner.header_changed().await
    }

    /// Errors: `ENOENT`, `EINVAL` if it is not protected, `EBUSY` if it has clones of the old format, in any pool.
    pub async fn unprotect_snapshot(&self, name: &str) -> Result<(), Error> {
        let inner = &self.inner;
        let (_turn, now) = inner.exclusive_turn().await?;
        let snapshot = now.snapshot(name)?;
        if !snapshot.is_protected {
            return Err(Errno::EINVAL.into());
        }
        // First, so that nobody clones it while its clones are looked for.
        inner.set_protection(&now, snapshot.id, UNPROTECTING).await?;
        let has_clones = inner.has_old_clones(snapshot.id).await;
        let then = if matches!(has_clones, Ok(false)) { UNPROTECTED } else { PROTECTED };
        inner.set_protection(&now, snapshot.id, then).await?;
        inner.header_changed().await?;
        if has_clones? { Err(Errno::EBUSY.into()) } else { Ok(()) }
    }

    /// Makes the image what it was in a snapshot. Errors: `ENOENT`; `EOPNOTSUPP` where the snapshot shows more of a parent than
    /// the image still does.
    pub async fn roll_back(&self, name: &str) -> Result<(), Error> {
        let inner = &self.inner;
        let (_turn, now) = inner.exclusive_turn().await?;
        let snapshot = now.snapshot(name)?.clone();
        if snapshot.parent_overlap.unwrap_or(0) > now.overlap() {
            return Err(Error::Unsupported("rolling back to a snapshot that shows more of its parent than the image"));
        }
        let now = inner.resize_to(&now, snapshot.size_bytes).await?;
        let objects = inner.fixed.layout.object_count(snapshot.size_bytes);
        let then = inner.map_to_roll_back_to(&now, &snapshot).await?;
        if let Some(then) = &then {
            // Meanwhile an object may be as it was or as it is.
            let mut either = then.clone();
            let differs =
                |object: &u64| then.get(*object) != Some(state::EXISTS_CLEAN) && !inner.known.is_absent(*object);
            (0..objects).filter(differs).for_each(|object| either.set(object, state::EXISTS));
            inner.save_map(either).await?;
        }
        let work = |inner: Arc<Inner>, now: Arc<State>, object: u64| async move {
            match inner.update_object(&now, object, Operation::new().roll_back(snapshot.id)).await {
                Err(Error::Errno(Errno::ENOENT)) => Ok(()),
                done => done,
            }
        };
        inner.for_objects(&now, 0..objects, work).await?;
        if let Some(then) = then {
            inner.save_map(then).await?;
        }
        inner.refresh().await?;
        inner.header_changed().await
    }
}

impl Inner {
    /// Leave to change the header: the lock is held, where the image has one, and no update is under way until the guard goes.
    pub async fn exclusive_turn(self: &Arc<Inner>) -> Result<(RwLockWriteGuard<'_, ()>, Arc<State>), Error> {
        self.must_be_writable()?;
        loop {
            let state = self.fresh().await?;
            let turn = self.gate.write().await;
            if !state.has(feature::EXCLUSIVE_LOCK) || self.lock.is_held()? {
                return Ok((turn, self.fresh().await?));
            }
            drop(turn);
            self.acquire_lock().await?;
        }
    }

    /// Changes the header, provided that the lock is held where the image has one.
    pub async fn tell_header(&self, now: &State, method: &str, fields: Vec<u8>) -> Result<(), Error> {
        let guard = if now.has(feature::EXCLUSIVE_LOCK) { self.header_locked() } else { Operation::new() };
        self.pool.operate(self.header.clone(), guard.call_write("rbd", method, fields)).await.map(drop)
    }

    async fn set_protection(&self, now: &State, snap: SnapId, status: u8) -> Result<(), Error> {
        let fields = input(|w| {
            w.u64(snap.0);
            w.u8(status);
        });
        self.tell_header(now, "set_protection_status", fields).await
    }

    /// Whether some pool has clones of the old format.
    async fn has_old_clones(&self, snap: SnapId) -> Result<bool, Error> {
        let cluster = self.pool.cluster();
        for (name, _) in cluster.pools().await? {
            let fields = parent_link::old_key(self.pool.id(), &self.fixed.id, snap);
            match ask::<BTreeSet<Bytes>>(&cluster.pool(&name).await?, CHILDREN, "get_children", fields).await {
                Ok(children) if !children.is_empty() => return Ok(true),
                // An erasure-coded pool has no images.
                Ok(_) | Err(Error::Errno(Errno::ENOENT | Errno::EOPNOTSUPP)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Keeps the object map for a snapshot that was just taken.
    async fn keep_map(&self, now: &State, snap: SnapId) -> Result<(), Error> {
        if !self.known.is_loaded() {
            return Ok(());
        }
        let (own, kept) = (map_object(&self.fixed.id, None), map_object(&self.fixed.id, Some(snap.0)));
        let copy = async {
            let map = self.pool.read(own.clone(), 0, 0).await?;
            self.pool.write_full(kept, map).await?;
            if now.has(feature::FAST_DIFF) {
                self.pool.operate(own, map_locked().call_write("rbd", "object_map_snap_add", [])).await?;
                self.known.change(|map| map.replace(state::EXISTS, state::EXISTS_CLEAN));
            }
            Ok(())
        };
        match copy.await {
            Ok(()) => Ok(()),
            Err(error @ (Error::Errno(Errno::EBLOCKLISTED) | Error::Closed | Error::TimedOut { .. })) => Err(error),
            Err(error) => {
                tracing::warn!(image = self.fixed.name, %error, "object map of a snapshot cannot be kept");
                self.invalidate_map(Some(snap.0), false).await?;
                self.distrust_map().await
            }
        }
    }

    async fn load_kept_map(&self, snapshot: &Snapshot) -> Result<ObjectMap, Error> {
        if snapshot.flags & flag::OBJECT_MAP_INVALID != 0 {
            return Err(Errno::EINVAL.into());
        }
        let load = Operation::new().call("rbd", "object_map_load", []);
        self.pool.operate(map_object(&self.fixed.id, Some(snapshot.id.0)), load).await?.decode(0)
    }

    /// Removes a snapshot for good, with its object map.
    async fn drop_snapshot(&self, now: &State, snapshot: &Snapshot) -> Result<(), Error> {
        let SnapId(id) = snapshot.id;
        if now.has(feature::OBJECT_MAP) {
            self.drop_kept_map(now, snapshot).await?;
        }
        let parent: ParentSpec = ask(&self.pool, &self.header, "parent_get", Vec::new()).await?;
        let shows_parent = |other: &Snapshot| other.id != snapshot.id && other.parent_overlap.is_some();
        let was_last =
            snapshot.parent_overlap.is_some() && now.overlap() == 0 && !now.snapshots.iter().any(shows_parent);
        if was_last && parent.exists() {
            parent_link::detach(self, &parent).await?;
        }
        self.tell_header(now, "snapshot_remove", input(|w| w.u64(id))).await?;
        self.data.remove_managed_snapshot(snapshot.id).await?;
        self.refresh().await?;
        self.header_changed().await
    }

    /// What was written between the snapshot before and this one counts, from now on, as written before the next one.
    async fn drop_kept_map(&self, now: &State, snapshot: &Snapshot) -> Result<(), Error> {
        let SnapId(id) = snapshot.id;
        if now.has(feature::FAST_DIFF) {
            let next = now.snapshots.iter().find(|other| other.id > snapshot.id).map(|other| other.id.0);
            let pass_on = async {
                let gone = self.load_kept_map(snapshot).await?;
                let fields = input(|w| w.put(&gone));
                let guard = if next.is_none() { map_locked() } else { Operation::new() };
                let operation = guard.call_write("rbd", "object_map_snap_remove", fields);
                self.pool.operate(map_object(&self.fixed.id, next), operation).await?;
                Ok::<ObjectMap, Error>(gone)
            };
            match pass_on.await {
                Ok(gone) if next.is_none() => self.known.change(|map| {
                    let was_written = |object| gone.get(object).is_none_or(|was| was == state::EXISTS);
                    let clean = |map: &ObjectMap, object| map.get(object) == Some(state::EXISTS_CLEAN);
                    for object in 0..map.len() {
                        if clean(map, object) && was_written(object) {
                            map.set(object, state::EXISTS);
                        }
                    }
                }),
                Ok(_) => {}
                Err(error @ (Error::Errno(Errno::EBLOCKLISTED) | Error::Closed | Error::TimedOut { .. })) => {
                    return Err(error);
                }
                Err(error) => {
                    tracing::warn!(image = self.fixed.name, %error, "object map of a snapshot cannot be passed on");
                    match next {
                        Some(next) => self.invalidate_map(Some(next), false).await?,
                        None => self.distrust_map().await?,
                    }
                }
            }
        }
        match self.pool.remove(map_object(&self.fixed.id, Some(id))).await {
            Ok(()) | Err(Error::Errno(Errno::ENOENT)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What the image's object map is once it has been rolled back; `None` where it has none that is believed.
    async fn map_to_roll_back_to(&self, now: &State, snapshot: &Snapshot) -> Result<Option<ObjectMap>, Error> {
        if !self.known.is_loaded() {
            return Ok(None);
        }
        let work_out = async {
            let mut map = self.load_kept_map(snapshot).await?;
            let objects = self.fixed.layout.object_count(now.size);
            map.resize(objects);
            // What was not written since the snapshot stays as it is. All else may differ from what the newest one shows.
            let mut unchanged: Vec<bool> = (0..objects).map(|object| self.known.is_clean(object)).collect();
            for later in now.snapshots.iter().filter(|later| later.id > snapshot.id) {
                let later = self.load_kept_map(later).await?;
                let is_clean = |object: usize| later.get(object as u64) == Some(state::EXISTS_CLEAN);
                unchanged.iter_mut().enumerate().for_each(|(object, unchanged)| *unchanged &= is_clean(object));
            }
            for (object, unchanged) in unchanged.into_iter().enumerate() {
                if map.get(object as u64) != Some(state::NONEXISTENT) {
                    map.set(object as u64, if unchanged { state::EXISTS_CLEAN } else { state::EXISTS });
                }
            }
            Ok(map)
        };
        match work_out.await {
            Ok(map) => Ok(Some(map)),
            Err(error @ (Error::Errno(Errno::EBLOCKLISTED) | Error::Closed | Error::TimedOut { .. })) => Err(error),
            Err(_) => {
                self.distrust_map().await?;
                Ok(None)
            }
        }
    }

    /// Stores the map as a whole.
    async fn save_map(&self, map: ObjectMap) -> Result<(), Error> {
        let fields = input(|w| w.put(&map));
        let operation = map_locked().call_write("rbd", "object_map_save", fields);
        self.pool.operate(map_object(&self.fixed.id, None), operation).await?;
        self.known.change(|known| *known = map);
        Ok(())
    }
}
