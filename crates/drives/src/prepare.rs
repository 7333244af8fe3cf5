//! Decides how drives are divided for OSDs: an area for data on each data drive for each of its OSDs, and areas for
//! logs and metadata of all of them on faster drives.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::inventory::{Drive, partition_name};
use crate::obstacle::{Obstacle, Purpose, list, obstacles};
use crate::step::Step;

const MIB: u64 = 1 << 20;
/// The least that an OSD's data can do with.
pub const DATA_BYTES_MIN: u64 = 1 << 30;
/// Room for both copies of the table, in whole units at a drive's beginning and end; more than LVM keeps for itself.
const RESERVED_BYTES: u64 = 8 * MIB;
/// Areas begin and end at multiples of this, as LVM's extents do.
const UNIT_BYTES: u64 = 4 * MIB;
/// Most areas of a drive.
const AREAS_MAX: u64 = 100;
/// Begin of the names of partitions and volume groups that are made here.
const NAME: &str = "nacre-";

/// How drives are divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// A partition table (GPT), made by `sgdisk`.
    Partitions,
    /// LVM: each drive is a volume group of its own.
    Lvm,
}

/// A wish: drives and sizes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Drives for data, and the number of OSDs on each.
    pub data: Vec<Drive>,
    pub osds_per_drive: u32,
    /// Drives for logs and for metadata, and the size of each area. The areas are shared out in turns.
    pub wal: Vec<Drive>,
    pub wal_bytes: u64,
    pub metadata: Vec<Drive>,
    /// `None`: 4 % of the largest data area, as the reference architectures have it.
    pub metadata_bytes: Option<u64>,
    pub by: By,
}

/// The areas of one OSD.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Areas {
    pub data: PathBuf,
    pub data_bytes: u64,
    pub wal: Option<PathBuf>,
    pub metadata: Option<PathBuf>,
}

/// Steps to be done, and the areas that are there afterwards.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Preparation {
    pub steps: Vec<Step>,
    /// Drives that are divided as asked for already, and left alone.
    pub ready: Vec<PathBuf>,
    pub osds: Vec<Areas>,
}

/// The reasons why drives cannot be prepared. Nothing was changed on any.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("{}", list(.0))]
    Drives(Vec<(PathBuf, Obstacle)>),
    #[error("{path} is named twice: a drive is for one purpose, unless its data area has logs and metadata, too")]
    Twice { path: PathBuf },
    #[error("{0}")]
    Wanted(String),
}

/// An area to make: its name and size.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Area {
    name: String,
    bytes: u64,
}

