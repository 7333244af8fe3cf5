//! The rules of commits: order, one flush per turn, at most two turns, no acknowledgement of anything that is not
//! durable.

use super::harness::{Bench, PG, object, txn, write};
use crate::{
    CommitTimes, Device, FailedRequest, IoRequest, Step, StopReason, StoreConfig, StoreEvent, SubmitError, Ticket,
    Transaction,
};
use bytes::Bytes;
use std::time::Duration;
use types::{AlignedBuf, Errno};
use wire::Rope;

/// Returns the kinds of the requests that the store makes now, in order; the device queue is left to the caller.
fn requests(bench: &mut Bench) -> String {
    let mut kinds = String::new();
    while let Some(request) = bench.store.poll_io() {
        kinds.push(match &request {
            IoRequest::Read { .. } => 'r',
            IoRequest::Write { .. } => 'w',
            IoRequest::Flush { .. } => 'f',
            IoRequest::Discard { .. } => 'd',
        });
        bench.device.submit(request);
    }
    kinds
}

fn complete(bench: &mut Bench, index: usize) {
    let done = bench.device.complete(index);
    bench.store.io_done(done);
}

fn committed(bench: &mut Bench) -> Option<Ticket> {
    let mut last = None;
    while let Some(event) = bench.store.poll_event() {
        let StoreEvent::Committed(ticket) = event else { panic!("{event:?}") };
        assert!(last < Some(ticket));
        last = Some(ticket);
    }
    last
}

fn turn_of(bench: &mut Bench, writes: u64) -> Ticket {
    let ticket = (0..writes).map(|n| bench.submit(txn(vec![write(n, 0, vec![7; 4096])])).unwrap()).last();
    bench.store.end_turn();
    ticket.unwrap()
}

#[test]
fn what_nobody_waits_for_goes_with_the_next_transaction_or_after_a_while() {
    let mut bench = Bench::new(1);
    let at = Duration::from_millis;
    let patient = |bench: &mut Bench, now| {
        bench.store.set_time(at(now));
        let ticket = bench.store.submit_owed_patiently(txn(vec![write(9, 0, vec![7; 4096])])).unwrap();
        bench.store.end_turn();
        ticket
    };
    // Carries out requests until none is left, and tells whether there were any.
    let is_sent = |bench: &mut Bench| {
        let mut any = false;
        while !requests(bench).is_empty() {
            any = true;
            (0..bench.device.queued()).for_each(|_| complete(bench, 0));
        }
        any
    };
    patient(&mut bench, 3);
    assert!(!is_sent(&mut bench));
    assert_eq!(bench.store.patient_until(), Some(at(23)));
    // With another one, in one turn.
    let last = turn_of(&mut bench, 1);
    assert!(requests(&mut bench).contains("ww") && bench.store.patient_until().is_none());
    // One that comes while a turn is under way waits for that, and goes once it has waited for long.
    let next = patient(&mut bench, 5);
    assert_eq!((requests(&mut bench).as_str(), bench.store.patient_until()), ("", None));
    (0..bench.device.queued()).for_each(|_| complete(&mut bench, 0));
    assert!(is_sent(&mut bench), "the flush");
    bench.store.end_turn();
    assert_eq!((committed(&mut bench), bench.store.patient_until()), (Some(last), Some(at(25))));
    let last = patient(&mut bench, 24);
    assert!(next < last && !is_sent(&mut bench), "the second waits no longer than the first, and no less");
    bench.store.set_time(at(25));
    bench.store.end_turn();
    assert!(is_sent(&mut bench));
    assert_eq!((committed(&mut bench), bench.store.patient_until()), (Some(last), None));
    // A checkpoint waits for nobody.
    let last = patient(&mut bench, 30);
    bench.store.checkpoint();
    bench.store.end_turn();
    assert!(is_sent(&mut bench));
    assert_eq!(committed(&mut bench), Some(last));
}

#[test]
fn what_nobody_waits_for_gets_through_a_full_log_and_beside_a_checkpoint() {
    let mut bench = Bench::new(5);
    let (mut now, mut checkpoints) = (Duration::ZERO, 0);
    for round in 0..90u64 {
        // Every third time while a checkpoint is under way whose requests wait.
        if round % 3 == 0 {
            bench.store.checkpoint();
            bench.store.end_turn();
            assert!(bench.store.checkpoint_is_pending());
        }
        let value = Bytes::from(vec![round as u8; 100]);
        // Some that have data, or as many as are more than the log has room for.
        let steps = |n: u64| match round % 2 {
            0 => write(n % 40, round % 5 * 4096, vec![round as u8; 4000]),
            _ => Step::SetAttr { object: object(n % 40), name: b"_name".to_vec(), value: value.clone() },
        };
        let count = if round % 2 == 0 { 40 } else { 500 };
        let last = (0..count).map(|n| bench.store.submit_owed_patiently(txn(vec![steps(n)])).unwrap()).last();
        bench.store.end_turn();
        now += Duration::from_millis(20);
        bench.store.set_time(now);
        for turns in 0.. {
            assert!(turns < 1000, "round {round}: it ends");
            bench.store.end_turn();
            checkpoints += u64::from(bench.store.checkpoint_is_running());
            let is_idle = requests(&mut bench).is_empty() && bench.device.queued() == 0;
            if is_idle {
                break;
            }
            (0..bench.device.queued()).for_each(|_| complete(&mut bench, 0));
        }
        assert_eq!((committed(&mut bench), bench.store.patient_until()), (last, None), "round {round}");
    }
    assert!(checkpoints > 30);
}

