//! Readings of several machines as one: the cost of a cluster and its clients, wherever they run.

use std::collections::BTreeSet;

use super::Sample;
use super::process::Process;

/// A reading of one machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// Id of the machine, whatever its name: several readers on one machine count the same.
    pub machine: String,
    /// Name for people, where drives and networks of several machines have names in common.
    pub host: String,
    pub sample: Sample,
}

/// The sum of all readings, taken at the same time as far as clocks allow. Counts that two readers of one machine both
/// read are added once. A count that one machine cannot tell is unknown for the sum.
pub fn together(readings: &[Reading]) -> Option<Sample> {
    let mut sum = readings.first()?.sample.clone();
    (sum.own, sum.cpu, sum.energy_uj) = (None, None, None);
    // Readers of connections read them at nearly the same time.
    sum.traffic_at = readings.iter().find_map(|reading| reading.sample.traffic_at);
    sum.traffic = None;
    (sum.drives, sum.interfaces) = Default::default();
    let several = readings.iter().map(|reading| &reading.machine).collect::<BTreeSet<_>>().len() > 1;
    let mut machines = BTreeSet::new();
    let mut own = readings.iter().filter_map(|reading| reading.sample.own);
    if let Some(first) = own.next() {
        sum.own = Some(own.fold(first, Process::plus));
    }
    let mut first = true;
    for Reading { machine, host, sample } in readings {
        sum.daemons.extend(sample.daemons.iter().map(|(name, process)| (name.clone(), *process)));
        if let Some(traffic) = &sample.traffic {
            // The key of a connection begins with one OSD's end, so it is the same on every machine.
            let all = sum.traffic.get_or_insert_default();
            all.client.extend(traffic.client.iter().map(|(ends, bytes)| (ends.clone(), *bytes)));
            all.storage.extend(traffic.storage.iter().map(|(ends, bytes)| (ends.clone(), *bytes)));
        }
        let name = |name: &String| if several { format!("{host}.{name}") } else { name.clone() };
        sum.drives.extend(sample.drives.iter().map(|(drive, counts)| (name(drive), *counts)));
        sum.interfaces.extend(sample.interfaces.iter().map(|(interface, counts)| (name(interface), *counts)));
        if !machines.insert(machine.clone()) {
            continue;
        }
        if first {
            (sum.cpu, sum.energy_uj) = (sample.cpu, sample.energy_uj);
            first = false;
            continue;
        }
        sum.cpu = sum.cpu.zip(sample.cpu).map(|(mut all, one)| {
            all.add(one);
            all
        });
        sum.energy_uj = sum.energy_uj.zip(sample.energy_uj).map(|(all, one)| all + one);
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::machine::{Drive, MachineCpu};

    fn reading(machine: &str, daemon: &str, cpu_s: f64) -> Reading {
        let process = Process { user_s: cpu_s, memory_bytes: Some(10), ..Process::default() };
        let sample = Sample {
            daemons: [(daemon.to_owned(), process)].into(),
            own: Some(process),
            cpu: Some(MachineCpu { user_s: cpu_s * 10.0, ..MachineCpu::default() }),
            drives: [("vda".to_owned(), Drive { writes: 5, ..Drive::default() })].into(),
            energy_uj: Some(7),
            ..Sample::default()
        };
        Reading { machine: machine.into(), host: format!("host-{machine}"), sample }
    }

    #[test]
    fn two_readers_of_one_machine_count_it_once_and_their_clients_twice() {
        let sum = together(&[reading("a", "osd.0", 2.0), reading("a", "osd.0", 2.0)]).unwrap();
        assert_eq!((sum.daemons.len(), sum.drives.len(), sum.energy_uj), (1, 1, Some(7)));
        assert_eq!((sum.cpu.unwrap().user_s, sum.own.unwrap().user_s), (20.0, 4.0));
        assert_eq!((sum.own.unwrap().memory_bytes, sum.own.unwrap().context_switches), (Some(20), None));
        assert!(sum.drives.contains_key("vda"));
    }

    #[test]
    fn machines_add_up_and_keep_their_drives_apart() {
        let mut other = reading("b", "osd.1", 3.0);
        other.sample.energy_uj = None;
        let sum = together(&[reading("a", "osd.0", 2.0), other]).unwrap();
        assert_eq!((sum.daemons.len(), sum.cpu.unwrap().user_s), (2, 50.0));
        assert_eq!(sum.drives.keys().collect::<Vec<_>>(), ["host-a.vda", "host-b.vda"]);
        assert_eq!(sum.energy_uj, None, "unknown of one is unknown of all");
        assert_eq!(together(&[]), None);
    }
}
