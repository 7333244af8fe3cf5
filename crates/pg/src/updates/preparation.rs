//! Executed updates are made ready: all that is stored and sent of them is computed before anything changes.

use crate::coded::change::ShardWrites;
use crate::coded::skipped::Skipped;
use crate::coded::state::Coded;
use crate::coded::undo::Undo;
use crate::context::Context;
use crate::group::core::Core;
use crate::group::info::PgInfo;
use crate::group::log::{LogEntry, LogKind};
use crate::intake::operations::ClientOp;
use crate::intake::replies::fill_results;
use crate::ops::{Effects, OpResult, OtherChange, WatchEffect, after};
use bytes::Bytes;
use store::Step;
use types::{EVersion, ObjectId};
use wire::messages::{OpFlags, OsdOpReply};

/// An executed update that is ready to be submitted.
pub(crate) struct PreparedUpdate {
    /// The log entries as this OSD keeps them. Those of other states of the object come first, the update's own last.
    pub(super) entries: Vec<LogEntry>,
    pub(super) own_steps: Vec<Step>,
    /// Steps of members; in an erasure-coded pool without the shards' writes.
    pub(super) steps: Vec<Step>,
    /// Present in erasure-coded pools, if bytes or attributes of the object change.
    pub(super) shards: Option<PreparedShards>,
    /// The group's information after the update, as members are told it.
    pub(super) info: PgInfo,
    /// States of the object that come or go with it.
    pub(super) others: Vec<OtherChange>,
    /// Objects on which it builds, and which must be whole where it is carried out.
    pub(super) sources: Vec<ObjectId>,
    /// Change in the number of objects, those of `others` included, and of bytes.
    pub(super) objects_delta: i64,
    pub(super) bytes_delta: i64,
    /// True if it takes no room to speak of.
    pub(super) is_removal: bool,
    pub(super) reply: OsdOpReply,
    /// Effects on watches when it is durable.
    pub(super) watch: Vec<WatchEffect>,
}

/// The part of an update that differs from shard to shard.
pub(super) struct PreparedShards {
    writes: ShardWrites,
    /// The update's own entry, as shards keep it that are written.
    entry: LogEntry,
}

impl PreparedShards {
    /// Returns the steps and the own entry of one shard. `steps` are those of all.
    pub fn of(&self, steps: &[Step], shard: Option<u8>) -> (Vec<Step>, LogEntry) {
        (self.writes.of(steps, shard), self.writes.entry(&self.entry, shard))
    }
}

impl PreparedUpdate {
    /// Prepares what `op` has come to. One that failed or has nothing to do becomes an update all the same, so that its
    /// answer comes after those it depends on and is the same if the client asks again.
    pub fn of(cx: &Context<'_>, core: &Core, coded: &Coded, op: &ClientOp, effects: Effects) -> PreparedUpdate {
        let mut effects = if effects.result < 0 { without_changes(effects) } else { effects };
        let op_results = take_results(cx, op, &mut effects);
        let first = core.log.next_version(cx.map.epoch);
        let undo = |other: &OtherChange| core.protection().undo(|| other.undo());
        let others = effects.others.iter().enumerate();
        let mut entries: Vec<LogEntry> =
            others.map(|(at, other)| other_entry(other, after(first, at), undo(other))).collect();
        let version = after(first, entries.len());
        let kind = match (effects.steps.is_empty(), effects.deleted) {
            (true, _) => LogKind::Unchanged,
            (false, true) => LogKind::Delete,
            (false, false) => LogKind::Modify,
        };
        let undo = match &mut effects.change {
            Some(change) => std::mem::take(&mut change.undo),
            // Given up, or nothing has changed.
            None if kind == LogKind::Unchanged => Undo::Nothing,
            None => core.protection().undo(|| Undo::Lost),
        };
        let own = LogEntry {
            prior_version: effects.prior_version,
            reqid: op.reqid,
            user_version: effects.user_version,
            mtime: op.op.mtime,
            result: effects.result,
            op_results,
            undo,
            ..LogEntry::new(version, kind, op.object.clone())
        };
        let mut steps = std::mem::take(&mut effects.steps);
        let writes = effects.change.take().map(|change| coded.code().shard_steps(&op.object, &change, &mut steps));
        let (own, own_steps, shards) = match writes {
            None => (own, steps.clone(), None),
            Some(writes) => {
                // Where the log is cut the group takes the counts of a member that was told less. These are right if no
                // update between has changed any.
                let keeps_counts = effects.bytes_delta == 0 && effects.objects_delta == 0;
                let skipped = match entries.is_empty() && keeps_counts && cx.may_skip_shards {
                    true => writes.skipped(&steps),
                    false => Skipped::default(),
                };
                let shards = PreparedShards { writes, entry: LogEntry { skipped, ..own } };
                let (own_steps, own) = shards.of(&steps, core.interval.shard_of(cx.whoami));
                (own, own_steps, Some(shards))
            }
        };
        entries.push(own);
        let info = info_after(core, op, &effects, version);
        let Effects {
            result, ops, others, sources, user_version, objects_delta, bytes_delta, is_removal, watch, ..
        } = effects;
        let mut reply = OsdOpReply::to(&op.op, result, cx.map.epoch);
        reply.set_versions(version, user_version);
        fill_results(&mut reply, ops);
        PreparedUpdate {
            entries,
            own_steps,
            steps,
            shards,
            info,
            others,
            sources,
            objects_delta,
            bytes_delta,
            is_removal,
            reply,
            watch,
        }
    }

