//! Drives a store on a real file, one request after another, and reports the costs of the store's own work.
//!
//! `cargo run --release -p store --example store_bench -- FILE [GIB [ROWS]]` makes FILE (it must not exist) and removes
//! it again. Each row: CPU time per operation in user space, which is the store's own work, and in the kernel, one
//! system call per request; and operations per second as a caller without concurrency sees them.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::time::{Duration, Instant};
use store::{IoDone, IoRequest, Lookup, Step, Store, StoreConfig, StoreEvent, Transaction};
use types::{AlignedBuf, Fsid, ObjectId, OsdId, PgId, PoolId};
use wire::Rope;

/// Flag of `open(2)`: no page cache, as the OSD opens its files.
const O_DIRECT: i32 = 0o40000;
const OBJECT_BYTES: u64 = 4 << 20;
const BLOCK: u64 = 4096;

struct Bench {
    file: File,
    store: Store,
    written_bytes: u64,
    flushes: u64,
    random: u64,
    /// Rows to run: those whose name contains this.
    only: String,
}

fn carry_out(file: &File, request: IoRequest) -> std::io::Result<IoDone> {
    Ok(match request {
        IoRequest::Read { id, offset, mut buf, .. } => {
            file.read_exact_at(buf.as_mut_slice(), offset)?;
            IoDone { id, result: Ok(Some(buf)) }
        }
        IoRequest::Write { id, mut offset, data, .. } => {
            for piece in data.pieces() {
                file.write_all_at(piece, offset)?;
                offset += piece.len() as u64;
            }
            IoDone { id, result: Ok(None) }
        }
        IoRequest::Flush { id, .. } => {
            file.sync_data()?;
            IoDone { id, result: Ok(None) }
        }
        // Discards are left out: they would only keep the file sparse.
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
        Ok(Bench { file, store, written_bytes: 0, flushes: 0, random: 1, only: String::new() })
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
            let done = carry_out(&self.file, request)?;
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

    /// Writes as a placement group does: data, object information, log entry.
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
        if !name.contains(&self.only) {
            return Ok(());
        }
        (self.written_bytes, self.flushes) = (0, 0);
        let ((user, system), begin) = (cpu_time()?, Instant::now());
        for turn in 0..operations.div_ceil(per_turn) {
            for n in 0..per_turn {
                operate(self, turn * per_turn + n)?;
            }
            self.store.end_turn();
            self.pump()?;
        }
        while !self.store.is_idle() {
            self.store.end_turn();
            self.pump()?;
        }
        let (wall, after) = (begin.elapsed(), cpu_time()?);
        let per_operation = |time: Duration| time.as_secs_f64() * 1e6 / operations as f64;
        println!(
            "{name:28} {:>8.2} us user, {:>8.2} us system per operation; {:>7.2} KiB written per operation, {:>6} \
                flushes; {:>7.0} operations/s",
            per_operation(after.0 - user),
            per_operation(after.1 - system),
            self.written_bytes as f64 / 1024.0 / operations as f64,
            self.flushes,
            operations as f64 / wall.as_secs_f64(),
        );
        Ok(())
    }
}

fn object_id(number: u64) -> ObjectId {
    let name = format!("rbd_data.10226b8b4567.{number:016x}");
    ObjectId::head(PoolId(1), (number as u32).wrapping_mul(0x9e37_79b9), b"", name.as_bytes())
}

/// Returns the CPU time of this process so far: in user space, which is the store's own work, and in the kernel. In
/// steps of 10 ms.
fn cpu_time() -> std::io::Result<(Duration, Duration)> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|ticks| ticks.parse::<u64>().ok()).unwrap_or(0);
    Ok((Duration::from_millis(ticks(11) * 10), Duration::from_millis(ticks(12) * 10)))
}

/// Returns the resident memory, in bytes.
fn resident() -> std::io::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    Ok(line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: store_bench FILE [GIB [ROWS]]")?;
    let gib: u64 = args.next().map_or(Ok(4), |arg| arg.parse())?;
    let device_bytes = gib << 30;
    let file = OpenOptions::new().read(true).write(true).create_new(true).custom_flags(O_DIRECT).open(&path)?;
    let result = run(file, device_bytes, &args.next().unwrap_or_default());
    std::fs::remove_file(&path)?;
    result
}

fn run(file: File, device_bytes: u64, only: &str) -> Result<(), Box<dyn Error>> {
    file.set_len(device_bytes)?;
    let wal_bytes = StoreConfig::default_wal_bytes(device_bytes);
    let config = StoreConfig::one_device(device_bytes, wal_bytes, Fsid([1; 16]), OsdId(0), Fsid([2; 16]));
    let mut bench = Bench::new(file, config)?;
    let objects = device_bytes / 2 / OBJECT_BYTES;
    let large: Vec<u8> = (0..OBJECT_BYTES).map(|i| ((i * 31) >> 7) as u8).collect();
    let large = AlignedBuf::copy_from(&large).freeze();
    let small: Vec<u8> = large[..BLOCK as usize].to_vec();

    let before = resident()?;
    bench.row("4 MiB writes, 1 per turn", objects, 1, |bench, n| bench.write(n, 0, large.clone().into(), n))?;
    println!("  {} bytes of memory per 4 MiB object", (resident()? - before) / objects);
    bench.only = only.into();
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
            Lookup::Damaged(damage) => panic!("{damage}"),
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
