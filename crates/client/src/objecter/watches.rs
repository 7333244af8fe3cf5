//! Watches and notifications.
//!
//! A watch is registered once. From then on the objecter pings it every few seconds, and reconnects it where its
//! session is lost or another OSD leads its placement group. A watch that the cluster has dropped meanwhile is reported
//! as lost; its owner decides how to go on.

use super::placement::{Placement, Resend, Step, Target};
use super::request::Owner;
use super::{Answer, Objecter, Request, Sessions, Subject};
use crate::error::Error;
use bytes::Bytes;
use std::time::Duration;
use types::{Errno, Utime};
use wire::messages::{self as msg, NotifyReplies, Op, OpFlags, Watch as WatchOp, WatchNotifyOp};
use wire::msgr::SessionId;
use wire::{Decode, DecodeError, Envelope, Message};

/// Interval of pings, by which an OSD is asked if it still knows a watch. OSDs drop a watch that is silent for its
/// timeout, 30 s by default.
const PING_EVERY: Duration = Duration::from_secs(5);

/// An event of a watch that is not the answer to a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A client notifies the watchers of an object, and waits for an acknowledgement.
    Notified { cookie: u64, notify_id: u64, notifier: u64, payload: Bytes },
    /// The watch is reconnected. The cluster knew it all the time, but notifications that came meanwhile may have timed
    /// out before the watcher was told.
    Reconnected { cookie: u64 },
    /// The cluster has dropped the watch, or does not take it any more.
    WatchLost { cookie: u64, why: Errno },
}

/// A request of the objecter itself about a watch.
#[derive(Debug)]
pub(super) enum WatchStep<C> {
    Register(C),
    Reconnect,
    Ping,
}

pub(super) struct WatchState {
    subject: Subject,
    /// 0 for the OSD's default.
    timeout_s: u32,
    /// Session and target by which the watch is connected; `None` while it is not.
    at: Option<(SessionId, Target)>,
    /// A step is under way.
    busy: bool,
    /// Time when the last step began, and when the last step began that the cluster confirmed.
    begun: Duration,
    confirmed: Option<Duration>,
}

impl WatchState {
    fn ping_at(&self) -> Duration {
        self.begun + PING_EVERY
    }

    /// Applies a new map. In every new interval OSDs forget the sessions of their watches, even if the primary stays.
    pub(super) fn follow_map(&mut self, placement: &mut Placement, step: Step) {
        let Some((_, target)) = &self.at else { return };
        let next = placement.target(&self.subject);
        if step == Step::Skipped || target.is_left_for(next.as_ref(), Resend::NewInterval) {
            self.at = None;
        }
    }
}

/// Request of a watch operation. Flags that stop writes do not concern it, because watches hinder no writer.
fn watch_request(subject: Subject, op: Op) -> Request {
    let mut request = Request::new(subject, vec![op], Utime::ZERO);
    request.flags = OpFlags::FULL_TRY;
    request
}

impl<C> Objecter<C> {
    /// Begins to watch an object, which must exist. `cookie` is chosen by the caller and not in use yet;
    /// [`Objecter::poll_event`] gives it with each notification.
    pub fn watch(
        &mut self,
        subject: Subject,
        cookie: u64,
        timeout_s: u32,
        completion: C,
        link: &mut impl Sessions,
        now: Duration,
    ) {
        let watch =
            WatchState { subject: subject.clone(), timeout_s, at: None, busy: true, begun: now, confirmed: None };
        let before = self.watches.insert(cookie, watch);
        assert!(before.is_none(), "watch cookie {cookie} is in use");
        let request = watch_request(subject, Op::watch(cookie, WatchOp::WATCH, timeout_s));
        self.submit_as(request, Owner::Watch { cookie, step: WatchStep::Register(completion) }, link, now);
    }

    /// Ends a watch. `completion` is `None` where no user waits for the answer.
    pub fn unwatch(&mut self, cookie: u64, completion: Option<C>, link: &mut impl Sessions, now: Duration) {
        let owner = completion.map_or(Owner::Nobody, Owner::User);
        let Some(watch) = self.watches.remove(&cookie) else {
            return self.answer_owner(owner, Err(Errno::ENOTCONN.into()));
        };
        self.submit_as(watch_request(watch.subject, Op::watch(cookie, WatchOp::UNWATCH, 0)), owner, link, now);
    }

    /// Time when the latest step began by which the cluster confirmed a watch; the watch is valid for its timeout from
    /// then on. `None` for a watch that was not confirmed yet, is known to be lost, or does not exist.
    pub fn watch_confirmed(&self, cookie: u64) -> Option<Duration> {
        self.watches.get(&cookie)?.confirmed
    }

