//! Progress that a run reports.

use std::time::Duration;

use bench::recorder::Total;

/// A report for people.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// The step under way; the next report replaces it.
    Step(String),
    /// A note to keep.
    Note(String),
    /// State of the load; the next report replaces it.
    Live(Live),
}

/// The load at one moment.
#[derive(Clone, PartialEq, Debug)]
pub struct Live {
    pub what: String,
    pub warming_up: bool,
    /// Time since the start of the load.
    pub elapsed: Duration,
    /// Time when the load will end; with a steady state, the latest such time.
    pub end: Duration,
    /// Groups by name: sums since the start, and rates since the last event.
    pub groups: Vec<(String, Total, Rates)>,
}

/// Rates per second.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Rates {
    pub operations: f64,
    pub bytes: f64,
}

/// A receiver of a run's reports.
pub trait Observer {
    fn event(&mut self, event: Event);
}

impl Rates {
    pub(crate) fn between(before: Total, now: Total, over: Duration) -> Rates {
        let seconds = over.as_secs_f64().max(1e-9);
        let rate = |before: u64, now: u64| now.saturating_sub(before) as f64 / seconds;
        Rates { operations: rate(before.operations, now.operations), bytes: rate(before.bytes, now.bytes) }
    }
}
