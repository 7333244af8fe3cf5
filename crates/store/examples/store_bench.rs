//! Drives a store on a real file, one request after another, and tells what its own work costs.
//!
//! `cargo run --release -p store --example store_bench -- FILE [GIB]` makes FILE (it must not exist) and removes it
//! again. Each row: operations per second as a caller without concurrency sees them, and CPU time per operation spent in
//! the store's code, without the system calls around it.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::time::{Duration, Instant};
use store::{IoDone, IoRequest, Lookup, Step, Store, StoreConfig, StoreEvent, Transaction};
use types::{AlignedBuf, Fsid, ObjectId, OsdId, PgId, PoolId};
use wire::Rope;

/// `open(2)`: no page cache, as the OSD does it.
const O_DIRECT: i32 = 0o40000;
const OBJECT_BYTES: u64 = 4 << 20;
const BLOCK: u64 = 4096;

struct Bench {
    file: File,
    store: Store,
    /// Time in system calls, to be told from the store's own.
    in_device: Duration,
    written_bytes: u64,
    flushes: u64,
    random: u64,
}

fn carry_out(file: &File, request: IoRequest) -> std::io::Result<IoDone> {
    Ok(match request {
        IoRequest::Read { id, offset, mut buf } => {
            file.read_exact_at(buf.as_mut_slice(), offset)?;
            IoDone { id, result: Ok(Some(buf)) }
        }
        IoRequest::Write { id, mut offset, data } => {
            for piece in data.pieces() {
                file.write_all_at(piece, offset)?;
                offset += piece.len() as u64;
            }
            IoDone { id, result: Ok(None) }
        }
        IoRequest::Flush { id } => {
            file.sync_data()?;
            IoDone { id, result: Ok(None) }
        }
        // Left out: it would only keep the file sparse.
        IoRequest::Discard { id, .. } => IoDone { id, result: Ok(None) },
    })
}

impl Bench {
    fn new(file: File, config: StoreConfig) -> Result<Bench, Box<dyn Error>> {
        for request in Store::format(&config)? {
            carry_out(&file, request)?;
        }
        let mut opening = Store::open(config);
        let store = loop {
            if let Some(result) = opening.poll_result() {
                break result?;
            }
            while let Some(request) = opening.poll_io() {
                opening.io_done(carry_out(&file, request)?);
            }
        };
        let (in_device, written_bytes, flushes, random) = Default::default();
        Ok(Bench { file, store, in_device, written_bytes, flushes, random })
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % end
    }

    /// Carries out requests until none is left. Returns results of reads.
    fn pump(&mut self) -> Result<Vec<Rope>, Box<dyn Error>> {
        while let Some(request) = self.store.poll_io() {
            match &request {
                IoRequest::Write { data, .. } => self.written_bytes += data.len() as u64,
                IoRequest::Flush { .. } => self.flushes += 1,
                IoRequest::Read { .. } | IoRequest::Discard { .. } => {}
            }
            let begin = Instant::now();
            let done = carry_out(&self.file, request)?;
            self.in_device += begin.elapsed();
            self.store.io_done(done);
        }
        let mut reads = Vec::new();
        while let Some(event) = self.store.poll_event() {
            match event {
                StoreEvent::ReadDone { result, .. } => reads.push(result?),
                StoreEvent::Failed { reason } => return Err(reason.into()),
                StoreEvent::Committed(_) | StoreEvent::LookupDone(_) => {}
            }
        }
        Ok(reads)
    }

    /// A write as a placement group makes it: data, object information, log entry.
    fn write(&mut self, object: u64, offset: u64, data: Rope, version: u64) -> Result<(), Box<dyn Error>> {
        let object = object_id(object);
        let steps = vec![
            Step::Write { object: object.clone(), offset, data },
            Step::SetAttr { object, name: b"_".to_vec(), value: vec![version as u8; 120].into() },
            Step::PgSet { key: version.to_string().into(), value: vec![version as u8; 160].into() },
            Step::PgSet { key: "info".into(), value: vec![version as u8; 200].into() },
            Step::PgRemove { key: version.saturating_sub(3008).to_string().into() },
        ];
        self.store.submit(Transaction { pg: PgId::new(1, (version % 32) as u32), steps })?;
        Ok(())
    }

