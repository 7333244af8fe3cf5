//! Memory: huge pages, swap, reserves, errors.

use super::at_least;
use crate::finding::{Check, Deviation, Mend, Severity};
use crate::machine::Machine;

/// Memory that the kernel should keep free: a part of all, at most so much.
const RESERVE_SHARE: u64 = 250;
const RESERVE_KIB_MAX: u64 = 1_000_000;
const SWAPPINESS_MAX: u64 = 10;

pub const CHECKS: &[Check] = &[
    Check {
        id: "huge-pages",
        severity: Severity::Cost,
        title: "Memory comes in huge pages unasked",
        cost: "expected: daemons take up to twice the memory, and stall for ms while the kernel gathers pages",
        find: huge_pages,
    },
    Check {
        id: "swappiness",
        severity: Severity::Cost,
        title: "The kernel likes to swap",
        cost: "expected: a daemon whose memory was swapped out answers after tens of ms, heartbeats included",
        find: swappiness,
    },
    Check {
        id: "zone-reclaim",
        severity: Severity::Cost,
        title: "The kernel empties a node's cache before it uses another node's memory",
        cost: "expected: stalls of allocations while other nodes have free memory",
        find: zone_reclaim,
    },
    Check {
        id: "min-free",
        severity: Severity::Cost,
        title: "The kernel keeps little memory free",
        cost: "expected: network cards find no memory for packets under load, which are dropped and sent again",
        find: min_free,
    },
    Check {
        id: "memory-errors",
        severity: Severity::Danger,
        title: "Memory has had errors",
        cost: "bytes change in memory before they are checksummed; a module that errs often soon errs for good",
        find: errors,
    },
];

fn huge_pages(machine: &Machine) -> Option<Vec<Deviation>> {
    const PATH: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    let set = machine.setting(PATH)?;
    let found = Deviation::new(set.as_str(), "madvise or never", vec![Mend::set(PATH, "madvise")]);
    Some(if set == "always" { vec![found] } else { vec![] })
}

fn swappiness(machine: &Machine) -> Option<Vec<Deviation>> {
    const PATH: &str = "/proc/sys/vm/swappiness";
    let set = machine.number(PATH)?;
    let swaps = machine.read("/proc/swaps").map_or(0, |table| table.lines().skip(1).count());
    let found = Deviation::new(
        format!("{set}, with {swaps} areas of swap"),
        format!("{SWAPPINESS_MAX} at most"),
        vec![Mend::set(PATH, "1")],
    );
    Some(if set > SWAPPINESS_MAX && swaps > 0 { vec![found] } else { vec![] })
}

fn zone_reclaim(machine: &Machine) -> Option<Vec<Deviation>> {
    const PATH: &str = "/proc/sys/vm/zone_reclaim_mode";
    let set = machine.number(PATH)?;
    let found = Deviation::new(format!("mode {set}"), "0", vec![Mend::set(PATH, "0")]);
    Some(if set != 0 { vec![found] } else { vec![] })
}

fn min_free(machine: &Machine) -> Option<Vec<Deviation>> {
    let wanted = (machine.memory_kib()? / RESERVE_SHARE).min(RESERVE_KIB_MAX);
    at_least(machine, "/proc/sys/vm/min_free_kbytes", wanted)
}

fn errors(machine: &Machine) -> Option<Vec<Deviation>> {
    const FOLDER: &str = "/sys/devices/system/edac/mc";
    let controllers: Vec<String> = machine.list(FOLDER).into_iter().filter(|name| name.starts_with("mc")).collect();
    let count = |name: &String, what: &str| machine.number(&format!("{FOLDER}/{name}/{what}")).unwrap_or(0);
    let found = controllers.iter().filter_map(|name| {
        let (lost, mended) = (count(name, "ue_count"), count(name, "ce_count"));
        let words = format!("{lost} errors that were not corrected, {mended} that were");
        let by_hand = Mend::ByHand("find the module (ras-mc-ctl --error-count) and replace it".into());
        (lost + mended > 0).then(|| Deviation::new(words, "none", vec![by_hand]).at(name.as_str()))
    });
    (!controllers.is_empty()).then(|| found.collect())
}
