//! Processors: clock rates, sleep, interrupts, translation of addresses for devices.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::{Check, Deviation, Mend, Severity};
use crate::machine::Machine;

/// Sleep from which a processor wakes up later than this is too deep.
const WAKE_UP_US_MAX: u64 = 20;
/// Share of time that other guests may take, in percent.
const STEAL_PERCENT_MAX: f64 = 5.0;

pub const CHECKS: &[Check] = &[
    Check {
        id: "cpu-governor",
        severity: Severity::Cost,
        title: "Processors run below their clock rate",
        cost: "expected: small operations at low depth take up to half as long again, as clock rates rise late",
        find: governor,
    },
    Check {
        id: "cpu-c-states",
        severity: Severity::Cost,
        title: "Processors sleep deeply",
        cost: "expected: each operation that finds a processor asleep waits for it to wake up, tens to hundreds of us",
        find: sleep_states,
    },
    Check {
        id: "cpu-steal",
        severity: Severity::Cost,
        title: "Other guests take the processors",
        cost: "measured since boot: that share of time is lost, and latencies have long tails",
        find: steal,
    },
    Check {
        id: "numa-balancing",
        severity: Severity::Cost,
        title: "The kernel moves memory between nodes by itself",
        cost: "expected: page faults and moved pages in daemons that use all memory, a few percent of processor time",
        find: numa_balancing,
    },
    Check {
        id: "irq-affinity",
        severity: Severity::Cost,
        title: "One processor takes all interrupts of a device",
        cost: "expected: the device's rate ends where that processor is busy, and its tasks wait",
        find: irq_affinity,
    },
    Check {
        id: "iommu-strict",
        severity: Severity::Cost,
        title: "Addresses of devices are translated strictly",
        cost: "expected: each request maps and unmaps memory and empties a cache for that; a tenth of IOPS and more on \
               fast NVMe drives and links",
        find: iommu,
    },
];

fn governor(machine: &Machine) -> Option<Vec<Deviation>> {
    let file = |folder: &String| format!("{folder}/cpufreq/scaling_governor");
    let paths: Vec<String> = machine.processors().iter().map(file).collect();
    let all: Vec<(&String, String)> = paths.iter().filter_map(|path| Some((path, machine.read(path)?))).collect();
    let slow: Vec<&(&String, String)> = all.iter().filter(|(_, governor)| governor != "performance").collect();
    let names: BTreeSet<&str> = slow.iter().map(|(_, governor)| governor.as_str()).collect();
    if all.is_empty() {
        return None;
    }
    let read = format!(
        "governor {} on {} of {} processors",
        names.into_iter().collect::<Vec<_>>().join(", "),
        slow.len(),
        all.len()
    );
    let mends = slow.iter().map(|(path, _)| Mend::set(path.as_str(), "performance")).collect();
    Some(if slow.is_empty() { vec![] } else { vec![Deviation::new(read, "performance", mends)] })
}

fn sleep_states(machine: &Machine) -> Option<Vec<Deviation>> {
    let mut deep: BTreeMap<String, u64> = BTreeMap::new();
    let mut mends = Vec::new();
    let mut is_known = false;
    for processor in machine.processors() {
        for state in machine.list(&format!("{processor}/cpuidle")) {
            let folder = format!("{processor}/cpuidle/{state}");
            let Some(latency) = machine.number(&format!("{folder}/latency")) else { continue };
            is_known = true;
            let is_off = machine.number(&format!("{folder}/disable")) == Some(1);
            if latency > WAKE_UP_US_MAX && !is_off {
                deep.insert(machine.read(&format!("{folder}/name")).unwrap_or(state), latency);
                mends.push(Mend::set(format!("{folder}/disable"), "1"));
            }
        }
    }
    let read: Vec<String> = deep.iter().map(|(name, us)| format!("{name} ({us} us)")).collect();
    let read = format!("states to wake up from: {}", read.join(", "));
    let wanted = format!("none above {WAKE_UP_US_MAX} us");
    is_known.then(|| if mends.is_empty() { vec![] } else { vec![Deviation::new(read, wanted, mends)] })
}

fn steal(machine: &Machine) -> Option<Vec<Deviation>> {
    let table = machine.read("/proc/stat")?;
    let line = table.lines().find_map(|line| line.strip_prefix("cpu "))?;
    // User, nice, system, idle, iowait, irq, softirq, steal; guests' time is in user's.
    let ticks: Vec<f64> = line.split_whitespace().take(8).filter_map(|word| word.parse().ok()).collect();
    let (steal, all) = (*ticks.get(7)?, ticks.iter().sum::<f64>());
    let percent = if all > 0.0 { steal / all * 100.0 } else { 0.0 };
    let found = Deviation::new(
        format!("{percent:.1} % of time since boot"),
        format!("{STEAL_PERCENT_MAX} % at most"),
        vec![Mend::ByHand("have the hypervisor reserve processors for this guest".into())],
    );
    Some(if percent > STEAL_PERCENT_MAX { vec![found] } else { vec![] })
}

