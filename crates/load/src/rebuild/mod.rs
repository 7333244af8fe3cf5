//! The resilience test: a cluster is filled, OSDs are lost and come back empty, and every copy is restored.
//!
//! 1. A pool is made and filled up to a share of the raw capacity. Clients are measured on it.
//! 2. The OSDs are stopped, without data moving elsewhere (`noout`). Once groups miss members, their stores are erased
//!    and made anew.
//! 3. They are started, which starts the clock; it stops when no copy is missing. With a load, clients are at work
//!    before that, and are measured from the start of the clock until its end.
//! 4. Steps 2 and 3 once without and once with a load. The pool is removed.
//!
//! However it ends, OSDs that were stopped run again, flags are as before, and the pool is gone.
//!
//! [`facts`] decides by the monitors' answers, [`Hands`] does what no monitor can. Absent: any way to a daemon's
//! process or store.

mod facts;
mod hands;
mod lost;

pub use facts::{FILL_PERCENT_MAX, Lost};
pub use hands::Hands;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bench::plan::{self, Group, Load, Operations, PLAN_VERSION, Plan, Pool, Redundancy, Stop, Workload};
use bench::report::{BEFORE, End, RunResult};
use client::{Cluster, Config};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::environment;
use crate::iteration::{Iteration, IterationEnd};
use crate::meter::ClusterMeter;
use crate::objects::PoolOfCluster;
use crate::observer::{Event, Observer};
use crate::pools::{self, PoolError, Space};
use crate::rows::rows;
use crate::run::{OP_TIMEOUT, RunError, SPACE_NOISE_BYTES, connect_to};
use crate::run_folder::{FolderError, RunFolder};
use crate::task::Task;
use crate::telemetry::cache::Caches;
use crate::telemetry::figures::Work;
use crate::telemetry::sources::Sources;
use facts::{Status, objects_to_fill, osds_of, shows_fill, stops_serving};

/// Name of the pool that is made.
const POOL: &str = "nacre-bench-rebuild";
/// Data that writers of a load write over and over.
const WRITERS_BYTES: u64 = 64 << 20;
/// Load before the OSDs come back, or before it is measured.
const WARM_UP_SECONDS: f64 = 2.0;
/// Operations in flight that still end after a load.
const DRAIN_EXTRA: Duration = Duration::from_secs(2);
/// A cluster that was just started is whole by then.
const WHOLE_WITHIN: Duration = Duration::from_secs(60);
/// OSDs have told the monitors of what was filled by then.
const FILL_TOLD_WITHIN: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(250);

/// The test to run.
#[derive(Clone, Debug)]
pub struct RebuildOptions {
    /// Folder for everything about the run. Must not exist.
    pub folder: PathBuf,
    pub redundancy: Redundancy,
    pub pg_count: u32,
    /// Share of the raw capacity to fill, in percent.
    pub fill_percent: f64,
    pub object_bytes: u64,
    pub lost: Lost,
    /// A rebuild for each: true with a load.
    pub loads: Vec<bool>,
    /// Clients of a load that read what fills the cluster, clients that write objects of their own, and operations in
    /// flight of each.
    pub readers: u32,
    pub writers: u32,
    pub depth: u32,
    /// Time for which the load is measured before the loss.
    pub before: Duration,
    /// Longest time of a rebuild.
    pub limit: Duration,
    pub seed: u64,
    /// The pool stays.
    pub keep: bool,
    /// The command line, for people who repeat the run.
    pub command: Vec<String>,
    /// The program's version.
    pub version: String,
}

