//! Tests of stores on block devices: loop devices over files, if this machine lets tests make them.

use crate::common::{Device, config, new_store};
use devices::{NewStore, StorePaths, mkfs};
use offline::FileDevice;
use osd::{OsdConfig, Stop};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use types::{Fsid, OsdId};

const BYTES: u64 = 64 << 20;
const MEMORY: u64 = 256 << 20;

/// A loop device. Dropping it removes the device and its file.
struct Loop {
    node: PathBuf,
    _file: Device,
}

impl Loop {
    /// `None` if loop devices cannot be made.
    fn new(name: &str) -> Option<Loop> {
        let file = Device::new(name);
        File::create(&file.0).and_then(|file| file.set_len(BYTES)).expect("room for a sparse file");
        let made = Command::new("losetup").args(["--find", "--show"]).arg(&file.0).output();
        match made {
            Ok(output) if output.status.success() => {
                let node = PathBuf::from(String::from_utf8(output.stdout).expect("a path").trim());
                Some(Loop { node, _file: file })
            }
            other => {
                eprintln!("SKIPPED: no loop device: {other:?}");
                None
            }
        }
    }

    /// Another device node of the same device, as another container may have.
    fn other_node(&self) -> Option<Device> {
        let number = self.node.to_str()?.strip_prefix("/dev/loop")?;
        let other = Device::new(&format!("node-{number}"));
        let made = Command::new("mknod").arg(&other.0).args(["b", "7", number]).status();
        // The file system may be mounted so that devices do not work on it.
        let works = made.is_ok_and(|status| status.success()) && File::open(&other.0).is_ok();
        works.then_some(other)
    }

    fn begin(&self) -> Vec<u8> {
        let mut bytes = vec![0; 256 << 10];
        File::open(&self.node).and_then(|file| file.read_exact_at(&mut bytes, 0)).expect("it is there");
        bytes
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.node).status();
    }
}

fn make(node: &Path) -> Result<(), String> {
    mkfs(&new_store(&config(node, MEMORY), BYTES, 1)).map_err(|error| error.to_string())
}

/// An OSD at work until this is dropped.
struct Running {
    stop: Stop,
    thread: Option<std::thread::JoinHandle<anyhow::Result<()>>>,
}

impl Running {
    fn start(config: OsdConfig) -> Running {
        let stop = Stop::new().expect("a descriptor");
        let thread = std::thread::spawn({
            let stop = stop.clone();
            move || osd::run(config, stop)
        });
        Running { stop, thread: Some(thread) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stop();
        let ended = self.thread.take().expect("it runs").join().expect("no panic");
        ended.expect("it stops in good order");
    }
}

/// Waits until an OSD that was just started has the store open. An attempt that comes first lets it go at once, and the
/// OSD tries again.
fn wait_until_in_use(node: &Path) {
    let end = Instant::now() + Duration::from_secs(60);
    while FileDevice::open(&StorePaths::one(node.to_path_buf()), true).is_ok() {
        assert!(Instant::now() < end, "the OSD does not open its store");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_block_device_with_a_store_is_not_formatted_again() {
    let Some(device) = Loop::new("formatted-twice") else { return };
    make(&device.node).unwrap();
    let before = device.begin();
    let refusal = make(&device.node).unwrap_err();
    assert!(refusal.contains("osd.3") && refusal.contains("--force-format osd.3"), "{refusal}");
    assert!(device.begin() == before, "nothing has changed");
}

/// A store is overwritten only if the operator names its OSD, and never while it is in use.
#[test]
fn a_store_is_overwritten_if_its_osd_is_named() {
    let Some(device) = Loop::new("overwritten") else { return };
    make(&device.node).unwrap();
    let old = device.begin();
    let of_another = new_store(&config(&device.node, MEMORY), BYTES, 1);
    let of_another = NewStore { osd: OsdId(5), uuid: Fsid([9; 16]), ..of_another };
    let make_over = |named| mkfs(&NewStore { forced: named, ..of_another.clone() }).map_err(|error| error.to_string());
    for named in [None, Some(OsdId(5))] {
        let refusal = make_over(named).unwrap_err();
        assert!(refusal.contains("osd.3") && refusal.contains("--force-format osd.3"), "{refusal}");
    }
    let at_work = FileDevice::open(&StorePaths::one(device.node.clone()), true).unwrap();
    let refusal = make_over(Some(OsdId(3))).unwrap_err();
    assert!(refusal.contains("in use"), "{refusal}");
    drop(at_work);
    assert!(device.begin() == old, "nothing has changed");
    make_over(Some(OsdId(3))).unwrap();
    let refusal = make(&device.node).unwrap_err();
    assert!(refusal.contains("a store of osd.5"), "{refusal}");
}

#[test]
fn a_block_device_at_work_is_neither_formatted_nor_shared_by_whatever_node() {
    let Some(device) = Loop::new("at-work") else { return };
    make(&device.node).unwrap();
    let running = Running::start(config(&device.node, MEMORY));
    wait_until_in_use(&device.node);
    let other = device.other_node();
    let nodes = [Some(&device.node), other.as_ref().map(|other| &other.0)];
    // A second OSD waits for half a minute for a store that is in use, so all nodes are tried at once.
    std::thread::scope(|scope| {
        for node in nodes.into_iter().flatten() {
            scope.spawn(|| {
                let refusal = make(node).unwrap_err();
                assert!(refusal.contains("in use"), "{refusal}");
                let refusal = FileDevice::open(&StorePaths::one(node.clone()), true).err().expect("it is in use");
                assert!(refusal.to_string().contains("in use"), "{refusal}");
                let second = osd::run(config(node, MEMORY), Stop::new().unwrap()).unwrap_err();
                assert!(format!("{second:#}").contains("in use"), "{second:#}");
            });
        }
    });
    drop(running);
    FileDevice::open(&StorePaths::one(device.node.clone()), false).expect("it is free again");
}

#[test]
fn a_file_system_is_not_formatted() {
    let Some(device) = Loop::new("file-system") else { return };
    let made = Command::new("mkfs.ext4").arg("-q").arg(&device.node).status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: no mkfs.ext4");
        return;
    }
    let before = device.begin();
    let refusal = make(&device.node).unwrap_err();
    assert!(refusal.contains("ext2, ext3 or ext4"), "{refusal}");
    assert!(device.begin() == before, "nothing has changed");
    let over = || {
        let new = new_store(&config(&device.node, MEMORY), BYTES, 1);
        mkfs(&NewStore { forced: Some(OsdId(3)), ..new })
    };
    let folder = std::env::temp_dir().join(format!("nacre-mounted-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    if Command::new("mount").arg(&device.node).arg(&folder).status().is_ok_and(|status| status.success()) {
        let refusal = over().unwrap_err().to_string();
        assert!(Command::new("umount").arg(&folder).status().unwrap().success());
        assert!(refusal.contains("in use"), "{refusal}");
    }
    std::fs::remove_dir(&folder).unwrap();
    over().unwrap();
}
