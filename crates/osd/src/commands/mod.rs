//! Commands to this OSD: `ceph tell osd.N ...`, and those that come by its admin socket.
//!
//! * `table`, below — start here: all commands but those about one group.
//! * [`Asked`]: a command as it came. [`Work`]: something that a command has the OSD do. Other commands are answered
//!   from [`Facts`].
//! * [`groups`]: commands about one placement group; `group_query`: a group in full; [`own_copies`]: this OSD's own
//!   copies of objects. [`perf`]: counters. [`dumps`]: lists. [`op_dump`]: operations.
//! * [`tuned`]: options that an OSD acts on while it runs.

mod asker;
pub(crate) mod bench;
pub(crate) mod dumps;
mod group_query;
pub(crate) mod groups;
pub(crate) mod op_dump;
pub(crate) mod own_copies;
pub(crate) mod perf;
#[cfg(test)]
mod tests;
pub(crate) mod tuned;

pub(crate) use asker::Asker;

use crate::heartbeat::PingView;
use crate::shards::ShardFacts;
use control::counters::{self, Counters};
use control::{Form, Refusal, Settings, Table, Told, everywhere};
use op_dump::OpDump;
use osdmap::OsdMap;
use pg::Shard;
use reactor::Stats;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;
use types::{Errno, Fsid, OsdId, PgId};
use wire::messages::CommandReply;

/// Facts that a command may look at.
pub(crate) struct Facts<'a> {
    pub whoami: OsdId,
    /// Id of the OSD's store.
    pub uuid: Fsid,
    pub map: &'a OsdMap,
    /// `active`, `booting`, `stopping`.
    pub state: &'static str,
    /// Oldest map that the monitors have.
    pub oldest_map: types::Epoch,
    /// Facts of the machine and its drives.
    pub machine: &'a BTreeMap<String, String>,
    pub shards: usize,
    /// Facts of all shards together.
    pub of_shards: &'a ShardFacts,
    pub sessions: usize,
    /// Bytes that clients' requests and answers hold, and those that they may.
    pub client_bytes: (u64, u64),
    /// Counters of the loop that has the sockets.
    pub reactor: Stats,
    pub ops: OpDump<'a>,
    /// The time that other OSDs needed to answer heartbeats.
    pub pings: Vec<PingView>,
    /// Answers that took as long or longer count as slow.
    pub slow_ping: Duration,
    /// Groups that are scrubbed at a time.
    pub scrubs_at_a_time: usize,
}

/// The commands, beside those that every daemon has.
const COMMANDS: &[Form] = &[
    Form::new(
        "bench {count:Int,req=false} {size:Int,req=false} {object_size:Int,req=false} {object_num:Int,req=false}",
        "write `count` bytes in blocks of `size` to this OSD's store, and print how fast that went",
    ),
    Form::new("cache drop", "forget data that was read"),
    Form::new("cache status", "print how much is in caches"),
    Form::new("cluster_log {level:Choices,strings=error} {message:String,n=N}", "write a line to the cluster log"),
    Form::new("compact", "have the store write its metadata in order, and wait for that"),
    Form::new("dump_blocked_ops {filterstr:String,n=N,req=false}", "list operations that have waited for long"),
    Form::new("dump_blocklist", "list clients that are locked out"),
    Form::new("dump_historic_ops {filterstr:String,n=N,req=false}", "list the last operations"),
    Form::new(
        "dump_historic_ops_by_duration {filterstr:String,n=N,req=false}",
        "list the slowest of late, slowest first",
    ),
    Form::new("dump_historic_slow_ops {filterstr:String,n=N,req=false}", "list late operations that were slow"),
    Form::new("dump_mempools", "print how much memory caches take"),
    Form::new("dump_objectstore_kv_stats", "print figures of a key-value store under this OSD; there is none"),
    Form::new("dump_op_hops", "print where the time of operations goes"),
    Form::new("dump_op_pq_state", "print queues by priority, of each shard; there are none"),
    Form::new("dump_ops_in_flight {filterstr:String,n=N,req=false}", "list operations that are not answered yet"),
    Form::new("dump_osd_network {value:Int,req=false}", "print how long other OSDs took to answer, from these ms on"),
    Form::new("dump_pg_recovery_stats", "print how long groups were in each state; that is not counted"),
    Form::new("dump_pgstate_history", "print the states of this OSD's groups; former ones are not kept"),
    Form::new("dump_recovery_reservations", "print which groups heal, and which wait for that"),
    Form::new("dump_scrub_reservations", "print how many groups are scrubbed"),
    Form::new("dump_scrubs", "list scrubs that lie ahead"),
    Form::new("dump_watchers", "list clients that watch objects"),
    Form::new("flush_journal", "have the store write its metadata in order, and wait for that"),
    Form::new("flush_pg_stats", "report to the monitors now, and print the number of that report"),
    Form::new("flush_store_cache", "forget data that was read"),
    Form::new("get_command_descriptions", "describe all commands for programs"),
    Form::new("get_latest_osdmap", "ask the monitors for the newest map"),
    Form::new("get_mapped_pools", "list pools that have groups on this OSD"),
    Form::new(
        "getomap {pool:Poolname} {objname:Objectname} {shardid:Int,range=0|255,req=false}",
        "print the omap of this OSD's own copy of an object",
    ),
    Form::new("help", "list all commands"),
    Form::new(
        "injectfull {type:String,req=false} {count:Int,req=false}",
        "have this OSD pretend to be full; it never does",
    ),
    Form::new("list_devices", "list the drives under this OSD"),
    Form::new("objecter_requests", "list requests to other OSDs as their client; there are none"),
    Form::new("ops {filterstr:String,n=N,req=false}", "list operations that are not answered yet"),
    Form::new("reset_pg_recovery_stats", "forget how long groups were in each state; that is not counted"),
    Form::new("send_beacon", "report to the monitors now"),
    Form::new("set_recovery_delay {utime:Int,req=false}", "set osd_recovery_delay_start, which has no effect here"),
    Form::new("smart {devid:String,req=false}", "print health records of drives; there are none"),
    Form::new("status", "print how this OSD is"),
    Form::new("version", "print which software this OSD is"),
];

