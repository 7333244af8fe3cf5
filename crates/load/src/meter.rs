//! The cost of an iteration for the machine.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bench::recorder::Rounds;
use tokio::task::JoinHandle;

use crate::iteration::Meter;
use crate::telemetry::Sample;
use crate::telemetry::cache::{Caches, Counts};
use crate::telemetry::connections::Traffic;
use crate::telemetry::figures::{Work, figures};
use crate::telemetry::process::forget_peak;
use crate::telemetry::sources::Sources;

/// Interval of samples in the record over time.
const RECORD_EVERY: Duration = Duration::from_secs(1);

/// Reads the machine's counters at the boundaries of rounds, and every second for the record over time.
pub struct ClusterMeter {
    sources: Sources,
    /// The cluster's OSDs; absent on agents, as the coordinator asks the OSDs.
    caches: Option<Caches>,
    start: Instant,
    /// The load has reads, which are to come from drives.
    reads: bool,
    /// The latest boundaries, as many as the counted rounds can need.
    boundaries: VecDeque<Boundary>,
    boundaries_max: usize,
    recorded: Option<Instant>,
    /// Lines of JSON.
    record: String,
}

/// Readings at the begin of a round.
struct Boundary {
    round: u32,
    sample: Sample,
    /// Readings that are still being taken.
    slow: Option<JoinHandle<Slow>>,
}

/// Readings that take time: of a program's output, and of OSDs under load.
struct Slow {
    traffic: Option<Traffic>,
    traffic_at: Duration,
    cache: Option<Counts>,
}

/// Resets counters of this machine and of the daemons on it. If `reads` follow, also drops the prefill's data from
/// memory.
pub fn prepare(sources: &Sources, reads: bool) {
    if reads {
        // Without the permission caches stay, and results say so.
        rustix::fs::sync();
        let _ = std::fs::write("/proc/sys/vm/drop_caches", "3");
    }
    // The first run of `ss` loads the program from the drive now, not while the load keeps the drive busy.
    let _ = Traffic::read(sources);
    sources.daemons.values().for_each(|pid| forget_peak(*pid));
}

impl ClusterMeter {
    /// `reads`: true if caches are to be emptied before the load. `start`: origin of the record's times, one for all
    /// iterations of a run.
    pub fn new(sources: Sources, rounds: Rounds, reads: bool, start: Instant) -> ClusterMeter {
        ClusterMeter {
            sources,
            caches: None,
            start,
            reads,
            boundaries: VecDeque::new(),
            boundaries_max: rounds.window as usize + 2,
            recorded: None,
            record: String::new(),
        }
    }

    /// Adds OSDs, whose caches the meter drops before the load and reads at boundaries.
    pub fn with_caches(self, caches: Caches) -> ClusterMeter {
        ClusterMeter { caches: Some(caches), ..self }
    }

    /// The sample at the begin of round `round`, if it is still kept.
    pub fn at(&self, round: u32) -> Option<&Sample> {
        self.boundaries.iter().find(|boundary| boundary.round == round).map(|boundary| &boundary.sample)
    }

    /// Figures of a workload's rows, by name, for the rounds from the first to the one before the second.
    pub fn figures(&self, rounds: (u32, u32), work: Work) -> BTreeMap<String, Option<f64>> {
        match (self.at(rounds.0), self.at(rounds.1)) {
            (Some(before), Some(after)) if rounds.0 < rounds.1 => figures(before, after, work),
            _ => BTreeMap::new(),
        }
    }

    /// The sources that the meter reads.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Samples over time, a line of JSON each.
    pub fn record(&self) -> &str {
        &self.record
    }

    fn sample(&mut self) -> Sample {
        let sample = Sample::take(self.start.elapsed(), &self.sources);
        self.recorded = Some(Instant::now());
        self.record.push_str(&sample.to_json().to_string());
        self.record.push('\n');
        sample
    }
}

impl Meter for ClusterMeter {
    async fn prepared(&mut self) {
        if let Some(caches) = self.caches.as_ref().filter(|_| self.reads) {
            caches.drop_all().await;
        }
        let (sources, reads) = (self.sources.clone(), self.reads);
        // Dropping caches may take seconds, in which other tasks must run.
        let _ = tokio::task::spawn_blocking(move || prepare(&sources, reads)).await;
    }

    async fn boundary(&mut self, round: u32) {
        // An interrupt may repeat the last boundary, whose sample was taken in time.
        if self.boundaries.iter().any(|boundary| boundary.round == round) {
            return;
        }
        let sample = self.sample();
        let (sources, caches, start) = (self.sources.clone(), self.caches.clone(), self.start);
        let slow = tokio::spawn(async move {
            let cache = async {
                match &caches {
                    Some(caches) => caches.read().await,
                    None => None,
                }
            };
            let traffic = tokio::task::spawn_blocking(move || (start.elapsed(), Traffic::read(&sources)));
            let (cache, traffic) = tokio::join!(cache, traffic);
            let (traffic_at, traffic) = traffic.unwrap_or_default();
            Slow { traffic, traffic_at, cache }
        });
        self.boundaries.push_back(Boundary { round, sample, slow: Some(slow) });
        if self.boundaries.len() > self.boundaries_max {
            self.boundaries.pop_front();
        }
    }

    fn glance(&mut self) {
        if self.recorded.is_none_or(|last| last.elapsed() >= RECORD_EVERY) {
            self.sample();
        }
    }

    async fn settle(&mut self) {
        for boundary in &mut self.boundaries {
            let Some(Ok(slow)) = (match boundary.slow.take() {
                Some(slow) => Some(slow.await),
                None => None,
            }) else {
                continue;
            };
            boundary.sample.cache = slow.cache;
            boundary.sample.traffic_at = slow.traffic.is_some().then_some(slow.traffic_at);
            boundary.sample.traffic = slow.traffic;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench::plan::Stop;
    use bench::steady::SteadyRules;

    #[tokio::test(flavor = "current_thread")]
    async fn boundaries_of_the_last_window_are_kept() {
        let rules = SteadyRules { window: 3, rounds_max: 20, ..SteadyRules::default() };
        let rounds = Rounds::new(Duration::ZERO, &Stop::Steady { round_s: 1.0, rules });
        let mut meter = ClusterMeter::new(Sources::default(), rounds, false, Instant::now());
        for round in (0..=9).chain([9]) {
            meter.boundary(round).await;
        }
        let work = Work { operations: 10, written_bytes: None };
        assert!(meter.figures((6, 9), work)["client_cpu_us_per_operation"].is_some());
        assert_eq!(meter.figures((6, 9), work)["server_cpu_us_per_operation"], None, "no daemon is here");
        assert!(meter.figures((1, 4), work).is_empty() && meter.figures((9, 9), work).is_empty());
        assert_eq!(meter.record().lines().count(), 10);
        meter.glance();
        assert_eq!(meter.record().lines().count(), 10, "too early");
        assert!(meter.record().lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
    }
}
