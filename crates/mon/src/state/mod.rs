//! Everything the cluster decides.

mod budget;
mod cluster_log;
mod config_db;
mod entities;
mod hidden;
pub mod image_tasks;
mod manager;
mod osdmaps;
pub mod purge_schedules;
mod queries;
mod records;
mod snapshot;
mod tickets;

pub use budget::OverBudget;
pub use cluster_log::{ClusterLog, LOG_ENTRIES_MAX, STATE_CHECK_CHANNEL};
pub use config_db::{ConfigChange, ConfigDb, ConfigSubject, ConfigVersion};
pub(crate) use entities::{ALLOWED_CIPHERS, KnownEntities, PREFERRED_CIPHER, SERVICE_CIPHER};
pub use entities::{AuthEntry, MONITORS};
pub use hidden::Hidden;
pub use manager::MANAGER_GID;
pub use osdmaps::OsdMaps;
pub use records::{HealthMute, ManagerRecord, MonServer, PgRecord};
pub(crate) use tickets::SERVICES;
pub use wire::messages::{LogEntry, LogPriority};

use crate::pg_numbers::merge_pairs;
use crate::update::{Batch, Update};
use auth::cephx::monitor::ServiceSecrets;
use bytes::Bytes;
use image_tasks::ImageTasks;
use osdmap::MonMap;
use std::collections::{BTreeMap, BTreeSet};
use types::{Fsid, OsdId, PgId, PoolId, Utime};
use wire::Decode;
use wire::nacre::mon::doubt;

/// The replicated state. Changed only by [`MonState::apply`]; readers may look at every field.
#[derive(Clone, PartialEq, Debug)]
pub struct MonState {
    /// Index of the last applied batch, 0 before the first.
    pub applied: u64,
    /// Wall clock of the last applied batch.
    pub stamp: Utime,
    pub fsid: Fsid,
    pub monmap: MonMap,
    pub osdmaps: OsdMaps,
    pub config: ConfigDb,
    /// `ceph config-key`.
    pub config_keys: BTreeMap<String, Hidden>,
    /// Authentication entities by name (`client.admin`).
    pub auth: BTreeMap<String, AuthEntry>,
    /// Secrets of services, which seal tickets.
    pub service_secrets: ServiceSecrets,
    pub osd_metadata: BTreeMap<OsdId, BTreeMap<String, String>>,
    pub mon_metadata: BTreeMap<String, BTreeMap<String, String>>,
    /// Groups that ever served. A group that is not here holds nothing.
    pub pgs: BTreeMap<PgId, PgRecord>,
    /// Epoch in which each pool was made.
    pub pools_created: BTreeMap<PoolId, types::Epoch>,
    /// Global ids from here on were never handed out.
    pub global_ids_below: u64,
    pub log: ClusterLog,
    pub health_mutes: BTreeMap<String, HealthMute>,
    /// Servers that are to keep the log, by the names of their monitors. The monitor map has those of them that decide.
    pub mon_servers: BTreeMap<String, MonServer>,
    /// The first server of all, 0 before there is one: it tells two clusters with one id apart.
    pub founder: u64,
    /// Servers that were members and never will be again.
    pub former_servers: BTreeSet<u64>,
    pub manager: ManagerRecord,
    /// Tasks about block images.
    pub image_tasks: ImageTasks,
    /// True if a monitor that may not have heard of everything was made the only one, and the operator has not
    /// confirmed yet that its records are complete.
    pub in_doubt: bool,
    /// Options that a command to this monitor in person has set. They are not replicated, and end with the monitor.
    pub overrides: BTreeMap<String, String>,
}

/// The state before a cluster begins.
impl Default for MonState {
    fn default() -> MonState {
        MonState {
            applied: 0,
            stamp: Utime::ZERO,
            fsid: Fsid::default(),
            monmap: MonMap::new(Fsid::default(), Utime::ZERO),
            osdmaps: OsdMaps::default(),
            config: ConfigDb::default(),
            config_keys: BTreeMap::new(),
            auth: BTreeMap::new(),
            service_secrets: ServiceSecrets::new(),
            osd_metadata: BTreeMap::new(),
            mon_metadata: BTreeMap::new(),
            pgs: BTreeMap::new(),
            pools_created: BTreeMap::new(),
            global_ids_below: 0,
            log: ClusterLog::default(),
            health_mutes: BTreeMap::new(),
            mon_servers: BTreeMap::new(),
            founder: 0,
            former_servers: BTreeSet::new(),
            manager: ManagerRecord::default(),
            image_tasks: ImageTasks::default(),
            in_doubt: false,
            overrides: BTreeMap::new(),
        }
    }
}

impl MonState {
    /// Applies the batch with the next index. Equal batches give equal states, on every monitor and after every
    /// restart.
    ///
    /// Panics if the batch is not the next one, or if an update contradicts the state: each was checked before it was
    /// appended, so the log is damaged.
    pub fn apply(&mut self, index: u64, batch: &Batch) {
        assert_eq!(index, self.applied + 1, "batches are applied in order");
        for update in &batch.updates {
            self.apply_update(index, batch.stamp, update);
        }
        self.applied = index;
        self.stamp = batch.stamp;
    }

