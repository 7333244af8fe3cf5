//! The run over an operation's steps.

use super::Answers;
use crate::coded::change::{CodedChange, take_data};
use crate::lookup::NoAnswer;
use crate::object_info::{OBJECT_INFO_ATTR, ObjectInfo};
use bytes::Bytes;
use ec::StripeLayout;
use std::sync::Arc;
use store::{LookupId, ObjectStat, Step, Store};
use types::{EVersion, Errno, ObjectId, ReqId, Utime};
use wire::messages::{Op, OpCode, op_flag};
use wire::{DecodeError, Rope, Target, Writer};

/// Bounds on what one operation may do, and on what is kept of past ones.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Larger than Ceph's default of 128 MiB, so that `rados put` takes whole files.
    pub object_bytes: u64,
    pub attr_name_bytes: usize,
    /// Entries that one omap listing returns at most.
    pub omap_entries: u64,
    /// Output bytes of one step that a write may return when the client asks for them.
    pub write_reply_bytes: usize,
    /// Entries that a group's log keeps at least.
    pub log_entries_min: usize,
    /// What clients' operations may hold in memory at once. One is always taken, however large.
    pub client_bytes: usize,
    /// Objects that are compared at a time when a member is backfilled.
    pub backfill_objects: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            object_bytes: 4 << 30,
            attr_name_bytes: 100,
            omap_entries: 1024,
            write_reply_bytes: 32,
            log_entries_min: crate::log::LOG_ENTRIES_MIN,
            client_bytes: 64 << 20,
            backfill_objects: 256,
        }
    }
}

/// What is asked of one object.
#[derive(Debug)]
pub struct Request<'a> {
    pub object: &'a ObjectId,
    pub ops: &'a [Op],
    pub reqid: ReqId,
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
}

/// Outcome of one step.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OpResult {
    pub rval: i32,
    pub outdata: Rope,
}

/// Outcome of a whole operation.
#[derive(Debug, Default)]
pub struct Effects {
    /// 0 or positive: what the last step gave; negative: the error, and then nothing changes.
    pub result: i32,
    /// One per step of the request; steps behind an error have none.
    pub ops: Vec<OpResult>,
    /// What the store must do; empty if nothing changes.
    pub steps: Vec<Step>,
    /// The object is absent afterwards.
    pub deleted: bool,
    /// Client-visible version of the object afterwards (before, if nothing changes); 0 if absent.
    pub user_version: u64,
    /// Version of the object before; zero if absent.
    pub prior_version: EVersion,
    /// Change in the number of objects and of their bytes.
    pub objects_delta: i64,
    pub bytes_delta: i64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// In erasure-coded pools, what differs from shard to shard; `steps` are then the rest.
    pub change: Option<Box<CodedChange>>,
}

/// How a run ended.
#[derive(Debug)]
pub enum Run {
    Done(Effects),
    /// Run again when this lookup is done.
    Blocked(LookupId),
    /// Run again when these bytes of the object, in this version, have been gathered from its shards.
    Gather {
        version: EVersion,
        offset: u64,
        len: u64,
    },
}

/// Why a step gives no output.
pub(super) enum Stop {
    Blocked(LookupId),
    Gather {
        offset: u64,
        len: u64,
    },
    Failed(Errno),
    /// A failure whose number is no errno.
    Result(i32),
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Stop {
        Stop::Failed(errno)
    }
}

/// Malformed input of a step.
impl From<DecodeError> for Stop {
    fn from(_: DecodeError) -> Stop {
        Stop::Failed(Errno::EINVAL)
    }
}

/// A lookup without an answer leaves the step as blocked, or ends it with what a client is told about damage.
impl From<NoAnswer> for Stop {
    fn from(why: NoAnswer) -> Stop {
        match why {
            NoAnswer::Pending(id) => Stop::Blocked(id),
            NoAnswer::Damaged(damage) => {
                tracing::error!("metadata of an object cannot be read: {damage}");
                Stop::Failed(Errno::EIO)
            }
        }
    }
}

/// What a step gives when it succeeds: its value and output.
pub(super) type StepOutput = Result<(i32, Rope), Stop>;

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
    pub size_before: u64,
    pub info: ObjectInfo,
    pub exists: bool,
    pub size: u64,
    pub steps: Vec<Step>,
    /// A change that clients can see (hints are not).
    pub user_modified: bool,
    pub modified: bool,
    pub bytes_read: u64,
    pub bytes_written: u64,
}

