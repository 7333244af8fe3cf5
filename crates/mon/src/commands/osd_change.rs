//! Marking OSDs in, out and down, weighing them, making them and removing them.

use super::arguments::parse_osd;
use super::command::Command;
use super::context::{Context, short_float};
use super::osd_new;
use super::{Answer, Outcome, Reply, done, refuse};
use crate::Update;
use osdmap::{Incremental, OsdState, PgMapping, UpActing, WEIGHT_IN};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use types::{Errno, Fsid, OsdId};
use wire::nacre::mon::pg_state;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("osd out {ids:String,n=N}", "rw", "mark OSDs out: their data moves elsewhere", out),
    Command::new("osd in {ids:String,n=N}", "rw", "mark OSDs in: they take data", mark_in),
    Command::new("osd down {ids:String,n=N} {definitely_dead:Bool,req=false}", "rw", "mark OSDs down", down),
    Command::new("osd stop {ids:String,n=N}", "rw", "mark OSDs down and have their daemons end", stop),
    Command::new(
        "osd reweight {id:OsdName} {weight:Float,range=0.0|1.0}",
        "rw",
        "let an OSD take a share of what its CRUSH weight says",
        reweight,
    ),
    Command::new(
        "osd reweightn {weights:String}",
        "rw",
        "reweight several OSDs: a JSON object of ids and weights",
        reweight_many,
    ),
    Command::new(
        "osd primary-affinity {id:OsdName} {weight:Float,range=0.0|1.0}",
        "rw",
        "let an OSD be primary more or less often",
        primary_affinity,
    ),
    Command::new(
        "osd create {uuid:UUID,req=false} {id:OsdName,req=false}",
        "rw",
        "bring an OSD into being and print its id",
        create,
    ),
    Command::new("osd setmaxosd {newmax:Int,range=0}", "rw", "set how many OSDs the map has room for", set_max_osd),
    Command::new(
        "osd destroy {id:OsdName} {force:Bool,req=false} {yes_i_really_mean_it:Bool,req=false}",
        "rw",
        "declare an OSD's data gone; its id can be used again",
        destroy,
    ),
    Command::new(
        "osd purge {id:OsdName} {force:Bool,req=false} {yes_i_really_mean_it:Bool,req=false}",
        "rw",
        "remove an OSD from the map, the hierarchy and the keys",
        purge,
    ),
    Command::new(
        "osd purge-new {id:OsdName} {yes_i_really_mean_it:Bool,req=false}",
        "rw",
        "remove an OSD that never started",
        purge_new,
    ),
    Command::new("osd rm {ids:String,n=N}", "rw", "remove OSDs from the map", remove),
    Command::new("osd lost {id:OsdName} {yes_i_really_mean_it:Bool,req=false}", "rw", "give up an OSD's data", lost),
    Command::new(
        "osd safe-to-destroy {ids:String,n=N}",
        "r",
        "say whether OSDs hold nothing that is needed",
        safe_to_destroy,
    ),
];

/// Returns the OSDs that words such as `3`, `osd.3`, `all` name. A word that names none is an error.
pub(super) fn named_osds(c: &Context<'_>, all: impl Fn(OsdId) -> bool) -> Result<Vec<OsdId>, Reply> {
    let mut osds = Vec::new();
    for word in c.args.texts("ids") {
        if matches!(word, "all" | "any" | "*") {
            osds.extend(c.map().osds().map(|(id, _)| id).filter(|id| all(*id)));
            continue;
        }
        match parse_osd(word) {
            Some(osd) => osds.push(osd),
            None => return refuse(Errno::EINVAL, format!("invalid osd id '{word}'")),
        }
    }
    let mut seen = BTreeSet::new();
    osds.retain(|osd| seen.insert(*osd));
    Ok(osds)
}

