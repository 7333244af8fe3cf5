//! Watches against a scripted cluster.

use super::*;
use wire::messages::{NotifyReplies, OpArgs, OpCode, Watch as WatchArgs, WatchNotify, WatchNotifyOp};

const COOKIE: u64 = 7;

fn subject() -> Subject {
    Subject::Object { locator: Locator::pool(PoolId(1)), name: "watched".into() }
}

/// The kind of a watch operation, and its cookie.
fn asked(op: &msg::OsdOp) -> (u8, u64) {
    match &op.ops[..] {
        [Op { code: OpCode::WATCH, args: OpArgs::Watch(WatchArgs { op, cookie, .. }), .. }] => (*op, *cookie),
        other => panic!("no watch: {other:?}"),
    }
}

/// A script with a registered watch.
fn watching() -> Scripted {
    let mut s = Scripted::connected();
    s.objecter.watch(subject(), COOKIE, 30, 1, &mut s.link, s.now);
    let (osd, tid, op) = s.only_op();
    assert_eq!((asked(&op), op.flags.has(OpFlags::WRITE)), ((WatchArgs::WATCH, COOKIE), true));
    s.answer(osd, tid, &op, 0);
    assert!(s.done().1.is_ok());
    s
}

fn says_to_watcher(s: &mut Scripted, osd: OsdId, op: WatchNotifyOp, cookie: u64) {
    let notify = WatchNotify {
        op,
        cookie,
        version: 1,
        notify_id: 44,
        payload: "news".into(),
        result: 0,
        notifier_gid: 9,
        replies: Default::default(),
    };
    s.says(s.link.session_of(osd), notify, 0);
}

#[test]
fn a_watcher_is_told() {
    let mut s = watching();
    let (osd, ..) = s.only_op();
    says_to_watcher(&mut s, osd, WatchNotifyOp::Notify, COOKIE);
    says_to_watcher(&mut s, osd, WatchNotifyOp::Notify, COOKIE + 1);
    let expected = Event::Notified { cookie: COOKIE, notify_id: 44, notifier: 9, payload: "news".into() };
    assert_eq!((s.objecter.poll_event(), s.objecter.poll_event()), (Some(expected), None));
    s.objecter.unwatch(COOKIE, Some(2), &mut s.link, s.now);
    let (osd, tid, op) = s.last_op();
    assert_eq!(asked(&op), (WatchArgs::UNWATCH, COOKIE));
    s.answer(osd, tid, &op, 0);
    assert_eq!(s.done().0, 2);
    says_to_watcher(&mut s, osd, WatchNotifyOp::Notify, COOKIE);
    assert_eq!(s.objecter.poll_event(), None, "nobody watches any more");
    s.objecter.unwatch(COOKIE, Some(3), &mut s.link, s.now);
    assert_eq!(s.done(), (3, Err(Errno::ENOTCONN.into())));
}

#[test]
fn a_watch_is_pinged_and_connected_again_when_the_osd_forgot_it() {
    let mut s = watching();
    let registered = s.objecter.watch_confirmed(COOKIE).expect("it stands");
    s.advance(ms(5000));
    let pinged = s.now;
    let (osd, tid, op) = s.last_op();
    assert_eq!((asked(&op), s.ops_sent().len()), ((WatchArgs::PING, COOKIE), 2));
    s.advance(ms(60_000));
    assert_eq!(s.ops_sent().len(), 2, "one at a time");
    assert_eq!(s.objecter.watch_confirmed(COOKIE), Some(registered), "nothing was heard since");
    s.answer(osd, tid, &op, 0);
    assert_eq!(s.objecter.watch_confirmed(COOKIE), Some(pinged), "from when it was asked on");
    let (osd, tid, op) = s.last_op();
    assert_eq!((asked(&op), s.ops_sent().len()), ((WatchArgs::PING, COOKIE), 3));
    let asked_again = s.now;
    s.answer(osd, tid, &op, Errno::ETIMEDOUT.as_result());
    assert_eq!(s.objecter.watch_confirmed(COOKIE), Some(pinged), "that was no confirmation");
    let (osd, tid, op) = s.last_op();
    assert_eq!(asked(&op), (WatchArgs::RECONNECT, COOKIE));
    s.answer(osd, tid, &op, 0);
    assert_eq!(s.objecter.watch_confirmed(COOKIE), Some(asked_again));
    let reconnected = Some(Event::Reconnected { cookie: COOKIE });
    assert_eq!((s.objecter.poll_event(), s.objecter.poll_event(), s.ops_sent().len()), (reconnected, None, 4));
    assert!(s.objecter.poll_done().is_none());
}

