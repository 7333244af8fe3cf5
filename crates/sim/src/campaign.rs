//! Runs many seeds on many processors and keeps a tally of them that outlives the program.

use crate::setup::{Setup, Wishes};
use crate::worker::{Outcome, SeedResult, Worker};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Interval at which the tally is written.
const SAVE_EVERY: Duration = Duration::from_secs(5);
/// The most failures that a tally keeps.
const FAILURES_MAX: usize = 1000;

/// Results of many seeds.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Tally {
    /// The flags that all seeds of the tally share. Runs with other flags need another tally.
    pub wishes: String,
    /// Seeds that are done: all of the campaign below `done_below`, and those in `done`.
    done_below: Option<u64>,
    done: BTreeSet<u64>,
    pub passed: u64,
    pub operations: u64,
    pub in_doubt: u64,
    /// Number of times that clients were asked to hold back.
    pub backoffs: u64,
    pub virtual_ms: u64,
    /// Processor time of all seeds.
    pub took_ms: u64,
    pub faults: BTreeMap<String, u64>,
    /// By seed: the name of the check that failed, and its message.
    pub failures: BTreeMap<u64, (String, String)>,
}

/// The reason why a tally cannot be continued.
#[derive(Debug, thiserror::Error)]
pub enum TallyError {
    #[error("{path}: {source}", path = .0.display(), source = .1)]
    File(PathBuf, std::io::Error),
    #[error("{path}: not a tally of seeds", path = .0.display())]
    Format(PathBuf),
    #[error("{path} is a tally of seeds with other flags: '{found}', not '{expected}'", path = .path.display())]
    OtherFlags { path: PathBuf, found: String, expected: String },
}

impl Tally {
    fn is_done(&self, seed: u64) -> bool {
        self.done_below.is_some_and(|below| seed < below) || self.done.contains(&seed)
    }

    pub fn seeds(&self) -> u64 {
        self.passed + self.failures.len() as u64
    }

    /// Adds the result of a seed.
    pub fn add(&mut self, seed: u64, answer: &SeedResult) {
        self.done.insert(seed);
        self.took_ms += answer.took.as_millis() as u64;
        match &answer.outcome {
            Outcome::Passed(passed) => {
                self.passed += 1;
                self.operations += passed.operations;
                self.in_doubt += passed.in_doubt;
                self.backoffs += passed.backoffs;
                self.virtual_ms += passed.virtual_ms;
                for (name, count) in &passed.faults {
                    *self.faults.entry(name.clone()).or_default() += count;
                }
            }
            Outcome::Failed { check, violation } => {
                if self.failures.len() < FAILURES_MAX {
                    self.failures.insert(seed, (check.clone(), violation.clone()));
                }
            }
        }
    }

    /// Replaces the first single seeds, without gaps, by one number.
    fn compact(&mut self, first: u64) {
        let mut below = self.done_below.unwrap_or(first);
        while self.done.remove(&below) {
            below += 1;
        }
        self.done_below = Some(below);
    }

    pub fn to_json(&self) -> Value {
        let failures = self.failures.iter();
        let failures =
            failures.map(|(seed, (check, words))| json!({ "seed": seed, "check": check, "violation": words }));
        json!({
            "wishes": self.wishes,
            "done_below": self.done_below,
            "done": self.done,
            "seeds": self.seeds(),
            "passed": self.passed,
            "operations": self.operations,
            "in_doubt": self.in_doubt,
            "backoffs": self.backoffs,
            "virtual_ms": self.virtual_ms,
            "took_ms": self.took_ms,
            "faults": self.faults,
            "failures": failures.collect::<Vec<_>>(),
        })
    }

