//! Clients' operations that wait for room in memory.
//!
//! What a client's operation takes until its answer has left is counted: its input, from when it starts what it reads,
//! copies and writes beside that, and answers that the network has not taken yet. Beyond a bound nothing further is
//! started; what came already waits here in its order, and the driver stops reading from clients. What waits for its
//! group or object has not started, and holds no more than what it is.
//!
//! Other OSDs, which ask for objects that they copy, never wait here, and what they read has a share of its own:
//! clients' operations on their side wait for it, and may fill all memory there. What those take that copy has a share
//! of its own, too, so that others are served where a source cannot be read.

use crate::copy::PIECE_BYTES;
use crate::hops::{OpTimes, WaitReasons};
use std::collections::{BTreeSet, VecDeque};
use types::PgId;
use wire::messages::{Checksum, Extent, Op, OpArgs, OpCode, OsdBackoff, OsdOp};
use wire::msgr::SessionId;

/// Bytes that a read without a length is taken to bring: the size that clients cut large data into. 4 MiB.
const WHOLE_OBJECT_BYTES: u64 = 4 << 20;
/// The most that one step is taken to read until it is known: objects smaller than the range asked for exist, too.
const READ_BYTES_MAX: u64 = 32 << 20;

/// Whose share of memory an operation takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MemoryShare {
    Clients,
    /// Clients' operations that copy: they wait for other OSDs, for a minute where these cannot answer.
    Copies,
    /// Reads of other OSDs that copy.
    Osds,
}

/// Memory that is taken of each share, in bytes.
pub(crate) type Shares = [usize; 3];

/// Memory that operations hold until they are answered, in bytes.
#[derive(Debug, Default)]
pub(crate) struct Held {
    bytes: usize,
    /// Answers that the network has not taken yet, in bytes, by the driver's last look.
    unsent: usize,
    /// Answers given since then, in bytes.
    leaving: usize,
    /// Part of `bytes` that operations which have started have taken.
    taken: Shares,
    /// Groups with operations that cannot start for want of memory.
    waiting: BTreeSet<PgId>,
    /// Set when memory was given back since `waiting` was looked at last.
    has_come: bool,
}

impl Held {
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    pub fn give_back(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.has_come |= bytes > 0;
    }

    /// Counts so much more that an operation takes.
    pub fn take(&mut self, share: MemoryShare, bytes: usize) {
        self.add(bytes);
        self.taken[share as usize] += bytes;
    }

    /// Gives back so much of the memory that started operations have taken.
    pub fn put_back(&mut self, share: MemoryShare, bytes: usize) {
        self.give_back(bytes);
        self.taken[share as usize] -= bytes;
    }

    /// Notes that an answer of so many bytes was given.
    pub fn answered(&mut self, bytes: usize) {
        self.leaving += bytes;
    }

    /// Sets the bytes of answers that the network has not taken yet. `leaving`: bytes of those that it was not given.
    pub fn set_unsent(&mut self, bytes: usize, leaving: usize) {
        let before = self.answers();
        (self.unsent, self.leaving) = (bytes, leaving);
        self.has_come |= bytes + leaving < before;
    }

    /// Returns the bytes of answers that have not left.
    pub fn answers(&self) -> usize {
        self.unsent + self.leaving
    }

    /// Returns the bytes of answers that the network had not taken by the driver's last look.
    pub fn unsent(&self) -> usize {
        self.unsent
    }

    /// Returns true if operations wait for what answers hold that were given since [`Held::set_unsent`].
    pub fn waits_for_look(&self) -> bool {
        self.leaving > 0 && !self.waiting.is_empty()
    }

    /// Returns true if an operation may start that will take more, if all may hold `limit`, together with answers that
    /// have not left. Operations that have not started leave half of it to the ones that have and to answers, so one
    /// may always start if answers leave room.
    pub fn may_start(&self, share: MemoryShare, limit: usize) -> bool {
        let taken = self.taken[share as usize];
        let answers = self.answers();
        match share {
            MemoryShare::Clients => self.bytes + answers < limit || taken + answers < limit / 2,
            MemoryShare::Copies | MemoryShare::Osds => taken < limit / 4,
        }
    }

    /// Notes that operations of a group wait for memory.
    pub fn wait(&mut self, group: PgId) {
        self.waiting.insert(group);
    }

    /// Tells whether operations wait that may start now, perhaps.
    pub fn any_may_start(&mut self) -> bool {
        // Memory that comes while nobody waits is no news to who waits later.
        self.has_come &= !self.waiting.is_empty();
        self.has_come
    }

    /// Takes the groups whose operations may start now, perhaps.
    pub fn take_waiting(&mut self) -> BTreeSet<PgId> {
        match std::mem::take(&mut self.has_come) {
            true => std::mem::take(&mut self.waiting),
            false => BTreeSet::new(),
        }
    }
}

