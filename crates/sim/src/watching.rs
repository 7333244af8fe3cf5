//! A client that watches objects, answers notifications, and notifies other watchers.

use bytes::Bytes;
use client::Error;
use client::objecter::{Answer, Event, Objecter, Request, Subject};
use reactor::sim::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;
use types::{PoolId, Utime};
use wire::basic::Locator;
use wire::messages::Op;
use wire::msgr::Messenger;

/// Number of objects that are watched.
pub const OBJECTS: u64 = 3;
/// Prefix of their names.
pub const PREFIX: &str = "watched-";
/// Time that watchers have for an answer.
pub const ANSWER_TIME: Duration = Duration::from_secs(10);
/// Timeouts of watches, in seconds. A watch that is silent for longer counts as dead. 0 stands for the OSDs' default of
/// 30 s.
const TIMEOUTS_S: [u32; 2] = [0, 12];
/// The OSDs' default timeout, for which 0 stands.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// A watcher: a client's global id, and the watch's cookie.
pub type Watcher = (u64, u64);

/// A request of a watching client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    Make { object: u64 },
    Watch { cookie: u64 },
    Unwatch { cookie: u64 },
    Notify { index: usize },
    Answer,
}

/// A watch as its client knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Watch {
    pub watcher: Watcher,
    pub object: u64,
    /// Time of silence after which OSDs may take the watch for dead.
    pub timeout: Duration,
    /// Time at which it was confirmed; time until which it certainly lasted; time from which on it certainly exists no
    /// more.
    pub since: Option<Duration>,
    pub until: Option<Duration>,
    pub gone: Option<Duration>,
    /// The cluster dropped it, so nobody knows how long it lasted.
    pub lost: bool,
}

/// A notification, and the answer that its sender got in the end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notification {
    pub id: u64,
    pub object: u64,
    pub asked: Duration,
    /// Nothing was wrong any more when it was sent, so every watcher can answer.
    pub is_calm: bool,
    pub answer: Option<NotifyOutcome>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotifyOutcome {
    pub at: Duration,
    pub result: i32,
    pub answered: BTreeSet<Watcher>,
    pub late: BTreeSet<Watcher>,
}

impl fmt::Display for Notification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "notification {} of {PREFIX}{}, asked at {:.6}", self.id, self.object, self.asked.as_secs_f64())?;
        match &self.answer {
            None => write!(f, ", not answered"),
            Some(NotifyOutcome { at, result, answered, late }) => {
                write!(f, ", done at {:.6} with {result}: {answered:?}, late {late:?}", at.as_secs_f64())
            }
        }
    }
}

/// Everything that a client knows of watches.
#[derive(Debug, Default)]
pub struct Witnessed {
    pub watches: BTreeMap<u64, Watch>,
    pub notifications: Vec<Notification>,
    /// Times at which the client's watches first got notifications: by notification and cookie.
    pub told: BTreeMap<(u64, u64), Duration>,
}

pub struct Watching {
    number: u64,
    rng: Rng,
    pause: Duration,
    /// Number of notifications still to send now, and number of those to send when all is calm.
    left: u64,
    calm_left: u64,
    last_cookie: u64,
    /// Objects that are yet to be watched.
    wanted: BTreeSet<u64>,
    /// Number of steps without an answer.
    open: usize,
    pub witnessed: Witnessed,
}

/// Everything that a request needs.
pub struct Link<'a, C> {
    pub objecter: &'a mut Objecter<C>,
    pub messenger: &'a mut Messenger,
    pub completion: fn(Step) -> C,
    pub pool: PoolId,
    pub now: Duration,
    pub world_time: Duration,
}

impl<C> Link<'_, C> {
    fn subject(&self, object: u64) -> Subject {
        Subject::Object { locator: Locator::pool(self.pool), name: format!("{PREFIX}{object}").into() }
    }

    fn submit(&mut self, object: u64, op: Op, step: Step) {
        let request = Request::new(self.subject(object), vec![op], Utime::ZERO);
        self.objecter.submit(request, (self.completion)(step), self.messenger, self.now);
    }
}

