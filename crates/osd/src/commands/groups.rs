//! Answers `ceph pg ID ...`, by which operators query a group's primary.

use control::Format;
use pg::{GiveUpError, KeepCopyError, Kept, PgView, Shard};
use serde_json::{Value, json};
use types::{Errno, ObjectId, OsdId, PgId, SnapId};
use wire::Rope;
use wire::messages::CommandReply;
use wire::nacre::pg_state_text;

/// Arguments that a command takes beside the group.
enum Arguments {
    None,
    /// One of these words; they are separated by `|`.
    Choice(&'static str),
    /// Words with these names.
    Words(&'static [&'static str]),
}

/// The commands: word after `pg ID`, further arguments, help, and permissions ("rw" if it changes anything).
const COMMANDS: &[(&str, Arguments, &str, &str)] = &[
    ("query", Arguments::None, "show details of a specific pg", "r"),
    ("scrub", Arguments::None, "have the copies of this group compared", "rw"),
    ("deep_scrub", Arguments::None, "have the copies of this group compared, with all that they hold", "rw"),
    ("list_unfound", Arguments::None, "list unfound objects on this pg", "r"),
    ("mark_unfound_lost", Arguments::Choice("revert|delete"), "mark all unfound objects in this pg as lost", "rw"),
    (
        "keep_copy",
        Arguments::Words(&["object", "osd"]),
        "of an object whose copies a scrub found to differ, keep that on this OSD and replace the others",
        "rw",
    ),
];

/// The descriptions that `get_command_descriptions` lists.
///
/// Each command can be given in two ways: `ceph pg ID query` and `ceph tell ID query`.
pub(crate) fn descriptions() -> Vec<Value> {
    let described = |(_, arguments, help, perm): &(&str, Arguments, &str, &str), mut sig: Vec<Value>| {
        match arguments {
            Arguments::None => {}
            Arguments::Choice(choices) => {
                sig.push(json!({"name": "mulcmd", "type": "CephChoices", "strings": choices}));
            }
            Arguments::Words(names) => sig.extend(names.iter().map(|name| json!({"name": name, "type": "CephString"}))),
        }
        json!({"sig": sig, "help": help, "module": "osd", "perm": perm, "flags": 0})
    };
    let of_pg = COMMANDS.iter().map(|command| {
        let pgid = json!({"name": "pgid", "type": "CephPgid"});
        let cmd = json!({"name": "cmd", "type": "CephChoices", "strings": command.0});
        described(command, vec![json!("pg"), pgid, cmd])
    });
    let told = COMMANDS.iter().map(|command| {
        // The target of `ceph tell` already names the group.
        let pgid = json!({"name": "pgid", "type": "CephPgid", "req": "false"});
        described(command, vec![json!(command.0), pgid])
    });
    of_pg.chain(told).collect()
}

/// Tells whether a command is one about a group.
pub(crate) fn is_known(line: &str) -> bool {
    known(line).is_some()
}

/// The group that a command is about, if it names one.
pub(crate) fn group_of(line: &str) -> Option<PgId> {
    json_string(line, "pgid")?.parse().ok()
}

/// The string under `key` of a JSON object.
fn json_string(text: &str, key: &str) -> Option<String> {
    let value: Value = serde_json::from_str(text).ok()?;
    Some(value.get(key)?.as_str()?.to_owned())
}

/// The name of the command if it is one of [`COMMANDS`].
fn known(line: &str) -> Option<String> {
    let prefix = json_string(line, "prefix")?;
    let cmd = if prefix == "pg" { json_string(line, "cmd")? } else { prefix };
    COMMANDS.iter().any(|(known, ..)| *known == cmd).then_some(cmd)
}

