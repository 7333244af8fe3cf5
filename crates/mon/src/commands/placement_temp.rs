//! `ceph osd pg-temp` and the like: other acting sets stand in for a moment, until primaries ask for their own choice.

use super::command::Command;
use super::context::{Context, osds_text};
use super::{Answer, Reply, refuse};
use osdmap::TempSet;
use types::{Errno, OsdId, PgId};

pub(super) const COMMANDS: &[Command] = &[
    Command::new(
        "osd pg-temp {pgid:Pgid} {id:OsdName,n=N,req=false}",
        "rw",
        "have these OSDs stand in for a placement group's, or nobody any more (for developers)",
        pg_temp,
    ),
    Command::new(
        "osd primary-temp {pgid:Pgid} {id:OsdName}",
        "rw",
        "have this OSD lead a placement group (for developers)",
        primary_temp,
    ),
    Command::new(
        "osd rm-primary-temp {pgid:Pgid}",
        "rw",
        "have a placement group led by whom the map says (for developers)",
        rm_primary_temp,
    ),
    Command::new("pg repeer {pgid:Pgid}", "rw", "have a placement group peer anew", repeer),
];

fn group(c: &Context<'_>) -> Result<PgId, Reply> {
    let pg = c.args.pg("pgid").expect("the signature requires it");
    if c.map().has_pg(pg) { Ok(pg) } else { refuse(Errno::ENOENT, format!("pg {pg} does not exist")) }
}

fn pg_temp(c: &Context<'_>) -> Answer {
    let (pg, osds) = (group(c)?, c.existing_osds("id")?);
    let size = usize::from(c.map().pool(pg.pool).expect("the group exists").size);
    let mut distinct = osds.clone();
    distinct.sort_unstable();
    distinct.dedup();
    if distinct.len() != osds.len() || osds.len() > size {
        return refuse(Errno::EINVAL, format!("name at most {size} OSDs, each once"));
    }
    let status = match osds.is_empty() {
        true => format!("done cleaning up pg_temp of {pg}"),
        false => format!("set {pg} pg_temp mapping to {}", osds_text(&osds)),
    };
    c.change_map(status, |incremental| {
        if !osds.is_empty() || c.map().pg_temp.contains_key(&pg) {
            incremental.new_pg_temp.insert(pg, osds.into());
        }
    })
}

fn primary_temp(c: &Context<'_>) -> Answer {
    let (pg, osds) = (group(c)?, c.existing_osds("id")?);
    let osd = osds[0];
    c.change_map(format!("set {pg} primary_temp mapping to {}", osd.0), |incremental| {
        incremental.new_primary_temp.insert(pg, Some(osd));
    })
}

fn rm_primary_temp(c: &Context<'_>) -> Answer {
    let pg = group(c)?;
    c.change_map(format!("clear {pg} primary_temp mapping"), |incremental| {
        if c.map().primary_temp.contains_key(&pg) {
            incremental.new_primary_temp.insert(pg, None);
        }
    })
}

/// Takes one member out of the acting set for a moment. The primary asks for the member again at once, and the group
/// peers each time. If too few members were left to serve, the primary stays alone for that moment, as on a Ceph.
fn repeer(c: &Context<'_>) -> Answer {
    let pg = c.args.pg("pgid").expect("the signature requires it");
    if !c.map().has_pg(pg) {
        return refuse(Errno::ENOENT, format!("pg '{pg}' does not exist"));
    }
    let placed = c.map().pg_to_up_acting(pg).unwrap_or_default();
    let Some(primary) = placed.acting_primary else {
        return refuse(Errno::EAGAIN, "pg currently has no primary");
    };
    let pool = c.map().pool(pg.pool).expect("the group exists");
    let is_other = |osd: &&OsdId| osd.is_some() && **osd != primary;
    let mut osds = placed.acting.clone();
    match placed.acting.iter().rfind(is_other).copied() {
        Some(last) if pool.is_erasure() => {
            osds.iter_mut().filter(|osd| **osd == last).for_each(|osd| *osd = OsdId::NONE);
        }
        Some(last) => osds.retain(|osd| *osd != last),
        None => {
            let is_spare = |osd: &OsdId| *osd != primary && c.map().is_up(*osd);
            let Some(spare) = c.map().osds().map(|(id, _)| id).find(is_spare) else {
                return refuse(Errno::EAGAIN, "not enough up OSDs in the cluster to force repeer");
            };
            match osds.iter_mut().find(|osd| !osd.is_some()) {
                Some(place) => *place = spare,
                None => osds.push(spare),
            }
        }
    }
    let temp = TempSet::showing(osds, usize::from(pool.size));
    c.change_map("", |incremental| drop(incremental.new_pg_temp.insert(pg, temp)))
}
