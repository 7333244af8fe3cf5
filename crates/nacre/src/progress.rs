//! A line that says how far long work has come.

use crate::byte_size::ByteSize;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Unit of what is counted.
#[derive(Clone, Copy)]
enum Unit {
    Bytes,
    /// Things of this name, in the plural.
    Things(&'static str),
}

/// Shown on standard error if that is a terminal, from one second on, at most five times a second.
pub struct Progress {
    what: &'static str,
    unit: Unit,
    total: Option<u64>,
    started: Instant,
    shown: Option<Instant>,
    terminal: bool,
}

impl Progress {
    /// `total`: bytes in all, if known.
    pub fn new(what: &'static str, total: Option<u64>) -> Progress {
        Progress::new_of(what, Unit::Bytes, total)
    }

    /// Counts things, such as "objects", of which nobody knows how many there are.
    pub fn counting(what: &'static str, things: &'static str) -> Progress {
        Progress::new_of(what, Unit::Things(things), None)
    }

    fn new_of(what: &'static str, unit: Unit, total: Option<u64>) -> Progress {
        let terminal = std::io::stderr().is_terminal();
        Progress { what, unit, total, started: Instant::now(), shown: None, terminal }
    }

    /// Shows that so much is done.
    pub fn at(&mut self, done: u64) {
        let now = Instant::now();
        let due = self.shown.map_or(self.started + Duration::from_secs(1), |shown| shown + Duration::from_millis(200));
        if !self.terminal || now < due {
            return;
        }
        self.shown = Some(now);
        let mut err = std::io::stderr().lock();
        let _ = write!(err, "\r\x1b[K{}", line((self.what, self.unit), done, self.total, now - self.started));
        let _ = err.flush();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn line((what, unit): (&str, Unit), done: u64, total: Option<u64>, elapsed: Duration) -> String {
    let rate = (done as f64 / elapsed.as_secs_f64().max(0.001)) as u64;
    if let Unit::Things(things) = unit {
        return format!("{what} {done} {things}, {rate}/s");
    }
    let of = match total {
        Some(total) if total > 0 => format!(" of {} ({} %)", ByteSize(total), done.saturating_mul(100) / total),
        _ => String::new(),
    };
    format!("{what} {}{of}, {}/s", ByteSize(done), ByteSize(rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_share_and_rate() {
        let two_seconds = Duration::from_secs(2);
        let read = ("read", Unit::Bytes);
        assert_eq!(line(read, 512 << 20, Some(1 << 30), two_seconds), "read 512 MiB of 1 GiB (50 %), 256 MiB/s");
        assert_eq!(line(read, 4096, None, two_seconds), "read 4 KiB, 2 KiB/s");
        assert_eq!(line(("checked", Unit::Things("keys")), 4096, None, two_seconds), "checked 4096 keys, 2048/s");
    }
}
