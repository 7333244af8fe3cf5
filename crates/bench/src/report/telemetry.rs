//! A run's record over time, as it lies in the folder `telemetry`.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Rates of a machine between two readings. What could not be read is absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rates {
    /// Seconds since the run's start, in the middle between the readings.
    pub at_s: f64,
    /// Processors that worked in programs, in the kernel (its interrupts included), for the host, or waited for drives.
    pub user_cores: Option<f64>,
    pub system_cores: Option<f64>,
    pub steal_cores: Option<f64>,
    pub iowait_cores: Option<f64>,
    /// Bytes per second of the drives that hold the stores.
    pub drive_read: Option<f64>,
    pub drive_written: Option<f64>,
    /// Bytes per second that all interfaces sent.
    pub network_out: Option<f64>,
}

/// The record of one iteration of a workload on a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Telemetry {
    pub cluster: String,
    pub workload: String,
    pub iteration: u32,
    pub rates: Vec<Rates>,
    /// Number of drives that hold the stores.
    pub drives: usize,
}

#[derive(Deserialize)]
struct Reading {
    at_s: f64,
    machine_cpu: Option<Cpu>,
    drives: BTreeMap<String, Drive>,
    interfaces: BTreeMap<String, Interface>,
}

#[derive(Deserialize)]
struct Cpu {
    user_s: f64,
    system_s: f64,
    softirq_s: f64,
    iowait_s: f64,
    steal_s: f64,
}

#[derive(Deserialize)]
struct Drive {
    read_bytes: u64,
    written_bytes: u64,
}

#[derive(Deserialize)]
struct Interface {
    out_bytes: u64,
}

/// The reason why a record cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("line {line} is no reading: {source}")]
pub struct TelemetryError {
    /// Number of the line, counted from 1.
    pub line: usize,
    source: serde_json::Error,
}

/// Readings nearer to each other than this say nothing about rates.
const APART_MIN_S: f64 = 0.05;

impl Telemetry {
    /// The name of the record's file in a run's folder.
    pub fn file(cluster: &str, workload: &str, iteration: u32) -> String {
        format!("telemetry/{cluster}.{workload}.{iteration}.jsonl")
    }

    /// Reads lines of JSON.
    ///
    /// Errors: [`TelemetryError`], which names the line.
    pub fn parse(cluster: &str, workload: &str, iteration: u32, text: &str) -> Result<Telemetry, TelemetryError> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let readings: Result<Vec<Reading>, TelemetryError> = lines
            .map(|(index, line)| {
                serde_json::from_str(line).map_err(|source| TelemetryError { line: index + 1, source })
            })
            .collect();
        let readings = readings?;
        let drives = readings.iter().map(|reading| reading.drives.len()).max().unwrap_or(0);
        let mut rates = Vec::new();
        let mut then = readings.first();
        for now in readings.iter().skip(1) {
            let Some(before) = then else { break };
            if now.at_s - before.at_s < APART_MIN_S {
                continue;
            }
            rates.push(between(before, now));
            then = Some(now);
        }
        Ok(Telemetry { cluster: cluster.into(), workload: workload.into(), iteration, rates, drives })
    }
}

fn between(then: &Reading, now: &Reading) -> Rates {
    let seconds = now.at_s - then.at_s;
    let cpu = |part: fn(&Cpu) -> f64| {
        let (then, now) = (then.machine_cpu.as_ref()?, now.machine_cpu.as_ref()?);
        Some((part(now) - part(then)) / seconds)
    };
    let drives = |count: fn(&Drive) -> u64| {
        let sum = |reading: &Reading| reading.drives.values().map(count).sum::<u64>();
        let same = !now.drives.is_empty() && then.drives.keys().eq(now.drives.keys());
        same.then(|| sum(now).saturating_sub(sum(then)) as f64 / seconds)
    };
    // An interface that came or went meanwhile has no rate.
    let sent = now.interfaces.iter().filter_map(|(name, now)| {
        let then = then.interfaces.get(name)?;
        now.out_bytes.checked_sub(then.out_bytes)
    });
    Rates {
        at_s: (then.at_s + now.at_s) / 2.0,
        user_cores: cpu(|cpu| cpu.user_s),
        system_cores: cpu(|cpu| cpu.system_s + cpu.softirq_s),
        steal_cores: cpu(|cpu| cpu.steal_s),
        iowait_cores: cpu(|cpu| cpu.iowait_s),
        drive_read: drives(|drive| drive.read_bytes),
        drive_written: drives(|drive| drive.written_bytes),
        network_out: (!now.interfaces.is_empty()).then(|| sent.sum::<u64>() as f64 / seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(at_s: f64, user_s: f64, written: u64) -> String {
        format!(
            r#"{{"at_s": {at_s}, "daemons": {{}}, "clients": null,
                "machine_cpu": {{"user_s": {user_s}, "system_s": 1, "softirq_s": 0, "iowait_s": 0, "steal_s": 0}},
                "drives": {{"vda": {{"reads": 0, "read_bytes": 0, "written_bytes": {written}, "flushes": null}}}},
                "interfaces": {{"lo": {{"in_bytes": 0, "out_bytes": {written}}}}}, "energy_uj": null}}"#
        )
        .replace('\n', " ")
    }

    #[test]
    fn rates_are_differences() {
        let text = [line(10.0, 5.0, 0), line(10.01, 5.0, 10), line(12.0, 8.0, 4000), String::new()].join("\n");
        let read = Telemetry::parse("c", "w", 0, &text).unwrap();
        assert_eq!((read.rates.len(), read.drives), (1, 1), "readings beside each other count as one");
        let rates = &read.rates[0];
        assert_eq!((rates.at_s, rates.user_cores, rates.system_cores), (11.0, Some(1.5), Some(0.0)));
        assert_eq!((rates.drive_written, rates.network_out, rates.drive_read), (Some(2000.0), Some(2000.0), Some(0.0)));
    }

    #[test]
    fn a_wrong_line_is_named() {
        let text = format!("{}\n{{\"at_s\": 1", line(1.0, 1.0, 1));
        assert!(Telemetry::parse("c", "w", 0, &text).unwrap_err().to_string().starts_with("line 2 is no reading"));
    }
}
