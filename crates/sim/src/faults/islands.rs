//! OSDs that are alone with clients that read.

use crate::run::Run;
use reactor::sim::NodeId;
use std::time::Duration;

impl Run {
    /// An OSD and the clients that read reach nobody but each other until a time.
    pub(crate) fn leave_alone(&mut self, osd: usize, until: Duration) {
        if self.rng.one_in(2) {
            // The others need not find out for themselves, and go on while its leases last.
            let soon = self.cluster.world.now() + Duration::from_millis(self.rng.below(1500));
            self.mark_down(osd, soon);
        }
        let mut island: Vec<NodeId> = self.readers.iter().map(|reader| self.cluster.client_node(*reader)).collect();
        island.push(self.cluster.osd_node(osd));
        let others = self.cluster.nodes().into_iter().filter(|node| !island.contains(node));
        for (other, own) in others.flat_map(|other| island.iter().map(move |own| (other, *own))).collect::<Vec<_>>() {
            self.block(own, other, until);
            self.block(other, own, until);
        }
    }

    /// The operator marks an OSD down at a time.
    pub(crate) fn mark_down(&mut self, osd: usize, at: Duration) {
        self.command_at(at, format!("{{\"prefix\": \"osd down\", \"ids\": [\"{osd}\"]}}"));
    }
}
