//! Decoders against invalid input, and values against their encodings.

use crate::fixture;
use bytes::Bytes;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use types::{EVersion, EntityName, EntityType, Epoch, Errno, Fsid, ObjectId, PgId, PoolId, ReqId, SnapId, Utime};
use wire::basic::{AuthName, EntityInst, IntervalSet, Locator, PgShard, SPgId, SnapContext, StoredObjectId};
use wire::messages::listing::{CloneInfo, ObjectListing, OldObjectListing, SnapListing, Watcher, Watchers};
use wire::messages::op_data::*;
use wire::messages::{
    CompatSet, FsMap, GetConfig, LogEntry, MgrMap, MonGetOsdMap, MonSubscribe, MonSubscribeAck, NotifyReplies,
    ObjectStats, Op, OpArgs, OpCode, OpFlags, OpReply, OsdOp, OsdOpReply, Ping, PoolOpReply, PoolStat, Redirect,
    Service, ServiceDaemon, ServiceMap, Statfs, StoreStatfs, Subscription, Trace,
};
use wire::{Decode, DecodeError, Encode, EntityAddr, EntityAddrVec, Envelope, Message, Rope, Target};

/// Checks that bytes that decode are a value whose own encoding decodes to the same encoding.
fn decode_is_stable<T: Encode + Decode>(bytes: &[u8]) {
    let Ok(value) = T::from_slice(bytes) else { return };
    let encoded = value.to_vec(Target::PACIFIC);
    let again = T::from_slice(&encoded).unwrap_or_else(|error| panic!("own encoding does not decode: {error}"));
    assert_eq!(again.to_vec(Target::PACIFIC), encoded);
}

macro_rules! every_type {
    ($run:ident, $bytes:expr) => {
        $run! { $bytes;
            AuthName EntityName EntityAddr EntityAddrVec EntityInst Errno EVersion Utime Fsid PgId SPgId PgShard ReqId
            SnapContext IntervalSet Locator ObjectId StoredObjectId Redirect Trace Subscription NotifyReplies
            ObjectListing OldObjectListing Watcher Watchers CloneInfo SnapListing
            ObjectStats StoreStatfs PoolStat LogEntry CompatSet FsMap ServiceMap Service ServiceDaemon
            StatOutput SparseReadOutput OmapGetKeys OmapKeysOutput OmapGetVals OmapValsOutput OmapRmKeyRange OmapCmp
            NotifyInput NotifyAckInput CopyFromInput CopyFrom2Input FilteredListInput
        }
    };
}

macro_rules! run_all {
    ($bytes:expr; $($ty:ident)*) => { $(decode_is_stable::<$ty>($bytes);)* };
}

macro_rules! min_bytes_all {
    ($bytes:expr; $($ty:ident)*) => {
        $(
            // No shorter input may decode: otherwise `MIN_BYTES` would refuse a correct count.
            for len in 0..$ty::MIN_BYTES {
                assert!($ty::from_slice(&$bytes[..len]).is_err(), "{} of {len} bytes", stringify!($ty));
            }
        )*
    };
}

fn message_is_stable(envelope: &Envelope) {
    let Ok(once) = fixture::reencode(envelope) else { return };
    let twice = fixture::reencode(&once).unwrap_or_else(|error| panic!("own encoding does not decode: {error}"));
    assert_eq!((&twice.front, twice.data.to_vec()), (&once.front, once.data.to_vec()));
}

