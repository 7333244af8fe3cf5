//! All placement groups of one shard, their store and the maps: everything of an OSD but sockets, device and clock.
//!
//! The driver hands in messages, device results and time; outcomes are gathered with [`Shard::take_outputs`] and from
//! the store. A turn ends with [`Shard::end_turn`], which lets the store lay out what the turn has written.

use crate::agreement::leases::Leases;
use crate::coded::CodedReads;
use crate::coded::old_shards::OldShardReads;
use crate::context::{ClientSession, Context, MonitorRequests, OnCommit, Output, Waiter};
use crate::copy::Copies;
use crate::group::dups::DupsLimit;
use crate::group::pg::Pg;
use crate::healing::pacing::{Pacing, PacingView};
use crate::healing::reservations::{Change, Reservations};
use crate::healing::strays::Strays;
use crate::hops::{DEFAULT_PER_SECOND, MemberHops, Recorder};
use crate::intake::backoffs::Backoffs;
use crate::intake::memory::{Held, Intake, Sent};
use crate::messages::PgInterval;
use crate::messages::healing::PgReserved;
use crate::messages::lease::{LeaseGet, ReadShareGet};
use crate::messages::peering::{Agreed, PgQuery};
use crate::messages::replication::RepOpReply;
use crate::messages::route;
use crate::ops::Limits;
use crate::scrub::background_check::{BackgroundCheck, CheckCounts};
use crate::scrub::schedule::ScrubSchedule;
use crate::shard::homes::Homes;
use crate::shard::maps::Maps;
use crate::updates::rooms::Rooms;
use crate::updates::trim_turns::TrimTurns;
use osdmap::{MappingUpdate, OsdMap, OsdMapFlags, PgMapping};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use store::{IoDone, IoRequest, LookupId, Store, Ticket};
use types::{EVersion, Epoch, OsdId, PgId, PoolId};
use wire::addr::EntityAddrVec;
use wire::msgr::SessionId;
use wire::nacre::mon::PgReport;

/// A member's report of how long an update took.
type RepHops = ((PgInterval, EVersion), MemberHops);

/// A shard of an OSD.
pub struct Shard {
    whoami: OsdId,
    /// Where clients reach this OSD: the map must show it up there.
    addrs: Option<EntityAddrVec>,
    limits: Limits,
    dups_limit: DupsLimit,
    maps: Maps,
    /// Of the map in force; empty while those of the next one are made from it.
    mapping: PgMapping,
    /// Placements of the map that comes into force next.
    placing: Option<MappingUpdate>,
    store: Store,
    pgs: BTreeMap<PgId, Pg>,
    clients: BTreeMap<SessionId, ClientSession>,
    deferred: BTreeMap<Epoch, Vec<Deferred>>,
    now: Duration,
    leases: Leases,
    wakes: BTreeSet<(Duration, PgId)>,
    sends_later: BTreeSet<(Duration, PgId)>,

    commits: VecDeque<(Ticket, PgId, OnCommit)>,
    waiters: BTreeMap<LookupId, Waiter>,
    monitor: MonitorRequests,
    queries: BTreeMap<OsdId, Vec<(PgInterval, Agreed)>>,
    /// Acknowledgements to primaries, gathered over a turn: the newest of each group.
    rep_replies: BTreeMap<(OsdId, PgId), (Epoch, EVersion)>,
    /// Reports about single updates that go with them.
    rep_hops: BTreeMap<OsdId, Vec<RepHops>>,
    reports: BTreeMap<PgId, PgReport>,
    out: Vec<Output>,
    interrupted: BTreeSet<SessionId>,
    held: Held,
    notifications_grew: bool,
    backoffs: Backoffs,
    intake: Intake,
    check: BackgroundCheck,
    scrubs: ScrubSchedule,
    scrubs_later: BTreeSet<PgId>,
    unix_zero: Duration,
    pub(crate) recorder: Recorder,
    pacing: Pacing,
    reservations: Reservations,
    rooms: Rooms,
    /// A tick has come since room was last looked at.
    room_tick: bool,
    /// Fullness as of the last beacon.
    fullness_told: u8,
    strays: Strays,
    coded_reads: CodedReads,
    old_shard_reads: OldShardReads,
    copies: Copies,
    trim_turns: TrimTurns,
    /// Pools that this OSD cannot serve, which it has said.
    unserved: BTreeSet<PoolId>,
    /// Of erasure-coded groups: which shard this OSD has.
    shards: BTreeMap<PgId, PgId>,
    splits: Splits,
    merges: Merges,
    /// Which of the OSD's shards this is.
    index: usize,
    homes: Homes,
    /// The other OSDs of all groups that this OSD, with all its shards, is a member of.
    sharing: BTreeSet<OsdId>,
}

