//! The OSD map comes to rest: groups that want one acting set and then another, again and again, make maps without end.

use super::Violation;
use std::collections::VecDeque;
use std::time::Duration;
use types::Epoch;

/// Maps are counted over so long.
const WINDOW: Duration = Duration::from_secs(30);
/// Several times what misfortunes have given reason for,
const MAPS_MAX: u32 = 200;
/// and what as many groups as this add to it that are all moved again and again, as the operator wants.
const MAPS_PER_GROUP: u32 = 4;

/// The epochs of the last [`WINDOW`].
#[derive(Debug)]
pub struct SteadyMaps {
    maps_max: u32,
    seen: VecDeque<(Duration, Epoch)>,
}

impl SteadyMaps {
    /// Of a cluster of so many groups at most.
    pub fn of(groups: u32) -> SteadyMaps {
        SteadyMaps { maps_max: MAPS_MAX + MAPS_PER_GROUP * groups, seen: VecDeque::new() }
    }

    /// Looks at the newest epoch that anybody has, at a time that is not before the last one.
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
            // Five a second for a while, then fewer.
            let epoch = if second < 60 { 5 * second } else { 300 + (second - 60) * 2 };
            assert_eq!(maps.look(Duration::from_secs(second), Epoch(epoch as u32)), Ok(()));
        }
        let mut maps = SteadyMaps::of(0);
        let flaps = (0..100).map(|second| maps.look(Duration::from_secs(second), Epoch(20 * second as u32)));
        assert!(flaps.into_iter().any(|outcome| outcome.is_err_and(|fault| fault.check() == "the map comes to rest")));
    }
}
