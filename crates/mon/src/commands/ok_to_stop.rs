//! `ceph osd ok-to-stop`: the harm that stopping OSDs would do. Operators' tools restart OSDs by this answer.

use super::command::Command;
use super::context::Context;
use super::osd_change::named_osds;
use super::{Answer, Format, Reply};
use crate::volatile::PgStat;
use osdmap::PgPool;
use serde_json::json;
use std::collections::BTreeSet;
use types::{Errno, OsdId, PgId};
use wire::basic::{NO_SHARD, PgShard};
use wire::nacre::mon::pg_state;

pub(super) const COMMANDS: &[Command] = &[Command::new(
    "osd ok-to-stop {ids:String,n=N} {max:Int,req=false}",
    "r",
    "say whether OSDs can stop without harm",
    ok_to_stop,
)];

/// State of placement groups if some OSDs stop.
#[derive(Default)]
struct StopReport {
    /// Groups of which nothing is known, so that nothing can be said.
    unknown: Vec<PgId>,
    /// Groups that do not serve, and those that would not any more. A group may be in both lists.
    inactive: Vec<PgId>,
    become_inactive: Vec<PgId>,
    /// Groups that go on with less: those that have all now, and those that lack something already.
    degraded: Vec<PgId>,
    more_degraded: Vec<PgId>,
}

impl StopReport {
    fn of(c: &Context<'_>, osds: &BTreeSet<OsdId>) -> StopReport {
        let mut report = StopReport::default();
        for (pgid, pg) in &c.volatile.pgs {
            let Some(pool) = c.map().pool(pgid.pool) else { continue };
            if pg.report.state == 0 {
                report.unknown.push(*pgid);
                continue;
            }
            report.add(c, *pgid, pg, pool, osds);
        }
        report
    }

    fn add(&mut self, c: &Context<'_>, pgid: PgId, pg: &PgStat, pool: &PgPool, osds: &BTreeSet<OsdId>) {
        let has = |bits: u64| pg.report.state & bits != 0;
        let (shown, complete) = (pg.acting_shown(c.map()), pg.complete(c.map()));
        let acts = shown.iter().any(|osd| osds.contains(osd));
        let is_complete = complete.iter().any(|member| osds.contains(&member.osd));
        if !acts && !is_complete {
            return;
        }
        let stays = |osd: OsdId| osd.is_some() && !osds.contains(&osd) && c.map().is_up(osd);
        // Before a group has peered no member is known to be complete, so all its members count.
        let left = match has(pg_state::ACTIVE | pg_state::PEERED) {
            true => copies(complete.iter().filter(|member| stays(member.osd))),
            false => shown.iter().filter(|osd| stays(**osd)).count(),
        };
        let (was_inactive, becomes_inactive) = (!has(pg_state::ACTIVE), left < usize::from(pool.min_size));
        if was_inactive {
            self.inactive.push(pgid);
        }
        if becomes_inactive {
            self.become_inactive.push(pgid);
        }
        if was_inactive || becomes_inactive {
            return;
        }
        // As on a Ceph, a group is left out that only loses a member which lacks objects: the group goes on as before.
        match has(pg_state::DEGRADED) {
            true if is_complete => self.more_degraded.push(pgid),
            false if acts => self.degraded.push(pgid),
            _ => {}
        }
    }

    fn ok(&self) -> usize {
        self.degraded.len() + self.more_degraded.len()
    }

    fn not_ok(&self) -> usize {
        self.inactive.iter().chain(&self.become_inactive).collect::<BTreeSet<_>>().len()
    }

    fn is_harmless(&self) -> bool {
        self.unknown.is_empty() && self.not_ok() == 0
    }
}

/// Counts copies, or different shards: a shard that two OSDs have counts once.
fn copies<'a>(members: impl Iterator<Item = &'a PgShard>) -> usize {
    let distinct = members.map(|member| match member.shard {
        NO_SHARD => (NO_SHARD, Some(member.osd)),
        shard => (shard, None),
    });
    distinct.collect::<BTreeSet<_>>().len()
}

