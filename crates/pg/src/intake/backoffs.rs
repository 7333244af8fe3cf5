//! Clients that are asked to hold back what cannot be served for now: Ceph's backoffs.
//!
//! Where a group cannot serve, or an object is unfound, a request is not kept in memory. The client is told to send
//! nothing for a range of objects (`BLOCK`), and the request is dropped; the client acknowledges, and once it is let
//! (`UNBLOCK`) it sends everything again that it wants of that range, in its order. A backoff belongs to a session and
//! ends with it.
//!
//! **Order.** What a client sent before it had read `BLOCK` comes later than that was sent. It is dropped, too: else it
//! would be carried out before what was dropped earlier. So as long as a backoff stands everything in its range is
//! dropped, and it stands until the client has acknowledged it, even if the group has come to serve meanwhile: the
//! acknowledgement comes behind all that was sent before.
//!
//! Ranges of a session and group never overlap: Ceph's clients look only at the nearest one.

use mutant::Mutant;
use std::collections::BTreeMap;
use types::{Epoch, ObjectId, PgId};
use wire::basic::SPgId;
use wire::messages::{BackoffOp, OsdBackoff, OsdOp};
use wire::msgr::SessionId;

/// Counts of backoffs, and of requests held back by them, since the OSD started.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct BackoffCounts {
    /// Backoffs that stand now.
    pub standing: u64,
    /// All backoffs that clients were asked for.
    pub begun: u64,
    /// Requests that were dropped, each of which its client sends again.
    pub dropped: u64,
}

/// A range of objects for which a client is asked to send nothing, until it is let send again.
#[derive(Debug)]
struct Backoff {
    id: u64,
    end: ObjectId,
    /// The state of an object for want of which the backoff stands; `None`: the whole group does not serve.
    lacks: Option<ObjectId>,
    is_acknowledged: bool,
    /// Set when the backoff ends as soon as it is acknowledged.
    ends: bool,
}

impl Backoff {
    fn message(&self, op: BackoffOp, pgid: SPgId, begin: &ObjectId, epoch: Epoch) -> OsdBackoff {
        OsdBackoff { pgid, epoch, op, id: self.id, begin: begin.clone(), end: self.end.clone() }
    }
}

/// Backoffs of one session in one group, by where their ranges begin.
type Ranges = BTreeMap<ObjectId, Backoff>;

/// All backoffs of a shard's clients.
#[derive(Debug, Default)]
pub(crate) struct Backoffs {
    of_groups: BTreeMap<SPgId, BTreeMap<SessionId, Ranges>>,
    last_id: u64,
    /// Messages to send, in this order.
    out: Vec<(SessionId, OsdBackoff)>,
    counts: BackoffCounts,
}

/// A request that is held back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldBack<'a> {
    pub session: SessionId,
    /// The group as the client names it.
    pub pgid: SPgId,
    /// The object as clients name it.
    pub object: &'a ObjectId,
    /// Epoch of the map in force.
    pub epoch: Epoch,
}

/// Returns the backoff in whose range an object is.
fn covering<'a>(ranges: &'a mut Ranges, object: &ObjectId) -> Option<(bool, &'a mut Backoff)> {
    let (begin, backoff) = ranges.range_mut(..=object).next_back()?;
    let is_single = *begin == backoff.end;
    (begin == object || *object < backoff.end).then_some((is_single, backoff))
}

fn all_shards(pg: PgId) -> std::ops::RangeInclusive<SPgId> {
    SPgId { pg, shard: i8::MIN }..=SPgId { pg, shard: i8::MAX }
}

impl Backoffs {
    /// Ids of backoffs are counted from this one on: a client takes all of a session for one OSD's.
    pub fn numbered_from(last_id: u64) -> Backoffs {
        Backoffs { last_id, ..Backoffs::default() }
    }

    pub fn counts(&self) -> BackoffCounts {
        let of_group =
            |sessions: &BTreeMap<SessionId, Ranges>| sessions.values().map(|ranges| ranges.len() as u64).sum::<u64>();
        BackoffCounts { standing: self.of_groups.values().map(of_group).sum(), ..self.counts }
    }

    /// Takes the messages to send, in this order; behind all that was answered until now.
    pub fn take_messages(&mut self) -> Vec<(SessionId, OsdBackoff)> {
        std::mem::take(&mut self.out)
    }

