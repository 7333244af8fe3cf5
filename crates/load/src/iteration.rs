//! One iteration of a workload on one cluster, from connecting to cleaning up: commands the crew, watches rounds, and
//! gathers the results, however it ends.

use std::sync::Arc;
use std::time::Duration;

use bench::plan::Stop;
use bench::recorder::{Tally, Total};
use bench::series::SeriesPoint;
use bench::steady::{SteadyState, SteadyVerdict, Window};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::control::Phase;
use crate::crew::{Crew, LocalCrew, Share};
use crate::objects::Connect;
use crate::observer::{Event, Live, Observer, Rates};
use crate::task::Task;
use crate::threads::{Report, thread_count};

/// Interval of live events.
const LIVE_EVERY: Duration = Duration::from_millis(500);
/// Time that operations get to end after an interrupt.
const INTERRUPTED_DRAIN: Duration = Duration::from_secs(5);
/// Time limits for removing objects: normally, and where operations were left unanswered before.
const CLEAN_MAX: Duration = Duration::from_secs(300);
const DOUBTFUL_CLEAN_MAX: Duration = Duration::from_secs(30);

/// Measurements at certain points of an iteration, beside the load.
pub trait Meter {
    /// All objects are written; the load begins next.
    fn prepared(&mut self) -> impl Future<Output = ()>;

    /// Round `round` begins now, and the one before it ends. The load goes on meanwhile, so this must not wait for slow
    /// readings.
    fn boundary(&mut self, round: u32) -> impl Future<Output = ()>;

    /// The load has ended: waits for slow readings that boundaries began.
    fn settle(&mut self) -> impl Future<Output = ()>;

    /// Called from time to time during the load.
    fn glance(&mut self);
}

/// The iteration to run.
pub struct Iteration<'a, C> {
    pub task: Arc<Task>,
    /// Connects threads of this process to the objects.
    pub connect: &'a C,
    pub stop: Stop,
    /// Description of the iteration, for people.
    pub what: String,
    /// Objects are removed afterwards.
    pub remove_objects: bool,
    /// Time that operations may still take after the end.
    pub drain: Duration,
    pub processors: usize,
}

/// The participants of a running iteration.
struct Steps<'a, C, K, M> {
    iteration: &'a Iteration<'a, C>,
    crew: &'a mut K,
    meter: &'a mut M,
    observer: &'a mut dyn Observer,
    interrupt: &'a mut watch::Receiver<bool>,
}

/// The result of an iteration.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Results in the plan's order of groups; empty if the load did not begin.
    pub groups: Vec<GroupMeasured>,
    /// The counted rounds: the first, and the one after the last.
    pub rounds: (u32, u32),
    pub end: IterationEnd,
    /// Names of the members whose share is missing.
    pub missing: Vec<String>,
}

impl Measured {
    /// The result of an iteration in which nothing was measured.
    pub fn failed(reason: String) -> Measured {
        Measured { groups: Vec::new(), rounds: (0, 0), end: IterationEnd::Failed(reason), missing: Vec::new() }
    }
}

/// The way in which an iteration ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IterationEnd {
    Complete,
    Interrupted,
    Failed(String),
}

/// The results of one group in the counted rounds.
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
    /// Runs the iteration with threads of this process. Never leaves a thread behind.
    pub async fn run(
        &self,
        meter: &mut impl Meter,
        observer: &mut dyn Observer,
        interrupt: &mut watch::Receiver<bool>,
    ) -> Measured {
        let mut crew = self.local();
        let measured = self.run_with(&mut crew, meter, observer, interrupt).await;
        crew.end().await;
        measured
    }

    /// Runs the iteration with `crew`, which has begun to connect. The caller ends the crew afterwards.
    pub async fn run_with(
        &self,
        crew: &mut impl Crew,
        meter: &mut impl Meter,
        observer: &mut dyn Observer,
        interrupt: &mut watch::Receiver<bool>,
    ) -> Measured {
        let mut steps = Steps { iteration: self, crew, meter, observer, interrupt };
        let mut measured = steps.all().await;
        measured.missing = steps.crew.missing();
        measured
    }

    fn local(&self) -> LocalCrew {
        let count = thread_count(self.task.instances().len(), self.processors);
        LocalCrew::start(&self.task, self.connect, (0, 1), count)
    }
}

