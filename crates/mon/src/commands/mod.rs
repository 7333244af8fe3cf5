//! Commands of `ceph`: a JSON object with the command's words under `prefix` and its arguments by name.
//!
//! A handler looks at the state and either answers or proposes updates together with the answer to give once they are
//! durable. It never waits: at most one batch is on its way to the log at a time, and a command that may change
//! something is handled when none is. Therefore its updates apply to the state that it looked at.
//!
//! * `table.rs` — start here: all commands, and their descriptions for `ceph`. Each topic's file holds its commands'
//!   signatures beside their handlers.
//! * `signature.rs`, `arguments.rs`: from a signature to checked arguments.
//! * `context.rs`: the context of a handler. `format.rs`, `text_table.rs`, `units.rs`: printing of answers.
//!
//! Words, output texts and JSON keys are those of Ceph 16.2, so that its tools and people's scripts work unchanged.
//! Commands for Ceph's manager daemon are answered here, too.

mod absent;
mod auth;
mod auth_checks;
mod auth_kinds;
#[cfg(test)]
mod auth_tests;
mod autoscale;
mod balancer;
mod balancer_plans;
mod blocklist;
mod cluster;
mod command;
mod config;
mod config_facts;
mod config_history;
mod config_key;
#[cfg(test)]
mod config_show_tests;
#[cfg(test)]
mod config_tests;
mod context;
mod crash;
mod crush_change;
mod crush_query;
mod crush_tree;
mod ec_profiles;
#[cfg(test)]
mod field_tests;
mod force;
mod health;
mod image_rights;
mod image_tasks;
#[cfg(test)]
mod image_tasks_tests;
mod iostat;
mod log;
#[cfg(test)]
mod map_tests;
mod mgr;
mod mgr_modules;
mod mon;
mod mon_change;
mod ok_to_stop;
mod orders;
mod osd_change;
mod osd_df;
mod osd_dump;
mod osd_flags;
pub(crate) mod osd_network;
mod osd_new;
mod osd_query;
mod osd_status;
mod osd_tree;
mod pg;
mod pg_dump;
mod pg_print;
mod placement_temp;
mod pool_applications;
mod pool_print;
mod pool_settings;
mod pools;
mod progress;
mod purge_schedules;
mod rbd;
mod report;
mod rights;
mod scrub;
mod services;
mod spread;
mod table;
#[cfg(test)]
pub(crate) mod test_cluster;
#[cfg(test)]
mod tests;
mod text_table;
mod units;
mod upmap;
mod weight_sets;

pub use orders::{Asked, Order};
pub(crate) use rights::check_tell;
pub(crate) use table::descriptions_but;

use crate::identity::Party;
use crate::{MonState, Update, Volatile};
use arguments::Arguments;
use bytes::Bytes;
use context::{Context, with_status};
use control::{Format, arguments, signature, xml};
use serde_json::Value;
use types::{EntityName, Errno, OsdId, Utime};
use wire::EntityAddrVec;
use wire::messages::CommandReply;

/// One command as it came.
#[derive(Clone)]
pub struct Request<'a> {
    /// The JSON text.
    pub command: &'a str,
    /// Input beside the command (`ceph ... -i FILE`).
    pub input: Bytes,
    /// The client that sent it.
    pub from: EntityName,
    /// Name and rights of that client, as far as they are known.
    pub who: &'a Party,
    /// True if it was sent to this monitor in person (`ceph tell mon.a ...`).
    pub tell: bool,
    /// True if it was sent to the manager.
    pub to_manager: bool,
    /// Parties that are connected to this monitor; empty unless [`asks_for_sessions`].
    pub sessions: &'a [SessionInfo],
    /// Wall clock.
    pub now: Utime,
    /// Fresh random bytes, for keys and ids.
    pub random: [u8; 32],
}

/// A party that is connected to this monitor.
#[derive(Clone, PartialEq, Debug)]
pub struct SessionInfo {
    pub name: EntityName,
    /// The name that it gives itself: `client.admin`.
    pub entity: String,
    pub addrs: EntityAddrVec,
    /// Features that both sides have.
    pub features: u64,
    pub global_id: u64,
    pub host: String,
    pub osd_epoch: u64,
    /// Its rights at monitors, as text.
    pub caps: String,
    /// It has proven that name.
    pub is_proven: bool,
}

/// Returns true if the answer to a command needs the sessions.
pub fn asks_for_sessions(command: &str) -> bool {
    ["\"sessions\"", "\"features\"", "\"mon_status\""].iter().any(|prefix| command.contains(prefix))
}

/// Returns true for commands that ask what options daemons have, this monitor among them.
pub fn asks_for_options(command: &str) -> bool {
    ["\"config show\"", "\"config show-with-defaults\""].iter().any(|prefix| command.contains(prefix))
}

