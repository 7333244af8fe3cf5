//! The object that a method is given.

use bytes::Bytes;
use std::collections::BTreeMap;
use types::{EntityName, Errno, Utime};
use wire::{Decode, DecodeError, Encode, EntityAddr, Target, Writer};

/// The caller of a method.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    pub name: EntityName,
    pub addr: EntityAddr,
}

/// An object's size in bytes, and the time of its last change by a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stat {
    pub size: u64,
    pub mtime: Utime,
}

/// The reason why a method ends early.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// A read has to wait; the method is run again after it.
    Pending,
    /// The method failed, and the operation with it. The client gets the output all the same.
    Failed { errno: Errno, output: Bytes },
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Stop {
        Stop::Failed { errno, output: Bytes::new() }
    }
}

/// Malformed input is EINVAL.
impl From<DecodeError> for Stop {
    fn from(_: DecodeError) -> Stop {
        Errno::EINVAL.into()
    }
}

/// The result of a method that succeeds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Output {
    /// 0 or positive.
    pub value: i32,
    pub data: Bytes,
}

impl Output {
    /// Success without output.
    pub(crate) fn none() -> Output {
        Output::default()
    }

    /// Success, with the output that `encode` writes.
    pub(crate) fn of(encode: impl FnOnce(&mut Writer)) -> Output {
        let mut w = Writer::new(Target::default());
        encode(&mut w);
        Output { value: 0, data: w.into_vec().into() }
    }
}

/// An object as a class method sees it. Reads see the object as it was before the operation that the call is part of;
/// writes are collected and take effect with the rest of that operation.
///
/// Errors of all methods: [`Stop::Pending`] if a read has to wait; EIO if the object is damaged.
pub trait Object {
    fn caller(&self) -> Caller;
    /// Time of day of this OSD.
    fn now(&self) -> Utime;
    /// A text that is unique among calls of methods on this object, and that grows with time.
    fn update_id(&self) -> String;
    /// A number that cannot be guessed. A method that is run again may get another one.
    fn random(&mut self) -> u64;
    /// The newest snapshot that the object has been written under; 0 if there is none, or if the object is absent.
    fn snap_seq(&self) -> u64;
    /// `None` if the object is absent. Earlier steps of the operation count.
    fn stat(&mut self) -> Result<Option<Stat>, Stop>;

    /// The bytes `offset .. offset + len`, clipped to the object's size; up to its end if `len` is 0. Empty for an
    /// absent object.
    fn read(&mut self, offset: u64, len: u64) -> Result<Bytes, Stop>;
    /// A client's attribute. ENOENT if the object is absent.
    fn attr(&mut self, name: &str) -> Result<Option<Bytes>, Stop>;
    /// All of a client's attributes. ENOENT if the object is absent.
    fn attrs(&mut self) -> Result<BTreeMap<Bytes, Bytes>, Stop>;
    fn omap_header(&mut self) -> Result<Bytes, Stop>;
    fn omap_get(&mut self, key: &[u8]) -> Result<Option<Bytes>, Stop>;
    /// At most `max` entries after `after` that begin with `prefix`; true if there are more.
    fn omap_list(&mut self, after: &[u8], prefix: &[u8], max: usize) -> Result<(Vec<(Bytes, Bytes)>, bool), Stop>;

    /// Creates the object. EEXIST if `exclusive` and the object exists.
    fn create(&mut self, exclusive: bool) -> Result<(), Stop>;
    /// Removes the object. ENOENT if it is absent.
    fn remove(&mut self) -> Result<(), Stop>;
    fn write(&mut self, offset: u64, data: Bytes) -> Result<(), Stop>;
    fn write_full(&mut self, data: Bytes) -> Result<(), Stop>;
    fn truncate(&mut self, size: u64) -> Result<(), Stop>;
    fn zero(&mut self, offset: u64, len: u64) -> Result<(), Stop>;
    fn set_attr(&mut self, name: &str, value: Bytes) -> Result<(), Stop>;
    fn remove_attr(&mut self, name: &str) -> Result<(), Stop>;
    fn omap_set(&mut self, entries: Vec<(Bytes, Bytes)>) -> Result<(), Stop>;
    fn omap_remove(&mut self, keys: Vec<Bytes>) -> Result<(), Stop>;
    /// Removes the entries from `from` up to, but not including, `to`.
    fn omap_remove_range(&mut self, from: Bytes, to: Bytes) -> Result<(), Stop>;
    fn omap_set_header(&mut self, header: Bytes) -> Result<(), Stop>;
}

/// Decodes a stored value. EIO if that fails.
pub(crate) fn decode_stored<T: Decode>(bytes: &[u8]) -> Result<T, Stop> {
    T::from_slice(bytes).map_err(|_| Errno::EIO.into())
}

pub(crate) fn encoded(value: &(impl Encode + ?Sized)) -> Bytes {
    value.to_vec(Target::default()).into()
}

impl dyn Object + '_ {
    pub(crate) fn exists(&mut self) -> Result<bool, Stop> {
        Ok(self.stat()?.is_some())
    }

    pub(crate) fn must_exist(&mut self) -> Result<Stat, Stop> {
        self.stat()?.ok_or_else(|| Errno::ENOENT.into())
    }

    /// The value that the omap has at `key`.
    pub(crate) fn value<T: Decode>(&mut self, key: impl AsRef<[u8]>) -> Result<Option<T>, Stop> {
        self.omap_get(key.as_ref())?.map(|bytes| decode_stored(&bytes)).transpose()
    }

    /// The value that the omap has at `key`. ENOENT if there is none.
    pub(crate) fn must_have<T: Decode>(&mut self, key: impl AsRef<[u8]>) -> Result<T, Stop> {
        self.value(key)?.ok_or_else(|| Errno::ENOENT.into())
    }

    pub(crate) fn set_value(&mut self, key: impl AsRef<[u8]>, value: &(impl Encode + ?Sized)) -> Result<(), Stop> {
        self.omap_set(vec![(Bytes::copy_from_slice(key.as_ref()), encoded(value))])
    }

    pub(crate) fn remove_value(&mut self, key: impl AsRef<[u8]>) -> Result<(), Stop> {
        self.omap_remove(vec![Bytes::copy_from_slice(key.as_ref())])
    }

    /// All entries that begin with `prefix`.
    pub(crate) fn all_values(&mut self, prefix: &[u8]) -> Result<Vec<(Bytes, Bytes)>, Stop> {
        const PAGE: usize = 256;
        let (mut entries, mut more) = self.omap_list(b"", prefix, PAGE)?;
        while more {
            let last = entries.last().expect("where more follow there is one").0.clone();
            let (page, has_more) = self.omap_list(&last, prefix, PAGE)?;
            entries.extend(page);
            more = has_more;
        }
        Ok(entries)
    }
}
