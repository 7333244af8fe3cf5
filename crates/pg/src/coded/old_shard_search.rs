//! Search for OSDs that served before, with their shards.

use super::gatherer::Gatherer;
use crate::agreement::coded_log::served_before;
use crate::context::Context;
use mutant::Mutant;
use std::collections::BTreeMap;
use types::{Epoch, OsdId};

impl Gatherer<'_> {
    /// Finds out who is there. Returns true where somebody has come, or time has passed: what could not be read may be
    /// tried again.
    pub(super) fn finds_old_shards(&mut self, cx: &Context<'_>) -> bool {
        let has_shards = !self.core.protection().is_whole_on_each();
        if !has_shards || !self.peering.may_recover() || mutant::is(Mutant::OldShardsIgnored) {
            return false;
        }
        let Some(history) = self.peering.history() else { return false };
        let is_old = |(osd, shard): &(OsdId, u8)| self.core.interval.shard_of(*osd) != Some(*shard);
        let up_from = |osd: OsdId| cx.map.osd(osd).filter(|_| cx.map.is_up(osd)).map(|known| known.info.up_from);
        let there = served_before(history).filter(is_old).filter_map(|holder| Some((holder, up_from(holder.0)?)));
        let there: BTreeMap<(OsdId, u8), Epoch> = there.collect();
        self.state.old_shards.are_there(there, cx.now)
    }
}