    fn apply_update(&mut self, index: u64, stamp: Utime, update: &Update) {
        match update {
            Update::Bootstrap { fsid, monmap, osdmap } => {
                assert_eq!(self.applied, 0, "a cluster begins once");
                self.fsid = *fsid;
                self.monmap = MonMap::from_slice(monmap).expect("the first monitor map decodes");
                self.osdmaps = OsdMaps::new(osdmap.clone()).expect("the first OSD map decodes");
            }
            Update::MonMap(map) => self.monmap = MonMap::from_slice(map).expect("a proposed monitor map decodes"),
            Update::OsdMap(incremental) => self.apply_osdmap(incremental),
            Update::Config { who, name, value } => {
                self.config.change(index, stamp, who, name, value.as_deref());
            }
            Update::ConfigNote(note) => self.config.note(index, stamp, note),
            Update::ConfigKey { key, value } => set(&mut self.config_keys, key, value),
            Update::Auth { entity, entry } => set(&mut self.auth, entity, entry),
            Update::ServiceSecrets { service, secrets } => {
                self.service_secrets.insert(*service, secrets.clone());
            }
            Update::OsdMetadata { osd, metadata } => set(&mut self.osd_metadata, osd, metadata),
            Update::MonMetadata { name, metadata } => set(&mut self.mon_metadata, name, metadata),
            Update::PgActivated(pgs) => {
                for (pg, record) in pgs {
                    // A pool may be deleted in the batch before.
                    if self.pg_exists(*pg) {
                        self.pgs.insert(*pg, record.clone());
                    }
                }
            }
            Update::GlobalIds { below } => {
                assert!(*below >= self.global_ids_below, "global ids are never handed out twice");
                self.global_ids_below = *below;
            }
            Update::Log(entries) => entries.iter().cloned().for_each(|entry| self.log.push(entry)),
            Update::HealthMute { code, mute } => set(&mut self.health_mutes, code, mute),
            Update::MonServer { name, server, addrs } => {
                if self.founder == 0 {
                    self.founder = *server;
                }
                let now = MonServer { server: *server, addrs: addrs.clone() };
                let before = self.mon_servers.insert(name.clone(), now);
                self.former_servers.extend(before.map(|before| before.server).filter(|before| before != server));
            }
            Update::MonGone { name } => {
                self.former_servers.extend(self.mon_servers.remove(name).map(|gone| gone.server));
                self.mon_metadata.remove(name);
            }
            Update::ImageTask(change) => self.image_tasks.apply(change),
            Update::Confirmed => {
                self.in_doubt = false;
                self.pgs.values_mut().for_each(|record| record.doubt = doubt::NONE);
            }
            Update::Manager { name, addrs, since } => {
                // In earlier software the epoch was the time at which the monitor had started.
                let epoch = self.manager.epoch.next().max(types::Epoch(since.sec));
                self.manager = ManagerRecord { epoch, name: name.clone(), addrs: addrs.clone(), since: *since };
            }
        }
    }

    fn apply_osdmap(&mut self, incremental: &Bytes) {
        let pg_nums: BTreeMap<PoolId, u32> = self.osdmap().pools.iter().map(|(id, pool)| (*id, pool.pg_num)).collect();
        let incremental = self.osdmaps.apply(incremental);
        for pool in incremental.new_pools.keys() {
            self.pools_created.entry(*pool).or_insert(incremental.epoch);
        }
        for (id, pool) in &incremental.new_pools {
            match pg_nums.get(id).copied() {
                Some(before) if before < pool.pg_num => {
                    self.split_records(*id, (before, pool.pg_num), incremental.epoch);
                }
                Some(before) if before > pool.pg_num => {
                    self.merge_records(*id, (before, pool.pg_num), incremental.epoch);
                }
                _ => {}
            }
        }
        let map = self.osdmaps.current();
        if !incremental.old_pools.is_empty() {
            self.pools_created.retain(|pool, _| map.pools.contains_key(pool));
            self.pgs.retain(|pg, _| map.pools.contains_key(&pg.pool));
            self.image_tasks.schedules.forget_pools(|pool| map.pools.contains_key(&pool));
        }
    }

    /// Copies the records of groups to those that are split from them, when a pool gets more.
    fn split_records(&mut self, pool: PoolId, (before, pg_num): (u32, u32), epoch: types::Epoch) {
        for seed in (0..before).filter(|seed| !osdmap::same_range(*seed, before, pg_num)) {
            let known = self.pgs.get(&PgId { pool, seed }).cloned().unwrap_or_default();
            let record = PgRecord { range_since: epoch, ..known };
            for seed in osdmap::split_children(seed, before, pg_num).chain([seed]) {
                self.pgs.insert(PgId { pool, seed }, record.clone());
            }
        }
    }
}

impl MonState {
    /// Joins the records of groups that are merged, when a pool gets fewer: they are recorded in the same interval,
    /// with the same members. If they were not, no OSD would be taken for one that has everything.
    fn merge_records(&mut self, pool: PoolId, (before, pg_num): (u32, u32), epoch: types::Epoch) {
        for (source, target) in merge_pairs(pool, before, pg_num) {
            let gone = self.pgs.remove(&source).unwrap_or_default();
            let record = self.pgs.entry(target).or_default();
            record.range_since = epoch;
            record.last_epoch_started = record.last_epoch_started.max(gone.last_epoch_started);
            // A lower number is a greater doubt, except for none.
            record.doubt =
                [record.doubt, gone.doubt].into_iter().filter(|doubt| *doubt != doubt::NONE).min().unwrap_or_default();
        }
    }
}

fn set<K: Ord + Clone, V: Clone>(map: &mut BTreeMap<K, V>, key: &K, value: &Option<V>) {
    match value {
        Some(value) => drop(map.insert(key.clone(), value.clone())),
        None => drop(map.remove(key)),
    }
}
