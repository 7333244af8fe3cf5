//! Objects whose newest version nobody who is there has; and what operators see of a group, and may decide.

use crate::client_ops::ClientOp;
use crate::context::Context;
use crate::hops::OpTimes;
use crate::members::Standing;
use crate::ops::Effects;
use crate::pg::Pg;
use bytes::Bytes;
use std::collections::BTreeSet;
use store::{Lookup, Step};
use types::{EVersion, Epoch, ObjectId, OsdId, PgId, ReqId};
use wire::basic::{Locator, NO_SHARD, SPgId};
use wire::messages::{Op, OsdOp};
use wire::msgr::SessionId;

/// Nobody waits for the answer.
pub(crate) const NO_SESSION: SessionId = SessionId(u64::MAX);

/// What a primary tells operators of its group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgView {
    pub pgid: PgId,
    /// Bits of [`wire::nacre::mon::pg_state`].
    pub state: u64,
    pub epoch: Epoch,
    pub interval_since: Epoch,
    pub up: Vec<OsdId>,
    pub acting: Vec<OsdId>,
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
}

/// What the primary knows of another member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberView {
    pub osd: OsdId,
    /// It has the whole log, and no client is answered without it.
    pub serves: bool,
    pub missing: u64,
    /// While it is backfilled: objects before this one have been compared.
    pub backfill: Option<ObjectId>,
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
    pub(crate) fn view(&self, whoami: OsdId, epoch: Epoch) -> PgView {
        let (degraded, misplaced) = self.degraded_and_misplaced();
        let members = self.members.iter().map(|(osd, standing)| {
            let backfill = self.pushes.get(&osd).and_then(|queue| queue.backfill.as_ref());
            MemberView {
                osd,
                serves: standing == Standing::Serving,
                missing: self.members.missing(osd).count() as u64,
                backfill: backfill.map(|backfill| backfill.compared.clone()),
            }
        });
        PgView {
            pgid: self.id,
            state: self.state_bits(whoami),
            epoch,
            interval_since: self.interval.since,
            up: self.interval.up.clone(),
            acting: self.interval.acting.clone(),
            last_update: self.log.head(),
            log_tail: self.log.tail(),
            last_epoch_started: self.info.last_epoch_started,
            objects: self.info.stats.objects.max(0) as u64,
            bytes: self.info.stats.bytes.max(0) as u64,
            missing: self.missing.len() as u64,
            degraded,
            misplaced,
            unfound: self.unfound().map(|(object, version)| (object.clone(), version)).collect(),
            members: members.collect(),
        }
    }

    /// On the operator's word: the objects that nobody has are removed, as an update like any other. Gives how many.
    pub(crate) fn give_up_unfound(&mut self, cx: &mut Context<'_>) -> Result<usize, GiveUpError> {
        if !self.is_active() {
            return Err(GiveUpError::NotActive);
        }
        let unfound: BTreeSet<ObjectId> = self.unfound().map(|(object, _)| object.clone()).collect();
        if unfound.is_empty() {
            return Err(GiveUpError::NothingUnfound);
        }
        for object in &unfound {
            self.give_up(cx, object);
        }
        self.members_changed(cx);
        self.recover(cx);
        Ok(unfound.len())
    }

    fn give_up(&mut self, cx: &mut Context<'_>, object: &ObjectId) {
        let prior_version = self.missing.get(object).copied().unwrap_or_default();
        tracing::warn!(pg = %self.id, %object, version = %prior_version, "is given up: nobody has it");
        // What is left of it may be gone to say how large it was.
        let bytes = match cx.store.stat(object) {
            Lookup::Ready(Some(stat)) => stat.size_bytes as i64,
            _ => 0,
        };
        let members: Vec<OsdId> = self.members.iter().map(|(osd, _)| osd).collect();
        for osd in members {
            self.members.has_now(osd, object);
            if let Some(queue) = self.pushes.get_mut(&osd) {
                queue.take(object);
            }
        }
        self.pulls.forget(object);
        let pgid = SPgId { pg: self.id, shard: NO_SHARD };
        let locator = Locator::pool(self.id.pool);
        let name = Bytes::copy_from_slice(&object.name);
        let request = OsdOp::new(pgid, object.hash, cx.epoch, locator, name, vec![Op::delete()]);
        let times = OpTimes::new(cx.now, cx.now);
        let mut op = ClientOp::new(NO_SESSION, 0, ReqId::default(), request, times);
        op.object = object.clone();
        self.ops.count_update(cx, &op);
        let effects = Effects {
            steps: vec![Step::Remove { object: object.clone() }],
            deleted: true,
            is_removal: true,
            prior_version,
            objects_delta: -1,
            bytes_delta: -bytes,
            ..Effects::default()
        };
        self.submit_update(cx, op, effects, 0);
    }
}
