//! CPU time per operation of our client beside librados. [`measure`] lets this load generator, fio and `rados bench`
//! take turns on one cluster and one pool, with the same sizes, the same number of operations in flight, and the same
//! spread over objects: [`Access`]. Each operation is one read or one write, without hints or guards.
//!
//! Our client is measured in this process between two moments. The others run as processes of their own, whose total
//! CPU time the kernel tells at their end: each runs twice, short and long, and the difference is the cost of the
//! operations.

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
use program::{Ended, FioEngine, FioJob, RadosBenchJob, RadosBenchKind};

/// Number and size of the objects of random operations: small enough for the caches of every cluster, so that clients
/// and not drives are measured.
const OBJECTS: u64 = 32;
const OBJECT_BYTES: u64 = 1 << 20;
/// Size of each object that is written in sequence.
const LONG_OBJECT_BYTES: u64 = 64 << 20;
/// Largest number of new objects in a run of ours; beyond it the first ones are written again.
const NEW_OBJECTS: u64 = 1 << 18;
const POOL: &str = "nacre-bench-client-cost";
/// Name of the run of `rados bench` that writes the objects of its reads, and its time limit.
const TO_READ: &str = "client-cost-to-read";
const FILL_MAX: Duration = Duration::from_secs(120);
/// Duration of the shorter of two runs.
const SHORT: Duration = Duration::from_secs(1);
/// A pair of runs is made so often before it fails because the longer one did less.
const ATTEMPTS: u32 = 5;
const WARM_UP_S: f64 = 1.0;
/// Duration of a measurement of a load generator without a cluster.
const GENERATOR: Duration = Duration::from_secs(1);

/// Settings of a measurement.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Path of the cluster's `ceph.conf`.
    pub configuration: PathBuf,
    pub io_bytes: u64,
    pub queue_depth: u32,
    pub replicas: u32,
    pub pg_count: u32,
    pub iterations: u32,
    /// Seconds measured in each run.
    pub seconds: u64,
    pub confidence: f64,
}

/// The reason why the measurement failed. The pool that it made is removed.
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

/// Measures the cost by `settings`.
///
/// Errors: [`CostError`]. Earlier figures are dropped: half a comparison says nothing.
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

/// Largest number of operations in flight: the smallest number of blocks among the accesses.
pub fn depth_max(io_bytes: u64) -> u64 {
    Access::ALL.map(|access| workload(access, io_bytes, 1, 1.0).groups[0].blocks()).into_iter().min().unwrap_or(0)
}

