//! The objecter against a scripted cluster: sessions are a log, maps are real.

mod black_hole;
mod scripted;
mod watches;
mod whole_cluster;

use super::*;
use crate::error::Error;
use osdmap::OsdMapFlags;
use scripted::{MON_ADDRS, Scripted};
use types::Errno;
use types::{ObjectId, PgId, PoolId, SnapId, Utime};
use wire::Target as WireTarget;
use wire::basic::Locator;
use wire::messages::{BackoffOp, OpFlags, Subscription};
use wire::messages::{Op, PoolOpKind};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn write(name: &str) -> Request {
    let subject = Subject::Object { locator: Locator::pool(PoolId(1)), name: name.to_owned().into() };
    Request::new(subject, vec![Op::write_full(bytes::Bytes::from_static(b"x"))], Utime::ZERO)
}

fn read(name: &str) -> Request {
    let subject = Subject::Object { locator: Locator::pool(PoolId(1)), name: name.to_owned().into() };
    Request::new(subject, vec![Op::read(0, 10)], Utime::ZERO)
}

#[test]
fn the_first_monitor_to_answer_stays() {
    let mut s = Scripted::new(5);
    let dialled = s.link.dialled_mons();
    assert_eq!(dialled.len(), 3, "three of five at once");
    s.open(dialled[1]);
    assert_eq!(s.link.closed, [dialled[0], dialled[2]]);
    let subscribe = s.sent::<msg::MonSubscribe>(dialled[1]);
    assert_eq!(subscribe[0].1.what["osdmap"], Subscription { start: 0, onetime: false });
    let map = s.full();
    s.send_map(dialled[1], map);
    // After a lost session the hunt goes on with other monitors, and asks only for newer maps.
    s.lose(dialled[1]);
    let again = s.link.dialled_mons();
    assert_eq!(again.len(), 3 + 3);
    s.open(again[4]);
    assert_eq!(s.sent::<msg::MonSubscribe>(again[4])[0].1.what["osdmap"].start, 2);
}

#[test]
fn monitors_that_do_not_answer_are_tried_again_and_again() {
    let mut s = Scripted::new(2);
    for round in 1..5 {
        assert_eq!(s.link.dialled_mons().len(), 2 * round);
        let last: Vec<_> = s.link.dialled_mons().split_off(2 * round - 2);
        last.into_iter().for_each(|session| s.lose(session));
        assert!(s.objecter.last_mon_failure().contains("lost"));
        s.advance_to_next_wake();
    }
    // The monitors dialled now answer nothing at all: the round times out.
    let before = s.link.dialled_mons().len();
    s.advance(ms(3000));
    assert_eq!(s.link.dialled_mons().len(), before + 2);
}

#[test]
fn monitors_that_close_sessions_at_once_are_left_alone_for_a_while() {
    let mut s = Scripted::new(1);
    for _ in 0..20 {
        let session = *s.link.dialled_mons().last().unwrap();
        s.open(session);
        s.lose(session);
        s.advance(ms(500));
    }
    let dialled = s.link.dialled_mons().len();
    assert!((5..12).contains(&dialled), "{dialled} times in ten seconds");
    // A session that lasts a while is replaced at once when it is lost.
    s.advance(ms(3000));
    let session = *s.link.dialled_mons().last().unwrap();
    s.open(session);
    s.advance(ms(2000));
    let before = s.link.dialled_mons().len();
    s.lose(session);
    assert_eq!(s.link.dialled_mons().len(), before + 1);
}

