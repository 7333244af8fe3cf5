//! Updates in flight.

use crate::hops::MemberAck;
use crate::intake::operations::ClientOp;
use crate::ops::WatchEffect;
use crate::updates::durability::Durability;
use std::collections::VecDeque;
use types::EVersion;
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

/// The primary's view of its updates. Empty on other members.
#[derive(Debug, Default)]
pub(crate) struct Replication {
    pub(super) in_flight: VecDeque<UpdateInFlight>,
    pub(super) durability: Durability,
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

    /// Returns true if no update is in flight.
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Returns the sessions of clients that wait for updates in flight.
    pub fn sessions(&self) -> impl Iterator<Item = SessionId> {
        self.in_flight.iter().map(|update| update.op.session)
    }

    /// Returns the operations whose updates are in flight, oldest first.
    pub fn ops(&self) -> impl Iterator<Item = &ClientOp> {
        self.in_flight.iter().map(|update| &update.op)
    }

    /// Returns the operations whose updates were in flight, oldest first.
    pub fn into_ops(self) -> impl Iterator<Item = ClientOp> {
        self.in_flight.into_iter().map(|update| update.op)
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