macro_rules! context {
    ($shard:ident) => {
        &mut Context {
            whoami: $shard.whoami,
            now: $shard.now,
            epoch: $shard.maps.epoch(),
            map: $shard.maps.current(),
            limits: &$shard.limits,
            dups_limit: $shard.dups_limit,
            leases: &mut $shard.leases,
            wakes: &mut $shard.wakes,
            sends_later: &mut $shard.sends_later,
            store: &mut $shard.store,
            commits: &mut $shard.commits,
            waiters: &mut $shard.waiters,
            monitor: &mut $shard.monitor,
            queries: &mut $shard.queries,
            reports: &mut $shard.reports,
            out: &mut $shard.out,
            clients: &$shard.clients,
            interrupted: &mut $shard.interrupted,
            held: &mut $shard.held,
            notifications_grew: &mut $shard.notifications_grew,
            backoffs: &mut $shard.backoffs,
            recorder: &mut $shard.recorder,
            pacing: &mut $shard.pacing,
            reservations: &mut $shard.reservations,
            rooms: &mut $shard.rooms,
            coded_reads: &mut $shard.coded_reads,
            old_shard_reads: &mut $shard.old_shard_reads,
            copies: &mut $shard.copies,
            trim_turns: &mut $shard.trim_turns,
            scrubs_later: &mut $shard.scrubs_later,
            unix_zero: $shard.unix_zero,
        }
    };
}

// Behind the macro, which they use.
mod clients;
pub(crate) mod copying;
mod deferred;
mod doubt;
pub(crate) mod homes;
pub(crate) mod maps;
mod memory;
mod merges;
mod monitors;
mod operators;
mod peers;
mod placement;
mod splits;
mod store_events;
use deferred::Deferred;
use merges::Merges;
use splits::Splits;

impl Shard {
    pub fn new(whoami: OsdId, store: Store, limits: Limits) -> Shard {
        let maps = Maps::new();
        Shard {
            whoami,
            addrs: None,
            limits,
            dups_limit: DupsLimit::shared(&limits, 1),
            maps,
            mapping: PgMapping::default(),
            placing: None,
            store,
            pgs: BTreeMap::new(),
            clients: BTreeMap::new(),
            deferred: BTreeMap::new(),
            now: Duration::ZERO,
            leases: Leases::default(),
            wakes: BTreeSet::new(),
            sends_later: BTreeSet::new(),
            commits: VecDeque::new(),
            waiters: BTreeMap::new(),
            monitor: MonitorRequests::default(),
            queries: BTreeMap::new(),
            rep_replies: BTreeMap::new(),
            rep_hops: BTreeMap::new(),
            reports: BTreeMap::new(),
            out: Vec::new(),
            interrupted: BTreeSet::new(),
            held: Held::default(),
            notifications_grew: false,
            backoffs: Backoffs::default(),
            intake: Intake::default(),
            check: BackgroundCheck::new(),
            scrubs: ScrubSchedule::default(),
            scrubs_later: BTreeSet::new(),
            unix_zero: Duration::ZERO,
            recorder: Recorder::new(DEFAULT_PER_SECOND),
            pacing: Pacing::default(),
            reservations: Reservations::default(),
            rooms: Rooms::default(),
            room_tick: false,
            fullness_told: 0,
            strays: Strays::default(),
            coded_reads: CodedReads::default(),
            old_shard_reads: OldShardReads::new(),
            copies: Copies::default(),
            trim_turns: TrimTurns::default(),
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
        Shard {
            index,
            reservations: Reservations::of_shards(homes.shards()),
            rooms: Rooms::of_shards(homes.shards()),
            copies: Copies::numbered_from(route::first_tid(index)),
            backoffs: Backoffs::numbered_from(route::first_tid(index)),
            homes,
            ..self
        }
    }

    /// Which shard of the OSD has which group, by the map in force.
    pub fn homes(&self) -> &Homes {
        &self.homes
    }

    /// Tells whether the group has its home on this shard of the OSD.
    fn is_home_of(&self, pgid: PgId) -> bool {
        self.homes.of(pgid) == Some(self.index)
    }

    /// The map in force; of epoch 0 before the first has come.
    pub fn map(&self) -> &Arc<OsdMap> {
        self.maps.current()
    }

    /// Of the newest map that has come, in force or not yet.
    pub fn newest_epoch(&self) -> Epoch {
        self.maps.newest_epoch()
    }

    pub fn whoami(&self) -> OsdId {
        self.whoami
    }

    /// Gives the instance that this OSD has of a group, which clients, monitors and other OSDs may name otherwise.
    fn instance(&self, pgid: PgId) -> PgId {
        self.shards.get(&pgid.base()).copied().unwrap_or(pgid)
    }

    /// The other OSDs of all groups that this OSD is a member of, whichever of its shards has them.
    pub fn sharing_osds(&self) -> &BTreeSet<OsdId> {
        &self.sharing
    }

    /// Sets the address at which clients reach this OSD. A map that shows it elsewhere speaks of an earlier start of
    /// it: until it is shown here it takes no part in any group, so that two starts never give out the same version.
    pub fn set_addrs(&mut self, addrs: EntityAddrVec) {
        self.addrs = Some(addrs);
    }

    fn is_shown_by(&self, map: &OsdMap) -> bool {
        let is_at = |addrs: &EntityAddrVec| map.osd(self.whoami).is_some_and(|osd| osd.client_addrs == *addrs);
        map.is_up(self.whoami) && self.addrs.as_ref().is_none_or(is_at)
    }

    /// Bytes that client requests hold until they are answered, what they read, copy and write included.
    pub fn client_bytes(&self) -> usize {
        self.held.bytes() + self.copies.held_bytes()
    }

    /// Bytes of answers to clients that the network has not taken yet, to be told before a turn ends: they count as
    /// held.
    pub fn set_unsent_bytes(&mut self, bytes: usize) {
        self.intake.unsent_bytes = if mutant::is(mutant::Mutant::UnsentUncounted) { 0 } else { bytes };
    }

    /// Tells whether clients' requests hold as much as they may. The driver then reads nothing more from clients; what
    /// was read already waits.
    pub fn is_full(&self) -> bool {
        !self.intake.is_empty() || !self.has_room()
    }

    fn has_room(&self) -> bool {
        self.client_bytes() + self.intake.unsent_bytes < self.limits.client_bytes
    }

    /// Everything gathered so far, in order.
    pub fn take_outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.out)
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Has the store forget all data that was read.
    pub fn drop_block_cache(&mut self) {
        self.store.drop_block_cache();
    }

