//! Reads partition tables of the kind GPT (UEFI specification, chapter 5) from a device or an image of one.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Sectors of these sizes are looked for.
const SECTOR_BYTES: [u64; 2] = [512, 4096];
const SIGNATURE: &[u8] = b"EFI PART";
/// More entries than this are no table of ours, nor of anybody who has partitions in mind.
const ENTRIES_MAX: u32 = 1024;
const ENTRY_BYTES_MIN: u32 = 128;
const ENTRY_BYTES_MAX: u32 = 4096;

/// A partition as its table has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// From 1.
    pub number: u32,
    pub name: String,
    pub first_byte: u64,
    pub bytes: u64,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// The partitions in use on `file`; `None` if it has no whole table of this kind.
///
/// Errors: reading failed.
pub fn read(file: &File) -> io::Result<Option<Vec<Entry>>> {
    for sector in SECTOR_BYTES {
        if let Some(entries) = read_with(file, sector)? {
            return Ok(Some(entries));
        }
    }
    Ok(None)
}

fn read_with(file: &File, sector: u64) -> io::Result<Option<Vec<Entry>>> {
    let mut header = [0; 92];
    match file.read_exact_at(&mut header, sector) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let (header_crc, entries_at) = (u32_at(&header, 16), u64_at(&header, 72));
    let (count, entry_bytes, entries_crc) = (u32_at(&header, 80), u32_at(&header, 84), u32_at(&header, 88));
    header[16..20].fill(0);
    let fits = (ENTRY_BYTES_MIN..=ENTRY_BYTES_MAX).contains(&entry_bytes) && count <= ENTRIES_MAX;
    if !header.starts_with(SIGNATURE) || u32_at(&header, 12) != 92 || crc32(&header) != header_crc || !fits {
        return Ok(None);
    }
    let Some(offset) = entries_at.checked_mul(sector) else { return Ok(None) };
    let (Ok(count), Ok(entry_bytes)) = (usize::try_from(count), usize::try_from(entry_bytes)) else { return Ok(None) };
    let mut table = vec![0; count * entry_bytes];
    match file.read_exact_at(&mut table, offset) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    if crc32(&table) != entries_crc {
        return Ok(None);
    }
    let entry = |(index, bytes): (usize, &[u8])| {
        let (first, last) = (u64_at(bytes, 32), u64_at(bytes, 40));
        let is_used = bytes[..16].iter().any(|byte| *byte != 0);
        let sectors = last.checked_sub(first)?.checked_add(1)?;
        let name: Vec<u16> = bytes[56..128].chunks(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
        let name = String::from_utf16_lossy(name.split(|unit| *unit == 0).next().unwrap_or_default());
        let (first_byte, bytes) = (first.checked_mul(sector)?, sectors.checked_mul(sector)?);
        is_used.then(|| Entry { number: u32::try_from(index).map_or(0, |index| index + 1), name, first_byte, bytes })
    };
    Ok(Some(table.chunks_exact(entry_bytes).enumerate().filter_map(entry).collect()))
}

/// CRC-32 as Ethernet has it: reflected polynomial 0xedb88320.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 })
    };
    !bytes.iter().fold(u32::MAX, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_standard() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    /// A table with one partition of `sectors` from sector 8 on, in an image of 64 sectors.
    fn image(sector: u64, sectors: u64) -> Vec<u8> {
        let mut entries = vec![0; 128 * 4];
        entries[128..144].fill(7);
        entries[128 + 32..128 + 40].copy_from_slice(&8u64.to_le_bytes());
        entries[128 + 40..128 + 48].copy_from_slice(&(8 + sectors - 1).to_le_bytes());
        for (at, unit) in "data-0".encode_utf16().enumerate() {
            entries[128 + 56 + at * 2..128 + 58 + at * 2].copy_from_slice(&unit.to_le_bytes());
        }
        let mut header = vec![0; 92];
        header[..8].copy_from_slice(SIGNATURE);
        header[12..16].copy_from_slice(&92u32.to_le_bytes());
        header[72..80].copy_from_slice(&2u64.to_le_bytes());
        header[80..84].copy_from_slice(&4u32.to_le_bytes());
        header[84..88].copy_from_slice(&128u32.to_le_bytes());
        header[88..92].copy_from_slice(&crc32(&entries).to_le_bytes());
        let crc = crc32(&header);
        header[16..20].copy_from_slice(&crc.to_le_bytes());
        let mut image = vec![0; 64 * sector as usize];
        image[sector as usize..sector as usize + 92].copy_from_slice(&header);
        image[2 * sector as usize..2 * sector as usize + entries.len()].copy_from_slice(&entries);
        image
    }

    fn read_image(image: &[u8]) -> Option<Vec<Entry>> {
        let path = std::env::temp_dir().join(format!("nacre-gpt-{}", std::process::id()));
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.write_all_at(image, 0).unwrap();
        read(&file).unwrap()
    }

    #[test]
    fn tables_are_read_and_damaged_ones_are_none() {
        for sector in SECTOR_BYTES {
            let good = image(sector, 16);
            let want = Entry { number: 2, name: "data-0".into(), first_byte: 8 * sector, bytes: 16 * sector };
            assert_eq!(read_image(&good), Some(vec![want]));
            // Any byte of the header and of the entries counts.
            for at in [sector as usize + 30, 2 * sector as usize + 200] {
                let mut bad = good.clone();
                bad[at] ^= 1;
                assert_eq!(read_image(&bad), None, "byte {at}");
            }
            assert_eq!(read_image(&good[..2 * sector as usize + 100]), None, "cut off");
        }
        assert_eq!(read_image(&[0; 8192]), None);
        assert_eq!(read_image(&[]), None);
    }
}
