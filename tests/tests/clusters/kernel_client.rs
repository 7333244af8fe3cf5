//! Linux's own client of block images: a guest with a kernel of Debian maps images and works with them, while snapshots
//! are taken beside it and daemons die. The host compares what librbd then finds there.
//!
//! The guest's drive `/dev/vda` holds random bytes; all that it writes comes from there.

use cluster_tests::{
    Guest, Kernel, Killed, Switch, TestCluster, binary, clients_are_here, hosts_can_be_made, run, wait_for_quorum,
    wait_until,
};
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
const MIB: usize = 1 << 20;

/// Files of the file system, which is filled from the drive's begin on.
const FILES: usize = 16;
const FILE_MIB: usize = 4;
/// Where on the drive there is what the first files are overwritten with, in MiB.
const NEWER_MIB: usize = 64;
const OVERWRITTEN: usize = 4;
/// Where there is what small files are written with, in pieces.
const PIECE: usize = 128 << 10;
const PIECES_FROM: usize = 80 * MIB / PIECE;
const PIECES: usize = 320;
const SMALL_FILES: usize = 96;
const DRIVE_MIB: usize = 128;

/// The guest, its cluster and the network between them, in the order in which they are to end.
struct Stage {
    guest: Guest,
    /// Daemons that were started again.
    again: Vec<Killed>,
    cluster: TestCluster,
    _switch: Switch,
    drive: PathBuf,
    /// Address and port of the monitor that the kernel is told of.
    monitor: String,
    /// Secret of client.admin.
    key: String,
}

/// The daemons' reasons for ending a session or a connection of whoever does not keep to the protocol.
const BREACHES: [&str; 3] = ["malformed frame", "claims to have received", "was expected"];

impl Stage {
    fn new(kernel: &Kernel, name: &str) -> Stage {
        let switch = Switch::start();
        let cluster = TestCluster::start_monitors_at(name, 3, 3, switch.address());
        cluster.make_pool("rbd", 16, 3);
        let drive = cluster.scratch("drive");
        let mut random =
            File::open("/dev/urandom").expect("the kernel has random bytes").take((DRIVE_MIB * MIB) as u64);
        let mut file = File::create(&drive).expect("a file can be made");
        std::io::copy(&mut random, &mut file).expect("a file can be written");
        let monitors = cluster.ceph_json(&["mon", "dump"]);
        let first = &monitors["mons"][0];
        assert_eq!(first["name"], "a", "{monitors}");
        let address = first["public_addrs"]["addrvec"][0]["addr"].as_str().expect("an address");
        let key = cluster.ceph(&["auth", "print-key", "client.admin"]).ok().trim().to_owned();
        let guest = Guest::boot(kernel, &drive, &cluster.dir().join("log"));
        Stage { guest, again: Vec::new(), drive, monitor: address.to_owned(), key, cluster, _switch: switch }
    }

    fn rbd(&self, args: &[&str]) -> String {
        run(self.cluster.command("rbd", args), LIMIT).ok()
    }