/// All commands but those about one group.
fn forms() -> impl Iterator<Item = &'static Form> {
    COMMANDS.iter().chain(counters::COMMANDS).chain(everywhere::COMMANDS)
}

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| Table::new(forms()))
}

/// A command as it came.
pub(crate) enum Asked {
    /// About one group, or about none that is named.
    Group(Option<PgId>),
    /// About this OSD's own copy of an object.
    Copy(Told),
    Daemon(Told),
}

/// Reads a command.
pub(crate) fn read(line: &str) -> Result<Asked, Refusal> {
    match groups::is_known(line) {
        true => Ok(Asked::Group(groups::group_of(line))),
        false => table().read(line).map(|told| match own_copies::is_about_one(&told) {
            true => Asked::Copy(told),
            false => Asked::Daemon(told),
        }),
    }
}

/// Carries out a command that the shard with the group answers.
pub(crate) fn answer_of_shard(line: &str, shard: &mut Shard) -> CommandReply {
    match read(line) {
        Ok(Asked::Copy(told)) => own_copies::answer(&told, shard),
        _ => groups::answer(line, shard),
    }
}

/// Something that a command has the OSD do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Work {
    /// Writes for the time that they take.
    Bench,
    DropCaches,
    /// A checkpoint of all stores, to be waited for.
    Checkpoint,
    Report,
    AskForMaps,
    WriteClusterLog,
}

impl Work {
    /// The work that a command asks for. `None`: the command is only answered.
    pub fn of(told: &Told) -> Option<Work> {
        Some(match told.prefix.as_str() {
            "bench" => Work::Bench,
            "cache drop" | "flush_store_cache" => Work::DropCaches,
            "compact" | "flush_journal" => Work::Checkpoint,
            "flush_pg_stats" | "send_beacon" => Work::Report,
            "get_latest_osdmap" => Work::AskForMaps,
            "cluster_log" => Work::WriteClusterLog,
            _ => return None,
        })
    }
}

/// Answers a command that sets an option of this OSD's by another word; `None`: it is none of these.
pub(crate) fn set_by_another_word(told: &Told, settings: &mut Settings) -> Option<CommandReply> {
    if told.prefix != "set_recovery_delay" {
        return None;
    }
    let (option, seconds) = ("osd_recovery_delay_start", told.args.int("utime").unwrap_or(0).to_string());
    Some(match settings.set(option, &seconds) {
        Ok(_) => CommandReply {
            status: format!("{option} has no effect here: a group recovers as soon as it has peered"),
            ..told.text(format!("set_recovery_delay: set {option} to {seconds}\n"))
        },
        Err(why) => told.refused(Errno::EINVAL, why.to_string()),
    })
}

