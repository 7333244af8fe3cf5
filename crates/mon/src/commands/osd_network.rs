//! The time that OSDs take to answer each other, as a Ceph's manager tells it (`dump_osd_network`).

use super::units;
use crate::Volatile;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::time::Duration;
use types::OsdId;
use wire::nacre::mon::{PingReport, PingTook};

/// Age from which on an answer is an old one.
const STALE_AFTER: Duration = Duration::from_secs(600);

pub(super) fn ms(us: u32) -> Value {
    json!(f64::from(us) / 1e3)
}

/// Returns one figure of the last minute, five and fifteen minutes.
pub(super) fn over_minutes(ping: &PingReport, of: fn(&PingTook) -> u32) -> Value {
    json!({"1min": ms(of(&ping.one)), "5min": ms(of(&ping.five)), "15min": ms(of(&ping.fifteen))})
}

pub(super) fn interface(ping: &PingReport) -> &'static str {
    if ping.is_front { "front" } else { "back" }
}

/// Returns the answers that took so many milliseconds or longer, slowest first.
pub(crate) fn network(volatile: &Volatile, from_ms: u64) -> Value {
    let told = volatile.pings.iter().flat_map(|(from, pings)| pings.iter().map(|ping| (*from, ping)));
    let mut slow: Vec<(OsdId, &PingReport)> =
        told.filter(|(_, ping)| u64::from(ping.slowest_us()) >= from_ms.saturating_mul(1000)).collect();
    slow.sort_by_key(|(from, ping)| (Reverse(ping.slowest_us()), *from, ping.osd, ping.is_front));
    let entry = |(from, ping): (OsdId, &PingReport)| {
        let age = volatile.now.to_unix().saturating_sub(ping.answered_at.to_unix());
        json!({
            "last update": units::calendar(ping.answered_at),
            "stale": age >= STALE_AFTER,
            "from osd": from.0,
            "to osd": ping.osd.0,
            "interface": interface(ping),
            "average": over_minutes(ping, |took| took.average_us),
            "min": over_minutes(ping, |took| took.least_us),
            "max": over_minutes(ping, |took| took.most_us),
            "last": ms(ping.last_us),
        })
    };
    json!({"threshold": from_ms, "entries": slow.into_iter().map(entry).collect::<Vec<_>>()})
}