    fn from_json(value: &Value) -> Option<Tally> {
        let number = |name: &str| value[name].as_u64();
        let failure = |value: &Value| {
            let words = (value["check"].as_str()?.to_owned(), value["violation"].as_str()?.to_owned());
            Some((value["seed"].as_u64()?, words))
        };
        Some(Tally {
            wishes: value["wishes"].as_str()?.to_owned(),
            done_below: number("done_below"),
            done: value["done"].as_array()?.iter().map(Value::as_u64).collect::<Option<_>>()?,
            passed: number("passed")?,
            operations: number("operations")?,
            in_doubt: number("in_doubt")?,
            // Older tallies have no such number, because clients could not be asked to hold back then.
            backoffs: number("backoffs").unwrap_or(0),
            virtual_ms: number("virtual_ms")?,
            took_ms: number("took_ms")?,
            faults: value["faults"]
                .as_object()?
                .iter()
                .map(|(k, v)| Some((k.clone(), v.as_u64()?)))
                .collect::<Option<_>>()?,
            failures: value["failures"].as_array()?.iter().map(failure).collect::<Option<_>>()?,
        })
    }

    /// Loads the tally in a file; an empty tally if there is no such file.
    pub fn load(path: &Path, wishes: &str) -> Result<Tally, TallyError> {
        let empty = Tally { wishes: wishes.to_owned(), ..Tally::default() };
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(empty),
            Err(e) => return Err(TallyError::File(path.to_owned(), e)),
        };
        let value = serde_json::from_slice(&bytes).map_err(|_| TallyError::Format(path.to_owned()))?;
        let tally = Tally::from_json(&value).ok_or_else(|| TallyError::Format(path.to_owned()))?;
        if tally.wishes != wishes {
            let (found, expected) = (tally.wishes, wishes.to_owned());
            return Err(TallyError::OtherFlags { path: path.to_owned(), found, expected });
        }
        Ok(tally)
    }

    /// Writes the tally as a whole or not at all.
    pub fn save(&self, path: &Path) -> Result<(), TallyError> {
        let part = path.with_extension("part");
        let written =
            std::fs::write(&part, format!("{:#}\n", self.to_json())).and_then(|()| std::fs::rename(&part, path));
        written.map_err(|e| TallyError::File(path.to_owned(), e))
    }
}

/// Settings of a campaign.
pub struct Campaign<'a> {
    pub seeds: Range<u64>,
    pub wishes: &'a Wishes,
    pub jobs: usize,
    /// The longest time that one seed may take.
    pub limit: Duration,
    /// The campaign ends after this time, even if seeds are left.
    pub within: Option<Duration>,
    pub tally: Option<&'a Path>,
    pub keep_going: bool,
    /// Is called for each seed.
    pub each: Option<fn(u64, &SeedResult)>,
}

struct Shared {
    next: u64,
    tally: Tally,
    saved: Instant,
    error: Option<String>,
}