/// Decides what is to be done for `wanted`. Areas of a drive have names by their purpose and number on it, so a drive
/// that has exactly those is ready.
///
/// Errors: [`Refusal`], with everything that stands against it.
pub fn prepare(wanted: &Wanted) -> Result<Preparation, Refusal> {
    let osds = u64::from(wanted.osds_per_drive) * wanted.data.len() as u64;
    if wanted.data.is_empty() || !(1..=AREAS_MAX).contains(&u64::from(wanted.osds_per_drive)) {
        return Err(Refusal::Wanted(format!("1 to {AREAS_MAX} OSDs on each of at least one drive")));
    }
    let all: Vec<&Drive> = wanted.data.iter().chain(&wanted.wal).chain(&wanted.metadata).collect();
    if let Some(twice) = all.iter().enumerate().find(|(at, drive)| all[..*at].iter().any(|one| one.path == drive.path))
    {
        return Err(Refusal::Twice { path: twice.1.path.clone() });
    }
    let data_bytes =
        |drive: &Drive| align(drive.bytes.saturating_sub(RESERVED_BYTES) / u64::from(wanted.osds_per_drive));
    let largest = wanted.data.iter().map(data_bytes).max().unwrap_or(0);
    let metadata_bytes = wanted.metadata_bytes.unwrap_or(largest / 25);
    let mut work = Vec::new();
    for drive in &wanted.data {
        let areas = areas("data", data_bytes(drive), u64::from(wanted.osds_per_drive));
        work.push((drive, areas, DATA_BYTES_MIN * u64::from(wanted.osds_per_drive) + RESERVED_BYTES));
    }
    for (what, drives, bytes) in
        [("wal", &wanted.wal, wanted.wal_bytes), ("metadata", &wanted.metadata, metadata_bytes)]
    {
        for (number, drive) in drives.iter().enumerate() {
            let count = share(osds, drives.len() as u64, number as u64);
            let bytes = align(bytes.max(UNIT_BYTES) + UNIT_BYTES - 1);
            work.push((drive, areas(what, bytes, count), bytes.saturating_mul(count) + RESERVED_BYTES));
        }
    }
    let (mut steps, mut ready, mut against) = (Vec::new(), Vec::new(), Vec::new());
    for (drive, areas, needed) in &work {
        if drive.bytes < *needed {
            against.push((drive.path.clone(), Obstacle::TooSmall { bytes: drive.bytes, needed: *needed }));
            continue;
        }
        if wanted.by == By::Partitions && is_divided(drive, areas) {
            ready.push(drive.path.clone());
            continue;
        }
        let found = obstacles(drive, Purpose::Prepare);
        if found.is_empty() {
            steps.extend(divide(drive, areas, wanted.by));
        }
        against.extend(found.into_iter().map(|obstacle| (drive.path.clone(), obstacle)));
    }
    if !against.is_empty() {
        return Err(Refusal::Drives(against));
    }
    Ok(Preparation { steps, ready, osds: osds_of(wanted, data_bytes) })
}

fn align(bytes: u64) -> u64 {
    bytes / UNIT_BYTES * UNIT_BYTES
}

fn areas(what: &str, bytes: u64, count: u64) -> Vec<Area> {
    (0..count).map(|number| Area { name: format!("{NAME}{what}-{number}"), bytes }).collect()
}

/// Areas of drive `number` out of `drives`, `count` being dealt out in turns.
fn share(count: u64, drives: u64, number: u64) -> u64 {
    (count + drives - 1 - number) / drives
}

/// True if the drive has exactly these partitions, in this order.
fn is_divided(drive: &Drive, areas: &[Area]) -> bool {
    drive.partitions.len() == areas.len()
        && areas.iter().enumerate().all(|(index, area)| {
            let part = &drive.partitions[index];
            part.number as usize == index + 1 && part.label == area.name && part.bytes == area.bytes
        })
}

fn group(drive: &Drive) -> String {
    let name = drive.path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    format!("{NAME}{name}")
}

/// The path of area `index` of a drive.
fn area_path(drive: &Drive, what: &str, index: u64, by: By) -> PathBuf {
    match by {
        By::Partitions => {
            let name = drive.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let number = u32::try_from(index + 1).expect("a drive has few areas");
            drive.path.with_file_name(partition_name(&name, number))
        }
        By::Lvm => Path::new("/dev").join(group(drive)).join(format!("{what}-{index}")),
    }
}

fn divide(drive: &Drive, areas: &[Area], by: By) -> Vec<Step> {
    let path = drive.path.display().to_string();
    let mib = |bytes: u64| bytes / MIB;
    let mut steps = Vec::new();
    match by {
        By::Partitions => {
            // All in one call: the table is written as a whole or not at all.
            let alignment = UNIT_BYTES / drive.block_bytes.max(1);
            let mut args = vec!["--clear".to_owned(), format!("--set-alignment={alignment}")];
            for (index, area) in areas.iter().enumerate() {
                let number = index + 1;
                args.push(format!("--new={number}:0:+{}M", mib(area.bytes)));
                args.push(format!("--change-name={number}:{}", area.name));
            }
            args.push(path);
            steps.push(Step::Command { program: "sgdisk".into(), args, package: "gdisk".into() });
            if !drive.is_file {
                let what = |index| area_path(drive, "", index, by);
                steps.extend((0..areas.len() as u64).map(|index| Step::Appears { path: what(index) }));
            }
        }
        By::Lvm => {
            let group = group(drive);
            let command = |program: &str, args: Vec<String>| Step::Command {
                program: program.into(),
                args,
                package: "lvm2".into(),
            };
            steps.push(command("pvcreate", vec!["--yes".into(), path.clone()]));
            steps.push(command("vgcreate", vec![group.clone(), path]));
            for area in areas {
                let name = area.name.trim_start_matches(NAME).to_owned();
                let size = format!("{}m", mib(area.bytes));
                let args = ["--yes", "--wipesignatures", "y", "--size", &size, "--name", &name, &group];
                steps.push(command("lvcreate", args.map(str::to_owned).into()));
            }
        }
    }
    steps
}

