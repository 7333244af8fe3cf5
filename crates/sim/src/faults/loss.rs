//! More copies or shards of one object rot than others can make up for. Nothing else may suffer from that. Every other
//! object must get to its place. Once the object has been given up, every operation must be answered and all groups
//! must become clean.

use crate::check::Violation;
use crate::client_process::Purpose;
use crate::cluster::Cluster;
use crate::run::{HEAL_TIME_MAX, Run, SETTLED_AFTER};
use reactor::sim::Crash;
use std::time::Duration;
use types::{ObjectId, OsdId, PgId};
use wire::nacre::mon::{PgReport, pg_state};

/// Name in reports.
const LOST: &str = "object lost";
/// Time for which clients wait for unfound objects before these are given up. After the same time they are given up
/// anew, because more may have been found to be unfound.
const GIVE_UP_EVERY: Duration = Duration::from_secs(3);
/// States of a group that has work left.
const WORKS: u64 = pg_state::RECOVERING
    | pg_state::BACKFILLING
    | pg_state::RECOVERY_WAIT
    | pg_state::BACKFILL_WAIT
    | pg_state::PEERING
    | pg_state::PEERED;

/// An object's places: its group, and the OSDs that have its copies, each with the copy's name.
struct Victim {
    pg: PgId,
    holders: Vec<(usize, ObjectId)>,
}

fn reports(cluster: &Cluster) -> impl Iterator<Item = &PgReport> {
    let groups = cluster.monitor().into_iter().flat_map(|monitor| monitor.volatile().pgs.values());
    groups.map(|group| &group.report)
}

/// `Ok` if something is unfound and no other work is left. The error tells what work is left.
fn only_unfound_is_left(cluster: &Cluster) -> Result<(), String> {
    if reports(cluster).all(|report| report.unfound == 0) {
        return Err(format!("nothing is unfound: {:?}", cluster.is_clean()));
    }
    for report in reports(cluster) {
        let members = report.acting.len().max(report.up.len()) as u64 + 1;
        let lacking = report.degraded_copies + report.misplaced_copies;
        let is_done = report.state & pg_state::ACTIVE != 0 && report.state & WORKS == 0;
        if !is_done || lacking > report.unfound * members {
            let state = mon::volatile::pg_state_text(report.state);
            return Err(format!("{} is {state}, lacks {lacking} copies, {} unfound", report.pgid, report.unfound));
        }
    }
    Ok(())
}

impl Run {
    /// Loses one object at the end of a run, and has it given up. Returns false if there was no object to lose.
    pub(crate) fn lose_an_object(&mut self) -> Result<bool, Violation> {
        let Some(Victim { pg, holders }) = self.find_victim()? else { return Ok(false) };
        // After this, nothing of the object is in memory when it is wanted.
        let osds = self.cluster.osd_count();
        (0..osds).for_each(|osd| self.cluster.kill_osd(osd, Crash::Process));
        let bad = match self.setup.coding {
            None => holders.len(),
            Some((_, m)) => usize::from(m) + 1,
        };
        let first = self.rng.below(holders.len() as u64) as usize;
        let bad: Vec<_> = holders.iter().cycle().skip(first).take(bad).collect();
        for (osd, object) in &bad {
            let runs = self.runs_of(*osd, object)?;
            let run = runs[self.rng.below(runs.len() as u64) as usize].clone();
            self.note(|| format!("a bit of {object} rots on the disk of osd.{osd} in {run:?}"));
            self.cluster.disk(*osd).rot(run, 1, &mut self.rng);
        }
        (0..osds).for_each(|osd| self.cluster.start_osd(osd));
        // Another OSD must get a copy, which shows that there is no good one. Of shards, one that is well would be
        // copied.
        let out = bad[self.rng.below(bad.len() as u64) as usize].0;
        self.note(|| format!("osd.{out} is out, which has {pg}"));
        self.out.insert(out);
        self.cluster.command(self.operator, format!("{{\"prefix\": \"osd out\", \"ids\": [\"{out}\"]}}"));
        self.wait_until_steady("all but what is lost", only_unfound_is_left)?;
        *self.struck.entry(LOST).or_default() += 1;
        let reader = self.cluster.add_client(Purpose::Script {
            left: self.objects.all().map(|object| (object, crate::history::Ask::Read)).collect(),
            list: false,
        });
        self.pause()?;
        let until = self.cluster.world.now() + HEAL_TIME_MAX;
        while self.cluster.is_clean().is_err() {
            if self.cluster.world.now() >= until {
                let why = self.cluster.is_clean();
                return Err(Violation(format!("what was given up leaves groups that are not clean: {why:?}")));
            }
            let unfound: Vec<(PgId, OsdId)> = reports(&self.cluster)
                .filter(|report| report.unfound > 0)
                .filter_map(|report| Some((report.pgid, report.acting.iter().copied().find(|osd| osd.is_some())?)))
                .collect();
            for (pg, primary) in unfound {
                self.note(|| format!("what is unfound of {pg} is given up on {primary}"));
                self.cluster.give_up_unfound(primary.0 as usize, pg);
            }
            self.pause()?;
        }
        self.wait_for_client("reading what is left", reader)?;
        self.bring_in(out);
        self.wait_until_steady("moving back", Cluster::is_clean)?;
        // Several states of an object may share blocks, and some of these may be bad in a state that is not lost.
        self.scrub_everything()?;
        self.settle()?;
        Ok(true)
    }

