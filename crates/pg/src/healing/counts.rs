//! Counts of the copies that a group lacks, or does not have where they should be.

use crate::agreement::members::Standing;
use crate::healing::whereabouts::Whereabouts;
use types::{ObjectId, OsdId};

impl Whereabouts<'_> {
    /// Counts copies that are lacking, and copies that are only not where they should be.
    pub(crate) fn degraded_and_misplaced(self) -> (u64, u64) {
        let objects = self.core.info.stats.objects.max(0) as u64;
        let size = u64::from(self.core.interval.shape.size);
        let missing = (self.core.missing.len() + self.members.missing_count()) as u64;
        if !self.peering.may_recover() {
            let members = self.core.interval.acting.iter().filter(|osd| osd.is_some()).count() as u64;
            return (objects * size.saturating_sub(members) + missing, 0);
        }
        let serving = self.serving_copies() as u64;
        let mut left: Vec<u64> =
            self.members.iter().filter_map(|(osd, standing)| self.left_for(osd, standing)).collect();
        left.sort_unstable();
        let lacking = size.saturating_sub(serving);
        let coming: Vec<u64> = left.drain(..left.len().min(lacking as usize)).collect();
        let nowhere = objects * (lacking - coming.len() as u64);
        (nowhere + coming.iter().sum::<u64>() + missing, left.iter().sum::<u64>() + self.on_stand_ins())
    }

    /// Counts the copies on serving members that the map does not want there and has no other OSD for. A map that wants
    /// the group nowhere says nothing about places.
    fn on_stand_ins(self) -> u64 {
        let interval = &self.core.interval;
        if interval.up.is_empty() {
            return 0;
        }
        let objects = self.core.info.stats.objects.max(0) as u64;
        let lacked_by = |osd: OsdId| match interval.primary == Some(osd) {
            true => Some(self.core.missing.len()),
            false => (self.members.standing(osd)? == Standing::Serving).then(|| self.members.missing(osd).count()),
        };
        let not_wanted = interval.acting.iter().filter(|osd| osd.is_some() && !interval.up.contains(osd));
        let lacked = not_wanted.filter_map(|osd| lacked_by(*osd)).take(interval.stand_ins_wanted());
        lacked.map(|lacked| objects.saturating_sub(lacked as u64)).sum()
    }

    /// Returns about how many objects a member that is backfilled does not have yet: objects lie evenly in their order.
    fn left_for(self, osd: OsdId, standing: Standing) -> Option<u64> {
        let objects = self.core.info.stats.objects.max(0) as u64;
        match standing {
            Standing::Serving => None,
            Standing::Behind => Some(objects),
            Standing::Backfilled(_) => Some(0),
            Standing::Backfilling => {
                let queue = self.state.pushes.get(&osd)?;
                let compared = &queue.backfill.as_ref()?.compared;
                let walked = (objects as f64 * self.share_before(compared)).round() as u64;
                Some((objects.saturating_sub(walked) + queue.queue.len() as u64).min(objects))
            }
        }
    }

    /// Returns the share of the group's range that lies before a cursor.
    fn share_before(self, cursor: &ObjectId) -> f64 {
        let (begin, end) = self.core.range();
        if *cursor <= begin {
            return 0.0;
        }
        if *cursor >= end {
            return 1.0;
        }
        let at = |object: &ObjectId| u64::from(object.hash.reverse_bits());
        // A range that ends where the pool does ends behind the last hash.
        let last = if end.max || end.pool != begin.pool { 1 << 32 } else { at(&end) };
        at(cursor).saturating_sub(at(&begin)) as f64 / (last - at(&begin)).max(1) as f64
    }
}