/// Sorts named OSDs into those to change and sentences about the others, and proposes the change.
fn mark(
    c: &Context<'_>,
    osds: Vec<OsdId>,
    word: &str,
    is_already: impl Fn(OsdId) -> bool,
    change: impl Fn(&mut Incremental, OsdId),
) -> Answer {
    let mut status = String::new();
    let mut marked = Vec::new();
    for osd in osds {
        if !c.map().exists(osd) {
            status += &format!("{osd} does not exist. ");
        } else if is_already(osd) {
            status += &format!("{osd} is already {word}. ");
        } else {
            status += &format!("marked {word} {osd}. ");
            marked.push(osd);
        }
    }
    c.change_map(status, |incremental| marked.iter().for_each(|osd| change(incremental, *osd)))
}

fn out(c: &Context<'_>) -> Answer {
    let osds = named_osds(c, |osd| c.map().is_in(osd))?;
    mark(
        c,
        osds,
        "out",
        |osd| c.map().is_out(osd),
        |incremental, osd| {
            incremental.mark_out(osd);
            let xinfo = c.map().osd(osd).map(|osd| osd.xinfo).unwrap_or_default();
            incremental.new_xinfo.insert(osd, osdmap::OsdXInfo { old_weight: c.map().weight(osd), ..xinfo });
            // Without the flag the OSD comes back in only by hand.
            let state = c.map().osd(osd).map(|osd| osd.state).unwrap_or_default();
            if state.contains(OsdState::AUTOOUT) {
                incremental.flip_state(osd, OsdState::AUTOOUT);
            }
        },
    )
}

fn mark_in(c: &Context<'_>) -> Answer {
    let osds = named_osds(c, |osd| c.map().is_out(osd))?;
    mark(
        c,
        osds,
        "in",
        |osd| c.map().is_in(osd),
        |incremental, osd| {
            incremental.mark_in(osd);
            let Some(known) = c.map().osd(osd) else { return };
            // The OSD gets its weight from before it was marked out.
            let xinfo = known.xinfo;
            if xinfo.old_weight > 0 {
                incremental.new_weight.insert(osd, xinfo.old_weight);
                incremental.new_xinfo.insert(osd, osdmap::OsdXInfo { old_weight: 0, ..xinfo });
            }
            if known.state.contains(OsdState::AUTOOUT) {
                incremental.flip_state(osd, OsdState::AUTOOUT);
            }
        },
    )
}

fn down(c: &Context<'_>) -> Answer {
    let osds = named_osds(c, |osd| c.map().is_up(osd))?;
    mark(c, osds, "down", |osd| c.map().is_down(osd), Incremental::mark_down)
}

/// Stops OSDs: one that sees this in a map ends; when it is started again it comes up as ever.
fn stop(c: &Context<'_>) -> Answer {
    let state = |osd: OsdId| c.map().osd(osd).map(|osd| osd.state).unwrap_or_default();
    let mut status = String::new();
    let mut stopped = Vec::new();
    for osd in named_osds(c, |osd| c.map().is_up(osd))? {
        if !c.map().exists(osd) {
            status += &format!("{osd} does not exist. ");
        } else if state(osd).contains(OsdState::STOP) {
            status += &format!("{osd} is already stopped. ");
        } else {
            status += &format!("stop {}{osd}. ", if c.map().is_up(osd) { "" } else { "down " });
            stopped.push(osd);
        }
    }
    c.change_map(status, |incremental| {
        for osd in stopped {
            if c.map().is_up(osd) {
                incremental.mark_down(osd);
            }
            incremental.flip_state(osd, OsdState::STOP);
        }
    })
}

fn fixed(weight: f64) -> u32 {
    (weight * f64::from(WEIGHT_IN)) as u32
}

fn set_weight(incremental: &mut Incremental, osd: OsdId, fixed: u32) {
    incremental.new_weight.insert(osd, fixed);
    incremental.new_last_in_change = incremental.modified;
}

fn reweight(c: &Context<'_>) -> Answer {
    let osd = c.existing_osd("id")?;
    let fixed = fixed(c.args.number("weight"));
    let status = format!("reweighted {osd} to {} ({fixed:x})", short_float(c.args.number("weight")));
    c.change_map(status, |incremental| set_weight(incremental, osd, fixed))
}