    /// Returns the memory that its shards take beside that of the operation, if it is much.
    pub fn new_bytes(&self) -> usize {
        self.shards.as_ref().map_or(0, |shards| shards.writes.new_bytes)
    }
}

/// Returns the effects of an operation that failed: nothing of what came before the error is done.
fn without_changes(failed: Effects) -> Effects {
    let Effects { result, ops, sources, user_version, prior_version, is_removal, .. } = failed;
    Effects { result, ops, sources, user_version, prior_version, is_removal, ..Effects::default() }
}

/// Returns the results that the log keeps, and has `effects` keep what the client gets.
fn take_results(cx: &Context<'_>, op: &ClientOp, effects: &mut Effects) -> Vec<(i32, Bytes)> {
    let (failed, return_vec) = (effects.result < 0, op.op.flags.has(OpFlags::RETURNVEC));
    if !failed && !return_vec {
        // A client that has not set the flag gets no outputs of a write, and 0 for any success, but the result of each
        // step. Operations that changed nothing are answered like reads.
        if effects.modified {
            effects.result = 0;
            effects.ops.iter_mut().for_each(|op| op.outdata = Default::default());
        }
        return Vec::new();
    }
    // As in Ceph, only short outputs are kept, and only for clients that ask for outputs of updates: the outputs stay
    // in the log.
    let is_kept = |op: &OpResult| return_vec && op.outdata.len() <= cx.limits.write_reply_bytes;
    let kept = |op: &OpResult| if is_kept(op) { op.outdata.to_vec().into() } else { Bytes::new() };
    effects.ops.iter().map(|op| (op.rval, kept(op))).collect()
}

/// Returns the log entry of a state of an object that comes or goes with an update. Only the update's own entry tells
/// whose request it was.
fn other_entry(other: &OtherChange, version: EVersion, undo: Undo) -> LogEntry {
    LogEntry {
        prior_version: other.prior_version,
        user_version: other.user_version,
        undo,
        ..LogEntry::new(version, other.kind, other.object.clone())
    }
}

fn info_after(core: &Core, op: &ClientOp, effects: &Effects, version: EVersion) -> PgInfo {
    let mut info = core.info.clone();
    info.last_update = version;
    if effects.result < 0 {
        return info;
    }
    info.last_user_version = info.last_user_version.max(effects.user_version);
    let stats = &mut info.stats;
    stats.objects += effects.objects_delta;
    let own = if op.object.is_clone() { effects.objects_delta } else { 0 };
    let clones = effects.others.iter().filter(|other| other.object.is_clone());
    stats.clones += own + clones.map(OtherChange::objects_delta).sum::<i64>();
    stats.bytes += effects.bytes_delta;
    stats.write_ops += u64::from(!op.is_upkeep());
    stats.write_kib += effects.bytes_written / 1024;
    info
}
