//! Processes that run seeds one after the other. A seed that ends its process, or never ends, costs only that seed.
//!
//! A worker is the same program with the same arguments and `--worker`. It reads jobs on standard input and writes the
//! answers on standard output, each a JSON object in a line.

use crate::run::{self, Report};
use crate::setup::{Setup, Wishes};
use mutant::Mutant;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The result of a seed.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    Passed(Passed),
    Failed {
        /// Name of the check that failed.
        check: String,
        violation: String,
    },
}

/// Figures of a run that found nothing.
#[derive(Clone, PartialEq, Debug)]
pub struct Passed {
    pub fingerprint: u64,
    pub operations: u64,
    pub in_doubt: u64,
    pub backoffs: u64,
    pub osds: u64,
    pub virtual_ms: u64,
    pub faults: BTreeMap<String, u64>,
}

/// The result of one seed, the time it took, and the number of times that the mutant's place was met.
#[derive(Clone, PartialEq, Debug)]
pub struct SeedResult {
    pub outcome: Outcome,
    pub took: Duration,
    pub met: u64,
}

impl From<Report> for Passed {
    fn from(report: Report) -> Passed {
        Passed {
            fingerprint: report.fingerprint,
            operations: report.operations as u64,
            in_doubt: report.in_doubt as u64,
            backoffs: report.backoffs,
            osds: report.setup.osds as u64,
            virtual_ms: report.took.as_millis() as u64,
            faults: report.faults.into_iter().map(|(name, count)| (name.to_owned(), count)).collect(),
        }
    }
}

#[cfg(feature = "mutants")]
fn switch(mutant: Option<Mutant>) {
    // If the request names no mutant, the one of `NACRE_MUTANT` stays on.
    if mutant.is_some() {
        mutant::switch(mutant);
    }
}

#[cfg(feature = "mutants")]
fn met() -> u64 {
    mutant::met()
}

#[cfg(not(feature = "mutants"))]
fn switch(mutant: Option<Mutant>) {
    assert!(mutant.is_none(), "this program was built without mutants");
}

#[cfg(not(feature = "mutants"))]
fn met() -> u64 {
    0
}

/// Runs one seed in this process.
pub fn run_here(seed: u64, wishes: &Wishes, mutant: Option<Mutant>) -> SeedResult {
    let begin = Instant::now();
    switch(mutant);
    let result = run::run(&Setup::of(seed, wishes));
    let met = met();
    switch(None);
    let outcome = match result {
        Ok(report) => Outcome::Passed(report.into()),
        Err(violation) => Outcome::Failed { check: violation.check().to_owned(), violation: violation.0 },
    };
    SeedResult { outcome, took: begin.elapsed(), met }
}

impl SeedResult {
    pub fn to_json(&self) -> Value {
        let outcome = match &self.outcome {
            Outcome::Passed(passed) => json!({
                "fingerprint": format!("{:016x}", passed.fingerprint),
                "operations": passed.operations,
                "in_doubt": passed.in_doubt,
                "backoffs": passed.backoffs,
                "osds": passed.osds,
                "virtual_ms": passed.virtual_ms,
                "faults": passed.faults,
            }),
            Outcome::Failed { check, violation } => json!({ "check": check, "violation": violation }),
        };
        json!({ "outcome": outcome, "took_us": self.took.as_micros() as u64, "met": self.met })
    }

    fn from_json(value: &Value) -> Option<SeedResult> {
        let outcome = &value["outcome"];
        let number = |name: &str| outcome[name].as_u64();
        let text = |name: &str| outcome[name].as_str().map(str::to_owned);
        let outcome = match text("violation") {
            Some(violation) => Outcome::Failed { check: text("check")?, violation },
            None => Outcome::Passed(Passed {
                fingerprint: u64::from_str_radix(outcome["fingerprint"].as_str()?, 16).ok()?,
                operations: number("operations")?,
                in_doubt: number("in_doubt")?,
                backoffs: number("backoffs")?,
                osds: number("osds")?,
                virtual_ms: number("virtual_ms")?,
                faults: outcome["faults"]
                    .as_object()?
                    .iter()
                    .map(|(k, v)| Some((k.clone(), v.as_u64()?)))
                    .collect::<Option<_>>()?,
            }),
        };
        let took = Duration::from_micros(value["took_us"].as_u64()?);
        Some(SeedResult { outcome, took, met: value["met"].as_u64()? })
    }
}

/// Carries out `--worker`: reads jobs and writes answers until there are no more jobs.
pub fn serve(wishes: &Wishes) -> Result<(), String> {
    // The answer tells of a panic with its place.
    std::panic::set_hook(Box::new(run::note_place_of_panic));
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|e| e.to_string())?;
        let job: Value = serde_json::from_str(&line).map_err(|e| format!("{line}: {e}"))?;
        let seed = job["seed"].as_u64().ok_or_else(|| format!("a job without a seed: {line}"))?;
        let mutant =
            job["mutant"].as_str().and_then(|name| Mutant::ALL.iter().find(|mutant| mutant.name() == name).copied());
        let answer = run_here(seed, wishes, mutant).to_json();
        let mut out = std::io::stdout().lock();
        writeln!(out, "{answer}").and_then(|()| out.flush()).map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// Longest real time of a run, as a multiple of the processor time that it may take: nothing in it waits, so only a
/// machine with much else to do needs more.
const REAL_TIME_FACTOR: u32 = 60;
/// Interval of looks at a run's processor time.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A worker process as its user sees it.
pub struct Worker {
    running: Option<Running>,
    limit: Duration,
}

