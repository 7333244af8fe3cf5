//! Progress of the reading of a group's table, and reasons why it cannot be read.

use crate::messages::PgInterval;
use crate::messages::peering::Agreed;
use bytes::Bytes;
use std::collections::BTreeMap;
use store::LookupId;
use store::btree::Damage;
use types::{EVersion, OsdId, PgId};
use wire::DecodeError;

/// Why a group's table cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("pg {pg}: {what} in its table is damaged: {source}")]
    Damaged { pg: PgId, what: &'static str, source: DecodeError },
    #[error("pg {pg}: its log ends at {log} and its information at {info}")]
    LogEnd { pg: PgId, log: EVersion, info: EVersion },
    #[error("pg {pg}: log entry {entry} cannot follow {head}")]
    LogGap { pg: PgId, entry: EVersion, head: EVersion },
    #[error("pg {pg}: its table cannot be read: {damage}")]
    Unreadable { pg: PgId, damage: Damage },
}

/// Progress of the reading of a group's table.
#[derive(Debug)]
pub(crate) struct Loading {
    pub(super) part: Part,
    pub(super) waits_for: Option<LookupId>,
    /// Primaries that have asked what this member has: the newest question of each.
    pub(super) queries: BTreeMap<OsdId, (PgInterval, Agreed)>,
    /// The table is read to be merged with others: the group as such takes part in nothing.
    pub(super) to_merge: bool,
}

/// The part that is asked for next.
#[derive(Clone, Debug)]
pub(super) enum Part {
    /// No part: what belongs to the group is still in the table of another group, or in several tables.
    Others,
    Info,
    /// Entries up to the log's tail, from this key on: requests that were carried out.
    Dups(Bytes),
    /// Entries behind the log's head.
    Log,
    /// Missing objects, from this key on.
    Missing(Bytes),
    /// Objects of which only some had come when the OSD stopped, from this key on: they are dropped.
    Received(Bytes),
    Scrub,
    /// No part: the store has no table of the group.
    Nothing,
}
