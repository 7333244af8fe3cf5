//! An ext4 file system in an image, through QEMU's driver: made, filled, its client killed in the midst of it, checked.
//!
//! QEMU's storage daemon is the client. It shows the image as a file (FUSE), which a loop device makes a block device,
//! so that the file system is the kernel's own. What has been written and not flushed dies with the daemon, as it does
//! with a virtual machine.

use cluster_tests::{Background, TestCluster, clients_are_here, python, run};
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
const IMAGE_BYTES: u64 = 192 << 20;
/// After the death of a client its lock on the image is broken once its watch has timed out, after 30 s.
const LOCK_LIMIT: Duration = Duration::from_secs(90);

/// Tells if this machine mounts file systems for us: that takes root, FUSE, loop devices and ext4.
fn file_systems_can_be_mounted() -> bool {
    let kinds = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let lacks =
        |file: &str| fs::OpenOptions::new().read(true).write(true).open(file).err().map(|e| format!("{file}: {e}"));
    let missing = [
        (!rustix::process::geteuid().is_root()).then(|| "this is not root".to_owned()),
        lacks("/dev/fuse"),
        lacks("/dev/loop-control"),
        (!kinds.split_whitespace().any(|kind| kind == "ext4")).then(|| "the kernel has no ext4".to_owned()),
    ];
    let missing: Vec<_> = missing.into_iter().flatten().collect();
    if !missing.is_empty() {
        eprintln!("SKIPPED: no file system can be mounted here: {missing:?}");
    }
    missing.is_empty()
}

fn command(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args);
    command
}

fn text(path: &Path) -> &str {
    path.to_str().expect("plain path")
}

/// An image as a file; dropped, its client is killed and the file is a plain one again.
struct Export {
    daemon: Background,
    file: PathBuf,
}

impl Export {
    fn start(cluster: &TestCluster, image: &str) -> Export {
        let file = cluster.scratch("image");
        fs::write(&file, "").expect("a file can be made");
        let device = format!(
            "driver=rbd,node-name=image,pool=rbd,image={image},user=admin,conf={},discard=unmap",
            cluster.conf().display()
        );
        let export = format!("type=fuse,id=export,node-name=image,mountpoint={},writable=on", file.display());
        let args = ["--blockdev", &device, "--export", &export];
        let export = Export { daemon: Background::start(cluster.command("qemu-storage-daemon", &args)), file };
        let end = Instant::now() + LIMIT;
        while fs::metadata(&export.file).map_or(0, |file| file.len()) != IMAGE_BYTES {
            assert!(Instant::now() < end, "the image does not appear");
            thread::sleep(Duration::from_millis(50));
        }
        export
    }

    /// Kills the client.
    fn kill(&mut self) {
        self.daemon.signal(Signal::KILL);
        assert_eq!(self.daemon.exit_code(LIMIT), None, "it was killed");
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        if self.daemon.is_running() {
            self.daemon.signal(Signal::KILL);
        }
        let _ = command("umount", &["--lazy", text(&self.file)]).output();
    }
}

/// A mounted file system; dropped, it is not any more.
struct Mounted {
    device: String,
    folder: PathBuf,
}

impl Mounted {
    fn start(cluster: &TestCluster, export: &Export) -> Mounted {
        let folder = cluster.scratch("mounted");
        fs::create_dir_all(&folder).expect("a folder can be made");
        let device = run(command("losetup", &["--find", "--show", text(&export.file)]), LIMIT).ok().trim().to_owned();
        let mounted = Mounted { device, folder };
        run(command("mount", &["-t", "ext4", &mounted.device, text(&mounted.folder)]), LIMIT).ok();
        mounted
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = command("umount", &[text(&self.folder)]).output();
        let _ = command("losetup", &["--detach", &self.device]).output();
    }
}

/// Changes files until so many more changes are durable and the client is killed; gives how many were durable in all.
fn fill_until_death(cluster: &TestCluster, mut export: Export, mounted: Mounted, more: usize) -> usize {
    let (script, journal) = (script(), cluster.scratch("files"));
    let durable = || {
        let text = fs::read_to_string(&journal).unwrap_or_default();
        text.lines().filter(|line| line.starts_with("done")).count()
    };
    let (before, end) = (durable(), Instant::now() + LIMIT);
    let args = [script.as_str(), "write", text(&mounted.folder), text(&journal)];
    let mut writer = Background::start(command(python(), &args));
    writer.says("writing", LIMIT);
    while durable() < before + more {
        assert!(writer.is_running() && Instant::now() < end, "{} of {more} changes", durable() - before);
        thread::sleep(Duration::from_millis(20));
    }
    export.kill();
    writer.says("the file system failed", LIMIT);
    assert_eq!(writer.exit_code(LIMIT), Some(0));
    durable()
}

