//! Operations, acknowledgements and questions that wait for a newer map.

use super::Shard;
use crate::context::Output;
use crate::hops::OpTimes;
use crate::intake::operations::OP_BYTES;
use crate::messages::peering::PgQuery;
use std::collections::BTreeMap;
use types::{Epoch, OsdId};
use wire::messages::{OsdBackoff, OsdOp};
use wire::msgr::SessionId;

/// Something that waits for a newer map.
pub(super) enum Deferred {
    ClientOp {
        session: SessionId,
        tid: u64,
        op: Box<OsdOp>,
        times: OpTimes,
    },
    /// An acknowledgement, behind what the client sent before.
    Ack {
        session: SessionId,
        ack: Box<OsdBackoff>,
    },
    Query {
        from: OsdId,
        message: PgQuery,
        /// Its part of [`Queried`].
        bytes: usize,
    },
}

/// Bytes of questions of one OSD that wait for newer maps, at most. They ask about more groups than two OSDs share.
const QUERIED_BYTES_MAX: usize = 32 << 20;
/// Bytes that a question takes beside its own.
const QUERY_BYTES: usize = 1 << 10;

/// Bytes of other OSDs' questions that wait for newer maps.
#[derive(Default)]
pub(super) struct Queried(BTreeMap<OsdId, usize>);

impl Queried {
    /// Adds a question. Returns its bytes. `None`: there is no room, and the question is to be dropped. An honest OSD
    /// asks again every few seconds, and may do so for long while this one is behind.
    pub fn add(&mut self, from: OsdId, front: usize) -> Option<usize> {
        let (known, bytes) = (self.0.entry(from).or_default(), front + QUERY_BYTES);
        let has_room = *known + bytes <= QUERIED_BYTES_MAX;
        *known += if has_room { bytes } else { 0 };
        has_room.then_some(bytes)
    }

    fn remove(&mut self, from: OsdId, bytes: usize) {
        if let Some(known) = self.0.get_mut(&from) {
            *known -= bytes;
        }
    }

    /// Forgets all questions of an OSD.
    pub fn forget(&mut self, from: OsdId) {
        self.0.remove(&from);
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// Returns the memory of an operation that waits for its map.
pub(super) fn deferred_bytes(op: &OsdOp) -> usize {
    if mutant::is(mutant::Mutant::DeferredUncounted) {
        return 0;
    }
    op.input_bytes() + OP_BYTES
}

impl Shard {
    pub(super) fn run_deferred(&mut self) {
        while let Some(entry) = self.deferred.first_entry() {
            if *entry.key() > self.host.maps.epoch() {
                break;
            }
            for deferred in entry.remove() {
                match deferred {
                    Deferred::ClientOp { session, tid, op, times } => {
                        self.host.shared.held.give_back(deferred_bytes(&op));
                        self.dispatch_op(session, tid, *op, times);
                    }
                    Deferred::Ack { session, ack } => self.dispatch_ack(session, *ack),
                    Deferred::Query { from, message, bytes } => {
                        self.queried.remove(from, bytes);
                        self.query(from, message);
                    }
                }
            }
        }
    }

    pub(super) fn defer(&mut self, epoch: Epoch, deferred: Deferred) {
        if epoch > self.host.maps.newest_epoch() {
            self.host.outbox.outputs.push(Output::NeedMaps { from: self.host.maps.newest_epoch().next() });
        }
        self.deferred.entry(epoch).or_default().push(deferred);
    }

    /// Forgets what clients have sent that are gone, with maps that are still to come.
    pub(super) fn forget_deferred(&mut self, is_gone: impl Fn(SessionId) -> bool) {
        let (deferred, held) = (&mut self.deferred, &mut self.host.shared.held);
        for all in deferred.values_mut() {
            all.retain(|deferred| match deferred {
                Deferred::ClientOp { session, op, .. } if is_gone(*session) => {
                    held.give_back(deferred_bytes(op));
                    false
                }
                Deferred::Ack { session, .. } => !is_gone(*session),
                _ => true,
            });
        }
        deferred.retain(|_, all| !all.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_of_one_osd_that_wait_are_bounded() {
        let (mut queried, taken_over, other) = (Queried::default(), OsdId(1), OsdId(2));
        let mut sizes = Vec::new();
        while let Some(bytes) = queried.add(taken_over, 3000) {
            sizes.push(bytes);
        }
        assert!(sizes.iter().sum::<usize>() <= QUERIED_BYTES_MAX && sizes.len() > 5000);
        let half = QUERIED_BYTES_MAX / 2;
        assert!(queried.add(other, half).is_some() && queried.add(other, half).is_none());
        queried.remove(taken_over, sizes[0]);
        assert!(queried.add(taken_over, 3000).is_some() && queried.add(taken_over, 3000).is_none());
        queried.forget(taken_over);
        assert!(queried.add(taken_over, 3000).is_some());
    }
}