#[test]
fn an_operation_goes_to_the_primary_and_its_answer_comes_back() {
    let mut s = Scripted::connected();
    s.submit(write("a"), 7);
    let (osd, tid, op) = s.only_op();
    let target = s.objecter.placement.as_mut().unwrap().target(&write("a").subject).unwrap();
    assert_eq!(Some(osd), target.group.primary);
    assert_eq!((op.pgid, op.raw_hash, op.epoch), (target.group.pg, target.hash, Epoch(1)));
    assert_eq!((op.flags, op.retry_attempt, op.snap), (OpFlags(0x40_0024), 0, SnapId::HEAD));
    s.answer(osd, tid, &op, 0);
    let (who, result) = s.done();
    assert!(who == 7 && matches!(&result, Ok(Answer::Op(reply)) if reply.result == 0 && reply.version == 5));
    assert_eq!(s.objecter.in_flight(), 0);
    // A second answer finds no operation waiting.
    s.answer(osd, tid, &op, 0);
    assert!(s.objecter.poll_done().is_none());
}

#[test]
fn a_new_primary_gets_the_same_operation_again() {
    let mut s = Scripted::connected();
    s.submit(write("a"), 1);
    let (old, tid, op) = s.only_op();
    s.push_map(|map| map.pg_temp(op.pgid.pg, old.0));
    let (new, tid2, op2) = s.last_op();
    assert!(new != old && tid2 == tid && op2.retry_attempt == 1 && op2.epoch == Epoch(2), "{old} {new} {op2}");
    // The old primary's late answer does not count, nor does an answer to an earlier attempt.
    s.answer(old, tid, &op, -5);
    assert!(s.objecter.poll_done().is_none());
    s.answer(new, tid, &op, -5);
    assert!(s.objecter.poll_done().is_none());
    s.answer(new, tid, &op2, 0);
    assert!(s.done().1.is_ok());
}

#[test]
fn a_lost_session_is_opened_again_and_everything_sent_in_order() {
    let mut s = Scripted::connected();
    for i in 0..20 {
        s.submit(write("same object"), i);
    }
    let (osd, ..) = s.last_op();
    let session = s.link.session_of(osd);
    s.lose(session);
    assert_eq!(s.link.sent.iter().filter(|(_, e)| e.header.kind == msg::OsdOp::TYPE).count(), 20);
    s.advance_to_next_wake();
    let again = s.link.session_of(osd);
    assert_ne!(session, again);
    let ops = s.sent::<msg::OsdOp>(again);
    assert_eq!(ops.len(), 20);
    assert!(ops.is_sorted_by_key(|(tid, _)| *tid) && ops.iter().all(|(_, op)| op.retry_attempt == 1));
    // An OSD that cannot be reached is tried less and less often.
    let mut waits = Vec::new();
    for _ in 0..8 {
        let at = s.now;
        s.lose(s.link.session_of(osd));
        s.advance_to_next_wake();
        waits.push(s.now - at);
    }
    assert!(waits.is_sorted() && waits[7] == ms(2000), "{waits:?}");
}

#[test]
fn an_osd_that_restarted_is_dialled_at_its_new_address() {
    let mut s = Scripted::connected();
    s.submit(write("a"), 1);
    let (osd, tid, _) = s.only_op();
    let session = s.link.session_of(osd);
    s.push_map(|map| map.restart(osd.0));
    assert!(s.link.closed.contains(&session));
    let (osd2, tid2, op2) = s.last_op();
    assert_eq!((osd2, tid2, op2.retry_attempt), (osd, tid, 1));
    assert_ne!(s.link.session_of(osd), session);
}

#[test]
fn operations_wait_for_an_osd_that_is_up() {
    let mut s = Scripted::connected();
    s.push_map(|map| (0..3).for_each(|osd| map.down(osd)));
    s.submit(write("a"), 1);
    assert!(s.ops_sent().is_empty());
    s.push_map(|map| (0..3).for_each(|osd| map.restart(osd)));
    s.only_op();
}

