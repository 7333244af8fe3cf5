//! The exclusive lock of an image: class `lock` on its header. The owner's watch of the header shows that the owner is
//! alive.

use super::image::{EROFS, Inner, locked};
use super::notice::{ClientId, Notice, read_response};
use super::spec::lock_input;
use super::watcher::NOTIFY_TIMEOUT;
use super::{feature, flag};
use crate::error::Error;
use crate::operation::Operation;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;
use types::{EntityName, Errno};
use wire::EntityAddr;
use wire::lock::{LockInfo, LockerId, LockerInfo};

/// Tag of locks that clients take by themselves. Other locks are taken by people (`rbd lock add`), and no client breaks
/// them.
const TAG: &str = "internal";
/// Time after which an owner that has agreed to give the lock up is asked again.
const RELEASE_PATIENCE: Duration = Duration::from_secs(5);
/// Longest time to wait for the lock.
const ACQUIRE_PATIENCE: Duration = Duration::from_secs(120);
/// Time between attempts without news.
const RETRY: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    Free,
    Held,
    /// The lock was held; another client has taken it away, or may have.
    Lost,
    /// An operation sent under the lock may arrive at any time: the lock is neither used nor given up.
    InDoubt,
}

/// This client's knowledge of its lock.
pub(super) struct LockState {
    standing: Mutex<(Standing, u64)>,
    /// Lets one attempt run at a time.
    turn: tokio::sync::Mutex<()>,
}

impl Default for LockState {
    fn default() -> LockState {
        LockState { standing: Mutex::new((Standing::Free, 0)), turn: tokio::sync::Mutex::new(()) }
    }
}

impl LockState {
    /// True if this client holds the lock. Errors: `EBLOCKLISTED` once it was lost; [`Error::InDoubt`].
    pub fn is_held(&self) -> Result<bool, Error> {
        match locked(&self.standing).0 {
            Standing::Held => Ok(true),
            Standing::Free => Ok(false),
            Standing::Lost => Err(Errno::EBLOCKLISTED.into()),
            Standing::InDoubt => Err(Error::InDoubt),
        }
    }

    /// Marks the lock lost: from now on nothing is updated any more.
    pub fn lose(&self) {
        locked(&self.standing).0 = Standing::Lost;
    }

    /// Marks the lock in doubt: from now on nothing is updated any more, and the lock is not given up. False if it was
    /// lost or in doubt already.
    pub fn doubt(&self) -> bool {
        self.set(Standing::InDoubt)
    }

    /// Sets the standing. False if the lock is lost or in doubt, which stays so.
    fn set(&self, standing: Standing) -> bool {
        let mut now = locked(&self.standing);
        let changes = !matches!(now.0, Standing::Lost | Standing::InDoubt);
        if changes {
            now.0 = standing;
        }
        changes
    }

    /// The cookie of the watch that shows that this client is alive.
    pub fn watch_cookie(&self) -> u64 {
        locked(&self.standing).1
    }

    pub fn set_cookie(&self, watch: u64) {
        locked(&self.standing).1 = watch;
    }
}

fn cookie_of(watch: u64) -> Bytes {
    format!("auto {watch}").into()
}

impl Inner {
    pub fn client_id(&self) -> ClientId {
        ClientId { gid: self.pool.cluster().client_id(), handle: self.lock.watch_cookie() }
    }

