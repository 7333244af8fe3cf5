//! Limits of the kernel and of processes.

use super::at_least;
use crate::finding::{Check, Deviation, Mend, Severity};
use crate::machine::Machine;

/// Open files of a process, which are its connections.
const PROCESS_FILES_MIN: u64 = 65_536;
const SYSTEM_FILES_MIN: u64 = 1_000_000;
const PROCESSES_MIN: u64 = 131_072;
const AIO_MIN: u64 = 1_048_576;
/// Share of tracked connections from which on the table counts as nearly full, in percent.
const TRACKED_PERCENT_MAX: u64 = 80;

pub const CHECKS: &[Check] = &[
    Check {
        id: "process-files",
        severity: Severity::Danger,
        title: "A process may have few open files",
        cost: "an OSD refuses clients and other OSDs once its connections reach the limit",
        find: process_files,
    },
    Check {
        id: "system-files",
        severity: Severity::Danger,
        title: "The system may have few open files",
        cost: "daemons of large clusters together reach the limit, and all refuse connections at once",
        find: |machine| at_least(machine, "/proc/sys/fs/file-max", SYSTEM_FILES_MIN),
    },
    Check {
        id: "process-ids",
        severity: Severity::Danger,
        title: "There are few process numbers",
        cost: "Ceph's OSDs have hundreds of threads each while they peer, and end where no more can be made",
        find: |machine| at_least(machine, "/proc/sys/kernel/pid_max", PROCESSES_MIN),
    },
    Check {
        id: "aio-requests",
        severity: Severity::Cost,
        title: "Few asynchronous requests are allowed",
        cost: "Ceph's OSDs of one machine share the limit; one that comes too late does not start (Nacre's use io_uring)",
        find: |machine| at_least(machine, "/proc/sys/fs/aio-max-nr", AIO_MIN),
    },
    Check {
        id: "io-uring",
        severity: Severity::Cost,
        title: "io_uring is forbidden",
        cost: "Nacre's OSDs fall back to epoll and threads: expected a third fewer small operations per processor",
        find: io_uring,
    },
    Check {
        id: "connection-tracking",
        severity: Severity::Danger,
        title: "The table of tracked connections is nearly full",
        cost: "the firewall drops packets of new connections once it is full: OSDs cannot reach each other",
        find: tracking,
    },
];

fn process_files(machine: &Machine) -> Option<Vec<Deviation>> {
    let table = machine.read("/proc/self/limits")?;
    let line = table.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let hard = line.split_whitespace().nth(1)?;
    let is_low = hard.parse().is_ok_and(|files: u64| files < PROCESS_FILES_MIN);
    let found = Deviation::new(
        format!("{hard} at most"),
        format!("{PROCESS_FILES_MIN} at least"),
        vec![Mend::ByHand("in the unit of the daemons: LimitNOFILE=1048576; in shells: ulimit -Hn 1048576".into())],
    );
    Some(if is_low { vec![found] } else { vec![] })
}

fn io_uring(machine: &Machine) -> Option<Vec<Deviation>> {
    const PATH: &str = "/proc/sys/kernel/io_uring_disabled";
    let set = machine.number(PATH);
    let words = match (set, machine.probed.io_uring) {
        (None, None) => return None,
        (Some(2), _) => "forbidden to all",
        (Some(1), _) => "forbidden to users without CAP_SYS_ADMIN",
        (_, Some(false)) => {
            "refused, though the kernel's setting allows it: by a container's filter of system calls, \
                             or the kernel is older than 6.1"
        }
        _ => return Some(vec![]),
    };
    let mend = match set {
        Some(1 | 2) => Mend::set(PATH, "0"),
        _ => {
            Mend::ByHand("allow io_uring_setup, io_uring_enter and io_uring_register in the container's filter".into())
        }
    };
    Some(vec![Deviation::new(words, "allowed", vec![mend])])
}

fn tracking(machine: &Machine) -> Option<Vec<Deviation>> {
    const MAX: &str = "/proc/sys/net/netfilter/nf_conntrack_max";
    let (count, max) = (machine.number("/proc/sys/net/netfilter/nf_conntrack_count")?, machine.number(MAX)?);
    let found = Deviation::new(
        format!("{count} connections of {max}"),
        format!("{TRACKED_PERCENT_MAX} % at most"),
        vec![Mend::set(MAX, (max.saturating_mul(4)).to_string())],
    );
    let is_full = u128::from(count) * 100 > u128::from(max) * u128::from(TRACKED_PERCENT_MAX);
    Some(if is_full { vec![found] } else { vec![] })
}