impl Execution<'_> {
    pub fn object(&self) -> ObjectId {
        self.request.object.clone()
    }

    pub fn push(&mut self, step: Step) {
        self.steps.push(step);
        self.modified = true;
        self.user_modified = true;
    }

    /// Creates the object if it is absent.
    pub fn ensure_exists(&mut self) {
        if !self.exists {
            let object = self.object();
            self.push(Step::Touch { object });
            self.exists = true;
            self.size = 0;
        }
    }

    pub fn must_exist(&self) -> Result<(), Stop> {
        if self.exists { Ok(()) } else { Err(Errno::ENOENT.into()) }
    }

    /// Whether this operation has already replaced or removed what the object was before, so that lookups in the
    /// store would show what is gone.
    pub fn was_removed(&self) -> bool {
        self.steps.iter().any(|s| matches!(s, Step::Remove { .. }))
    }

    fn step(&mut self, op: &Op) -> StepOutput {
        match op.code {
            OpCode::READ
            | OpCode::SYNC_READ
            | OpCode::SPARSE_READ
            | OpCode::MAPEXT
            | OpCode::STAT
            | OpCode::ASSERT_VER
            | OpCode::CMPEXT
            | OpCode::CHECKSUM
            | OpCode::LIST_SNAPS
            | OpCode::LIST_WATCHERS
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
            _ => Err(Errno::EOPNOTSUPP.into()),
        }
    }

    /// Ends a run that no step has stopped: the attribute that holds the object information goes last.
    fn finish(mut self, mut effects: Effects) -> Effects {
        let existed = self.before.is_some();
        let bytes_before = self.size_before as i64;
        effects.prior_version = self.info.version;
        effects.user_version = self.info.user_version;
        if self.modified && self.exists {
            let user_version = if self.user_modified {
                self.request.last_user_version.max(self.info.user_version) + 1
            } else {
                self.info.user_version
            };
            self.info.prior_version = self.info.version;
            self.info.version = self.request.next_version;
            self.info.user_version = user_version;
            self.info.last_reqid = self.request.reqid;
            if self.user_modified {
                self.info.mtime = self.request.mtime;
            }
            effects.user_version = user_version;
            self.info.size_bytes = self.request.layout.map(|_| self.size);
            let (object, value) = (self.object(), self.info.to_bytes());
            self.steps.push(Step::SetAttr { object, name: OBJECT_INFO_ATTR.to_vec(), value });
        } else if self.modified {
            effects.deleted = true;
            effects.user_version = self.request.last_user_version.max(self.info.user_version) + 1;
        }
        effects.objects_delta = i64::from(self.exists) - i64::from(existed);
        effects.bytes_delta = if self.exists { self.size as i64 } else { 0 } - bytes_before;
        effects.bytes_read = self.bytes_read;
        effects.bytes_written = self.bytes_written;
        if let Some(layout) = &self.request.layout {
            let change = take_data(&mut self.steps, self.before.as_deref(), self.size_before, layout);
            effects.change = Some(Box::new(change));
        }
        effects.steps = self.steps;
        effects
    }
}

/// Runs `request` against the object's present state in `store`.
///
/// Errors come as a negative [`Effects::result`]; `EIO` is what a damaged object gives.
pub fn execute(store: &mut Store, request: &Request<'_>, answers: &mut Answers, limits: &Limits) -> Run {
    answers.rewind();
    let failed = |errno: Errno| Run::Done(Effects { result: errno.as_result(), ..Effects::default() });
    let before = match answers.stat(store, request.object).map_err(Stop::from) {
        Ok(stat) => stat,
        Err(Stop::Blocked(id)) => return Run::Blocked(id),
        Err(_) => return failed(Errno::EIO),
    };
    if before.is_none() && !request.may_write {
        return failed(Errno::ENOENT);
    }
    let info = match before.as_deref().map(ObjectInfo::of) {
        None => ObjectInfo::default(),
        Some(Ok(info)) => info,
        Some(Err(e)) => {
            tracing::error!(object = %request.object, "object information is damaged: {e}");
            return failed(Errno::EIO);
        }
    };
    let size_before = match (&before, info.size_bytes) {
        (Some(_), Some(size)) => size,
        (Some(_), None) if request.layout.is_some() => {
            tracing::error!(object = %request.object, "object information does not tell how long the object is");
            return failed(Errno::EIO);
        }
        (before, _) => before.as_ref().map_or(0, |stat| stat.size_bytes),
    };
    let mut run = Execution {
        exists: before.is_some(),
        size: size_before,
        size_before,
        before,
        info,
        store,
        answers,
        limits,
        request,
        steps: Vec::new(),
        user_modified: false,
        modified: false,
        bytes_read: 0,
        bytes_written: 0,
    };
    let mut effects = Effects { ops: Vec::with_capacity(request.ops.len()), ..Effects::default() };
    for op in request.ops {
        let (rval, outdata) = match run.step(op) {
            Ok(output) => output,
            Err(Stop::Blocked(id)) => return Run::Blocked(id),
            Err(Stop::Gather { offset, len }) => return Run::Gather { version: run.info.version, offset, len },
            Err(Stop::Failed(errno)) => (errno.as_result(), Rope::new()),
            Err(Stop::Result(result)) => (result, Rope::new()),
        };
        let too_long = request.may_write && request.return_vec && outdata.len() > limits.write_reply_bytes;
        let rval = if too_long { Errno::EOVERFLOW.as_result() } else { rval };
        let outdata = if too_long { Rope::new() } else { outdata };
        effects.ops.push(OpResult { rval, outdata });
        if rval < 0 && op.flags & op_flag::FAILOK == 0 {
            effects.result = rval;
            effects.user_version = run.info.user_version;
            effects.prior_version = run.info.version;
            return Run::Done(effects);
        }
        effects.result = rval.max(0);
    }
    Run::Done(run.finish(effects))
}

/// A client's bytes, in memory of their own: what is kept must not pin a whole frame.
pub(super) fn own(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}
