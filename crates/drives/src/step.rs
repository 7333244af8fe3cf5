//! Steps, and doing them. A step that fails ends the list; what was done before it stays, and is told.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};
use serde::Serialize;

use crate::claims::is_claimed;

/// Bytes at either end of a device in which content has its marks.
const EDGE_BYTES: u64 = 2 << 20;
/// Bytes of one write.
const PIECE_BYTES: u64 = 4 << 20;
/// The kernel shows a new device, and forgets one that is gone, within this time.
const APPEARS_WITHIN: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(50);

/// Something that is done to a drive.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Runs a program of Debian's `package`.
    Command { program: String, args: Vec<String>, package: String },
    /// Waits until the kernel shows a device.
    Appears { path: PathBuf },
    /// Waits until the kernel shows a device no more.
    Disappears { path: PathBuf },
    /// Overwrites a device or file with zeros: its two ends, or all of it.
    Zero { path: PathBuf, from_byte: u64, bytes: u64, whole: bool },
}

/// The reason why a step was not done.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    #[error("cannot run {program}; on Debian it is in the package {package}")]
    Program { program: String, package: String, source: io::Error },
    #[error("'{command}' failed: {said}")]
    Failed { command: String, said: String },
    #[error("{path} did not appear within {} s", APPEARS_WITHIN.as_secs())]
    Missing { path: PathBuf },
    #[error("{path} is still there after {} s", APPEARS_WITHIN.as_secs())]
    Left { path: PathBuf },
    #[error("{path} is in use")]
    InUse { path: PathBuf },
    #[error("cannot overwrite {path}")]
    Write { path: PathBuf, source: io::Error },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Command { program, args, .. } => write!(f, "{program} {}", args.join(" ")),
            Step::Appears { path } => write!(f, "wait for {}", path.display()),
            Step::Disappears { path } => write!(f, "wait until {} is gone", path.display()),
            Step::Zero { path, bytes, whole: true, .. } => {
                write!(f, "overwrite all {} MiB of {} with zeros", bytes >> 20, path.display())
            }
            Step::Zero { path, from_byte: 0, .. } => write!(f, "overwrite both ends of {} with zeros", path.display()),
            Step::Zero { path, from_byte, bytes, .. } => write!(
                f,
                "overwrite both ends of the {} MiB from {} MiB on of {} with zeros",
                bytes >> 20,
                from_byte >> 20,
                path.display()
            ),
        }
    }
}

/// Does a step.
///
/// Errors: [`StepError`]; a program that failed may have done a part.
pub fn carry_out(step: &Step) -> Result<(), StepError> {
    match step {
        Step::Command { program, args, package } => command(step, program, args, package),
        Step::Appears { path } if wait_until_exists(path, true, APPEARS_WITHIN) => Ok(()),
        Step::Appears { path } => Err(StepError::Missing { path: path.clone() }),
        Step::Disappears { path } if wait_until_exists(path, false, APPEARS_WITHIN) => Ok(()),
        Step::Disappears { path } => Err(StepError::Left { path: path.clone() }),
        Step::Zero { path, from_byte, bytes, whole } => {
            let file = take(path)?;
            let written = match whole {
                true => zero(&file, *from_byte, *bytes),
                false => {
                    let edge = EDGE_BYTES.min(*bytes);
                    zero(&file, *from_byte, edge).and_then(|()| zero(&file, from_byte + bytes - edge, edge))
                }
            };
            written.and_then(|()| file.sync_all()).map_err(|source| StepError::Write { path: path.clone(), source })
        }
    }
}

/// Waits until something is at `path`, or nothing; false: not within `limit`.
fn wait_until_exists(path: &Path, wanted: bool, limit: Duration) -> bool {
    let end = Instant::now() + limit;
    while path.exists() != wanted {
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(POLL);
    }
    true
}

