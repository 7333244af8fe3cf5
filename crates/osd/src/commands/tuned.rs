//! Options that an OSD acts on while it runs.

use crate::OsdConfig;
use crate::heartbeat::Pace;
use control::Settings;
use pg::Tuning;
use std::time::Duration;
use stdx::TimeZone;

/// Figures that options set.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Tuned {
    pub shards: Tuning,
    /// Periods of scrubs: light ones, and those that read everything. Zero: never.
    pub scrub_period: Duration,
    pub check_period: Duration,
    pub history: History,
    pub scrub_times: ScrubTimes,
    pub heartbeats: Pace,
}

/// Times at which scrubs begin that nobody has ordered.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct ScrubTimes {
    /// Hours of the local day: from the first on, until the second. Equal ones: all day.
    pub hours: (u32, u32),
    /// Days of the week, 0 is Sunday. Equal ones: every day.
    pub week_days: (u32, u32),
    /// Only while fewer tasks than this run on each processor.
    pub load_below: f64,
}

/// Tasks per processor that no machine has.
const NO_BOUND: f64 = 1000.0;

impl Default for ScrubTimes {
    fn default() -> ScrubTimes {
        ScrubTimes { hours: (0, 0), week_days: (0, 0), load_below: NO_BOUND }
    }
}

impl ScrubTimes {
    /// True if scrubs may begin at this hour and day of the week, with `load` tasks for each processor.
    pub fn admit(&self, (hour, week_day): (u32, u32), load: f64) -> bool {
        let is_within = |(from, until): (u32, u32), now: u32| match from < until {
            true => (from..until).contains(&now),
            false => now >= from || now < until,
        };
        is_within(self.hours, hour) && is_within(self.week_days, week_day) && load < self.load_below
    }

    /// True if scrubs may begin now. `unix`: time since 1970.
    fn admit_now<'a>(&self, zone: impl FnOnce() -> &'a TimeZone, unix: Duration) -> bool {
        // The machine is asked only where it matters.
        *self == ScrubTimes::default() || {
            let load = if self.load_below < NO_BOUND { stdx::load_per_processor() } else { None };
            self.admit(zone().hour_and_week_day(unix), load.unwrap_or_default())
        }
    }
}

/// Operations that the lists of past operations have.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct History {
    pub size: usize,
    pub duration: Duration,
    pub slow_size: usize,
    /// Operations that took as long or longer count as slow.
    pub slow_after: Duration,
}

impl Default for History {
    fn default() -> History {
        let (duration, slow_after) = (Duration::from_secs(600), Duration::from_secs(10));
        History { size: 20, duration, slow_size: 20, slow_after }
    }
}

/// Sets what an option is about.
type Setter = fn(&mut Tuned, f64);

/// Each option, and what it sets. A value that is out of bounds sets the nearest one within them.
const OPTIONS: &[(&str, Setter)] = &[
    ("osd_deep_scrub_interval", |it, value| it.check_period = seconds(value)),
    ("osd_deep_scrub_large_omap_object_key_threshold", |it, value| {
        it.shards.scrubs.large_omap_keys = count(value) as u64;
    }),
    ("osd_deep_scrub_large_omap_object_value_sum_threshold", |it, value| {
        it.shards.scrubs.large_omap_bytes = count(value) as u64;
    }),
    ("osd_ec_hedged_reads", |it, value| it.shards.hedged_reads = value != 0.0),
    ("osd_heartbeat_grace", |it, value| it.heartbeats.grace = seconds(value).max(Duration::from_secs(1))),
    ("osd_heartbeat_interval", |it, value| it.heartbeats.ask_every = seconds(value).max(Duration::from_secs(1))),
    ("osd_max_backfills", |it, value| it.shards.healing_groups = count(value).max(1)),
    ("osd_max_scrubs", |it, value| it.shards.scrubs.at_a_time = count(value)),
    ("osd_op_complaint_time", |it, value| it.shards.complain_after = seconds(value)),
    ("osd_op_history_duration", |it, value| it.history.duration = seconds(value)),
    ("osd_op_history_size", |it, value| it.history.size = count(value)),
    ("osd_op_history_slow_op_size", |it, value| it.history.slow_size = count(value)),
    ("osd_op_history_slow_op_threshold", |it, value| it.history.slow_after = seconds(value)),
    ("osd_recovery_max_active", |it, value| {
        // Zero leaves it to the OSD.
        if value >= 1.0 {
            it.shards.healing_objects = count(value);
        }
    }),
    ("osd_recovery_sleep", |it, value| it.shards.healing_pause = seconds(value)),
    ("osd_scrub_begin_hour", |it, value| it.scrub_times.hours.0 = number(value)),
    ("osd_scrub_begin_week_day", |it, value| it.scrub_times.week_days.0 = number(value)),
    ("osd_scrub_during_recovery", |it, value| it.shards.scrubs.while_healing = value != 0.0),
    ("osd_scrub_end_hour", |it, value| it.scrub_times.hours.1 = number(value)),
    ("osd_scrub_end_week_day", |it, value| it.scrub_times.week_days.1 = number(value)),
    ("osd_scrub_load_threshold", |it, value| it.scrub_times.load_below = value),
    ("osd_scrub_max_interval", |it, value| it.shards.scrubs.overdue_after = seconds(value)),
    ("osd_scrub_min_interval", |it, value| it.scrub_period = seconds(value)),
    ("osd_scrub_sleep", |it, value| it.shards.scrubs.pause = seconds(value)),
];

