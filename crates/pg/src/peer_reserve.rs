//! What OSDs say to each other about who may heal now.

use crate::peer::PgInterval;
use wire::nacre::kind;
use wire::own_message as message;

/// Primary to member: may I bring this group's objects to you?
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgReserve {
    pub pg: PgInterval,
    /// The higher goes first.
    pub priority: u64,
}

message!(PgReserve = kind::PG_RESERVE, version 1 { pg, priority });

/// Answers [`PgReserve`]: yes; or, later, no longer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgReserved {
    pub pg: PgInterval,
    pub granted: bool,
}

message!(PgReserved = kind::PG_RESERVED, version 1 { pg, granted });

/// Primary to member: done, or not wanted any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgReleased {
    pub pg: PgInterval,
}

message!(PgReleased = kind::PG_RELEASED, version 1 { pg });
