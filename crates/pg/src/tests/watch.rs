//! Watches in a group of three OSDs.

use super::cluster::{Cluster, PG, appending};
use crate::messages::replication::RepOp;
use bytes::Bytes;
use osdmap::TempSet;
use std::collections::BTreeMap;
use std::time::Duration;
use types::{EntityName, Errno, OsdId};
use wire::messages::listing::Watchers;
use wire::messages::op_data::NotifyAckInput;
use wire::messages::{NotifyReplies, Op, Watch, WatchNotify, WatchNotifyOp};
use wire::msgr::SessionId;
use wire::{Decode, Encode, EntityAddr, Message, Target};

const PRIMARY: OsdId = OsdId(0);

/// A cluster with the object, and clients of it.
struct Watched {
    cluster: Cluster,
    tid: u64,
    primary: OsdId,
}

fn addr(nonce: u32) -> EntityAddr {
    EntityAddr::msgr2("127.0.0.1:0".parse().expect("an address"), nonce)
}

impl Watched {
    fn new() -> Watched {
        let mut watched = Watched { cluster: Cluster::new(4), tid: 100, primary: PRIMARY };
        let session = watched.client(4000);
        assert_eq!(watched.ask(session, appending(1)), 0);
        watched
    }

    fn client(&mut self, number: u64) -> SessionId {
        self.cluster.connect_as(self.primary, EntityName::client(number), addr(number as u32))
    }

    fn send(&mut self, session: SessionId, op: Op) -> u64 {
        self.tid += 1;
        let epoch = self.cluster.map.epoch;
        self.cluster.ask(self.primary, session, self.tid, epoch, 0, op);
        self.tid
    }

    fn ask(&mut self, session: SessionId, op: Op) -> i32 {
        let tid = self.send(session, op);
        self.cluster.settle();
        let answer = self.cluster.answers.iter().find(|answer| answer.tid == tid).expect("it is answered");
        answer.reply.result
    }

    fn watch(&mut self, session: SessionId, cookie: u64) {
        assert_eq!(self.ask(session, Op::watch(cookie, Watch::WATCH, 0)), 0);
    }

    fn told(&mut self) -> Vec<(SessionId, WatchNotify)> {
        std::mem::take(&mut self.cluster.told)
    }

    /// Returns (client, cookie) of all watchers, as the primary lists them.
    fn watchers(&mut self) -> Vec<(i64, u64)> {
        let session = self.client(4999);
        let tid = self.send(session, Op::list_watchers());
        self.cluster.settle();
        let answer = self.cluster.answers.iter().find(|answer| answer.tid == tid).expect("it is answered");
        let listed = Watchers::from_slice(&answer.reply.ops[0].outdata.to_vec()).expect("a list");
        listed.0.into_iter().map(|watcher| (watcher.name.num, watcher.cookie)).collect()
    }

    /// Seconds go by, in each of which these clients ping their watches.
    fn seconds(&mut self, seconds: u64, pinging: &[(SessionId, u64)]) {
        for _ in 0..seconds {
            self.cluster.pass(Duration::from_secs(1));
            for (session, cookie) in pinging {
                assert_eq!(self.ask(*session, Op::watch(*cookie, Watch::PING, 0)), 0);
            }
        }
    }
}

