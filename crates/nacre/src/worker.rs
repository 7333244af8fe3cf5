//! `nacre worker`: a daemon beside the monitors, which carries out tasks about block images.
//!
//! The monitors keep the tasks. The worker takes one at a time by a lease, tells how far it is, which keeps the lease,
//! and tells the end. If it dies, the lease ends, and another worker begins the task again: whatever was done stays.

use crate::connection::{conf_of, connect};
use crate::daemon::follow_supervisor;
use crate::{cli, conf_writer::random_bytes};
use anyhow::{Context, Result, anyhow, bail};
use client::rbd::{self, Course, Image};
use client::{Cluster, Error, Pool, Who};
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, SystemTime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;
use types::Errno;

/// The entity of a worker that is given no other.
pub const ENTITY: &str = "worker";
/// Time between questions for a task while there is none.
const ASK: Duration = Duration::from_secs(2);
/// Time between two reports on a task, and time after which one is made even if nothing has changed.
const REPORT: Duration = Duration::from_secs(3);
const REPORT_ANYWAY: Duration = Duration::from_secs(10);
/// Time between looks at the namespaces of pools whose trash is purged by a schedule.
const LOOK: Duration = Duration::from_secs(60);
/// Parts of which progress is counted.
const ALL_DONE: u32 = 10_000;

/// A task, as far as its work needs it.
#[derive(Clone, Debug, Deserialize)]
struct Task {
    id: String,
    message: String,
    refs: Refs,
}

/// The subject of a task.
#[derive(Clone, Debug, Deserialize)]
struct Refs {
    action: String,
    pool_name: String,
    pool_namespace: String,
    #[serde(default)]
    image_name: String,
    #[serde(default)]
    image_id: String,
}

/// The monitors' answer to the question for a task.
enum Next {
    Task(Task),
    Nothing(Vec<String>),
}

/// The end of an attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
enum End {
    Done,
    /// It will never succeed.
    Failed(String),
    /// It is to be tried again.
    Again(String),
    /// Another worker may go on: this one stops.
    Back,
}

impl End {
    fn word(&self) -> &'static str {
        match self {
            End::Done => "done",
            End::Failed(_) => "failed",
            End::Again(_) => "again",
            End::Back => "back",
        }
    }

    fn reason(&self) -> &str {
        match self {
            End::Failed(reason) | End::Again(reason) => reason,
            End::Done | End::Back => "",
        }
    }
}

/// Runs the daemon until it is told to stop.
pub fn run(options: &cli::Worker) -> Result<()> {
    follow_supervisor(options.supervised_by)?;
    let conf = conf_of(&options.target)?;
    let mut login = options.target.login.clone();
    if login.name.is_none() && login.id.is_none() {
        login.name = Some(Who::new("client", ENTITY));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut stop = StopWish::listen()?;
        let began = changed_at(&conf);
        let cluster = tokio::select! {
            cluster = connect(&conf, &login) => cluster?,
            () = stop.asked() => return Ok(()),
        };
        let number = format!("{:016x}", u64::from_le_bytes(random_bytes()?));
        tracing::info!("worker {number} takes tasks");
        let worker = TaskWorker { cluster, number };
        let mut looked_at = None;
        loop {
            let next = tokio::select! {
                next = worker.next() => next,
                () = stop.asked() => return Ok(()),
            };
            match next {
                Ok(Next::Task(task)) => {
                    worker.carry_out(&task, &mut stop).await?;
                    if stop.is_asked {
                        return Ok(());
                    }
                    continue;
                }
                Ok(Next::Nothing(pools)) if !pools.is_empty() => {
                    if looked_at.is_none_or(|at: Instant| at.elapsed() >= LOOK) {
                        looked_at = Some(Instant::now());
                        worker.tell_namespaces(&pools).await;
                    }
                }
                Ok(Next::Nothing(_)) => looked_at = None,
                Err(error) => tracing::warn!("cannot ask for a task: {error:#}"),
            }
            if changed_at(&conf) != began {
                bail!(
                    "{} has changed; whoever looks after this process starts it again by the new one",
                    conf.display()
                );
            }
            tokio::select! {
                () = tokio::time::sleep(ASK) => {}
                () = stop.asked() => return Ok(()),
            }
        }
    })
}

