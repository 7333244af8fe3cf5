//! One workload on one cluster, once, from connecting to cleaning up: tells the threads what to do when, watches rounds,
//! and gathers what was measured, however it ends.

use std::sync::Arc;
use std::time::Duration;

use bench::plan::Stop;
use bench::recorder::{Tally, Total};
use bench::series::SeriesPoint;
use bench::steady::{SteadyState, Verdict, Window};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::control::{Director, Phase};
use crate::objects::Connect;
use crate::observer::{Event, Live, Observer, Rates};
use crate::task::Task;
use crate::threads::{Report, Threads, thread_count};

/// Between two live events.
const LIVE_EVERY: Duration = Duration::from_millis(500);
/// From the decision to load to its start, so that all threads begin together.
const LEAD: Duration = Duration::from_millis(20);
/// After an interrupt, operations get so long to end.
const INTERRUPTED_DRAIN: Duration = Duration::from_secs(5);
/// Removing objects must be done within so long; within the other where operations were left unanswered before.
const CLEAN_MAX: Duration = Duration::from_secs(300);
const DOUBTFUL_CLEAN_MAX: Duration = Duration::from_secs(30);

/// What is done at certain points of an iteration, beside the load.
pub trait Meter {
    /// Everything is written; the load begins next.
    fn prepared(&mut self) -> impl Future<Output = ()>;

    /// Round `round` begins now, and the one before it ends.
    fn boundary(&mut self, round: u32);

    /// Some time has passed.
    fn glance(&mut self);
}

/// What to run.
pub struct Iteration<'a, C> {
    pub task: Arc<Task>,
    pub connect: &'a C,
    pub stop: Stop,
    /// For people.
    pub what: String,
    /// Remove the objects afterwards.
    pub remove_objects: bool,
    /// How long after the end operations may still take.
    pub drain: Duration,
    pub processors: usize,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Measured {
    /// In the plan's order; empty if the load did not begin.
    pub groups: Vec<GroupMeasured>,
    /// The rounds that count, as the first and the one behind the last.
    pub rounds: (u32, u32),
    pub end: IterationEnd,
}

/// How an iteration ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IterationEnd {
    Complete,
    Interrupted,
    Failed(String),
}

/// What one group saw in the rounds that count.
#[derive(Clone, Debug)]
pub struct GroupMeasured {
    pub measured: Duration,
    pub tally: Tally,
    pub mismatches: u64,
    pub mismatch_examples: Vec<String>,
    pub error_examples: Vec<String>,
    pub series: Vec<SeriesPoint>,
    pub steady: Option<Window>,
}

impl<C: Connect> Iteration<'_, C> {
    /// Runs it. Never leaves a thread behind.
    pub async fn run(
        self,
        meter: &mut impl Meter,
        observer: &mut dyn Observer,
        interrupt: &mut watch::Receiver<bool>,
    ) -> Measured {
        let count = thread_count(self.task.instances().len(), self.processors);
        let crew = self.crew(count);
        let mut conductor = Conductor { iteration: &self, crew, meter, observer, interrupt };
        let measured = conductor.steps().await;
        conductor.crew.end();
        measured
    }

    fn crew(&self, threads: usize) -> Crew {
        let director = Director::default();
        let threads = Threads::start(&self.task, self.connect, &director.control(), threads);
        Crew { director, threads }
    }
}

/// The threads that work, and how they are told what to do.
struct Crew {
    director: Director,
    threads: Threads,
}

impl Crew {
    fn end(self) {
        self.director.go(Phase::End);
        self.threads.join();
    }
}

/// Leads an iteration through its steps.
struct Conductor<'a, C, M> {
    iteration: &'a Iteration<'a, C>,
    crew: Crew,
    meter: &'a mut M,
    observer: &'a mut dyn Observer,
    interrupt: &'a mut watch::Receiver<bool>,
}

