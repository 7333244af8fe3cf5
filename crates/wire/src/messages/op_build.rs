//! Construction of parts of operations, as clients send them.

use super::op::to_rope;
use super::op_data::{CopyFromInput, NotifyAckInput, NotifyInput, OmapCmp, OmapGetKeys, OmapGetVals, OmapRmKeyRange};
use super::{AllocHint, Call, Checksum, CopyFrom, Extent, Op, OpArgs, OpCode, Watch, WriteSame, XattrArgs, op_flag};
use crate::basic::Locator;
use crate::{Encode, Rope, Target};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use types::{ObjectId, SnapId};

fn extent(offset: u64, length: u64) -> OpArgs {
    OpArgs::Extent(Extent { offset, length, truncate_size: 0, truncate_seq: 0 })
}

/// An omap operation: its arguments hold the length of its input.
fn omap(code: OpCode, input: &(impl Encode + ?Sized)) -> Op {
    let indata = to_rope(input);
    Op::new(code, extent(0, indata.len() as u64), indata)
}

fn xattr(code: OpCode, name: &[u8], value: &[u8], cmp_op: u8, cmp_mode: u8) -> Op {
    let len = |bytes: &[u8]| u32::try_from(bytes.len()).expect("attribute fits 32 bits");
    let args = XattrArgs { name_len: len(name), value_len: len(value), cmp_op, cmp_mode };
    Op::new(code, OpArgs::Xattr(args), [name, value].concat())
}

impl Op {
    /// Reads a range; `length` 0 reads the whole object.
    pub fn read(offset: u64, length: u64) -> Op {
        Op::new(OpCode::READ, extent(offset, length), Rope::new())
    }

    pub fn sparse_read(offset: u64, length: u64) -> Op {
        Op::new(OpCode::SPARSE_READ, extent(offset, length), Rope::new())
    }

    pub fn stat() -> Op {
        Op::new(OpCode::STAT, OpArgs::None, Rope::new())
    }

    pub fn write(offset: u64, data: impl Into<Rope>) -> Op {
        let data = data.into();
        Op::new(OpCode::WRITE, extent(offset, data.len() as u64), data)
    }

    pub fn write_full(data: impl Into<Rope>) -> Op {
        let data = data.into();
        Op::new(OpCode::WRITEFULL, extent(0, data.len() as u64), data)
    }

    pub fn append(data: impl Into<Rope>) -> Op {
        let data = data.into();
        Op::new(OpCode::APPEND, extent(0, data.len() as u64), data)
    }

    pub fn truncate(size: u64) -> Op {
        Op::new(OpCode::TRUNCATE, extent(size, 0), Rope::new())
    }

    pub fn zero(offset: u64, length: u64) -> Op {
        Op::new(OpCode::ZERO, extent(offset, length), Rope::new())
    }

    /// Creates the object; if `exclusive`, fails where it exists.
    pub fn create(exclusive: bool) -> Op {
        let flags = if exclusive { op_flag::EXCL } else { 0 };
        Op::new(OpCode::CREATE, OpArgs::None, Rope::new()).with_flags(flags)
    }

    pub fn delete() -> Op {
        Op::new(OpCode::DELETE, OpArgs::None, Rope::new())
    }

    pub fn get_xattr(name: &[u8]) -> Op {
        xattr(OpCode::GETXATTR, name, &[], 0, 0)
    }

    pub fn get_xattrs() -> Op {
        Op::new(OpCode::GETXATTRS, OpArgs::None, Rope::new())
    }

    pub fn set_xattr(name: &[u8], value: &[u8]) -> Op {
        xattr(OpCode::SETXATTR, name, value, 0, 0)
    }

    pub fn rm_xattr(name: &[u8]) -> Op {
        xattr(OpCode::RMXATTR, name, &[], 0, 0)
    }

    /// Fails unless `value` compares so with the attribute; `cmp_op` is [`XattrArgs::EQ`] or another comparison.
    pub fn cmp_xattr(name: &[u8], value: &[u8], cmp_op: u8) -> Op {
        xattr(OpCode::CMPXATTR, name, value, cmp_op, XattrArgs::MODE_STRING)
    }

    /// Lists at most `max` keys after `start_after`.
    pub fn omap_get_keys(start_after: Bytes, max: u64) -> Op {
        omap(OpCode::OMAPGETKEYS, &OmapGetKeys { start_after, max })
    }

    /// Lists at most `max` keys and values after `start_after`, of keys that begin with `prefix`.
    pub fn omap_get_vals(start_after: Bytes, max: u64, prefix: Bytes) -> Op {
        omap(OpCode::OMAPGETVALS, &OmapGetVals { start_after, max, prefix })
    }

    pub fn omap_get_vals_by_keys(keys: &BTreeSet<Bytes>) -> Op {
        omap(OpCode::OMAPGETVALSBYKEYS, keys)
    }

    pub fn omap_get_header() -> Op {
        Op::new(OpCode::OMAPGETHEADER, OpArgs::None, Rope::new())
    }

    pub fn omap_set_vals(entries: &BTreeMap<Bytes, Bytes>) -> Op {
        omap(OpCode::OMAPSETVALS, entries)
    }

    pub fn omap_set_header(header: Bytes) -> Op {
        Op::new(OpCode::OMAPSETHEADER, extent(0, header.len() as u64), header)
    }

    pub fn omap_rm_keys(keys: &BTreeSet<Bytes>) -> Op {
        omap(OpCode::OMAPRMKEYS, keys)
    }

    pub fn omap_rm_key_range(begin: Bytes, end: Bytes) -> Op {
        omap(OpCode::OMAPRMKEYRANGE, &OmapRmKeyRange { begin, end })
    }

