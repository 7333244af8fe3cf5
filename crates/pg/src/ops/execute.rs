//! The run over an operation's steps.

use super::attrs::AttrSizes;
use super::budget::Budget;
use super::watch::WatchEffect;
use super::{Answers, snapshots};
use crate::coded::change::{CodedChange, OmapBefore, take_data};
use crate::coded::rewrite::{Rewrite, zeros};
use crate::coded::undo::Undo;
use crate::copy::CopySource;
use crate::group::log::LogKind;
use crate::group::lookup::NoAnswer;
use crate::group::object_info::{OBJECT_INFO_ATTR, ObjectInfo};
use crate::group::snap_set::{AtSnap, SnapSet};
use crate::scrub::record::RECORD_AFTER;
use crate::watch::WatchInfo;
use bytes::Bytes;
use cls::Caller;
use ec::StripeLayout;
use mutant::Mutant;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use store::{LookupId, ObjectStat, Step, Store};
use types::{EVersion, EntityName, Errno, ObjectId, ReqId, SnapId, Utime};
use wire::basic::{IntervalSet, SnapContext};
use wire::messages::{Op, OpCode, op_flag};
use wire::{DecodeError, Rope, Target, Writer};

/// Bytes that one operation may bring, that its steps together may write, and that they may read and give, of copies,
/// too. Ceph's default of `osd_max_write_size`.
pub(crate) const OP_BYTES_MAX: usize = 90 << 20;
const _: () = assert!(
    OP_BYTES_MAX <= wire::msgr::limits::DATA_BYTES,
    "the data of one operation, and of its answer, comes in one message"
);

/// Output bytes of one step that are kept for when its client asks again. Ceph's default of
/// `osd_max_write_op_reply_len`.
pub(crate) const WRITE_REPLY_BYTES_MAX: usize = 64;

/// Steps that one operation may have. Ceph's clients send less than a hundred.
pub(crate) const STEPS_MAX: usize = 1024;

/// Bounds on what one operation may do, and on what is kept of past ones.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Larger than Ceph's default of 128 MiB, so that `rados put` takes whole files.
    pub object_bytes: u64,
    pub attr_name_bytes: usize,
    /// Entries that one omap listing returns at most.
    pub omap_entries: u64,
    /// Output bytes of one step that a write may return when the client asks for them, and of those that are kept for
    /// when it asks again. Ceph's `osd_max_write_op_reply_len`.
    pub write_reply_bytes: usize,
    /// Entries that a group's log keeps at least.
    pub log_entries_min: usize,
    /// Updates before its log's tail of which a group remembers the requests at most.
    pub dups_max: usize,
    /// Memory that the requests remembered in all groups may take, in bytes.
    pub dups_bytes: usize,
    /// Values of clients' attributes of one object, together: they are in memory together.
    pub attrs_bytes: usize,
    /// Bytes that one operation may bring, bytes that it may read and give, and bytes that it may write; each of them
    /// for all its steps together.
    pub op_bytes: usize,
    /// Memory that clients' operations may hold at once. One is always taken, however large.
    pub client_bytes: usize,
    /// Memory that notifications and the answers to them may hold beside `client_bytes`.
    pub notify_bytes: usize,
    /// Objects that are compared at a time when a member is backfilled.
    pub backfill_objects: usize,
    /// Bytes of an object, and of its omap, that one message brings to a member that lacks it.
    pub piece_bytes: u64,
    /// Longer messages to other OSDs go in parts, if a session would take them at once.
    pub message_bytes: usize,
    /// An object that is not changed for so long gets its digests recorded by a deep scrub.
    pub record_after: Duration,
    /// Work of one turn on the placements of a map that has come, in units of [`osdmap::MappingUpdate::step`].
    pub placing_work: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            object_bytes: 4 << 30,
            attr_name_bytes: 100,
            omap_entries: 1024,
            write_reply_bytes: WRITE_REPLY_BYTES_MAX,
            log_entries_min: crate::group::log::LOG_ENTRIES_MIN,
            dups_max: crate::group::dups::DUPS_MAX,
            dups_bytes: 32 << 20,
            attrs_bytes: 8 << 20,
            op_bytes: OP_BYTES_MAX,
            client_bytes: 64 << 20,
            notify_bytes: 4 << 20,
            backfill_objects: 256,
            piece_bytes: 1 << 20,
            message_bytes: usize::MAX,
            record_after: RECORD_AFTER,
            placing_work: osdmap::MappingUpdate::TEN_MS,
        }
    }
}

