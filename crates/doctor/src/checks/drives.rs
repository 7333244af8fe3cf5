//! Drives: schedulers, caches, links, and whether flushes reach them.

use super::of_parts;
use crate::finding::{Check, Deviation, Mend, Severity};
use crate::machine::Machine;

/// Data that the kernel reads ahead of a flash drive, in KiB.
const READ_AHEAD_KIB_MAX: u64 = 512;
const READ_AHEAD_KIB: u64 = 128;
/// Options of mounts that keep file systems from flushing.
const NO_BARRIERS: [&str; 2] = ["nobarrier", "barrier=0"];

pub const CHECKS: &[Check] = &[
    Check {
        id: "flushes-kept-back",
        severity: Severity::Danger,
        title: "The kernel does not send flushes to a drive that has a volatile cache",
        cost: "a power cut takes acknowledged writes away",
        find: flushes_kept_back,
    },
    Check {
        id: "mount-without-barriers",
        severity: Severity::Danger,
        title: "A file system does not flush its drive",
        cost: "a power cut takes acknowledged writes away, and may damage the file system",
        find: barriers,
    },
    Check {
        id: "volatile-cache",
        severity: Severity::Cost,
        title: "A drive's write cache is volatile",
        cost: "each commit waits for the drive to empty its cache: expected 0.2 to 5 ms on flash without protection \
               against loss of power, almost nothing with it",
        find: volatile_cache,
    },
    Check {
        id: "io-scheduler",
        severity: Severity::Cost,
        title: "Requests to a flash drive are sorted",
        cost: "expected: processor time and locks for each request; bfq and cfq halve small operations of fast drives",
        find: scheduler,
    },
    Check {
        id: "read-ahead",
        severity: Severity::Note,
        title: "Much is read ahead on a flash drive",
        cost: "expected: random reads through a file system read what nobody wants (OSDs read past it)",
        find: read_ahead,
    },
    Check {
        id: "drive-link",
        severity: Severity::Cost,
        title: "A drive's PCIe link is slower than it could be",
        cost: "the drive's sequential rate is limited in proportion",
        find: link,
    },
    Check {
        id: "drive-node",
        severity: Severity::Note,
        title: "Drives and networks lie on different NUMA nodes",
        cost: "expected: data crosses the processors' link twice; a few percent, more where that link is busy",
        find: node,
    },
    Check {
        id: "drive-rotates",
        severity: Severity::Note,
        title: "A drive is a disk that rotates",
        cost: "some 100 random operations per second; Nacre's store is made for flash",
        find: rotates,
    },
];

fn queue(drive: &str, name: &str) -> String {
    format!("/sys/block/{drive}/queue/{name}")
}

fn is_flash(machine: &Machine, drive: &str) -> Option<bool> {
    Some(machine.number(&queue(drive, "rotational"))? == 0)
}

fn each(machine: &Machine, ask: impl Fn(&str) -> Option<Vec<Deviation>>) -> Option<Vec<Deviation>> {
    of_parts(machine.drives().iter().map(|name| ask(name)))
}

/// The cache that the device itself tells of: SCSI's page, or bit 0 of an NVMe controller's `vwc`.
pub(crate) fn device_has_volatile_cache(machine: &Machine, drive: &str) -> Option<bool> {
    let folder = format!("/sys/block/{drive}/device/scsi_disk");
    if let Some(address) = machine.list(&folder).first() {
        return Some(machine.read(&format!("{folder}/{address}/cache_type"))?.starts_with("write back"));
    }
    if !drive.starts_with("nvme") {
        return None;
    }
    let told = machine.command(&["nvme", "id-ctrl", &format!("/dev/{drive}"), "-o", "json"])?;
    let told: serde_json::Value = serde_json::from_str(&told).ok()?;
    Some(told.get("vwc")?.as_u64()? & 1 == 1)
}

fn flushes_kept_back(machine: &Machine) -> Option<Vec<Deviation>> {
    each(machine, |drive| {
        let path = queue(drive, "write_cache");
        let kernel = machine.read(&path)?;
        let device = device_has_volatile_cache(machine, drive)?;
        let found = Deviation::new(
            "the kernel takes the drive for 'write through', the drive says that it has a volatile cache",
            "write back",
            vec![Mend::set(path, "write back")],
        );
        Some(if kernel == "write through" && device { vec![found.at(drive)] } else { vec![] })
    })
}

