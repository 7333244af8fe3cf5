//! Answers `ceph tell osd.N ...`, by which operators query one OSD.

use crate::op_dump::OpDump;
use crate::pg_command;
use crate::shards::ShardFacts;
use osdmap::OsdMap;
use pg::hops::OpCount;
use serde_json::{Value, json};
use types::{Errno, OsdId};
use wire::Rope;
use wire::messages::{Command, CommandReply};

/// Facts that a command may look at.
pub(crate) struct Facts<'a> {
    pub whoami: OsdId,
    pub map: &'a OsdMap,
    pub version: &'a str,
    pub shards: usize,
    /// Facts of all shards together.
    pub of_shards: &'a ShardFacts,
    pub sessions: usize,
    pub ops: OpDump<'a>,
}

/// The commands, as `get_command_descriptions` lists them: words and help.
const COMMANDS: &[(&str, &str)] = &[
    ("version", "report version of this OSD"),
    ("get_command_descriptions", "list commands with their descriptions"),
    ("status", "high-level state of this OSD"),
    ("dump_ops_in_flight", "show the ops currently in flight"),
    ("ops", "show the ops currently in flight"),
    ("dump_blocked_ops", "show the blocked ops currently in flight"),
    ("dump_historic_ops", "show recent ops"),
    ("dump_historic_ops_by_duration", "show slowest recent ops, sorted by duration"),
    ("dump_historic_slow_ops", "show slowest recent ops"),
    ("dump_op_hops", "show where the time of recent and of slow ops went"),
    ("perf dump", "dump running counts of this OSD"),
    ("cache drop", "forget data that was read"),
];

const CACHE_DROP: &str = "cache drop";

/// Carries out one command.
pub(crate) fn answer(command: &Command, facts: &Facts<'_>) -> CommandReply {
    let line = command.cmd.first().map(String::as_str).unwrap_or_default();
    let refused = |status: String| CommandReply { result: Errno::EINVAL.as_result(), status, output: Rope::new() };
    let Some(prefix) = json_string(line, "prefix") else {
        return refused("the command is not a JSON object with a \"prefix\"".to_owned());
    };
    let value = match prefix.as_str() {
        "version" => json!({ "version": facts.version }),
        "get_command_descriptions" => descriptions(),
        "status" => json!({
            "cluster_fsid": facts.map.fsid.to_string(),
            "whoami": facts.whoami.0,
            "newest_map": facts.map.epoch.0,
            "objects": facts.of_shards.usage.objects,
            "stored_bytes": facts.of_shards.usage.stored_bytes,
            "free_bytes": facts.of_shards.usage.free_bytes,
            "client_sessions": facts.sessions,
            "shards": facts.shards,
            "block_cache": {
                "bytes": facts.of_shards.caches.blocks.bytes,
                "hits": facts.of_shards.caches.blocks.hits,
                "hit_bytes": facts.of_shards.caches.blocks.hit_bytes,
                "misses": facts.of_shards.caches.blocks.misses,
                "miss_bytes": facts.of_shards.caches.blocks.miss_bytes,
            },
            "recovery": {
                "limit_bytes_per_s": facts.of_shards.recovery.limit_bytes_per_s,
                "clients_slowed_by_percent": facts.of_shards.recovery.clients_slowed_by_percent,
            },
            "background_check": {
                "objects": facts.of_shards.check.objects,
                "bytes": facts.of_shards.check.bytes,
                "bad": facts.of_shards.check.bad,
            },
        }),
        "dump_ops_in_flight" | "ops" => facts.ops.in_flight(),
        "dump_blocked_ops" => facts.ops.blocked(),
        "dump_historic_ops" => facts.ops.historic(),
        "dump_historic_ops_by_duration" => facts.ops.historic_by_duration(),
        "dump_historic_slow_ops" => facts.ops.historic_slow(),
        "dump_op_hops" => facts.ops.hops(),
        "perf dump" => perf_dump(facts),
        // The answer tells that it is done; the OSD drops the caches before it answers.
        CACHE_DROP => json!({}),
        other => return refused(format!("unknown command '{other}'; this OSD knows: {}", known())),
    };
    let compact = json_string(line, "format").is_some_and(|format| format == "json") || prefix.starts_with("get_");
    let output = if compact { value.to_string() } else { format!("{value:#}\n") };
    CommandReply { result: 0, status: String::new(), output: Rope::from(output.into_bytes()) }
}