/// The question to one object.
#[derive(Debug)]
pub struct Request<'a> {
    pub object: &'a ObjectId,
    pub ops: &'a [Op],
    pub reqid: ReqId,
    /// The asker, as class methods see him.
    pub caller: Caller,
    /// The time of day of this OSD.
    pub now: Utime,
    /// The client's clock.
    pub mtime: Utime,
    pub may_write: bool,
    /// The client wants results and outputs of a write's steps.
    pub return_vec: bool,
    /// The version that the update will get, if the operation changes anything.
    pub next_version: EVersion,
    /// Highest client-visible version in the group so far.
    pub last_user_version: u64,
    /// In erasure-coded pools: how the object's bytes lie on its shards.
    pub layout: Option<StripeLayout>,
    /// Parts of objects may be changed. Replicated pools always allow it.
    pub may_overwrite: bool,
    /// Cookies of the watches of this object that the client holds over the session that asks.
    pub connected: &'a [u64],
    /// Id of the next notification.
    pub notify_id: u64,
    /// State that is read: the present one, a snapshot, or the list of snapshots.
    pub snap: SnapId,
    /// Snapshots whose states an update must preserve.
    pub snaps: &'a SnapContext,
    /// An update whose snapshots are older than those that the object knows is refused.
    pub order_snaps: bool,
    /// Snapshots of the pool that are removed.
    pub removed_snaps: Option<&'a IntervalSet>,
    /// States of the object at snapshots that are where they are needed, see [`Run::Wants`].
    pub at_hand: &'a [ObjectId],
}

/// Outcome of one step.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OpResult {
    pub rval: i32,
    pub outdata: Rope,
}

/// A state of the object that comes or goes with an update.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OtherChange {
    pub object: ObjectId,
    pub kind: LogKind,
    /// Version of the state before; zero if it was absent.
    pub prior_version: EVersion,
    pub user_version: u64,
    /// True if nobody has what the state was.
    pub is_lost: bool,
}

impl OtherChange {
    /// Returns how a shard takes the change back.
    pub fn undo(&self) -> Undo {
        match self.kind {
            _ if self.is_lost => Undo::Lost,
            LogKind::Modify => Undo::Created,
            LogKind::Delete => Undo::KeptBack,
            LogKind::Unchanged => Undo::Nothing,
        }
    }

    pub fn objects_delta(&self) -> i64 {
        match self.kind {
            LogKind::Modify => 1,
            LogKind::Delete => -1,
            LogKind::Unchanged => 0,
        }
    }
}

/// Outcome of a whole operation.
#[derive(Debug, Default)]
pub struct Effects {
    /// 0 or positive: what the last step gave; negative: the error, and then nothing changes.
    pub result: i32,
    /// Results of the request's steps, one for each; steps behind an error have none.
    pub ops: Vec<OpResult>,
    /// Steps for the store; none if nothing changes.
    pub steps: Vec<Step>,
    /// A step wrote, though it may be what was there before: the object gets a version, as in Ceph.
    pub modified: bool,
    /// The object is absent afterwards.
    pub deleted: bool,
    /// True if nothing new is stored: the object is removed, or what snapshots have preserved.
    pub is_removal: bool,
    /// States of the object that come or go with this, each with a version of its own: they follow each other, and the
    /// object's own comes behind them.
    pub others: Vec<OtherChange>,
    /// States of the object that are copied, which whoever does this must have.
    pub sources: Vec<ObjectId>,
    /// Client-visible version of the object afterwards (before, if nothing changes); 0 if absent.
    pub user_version: u64,
    /// Version of the object before; zero if absent.
    pub prior_version: EVersion,
    /// Change in the number of objects, those of snapshots included, and of their bytes.
    pub objects_delta: i64,
    pub bytes_delta: i64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Memory that the steps take, in bytes.
    pub steps_bytes: usize,
    /// In erasure-coded pools, what differs from shard to shard; `steps` are then the rest.
    pub change: Option<Box<CodedChange>>,
    /// Changes of watches and notifications to make once the operation is done, in the order of the steps.
    pub watch: Vec<WatchEffect>,
    /// Watchers of the object before the operation.
    pub watchers: Watchers,
}

