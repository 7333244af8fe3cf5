//! Messages between OSDs and monitors.
//!
//! Maps reach OSDs as they reach clients: by subscription, as Ceph's `MOSDMap`.

use super::kind;
use crate::addr::EntityAddrVec;
use crate::basic::{IntervalSet, PgShard};
use crate::own_message as message;
use crate::{Decode, DecodeError, Encode, Reader, Writer};
use std::collections::BTreeMap;
use std::time::Duration;
use types::{EVersion, Epoch, Fsid, OsdId, PgId, Utime};

macro_rules! block {
    ($ty:ident, version $version:literal { $($field:ident),* $(; since $since:literal { $($later:ident),* })* $(,)? }) => {
        impl Encode for $ty {
            fn encode(&self, w: &mut Writer) {
                w.versioned($version, 1, |w| { $(w.put(&self.$field);)* $($(w.put(&self.$later);)*)* });
            }
        }
        impl Decode for $ty {
            const MIN_BYTES: usize = 6;
            fn decode(r: &mut Reader<'_>) -> Result<$ty, DecodeError> {
                let (_head, mut r) = r.versioned(stringify!($ty), $version)?;
                Ok($ty {
                    $($field: r.get()?,)*
                    $($($later: if _head.version >= $since { r.get()? } else { Default::default() },)*)*
                })
            }
        }
    };
}

/// How many shards an OSD has, in [`OsdBoot::metadata`]; absent means one. Named after Ceph's option.
pub const OSD_SHARDS: &str = "osd_op_num_shards";

/// Monitors mark an OSD down that has sent no beacon for so long.
pub const BEACON_GRACE: Duration = Duration::from_secs(20);
/// Time for which monitors count an OSD's report about a silent OSD that is not repeated.
pub const FAILURE_REPORT_LASTS: Duration = Duration::from_secs(10);

/// An OSD has started and asks to be marked up. Repeated until the map shows it up at these addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OsdBoot {
    pub fsid: Fsid,
    pub osd: OsdId,
    /// Identity of the OSD's store: another store under the same number is refused.
    pub osd_uuid: Fsid,
    pub public_addrs: EntityAddrVec,
    pub cluster_addrs: EntityAddrVec,
    /// Where it answers heartbeats, on the network between OSDs and on that of clients.
    pub hb_back_addrs: EntityAddrVec,
    pub hb_front_addrs: EntityAddrVec,
    /// Newest map the OSD has.
    pub epoch: Epoch,
    /// CRUSH weight, 16.16 fixed point: the device's size in TiB. Used only when the OSD is new.
    pub weight: u32,
    /// Where the OSD stands, as pairs of bucket type and name (`host`, `node1`). Used only when the OSD is new.
    pub location: BTreeMap<String, String>,
    /// `ssd`, `nvme` or `hdd`.
    pub device_class: String,
    /// Shown by `ceph osd metadata`.
    pub metadata: BTreeMap<String, String>,
    /// Bits of [`osd_features`] that the OSD's software has. Software before version 2 tells none.
    pub features: u64,
}

message!(OsdBoot = kind::OSD_BOOT, version 2 {
    fsid, osd, osd_uuid, public_addrs, cluster_addrs, hb_back_addrs, hb_front_addrs, epoch, weight, location, device_class, metadata;
    since 2 { features },
});

/// Abilities of an OSD's software that earlier software lacks. Monitors put these bits into the map, among the bits
/// that an OSD of Ceph has there; Ceph gives them no meaning.
pub mod osd_features {
    /// Reads log entries of updates that skip shards, and does not take such shards for stale.
    pub const SKIPPED_SHARDS: u64 = 1 << 62;
    /// All bits that this software has.
    pub const ALL: u64 = SKIPPED_SHARDS;
}

/// Space and speed of one OSD.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OsdStats {
    pub total_bytes: u64,
    pub free_bytes: u64,
    /// Blocks that objects' data holds.
    pub data_bytes: u64,
    /// Logical bytes of objects, before allocation to blocks.
    pub stored_bytes: u64,
    pub omap_bytes: u64,
    pub metadata_bytes: u64,
    /// Mean time from submission to durability over the last report interval.
    pub commit_latency_us: u64,
    pub pg_count: u64,
    /// Peers this OSD exchanges data with.
    pub heartbeat_peers: u64,
    /// Clients' operations that are not answered for so long that somebody should look, and the age of the oldest.
    pub slow_ops: u64,
    pub oldest_slow_op_ms: u64,
    /// Copies of objects on this OSD that turned out to be bad and are replaced, since it started.
    pub bad_copies: u64,
}

