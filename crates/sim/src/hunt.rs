//! Tries deliberate bugs: runs seeds with each mutant until one fails.

use crate::worker::{Outcome, Worker};
use mutant::Mutant;
use serde_json::{Value, json};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Result of one mutant.
#[derive(Clone, PartialEq, Debug)]
pub struct Verdict {
    pub mutant: Mutant,
    /// The seed that failed, the number of seeds tried including it, the check that found it, and the check's message.
    pub caught: Option<(u64, u64, String, String)>,
    /// Number of seeds that met the mutant's place, of those that did not fail.
    pub met: u64,
    pub tried: u64,
}

impl Verdict {
    pub fn to_json(&self) -> Value {
        let caught = self.caught.as_ref();
        json!({
            "mutant": self.mutant.name(),
            "part": format!("{:?}", self.mutant.part()),
            "what": self.mutant.what(),
            "caught": caught.is_some(),
            "seed": caught.map(|caught| caught.0),
            "check": caught.map(|caught| &caught.2),
            "violation": caught.map(|caught| &caught.3),
            "tried": self.tried,
            "met": self.met,
        })
    }

    /// A row for the table in `docs/simulation.md`.
    pub fn row(&self) -> String {
        let (mutant, part) = (self.mutant, format!("{:?}", self.mutant.part()).to_lowercase());
        let found = match &self.caught {
            Some((seed, tried, check, _)) => format!("{tried} (seed {seed}) | {check}"),
            None => format!("missed in {}, met in {} | ", self.tried, self.met),
        };
        format!("| `{}` | {part} | {} | {found} |", mutant.name(), mutant.what())
    }
}

/// Tries each mutant under these seeds until one fails. Reports each as soon as it is decided.
///
/// Errors: no process can be started.
pub fn hunt(
    mutants: &[Mutant],
    seeds: Range<u64>,
    jobs: usize,
    limit: Duration,
    tell: impl Fn(&Verdict) + Sync,
) -> Result<Vec<Verdict>, String> {
    let next = AtomicUsize::new(0);
    let verdicts = Mutex::new(Vec::new());
    let error = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                let mut worker = Worker::new(limit);
                while let Some(mutant) = mutants.get(next.fetch_add(1, Ordering::Relaxed)).copied() {
                    match one(&mut worker, mutant, seeds.clone()) {
                        Ok(verdict) => {
                            tell(&verdict);
                            verdicts.lock().expect("no panic under the lock").push(verdict);
                        }
                        Err(e) => *error.lock().expect("no panic under the lock") = Some(e.to_string()),
                    }
                }
            });
        }
    });
    if let Some(error) = error.into_inner().expect("no panic under the lock") {
        return Err(format!("no process can be started: {error}"));
    }
    let mut verdicts = verdicts.into_inner().expect("no panic under the lock");
    verdicts.sort_by_key(|verdict| verdict.mutant);
    Ok(verdicts)
}

fn one(worker: &mut Worker, mutant: Mutant, seeds: Range<u64>) -> std::io::Result<Verdict> {
    let mut verdict = Verdict { mutant, caught: None, met: 0, tried: 0 };
    for seed in seeds {
        let answer = worker.run(seed, Some(mutant))?;
        verdict.tried += 1;
        match answer.outcome {
            Outcome::Passed(_) => verdict.met += u64::from(answer.met > 0),
            Outcome::Failed { check, violation } => {
                verdict.caught = Some((seed, verdict.tried, check, violation));
                break;
            }
        }
    }
    Ok(verdict)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_tell_how_it_went() {
        let mut verdict = Verdict { mutant: Mutant::NoLeaseWait, caught: None, met: 150, tried: 200 };
        assert!(verdict.row().ends_with("| missed in 200, met in 150 |  |"), "{}", verdict.row());
        verdict.caught = Some((17, 18, "linearizable".to_owned(), String::new()));
        assert!(verdict.row().starts_with("| `no-lease-wait` | leases | "), "{}", verdict.row());
        assert!(verdict.row().ends_with(" | 18 (seed 17) | linearizable |"), "{}", verdict.row());
    }
}