/// The reason why a test could not begin. The cluster is as it was.
#[derive(Debug, thiserror::Error)]
pub enum RebuildError {
    #[error(transparent)]
    Run(Box<RunError>),
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Pool(#[from] PoolError),
    #[error("this cannot be run")]
    Plan(#[from] plan::PlanError),
    #[error("OSDs to lose: {0}")]
    Lost(String),
    #[error("fill: {0}")]
    Fill(String),
    #[error("the cluster is not whole, so nothing is taken from it: {up} of {osds} OSDs are up, {states}")]
    NotWhole { up: u64, osds: u64, states: String },
    #[error("clients would have to wait without these OSDs: {0}; lose fewer, or use more redundancy")]
    StopsServing(String),
    #[error("interrupted before anything was done")]
    Interrupted,
    #[error("the cluster has the flag {0} set, which keeps rebuilds from ending: unset it first")]
    Flag(String),
}

impl From<RunError> for RebuildError {
    fn from(error: RunError) -> RebuildError {
        RebuildError::Run(Box::new(error))
    }
}

/// A failure of the test, in words, or the user's wish to end it.
enum Halt {
    Interrupted,
    Failed(String),
}

impl Halt {
    fn failed(error: impl std::fmt::Display) -> Halt {
        Halt::Failed(error.to_string())
    }
}

/// The result of several steps, all of which were done: all failures, or else an interrupt.
fn worst<const N: usize>(steps: [Result<(), Halt>; N]) -> Result<(), Halt> {
    let halts: Vec<Halt> = steps.into_iter().filter_map(Result::err).collect();
    let failed = |halt: &Halt| match halt {
        Halt::Failed(reason) => Some(reason.clone()),
        Halt::Interrupted => None,
    };
    let failures: Vec<String> = halts.iter().filter_map(failed).collect();
    match (halts.is_empty(), failures.is_empty()) {
        (true, _) => Ok(()),
        (false, true) => Err(Halt::Interrupted),
        (false, false) => Err(Halt::Failed(failures.join("; and "))),
    }
}

/// Runs the test on a cluster by whatever `hands` does to OSDs. The returned result, and the folder, hold what was
/// measured, whether the run was complete, interrupted or failed.
///
/// Errors: [`RebuildError`] if it could not begin.
pub async fn run(
    of_plan: plan::Cluster,
    options: &RebuildOptions,
    hands: &mut impl Hands,
    observer: &mut dyn Observer,
    interrupt: watch::Receiver<bool>,
) -> Result<RunResult, RebuildError> {
    observer.event(Event::Step(format!("connecting to {}", of_plan.name)));
    let (cluster, config) = connect_to(&of_plan.name, &of_plan.configuration).await?;
    // Waits for OSDs that have not told their space yet.
    pools::free_bytes(&cluster).await?;
    let space = pools::space(&cluster).await?;
    let there = cluster.pools().await.map_err(|source| RunError::Client { cluster: of_plan.name.clone(), source })?;
    if there.contains_key(POOL) {
        return Err(PoolError::Exists { name: POOL.into() }.into());
    }
    let tree = pools::json_command(&cluster, json!({"prefix": "osd tree"})).await?;
    let osds = osds_of(&options.lost, &tree)?;
    let osd_count = until_whole(&cluster, there.is_empty(), &interrupt).await?;
    let osd_dump = pools::json_command(&cluster, json!({"prefix": "osd dump"})).await?;
    let had_noout = check_flags(&osd_dump)?;
    if let Some(why) = stops_serving(&osds, &groups(&cluster).await?, &osd_dump) {
        return Err(RebuildError::StopsServing(why));
    }
    let objects = objects_to_fill(space, options.fill_percent, options.redundancy, options.object_bytes)?;
    let plan = plan_of(of_plan, options, objects);
    plan.check()?;
    let folder = RunFolder::create(&options.folder)?;
    let mut facts = environment::machine();
    let token = environment::token();
    facts.insert("token".into(), token.clone());
    facts.insert("program".into(), options.version.clone());
    facts.insert("command".into(), options.command.join(" "));
    folder.write("command.txt", &(options.command.join(" ") + "\n"))?;
    let of_plan = plan.clusters[0].clone();
    environment::cluster(&of_plan.name, &cluster, &mut facts, &folder).await?;
    folder.copy_configuration(&of_plan.name, &of_plan.configuration)?;
    let result = RunResult::new(plan, facts);
    let mut test = Test {
        options,
        of_plan,
        cluster,
        config,
        osds,
        osd_count,
        space,
        filled_bytes: objects * options.object_bytes,
        had_noout,
        token,
        folder,
        result,
        observer,
        interrupt,
        start: Instant::now(),
    };
    test.all(hands).await?;
    Ok(test.result)
}

/// Waits until every OSD serves and no copy is missing: shortly after a start nobody knows yet. `no_pools`: there are
/// no groups that could be clean. Returns how many OSDs there are.
async fn until_whole(
    cluster: &Cluster,
    no_pools: bool,
    interrupt: &watch::Receiver<bool>,
) -> Result<u64, RebuildError> {
    let end = Instant::now() + WHOLE_WITHIN;
    loop {
        let status = Status::of(&pools::json_command(cluster, json!({"prefix": "status"})).await?);
        let all_serve = status.up == status.osds && status.joined == status.osds && status.degraded == 0;
        if all_serve && (status.clean || no_pools) {
            return Ok(status.osds);
        }
        if *interrupt.borrow() {
            return Err(RebuildError::Interrupted);
        }
        if Instant::now() >= end {
            return Err(RebuildError::NotWhole { up: status.up, osds: status.osds, states: status.states });
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Members of all groups.
async fn groups(cluster: &Cluster) -> Result<Value, PoolError> {
    pools::json_command(cluster, json!({"prefix": "pg dump", "dumpcontents": ["pgs_brief"]})).await
}

/// Tells if `noout` is set already.
///
/// Errors: a flag is set with which a rebuild would not begin or not end.
fn check_flags(osd_dump: &Value) -> Result<bool, RebuildError> {
    let flags: Vec<&str> = osd_dump["flags"].as_str().unwrap_or_default().split(',').collect();
    let hinders = ["norecover", "nobackfill", "norebalance", "noup", "nodown", "noin", "pause", "pauserd", "pausewr"];
    match flags.iter().find(|flag| hinders.contains(flag)) {
        Some(flag) => Err(RebuildError::Flag((*flag).to_owned())),
        None => Ok(flags.contains(&"noout")),
    }
}

/// Names of the rebuilds: `rebuild`, `rebuild-under-load`; several of a kind are numbered.
fn names(loads: &[bool]) -> Vec<String> {
    let name = |(index, load): (usize, &bool)| {
        let before = loads[..index].iter().filter(|one| *one == load).count();
        let word = if *load { "rebuild-under-load" } else { "rebuild" };
        if before > 0 { format!("{word}-{}", before + 1) } else { word.to_owned() }
    };
    loads.iter().enumerate().map(name).collect()
}

/// The workloads of the test: clients before the loss, and those of each rebuild with a load.
fn plan_of(of_plan: plan::Cluster, options: &RebuildOptions, objects: u64) -> Plan {
    let load = Load::Closed { queue_depth: options.depth };
    let group = |name: &str, operations: Operations, objects: u64, instances: u32| Group {
        name: name.into(),
        object_bytes: options.object_bytes,
        io_bytes: None,
        objects,
        operations,
        instances,
        load,
        prefill: Some(operations.reads() > 0),
        list_keys: None,
    };
    let reads = Operations { random_read: 100, ..Operations::default() };
    let writes = Operations { random_write: 100, ..Operations::default() };
    // Readers are always there: what they read is what fills the cluster.
    let mut groups = vec![group("readers", reads, objects, options.readers.max(1))];
    if options.writers > 0 {
        let workers = u64::from(options.writers) * u64::from(options.depth);
        let objects = (WRITERS_BYTES / options.object_bytes.max(1)).max(workers);
        groups.push(group("writers", writes, objects, options.writers));
    }
    let workload = |name: String, seconds: f64| Workload {
        name,
        pool: POOL.into(),
        tool: Default::default(),
        groups: groups.clone(),
        warm_up_s: WARM_UP_SECONDS,
        stop: Stop::DurationS(seconds),
    };
    let mut workloads = vec![workload(BEFORE.into(), options.before.as_secs_f64())];
    let loaded = names(&options.loads).into_iter().zip(&options.loads).filter(|(_, load)| **load);
    workloads.extend(loaded.map(|(name, _)| workload(name, options.limit.as_secs_f64())));
    Plan {
        version: PLAN_VERSION,
        name: POOL.into(),
        seed: options.seed,
        clusters: vec![of_plan],
        pools: vec![Pool { name: POOL.into(), redundancy: Some(options.redundancy), pg_count: Some(options.pg_count) }],
        workloads,
        iterations: 1,
        confidence: 0.9,
        stop_gain_percent: None,
    }
}

/// A test under way.
struct Test<'a> {
    options: &'a RebuildOptions,
    of_plan: plan::Cluster,
    cluster: Cluster,
    config: Config,
    /// The OSDs that are lost.
    osds: Vec<u32>,
    /// OSDs of the cluster.
    osd_count: u64,
    /// Space of the cluster before it is filled.
    space: Space,
    /// Bytes of the objects that fill the cluster.
    filled_bytes: u64,
    had_noout: bool,
    token: String,
    folder: RunFolder,
    result: RunResult,
    observer: &'a mut dyn Observer,
    interrupt: watch::Receiver<bool>,
    /// Start of the run, from which records over time count.
    start: Instant,
}

impl Test<'_> {
    async fn all(&mut self, hands: &mut impl Hands) -> Result<(), FolderError> {
        let redundancy = self.options.redundancy;
        let mut end = self.parts(hands).await;
        if !self.options.keep {
            self.step("removing the pool");
            // The pool may not be there, if making it failed.
            let is_there = self.cluster.pools().await.map_or(true, |pools| pools.contains_key(POOL));
            if is_there && let Err(error) = pools::delete(&self.cluster, POOL, redundancy).await {
                let left = Err(Halt::Failed(format!("pool {POOL} is left behind: {error}")));
                end = worst([end, left]);
            } else if is_there && end.is_ok() {
                self.until_freed().await;
            }
        }
        self.result.end = match end {
            Ok(()) => End::Complete,
            Err(Halt::Interrupted) => End::Interrupted,
            Err(Halt::Failed(reason)) => End::Failed(reason),
        };
        self.folder.write_result(&self.result)
    }

    /// Waits until the pool's space is free, so that whoever looks next, such as one more test, finds the cluster as it
    /// was.
    async fn until_freed(&mut self) {
        self.step("waiting until the pool's space is free");
        let tolerance = SPACE_NOISE_BYTES * self.osd_count;
        let freed = tokio::select! {
            freed = pools::wait_until_freed(&self.cluster, self.space.used, tolerance) => freed,
            Ok(_) = self.interrupt.wait_for(|asked| *asked) => return,
        };
        let left = freed.map_or_else(|error| Some(error.to_string()), |freed| freed.left_in_words(POOL));
        left.into_iter().for_each(|left| self.note(left));
    }

    async fn parts(&mut self, hands: &mut impl Hands) -> Result<(), Halt> {
        self.make_pool().await?;
        self.before().await?;
        self.until_fill_is_told().await?;
        for (name, with_load) in names(&self.options.loads).into_iter().zip(&self.options.loads) {
            self.save()?;
            self.lose(hands, &name, *with_load).await?;
        }
        Ok(())
    }

    fn save(&self) -> Result<(), Halt> {
        self.folder.write_result(&self.result).map_err(Halt::failed)
    }

    fn step(&mut self, text: &str) {
        self.observer.event(Event::Step(format!("{}: {text}", self.of_plan.name)));
    }

    fn note(&mut self, text: String) {
        self.observer.event(Event::Note(text));
    }

    async fn make_pool(&mut self) -> Result<(), Halt> {
        self.step("making the pool");
        let RebuildOptions { redundancy, pg_count, .. } = *self.options;
        tokio::select! {
            made = pools::create(&self.cluster, self.of_plan.engine, POOL, redundancy, pg_count) => {
                made.map_err(Halt::failed)?;
            }
            Ok(_) = self.interrupt.wait_for(|asked| *asked) => return Err(Halt::Interrupted),
        }
        let osd_dump = self.ask("osd dump").await?;
        let dump = groups(&self.cluster).await.map_err(Halt::failed)?;
        match stops_serving(&self.osds, &dump, &osd_dump) {
            Some(why) => Err(Halt::failed(RebuildError::StopsServing(why))),
            None => Ok(()),
        }
    }

    async fn ask(&self, prefix: &str) -> Result<Value, Halt> {
        pools::json_command(&self.cluster, json!({ "prefix": prefix })).await.map_err(Halt::failed)
    }

    async fn status(&self) -> Result<Status, Halt> {
        Ok(Status::of(&self.ask("status").await?))
    }

    /// The workload called `name`, and the task of all workloads: all read the same objects.
    fn load_of(&self, name: &str, filled: bool) -> (Workload, Arc<Task>) {
        let workload = self.result.plan.workloads.iter().find(|workload| workload.name == name);
        let workload = workload.expect("the plan has every load").clone();
        let first = &self.result.plan.workloads[0];
        let rounds = bench::recorder::Rounds::new(workload.warm_up(), &workload.stop);
        let task = Task { filled, rounds, ..Task::new(self.options.seed, &self.token, 0, first, 0) };
        (workload, Arc::new(task))
    }

    fn connect(&self) -> PoolOfCluster {
        PoolOfCluster { config: self.config.clone(), pool: POOL.into(), images: None, bucket: None }
    }

    fn drain(&self) -> Duration {
        self.config.op_timeout.unwrap_or(OP_TIMEOUT) + DRAIN_EXTRA
    }

    /// A meter of the daemons that run now.
    async fn meter(&self, stop: &Stop, warm_up: Duration, reads: bool) -> Result<ClusterMeter, Halt> {
        let dump = self.ask("osd dump").await?;
        let sources = Sources::find(Path::new(&self.of_plan.configuration), &dump);
        let rounds = bench::recorder::Rounds::new(warm_up, stop);
        Ok(ClusterMeter::new(sources, rounds, reads, self.start)
            .with_caches(Caches::new(self.cluster.clone(), &dump["osds"])))
    }

    /// Fills the cluster, and measures clients on it.
    async fn before(&mut self) -> Result<(), Halt> {
        let (workload, task) = self.load_of(BEFORE, false);
        let mut meter = self.meter(&workload.stop, workload.warm_up(), true).await?;
        let iteration = Iteration {
            task,
            connect: &self.connect(),
            stop: workload.stop,
            what: format!("{} {BEFORE}", self.of_plan.name),
            remove_objects: false,
            drain: self.drain(),
            processors: environment::processors(),
        };
        let measured = iteration.run(&mut meter, self.observer, &mut self.interrupt).await;
        let figures = meter.figures(measured.rounds, Work { operations: operations(&measured), written_bytes: None });
        self.result.rows.extend(rows(&self.of_plan.name, &workload, 0, &measured, &figures));
        self.keep_record(BEFORE, meter.record());
        match measured.end {
            IterationEnd::Complete => Ok(()),
            IterationEnd::Interrupted => Err(Halt::Interrupted),
            IterationEnd::Failed(reason) => Err(Halt::Failed(format!("clients before the loss: {reason}"))),
        }
    }

    /// Waits until the monitors know of what was filled: what is lost, and how full the cluster is, follows from what
    /// they tell. Statistics that stay behind are noted, and the test goes on.
    async fn until_fill_is_told(&mut self) -> Result<(), Halt> {
        self.step("waiting for statistics of what was filled");
        let end = Instant::now() + FILL_TOLD_WITHIN;
        loop {
            let now = pools::space(&self.cluster).await.map_err(Halt::failed)?;
            if shows_fill(self.space, now, self.options.redundancy, self.filled_bytes) {
                return Ok(());
            }
            if Instant::now() >= end {
                self.note(format!(
                    "the monitors tell of {} bytes in use after {} bytes were filled, which is less than it should be: \
                     figures of how full the cluster is and of what was lost may be too low",
                    now.used, self.filled_bytes
                ));
                return Ok(());
            }
            self.pause().await?;
        }
    }

    fn keep_record(&mut self, name: &str, record: &str) {
        let file = bench::report::Telemetry::file(&self.of_plan.name, name, 0);
        if let Err(error) = self.folder.write(&file, record) {
            self.note(error.to_string());
        }
    }
}

fn operations(measured: &crate::iteration::Measured) -> u64 {
    measured.groups.iter().map(|group| group.tally.latencies.count()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench::plan::Engine;

    fn options(loads: &[bool]) -> RebuildOptions {
        RebuildOptions {
            folder: "x".into(),
            redundancy: Redundancy::Replicated { size: 3 },
            pg_count: 32,
            fill_percent: 50.0,
            object_bytes: 256 << 10,
            lost: Lost::Osds(vec![0]),
            loads: loads.to_vec(),
            readers: 2,
            writers: 1,
            depth: 8,
            before: Duration::from_secs(5),
            limit: Duration::from_secs(600),
            seed: 1,
            keep: false,
            command: Vec::new(),
            version: "v".into(),
        }
    }

    #[test]
    fn plans_of_tests_can_be_run() {
        let cluster = plan::Cluster::new("c", Engine::Ceph, "x");
        let made = |options: &RebuildOptions| plan_of(cluster.clone(), options, 1000);
        let plan = made(&options(&[false, true, true]));
        plan.check().unwrap();
        let named: Vec<&str> = plan.workloads.iter().map(|workload| workload.name.as_str()).collect();
        assert_eq!(named, ["before", "rebuild-under-load", "rebuild-under-load-2"]);
        let of_groups: Vec<_> =
            plan.workloads[0].groups.iter().map(|g| (g.objects, g.instances, g.prefill())).collect();
        assert_eq!(of_groups, [(1000, 2, true), (256, 1, false)]);
        let alone = made(&RebuildOptions { writers: 0, readers: 0, ..options(&[false]) });
        alone.check().unwrap();
        assert_eq!((alone.workloads.len(), alone.workloads[0].groups.len()), (1, 1));
    }

    #[test]
    fn a_failure_is_told_before_an_interrupt() {
        let failed = |words: &str| Err(Halt::Failed(words.to_owned()));
        assert!(worst([Ok(()), Ok(())]).is_ok());
        assert!(matches!(worst([Err(Halt::Interrupted), Ok(())]), Err(Halt::Interrupted)));
        let worst = worst([Err(Halt::Interrupted), failed("first"), failed("second")]);
        assert!(matches!(worst, Err(Halt::Failed(words)) if words == "first; and second"));
    }

    #[test]
    fn flags_that_keep_a_rebuild_from_ending_are_refused() {
        let check = |flags: &str| check_flags(&json!({ "flags": flags })).map_err(|error| error.to_string());
        assert_eq!(check("sortbitwise,recovery_deletes"), Ok(false));
        assert_eq!(check("noout,sortbitwise"), Ok(true));
        assert!(check("noout,norecover").unwrap_err().contains("norecover"));
        assert!(check("pauserd,pausewr").is_err());
    }
}
