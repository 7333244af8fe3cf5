//! Copies of a group that were found while its record may be behind.

use crate::messages::peering::FoundCopy;
use std::collections::BTreeMap;
use std::time::Duration;
use types::OsdId;

/// A primary's findings of an interval.
#[derive(Debug, Default)]
pub(crate) struct Doubt {
    /// Copies that OSDs have, by the OSDs that have answered.
    pub(super) found: BTreeMap<OsdId, Vec<FoundCopy>>,
    pub(super) asked_at: Option<Duration>,
    /// The record, once it is known who has the group.
    pub(super) settled: bool,
    pub(super) look_at: Duration,
}

/// Copies of a group that this OSD and others have.
pub(super) type FoundCopies = Vec<(OsdId, FoundCopy)>;
