//! What an OSD is told at its start.

use crate::{MemoryShares, StorePaths};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use types::{Fsid, OsdId};
use wire::EntityAddrVec;

/// Configuration of one OSD process.
#[derive(Clone, Debug)]
pub struct OsdConfig {
    pub id: OsdId,
    pub fsid: Fsid,
    /// The device or file that holds the store, or several.
    pub devices: StorePaths,
    /// Where clients connect. Port 0: any free one.
    pub public_bind: SocketAddr,
    /// Where other OSDs connect.
    pub cluster_bind: SocketAddr,
    /// What clients and OSDs are told to dial, where that is not what is bound (address translation).
    pub public_advertise: Option<SocketAddr>,
    pub cluster_advertise: Option<SocketAddr>,
    /// Each monitor's addresses.
    pub monitors: Vec<EntityAddrVec>,
    /// Where the OSD stands, as pairs of bucket type and name (`host`, `node1`); used when the cluster first sees it.
    pub location: BTreeMap<String, String>,
    /// `ssd`, `nvme` or `hdd`; used when the cluster first sees it.
    pub device_class: String,
    /// What `ceph osd metadata` shows of the machine, its drives among it.
    pub machine: BTreeMap<String, String>,
    /// Bytes of memory the OSD may use for everything; [`MemoryShares`] tells for what.
    pub memory_bytes: u64,
    /// In this time everything in the store is read once and compared with its checksums. Zero: never.
    pub check_period: Duration,
    /// In this time the copies of every group are compared once, without reading their bytes; in `check_period` with
    /// them. Zero: never.
    pub scrub_period: Duration,
    /// What the wall clock showed, as time since 1970, when this process began to count time.
    pub unix_zero: Duration,
    /// Operations kept per second, about, with what is known of their time. 0: none.
    pub kept_ops_per_second: u32,
}

impl OsdConfig {
    pub(crate) fn memory(&self) -> MemoryShares {
        MemoryShares::of(self.memory_bytes)
    }
}
