//! Ceph's own load generators as load: `rados bench` and `fio` with its engines `rados` and `rbd`, run as processes on
//! this machine.

use std::process::Stdio;
use std::sync::Mutex;
use std::time::Duration;

use bench::plan::{Group, Stop, Workload};
use bench::tool::{ForeignTool, Tool, ToolOutcome, read_fio, read_rados_bench};
use bytes::Bytes;
use client::{Cluster, Config};
use tokio::process::Command;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::iteration::{IterationEnd, Meter};
use crate::observer::{Event, Observer};
use crate::telemetry::process::Children;

/// Time that a tool may take beyond its duration, to connect and to end.
const EXTRA: Duration = Duration::from_secs(90);
/// Time limit of a prefill.
const PREFILL_MAX: Duration = Duration::from_secs(3600);
const LOOK_EVERY: Duration = Duration::from_millis(500);
const SETTLE: Duration = Duration::from_secs(1);
/// Time limit for removing an image: a killed client's watch of it lasts 30 s.
const IMAGE_WATCHED_MAX: Duration = Duration::from_secs(60);
/// Largest write of the prefill, and its writes in flight.
const PREFILL_BYTES: u64 = 4 << 20;
const PREFILL_IN_FLIGHT: u32 = 16;
/// Exit status of `rbd` where an image does not exist: the number of ENOENT.
const NO_SUCH_IMAGE: i32 = 2;

/// A failure of `rbd`.
struct RbdError {
    /// Exit status of `rbd`, if it ended by itself.
    status: Option<i32>,
    why: String,
}

/// A run of one workload on one cluster, by a tool.
pub struct ToolRun<'a> {
    /// The workload's tool.
    pub tool: ForeignTool,
    pub workload: &'a Workload,
    pub config: &'a Config,
    /// Path of the cluster's configuration.
    pub configuration: &'a str,
    pub cluster: &'a Cluster,
    /// Prefix of the names of its objects.
    pub name: String,
    /// Objects are removed afterwards.
    pub remove_objects: bool,
    /// Description of the run, for people.
    pub what: String,
    /// Prefixes of the names of objects that processes of `rados bench` have written.
    pub written: Mutex<Vec<String>>,
}

/// The result of a tool's run.
pub struct ToolMeasured {
    pub outcome: Option<ToolOutcome>,
    pub end: IterationEnd,
    /// CPU time of the tool's process.
    pub spent: Option<Children>,
}

/// A part of a tool's run: one run of its program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Prefill,
    WarmUp(u64),
    Measure(u64),
}

/// Checks that the programs of `tool` are installed.
///
/// Errors: a sentence that says what to install.
pub fn check(tool: Tool) -> Result<(), String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |program: &str| std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    let Some((program, package)) = tool.programs().iter().find(|(program, _)| !is_there(program)) else {
        return Ok(());
    };
    Err(format!(
        "the tool {} takes the program '{program}', which is not on this machine; it is in Debian's package {package} \
         (apt-get install {package})",
        tool.name()
    ))
}

