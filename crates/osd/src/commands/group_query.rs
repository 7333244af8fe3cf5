//! A placement group in full, as its primary knows it: `ceph pg ID query`.
//!
//! All keys of a Ceph are there. Where it tells of something that is not here (hit sets, splits that are remembered,
//! intervals of the past) their values are the neutral ones.

use control::pg_stats::{self, stamp};
use pg::info::PgInfo;
use pg::{MemberView, PeeringStep, PgView};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use types::{EVersion, ObjectId, OsdId, Utime};
use wire::basic::{IntervalSet, NO_SHARD, PgShard};
use wire::nacre::mon::{PgReport, pg_state as bits};
use wire::nacre::{PgTimes, pg_state_text};

/// Returns the group. `made`: when its pool was.
pub(super) fn query(view: &PgView, whoami: OsdId, made: Utime) -> Value {
    let own = shard(whoami, view.shard);
    let in_turn = |which: fn(&&MemberView) -> bool| view.members.iter().filter(which).map(member_shard);
    let mut involved: Vec<PgShard> = std::iter::once(own).chain(in_turn(|_| true)).collect();
    involved.sort_unstable_by_key(|it| (it.osd, it.shard));
    let involved: Vec<String> = involved.into_iter().map(|it| it.to_string()).collect();
    let backfilled: Vec<String> = in_turn(|member| !member.serves).map(|it| it.to_string()).collect();
    let mut answer = Map::new();
    let mut put = |key: &str, value: Value| drop(answer.insert(key.to_owned(), value));
    put("snap_trimq", json!(runs(&view.snaps_to_trim)));
    put("snap_trimq_len", json!(view.snaps_to_trim.size()));
    put("state", json!(pg_state_text(view.state)));
    put("epoch", json!(view.epoch.0));
    put("up", numbers(&view.up));
    put("acting", numbers(&view.acting));
    // A Ceph leaves an empty one out.
    if !backfilled.is_empty() {
        put("backfill_targets", json!(backfilled));
    }
    put("acting_recovery_backfill", json!(involved));
    put("info", own_info(view, made));
    put("peer_info", view.members.iter().map(|member| peer_info(view, member, made)).collect());
    put("recovery_state", recovery_state(view));
    put("scrubber", scrubber(view));
    put("agent_state", json!({}));
    Value::Object(answer)
}

fn numbers(osds: &[OsdId]) -> Value {
    osds.iter().map(|osd| json!(osd.0)).collect()
}

fn shard(osd: OsdId, shard: Option<u8>) -> PgShard {
    PgShard { osd, shard: shard.and_then(|shard| i8::try_from(shard).ok()).unwrap_or(NO_SHARD) }
}

fn member_shard(member: &MemberView) -> PgShard {
    shard(member.osd, member.shard)
}

/// Returns the group's name with the number of a shard, where it has one.
fn shard_of_group(view: &PgView, number: Option<u8>) -> String {
    match number {
        Some(number) => format!("{}s{number}", view.pgid),
        None => view.pgid.to_string(),
    }
}

/// Returns numbers of snapshots as Ceph prints such sets, in hexadecimal.
fn runs(set: &IntervalSet) -> String {
    let runs: Vec<String> = set.runs().map(|(start, length)| format!("{start:x}~{length:x}")).collect();
    format!("[{}]", runs.join(","))
}

/// A member's part of the group.
struct Has<'a> {
    pgid: String,
    last_update: EVersion,
    last_complete: EVersion,
    log_tail: EVersion,
    last_user_version: u64,
    last_backfill: String,
    last_epoch_started: u32,
    stats: Map<String, Value>,
    trimmed: &'a IntervalSet,
}

fn info(view: &PgView, has: Has<'_>, made: Utime) -> Map<String, Value> {
    let purged = has.trimmed.runs();
    let purged = purged.map(|(start, length)| json!({"start": format!("{start:x}"), "length": format!("{length:x}")}));
    let is_whole = has.last_backfill == "MAX";
    let info = json!({
        "pgid": has.pgid,
        "last_update": has.last_update.to_string(),
        "last_complete": has.last_complete.to_string(),
        "log_tail": has.log_tail.to_string(),
        "last_user_version": has.last_user_version,
        "last_backfill": has.last_backfill,
        "purged_snaps": purged.collect::<Vec<_>>(),
        "history": history(view, made),
        "stats": has.stats,
        "empty": i32::from(has.last_update == EVersion::ZERO),
        "dne": 0,
        "incomplete": i32::from(!is_whole),
        "last_epoch_started": has.last_epoch_started,
        "hit_set_history": {"current_last_update": "0'0", "history": []},
    });
    fields(info)
}

fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => panic!("it was made as an object, and is {other}"),
    }
}

fn own_info(view: &PgView, made: Utime) -> Value {
    let has = Has {
        pgid: shard_of_group(view, view.shard),
        last_update: view.last_update,
        last_complete: view.last_complete,
        log_tail: view.log_tail,
        last_user_version: view.last_user_version,
        last_backfill: "MAX".to_owned(),
        last_epoch_started: view.last_epoch_started.0,
        stats: pg_stats::stats(&view.report, &view.times, &view.acting, made),
        trimmed: &view.report.trimmed_snaps,
    };
    Value::Object(info(view, has, made))
}

/// Returns what the primary knows of another member: by the log that they share, once the member has it; before that
/// by what it told when the interval began.
fn peer_info(view: &PgView, member: &MemberView, made: Utime) -> Value {
    let nothing = PgInfo { complete: true, ..PgInfo::default() };
    let had = member.had.as_ref().unwrap_or(&nothing);
    let last_update = if member.serves { view.last_update } else { had.last_update };
    let last_backfill = match (member.serves, &member.backfill, had.complete) {
        (false, Some(cursor), _) => cursor.to_string(),
        (false, None, false) => had.last_backfill.as_ref().map_or("MIN".to_owned(), |cursor| cursor.to_string()),
        _ => "MAX".to_owned(),
    };
    // A member tells no times, and no sets.
    let told = PgReport {
        pgid: view.pgid,
        last_update: had.last_update,
        log_start: had.log_tail,
        objects: had.stats.objects.max(0) as u64,
        clones: had.stats.clones.max(0) as u64,
        bytes: had.stats.bytes.max(0) as u64,
        write_ops: had.stats.write_ops,
        write_kib: had.stats.write_kib,
        created: had.created,
        ..PgReport::default()
    };
    let mut stats = pg_stats::stats(&told, &PgTimes::default(), &[], Utime::ZERO);
    stats["stat_sum"]["num_objects_missing"] = json!(member.missing);
    let has = Has {
        pgid: shard_of_group(view, member.shard),
        last_update,
        last_complete: if member.missing == 0 { last_update } else { had.last_update.min(last_update) },
        log_tail: if member.serves { view.log_tail } else { had.log_tail },
        last_user_version: if member.serves { view.last_user_version } else { had.last_user_version },
        last_backfill,
        last_epoch_started: if member.serves { view.last_epoch_started.0 } else { had.last_epoch_started.0 },
        stats,
        trimmed: &IntervalSet::new(),
    };
    let mut peer = Map::from_iter([("peer".to_owned(), json!(member_shard(member).to_string()))]);
    peer.extend(info(view, has, made));
    Value::Object(peer)
}

/// Returns what the members know of the group's past. An interval counts by its first epoch.
fn history(view: &PgView, made: Utime) -> Value {
    let report = &view.report;
    let clean = view.times.epoch_clean.0;
    let mut history = fields(json!({
        "epoch_created": report.created.0,
        "epoch_pool_created": report.created.0,
        "last_epoch_started": report.last_epoch_started.0,
        "last_interval_started": report.last_epoch_started.0,
        "last_epoch_clean": clean,
        "last_interval_clean": clean.min(view.interval_since.0),
        "last_epoch_split": 0,
        "last_epoch_marked_full": 0,
        "same_up_since": view.up_since.0,
        "same_interval_since": view.interval_since.0,
        "same_primary_since": view.primary_since.0,
    }));
    history.extend(pg_stats::scrub_fields(&pg_stats::scrubbed(made, &report.scrub)));
    history.insert("prior_readable_until_ub".to_owned(), json!(0));
    Value::Object(history)
}