#[test]
fn flags_hold_back_what_they_forbid() {
    let mut s = Scripted::connected();
    s.submit(write("before"), 0);
    s.push_map(|map| map.flags(OsdMapFlags::PAUSEWR));
    s.submit(write("during"), 1);
    s.submit(read("reading"), 2);
    assert_eq!(s.ops_sent().len(), 2, "the write of before and the read");
    s.push_map(|map| map.flags(OsdMapFlags::FULL));
    let mut urgent = write("urgent");
    urgent.flags = OpFlags::FULL_TRY;
    s.submit(urgent, 3);
    let names = |s: &Scripted| s.ops_sent().into_iter().map(|(_, _, op)| op.name).collect::<Vec<_>>();
    assert!(!names(&s).contains(&"during".into()) && names(&s).contains(&"urgent".into()));
    s.push_map(|map| map.flags(OsdMapFlags(0)));
    let sent = names(&s);
    assert!(sent.contains(&"during".into()));
    assert_eq!(sent.iter().filter(|n| *n == "before").count(), 2, "OSDs drop what a flag forbids, so it is sent again");
}

#[test]
fn a_pool_that_is_not_there_is_looked_for_in_the_newest_map() {
    let missing = || {
        let subject = Subject::Object { locator: Locator::pool(PoolId(9)), name: "a".into() };
        Request::new(subject, vec![Op::stat()], Utime::ZERO)
    };
    let mut s = Scripted::connected();
    s.submit(missing(), 1);
    let (tid, question) = s.sent::<msg::MonGetVersion>(s.mon()).pop().unwrap();
    assert_eq!(question.what, "osdmap");
    s.mon_says(msg::MonGetVersionReply { handle: tid, version: 1, oldest: 1 }, tid);
    assert_eq!(s.done(), (1, Err(Errno::ENOENT.into())));
    // The monitors know a newer map: the operation waits for it, in vain.
    s.submit(missing(), 2);
    let (tid, _) = s.sent::<msg::MonGetVersion>(s.mon()).pop().unwrap();
    s.mon_says(msg::MonGetVersionReply { handle: tid, version: 2, oldest: 1 }, tid);
    assert!(s.objecter.poll_done().is_none());
    s.push_map(|_| {});
    assert_eq!(s.done(), (2, Err(Errno::ENOENT.into())));
    // The operation waits for the newer map, which has the pool.
    s.submit(missing(), 3);
    let (tid, _) = s.sent::<msg::MonGetVersion>(s.mon()).pop().unwrap();
    s.push_map(|map| map.pool(9));
    let (osd, op_tid, op) = s.only_op();
    s.mon_says(msg::MonGetVersionReply { handle: tid, version: 2, oldest: 1 }, tid);
    s.answer(osd, op_tid, &op, 0);
    assert!(matches!(s.done(), (3, Ok(_))));
    // Removing a pool fails operations in flight.
    s.submit(missing(), 4);
    s.push_map(|map| map.remove_pool(9));
    let (tid, _) = s.sent::<msg::MonGetVersion>(s.mon()).pop().unwrap();
    s.mon_says(msg::MonGetVersionReply { handle: tid, version: 4, oldest: 1 }, tid);
    assert_eq!(s.done(), (4, Err(Errno::ENOENT.into())));
}

#[test]
fn an_osd_may_ask_to_wait() {
    let mut s = Scripted::connected();
    s.submit(write("a"), 1);
    let (osd, tid, op) = s.only_op();
    let session = s.link.session_of(osd);
    let block = |op_: BackoffOp, id| msg::OsdBackoff {
        pgid: op.pgid,
        epoch: Epoch(1),
        op: op_,
        id,
        begin: ObjectId::min(),
        end: ObjectId::max(),
    };
    s.says(session, block(BackoffOp::Block, 3), 0);
    let acks = s.sent::<msg::OsdBackoff>(session);
    assert_eq!((acks.len(), acks[0].1.op, acks[0].1.id), (1, BackoffOp::AckBlock, 3));
    s.submit(write("a"), 2);
    assert_eq!(s.ops_sent().len(), 1, "held back");
    s.says(session, block(BackoffOp::Unblock, 4), 0);
    assert_eq!(s.ops_sent().len(), 1, "another hold's id");
    s.says(session, block(BackoffOp::Unblock, 3), 0);
    let sent: Vec<_> = s.ops_sent().into_iter().map(|(_, tid, op)| (tid, op.retry_attempt)).collect();
    assert_eq!(sent, [(tid, 0), (tid, 1), (tid + 1, 0)]);
    // A hold ends with its session.
    s.says(session, block(BackoffOp::Block, 5), 0);
    s.lose(session);
    s.advance_to_next_wake();
    assert_eq!(s.ops_sent().len(), 5);
}

