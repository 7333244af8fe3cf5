//! One placement group as one OSD sees it.

use crate::agreement::members::Members;
use crate::agreement::peering::Peering;
use crate::coded::Coded;
use crate::coded::coding::CodingError;
use crate::coded::protection::Protection;
use crate::context::{Context, OnCommit};
use crate::group::info::{PgInfo, PgStats};
use crate::group::loading::Loading;
use crate::group::log::PgLog;
use crate::healing::backfill::Scan;
use crate::healing::counts::Recovered;
use crate::healing::push_queue::Pushes;
use crate::healing::receiving::Receiving;
use crate::healing::recovery::Pulls;
use crate::healing::rereading::Rereading;
use crate::healing::sent_back::SentBack;
use crate::healing::turn::{Blocked, Forced, Healing};
use crate::hops::{OpSample, OpState};
use crate::intake::client_ops::{ClientOp, ClientOps, ReplicaReads};
use crate::messages::PgInterval;
use crate::messages::peering::{Agreed, MemberState};
use crate::scrub::run::Scrub;
use crate::updates::replicate::Replication;
use crate::updates::snap_trim::SnapTrim;
use crate::watch::Watches;
use bytes::Bytes;
use osdmap::{OsdMap, PgPool, UpActing};
use std::collections::BTreeMap;
use store::{Step, Transaction};
use types::{EVersion, Epoch, ObjectId, OsdId, PgId};
use wire::nacre::mon::PgReport;
use wire::{Encode, Target};

/// First byte of the keys, in the group's table, of objects that are missing here.
pub(crate) const MISSING_PREFIX: u8 = b'm';

/// What a group needs to know of its pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolShape {
    pub size: u8,
    pub min_size: u8,
    pub pg_num: u32,
    /// How many groups there are to be next; fewer only while some are about to be merged.
    pub pg_num_pending: u32,
    pub protection: Protection,
}

impl PoolShape {
    /// Errors: an erasure-coded pool whose code is not known here.
    pub fn of(map: &OsdMap, pool: &PgPool) -> Result<PoolShape, CodingError> {
        let protection = Protection::of(map, pool)?;
        let (pg_num, pg_num_pending) = (pool.pg_num, pool.pg_num_pending);
        Ok(PoolShape { size: pool.size, min_size: pool.min_size, pg_num, pg_num_pending, protection })
    }

    /// Whether the group is about to be merged with another one: meanwhile it serves nobody.
    pub fn is_merging(&self, pg: PgId) -> bool {
        osdmap::is_merging(pg.seed, self.pg_num, self.pg_num_pending)
    }

    /// Whether in both the group has the same objects, and is about to be merged or is not.
    fn is_same_group(&self, pg: PgId, other: &PoolShape) -> bool {
        self.is_merging(pg) == other.is_merging(pg) && osdmap::same_range(pg.seed, self.pg_num, other.pg_num)
    }
}

/// A stretch of epochs over which the group's sets did not change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interval {
    /// First epoch.
    pub since: Epoch,
    pub up: Vec<OsdId>,
    pub acting: Vec<OsdId>,
    /// `None`: nobody is up.
    pub primary: Option<OsdId>,
    pub shape: PoolShape,
}

impl Interval {
    /// Whether a map that gives these sets begins another interval, for clients as for us.
    pub fn continues(&self, pg: PgId, placed: &UpActing, shape: PoolShape) -> bool {
        self.up == placed.up
            && self.acting == placed.acting
            && self.primary == placed.acting_primary
            && self.shape == PoolShape { pg_num: self.shape.pg_num, pg_num_pending: self.shape.pg_num_pending, ..shape }
            && self.shape.is_same_group(pg, &shape)
    }

    fn sets(&self) -> Vec<OsdId> {
        let mut sets = self.acting.clone();
        match self.shape.protection {
            Protection::Copies => {}
            Protection::Shards(_) => sets.extend(self.shards_to_be()),
        }
        sets
    }

