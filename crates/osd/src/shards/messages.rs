//! Messages between the front and workers.

use super::ShardFacts;
use crate::failure::Failure;
use pg::{Homes, Output};
use std::sync::Arc;
use std::time::Duration;
use store::SpaceUsage;
use types::{EntityName, Epoch, OsdId, PgId};
use wire::messages::{Command, CommandReply, OsdMap};
use wire::msgr::SessionId;
use wire::nacre::mon::OsdBeacon;
use wire::{DecodeError, EntityAddr, EntityAddrVec, Envelope};

/// Which question an answer is to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct QuestionId(pub u64);

pub(crate) enum ToWorker {
    /// All stores are open: take part, under this address.
    Begin {
        homes: Homes,
        public_addrs: EntityAddrVec,
    },
    ClientOpened {
        session: SessionId,
        name: EntityName,
        addr: EntityAddr,
        features: u64,
    },
    ClientClosed {
        session: SessionId,
    },
    ClientOp {
        session: SessionId,
        envelope: Envelope,
        began: Duration,
    },
    /// About a backoff, behind the operations that the client sent before.
    ClientBackoff {
        session: SessionId,
        envelope: Envelope,
    },
    FromOsd {
        from: OsdId,
        envelope: Envelope,
        began: Duration,
    },
    /// The session with another OSD has ended, with all that was on its way in it.
    SessionEnded {
        osd: OsdId,
    },
    Maps(Arc<OsdMap>),
    FromMonitor(Envelope),
    /// A session with a monitor has begun.
    MonitorConnected,
    DropCaches,
    /// A question for the shard's facts.
    Facts {
        id: QuestionId,
    },
    /// A command about one of its groups.
    PgCommand {
        id: QuestionId,
        command: Box<Command>,
    },
    /// Serve no group any more, and come to rest.
    Retire,
    /// End at once.
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
    /// This map is in force there.
    InForce(Epoch),
    /// For the next beacon.
    Beacon(OsdBeacon),
    Facts {
        id: QuestionId,
        facts: Box<ShardFacts>,
    },
    PgReply {
        id: QuestionId,
        reply: Box<CommandReply>,
    },
    /// After [`ToWorker::Retire`]: the store is at rest.
    Idle,
}
