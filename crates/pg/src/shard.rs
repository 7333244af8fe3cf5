//! All placement groups of one shard, their store and the maps: everything of an OSD but sockets, device and clock.
//!
//! The driver hands in messages, device results and time; outcomes are gathered with [`Shard::take_outputs`] and from
//! the store. A turn ends with [`Shard::end_turn`], which lets the store lay out what the turn has written.

use crate::background_check::{BackgroundCheck, CheckCounts};
use crate::backoffs::{BackoffCounts, Backoffs};
use crate::client_ops::{ClientOp, OP_BYTES};
use crate::coded::CodedReads;
use crate::coded::old_shards::OldShardReads;
use crate::coded::peer::{RollForward, ShardRead, ShardReadReply, StrayRead};
use crate::coded::rehome::Rehome;
use crate::coded::shard_sources::instance;
use crate::context::{ClientSession, Context, MonitorRequests, OnCommit, Output, Waiter};
use crate::copy::Copies;
use crate::dups::DupsLimit;
use crate::homes::Homes;
use crate::hops::{DEFAULT_PER_SECOND, MemberHops, OpTimes, Recorder, WaitReasons};
use crate::intake::{Held, Intake, Sent};
use crate::interruption::PgInterrupted;
use crate::leases::{Leases, ReplicaReadCounts};
use crate::maps::{Advance, MapError, Maps};
use crate::ops::{self, Limits};
use crate::pacing::{Pacing, PacingView};
use crate::peer::{
    Agreed, LeaseGet, LeaseGrant, MemberState, PgInterval, PgLogEntries, PgLogGet, PgNotify, PgPull, PgPush, PgPushAck,
    PgQuery, PgStart, PgStarted, RepOp, RepOpReply,
};
use crate::peer_backfill::{PgBackfilled, PgObjects, PgScan};
use crate::peer_doubt::{PgFound, PgSought};
use crate::peer_reserve::{PgReleased, PgReserve, PgReserved};
use crate::peer_room::{RoomGet, RoomSeen, RoomTold};
use crate::peer_share::{ReadShare, ReadShareGet};
use crate::peer_strays::{PgStrays, PgUnneeded};
use crate::pg::{Interval, Pg, PoolShape};
use crate::reservations::{Change, Reservations};
use crate::rooms::Rooms;
use crate::route;
use crate::scrub::messages::{ScrubBad, ScrubDone, ScrubGet, ScrubGot};
use crate::scrub::repair::{KeepCopyError, Kept};
use crate::scrub::schedule::ScrubSchedule;
use crate::strays::Strays;
use crate::trim_turns::TrimTurns;
use crate::unfound::{GiveUpError, PgView};
use mutant::Mutant;
use osdmap::{MappingUpdate, OsdMap, OsdMapFlags, PgMapping, PoolFlags, UpActing};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use store::{IoDone, IoRequest, LookupId, ReadError, Store, StoreEvent, Ticket};
use types::{EVersion, EntityName, Epoch, Errno, OsdId, PgId, PoolId, ReqId};
use wire::addr::{EntityAddr, EntityAddrVec};
use wire::codec::features::RADOS_BACKOFF;
use wire::messages::{self, BackoffOp, OpFlags, OsdBackoff, OsdOp, OsdOpReply};
use wire::msgr::SessionId;
use wire::nacre::kind;
use wire::nacre::mon::{
    NewerMapGet, OsdBeacon, OsdStats, PgActivate, PgActivated, PgForce, PgHistoryGet, PgHistoryReply, PgReport,
    PgScrub, PgTemp,
};
use wire::{DecodeError, Envelope, Message, Rope, Target};

/// What must wait for a newer map.
enum Deferred {
    ClientOp {
        session: SessionId,
        tid: u64,
        op: Box<OsdOp>,
        times: OpTimes,
    },
    /// Behind what the client sent before.
    Ack {
        session: SessionId,
        ack: Box<OsdBackoff>,
    },
    Query {
        from: OsdId,
        message: PgQuery,
    },
}

/// What an operation holds that waits for its map.
fn deferred_bytes(op: &OsdOp) -> usize {
    op.input_bytes() + OP_BYTES
}

/// What a member said of an update.
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
    /// What goes with them about single updates.
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
    /// What the last beacon said.
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

/// Opens an envelope as `$ty` and gives it to its group, if this OSD has the group.
macro_rules! to_group {
    ($shard:ident, $from:ident, $envelope:ident, $ty:ident, |$pg:ident, $cx:ident, $message:ident| $body:expr) => {{
        #[allow(unused_mut, reason = "only what erasure-coded groups say to each other is renamed")]
        let mut $message = $ty::open($envelope)?;
        let id = $shard.instance($message.pg.pgid);
        if let Some($pg) = $shard.pgs.get_mut(&id) {
            if id.pool.shard().is_some() {
                $message.rehome(id.pool);
            }
            let $cx = context!($shard);
            $body;
        }
    }};
}