/// Time at which a file was written last.
fn changed_at(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|about| about.modified()).ok()
}

/// The wish that the process ends.
struct StopWish {
    interrupt: Signal,
    terminate: Signal,
    is_asked: bool,
}

impl StopWish {
    fn listen() -> Result<StopWish> {
        let (interrupt, terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(StopWish { interrupt, terminate, is_asked: false })
    }

    async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
        self.is_asked = true;
    }
}

/// A connection to the cluster, and the number by which the monitors know who has a task.
struct TaskWorker {
    cluster: Cluster,
    number: String,
}

impl TaskWorker {
    /// Gives the monitors a command. Returns its output, or its error number and sentence.
    async fn command(&self, command: Value) -> Result<Result<bytes::Bytes, (Errno, String)>> {
        let reply = self.cluster.mon_command(&command.to_string(), Default::default()).await?;
        Ok(match Errno::from_result(reply.result) {
            Some(errno) => Err((errno, reply.status)),
            None => Ok(reply.output),
        })
    }

    /// Takes the next task. If there is none, returns the pools whose namespaces the monitors want to know.
    async fn next(&self) -> Result<Next> {
        let answer = self.command(json!({"prefix": "rbd task lease next", "worker": self.number})).await?;
        let answer = answer.map_err(|(errno, why)| anyhow!("{} ({errno})", why.trim()))?;
        let answer: Value = serde_json::from_slice(&answer).context("the monitors' answer is no JSON")?;
        match answer.get("id") {
            None => Ok(Next::Nothing(serde_json::from_value(answer["pools"].clone()).unwrap_or_default())),
            Some(_) => Ok(Next::Task(serde_json::from_value(answer).context("the monitors' task is not understood")?)),
        }
    }

    /// Tells the monitors which namespaces pools have. They are purged by schedules of the pools.
    async fn tell_namespaces(&self, pools: &[String]) {
        for name in pools {
            let told = async {
                let pool = self.cluster.pool(name).await?;
                let names: Vec<String> = rbd::namespaces(&pool).await?.iter().map(text).collect();
                let command = json!({
                    "prefix": "rbd task lease namespaces", "worker": self.number, "pool": name, "namespaces": names,
                });
                self.command(command).await?.map_err(|(errno, why)| anyhow!("{} ({errno})", why.trim()))
            };
            if let Err(error) = told.await {
                tracing::warn!("cannot tell the namespaces of pool '{name}': {error:#}");
            }
        }
    }

    /// Tells how far a task is. Returns false if it is not to go on.
    async fn goes_on(&self, task: &Task, done: u32, image_id: Option<&String>) -> Result<bool> {
        let mut command = json!({
            "prefix": "rbd task lease keep", "worker": self.number, "task_id": task.id, "done": done,
        });
        if let Some(id) = image_id {
            command["image_id"] = json!(id);
        }
        match self.command(command).await? {
            Ok(_) => Ok(true),
            Err((Errno::ECANCELED, why)) => {
                tracing::info!("{}: stops, as {}", task.message, why.trim());
                Ok(false)
            }
            Err((errno, why)) => bail!("{} ({errno})", why.trim()),
        }
    }