block!(OsdStats, version 3 {
    total_bytes, free_bytes, data_bytes, stored_bytes, omap_bytes, metadata_bytes, commit_latency_us, pg_count,
    heartbeat_peers; since 2 { slow_ops, oldest_slow_op_ms }; since 3 { bad_copies }
});

/// Bits of [`PgReport::state`]; several may be set. Names and meaning are Ceph's.
pub mod pg_state {
    pub const ACTIVE: u64 = 1 << 0;
    pub const CLEAN: u64 = 1 << 1;
    pub const PEERING: u64 = 1 << 2;
    pub const DEGRADED: u64 = 1 << 3;
    pub const UNDERSIZED: u64 = 1 << 4;
    pub const RECOVERING: u64 = 1 << 5;
    pub const BACKFILLING: u64 = 1 << 6;
    pub const CREATING: u64 = 1 << 7;
    pub const DOWN: u64 = 1 << 8;
    pub const INCOMPLETE: u64 = 1 << 9;
    pub const REMAPPED: u64 = 1 << 10;
    pub const SCRUBBING: u64 = 1 << 11;
    pub const DEEP_SCRUB: u64 = 1 << 12;
    pub const INCONSISTENT: u64 = 1 << 13;
    pub const STALE: u64 = 1 << 14;
    /// Peering is done but too few members are there to serve.
    pub const PEERED: u64 = 1 << 15;
    /// Waits for its turn to recover, or to backfill.
    pub const RECOVERY_WAIT: u64 = 1 << 16;
    pub const BACKFILL_WAIT: u64 = 1 << 17;
    /// Nobody who is up has the newest version of some objects.
    pub const RECOVERY_UNFOUND: u64 = 1 << 18;
    /// OSDs have no room for what they lack.
    pub const RECOVERY_TOOFULL: u64 = 1 << 19;
    pub const BACKFILL_TOOFULL: u64 = 1 << 20;
    /// Members cannot be backfilled, as nobody can tell in which version they would lack objects that nobody has.
    pub const BACKFILL_UNFOUND: u64 = 1 << 21;
    /// Objects of removed snapshots are removed, or are to be.
    pub const SNAPTRIM: u64 = 1 << 25;
    pub const SNAPTRIM_WAIT: u64 = 1 << 26;
    /// Serves nobody for a moment, as it is to be merged with another group.
    pub const PREMERGE: u64 = 1 << 27;
    /// An operator wants it to recover, or to backfill, before others.
    pub const FORCED_RECOVERY: u64 = 1 << 28;
    pub const FORCED_BACKFILL: u64 = 1 << 29;
    /// A scrub that an operator lets repair whatever it can.
    pub const REPAIR: u64 = 1 << 24;
}

/// Findings of scrubs in one placement group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PgScrubReport {
    /// When it was last scrubbed at all, deeply, and without an error; and at which version.
    pub light_at: Utime,
    pub light_version: EVersion,
    pub deep_at: Utime,
    pub deep_version: EVersion,
    pub clean_at: Utime,
    /// Found and not repaired.
    pub shallow_errors: u64,
    pub deep_errors: u64,
    /// Copies that were replaced, since the group was made.
    pub repaired: u64,
    /// Objects of which nothing proves a copy right: they wait for an operator's choice.
    pub undecided: u64,
    /// Objects with larger omaps than an operator wants, as the last deep scrub found them.
    pub large_omaps: u64,
}

block!(PgScrubReport, version 3 {
    light_at, light_version, deep_at, deep_version, clean_at, shallow_errors, deep_errors, repaired;
    since 2 { undecided }; since 3 { large_omaps }
});

