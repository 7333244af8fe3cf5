//! A run of a whole plan: every workload on every cluster, as often as the plan says, clusters in turns. A search for a
//! load is in [`search`], work with agents in [`by_agents`].

mod by_agents;
mod search;

use by_agents::Elsewhere;
pub use search::SearchRules;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bench::plan::{self, Engine, Plan, Redundancy, Workload};
use bench::report::{End, Row, RunResult, WorkloadHops};
use bench::tool::{ForeignTool, Tool};
use client::{Cluster, Config};
use control::version::OWN_KEY;
use serde_json::Value;
use tokio::sync::watch;

use crate::agents::links::{AgentError, Agents};
use crate::agents::protocol::{Begin, Site};
use crate::environment;
use crate::hops;
use crate::images;
use crate::iteration::{Iteration, IterationEnd, Measured};
use crate::meter::ClusterMeter;
use crate::objects::PoolOfCluster;
use crate::observer::{Event, Observer};
use crate::pools::{self, PoolError};
use crate::rows::rows;
use crate::run_folder::{FolderError, RunFolder};
use crate::s3::{BucketSite, GatewayError, listener};
use crate::task::Task;
use crate::telemetry::cache::Caches;
use crate::telemetry::figures::Work;
use crate::telemetry::sources::Sources;
use crate::tools::{self, ToolMeasured, ToolRun};

/// Default time limit of an operation, where a configuration sets none.
pub(crate) const OP_TIMEOUT: Duration = Duration::from_secs(60);
const MON_OP_TIMEOUT: Duration = Duration::from_secs(60);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Time to wait for answers beyond the longest that an operation may take.
const DRAIN_EXTRA: Duration = Duration::from_secs(2);
/// Largest age of an asked-for operation beyond the measured time: OSDs are asked about so long after the last counted
/// operation.
const HOPS_AFTER_S: f64 = 2.0;
/// Space per OSD that may come and go by the store's own work.
pub(crate) const SPACE_NOISE_BYTES: u64 = 48 << 20;

/// Options of a run beside its plan.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder for everything about the run. Must not exist.
    pub folder: PathBuf,
    /// Pools and objects are kept.
    pub keep: bool,
    /// Measures first the capabilities of this machine's drive and network without a cluster.
    pub ceilings: bool,
    /// Loads are searched for instead of the plan's, which has one workload.
    pub search: Option<SearchRules>,
    /// Agents that carry the load, as `HOST:PORT`; if there are none, this process carries it.
    pub agents: Vec<String>,
    /// Secret that agents may ask for.
    pub agent_token: Option<String>,
    /// The command line, for people who repeat the run.
    pub command: Vec<String>,
    /// The program's version.
    pub version: String,
}

/// The reason why a run could not begin. Nothing has been changed on any cluster.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("cluster {cluster}: its configuration {path} cannot be used")]
    Configuration { cluster: String, path: String, source: client::ConfError },
    #[error("cluster {cluster} ({path}) cannot be reached")]
    Unreachable { cluster: String, path: String, source: client::ConnectError },
    #[error("cluster {cluster}")]
    Cluster { cluster: String, source: PoolError },
    #[error("cluster {cluster}: {source}")]
    Client { cluster: String, source: client::Error },
    #[error(
        "cluster {cluster} has {free_mib} MiB free, and workload {workload} writes {needed_mib} MiB in {objects} \
         objects with their redundancy; \
         use fewer or smaller objects"
    )]
    Space { cluster: String, workload: String, objects: u64, needed_mib: u64, free_mib: u64 },
    #[error("what the drive under {folder} can do cannot be measured")]
    Ceilings { folder: PathBuf, source: std::io::Error },
    #[error("cluster {cluster}: {source}")]
    Gateway { cluster: String, source: GatewayError },
    #[error("workload {workload}: {reason}")]
    Tool { workload: String, reason: String },
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Agent(#[from] AgentError),
}

