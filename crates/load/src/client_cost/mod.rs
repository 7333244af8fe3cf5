//! Our client's CPU time per operation beside librados's: [`measure`] lets this load generator, fio and `rados bench`
//! take turns on one cluster and one pool, with the same sizes and the same number of operations in flight.
//!
//! Ours is measured in this process between two moments. The others run as processes of their own, whose total the kernel
//! tells when they end: each runs twice, short and long, and the difference is what the operations took.

mod generator;
mod program;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bench::client_cost::{Access, COST_FORMAT, COST_VERSION, ClientCost, CostRow, Generator, Program, Spent};
use bench::plan::{Engine, Group, Load, Operations, Redundancy, Stop, Workload};
use bench::tool::Tool;
use bytes::Bytes;
use client::{Cluster, Config};
use tokio::sync::watch;

use crate::environment;
use crate::iteration::{Iteration, IterationEnd, Meter};
use crate::objects::PoolOfCluster;
use crate::observer::{Event, Observer};
use crate::pools::{self, PoolError};
use crate::run::{OP_TIMEOUT, RunError, connect_to, engine_of};
use crate::task::Task;

pub use program::ProgramError;
use program::{FioEngine, FioJob, RadosBenchJob};

/// What all work on: small enough for the caches of every cluster, so that clients and not drives are measured.
const OBJECTS: u64 = 32;
const OBJECT_BYTES: u64 = 1 << 20;
const POOL: &str = "nacre-bench-client-cost";
/// The shorter of two runs.
const SHORT: Duration = Duration::from_secs(1);
const WARM_UP_S: f64 = 1.0;
/// For a load generator by itself.
const GENERATOR: Duration = Duration::from_secs(1);

/// What to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The cluster's `ceph.conf`.
    pub configuration: PathBuf,
    pub io_bytes: u64,
    pub queue_depth: u32,
    pub replicas: u32,
    pub pg_count: u32,
    pub iterations: u32,
    /// Seconds that count in each run.
    pub seconds: u64,
    pub confidence: f64,
}

/// Why it could not be measured. The pool that was made is removed.
#[derive(Debug, thiserror::Error)]
pub enum CostError {
    #[error(transparent)]
    Cluster(Box<RunError>),
    #[error(transparent)]
    Pool(#[from] PoolError),
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error("{0}")]
    Client(#[from] client::Error),
    #[error("interrupted")]
    Interrupted,
    #[error("{what}: {reason}")]
    Failed { what: String, reason: String },
}

impl From<RunError> for CostError {
    fn from(error: RunError) -> CostError {
        CostError::Cluster(Box::new(error))
    }
}

/// Measures what `settings` say.
///
/// Errors: [`CostError`]. What was measured before is lost: half a comparison says nothing.
pub async fn measure(
    settings: &Settings,
    observer: &mut dyn Observer,
    mut interrupt: watch::Receiver<bool>,
) -> Result<ClientCost, CostError> {
    let path = settings.configuration.display().to_string();
    let engine = engine_of("cluster", &path).await?;
    let (cluster, config) = connect_to("cluster", &path).await?;
    let mut cost = ClientCost {
        format: COST_FORMAT.into(),
        version: COST_VERSION,
        environment: environment::machine(),
        io_bytes: settings.io_bytes,
        queue_depth: settings.queue_depth,
        confidence: settings.confidence,
        generators: Vec::new(),
        rows: Vec::new(),
    };
    let versions = pools::json_command(&cluster, serde_json::json!({"prefix": "versions"})).await?;
    cost.environment.insert("cluster.versions".into(), versions["overall"].to_string());
    cost.environment.insert("cluster.copies".into(), settings.replicas.to_string());
    if cluster.pools().await?.contains_key(POOL) {
        return Err(PoolError::Exists { name: POOL.into() }.into());
    }
    let redundancy = Redundancy::Replicated { size: settings.replicas };
    let mut turns = Turns { settings, cluster: &cluster, config, observer, interrupt: &mut interrupt };
    let done = turns.all(engine, redundancy, &mut cost).await;
    turns.observer.event(Event::Step(format!("removing pool {POOL}")));
    let removed = pools::delete(&cluster, POOL, redundancy).await;
    done?;
    removed?;
    Ok(cost)
}

/// One group that reads or writes at random.
fn workload(access: Access, io_bytes: u64, queue_depth: u32, seconds: f64) -> Workload {
    let operations = match access {
        Access::Read => Operations { random_read: 100, ..Operations::default() },
        Access::Write => Operations { random_write: 100, ..Operations::default() },
    };
    let group = Group {
        name: "clients".into(),
        object_bytes: OBJECT_BYTES,
        io_bytes: Some(io_bytes),
        objects: OBJECTS,
        operations,
        instances: 1,
        load: Load::Closed { queue_depth },
        prefill: Some(true),
    };
    Workload {
        name: format!("client-cost-{}", access.name()),
        pool: POOL.into(),
        tool: Tool::Nacre,
        groups: vec![group],
        warm_up_s: WARM_UP_S,
        stop: Stop::DurationS(seconds),
    }
}

struct Turns<'a> {
    settings: &'a Settings,
    cluster: &'a Cluster,
    config: Config,
    observer: &'a mut dyn Observer,
    interrupt: &'a mut watch::Receiver<bool>,
}