    /// Returns true if a request that has come must be dropped: its client sends it again when the backoff ends.
    pub fn drops(&mut self, session: SessionId, op: &OsdOp) -> bool {
        let ranges = self.of_groups.get_mut(&op.pgid).and_then(|sessions| sessions.get_mut(&session));
        let Some(ranges) = ranges else { return false };
        let is_held = covering(ranges, &op.object_id().head_of()).is_some();
        let is_held = is_held && !mutant::is(Mutant::BackoffOvertaken);
        self.counts.dropped += u64::from(is_held);
        is_held
    }

    /// Drops a request, and asks its client to send nothing for its group, whose objects are those in `range`.
    pub fn hold_group(&mut self, request: HeldBack<'_>, range: (ObjectId, ObjectId)) {
        let ranges = self.ranges_of(request);
        if let Some((_, backoff)) = covering(ranges, request.object) {
            (backoff.lacks, backoff.ends) = (None, false);
            return;
        }
        let (begin, end) = match ranges.is_empty() {
            true => range,
            // Ranges must not overlap.
            false => (request.object.clone(), request.object.clone()),
        };
        self.begin(request, begin, end, None);
    }

    /// Drops a request that needs the missing state `lacks` of its object, and asks the client to send nothing for the
    /// object.
    pub fn hold_object(&mut self, request: HeldBack<'_>, lacks: ObjectId) {
        match covering(self.ranges_of(request), request.object) {
            Some((true, backoff)) => (backoff.lacks, backoff.ends) = (Some(lacks), false),
            // The group's backoff ends, and the request comes again.
            Some((false, _)) => {}
            None => self.begin(request, request.object.clone(), request.object.clone(), Some(lacks)),
        }
    }

    fn ranges_of(&mut self, request: HeldBack<'_>) -> &mut Ranges {
        self.counts.dropped += 1;
        self.of_groups.entry(request.pgid).or_default().entry(request.session).or_default()
    }

    fn begin(&mut self, request: HeldBack<'_>, begin: ObjectId, end: ObjectId, lacks: Option<ObjectId>) {
        let HeldBack { session, pgid, epoch, .. } = request;
        self.last_id += 1;
        self.counts.begun += 1;
        let backoff = Backoff { id: self.last_id, end, lacks, is_acknowledged: false, ends: false };
        self.out.push((session, backoff.message(BackoffOp::Block, pgid, &begin, epoch)));
        let ranges = self.of_groups.get_mut(&pgid).and_then(|sessions| sessions.get_mut(&session));
        ranges.expect("the caller has looked").insert(begin, backoff);
    }

    /// Notes that a client has understood what it is to hold back: nothing that it sent before is still to come.
    pub fn acknowledged(&mut self, session: SessionId, ack: &OsdBackoff, epoch: Epoch) {
        let ranges = self.of_groups.get_mut(&ack.pgid).and_then(|sessions| sessions.get_mut(&session));
        let backoff = ranges.and_then(|ranges| ranges.get_mut(&ack.begin)).filter(|backoff| backoff.id == ack.id);
        // A backoff of this session that is over is not known any more.
        let Some(backoff) = backoff else { return };
        backoff.is_acknowledged = true;
        if backoff.ends {
            self.end(ack.pgid.pg, epoch, |backoff| backoff.ends);
        }
    }

    /// Returns true if backoffs stand for want of objects of a group.
    pub fn any_for_objects(&self, pg: PgId) -> bool {
        let lacks = |ranges: &Ranges| ranges.values().any(|backoff| backoff.lacks.is_some() && !backoff.ends);
        self.of_groups.range(all_shards(pg)).any(|(_, sessions)| sessions.values().any(lacks))
    }

    /// Lets clients send again all that they hold back of a group. Returns their sessions.
    pub fn release(&mut self, pg: PgId, epoch: Epoch) -> Vec<SessionId> {
        let sessions =
            self.of_groups.range(all_shards(pg)).flat_map(|(_, sessions)| sessions.keys().copied()).collect();
        self.end(pg, epoch, |_| true);
        sessions
    }

