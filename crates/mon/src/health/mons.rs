//! Alarms about the monitors themselves.

use super::{HealthReport, Severity};
use crate::bounds::STATE_BYTES_MAX;
use crate::{MonState, Volatile};
use wire::nacre::mon::doubt;

/// Largest difference of clocks without an alarm, in seconds, unless `mon_clock_drift_allowed` says otherwise.
const DRIFT_ALLOWED_S: f64 = 0.05;

pub(super) fn check(state: &MonState, volatile: &Volatile, report: &mut HealthReport) {
    let (map, quorum) = (&state.monmap, &volatile.quorum);
    let absent = quorum.absent(map);
    if !absent.is_empty() && !quorum.members.is_empty() {
        let names = quorum.names(map).join(",");
        let summary = format!("{}/{} mons down, quorum {names}", absent.len(), map.mons.len());
        let detail = absent.iter().map(|name| {
            let addrs = map.mons.get(*name).map(|mon| mon.addrs.to_string()).unwrap_or_default();
            format!("mon.{name} (rank {}) addr {addrs} is down (out of quorum)", map.rank(name).unwrap_or(0))
        });
        report.raise("MON_DOWN", Severity::Warn, summary, detail.collect());
    }
    if state.in_doubt {
        let behind = state.pgs.values().filter(|record| record.doubt == doubt::BEHIND).count();
        let summary = "what the surviving monitor knows is not confirmed".to_owned();
        let detail =
            vec![
            format!("{behind} placement groups' records may be behind: they wait for all OSDs, or go by what those \
                     have"),
            "OSDs keep all copies of placement groups, and data of pools that this monitor has not heard of; no pool \
             is made".to_owned(),
            "once all OSDs are up and all placement groups active+clean, `ceph mon confirm-survivor \
             --yes-i-really-mean-it` ends that"
                .to_owned(),
        ];
        report.raise_counted("MON_SURVIVOR_UNCONFIRMED", Severity::Warn, summary, 1, detail);
    }
    let (bytes, max) = (state.bytes(), STATE_BYTES_MAX);
    if bytes > max / 4 * 3 {
        let summary = "the monitors' state is getting too big".to_owned();
        let detail = format!(
            "the monitors' state has {} MiB and may have {}: what would make it larger is refused then. `ceph \
             config-key ls`, `ceph config dump`, `ceph auth ls` and `ceph osd dump` show what is in it",
            bytes >> 20,
            max >> 20
        );
        report.raise("MON_DISK_BIG", Severity::Warn, summary, vec![detail]);
    }
    let configured = state.mon_option(&volatile.name, "mon_clock_drift_allowed").and_then(|text| text.parse().ok());
    let allowed = configured.filter(|allowed: &f64| *allowed > 0.0).unwrap_or(DRIFT_ALLOWED_S);
    let skewed = quorum.clocks.iter().filter(|(name, clock)| {
        clock.skew_s() > allowed && map.mons.contains_key(*name) && quorum.members.contains(*name)
    });
    let skewed: Vec<_> = skewed.collect();
    if !skewed.is_empty() {
        let names: Vec<String> = skewed.iter().map(|(name, _)| format!("mon.{name}")).collect();
        let detail = skewed.iter().map(|(name, clock)| {
            let (skew, latency) = (clock.ahead_s.abs(), clock.latency_s);
            format!("mon.{name} clock skew {skew:.6}s > max {allowed}s (latency {latency:.6}s)")
        });
        let detail = detail.collect();
        report.raise("MON_CLOCK_SKEW", Severity::Warn, format!("clock skew detected on {}", names.join(", ")), detail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volatile::ClockSample;

    fn three() -> (MonState, Volatile) {
        let mut state = MonState::default();
        for (port, name) in (3300..).zip(["a", "b", "c"]) {
            state.monmap.add(name, format!("v2:127.0.0.1:{port}/0").parse().unwrap());
        }
        let mut volatile = Volatile { name: "a".to_owned(), ..Volatile::default() };
        volatile.quorum.report.members = ["a", "b", "c"].map(String::from).into();
        (state, volatile)
    }

    #[test]
    fn who_is_silent_is_named_as_ceph_names_it() {
        let (state, mut volatile) = three();
        let mut report = HealthReport::default();
        check(&state, &volatile, &mut report);
        assert!(report.checks.is_empty());
        volatile.quorum.report.members.remove("b");
        check(&state, &volatile, &mut report);
        let check = &report.checks["MON_DOWN"];
        assert_eq!(check.summary, "1/3 mons down, quorum a,c");
        assert_eq!(check.detail, ["mon.b (rank 1) addr v2:127.0.0.1:3301/0 is down (out of quorum)"]);
    }

    #[test]
    fn clocks_that_differ_are_warned_of() {
        let (mut state, mut volatile) = three();
        volatile.quorum.clocks.insert("b".into(), ClockSample { ahead_s: 0.01, latency_s: 0.001 });
        volatile.quorum.clocks.insert("c".into(), ClockSample { ahead_s: -0.5, latency_s: 0.001 });
        let mut report = HealthReport::default();
        check(&state, &volatile, &mut report);
        let skewed = &report.checks["MON_CLOCK_SKEW"];
        assert_eq!(skewed.summary, "clock skew detected on mon.c");
        assert_eq!(skewed.detail, ["mon.c clock skew 0.500000s > max 0.05s (latency 0.001000s)"]);
        state.config.set("mon", "mon_clock_drift_allowed", Some("1"));
        let mut report = HealthReport::default();
        check(&state, &volatile, &mut report);
        assert!(report.checks.is_empty());
    }
}
