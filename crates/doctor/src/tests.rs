//! Machines as folders of files, with faults.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::changes::{Outcome, Undo, UndoError, changes};
use crate::finding::{Examination, Mend, Severity};
use crate::{Machine, Probed, Profile, ProfileError, checks, examine};

/// A folder for one test, removed afterwards.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let unique = format!("nacre-doctor-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(unique);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.0.join(path.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{text}\n")).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const SMART: &str = "commands/smartctl --json=c -H -A _dev_nvme0n1";
const IDENTIFY: &str = "commands/nvme id-ctrl _dev_nvme0n1 -o json";
const ETHTOOL: &str = "commands/ethtool -k eth0";

/// A server of two nodes, two processors, an NVMe drive, a SATA drive and a link of 25 Gb/s, with nothing wrong.
const HEALTHY: &[(&str, &str)] = &[
    ("/proc/sys/kernel/hostname", "a"),
    ("/proc/sys/kernel/osrelease", "6.1.0"),
    ("/proc/meminfo", "MemTotal:       268435456 kB"),
    ("/proc/cpuinfo", "model name\t: A processor"),
    ("/proc/stat", "cpu  100 0 100 800 0 0 0 10 0 0"),
    ("/proc/swaps", "Filename Type Size Used Priority\n/dev/sdb partition 1 0 -2"),
    ("/proc/mounts", "/dev/sda1 / ext4 rw,relatime 0 0"),
    ("/proc/self/limits", "Limit  Soft Hard Units\nMax open files            1024  1048576  files"),
    ("/proc/71/comm", "chronyd"),
    ("/proc/interrupts", "  CPU0 CPU1\n 30: 1 0 PCI nvme0q0\n 31: 1 0 PCI nvme0q1\n 32: 1 0 PCI nvme0q2"),
    ("/proc/irq/31/effective_affinity_list", "0"),
    ("/proc/irq/31/smp_affinity_list", "0"),
    ("/proc/irq/32/effective_affinity_list", "1"),
    ("/proc/irq/32/smp_affinity_list", "1"),
    ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance"),
    ("/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance"),
    ("/sys/devices/system/cpu/cpu0/cpuidle/state0/latency", "2"),
    ("/sys/devices/system/cpu/cpu0/cpuidle/state0/disable", "0"),
    ("/sys/devices/system/cpu/cpu0/cpuidle/state1/latency", "133"),
    ("/sys/devices/system/cpu/cpu0/cpuidle/state1/name", "C6"),
    ("/sys/devices/system/cpu/cpu0/cpuidle/state1/disable", "1"),
    ("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc"),
    ("/sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet acpi_pm"),
    ("/sys/devices/system/node/node0/cpulist", "0"),
    ("/sys/devices/system/node/node1/cpulist", "1"),
    ("/sys/devices/system/edac/mc/mc0/ue_count", "0"),
    ("/sys/devices/system/edac/mc/mc0/ce_count", "0"),
    ("/proc/sys/kernel/numa_balancing", "0"),
    ("/sys/class/iommu/dmar0/name", "dmar0"),
    ("/sys/kernel/iommu_groups/0/type", "DMA-FQ"),
    ("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never"),
    ("/proc/sys/vm/swappiness", "1"),
    ("/proc/sys/vm/zone_reclaim_mode", "0"),
    ("/proc/sys/vm/min_free_kbytes", "1000000"),
    ("/proc/sys/fs/file-max", "9223372036854775807"),
    ("/proc/sys/kernel/pid_max", "4194304"),
    ("/proc/sys/fs/aio-max-nr", "1048576"),
    ("/proc/sys/kernel/io_uring_disabled", "0"),
    ("/proc/sys/net/netfilter/nf_conntrack_count", "10"),
    ("/proc/sys/net/netfilter/nf_conntrack_max", "262144"),
    ("/proc/sys/net/core/rmem_max", "268435456"),
    ("/proc/sys/net/core/wmem_max", "268435456"),
    ("/proc/sys/net/core/somaxconn", "4096"),
    ("/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456"),
    ("/proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t4194304"),
    ("/sys/class/net/eth0/device/numa_node", "0"),
    ("/sys/class/net/eth0/operstate", "up"),
    ("/sys/class/net/eth0/speed", "25000"),
    ("/sys/class/net/eth0/duplex", "full"),
    ("/sys/class/net/eth0/mtu", "9000"),
    ("/sys/class/net/eth0/tx_queue_len", "1000"),
    ("/sys/class/net/eth0/statistics/rx_crc_errors", "0"),
    ("/sys/block/nvme0n1/size", "15002931888"),
    ("/sys/block/nvme0n1/queue/rotational", "0"),
    ("/sys/block/nvme0n1/queue/scheduler", "[none] mq-deadline"),
    ("/sys/block/nvme0n1/queue/read_ahead_kb", "128"),
    ("/sys/block/nvme0n1/queue/write_cache", "write through"),
    ("/sys/class/nvme/nvme0/device/current_link_speed", "16.0 GT/s PCIe"),
    ("/sys/class/nvme/nvme0/device/max_link_speed", "16.0 GT/s PCIe"),
    ("/sys/class/nvme/nvme0/device/current_link_width", "4"),
    ("/sys/class/nvme/nvme0/device/max_link_width", "4"),
    ("/sys/class/nvme/nvme0/device/numa_node", "0"),
    ("/sys/block/sda/size", "1875385008"),
    ("/sys/block/sda/queue/rotational", "0"),
    ("/sys/block/sda/queue/scheduler", "none [mq-deadline] bfq"),
    ("/sys/block/sda/queue/read_ahead_kb", "128"),
    ("/sys/block/sda/queue/write_cache", "write through"),
    ("/sys/block/sda/device/scsi_disk/0:0:0:0/cache_type", "write through"),
    ("/sys/block/loop0/queue/scheduler", "[bfq]"),
    (IDENTIFY, r#"{"vwc": 6}"#),
    (ETHTOOL, "Features for eth0:\nlarge-receive-offload: off [fixed]\ngeneric-receive-offload: on"),
    (
        SMART,
        r#"{"smart_status": {"passed": true}, "nvme_smart_health_information_log": {"critical_warning": 0,
            "available_spare": 100, "available_spare_threshold": 10, "percentage_used": 3, "media_errors": 0}}"#,
    ),
];

