//! One placement group as one OSD sees it.

use crate::agreement::members::Members;
use crate::agreement::phase::Peering;
use crate::coded::state::Coded;
use crate::context::{Context, OnCommit};
use crate::group::core::Core;
use crate::group::effects::Effect;
use crate::group::info::PgStats;
use crate::group::interval::{Interval, PoolShape};
use crate::group::load_progress::Loading;
use crate::healing::state::Healing;
use crate::hops::{OpSample, OpState};
use crate::intake::operations::ClientOp;
use crate::intake::state::{ReadCounters, Requests};
use crate::scrub::run::Scrub;
use crate::updates::replication::Replication;
use crate::updates::trim_run::SnapTrim;
use crate::watch::Watches;
use osdmap::OsdMap;
use store::{Step, Transaction};
use types::{EVersion, Epoch, OsdId, PgId, Utime};
use wire::basic::IntervalSet;
use wire::nacre::PgTimes;
use wire::nacre::mon::{PgReport, pg_state};

/// One placement group.
pub(crate) struct Pg {
    pub(crate) core: Core,
    /// The table is still being read; all below that comes from it is not there yet.
    pub(crate) loading: Option<Box<Loading>>,
    pub(crate) peering: Peering,
    pub(crate) replication: Replication,
    pub(crate) requests: Requests,
    pub(crate) members: Members,
    pub(crate) healing: Healing,
    pub(crate) scrub: Scrub,
    pub(crate) snap_trim: SnapTrim,
    /// Reads over several shards, in erasure-coded pools.
    pub(crate) coded: Coded,
    /// As primary: watchers of the objects.
    pub(crate) watches: Watches,
    pub(crate) report_sequence: u64,
    /// Result of [`served_so_far`](Pg::served_so_far) when the last report was made.
    pub(crate) reported: (EVersion, PgStats, ReadCounters),
    /// As primary: the state of the last report, and the times of states as reports told them.
    pub(crate) reported_state: u64,
    pub(crate) times: PgTimes,
    /// When the interval began here.
    pub(crate) began_at: Utime,
}

impl Pg {
    /// Makes a group of which this OSD has nothing yet.
    pub(crate) fn absent(id: PgId, interval: Interval) -> Pg {
        Pg {
            coded: Coded::new(interval.shape.protection),
            core: Core::new(id, interval),
            loading: None,
            peering: Peering::default(),
            replication: Replication::default(),
            requests: Requests::default(),
            members: Members::default(),
            healing: Healing::default(),
            scrub: Scrub::default(),
            snap_trim: SnapTrim::default(),
            watches: Watches::default(),
            report_sequence: 0,
            reported: Default::default(),
            reported_state: 0,
            times: PgTimes::default(),
            began_at: Utime::ZERO,
        }
    }

    pub fn id(&self) -> PgId {
        self.core.id
    }

    pub(crate) fn is_active(&self) -> bool {
        self.peering.is_active()
    }

    /// Destroys the group, as its pool is gone.
    pub(crate) fn destroy(&mut self, cx: &mut Context<'_>) {
        cx.shared.reservations.forget(self.core.id);
        cx.shared.rooms.forget(self.core.id);
        self.requests.refuse_replica_reads(cx);
        self.drop_ops(cx);
        self.healer().drop_parts(cx);
        if self.core.stored {
            let steps = vec![Step::PgDestroy { pg_num: self.core.interval.shape.pg_num }];
            cx.submit_or_stop(Transaction { pg: self.core.id, steps }, OnCommit::Nothing);
            self.core.drop_kept_back(cx);
            self.core.stored = false;
        }
    }

    /// Leaves the group: this OSD is no member any more.
    pub(crate) fn leave(&mut self, cx: &mut Context<'_>) {
        cx.outbox.interrupted.extend(self.replication.sessions());
        self.healer().drop_parts(cx);
        self.requests.refuse_replica_reads(cx);
        cx.shared.reservations.forget(self.core.id);
        cx.shared.rooms.forget(self.core.id);
        self.drop_ops(cx);
    }