#[test]
fn least_sizes_are_not_above_what_decodes() {
    for fill in [0u8, 1, 2, 5] {
        let bytes = [fill; 128];
        every_type!(min_bytes_all, bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn any_bytes_decode_to_a_value_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        every_type!(run_all, &bytes);
    }

    /// Headers of versioned blocks are correct more often here, so that decoders get further.
    #[test]
    fn any_blocks_decode_to_a_value_or_an_error(
        version in 1u8..9, compat in 1u8..6, body in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..200)
    ) {
        let mut bytes = vec![version, compat];
        bytes.extend((body.len() as u32).to_le_bytes());
        bytes.extend(body);
        every_type!(run_all, &bytes);
    }

    #[test]
    fn any_message_opens_or_is_refused(
        kind in prop::sample::select(&fixture::KINDS[..]),
        version in 0u16..11,
        front in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..300),
        data in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        message_is_stable(&fixture::envelope(kind, version, front, data));
    }

    #[test]
    fn recorded_messages_with_faults_open_or_are_refused(
        which: prop::sample::Index,
        faults in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
        data_cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        thread_local!(static ALL: Vec<fixture::Fixture> = fixture::all());
        let original = ALL.with(|all| which.get(all).envelope.clone());
        let (mut front, mut data) = (original.front[..].to_vec(), original.data.to_vec());
        if !front.is_empty() {
            for (at, value) in faults {
                *at.get_mut(&mut front) = value;
            }
            if let Some(cut) = cut {
                front.truncate(cut.index(front.len()));
            }
        }
        if let Some(cut) = data_cut.filter(|_| !data.is_empty()) {
            data.truncate(cut.index(data.len()));
        }
        message_is_stable(&Envelope { front: front.into(), data: data.into(), ..original });
    }

    #[test]
    fn operations_read_back(op in osd_op(), tid: u64) {
        let envelope = op.clone().seal(tid, Target::PACIFIC);
        prop_assert_eq!(envelope.header.tid, tid);
        prop_assert_eq!(envelope.data.len(), op.input_bytes());
        prop_assert_eq!(contiguous(OsdOp::open(&envelope).unwrap()), contiguous(op));
    }

    #[test]
    fn answers_read_back(reply in osd_reply(), tid: u64) {
        let mut read = OsdOpReply::open(&reply.clone().seal(tid, Target::PACIFIC)).unwrap();
        let mut reply = reply;
        for op in read.ops.iter_mut().chain(&mut reply.ops) {
            op.outdata = op.outdata.clone().into_bytes().into();
        }
        prop_assert_eq!(read, reply);
    }
}

/// The operation with each input in one piece: the division of a payload into pieces is not part of its value.
fn contiguous(mut op: OsdOp) -> OsdOp {
    for op in &mut op.ops {
        op.indata = op.indata.clone().into_bytes().into();
    }
    op
}

fn short() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..12).prop_map(Bytes::from)
}

fn rope() -> impl Strategy<Value = Rope> {
    prop::collection::vec(short(), 0..4).prop_map(Rope::from_iter)
}

fn part() -> impl Strategy<Value = Op> {
    let keys = || prop::collection::btree_set(short(), 0..4);
    prop_oneof![
        (any::<u64>(), any::<u64>()).prop_map(|(offset, length)| Op::read(offset, length)),
        (any::<u64>(), rope()).prop_map(|(offset, data)| Op::write(offset, data)),
        rope().prop_map(Op::write_full),
        (short(), short()).prop_map(|(name, value)| Op::set_xattr(&name, &value)),
        (short(), short(), 1u8..7).prop_map(|(name, value, op)| Op::cmp_xattr(&name, &value, op)),
        keys().prop_map(|keys: BTreeSet<Bytes>| Op::omap_rm_keys(&keys)),
        prop::collection::btree_map(short(), short(), 0..4)
            .prop_map(|entries: BTreeMap<Bytes, Bytes>| Op::omap_set_vals(&entries)),
        short().prop_map(|input| Op::call_method("rbd", "get_id", &input)),
        any::<bool>().prop_map(Op::create),
        any::<u64>().prop_map(Op::assert_version),
        any::<u64>().prop_map(|snap| Op::rollback(SnapId(snap))),
        (any::<u64>(), any::<u64>(), any::<u32>()).prop_map(|(a, b, c)| Op::set_alloc_hint(a, b, c)),
        Just(Op::stat()),
        Just(Op::delete()),
        (any::<[u8; 28]>(), rope()).prop_map(|(mut args, input)| {
            args[0] |= 1;
            Op::new(OpCode(0x1fff), OpArgs::Raw(args), input)
        }),
    ]
}

