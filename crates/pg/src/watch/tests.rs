//! Watches and notifications of one object against what must hold of each notification by itself.

use super::WatchInfo;
use super::watches::{NotifyRequest, Told, Watches};
use bytes::Bytes;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{EntityName, Epoch, Errno, ObjectId, PoolId};
use wire::messages::{NotifyReplies, WatchNotifyOp};
use wire::msgr::SessionId;
use wire::{Decode, EntityAddr};

const TIMEOUT_S: u32 = 5;
const NOTIFIER: SessionId = SessionId(1000);

#[derive(Clone, Debug)]
enum Event {
    /// Connects over a new session.
    Connect {
        client: u64,
        cookie: u64,
    },
    Close {
        client: u64,
    },
    Ping {
        client: u64,
        cookie: u64,
    },
    End {
        client: u64,
        cookie: u64,
    },
    Notify {
        timeout_s: u64,
    },
    /// Answers the notification of this number.
    Ack {
        client: u64,
        cookie: u64,
        nth: usize,
    },
    Pass {
        seconds: u64,
    },
    /// There is no room for all notifications.
    EndLargest,
}

fn event() -> impl Strategy<Value = Event> {
    let (client, cookie) = (0..3u64, 0..2u64);
    prop_oneof![
        3 => (client.clone(), cookie.clone()).prop_map(|(client, cookie)| Event::Connect { client, cookie }),
        1 => client.clone().prop_map(|client| Event::Close { client }),
        2 => (client.clone(), cookie.clone()).prop_map(|(client, cookie)| Event::Ping { client, cookie }),
        1 => (client.clone(), cookie.clone()).prop_map(|(client, cookie)| Event::End { client, cookie }),
        2 => (1..9u64).prop_map(|timeout_s| Event::Notify { timeout_s }),
        4 => (client, cookie, 0..6usize).prop_map(|(client, cookie, nth)| Event::Ack { client, cookie, nth }),
        2 => (1..4u64).prop_map(|seconds| Event::Pass { seconds }),
        1 => Just(Event::EndLargest),
    ]
}

/// One notification, as the model has seen it.
#[derive(Default)]
struct Seen {
    deadline: Duration,
    /// Watches that were there when it came, and have neither answered nor ended since.
    awaited: BTreeSet<(u64, u64)>,
    answered: BTreeSet<(u64, u64)>,
    told: BTreeSet<(u64, u64)>,
    completed: bool,
}

#[derive(Default)]
struct Model {
    watches: Watches,
    now: Duration,
    sessions: u64,
    /// Watches by client and cookie: the session of each, and when it was heard of last.
    known: BTreeMap<(u64, u64), (Option<SessionId>, Duration)>,
    notifies: BTreeMap<u64, Seen>,
    /// One is ended though there is time left.
    ending: bool,
}

fn object() -> ObjectId {
    ObjectId::head(PoolId(1), 7, b"", b"x")
}

fn key(client: u64, cookie: u64) -> (u64, EntityName) {
    (cookie, EntityName::client(client))
}

impl Model {
    fn hear(&mut self, told: Vec<Told>) {
        for (session, message) in told {
            match message.op {
                WatchNotifyOp::Notify => {
                    let open = |(_, (at, _)): &(&(u64, u64), &(Option<SessionId>, Duration))| *at == Some(session);
                    let mut watches = self.known.iter().filter(open).map(|(watch, _)| *watch);
                    let watch =
                        watches.find(|(_, cookie)| *cookie == message.cookie).expect("it watches over that session");
                    let seen = self.notifies.get_mut(&message.notify_id).expect("somebody notified");
                    assert!(!seen.completed && seen.awaited.contains(&watch));
                    seen.told.insert(watch);
                }
                WatchNotifyOp::NotifyComplete => {
                    assert_eq!(session, NOTIFIER);
                    let seen = self.notifies.get_mut(&message.notify_id).expect("somebody notified");
                    assert!(!std::mem::replace(&mut seen.completed, true), "completed twice");
                    let replies = NotifyReplies::from_slice(&message.replies.to_vec()).expect("well-formed");
                    assert_eq!(replies.replies.keys().copied().collect::<BTreeSet<_>>(), seen.answered);
                    assert_eq!(replies.timeouts.into_iter().collect::<BTreeSet<_>>(), seen.awaited);
                    let timed_out = message.result == Errno::ETIMEDOUT.as_result();
                    assert_eq!(timed_out, !seen.awaited.is_empty());
                    assert!(!timed_out || seen.deadline <= self.now || self.ending, "there was time left");
                }
                WatchNotifyOp::Disconnect => panic!("nobody asks for that here"),
            }
        }
    }

