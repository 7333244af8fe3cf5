//! Intervals of the beacons by which the monitors hear from an OSD.

use std::time::Duration;
use wire::nacre::mon::{BEACON_GRACE, OsdBeacon, pg_state};

/// Time between two beacons. Monitors take an OSD for dead that has sent none for [`BEACON_GRACE`].
const BEACON_EVERY: Duration = Duration::from_secs(5);
/// Time between two beacons while groups heal: the monitors then tell how far the groups are and what is left.
const HEALING_BEACON_EVERY: Duration = Duration::from_secs(1);
/// Limit of beacons per second, in all, from OSDs that heal. In a large cluster they send less often, so that the
/// monitors get no more beacons than from a thousand OSDs that do not heal.
const HEALING_BEACONS_PER_S: u32 = 200;

const _: () = assert!(
    3 * BEACON_EVERY.as_millis() < BEACON_GRACE.as_millis(),
    "an OSD that lives is not marked down because two of its beacons are late or lost"
);
const _: () = assert!(
    HEALING_BEACON_EVERY.as_millis() <= BEACON_EVERY.as_millis(),
    "the time between two beacons is clamped to this range"
);

/// Time from this beacon to the next one in a cluster of `osds` OSDs, if nothing happens meanwhile.
pub(crate) fn until_next(beacon: &OsdBeacon, osds: usize) -> Duration {
    let heals = |state: u64| state & (pg_state::RECOVERING | pg_state::BACKFILLING) != 0;
    if !beacon.pgs.iter().any(|report| heals(report.state)) {
        return BEACON_EVERY;
    }
    let share = Duration::from_secs(osds as u64) / HEALING_BEACONS_PER_S;
    share.clamp(HEALING_BEACON_EVERY, BEACON_EVERY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{Epoch, OsdId};
    use wire::nacre::mon::{OsdStats, PgReport};

    #[test]
    fn while_groups_heal_the_monitors_hear_more_often_within_what_they_can_bear() {
        let beacon = |state| OsdBeacon {
            osd: OsdId(0),
            epoch: Epoch(1),
            stats: OsdStats::default(),
            pgs: vec![PgReport { state, ..PgReport::default() }],
            options: None,
            pings: None,
        };
        let (healing, waiting) = (beacon(pg_state::BACKFILLING), beacon(pg_state::BACKFILL_WAIT));
        assert_eq!(until_next(&waiting, 6), Duration::from_secs(5));
        assert_eq!(until_next(&healing, 6), Duration::from_secs(1));
        assert_eq!(until_next(&healing, 600), Duration::from_secs(3));
        assert_eq!(until_next(&healing, 10_000), Duration::from_secs(5));
    }
}
