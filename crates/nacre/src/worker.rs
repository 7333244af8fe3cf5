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
use std::pin::Pin;
use std::time::{Duration, SystemTime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;
use types::{Errno, PoolId};

/// The entity of a worker that is given no other.
pub const ENTITY: &str = "worker";
/// Time between questions for a task while there is none.
const ASK: Duration = Duration::from_secs(2);
/// Time between two reports on a task, and time after which one is made even if nothing has changed.
const REPORT: Duration = Duration::from_secs(3);
const REPORT_ANYWAY: Duration = Duration::from_secs(6);
/// Time between looks at the namespaces of pools whose trash is purged by a schedule.
const LOOK: Duration = Duration::from_secs(60);
/// Time between looks at work under way.
const LOOK_AT_WORK: Duration = Duration::from_secs(1);
/// Times after which answers are waited for no more: those of monitors, those to reports, those about the namespaces of
/// one pool, and those about the image that a task names.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
const REPORT_WITHIN: Duration = Duration::from_secs(6);
const LOOK_WITHIN: Duration = Duration::from_secs(5);
const PREPARE_WITHIN: Duration = Duration::from_secs(15);
/// Time after the last report that the monitors took in which work goes on. It is shorter than their lease, so that
/// objects under way are done by its end.
const LEASE: Duration = Duration::from_secs(22);
/// Time in which work that is told to stop is to end. It is shorter than that which the supervisor waits.
const STOP_WITHIN: Duration = Duration::from_secs(7);
/// Time in which work is to get on by an object at least: other tasks wait for it.
const STALL: Duration = Duration::from_secs(180);
/// Most namespaces of a pool, and most bytes of the name of one, that the monitors take.
const NAMESPACES_MAX: usize = 4096;
const NAME_BYTES_MAX: usize = 512;
/// Parts of which progress is counted.
const ALL_DONE: u32 = 10_000;

/// A task, as far as its work needs it.
#[derive(Clone, Debug, Deserialize)]
struct Task {
    id: String,
    message: String,
    /// The pool that `refs` names.
    pool_id: i64,
    #[serde(default)]
    retry_attempts: u32,
    refs: Refs,
}

impl Task {
    /// True if an earlier attempt has found the image.
    fn is_repeated(&self) -> bool {
        let knew_it_always = self.refs.action == "trash remove";
        if knew_it_always { self.retry_attempts > 0 } else { !self.refs.image_id.is_empty() }
    }
}

/// The subject of a task.
#[derive(Clone, Debug, Deserialize)]
struct Refs {
    action: String,
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
        let worker = TaskWorker { cluster: cluster.clone(), number };
        tokio::select! {
            ended = worker.serve(&mut stop, || changed_at(&conf) != began) => ended,
            // Without a key nothing is answered any more, and nothing would end.
            errno = cluster.denied() => bail!("the monitors refuse this worker ({errno}): its key was removed or replaced"),
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
#[derive(Clone)]
struct TaskWorker {
    cluster: Cluster,
    number: String,
}

/// Waits for an answer no longer than this.
async fn within<T>(limit: Duration, asked: impl Future<Output = Result<T>>) -> Result<T> {
    match tokio::time::timeout(limit, asked).await {
        Ok(answer) => answer,
        Err(_) => bail!("no answer within {} s", limit.as_secs()),
    }
}

impl TaskWorker {
    /// Takes one task after the other. Errors: this connection can do nothing any more, or is the wrong one by now.
    async fn serve(&self, stop: &mut StopWish, is_outdated: impl Fn() -> bool) -> Result<()> {
        let mut looked_at = None;
        loop {
            let asked_at = Instant::now();
            let next = tokio::select! {
                next = within(ANSWER_WITHIN, self.next()) => next,
                () = stop.asked() => return Ok(()),
            };
            match next {
                Ok(Next::Task(task)) => {
                    self.carry_out(&task, asked_at, stop).await?;
                    if stop.is_asked {
                        return Ok(());
                    }
                    continue;
                }
                Ok(Next::Nothing(pools)) if !pools.is_empty() => {
                    if looked_at.is_none_or(|at: Instant| at.elapsed() >= LOOK) {
                        looked_at = Some(Instant::now());
                        tokio::select! {
                            () = self.tell_namespaces(&pools) => {}
                            () = stop.asked() => return Ok(()),
                        }
                    }
                }
                Ok(Next::Nothing(_)) => looked_at = None,
                Err(error) => tracing::warn!("cannot ask for a task: {error:#}"),
            }
            if is_outdated() {
                bail!("the configuration has changed; whoever looks after this process starts it again by the new one");
            }
            tokio::select! {
                () = tokio::time::sleep(ASK) => {}
                () = stop.asked() => return Ok(()),
            }
        }
    }

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
                let found = rbd::some_namespaces(&pool, NAMESPACES_MAX, NAME_BYTES_MAX).await?;
                let names: Vec<String> = found.iter().take(NAMESPACES_MAX).map(text).collect();
                let command = json!({
                    "prefix": "rbd task lease namespaces", "worker": self.number, "pool": name, "namespaces": names,
                });
                self.command(command).await?.map_err(|(errno, why)| anyhow!("{} ({errno})", why.trim()))
            };
            if let Err(error) = within(LOOK_WITHIN, told).await {
                tracing::warn!("cannot tell the namespaces of pool '{name}': {error:#}");
            }
        }
    }

    /// Tells how far a task is. Returns false if it is not to go on.
    async fn goes_on(&self, task: &Task, done: u32, image_id: Option<&str>) -> Result<bool> {
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

    /// Finds the id of the image that a task names, and has the monitors keep it: all attempts are on this image,
    /// whichever has the name later. Returns the end of a task that cannot be begun.
    async fn prepare(&self, task: &mut Task) -> Result<Option<End>> {
        let refs = &task.refs;
        if refs.image_name.is_empty() || !refs.image_id.is_empty() {
            return Ok(None);
        }
        let find = async {
            let pool = pool_of(&self.cluster, task.pool_id, refs).await?;
            rbd::find_id(&pool, &refs.image_name).await
        };
        let id = match find.await {
            Err(error) => return Ok(Some(judge(task, &Err(error)))),
            Ok(id) => id,
        };
        match self.goes_on(task, 0, Some(&id)).await? {
            true => task.refs.image_id = id,
            false => return Ok(Some(End::Back)),
        }
        Ok(None)
    }

    /// Carries out a task, and tells its end. `asked_at`: the time of the question to which it was the answer. Errors:
    /// this connection can do nothing any more.
    async fn carry_out(&self, task: &Task, asked_at: Instant, stop: &mut StopWish) -> Result<()> {
        tracing::info!("{}: begins (task {})", task.message, task.id);
        let mut known = task.clone();
        let prepared = tokio::select! {
            prepared = within(PREPARE_WITHIN, self.prepare(&mut known)) => prepared,
            () = stop.asked() => Ok(Some(End::Back)),
        };
        let (end, leave) = match prepared {
            Err(error) => (End::Again(format!("its image is not found: {error:#}")), None),
            Ok(Some(end)) => (end, None),
            Ok(None) => self.work_on(&known, task, asked_at, stop).await,
        };
        match &end {
            End::Done => tracing::info!("{}: done", task.message),
            end => tracing::warn!("{}: {} ({})", task.message, end.reason(), end.word()),
        }
        let told = self.command(json!({
            "prefix": "rbd task lease end", "worker": self.number, "task_id": task.id, "how": end.word(),
            "reason": end.reason(),
        }));
        match within(ANSWER_WITHIN, told).await {
            Ok(Ok(_)) => {}
            Ok(Err((errno, why))) => tracing::warn!("{}: cannot tell its end: {} ({errno})", task.message, why.trim()),
            Err(error) => tracing::warn!("{}: cannot tell its end: {error:#}", task.message),
        }
        leave.map_or(Ok(()), Err)
    }

    /// Works on a task to its end, or to the end of its lease. `asked`: the task as the monitors gave it. Returns its
    /// end, and the reason for which this process is to end where there is one.
    async fn work_on(
        &self,
        task: &Task,
        asked: &Task,
        asked_at: Instant,
        stop: &mut StopWish,
    ) -> (End, Option<anyhow::Error>) {
        let course = Course::default();
        let mut work = tokio::spawn(work(self.cluster.clone(), task.clone(), course.clone()));
        let mut watch = Watch::begin(asked_at);
        let mut report: Option<Pin<Box<dyn Future<Output = Result<bool>> + Send>>> = None;
        loop {
            let now = Instant::now();
            if let Some(why) = watch.look(now, &course) {
                work.abort();
                let why = anyhow!("{}: {why}; the process ends, so that nothing of it goes on", task.message);
                return (watch.unfinished_end(), Some(why));
            }
            if report.is_none() && watch.is_report_due(now, course.parts(ALL_DONE)) {
                let (worker, task, done) = (self.clone(), task.clone(), course.parts(ALL_DONE));
                watch.told = Some((done, now));
                report = Some(Box::pin(async move { within(REPORT_WITHIN, worker.goes_on(&task, done, None)).await }));
            }
            tokio::select! {
                outcome = &mut work => return match outcome {
                    Ok(outcome) => (judge(asked, &outcome), reason_to_leave(&outcome)),
                    Err(error) => (End::Again(format!("the work broke off: {error}")), None),
                },
                kept = async { report.as_mut().expect("there is one").await }, if report.is_some() => {
                    report = None;
                    match kept {
                        Ok(true) => watch.kept_at = watch.told.map_or(watch.kept_at, |(_, at)| at),
                        Ok(false) => watch.stop(&course, now),
                        Err(error) => tracing::warn!("{}: cannot tell how far it is: {error:#}", task.message),
                    }
                }
                () = tokio::time::sleep(LOOK_AT_WORK) => {}
                () = stop.asked(), if !stop.is_asked => watch.stop(&course, now),
            }
        }
    }
}

/// Sees to it that work does not outlast its lease, and ends when it is to.
struct Watch {
    /// The last report's content and time.
    told: Option<(u32, Instant)>,
    /// Time of the last report that the monitors took.
    kept_at: Instant,
    /// Time at which the work was told to stop.
    stopped_at: Option<Instant>,
    /// Steps of the work, and when they were seen to grow last.
    steps: u64,
    grew_at: Instant,
}

impl Watch {
    fn begin(asked_at: Instant) -> Watch {
        Watch { told: None, kept_at: asked_at, stopped_at: None, steps: 0, grew_at: Instant::now() }
    }

    fn stop(&mut self, course: &Course, now: Instant) {
        course.stop();
        self.stopped_at.get_or_insert(now);
    }

    /// Stops work whose lease ends. Returns the reason for which the process is to end instead.
    fn look(&mut self, now: Instant, course: &Course) -> Option<&'static str> {
        if course.steps() != self.steps {
            (self.steps, self.grew_at) = (course.steps(), now);
        }
        if now.duration_since(self.kept_at) >= LEASE {
            self.stop(course, now);
        }
        if self.stopped_at.is_some_and(|at| now.duration_since(at) >= STOP_WITHIN) {
            return Some("the work was told to stop, and does not");
        }
        (now.duration_since(self.grew_at) >= STALL).then_some("the work gets on no more")
    }

    fn is_report_due(&self, now: Instant, done: u32) -> bool {
        self.told.is_none_or(|(told, at)| {
            let since = now.duration_since(at);
            since >= REPORT_ANYWAY || (since >= REPORT && told != done)
        })
    }

    /// The end of work that this process leaves behind.
    fn unfinished_end(&self) -> End {
        match self.stopped_at {
            Some(_) => End::Back,
            None => End::Again(
                "it got on no more: a placement group may be inactive, or a client keeps the image's lock".to_owned(),
            ),
        }
    }
}

