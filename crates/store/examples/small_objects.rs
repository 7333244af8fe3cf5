//! Fills a store with objects of 1 KiB and reports the costs of each: space, memory, writes, time to list them.
//!
//! `cargo run --release -p store --example small_objects -- FILE OBJECTS GIB [random|in-order [MEMORY_MIB [MINUTES]]]`
//! makes FILE of GIB (it must not exist) and removes it again. Objects come in random order of their hashes, as clients
//! make them, or in the order in which the store keeps them, as a backfill does; each has an attribute of 112 bytes, as
//! long as a placement group's object information. Filling ends after this many minutes (60), with the objects there
//! are then. Reads run at the same time, as in an OSD; writes run one after another, with O_DIRECT. Ten million objects
//! take about 14 GB; give the file 32 GiB.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use store::{IoDone, IoRequest, Lookup, Memory, Step, Store, StoreConfig, StoreEvent, Transaction};
use types::{Fsid, ObjectId, OsdId, PgId, PoolId};
use wire::Rope;

/// Flag of `open(2)`: no page cache, as the OSD opens its files.
const O_DIRECT: i32 = 0o40000;
const OBJECT_BYTES: usize = 1024;
const PER_TURN: u64 = 256;
/// Number of turns for each turn in which objects come: an OSD has turns whenever requests are done, too.
const FURTHER_TURNS: u64 = 16;

/// Number of reads under way at once.
const READERS: usize = 32;
/// Interval between reports of progress.
const REPORT: Duration = Duration::from_secs(20);

/// Number of threads that carry out reads.
struct Readers {
    requests: Sender<IoRequest>,
    done: Receiver<std::io::Result<IoDone>>,
    under_way: usize,
}

impl Readers {
    fn new(file: &Arc<File>) -> Readers {
        let ((requests, inbox), (outbox, done)) = (channel::<IoRequest>(), channel());
        let inbox = Arc::new(Mutex::new(inbox));
        for _ in 0..READERS {
            let (file, inbox, outbox) = (file.clone(), inbox.clone(), outbox.clone());
            std::thread::spawn(move || {
                let next = || inbox.lock().expect("no reader panics").recv();
                while let Ok(request) = next() {
                    if outbox.send(carry_out(&file, request)).is_err() {
                        break;
                    }
                }
            });
        }
        Readers { requests, done, under_way: 0 }
    }
}

struct Filling {
    file: Arc<File>,
    readers: Readers,
    until: Instant,
    store: Store,
    objects: u64,
    /// Number of objects that there was time for.
    filled: u64,
    is_random: bool,
    written_bytes: u64,
}

fn carry_out(file: &File, request: IoRequest) -> std::io::Result<IoDone> {
    let (id, buf) = match request {
        IoRequest::Read { id, offset, mut buf, .. } => {
            file.read_exact_at(buf.as_mut_slice(), offset)?;
            (id, Some(buf))
        }
        IoRequest::Write { id, mut offset, data, .. } => {
            for piece in data.pieces() {
                file.write_all_at(piece, offset)?;
                offset += piece.len() as u64;
            }
            (id, None)
        }
        IoRequest::Flush { id, .. } => {
            file.sync_data()?;
            (id, None)
        }
        // Discards are left out: they would only keep the file sparse.
        IoRequest::Discard { id, .. } => (id, None),
    };
    Ok(IoDone { id, result: Ok(buf) })
}

fn resident_bytes() -> std::io::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    Ok(line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024)
}

impl Filling {
    fn object(&self, number: u64) -> ObjectId {
        let hash = match self.is_random {
            true => (number as u32).wrapping_mul(0x9e37_79b9) ^ (number as u32) >> 7,
            false => ((number << 32) / self.objects) as u32,
        };
        let hash = if self.is_random { hash } else { hash.reverse_bits() };
        ObjectId::head(PoolId(1), hash, b"", format!("object-of-a-kilobyte-{number:010}").as_bytes())
    }

    /// Carries out requests until none is left; returns true if a read brought its bytes.
    fn pump(&mut self) -> Result<bool, Box<dyn Error>> {
        let mut read = false;
        loop {
            while let Some(request) = self.store.poll_io() {
                match &request {
                    IoRequest::Read { .. } => {
                        self.readers.requests.send(request)?;
                        self.readers.under_way += 1;
                        continue;
                    }
                    IoRequest::Write { data, .. } => self.written_bytes += data.len() as u64,
                    _ => {}
                }
                self.store.io_done(carry_out(&self.file, request)?);
            }
            if self.readers.under_way == 0 {
                break;
            }
            let done = self.readers.done.recv()??;
            self.readers.under_way -= 1;
            self.store.io_done(done);
        }
        while let Some(event) = self.store.poll_event() {
            match event {
                StoreEvent::ReadDone { result, .. } => {
                    result?;
                    read = true;
                }
                StoreEvent::Failed { reason } => return Err(reason.into()),
                StoreEvent::Committed(_) | StoreEvent::LookupDone(_) => {}
            }
        }
        Ok(read)
    }

    fn settle(&mut self) -> Result<(), Box<dyn Error>> {
        while !self.store.is_idle() {
            self.store.end_turn();
            self.pump()?;
        }
        Ok(())
    }