    /// Takes the lock, if it is not held already: asks a live owner for it, and takes it away from a dead one.
    ///
    /// Errors: `EROFS` if the owner does not give it up; `EBUSY` if a person holds it; `ETIMEDOUT`; [`Error::InDoubt`]
    /// if this very client holds it by a handle that is gone.
    pub async fn acquire_lock(self: &Arc<Inner>) -> Result<(), Error> {
        let _turn = self.lock.turn.lock().await;
        if self.lock.is_held()? {
            return Ok(());
        }
        // No attempt is cancelled half-way: an operation sent by it might take the lock later.
        let deadline = Instant::now() + ACQUIRE_PATIENCE;
        while !self.try_lock().await? {
            if Instant::now() >= deadline {
                return Err(Errno::ETIMEDOUT.into());
            }
            let info = self.lock_info().await?;
            let Some((owner, LockerInfo { addr, .. })) = info.lockers.first_key_value() else { continue };
            if info.tag != TAG || !owner.cookie.starts_with(b"auto ") {
                return Err(Errno::EBUSY.into());
            }
            if self.is_alive(owner, addr).await? {
                self.ask_for_lock().await?;
            } else if owner.name == EntityName::client(self.pool.cluster().client_id()) {
                // Blocklisting itself would help no client.
                return Err(Error::InDoubt);
            } else {
                self.break_lock(owner, addr).await?;
            }
        }
        // No other client changes the header from now on.
        let begun = async {
            let state = self.refresh().await?;
            if state.has(feature::OBJECT_MAP) { self.load_map(&state).await } else { Ok(()) }
        };
        if let Err(error) = begun.await {
            if self.lock.is_held().is_ok() {
                let _ = self.unlock_header().await;
            }
            return Err(error);
        }
        self.lock.set(Standing::Held);
        self.tell_others(Notice::AcquiredLock(self.client_id()));
        Ok(())
    }