    /// Lets clients send again requests that wait for objects which `is_found` says are not lacking any more.
    pub fn release_objects(&mut self, pg: PgId, epoch: Epoch, is_found: impl Fn(&ObjectId) -> bool) {
        self.end(pg, epoch, |backoff| backoff.lacks.as_ref().is_some_and(&is_found));
    }

    fn end(&mut self, pg: PgId, epoch: Epoch, which: impl Fn(&Backoff) -> bool) {
        let Backoffs { of_groups, out, .. } = self;
        let mut ended = |pgid: SPgId, session: SessionId, begin: &ObjectId, backoff: &mut Backoff| {
            backoff.ends |= which(backoff);
            let is_over = backoff.ends && (backoff.is_acknowledged || mutant::is(Mutant::UnblockedUnacknowledged));
            if is_over {
                out.push((session, backoff.message(BackoffOp::Unblock, pgid, begin, epoch)));
            }
            is_over
        };
        let emptied = of_groups.extract_if(all_shards(pg), |pgid, sessions| {
            sessions.retain(|session, ranges| {
                ranges.retain(|begin, backoff| !ended(*pgid, *session, begin, backoff));
                !ranges.is_empty()
            });
            sessions.is_empty()
        });
        emptied.for_each(drop);
    }

    /// Forgets a client that is gone, and what it was asked for with its session.
    pub fn session_ended(&mut self, session: SessionId) {
        self.of_groups.retain(|_, sessions| {
            sessions.remove(&session);
            !sessions.is_empty()
        });
        self.out.retain(|(to, _)| *to != session);
    }

