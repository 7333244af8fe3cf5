//! An agent's part of one iteration.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bench::recorder::{Rounds, Total};
use bench::tool::Tool;
use client::{ConfFile, Login, Who};
use serde_json::json;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::control::Phase;
use crate::crew::{Crew, LocalCrew};
use crate::environment;
use crate::images;
use crate::iteration::Meter;
use crate::meter::{ClusterMeter, prepare};
use crate::objects::PoolOfCluster;
use crate::s3::site::REQUEST_TIMEOUT;
use crate::task::Task;
use crate::telemetry::sources::Sources;
use crate::threads::{Report, thread_count};

use super::options::AgentOptions;
use super::protocol::{Begin, FromAgent, GroupData, Samples, Site, Step};

/// Path where packages put the configuration of a machine's one cluster.
const SYSTEM_CONFIGURATION: &str = "/etc/ceph/ceph.conf";
/// Largest distance of a start from now; a start further away is refused.
const START_WITHIN: Duration = Duration::from_secs(60);
/// Bytes of the record over time per message.
const RECORD_BYTES: usize = 1 << 20;

/// Instances at work, and readings of this machine.
pub(super) struct Job {
    task: Arc<Task>,
    crew: LocalCrew,
    meter: ClusterMeter,
    reads: bool,
    preparing: Option<JoinHandle<()>>,
    /// The start of the load, and the round that begins next.
    loading: Option<(Instant, u32)>,
    /// The present step, and the number of threads that have done it.
    reached: (Report, usize),
    failed: bool,
    /// Every thread has ended.
    silent: bool,
    to: UnboundedSender<FromAgent>,
}

impl Job {
    /// Begins to connect.
    ///
    /// Errors: the reason, in words, why the job cannot be done.
    pub fn begin(begin: Begin, options: &AgentOptions, to: UnboundedSender<FromAgent>) -> Result<Job, String> {
        let configurations = &options.configurations[..];
        let Begin { plan, workload: index, iteration, token, cluster, part, elapsed_ns } = begin;
        plan.check().map_err(|e| format!("the plan cannot be run: {e}"))?;
        if token.len() > 64 || !token.chars().all(|c| c.is_ascii_alphanumeric()) {
            return Err(format!("token {token:?} is not letters and digits"));
        }
        let workload = plan.workloads.get(index as usize).ok_or_else(|| format!("the plan has no workload {index}"))?;
        let config = cluster.config(login(&cluster, configurations)?)?;
        let task = Arc::new(Task::new(plan.seed, &token, index, workload, iteration));
        let of_plan = plan.clusters.iter().find(|one| one.name == cluster.name).and_then(|one| one.s3.as_ref());
        // One that only watches needs no keys.
        let is_by_s3 = workload.tool == Tool::NacreS3 && part.is_some();
        let bucket = match of_plan.filter(|_| is_by_s3) {
            Some(gateway) => {
                Some(options.site(gateway, &workload.pool, config.op_timeout.unwrap_or(REQUEST_TIMEOUT))?)
            }
            None if is_by_s3 => {
                return Err(format!("the plan has no S3 gateway for cluster {}", cluster.name));
            }
            None => None,
        };
        let images = images::shapes(&task, workload);
        let connect = PoolOfCluster { config, pool: workload.pool.clone(), images, bucket };
        // An agent without a part gets a part number beyond all instances.
        let part = part.unwrap_or((usize::MAX, 1));
        let count = thread_count(task.instances_of(part).len(), environment::processors());
        let sources = find_sources(&cluster, configurations);
        let reads = workload.groups.iter().any(|group| group.operations.reads() > 0);
        let rounds: Rounds = task.rounds;
        let now = std::time::Instant::now();
        let start = now.checked_sub(Duration::from_nanos(elapsed_ns)).unwrap_or(now);
        Ok(Job {
            crew: LocalCrew::start(&task, &connect, part, count),
            task,
            meter: ClusterMeter::new(sources, rounds, reads, start),
            reads,
            preparing: None,
            loading: None,
            reached: (Report::Connected, 0),
            failed: false,
            silent: false,
            to,
        })
    }

    /// Sends a message. If the receiver is gone, the session is about to end.
    fn tell(&self, message: FromAgent) {
        let _ = self.to.send(message);
    }

    fn step(&mut self, phase: Phase, awaited: Report) {
        self.reached = (awaited, 0);
        self.crew.go(phase);
    }

    pub fn prefill(&mut self) {
        self.step(Phase::Prefill, Report::Prefilled);
    }

    pub fn prepare(&mut self) {
        let (sources, reads, to) = (self.meter.sources().clone(), self.reads, self.to.clone());
        self.preparing = Some(tokio::spawn(async move {
            let _ = tokio::task::spawn_blocking(move || prepare(&sources, reads)).await;
            let _ = to.send(FromAgent::Reached(Step::Prepared));
        }));
    }

    pub fn load(&mut self, start: Instant) {
        let now = Instant::now();
        if start > now + START_WITHIN || start + START_WITHIN < now {
            self.failed = true;
            return self.tell(FromAgent::Failed { reason: "the start lies too far away; a clock jumped".into() });
        }
        self.loading = Some((start, 0));
        self.step(Phase::Load(start), Report::Loaded);
    }

