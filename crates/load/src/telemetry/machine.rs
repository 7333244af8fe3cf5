//! Counters of the whole machine: processors, drives, networks, energy.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::process::TICK_S;

/// Time of all processors together, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineCpu {
    /// Nice time included.
    pub user_s: f64,
    /// Interrupts included.
    pub system_s: f64,
    pub softirq_s: f64,
    /// Idle time with a drive at work.
    pub iowait_s: f64,
    /// Time taken by the host of this virtual machine.
    pub steal_s: f64,
}

/// Running counts of a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Drive {
    pub reads: u64,
    pub read_bytes: u64,
    /// Sum of the reads' times.
    pub read_s: f64,
    pub writes: u64,
    pub written_bytes: u64,
    pub write_s: f64,
    /// Integral over time of the number of requests in flight.
    pub in_flight_s: f64,
    /// Absent on kernels before 5.5.
    pub flushes: Option<u64>,
}

/// Running counts of a network interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    pub in_bytes: u64,
    pub out_bytes: u64,
}

/// Unit of sectors in the kernel's counts, whatever the drive's own is.
const SECTOR_BYTES: u64 = 512;

impl MachineCpu {
    pub fn read() -> Option<MachineCpu> {
        MachineCpu::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    fn parse(stat: &str) -> Option<MachineCpu> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let [user, nice, system, _idle, iowait, irq, softirq, steal, ..] = ticks[..] else { return None };
        let seconds = |ticks: u64| ticks as f64 * TICK_S;
        Some(MachineCpu {
            user_s: seconds(user + nice),
            system_s: seconds(system + irq),
            softirq_s: seconds(softirq),
            iowait_s: seconds(iowait),
            steal_s: seconds(steal),
        })
    }

    /// Adds the time of another machine's processors.
    pub fn add(&mut self, other: MachineCpu) {
        self.user_s += other.user_s;
        self.system_s += other.system_s;
        self.softirq_s += other.softirq_s;
        self.iowait_s += other.iowait_s;
        self.steal_s += other.steal_s;
    }

    /// Time spent on work. It includes stolen time, in which the machine wanted to work.
    pub fn busy_s(&self) -> f64 {
        self.user_s + self.system_s + self.softirq_s + self.steal_s
    }
}

/// Counts of the drives with these `major:minor` numbers.
pub fn drives(numbers: &BTreeSet<(u32, u32)>) -> BTreeMap<String, Drive> {
    parse_drives(&std::fs::read_to_string("/proc/diskstats").unwrap_or_default(), numbers)
}

fn parse_drives(diskstats: &str, numbers: &BTreeSet<(u32, u32)>) -> BTreeMap<String, Drive> {
    let mut drives = BTreeMap::new();
    for line in diskstats.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |index: usize| words.get(index).and_then(|word| word.parse::<u64>().ok());
        let at = |index: usize| number(index).and_then(|n| u32::try_from(n).ok());
        let (Some(major), Some(minor)) = (at(0), at(1)) else { continue };
        let Some(name) = words.get(2).filter(|_| numbers.contains(&(major, minor))) else { continue };
        let count = |index: usize| number(index).unwrap_or(0);
        let seconds = |index: usize| count(index) as f64 / 1000.0;
        let drive = Drive {
            reads: count(3),
            read_bytes: count(5) * SECTOR_BYTES,
            read_s: seconds(6),
            writes: count(7),
            written_bytes: count(9) * SECTOR_BYTES,
            write_s: seconds(10),
            in_flight_s: seconds(13),
            flushes: number(18),
        };
        drives.insert((*name).to_owned(), drive);
    }
    drives
}

/// Counts of all network interfaces.
pub fn interfaces() -> BTreeMap<String, Interface> {
    parse_interfaces(&std::fs::read_to_string("/proc/net/dev").unwrap_or_default())
}

fn parse_interfaces(dev: &str) -> BTreeMap<String, Interface> {
    let mut interfaces = BTreeMap::new();
    for line in dev.lines() {
        let Some((name, counts)) = line.split_once(':') else { continue };
        let counts: Vec<u64> = counts.split_whitespace().map_while(|word| word.parse().ok()).collect();
        if let [in_bytes, _, _, _, _, _, _, _, out_bytes, ..] = counts[..] {
            interfaces.insert(name.trim().to_owned(), Interface { in_bytes, out_bytes });
        }
    }
    interfaces
}

/// Energy that all processor packages have used, where the machine counts it (RAPL) and lets this process read it.
pub fn energy_uj() -> Option<u64> {
    let mut sum = None;
    for zone in std::fs::read_dir("/sys/class/powercap").ok()?.flatten() {
        // Only packages are added; their parts (`intel-rapl:0:1`) are included in them.
        let name = zone.file_name();
        if name.to_str().is_some_and(|name| name.starts_with("intel-rapl:") && name.matches(':').count() == 1) {
            let text = std::fs::read_to_string(zone.path().join("energy_uj")).ok()?;
            *sum.get_or_insert(0u64) += text.trim().parse::<u64>().ok()?;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors() {
        let cpu = MachineCpu::parse("cpu  100 20 30 900 40 5 6 7 0 0\ncpu0 1 1 1 1\n").unwrap();
        let want = MachineCpu { user_s: 1.2, system_s: 0.35, softirq_s: 0.06, iowait_s: 0.4, steal_s: 0.07 };
        assert!((cpu.busy_s() - 1.68).abs() < 1e-9 && (cpu.iowait_s - want.iowait_s).abs() < 1e-9, "{cpu:?}");
        assert_eq!(MachineCpu::parse("cpu 1 2 3"), None);
        assert_eq!(MachineCpu::parse(""), None);
        assert!(MachineCpu::read().unwrap().busy_s() > 0.0);
    }

    #[test]
    fn drives_by_number() {
        let text =
            " 254 0 vda 10 2 1000 500 20 3 4000 800 1 900 1300 5 6 7 8 11 12\n 7 0 loop0 1 1 1 1 1 1 1 1 1 1 1\nodd\n";
        let found = parse_drives(text, &BTreeSet::from([(254, 0)]));
        let want = Drive {
            reads: 10,
            read_bytes: 512_000,
            read_s: 0.5,
            writes: 20,
            written_bytes: 2_048_000,
            write_s: 0.8,
            in_flight_s: 1.3,
            flushes: Some(11),
        };
        assert_eq!(found, BTreeMap::from([("vda".to_owned(), want)]));
        let old = parse_drives(text, &BTreeSet::from([(7, 0)]));
        assert_eq!(old["loop0"].flushes, None, "not counted, so not zero");
    }

    #[test]
    fn networks() {
        let text = "Inter-|   Receive |  Transmit\n face |bytes packets\n\
            \x20   lo: 100 1 0 0 0 0 0 0 200 1 0 0 0 0 0 0\n  x: 1\n";
        let lo = Interface { in_bytes: 100, out_bytes: 200 };
        assert_eq!(parse_interfaces(text), BTreeMap::from([("lo".to_owned(), lo)]));
        assert!(interfaces().contains_key("lo"));
    }
}
