//! Alarms about OSDs and the OSD map.

use super::{HealthReport, Severity, warns};
use crate::pools::{PGS_PER_OSD_MAX, SIZE_DEFAULT};
use crate::{MonState, Volatile};
use osdmap::{OsdMapFlags, OsdState};
use std::collections::BTreeMap;
use types::OsdId;

/// Most OSDs that a summary names.
const NAMED_OSDS: usize = 10;
/// Most copies that an OSD may replace since its start before its drive is worth a look, unless an operator says
/// otherwise.
const BAD_COPIES_MOST: u64 = 10;

pub(super) fn check(state: &MonState, volatile: &Volatile, report: &mut HealthReport) {
    down(state, report);
    slow(state, volatile, report);
    bad_copies(state, volatile, report);
    flags(state, report);
    fullness(state, report);
    let map = state.osdmap();
    let (count, _, osds_in) = map.counts();
    let wanted = state.mon_option("", "osd_pool_default_size").and_then(|s| s.parse().ok());
    let wanted: usize = wanted.unwrap_or(SIZE_DEFAULT.into());
    if count < wanted && warns(state, "mon_warn_on_too_few_osds") {
        let summary = format!("OSD count {count} < osd_pool_default_size {wanted}");
        report.raise_counted("TOO_FEW_OSDS", Severity::Warn, summary, wanted - count, Vec::new());
    }
    let copies: u64 = map.pools.values().map(|pool| u64::from(pool.pg_num) * u64::from(pool.size)).sum();
    let per_osd = copies / osds_in.max(1) as u64;
    let max = state.mon_option("", "mon_max_pg_per_osd").and_then(|s| s.parse().ok()).unwrap_or(PGS_PER_OSD_MAX);
    if osds_in > 0 && max > 0 && per_osd > max {
        let summary = format!("too many PGs per OSD ({per_osd} > max {max})");
        report.raise_counted("TOO_MANY_PGS", Severity::Warn, summary, (per_osd - max) as usize, Vec::new());
    }
    let ordered = map.nearfull_ratio <= map.backfillfull_ratio && map.backfillfull_ratio <= map.full_ratio;
    if !ordered {
        let mut detail = Vec::new();
        let mut wrong = |(a, a_ratio): (&str, f32), (b, b_ratio): (&str, f32)| {
            if a_ratio > b_ratio {
                detail.push(format!("{b} ({b_ratio}) < {a} ({a_ratio}), increased"));
            }
        };
        wrong(("nearfull_ratio", map.nearfull_ratio), ("backfillfull_ratio", map.backfillfull_ratio));
        wrong(("backfillfull_ratio", map.backfillfull_ratio), ("full_ratio", map.full_ratio));
        report.raise("OSD_OUT_OF_ORDER_FULL", Severity::Error, "full ratio(s) out of order".to_owned(), detail);
    }
}

/// Returns `root=default,host=a`, from the root down.
fn location(state: &MonState, item: i32) -> String {
    let path = state.osdmap().crush.full_location(item);
    path.iter().rev().map(|(kind, name)| format!("{kind}={name}")).collect::<Vec<_>>().join(",")
}