fn command(step: &Step, program: &str, args: &[String], package: &str) -> Result<(), StepError> {
    let mut command = Command::new(program);
    // LVM warns of files that a caller has left open; nobody is to read that here.
    command.args(args).stdin(Stdio::null()).env("LVM_SUPPRESS_FD_WARNINGS", "1");
    let output = command.output().map_err(|source| StepError::Program {
        program: program.to_owned(),
        package: package.to_owned(),
        source,
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = [&output.stderr, &output.stdout].map(|bytes| String::from_utf8_lossy(bytes).trim().to_owned());
    let said = said.into_iter().find(|text| !text.is_empty()).unwrap_or_else(|| output.status.to_string());
    Err(StepError::Failed { command: step.to_string(), said })
}

/// Opens a device or file that nobody else uses; nobody else can claim it as long as this is open.
fn take(path: &Path) -> Result<File, StepError> {
    let failed = |source| StepError::Write { path: path.to_owned(), source };
    if is_claimed(path) {
        return Err(StepError::InUse { path: path.to_owned() });
    }
    let is_device = std::fs::metadata(path).map_err(failed)?.file_type().is_block_device();
    let mut options = File::options();
    options.read(true).write(true);
    if is_device {
        options.custom_flags(OFlags::EXCL.bits() as i32);
    }
    let file = options.open(path).map_err(|source| match source.kind() {
        io::ErrorKind::ResourceBusy => StepError::InUse { path: path.to_owned() },
        _ => failed(source),
    })?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(_) => Err(StepError::InUse { path: path.to_owned() }),
    }
}

fn zero(file: &File, from: u64, bytes: u64) -> io::Result<()> {
    let piece = vec![0; usize::try_from(PIECE_BYTES.min(bytes)).unwrap_or(0)];
    let mut at = from;
    while at < from + bytes {
        let length = (from + bytes - at).min(PIECE_BYTES);
        file.write_all_at(&piece[..usize::try_from(length).unwrap_or(0)], at)?;
        at += length;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str, bytes: &[u8]) -> Scratch {
            let path = std::env::temp_dir().join(format!("nacre-step-{name}-{}", std::process::id()));
            std::fs::write(&path, bytes).unwrap();
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn ends_or_everything_become_zeros() {
        let size = 3 * EDGE_BYTES;
        let file = Scratch::new("zero", &vec![7; size as usize]);
        let zero = |from_byte, bytes, whole| Step::Zero { path: file.0.clone(), from_byte, bytes, whole };
        let sevens = || std::fs::read(&file.0).unwrap().iter().filter(|byte| **byte == 7).count() as u64;
        carry_out(&zero(0, size, false)).unwrap();
        assert_eq!(sevens(), EDGE_BYTES);
        carry_out(&zero(EDGE_BYTES + 4096, 8192, false)).unwrap();
        assert_eq!(sevens(), EDGE_BYTES - 8192, "no byte beyond the part");
        carry_out(&zero(0, size, true)).unwrap();
        assert_eq!((sevens(), std::fs::metadata(&file.0).unwrap().len()), (0, size));
    }

    #[test]
    fn what_somebody_uses_is_not_overwritten() {
        let file = Scratch::new("used", b"data");
        let other = File::open(&file.0).unwrap();
        flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
        let step = Step::Zero { path: file.0.clone(), from_byte: 0, bytes: 4, whole: true };
        assert!(matches!(carry_out(&step), Err(StepError::InUse { .. })));
        assert_eq!(std::fs::read(&file.0).unwrap(), b"data");
    }

    #[test]
    fn devices_that_come_and_go_are_waited_for() {
        let file = Scratch::new("comes", b"");
        let soon = Duration::from_millis(200);
        assert!(wait_until_exists(&file.0, true, soon) && !wait_until_exists(&file.0, false, soon));
        let path = file.0.clone();
        let remover = std::thread::spawn(move || std::fs::remove_file(path).unwrap());
        assert!(wait_until_exists(&file.0, false, APPEARS_WITHIN) && !wait_until_exists(&file.0, true, soon));
        remover.join().unwrap();
        carry_out(&Step::Disappears { path: file.0.clone() }).unwrap();
    }

    #[test]
    fn programs_that_fail_or_are_missing_are_told() {
        let run = |program: &str, args: &[&str]| {
            let args = args.iter().map(|arg| (*arg).to_owned()).collect();
            carry_out(&Step::Command { program: program.into(), args, package: "tools".into() })
        };
        run("true", &[]).unwrap();
        let error = run("sh", &["-c", "echo no room >&2; exit 5"]).unwrap_err().to_string();
        assert!(error.contains("failed: no room"), "{error}");
        assert!(run("false", &[]).unwrap_err().to_string().contains("exit status: 1"));
        let error = run("no-such-program", &[]).unwrap_err().to_string();
        assert!(error.contains("package tools"), "{error}");
    }
}