fn pg() -> impl Strategy<Value = SPgId> {
    (any::<i64>(), any::<u32>(), any::<i8>()).prop_map(|(pool, seed, shard)| SPgId { pg: PgId::new(pool, seed), shard })
}

fn stamp() -> impl Strategy<Value = Utime> {
    (any::<u32>(), any::<u32>()).prop_map(|(sec, nsec)| Utime { sec, nsec })
}

prop_compose! {
    fn osd_op()(
        pgid in pg(), raw_hash: u32, epoch: u32, flags: u32, client_inc: u32, mtime in stamp(), name in short(),
        nspace in short(), key in short(), ops in prop::collection::vec(part(), 0..5),
        snaps in prop::collection::vec(any::<u64>(), 0..3), retry_attempt: i32, features: u64, tids: (u64, i64, i64),
    ) -> OsdOp {
        let locator = Locator { key, nspace, ..Locator::pool(pgid.pg.pool) };
        OsdOp {
            flags: OpFlags(flags),
            reqid: ReqId { name: EntityName::client(7), tid: tids.0, inc: 3 },
            trace: Trace { trace_id: tids.1, span_id: tids.2, parent_span_id: 0 },
            client_inc,
            mtime,
            snap: SnapId(snaps.first().copied().unwrap_or(SnapId::HEAD.0)),
            snap_seq: SnapId(9),
            snaps: snaps.into_iter().map(SnapId).collect(),
            retry_attempt,
            features,
            ..OsdOp::new(pgid, raw_hash, Epoch(epoch), locator, name, ops)
        }
    }
}

prop_compose! {
    fn osd_reply()(
        request in osd_op(), result: i32, results in prop::collection::vec((any::<i32>(), rope()), 5),
        version: (u32, u64, u64), redirect in prop::option::of(short()),
    ) -> OsdOpReply {
        let mut reply = OsdOpReply::to(&request, result, Epoch(4));
        reply.set_versions(EVersion::new(version.0, version.1), version.2);
        reply.redirect = redirect.map(|name| Redirect { locator: request.locator.clone(), name });
        for (op, (result, outdata)) in reply.ops.iter_mut().zip(results) {
            *op = OpReply { result, outdata, ..op.clone() };
        }
        reply
    }
}

fn write_of(data: &Bytes) -> OsdOp {
    let pgid = SPgId::replicated(PgId::new(1, 2));
    let ops = vec![Op::write(0, data.slice(..8)), Op::stat(), Op::append(data.slice(8..))];
    OsdOp::new(pgid, 2, Epoch(3), Locator::pool(PoolId(1)), Bytes::from_static(b"name"), ops)
}

#[test]
fn inputs_and_names_share_the_message_they_came_in() {
    let data = Bytes::from(vec![7u8; 20]);
    let mut envelope = write_of(&data).seal(1, Target::PACIFIC);
    envelope.data = data.clone().into();
    let op = OsdOp::open(&envelope).unwrap();
    let appended = op.ops[2].indata.pieces().next().unwrap();
    assert_eq!((appended.as_ptr(), appended.len()), (data[8..].as_ptr(), 12), "the payload is not copied");
    let front = envelope.front.as_ptr_range();
    assert!(front.contains(&op.name.as_ptr()), "the name is not copied");
}

#[test]
fn lengths_that_do_not_add_up_are_refused() {
    let data = Bytes::from(vec![7u8; 20]);
    let sealed = write_of(&data).seal(1, Target::PACIFIC);
    let with_data = |bytes: usize| OsdOp::open(&Envelope { data: vec![0; bytes].into(), ..sealed.clone() });
    assert!(with_data(20).is_ok());
    assert_eq!(with_data(19), Err(DecodeError::Short { needed: 12, left: 11 }));
    assert!(matches!(with_data(21), Err(DecodeError::Value { value: 1, .. })));
}

