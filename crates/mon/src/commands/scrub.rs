//! `ceph pg scrub` and the like: operators have groups scrubbed.

use super::context::Context;
use super::pg_print::primary;
use super::table::Command;
use super::{Answer, Outcome, Reply, refuse};
use std::collections::{BTreeMap, BTreeSet};
use types::{Errno, OsdId, PgId};
use wire::nacre::mon::PgScrub;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("pg scrub {pgid:Pgid}", "rw", "compare the copies of a placement group", |c| {
        one_group(c, What::Scrub)
    }),
    Command::new("pg deep-scrub {pgid:Pgid}", "rw", "compare the copies of a placement group, their bytes too", |c| {
        one_group(c, What::DeepScrub)
    }),
    Command::new(
        "pg repair {pgid:Pgid}",
        "rw",
        "compare the copies of a placement group and repair what differs",
        |c| one_group(c, What::Repair),
    ),
    Command::new("osd scrub {who:String}", "rw", "scrub the groups that an OSD, or any, is the primary of", |c| {
        groups_of(c, What::Scrub)
    }),
    Command::new("osd deep-scrub {who:String}", "rw", "scrub the groups of an OSD, or of any, deeply", |c| {
        groups_of(c, What::DeepScrub)
    }),
    Command::new("osd repair {who:String}", "rw", "repair the groups that an OSD, or any, is the primary of", |c| {
        groups_of(c, What::Repair)
    }),
];

#[derive(Clone, Copy)]
enum What {
    Scrub,
    DeepScrub,
    Repair,
}

impl What {
    const fn name(self) -> &'static str {
        match self {
            What::Scrub => "scrub",
            What::DeepScrub => "deep-scrub",
            What::Repair => "repair",
        }
    }

    fn order(self, pgs: Vec<PgId>) -> PgScrub {
        PgScrub { pgs, deep: !matches!(self, What::Scrub), repair: matches!(self, What::Repair) }
    }
}

fn acting_primary(c: &Context<'_>, pgid: PgId) -> Option<OsdId> {
    let placed = c.map().pg_to_up_acting(pgid).ok()?;
    Some(OsdId(primary(&placed.acting))).filter(|osd| osd.is_some())
}

fn one_group(c: &Context<'_>, what: What) -> Answer {
    let pgid = c.args.pg("pgid").expect("the signature requires it");
    if c.map().pool(pgid.pool).is_none_or(|pool| pgid.seed >= pool.pg_num) {
        return refuse(Errno::ENOENT, format!("pg {pgid} does not exist"));
    }
    let Some(osd) = acting_primary(c, pgid) else {
        return refuse(Errno::EAGAIN, format!("pg {pgid} has no primary osd"));
    };
    let reply = Reply::status(format!("instructing pg {pgid} on {osd} to {}", what.name()));
    Ok(Outcome::Scrub { orders: vec![(osd, what.order(vec![pgid]))], reply })
}

fn groups_of(c: &Context<'_>, what: What) -> Answer {
    let who = c.args.word("who");
    let wanted: BTreeSet<OsdId> = match who {
        "*" | "all" | "any" => c.map().osds().map(|(id, _)| id).filter(|id| c.map().is_up(*id)).collect(),
        _ => {
            let number = who.strip_prefix("osd.").unwrap_or(who).parse().map(OsdId);
            let Some(osd) = number.ok().filter(|osd| c.map().exists(*osd)) else {
                return refuse(Errno::EINVAL, format!("{who:?} is neither an OSD nor one of all, any, *"));
            };
            if !c.map().is_up(osd) {
                return refuse(Errno::EAGAIN, format!("{osd} is not up"));
            }
            [osd].into()
        }
    };
    let mut groups: BTreeMap<OsdId, Vec<PgId>> = wanted.iter().map(|osd| (*osd, Vec::new())).collect();
    for pgid in c.volatile.pgs.keys() {
        if let Some(pgs) = acting_primary(c, *pgid).and_then(|osd| groups.get_mut(&osd)) {
            pgs.push(*pgid);
        }
    }
    let names: Vec<String> = wanted.iter().map(|osd| osd.0.to_string()).collect();
    let reply = Reply::status(format!("osd(s) {} instructed to {}", names.join(","), what.name()));
    Ok(Outcome::Scrub { orders: groups.into_iter().map(|(osd, pgs)| (osd, what.order(pgs))).collect(), reply })
}