    /// Ends the load, or the prefill if the load has not begun.
    pub async fn stop(&mut self) {
        // If the load went to its end, the last round has been told already.
        if self.next_boundary().is_some() {
            self.boundary().await;
        }
        self.loading = None;
        if self.reached.0 != Report::Loaded {
            self.reached = (Report::Loaded, 0);
        }
        self.crew.go(Phase::Stop);
        self.tell_if_reached();
    }

    pub fn clean(&mut self) {
        self.step(Phase::Clean, Report::Cleaned);
    }

    /// The time when the next round begins.
    pub fn next_boundary(&self) -> Option<Instant> {
        let (start, round) = self.loading?;
        (round <= self.task.rounds.count_max).then(|| start + self.task.rounds.begin(round))
    }

    /// Begins a round, and tells the operations of the one before it.
    pub async fn boundary(&mut self) {
        let Some((start, round)) = self.loading else { return };
        self.meter.boundary(round).await;
        if let Some(ended) = round.checked_sub(1) {
            let groups = 0..self.task.groups.len();
            let operations = groups.map(|group| self.crew.operations_of(group, ended)).collect();
            self.tell(FromAgent::Round { round: ended, operations });
        }
        self.loading = Some((start, round.saturating_add(1)));
    }

    /// Lets the meter take a sample for the record over time.
    pub fn glance(&mut self) {
        if self.loading.is_some() {
            self.meter.glance();
        }
    }

    pub fn prepared_bytes(&self) -> u64 {
        self.crew.prepared_bytes()
    }

    pub fn totals(&self) -> Vec<Total> {
        (0..self.task.groups.len()).map(|group| self.crew.total(group)).collect()
    }

    /// The next report of a thread; waits for ever once all have ended.
    pub async fn report(&mut self) -> Option<Report> {
        if self.silent { std::future::pending().await } else { self.crew.report().await }
    }

    /// Handles a thread's report.
    pub fn reported(&mut self, report: Option<Report>) {
        match report {
            None => self.silent = true,
            Some(Report::Failed(reason)) => {
                self.failed = true;
                self.tell(FromAgent::Failed { reason });
            }
            Some(report) if report == self.reached.0 => self.reached.1 += 1,
            Some(_) => {}
        }
        self.tell_if_reached();
    }

    /// Tells the coordinator once all threads have done the present step. A load is not done before it ends, even
    /// without instances.
    fn tell_if_reached(&mut self) {
        if self.loading.is_some() {
            return;
        }
        if !self.failed && self.reached.1 > 0 && self.reached.1 >= self.crew.count() {
            self.reached.1 = 0;
            self.tell(FromAgent::Reached(match self.reached.0 {
                Report::Connected => Step::Connected,
                Report::Prefilled => Step::Prefilled,
                Report::Loaded => Step::Loaded,
                Report::Cleaned | Report::Failed(_) => Step::Cleaned,
            }));
        }
    }

    pub async fn gather(&mut self, rounds: (u32, u32)) {
        for (index, share) in self.crew.gather(rounds).await.iter().enumerate() {
            self.tell(FromAgent::Group(Box::new(GroupData::new(index, share))));
        }
        self.meter.settle().await;
        let (before, after) = (self.meter.at(rounds.0).cloned(), self.meter.at(rounds.1).cloned());
        self.tell(FromAgent::Samples(Box::new(Samples { before, after })));
        let mut text = String::new();
        for line in self.meter.record().split_inclusive('\n') {
            text.push_str(line);
            if text.len() >= RECORD_BYTES {
                self.tell(FromAgent::Record { text: std::mem::take(&mut text) });
            }
        }
        self.tell(FromAgent::Record { text });
        self.tell(FromAgent::Gathered);
    }

    /// Ends all work at once.
    pub async fn end(mut self) {
        self.crew.go(Phase::End);
        if let Some(preparing) = self.preparing.take() {
            let _ = preparing.await;
        }
        let _ = tokio::task::spawn_blocking(move || self.crew.join()).await;
    }
}

/// The agent's proof of who it is: by the key to which the local configuration leads that names the same cluster. No
/// key comes from the coordinator. Without such a configuration the agent proves nothing.
///
/// Errors: the reason, in words, why the key is of no use.
fn login(site: &Site, configurations: &[PathBuf]) -> Result<Login, String> {
    let Some(path) = local(site, configurations) else { return Ok(Login::unproven()) };
    let who = Who::parse(&site.user).ok_or_else(|| format!("user {:?} is no name", site.user))?;
    let conf = ConfFile::load(&path).map_err(|e| e.to_string())?;
    Login::from_file(&conf, &who).map_err(|e| e.to_string())
}

/// Finds the cluster's daemons on this machine by the local configuration that names the same cluster.
fn find_sources(site: &Site, configurations: &[PathBuf]) -> Sources {
    let found = local(site, configurations);
    found.map(|path| Sources::find(&path, &json!({"osds": site.osds}))).unwrap_or_default()
}

/// The local configuration that names the same cluster.
fn local(site: &Site, configurations: &[PathBuf]) -> Option<PathBuf> {
    let theirs = [PathBuf::from(&site.configuration), PathBuf::from(SYSTEM_CONFIGURATION)];
    let is_it = |path: &&PathBuf| fsid_of(path).is_some_and(|fsid| fsid.eq_ignore_ascii_case(&site.fsid));
    configurations.iter().chain(&theirs).find(is_it).cloned()
}

fn fsid_of(configuration: &Path) -> Option<String> {
    ConfFile::load(configuration).ok()?.get(&Who::new("client", "admin"), "fsid")
}