/// A cluster of the plan, connected.
struct Connected {
    plan: plan::Cluster,
    config: Config,
    cluster: Cluster,
    osds: u64,
    sources: Sources,
    /// The gateway, for the workloads of S3. The bucket is a workload's own.
    gateway: Option<BucketSite>,
    /// List of OSDs in the cluster's `osd dump`.
    osd_dump: Value,
}

/// Runs `plan`. The paths of its configurations must be valid in the working directory. The returned result, and the
/// folder, hold the measurements, whether the run was complete, interrupted or failed.
///
/// Errors: [`RunError`] if the run could not begin.
pub async fn run(
    plan: Plan,
    options: &Options,
    observer: &mut dyn Observer,
    mut interrupt: watch::Receiver<bool>,
) -> Result<RunResult, RunError> {
    if let Some(error) = refused_tool(&plan, options) {
        return Err(error);
    }
    let mut clusters = Vec::new();
    for of_plan in &plan.clusters {
        observer.event(Event::Step(format!("connecting to {}", of_plan.name)));
        let connected = tokio::select! {
            connected = connect(of_plan) => connected?,
            Ok(_) = interrupt.wait_for(|asked| *asked) => {
                let mut result = RunResult::new(plan, BTreeMap::new());
                result.end = End::Interrupted;
                return Ok(result);
            }
        };
        check_pools(&plan, &connected).await?;
        clusters.push(connected);
    }
    let agents = match options.agents.is_empty() {
        true => None,
        false => Some(agents(&plan, options, observer).await?),
    };
    let folder = RunFolder::create(&options.folder)?;
    let token = environment::token();
    let mut facts = environment::machine();
    facts.insert("token".into(), token.clone());
    facts.insert("program".into(), options.version.clone());
    facts.insert("command".into(), options.command.join(" "));
    folder.write("command.txt", &(options.command.join(" ") + "\n"))?;
    folder.write("plan.json", &(plan.to_json() + "\n"))?;
    for connected in &mut clusters {
        let dump = environment::cluster(&connected.plan.name, &connected.cluster, &mut facts, &folder).await?;
        connected.sources = Sources::find(Path::new(&connected.plan.configuration), &dump);
        connected.osd_dump = dump["osds"].clone();
        let gateway = connected.gateway.as_ref().and_then(|site| listener::process_of(&site.authority));
        connected.sources.daemons.extend(gateway.map(|(port, pid)| (format!("gateway.{port}"), pid)));
        let daemons = connected.sources.daemons.len();
        let said = if daemons == 0 { "not available: none on this machine".into() } else { daemons.to_string() };
        facts.insert(format!("cluster.{}.daemons_measured", connected.plan.name), said);
        folder.copy_configuration(&connected.plan.name, &connected.plan.configuration)?;
    }
    facts.extend(agents.iter().flat_map(Agents::facts));
    let mut result = RunResult::new(plan, facts);
    if options.ceilings {
        observer.event(Event::Step("measuring what the drive and the network can do".into()));
        let place = folder_of(&result.plan.clusters[0]);
        let measured = crate::ceilings::measure(&place);
        result.ceilings = Some(measured.map_err(|source| RunError::Ceilings { folder: place, source })?);
    }
    let start = Instant::now();
    let mut run = Run { options, clusters, agents, token, folder, result, observer, interrupt, start };
    match options.search {
        Some(rules) => run.search(rules).await?,
        None => run.all().await?,
    }
    Ok(run.result)
}

/// The reason why a tool cannot carry a workload's load; `None` if all can.
fn refused_tool(plan: &Plan, options: &Options) -> Option<RunError> {
    let is_limited = |workload: &&Workload| !workload.tool.is_own();
    plan.workloads.iter().filter(is_limited).find_map(|workload| {
        let (name, missing) = (workload.tool.name(), tools::check(workload.tool).err());
        let elsewhere =
            || format!("agents carry the load of the tools nacre, nacre-rbd and nacre-s3; {name} runs on this machine");
        let reason = missing.or_else(|| (!options.agents.is_empty()).then(elsewhere))?;
        Some(RunError::Tool { workload: workload.name.clone(), reason })
    })
}

