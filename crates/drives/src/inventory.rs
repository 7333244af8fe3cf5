//! The drives of a machine, from what the kernel tells of them and from their content.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::claims::is_claimed;
use crate::gpt;

/// Sectors in which the kernel counts sizes, whatever those of a drive are.
const SYSFS_SECTOR_BYTES: u64 = 512;

/// A whole drive, or an image of one in a file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Drive {
    /// Name in the kernel: `sda`, `nvme0n1`; for a file its path.
    pub name: String,
    pub path: PathBuf,
    pub bytes: u64,
    /// Bytes of a sector, as the drive shows it.
    pub block_bytes: u64,
    pub model: Option<String>,
    pub serial: Option<String>,
    /// A disk that rotates; `None` if nobody tells.
    pub rotates: Option<bool>,
    pub removable: bool,
    pub read_only: bool,
    /// A regular file in place of a drive.
    pub is_file: bool,
    /// The content by its marks: a file system, a store, a member of something. `None` if none is known.
    pub content: Option<String>,
    /// The content is a store of an OSD, or a part of one.
    pub has_store: bool,
    /// Volumes of LVM, software RAID and the like that the kernel has made on it.
    pub holders: Vec<String>,
    /// Where it is mounted.
    pub mounts: Vec<String>,
    pub swap: bool,
    /// The kernel, or an OSD, has claimed it: nobody else may open it alone.
    pub claimed: bool,
    /// The drive has a whole partition table (GPT), whose partitions these are, or the kernel shows partitions.
    pub has_table: bool,
    pub partitions: Vec<Partition>,
}

/// A partition of a drive.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Partition {
    pub number: u32,
    /// The name that the table has.
    pub label: String,
    /// The path at which the kernel shows it, if it does.
    pub path: PathBuf,
    pub is_shown: bool,
    /// Place on the drive; `None` if its table cannot be read.
    pub first_byte: Option<u64>,
    pub bytes: u64,
    pub content: Option<String>,
    pub has_store: bool,
    pub holders: Vec<String>,
    pub mounts: Vec<String>,
    pub swap: bool,
    pub claimed: bool,
}

/// Where to look: a machine, or a likeness of one.
#[derive(Clone, Debug)]
pub struct Inventory {
    sys_block: PathBuf,
    mounts: PathBuf,
    swaps: PathBuf,
    dev: PathBuf,
}

/// The use of a device, in the order in which it is found out.
#[derive(Default)]
struct Use {
    content: Option<String>,
    has_store: bool,
    holders: Vec<String>,
    mounts: Vec<String>,
    swap: bool,
    claimed: bool,
}

/// The reason why a drive cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum InventoryError {
    #[error("cannot look at {path}")]
    Look { path: PathBuf, source: io::Error },
    #[error("{path} is neither a whole drive nor a file: {hint}")]
    NoDrive { path: PathBuf, hint: &'static str },
}

impl Inventory {
    /// This machine.
    pub fn this() -> Inventory {
        Inventory::below(Path::new("/"))
    }

    /// A machine whose folders `sys`, `proc` and `dev` are in `root`.
    pub fn below(root: &Path) -> Inventory {
        Inventory {
            sys_block: root.join("sys/block"),
            mounts: root.join("proc/self/mounts"),
            swaps: root.join("proc/swaps"),
            dev: root.join("dev"),
        }
    }

