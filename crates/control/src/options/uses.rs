//! Effects of options: which ones Nacre acts on, maps to something of its own, or ignores.

/// The effect of an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// Monitors or OSDs act on it, at once.
    Honoured {
        /// The default here, where it is not Ceph's.
        default: Option<&'static str>,
        effect: &'static str,
    },
    /// A daemon reads it from `ceph.conf` when it starts; setting it centrally has no effect.
    Conf { effect: &'static str },
    /// Clients get it and act on it: librados, librbd and their relatives.
    Clients,
    /// Nothing acts on it. `instead`: how Nacre does what it is for, where there is such a thing.
    Ignored { instead: Option<&'static str> },
}

/// Options that monitors act on: name, default where it is not Ceph's, effect.
const HONOURED: &[(&str, Option<&str>, &str)] = &[
    ("auth_allowed_ciphers", None, "Kinds of keys by which somebody is let in; others are neither made nor imported"),
    ("auth_mon_ticket_ttl", None, "Seconds for which a ticket for monitors is good"),
    ("auth_preferred_cipher", None, "The kind of new keys, where a command names none"),
    ("auth_service_cipher", None, "The kind of the secrets that seal tickets, from the next ones on"),
    ("auth_service_ticket_ttl", None, "Seconds for which a ticket for OSDs and other daemons is good"),
    ("mgr/balancer/active", None, "The balancer moves copies of placement groups"),
    ("mgr/balancer/mode", None, "How the balancer works; upmap and none are known, crush-compat does nothing"),
    ("mgr/balancer/pool_ids", None, "Numbers of the pools that the balancer works on; none: all"),
    ("mgr/balancer/sleep_interval", None, "Seconds between two rounds of the balancer"),
    ("mgr/balancer/upmap_max_optimizations", None, "Most copies that a round of the balancer moves"),
    ("mgr/pg_autoscaler/threshold", None, "By which factor pg_num is wrong before it is changed"),
    ("mgr/pg_numbers/careful", None, "pg_num and pgp_num change in small steps only"),
    ("mon_allow_pool_delete", Some("true"), "Pools may be deleted"),
    ("mon_clock_drift_allowed", None, "Seconds that monitors' clocks may differ before MON_CLOCK_SKEW is raised"),
    ("mon_max_pg_per_osd", None, "Most copies of placement groups per OSD, on average"),
    ("mon_max_pool_pg_num", None, "Most placement groups of a pool"),
    ("mon_osd_blocklist_default_expire", None, "Seconds that a client is locked out where nobody says how long"),
    ("mon_osd_down_out_interval", None, "Seconds that an OSD is down before it is marked out; 0: never"),
    ("mon_osd_min_down_reporters", None, "Hosts whose OSDs must miss an OSD before it is marked down"),
    ("mon_osd_min_in_ratio", None, "Share of OSDs that stay in whatever goes down"),
    ("mon_osd_warn_num_repaired", None, "Most bad copies that an OSD replaces without OSD_TOO_MANY_REPAIRS"),
    ("mon_pg_stuck_threshold", None, "Seconds after which a placement group that does not serve counts as stuck"),
    ("mon_reweight_max_change", None, "Most by which osd reweight-by-utilization changes a weight"),
    ("mon_reweight_max_osds", None, "Most OSDs whose weights osd reweight-by-utilization changes"),
    ("mon_reweight_min_bytes_per_osd", None, "Bytes that OSDs hold on average before their fullness says anything"),
    ("mon_reweight_min_pgs_per_osd", None, "Copies of groups per OSD, on average, before their spread says anything"),
    ("mon_target_pg_per_osd", None, "Copies of placement groups per OSD that are aimed at"),
    ("mon_warn_on_pool_no_app", None, "POOL_APP_NOT_ENABLED is raised"),
    ("mon_warn_on_pool_no_redundancy", None, "POOL_NO_REDUNDANCY is raised"),
    ("mon_warn_on_pool_pg_num_not_power_of_two", None, "POOL_PG_NUM_NOT_POWER_OF_TWO is raised"),
    ("mon_warn_on_slow_ping_ratio", None, "Share of osd_heartbeat_grace from which on answers of OSDs are slow"),
    ("mon_warn_on_slow_ping_time", None, "Milliseconds from which on answers of OSDs are slow; 0: by the ratio"),
    ("mon_warn_on_too_few_osds", None, "TOO_FEW_OSDS is raised"),
    ("mon_warn_pg_not_deep_scrubbed_ratio", None, "How late deep scrubs are at PG_NOT_DEEP_SCRUBBED; 0: never"),
    ("mon_warn_pg_not_scrubbed_ratio", None, "How late scrubs are at PG_NOT_SCRUBBED; 0: never"),
    ("osd_pool_default_flag_bulk", None, "A new pool is expected to be large"),
    ("osd_pool_default_flag_nodelete", None, "A new pool cannot be deleted"),
    ("osd_pool_default_flag_nopgchange", None, "The number of groups of a new pool stays"),
    ("osd_pool_default_flag_nosizechange", None, "The number of copies of a new pool stays"),
    ("osd_pool_default_min_size", None, "Copies that a new pool needs to serve; 0: more than half"),
    ("osd_pool_default_pg_autoscale_mode", Some("off"), "The number of groups of new pools is left to the cluster"),
    ("osd_pool_default_pg_num", None, "Placement groups of a new pool"),
    ("osd_pool_default_size", None, "Copies of a new pool"),
    ("target_max_misplaced_ratio", None, "Share of copies that may be on their way at a time"),
];

/// Options that OSDs act on while they run: name, default where it is not Ceph's, effect.
const OF_OSDS: &[(&str, Option<&str>, &str)] = &[
    ("osd_deep_scrub_interval", None, "Seconds in which an OSD reads everything that it has; 0: never"),
    ("osd_deep_scrub_large_omap_object_key_threshold", None, "Most omap keys of an object without LARGE_OMAP_OBJECTS"),
    ("osd_deep_scrub_large_omap_object_value_sum_threshold", None, "Most bytes of an omap without LARGE_OMAP_OBJECTS"),
    ("osd_ec_hedged_reads", None, "Reads of erasure-coded objects do not wait for a late shard, but ask others"),
    ("osd_heartbeat_grace", Some("7"), "Seconds without an answer after which an OSD is reported to the monitors"),
    ("osd_heartbeat_interval", Some("2"), "Seconds between two signs of life that an OSD asks another for"),
    ("osd_max_backfills", Some("3"), "Groups that heal at a time on an OSD, as their primary and as a member each"),
    ("osd_max_scrubs", None, "Groups that an OSD scrubs at a time, as their primary; 0: no scrub begins"),
    ("osd_op_complaint_time", None, "Seconds after which an operation without an answer counts in SLOW_OPS"),
    ("osd_op_history_duration", None, "Seconds for which dump_historic_ops lists an operation"),
    ("osd_op_history_size", None, "Operations that dump_historic_ops lists"),
    ("osd_op_history_slow_op_size", None, "Operations that dump_historic_slow_ops lists"),
    ("osd_op_history_slow_op_threshold", None, "Seconds from which on dump_historic_slow_ops lists an operation"),
    ("osd_recovery_max_active", None, "Objects of a group that go to one member at a time; 0: 16"),
    ("osd_recovery_sleep", None, "Seconds of pause behind each object that an OSD sends to where it is missing"),
    ("osd_scrub_begin_hour", None, "Hour of the local day from which on scrubs begin that nobody has ordered"),
    ("osd_scrub_begin_week_day", None, "Day of the week from which on such scrubs begin; 0: Sunday"),
    ("osd_scrub_during_recovery", None, "Scrubs that nobody has ordered begin while groups of the OSD heal"),
    ("osd_scrub_end_hour", None, "Hour of the local day at which the time for such scrubs ends"),
    ("osd_scrub_end_week_day", None, "Day of the week at which the time for such scrubs ends"),
    ("osd_scrub_load_threshold", Some("1000"), "Tasks per processor from which on no such scrub begins"),
    ("osd_scrub_max_interval", None, "Seconds after which a group is scrubbed at any time; 0: never"),
    ("osd_scrub_min_interval", None, "Seconds between two light scrubs of a group; 0: never"),
    ("osd_scrub_sleep", None, "Least seconds between two chunks of a scrub"),
];

/// Levels of daemons' logs: name, effect.
const LOGS: &[(&str, &str)] = &[
    ("debug_bluestore", "Lines in an OSD's log about its store; 10: details, 20: all, 0: only what is wrong"),
    ("debug_mon", "Lines in a monitor's log; 10: details, 20: all, 0: only what is wrong"),
    ("debug_ms", "Lines in a daemon's log about connections; 10: details, 20: all, 0: only what is wrong"),
    ("debug_osd", "Lines in an OSD's log about itself and its groups; 10: details, 20: all, 0: only what is wrong"),
    ("debug_paxos", "Lines in a monitor's log about agreement; 10: details, 20: all, 0: only what is wrong"),
];

/// Options that daemons read from `ceph.conf`.
const CONF: &[(&str, &str)] = &[
    ("admin_socket", "Where programs on its machine ask a daemon (`ceph daemon`); empty: nowhere"),
    ("cluster_addr", "Address of an OSD for other daemons"),
    ("crush_location", "Where a new OSD is put into the hierarchy"),
    ("fsid", "The cluster's id"),
    ("keyring", "File with the keys that a new cluster begins with"),
    ("mon_data", "Folder of a monitor's store"),
    ("mon_host", "Where the monitors are"),
    ("osd_data", "Folder of an OSD's store"),
    ("osd_memory_target", "Bytes of memory of an OSD, 64Mi or more"),
    ("public_addr", "Address of a daemon for clients"),
    ("run_dir", "Folder of admin sockets"),
];

/// Options without an effect whose purpose is served otherwise, by the beginning of their names.
const INSTEAD: &[(&str, &str)] = &[
    ("osd_recovery_", "recovery gives way to clients by itself (docs/recovery.md)"),
    ("osd_backfill_", "recovery gives way to clients by itself (docs/recovery.md)"),
    ("osd_mclock_", "recovery gives way to clients by itself (docs/recovery.md)"),
    ("osd_op_queue", "operations are served in the order that docs/why.md shows"),
    ("osd_heartbeat_", "OSDs watch each other from a thread of their own (docs/operations.md)"),
    ("osd_scrub_", "scrubs are spread over their period by themselves (docs/scrub.md)"),
    ("osd_deep_scrub_", "scrubs are spread over their period by themselves (docs/scrub.md)"),
    ("osd_snap_trim_", "snapshots are trimmed in slices (docs/snapshots.md)"),
    ("bluestore_", "the store is Nacre's own (docs/disk-format.md)"),
    ("bluefs_", "the store is Nacre's own (docs/disk-format.md)"),
    ("bdev_", "the store is Nacre's own (docs/disk-format.md)"),
    ("filestore_", "the store is Nacre's own (docs/disk-format.md)"),
    ("rocksdb_", "the store is Nacre's own (docs/disk-format.md)"),
    ("paxos_", "monitors agree by Raft (docs/monitors.md)"),
    ("mon_lease", "monitors agree by Raft (docs/monitors.md)"),
    ("mon_election", "monitors agree by Raft (docs/monitors.md)"),
    ("auth_", "methods are read from ceph.conf; the rest is as docs/security.md says"),
    ("cephx_", "signatures and proofs are always asked for (docs/security.md)"),
    ("mds_", "there are no metadata servers"),
    ("fuse_", "there are no metadata servers"),
    ("rgw_", "radosgw reads its options by itself, where one runs"),
];

/// Beginnings of names of options that clients act on.
const CLIENT_PREFIXES: &[&str] = &["client_", "debug_", "librados_", "log_", "ms_", "objecter_", "rados_", "rbd_"];

/// Returns the effect of the option of this name.
pub fn use_of(name: &str) -> Use {
    if let Some((_, default, effect)) = HONOURED.iter().chain(OF_OSDS).find(|(known, ..)| *known == name) {
        return Use::Honoured { default: *default, effect };
    }
    if let Some((_, effect)) = LOGS.iter().find(|(known, _)| *known == name) {
        return Use::Honoured { default: None, effect };
    }
    if let Some((_, effect)) = CONF.iter().find(|(known, _)| *known == name) {
        return Use::Conf { effect };
    }
    if CLIENT_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        return Use::Clients;
    }
    Use::Ignored { instead: INSTEAD.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, instead)| *instead) }
}

