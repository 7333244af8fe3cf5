//! Progress of events that move objects, as bars with an estimate of their end.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use types::{OsdId, Utime};

/// The estimate goes by the pace during this share of the time in which anything moved, the last one, within these
/// bounds: it begins slowly, the pace changes with clients' load, and a short time says little. Of shares from a half
/// to all this one was the nearest to the truth in recorded recoveries.
const MEASURED_SHARE: f64 = 0.8;
const MEASURED_MIN: Duration = Duration::from_secs(4);
const MEASURED_MAX: Duration = Duration::from_secs(300);
/// Time after which an event that has caused nothing to move is taken to cause nothing.
const NOTHING_AFTER: Duration = Duration::from_secs(8);
/// Number of finished events that are remembered.
const KEPT: usize = 50;

/// One event that makes objects move.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct ProgressEvent {
    pub id: u64,
    pub message: String,
    pub began: Utime,
    /// Most bytes that were to be copied, and bytes that are left; every object counts as some.
    pub most: u64,
    pub left: u64,
    /// Bytes left at some times, oldest first.
    measured: VecDeque<(Utime, u64)>,
    /// Time at which it began to become less.
    moves_since: Option<Utime>,
}

/// All events.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Progress {
    pub events: Vec<ProgressEvent>,
    /// Finished events with the times at which they ended, oldest first.
    pub completed: VecDeque<(ProgressEvent, Utime)>,
    begun: u64,
    /// OSDs that data is placed on; `None` before the first map.
    placed_on: Option<BTreeSet<OsdId>>,
}

impl ProgressEvent {
    /// Returns the share that is done: 0 to 1.
    pub fn share(&self) -> f64 {
        if self.most == 0 { 0.0 } else { 1.0 - self.left as f64 / self.most as f64 }
    }

    /// Returns the estimated time from now to the end, if there is an estimate.
    pub fn remaining(&self, now: Utime) -> Option<Duration> {
        let ((first, before), (last, left)) = (self.measured.front()?, self.measured.back()?);
        let seconds = last.to_unix().saturating_sub(first.to_unix()).as_secs_f64();
        let made = before.checked_sub(*left).filter(|made| *made > 0 && seconds > 0.0)?;
        // The figures are OSDs' own: the time may be too large for a `Duration`.
        let at_last = Duration::try_from_secs_f64(*left as f64 * seconds / made as f64).ok()?;
        Some(at_last.saturating_sub(now.to_unix().saturating_sub(last.to_unix())))
    }

    fn measure(&mut self, left: u64, now: Utime) {
        if left > self.left {
            // Work was added, so the pace is measured anew.
            self.measured.clear();
        }
        if left >= self.most {
            // No object has moved yet: the groups are still peering. This time says nothing about the pace.
            self.measured.clear();
            self.moves_since = Some(now);
        }
        self.left = left;
        self.most = self.most.max(left);
        self.measured.push_back((now, left));
        let age = |at: Utime| now.to_unix().saturating_sub(at.to_unix());
        let moved_for = self.moves_since.map_or(Duration::ZERO, age);
        let measured_over = moved_for.mul_f64(MEASURED_SHARE).clamp(MEASURED_MIN, MEASURED_MAX);
        while self.measured.len() > 2 && age(self.measured[1].0) >= measured_over {
            self.measured.pop_front();
        }
    }
}

impl Progress {
    /// Follows a map that was made at `made`: data, if there is any, is placed on these OSDs. An old map begins no
    /// event.
    pub fn follow_map(&mut self, placed_on: BTreeSet<OsdId>, has_data: bool, made: Utime, now: Utime) {
        let is_news = has_data && now.to_unix().saturating_sub(made.to_unix()) < NOTHING_AFTER;
        if let Some(before) = self.placed_on.replace(placed_on.clone()).filter(|_| is_news) {
            let out = before.difference(&placed_on).map(|osd| (osd, "out"));
            let changed: Vec<_> = out.chain(placed_on.difference(&before).map(|osd| (osd, "in"))).collect();
            for (osd, how) in changed {
                self.begin(format!("Rebalancing after {osd} marked {how}"), now);
            }
        }
    }

    fn begin(&mut self, message: String, now: Utime) {
        self.begun += 1;
        self.events.push(ProgressEvent { id: self.begun, message, began: now, ..ProgressEvent::default() });
    }

