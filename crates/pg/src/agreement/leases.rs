//! Read leases: a primary answers reads only as long as every serving member has promised not to let others serve.
//!
//! A lease is between two OSDs and covers every group in which the grantor follows the holder. The holder asks when it
//! has reads to answer, with a stamp of its own clock; from that stamp on it holds the lease for [`LEASE`]. The grantor
//! counts a longer time from when the question came, so that clocks may run at rates that differ by a tenth. When a
//! member follows another primary, it tells that one how long its promises may last (see `docs/peering.md`).

use crate::messages::lease::LeaseGrant;
use crate::messages::lease::ShareWish;
use mutant::Mutant;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{Epoch, OsdId, PgId};

/// Time for which a holder may rely on a grant, since it asked.
pub(crate) const LEASE: Duration = Duration::from_millis(1500);
/// Time for which a grantor keeps its promise, since it was asked.
const PROMISE: Duration = Duration::from_millis(1650);
const _: () = assert!(
    10 * PROMISE.as_millis() >= 11 * LEASE.as_millis(),
    "a promise outlasts the lease even if the grantor's clock is faster than the holder's by a tenth"
);
/// Nobody promises, or lets others read, for so long. Who says that he has is not believed: groups wait until it is
/// over.
pub(crate) const SPAN_MAX: Duration = Duration::from_millis(3300);
const _: () = assert!(SPAN_MAX.as_millis() >= 2 * PROMISE.as_millis() && SPAN_MAX.as_millis() >= 2 * LEASE.as_millis());
/// A question is repeated after this time.
const ASK_AGAIN: Duration = Duration::from_millis(300);
const _: () = assert!(2 * ASK_AGAIN.as_millis() < LEASE.as_millis(), "a lost question is repeated before a lease ends");

/// One OSD's leases.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    /// Time when this OSD started. It does not know what it promised before.
    started: Option<Duration>,
    held: BTreeMap<OsdId, HeldLease>,
    /// Times until which promises to others last.
    promised: BTreeMap<OsdId, Duration>,
    /// OSDs to ask for leases at the end of the turn.
    wanted: BTreeSet<OsdId>,
    /// Groups with reads that wait.
    pub waiting: BTreeSet<PgId>,
    /// Times until which others may read by what this OSD has shared with them.
    shared: BTreeMap<OsdId, Duration>,
    /// Reads that came here though others lead the groups.
    pub replica_reads: ReplicaReadCounts,
    /// Shares to be asked for at the end of the turn, of whom.
    pub shares_wanted: BTreeMap<OsdId, Vec<ShareWish>>,
}

/// Reads of clients in groups that other OSDs lead, since the OSD started.
#[derive(Clone, Copy, Default, Debug)]
pub struct ReplicaReadCounts {
    pub asked: u64,
    /// The others were sent to the primary.
    pub served: u64,
}

/// A lease that one grantor has granted this OSD.
#[derive(Debug, Default)]
struct HeldLease {
    until: Duration,
    asked_at: Option<Duration>,
    /// A grant by a grantor that had a newer map: which groups it covers is known once this OSD has that, too.
    later: Option<(Epoch, Duration)>,
}

impl Leases {
    pub fn set_time(&mut self, now: Duration) {
        self.started.get_or_insert(now);
    }

    /// Returns true if `grantor` lets this OSD answer reads. Notes in time that it is to be asked for more.
    pub fn holds(&mut self, grantor: OsdId, now: Duration) -> bool {
        let held = self.held.entry(grantor).or_default();
        let asked_lately = held.asked_at.is_some_and(|at| now < at + ASK_AGAIN);
        if now + LEASE / 2 >= held.until && !asked_lately {
            self.wanted.insert(grantor);
        }
        now < held.until
    }

    /// Returns for how long `grantors` all let this OSD answer reads still; `None` if one does not. Notes in time that
    /// they are to be asked for more.
    pub fn left(&mut self, grantors: impl Iterator<Item = OsdId>, now: Duration) -> Option<Duration> {
        let mut left = LEASE;
        for grantor in grantors {
            self.holds(grantor, now);
            left = left.min(self.held[&grantor].until.saturating_sub(now));
        }
        (left > Duration::ZERO).then_some(left)
    }

    /// Notes that `member` may read for this `span` of its own clock.
    pub fn share(&mut self, member: OsdId, span: Duration, now: Duration) {
        let until = self.shared.entry(member).or_default();
        *until = (now + by_another_clock(span)).max(*until);
    }

    /// Returns for how long members that a lease was shared with may read still.
    pub fn shares(&mut self, now: Duration) -> Vec<(OsdId, Duration)> {
        self.shared.retain(|_, until| *until > now);
        self.shared.iter().map(|(osd, until)| (*osd, *until - now)).collect()
    }

