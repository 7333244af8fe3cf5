//! OSDs that cannot be reached, as far as their peers can tell.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::OsdId;
use wire::nacre::mon::FAILURE_REPORT_LASTS;

/// A report that one OSD does not hear from another.
#[derive(Clone, Debug)]
struct FailureReport {
    /// CRUSH host of the reporter: reporters on one host may share one broken cable.
    host: String,
    at: Duration,
    immediate: bool,
}

/// Reports by target, then reporter.
#[derive(Clone, Default, Debug)]
pub struct FailureReports {
    reports: BTreeMap<OsdId, BTreeMap<OsdId, FailureReport>>,
}

impl FailureReports {
    /// Takes a report in. `immediate`: the target's host refused the connection.
    pub fn report(&mut self, target: OsdId, reporter: OsdId, host: &str, immediate: bool, now: Duration) {
        let report = FailureReport { host: host.to_owned(), at: now, immediate };
        self.reports.entry(target).or_default().insert(reporter, report);
    }

    /// Returns true if there are no reports.
    pub fn is_empty(&self) -> bool {
        self.reports.is_empty()
    }

    /// Forgets the reports about and by `osd`: it went down, or came up.
    pub fn forget(&mut self, osd: OsdId) {
        self.reports.remove(&osd);
        self.reports.retain(|_, reports| {
            reports.remove(&osd);
            !reports.is_empty()
        });
    }

    /// Returns the targets with an immediate report, or with reports from at least `hosts_needed` hosts.
    pub fn failed(&mut self, hosts_needed: usize, now: Duration) -> Vec<OsdId> {
        self.reports.retain(|_, reports| {
            reports.retain(|_, report| now.saturating_sub(report.at) < FAILURE_REPORT_LASTS);
            !reports.is_empty()
        });
        let failed = |reports: &BTreeMap<OsdId, FailureReport>| {
            let hosts: BTreeSet<&str> = reports.values().map(|report| report.host.as_str()).collect();
            reports.values().any(|report| report.immediate) || hosts.len() >= hosts_needed
        };
        self.reports.iter().filter(|(_, reports)| failed(reports)).map(|(target, _)| *target).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    #[test]
    fn two_hosts_must_agree_on_a_timeout() {
        let mut failures = FailureReports::default();
        failures.report(OsdId(0), OsdId(1), "a", false, secs(1));
        failures.report(OsdId(0), OsdId(2), "a", false, secs(1));
        assert_eq!(failures.failed(2, secs(2)), []);
        assert_eq!(failures.failed(1, secs(2)), [OsdId(0)]);
        failures.report(OsdId(0), OsdId(3), "b", false, secs(2));
        assert_eq!(failures.failed(2, secs(3)), [OsdId(0)]);
        assert_eq!(failures.failed(2, secs(11)), [], "two of them have become old");
    }

    #[test]
    fn a_refused_connection_is_enough() {
        let mut failures = FailureReports::default();
        failures.report(OsdId(0), OsdId(1), "a", true, secs(1));
        assert_eq!(failures.failed(2, secs(1)), [OsdId(0)]);
        failures.forget(OsdId(1));
        assert_eq!(failures.failed(2, secs(1)), []);
    }
}
