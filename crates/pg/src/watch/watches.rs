//! Watches and notifications of a group's objects, as the primary keeps them in memory.

use super::{WatchInfo, WatchView};
use bytes::Bytes;
use mutant::Mutant;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{EntityName, Epoch, Errno, ObjectId};
use wire::messages::{NotifyReplies, WatchNotify, WatchNotifyOp};
use wire::msgr::SessionId;
use wire::{Encode, EntityAddr, Rope, Target};

/// Memory of a notification beside its payload and the answers to it, and memory for each watch whose answer is
/// awaited.
const NOTIFY_BYTES: usize = 512;
const AWAITED_BYTES: usize = 64;

/// The cookie of a watch, and the client that chose it.
pub(crate) type WatchKey = (u64, EntityName);

/// Something to tell a client.
pub(crate) type Told = (SessionId, WatchNotify);

#[derive(Clone, Debug)]
struct Watch {
    timeout: Duration,
    addr: EntityAddr,
    /// Session over which the client can be reached.
    session: Option<SessionId>,
    /// Time from which on the client is taken for gone. `None`: not as long as its session lasts.
    deadline: Option<Duration>,
    /// Time when its removal was asked for last.
    removal_asked: Option<Duration>,
}

impl Watch {
    fn is_overdue(&self, now: Duration) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }
}

#[derive(Debug)]
struct Notify {
    object: ObjectId,
    session: SessionId,
    notifier: EntityName,
    /// Cookie of the notifier.
    cookie: u64,
    version: u64,
    payload: Bytes,
    deadline: Duration,
    /// Watches whose answer is awaited.
    awaited: BTreeSet<WatchKey>,
    replies: BTreeMap<(u64, u64), Bytes>,
    /// Memory that the notification takes, in bytes.
    held_bytes: usize,
}

/// A notification as its client asks for it.
#[derive(Debug)]
pub(crate) struct NotifyRequest {
    pub id: u64,
    pub session: SessionId,
    pub notifier: EntityName,
    pub cookie: u64,
    /// Version of the object, as clients see it.
    pub version: u64,
    pub timeout: Duration,
    pub payload: Bytes,
}

/// All watches and notifications of a group.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    objects: BTreeMap<ObjectId, BTreeMap<WatchKey, Watch>>,
    notifies: BTreeMap<u64, Notify>,
    /// Count of the notifications that there were.
    notify_count: u32,
    /// Memory that the notifications take, in bytes.
    held_bytes: usize,
    /// Count of the watches that this primary has removed, over all intervals.
    removals: i32,
}

fn watcher_id(&(cookie, client): &WatchKey) -> (u64, u64) {
    (client.num as u64, cookie)
}

impl Notify {
    fn message(&self, id: u64, op: WatchNotifyOp, cookie: u64) -> WatchNotify {
        WatchNotify {
            op,
            cookie,
            version: self.version,
            notify_id: id,
            payload: Bytes::new(),
            result: 0,
            notifier_gid: self.notifier.num as u64,
            replies: Rope::new(),
        }
    }

    fn to_watcher(&self, id: u64, key: &WatchKey) -> WatchNotify {
        WatchNotify { payload: self.payload.clone(), ..self.message(id, WatchNotifyOp::Notify, key.0) }
    }

    fn completion(self, id: u64, timed_out: bool) -> Told {
        let message = self.message(id, WatchNotifyOp::NotifyComplete, self.cookie);
        let timeouts = self.awaited.iter().map(watcher_id).collect();
        let replies = NotifyReplies { replies: self.replies, timeouts }.to_vec(Target::default()).into();
        let result = if timed_out { Errno::ETIMEDOUT.as_result() } else { 0 };
        (self.session, WatchNotify { result, replies, ..message })
    }
}