#[test]
fn one_object_is_held_in_all_its_states_and_others_are_not() {
    let mut s = Scripted::connected();
    s.submit(write("a"), 1);
    let (osd, tid, op) = s.only_op();
    let session = s.link.session_of(osd);
    let object = op.object_id().head_of();
    let said = |op_: BackoffOp| msg::OsdBackoff {
        pgid: op.pgid,
        epoch: Epoch(1),
        op: op_,
        id: 3,
        begin: object.clone(),
        end: object.clone(),
    };
    s.says(session, said(BackoffOp::Block), 0);
    s.submit(Request { ops: vec![Op::read(0, 0)], snap: SnapId(4), ..write("a") }, 2);
    assert_eq!(s.ops_sent().len(), 1, "held back, too");
    s.submit(write("b"), 3);
    s.says(session, said(BackoffOp::Unblock), 0);
    let sent: Vec<_> = s.ops_sent().into_iter().map(|(_, tid, op)| (tid, op.retry_attempt)).collect();
    assert_eq!(sent, [(tid, 0), (tid + 2, 0), (tid, 1), (tid + 1, 0)]);
}

#[test]
fn try_again_means_at_once() {
    let mut s = Scripted::connected();
    s.submit(write("a"), 1);
    let (osd, tid, op) = s.only_op();
    s.answer(osd, tid, &op, Errno::EAGAIN.as_result());
    let (_, tid2, op2) = s.last_op();
    assert_eq!((tid2, op2.retry_attempt, s.ops_sent().len()), (tid, 1, 2));
}

#[test]
fn a_read_that_anybody_may_answer_goes_to_any_member_and_to_the_primary_if_that_one_cannot() {
    let mut s = Scripted::connected();
    let balanced = || {
        let mut request = Request { ops: vec![Op::read(0, 0)], ..write("a") };
        request.flags = OpFlags::BALANCE_READS;
        request
    };
    for who in 0..20 {
        s.submit(balanced(), who);
    }
    let (_, _, op) = s.last_op();
    let pg = op.pgid.pg;
    let [primary, other] = s.map.pg_to_up_acting(pg).unwrap().acting[..] else { panic!("two copies") };
    let sent = s.ops_sent();
    let at_other: Vec<_> = sent.iter().filter(|(osd, ..)| *osd == other).cloned().collect();
    let at_primary = sent.iter().filter(|(osd, ..)| *osd == primary).count();
    assert!(at_primary > 4 && at_other.len() > 4 && at_primary + at_other.len() == 20);
    assert!(sent.iter().all(|(_, _, op)| op.flags.has(OpFlags::BALANCE_READS)));
    let (osd, tid, op) = &at_other[0];
    s.answer(*osd, *tid, op, Errno::EAGAIN.as_result());
    let (again, tid2, op2) = s.last_op();
    assert_eq!((again, tid2, op2.retry_attempt), (primary, *tid, 1));
    assert!(!op2.flags.has(OpFlags::BALANCE_READS));
    // An update goes to the primary whatever its flags, and members forget operations with every interval.
    let mut request = write("a");
    request.flags = OpFlags::BALANCE_READS;
    s.submit(request, 100);
    assert_eq!(s.last_op().0, primary);
    s.objecter.settings.resend = Resend::NewPrimary;
    let before = s.ops_sent().len();
    let third = (0..3).map(OsdId).find(|osd| ![primary, other].contains(osd)).unwrap();
    s.push_map(|map| map.acting(pg, &[primary, other, third], None));
    assert_eq!(s.ops_sent().len() - before, at_other.len() - 1);
}

