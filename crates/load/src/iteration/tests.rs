//! Iterations on objects in memory, with faults on demand.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bench::plan::Plan;
use bench::schedule::Outcome;
use bytes::Bytes;

use super::*;
use crate::objects::{Failure, Objects};

type Failing = Box<dyn Fn(&str, u64) -> bool + Send + Sync>;

/// A cluster in memory.
#[derive(Clone)]
struct MemoryCluster {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    operations: AtomicU64,
    /// Time that each operation takes.
    latency: Duration,
    /// Fails an operation, by its kind (`write`, `read`, `remove`, `connect`) and number.
    fails: Option<Failing>,
    /// Leaves an operation unanswered, by its kind and number.
    hangs: Option<Failing>,
    /// Every `flips`th read gets a wrong byte.
    flips: Option<u64>,
}

impl MemoryCluster {
    fn new(shared: Shared) -> MemoryCluster {
        MemoryCluster { shared: Arc::new(shared) }
    }

    fn names(&self) -> Vec<String> {
        self.shared.objects.lock().unwrap().keys().cloned().collect()
    }

    async fn begin(&self, kind: &str) -> Result<u64, Failure> {
        let number = self.shared.operations.fetch_add(1, Ordering::Relaxed);
        if self.shared.hangs.as_ref().is_some_and(|hangs| hangs(kind, number)) {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(self.shared.latency).await;
        if self.shared.fails.as_ref().is_some_and(|fails| fails(kind, number)) {
            return Err(Failure::new(Outcome::Refused, format!("no {kind} today")));
        }
        Ok(number)
    }
}

impl Objects for MemoryCluster {
    async fn write(&self, name: String, offset: u64, data: Bytes, whole: bool) -> Result<(), Failure> {
        self.begin("write").await?;
        let mut objects = self.shared.objects.lock().unwrap();
        let object = objects.entry(name).or_default();
        if whole {
            object.clear();
        }
        let end = offset as usize + data.len();
        object.resize(object.len().max(end), 0);
        object[offset as usize..end].copy_from_slice(&data);
        Ok(())
    }

    async fn read(&self, name: String, offset: u64, length: u64) -> Result<Bytes, Failure> {
        let number = self.begin("read").await?;
        let objects = self.shared.objects.lock().unwrap();
        let mut bytes = objects[&name][offset as usize..(offset + length) as usize].to_vec();
        if self.shared.flips.is_some_and(|every| number % every == 0) {
            bytes[77] ^= 1;
        }
        Ok(bytes.into())
    }

    async fn remove(&self, name: String) -> Result<(), Failure> {
        self.begin("remove").await?;
        self.shared.objects.lock().unwrap().remove(&name);
        Ok(())
    }
}

impl Connect for MemoryCluster {
    type Objects = MemoryCluster;

    async fn connect(&self) -> Result<MemoryCluster, String> {
        self.begin("connect").await.map_err(|failure| failure.reason)?;
        Ok(self.clone())
    }
}

#[derive(Default)]
struct Seen {
    boundaries: Vec<u32>,
    prepared: bool,
    notes: Vec<String>,
    live: u32,
}

impl Meter for Seen {
    async fn prepared(&mut self) {
        self.prepared = true;
    }

    async fn boundary(&mut self, round: u32) {
        self.boundaries.push(round);
    }

    async fn settle(&mut self) {}

    fn glance(&mut self) {}
}

struct Notes(Vec<String>, u32);

impl Observer for Notes {
    fn event(&mut self, event: Event) {
        match event {
            Event::Note(text) => self.0.push(text),
            Event::Live(_) => self.1 += 1,
            Event::Step(_) => {}
        }
    }
}

const WRITERS: &str = r#"{"name": "writers", "object_bytes": 8192, "io_bytes": 4096, "objects": 40,
    "operations": {"random_write": 60, "random_read": 40}, "instances": 3, "load": {"closed": {"queue_depth": 4}}}"#;
const READERS: &str = r#"{"name": "readers", "object_bytes": 4096, "objects": 30,
    "operations": {"sequential_read": 100}, "instances": 2,
    "load": {"open": {"arrivals_per_s": 200, "spacing": "constant", "in_flight_max": 8}}}"#;
const SHORT: &str = r#"{"duration_s": 0.6}"#;

struct Ran {
    measured: Measured,
    seen: Seen,
    memory: MemoryCluster,
}

