//! One sample, or several where it has several layouts, of every message between OSDs. No field has its default, where
//! that leaves a choice.

use crate::coded::fingerprint::{Fingerprinting, Fingerprints};
use crate::coded::skipped::Skipped;
use crate::coded::undo::Undo;
use crate::group::info::{PgInfo, PgStats};
use crate::group::log::{LogEntry, LogKind};
use crate::hops::MemberHops;
use crate::messages::coded::{
    OmapAfter, OmapPage, RollForward, ShardRead, ShardReadOutcome, ShardReadReply, StrayRead,
};
use crate::messages::healing::{
    PgBackfilled, PgObjects, PgPull, PgPush, PgPushAck, PgReleased, PgReserve, PgReserved, PgScan,
};
use crate::messages::lease::{LeaseGet, LeaseGrant, ReadShare, ReadShareGet, Share, ShareWish};
use crate::messages::peering::{
    Agreed, FoundCopy, MemberState, PgFound, PgInterrupted, PgLogEntries, PgLogGet, PgNotify, PgQuery, PgSought,
    PgStart, PgStarted, PgStrays, PgUnneeded,
};
use crate::messages::replication::{RepOp, RepOpReply};
use crate::messages::room::{RoomGet, RoomSeen, RoomTold};
use crate::messages::scrub::{ScrubBad, ScrubDone, ScrubGet, ScrubGot};
use crate::messages::{PeerMessage, PgInterval};
use crate::scrub::map::{ObjectScan, ScrubMap};
use crate::scrub::mark::{ScrubCursor, ScrubMark};
use bytes::Bytes;
use ec::ShardSet;
use store::Step;
use types::{EVersion, EntityName, Epoch, ObjectId, OsdId, PgId, PoolId, ReqId, SnapId, Utime};
use wire::Rope;
use wire::basic::{Locator, SPgId};
use wire::messages::{Op, OsdOp, OsdOpReply};

/// The group that samples are about.
pub(super) const PG: PgId = PgId::new(4, 5);

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn version(version: u64) -> EVersion {
    EVersion::new(6, version)
}

/// Samples whose objects are of one pool.
struct Samples {
    objects: PoolId,
}

impl Samples {
    fn object(&self, name: &str) -> ObjectId {
        ObjectId { key: b"key".to_vec(), snap: SnapId(9), ..ObjectId::head(self.objects, 77, b"ns", name.as_bytes()) }
    }

    fn info(&self) -> PgInfo {
        PgInfo {
            last_update: version(20),
            log_tail: version(10),
            last_epoch_started: Epoch(6),
            complete: true,
            last_backfill: Some(self.object("before")),
            created: Epoch(2),
            last_user_version: 19,
            stats: PgStats { objects: 5, clones: 1, bytes: 4096, write_ops: 7, write_kib: 8 },
            pg_num: 16,
            rolled_forward: version(18),
            own_in: Epoch(5),
            own_until: version(17),
            answered: version(19),
        }
    }

    fn entry(&self, number: u64, undo: Undo) -> LogEntry {
        LogEntry {
            version: version(number),
            kind: LogKind::Modify,
            object: self.object("entry"),
            prior_version: version(number - 1),
            reqid: ReqId { name: EntityName::client(4100), tid: 33, inc: 2 },
            user_version: number,
            mtime: Utime { sec: 1000, nsec: 17 },
            result: -2,
            op_results: vec![(-3, bytes("output"))],
            skipped: match undo {
                Undo::Nothing => Skipped::default(),
                _ => Skipped { shards: ShardSet::first(2), ..Skipped::default() },
            },
            voids: if undo == Undo::Lost { version(number - 3) } else { EVersion::ZERO },
            undo,
        }
    }

    fn entries(&self) -> Vec<LogEntry> {
        let restore =
            Undo::Restore { shard_bytes: 512, attrs: vec![(bytes("a"), Some(bytes("b"))), (bytes("c"), None)] };
        let undos = [Undo::Nothing, Undo::Created, restore, Undo::KeptBack, Undo::Lost];
        (11..).zip(undos).map(|(number, undo)| self.entry(number, undo)).collect()
    }