impl ToolRun<'_> {
    fn group(&self) -> &Group {
        &self.workload.groups[0]
    }

    fn reads(&self) -> bool {
        self.group().operations.reads() > 0
    }

    /// Runs the tool. Never leaves a process behind.
    pub async fn run(
        &self,
        meter: &mut impl Meter,
        observer: &mut dyn Observer,
        interrupt: &mut watch::Receiver<bool>,
    ) -> ToolMeasured {
        let (mut outcome, mut spent) = (None, None);
        let mut end = match self.steps(meter, observer, interrupt, &mut spent).await {
            Ok(measured) => {
                outcome = Some(measured);
                IterationEnd::Complete
            }
            Err(end) => end,
        };
        if self.remove_objects {
            observer.event(Event::Step(format!("{}: removing objects", self.what)));
            if end != IterationEnd::Complete {
                // Operations that a killed process had sent may still be carried out.
                tokio::time::sleep(SETTLE).await;
            }
            if let Err(reason) = self.remove().await {
                let said = format!("objects {}* could not all be removed: {reason}", self.name);
                observer.event(Event::Note(format!("{}: {said}", self.what)));
                if end == IterationEnd::Complete {
                    end = IterationEnd::Failed(said);
                }
            }
        }
        ToolMeasured { outcome, end, spent }
    }

    async fn steps(
        &self,
        meter: &mut impl Meter,
        observer: &mut dyn Observer,
        interrupt: &mut watch::Receiver<bool>,
        spent: &mut Option<Children>,
    ) -> Result<ToolOutcome, IterationEnd> {
        let Stop::DurationS(seconds) = self.workload.stop else {
            unreachable!("a checked plan gives tools a duration")
        };
        if self.tool == ForeignTool::FioRbd {
            let group = self.group();
            let size = group.objects.saturating_mul(group.object_bytes);
            let [size, object_size] = [size, group.object_bytes].map(|bytes| format!("{bytes}B"));
            self.rbd(&["create", &self.name, "--size", &size, "--object-size", &object_size])
                .await
                .map_err(|error| IterationEnd::Failed(format!("the image cannot be made: {}", error.why)))?;
        }
        if self.group().prefill() {
            self.process(Part::Prefill, meter, observer, interrupt).await?;
        }
        meter.prepared().await;
        if self.workload.warm_up_s >= 1.0 {
            self.process(Part::WarmUp(self.workload.warm_up_s as u64), meter, observer, interrupt).await?;
        }
        meter.boundary(0).await;
        // Processes that the meter started must not count as the tool's.
        meter.settle().await;
        let before = Children::read();
        let output = self.process(Part::Measure(seconds as u64), meter, observer, interrupt).await?;
        *spent = before.zip(Children::read()).map(|(before, after)| after.since(before));
        meter.boundary(1).await;
        meter.settle().await;
        let outcome = match self.tool {
            ForeignTool::FioRados | ForeignTool::FioRbd => read_fio(&output, self.reads()),
            ForeignTool::RadosBench => read_rados_bench(&output),
        };
        outcome.map_err(|e| IterationEnd::Failed(format!("{}: {e}", self.workload.tool.name())))
    }

    /// Runs the program once. Returns its standard output.
    async fn process(
        &self,
        part: Part,
        meter: &mut impl Meter,
        observer: &mut dyn Observer,
        interrupt: &mut watch::Receiver<bool>,
    ) -> Result<String, IterationEnd> {
        let tool = self.workload.tool.name();
        let failed = |reason: String| IterationEnd::Failed(format!("{tool}: {reason}"));
        let (words, limit) = match part {
            Part::Prefill => ("prefill", PREFILL_MAX),
            Part::WarmUp(seconds) => ("warming up", Duration::from_secs(seconds)),
            Part::Measure(seconds) => ("measuring", Duration::from_secs(seconds)),
        };
        let (program, arguments) = self.arguments(part);
        let mut command = Command::new(program);
        command.args(arguments).env_remove("CEPH_ARGS").env_remove("CEPH_CONF").kill_on_drop(true);
        if self.tool == ForeignTool::FioRbd {
            // The engine `rbd` takes no path of a configuration.
            command.env("CEPH_CONF", self.configuration);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|e| failed(format!("{program} cannot be started: {e}")))?;
        if let (Some(pid), ForeignTool::RadosBench) = (child.id(), self.tool) {
            self.written.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(written_by(pid));
        }
        let begun = Instant::now();
        let ended = child.wait_with_output();
        tokio::pin!(ended);
        let output = loop {
            tokio::select! {
                output = &mut ended => break output.map_err(|e| failed(e.to_string()))?,
                // Dropping the process on return kills it.
                Ok(_) = interrupt.wait_for(|asked| *asked) => return Err(IterationEnd::Interrupted),
                () = tokio::time::sleep(LOOK_EVERY) => {
                    let elapsed = begun.elapsed();
                    if elapsed > limit + EXTRA {
                        return Err(failed(format!("it did not end within {} s", elapsed.as_secs())));
                    }
                    let of = if part == Part::Prefill { String::new() } else { format!(" of {}", limit.as_secs()) };
                    let what = &self.what;
                    observer.event(Event::Step(format!("{what}: {tool} {words}, {}{of} s", elapsed.as_secs())));
                    if part != Part::Prefill {
                        meter.glance();
                    }
                }
            }
        };
        let errors = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            let said = errors.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it did not say why");
            return Err(failed(format!("{words}: {program} ended with {}: {}", output.status, said.trim())));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The program and its arguments.
    fn arguments(&self, part: Part) -> (&'static str, Vec<String>) {
        match self.tool {
            ForeignTool::FioRados | ForeignTool::FioRbd => ("fio", self.fio(part)),
            ForeignTool::RadosBench => ("rados", self.rados_bench(part)),
        }
    }

    fn rados(&self) -> Vec<String> {
        let user = self.config.who.to_string();
        ["-c", self.configuration, "--name", &user, "-p", &self.workload.pool].map(str::to_owned).into()
    }

    /// Names of runs of `rados bench`: the run whose objects reads find, and the run that warm-ups write.
    fn run_names(&self) -> [String; 2] {
        [self.name.clone(), format!("{}.warm-up", self.name)]
    }

    fn rados_bench(&self, part: Part) -> Vec<String> {
        let group = self.group();
        let mode = match (self.reads(), group.operations.random_read > 0) {
            (false, _) => "write",
            (true, false) => "seq",
            (true, true) => "rand",
        };
        let [run, warm_up] = self.run_names();
        let depth = group.workers_per_instance();
        let (seconds, mode, depth, run) = match part {
            Part::Prefill => (PREFILL_MAX.as_secs(), "write", PREFILL_IN_FLIGHT, run),
            Part::WarmUp(seconds) => (seconds, mode, depth, if self.reads() { run } else { warm_up }),
            Part::Measure(seconds) => (seconds, mode, depth, run),
        };
        let mut arguments = self.rados();
        let mut add = |words: &[&str]| arguments.extend(words.iter().map(|word| (*word).to_owned()));
        add(&["bench", &seconds.to_string(), mode, "-t", &depth.to_string(), "--run-name", &run, "--format", "json"]);
        if mode == "write" {
            // A read takes its sizes from the write before it.
            add(&["-b", &group.io_bytes().to_string(), "--no-cleanup"]);
            if group.io_bytes() != group.object_bytes {
                add(&["-O", &group.object_bytes.to_string()]);
            }
        }
        if part == Part::Prefill {
            add(&["--max-objects", &group.objects.to_string()]);
        }
        arguments
    }

    fn fio(&self, part: Part) -> Vec<String> {
        let group = self.group();
        let random = group.operations.random_read + group.operations.random_write > 0;
        let mode = match (self.reads(), random) {
            (false, false) => "write",
            (false, true) => "randwrite",
            (true, false) => "read",
            (true, true) => "randread",
        };
        let size = group.objects.saturating_mul(group.object_bytes);
        // The engine comes first: fio knows an engine's own options only after it.
        let mut arguments: Vec<String> = match self.tool {
            ForeignTool::FioRbd => vec!["--ioengine=rbd".into(), format!("--rbdname={}", self.name)],
            ForeignTool::FioRados | ForeignTool::RadosBench => vec![
                "--ioengine=rados".into(),
                format!("--conf={}", self.configuration),
                format!("--nrfiles={}", group.objects),
                format!("--file_service_type={}", if random { "random" } else { "sequential" }),
                "--touch_objects=0".into(),
            ],
        };
        arguments.extend([
            format!("--clientname={}", self.config.who.id),
            format!("--pool={}", self.workload.pool),
            format!("--name={}", self.name),
            format!("--size={size}"),
            "--lat_percentiles=1".into(),
            "--clat_percentiles=0".into(),
            "--output-format=json+".into(),
        ]);
        match part {
            Part::Prefill => {
                arguments.push("--rw=write".into());
                arguments.push(format!("--bs={}", group.object_bytes.min(PREFILL_BYTES)));
                arguments.push(format!("--iodepth={PREFILL_IN_FLIGHT}"));
            }
            Part::WarmUp(seconds) | Part::Measure(seconds) => {
                arguments.push(format!("--rw={mode}"));
                arguments.push(format!("--bs={}", group.io_bytes()));
                arguments.push(format!("--iodepth={}", group.workers_per_instance()));
                arguments.push("--randrepeat=0".into());
                arguments.push("--norandommap=1".into());
                arguments.push("--time_based=1".into());
                arguments.push(format!("--runtime={seconds}"));
            }
        }
        arguments
    }

    /// Runs `rbd` on the workload's pool.
    async fn rbd(&self, words: &[&str]) -> Result<(), RbdError> {
        let user = self.config.who.to_string();
        let mut command = Command::new("rbd");
        command.args(["-c", self.configuration, "--name", &user, "-p", &self.workload.pool]).args(words);
        command.env_remove("CEPH_ARGS").env_remove("CEPH_CONF").kill_on_drop(true).stdin(Stdio::null());
        let ended = tokio::time::timeout(EXTRA, command.output()).await;
        let failed = |why: String| RbdError { status: None, why };
        let output = ended.map_err(|_| failed(format!("rbd {} did not end", words[0])))?;
        let output = output.map_err(|e| failed(e.to_string()))?;
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it did not say why");
        let why = format!("rbd {}: {}", words[0], last.trim());
        if output.status.success() { Ok(()) } else { Err(RbdError { status: output.status.code(), why }) }
    }

    /// Removes the image. If its client was killed, the image is watched until the watch times out.
    async fn remove_image(&self) -> Result<(), String> {
        let end = Instant::now() + IMAGE_WATCHED_MAX;
        loop {
            match self.rbd(&["rm", "--no-progress", &self.name]).await {
                // The image was not made.
                Err(RbdError { status: Some(NO_SUCH_IMAGE), .. }) => return Ok(()),
                Err(_) if Instant::now() < end => tokio::time::sleep(SETTLE).await,
                ended => return ended.map_err(|error| error.why),
            }
        }
    }

    /// Removes the tool's objects, also those of a killed tool. Errors: the reason why some remain.
    async fn remove(&self) -> Result<(), String> {
        if self.tool == ForeignTool::FioRbd {
            return self.remove_image().await;
        }
        let pool = self.cluster.pool(&self.workload.pool).await.map_err(|e| e.to_string())?;
        let mut names: Vec<Bytes> = Vec::new();
        if self.tool == ForeignTool::FioRados {
            names.extend((0..self.group().objects).map(|number| format!("{}.0.{number}", self.name).into()));
        } else {
            names.extend(self.run_names().map(Bytes::from));
            let written = self.written.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
            let is_ours = |name: &[u8]| written.iter().any(|prefix| name.starts_with(prefix.as_bytes()));
            let mut listing = pool.list();
            while let Some(page) = listing.next_page().await.map_err(|e| e.to_string())? {
                names.extend(page.into_iter().map(|object| object.name).filter(|name| is_ours(name)));
            }
        }
        for name in names {
            match pool.remove(name).await {
                Ok(()) | Err(client::Error::Errno(types::Errno::ENOENT)) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }
}

/// Prefix of the names of all objects that process `pid` of `rados bench` writes.
fn written_by(pid: u32) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("benchmark_data_{}_{pid}_", host.trim())
}