/// Returns the bytes that an operation will bring into memory, as far as its steps tell.
pub(crate) fn output_bytes(ops: &[Op]) -> usize {
    let of = |op: &Op| match (op.code, &op.args) {
        (OpCode::READ | OpCode::SPARSE_READ, OpArgs::Extent(Extent { length, .. }))
        | (OpCode::CHECKSUM, OpArgs::Checksum(Checksum { length, .. })) => match *length {
            0 => WHOLE_OBJECT_BYTES,
            length => length.min(READ_BYTES_MAX),
        },
        (OpCode::COPY_FROM | OpCode::COPY_FROM2, _) => PIECE_BYTES,
        _ => 0,
    };
    ops.iter().map(|op| of(op) as usize).sum()
}

/// A message that a client has sent.
pub(crate) enum Sent {
    Op {
        tid: u64,
        op: OsdOp,
        times: OpTimes,
    },
    /// The client holds back what it was asked to. All that it sent before comes first.
    Ack(OsdBackoff),
}

/// Messages that clients have sent, and for which there was no room when they came. In their order.
#[derive(Default)]
pub(crate) struct SentQueue {
    waiting: VecDeque<(SessionId, Sent)>,
}

impl SentQueue {
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the bytes of operations that have come and wait.
    pub fn bytes(&self) -> usize {
        let of = |(_, sent): &(SessionId, Sent)| match sent {
            Sent::Op { op, .. } => op.input_bytes(),
            Sent::Ack(_) => 0,
        };
        self.waiting.iter().map(of).sum()
    }

    pub fn push(&mut self, session: SessionId, mut sent: Sent) {
        if let Sent::Op { times, .. } = &mut sent {
            times.waits.add(WaitReasons::MEMORY);
        }
        self.waiting.push_back((session, sent));
    }

    pub fn pop(&mut self) -> Option<(SessionId, Sent)> {
        self.waiting.pop_front()
    }

    pub fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Forgets what a client sent that is gone.
    pub fn forget(&mut self, session: SessionId) {
        self.waiting.retain(|(of, ..)| *of != session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Rope;

    #[test]
    fn others_may_start_though_clients_have_taken_all() {
        let mut held = Held::default();
        held.take(MemoryShare::Clients, 60);
        assert!(held.may_start(MemoryShare::Clients, 100) && held.may_start(MemoryShare::Osds, 100));
        held.add(40);
        assert!(!held.may_start(MemoryShare::Clients, 100) && held.may_start(MemoryShare::Osds, 100));
        held.take(MemoryShare::Osds, 30);
        assert!(!held.may_start(MemoryShare::Osds, 100));
        held.wait(PgId::new(1, 0));
        assert!(held.take_waiting().is_empty(), "nothing has been given back");
        held.put_back(MemoryShare::Clients, 20);
        assert!(held.may_start(MemoryShare::Clients, 100), "what has not started leaves half to what has");
        assert_eq!((held.take_waiting().len(), held.take_waiting().len(), held.bytes()), (1, 0, 110));
    }

    #[test]
    fn operations_wait_for_answers_that_nobody_takes() {
        let mut held = Held::default();
        held.take(MemoryShare::Clients, 40);
        held.set_unsent(60, 0);
        assert!(!held.may_start(MemoryShare::Clients, 100) && held.may_start(MemoryShare::Osds, 100));
        held.wait(PgId::new(1, 0));
        assert!(held.take_waiting().is_empty());
        held.set_unsent(59, 0);
        assert!(held.may_start(MemoryShare::Clients, 100));
        assert_eq!(held.take_waiting().len(), 1);
    }

    #[test]
    fn an_answer_counts_from_when_it_is_given() {
        let mut held = Held::default();
        held.take(MemoryShare::Clients, 60);
        held.put_back(MemoryShare::Clients, 60);
        held.answered(60);
        held.set_unsent(0, 60);
        held.answered(40);
        assert!(!held.may_start(MemoryShare::Clients, 100) && !held.waits_for_look());
        held.take_waiting();
        held.wait(PgId::new(1, 0));
        assert!(held.waits_for_look());
        held.set_unsent(100, 0);
        assert!(!held.may_start(MemoryShare::Clients, 100) && !held.waits_for_look());
        assert!(held.take_waiting().is_empty(), "the network has taken nothing");
        held.set_unsent(0, 0);
        assert!(held.may_start(MemoryShare::Clients, 100));
        assert_eq!(held.take_waiting().len(), 1);
    }

    #[test]
    fn reads_are_counted_by_what_they_ask_for() {
        let of = |ops: &[Op]| output_bytes(ops);
        assert_eq!(of(&[Op::read(0, 4096), Op::read(1 << 30, 100)]), 4196);
        assert_eq!(of(&[Op::read(0, 0)]), 4 << 20);
        assert_eq!(of(&[Op::read(0, u64::MAX)]), 32 << 20);
        assert_eq!(of(&[Op::checksum(Checksum::CRC32C, 0, 5000, 0)]), 5000);
        assert_eq!(of(&[Op::write(0, Rope::from(vec![0; 5000])), Op::stat()]), 0);
    }
}
