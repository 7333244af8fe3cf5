//! Drives of one OSD that have lied about flushes. The OSD comes back in its state before the last updates, although it
//! has acknowledged them. All others have these updates, so nobody may undo them, and the OSD must get them from the
//! others.

use crate::check::Violation;
use crate::client_process::Purpose;
use crate::cluster::Cluster;
use crate::history::{Ask, Usage};
use crate::model::Change;
use crate::run::Run;
use reactor::sim::Crash;
use std::collections::VecDeque;
use std::time::Duration;
use store::Device;

/// Name in reports.
const LIED: &str = "disks that lied about flushes";
/// The most objects that are written meanwhile.
const OBJECTS: usize = 20;
/// After this time all members know that the answered updates will stay. Earlier, a member that comes back without the
/// last update cannot be told from one that never had it. For an erasure-coded group the latter means that no client
/// was answered.
const KNOWN_AFTER: Duration = Duration::from_secs(5);

impl Run {
    /// Clients write, and then an OSD loses everything that it has made durable since.
    pub(crate) fn forget_the_end(&mut self) -> Result<(), Violation> {
        let present: Vec<usize> = (0..self.cluster.osd_count()).filter(|osd| self.cluster.is_present(*osd)).collect();
        let osd = present[self.rng.below(present.len() as u64) as usize];
        let devices: Vec<Device> = [Device::Main, Device::Wal, Device::Metadata]
            .into_iter()
            .filter(|device| self.cluster.has_disk(osd, *device))
            .collect();
        let before: Vec<_> =
            devices.iter().map(|device| self.cluster.disk_of(osd, *device).durable_contents()).collect();
        let objects = self.objects.all().filter(|object| object.usage == Usage::Register).take(OBJECTS);
        let left: VecDeque<_> = objects
            .map(|object| (object, Ask::Change(vec![Change::WriteFull { words: 1 + self.rng.below(2000) }])))
            .collect();
        let writer = self.cluster.add_client(Purpose::Script { left, list: false });
        self.wait_for_client("writing once more", writer)?;
        self.cluster.world.run_for(KNOWN_AFTER);
        self.cluster.kill_osd(osd, Crash::Power);
        self.note(|| format!("the disks of osd.{osd} go back to what they were before the last updates"));
        for (device, contents) in devices.into_iter().zip(before) {
            self.cluster.disk_of(osd, device).go_back_to(contents);
        }
        self.cluster.start_osd(osd);
        *self.struck.entry(LIED).or_default() += 1;
        self.wait_until_steady("what a disk has lost", Cluster::is_clean)
    }
}