    /// Tells whether leases are wanted that nobody has asked for.
    pub fn wants_any(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Takes the OSDs to be asked now.
    pub fn take_wanted(&mut self, now: Duration) -> BTreeSet<OsdId> {
        for osd in &self.wanted {
            self.held.entry(*osd).or_default().asked_at = Some(now);
        }
        std::mem::take(&mut self.wanted)
    }

    /// Grants `holder` a lease, which it asked for with its `stamp`; this OSD has the map `epoch`.
    pub fn grant(&mut self, holder: OsdId, stamp: u64, epoch: Epoch, now: Duration) -> LeaseGrant {
        let promise = if mutant::is(Mutant::ClocksAgree) { LEASE } else { PROMISE };
        self.promised.insert(holder, now + promise);
        LeaseGrant { stamp, epoch }
    }

    /// Takes a grant that has come. Returns true if it counts at once.
    pub fn granted(&mut self, grantor: OsdId, grant: &LeaseGrant, epoch: Epoch) -> bool {
        let held = self.held.entry(grantor).or_default();
        let Some(asked_at) = held.asked_at.filter(|at| at.as_micros() == u128::from(grant.stamp)) else { return false };
        held.asked_at = None;
        let until = asked_at + if mutant::is(Mutant::LeaseTooLong) { 2 * LEASE } else { LEASE };
        if grant.epoch > epoch && !mutant::is(Mutant::LeaseForOlderMap) {
            held.later = Some((grant.epoch, until));
            return false;
        }
        held.until = held.until.max(until);
        true
    }

    /// Ends all leases that this OSD holds. Its clock may have stood still while that of others went on, so their
    /// promises may have ended; questions that it asked before count for nothing. Its own promises last longer than
    /// they have to.
    pub fn end_held(&mut self) {
        self.held.clear();
        self.shares_wanted.clear();
    }

    /// Begins to count leases that wait for the map `epoch`, which the groups follow now.
    pub fn follow_map(&mut self, epoch: Epoch) {
        for held in self.held.values_mut() {
            if let Some((_, until)) = held.later.take_if(|(needed, _)| *needed <= epoch) {
                held.until = held.until.max(until);
            }
        }
    }

    /// Returns how long promises to each OSD last still; and first, how long promises that may have been made before
    /// this OSD started do.
    pub fn promises(&self, now: Duration) -> (Duration, Vec<(OsdId, Duration)>) {
        let mut unknown = self.started.map_or(PROMISE, |at| (at + PROMISE).saturating_sub(now));
        if mutant::is(Mutant::PromisesForgotten) {
            unknown = Duration::ZERO;
        }
        let left = |(osd, until): (&OsdId, &Duration)| until.checked_sub(now).map(|left| (*osd, left));
        (unknown, self.promised.iter().filter_map(left).collect())
    }
}

/// Returns `span`, which was measured by another clock, with a tenth added: clocks' rates may differ by that much.
pub(crate) fn by_another_clock(span: Duration) -> Duration {
    if mutant::is(Mutant::ClocksAgree) { span } else { span + span / 10 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: OsdId = OsdId(0);
    const B: OsdId = OsdId(1);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_lease_ends_before_the_promise_does() {
        let (mut holder, mut grantor) = (Leases::default(), Leases::default());
        grantor.set_time(ms(0));
        assert!(!holder.holds(B, ms(5000)));
        assert_eq!(holder.take_wanted(ms(5000)), [B].into());
        let grant = grantor.grant(A, 5_000_000, Epoch(3), ms(5200));
        assert!(holder.granted(B, &grant, Epoch(3)));
        assert!(holder.holds(B, ms(6499)) && !holder.holds(B, ms(6500)));
        assert_eq!(grantor.promises(ms(6500)), (ms(0), vec![(A, ms(350))]));
        assert_eq!(grantor.promises(ms(7000)), (ms(0), vec![]));
        assert_eq!(holder.take_wanted(ms(6000)), [B].into(), "asked again in time");
        assert!(!holder.granted(B, &grant, Epoch(3)), "an answer to an older question");
    }

    #[test]
    fn a_grantor_with_a_newer_map_grants_nothing_before_the_holder_has_it() {
        let mut holder = Leases::default();
        assert!(!holder.holds(B, ms(0)));
        holder.take_wanted(ms(0));
        assert!(!holder.granted(B, &LeaseGrant { stamp: 0, epoch: Epoch(4) }, Epoch(3)));
        assert!(!holder.holds(B, ms(1)));
        holder.follow_map(Epoch(3));
        assert!(!holder.holds(B, ms(1)));
        holder.follow_map(Epoch(4));
        assert!(holder.holds(B, ms(1)));
    }

    #[test]
    fn a_share_lasts_as_long_as_the_shortest_lease_and_is_remembered_longer() {
        let mut leases = Leases::default();
        assert_eq!(leases.left([A, B].into_iter(), ms(1000)), None);
        assert_eq!(leases.take_wanted(ms(1000)), [A, B].into());
        assert!(leases.granted(B, &LeaseGrant { stamp: 1_000_000, epoch: Epoch(3) }, Epoch(3)));
        assert_eq!(leases.left([A, B].into_iter(), ms(1400)), None, "one is not enough");
        leases.take_wanted(ms(1400));
        assert!(leases.granted(A, &LeaseGrant { stamp: 1_400_000, epoch: Epoch(3) }, Epoch(3)));
        let left = leases.left([A, B].into_iter(), ms(1500)).expect("both have granted");
        assert_eq!(left, ms(1000));
        leases.share(A, left, ms(1500));
        assert_eq!(leases.shares(ms(1500)), [(A, ms(1100))]);
        assert_eq!(leases.left([A, B].into_iter(), ms(2500)), None);
        assert_eq!(leases.shares(ms(2600)), []);
    }

    #[test]
    fn who_has_just_started_may_have_promised() {
        let mut grantor = Leases::default();
        grantor.set_time(ms(700));
        assert_eq!(grantor.promises(ms(1000)).0, PROMISE - ms(300));
    }
}