    /// What all members of the interval agree about.
    pub(crate) fn agreed(&self) -> Agreed {
        Agreed { sets: self.sets(), pg_nums: Some((self.shape.pg_num, self.shape.pg_num_pending)) }
    }

    /// Whether what a primary says of an interval of the group is so in this one.
    pub(crate) fn agrees(&self, pg: PgId, agreed: &Agreed) -> bool {
        self.sets() == agreed.sets
            && agreed.pg_nums.is_none_or(|(pg_num, pg_num_pending)| {
                self.shape.is_same_group(pg, &PoolShape { pg_num, pg_num_pending, ..self.shape })
            })
    }

    /// Whether those act whom the map wants. In which order they have the shards of an erasure-coded group is all one.
    pub(crate) fn is_where_wanted(&self) -> bool {
        let is_same_in_any_order = || {
            self.is_full() && self.up.len() == self.acting.len() && self.up.iter().all(|osd| self.acting.contains(osd))
        };
        self.acting == self.up
            || match self.shape.protection {
                Protection::Copies => false,
                Protection::Shards(_) => is_same_in_any_order(),
            }
    }

    /// All copies that the pool asks for have an OSD that is up.
    pub fn is_full(&self) -> bool {
        self.acting.len() >= usize::from(self.shape.size) && self.acting.iter().all(|osd| osd.is_some())
    }
}

/// One placement group.
pub struct Pg {
    pub(crate) id: PgId,
    /// Whether the store has a table for the group.
    pub(crate) stored: bool,
    /// The table is still being read; all below that comes from it is not there yet.
    pub(crate) loading: Option<Box<Loading>>,
    pub(crate) info: PgInfo,
    pub(crate) log: PgLog,
    /// Objects whose newest version, which the log tells, is not in this store.
    pub(crate) missing: BTreeMap<ObjectId, EVersion>,
    pub(crate) interval: Interval,
    /// The first epoch from which on clients have sent their operations to the primary that the group has now; an
    /// earlier one if that is not known. What was sent before is sent again.
    pub(crate) primary_since: Epoch,
    /// The interval did not begin before this epoch.
    pub(crate) not_before: Epoch,
    pub(crate) peering: Peering,
    pub(crate) replication: Replication,
    pub(crate) ops: ClientOps,
    /// As a member that is not the primary.
    pub(crate) replica_reads: ReplicaReads,
    pub(crate) members: Members,
    pub(crate) pushes: Pushes,
    pub(crate) pulls: Pulls,
    /// What comes from other members.
    pub(crate) receiving: Receiving,
    /// What the primary compares.
    pub(crate) scan: Option<Scan>,
    /// As primary: objects that members lack and that cannot be read here nor elsewhere, though by the logs they are
    /// here; in which version, as far as that is known.
    pub(crate) unreadable: BTreeMap<ObjectId, Option<EVersion>>,
    pub(crate) rereading: Rereading,
    /// Blocks here that the background check has found bad.
    pub(crate) bad_blocks: u64,
    pub(crate) healing: Healing,
    pub(crate) blocked: Blocked,
    pub(crate) forced: Forced,
    /// Objects for which there was no room.
    pub(crate) sent_back: SentBack,
    /// What has been brought to where it was missing.
    pub(crate) recovered: Recovered,
    pub(crate) scrub: Scrub,
    pub(crate) snap_trim: SnapTrim,
    /// What is unfound has changed, and what waited for that goes on in the next turn.
    pub(crate) unfound_changed: bool,
    /// Reads over several shards, in erasure-coded pools.
    pub(crate) coded: Coded,
    /// Of the objects' watchers, as primary.
    pub(crate) watches: Watches,
    /// How many watches this primary has removed.
    pub(crate) watch_removals: i32,
    pub(crate) reads: ReadCounters,
    pub(crate) report_sequence: u64,
    /// What the last report was made of.
    pub(crate) reported: (EVersion, PgStats, ReadCounters),
}

