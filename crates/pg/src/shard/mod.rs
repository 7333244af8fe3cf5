//! All placement groups of one shard, their store and the maps: everything of an OSD but sockets, device and clock.
//!
//! The driver hands in messages, device results and time; outcomes are gathered with [`Shard::take_outputs`] and from
//! the store. A turn ends with [`Shard::end_turn`], which lets the store lay out what the turn has written.

pub(crate) mod bench;
mod clients;
pub(crate) mod copying;
mod deferred;
mod doubt;
pub(crate) mod homes;
mod host;
mod kept_ops;
pub(crate) mod maps;
mod memory;
mod merges;
mod monitors;
mod operators;
pub(crate) mod own_copy;
mod peers;
mod placement;
mod splits;
mod store_events;
pub(crate) mod views;

use crate::context::{Context, Output};
use crate::copy::Copies;
use crate::group::pg::Pg;
use crate::healing::pacing::PacingView;
use crate::healing::reservations::Change;
use crate::healing::strays::Strays;
use crate::hops::{MemberHops, Recorder};
use crate::intake::memory::{Sent, SentQueue};
use crate::messages::PgInterval;
use crate::messages::healing::PgReserved;
use crate::messages::lease::{LeaseGet, ReadShareGet};
use crate::messages::peering::PgQuery;
use crate::messages::replication::RepOpReply;
use crate::messages::route;
use crate::ops::Limits;
use crate::scrub::background_check::{BackgroundCheck, CheckCounts};
use crate::scrub::schedule::ScrubSchedule;
use bench::{Bench, BenchError};
use deferred::{Deferred, Queried};
use homes::Homes;
use host::Host;
use merges::Merges;
use osdmap::{MappingUpdate, OsdMap, OsdMapFlags, PgMapping};
use splits::Splits;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use store::{IoDone, IoRequest, Store};
use types::{EVersion, Epoch, OsdId, PgId, PoolId};
use wire::addr::EntityAddrVec;

/// A member's report of how long an update took.
type RepHops = ((PgInterval, EVersion), MemberHops);

/// A shard of an OSD.
///
/// * Messages, events of clients' sessions, device results and time go in; [`Shard::set_time`] comes before the other
///   events of a turn.
/// * [`Shard::end_turn`] ends a turn. Then [`Shard::take_outputs`] and [`Shard::poll_io`] give what comes out.
/// * All else answers questions, or sets something for all groups.
pub struct Shard {
    /// State that all groups are lent.
    host: Host,
    pgs: BTreeMap<PgId, Pg>,
    /// Addresses where clients reach this OSD: the map must show it up there.
    addrs: Option<EntityAddrVec>,
    /// Placements of the map in force; empty while those of the next one are made from it.
    mapping: PgMapping,
    /// Placements of the map that comes into force next.
    placing: Option<MappingUpdate>,
    deferred: BTreeMap<Epoch, Vec<Deferred>>,
    queried: Queried,
    /// Acknowledgements to primaries, gathered over a turn: the newest of each group.
    rep_replies: BTreeMap<(OsdId, PgId), (Epoch, EVersion)>,
    /// Reports about single updates that go with them.
    rep_hops: BTreeMap<OsdId, Vec<RepHops>>,
    sent: SentQueue,
    check: BackgroundCheck,
    bench: Option<Bench>,
    bench_result: Option<Result<Duration, BenchError>>,
    scrubs: ScrubSchedule,
    /// A tick has come since room was last looked at.
    room_tick: bool,
    /// Fullness as of the last beacon.
    fullness_told: u8,
    strays: Strays,
    /// Pools that this OSD cannot serve, which it has said.
    unserved: BTreeSet<PoolId>,
    /// Erasure-coded groups as clients name them, with the shard that this OSD has.
    shards: BTreeMap<PgId, PgId>,
    splits: Splits,
    merges: Merges,
    /// Number of this shard among the OSD's.
    index: usize,
    homes: Homes,
    /// The other OSDs of all groups that this OSD, with all its shards, is a member of.
    sharing: BTreeSet<OsdId>,
}

