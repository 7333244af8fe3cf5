//! What OSDs say to each other while a member is backfilled.

use crate::peer::PgInterval;
use types::{EVersion, ObjectId};
use wire::nacre::kind;
use wire::own_message as message;

/// Primary to member: tell me which objects you have, in which versions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgScan {
    pub pg: PgInterval,
    /// From this one on.
    pub from: ObjectId,
}

message!(PgScan = kind::PG_SCAN, version 1 { pg, from });

/// Answers [`PgScan`], in the order of objects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgObjects {
    pub pg: PgInterval,
    pub from: ObjectId,
    /// Without a version: what is there is not whole, or cannot be read.
    pub objects: Vec<(ObjectId, Option<EVersion>)>,
    /// These are all before this one; `None`: all that there are.
    pub end: Option<ObjectId>,
}

message!(PgObjects = kind::PG_OBJECTS, version 1 { pg, from, objects, end });

/// Primary to member: with what has been sent so far, all objects before this one are as the log says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgBackfilled {
    pub pg: PgInterval,
    pub before: ObjectId,
}

message!(PgBackfilled = kind::PG_BACKFILLED, version 1 { pg, before });
