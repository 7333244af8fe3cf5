//! Methods to make a turn of the store durable: data writes of 4 KiB, one log record, and flushes.
//!
//! `cargo run --release -p reactor --example wal_flush_bench -- FILE [turns]`
//!
//! * `flush`: data and record together, and `fdatasync` after them. Sound on every drive.
//! * `chain`: the data, and after it the record with `RWF_DSYNC`. Sound only if that flushes the drive's whole cache,
//!   as Linux does if the drive has no FUA; with FUA it makes the record durable and leaves the data at risk.
//! * `each`: data and record together, all with `RWF_DSYNC`. Sound on every drive.
//! * `race`: data and record together, the record with `RWF_DSYNC`. Never sound, because the record may become durable
//!   before the data. It bounds the possible gain.
//!
//! The methods take turns, so that a slow moment of the machine affects all of them.

use io_uring::{IoUring, opcode, squeue::Entry, types::Fd, types::FsyncFlags};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};
use types::AlignedBuf;

const DATA_BYTES: u64 = 256 << 20;
const WAL_BYTES: u64 = 16 << 20;
const BLOCK: u64 = 4096;
const BATCHES: [u64; 3] = [1, 8, 32];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Method {
    Flush,
    Chain,
    Each,
    Race,
}

const METHODS: [Method; 4] = [Method::Flush, Method::Chain, Method::Each, Method::Race];

struct Bench {
    ring: IoUring,
    file: File,
    data: AlignedBuf,
    record: AlignedBuf,
    random: u64,
    wal_at: u64,
}

impl Bench {
    fn write(&self, buf: &AlignedBuf, offset: u64, dsync: bool) -> Entry {
        let flags = if dsync { libc::RWF_DSYNC } else { 0 };
        let bytes = buf.as_slice();
        opcode::Write::new(Fd(self.file.as_raw_fd()), bytes.as_ptr(), bytes.len() as u32)
            .offset(offset)
            .rw_flags(flags)
            .build()
    }

    /// Submits the entries and waits for all of them.
    fn wait(&mut self, entries: &[Entry]) {
        for entry in entries {
            #[allow(unsafe_code)]
            // SAFETY: the buffers live as long as `self`, and this returns only when all requests are done.
            unsafe {
                self.ring.submission().push(entry).expect("the ring takes a turn");
            }
        }
        let mut left = entries.len();
        while left > 0 {
            self.ring.submit_and_wait(left).expect("a ring that works");
            for done in self.ring.completion() {
                assert!(done.result() >= 0, "{}", std::io::Error::from_raw_os_error(-done.result()));
                left -= 1;
            }
        }
    }

    fn turn(&mut self, method: Method, batch: u64) {
        let mut writes = Vec::with_capacity(batch as usize + 1);
        for _ in 0..batch {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            let at = WAL_BYTES + self.random % (DATA_BYTES / BLOCK) * BLOCK;
            writes.push(self.write(&self.data, at, method == Method::Each));
        }
        let record = self.write(&self.record, self.wal_at, method != Method::Flush);
        self.wal_at = (self.wal_at + BLOCK) % WAL_BYTES;
        if method == Method::Chain {
            self.wait(&writes);
            return self.wait(&[record]);
        }
        writes.push(record);
        self.wait(&writes);
        if method == Method::Flush {
            let flush = opcode::Fsync::new(Fd(self.file.as_raw_fd())).flags(FsyncFlags::DATASYNC).build();
            self.wait(&[flush]);
        }
    }
}

/// Prints the durations of a method's turns with a batch size, in order.
fn print(batch: u64, method: Method, took: &mut [Duration]) {
    took.sort_unstable();
    let us = |part: f64| took[((took.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e6;
    let iops = (took.len() as u64 * batch) as f64 / took.iter().sum::<Duration>().as_secs_f64();
    let method = format!("{method:?}").to_lowercase();
    println!("{batch:>5}  {method:<6} {iops:>10.0} {:>8.0} {:>8.0} {:>8.0}", us(0.1), us(0.5), us(0.99));
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let path = args.first().expect("a file or device to write to");
    let turns: usize = args.get(1).map_or(3000, |arg| arg.parse().expect("a number of turns"));
    let whole = vec![1; (WAL_BYTES + DATA_BYTES) as usize];
    std::fs::write(path, whole).expect("a file that can be filled");
    let mut options = OpenOptions::new();
    let file = options.write(true).custom_flags(libc::O_DIRECT).open(path).expect("a file with direct I/O");
    file.sync_all().expect("a file that can be synced");
    let ring = IoUring::new(64).expect("a ring");
    let (data, record) = (AlignedBuf::copy_from(&[7; BLOCK as usize]), AlignedBuf::copy_from(&[9; BLOCK as usize]));
    let mut bench = Bench { ring, file, data, record, random: 0x9e37_79b9_7f4a_7c15, wal_at: 0 };
    println!("batch  method   writes/s   p10 us   p50 us   p99 us   ({turns} turns of each)");
    for batch in BATCHES {
        let mut took = METHODS.map(|_| Vec::with_capacity(turns));
        for turn in 0..turns {
            for at in 0..METHODS.len() {
                // The order changes, so that each method follows each other one equally often.
                let at = (at * (1 + turn % 2 * 2) + turn / 2) % METHODS.len();
                let begun = Instant::now();
                bench.turn(METHODS[at], batch);
                took[at].push(begun.elapsed());
            }
        }
        METHODS.iter().zip(&mut took).for_each(|(method, took)| print(batch, *method, took));
    }
}