fn reweight_many(c: &Context<'_>) -> Answer {
    let text = c.args.word("weights");
    let invalid = || Reply::error(Errno::EINVAL, format!("unable to parse 'weights' value '{text}'"));
    // Ceph's form has texts, and takes either kind of quotation mark. Numbers are taken, too.
    let weights: BTreeMap<String, Value> = serde_json::from_str(&text.replace('\'', "\"")).map_err(|_| invalid())?;
    let mut changes = Vec::new();
    for (osd, weight) in weights {
        let weight = match &weight {
            Value::String(text) => text.trim().parse().ok(),
            other => other.as_u64().and_then(|weight| u32::try_from(weight).ok()),
        };
        let weight: u32 = weight.ok_or_else(invalid)?;
        let osd = parse_osd(&osd)
            .filter(|osd| c.map().exists(*osd))
            .ok_or_else(|| Reply::error(Errno::ENOENT, invalid().status))?;
        if weight > WEIGHT_IN {
            return Err(invalid());
        }
        changes.push((osd, weight));
    }
    c.change_map("", |incremental| changes.iter().for_each(|(osd, fixed)| set_weight(incremental, *osd, *fixed)))
}

fn primary_affinity(c: &Context<'_>) -> Answer {
    let osd = c.existing_osd("id")?;
    let given = c.args.number("weight");
    let fixed = fixed(given);
    let status = format!("set {osd} primary-affinity to {} ({fixed:x})", short_float(given));
    c.change_map(status, |incremental| {
        incremental.new_primary_affinity.insert(osd, fixed);
    })
}

/// The most OSDs a map can have.
const OSDS_MAX: i32 = 100_000;

pub(super) fn check_room(osd: OsdId) -> Result<(), Reply> {
    if osd.0 < OSDS_MAX { Ok(()) } else { refuse(Errno::ERANGE, format!("OSD ids end at {}", OSDS_MAX - 1)) }
}

/// Returns the update that makes a new OSD, or a destroyed one anew, of a class of devices if one is given.
pub(super) fn bring_into_being(
    c: &Context<'_>,
    osd: OsdId,
    uuid: Fsid,
    class: Option<&str>,
) -> Result<Option<Update>, Reply> {
    let mut incremental = c.state.next_incremental(c.request.now);
    match c.map().osd(osd) {
        None => {
            if osd.0 >= c.map().max_osd() {
                incremental.new_max_osd = Some(osd.0 + 1);
            }
            // A new OSD is in, so that it takes data as soon as it starts. A weight also makes it exist: to flip the
            // bit for that as well would take it back.
            incremental.mark_in(osd);
            incremental.flip_state(osd, OsdState::NEW);
            incremental.new_uuid.insert(osd, uuid);
        }
        Some(known) => {
            incremental.flip_state(osd, OsdState::DESTROYED);
            if !known.state.contains(OsdState::NEW) {
                incremental.flip_state(osd, OsdState::NEW);
            }
            // Nothing is known of the software that the new one will have.
            let xinfo = osdmap::OsdXInfo { features: 0, ..known.xinfo };
            incremental.new_xinfo.insert(osd, xinfo);
            incremental.new_uuid.insert(osd, uuid);
        }
    }
    // An OSD that has no place yet tells its class when it starts.
    if let Some(class) = class.filter(|_| c.crush().item_exists(osd.0)) {
        let mut crush = c.crush().clone();
        crush.set_device_class(osd.0, class).map_err(|e| super::context::build_error(&e))?;
        incremental.set_crush(&crush);
    }
    Ok(c.state.osd_update(incremental))
}

/// Returns an answer whose output comes once `update` is durable.
fn with_change(outcome: Outcome, update: Option<Update>) -> Answer {
    Ok(match (outcome, update) {
        (Outcome::Reply(reply), Some(update)) => Outcome::Propose { updates: vec![update], reply },
        (outcome, _) => outcome,
    })
}