/// A workload of one group with this access alone.
fn workload(access: Access, io_bytes: u64, queue_depth: u32, seconds: f64) -> Workload {
    let nothing = Operations::default();
    let in_sequence = Operations { sequential_write: 100, ..nothing };
    let (operations, object_bytes, objects, prefill) = match access {
        Access::RandomRead => (Operations { random_read: 100, ..nothing }, OBJECT_BYTES, OBJECTS, true),
        Access::RandomWrite => (Operations { random_write: 100, ..nothing }, OBJECT_BYTES, OBJECTS, true),
        Access::OneObjectWrite => (in_sequence, LONG_OBJECT_BYTES, 1, false),
        Access::NewObjectWrite => (in_sequence, io_bytes, NEW_OBJECTS, false),
    };
    let group = Group {
        name: "clients".into(),
        object_bytes,
        io_bytes: Some(io_bytes),
        objects,
        operations,
        instances: 1,
        load: Load::Closed { queue_depth },
        prefill: Some(prefill),
        list_keys: None,
    };
    Workload {
        name: format!("client-cost-{access:?}"),
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
        self.step("writing what rados bench is to read".into());
        let io_bytes = self.settings.io_bytes;
        let to_read = RadosBenchKind::Write { io_bytes, object_bytes: OBJECT_BYTES, objects: Some(OBJECTS) };
        self.rados_bench(TO_READ, to_read, FILL_MAX).await?;
        for iteration in 0..iterations {
            for access in Access::ALL {
                // The order alternates, so that a machine that drifts one way favours none of the programs.
                let mut programs = Program::ALL;
                if iteration % 2 == 1 {
                    programs.reverse();
                }
                for program in programs.into_iter().filter(|program| program.does(access)) {
                    let what = format!("{}, {} ({} of {iterations})", program.name(), access.name(), iteration + 1);
                    self.step(what.clone());
                    let mut attempts = ATTEMPTS;
                    let (cpu_us_per_operation, operations_per_s) = loop {
                        let ended = match program {
                            Program::Nacre => self.ours(access, iteration, &what).await?,
                            Program::Fio | Program::RadosBench => self.librados(program, access, iteration).await?,
                        };
                        if let Some(difference) = self.judged(&what, ended, &mut attempts)? {
                            break difference;
                        }
                    };
                    self.observer.event(Event::Note(format!(
                        "{what}: {operations_per_s:.0} operations/s, {cpu_us_per_operation:.2} us of CPU each"
                    )));
                    cost.rows.push(CostRow { program, access, iteration, operations_per_s, cpu_us_per_operation });
                }
            }
        }
        Ok(())
    }

    /// CPU time per operation in microseconds, and operations per second, by the difference of two runs. `None` if they
    /// are to be made again: other work of the machine has held up the longer one.
    fn judged(&mut self, what: &str, ended: [Spent; 2], attempts: &mut u32) -> Result<Option<(f64, f64)>, CostError> {
        *attempts -= 1;
        match between(what, ended) {
            Err(CostError::Failed { reason, .. }) if *attempts > 0 => {
                self.observer.event(Event::Note(format!("{what}, measured again: {reason}")));
                Ok(None)
            }
            outcome => outcome.map(Some),
        }
    }

    fn step(&mut self, text: String) {
        self.observer.event(Event::Step(text));
    }

    /// CPU time of load generators without a cluster. That of `rados bench` cannot be measured separately.
    async fn generators(&mut self, cost: &mut ClientCost) -> Result<(), CostError> {
        let Settings { io_bytes, queue_depth, .. } = *self.settings;
        for access in Access::ALL {
            self.step(format!("load generators by themselves, {}", access.name()));
            let workload = workload(access, io_bytes, queue_depth, GENERATOR.as_secs_f64());
            let ours = tokio::task::spawn_blocking(move || generator::cost(&workload, GENERATOR)).await;
            let failed = |reason: String| CostError::Failed { what: "the load generator by itself".into(), reason };
            let ours = ours.map_err(|e| failed(e.to_string()))?.map_err(failed)?;
            cost.generators.push(Generator { program: Program::Nacre, access, cpu_us_per_operation: ours });
            if !Program::Fio.does(access) {
                continue;
            }
            let mut attempts = ATTEMPTS;
            let (cpu_us_per_operation, _) = loop {
                let mut ended = [Spent::default(); 2];
                for (ended, duration) in ended.iter_mut().zip([SHORT, SHORT * 2]) {
                    let engine = FioEngine::Null;
                    *ended = spent(self.fio(engine, access, OBJECT_BYTES * OBJECTS, duration).await?, duration);
                }
                if let Some(difference) = self.judged("fio without a cluster", ended, &mut attempts)? {
                    break difference;
                }
            };
            cost.generators.push(Generator { program: Program::Fio, access, cpu_us_per_operation });
        }
        Ok(())
    }

    /// Operations and CPU time of our own client, at the begin and the end of the measured time.
    async fn ours(&mut self, access: Access, iteration: u32, what: &str) -> Result<[Spent; 2], CostError> {
        let Settings { io_bytes, queue_depth, seconds, .. } = *self.settings;
        let connect = PoolOfCluster { config: self.config.clone(), pool: POOL.into(), images: None, bucket: None };
        let workload = workload(access, io_bytes, queue_depth, seconds as f64);
        let iteration = Iteration {
            task: Arc::new(Task::new(1, &environment::token(), access as u32, &workload, iteration)),
            connect: &connect,
            stop: workload.stop,
            what: what.to_owned(),
            // The objects are removed with their pool.
            remove_objects: false,
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
        Ok([Spent::default(), spent])
    }

    /// Operations and CPU time of a program on librados, in a short and in a long run.
    async fn librados(&mut self, program: Program, access: Access, iteration: u32) -> Result<[Spent; 2], CostError> {
        let io_bytes = self.settings.io_bytes;
        let mut both = [Spent::default(); 2];
        for (of_run, duration) in both.iter_mut().zip([SHORT, SHORT + Duration::from_secs(self.settings.seconds)]) {
            let run_name = format!("client-cost-{iteration}-{access:?}");
            let write = |object_bytes| RadosBenchKind::Write { io_bytes, object_bytes, objects: None };
            let ended = match (program, access) {
                (Program::RadosBench, Access::RandomRead) => {
                    self.rados_bench(TO_READ, RadosBenchKind::RandomRead, duration).await?
                }
                (Program::RadosBench, Access::NewObjectWrite) => {
                    self.rados_bench(&run_name, write(io_bytes), duration).await?
                }
                (Program::RadosBench, _) => self.rados_bench(&run_name, write(LONG_OBJECT_BYTES), duration).await?,
                _ => {
                    // The engine of fio removes its objects at its end, and reads nothing from objects that do not
                    // exist.
                    let objects: Vec<String> = (0..OBJECTS).map(|number| format!("{run_name}.{number}")).collect();
                    self.write_whole(&objects).await?;
                    let configuration = self.settings.configuration.clone();
                    let engine = FioEngine::Rados { configuration: &configuration, pool: POOL, objects: &objects };
                    self.fio(engine, access, OBJECT_BYTES, duration).await?
                }
            };
            *of_run = spent(ended, duration);
        }
        Ok(both)
    }

    async fn fio(
        &mut self,
        engine: FioEngine<'_>,
        access: Access,
        object_bytes: u64,
        duration: Duration,
    ) -> Result<Ended, CostError> {
        let Settings { io_bytes, queue_depth: depth, .. } = *self.settings;
        let job = FioJob { engine, write: access.is_write(), io_bytes, object_bytes, depth, duration };
        Ok(job.program().run(self.interrupt).await?)
    }

    async fn rados_bench(
        &mut self,
        run_name: &str,
        kind: RadosBenchKind,
        duration: Duration,
    ) -> Result<Ended, CostError> {
        let (configuration, depth) = (&self.settings.configuration, self.settings.queue_depth);
        let job = RadosBenchJob { configuration, pool: POOL, run_name, kind, depth, duration };
        Ok(job.program().run(self.interrupt).await?)
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

fn spent(ended: Ended, duration: Duration) -> Spent {
    Spent { operations: ended.operations, cpu_s: ended.cpu_s, elapsed_s: duration.as_secs_f64() }
}

/// The difference between the first and the second.
fn between(what: &str, [first, second]: [Spent; 2]) -> Result<(f64, f64), CostError> {
    second.since(first).ok_or_else(|| CostError::Failed {
        what: what.to_owned(),
        reason: format!("the longer of two runs did or took no more than the shorter: {first:?}, {second:?}"),
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

    async fn settle(&mut self) {}
}