    fn pause(&mut self) -> Result<(), Violation> {
        let until = self.cluster.world.now() + GIVE_UP_EVERY;
        self.wait("a pause", 2 * GIVE_UP_EVERY, |cluster| match cluster.world.now() >= until {
            true => Ok(()),
            false => Err("not yet".to_owned()),
        })
    }

    pub(super) fn wait_until_steady(
        &mut self,
        what: &str,
        done: impl Fn(&Cluster) -> Result<(), String>,
    ) -> Result<(), Violation> {
        let mut since = None;
        self.wait(what, HEAL_TIME_MAX, |cluster| {
            if let Err(why) = done(cluster) {
                since = None;
                return Err(why);
            }
            let now = cluster.world.now();
            let since = *since.get_or_insert(now);
            if now >= since + SETTLED_AFTER { Ok(()) } else { Err("it has just become so".to_owned()) }
        })
    }

    /// Finds any object that has bytes on the disks of all OSDs of its acting set.
    fn find_victim(&mut self) -> Result<Option<Victim>, Violation> {
        let pool = self.cluster.find_pool();
        let map = self.cluster.monitor().expect("the monitor runs").state().osdmap().clone();
        if self.cluster.osds_present() <= self.setup.members() {
            return Ok(None);
        }
        let first = self.rng.below(u64::from(self.groups)) as u32;
        for seed in (0..self.groups).map(|n| (first + n) % self.groups) {
            let pg = PgId { pool, seed };
            let acting = map.pg_to_up_acting(pg).expect("the pool can be placed").acting;
            let name = |place: usize, object: &ObjectId| match self.setup.coding {
                None => object.clone(),
                Some(_) => ObjectId { pool: pool.of_shard(place as u8), ..object.clone() },
            };
            let mut common: Option<Vec<ObjectId>> = None;
            for (place, osd) in acting.iter().enumerate() {
                let instance = if self.setup.coding.is_some() { pg.of_shard(place as u8) } else { pg };
                let (from, until) = osdmap::pg_range(instance, self.groups);
                let failed = |why: String| Violation(format!("the disk of {osd}: {why}"));
                let mut stored = self.cluster.stored_by(osd.0 as usize, 0).map_err(failed)?;
                let objects = stored.with_data(&from, &until).map_err(failed)?;
                let objects = objects.into_iter().map(|object| ObjectId { pool, ..object });
                let also = |object: &ObjectId| common.as_ref().is_none_or(|common| common.contains(object));
                common = Some(objects.filter(also).collect());
            }
            let common = common.unwrap_or_default();
            if common.is_empty() {
                continue;
            }
            let object = &common[self.rng.below(common.len() as u64) as usize];
            let holders = acting.iter().enumerate().map(|(place, osd)| (osd.0 as usize, name(place, object)));
            return Ok(Some(Victim { pg, holders: holders.collect() }));
        }
        Ok(None)
    }

    /// Ranges of the object's bytes on an OSD's main disk.
    fn runs_of(&mut self, osd: usize, object: &ObjectId) -> Result<Vec<std::ops::Range<u64>>, Violation> {
        let failed = |why: String| Violation(format!("the disk of osd.{osd}: {why}"));
        let begin = self.cluster.part_begin(osd, 0);
        let behind = ObjectId { snap: types::SnapId(object.snap.0 + 1), ..object.clone() };
        let mut stored = self.cluster.stored_by(osd, 0).map_err(failed)?;
        let runs = stored.data_runs(object, &behind).map_err(failed)?;
        Ok(runs.into_iter().map(|run| begin + run.start..begin + run.end).collect())
    }
}
