//! Measures the CPU time of the store's own work for a write of 4 KiB as a placement group makes it, with many records
//! in the table of what the log holds.
//!
//! `cargo run --release -p store --example small_writes [-- WRITES [OBJECTS]]` (20,000 writes, 2048 objects of 1 MiB).
//! The device keeps nothing. Before each write the program goes through memory of other uses, as an OSD's session and
//! placement group do, so that the store finds the processor's caches as it does there. `warm` leaves that out.
//! `NACRE_COUNT_ONLY=1` measures nothing and does everything, for callgrind.

use std::error::Error;
use std::time::{Duration, Instant};
use store::{IoDone, IoRequest, Memory, Step, Store, StoreConfig, Transaction};
use types::{Fsid, ObjectId, OsdId, PgId, PoolId};
use wire::Rope;

const BLOCK: u64 = 4096;
const OBJECT_BLOCKS: u64 = 256;
const GROUPS: u32 = 32;
/// Memory of other uses between two writes, in bytes: as much as the cache of one core.
const OTHER_BYTES: usize = 2 << 20;

fn object(number: u64) -> (PgId, ObjectId) {
    let name = format!("rbd_data.10226b8b4567.{number:016x}");
    let hash = (number as u32).wrapping_mul(0x9e37_79b9);
    (PgId::new(1, hash % GROUPS), ObjectId::head(PoolId(1), hash, b"", name.as_bytes()))
}

/// Answers all requests. Reads get zeros.
fn pump(store: &mut Store) {
    while let Some(request) = store.poll_io() {
        let id = request.id();
        let read = match request {
            IoRequest::Read { buf, .. } => Some(buf),
            _ => None,
        };
        store.io_done(IoDone { id, result: Ok(read) });
    }
    while store.poll_event().is_some() {}
}

fn opened() -> Result<Store, Box<dyn Error>> {
    let config = StoreConfig::one_device(64 << 30, 1 << 30, Fsid([1; 16]), OsdId(7), Fsid([2; 16]));
    let mut labels = Vec::new();
    for request in Store::format(&config)? {
        if let IoRequest::Write { offset, data, .. } = request {
            labels.push((offset, data.to_vec()));
        }
    }
    let mut opening = Store::open(config);
    loop {
        if let Some(result) = opening.poll_result() {
            let mut store = result?;
            store.set_memory(Memory { page_bytes: 64 << 20, onode_bytes: 256 << 20, overlay_bytes: 1 << 30 });
            return Ok(store);
        }
        while let Some(request) = opening.poll_io() {
            let id = request.id();
            let read = match request {
                IoRequest::Read { offset, mut buf, .. } => {
                    buf.as_mut_slice().fill(0);
                    let end = offset + buf.len() as u64;
                    for (at, bytes) in labels.iter().filter(|(at, _)| (offset..end).contains(at)) {
                        let begin = (at - offset) as usize;
                        let len = bytes.len().min(buf.len() - begin);
                        buf.as_mut_slice()[begin..begin + len].copy_from_slice(&bytes[..len]);
                    }
                    Some(buf)
                }
                _ => None,
            };
            opening.io_done(IoDone { id, result: Ok(read) });
        }
    }
}

#[expect(clippy::big_endian_bytes, reason = "byte order must be number order")]
fn log_key(version: u64) -> Vec<u8> {
    [&b"l"[..], &version.to_be_bytes(), &7u32.to_be_bytes()].concat()
}

fn write(number: u64, objects: u64, data: &Rope) -> Transaction {
    let random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let (pg, object) = object(random % objects);
    let (offset, byte) = (random / objects % OBJECT_BLOCKS * BLOCK, number as u8);
    let steps = vec![
        Step::Write { object: object.clone(), offset, data: data.clone() },
        Step::SetAttr { object, name: b"oi".to_vec(), value: vec![byte; 180].into() },
        Step::PgSet { key: log_key(number).into(), value: vec![byte; 160].into() },
        Step::PgSet { key: "info".into(), value: vec![byte; 200].into() },
    ];
    Transaction { pg, steps }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let is_warm = args.iter().any(|arg| arg == "warm");
    args.retain(|arg| arg != "warm");
    let count = args.first().map_or(Ok(20_000), |arg| arg.parse())?;
    let objects = args.get(1).map_or(Ok(2048), |arg| arg.parse())?;
    let is_counted = std::env::var_os("NACRE_COUNT_ONLY").is_some();
    let mut store = opened()?;
    let whole = Rope::from(types::AlignedBuf::zeroed((OBJECT_BLOCKS * BLOCK) as usize).freeze());
    let crc = types::crc32c::checksum(&[0; BLOCK as usize]);
    let whole = whole.with_block_crcs(vec![crc; OBJECT_BLOCKS as usize].into());
    for number in 0..objects {
        let (pg, object) = object(number);
        let steps = vec![Step::Write { object, offset: 0, data: whole.clone() }];
        store.submit(Transaction { pg, steps })?;
        store.end_turn();
        pump(&mut store);
    }
    let data = Rope::from(types::AlignedBuf::zeroed(BLOCK as usize).freeze()).with_block_crcs(vec![crc].into());
    let mut other = vec![1u64; OTHER_BYTES / 8];
    let mut times: Vec<Duration> = Vec::new();
    let warm_up = 40_000;
    for number in 1..=warm_up + count {
        let transaction = write(number, objects, &data);
        if !is_warm && !is_counted && number > warm_up {
            other.iter_mut().step_by(8).for_each(|word| *word = word.rotate_left(1) ^ number);
        }
        let begin = Instant::now();
        store.submit(transaction)?;
        store.end_turn();
        pump(&mut store);
        if number > warm_up {
            times.push(begin.elapsed());
        }
    }
    times.sort_unstable();
    let ns = |part: usize| times.get(times.len() * part / 100).map_or(0, |time| time.as_nanos());
    println!("{count} writes, {objects} objects: ns each p10 {} p50 {} p90 {}", ns(10), ns(50), ns(90));
    assert!(!store.checkpoint_is_pending(), "a checkpoint was counted");
    Ok(())
}
