//! Operators' view of a group, and their decisions about it; and others' copies of it, which may go.

use crate::agreement::members::Standing;
use crate::agreement::phase::PeeringStep;
use crate::context::Context;
use crate::group::info::PgInfo;
use crate::group::pg::Pg;
use mutant::Mutant;
use osdmap::OsdMap;
use std::collections::BTreeMap;
use types::{EVersion, Epoch, ObjectId, OsdId, PgId, Utime};
use wire::basic::IntervalSet;
use wire::nacre::PgTimes;
use wire::nacre::mon::{PgReport, pg_state};

/// State of a group, as its primary tells it to operators.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgView {
    pub pgid: PgId,
    /// Bits of [`wire::nacre::mon::pg_state`].
    pub state: u64,
    pub epoch: Epoch,
    pub interval_since: Epoch,
    pub up: Vec<OsdId>,
    /// The acting set as clients see it: not longer than the pool's size.
    pub acting: Vec<OsdId>,
    /// The members that the group keeps beside these while it moves.
    pub further: Vec<OsdId>,
    pub last_update: EVersion,
    pub log_tail: EVersion,
    pub last_epoch_started: Epoch,
    pub objects: u64,
    pub bytes: u64,
    pub missing: u64,
    pub degraded: u64,
    pub misplaced: u64,
    pub unfound: Vec<(ObjectId, EVersion)>,
    pub members: Vec<MemberView>,
    /// OSDs that are down and without which the group cannot serve.
    pub blocked_by: Vec<OsdId>,
    /// The report that the monitors would get now, and the times of states as they were told.
    pub report: PgReport,
    pub times: PgTimes,
    /// When the interval began here, by the wall clock.
    pub began_at: Utime,
    /// This OSD's own shard in an erasure-coded pool.
    pub shard: Option<u8>,
    /// Updates up to here are in the log, and all their objects here.
    pub last_complete: EVersion,
    pub last_user_version: u64,
    pub primary_since: Epoch,
    pub up_since: Epoch,
    pub step: PeeringStep,
    /// Members whose answers that step waits for.
    pub waits_for: Vec<OsdId>,
    /// Objects on their way to this OSD, and from where.
    pub pulls: Vec<(ObjectId, OsdId)>,
    pub snaps_to_trim: IntervalSet,
    /// OSDs that served before and may have what members lack; each with whether it is up.
    pub past: Vec<(OsdId, bool)>,
}

/// The primary's knowledge of another member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberView {
    pub osd: OsdId,
    /// True if the member has the whole log, and no client is answered without it.
    pub serves: bool,
    pub missing: u64,
    /// Set while the member is backfilled: objects before this one have been compared.
    pub backfill: Option<ObjectId>,
    /// Its shard in an erasure-coded pool.
    pub shard: Option<u8>,
    /// Its state when the interval began. `None`: it had nothing, or has not told.
    pub had: Option<PgInfo>,
    /// Objects on their way to it.
    pub pushes: Vec<ObjectId>,
}

/// Why nothing is given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GiveUpError {
    #[error("this OSD is not the primary of the group")]
    NotPrimary,
    #[error("the group does not serve, so nothing can be given up")]
    NotActive,
    #[error("the group has no unfound objects")]
    NothingUnfound,
}

impl Pg {
    pub(crate) fn view(&self, whoami: OsdId, map: &OsdMap) -> PgView {
        let whereabouts = self.whereabouts();
        let (degraded, misplaced) = whereabouts.degraded_and_misplaced();
        let interval = &self.core.interval;
        let members = self.members.iter().map(|(osd, standing)| MemberView {
            osd,
            serves: standing == Standing::Serving,
            missing: self.members.missing(osd).count() as u64,
            backfill: whereabouts.backfilled_to(osd).cloned(),
            shard: interval.shard_of(osd),
            had: self.peering.told(osd).and_then(|told| told.info.clone()),
            pushes: whereabouts.on_the_way_to(osd).cloned().collect(),
        });
        let past = self.peering.history().map(|history| history.past.clone()).unwrap_or_default();
        let (step, waits_for) = self.peering.step();
        let (shown, further) = self.core.interval.acting.split_at(self.core.interval.shown);
        PgView {
            pgid: self.core.id,
            state: self.state_bits(whoami),
            epoch: map.epoch,
            interval_since: self.core.interval.since,
            up: self.core.interval.up.clone(),
            acting: shown.to_vec(),
            further: further.to_vec(),
            last_update: self.core.log.head(),
            log_tail: self.core.log.tail(),
            last_epoch_started: self.core.info.last_epoch_started,
            objects: self.core.info.stats.objects.max(0) as u64,
            bytes: self.core.info.stats.bytes.max(0) as u64,
            missing: self.core.missing.len() as u64,
            degraded,
            misplaced,
            unfound: whereabouts.unfound().map(|(object, version)| (object.clone(), version)).collect(),
            members: members.collect(),
            blocked_by: self.progress().blocked_by(map),
            report: self.status(whoami, map),
            times: self.times,
            began_at: self.began_at,
            shard: interval.shard_of(whoami),
            last_complete: self.core.last_complete(),
            last_user_version: self.core.info.last_user_version,
            primary_since: self.core.primary_since,
            up_since: self.core.up_since,
            step,
            waits_for,
            pulls: whereabouts.on_the_way_here().map(|(object, from)| (object.clone(), from)).collect(),
            snaps_to_trim: self.snaps_to_trim(map),
            past: past.into_iter().map(|osd| (osd, map.is_up(osd))).collect(),
        }
    }

    /// Gives up what nobody has, on the operator's word, by updates like any others. Returns how many objects and
    /// states of objects that is. They go once what else there is of their objects is here.
    pub(crate) fn give_up_unfound(&mut self, cx: &mut Context<'_>) -> Result<usize, GiveUpError> {
        if !self.peering.is_active() {
            return Err(GiveUpError::NotActive);
        }
        let mut objects: BTreeMap<ObjectId, BTreeMap<ObjectId, EVersion>> = BTreeMap::new();
        for (state, version) in self.whereabouts().unfound() {
            objects.entry(state.head_of()).or_default().insert(state.clone(), version);
        }
        if objects.is_empty() {
            return Err(GiveUpError::NothingUnfound);
        }
        let count = objects.values().map(BTreeMap::len).sum();
        for (object, lost) in objects {
            self.with_intake(cx, |intake, cx| intake.queue_give_up(cx, object, lost));
        }
        Ok(count)
    }

    /// Returns true if nobody needs the copy that another OSD has.
    pub(crate) fn needs_no_copy_of(&self, whoami: OsdId, osd: OsdId, shard: Option<u8>) -> bool {
        let is_clean = self.core.is_primary(whoami) && self.state_bits(whoami) & pg_state::CLEAN != 0;
        let nobody_served_before = self.peering.history().is_some_and(|history| history.past.is_empty());
        let is_member = match shard {
            Some(_) => self.core.interval.shard_of(osd) == shard,
            None => self.core.interval.acting.contains(&osd) || self.core.interval.up.contains(&osd),
        };
        let is_over = is_clean && nobody_served_before || self.is_active() && mutant::is(Mutant::StrayRemoved);
        is_over && !is_member && !self.progress().is_in_doubt()
    }
}
