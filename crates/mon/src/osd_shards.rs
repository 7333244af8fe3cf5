//! Shards of OSDs, as far as they concern placement groups.
//!
//! An OSD merges groups that lie on the same one of its shards. They do as long as a pool has as many groups as the OSD
//! has shards. Therefore a pool that has as many groups keeps them.

use crate::state::MonState;
use types::OsdId;
use wire::nacre::mon::OSD_SHARDS;

/// Returns the OSD with the most shards, and their number; `None` if no OSD has reported more than one. OSDs that are
/// down count: they come back.
pub(crate) fn most(state: &MonState) -> Option<(OsdId, u32)> {
    let map = state.osdmaps.current();
    let told = state.osd_metadata.iter().filter(|(osd, _)| map.osd(**osd).is_some());
    let shards = told.filter_map(|(osd, metadata)| Some((*osd, metadata.get(OSD_SHARDS)?.parse().ok()?)));
    shards.max_by_key(|(_, shards)| *shards).filter(|(_, shards)| *shards > 1)
}

/// Returns the number of groups that a pool keeps, if it has as many.
pub(crate) fn groups_min(state: &MonState) -> u32 {
    most(state).map_or(1, |(_, shards)| shards)
}
