//! Expenses of the machine, as its kernel counts them: daemons, drives, networks and processors, read at moments of a
//! run.
//!
//! Everything here is a running count; [`figures`] subtracts two readings. What cannot be read is absent, never zero.
//!
//! * [`sources`]: where to look for a cluster: its daemons, stores and ports.
//! * [`process`], [`machine`], [`connections`]: texts of the kernel and of `ss`, read.
//! * [`hosts`]: readings of several machines as one.
//! * [`Sample`]: one reading of everything.

pub mod cache;
pub mod connections;
pub mod figures;
pub mod hosts;
pub mod machine;
pub mod process;
pub mod sources;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use connections::Traffic;
use machine::{Drive, Interface, MachineCpu};
use process::Process;
use sources::Sources;

/// One reading.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Since an arbitrary start that all samples of a run share.
    pub at: Duration,
    /// By name (`osd.0`); a daemon that has ended is missing.
    pub daemons: BTreeMap<String, Process>,
    /// This process: the clients.
    pub own: Option<Process>,
    pub cpu: Option<MachineCpu>,
    /// Drives that hold the cluster's stores, by name.
    pub drives: BTreeMap<String, Drive>,
    /// By name.
    pub interfaces: BTreeMap<String, Interface>,
    /// Of the OSDs' connections, which others read, as it takes a program.
    pub traffic: Option<Traffic>,
    /// When that was; it takes a while on a busy machine.
    #[serde(default)]
    pub traffic_at: Option<Duration>,
    /// Energy that the processors have used.
    pub energy_uj: Option<u64>,
    /// Counters of the OSDs' caches, wherever they are; [`cache::Caches`] asks for them.
    pub cache: Option<cache::Counts>,
}

impl Sample {
    /// Reads what the kernel tells at once.
    pub fn take(at: Duration, sources: &Sources) -> Sample {
        let daemon = |(name, pid): (&String, &u32)| Some((name.clone(), Process::read(*pid)?));
        Sample {
            at,
            daemons: sources.daemons.iter().filter_map(daemon).collect(),
            own: Process::read(std::process::id()),
            cpu: MachineCpu::read(),
            drives: machine::drives(&sources.drives),
            interfaces: machine::interfaces(),
            traffic: None,
            traffic_at: None,
            energy_uj: machine::energy_uj(),
            cache: None,
        }
    }

    /// A line of the run's record over time.
    pub fn to_json(&self) -> Value {
        let process = |p: &Process| {
            json!({"user_s": p.user_s, "system_s": p.system_s, "memory_bytes": p.memory_bytes,
                   "context_switches": p.context_switches, "device_read_bytes": p.device_read_bytes,
                   "device_written_bytes": p.device_written_bytes})
        };
        let daemons: BTreeMap<&String, Value> = self.daemons.iter().map(|(name, p)| (name, process(p))).collect();
        let cpu = self.cpu.map(|c| {
            json!({"user_s": c.user_s, "system_s": c.system_s, "softirq_s": c.softirq_s, "iowait_s": c.iowait_s,
                   "steal_s": c.steal_s})
        });
        let drives: BTreeMap<&String, Value> = self
            .drives
            .iter()
            .map(|(name, d)| {
                (
                    name,
                    json!({"reads": d.reads, "read_bytes": d.read_bytes, "read_s": d.read_s, "writes": d.writes,
                              "written_bytes": d.written_bytes, "write_s": d.write_s, "in_flight_s": d.in_flight_s,
                              "flushes": d.flushes}),
                )
            })
            .collect();
        let interfaces: BTreeMap<&String, Value> = self
            .interfaces
            .iter()
            .map(|(name, i)| (name, json!({"in_bytes": i.in_bytes, "out_bytes": i.out_bytes})))
            .collect();
        json!({"at_s": self.at.as_secs_f64(), "daemons": daemons, "clients": self.own.as_ref().map(process),
               "machine_cpu": cpu, "drives": drives, "interfaces": interfaces, "energy_uj": self.energy_uj})
    }
}