    /// Forgets all sessions, as the OSD ends.
    pub fn forget_all(&mut self) {
        self.of_groups.clear();
        self.out.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PG: SPgId = SPgId::replicated(PgId::new(1, 0));
    const OTHER: SPgId = SPgId::replicated(PgId::new(1, 1));
    const A: SessionId = SessionId(1);
    const B: SessionId = SessionId(2);

    fn object(name: &str) -> ObjectId {
        ObjectId::head(PG.pg.pool, 4, b"", name.as_bytes())
    }

    fn range() -> (ObjectId, ObjectId) {
        (osdmap::pg_range(PG.pg, 2).0, osdmap::pg_cursor_end(PG.pg, 2))
    }

    fn request<'a>(session: SessionId, object: &'a ObjectId) -> HeldBack<'a> {
        HeldBack { session, pgid: PG, object, epoch: Epoch(7) }
    }

    fn op(pgid: SPgId, name: &str) -> OsdOp {
        let (locator, name) = (wire::basic::Locator::pool(PG.pg.pool), bytes::Bytes::from(name.to_owned()));
        OsdOp::new(pgid, 4, Epoch(7), locator, name, Vec::new())
    }

    fn said(backoffs: &mut Backoffs) -> Vec<(SessionId, BackoffOp, u64)> {
        backoffs.take_messages().into_iter().map(|(to, message)| (to, message.op, message.id)).collect()
    }

    fn ack(backoffs: &mut Backoffs, session: SessionId, block: &OsdBackoff) {
        let ack = OsdBackoff { op: BackoffOp::AckBlock, ..block.clone() };
        backoffs.acknowledged(session, &ack, Epoch(8));
    }

    #[test]
    fn a_group_is_blocked_once_and_unblocked_once_the_client_has_acknowledged() {
        let mut backoffs = Backoffs::numbered_from(100);
        assert!(!backoffs.drops(A, &op(PG, "a")));
        backoffs.hold_group(request(A, &object("a")), range());
        backoffs.hold_group(request(A, &object("b")), range());
        let [(A, block)] = &backoffs.take_messages()[..] else { panic!("one message") };
        let (begin, end) = range();
        let expected = OsdBackoff { pgid: PG, epoch: Epoch(7), op: BackoffOp::Block, id: 101, begin, end };
        assert_eq!(*block, expected);
        assert!(
            backoffs.drops(A, &op(PG, "z")) && !backoffs.drops(B, &op(PG, "z")) && !backoffs.drops(A, &op(OTHER, "z"))
        );
        // A request that comes before the acknowledgement is dropped though the group serves.
        assert_eq!(backoffs.release(PG.pg, Epoch(8)), [A]);
        assert!(backoffs.drops(A, &op(PG, "z")) && said(&mut backoffs).is_empty());
        ack(&mut backoffs, B, block);
        assert!(said(&mut backoffs).is_empty(), "another client's");
        ack(&mut backoffs, A, block);
        assert_eq!(said(&mut backoffs), [(A, BackoffOp::Unblock, 101)]);
        assert!(!backoffs.drops(A, &op(PG, "z")));
        assert_eq!(backoffs.counts(), BackoffCounts { standing: 0, begun: 1, dropped: 4 });
        // A backoff that has been acknowledged ends at once.
        backoffs.hold_group(request(A, &object("a")), range());
        let [(_, block)] = &backoffs.take_messages()[..] else { panic!("one message") };
        ack(&mut backoffs, A, block);
        assert!(backoffs.drops(A, &op(PG, "a")) && said(&mut backoffs).is_empty());
        backoffs.release(PG.pg, Epoch(9));
        assert_eq!(said(&mut backoffs), [(A, BackoffOp::Unblock, 102)]);
    }

    #[test]
    fn a_group_that_stops_again_before_the_acknowledgement_is_still_blocked() {
        let mut backoffs = Backoffs::default();
        backoffs.hold_group(request(A, &object("a")), range());
        let [(_, block)] = &backoffs.take_messages()[..] else { panic!("one message") };
        backoffs.release(PG.pg, Epoch(8));
        backoffs.hold_group(request(A, &object("a")), range());
        ack(&mut backoffs, A, block);
        assert!(said(&mut backoffs).is_empty() && backoffs.drops(A, &op(PG, "a")));
        backoffs.release(PG.pg, Epoch(9));
        assert_eq!(said(&mut backoffs), [(A, BackoffOp::Unblock, 1)]);
    }

    #[test]
    fn ranges_never_overlap() {
        let mut backoffs = Backoffs::default();
        backoffs.hold_object(request(A, &object("b")), object("b"));
        // The group stops while the first is not acknowledged.
        backoffs.release_objects(PG.pg, Epoch(8), |_| true);
        backoffs.hold_group(request(A, &object("a")), range());
        backoffs.hold_group(request(A, &object("b")), range());
        backoffs.hold_group(request(B, &object("b")), range());
        let messages = backoffs.take_messages();
        let ranges: Vec<_> = messages.iter().map(|(to, m)| (*to, m.begin.clone(), m.end.clone())).collect();
        let single = |name| (A, object(name), object(name));
        assert_eq!(ranges, [single("b"), single("a"), (B, range().0, range().1)]);
        assert!(backoffs.drops(A, &op(PG, "a")) && backoffs.drops(A, &op(PG, "b")) && !backoffs.drops(A, &op(PG, "c")));
        messages.iter().for_each(|(session, block)| ack(&mut backoffs, *session, block));
        assert!(said(&mut backoffs).is_empty(), "the group does not serve");
        backoffs.release(PG.pg, Epoch(9));
        assert_eq!(said(&mut backoffs).len(), 3);
    }

    #[test]
    fn objects_are_let_go_one_by_one() {
        let mut backoffs = Backoffs::default();
        for name in ["a", "b"] {
            backoffs.hold_object(request(A, &object(name)), object(name));
        }
        backoffs.take_messages().iter().for_each(|(session, block)| ack(&mut backoffs, *session, block));
        assert!(backoffs.any_for_objects(PG.pg) && !backoffs.any_for_objects(OTHER.pg));
        backoffs.release_objects(PG.pg, Epoch(8), |lacks| *lacks == object("b"));
        assert_eq!(said(&mut backoffs), [(A, BackoffOp::Unblock, 2)]);
        assert!(backoffs.drops(A, &op(PG, "a")) && !backoffs.drops(A, &op(PG, "b")));
    }

    #[test]
    fn a_session_takes_its_backoffs_with_it() {
        let mut backoffs = Backoffs::default();
        backoffs.hold_group(request(A, &object("a")), range());
        backoffs.hold_group(request(B, &object("a")), range());
        backoffs.session_ended(A);
        assert_eq!(said(&mut backoffs), [(B, BackoffOp::Block, 2)]);
        assert!(!backoffs.drops(A, &op(PG, "a")) && backoffs.drops(B, &op(PG, "a")));
        backoffs.session_ended(B);
        assert!(backoffs.of_groups.is_empty());
    }
}
