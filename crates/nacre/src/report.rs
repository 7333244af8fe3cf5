//! How `up` tells what it is doing: to a person, or through a pipe to the process that a person watches.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::io::{IsTerminal, Write};

/// Something that the person who started the cluster should see.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The present step; the next one replaces it.
    Step(String),
    /// Something that happened and stays worth reading.
    Note(String),
    /// The cluster is healthy; the text says how to use it.
    Ready(String),
    /// The start has failed, for this reason.
    Failed(String),
}

/// Where events go.
pub enum Report {
    Console(Console),
    /// Lines of JSON on standard output.
    Pipe,
    /// Only the log: the process at the other end of the pipe has gone after hearing what it waited for.
    Log,
}

impl Report {
    /// Errors: nobody reads the pipe any more.
    pub fn send(&mut self, event: Event) -> Result<()> {
        match (&mut *self, &event) {
            (Report::Log, Event::Failed(text)) => tracing::error!("{text}"),
            (Report::Log, Event::Step(_)) => {}
            (Report::Log, Event::Note(text) | Event::Ready(text)) => tracing::info!("{text}"),
            (Report::Console(console), event) => console.show(event),
            (Report::Pipe, event) => {
                if !matches!(event, Event::Step(_)) {
                    tracing::info!("{event:?}");
                }
                let line = serde_json::to_string(event).expect("events are plain text");
                let mut out = std::io::stdout().lock();
                return writeln!(out, "{line}")
                    .and_then(|()| out.flush())
                    .context("the command that started the cluster was interrupted");
            }
        }
        Ok(())
    }
}

/// Standard error as a person sees it: steps replace each other on a terminal, and are lines elsewhere.
pub struct Console {
    terminal: bool,
    step: String,
}

impl Console {
    pub fn new() -> Console {
        Console { terminal: std::io::stderr().is_terminal(), step: String::new() }
    }

    pub fn show(&mut self, event: &Event) {
        // A closed standard error is no reason to stop.
        let mut err = std::io::stderr().lock();
        let clear = if self.terminal && !self.step.is_empty() { "\r\x1b[K" } else { "" };
        let _ = match event {
            Event::Step(text) if *text == self.step => return,
            Event::Step(text) if self.terminal => write!(err, "{clear}{text}"),
            Event::Step(text) | Event::Note(text) | Event::Ready(text) => writeln!(err, "{clear}{text}"),
            Event::Failed(text) => writeln!(err, "{clear}error: {text}"),
        };
        let _ = err.flush();
        self.step = match event {
            Event::Step(text) => text.clone(),
            _ => String::new(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_pass_through_lines() {
        for event in [Event::Step("a\nb".into()), Event::Ready("x".into()), Event::Failed("\"".into())] {
            let line = serde_json::to_string(&event).unwrap();
            assert!(!line.contains('\n'));
            assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), event);
        }
    }
}
