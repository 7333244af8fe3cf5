//! `ceph tell osd.N ...`: what operators ask one OSD.

use crate::op_dump::OpDump;
use osdmap::OsdMap;
use serde_json::{Value, json};
use types::{Errno, OsdId};
use wire::Rope;
use wire::messages::{Command, CommandReply};

/// What a command may look at.
pub(crate) struct Facts<'a> {
    pub whoami: OsdId,
    pub map: &'a OsdMap,
    pub version: &'a str,
    pub usage: store::SpaceUsage,
    pub block_cache: store::BlockCacheStats,
    pub check: pg::CheckCounts,
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
];

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
            "objects": facts.usage.objects,
            "stored_bytes": facts.usage.stored_bytes,
            "free_bytes": facts.usage.free_bytes,
            "client_sessions": facts.sessions,
            "block_cache": {
                "bytes": facts.block_cache.bytes,
                "hits": facts.block_cache.hits,
                "hit_bytes": facts.block_cache.hit_bytes,
                "misses": facts.block_cache.misses,
                "miss_bytes": facts.block_cache.miss_bytes,
            },
            "background_check": {
                "objects": facts.check.objects,
                "bytes": facts.check.bytes,
                "bad": facts.check.bad,
            },
        }),
        "dump_ops_in_flight" | "ops" => facts.ops.in_flight(),
        "dump_blocked_ops" => facts.ops.blocked(),
        "dump_historic_ops" => facts.ops.historic(),
        "dump_historic_ops_by_duration" => facts.ops.historic_by_duration(),
        "dump_historic_slow_ops" => facts.ops.historic_slow(),
        "dump_op_hops" => facts.ops.hops(),
        other => return refused(format!("unknown command '{other}'; this OSD knows: {}", known())),
    };
    let compact = json_string(line, "format").is_some_and(|format| format == "json") || prefix.starts_with("get_");
    let output = if compact { value.to_string() } else { format!("{value:#}\n") };
    CommandReply { result: 0, status: String::new(), output: Rope::from(output.into_bytes()) }
}

fn known() -> String {
    COMMANDS.iter().map(|(words, _)| *words).collect::<Vec<_>>().join(", ")
}

fn descriptions() -> Value {
    let entry = |(i, (words, help)): (usize, &(&str, &str))| {
        let description = json!({ "sig": [words], "help": help, "module": "osd", "perm": "r", "flags": 0 });
        (format!("cmd{i:03}"), description)
    };
    Value::Object(COMMANDS.iter().enumerate().map(entry).collect())
}

/// The string under `key` of a JSON object.
fn json_string(text: &str, key: &str) -> Option<String> {
    let value: Value = serde_json::from_str(text).ok()?;
    Some(value.get(key)?.as_str()?.to_owned())
}
