//! Keeps the daemons of a cluster running, and stops them in order.

use crate::ceph_engine;
use crate::layout::Layout;
use crate::osd_daemon::STOPPED_BY_OPERATOR;
use crate::process::daemon_args;
use crate::state_file::Engine;
use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// First and longest wait before a daemon that ended is started again.
const BACKOFF_MIN: Duration = Duration::from_millis(500);
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// A daemon that ran this long is in order: the next wait is the shortest again.
const STEADY: Duration = Duration::from_secs(60);
/// How long a daemon may take to stop before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

/// How an OSD ended that is not started again.
const BY_OPERATOR: &str = "was stopped by an operator";

/// How far stopping has come. Later ones include the earlier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Phase {
    Run,
    StopOsds,
    StopAll,
    KillAll,
}

/// A daemon ended without having been told to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ended {
    pub daemon: String,
    /// The daemon's end, in words: `exited with status 1`, `was killed by signal 9`.
    pub how: String,
    /// Time until the daemon is started again. `None`: it is not started again.
    pub again_in: Option<Duration>,
}

/// The running daemons of one cluster.
pub struct Supervisor {
    plan: Plan,
    ended_tx: Option<mpsc::UnboundedSender<Ended>>,
    /// The sender of ends, as long as a daemon is kept running.
    ended_of_running: mpsc::WeakUnboundedSender<Ended>,
    phase: watch::Sender<Phase>,
    /// Daemons that are no part of the cluster any more.
    retired: watch::Sender<BTreeSet<String>>,
    osds: JoinSet<()>,
    mons: JoinSet<()>,
    ended: mpsc::UnboundedReceiver<Ended>,
}

/// The command to run, and how.
#[derive(Clone, Debug)]
pub struct Plan {
    pub layout: Layout,
    pub engine: Engine,
    /// This program.
    pub program: PathBuf,
    /// `mon.a`, `osd.0`, ...
    pub daemons: Vec<String>,
    pub restart: bool,
    /// Flags for every daemon, behind those that identify it.
    pub extra_args: Vec<String>,
}

impl Supervisor {
    /// Starts the monitors, and Ceph's manager. Must be called on the process's main thread, which lives as long as the
    /// process: daemons ask the kernel to stop them when the thread that started them ends.
    pub fn start(plan: Plan) -> Supervisor {
        let (phase, _) = watch::channel(Phase::Run);
        let (retired, _) = watch::channel(BTreeSet::new());
        let (ended_tx, ended) = mpsc::unbounded_channel();
        let (osds, mons) = (JoinSet::new(), JoinSet::new());
        let ended_of_running = ended_tx.downgrade();
        let ended_tx = Some(ended_tx);
        let mut supervisor = Supervisor { plan, ended_tx, ended_of_running, phase, retired, osds, mons, ended };
        for daemon in supervisor.plan.daemons.clone().into_iter().filter(|daemon| !daemon.starts_with("osd.")) {
            let keeper = supervisor.keeper(daemon, Phase::StopAll);
            supervisor.mons.spawn(keeper.run());
        }
        supervisor
    }

    /// Starts the OSDs, on the same thread. A second call does nothing.
    pub fn start_osds(&mut self) {
        if self.ended_tx.is_none() {
            return;
        }
        for daemon in self.plan.daemons.clone().into_iter().filter(|daemon| daemon.starts_with("osd.")) {
            let keeper = self.keeper(daemon, Phase::StopOsds);
            self.osds.spawn(keeper.run());
        }
        // From now on only the keepers report ends of daemons.
        self.ended_tx = None;
    }

    /// Daemons that are not to be started, though the cluster's directory tells of them. To be called before
    /// [`Supervisor::start_osds`].
    pub fn leave_out(&mut self, daemons: &[String]) {
        self.plan.daemons.retain(|daemon| !daemons.contains(daemon));
    }