    /// All drives with a size, in the order of their names. Volumes of LVM and RAID, memory in the place of a drive,
    /// and what the kernel hides are none.
    ///
    /// Errors: the kernel does not tell of drives at all.
    pub fn drives(&self) -> Result<Vec<Drive>, InventoryError> {
        let look = |source| InventoryError::Look { path: self.sys_block.clone(), source };
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.sys_block).map_err(look)? {
            let name = entry.map_err(look)?.file_name().to_string_lossy().into_owned();
            let is_virtual = ["dm-", "md", "ram", "zram", "nbd", "sr", "fd"]
                .iter()
                .any(|kind| name.strip_prefix(kind).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())));
            // The kernel hides each controller's way to a namespace of several, which is a drive under another name.
            let is_hidden = number(&self.sys_block.join(&name).join("hidden")) == Some(1);
            if !is_virtual && !is_hidden {
                names.push(name);
            }
        }
        names.sort();
        let mut drives = Vec::new();
        for name in names {
            let drive = self.kernels(&name);
            if drive.bytes > 0 {
                drives.push(drive);
            }
        }
        Ok(drives)
    }

    /// The drive at `path`: a block device's node or a link to it, or a file.
    ///
    /// Errors: there is nothing, or it is a partition or a volume.
    pub fn drive(&self, path: &Path) -> Result<Drive, InventoryError> {
        let look = |source| InventoryError::Look { path: path.to_owned(), source };
        let real = fs::canonicalize(path).map_err(look)?;
        let metadata = fs::metadata(&real).map_err(look)?;
        if metadata.is_file() && !real.starts_with(&self.dev) {
            return file(&real).map_err(look);
        }
        let name = real.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if self.sys_block.join(&name).is_dir() {
            return Ok(self.kernels(&name));
        }
        let hint = match metadata.file_type().is_block_device() {
            true => "it is a partition or a volume; name the drive that holds it",
            false => "name a device such as /dev/sdb",
        };
        Err(InventoryError::NoDrive { path: path.to_owned(), hint })
    }

    /// The drive that the kernel calls `name`.
    fn kernels(&self, name: &str) -> Drive {
        let folder = self.sys_block.join(name);
        let path = self.dev.join(name);
        let mut drive = Drive {
            name: name.to_owned(),
            bytes: sectors(&folder),
            block_bytes: number(&folder.join("queue/logical_block_size")).unwrap_or(SYSFS_SECTOR_BYTES),
            model: text(&folder.join("device/model")),
            serial: text(&folder.join("device/serial")),
            rotates: number(&folder.join("queue/rotational")).map(|value| value == 1),
            removable: number(&folder.join("removable")) == Some(1),
            read_only: number(&folder.join("ro")) == Some(1),
            ..Drive::default()
        };
        let labels = match File::open(&path).and_then(|file| gpt::read(&file)) {
            Ok(Some(entries)) => {
                drive.has_table = true;
                entries
            }
            Ok(None) | Err(_) => Vec::new(),
        };
        let Use { content, has_store, holders, mounts, swap, claimed } = self.used(&path, &folder);
        (drive.content, drive.has_store, drive.holders) = (content, has_store, holders);
        (drive.mounts, drive.swap, drive.claimed) = (mounts, swap, claimed);
        // Partitions of the table that the kernel does not show, and those that it shows of another kind of table.
        let shown: BTreeSet<u32> = entries(&folder).filter_map(|entry| partition_number(name, &entry)).collect();
        let known: BTreeSet<u32> = labels.iter().map(|label| label.number).chain(shown.iter().copied()).collect();
        drive.has_table |= !shown.is_empty();
        for number in known {
            let label = labels.iter().find(|label| label.number == number);
            let part = partition_name(name, number);
            let (part_folder, part_path) = (folder.join(&part), self.dev.join(&part));
            let Use { content, has_store, holders, mounts, swap, claimed } = match shown.contains(&number) {
                true => self.used(&part_path, &part_folder),
                false => Use::default(),
            };
            drive.partitions.push(Partition {
                number,
                label: label.map_or_else(String::new, |label| label.name.clone()),
                path: part_path,
                is_shown: shown.contains(&number),
                first_byte: label.map(|label| label.first_byte),
                bytes: label.map_or_else(|| sectors(&part_folder), |label| label.bytes),
                content,
                has_store,
                holders,
                mounts,
                swap,
                claimed,
            });
        }
        drive.path = path;
        drive
    }

    fn used(&self, path: &Path, folder: &Path) -> Use {
        let (content, has_store) = content(path);
        Use {
            content,
            has_store,
            holders: entries(&folder.join("holders")).collect(),
            mounts: self.mounts_of(path),
            swap: self.is_swap(path),
            claimed: is_claimed(path),
        }
    }

    /// Places at which the device is mounted. A mount of a link or of another name of it counts.
    fn mounts_of(&self, path: &Path) -> Vec<String> {
        let lines = fs::read_to_string(&self.mounts).unwrap_or_default();
        let place = |line: &str| {
            let mut words = line.split(' ');
            let (device, place) = (words.next()?, words.next()?);
            is_at(device, path).then(|| place.replace("\\040", " "))
        };
        lines.lines().filter_map(place).collect()
    }

    fn is_swap(&self, path: &Path) -> bool {
        let lines = fs::read_to_string(&self.swaps).unwrap_or_default();
        lines.lines().skip(1).any(|line| line.split_whitespace().next().is_some_and(|device| is_at(device, path)))
    }
}