/// Returns OSDs that served before, where they may have something that nobody has who is here.
pub(super) fn might_have_unfound(view: &PgView) -> Value {
    let status = |is_up: bool| if is_up { "already probed" } else { "osd is down" };
    let past = view.past.iter().filter(|_| !view.unfound.is_empty());
    past.map(|(osd, is_up)| json!({"osd": osd.0.to_string(), "status": status(*is_up)})).collect()
}

fn scrubber(view: &PgView) -> Value {
    match view.state & bits::SCRUBBING != 0 {
        false => json!({"epoch_start": "0", "active": false}),
        true => json!({
            "epoch_start": view.interval_since.0.to_string(),
            "active": true,
            "deep": view.state & bits::DEEP_SCRUB != 0,
        }),
    }
}

/// Returns the group's progress on its way to serving, in Ceph's words, and the OSDs that it waits for.
fn recovery_state(view: &PgView) -> Value {
    let started = json!({"name": "Started", "enter_time": stamp(view.began_at)});
    let entered = |at: Utime| stamp(at.max(view.began_at));
    if view.state & (bits::ACTIVE | bits::PEERED) != 0 {
        let mut active = json!({
            "name": "Started/Primary/Active",
            "enter_time": entered(view.times.became_peered),
            "might_have_unfound": might_have_unfound(view),
            "recovery_progress": recovery_progress(view),
        });
        if view.state & bits::PEERED != 0 {
            active["comment"] = json!("not enough up instances of this PG to go active");
        }
        return json!([active, started]);
    }
    let probed = view.acting.iter().chain(&view.further).filter(|osd| osd.is_some());
    let probed: Vec<String> = probed.map(|osd| osd.0.to_string()).collect();
    let mut peering = json!({
        "name": "Started/Primary/Peering",
        "enter_time": stamp(view.began_at),
        "past_intervals": [],
        "probing_osds": probed,
        "down_osds_we_would_probe": numbers(&view.blocked_by),
        "peering_blocked_by": [],
    });
    let (name, comment) = match view.step {
        PeeringStep::Asks | PeeringStep::Done => ("Peering/GetInfo", None),
        PeeringStep::GetsLog => ("Peering/GetLog", None),
        PeeringStep::Starts => ("Peering/GetMissing", None),
        PeeringStep::Records => ("Peering/WaitUpThru", None),
        PeeringStep::AwaitsOthers => ("WaitActingChange", Some("waiting for pg acting set to change")),
        PeeringStep::Down => ("Peering/Down", Some("not enough up instances of this PG to go active")),
        PeeringStep::Incomplete => ("Peering/Incomplete", Some("not enough complete instances of this PG")),
    };
    let mut step = json!({"name": format!("Started/Primary/{name}"), "enter_time": entered(view.times.change)});
    if let Some(comment) = comment {
        step["comment"] = json!(comment);
    }
    match view.step {
        PeeringStep::Asks | PeeringStep::Done => {
            let asked = view.waits_for.iter().map(|osd| json!({"osd": osd.0.to_string()}));
            step["requested_info_from"] = asked.collect();
        }
        PeeringStep::GetsLog => {
            step["auth_log_shard"] = view.waits_for.first().map(|osd| json!(osd.0.to_string())).unwrap_or_default();
        }
        PeeringStep::Starts => {
            let asked = view.waits_for.iter().map(|osd| json!({"osd": osd.0.to_string(), "got_missing": 0}));
            step["peer_missing_requested"] = asked.collect();
        }
        PeeringStep::Down => {
            let comment = "starting or marking this osd lost may let us proceed";
            let blocked = view.blocked_by.iter();
            let blocked = blocked.map(|osd| json!({"osd": osd.0, "current_lost_at": 0, "comment": comment}));
            peering["blocked"] = json!("peering is blocked due to down osds");
            peering["peering_blocked_by"] = blocked.collect();
        }
        _ => {}
    }
    match view.step {
        PeeringStep::AwaitsOthers => json!([step, started]),
        _ => json!([step, peering, started]),
    }
}