fn osds_of(wanted: &Wanted, data_bytes: impl Fn(&Drive) -> u64) -> Vec<Areas> {
    let mut osds: Vec<Areas> = Vec::new();
    for drive in &wanted.data {
        for index in 0..u64::from(wanted.osds_per_drive) {
            let number = osds.len() as u64;
            let of = |drives: &[Drive], what: &str| {
                let count = drives.len() as u64;
                let drive = drives.get(usize::try_from(number % count.max(1)).unwrap_or(0))?;
                Some(area_path(drive, what, number / count, wanted.by))
            };
            osds.push(Areas {
                data: area_path(drive, "data", index, wanted.by),
                data_bytes: data_bytes(drive),
                wal: of(&wanted.wal, "wal"),
                metadata: of(&wanted.metadata, "metadata"),
            });
        }
    }
    osds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::Partition;

    const GIB: u64 = 1 << 30;

    fn drive(name: &str, bytes: u64) -> Drive {
        Drive { name: name.into(), path: Path::new("/dev").join(name), bytes, block_bytes: 512, ..Drive::default() }
    }

    fn wanted() -> Wanted {
        Wanted {
            data: vec![drive("sdb", 100 * GIB), drive("sdc", 50 * GIB)],
            osds_per_drive: 2,
            wal: vec![drive("nvme0n1", 20 * GIB)],
            wal_bytes: GIB,
            metadata: Vec::new(),
            metadata_bytes: None,
            by: By::Partitions,
        }
    }

    fn commands(preparation: &Preparation) -> Vec<String> {
        preparation.steps.iter().map(Step::to_string).collect()
    }

    #[test]
    fn drives_are_divided_by_partitions() {
        let made = prepare(&wanted()).unwrap();
        let said = commands(&made);
        let data = (100 * GIB - RESERVED_BYTES) / 2 / UNIT_BYTES * UNIT_BYTES / MIB;
        assert_eq!(
            said[0],
            format!(
                "sgdisk --clear --set-alignment=8192 --new=1:0:+{data}M --change-name=1:nacre-data-0 \
                 --new=2:0:+{data}M --change-name=2:nacre-data-1 /dev/sdb"
            )
        );
        assert_eq!(said[1], "wait for /dev/sdb1");
        let mut large = wanted();
        large.data[0].block_bytes = 4096;
        assert!(commands(&prepare(&large).unwrap())[0].contains("--set-alignment=1024"), "sectors of 4 KiB");
        let log = said.iter().find(|line| line.ends_with("/dev/nvme0n1")).unwrap();
        assert!(log.contains("--new=4:0:+1024M --change-name=4:nacre-wal-3"), "{log}");
        let paths = |osd: &Areas| (osd.data.clone(), osd.wal.clone().unwrap());
        let osds: Vec<_> = made.osds.iter().map(paths).collect();
        let want = [("sdb1", "nvme0n1p1"), ("sdb2", "nvme0n1p2"), ("sdc1", "nvme0n1p3"), ("sdc2", "nvme0n1p4")];
        let want = want.map(|(data, wal)| (Path::new("/dev").join(data), Path::new("/dev").join(wal)));
        assert_eq!(osds, want);
    }

    #[test]
    fn what_is_ready_is_left_alone() {
        let mut wanted = wanted();
        let bytes = prepare(&wanted).unwrap().osds[0].data_bytes;
        let part = |number: u32| Partition {
            number,
            label: format!("nacre-data-{}", number - 1),
            bytes,
            // Stores have been made on them meanwhile, and one of the OSDs runs.
            has_store: true,
            content: Some("a store".into()),
            claimed: number == 1,
            ..Partition::default()
        };
        wanted.data[0].has_table = true;
        wanted.data[0].partitions = vec![part(1), part(2)];
        let again = prepare(&wanted).unwrap();
        assert_eq!(again.ready, [Path::new("/dev/sdb")]);
        assert!(commands(&again).iter().all(|line| !line.contains("sdb")), "{:?}", commands(&again));
        assert_eq!(again.osds.len(), 4, "as before");
        // Another number of OSDs is another division.
        wanted.osds_per_drive = 3;
        let error = prepare(&wanted).unwrap_err().to_string();
        assert!(error.contains("/dev/sdb: it has 2 partitions that are not those asked for"), "{error}");
        assert!(error.contains("/dev/sdb: ") && error.contains("has a store that an OSD has open"), "{error}");
        wanted.osds_per_drive = 2;
        wanted.data[0].partitions[1].label = "home".into();
        assert!(prepare(&wanted).is_err());
    }

    #[test]
    fn logs_and_metadata_are_dealt_out_over_drives_by_lvm() {
        let mut wanted = wanted();
        wanted.by = By::Lvm;
        wanted.wal.push(drive("nvme1n1", 20 * GIB));
        wanted.osds_per_drive = 1;
        wanted.data.push(drive("sdd", 100 * GIB));
        wanted.metadata = vec![drive("nvme2n1", 30 * GIB)];
        let made = prepare(&wanted).unwrap();
        let said = commands(&made);
        for line in [
            "pvcreate --yes /dev/sdb",
            "vgcreate nacre-sdb /dev/sdb",
            "lvcreate --yes --wipesignatures y --size 1024m --name wal-1 nacre-nvme0n1",
            "lvcreate --yes --wipesignatures y --size 1024m --name wal-0 nacre-nvme1n1",
            // 4 % of 102392 MiB, up to whole extents of 4 MiB.
            "lvcreate --yes --wipesignatures y --size 4096m --name metadata-2 nacre-nvme2n1",
        ] {
            assert!(said.contains(&line.to_owned()), "{line}: {said:#?}");
        }
        assert!(!said.iter().any(|line| line.contains("wal-1 nacre-nvme1n1")), "two logs, then one");
        assert_eq!(made.osds[2].wal.as_deref(), Some(Path::new("/dev/nacre-nvme0n1/wal-1")));
        assert_eq!(made.osds[1].wal.as_deref(), Some(Path::new("/dev/nacre-nvme1n1/wal-0")));
        assert_eq!(made.osds[2].metadata.as_deref(), Some(Path::new("/dev/nacre-nvme2n1/metadata-2")));
    }

    #[test]
    fn all_that_stands_against_it_is_told_at_once() {
        let mut bad = wanted();
        bad.data[0].mounts = vec!["/srv".into()];
        bad.data[1].bytes = GIB;
        bad.wal_bytes = 6 * GIB;
        let error = prepare(&bad).unwrap_err().to_string();
        for words in [
            "/dev/sdb: /dev/sdb is mounted at /srv",
            "/dev/sdc: it has 1024 MiB, and 2056 MiB are needed",
            "/dev/nvme0n1: it has 20480 MiB, and 24584 MiB are needed",
        ] {
            assert!(error.contains(words), "{words}: {error}");
        }
        let mut twice = wanted();
        twice.wal = vec![drive("sdb", 100 * GIB)];
        assert!(prepare(&twice).unwrap_err().to_string().contains("/dev/sdb is named twice"));
        for osds_per_drive in [0, 101] {
            assert!(prepare(&Wanted { osds_per_drive, ..wanted() }).is_err());
        }
    }
}
