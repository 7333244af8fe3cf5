use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::*;
use crate::histogram::{Digits, Histogram};
use crate::plan::{Load, Operations, Spacing};

fn group(operations: Operations, objects: u64, queue_depth: u32) -> Group {
    Group {
        name: "g".into(),
        object_bytes: 65_536,
        io_bytes: Some(4096),
        objects,
        operations,
        instances: 2,
        load: Load::Closed { queue_depth },
        prefill: None,
        list_keys: None,
    }
}

const MIXED: Operations = Operations {
    sequential_write: 20,
    random_write: 10,
    sequential_read: 30,
    random_read: 40,
    head: 0,
    delete: 0,
    list: 0,
};

fn operations(worker: &mut Worker, count: usize) -> Vec<Operation> {
    (0..count)
        .map(|_| {
            let operation = worker.next_operation();
            worker.ended(Outcome::Done);
            operation
        })
        .collect()
}

#[test]
fn same_seed_same_operations() {
    let group = group(MIXED, 10, 4);
    let run = |seed, index, number| operations(&mut Worker::new(seed, index, &group, number), 500);
    assert_eq!(run(1, 0, 3), run(1, 0, 3));
    assert_ne!(run(1, 0, 3), run(2, 0, 3));
    assert_ne!(run(1, 0, 3), run(1, 1, 3));
}

#[test]
fn workers_never_share_a_written_block_and_together_cover_all() {
    let operations_wanted = Operations { sequential_write: 100, ..Operations::default() };
    let group = group(operations_wanted, 7, 5);
    let mut owners = BTreeMap::new();
    for number in 0..group.workers() {
        let mut worker = Worker::new(1, 0, &group, number);
        for operation in operations(&mut worker, 200) {
            assert_eq!(operation.length_bytes, 4096);
            assert!(operation.object < 7 && operation.offset_bytes + 4096 <= 65_536, "{operation:?}");
            let owner = owners.entry((operation.object, operation.offset_bytes)).or_insert(number);
            assert_eq!(*owner, number, "{operation:?}");
        }
    }
    assert_eq!(owners.len() as u64, group.blocks());
}

#[test]
fn mix_has_its_percentages() {
    let got = operations(&mut Worker::new(1, 0, &group(MIXED, 100, 1), 0), 100_000);
    let writes = got.iter().filter(|operation| matches!(operation.kind, Kind::Write { .. })).count();
    assert!((29_500..30_500).contains(&writes), "{writes}");
}

#[test]
fn pure_readers_read_everything_in_order_from_spread_starts() {
    let group = group(Operations { sequential_read: 100, ..Operations::default() }, 4, 2);
    let mut starts = BTreeSet::new();
    for number in 0..4 {
        let got = operations(&mut Worker::new(1, 0, &group, number), 64);
        let blocks: Vec<u64> = got.iter().map(|o| o.object * 16 + o.offset_bytes / 4096).collect();
        assert!(blocks.windows(2).all(|pair| pair[1] == (pair[0] + 1) % 64), "{blocks:?}");
        assert!(got.iter().all(|o| o.kind == Kind::Read { versions: (1, 1) }));
        starts.insert(blocks[0]);
    }
    assert_eq!(starts, BTreeSet::from([0, 16, 32, 48]));
}

/// The naive model: a map from block to the versions that a cluster could hold, fed with random outcomes.
#[test]
fn reads_accept_just_what_could_have_been_written() {
    accepts([Outcome::Done, Outcome::Done, Outcome::Refused, Outcome::Unknown]);
    accepts([Outcome::Done, Outcome::Refused, Outcome::Unknown, Outcome::Late]);
}

