//! The page cache is not trusted when a monitor's store is opened.
//!
//! Once a flush has failed, the kernel counts the pages that it could not write as clean: a process that reads them,
//! also after a restart, gets votes and entries that are not on the disk, and the next flush succeeds. A monitor that
//! relied on them would forget its promises with the next loss of power.

use rustix::fs::{Advice, FlockOperation, OFlags, fadvise, flock, fsync};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use types::AlignedBuf;

/// Bytes compared at once.
const PIECE_BYTES: usize = 1 << 20;
const BLOCK_BYTES: u64 = 4096;

/// Makes later reads of the file come from the disk.
///
/// Errors: earlier writes cannot be flushed; or the page cache keeps something else than the disk has.
pub(super) fn forget_cached(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    // A process that finds the file open already gets the database's error.
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(());
    }
    // Only clean pages are dropped, the wrongly clean ones among them.
    fsync(&file)?;
    fadvise(&file, 0, None, Advice::DontNeed)?;
    let direct = OpenOptions::new().read(true).custom_flags(OFlags::DIRECT.bits() as i32).open(path);
    match direct {
        Ok(direct) => compare(&file, &direct),
        // The file system is most often one in memory. There is no other way to its content.
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => Ok(()),
        Err(e) => Err(e),
    }
}

/// Checks that a file reads the same through the page cache and around it.
fn compare(cached: &File, direct: &File) -> io::Result<()> {
    let bytes = cached.metadata()?.len() / BLOCK_BYTES * BLOCK_BYTES;
    let (mut here, mut there) = (vec![0; PIECE_BYTES], AlignedBuf::zeroed(PIECE_BYTES));
    for offset in (0..bytes).step_by(PIECE_BYTES) {
        let len = (bytes - offset).min(PIECE_BYTES as u64) as usize;
        direct.read_exact_at(&mut there.as_mut_slice()[..len], offset)?;
        cached.read_exact_at(&mut here[..len], offset)?;
        if here[..len] != there.as_slice()[..len] {
            return Err(io::Error::other(format!(
                "behind byte {offset} the page cache has something else than the disk, which failed before: restart \
                 the machine"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_read_from_the_disk_and_keeps_what_it_has() {
        let path = std::env::temp_dir().join(format!("nacre-mon-page-cache-{}", std::process::id()));
        let content: Vec<u8> = (0..3_000_000u32).map(|n| (n >> 8) as u8).collect();
        std::fs::write(&path, &content).unwrap();
        forget_cached(&path).unwrap();
        assert!(std::fs::read(&path).unwrap() == content);
        // A difference is reported, wherever it is.
        let other = path.with_extension("other");
        let mut changed = content.clone();
        changed[2_500_000] ^= 1;
        std::fs::write(&other, changed).unwrap();
        let [one, two] = [&path, &other].map(|path| File::open(path).unwrap());
        compare(&one, &one).unwrap();
        let error = compare(&one, &two).unwrap_err().to_string();
        assert!(error.contains("restart the machine"), "{error}");
        [path, other].iter().for_each(|path| std::fs::remove_file(path).unwrap());
    }
}