impl<C: Connect, K: Crew, M: Meter> Steps<'_, C, K, M> {
    async fn all(&mut self) -> Measured {
        let nothing = |end| Measured { groups: Vec::new(), rounds: (0, 0), end, missing: Vec::new() };
        let what = &self.iteration.what;
        self.observer.event(Event::Step(format!("{what}: connecting")));
        if let Err(end) = self.reached(&Report::Connected).await {
            return nothing(end);
        }
        let (mut measured, in_order) = match self.fill().await {
            Err(end) => {
                self.crew.go(Phase::Stop);
                let interrupted = end == IterationEnd::Interrupted;
                let ended = tokio::time::timeout(INTERRUPTED_DRAIN, reached_all(self.crew, &Report::Loaded)).await;
                (nothing(end), interrupted && ended == Ok(Ok(())))
            }
            Ok(()) => self.load().await,
        };
        if self.iteration.remove_objects && in_order {
            remove(self.iteration, self.crew, CLEAN_MAX, self.observer, &mut measured).await;
        } else if self.iteration.remove_objects {
            // Clients that failed or wait for answers cannot remove objects; fresh clients do.
            self.crew.end().await;
            let mut fresh = self.iteration.local();
            remove(self.iteration, &mut fresh, DOUBTFUL_CLEAN_MAX, self.observer, &mut measured).await;
            fresh.end().await;
        }
        measured
    }

    /// Writes the objects, and drops them from caches.
    async fn fill(&mut self) -> Result<(), IterationEnd> {
        let Iteration { task, what, .. } = self.iteration;
        let to_write: u64 = task.groups.iter().filter(|g| g.prefill()).map(|g| g.objects * g.object_bytes).sum();
        self.crew.go(Phase::Prefill);
        let mut reached = 0;
        while reached < self.crew.count() {
            tokio::select! {
                report = self.crew.report() => reached += usize::from(is(report, &Report::Prefilled)?),
                Ok(_) = self.interrupt.wait_for(|asked| *asked) => return Err(IterationEnd::Interrupted),
                () = tokio::time::sleep(LIVE_EVERY) => {
                    let (done, all) = (self.crew.prepared_bytes() >> 20, to_write >> 20);
                    self.observer.event(Event::Step(format!("{what}: prefill, {done} of {all} MiB")));
                }
            }
        }
        self.meter.prepared().await;
        tokio::select! {
            prepared = self.crew.prepare() => prepared.map_err(IterationEnd::Failed),
            Ok(_) = self.interrupt.wait_for(|asked| *asked) => Err(IterationEnd::Interrupted),
        }
    }

    async fn load(&mut self) -> (Measured, bool) {
        let iteration = self.iteration;
        let rounds = iteration.task.rounds;
        let start = Instant::now() + self.crew.lead();
        self.crew.go(Phase::Load(start));
        let mut judge = Judge::new(iteration);
        let mut live = LiveView::new(iteration, start);
        let mut next_round = 0;
        // The result of the loop: the counted rounds (first, after the last), the time of the end, and its kind.
        let (counted, stopped_at, mut end) = loop {
            let boundary = start + rounds.begin(next_round);
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(boundary) => {
                    self.meter.boundary(next_round).await;
                    if let (Some(ended), true) = (next_round.checked_sub(1), judge.asks()) {
                        self.crew.told(ended).await;
                    }
                    let verdict = judge.boundary(next_round, |group, round| self.crew.operations_of(group, round));
                    next_round += 1;
                    if let Some(counted) = verdict {
                        break (counted, boundary, IterationEnd::Complete);
                    }
                }
                Ok(_) = self.interrupt.wait_for(|asked| *asked) => {
                    break (judge.cut_short(next_round), Instant::now(), IterationEnd::Interrupted);
                }
                report = self.crew.report() => {
                    if let Err(end) = is(report, &Report::Loaded) {
                        break (judge.cut_short(next_round), Instant::now(), end);
                    }
                }
                () = tokio::time::sleep_until(live.due) => {
                    self.observer.event(Event::Live(live.look(self.crew)));
                    self.meter.glance();
                }
            }
        };
        if end != IterationEnd::Complete {
            // The last reading of the machine must match the end of the measured time.
            self.meter.boundary(counted.1).await;
        }
        self.crew.go(Phase::Stop);
        let drain =
            if end == IterationEnd::Complete { iteration.drain } else { iteration.drain.min(INTERRUPTED_DRAIN) };
        let mut in_order = !matches!(end, IterationEnd::Failed(_));
        match tokio::time::timeout(drain, reached_all(self.crew, &Report::Loaded)).await {
            Ok(Ok(())) => {}
            Ok(Err(reason)) => (end, in_order) = (IterationEnd::Failed(reason), false),
            Err(_) if !in_order => {}
            Err(_) => {
                in_order = false;
                self.observer.event(Event::Note(format!(
                    "{}: operations were still unanswered {} s after the end, and were given up",
                    iteration.what,
                    drain.as_secs()
                )));
            }
        }
        self.meter.settle().await;
        let elapsed = stopped_at.saturating_duration_since(start);
        let shares = self.crew.gather(counted).await;
        let group = |(index, share)| of_share(share, counted, elapsed, rounds, judge.steady(index));
        let groups: Vec<GroupMeasured> = shares.into_iter().enumerate().map(group).collect();
        if end == IterationEnd::Complete && groups.iter().all(|group| group.tally.latencies.count() == 0) {
            let example = groups.iter().find_map(|group| group.error_examples.first());
            end = IterationEnd::Failed(match example {
                Some(example) => format!("no operation succeeded: {example}"),
                None => "no operation was answered".into(),
            });
        }
        (Measured { groups, rounds: counted, end, missing: Vec::new() }, in_order)
    }

    /// Waits until every member has sent `report`. Errors: the end of the iteration that came instead.
    async fn reached(&mut self, report: &Report) -> Result<(), IterationEnd> {
        tokio::select! {
            result = reached_all(self.crew, report) => result.map_err(IterationEnd::Failed),
            Ok(_) = self.interrupt.wait_for(|asked| *asked) => Err(IterationEnd::Interrupted),
        }
    }
}

