//! Writes to the store for the time that they take (`ceph tell osd.N bench`).
//!
//! The objects belong to no group and have names of their own, so that a later run removes what a run has left that the
//! end of the process interrupted.

use super::Shard;
use bytes::Bytes;
use std::collections::VecDeque;
use std::time::Duration;
use store::{Step, SubmitError, Ticket, Transaction};
use types::{ObjectId, PgId, PoolId};
use wire::Rope;

/// Pool of the objects; no pool of a cluster has this number.
const POOL: PoolId = PoolId(-9);
/// Objects of a run at most.
pub const BENCH_OBJECTS_MAX: u64 = 128;
/// Writes that are on their way to the device at a time; of large ones fewer.
const IN_FLIGHT_MAX: usize = 16;
const IN_FLIGHT_BYTES: u64 = 8 << 20;
/// A run may take one part in so many of the room that there is.
const ROOM_PART: u64 = 4;
/// A write takes at most so much more than its bytes: records of it, and the bytes that it replaces.
const WRITE_COST: u64 = 2;
const METADATA_BYTES: u64 = 16 << 10;

/// The writes of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BenchOrder {
    /// Bytes to write in all.
    pub bytes: u64,
    /// Bytes of one write, at least 1; the last one may be shorter.
    pub block_bytes: u64,
    /// Objects that are there before, and the bytes of each, at least `block_bytes`. `None`: all writes make objects
    /// grow.
    pub overwritten: Option<(u64, u64)>,
}

/// The reason why a run does not begin, or has ended.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BenchError {
    #[error("another bench runs")]
    Busy,
    #[error("it would take too much of the {room_bytes} bytes of room")]
    Room { room_bytes: u64 },
    #[error("this OSD stops")]
    Stops,
    #[error("{0}")]
    Store(#[from] SubmitError),
}

/// A run.
#[derive(Debug)]
pub(super) struct Bench {
    order: BenchOrder,
    /// Blocks that were handed to the store, and all.
    submitted: u64,
    blocks: u64,
    /// Time of the first write; `None` while objects are made that are overwritten later.
    began: Option<Duration>,
    in_flight: VecDeque<Ticket>,
    payload: Rope,
    /// Objects to be made first.
    unmade: VecDeque<u64>,
}

fn group() -> PgId {
    PgId { pool: POOL, ..PgId::new(0, 0) }
}

fn object(number: u64) -> ObjectId {
    ObjectId::head(POOL, u32::try_from(number).unwrap_or_default(), b"", format!("bench{number}").as_bytes())
}

impl Bench {
    /// The object and offset of a block.
    fn place(&self, block: u64) -> (ObjectId, u64) {
        match self.order.overwritten {
            None => (object(block % BENCH_OBJECTS_MAX), block / BENCH_OBJECTS_MAX * self.order.block_bytes),
            Some((objects, bytes)) => {
                // Neighbours in time are no neighbours in place.
                let mixed = block.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
                let places = (bytes / self.order.block_bytes).max(1);
                (object(mixed % objects), mixed / objects % places * self.order.block_bytes)
            }
        }
    }

    fn step(&mut self) -> Option<Step> {
        if let Some(number) = self.unmade.pop_front() {
            let (_, bytes) = self.order.overwritten.expect("only they are made first");
            // Objects of zeros would take no space.
            let data = Rope::from(vec![1; usize::try_from(bytes).expect("objects are smaller than memory")]);
            return Some(Step::Write { object: object(number), offset: 0, data });
        }
        if self.submitted == self.blocks {
            return None;
        }
        let (object, offset) = self.place(self.submitted);
        let left = self.order.bytes - self.submitted * self.order.block_bytes;
        self.submitted += 1;
        let data = match left < self.order.block_bytes {
            true => self.payload.slice(0, usize::try_from(left).expect("shorter than a block")),
            false => self.payload.clone(),
        };
        Some(Step::Write { object, offset, data })
    }
}

impl Shard {
    /// Begins a run, which goes on with the turns. Errors: nothing is written.
    pub fn begin_bench(&mut self, order: BenchOrder) -> Result<(), BenchError> {
        if self.bench.is_some() {
            return Err(BenchError::Busy);
        }
        let blocks = order.bytes.div_ceil(order.block_bytes);
        let made = order.overwritten.map_or(0, |(objects, bytes)| objects * bytes);
        let takes = (WRITE_COST * (order.bytes + made)).saturating_add((blocks + 1) * METADATA_BYTES);
        let room_bytes = self.host.store.room_bytes();
        if takes > room_bytes / ROOM_PART {
            return Err(BenchError::Room { room_bytes });
        }
        self.remove_bench_objects()?;
        let block = usize::try_from(order.block_bytes.min(order.bytes)).expect("a block fits in memory");
        let bytes: Vec<u8> = (0..block).map(|i| (i as u64).wrapping_mul(0x9e37_79b9).to_le_bytes()[2]).collect();
        self.bench = Some(Bench {
            order,
            submitted: 0,
            blocks,
            began: None,
            in_flight: VecDeque::new(),
            payload: Rope::from(Bytes::from(bytes)),
            unmade: (0..order.overwritten.map_or(0, |(objects, _)| objects)).collect(),
        });
        Ok(())
    }

    /// Takes the result of the run that has ended: the time that it took.
    pub fn take_bench_result(&mut self) -> Option<Result<Duration, BenchError>> {
        self.bench_result.take()
    }

    fn remove_bench_objects(&mut self) -> Result<(), SubmitError> {
        let steps = (0..BENCH_OBJECTS_MAX).map(|number| Step::Remove { object: object(number) }).collect();
        self.host.store.submit(Transaction { pg: group(), steps }).map(drop)
    }

    /// Goes on with the run, once the store has told what is durable.
    pub(super) fn bench_on(&mut self) {
        let Some(bench) = &mut self.bench else { return };
        let fit =
            usize::try_from(IN_FLIGHT_BYTES / bench.order.block_bytes).unwrap_or(usize::MAX).clamp(1, IN_FLIGHT_MAX);
        while !self.host.store.is_behind() {
            let most = if bench.unmade.is_empty() { fit } else { 1 };
            if bench.in_flight.len() >= most {
                break;
            }
            if bench.unmade.is_empty() && bench.began.is_none() {
                if !bench.in_flight.is_empty() {
                    return;
                }
                bench.began = Some(self.host.now);
            }
            let Some(step) = bench.step() else { break };
            match self.host.store.submit(Transaction { pg: group(), steps: vec![step] }) {
                Ok(ticket) => bench.in_flight.push_back(ticket),
                Err(why) => return self.end_bench(Err(why.into())),
            }
        }
        if bench.submitted == bench.blocks && bench.in_flight.is_empty() {
            let took = self.host.now.saturating_sub(bench.began.unwrap_or(self.host.now));
            self.end_bench(Ok(took));
        }
    }

    /// This ticket, and all before it, are durable.
    pub(super) fn bench_committed(&mut self, ticket: Ticket) {
        if let Some(bench) = &mut self.bench {
            while bench.in_flight.front().is_some_and(|first| *first <= ticket) {
                bench.in_flight.pop_front();
            }
        }
    }

    /// Ends the run, if there is one, and removes its objects.
    pub(super) fn end_bench(&mut self, result: Result<Duration, BenchError>) {
        if self.bench.take().is_some() {
            self.bench_result = Some(result);
            // A store that has stopped ends the OSD by itself.
            if let Err(why) = self.remove_bench_objects() {
                tracing::warn!("objects of a bench stay: {why}");
            }
        }
    }
}