/// One placement group as its primary sees it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PgReport {
    pub pgid: PgId,
    /// Bits of [`pg_state`].
    pub state: u64,
    /// Map epoch of the report.
    pub epoch: Epoch,
    /// Counts the reports of one primary, so that older ones are recognised.
    pub sequence: u64,
    pub last_update: EVersion,
    pub log_start: EVersion,
    /// First epoch of the present interval (same up and acting set).
    pub interval_since: Epoch,
    pub last_epoch_started: Epoch,
    pub created: Epoch,
    pub up: Vec<OsdId>,
    pub acting: Vec<OsdId>,
    pub objects: u64,
    pub bytes: u64,
    pub omap_bytes: u64,
    pub omap_keys: u64,
    pub log_entries: u64,
    /// Objects that miss a copy, counted once per missing copy.
    pub degraded_copies: u64,
    /// Copies that are to be elsewhere and are not yet.
    pub misplaced_copies: u64,
    pub missing_on_primary: u64,
    /// Objects of whose newest version nobody who is up has a copy.
    pub unfound: u64,
    /// Objects that this primary has brought to members that lacked them, since it became primary.
    pub recovered_objects: u64,
    pub recovered_bytes: u64,
    /// Client operations and KiB since the group was created, as Ceph counts them.
    pub read_ops: u64,
    pub read_kib: u64,
    pub write_ops: u64,
    pub write_kib: u64,
    pub scrub: PgScrubReport,
    /// Objects at snapshots; [`PgReport::objects`] counts them, too.
    pub clones: u64,
    /// Removed snapshots that the group is not done with, and those that it is.
    pub trim_queue: u64,
    pub trimmed_snaps: IntervalSet,
    /// OSDs that are down and without which the group cannot serve.
    pub blocked_by: Vec<OsdId>,
    /// Of a group that is not clean: the members that have the log and all objects durably, in the order of the acting
    /// set; none before the group has peered. Empty for a clean one, of which all have. `None`: an OSD of earlier
    /// software does not tell.
    pub complete: Option<Vec<PgShard>>,
}

block!(PgReport, version 5 {
    pgid, state, epoch, sequence, last_update, log_start, interval_since, last_epoch_started, created, up, acting,
    objects, bytes, omap_bytes, omap_keys, log_entries, degraded_copies, misplaced_copies,
    missing_on_primary, unfound, recovered_objects, recovered_bytes, read_ops, read_kib, write_ops, write_kib,
    scrub, clones, trim_queue, trimmed_snaps; since 4 { blocked_by }; since 5 { complete }
});

/// Sign of life of an OSD, with its statistics and those of the groups it is primary of. Sent every few seconds, at
/// once when the state of a group changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OsdBeacon {
    pub osd: OsdId,
    /// Newest map the OSD has.
    pub epoch: Epoch,
    pub stats: OsdStats,
    /// Only groups that changed since the last beacon on this session.
    pub pgs: Vec<PgReport>,
    /// Its options that have values of their own; `None`: as it told before.
    pub options: Option<Vec<OptionReport>>,
    /// The time that other OSDs took to answer it; `None`: as it told before.
    pub pings: Option<Vec<PingReport>>,
}

message!(OsdBeacon = kind::OSD_BEACON, version 3 { osd, epoch, stats, pgs; since 2 { options }; since 3 { pings } });

/// The time that answers took over some minutes, in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PingTook {
    pub average_us: u32,
    pub least_us: u32,
    pub most_us: u32,
}

block!(PingTook, version 1 { average_us, least_us, most_us });

/// The time that one OSD's answers to another one's signs of life took on one network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PingReport {
    /// The OSD that answers.
    pub osd: OsdId,
    /// True on the network of clients, false on that between OSDs.
    pub is_front: bool,
    /// Over the last minute, five and fifteen minutes that are over.
    pub one: PingTook,
    pub five: PingTook,
    pub fifteen: PingTook,
    /// The last answer, and when it came.
    pub last_us: u32,
    pub answered_at: Utime,
}

block!(PingReport, version 1 { osd, is_front, one, five, fifteen, last_us, answered_at });

impl PingReport {
    /// Returns the largest of the means over some minutes, in microseconds.
    pub fn slowest_us(&self) -> u32 {
        [self.one, self.five, self.fifteen].map(|took| took.average_us).into_iter().max().unwrap_or_default()
    }
}

