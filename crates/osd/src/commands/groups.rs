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
    let probed = view.acting.iter().chain(&view.further).filter(|osd| osd.is_some());
    let probed: Vec<String> = probed.map(|osd| osd.0.to_string()).collect();
    let mut peering = json!({"name": "Started/Primary/Peering", "probing_osds": probed});
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

#[cfg(test)]
mod tests {
    use super::*;
    use types::{EVersion, Epoch};
    use wire::nacre::mon::pg_state;

    fn view() -> PgView {
        PgView {
            pgid: PgId::new(1, 5),
            state: pg_state::PEERING,
            epoch: Epoch(9),
            interval_since: Epoch(8),
            up: vec![OsdId(2), OsdId(5)],
            acting: vec![OsdId(2), OsdId(0)],
            further: vec![OsdId(5)],
            last_update: EVersion::default(),
            log_tail: EVersion::default(),
            last_epoch_started: Epoch(7),
            objects: 0,
            bytes: 0,
            missing: 0,
            degraded: 0,
            misplaced: 0,
            unfound: Vec::new(),
            members: vec![pg::MemberView { osd: OsdId(0), serves: true, missing: 0, backfill: None }],
            blocked_by: Vec::new(),
        }
    }

    #[test]
    fn acting_sets_are_shown_as_clients_see_them() {
        let answer = query(&view(), OsdId(2));
        assert_eq!((&answer["acting"], &answer["info"]["stats"]["acting"]), (&json!([2, 0]), &json!([2, 0])));
        assert_eq!(answer["recovery_state"][0]["probing_osds"], json!(["2", "0", "5"]));
    }

    #[test]
    fn answers_are_xml_where_that_is_asked_for() {
        let xml = rendered("query", &query(&view(), OsdId(2)), Format::Xml);
        let begin = "<pg><snap_trimq>[]</snap_trimq><snap_trimq_len>0</snap_trimq_len><state>peering</state><epoch>9</epoch>\
                     <up><osd>2</osd><osd>5</osd></up><acting><osd>2</osd><osd>0</osd></acting>";
        assert!(xml.starts_with(begin) && xml.ends_with("</recovery_state></pg>"), "{xml}");
        let parts = ["<acting_recovery_backfill><shard>2</shard>", "<peer_info><info><peer>0</peer>"];
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