/// Carries out a command about a group.
pub(crate) fn answer(line: &str, shard: &mut Shard) -> CommandReply {
    let cmd = known(line).expect("only commands about groups come here");
    let format = Format::from_name(&json_string(line, "format").unwrap_or_default());
    let (result, status, output) = match carry_out(&cmd, line, shard) {
        Ok(Done::Value(value)) => (0, String::new(), format.render(&value)),
        Ok(Done::Said(status)) => (0, status, String::new()),
        Err((errno, status)) => (errno.as_result(), status, String::new()),
    };
    CommandReply { result, status, output: Rope::from(output.into_bytes()) }
}

enum Done {
    Value(Value),
    Said(String),
}

fn carry_out(cmd: &str, line: &str, shard: &mut Shard) -> Result<Done, (Errno, String)> {
    let text = json_string(line, "pgid").unwrap_or_default();
    if text.is_empty() {
        return Err((Errno::EINVAL, "no pgid specified".to_owned()));
    }
    let Ok(pgid) = text.parse::<PgId>() else { return Err((Errno::EINVAL, format!("couldn't parse pgid '{text}'"))) };
    let whoami = shard.whoami();
    let Some(view) = shard.pg_view(pgid) else {
        return Err((Errno::ENOENT, format!("{whoami} is not the primary of pg {pgid}")));
    };
    match cmd {
        "query" => Ok(Done::Value(query(&view, whoami))),
        "list_unfound" => Ok(Done::Value(unfound(&view))),
        "scrub" | "deep_scrub" => {
            let deep = cmd == "deep_scrub";
            assert!(shard.order_scrub(pgid, deep), "{whoami} leads pg {pgid}, as the view shows");
            Ok(Done::Value(json!({"deep": deep, "epoch": view.epoch.0})))
        }
        "keep_copy" => {
            let (object, osd) = (json_string(line, "object"), json_string(line, "osd"));
            let (object, osd) = (object.unwrap_or_default(), osd.unwrap_or_default());
            let Ok(number) = osd.strip_prefix("osd.").unwrap_or(&osd).parse() else {
                return Err((Errno::EINVAL, format!("'{osd}' is no OSD; it is named as osd.3")));
            };
            match shard.keep_copy(pgid, &object, OsdId(number)) {
                Ok(Kept::Replaces) => {
                    Ok(Done::Said(format!("the copies of {object} are replaced by that on osd.{number}")))
                }
                Ok(Kept::Recorded) => Ok(Done::Said(format!(
                    "no copy of {object} was what its digest says; that of the one on osd.{number} is recorded now, and \
                     'ceph pg deep-scrub {pgid}' replaces the others by it"
                ))),
                Err(error @ KeepCopyError::NotFound) => Err((Errno::ENOENT, error.to_string())),
                Err(error) => Err((Errno::EINVAL, error.to_string())),
            }
        }
        _ if json_string(line, "mulcmd").as_deref() != Some("delete") => {
            let why = "what is older than the newest version is not kept track of, so nothing can be reverted; 'delete' gives \
                       the objects up";
            Err((Errno::EOPNOTSUPP, why.to_owned()))
        }
        _ => match shard.give_up_unfound(pgid) {
            Ok(count) => Ok(Done::Said(format!("pg has {count} objects unfound and apparently lost marking"))),
            Err(GiveUpError::NothingUnfound) => Ok(Done::Said("pg has no unfound objects".to_owned())),
            Err(error) => Err((Errno::EINVAL, error.to_string())),
        },
    }
}

fn numbers(osds: &[OsdId]) -> Vec<i32> {
    osds.iter().map(|osd| osd.0).collect()
}