    /// The cluster has these daemons from now on: starts those that were added, on the same thread, and stops those
    /// that are gone; the others go on.
    pub fn follow(&mut self, daemons: &[String]) {
        let Some(ended) = self.ended_of_running.upgrade() else { return };
        let gone: Vec<String> = self.plan.daemons.iter().filter(|known| !daemons.contains(known)).cloned().collect();
        self.plan.daemons.retain(|known| daemons.contains(known));
        self.retired.send_modify(|retired| {
            retired.retain(|daemon| !daemons.contains(daemon));
            retired.extend(gone);
        });
        for daemon in daemons {
            if self.plan.daemons.contains(daemon) {
                continue;
            }
            self.plan.daemons.push(daemon.clone());
            if daemon.starts_with("mon.") {
                let keeper = self.keeper_telling(daemon.clone(), Phase::StopAll, ended.clone());
                self.mons.spawn(keeper.run());
            } else if self.ended_tx.is_none() {
                // Before the others are started, it is started with them.
                let keeper = self.keeper_telling(daemon.clone(), Phase::StopOsds, ended.clone());
                self.osds.spawn(keeper.run());
            }
        }
    }

    fn keeper(&self, daemon: String, stop_at: Phase) -> Keeper {
        let ended = self.ended_tx.clone().expect("daemons are started once");
        self.keeper_telling(daemon, stop_at, ended)
    }

    fn keeper_telling(&self, daemon: String, stop_at: Phase, ended: mpsc::UnboundedSender<Ended>) -> Keeper {
        let (phase, retired) = (self.phase.subscribe(), self.retired.subscribe());
        Keeper { plan: self.plan.clone(), daemon, stop_at, phase, retired, ended }
    }

    /// The next daemon that ended by itself; `None` once none is left that could.
    pub async fn next_ended(&mut self) -> Option<Ended> {
        self.ended.recv().await
    }

    /// Stops the OSDs, then the monitors; `kill` ending early makes it abrupt.
    pub async fn stop(mut self, kill: impl Future<Output = ()>) {
        let phase = self.phase.clone();
        let orderly = async {
            phase.send_replace(Phase::StopOsds);
            while self.osds.join_next().await.is_some() {}
            phase.send_if_modified(|p| std::mem::replace(p, (*p).max(Phase::StopAll)) < Phase::StopAll);
            while self.mons.join_next().await.is_some() {}
        };
        tokio::pin!(orderly, kill);
        tokio::select! {
            () = &mut orderly => return,
            () = &mut kill => {}
        }
        self.phase.send_replace(Phase::KillAll);
        orderly.await;
    }
}

/// Runs one daemon, over and over.
struct Keeper {
    plan: Plan,
    daemon: String,
    stop_at: Phase,
    phase: watch::Receiver<Phase>,
    retired: watch::Receiver<BTreeSet<String>>,
    ended: mpsc::UnboundedSender<Ended>,
}

impl Keeper {
    async fn run(mut self) {
        let mut backoff = BACKOFF_MIN;
        loop {
            let started = Instant::now();
            let how = match self.spawn() {
                Ok(mut child) => {
                    let status = tokio::select! {
                        status = child.wait() => Some(status),
                        () = self.told_to_stop() => None,
                    };
                    let how = match status {
                        Some(Ok(status)) => describe(status),
                        Some(Err(error)) => format!("was lost sight of: {error}"),
                        None => return self.stop(child).await,
                    };
                    let _ = std::fs::remove_file(self.plan.layout.pid_file(&self.daemon));
                    how
                }
                Err(error) => format!("cannot be started: {error}"),
            };
            if started.elapsed() >= STEADY {
                backoff = BACKOFF_MIN;
            }
            let again_in = (self.plan.restart && how != BY_OPERATOR).then_some(backoff);
            let _ = self.ended.send(Ended { daemon: self.daemon.clone(), how, again_in });
            if again_in.is_none() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(backoff) => {}
                () = self.told_to_stop() => return,
            }
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
    }

    async fn told_to_stop(&mut self) {
        let daemon = &self.daemon;
        let is_retired = async {
            if self.retired.wait_for(|retired| retired.contains(daemon)).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = reached(&mut self.phase, self.stop_at) => {}
            () = is_retired => {}
        }
    }