#[test]
fn a_read_for_who_is_near_goes_there() {
    let mut s = Scripted::connected();
    let mut request = Request { ops: vec![Op::read(0, 0)], ..write("a") };
    request.flags = OpFlags::LOCALIZE_READS;
    s.submit(request.clone(), 1);
    let (primary, _, op) = s.only_op();
    let acting = s.map.pg_to_up_acting(op.pgid.pg).unwrap().acting;
    assert_eq!(primary, acting[0], "nobody is known to be near");
    s.objecter.settings.near = [acting[1]].into();
    s.submit(request, 2);
    assert_eq!(s.last_op().0, acting[1]);
}

#[test]
fn what_takes_too_long_ends() {
    let mut s = Scripted::connected();
    s.objecter.settings.op_timeout = Some(ms(500));
    s.objecter.settings.mon_op_timeout = Some(ms(700));
    s.submit(write("a"), 1);
    s.ask(MonRequest::Version { map: "osdmap".into() }, 2);
    s.advance(ms(499));
    assert!(s.objecter.poll_done().is_none());
    assert_eq!(s.objecter.next_wake(), Some(s.now + ms(1)));
    s.advance(ms(1));
    assert_eq!(s.done(), (1, Err(Error::TimedOut { seconds: 0 })));
    s.advance(ms(200));
    assert_eq!(s.done(), (2, Err(Error::TimedOut { seconds: 0 })));
    assert_eq!(s.objecter.next_wake(), None);
}

#[test]
fn requests_to_monitors_move_to_the_next_monitor() {
    let mut s = Scripted::connected();
    s.ask(MonRequest::Command { json: "{}".into(), input: "in".into() }, 1);
    let (tid, command) = s.sent::<msg::MonCommand>(s.mon()).pop().unwrap();
    assert_eq!((command.cmd, command.fsid, command.input.to_vec()), (vec!["{}".to_owned()], s.fsid, b"in".to_vec()));
    s.lose(s.mon());
    let next = *s.link.dialled_mons().last().unwrap();
    s.open(next);
    let (tid2, _) = s.sent::<msg::MonCommand>(next).pop().unwrap();
    assert_eq!(tid, tid2);
    let ack = msg::MonCommandAck {
        version: 1,
        result: -22,
        status: "no".into(),
        cmd: vec![],
        output: b"out".to_vec().into(),
    };
    s.mon_says(ack, tid);
    let reply = CommandReply { result: -22, status: "no".into(), output: "out".into() };
    assert_eq!(s.done(), (1, Ok(Answer::Mon(MonAnswer::Command(reply)))));
}

#[test]
fn a_pool_operation_is_done_when_the_map_says_so() {
    let mut s = Scripted::connected();
    let request = MonRequest::PoolOp { op: PoolOpKind::CREATE, pool: PoolId(0), snap: SnapId(0), name: "p".into() };
    s.ask(request.clone(), 1);
    let (tid, _) = s.sent::<msg::PoolOp>(s.mon()).pop().unwrap();
    let reply =
        |result, epoch| msg::PoolOpReply { version: 2, fsid: s.fsid, result, epoch: Epoch(epoch), response: None };
    let (created, exists) = (reply(0, 2), reply(-17, 2));
    s.mon_says(created, tid);
    assert!(s.objecter.poll_done().is_none());
    s.push_map(|map| map.pool(2));
    assert_eq!(s.done(), (1, Ok(Answer::Mon(MonAnswer::PoolOp(None)))));
    s.ask(request, 2);
    let (tid, _) = s.sent::<msg::PoolOp>(s.mon()).pop().unwrap();
    s.mon_says(exists, tid);
    assert_eq!(s.done(), (2, Err(Errno::EEXIST.into())));
}