/// Sources of options' values. A greater number wins.
pub mod option_source {
    pub const DEFAULT: u8 = 0;
    pub const MON: u8 = 1;
    pub const FILE: u8 = 2;
    pub const COMMAND_LINE: u8 = 4;
    /// A command to the daemon.
    pub const OVERRIDE: u8 = 5;

    /// Returns Ceph's word for it.
    pub fn name(source: u8) -> &'static str {
        match source {
            DEFAULT => "default",
            MON => "mon",
            FILE => "file",
            COMMAND_LINE => "cmdline",
            _ => "override",
        }
    }
}

/// An option of a daemon, with the values that it was given.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct OptionReport {
    pub name: String,
    /// Values with their sources ([`option_source`]), the one in force last. Empty: the usual default is in force.
    pub values: Vec<(u8, String)>,
    /// The monitors give a value that has no effect before the daemon starts anew.
    pub is_ignored: bool,
}

block!(OptionReport, version 1 { name, values, is_ignored });

impl OptionReport {
    /// Returns the bytes of the name and of all values.
    pub fn bytes(&self) -> usize {
        self.name.len() + self.values.iter().map(|(_, text)| text.len()).sum::<usize>()
    }
}

/// An OSD cannot reach another one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OsdFailure {
    pub target: OsdId,
    /// The addresses it was tried at: a report about an earlier start of the target is void.
    pub target_addrs: EntityAddrVec,
    pub epoch: Epoch,
    /// The target's host refused the connection: nothing listens there any more.
    pub immediate: bool,
    pub failed_for_ms: u64,
}

message!(OsdFailure = kind::OSD_FAILURE, version 1 { target, target_addrs, epoch, immediate, failed_for_ms });

/// An OSD is about to stop in good order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OsdGoingDown {
    pub osd: OsdId,
    pub public_addrs: EntityAddrVec,
    pub epoch: Epoch,
}

message!(OsdGoingDown = kind::OSD_GOING_DOWN, version 1 { osd, public_addrs, epoch });

/// The map that shows the OSD down is durable: it may stop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OsdGoingDownAck {
    pub osd: OsdId,
    pub epoch: Epoch,
}

message!(OsdGoingDownAck = kind::OSD_GOING_DOWN_ACK, version 1 { osd, epoch });

/// The OSD is not marked up, and will not be until somebody has done something about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OsdRefused {
    pub osd: OsdId,
    /// Why, and what helps.
    pub reason: String,
}

message!(OsdRefused = kind::OSD_REFUSED, version 1 { osd, reason });

/// A primary asks what the monitors know of placement groups, before it lets them serve.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgHistoryGet {
    /// The answer must come from a state that includes this map.
    pub epoch: Epoch,
    pub pgs: Vec<PgId>,
}

message!(PgHistoryGet = kind::PG_HISTORY_GET, version 1 { epoch, pgs });

/// How far [`PgHistory`] can be relied on.
pub mod doubt {
    /// It is what was decided last.
    pub const NONE: u8 = 0;
    /// A monitor that may not have heard of everything was made the only one: the group may have served elsewhere
    /// since.
    pub const BEHIND: u8 = 1;
    /// The group has served since, by what all OSDs had that were up. Copies of others may be newer still, until the
    /// operator has confirmed that there are none.
    pub const UNCONFIRMED: u8 = 2;
}

/// Durable knowledge of the monitors about one placement group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PgHistory {
    pub pgid: PgId,
    /// Epoch of the interval in which the group last became active; 0 if it never was, and so holds nothing.
    pub last_epoch_started: Epoch,
    /// The members that served in that interval: each has every update that a client was answered for up to its end, at
    /// least in its log.
    pub members: Vec<OsdId>,
    /// OSDs that served before and may have objects that members still lack.
    pub past: Vec<OsdId>,
    /// Epoch in which the pool was made.
    pub created: Epoch,
    /// Of erasure-coded pools: which shard each of the members, and of the past ones, has.
    pub member_shards: Vec<u8>,
    pub past_shards: Vec<u8>,
    /// Of [`doubt`].
    pub doubt: u8,
}

block!(PgHistory, version 4 {
    pgid, last_epoch_started, members, past, created, member_shards, past_shards; since 4 { doubt }
});

/// Answers [`PgHistoryGet`]. Groups that do not exist (any more) are left out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgHistoryReply {
    pub epoch: Epoch,
    pub pgs: Vec<PgHistory>,
}

