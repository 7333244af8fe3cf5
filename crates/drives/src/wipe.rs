//! Decides how a drive is wiped, so that nothing on it can be read again.

use std::path::PathBuf;

use crate::inventory::Drive;
use crate::obstacle::{Obstacle, Purpose, list, obstacles};
use crate::step::Step;

/// How thoroughly a drive is wiped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Depth {
    /// Its content is not known for what it was any more. Most bytes stay.
    Marks,
    /// Every byte is overwritten, or an NVMe drive erases its own cells.
    All,
}

/// The reasons why drives are not wiped. Nothing was changed on any.
#[derive(Debug, thiserror::Error)]
#[error("{}", list(.0))]
pub struct WipeRefusal(pub Vec<(PathBuf, Obstacle)>);

/// The steps that wipe `drives`.
///
/// Errors: somebody uses one of them. An OSD that runs is such a somebody.
pub fn wipe(drives: &[Drive], depth: Depth) -> Result<Vec<Step>, WipeRefusal> {
    let against: Vec<(PathBuf, Obstacle)> = drives
        .iter()
        .flat_map(|drive| obstacles(drive, Purpose::Wipe).into_iter().map(|obstacle| (drive.path.clone(), obstacle)))
        .collect();
    if !against.is_empty() {
        return Err(WipeRefusal(against));
    }
    Ok(drives.iter().flat_map(|drive| steps(drive, depth)).collect())
}

fn steps(drive: &Drive, depth: Depth) -> Vec<Step> {
    let zero = |from_byte, bytes, whole| Step::Zero { path: drive.path.clone(), from_byte, bytes, whole };
    let mut steps = Vec::new();
    if depth == Depth::All && !is_nvme(drive) {
        steps.push(zero(0, drive.bytes, true));
    } else {
        // Marks within partitions would come back with a table that has the same places.
        steps.extend(drive.partitions.iter().filter_map(|part| Some(zero(part.first_byte?, part.bytes, false))));
        steps.push(zero(0, drive.bytes, false));
    }
    if depth == Depth::All && is_nvme(drive) {
        steps.push(Step::Command {
            program: "nvme".into(),
            args: vec!["format".into(), drive.path.display().to_string(), "--ses=1".into(), "--force".into()],
            package: "nvme-cli".into(),
        });
    }
    if drive.partitions.iter().any(|part| part.is_shown) {
        // The kernel forgets the partitions that it knew.
        steps.push(Step::Command {
            program: "blockdev".into(),
            args: vec!["--rereadpt".into(), drive.path.display().to_string()],
            package: "util-linux".into(),
        });
    }
    steps
}

fn is_nvme(drive: &Drive) -> bool {
    !drive.is_file && drive.name.starts_with("nvme")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::Partition;

    fn drive(name: &str) -> Drive {
        Drive {
            name: name.into(),
            path: format!("/dev/{name}").into(),
            bytes: 8 << 30,
            has_table: true,
            partitions: vec![Partition {
                number: 1,
                is_shown: true,
                first_byte: Some(8 << 20),
                bytes: 1 << 30,
                ..Partition::default()
            }],
            ..Drive::default()
        }
    }

    fn said(drive: Drive, depth: Depth) -> Vec<String> {
        wipe(&[drive], depth).unwrap().iter().map(Step::to_string).collect()
    }

    #[test]
    fn drives_are_wiped_by_what_they_are() {
        let reread = "blockdev --rereadpt /dev/sdb";
        assert_eq!(said(drive("sdb"), Depth::All), ["overwrite all 8192 MiB of /dev/sdb with zeros", reread]);
        let part = "overwrite both ends of the 1024 MiB from 8 MiB on of /dev/sdb with zeros";
        assert_eq!(said(drive("sdb"), Depth::Marks), [part, "overwrite both ends of /dev/sdb with zeros", reread]);
        let nvme = said(drive("nvme0n1"), Depth::All);
        assert_eq!(
            nvme[1..3],
            ["overwrite both ends of /dev/nvme0n1 with zeros", "nvme format /dev/nvme0n1 --ses=1 --force"]
        );
        let mut file = Drive { path: "/srv/image".into(), is_file: true, ..drive("/srv/image") };
        file.partitions[0].is_shown = false;
        assert_eq!(said(file, Depth::All), ["overwrite all 8192 MiB of /srv/image with zeros"]);
    }

    #[test]
    fn no_drive_is_wiped_if_somebody_uses_one() {
        let mut used = drive("sdc");
        (used.partitions[0].claimed, used.partitions[0].has_store) = (true, true);
        used.partitions[0].path = "/dev/sdc1".into();
        let error = wipe(&[drive("sdb"), used], Depth::All).unwrap_err().to_string();
        assert_eq!(error, "/dev/sdc: /dev/sdc1 has a store that an OSD has open; stop that OSD");
    }
}
