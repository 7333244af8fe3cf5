//! A file with a line for each request that was answered.
//!
//! A thread of its own writes, so that no request waits for a drive. Where the drive is too slow for the requests,
//! lines are left out, and the gateway's log tells how many.

use crate::log_line::LogLine;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Lines that wait to be written.
const WAITING_MAX: usize = 10_000;
/// Bytes of lines that wait.
const WAITING_BYTES_MAX: usize = 16 << 20;
/// Bytes that are written at once.
const BATCH_BYTES: usize = 64 << 10;
/// Time after which the thread looks if it is to open the file again.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Form of the lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AccessLogFormat {
    /// AWS's server access log.
    #[default]
    S3,
    /// An object of JSON in each line.
    Json,
}

/// Shared with the thread that writes.
#[derive(Default)]
struct Shared {
    reopen: AtomicBool,
    /// Lines that were left out, because too many waited.
    lost: AtomicU64,
    /// Bytes of lines that wait.
    waiting_bytes: AtomicUsize,
}

/// A log of requests. Lines are written when it is dropped at the latest.
pub struct AccessLog {
    format: AccessLogFormat,
    shared: Arc<Shared>,
    lines: Option<SyncSender<Vec<u8>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl AccessLog {
    /// Opens a file, or makes it, and adds to it.
    pub fn open(path: &Path, format: AccessLogFormat) -> std::io::Result<AccessLog> {
        let file = append(path)?;
        let shared = Arc::<Shared>::default();
        let (lines, waiting) = sync_channel(WAITING_MAX);
        let writing = Writing { path: path.to_owned(), file, shared: shared.clone(), is_torn: false };
        let writer = std::thread::Builder::new().name("access-log".into()).spawn(move || writing.run(&waiting))?;
        Ok(AccessLog { format, shared, lines: Some(lines), writer: Mutex::new(Some(writer)) })
    }

    /// Opens the file of the same name again, after somebody has moved the present one: within a second.
    pub fn reopen(&self) {
        self.shared.reopen.store(true, Ordering::Relaxed);
    }

    pub(crate) fn write(&self, line: &LogLine) {
        let mut text = match self.format {
            AccessLogFormat::S3 => line.to_s3(),
            AccessLogFormat::Json => line.to_json(),
        };
        text.push('\n');
        let bytes = text.len();
        let waiting = self.shared.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        let has_room = waiting + bytes <= WAITING_BYTES_MAX;
        let lines = self.lines.as_ref().filter(|_| has_room);
        let taken = lines.map(|lines| lines.try_send(text.into_bytes()));
        if !matches!(taken, Some(Ok(()))) {
            self.shared.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        // The thread ends once nobody can send any more.
        self.lines = None;
        if let Some(writer) = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = writer.join();
        }
    }
}

fn append(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o640).open(path)
}

/// The state of the thread that writes.
struct Writing {
    path: PathBuf,
    file: File,
    shared: Arc<Shared>,
    /// A line may have been written in part.
    is_torn: bool,
}

impl Writing {
    fn run(mut self, waiting: &Receiver<Vec<u8>>) {
        loop {
            let mut batch = match waiting.recv_timeout(LOOK_EVERY) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => Vec::new(),
                Err(RecvTimeoutError::Disconnected) => break,
            };
            while batch.len() < BATCH_BYTES
                && let Ok(line) = waiting.try_recv()
            {
                batch.extend_from_slice(&line);
            }
            self.shared.waiting_bytes.fetch_sub(batch.len(), Ordering::Relaxed);
            self.follow();
            if !batch.is_empty() {
                self.write(&batch);
            }
            self.tell_lost();
        }
        self.tell_lost();
    }

    fn tell_lost(&self) {
        let lost = self.shared.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            tracing::warn!("{lost} requests are missing in {}: it was too slow", self.path.display());
        }
    }

    fn follow(&mut self) {
        if !self.shared.reopen.swap(false, Ordering::Relaxed) {
            return;
        }
        match append(&self.path) {
            Ok(file) => (self.file, self.is_torn) = (file, false),
            Err(error) => tracing::error!("cannot open {} again: {error}", self.path.display()),
        }
    }

    fn write(&mut self, batch: &[u8]) {
        let begun = if self.is_torn { self.file.write_all(b"\n") } else { Ok(()) };
        let written = begun.and_then(|()| self.file.write_all(batch));
        if let Err(error) = &written {
            let lines = batch.iter().filter(|byte| **byte == b'\n').count();
            tracing::error!("up to {lines} requests are missing in {}: {error}", self.path.display());
        }
        self.is_torn = written.is_err();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: u32) -> LogLine {
        LogLine { request_id: id.to_string(), ..LogLine::default() }
    }

    fn ids(path: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(path).expect("a file");
        let of = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("JSON")["request_id"].clone();
        text.lines().map(|line| of(line).as_str().expect("a text").to_owned()).collect()
    }

    #[test]
    fn a_file_that_was_moved_is_opened_again() {
        let folder = std::env::temp_dir().join(format!("gateway-access-log-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let (path, moved) = (folder.join("log"), folder.join("log.1"));
        let log = AccessLog::open(&path, AccessLogFormat::Json).expect("a log");
        log.write(&line(1));
        log.write(&line(2));
        while std::fs::read_to_string(&path).expect("a file").lines().count() < 2 {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::fs::rename(&path, &moved).expect("it is moved");
        log.reopen();
        while !path.exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        log.write(&line(3));
        drop(log);
        assert_eq!((ids(&moved), ids(&path)), (vec!["1".into(), "2".into()], vec!["3".to_owned()]));
        // Lines that are there stay.
        let log = AccessLog::open(&path, AccessLogFormat::Json).expect("a log");
        log.write(&line(4));
        drop(log);
        assert_eq!(ids(&path), ["3", "4"]);
        std::fs::remove_dir_all(&folder).expect("it is there");
        assert!(AccessLog::open(&path, AccessLogFormat::S3).is_err(), "the folder is gone");
    }

    /// A drive that takes nothing keeps no request waiting, and uses no more memory than for so many lines.
    #[test]
    fn lines_that_cannot_be_written_are_left_out() {
        let log = AccessLog::open(Path::new("/dev/full"), AccessLogFormat::S3).expect("a device");
        (0..100).for_each(|id| log.write(&line(id)));
        drop(log);
        // A pipe that nobody reads.
        let path = std::env::temp_dir().join(format!("gateway-access-log-pipe-{}", std::process::id()));
        assert!(std::process::Command::new("mkfifo").arg(&path).status().expect("it starts").success());
        let mut reader = OpenOptions::new().read(true).write(true).open(&path).expect("a pipe");
        let log = AccessLog::open(&path, AccessLogFormat::S3).expect("a pipe");
        let long = LogLine { user_agent: Some("a".repeat(60_000)), ..LogLine::default() };
        (0..20_000).for_each(|_| log.write(&long));
        let held = log.shared.waiting_bytes.load(Ordering::Relaxed);
        assert!(held <= WAITING_BYTES_MAX, "{held} bytes wait");
        assert!(log.shared.lost.load(Ordering::Relaxed) > 0, "all lines have room");
        std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
        drop(log);
        std::fs::remove_file(&path).expect("it is there");
    }
}