/// Connects to the agents, and checks that there is work for each.
async fn agents(plan: &Plan, options: &Options, observer: &mut dyn Observer) -> Result<Agents, AgentError> {
    observer.event(Event::Step("connecting to agents".into()));
    let agents = Agents::connect(&options.agents, &options.version, options.agent_token.as_deref()).await?;
    for workload in &plan.workloads {
        let instances: u32 = workload.groups.iter().map(|group| group.instances).sum();
        if agents.carriers() > instances as usize {
            let workload = workload.name.clone();
            return Err(AgentError::TooFewInstances { agents: agents.carriers(), workload, instances });
        }
    }
    for link in &agents.links {
        let (Some(wall), Some(monotonic)) = (link.wall, link.monotonic) else { continue };
        let us = |ns: i128| ns as f64 / 1000.0;
        observer.event(Event::Note(format!(
            "agent {} on {}: its time of day is {:+.0} us from ours (known to {:.0} us); starts agree to {:.0} us",
            link.name,
            link.machine.host,
            us(wall.offset_ns),
            us(wall.uncertainty_ns),
            us(monotonic.uncertainty_ns)
        )));
    }
    Ok(agents)
}

/// The folder of a cluster's configuration, which on one machine also holds its stores.
fn folder_of(cluster: &plan::Cluster) -> PathBuf {
    let folder = Path::new(&cluster.configuration).parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new(".")).to_owned()
}

/// Finds if the daemons of the cluster with configuration `path` are Nacre's or Ceph's. `name` is for errors.
pub async fn engine_of(name: &str, path: &str) -> Result<Engine, RunError> {
    let of_plan = plan::Cluster::new(name, Engine::Ceph, path);
    let connected = connect(&of_plan).await?;
    let facts = pools::json_command(&connected.cluster, serde_json::json!({"prefix": "mon metadata"})).await;
    let facts = facts.map_err(|source| RunError::Cluster { cluster: name.to_owned(), source })?;
    let is_nacre = facts.as_array().is_some_and(|all| all.iter().any(|of_mon| of_mon.get(OWN_KEY).is_some()));
    Ok(if is_nacre { Engine::Nacre } else { Engine::Ceph })
}

/// Connects to the cluster with configuration `path`, with time limits for every request. `name` is for errors.
pub(crate) async fn connect_to(name: &str, path: &str) -> Result<(Cluster, Config), RunError> {
    let (name, path) = (name.to_owned(), path.to_owned());
    let config = Config::from_conf(&path);
    let mut config =
        config.map_err(|source| RunError::Configuration { cluster: name.clone(), path: path.clone(), source })?;
    config.connect_timeout = config.connect_timeout.min(CONNECT_TIMEOUT);
    config.op_timeout.get_or_insert(OP_TIMEOUT);
    config.mon_op_timeout.get_or_insert(MON_OP_TIMEOUT);
    let cluster = Cluster::connect(config.clone()).await;
    let cluster = cluster.map_err(|source| RunError::Unreachable { cluster: name, path, source })?;
    Ok((cluster, config))
}

async fn connect(of_plan: &plan::Cluster) -> Result<Connected, RunError> {
    let name = of_plan.name.clone();
    let (cluster, config) = connect_to(&name, &of_plan.configuration).await?;
    let status = pools::json_command(&cluster, serde_json::json!({"prefix": "osd stat"})).await;
    let status = status.map_err(|source| RunError::Cluster { cluster: name, source })?;
    let osds = status["num_in_osds"].as_u64().unwrap_or(1).max(1);
    let timeout = config.op_timeout.unwrap_or(OP_TIMEOUT);
    let site = |gateway| BucketSite::new(gateway, "", timeout);
    let gateway = of_plan.s3.as_ref().map(site).transpose();
    let gateway = gateway.map_err(|source| RunError::Gateway { cluster: of_plan.name.clone(), source })?;
    let (sources, osd_dump) = (Sources::default(), Value::Null);
    Ok(Connected { plan: of_plan.clone(), config, cluster, osds, sources, gateway, osd_dump })
}

