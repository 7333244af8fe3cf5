//! Work on the store of an OSD that does not run.

use crate::cluster::Cluster;
use crate::stored::Stored;
use offline::{CheckReport, OfflineError, OfflineStore, RepairReport};

impl Cluster {
    /// The content of the store of an OSD with one shard.
    ///
    /// Errors: the store does not open.
    pub fn stored(&self, osd: usize) -> Result<Stored<'_>, String> {
        self.stored_by(osd, 0)
    }

    /// The content of a shard's store.
    ///
    /// Errors: the store does not open.
    pub fn stored_by(&self, osd: usize, shard: usize) -> Result<Stored<'_>, String> {
        Stored::open(self.disks_of(osd, shard), self.store_config(osd, shard))
    }

    /// Runs `nacre store check` on a shard's store.
    pub fn check(&self, osd: usize, shard: usize) -> Result<CheckReport, String> {
        offline::check(self.disks_of(osd, shard), &mut |_, _| {}).map_err(|error| error.to_string())
    }

    /// Runs `nacre store repair --yes` on a shard's store.
    pub fn repair(&mut self, osd: usize, shard: usize) -> Result<RepairReport, String> {
        let text = |error: OfflineError| error.to_string();
        let mut store = OfflineStore::open_to_mend(self.disks_of(osd, shard)).map_err(text)?;
        let plan = offline::plan_repair(&mut store, &[], &mut |_, _| {}).map_err(text)?;
        let (disks, report) = offline::repair(store, &plan, &mut |_, _| {}).map_err(text)?;
        let written: Vec<_> = disks.into_blocks().collect();
        for (device, offset, block) in written {
            self.disk_of(osd, device).poke(offset, &block);
        }
        Ok(report)
    }
}