    fn end(&mut self, watch: (u64, u64)) {
        self.known.remove(&watch);
        for seen in self.notifies.values_mut().filter(|seen| !seen.completed) {
            seen.awaited.remove(&watch);
        }
        let told = self.watches.end(&object(), &key(watch.0, watch.1), false);
        self.hear(told);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Connect { client, cookie } => {
                self.sessions += 1;
                let session = SessionId(self.sessions);
                let info = WatchInfo { timeout_s: TIMEOUT_S, addr: EntityAddr::default() };
                self.known.insert((client, cookie), (Some(session), self.now));
                let told = self.watches.connect(&object(), key(client, cookie), info, Some(session), true, self.now);
                let awaiting = |seen: &&Seen| !seen.completed && seen.awaited.contains(&(client, cookie));
                assert_eq!(
                    told.len(),
                    self.notifies.values().filter(awaiting).count(),
                    "it hears what it has not answered"
                );
                self.hear(told);
            }
            Event::Close { client } => {
                for (_, (session, heard)) in self.known.iter_mut().filter(|((owner, _), _)| *owner == client) {
                    if let Some(session) = session.take() {
                        *heard = self.now;
                        self.watches.session_closed(session, self.now);
                    }
                }
            }
            Event::Ping { client, cookie } => {
                if let Some((Some(_), heard)) = self.known.get_mut(&(client, cookie)) {
                    *heard = self.now;
                    self.watches.ping(&object(), &key(client, cookie), self.now);
                }
            }
            Event::End { client, cookie } if self.known.contains_key(&(client, cookie)) => self.end((client, cookie)),
            Event::End { .. } => {}
            Event::Notify { timeout_s } => {
                let (id, timeout) = (self.watches.next_notify_id(Epoch(3)), Duration::from_secs(timeout_s));
                let awaited = self.known.keys().copied().collect();
                let seen = Seen { deadline: self.now + timeout, awaited, ..Seen::default() };
                assert!(self.notifies.insert(id, seen).is_none(), "a number is given once");
                let (session, notifier) = (NOTIFIER, EntityName::client(99));
                let payload = Bytes::from(vec![1; 1000 * timeout_s as usize]);
                let request = NotifyRequest { id, session, notifier, cookie: 5, version: 1, timeout, payload };
                let told = self.watches.notify(&object(), request, self.now);
                self.hear(told);
            }
            Event::Ack { client, cookie, nth } => {
                let Some(id) = self.notifies.keys().nth(nth).copied() else { return };
                let seen = self.notifies.get_mut(&id).expect("just seen");
                if !seen.completed && seen.awaited.remove(&(client, cookie)) {
                    seen.answered.insert((client, cookie));
                }
                let by = (Some(cookie), EntityName::client(client));
                let told = self.watches.answered(&object(), id, by, &Bytes::from_static(b"answer"));
                self.hear(told.into_iter().collect());
            }
            Event::EndLargest => {
                self.ending = true;
                let open = self.notifies.values().filter(|seen| !seen.completed).count();
                let (before, largest) = (self.watches.held_bytes(), self.watches.largest_bytes());
                let told = self.watches.end_largest();
                assert_eq!((told.is_some(), largest > 1000), (open > 0, open > 0));
                assert_eq!(before - self.watches.held_bytes(), largest);
                self.hear(told.into_iter().collect());
                self.ending = false;
            }
            Event::Pass { seconds } => {
                self.now += Duration::from_secs(seconds);
                let told = self.watches.time_out(self.now);
                self.hear(told);
                let silent = |heard: Duration| heard + Duration::from_secs(TIMEOUT_S.into()) <= self.now;
                let overdue: Vec<_> = self.watches.overdue(self.now);
                for ((client, cookie), (_, heard)) in &self.known {
                    let is_given = overdue.iter().any(|(_, watch)| *watch == key(*client, *cookie));
                    assert_eq!(is_given, silent(*heard), "{client} {cookie}");
                }
                for (_, (cookie, client)) in overdue {
                    self.end((client.num as u64, cookie));
                }
            }
        }
        for seen in self.notifies.values() {
            assert!(seen.completed || !seen.awaited.is_empty(), "it is complete when nobody is waited for");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_notification_is_completed_once_with_everybody_accounted_for(
        events in prop::collection::vec(event(), 0..60)
    ) {
        let mut model = Model::default();
        events.into_iter().for_each(|event| model.happen(event));
        model.happen(Event::Pass { seconds: 20 });
        prop_assert!(model.notifies.values().all(|seen| seen.completed));
        prop_assert!(model.watches.is_empty());
        prop_assert_eq!(model.watches.held_bytes(), 0);
    }
}
