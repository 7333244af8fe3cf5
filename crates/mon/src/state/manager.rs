//! The cluster's manager as clients see it: the leading monitor at another address.

use super::MonState;
use osdmap::MgrMap;
use types::Epoch;
use wire::codec::features;

/// The manager's number.
pub const MANAGER_GID: u64 = 1;

impl MonState {
    /// Returns the epoch of the manager map. It grows from one leader to the next, because the address changes with it.
    pub fn manager_epoch(&self) -> Epoch {
        self.manager.epoch.max(Epoch(1))
    }

    pub fn manager_map(&self) -> MgrMap {
        let epoch = self.manager_epoch();
        if self.manager.addrs.msgr2_addr().sockaddr.is_none() {
            return MgrMap { epoch, ..MgrMap::default() };
        }
        MgrMap {
            epoch,
            active_addrs: self.manager.addrs.clone(),
            active_gid: MANAGER_GID,
            available: true,
            active_name: self.manager.name.clone(),
            active_change: self.manager.since,
            active_mgr_features: features::PACIFIC,
            ..MgrMap::default()
        }
    }
}