/// Watchers of an object, by cookie and client.
pub type Watchers = BTreeMap<(u64, EntityName), WatchInfo>;

/// Outcome of a run.
#[derive(Debug)]
pub enum Run {
    Done(Effects),
    /// Run again when this lookup is done.
    Blocked(LookupId),
    /// Run again when these bytes of the object or of a state of it, in this version, have been gathered from its
    /// shards.
    Gather {
        object: ObjectId,
        version: EVersion,
        offset: u64,
        len: u64,
    },
    /// Run again when this object has been fetched.
    Copy(Box<CopySource>),
    /// Run again when this state of the object is where it is needed.
    Wants(ObjectId),
}

/// Why a step gives no output.
pub(super) enum OpStop {
    Blocked(LookupId),
    Gather(Box<BytesOfShards>),
    Copy(Box<CopySource>),
    Wants(ObjectId),
    Failed(Errno),
    /// A failure whose number is no errno.
    Result(i32),
}

/// Bytes of a version of an object, or of a state of it, that are to be gathered from its shards.
pub(super) struct BytesOfShards {
    pub object: ObjectId,
    pub version: EVersion,
    pub offset: u64,
    pub len: u64,
}

impl From<BytesOfShards> for Run {
    fn from(BytesOfShards { object, version, offset, len }: BytesOfShards) -> Run {
        Run::Gather { object, version, offset, len }
    }
}

impl From<Errno> for OpStop {
    fn from(errno: Errno) -> OpStop {
        OpStop::Failed(errno)
    }
}

/// Malformed input of a step.
impl From<DecodeError> for OpStop {
    fn from(_: DecodeError) -> OpStop {
        OpStop::Failed(Errno::EINVAL)
    }
}

/// A lookup without an answer leaves the step as blocked, or ends it with what a client is told about damage.
impl From<NoAnswer> for OpStop {
    fn from(why: NoAnswer) -> OpStop {
        match why {
            NoAnswer::Pending(id) => OpStop::Blocked(id),
            NoAnswer::Damaged(damage) => {
                tracing::error!("metadata of an object cannot be read: {damage}");
                OpStop::Failed(Errno::EIO)
            }
        }
    }
}

/// Value and output of a step that succeeds.
pub(super) type StepOutput = Result<(i32, Rope), OpStop>;

pub(super) fn done() -> StepOutput {
    Ok((0, Rope::new()))
}

pub(super) fn output(encode: impl FnOnce(&mut Writer)) -> StepOutput {
    let mut w = Writer::new(Target::default());
    encode(&mut w);
    Ok((0, w.into_vec().into()))
}

