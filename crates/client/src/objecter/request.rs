//! An operation as users ask for it, and as it is kept while under way.

use super::placement::Target;
use super::watches::WatchStep;
use bytes::Bytes;
use std::time::Duration;
use types::{Epoch, Errno, ObjectId, OsdId, PoolId, SnapId, Utime};
use wire::basic::{Locator, SnapContext};
use wire::messages::{Op, OpCode, OpFlags, OpReply, OsdOpReply};

/// What an operation is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Subject {
    /// An object, placed by its name or its locator's key.
    Object { locator: Locator, name: Bytes },
    /// The placement group that a placement hash falls into, for listings.
    Group { pool: PoolId, nspace: Bytes, hash: u32 },
}

impl Subject {
    pub fn pool(&self) -> PoolId {
        match self {
            Subject::Object { locator, .. } => locator.pool,
            Subject::Group { pool, .. } => *pool,
        }
    }
}

/// An operation to carry out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    pub subject: Subject,
    /// The parts, which take effect together or not at all.
    pub ops: Vec<Op>,
    /// In addition to those that follow from the parts.
    pub flags: OpFlags,
    /// What reads look at.
    pub snap: SnapId,
    /// What writes must preserve.
    pub snap_context: SnapContext,
    /// Time of change that writes leave on the object.
    pub mtime: Utime,
}

impl Request {
    /// An operation on the present state, without snapshots.
    pub fn new(subject: Subject, ops: Vec<Op>, mtime: Utime) -> Request {
        let snap_context = SnapContext { seq: SnapId(0), snaps: Vec::new() };
        Request { subject, ops, flags: OpFlags::default(), snap: SnapId::HEAD, snap_context, mtime }
    }

    pub fn is_write(&self) -> bool {
        // Whether a class method writes only its caller knows, who sets the flag.
        self.flags.has(OpFlags::WRITE) || self.ops.iter().any(|op| op.code.is_write())
    }

    pub fn is_read(&self) -> bool {
        self.flags.has(OpFlags::READ) || self.ops.iter().any(|op| op.code.is_read())
    }

    /// What its flags say of who may answer it, if it is a read of an object: [`OpFlags::BALANCE_READS`], anybody;
    /// [`OpFlags::LOCALIZE_READS`], who is near.
    pub(super) fn goes_to_members(&self) -> Option<OpFlags> {
        let flags = [OpFlags::LOCALIZE_READS, OpFlags::BALANCE_READS];
        let is_read = matches!(self.subject, Subject::Object { .. }) && !self.is_write();
        flags.into_iter().find(|flag| is_read && self.flags.has(*flag))
    }

    /// Whether it is over only when the watchers have answered.
    pub(super) fn is_notify(&self) -> bool {
        self.ops.first().is_some_and(|op| op.code == OpCode::NOTIFY)
    }
}

/// What became of an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    /// Of the whole: 0 or above, or a negated error number.
    pub result: i32,
    /// Of the object, counting its changes.
    pub version: u64,
    /// By part; on errors of the whole perhaps fewer.
    pub parts: Vec<OpReply>,
}

impl Reply {
    /// The error of the whole, if it failed.
    pub fn error(&self) -> Option<Errno> {
        Errno::from_result(self.result)
    }
}

impl From<OsdOpReply> for Reply {
    fn from(reply: OsdOpReply) -> Reply {
        Reply { result: reply.result, version: reply.user_version, parts: reply.ops }
    }
}

/// Where an operation stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// The map says not to send it now, or has no OSD for it, or there is no map.
    Waiting,
    /// Among the operations of an OSD's session.
    Assigned { osd: OsdId },
    /// The map has no such pool. Whether it is the newest map has been asked; once answered, `missing_in` is the
    /// newest epoch there was.
    CheckingPool { missing_in: Option<Epoch> },
}

/// Who wants to know how an operation ends.
pub(super) enum Owner<C> {
    User(C),
    /// The objecter itself, about a watch.
    Watch {
        cookie: u64,
        step: WatchStep<C>,
    },
    Nobody,
}

impl<C> Owner<C> {
    /// The user behind it, if there is one.
    pub fn into_user(self) -> Option<C> {
        match self {
            Owner::User(completion) | Owner::Watch { step: WatchStep::Register(completion), .. } => Some(completion),
            Owner::Watch { .. } | Owner::Nobody => None,
        }
    }
}

/// An operation under way.
pub(super) struct InFlight<C> {
    pub owner: Owner<C>,
    pub request: Request,
    pub state: State,
    /// As of the present map; `None` until the pool is known.
    pub target: Option<Target>,
    /// The map forbids operations of this kind at present.
    pub paused: bool,
    /// How often it has been sent.
    pub attempts: i32,
    /// It was sent to a member that is not the primary, which may refuse it.
    pub at_member: bool,
    pub submitted: Duration,
}

impl<C> InFlight<C> {
    /// The object's place in the order of listings, which is what backoffs are about: they name objects, whatever state
    /// of them an operation is about.
    pub fn object(&self, hash: u32) -> ObjectId {
        match &self.request.subject {
            Subject::Object { locator, name } => ObjectId {
                pool: locator.pool,
                hash,
                nspace: locator.nspace.to_vec(),
                key: if locator.key == *name { Vec::new() } else { locator.key.to_vec() },
                name: name.to_vec(),
                snap: SnapId::HEAD,
                max: false,
            },
            Subject::Group { pool, nspace, hash } => ObjectId::head(*pool, *hash, nspace, b""),
        }
    }
}
