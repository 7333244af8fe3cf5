//! How a run goes, for the person who watches: one line that changes on a terminal, a line now and then elsewhere.

use crate::byte_size::ByteSize;
use load::{Event, Live, Observer};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Where lines stay, so many seconds apart.
const LINES_EVERY: Duration = Duration::from_secs(10);

pub struct Watcher {
    terminal: bool,
    /// Tells if the terminal's last line is one that changes.
    open: bool,
    last_line: Option<Instant>,
    last_step: String,
}

impl Watcher {
    pub fn new() -> Watcher {
        Watcher { terminal: std::io::stderr().is_terminal(), open: false, last_line: None, last_step: String::new() }
    }

    /// Leaves the line that changes.
    pub fn end(&mut self) {
        if std::mem::take(&mut self.open) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }

    fn changing(&mut self, text: &str, always: bool) {
        // A closed standard error is no reason to stop.
        let mut err = std::io::stderr().lock();
        if self.terminal {
            self.open = true;
            let _ = write!(err, "\r\x1b[K{text}");
            let _ = err.flush();
        } else if always || self.last_line.is_none_or(|last| last.elapsed() >= LINES_EVERY) {
            self.last_line = Some(Instant::now());
            let _ = writeln!(err, "{text}");
        }
    }
}

impl Observer for Watcher {
    fn event(&mut self, event: Event) {
        match event {
            Event::Step(text) => {
                // The step stands before a comma, behind it how far it is.
                let step = text.split(',').next().unwrap_or_default().to_owned();
                let new = step != self.last_step;
                self.last_step = step;
                self.changing(&text, new);
            }
            Event::Live(live) => {
                let phase = phase(&live).to_owned();
                let new = phase != self.last_step;
                self.last_step = phase;
                self.changing(&line(&live), new);
            }
            Event::Note(text) => {
                self.end();
                let _ = writeln!(std::io::stderr(), "{text}");
            }
        }
    }
}

fn phase(live: &Live) -> &'static str {
    if live.warming_up { "warming up" } else { "measuring" }
}

fn line(live: &Live) -> String {
    let phase = phase(live);
    let (elapsed, end) = (live.elapsed.as_secs(), live.end.as_secs_f64().ceil());
    let groups = live.groups.iter().map(|(name, total, rates)| {
        let errors = if total.errors > 0 { format!(", {} errors", total.errors) } else { String::new() };
        format!("{name} {:.0} op/s, {}/s{errors}", rates.operations, ByteSize(rates.bytes as u64))
    });
    format!("{}: {phase}, {elapsed} of {end} s: {}", live.what, groups.collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench::recorder::Total;
    use load::Rates;

    #[test]
    fn a_line_says_how_it_goes() {
        let total = Total { operations: 9, bytes: 4, errors: 2 };
        let rates = Rates { operations: 1234.4, bytes: 3e6 };
        let live = Live {
            what: "nacre 4k".into(),
            warming_up: false,
            elapsed: Duration::from_millis(3200),
            end: Duration::from_secs(12),
            groups: vec![("g".into(), total, rates)],
        };
        assert_eq!(line(&live), "nacre 4k: measuring, 3 of 12 s: g 1234 op/s, 2.9 MiB/s, 2 errors");
    }
}
