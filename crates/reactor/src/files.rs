//! Open files and devices.

use crate::page_cache::forget_cached;
use crate::{FileId, FileOptions};
use rustix::fs::{self, FallocateFlags, FileType, FlockOperation, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) struct File {
    fd: OwnedFd,
    /// Offsets, lengths and memory must be aligned.
    pub(crate) direct: bool,
    outstanding: usize,
    closing: bool,
}

impl File {
    pub(crate) fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// Longest time after a process was killed during which its files may still be locked.
const LOCKED_AFTER_DEATH: Duration = Duration::from_secs(2);

/// Repeats `attempt` while another process has the file. The kernel closes the files of a killed process's io_uring a
/// little after the process is gone, so this waits for it.
///
/// Errors: `EWOULDBLOCK` if another process has the file.
fn once_free<T>(mut attempt: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    let end = Instant::now() + LOCKED_AFTER_DEATH;
    loop {
        match attempt() {
            Err(Errno::WOULDBLOCK | Errno::BUSY) if Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(20));
            }
            // Opening a claimed block device fails with `EBUSY`.
            Err(Errno::BUSY) => return Err(Errno::WOULDBLOCK),
            result => return result,
        }
    }
}

/// Magic of NFS, where a lock of a part would exclude the lock of the whole file that another descriptor of this
/// process holds.
const NFS_MAGIC: u64 = 0x6969;

/// Locks bytes of the file until the opened file is closed; requests in flight keep it open.
fn lock_part(fd: &OwnedFd, (offset, bytes): (u64, u64)) -> Result<(), Errno> {
    if fs::fstatfs(fd)?.f_type as u64 == NFS_MAGIC {
        return Ok(());
    }
    let part = libc::flock {
        l_type: libc::F_WRLCK as _,
        l_whence: libc::SEEK_SET as _,
        l_start: offset as _,
        l_len: bytes as _,
        l_pid: 0,
    };
    #[allow(unsafe_code)]
    // SAFETY: the descriptor is open, and `part` lives until the call has returned.
    let result = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_OFD_SETLK, &part) };
    if result < 0 {
        let error = io::Error::last_os_error();
        // Both errors mean that another process has the part.
        let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
        return Err(if errno == Errno::ACCESS { Errno::WOULDBLOCK } else { errno });
    }
    Ok(())
}

#[derive(Default)]
pub(crate) struct Files(Vec<Option<File>>);

impl Files {
    pub(crate) fn open(&mut self, path: &Path, options: FileOptions) -> io::Result<FileId> {
        let (fd, direct) = open(path, options)?;
        if options.lock && !mutant::is(mutant::Mutant::LockIgnored) {
            once_free(|| fs::flock(&fd, FlockOperation::NonBlockingLockExclusive))?;
        }
        if let Some(part) = options.lock_part {
            once_free(|| lock_part(&fd, part))?;
        }
        if options.direct && !direct {
            forget_cached(&fd, path)?;
        }
        let stat = fs::fstat(&fd)?;
        if FileType::from_raw_mode(stat.st_mode).is_file()
            && !options.read_only
            && (stat.st_size as u64) < options.len_bytes
        {
            if options.preallocate {
                fs::fallocate(&fd, FallocateFlags::empty(), 0, options.len_bytes)?;
            } else {
                fs::ftruncate(&fd, options.len_bytes)?;
            }
        }
        let file = Some(File { fd, direct, outstanding: 0, closing: false });
        let slot = self.0.iter().position(Option::is_none).unwrap_or_else(|| {
            self.0.push(None);
            self.0.len() - 1
        });
        self.0[slot] = file;
        Ok(FileId(slot as u32))
    }

    pub(crate) fn get(&self, id: FileId) -> &File {
        self.0
            .get(id.0 as usize)
            .and_then(Option::as_ref)
            .filter(|file| !file.closing)
            .unwrap_or_else(|| panic!("{id:?} is not open"))
    }

    pub(crate) fn len_bytes(&self, id: FileId) -> io::Result<u64> {
        let fd = &self.get(id).fd;
        let stat = fs::fstat(fd)?;
        if FileType::from_raw_mode(stat.st_mode).is_block_device() {
            return Ok(fs::seek(fd, SeekFrom::End(0))?);
        }
        Ok(stat.st_size as u64)
    }

    pub(crate) fn is_regular(&self, id: FileId) -> io::Result<bool> {
        Ok(FileType::from_raw_mode(fs::fstat(&self.get(id).fd)?.st_mode).is_file())
    }

    /// Begins a request to this file; it keeps the file open until [`Files::end`].
    pub(crate) fn begin(&mut self, id: FileId) {
        self.get(id);
        self.0[id.0 as usize].as_mut().expect("just found").outstanding += 1;
    }

    /// The file of a request that has begun; the file may be closing.
    pub(crate) fn busy(&self, id: FileId) -> &File {
        self.0[id.0 as usize].as_ref().expect("a file with requests stays")
    }

    pub(crate) fn end(&mut self, id: FileId) {
        let file = self.0[id.0 as usize].as_mut().expect("a file with requests stays");
        file.outstanding -= 1;
        self.free_if_idle(id);
    }

    pub(crate) fn close(&mut self, id: FileId) {
        self.get(id);
        self.0[id.0 as usize].as_mut().expect("just found").closing = true;
        self.free_if_idle(id);
    }

    fn free_if_idle(&mut self, id: FileId) {
        let slot = &mut self.0[id.0 as usize];
        if slot.as_ref().is_some_and(|file| file.closing && file.outstanding == 0) {
            *slot = None;
        }
    }
}

/// Opens a file, with direct I/O if requested and possible.
fn open(path: &Path, options: FileOptions) -> io::Result<(OwnedFd, bool)> {
    let access = if options.read_only { OFlags::RDONLY } else { OFlags::RDWR };
    let mut flags = access | OFlags::CLOEXEC;
    flags.set(OFlags::CREATE, options.create);
    if options.lock && fs::stat(path).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_block_device()) {
        // A lock would concern the device node, of which there may be several; the claim concerns the device.
        flags.remove(OFlags::CREATE);
        flags.insert(OFlags::EXCL);
    }
    let mode = Mode::RUSR | Mode::WUSR;
    let open = |flags| once_free(|| fs::open(path, flags, mode));
    if options.direct {
        match open(flags | OFlags::DIRECT) {
            Ok(fd) => return Ok((fd, true)),
            Err(Errno::INVAL) => {
                tracing::warn!(path = %path.display(), "no direct I/O on this file system; using the page cache");
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok((open(flags)?, false))
}
