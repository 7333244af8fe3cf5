//! A line that says how far long work has come.

use crate::byte_size::ByteSize;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Shown on standard error if that is a terminal, from one second on, at most five times a second.
pub struct Progress {
    what: &'static str,
    total: Option<u64>,
    started: Instant,
    shown: Option<Instant>,
    terminal: bool,
}

impl Progress {
    /// `total`: bytes in all, if known.
    pub fn new(what: &'static str, total: Option<u64>) -> Progress {
        Progress { what, total, started: Instant::now(), shown: None, terminal: std::io::stderr().is_terminal() }
    }

    pub fn at(&mut self, bytes: u64) {
        let now = Instant::now();
        let due = self.shown.map_or(self.started + Duration::from_secs(1), |shown| shown + Duration::from_millis(200));
        if !self.terminal || now < due {
            return;
        }
        self.shown = Some(now);
        let mut err = std::io::stderr().lock();
        let _ = write!(err, "\r\x1b[K{}", line(self.what, bytes, self.total, now - self.started));
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

fn line(what: &str, bytes: u64, total: Option<u64>, elapsed: Duration) -> String {
    let rate = ByteSize((bytes as f64 / elapsed.as_secs_f64().max(0.001)) as u64);
    let of = match total {
        Some(total) if total > 0 => format!(" of {} ({} %)", ByteSize(total), bytes.saturating_mul(100) / total),
        _ => String::new(),
    };
    format!("{what} {}{of}, {rate}/s", ByteSize(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_share_and_rate() {
        let two_seconds = Duration::from_secs(2);
        assert_eq!(line("read", 512 << 20, Some(1 << 30), two_seconds), "read 512 MiB of 1 GiB (50 %), 256 MiB/s");
        assert_eq!(line("read", 4096, None, two_seconds), "read 4 KiB, 2 KiB/s");
    }
}