impl Shard {
    pub fn new(whoami: OsdId, store: Store, limits: Limits) -> Shard {
        Shard {
            host: Host::new(whoami, store, limits),
            pgs: BTreeMap::new(),
            addrs: None,
            mapping: PgMapping::default(),
            placing: None,
            deferred: BTreeMap::new(),
            queried: Queried::default(),
            rep_replies: BTreeMap::new(),
            rep_hops: BTreeMap::new(),
            sent: SentQueue::default(),
            check: BackgroundCheck::new(),
            bench: None,
            bench_result: None,
            scrubs: ScrubSchedule::default(),
            room_tick: false,
            fullness_told: 0,
            strays: Strays::default(),
            unserved: BTreeSet::new(),
            shards: BTreeMap::new(),
            splits: Splits::default(),
            merges: Merges::default(),
            index: 0,
            homes: Homes::one(),
            sharing: BTreeSet::new(),
        }
    }

    /// Makes it the OSD's shard of this number, which has those groups whose home it is. To be called before the first
    /// map comes.
    pub fn as_part(self, index: usize, homes: Homes) -> Shard {
        assert!(index < homes.shards(), "shard {index} of {}", homes.shards());
        let mut part = Shard { host: self.host.of_part(index, homes.shards()), index, homes, ..self };
        part.number_questions();
        part
    }

    /// Numbers questions to other OSDs apart from those of other shards, and of other processes of this OSD.
    fn number_questions(&mut self) {
        let nonce = self.addrs.as_ref().and_then(|addrs| addrs.0.first()).map_or(0, |addr| addr.nonce);
        self.host.shared.copies = Copies::numbered_from(route::first_tid(self.index), nonce);
    }

    /// Returns the homes of groups on the OSD's shards, by the map in force.
    pub fn homes(&self) -> &Homes {
        &self.homes
    }

    /// Tells whether the group has its home on this shard of the OSD.
    fn is_home_of(&self, pgid: PgId) -> bool {
        self.homes.of(pgid) == Some(self.index)
    }

    /// Returns the map in force; of epoch 0 before the first has come.
    pub fn map(&self) -> &Arc<OsdMap> {
        self.host.maps.current()
    }

    /// Returns the epoch of the newest map that has come, in force or not yet.
    pub fn newest_epoch(&self) -> Epoch {
        self.host.maps.newest_epoch()
    }

    pub fn whoami(&self) -> OsdId {
        self.host.whoami
    }

    /// Gives the instance that this OSD has of a group, which clients, monitors and other OSDs may name otherwise.
    fn instance(&self, pgid: PgId) -> PgId {
        self.shards.get(&pgid.base()).copied().unwrap_or(pgid)
    }

    /// Returns the other OSDs of all groups that this OSD is a member of, whichever of its shards has them.
    pub fn sharing_osds(&self) -> &BTreeSet<OsdId> {
        &self.sharing
    }

    /// Sets the address at which clients reach this OSD. A map that shows it elsewhere speaks of an earlier start of
    /// it: until it is shown here it takes no part in any group, so that two starts never give out the same version.
    pub fn set_addrs(&mut self, addrs: EntityAddrVec) {
        self.addrs = Some(addrs);
        self.number_questions();
    }

    fn is_shown_by(&self, map: &OsdMap) -> bool {
        let is_at = |addrs: &EntityAddrVec| map.osd(self.host.whoami).is_some_and(|osd| osd.client_addrs == *addrs);
        map.is_up(self.host.whoami) && self.addrs.as_ref().is_none_or(is_at)
    }

    /// Returns the bytes that client requests hold until they are answered, what they read, copy and write included.
    pub fn client_bytes(&self) -> usize {
        self.host.client_bytes()
    }

    /// Sets the bytes of answers to clients that the network has not taken yet, to be told before a turn ends: they
    /// count as held.
    pub fn set_unsent_bytes(&mut self, bytes: usize) {
        let bytes = if mutant::is(mutant::Mutant::UnsentUncounted) { 0 } else { bytes };
        let leaving = self.host.outbox.outputs.iter().map(Output::answer_bytes).sum();
        self.host.shared.held.set_unsent(bytes, leaving);
    }

