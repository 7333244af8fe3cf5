//! The holder of a store that cannot be opened because it is in use.
//!
//! A process that was killed has its store until the kernel has carried out what it had asked of the disk: on a slow
//! disk that takes seconds. An OSD that is started meanwhile waits for that. Where somebody who runs has the store it
//! does not, and says who it is.

use crate::Stop;
use devices::StorePaths;
use std::fmt;
use std::io;
use std::os::linux::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};
use types::OsdId;

/// A killed process's writes are waited for so long.
const WAITS_FOR: Duration = Duration::from_secs(30);
/// How often it is tried again; each attempt itself waits for up to two seconds.
const TRY_EVERY: Duration = Duration::from_millis(100);

/// The holder of a file's lock.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Holder {
    /// Another process that runs, and its command line.
    Process(u32, String),
    /// The lock is held, but its holder does not show up as a process that runs.
    Nobody,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Holder::Process(pid, command) => write!(f, "process {pid} has it open ({command})"),
            Holder::Nobody => {
                let waited = WAITS_FOR.as_secs();
                write!(
                    f,
                    "no process that can be seen has it locked, and it has not become free within {waited} s: a \
                     process that was killed may still have writes in the disk, it may be mounted, or somebody in \
                     another container has it"
                )
            }
        }
    }
}

/// Returns the pid of the process that has locked the whole file, from the lines of `/proc/locks`.
fn locked_by(locks: &str, (major, minor, inode): (u32, u32, u64)) -> Option<u32> {
    let file = format!("{major:02x}:{minor:02x}:{inode}");
    let of = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        // A process that waits for a lock is listed with an arrow in front of its kind.
        let [_, "FLOCK", _, _, pid, at, ..] = words[..] else { return None };
        (at == file).then(|| pid.parse().ok())?
    };
    locks.lines().find_map(of)
}

fn holder(path: &Path) -> Holder {
    running_holder(path).unwrap_or(Holder::Nobody)
}

fn running_holder(path: &Path) -> Option<Holder> {
    let stat = std::fs::metadata(path).ok()?;
    let device = stat.st_dev();
    let file = (rustix::fs::major(device), rustix::fs::minor(device), stat.st_ino());
    let pid = locked_by(&std::fs::read_to_string("/proc/locks").ok()?, file)?;
    if pid == std::process::id() {
        // This process has locked the file itself, for its first shard. Another process must hold the part of a further
        // shard.
        return None;
    }
    // Whoever ends has no command line any more.
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).ok().filter(|words| !words.is_empty())?;
    let words = words.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect::<Vec<_>>().join(" ");
    Some(Holder::Process(pid, words.trim_end().to_owned()))
}