    fn row(
        &mut self,
        name: &str,
        operations: u64,
        per_turn: u64,
        mut operate: impl FnMut(&mut Bench, u64) -> Result<(), Box<dyn Error>>,
    ) -> Result<(), Box<dyn Error>> {
        (self.in_device, self.written_bytes, self.flushes) = Default::default();
        let (cpu, begin) = (cpu_time()?, Instant::now());
        let mut turn_max = Duration::ZERO;
        for turn in 0..operations.div_ceil(per_turn) {
            let device_before = self.in_device;
            let turn_begin = Instant::now();
            for n in 0..per_turn {
                operate(self, turn * per_turn + n)?;
            }
            self.store.end_turn();
            self.pump()?;
            turn_max = turn_max.max(turn_begin.elapsed().saturating_sub(self.in_device - device_before));
        }
        while !self.store.is_idle() {
            self.store.end_turn();
            self.pump()?;
        }
        let (wall, cpu) = (begin.elapsed(), cpu_time()? - cpu);
        let own = wall.saturating_sub(self.in_device);
        println!(
            "{name:28} {:>9.0} op/s {:>8.2} us own/op {:>8.2} us cpu/op (system calls included) {:>6.2} KiB written/op {:>7} flushes, longest turn {:>6.2} ms own",
            operations as f64 / wall.as_secs_f64(),
            own.as_secs_f64() * 1e6 / operations as f64,
            cpu.as_secs_f64() * 1e6 / operations as f64,
            self.written_bytes as f64 / 1024.0 / operations as f64,
            self.flushes,
            turn_max.as_secs_f64() * 1e3,
        );
        Ok(())
    }
}

fn object_id(number: u64) -> ObjectId {
    let name = format!("rbd_data.10226b8b4567.{number:016x}");
    ObjectId::head(PoolId(1), (number as u32).wrapping_mul(0x9e37_79b9), b"", name.as_bytes())
}

/// CPU time of this process so far, in kernel and user space.
fn cpu_time() -> std::io::Result<Duration> {
    let stat = std::fs::read_to_string("/proc/self/schedstat")?;
    let nanos = stat.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0);
    Ok(Duration::from_nanos(nanos))
}

/// Resident memory, in bytes.
fn resident() -> std::io::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    Ok(line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: store_bench FILE [GIB]")?;
    let gib: u64 = args.next().map_or(Ok(4), |arg| arg.parse())?;
    let device_bytes = gib << 30;
    let file = OpenOptions::new().read(true).write(true).create_new(true).custom_flags(O_DIRECT).open(&path)?;
    let result = run(file, device_bytes);
    std::fs::remove_file(&path)?;
    result
}

fn run(file: File, device_bytes: u64) -> Result<(), Box<dyn Error>> {
    file.set_len(device_bytes)?;
    let wal_bytes = StoreConfig::default_wal_bytes(device_bytes);
    let config = StoreConfig { device_bytes, wal_bytes, fsid: Fsid([1; 16]), osd: OsdId(0), uuid: Fsid([2; 16]) };
    let mut bench = Bench::new(file, config)?;
    let objects = device_bytes / 2 / OBJECT_BYTES;
    let large: Vec<u8> = (0..OBJECT_BYTES).map(|i| ((i * 31) >> 7) as u8).collect();
    let large = AlignedBuf::copy_from(&large).freeze();
    let small: Vec<u8> = large[..BLOCK as usize].to_vec();

    let before = resident()?;
    bench.row("4 MiB writes, 1 per turn", objects, 1, |bench, n| bench.write(n, 0, large.clone().into(), n))?;
    println!("  {} bytes of memory per 4 MiB object", (resident()? - before) / objects);
    let blocks = objects * OBJECT_BYTES / BLOCK;
    for per_turn in [1, 16, 32] {
        let operations = 4000 * per_turn.min(16);
        bench.row(&format!("4 KiB random writes, {per_turn}/turn"), operations, per_turn, |bench, n| {
            let at = bench.below(blocks) * BLOCK;
            bench.write(at / OBJECT_BYTES, at % OBJECT_BYTES, Rope::from(small.clone()), objects + n)
        })?;
    }
    bench.row("4 KiB random reads, 16/turn", 64_000, 16, |bench, _| {
        let at = bench.below(blocks) * BLOCK;
        match bench.store.read(&object_id(at / OBJECT_BYTES), at % OBJECT_BYTES, BLOCK) {
            Lookup::Ready(data) => assert_eq!(data.len() as u64, BLOCK),
            Lookup::Pending(_) => {}
        }
        Ok(())
    })?;
    bench.row("4 MiB reads, 1 per turn", objects, 1, |bench, n| {
        bench.store.read(&object_id(n), 0, OBJECT_BYTES);
        let got: usize = bench.pump()?.iter().map(Rope::len).sum();
        assert!(got as u64 <= OBJECT_BYTES);
        Ok(())
    })?;
    let before = resident()?;
    let count = 100_000;
    bench.row("new 4 KiB objects, 16/turn", count, 16, |bench, n| {
        bench.write(1 << 32 | n, 0, Rope::from(small.clone()), n)
    })?;
    println!(
        "  {} bytes of memory per 4 KiB object (attribute of 120 bytes included)",
        (resident()?.saturating_sub(before)) / count
    );
    Ok(())
}
