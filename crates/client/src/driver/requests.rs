//! Requests that users make of the cores, each with an answer to wait for.

use super::{Cores, EVENTS_MAX, Pending, Shared};
use crate::error::Error;
use crate::objecter::{Answer, Event, MonRequest, Request, Subject};
use bytes::Bytes;
use tokio::sync::mpsc;

impl Shared {
    pub async fn submit(&self, request: Request) -> Result<Answer, Error> {
        self.request(|cores, completion, now| {
            let Cores { messenger, objecter, .. } = cores;
            objecter.submit(request, completion, messenger, now);
        })
        .await
    }

    pub async fn ask(&self, request: MonRequest) -> Result<Answer, Error> {
        self.request(|cores, completion, now| {
            let Cores { messenger, objecter, .. } = cores;
            objecter.ask(request, completion, messenger, now);
        })
        .await
    }

    pub async fn tell(&self, osd: types::OsdId, json: &str) -> Result<Answer, Error> {
        self.request(|cores, completion, now| {
            let Cores { messenger, objecter, .. } = cores;
            objecter.tell(osd, json, completion, messenger, now);
        })
        .await
    }

    /// Begins to watch an object. Returns the cookie, the channel of the watcher's events, and the pending answer.
    pub fn watch(&self, subject: Subject, timeout_s: u32) -> (u64, mpsc::Receiver<Event>, Pending) {
        let (sender, receiver) = mpsc::channel(EVENTS_MAX);
        let mut cookie = 0;
        let answer = self.begin(|cores, completion, now| {
            cores.last_cookie += 1;
            cookie = cores.last_cookie;
            cores.watchers.insert(cookie, sender);
            let Cores { messenger, objecter, .. } = cores;
            objecter.watch(subject, cookie, timeout_s, completion, messenger, now);
        });
        (cookie, receiver, answer)
    }

    /// Ends a watch, and waits until the cluster knows.
    pub async fn unwatch(&self, cookie: u64) -> Result<Answer, Error> {
        self.request(|cores, completion, now| {
            let Cores { messenger, objecter, watchers, .. } = cores;
            watchers.remove(&cookie);
            objecter.unwatch(cookie, Some(completion), messenger, now);
        })
        .await
    }

    /// Ends a watch without waiting for an answer.
    pub fn forget_watch(&self, cookie: u64) {
        self.with(|cores, now| {
            let Cores { messenger, objecter, watchers, closed, .. } = cores;
            if watchers.remove(&cookie).is_some() && !*closed {
                objecter.unwatch(cookie, None, messenger, now);
            }
        });
    }

    /// Time since the cluster confirmed a watch, as [`Objecter::watch_confirmed`](crate::objecter::Objecter) counts it.
    pub fn watch_confirmed_for(&self, cookie: u64) -> Option<std::time::Duration> {
        self.with(|cores, now| cores.objecter.watch_confirmed(cookie).map(|then| now.saturating_sub(then)))
    }

    pub async fn notify(&self, subject: Subject, payload: Bytes, timeout_s: u32) -> Result<Answer, Error> {
        self.request(|cores, completion, now| {
            let Cores { messenger, objecter, .. } = cores;
            objecter.notify(subject, payload, timeout_s, completion, messenger, now);
        })
        .await
    }

    pub async fn wait_for_map(&self, epoch: types::Epoch) -> Result<Answer, Error> {
        self.request(|cores, completion, _| cores.objecter.wait_for_map(epoch, completion)).await
    }
}