/// Client reads since the OSD started.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct ReadCounters {
    pub ops: u64,
    pub bytes: u64,
}

impl Pg {
    /// A group of which this OSD has nothing yet.
    pub(crate) fn absent(id: PgId, interval: Interval) -> Pg {
        Pg {
            id,
            stored: false,
            loading: None,
            info: PgInfo { complete: true, ..PgInfo::default() },
            log: PgLog::default(),
            missing: BTreeMap::new(),
            primary_since: interval.since,
            not_before: Epoch(0),
            coded: Coded::new(interval.shape.protection),
            interval,
            peering: Peering::default(),
            replication: Replication::default(),
            ops: ClientOps::default(),
            replica_reads: ReplicaReads::default(),
            members: Members::default(),
            pushes: Pushes::default(),
            pulls: Pulls::default(),
            receiving: Receiving::default(),
            scan: None,
            unreadable: BTreeMap::new(),
            rereading: Rereading::default(),
            bad_blocks: 0,
            healing: Healing::default(),
            blocked: Blocked::default(),
            forced: Forced::default(),
            sent_back: SentBack::default(),
            recovered: Recovered::default(),
            scrub: Scrub::default(),
            snap_trim: SnapTrim::default(),
            unfound_changed: false,
            watches: Watches::default(),
            watch_removals: 0,
            reads: ReadCounters::default(),
            report_sequence: 0,
            reported: Default::default(),
        }
    }

    pub fn id(&self) -> PgId {
        self.id
    }

    /// The group in its present interval, as messages name it.
    pub(crate) fn pg_interval(&self) -> PgInterval {
        PgInterval { pgid: self.id, since: self.interval.since }
    }

    /// The kind of the group's pool.
    pub(crate) fn protection(&self) -> Protection {
        self.interval.shape.protection
    }

    pub(crate) fn is_primary(&self, whoami: OsdId) -> bool {
        self.interval.primary == Some(whoami)
    }

    pub(crate) fn is_active(&self) -> bool {
        self.peering.is_active()
    }

    /// The other members: those of the acting set, and in erasure-coded pools, where that has no room for more, also
    /// those that are to be in it.
    pub(crate) fn others(&self, whoami: OsdId) -> Vec<OsdId> {
        let to_be = self.protection().also_members(&self.interval.up);
        let mut others: Vec<OsdId> = Vec::with_capacity(self.interval.acting.len());
        for osd in self.interval.acting.iter().chain(to_be).filter(|osd| **osd != whoami && osd.is_some()) {
            if !others.contains(osd) {
                others.push(*osd);
            }
        }
        others
    }

    pub(crate) fn member_state(&self) -> MemberState {
        MemberState { info: self.stored.then(|| self.info.clone()), missing: self.missing.clone() }
    }

    /// Notes that this member lacks the object, or that what it has is not of this version.
    pub fn missing_step(object: &ObjectId, version: EVersion) -> Step {
        Step::PgSet { key: missing_key(object), value: version.to_vec(Target::default()).into() }
    }

    pub(crate) fn found_step(object: &ObjectId) -> Step {
        Step::PgRemove { key: missing_key(object) }
    }

    /// The pool is gone, and the group with it.
    pub(crate) fn destroy(&mut self, cx: &mut Context<'_>) {
        cx.shared.reservations.forget(self.id);
        cx.shared.rooms.forget(self.id);
        self.refuse_replica_reads(cx);
        self.drop_ops(cx);
        self.drop_parts(cx);
        if self.stored {
            let steps = vec![Step::PgDestroy { pg_num: self.interval.shape.pg_num }];
            cx.submit_or_stop(Transaction { pg: self.id, steps }, OnCommit::Nothing);
            self.drop_kept_back(cx);
            self.stored = false;
        }
    }