#[test]
fn gaps_between_maps_are_asked_for_and_foreign_maps_ignored() {
    let mut s = Scripted::connected();
    let mon = s.mon();
    let (_second, third) = (s.next_increment(|_| {}), s.next_increment(|_| {}));
    let asked = s.sent::<msg::MonSubscribe>(mon).len();
    s.says(mon, third, 0);
    assert_eq!(s.objecter.epoch(), Epoch(1));
    let subscriptions = s.sent::<msg::MonSubscribe>(mon);
    assert_eq!((subscriptions.len(), subscriptions[asked].1.what["osdmap"].start), (asked + 1, 2));
    // A full map bridges the missing maps.
    let full = s.cluster_map(|_| {});
    assert!(full.last() > Epoch(3));
    let mut foreign = full.clone();
    foreign.fsid = Fsid([9; 16]);
    s.says(mon, foreign, 0);
    assert_eq!(s.objecter.epoch(), Epoch(1));
    s.objecter.wait_for_map(full.last(), 5);
    assert!(s.objecter.poll_done().is_none());
    s.says(mon, full.clone(), 0);
    assert_eq!(s.objecter.epoch(), full.last());
    assert_eq!(s.done(), (5, Ok(Answer::MapReached)));
    s.objecter.wait_for_map(Epoch(1), 6);
    assert_eq!(s.done(), (6, Ok(Answer::MapReached)));
}

#[test]
fn damaged_messages_are_ignored_or_fail_their_operation() {
    let mut s = Scripted::connected();
    s.submit(write("a"), 1);
    let (osd, tid, op) = s.only_op();
    let session = s.link.session_of(osd);
    for kind in [msg::OsdMap::TYPE, msg::OsdBackoff::TYPE, msg::MonMap::TYPE, msg::MonCommandAck::TYPE, 9999] {
        let mut envelope = msg::MonGetMap.seal(tid, WireTarget::default());
        envelope.header.kind = kind;
        envelope.front = bytes::Bytes::from_static(&[0xff; 7]);
        s.raw(session, envelope.clone());
        s.raw(s.mon(), envelope);
    }
    assert!(s.objecter.poll_done().is_none());
    let mut short = msg::OsdOpReply::to(&op, 0, Epoch(1));
    short.ops.clear();
    s.says(session, short, tid);
    assert!(matches!(s.done(), (1, Err(Error::Answer(_)))));
    s.submit(write("b"), 2);
    let (osd, tid, op) = s.last_op();
    let mut envelope = msg::OsdOpReply::to(&op, 0, Epoch(1)).seal(tid, WireTarget::default());
    envelope.front.truncate(10);
    s.raw(s.link.session_of(osd), envelope);
    assert!(matches!(s.done(), (2, Err(Error::Answer(_)))));
}

#[test]
fn a_new_monitor_map_names_new_monitors() {
    let mut s = Scripted::connected();
    let mut map = osdmap::MonMap::new(s.fsid, Utime::ZERO);
    map.epoch = Epoch(4);
    let addr = EntityAddrVec::msgr2("10.9.9.9:3300".parse().unwrap(), 0);
    map.add("z", addr.clone());
    let bytes = wire::Encode::to_vec(&map, WireTarget::default());
    s.mon_says(msg::MonMap { map: bytes.into() }, 0);
    s.lose(s.mon());
    assert_eq!(s.link.dials.last().unwrap().1, addr);
    assert!(!MON_ADDRS.contains(&"10.9.9.9:3300"));
}

#[test]
fn nobody_is_left_waiting_after_the_end() {
    let mut s = Scripted::connected();
    s.submit(write("a"), 1);
    s.ask(MonRequest::Statfs { pool: None }, 2);
    s.objecter.wait_for_map(Epoch(99), 3);
    s.objecter.shut_down();
    let mut who: Vec<u64> = std::iter::from_fn(|| s.objecter.poll_done()).map(|done| done.completion).collect();
    who.sort();
    assert_eq!(who, [1, 2, 3]);
}

