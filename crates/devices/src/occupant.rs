//! Recognises the present content of a device by the marks of stores, file systems, partition tables and the like, each
//! at its usual place. A new store replaces none of these unless it is told to.

use std::fmt;
use std::fs::File;
use std::io::{self, Seek};
use std::os::unix::fs::FileExt;
use std::path::Path;
use store::{LABEL_OFFSETS, LabelBlock, Labels, StoreLabel};
use types::BLOCK_BYTES;

/// All marks lie within this many bytes of a device's beginning or end.
const EDGE_BYTES: usize = 512 << 10;

/// Bytes of a device of `bytes` bytes that its beginning, or its end, is looked at.
pub(crate) fn edge_bytes(bytes: u64) -> usize {
    usize::try_from(bytes).map_or(EDGE_BYTES, |bytes| bytes.min(EDGE_BYTES))
}

/// The content that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Occupant {
    /// An OSD's store, or a part of one.
    Store(Box<StoreLabel>),
    /// A store whose labels are damaged or of a newer format.
    UnknownStore,
    /// Something else, with its name.
    Foreign(&'static str),
}

impl fmt::Display for Occupant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Occupant::Store(label) => write!(f, "a store of {}, in cluster {}", label.osd, label.fsid),
            Occupant::UnknownStore => write!(f, "a store that this software cannot read"),
            Occupant::Foreign(name) => write!(f, "{name}"),
        }
    }
}

/// A mark at a fixed offset from a device's beginning.
struct Mark {
    offset: usize,
    bytes: &'static [u8],
    name: &'static str,
}

const fn mark(offset: usize, bytes: &'static [u8], name: &'static str) -> Mark {
    Mark { offset, bytes, name }
}

const EXT: &str = "a file system (ext2, ext3 or ext4)";
const LVM: &str = "a physical volume of LVM";
const MD: &str = "a member of a software RAID (md)";
const LUKS: &str = "an encrypted volume (LUKS)";
const SWAP: &str = "swap space";
const PARTITIONS: &str = "a partition table (GPT)";
const ZFS: &str = "a member of a ZFS pool";
const MD_MAGIC: [u8; 4] = 0xa92b_4efc_u32.to_le_bytes();

/// The most telling marks first: a device may have several, for example with a protective partition table.
const MARKS: &[Mark] = &[
    mark(0, b"bluestore block device", "a BlueStore OSD of Ceph"),
    mark(0, b"XFSB", "a file system (XFS)"),
    mark(0x438, &[0x53, 0xef], EXT),
    mark(0x1_0040, b"_BHRfS_M", "a file system (Btrfs)"),
    mark(0, b"LABELONE", LVM),
    mark(512, b"LABELONE", LVM),
    mark(1024, b"LABELONE", LVM),
    mark(1536, b"LABELONE", LVM),
    mark(0, b"LUKS\xba\xbe", LUKS),
    mark(0x4000, b"SKUL\xba\xbe", LUKS),
    mark(0, &MD_MAGIC, MD),
    mark(4096, &MD_MAGIC, MD),
    // A bcache device and Bcachefs have the same mark.
    mark(4096 + 24, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81", "a bcache device or Bcachefs"),
    mark(1024, &0xf2f5_2010_u32.to_le_bytes(), "a file system (F2FS)"),
    mark(1024, &0xe0f5_e1e2_u32.to_le_bytes(), "a file system (EROFS)"),
    mark(0, b"hsqs", "a file system (SquashFS)"),
    mark(0x8000, b"JFS1", "a file system (JFS)"),
    mark(0x8001, b"CD001", "a file system (ISO 9660)"),
    mark(0x8001, b"BEA01", "a file system (UDF)"),
    mark(0x1_0034, b"ReIsEr", "a file system (ReiserFS)"),
    mark(0x1_0000, b"\x01\x16\x19\x70", "a file system (GFS2)"),
    mark(0x400, b"OCFSV2", "a file system (OCFS2)"),
    mark(0x800, b"OCFSV2", "a file system (OCFS2)"),
    mark(0x1000, b"OCFSV2", "a file system (OCFS2)"),
    mark(0x2000, b"OCFSV2", "a file system (OCFS2)"),
    mark(0x406, &[0x34, 0x34], "a file system (NILFS2)"),
    mark(32, b"ORCLDISK", "a disk of Oracle ASM"),
    mark(4096 - 10, b"SWAPSPACE2", SWAP),
    mark(65_536 - 10, b"SWAPSPACE2", SWAP),
    mark(4096 - 10, b"SWAP-SPACE", SWAP),
    mark(3, b"NTFS    ", "a file system (NTFS)"),
    mark(3, b"EXFAT   ", "a file system (exFAT)"),
    mark(0x36, b"FAT", "a file system (FAT)"),
    mark(0x52, b"FAT32", "a file system (FAT)"),
    mark(512, b"EFI PART", PARTITIONS),
    mark(4096, b"EFI PART", PARTITIONS),
    mark(510, &[0x55, 0xaa], "a partition table or boot sector"),
];

/// Looks at the device or file at `path`.
///
/// Errors: it cannot be read.
pub fn occupant_of(path: &Path) -> io::Result<Option<Occupant>> {
    let mut file = File::open(path)?;
    let bytes = file.seek(io::SeekFrom::End(0))?;
    occupant(&file, bytes)
}

/// Looks at a device or file of `bytes` bytes.
pub(crate) fn occupant(file: &File, bytes: u64) -> io::Result<Option<Occupant>> {
    let edge = edge_bytes(bytes);
    let (mut head, mut tail) = (vec![0; edge], vec![0; edge]);
    file.read_exact_at(&mut head, 0)?;
    file.read_exact_at(&mut tail, bytes - edge as u64)?;
    Ok(store_in(&head).or_else(|| foreign_in(&head, &tail, bytes).map(Occupant::Foreign)))
}

fn store_in(head: &[u8]) -> Option<Occupant> {
    let block = |offset: u64| head.get(usize::try_from(offset).ok()?..)?.get(..BLOCK_BYTES);
    let blocks =
        [block(LABEL_OFFSETS[0])?, block(LABEL_OFFSETS[1])?, block(LABEL_OFFSETS[2])?, block(LABEL_OFFSETS[3])?];
    let labels = Labels::of(blocks.map(Ok));
    if let Some(label) = labels.label() {
        return Some(Occupant::Store(Box::new(*label)));
    }
    let is_newer = |label: &LabelBlock<_>| matches!(label, LabelBlock::UnknownFormat { .. });
    let is_store = labels.looks_like_store() || labels.superblocks.iter().any(is_newer);
    is_store.then_some(Occupant::UnknownStore)
}

fn foreign_in(head: &[u8], tail: &[u8], bytes: u64) -> Option<&'static str> {
    let has = |mark: &&Mark| head.get(mark.offset..).is_some_and(|rest| rest.starts_with(mark.bytes));
    if let Some(mark) = MARKS.iter().find(has) {
        return Some(mark.name);
    }
    if [head, tail].into_iter().any(has_uberblock) {
        return Some(ZFS);
    }
    let from_end = |back: u64| tail.get(tail.len().checked_sub(usize::try_from(back).ok()?)?..);
    // Older layouts of md have their superblock at the end of the device: version 0.90 in the last whole 64 KiB before
    // the last, version 1.0 some 8 KiB before the end.
    let md_places = [bytes % (64 << 10) + (64 << 10), bytes - (bytes / 512).saturating_sub(16) / 8 * 8 * 512];
    if md_places.into_iter().filter_map(from_end).any(|rest| rest.starts_with(&MD_MAGIC)) {
        return Some(MD);
    }
    let copies = [512, 4096].into_iter().filter_map(from_end);
    copies.into_iter().any(|rest| rest.starts_with(b"EFI PART")).then_some(PARTITIONS)
}