fn script() -> String {
    format!("{}/python/file_journal.py", env!("CARGO_MANIFEST_DIR"))
}

/// Once its journal is replayed the file system needs no repair.
fn is_clean(export: &Export) {
    let replay = run(command("e2fsck", &["-p", "-E", "journal_only", text(&export.file)]), LOCK_LIMIT);
    assert!(matches!(replay.code, Some(0 | 1)), "{replay:?}");
    run(command("e2fsck", &["-f", "-n", text(&export.file)]), LIMIT).ok();
}

fn check_files(cluster: &TestCluster, mounted: &Mounted, durable: usize) {
    let (script, journal) = (script(), cluster.scratch("files"));
    let args = [script.as_str(), "check", text(&mounted.folder), text(&journal)];
    let out = run(command(python(), &args), LIMIT).ok();
    eprintln!("{durable} changes: {}", out.trim());
    assert!(out.contains("durable changes left them"), "{out}");
}

/// Bytes of the image that are in use.
fn used(cluster: &TestCluster) -> u64 {
    let out = run(cluster.command("rbd", &["du", "rbd/disk", "--format", "json"]), LIMIT).ok();
    let out: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    out["images"][0]["used_size"].as_u64().expect("a number")
}

#[test]
fn a_file_system_survives_the_death_of_its_client() {
    let programs = ["ceph", "rbd", "qemu-storage-daemon", "mke2fs", "e2fsck", "mount", "losetup", "fstrim", "python3"];
    if !clients_are_here(&programs) || !file_systems_can_be_mounted() {
        return;
    }
    let cluster = TestCluster::start("rbd-filesystem", 3);
    cluster.make_pool("rbd", 16, 3);
    let size = format!("{}B", IMAGE_BYTES);
    run(cluster.command("rbd", &["create", "rbd/disk", "--size", &size, "--object-size", "1M"]), LIMIT).ok();
    let export = Export::start(&cluster, "disk");
    run(command("mke2fs", &["-q", "-F", "-t", "ext4", "-b", "4096", text(&export.file)]), LIMIT).ok();
    let mounted = Mounted::start(&cluster, &export);
    let durable = fill_until_death(&cluster, export, mounted, 150);

    let export = Export::start(&cluster, "disk");
    is_clean(&export);
    let mounted = Mounted::start(&cluster, &export);
    check_files(&cluster, &mounted, durable);
    // The space of removed files is given back.
    let large = mounted.folder.join("large");
    fs::write(&large, vec![7; 48 << 20]).expect("there is room");
    run(command("sync", &["-f", text(&large)]), LIMIT).ok();
    let full = used(&cluster);
    fs::remove_file(&large).expect("it is there");
    // Blocks are free once their removal is.
    run(command("sync", &["-f", text(&mounted.folder)]), LIMIT).ok();
    run(command("fstrim", &[text(&mounted.folder)]), LIMIT).ok();
    assert!(used(&cluster) + (40 << 20) < full, "{full} bytes were used, and now {}", used(&cluster));

    // Every daemon dies with the client, whose successor does not wait for the lock: the dead one is locked out.
    let durable = fill_until_death(&cluster, export, mounted, 100);
    cluster.kill_all();
    cluster.up();
    let holders = run(cluster.command("rbd", &["lock", "ls", "rbd/disk", "--format", "json"]), LIMIT).ok();
    let holders: serde_json::Value = serde_json::from_str(&holders).expect("JSON");
    let address = holders[0]["address"].as_str().unwrap_or_else(|| panic!("the dead client's lock: {holders}"));
    cluster.ceph(&["osd", "blocklist", "add", address]).ok();
    let export = Export::start(&cluster, "disk");
    is_clean(&export);
    let mounted = Mounted::start(&cluster, &export);
    check_files(&cluster, &mounted, durable);
    drop(mounted);
    is_clean(&export);
}