fn create(c: &Context<'_>) -> Answer {
    let uuid = c.args.uuid("uuid").unwrap_or_default();
    let print = |osd: OsdId| c.either(|| format!("{}\n", osd.0), || json!({"osdid": osd.0}));
    if let Some(known) = c.map().osd_by_uuid(&uuid).filter(|_| !uuid.is_zero()) {
        return print(known);
    }
    let osd = c.args.osd("id").unwrap_or_else(|| c.map().free_osd_id());
    if c.map().exists(osd) {
        return refuse(Errno::EEXIST, format!("{osd} exists already"));
    }
    check_room(osd)?;
    with_change(print(osd)?, bring_into_being(c, osd, uuid, None)?)
}

fn set_max_osd(c: &Context<'_>) -> Answer {
    let newmax = c.args.int("newmax").expect("the signature requires it");
    let Some(newmax) = i32::try_from(newmax).ok().filter(|max| *max <= OSDS_MAX) else {
        return refuse(Errno::ERANGE, format!("max_osd cannot be above {OSDS_MAX}"));
    };
    if let Some((osd, _)) = c.map().osds().find(|(osd, _)| osd.0 >= newmax) {
        let sentence = format!("cannot shrink max_osd to {newmax} because {osd} (and possibly others) still in use");
        return refuse(Errno::EBUSY, sentence);
    }
    let changed = newmax != c.map().max_osd();
    c.change_map(format!("set new max_osd = {newmax}"), |incremental| {
        incremental.new_max_osd = changed.then_some(newmax);
    })
}

/// Refuses to destroy or purge an OSD that is up, or that may hold the only copy of something, unless told to.
fn check_removal(c: &Context<'_>, osd: OsdId) -> Result<(), Reply> {
    if !c.args.flag("yes_i_really_mean_it") && !c.args.flag("force") {
        let hint =
            "You can proceed by passing --force, but be warned that this will likely mean real, permanent data loss.";
        let verdict = Safety::of(c, &[osd]);
        if !verdict.active.is_empty() {
            let pgs = verdict.active_pgs;
            let sentence = format!("OSD(s) {} have {pgs} pgs currently mapped to them. \n{hint}", osd.0);
            return refuse(Errno::EBUSY, sentence);
        }
        if !verdict.is_safe() {
            let sentence = format!("OSD(s) {} may still hold data that is needed. \n{hint}", osd.0);
            return refuse(Errno::EAGAIN, sentence);
        }
    }
    if c.map().is_up(osd) {
        return refuse(Errno::EBUSY, format!("{osd} is not `down`."));
    }
    Ok(())
}

/// Returns the removal of an OSD's entities, which go with it.
fn forget_keys(c: &Context<'_>, osd: OsdId) -> Vec<Update> {
    let entity = osd.to_string();
    let known = c.state.auth.contains_key(&entity);
    let own = known.then_some(Update::Auth { entity, entry: None });
    let uuid = c.map().osd(osd).map(|osd| osd.uuid).filter(|uuid| !uuid.is_zero());
    own.into_iter().chain(uuid.map(|uuid| osd_new::forget_lockbox(c, uuid)).into_iter().flatten()).collect()
}

fn destroy(c: &Context<'_>) -> Answer {
    let osd = c.args.osd("id").expect("the signature requires it");
    if !c.map().exists(osd) {
        return done(format!("{osd} does not exist"));
    }
    if c.map().is_destroyed(osd) {
        return done(format!("destroyed {osd}"));
    }
    check_removal(c, osd)?;
    let mut incremental = c.state.next_incremental(c.request.now);
    incremental.flip_state(osd, OsdState::DESTROYED);
    incremental.new_uuid.insert(osd, Fsid::default());
    let mut updates: Vec<Update> = c.state.osd_update(incremental).into_iter().collect();
    updates.extend(forget_keys(c, osd));
    c.propose(updates, Reply::status(format!("destroyed {osd}")))
}

