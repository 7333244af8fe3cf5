//! Bits rot on one OSD's disk while clients work and that OSD is killed, stopped and marked down. The disks of the
//! others stay well, because there must be good copies of everything that rots.

use super::{Away, Fault, change, long, quick};
use crate::check::Violation;
use crate::run::Run;
use reactor::sim::{Crash, Rng};
use std::ops::Range;
use std::time::Duration;

/// The OSD whose disk rots: always the same in a run.
pub(crate) const ROTTEN: usize = 0;

pub(super) fn draw(rng: &mut Rng, clients: usize) -> Fault {
    let osd = ROTTEN;
    match rng.below(8) {
        0 => Fault::KillOsd { osd, crash: Crash::Process, away: quick(rng) },
        1 => Fault::KillOsd { osd, crash: Crash::Power, away: long(rng) },
        2 => Fault::StopOsd { osd, away: quick(rng) },
        3 => change(format!("\"osd down\", \"ids\": [\"{osd}\"]"), None, Away(Duration::ZERO)),
        4 => Fault::KillClient { client: rng.below(clients as u64) as usize },
        _ => Fault::Rot { osd, bits: 1 + rng.below(6) as u32 },
    }
}

impl Run {
    /// Lets bits of objects rot on a disk if all copies are whole. Returns true if it did.
    pub(crate) fn rot_some(&mut self, osd: usize, bits: u32) -> Result<bool, Violation> {
        if self.cluster.is_clean().is_err() {
            return Ok(false);
        }
        let runs = self.data_runs(osd)?;
        if runs.is_empty() {
            return Ok(false);
        }
        for _ in 0..bits {
            let run = runs[self.rng.below(runs.len() as u64) as usize].clone();
            self.note(|| format!("a bit rots on the disk of osd.{osd} in {run:?}"));
            self.cluster.disk(osd).rot(run, 1, &mut self.rng);
        }
        Ok(true)
    }

    /// Ranges of the bytes of the pool's objects on an OSD's main disk.
    pub(crate) fn data_runs(&mut self, osd: usize) -> Result<Vec<Range<u64>>, Violation> {
        let pool = self.cluster.find_pool();
        let failed = |why: String| Violation(format!("the disk of osd.{osd}: {why}"));
        let map = self.cluster.monitor().expect("the monitor runs").state().osdmap().clone();
        let mut runs = Vec::new();
        for part in 0..self.cluster.shards() {
            let begin = self.cluster.part_begin(osd, part);
            let mut stored = self.cluster.stored_by(osd, part).map_err(failed)?;
            for seed in 0..self.groups {
                let pg = types::PgId { pool, seed };
                // In an erasure-coded group only the shard that the OSD acts for counts. Another shard may be on its
                // way out, and nobody reads it.
                let placed = map.pg_to_up_acting(pg).expect("the pool can be placed");
                let shard = placed.acting.iter().position(|other| *other == types::OsdId(osd as i32));
                let pg = match (self.setup.coding, shard) {
                    (None, _) => pg,
                    (Some(_), Some(shard)) => pg.of_shard(shard as u8),
                    (Some(_), None) => continue,
                };
                let (from, until) = osdmap::pg_range(pg, self.groups);
                let of_pg = stored.data_runs(&from, &until).map_err(failed)?;
                runs.extend(of_pg.into_iter().map(|run| begin + run.start..begin + run.end));
            }
        }
        Ok(runs)
    }
}