impl Watching {
    /// A client that sends `notifications` notifications, with pauses of `pause` on average.
    pub fn new(seed: u64, notifications: u64, pause: Duration) -> Watching {
        Watching {
            number: 0,
            rng: Rng::new(seed),
            pause,
            left: notifications,
            calm_left: 0,
            last_cookie: 0,
            wanted: BTreeSet::new(),
            open: 0,
            witnessed: Witnessed::default(),
        }
    }

    /// True if nothing is left to do and everything was answered.
    pub fn is_done(&self) -> bool {
        self.left == 0 && self.calm_left == 0 && self.is_steady()
    }

    /// True if the client watches all that it wants to watch, and waits for nothing.
    pub fn is_steady(&self) -> bool {
        self.open == 0 && self.wanted.is_empty()
    }

    pub fn start<C>(&mut self, number: u64, link: &mut Link<'_, C>) {
        self.number = number;
        for object in 0..OBJECTS {
            self.open += 1;
            link.submit(object, Op::create(false), Step::Make { object });
        }
    }

    /// Nothing is wrong any more: notifies the watchers of every object once more.
    pub fn be_calm(&mut self) {
        self.left = 0;
        self.calm_left = OBJECTS;
    }

    /// Does the next step. Returns the time to wait before the step after it.
    pub fn act<C>(&mut self, link: &mut Link<'_, C>) -> Duration {
        for object in std::mem::take(&mut self.wanted) {
            self.watch(object, link);
        }
        let standing = |watch: &&Watch| watch.since.is_some() && watch.until.is_none() && !watch.lost;
        let waits = self.witnessed.notifications.iter().any(|notification| notification.answer.is_none());
        if self.calm_left > 0 {
            if self.is_steady() {
                self.calm_left -= 1;
                self.notify(self.calm_left, true, link);
            }
        } else if self.left > 0 && !waits {
            let standing: Vec<u64> = self.witnessed.watches.values().filter(standing).map(|w| w.watcher.1).collect();
            if self.rng.one_in(6) && !standing.is_empty() {
                let cookie = standing[self.rng.below(standing.len() as u64) as usize];
                let watch = self.witnessed.watches.get_mut(&cookie).expect("it stands");
                // A watch that was not confirmed for longer may have been dropped meanwhile, and unwatching does not
                // tell so. OSDs' clocks run at rates of their own.
                let silent = link.objecter.watch_confirmed(cookie).map_or(Duration::MAX, |then| link.now - then);
                let unsure = silent.saturating_sub(watch.timeout * 9 / 10);
                watch.until = Some(link.world_time.saturating_sub(unsure));
                self.open += 1;
                let completion = (link.completion)(Step::Unwatch { cookie });
                link.objecter.unwatch(cookie, Some(completion), link.messenger, link.now);
            } else {
                let object = self.rng.below(OBJECTS);
                // An object that the client has watched exists.
                if self.witnessed.watches.values().any(|watch| watch.object == object) {
                    self.left -= 1;
                    self.notify(object, false, link);
                }
            }
        }
        self.pause / 2 + Duration::from_micros(self.rng.below(self.pause.as_micros() as u64 + 1))
    }

    fn watch<C>(&mut self, object: u64, link: &mut Link<'_, C>) {
        self.last_cookie += 1;
        let cookie = self.number * 10_000 + self.last_cookie;
        let watcher = (link.messenger.global_id(), cookie);
        let timeout_s = TIMEOUTS_S[self.rng.below(2) as usize];
        let timeout = if timeout_s == 0 { DEFAULT_TIMEOUT } else { Duration::from_secs(timeout_s.into()) };
        let watch = Watch { watcher, object, timeout, since: None, until: None, gone: None, lost: false };
        self.witnessed.watches.insert(cookie, watch);
        self.open += 1;
        let (subject, completion) = (link.subject(object), (link.completion)(Step::Watch { cookie }));
        link.objecter.watch(subject, cookie, timeout_s, completion, link.messenger, link.now);
    }

