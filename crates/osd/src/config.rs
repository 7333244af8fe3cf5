//! Configuration that an OSD gets at its start.

use crate::{Credentials, MEMORY_BYTES_MIN, MemoryShares};
use control::Settings;
use devices::StorePaths;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use store::{Slice, StoreConfig};
use types::{Fsid, OsdId};
use wire::EntityAddrVec;

/// Configuration of one OSD process.
#[derive(Clone, Debug)]
pub struct OsdConfig {
    pub id: OsdId,
    pub fsid: Fsid,
    /// The files or devices that hold the store: one, or several.
    pub devices: StorePaths,
    /// The address to which clients connect. Port 0: any free port.
    pub public_bind: SocketAddr,
    /// The address to which other OSDs connect.
    pub cluster_bind: SocketAddr,
    /// The addresses that clients and OSDs are told to dial, if they differ from the bound ones (address translation).
    pub public_advertise: Option<SocketAddr>,
    pub cluster_advertise: Option<SocketAddr>,
    /// The addresses of each monitor.
    pub monitors: Vec<EntityAddrVec>,
    /// The OSD's place, as pairs of bucket type and name (`host`, `node1`). The cluster uses it when it first sees the
    /// OSD.
    pub location: BTreeMap<String, String>,
    /// `ssd`, `nvme` or `hdd`. The cluster uses it when it first sees the OSD.
    pub device_class: String,
    /// Facts of the machine and its drives that `ceph osd metadata` shows.
    pub machine: BTreeMap<String, String>,
    /// Bytes of memory that the OSD may use in all; [`MemoryShares`] divides them.
    pub memory_bytes: u64,
    /// Period in which the OSD reads everything in its store once and compares it with its checksums. Zero: never.
    pub check_period: Duration,
    /// Period in which the copies of every group are compared once without reading their bytes. They are compared with
    /// their bytes once in `check_period`. Zero: never.
    pub scrub_period: Duration,
    /// Wall-clock time, as time since 1970, at the moment from which this process counts time.
    pub unix_zero: Duration,
    /// About how many operations per second the OSD keeps together with the times of their parts. 0: none.
    pub kept_ops_per_second: u32,
    /// Bits of [`wire::nacre::mon::osd_features`] that it tells. Fewer than all: it passes for earlier software.
    pub features: u64,
    /// Proofs that it asks for, and its own; `None`: nobody proves anything.
    pub login: Option<Credentials>,
    /// Options, with those that `ceph.conf` has. [`crate::new_settings`] makes them.
    pub settings: Settings,
    /// Where programs on this machine may ask the OSD. `None`: nowhere.
    pub admin_socket: Option<PathBuf>,
    /// Adds a filter of [`control::logs`] to the log filter that the process began with. `None`: the filter stays.
    pub set_log_filter: Option<fn(&str)>,
}

impl OsdConfig {
    /// An OSD with free ports of loopback, without monitors, with the least memory, and with defaults otherwise.
    pub fn new(id: OsdId, fsid: Fsid, devices: StorePaths) -> OsdConfig {
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        OsdConfig {
            id,
            fsid,
            devices,
            public_bind: loopback,
            cluster_bind: loopback,
            public_advertise: None,
            cluster_advertise: None,
            monitors: Vec::new(),
            location: BTreeMap::new(),
            device_class: "ssd".to_owned(),
            machine: BTreeMap::new(),
            memory_bytes: MEMORY_BYTES_MIN,
            check_period: pg::CHECK_PERIOD,
            scrub_period: pg::LIGHT_SCRUB_PERIOD,
            unix_zero: Duration::ZERO,
            kept_ops_per_second: pg::hops::DEFAULT_PER_SECOND,
            features: wire::nacre::mon::osd_features::ALL,
            login: None,
            settings: crate::new_settings(id),
            admin_socket: None,
            set_log_filter: None,
        }
    }

    pub(crate) fn memory(&self) -> MemoryShares {
        MemoryShares::of(self.memory_bytes)
    }

    /// Configuration of the store on one part of the devices. `bytes`: size of the part of each device, in the order of
    /// [`store::Device::ALL`].
    pub(crate) fn store_config(&self, slice: Slice, bytes: [Option<u64>; 3]) -> StoreConfig {
        devices::store_config(self.id, self.fsid, slice, bytes, Fsid::default())
    }
}
