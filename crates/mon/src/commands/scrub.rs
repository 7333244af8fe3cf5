//! `ceph pg scrub` and the like: operators have groups scrubbed.

use super::arguments::parse_osd;
use super::command::Command;
use super::context::Context;
use super::orders::{Asked, Order};
use super::pg_print::primary;
use super::{Answer, Outcome, Reply, refuse};
use std::collections::{BTreeMap, BTreeSet};
use types::{Errno, OsdId, PgId, PoolId};
use wire::nacre::mon::PgScrub;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("pg scrub {pgid:Pgid}", "rw", "compare the copies of a placement group", |c| {
        one_group(c, ScrubKind::Scrub)
    }),
    Command::new("pg deep-scrub {pgid:Pgid}", "rw", "compare the copies of a placement group, their bytes too", |c| {
        one_group(c, ScrubKind::DeepScrub)
    }),
    Command::new(
        "pg repair {pgid:Pgid}",
        "rw",
        "compare the copies of a placement group and repair what differs",
        |c| one_group(c, ScrubKind::Repair),
    ),
    Command::new("osd scrub {who:String}", "rw", "scrub the groups that an OSD, or any, is the primary of", |c| {
        groups_of(c, ScrubKind::Scrub)
    }),
    Command::new("osd deep-scrub {who:String}", "rw", "scrub the groups of an OSD, or of any, deeply", |c| {
        groups_of(c, ScrubKind::DeepScrub)
    }),
    Command::new("osd repair {who:String}", "rw", "repair the groups that an OSD, or any, is the primary of", |c| {
        groups_of(c, ScrubKind::Repair)
    }),
    Command::new("osd pool scrub {who:Poolname,n=N}", "rw", "scrub the groups of pools", |c| {
        groups_of_pools(c, ScrubKind::Scrub)
    }),
    Command::new("osd pool deep-scrub {who:Poolname,n=N}", "rw", "scrub the groups of pools deeply", |c| {
        groups_of_pools(c, ScrubKind::DeepScrub)
    }),
    Command::new("osd pool repair {who:Poolname,n=N}", "rw", "repair the groups of pools", |c| {
        groups_of_pools(c, ScrubKind::Repair)
    }),
];

/// The operator's order, for the answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScrubAsked {
    what: ScrubKind,
    of: Of,
}

/// The groups that an order names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Of {
    Group(PgId),
    Osds,
    Pools,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ScrubKind {
    Scrub,
    DeepScrub,
    Repair,
}

impl ScrubKind {
    const fn name(self) -> &'static str {
        match self {
            ScrubKind::Scrub => "scrub",
            ScrubKind::DeepScrub => "deep-scrub",
            ScrubKind::Repair => "repair",
        }
    }

    fn order(self, pgs: Vec<PgId>) -> Order {
        Order::Scrub(PgScrub {
            pgs,
            deep: !matches!(self, ScrubKind::Scrub),
            repair: matches!(self, ScrubKind::Repair),
        })
    }
}

pub(super) fn acting_primary(c: &Context<'_>, pgid: PgId) -> Option<OsdId> {
    let placed = c.map().pg_to_up_acting(pgid).ok()?;
    Some(OsdId(primary(&placed.acting))).filter(|osd| osd.is_some())
}

fn one_group(c: &Context<'_>, what: ScrubKind) -> Answer {
    let pgid = c.args.pg("pgid").expect("the signature requires it");
    if c.map().pool(pgid.pool).is_none_or(|pool| pgid.seed >= pool.pg_num) {
        return refuse(Errno::ENOENT, format!("pg {pgid} does not exist"));
    }
    let Some(osd) = acting_primary(c, pgid) else {
        return refuse(Errno::EAGAIN, format!("pg {pgid} has no primary osd"));
    };
    let asked = ScrubAsked { what, of: Of::Group(pgid) };
    Ok(Outcome::Order { orders: vec![(osd, what.order(vec![pgid]))], asked: Asked::Scrub(asked) })
}

fn groups_of(c: &Context<'_>, what: ScrubKind) -> Answer {
    let who = c.args.word("who");
    let wanted: BTreeSet<OsdId> = match who {
        "*" | "all" | "any" => c.map().osds().map(|(id, _)| id).filter(|id| c.map().is_up(*id)).collect(),
        _ => {
            let Some(osd) = parse_osd(who) else {
                return refuse(Errno::EINVAL, format!("invalid osd '{who}': neither an OSD nor one of all, any, *"));
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
    let orders = groups.into_iter().map(|(osd, pgs)| (osd, what.order(pgs))).collect();
    Ok(Outcome::Order { orders, asked: Asked::Scrub(ScrubAsked { what, of: Of::Osds }) })
}

/// Returns the pools that the argument `who` names.
pub(super) fn pools(c: &Context<'_>) -> Result<BTreeSet<PoolId>, Reply> {
    let pool = |name: &&str| {
        let sentence = || Reply::error(Errno::ENOENT, format!("unrecognized pool '{name}'"));
        c.map().pool_by_name(name).ok_or_else(sentence)
    };
    c.args.texts("who").iter().map(pool).collect()
}

fn groups_of_pools(c: &Context<'_>, what: ScrubKind) -> Answer {
    let pools = pools(c)?;
    let mut groups: BTreeMap<OsdId, Vec<PgId>> = BTreeMap::new();
    for pgid in c.volatile.pgs.keys().filter(|pgid| pools.contains(&pgid.pool)) {
        if let Some(osd) = acting_primary(c, *pgid) {
            groups.entry(osd).or_default().push(*pgid);
        }
    }
    let orders = groups.into_iter().map(|(osd, pgs)| (osd, what.order(pgs))).collect();
    Ok(Outcome::Order { orders, asked: Asked::Scrub(ScrubAsked { what, of: Of::Pools }) })
}

impl ScrubAsked {
    /// Returns the answer, once some OSDs were told and the others turned out not to be connected. It fails only if no
    /// OSD was told: of many OSDs one may always be about to connect again, and the others can do the work.
    pub(crate) fn reply(self, told: &[OsdId], absent: &[OsdId]) -> Reply {
        let ScrubAsked { what, of } = self;
        let names = |osds: &[OsdId]| osds.iter().map(|osd| osd.0.to_string()).collect::<Vec<_>>().join(",");
        match (of, told, absent) {
            (_, [], [osd]) => Reply::error(Errno::EAGAIN, format!("{osd} is not currently connected")),
            (_, [], [_, ..]) => Reply::error(Errno::EAGAIN, format!("osd(s) {} are not connected", names(absent))),
            (Of::Group(pgid), [osd], []) => Reply::status(format!("instructing pg {pgid} on {osd} to {}", what.name())),
            // Ceph says nothing about whole pools, either.
            (Of::Pools, _, []) => Reply::default(),
            (_, told, []) => Reply::status(format!("instructed osd(s) {} to {}", names(told), what.name())),
            (_, told, absent) => {
                let (told, absent) = (names(told), names(absent));
                Reply::status(format!("instructed osd(s) {told} to {}; osd(s) {absent} are not connected", what.name()))
            }
        }
    }
}