    /// This OSD is no member any more.
    pub(crate) fn leave(&mut self, cx: &mut Context<'_>) {
        cx.outbox.interrupted.extend(self.replication.sessions());
        self.drop_parts(cx);
        self.refuse_replica_reads(cx);
        cx.shared.reservations.forget(self.id);
        cx.shared.rooms.forget(self.id);
        self.drop_ops(cx);
    }

    /// Clients have nothing to expect of this OSD any more, and are told so by the map.
    fn drop_ops(&mut self, cx: &mut Context<'_>) {
        self.ops.drop_all(cx);
        let held_back = cx.shared.backoffs.release(self.id.base(), cx.map.epoch);
        cx.outbox.interrupted.extend(held_back);
    }

    /// A new interval begins. Ceph's clients send an operation again only if the group's primary or its range of
    /// objects has changed; where this OSD stays primary, what is not answered starts anew here, and what did become
    /// durable is then found in the log. Otherwise it is forgotten.
    ///
    /// `began` is the epoch in which clients may have seen the interval begin: earlier than its first epoch here if
    /// maps were skipped. To drop what they sent since would be to drop it for ever.
    pub(crate) fn start_interval(&mut self, cx: &mut Context<'_>, interval: Interval, began: Epoch) {
        self.watches.interval_ended();
        self.begin_interval(cx, interval, began);
    }

    /// A new interval begins with the same sets, of which clients see nothing.
    pub(crate) fn start_interval_among_members(&mut self, cx: &mut Context<'_>, interval: Interval) {
        self.begin_interval(cx, interval, self.primary_since);
    }

    fn begin_interval(&mut self, cx: &mut Context<'_>, interval: Interval, began: Epoch) {
        self.end_interval(cx, interval, began);
        if !self.is_loading() {
            self.enter_interval(cx);
        }
    }

    /// The interval has ended and none begins yet, of which clients see nothing.
    pub(crate) fn end_interval_among_members(&mut self, cx: &mut Context<'_>) {
        self.end_interval(cx, self.interval.clone(), self.primary_since);
    }

    fn end_interval(&mut self, cx: &mut Context<'_>, interval: Interval, began: Epoch) {
        let same_range = osdmap::same_range(self.id.seed, self.interval.shape.pg_num, interval.shape.pg_num);
        let same_target = self.interval.primary == interval.primary && same_range;
        let stays_primary = same_target && self.is_primary(cx.whoami);
        if !same_target {
            self.primary_since = began;
        }
        self.forget_gathers(cx);
        self.drop_parts(cx);
        self.refuse_replica_reads(cx);
        self.replica_reads.forget_share();
        self.interval = interval;
        if !self.is_loading() {
            self.info.pg_num = self.interval.shape.pg_num;
        }
        let replication = std::mem::take(&mut self.replication);
        if stays_primary {
            self.ops.begin_anew(cx, replication.into_ops());
            // Who holds back what is of the whole group goes on with it until the group serves.
            cx.shared.backoffs.release_objects(self.id.base(), cx.map.epoch, |_| true);
        } else {
            cx.outbox.interrupted.extend(replication.sessions());
            self.drop_ops(cx);
        }
        self.pushes = Pushes::default();
        self.pulls = Pulls::default();
        self.scan = None;
        self.healing = Healing::default();
        self.blocked = Blocked::default();
        if !stays_primary {
            self.forced = Forced::default();
        }
        self.sent_back = SentBack::default();
        cx.shared.reservations.forget(self.id);
        cx.shared.rooms.forget(self.id);
        self.unreadable.clear();
        self.rereading = Rereading::default();
        self.members = Members::default();
        self.peering.interval_ended();
        self.scrub.interval_ended();
        self.snap_trim.forget();
    }

    /// The group's interval goes on though the pool has another number of groups.
    pub(crate) fn continue_interval(&mut self, shape: PoolShape) {
        self.interval.shape = shape;
        if !self.is_loading() {
            self.info.pg_num = shape.pg_num;
        }
    }

    /// The group takes its part in its interval; what it has is known.
    pub(crate) fn enter_interval(&mut self, cx: &mut Context<'_>) {
        self.begin_peering(cx);
        self.queue_report(cx);
    }