    /// Drops clients' operations: they have nothing to expect of this OSD any more, and are told so by the map.
    fn drop_ops(&mut self, cx: &mut Context<'_>) {
        self.requests.drop_all(cx);
        let held_back = cx.shared.backoffs.release(self.core.id.base(), cx.map.epoch);
        cx.outbox.interrupted.extend(held_back);
    }

    /// Begins a new interval. Ceph's clients send an operation again only if the group's primary or its range of
    /// objects has changed; where this OSD stays primary, operations that are not answered start anew here, and updates
    /// that did become durable are then found in the log. Otherwise they are forgotten.
    ///
    /// `began` is the epoch in which clients may have seen the interval begin: earlier than its first epoch here if
    /// maps were skipped. To drop what they sent since would be to drop it for ever.
    pub(crate) fn start_interval(&mut self, cx: &mut Context<'_>, interval: Interval, began: Epoch) {
        self.watches.interval_ended();
        self.begin_interval(cx, interval, began);
    }

    /// Begins a new interval with the same sets. Clients do not notice it.
    pub(crate) fn start_interval_among_members(&mut self, cx: &mut Context<'_>, interval: Interval) {
        self.begin_interval(cx, interval, self.core.primary_since);
    }

    fn begin_interval(&mut self, cx: &mut Context<'_>, interval: Interval, began: Epoch) {
        self.end_interval(cx, interval, began);
        if !self.is_loading() {
            self.enter_interval(cx);
        }
    }

    /// Ends the interval before a new one can begin. Clients do not notice it.
    pub(crate) fn end_interval_among_members(&mut self, cx: &mut Context<'_>) {
        self.end_interval(cx, self.core.interval.clone(), self.core.primary_since);
    }

    fn end_interval(&mut self, cx: &mut Context<'_>, interval: Interval, began: Epoch) {
        let same_range = osdmap::same_range(self.core.id.seed, self.core.interval.shape.pg_num, interval.shape.pg_num);
        let same_target = self.core.interval.primary == interval.primary && same_range;
        let stays_primary = same_target && self.core.is_primary(cx.whoami);
        if !same_target {
            self.core.primary_since = began;
        }
        // Before it serves, a primary only assumes that its log will be the members'.
        if self.peering.is_active() {
            self.core.answered_stay(cx, self.replication.durability().committed());
        }
        self.coded.interval_ended(cx);
        self.healer().drop_parts(cx);
        self.requests.refuse_replica_reads(cx);
        self.requests.forget_share();
        if self.core.interval.up != interval.up {
            self.core.up_since = interval.since;
        }
        self.core.interval = interval;
        if !self.is_loading() {
            self.core.info.pg_num = self.core.interval.shape.pg_num;
        }
        let replication = std::mem::take(&mut self.replication);
        if stays_primary {
            self.requests.begin_anew(cx, replication.into_ops());
            // Backoffs of single objects end. Backoffs of the whole group stand until it serves.
            cx.shared.backoffs.release_objects(self.core.id.base(), cx.map.epoch, |_| true);
        } else {
            cx.outbox.interrupted.extend(replication.sessions());
            self.drop_ops(cx);
        }
        self.healing.interval_ended(stays_primary);
        cx.shared.reservations.forget(self.core.id);
        cx.shared.rooms.forget(self.core.id);
        self.members = Members::default();
        self.peering.interval_ended();
        self.scrub.interval_ended();
        self.snap_trim.forget();
    }

    /// Goes on with the interval though the pool has another number of groups.
    pub(crate) fn continue_interval(&mut self, cx: &mut Context<'_>, shape: PoolShape) {
        self.core.interval.shape = shape;
        if !self.is_loading() {
            self.core.info.pg_num = shape.pg_num;
            self.agreement().map_changed(cx);
        }
    }

