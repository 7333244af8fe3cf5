//! Messages of scrub, between a primary and its members.

use super::PeerKind;
use super::interval::PgInterval;
use crate::scrub::ScrubMark;
use crate::scrub::map::ScrubMap;
use types::{EVersion, ObjectId};
use wire::own_message as message;

/// Primary to member: tell what you have of the objects in `from .. until`. No update of them is on its way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScrubGet {
    pub pg: PgInterval,
    /// Pairs the answer with the question.
    pub round: u64,
    pub from: ObjectId,
    pub until: ObjectId,
    /// Read the bytes, too, and compare them with their checksums.
    pub deep: bool,
}

message!(ScrubGet = PeerKind::ScrubGet.number(), version 1 { pg, round, from, until, deep });

/// Answers [`ScrubGet`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScrubGot {
    pub pg: PgInterval,
    pub round: u64,
    pub map: ScrubMap,
}

message!(ScrubGot = PeerKind::ScrubGot.number(), version 1 { pg, round, map });

/// Primary to member: your copy of the object is bad, or you are backfilled and nobody has the object. Note it as
/// missing in this version; it is pushed to you once somebody has it. Without a version: the object was removed, and
/// what you have of it must go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScrubBad {
    pub pg: PgInterval,
    pub object: ObjectId,
    pub version: Option<EVersion>,
}

message!(ScrubBad = PeerKind::ScrubBad.number(), version 1 { pg, object, version });

/// Primary to member: the group has been scrubbed, or was before the member came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScrubDone {
    pub pg: PgInterval,
    pub mark: ScrubMark,
    /// True if all bytes were read and nothing bad is left.
    pub sound: bool,
}

message!(ScrubDone = PeerKind::ScrubDone.number(), version 1 { pg, mark, sound });
