//! Questions and orders of operators about groups that this OSD leads.

use super::Shard;
use crate::agreement::leases::ReplicaReadCounts;
use crate::group::operators::{GiveUpError, PgView};
use crate::scrub::repair::{KeepCopyError, Kept};
use types::{OsdId, PgId};

impl Shard {
    pub fn replica_reads(&self) -> ReplicaReadCounts {
        self.host.shared.leases.replica_reads
    }

    /// Returns the state of a group as this OSD, its primary, knows it.
    pub fn pg_view(&self, pgid: PgId) -> Option<PgView> {
        let pg = self.pgs.get(&self.instance(pgid)).filter(|pg| pg.core.is_primary(self.host.whoami))?;
        Some(pg.view(self.host.whoami, self.host.maps.current()))
    }

    /// Gives up the objects of a group that nobody has, and says how many.
    pub fn give_up_unfound(&mut self, pgid: PgId) -> Result<usize, GiveUpError> {
        let id = self.instance(pgid);
        let pg = self.pgs.get_mut(&id).filter(|pg| pg.core.is_primary(self.host.whoami));
        let given_up = pg.ok_or(GiveUpError::NotPrimary)?.give_up_unfound(&mut self.host.context());
        self.settle();
        given_up
    }

    /// Replaces an object's copies by the one on `osd`, where only an operator can tell which copy is right.
    pub fn keep_copy(&mut self, pgid: PgId, name: &str, osd: OsdId) -> Result<Kept, KeepCopyError> {
        let id = self.instance(pgid);
        let pg = self.pgs.get_mut(&id).filter(|pg| pg.core.is_primary(self.host.whoami));
        let kept = pg.ok_or(KeepCopyError::NotPrimary)?.keep_copy(&mut self.host.context(), name, osd);
        self.settle();
        kept
    }
}
