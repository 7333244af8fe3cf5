//! Measures a store as it ages: it is filled, overwritten at random many times over, partly deleted, and read in
//! sequence.
//!
//! `cargo run --release -p store --example ageing [-- FILE] [GIB [PERCENT [TIMES]]]` (2 GiB, filled to 90 %, 10 times).
//! Without FILE, the device keeps metadata in memory and forgets data (which is all alike), so that CPU time of the
//! store itself is measured. With FILE (made, and removed at the end), requests go to it, one at a time, and the clock
//! is measured.

use bytes::Bytes;
use std::collections::HashMap;
use std::error::Error;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::time::{Duration, Instant};
use store::{IoDone, IoRequest, Lookup, Step, Store, StoreConfig, StoreEvent, Transaction};
use types::{AlignedBuf, Fsid, ObjectId, OsdId, PgId, PoolId};
use wire::Rope;

type Outcome<T> = Result<T, Box<dyn Error>>;

const BLOCK: u64 = 4096;
const OBJECT_BYTES: u64 = 4 << 20;
/// Number of writes that share a turn.
const DEPTH: u64 = 32;
/// Assumed throughput of the store, from which it learns the time.
const WRITES_PER_SECOND: u64 = 20_000;
/// Number of writes in a measured stretch, per GiB of the device: less than the free space of a nearly full device.
const SAMPLE_PER_GIB: u64 = 8000;
const O_DIRECT: i32 = 0x4000;

enum Device {
    /// Blocks that differ from the one that all data is made of.
    Forgetful(HashMap<u64, Bytes>),
    File(File),
}

struct Bed {
    device: Device,
    store: Store,
    /// The content of all data blocks.
    data: Bytes,
    random: u64,
    version: u64,
    written_bytes: u64,
    writes: u64,
    reads: u64,
    slowest_turn: Duration,
    /// Returns the number of writes in a measured stretch.
    sample: u64,
}

fn object_id(number: u64) -> ObjectId {
    let name = format!("rbd_data.10226b8b4567.{number:016x}");
    ObjectId::head(PoolId(1), (number as u32).wrapping_mul(0x9e37_79b9), b"", name.as_bytes())
}

/// Returns the CPU time of this thread so far.
fn cpu_time() -> Outcome<Duration> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(Duration::from_nanos(stat.split(' ').next().unwrap_or_default().parse()?))
}

impl Device {
    fn carry_out(&mut self, data: &Bytes, request: IoRequest) -> Outcome<IoDone> {
        let (id, result) = match (self, request) {
            (Device::Forgetful(kept), IoRequest::Read { id, offset, mut buf, .. }) => {
                for (at, block) in (offset / BLOCK..).zip(buf.as_mut_slice().chunks_exact_mut(BLOCK as usize)) {
                    block.copy_from_slice(&kept.get(&at).unwrap_or(data)[..BLOCK as usize]);
                }
                (id, Some(buf))
            }
            (Device::Forgetful(kept), IoRequest::Write { id, offset, data: written, .. }) => {
                let mut at = offset / BLOCK;
                for piece in written.pieces() {
                    let alike = data.as_ptr_range().contains(&piece.as_ptr());
                    for block in (0..piece.len()).step_by(BLOCK as usize) {
                        match alike {
                            true => drop(kept.remove(&at)),
                            false => {
                                drop(kept.insert(at, Bytes::copy_from_slice(&piece[block..block + BLOCK as usize])))
                            }
                        }
                        at += 1;
                    }
                }
                (id, None)
            }
            (Device::File(file), IoRequest::Read { id, offset, mut buf, .. }) => {
                file.read_exact_at(buf.as_mut_slice(), offset)?;
                (id, Some(buf))
            }
            (Device::File(file), IoRequest::Write { id, mut offset, data, .. }) => {
                for piece in data.pieces() {
                    file.write_all_at(piece, offset)?;
                    offset += piece.len() as u64;
                }
                (id, None)
            }
            (Device::File(file), IoRequest::Flush { id, .. }) => {
                file.sync_data()?;
                (id, None)
            }
            (_, IoRequest::Flush { id, .. } | IoRequest::Discard { id, .. }) => (id, None),
        };
        Ok(IoDone { id, result: Ok(result) })
    }
}

impl Bed {
    fn new(mut device: Device, config: StoreConfig) -> Outcome<Bed> {
        let sample = SAMPLE_PER_GIB * config.device_bytes.div_ceil(1 << 30);
        let data = AlignedBuf::copy_from(&vec![0x5a; OBJECT_BYTES as usize]).freeze();
        for request in Store::format(&config)? {
            device.carry_out(&data, request)?;
        }
        let mut opening = Store::open(config);
        let store = loop {
            if let Some(result) = opening.poll_result() {
                break result?;
            }
            while let Some(request) = opening.poll_io() {
                opening.io_done(device.carry_out(&data, request)?);
            }
        };
        Ok(Bed {
            device,
            store,
            data,
            random: 1,
            version: 0,
            written_bytes: 0,
            writes: 0,
            reads: 0,
            slowest_turn: Duration::ZERO,
            sample,
        })
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % end
    }