fn accepts(outcomes: [Outcome; 4]) {
    let mut late: BTreeSet<(u64, u64)> = BTreeSet::new();
    let mut worker = Worker::new(8, 0, &group(MIXED, 1, 1), 0);
    let mut random = Random::new(8, 99);
    let mut possible: BTreeMap<(u64, u64), BTreeSet<u32>> = BTreeMap::new();
    let mut doubtful = 0;
    for _ in 0..20_000 {
        let operation = worker.next_operation();
        let block = (operation.object, operation.offset_bytes);
        let held = possible.entry(block).or_insert(BTreeSet::from([1]));
        let outcome = outcomes[random.below(4) as usize];
        match (operation.kind, outcome) {
            (Kind::Read { .. }, _) => {
                let accepted: BTreeSet<u32> = operation.kind.acceptable().collect();
                assert_eq!(accepted, *held);
                doubtful += u32::from(held.len() > 1);
            }
            (Kind::Write { version }, Outcome::Done) if !late.contains(&block) => *held = BTreeSet::from([version]),
            (Kind::Write { version }, Outcome::Done | Outcome::Unknown | Outcome::Late) => {
                assert!(held.insert(version), "version {version} is used twice");
                if outcome == Outcome::Late {
                    late.insert(block);
                }
            }
            (Kind::Write { .. }, Outcome::Refused) => {}
            (Kind::Head { .. } | Kind::Delete { .. } | Kind::List, _) => unreachable!("the mix has none of these"),
        }
        worker.ended(outcome);
    }
    assert!(doubtful > 1000, "{doubtful}");
}

/// The naive model with removals: a set of states that an object could have, among them that it is gone.
#[test]
fn removed_objects_are_written_again_and_may_be_gone_just_when_they_could() {
    let operations =
        Operations { random_write: 10, random_read: 30, head: 20, delete: 30, list: 10, ..Operations::default() };
    for outcomes in [[Outcome::Done; 4], [Outcome::Done, Outcome::Done, Outcome::Refused, Outcome::Late]] {
        let group = Group { io_bytes: None, ..group(operations, 20, 1) };
        let mut worker = Worker::new(8, 0, &group, 0);
        let mut random = Random::new(8, 99);
        let mut states: BTreeMap<u64, BTreeSet<Option<u32>>> = BTreeMap::new();
        let mut late = BTreeSet::new();
        let (mut removals, mut restored, mut doubtful) = (0, 0, 0);
        for _ in 0..20_000 {
            let operation = worker.next_operation();
            let held = states.entry(operation.object).or_insert(BTreeSet::from([Some(1)]));
            let is_gone = *held == BTreeSet::from([None]);
            let outcome = outcomes[random.below(4) as usize];
            let becomes = match operation.kind {
                Kind::Write { version } => {
                    assert_eq!(operation.length_bytes, 65_536);
                    assert!(operation.counts || is_gone, "{operation:?}");
                    restored += u32::from(!operation.counts);
                    Some(Some(version))
                }
                Kind::Delete { version } => {
                    assert!(operation.counts && !is_gone && operation.length_bytes == 0, "{operation:?}");
                    assert!(held.iter().all(|state| *state < Some(version)), "{operation:?}");
                    removals += 1;
                    Some(None)
                }
                Kind::Read { .. } | Kind::Head { .. } => {
                    let accepted: BTreeSet<u32> = operation.kind.acceptable().collect();
                    assert!(held.iter().flatten().all(|version| accepted.contains(version)), "{operation:?} {held:?}");
                    assert_eq!(operation.may_be_absent, held.contains(&None), "{operation:?} {held:?}");
                    assert!(!is_gone && operation.counts);
                    doubtful += u32::from(operation.may_be_absent);
                    None
                }
                Kind::List => {
                    assert!(operation.counts && operation.length_bytes == 0 && operation.object < 20);
                    None
                }
            };
            match (becomes, outcome) {
                (None, _) | (_, Outcome::Refused) => {}
                (Some(state), Outcome::Done) if !late.contains(&operation.object) => *held = BTreeSet::from([state]),
                (Some(state), _) => {
                    held.insert(state);
                    if outcome == Outcome::Late {
                        late.insert(operation.object);
                    }
                }
            }
            worker.ended(outcome);
        }
        // Once a change had no answer, nothing is sure of an object any more.
        let is_late = outcomes.contains(&Outcome::Late);
        assert!(removals > 1000 && (restored > 500 || is_late), "{removals} {restored}");
        assert_eq!(doubtful > 100, is_late, "{doubtful}");
    }
}

#[test]
#[should_panic(expected = "one operation at a time")]
fn second_operation_before_the_first_ended() {
    let mut worker = Worker::new(1, 0, &group(MIXED, 10, 1), 0);
    worker.next_operation();
    worker.next_operation();
}

