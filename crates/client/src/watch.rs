//! Watching objects, and notifying watchers.

use crate::error::Error;
use crate::objecter::{Answer, Event};
use crate::operation::{Operation, Outcome};
use crate::pool::Pool;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::mpsc;
use types::Errno;
use wire::messages::Op;
use wire::messages::listing::{Watcher, Watchers};

/// A notification that waits for an acknowledgement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notification {
    /// Id to be given back with the acknowledgement.
    pub id: u64,
    /// The notifier's global id.
    pub notifier: u64,
    pub payload: Bytes,
}

/// An event that a watcher hears.
pub(crate) enum Heard {
    Notification(Notification),
    /// The watch was not connected for a while.
    Gap,
}

/// Watchers that have answered a notification, and those that have not. A watcher is (global id, cookie).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Acknowledged {
    pub replies: BTreeMap<(u64, u64), Bytes>,
    pub missing: Vec<(u64, u64)>,
}

/// A watch of an object. The client keeps it alive and reconnects it where the object's primary changes. Dropping it
/// ends it.
///
/// A watch that the cluster gives up (the client was cut off for longer than the timeout, the object was removed, the
/// client is blocklisted) ends with an error; later notifications do not reach the watcher.
pub struct Watch {
    pool: Pool,
    name: Bytes,
    cookie: u64,
    events: mpsc::Receiver<Event>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.pool.driver.shared.forget_watch(self.cookie);
    }
}

impl Watch {
    /// The cookie that identifies this watch in the cluster, together with the client's name.
    pub fn cookie(&self) -> u64 {
        self.cookie
    }

    /// Time since the cluster confirmed that it knows this watch; the client asks every 5 s. Once it exceeds the
    /// watch's timeout, notifications may have been missed. librados gives this time by `rados_watch_check`.
    ///
    /// Errors: `ENOTCONN` where the watch is known to be lost.
    pub fn check(&self) -> Result<Duration, Error> {
        self.pool.driver.shared.watch_confirmed_for(self.cookie).ok_or(Errno::ENOTCONN.into())
    }

    /// The next notification. Errors: the reason why no more will come; from then on the object is not watched.
    pub async fn next(&mut self) -> Result<Notification, Error> {
        loop {
            if let Heard::Notification(notification) = self.next_heard().await? {
                return Ok(notification);
            }
        }
    }

    /// The next notification, or a gap in which some may have been missed.
    pub(crate) async fn next_heard(&mut self) -> Result<Heard, Error> {
        match self.events.recv().await {
            Some(Event::Notified { notify_id, notifier, payload, .. }) => {
                Ok(Heard::Notification(Notification { id: notify_id, notifier, payload }))
            }
            Some(Event::Reconnected { .. }) => Ok(Heard::Gap),
            Some(Event::WatchLost { why, .. }) => Err(why.into()),
            None => Err(Errno::ENOTCONN.into()),
        }
    }

    /// Acknowledges a notification, with an answer for the notifier.
    pub async fn acknowledge(&self, notification: u64, answer: impl Into<Bytes>) -> Result<(), Error> {
        let operation = Operation::new().part(Op::notify_ack(notification, self.cookie, answer.into()));
        self.pool.operate(self.name.clone(), operation).await.map(drop)
    }

    /// Ends the watch, and waits until the cluster knows.
    pub async fn end(self) -> Result<(), Error> {
        answer(self.pool.driver.shared.unwatch(self.cookie).await?)
    }
}

fn answer(answer: Answer) -> Result<(), Error> {
    match answer {
        Answer::Op(reply) => Outcome::of(reply).map(drop),
        other => Err(Error::Answer(format!("{other:?}"))),
    }
}

impl Pool {
    /// Watches an object, which must exist. The cluster drops a watcher that is silent for `timeout` (rounded up to
    /// seconds, zero for the cluster's default of 30 s).
    pub async fn watch(&self, name: impl Into<Bytes>, timeout: Duration) -> Result<Watch, Error> {
        let name = name.into();
        let subject = self.subject(name.clone());
        let (cookie, events, answered) = self.driver.shared.watch(subject, seconds(timeout));
        // From here on the watch ends when this value is dropped, even if the caller stops waiting for the answer.
        let watch = Watch { pool: self.clone(), name, cookie, events };
        answer(answered.answer().await?)?;
        Ok(watch)
    }

    /// Notifies all watchers of an object, and waits for their answers for as long as `timeout` (rounded up to seconds,
    /// zero for the cluster's default).
    ///
    /// Errors: `ENOENT` where there is no such object. A watcher that has not answered in time is no error: see
    /// [`Acknowledged::missing`].
    pub async fn notify(
        &self,
        name: impl Into<Bytes>,
        payload: impl Into<Bytes>,
        timeout: Duration,
    ) -> Result<Acknowledged, Error> {
        let subject = self.subject(name.into());
        match self.driver.shared.notify(subject, payload.into(), seconds(timeout)).await? {
            Answer::Notified { result, replies } => match Errno::from_result(result) {
                Some(errno) if errno != Errno::ETIMEDOUT => Err(errno.into()),
                _ => Ok(Acknowledged { replies: replies.replies, missing: replies.timeouts }),
            },
            Answer::Op(reply) => Err(reply.error().map_or_else(|| Error::Answer("no completion".into()), Error::from)),
            other => Err(Error::Answer(format!("{other:?}"))),
        }
    }

    /// Lists the watchers of an object.
    pub async fn watchers(&self, name: impl Into<Bytes>) -> Result<Vec<Watcher>, Error> {
        let outcome = self.operate(name, Operation::new().list_watchers()).await?;
        Ok(outcome.decode::<Watchers>(0)?.0)
    }
}

fn seconds(time: Duration) -> u32 {
    u32::try_from(time.as_millis().div_ceil(1000)).unwrap_or(u32::MAX)
}
