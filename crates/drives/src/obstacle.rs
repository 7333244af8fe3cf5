//! Reasons why a drive may not be touched.

use std::fmt;
use std::path::PathBuf;

use crate::inventory::Drive;

/// An intention with a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// It is divided for OSDs: it must be empty.
    Prepare,
    /// Everything on it goes, whatever it is, unless somebody uses it.
    Wipe,
}

/// A reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Obstacle {
    Mounted {
        on: String,
        at: String,
    },
    Swap {
        on: String,
    },
    /// The kernel has made something else of it: volumes of LVM, a RAID, an encrypted device.
    Held {
        on: String,
        by: Vec<String>,
    },
    /// Somebody has it for himself: an OSD that runs, or a program that the kernel does not tell of.
    InUse {
        on: String,
        has_store: bool,
    },
    ReadOnly,
    Content {
        on: String,
        content: String,
    },
    Partitions {
        count: usize,
    },
    TooSmall {
        bytes: u64,
        needed: u64,
    },
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::Mounted { on, at } => write!(f, "{on} is mounted at {at}"),
            Obstacle::Swap { on } => write!(f, "{on} is swap space in use"),
            Obstacle::Held { on, by } => {
                write!(f, "{on} is part of {}: a volume of LVM, a RAID or the like", by.join(", "))
            }
            Obstacle::InUse { on, has_store: true } => {
                write!(f, "{on} has a store that an OSD has open; stop that OSD")
            }
            Obstacle::InUse { on, has_store: false } => write!(f, "{on} is in use by another program"),
            Obstacle::ReadOnly => write!(f, "it is read-only"),
            Obstacle::Content { on, content } => {
                write!(f, "{on} holds {content}; 'nacre disk wipe' removes it for good")
            }
            Obstacle::Partitions { count: 0 } => {
                write!(f, "it has a partition table without partitions; 'nacre disk wipe' removes it for good")
            }
            Obstacle::Partitions { count } => {
                write!(
                    f,
                    "it has {count} partitions that are not those asked for; 'nacre disk wipe' removes them for good"
                )
            }
            Obstacle::TooSmall { bytes, needed } => {
                write!(f, "it has {} MiB, and {} MiB are needed", bytes >> 20, needed.div_ceil(1 << 20))
            }
        }
    }
}

/// Everything that keeps the drive from being used for the purpose; empty if nothing does.
pub fn obstacles(drive: &Drive, purpose: Purpose) -> Vec<Obstacle> {
    let mut found = Vec::new();
    let path = drive.path.display().to_string();
    let used = std::iter::once((
        path,
        &drive.mounts,
        drive.swap,
        &drive.holders,
        drive.claimed,
        drive.has_store,
        &drive.content,
    ));
    let parts = drive.partitions.iter().map(|part| {
        let path = part.path.display().to_string();
        (path, &part.mounts, part.swap, &part.holders, part.claimed, part.has_store, &part.content)
    });
    for (on, mounts, swap, holders, claimed, has_store, content) in used.chain(parts) {
        let on = || on.clone();
        found.extend(mounts.iter().map(|at| Obstacle::Mounted { on: on(), at: at.clone() }));
        found.extend(swap.then(|| Obstacle::Swap { on: on() }));
        found.extend((!holders.is_empty()).then(|| Obstacle::Held { on: on(), by: holders.clone() }));
        // Mounts and holders claim a device, too, and are told by their own names.
        let is_told = !mounts.is_empty() || swap || !holders.is_empty();
        found.extend((claimed && !is_told).then(|| Obstacle::InUse { on: on(), has_store }));
        if purpose == Purpose::Prepare {
            // A partition table shows as content, and is told as what it is.
            let table = drive.has_table && on() == drive.path.display().to_string();
            let content = content.clone().filter(|_| !table);
            found.extend(content.map(|content| Obstacle::Content { on: on(), content }));
        }
    }
    // A drive with a partition in use is claimed itself, which says nothing more.
    let whole = drive.path.display().to_string();
    let part_told = found.iter().any(|one| !matches!(one, Obstacle::InUse { on, .. } if *on == whole) && is_use(one));
    found.retain(|one| !(part_told && matches!(one, Obstacle::InUse { on, .. } if *on == whole)));
    if drive.read_only {
        found.push(Obstacle::ReadOnly);
    }
    if purpose == Purpose::Prepare && drive.has_table {
        found.push(Obstacle::Partitions { count: drive.partitions.len() });
    }
    found
}

