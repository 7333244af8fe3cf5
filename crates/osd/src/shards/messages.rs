//! Messages between the front and workers.

use super::ShardFacts;
use crate::commands::tuned::Tuned;
use crate::failure::Failure;
use pg::{ClientRights, Homes, Output};
use std::sync::Arc;
use std::time::Duration;
use store::SpaceUsage;
use types::{EntityName, Epoch, OsdId, PgId};
use wire::messages::{CommandReply, OsdMap};
use wire::msgr::SessionId;
use wire::nacre::mon::OsdBeacon;
use wire::{DecodeError, EntityAddr, EntityAddrVec, Envelope};

/// Names a question, so that its answers can be told from others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct QuestionId(pub u64);

pub(crate) enum ToWorker {
    /// All stores are open: the worker takes part from now on, under this address.
    Begin {
        homes: Homes,
        public_addrs: EntityAddrVec,
    },
    ClientOpened {
        session: SessionId,
        name: EntityName,
        addr: EntityAddr,
        features: u64,
        rights: Arc<ClientRights>,
    },
    ClientClosed {
        session: SessionId,
    },
    ClientOp {
        session: SessionId,
        envelope: Envelope,
        began: Duration,
    },
    /// A message about a backoff, behind the operations that the client sent before it.
    ClientBackoff {
        session: SessionId,
        envelope: Envelope,
    },
    FromOsd {
        from: OsdId,
        envelope: Envelope,
        began: Duration,
    },
    /// The session with another OSD has ended, with all messages that were on their way in it.
    SessionEnded {
        osd: OsdId,
    },
    Maps(Arc<OsdMap>),
    FromMonitor(Envelope),
    /// A session with a monitor has begun.
    MonitorConnected,
    DropCaches,
    /// Asks for the shard's facts.
    Facts {
        id: QuestionId,
    },
    /// A command about one of the shard's groups.
    PgCommand {
        id: QuestionId,
        command: String,
    },
    /// Figures that options have set.
    Tune(Tuned),
    /// The worker's store is to write a checkpoint.
    Checkpoint,
    /// The shard must serve no group any more, and come to rest.
    Retire,
    /// The worker must end at once.
    End,
}

impl ToWorker {
    /// Bytes of payload.
    pub fn bytes(&self) -> usize {
        match self {
            ToWorker::ClientOp { envelope, .. } | ToWorker::FromOsd { envelope, .. } => {
                envelope.front.len() + envelope.data.len()
            }
            _ => 0,
        }
    }
}

impl FromWorker {
    /// Bytes that an answer to a client holds until the network has taken it.
    pub fn answer_bytes(&self) -> usize {
        match self {
            FromWorker::Out(output) => output.answer_bytes(),
            _ => 0,
        }
    }
}

pub(crate) enum FromWorker {
    /// The store is open and has these groups.
    Opened {
        groups: Vec<PgId>,
        usage: SpaceUsage,
    },
    Out(Output),
    /// The shard cannot go on.
    Failed(Failure),
    /// A client's message was malformed.
    BadClient {
        session: SessionId,
        kind: u16,
        why: DecodeError,
    },
    /// Another OSD's message was malformed.
    BadOsd {
        osd: OsdId,
        kind: u16,
        why: DecodeError,
    },
    /// This map is in force on the shard.
    InForce(Epoch),
    /// The shard's part of the next beacon.
    Beacon(OsdBeacon),
    Facts {
        id: QuestionId,
        facts: Box<ShardFacts>,
    },
    PgReply {
        id: QuestionId,
        reply: Box<CommandReply>,
    },
    /// The store is at rest, after [`ToWorker::Retire`].
    Idle,
}