    /// Tells whether operations, or what clients send, wait for what answers of this turn hold. The driver then has
    /// another turn soon, for which it looks at what the network has taken.
    pub fn waits_for_answers(&self) -> bool {
        let held = &self.host.shared.held;
        let is_full_by_them = !self.has_room() && self.client_bytes() + held.unsent() < self.host.limits.client_bytes;
        held.waits_for_look() || is_full_by_them
    }

    /// Returns the bytes of answers that the network has not taken, as this shard counts them.
    pub fn unsent_bytes(&self) -> usize {
        self.host.shared.held.unsent()
    }

    /// Returns the bytes of answers that were given since [`Shard::set_unsent_bytes`].
    pub fn leaving_bytes(&self) -> usize {
        self.host.shared.held.answers() - self.host.shared.held.unsent()
    }

    /// Tells whether clients' requests hold as much as they may. The driver then reads nothing more from clients; what
    /// was read already waits.
    pub fn is_full(&self) -> bool {
        !self.sent.is_empty() || !self.has_room()
    }

    fn has_room(&self) -> bool {
        self.client_bytes() + self.host.shared.held.answers() < self.host.limits.client_bytes
    }

    /// Takes everything gathered so far, in order.
    pub fn take_outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.host.outbox.outputs)
    }

    pub fn store(&self) -> &Store {
        &self.host.store
    }

    /// Has the store forget all data that was read.
    pub fn drop_block_cache(&mut self) {
        self.host.store.drop_block_cache();
    }

    /// Has the store write a checkpoint, after which nothing is left to replay.
    pub fn write_checkpoint(&mut self) {
        self.host.store.checkpoint();
    }

    /// Returns the next request for the device.
    pub fn poll_io(&mut self) -> Option<IoRequest> {
        self.host.store.poll_io()
    }

    pub fn io_done(&mut self, done: IoDone) {
        self.host.store.io_done(done);
    }

    /// Sets the time, to be told before other events of a turn.
    pub fn set_time(&mut self, now: Duration) {
        self.host.now = now;
        self.host.shared.leases.set_time(now);
        self.host.shared.pacing.set_time(now);
        self.host.shared.rooms.set_time(now);
        self.host.store.set_time(now);
    }

    /// Ends all read leases and shares of them that are held: the clock of [`Shard::set_time`] may have stood still for
    /// a while, of which other OSDs' clocks counted all. They are asked for again where there is something to read.
    pub fn clock_stood_still(&mut self) {
        if mutant::is(mutant::Mutant::PauseUnnoticed) {
            return;
        }
        self.host.shared.leases.end_held();
        self.pgs.values_mut().for_each(|pg| pg.requests.end_share());
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = &Pg> {
        self.pgs.values()
    }

    /// Sets how many operations are kept per second, about; 0: none, and none for being slow.
    pub fn keep_ops(&mut self, per_second: u32) {
        self.host.shared.recorder = Recorder::new(per_second);
    }

    /// Notes that the turn's device requests and messages leave at this time.
    pub fn turn_sent(&mut self, at: Duration) {
        self.host.store.handed_over(at);
        self.host.shared.recorder.sent(at);
    }

    /// Repeats what stays unanswered. To be called about once a second.
    pub fn tick(&mut self) {
        let pgs = &self.pgs;
        self.host.shared.trim_turns.retain(|id| pgs.get(id).is_some_and(|pg| pg.snap_trim.wants_turn()));
        for pg in self.pgs.values_mut() {
            pg.peering_tick(&mut self.host.context());
            pg.watch_tick(&mut self.host.context());
            pg.trim_on(&mut self.host.context());
        }
        self.settle();
        if self.is_shown_by(self.host.maps.current()) {
            let (splits, pgs, whoami) = (&self.splits, &self.pgs, self.host.whoami);
            let needs_no_copy = |id: PgId| {
                let mut of_group = pgs.values().filter(|pg| pg.id().base() == id.base());
                of_group.any(|pg| pg.needs_no_copy_of(whoami, whoami, id.pool.shard()))
            };
            let is_no_stray = |id| pgs.contains_key(&id) || splits.is_unexamined(id);
            self.strays.ask(&mut self.host.context(), &self.mapping, is_no_stray, needs_no_copy);
        }
        // Questions may have been lost.
        self.lease_came();
        self.scrubs.tick(&mut self.host.context(), &mut self.pgs);
        self.settle();
        self.host.store.tick();
        self.room_tick = true;
        self.copies_tick();
        self.host.shared.recorder.tick(self.host.now);
    }

    /// Hands one input to a group, if it is here, and lets everything follow that the input has caused.
    fn with_group(&mut self, id: PgId, input: impl FnOnce(&mut Pg, &mut Context<'_>)) {
        if let Some(pg) = self.pgs.get_mut(&id) {
            input(pg, &mut self.host.context());
            self.settle();
        }
    }

    /// Has groups act on what their parts have caused, until nothing is left. Follows every input to a group.
    fn settle(&mut self) {
        while let Some((id, effect)) = self.host.agenda.effects.pop_first() {
            if let Some(pg) = self.pgs.get_mut(&id) {
                pg.act(&mut self.host.context(), effect);
            }
        }
    }

    /// Goes on with reads that wait, as they may be answered now.
    fn lease_came(&mut self) {
        for id in std::mem::take(&mut self.host.shared.leases.waiting) {
            self.with_group(id, |pg, cx| pg.with_intake(cx, |intake, _| intake.lease_came()));
        }
    }

    fn wake_groups(&mut self) {
        while self.host.agenda.wakes.first().is_some_and(|(at, _)| *at <= self.host.now) {
            let (_, id) = self.host.agenda.wakes.pop_first().expect("just seen");
            self.with_group(id, |pg, cx| {
                pg.intake().keep_share(cx);
                pg.members_changed(cx);
                pg.healer().go_on_without(cx);
                pg.trim_on(cx);
            });
        }
        while self.host.agenda.sends_later.first().is_some_and(|(at, _)| *at <= self.host.now) {
            let (_, id) = self.host.agenda.sends_later.pop_first().expect("just seen");
            self.with_group(id, |pg, cx| pg.send_on(cx));
        }
        while self.host.agenda.hedges.first().is_some_and(|(at, _)| *at <= self.host.now) {
            let (_, id) = self.host.agenda.hedges.pop_first().expect("just seen");
            self.with_group(id, |pg, cx| pg.gatherer().hedge(cx));
        }
    }

    /// Prepares for the OSD's end: serves no group any more, and has the store write a checkpoint, so that the next
    /// start replays nothing. Operations that are not answered are forgotten; changes that were given to the store
    /// still become durable. From now on, only [`Shard::end_turn`] and the device's results may be told, until the
    /// store is idle.
    pub fn retire(&mut self) {
        self.host.shared.backoffs.forget_all();
        for mut pg in std::mem::take(&mut self.pgs).into_values() {
            pg.leave(&mut self.host.context());
        }
        self.check.set_period(Duration::ZERO);
        self.host.maps.forget_coming();
        self.strays = Strays::default();
        self.splits = Splits::default();
        self.merges = Merges::default();
        self.scrubs.stop();
        self.end_bench(Err(BenchError::Stops));
        self.host.agenda.scrubs_later.clear();
        self.forget_deferred(|_| true);
        self.deferred.clear();
        self.queried.clear();
        self.sent.clear();
        self.host.agenda.effects.clear();
        self.host.outbox.reports.clear();
        self.host.outbox.interrupted.clear();
        self.host.store.checkpoint();
    }

    /// Sets the time in which everything in the store is read once and compared with its checksums. Zero: never.
    pub fn set_check_period(&mut self, period: Duration) {
        self.check.set_period(period);
    }

    /// Sets how often groups are scrubbed, lightly and deeply, if nobody orders it. Zero, as at first: never.
    pub fn set_scrub_periods(&mut self, light: Duration, deep: Duration) {
        self.scrubs.set_periods(light, deep);
    }

    /// Tells what the wall clock showed, as time since 1970, when the time that is told was zero.
    pub fn set_wall_clock(&mut self, at_zero: Duration) {
        self.host.unix_zero = at_zero;
        self.host.shared.pacing.set_wall_clock(at_zero);
    }

    /// Returns the counts of the background check since the OSD started.
    pub fn check_counts(&self) -> CheckCounts {
        self.check.counts()
    }

    /// Returns how far clients hold back what is sent to where it is missing.
    pub fn pacing_view(&self) -> PacingView {
        self.host.shared.pacing.view()
    }

    /// Returns how many reads over several shards have begun.
    #[cfg(test)]
    pub(crate) fn coded_reads_made(&self) -> u64 {
        self.host.shared.coded_reads.made()
    }

    /// Returns the time when a group wants to be looked at again.
    pub(crate) fn group_wake(&self) -> Option<Duration> {
        let agenda = &self.host.agenda;
        let first = [agenda.wakes.first(), agenda.sends_later.first(), agenda.hedges.first()];
        let of_groups = first.into_iter().flatten().map(|(at, _)| *at);
        of_groups.chain(self.host.outbox.postponed_until()).chain(self.host.store.patient_until()).min()
    }

    /// Returns the time when a turn is due though nothing happens.
    pub fn next_wake(&self) -> Option<Duration> {
        let check = self.may_check().then(|| self.check.next_wake()).flatten();
        let groups = self.group_wake();
        let goes_on = !self.host.agenda.scrubs_later.is_empty() || self.host.maps.is_coming();
        let scans = goes_on.then_some(self.host.now);
        let scrubs = self.scrub_wake();
        check.into_iter().chain(groups).chain(scans).chain(scrubs).chain(self.strays.next_wake()).min()
    }

    fn scrub_wake(&self) -> Option<Duration> {
        self.scrubs.next_wake(self.host.shared.tuning.scrubs.at_a_time)
    }

    /// Returns true unless Ceph's flag is set for operators who want their drives to themselves for a while.
    fn may_check(&self) -> bool {
        !self.host.maps.current().flags.contains(OsdMapFlags::NODEEP_SCRUB)
    }

    fn check_on(&mut self) {
        if self.may_check() {
            self.check.run(&mut self.host.context(), &mut self.pgs);
            self.settle();
        }
    }

    fn scrub_on(&mut self) {
        for id in std::mem::take(&mut self.host.agenda.scrubs_later) {
            self.with_group(id, |pg, cx| pg.scrub.read_on(&mut pg.core, cx));
        }
        if self.scrub_wake().is_some() {
            self.scrubs.run(&mut self.host.context(), &mut self.pgs);
            self.settle();
        }
    }

    /// Ends a turn: handles what the store has finished, sends what was gathered, and has the store lay out its writes.
    pub fn end_turn(&mut self) {
        self.handle_store_events();
        self.bench_on();
        self.check_on();
        self.strays.run(&mut self.host.context());
        self.scrub_on();
        self.wake_groups();
        self.start_what_waits();
        self.bound_notifications();
        self.settle_reservations();
        self.copy_on();
        while !self.host.shared.coded_reads.done.is_empty() || self.start_what_waits() {
            self.coded_reads_done();
            self.settle_reservations();
            self.copy_on();
        }
        self.settle_room();
        self.flush_gathered();
        for (session, message) in self.host.shared.backoffs.take_messages() {
            self.host.context().send_client(session, 0, message);
        }
        self.address_answers();
        self.host.outbox.settle_postponed(self.host.now);
        self.host.store.end_turn();
    }

    /// Starts what has waited for room in memory, what came first before what came later. Returns whether there was
    /// something.
    fn start_what_waits(&mut self) -> bool {
        let waiting = self.host.shared.held.take_waiting();
        let mut any = !waiting.is_empty();
        for id in waiting {
            self.with_group(id, |pg, cx| pg.with_intake(cx, |intake, _| intake.memory_came()));
        }
        while self.has_room()
            && let Some((session, sent)) = self.sent.pop()
        {
            any = true;
            match sent {
                Sent::Op { tid, op, times } => self.dispatch_op(session, tid, op, times),
                Sent::Ack(ack) => self.dispatch_ack(session, ack),
            }
        }
        any
    }

    /// Ends the largest notifications while all together take more of memory than they may. So they hold up nobody:
    /// what their watchers answer is read whatever they take.
    fn bound_notifications(&mut self) {
        if !std::mem::take(&mut self.host.agenda.notifications_grew) {
            return;
        }
        let held = |shard: &Shard| shard.pgs.values().map(|pg| pg.watches.held_bytes()).sum::<usize>();
        while held(self) > self.host.limits.notify_bytes
            && let Some(pg) = self.pgs.values_mut().max_by_key(|pg| pg.watches.largest_bytes())
        {
            pg.watches.end_largest_early(&mut self.host.context(), pg.core.id);
            self.settle();
        }
    }

    /// Lets updates go on for which there is room now, and tells primaries how much there is.
    fn settle_room(&mut self) {
        let is_tick = std::mem::take(&mut self.room_tick);
        if std::mem::take(&mut self.host.shared.rooms.has_come) || is_tick {
            for id in std::mem::take(&mut self.host.shared.rooms.waiting) {
                self.with_group(id, |pg, cx| pg.with_intake(cx, |intake, _| intake.room_came()));
            }
        }
        let room_bytes = self.host.store.room_bytes();
        for (osd, told) in self.host.shared.rooms.settle(room_bytes, is_tick) {
            self.host.context().send_osd(osd, told);
        }
    }

    /// Hands results of reads over several shards to those that wait for them.
    fn coded_reads_done(&mut self) {
        while let Some((id, data)) = self.host.shared.coded_reads.done.pop_front() {
            self.lookup_done(id, Some(data));
        }
    }

    /// Tells groups, and primaries elsewhere, whose turn it is to heal.
    fn settle_reservations(&mut self) {
        loop {
            let changes = self.host.shared.reservations.settle();
            if changes.is_empty() {
                return;
            }
            for change in changes {
                match change {
                    Change::Local { pgid, granted } => {
                        self.with_group(pgid, |pg, cx| pg.healer().local_slot(cx, granted));
                    }
                    Change::Remote { primary, pg, granted } => {
                        self.host.context().send_osd(primary, PgReserved { pg, granted });
                    }
                }
            }
        }
    }

    fn flush_gathered(&mut self) {
        debug_assert!(self.host.agenda.effects.is_empty(), "an input was not settled");
        let epoch = self.host.maps.epoch();
        for (osd, groups) in std::mem::take(&mut self.host.outbox.queries) {
            self.host.context().send_osd(osd, PgQuery { epoch, groups });
        }
        for osd in self.host.shared.leases.take_wanted(self.host.now) {
            let stamp = self.host.now.as_micros() as u64;
            self.host.context().send_osd(osd, LeaseGet { stamp });
        }
        for (osd, wishes) in std::mem::take(&mut self.host.shared.leases.shares_wanted) {
            self.host.context().send_osd(osd, ReadShareGet { wishes });
        }
        let mut replies: BTreeMap<OsdId, Vec<_>> = BTreeMap::new();
        for ((osd, pgid), (since, version)) in std::mem::take(&mut self.rep_replies) {
            replies.entry(osd).or_default().push((PgInterval { pgid, since }, version));
        }
        for (osd, durable) in replies {
            let hops = self.rep_hops.remove(&osd).unwrap_or_default();
            self.host.context().answer_osd(osd, RepOpReply { durable, hops });
        }
        self.flush_monitor_requests(epoch);
    }
}

#[cfg(test)]
impl Shard {
    /// Forgets the background check, as a restart does.
    pub(crate) fn forget_check(&mut self, period: Duration) {
        self.check = BackgroundCheck::new();
        self.check.set_period(period);
    }

    /// Wants an acting set, as a primary does that members of its group's past must help.
    pub(crate) fn want_temp(&mut self, pgid: PgId, osds: Vec<OsdId>) {
        let id = self.instance(pgid);
        self.with_group(id, |pg, cx| pg.agreement().want_temp(cx, osds));
    }

    /// Notes that an object is damaged, as a read that meets a bad block does.
    pub(crate) fn object_damaged(&mut self, pgid: PgId, object: &types::ObjectId, version: types::EVersion) {
        let id = self.instance(pgid);
        self.with_group(id, |pg, cx| pg.healer().object_damaged(cx, object, version));
    }

    pub(crate) fn store_mut(&mut self) -> &mut Store {
        &mut self.host.store
    }

    /// Tells whether this OSD has the group and, as its primary, serves it.
    pub(crate) fn pg_is_active(&self, id: PgId) -> bool {
        self.pgs.get(&self.instance(id)).is_some_and(Pg::is_active)
    }
}