/// The state of one run: the object as it was, and as the steps so far have made it.
pub(super) struct Execution<'a> {
    pub store: &'a mut Store,
    pub answers: &'a mut Answers,
    pub limits: &'a Limits,
    pub request: &'a Request<'a>,
    /// The object before the operation; in erasure-coded pools the shard of it that is here.
    pub before: Option<Arc<ObjectStat>>,
    /// The object as the store had it, also if it was there in name only.
    pub stored_before: Option<Arc<ObjectStat>>,
    pub size_before: u64,
    pub info_before: Arc<ObjectInfo>,
    /// Copied when it is first changed: reads change nothing.
    pub info: Arc<ObjectInfo>,
    /// Ranges that have changed, as far as snapshots go.
    pub changed: IntervalSet,
    /// States at snapshots that take the place of what the object was before the operation.
    pub sources: Vec<ObjectId>,
    /// In erasure-coded pools: the last one of these.
    pub gone_back_to: Option<FormerState>,
    pub exists: bool,
    pub size: u64,
    /// Steps for the store. The ones before `first_step` are void: a later one has replaced all that they did.
    steps: Vec<Step>,
    first_step: usize,
    budget: Budget,
    pub attr_sizes: AttrSizes,
    /// Set by a change that clients can see (hints are not).
    pub user_modified: bool,
    pub modified: bool,
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Value that the last step gave; 0 if it failed and the operation goes on in spite of that.
    pub given: i32,
    /// Random numbers given out so far.
    pub randoms: u64,
    pub watch: Vec<WatchEffect>,
    /// The version and time of what the object has become a copy of.
    pub copied: Option<(u64, Utime)>,
}

/// The object at a snapshot.
pub(super) struct FormerState {
    pub object: ObjectId,
    pub version: EVersion,
    pub size_bytes: u64,
}

/// State of a run to which it is taken back when a step fails.
pub(super) struct Mark {
    steps: usize,
    first_step: usize,
    budget: Budget,
    info: Arc<ObjectInfo>,
    exists: bool,
    size: u64,
    user_modified: bool,
    modified: bool,
    watch_effects: usize,
    changed: IntervalSet,
}

