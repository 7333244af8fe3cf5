//! Networks: buffers, queues, offloads, packets, links.

use super::{at_least, of_parts};
use crate::finding::{Check, Deviation, Mend, Severity};
use crate::machine::Machine;

/// Interfaces of this speed on count as storage networks, in Mb/s.
const FAST_MBIT: u64 = 10_000;
/// Buffers that a connection of 100 Gb/s fills within a round trip of 1 ms.
const BUFFER_BYTES_MIN: u64 = 16 << 20;
/// Largest buffers of reference architectures.
const BUFFER_BYTES: u64 = 268_435_456;
const TCP_BUFFERS: [(&str, &str); 2] =
    [("/proc/sys/net/ipv4/tcp_rmem", "4096 87380 134217728"), ("/proc/sys/net/ipv4/tcp_wmem", "4096 65536 134217728")];
/// TCP grows buffers to this by itself where nobody asks for a size.
const TCP_BUFFER_BYTES_MIN: u64 = 4 << 20;
const QUEUE_MIN: u64 = 1_000;
const MTU_MIN: u64 = 9_000;
const BACKLOG_MIN: u64 = 1_024;

pub const CHECKS: &[Check] = &[
    Check {
        id: "socket-buffers",
        severity: Severity::Cost,
        title: "Buffers of sockets are small",
        cost: "expected: one connection carries less than a link of 25 Gb/s and more could",
        find: socket_buffers,
    },
    Check {
        id: "tcp-buffers",
        severity: Severity::Cost,
        title: "TCP may not grow its buffers",
        cost: "expected: one connection carries less than a link of 25 Gb/s and more could",
        find: tcp_buffers,
    },
    Check {
        id: "listen-backlog",
        severity: Severity::Note,
        title: "Few connections may wait to be accepted",
        cost: "expected: connections of many clients that come at once are tried again after a second",
        find: |machine| at_least(machine, "/proc/sys/net/core/somaxconn", BACKLOG_MIN),
    },
    Check {
        id: "transmit-queue",
        severity: Severity::Cost,
        title: "An interface's transmit queue is short",
        cost: "expected: bursts of recovery drop packets on this machine, which are sent again",
        find: transmit_queue,
    },
    Check {
        id: "large-receive",
        severity: Severity::Note,
        title: "Received packets are joined in hardware",
        cost: "expected: later answers at low depth, and broken forwarding where the machine routes or bridges",
        find: large_receive,
    },
    Check {
        id: "mtu",
        severity: Severity::Note,
        title: "Packets are small on a fast link",
        cost: "expected: up to a tenth more processor time for large objects",
        find: mtu,
    },
    Check {
        id: "network-errors",
        severity: Severity::Danger,
        title: "Packets arrive damaged",
        cost: "a cable, transceiver or port is bad: packets are lost, heartbeats with them",
        find: damaged,
    },
    Check {
        id: "link-half",
        severity: Severity::Cost,
        title: "A link sends or receives, not both",
        cost: "the link carries less than half, and packets collide",
        find: duplex,
    },
];

fn socket_buffers(machine: &Machine) -> Option<Vec<Deviation>> {
    of_parts(["/proc/sys/net/core/rmem_max", "/proc/sys/net/core/wmem_max"].into_iter().map(|path| {
        let read = machine.number(path)?;
        let words = (format!("{read} ({path})"), format!("{BUFFER_BYTES_MIN} at least"));
        let found = Deviation::new(words.0, words.1, vec![Mend::set(path, BUFFER_BYTES.to_string())]);
        Some(if read < BUFFER_BYTES_MIN && has_fast(machine) { vec![found] } else { vec![] })
    }))
}

fn tcp_buffers(machine: &Machine) -> Option<Vec<Deviation>> {
    of_parts(TCP_BUFFERS.into_iter().map(|(path, value)| {
        let set = machine.setting(path)?;
        let largest: u64 = set.split(' ').nth(2)?.parse().ok()?;
        let wanted = format!("{TCP_BUFFER_BYTES_MIN} at least as the largest");
        let found = Deviation::new(format!("{set} ({path})"), wanted, vec![Mend::set(path, value)]);
        Some(if largest < TCP_BUFFER_BYTES_MIN { vec![found] } else { vec![] })
    }))
}

fn file(interface: &str, name: &str) -> String {
    format!("/sys/class/net/{interface}/{name}")
}

/// An interface's speed in Mb/s; `None` where the driver does not tell (it then reads as -1).
fn speed(machine: &Machine, interface: &str) -> Option<u64> {
    machine.number(&file(interface, "speed"))
}

fn has_fast(machine: &Machine) -> bool {
    machine.interfaces().iter().any(|name| speed(machine, name).is_some_and(|mbit| mbit >= FAST_MBIT))
}

/// Asks each interface that is up.
fn each(machine: &Machine, ask: impl Fn(&str) -> Option<Vec<Deviation>>) -> Option<Vec<Deviation>> {
    of_parts(machine.interfaces().iter().map(|name| ask(name)))
}

fn transmit_queue(machine: &Machine) -> Option<Vec<Deviation>> {
    each(machine, |name| {
        let path = file(name, "tx_queue_len");
        let length = machine.number(&path)?;
        let wanted = format!("{QUEUE_MIN} packets at least");
        let found = Deviation::new(format!("{length} packets"), wanted, vec![Mend::set(path, QUEUE_MIN.to_string())]);
        Some(if length < QUEUE_MIN { vec![found.at(name)] } else { vec![] })
    })
}

fn large_receive(machine: &Machine) -> Option<Vec<Deviation>> {
    each(machine, |name| {
        let features = machine.command(&["ethtool", "-k", name])?;
        let line = features.lines().find_map(|line| line.trim().strip_prefix("large-receive-offload:"))?;
        let by_hand = Mend::ByHand(format!("ethtool -K {name} lro off"));
        let found = Deviation::new("on", "off", vec![by_hand]).at(name);
        Some(if line.split_whitespace().next() == Some("on") { vec![found] } else { vec![] })
    })
}

fn mtu(machine: &Machine) -> Option<Vec<Deviation>> {
    each(machine, |name| {
        let (mbit, bytes) = (speed(machine, name)?, machine.number(&file(name, "mtu"))?);
        let by_hand = format!("once all switches and hosts of the network allow it: ip link set {name} mtu {MTU_MIN}");
        let read = format!("{bytes} bytes at {} Gb/s", mbit / 1000);
        let found = Deviation::new(read, format!("{MTU_MIN} bytes"), vec![Mend::ByHand(by_hand)]).at(name);
        Some(if mbit >= FAST_MBIT && bytes < MTU_MIN { vec![found] } else { vec![] })
    })
}

fn damaged(machine: &Machine) -> Option<Vec<Deviation>> {
    each(machine, |name| {
        let count = machine.number(&file(name, "statistics/rx_crc_errors"))?;
        let by_hand = Mend::ByHand(format!("replace cable or transceiver of {name}; 'ethtool -S {name}' tells more"));
        let read = format!("{count} packets with a wrong checksum since boot");
        Some(if count > 0 { vec![Deviation::new(read, "none", vec![by_hand]).at(name)] } else { vec![] })
    })
}

fn duplex(machine: &Machine) -> Option<Vec<Deviation>> {
    each(machine, |name| {
        let set = machine.read(&file(name, "duplex"))?;
        let by_hand = Mend::ByHand(format!("have both ends of the link of {name} negotiate"));
        Some(if set == "half" { vec![Deviation::new("half duplex", "full", vec![by_hand]).at(name)] } else { vec![] })
    })
}