fn query(view: &PgView, whoami: OsdId) -> Value {
    let members: Vec<Value> = view
        .members
        .iter()
        .map(|member| {
            let backfill = member.backfill.as_ref().map_or("MAX".to_owned(), |cursor| cursor.to_string());
            json!({
                "peer": member.osd.0.to_string(),
                "pgid": view.pgid.to_string(),
                "serves": member.serves,
                "last_backfill": backfill,
                "stats": {"stat_sum": {"num_objects_missing": member.missing}},
            })
        })
        .collect();
    let backfill_targets: Vec<String> =
        view.members.iter().filter(|member| !member.serves).map(|member| member.osd.0.to_string()).collect();
    let mut involved: Vec<String> = vec![whoami.0.to_string()];
    involved.extend(view.members.iter().map(|member| member.osd.0.to_string()));
    json!({
        "snap_trimq": "[]",
        "snap_trimq_len": 0,
        "state": pg_state_text(view.state),
        "epoch": view.epoch.0,
        "up": numbers(&view.up),
        "acting": numbers(&view.acting),
        "backfill_targets": backfill_targets,
        "acting_recovery_backfill": involved,
        "info": {
            "pgid": view.pgid.to_string(),
            "last_update": view.last_update.to_string(),
            "log_tail": view.log_tail.to_string(),
            "last_backfill": "MAX",
            "history": {"last_epoch_started": view.last_epoch_started.0, "same_interval_since": view.interval_since.0},
            "stats": {
                "state": pg_state_text(view.state),
                "stat_sum": {
                    "num_objects": view.objects,
                    "num_bytes": view.bytes,
                    "num_objects_missing_on_primary": view.missing,
                    "num_objects_degraded": view.degraded,
                    "num_objects_misplaced": view.misplaced,
                    "num_objects_unfound": view.unfound.len(),
                },
                "up": numbers(&view.up),
                "acting": numbers(&view.acting),
                "up_primary": view.up.first().map_or(-1, |osd| osd.0),
                "acting_primary": whoami.0,
            },
        },
        "peer_info": members,
        "recovery_state": recovery_state(view),
    })
}

/// The group's progress on its way to serving, in Ceph's words, and the OSDs that it waits for.
fn recovery_state(view: &PgView) -> Value {
    use wire::nacre::mon::pg_state as bits;
    let is = |bit| view.state & bit != 0;
    let started = json!({"name": "Started"});
    if is(bits::ACTIVE) {
        return json!([{"name": "Started/Primary/Active"}, started]);
    }
    if is(bits::PEERED) {
        return json!([{"name": "Started/Primary/Active", "comment": "not enough up instances of this PG to go active"}, started]);
    }
    let mut peering = json!({"name": "Started/Primary/Peering", "probing_osds": view.acting.iter().map(|osd| osd.0.to_string()).collect::<Vec<_>>()});
    if is(bits::INCOMPLETE) {
        let comment = "not enough complete instances of this PG";
        return json!([{"name": "Started/Primary/Peering/Incomplete", "comment": comment}, peering, started]);
    }
    if !is(bits::DOWN) {
        return json!([peering, started]);
    }
    let comment = "starting or marking this osd lost may let us proceed";
    let blocked = view.blocked_by.iter().map(|osd| json!({"osd": osd.0, "current_lost_at": 0, "comment": comment}));
    peering["blocked"] = json!("peering is blocked due to down osds");
    peering["down_osds_we_would_probe"] = json!(numbers(&view.blocked_by));
    peering["peering_blocked_by"] = blocked.collect();
    json!([
        {"name": "Started/Primary/Peering/Down", "comment": "not enough up instances of this PG to go active"},
        peering,
        started
    ])
}

fn unfound(view: &PgView) -> Value {
    let objects: Vec<Value> = view
        .unfound
        .iter()
        .map(|(object, version)| {
            json!({
                "oid": oid(object),
                "need": version.to_string(),
                "have": "0'0",
                "flags": "none",
                "locations": [],
            })
        })
        .collect();
    json!({
        "num_missing": view.missing,
        "num_unfound": view.unfound.len(),
        "objects": objects,
        "state": pg_state_text(view.state),
        "available_might_have_unfound": true,
        "might_have_unfound": [],
        "more": false,
    })
}

fn oid(object: &ObjectId) -> Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    json!({
        "oid": text(&object.name),
        "key": text(&object.key),
        "snapid": if object.snap == SnapId::HEAD { -2 } else { object.snap.0 as i64 },
        "hash": object.hash,
        "max": 0,
        "pool": object.pool.0,
        "namespace": text(&object.nspace),
    })
}