/// Takes an OSD out of the map.
fn forget(c: &Context<'_>, incremental: &mut Incremental, osd: OsdId) {
    let state = c.map().osd(osd).map(|osd| osd.state).unwrap_or_default();
    incremental.flip_state(osd, state);
    incremental.new_weight.insert(osd, 0);
    incremental.new_uuid.insert(osd, Fsid::default());
    incremental.new_xinfo.insert(osd, osdmap::OsdXInfo::default());
}

fn purge(c: &Context<'_>) -> Answer {
    let osd = c.args.osd("id").expect("the signature requires it");
    if !c.map().exists(osd) {
        return done(format!("{osd} does not exist"));
    }
    check_removal(c, osd)?;
    purge_now(c, osd)
}

fn purge_new(c: &Context<'_>) -> Answer {
    let osd = c.args.osd("id").expect("the signature requires it");
    let Some(entry) = c.map().osd(osd) else {
        return done(format!("{osd} does not exist"));
    };
    if !entry.state.contains(OsdState::NEW) {
        return refuse(Errno::EPERM, format!("{osd} has started before; use `ceph osd purge`"));
    }
    purge_now(c, osd)
}

fn purge_now(c: &Context<'_>, osd: OsdId) -> Answer {
    let mut incremental = c.state.next_incremental(c.request.now);
    forget(c, &mut incremental, osd);
    let mut crush = c.crush().clone();
    let name = osd.to_string();
    if crush.item_exists(osd.0) || crush.id(&name).is_some() {
        crush.remove_item(&name, None).map_err(|e| super::context::build_error(&e))?;
        incremental.set_crush(&crush);
    }
    let mut updates: Vec<Update> = c.state.osd_update(incremental).into_iter().collect();
    updates.extend(forget_keys(c, osd));
    if c.state.osd_metadata.contains_key(&osd) {
        updates.push(Update::OsdMetadata { osd, metadata: None });
    }
    c.propose(updates, Reply::status(format!("purged {osd}")))
}

fn remove(c: &Context<'_>) -> Answer {
    let osds = named_osds(c, |_| true)?;
    let mut status = String::new();
    let mut removed = Vec::new();
    for osd in osds {
        if !c.map().exists(osd) {
            status += &format!("{osd} does not exist. ");
        } else if c.map().is_up(osd) {
            return refuse(Errno::EBUSY, format!("{osd} is still up; must be down before removal. "));
        } else {
            removed.push(osd);
        }
    }
    if !removed.is_empty() {
        let names: Vec<String> = removed.iter().map(OsdId::to_string).collect();
        status = format!("removed {}{}{status}", names.join(", "), if status.is_empty() { "" } else { ". " });
    }
    let mut incremental = c.state.next_incremental(c.request.now);
    removed.iter().for_each(|osd| forget(c, &mut incremental, *osd));
    let mut updates: Vec<Update> = c.state.osd_update(incremental).into_iter().collect();
    let known = removed.iter().filter(|osd| c.state.osd_metadata.contains_key(osd));
    updates.extend(known.map(|osd| Update::OsdMetadata { osd: *osd, metadata: None }));
    c.propose(updates, Reply::status(status))
}

fn lost(c: &Context<'_>) -> Answer {
    let osd = c.existing_osd("id")?;
    if !c.args.flag("yes_i_really_mean_it") {
        let sentence = "are you SURE?  this might mean real, permanent data loss.  pass --yes-i-really-mean-it if you \
                        really do.";
        return refuse(Errno::EPERM, sentence);
    }
    if c.map().is_up(osd) {
        return refuse(Errno::EBUSY, format!("{osd} is not down"));
    }
    let down_at = c.map().osd(osd).expect("it exists").info.down_at;
    c.change_map(format!("marked osd lost in epoch {}", down_at.0), |incremental| {
        incremental.new_lost.insert(osd, down_at);
    })
}

