//! Operations on one object, put together from parts.

use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use types::{Errno, Utime};
use wire::messages::op_data::{OmapKeysOutput, OmapValsOutput, StatOutput};
use wire::messages::{Op, OpFlags, XattrArgs, op_flag};
use wire::{Decode, Rope};

use crate::error::Error;
use crate::objecter::Reply;

/// Parts that take effect together or not at all, in order; the first that fails makes the whole fail.
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

/// How an attribute is compared with a value: `value OP attribute` must hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Comparison {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

impl Operation {
    pub fn new() -> Operation {
        Operation::default()
    }

    /// Any part, as the protocol has it.
    pub fn part(mut self, op: Op) -> Operation {
        self.ops.push(op);
        self
    }

    /// Lets the part before go wrong without making the whole fail. Panics if there is none.
    pub fn may_fail(mut self) -> Operation {
        self.ops.last_mut().expect("may_fail() behind a part").flags |= op_flag::FAILOK;
        self
    }

    /// Reads `length` bytes from `offset`; fewer at the object's end. Length 0 is everything.
    pub fn read(self, offset: u64, length: u64) -> Operation {
        self.part(Op::read(offset, length))
    }

    /// Size and time of change; fails if the object does not exist.
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

    pub fn write(self, offset: u64, data: impl Into<Bytes>) -> Operation {
        self.part(Op::write(offset, data.into()))
    }

    /// Replaces the whole content.
    pub fn write_full(self, data: impl Into<Bytes>) -> Operation {
        self.part(Op::write_full(data.into()))
    }

    pub fn append(self, data: impl Into<Bytes>) -> Operation {
        self.part(Op::append(data.into()))
    }

    /// Cuts, or extends with zeros.
    pub fn truncate(self, size: u64) -> Operation {
        self.part(Op::truncate(size))
    }

    /// Makes a range read as zeros; the object does not grow.
    pub fn zero(self, offset: u64, length: u64) -> Operation {
        self.part(Op::zero(offset, length))
    }

    /// Creates the object; where `exclusive`, fails if it exists.
    pub fn create(self, exclusive: bool) -> Operation {
        self.part(Op::create(exclusive))
    }

    /// Removes the object. An operation that does nothing else is also carried out on a full cluster.
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

    /// Fails with `ECANCELED` unless `value` compares so with the attribute; an absent one is empty.
    pub fn compare_xattr(self, name: impl AsRef<[u8]>, how: Comparison, value: impl AsRef<[u8]>) -> Operation {
        let code = match how {
            Comparison::Equal => XattrArgs::EQ,
            Comparison::NotEqual => XattrArgs::NE,
            Comparison::Greater => XattrArgs::GT,
            Comparison::GreaterOrEqual => XattrArgs::GTE,
            Comparison::Less => XattrArgs::LT,
            Comparison::LessOrEqual => XattrArgs::LTE,
        };
        self.part(Op::cmp_xattr(name.as_ref(), value.as_ref(), code))
    }

    /// Up to `max` keys behind `start_after`.
    pub fn omap_keys(self, start_after: impl Into<Bytes>, max: u64) -> Operation {
        self.part(Op::omap_get_keys(start_after.into(), max))
    }

    /// Up to `max` entries behind `start_after` whose keys begin with `prefix`.
    pub fn omap_entries(self, start_after: impl Into<Bytes>, max: u64, prefix: impl Into<Bytes>) -> Operation {
        self.part(Op::omap_get_vals(start_after.into(), max, prefix.into()))
    }

    /// The entries of these keys, as far as they exist.
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

    /// Removes all entries and the header.
    pub fn omap_clear(self) -> Operation {
        self.part(Op::omap_clear())
    }

    /// Runs a method of an object class that only looks.
    pub fn call(self, class: &str, method: &str, input: impl AsRef<[u8]>) -> Operation {
        self.part(Op::call_method(class, method, input.as_ref()))
    }

    /// Runs a method of an object class that may change the object.
    pub fn call_write(mut self, class: &str, method: &str, input: impl AsRef<[u8]>) -> Operation {
        self.flags = self.flags | OpFlags::WRITE;
        self.call(class, method, input)
    }

    /// Asks for what parts of a write give back, which is otherwise left out.
    pub fn with_results(mut self) -> Operation {
        self.flags = self.flags | OpFlags::RETURNVEC;
        self
    }

    /// Tells how large the object, and writes to it, are going to be.
    pub fn allocation_hint(self, object_bytes: u64, write_bytes: u64) -> Operation {
        self.part(Op::set_alloc_hint(object_bytes, write_bytes, 0)).may_fail()
    }

    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }
}

/// What an operation gave.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The object's version afterwards, which grows with each change.
    pub version: u64,
    parts: Vec<Part>,
}

/// What one part gave.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// 0 or above, or a negated error number for a part that might fail.
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

    /// The parts, in the order they were added.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The part at `index`; its own error, if it was allowed to fail.
    pub fn part(&self, index: usize) -> Result<&Part, Error> {
        let part = self.parts.get(index).ok_or_else(|| Error::Answer(format!("no part {index}")))?;
        match Errno::from_result(part.result) {
            Some(errno) => Err(errno.into()),
            None => Ok(part),
        }
    }

    /// Bytes that a read, an attribute, a header or a method gave.
    pub fn bytes(&self, index: usize) -> Result<Bytes, Error> {
        Ok(self.part(index)?.output.clone().into_bytes())
    }

    /// What a `stat` gave.
    pub fn stat(&self, index: usize) -> Result<ObjectStat, Error> {
        let StatOutput { size_bytes, mtime } = self.decode(index)?;
        Ok(ObjectStat { size_bytes, mtime })
    }

    /// Attributes by name, or entries of `omap_get`.
    pub fn map(&self, index: usize) -> Result<BTreeMap<Bytes, Bytes>, Error> {
        self.decode(index)
    }

    /// Keys, and whether there are more.
    pub fn keys(&self, index: usize) -> Result<(Vec<Bytes>, bool), Error> {
        let OmapKeysOutput { keys, truncated } = self.decode(index)?;
        Ok((keys, truncated))
    }

    /// Entries, and whether there are more.
    pub fn entries(&self, index: usize) -> Result<(Vec<(Bytes, Bytes)>, bool), Error> {
        let OmapValsOutput { entries, truncated } = self.decode(index)?;
        Ok((entries, truncated))
    }

    /// What a part gave, as a value of the protocol.
    pub fn decode<T: Decode>(&self, index: usize) -> Result<T, Error> {
        let bytes = self.bytes(index)?;
        Ok(T::decode(&mut wire::Reader::shared(&bytes))?)
    }
}