#[test]
fn a_lost_session_and_another_primary_need_a_new_connection() {
    let mut s = watching();
    let (osd, ..) = s.only_op();
    s.lose(s.link.session_of(osd));
    s.advance_to_next_wake();
    let (again, tid, op) = s.last_op();
    assert_eq!((again, asked(&op), s.ops_sent().len()), (osd, (WatchArgs::RECONNECT, COOKIE), 2));
    s.answer(again, tid, &op, 0);
    let pg = op.pgid.pg;
    s.push_map(|map| map.pg_temp(pg, osd.0));
    let (other, tid, op) = s.last_op();
    assert_eq!((other != osd, asked(&op), s.ops_sent().len()), (true, (WatchArgs::RECONNECT, COOKIE), 3));
    s.answer(other, tid, &op, 0);
    let reconnected = [s.objecter.poll_event(), s.objecter.poll_event(), s.objecter.poll_event()];
    let event = Some(Event::Reconnected { cookie: COOKIE });
    assert_eq!(reconnected, [event.clone(), event, None], "something may have passed each time");
    // The OSD answers that it knows no such watch: it was dropped while the client was not connected.
    s.push_map(|map| map.no_pg_temp(pg));
    let (back, tid, op) = s.last_op();
    s.answer(back, tid, &op, Errno::ENOTCONN.as_result());
    assert_eq!(s.objecter.poll_event(), Some(Event::WatchLost { cookie: COOKIE, why: Errno::ENOTCONN }));
    assert_eq!(s.objecter.watch_confirmed(COOKIE), None);
    let sent = s.ops_sent().len();
    s.advance(ms(60_000));
    assert_eq!(s.ops_sent().len(), sent, "it is over");
}

#[test]
fn a_watch_that_is_refused_does_not_come_to_be() {
    let mut s = Scripted::connected();
    s.objecter.watch(subject(), COOKIE, 0, 1, &mut s.link, s.now);
    let (osd, tid, op) = s.only_op();
    s.answer(osd, tid, &op, Errno::ENOENT.as_result());
    assert!(matches!(s.done(), (1, Ok(Answer::Op(reply))) if reply.error() == Some(Errno::ENOENT)));
    s.advance(ms(60_000));
    assert_eq!((s.ops_sent().len(), s.objecter.poll_event()), (1, None));
    // A watch that is given up before it is registered does not come to be either.
    s.objecter.watch(subject(), COOKIE, 0, 2, &mut s.link, s.now);
    s.objecter.shut_down();
    assert_eq!(s.done(), (2, Err(Error::Closed)));
}

#[test]
fn a_removed_object_ends_its_watches() {
    let mut s = watching();
    let (osd, ..) = s.only_op();
    says_to_watcher(&mut s, osd, WatchNotifyOp::Disconnect, COOKIE);
    assert_eq!(s.objecter.poll_event(), Some(Event::WatchLost { cookie: COOKIE, why: Errno::ENOTCONN }));
    s.advance(ms(60_000));
    assert_eq!(s.ops_sent().len(), 1);
}

#[test]
fn a_notification_is_over_when_the_watchers_have_answered() {
    let mut s = Scripted::connected();
    s.objecter.notify(subject(), "hear".into(), 5, 1, &mut s.link, s.now);
    let (osd, tid, op) = s.only_op();
    assert!(matches!(op.ops[0].args, OpArgs::Notify { cookie } if cookie == tid));
    s.answer(osd, tid, &op, 0);
    assert!(s.objecter.poll_done().is_none(), "the OSD has begun");
    // The OSD dies: the next one begins the notification anew.
    s.lose(s.link.session_of(osd));
    s.advance_to_next_wake();
    let (osd, tid2, op) = s.last_op();
    assert_eq!((tid2, op.retry_attempt), (tid, 1));
    let replies = NotifyReplies { replies: [((3, 4), "heard".into())].into(), timeouts: vec![(5, 6)] };
    let complete = WatchNotify {
        op: WatchNotifyOp::NotifyComplete,
        cookie: tid,
        version: 1,
        notify_id: 44,
        payload: Default::default(),
        result: Errno::ETIMEDOUT.as_result(),
        notifier_gid: 9,
        replies: wire::Encode::to_vec(&replies, WireTarget::default()).into(),
    };
    s.says(s.link.session_of(osd), complete, 0);
    assert_eq!(s.done(), (1, Ok(Answer::Notified { result: -110, replies })));
    s.answer(osd, tid, &op, 0);
    assert!(s.objecter.poll_done().is_none());
    // If the object does not exist, there is no watcher to notify.
    s.objecter.notify(subject(), "hear".into(), 5, 2, &mut s.link, s.now);
    let (osd, tid, op) = s.last_op();
    s.answer(osd, tid, &op, Errno::ENOENT.as_result());
    assert!(matches!(s.done(), (2, Ok(Answer::Op(reply))) if reply.error() == Some(Errno::ENOENT)));
}

#[test]
fn every_interval_ends_notifications_and_connections_of_watches() {
    let mut s = watching();
    s.objecter.settings.resend = Resend::NewPrimary;
    s.objecter.notify(subject(), "hear".into(), 5, 2, &mut s.link, s.now);
    let (primary, told, op) = s.last_op();
    s.answer(primary, told, &op, 0);
    let pg = op.pgid.pg;
    let [first, second] = s.map.pg_to_up_acting(pg).unwrap().acting[..] else { panic!("two copies") };
    let third = (0..3).map(OsdId).find(|osd| ![first, second].contains(osd)).unwrap();
    let sent = s.ops_sent().len();
    // The primary stays.
    s.push_map(|map| map.acting(pg, &[first, third], None));
    let again: Vec<(OsdId, u64)> = s.ops_sent()[sent..].iter().map(|(osd, tid, _)| (*osd, *tid)).collect();
    assert_eq!((again.len(), again.contains(&(first, told))), (2, true), "{again:?}");
    let reconnect = s.ops_sent().into_iter().skip(sent).find(|(_, tid, _)| *tid != told).expect("just counted");
    assert_eq!((reconnect.0, asked(&reconnect.2)), (first, (WatchArgs::RECONNECT, COOKIE)));
}