    fn spawn(&self) -> std::io::Result<Child> {
        let layout = &self.plan.layout;
        let log = std::fs::File::options().create(true).append(true).open(layout.log(&self.daemon))?;
        let mut command = self.command();
        command
            .stdin(std::process::Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // A group of its own: Ctrl-C on the terminal must reach the supervisor only, which stops in order.
            .process_group(0);
        let child = Command::from(command).spawn()?;
        let pid = child.id().expect("not waited for yet");
        if let Err(error) = std::fs::write(layout.pid_file(&self.daemon), format!("{pid}\n")) {
            tracing::warn!(%error, daemon = self.daemon, "cannot write pid file");
        }
        Ok(child)
    }

    fn command(&self) -> std::process::Command {
        let layout = &self.plan.layout;
        match self.plan.engine {
            Engine::Nacre => {
                let mut command = std::process::Command::new(&self.plan.program);
                command.arg0("nacre").args(daemon_args(layout, &self.daemon)).args(&self.plan.extra_args);
                command.args(["--supervised-by", &std::process::id().to_string()]);
                command
            }
            Engine::Ceph => {
                // Becomes the daemon, after asking the kernel to stop it when we end.
                let (program, args) = ceph_engine::daemon_command(layout, &self.daemon);
                let mut command = std::process::Command::new("setpriv");
                command.args(["--pdeathsig", "TERM", &program]).args(args).env_remove("CEPH_ARGS");
                command
            }
        }
    }

    async fn stop(mut self, mut child: Child) {
        if let Some(pid) = child.id().and_then(|pid| rustix::process::Pid::from_raw(pid as i32)) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        tokio::select! {
            _ = child.wait() => {}
            () = tokio::time::sleep(STOP_TIMEOUT) => {
                tracing::warn!(daemon = self.daemon, "did not stop in {STOP_TIMEOUT:?}; killed");
                let _ = child.kill().await;
            }
            () = reached(&mut self.phase, Phase::KillAll) => {
                let _ = child.kill().await;
            }
        }
        let _ = std::fs::remove_file(self.plan.layout.pid_file(&self.daemon));
    }
}

async fn reached(phase: &mut watch::Receiver<Phase>, wanted: Phase) {
    if phase.wait_for(|p| *p >= wanted).await.is_err() {
        // The supervisor is gone without a word: its process is ending.
        std::future::pending::<()>().await;
    }
}

fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(0), _) => "ended by itself".into(),
        (Some(code), _) if code == i32::from(STOPPED_BY_OPERATOR) => BY_OPERATOR.into(),
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::daemon_pid;
    use crate::scratch::Scratch;

    /// A stand-in for the program: notes what happens to it in `DIR/events`, and its start once it can be stopped in
    /// order, however late its shell gets to run.
    fn stand_in(dir: &Scratch, body: &str) -> Plan {
        let layout = Layout::new(dir.path()).unwrap();
        std::fs::create_dir_all(layout.run_dir()).unwrap();
        std::fs::create_dir_all(layout.log_dir()).unwrap();
        let events = dir.path().join("events");
        let script = format!(
            "name=$1.$3; events={}\ntrap 'echo \"$name stop\" >> $events; exit 0' TERM\n\
             echo \"$name start\" >> $events\n{body}",
            events.display()
        );
        let program = dir.program(&script);
        let daemons = ["mon.a", "osd.0", "osd.1"].map(String::from).to_vec();
        Plan { layout, engine: Engine::Nacre, program, daemons, restart: true, extra_args: vec![] }
    }

    fn started(plan: &Plan) -> Supervisor {
        let mut supervisor = Supervisor::start(plan.clone());
        supervisor.start_osds();
        supervisor
    }

    async fn events_until(dir: &Scratch, done: impl Fn(&[String]) -> bool) -> Vec<String> {
        for _ in 0..6000 {
            let text = std::fs::read_to_string(dir.path().join("events")).unwrap_or_default();
            let lines: Vec<String> = text.lines().map(String::from).collect();
            if done(&lines) {
                return lines;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("not seen in time: {:?}", std::fs::read_to_string(dir.path().join("events")));
    }

    const PATIENT: &str = "while :; do sleep 0.01; done";

    #[tokio::test(flavor = "current_thread")]
    async fn osds_stop_before_monitors() {
        let dir = Scratch::new();
        let plan = stand_in(&dir, PATIENT);
        let supervisor = started(&plan);
        events_until(&dir, |e| e.len() == 3).await;
        assert!(plan.daemons.iter().all(|d| plan.layout.pid_file(d).exists()));
        // Shells show as the script's interpreter, so these are not mistaken for daemons of ours.
        assert_eq!(daemon_pid(&plan.layout, "osd.0"), None);
        supervisor.stop(std::future::pending()).await;
        let events = events_until(&dir, |e| e.len() == 6).await;
        assert_eq!(events[5], "mon.a stop", "{events:?}");
        assert!(plan.daemons.iter().all(|d| !plan.layout.pid_file(d).exists()));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn what_ends_is_started_again() {
        let dir = Scratch::new();
        // The first start of osd.1 fails, the second stays.
        let body = format!("[ $name = osd.1 ] && [ $(grep -c '^osd.1 start' $events) = 1 ] && exit 3\n{PATIENT}");
        let mut supervisor = started(&stand_in(&dir, &body));
        let ended = supervisor.next_ended().await.unwrap();
        let expect = Ended {
            daemon: "osd.1".into(),
            how: "exited with status 3".into(),
            again_in: Some(Duration::from_millis(500)),
        };
        assert_eq!(ended, expect);
        events_until(&dir, |e| e.iter().filter(|line| *line == "osd.1 start").count() == 2).await;
        supervisor.stop(std::future::pending()).await;
    }

    #[tokio::test(flavor = "current_thread")]
    async fn what_an_operator_stops_stays_ended() {
        let dir = Scratch::new();
        let mut supervisor = started(&stand_in(&dir, &format!("[ $name = osd.1 ] && exit 4\n{PATIENT}")));
        let ended = supervisor.next_ended().await.unwrap();
        assert_eq!((ended.how.as_str(), ended.again_in), (BY_OPERATOR, None));
        events_until(&dir, |e| e.contains(&"mon.a start".to_owned())).await;
        supervisor.stop(std::future::pending()).await;
        let events = events_until(&dir, |e| e.contains(&"mon.a stop".to_owned())).await;
        assert_eq!(events.iter().filter(|line| *line == "osd.1 start").count(), 1);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn without_restart_it_stays_ended_and_stopping_works() {
        let dir = Scratch::new();
        let mut plan = stand_in(&dir, &format!("[ $name = osd.0 ] && kill -9 $$\n{PATIENT}"));
        plan.restart = false;
        let mut supervisor = started(&plan);
        let ended = supervisor.next_ended().await.unwrap();
        assert_eq!((ended.how.as_str(), ended.again_in), ("was killed by signal 9", None));
        supervisor.stop(std::future::pending()).await;
    }

    #[tokio::test(flavor = "current_thread")]
    async fn it_follows_what_the_cluster_has() {
        let dir = Scratch::new();
        let mut supervisor = started(&stand_in(&dir, PATIENT));
        events_until(&dir, |e| e.len() == 3).await;
        let has = |daemons: &[&str]| daemons.iter().map(|daemon| (*daemon).to_owned()).collect::<Vec<_>>();
        supervisor.follow(&has(&["mon.a", "mon.b", "osd.0", "osd.1"]));
        events_until(&dir, |e| e.contains(&"mon.b start".to_owned())).await;
        supervisor.follow(&has(&["mon.a", "osd.0", "osd.1"]));
        events_until(&dir, |e| e.contains(&"mon.b stop".to_owned())).await;
        // It may come back.
        supervisor.follow(&has(&["mon.a", "mon.b", "osd.0", "osd.1"]));
        events_until(&dir, |e| e.iter().filter(|line| *line == "mon.b start").count() == 2).await;
        supervisor.stop(std::future::pending()).await;
        let events = events_until(&dir, |e| e.len() == 10).await;
        assert_eq!(events.iter().filter(|line| line.ends_with("stop")).count(), 5, "{events:?}");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn who_does_not_stop_is_killed_when_asked_twice() {
        let dir = Scratch::new();
        let plan = stand_in(&dir, "trap '' TERM\necho \"$name deaf\" >> $events\nwhile :; do sleep 0.01; done");
        let supervisor = started(&plan);
        events_until(&dir, |e| e.iter().filter(|line| line.ends_with("deaf")).count() == 3).await;
        let started = Instant::now();
        supervisor.stop(tokio::time::sleep(Duration::from_millis(100))).await;
        assert!(started.elapsed() < STOP_TIMEOUT);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_program_that_cannot_run_is_reported() {
        let dir = Scratch::new();
        let mut plan = stand_in(&dir, "");
        plan.program = dir.path().join("missing");
        plan.daemons.truncate(1);
        let mut supervisor = started(&plan);
        assert!(supervisor.next_ended().await.unwrap().how.starts_with("cannot be started"));
        supervisor.stop(std::future::pending()).await;
    }
}