/// Repeats `open` while a process that was killed still has the store.
///
/// Errors: those of `open`; of a store that is in use, who has it. `Ok(None)`: the OSD was told to stop meanwhile.
pub(crate) fn once_free<T>(
    id: OsdId,
    paths: &StorePaths,
    stop: &Stop,
    mut open: impl FnMut() -> io::Result<T>,
) -> io::Result<Option<T>> {
    let end = Instant::now() + WAITS_FOR;
    let mut is_told = false;
    loop {
        let error = match open() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => error,
            result => return result.map(Some),
        };
        if stop.is_wanted() {
            return Ok(None);
        }
        let all = [Some(&paths.main), paths.wal.as_ref(), paths.metadata.as_ref()];
        let mut holders = all.into_iter().flatten().map(|path| holder(path));
        let holder = holders.find(|holder| *holder != Holder::Nobody).unwrap_or(Holder::Nobody);
        if holder != Holder::Nobody || Instant::now() >= end {
            return Err(io::Error::new(error.kind(), format!("{error}; {holder}")));
        }
        if !std::mem::replace(&mut is_told, true) {
            let waits_s = WAITS_FOR.as_secs();
            tracing::warn!(osd = id.0, waits_s, "{error}; nobody runs who has it: waiting for what was killed before");
        }
        std::thread::sleep(TRY_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use devices::{DeviceFiles, Division};
    use reactor::Reactor;
    use std::fs::File;
    use std::process::Command;

    const LOCKS: &str = "1: POSIX  ADVISORY  READ  1010 00:18:1105 128 128\n\
                         2: FLOCK  ADVISORY  WRITE 4711 fe:00:2049 0 EOF\n\
                         2: -> FLOCK  ADVISORY  WRITE 4712 fe:00:2050 0 EOF\n\
                         3: OFDLCK ADVISORY  WRITE -1 fe:00:2051 0 4095\n";

    fn scratch(name: &str) -> StorePaths {
        let main = std::env::temp_dir().join(format!("nacre-{name}-{}", std::process::id()));
        std::fs::write(&main, b"a store").unwrap();
        StorePaths { main, wal: None, metadata: None }
    }

    fn lock(path: &Path) -> io::Result<File> {
        let file = File::open(path)?;
        rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
        Ok(file)
    }

    #[test]
    fn who_has_a_lock_is_told_by_device_and_inode() {
        let found = |inode| locked_by(LOCKS, (0xfe, 0, inode));
        assert_eq!((found(2049), found(2050), found(2051), found(1)), (Some(4711), None, None, None));
        assert_eq!(locked_by(LOCKS, (0, 0x18, 1105)), None, "another kind of lock");
    }

    #[test]
    fn who_runs_and_has_the_store_is_named_at_once() {
        let paths = scratch("held");
        let mut holder = Command::new("flock")
            .args(["--exclusive", "--no-fork"])
            .arg(&paths.main)
            .args(["sleep", "20"])
            .spawn()
            .unwrap();
        while lock(&paths.main).is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
        let began = Instant::now();
        let error = once_free(OsdId(3), &paths, &Stop::new().unwrap(), || lock(&paths.main)).unwrap_err();
        std::fs::remove_file(&paths.main).unwrap();
        holder.kill().unwrap();
        holder.wait().unwrap();
        assert!(began.elapsed() < Duration::from_secs(10), "it does not wait for who runs");
        let named = format!("process {} has it open (", holder.id());
        assert!(error.to_string().contains(&named), "{error}");
    }

    #[test]
    fn what_was_killed_before_is_waited_for() {
        let paths = scratch("killed");
        let mut tries = 0;
        let opened = once_free(OsdId(3), &paths, &Stop::new().unwrap(), || {
            tries += 1;
            if tries < 5 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(tries) }
        });
        assert_eq!(opened.unwrap(), Some(5));
        let other = once_free(OsdId(3), &paths, &Stop::new().unwrap(), || -> io::Result<()> {
            Err(io::ErrorKind::NotFound.into())
        });
        assert_eq!(other.unwrap_err().kind(), io::ErrorKind::NotFound);
        std::fs::remove_file(&paths.main).unwrap();
    }

    /// A process locks the store and is gone; the kernel lets go of it four seconds later.
    #[test]
    fn an_osd_that_is_started_again_opens_its_store_once_what_was_killed_lets_go_of_it() {
        let paths = scratch("lingering");
        std::fs::write(&paths.main, vec![0; 1 << 20]).unwrap();
        let lingering = File::open(&paths.main).unwrap();
        let locked = Command::new("flock").args(["--exclusive", "0"]).stdin(lingering.try_clone().unwrap()).status();
        assert!(locked.unwrap().success());
        assert!(lock(&paths.main).is_err() && holder(&paths.main) == Holder::Nobody);
        let mut reactor = Reactor::new(reactor::Config::default()).unwrap();
        let began = Instant::now();
        let lets_go = std::thread::spawn(|| {
            std::thread::sleep(Duration::from_secs(4));
            drop(lingering);
        });
        let opened = once_free(OsdId(3), &paths, &Stop::new().unwrap(), || {
            DeviceFiles::open(reactor.io(), &paths, Division::WHOLE)
        });
        std::fs::remove_file(&paths.main).unwrap();
        assert!(opened.unwrap().is_some() && began.elapsed() >= Duration::from_secs(4));
        lets_go.join().unwrap();
    }

    #[test]
    fn whoever_is_told_to_stop_waits_no_longer() {
        let paths = scratch("stopped");
        let stop = Stop::new().unwrap();
        stop.stop();
        let opened = once_free(OsdId(3), &paths, &stop, || -> io::Result<()> { Err(io::ErrorKind::WouldBlock.into()) });
        std::fs::remove_file(&paths.main).unwrap();
        assert_eq!(opened.unwrap(), None);
    }
}
