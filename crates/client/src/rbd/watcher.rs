//! Listens to the notifications of an image's other clients.

use super::image::Inner;
use super::notice::{Notice, response};
use crate::error::Error;
use crate::watch::{Heard, Notification, Watch};
use bytes::Bytes;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use types::Errno;

/// Time that other clients have to answer a notification.
pub(super) const NOTIFY_TIMEOUT: Duration = Duration::from_secs(5);
/// Time between attempts to watch again.
const REWATCH: Duration = Duration::from_secs(1);

/// The task that listens, for as long as the image is open.
pub(super) struct Watching {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), Error>>,
}

impl Watching {
    pub fn start(watch: Watch, image: &Arc<Inner>) -> Watching {
        let (stop, stopped) = oneshot::channel();
        Watching { stop, task: tokio::spawn(listen(watch, Arc::downgrade(image), stopped)) }
    }

    /// Ends the watch.
    pub async fn stop(self) -> Result<(), Error> {
        let _ = self.stop.send(());
        self.task.await.unwrap_or(Err(Error::Closed))
    }
}

/// Listens until the image is closed or dropped; the sender of `stopped` is dropped with it.
async fn listen(mut watch: Watch, image: Weak<Inner>, mut stopped: oneshot::Receiver<()>) -> Result<(), Error> {
    loop {
        tokio::select! {
            biased;
            _ = &mut stopped => return watch.end().await,
            heard_now = watch.next_heard() => match heard_now {
                Ok(Heard::Gap) => {
                    let Some(image) = image.upgrade() else { return Ok(()) };
                    image.set_stale();
                    image.lock_news.notify_waiters();
                }
                Ok(Heard::Notification(notification)) => {
                    let Some(image) = image.upgrade() else { return Ok(()) };
                    let answer = heard(&image, &notification);
                    if let Err(error) = watch.acknowledge(notification.id, answer).await {
                        tracing::debug!(%error, "acknowledgement to a client of an image");
                    }
                }
                Err(error) => {
                    let Some(image) = image.upgrade() else { return Ok(()) };
                    tracing::info!(image = image.fixed.name, %error, "watch of an image lost");
                    image.set_stale();
                    image.lock_news.notify_waiters();
                    if error.errno() == Errno::EBLOCKLISTED {
                        image.lock.lose();
                        return Err(error);
                    }
                    match image.pool.watch(image.header.clone(), Duration::ZERO).await {
                        Ok(again) => {
                            // Notifications since the old watch broke were not heard.
                            image.set_stale();
                            image.move_lock(again.cookie()).await;
                            watch = again;
                        }
                        // The header is gone, or this client is blocklisted.
                        Err(error)
                            if matches!(error.errno(), Errno::ENOENT | Errno::EBLOCKLISTED | Errno::ENOTCONN) =>
                        {
                            image.lock.lose();
                            return Err(error);
                        }
                        Err(_) => tokio::time::sleep(REWATCH).await,
                    }
                }
            }
        }
    }
}

/// Handles a notification; returns the answer.
fn heard(image: &Arc<Inner>, notification: &Notification) -> Bytes {
    let notice = match Notice::from_bytes(&notification.payload) {
        Ok(notice) => notice,
        Err(error) => {
            tracing::debug!(%error, "notification of an image ignored");
            return Bytes::new();
        }
    };
    let is_owner = image.lock.is_held().unwrap_or(false);
    match notice {
        Notice::HeaderUpdate => {
            image.set_stale();
            response(0)
        }
        Notice::AcquiredLock(_) | Notice::ReleasedLock(_) => {
            image.lock_news.notify_waiters();
            Bytes::new()
        }
        Notice::RequestLock(client) if is_owner && client != image.client_id() => {
            let image = image.clone();
            tokio::spawn(async move {
                if let Err(error) = image.release_lock().await {
                    tracing::warn!(image = image.fixed.name, %error, "giving up the lock of an image");
                }
            });
            response(0)
        }
        // The client then asks for the lock and does the work itself.
        Notice::Request(_) if is_owner => response(Errno::EOPNOTSUPP.as_result()),
        Notice::RequestLock(_) | Notice::Request(_) | Notice::Progress(_) => Bytes::new(),
    }
}