/// Checks that expected pools exist, that pools to be made do not, and that there is room.
async fn check_pools(plan: &Plan, connected: &Connected) -> Result<(), RunError> {
    let cluster = || connected.plan.name.clone();
    let there = connected.cluster.pools().await.map_err(|source| RunError::Client { cluster: cluster(), source })?;
    for pool in plan.pools.iter().filter(|pool| !plan.is_bucket(&pool.name)) {
        let name = pool.name.clone();
        let wrong = match (pool.to_make(), there.contains_key(&name)) {
            (Some(_), true) => PoolError::Exists { name },
            (None, false) => {
                let names: Vec<&str> = there.keys().map(String::as_str).collect();
                let there =
                    if names.is_empty() { "there are none".into() } else { format!("there are {}", names.join(", ")) };
                PoolError::Missing { name, there }
            }
            _ => continue,
        };
        return Err(RunError::Cluster { cluster: cluster(), source: wrong });
    }
    let free = pools::free_bytes(&connected.cluster).await;
    let free = free.map_err(|source| RunError::Cluster { cluster: cluster(), source })?;
    for workload in &plan.workloads {
        let redundancy = plan.pool(&workload.pool).and_then(|pool| pool.redundancy);
        let needed = needed_bytes(workload, redundancy);
        if needed > free {
            return Err(RunError::Space {
                cluster: cluster(),
                workload: workload.name.clone(),
                objects: workload.groups.iter().map(|group| group.objects).sum(),
                needed_mib: needed >> 20,
                free_mib: free >> 20,
            });
        }
    }
    Ok(())
}

/// Space that a workload's objects take, redundancy included; for an existing pool, one copy at least.
fn needed_bytes(workload: &Workload, redundancy: Option<Redundancy>) -> u64 {
    let data = workload.groups.iter().map(|group| group.objects.saturating_mul(group.object_bytes));
    let data: u64 = data.fold(0, u64::saturating_add);
    match redundancy {
        None => data,
        Some(Redundancy::Replicated { size }) => data.saturating_mul(u64::from(size)),
        Some(Redundancy::Erasure { k, m }) => data.saturating_mul(u64::from(k + m)) / u64::from(k),
    }
}

struct Run<'a> {
    options: &'a Options,
    clusters: Vec<Connected>,
    /// `None` where this process carries the load.
    agents: Option<Agents>,
    token: String,
    folder: RunFolder,
    result: RunResult,
    observer: &'a mut dyn Observer,
    interrupt: watch::Receiver<bool>,
    /// Start of the run, from which the record over time counts.
    start: Instant,
}

/// The decision after an iteration.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Next {
    Iteration,
    End(End),
}