impl Turns<'_> {
    async fn all(&mut self, engine: Engine, redundancy: Redundancy, cost: &mut ClientCost) -> Result<(), CostError> {
        let Settings { iterations, pg_count, .. } = *self.settings;
        self.generators(cost).await?;
        self.step(format!("making pool {POOL}"));
        let create = pools::create(self.cluster, engine, POOL, redundancy, pg_count);
        tokio::select! {
            created = create => created?,
            Ok(_) = self.interrupt.wait_for(|asked| *asked) => return Err(CostError::Interrupted),
        }
        for iteration in 0..iterations {
            // Back and forth, so that a machine that drifts one way favours nobody.
            let mut programs = Program::ALL;
            if iteration % 2 == 1 {
                programs.reverse();
            }
            for program in programs {
                let of = format!("{} ({} of {iterations})", program.name(), iteration + 1);
                let figures = match program {
                    Program::Nacre => self.ours(iteration, &of).await?,
                    Program::Fio => self.fio(iteration, &of).await?,
                    Program::RadosBench => self.rados_bench(iteration, &of).await?,
                };
                for (access, (cpu_us_per_operation, operations_per_s)) in figures {
                    self.observer.event(Event::Note(format!(
                        "{of}: {}: {operations_per_s:.0} operations/s, {cpu_us_per_operation:.2} us of CPU each",
                        access.name()
                    )));
                    cost.rows.push(CostRow { program, access, iteration, operations_per_s, cpu_us_per_operation });
                }
            }
        }
        Ok(())
    }

    fn step(&mut self, text: String) {
        self.observer.event(Event::Step(text));
    }

    /// What load generators take without a cluster. That of `rados bench` cannot be had by itself.
    async fn generators(&mut self, cost: &mut ClientCost) -> Result<(), CostError> {
        let Settings { io_bytes, queue_depth, .. } = *self.settings;
        for access in Access::ALL {
            self.step(format!("load generators by themselves, {}", access.name()));
            let workload = workload(access, io_bytes, queue_depth, GENERATOR.as_secs_f64());
            let ours = tokio::task::spawn_blocking(move || generator::cost(&workload, GENERATOR)).await;
            let failed = |reason: String| CostError::Failed { what: "the load generator by itself".into(), reason };
            let ours = ours.map_err(|e| failed(e.to_string()))?.map_err(failed)?;
            let mut ended = Vec::new();
            for duration in [SHORT, SHORT * 2] {
                let job = FioJob {
                    engine: FioEngine::Null,
                    write: access == Access::Write,
                    io_bytes,
                    object_bytes: OBJECT_BYTES * OBJECTS,
                    depth: queue_depth,
                    duration,
                };
                let one = job.program().run(self.interrupt).await?;
                ended.push(Spent {
                    operations: FioJob::operations(&one.said)?,
                    cpu_s: one.cpu_s,
                    elapsed_s: duration.as_secs_f64(),
                });
            }
            let (fio, _) = between("fio without a cluster", &ended)?;
            for (program, cpu_us_per_operation) in [(Program::Nacre, ours), (Program::Fio, fio)] {
                cost.generators.push(Generator { program, access, cpu_us_per_operation });
            }
        }
        Ok(())
    }

    async fn ours(&mut self, iteration: u32, what: &str) -> Result<Vec<(Access, (f64, f64))>, CostError> {
        let Settings { io_bytes, queue_depth, seconds, .. } = *self.settings;
        let connect = PoolOfCluster { config: self.config.clone(), pool: POOL.into() };
        let mut figures = Vec::new();
        for (index, access) in (0..).zip(Access::ALL) {
            let workload = workload(access, io_bytes, queue_depth, seconds as f64);
            let iteration = Iteration {
                task: Arc::new(Task::new(1, &environment::token(), index, &workload, iteration)),
                connect: &connect,
                stop: workload.stop,
                what: format!("{what}, {}", access.name()),
                remove_objects: true,
                drain: self.config.op_timeout.unwrap_or(OP_TIMEOUT),
                processors: 1,
            };
            let mut meter = OwnCpu::default();
            let measured = iteration.run(&mut meter, self.observer, self.interrupt).await;
            let failed = |reason: String| CostError::Failed { what: what.to_owned(), reason };
            match measured.end {
                IterationEnd::Complete => {}
                IterationEnd::Interrupted => return Err(CostError::Interrupted),
                IterationEnd::Failed(reason) => return Err(failed(reason)),
            }
            let group = &measured.groups[0];
            let examples = group.mismatch_examples.iter().chain(&group.error_examples);
            if let Some(example) = examples.into_iter().next() {
                return Err(failed(example.clone()));
            }
            let spent = Spent {
                operations: group.tally.latencies.count(),
                cpu_s: meter.between(measured.rounds).unwrap_or_default().as_secs_f64(),
                elapsed_s: group.measured.as_secs_f64(),
            };
            figures.push((access, between(what, &[Spent { operations: 0, cpu_s: 0.0, elapsed_s: 0.0 }, spent])?));
        }
        Ok(figures)
    }

    async fn fio(&mut self, iteration: u32, what: &str) -> Result<Vec<(Access, (f64, f64))>, CostError> {
        let Settings { io_bytes, queue_depth, .. } = *self.settings;
        let names: Vec<String> = (0..OBJECTS).map(|number| format!("client-cost.{iteration}.{number}")).collect();
        let configuration = self.settings.configuration.clone();
        let mut figures = Vec::new();
        for access in Access::ALL {
            self.step(format!("{what}, {}", access.name()));
            let mut ended = Vec::new();
            for duration in self.durations() {
                // Its engine removes its objects at its end, and reads nothing from objects that are not there.
                self.write_whole(&names).await?;
                let job = FioJob {
                    engine: FioEngine::Rados { configuration: &configuration, pool: POOL, objects: &names },
                    write: access == Access::Write,
                    io_bytes,
                    object_bytes: OBJECT_BYTES,
                    depth: queue_depth,
                    duration,
                };
                let one = job.program().run(self.interrupt).await?;
                let operations = FioJob::operations(&one.said)?;
                ended.push(Spent { operations, cpu_s: one.cpu_s, elapsed_s: duration.as_secs_f64() });
            }
            figures.push((access, between(what, &ended)?));
        }
        Ok(figures)
    }

    async fn rados_bench(&mut self, iteration: u32, what: &str) -> Result<Vec<(Access, (f64, f64))>, CostError> {
        let Settings { io_bytes, queue_depth, .. } = *self.settings;
        let (run_name, configuration) = (format!("client-cost-{iteration}"), self.settings.configuration.clone());
        let mut figures = Vec::new();
        // It reads what it wrote.
        for access in [Access::Write, Access::Read] {
            self.step(format!("{what}, {}", access.name()));
            let mut ended = Vec::new();
            for duration in self.durations() {
                let job = RadosBenchJob {
                    configuration: &configuration,
                    pool: POOL,
                    run_name: &run_name,
                    write: access == Access::Write,
                    io_bytes,
                    object_bytes: OBJECT_BYTES,
                    depth: queue_depth,
                    duration,
                };
                let one = job.program().run(self.interrupt).await?;
                let operations = RadosBenchJob::operations(&one.said)?;
                ended.push(Spent { operations, cpu_s: one.cpu_s, elapsed_s: duration.as_secs_f64() });
            }
            figures.push((access, between(what, &ended)?));
        }
        Ok(figures)
    }

    fn durations(&self) -> [Duration; 2] {
        [SHORT, SHORT + Duration::from_secs(self.settings.seconds)]
    }

    async fn write_whole(&mut self, names: &[String]) -> Result<(), CostError> {
        let pool = self.cluster.pool(POOL).await?;
        let data = Bytes::from(vec![0x5a; OBJECT_BYTES as usize]);
        for name in names {
            if *self.interrupt.borrow() {
                return Err(CostError::Interrupted);
            }
            pool.write_full(name.clone(), data.clone()).await?;
        }
        Ok(())
    }
}

/// What came between the first and the last.
fn between(what: &str, ended: &[Spent]) -> Result<(f64, f64), CostError> {
    let figures = ended.first().zip(ended.last()).and_then(|(first, last)| last.since(*first));
    figures.ok_or_else(|| CostError::Failed {
        what: what.to_owned(),
        reason: format!("the longer of two runs did or took no more than the shorter: {ended:?}"),
    })
}

/// This process's CPU time at the boundaries of rounds.
#[derive(Default)]
struct OwnCpu {
    at: Vec<(u32, Duration)>,
}

impl OwnCpu {
    fn between(&self, rounds: (u32, u32)) -> Option<Duration> {
        let at = |round| self.at.iter().find(|(number, _)| *number == round).map(|(_, cpu)| *cpu);
        at(rounds.1)?.checked_sub(at(rounds.0)?)
    }
}

impl Meter for OwnCpu {
    async fn prepared(&mut self) {}

    async fn boundary(&mut self, round: u32) {
        self.at.push((round, generator::process_cpu()));
    }

    fn glance(&mut self) {}
}