fn recovery_progress(view: &PgView) -> Value {
    let names = |objects: &mut dyn Iterator<Item = &ObjectId>| -> Vec<String> {
        let mut names: Vec<&ObjectId> = objects.collect();
        names.sort();
        names.dedup();
        names.into_iter().map(|object| object.to_string()).collect()
    };
    let targets: Vec<&MemberView> = view.members.iter().filter(|member| member.backfill.is_some()).collect();
    let target_names: Vec<String> = targets.iter().map(|member| member_shard(member).to_string()).collect();
    let to_targets = || targets.iter().flat_map(|member| &member.pushes);
    let cursor = |member: &&MemberView| member.backfill.clone();
    let begin = targets.iter().filter_map(cursor).min().map_or("MIN".to_owned(), |object| object.to_string());
    let interval =
        |begin: &str| json!({"begin": begin, "end": if begin == "MIN" { "MIN" } else { "MAX" }, "objects": []});
    let of_peers = targets.iter().flat_map(|member| {
        let begin = member.backfill.as_ref().map_or("MIN".to_owned(), |object| object.to_string());
        [json!(member_shard(member).to_string()), interval(&begin)]
    });
    let pulled = view.pulls.iter().map(|(object, _)| object);
    let pushed = view.members.iter().flat_map(|member| &member.pushes);
    json!({
        "backfill_targets": target_names,
        "waiting_on_backfill": [],
        "last_backfill_started": begin,
        "backfill_info": interval(&begin),
        "peer_backfill_info": of_peers.collect::<Vec<_>>(),
        "backfills_in_flight": names(&mut to_targets()),
        "recovering": names(&mut pulled.chain(pushed)),
        "pg_backend": backend(view),
    })
}