#[test]
fn a_turn_is_one_data_write_one_log_write_and_one_flush() {
    let mut bench = Bench::new(1);
    let ticket = turn_of(&mut bench, 16);
    assert_eq!(requests(&mut bench), "ww");
    complete(&mut bench, 1);
    assert_eq!((requests(&mut bench).as_str(), committed(&mut bench)), ("", None));
    complete(&mut bench, 0);
    assert_eq!((requests(&mut bench).as_str(), committed(&mut bench)), ("f", None));
    complete(&mut bench, 0);
    assert_eq!((requests(&mut bench).as_str(), committed(&mut bench)), ("", Some(ticket)));
    assert!(bench.store.is_idle());
}

#[test]
fn the_times_of_a_turn_are_known_when_it_is_durable() {
    let mut bench = Bench::new(1);
    let at = Duration::from_micros;
    let ticket = turn_of(&mut bench, 2);
    assert_eq!(requests(&mut bench), "ww");
    bench.store.handed_over(at(10));
    bench.store.set_time(at(20));
    complete(&mut bench, 0);
    bench.store.set_time(at(30));
    complete(&mut bench, 0);
    assert_eq!((requests(&mut bench).as_str(), bench.store.commit_times(ticket)), ("f", None));
    bench.store.handed_over(at(35));
    bench.store.set_time(at(40));
    complete(&mut bench, 0);
    assert_eq!(committed(&mut bench), Some(ticket));
    let expected = CommitTimes { handed_over: at(10), written: at(30), durable: at(40) };
    assert_eq!(bench.store.commit_times(ticket), Some(expected));
    // Only a few are remembered.
    for _ in 0..100 {
        turn_of(&mut bench, 1);
        while bench.store.poll_io().map(|request| bench.device.submit(request)).is_some() || bench.device.queued() > 0 {
            if bench.device.queued() > 0 {
                complete(&mut bench, 0);
            }
        }
        assert!(committed(&mut bench).is_some());
    }
    assert_eq!(bench.store.commit_times(ticket), None);
}

#[test]
fn the_third_turn_waits_and_gathers_and_acknowledgements_keep_their_order() {
    let mut bench = Bench::new(1);
    let first = turn_of(&mut bench, 1);
    let second = turn_of(&mut bench, 1);
    assert_eq!(requests(&mut bench), "wwww", "this one's turns overlap however small they are");
    turn_of(&mut bench, 1);
    let third = turn_of(&mut bench, 5);
    assert_eq!(requests(&mut bench), "", "two turns are in flight");
    // The second turn is written first.
    complete(&mut bench, 3);
    complete(&mut bench, 2);
    assert_eq!((requests(&mut bench).as_str(), committed(&mut bench)), ("", None));
    complete(&mut bench, 1);
    complete(&mut bench, 0);
    assert_eq!(requests(&mut bench), "f", "one flush covers both");
    complete(&mut bench, 0);
    assert_eq!(committed(&mut bench), Some(second));
    assert!(first < second);
    bench.store.end_turn();
    assert_eq!(requests(&mut bench), "ww", "all that waited is one turn");
    (0..2).for_each(|_| complete(&mut bench, 0));
    assert_eq!(requests(&mut bench), "f");
    complete(&mut bench, 0);
    assert_eq!(committed(&mut bench), Some(third));
}

#[test]
fn a_small_turn_waits_for_the_one_before_it_and_a_large_one_does_not() {
    let mut bench = Bench::new(2);
    bench.store.set_memory(crate::Memory::default());
    turn_of(&mut bench, 1);
    assert_eq!(requests(&mut bench), "ww");
    turn_of(&mut bench, 31);
    assert_eq!(requests(&mut bench), "", "31 blocks");
    let last = turn_of(&mut bench, 1);
    assert_eq!(requests(&mut bench), "ww", "32 blocks");
    (0..4).for_each(|_| complete(&mut bench, 0));
    for _ in 0..2 {
        assert_eq!(requests(&mut bench), "f");
        complete(&mut bench, 0);
    }
    assert_eq!(committed(&mut bench), Some(last));
}