/// Runs an iteration of `groups` on `shared`, and interrupts it `interrupt_after` its begin.
async fn run(shared: Shared, groups: &[&str], stop: &str, interrupt_after: Option<Duration>) -> Ran {
    let plan = format!(
        r#"{{"version": 1, "name": "n", "seed": 3,
            "clusters": [{{"name": "m", "engine": "nacre", "configuration": "-"}}], "pools": [{{"name": "p"}}],
            "workloads": [{{"name": "w", "pool": "p", "warm_up_s": 0.1, "stop": {stop}, "groups": [{}]}}]}}"#,
        groups.join(",")
    );
    let plan = Plan::from_json(&plan).unwrap();
    let memory = MemoryCluster::new(shared);
    let workload = &plan.workloads[0];
    let iteration = Iteration {
        task: Arc::new(Task::new(plan.seed, "token", 0, workload, 0)),
        connect: &memory,
        stop: workload.stop,
        what: "it".into(),
        remove_objects: true,
        drain: Duration::from_millis(300),
        processors: 2,
    };
    let (asked, mut interrupt) = watch::channel(false);
    let mut seen = Seen::default();
    let mut notes = Notes(Vec::new(), 0);
    let interrupter = async {
        if let Some(after) = interrupt_after {
            tokio::time::sleep(after).await;
            asked.send_replace(true);
        }
        std::future::pending::<()>().await;
    };
    let measured = tokio::select! {
        measured = iteration.run(&mut seen, &mut notes, &mut interrupt) => measured,
        () = interrupter => unreachable!("it waits for ever"),
    };
    (seen.notes, seen.live) = (notes.0, notes.1);
    Ran { measured, seen, memory }
}

#[tokio::test(flavor = "current_thread")]
async fn readers_beside_writers_are_measured_and_leave_nothing() {
    let shared = Shared { latency: Duration::from_millis(2), ..Shared::default() };
    let begun = Instant::now();
    let Ran { measured, seen, memory } = run(shared, &[WRITERS, READERS], SHORT, None).await;
    let arrived_max = (begun.elapsed().as_secs_f64() * 200.0) as u64 + 1;
    assert_eq!(measured.end, IterationEnd::Complete, "{:?}", seen.notes);
    let [writers, readers] = &measured.groups[..] else { panic!("{measured:?}") };
    for group in [writers, readers] {
        assert_eq!((group.mismatches, group.tally.errors), (0, 0), "{:?}", group.mismatch_examples);
        assert_eq!(group.measured, Duration::from_millis(600));
        assert!(!group.series.is_empty());
    }
    let count = |group: &GroupMeasured| group.tally.latencies.count();
    // 12 workers, whose operations take 2 to 4 ms each, and 200 arrivals a second. A busy machine achieves less, or
    // catches up with arrivals from before.
    assert!((24..=3600).contains(&count(writers)), "{}", count(writers));
    assert!((12..=arrived_max).contains(&count(readers)), "{} of {arrived_max}", count(readers));
    assert_eq!(writers.tally.bytes, count(writers) * 4096);
    assert!(seen.prepared && seen.live >= 1);
    assert_eq!((&seen.boundaries[..], measured.rounds), (&[0, 1][..], (0, 1)));
    assert_eq!(memory.names(), [""; 0]);
}

#[tokio::test(flavor = "current_thread")]
async fn wrong_bytes_are_found_and_described() {
    let shared = Shared { latency: Duration::from_millis(1), flips: Some(10), ..Shared::default() };
    let Ran { measured, .. } = run(shared, &[READERS], SHORT, None).await;
    let group = &measured.groups[0];
    assert!(group.mismatches >= 2, "{}", group.mismatches);
    let example = &group.mismatch_examples[0];
    assert!(example.contains("at byte 77, instead of version 1: the right data with 1 wrong bits"), "{example}");
}

#[tokio::test(flavor = "current_thread")]
async fn a_steady_state_ends_the_load() {
    let shared = Shared { latency: Duration::from_millis(5), ..Shared::default() };
    let stop = r#"{"steady": {"round_s": 0.2, "rules": {"window": 3, "range_percent": 100, "slope_percent": 100}}}"#;
    let Ran { measured, seen, .. } = run(shared, &[WRITERS], stop, None).await;
    assert_eq!(measured.end, IterationEnd::Complete);
    let (first, behind) = measured.rounds;
    assert_eq!(behind - first, 3);
    assert_eq!(seen.boundaries, (0..=behind).collect::<Vec<_>>());
    let group = &measured.groups[0];
    assert_eq!((group.measured, group.steady.unwrap().first_round), (Duration::from_millis(600), first));
    assert!(group.tally.latencies.count() > 30);
}

