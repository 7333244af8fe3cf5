//! Tests on a real file: an OSD that is stopped in good order leaves a store whose next opening replays nothing.

use crate::common::{Device, FSID, OSD, config, make};
use osd::Stop;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use store::{IoDone, IoRequest, Lookup, Step, Store, StoreConfig, StoreEvent, Transaction};
use types::{Fsid, ObjectId, PgId, PoolId};
use wire::Rope;

const DEVICE_BYTES: u64 = 64 << 20;
const OBJECTS: u32 = 500;

fn carry_out(file: &File, request: IoRequest) -> IoDone {
    match request {
        IoRequest::Read { id, offset, mut buf, .. } => {
            file.read_exact_at(buf.as_mut_slice(), offset).unwrap();
            IoDone { id, result: Ok(Some(buf)) }
        }
        IoRequest::Write { id, mut offset, data, .. } => {
            for piece in data.pieces() {
                file.write_all_at(piece, offset).unwrap();
                offset += piece.len() as u64;
            }
            IoDone { id, result: Ok(None) }
        }
        IoRequest::Flush { id, .. } | IoRequest::Discard { id, .. } => IoDone { id, result: Ok(None) },
    }
}

fn open(path: &Path) -> (File, Store) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let wal_bytes = StoreConfig::default_wal_bytes(DEVICE_BYTES);
    let config = StoreConfig::one_device(DEVICE_BYTES, wal_bytes, FSID, OSD, Fsid::default());
    let mut opening = Store::open(config);
    loop {
        if let Some(result) = opening.poll_result() {
            return (file, result.unwrap());
        }
        let request = opening.poll_io().expect("the opening goes on or is over");
        opening.io_done(carry_out(&file, request));
    }
}

fn object(number: u32) -> ObjectId {
    ObjectId::head(PoolId(1), number.reverse_bits(), b"", format!("object-{number}").as_bytes())
}

/// Writes objects durably, and leaves them in the log.
fn fill(path: &Path) {
    let (file, mut store) = open(path);
    let mut last = None;
    for number in 0..OBJECTS {
        let data = Rope::from(vec![number as u8; 3000]);
        let steps = vec![Step::Write { object: object(number), offset: 0, data }];
        last = Some(store.submit(Transaction { pg: PgId::new(1, 0), steps }).unwrap());
        if number % 10 == 9 {
            store.end_turn();
        }
        while let Some(request) = store.poll_io() {
            store.io_done(carry_out(&file, request));
        }
    }
    let mut committed = None;
    while let Some(event) = store.poll_event() {
        match event {
            StoreEvent::Committed(ticket) => committed = Some(ticket),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(committed, last);
}

#[test]
fn the_next_start_replays_nothing() {
    let device = Device::new("orderly-stop");
    let config = config(&device.0, 64 << 20);
    make(&config, DEVICE_BYTES, 1).unwrap();
    fill(&device.0);
    assert!(open(&device.0).1.replayed_records() > 0);

    let stop = Stop::new().unwrap();
    let thread = std::thread::spawn({
        let stop = stop.clone();
        move || osd::run(config, stop)
    });
    stop.stop();
    thread.join().expect("the OSD does not panic").expect("the OSD ends well");

    let (file, mut store) = open(&device.0);
    assert_eq!(store.replayed_records(), 0);
    for number in 0..OBJECTS {
        let stat = loop {
            match store.stat(&object(number)) {
                Lookup::Ready(stat) => break stat,
                Lookup::Pending(_) => {
                    let request = store.poll_io().expect("a lookup waits for something");
                    store.io_done(carry_out(&file, request));
                }
                Lookup::Damaged(damage) => panic!("{damage}"),
            }
        };
        assert_eq!(stat.expect("written").size_bytes, 3000);
    }
}