impl Use {
    /// Returns a sentence about it, without a dot.
    pub fn sentence(&self) -> String {
        match self {
            Use::Honoured { effect, .. } => format!("honoured: {effect}"),
            Use::Conf { effect } => format!("read from ceph.conf at the start of a daemon only: {effect}"),
            Use::Clients => "given to clients, who act on it; Nacre's daemons do not".to_owned(),
            Use::Ignored { instead: None } => "kept, and given to who asks for it; nothing acts on it".to_owned(),
            Use::Ignored { instead: Some(instead) } => format!("kept; nothing acts on it: {instead}"),
        }
    }

    /// Returns the effect, for options that have one here.
    pub fn effect(&self) -> &'static str {
        match self {
            Use::Honoured { effect, .. } | Use::Conf { effect } => effect,
            Use::Clients | Use::Ignored { .. } => "",
        }
    }
}

/// Returns the names of options that OSDs act on while they run.
pub fn honoured_by_osds() -> impl Iterator<Item = &'static str> {
    OF_OSDS.iter().map(|(name, ..)| *name)
}

/// Returns the names of options that set levels of daemons' logs.
pub fn honoured_in_logs() -> impl Iterator<Item = &'static str> {
    LOGS.iter().map(|(name, _)| *name)
}

/// Returns the names of options that monitors act on.
pub fn honoured() -> impl Iterator<Item = &'static str> {
    HONOURED.iter().map(|(name, ..)| *name)
}
