//! The write path of a drive: 4 KiB writes, each batch followed by a flush.
//!
//! `cargo run --release -p reactor --example flush_bench -- FILE [uring|epoll] [writes per flush] [flushes]`
//!
//! With `fresh` as a fifth argument the blocks are written for the first time (the file system must allocate them);
//! otherwise the file is filled before. Prints the time and the processor time (of all threads, kernel workers
//! included) per batch.

use bytes::Bytes;
use reactor::{BackendKind, Config, ConnId, Event, FileId, FileOptions, Handler, Io, LoopIo, Reactor};
use std::time::{Duration, Instant};
use types::AlignedBuf;

struct Writer {
    file: FileId,
    block: Bytes,
    batch: u64,
    outstanding: u64,
    left: u64,
    at: u64,
}

const FILE_BYTES: u64 = 64 << 20;
const FLUSH: u64 = u64::MAX;

impl Writer {
    fn write(&mut self, io: &mut LoopIo) {
        for _ in 0..self.batch {
            io.write(self.file, self.at, vec![self.block.clone()], 0);
            self.at = (self.at + 4096) % FILE_BYTES;
            self.outstanding += 1;
        }
    }
}

impl Handler<LoopIo> for Writer {
    fn received(&mut self, _io: &mut LoopIo, _conn: ConnId, bytes: &[u8]) -> usize {
        bytes.len()
    }

    fn event(&mut self, io: &mut LoopIo, event: Event) {
        let Event::Disk { io: id, result } = event else { return };
        result.expect("no error");
        if id == FLUSH {
            self.left -= 1;
            if self.left == 0 {
                io.stop()
            } else {
                self.write(io)
            }
            return;
        }
        self.outstanding -= 1;
        if self.outstanding == 0 {
            io.flush(self.file, FLUSH);
        }
    }
}

fn process_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let path = args.first().expect("a file or device to write to");
    let backend = match args.get(1).map(String::as_str) {
        Some("epoll") => BackendKind::Epoll,
        Some("uring") | None => BackendKind::Uring,
        Some(other) => panic!("{other} is neither uring nor epoll"),
    };
    let number = |index: usize, default: u64| args.get(index).map_or(default, |arg| arg.parse().expect("a number"));
    let (batch, flushes) = (number(2, 1), number(3, 2000));
    let mut reactor = Reactor::new(Config { backend, ..Config::default() }).expect("a reactor");
    let io = reactor.io();
    if args.get(4).is_none_or(|arg| arg != "fresh") {
        std::fs::write(path, vec![1; FILE_BYTES as usize]).expect("a file that can be filled");
        std::fs::File::open(path).and_then(|file| file.sync_all()).expect("a file that can be filled");
    }
    let options =
        FileOptions { direct: true, create: true, len_bytes: FILE_BYTES, lock: true, ..FileOptions::default() };
    let file = io.open_file(path.as_ref(), options).expect("a file");
    let block = AlignedBuf::copy_from(&[7; 4096]).freeze();
    let mut writer = Writer { file, block, batch, outstanding: 0, left: flushes, at: 0 };
    writer.write(io);
    let (begun, before) = (Instant::now(), process_cpu());
    reactor.run(&mut writer).expect("the loop runs");
    let (took, cpu) = (begun.elapsed(), process_cpu() - before);
    let per_flush = |time: Duration| time.as_secs_f64() * 1e6 / flushes as f64;
    println!(
        "{backend:?}, {batch} writes per flush: {:.0} us and {:.1} us of CPU per flush, {:.1} turns per flush",
        per_flush(took),
        per_flush(cpu),
        reactor.io().stats().turns as f64 / flushes as f64,
    );
}