#[test]
fn a_failed_flush_or_write_stops_the_store() {
    for flush in [true, false] {
        let mut bench = Bench::new(1);
        turn_of(&mut bench, 2);
        requests(&mut bench);
        if flush {
            bench.device.fail_flushes(1)
        } else {
            bench.device.fail_writes(1)
        }
        while bench.device.queued() > 0 {
            complete(&mut bench, 0);
            requests(&mut bench);
        }
        let event = bench.store.poll_event();
        let Some(StoreEvent::Failed { reason }) = &event else { panic!("{event:?}") };
        let StopReason::Device { request, errno } = **reason else { panic!("{reason}") };
        let is_flush = matches!(request, FailedRequest::TurnFlush { device: Device::Main });
        let is_write = matches!(request, FailedRequest::TurnWrite { lsn: 1, device: Device::Main });
        assert_eq!((is_flush, is_write, errno), (flush, !flush, Errno::EIO.0), "{reason}");
        assert!(matches!(bench.store.submit(txn(vec![write(1, 0, "x")])), Err(SubmitError::Stopped(_))));
        bench.store.end_turn();
        assert_eq!((requests(&mut bench).as_str(), bench.store.poll_event()), ("", None));
    }
}

#[test]
fn aligned_payloads_reach_the_device_without_a_copy() {
    let mut bench = Bench::new(1);
    let payload = AlignedBuf::copy_from(&[5; 16384]).freeze();
    let at = payload.as_ptr();
    let step = Step::Write { object: super::harness::object(1), offset: 8192, data: Rope::from(payload.slice(4096..)) };
    bench.submit(txn(vec![step])).unwrap();
    bench.store.end_turn();
    let mut found = false;
    while let Some(request) = bench.store.poll_io() {
        if let IoRequest::Write { data, .. } = &request {
            found |= data.pieces().any(|piece| piece.as_ptr() == at.wrapping_add(4096) && piece.len() == 12288);
        }
    }
    assert!(found);
}

#[test]
fn transactions_behind_a_partial_write_wait_for_it_and_keep_their_order() {
    let mut bench = Bench::new(1);
    turn_of(&mut bench, 2);
    bench.settle();
    let partial = bench.submit(txn(vec![write(0, 10, "partial")])).unwrap();
    let whole = bench.submit(txn(vec![write(1, 0, vec![8; 4096])])).unwrap();
    bench.store.end_turn();
    assert_eq!(requests(&mut bench), "r", "the old block is read first");
    complete(&mut bench, 0);
    bench.store.end_turn();
    assert_eq!(requests(&mut bench), "ww");
    (0..2).for_each(|_| complete(&mut bench, 0));
    requests(&mut bench);
    complete(&mut bench, 0);
    assert_eq!(committed(&mut bench), Some(whole));
    assert!(partial < whole);
}

/// A log much smaller than the transactions submitted at once, and records larger than the log.
#[test]
fn a_full_log_delays_but_never_deadlocks() {
    let mut bench = Bench::new(1);
    let value = |bench: &mut Bench, len| Bytes::from(bench.random.bytes(len));
    for round in 0..40u64 {
        // One transaction has up to 130 KiB of metadata, all at once have up to 500 KiB, for a log of 64 KiB.
        for n in 0..1 + round % 5 {
            let large = value(&mut bench, 1000 + (round * 3271 % 130_000) as usize);
            let key = Bytes::from(format!("{}", n % 3));
            let steps = vec![Step::PgSet { key, value: large }, write(n, round * 100, vec![round as u8; 5000])];
            bench.submit(Transaction { pg: PG, steps }).unwrap();
        }
        if round % 3 == 0 {
            bench.turn();
        }
        let mut random = bench.random.clone();
        bench.reopen(bench.device.after_crash(&mut || random.next()));
    }
    bench.settle();
    bench.check_all();
    bench.reopen(bench.device.after_crash(&mut || 0));
}

#[test]
fn a_checkpoint_leaves_nothing_to_replay() {
    let mut bench =
        Bench::with(StoreConfig { device_bytes: 16 << 20, wal_bytes: 4 << 20, ..super::harness::config() }, 3);
    (0..100).for_each(|_| bench.turn());
    bench.settle();
    assert!(bench.store.wal.used_bytes() > 0);
    let (crashed, ..) = bench.reopen(bench.device.after_crash(&mut || 0));
    assert!(crashed.replayed_records() > 0);
    bench.store.checkpoint();
    assert!(!bench.store.is_idle());
    bench.settle();
    assert_eq!(bench.store.wal.used_bytes(), 0);
    let (store, ..) = bench.reopen(bench.device.after_crash(&mut || 0));
    assert_eq!((store.wal.used_bytes(), store.replayed_records()), (0, 0));
}