    fn rbd_json(&self, args: &[&str]) -> serde_json::Value {
        let out = self.rbd(&[args, &["--format", "json"]].concat());
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("rbd {args:?}: {e}: {out}"))
    }

    /// Maps an image, `POOL IMAGE [SNAPSHOT]`, and gives the number of its device.
    fn map(&mut self, image: &str, options: &str) -> String {
        let devices =
            |guest: &mut Guest| guest.run("ls -1 /sys/bus/rbd/devices").into_iter().collect::<BTreeSet<String>>();
        let before = devices(&mut self.guest);
        let order = format!("{} name=admin,secret={},ms_mode=crc{options} {image}", self.monitor, self.key);
        self.guest.run(&format!("echo '{order}' > /sys/bus/rbd/add_single_major"));
        let new: Vec<_> = devices(&mut self.guest).difference(&before).cloned().collect();
        let [device] = &new[..] else { panic!("{image} became {new:?}") };
        device.clone()
    }

    fn unmap(&mut self, device: &str) {
        self.guest.run(&format!("echo {device} > /sys/bus/rbd/remove_single_major"));
    }

    /// Copies from the drive, in MiB.
    fn put(&mut self, file: &str, from: usize, count: usize) {
        let copy = format!("dd if=/dev/vda of={file} bs=1M skip={from} count={count} conv=notrunc,fsync");
        self.guest.run(&format!("{copy} 2> /tmp/said || {{ cat /tmp/said; false; }}"));
    }

    fn forget_what_was_read(&mut self) {
        self.guest.run("sync; echo 3 > /proc/sys/vm/drop_caches");
    }

    /// Compares the first bytes that a command of the guest gives with the drive's from `from` on.
    #[track_caller]
    fn compare_output(&mut self, command: &str, from: usize, count: usize) {
        let said = self.guest.run(&format!("{command} | md5sum"));
        assert_eq!(said, [self.sum(&self.drive_bytes(from, count))], "'{command}' does not give what was written");
    }

    /// Compares all of a file of the guest.
    #[track_caller]
    fn compare(&mut self, file: &str, from: usize, count: usize) {
        self.compare_output(&format!("cat {file}"), from, count);
    }

    /// Compares the large files with these numbers in a folder; `is_newer`: the first of them were overwritten.
    #[track_caller]
    fn compare_files(&mut self, folder: &str, numbers: Range<usize>, is_newer: bool) {
        for number in numbers {
            self.compare(&format!("{folder}/f{number}"), content_mib(number, is_newer) * MIB, FILE_MIB * MIB);
        }
    }

    /// The sum of these bytes as the guest says it.
    fn sum(&self, bytes: &[u8]) -> String {
        let file = self.cluster.scratch("piece");
        fs::write(&file, bytes).expect("a file can be written");
        let mut command = Command::new("md5sum");
        command.stdin(File::open(&file).expect("it was written"));
        let out = command.output().expect("md5sum starts");
        String::from_utf8(out.stdout).expect("text").trim_end().to_owned()
    }

    /// Bytes of the drive.
    fn drive_bytes(&self, from: usize, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        let drive = File::open(&self.drive).expect("the drive is there");
        drive.read_exact_at(&mut bytes, from as u64).expect("the drive is long enough");
        bytes
    }

    /// The bytes of an image, or of a snapshot, by librbd.
    fn export(&self, image: &str) -> PathBuf {
        let file = self.cluster.scratch("exported");
        let _ = fs::remove_file(&file);
        self.rbd(&["export", "--no-progress", image, file.to_str().expect("plain path")]);
        file
    }

    /// Checks a file of an exported file system. `from`: where on the drive its bytes are from.
    fn check_exported(&self, image: &Path, file: &str, from: usize, count: usize) {
        let copy = self.cluster.scratch("copy");
        let _ = fs::remove_file(&copy);
        let mut command = Command::new("debugfs");
        command.args(["-R", &format!("dump {file} {}", copy.display())]).arg(image);
        run(command, LIMIT).ok();
        let found = fs::read(&copy).unwrap_or_else(|e| panic!("{file}: {e}"));
        assert!(found == self.drive_bytes(from, count), "{file} is not what the guest wrote");
    }

    fn check_exported_files(&self, image: &Path, is_newer: bool) {
        for number in 0..FILES {
            let from = content_mib(number, is_newer) * MIB;
            self.check_exported(image, &format!("/f{number}"), from, FILE_MIB * MIB);
        }
    }

    /// Objects of an image's data, as its pool lists them.
    fn objects(&self, image: &str, namespace: &str) -> usize {
        let info = self.rbd_json(&["info", image]);
        let prefix = info["block_name_prefix"].as_str().expect("a prefix");
        let listed = self.cluster.rados(&["-p", "rbd", "-N", namespace, "ls"]).ok();
        listed.lines().filter(|name| name.starts_with(prefix)).count()
    }

    /// Bytes of the image `disk` in use, as librbd tells by the object map that the kernel keeps.
    fn used(&self) -> u64 {
        let du = self.rbd_json(&["du", "rbd/disk"]);
        let head = du["images"].as_array().into_iter().flatten().find(|entry| entry.get("snapshot").is_none());
        head.and_then(|entry| entry["used_size"].as_u64()).unwrap_or_else(|| panic!("no size: {du}"))
    }

    /// Kills a daemon, such as `osd.1`, and waits until it is gone.
    fn kill(&self, daemon: &str) {
        let pid = self.cluster.pid_of(daemon);
        self.cluster.signal(daemon, Signal::KILL);
        let place = format!("/proc/{}/exe", pid.as_raw_nonzero());
        wait_until(&format!("{daemon} is gone"), LIMIT, || !Path::new(&place).exists());
    }

    /// Starts a daemon that was killed, as an operator would.
    fn start_again(&mut self, daemon: &str) {
        let (kind, id) = daemon.split_once('.').expect("kind and id");
        let log = self.cluster.dir().join(format!("log/{daemon}.again.log"));
        let log = File::create(log).expect("a log can be made");
        let mut command = Command::new(binary());
        command.args([kind, "--id", id, "--conf"]).arg(self.cluster.conf()).stdin(Stdio::null());
        command.stdout(log.try_clone().expect("a file")).stderr(log);
        self.again.push(Killed(command.spawn().expect("the daemon starts")));
    }

    /// Fails if a daemon has ended a session for what the kernel sent, or if the kernel says that one was ended.
    fn sessions_have_stood(&self) {
        let console = self.guest.console();
        let ended: Vec<_> = console.lines().filter(|line| line.contains("libceph") && is_end(line)).collect();
        assert!(ended.is_empty(), "sessions of the kernel were ended, though nothing had died: {ended:#?}");
        self.nothing_was_refused();
    }

    fn nothing_was_refused(&self) {
        for entry in fs::read_dir(self.cluster.dir().join("log")).expect("daemons have logs").flatten() {
            let text = String::from_utf8_lossy(&fs::read(entry.path()).expect("a log")).into_owned();
            let refused = text.lines().find(|line| BREACHES.iter().any(|words| line.contains(words)));
            assert_eq!(refused, None, "{}", entry.path().display());
        }
    }
}