/// Most seconds that an option counts for: a thousand years.
const SECONDS_MAX: f64 = 3.2e10;

fn seconds(value: f64) -> Duration {
    Duration::from_secs_f64(if value.is_nan() { 0.0 } else { value.clamp(0.0, SECONDS_MAX) })
}

fn count(value: f64) -> usize {
    // Casts of fractions cut off, and keep to the bounds of the type.
    value as usize
}

fn number(value: f64) -> u32 {
    // Casts of fractions cut off, and keep to the bounds of the type.
    value as u32
}

/// Names of the options.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    OPTIONS.iter().map(|(name, _)| *name)
}

impl Tuned {
    /// The figures by an OSD's configuration, where nobody sets anything else.
    pub fn by(config: &OsdConfig, settings: &Settings) -> Tuned {
        let mut tuned = Tuned {
            shards: Tuning::default(),
            scrub_period: config.scrub_period,
            check_period: config.check_period,
            history: History::default(),
            scrub_times: ScrubTimes::default(),
            heartbeats: Pace::default(),
        };
        for (name, set) in OPTIONS {
            if settings.is_set(name)
                && let Some(value) = settings.number(name)
            {
                set(&mut tuned, value);
            }
        }
        tuned
    }

    /// Returns these figures for a time since 1970, because scrubs may be limited to some hours.
    pub fn at<'a>(mut self, zone: impl FnOnce() -> &'a TimeZone, unix: Duration) -> Tuned {
        self.shards.scrubs.in_time = self.scrub_times.admit_now(zone, unix);
        self
    }

    /// Sets a shard's figures.
    pub fn apply(&self, shard: &mut pg::Shard) {
        shard.set_tuning(self.shards);
        shard.set_check_period(self.check_period);
        shard.set_scrub_periods(self.scrub_period, self.check_period);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scrubs_have_hours_days_and_a_bound_on_the_load() {
        let times = ScrubTimes { hours: (22, 6), week_days: (1, 5), load_below: 0.5 };
        let night = |hour| times.admit((hour, 2), 0.1);
        assert_eq!([21, 22, 23, 0, 5, 6, 12].map(night), [false, true, true, true, true, false, false]);
        let day = |week_day| times.admit((23, week_day), 0.1);
        assert_eq!([0, 1, 4, 5, 6].map(day), [false, true, true, false, false]);
        assert!(!times.admit((23, 2), 0.5));
        let office = ScrubTimes { hours: (9, 17), ..ScrubTimes::default() };
        assert_eq!([8, 9, 16, 17].map(|hour| office.admit((hour, 0), 99.0)), [false, true, true, false]);
        assert!((0..24).all(|hour| ScrubTimes::default().admit((hour, 3), 999.0)));
        let all_day = ScrubTimes { hours: (7, 7), ..ScrubTimes::default() };
        assert!((0..24).all(|hour| all_day.admit((hour, 3), 999.0)));
    }
}