impl Execution<'_> {
    pub fn progress(&self) -> Mark {
        Mark {
            steps: self.steps.len(),
            first_step: self.first_step,
            budget: self.budget,
            info: self.info.clone(),
            exists: self.exists,
            size: self.size,
            user_modified: self.user_modified,
            modified: self.modified,
            watch_effects: self.watch.len(),
            changed: self.changed.clone(),
        }
    }

    pub fn go_back(&mut self, mark: Mark) {
        let Mark { steps, first_step, budget, info, exists, size, user_modified, modified, watch_effects, changed } =
            mark;
        self.watch.truncate(watch_effects);
        self.changed = changed;
        if self.steps.len() > steps {
            self.steps.truncate(steps);
            self.attr_sizes = AttrSizes::default();
        }
        (self.first_step, self.budget) = (first_step, budget.overdrawn_as(self.budget));
        (self.info, self.exists, self.size) = (info, exists, size);
        (self.user_modified, self.modified) = (user_modified, modified);
    }

    /// Returns a number that no other operation gets: what request it is, mixed.
    pub fn random(&mut self) -> u64 {
        self.randoms += 1;
        let EVersion { epoch, version } = self.request.next_version;
        let now = self.request.now;
        let parts = [u64::from(epoch.0), version, self.request.reqid.name.num as u64, self.request.reqid.tid];
        let parts = parts.into_iter().chain([u64::from(now.sec), u64::from(now.nsec), self.randoms]);
        parts.fold(0x9e37_79b9_7f4a_7c15, |mixed, part| {
            let mixed = (mixed ^ part).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) ^ mixed >> 31
        })
    }

    pub fn object(&self) -> ObjectId {
        self.request.object.clone()
    }

    /// Adds what the store is to do. Where that is more than an operation may write, the operation fails once its
    /// present step ends.
    pub fn push(&mut self, step: Step) {
        if self.budget.take(&step, self.limits.op_bytes) {
            self.attr_sizes.follow(&step);
            self.follow_digests(&step);
            self.steps.push(step);
        }
        self.touch();
    }

    /// Counts the object as written, though perhaps with what was there before: it gets a version, and a snapshot keeps
    /// its own state of it.
    pub fn touch(&mut self) {
        (self.modified, self.user_modified) = (true, true);
    }

    /// Digests of what the object holds are what they are after this step, as far as that is known.
    fn follow_digests(&mut self, step: &Step) {
        let mut digests = self.info.digests.clone();
        digests.follow(step, self.size, self.request.layout.is_some());
        if digests != self.info.digests {
            Arc::make_mut(&mut self.info).digests = digests;
        }
    }

    /// Returns the steps for the store so far.
    pub fn steps(&self) -> &[Step] {
        &self.steps[self.first_step..]
    }

    /// Voids all that the operation did to the object so far: it is replaced by what comes now.
    pub fn void_steps(&mut self) {
        // Void steps stay where they are: a method of a class that fails takes this back.
        self.first_step = self.steps.len();
        self.attr_sizes = AttrSizes::default();
    }

    /// Creates the object if it is absent.
    pub fn ensure_exists(&mut self) {
        self.touch();
        if !self.exists {
            let object = self.object();
            self.push(Step::Touch { object });
            self.exists = true;
            self.size = 0;
        }
    }

    /// Returns true if the object was there in name only: removed, and with clones. Guards tell that from an object
    /// that never was.
    pub fn was_whiteout(&self) -> bool {
        self.info_before.snap_set.is_whiteout
    }

    /// Returns the outcome of a step that checks something, or finds nothing to do: as in Ceph, the value of the step
    /// before it.
    pub fn pass(&self) -> StepOutput {
        Ok((self.given, Rope::new()))
    }

    pub fn must_exist(&self) -> Result<(), OpStop> {
        if self.exists { Ok(()) } else { Err(Errno::ENOENT.into()) }
    }

    /// Returns true if this operation has already replaced or removed what the object was before, so that lookups in
    /// the store would show what is gone.
    pub fn was_removed(&self) -> bool {
        // A removal that comes first has replaced all before it.
        matches!(self.steps().first(), Some(Step::Remove { .. }))
    }

    pub fn step(&mut self, op: &Op) -> StepOutput {
        match op.code {
            OpCode::CALL => self.call(op),
            OpCode::LIST_SNAPS => self.list_snaps(),
            OpCode::ROLLBACK => self.roll_back(op),
            OpCode::READ
            | OpCode::SYNC_READ
            | OpCode::SPARSE_READ
            | OpCode::MAPEXT
            | OpCode::STAT
            | OpCode::ASSERT_VER
            | OpCode::CMPEXT
            | OpCode::CHECKSUM
            | OpCode::ISDIRTY => self.data_read(op),
            OpCode::WRITE
            | OpCode::WRITEFULL
            | OpCode::APPEND
            | OpCode::TRUNCATE
            | OpCode::ZERO
            | OpCode::DELETE
            | OpCode::CREATE
            | OpCode::WRITESAME
            | OpCode::SETALLOCHINT
            | OpCode::STARTSYNC
            | OpCode::UNDIRTY => self.data_write(op),
            OpCode::COPY_FROM | OpCode::COPY_FROM2 => self.copy_from(op),
            OpCode::GETXATTR | OpCode::GETXATTRS | OpCode::CMPXATTR | OpCode::SETXATTR | OpCode::RMXATTR => {
                self.attr(op)
            }
            OpCode::OMAPGETKEYS
            | OpCode::OMAPGETVALS
            | OpCode::OMAPGETHEADER
            | OpCode::OMAPGETVALSBYKEYS
            | OpCode::OMAP_CMP
            | OpCode::OMAPSETVALS
            | OpCode::OMAPSETHEADER
            | OpCode::OMAPCLEAR
            | OpCode::OMAPRMKEYS
            | OpCode::OMAPRMKEYRANGE => self.omap(op),
            OpCode::WATCH | OpCode::NOTIFY | OpCode::NOTIFY_ACK | OpCode::LIST_WATCHERS => self.watch(op),
            _ => Err(Errno::EOPNOTSUPP.into()),
        }
    }

    /// Ends a run that changes nothing.
    fn fail(&self, effects: Effects, result: i32) -> Effects {
        let ObjectInfo { user_version, version, .. } = *self.info;
        Effects { result, user_version, prior_version: version, ..effects }
    }

    /// In erasure-coded pools: what the steps make of the object's bytes, with the old ones that this takes.
    fn rewrite(&mut self) -> Result<Option<Rewrite>, OpStop> {
        let Some(layout) = self.request.layout else { return Ok(None) };
        let clone_bytes = self.gone_back_to.as_ref().map_or(0, |state| state.size_bytes);
        let mut rewrite = Rewrite::of(self.request.object, self.steps(), self.size_before, clone_bytes, layout);
        let (object, version) = match self.gone_back_to.as_ref().filter(|_| rewrite.is_of_clone()) {
            Some(state) => (state.object.clone(), state.version),
            None => (self.object(), self.info_before.version),
        };
        for Range { start: offset, end } in rewrite.wanted() {
            let len = end - offset;
            self.answers.take(len)?;
            let bytes = self.bytes_of_shards(&object, version, layout, (offset, len))?.map_err(|e| {
                tracing::error!("read failed: {e}");
                Errno::EIO
            })?;
            rewrite.fill(offset, if mutant::is(Mutant::OldBytesAsZeros) { zeros(len) } else { bytes });
        }
        Ok(Some(rewrite))
    }

    /// Ends a run that no step has stopped: the attribute that holds the object information goes last.
    ///
    /// Errors: a state of the object cannot be preserved as the snapshots demand it.
    fn finish(mut self, mut effects: Effects, rewrite: Option<(Rewrite, OmapBefore)>) -> Result<Effects, Errno> {
        self.steps.drain(..self.first_step);
        let bytes_before = self.size_before as i64;
        effects.prior_version = self.info.version;
        effects.user_version = self.info.user_version;
        if self.modified {
            let keep = self.preserve(&mut effects)?;
            if !keep.is_empty() {
                self.steps.splice(0..0, keep);
            }
        }
        // An object that snapshots still have stays, in name.
        let is_whiteout = !self.exists && !self.info.snap_set.clones.is_empty();
        let newer = self.request.last_user_version.max(self.info.user_version) + 1;
        if rewrite.as_ref().is_some_and(|(rewrite, _)| !rewrite.only_appends()) && !self.info.digests.shards.is_empty()
        {
            Arc::make_mut(&mut self.info).digests.shards.clear();
        }
        if self.modified && (self.exists || is_whiteout) {
            let user_version = match self.copied {
                Some((version, _)) if self.exists => version,
                _ if self.user_modified => newer,
                _ => self.info.user_version,
            };
            if is_whiteout {
                let object = self.object();
                self.steps.push(Step::Touch { object });
                effects.is_removal = true;
            }
            let info = Arc::make_mut(&mut self.info);
            info.snap_set.is_whiteout = is_whiteout;
            info.prior_version = info.version;
            info.version = after(self.request.next_version, effects.others.len());
            info.user_version = user_version;
            info.last_reqid = self.request.reqid;
            if self.user_modified {
                info.mtime = self.copied.map_or(self.request.mtime, |(_, mtime)| mtime);
            }
            effects.user_version = user_version;
            info.size_bytes = self.request.layout.map(|_| self.size);
            let (object, value) = (self.object(), self.info.to_bytes());
            self.steps.push(Step::SetAttr { object, name: OBJECT_INFO_ATTR.to_vec(), value });
        } else if self.modified {
            (effects.deleted, effects.is_removal) = (true, true);
            effects.user_version = newer;
        }
        let existed = self.before.is_some() || self.info_before.snap_set.is_whiteout;
        let others: i64 = effects.others.iter().map(OtherChange::objects_delta).sum();
        effects.objects_delta = i64::from(self.exists || is_whiteout) - i64::from(existed) + others;
        effects.bytes_delta += if self.exists { self.size as i64 } else { 0 } - bytes_before;
        effects.bytes_read = self.bytes_read;
        effects.bytes_written = self.bytes_written;
        effects.sources = self.sources;
        if let Some((layout, (rewrite, omap))) = self.request.layout.as_ref().zip(rewrite) {
            let (object, before) = (self.request.object, self.stored_before.as_deref());
            let change = take_data(object, &mut self.steps, before, self.size_before, &rewrite, omap, layout);
            effects.change = Some(Box::new(change));
        }
        effects.steps_bytes = self.budget.bytes();
        effects.steps = self.steps;
        effects.watch = self.watch;
        effects.modified = self.modified;
        Ok(effects)
    }
}