/// True if a name in the kernel's lists means the device at `path`.
fn is_at(named: &str, path: &Path) -> bool {
    if !named.starts_with('/') {
        return false;
    }
    let named = Path::new(named);
    named == path || named.canonicalize().is_ok_and(|real| real == path)
}

fn file(path: &Path) -> io::Result<Drive> {
    let metadata = fs::metadata(path)?;
    let (content, has_store) = content(path);
    let labels = gpt::read(&File::open(path)?)?;
    let partition = |label: &gpt::Entry| Partition {
        number: label.number,
        label: label.name.clone(),
        first_byte: Some(label.first_byte),
        bytes: label.bytes,
        ..Partition::default()
    };
    Ok(Drive {
        name: path.display().to_string(),
        path: path.to_owned(),
        bytes: metadata.len(),
        block_bytes: SYSFS_SECTOR_BYTES,
        is_file: true,
        read_only: metadata.mode() & 0o222 == 0,
        content,
        has_store,
        claimed: is_claimed(path),
        has_table: labels.is_some(),
        partitions: labels.iter().flatten().map(partition).collect(),
        ..Drive::default()
    })
}

/// The content of a device by its marks, and if it is a store. What cannot be read counts as unknown content.
fn content(path: &Path) -> (Option<String>, bool) {
    match devices::occupant_of(path) {
        Ok(None) => (None, false),
        Ok(Some(occupant)) => {
            let is_store = matches!(occupant, devices::Occupant::Store(_) | devices::Occupant::UnknownStore);
            (Some(occupant.to_string()), is_store)
        }
        Err(error) => (Some(format!("unknown content, as it cannot be read: {error}")), false),
    }
}

fn entries(folder: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names.into_iter()
}

/// The name of a partition: those of drives whose names end with a digit have a `p` before their number.
pub(crate) fn partition_name(drive: &str, number: u32) -> String {
    let between = if drive.ends_with(|c: char| c.is_ascii_digit()) { "p" } else { "" };
    format!("{drive}{between}{number}")
}

fn partition_number(drive: &str, entry: &str) -> Option<u32> {
    let number: u32 = entry.strip_prefix(drive)?.trim_start_matches('p').parse().ok()?;
    (entry == partition_name(drive, number)).then_some(number)
}

fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn number(path: &Path) -> Option<u64> {
    text(path)?.parse().ok()
}