    fn turn(&mut self) -> Outcome<()> {
        let begin = Instant::now();
        self.store.end_turn();
        self.slowest_turn = self.slowest_turn.max(begin.elapsed());
        while let Some(request) = self.store.poll_io() {
            match &request {
                IoRequest::Write { data, .. } => {
                    self.writes += 1;
                    self.written_bytes += data.len() as u64;
                }
                IoRequest::Read { .. } => self.reads += 1,
                IoRequest::Flush { .. } | IoRequest::Discard { .. } => {}
            }
            self.store.io_done(self.device.carry_out(&self.data, request)?);
        }
        while let Some(event) = self.store.poll_event() {
            match event {
                StoreEvent::ReadDone { result, .. } => drop(result?),
                StoreEvent::Failed { reason } => return Err(reason.into()),
                StoreEvent::Committed(_) | StoreEvent::LookupDone(_) => {}
            }
        }
        Ok(())
    }

    fn settle(&mut self) -> Outcome<()> {
        self.turn()?;
        while !self.store.is_idle() {
            self.turn()?;
        }
        Ok(())
    }

    fn submit(&mut self, steps: Vec<Step>) -> Outcome<()> {
        self.store.submit(Transaction { pg: PgId::new(1, (self.version % 32) as u32), steps })?;
        self.version += 1;
        Ok(())
    }

    /// Writes as a placement group does: data and a log entry.
    fn write(&mut self, object: u64, offset: u64, len: u64) -> Outcome<()> {
        let data = Rope::from(self.data.slice(..len as usize));
        let log = Step::PgSet { key: (self.version % 100_000).to_string().into(), value: vec![7; 160].into() };
        self.submit(vec![Step::Write { object: object_id(object), offset, data }, log])
    }

    /// Overwrites single blocks of these objects at random.
    fn overwrite(&mut self, objects: &[u64], count: u64) -> Outcome<()> {
        for n in 0..count {
            while self.store.is_behind() {
                self.turn()?;
            }
            let (object, block) = (self.below(objects.len() as u64), self.below(OBJECT_BYTES / BLOCK));
            self.write(objects[object as usize], block * BLOCK, BLOCK)?;
            if n % DEPTH == DEPTH - 1 {
                self.turn()?;
            }
            if n % WRITES_PER_SECOND == 0 {
                self.store.tick();
            }
        }
        self.turn()
    }

    /// Overwrites like [`Bench::overwrite`] for a measured stretch. Returns writes per second: of CPU time, or by the
    /// clock if there is a real device.
    fn sample(&mut self, what: &str, objects: &[u64]) -> Outcome<f64> {
        (self.written_bytes, self.writes, self.slowest_turn) = (0, 0, Duration::ZERO);
        let (begin, cpu_before) = (Instant::now(), cpu_time()?);
        self.overwrite(objects, self.sample)?;
        let (wall, cpu) = (begin.elapsed(), cpu_time()? - cpu_before);
        let rate = self.sample as f64 / self.measure(wall, cpu).as_secs_f64();
        println!(
            "{what:34} {rate:>8.0} writes/s; {:>5.2} us of CPU per write, longest turn {:>6.0} us; {:>5.2} requests \
                and {:>5.2} KiB written per write",
            cpu.as_secs_f64() * 1e6 / self.sample as f64,
            self.slowest_turn.as_secs_f64() * 1e6,
            self.writes as f64 / self.sample as f64,
            self.written_bytes as f64 / 1024.0 / self.sample as f64,
        );
        Ok(rate)
    }

    fn measure(&self, wall: Duration, cpu: Duration) -> Duration {
        if matches!(self.device, Device::File(_)) { wall } else { cpu }
    }

    /// Reads these objects whole.
    fn read_all(&mut self, what: &str, objects: &[u64]) -> Outcome<f64> {
        self.settle()?;
        let (mut requests, begin, cpu_before) = (0, Instant::now(), cpu_time()?);
        for object in objects {
            let before = self.reads;
            if let Lookup::Pending(_) = self.store.read(&object_id(*object), 0, OBJECT_BYTES) {
                // No turn is made, so that nothing else reads.
                while let Some(request) = self.store.poll_io() {
                    self.reads += u64::from(matches!(request, IoRequest::Read { .. }));
                    self.store.io_done(self.device.carry_out(&self.data, request)?);
                }
                while let Some(event) = self.store.poll_event() {
                    if let StoreEvent::ReadDone { result, .. } = event {
                        assert_eq!(result?.len() as u64, OBJECT_BYTES);
                    }
                }
            }
            requests += self.reads - before;
        }
        let mib = objects.len() as f64 * (OBJECT_BYTES >> 20) as f64;
        let (wall, cpu) = (begin.elapsed(), cpu_time()? - cpu_before);
        let rate = mib / self.measure(wall, cpu).as_secs_f64();
        println!("{what:34} {rate:>8.0} MiB/s; {:>7.2} requests per MiB", requests as f64 / mib);
        Ok(rate)
    }

