//! Orders to other parts of a group, which these carry out before the next operation runs.

use crate::intake::operations::ClientOp;
use crate::ops::Effects;
use crate::updates::trim_run::Trim;
use types::{EVersion, ObjectId};

/// Something that another part of the group does for an operation. It is carried out before the next operation runs,
/// so it is no effect, which would come when the whole input is handled.
#[derive(Debug)]
pub(super) enum Order {
    /// An executed update is to be submitted. Members need room for `growth_bytes`.
    Submit { op: Box<ClientOp>, effects: Box<Effects>, growth_bytes: u64 },
    /// An operation waits for bytes of an object, in this version, that lie in shards.
    Gather { number: u64, object: ObjectId, version: EVersion, offset: u64, len: u64 },
    /// The log knows an update: its answer is to be sent to where the client is now. The operation is over.
    AnswerAgain(Box<ClientOp>),
    /// An object is damaged here: it is to be fetched from others, who have it in this version.
    Fetch { object: ObjectId, version: EVersion },
    /// Nobody needs states of an object any more: an update that removes them is done, or was needless.
    Trimmed { object: ObjectId, trim: Trim },
    /// States of an object that nobody needs any more could not be removed.
    TrimFailed(ObjectId),
}

/// Work that an input has brought, and that is still to be done.
#[derive(Debug)]
pub(super) enum Todo {
    /// An operation that has come, or waited for the group, starts.
    Start(Box<ClientOp>),
    /// Operations on an object may start.
    Run(ObjectId),
}