fn numa_balancing(machine: &Machine) -> Option<Vec<Deviation>> {
    const PATH: &str = "/proc/sys/kernel/numa_balancing";
    let on = machine.number(PATH)?;
    let folder = machine.list("/sys/devices/system/node");
    let nodes = folder.iter().filter(|name| name.strip_prefix("node").is_some_and(|n| n.parse::<u32>().is_ok()));
    let nodes = nodes.count();
    let found = Deviation::new(format!("on, with {nodes} nodes"), "off", vec![Mend::set(PATH, "0")]);
    Some(if on != 0 && nodes > 1 { vec![found] } else { vec![] })
}

/// Interrupts of one device, by number, with the processors that each may go to.
type Interrupts = BTreeMap<u32, String>;

fn irq_affinity(machine: &Machine) -> Option<Vec<Deviation>> {
    let table = machine.read("/proc/interrupts")?;
    let processors = machine.processors().len();
    let mut devices: BTreeMap<String, Interrupts> = BTreeMap::new();
    for line in table.lines() {
        let mut words = line.split_whitespace();
        let Some(number) = words.next().and_then(|word| word.trim_end_matches(':').parse().ok()) else { continue };
        let Some(device) = words.last().and_then(device_of_queue) else { continue };
        let file = |name: &str| machine.read(&format!("/proc/irq/{number}/{name}"));
        let effective = file("effective_affinity_list").filter(|text| !text.is_empty());
        if let Some(goes_to) = effective.or_else(|| file("smp_affinity_list")) {
            devices.entry(device).or_default().insert(number, goes_to);
        }
    }
    if devices.is_empty() || processors == 0 {
        return None;
    }
    let is_one = |queues: &Interrupts| {
        let first = queues.values().next().filter(|goes_to| goes_to.parse::<u32>().is_ok());
        queues.len() > 1 && first.is_some_and(|first| queues.values().all(|other| other == first))
    };
    let crowded = devices.iter().filter(|(_, queues)| processors > 1 && is_one(queues));
    let found = crowded.map(|(device, queues)| {
        let place = |(at, number): (usize, &u32)| {
            Mend::set(format!("/proc/irq/{number}/smp_affinity_list"), (at % processors).to_string())
        };
        let first = queues.values().next().map_or("", String::as_str);
        let read = format!("all {} interrupts go to processor {first}", queues.len());
        let mends = queues.keys().enumerate().map(place).collect();
        Deviation::new(read, "spread over processors", mends).at(device.as_str())
    });
    Some(found.collect())
}

/// The device whose queue an interrupt's name tells: `nvme0q3`, `eth0-TxRx-3`, `virtio0-input.3`, `virtio1-req.3`.
fn device_of_queue(name: &str) -> Option<String> {
    let start = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = &name[start.len()..];
    if number.is_empty() {
        return None;
    }
    // An NVMe drive's queue 0 is for administration.
    if let Some(drive) = start.strip_suffix('q') {
        return (drive.starts_with("nvme") && number != "0").then(|| drive.to_owned());
    }
    let (device, queue) = start.split_once('-')?;
    // Both directions of a pair lie on one processor by intent: of `rx-` and `tx-` one counts.
    ["TxRx-", "rx-", "input.", "req."].contains(&queue).then(|| device.to_owned())
}

fn iommu(machine: &Machine) -> Option<Vec<Deviation>> {
    if machine.list("/sys/class/iommu").is_empty() {
        return None;
    }
    let groups = machine.list("/sys/kernel/iommu_groups");
    let types: Vec<String> =
        groups.iter().filter_map(|group| machine.read(&format!("/sys/kernel/iommu_groups/{group}/type"))).collect();
    let strict = types.iter().filter(|kind| *kind == "DMA").count();
    let found = Deviation::new(
        format!("{strict} of {} groups of devices are strict", types.len()),
        "identity, or lazy (DMA-FQ)",
        vec![Mend::ByHand(
            "boot the kernel with iommu=pt, or with iommu.strict=0 to keep protection but for ms".into(),
        )],
    );
    (!types.is_empty()).then(|| if strict > 0 { vec![found] } else { vec![] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_queues() {
        for (name, device) in [
            ("nvme0q3", Some("nvme0")),
            ("nvme0q0", None),
            ("eth0-TxRx-11", Some("eth0")),
            ("eth0-tx-1", None),
            ("virtio3-input.0", Some("virtio3")),
            ("virtio0-config", None),
            ("ttyS0", None),
            ("", None),
        ] {
            assert_eq!(device_of_queue(name).as_deref(), device, "{name}");
        }
    }
}
