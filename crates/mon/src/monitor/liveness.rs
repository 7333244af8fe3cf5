//! The time at which each OSD was last heard of, and since when it is down.

use std::collections::BTreeMap;
use std::time::Duration;
use types::OsdId;
use wire::nacre::mon::BEACON_GRACE;

/// Clocks per OSD. They start anew with the monitor: a monitor that was away judges no OSD by its own absence.
#[derive(Clone, Default, Debug)]
pub struct Liveness {
    /// OSDs that are up, with the time at which they were last heard of.
    heard: BTreeMap<OsdId, Duration>,
    /// OSDs that are down but in, with the time since which they are.
    down: BTreeMap<OsdId, Duration>,
}

impl Liveness {
    /// Follows a new map: `up` and `down_and_in` are all such OSDs.
    pub fn follow(&mut self, up: impl Iterator<Item = OsdId>, down_and_in: impl Iterator<Item = OsdId>, now: Duration) {
        let renew = |clocks: &mut BTreeMap<OsdId, Duration>, osds: &mut dyn Iterator<Item = OsdId>| {
            let old = std::mem::take(clocks);
            *clocks = osds.map(|osd| (osd, old.get(&osd).copied().unwrap_or(now))).collect();
        };
        renew(&mut self.heard, &mut { up });
        renew(&mut self.down, &mut { down_and_in });
    }

    /// Records that the OSD is alive.
    pub fn heard(&mut self, osd: OsdId, now: Duration) {
        if let Some(at) = self.heard.get_mut(&osd) {
            *at = now;
        }
    }

    /// Counts all OSDs as heard of just now.
    pub fn hear_all(&mut self, now: Duration) {
        self.heard.values_mut().for_each(|at| *at = now);
    }

    /// Returns the OSDs that are up in the map but have been silent too long.
    pub fn silent(&self, now: Duration) -> Vec<OsdId> {
        let silent = |at: &Duration| now.saturating_sub(*at) >= BEACON_GRACE;
        self.heard.iter().filter(|(_, at)| silent(at)).map(|(osd, _)| *osd).collect()
    }

    /// Returns the OSDs that have been down, but in, for at least `interval`.
    pub fn down_for(&self, interval: Duration, now: Duration) -> Vec<OsdId> {
        let long = |since: &Duration| now.saturating_sub(*since) >= interval;
        self.down.iter().filter(|(_, since)| long(since)).map(|(osd, _)| *osd).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    #[test]
    fn clocks_follow_the_map() {
        let mut liveness = Liveness::default();
        let (a, b) = (OsdId(0), OsdId(1));
        liveness.follow([a, b].into_iter(), [].into_iter(), secs(5));
        liveness.heard(a, secs(20));
        assert_eq!(liveness.silent(secs(24)), []);
        assert_eq!(liveness.silent(secs(25)), [b]);
        liveness.follow([a].into_iter(), [b].into_iter(), secs(30));
        assert_eq!(liveness.silent(secs(39)), [], "a was heard of at 20");
        assert_eq!(liveness.down_for(secs(10), secs(39)), []);
        assert_eq!(liveness.down_for(secs(10), secs(40)), [b]);
        liveness.follow([a, b].into_iter(), [].into_iter(), secs(50));
        assert_eq!(liveness.down_for(secs(0), secs(60)), []);
        assert_eq!(liveness.silent(secs(60)), [a], "b's clock began when it came up");
    }
}