/// Returns the version so many updates after `version`.
pub(crate) fn after(version: EVersion, updates: usize) -> EVersion {
    EVersion { version: version.version + updates as u64, ..version }
}

/// Runs `request` against the object's present state in `store`.
///
/// Errors come as a negative [`Effects::result`]; `EIO` is what a damaged object gives.
pub fn execute(store: &mut Store, request: &Request<'_>, answers: &mut Answers, limits: &Limits) -> Run {
    answers.rewind(limits.op_bytes);
    let failed = |errno: Errno| Run::Done(Effects { result: errno.as_result(), ..Effects::default() });
    let before = match answers.stat(store, request.object).map_err(OpStop::from) {
        Ok(stat) => stat,
        Err(OpStop::Blocked(id)) => return Run::Blocked(id),
        Err(_) => return failed(Errno::EIO),
    };
    let info = match before.as_deref().map(|stat| answers.info(stat)) {
        None => Arc::default(),
        Some(Ok(info)) => info,
        Some(Err(e)) => {
            tracing::error!(object = %request.object, "object information is damaged: {e}");
            return failed(Errno::EIO);
        }
    };
    if let Err(errno) = snapshots::check_context(request, &info.snap_set) {
        return failed(errno);
    }
    match snapshots::resolve(request, before.is_some(), &info.snap_set) {
        Ok(AtSnap::Head) => {}
        Ok(AtSnap::Clone(snap)) => {
            let clone = ObjectId { snap, ..request.object.clone() };
            return execute_at_clone(store, &Request { object: &clone, ..*request }, answers, limits, &info.snap_set);
        }
        Ok(AtSnap::Nothing) => return failed(Errno::ENOENT),
        Err(errno) => return failed(errno),
    }
    let is_absent = before.is_none() || info.snap_set.is_whiteout && request.snap != SnapId::DIR;
    if is_absent && !request.may_write {
        return failed(Errno::ENOENT);
    }
    // The remains of an object that was removed are of no use to clients.
    let stored = before.clone();
    let before = before.filter(|_| !info.snap_set.is_whiteout);
    run_steps(store, request, answers, limits, (before, stored), info)
}

