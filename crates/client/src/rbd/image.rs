//! An open image.

use super::header::{self, Fixed, ImageInfo, ImageState, Snapshot};
use super::known::Known;
use super::lock::LockState;
use super::opening::{ESTALE, Opening};
use super::watcher::Watching;
use super::{feature, header_object};
use crate::error::Error;
use crate::operation::{Operation, Outcome};
use crate::pool::Pool;
use bytes::Bytes;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{Notify, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock, Semaphore};
use types::{Errno, SnapId};

/// Largest number of operations on data objects in flight, per image.
const OBJECT_OPS_MAX: usize = 128;
/// Timeout of this client's watch: after so long without a sign of life, others take the image's lock.
const WATCH_TIMEOUT: Duration = Duration::from_secs(30);
/// "Read-only file system": the image was opened for reading.
pub(super) const EROFS: Errno = Errno(30);

/// An open image. Clones are the same image. [`Image::close`] it before the last clone is dropped: otherwise another
/// client takes the lock by blocklisting this client, which ends all other work of this connection to the cluster as
/// well.
///
/// Many updates and reads may be in flight at once. Those that overlap take effect in any order.
///
/// Futures of the methods that change something begin when they are first polled. From then on, dropping one (a timeout
/// around it, `select!`, a task that is aborted) only loses its result: the change itself goes on to its end, and
/// [`Image::flush`], snapshots and the release of the lock wait for it, however long that takes. Futures of reads can
/// be dropped.
///
/// With a timeout for operations in the configuration, an update may fail with [`Error::TimedOut`] and yet be carried
/// out, perhaps later. The handle is in doubt from then on: methods that change something and [`Image::flush`] fail
/// with [`Error::InDoubt`], and the handle stops watching and does not unlock. A client that wants the lock thus finds
/// its owner dead, and blocklists this connection to the cluster before it takes the lock. Reads go on.
#[derive(Clone)]
pub struct Image {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub pool: Pool,
    /// Pool of the data objects.
    pub data: Pool,
    pub header: String,
    pub fixed: Fixed,
    /// Its snapshot is the one that reads see.
    pub opening: Opening,
    state: Mutex<Arc<ImageState>>,
    /// The header has changed, or may have.
    stale: AtomicBool,
    /// Lets one task at a time read the header: an older reading must not replace a newer one.
    refreshing: tokio::sync::Mutex<()>,
    /// Each change holds this for reading from the moment when it was asked for.
    begun: Arc<RwLock<()>>,
    /// Each update of data holds this for reading; a change that excludes updates holds it for writing.
    pub gate: Arc<RwLock<()>>,
    pub lock: LockState,
    /// Knowledge of which objects exist, while the lock is held.
    pub known: Known,
    pub slots: Arc<Semaphore>,
    pub watching: Mutex<Option<Watching>>,
    /// Signals that the lock may be free.
    pub lock_news: Notify,
}

impl Image {
    /// Opens an image for reading and writing. Errors: `ENOENT`; `EOPNOTSUPP` for features that are not known here.
    pub async fn open(pool: &Pool, name: &str) -> Result<Image, Error> {
        let id = header::id_of(pool, name).await?;
        Image::open_by_id(pool, name, &id, SnapId::HEAD, false).await
    }

    /// Opens an image for reading. Its size and snapshots are those of this moment.
    pub async fn open_read_only(pool: &Pool, name: &str) -> Result<Image, Error> {
        let id = header::id_of(pool, name).await?;
        Image::open_by_id(pool, name, &id, SnapId::HEAD, true).await
    }

    /// Opens an image as it was in a snapshot. Errors: `ENOENT`.
    pub async fn open_snapshot(pool: &Pool, name: &str, snapshot: &str) -> Result<Image, Error> {
        let id = header::id_of(pool, name).await?;
        let opening = Opening::plain(SnapId::HEAD, true).without_parent();
        let now = header::load_state(pool, &id, opening, None).await?;
        Image::open_by_id(pool, name, &id, now.snapshot(snapshot)?.id, true).await
    }

    /// Opens an image of a known id for reading and writing, for work that is done with rights which those may lack for
    /// whom it is done. A header that names data which is not the image's own is refused, and so is one that names a
    /// parent in another pool or namespace which does not list the clone. Errors: `ENOENT`; `ESTALE` if another image
    /// has the name; `EOPNOTSUPP`.
    pub async fn open_for_others(pool: &Pool, name: &str, id: &str) -> Result<Image, Error> {
        if header::id_of(pool, name).await? != id {
            return Err(ESTALE.into());
        }
        Image::open_as(pool, name, id, Opening::plain(SnapId::HEAD, false).for_others()).await
    }

    pub(super) async fn open_by_id(
        pool: &Pool,
        name: &str,
        id: &str,
        at: SnapId,
        read_only: bool,
    ) -> Result<Image, Error> {
        Image::open_as(pool, name, id, Opening::plain(at, read_only)).await
    }

