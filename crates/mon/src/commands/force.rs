//! `ceph pg force-recovery` and the like: operators have groups heal before others.

use super::command::Command;
use super::context::Context;
use super::orders::{Asked, Order};
use super::{Answer, Outcome, Reply, refuse};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use types::{Errno, OsdId, PgId};
use wire::nacre::mon::{PgForce, pg_state};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("pg force-recovery {pgid:Pgid,n=N}", "rw", "recover these placement groups before others", |c| {
        named_groups(c, RECOVERY)
    }),
    Command::new("pg force-backfill {pgid:Pgid,n=N}", "rw", "backfill these placement groups before others", |c| {
        named_groups(c, BACKFILL)
    }),
    Command::new(
        "pg cancel-force-recovery {pgid:Pgid,n=N}",
        "rw",
        "recover these placement groups when it is their turn",
        |c| named_groups(c, Forcing { cancel: true, ..RECOVERY }),
    ),
    Command::new(
        "pg cancel-force-backfill {pgid:Pgid,n=N}",
        "rw",
        "backfill these placement groups when it is their turn",
        |c| named_groups(c, Forcing { cancel: true, ..BACKFILL }),
    ),
    Command::new("osd pool force-recovery {who:Poolname,n=N}", "rw", "recover groups of pools before others", |c| {
        groups_of_pools(c, RECOVERY)
    }),
    Command::new("osd pool force-backfill {who:Poolname,n=N}", "rw", "backfill groups of pools before others", |c| {
        groups_of_pools(c, BACKFILL)
    }),
    Command::new(
        "osd pool cancel-force-recovery {who:Poolname,n=N}",
        "rw",
        "recover groups of pools when it is their turn",
        |c| groups_of_pools(c, Forcing { cancel: true, ..RECOVERY }),
    ),
    Command::new(
        "osd pool cancel-force-backfill {who:Poolname,n=N}",
        "rw",
        "backfill groups of pools when it is their turn",
        |c| groups_of_pools(c, Forcing { cancel: true, ..BACKFILL }),
    ),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Forcing {
    backfill: bool,
    cancel: bool,
}

const RECOVERY: Forcing = Forcing { backfill: false, cancel: false };
const BACKFILL: Forcing = Forcing { backfill: true, cancel: false };

impl Forcing {
    fn name(self) -> &'static str {
        match (self.backfill, self.cancel) {
            (false, false) => "force-recovery",
            (true, false) => "force-backfill",
            (false, true) => "cancel-force-recovery",
            (true, true) => "cancel-force-backfill",
        }
    }

    /// Returns the reason why a group in this state is left alone, if it is, and true if that may be a mistake of the
    /// asker's.
    fn needs_not(self, state: u64) -> Option<(&'static str, bool)> {
        let (forced, work) = match self.backfill {
            false => (pg_state::FORCED_RECOVERY, pg_state::RECOVERY_WAIT | pg_state::RECOVERING),
            true => (pg_state::FORCED_BACKFILL, pg_state::BACKFILL_WAIT | pg_state::BACKFILLING),
        };
        let has = |bits| state & bits != 0;
        match (self.backfill, self.cancel) {
            (false, true) => (!has(forced)).then_some(("recovery not forced", false)),
            (true, true) => (!has(forced)).then_some(("backfill not forced", false)),
            (false, false) if !has(work | pg_state::DEGRADED) => Some(("doesn't require recovery", false)),
            (true, false) if !has(work | pg_state::DEGRADED) => Some(("doesn't require backfilling", false)),
            (false, false) => has(forced).then_some(("recovery already forced", true)),
            (true, false) => has(forced).then_some(("backfill already forced", true)),
        }
    }
}

/// The operator's order, for the answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForceAsked {
    what: &'static str,
    /// Sentences about groups that are left alone.
    others: String,
    groups: BTreeMap<OsdId, Vec<PgId>>,
}

fn named_groups(c: &Context<'_>, what: Forcing) -> Answer {
    order(c, what, c.args.pgs("pgid").into_iter().collect())
}

fn groups_of_pools(c: &Context<'_>, what: Forcing) -> Answer {
    let pools = super::scrub::pools(c)?;
    order(c, what, c.volatile.pgs.keys().filter(|pgid| pools.contains(&pgid.pool)).copied().collect())
}

fn order(c: &Context<'_>, what: Forcing, wanted: BTreeSet<PgId>) -> Answer {
    let mut groups: BTreeMap<OsdId, Vec<PgId>> = BTreeMap::new();
    let (mut others, mut error) = (String::new(), None);
    for pgid in wanted {
        let known = c.volatile.pgs.get(&pgid).filter(|_| c.map().has_pg(pgid));
        let Some(known) = known else {
            let _ = write!(others, "pg {pgid} does not exist; ");
            error = Some(Errno::ENOENT);
            continue;
        };
        if let Some((why, is_mistake)) = what.needs_not(known.report.state) {
            let _ = write!(others, "pg {pgid} {why}; ");
            error = if is_mistake { Some(Errno::EINVAL) } else { error };
            continue;
        }
        match super::scrub::acting_primary(c, pgid) {
            Some(osd) => groups.entry(osd).or_default().push(pgid),
            None => {
                let _ = write!(others, "pg {pgid} has no primary osd; ");
                error = Some(Errno::EAGAIN);
            }
        }
    }
    // An error is reported only if nothing is done.
    match error.filter(|_| groups.is_empty()) {
        Some(errno) => refuse(errno, others + "\n"),
        None => {
            let order = |pgs: &Vec<PgId>| {
                let Forcing { backfill, cancel } = what;
                Order::Force(PgForce { pgs: pgs.clone(), backfill, cancel })
            };
            let orders = groups.iter().map(|(osd, pgs)| (*osd, order(pgs))).collect();
            let asked = Asked::Force(ForceAsked { what: what.name(), others, groups });
            Ok(Outcome::Order { orders, asked })
        }
    }
}

impl ForceAsked {
    /// Returns the answer, once these OSDs were told.
    pub(crate) fn reply(self, told: &[OsdId]) -> Reply {
        let ForceAsked { what, mut others, groups } = self;
        let any = groups.is_empty() || groups.keys().any(|osd| told.contains(osd));
        for (osd, pgs) in groups {
            let list = pgs.iter().map(PgId::to_string).collect::<Vec<_>>().join(",");
            let _ = match told.contains(&osd) {
                true => write!(others, "instructing pg(s) [{list}] on {osd} to {what}; "),
                false => write!(others, "{osd} is not currently connected; "),
            };
        }
        others.push('\n');
        if any { Reply::status(others) } else { Reply::error(Errno::EAGAIN, others) }
    }
}
