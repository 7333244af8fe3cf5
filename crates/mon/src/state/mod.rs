//! Everything the cluster decides.

mod auth;
mod cluster_log;
mod config_db;
mod records;

pub use auth::AuthEntry;
pub use cluster_log::{ClusterLog, LOG_ENTRIES_MAX, LogEntry, LogPriority};
pub use config_db::{ConfigDb, ConfigSubject};
pub use records::{HealthMute, PgRecord};

use bytes::Bytes;
use std::collections::BTreeMap;
use types::{Fsid, OsdId, PgId, Utime};

/// The replicated state. Changed only by [`MonState::apply`]; readers may look at every field.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MonState {
    /// Index of the last applied batch, 0 before the first.
    pub applied: u64,
    /// Wall clock of the last applied batch.
    pub stamp: Utime,
    pub fsid: Fsid,
    pub config: ConfigDb,
    /// `ceph config-key`.
    pub config_keys: BTreeMap<String, Bytes>,
    /// Authentication entities by name (`client.admin`).
    pub auth: BTreeMap<String, AuthEntry>,
    pub osd_metadata: BTreeMap<OsdId, BTreeMap<String, String>>,
    pub mon_metadata: BTreeMap<String, BTreeMap<String, String>>,
    /// Groups that ever served. One that is not here holds nothing.
    pub pgs: BTreeMap<PgId, PgRecord>,
    /// Global ids from here on were never handed out.
    pub global_ids_below: u64,
    pub log: ClusterLog,
    pub health_mutes: BTreeMap<String, HealthMute>,
}
