//! Snapshots of an image: taken, removed, protected, rolled back to.

use super::header::{ImageState, Snapshot, ask, snap_input};
use super::image::{Image, Inner, is_final};
use super::known::map_locked;
use super::opening::ESTALE;
use super::parent_link;
use super::spec::{SnapshotKind, input};
use super::{CHILDREN, NAMESPACES, feature, flag, map_object};
use crate::error::Error;
use crate::operation::Operation;
use crate::pool::Pool;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::Arc;
use types::{Errno, SnapId};
use wire::rbd::object_map::{ObjectMap, state};
use wire::rbd::{ParentSpec, SnapshotNamespace};

/// States of a snapshot's protection.
pub(super) const UNPROTECTED: u8 = 0;
const UNPROTECTING: u8 = 1;
const PROTECTED: u8 = 2;

impl Image {
    /// Takes a snapshot. It waits for updates in flight, and later updates wait for it. Errors: `EEXIST`, `EINVAL` for
    /// an empty name, `EDQUOT` where the image's limit is reached.
    pub async fn create_snapshot(&self, name: &str) -> Result<(), Error> {
        let (inner, name) = (self.inner.clone(), name.to_owned());
        self.inner.to_the_end(async move { inner.create_snapshot(&name).await }).await
    }

    /// Removes a snapshot. One with clones (of the format that needs no protection) is removed with the last of them.
    /// Errors: `ENOENT`, `EBUSY` if it is protected.
    pub async fn remove_snapshot(&self, name: &str) -> Result<(), Error> {
        let (inner, name) = (self.inner.clone(), name.to_owned());
        self.inner.to_the_end(async move { inner.remove_snapshot(&name).await }).await
    }

    /// Removes a snapshot that is in the trash, if no clone shows it any more.
    pub(super) async fn remove_trashed_snapshot(&self, id: SnapId) -> Result<(), Error> {
        let inner = self.inner.clone();
        self.inner.to_the_end(async move { inner.remove_trashed_snapshot(id).await }).await
    }

    /// Protects a snapshot from being removed; clones of the old format need that. Errors: `ENOENT`, `EBUSY` if it is
    /// protected.
    pub async fn protect_snapshot(&self, name: &str) -> Result<(), Error> {
        let (inner, name) = (self.inner.clone(), name.to_owned());
        self.inner.to_the_end(async move { inner.protect_snapshot(&name).await }).await
    }

    /// Ends the protection of a snapshot. Errors: `ENOENT`, `EINVAL` if it is not protected, `EBUSY` if it has clones
    /// of the old format, in any pool and namespace.
    pub async fn unprotect_snapshot(&self, name: &str) -> Result<(), Error> {
        let (inner, name) = (self.inner.clone(), name.to_owned());
        self.inner.to_the_end(async move { inner.unprotect_snapshot(&name).await }).await
    }

    /// Restores the image's state of a snapshot. Errors: `ENOENT`; `EOPNOTSUPP` where the snapshot shows more of a
    /// parent than the image still does.
    pub async fn roll_back(&self, name: &str) -> Result<(), Error> {
        let (inner, name) = (self.inner.clone(), name.to_owned());
        self.inner.to_the_end(async move { inner.roll_back(&name).await }).await
    }
}

impl Inner {
    async fn create_snapshot(self: &Arc<Inner>, name: &str) -> Result<(), Error> {
        if name.is_empty() {
            return Err(Errno::EINVAL.into());
        }
        let (_turn, now) = self.exclusive_turn().await?;
        if now.snapshot(name).is_ok() {
            return Err(Errno::EEXIST.into());
        }
        let id = loop {
            let id = self.data.create_managed_snapshot().await?;
            let fields = input(|w| {
                w.str(name);
                w.u64(id.0);
                w.put(&SnapshotNamespace::User);
            });
            match self.tell_header(&now, "snapshot_add", fields).await {
                Ok(()) => break id,
                // The header may name the id now or later, so its objects must be kept. If it never does, an id is
                // lost.
                Err(error) if is_final(&error) => return Err(error),
                Err(error) => {
                    self.data.remove_managed_snapshot(id).await?;
                    if error.errno() != ESTALE {
                        return Err(error);
                    }
                }
            }
        };
        self.keep_map(&now, id).await?;
        self.refresh().await?;
        self.header_changed().await
    }

    async fn remove_snapshot(self: &Arc<Inner>, name: &str) -> Result<(), Error> {
        let (_turn, now) = self.exclusive_turn().await?;
        let snapshot = now.snapshot(name)?.clone();
        if snapshot.is_protected {
            return Err(Errno::EBUSY.into());
        }
        if snapshot.child_count > 0 {
            self.tell_header(&now, "snapshot_trash_add", input(|w| w.u64(snapshot.id.0))).await?;
            return self.header_changed().await;
        }
        self.drop_snapshot(&now, &snapshot).await
    }