#[tokio::test(flavor = "current_thread")]
async fn an_interrupt_keeps_what_was_measured() {
    let shared = Shared { latency: Duration::from_millis(2), ..Shared::default() };
    let stop = r#"{"duration_s": 60}"#;
    let Ran { measured, seen, memory } = run(shared, &[WRITERS], stop, Some(Duration::from_secs(2))).await;
    assert_eq!(measured.end, IterationEnd::Interrupted);
    let group = &measured.groups[0];
    assert!(group.tally.latencies.count() > 30 && group.measured < Duration::from_secs(30), "{:?}", group.measured);
    assert_eq!(seen.boundaries, [0, 1], "what the machine spent is read at the interrupt");
    assert_eq!(memory.names(), [""; 0]);
}

#[tokio::test(flavor = "current_thread")]
async fn an_interrupt_of_the_prefill_removes_what_there_is() {
    let shared = Shared { latency: Duration::from_millis(100), ..Shared::default() };
    let many = READERS.replace("\"objects\": 30", "\"objects\": 3000");
    let Ran { measured, memory, seen } = run(shared, &[&many], SHORT, Some(Duration::from_millis(500))).await;
    assert_eq!((measured.end, measured.groups.len(), seen.prepared), (IterationEnd::Interrupted, 0, false));
    assert_eq!(memory.names(), [""; 0]);
}

#[tokio::test(flavor = "current_thread")]
async fn failing_operations_are_counted_and_explained() {
    let fails: Failing = Box::new(|kind, number| kind == "write" && number % 7 == 0 && number > 60);
    let shared = Shared { latency: Duration::from_millis(1), fails: Some(fails), ..Shared::default() };
    let Ran { measured, .. } = run(shared, &[WRITERS], SHORT, None).await;
    let group = &measured.groups[0];
    assert_eq!((measured.end, group.mismatches), (IterationEnd::Complete, 0));
    assert!(group.tally.errors > 0, "{}", group.tally.errors);
    assert_eq!(group.error_examples, ["no write today"]);
}

#[tokio::test(flavor = "current_thread")]
async fn nothing_but_failures_is_a_failure() {
    let fails: Failing = Box::new(|kind, _| kind == "read");
    let shared = Shared { fails: Some(fails), ..Shared::default() };
    let Ran { measured, memory, .. } = run(shared, &[READERS], SHORT, None).await;
    assert_eq!(measured.end, IterationEnd::Failed("no operation succeeded: no read today".into()));
    assert_eq!(memory.names(), [""; 0]);
}

#[tokio::test(flavor = "current_thread")]
async fn a_prefill_that_fails_ends_it_and_removes_what_there_is() {
    let fails: Failing = Box::new(|kind, number| kind == "write" && number == 20);
    let shared = Shared { latency: Duration::from_millis(1), fails: Some(fails), ..Shared::default() };
    let Ran { measured, memory, .. } = run(shared, &[READERS], SHORT, None).await;
    let IterationEnd::Failed(reason) = &measured.end else { panic!("{measured:?}") };
    assert!(reason.starts_with("writing object nacre-bench.token.w.0.readers."), "{reason}");
    assert_eq!(memory.names(), [""; 0]);
}

#[tokio::test(flavor = "current_thread")]
async fn who_cannot_connect_says_why() {
    let fails: Failing = Box::new(|kind, _| kind == "connect");
    let shared = Shared { fails: Some(fails), ..Shared::default() };
    let Ran { measured, .. } = run(shared, &[READERS], SHORT, None).await;
    let IterationEnd::Failed(reason) = &measured.end else { panic!("{measured:?}") };
    assert!(reason.contains("no connect today"), "{reason}");
}

#[tokio::test(flavor = "current_thread")]
async fn operations_without_an_answer_are_given_up() {
    // Two of twelve workers hang; fresh clients clean up.
    let hung = AtomicU64::new(0);
    let behind_the_prefill = 60;
    let hangs: Failing = Box::new(move |kind, number| {
        kind == "write" && number > behind_the_prefill && hung.fetch_add(1, Ordering::Relaxed) < 2
    });
    let shared = Shared { latency: Duration::from_millis(1), hangs: Some(hangs), ..Shared::default() };
    let Ran { measured, seen, memory } = run(shared, &[WRITERS], SHORT, None).await;
    assert_eq!(measured.end, IterationEnd::Complete);
    assert!(seen.notes[0].contains("still unanswered"), "{:?}", seen.notes);
    assert!(measured.groups[0].tally.latencies.count() > 10);
    assert_eq!(memory.names(), [""; 0]);
}
