//! Daemons that have registered with the manager: gateways, mirrors and the like.

use std::collections::BTreeMap;
use std::time::Duration;
use types::{Epoch, Utime};
use wire::messages::{Service, ServiceDaemon, ServiceMap};
use wire::msgr::SessionId;
use wire::{EntityAddr, EntityAddrVec};

/// How long a daemon stays in the map after its session ended without a word.
pub const GRACE: Duration = Duration::from_secs(60);
/// Most daemons, and most bytes of what one says of itself.
const DAEMONS_MAX: usize = 1000;
const TEXT_BYTES_MAX: usize = 64 << 10;

/// One daemon, and the session that it is heard on.
#[derive(Clone, PartialEq, Debug)]
pub struct RegisteredDaemon {
    pub session: SessionId,
    pub gid: u64,
    pub addr: EntityAddr,
    pub start_epoch: Epoch,
    pub started: Utime,
    pub metadata: BTreeMap<String, String>,
    pub status: BTreeMap<String, String>,
    pub status_at: Utime,
    pub heard: Utime,
    /// Time at which its session ended.
    pub gone: Option<Utime>,
}

/// A daemon as it introduces itself.
#[derive(Clone, PartialEq, Debug)]
pub struct Introduction {
    pub service: String,
    pub name: String,
    pub session: SessionId,
    pub gid: u64,
    pub addrs: EntityAddrVec,
    pub metadata: BTreeMap<String, String>,
    pub status: BTreeMap<String, String>,
}

/// The daemons of all services. Only the monitor that leads has them; each registers again with the next one.
#[derive(Clone, PartialEq, Debug)]
pub struct Services {
    pub epoch: Epoch,
    pub modified: Utime,
    daemons: BTreeMap<(String, String), RegisteredDaemon>,
}

impl Default for Services {
    fn default() -> Services {
        Services { epoch: Epoch(1), modified: Utime::ZERO, daemons: BTreeMap::new() }
    }
}

fn bytes(texts: &BTreeMap<String, String>) -> usize {
    texts.iter().map(|(key, value)| key.len() + value.len()).sum()
}

impl Services {
    /// Returns all daemons: service, name, and what is known.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, &RegisteredDaemon)> {
        self.daemons.iter().map(|((service, name), daemon)| (service.as_str(), name.as_str(), daemon))
    }

    fn changed(&mut self, now: Utime) {
        self.epoch = self.epoch.next();
        self.modified = now;
    }

    /// Takes a daemon in. One that is too talkative, or that there is no room for, is passed over; returns false then.
    pub fn register(&mut self, who: Introduction, now: Utime) -> bool {
        let text = bytes(&who.metadata) + bytes(&who.status) + who.service.len() + who.name.len();
        let key = (who.service, who.name);
        if text > TEXT_BYTES_MAX || self.daemons.len() >= DAEMONS_MAX && !self.daemons.contains_key(&key) {
            return false;
        }
        self.changed(now);
        let daemon = RegisteredDaemon {
            session: who.session,
            gid: who.gid,
            addr: who.addrs.iter().next().copied().unwrap_or_default(),
            start_epoch: self.epoch,
            started: now,
            metadata: who.metadata,
            status: who.status,
            status_at: now,
            heard: now,
            gone: None,
        };
        self.daemons.insert(key, daemon);
        true
    }

    /// Takes what a daemon says of itself; without `status` it only says that it is there.
    pub fn report(&mut self, session: SessionId, status: Option<BTreeMap<String, String>>, now: Utime) {
        let status = status.filter(|status| bytes(status) <= TEXT_BYTES_MAX);
        for daemon in self.daemons.values_mut().filter(|daemon| daemon.session == session) {
            daemon.heard = now;
            if let Some(status) = &status {
                daemon.status.clone_from(status);
                daemon.status_at = now;
            }
        }
    }

    /// Removes the daemon of a session, which says that it ends.
    pub fn leave(&mut self, session: SessionId, now: Utime) {
        self.keep(now, |daemon| daemon.session != session);
    }

    /// Notes that a session has ended.
    pub fn closed(&mut self, session: SessionId, now: Utime) {
        self.daemons.values_mut().filter(|daemon| daemon.session == session).for_each(|it| it.gone = Some(now));
    }

    /// Removes daemons whose sessions ended long ago.
    pub fn expire(&mut self, now: Utime) {
        self.keep(now, |daemon| daemon.gone.is_none_or(|gone| now.to_unix().saturating_sub(gone.to_unix()) < GRACE));
    }

    fn keep(&mut self, now: Utime, wanted: impl Fn(&RegisteredDaemon) -> bool) {
        let before = self.daemons.len();
        self.daemons.retain(|_, daemon| wanted(daemon));
        if self.daemons.len() < before {
            self.changed(now);
        }
    }

    /// Forgets all daemons: another monitor is the manager now.
    pub fn clear(&mut self, now: Utime) {
        self.keep(now, |_| false);
    }

    /// Returns the map that clients get.
    pub fn map(&self) -> ServiceMap {
        let mut services: BTreeMap<String, Service> = BTreeMap::new();
        for ((service, name), daemon) in &self.daemons {
            let entry = ServiceDaemon {
                gid: daemon.gid,
                addr: daemon.addr,
                start_epoch: daemon.start_epoch,
                start_stamp: daemon.started,
                metadata: daemon.metadata.clone(),
                task_status: BTreeMap::new(),
            };
            services.entry(service.clone()).or_default().daemons.insert(name.clone(), entry);
        }
        ServiceMap { epoch: self.epoch, modified: self.modified, services }
    }
}