    /// Operations that are not answered.
    pub(crate) fn unanswered(&self) -> impl Iterator<Item = &ClientOp> {
        let (waiting, queued) = self.ops.unanswered();
        waiting.chain(queued).chain(self.replication.ops())
    }

    /// The same as they are shown.
    pub(crate) fn ops_in_flight(&self) -> impl Iterator<Item = (OpSample, OpState)> {
        let (waiting, queued) = self.ops.unanswered();
        let id = self.id;
        let waiting = waiting.map(move |op| (OpSample::of(id, op), OpState::WaitsForGroup));
        let queued = queued.map(move |op| (OpSample::of(id, op), OpState::Queued));
        let in_flight = self.replication.ops().map(move |op| (OpSample::of(id, op), OpState::WaitsForMembers));
        waiting.chain(queued).chain(in_flight)
    }

    /// What was served up to now, by the log and the counters.
    fn served_so_far(&self) -> (EVersion, PgStats, ReadCounters) {
        (self.log.head(), self.info.stats, self.reads)
    }

    /// Whether reads or updates were served since the last report.
    pub(crate) fn has_served(&self) -> bool {
        self.reported != self.served_so_far()
    }

    /// Has the monitors learn the group's state with the next beacon.
    pub(crate) fn queue_report(&mut self, cx: &mut Context<'_>) {
        if !self.is_primary(cx.whoami) {
            cx.outbox.reports.remove(&self.id);
            return;
        }
        if self.is_loading() {
            // Nothing is known to report; it follows.
            return;
        }
        self.report_sequence += 1;
        self.reported = self.served_so_far();
        let stats = &self.info.stats;
        let (degraded_copies, misplaced_copies) = self.degraded_and_misplaced();
        let report = PgReport {
            pgid: self.id.base(),
            state: self.state_bits(cx.whoami),
            epoch: cx.map.epoch,
            sequence: self.report_sequence,
            last_update: self.log.head(),
            log_start: self.log.tail(),
            interval_since: self.interval.since,
            last_epoch_started: self.info.last_epoch_started,
            created: self.info.created,
            up: self.interval.up.clone(),
            acting: self.interval.acting.clone(),
            objects: stats.objects.max(0) as u64,
            bytes: stats.bytes.max(0) as u64,
            omap_bytes: self.scrub.mark.omap_bytes,
            omap_keys: self.scrub.mark.omap_keys,
            log_entries: self.log.len() as u64,
            degraded_copies,
            misplaced_copies,
            missing_on_primary: self.missing.len() as u64,
            unfound: self.unfound_count(),
            recovered_objects: self.recovered.objects,
            recovered_bytes: self.recovered.bytes,
            read_ops: self.reads.ops,
            read_kib: self.reads.bytes / 1024,
            write_ops: stats.write_ops,
            write_kib: stats.write_kib,
            scrub: self.scrub.report(),
            clones: stats.clones.max(0) as u64,
            trim_queue: self.snap_trim.queued(cx.map.removed_snaps_queue.get(&self.id.pool.base())),
            trimmed_snaps: self.snap_trim.done(),
            blocked_by: self.blocked_by(cx.map),
        };
        cx.outbox.reports.insert(self.id, report);
    }
}

/// The range of keys that all missing objects lie in.
pub(crate) fn missing_key_range() -> (Bytes, Bytes) {
    (Bytes::from_static(&[MISSING_PREFIX]), Bytes::from_static(&[MISSING_PREFIX + 1]))
}

pub(crate) fn missing_key(object: &ObjectId) -> Bytes {
    object_key(MISSING_PREFIX, object)
}

/// The key, in the group's table, of what is noted of an object.
pub(crate) fn object_key(prefix: u8, object: &ObjectId) -> Bytes {
    let mut key = vec![prefix];
    key.extend(object.to_vec(Target::default()));
    key.into()
}
