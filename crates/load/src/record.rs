//! Results of the instances of one group on one thread.

use std::sync::{Arc, Mutex, MutexGuard};

use bench::recorder::{Recorder, Rounds};

/// Largest number of examples kept.
const EXAMPLES_MAX: usize = 5;

/// Numbers and examples. Each thread and group has its own lock, which only the coordinator's readings contend for.
#[derive(Clone, Debug)]
pub struct Record {
    pub recorder: Recorder,
    /// Reads that returned wrong bytes, warm-up included.
    pub mismatches: u64,
    pub mismatch_examples: Vec<String>,
    pub error_examples: Vec<String>,
}

/// A record that its thread and the coordinator share.
#[derive(Clone)]
pub struct SharedRecord(Arc<Mutex<Record>>);

impl SharedRecord {
    pub fn new(rounds: Rounds) -> SharedRecord {
        SharedRecord(Arc::new(Mutex::new(Record {
            recorder: Recorder::new(rounds),
            mismatches: 0,
            mismatch_examples: Vec::new(),
            error_examples: Vec::new(),
        })))
    }

    pub fn lock(&self) -> MutexGuard<'_, Record> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Adds an example, unless there are enough or it is there already.
pub fn add_example(examples: &mut Vec<String>, text: impl FnOnce() -> String) {
    if examples.len() < EXAMPLES_MAX {
        let text = text();
        if !examples.contains(&text) {
            examples.push(text);
        }
    }
}