impl Run<'_> {
    async fn all(&mut self) -> Result<(), FolderError> {
        let plan = self.result.plan.clone();
        let mut failures = Failures::new(self.clusters.len());
        for iteration in 0..plan.iterations {
            for (index, workload) in plan.workloads.iter().enumerate() {
                let index = u32::try_from(index).expect("a plan has few workloads");
                // The order alternates, so that a machine that drifts one way favours none of the clusters.
                let mut order: Vec<usize> = (0..self.clusters.len()).collect();
                if iteration % 2 == 1 {
                    order.reverse();
                }
                for cluster in order {
                    if failures.skip(cluster, index) || self.is_past_high_water(cluster, workload, iteration) {
                        continue;
                    }
                    let next = self.one(cluster, index, workload, iteration).await;
                    self.save()?;
                    match next {
                        Next::Iteration => failures.succeeded(cluster),
                        Next::End(End::Failed(reason)) => {
                            self.note(format!("{}: {reason}", workload.name));
                            let give_up = failures.failed(cluster, index, &workload.name, reason);
                            self.result.end = failures.end();
                            // After the loss of an agent, every further row would measure a different load.
                            if give_up || self.has_lost_an_agent() {
                                return self.save();
                            }
                        }
                        Next::End(end) => {
                            self.result.end = end;
                            return self.save();
                        }
                    }
                }
            }
        }
        self.save()
    }

    fn save(&self) -> Result<(), FolderError> {
        self.folder.write_result(&self.result)
    }

    fn note(&mut self, text: String) {
        self.observer.event(Event::Note(text));
    }

    /// Runs one workload on one cluster once. Adds its rows.
    async fn one(&mut self, cluster: usize, index: u32, workload: &Workload, iteration: u32) -> Next {
        if *self.interrupt.borrow() {
            return Next::End(End::Interrupted);
        }
        let plan = &self.result.plan;
        let connected = &self.clusters[cluster];
        let name = connected.plan.name.clone();
        let pool = plan.pool(&workload.pool).expect("a checked plan has the pools of its workloads").clone();
        let times =
            if plan.iterations > 1 { format!(" ({} of {})", iteration + 1, plan.iterations) } else { String::new() };
        let what = format!("{name} {}{times}", workload.name);
        let failed = |error: &dyn std::fmt::Display| Next::End(End::Failed(format!("{name}: {error}")));
        let used_before = match pools::used_bytes(&connected.cluster).await {
            Ok(used) => used,
            Err(error) => return failed(&error),
        };
        if let Some((redundancy, pg_count)) = pool.to_make() {
            self.observer.event(Event::Step(format!("{what}: making pool {}", pool.name)));
            let create = pools::create(&connected.cluster, connected.plan.engine, &pool.name, redundancy, pg_count);
            let created = tokio::select! {
                created = create => created.map_err(|error| failed(&error)),
                Ok(_) = self.interrupt.wait_for(|asked| *asked) => Err(Next::End(End::Interrupted)),
            };
            if let Err(next) = created {
                // The pool may have been made before the failure.
                let _ = pools::delete(&connected.cluster, &pool.name, redundancy).await;
                return next;
            }
        }
        let task = Arc::new(Task::new(plan.seed, &self.token, index, workload, iteration));
        let begin = Begin {
            plan: plan.clone(),
            workload: index,
            iteration,
            token: self.token.clone(),
            cluster: Site::new(
                &name,
                connected.cluster.fsid().to_string(),
                &connected.plan.configuration,
                &connected.config,
                connected.osd_dump.clone(),
            ),
            part: None,
            elapsed_ns: u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX),
        };
        let drain = connected.config.op_timeout.unwrap_or(OP_TIMEOUT) + DRAIN_EXTRA;
        let images = images::shapes(&task, workload);
        let site = connected.gateway.as_ref().filter(|_| workload.tool == Tool::NacreS3);
        let bucket = site.map(|site| BucketSite { bucket: pool.name.clone(), made: Arc::default(), ..site.clone() });
        let connect = PoolOfCluster { config: connected.config.clone(), pool: pool.name.clone(), images, bucket };
        let runner = Iteration {
            task,
            connect: &connect,
            stop: workload.stop,
            what: what.clone(),
            remove_objects: pool.to_make().is_none() && !self.options.keep,
            drain,
            processors: environment::processors(),
        };
        if let Some(tool) = workload.tool.foreign() {
            let measured = self.by_tool(tool, cluster, workload, iteration, &what, &runner.task.prefix.clone()).await;
            if let (IterationEnd::Complete, Some(row)) = (&measured, self.result.rows.last()) {
                let measured_s = row.measured_s;
                self.keep_hops(cluster, workload, iteration, measured_s).await;
            }
            return self.after(cluster, &what, &pool, used_before, measured).await;
        }
        let reads = workload.groups.iter().any(|group| group.operations.reads() > 0);
        let rounds = bench::recorder::Rounds::new(workload.warm_up(), &workload.stop);
        let mut meter = ClusterMeter::new(connected.sources.clone(), rounds, reads, self.start)
            .with_caches(Caches::new(connected.cluster.clone(), &connected.osd_dump));
        let mut agents = self.agents.take();
        let (measured, elsewhere) = match &mut agents {
            None => (runner.run(&mut meter, self.observer, &mut self.interrupt).await, None),
            Some(agents) => {
                let (measured, elsewhere) = self.by_agents(agents, begin, &runner, &mut meter).await;
                (measured, Some(elsewhere))
            }
        };
        self.agents = agents;
        if measured.end != IterationEnd::Complete {
            let problems = environment::health(&self.clusters[cluster].cluster).await;
            self.note(format!("{what}: {problems}"));
        }
        self.add_rows(&name, workload, iteration, &measured, &meter, elsewhere.as_ref());
        let file = format!("telemetry/{name}.{}.{iteration}.jsonl", workload.name);
        if let Err(error) = self.folder.write(&file, meter.record()) {
            self.note(format!("{what}: {error}"));
        }
        let measured_s = measured.groups.iter().map(|group| group.measured.as_secs_f64()).fold(0.0, f64::max);
        self.keep_hops(cluster, workload, iteration, measured_s).await;
        for (agent, text) in elsewhere.iter().flat_map(|elsewhere| &elsewhere.records) {
            let file = format!("telemetry/{name}.{}.{iteration}.{}.jsonl", workload.name, agent.replace(':', "-"));
            if let Err(error) = self.folder.write(&file, text) {
                self.note(format!("{what}: {error}"));
            }
        }
        self.after(cluster, &what, &pool, used_before, measured.end).await
    }

    /// Removes the pool that was made for an iteration with this end.
    async fn after(
        &mut self,
        cluster: usize,
        what: &str,
        pool: &plan::Pool,
        used_before: u64,
        end: IterationEnd,
    ) -> Next {
        let cleaned = match pool.to_make() {
            Some((redundancy, _)) if !self.options.keep => {
                self.clean(cluster, what, &pool.name, redundancy, used_before).await
            }
            _ => Ok(()),
        };
        let name = &self.clusters[cluster].plan.name;
        let failed = |error: &dyn std::fmt::Display| Next::End(End::Failed(format!("{name}: {error}")));
        match (end, cleaned) {
            (IterationEnd::Failed(reason), _) => failed(&reason),
            (IterationEnd::Interrupted, _) => Next::End(End::Interrupted),
            (IterationEnd::Complete, Err(error)) => failed(&error),
            (IterationEnd::Complete, Ok(())) => Next::Iteration,
        }
    }

    /// Asks the OSDs where the time of the workload's operations went, and keeps their answers. Without answers the
    /// measurement is still valid.
    async fn keep_hops(&mut self, cluster: usize, workload: &Workload, iteration: u32, measured_s: f64) {
        let connected = &self.clusters[cluster];
        let name = connected.plan.name.clone();
        // A bucket is no pool, even if a pool has its name.
        if workload.tool == Tool::NacreS3 {
            return;
        }
        let Ok(pool) = connected.cluster.pool(&workload.pool).await else { return };
        let Ok(gathered) = hops::gather(&connected.cluster, None).await else { return };
        let reads = workload.groups.iter().any(|group| group.operations.reads() > 0);
        let writes = workload.groups.iter().any(|group| group.operations.reads() < 100);
        let mut ops = gathered.ops;
        ops.retain(|op| {
            let is_load = if op.write { writes && !op.what.starts_with("delete") } else { reads };
            let young = op.age_us as f64 / 1e6 <= measured_s + HOPS_AFTER_S;
            is_load && young && op.pool == u64::try_from(pool.id().0).ok()
        });
        self.result.hops.extend(WorkloadHops::of(&name, &workload.name, iteration, &ops));
        let silent: Vec<String> = gathered.silent.iter().map(|(osd, why)| format!("{osd}: {why}")).collect();
        let text = serde_json::json!({ "version": 1, "operations": ops, "silent_osds": silent }).to_string() + "\n";
        let written = self.folder.write(&format!("hops/{name}.{}.{iteration}.json", workload.name), &text);
        if let Err(error) = written {
            self.note(format!("{name} {}: {error}", workload.name));
        }
    }

    fn has_lost_an_agent(&self) -> bool {
        self.agents.as_ref().is_some_and(|agents| agents.links.iter().any(|link| link.lost.is_some()))
    }

    /// Runs a tool as the load. Adds its row.
    async fn by_tool(
        &mut self,
        tool: ForeignTool,
        cluster: usize,
        workload: &Workload,
        iteration: u32,
        what: &str,
        objects: &str,
    ) -> IterationEnd {
        let connected = &self.clusters[cluster];
        let pool_is_kept = self.result.plan.pool(&workload.pool).is_some_and(|pool| pool.to_make().is_none());
        let run = ToolRun {
            tool,
            workload,
            config: &connected.config,
            configuration: &connected.plan.configuration,
            cluster: &connected.cluster,
            name: objects.to_owned(),
            remove_objects: pool_is_kept && !self.options.keep,
            what: what.to_owned(),
            written: Default::default(),
        };
        let group = &workload.groups[0];
        let reads = group.operations.reads() > 0;
        let rounds = bench::recorder::Rounds::new(Duration::ZERO, &workload.stop);
        let mut meter = ClusterMeter::new(connected.sources.clone(), rounds, reads, self.start)
            .with_caches(Caches::new(connected.cluster.clone(), &connected.osd_dump));
        let ToolMeasured { outcome, end, spent } = run.run(&mut meter, self.observer, &mut self.interrupt).await;
        let cluster = connected.plan.name.clone();
        let file = format!("telemetry/{cluster}.{}.{iteration}.jsonl", workload.name);
        if let Err(error) = self.folder.write(&file, meter.record()) {
            self.note(format!("{what}: {error}"));
        }
        let Some(outcome) = outcome else { return end };
        let written_bytes = (!reads).then_some(outcome.bytes);
        let mut figures = meter.figures((0, 1), Work { operations: outcome.operations, written_bytes });
        // The clients are the tool's process, so the figures of this process do not apply.
        figures.retain(|name, _| !name.starts_with("client_cpu") && !name.starts_with("client_context"));
        let per_operation = |seconds: f64| Some(seconds * 1e6 / outcome.operations.max(1) as f64);
        figures.insert("client_cpu_us_per_operation".into(), spent.and_then(|s| per_operation(s.user_s + s.system_s)));
        figures.insert("client_cpu_user_us_per_operation".into(), spent.and_then(|s| per_operation(s.user_s)));
        figures.insert("client_cpu_system_us_per_operation".into(), spent.and_then(|s| per_operation(s.system_s)));
        let cores = spent.map(|spent| (spent.user_s + spent.system_s) / outcome.measured_s);
        figures.insert("client_cores".into(), cores.filter(|cores| cores.is_finite()));
        let row = Row::of_tool(&cluster, &workload.name, &group.name, iteration, outcome);
        self.result.rows.push(Row { partial: end != IterationEnd::Complete, figures, ..row });
        end
    }

    /// Removes a pool that was made, and waits until its space is free.
    async fn clean(
        &mut self,
        cluster: usize,
        what: &str,
        pool: &str,
        redundancy: Redundancy,
        used_before: u64,
    ) -> Result<(), PoolError> {
        self.observer.event(Event::Step(format!("{what}: removing pool {pool}")));
        let connected = &self.clusters[cluster];
        pools::delete(&connected.cluster, pool, redundancy).await?;
        if *self.interrupt.borrow() {
            return Ok(());
        }
        self.observer.event(Event::Step(format!("{what}: waiting until its space is free")));
        let tolerance = SPACE_NOISE_BYTES * connected.osds;
        let freed = tokio::select! {
            freed = pools::wait_until_freed(&connected.cluster, used_before, tolerance) => freed?,
            Ok(_) = self.interrupt.wait_for(|asked| *asked) => return Ok(()),
        };
        if let Some(left) = freed.left_in_words(pool) {
            self.note(format!("{what}: {left}"));
        }
        Ok(())
    }

    fn add_rows(
        &mut self,
        cluster: &str,
        workload: &Workload,
        iteration: u32,
        measured: &Measured,
        meter: &ClusterMeter,
        elsewhere: Option<&Elsewhere>,
    ) {
        let operations = measured.groups.iter().map(|group| group.tally.latencies.count()).sum();
        let reads = workload.groups.iter().any(|group| group.operations.reads() > 0);
        let written_bytes = (!reads).then(|| measured.groups.iter().map(|group| group.tally.bytes).sum());
        let work = Work { operations, written_bytes };
        let figures = match elsewhere {
            None => meter.figures(measured.rounds, work),
            Some(elsewhere) => elsewhere.figures(meter, measured.rounds, work),
        };
        self.result.rows.extend(rows(cluster, workload, iteration, measured, &figures));
    }
}

