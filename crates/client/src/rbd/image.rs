//! An open image.

use super::header::{self, Fixed, ImageInfo, Snapshot, State};
use super::known::Known;
use super::lock::LockState;
use super::watcher::Watching;
use super::{feature, header_object};
use crate::error::Error;
use crate::pool::Pool;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{Notify, RwLock, RwLockReadGuard, Semaphore};
use types::{Errno, SnapId};

/// Operations on data objects under way at once, of one image.
const OBJECT_OPS_MAX: usize = 128;
/// Without a sign from us for so long, others take the image's lock.
const WATCH_TIMEOUT: Duration = Duration::from_secs(30);
/// "Read-only file system": the image was opened for reading.
pub(super) const EROFS: Errno = Errno(30);

/// An open image. Clones are the same image; [`Image::close`] it before the last one goes: a lock whose owner has gone
/// without a word is taken away by shutting out the client, and what else this connection to the cluster does with it.
///
/// Many updates and reads may be under way at once. Those that overlap take effect in any order.
#[derive(Clone)]
pub struct Image {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub pool: Pool,
    /// Where the data objects are.
    pub data: Pool,
    pub header: String,
    pub fixed: Fixed,
    pub read_only: bool,
    /// What is looked at.
    pub at: SnapId,
    state: Mutex<Arc<State>>,
    /// The header has changed, or may have.
    stale: AtomicBool,
    /// Held for reading by each update, for writing by whatever no update may be under way for.
    pub gate: RwLock<()>,
    pub lock: LockState,
    /// What is known of which objects exist, while the lock is held.
    pub known: Known,
    pub slots: Arc<Semaphore>,
    pub watching: Mutex<Option<Watching>>,
    /// Somebody has told that the lock may be free.
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
        let now = header::load_state(pool, &id, SnapId::HEAD, None).await?;
        Image::open_by_id(pool, name, &id, now.snapshot(snapshot)?.id, true).await
    }

    pub(super) async fn open_by_id(
        pool: &Pool,
        name: &str,
        id: &str,
        at: SnapId,
        read_only: bool,
    ) -> Result<Image, Error> {
        let fixed = header::load_fixed(pool, name, id, read_only).await?;
        let data = match fixed.data_pool {
            Some(id) => pool.cluster().pool_by_id(id).await?.namespace(pool.namespace_name().clone()),
            None => pool.clone(),
        };
        // Watched before it is read, so that no change is missed.
        let header = header_object(id);
        let watch = match read_only {
            true => None,
            false => Some(pool.watch(header.clone(), WATCH_TIMEOUT).await?),
        };
        let state = header::load_state(pool, id, at, None).await?;
        let inner = Arc::new(Inner {
            pool: pool.clone(),
            data: data.at_snapshot(at),
            header,
            fixed,
            read_only,
            at,
            state: Mutex::new(Arc::new(state)),
            stale: AtomicBool::new(false),
            gate: RwLock::new(()),
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

    /// Gives up the lock and ends the watch. What is under way is waited for.
    pub async fn close(self) -> Result<(), Error> {
        let released = self.inner.release_lock().await;
        let watching = locked(&self.inner.watching).take();
        let ended = match watching {
            Some(watching) => watching.stop().await,
            None => Ok(()),
        };
        released.and(ended)
    }

    /// What the image is now, or was in the snapshot that it was opened at.
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

    /// Waits for all updates that are under way. What is done is durable already.
    pub async fn flush(&self) -> Result<(), Error> {
        drop(self.inner.gate.write().await);
        Ok(())
    }
}

impl Inner {
    pub fn object_name(&self, object: u64) -> String {
        // In pieces: this is done for every operation.
        let mut name = String::with_capacity(self.fixed.object_prefix.len() + 17);
        name.push_str(&self.fixed.object_prefix);
        name.push('.');
        (0..16)
            .rev()
            .for_each(|digit| name.push(char::from(b"0123456789abcdef"[(object >> (4 * digit) & 15) as usize])));
        name
    }

    /// What is known of the header.
    pub fn state(&self) -> Arc<State> {
        locked(&self.state).clone()
    }

    pub fn set_stale(&self) {
        self.stale.store(true, Ordering::Release);
    }

    /// What the header says, read again if it may have changed.
    pub async fn fresh(&self) -> Result<Arc<State>, Error> {
        if self.stale.load(Ordering::Acquire) {
            return self.refresh().await;
        }
        Ok(self.state())
    }

    /// Reads the header again.
    pub async fn refresh(&self) -> Result<Arc<State>, Error> {
        // First: a change from now on makes it stale again.
        self.stale.store(false, Ordering::Release);
        let known = self.state().parent.clone();
        let loaded = header::load_state(&self.pool, &self.fixed.id, self.at, known).await;
        let state = Arc::new(loaded.inspect_err(|_| self.set_stale())?);
        *locked(&self.state) = state.clone();
        Ok(state)
    }

    /// Errors: `EROFS` where the image was opened for reading.
    pub fn must_be_writable(&self) -> Result<(), Error> {
        if self.read_only { Err(EROFS.into()) } else { Ok(()) }
    }

    /// Leave to update data: the lock is held, where the image has one, until the guard goes.
    pub async fn update_turn(self: &Arc<Inner>) -> Result<(RwLockReadGuard<'_, ()>, Arc<State>), Error> {
        self.must_be_writable()?;
        loop {
            let state = self.fresh().await?;
            let turn = self.gate.read().await;
            if !state.has(feature::EXCLUSIVE_LOCK) || self.lock.is_held()? {
                return Ok((turn, self.state()));
            }
            drop(turn);
            self.acquire_lock().await?;
        }
    }
}

/// No code panics while it holds one of these locks, but for broken beliefs about our own state.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
