//! Clocks: how long reading takes, and who keeps the time of day.

use crate::finding::{Check, Deviation, Mend, Severity};
use crate::machine::Machine;

/// Sources of time that are read without a system call.
const FAST: [&str; 4] = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"];
/// Longest time to read the clock, in ns.
const READ_NS_MAX: f64 = 500.0;
/// Names of programs that keep the time of day.
const KEEPERS: [&str; 8] =
    ["chronyd", "ntpd", "ntpd-rs", "systemd-timesyn", "openntpd", "ptp4l", "phc2sys", "timemaster"];

pub const CHECKS: &[Check] = &[
    Check {
        id: "clock-source",
        severity: Severity::Cost,
        title: "Reading the clock is slow",
        cost: "expected: each reading of the clock is a system call and a slow access to a device, 1 us and more \
               instead of 30 ns; an operation reads it several times",
        find: source,
    },
    Check {
        id: "time-of-day",
        severity: Severity::Danger,
        title: "Nothing keeps the time of day",
        cost: "monitors whose clocks differ warn and elect anew, and tickets are refused as too old",
        find: keeper,
    },
];

fn source(machine: &Machine) -> Option<Vec<Deviation>> {
    const PATH: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let current = machine.read(PATH)?;
    let measured = machine.probed.clock_read_ns;
    let measured_words = measured.map_or_else(String::new, |ns| format!(", {ns:.0} ns a reading (measured)"));
    let is_slow = measured.is_some_and(|ns| ns > READ_NS_MAX);
    if FAST.contains(&current.as_str()) && !is_slow {
        return Some(vec![]);
    }
    let offered = machine.read(&PATH.replace("current", "available")).unwrap_or_default();
    let better = FAST.into_iter().find(|name| *name != current && offered.split_whitespace().any(|word| word == *name));
    let mend = better.map_or_else(
        || Mend::ByHand("boot with tsc=reliable if the processors' counters can be trusted, or ask the vendor".into()),
        |name| Mend::set(PATH, name),
    );
    let read = format!("{current}{measured_words}");
    Some(vec![Deviation::new(read, better.unwrap_or("tsc"), vec![mend])])
}

fn keeper(machine: &Machine) -> Option<Vec<Deviation>> {
    let processes = machine.list("/proc").into_iter().filter(|name| name.bytes().all(|c| c.is_ascii_digit()));
    let names: Vec<String> = processes.filter_map(|id| machine.read(&format!("/proc/{id}/comm"))).collect();
    if names.is_empty() {
        return None;
    }
    let is_kept = names.iter().any(|name| KEEPERS.contains(&name.as_str()));
    let found = Deviation::new(
        "no process that synchronises the clock",
        "chrony or another one",
        vec![Mend::ByHand("apt-get install chrony".into())],
    );
    Some(if is_kept { vec![] } else { vec![found] })
}
