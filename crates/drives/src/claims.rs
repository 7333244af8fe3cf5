//! Tells if somebody has a device or file for himself.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags, flock};

/// True if the kernel or a program has claimed what is at `path`: by opening a device for itself alone (mounts,
/// volumes, OSDs), by a lock (OSDs), or by having it open for writing (OSDs of several shards lock their parts only).
pub(crate) fn is_claimed(path: &Path) -> bool {
    let Ok(metadata) = fs::metadata(path) else { return false };
    if metadata.file_type().is_block_device() {
        let mut options = File::options();
        options.read(true).custom_flags(OFlags::EXCL.bits() as i32);
        if options.open(path).is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy) {
            return true;
        }
    }
    let is_locked = File::open(path).is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared).is_err());
    is_locked || is_written_by_another(&identity(&metadata))
}

/// Numbers that two names of one device or file have in common.
fn identity(metadata: &Metadata) -> (bool, u64, u64) {
    match metadata.file_type().is_block_device() {
        true => (true, metadata.rdev(), 0),
        false => (false, metadata.dev(), metadata.ino()),
    }
}

/// True if another process has it open for writing, as far as this user may see.
fn is_written_by_another(wanted: &(bool, u64, u64)) -> bool {
    let own = std::process::id().to_string();
    let folders = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    folders(Path::new("/proc"))
        .filter(|process| {
            let name = process.file_name();
            let name = name.to_string_lossy();
            name.bytes().all(|byte| byte.is_ascii_digit()) && *name != *own
        })
        .any(|process| {
            folders(&process.path().join("fd")).any(|open| {
                fs::metadata(open.path()).is_ok_and(|metadata| identity(&metadata) == *wanted)
                    && is_for_writing(&process.path().join("fdinfo").join(open.file_name()))
            })
        })
}

/// True if the kernel's facts about an open file have a mode of access that allows writing.
fn is_for_writing(fdinfo: &Path) -> bool {
    const ACCESS: u32 = 0o3;
    let text = fs::read_to_string(fdinfo).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).is_some_and(|flags| flags & ACCESS != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn locks_and_writers_claim_a_file() {
        let path = std::env::temp_dir().join(format!("nacre-claims-{}", std::process::id()));
        fs::write(&path, "x").unwrap();
        assert!(!is_claimed(&path));
        let locked = File::open(&path).unwrap();
        flock(&locked, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert!(is_claimed(&path));
        drop(locked);
        let open = |writes: bool| File::options().read(true).write(writes).open(&path).unwrap();
        for (writes, is_one) in [(false, false), (true, true)] {
            let mut child = Command::new("sleep").arg("60").stdin(Stdio::from(open(writes))).spawn().unwrap();
            assert_eq!(is_claimed(&path), is_one, "writes: {writes}");
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(!is_claimed(&path));
        }
        fs::remove_file(&path).unwrap();
        assert!(!is_claimed(&path), "nobody has what is not there");
    }
}