    fn steps(&self) -> Vec<Step> {
        let object = || self.object("o");
        vec![
            Step::Touch { object: object() },
            Step::Write { object: object(), offset: 5, data: Rope::from(vec![1, 2, 3]) },
            Step::Zero { object: object(), offset: 1, len: 2 },
            Step::Write { object: self.object("p"), offset: 0, data: Rope::from(vec![9; 40]) },
            Step::Truncate { object: object(), size: 4 },
            Step::Remove { object: object() },
            Step::SetAttr { object: object(), name: b"n".to_vec(), value: bytes("value") },
            Step::RemoveAttr { object: object(), name: b"n".to_vec() },
            Step::OmapSet { object: object(), entries: vec![(bytes("k"), bytes("v"))] },
            Step::OmapRemove { object: object(), keys: vec![bytes("k")] },
            Step::OmapRemoveRange { object: object(), begin: bytes("a"), end: bytes("z") },
            Step::OmapClear { object: object() },
            Step::OmapSetHeader { object: object(), header: bytes("h") },
            Step::Clone { from: object(), to: self.object("clone") },
            Step::CloneRange {
                source: object(),
                target: self.object("clone"),
                source_offset: 4096,
                length: 100,
                target_offset: 8192,
            },
        ]
    }

    fn state(&self) -> MemberState {
        MemberState { info: Some(self.info()), missing: [(self.object("missing"), version(15))].into() }
    }

    fn rep_op_that_adds(&self) -> RepOp {
        let added = Step::Xor { object: self.object("p"), offset: 4096, data: Rope::from(vec![7; 5]) };
        let written = Step::Write { object: self.object("o"), offset: 3, data: Rope::from(vec![6; 2]) };
        RepOp { steps: vec![added, written], ..self.rep_op(Vec::new(), false) }
    }

    fn rep_op(&self, others: Vec<LogEntry>, hops_wanted: bool) -> RepOp {
        RepOp {
            pg: pg(),
            entry: self.entry(20, Undo::Nothing),
            others,
            info: self.info(),
            committed: version(16),
            steps: self.steps(),
            hops_wanted,
        }
    }

    fn notify(&self, shares: &[(OsdId, u64)], strange: &[PgInterval]) -> PgNotify {
        PgNotify {
            groups: vec![(pg(), self.state())],
            unknown_promises: 3,
            promises: vec![(OsdId(2), 4)],
            shares: shares.to_vec(),
            strange: strange.to_vec(),
        }
    }

    fn push(&self) -> PgPush {
        PgPush {
            pg: pg(),
            object: self.object("pushed"),
            version: version(14),
            piece: 3,
            first: true,
            last: false,
            absent: true,
            size_bytes: 100,
            attrs: [(bytes("_"), bytes("info"))].into(),
            omap_header: bytes("header"),
            omap: vec![(bytes("key"), bytes("value"))],
            runs: vec![(3, 4), (50, 2)],
            data: Rope::from(vec![1, 2, 3, 4, 5, 6]),
            end_of_all: true,
        }
    }

    fn scan(&self) -> ObjectScan {
        ObjectScan {
            object: self.object("scanned"),
            size_bytes: 5,
            info: Some(bytes("info")),
            attrs_crc: 7,
            attrs: Some([(bytes("_a"), bytes("1"))].into()),
            omap_keys: 2,
            omap_bytes: 3,
            omap_crc: 8,
            omap_digest: Some(18),
            data_crc: Some(9),
            fingerprints: Some(fingerprints()),
            read_error: Some("read".into()),
            metadata_error: Some("metadata".into()),
        }
    }

    fn mark(&self) -> ScrubMark {
        ScrubMark {
            light_at: Utime { sec: 1, nsec: 2 },
            light_version: version(3),
            deep_at: Utime { sec: 4, nsec: 5 },
            deep_version: version(6),
            clean_at: Utime { sec: 7, nsec: 8 },
            shallow_errors: 9,
            deep_errors: 10,
            repaired: 11,
            omap_keys: 12,
            omap_bytes: 13,
            undecided: 19,
            large_omaps: 21,
            cursor: Some(ScrubCursor {
                next: self.object("next"),
                shallow_errors: 14,
                deep_errors: 15,
                omap_keys: 16,
                omap_bytes: 17,
                undecided: 20,
                large_omaps: 22,
            }),
        }
    }