message!(PgHistoryReply = kind::PG_HISTORY, version 1 { epoch, pgs });

/// One group that its primary is about to let serve with `members`, or to which it adds members while it serves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgActivation {
    pub pgid: PgId,
    /// First epoch of the interval; becomes the group's `last_epoch_started`.
    pub interval_since: Epoch,
    pub acting: Vec<OsdId>,
    /// Members of the acting set that have the whole log durably and without which no client is answered from now on.
    pub members: Vec<OsdId>,
    /// No member lacks any object, so nothing is to be had elsewhere.
    pub recovered: bool,
    /// Of erasure-coded pools: which shard each of the members has.
    pub member_shards: Vec<u8>,
    /// The `last_epoch_started` of the record by which the primary found out who had the group's newest state. An
    /// activation counts only if that record, or one that this very interval led to, is the present one. `None`: an OSD
    /// of earlier software does not tell.
    pub basis: Option<Epoch>,
}

block!(PgActivation, version 4 { pgid, interval_since, acting, members, recovered, member_shards; since 4 { basis } });

/// Asks the monitors to record activations. An activation counts only if, when it is applied, the newest map still
/// gives the group this acting set, and the record is the one that it rests on; else it is dropped, and the sender
/// learns from the map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgActivate {
    pub epoch: Epoch,
    pub pgs: Vec<PgActivation>,
}

message!(PgActivate = kind::PG_ACTIVATE, version 1 { epoch, pgs });

/// Answers [`PgActivate`] once the record is durable: what is recorded now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgActivated {
    pub pgs: Vec<PgHistory>,
}

message!(PgActivated = kind::PG_ACTIVATED, version 2 { pgs });

/// A primary asks that other acting sets stand in for the `up` sets of groups until their data has moved; an empty one:
/// that none does any more. What the sender is not the primary of is ignored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgTemp {
    pub epoch: Epoch,
    pub pgs: Vec<(PgId, Vec<OsdId>)>,
}

message!(PgTemp = kind::PG_TEMP, version 1 { epoch, pgs });

/// An OSD asks for a map that is newer than `after`, whatever it says: it has lost what was under way between it and
/// another OSD, and its groups begin a new interval with the next epoch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewerMapGet {
    pub after: Epoch,
}

message!(NewerMapGet = kind::NEWER_MAP_GET, version 1 { after });

/// An operator wants groups scrubbed that the receiver is the primary of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgScrub {
    pub pgs: Vec<PgId>,
    /// Read the bytes, too.
    pub deep: bool,
    /// Repair also what is not proven, as `docs/scrub.md` says.
    pub repair: bool,
}

message!(PgScrub = kind::PG_SCRUB, version 1 { pgs, deep, repair });

/// An operator wants groups that the receiver is the primary of to recover, or to backfill, before others; or not any
/// more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgForce {
    pub pgs: Vec<PgId>,
    /// Backfill, not recovery.
    pub backfill: bool,
    pub cancel: bool,
}