    async fn remove_trashed_snapshot(self: &Arc<Inner>, id: SnapId) -> Result<(), Error> {
        let (_turn, now) = self.exclusive_turn().await?;
        let unused = |snapshot: &&Snapshot| {
            snapshot.id == id && snapshot.kind == SnapshotKind::Trash && snapshot.child_count == 0
        };
        match now.snapshots.iter().find(unused).cloned() {
            Some(snapshot) => self.drop_snapshot(&now, &snapshot).await,
            None => Ok(()),
        }
    }

    async fn protect_snapshot(self: &Arc<Inner>, name: &str) -> Result<(), Error> {
        let (_turn, now) = self.exclusive_turn().await?;
        let snapshot = now.snapshot(name)?;
        if snapshot.is_protected {
            return Err(Errno::EBUSY.into());
        }
        self.set_protection(&now, snapshot.id, PROTECTED).await?;
        self.header_changed().await
    }

    async fn unprotect_snapshot(self: &Arc<Inner>, name: &str) -> Result<(), Error> {
        let (_turn, now) = self.exclusive_turn().await?;
        let snapshot = now.snapshot(name)?;
        if !snapshot.is_protected {
            return Err(Errno::EINVAL.into());
        }
        // The mark comes first, so that no clone is made while clones are looked for.
        self.set_protection(&now, snapshot.id, UNPROTECTING).await?;
        let has_clones = self.has_old_clones(snapshot.id).await;
        let then = if matches!(has_clones, Ok(false)) { UNPROTECTED } else { PROTECTED };
        self.set_protection(&now, snapshot.id, then).await?;
        self.header_changed().await?;
        if has_clones? { Err(Errno::EBUSY.into()) } else { Ok(()) }
    }

    async fn roll_back(self: &Arc<Inner>, name: &str) -> Result<(), Error> {
        let (_turn, now) = self.exclusive_turn().await?;
        let snapshot = now.snapshot(name)?.clone();
        if snapshot.parent_overlap.unwrap_or(0) > now.overlap() {
            return Err(Error::Unsupported("rolling back to a snapshot that shows more of its parent than the image"));
        }
        let now = self.resize_to(&now, snapshot.size_bytes).await?;
        let objects = self.fixed.layout.object_count(snapshot.size_bytes);
        let then = self.map_to_roll_back_to(&now, &snapshot).await?;
        if let Some(then) = &then {
            // During the roll-back an object may have its old or its new state.
            let mut either = then.clone();
            let differs =
                |object: &u64| then.get(*object) != Some(state::EXISTS_CLEAN) && !self.known.is_absent(*object);
            (0..objects).filter(differs).for_each(|object| either.set(object, state::EXISTS));
            self.save_map(either).await?;
        }
        let work = |inner: Arc<Inner>, now: Arc<ImageState>, object: u64| async move {
            match inner.update_object(&now, object, Operation::new().roll_back(snapshot.id)).await {
                Err(Error::Errno(Errno::ENOENT)) => Ok(()),
                done => done,
            }
        };
        self.for_objects(&now, 0..objects, work).await?;
        if let Some(then) = then {
            self.save_map(then).await?;
        }
        self.refresh().await?;
        self.header_changed().await
    }

    /// Changes the header. Fails if the image has a lock and this client does not hold it.
    pub async fn tell_header(&self, now: &ImageState, method: &str, fields: Vec<u8>) -> Result<(), Error> {
        let guard = if now.has(feature::EXCLUSIVE_LOCK) { self.header_locked() } else { Operation::new() };
        self.change(&self.pool, self.header.clone(), guard.call_write("rbd", method, fields)).await.map(drop)
    }

    async fn set_protection(&self, now: &ImageState, snap: SnapId, status: u8) -> Result<(), Error> {
        let fields = input(|w| {
            w.u64(snap.0);
            w.u8(status);
        });
        self.tell_header(now, "set_protection_status", fields).await
    }