/// Returns the reason for which this connection can do nothing any more.
fn reason_to_leave(outcome: &Result<(), Error>) -> Option<anyhow::Error> {
    match outcome {
        // Whoever had the image's lock next has shut this connection out.
        Err(error) if error.errno() == Errno::EBLOCKLISTED || *error == Error::InDoubt => {
            Some(anyhow!("this connection is of no more use: {error}"))
        }
        _ => None,
    }
}

fn text(bytes: &bytes::Bytes) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

async fn pool_of(cluster: &Cluster, pool: i64, refs: &Refs) -> Result<Pool, Error> {
    Ok(cluster.pool_by_id(PoolId(pool)).await?.namespace(refs.pool_namespace.clone().into_bytes()))
}

async fn work(cluster: Cluster, task: Task, course: Course) -> Result<(), Error> {
    let refs = &task.refs;
    let pool = pool_of(&cluster, task.pool_id, refs).await?;
    match refs.action.as_str() {
        "flatten" => {
            let image = Image::open_for_others(&pool, &refs.image_name, &refs.image_id).await?;
            let flattened = image.flatten_by(&course).await;
            let closed = image.close().await;
            flattened.and(closed)
        }
        "remove" => rbd::remove_for_others(&pool, &refs.image_name, &refs.image_id, &course).await,
        "trash remove" => rbd::remove_from_trash(&pool, &refs.image_id, false, &course).await,
        "trash purge" => rbd::purge_trash(&pool, SystemTime::now().into(), &course).await.map(drop),
        _ => Err(Error::Unsupported("a task of a newer program")),
    }
}

