//! Copies of a group that were found while its record may be behind.

use crate::messages::peering::FoundCopy;
use std::collections::BTreeMap;
use std::time::Duration;
use types::OsdId;

/// What a primary has found out in an interval.
#[derive(Debug, Default)]
pub(crate) struct Doubt {
    /// What OSDs have, by those that have answered.
    pub(super) found: BTreeMap<OsdId, Vec<FoundCopy>>,
    pub(super) asked_at: Option<Duration>,
    /// The record, once it is known who has the group.
    pub(super) settled: bool,
    pub(super) look_at: Duration,
}

/// What this OSD and others have of a group.
pub(super) type FoundCopies = Vec<(OsdId, FoundCopy)>;
