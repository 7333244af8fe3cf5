//! `nacre disk` on a machine that has drives: a guest of QEMU, with NVMe controllers of QEMU's and one that manages
//! namespaces, the programs of nvme-cli, LVM and gdisk as Debian has them, and the kernel's answers.
//!
//! Programs lie on the guest's drive `/dev/vda`, as the root of a file system of their own.

use cluster_tests::{Guest, Kernel, NvmeTarget, binary, clients_are_here, run};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);
const MIB: u64 = 1 << 20;
const PROGRAMS: [&str; 5] = ["lvm", "nvme", "sgdisk", "blockdev", "mke2fs"];
/// Names under which LVM's one program is called.
const OF_LVM: [&str; 5] = ["pvcreate", "vgcreate", "lvcreate", "lvs", "vgremove"];

/// A folder of the test's own; dropped, it is removed, unless the test has failed.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

/// A guest in which [`PROGRAMS`] and `nacre` can be called.
struct Machine {
    guest: Guest,
    // Removed after the guest has ended.
    _folder: Folder,
}

/// Copies a program to a root, with the libraries that it needs, at their own paths.
fn put_program(root: &Path, program: &Path, name: &str) {
    fs::copy(program, root.join("bin").join(name)).unwrap_or_else(|e| panic!("{}: {e}", program.display()));
    let mut ldd = Command::new("ldd");
    ldd.arg(program);
    let words = run(ldd, LIMIT).ok();
    for library in words.split_whitespace().filter(|word| word.starts_with('/')) {
        let place = root.join(library.trim_start_matches('/'));
        fs::create_dir_all(place.parent().expect("a file is in a folder")).expect("a folder can be made");
        fs::copy(library, place).unwrap_or_else(|e| panic!("{library}: {e}"));
    }
}

fn find_program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file()).expect("it is installed")
}

/// Makes the file system of programs.
fn make_programs(folder: &Path) -> PathBuf {
    let (root, image) = (folder.join("root"), folder.join("programs"));
    for name in ["bin", "dev", "proc", "sys", "run", "tmp", "mnt", "etc/lvm"] {
        fs::create_dir_all(root.join(name)).expect("a folder can be made");
    }
    put_program(&root, &binary(), "nacre");
    PROGRAMS.iter().for_each(|name| put_program(&root, &find_program(name), name));
    OF_LVM.iter().for_each(|name| symlink("lvm", root.join("bin").join(name)).expect("a link can be made"));
    make_file(&image, 600 * MIB);
    let mut make = Command::new("mke2fs");
    make.args(["-q", "-F", "-t", "ext4", "-d"]).args([&root, &image]);
    run(make, LIMIT).ok();
    fs::remove_dir_all(&root).expect("it was made here");
    image
}