message!(PgForce = kind::PG_FORCE, version 1 { pgs, backfill, cancel });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Message, Target};

    #[test]
    fn a_beacon_of_earlier_software_tells_no_options() {
        let report = OptionReport {
            name: "osd_max_backfills".to_owned(),
            values: vec![(option_source::MON, "5".to_owned()), (option_source::OVERRIDE, "7".to_owned())],
            is_ignored: false,
        };
        let (epoch, stats) = (Epoch(9), OsdStats::default());
        let (options, pings) = (Some(vec![report]), None);
        let told = OsdBeacon { osd: OsdId(3), epoch, stats, pgs: Vec::new(), options, pings };
        let sealed = told.clone().seal(0, Target::PACIFIC);
        assert_eq!(OsdBeacon::open(&sealed).expect("its own encoding"), told);
        let silent = OsdBeacon { options: None, ..told };
        let front = silent.clone().seal(0, Target::PACIFIC).front;
        // Version 1 ended before the options and version 2 before the pings: flags that say that there are none.
        let mut earlier = front[..front.len() - 2].to_vec();
        earlier[0] = 1;
        let length = u32::try_from(earlier.len() - 6).expect("short");
        earlier[2..6].copy_from_slice(&length.to_le_bytes());
        let envelope = crate::Envelope { front: earlier.into(), ..sealed };
        assert_eq!(OsdBeacon::open(&envelope).expect("version 1"), silent);
        let took = |us| PingTook { average_us: us, least_us: us + 1, most_us: us + 2 };
        let ping = PingReport {
            osd: OsdId(4),
            is_front: true,
            one: took(1),
            five: took(5),
            fifteen: took(15),
            last_us: 9,
            answered_at: Utime { sec: 6, nsec: 7 },
        };
        let told = OsdBeacon { pings: Some(vec![ping]), ..silent };
        assert_eq!(OsdBeacon::open(&told.clone().seal(0, Target::PACIFIC)).expect("its own encoding"), told);
    }

    #[test]
    fn an_osd_of_earlier_software_tells_no_features() {
        let told = OsdBoot {
            fsid: Fsid([1; 16]),
            osd: OsdId(3),
            osd_uuid: Fsid([2; 16]),
            public_addrs: EntityAddrVec::default(),
            cluster_addrs: EntityAddrVec::default(),
            hb_back_addrs: EntityAddrVec::default(),
            hb_front_addrs: EntityAddrVec::default(),
            epoch: Epoch(9),
            weight: 0x1_0000,
            location: BTreeMap::new(),
            device_class: "ssd".to_owned(),
            metadata: BTreeMap::from([("hostname".to_owned(), "here".to_owned())]),
            features: osd_features::ALL,
        };
        let sealed = told.clone().seal(0, Target::PACIFIC);
        assert_eq!(OsdBoot::open(&sealed).expect("its own encoding"), told);
        assert_eq!(sealed.front[1], 1, "monitors of earlier software read it");
        // Version 1 ended before the features: eight bytes.
        let mut earlier = sealed.front[..sealed.front.len() - 8].to_vec();
        earlier[0] = 1;
        let length = u32::try_from(earlier.len() - 6).expect("short");
        earlier[2..6].copy_from_slice(&length.to_le_bytes());
        let envelope = crate::Envelope { front: earlier.into(), ..sealed };
        assert_eq!(OsdBoot::open(&envelope).expect("version 1"), OsdBoot { features: 0, ..told });
    }

    #[test]
    fn a_report_of_earlier_software_tells_no_complete_members() {
        let member = |osd, shard| PgShard { osd: OsdId(osd), shard };
        let told = PgReport {
            pgid: PgId::new(1, 5),
            acting: vec![OsdId(2), OsdId(0)],
            blocked_by: vec![OsdId(4)],
            complete: Some(vec![member(2, 0), member(0, 1)]),
            ..PgReport::default()
        };
        assert_eq!(PgReport::from_slice(&told.to_vec(Target::PACIFIC)).expect("its own encoding"), told);
        let silent = PgReport { complete: None, ..told };
        let bytes = silent.to_vec(Target::PACIFIC);
        // Version 4 ended before them: one flag that says that nothing is told.
        let mut earlier = bytes[..bytes.len() - 1].to_vec();
        earlier[0] = 4;
        let length = u32::try_from(earlier.len() - 6).expect("short");
        earlier[2..6].copy_from_slice(&length.to_le_bytes());
        assert_eq!(PgReport::from_slice(&earlier).expect("version 4"), silent);
    }

    #[test]
    fn an_activation_of_earlier_software_tells_no_basis() {
        let told = PgActivation {
            pgid: PgId::new(1, 5),
            interval_since: Epoch(9),
            acting: vec![OsdId(0), OsdId(1)],
            members: vec![OsdId(0)],
            recovered: true,
            member_shards: Vec::new(),
            basis: Some(Epoch(7)),
        };
        let bytes = told.to_vec(Target::PACIFIC);
        assert_eq!(PgActivation::from_slice(&bytes).expect("its own encoding"), told);
        // Version 3 ended before the basis: a flag and an epoch.
        let mut earlier = bytes[..bytes.len() - 5].to_vec();
        earlier[0] = 3;
        let length = u32::try_from(earlier.len() - 6).expect("short");
        earlier[2..6].copy_from_slice(&length.to_le_bytes());
        let told = PgActivation { basis: None, ..told };
        assert_eq!(PgActivation::from_slice(&earlier).expect("version 3"), told);
    }
}
