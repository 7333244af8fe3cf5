//! Disk requests: written data is read back, in pieces of any alignment; errors are errnos.

use super::scenario::{Scenario, check, pattern_bytes};
use bytes::Bytes;
use reactor::{Event, FileId, FileOptions, Io};
use std::collections::BTreeMap;
use std::path::PathBuf;
use types::AlignedBuf;

/// A path that no other test uses, in a file system that has direct I/O if the build folder's has.
fn fresh_path(name: &str) -> PathBuf {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}-{count}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

struct WriteThenRead {
    path: PathBuf,
    direct: bool,
    file: Option<FileId>,
    results: BTreeMap<u64, Result<Option<Vec<u8>>, i32>>,
}

const BLOCK: usize = 4096;

impl WriteThenRead {
    fn new(direct: bool) -> WriteThenRead {
        WriteThenRead { path: fresh_path("write-then-read"), direct, file: None, results: BTreeMap::new() }
    }

    fn bytes(&self, io: u64) -> &[u8] {
        match &self.results[&io] {
            Ok(Some(bytes)) => bytes,
            other => panic!("request {io} gave {other:?}"),
        }
    }
}

impl Scenario for WriteThenRead {
    fn start<I: Io>(&mut self, io: &mut I) {
        let options = FileOptions { direct: self.direct, ..FileOptions::default() };
        let missing = io.open_file(&self.path, options).expect_err("the file does not exist");
        assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
        let options = FileOptions { create: true, len_bytes: 1 << 20, lock: true, ..options };
        let file = io.open_file(&self.path, options).expect("a new file");
        assert_eq!(io.file_len_bytes(file).expect("length"), 1 << 20);
        let again = io.open_file(&self.path, options).expect_err("it is locked");
        assert_eq!(again.kind(), std::io::ErrorKind::WouldBlock);
        self.file = Some(file);
        // These are one aligned piece, many small pieces of odd sizes, and an empty write.
        io.write(file, 0, vec![AlignedBuf::copy_from(&pattern_bytes(0, BLOCK)).freeze()], 1);
        let odd = Bytes::from(pattern_bytes(BLOCK, 3 * BLOCK));
        let pieces = (0..3 * BLOCK).step_by(7).map(|at| odd.slice(at..(at + 7).min(3 * BLOCK))).collect();
        io.write(file, BLOCK as u64, pieces, 2);
        io.write(file, 0, vec![], 3);
        // This write has more aligned pieces than one call takes.
        let block = AlignedBuf::copy_from(&pattern_bytes(0, BLOCK)).freeze();
        io.write(file, 1 << 20, vec![block; 1500], 4);
    }

    fn event<I: Io>(&mut self, io: &mut I, event: Event) {
        let Event::Disk { io: id, result } = event else { panic!("unexpected {event:?}") };
        let result = result.map(|buf| buf.map(|buf| buf.as_slice().to_vec()));
        assert!(self.results.insert(id, result).is_none(), "request {id} is done twice");
        let file = self.file.expect("open");
        match self.results.len() {
            4 => io.flush(file, 5),
            5 => {
                assert_eq!(io.file_len_bytes(file).expect("length"), (1 << 20) + 1500 * BLOCK as u64);
                io.read(file, 0, AlignedBuf::zeroed(4 * BLOCK), 6);
                io.read(file, (1 << 20) + 1499 * BLOCK as u64, AlignedBuf::zeroed(BLOCK), 7);
                // The first read reaches past the end, the second is entirely behind it, and the third is empty.
                io.read(file, (1 << 20) + 1499 * BLOCK as u64, AlignedBuf::zeroed(2 * BLOCK), 8);
                io.read(file, 1 << 30, AlignedBuf::zeroed(BLOCK), 9);
                io.read(file, 0, AlignedBuf::zeroed(0), 10);
            }
            10 => io.discard(file, BLOCK as u64, 2 * BLOCK as u64, 11),
            11 => {
                io.read(file, 0, AlignedBuf::zeroed(4 * BLOCK), 12);
                // The file is closed only after this read is done.
                io.close_file(file);
            }
            12 => io.stop(),
            _ => {}
        }
    }

    fn check(&mut self) {
        for io in [1, 2, 3, 4, 5, 11] {
            assert_eq!(self.results[&io], Ok(None), "request {io}");
        }
        assert!(self.bytes(6) == pattern_bytes(0, 4 * BLOCK));
        assert!(self.bytes(7) == pattern_bytes(0, BLOCK));
        assert_eq!((&self.results[&8], &self.results[&9]), (&Err(5), &Err(5)), "EIO behind the end");
        assert_eq!(self.bytes(10), [0; 0]);
        let mut punched = pattern_bytes(0, 4 * BLOCK);
        punched[BLOCK..3 * BLOCK].fill(0);
        assert!(self.bytes(12) == punched);
        let _ = std::fs::remove_file(&self.path);
    }
}

#[test]
fn what_was_written_is_read() {
    check(|| WriteThenRead::new(false));
    check(|| WriteThenRead::new(true));
}

/// Many requests at once, more than the queue has room for.
struct Many {
    path: PathBuf,
    file: Option<FileId>,
    writes: u64,
    reads: u64,
}

const MANY: u64 = 200;

impl Scenario for Many {
    fn start<I: Io>(&mut self, io: &mut I) {
        let options =
            FileOptions { direct: true, create: true, preallocate: true, len_bytes: 1 << 20, ..FileOptions::default() };
        let file = io.open_file(&self.path, options).expect("a new file");
        self.file = Some(file);
        for n in 0..MANY {
            let data = AlignedBuf::copy_from(&pattern_bytes(n as usize, BLOCK)).freeze();
            io.write(file, n * BLOCK as u64, vec![data], n);
        }
    }

    fn event<I: Io>(&mut self, io: &mut I, event: Event) {
        let Event::Disk { io: n, result } = event else { panic!("unexpected {event:?}") };
        let file = self.file.expect("open");
        match result.expect("no error") {
            None => {
                self.writes += 1;
                if self.writes == MANY {
                    for n in 0..MANY {
                        let buf = io.buffer(BLOCK);
                        io.read(file, n * BLOCK as u64, buf, n);
                    }
                }
            }
            Some(buf) => {
                assert!(buf.as_slice() == pattern_bytes(n as usize, BLOCK), "block {n}");
                self.reads += 1;
                if self.reads == MANY {
                    io.stop();
                }
            }
        }
    }

    fn check(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[test]
fn more_requests_than_the_queue_holds() {
    check(|| Many { path: fresh_path("many"), file: None, writes: 0, reads: 0 });
}