    fn fill(&mut self) -> Result<(), Box<dyn Error>> {
        let (begin, data) = (Instant::now(), Rope::from(vec![0x5a; OBJECT_BYTES]));
        let mut reported = begin;
        for number in 0..self.objects {
            if number % PER_TURN == 0 && Instant::now() > self.until {
                println!("time is up: {number} of {} objects", self.objects);
                self.filled = number;
                break;
            }
            let object = self.object(number);
            let steps = vec![
                Step::Write { object: object.clone(), offset: 0, data: data.clone() },
                Step::SetAttr { object, name: b"oi".to_vec(), value: vec![number as u8; 112].into() },
            ];
            self.store.submit(Transaction { pg: PgId::new(1, 0), steps })?;
            if (number + 1) % PER_TURN == 0 {
                let mut further = 0..=FURTHER_TURNS;
                // The loop waits as an OSD does, which takes nothing more from clients until there is memory for
                // changes again.
                while further.next().is_some() || self.store.is_behind() {
                    self.store.end_turn();
                    self.pump()?;
                }
            }
            if (number + 1) % PER_TURN == 0 && reported.elapsed() > REPORT {
                self.report(number + 1, begin)?;
                reported = Instant::now();
            }
        }
        self.store.checkpoint();
        self.settle()?;
        self.report(self.filled, begin)
    }

    fn report(&self, objects: u64, begin: Instant) -> Result<(), Box<dyn Error>> {
        let (usage, log, (_, memory)) = (self.store.usage(), self.store.log_state(), self.store.memory());
        println!(
            "{objects:>9} objects: {:>5} bytes each in {:.2} GB of metadata, {} data bytes; memory {} MiB (pages \
                {}, objects {}, changes {}); \
             {:.1} KiB written each; {:.0} objects/s",
            log.checkpoint_bytes / objects,
            log.checkpoint_bytes as f64 / 1e9,
            usage.data_bytes,
            resident_bytes()? >> 20,
            memory.page_bytes >> 20,
            memory.onode_bytes >> 20,
            memory.overlay_bytes >> 20,
            self.written_bytes as f64 / 1024.0 / objects as f64,
            objects as f64 / begin.elapsed().as_secs_f64(),
        );
        Ok(())
    }

    fn list(&mut self) -> Result<(), Box<dyn Error>> {
        let (begin, mut count, mut from, mut longest) = (Instant::now(), 0, ObjectId::min(), 0.0f64);
        loop {
            let page_begin = Instant::now();
            let page = loop {
                match self.store.list(&from, &ObjectId::max(), 1001) {
                    Lookup::Ready(page) => break page,
                    Lookup::Pending(_) => drop(self.pump()?),
                    Lookup::Damaged(damage) => return Err(damage.to_string().into()),
                }
            };
            longest = longest.max(page_begin.elapsed().as_secs_f64());
            count += page.len().min(1000) as u64;
            match page.into_iter().nth(1000) {
                Some(next) => from = next,
                None => break,
            }
        }
        assert_eq!(count, self.filled);
        let took = begin.elapsed().as_secs_f64();
        println!(
            "list: {:.0} objects/s in pages of 1000, the longest of which took {:.1} ms",
            count as f64 / took,
            longest * 1e3
        );
        Ok(())
    }

    fn read(&mut self) -> Result<(), Box<dyn Error>> {
        let (begin, count) = (Instant::now(), 20_000);
        for at in 0..count {
            let object = self.object(at * 7_368_787 % self.filled);
            match self.store.read(&object, 0, OBJECT_BYTES as u64) {
                Lookup::Ready(data) => assert_eq!(data.len(), OBJECT_BYTES),
                Lookup::Pending(_) => while !self.pump()? {},
                Lookup::Damaged(damage) => return Err(damage.to_string().into()),
            }
        }
        println!("random reads: {:.0} objects/s, one after another", count as f64 / begin.elapsed().as_secs_f64());
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    const USAGE: &str = "usage: small_objects FILE OBJECTS GIB [random|in-order [MEMORY_MIB [MINUTES]]]";
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [path, objects, gib, rest @ ..] = &args[..] else { return Err(USAGE.into()) };
    let is_random = match rest.first().map(String::as_str) {
        None | Some("random") => true,
        Some("in-order") => false,
        Some(_) => return Err(USAGE.into()),
    };
    let memory_mib: usize = rest.get(1).map_or(Ok(64), |arg| arg.parse())?;
    let minutes: u64 = rest.get(2).map_or(Ok(60), |arg| arg.parse())?;
    let device_bytes = gib.parse::<u64>()? << 30;
    let file = OpenOptions::new().read(true).write(true).create_new(true).custom_flags(O_DIRECT).open(path)?;
    // The file is gone with this process.
    std::fs::remove_file(path)?;
    file.set_len(device_bytes)?;
    let wal_bytes = StoreConfig::default_wal_bytes(device_bytes);
    let config = StoreConfig::one_device(device_bytes, wal_bytes, Fsid([1; 16]), OsdId(0), Fsid([2; 16]));
    for request in Store::format(&config)? {
        carry_out(&file, request)?;
    }
    let mut opening = Store::open(config);
    let mut store = loop {
        if let Some(result) = opening.poll_result() {
            break result?;
        }
        while let Some(request) = opening.poll_io() {
            opening.io_done(carry_out(&file, request)?);
        }
    };
    store.set_memory(Memory::of(memory_mib << 20));
    let file = Arc::new(file);
    let (readers, until) = (Readers::new(&file), Instant::now() + Duration::from_secs(60 * minutes));
    let objects = objects.parse()?;
    let mut filling = Filling { file, readers, until, store, objects, filled: objects, is_random, written_bytes: 0 };
    filling.fill()?;
    filling.list()?;
    filling.read()
}