fn sectors(folder: &Path) -> u64 {
    number(&folder.join("size")).unwrap_or(0).saturating_mul(SYSFS_SECTOR_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine in a folder: drives as files, and what the kernel would tell of them.
    struct Likeness(PathBuf);

    impl Likeness {
        fn new(name: &str) -> Likeness {
            let root = std::env::temp_dir().join(format!("nacre-inventory-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&root);
            for folder in ["sys/block", "proc/self", "dev"] {
                fs::create_dir_all(root.join(folder)).unwrap();
            }
            Likeness(root.canonicalize().unwrap())
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        /// A drive of `mib`, or a partition of one.
        fn device(&self, folder: &str, name: &str, mib: u64) {
            self.write(&format!("sys/block/{folder}/size"), &format!("{}\n", mib * 2048));
            File::create(self.0.join("dev").join(name)).unwrap().set_len(mib << 20).unwrap();
        }
    }

    impl Drop for Likeness {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn drives_are_found_with_their_use() {
        let machine = Likeness::new("use");
        machine.device("sda", "sda", 64);
        machine.device("sda/sda1", "sda1", 16);
        machine.device("sda/sda2", "sda2", 16);
        machine.device("nvme0n1", "nvme0n1", 64);
        for other in ["dm-0", "ram0", "sr0"] {
            machine.device(other, other, 8);
        }
        machine.device("sdz", "sdz", 0);
        machine.device("nvme0c0n1", "nvme0c0n1", 64);
        machine.write("sys/block/nvme0c0n1/hidden", "1\n");
        machine.write("sys/block/nvme0n1/device/model", "A model  \n");
        machine.write("sys/block/nvme0n1/queue/rotational", "0\n");
        machine.write("sys/block/nvme0n1/ro", "1\n");
        machine.write("sys/block/nvme0n1/holders/dm-0", "");
        let dev = machine.0.join("dev").display().to_string();
        machine.write("proc/self/mounts", &format!("proc /proc proc rw 0 0\n{dev}/sda1 /a\\040place ext4 rw 0 0\n"));
        machine.write("proc/swaps", &format!("Filename Type Size Used Priority\n{dev}/sda2 partition 1 0 -2\n"));
        machine.write("dev/nvme0n1", &("XFSB".to_owned() + &"\0".repeat(1 << 20)));
        let drives = Inventory::below(&machine.0).drives().unwrap();
        assert_eq!(drives.iter().map(|drive| drive.name.as_str()).collect::<Vec<_>>(), ["nvme0n1", "sda"]);
        let nvme = &drives[0];
        assert_eq!((nvme.bytes, nvme.model.as_deref(), nvme.rotates), (64 << 20, Some("A model"), Some(false)));
        assert_eq!((nvme.read_only, &nvme.holders), (true, &vec!["dm-0".to_owned()]));
        assert_eq!((nvme.content.as_deref(), nvme.has_table), (Some("a file system (XFS)"), false));
        let sda = &drives[1];
        assert!(sda.has_table && sda.partitions.len() == 2 && sda.mounts.is_empty() && !sda.swap, "{sda:?}");
        assert_eq!((&sda.partitions[0].mounts, sda.partitions[0].swap), (&vec!["/a place".to_owned()], false));
        assert_eq!((sda.partitions[1].mounts.len(), sda.partitions[1].swap), (0, true));
        assert_eq!((sda.partitions[0].bytes, sda.partitions[0].first_byte), (16 << 20, None));
    }

    #[test]
    fn what_is_no_drive_is_told() {
        let machine = Likeness::new("none");
        machine.device("sda", "sda", 64);
        machine.write("dev/other", "x");
        machine.write("image", "x");
        let inventory = Inventory::below(&machine.0);
        std::os::unix::fs::symlink(machine.0.join("dev/sda"), machine.0.join("by-name")).unwrap();
        assert_eq!(inventory.drive(&machine.0.join("by-name")).unwrap().name, "sda");
        assert!(inventory.drive(&machine.0.join("image")).unwrap().is_file);
        let error = inventory.drive(&machine.0.join("dev/other")).unwrap_err().to_string();
        assert!(error.contains("neither a whole drive nor a file"), "{error}");
        assert!(inventory.drive(&machine.0.join("gone")).is_err());
    }

    #[test]
    fn partitions_have_the_kernels_names() {
        for (drive, name) in [("sda", "sda3"), ("nvme0n1", "nvme0n1p3"), ("loop7", "loop7p3"), ("vdaa", "vdaa3")] {
            assert_eq!((partition_name(drive, 3).as_str(), partition_number(drive, name)), (name, Some(3)));
        }
        for entry in ["sda", "sdap3", "sdb3", "queue", "sda3x", "sda03"] {
            assert_eq!(partition_number("sda", entry), None, "{entry}");
        }
    }
}
