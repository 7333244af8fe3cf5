//! Messages of a running Ceph and its clients, decoded and encoded again to the same bytes.

use crate::fixture;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use types::{Errno, ObjectId, SnapId};
use wire::messages::listing::{ObjectListing, SnapListing, Watchers};
use wire::messages::op_data::{
    CopyFromInput, NotifyAckInput, NotifyInput, OmapCmp, OmapGetKeys, OmapGetVals, OmapKeysOutput, OmapRmKeyRange,
    OmapValsOutput, SparseReadOutput, StatOutput,
};
use wire::messages::{self as msg, NotifyReplies, Op, OpArgs, OpCode, OpFlags, OsdOp, OsdOpReply};
use wire::{Decode, Encode, Envelope, Message, Rope, Target};

fn fixture(name: &str) -> Envelope {
    let found = fixture::all().into_iter().find(|fixture| fixture.name == name);
    found.unwrap_or_else(|| panic!("{name} was not recorded")).envelope
}

#[test]
fn recorded_messages_are_written_again_to_the_same_bytes() {
    let all = fixture::all();
    assert!(all.len() > 130, "only {} recordings", all.len());
    for fixture in all {
        let again = fixture::reencode(&fixture.envelope).unwrap_or_else(|error| panic!("{}: {error}", fixture.name));
        assert_eq!(again.front, fixture.envelope.front, "front of {}", fixture.name);
        assert_eq!(again.data.to_vec(), fixture.envelope.data.to_vec(), "payload of {}", fixture.name);
        let versions = |envelope: &Envelope| (envelope.header.version, envelope.header.compat_version);
        assert_eq!(versions(&again), versions(&fixture.envelope), "versions of {}", fixture.name);
    }
}

#[track_caller]
fn same<T: Encode + Decode>(what: &str, bytes: &Rope) {
    let bytes = bytes.clone().into_bytes();
    let value = T::from_slice(&bytes).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(value.to_vec(Target::PACIFIC), bytes, "{what}");
}

#[test]
fn inputs_and_outputs_are_written_again_to_the_same_bytes() {
    let mut codes = BTreeSet::new();
    for fixture in fixture::all() {
        match fixture.envelope.header.kind {
            OsdOp::TYPE => {
                for op in OsdOp::open(&fixture.envelope).expect("checked above").ops {
                    check_input(&fixture.name, &op);
                    codes.insert(op.code);
                }
            }
            OsdOpReply::TYPE => {
                for op in OsdOpReply::open(&fixture.envelope).expect("checked above").ops {
                    if op.result >= 0 && !op.outdata.is_empty() {
                        check_output(&fixture.name, op.code, &op.outdata);
                    }
                }
            }
            _ => {}
        }
    }
    assert!(codes.len() >= 35, "only {} kinds of operations: {codes:?}", codes.len());
}

fn check_input(name: &str, op: &Op) {
    assert!(!matches!(op.args, OpArgs::Raw(_)), "{name}: {op:?} has arguments that are not understood");
    let input = &op.indata;
    match op.code {
        OpCode::OMAPGETKEYS => same::<OmapGetKeys>(name, input),
        OpCode::OMAPGETVALS => same::<OmapGetVals>(name, input),
        OpCode::OMAPGETVALSBYKEYS | OpCode::OMAPRMKEYS => same::<BTreeSet<Bytes>>(name, input),
        OpCode::OMAPSETVALS => same::<BTreeMap<Bytes, Bytes>>(name, input),
        OpCode::OMAPRMKEYRANGE => same::<OmapRmKeyRange>(name, input),
        OpCode::OMAP_CMP => same::<OmapCmp>(name, input),
        OpCode::NOTIFY => same::<NotifyInput>(name, input),
        OpCode::NOTIFY_ACK => same::<NotifyAckInput>(name, input),
        OpCode::COPY_FROM => same::<CopyFromInput>(name, input),
        OpCode::PGNLS => same::<ObjectId>(name, input),
        OpCode::SETXATTR | OpCode::GETXATTR | OpCode::RMXATTR | OpCode::CMPXATTR => {
            let (attr, value) = op.xattr().expect("name and value");
            assert_eq!(attr.len() + value.len(), input.len(), "{name}");
        }
        OpCode::CALL => {
            let (class, method, argument) = op.call().expect("class and method");
            assert_eq!(class.len() + method.len() + argument.len(), input.len(), "{name}");
            assert!(class.is_ascii() && method.is_ascii(), "{name}");
        }
        OpCode::WRITE | OpCode::WRITEFULL | OpCode::APPEND | OpCode::OMAPSETHEADER | OpCode::CMPEXT => {
            assert_eq!(op.args.extent().expect("a range").length, input.len() as u64, "{name}");
        }
        OpCode::WRITESAME | OpCode::CHECKSUM => assert!(!input.is_empty(), "{name}"),
        _ => assert!(input.is_empty(), "{name}: {op:?} has an input that is not understood"),
    }
}

