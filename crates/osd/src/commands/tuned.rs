//! Options that an OSD acts on while it runs.

use crate::OsdConfig;
use control::Settings;
use pg::Tuning;
use std::time::Duration;

/// Figures that options set.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Tuned {
    pub shards: Tuning,
    /// Periods of scrubs: light ones, and those that read everything. Zero: never.
    pub scrub_period: Duration,
    pub check_period: Duration,
    pub history: History,
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

/// Each option, and what it sets. A value that is out of bounds sets the nearest one within them.
const OPTIONS: &[(&str, fn(&mut Tuned, f64))] = &[
    ("osd_deep_scrub_interval", |it, value| it.check_period = seconds(value)),
    ("osd_max_backfills", |it, value| it.shards.healing_groups = count(value).max(1)),
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
    ("osd_scrub_min_interval", |it, value| it.scrub_period = seconds(value)),
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

/// Names of the options.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    OPTIONS.iter().map(|(name, _)| *name)
}

impl Tuned {
    /// The figures by an OSD's configuration, where nobody sets anything else.
    pub fn by(config: &OsdConfig, settings: &Settings) -> Tuned {
        let (scrub_period, check_period) = (config.scrub_period, config.check_period);
        let mut tuned = Tuned { shards: Tuning::default(), scrub_period, check_period, history: History::default() };
        for (name, set) in OPTIONS {
            if settings.is_set(name)
                && let Some(value) = settings.number(name)
            {
                set(&mut tuned, value);
            }
        }
        tuned
    }

    /// Sets a shard's figures.
    pub fn apply(&self, shard: &mut pg::Shard) {
        shard.set_tuning(self.shards);
        shard.set_check_period(self.check_period);
        shard.set_scrub_periods(self.scrub_period, self.check_period);
    }
}
