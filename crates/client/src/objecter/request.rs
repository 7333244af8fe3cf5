//! An operation as users ask for it, and as it is kept while in flight.

use super::placement::Target;
use super::watches::WatchStep;
use bytes::Bytes;
use std::time::Duration;
use types::{Epoch, Errno, NameBytes, ObjectId, OsdId, PoolId, SnapId, Utime};
use wire::basic::{Locator, SnapContext};
use wire::messages::{Op, OpCode, OpFlags, OpReply, OsdOpReply};

/// Subject of an operation.
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
    /// Flags in addition to those that follow from the parts.
    pub flags: OpFlags,
    /// The snapshot that reads see.
    pub snap: SnapId,
    /// The snapshots that writes must preserve.
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
        // Only the caller knows if a class method writes, and sets the flag.
        self.flags.has(OpFlags::WRITE) || self.ops.iter().any(|op| op.code.is_write())
    }

    pub fn is_read(&self) -> bool {
        self.flags.has(OpFlags::READ) || self.ops.iter().any(|op| op.code.is_read())
    }

    /// The flag that lets members other than the primary answer, if this is a read of an object:
    /// [`OpFlags::BALANCE_READS`] allows any member, [`OpFlags::LOCALIZE_READS`] a near one.
    pub(super) fn goes_to_members(&self) -> Option<OpFlags> {
        let flags = [OpFlags::LOCALIZE_READS, OpFlags::BALANCE_READS];
        let is_read = matches!(self.subject, Subject::Object { .. }) && !self.is_write();
        flags.into_iter().find(|flag| is_read && self.flags.has(*flag))
    }

    /// True for a notification, which ends only when the watchers have answered.
    pub(super) fn is_notify(&self) -> bool {
        self.ops.first().is_some_and(|op| op.code == OpCode::NOTIFY)
    }
}

/// The outcome of an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    /// Result of the whole operation: 0 or above, or a negated error number.
    pub result: i32,
    /// Version of the object, which counts its changes.
    pub version: u64,
    /// Outcome of each part; perhaps of fewer if the whole failed.
    pub parts: Vec<OpReply>,
}

impl Reply {
    /// The error of the whole operation, if it failed.
    pub fn error(&self) -> Option<Errno> {
        Errno::from_result(self.result)
    }
}

impl From<OsdOpReply> for Reply {
    fn from(reply: OsdOpReply) -> Reply {
        Reply { result: reply.result, version: reply.user_version, parts: reply.ops }
    }
}

/// State of an operation in flight.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum OpState {
    /// The operation cannot be sent: the map forbids it or has no OSD for it, or there is no map.
    Waiting,
    /// The operation belongs to the session of this OSD.
    Assigned { osd: OsdId },
    /// The map has no such pool, and the monitors have been asked for the newest map's epoch: `missing_in`, once they
    /// have answered.
    CheckingPool { missing_in: Option<Epoch> },
}

/// The party that learns how an operation ends.
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
    /// The user's completion, if the owner has one.
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
    pub state: OpState,
    /// Target by the present map; `None` until the pool is known.
    pub target: Option<Target>,
    /// The map forbids operations of this kind at present.
    pub paused: bool,
    /// Number of times that the operation has been sent.
    pub attempts: i32,
    /// The operation was sent to a member other than the primary, which may refuse it.
    pub at_member: bool,
    pub submitted: Duration,
}

impl<C> InFlight<C> {
    /// The object's position in the order of listings. Backoffs name such positions; they concern all of an object's
    /// snapshots.
    pub fn object(&self, hash: u32) -> ObjectId {
        match &self.request.subject {
            Subject::Object { locator, name } => ObjectId {
                pool: locator.pool,
                hash,
                nspace: locator.nspace[..].into(),
                key: if locator.key == *name { NameBytes::EMPTY } else { locator.key[..].into() },
                name: name[..].into(),
                snap: SnapId::HEAD,
                max: false,
            },
            Subject::Group { pool, nspace, hash } => ObjectId::head(*pool, *hash, nspace, b""),
        }
    }
}