    /// Samples about a group's updates and log.
    fn of_updates(&self) -> Vec<(&'static str, Sample)> {
        let hops = MemberHops { receive_us: 1, queue_us: 2, write_us: 3, flush_us: 4 };
        let durable = || vec![(pg(), version(20))];
        let (object, from) = (self.object("o"), self.object("from"));
        let entries = || self.entries();
        let log = PgLogEntries {
            pg: pg(),
            after: version(10),
            entries: entries(),
            info: self.info(),
            start_over: true,
            dups: vec![self.entry(9, Undo::Nothing)],
        };
        let missing = [(self.object("missing"), version(15))].into();
        vec![
            ("rep_op", sample(self.rep_op(Vec::new(), false))),
            ("rep_op, hops wanted", sample(self.rep_op(Vec::new(), true))),
            ("rep_op, other entries", sample(self.rep_op(vec![self.entry(19, Undo::Nothing)], true))),
            ("rep_op, other entries with undo", sample(self.rep_op(entries(), false))),
            ("rep_op, bytes added", sample(self.rep_op_that_adds())),
            ("rep_op_reply", sample(RepOpReply { durable: durable(), hops: Vec::new() })),
            ("rep_op_reply, hops", sample(RepOpReply { durable: durable(), hops: vec![((pg(), version(20)), hops)] })),
            ("pg_log_get", sample(PgLogGet { pg: pg(), since: version(12) })),
            ("pg_log", sample(log)),
            ("pg_start", sample(PgStart { pg: pg(), after: version(10), entries: entries(), info: self.info() })),
            ("pg_started", sample(PgStarted { pg: pg(), merged: true, missing })),
            ("pg_pull", sample(PgPull { pg: pg(), objects: vec![object.clone(), from.clone()], urgent: true })),
            ("pg_push", sample(self.push())),
            ("pg_push_ack", sample(PgPushAck { pg: pg(), object: Some(object.clone()), stored: true })),
            ("pg_scan", sample(PgScan { pg: pg(), from: from.clone() })),
            (
                "pg_objects",
                sample(PgObjects {
                    pg: pg(),
                    from: from.clone(),
                    objects: vec![(object.clone(), Some(version(3))), (self.object("torn"), None)],
                    end: Some(self.object("end")),
                }),
            ),
            ("pg_backfilled", sample(PgBackfilled { pg: pg(), before: object.clone() })),
            ("scrub_get", sample(ScrubGet { pg: pg(), round: 7, from, until: self.object("until"), deep: true })),
            (
                "scrub_got",
                sample(ScrubGot {
                    pg: pg(),
                    round: 7,
                    map: ScrubMap {
                        until: Some(self.object("until")),
                        objects: vec![self.scan()],
                        list_error: Some("list".into()),
                    },
                }),
            ),
            ("scrub_bad", sample(ScrubBad { pg: pg(), object, version: Some(version(5)) })),
            ("scrub_done", sample(ScrubDone { pg: pg(), mark: self.mark(), sound: true })),
        ]
    }