    /// Takes the group's part in its interval, once what it has is known.
    pub(crate) fn enter_interval(&mut self, cx: &mut Context<'_>) {
        self.began_at = Utime::from_unix(cx.unix_zero + cx.now);
        self.agreement().begin(cx);
        self.queue_report(cx);
    }

    /// Acts on a notice.
    pub(crate) fn act(&mut self, cx: &mut Context<'_>, effect: Effect) {
        match effect {
            Effect::Backfill { osd, from } => self.healer().begin_backfill(osd, from),
            Effect::Bring(object) => drop(self.healer().is_where_needed(cx, &object, true)),
            Effect::PullFormer { object, source } => self.healer().pull_former(cx, source, &object),
            Effect::GoBack(object) => self.go_back(cx, &object),
            Effect::Active => self.becomes_active(cx),
            Effect::MemberSettled(osd) => self.healer().member_settled(cx, osd),
            Effect::UpdatesDone => self.updates_are_done(cx),
            Effect::PeerAnew(why) => self.begin_with_newer_map(cx, why),
            Effect::SessionEnded(osd) => self.session_ended(cx, osd),
            Effect::Replace(bad) => self.healer().replace_bad(cx, bad),
            Effect::ShardIsBad { object, osd, version } => self.healer().shard_is_bad(cx, osd, &object, version),
            Effect::OwnShardIsWrong { object, version, bad } => {
                self.healer().own_shard_is_wrong(cx, object, version, &bad)
            }
            Effect::NoOwnShard(object) => self.healer().pull_failed(cx, cx.whoami, object),
            Effect::OwnPiece(object) => self.take_own_piece(cx, &object),
            Effect::LostHere(object) => self.requests.lost_here(cx, &object),
            Effect::ScrubSettled => self.scrub.settled(&mut self.core, cx, &self.requests.in_flight()),
            Effect::StartOps => self.with_intake(cx, |intake, _| intake.start_waiting_ops()),
            Effect::RunObject(object) => self.with_intake(cx, |intake, _| intake.run_object(object)),
            Effect::RunObjects { from, until } => {
                self.with_intake(cx, |intake, _| intake.run_objects(&from, &until));
            }
            Effect::LookAtWatched(object) => self.with_intake(cx, |intake, cx| intake.look_at_watched(cx, &object)),
            Effect::RemoveWatch { object, cookie, client } => {
                self.with_intake(cx, |intake, cx| intake.remove_watch(cx, &object, (cookie, client)));
            }
            Effect::Record { object, record, .. } => {
                self.with_intake(cx, |intake, cx| intake.record(cx, &object, record));
            }
            Effect::Trim(object) => self.trim_object(cx, object),
            Effect::Recover => self.healer().heal(cx),
            Effect::Rebuild(object) => self.gatherer().rebuild(cx, &object),
            Effect::HurryRebuild(object) => self.gatherer().hurry_rebuild(cx, &object),
            Effect::Send(osd) => self.send_to(cx, osd),
            Effect::Reread => self.reread_on(cx),
            Effect::FormerCame(object) => self.agreement().former_came(cx, &object),
            Effect::MemberServes(osd) => self.scrub.tell_mark(&self.core, cx, osd),
            Effect::MembersChanged => self.follow_members(cx),
            Effect::HoldClientsBack => self.with_intake(cx, |intake, cx| intake.hold_clients_back(cx)),
            Effect::Report => self.report(cx),
        }
    }

    /// Returns the operations that are not answered.
    pub(crate) fn unanswered(&self) -> impl Iterator<Item = &ClientOp> {
        let (waiting, queued) = self.requests.unanswered();
        waiting.chain(queued).chain(self.replication.ops())
    }

    /// Returns the [`unanswered`](Pg::unanswered) operations as they are shown.
    pub(crate) fn ops_in_flight(&self) -> impl Iterator<Item = (OpSample, OpState)> {
        let (waiting, queued) = self.requests.unanswered();
        let id = self.core.id;
        let waiting = waiting.map(move |op| (OpSample::of(id, op), OpState::WaitsForGroup));
        let queued = queued.map(move |op| (OpSample::of(id, op), OpState::Queued));
        let in_flight = self.replication.ops().map(move |op| (OpSample::of(id, op), OpState::WaitsForMembers));
        waiting.chain(queued).chain(in_flight)
    }