impl<C: Connect, M: Meter> Conductor<'_, C, M> {
    async fn steps(&mut self) -> Measured {
        let nothing = |end| Measured { groups: Vec::new(), rounds: (0, 0), end };
        let Iteration { task, what, .. } = self.iteration;
        let Conductor { crew: Crew { director, threads }, observer, interrupt, .. } = &mut *self;
        observer.event(Event::Step(format!("{what}: connecting")));
        if let Err(end) = reached(threads, &Report::Connected, interrupt).await {
            return nothing(end);
        }
        let to_write: u64 = task.groups.iter().filter(|g| g.prefill()).map(|g| g.objects * g.object_bytes).sum();
        director.go(Phase::Prefill);
        let filled = {
            let reached = reached(threads, &Report::Prefilled, interrupt);
            tokio::pin!(reached);
            loop {
                tokio::select! {
                    filled = &mut reached => break filled,
                    () = tokio::time::sleep(LIVE_EVERY) => {
                        let (done, all) = (director.prepared_bytes() >> 20, to_write >> 20);
                        observer.event(Event::Step(format!("{what}: prefill, {done} of {all} MiB")));
                    }
                }
            }
        };
        let (mut measured, in_order) = match filled {
            Err(end) => {
                director.go(Phase::Stop);
                let interrupted = end == IterationEnd::Interrupted;
                let ended = tokio::time::timeout(INTERRUPTED_DRAIN, reached_all(threads, &Report::Loaded)).await;
                (nothing(end), interrupted && ended == Ok(Ok(())))
            }
            Ok(()) => {
                self.meter.prepared().await;
                self.load().await
            }
        };
        if self.iteration.remove_objects && in_order {
            self.remove(CLEAN_MAX, &mut measured).await;
        } else if self.iteration.remove_objects {
            // Clients that failed or wait for answers are of no use; fresh ones remove what they wrote.
            self.crew.director.go(Phase::End);
            let fresh = self.iteration.crew(self.crew.threads.count().max(1));
            std::mem::replace(&mut self.crew, fresh).end();
            self.remove(DOUBTFUL_CLEAN_MAX, &mut measured).await;
        }
        measured
    }

    async fn remove(&mut self, limit: Duration, measured: &mut Measured) {
        let Iteration { task, what, .. } = self.iteration;
        let Conductor { crew: Crew { director, threads }, observer, .. } = self;
        observer.event(Event::Step(format!("{what}: removing objects")));
        director.go(Phase::Clean);
        let reason = match tokio::time::timeout(limit, reached_all(threads, &Report::Cleaned)).await {
            Ok(Ok(())) => return,
            Ok(Err(reason)) => reason,
            Err(_) => format!("not done within {} s", limit.as_secs()),
        };
        let prefix = &task.prefix;
        let said = format!("objects {prefix}.* could not all be removed: {reason}");
        observer.event(Event::Note(format!("{what}: {said}")));
        if !matches!(measured.end, IterationEnd::Failed(_)) {
            measured.end = IterationEnd::Failed(said);
        }
    }

    /// Loads the cluster and measures. Whether every thread has come to its end in order.
    async fn load(&mut self) -> (Measured, bool) {
        let iteration = self.iteration;
        let Conductor { crew: Crew { director, threads }, meter, observer, interrupt, .. } = self;
        let rounds = iteration.task.rounds;
        let start = Instant::now() + LEAD;
        director.go(Phase::Load(start));
        let mut judge = Judge::new(iteration);
        let mut live = LiveView::new(iteration, start);
        let mut next_round = 0;
        // The end as (first, behind the last) round that counts, its time, and how it came.
        let (counted, stopped_at, mut end) = loop {
            let boundary = start + rounds.begin(next_round);
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(boundary) => {
                    meter.boundary(next_round);
                    let verdict = judge.boundary(next_round, |group, round| operations_of(threads, group, round));
                    next_round += 1;
                    if let Some(counted) = verdict {
                        break (counted, boundary, IterationEnd::Complete);
                    }
                }
                Ok(_) = interrupt.wait_for(|asked| *asked) => {
                    break (judge.cut_short(next_round), Instant::now(), IterationEnd::Interrupted);
                }
                Some(report) = threads.reports.recv() => {
                    if let Report::Failed(reason) = report {
                        threads.failed += 1;
                        break (judge.cut_short(next_round), Instant::now(), IterationEnd::Failed(reason));
                    }
                }
                () = tokio::time::sleep_until(live.due) => {
                    observer.event(Event::Live(live.look(threads)));
                    meter.glance();
                }
            }
        };
        if end != IterationEnd::Complete {
            // What the machine spent until now belongs to what was measured until now.
            meter.boundary(counted.1);
        }
        director.go(Phase::Stop);
        let drain =
            if end == IterationEnd::Complete { iteration.drain } else { iteration.drain.min(INTERRUPTED_DRAIN) };
        let mut in_order = !matches!(end, IterationEnd::Failed(_));
        match tokio::time::timeout(drain, reached_all(threads, &Report::Loaded)).await {
            Ok(Ok(())) => {}
            Ok(Err(reason)) => (end, in_order) = (IterationEnd::Failed(reason), false),
            Err(_) if !in_order => {}
            Err(_) => {
                in_order = false;
                observer.event(Event::Note(format!(
                    "{}: operations were still unanswered {} s after the end, and were given up",
                    iteration.what,
                    drain.as_secs()
                )));
            }
        }
        let elapsed = stopped_at.saturating_duration_since(start);
        let mut groups = Vec::new();
        for index in 0..iteration.task.groups.len() {
            groups.push(gather(threads, index, counted, elapsed, rounds, judge.steady(index)));
        }
        if end == IterationEnd::Complete && groups.iter().all(|group| group.tally.latencies.count() == 0) {
            let example = groups.iter().find_map(|group| group.error_examples.first());
            end = IterationEnd::Failed(match example {
                Some(example) => format!("no operation succeeded: {example}"),
                None => "no operation was answered".into(),
            });
        }
        (Measured { groups, rounds: counted, end }, in_order)
    }
}

