//! Files that are read and written through the page cache.
//!
//! Once a flush has failed, the kernel counts the pages that it could not write as clean. Later reads, also after a
//! restart of the process, then return bytes that are not on the disk, and the next flush succeeds. A file that is
//! opened is therefore read from the disk.

use rustix::fs::{Advice, fadvise, fstat, fstatfs, fsync};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

/// Magics of file systems whose only memory is the page cache.
const IN_MEMORY: [u64; 3] = [0x0102_1994, 0x8584_58f6, 0x9584_58f6];
/// Number of attempts, and the pause between them: a queue of the kernel's or a reader may hold a page for a moment.
const TRIES: u32 = 20;
const TRY_AGAIN: Duration = Duration::from_millis(10);
/// Size of the pieces in which pages are counted.
const PIECE_BYTES: u64 = 1 << 30;

/// Drops the file's pages, so that every later read comes from the disk. No other process may write to the file
/// meanwhile.
///
/// Errors: earlier writes cannot be flushed.
pub(crate) fn forget_cached(fd: &OwnedFd, path: &Path) -> io::Result<()> {
    if mutant::is(mutant::Mutant::CacheBelieved) || IN_MEMORY.contains(&(fstatfs(fd)?.f_type as u64)) {
        return Ok(());
    }
    // Only clean pages are dropped, which include those that a failed flush wrongly marked as clean.
    fsync(fd)?;
    for _ in 0..TRIES {
        fadvise(fd, 0, None, Advice::DontNeed)?;
        if cached_pages(fd)? == 0 {
            return Ok(());
        }
        std::thread::sleep(TRY_AGAIN);
    }
    tracing::warn!(
        path = %path.display(),
        "the page cache does not let go of this file: \
         if a flush of it failed since this machine started, restart the machine"
    );
    Ok(())
}

/// Number of the file's pages in the page cache.
fn cached_pages(fd: &OwnedFd) -> io::Result<usize> {
    let (mut cached, bytes) = (0, fstat(fd)?.st_size as u64);
    let mut flags = Vec::new();
    for offset in (0..bytes).step_by(PIECE_BYTES as usize) {
        let len = PIECE_BYTES.min(bytes - offset) as usize;
        flags.clear();
        flags.resize(len.div_ceil(page_bytes()), 0u8);
        #[allow(unsafe_code)]
        // SAFETY: the mapping is new and known only here, and no memory in it is read or written; `flags` has a byte
        // for each of its pages, as `mincore` requires.
        let result = unsafe {
            let address = mmap(std::ptr::null_mut(), len, ProtFlags::empty(), MapFlags::SHARED, fd, offset)?;
            let result = libc::mincore(address, len, flags.as_mut_ptr());
            let error = io::Error::last_os_error();
            munmap(address, len)?;
            if result < 0 { Err(error) } else { Ok(()) }
        };
        result?;
        cached += flags.iter().filter(|flag| **flag & 1 == 1).count();
    }
    Ok(cached)
}

fn page_bytes() -> usize {
    #[allow(unsafe_code)]
    // SAFETY: the call only returns a number.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).ok().filter(|bytes| *bytes > 0).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn nothing_of_a_file_stays_in_the_page_cache() {
        let path = std::env::temp_dir().join(format!("nacre-page-cache-{}", std::process::id()));
        std::fs::write(&path, vec![7; 3_000_000]).unwrap();
        let fd = OwnedFd::from(File::options().read(true).write(true).open(&path).unwrap());
        let in_memory = IN_MEMORY.contains(&(fstatfs(&fd).unwrap().f_type as u64));
        assert!(cached_pages(&fd).unwrap() > 700, "just written");
        forget_cached(&fd, &path).unwrap();
        assert!(in_memory || cached_pages(&fd).unwrap() == 0);
        assert_eq!(std::fs::read(&path).unwrap(), vec![7; 3_000_000]);
        std::fs::remove_file(&path).unwrap();
    }
}
