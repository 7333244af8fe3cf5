//! Lists of what an OSD has, under Ceph's names.

use crate::shards::ShardFacts;
use osdmap::OsdMap;
use pg::{GroupView, ReservationsView};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
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

/// Each shard scrubs one group at a time, and asks nobody else for leave.
pub(crate) fn scrub_reservations(of: &ShardFacts, shards: usize) -> Value {
    json!({"scrubs_local": of.scrubbing, "scrubs_remote": 0, "osd_max_scrubs": shards})
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

/// An OSD is no client of others: it copies objects by messages of its own.
pub(crate) fn no_requests() -> Value {
    json!({
        "ops": [], "linger_ops": [], "pool_ops": [], "pool_stat_ops": [], "statfs_ops": [], "command_ops": [],
    })
}