#[test]
fn constant_arrivals_interleave_and_do_not_drift() {
    let mut all: Vec<Duration> =
        (0..3).flat_map(|instance| Arrivals::new(1, 0, 3000.0, Spacing::Constant, instance, 3).take(100_001)).collect();
    all.sort();
    for (number, arrival) in all.iter().enumerate() {
        let want = number as f64 / 3000.0;
        assert!((arrival.as_secs_f64() - want).abs() < 1e-6, "arrival {number}: {arrival:?}");
    }
}

#[test]
fn poisson_arrivals_have_rate_and_variance() {
    let mut all: Vec<Duration> =
        (0..4).flat_map(|instance| Arrivals::new(1, 0, 1000.0, Spacing::Poisson, instance, 4).take(25_000)).collect();
    all.sort();
    // Counts per 10 ms of a Poisson process have mean 10 and variance 10.
    let mut counts = [0f64; 2000];
    for arrival in &all {
        if let Some(count) = counts.get_mut((arrival.as_millis() / 10) as usize) {
            *count += 1.0;
        }
    }
    let mean = counts.iter().sum::<f64>() / 2000.0;
    let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 2000.0;
    assert!((9.7..10.3).contains(&mean) && (9.0..11.0).contains(&variance), "{mean} {variance}");
}

#[test]
fn stall_shows_in_every_operation_that_it_delayed() {
    // 1000 arrivals a second, each 100 us of work, one slot; the cluster stalls for one second at 5 s. A closed loop
    // would count one slow operation. With intended starts, those of the stall wait 1 s, 0.999 s, and so on.
    let mut open = OpenLoop::new(Arrivals::new(1, 0, 1000.0, Spacing::Constant, 0, 1), 1);
    let mut histogram = Histogram::new(Digits::Three);
    let mut now = Duration::ZERO;
    while now < Duration::from_secs(10) {
        let Some(start) = open.poll(now) else {
            now = open.wake_at().expect("the only slot is free");
            continue;
        };
        assert_eq!(open.in_flight(), 1);
        let stalls = start.intended == Duration::from_secs(5);
        now += if stalls { Duration::from_secs(1) } else { Duration::from_micros(100) };
        histogram.record(open.ended(start.slot, now));
    }
    // The backlog of 1000 shrinks by 900 a second: some 1111 operations are late, up to one second.
    assert_eq!(histogram.count(), 10_000);
    let late = histogram.to_data().buckets.iter().filter(|b| b.0 > 200_000).map(|b| b.1).sum::<u64>();
    assert!((1100..=1112).contains(&late), "{late}");
    let (_, longest) = histogram.bounds().unwrap();
    assert_eq!(longest, Duration::from_secs(1));
}

#[test]
fn full_slots_make_arrivals_wait_and_lag_tells() {
    let mut open = OpenLoop::new(Arrivals::new(1, 0, 10.0, Spacing::Constant, 0, 1), 2);
    let second = Duration::from_secs(1);
    let first = open.poll(second).unwrap();
    let other = open.poll(second).unwrap();
    assert_ne!(first.slot, other.slot);
    assert_eq!(open.poll(second), None);
    assert_eq!((open.wake_at(), open.lag(second)), (None, Duration::from_millis(800)));
    assert_eq!(open.ended(first.slot, second), second);
    assert_eq!(open.poll(second), Some(Start { slot: first.slot, intended: Duration::from_millis(200) }));
}

#[test]
fn groups_arrive_independently_and_name_their_own_bytes() {
    let first = |group| Arrivals::new(1, group, 10.0, Spacing::Poisson, 0, 1).next();
    assert_ne!(first(0), first(1));
    let operation = operations(&mut Worker::new(1, 0, &group(MIXED, 10, 1), 0), 1)[0];
    let patterns = [
        operation.pattern(pattern_run(1, 0, 0), 0, 1),
        operation.pattern(pattern_run(1, 0, 0), 1, 1),
        operation.pattern(pattern_run(1, 0, 1), 0, 1),
        operation.pattern(pattern_run(1, 1, 0), 0, 1),
    ];
    for (index, pattern) in patterns.iter().enumerate() {
        assert!(!patterns[..index].contains(pattern), "{patterns:?}");
    }
}
