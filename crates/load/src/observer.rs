//! Progress that a run tells while it goes on.

use std::time::Duration;

use bench::recorder::Total;

/// Something to show.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// The present step; the next one replaces it.
    Step(String),
    /// Something worth keeping.
    Note(String),
    /// How the load goes; the next one replaces it.
    Live(Live),
}

/// The load at one moment.
#[derive(Clone, PartialEq, Debug)]
pub struct Live {
    pub what: String,
    pub warming_up: bool,
    /// Since the start of the load.
    pub elapsed: Duration,
    /// When it will end; with a steady state, at the latest.
    pub end: Duration,
    /// Name, sums since the start, and what came to them since the last event.
    pub groups: Vec<(String, Total, Rates)>,
}

/// Per second.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Rates {
    pub operations: f64,
    pub bytes: f64,
}

/// The listener.
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
