//! `ceph osd pg-upmap`: placements set by hand.

use super::command::Command;
use super::context::Context;
use super::{Answer, Reply, refuse};
use types::{Errno, OsdId, PgId};
use wire::Release;

pub(super) const COMMANDS: &[Command] = &[
    Command::new(
        "osd pg-upmap {pgid:Pgid} {id:OsdName,n=N}",
        "rw",
        "place a placement group on exactly these OSDs",
        set,
    ),
    Command::new("osd rm-pg-upmap {pgid:Pgid}", "rw", "place a placement group by CRUSH again", remove),
    Command::new(
        "osd pg-upmap-items {pgid:Pgid} {id:OsdName,n=N}",
        "rw",
        "exchange OSDs of a placement group: from, to, from, to ...",
        set_items,
    ),
    Command::new(
        "osd rm-pg-upmap-items {pgid:Pgid}",
        "rw",
        "undo exchanges of OSDs of a placement group",
        remove_items,
    ),
];

/// Returns the group. Error: it does not exist, or some clients of the cluster need not know such placements.
fn group(c: &Context<'_>) -> Result<PgId, Reply> {
    let pg = c.args.pg("pgid").expect("the signature requires it");
    if !c.map().has_pg(pg) {
        return refuse(Errno::ENOENT, format!("pgid '{pg}' does not exist"));
    }
    if c.map().require_min_compat_client < Release::LUMINOUS {
        let now = c.map().require_min_compat_client.name();
        let sentence = format!("min_compat_client {now} < luminous, which is required for pg-upmap");
        return refuse(Errno::EPERM, sentence);
    }
    Ok(pg)
}

fn set(c: &Context<'_>) -> Answer {
    let (pg, osds) = (group(c)?, c.existing_osds("id")?);
    let pool = c.map().pool(pg.pool).expect("the group exists");
    let mut distinct = osds.clone();
    distinct.sort_unstable();
    distinct.dedup();
    if distinct.len() != osds.len() || !(usize::from(pool.min_size)..=usize::from(pool.size)).contains(&osds.len()) {
        let sentence = format!("name {} to {} different OSDs", pool.min_size, pool.size);
        return refuse(Errno::EINVAL, sentence);
    }
    let status = format!("set {pg} pg_upmap mapping to {}", super::context::osds_text(&osds));
    c.change_map(status, |incremental| {
        incremental.new_pg_upmap.insert(pg, osds);
    })
}

fn remove(c: &Context<'_>) -> Answer {
    let pg = group(c)?;
    c.change_map(format!("clear {pg} pg_upmap mapping"), |incremental| {
        if c.map().pg_upmap.contains_key(&pg) {
            incremental.old_pg_upmap.insert(pg);
        }
    })
}

fn set_items(c: &Context<'_>) -> Answer {
    let (pg, osds) = (group(c)?, c.existing_osds("id")?);
    if osds.is_empty() || !osds.len().is_multiple_of(2) {
        return refuse(Errno::EINVAL, "name pairs of OSDs: from, to, from, to ...");
    }
    let pairs: Vec<(OsdId, OsdId)> = osds.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    if pairs.iter().any(|(from, to)| from == to) {
        return refuse(Errno::EINVAL, "an OSD cannot be exchanged for itself");
    }
    let text: Vec<String> = pairs.iter().map(|(from, to)| format!("{}->{}", from.0, to.0)).collect();
    c.change_map(format!("set {pg} pg_upmap_items mapping to [{}]", text.join(",")), |incremental| {
        incremental.new_pg_upmap_items.insert(pg, pairs);
    })
}

fn remove_items(c: &Context<'_>) -> Answer {
    let pg = group(c)?;
    c.change_map(format!("clear {pg} pg_upmap_items mapping"), |incremental| {
        if c.map().pg_upmap_items.contains_key(&pg) {
            incremental.old_pg_upmap_items.insert(pg);
        }
    })
}