/// Adds OSDs that can stop as well, up to `max` in all, in the order of their nearness to the first one in the
/// hierarchy. An OSD that cannot stop is passed over, and the bucket in which there is one is the last.
fn also_ok_to_stop(c: &Context<'_>, osds: &mut BTreeSet<OsdId>, max: usize) {
    let Some(first) = osds.first() else { return };
    let mut bucket = first.0;
    let mut all_can = true;
    while let Some(parent) = c.crush().parent(bucket).filter(|_| all_can) {
        bucket = parent;
        let beside: BTreeSet<OsdId> = c.crush().leaves(bucket).into_iter().map(OsdId).collect();
        for osd in beside {
            if osds.len() >= max {
                return;
            }
            if c.map().is_up(osd) && osds.insert(osd) && !StopReport::of(c, osds).is_harmless() {
                osds.remove(&osd);
                all_can = false;
            }
        }
    }
}

fn ok_to_stop(c: &Context<'_>) -> Answer {
    let mut osds: BTreeSet<OsdId> = named_osds(c, |_| true)?.into_iter().collect();
    let mut report = StopReport::of(c, &osds);
    if report.is_harmless() {
        also_ok_to_stop(c, &mut osds, c.args.int("max").and_then(|max| usize::try_from(max).ok()).unwrap_or(0));
        report = StopReport::of(c, &osds);
    }
    let mut value = json!({
        "ok_to_stop": report.is_harmless(),
        "osds": osds.iter().map(|osd| osd.0).collect::<Vec<_>>(),
        "num_ok_pgs": report.ok(),
        "num_not_ok_pgs": report.not_ok(),
    });
    for (key, pgs) in [
        ("unknown_pgs", &report.unknown),
        ("bad_already_inactive", &report.inactive),
        ("bad_become_inactive", &report.become_inactive),
        ("ok_become_degraded", &report.degraded),
        ("ok_become_more_degraded", &report.more_degraded),
    ] {
        if !pgs.is_empty() {
            value[key] = json!(pgs.iter().map(PgId::to_string).collect::<Vec<_>>());
        }
    }
    let compact = c.format == Format::Plain;
    let text = if compact { Format::Json.render(&value) } else { c.rendered(&value) };
    let output = format!("{}\n", text.trim_end());
    let refused = |errno, status| Err(Reply { output: output.clone().into(), ..Reply::error(errno, status) });
    match (report.unknown.len(), report.not_ok()) {
        (0, 0) => c.text(output),
        (0, not_ok) => {
            let status = format!("unsafe to stop osd(s) at this time ({not_ok} PGs are or would become offline)");
            refused(Errno::EBUSY, status)
        }
        (unknown, _) => {
            refused(Errno::EAGAIN, format!("{unknown} pgs have unknown state; cannot draw any conclusions"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_cluster::TestCluster;
    use serde_json::{Value, json};
    use types::{OsdId, PgId};
    use wire::basic::{NO_SHARD, PgShard};
    use wire::nacre::mon::{PgReport, pg_state};

    fn osds(ids: &[i32]) -> Vec<OsdId> {
        ids.iter().copied().map(OsdId).collect()
    }

    /// Returns a cluster in which all but one group of two copies are gone, which has this report.
    fn with_group(min_size: u8, acting: &[i32], state: u64, complete: Option<&[i32]>) -> TestCluster {
        let mut cluster = TestCluster::with_pools();
        cluster.ok(json!({"prefix": "osd pool set", "pool": "rep2", "var": "min_size", "val": min_size.to_string()}));
        let pgid = PgId::new(2, 1);
        cluster.volatile.pgs.retain(|other, _| *other == pgid);
        let member = |osd: &i32| PgShard { osd: OsdId(*osd), shard: NO_SHARD };
        let complete = complete.map(|complete| complete.iter().map(member).collect());
        let report = PgReport { pgid, state, up: osds(acting), acting: osds(acting), complete, ..PgReport::default() };
        *cluster.report(pgid) = report;
        cluster
    }

    /// Asks whether one OSD may stop. Returns the code, the groups that go on and those that do not.
    fn asked(cluster: &mut TestCluster, osd: i32) -> (i32, Value, Value) {
        let reply = cluster.run(json!({"prefix": "osd ok-to-stop", "ids": [osd.to_string()]}));
        let value: Value = serde_json::from_slice(&reply.output).unwrap();
        assert_eq!(value["ok_to_stop"], json!(reply.code == 0), "{value}");
        (reply.code, value["num_ok_pgs"].clone(), value["num_not_ok_pgs"].clone())
    }

    const BUSY: i32 = -16;

    #[test]
    fn members_that_are_being_filled_do_not_count() {
        let moving = pg_state::ACTIVE | pg_state::REMAPPED | pg_state::BACKFILLING;
        // Size 2: the group moves from 2 to 1, and 1 does not serve yet.
        let mut two = with_group(2, &[2, 0, 1], moving, Some(&[2, 0]));
        assert_eq!(asked(&mut two, 2), (BUSY, json!(0), json!(1)));
        assert_eq!(asked(&mut two, 0), (BUSY, json!(0), json!(1)));
        assert_eq!(asked(&mut two, 1), (0, json!(0), json!(0)), "it serves nobody");
        let mut one = with_group(1, &[2, 0, 1], moving, Some(&[2, 0]));
        assert_eq!(asked(&mut one, 2), (0, json!(1), json!(0)));
        let mut filled = with_group(2, &[2, 0, 1], moving, Some(&[2, 0, 1]));
        assert_eq!(asked(&mut filled, 2), (0, json!(1), json!(0)));
    }

    #[test]
    fn members_that_lack_objects_do_not_count() {
        let recovering = pg_state::ACTIVE | pg_state::RECOVERING | pg_state::DEGRADED;
        let mut cluster = with_group(1, &[2, 0], recovering, Some(&[2]));
        assert_eq!(asked(&mut cluster, 2), (BUSY, json!(0), json!(1)));
        assert_eq!(asked(&mut cluster, 0), (0, json!(0), json!(0)), "the other one goes on as before");
        let mut cluster = with_group(2, &[2, 0], recovering, Some(&[2]));
        assert_eq!(asked(&mut cluster, 0), (BUSY, json!(0), json!(1)), "two members serve now, however little one has");
        let mut cluster = with_group(1, &[2, 0], recovering, Some(&[2, 0]));
        let answer: Value =
            serde_json::from_str(&cluster.ok(json!({"prefix": "osd ok-to-stop", "ids": ["2"]}))).unwrap();
        assert_eq!(answer["ok_become_more_degraded"], json!(["2.1"]));
    }

    #[test]
    fn members_are_believed_complete_only_if_that_is_told_or_the_group_is_clean() {
        let state = pg_state::ACTIVE | pg_state::DEGRADED;
        assert_eq!(asked(&mut with_group(1, &[2, 0], state, None), 2), (BUSY, json!(0), json!(1)));
        let clean = pg_state::ACTIVE | pg_state::CLEAN;
        assert_eq!(asked(&mut with_group(1, &[2, 0], clean, None), 2), (0, json!(1), json!(0)));
    }

    #[test]
    fn members_that_are_down_do_not_count() {
        let mut cluster = with_group(1, &[2, 0], pg_state::ACTIVE | pg_state::CLEAN, None);
        cluster.ok(json!({"prefix": "osd down", "ids": ["0"]}));
        assert_eq!(asked(&mut cluster, 2), (BUSY, json!(0), json!(1)));
    }

    #[test]
    fn a_shard_that_two_osds_have_counts_once() {
        let member = |osd: i32, shard: i8| PgShard { osd: OsdId(osd), shard };
        let count = |members: &[PgShard]| super::copies(members.iter());
        assert_eq!(count(&[member(0, 0), member(1, 1), member(2, 1)]), 2);
        assert_eq!(count(&[member(0, NO_SHARD), member(1, NO_SHARD)]), 2);
    }

    #[test]
    fn groups_of_unknown_state_allow_no_conclusion() {
        let mut cluster = with_group(1, &[], 0, None);
        let reply = cluster.run(json!({"prefix": "osd ok-to-stop", "ids": ["2"]}));
        let status = "1 pgs have unknown state; cannot draw any conclusions";
        assert_eq!((reply.code, reply.status.as_str()), (-11, status));
        let value: Value = serde_json::from_slice(&reply.output).unwrap();
        let expected = json!({
            "ok_to_stop": false, "osds": [2], "num_ok_pgs": 0, "num_not_ok_pgs": 0, "unknown_pgs": ["2.1"],
        });
        assert_eq!(value, expected);
    }

    #[test]
    fn groups_that_do_not_serve_are_told_as_such() {
        let mut cluster = with_group(2, &[2, 0], pg_state::PEERING, Some(&[]));
        let reply = cluster.run(json!({"prefix": "osd ok-to-stop", "ids": ["2"]}));
        let value: Value = serde_json::from_slice(&reply.output).unwrap();
        assert_eq!((&value["bad_already_inactive"], &value["bad_become_inactive"]), (&json!(["2.1"]), &json!(["2.1"])));
        assert_eq!((reply.code, &value["num_not_ok_pgs"]), (BUSY, &json!(1)));
    }
}
