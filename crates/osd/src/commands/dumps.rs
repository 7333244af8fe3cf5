//! Lists of what an OSD has, under Ceph's names.

use super::Facts;
use crate::heartbeat::{Network, PingView, Took};
use crate::shards::ShardFacts;
use control::mempools;
use osdmap::OsdMap;
use pg::{GroupView, ReservationsView};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::Utime;
use wire::nacre::mon::pg_state;
use wire::{AddrKind, EntityAddr};

fn addr(addr: &EntityAddr) -> Value {
    let kind = match addr.kind {
        AddrKind::MSGR2 => "v2",
        AddrKind::LEGACY => "v1",
        AddrKind::ANY => "any",
        _ => "none",
    };
    let shown = addr.sockaddr.map_or("(unrecognized address family 0)".to_owned(), |addr| addr.to_string());
    json!({"type": kind, "addr": shown, "nonce": addr.nonce})
}

pub(crate) fn blocklist(map: &OsdMap) -> Value {
    let entries = map.blocklist.iter().chain(&map.range_blocklist);
    entries.map(|(who, until)| json!({"entity_addr_t": addr(who), "expire_time": until.to_string()})).collect()
}

/// Nacre's caches; object contexts, which Ceph counts here, are not kept.
pub(crate) fn caches(of: &ShardFacts) -> Value {
    json!({
        "object_ctx": 0,
        "block_cache_bytes": of.caches.blocks.bytes,
        "onode_cache_bytes": of.caches.onode_bytes,
        "page_cache_bytes": of.caches.page_bytes,
    })
}

/// Returns the memory of the store's caches under the names of a Ceph's pools of memory. Other memory is not counted by
/// what it is for, and its pools are empty; `items` are not counted, either.
pub(crate) fn mempools(of: &ShardFacts) -> Value {
    mempools::value(|name| match name {
        "bluestore_cache_data" => of.caches.blocks.bytes,
        "bluestore_cache_onode" => of.caches.onode_bytes,
        "bluestore_cache_meta" => of.caches.page_bytes,
        _ => 0,
    })
}

pub(crate) fn group_states(of: &ShardFacts) -> Value {
    let group = |group: &GroupView| json!({"pg": group.pgid.to_string(), "currently": currently(group), "history": []});
    json!({"pgs": of.groups.iter().map(group).collect::<Vec<_>>()})
}

/// A group's state, in the words of Ceph's state machine.
fn currently(group: &GroupView) -> &'static str {
    use pg_state::{ACTIVE, BACKFILL_WAIT, BACKFILLING, CLEAN, DOWN, INCOMPLETE, RECOVERING, RECOVERY_WAIT};
    let is = |bit| group.state & bit != 0;
    match (group.is_primary, group.is_member) {
        (false, true) => "Started/ReplicaActive",
        (false, false) => "Started/Stray",
        _ if is(ACTIVE) && is(CLEAN) => "Started/Primary/Active/Clean",
        _ if is(ACTIVE) && is(RECOVERING) => "Started/Primary/Active/Recovering",
        _ if is(ACTIVE) && is(RECOVERY_WAIT) => "Started/Primary/Active/WaitLocalRecoveryReserved",
        _ if is(ACTIVE) && is(BACKFILLING) => "Started/Primary/Active/Backfilling",
        _ if is(ACTIVE) && is(BACKFILL_WAIT) => "Started/Primary/Active/WaitLocalBackfillReserved",
        _ if is(ACTIVE) => "Started/Primary/Active",
        _ if is(DOWN) => "Started/Primary/Peering/Down",
        _ if is(INCOMPLETE) => "Started/Primary/Peering/Incomplete",
        _ => "Started/Primary/Peering",
    }
}

pub(crate) fn reservations(of: &ShardFacts) -> Value {
    let side = |view: &ReservationsView| {
        let item = |(pgid, priority): &(types::PgId, u64)| json!({"item": pgid.to_string(), "prio": priority, "can_preempt": true});
        let mut queues: BTreeMap<u64, Vec<Value>> = BTreeMap::new();
        for waiting in &view.waiting {
            queues.entry(waiting.1).or_default().push(item(waiting));
        }
        json!({
            "max_allowed": view.slots,
            "min_priority": 0,
            "queues": queues.iter().map(|(priority, items)| json!({"priority": priority, "items": items})).collect::<Vec<_>>(),
            "in_progress": view.held.iter().map(item).collect::<Vec<_>>(),
        })
    };
    json!({"local_reservations": side(&of.reservations.0), "remote_reservations": side(&of.reservations.1)})
}

/// An OSD scrubs so many groups at a time as their primary, and asks nobody else for leave.
pub(crate) fn scrub_reservations(of: &ShardFacts, at_a_time: usize) -> Value {
    json!({"scrubs_local": of.scrubbing, "scrubs_remote": 0, "osd_max_scrubs": at_a_time})
}