async fn remove<C>(
    iteration: &Iteration<'_, C>,
    crew: &mut impl Crew,
    limit: Duration,
    observer: &mut dyn Observer,
    measured: &mut Measured,
) {
    observer.event(Event::Step(format!("{}: removing objects", iteration.what)));
    crew.go(Phase::Clean);
    let reason = match tokio::time::timeout(limit, reached_all(crew, &Report::Cleaned)).await {
        Ok(Ok(())) => return,
        Ok(Err(reason)) => reason,
        Err(_) => format!("not done within {} s", limit.as_secs()),
    };
    let prefix = &iteration.task.prefix;
    let said = format!("objects {prefix}.* could not all be removed: {reason}");
    observer.event(Event::Note(format!("{}: {said}", iteration.what)));
    if !matches!(measured.end, IterationEnd::Failed(_)) {
        measured.end = IterationEnd::Failed(said);
    }
}

/// True if a report is the wanted one. Errors: the report tells of a failure, or all members are gone.
fn is(report: Option<Report>, wanted: &Report) -> Result<bool, IterationEnd> {
    match report {
        Some(Report::Failed(reason)) => Err(IterationEnd::Failed(reason)),
        Some(got) => Ok(got == *wanted),
        None => Err(IterationEnd::Failed("a thread ended unexpectedly".into())),
    }
}

/// Waits until every member that has not failed has sent `report`. Errors: the reason why a member failed meanwhile.
async fn reached_all(crew: &mut impl Crew, report: &Report) -> Result<(), String> {
    let mut reached = 0;
    while reached < crew.count() {
        match is(crew.report().await, report) {
            Ok(it_is) => reached += usize::from(it_is),
            Err(IterationEnd::Failed(reason)) => return Err(reason),
            Err(other) => unreachable!("a report does not say {other:?}"),
        }
    }
    Ok(())
}

fn of_share(
    share: Share,
    counted: (u32, u32),
    elapsed: Duration,
    rounds: bench::recorder::Rounds,
    steady: Option<Window>,
) -> GroupMeasured {
    let from = rounds.begin(counted.0);
    let until = rounds.begin(counted.1).min(elapsed);
    GroupMeasured {
        measured: until.saturating_sub(from),
        tally: share.tally,
        mismatches: share.mismatches,
        mismatch_examples: share.mismatch_examples,
        error_examples: share.error_examples,
        series: share.series.points(elapsed),
        steady,
    }
}

/// Decides at the end of each round if it was the last one.
struct Judge {
    /// States by group; empty if the plan stops after a duration.
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

    /// True if the judge needs the operations of each round.
    fn asks(&self) -> bool {
        !self.groups.is_empty()
    }

    /// Judges at the begin of round `begins`. Returns the counted rounds if the load ends here.
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
                SteadyVerdict::Steady(steady) => *window = Some(steady),
                SteadyVerdict::GaveUp(_) => (all_steady, gave_up) = (false, true),
                SteadyVerdict::TooEarly | SteadyVerdict::Moving(_) => all_steady = false,
            }
        }
        // If one group gives up, this round is the last one of all groups, even of those that are steady.
        (all_steady || gave_up).then(|| self.last_window(begins))
    }

    /// The counted rounds after `complete` complete ones.
    fn last_window(&self, complete: u32) -> (u32, u32) {
        (complete.saturating_sub(self.window), complete)
    }

    /// The counted rounds if the load ends after `begun` rounds have begun: the last complete ones, or the begun part
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

/// Turns sums into live events.
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

    fn look(&mut self, crew: &impl Crew) -> Live {
        let now = Instant::now();
        self.due = now + LIVE_EVERY;
        let (before, totals) = &mut self.before;
        let over = now - *before;
        *before = now;
        let mut groups = Vec::new();
        for (index, name) in self.names.iter().enumerate() {
            let total = crew.total(index);
            groups.push((name.clone(), total, Rates::between(totals[index], total, over)));
            totals[index] = total;
        }
        let elapsed = now.saturating_duration_since(self.start);
        Live { what: self.what.clone(), warming_up: elapsed < self.warm_up, elapsed, end: self.end, groups }
    }
}

#[cfg(test)]
mod tests;
