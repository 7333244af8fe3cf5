//! Misfortunes of OSDs that reach nobody but clients that read.

use crate::run::Run;
use reactor::sim::NodeId;
use std::time::Duration;

impl Run {
    /// Has an OSD and the clients that read reach nobody but each other, until the time `until`.
    pub(crate) fn leave_alone(&mut self, osd: usize, until: Duration) {
        if self.rng.one_in(2) {
            // The others are told, so that they go on while the OSD's leases last.
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

    /// Has the operator mark an OSD down at the time `at`.
    pub(crate) fn mark_down(&mut self, osd: usize, at: Duration) {
        self.command_at(at, format!("{{\"prefix\": \"osd down\", \"ids\": [\"{osd}\"]}}"));
    }
}
