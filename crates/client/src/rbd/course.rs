//! The course of long work on an image.

use crate::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use types::Errno;

/// How far long work is, and the wish that it stops. Clones are of the same work.
#[derive(Clone)]
pub struct Course {
    state: Arc<CourseState>,
    /// Number of objects after which other clients get a turn: the lock is given up between two steps if one wants it.
    pub(super) step: u64,
}

/// Objects of a step.
const STEP: u64 = 64;

impl Default for Course {
    fn default() -> Course {
        Course::by_steps_of(STEP)
    }
}

#[derive(Default)]
struct CourseState {
    /// Objects that are done, and all of them.
    done: AtomicU64,
    all: AtomicU64,
    stopped: AtomicBool,
    /// Signs of life.
    steps: AtomicU64,
}

impl Course {
    pub(super) fn by_steps_of(step: u64) -> Course {
        Course { state: Arc::default(), step }
    }

    /// The share that is done, in parts of `of`.
    pub fn parts(&self, of: u32) -> u32 {
        let all = self.state.all.load(Ordering::Relaxed).max(1);
        let done = u128::from(self.state.done.load(Ordering::Relaxed).min(all));
        u32::try_from(done * u128::from(of) / u128::from(all)).unwrap_or(of)
    }

    /// A number that grows for as long as the work gets on.
    pub fn steps(&self) -> u64 {
        self.state.steps.load(Ordering::Relaxed)
    }

    /// Has the work end before its next object, with `ECANCELED`. Its changes so far stay, and it can be begun again.
    pub fn stop(&self) {
        self.state.stopped.store(true, Ordering::Relaxed);
    }

    /// Begins work on this many objects.
    pub(super) fn begin(&self, objects: u64) {
        self.state.done.store(0, Ordering::Relaxed);
        self.state.all.store(objects, Ordering::Relaxed);
        self.gets_on();
    }

    pub(super) fn one_done(&self) {
        self.state.done.fetch_add(1, Ordering::Relaxed);
        self.gets_on();
    }

    pub(super) fn gets_on(&self) {
        self.state.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Errors: `ECANCELED` once the work is to stop.
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.state.stopped.load(Ordering::Relaxed) { Err(Errno::ECANCELED.into()) } else { Ok(()) }
    }
}
