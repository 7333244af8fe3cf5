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
    /// Members whose shards it skips: they are told of it later, and its client is answered without them.
    pub(super) skips: Vec<OsdId>,
}

/// One update that all have that it touches, and without whom no client is answered. Its client waits for the answer.
#[derive(Debug)]
pub(crate) struct DoneUpdate {
    pub version: EVersion,
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

    /// Takes updates whose clients can be answered out of those in flight: all have them that they touch, and without
    /// whom no client is answered, and so it is with those before them. `whoami` is the primary. `last_member`: whose
    /// acknowledgement ends them, if it is not the primary's own. Returns true if there are any.
    pub(super) fn end_done(&mut self, whoami: OsdId, last_member: Option<OsdId>) -> bool {
        let is_done = |update: &&UpdateInFlight| self.durability.is_done(update.version, &update.skips, whoami);
        let count = self.in_flight.iter().take_while(is_done).count();
        let done = self.in_flight.drain(..count).map(|update| {
            let UpdateInFlight { version, op, reply, acks, watch, .. } = update;
            DoneUpdate { version, op, reply, acks, watch, last_member }
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
        let in_flight = self.in_flight.iter_mut().map(|update| (update.version, &mut update.op, &mut update.reply));
        let done = self.done.iter_mut().map(|update| (update.version, &mut update.op, &mut update.reply));
        let Some((_, op, reply)) = done.chain(in_flight).find(|(other, ..)| *other == version) else { return false };
        (op.session, op.tid) = (session, tid);
        (op.op.retry_attempt, reply.retry_attempt) = (retry_attempt, retry_attempt);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hops::OpTimes;
    use bytes::Bytes;
    use std::time::Duration;
    use types::{Epoch, PgId, PoolId, ReqId};
    use wire::basic::{Locator, NO_SHARD, SPgId};
    use wire::messages::{Op, OsdOp};

    const PRIMARY: OsdId = OsdId(0);

    fn at(version: u64) -> EVersion {
        EVersion { epoch: Epoch(1), version }
    }

    /// An update whose number is that of its request, too.
    fn update(version: u64) -> UpdateInFlight {
        let pgid = SPgId { pg: PgId::new(1, 0), shard: NO_SHARD };
        let (locator, name) = (Locator::pool(PoolId(1)), Bytes::from_static(b"a"));
        let request = OsdOp::new(pgid, 7, Epoch(1), locator, name, vec![Op::stat()]);
        let reply = OsdOpReply::to(&request, 0, Epoch(1));
        let times = OpTimes::new(Duration::ZERO, Duration::ZERO);
        let op = ClientOp::new(SessionId(3), version, ReqId::default(), request, times);
        UpdateInFlight { version: at(version), op, reply, acks: Vec::new(), watch: Vec::new(), skips: Vec::new() }
    }

    /// Updates of which nothing is durable.
    fn of_three() -> Replication {
        let mut replication = Replication::default();
        replication.durability_mut().start(&[PRIMARY], at(4));
        [6, 7, 9].into_iter().for_each(|version| replication.begin(update(version)));
        assert!(!replication.end_done(PRIMARY, None));
        replication
    }

    /// Has the first two of them done, as another member says.
    fn two_done() -> Replication {
        let mut replication = of_three();
        replication.durability_mut().note_durable(PRIMARY, at(8));
        assert!(replication.durability_mut().commit(PRIMARY));
        assert!(replication.end_done(PRIMARY, Some(OsdId(2))));
        replication
    }

    #[test]
    fn no_operation_is_lost_where_an_interval_ends_before_updates_are_answered() {
        assert_eq!(two_done().into_ops().map(|op| op.tid).collect::<Vec<_>>(), [6, 7, 9]);
    }

    #[test]
    fn an_update_that_is_not_answered_is_answered_to_the_session_that_asks_again() {
        let mut replication = two_done();
        for version in [7, 9] {
            assert!(replication.redirect_answer(at(version), SessionId(5), 70 + version, 1), "{version}");
        }
        assert!(!replication.redirect_answer(at(8), SessionId(5), 78, 1), "there is none");
        let seen: Vec<_> = replication.ops().map(|op| (op.session, op.tid)).collect();
        assert_eq!(seen, [(SessionId(3), 6), (SessionId(5), 77), (SessionId(5), 79)]);
        let done = replication.take_done();
        assert_eq!(done.iter().map(|done| done.reply.retry_attempt).collect::<Vec<_>>(), [0, 1]);
        assert!(!replication.redirect_answer(at(7), SessionId(6), 80, 2), "it is answered");
    }

    #[test]
    fn updates_end_in_their_order_and_are_unanswered_until_they_are_taken() {
        let mut replication = two_done();
        assert!(!replication.end_done(PRIMARY, None), "they have ended");
        assert_eq!(replication.ops().map(|op| op.tid).collect::<Vec<_>>(), [6, 7, 9]);
        assert_eq!(replication.sessions().count(), 3);
        let done: Vec<_> = replication.take_done().into_iter().map(|done| (done.op.tid, done.last_member)).collect();
        assert_eq!(done, [(6, Some(OsdId(2))), (7, Some(OsdId(2)))]);
        assert!(!replication.is_idle() && replication.find(at(7)).is_none());
        assert!(replication.find(at(9)).is_some());
        assert_eq!(replication.into_ops().map(|op| op.tid).collect::<Vec<_>>(), [9]);
    }
}
