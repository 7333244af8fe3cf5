//! The alarm about daemons that ended by themselves.

use super::{HealthReport, Severity};
use crate::crashes;
use crate::{MonState, Volatile};

/// Most lines of detail.
const NAMED: usize = 30;

pub(super) fn check(state: &MonState, volatile: &Volatile, report: &mut HealthReport) {
    let recent = crashes::recent(state, volatile.now);
    if recent.is_empty() {
        return;
    }
    let summary = format!("{} daemons have recently crashed", recent.len());
    let line = |crash: &crashes::Crash| {
        let [entity, host, at] = ["entity_name", "utsname_hostname", "timestamp"].map(|field| crash.text(field));
        format!("{entity} crashed on host {host} at {at}")
    };
    let mut detail: Vec<String> = recent.iter().take(NAMED).map(line).collect();
    if recent.len() > NAMED {
        detail.push(format!("and {} more", recent.len() - NAMED));
    }
    report.raise("RECENT_CRASH", Severity::Warn, summary, detail);
}