fn barriers(machine: &Machine) -> Option<Vec<Deviation>> {
    let table = machine.read("/proc/mounts")?;
    let found = table.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (_, place, _, options) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let option = options.split(',').find(|option| NO_BARRIERS.contains(option))?;
        let by_hand = Mend::ByHand(format!("remove {option} from /etc/fstab and mount again"));
        Some(Deviation::new(format!("mounted with {option}"), "mounted without", vec![by_hand]).at(place))
    });
    Some(found.collect())
}

fn volatile_cache(machine: &Machine) -> Option<Vec<Deviation>> {
    each(machine, |drive| {
        let set = machine.read(&queue(drive, "write_cache"))?;
        let by_hand = format!(
            "'nacre doctor --torture FILE', with a file on {drive}, measures what a flush takes; if it is long, use \
             drives with protection against loss of power"
        );
        let found = Deviation::new("write back", "write through", vec![Mend::ByHand(by_hand)]).at(drive);
        Some(if set == "write back" { vec![found] } else { vec![] })
    })
}

fn scheduler(machine: &Machine) -> Option<Vec<Deviation>> {
    each(machine, |drive| {
        let path = queue(drive, "scheduler");
        let (flash, set) = (is_flash(machine, drive)?, machine.setting(&path)?);
        // A drive that is not NVMe has one queue, for which mq-deadline costs little.
        let is_good = set == "none" || (set == "mq-deadline" && !drive.starts_with("nvme"));
        let found = Deviation::new(set, "none", vec![Mend::set(path, "none")]).at(drive);
        Some(if flash && !is_good { vec![found] } else { vec![] })
    })
}

fn read_ahead(machine: &Machine) -> Option<Vec<Deviation>> {
    each(machine, |drive| {
        let path = queue(drive, "read_ahead_kb");
        let (flash, kib) = (is_flash(machine, drive)?, machine.number(&path)?);
        let mend = Mend::set(path, READ_AHEAD_KIB.to_string());
        let found = Deviation::new(format!("{kib} KiB"), format!("{READ_AHEAD_KIB_MAX} KiB at most"), vec![mend]);
        Some(if flash && kib > READ_AHEAD_KIB_MAX { vec![found.at(drive)] } else { vec![] })
    })
}

/// The folder of an NVMe drive's PCI device.
fn pci(drive: &str) -> Option<String> {
    let number: String = drive.strip_prefix("nvme")?.chars().take_while(char::is_ascii_digit).collect();
    (!number.is_empty()).then(|| format!("/sys/class/nvme/nvme{number}/device"))
}

fn link(machine: &Machine) -> Option<Vec<Deviation>> {
    each(machine, |drive| {
        let folder = pci(drive)?;
        let read = |name: &str| machine.read(&format!("{folder}/{name}"));
        let number = |text: &str| text.split_whitespace().next()?.parse::<f64>().ok();
        let (speed, speed_max) = (read("current_link_speed")?, read("max_link_speed")?);
        let (width, width_max) = (read("current_link_width")?, read("max_link_width")?);
        let is_slow = number(&speed)? < number(&speed_max)? || number(&width)? < number(&width_max)?;
        let by_hand = Mend::ByHand("seat the drive again; see if the slot and its backplane carry that speed".into());
        let found = Deviation::new(format!("{speed} x{width}"), format!("{speed_max} x{width_max}"), vec![by_hand]);
        Some(if is_slow { vec![found.at(drive)] } else { vec![] })
    })
}

fn node(machine: &Machine) -> Option<Vec<Deviation>> {
    let number = |path: String| machine.read(&path)?.parse::<u32>().ok();
    let networks: Vec<u32> = machine
        .interfaces()
        .iter()
        .filter_map(|name| number(format!("/sys/class/net/{name}/device/numa_node")))
        .collect();
    if networks.is_empty() {
        return None;
    }
    each(machine, |drive| {
        let node = number(format!("{}/numa_node", pci(drive)?))?;
        let words = networks.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let by_hand = Mend::ByHand(format!("keep the OSD of {drive} on node {node} (numactl --cpunodebind={node})"));
        let found = Deviation::new(format!("node {node}, networks on {words}"), "one node", vec![by_hand]).at(drive);
        Some(if networks.contains(&node) { vec![] } else { vec![found] })
    })
}

fn rotates(machine: &Machine) -> Option<Vec<Deviation>> {
    each(machine, |drive| {
        let flash = is_flash(machine, drive)?;
        let by_hand = Mend::ByHand(format!("if it is flash all the same: echo 0 > {}", queue(drive, "rotational")));
        let found = Deviation::new("rotational", "flash", vec![by_hand]).at(drive);
        Some(if flash { vec![] } else { vec![found] })
    })
}