impl Watches {
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.notifies.is_empty()
    }

    /// Returns the memory that notifications take: their payloads, and the answers that have come.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Returns the memory that the largest notification takes; 0: there is none.
    pub fn largest_bytes(&self) -> usize {
        self.notifies.values().map(|notify| notify.held_bytes).max().unwrap_or(0)
    }

    /// Returns the id of the next notification: it is never given again by this start of this OSD.
    pub fn next_notify_id(&self, epoch: Epoch) -> u64 {
        u64::from(epoch.0) << 32 | u64::from(self.notify_count.wrapping_add(1))
    }

    /// Forgets all watches and notifications: clients connect again, and ask again.
    pub fn interval_ended(&mut self) {
        *self = Watches { notify_count: self.notify_count, removals: self.removals, ..Watches::default() };
    }

    /// Returns the number of the next removal of a watch.
    pub fn next_removal(&mut self) -> i32 {
        self.removals = self.removals.wrapping_add(1);
        self.removals
    }

    /// Takes over the watchers that the object information names. Watchers that are not known yet have not connected in
    /// this interval.
    pub fn learn(
        &mut self,
        object: &ObjectId,
        watchers: &BTreeMap<WatchKey, WatchInfo>,
        is_locked_out: impl Fn(&EntityAddr) -> bool,
        now: Duration,
    ) {
        if watchers.is_empty() || mutant::is(Mutant::WatchesNotLearned) {
            return;
        }
        let known = self.objects.entry(object.clone()).or_default();
        for (key, info) in watchers {
            known.entry(*key).or_insert_with(|| {
                let timeout = Duration::from_secs(info.timeout_s.into());
                let deadline = if is_locked_out(&info.addr) { now } else { now + timeout };
                let (session, deadline) = (None, Some(deadline));
                Watch { timeout, addr: info.addr, session, deadline, removal_asked: None }
            });
        }
    }

    /// Returns all watches, as operators see them.
    pub fn views(&self) -> impl Iterator<Item = WatchView> {
        self.objects.iter().flat_map(|(object, watches)| {
            watches.iter().map(|((cookie, watcher), watch)| WatchView {
                object: object.clone(),
                watcher: *watcher,
                cookie: *cookie,
                info: WatchInfo {
                    timeout_s: u32::try_from(watch.timeout.as_secs()).unwrap_or(u32::MAX),
                    addr: watch.addr,
                },
            })
        })
    }

    /// Returns the objects that are watched.
    pub fn objects(&self) -> Vec<ObjectId> {
        self.objects.keys().cloned().collect()
    }

    /// Ends watches that the object information does not name: `watchers` are all that it names. Their clients are told
    /// where they are connected.
    pub fn end_others(&mut self, object: &ObjectId, watchers: &BTreeMap<WatchKey, WatchInfo>) -> Vec<Told> {
        let known = self.objects.get(object).into_iter().flat_map(BTreeMap::keys);
        let ended: Vec<WatchKey> = known.filter(|key| !watchers.contains_key(key)).copied().collect();
        ended.iter().flat_map(|key| self.end(object, key, true)).collect()
    }

    /// Removals that were asked for may have been dropped: they are asked for again.
    pub fn removals_dropped(&mut self) {
        let watches = self.objects.values_mut().flat_map(BTreeMap::values_mut);
        watches.for_each(|watch| watch.removal_asked = None);
    }

    /// Cookies of the client's watches of the object that are connected over this session.
    pub fn connected(&self, object: &ObjectId, client: EntityName, session: SessionId) -> Vec<u64> {
        let Some(watches) = self.objects.get(object) else { return Vec::new() };
        let own = |(key, watch): &(&WatchKey, &Watch)| key.1 == client && watch.session == Some(session);
        watches.iter().filter(own).map(|((cookie, _), _)| *cookie).collect()
    }

    /// Notes that a client watches over `session`, or over none if that has ended meanwhile. The client is told what it
    /// has not answered yet.
    pub fn connect(
        &mut self,
        object: &ObjectId,
        key: WatchKey,
        info: WatchInfo,
        session: Option<SessionId>,
        pings: bool,
        now: Duration,
    ) -> Vec<Told> {
        let timeout = Duration::from_secs(info.timeout_s.into());
        let new = Watch { timeout, addr: info.addr, session: None, deadline: None, removal_asked: None };
        let watch = self.objects.entry(object.clone()).or_default().entry(key).or_insert(new);
        (watch.session, watch.removal_asked) = (session, None);
        watch.deadline = (pings || session.is_none()).then_some(now + watch.timeout);
        let Some(session) = session else { return Vec::new() };
        let awaited =
            self.notifies.iter().filter(|(_, notify)| notify.object == *object && notify.awaited.contains(&key));
        awaited.map(|(id, notify)| (session, notify.to_watcher(*id, &key))).collect()
    }

    pub fn ping(&mut self, object: &ObjectId, key: &WatchKey, now: Duration) {
        if let Some(watch) = self.objects.get_mut(object).and_then(|watches| watches.get_mut(key)) {
            (watch.deadline, watch.removal_asked) = (Some(now + watch.timeout), None);
        }
    }

    /// Notes that clients of this session are reached no more.
    pub fn session_closed(&mut self, session: SessionId, now: Duration) {
        for watch in self.objects.values_mut().flat_map(BTreeMap::values_mut) {
            if watch.session == Some(session) {
                watch.session = None;
                watch.deadline = Some(now + watch.timeout);
            }
        }
    }

    /// Ends a watch. If its client is to be `told`, it hears so where it is connected.
    pub fn end(&mut self, object: &ObjectId, key: &WatchKey, told: bool) -> Vec<Told> {
        let Some(watches) = self.objects.get_mut(object) else { return Vec::new() };
        let Some(watch) = watches.remove(key) else { return Vec::new() };
        if watches.is_empty() {
            self.objects.remove(object);
        }
        let mut out = Vec::new();
        if let Some(session) = watch.session.filter(|_| told) {
            let message = WatchNotify {
                op: WatchNotifyOp::Disconnect,
                cookie: key.0,
                version: 0,
                notify_id: 0,
                payload: Bytes::new(),
                result: 0,
                notifier_gid: 0,
                replies: Rope::new(),
            };
            out.push((session, message));
        }
        let awaiting = |(_, notify): &(&u64, &mut Notify)| notify.object == *object && notify.awaited.contains(key);
        let concerned: Vec<u64> = self.notifies.iter_mut().filter(awaiting).map(|(id, _)| *id).collect();
        for id in concerned {
            self.notifies.get_mut(&id).expect("just seen").awaited.remove(key);
            out.extend(self.complete_if_answered(id));
        }
        out
    }

    /// Tells all watchers of the object.
    pub fn notify(&mut self, object: &ObjectId, request: NotifyRequest, now: Duration) -> Vec<Told> {
        let NotifyRequest { id, session, notifier, cookie, version, timeout, payload } = request;
        self.notify_count = self.notify_count.wrapping_add(1);
        let watches = self.objects.get(object);
        let is_awaited = |watch: &Watch| watch.session.is_some() || !mutant::is(Mutant::AbsentPassedOver);
        let awaited: BTreeSet<WatchKey> =
            watches.into_iter().flatten().filter(|(_, watch)| is_awaited(watch)).map(|(key, _)| *key).collect();
        let held_bytes = NOTIFY_BYTES + payload.len() + awaited.len() * AWAITED_BYTES;
        self.held_bytes += held_bytes;
        let notify = Notify {
            object: object.clone(),
            session,
            notifier,
            cookie,
            version,
            payload,
            deadline: now + timeout,
            awaited,
            replies: BTreeMap::new(),
            held_bytes,
        };
        let connected = |(key, watch): (&WatchKey, &Watch)| Some((watch.session?, notify.to_watcher(id, key)));
        let mut out: Vec<Told> = watches.into_iter().flatten().filter_map(connected).collect();
        self.notifies.insert(id, notify);
        out.extend(self.complete_if_answered(id));
        out
    }

    /// Takes a client's answer, for one of its watches or for all.
    pub fn answered(
        &mut self,
        object: &ObjectId,
        id: u64,
        (cookie, client): (Option<u64>, EntityName),
        reply: &Bytes,
    ) -> Option<Told> {
        let notify = self.notifies.get_mut(&id).filter(|notify| notify.object == *object)?;
        let is_meant = |key: &WatchKey| key.1 == client && cookie.is_none_or(|cookie| cookie == key.0);
        let answering: Vec<WatchKey> = notify.awaited.iter().filter(|key| is_meant(key)).copied().collect();
        if !answering.is_empty() {
            notify.held_bytes += reply.len();
            self.held_bytes += reply.len();
        }
        for key in answering {
            notify.awaited.remove(&key);
            notify.replies.insert(watcher_id(&key), reply.clone());
        }
        self.complete_if_answered(id)
    }

    fn complete_if_answered(&mut self, id: u64) -> Option<Told> {
        self.notifies.get(&id).filter(|notify| notify.awaited.is_empty())?;
        self.complete(id, false)
    }

    fn complete(&mut self, id: u64, timed_out: bool) -> Option<Told> {
        let notify = self.notifies.remove(&id)?;
        self.held_bytes -= notify.held_bytes;
        Some(notify.completion(id, timed_out))
    }

    /// Ends the notification that takes most of memory, as if its time were up.
    pub fn end_largest(&mut self) -> Option<Told> {
        let (id, _) = self.notifies.iter().max_by_key(|(_, notify)| notify.held_bytes)?;
        self.complete(*id, true)
    }

    /// Ends notifications whose time is up.
    pub fn time_out(&mut self, now: Duration) -> Vec<Told> {
        let late = self.notifies.iter().filter(|(_, notify)| notify.deadline <= now);
        let late: Vec<u64> = late.map(|(id, _)| *id).collect();
        late.into_iter().filter_map(|id| self.complete(id, true)).collect()
    }

    /// Treats clients that are locked out as silent for too long.
    pub fn lock_out(&mut self, is_locked_out: impl Fn(&EntityAddr) -> bool, now: Duration) {
        for watch in self.objects.values_mut().flat_map(BTreeMap::values_mut) {
            if is_locked_out(&watch.addr) {
                watch.deadline = Some(now);
            }
        }
    }

    /// Returns the watches that are to be removed now, as their clients are silent. Each is given again only after a
    /// while.
    pub fn overdue(&mut self, now: Duration) -> Vec<(ObjectId, WatchKey)> {
        const ASK_AGAIN: Duration = Duration::from_secs(30);
        let mut overdue = Vec::new();
        for (object, watches) in &mut self.objects {
            for (key, watch) in watches {
                if watch.is_overdue(now) && watch.removal_asked.is_none_or(|at| now >= at + ASK_AGAIN) {
                    watch.removal_asked = Some(now);
                    overdue.push((object.clone(), *key));
                }
            }
        }
        overdue
    }

    /// Returns true if the watch's client is still silent.
    pub fn is_overdue(&self, object: &ObjectId, key: &WatchKey, now: Duration) -> bool {
        let watch = self.objects.get(object).and_then(|watches| watches.get(key));
        watch.is_some_and(|watch| watch.is_overdue(now))
    }
}