    pub fn omap_clear() -> Op {
        Op::new(OpCode::OMAPCLEAR, OpArgs::None, Rope::new())
    }

    /// Runs `class.method`. Panics if either name is longer than 255 bytes.
    pub fn call_method(class: &str, method: &str, input: &[u8]) -> Op {
        let args = Call {
            class_len: class.len().try_into().expect("class name is short"),
            method_len: method.len().try_into().expect("method name is short"),
            argc: 0,
            indata_len: u32::try_from(input.len()).expect("input fits 32 bits"),
            output_len: 0,
        };
        Op::new(OpCode::CALL, OpArgs::Call(args), [class.as_bytes(), method.as_bytes(), input].concat())
    }

    /// Lists at most `count` objects of the placement group, from `cursor` on.
    pub fn pg_nls(cursor: &ObjectId, count: u64, start_epoch: u32) -> Op {
        Op::new(OpCode::PGNLS, OpArgs::PgLs { count, start_epoch }, to_rope(cursor))
    }

    /// Gives a hint, which may fail without harm.
    pub fn set_alloc_hint(expected_object_size: u64, expected_write_size: u64, flags: u32) -> Op {
        let hint = AllocHint { expected_object_size, expected_write_size, flags };
        Op::new(OpCode::SETALLOCHINT, OpArgs::AllocHint(hint), Rope::new()).with_flags(op_flag::FAILOK)
    }

    /// Fails unless `version` is the object's version as users see it.
    pub fn assert_version(version: u64) -> Op {
        Op::new(OpCode::ASSERT_VER, OpArgs::AssertVersion { version }, Rope::new())
    }

    /// Changes or checks a watch. `what` is [`Watch::UNWATCH`] or another of its constants; a timeout of 0 is the OSD's
    /// default.
    pub fn watch(cookie: u64, what: u8, timeout_s: u32) -> Op {
        let args = Watch { cookie, op: what, timeout_s, ..Watch::default() };
        Op::new(OpCode::WATCH, OpArgs::Watch(args), Rope::new())
    }

    /// True for a ping of a watch, which checks that the watch exists and changes nothing.
    pub fn is_ping(&self) -> bool {
        matches!(self.args, OpArgs::Watch(Watch { op: Watch::PING, .. }))
    }

    /// Notifies an object's watchers; the message that ends the notification repeats `cookie`.
    pub fn notify(cookie: u64, timeout_s: u32, payload: Bytes) -> Op {
        let input = NotifyInput { version: 1, timeout_s, payload };
        Op::new(OpCode::NOTIFY, OpArgs::Notify { cookie }, to_rope(&input))
    }

    /// A watcher's answer to a notification.
    pub fn notify_ack(notify_id: u64, cookie: u64, reply: Bytes) -> Op {
        let input = NotifyAckInput { notify_id, cookie, reply: Some(reply) };
        Op::new(OpCode::NOTIFY_ACK, OpArgs::None, to_rope(&input))
    }

    /// Lists all states of an object: the operation must be at [`SnapId::DIR`].
    pub fn list_snaps() -> Op {
        Op::new(OpCode::LIST_SNAPS, OpArgs::None, Rope::new())
    }

    /// Computes checksums of a range from the seed -1; `kind` is [`Checksum::CRC32C`] or another kind.
    pub fn checksum(kind: u8, offset: u64, length: u64, chunk_size: u32) -> Op {
        let args = Checksum { offset, length, chunk_size, kind };
        let seed_bytes = if kind == Checksum::XXHASH64 { 8 } else { 4 };
        Op::new(OpCode::CHECKSUM, OpArgs::Checksum(args), vec![0xff; seed_bytes])
    }

    /// Fails unless the object has these bytes at `offset`.
    pub fn cmp_ext(offset: u64, data: impl Into<Rope>) -> Op {
        let data = data.into();
        Op::new(OpCode::CMPEXT, extent(offset, data.len() as u64), data)
    }

    /// Repeats `data` over `length` bytes.
    pub fn write_same(offset: u64, length: u64, data: impl Into<Rope>) -> Op {
        let data = data.into();
        let args = WriteSame { offset, length, data_length: data.len() as u64 };
        Op::new(OpCode::WRITESAME, OpArgs::WriteSame(args), data)
    }

    /// Fails unless `value` compares so with the attribute as a number; `cmp_op` is [`XattrArgs::EQ`] or another
    /// comparison.
    pub fn cmp_xattr_u64(name: &[u8], value: u64, cmp_op: u8) -> Op {
        xattr(OpCode::CMPXATTR, name, &value.to_le_bytes(), cmp_op, XattrArgs::MODE_U64)
    }

    /// Fails unless a key's value compares so with `value`.
    pub fn omap_cmp(key: Bytes, value: Bytes, cmp_op: u8) -> Op {
        omap(OpCode::OMAP_CMP, &OmapCmp { assertions: BTreeMap::from([(key, (value, cmp_op.into()))]) })
    }

    pub fn list_watchers() -> Op {
        Op::new(OpCode::LIST_WATCHERS, OpArgs::None, Rope::new())
    }

    /// Restores the object's state of snapshot `snap`.
    pub fn rollback(snap: SnapId) -> Op {
        Op::new(OpCode::ROLLBACK, OpArgs::Snap(snap), Rope::new())
    }

    /// Copies another object's content within the cluster.
    pub fn copy_from(name: Bytes, locator: Locator, snap: SnapId, src_version: u64) -> Op {
        let args = CopyFrom { snap, src_version, flags: 0, src_fadvise_flags: 0 };
        let input = CopyFromInput { name, locator }.to_vec(Target::default());
        Op::new(OpCode::COPY_FROM, OpArgs::CopyFrom(args), input)
    }
}
