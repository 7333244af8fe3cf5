//! Clients' operations that wait for room in memory.
//!
//! What a client's operation takes until its answer has left is counted: its input, what it will read, and answers that
//! the network has not taken yet. Beyond a bound nothing further is started; what came already waits here in its order,
//! and the driver stops reading from clients.

use crate::hops::{OpTimes, WaitReasons};
use std::collections::VecDeque;
use wire::messages::{Checksum, Extent, Op, OpArgs, OpCode, OsdBackoff, OsdOp};
use wire::msgr::SessionId;

/// What a read without a length is taken to bring: the size that clients cut large data into. 4 MiB.
const WHOLE_OBJECT_BYTES: u64 = 4 << 20;
/// The most that one step is taken to read until it is known: objects smaller than the range asked for exist, too.
const READ_BYTES_MAX: u64 = 32 << 20;

/// Bytes that an operation will bring into memory, as far as its steps tell.
pub(crate) fn output_bytes(ops: &[Op]) -> usize {
    let of = |op: &Op| match (op.code, &op.args) {
        (OpCode::READ | OpCode::SPARSE_READ, OpArgs::Extent(Extent { length, .. }))
        | (OpCode::CHECKSUM, OpArgs::Checksum(Checksum { length, .. })) => match *length {
            0 => WHOLE_OBJECT_BYTES,
            length => length.min(READ_BYTES_MAX),
        },
        _ => 0,
    };
    ops.iter().map(|op| of(op) as usize).sum()
}

/// What a client has sent.
pub(crate) enum Sent {
    Op {
        tid: u64,
        op: OsdOp,
        times: OpTimes,
    },
    /// That it holds back what it was asked to; what it sent before comes first.
    Ack(OsdBackoff),
}

#[derive(Default)]
pub(crate) struct Intake {
    waiting: VecDeque<(SessionId, Sent)>,
    /// Answers that the network has not taken yet.
    pub unsent_bytes: usize,
}

impl Intake {
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
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
    fn reads_are_counted_by_what_they_ask_for() {
        let of = |ops: &[Op]| output_bytes(ops);
        assert_eq!(of(&[Op::read(0, 4096), Op::read(1 << 30, 100)]), 4196);
        assert_eq!(of(&[Op::read(0, 0)]), 4 << 20);
        assert_eq!(of(&[Op::read(0, u64::MAX)]), 32 << 20);
        assert_eq!(of(&[Op::checksum(Checksum::CRC32C, 0, 5000, 0)]), 5000);
        assert_eq!(of(&[Op::write(0, Rope::from(vec![0; 5000])), Op::stat()]), 0);
    }
}
