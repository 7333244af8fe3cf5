//! Figures of one run.

use anyhow::{Context, Result};
use std::time::Duration;

/// CPU time of this process, all threads.
#[derive(Clone, Copy, Default, Debug)]
pub struct CpuTime {
    pub user: Duration,
    pub system: Duration,
}

impl CpuTime {
    /// CPU time so far, as getrusage(2) tells it, read from /proc/self/stat in steps of 10 ms.
    pub fn now() -> Result<CpuTime> {
        let stat = std::fs::read_to_string("/proc/self/stat")?;
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
        let ticks = |at: usize| {
            let ticks: u64 = fields.get(at).context("/proc/self/stat is short")?.parse()?;
            anyhow::Ok(Duration::from_millis(ticks * 10))
        };
        Ok(CpuTime { user: ticks(11)?, system: ticks(12)? })
    }

    pub fn since(self, earlier: CpuTime) -> CpuTime {
        CpuTime { user: self.user - earlier.user, system: self.system - earlier.system }
    }

    pub fn total(self) -> Duration {
        self.user + self.system
    }
}

#[derive(Clone, Default, Debug)]
pub struct Latencies(Vec<u32>);

impl Latencies {
    pub fn push(&mut self, latency: Duration) {
        self.0.push(latency.as_micros().min(u128::from(u32::MAX)) as u32);
    }

    pub fn extend(&mut self, other: &Latencies) {
        self.0.extend_from_slice(&other.0);
    }

    /// Microseconds that `mille` of a thousand latencies stay below; `None` if there are fewer than a thousand.
    pub fn per_mille(&mut self, mille: usize) -> Option<u32> {
        if self.0.len() < 1000 {
            return None;
        }
        let at = (self.0.len() * mille / 1000).min(self.0.len() - 1);
        Some(*self.0.select_nth_unstable(at).1)
    }
}

/// One run of the store.
#[derive(Clone, Debug)]
pub struct Measured {
    pub operations: u64,
    /// Bytes that were read or written.
    pub bytes: u64,
    pub time: Duration,
    pub cpu: CpuTime,
    /// Bytes written to the device.
    pub written_bytes: u64,
    pub flushes: u64,
    pub latencies: Latencies,
    /// Latencies of operations while a checkpoint was under way.
    pub during_checkpoints: Latencies,
    /// Latencies of the store's flushes.
    pub flush_latencies: Latencies,
}

impl Measured {
    pub fn per_second(&self) -> f64 {
        self.operations as f64 / self.time.as_secs_f64()
    }

    pub fn cpu_us(&self) -> f64 {
        self.cpu.total().as_secs_f64() * 1e6 / self.operations as f64
    }
}

/// The middle value; the lower of the two middle ones if their number is even. Panics if there is none.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) / 2]
}
