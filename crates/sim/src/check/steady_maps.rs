//! The OSD map comes to rest. Groups that want one acting set, then another, again and again, would make maps without
//! end.

use super::Violation;
use std::collections::VecDeque;
use std::time::Duration;
use types::Epoch;

/// The time over which maps are counted.
const WINDOW: Duration = Duration::from_secs(30);
/// The most maps within [`WINDOW`] in a cluster without groups: several times as many as misfortunes have ever caused.
const MAPS_MAX: u32 = 200;
/// Further maps that each group may cause, if the operator wants all groups moved again and again.
const MAPS_PER_GROUP: u32 = 4;

/// The epochs seen within the last [`WINDOW`].
#[derive(Debug)]
pub struct SteadyMaps {
    maps_max: u32,
    seen: VecDeque<(Duration, Epoch)>,
}

impl SteadyMaps {
    /// For a cluster of at most `groups` groups.
    pub fn of(groups: u32) -> SteadyMaps {
        SteadyMaps { maps_max: MAPS_MAX + MAPS_PER_GROUP * groups, seen: VecDeque::new() }
    }

    /// Takes the newest epoch that anybody has. `now` must not be before the last call's.
    pub fn look(&mut self, now: Duration, epoch: Epoch) -> Result<(), Violation> {
        if self.seen.back().is_none_or(|(_, last)| *last != epoch) {
            self.seen.push_back((now, epoch));
        }
        while self.seen.len() > 1 && now.saturating_sub(self.seen[1].0) >= WINDOW {
            self.seen.pop_front();
        }
        let maps = epoch.0 - self.seen.front().map_or(epoch.0, |(_, first)| first.0);
        if maps > self.maps_max {
            return Err(Violation(format!(
                "{maps} maps within {WINDOW:?}, up to epoch {epoch}: the map never comes to rest"
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_maps_are_a_fault_only_within_a_short_time() {
        let mut maps = SteadyMaps::of(0);
        for second in 0..1000 {
            // Five maps a second for a minute, then two a second.
            let epoch = if second < 60 { 5 * second } else { 300 + (second - 60) * 2 };
            assert_eq!(maps.look(Duration::from_secs(second), Epoch(epoch as u32)), Ok(()));
        }
        let mut maps = SteadyMaps::of(0);
        let flaps = (0..100).map(|second| maps.look(Duration::from_secs(second), Epoch(20 * second as u32)));
        assert!(flaps.into_iter().any(|outcome| outcome.is_err_and(|fault| fault.check() == "the map comes to rest")));
    }
}