/// The loss that removing some OSDs would cause.
struct Safety {
    safe: Vec<i32>,
    /// OSDs that placement groups are mapped to, and the number of these groups.
    active: Vec<i32>,
    active_pgs: usize,
    /// OSDs without statistics while there are groups that are not whole.
    missing_stats: Vec<i32>,
    /// OSDs that no group is mapped to but that hold placement groups.
    stored: Vec<i32>,
}

impl Safety {
    fn of(c: &Context<'_>, osds: &[OsdId]) -> Safety {
        let mut verdict = Safety {
            safe: Vec::new(),
            active: Vec::new(),
            active_pgs: 0,
            missing_stats: Vec::new(),
            stored: Vec::new(),
        };
        let whole = |state: u64| state & pg_state::ACTIVE != 0 && state & pg_state::CLEAN != 0;
        let all_whole = c.volatile.pgs.values().all(|pg| whole(pg.report.state));
        let mapping = PgMapping::compute(c.map());
        for osd in osds {
            let holds = |place: &UpActing| place.up.contains(osd) || place.acting.contains(osd);
            let mapped = mapping.iter().filter(|(_, place)| holds(place)).count();

            if !c.map().exists(*osd) {
                verdict.safe.push(osd.0);
            } else if mapped > 0 {
                verdict.active.push(osd.0);
                verdict.active_pgs += mapped;
            } else if all_whole {
                verdict.safe.push(osd.0);
            } else {
                match c.volatile.osds.get(osd) {
                    None => verdict.missing_stats.push(osd.0),
                    Some(stat) if stat.stats.pg_count > 0 => verdict.stored.push(osd.0),
                    Some(_) => verdict.safe.push(osd.0),
                }
            }
        }
        verdict
    }

    fn is_safe(&self) -> bool {
        self.active.is_empty() && self.missing_stats.is_empty() && self.stored.is_empty()
    }
}

fn ids_text(ids: &[i32]) -> String {
    ids.iter().map(i32::to_string).collect::<Vec<_>>().join(",")
}

fn safe_to_destroy(c: &Context<'_>) -> Answer {
    let osds = named_osds(c, |_| true)?;
    let verdict = Safety::of(c, &osds);
    let value = json!({
        "safe_to_destroy": verdict.safe,
        "active": verdict.active,
        "missing_stats": verdict.missing_stats,
        "stored_pgs": verdict.stored,
    });
    if c.format != super::Format::Plain {
        return c.value(value);
    }
    if verdict.is_safe() {
        let sentence =
            format!("OSD(s) {} are safe to destroy without reducing data durability.", ids_text(&verdict.safe));
        return done(sentence);
    }
    let mut sentence = String::new();
    if !verdict.active.is_empty() {
        let (ids, pgs) = (ids_text(&verdict.active), verdict.active_pgs);
        sentence += &format!("OSD(s) {ids} have {pgs} pgs currently mapped to them. ");
    }
    if !verdict.missing_stats.is_empty() {
        let ids = ids_text(&verdict.missing_stats);
        sentence += &format!(
            "OSD(s) {ids} have no reported stats, and not all PGs are active+clean; we cannot draw any conclusions. "
        );
    }
    if !verdict.stored.is_empty() {
        let ids = ids_text(&verdict.stored);
        sentence += &format!(
            "OSD(s) {ids} last reported they still store some PG data, and not all PGs are active+clean; we cannot be \
             sure they aren't still needed. "
        );
    }
    let errno = if verdict.active.is_empty() { Errno::EAGAIN } else { Errno::EBUSY };
    refuse(errno, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::context::{weight, weight_text};

    #[test]
    fn weights_are_cut_not_rounded() {
        assert_eq!((fixed(0.5), fixed(0.8), fixed(1.0)), (0x8000, 0xcccc, WEIGHT_IN));
        assert_eq!(weight_text(weight(fixed(0.8))), "0.79999");
    }
}