/// True if one of the two ZFS labels at this end of a device holds an uberblock, in either byte order.
fn has_uberblock(edge: &[u8]) -> bool {
    const MAGIC: u64 = 0x00ba_b10c;
    let places = (0..EDGE_BYTES).step_by(1024).filter(|at| at % (256 << 10) >= 128 << 10);
    let words = places.filter_map(|at| edge.get(at..at + 8));
    words.into_iter().any(|word| word == MAGIC.to_le_bytes() || word == MAGIC.swap_bytes().to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u64 = 4 << 20;

    fn check(marks: &[(u64, &[u8])], expected: Option<&str>) {
        let path = std::env::temp_dir().join(format!("nacre-occupant-{}", std::process::id()));
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.set_len(BYTES).unwrap();
        marks.iter().for_each(|(at, bytes)| file.write_all_at(bytes, *at).unwrap());
        let found = occupant(&file, BYTES).unwrap().map(|occupant| occupant.to_string());
        assert_eq!(found.as_deref(), expected, "{marks:?}");
    }

    #[test]
    fn what_others_have_is_known_by_its_marks() {
        check(&[], None);
        // Data is no mark, and a drive that was wiped has none left.
        check(&[(20_000, &[7; 5000]), (BYTES - 9000, b"x")], None);
        for Mark { offset, bytes, name } in MARKS {
            check(&[(*offset as u64, bytes)], Some(name));
        }
        check(&[(512, b"EFI PART"), (510, &[0x55, 0xaa])], Some(PARTITIONS));
        check(&[(BYTES - 512, b"EFI PART")], Some(PARTITIONS));
        check(&[(BYTES - 4096, b"EFI PART")], Some(PARTITIONS));
        check(&[(BYTES - (64 << 10), &MD_MAGIC)], Some(MD));
        check(&[(BYTES - (8 << 10), &MD_MAGIC)], Some(MD));
        for at in [128 << 10, (384 << 10) + 1024, BYTES - (128 << 10), BYTES - (384 << 10) + 5120] {
            check(&[(at, &0x00ba_b10c_u64.to_le_bytes())], Some(ZFS));
        }
        check(&[(0, b"NACRESTO")], Some("a store that this software cannot read"));
    }

    #[test]
    fn a_device_smaller_than_any_store_is_looked_at_as_far_as_it_goes() {
        let file = File::open("/dev/zero").unwrap();
        for bytes in [0, 512, 5000] {
            assert_eq!(occupant(&file, bytes).unwrap(), None);
        }
    }
}
