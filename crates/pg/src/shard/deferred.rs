//! Operations, acknowledgements and questions that wait for a newer map.

use super::Shard;
use crate::context::Output;
use crate::hops::OpTimes;
use crate::intake::operations::OP_BYTES;
use crate::messages::peering::PgQuery;
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
    },
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
                    Deferred::Query { from, message } => self.query(from, message),
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