/// A line of the kernel on the end of a session.
fn is_end(line: &str) -> bool {
    ["socket closed", "socket error", "session lost", "protocol error", "bad "].iter().any(|words| line.contains(words))
}

/// Where on the drive the content of a large file is, in MiB.
fn content_mib(number: usize, is_newer: bool) -> usize {
    let from = if is_newer && number < OVERWRITTEN { NEWER_MIB } else { 0 };
    from + number * FILE_MIB
}

/// A file system is made on an image, filled, read again, and parts of it are removed.
fn file_system(stage: &mut Stage) {
    // Discards that begin and end with an object, so that they remove it.
    let device = stage.map("rbd disk", ",alloc_size=1048576");
    stage.guest.run(&format!("/programs/mke2fs -q -t ext4 /dev/rbd{device}"));
    stage.guest.run(&format!("mount -t ext4 /dev/rbd{device} /mnt"));
    stage.sessions_have_stood();
    for number in 0..FILES {
        stage.put(&format!("/mnt/f{number}"), content_mib(number, false), FILE_MIB);
    }
    stage.forget_what_was_read();
    stage.compare_files("/mnt", 0..FILES, false);

    // The kernel holds the image's lock, which librbd asks it for.
    stage.rbd(&["snap", "create", "--no-progress", "rbd/disk@s"]);
    for number in 0..OVERWRITTEN {
        stage.put(&format!("/mnt/f{number}"), content_mib(number, true), FILE_MIB);
    }
    let snapshot = stage.map("rbd disk s", "");
    assert_eq!(stage.guest.run(&format!("blockdev --getro /dev/rbd{snapshot}")), ["1"]);
    stage.guest.run(&format!("mount -t ext4 -o ro,noload /dev/rbd{snapshot} /snapshot"));
    stage.forget_what_was_read();
    stage.compare_files("/snapshot", 0..OVERWRITTEN + 2, false);
    stage.compare_files("/mnt", 0..OVERWRITTEN + 2, true);
    stage.guest.run("umount /snapshot");
    stage.unmap(&snapshot);

    // Space of removed files is given back.
    stage.put("/mnt/removed", 0, 32);
    stage.forget_what_was_read();
    let full = (stage.objects("rbd/disk", ""), stage.used());
    stage.guest.run("rm /mnt/removed; sync; fstrim /mnt");
    let trimmed = (stage.objects("rbd/disk", ""), stage.used());
    assert!(trimmed.0 + 24 < full.0, "{} objects, and then {}", full.0, trimmed.0);
    // Removing writes to the journal and to bitmaps. Objects of these that were as in the snapshot count from now on.
    assert!(trimmed.1 + (16 * MIB as u64) < full.1, "{} bytes, and then {}", full.1, trimmed.1);
}