#[test]
fn listings_go_to_the_group_of_their_cursor() {
    let mut s = Scripted::connected();
    let subject = Subject::Group { pool: PoolId(1), nspace: "n".into(), hash: 0xabcd_1235 };
    let mut request = Request::new(subject, vec![Op::pg_nls(&ObjectId::min(), 10, 0)], Utime::ZERO);
    request.flags = OpFlags::PGOP;
    s.submit(request, 1);
    let (_, _, op) = s.only_op();
    assert_eq!(op.pgid.pg, PgId::new(1, 5), "eight groups: the three lowest bits");
    assert!(op.name.is_empty() && op.locator.nspace == "n" && op.flags.has(OpFlags::PGOP | OpFlags::READ));
}

#[test]
fn intervals_that_come_and_go_within_one_message_are_noticed() {
    let mut s = Scripted::connected();
    s.submit(write("a"), 1);
    let (primary, tid, op) = s.only_op();
    // The primary changes and changes back: the first one has forgotten its operations.
    let mut message = s.next_increment(|map| map.pg_temp(op.pgid.pg, primary.0));
    let back = s.next_increment(|map| map.no_pg_temp(op.pgid.pg));
    message.incrementals.extend(back.incrementals);
    message.newest = back.newest;
    s.mon_says(message, 0);
    let (again, tid2, op2) = s.last_op();
    assert_eq!((again, tid2, op2.retry_attempt, op2.epoch), (primary, tid, 1, Epoch(3)));
    assert_eq!(s.ops_sent().len(), 2, "not sent to the one in between");
}

#[test]
fn after_maps_that_were_not_seen_everything_is_sent_again() {
    let mut s = Scripted::connected();
    s.submit(write("a"), 1);
    let (primary, tid, _) = s.only_op();
    s.next_increment(|map| map.flags(OsdMapFlags::NOOUT));
    s.next_increment(|map| map.flags(OsdMapFlags::NOOUT));
    let full = s.full();
    let mon = s.mon();
    s.send_map(mon, full);
    let (again, tid2, op2) = s.last_op();
    assert_eq!((again, tid2, op2.retry_attempt, op2.epoch), (primary, tid, 1, Epoch(3)));
}

#[test]
fn a_primary_that_stays_may_be_left_to_answer_as_cephs_clients_do() {
    let mut s = Scripted::connected();
    s.objecter.settings.resend = Resend::NewPrimary;
    s.submit(write("a"), 1);
    let (primary, tid, op) = s.only_op();
    let pg = op.pgid.pg;
    let [first, second] = s.map.pg_to_up_acting(pg).unwrap().acting[..] else { panic!("two copies") };
    let third = (0..3).map(OsdId).find(|osd| ![first, second].contains(osd)).unwrap();
    assert_eq!(primary, first);
    s.push_map(|map| map.acting(pg, &[first, third], None));
    s.push_map(|map| map.acting(pg, &[first], None));
    s.push_map(|map| map.down(second.0));
    assert_eq!(s.ops_sent().len(), 1, "the primary has it and owes the answer");
    // The primary's place in the acting set counts, too.
    s.push_map(|map| map.acting(pg, &[third, first], Some(first)));
    let (again, tid2, op2) = s.last_op();
    assert_eq!((s.ops_sent().len(), again, tid2, op2.retry_attempt), (2, first, tid, 1));
    s.push_map(|map| map.acting(pg, &[third, first], Some(third)));
    let (new, tid3, op3) = s.last_op();
    assert_eq!((s.ops_sent().len(), new, tid3, op3.retry_attempt), (3, third, tid, 2));
    s.answer(third, tid, &op3, 0);
    assert!(s.done().1.is_ok());
}