fn replies(message: &WatchNotify) -> NotifyReplies {
    NotifyReplies::from_slice(&message.replies.to_vec()).expect("well-formed")
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

#[test]
fn a_notification_reaches_all_watchers_and_brings_their_answers_back() {
    let mut w = Watched::new();
    let (a, b, notifier) = (w.client(4001), w.client(4002), w.client(4003));
    w.watch(a, 11);
    w.watch(b, 12);
    assert_eq!(w.watchers(), [(4001, 11), (4002, 12)]);
    assert_eq!(w.ask(notifier, Op::notify(77, 10, bytes("hello"))), 0);
    let told = w.told();
    let heard: Vec<_> = told.iter().map(|(session, m)| (*session, m.op, m.cookie, m.payload.clone())).collect();
    let notify = WatchNotifyOp::Notify;
    assert_eq!(heard, [(a, notify, 11, bytes("hello")), (b, notify, 12, bytes("hello"))]);
    let id = told[0].1.notify_id;
    assert_eq!(told[0].1.notifier_gid, 4003);

    assert_eq!(w.ask(a, Op::notify_ack(id, 11, bytes("from a"))), 0);
    assert!(w.told().is_empty(), "one has not answered");
    // Another's cookie is no answer.
    assert_eq!(w.ask(a, Op::notify_ack(id, 12, bytes("from a"))), 0);
    assert!(w.told().is_empty());
    assert_eq!(w.ask(b, Op::notify_ack(id, 12, bytes("from b"))), 0);
    let told = w.told();
    let [(session, complete)] = &told[..] else { panic!("{told:?}") };
    assert_eq!((*session, complete.op, complete.cookie), (notifier, WatchNotifyOp::NotifyComplete, 77));
    assert_eq!((complete.notify_id, complete.result), (id, 0));
    let answers = BTreeMap::from([((4001, 11), bytes("from a")), ((4002, 12), bytes("from b"))]);
    assert_eq!(replies(complete), NotifyReplies { replies: answers, timeouts: vec![] });

    // A notification is complete at once where nobody watches any more.
    assert_eq!(w.ask(a, Op::watch(11, Watch::UNWATCH, 0)), 0);
    assert_eq!(w.ask(b, Op::watch(12, Watch::UNWATCH, 0)), 0);
    assert!(w.told().is_empty(), "they know");
    assert_eq!(w.watchers(), []);
    assert_eq!(w.ask(notifier, Op::notify(78, 10, bytes("hello"))), 0);
    let told = w.told();
    assert_eq!((told.len(), told[0].1.op, told[0].1.cookie), (1, WatchNotifyOp::NotifyComplete, 78));
    assert!(told[0].1.notify_id > id);
}

#[test]
fn who_does_not_answer_in_time_is_named() {
    let mut w = Watched::new();
    let (a, b, notifier) = (w.client(4001), w.client(4002), w.client(4003));
    w.watch(a, 11);
    w.watch(b, 12);
    assert_eq!(w.ask(notifier, Op::notify(77, 3, Bytes::new())), 0);
    let id = w.told()[0].1.notify_id;
    assert_eq!(w.ask(b, Op::notify_ack(id, 12, Bytes::new())), 0);
    w.seconds(2, &[(a, 11)]);
    assert!(w.told().is_empty());
    w.seconds(2, &[(a, 11)]);
    let told = w.told();
    let [(session, complete)] = &told[..] else { panic!("{told:?}") };
    assert_eq!((*session, complete.result), (notifier, Errno::ETIMEDOUT.as_result()));
    assert_eq!(replies(complete).timeouts, [(4001, 11)]);
    // An answer that comes too late is for nobody.
    assert_eq!(w.ask(a, Op::notify_ack(id, 11, Bytes::new())), 0);
    assert!(w.told().is_empty());
}

#[test]
fn a_silent_watcher_is_removed_everywhere_and_told() {
    let mut w = Watched::new();
    let (a, b) = (w.client(4001), w.client(4002));
    w.watch(a, 11);
    w.watch(b, 12);
    w.seconds(40, &[(b, 12)]);
    let told = w.told();
    let [(session, message)] = &told[..] else { panic!("{told:?}") };
    assert_eq!((*session, message.op, message.cookie), (a, WatchNotifyOp::Disconnect, 11));
    assert_eq!(w.watchers(), [(4002, 12)]);
    assert_eq!(w.ask(a, Op::watch(11, Watch::PING, 0)), Errno::ENOTCONN.as_result());
    assert_eq!(w.ask(a, Op::watch(11, Watch::RECONNECT, 0)), Errno::ENOTCONN.as_result());

    // A client whose session is gone has as long to come back, and may.
    w.cluster.disconnect(PRIMARY, b);
    w.seconds(20, &[]);
    let b = w.client(4002);
    assert_eq!(w.ask(b, Op::watch(12, Watch::PING, 0)), Errno::ETIMEDOUT.as_result());
    assert_eq!(w.ask(b, Op::watch(12, Watch::RECONNECT, 0)), 0);
    w.seconds(20, &[(b, 12)]);
    assert_eq!(w.watchers(), [(4002, 12)]);
    w.cluster.disconnect(PRIMARY, b);
    w.seconds(40, &[]);
    assert_eq!(w.watchers(), []);
}

#[test]
fn old_watches_last_as_long_as_their_sessions() {
    let mut w = Watched::new();
    let a = w.client(4001);
    assert_eq!(w.ask(a, Op::watch(11, Watch::LEGACY_WATCH, 5)), 0);
    w.seconds(60, &[]);
    assert_eq!(w.watchers(), [(4001, 11)]);
    w.cluster.disconnect(PRIMARY, a);
    w.seconds(10, &[]);
    assert_eq!(w.watchers(), []);
}

#[test]
fn watches_survive_another_primary_and_do_not_wait_for_ever() {
    let mut w = Watched::new();
    let (a, b) = (w.client(4001), w.client(4002));
    w.watch(a, 11);
    w.watch(b, 12);
    w.primary = OsdId(1);
    w.cluster.move_group(&[1, 2, 3]);
    w.cluster.update_all();
    w.cluster.settle();
    for _ in 0..3 {
        w.cluster.pass(Duration::from_secs(1));
    }
    assert!(w.cluster.is_active(w.primary));
    let a = w.client(4001);
    assert_eq!(w.watchers(), [(4001, 11), (4002, 12)]);
    assert_eq!(w.ask(a, Op::watch(11, Watch::RECONNECT, 0)), 0);
    // A watcher that has not come back yet is waited for.
    let notifier = w.client(4003);
    assert_eq!(w.ask(notifier, Op::notify(77, 60, bytes("x"))), 0);
    let told = w.told();
    assert_eq!((told.len(), told[0].0), (1, a));
    assert_eq!(w.ask(a, Op::notify_ack(told[0].1.notify_id, 11, Bytes::new())), 0);
    let b = w.client(4002);
    assert_eq!(w.ask(b, Op::watch(12, Watch::RECONNECT, 0)), 0);
    let told = w.told();
    assert_eq!((told.len(), told[0].0, told[0].1.cookie), (1, b, 12));
    // The client goes away instead of answering.
    w.cluster.disconnect(w.primary, b);
    w.seconds(35, &[(a, 11)]);
    let told = w.told();
    let [(session, complete)] = &told[..] else { panic!("{told:?}") };
    assert_eq!((*session, complete.result, replies(complete).timeouts), (notifier, 0, vec![]));
    assert_eq!(w.watchers(), [(4001, 11)]);
}

#[test]
fn removal_of_the_object_ends_its_watches() {
    let mut w = Watched::new();
    let (a, b) = (w.client(4001), w.client(4002));
    w.watch(a, 11);
    assert_eq!(w.ask(b, Op::delete()), 0);
    let told = w.told();
    assert_eq!((told.len(), told[0].0, told[0].1.op), (1, a, WatchNotifyOp::Disconnect));
    assert_eq!(w.ask(b, appending(2)), 0);
    assert_eq!(w.watchers(), []);
    assert_eq!(w.ask(a, Op::watch(11, Watch::PING, 0)), Errno::ENOTCONN.as_result());
    assert_eq!(w.ask(b, Op::delete()), 0);
    for op in [Op::watch(1, Watch::WATCH, 0), Op::watch(1, Watch::PING, 0), Op::notify(1, 1, Bytes::new())] {
        assert_eq!(w.ask(b, op), Errno::ENOENT.as_result());
    }
}

#[test]
fn clients_that_are_locked_out_lose_their_watches_and_write_nothing_more() {
    let mut w = Watched::new();
    let (a, b) = (w.client(4001), w.client(4002));
    w.watch(a, 11);
    w.watch(b, 12);
    // One that waits for the group to serve is not carried out either.
    w.cluster.move_group(&[0, 1, 3]);
    w.cluster.update(PRIMARY);
    let waiting = w.send(a, appending(6));
    w.cluster.change(|next| _ = next.new_blocklist.insert(addr(4001), types::Utime { sec: u32::MAX, nsec: 0 }));
    w.cluster.update_all();
    for _ in 0..3 {
        w.cluster.pass(Duration::from_secs(1));
    }
    assert_eq!(w.cluster.answers_to(waiting)[0].1, Errno::EBLOCKLISTED.as_result());
    assert_eq!(w.ask(b, Op::watch(12, Watch::RECONNECT, 0)), 0);
    assert_eq!(w.ask(a, appending(7)), Errno::EBLOCKLISTED.as_result());
    w.seconds(2, &[(b, 12)]);
    assert_eq!(w.watchers(), [(4002, 12)]);
    assert_eq!(w.cluster.content(PRIMARY), "1,");
}

#[test]
fn acknowledgements_of_clients_of_old_name_only_the_notification() {
    let mut w = Watched::new();
    let (a, notifier) = (w.client(4001), w.client(4003));
    w.watch(a, 11);
    w.watch(a, 12);
    assert_eq!(w.ask(notifier, Op::notify(77, 3, Bytes::new())), 0);
    let notify_id = w.told()[0].1.notify_id;
    let ack = NotifyAckInput { notify_id, cookie: 0, reply: None };
    let ack = Op { indata: ack.to_vec(Target::default()).into(), ..Op::notify_ack(0, 0, Bytes::new()) };
    assert_eq!(w.ask(a, ack), 0);
    let told = w.told();
    assert_eq!(replies(&told[0].1).replies.len(), 2);
}

impl Watched {
    /// Sends an operation. The session with a member ends while its update is on its way there, of which clients see
    /// nothing, and the group goes on.
    fn interrupted(&mut self, session: SessionId, op: Op) {
        let tid = self.send(session, op);
        self.interrupt();
        assert_eq!(
            self.cluster.answers_to(tid).first().map(|answer| answer.1),
            Some(0),
            "it is done once, from the log"
        );
    }

    /// Ends the session with a member once the update that was just asked for is on its way there.
    fn interrupt(&mut self) {
        let member = OsdId(1);
        let mut picks = 0..10_000;
        while !self.cluster.in_transit_kinds(PRIMARY, member).contains(&RepOp::TYPE) {
            self.cluster.step(picks.next().expect("the update is on its way by now"));
        }
        self.cluster.end_session(PRIMARY, member);
        self.cluster.settle();
    }

    /// Checks that a notification completes at once, and brings answers of these watchers.
    fn reaches(&mut self, watchers: &[(SessionId, u64, i64)]) {
        self.told();
        let notifier = self.client(4003);
        assert_eq!(self.ask(notifier, Op::notify(77, 10, bytes("hello"))), 0);
        for (_, notified) in self.told().iter().filter(|(_, message)| message.op == WatchNotifyOp::Notify) {
            let (session, cookie, _) =
                watchers.iter().find(|(_, cookie, _)| *cookie == notified.cookie).expect("it watches");
            assert_eq!(self.ask(*session, Op::notify_ack(notified.notify_id, *cookie, Bytes::new())), 0);
            if let Some((_, complete)) = self.cluster.told.first() {
                let wanted = watchers.iter().map(|(_, cookie, client)| ((*client as u64, *cookie), Bytes::new()));
                let wanted = NotifyReplies { replies: wanted.collect(), timeouts: vec![] };
                assert_eq!((complete.op, replies(complete)), (WatchNotifyOp::NotifyComplete, wanted));
                return;
            }
        }
        panic!("the notification waits for somebody: {:?}", self.cluster.told);
    }
}

#[test]
fn an_end_of_a_watch_counts_though_a_session_of_members_ends_meanwhile() {
    let mut w = Watched::new();
    let (a, b) = (w.client(4001), w.client(4002));
    w.watch(a, 11);
    w.watch(b, 12);
    w.interrupted(a, Op::watch(11, Watch::UNWATCH, 0));
    w.reaches(&[(b, 12, 4002)]);
    assert_eq!(w.watchers(), [(4002, 12)]);
}

#[test]
fn a_watch_counts_though_a_session_of_members_ends_while_it_begins() {
    let mut w = Watched::new();
    let (a, b) = (w.client(4001), w.client(4002));
    w.interrupted(a, Op::watch(11, Watch::WATCH, 0));
    assert_eq!(w.ask(a, Op::watch(11, Watch::PING, 0)), 0);
    w.watch(b, 12);
    // The client connects again, as its session is gone.
    w.cluster.disconnect(PRIMARY, b);
    let b = w.client(4002);
    w.interrupted(b, Op::watch(12, Watch::RECONNECT, 0));
    w.reaches(&[(a, 11, 4001), (b, 12, 4002)]);
}

/// A member comes that the map shows to no client. Clients connect nothing again, and send nothing again.
#[test]
fn clients_that_see_no_interval_begin_keep_watches_and_get_answers() {
    let mut w = Watched::new();
    let (a, b) = (w.client(4001), w.client(4002));
    w.watch(a, 11);
    let asked = w.send(b, appending(7));
    let osds = [0, 1, 2, 3].map(OsdId).to_vec();
    w.cluster.change(|next| drop(next.new_pg_temp.insert(PG, TempSet::showing(osds, 3))));
    w.cluster.update_all();
    w.cluster.settle();
    (0..3).for_each(|_| w.cluster.pass(Duration::from_secs(1)));
    assert!(w.cluster.is_active(PRIMARY) && w.cluster.map.pg_to_up_acting(PG).is_ok_and(|at| at.acting.len() == 4));
    let view = w.cluster.shard(PRIMARY).pg_view(PG).expect("it leads");
    assert_eq!((view.acting, view.further), ([0, 1, 2].map(OsdId).to_vec(), vec![OsdId(3)]));
    assert!(matches!(w.cluster.answers_to(asked)[..], [(_, 0, _)]), "{:?}", w.cluster.answers_to(asked));
    w.reaches(&[(a, 11, 4001)]);
}

#[test]
fn a_removed_object_is_watched_by_nobody_though_a_session_of_members_ends_meanwhile() {
    let mut w = Watched::new();
    let (a, b) = (w.client(4001), w.client(4002));
    w.watch(a, 11);
    w.interrupted(b, Op::delete());
    let told = w.told();
    assert_eq!(told.iter().map(|(to, m)| (*to, m.op)).collect::<Vec<_>>(), [(a, WatchNotifyOp::Disconnect)]);
    assert_eq!(w.ask(b, appending(2)), 0);
    w.watch(b, 12);
    w.reaches(&[(b, 12, 4002)]);
}

#[test]
fn a_silent_watcher_is_removed_once_though_a_session_of_members_ends_meanwhile() {
    let mut w = Watched::new();
    let (a, b) = (w.client(4001), w.client(4002));
    w.watch(a, 11);
    w.watch(b, 12);
    w.seconds(29, &[(b, 12)]);
    w.cluster.later(Duration::from_secs(2));
    w.cluster.tick(PRIMARY);
    w.interrupt();
    assert_eq!(w.ask(b, Op::watch(12, Watch::PING, 0)), 0);
    w.reaches(&[(b, 12, 4002)]);
    assert_eq!(w.watchers(), [(4002, 12)]);
}

/// Payloads and answers of notifications that are not complete are bounded: the largest ends first, as if its time were
/// up.
#[test]
fn notifications_that_take_too_much_end_early() {
    let mut w = Watched::new();
    let (a, b, notifier) = (w.client(4001), w.client(4002), w.client(4003));
    w.watch(a, 11);
    let payload = |kib: usize| Bytes::from(vec![b'x'; kib << 10]);
    let mut ids = Vec::new();
    for (cookie, kib) in [(1, 0), (2, 1500), (3, 1600), (4, 1500)] {
        assert_eq!(w.ask(notifier, Op::notify(cookie, 10, payload(kib))), 0);
        let told = w.told();
        assert_eq!((told[0].0, told[0].1.op, told[0].1.payload.len()), (a, WatchNotifyOp::Notify, kib << 10));
        ids.push(told[0].1.notify_id);
        let ended = told.get(1).map(|(session, m)| (*session, m.op, m.cookie, m.result, replies(m).timeouts));
        let complete = WatchNotifyOp::NotifyComplete;
        let late = Errno::ETIMEDOUT.as_result();
        // All together would be more than the 4 MiB of the tests' limits.
        let wanted = (cookie == 4).then(|| (notifier, complete, 3, late, vec![(4001, 11)]));
        assert_eq!(ended, wanted, "{cookie}");
    }
    for (nth, cookie) in [(0, 1), (1, 2), (3, 4)] {
        assert_eq!(w.ask(a, Op::notify_ack(ids[nth], 11, bytes("answer"))), 0);
        let told = w.told();
        assert_eq!((told.len(), told[0].0, told[0].1.cookie, told[0].1.result), (1, notifier, cookie, 0));
    }
    // Answers make a notification large, too.
    (12..15).for_each(|cookie| w.watch(b, cookie));
    assert_eq!(w.ask(notifier, Op::notify(5, 10, bytes("all"))), 0);
    let id = w.told()[0].1.notify_id;
    for cookie in [12, 13, 14] {
        assert!(w.told().is_empty(), "{cookie}");
        assert_eq!(w.ask(b, Op::notify_ack(id, cookie, payload(1500))), 0);
    }
    let told = w.told();
    assert_eq!((told.len(), told[0].1.cookie, told[0].1.result), (1, 5, Errno::ETIMEDOUT.as_result()));
    let replies = replies(&told[0].1);
    assert_eq!((replies.replies.len(), replies.timeouts), (3, vec![(4001, 11)]));
}
