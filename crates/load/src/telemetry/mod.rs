//! Counters of the machine's kernel: daemons, drives, networks and processors, read at moments of a run.
//!
//! Every value here is a running count; [`figures`] subtracts two readings. A count that cannot be read is absent,
//! never zero.
//!
//! * [`sources`]: a cluster's daemons, stores and ports on this machine.
//! * [`process`], [`machine`], [`connections`]: parsers of the kernel's files and of the output of `ss`.
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
    /// Time since an arbitrary start that all samples of a run share.
    pub at: Duration,
    /// Daemons by name (`osd.0`); a daemon that has ended is missing.
    pub daemons: BTreeMap<String, Process>,
    /// This process, in which the clients run.
    pub own: Option<Process>,
    pub cpu: Option<MachineCpu>,
    /// Drives that hold the cluster's stores, by name.
    pub drives: BTreeMap<String, Drive>,
    /// Network interfaces by name.
    pub interfaces: BTreeMap<String, Interface>,
    /// Bytes of the OSDs' connections. [`Sample::take`] leaves them out, as reading them takes a program.
    pub traffic: Option<Traffic>,
    /// Time of the reading of `traffic`, which takes a while on a busy machine.
    #[serde(default)]
    pub traffic_at: Option<Duration>,
    /// Energy that the processors have used.
    pub energy_uj: Option<u64>,
    /// Counts of the OSDs' caches, wherever they run; read by [`cache::Caches`].
    pub cache: Option<cache::Counts>,
}

impl Sample {
    /// Takes the readings that the kernel answers at once.
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
