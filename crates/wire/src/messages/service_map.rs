//! Services that registered with a manager.

use crate::addr::EntityAddr;
use crate::envelope::{Header, Message};
use crate::{Decode, DecodeError, Encode, Reader, Rope, Writer};
use std::collections::BTreeMap;
use types::{Epoch, Utime};

/// One daemon of a service. Ceph's `ServiceMap::Daemon`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ServiceDaemon {
    pub gid: u64,
    pub addr: EntityAddr,
    pub start_epoch: Epoch,
    pub start_stamp: Utime,
    pub metadata: BTreeMap<String, String>,
    pub task_status: BTreeMap<String, String>,
}

impl Encode for ServiceDaemon {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 1, |w| {
            w.u64(self.gid);
            w.put(&self.addr);
            w.put(&self.start_epoch);
            w.put(&self.start_stamp);
            w.put(&self.metadata);
            w.put(&self.task_status);
        });
    }
}

impl Decode for ServiceDaemon {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<ServiceDaemon, DecodeError> {
        let (head, mut r) = r.versioned("service daemon", 2)?;
        let mut daemon = ServiceDaemon {
            gid: r.u64()?,
            addr: r.get()?,
            start_epoch: r.get()?,
            start_stamp: r.get()?,
            metadata: r.get()?,
            task_status: BTreeMap::new(),
        };
        if head.version >= 2 {
            daemon.task_status = r.get()?;
        }
        Ok(daemon)
    }
}

/// The daemons of one service. Ceph's `ServiceMap::Service`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Service {
    pub daemons: BTreeMap<String, ServiceDaemon>,
    pub summary: String,
}

impl Encode for Service {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.daemons);
            w.str(&self.summary);
        });
    }
}

impl Decode for Service {
    const MIN_BYTES: usize = 14;

    fn decode(r: &mut Reader<'_>) -> Result<Service, DecodeError> {
        let (_, mut r) = r.versioned("service", 1)?;
        Ok(Service { daemons: r.get()?, summary: r.get()? })
    }
}

/// Services by name. Ceph's `ServiceMap`, in `MServiceMap`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ServiceMap {
    pub epoch: Epoch,
    pub modified: Utime,
    pub services: BTreeMap<String, Service>,
}

impl Encode for ServiceMap {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.epoch);
            w.put(&self.modified);
            w.put(&self.services);
        });
    }
}

impl Decode for ServiceMap {
    const MIN_BYTES: usize = 22;

    fn decode(r: &mut Reader<'_>) -> Result<ServiceMap, DecodeError> {
        let (_, mut r) = r.versioned("service map", 1)?;
        Ok(ServiceMap { epoch: r.get()?, modified: r.get()?, services: r.get()? })
    }
}

impl Message for ServiceMap {
    const TYPE: u16 = 0x707;

    fn encode_front(&self, w: &mut Writer) {
        w.put(self);
    }

    fn decode(_: &Header, r: &mut Reader<'_>, _: &Rope) -> Result<ServiceMap, DecodeError> {
        r.get()
    }
}