    /// Samples that name no object which the receiver has under another pool.
    fn of_others(&self) -> Vec<(&'static str, Sample)> {
        let (group, epoch) = (PG, Epoch(8));
        let agreed = Agreed { sets: vec![OsdId(4), OsdId(5)], pg_nums: Some((6, 7)) };
        let wish = ShareWish { pg: pg(), stamp: 77 };
        let share = Share { wish: wish.clone(), span: 5, committed: version(19) };
        let copy = FoundCopy { shard: Some(2), complete: true, last_epoch_started: Epoch(5), last_update: version(18) };
        let stray = self.object("stray");
        let omap_after = OmapAfter(Some(bytes("k")));
        let (version_3, object) = (version(3), stray);
        let stray =
            StrayRead { pg: pg(), read: 4, object, version: version_3, offset: 1, len: 2, attrs: true, omap_after };
        vec![
            ("pg_query", sample(PgQuery { epoch, groups: vec![(pg(), agreed)] })),
            ("pg_reserve", sample(PgReserve { pg: pg(), priority: 250 })),
            ("pg_reserved", sample(PgReserved { pg: pg(), granted: true })),
            ("pg_released", sample(PgReleased { pg: pg() })),
            ("pg_strays", sample(PgStrays { epoch, groups: vec![group] })),
            ("pg_unneeded", sample(PgUnneeded { epoch, groups: vec![group] })),
            ("pg_interrupted", sample(PgInterrupted { pg: pg() })),
            ("pg_sought", sample(PgSought { epoch, groups: vec![group] })),
            ("pg_found", sample(PgFound { epoch, groups: vec![(group, vec![copy])] })),
            ("lease_get", sample(LeaseGet { stamp: 78 })),
            ("lease_grant", sample(LeaseGrant { stamp: 78, epoch })),
            ("read_share_get", sample(ReadShareGet { wishes: vec![wish] })),
            ("read_share", sample(ReadShare { shares: vec![share] })),
            ("room_get", sample(RoomGet { epoch })),
            ("room_told", sample(RoomTold { bytes: 1 << 20, number: 6, epoch })),
            ("room_seen", sample(RoomSeen { number: 6 })),
            ("stray_read", sample(stray)),
            ("roll_forward", sample(RollForward { pg: pg(), committed: version(16) })),
        ]
    }

    /// Samples of what primaries and members of erasure-coded groups ask each other.
    fn of_shards(&self) -> Vec<(&'static str, Sample)> {
        let object = self.object("o");
        let (version_3, omap_after) = (version(3), OmapAfter(Some(bytes("k"))));
        let read =
            ShardRead { pg: pg(), read: 4, object, version: version_3, offset: 1, len: 2, attrs: true, omap_after };
        let page = OmapPage { header: bytes("h"), entries: vec![(bytes("l"), bytes("v"))], has_more: true };
        let reply = |outcome| ShardReadReply {
            pg: pg(),
            read: 4,
            outcome,
            attrs: [(bytes("_"), bytes("info"))].into(),
            omap: Some(page.clone()),
            data: Rope::from(vec![7, 8]),
        };
        vec![
            ("shard_read", sample(read)),
            ("shard_read_reply", sample(reply(ShardReadOutcome::Read))),
            ("shard_read_reply, absent", sample(reply(ShardReadOutcome::Absent))),
            ("shard_read_reply, bad", sample(reply(ShardReadOutcome::Bad))),
        ]
    }

    /// Samples about several groups, each of which may be known here under another pool.
    fn of_many_groups(&self) -> Vec<(&'static str, Sample)> {
        let (shares, strange) = ([(OsdId(3), 5)], [pg()]);
        vec![
            ("pg_info", sample(self.notify(&[], &[]))),
            ("pg_info, shares", sample(self.notify(&shares, &[]))),
            ("pg_info, strange", sample(self.notify(&[], &strange))),
            ("pg_info, shares, strange", sample(self.notify(&shares, &strange))),
        ]
    }
}

fn pg() -> PgInterval {
    PgInterval { pgid: PG, since: Epoch(6) }
}

type Sample = PeerMessage;

fn sample(message: impl Into<PeerMessage>) -> Sample {
    message.into()
}

/// Returns the messages that OSDs send each other as clients do.
fn as_clients() -> Vec<(&'static str, Sample)> {
    let pgid = SPgId { pg: PG, shard: 0 };
    let op = OsdOp::new(pgid, 0x1234, Epoch(5), Locator::default(), bytes("copied"), vec![Op::stat()]);
    let reply = OsdOpReply::to(&op, -2, Epoch(5));
    vec![("osd_op", sample(op)), ("osd_op_reply", sample(reply))]
}

fn fingerprints() -> Fingerprints {
    let mut prints = Fingerprinting::default();
    prints.add(0, &Rope::from("shard"));
    prints.finished()
}

/// Returns all samples by their names; `objects`: the pool that their objects are of.
pub(super) fn all(objects: PoolId) -> Vec<(&'static str, Sample)> {
    let samples = Samples { objects };
    let parts =
        [samples.of_updates(), samples.of_many_groups(), samples.of_shards(), samples.of_others(), as_clients()];
    parts.into_iter().flatten().collect()
}