    /// Carries out a task, and tells its end. Errors: this connection can do nothing any more.
    async fn carry_out(&self, task: &Task, stop: &mut StopWish) -> Result<()> {
        tracing::info!("{}: begins (task {})", task.message, task.id);
        let course = Course::default();
        let image_id = self.image_id(task).await;
        let mut work = tokio::spawn(work(self.cluster.clone(), task.clone(), course.clone()));
        let (mut told, mut told_at) = (None, Instant::now());
        let outcome = loop {
            let done = course.parts(ALL_DONE);
            if told != Some(done) || told_at.elapsed() >= REPORT_ANYWAY {
                match self.goes_on(task, done, image_id.as_ref()).await {
                    Ok(true) => (told, told_at) = (Some(done), Instant::now()),
                    Ok(false) => course.stop(),
                    Err(error) => tracing::warn!("{}: cannot tell how far it is: {error:#}", task.message),
                }
            }
            tokio::select! {
                outcome = &mut work => break outcome.context("the work broke off")?,
                () = tokio::time::sleep(REPORT) => {}
                () = stop.asked(), if !stop.is_asked => course.stop(),
            }
        };
        let end = judge(&task.refs.action, &outcome);
        match &outcome {
            Ok(()) => tracing::info!("{}: done", task.message),
            Err(error) => tracing::warn!("{}: {error} ({})", task.message, end.word()),
        }
        let said = self
            .command(json!({
                "prefix": "rbd task lease end", "worker": self.number, "task_id": task.id, "how": end.word(),
                "reason": end.reason(),
            }))
            .await?;
        if let Err((errno, why)) = said {
            tracing::warn!("{}: cannot tell its end: {} ({errno})", task.message, why.trim());
        }
        match outcome {
            // Whoever had the image's lock next has shut this connection out.
            Err(error) if error.errno() == Errno::EBLOCKLISTED || error == Error::InDoubt => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// The id of the image that a task names, if it can be found out.
    async fn image_id(&self, task: &Task) -> Option<String> {
        if task.refs.image_name.is_empty() || !task.refs.image_id.is_empty() {
            return None;
        }
        let pool = pool_of(&self.cluster, &task.refs).await.ok()?;
        rbd::id_of(&pool, &task.refs.image_name).await.ok()
    }
}

fn text(bytes: &bytes::Bytes) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

async fn pool_of(cluster: &Cluster, refs: &Refs) -> Result<Pool, Error> {
    Ok(cluster.pool(&refs.pool_name).await?.namespace(refs.pool_namespace.clone().into_bytes()))
}

async fn work(cluster: Cluster, task: Task, course: Course) -> Result<(), Error> {
    let refs = &task.refs;
    let pool = pool_of(&cluster, refs).await?;
    match refs.action.as_str() {
        "flatten" => {
            let image = Image::open(&pool, &refs.image_name).await?;
            let flattened = image.flatten_by(&course).await;
            let closed = image.close().await;
            flattened.and(closed)
        }
        "remove" => rbd::remove_by(&pool, &refs.image_name, &course).await,
        "trash remove" => rbd::remove_from_trash(&pool, &refs.image_id, false, &course).await,
        "trash purge" => rbd::purge_trash(&pool, SystemTime::now().into(), &course).await.map(drop),
        _ => Err(Error::Unsupported("a task of a newer program")),
    }
}

/// Judges an attempt. The reasons are Ceph's where it has one.
fn judge(action: &str, outcome: &Result<(), Error>) -> End {
    let Err(error) = outcome else { return End::Done };
    match (action, error) {
        (_, Error::NoPool(_)) => End::Failed(error.to_string()),
        (_, Error::Errno(Errno::ECANCELED)) => End::Back,
        (_, Error::Errno(Errno::ENOENT)) => End::Failed("Image does not exist".to_owned()),
        ("flatten", Error::Errno(Errno::EINVAL)) => End::Failed("Image does not have parent".to_owned()),
        (_, Error::Unsupported(_)) => End::Failed(error.to_string()),
        (_, Error::Errno(Errno::ENOTEMPTY)) => End::Again("the image has snapshots: remove them first".to_owned()),
        (_, Error::Errno(Errno::EBUSY)) => End::Again("a client has the image open".to_owned()),
        (_, Error::Errno(Errno::EPERM)) => {
            End::Again("the image is kept in the trash until a time that has not come".to_owned())
        }
        (_, error) => End::Again(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_repeated_only_if_it_may_succeed_later() {
        let judged = |action: &str, errno: Errno| judge(action, &Err(errno.into()));
        assert_eq!(judge("remove", &Ok(())), End::Done);
        assert_eq!(judged("flatten", Errno::ECANCELED), End::Back);
        assert_eq!(judged("flatten", Errno::EINVAL), End::Failed("Image does not have parent".to_owned()));
        for action in ["flatten", "remove", "trash remove"] {
            assert_eq!(judged(action, Errno::ENOENT), End::Failed("Image does not exist".to_owned()));
            for errno in [Errno::EBUSY, Errno::ENOTEMPTY, Errno::EPERM, Errno::EIO, Errno::ETIMEDOUT] {
                assert!(matches!(judged(action, errno), End::Again(_)), "{action} {errno}");
            }
            assert!(matches!(judge(action, &Err(Error::NoPool("p".to_owned()))), End::Failed(_)));
        }
    }
}
