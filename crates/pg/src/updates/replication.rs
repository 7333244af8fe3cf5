//! Updates in flight, and how far members have them durably.

use crate::hops::MemberAck;
use crate::intake::operations::ClientOp;
use crate::ops::WatchEffect;
use mutant::Mutant;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
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

/// The primary's view of its updates. Empty on other members.
#[derive(Debug, Default)]
pub(crate) struct Replication {
    pub(super) in_flight: VecDeque<UpdateInFlight>,
    /// How far each member that gets updates, the primary included, is durable.
    pub(super) durable: BTreeMap<OsdId, EVersion>,
    /// Members without which no client is answered.
    pub(super) needed: BTreeSet<OsdId>,
    /// How far all of these are. Clients may have been answered for updates behind it, which skip some of them.
    pub(super) committed: EVersion,
    /// Version up to which members of an erasure-coded group may have been brought objects whole, which they could not
    /// take back. Until that is committed, members that can must stay.
    pub(super) brought: EVersion,
}

impl Replication {
    /// Begins an active interval in which all members are at `head`.
    pub fn start(&mut self, members: &[OsdId], head: EVersion) {
        self.in_flight.clear();
        self.durable = members.iter().map(|osd| (*osd, head)).collect();
        self.needed = members.iter().copied().collect();
        self.committed = head;
    }

    /// Returns how far all members are without which no client is answered.
    pub fn committed(&self) -> EVersion {
        self.committed
    }

    /// Notes that a member was brought an object, while the log's head was `head`.
    pub fn brought(&mut self, head: EVersion) {
        self.brought = head;
    }

    /// Tells whether the client of the oldest update in flight can be answered: each member that the update touches,
    /// and without which no client is answered, has it durably. `counts`: members that count.
    pub(super) fn is_first_done(&self, counts: impl Fn(OsdId) -> bool) -> bool {
        let is_done = |update: &UpdateInFlight| {
            let mut needed = self.needed.iter().filter(|osd| counts(**osd));
            needed.all(|osd| self.durable_on(*osd) >= update.version || update.skips.contains(osd))
        };
        self.in_flight.front().is_some_and(is_done)
    }

    /// Tells whether everything that was brought to members whole has come to stay.
    pub fn is_brought_to_stay(&self) -> bool {
        self.brought <= self.committed || mutant::is(Mutant::BroughtTooEarly)
    }

    /// Answers clients only with `osd` from now on, which has every update up to `durable`.
    pub fn need(&mut self, osd: OsdId, durable: EVersion) {
        let known = self.durable.entry(osd).or_default();
        *known = durable.max(*known);
        self.needed.insert(osd);
    }

    /// Tells whether a member has everything up to `until` durably, and so have all without whom no client is answered.
    pub fn is_settled_on(&self, osd: OsdId, until: EVersion) -> bool {
        let has_all = self.durable_on(osd) >= until || mutant::is(Mutant::ServesBeforeAll);
        has_all && self.committed >= until
    }

    pub fn durable_on(&self, osd: OsdId) -> EVersion {
        self.durable.get(&osd).copied().unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use super::*;
    use types::Epoch;

    #[test]
    fn who_comes_in_is_settled_once_it_has_what_the_others_were_answered_for() {
        let at = |version| EVersion { epoch: Epoch(1), version };
        let mut replication = Replication::default();
        replication.start(&[OsdId(0), OsdId(1)], at(9));
        replication.need(OsdId(2), at(7));
        assert!(!replication.is_settled_on(OsdId(2), at(9)), "the others have all, but it does not");
        replication.durable.insert(OsdId(2), at(9));
        assert!(replication.is_settled_on(OsdId(2), at(9)));
        assert!(!replication.is_settled_on(OsdId(2), at(10)));
        replication.durable.insert(OsdId(2), at(10));
        assert!(!replication.is_settled_on(OsdId(2), at(10)), "it has more than the others");
    }
}
