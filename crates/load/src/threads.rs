//! The threads that carry instances. Each has its own runtime and a share of all instances, so that load scales with
//! processors and no operation moves between threads.

use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::mpsc;
use tokio::task::{JoinSet, LocalSet};

use crate::control::{Control, Phase};
use crate::etags::Etags;
use crate::instance::Instance;
use crate::objects::Connect;
use crate::record::SharedRecord;
use crate::task::Task;

/// A thread's report to the coordinator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Report {
    /// The work of a phase is done.
    Connected,
    Prefilled,
    Loaded,
    Cleaned,
    /// A phase failed, with the reason.
    Failed(String),
}

/// The running threads of one iteration.
pub struct Threads {
    handles: Vec<JoinHandle<()>>,
    /// Number of threads that have failed, and will report nothing more.
    failed: usize,
    reports: mpsc::UnboundedReceiver<Report>,
    /// Records by thread and group.
    pub records: Vec<Vec<SharedRecord>>,
}

/// Number of threads that carry `instances` on a machine with `processors`.
pub fn thread_count(instances: usize, processors: usize) -> usize {
    instances.min(processors).max(1)
}

impl Threads {
    /// Starts `count` threads, which connect. They carry the instances of the task that belong to `part`: the number of
    /// a crew, and the count of crews that share the instances.
    pub fn start<C: Connect>(
        task: &Arc<Task>,
        connect: &C,
        control: &Control,
        part: (usize, usize),
        count: usize,
    ) -> Threads {
        let (to_us, reports) = mpsc::unbounded_channel();
        let instances = task.instances_of(part);
        let mut handles = Vec::new();
        let mut records = Vec::new();
        for number in 0..count {
            let of_thread: Vec<SharedRecord> = task.groups.iter().map(|_| SharedRecord::new(task.rounds)).collect();
            let thread = LoadThread {
                task: task.clone(),
                instances: instances.iter().copied().skip(number).step_by(count).collect(),
                records: of_thread.clone(),
                control: control.clone(),
                reports: to_us.clone(),
            };
            records.push(of_thread);
            let connect = connect.clone();
            let handle = std::thread::Builder::new().name(format!("load-{number}")).spawn(move || thread.run(&connect));
            match handle {
                Ok(handle) => handles.push(handle),
                Err(error) => {
                    let _ = to_us.send(Report::Failed(format!("a thread cannot be started: {error}")));
                }
            }
        }
        Threads { handles, failed: 0, reports, records }
    }

    /// Number of threads that have not failed.
    pub fn count(&self) -> usize {
        self.handles.len().saturating_sub(self.failed)
    }

    /// The next report of a thread; `None` if all have ended.
    pub async fn report(&mut self) -> Option<Report> {
        let report = self.reports.recv().await;
        if matches!(report, Some(Report::Failed(_))) {
            self.failed += 1;
        }
        report
    }

    /// Waits until the threads have ended, which [`Phase::End`] makes them do.
    pub fn join(&mut self) {
        for handle in self.handles.drain(..) {
            // A thread that panicked has printed that on standard error, and its report is missing.
            let _ = handle.join();
        }
    }
}

struct LoadThread {
    task: Arc<Task>,
    /// Instances as (group, number).
    instances: Vec<(u32, u32)>,
    records: Vec<SharedRecord>,
    control: Control,
    reports: mpsc::UnboundedSender<Report>,
}

impl LoadThread {
    fn run<C: Connect>(self, connect: &C) {
        let reports = self.reports.clone();
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                let _ = reports.send(Report::Failed(format!("no runtime: {error}")));
                return;
            }
        };
        let mut end = self.control.clone();
        let local = LocalSet::new();
        let work = local.run_until(async {
            tokio::select! {
                result = self.work(connect) => {
                    if let Err(reason) = result {
                        let _ = reports.send(Report::Failed(reason));
                    }
                }
                _ = end.wait_for(Phase::End) => {}
            }
        });
        runtime.block_on(work);
    }

    async fn work<C: Connect>(&self, connect: &C) -> Result<(), String> {
        let mut control = self.control.clone();
        let mut instances = Vec::new();
        for &(group_index, number) in &self.instances {
            instances.push(Rc::new(Instance {
                objects: connect.connect().await?,
                task: self.task.clone(),
                group_index,
                number,
                record: self.records[group_index as usize].clone(),
                control: self.control.clone(),
                etags: Etags::default(),
            }));
        }
        self.report(Report::Connected);
        control.wait_for(Phase::Prefill).await;
        let is_empty =
            |one: &&Rc<Instance<_>>| !self.task.filled && self.task.groups[one.group_index as usize].prefill();
        let to_fill = instances.iter().filter(is_empty).cloned();
        all(to_fill.map(Instance::prefill)).await?;
        self.report(Report::Prefilled);
        if let Phase::Load(start) = control.wait_for(Phase::Load(tokio::time::Instant::now())).await {
            all(instances.iter().cloned().map(|one| one.load(start))).await?;
        }
        self.report(Report::Loaded);
        if control.wait_for(Phase::Clean).await == Phase::Clean {
            all(instances.iter().cloned().map(Instance::remove_objects)).await?;
            all(instances.iter().cloned().map(Instance::finish)).await?;
            self.report(Report::Cleaned);
        }
        Ok(())
    }

    fn report(&self, report: Report) {
        // The send fails if the coordinator is gone, and needs no report.
        let _ = self.reports.send(report);
    }
}

/// Runs futures together; the first error ends all.
async fn all<F>(futures: impl Iterator<Item = F>) -> Result<(), String>
where
    F: Future<Output = Result<(), String>> + 'static,
{
    let mut tasks = JoinSet::new();
    futures.for_each(|future| drop(tasks.spawn_local(future)));
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(|e| e.to_string())??;
    }
    Ok(())
}