/// Waits until every thread has sent `report`. Errors: how it ended instead.
async fn reached(
    threads: &mut Threads,
    report: &Report,
    interrupt: &mut watch::Receiver<bool>,
) -> Result<(), IterationEnd> {
    tokio::select! {
        result = reached_all(threads, report) => result.map_err(IterationEnd::Failed),
        Ok(_) = interrupt.wait_for(|asked| *asked) => Err(IterationEnd::Interrupted),
    }
}

/// Waits until every thread that has not failed has sent `report`. Errors: why one failed meanwhile.
async fn reached_all(threads: &mut Threads, report: &Report) -> Result<(), String> {
    let mut reached = 0;
    while reached + threads.failed < threads.count() {
        match threads.reports.recv().await {
            Some(Report::Failed(reason)) => {
                threads.failed += 1;
                return Err(reason);
            }
            Some(got) if got == *report => reached += 1,
            Some(_) => {}
            None => return Err("a thread ended unexpectedly".into()),
        }
    }
    Ok(())
}

fn operations_of(threads: &Threads, group: usize, round: u32) -> u64 {
    threads.records.iter().map(|groups| groups[group].lock().recorder.operations_of(round)).sum()
}

/// Merges what all threads recorded of one group.
fn gather(
    threads: &Threads,
    group: usize,
    counted: (u32, u32),
    elapsed: Duration,
    rounds: bench::recorder::Rounds,
    steady: Option<Window>,
) -> GroupMeasured {
    let mut all: Option<(Tally, crate::record::Record, bench::series::Series)> = None;
    for groups in &threads.records {
        let record = groups[group].lock().clone();
        let tally = record.recorder.window(counted.0, counted.1 - counted.0);
        match &mut all {
            None => {
                let series = record.recorder.series().clone();
                all = Some((tally, record, series));
            }
            Some((sum, first, series)) => {
                sum.merge(&tally);
                series.merge(record.recorder.series());
                first.mismatches += record.mismatches;
                for text in record.mismatch_examples {
                    crate::record::add_example(&mut first.mismatch_examples, || text);
                }
                for text in record.error_examples {
                    crate::record::add_example(&mut first.error_examples, || text);
                }
            }
        }
    }
    let (tally, record, series) = all.expect("there is at least one thread");
    let from = rounds.begin(counted.0);
    let until = rounds.begin(counted.1).min(elapsed);
    GroupMeasured {
        measured: until.saturating_sub(from),
        tally,
        mismatches: record.mismatches,
        mismatch_examples: record.mismatch_examples,
        error_examples: record.error_examples,
        series: series.points(elapsed),
        steady,
    }
}