fn make_file(path: &Path, bytes: u64) {
    File::create(path).and_then(|file| file.set_len(bytes)).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

impl Machine {
    /// A guest with drives: `files` in a folder, of these sizes, for devices that QEMU is told of. `None`: a kernel or
    /// a program is missing.
    fn start(name: &str, files: &[(&str, u64)], devices: &[&str]) -> Option<Machine> {
        let kernel = Kernel::find("stable")?;
        if !clients_are_here(&PROGRAMS) {
            return None;
        }
        let folder = Folder(std::env::temp_dir().join(format!("nacre-test-{name}-{}", std::process::id())));
        let _ = fs::remove_dir_all(&folder.0);
        fs::create_dir_all(&folder.0).expect("a folder can be made");
        let mut arguments = Vec::new();
        for (file, bytes) in files {
            let path = folder.0.join(file);
            make_file(&path, *bytes);
            arguments.push("-drive".to_owned());
            arguments.push(format!("file={},format=raw,if=none,id={file}", path.display()));
        }
        for device in devices {
            arguments.extend(["-device".to_owned(), (*device).to_owned()]);
        }
        let programs = make_programs(&folder.0);
        let guest = Guest::boot_with(&kernel, &programs, &folder.0, &arguments);
        let mut machine = Machine { guest, _folder: folder };
        machine.guest.run("mount -t ext4 -o ro /dev/vda /mnt");
        machine.guest.run("for at in dev proc sys; do mount --bind /$at /mnt/$at; done");
        machine.guest.run("for at in run tmp etc/lvm mnt; do mount -t tmpfs none /mnt/$at; done; mkdir /mnt/run/lock");
        // Nobody makes nodes of devices there but the kernel and LVM.
        machine.guest.run("echo 'activation { udev_sync = 0 udev_rules = 0 }' > /mnt/etc/lvm/lvm.conf");
        Some(machine)
    }

    /// The output of a program.
    #[track_caller]
    fn says(&mut self, line: &str) -> String {
        self.guest.run(&format!("chroot /mnt {line}")).join("\n")
    }

    /// The output of a program that must fail.
    #[track_caller]
    fn refuses(&mut self, line: &str) -> String {
        let (said, status) = self.guest.try_to_run(&format!("chroot /mnt {line}"));
        assert_eq!(status, 1, "{line}: {said:#?}");
        said.join("\n")
    }

    #[track_caller]
    fn json(&mut self, line: &str) -> Value {
        let said = self.says(line);
        serde_json::from_str(&said).unwrap_or_else(|e| panic!("{line}: {e}: {said}"))
    }

    /// Drives that `nacre disk list` shows, but that of the programs: name, bytes, reasons against preparing.
    #[track_caller]
    fn drives(&mut self) -> Vec<(String, u64, Vec<String>)> {
        let listed = self.json("nacre disk list --json");
        let drives = listed["drives"].as_array().unwrap_or_else(|| panic!("{listed}"));
        let reasons = |one: &Value| {
            let list = one["against_preparing"].as_array().expect("a list");
            list.iter().map(|reason| reason.as_str().expect("words").to_owned()).collect()
        };
        let all = drives.iter().map(|one| {
            let drive = &one["drive"];
            (drive["name"].as_str().expect("a name").to_owned(), drive["bytes"].as_u64().expect("bytes"), reasons(one))
        });
        all.filter(|(name, ..)| name != "vda").collect()
    }

    /// Bytes of a device, as the kernel says.
    #[track_caller]
    fn bytes(&mut self, device: &str) -> u64 {
        self.says(&format!("blockdev --getsize64 {device}")).trim().parse().expect("a number")
    }

    /// Writes marked bytes at a place of a device, in MiB.
    #[track_caller]
    fn mark(&mut self, device: &str, at_mib: u64) {
        let write = format!("dd of={device} bs=1M seek={at_mib} conv=notrunc,fsync 2> /tmp/said");
        self.guest.run(&format!("yes marked | head -c 4096 | {write} || {{ cat /tmp/said; false; }}"));
        assert!(self.is_marked(device, at_mib));
    }

    #[track_caller]
    fn is_marked(&mut self, device: &str, at_mib: u64) -> bool {
        let read = format!("dd if={device} iflag=direct bs=4096 skip={} count=1 2> /dev/null", at_mib * 256);
        let found = self.guest.run(&format!("{read} | head -c 6 | tr '\\0' '-'; echo"));
        match found.first().map(String::as_str) {
            Some("marked") => true,
            Some("------") => false,
            other => panic!("{device} has {other:?} at {at_mib} MiB"),
        }
    }
}

/// Drives of three GiB; each first one belongs to a controller that shares it with others, as far as the kernel knows.
fn machine_with_two(name: &str) -> Option<Machine> {
    let (of_the_first, of_the_second) = ("nvme-ns,drive=a,bus=first,nsid=1", "nvme,id=second,serial=two,drive=c");
    Machine::start(
        name,
        &[("a", 3 << 30), ("b", 2200 * MIB), ("c", 3 << 30)],
        &[
            "nvme-subsys,id=shared,nqn=one",
            "nvme,id=first,serial=one,subsys=shared",
            of_the_first,
            "nvme-ns,drive=b,bus=first,nsid=2,detached=on",
            of_the_second,
        ],
    )
}

#[test]
fn nvme_drives_are_listed_divided_and_wiped() {
    let Some(mut machine) = machine_with_two("guest-partitions") else { return };
    // The kernel has a hidden device more for each namespace of the first controller, which is no drive.
    let hidden = machine.guest.run("cat /sys/block/nvme0c0n1/hidden");
    assert_eq!(hidden, ["1"]);
    let empty = |name: &str, bytes: u64| (name.to_owned(), bytes, Vec::new());
    assert_eq!(machine.drives(), [empty("nvme0n1", 3 << 30), empty("nvme1n1", 3 << 30)]);
    // A namespace that is there and not attached becomes a drive by the commands that we give, too.
    machine.says("nvme attach-ns /dev/nvme0 --namespace-id=2 --controllers=0");
    machine.says("nvme ns-rescan /dev/nvme0");
    machine.guest.run("for n in $(seq 50); do [ -b /dev/nvme0n2 ] && break; sleep 0.2; done; [ -b /dev/nvme0n2 ]");
    let all = [empty("nvme0n1", 3 << 30), empty("nvme0n2", 2200 * MIB), empty("nvme1n1", 3 << 30)];
    assert_eq!(machine.drives(), all);
    // QEMU's controllers say that they manage namespaces, tell no capacity, and make none: nothing is deleted.
    let said = machine.refuses("nacre disk namespaces /dev/nvme0 --count 2 --yes");
    assert!(said.contains("does not tell how large it is"), "{said}");
    assert_eq!(machine.drives(), all);

    // Partitions: shown, made, found again.
    let prepare = "nacre disk prepare /dev/nvme0n1 --osds-per-drive 2 --metadata /dev/nvme1n1 --wal /dev/nvme0n2 --wal-size 512MiB";
    let shown = machine.says(prepare);
    assert!(shown.contains("nothing was done") && shown.contains("wait for /dev/nvme0n1p2"), "{shown}");
    assert_eq!(machine.drives(), all);
    let done = machine.json(&format!("{prepare} --yes --json"));
    assert_eq!((&done["done"], done["osds"].as_array().map(Vec::len)), (&true.into(), Some(2)), "{done}");
    for osd in done["osds"].as_array().unwrap() {
        let data = osd["data"].as_str().unwrap().to_owned();
        assert_eq!(Some(machine.bytes(&data)), osd["data_bytes"].as_u64());
        for area in ["wal", "metadata"] {
            assert!(machine.bytes(osd[area].as_str().unwrap()) >= 4 * MIB, "{osd}");
        }
    }
    let again = machine.says(&format!("{prepare} --yes"));
    assert!(again.contains("/dev/nvme0n1 is divided so already") && again.contains("done: 0 steps"), "{again}");

    // A drive that is mounted, or open for writing, is not wiped, whatever else is asked for with it.
    // Called by its path, as busybox has a smaller one of its name.
    machine.says("/bin/mke2fs -q -t ext4 -F /dev/nvme0n1p1 100M");
    machine.guest.run("mount -t ext4 /dev/nvme0n1p1 /mnt/mnt");
    let said = machine.refuses("nacre disk wipe /dev/nvme0n1 /dev/nvme1n1 --yes");
    assert!(said.contains("/dev/nvme0n1p1 is mounted at"), "{said}");
    machine.guest.run("umount /mnt/mnt");
    machine.guest.run("sleep 300 >> /dev/nvme1n1p1 & echo $! > /tmp/writer");
    let said = machine.refuses("nacre disk wipe /dev/nvme1n1 --yes");
    assert!(said.contains("/dev/nvme1n1p1 is in use by another program"), "{said}");
    machine.guest.run("kill $(cat /tmp/writer)");
    // The drive erases itself: bytes of which no step has written anything are gone.
    machine.mark("/dev/nvme0n1", 1234);
    machine.says("nacre disk wipe /dev/nvme0n1 --quick");
    assert!(machine.is_marked("/dev/nvme0n1", 1234), "nothing is done without --yes");
    machine.says("nacre disk wipe /dev/nvme0n1 --quick --yes");
    assert!(machine.is_marked("/dev/nvme0n1", 1234), "only marks were removed");
    let said = machine.says("nacre disk wipe /dev/nvme0n1 /dev/nvme0n2 /dev/nvme1n1 --yes");
    assert!(said.contains("nvme format /dev/nvme0n1 --ses=1 --force"), "{said}");
    assert!(!machine.is_marked("/dev/nvme0n1", 1234));
    assert_eq!(machine.drives(), all, "no partition is left, not even in what the kernel knows");
}

#[test]
fn volumes_of_lvm_are_made_and_kept_from_harm() {
    let Some(mut machine) = machine_with_two("guest-lvm") else { return };
    let prepare = "nacre disk prepare /dev/nvme0n1 --by lvm --osds-per-drive 2 --metadata /dev/nvme1n1";
    let shown = machine.says(prepare);
    assert!(shown.contains("nothing was done") && shown.contains("vgcreate nacre-nvme0n1"), "{shown}");
    assert_eq!(machine.says("lvs --noheadings"), "");
    let done = machine.json(&format!("{prepare} --yes --json"));
    let osds = done["osds"].as_array().unwrap();
    assert_eq!(osds.len(), 2, "{done}");
    for (index, osd) in osds.iter().enumerate() {
        let data = format!("/dev/nacre-nvme0n1/data-{index}");
        let metadata = format!("/dev/nacre-nvme1n1/metadata-{index}");
        assert_eq!((osd["data"].as_str(), osd["metadata"].as_str()), (Some(&*data), Some(&*metadata)));
        assert_eq!((Some(machine.bytes(&data)), machine.bytes(&metadata)), (osd["data_bytes"].as_u64(), 64 * MIB));
    }
    let fields = "lvs --noheadings --units m --nosuffix --separator , -o vg_name,lv_name,lv_size";
    let volumes = machine.says(fields);
    let volumes: Vec<&str> = volumes.lines().map(str::trim).collect();
    let wanted = [
        "nacre-nvme0n1,data-0,1532.00",
        "nacre-nvme0n1,data-1,1532.00",
        "nacre-nvme1n1,metadata-0,64.00",
        "nacre-nvme1n1,metadata-1,64.00",
    ];
    assert_eq!(volumes, wanted);
    // Volumes are no drives, and a drive with volumes is neither divided anew nor wiped.
    machine.mark("/dev/nacre-nvme0n1/data-1", 700);
    let drives = machine.drives();
    assert_eq!(drives.iter().map(|(name, ..)| name.as_str()).collect::<Vec<_>>(), ["nvme0n1", "nvme1n1"]);
    assert!(drives.iter().all(|(.., against)| against.iter().any(|one| one.contains("is part of dm-"))), "{drives:?}");
    for refused in [&format!("{prepare} --yes"), "nacre disk wipe /dev/nvme1n1 /dev/nvme0n1 --yes"] {
        let said = machine.refuses(refused);
        assert!(said.contains("/dev/nvme0n1 is part of dm-0, dm-1"), "{said}");
    }
    let said = machine.refuses("nacre disk wipe /dev/nacre-nvme0n1/data-1 --yes");
    assert!(said.contains("it is a partition or a volume"), "{said}");
    assert!(machine.is_marked("/dev/nacre-nvme0n1/data-1", 700));
    // Without its volumes a drive is known as a member of LVM, and is wiped on request only.
    machine.says("vgremove --yes nacre-nvme0n1");
    machine.says("pvcreate --yes /dev/nvme0n1");
    let said = machine.refuses(&format!("{prepare} --yes"));
    assert!(said.contains("/dev/nvme0n1 holds a physical volume of LVM; 'nacre disk wipe'"), "{said}");
    machine.says("nacre disk wipe /dev/nvme0n1 --yes");
    machine.says("nacre disk prepare /dev/nvme0n1 --by lvm --yes");
    assert_eq!(machine.bytes("/dev/nacre-nvme0n1/data-0"), 3064 * MIB);
    assert!(!machine.is_marked("/dev/nacre-nvme0n1/data-0", 700 + 1532), "the drive was erased");
}

#[test]
fn namespaces_are_made_attached_and_erased() {
    let Some(mut machine) = Machine::start("guest-namespaces", &[], &[]) else { return };
    let target = NvmeTarget::start(8 << 30);
    let host = "--hostnqn=nqn.2026-11.org.nacre:guest --hostid=4a0e0d2e-6b1c-4d5f-9c55-0242ac120002";
    let at = format!("-t tcp -a 10.0.2.2 -s {} -n {} --nr-io-queues=1", target.port, NvmeTarget::NAME);
    machine.says(&format!("nvme connect {at} {host}"));
    machine.guest.run("for n in $(seq 50); do [ -b /dev/nvme0n1 ] && break; sleep 0.2; done; [ -b /dev/nvme0n1 ]");
    let empty = |name: &str, bytes: u64| (name.to_owned(), bytes, Vec::new());
    assert_eq!(machine.drives(), [empty("nvme0n1", 8 << 30)]);
    machine.mark("/dev/nvme0n1", 3000);
    // Shown, and refused while somebody uses a namespace.
    let namespaces = "nacre disk namespaces /dev/nvme0 --count 3";
    let shown = machine.says(namespaces);
    assert!(shown.contains("nothing was done") && shown.contains("nvme create-ns /dev/nvme0"), "{shown}");
    machine.guest.run("sleep 300 >> /dev/nvme0n1 & echo $! > /tmp/writer");
    let said = machine.refuses(&format!("{namespaces} --yes"));
    assert!(said.contains("/dev/nvme0n1 is in use by another program"), "{said}");
    machine.guest.run("kill $(cat /tmp/writer)");
    for (count, words) in [("9", "at most 8 namespaces"), ("0", "0")] {
        let (said, status) =
            machine.guest.try_to_run(&format!("chroot /mnt nacre disk namespaces /dev/nvme0 --count {count} --yes"));
        assert!(status != 0 && said.join("\n").contains(words), "{said:?}");
    }
    assert!(machine.is_marked("/dev/nvme0n1", 3000));
    assert_eq!((target.namespaces(), target.erased()), (vec![(1, 2 << 20, true)], vec![]));

    // Three of equal size in place of one, in whole MiB, attached and erased.
    machine.says(&format!("{namespaces} --yes"));
    let each = (8 << 30) / 3 / MIB * MIB;
    let names = |count: u32| (1..=count).map(|id| format!("nvme0n{id}"));
    assert_eq!(machine.drives(), names(3).map(|name| empty(&name, each)).collect::<Vec<_>>());
    assert_eq!(target.namespaces(), [1, 2, 3].map(|id| (id, each / 4096, true)));
    assert_eq!(target.erased(), [1, 2, 3]);
    machine.says("nacre disk prepare /dev/nvme0n1 /dev/nvme0n2 --wal /dev/nvme0n3 --wal-size 512MiB --yes");
    assert_eq!(machine.bytes("/dev/nvme0n2p1"), (each - 8 * MIB) / (4 * MIB) * (4 * MIB));
    // Fewer and larger ones again: the older ones go with all that was on them.
    machine.mark("/dev/nvme0n2", 2000);
    machine.says("nacre disk namespaces /dev/nvme0 --count 2 --yes");
    assert_eq!(machine.drives(), names(2).map(|name| empty(&name, 4 << 30)).collect::<Vec<_>>());
    assert_eq!(target.namespaces(), [1, 2].map(|id| (id, 1 << 20, true)));
    assert!(!machine.is_marked("/dev/nvme0n2", 2000));
    // A wiped namespace is erased by the drive.
    machine.mark("/dev/nvme0n2", 2000);
    machine.says("nacre disk wipe /dev/nvme0n2 --yes");
    assert!(!machine.is_marked("/dev/nvme0n2", 2000));
    assert_eq!(target.erased(), [1, 2, 3, 1, 2, 2]);
}