    pub(super) async fn open_as(pool: &Pool, name: &str, id: &str, opening: Opening) -> Result<Image, Error> {
        let (at, read_only) = (opening.at, opening.read_only);
        let fixed = header::load_fixed(pool, name, id, read_only).await?;
        opening.check_data(pool, id, &fixed.object_prefix, fixed.data_pool)?;
        let data = match fixed.data_pool {
            Some(id) => pool.cluster().pool_by_id(id).await?.namespace(pool.namespace_name().clone()),
            None => pool.clone(),
        };
        // The watch begins before the header is read, so that no change is missed.
        let header = header_object(id);
        let watch = match read_only {
            true => None,
            false => Some(pool.watch(header.clone(), WATCH_TIMEOUT).await?),
        };
        let state = match header::load_state(pool, id, opening, None).await {
            Ok(state) => state,
            Err(error) => {
                // Whoever removes the image would wait until the watch has timed out.
                if let Some(watch) = watch {
                    let _ = watch.end().await;
                }
                return Err(error);
            }
        };
        let inner = Arc::new(Inner {
            pool: pool.clone(),
            data: data.at_snapshot(at),
            header,
            fixed,
            opening,
            state: Mutex::new(Arc::new(state)),
            stale: AtomicBool::new(false),
            refreshing: tokio::sync::Mutex::new(()),
            begun: Arc::new(RwLock::new(())),
            gate: Arc::new(RwLock::new(())),
            lock: LockState::default(),
            known: Known::default(),
            slots: Arc::new(Semaphore::new(OBJECT_OPS_MAX)),
            watching: Mutex::new(None),
            lock_news: Notify::new(),
        });
        if let Some(watch) = watch {
            inner.lock.set_cookie(watch.cookie());
            let watching = Watching::start(watch, &inner);
            *locked(&inner.watching) = Some(watching);
        }
        Ok(Image { inner })
    }

    /// Waits for changes in flight, gives up the lock and ends the watch. Errors: [`Error::InDoubt`] if the lock was
    /// not given up.
    pub async fn close(self) -> Result<(), Error> {
        let pool = self.inner.pool.clone();
        let closing = async move {
            // Changes that still wait for the lock are waited for, too: they would take it when no watch is left.
            let _nothing_under_way = self.inner.begun.write().await;
            let released = self.inner.release_lock().await;
            let watching = locked(&self.inner.watching).take();
            let ended = match watching {
                Some(watching) => watching.stop().await,
                None => Ok(()),
            };
            released.and(ended)
        };
        to_the_end(&pool, closing).await
    }

    /// Properties of the image at present, or in the snapshot that it was opened at.
    pub async fn info(&self) -> Result<ImageInfo, Error> {
        let (state, fixed) = (self.inner.fresh().await?, &self.inner.fixed);
        Ok(ImageInfo {
            name: fixed.name.clone(),
            id: fixed.id.clone(),
            object_prefix: fixed.object_prefix.clone(),
            size_bytes: state.size,
            layout: fixed.layout,
            features: state.features,
            data_pool: fixed.data_pool,
            parent_overlap_bytes: state.parent.as_ref().map(|parent| parent.overlap),
        })
    }

    pub async fn size_bytes(&self) -> Result<u64, Error> {
        Ok(self.inner.fresh().await?.size)
    }

    /// The snapshots, oldest first.
    pub async fn snapshots(&self) -> Result<Vec<Snapshot>, Error> {
        Ok(self.inner.fresh().await?.snapshots.clone())
    }

    /// Waits for all changes in flight, also those whose futures were dropped. A change that is done is durable
    /// already. Errors: [`Error::InDoubt`].
    pub async fn flush(&self) -> Result<(), Error> {
        drop(self.inner.begun.write().await);
        match self.inner.lock.is_held() {
            Err(Error::InDoubt) => Err(Error::InDoubt),
            _ => Ok(()),
        }
    }
}

impl Inner {
    pub fn object_name(&self, object: u64) -> String {
        // The name is put together from pieces, which is fast: every operation needs one.
        let mut name = String::with_capacity(self.fixed.object_prefix.len() + 17);
        name.push_str(&self.fixed.object_prefix);
        name.push('.');
        (0..16)
            .rev()
            .for_each(|digit| name.push(char::from(b"0123456789abcdef"[(object >> (4 * digit) & 15) as usize])));
        name
    }

    /// The state as of the last reading of the header.
    pub fn state(&self) -> Arc<ImageState> {
        locked(&self.state).clone()
    }

    pub fn set_stale(&self) {
        self.stale.store(true, Ordering::Release);
    }

    /// The header's state, read again if it may have changed.
    pub async fn fresh(&self) -> Result<Arc<ImageState>, Error> {
        if !self.stale.load(Ordering::Acquire) {
            return Ok(self.state());
        }
        let turn = self.refreshing.lock().await;
        match self.stale.load(Ordering::Acquire) {
            true => self.reload(turn).await,
            false => Ok(self.state()),
        }
    }

