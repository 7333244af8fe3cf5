//! Workers of an iteration: threads of this process, or agents on other machines. The iteration tells them what to do
//! and when; they report their progress and, at the end, their results.

use std::sync::Arc;
use std::time::Duration;

use bench::recorder::{Rounds, Tally, Total};
use bench::series::Series;

use crate::control::{Director, Phase};
use crate::objects::Connect;
use crate::record::{Record, add_example};
use crate::task::Task;
use crate::threads::{Report, Threads};

/// Time before the start at which threads must know it, so that all begin together.
const LOCAL_LEAD: Duration = Duration::from_millis(20);

/// Members that work together on one iteration.
pub trait Crew {
    /// Number of members that have not failed: so many reports of each phase are expected.
    fn count(&self) -> usize;

    /// Time between the decision to load and the start of the load, so that all members begin together.
    fn lead(&self) -> Duration;

    fn go(&mut self, phase: Phase);

    /// The next report of a member; `None` if all are gone. May be cancelled and called again.
    fn report(&mut self) -> impl Future<Output = Option<Report>>;

    /// Empties caches on the members' machines, as far as the iteration's meter does not.
    ///
    /// Errors: the reason why a member cannot go on.
    fn prepare(&mut self) -> impl Future<Output = Result<(), String>>;

    /// Bytes that the prefill has written.
    fn prepared_bytes(&self) -> u64;

    /// Sums of group `group` since the start of the load.
    fn total(&self, group: usize) -> Total;

    /// Waits until every member has told its operations in round `round`, which has ended.
    fn told(&mut self, round: u32) -> impl Future<Output = ()>;

    fn operations_of(&self, group: usize, round: u32) -> u64;

    /// Results of the rounds from the first to the one before the second, by group.
    fn gather(&mut self, counted: (u32, u32)) -> impl Future<Output = Vec<Share>>;

    /// Names of the members whose share is missing from the gathered results.
    fn missing(&self) -> Vec<String>;

    /// Ends all work, and waits for that. A second call does nothing.
    fn end(&mut self) -> impl Future<Output = ()>;
}

/// Results of some members for one group.
#[derive(Clone, Debug)]
pub struct Share {
    pub tally: Tally,
    pub series: Series,
    /// Reads that returned wrong bytes, warm-up included.
    pub mismatches: u64,
    pub mismatch_examples: Vec<String>,
    pub error_examples: Vec<String>,
}

impl Share {
    /// An empty share.
    pub fn empty(rounds: Rounds) -> Share {
        let record = bench::recorder::Recorder::new(rounds);
        Share {
            tally: record.window(0, 0),
            series: record.series().clone(),
            mismatches: 0,
            mismatch_examples: Vec::new(),
            error_examples: Vec::new(),
        }
    }

    fn of(record: &Record, counted: (u32, u32)) -> Share {
        Share {
            tally: record.recorder.window(counted.0, counted.1.saturating_sub(counted.0)),
            series: record.recorder.series().clone(),
            mismatches: record.mismatches,
            mismatch_examples: record.mismatch_examples.clone(),
            error_examples: record.error_examples.clone(),
        }
    }

    /// Adds the share of other members.
    pub fn merge(&mut self, other: Share) {
        self.tally.merge(&other.tally);
        self.series.merge(&other.series);
        self.mismatches += other.mismatches;
        for text in other.mismatch_examples {
            add_example(&mut self.mismatch_examples, || text);
        }
        for text in other.error_examples {
            add_example(&mut self.error_examples, || text);
        }
    }
}

/// Threads of this process.
pub struct LocalCrew {
    director: Director,
    threads: Threads,
    task: Arc<Task>,
}

impl LocalCrew {
    /// Starts `count` threads with the instances of `task` that belong to `part`: the number of a crew, and the count
    /// of crews.
    pub fn start<C: Connect>(task: &Arc<Task>, connect: &C, part: (usize, usize), count: usize) -> LocalCrew {
        let director = Director::default();
        let threads = Threads::start(task, connect, &director.control(), part, count);
        LocalCrew { director, threads, task: task.clone() }
    }
}

impl LocalCrew {
    /// Waits until the threads have ended, which [`Phase::End`] makes them do.
    pub fn join(&mut self) {
        self.threads.join();
    }
}

impl Crew for LocalCrew {
    fn count(&self) -> usize {
        self.threads.count()
    }

    fn lead(&self) -> Duration {
        LOCAL_LEAD
    }

    fn go(&mut self, phase: Phase) {
        self.director.go(phase);
    }

    async fn report(&mut self) -> Option<Report> {
        self.threads.report().await
    }

    async fn prepare(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn prepared_bytes(&self) -> u64 {
        self.director.prepared_bytes()
    }

    fn total(&self, group: usize) -> Total {
        let mut sum = Total::default();
        for records in &self.threads.records {
            sum.add(records[group].lock().recorder.total());
        }
        sum
    }

    async fn told(&mut self, _round: u32) {}

    fn operations_of(&self, group: usize, round: u32) -> u64 {
        self.threads.records.iter().map(|groups| groups[group].lock().recorder.operations_of(round)).sum()
    }

    async fn gather(&mut self, counted: (u32, u32)) -> Vec<Share> {
        let of_group = |group: usize| {
            let mut all = Share::empty(self.task.rounds);
            for records in &self.threads.records {
                let share = Share::of(&records[group].lock(), counted);
                all.merge(share);
            }
            all
        };
        (0..self.task.groups.len()).map(of_group).collect()
    }

    fn missing(&self) -> Vec<String> {
        Vec::new()
    }

    async fn end(&mut self) {
        self.director.go(Phase::End);
        self.threads.join();
    }
}
