//! Ceph's programs as load: started, watched and measured, and their output read.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde_json::Value;
use tokio::sync::watch;

use crate::telemetry::process::Process;

/// Interval of checks if a program has ended.
const POLL: Duration = Duration::from_millis(20);
/// Time that a program gets beyond its own duration.
const EXTRA: Duration = Duration::from_secs(60);
/// Longest excerpt of a program's output in an error.
const SAID_MAX: usize = 400;

/// The reason why a program gave no figures.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    #[error("{program} is not installed; on Debian: apt-get install {package}")]
    Missing { program: &'static str, package: &'static str },
    #[error("{program} cannot be started")]
    Start { program: &'static str, source: std::io::Error },
    #[error("{program} still ran after {seconds} s, and was ended")]
    Stuck { program: &'static str, seconds: u64 },
    #[error("{program} ended with {status}: {said}")]
    Failed { program: &'static str, status: std::process::ExitStatus, said: String },
    #[error("{program} does not tell how many operations it completed: {said}")]
    Silent { program: &'static str, said: String },
    #[error("interrupted")]
    Interrupted,
}

/// The figures of a program that succeeded.
pub struct Ended {
    /// User and system time of all its threads.
    pub cpu_s: f64,
    /// Completed operations, by the program's output.
    pub operations: u64,
}

/// A program to run.
pub struct Program {
    pub name: &'static str,
    /// Debian package of the program.
    pub package: &'static str,
    pub arguments: Vec<String>,
    /// Longest duration of the run by the program's arguments.
    pub duration: Duration,
    /// Reads the number of operations from the output.
    pub operations: fn(&str) -> Option<u64>,
}

impl Program {
    /// Runs the program to its end.
    pub async fn run(&self, interrupt: &mut watch::Receiver<bool>) -> Result<Ended, ProgramError> {
        let name = self.name;
        let mut command = Command::new(name);
        command.args(&self.arguments).env_remove("CEPH_ARGS");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = match command.spawn() {
            Ok(child) => Running(child),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(ProgramError::Missing { program: name, package: self.package });
            }
            Err(source) => return Err(ProgramError::Start { program: name, source }),
        };
        let (stdout, stderr) = (reader(child.0.stdout.take()), reader(child.0.stderr.take()));
        let limit = self.duration + EXTRA;
        let begun = Instant::now();
        // The loop waits for the process without reaping it: until it is reaped the kernel still tells its CPU time.
        let pid = Pid::from_child(&child.0);
        while !matches!(
            waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG),
            Ok(Some(_)) | Err(_)
        ) {
            if begun.elapsed() > limit {
                return Err(ProgramError::Stuck { program: name, seconds: limit.as_secs() });
            }
            tokio::select! {
                () = tokio::time::sleep(POLL) => {}
                Ok(_) = interrupt.wait_for(|asked| *asked) => return Err(ProgramError::Interrupted),
            }
        }
        let spent = Process::read(child.0.id());
        let status = child.0.wait().map_err(|source| ProgramError::Start { program: name, source })?;
        let (said, complaints) = (stdout.join().unwrap_or_default(), stderr.join().unwrap_or_default());
        match spent {
            Some(spent) if status.success() => match (self.operations)(&said) {
                Some(operations) => Ok(Ended { cpu_s: spent.cpu_s(), operations }),
                None => Err(ProgramError::Silent { program: name, said: end_of(&said) }),
            },
            _ => Err(ProgramError::Failed { program: name, status, said: end_of(&(said + &complaints)) }),
        }
    }
}

/// A process that is killed and reaped on drop.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both calls fail harmlessly if the process has been reaped.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads a pipe to its end, so that the program never waits for us.
fn reader<R: Read + Send + 'static>(pipe: Option<R>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn end_of(said: &str) -> String {
    let said = said.trim();
    let skip = said.chars().count().saturating_sub(SAID_MAX);
    said.chars().skip(skip).collect()
}

/// A run of fio.
pub struct FioJob<'a> {
    pub engine: FioEngine<'a>,
    pub write: bool,
    pub io_bytes: u64,
    pub object_bytes: u64,
    pub depth: u32,
    pub duration: Duration,
}

/// The engine of fio.
pub enum FioEngine<'a> {
    /// No cluster: each request ends at once.
    Null,
    /// Objects of these names in a pool.
    Rados { configuration: &'a Path, pool: &'a str, objects: &'a [String] },
}