/// Returns single objects on their way. Shards are rebuilt from several members, so there it is not told from whom.
fn backend(view: &PgView) -> Value {
    let mut pushes: BTreeMap<&ObjectId, Vec<PgShard>> = BTreeMap::new();
    for member in &view.members {
        member.pushes.iter().for_each(|object| pushes.entry(object).or_default().push(member_shard(member)));
    }
    let info = |object: &ObjectId| json!({"recovery_info": {"object": object.to_string()}});
    if view.shard.is_some() {
        let objects = view.pulls.iter().map(|(object, _)| object).chain(pushes.into_keys());
        let ops = objects.map(|object| json!({"hoid": object.to_string()}));
        return json!({"recovery_ops": ops.collect::<Vec<_>>(), "read_ops": []});
    }
    let pulls = view.pulls.iter();
    let pulls = pulls.map(|(object, from)| json!({"pull_from": from.0.to_string(), "pulls": [info(object)]}));
    let pushes = pushes.into_iter().map(|(object, to)| {
        let to = to.iter().map(|to| json!({"pushing_to": to.to_string(), "push_info": info(object)}));
        json!({"pushing": object.to_string(), "pushing_to": to.collect::<Vec<_>>()})
    });
    json!({"pull_from_peer": pulls.collect::<Vec<_>>(), "pushing": pushes.collect::<Vec<_>>()})
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use pg::info::PgStats;
    use types::{Epoch, PgId, PoolId};

    fn object(name: &str) -> ObjectId {
        ObjectId::head(PoolId(1), 5, b"", name.as_bytes())
    }

    fn member(osd: i32) -> MemberView {
        let osd = OsdId(osd);
        MemberView { osd, serves: true, missing: 0, backfill: None, shard: None, had: None, pushes: Vec::new() }
    }

    /// A group that asks its members for what they have.
    pub fn view() -> PgView {
        let (up, acting) = (vec![OsdId(2), OsdId(5)], vec![OsdId(2), OsdId(0)]);
        let report = PgReport {
            pgid: PgId::new(1, 5),
            state: bits::PEERING,
            epoch: Epoch(9),
            interval_since: Epoch(8),
            created: Epoch(3),
            up: up.clone(),
            acting: acting.clone(),
            ..PgReport::default()
        };
        PgView {
            pgid: report.pgid,
            state: report.state,
            epoch: report.epoch,
            interval_since: report.interval_since,
            up,
            acting,
            further: vec![OsdId(5)],
            last_update: EVersion::ZERO,
            log_tail: EVersion::ZERO,
            last_epoch_started: Epoch(7),
            objects: 0,
            bytes: 0,
            missing: 0,
            degraded: 0,
            misplaced: 0,
            unfound: Vec::new(),
            members: vec![member(0)],
            blocked_by: Vec::new(),
            report,
            times: PgTimes::default(),
            began_at: Utime { sec: 1_795_812_800, nsec: 0 },
            shard: None,
            last_complete: EVersion::ZERO,
            last_user_version: 0,
            primary_since: Epoch(6),
            up_since: Epoch(5),
            step: PeeringStep::Asks,
            waits_for: vec![OsdId(0)],
            pulls: Vec::new(),
            snaps_to_trim: IntervalSet::new(),
            past: Vec::new(),
        }
    }

    /// That group, active.
    fn active() -> PgView {
        let mut view = view();
        (view.state, view.report.state, view.step) = (bits::ACTIVE, bits::ACTIVE, PeeringStep::Done);
        view.waits_for.clear();
        view
    }

    fn names(value: &Value) -> Vec<&str> {
        value.as_array().expect("a list").iter().map(|state| state["name"].as_str().expect("a name")).collect()
    }

    #[test]
    fn acting_sets_are_shown_as_clients_see_them() {
        let answer = query(&view(), OsdId(2), Utime::ZERO);
        assert_eq!((&answer["acting"], &answer["info"]["stats"]["acting"]), (&json!([2, 0]), &json!([2, 0])));
        assert_eq!(answer["recovery_state"][1]["probing_osds"], json!(["2", "0", "5"]));
    }

    #[test]
    fn steps_on_the_way_to_serving_have_the_names_of_a_cephs() {
        let mut it = view();
        let told = query(&it, OsdId(2), Utime::ZERO)["recovery_state"].clone();
        assert_eq!(names(&told), ["Started/Primary/Peering/GetInfo", "Started/Primary/Peering", "Started"]);
        assert_eq!(told[0]["requested_info_from"], json!([{"osd": "0"}]));
        assert_eq!(told[2]["enter_time"], "2026-11-27T20:53:20.000000+0000");
        for (step, name) in [
            (PeeringStep::GetsLog, "Started/Primary/Peering/GetLog"),
            (PeeringStep::Starts, "Started/Primary/Peering/GetMissing"),
            (PeeringStep::Records, "Started/Primary/Peering/WaitUpThru"),
            (PeeringStep::Down, "Started/Primary/Peering/Down"),
            (PeeringStep::Incomplete, "Started/Primary/Peering/Incomplete"),
            (PeeringStep::AwaitsOthers, "Started/Primary/WaitActingChange"),
        ] {
            it.step = step;
            assert_eq!(names(&query(&it, OsdId(2), Utime::ZERO)["recovery_state"])[0], name);
        }
        (it.step, it.blocked_by) = (PeeringStep::Down, vec![OsdId(4)]);
        let told = query(&it, OsdId(2), Utime::ZERO)["recovery_state"].clone();
        assert_eq!(told[1]["peering_blocked_by"][0]["osd"], 4);
        it.state = bits::PEERED;
        assert_eq!(names(&query(&it, OsdId(2), Utime::ZERO)["recovery_state"]), ["Started/Primary/Active", "Started"]);
    }

    #[test]
    fn a_member_is_told_by_the_log_that_it_shares_or_by_what_it_had() {
        let mut it = active();
        it.last_update = EVersion::new(9, 40);
        let stats = PgStats { objects: 7, bytes: 70, ..PgStats::default() };
        let had = PgInfo { last_update: EVersion::new(8, 30), complete: true, stats, ..PgInfo::default() };
        let behind = MemberView { serves: false, missing: 3, had: Some(had.clone()), ..member(4) };
        let cursor = object("far");
        let filled = MemberView { serves: false, backfill: Some(cursor.clone()), had: Some(had), ..member(5) };
        it.members.extend([behind, filled]);
        let answer = query(&it, OsdId(2), Utime::ZERO);
        assert_eq!(answer["backfill_targets"], json!(["4", "5"]));
        assert_eq!(answer["acting_recovery_backfill"], json!(["0", "2", "4", "5"]));
        let told = |peer: usize, key: &str| answer["peer_info"][peer][key].clone();
        assert_eq!(
            (told(0, "peer"), told(0, "last_update"), told(0, "last_backfill")),
            (json!("0"), json!("9'40"), json!("MAX"))
        );
        assert_eq!((told(1, "last_update"), told(1, "incomplete")), (json!("8'30"), json!(0)));
        assert_eq!((told(2, "last_backfill"), told(2, "incomplete")), (json!(cursor.to_string()), json!(1)));
        let sum = &answer["peer_info"][1]["stats"]["stat_sum"];
        assert_eq!((&sum["num_objects"], &sum["num_objects_missing"]), (&json!(7), &json!(3)));
        let progress = &answer["recovery_state"][0]["recovery_progress"];
        assert_eq!(progress["backfill_targets"], json!(["5"]));
        let interval = json!({"begin": cursor.to_string(), "end": "MAX", "objects": []});
        assert_eq!(progress["peer_backfill_info"], json!(["5", interval]));
        let keys = |value: &Value| value.as_object().expect("a map").keys().cloned().collect::<Vec<_>>();
        let own = keys(&answer["info"]);
        let peers = (0..3).map(|peer| keys(&answer["peer_info"][peer])[1..].to_vec());
        assert!(peers.into_iter().all(|peer| peer == own), "a peer has the same keys, behind its name");
    }

    #[test]
    fn shards_have_their_numbers_and_epochs_their_places() {
        let mut it = active();
        it.shard = Some(1);
        it.members[0].shard = Some(0);
        it.times.epoch_clean = Epoch(9);
        it.snaps_to_trim.insert(10, 2);
        it.report.trimmed_snaps.insert(1, 16);
        it.members[0].pushes = vec![object("a")];
        it.pulls = vec![(object("b"), OsdId(2))];
        let answer = query(&it, OsdId(2), Utime { sec: 1_795_812_800, nsec: 0 });
        assert_eq!((&answer["info"]["pgid"], &answer["peer_info"][0]["peer"]), (&json!("1.5s1"), &json!("0(0)")));
        assert_eq!((&answer["snap_trimq"], &answer["snap_trimq_len"]), (&json!("[a~2]"), &json!(2)));
        assert_eq!(answer["info"]["purged_snaps"], json!([{"start": "1", "length": "10"}]));
        let history = &answer["info"]["history"];
        let epochs = ["epoch_created", "same_up_since", "same_primary_since", "same_interval_since"];
        assert_eq!(epochs.map(|key| history[key].as_u64().expect("an epoch")), [3, 5, 6, 8]);
        assert_eq!((&history["last_epoch_clean"], &history["last_interval_clean"]), (&json!(9), &json!(8)));
        assert_eq!(history["last_scrub_stamp"], "2026-11-27T20:53:20.000000+0000", "its pool was made then");
        let progress = &answer["recovery_state"][0]["recovery_progress"];
        assert_eq!(progress["recovering"], json!([object("a").to_string(), object("b").to_string()]));
        assert_eq!(progress["pg_backend"]["recovery_ops"].as_array().map(Vec::len), Some(2));
        (it.shard, it.members[0].shard) = (None, None);
        let answer = query(&it, OsdId(2), Utime::ZERO);
        let backend = &answer["recovery_state"][0]["recovery_progress"]["pg_backend"];
        let info = |name: &str| json!({"recovery_info": {"object": object(name).to_string()}});
        assert_eq!(backend["pull_from_peer"], json!([{"pull_from": "2", "pulls": [info("b")]}]));
        let to = json!([{"pushing_to": "0", "push_info": info("a")}]);
        assert_eq!(backend["pushing"], json!([{"pushing": object("a").to_string(), "pushing_to": to}]));
    }

    #[test]
    fn osds_that_may_have_what_is_unfound_are_named() {
        let mut it = active();
        it.past = vec![(OsdId(7), false), (OsdId(8), true)];
        assert_eq!(might_have_unfound(&it), json!([]));
        it.unfound = vec![(object("a"), EVersion::new(9, 3))];
        let expected = json!([{"osd": "7", "status": "osd is down"}, {"osd": "8", "status": "already probed"}]);
        assert_eq!(might_have_unfound(&it), expected);
    }
}