/// An image without a file system is written, in part discarded, read again, and discarded. `spec`: as Ceph's clients
/// call it.
fn bare_image(stage: &mut Stage, image: &str, namespace: &str, spec: &str) {
    let options = if namespace.is_empty() { String::new() } else { format!(",_pool_ns={namespace}") };
    let device = stage.map(image, &options);
    let path = format!("/dev/rbd{device}");
    stage.put(&path, 0, 12);
    stage.guest.run(&format!("blkdiscard -o {} -l {} {path}", 4 * MIB, 2 * MIB));
    stage.forget_what_was_read();
    let read = |from: usize, count: usize| format!("dd if={path} bs=1M skip={from} count={count} 2> /tmp/said");
    stage.compare_output(&read(0, 4), 0, 4 * MIB);
    stage.compare_output(&read(6, 6), 6 * MIB, 6 * MIB);
    let rest = stage.guest.run(&format!("{} | tr -d '\\000' | wc -c", read(4, 2)));
    assert_eq!(rest, ["0"], "bytes are there that were discarded");
    let mut expected = stage.drive_bytes(0, 12 * MIB);
    expected[4 * MIB..6 * MIB].fill(0);
    let found = fs::read(stage.export(spec)).expect("it was exported");
    assert!(found[..expected.len()] == expected, "{spec} is not what the guest wrote");
    assert!(found[expected.len()..].iter().all(|byte| *byte == 0), "{spec} has more than the guest wrote");
    assert!(stage.objects(spec, namespace) >= 3);
    stage.guest.run(&format!("blkdiscard {path}"));
    assert_eq!(stage.objects(spec, namespace), 0, "objects are left of what was discarded");
    stage.unmap(&device);
}

/// A clone shows its parent's snapshot, and takes writes of its own.
fn clone(stage: &mut Stage) {
    stage.rbd(&["clone", "rbd/disk@s", "rbd/clone"]);
    let device = stage.map("rbd clone", "");
    stage.guest.run(&format!("mount -t ext4 /dev/rbd{device} /snapshot"));
    stage.compare_files("/snapshot", 0..OVERWRITTEN, false);
    // Less than an object, so that the rest of it is copied from the parent.
    let part = "dd if=/dev/vda of=/snapshot/f9 bs=64k skip=1024 count=1 conv=notrunc,fsync 2> /tmp/said";
    stage.guest.run(part);
    stage.forget_what_was_read();
    stage.compare_output("head -c 65536 /snapshot/f9", NEWER_MIB * MIB, 64 << 10);
    let rest = format!("tail -c {} /snapshot/f9", FILE_MIB * MIB - (64 << 10));
    stage.compare_output(&rest, content_mib(9, false) * MIB + (64 << 10), FILE_MIB * MIB - (64 << 10));
    stage.guest.run("umount /snapshot");
    stage.unmap(&device);
    let exported = stage.export("rbd/clone");
    run(e2fsck(&exported), LIMIT).ok();
    stage.check_exported(&exported, "/f8", content_mib(8, false) * MIB, FILE_MIB * MIB);
}

/// Small files that the guest writes over and over.
struct Writer {
    /// Counts that were asked for last.
    written: usize,
}

impl Writer {
    fn start(stage: &mut Stage) -> Writer {
        let piece = format!("$(({PIECES_FROM} + n * 7 % {PIECES}))");
        let file = format!("/mnt/w$((n % {SMALL_FILES}))");
        let copy = format!("dd if=/dev/vda of={file} bs={PIECE} skip={piece} count=1 conv=notrunc,fsync");
        let write = format!("{copy} 2> /tmp/said || break; echo $n >> /tmp/wrote; n=$((n + 1))");
        stage.guest.run("touch /tmp/wrote");
        stage.guest.run(&format!("(n=0; while [ ! -e /tmp/stop ]; do {write}; done; touch /tmp/ended) &"));
        Writer { written: 0 }
    }