/// Returns a command as logs may have it, on one line: without the value of a key, which may be a secret.
pub fn for_log(command: &str) -> String {
    match serde_json::from_str::<Value>(command) {
        Ok(Value::Object(mut fields)) if is_about_keys(&fields) && fields.contains_key("val") => {
            fields.insert("val".to_owned(), Value::from("..."));
            Value::Object(fields).to_string()
        }
        // A text that is no command may be one nearly.
        Err(_) if command.contains("config-key") => "\"...\"".to_owned(),
        Ok(value) => value.to_string(),
        Err(_) => Value::from(command).to_string(),
    }
}

/// Returns true for commands that a daemon gives over and over, and that are not in the audit log.
pub fn is_routine(command: &str) -> bool {
    let fields: Option<Value> = serde_json::from_str(command).ok();
    let prefix = fields.as_ref().and_then(|fields| fields["prefix"].as_str());
    prefix.and_then(table::find).is_some_and(|known| known.command.is_routine)
}

fn is_about_keys(command: &serde_json::Map<String, Value>) -> bool {
    command.get("prefix").and_then(Value::as_str).is_some_and(|prefix| prefix.starts_with("config-key"))
}

/// The answer to a command.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Reply {
    /// 0, a positive result, or a negative error number.
    pub code: i32,
    /// Text for people; `ceph` prints it to stderr.
    pub status: String,
    /// Bytes for stdout.
    pub output: Bytes,
}

/// The output may have keys in it, and is not shown.
impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Reply { code, status, output } = self;
        f.debug_struct("Reply")
            .field("code", code)
            .field("status", status)
            .field("output_bytes", &output.len())
            .finish()
    }
}

impl Reply {
    /// Returns success, with something for stdout.
    pub fn output(output: impl Into<Bytes>) -> Reply {
        Reply { code: 0, status: String::new(), output: output.into() }
    }

    /// Returns success, with a sentence for stderr.
    pub fn status(status: impl Into<String>) -> Reply {
        Reply { code: 0, status: status.into(), output: Bytes::new() }
    }

    pub fn error(errno: Errno, status: impl Into<String>) -> Reply {
        Reply { code: errno.as_result(), status: status.into(), output: Bytes::new() }
    }
}

impl From<CommandReply> for Reply {
    fn from(reply: CommandReply) -> Reply {
        Reply { code: reply.result, status: reply.status, output: reply.output.into_bytes() }
    }
}

impl From<Reply> for CommandReply {
    fn from(reply: Reply) -> CommandReply {
        CommandReply { result: reply.code, status: reply.status, output: reply.output.into() }
    }
}

/// A handler's decision about a command.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    Reply(Reply),
    /// Append the updates as one batch and answer once they are applied.
    Propose {
        updates: Vec<Update>,
        reply: Reply,
    },
    /// Have these OSDs do something with groups that they are the primaries of, as far as they are connected, and
    /// answer.
    Order {
        orders: Vec<(OsdId, Order)>,
        asked: Asked,
    },
}

/// Result of a handler; the error is the answer of a command that cannot be done.
type Answer = Result<Outcome, Reply>;

/// Handles one command.
pub fn handle(state: &MonState, volatile: &Volatile, request: &Request<'_>) -> Outcome {
    answer(state, volatile, request).unwrap_or_else(Outcome::Reply)
}

fn answer(state: &MonState, volatile: &Volatile, request: &Request<'_>) -> Answer {
    let invalid = |sentence: String| Reply::error(Errno::EINVAL, sentence);
    // Text behind the object does not matter to Ceph, either: `rbd perf image` ends its commands with a stray quote.
    let command = serde_json::Deserializer::from_str(request.command).into_iter().next();
    let Some(Ok(Value::Object(command))) = command else {
        return Err(invalid("command is not a JSON object".to_owned()));
    };
    let prefix = command.get("prefix").and_then(Value::as_str);
    let prefix = prefix.ok_or_else(|| invalid("command has no prefix".to_owned()))?;
    if prefix == "get_command_descriptions" {
        return Ok(Outcome::Reply(Reply::output(table::descriptions())));
    }
    let known = table::find(prefix).ok_or_else(|| match request.to_manager {
        // Tools take this sentence for a manager that lacks the module, and do the work by themselves.
        true => invalid(format!("No handler found for '{prefix}'")),
        false => invalid("command not known".to_owned()),
    })?;
    rights::check(request, known, &command)?;
    let format = command.get("format").and_then(Value::as_str).unwrap_or_default();
    let format = Format::from_name(format);
    let args = Arguments::parse(&known.signature, &command).map_err(|e| invalid(format!("{prefix}: {e}")))?;
    let prefix = known.signature.prefix.as_str();
    (known.command.handler)(&Context { state, volatile, request, prefix, args, format })
}

/// Returns the answer of a command that cannot be done.
fn refuse<T>(errno: Errno, sentence: impl Into<String>) -> Result<T, Reply> {
    Err(Reply::error(errno, sentence))
}

/// Returns success, with a sentence for stderr.
fn done(status: impl Into<String>) -> Answer {
    Ok(Outcome::Reply(Reply::status(status)))
}
