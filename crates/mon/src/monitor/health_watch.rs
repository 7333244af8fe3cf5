//! Follows the cluster's health from second to second: alarms that come and go are written to the cluster log, and
//! mutes end.

use super::{Monitor, Now};
use crate::health::{self, HealthReport, Severity};
use crate::state::LogPriority;
use crate::update::Update;
use std::collections::BTreeMap;

/// Alarms at the last look: code and summary.
pub(super) type KnownAlarms = BTreeMap<&'static str, String>;

impl Monitor {
    pub(super) fn watch_health(&mut self, now: Now) {
        let report = health::evaluate(&self.state, &self.volatile);
        if !self.leads {
            // The leader writes the log; a follower only keeps up, to go on from here once it leads.
            self.alarms = report.checks.into_iter().map(|(code, check)| (code, check.summary)).collect();
            return;
        }
        self.end_mutes(&report);
        let mut known = std::mem::take(&mut self.alarms);
        for (code, check) in &report.checks {
            if known.remove(code).is_none() {
                let priority = if check.severity == Severity::Error { LogPriority::ERROR } else { LogPriority::WARN };
                self.note(now, priority, format!("Health check failed: {} ({code})", check.summary));
            }
        }
        let any_gone = !known.is_empty();
        for (code, summary) in known {
            self.note(now, LogPriority::INFO, format!("Health check cleared: {code} (was: {summary})"));
        }
        if any_gone && report.checks.is_empty() {
            self.note(now, LogPriority::INFO, "Cluster is now healthy".to_owned());
        }
        self.alarms = report.checks.into_iter().map(|(code, check)| (code, check.summary)).collect();
    }

    /// Ends mutes: each when its time is over, and one that is not sticky also when its alarm ends or gets worse.
    fn end_mutes(&mut self, report: &HealthReport) {
        for (code, mute) in &self.state.health_mutes {
            let over = mute.expires.is_some_and(|expires| expires <= self.volatile.now);
            let check = report.checks.get(code.as_str());
            let moved_on = check.is_none_or(|check| check.count > mute.count);
            if over || (!mute.sticky && moved_on) {
                self.proposals.update(Update::HealthMute { code: code.clone(), mute: None });
            }
        }
    }

    /// Writes a line to the cluster log with the next batch, if this monitor leads.
    pub(super) fn note(&mut self, now: Now, priority: LogPriority, message: String) {
        if self.leads {
            let line = self.log_line(now, priority, message);
            self.proposals.log(line);
        }
    }
}