/// Decides at the end of each round whether that was the last one.
struct Judge {
    /// By group; none if the plan stops after a duration.
    groups: Vec<(SteadyState, Option<Window>)>,
    window: u32,
    round: Duration,
}

impl Judge {
    fn new<C>(iteration: &Iteration<'_, C>) -> Judge {
        let groups = match iteration.stop {
            Stop::DurationS(_) => Vec::new(),
            Stop::Steady { rules, .. } => {
                iteration.task.groups.iter().map(|_| (SteadyState::new(rules), None)).collect()
            }
        };
        let rounds = iteration.task.rounds;
        Judge { groups, window: rounds.window, round: rounds.length }
    }

    /// Round `begins` begins. Returns the rounds that count if that is the end.
    fn boundary(&mut self, begins: u32, operations_of: impl Fn(usize, u32) -> u64) -> Option<(u32, u32)> {
        let ended = begins.checked_sub(1)?;
        if self.groups.is_empty() {
            return Some((0, begins));
        }
        let mut all_steady = true;
        let mut gave_up = false;
        for (index, (state, window)) in self.groups.iter_mut().enumerate() {
            let rate = operations_of(index, ended) as f64 / self.round.as_secs_f64();
            *window = None;
            match state.push(rate) {
                Verdict::Steady(steady) => *window = Some(steady),
                Verdict::GaveUp(_) => (all_steady, gave_up) = (false, true),
                Verdict::TooEarly | Verdict::Moving(_) => all_steady = false,
            }
        }
        // A group that is steady while another gives up has come to the last round as well.
        (all_steady || gave_up).then(|| self.last_window(begins))
    }

    /// The rounds that count after `complete` ones.
    fn last_window(&self, complete: u32) -> (u32, u32) {
        (complete.saturating_sub(self.window), complete)
    }

    /// The rounds that count if the load ends after `begun` rounds have begun: the last complete ones, or what there is
    /// of the first.
    fn cut_short(&self, begun: u32) -> (u32, u32) {
        match begun {
            0 => (0, 0),
            1 => (0, 1),
            _ => self.last_window(begun - 1),
        }
    }

    fn steady(&self, group: usize) -> Option<Window> {
        self.groups.get(group).and_then(|(_, window)| *window)
    }
}

/// Turns sums into events.
struct LiveView {
    what: String,
    names: Vec<String>,
    start: Instant,
    warm_up: Duration,
    end: Duration,
    due: Instant,
    before: (Instant, Vec<Total>),
}

impl LiveView {
    fn new<C>(iteration: &Iteration<'_, C>, start: Instant) -> LiveView {
        let rounds = iteration.task.rounds;
        let names: Vec<String> = iteration.task.groups.iter().map(|group| group.name.clone()).collect();
        LiveView {
            what: iteration.what.clone(),
            start,
            warm_up: rounds.warm_up,
            end: rounds.begin(rounds.count_max),
            due: start + LIVE_EVERY,
            before: (start, vec![Total::default(); names.len()]),
            names,
        }
    }

    fn look(&mut self, threads: &Threads) -> Live {
        let now = Instant::now();
        self.due = now + LIVE_EVERY;
        let (before, totals) = &mut self.before;
        let over = now - *before;
        *before = now;
        let mut groups = Vec::new();
        for (index, name) in self.names.iter().enumerate() {
            let mut total = Total::default();
            for records in &threads.records {
                let part = records[index].lock().recorder.total();
                total.operations += part.operations;
                total.bytes += part.bytes;
                total.errors += part.errors;
            }
            groups.push((name.clone(), total, Rates::between(totals[index], total, over)));
            totals[index] = total;
        }
        let elapsed = now.saturating_duration_since(self.start);
        Live { what: self.what.clone(), warming_up: elapsed < self.warm_up, elapsed, end: self.end, groups }
    }
}

#[cfg(test)]
mod tests;