/// True for reasons that say that somebody uses a device.
fn is_use(obstacle: &Obstacle) -> bool {
    matches!(
        obstacle,
        Obstacle::Mounted { .. } | Obstacle::Swap { .. } | Obstacle::Held { .. } | Obstacle::InUse { .. }
    )
}

/// Reasons of several drives, a line each.
pub(crate) fn list(found: &[(PathBuf, Obstacle)]) -> String {
    let lines = found.iter().map(|(path, obstacle)| format!("{}: {obstacle}", path.display()));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::Partition;

    /// A drive, and how it differs from an empty one.
    fn drive(differs: impl FnOnce(&mut Drive)) -> Drive {
        let mut drive = Drive { name: "sdb".into(), path: "/dev/sdb".into(), bytes: 1 << 40, ..Drive::default() };
        differs(&mut drive);
        drive
    }

    fn part(differs: impl FnOnce(&mut Partition)) -> Drive {
        let mut part = Partition { number: 1, path: "/dev/sdb1".into(), bytes: 1 << 30, ..Partition::default() };
        differs(&mut part);
        drive(|drive| (drive.has_table, drive.partitions) = (true, vec![part]))
    }

    #[test]
    fn what_keeps_a_drive_from_being_prepared_or_wiped() {
        let check = |drive: &Drive, prepare: &[&str], wipe: &[&str]| {
            for (purpose, want) in [(Purpose::Prepare, prepare), (Purpose::Wipe, wipe)] {
                let got: Vec<String> = obstacles(drive, purpose).iter().map(Obstacle::to_string).collect();
                let fits = got.len() == want.len() && got.iter().zip(want).all(|(got, want)| got.contains(want));
                assert!(fits, "{purpose:?}: {got:#?} instead of {want:?}");
            }
        };
        let table = "1 partitions that are not those";
        check(&drive(|_| {}), &[], &[]);
        check(&drive(|d| d.mounts = vec!["/srv".into()]), &["sdb is mounted at /srv"], &["mounted at /srv"]);
        // A mount claims the device as well.
        check(&drive(|d| (d.mounts, d.claimed) = (vec!["/a".into()], true)), &["mounted at /a"], &["mounted at /a"]);
        check(&drive(|d| d.swap = true), &["swap"], &["swap"]);
        check(&drive(|d| d.holders = vec!["dm-0".into()]), &["part of dm-0"], &["part of dm-0"]);
        check(&drive(|d| d.claimed = true), &["in use by another program"], &["in use by another program"]);
        check(&drive(|d| d.read_only = true), &["read-only"], &["read-only"]);
        let store = |d: &mut Drive| (d.content, d.has_store) = (Some("a store of osd.3".into()), true);
        check(&drive(store), &["holds a store of osd.3; 'nacre disk wipe'"], &[]);
        let running = |d: &mut Drive| (d.content, d.has_store, d.claimed) = (Some("a store".into()), true, true);
        check(&drive(running), &["stop that OSD", "holds a store"], &["stop that OSD"]);
        check(&drive(|d| d.content = Some("a file system (XFS)".into())), &["holds a file system (XFS)"], &[]);
        check(&drive(|d| d.has_table = true), &["table without partitions"], &[]);
        check(&part(|_| {}), &[table], &[]);
        check(&part(|p| p.mounts = vec!["/boot".into()]), &["sdb1 is mounted at /boot", table], &["/boot"]);
        check(&part(|p| p.swap = true), &["sdb1 is swap", table], &["sdb1 is swap"]);
        check(&part(|p| p.holders = vec!["md0".into()]), &["sdb1 is part of md0", table], &["md0"]);
        check(&part(|p| p.content = Some("swap space".into())), &["sdb1 holds swap space", table], &[]);
        check(
            &part(|p| (p.claimed, p.has_store) = (true, true)),
            &["sdb1 has a store that an OSD", table],
            &["an OSD"],
        );
        // The table of the drive shows as its content, and a partition in use claims the drive.
        let mut used = part(|p| p.mounts = vec!["/".into()]);
        (used.claimed, used.content) = (true, Some("a partition table (GPT)".into()));
        check(&used, &["sdb1 is mounted at /", table], &["sdb1 is mounted at /"]);
        used.partitions[0].mounts.clear();
        check(&used, &["sdb is in use", table], &["sdb is in use"]);
    }
}