/// Raises alarms for OSDs that should serve and do not, and for buckets below which no OSD does.
fn down(state: &MonState, report: &mut HealthReport) {
    let map = state.osdmap();
    // An OSD that never started is no loss.
    let is_new = |osd: OsdId| map.osd(osd).is_some_and(|osd| osd.state.contains(OsdState::NEW));
    let is_down = |osd: OsdId| map.exists(osd) && map.is_in(osd) && !map.is_up(osd) && !is_new(osd);
    let down: Vec<OsdId> = map.osds().map(|(id, _)| id).filter(|osd| is_down(*osd)).collect();
    if down.is_empty() {
        return;
    }
    let detail = down.iter().map(|osd| format!("{osd} ({}) is down", location(state, osd.0))).collect();
    report.raise("OSD_DOWN", Severity::Warn, format!("{} osds down", down.len()), detail);

    let mut by_type: BTreeMap<u16, Vec<(i32, usize)>> = BTreeMap::new();
    for bucket in map.crush.buckets().filter(|bucket| !map.crush.is_shadow(bucket.id)) {
        let osds: Vec<OsdId> = map.crush.leaves(bucket.id).into_iter().map(OsdId).collect();
        // OSDs that are out, or do not exist, are expected to be silent.
        let expected: Vec<OsdId> = osds.into_iter().filter(|osd| map.exists(*osd) && map.is_in(*osd)).collect();
        if !expected.is_empty() && expected.iter().all(|osd| is_down(*osd)) {
            by_type.entry(bucket.kind).or_default().push((bucket.id, expected.len()));
        }
    }
    for (kind, buckets) in by_type {
        let type_name = map.crush.type_name(kind).unwrap_or("bucket");
        let Some(code) = subtree_code(type_name) else { continue };
        let osds: usize = buckets.iter().map(|(_, osds)| osds).sum();
        let plural = if buckets.len() == 1 { "" } else { "s" };
        let summary = format!("{} {type_name}{plural} ({osds} osds) down", buckets.len());
        let line = |(id, osds): &(i32, usize)| {
            let name = map.crush.name(*id).unwrap_or("?");
            format!("{type_name} {name} ({}) ({osds} osds) is down", location(state, *id))
        };
        report.raise(code, Severity::Warn, summary, buckets.iter().map(line).collect());
    }
}

/// Returns the alarm's code for a whole bucket of a type, for the types that every map has.
fn subtree_code(type_name: &str) -> Option<&'static str> {
    Some(match type_name {
        "host" => "OSD_HOST_DOWN",
        "chassis" => "OSD_CHASSIS_DOWN",
        "rack" => "OSD_RACK_DOWN",
        "row" => "OSD_ROW_DOWN",
        "pdu" => "OSD_PDU_DOWN",
        "pod" => "OSD_POD_DOWN",
        "room" => "OSD_ROOM_DOWN",
        "datacenter" => "OSD_DATACENTER_DOWN",
        "zone" => "OSD_ZONE_DOWN",
        "region" => "OSD_REGION_DOWN",
        "root" => "OSD_ROOT_DOWN",
        _ => return None,
    })
}

fn flags(state: &MonState, report: &mut HealthReport) {
    let map = state.osdmap();
    let warned = OsdMapFlags::FULL
        | OsdMapFlags::PAUSERD
        | OsdMapFlags::PAUSEWR
        | OsdMapFlags::PAUSEREC
        | OsdMapFlags::NOUP
        | OsdMapFlags::NODOWN
        | OsdMapFlags::NOIN
        | OsdMapFlags::NOOUT
        | OsdMapFlags::NOBACKFILL
        | OsdMapFlags::NORECOVER
        | OsdMapFlags::NOSCRUB
        | OsdMapFlags::NODEEP_SCRUB
        | OsdMapFlags::NOTIERAGENT
        | OsdMapFlags::NOSNAPTRIM
        | OsdMapFlags::NOREBALANCE;
    let set = map.flags & warned;
    if !set.is_empty() {
        report.raise("OSDMAP_FLAGS", Severity::Warn, format!("{} flag(s) set", set.names()), Vec::new());
    }
    let mut detail = Vec::new();
    let mut look = |who: &dyn Fn() -> String, state: OsdState| {
        let set = state & (OsdState::NOUP | OsdState::NODOWN | OsdState::NOIN | OsdState::NOOUT);
        if !set.is_empty() {
            detail.push(format!("{} has flags {}", who(), set.names()));
        }
    };
    for (id, osd) in map.osds() {
        look(&|| id.to_string(), osd.state);
    }
    let crush = &map.crush;
    for (id, state) in &map.crush_node_flags {
        let Some(name) = crush.name(*id) else { continue };
        let kind = crush.bucket(*id).map_or(0, |bucket| bucket.kind);
        look(&|| format!("{} {name}", crush.type_name(kind).unwrap_or("node")), *state);
    }
    for (class, state) in &map.device_class_flags {
        let Some((_, name)) = crush.classes().find(|(id, _)| id == class) else { continue };
        look(&|| format!("device class '{name}'"), *state);
    }
    if !detail.is_empty() {
        let summary = format!(
            "{} OSDs or CRUSH {{nodes, device-classes}} have {{NOUP,NODOWN,NOIN,NOOUT}} flags set",
            detail.len()
        );
        report.raise("OSD_FLAGS", Severity::Warn, summary, detail);
    }
}