    fn notify<C>(&mut self, object: u64, is_calm: bool, link: &mut Link<'_, C>) {
        let index = self.witnessed.notifications.len();
        let id = self.number * 10_000 + index as u64;
        let notification = Notification { id, object, asked: link.world_time, is_calm, answer: None };
        tracing::info!("{notification}");
        self.witnessed.notifications.push(notification);
        self.open += 1;
        let payload = Bytes::copy_from_slice(&id.to_le_bytes());
        let (subject, completion) = (link.subject(object), (link.completion)(Step::Notify { index }));
        let seconds = ANSWER_TIME.as_secs() as u32;
        link.objecter.notify(subject, payload, seconds, completion, link.messenger, link.now);
    }

    /// Takes the answer to a step.
    ///
    /// Errors: a sentence about an answer that no correct cluster gives.
    pub fn done(&mut self, at: Duration, step: Step, result: Result<Answer, Error>) -> Result<(), String> {
        if step != Step::Answer {
            self.open -= 1;
        }
        let error = match &result {
            Ok(Answer::Op(reply)) => reply.error().map(Error::from),
            Ok(_) => None,
            Err(error) => Some(error.clone()),
        };
        match (step, error, result) {
            (Step::Make { object }, None, _) => drop(self.wanted.insert(object)),
            (Step::Watch { cookie }, None, _) => {
                self.witnessed.watches.get_mut(&cookie).expect("it was asked for").since = Some(at);
            }
            (Step::Unwatch { cookie }, None, _) => {
                let watch = self.witnessed.watches.get_mut(&cookie).expect("it was asked for");
                watch.gone = Some(at);
                self.wanted.insert(watch.object);
            }
            // The watch had been dropped just before.
            (Step::Unwatch { cookie }, Some(_), _) => {
                let watch = self.witnessed.watches.get_mut(&cookie).expect("it was asked for");
                watch.lost = true;
                self.wanted.insert(watch.object);
            }
            (Step::Notify { index }, None, Ok(Answer::Notified { result, replies })) => {
                let notification = &mut self.witnessed.notifications[index];
                let (answered, late) = (replies.replies.into_keys().collect(), replies.timeouts.into_iter().collect());
                notification.answer = Some(NotifyOutcome { at, result, answered, late });
                tracing::info!("{notification}");
            }
            // The watch may have ended while the answer was on its way.
            (Step::Answer, _, _) => {}
            (step, error, result) => return Err(format!("{step:?} is answered by {result:?} ({error:?})")),
        }
        Ok(())
    }

    /// Takes an event of a watch.
    pub fn event<C>(&mut self, event: Event, link: &mut Link<'_, C>) -> Result<(), String> {
        match event {
            Event::Notified { cookie, notify_id, payload, .. } => {
                let id = payload[..].try_into().map(u64::from_le_bytes);
                let id = id.map_err(|_| format!("watch {cookie} is told of {payload:?}, which nobody sent"))?;
                let watch = self.witnessed.watches.get(&cookie).ok_or("told about a watch that nobody asked for")?;
                tracing::info!("watch {cookie} is told of notification {id} ({notify_id})");
                self.witnessed.told.entry((id, cookie)).or_insert(link.world_time);
                link.submit(watch.object, Op::notify_ack(notify_id, cookie, payload), Step::Answer);
            }
            // The watch lasted all the time.
            Event::Reconnected { .. } => {}
            Event::WatchLost { cookie, why } => {
                let watch = self.witnessed.watches.get_mut(&cookie).ok_or("lost a watch that nobody asked for")?;
                tracing::info!("watch {cookie} of {PREFIX}{} is lost: {why}", watch.object);
                watch.lost = true;
                self.wanted.insert(watch.object);
            }
        }
        Ok(())
    }
}
