//! Capabilities of the machine without a cluster: its drive with direct requests, its loopback network.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bench::ceiling::Ceilings;
use bench::random::Random;
use types::aligned::AlignedBuf;

/// Duration of each measurement.
const TIME: Duration = Duration::from_secs(2);
/// Size of the file. One larger than a drive's own memory would be better, but wear the drive more.
const FILE_BYTES: u64 = 1 << 30;
const LARGE_BYTES: usize = 1 << 20;
const SMALL_BYTES: usize = 4096;
/// Requests in flight, a thread each.
const LARGE_IN_FLIGHT: u64 = 8;
const SMALL_IN_FLIGHT: u64 = 32;

/// Measures the drive of `folder` by a file that is removed afterwards, and the loopback network. Takes about ten
/// seconds.
///
/// Errors: the file cannot be made, or requests fail.
pub fn measure(folder: &Path) -> std::io::Result<Ceilings> {
    let file = Scratch::make(folder)?;
    // The first pass allocates the file's blocks, so that later passes measure the drive and not the file system.
    file.load(LARGE_BYTES, LARGE_IN_FLIGHT, true, Some(FILE_BYTES), true)?;
    let per_s = |rate: f64, bytes: usize| Some(rate * bytes as f64);
    Ok(Ceilings {
        drive_write_bytes_per_s: per_s(file.load(LARGE_BYTES, LARGE_IN_FLIGHT, true, None, true)?, LARGE_BYTES),
        drive_read_bytes_per_s: per_s(file.load(LARGE_BYTES, LARGE_IN_FLIGHT, false, None, true)?, LARGE_BYTES),
        drive_writes_per_s: Some(file.load(SMALL_BYTES, SMALL_IN_FLIGHT, true, None, false)?),
        drive_reads_per_s: Some(file.load(SMALL_BYTES, SMALL_IN_FLIGHT, false, None, false)?),
        loopback_bytes_per_s: Some(loopback()?),
    })
}

/// A file that is removed when dropped.
struct Scratch {
    path: PathBuf,
    file: std::fs::File,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Scratch {
    fn make(folder: &Path) -> std::io::Result<Scratch> {
        let path = folder.join(format!("nacre-bench-ceiling.{}", std::process::id()));
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(true).create_new(true);
        let direct = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).expect("flags fit");
        let file = options.custom_flags(direct).open(&path)?;
        let scratch = Scratch { path, file };
        scratch.file.set_len(FILE_BYTES)?;
        Ok(scratch)
    }

    /// Requests per second of `bytes` each, with `in_flight` at a time, for [`TIME`] or until `limit` bytes have been
    /// moved.
    fn load(
        &self,
        bytes: usize,
        in_flight: u64,
        write: bool,
        limit: Option<u64>,
        sequential: bool,
    ) -> std::io::Result<f64> {
        let places = FILE_BYTES / bytes as u64;
        let next = AtomicU64::new(0);
        let stop = AtomicBool::new(false);
        let begun = Instant::now();
        let worker = |number: u64| -> std::io::Result<u64> {
            let mut buffer = AlignedBuf::zeroed(bytes);
            // Random bytes do not compress.
            let mut random = Random::new(number, bytes as u64);
            buffer
                .as_mut_slice()
                .chunks_exact_mut(8)
                .for_each(|word| word.copy_from_slice(&random.next_u64().to_le_bytes()));
            let mut done = 0;
            while !stop.load(Ordering::Relaxed) {
                let turn = next.fetch_add(1, Ordering::Relaxed);
                let over = limit.map_or(begun.elapsed() >= TIME, |limit| turn * bytes as u64 >= limit);
                if over {
                    break;
                }
                let place = if sequential { turn % places } else { random.below(places) } * bytes as u64;
                let result = match write {
                    true => self.file.write_all_at(buffer.as_slice(), place),
                    false => self.file.read_exact_at(buffer.as_mut_slice(), place),
                };
                if let Err(error) = result {
                    stop.store(true, Ordering::Relaxed);
                    return Err(error);
                }
                done += 1;
            }
            Ok(done)
        };
        let done = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..in_flight).map(|number| scope.spawn(move || worker(number))).collect();
            let joined = workers.into_iter().map(|one| one.join().expect("no worker panics"));
            joined.sum::<std::io::Result<u64>>()
        })?;
        if write {
            self.file.sync_data()?;
        }
        Ok(done as f64 / begun.elapsed().as_secs_f64())
    }
}

/// Bytes per second over loopback connections of this machine, two at a time because each has two busy ends.
fn loopback() -> std::io::Result<f64> {
    let begun = Instant::now();
    let pair = || -> std::io::Result<u64> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut sender = TcpStream::connect(listener.local_addr()?)?;
        let (mut receiver, _) = listener.accept()?;
        std::thread::scope(|scope| {
            let sending = scope.spawn(move || {
                let data = vec![0x5a; 1 << 18];
                while begun.elapsed() < TIME && sender.write_all(&data).is_ok() {}
            });
            let mut buffer = vec![0; 1 << 18];
            let mut sum = 0;
            loop {
                match receiver.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(count) => sum += count as u64,
                    Err(error) => return Err(error),
                }
            }
            sending.join().expect("sending does not panic");
            Ok(sum)
        })
    };
    let sum = std::thread::scope(|scope| {
        let pairs: Vec<_> = (0..2).map(|_| scope.spawn(pair)).collect();
        pairs.into_iter().map(|one| one.join().expect("no pair panics")).sum::<std::io::Result<u64>>()
    })?;
    Ok(sum as f64 / begun.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_is_measured_and_nothing_stays() {
        // Some file systems in memory refuse direct requests; the build's own folder lies on a drive.
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let before = std::fs::read_dir(folder).unwrap().count();
        let file = Scratch::make(folder).unwrap();
        let writes = file.load(SMALL_BYTES, 4, true, Some(4 << 20), true).unwrap();
        assert!(writes > 10.0, "{writes}");
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), before + 1);
        drop(file);
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), before);
        assert!(measure(Path::new("/nowhere/at/all")).is_err());
    }
}
