//! The cluster's health, with Ceph's codes and sentences.

mod crashes;
mod mons;
mod osds;
mod pgs;
mod pings;
mod pools;

pub use pgs::age;
pub(crate) use pings::slow_us;

use crate::{MonState, Volatile};
use std::collections::BTreeMap;

/// Returns all alarms that the state and the statistics give reason for.
pub fn evaluate(state: &MonState, volatile: &Volatile) -> HealthReport {
    let mut report = HealthReport::default();
    crashes::check(state, volatile, &mut report);
    mons::check(state, volatile, &mut report);
    osds::check(state, volatile, &mut report);
    pings::check(state, volatile, &mut report);
    pools::check(state, volatile, &mut report);
    pgs::check(state, volatile, &mut report);
    let mutes = state.health_mutes.iter();
    let lasting = mutes.filter(|(_, mute)| mute.expires.is_none_or(|expires| expires > volatile.now));
    report.muted = lasting.map(|(code, _)| code.clone()).collect();
    report
}

/// Returns true if alarms of a kind are wanted: they are unless the option is off.
fn warns(state: &MonState, option: &str) -> bool {
    !matches!(state.mon_option("", option), Some("false" | "0" | "no" | "off"))
}

/// Severity of an alarm.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Severity {
    #[default]
    Ok,
    Warn,
    Error,
}

impl Severity {
    /// Returns `HEALTH_OK`, `HEALTH_WARN` or `HEALTH_ERR`.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Ok => "HEALTH_OK",
            Severity::Warn => "HEALTH_WARN",
            Severity::Error => "HEALTH_ERR",
        }
    }

    /// Returns the tag before an alarm in `ceph health detail`.
    pub fn tag(self) -> &'static str {
        match self {
            Severity::Ok => "[OK]",
            Severity::Warn => "[WRN]",
            Severity::Error => "[ERR]",
        }
    }
}

/// One alarm.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HealthCheck {
    pub severity: Severity,
    /// One line: `1 osds down`.
    pub summary: String,
    /// Number of things it is about.
    pub count: i64,
    /// One line per thing, for `ceph health detail`.
    pub detail: Vec<String>,
}

/// All alarms, by code (`OSD_DOWN`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HealthReport {
    pub checks: BTreeMap<&'static str, HealthCheck>,
    /// Codes that are muted at present.
    pub muted: Vec<String>,
}

impl HealthReport {
    /// Returns the worst severity of the alarms that are not muted.
    pub fn status(&self) -> Severity {
        let heard = self.checks.iter().filter(|(code, _)| !self.is_muted(code));
        heard.map(|(_, check)| check.severity).max().unwrap_or_default()
    }

    pub fn is_muted(&self, code: &str) -> bool {
        self.muted.iter().any(|muted| muted == code)
    }

    /// Adds an alarm. Panics if the code is there already: each is raised in one place.
    pub fn raise(&mut self, code: &'static str, severity: Severity, summary: String, detail: Vec<String>) {
        let count = detail.len().max(1);
        self.raise_counted(code, severity, summary, count, detail);
    }

    /// Adds an alarm whose detail is not one line per thing; else as [`HealthReport::raise`].
    pub fn raise_counted(
        &mut self,
        code: &'static str,
        severity: Severity,
        summary: String,
        count: usize,
        detail: Vec<String>,
    ) {
        let check = HealthCheck { severity, summary, count: count as i64, detail };
        assert!(self.checks.insert(code, check).is_none(), "{code} raised twice");
    }
}