/// Running counts. Each count that Ceph has, too, has Ceph's name.
fn perf_dump(facts: &Facts<'_>) -> Value {
    let (usage, caches) = (&facts.of_shards.usage, &facts.of_shards.caches);
    let ops = &facts.of_shards.ops;
    let all = ops.all();
    json!({
        "osd": {
            "stat_bytes": usage.total_bytes,
            "stat_bytes_used": usage.total_bytes.saturating_sub(usage.free_bytes),
            "stat_bytes_avail": usage.free_bytes,
            "client_sessions": facts.sessions,
            "op": all.ops,
            "op_in_bytes": all.in_bytes,
            "op_out_bytes": all.out_bytes,
            "op_latency": average(all),
            "op_r": ops.reads.ops,
            "op_r_out_bytes": ops.reads.out_bytes,
            "op_r_latency": average(ops.reads),
            "op_w": ops.updates.ops,
            "op_w_in_bytes": ops.updates.in_bytes,
            "op_w_latency": average(ops.updates),
            "replica_read": facts.of_shards.replica_reads.asked,
            "replica_read_served": facts.of_shards.replica_reads.served,
            "backoffs": facts.of_shards.backoffs.standing,
            "backoffs_begun": facts.of_shards.backoffs.begun,
            "backoff_dropped_op": facts.of_shards.backoffs.dropped,
        },
        "store": {
            "block_cache_bytes": caches.blocks.bytes,
            "block_cache_hits": caches.blocks.hits,
            "block_cache_hit_bytes": caches.blocks.hit_bytes,
            "block_cache_misses": caches.blocks.misses,
            "block_cache_miss_bytes": caches.blocks.miss_bytes,
            "onode_cache_bytes": caches.onode_bytes,
            "onode_cache_hits": caches.onode_hits,
            "onode_cache_misses": caches.onode_misses,
            "page_cache_bytes": caches.page_bytes,
            "page_cache_hits": caches.page_hits,
            "page_cache_misses": caches.page_misses,
        },
    })
}

/// Durations of operations, in seconds, in the form of Ceph's averages.
fn average(count: OpCount) -> Value {
    let sum = count.took.as_secs_f64();
    json!({ "avgcount": count.ops, "sum": sum, "avgtime": if count.ops > 0 { sum / count.ops as f64 } else { 0.0 } })
}

/// True if the command asks the OSD to forget cached data.
pub(crate) fn drops_caches(command: &Command) -> bool {
    command.cmd.first().and_then(|line| json_string(line, "prefix")).is_some_and(|prefix| prefix == CACHE_DROP)
}

fn known() -> String {
    COMMANDS.iter().map(|(words, _)| *words).collect::<Vec<_>>().join(", ")
}

fn descriptions() -> Value {
    let entry = |(i, (words, help)): (usize, &(&str, &str))| {
        let words: Vec<&str> = words.split(' ').collect();
        let description = json!({ "sig": words, "help": help, "module": "osd", "perm": "r", "flags": 0 });
        (format!("cmd{i:03}"), description)
    };
    let mut all: serde_json::Map<String, Value> = COMMANDS.iter().enumerate().map(entry).collect();
    for (i, description) in pg_command::descriptions().into_iter().enumerate() {
        all.insert(format!("cmd{:03}", COMMANDS.len() + i), description);
    }
    Value::Object(all)
}

/// The string under `key` of a JSON object.
pub(crate) fn json_string(text: &str, key: &str) -> Option<String> {
    let value: Value = serde_json::from_str(text).ok()?;
    Some(value.get(key)?.as_str()?.to_owned())
}
