//! What a placement group keeps about an object beside the object's bytes.

use bytes::Bytes;
use store::ObjectStat;
use types::{EVersion, ReqId, Utime};
use wire::{Decode, DecodeError, Encode, Reader, Target, Writer};

/// Name of the store attribute that holds an [`ObjectInfo`]. Clients' attributes carry [`USER_ATTR_PREFIX`], so the
/// two never meet.
pub const OBJECT_INFO_ATTR: &[u8] = b"oi";

/// First byte of the store names of clients' attributes.
pub const USER_ATTR_PREFIX: u8 = b'_';

/// The store's name for a client's attribute.
pub fn user_attr(name: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(name.len() + 1);
    stored.push(USER_ATTR_PREFIX);
    stored.extend_from_slice(name);
    stored
}

/// An object's version and times, kept as one of its attributes so that it moves with the object.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ObjectInfo {
    /// Version of the update that made the object what it is.
    pub version: EVersion,
    pub prior_version: EVersion,
    /// The version clients see and compare: grows with every change they make.
    pub user_version: u64,
    /// The request of that update.
    pub last_reqid: ReqId,
    /// The client's time of the last change.
    pub mtime: Utime,
    /// File-system clients order truncations by this counter.
    pub truncate_seq: u32,
    pub truncate_size: u64,
    /// Hints of the client about the object's future.
    pub expected_object_bytes: u64,
    pub expected_write_bytes: u64,
    pub alloc_hint_flags: u32,
    /// Of an object of an erasure-coded pool, of which each store has a shard only: how long the object is.
    pub size_bytes: Option<u64>,
}

impl ObjectInfo {
    /// The object information among `stat`'s attributes.
    ///
    /// Errors: what is stored is not one; the object is then damaged.
    pub fn of(stat: &ObjectStat) -> Result<ObjectInfo, DecodeError> {
        match stat.attrs.get(OBJECT_INFO_ATTR) {
            Some(bytes) => ObjectInfo::from_slice(bytes),
            None => Err(DecodeError::Short { needed: 6, left: 0 }),
        }
    }

    pub fn to_bytes(&self) -> Bytes {
        self.to_vec(Target::default()).into()
    }
}

impl Encode for ObjectInfo {
    fn encode(&self, w: &mut Writer) {
        // Version 2 adds the size: where the store knows it, the information is as it was.
        w.versioned(1 + u8::from(self.size_bytes.is_some()), 1, |w| {
            w.put(&self.version);
            w.put(&self.prior_version);
            w.u64(self.user_version);
            w.put(&self.last_reqid);
            w.put(&self.mtime);
            w.u32(self.truncate_seq);
            w.u64(self.truncate_size);
            w.u64(self.expected_object_bytes);
            w.u64(self.expected_write_bytes);
            w.u32(self.alloc_hint_flags);
            if let Some(size) = self.size_bytes {
                w.u64(size);
            }
        });
    }
}

impl Decode for ObjectInfo {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<ObjectInfo, DecodeError> {
        let (version, mut r) = r.versioned("object information", 2)?;
        Ok(ObjectInfo {
            version: r.get()?,
            prior_version: r.get()?,
            user_version: r.u64()?,
            last_reqid: r.get()?,
            mtime: r.get()?,
            truncate_seq: r.u32()?,
            truncate_size: r.u64()?,
            expected_object_bytes: r.u64()?,
            expected_write_bytes: r.u64()?,
            alloc_hint_flags: r.u32()?,
            size_bytes: if version.version >= 2 { Some(r.u64()?) } else { None },
        })
    }
}