    /// Notifies all watchers of an object. Done when all have acknowledged or `timeout_s` has passed.
    pub fn notify(
        &mut self,
        subject: Subject,
        payload: Bytes,
        timeout_s: u32,
        completion: C,
        link: &mut impl Sessions,
        now: Duration,
    ) {
        // The completion comes back with the cookie.
        let cookie = self.last_tid + 1;
        let request = Request::new(subject, vec![Op::notify(cookie, timeout_s, payload)], Utime::ZERO);
        self.submit(request, completion, link, now);
        debug_assert_eq!(cookie, self.last_tid, "a notification's cookie is its transaction id");
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Handles an OSD's message about a watch or a notification.
    pub(super) fn watch_notify(&mut self, session: SessionId, envelope: &Envelope) -> Result<(), DecodeError> {
        let message = msg::WatchNotify::open(envelope)?;
        if !self.by_session.contains_key(&session) {
            return Ok(());
        }
        let cookie = message.cookie;
        match message.op {
            WatchNotifyOp::Notify if self.watches.contains_key(&cookie) => {
                let (notify_id, notifier) = (message.notify_id, message.notifier_gid);
                self.events.push_back(Event::Notified { cookie, notify_id, notifier, payload: message.payload });
            }
            WatchNotifyOp::Disconnect if self.watches.remove(&cookie).is_some() => {
                self.events.push_back(Event::WatchLost { cookie, why: Errno::ENOTCONN });
            }
            WatchNotifyOp::Notify | WatchNotifyOp::Disconnect => {}
            WatchNotifyOp::NotifyComplete => {
                let notifies = self.ops.get(&cookie).is_some_and(|op| op.request.is_notify());
                if notifies {
                    let bytes = message.replies.into_bytes();
                    let replies = match bytes.is_empty() {
                        true => NotifyReplies::default(),
                        false => NotifyReplies::decode(&mut wire::Reader::shared(&bytes))?,
                    };
                    self.complete(cookie, Ok(Answer::Notified { result: message.result, replies }));
                }
            }
        }
        Ok(())
    }

    /// Handles the end of a step. `place`: session and target by which it was carried out.
    pub(super) fn watch_stepped(
        &mut self,
        cookie: u64,
        step: WatchStep<C>,
        place: Option<(SessionId, Target)>,
        result: Result<Answer, Error>,
    ) {
        self.watches_due = true;
        let error = match &result {
            Ok(Answer::Op(reply)) => reply.error().map(Error::from),
            Ok(_) => None,
            Err(error) => Some(error.clone()),
        };
        if let Some(watch) = self.watches.get_mut(&cookie) {
            watch.busy = false;
            if error.is_none() {
                watch.confirmed = Some(watch.begun);
            }
            match (&error, &step) {
                (None, WatchStep::Ping) => {}
                (None, WatchStep::Register(_)) => watch.at = place,
                (None, WatchStep::Reconnect) => {
                    watch.at = place;
                    self.events.push_back(Event::Reconnected { cookie });
                }
                // The OSD forgot the connection of a watch whose ping fails, and takes a new one. A reconnection that
                // timed out is tried again.
                (Some(_), WatchStep::Ping) | (Some(Error::TimedOut { .. }), WatchStep::Reconnect) => watch.at = None,
                (Some(error), WatchStep::Reconnect) => {
                    let why = error.errno();
                    self.watches.remove(&cookie);
                    self.events.push_back(Event::WatchLost { cookie, why });
                }
                (Some(_), WatchStep::Register(_)) => drop(self.watches.remove(&cookie)),
            }
        }
        if let WatchStep::Register(completion) = step {
            self.finish(completion, result);
        }
    }

    /// Reconnects watches that need it, and pings those that are due.
    pub(super) fn look_after_watches(&mut self, link: &mut impl Sessions, now: Duration) {
        self.watches_due = false;
        if self.watches.is_empty() {
            return;
        }
        if self.placement.is_none() {
            return;
        }
        let mut steps = Vec::new();
        for (cookie, watch) in self.watches.iter_mut().filter(|(_, watch)| !watch.busy) {
            let stands = watch.at.as_ref().is_some_and(|(session, _)| self.by_session.contains_key(session));
            let (what, step) = match stands {
                false => (WatchOp::RECONNECT, WatchStep::Reconnect),
                true if watch.ping_at() <= now => (WatchOp::PING, WatchStep::Ping),
                true => continue,
            };
            watch.busy = true;
            watch.begun = now;
            let request = watch_request(watch.subject.clone(), Op::watch(*cookie, what, watch.timeout_s));
            steps.push((request, Owner::Watch { cookie: *cookie, step }));
        }
        for (request, owner) in steps {
            self.submit_as(request, owner, link, now);
        }
    }

    /// The time when the next ping of a watch is due.
    pub(super) fn watches_wake(&self) -> Option<Duration> {
        self.watches.values().filter(|watch| !watch.busy).map(WatchState::ping_at).min()
    }
}