/// Reads the object as a snapshot preserves it: `request` names that state.
fn execute_at_clone(
    store: &mut Store,
    request: &Request<'_>,
    answers: &mut Answers,
    limits: &Limits,
    snap_set: &SnapSet,
) -> Run {
    let failed = |errno: Errno| Run::Done(Effects { result: errno.as_result(), ..Effects::default() });
    if !request.at_hand.contains(request.object) {
        return Run::Wants(request.object.clone());
    }
    let stat = match answers.clone_stat(store, request.object).map_err(OpStop::from) {
        Ok(Some(stat)) => stat,
        Ok(None) => return failed(Errno::ENOENT),
        Err(OpStop::Blocked(id)) => return Run::Blocked(id),
        Err(_) => return failed(Errno::EIO),
    };
    match ObjectInfo::of(&stat) {
        Ok(info) => {
            let before = (Some(stat.clone()), Some(stat));
            let info = ObjectInfo { snap_set: snap_set.clone(), ..info };
            run_steps(store, request, answers, limits, before, Arc::new(info))
        }
        Err(e) => {
            tracing::error!(object = %request.object, "object information is damaged: {e}");
            failed(Errno::EIO)
        }
    }
}

fn run_steps(
    store: &mut Store,
    request: &Request<'_>,
    answers: &mut Answers,
    limits: &Limits,
    (before, stored_before): (Option<Arc<ObjectStat>>, Option<Arc<ObjectStat>>),
    info: Arc<ObjectInfo>,
) -> Run {
    let size_before = match (&before, info.size_bytes) {
        (Some(_), Some(size)) => size,
        (Some(_), None) if request.layout.is_some() => {
            tracing::error!(object = %request.object, "object information does not tell how long the object is");
            return Run::Done(Effects { result: Errno::EIO.as_result(), ..Effects::default() });
        }
        (before, _) => before.as_ref().map_or(0, |stat| stat.size_bytes),
    };
    let mut run = Execution {
        exists: before.is_some(),
        size: size_before,
        size_before,
        before,
        stored_before,
        info_before: info.clone(),
        info,
        changed: IntervalSet::new(),
        sources: Vec::new(),
        gone_back_to: None,
        store,
        answers,
        limits,
        request,
        steps: Vec::new(),
        first_step: 0,
        budget: Budget::default(),
        attr_sizes: AttrSizes::default(),
        user_modified: false,
        modified: false,
        bytes_read: 0,
        bytes_written: 0,
        given: 0,
        randoms: 0,
        watch: Vec::new(),
        copied: None,
    };
    let watchers = run.info.watchers.clone();
    let mut effects = Effects { ops: Vec::with_capacity(request.ops.len()), watchers, ..Effects::default() };
    for op in request.ops {
        let given = run.step(op);
        let is_overdrawn = run.budget.is_overdrawn();
        let (rval, outdata) = match given {
            Err(OpStop::Failed(_) | OpStop::Result(_)) | Ok(_) if is_overdrawn => {
                (Errno::EMSGSIZE.as_result(), Rope::new())
            }
            Ok(output) => output,
            Err(OpStop::Blocked(id)) => return Run::Blocked(id),
            Err(OpStop::Copy(source)) => return Run::Copy(source),
            Err(OpStop::Gather(wanted)) => return (*wanted).into(),
            Err(OpStop::Wants(object)) => return Run::Wants(object),
            Err(OpStop::Failed(errno)) => (errno.as_result(), Rope::new()),
            Err(OpStop::Result(result)) => (result, Rope::new()),
        };
        effects.ops.push(OpResult { rval, outdata });
        // An operation that has exceeded its limits fails as a whole, even if it may go on without the step.
        if is_overdrawn || rval < 0 && op.flags & op_flag::FAILOK == 0 {
            return Run::Done(run.fail(effects, rval));
        }
        run.given = rval.max(0);
        effects.result = run.given;
    }
    // Outputs of an update are kept for when the client asks again. As in Ceph all steps are carried out first.
    let is_bounded = request.may_write && request.return_vec && run.modified;
    let is_too_long = |op: &&mut OpResult| is_bounded && op.outdata.len() > limits.write_reply_bytes;
    let overflow = Errno::EOVERFLOW.as_result();
    let cut = |op: &mut OpResult| *op = OpResult { rval: overflow, outdata: Rope::new() };
    if effects.ops.iter_mut().filter(is_too_long).map(cut).count() > 0 {
        return Run::Done(run.fail(effects, overflow));
    }
    let failed = |errno: Errno| Effects { result: errno.as_result(), ..Effects::default() };
    let rewrite = match run.rewrite().and_then(|rewrite| Ok(rewrite.zip(Some(run.omap_before()?)))) {
        Ok(rewrite) => rewrite,
        Err(OpStop::Blocked(id)) => return Run::Blocked(id),
        Err(OpStop::Gather(wanted)) => return (*wanted).into(),
        Err(OpStop::Failed(errno)) => return Run::Done(failed(errno)),
        Err(OpStop::Copy(_) | OpStop::Wants(_) | OpStop::Result(_)) => unreachable!("old bytes take none of these"),
    };
    Run::Done(run.finish(effects, rewrite).unwrap_or_else(failed))
}

/// Copies a client's bytes into memory of their own: what is kept must not pin a whole frame.
pub(super) fn own(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}
