//! Operations on one object, put together from parts.

use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use types::{Errno, SnapId, Utime};
use wire::messages::op_data::{OmapKeysOutput, OmapValsOutput, SparseReadOutput, StatOutput};
use wire::messages::{Checksum, Op, OpFlags, XattrArgs, op_flag};
use wire::{Decode, Rope};

use crate::error::Error;
use crate::objecter::Reply;
use crate::pool::Pool;

/// Parts of one operation, carried out in order and all or none: the first part that fails makes the whole fail.
///
/// ```
/// # use client::Operation;
/// let op = Operation::new().create(true).write_full("hello").set_xattr("lang", "en");
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Operation {
    pub(crate) ops: Vec<Op>,
    pub(crate) flags: OpFlags,
}

/// Comparison of a value with an attribute: `value OP attribute` must hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Comparison {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

impl Comparison {
    fn code(self) -> u8 {
        match self {
            Comparison::Equal => XattrArgs::EQ,
            Comparison::NotEqual => XattrArgs::NE,
            Comparison::Greater => XattrArgs::GT,
            Comparison::GreaterOrEqual => XattrArgs::GTE,
            Comparison::Less => XattrArgs::LT,
            Comparison::LessOrEqual => XattrArgs::LTE,
        }
    }
}

/// Checksums that OSDs compute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChecksumKind {
    Xxhash32 = Checksum::XXHASH32 as isize,
    Xxhash64 = Checksum::XXHASH64 as isize,
    Crc32c = Checksum::CRC32C as isize,
}

impl Operation {
    pub fn new() -> Operation {
        Operation::default()
    }

    /// Adds any part of the protocol.
    pub fn part(mut self, op: Op) -> Operation {
        self.ops.push(op);
        self
    }

    /// Lets the last part added fail without making the whole fail. Panics if there is none.
    pub fn may_fail(mut self) -> Operation {
        self.ops.last_mut().expect("may_fail() behind a part").flags |= op_flag::FAILOK;
        self
    }

    /// Reads `length` bytes from `offset`; fewer at the object's end. Length 0 reads everything.
    pub fn read(self, offset: u64, length: u64) -> Operation {
        self.part(Op::read(offset, length))
    }

    /// Reads only the ranges that have data; [`Outcome::extents`] tells the ranges.
    pub fn sparse_read(self, offset: u64, length: u64) -> Operation {
        self.part(Op::sparse_read(offset, length))
    }

    /// Computes checksums of a range, one for each `chunk_bytes` of it (0: one for all), from the seed -1. Length and
    /// offset 0 stand for the whole object.
    pub fn checksum(self, kind: ChecksumKind, offset: u64, length: u64, chunk_bytes: u32) -> Operation {
        self.part(Op::checksum(kind as u8, offset, length, chunk_bytes))
    }

    /// Fails unless the object has these bytes at `offset`; bytes beyond its end count as zeros. The error's number is
    /// 4095 plus the place of the first byte that differs.
    pub fn compare(self, offset: u64, data: impl Into<Rope>) -> Operation {
        self.part(Op::cmp_ext(offset, data.into()))
    }

    /// Lists the watchers of the object.
    pub fn list_watchers(self) -> Operation {
        self.part(Op::list_watchers())
    }

    /// Lists all states of the object; must be asked at [`types::SnapId::DIR`].
    pub fn list_snapshots(self) -> Operation {
        self.part(Op::list_snaps())
    }

    /// Gives size and time of change; fails if the object does not exist.
    pub fn stat(self) -> Operation {
        self.part(Op::stat())
    }

    /// Fails if the object does not exist.
    pub fn assert_exists(self) -> Operation {
        self.stat()
    }

    /// Fails unless the object's version is this one.
    pub fn assert_version(self, version: u64) -> Operation {
        self.part(Op::assert_version(version))
    }

    pub fn write(self, offset: u64, data: impl Into<Rope>) -> Operation {
        self.part(Op::write(offset, data.into()))
    }

    /// Replaces the whole content.
    pub fn write_full(self, data: impl Into<Rope>) -> Operation {
        self.part(Op::write_full(data.into()))
    }

    /// Writes `length` bytes that repeat `data`, whose length must divide it.
    pub fn write_same(self, offset: u64, length: u64, data: impl Into<Rope>) -> Operation {
        self.part(Op::write_same(offset, length, data.into()))
    }

    /// Restores the object's state of a snapshot.
    pub fn roll_back(self, snap: SnapId) -> Operation {
        self.part(Op::rollback(snap))
    }

