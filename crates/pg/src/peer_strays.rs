//! What OSDs say to each other about copies that are not where they should be.

use types::{Epoch, PgId};
use wire::nacre::kind;
use wire::own_message as message;

/// To primaries: I have copies of these groups and am no member. Are they needed?
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgStrays {
    /// The asker's map; an older one says nothing.
    pub epoch: Epoch,
    pub groups: Vec<PgId>,
}

message!(PgStrays = kind::PG_STRAYS, version 1 { epoch, groups });

/// From primaries: these are not. What the receiver is a member of by now stays.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgUnneeded {
    /// The primary's map.
    pub epoch: Epoch,
    pub groups: Vec<PgId>,
}

message!(PgUnneeded = kind::PG_UNNEEDED, version 1 { epoch, groups });
