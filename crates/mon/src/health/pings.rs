//! Alarms about OSDs that take long to answer each other, on either network.

use super::{HealthReport, Severity};
use crate::{MonState, Volatile};
use osdmap::OsdMap;
use std::collections::BTreeSet;
use types::OsdId;
use wire::nacre::mon::PingReport;

/// Seconds that an OSD has to answer another one, unless an operator says otherwise.
const GRACE_S: f64 = 7.0;
/// Share of these from which on an answer is slow, and minutes for each of their seconds after which a report is old.
const SLOW_RATIO: f64 = 0.05;
const OLD_AFTER_PER_GRACE: f64 = 60.0;
/// Most pairs of OSDs that are named.
const NAMED: usize = 10;
/// Levels of the CRUSH map that say little about where an OSD is: all are below the one, and each is below another
/// one of the other.
const LEVELS_LEFT_OUT: [&str; 2] = ["root", "host"];

/// A network, and its alarm.
struct Alarm {
    code: &'static str,
    network: &'static str,
    is_front: bool,
}

const ALARMS: [Alarm; 2] = [
    Alarm { code: "OSD_SLOW_PING_TIME_BACK", network: "back", is_front: false },
    Alarm { code: "OSD_SLOW_PING_TIME_FRONT", network: "front", is_front: true },
];

/// Returns an option that is set for monitors, or else for `other` daemons, whose it is on a Ceph.
fn number(state: &MonState, name: &str, other: &str) -> Option<f64> {
    let text = state.mon_option("", name).or_else(|| state.config.option_of(other, "", name));
    text?.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

/// Returns the seconds that an OSD has to answer another one.
fn grace_s(state: &MonState) -> f64 {
    number(state, "osd_heartbeat_grace", "osd").unwrap_or(GRACE_S)
}

/// Returns the microseconds from which on an answer is slow; 0: none is.
pub(crate) fn slow_us(state: &MonState) -> f64 {
    match number(state, "mon_warn_on_slow_ping_time", "mgr").filter(|ms| *ms > 0.0) {
        Some(ms) => ms * 1e3,
        None => grace_s(state) * number(state, "mon_warn_on_slow_ping_ratio", "mgr").unwrap_or(SLOW_RATIO) * 1e6,
    }
}

pub(super) fn check(state: &MonState, volatile: &Volatile, report: &mut HealthReport) {
    let (grace_s, slow_us) = (grace_s(state), slow_us(state));
    if slow_us <= 0.0 {
        return;
    }
    let now = volatile.now.to_unix();
    let is_fresh = |ping: &PingReport| {
        now.saturating_sub(ping.answered_at.to_unix()).as_secs_f64() <= grace_s * OLD_AFTER_PER_GRACE
    };
    let map = state.osdmap();
    for Alarm { code, network, is_front } in ALARMS {
        let told = volatile.pings.iter().flat_map(|(from, pings)| pings.iter().map(|ping| (*from, ping)));
        let told = told.filter(|(_, ping)| ping.is_front == is_front && is_fresh(ping));
        let slow = told.map(|(from, ping)| (ping.slowest_us(), from, ping)).filter(|(us, ..)| f64::from(*us) > slow_us);
        let mut slow: Vec<_> = slow.collect();
        slow.sort_by_key(|(us, from, ping)| std::cmp::Reverse((*us, *from, ping.osd)));
        let Some((longest_us, ..)) = slow.first() else { continue };
        let mut detail: Vec<String> = slow.iter().take(NAMED).map(|slow| line(map, network, slow)).collect();
        if slow.len() > NAMED {
            let all = "Truncated long network list.  Use `ceph tell mgr dump_osd_network 0` for more information";
            detail.push(all.to_owned());
        }
        let summary = format!("Slow OSD heartbeats on {network} (longest {}ms)", ms(*longest_us));
        report.raise_counted(code, Severity::Warn, summary, slow.len(), detail);
    }
}

fn ms(us: u32) -> String {
    format!("{:.3}", f64::from(us) / 1e3)
}

fn line(map: &OsdMap, network: &str, (us, from, ping): &(u32, OsdId, &PingReport)) -> String {
    let is_down = |osd: OsdId| if map.is_up(osd) { "" } else { " (down)" };
    let place = |osd: OsdId| {
        let path = map.crush.full_location(osd.0);
        let names = path.iter().filter(|(level, _)| !LEVELS_LEFT_OUT.contains(level)).map(|(_, name)| *name);
        names.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(",")
    };
    let who = |osd: OsdId| format!("{osd} [{}]{}", place(osd), is_down(osd));
    let means = [ping.one, ping.five, ping.fifteen].map(|took| took.average_us);
    let improving = if means.is_sorted_by(|a, b| a < b) { " possibly improving" } else { "" };
    format!("Slow OSD heartbeats on {network} from {} to {} {} msec{improving}", who(*from), who(ping.osd), ms(*us))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::test_cluster::TestCluster;
    use types::Utime;
    use wire::nacre::mon::PingTook;

    fn ping(osd: i32, is_front: bool, means_ms: [u32; 3], answered_at: Utime) -> PingReport {
        let [one, five, fifteen] =
            means_ms.map(|ms| PingTook { average_us: ms * 1000 + 1, least_us: 1, most_us: 9_000_000 });
        PingReport { osd: OsdId(osd), is_front, one, five, fifteen, last_us: 1, answered_at }
    }

    fn alarms(cluster: &TestCluster) -> Vec<(&'static str, String, i64, Vec<String>)> {
        let mut report = HealthReport::default();
        check(&cluster.state, &cluster.volatile, &mut report);
        report.checks.into_iter().map(|(code, c)| (code, c.summary, c.count, c.detail)).collect()
    }

    #[test]
    fn pairs_of_osds_that_answer_slowly_are_named_the_slowest_first() {
        let mut cluster = TestCluster::with_osds();
        let now = cluster.volatile.now;
        let old = Utime { sec: now.sec - 421, ..now };
        let back = vec![
            ping(1, false, [350, 20, 20], now),
            ping(2, false, [300, 400, 500], now),
            ping(1, true, [349, 349, 349], now),
            ping(2, true, [2000, 2000, 2000], old),
        ];
        cluster.volatile.pings.insert(OsdId(0), back);
        let detail = [
            "Slow OSD heartbeats on back from osd.0 [] to osd.2 [] 500.001 msec possibly improving",
            "Slow OSD heartbeats on back from osd.0 [] to osd.1 [] 350.001 msec",
        ];
        let summary = "Slow OSD heartbeats on back (longest 500.001ms)".to_owned();
        let back = ("OSD_SLOW_PING_TIME_BACK", summary, 2, detail.map(str::to_owned).to_vec());
        assert_eq!(alarms(&cluster), [back]);
        let many = (0..11).map(|_| ping(1, true, [900, 900, 900], now)).collect();
        cluster.volatile.pings = [(OsdId(2), many)].into();
        let [(code, _, 11, detail)] = &alarms(&cluster)[..] else { panic!("{:?}", alarms(&cluster)) };
        assert_eq!((*code, detail.len()), ("OSD_SLOW_PING_TIME_FRONT", 11));
        assert!(detail[10].starts_with("Truncated long network list."), "{detail:?}");
    }
}
