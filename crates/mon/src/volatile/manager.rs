//! What clients are told of the cluster's manager, which is this monitor at another address.

use super::Volatile;
use osdmap::MgrMap;
use types::Epoch;
use wire::codec::features;

/// The manager's number.
pub const MANAGER_GID: u64 = 1;

impl Volatile {
    /// Grows from one start of the monitor to the next, as the address changes with it.
    pub fn manager_epoch(&self) -> Epoch {
        match self.has_manager() {
            true => Epoch(self.started.sec.max(1)),
            false => Epoch(1),
        }
    }

    fn has_manager(&self) -> bool {
        self.manager_addrs.msgr2_addr().sockaddr.is_some()
    }

    pub fn manager_map(&self) -> MgrMap {
        let epoch = self.manager_epoch();
        if !self.has_manager() {
            return MgrMap { epoch, ..MgrMap::default() };
        }
        MgrMap {
            epoch,
            active_addrs: self.manager_addrs.clone(),
            active_gid: MANAGER_GID,
            available: true,
            active_name: self.name.clone(),
            active_change: self.started,
            active_mgr_features: features::PACIFIC,
            ..MgrMap::default()
        }
    }
}