impl FioJob<'_> {
    pub fn program(&self) -> Program {
        let mut arguments: Vec<String> = vec![
            "--name=cost".into(),
            "--output-format=json".into(),
            "--thread=1".into(),
            "--time_based=1".into(),
            format!("--rw={}", if self.write { "randwrite" } else { "randread" }),
            format!("--bs={}", self.io_bytes),
            format!("--iodepth={}", self.depth),
            format!("--runtime={}", self.duration.as_secs()),
        ];
        match &self.engine {
            FioEngine::Null => arguments.extend(["--ioengine=null".into(), format!("--size={}", self.object_bytes)]),
            FioEngine::Rados { configuration, pool, objects } => arguments.extend([
                "--ioengine=rados".into(),
                "--clientname=admin".into(),
                "--busy_poll=0".into(),
                format!("--conf={}", configuration.display()),
                format!("--pool={pool}"),
                format!("--size={}", self.object_bytes * objects.len() as u64),
                format!("--nrfiles={}", objects.len()),
                format!("--filename={}", objects.join(":")),
            ]),
        }
        Program { name: "fio", package: "fio", arguments, duration: self.duration, operations: FioJob::operations }
    }

    /// Number of operations in fio's JSON, if there were any and none failed.
    fn operations(said: &str) -> Option<u64> {
        // Engines may print lines before the JSON.
        let value: Value = serde_json::from_str(&said[said.find('{')?..]).ok()?;
        let job = &value["jobs"][0];
        let count = |kind: &str| job[kind]["total_ios"].as_u64().unwrap_or(0);
        let operations = count("read") + count("write");
        (job["error"].as_i64() == Some(0) && operations > 0).then_some(operations)
    }
}

/// A run of `rados bench`.
pub struct RadosBenchJob<'a> {
    pub configuration: &'a Path,
    pub pool: &'a str,
    /// Name that identifies the run's objects; a read needs the name of a write.
    pub run_name: &'a str,
    pub kind: RadosBenchKind,
    pub depth: u32,
    pub duration: Duration,
}

/// Kinds of runs of `rados bench`.
pub enum RadosBenchKind {
    /// Reads objects of an earlier write in random order.
    RandomRead,
    /// Writes new objects one after the other, each in sequence, until there are `objects` of them.
    Write { io_bytes: u64, object_bytes: u64, objects: Option<u64> },
}

impl RadosBenchJob<'_> {
    pub fn program(&self) -> Program {
        let mut arguments = vec!["-c".to_owned(), self.configuration.display().to_string()];
        let mut add = |words: &[&str]| arguments.extend(words.iter().map(|word| (*word).to_owned()));
        let mode = if let RadosBenchKind::Write { .. } = self.kind { "write" } else { "rand" };
        add(&["-p", self.pool, "bench", &self.duration.as_secs().to_string(), mode]);
        add(&["-t", &self.depth.to_string(), "--run-name", self.run_name]);
        if let RadosBenchKind::Write { io_bytes, object_bytes, objects } = self.kind {
            // The program is told `--no-hints`, because `rados bench` sends a hint with each write by default.
            add(&["-b", &io_bytes.to_string(), "-O", &object_bytes.to_string(), "--no-hints", "--no-cleanup"]);
            if let Some(objects) = objects {
                add(&["--max-objects", &objects.to_string()]);
            }
        }
        let operations = RadosBenchJob::operations;
        Program { name: "rados", package: "ceph-common", arguments, duration: self.duration, operations }
    }

    /// Number of operations in the text of `rados bench`, if there were any.
    fn operations(said: &str) -> Option<u64> {
        said.lines().find_map(|line| {
            let rest = line.strip_prefix("Total writes made:").or_else(|| line.strip_prefix("Total reads made:"))?;
            rest.trim().parse().ok().filter(|count| *count > 0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_where_they_are() {
        let fio = FioJob::operations;
        let job = |error: u32| {
            format!(
                "a note\n{{\"jobs\": [{{\"error\": {error}, \
                 \"read\": {{\"total_ios\": 7}}, \"write\": {{\"total_ios\": 0}}}}]}}"
            )
        };
        assert_eq!((fio(&job(0)), fio(&job(5)), fio("{}"), fio("fio: no engine")), (Some(7), None, None, None));
        let rados = RadosBenchJob::operations;
        assert_eq!(
            rados("hints = 1\nTotal time run:         2.0\nTotal writes made:      6890\nWrite size: 4096"),
            Some(6890)
        );
        assert_eq!((rados("Total reads made:     0"), rados("error")), (None, None));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn what_a_program_spends_is_known_when_it_has_ended() {
        let (_keep, mut interrupt) = watch::channel(false);
        let program = |name, script: &str| Program {
            name,
            package: "some-package",
            arguments: vec!["-c".into(), script.to_owned()],
            duration: Duration::from_secs(1),
            operations: |said| said.trim().parse().ok(),
        };
        let busy = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo $i";
        let ended = program("sh", busy).run(&mut interrupt).await.unwrap();
        assert!(ended.cpu_s >= 0.01 && ended.operations == 100_000, "{} {}", ended.cpu_s, ended.operations);
        let silent = program("sh", "echo nothing").run(&mut interrupt).await.err().unwrap().to_string();
        assert!(silent.contains("does not tell") && silent.ends_with("nothing"), "{silent}");
        let failed = program("sh", "echo why >&2; exit 3").run(&mut interrupt).await.err().unwrap().to_string();
        assert!(failed.contains("why") && failed.contains('3'), "{failed}");
        let missing = program("no-such-program", "").run(&mut interrupt).await.err().unwrap().to_string();
        assert!(missing.contains("apt-get install some-package"), "{missing}");
        let (ask, mut interrupt) = watch::channel(false);
        ask.send_replace(true);
        let cut = program("sh", "sleep 60").run(&mut interrupt).await;
        assert!(matches!(cut, Err(ProgramError::Interrupted)));
    }
}