impl Campaign<'_> {
    /// Runs the seeds that the tally does not have. Returns the tally.
    ///
    /// Errors: a sentence. The tally has everything that was done until then.
    pub fn run(&self) -> Result<Tally, String> {
        let flags = Setup::flags(0, self.wishes);
        let wishes = flags.trim_start_matches("--seed 0").trim().to_owned();
        let tally = match self.tally {
            Some(path) => Tally::load(path, &wishes).map_err(|e| e.to_string())?,
            None => Tally { wishes, ..Tally::default() },
        };
        let begin = Instant::now();
        let before = tally.seeds();
        let shared = Mutex::new(Shared { next: self.seeds.start, tally, saved: begin, error: None });
        let enough = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.max(1) {
                scope.spawn(|| {
                    let mut worker = Worker::new(self.limit);
                    while !enough.load(Ordering::Relaxed)
                        && self.within.is_none_or(|within| begin.elapsed() < within)
                        && let Some(seed) = self.take(&shared)
                    {
                        let answer = worker.run(seed, None);
                        let mut shared = shared.lock().expect("no panic under the lock");
                        match answer {
                            Ok(answer) => {
                                self.done(&mut shared, seed, &answer, begin, before);
                                if matches!(answer.outcome, Outcome::Failed { .. }) && !self.keep_going {
                                    enough.store(true, Ordering::Relaxed);
                                }
                            }
                            Err(error) => {
                                shared.error = Some(format!("no process can be started: {error}"));
                                enough.store(true, Ordering::Relaxed);
                            }
                        }
                    }
                });
            }
        });
        let mut shared = shared.into_inner().expect("no panic under the lock");
        self.save(&mut shared);
        if std::io::stderr().is_terminal() {
            eprintln!();
        }
        shared.error.map_or(Ok(shared.tally), Err)
    }

    fn take(&self, shared: &Mutex<Shared>) -> Option<u64> {
        let mut shared = shared.lock().expect("no panic under the lock");
        while shared.next < self.seeds.end {
            let seed = shared.next;
            shared.next += 1;
            if !shared.tally.is_done(seed) {
                return Some(seed);
            }
        }
        None
    }

    fn done(&self, shared: &mut Shared, seed: u64, answer: &SeedResult, begin: Instant, before: u64) {
        shared.tally.add(seed, answer);
        if let Some(each) = self.each {
            each(seed, answer);
        }
        if let Outcome::Failed { check, violation } = &answer.outcome {
            eprintln!(
                "seed {seed} fails ({check}): {violation}\n  again: nacre sim {}",
                Setup::flags(seed, self.wishes)
            );
        }
        if shared.saved.elapsed() > SAVE_EVERY {
            self.save(shared);
            let (tally, secs) = (&shared.tally, begin.elapsed().as_secs_f64());
            let (done, failed) = (tally.seeds(), tally.failures.len());
            let rate = (done - before) as f64 / secs;
            let line = format!(
                "{done} seeds, {failed} failed; {rate:.1} seeds/s, at seed {} of {} to {}",
                shared.next, self.seeds.start, self.seeds.end
            );
            match std::io::stderr().is_terminal() {
                true => eprint!("\r\x1b[K{line}"),
                false => eprintln!("{line}"),
            }
            let _ = std::io::stderr().flush();
        }
    }

    fn save(&self, shared: &mut Shared) {
        shared.saved = Instant::now();
        shared.tally.compact(self.seeds.start);
        if let Some(path) = self.tally
            && let Err(error) = shared.tally.save(path)
        {
            shared.error = Some(error.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::Passed;

    fn answer(is_good: bool) -> SeedResult {
        let outcome = match is_good {
            true => Outcome::Passed(Passed {
                fingerprint: 1,
                operations: 10,
                in_doubt: 1,
                backoffs: 3,
                osds: 3,
                virtual_ms: 100,
                faults: [("OSD killed".to_owned(), 2)].into(),
            }),
            false => Outcome::Failed { check: "listing".to_owned(), violation: "words".to_owned() },
        };
        SeedResult { outcome, took: Duration::from_millis(7), met: 0 }
    }

    #[test]
    fn a_tally_is_gone_on_with() {
        let path = std::env::temp_dir().join(format!("nacre-tally-{}.json", std::process::id()));
        let mut tally = Tally::load(&path, "--ops 9").expect("there is no such file yet");
        for seed in [10, 11, 13] {
            tally.add(seed, &answer(seed != 11));
        }
        tally.compact(10);
        assert_eq!((tally.done_below, tally.done.len()), (Some(12), 1));
        assert_eq!((tally.seeds(), tally.operations, tally.faults["OSD killed"], tally.backoffs), (3, 20, 4, 6));
        tally.save(&path).expect("a temporary file can be written");
        assert_eq!(Tally::load(&path, "--ops 9").expect("just written"), tally);
        assert!(matches!(Tally::load(&path, ""), Err(TallyError::OtherFlags { .. })));
        std::fs::write(&path, "{}").expect("a temporary file can be written");
        assert!(matches!(Tally::load(&path, ""), Err(TallyError::Format(_))));
        std::fs::remove_file(&path).expect("just written");
        assert!(tally.is_done(10) && tally.is_done(13) && !tally.is_done(12));
    }
}