// Behind the macros, which it uses.
pub(crate) mod copying;
mod doubt;
mod merges;
mod splits;
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

    /// Makes it the OSD's shard of this number, which has those groups whose home it is. To be called before the first map comes.
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

    /// Whether the group has its home on this shard of the OSD.
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

    /// What this OSD has of a group that a client, a monitor or another OSD, which may have another shard of it, names.
    fn instance(&self, pgid: PgId) -> PgId {
        self.shards.get(&pgid.base()).copied().unwrap_or(pgid)
    }

    /// The other OSDs of all groups that this OSD is a member of, whichever of its shards has them.
    pub fn sharing_osds(&self) -> &BTreeSet<OsdId> {
        &self.sharing
    }

    /// Sets the address at which clients reach this OSD. A map that shows it elsewhere speaks of an earlier start of it:
    /// until it is shown here it takes no part in any group, so that two starts never give out the same version.
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

    /// Bytes of answers to clients that the network has not taken yet, to be told before a turn ends: they count as held.
    pub fn set_unsent_bytes(&mut self, bytes: usize) {
        self.intake.unsent_bytes = bytes;
    }

    /// Whether clients' requests hold as much as they may. The driver then reads nothing more from clients; what was
    /// read already waits.
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

    /// What the turn has brought about (device requests, messages) leaves at this time.
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

    /// What that has found since the OSD started.
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

    /// Starts what has waited for room in memory, what came first before what came later. Returns whether there was something.
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

    /// Ends the largest notifications while all together take more of memory than they may. So they hold up nobody: what their
    /// watchers answer is read whatever they take.
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

    // ---- maps ----

    /// Maps from a monitor. They come into force at once, or with [`Shard::follow_maps`] where it takes long to find out where groups are.
    pub fn osd_maps(&mut self, message: &messages::OsdMap) -> Result<(), MapError> {
        let taken = self.maps.take(message);
        if self.placing.is_none() {
            self.follow_maps();
        }
        if taken? {
            self.out.push(Output::NeedMaps { from: self.maps.newest_epoch().next() });
        }
        Ok(())
    }

    /// Has maps come into force that have come, as far as bounded work goes; the one in force stays meanwhile. To be called once in a turn.
    pub fn follow_maps(&mut self) {
        let mut left = self.limits.placing_work;
        let mut is_new = false;
        while let Some(map) = self.maps.next() {
            let before = self.maps.current().clone();
            let mut placing = match self.placing.take() {
                Some(placing) => placing,
                None => MappingUpdate::begin(std::mem::take(&mut self.mapping), &before, &map),
            };
            if !placing.step(&before, &map, &mut left) {
                self.placing = Some(placing);
                break;
            }
            let (mapping, computed) = placing.finish();
            let advance = self.maps.enter().expect("just seen");
            self.advance(&advance, mapping, computed);
            if before.blocklist != map.blocklist || before.range_blocklist != map.range_blocklist {
                self.pgs.values_mut().for_each(|pg| pg.lock_watchers_out(context!(self)));
            }
            is_new = true;
        }
        if !is_new {
            return;
        }
        for session in std::mem::take(&mut self.interrupted) {
            self.share_map(session);
        }
        self.forget_questions();
        self.leases.follow_map(self.maps.epoch());
        self.lease_came();
        self.run_deferred();
    }

    /// A map has come into force. `mapping`: where it has groups, of which CRUSH has placed `computed` anew.
    fn advance(&mut self, advance: &Advance, mapping: PgMapping, computed: usize) {
        let map = &advance.map;
        self.homes.follow(map);
        let gone = self.pgs.keys().filter(|id| !map.pools.contains_key(&id.pool.base())).copied().collect::<Vec<_>>();
        for id in gone {
            let mut pg = self.pgs.remove(&id).expect("just seen");
            match was_deleted(map, id) {
                true => pg.destroy(context!(self)),
                // The map has never known of it: that of a monitor that had not heard of everything. Its data stays.
                false => pg.leave(context!(self)),
            }
            self.reports.remove(&id);
        }
        self.destroy_strays_of_gone_pools(map);
        let is_shown = self.is_shown_by(map);
        self.gather_merges(map, is_shown);
        self.split_groups(advance);
        let is_full =
            |map: &OsdMap, pool| map.pools.get(&pool).is_some_and(|pool| pool.flags.contains(PoolFlags::FULL));
        for (id, pg) in &mut self.pgs {
            let pool = id.pool.base();
            if is_full(&advance.before, pool) && !is_full(map, pool) {
                pg.full_ended(map.epoch);
            }
        }
        if computed > 0 {
            for (pool, error) in mapping.errors() {
                tracing::warn!(%pool, "pool cannot be placed: {error}");
            }
        }
        let mut shapes = BTreeMap::new();
        for (id, pool) in &map.pools {
            match PoolShape::of(map, pool) {
                Ok(shape) => drop(shapes.insert(*id, shape)),
                Err(error) if self.unserved.insert(*id) => tracing::warn!(pool = %id, "pool is not served: {error}"),
                Err(_) => {}
            }
        }
        self.unserved.retain(|id| map.pools.contains_key(id) && !shapes.contains_key(id));
        // Every group that this OSD takes part in, as what.
        let mut members: BTreeMap<PgId, PgId> = BTreeMap::new();
        self.sharing.clear();
        for (id, placed) in mapping.involving(self.whoami).filter(|_| is_shown) {
            let Some(shape) = shapes.get(&id.pool) else { continue };
            let is_erasure = shape.coding.is_some();
            let instance = instance(id, &placed.acting, &placed.up, self.whoami, is_erasure);
            let Some(instance) = instance else { continue };
            let others = placed.up.iter().chain(&placed.acting).filter(|osd| osd.is_some() && **osd != self.whoami);
            self.sharing.extend(others);
            if self.is_home_of(id) {
                members.insert(id, instance);
            }
        }
        let left: Vec<_> = self.pgs.keys().filter(|id| members.get(&id.base()) != Some(*id)).copied().collect();
        for id in left {
            // Not a member any more: the data stays, should this OSD be chosen again.
            let mut pg = self.pgs.remove(&id).expect("just seen");
            pg.leave(context!(self));
            self.reports.remove(&id);
            if mutant::is(Mutant::OtherShardDropped) && members.contains_key(&id.base()) {
                pg.destroy(context!(self));
            }
        }
        let mut new = Vec::new();
        for (id, instance) in &members {
            let placed = mapping.get(*id).expect("just seen");
            new.extend(self.place(*instance, placed, shapes[&id.pool], advance));
        }
        self.shards = members.into_iter().filter(|(id, instance)| id != instance).collect();
        self.mapping = mapping;
        self.dups_limit = DupsLimit::shared(&self.limits, self.pgs.len());
        new.into_iter().for_each(|id| self.load_group(id));
        let (pgs, splits) = (&self.pgs, &self.splits);
        let exists = |id: &PgId| map.pools.get(&id.pool.base()).is_some_and(|pool| id.seed < pool.pg_num);
        let is_stray = |id: &PgId| !pgs.contains_key(id) && exists(id);
        self.strays.keep_only(|id| is_stray(id) && !splits.is_unexamined(*id));
        self.read_merges();
        self.examine_strays();
        self.rooms.follow_map(map, self.sharing.clone());
        tracing::debug!(epoch = map.epoch.0, groups = self.pgs.len(), computed, "map in force");
    }

    /// Groups in the store whose pool no longer exists are removed, also those that were not in use here.
    fn destroy_strays_of_gone_pools(&mut self, map: &OsdMap) {
        let gone = |id: &PgId| was_deleted(map, *id);
        let strays: BTreeSet<PgId> = self.store.pgs().into_iter().filter(gone).collect();
        // How many groups the pool had is not known any more. As the only group of its pool, number 0 spans every
        // object; the others are left with their tables.
        let whole_pools: BTreeSet<PgId> = strays
            .iter()
            .flat_map(|id| [id.pool].into_iter().chain(id.pool.shard().map(|_| id.pool.kept_back())))
            .map(|pool| PgId { pool, seed: 0 })
            .collect();
        for pg in whole_pools.into_iter().chain(strays) {
            let steps = vec![store::Step::PgDestroy { pg_num: 1 }];
            context!(self).submit_or_stop(store::Transaction { pg, steps }, OnCommit::Nothing);
        }
    }

    /// This OSD takes part in a group. Gives the group if it is new here: its table must be loaded then.
    fn place(&mut self, id: PgId, placed: &UpActing, shape: PoolShape, advance: &Advance) -> Option<PgId> {
        let interval = || Interval {
            since: advance.map.epoch,
            up: placed.up.clone(),
            acting: placed.acting.clone(),
            primary: placed.acting_primary,
            shape,
        };
        // What an interval that began unseen needs to know: not when it began, but when it may have begun at the
        // earliest.
        let began = advance.skipped_since.map_or(advance.map.epoch, Epoch::next);
        match self.pgs.get_mut(&id) {
            Some(pg) if advance.skipped_since.is_none() && pg.interval.continues(id, placed, shape) => {
                match pg.awaits_map() {
                    true => pg.start_interval_among_members(context!(self), interval()),
                    false => pg.continue_interval(shape),
                }
            }
            Some(pg) => {
                // If it is as it was before the maps that were not seen, it may be the same.
                if !pg.interval.continues(id, placed, shape) {
                    pg.not_before = began;
                }
                pg.start_interval(context!(self), interval(), began);
            }
            None => {
                let mut pg = match self.store.pgs_contain(id) {
                    _ if self.merges.awaits(id) => Pg::waiting_for_others(id, interval()),
                    true => Pg::stored(id, interval()),
                    false if self.splits.holds_back(id) => Pg::waiting_for_others(id, interval()),
                    false => Pg::absent(id, interval()),
                };
                (pg.primary_since, pg.not_before) = (began, began);
                pg.start_interval(context!(self), interval(), began);
                self.pgs.insert(id, pg);
                return Some(id);
            }
        }
        None
    }

    fn run_deferred(&mut self) {
        while let Some(entry) = self.deferred.first_entry() {
            if *entry.key() > self.maps.epoch() {
                break;
            }
            for deferred in entry.remove() {
                match deferred {
                    Deferred::ClientOp { session, tid, op, times } => {
                        self.held.give_back(deferred_bytes(&op));
                        self.dispatch_op(session, tid, *op, times);
                    }
                    Deferred::Ack { session, ack } => self.dispatch_ack(session, *ack),
                    Deferred::Query { from, message } => self.query(from, message),
                }
            }
        }
    }

    fn defer(&mut self, epoch: Epoch, deferred: Deferred) {
        if epoch > self.maps.newest_epoch() {
            self.out.push(Output::NeedMaps { from: self.maps.newest_epoch().next() });
        }
        self.deferred.entry(epoch).or_default().push(deferred);
    }

    /// Forgets what clients have sent that are gone, with maps that are still to come.
    fn forget_deferred(&mut self, is_gone: impl Fn(SessionId) -> bool) {
        let Shard { deferred, held, .. } = self;
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

    // ---- clients ----

    /// A client is connected. `features`: bits that both sides have.
    pub fn client_opened(&mut self, session: SessionId, name: EntityName, addr: EntityAddr, features: u64) {
        let takes_backoffs = features & RADOS_BACKOFF == RADOS_BACKOFF;
        self.clients.insert(session, ClientSession { name, addr, epoch: Epoch(0), takes_backoffs });
    }

    pub fn client_closed(&mut self, session: SessionId) {
        self.clients.remove(&session);
        self.intake.forget(session);
        self.forget_deferred(|of| of == session);
        self.backoffs.session_ended(session);
        for pg in self.pgs.values_mut() {
            pg.watcher_left(session, self.now);
            pg.reader_left(context!(self), session);
        }
    }

    /// A client's operation. The first byte of its message came at `began`.
    ///
    /// Errors: the message is malformed, or sent with a map that is far from here; its session must be closed.
    pub fn client_op(&mut self, session: SessionId, envelope: &Envelope, began: Duration) -> Result<(), DecodeError> {
        let op = OsdOp::open(envelope)?;
        // Other OSDs have their maps from the monitors, and never wait here.
        let is_osds = copying::is_osds(session);
        if !is_osds && let Err(far_ahead) = route::check_epoch(op.epoch, self.maps.newest_epoch()) {
            self.out.push(Output::NeedMaps { from: self.maps.newest_epoch().next() });
            return Err(far_ahead);
        }
        let times = OpTimes::new(began, self.now);
        match self.is_full() && !is_osds {
            true => self.intake.push(session, Sent::Op { tid: envelope.header.tid, op, times }),
            false => self.dispatch_op(session, envelope.header.tid, op, times),
        }
        Ok(())
    }

    /// What a client says of backoffs.
    ///
    /// Errors: the message is malformed; its session must be closed.
    pub fn client_backoff(&mut self, session: SessionId, envelope: &Envelope) -> Result<(), DecodeError> {
        let ack = OsdBackoff::open(envelope)?;
        match (ack.op, self.intake.is_empty()) {
            (BackoffOp::AckBlock, true) => self.dispatch_ack(session, ack),
            (BackoffOp::AckBlock, false) => self.intake.push(session, Sent::Ack(ack)),
            (BackoffOp::Block | BackoffOp::Unblock, _) => {}
        }
        Ok(())
    }

    fn dispatch_ack(&mut self, session: SessionId, ack: OsdBackoff) {
        let is_of = |deferred: &Deferred| matches!(deferred, Deferred::ClientOp { session: of, .. } if *of == session);
        let mut newest_first = self.deferred.iter().rev();
        match newest_first.find(|(_, deferred)| deferred.iter().any(is_of)).map(|(epoch, _)| *epoch) {
            Some(epoch) => self.defer(epoch, Deferred::Ack { session, ack: Box::new(ack) }),
            None => self.backoffs.acknowledged(session, &ack, self.maps.epoch()),
        }
    }

    /// What clients have been asked to hold back.
    pub fn backoff_counts(&self) -> BackoffCounts {
        self.backoffs.counts()
    }

    fn dispatch_op(&mut self, session: SessionId, tid: u64, op: OsdOp, mut times: OpTimes) {
        let Some(client) = self.clients.get_mut(&session) else { return };
        if op.epoch > self.maps.epoch() {
            times.waits.add(WaitReasons::MAP);
            self.held.add(deferred_bytes(&op));
            return self.defer(op.epoch, Deferred::ClientOp { session, tid, op: Box::new(op), times });
        }
        client.epoch = client.epoch.max(op.epoch);
        if self.maps.current().is_blocklisted(&client.addr) {
            let reply = OsdOpReply::to(&op, Errno::EBLOCKLISTED.as_result(), self.maps.epoch());
            return context!(self).send_client(session, tid, reply);
        }
        let caller = cls::Caller { name: client.name, addr: client.addr };
        let reqid: ReqId = op.request_id(caller.name, tid);
        self.share_map(session);
        if self.backoffs.drops(session, &op) {
            tracing::trace!(pg = %op.pgid.pg, %reqid, "operation dropped that its client holds back");
            return;
        }
        let id = self.instance(op.pgid.pg);
        let Some(pg) = self.pgs.get_mut(&id) else { return };
        // Not our operation, or sent to another primary: the newer map just shared has the client send it where it
        // belongs.
        let elsewhere = !pg.is_primary(self.whoami);
        let may_write = ops::may_write(&op);
        let reads_anywhere = op.flags.has(OpFlags::BALANCE_READS) || op.flags.has(OpFlags::LOCALIZE_READS);
        let as_member = elsewhere && reads_anywhere && !may_write;
        if !as_member && (elsewhere || op.epoch < pg.primary_since) {
            tracing::debug!(pg = %op.pgid.pg, %reqid, epoch = op.epoch.0, "operation of another interval or OSD dropped");
            return;
        }
        // Sent with a map from before the group was split, which this OSD has not seen: it is sent again to where the object
        // is now.
        if osdmap::split_parent(op.raw_hash, pg.interval.shape.pg_num) != op.pgid.pg.seed {
            tracing::debug!(pg = %op.pgid.pg, %reqid, hash = op.raw_hash, "operation on an object of another group dropped");
            return;
        }
        if as_member {
            return pg.replica_read(context!(self), ClientOp::new(session, tid, reqid, op, times).called_by(caller));
        }
        pg.client_op(context!(self), ClientOp::new(session, tid, reqid, op, times).called_by(caller));
    }

    /// Sends the client the maps it lacks.
    fn share_map(&mut self, session: SessionId) {
        let Some(client) = self.clients.get_mut(&session) else { return };
        while let Some(message) = self.maps.message_since(client.epoch) {
            let last = message.incrementals.last_key_value().map(|(e, _)| *e);
            client.epoch = last.unwrap_or(self.maps.epoch());
            let envelope = message.seal(0, Target::default());
            self.out.push(Output::ToClient { session, envelope });
        }
    }

    // ---- other OSDs ----

    /// A message from another OSD. Its first byte came at `began`.
    ///
    /// Errors: it is malformed; the session must be closed.
    pub fn peer_message(&mut self, from: OsdId, envelope: &Envelope, began: Duration) -> Result<(), DecodeError> {
        match envelope.header.kind {
            kind::REP_OP => {
                to_group!(self, from, envelope, RepOp, |pg, cx, message| pg.rep_op(cx, from, message, began));
            }
            kind::REP_OP_REPLY => {
                let RepOpReply { durable, hops } = RepOpReply::open(envelope)?;
                for ((pg_interval, version), hops) in hops {
                    let id = self.instance(pg_interval.pgid);
                    if let Some(pg) = self.pgs.get_mut(&id) {
                        pg.member_hops(self.now, from, (pg_interval.since, version), hops);
                    }
                }
                for (pg_interval, version) in durable {
                    let id = self.instance(pg_interval.pgid);
                    if let Some(pg) = self.pgs.get_mut(&id) {
                        pg.member_durable(context!(self), from, pg_interval.since, version);
                    }
                }
            }
            kind::PG_QUERY => {
                let message = PgQuery::open(envelope)?;
                match message.epoch > self.maps.epoch() {
                    true => self.defer(message.epoch, Deferred::Query { from, message }),
                    false => self.query(from, message),
                }
            }
            kind::PG_INFO => {
                let PgNotify { groups, unknown_promises, promises, shares, strange } = PgNotify::open(envelope)?;
                let spans = |known: Vec<(OsdId, u64)>| -> Vec<(Option<OsdId>, u64)> {
                    let known = known.into_iter().map(|(osd, span)| (Some(osd), span));
                    known.chain([(None, unknown_promises)]).collect()
                };
                let (promises, shares) = (spans(promises), spans(shares));
                for (pg_interval, mut state) in groups {
                    let id = self.instance(pg_interval.pgid);
                    if let Some(pg) = self.pgs.get_mut(&id) {
                        if id.pool.shard().is_some() {
                            state.rehome(id.pool);
                        }
                        let state = (!strange.contains(&pg_interval)).then_some(state);
                        pg.member_told(context!(self), from, pg_interval.since, state, &promises, &shares);
                    }
                }
            }
            kind::LEASE_GET => {
                let LeaseGet { stamp } = LeaseGet::open(envelope)?;
                let grant = self.leases.grant(from, stamp, self.maps.epoch(), self.now);
                context!(self).send_osd(from, grant);
            }
            kind::LEASE_GRANT => {
                let grant = LeaseGrant::open(envelope)?;
                if self.leases.granted(from, &grant, self.maps.epoch()) {
                    self.lease_came();
                }
            }
            kind::READ_SHARE_GET => {
                let mut shares = Vec::new();
                for wish in ReadShareGet::open(envelope)?.wishes {
                    let id = self.instance(wish.pg.pgid);
                    let pg = self.pgs.get_mut(&id);
                    shares.extend(pg.and_then(|pg| pg.share_wanted(context!(self), from, wish)));
                }
                if !shares.is_empty() {
                    context!(self).send_osd(from, ReadShare { shares });
                }
            }
            kind::READ_SHARE => {
                for share in ReadShare::open(envelope)?.shares {
                    let id = self.instance(share.wish.pg.pgid);
                    if let Some(pg) = self.pgs.get_mut(&id) {
                        pg.share_told(context!(self), from, &share);
                    }
                }
            }
            kind::PG_LOG_GET => {
                to_group!(self, from, envelope, PgLogGet, |pg, cx, message| pg.log_wanted(cx, from, &message));
            }
            kind::PG_LOG => {
                to_group!(self, from, envelope, PgLogEntries, |pg, cx, message| pg.log_came(cx, from, message));
            }
            kind::PG_PULL => {
                to_group!(self, from, envelope, PgPull, |pg, cx, message| pg.pull_wanted(cx, from, message));
            }
            kind::PG_PUSH => to_group!(self, from, envelope, PgPush, |pg, cx, message| pg.pushed(cx, from, message)),
            kind::PG_PUSH_ACK => {
                to_group!(self, from, envelope, PgPushAck, |pg, cx, message| pg.push_acked(cx, from, message));
            }
            kind::PG_SCAN => {
                to_group!(self, from, envelope, PgScan, |pg, cx, message| pg.scan_wanted(cx, from, message));
            }
            kind::PG_OBJECTS => {
                to_group!(self, from, envelope, PgObjects, |pg, cx, message| pg.scanned(cx, from, message));
            }
            kind::PG_BACKFILLED => {
                to_group!(self, from, envelope, PgBackfilled, |pg, cx, message| pg.backfilled(cx, from, message));
            }
            kind::PG_RESERVE => {
                to_group!(self, from, envelope, PgReserve, |pg, cx, message| pg.slot_wanted(cx, from, &message));
            }
            kind::PG_RESERVED => {
                to_group!(self, from, envelope, PgReserved, |pg, cx, message| pg.slot_told(cx, from, &message));
            }
            kind::PG_RELEASED => {
                let PgReleased { pg } = PgReleased::open(envelope)?;
                // As it asked for it.
                self.reservations.release_for(from, pg);
            }
            kind::PG_INTERRUPTED => {
                to_group!(self, from, envelope, PgInterrupted, |pg, cx, message| pg.interrupted(cx, from, &message));
            }
            kind::PG_SOUGHT => self.sought(from, PgSought::open(envelope)?),
            kind::PG_FOUND => self.found(from, PgFound::open(envelope)?),
            kind::PG_STRAYS => self.strays_told(from, PgStrays::open(envelope)?),
            kind::PG_UNNEEDED => {
                let PgUnneeded { epoch, groups } = PgUnneeded::open(envelope)?;
                // With an older map it is not known whether this OSD is to have them again; it asks once more.
                let groups = groups.into_iter().filter(|_| epoch <= self.maps.epoch());
                for pgid in groups.filter(|pgid| !self.pgs.contains_key(pgid)).collect::<Vec<_>>() {
                    let leads = self.mapping.get(pgid.base()).is_some_and(|placed| placed.acting_primary == Some(from));
                    if leads && self.store.pgs_contain(pgid) && !self.splits.is_unexamined(pgid) {
                        self.strays.remove(self.maps.current(), pgid);
                    }
                }
            }
            kind::SCRUB_GET => {
                to_group!(self, from, envelope, ScrubGet, |pg, cx, message| pg.scrub_wanted(cx, from, message));
            }
            kind::SCRUB_GOT => {
                to_group!(self, from, envelope, ScrubGot, |pg, cx, message| pg.scrub_got(cx, from, message));
            }
            kind::SCRUB_BAD => {
                to_group!(self, from, envelope, ScrubBad, |pg, cx, message| pg.scrub_bad(cx, from, message));
            }
            kind::SCRUB_DONE => {
                to_group!(self, from, envelope, ScrubDone, |pg, cx, message| pg.scrub_done(cx, from, message));
            }
            kind::PG_START => {
                to_group!(self, from, envelope, PgStart, |pg, cx, message| pg.start_wanted(cx, from, &message));
            }
            kind::PG_STARTED => {
                to_group!(self, from, envelope, PgStarted, |pg, cx, message| {
                    pg.member_started(cx, from, message);
                });
            }
            kind::ROOM_GET => {
                // An older start of the sender may be what this map shows.
                if RoomGet::open(envelope)?.epoch <= self.maps.epoch() {
                    self.rooms.asked(from);
                }
            }
            kind::ROOM_TOLD => {
                let seen = self.rooms.told(from, &RoomTold::open(envelope)?);
                context!(self).send_osd(from, seen);
            }
            kind::ROOM_SEEN => self.rooms.seen(from, &RoomSeen::open(envelope)?),
            kind::SHARD_READ => {
                to_group!(self, from, envelope, ShardRead, |pg, cx, message| pg.shard_read(cx, from, message));
            }
            kind::STRAY_READ => {
                let message = StrayRead::open(envelope)?;
                if let Some(reply) = context!(self).old_shard_wanted(from, message) {
                    context!(self).send_osd(from, reply);
                }
            }
            kind::SHARD_READ_REPLY => {
                to_group!(self, from, envelope, ShardReadReply, |pg, cx, message| {
                    pg.shard_read_came(cx, from, message);
                });
            }
            OsdOp::TYPE => self.osd_asks(from, envelope, began)?,
            OsdOpReply::TYPE => self.osd_answers(envelope)?,
            kind::ROLL_FORWARD => {
                to_group!(self, from, envelope, RollForward, |pg, cx, message| pg.forward_told(cx, from, &message));
            }
            other => tracing::warn!(%from, kind = other, "message of unknown type ignored"),
        }
        self.coded_reads_done();
        Ok(())
    }

    /// Another OSD has copies of groups that it is no member of.
    fn strays_told(&mut self, from: OsdId, message: PgStrays) {
        let epoch = self.maps.epoch();
        if message.epoch > epoch {
            return;
        }
        let mut groups = Vec::new();
        for pgid in message.groups {
            let pg = self.pgs.get(&self.instance(pgid));
            if pg.is_some_and(|pg| pg.needs_no_copy_of(self.whoami, from, pgid.pool.shard())) {
                groups.push(pgid);
            }
        }
        if !groups.is_empty() {
            context!(self).send_osd(from, PgUnneeded { epoch, groups });
        }
    }

    /// The session with another OSD has ended, and what was on its way between the two is lost.
    pub fn session_ended(&mut self, osd: OsdId) {
        if mutant::is(Mutant::SessionEndUntold) {
            return;
        }
        for deferred in self.deferred.values_mut() {
            deferred.retain(|deferred| !matches!(deferred, Deferred::Query { from, .. } if *from == osd));
        }
        self.pgs.values_mut().for_each(|pg| pg.session_ended(context!(self), osd));
    }

    fn query(&mut self, from: OsdId, message: PgQuery) {
        let (mut groups, mut strange) = (Vec::new(), Vec::new());
        for (pg_interval, agreed) in message.groups {
            // Another shard of this OSD answers.
            if !self.is_home_of(pg_interval.pgid) {
                continue;
            }
            let id = self.instance(pg_interval.pgid);
            let state = match self.pgs.get_mut(&id) {
                Some(pg) => match pg.hold_query(from, pg_interval, &agreed) {
                    true => None,
                    false => pg.join(context!(self), from, pg_interval, &agreed),
                },
                // Not a member (any more): that alone is news to one that waits for a lease of this OSD to end.
                None => {
                    strange.extend((!mutant::is(Mutant::StrangerHasNothing)).then_some(pg_interval));
                    Some(MemberState::default())
                }
            };
            groups.extend(state.map(|state| (pg_interval, state)));
        }
        if !groups.is_empty() {
            context!(self).notify(from, groups, strange);
        }
    }

    // ---- operators ----

    pub fn replica_reads(&self) -> ReplicaReadCounts {
        self.leases.replica_reads
    }

    /// What this OSD, as its primary, knows of a group.
    pub fn pg_view(&self, pgid: PgId) -> Option<PgView> {
        let pg = self.pgs.get(&self.instance(pgid)).filter(|pg| pg.is_primary(self.whoami))?;
        Some(pg.view(self.whoami, self.maps.current()))
    }

    /// Gives up the objects of a group that nobody has, and says how many.
    pub fn give_up_unfound(&mut self, pgid: PgId) -> Result<usize, GiveUpError> {
        let id = self.instance(pgid);
        match self.pgs.get_mut(&id).filter(|pg| pg.is_primary(self.whoami)) {
            Some(pg) => pg.give_up_unfound(context!(self)),
            None => Err(GiveUpError::NotPrimary),
        }
    }

    /// Has an object's copies replaced by the one on `osd`, where nothing but an operator's word tells which is right.
    pub fn keep_copy(&mut self, pgid: PgId, name: &str, osd: OsdId) -> Result<Kept, KeepCopyError> {
        let id = self.instance(pgid);
        match self.pgs.get_mut(&id).filter(|pg| pg.is_primary(self.whoami)) {
            Some(pg) => pg.keep_copy(context!(self), name, osd),
            None => Err(KeepCopyError::NotPrimary),
        }
    }

    // ---- monitors ----

    /// A message of our own kind from a monitor.
    ///
    /// Errors: it is malformed.
    pub fn monitor_message(&mut self, envelope: &Envelope) -> Result<(), DecodeError> {
        match envelope.header.kind {
            kind::PG_HISTORY => {
                let PgHistoryReply { epoch, pgs } = PgHistoryReply::open(envelope)?;
                for history in pgs {
                    let id = self.instance(history.pgid);
                    if let Some(pg) = self.pgs.get_mut(&id) {
                        pg.history_told(context!(self), epoch, history);
                    }
                }
            }
            kind::PG_ACTIVATED => {
                for history in PgActivated::open(envelope)?.pgs {
                    let id = self.instance(history.pgid);
                    if let Some(pg) = self.pgs.get_mut(&id) {
                        pg.recorded(context!(self), history);
                    }
                }
            }
            kind::PG_SCRUB => {
                let PgScrub { pgs, deep, repair } = PgScrub::open(envelope)?;
                let pgs: Vec<PgId> = pgs.into_iter().map(|id| self.instance(id)).collect();
                for id in pgs.into_iter().filter(|id| self.pgs.get(id).is_some_and(|pg| pg.is_primary(self.whoami))) {
                    self.scrubs.order(id, deep, repair, self.now);
                }
            }
            kind::PG_FORCE => {
                let PgForce { pgs, backfill, cancel } = PgForce::open(envelope)?;
                for id in pgs.into_iter().map(|id| self.instance(id)).collect::<Vec<_>>() {
                    if let Some(pg) = self.pgs.get_mut(&id).filter(|pg| pg.is_primary(self.whoami)) {
                        pg.force(context!(self), backfill, cancel);
                    }
                }
            }
            other => tracing::warn!(kind = other, "message of unknown type from a monitor ignored"),
        }
        Ok(())
    }

    /// A session with a monitor has begun: everything said before may be lost, and is said again.
    pub fn monitor_connected(&mut self) {
        for pg in self.pgs.values_mut().filter(|pg| pg.is_primary(self.whoami)) {
            pg.queue_report(context!(self));
            pg.ask_again(context!(self));
        }
    }

    /// Whether groups have changed state since the last beacon, or the store has become full or is so no longer.
    pub fn has_reports(&self) -> bool {
        !self.reports.is_empty() || self.fullness() != self.fullness_told
    }

    /// How many of the cluster's limits for full OSDs this one has reached.
    fn fullness(&self) -> u8 {
        let (map, usage) = (self.maps.current(), self.store.usage());
        let used = 1.0 - usage.free_bytes_for_cluster() as f64 / usage.total_bytes.max(1) as f64;
        let limits = [map.nearfull_ratio, map.backfillfull_ratio, map.full_ratio];
        limits.iter().map(|limit| u8::from(used >= f64::from(*limit))).sum()
    }

    /// The beacon that is due, with all reports that have gathered.
    pub fn beacon(&mut self, heartbeat_peers: u64, commit_latency_us: u64) -> OsdBeacon {
        let whoami = self.whoami;
        for pg in self.pgs.values_mut() {
            if pg.is_primary(whoami) && (pg.healing.may_work() || pg.has_served()) {
                pg.queue_report(context!(self));
            }
        }
        self.fullness_told = self.fullness();
        let usage = self.store.usage();
        let (slow_ops, oldest) = self.slow_ops(self.now);
        let stats = OsdStats {
            total_bytes: usage.total_bytes,
            free_bytes: usage.free_bytes_for_cluster(),
            data_bytes: usage.data_bytes,
            stored_bytes: usage.stored_bytes,
            omap_bytes: usage.omap_bytes,
            metadata_bytes: usage.metadata_bytes,
            commit_latency_us,
            pg_count: self.pgs.len() as u64,
            heartbeat_peers,
            slow_ops,
            oldest_slow_op_ms: oldest.as_millis() as u64,
        };
        let pgs = std::mem::take(&mut self.reports).into_values().collect();
        OsdBeacon { osd: self.whoami, epoch: self.maps.epoch(), stats, pgs }
    }

    // ---- the store ----

    fn handle_store_events(&mut self) {
        while let Some(event) = self.store.poll_event() {
            match event {
                StoreEvent::Committed(ticket) => self.committed(ticket),
                StoreEvent::LookupDone(id) => self.lookup_done(id, None),
                StoreEvent::ReadDone { id, result } => self.lookup_done(id, Some(result)),
                StoreEvent::Failed { reason } => self.out.push(Output::Fatal { reason }),
            }
        }
    }

    fn committed(&mut self, ticket: Ticket) {
        let times = self.store.commit_times(ticket);
        while self.commits.front().is_some_and(|(t, ..)| *t <= ticket) {
            let (_, pgid, then) = self.commits.pop_front().expect("just seen");
            let Some(pg) = self.pgs.get_mut(&pgid) else { continue };
            match then {
                OnCommit::Nothing => {}
                OnCommit::PrimaryUpdate { since, version } => {
                    pg.own_update_durable(context!(self), since, version, times.as_ref());
                }
                OnCommit::MemberUpdate { primary, since, version, times: of_member } => {
                    if pg.follows(primary, since) {
                        self.rep_replies.insert((primary, pgid), (since, version));
                        if let Some(hops) = times.as_ref().and_then(|times| of_member.hops(times)) {
                            let group = PgInterval { pgid, since };
                            self.rep_hops.entry(primary).or_default().push(((group, version), hops));
                        }
                    }
                }
                OnCommit::Pushed { from, since, object } => pg.push_durable(context!(self), from, since, object),
                OnCommit::Started { primary, since } => pg.start_remembered(context!(self), primary, since),
            }
        }
    }

    fn lookup_done(&mut self, id: LookupId, data: Option<Result<Rope, ReadError>>) {
        match self.waiters.remove(&id) {
            None => {}
            Some(Waiter::ClientOp { pgid, op }) => {
                if let Some(pg) = self.pgs.get_mut(&pgid) {
                    pg.op_lookup_done(context!(self), op, id, data);
                }
            }
            Some(Waiter::Scrub { pgid }) => {
                if let Some(pg) = self.pgs.get_mut(&pgid) {
                    pg.scrub_lookup_done(context!(self), id, data);
                }
            }
            Some(Waiter::Check) => self.check.lookup_done(context!(self), &mut self.pgs, id, data),
            Some(Waiter::Load { pgid }) => {
                if self.pgs.get_mut(&pgid).is_some_and(|pg| pg.load_waited_for(id)) {
                    self.load_group(pgid);
                } else if self.splits.reading(pgid).is_some_and(|pg| pg.load_waited_for(id)) {
                    self.read_stray(pgid);
                } else if self.merges.load_waited_for(pgid, id) {
                    self.read_merges();
                }
            }
            Some(Waiter::Scan { pgid }) => {
                if let Some(pg) = self.pgs.get_mut(&pgid) {
                    pg.scan_lookup_done(context!(self), id);
                }
            }
            Some(Waiter::Trim { pgid }) => {
                if let Some(pg) = self.pgs.get_mut(&pgid) {
                    pg.trim_lookup_done(context!(self), id);
                }
            }
            Some(Waiter::GoingBack { pgid }) => {
                if let Some(pg) = self.pgs.get_mut(&pgid) {
                    pg.members_changed(context!(self));
                }
            }
            Some(Waiter::Stray { pgid }) => self.strays.lookup_done(context!(self), pgid, id),
            Some(Waiter::Sought { pgid, from }) => {
                let epoch = self.maps.epoch();
                self.sought(from, PgSought { epoch, groups: vec![pgid] });
            }
            Some(Waiter::OldShard) => match context!(self).old_shard_lookup_done(id, data) {
                Some((to, reply)) if to == self.whoami => {
                    let id = self.instance(reply.pg.pgid);
                    if let Some(pg) = self.pgs.get_mut(&id) {
                        pg.shard_read_came(context!(self), to, reply);
                    }
                }
                Some((to, reply)) => context!(self).send_osd(to, reply),
                None => {}
            },
            Some(Waiter::ShardRead { pgid }) => {
                if let Some(pg) = self.pgs.get_mut(&pgid) {
                    pg.serve_lookup_done(context!(self), id, data);
                }
            }
            Some(Waiter::Rebuild { pgid, object }) => {
                if let (Some(pg), Some(data)) = (self.pgs.get_mut(&pgid), data) {
                    pg.rebuild_read(context!(self), &object, id, data);
                }
            }
            Some(Waiter::Reread { pgid }) => {
                if let Some(pg) = self.pgs.get_mut(&pgid) {
                    pg.reread_lookup_done(context!(self), id, data);
                }
            }
            Some(Waiter::Push { pgid, to }) => {
                if let Some(pg) = self.pgs.get_mut(&pgid) {
                    pg.push_lookup_done(context!(self), to, id, data);
                }
            }
        }
    }

    /// Those that wait for reads over several shards learn what came of them.
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
        let MonitorRequests { history, activations, temps, newer_than } = std::mem::take(&mut self.monitor);
        if let Some(after) = newer_than {
            let envelope = NewerMapGet { after }.seal(0, Target::default());
            self.out.push(Output::ToMonitor { envelope });
        }
        if !history.is_empty() {
            let envelope = PgHistoryGet { epoch, pgs: history }.seal(0, Target::default());
            self.out.push(Output::ToMonitor { envelope });
        }
        if !temps.is_empty() {
            let envelope = PgTemp { epoch, pgs: temps }.seal(0, Target::default());
            self.out.push(Output::ToMonitor { envelope });
        }
        if !activations.is_empty() {
            let envelope = PgActivate { epoch, pgs: activations }.seal(0, Target::default());
            self.out.push(Output::ToMonitor { envelope });
        }
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

    /// Whether this OSD has the group and, as its primary, serves it.
    pub(crate) fn pg_is_active(&self, id: PgId) -> bool {
        self.pgs.get(&self.instance(id)).is_some_and(Pg::is_active)
    }
}

/// Whether the group's pool has been deleted. One with a higher number than any the map has had is not known to it.
fn was_deleted(map: &OsdMap, id: PgId) -> bool {
    let pool = id.pool.base();
    !map.pools.contains_key(&pool) && pool.0 <= map.pool_max.into()
}