    /// Copies another object of the same cluster, or its state in a snapshot, within the cluster. The source's version
    /// must be `version`. Errors: `ERANGE`, `EOVERFLOW` if it is not.
    pub fn copy_from(self, source: &Pool, name: impl Into<Bytes>, version: u64) -> Operation {
        self.part(Op::copy_from(name.into(), source.locator().clone(), source.snap, version))
    }

    pub fn append(self, data: impl Into<Rope>) -> Operation {
        self.part(Op::append(data.into()))
    }

    /// Truncates the object, or extends it with zeros.
    pub fn truncate(self, size: u64) -> Operation {
        self.part(Op::truncate(size))
    }

    /// Makes a range read as zeros; the object does not grow.
    pub fn zero(self, offset: u64, length: u64) -> Operation {
        self.part(Op::zero(offset, length))
    }

    /// Creates the object; if `exclusive`, fails where it exists.
    pub fn create(self, exclusive: bool) -> Operation {
        self.part(Op::create(exclusive))
    }

    /// Removes the object. An operation of removals alone is also carried out on a full cluster.
    pub fn remove(self) -> Operation {
        self.part(Op::delete())
    }

    pub fn get_xattr(self, name: impl AsRef<[u8]>) -> Operation {
        self.part(Op::get_xattr(name.as_ref()))
    }

    pub fn get_xattrs(self) -> Operation {
        self.part(Op::get_xattrs())
    }

    pub fn set_xattr(self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Operation {
        self.part(Op::set_xattr(name.as_ref(), value.as_ref()))
    }

    pub fn remove_xattr(self, name: impl AsRef<[u8]>) -> Operation {
        self.part(Op::rm_xattr(name.as_ref()))
    }

    /// Fails with `ECANCELED` unless `value` compares so with the attribute; an absent attribute counts as empty.
    pub fn compare_xattr(self, name: impl AsRef<[u8]>, how: Comparison, value: impl AsRef<[u8]>) -> Operation {
        self.part(Op::cmp_xattr(name.as_ref(), value.as_ref(), how.code()))
    }

    /// Fails with `ECANCELED` unless `value` compares so with the attribute, read as decimal digits; an absent
    /// attribute counts as 0.
    pub fn compare_xattr_number(self, name: impl AsRef<[u8]>, how: Comparison, value: u64) -> Operation {
        self.part(Op::cmp_xattr_u64(name.as_ref(), value, how.code()))
    }

    /// Lists up to `max` keys after `start_after`.
    pub fn omap_keys(self, start_after: impl Into<Bytes>, max: u64) -> Operation {
        self.part(Op::omap_get_keys(start_after.into(), max))
    }

    /// Lists up to `max` entries after `start_after` whose keys begin with `prefix`.
    pub fn omap_entries(self, start_after: impl Into<Bytes>, max: u64, prefix: impl Into<Bytes>) -> Operation {
        self.part(Op::omap_get_vals(start_after.into(), max, prefix.into()))
    }

    /// Gets the entries of these keys, as far as they exist.
    pub fn omap_get(self, keys: &BTreeSet<Bytes>) -> Operation {
        self.part(Op::omap_get_vals_by_keys(keys))
    }

    pub fn omap_header(self) -> Operation {
        self.part(Op::omap_get_header())
    }

    pub fn omap_set(self, entries: &BTreeMap<Bytes, Bytes>) -> Operation {
        self.part(Op::omap_set_vals(entries))
    }

    pub fn omap_set_header(self, header: impl Into<Bytes>) -> Operation {
        self.part(Op::omap_set_header(header.into()))
    }

    pub fn omap_remove(self, keys: &BTreeSet<Bytes>) -> Operation {
        self.part(Op::omap_rm_keys(keys))
    }

    /// Removes the keys from `begin` up to, and without, `end`.
    pub fn omap_remove_range(self, begin: impl Into<Bytes>, end: impl Into<Bytes>) -> Operation {
        self.part(Op::omap_rm_key_range(begin.into(), end.into()))
    }

    /// Fails with `ECANCELED` unless the value of a key compares so with `value`. OSDs know only [`Comparison::Equal`],
    /// [`Comparison::Greater`] and [`Comparison::Less`] here.
    pub fn omap_compare(self, key: impl Into<Bytes>, how: Comparison, value: impl Into<Bytes>) -> Operation {
        self.part(Op::omap_cmp(key.into(), value.into(), how.code()))
    }

    /// Removes all entries and the header.
    pub fn omap_clear(self) -> Operation {
        self.part(Op::omap_clear())
    }

    /// Runs a read-only method of an object class.
    pub fn call(self, class: &str, method: &str, input: impl AsRef<[u8]>) -> Operation {
        self.part(Op::call_method(class, method, input.as_ref()))
    }

    /// Runs a method of an object class that may change the object.
    pub fn call_write(mut self, class: &str, method: &str, input: impl AsRef<[u8]>) -> Operation {
        self.flags = self.flags | OpFlags::WRITE;
        self.call(class, method, input)
    }

    /// Asks for the output of the parts of a write, which OSDs leave out otherwise.
    pub fn with_results(mut self) -> Operation {
        self.flags = self.flags | OpFlags::RETURNVEC;
        self
    }

    /// Tells the expected sizes of the object and of writes to it.
    pub fn allocation_hint(self, object_bytes: u64, write_bytes: u64) -> Operation {
        self.part(Op::set_alloc_hint(object_bytes, write_bytes, 0)).may_fail()
    }

    /// Makes the operation fail with `ENOSPC` or `EDQUOT` where it would otherwise wait until the cluster or the pool
    /// has room.
    pub fn full_try(mut self) -> Operation {
        self.flags = self.flags | OpFlags::FULL_TRY;
        self
    }

    /// Lets any member of the object's placement group answer the reads, not the primary alone. The answer is not older
    /// than the moment when the operation was submitted, but updates submitted earlier and not answered yet may be
    /// missing from it.
    pub fn from_any_member(mut self) -> Operation {
        self.flags = self.flags | OpFlags::BALANCE_READS;
        self
    }

    /// Makes reads wait for earlier updates of the object.
    pub fn ordered(mut self) -> Operation {
        self.flags = self.flags | OpFlags::RWORDERED;
        self
    }

    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }
}

