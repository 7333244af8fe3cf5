//! Instructions of one transaction as a placement group makes it for a write of one block, and of reading a block.

use std::ops::RangeInclusive;
use store::{IoDone, IoRequest, Lookup, Step, Store, StoreConfig, StoreEvent, Transaction};
use types::{Fsid, ObjectId, OsdId, PgId, PoolId};
use wire::Rope;

// Bounds are of the profile of tests, on x86-64.
const WRITE: RangeInclusive<u64> = 55_000..=65_000;
const READ: RangeInclusive<u64> = 15_000..=18_500;

const BLOCK: u64 = 4096;
const DRIVE_BYTES: u64 = 64 << 20;
const LOG_BYTES: u64 = 16 << 20;
const OBJECTS: u64 = 16;
const OBJECT_BLOCKS: u64 = 32;
/// Entries of a group's log that stay.
const LOG_ENTRIES: u64 = 40;
const PG: PgId = PgId::new(1, 0);

fn object(number: u64) -> ObjectId {
    let name = format!("rbd_data.10226b8b4567.{number:016x}");
    ObjectId::head(PoolId(1), (number as u32).wrapping_mul(0x9e37_79b9), b"", name.as_bytes())
}

/// A drive in memory that does everything at once, and holds no memory of the store's.
struct Drive(Vec<u8>);

impl Drive {
    fn carry_out(&mut self, request: IoRequest) -> IoDone {
        let (id, mut read) = (request.id(), None);
        match request {
            IoRequest::Read { offset, mut buf, .. } => {
                let len = buf.len();
                buf.as_mut_slice().copy_from_slice(&self.0[offset as usize..][..len]);
                read = Some(buf);
            }
            IoRequest::Write { offset, data, .. } => {
                let mut at = offset as usize;
                for piece in data.pieces() {
                    self.0[at..at + piece.len()].copy_from_slice(piece);
                    at += piece.len();
                }
            }
            IoRequest::Flush { .. } | IoRequest::Discard { .. } => {}
        }
        IoDone { id, result: Ok(read) }
    }
}

/// Does all that a store asks of its drive; returns what the store tells.
fn pump(store: &mut Store, drive: &mut Drive) -> Vec<StoreEvent> {
    while let Some(request) = store.poll_io() {
        store.io_done(drive.carry_out(request));
        store.end_turn();
    }
    std::iter::from_fn(|| store.poll_event()).collect()
}

/// A store with some objects, whose log has room for all that follows: no checkpoint is counted.
fn filled() -> (Store, Drive) {
    let config = StoreConfig::one_device(DRIVE_BYTES, LOG_BYTES, Fsid([1; 16]), OsdId(7), Fsid([2; 16]));
    let mut drive = Drive(vec![0; DRIVE_BYTES as usize]);
    for request in Store::format(&config).expect("a device large enough") {
        drive.carry_out(request);
    }
    let mut opening = Store::open(config);
    let mut store = loop {
        if let Some(result) = opening.poll_result() {
            break result.expect("it was just made");
        }
        while let Some(request) = opening.poll_io() {
            opening.io_done(drive.carry_out(request));
        }
    };
    for number in 0..OBJECTS {
        let data = Rope::from(vec![1; (OBJECT_BLOCKS * BLOCK) as usize]);
        let steps = vec![Step::Write { object: object(number), offset: 0, data }];
        store.submit(Transaction { pg: PG, steps }).expect("room");
    }
    store.end_turn();
    pump(&mut store, &mut drive);
    (store, drive)
}

/// The object and the offset of operation `number`, and a byte that differs from operation to operation.
fn place(number: u64) -> (ObjectId, u64, u8) {
    let random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    (object(random % OBJECTS), random / OBJECTS % OBJECT_BLOCKS * BLOCK, number as u8)
}

fn write_of_a_block(number: u64) -> Vec<Step> {
    let (object, offset, byte) = place(number);
    let old = number.saturating_sub(LOG_ENTRIES);
    vec![
        Step::Write { object: object.clone(), offset, data: Rope::from(vec![byte; BLOCK as usize]) },
        Step::SetAttr { object, name: b"_".to_vec(), value: vec![byte; 120].into() },
        Step::PgSet { key: format!("log{number:020}").into(), value: vec![byte; 160].into() },
        Step::PgSet { key: "info".into(), value: vec![byte; 200].into() },
        Step::PgRemove { key: format!("log{old:020}").into() },
    ]
}

/// Reads a block, from the device if it is not in memory.
fn read(store: &mut Store, drive: &mut Drive, object: &ObjectId, offset: u64) -> Rope {
    match store.read(object, offset, BLOCK) {
        Lookup::Ready(data) => data,
        Lookup::Pending(wanted) => match pump(store, drive).pop() {
            Some(StoreEvent::ReadDone { id, result }) if id == wanted => result.expect("it is there"),
            other => panic!("{other:?}"),
        },
        Lookup::Damaged(damage) => panic!("{damage}"),
    }
}

#[test]
fn a_write_of_a_block() {
    counted::per_operation("a_write_of_a_block", WRITE, |operations| {
        let (mut store, mut drive) = filled();
        for number in 1..=operations {
            store.submit(Transaction { pg: PG, steps: write_of_a_block(number) }).expect("room");
            store.end_turn();
            let events = pump(&mut store, &mut drive);
            assert!(matches!(events[..], [StoreEvent::Committed(_)]), "{events:?}");
        }
        assert!(!store.checkpoint_is_pending());
        let (object, offset, byte) = place(operations);
        assert_eq!(read(&mut store, &mut drive, &object, offset).to_vec(), vec![byte; BLOCK as usize]);
    });
}

#[test]
fn a_read_of_a_block() {
    counted::per_operation("a_read_of_a_block", READ, |operations| {
        let (mut store, mut drive) = filled();
        // Nothing is kept in memory but metadata.
        store.set_block_cache_bytes(0);
        for number in 1..=operations {
            let (object, offset, _) = place(number);
            let data = read(&mut store, &mut drive, &object, offset);
            assert_eq!((data.len() as u64, data.pieces().next().and_then(|piece| piece.first())), (BLOCK, Some(&1)));
        }
    });
}