/// Judges an attempt at a task as the monitors gave it. The reasons are Ceph's where it has one.
fn judge(task: &Task, outcome: &Result<(), Error>) -> End {
    let Err(error) = outcome else { return End::Done };
    let action = task.refs.action.as_str();
    match (action, error) {
        // An earlier attempt has done it, and its answer was not heard.
        ("remove", Error::Errno(Errno::ENOENT)) if task.is_repeated() => End::Done,
        ("trash remove", Error::Errno(Errno::ENOENT)) if task.is_repeated() => End::Done,
        ("flatten", Error::Errno(Errno::EINVAL)) if task.is_repeated() => End::Done,
        (_, Error::NoPool(_)) => End::Failed(error.to_string()),
        (_, Error::Errno(Errno::ECANCELED)) => End::Back,
        (_, Error::Errno(Errno::ENOENT)) => End::Failed("Image does not exist".to_owned()),
        (_, Error::Errno(rbd::ESTALE)) => {
            End::Failed("the image has another name now, or is in the trash: ask again by that".to_owned())
        }
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

    fn task(action: &str, id: &str, attempts: u32) -> Task {
        let refs = json!({"action": action, "pool_name": "p", "pool_namespace": "", "image_name": "i", "image_id": id});
        let task = json!({"id": "t", "message": "m", "pool_id": 1, "retry_attempts": attempts, "refs": refs});
        serde_json::from_value(task).expect("a task")
    }

    #[test]
    fn an_attempt_is_repeated_only_if_it_may_succeed_later() {
        let judged = |action: &str, errno: Errno| judge(&task(action, "", 0), &Err(errno.into()));
        assert_eq!(judge(&task("remove", "", 0), &Ok(())), End::Done);
        assert_eq!(judged("flatten", Errno::ECANCELED), End::Back);
        assert_eq!(judged("flatten", Errno::EINVAL), End::Failed("Image does not have parent".to_owned()));
        for action in ["flatten", "remove", "trash remove"] {
            assert_eq!(judged(action, Errno::ENOENT), End::Failed("Image does not exist".to_owned()));
            assert!(matches!(judged(action, rbd::ESTALE), End::Failed(_)));
            for errno in [Errno::EBUSY, Errno::ENOTEMPTY, Errno::EPERM, Errno::EIO, Errno::ETIMEDOUT] {
                assert!(matches!(judged(action, errno), End::Again(_)), "{action} {errno}");
            }
            let gone = Err(Error::NoPool("p".to_owned()));
            assert!(matches!(judge(&task(action, "", 0), &gone), End::Failed(_)));
        }
    }

    #[test]
    fn a_repeated_attempt_finds_done_what_an_earlier_one_did() {
        let judged = |task: Task, errno: Errno| judge(&task, &Err(errno.into()));
        assert_eq!(judged(task("remove", "10ab", 0), Errno::ENOENT), End::Done);
        assert_eq!(judged(task("flatten", "10ab", 0), Errno::EINVAL), End::Done);
        assert_eq!(judged(task("trash remove", "10ab", 1), Errno::ENOENT), End::Done);
        // The id of an image in the trash is known from the beginning.
        assert!(matches!(judged(task("trash remove", "10ab", 0), Errno::ENOENT), End::Failed(_)));
        assert!(matches!(judged(task("flatten", "10ab", 0), Errno::ENOENT), End::Failed(_)));
    }

    #[test]
    fn work_stops_before_its_lease_ends_and_the_process_with_what_does_not_stop() {
        let course = Course::default();
        let began = Instant::now();
        let mut watch = Watch::begin(began);
        assert_eq!(watch.look(began + LEASE - Duration::from_secs(1), &course), None);
        assert_eq!(watch.stopped_at, None);
        watch.kept_at = began + Duration::from_secs(10);
        assert_eq!(watch.look(began + LEASE, &course), None);
        assert_eq!(watch.stopped_at, None, "a report was taken meanwhile");
        let end = began + Duration::from_secs(10) + LEASE;
        assert_eq!(watch.look(end, &course), None);
        assert_eq!(watch.stopped_at, Some(end));
        assert!(watch.look(end + STOP_WITHIN, &course).is_some());
        assert_eq!(watch.unfinished_end(), End::Back);
        let mut watch = Watch { kept_at: began + STALL, ..Watch::begin(began) };
        assert!(watch.look(began + STALL, &course).is_some(), "nothing was done for so long");
        assert!(matches!(watch.unfinished_end(), End::Again(_)));
    }

    #[tokio::test]
    async fn an_answer_is_waited_for_no_longer_than_its_limit() {
        let never = std::future::pending::<Result<()>>();
        let error = within(Duration::from_millis(20), never).await.expect_err("no answer");
        assert_eq!(error.to_string(), "no answer within 0 s");
    }
}