fn check_output(name: &str, code: OpCode, output: &Rope) {
    match code {
        OpCode::STAT => same::<StatOutput>(name, output),
        OpCode::SPARSE_READ => same::<SparseReadOutput>(name, output),
        OpCode::OMAPGETKEYS => same::<OmapKeysOutput>(name, output),
        OpCode::OMAPGETVALS => same::<OmapValsOutput>(name, output),
        OpCode::OMAPGETVALSBYKEYS | OpCode::GETXATTRS => same::<BTreeMap<Bytes, Bytes>>(name, output),
        OpCode::PGNLS => same::<ObjectListing>(name, output),
        OpCode::LIST_WATCHERS => same::<Watchers>(name, output),
        OpCode::LIST_SNAPS => same::<SnapListing>(name, output),
        OpCode::NOTIFY => same::<u64>(name, output),
        OpCode::READ | OpCode::GETXATTR | OpCode::OMAPGETHEADER | OpCode::CALL | OpCode::CHECKSUM => {}
        other => panic!("{name}: {other} has an output that is not understood"),
    }
}

#[test]
fn operations_made_here_are_those_of_librados() {
    #[track_caller]
    fn check(name: &str, ops: Vec<Op>) {
        let mut recorded = OsdOp::open(&fixture(name)).expect("decodes");
        let expected = recorded.clone().seal(1, Target::PACIFIC);
        recorded.ops = ops;
        let made = recorded.seal(1, Target::PACIFIC);
        assert_eq!((made.front, made.data.to_vec()), (expected.front, expected.data.to_vec()), "{name}");
    }
    let text = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    check("osd_op-stat", vec![Op::stat()]);
    check("osd_op-omap_get_vals", vec![Op::omap_get_vals(Bytes::new(), 1024, Bytes::new())]);
    check("osd_op-omap_clear", vec![Op::omap_clear()]);
    check("osd_op-getxattr", vec![Op::get_xattr(b"attr")]);
    check("osd_op-setxattr", vec![Op::set_xattr(b"attr", b"value")]);
    check("osd_op-getxattrs", vec![Op::get_xattrs()]);
    check("osd_op-omap_set_header", vec![Op::omap_set_header(text("header"))]);
    check("osd_op-omap_rm_keys", vec![Op::omap_rm_keys(&[text("key")].into())]);
    check(
        "osd_op-zero-write-append-truncate-rmxattr-omap_rm_keys-omap_rm_key_range",
        vec![
            Op::zero(3, 1),
            Op::write(2, text("w")),
            Op::append(text("e")),
            Op::truncate(6),
            Op::rm_xattr(b"x"),
            Op::omap_rm_keys(&[text("k1")].into()),
            Op::omap_rm_key_range(text("k2"), text("k3")),
        ],
    );
    check("osd_op-writefull-setxattr", vec![Op::write_full(text("compound")), Op::set_xattr(b"x", b"y")]);
    let cmpxattr = msg::XattrArgs::EQ;
    check(
        "osd_op-cmpxattr-stat-set_alloc_hint-zero",
        vec![Op::cmp_xattr(b"n", b"v", cmpxattr), Op::stat(), Op::set_alloc_hint(4096, 4096, 1), Op::zero(16, 16)],
    );
}

#[test]
fn a_recorded_write_reads_as_what_it_was() {
    let op = OsdOp::open(&fixture("osd_op-writefull")).expect("decodes");
    assert_eq!((&op.name[..], op.flags.0), (&b"obj"[..], 0x40_0024));
    assert_eq!((op.snap, op.retry_attempt, op.client_inc), (SnapId::HEAD, 0, 0));
    assert!(op.may_write() && !op.may_read());
    assert_eq!(op.ops[0].indata.to_vec(), b"some bytes of an object\n");
    let id = op.object_id();
    assert_eq!((id.pool, &id.name[..], id.hash), (op.pgid.pg.pool, &b"obj"[..], op.raw_hash));
    assert!(op.to_string().contains("[writefull 0~24 in=24b] ondisk+write+known_if_redirected"), "{op}");
}

#[test]
fn the_answer_made_for_a_request_is_the_one_ceph_made() {
    let mut checked = 0;
    for fixture in fixture::all() {
        let Some(name) = fixture.name.strip_prefix("osd_op_reply-") else { continue };
        let reply = OsdOpReply::open(&fixture.envelope).expect("decodes");
        let mut request = msg::OsdOp::new(
            wire::basic::SPgId::replicated(reply.pgid),
            0,
            reply.epoch,
            wire::basic::Locator::pool(reply.pgid.pool),
            reply.name.clone(),
            reply
                .ops
                .iter()
                .map(|op| Op { code: op.code, flags: op.flags, args: op.args, indata: Rope::new() })
                .collect(),
        );
        request.flags = reply.flags.without(OpFlags::ACK | OpFlags::ONDISK) | OpFlags::ONDISK;
        request.retry_attempt = reply.retry_attempt;
        // An OSD refuses an operation on a missing object before executing it; a deletion is executed and fails.
        let refused = reply.result == Errno::ENOENT.as_result() && name != "delete-error";
        let mut made = match refused {
            true => OsdOpReply::refusing(&request, Errno::ENOENT, reply.epoch),
            false => OsdOpReply::to(&request, reply.result, reply.epoch),
        };
        for (made, recorded) in made.ops.iter_mut().zip(&reply.ops) {
            (made.result, made.outdata) = (recorded.result, recorded.outdata.clone());
        }
        made.set_versions(reply.replay_version, reply.user_version);
        assert_eq!(made, reply, "{name}");
        checked += 1;
    }
    assert!(checked >= 59, "only {checked} answers");
}

#[test]
fn a_recorded_notification_completes() {
    let message = msg::WatchNotify::open(&fixture("watch_notify")).expect("decodes");
    match message.op {
        msg::WatchNotifyOp::NotifyComplete => same::<NotifyReplies>("watch_notify", &message.replies),
        _ => assert!(message.replies.is_empty()),
    }
}