pub(crate) fn scrubs(of: &ShardFacts) -> Value {
    let scrub = |scrub: &pg::ScrubView| {
        json!({
            "pgid": scrub.pgid.to_string(),
            "sched_time": Utime::from_unix(scrub.at).to_string(),
            "deadline": Utime::from_unix(scrub.by).to_string(),
            "forced": scrub.ordered,
        })
    };
    of.scrubs.iter().map(scrub).collect()
}

pub(crate) fn watchers(of: &ShardFacts) -> Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let watch = |watch: &pg::WatchView| {
        json!({
            "namespace": text(&watch.object.nspace),
            "object": text(&watch.object.name),
            "entity_name": {"type": watch.watcher.kind.word(), "num": watch.watcher.num},
            "cookie": watch.cookie,
            "timeout": watch.info.timeout_s,
            "entity_addr_t": addr(&watch.info.addr),
        })
    };
    of.watches.iter().map(watch).collect()
}

pub(crate) fn pools(of: &ShardFacts) -> Value {
    let pools: BTreeSet<i64> = of.groups.iter().map(|group| group.pgid.pool.0).collect();
    pools.into_iter().map(Value::from).collect()
}

/// Drives have no ids here: nobody asks them.
pub(crate) fn devices(machine: &BTreeMap<String, String>) -> Value {
    let drives = machine.get("devices").map(String::as_str).unwrap_or_default();
    let drives = drives.split(',').filter(|drive| !drive.is_empty());
    drives
        .map(|drive| json!({"device": format!("/dev/{}", drive.trim_start_matches("/dev/")), "device_id": ""}))
        .collect()
}

/// Shards do not queue operations by priority.
pub(crate) fn priority_queues(shards: usize) -> Value {
    let of_shard = |shard| (format!("OSD:ShardedOpWQ:{shard}"), json!({"high_queues": [], "queues": []}));
    Value::Object((0..shards).map(of_shard).collect())
}

/// An OSD is no client of others: it copies objects by messages of its own.
pub(crate) fn no_requests() -> Value {
    json!({
        "ops": [], "linger_ops": [], "pool_ops": [], "pool_stat_ops": [], "statfs_ops": [], "command_ops": [],
    })
}

/// Heartbeats' times are stale when an answer is older than this.
const STALE_AFTER: Duration = Duration::from_secs(600);

/// The time that other OSDs needed to answer heartbeats, those that took `from` or longer, slowest first.
pub(crate) fn network(facts: &Facts<'_>, from: Duration) -> Value {
    let ms = |took: Duration| (took.as_secs_f64() * 1e6).round() / 1e3;
    let slowest = |view: &PingView| view.over_minutes.iter().map(|took| took.average).max().unwrap_or_default();
    let mut slow: Vec<&PingView> = facts.pings.iter().filter(|view| slowest(view) >= from).collect();
    slow.sort_by_key(|view| std::cmp::Reverse(slowest(view)));
    let entry = |view: &&PingView| {
        let each = |of: fn(&Took) -> Duration| {
            let [one, five, fifteen] = view.over_minutes.each_ref().map(|took| ms(of(took)));
            json!({"1min": one, "5min": five, "15min": fifteen})
        };
        json!({
            "last update": calendar_time(facts.ops.wall.to_unix().saturating_sub(view.age)),
            "stale": view.age >= STALE_AFTER,
            "from osd": facts.whoami.0,
            "to osd": view.osd.0,
            "interface": match view.network {
                Network::Back => "back",
                Network::Front => "front",
            },
            "average": each(|took| took.average),
            "min": each(|took| took.least),
            "max": each(|took| took.most),
            "last": ms(view.last),
        })
    };
    json!({"threshold": from.as_millis() as u64, "entries": slow.iter().map(entry).collect::<Vec<_>>()})
}

/// A time since 1970 in the words of C's `ctime`, in UTC: `Fri Nov 27 20:38:58 2026`.
fn calendar_time(unix: Duration) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let text = Utime::from_unix(unix).to_string();
    let month = text[5..7].parse::<usize>().map_or("", |month| MONTHS[month - 1]);
    let day = text[8..10].trim_start_matches('0');
    let week_day = DAYS[usize::try_from(unix.as_secs() / 86_400 % 7).expect("below 7")];
    format!("{week_day} {month} {day:>2} {} {}", &text[11..19], &text[..4])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calendar_times_are_those_of_c() {
        assert_eq!(calendar_time(Duration::from_secs(1_795_812_800)), "Fri Nov 27 20:53:20 2026");
        assert_eq!(calendar_time(Duration::ZERO), "Thu Jan  1 00:00:00 1970");
    }
}