#[test]
fn squids_layout_of_operations_is_read_and_others_are_refused() {
    let op = write_of(&Bytes::from_static(b"twelve bytes"));
    let sealed = op.clone().seal(1, Target::PACIFIC);
    // The trace context follows placement, hash, epoch, flags, request id and trace ids.
    let at = 24 + 4 + 4 + 4 + 27 + 24;
    for context in [&[0u8][..], &[1; 26][..]] {
        let mut front = sealed.front[..at].to_vec();
        front.extend([1, 1]);
        front.extend((context.len() as u32).to_le_bytes());
        front.extend(context);
        front.extend(&sealed.front[at..]);
        let mut squid = Envelope { front: front.into(), ..sealed.clone() };
        squid.header.version = 9;
        assert_eq!(OsdOp::open(&squid), Ok(op.clone()));
    }
    for version in [0, 7, 10] {
        let mut other = sealed.clone();
        other.header.version = version;
        let refused = OsdOp::open(&other);
        assert!(matches!(refused, Err(DecodeError::Value { value, .. }) if value == u64::from(version)), "{refused:?}");
    }
    let mut too_new = sealed;
    too_new.header.compat_version = 9;
    assert!(matches!(OsdOp::open(&too_new), Err(DecodeError::TooNew { compat: 9, known: 8, .. })));
}

#[test]
fn subscriptions_of_old_clients_have_no_host() {
    let subscribe = MonSubscribe {
        what: BTreeMap::from([("osdmap".to_owned(), Subscription { start: 4, onetime: true })]),
        hostname: "host".to_owned(),
    };
    let mut envelope = subscribe.clone().seal(0, Target::PACIFIC);
    assert_eq!(MonSubscribe::open(&envelope), Ok(subscribe.clone()));
    envelope.header.version = 2;
    assert_eq!(MonSubscribe::open(&envelope).unwrap(), MonSubscribe { hostname: String::new(), ..subscribe });
}

/// Messages that a small cluster rarely sends.
#[test]
fn bytes_of_rare_messages_do_not_move() {
    #[track_caller]
    fn check<T: Message + PartialEq + std::fmt::Debug + Clone>(message: T, front: &str) {
        let sealed = message.clone().seal(5, Target::PACIFIC);
        let hex: String = sealed.front.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, front.replace(' ', ""));
        assert_eq!(T::open(&sealed), Ok(message));
    }
    let fsid = Fsid([0xab; 16]);
    let (head, fsid_hex) = ("0700000000000000 ffff 0000000000000000", "ab".repeat(16));
    let maps =
        MonGetOsdMap { have: 7, full_first: Epoch(1), full_last: Epoch(2), inc_first: Epoch(3), inc_last: Epoch(4) };
    check(maps, &format!("{head} 01000000 02000000 03000000 04000000"));
    check(MonSubscribeAck { interval_s: 300, fsid }, &format!("2c010000 {fsid_hex}"));
    let config =
        GetConfig { name: AuthName::new(EntityType::OSD, "3"), host: "h".to_owned(), device_class: "ssd".to_owned() };
    check(config, "04000000 01000000 33 01000000 68 03000000 737364");
    check(MgrMap { map: Bytes::from_static(&[11, 6, 0, 0, 0, 0]) }, "0b06 00000000");
    check(Ping { status: Some("{}".to_owned()) }, "02000000 7b7d");
    let answer =
        PoolOpReply { version: 7, fsid, result: -17, epoch: Epoch(9), response: Some(Bytes::from_static(&[1; 8])) };
    check(answer, &format!("{head} {fsid_hex} efffffff 09000000 01 08000000 0101010101010101"));
    let statfs = Statfs { have: 7, fsid, pool: Some(PoolId(2)) };
    check(statfs, &format!("{head} {fsid_hex} 01 0200000000000000"));
}