const PROBED: Probed = Probed { io_uring: Some(true), clock_read_ns: Some(30.0) };

fn healthy() -> Folder {
    let folder = Folder::new();
    HEALTHY.iter().for_each(|(path, text)| folder.put(path, text));
    folder
}

/// Faults: a file, its bad content, the check that finds it, the subject, and a part of the first command.
const FAULTS: &[(&str, &str, &str, &str, &str)] = &[
    (
        "/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor",
        "powersave",
        "cpu-governor",
        "",
        "echo performance > /sys/devices/system/cpu/cpu1/",
    ),
    (
        "/sys/devices/system/cpu/cpu0/cpuidle/state1/disable",
        "0",
        "cpu-c-states",
        "",
        "echo 1 > /sys/devices/system/cpu/cpu0/cpuidle/state1/disable",
    ),
    ("/proc/stat", "cpu  100 0 100 700 0 0 0 100 0 0", "cpu-steal", "", "reserve processors"),
    ("/proc/sys/kernel/numa_balancing", "1", "numa-balancing", "", "sysctl -w kernel.numa_balancing=\"0\""),
    ("/proc/irq/32/effective_affinity_list", "0", "irq-affinity", "nvme0", "echo 0 > /proc/irq/31/smp_affinity_list"),
    ("/sys/kernel/iommu_groups/0/type", "DMA", "iommu-strict", "", "iommu=pt"),
    (
        "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        "hpet",
        "clock-source",
        "",
        "echo tsc > /sys/devices/system/clocksource/",
    ),
    ("/proc/71/comm", "bash", "time-of-day", "", "chrony"),
    ("/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never", "huge-pages", "", "echo madvise > /sys/"),
    ("/proc/sys/vm/swappiness", "60", "swappiness", "", "vm.swappiness=\"1\""),
    ("/proc/sys/vm/zone_reclaim_mode", "1", "zone-reclaim", "", "vm.zone_reclaim_mode=\"0\""),
    ("/proc/sys/vm/min_free_kbytes", "67584", "min-free", "", "vm.min_free_kbytes=\"1000000\""),
    ("/sys/devices/system/edac/mc/mc0/ce_count", "3", "memory-errors", "mc0", "replace it"),
    ("/proc/self/limits", "Max open files  1024  4096  files", "process-files", "", "LimitNOFILE"),
    ("/proc/sys/fs/file-max", "65536", "system-files", "", "fs.file-max=\"1000000\""),
    ("/proc/sys/kernel/pid_max", "32768", "process-ids", "", "kernel.pid_max=\"131072\""),
    ("/proc/sys/fs/aio-max-nr", "65536", "aio-requests", "", "fs.aio-max-nr=\"1048576\""),
    ("/proc/sys/kernel/io_uring_disabled", "2", "io-uring", "", "kernel.io_uring_disabled=\"0\""),
    ("/proc/sys/net/netfilter/nf_conntrack_count", "250000", "connection-tracking", "", "nf_conntrack_max=\"1048576\""),
    ("/proc/sys/net/core/rmem_max", "212992", "socket-buffers", "", "net.core.rmem_max=\"268435456\""),
    ("/proc/sys/net/ipv4/tcp_wmem", "4096 16384 262144", "tcp-buffers", "", "tcp_wmem=\"4096 65536 134217728\""),
    ("/proc/sys/net/core/somaxconn", "128", "listen-backlog", "", "net.core.somaxconn=\"1024\""),
    (
        "/sys/class/net/eth0/tx_queue_len",
        "10",
        "transmit-queue",
        "eth0",
        "echo 1000 > /sys/class/net/eth0/tx_queue_len",
    ),
    (ETHTOOL, "Features for eth0:\nlarge-receive-offload: on", "large-receive", "eth0", "ethtool -K eth0 lro off"),
    ("/sys/class/net/eth0/mtu", "1500", "mtu", "eth0", "ip link set eth0 mtu 9000"),
    ("/sys/class/net/eth0/statistics/rx_crc_errors", "9", "network-errors", "eth0", "cable"),
    ("/sys/class/net/eth0/duplex", "half", "link-half", "eth0", "negotiate"),
    (
        "/sys/block/sda/device/scsi_disk/0:0:0:0/cache_type",
        "write back",
        "flushes-kept-back",
        "sda",
        "echo write back > /sys/block/sda/queue/write_cache",
    ),
    (IDENTIFY, r#"{"vwc": 7}"#, "flushes-kept-back", "nvme0n1", "/sys/block/nvme0n1/queue/write_cache"),
    ("/proc/mounts", "/dev/sda1 /srv xfs rw,nobarrier 0 0", "mount-without-barriers", "/srv", "/etc/fstab"),
    ("/sys/block/nvme0n1/queue/write_cache", "write back", "volatile-cache", "nvme0n1", "--torture"),
    (
        "/sys/block/nvme0n1/queue/scheduler",
        "none mq-deadline [bfq]",
        "io-scheduler",
        "nvme0n1",
        "echo none > /sys/block/nvme0n1/queue/scheduler",
    ),
    ("/sys/block/sda/queue/read_ahead_kb", "4096", "read-ahead", "sda", "echo 128 > "),
    ("/sys/class/nvme/nvme0/device/current_link_width", "2", "drive-link", "nvme0n1", "seat"),
    ("/sys/class/nvme/nvme0/device/numa_node", "1", "drive-node", "nvme0n1", "numactl --cpunodebind=1"),
    ("/sys/block/sda/queue/rotational", "1", "drive-rotates", "sda", "rotational"),
    (SMART, r#"{"smart_status": {"passed": false}}"#, "drive-failing", "nvme0n1", "replace"),
    (SMART, r#"{"nvme_smart_health_information_log": {"percentage_used": 97}}"#, "drive-worn", "nvme0n1", "replace"),
];

#[test]
fn nothing_is_found_on_a_healthy_machine_and_all_is_read() {
    let folder = healthy();
    let found = examine(&Machine::at(folder.path(), PROBED), None);
    assert_eq!(found.findings, []);
    assert_eq!(found.unknown, Vec::<&str>::new());
    assert_eq!(found.fine.len(), checks::all().count());
}

#[test]
fn each_fault_is_found_and_nothing_else() {
    let folder = healthy();
    for (path, bad, id, subject, command) in FAULTS {
        folder.put(path, bad);
        let found = examine(&Machine::at(folder.path(), PROBED), None).findings;
        let good = HEALTHY.iter().find(|(healthy, _)| healthy == path).unwrap_or_else(|| panic!("{path} is no fault"));
        folder.put(path, good.1);
        let [one] = found.as_slice() else { panic!("{id}: {found:?}") };
        assert_eq!((one.id.as_str(), one.subject.as_str()), (*id, *subject));
        let first = one.mends.first().unwrap_or_else(|| panic!("{id} says how it is mended")).command();
        assert!(first.contains(command), "{id}: {first}");
        assert!(!one.read.is_empty() && !one.wanted.is_empty() && one.read != one.wanted, "{one:?}");
    }
}

#[test]
fn every_check_has_a_fault_that_it_finds_and_names_differ() {
    let mut ids: Vec<&str> = checks::all().map(|check| check.id).collect();
    let count = ids.len();
    for id in &ids {
        assert!(FAULTS.iter().any(|fault| fault.2 == *id), "no fault for {id}");
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count);
    assert!(count >= 15);
}

#[test]
fn an_empty_machine_is_unknown_and_not_fine() {
    let folder = Folder::new();
    let found = examine(&Machine::at(folder.path(), Probed::default()), None);
    assert_eq!((found.findings.len(), found.fine.len()), (0, 0));
    assert_eq!(found.unknown.len(), checks::all().count());
}

#[test]
fn what_was_tried_out_counts() {
    let folder = healthy();
    let found = |probed: Probed| examine(&Machine::at(folder.path(), probed), None).findings;
    let refused = found(Probed { io_uring: Some(false), ..PROBED });
    assert!(refused[0].id == "io-uring" && refused[0].mends[0].command().contains("filter"), "{refused:?}");
    let slow = found(Probed { clock_read_ns: Some(900.0), ..PROBED });
    assert!(slow[0].id == "clock-source" && slow[0].read.contains("900 ns"), "{slow:?}");
}

#[test]
fn drives_tell_of_bad_sectors_and_lost_blocks() {
    for (told, words) in [
        (
            r#"{"ata_smart_attributes": {"table": [{"id": 197, "name": "Pending", "raw": {"value": 8}}]}}"#,
            "Pending is 8",
        ),
        (r#"{"nvme_smart_health_information_log": {"media_errors": 2}}"#, "2 blocks"),
        (r#"{"nvme_smart_health_information_log": {"critical_warning": 4}}"#, "critical warning 0x04"),
        (
            r#"{"nvme_smart_health_information_log": {"available_spare": 5, "available_spare_threshold": 10}}"#,
            "5 % of spare",
        ),
    ] {
        let folder = healthy();
        folder.put(SMART, told);
        let found = examine(&Machine::at(folder.path(), PROBED), None).findings;
        assert!(found[0].id == "drive-failing" && found[0].read.contains(words), "{found:?}");
    }
    let folder = healthy();
    folder.put(SMART, "{\"smartctl\": {}}");
    let found = examine(&Machine::at(folder.path(), PROBED), None);
    assert!(found.unknown.contains(&"drive-failing") && found.findings.is_empty(), "{found:?}");
}

#[test]
fn the_worst_comes_first() {
    let folder = healthy();
    folder.put("/sys/class/net/eth0/mtu", "1500");
    folder.put("/proc/sys/vm/swappiness", "60");
    folder.put("/proc/71/comm", "bash");
    let found = examine(&Machine::at(folder.path(), PROBED), None);
    let order: Vec<Severity> = found.findings.iter().map(|one| one.severity).collect();
    assert_eq!(order, [Severity::Danger, Severity::Cost, Severity::Note]);
    assert!(found.is_bad());
    let page = crate::page::page(&Machine::at(folder.path(), PROBED), &found, &[]).to_text(100);
    let places = ["in danger", "time-of-day", "Performance is lost", "swappiness", "Worth knowing", "mtu"];
    let found: Vec<usize> = places.iter().map(|words| page.find(words).unwrap_or_else(|| panic!("{page}"))).collect();
    assert!(found.is_sorted(), "{page}");
}

fn two_faults() -> (Folder, Machine, Examination) {
    let folder = healthy();
    folder.put("/proc/sys/vm/swappiness", "60");
    folder.put("/sys/block/nvme0n1/queue/scheduler", "none mq-deadline [bfq]");
    let machine = Machine::at(folder.path(), PROBED);
    let found = examine(&machine, None);
    (folder, machine, found)
}

#[test]
fn changes_are_made_and_taken_back() {
    let (folder, machine, found) = two_faults();
    let changes = changes(&machine, &found.findings);
    let pairs: Vec<(&str, &str)> = changes.iter().map(|one| (one.before.as_str(), one.after.as_str())).collect();
    assert_eq!(pairs, [("60", "1"), ("bfq", "none")]);
    let text = Undo::new(&machine, changes.clone()).to_json();
    assert!(changes.iter().all(|change| change.apply(&machine) == Outcome::Done));
    assert_eq!(examine(&machine, None).findings, []);
    let undo = Undo::from_json(&text, &machine).unwrap();
    assert!(undo.revert(&machine).iter().all(|(_, outcome)| *outcome == Outcome::Done));
    let setting = |path: &str| machine.setting(path).unwrap();
    assert_eq!(setting("/proc/sys/vm/swappiness"), "60");
    assert_eq!(setting("/sys/block/nvme0n1/queue/scheduler"), "bfq");
    assert!(undo.revert(&machine).iter().all(|(_, outcome)| *outcome == Outcome::Already));
    folder.put("/proc/sys/vm/swappiness", "30");
    let (_, last) = undo.revert(&machine).pop().unwrap();
    assert_eq!(last, Outcome::ChangedSince("30".into()));
    assert_eq!(setting("/proc/sys/vm/swappiness"), "30", "it is somebody else's now");
}

#[test]
fn files_of_changes_write_nothing_but_settings_of_their_machine() {
    let (_folder, machine, found) = two_faults();
    let good = Undo::new(&machine, changes(&machine, &found.findings)).to_json();
    let read = |from: &str, to: &str| Undo::from_json(&good.replace(from, to), &machine).unwrap_err();
    for path in ["/etc/passwd", "/proc/sys/../../etc/passwd", "/proc/self/mem", "/sys/a/./b", "sys/x"] {
        assert_eq!(read("/proc/sys/vm/swappiness", path), UndoError::Path(path.into()));
    }
    assert!(matches!(read("\"60\"", "\"6\\n0\""), UndoError::Value { .. }));
    assert!(matches!(read("\"60\"", "\"\""), UndoError::Value { .. }));
    assert_eq!(read("\"host\": \"a\"", "\"host\": \"b\""), UndoError::Host("b".into(), "a".into()));
    assert_eq!(read("\"version\": 1", "\"version\": 2"), UndoError::Version(2));
    assert!(matches!(read("nacre-doctor-undo", "other"), UndoError::Form(_)));
    assert!(matches!(Undo::from_json("{}", &machine), Err(UndoError::Form(_))));
}

#[test]
fn a_change_that_the_machine_does_not_take_has_failed() {
    let (folder, machine, found) = two_faults();
    let change = &changes(&machine, &found.findings)[0];
    let path = folder.path().join("proc/sys/vm/swappiness");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(matches!(change.apply(&machine), Outcome::Failed(_)));
}

#[test]
fn the_shipped_profile_is_that_of_the_documents() {
    let folder = healthy();
    let machine = Machine::at(folder.path(), PROBED);
    let profile = Profile::reference();
    let found = examine(&machine, Some(&profile));
    let differ: Vec<String> = found.findings.iter().flat_map(|one| &one.mends).map(Mend::command).collect();
    assert_eq!(
        differ,
        [
            "echo never > /sys/kernel/mm/transparent_hugepage/enabled",
            "sysctl -w net.ipv4.tcp_rmem=\"4096 87380 134217728\"",
            "sysctl -w net.ipv4.tcp_wmem=\"4096 65536 134217728\"",
        ]
    );
    assert!(!found.is_bad() && found.left_out.is_empty(), "{found:?}");
    for change in changes(&machine, &found.findings) {
        assert_eq!(change.apply(&machine), Outcome::Done);
    }
    assert_eq!(examine(&machine, Some(&profile)).findings, []);
}

#[test]
fn a_profile_goes_before_checks_and_leaves_out_what_is_too_large() {
    let folder = healthy();
    folder.put("/proc/sys/vm/swappiness", "60");
    folder.put("/proc/meminfo", "MemTotal: 8388608 kB");
    folder.put("/proc/sys/vm/min_free_kbytes", "40000");
    let machine = Machine::at(folder.path(), PROBED);
    let text = r#"name = "mine"
        source = "me"
        setting = [{ path = "/proc/sys/vm/swappiness", value = "5", reason = "r" },
          { path = "/proc/sys/vm/min_free_kbytes", value = "1000000", reason = "r", memory_percent_max = 5 },
          { path = "/proc/sys/vm/nothing", value = "1", reason = "r" }]"#;
    let found = examine(&machine, Some(&Profile::from_toml(text).unwrap()));
    assert_eq!(found.left_out.len(), 2, "{found:?}");
    assert!(found.left_out[0].contains("more than 5 % of this machine's memory"), "{found:?}");
    assert_eq!(changes(&machine, &found.findings)[0].after, "5");
    for (from, to, what) in [
        ("/proc/sys/vm/swappiness", "/etc/x", ProfileError::Path("/etc/x".into())),
        (
            "\"1000000\"",
            "\"much\"",
            ProfileError::Number { path: "/proc/sys/vm/min_free_kbytes".into(), value: "much".into() },
        ),
        ("\"5\"", "\"\"", ProfileError::Value { path: "/proc/sys/vm/swappiness".into(), value: String::new() }),
    ] {
        assert_eq!(Profile::from_toml(&text.replace(from, to)), Err(what));
    }
    assert!(matches!(Profile::from_toml("name = 1"), Err(ProfileError::Form(_))));
}

#[test]
fn this_machine_is_read() {
    let machine = Machine::this(Probed::default());
    let found = examine(&machine, Some(&Profile::reference()));
    assert!(found.findings.len() + found.fine.len() > 0, "{found:?}");
    assert!(machine.facts().iter().any(|(name, _)| name == "host"));
    let json: serde_json::Value = serde_json::from_str(&crate::page::json(&machine, &found, &[])).unwrap();
    assert_eq!((json["format"].as_str(), json["version"].as_u64()), (Some("nacre-doctor"), Some(1)));
}