/// Failures of a run. A workload that failed on a cluster is not tried there again; the others go on. A cluster on
/// which several workloads in a row fail is broken, which ends the run.
struct Failures {
    /// Workloads in a row that failed, by cluster.
    in_a_row: Vec<u32>,
    /// Cluster and workload.
    failed: Vec<(usize, u32)>,
    first: Option<String>,
}

const FAILURES_IN_A_ROW_MAX: u32 = 3;

impl Failures {
    fn new(clusters: usize) -> Failures {
        Failures { in_a_row: vec![0; clusters], failed: Vec::new(), first: None }
    }

    fn skip(&self, cluster: usize, workload: u32) -> bool {
        self.failed.contains(&(cluster, workload))
    }

    fn succeeded(&mut self, cluster: usize) {
        self.in_a_row[cluster] = 0;
    }

    /// Notes a failure. True if the run is to end.
    fn failed(&mut self, cluster: usize, workload: u32, name: &str, reason: String) -> bool {
        self.failed.push((cluster, workload));
        self.in_a_row[cluster] += 1;
        self.first.get_or_insert_with(|| format!("{name}: {reason}"));
        self.in_a_row[cluster] >= FAILURES_IN_A_ROW_MAX
    }

    fn end(&self) -> End {
        match (&self.first, self.failed.len()) {
            (None, _) => End::Complete,
            (Some(reason), 1) => End::Failed(reason.clone()),
            (Some(reason), count) => End::Failed(format!("{reason}; and {} more", count - 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_fails_leaves_the_others() {
        let mut failures = Failures::new(2);
        assert_eq!(failures.end(), End::Complete);
        assert!(!failures.failed(1, 0, "w", "no".into()));
        assert!(failures.skip(1, 0) && !failures.skip(0, 0) && !failures.skip(1, 1));
        assert!(!failures.failed(1, 1, "x", "no".into()));
        failures.succeeded(1);
        assert!(!failures.failed(1, 2, "y", "no".into()) && !failures.failed(0, 2, "y", "no".into()));
        assert_eq!(failures.end(), End::Failed("w: no; and 3 more".into()));
        assert!(!failures.failed(1, 3, "z", "no".into()));
        assert!(failures.failed(1, 4, "z", "no".into()), "three in a row");
    }

    #[test]
    fn space_counts_redundancy() {
        let text = r#"{"version": 1, "name": "n", "seed": 1,
            "clusters": [{"name": "n", "engine": "nacre", "configuration": "a"}], "pools": [{"name": "p"}],
            "workloads": [{"name": "w", "pool": "p", "stop": {"duration_s": 1},
              "groups": [{"name": "g", "object_bytes": 4096, "objects": 300, "operations": {"random_write": 100},
                          "instances": 1, "load": {"closed": {"queue_depth": 1}}}]}]}"#;
        let plan = Plan::from_json(text).unwrap();
        let check = |redundancy, blocks: u64| {
            assert_eq!(needed_bytes(&plan.workloads[0], redundancy), blocks * 4096, "{redundancy:?}");
        };
        check(None, 300);
        check(Some(Redundancy::Replicated { size: 3 }), 900);
        check(Some(Redundancy::Erasure { k: 4, m: 2 }), 450);
    }
}