    /// Takes in the bytes that are still to be copied. To be called about once a second.
    pub fn measure(&mut self, left: u64, moves: bool, now: Utime) {
        if left > 0 && moves && self.events.is_empty() {
            self.begin("Global Recovery Event".to_owned(), now);
        }
        for event in &mut self.events {
            event.measure(left, now);
        }
        let age = |event: &ProgressEvent| now.to_unix().saturating_sub(event.began.to_unix());
        let is_over = |event: &mut ProgressEvent| event.left == 0 && (event.most > 0 || age(event) >= NOTHING_AFTER);
        for event in self.events.extract_if(.., is_over) {
            if event.most > 0 {
                self.completed.push_back((event, now));
            }
        }
        while self.completed.len() > KEPT {
            self.completed.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Utime {
        Utime::from_unix(Duration::from_secs(1_700_000_000 + seconds))
    }

    fn osds(osds: &[i32]) -> BTreeSet<OsdId> {
        osds.iter().copied().map(OsdId).collect()
    }

    #[test]
    fn the_estimate_holds_while_the_pace_does() {
        let mut progress = Progress::default();
        progress.follow_map(osds(&[0, 1, 2]), true, at(0), at(0));
        assert!(progress.events.is_empty(), "the first map is no news");
        progress.follow_map(osds(&[0, 1]), true, at(14), at(14));
        for second in 14..20 {
            progress.measure(0, false, at(second));
        }
        // The pace is 100 bytes a second, after some seconds in which nothing moved.
        for second in 20..60u64 {
            let left = 4000 - 100 * (second - 20);
            progress.measure(left, true, at(second));
            let event = &progress.events[0];
            assert_eq!(event.message, "Rebalancing after osd.2 marked out");
            if [30, 40, 50].contains(&second) {
                let remaining = event.remaining(at(second)).unwrap().as_secs_f64();
                assert!((remaining / (left as f64 / 100.0) - 1.0).abs() < 0.05, "at {second}: {remaining}");
                assert!((event.share() - (second - 20) as f64 / 40.0).abs() < 0.01);
            }
        }
        progress.measure(0, false, at(60));
        assert!(progress.events.is_empty());
        assert_eq!(progress.completed.len(), 1);
    }

    #[test]
    fn the_estimate_follows_the_pace_and_begins_with_the_first_bytes() {
        let mut progress = Progress::default();
        // Nothing moves for five seconds; twenty go at one pace, the rest at twice that.
        let left_at = |second: u64| match second {
            0..5 => 6000,
            5..25 => 6000 - 100 * (second - 5),
            _ => 4000 - 200 * (second - 25),
        };
        for second in 0..45 {
            progress.measure(left_at(second), true, at(second));
            let truth = match second {
                8 => 5700.0 / 100.0,
                42.. => left_at(second) as f64 / 200.0,
                _ => continue,
            };
            let remaining = progress.events[0].remaining(at(second)).unwrap().as_secs_f64();
            assert!((remaining / truth - 1.0).abs() < 0.3, "at {second}: {remaining}, {truth} is left");
        }
    }

    #[test]
    fn old_maps_and_those_without_data_move_nothing() {
        let mut progress = Progress::default();
        progress.follow_map(osds(&[]), false, at(0), at(0));
        progress.follow_map(osds(&[0, 1, 2]), false, at(1), at(1));
        progress.follow_map(osds(&[0, 1]), true, at(2), at(60));
        assert!(progress.events.is_empty(), "{:?}", progress.events);
        progress.follow_map(osds(&[0]), true, at(59), at(60));
        assert_eq!(progress.events.len(), 1);
    }

    #[test]
    fn what_moves_nothing_is_no_event_for_long_and_what_moves_is_one() {
        let mut progress = Progress::default();
        progress.follow_map(osds(&[0]), true, at(0), at(0));
        progress.follow_map(osds(&[0, 1]), true, at(1), at(1));
        (1..40).for_each(|second| progress.measure(0, false, at(second)));
        assert!(progress.events.is_empty() && progress.completed.is_empty());
        progress.measure(7, false, at(40));
        assert!(progress.events.is_empty(), "degraded, but nobody heals");
        progress.measure(7, true, at(41));
        assert_eq!(progress.events[0].message, "Global Recovery Event");
        assert_eq!(progress.events[0].remaining(at(41)), None);
    }
}