    /// Returns the service up to now, by the log and the counters.
    fn served_so_far(&self) -> (EVersion, PgStats, ReadCounters) {
        (self.core.log.head(), self.core.info.stats, self.requests.reads())
    }

    /// Returns true if reads or updates were served since the last report.
    pub(crate) fn has_served(&self) -> bool {
        self.reported != self.served_so_far()
    }

    /// Tells whether copies can be compared now: all members have everything.
    pub(crate) fn may_scrub(&self, cx: &Context<'_>) -> bool {
        self.core.is_primary(cx.whoami)
            && !self.is_loading()
            && self.is_active()
            && self.state_bits(cx.whoami) & pg_state::CLEAN != 0
    }

    /// Notes that the monitors are to learn the group's state with the next beacon, once this input is handled.
    pub(crate) fn queue_report(&self, cx: &mut Context<'_>) {
        cx.cause(self.core.id, Effect::Report);
    }

    /// Makes the report that goes with the next beacon.
    pub(super) fn report(&mut self, cx: &mut Context<'_>) {
        if !self.core.is_primary(cx.whoami) {
            cx.outbox.reports.remove(&self.core.id);
            (self.reported_state, self.times) = (0, PgTimes::default());
            return;
        }
        if self.is_loading() {
            // A group that is loading knows nothing to report; the report follows.
            return;
        }
        self.report_sequence += 1;
        self.reported = self.served_so_far();
        let report = self.status(cx.whoami, cx.map);
        let now = Utime::from_unix(cx.unix_zero + cx.now);
        self.times.reported(self.reported_state, report.state, report.epoch, now);
        self.reported_state = report.state;
        cx.outbox.reports.insert(self.core.id, report);
    }

    /// Returns what the primary would report now.
    pub(super) fn status(&self, whoami: OsdId, map: &OsdMap) -> PgReport {
        let stats = &self.core.info.stats;
        let (degraded_copies, misplaced_copies) = self.whereabouts().degraded_and_misplaced();
        PgReport {
            pgid: self.core.id.base(),
            state: self.state_bits(whoami),
            epoch: map.epoch,
            sequence: self.report_sequence,
            last_update: self.core.log.head(),
            log_start: self.core.log.tail(),
            interval_since: self.core.interval.since,
            last_epoch_started: self.core.info.last_epoch_started,
            created: self.core.info.created,
            up: self.core.interval.up.clone(),
            acting: self.core.interval.acting.clone(),
            objects: stats.objects.max(0) as u64,
            bytes: stats.bytes.max(0) as u64,
            omap_bytes: self.scrub.mark().omap_bytes,
            omap_keys: self.scrub.mark().omap_keys,
            log_entries: self.core.log.len() as u64,
            degraded_copies,
            misplaced_copies,
            missing_on_primary: self.core.missing.len() as u64,
            unfound: self.whereabouts().unfound_count(),
            recovered_objects: self.healing.recovered().objects,
            recovered_bytes: self.healing.recovered().bytes,
            read_ops: self.requests.reads().ops,
            read_kib: self.requests.reads().bytes / 1024,
            write_ops: stats.write_ops,
            write_kib: stats.write_kib,
            scrub: self.scrub.report(),
            clones: stats.clones.max(0) as u64,
            trim_queue: self.snaps_to_trim(map).size(),
            trimmed_snaps: self.snap_trim.done(),
            blocked_by: self.progress().blocked_by(map),
            complete: Some(self.progress().complete(whoami)),
        }
    }

    /// Returns the removed snapshots that the group is not done with.
    pub(super) fn snaps_to_trim(&self, map: &OsdMap) -> IntervalSet {
        self.snap_trim.queued(map.removed_snaps_queue.get(&self.core.id.pool.base()))
    }
}