/// The outcome of an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The object's version after the operation; it grows with each change.
    pub version: u64,
    parts: Vec<Part>,
}

/// The outcome of one part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// 0 or above, or a negated error number for a part that was allowed to fail.
    pub result: i32,
    pub output: Rope,
}

/// Size and time of change of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ObjectStat {
    pub size_bytes: u64,
    pub mtime: Utime,
}

impl Outcome {
    pub(crate) fn of(reply: Reply) -> Result<Outcome, Error> {
        if let Some(errno) = reply.error() {
            return Err(errno.into());
        }
        let parts = reply.parts.into_iter().map(|part| Part { result: part.result, output: part.outdata });
        Ok(Outcome { version: reply.version, parts: parts.collect() })
    }

    /// The parts, in the order in which they were added.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The part at `index`. Errors: the part's own error, if it was allowed to fail.
    pub fn part(&self, index: usize) -> Result<&Part, Error> {
        let part = self.parts.get(index).ok_or_else(|| Error::Answer(format!("no part {index}")))?;
        match Errno::from_result(part.result) {
            Some(errno) => Err(errno.into()),
            None => Ok(part),
        }
    }

    /// Output of a read, an attribute, a header or a class method.
    pub fn bytes(&self, index: usize) -> Result<Bytes, Error> {
        Ok(self.part(index)?.output.clone().into_bytes())
    }

    /// Ranges that a sparse read found (offset to length), and their bytes one after the other.
    pub fn extents(&self, index: usize) -> Result<(BTreeMap<u64, u64>, Bytes), Error> {
        let SparseReadOutput { extents, data } = self.decode(index)?;
        Ok((extents, data))
    }

    /// Output of a checksum of 32 bits.
    pub fn checksums(&self, index: usize) -> Result<Vec<u32>, Error> {
        self.decode(index)
    }

    /// Output of a `stat`.
    pub fn stat(&self, index: usize) -> Result<ObjectStat, Error> {
        let StatOutput { size_bytes, mtime } = self.decode(index)?;
        Ok(ObjectStat { size_bytes, mtime })
    }

    /// Attributes by name, or entries of `omap_get`.
    pub fn map(&self, index: usize) -> Result<BTreeMap<Bytes, Bytes>, Error> {
        self.decode(index)
    }

    /// Keys; true if there are more.
    pub fn keys(&self, index: usize) -> Result<(Vec<Bytes>, bool), Error> {
        let OmapKeysOutput { keys, truncated } = self.decode(index)?;
        Ok((keys, truncated))
    }

    /// Entries; true if there are more.
    pub fn entries(&self, index: usize) -> Result<(Vec<(Bytes, Bytes)>, bool), Error> {
        let OmapValsOutput { entries, truncated } = self.decode(index)?;
        Ok((entries, truncated))
    }

    /// Output of a part, decoded as a value of the protocol.
    pub fn decode<T: Decode>(&self, index: usize) -> Result<T, Error> {
        let bytes = self.bytes(index)?;
        Ok(T::decode(&mut wire::Reader::shared(&bytes))?)
    }
}