/// Takes the last pretence back, which there never is.
fn inject_full(told: &Told) -> CommandReply {
    match told.args.text("type").unwrap_or("full") {
        "none" => told.text(""),
        "nearfull" | "backfillfull" | "full" | "failsafe" => told.refused(
            Errno::EOPNOTSUPP,
            "an OSD does not pretend to be full: set the ratios that count as full ('ceph osd set-full-ratio')",
        ),
        _ => told.refused(Errno::EINVAL, "Invalid type use (none, nearfull, backfillfull, full, failsafe)"),
    }
}

/// Answers a command that is neither work nor about a group. `running`: counts as they were last reset.
pub(crate) fn answer(told: &Told, facts: &Facts<'_>, running: &mut Counters) -> CommandReply {
    if let Some(value) = running.answer(told, || perf::sections(facts)) {
        return told.value(&value);
    }
    let filters = || told.args.texts("filterstr");
    let value = match told.prefix.as_str() {
        "version" => control::version::value(),
        "get_command_descriptions" => table().descriptions(groups::descriptions()),
        "help" => table().help(),
        "status" => status(facts),
        "dump_ops_in_flight" | "ops" => facts.ops.in_flight(&filters()),
        "dump_blocked_ops" => facts.ops.blocked(&filters()),
        "dump_historic_ops" => facts.ops.historic(&filters()),
        "dump_historic_ops_by_duration" => facts.ops.historic_by_duration(&filters()),
        "dump_historic_slow_ops" => facts.ops.historic_slow(&filters()),
        "dump_objectstore_kv_stats" | "reset_pg_recovery_stats" => return told.text(""),
        "dump_op_hops" => facts.ops.hops(),
        "dump_op_pq_state" => dumps::priority_queues(facts.shards),
        "dump_pg_recovery_stats" => json!([]),
        "injectfull" => return inject_full(told),
        "dump_mempools" => dumps::mempools(facts.of_shards),
        "smart" => json!({}),
        "cache status" => dumps::caches(facts.of_shards),
        "dump_blocklist" => dumps::blocklist(facts.map),
        "dump_osd_network" => {
            let from_ms = told.args.int("value").map(|ms| Duration::from_millis(ms.try_into().unwrap_or_default()));
            dumps::network(facts, from_ms.unwrap_or(facts.slow_ping))
        }
        "dump_pgstate_history" => dumps::group_states(facts.of_shards),
        "dump_recovery_reservations" => dumps::reservations(facts.of_shards),
        "dump_scrub_reservations" => dumps::scrub_reservations(facts.of_shards, facts.scrubs_at_a_time),
        "dump_scrubs" => dumps::scrubs(facts.of_shards),
        "dump_watchers" => dumps::watchers(facts.of_shards),
        "get_mapped_pools" => dumps::pools(facts.of_shards),
        "list_devices" => dumps::devices(facts.machine),
        "objecter_requests" => dumps::no_requests(),
        other => return told.refused(Errno::EINVAL, Refusal::Unknown(other.to_owned()).to_string()),
    };
    told.value(&value)
}

fn status(facts: &Facts<'_>) -> Value {
    let ShardFacts { usage, caches, recovery, check, groups, .. } = facts.of_shards;
    json!({
        "cluster_fsid": facts.map.fsid.to_string(),
        "osd_fsid": facts.uuid.to_string(),
        "whoami": facts.whoami.0,
        "state": facts.state,
        // An OSD has the map in force, and no older ones.
        "oldest_map": facts.map.epoch.0,
        "cluster_osdmap_trim_lower_bound": facts.oldest_map.0,
        "newest_map": facts.map.epoch.0,
        "num_pgs": groups.len(),
        "objects": usage.objects,
        "stored_bytes": usage.stored_bytes,
        "free_bytes": usage.free_bytes,
        "client_sessions": facts.sessions,
        "shards": facts.shards,
        "block_cache": {
            "bytes": caches.blocks.bytes,
            "hits": caches.blocks.hits,
            "hit_bytes": caches.blocks.hit_bytes,
            "misses": caches.blocks.misses,
            "miss_bytes": caches.blocks.miss_bytes,
        },
        "recovery": {
            "limit_bytes_per_s": recovery.limit_bytes_per_s,
            "clients_slowed_by_percent": recovery.clients_slowed_by_percent,
        },
        "background_check": {"objects": check.objects, "bytes": check.bytes, "bad": check.bad},
    })
}

/// The settings of an OSD that nobody has set anything for.
pub fn new_settings(id: OsdId) -> Settings {
    Settings::new(&id.to_string(), tuned::names().chain(control::logs::names()))
}
