//! Reports of an OSD to the monitors: its beacons, and what they tell now and then.

use super::Running;
use crate::beacon;
use reactor::Io;
use std::time::Duration;
use wire::nacre::mon::{OptionReport, PingReport};
use wire::{Message, Target};

/// Delay of a report after groups changed their states. Changes of about the same moment then share a beacon.
pub(super) const REPORT_AFTER: Duration = Duration::from_millis(100);

/// Time after which monitors are told all options again: one may have missed them that leads now.
const TELL_OPTIONS_EVERY: Duration = Duration::from_secs(60);

/// Time after which monitors are told anew how long other OSDs take to answer: it changes with each minute.
const TELL_PINGS_EVERY: Duration = Duration::from_secs(60);
/// Most times of answers in one report.
const PINGS_TOLD_MAX: usize = 300;

/// Returns the slowest answers of all, as many as one report has.
fn slowest(mut pings: Vec<PingReport>) -> Vec<PingReport> {
    pings.sort_by_key(|ping| std::cmp::Reverse(ping.slowest_us()));
    pings.truncate(PINGS_TOLD_MAX);
    pings
}

impl Running {
    /// Sends a beacon if it is time. Returns when the next one is due.
    pub(super) fn beacon_if_due(&mut self, io: &impl Io) -> Duration {
        let now = io.now();
        if self.shard.has_reports() || self.others.has_reports() {
            self.beacon_at = self.beacon_at.min(now + REPORT_AFTER);
        }
        if now >= self.beacon_at && self.monitor.is_open() {
            let mut beacon = self.shard.beacon(self.peers.len() as u64, 0);
            self.others.add_to_beacon(&mut beacon);
            beacon.options = self.options_to_tell(now);
            beacon.pings = self.pings_to_tell(io);
            self.beacon_at = now + beacon::until_next(&beacon, self.shard.map().up_osds().count());
            self.monitor.send(&mut self.public.messenger, beacon.seal(0, Target::default()));
        }
        self.beacon_at
    }

    /// Returns the options that the next beacon tells; `None` if the monitors have heard of them lately.
    fn options_to_tell(&mut self, now: Duration) -> Option<Vec<OptionReport>> {
        // A monitor that does not take this OSD for up yet forgets what it hears.
        let is_heard = self.was_up && self.shard.map().is_up(self.shard.whoami());
        let commands = &mut self.commands;
        let tells = commands.tells_options || now >= commands.options_told_at + TELL_OPTIONS_EVERY;
        if tells && is_heard {
            (commands.tells_options, commands.options_told_at) = (false, now);
        }
        tells.then(|| commands.option_report.clone())
    }

    /// Returns the time that other OSDs take to answer, if the monitors have not heard of it for a minute.
    fn pings_to_tell(&mut self, io: &impl Io) -> Option<Vec<PingReport>> {
        let (now, wall) = (io.now(), io.wall_clock());
        // A monitor that does not take this OSD for up yet forgets what it hears.
        let is_heard = self.was_up && self.shard.map().is_up(self.shard.whoami());
        let is_late = self.commands.pings_told_at.is_none_or(|at| now >= at + TELL_PINGS_EVERY);
        let pings = self.commands.board.as_ref().filter(|_| is_heard && is_late)?.ping_times();
        // Without any, and none told before, there is nothing to take back.
        if pings.is_empty() && !self.commands.pings_are_known {
            return None;
        }
        self.commands.pings_told_at = Some(now);
        self.commands.pings_are_known = !pings.is_empty();
        Some(slowest(pings.iter().map(|view| view.report(wall)).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{OsdId, Utime};
    use wire::nacre::mon::PingTook;

    #[test]
    fn a_report_has_the_slowest_answers_where_there_are_too_many() {
        let ping = |osd: i32| {
            let took = PingTook { average_us: osd as u32, least_us: 0, most_us: 0 };
            let (one, five, fifteen) = (took, took, took);
            let (osd, answered_at) = (OsdId(osd), Utime::ZERO);
            PingReport { osd, is_front: false, one, five, fifteen, last_us: 0, answered_at }
        };
        let told = slowest((0..1000).map(ping).collect());
        assert_eq!((told.len(), told[0].osd, told[299].osd), (PINGS_TOLD_MAX, OsdId(999), OsdId(700)));
    }
}