struct Running {
    child: Child,
    jobs: ChildStdin,
    answers: Receiver<String>,
}

impl Running {
    fn start() -> std::io::Result<Running> {
        let arguments: Vec<_> = std::env::args_os().skip(1).collect();
        let mut command = Command::new(std::env::current_exe()?);
        command.args(arguments).arg("--worker");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let jobs = child.stdin.take().expect("asked for a pipe");
        let out = BufReader::new(child.stdout.take().expect("asked for a pipe"));
        let (tell, answers) = channel();
        std::thread::spawn(move || {
            out.lines().map_while(Result::ok).take_while(|line| tell.send(line.clone()).is_ok()).count()
        });
        Ok(Running { child, jobs, answers })
    }

    /// Processor time that the thread which runs seeds has taken so far. `None` where the kernel does not tell.
    fn processor_time(&self) -> Option<Duration> {
        let told = std::fs::read_to_string(format!("/proc/{}/schedstat", self.child.id())).ok()?;
        told.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
    }

    /// Waits for the next answer, until the run has taken `limit` of a processor.
    fn answer(&self, limit: Duration) -> Result<String, RecvTimeoutError> {
        let (begin, before) = (Instant::now(), self.processor_time());
        loop {
            match self.answers.recv_timeout(LOOK_EVERY.min(limit)) {
                Err(RecvTimeoutError::Timeout) => {}
                came => return came,
            }
            let elapsed = begin.elapsed();
            let taken = self.processor_time().zip(before).map_or(elapsed, |(now, before)| now - before);
            if taken >= limit || elapsed >= limit * REAL_TIME_FACTOR {
                return Err(RecvTimeoutError::Timeout);
            }
        }
    }
}

impl Worker {
    /// `limit`: the longest that one seed may take, of a processor's time.
    pub fn new(limit: Duration) -> Worker {
        Worker { running: None, limit }
    }

    /// Has the process run one seed. If the process dies or takes too long, the seed has failed.
    ///
    /// Errors: no process can be started.
    pub fn run(&mut self, seed: u64, mutant: Option<Mutant>) -> std::io::Result<SeedResult> {
        let begin = Instant::now();
        let running = match &mut self.running {
            Some(running) => running,
            none => none.insert(Running::start()?),
        };
        let job = json!({ "seed": seed, "mutant": mutant.map(Mutant::name) });
        let sent = writeln!(running.jobs, "{job}").and_then(|()| running.jobs.flush());
        let line = match sent {
            Ok(()) => running.answer(self.limit),
            Err(_) => Err(RecvTimeoutError::Disconnected),
        };
        if let Some(answer) =
            line.as_ref().ok().and_then(|line| SeedResult::from_json(&serde_json::from_str(line).ok()?))
        {
            return Ok(answer);
        }
        let mut dead = self.running.take().expect("just used");
        let (check, violation) = match line {
            Err(RecvTimeoutError::Timeout) => {
                ("ends in time", format!("the run does not end within {:?} of a processor's time", self.limit))
            }
            Ok(line) => ("ends in order", format!("the run gives {line}")),
            Err(RecvTimeoutError::Disconnected) => {
                ("ends in order", "the process of the run ends in the middle of it".to_owned())
            }
        };
        let _ = dead.child.kill();
        let status = dead.child.wait()?;
        let outcome = Outcome::Failed { check: check.to_owned(), violation: format!("{violation} ({status})") };
        Ok(SeedResult { outcome, took: begin.elapsed(), met: 0 })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(mut running) = self.running.take() {
            // Both calls fail harmlessly if the process has ended.
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_read_back() {
        let passed = Passed {
            fingerprint: u64::MAX - 1,
            operations: 1200,
            in_doubt: 3,
            backoffs: 4,
            osds: 4,
            virtual_ms: 50_000,
            faults: [("OSD killed".to_owned(), 2)].into(),
        };
        let failed = Outcome::Failed { check: "listing".to_owned(), violation: "x is \"listed\"\ntwice".to_owned() };
        for outcome in [Outcome::Passed(passed), failed] {
            let answer = SeedResult { outcome, took: Duration::from_micros(77), met: 5 };
            let line = answer.to_json().to_string();
            assert!(!line.contains('\n'));
            assert_eq!(SeedResult::from_json(&serde_json::from_str(&line).expect("JSON")), Some(answer));
        }
        assert_eq!(SeedResult::from_json(&json!({ "outcome": {} })), None);
    }

    /// A process that answers nothing, by a command of the shell.
    fn silent(command: &str) -> Running {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = shell.spawn().expect("a shell");
        let jobs = child.stdin.take().expect("asked for a pipe");
        let (tell, answers) = channel();
        // The sender is there until the test ends.
        std::mem::forget(tell);
        Running { child, jobs, answers }
    }

    #[test]
    fn a_run_is_given_up_by_what_it_takes_of_a_processor() {
        let limit = Duration::from_millis(300);
        let mut busy = silent("while :; do :; done");
        assert_eq!(busy.answer(limit), Err(RecvTimeoutError::Timeout));
        assert!(busy.processor_time() >= Some(limit), "{:?}", busy.processor_time());
        // One that gets no processor is waited for.
        let mut waits = silent("read line");
        let begin = Instant::now();
        assert_eq!(waits.answer(Duration::from_millis(50)), Err(RecvTimeoutError::Timeout));
        assert!(begin.elapsed() >= Duration::from_millis(50) * REAL_TIME_FACTOR);
        for running in [&mut busy, &mut waits] {
            running.child.kill().expect("it runs");
            running.child.wait().expect("it can be waited for");
        }
    }
}