    /// The next request for the device.
    pub fn poll_io(&mut self) -> Option<IoRequest> {
        self.store.poll_io()
    }

    pub fn io_done(&mut self, done: IoDone) {
        self.store.io_done(done);
    }

    /// Time, to be told before other events of a turn.
    pub fn set_time(&mut self, now: Duration) {
        self.now = now;
        self.leases.set_time(now);
        self.pacing.set_time(now);
        self.rooms.set_time(now);
        self.store.set_time(now);
    }

    /// The clock of [`Shard::set_time`] may have stood still for a while, of which other OSDs' clocks counted all: no
    /// read lease and no share of one is held any more. They are asked for again where there is something to read.
    pub fn clock_stood_still(&mut self) {
        if mutant::is(mutant::Mutant::PauseUnnoticed) {
            return;
        }
        self.leases.end_held();
        self.pgs.values_mut().for_each(|pg| pg.replica_reads.end_share());
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = &Pg> {
        self.pgs.values()
    }

    /// Sets how many operations are kept per second, about; 0: none, and none for being slow.
    pub fn keep_ops(&mut self, per_second: u32) {
        self.recorder = Recorder::new(per_second);
    }

    /// Notes that the turn's device requests and messages leave at this time.
    pub fn turn_sent(&mut self, at: Duration) {
        self.store.handed_over(at);
        self.recorder.sent(at);
    }

    /// To be called about once a second: repeats what stays unanswered.
    pub fn tick(&mut self) {
        let pgs = &self.pgs;
        self.trim_turns.retain(|id| pgs.get(id).is_some_and(Pg::wants_to_trim));
        for pg in self.pgs.values_mut() {
            pg.peering_tick(context!(self));
            pg.watch_tick(context!(self));
            pg.trim_on(context!(self));
        }
        if self.is_shown_by(self.maps.current()) {
            let splits = &self.splits;
            self.strays.ask(context!(self), &self.pgs, &self.mapping, |id| splits.is_unexamined(id));
        }
        // Questions may have been lost.
        self.lease_came();
        self.scrubs.tick(context!(self), &mut self.pgs);
        self.store.tick();
        self.room_tick = true;
        self.copies_tick();
        self.recorder.tick(self.now);
    }

    /// Reads that wait may be answered now.
    fn lease_came(&mut self) {
        for id in std::mem::take(&mut self.leases.waiting) {
            if let Some(pg) = self.pgs.get_mut(&id) {
                pg.lease_came(context!(self));
            }
        }
    }

    fn wake_groups(&mut self) {
        while self.wakes.first().is_some_and(|(at, _)| *at <= self.now) {
            let (_, id) = self.wakes.pop_first().expect("just seen");
            if let Some(pg) = self.pgs.get_mut(&id) {
                pg.keep_share(context!(self));
                pg.members_changed(context!(self));
                pg.go_on_without(context!(self));
                pg.trim_on(context!(self));
            }
        }
        while self.sends_later.first().is_some_and(|(at, _)| *at <= self.now) {
            let (_, id) = self.sends_later.pop_first().expect("just seen");
            if let Some(pg) = self.pgs.get_mut(&id) {
                pg.send_on(context!(self));
            }
        }
    }

    /// This OSD is about to end: serves no group any more, and has the store write a checkpoint, so that the next start
    /// replays nothing. What is not answered is forgotten; what was given to the store still becomes durable. From now
    /// on, only [`Shard::end_turn`] and the device's results may be told, until the store is idle.
    pub fn retire(&mut self) {
        self.backoffs.forget_all();
        for mut pg in std::mem::take(&mut self.pgs).into_values() {
            pg.leave(context!(self));
        }
        self.check.set_period(Duration::ZERO);
        self.maps.forget_coming();
        self.strays = Strays::default();
        self.splits = Splits::default();
        self.merges = Merges::default();
        self.scrubs.stop();
        self.scrubs_later.clear();
        self.forget_deferred(|_| true);
        self.deferred.clear();
        self.intake.clear();
        self.reports.clear();
        self.interrupted.clear();
        self.store.checkpoint();
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
        self.unix_zero = at_zero;
        self.pacing.set_wall_clock(at_zero);
    }

    /// Counts of the background check since the OSD started.
    pub fn check_counts(&self) -> CheckCounts {
        self.check.counts()
    }

    /// How far clients hold back what is sent to where it is missing.
    pub fn pacing_view(&self) -> PacingView {
        self.pacing.view()
    }

    /// When a group wants to be looked at again.
    pub(crate) fn group_wake(&self) -> Option<Duration> {
        self.wakes.first().into_iter().chain(self.sends_later.first()).map(|(at, _)| *at).min()
    }

    /// When a turn is due though nothing happens.
    pub fn next_wake(&self) -> Option<Duration> {
        let check = self.may_check().then(|| self.check.next_wake()).flatten();
        let groups = self.group_wake();
        let goes_on = !self.scrubs_later.is_empty() || self.maps.is_coming();
        let scans = goes_on.then_some(self.now);
        check.into_iter().chain(groups).chain(scans).chain(self.scrubs.next_wake()).chain(self.strays.next_wake()).min()
    }

    /// Ceph's flag for operators who want their drives to themselves for a while.
    fn may_check(&self) -> bool {
        !self.maps.current().flags.contains(OsdMapFlags::NODEEP_SCRUB)
    }

    fn check_on(&mut self) {
        if self.may_check() {
            self.check.run(context!(self), &mut self.pgs);
        }
    }

    fn scrub_on(&mut self) {
        for id in std::mem::take(&mut self.scrubs_later) {
            if let Some(pg) = self.pgs.get_mut(&id) {
                pg.all_copies_read_on(context!(self));
            }
        }
        if self.scrubs.next_wake().is_some() {
            self.scrubs.run(context!(self), &mut self.pgs);
        }
    }

    /// Ends a turn: handles what the store has finished, sends what was gathered, and has the store lay out its writes.
    pub fn end_turn(&mut self) {
        self.handle_store_events();
        self.check_on();
        self.strays.run(context!(self));
        self.scrub_on();
        self.wake_groups();
        self.start_what_waits();
        self.bound_notifications();
        self.settle_reservations();
        self.copy_on();
        while !self.coded_reads.done.is_empty() || self.start_what_waits() {
            self.coded_reads_done();
            self.settle_reservations();
            self.copy_on();
        }
        self.settle_room();
        self.flush_gathered();
        for (session, message) in self.backoffs.take_messages() {
            context!(self).send_client(session, 0, message);
        }
        self.address_answers();
        self.store.end_turn();
    }

    /// Starts what has waited for room in memory, what came first before what came later. Returns whether there was
    /// something.
    fn start_what_waits(&mut self) -> bool {
        let waiting = self.held.take_waiting();
        let mut any = !waiting.is_empty();
        for id in waiting {
            if let Some(pg) = self.pgs.get_mut(&id) {
                pg.memory_came(context!(self));
            }
        }
        while self.has_room()
            && let Some((session, sent)) = self.intake.pop()
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
        if !std::mem::take(&mut self.notifications_grew) {
            return;
        }
        let held = |shard: &Shard| shard.pgs.values().map(|pg| pg.watches.held_bytes()).sum::<usize>();
        while held(self) > self.limits.notify_bytes
            && let Some(pg) = self.pgs.values_mut().max_by_key(|pg| pg.watches.largest_bytes())
        {
            pg.end_largest_notification(context!(self));
        }
    }

    /// Lets updates go on for which there is room now, and tells primaries how much there is.
    fn settle_room(&mut self) {
        let is_tick = std::mem::take(&mut self.room_tick);
        if std::mem::take(&mut self.rooms.has_come) || is_tick {
            for id in std::mem::take(&mut self.rooms.waiting) {
                if let Some(pg) = self.pgs.get_mut(&id) {
                    pg.room_came(context!(self));
                }
            }
        }
        let room_bytes = self.store.room_bytes();
        for (osd, told) in self.rooms.settle(room_bytes, is_tick) {
            context!(self).send_osd(osd, told);
        }
    }

    /// Hands results of reads over several shards to those that wait for them.
    fn coded_reads_done(&mut self) {
        while let Some((id, data)) = self.coded_reads.done.pop_front() {
            self.lookup_done(id, Some(data));
        }
    }

    /// Tells groups, and primaries elsewhere, whose turn it is to heal.
    fn settle_reservations(&mut self) {
        loop {
            let changes = self.reservations.settle();
            if changes.is_empty() {
                return;
            }
            for change in changes {
                match change {
                    Change::Local { pgid, granted } => {
                        if let Some(pg) = self.pgs.get_mut(&pgid) {
                            pg.local_slot(context!(self), granted);
                        }
                    }
                    Change::Remote { primary, pg, granted } => {
                        context!(self).send_osd(primary, PgReserved { pg, granted });
                    }
                }
            }
        }
    }

    fn flush_gathered(&mut self) {
        let epoch = self.maps.epoch();
        for (osd, groups) in std::mem::take(&mut self.queries) {
            context!(self).send_osd(osd, PgQuery { epoch, groups });
        }
        for osd in self.leases.take_wanted(self.now) {
            context!(self).send_osd(osd, LeaseGet { stamp: self.now.as_micros() as u64 });
        }
        for (osd, wishes) in std::mem::take(&mut self.leases.shares_wanted) {
            context!(self).send_osd(osd, ReadShareGet { wishes });
        }
        let mut replies: BTreeMap<OsdId, Vec<_>> = BTreeMap::new();
        for ((osd, pgid), (since, version)) in std::mem::take(&mut self.rep_replies) {
            replies.entry(osd).or_default().push((PgInterval { pgid, since }, version));
        }
        for (osd, durable) in replies {
            let hops = self.rep_hops.remove(&osd).unwrap_or_default();
            context!(self).send_osd(osd, RepOpReply { durable, hops });
        }
        self.flush_monitor_requests(epoch);
    }
}

#[cfg(test)]
impl Shard {
    /// As a restart does.
    pub(crate) fn forget_check(&mut self, period: Duration) {
        self.check = BackgroundCheck::new();
        self.check.set_period(period);
    }

    /// As a primary does that members of its group's past must help.
    pub(crate) fn want_temp(&mut self, pgid: PgId, osds: Vec<OsdId>) {
        let id = self.instance(pgid);
        if let Some(pg) = self.pgs.get_mut(&id) {
            pg.want_temp(context!(self), osds);
        }
    }

    /// As a read that meets a bad block does.
    pub(crate) fn object_damaged(&mut self, pgid: PgId, object: &types::ObjectId, version: types::EVersion) {
        let id = self.instance(pgid);
        if let Some(pg) = self.pgs.get_mut(&id) {
            pg.object_damaged(context!(self), object, version);
        }
    }

    pub(crate) fn store_mut(&mut self) -> &mut Store {
        &mut self.store
    }

    /// Tells whether this OSD has the group and, as its primary, serves it.
    pub(crate) fn pg_is_active(&self, id: PgId) -> bool {
        self.pgs.get(&self.instance(id)).is_some_and(Pg::is_active)
    }
}
