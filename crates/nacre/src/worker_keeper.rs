//! The worker that `nacre up` keeps running beside the cluster's daemons.

use crate::layout::Layout;
use crate::state_file::{ClusterState, write_durably};
use crate::worker::ENTITY;
use anyhow::{Context, Result, bail};
use client::{Cluster, Config};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Wait before a worker that ended is started again: it grows while workers end early.
const AGAIN_AFTER: Duration = Duration::from_secs(2);
const AGAIN_AFTER_MAX: Duration = Duration::from_secs(60);
/// Time after which a worker counts as one that runs.
const STEADY: Duration = Duration::from_secs(30);
/// Time that a worker has for the objects that are under way when it is told to stop.
const STOP_WITHIN: Duration = Duration::from_secs(10);
/// Time that the monitors may take to give the key.
const KEY_WITHIN: Duration = Duration::from_secs(60);
/// Time that the first start is waited for.
const FIRST_WITHIN: Duration = Duration::from_secs(5);
/// Name of its files.
const NAME: &str = "worker";

/// A worker that is kept running.
pub struct WorkerKeeper {
    stop: oneshot::Sender<()>,
    keeper: JoinHandle<()>,
}

impl WorkerKeeper {
    /// Starts a worker, and starts it again when it ends. If the first cannot be started soon, it is tried again later.
    /// To be called on the process's main thread.
    pub async fn start(layout: &Layout, program: &Path, log: Option<&str>) -> WorkerKeeper {
        let serve = RunWorker { program: program.to_owned(), layout: layout.clone(), log: log.map(str::to_owned) };
        let first = tokio::time::timeout(FIRST_WITHIN, serve.start()).await;
        let first = first.context("the monitors do not answer").flatten();
        let (stop, stopped) = oneshot::channel();
        WorkerKeeper { stop, keeper: tokio::spawn(keep(serve, first, stopped)) }
    }

    /// Has the worker give its task back, and stops it.
    pub async fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.keeper.await;
    }
}

/// The process id of the worker, if one runs.
pub fn worker_pid(layout: &Layout) -> Option<Pid> {
    let pid = std::fs::read_to_string(layout.pid_file(NAME)).ok()?.trim().parse().ok().and_then(Pid::from_raw)?;
    let command_line = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).ok()?;
    let conf = layout.conf().display().to_string();
    let mut words = command_line.split(|byte| *byte == 0).skip(1);
    // The number may have gone to another process since.
    (words.next() == Some(NAME.as_bytes()) && words.any(|word| word == conf.as_bytes())).then_some(pid)
}

/// The command that runs a worker.
struct RunWorker {
    program: PathBuf,
    layout: Layout,
    log: Option<String>,
}

impl RunWorker {
    fn keyring(&self) -> PathBuf {
        self.layout.dir().join(format!("ceph.client.{ENTITY}.keyring"))
    }

    /// Has the monitors tell the worker's key, or make it, and writes it where the worker reads it. By the rights of
    /// its own key the worker does no more than its work.
    async fn have_key(&self) -> Result<()> {
        let state: ClusterState = crate::state_file::require(&self.layout)?;
        if !state.has_keys() {
            return Ok(());
        }
        let asked = async {
            let cluster = Cluster::connect(Config::from_conf(self.layout.conf())?).await?;
            let caps = ["mon", "profile rbd", "mgr", "profile rbd", "osd", "profile rbd"];
            let command = json!({"prefix": "auth get-or-create", "entity": format!("client.{ENTITY}"), "caps": caps});
            let reply = cluster.mon_command(&command.to_string(), Default::default()).await?;
            if let Some(errno) = types::Errno::from_result(reply.result) {
                bail!("the monitors give no key for client.{ENTITY}: {} ({errno})", reply.status.trim());
            }
            Ok(reply.output)
        };
        let keyring = tokio::time::timeout(KEY_WITHIN, asked).await.context("the monitors do not answer")??;
        match std::fs::read(self.keyring()) {
            Ok(known) if known == keyring => Ok(()),
            _ => write_durably(&self.keyring(), &keyring, 0o600),
        }
    }

    fn spawn(&self) -> Result<Child> {
        let path = self.layout.log(NAME);
        let log = File::options().create(true).append(true).open(&path);
        let log = log.with_context(|| format!("cannot write {}", path.display()))?;
        let mut command = Command::new(&self.program);
        command.arg(NAME).arg("--conf").arg(self.layout.conf());
        if self.keyring().exists() {
            command.arg("--keyring").arg(self.keyring());
        }
        if let Some(filter) = &self.log {
            command.args(["--log", filter]);
        }
        command.args(["--supervised-by", &std::process::id().to_string()]);
        // A group of its own: Ctrl-C on the terminal must reach the supervisor only, which stops in order.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).kill_on_drop(true).process_group(0);
        let child = command.spawn().context("cannot start the worker")?;
        let pid = child.id().unwrap_or_default();
        std::fs::write(self.layout.pid_file(NAME), format!("{pid}\n")).context("cannot write the worker's pid file")?;
        Ok(child)
    }

    async fn start(&self) -> Result<Child> {
        self.have_key().await?;
        self.spawn()
    }
}

async fn keep(serve: RunWorker, first: Result<Child>, mut stopped: oneshot::Receiver<()>) {
    let (mut started, mut again_after) = (first, AGAIN_AFTER);
    loop {
        let began = Instant::now();
        match started {
            Ok(mut child) => {
                let is_over = tokio::select! {
                    ended = child.wait() => {
                        tracing::warn!("the worker ended ({ended:?}); it is started again");
                        false
                    }
                    _ = &mut stopped => {
                        stop(child).await;
                        true
                    }
                };
                let _ = std::fs::remove_file(serve.layout.pid_file(NAME));
                if is_over {
                    return;
                }
            }
            Err(error) => tracing::error!("the worker cannot be started, and is tried again: {error:#}"),
        }
        if began.elapsed() >= STEADY {
            again_after = AGAIN_AFTER;
        }
        tokio::select! {
            _ = &mut stopped => return,
            () = tokio::time::sleep(again_after) => {}
        }
        again_after = (again_after * 2).min(AGAIN_AFTER_MAX);
        started = tokio::select! {
            started = serve.start() => started,
            _ = &mut stopped => return,
        };
    }
}

async fn stop(mut child: Child) {
    if let Some(pid) = child.id().and_then(|pid| Pid::from_raw(pid as i32)) {
        let _ = kill_process(pid, Signal::TERM);
    }
    if tokio::time::timeout(STOP_WITHIN, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}