    /// True if a snapshot has clones of the old format. Each clone is listed in its own pool and namespace.
    async fn has_old_clones(&self, snap: SnapId) -> Result<bool, Error> {
        let cluster = self.pool.cluster();
        for name in cluster.pools().await?.into_keys() {
            let pool = cluster.pool(&name).await?;
            let mut namespaces = namespaces(&pool).await?;
            namespaces.extend([Bytes::new(), self.pool.namespace_name().clone()]);
            for namespace in namespaces {
                let fields = parent_link::old_key(self.pool.id(), &self.fixed.id, snap);
                let pool = pool.namespace(namespace);
                let children = ask::<BTreeSet<Bytes>>(&pool, CHILDREN, "get_children", fields).await;
                if listed(children)?.is_some_and(|children| !children.is_empty()) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Copies the object map for a snapshot that was just taken.
    async fn keep_map(&self, now: &ImageState, snap: SnapId) -> Result<(), Error> {
        if !self.known.is_loaded() {
            return Ok(());
        }
        let (own, kept) = (map_object(&self.fixed.id, None), map_object(&self.fixed.id, Some(snap.0)));
        let copy = async {
            let map = self.pool.read(own.clone(), 0, 0).await?;
            self.change(&self.pool, kept, Operation::new().write_full(map)).await?;
            if now.has(feature::FAST_DIFF) {
                self.change(&self.pool, own, map_locked().call_write("rbd", "object_map_snap_add", [])).await?;
                self.known.change(|map| {
                    map.replace(state::EXISTS, state::EXISTS_CLEAN);
                });
            }
            Ok(())
        };
        match copy.await {
            Ok(()) => Ok(()),
            Err(error) if is_final(&error) => Err(error),
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

    /// Removes a snapshot with its object map.
    async fn drop_snapshot(&self, now: &ImageState, snapshot: &Snapshot) -> Result<(), Error> {
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

    /// Removes a snapshot's object map. Objects written between the previous snapshot and this one count from now on as
    /// written before the next one.
    async fn drop_kept_map(&self, now: &ImageState, snapshot: &Snapshot) -> Result<(), Error> {
        let SnapId(id) = snapshot.id;
        if now.has(feature::FAST_DIFF) {
            let next = now.snapshots.iter().find(|other| other.id > snapshot.id).map(|other| other.id.0);
            let pass_on = async {
                let gone = self.load_kept_map(snapshot).await?;
                let fields = input(|w| w.put(&gone));
                let guard = if next.is_none() { map_locked() } else { Operation::new() };
                let operation = guard.call_write("rbd", "object_map_snap_remove", fields);
                self.change(&self.pool, map_object(&self.fixed.id, next), operation).await?;
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
                Err(error) if is_final(&error) => return Err(error),
                Err(error) => {
                    tracing::warn!(image = self.fixed.name, %error, "object map of a snapshot cannot be passed on");
                    match next {
                        Some(next) => self.invalidate_map(Some(next), false).await?,
                        None => self.distrust_map().await?,
                    }
                }
            }
        }
        match self.change(&self.pool, map_object(&self.fixed.id, Some(id)), Operation::new().remove()).await {
            Ok(_) | Err(Error::Errno(Errno::ENOENT)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The image's object map after a roll-back; `None` if the image has no map that is trusted.
    async fn map_to_roll_back_to(&self, now: &ImageState, snapshot: &Snapshot) -> Result<Option<ObjectMap>, Error> {
        if !self.known.is_loaded() {
            return Ok(None);
        }
        let work_out = async {
            let mut map = self.load_kept_map(snapshot).await?;
            let objects = self.fixed.layout.object_count(now.size);
            map.resize(objects, state::NONEXISTENT);
            // An object not written since the snapshot stays as it is. Any other may differ from the newest snapshot.
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
            Err(error) if is_final(&error) => Err(error),
            Err(_) => {
                self.distrust_map().await?;
                Ok(None)
            }
        }
    }

    /// Stores a new map.
    async fn save_map(&self, map: ObjectMap) -> Result<(), Error> {
        let fields = input(|w| w.put(&map));
        let operation = map_locked().call_write("rbd", "object_map_save", fields);
        self.change(&self.pool, map_object(&self.fixed.id, None), operation).await?;
        self.known.change(|known| *known = map);
        Ok(())
    }
}

/// The list that an object gave; `None` if there is no such object, or can be none: an erasure-coded pool has no
/// images.
fn listed<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(list) => Ok(Some(list)),
        Err(Error::Errno(Errno::ENOENT | Errno::EOPNOTSUPP)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The namespaces of a pool that may have images, without the default one.
pub async fn namespaces(pool: &Pool) -> Result<BTreeSet<Bytes>, Error> {
    some_namespaces(pool, usize::MAX, usize::MAX).await
}

/// The first `count` [`namespaces`] of a pool, or some more; without those whose names are longer than `bytes`.
pub async fn some_namespaces(pool: &Pool, count: usize, bytes: usize) -> Result<BTreeSet<Bytes>, Error> {
    const PAGE: u64 = 1024;
    let mut seen = 0;
    let mut all = BTreeSet::new();
    let mut after = Bytes::new();
    loop {
        let fields = input(|w| {
            w.put(&after);
            w.u64(PAGE);
        });
        let page = ask::<Vec<Bytes>>(&pool.namespace(Bytes::new()), NAMESPACES, "namespace_list", fields).await;
        let page = listed(page)?.unwrap_or_default();
        let last = page.last().cloned().filter(|_| page.len() as u64 == PAGE);
        seen += page.len();
        all.extend(page.into_iter().filter(|name| name.len() <= bytes));
        match last.filter(|_| seen < count) {
            Some(last) => after = last,
            None => return Ok(all),
        }
    }
}

/// True if a snapshot of the image with this header exists and is protected, and its protection is not being ended.
pub(super) async fn is_protected(pool: &Pool, header: &str, snap: SnapId) -> Result<bool, Error> {
    match ask::<u8>(pool, header, "get_protection_status", snap_input(snap)).await {
        Ok(status) => Ok(status == PROTECTED),
        Err(Error::Errno(Errno::ENOENT)) => Ok(false),
        Err(error) => Err(error),
    }
}