    fn describe(&mut self, objects: &[u64]) -> Outcome<()> {
        let mut extents = 0;
        for object in objects {
            if let Lookup::Ready(found) = self.store.placement(&object_id(*object), 0, OBJECT_BYTES) {
                extents += found.len();
            }
        }
        let (free, usage) = (self.store.free_space(), self.store.usage());
        let percent = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
        println!(
            "  {:.0} % full; {:.1} pieces per object; of the free space {:.0} % is in whole units; free runs, from \
                (KiB): number:{}",
            percent(usage.total_bytes - usage.free_bytes, usage.total_bytes),
            extents as f64 / objects.len().max(1) as f64,
            percent(free.whole_units_bytes, free.bytes()),
            free.runs.iter().map(|runs| format!(" {}: {}", runs.min_bytes >> 10, runs.runs)).collect::<String>(),
        );
        Ok(())
    }

    /// Lets seconds without clients pass, until nothing more is moved.
    fn rest(&mut self) -> Outcome<u32> {
        let mut ticks = 0;
        while !self.store.is_compact() {
            self.store.tick();
            (0..100).try_for_each(|_| self.turn())?;
            ticks += 1;
        }
        Ok(ticks)
    }
}

fn run(device: Device, device_bytes: u64, percent: u64, times: u64) -> Outcome<()> {
    let wal_bytes = StoreConfig::default_wal_bytes(device_bytes);
    let config = StoreConfig::one_device(device_bytes, wal_bytes, Fsid([1; 16]), OsdId(0), Fsid([2; 16]));
    let mut bed = Bed::new(device, config)?;
    let objects: Vec<u64> = (0..device_bytes * percent / 100 / OBJECT_BYTES).collect();
    for object in &objects {
        bed.write(*object, 0, OBJECT_BYTES)?;
        bed.turn()?;
    }
    bed.settle()?;
    bed.describe(&objects)?;
    let read_fresh = bed.read_all("fresh, read in sequence", &objects)?;
    let fresh = bed.sample("fresh, 4 KiB overwrites", &objects)?;
    let count = objects.len() as u64 * OBJECT_BYTES / BLOCK * times;
    bed.overwrite(&objects, count.saturating_sub(bed.sample))?;
    bed.settle()?;
    bed.describe(&objects)?;
    let aged = bed.sample(&format!("aged ({times}x), 4 KiB overwrites"), &objects)?;
    let read_aged = bed.read_all("aged, read in sequence", &objects)?;
    let before = bed.store.relocation_stats();
    let ticks = bed.rest()?;
    let moved = bed.store.relocation_stats();
    println!(
        "  rested {ticks} s, each of 100 turns: {} MiB in {} pieces moved (before: {} MiB in {}); {} windows noted, \
            {} given up, {} walks",
        (moved.moved_bytes - before.moved_bytes) >> 20,
        moved.moves - before.moves,
        before.moved_bytes >> 20,
        before.moves,
        moved.noted,
        moved.given_up,
        moved.walks
    );
    bed.describe(&objects)?;
    let read_rested = bed.read_all("rested, read in sequence", &objects)?;
    let rested = bed.sample("rested, 4 KiB overwrites", &objects)?;
    let (gone, kept): (Vec<u64>, Vec<u64>) = objects.iter().partition(|object| *object % 3 == 0);
    for object in &gone {
        bed.submit(vec![Step::Remove { object: object_id(*object) }])?;
        bed.turn()?;
    }
    bed.overwrite(&kept, DEPTH)?;
    bed.settle()?;
    bed.describe(&kept)?;
    let deleted = bed.sample("a third deleted, 4 KiB overwrites", &kept)?;
    println!(
        "of fresh: writes aged {:.2}, rested {:.2}, after deletes {:.2}; reads aged {:.2}, rested {:.2}",
        aged / fresh,
        rested / fresh,
        deleted / fresh,
        read_aged / read_fresh,
        read_rested / read_fresh
    );
    Ok(())
}

fn main() -> Outcome<()> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let path = args.first().filter(|arg| arg.parse::<u64>().is_err()).cloned();
    if path.is_some() {
        args.remove(0);
    }
    let number = |at: usize, default: u64| args.get(at).map_or(Ok(default), |arg| arg.parse());
    let (device_bytes, percent, times) = (number(0, 2)? << 30, number(1, 90)?, number(2, 10)?);
    let Some(path) = path else {
        return run(Device::Forgetful(HashMap::new()), device_bytes, percent, times);
    };
    let file = OpenOptions::new().read(true).write(true).create_new(true).custom_flags(O_DIRECT).open(&path)?;
    file.set_len(device_bytes)?;
    let result = run(Device::File(file), device_bytes, percent, times);
    std::fs::remove_file(&path)?;
    result
}