    /// Waits for so many more writes. Fails if there is none for long.
    fn goes_on(&mut self, stage: &mut Stage, more: usize) {
        let (enough, mut end) = (self.written + more, Instant::now() + LIMIT);
        while self.written < enough {
            let now: usize = stage.guest.run("wc -l < /tmp/wrote")[0].trim().parse().expect("a number");
            if now > self.written {
                (self.written, end) = (now, Instant::now() + LIMIT);
            }
            assert!(Instant::now() < end, "no write since {} of them", self.written);
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    /// Ends it, and gives the piece that each file has.
    fn end(self, stage: &mut Stage) -> BTreeMap<usize, usize> {
        stage.guest.run("touch /tmp/stop");
        wait_until("the writer ends", LIMIT, || {
            stage.guest.run("[ -e /tmp/ended ] && echo ended || true") == ["ended"]
        });
        let written: usize = stage.guest.run("wc -l < /tmp/wrote")[0].trim().parse().expect("a number");
        assert_eq!(stage.guest.run("tail -n 1 /tmp/wrote"), [(written - 1).to_string()]);
        eprintln!("{written} writes of the kernel were acknowledged");
        (0..written).map(|n| (n % SMALL_FILES, PIECES_FROM + n * 7 % PIECES)).collect()
    }
}

/// Daemons are killed and started again while the guest writes.
fn deaths(stage: &mut Stage) -> BTreeMap<usize, usize> {
    let mut writer = Writer::start(stage);
    writer.goes_on(stage, 20);
    stage.kill("osd.0");
    writer.goes_on(stage, 40);
    stage.start_again("osd.0");
    stage.cluster.wait_until_clean(LIMIT);
    writer.goes_on(stage, 10);
    // The kernel's session is with this monitor. The map without the second OSD has to come from another one.
    stage.kill("mon.a");
    stage.kill("osd.1");
    writer.goes_on(stage, 40);
    stage.start_again("mon.a");
    stage.start_again("osd.1");
    wait_for_quorum(&stage.cluster, &["a", "b", "c"]);
    stage.cluster.wait_until_clean(LIMIT);
    writer.goes_on(stage, 10);
    writer.end(stage)
}

fn e2fsck(image: &Path) -> Command {
    let mut command = Command::new("e2fsck");
    command.args(["-f", "-n"]).arg(image);
    command
}

fn a_kernel_keeps_what_it_wrote(kernel: &str) {
    let programs = ["ceph", "rados", "rbd", "e2fsck", "debugfs"];
    let Some(found) = Kernel::find(kernel) else { return };
    if !clients_are_here(&programs) || !hosts_can_be_made() {
        return;
    }
    eprintln!("Linux {}", found.release);
    let mut stage = Stage::new(&found, &format!("kernel-{kernel}"));
    let began = Instant::now();
    let say = |what: &str| eprintln!("{:6.1} s: {what}", began.elapsed().as_secs_f32());
    stage.rbd(&["namespace", "create", "rbd/space"]);
    stage.rbd(&["create", "rbd/disk", "--size", "192M", "--object-size", "1M"]);
    stage.rbd(&["create", "rbd/space/disk", "--size", "16M"]);
    stage.rbd(&["create", "rbd/striped", "--size", "16M", "--stripe-unit", "64K", "--stripe-count", "4"]);
    file_system(&mut stage);
    say("a file system is filled, and trimmed");
    clone(&mut stage);
    bare_image(&mut stage, "rbd disk", "space", "rbd/space/disk");
    bare_image(&mut stage, "rbd striped", "", "rbd/striped");
    say("clone, namespace, striped image");
    stage.sessions_have_stood();

    let small = deaths(&mut stage);
    say("daemons have died");
    stage.forget_what_was_read();
    stage.compare_files("/mnt", 0..FILES, true);
    for (number, piece) in &small {
        stage.compare(&format!("/mnt/w{number}"), piece * PIECE, PIECE);
    }
    stage.guest.run("umount /mnt");
    for device in stage.guest.run("ls -1 /sys/bus/rbd/devices") {
        stage.unmap(&device);
    }
    say("all is as it was written");

    let exported = stage.export("rbd/disk");
    run(e2fsck(&exported), LIMIT).ok();
    stage.check_exported_files(&exported, true);
    for (number, piece) in &small {
        stage.check_exported(&exported, &format!("/w{number}"), piece * PIECE, PIECE);
    }
    let exported = stage.export("rbd/disk@s");
    stage.check_exported_files(&exported, false);
    let checked = run(stage.cluster.command("rbd", &["object-map", "check", "--no-progress", "rbd/disk"]), LIMIT);
    let info = stage.rbd_json(&["info", "rbd/disk"]);
    assert_eq!(info["flags"], serde_json::json!([]), "the kernel kept the object map: {}", checked.stderr);
    stage.nothing_was_refused();
    say("librbd finds it so");
}

#[test]
fn debians_kernel_keeps_what_it_wrote() {
    a_kernel_keeps_what_it_wrote("stable");
}

#[test]
fn a_newer_kernel_keeps_what_it_wrote() {
    a_kernel_keeps_what_it_wrote("backports");
}
