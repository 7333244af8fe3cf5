//! Updates in flight, and those that are done.

use crate::hops::MemberAck;
use crate::intake::operations::ClientOp;
use crate::ops::WatchEffect;
use crate::updates::durability::Durability;
use std::collections::VecDeque;
use types::{EVersion, OsdId};
use wire::messages::OsdOpReply;
use wire::msgr::SessionId;

/// One update that is not durable everywhere yet.
#[derive(Debug)]
pub(super) struct UpdateInFlight {
    pub(super) version: EVersion,
    /// Kept whole: if the interval ends and this OSD stays primary, it starts anew.
    pub(super) op: ClientOp,
    pub(super) reply: OsdOpReply,
    /// Acknowledgements of members that told how long it took them.
    pub(super) acks: Vec<MemberAck>,
    /// Effects on watches when it is durable.
    pub(super) watch: Vec<WatchEffect>,
}

/// One update that all have without whom no client is answered. Its client waits for the answer.
#[derive(Debug)]
pub(crate) struct DoneUpdate {
    pub op: ClientOp,
    pub reply: OsdOpReply,
    pub acks: Vec<MemberAck>,
    pub watch: Vec<WatchEffect>,
    /// The member whose acknowledgement came last, if it was not the primary itself.
    pub last_member: Option<OsdId>,
}

/// The primary's view of its updates. Empty on other members.
#[derive(Debug, Default)]
pub(crate) struct Replication {
    in_flight: VecDeque<UpdateInFlight>,
    /// Updates that are answered when this input is handled, oldest first.
    done: Vec<DoneUpdate>,
    durability: Durability,
    /// Version up to which members of an erasure-coded group have been told to forget what updates replaced.
    pub(super) told_forward: EVersion,
}

impl Replication {
    /// Returns how far members have updates durably.
    pub fn durability(&self) -> &Durability {
        &self.durability
    }

    /// Lends others how far members have updates durably.
    pub fn durability_mut(&mut self) -> &mut Durability {
        &mut self.durability
    }

    /// Returns true if no update is in flight, or waits to be answered.
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_empty() && self.done.is_empty()
    }

    /// Adds an update, which is newer than those in flight.
    pub(super) fn begin(&mut self, update: UpdateInFlight) {
        debug_assert!(self.in_flight.back().is_none_or(|last| last.version < update.version), "{update:?} is older");
        self.in_flight.push_back(update);
    }

    /// Takes updates that are committed out of those in flight. `last_member`: whose acknowledgement has committed
    /// them, if it is not the primary's own. Returns true if there are any.
    pub(super) fn end_committed(&mut self, last_member: Option<OsdId>) -> bool {
        let committed = self.durability.committed();
        let count = self.in_flight.partition_point(|update| update.version <= committed);
        let done = self.in_flight.drain(..count).map(|update| {
            let UpdateInFlight { op, reply, acks, watch, .. } = update;
            DoneUpdate { op, reply, acks, watch, last_member }
        });
        self.done.extend(done);
        count > 0
    }

    /// Gives the updates that are done, oldest first, to be answered.
    pub fn take_done(&mut self) -> Vec<DoneUpdate> {
        std::mem::take(&mut self.done)
    }

    /// Returns the sessions of clients whose updates are not answered.
    pub fn sessions(&self) -> impl Iterator<Item = SessionId> {
        self.ops().map(|op| op.session)
    }

    /// Returns the operations whose updates are not answered, oldest first.
    pub fn ops(&self) -> impl Iterator<Item = &ClientOp> {
        let done = self.done.iter().map(|update| &update.op);
        done.chain(self.in_flight.iter().map(|update| &update.op))
    }

    /// Returns the operations whose updates were not answered, oldest first.
    pub fn into_ops(self) -> impl Iterator<Item = ClientOp> {
        let done = self.done.into_iter().map(|update| update.op);
        done.chain(self.in_flight.into_iter().map(|update| update.op))
    }

    /// Returns the update `version`, if it is in flight.
    pub(super) fn find(&mut self, version: EVersion) -> Option<&mut UpdateInFlight> {
        // Some updates have several versions, of which the last one is theirs.
        let index = self.in_flight.binary_search_by(|update| update.version.cmp(&version)).ok()?;
        self.in_flight.get_mut(index)
    }

    /// Sends the answer to the update `version` to the session that its client has now. Returns false if it was
    /// answered.
    pub fn redirect_answer(&mut self, version: EVersion, session: SessionId, tid: u64, retry_attempt: i32) -> bool {
        match self.in_flight.iter_mut().find(|update| update.version == version) {
            Some(update) => {
                (update.op.session, update.op.tid) = (session, tid);
                (update.op.op.retry_attempt, update.reply.retry_attempt) = (retry_attempt, retry_attempt);
                true
            }
            None => false,
        }
    }
}
