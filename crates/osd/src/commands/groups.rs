//! Answers `ceph pg ID ...`, by which operators query a group's primary.

use super::group_query;
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
        Ok(Done::Value(value)) => (0, String::new(), rendered(&cmd, &value, format)),
        Ok(Done::Said(status)) => (0, status, String::new()),
        Err((errno, status)) => (errno.as_result(), status, String::new()),
    };
    CommandReply { result, status, output: Rope::from(output.into_bytes()) }
}

fn rendered(cmd: &str, value: &Value, format: Format) -> String {
    match format.is_xml() {
        true => control::xml::render(cmd, value, format == Format::XmlPretty),
        false => format.render(value),
    }
}

#[derive(PartialEq, Debug)]
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
        "query" => {
            let made = shard.map().pool(pgid.pool).map(|pool| pool.create_time).unwrap_or_default();
            Ok(Done::Value(group_query::query(&view, whoami, made)))
        }
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
        _ => {
            let choice = json_string(line, "mulcmd").unwrap_or_default();
            mark_unfound_lost(&choice, view.unfound.len(), || shard.give_up_unfound(pgid))
        }
    }
}

/// Gives objects up that nobody has, of which there are `unfound`.
fn mark_unfound_lost(
    choice: &str,
    unfound: usize,
    give_up: impl FnOnce() -> Result<usize, GiveUpError>,
) -> Result<Done, (Errno, String)> {
    let nothing = || Ok(Done::Said("pg has no unfound objects".to_owned()));
    if unfound == 0 {
        return nothing();
    }
    if choice != "delete" {
        let why = "what is older than the newest version is not kept track of, so nothing can be reverted; 'delete' gives \
                   the objects up";
        return Err((Errno::EOPNOTSUPP, why.to_owned()));
    }
    match give_up() {
        Ok(count) => Ok(Done::Said(format!("pg has {count} objects unfound and apparently lost marking"))),
        Err(GiveUpError::NothingUnfound) => nothing(),
        Err(error) => Err((Errno::EINVAL, error.to_string())),
    }
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
        "might_have_unfound": group_query::might_have_unfound(view),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::group_query::tests::view;
    use types::Utime;

    #[test]
    fn answers_are_xml_where_that_is_asked_for() {
        let xml = rendered("query", &group_query::query(&view(), OsdId(2), Utime::ZERO), Format::Xml);
        let begin = "<pg><snap_trimq>[]</snap_trimq><snap_trimq_len>0</snap_trimq_len><state>peering</state><epoch>9</epoch>\
                     <up><osd>2</osd><osd>5</osd></up><acting><osd>2</osd><osd>0</osd></acting>";
        assert!(xml.starts_with(begin) && xml.ends_with("</agent_state></pg>"), "{xml}");
        let parts = ["<acting_recovery_backfill><shard>0</shard><shard>2</shard>", "<peer_info><info><peer>0</peer>"];
        let more = ["<recovery_state><state><name>", "<probing_osds><osd>2</osd>"];
        assert!(parts.iter().chain(&more).all(|part| xml.contains(part)), "{xml}");
        let xml = rendered("list_unfound", &unfound(&view()), Format::XmlPretty);
        assert!(xml.starts_with("<missing>\n <num_missing>0</num_missing>\n"), "{xml}");
        assert!(rendered("query", &json!({"a": 1}), Format::Json) == r#"{"a":1}"#);
    }

    #[test]
    fn without_an_unfound_object_there_is_nothing_to_give_up() {
        let never = || -> Result<usize, GiveUpError> { panic!("there is nothing to give up") };
        for choice in ["revert", "delete"] {
            let said = mark_unfound_lost(choice, 0, never);
            assert_eq!(said, Ok(Done::Said("pg has no unfound objects".to_owned())));
        }
        assert_eq!(mark_unfound_lost("revert", 2, never).map_err(|(errno, _)| errno), Err(Errno::EOPNOTSUPP));
        let said = mark_unfound_lost("delete", 2, || Ok(2));
        assert_eq!(said, Ok(Done::Said("pg has 2 objects unfound and apparently lost marking".to_owned())));
        let not_active = mark_unfound_lost("delete", 2, || Err(GiveUpError::NotActive));
        assert_eq!(not_active.map_err(|(errno, _)| errno), Err(Errno::EINVAL));
    }
}