    /// Reads the header again.
    pub async fn refresh(&self) -> Result<Arc<ImageState>, Error> {
        self.reload(self.refreshing.lock().await).await
    }

    async fn reload(&self, _turn: tokio::sync::MutexGuard<'_, ()>) -> Result<Arc<ImageState>, Error> {
        // The flag is cleared before the header is read, so that a change from now on sets it again. It stays set for a
        // client that has lost the lock or is in doubt: it may have no watch to tell it of changes.
        self.stale.store(self.lock.is_held().is_err(), Ordering::Release);
        let known = self.state().parent.clone();
        let loaded = header::load_state(&self.pool, &self.fixed.id, self.opening, known).await;
        let state = Arc::new(loaded.inspect_err(|_| self.set_stale())?);
        *locked(&self.state) = state.clone();
        Ok(state)
    }

    /// Fails if the image was opened for reading. Errors: `EROFS`.
    pub fn must_be_writable(&self) -> Result<(), Error> {
        if self.opening.read_only { Err(EROFS.into()) } else { Ok(()) }
    }

    /// Carries out a change of the image to its end, even if the caller stops waiting for it.
    pub async fn to_the_end<T: Send + 'static>(
        &self,
        change: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let begun = self.begun.clone().read_owned().await;
        let change = async move {
            let _begun = begun;
            change.await
        };
        to_the_end(&self.pool, change).await
    }

    /// Waits for permission to update data. Until the guard is dropped the lock is held, if the image has one. The
    /// caller keeps the guard until every operation that it sent under it has been answered.
    pub async fn update_turn(self: &Arc<Inner>) -> Result<(OwnedRwLockReadGuard<()>, Arc<ImageState>), Error> {
        self.must_be_writable()?;
        loop {
            let turn = self.gate.clone().read_owned().await;
            self.lock.is_held()?;
            // The header is checked under the guard: an earlier change of the header by this client has marked it
            // stale.
            let state = self.fresh().await?;
            let is_held = self.lock.is_held()?;
            if !state.has(feature::EXCLUSIVE_LOCK) || is_held {
                return Ok((turn, state));
            }
            drop(turn);
            self.acquire_lock().await?;
        }
    }

    /// Waits for permission to change the header. Until the guard is dropped the lock is held, if the image has one,
    /// and no update is in flight.
    pub async fn exclusive_turn(self: &Arc<Inner>) -> Result<(OwnedRwLockWriteGuard<()>, Arc<ImageState>), Error> {
        self.must_be_writable()?;
        loop {
            let turn = self.gate.clone().write_owned().await;
            self.lock.is_held()?;
            let state = self.fresh().await?;
            let is_held = self.lock.is_held()?;
            if !state.has(feature::EXCLUSIVE_LOCK) || is_held {
                return Ok((turn, state));
            }
            drop(turn);
            self.acquire_lock().await?;
        }
    }

    /// Carries out an operation that changes the image or an object about it. If the outcome stays unknown, the image
    /// is in doubt.
    pub async fn change(&self, pool: &Pool, name: impl Into<Bytes>, operation: Operation) -> Result<Outcome, Error> {
        let result = pool.operate(name, operation).await;
        match &result {
            // This client was blocklisted, so others may hold the lock by now.
            Err(Error::Errno(Errno::EBLOCKLISTED)) => self.lock.lose(),
            Err(error) if error.leaves_open() => self.doubt(error),
            _ => {}
        }
        result
    }

    /// Puts the handle in doubt: an operation that it sent may be carried out at any time from now on.
    fn doubt(&self, error: &Error) {
        if !self.lock.doubt() {
            return;
        }
        tracing::warn!(image = self.fixed.name, %error, "an update of an image may be carried out still");
        // Without a watch the lock's owner counts as dead: others take the lock by blocklisting this client, which also
        // stops the update. An image without a lock has no owner.
        if self.state().has(feature::EXCLUSIVE_LOCK) {
            self.set_stale();
            drop(locked(&self.watching).take());
        }
    }
}

/// Carries out a change from its first step to its last, even if the caller stops waiting for it, so that other clients
/// find no half of it, and no late operation.
pub(super) async fn to_the_end<T: Send + 'static>(
    pool: &Pool,
    change: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    match pool.driver.runtime.spawn(change).await {
        Ok(done) => done,
        Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
        // The runtime ends.
        Err(_) => Err(Error::Closed),
    }
}

/// True if an update that failed with this error is to end without an attempt to repair: this client is blocklisted, or
/// the update's outcome is unknown.
pub(super) fn is_final(error: &Error) -> bool {
    matches!(error, Error::Errno(Errno::EBLOCKLISTED) | Error::InDoubt) || error.leaves_open()
}

/// Locks a mutex. Poisoning is ignored: code under one of these locks panics only for broken beliefs about our own
/// state.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
