//! The events of a run, line by line: everything that the cluster's own code logs, with virtual time and the process
//! that it comes from. It is off by default, because most runs have nothing to tell.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Number of lines kept of a run that has failed.
const LINES_MAX: usize = 3000;
/// Number of lines kept if all are asked for: some hundred megabytes.
const ALL_LINES_MAX: usize = 2_000_000;

#[derive(Default)]
struct Timeline {
    on: bool,
    now: Duration,
    who: String,
    lines: VecDeque<String>,
    lines_max: usize,
}

thread_local! {
    static TIMELINE: RefCell<Timeline> = RefCell::default();
}

/// Sets the time and the running process for the lines to come.
pub(crate) fn at(now: Duration, who: &str) {
    TIMELINE.with_borrow_mut(|timeline| {
        if timeline.on {
            timeline.now = now;
            who.clone_into(&mut timeline.who);
        }
    });
}

/// Adds a line about the world itself, such as a fault.
pub(crate) fn note(now: Duration, line: impl FnOnce() -> String) {
    TIMELINE.with_borrow_mut(|timeline| {
        if timeline.on {
            timeline.add(format!("{:12.6} {:>9} {}", now.as_secs_f64(), "****", line()));
        }
    });
}

/// Runs `body` with the timeline on. Also returns the last lines.
pub fn recorded<T>(body: impl FnOnce() -> T) -> (T, Vec<String>) {
    record(LINES_MAX, body)
}

/// Runs `body` with the timeline on. Also returns all lines.
pub fn recorded_all<T>(body: impl FnOnce() -> T) -> (T, Vec<String>) {
    record(ALL_LINES_MAX, body)
}

fn record<T>(lines_max: usize, body: impl FnOnce() -> T) -> (T, Vec<String>) {
    TIMELINE.with_borrow_mut(|timeline| *timeline = Timeline { on: true, lines_max, ..Timeline::default() });
    let result = tracing::subscriber::with_default(Recorder, body);
    let lines = TIMELINE.with_borrow_mut(std::mem::take).lines;
    (result, lines.into())
}

impl Timeline {
    fn add(&mut self, line: String) {
        if self.lines.len() >= self.lines_max {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }
}

/// Takes everything that is logged on this thread.
struct Recorder;

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::DEBUG
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        let level = match *event.metadata().level() {
            Level::ERROR => "ERROR ",
            Level::WARN => "WARN ",
            _ => "",
        };
        TIMELINE.with_borrow_mut(|timeline| {
            let (now, who) = (timeline.now.as_secs_f64(), &timeline.who);
            let line = format!("{now:12.6} {who:>9} {level}{}{}", text.message, text.fields);
            timeline.add(line);
        });
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_name_time_process_and_fields() {
        let ((), lines) = recorded(|| {
            at(Duration::from_millis(1500), "osd.3");
            tracing::info!(epoch = 7, "map in force");
            tracing::trace!("not shown");
            note(Duration::from_secs(2), || "osd.3 is killed".to_owned());
        });
        assert_eq!(lines, ["    1.500000     osd.3 map in force epoch=7", "    2.000000      **** osd.3 is killed"]);
        tracing::info!("nobody listens");
        assert!(recorded(|| ()).1.is_empty());
    }
}