/// Raises the alarm for OSDs that keep clients waiting for too long.
fn slow(state: &MonState, volatile: &Volatile, report: &mut HealthReport) {
    let slow = volatile.osds.iter().filter(|(osd, told)| told.stats.slow_ops > 0 && state.osdmap().is_up(**osd));
    let slow: Vec<_> = slow.map(|(osd, told)| (osd.to_string(), &told.stats)).collect();
    let Some(oldest_ms) = slow.iter().map(|(_, stats)| stats.oldest_slow_op_ms).max() else { return };
    let ops = slow.iter().fold(0u64, |sum, (_, stats)| sum.saturating_add(stats.slow_ops));
    let names = |osds: &[(String, _)]| osds.iter().map(|(osd, _)| osd.clone()).collect::<Vec<_>>().join(",");
    let who = match &slow[..] {
        [(osd, _)] => format!("{osd} has slow ops"),
        all if all.len() <= NAMED_OSDS => format!("daemons [{}] have slow ops.", names(all)),
        all => format!("daemons [{}]... have slow ops.", names(&all[..NAMED_OSDS])),
    };
    let summary = format!("{ops} slow ops, oldest one blocked for {} sec, {who}", oldest_ms / 1000);
    report.raise_counted("SLOW_OPS", Severity::Warn, summary, ops as usize, Vec::new());
}

/// Raises the alarm for OSDs that have had to replace so many copies that their drives are perhaps failing.
fn bad_copies(state: &MonState, volatile: &Volatile, report: &mut HealthReport) {
    let most = state.mon_number("mon_osd_warn_num_repaired").unwrap_or(BAD_COPIES_MOST);
    let bad = volatile.osds.iter().filter(|(osd, told)| told.stats.bad_copies > most && state.osdmap().is_up(**osd));
    let detail: Vec<String> =
        bad.map(|(osd, told)| format!("{osd} had {} reads repaired", told.stats.bad_copies)).collect();
    if !detail.is_empty() {
        let summary = format!("Too many repaired reads on {} OSDs", detail.len());
        report.raise("OSD_TOO_MANY_REPAIRS", Severity::Warn, summary, detail);
    }
}

/// Raises alarms for full OSDs that are up and in: as in Ceph, others do not matter.
fn fullness(state: &MonState, report: &mut HealthReport) {
    let map = state.osdmap();
    let mut raise = |code, severity, bit, word, is| {
        let full = map.osds().filter(|(id, osd)| osd.is_up() && map.is_in(*id) && osd.state.contains(bit));
        let detail: Vec<String> = full.map(|(id, _)| format!("{id} is {is}")).collect();
        if !detail.is_empty() {
            report.raise(code, severity, format!("{} {word} osd(s)", detail.len()), detail);
        }
    };
    raise("OSD_FULL", Severity::Error, OsdState::FULL, "full", "full");
    raise("OSD_BACKFILLFULL", Severity::Warn, OsdState::BACKFILLFULL, "backfillfull", "backfill full");
    raise("OSD_NEARFULL", Severity::Warn, OsdState::NEARFULL, "nearfull", "near full");
}
