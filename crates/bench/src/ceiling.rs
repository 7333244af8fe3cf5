//! Bottleneck of a measurement, and its distance to the machine's capabilities.
//!
//! Ceilings are measured without any cluster: raw drive, raw network. A row's share of each is compared with the busy
//! share of the processors. The largest share is the bottleneck, unless all resources have room: then operations waited
//! for each other, and more in flight would raise the throughput.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Capabilities of the machine without a cluster. A figure that was not measured is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ceilings {
    /// Large sequential requests to the drives that hold the stores.
    pub drive_read_bytes_per_s: Option<f64>,
    pub drive_write_bytes_per_s: Option<f64>,
    /// Random requests of 4 KiB, many in flight.
    pub drive_reads_per_s: Option<f64>,
    pub drive_writes_per_s: Option<f64>,
    /// Bytes that connections between processes of this machine carry.
    pub loopback_bytes_per_s: Option<f64>,
}

/// A possible bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Cpu,
    Drive,
    Network,
    /// The load generator's own threads.
    Client,
    /// No resource: operations waited for each other.
    Latency,
}

/// A resource with less than this share in use has room.
const BUSY: f64 = 0.8;

/// The bottleneck of a row, with the evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Bottleneck {
    pub limit: Limit,
    /// Shares in use, 0 to 1; unknown shares are missing.
    pub shares: Vec<(Limit, f64)>,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Limit::Cpu => "CPU",
            Limit::Drive => "drive",
            Limit::Network => "network",
            Limit::Client => "client",
            Limit::Latency => "latency",
        })
    }
}

impl fmt::Display for Bottleneck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shares: Vec<String> =
            self.shares.iter().map(|(limit, share)| format!("{limit} {:.0} %", share * 100.0)).collect();
        write!(f, "{} ({})", self.limit, shares.join(", "))
    }
}

impl Ceilings {
    /// The bottleneck of a row with these figures, on a machine with `processors`, driven by `client_threads`. `None`
    /// if no share is known.
    pub fn bottleneck(
        &self,
        figures: &BTreeMap<String, Option<f64>>,
        processors: u32,
        client_threads: u32,
    ) -> Option<Bottleneck> {
        let figure = |name: &str| figures.get(name).copied().flatten();
        let share = |value: Option<f64>, ceiling: Option<f64>| Some(value? / ceiling.filter(|ceiling| *ceiling > 0.0)?);
        // Reads and writes share a drive, so their shares add up.
        let both = |read: Option<f64>, write: Option<f64>| match (read, write) {
            (None, None) => None,
            (read, write) => Some(read.unwrap_or(0.0) + write.unwrap_or(0.0)),
        };
        let bytes = both(
            share(figure("drive_read_bytes_per_s"), self.drive_read_bytes_per_s),
            share(figure("drive_written_bytes_per_s"), self.drive_write_bytes_per_s),
        );
        let requests = both(
            share(figure("drive_reads_per_s"), self.drive_reads_per_s),
            share(figure("drive_writes_per_s"), self.drive_writes_per_s),
        );
        let drive = [bytes, requests].into_iter().flatten().reduce(f64::max);
        let busy = ["machine_user_cores", "machine_system_cores", "machine_softirq_cores", "machine_steal_cores"];
        let busy: Option<f64> = busy.into_iter().map(figure).sum();
        let network = share(figure("interface.lo.out_bytes_per_s"), self.loopback_bytes_per_s);
        let shares: Vec<(Limit, f64)> = [
            (Limit::Cpu, share(busy, Some(f64::from(processors)))),
            (Limit::Drive, drive),
            (Limit::Network, network),
            (Limit::Client, share(figure("client_cores"), Some(f64::from(client_threads)))),
        ]
        .into_iter()
        .filter_map(|(limit, share)| Some((limit, share?)))
        .collect();
        let largest = shares.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let limit = if largest.1 >= BUSY { largest.0 } else { Limit::Latency };
        Some(Bottleneck { limit, shares })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(figures: &[(&str, f64)], limit: Option<Limit>, words: &str) {
        let ceilings = Ceilings {
            drive_read_bytes_per_s: Some(1000.0),
            drive_write_bytes_per_s: Some(500.0),
            drive_reads_per_s: Some(100.0),
            drive_writes_per_s: Some(50.0),
            loopback_bytes_per_s: Some(5000.0),
        };
        let figures = figures.iter().map(|(name, value)| ((*name).to_owned(), Some(*value))).collect();
        let got = ceilings.bottleneck(&figures, 4, 2);
        assert_eq!(got.as_ref().map(|b| b.limit), limit, "{got:?}");
        let said = got.map(|b| b.to_string()).unwrap_or_default();
        assert!(said.contains(words), "{said}");
    }

    #[test]
    fn the_busiest_is_named_unless_all_have_room() {
        let cpu = |cores: f64| {
            [
                ("machine_user_cores", cores),
                ("machine_system_cores", 0.5),
                ("machine_softirq_cores", 0.0),
                ("machine_steal_cores", 0.1),
            ]
        };
        check(&cpu(3.0), Some(Limit::Cpu), "CPU (CPU 90 %)");
        check(&cpu(1.0), Some(Limit::Latency), "latency (CPU 40 %)");
        check(
            &[&cpu(3.0)[..], &[("client_cores", 1.96)]].concat(),
            Some(Limit::Client),
            "client (CPU 90 %, client 98 %)",
        );
        check(
            &[("drive_read_bytes_per_s", 500.0), ("drive_written_bytes_per_s", 200.0)],
            Some(Limit::Drive),
            "drive 90 %",
        );
        check(&[("drive_writes_per_s", 45.0), ("drive_written_bytes_per_s", 1.0)], Some(Limit::Drive), "drive 90 %");
        check(&[("interface.lo.out_bytes_per_s", 4500.0)], Some(Limit::Network), "network 90 %");
        check(&[], None, "");
        check(&[("machine_user_cores", 4.0)], None, "");
    }

    #[test]
    fn without_ceilings_there_are_still_processors() {
        let figures =
            BTreeMap::from([("client_cores".to_owned(), Some(0.95)), ("drive_writes_per_s".to_owned(), Some(9.0))]);
        let got = Ceilings::default().bottleneck(&figures, 4, 1).unwrap();
        assert_eq!((got.limit, got.shares.len()), (Limit::Client, 1));
    }
}