    /// Attempts to take the lock. False if another client holds it.
    async fn try_lock(&self) -> Result<bool, Error> {
        let input = lock_input::lock(&cookie_of(self.lock.watch_cookie()), TAG);
        let operation = Operation::new().call_write("lock", "lock", input);
        match self.change(&self.pool, self.header.clone(), operation).await {
            // `EEXIST`: an earlier attempt, whose answer was lost, took the lock.
            Ok(_) | Err(Error::Errno(Errno::EEXIST)) => Ok(true),
            Err(Error::Errno(Errno::EBUSY)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn lock_info(&self) -> Result<LockInfo, Error> {
        let operation = Operation::new().call("lock", "get_info", lock_input::get_info());
        self.pool.operate(self.header.clone(), operation).await?.decode(0)
    }

    /// True if the lock's owner still watches the image.
    async fn is_alive(&self, owner: &LockerId, addr: &EntityAddr) -> Result<bool, Error> {
        let watchers = self.pool.watchers(self.header.clone()).await?;
        Ok(watchers
            .iter()
            .any(|watcher| cookie_of(watcher.cookie) == owner.cookie && watcher.addr.legacy_str() == addr.legacy_str()))
    }

    /// Asks the owner to give the lock up, and waits a short time for the release.
    async fn ask_for_lock(&self) -> Result<(), Error> {
        let news = self.lock_news.notified();
        tokio::pin!(news);
        news.as_mut().enable();
        let payload = Notice::RequestLock(self.client_id()).to_bytes();
        let answered = self.pool.notify(self.header.clone(), payload, NOTIFY_TIMEOUT).await?;
        let mut wait = RETRY;
        for reply in answered.replies.values().filter(|reply| !reply.is_empty()) {
            match Errno::from_result(read_response(reply)?) {
                None => wait = RELEASE_PATIENCE,
                Some(EROFS) => return Err(EROFS.into()),
                Some(_) => {}
            }
        }
        let _ = tokio::time::timeout(wait, news).await;
        Ok(())
    }

    /// Takes the lock away from a dead owner, after blocklisting it: its operations that are still on their way must
    /// not be carried out any more.
    async fn break_lock(&self, owner: &LockerId, addr: &EntityAddr) -> Result<(), Error> {
        let cluster = self.pool.cluster();
        let addr = addr.legacy_str();
        let command = format!(r#"{{"prefix": "osd blocklist", "blocklistop": "add", "addr": "{addr}"}}"#);
        let reply = cluster.mon_command(&command, Bytes::new()).await?;
        if let Some(errno) = Errno::from_result(reply.result) {
            return Err(errno.into());
        }
        cluster.wait_for_latest_map().await?;
        let operation = Operation::new().call_write("lock", "break_lock", lock_input::break_lock(owner));
        match self.pool.operate(self.header.clone(), operation).await {
            Ok(_) | Err(Error::Errno(Errno::ENOENT)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Gives the lock up, once no update is in flight. Errors: [`Error::InDoubt`] if an update of unknown outcome may
    /// be.
    pub async fn release_lock(self: &Arc<Inner>) -> Result<(), Error> {
        let _turn = self.lock.turn.lock().await;
        let _nothing_under_way = self.gate.write().await;
        match self.lock.is_held() {
            Ok(true) => {}
            Ok(false) | Err(Error::Errno(Errno::EBLOCKLISTED)) => return Ok(()),
            Err(error) => return Err(error),
        }
        // From here on the lock is not used, even if giving it up fails.
        self.lock.set(Standing::Free);
        let unloaded = self.unload_map().await;
        // The map's lock may stay behind, as the next owner takes it away. An operation in doubt may not: then the
        // image's lock stays.
        self.lock.is_held()?;
        self.unlock_header().await?;
        self.tell_others(Notice::ReleasedLock(self.client_id()));
        unloaded
    }

    async fn unlock_header(&self) -> Result<(), Error> {
        let input = lock_input::unlock(&cookie_of(self.lock.watch_cookie()));
        let operation = Operation::new().call_write("lock", "unlock", input);
        match self.change(&self.pool, self.header.clone(), operation).await {
            Ok(_) | Err(Error::Errno(Errno::ENOENT)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Makes the lock, if it is held, name the image's new watch. If that fails, the lock is lost.
    pub async fn move_lock(&self, watch: u64) {
        let before = self.lock.watch_cookie();
        self.lock.set_cookie(watch);
        if !self.lock.is_held().unwrap_or(false) {
            return;
        }
        let input = lock_input::set_cookie(&cookie_of(before), TAG, &cookie_of(watch));
        let operation = Operation::new().call_write("lock", "set_cookie", input);
        if let Err(error) = self.pool.operate(self.header.clone(), operation).await {
            tracing::warn!(image = self.fixed.name, %error, "lock of an image lost");
            self.lock.lose();
        }
    }

    /// Notifies all clients of the image, without waiting for them.
    pub fn tell_others(&self, notice: Notice) {
        let (pool, header) = (self.pool.clone(), self.header.clone());
        tokio::spawn(async move {
            if let Err(error) = pool.notify(header, notice.to_bytes(), NOTIFY_TIMEOUT).await {
                tracing::debug!(%error, "notification of an image");
            }
        });
    }

    /// Notifies all clients of the image that its header has changed, and waits for their acknowledgements.
    pub async fn header_changed(&self) -> Result<(), Error> {
        self.set_stale();
        self.pool.notify(self.header.clone(), Notice::HeaderUpdate.to_bytes(), NOTIFY_TIMEOUT).await.map(drop)
    }

    /// The guard of each change of the header: it fails unless this client holds the lock.
    pub fn header_locked(&self) -> Operation {
        let input = lock_input::assert_locked(&cookie_of(self.lock.watch_cookie()), TAG);
        Operation::new().call("lock", "assert_locked", input)
    }

    /// Marks the object map of the image, or of a snapshot, invalid in the header.
    pub async fn invalidate_map(&self, snap: Option<u64>, with_lock: bool) -> Result<(), Error> {
        let flags = flag::OBJECT_MAP_INVALID | flag::FAST_DIFF_INVALID;
        let operation = if with_lock { self.header_locked() } else { Operation::new() };
        let input = super::spec::input(|w| {
            w.u64(flags);
            w.u64(flags);
            w.u64(snap.unwrap_or(types::SnapId::HEAD.0));
        });
        self.change(&self.pool, self.header.clone(), operation.call_write("rbd", "set_flags", input)).await?;
        self.set_stale();
        Ok(())
    }
}
