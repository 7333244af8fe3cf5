//! What one member has of a range of a group's objects.

use bytes::Bytes;
use types::ObjectId;
use wire::{Decode, DecodeError, Encode, Reader, Writer};

/// What one member has of one object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectScan {
    pub object: ObjectId,
    pub size_bytes: u64,
    /// The object information as it is kept; `None` if there is none.
    pub info: Option<Bytes>,
    /// crc32c over names and values of all other attributes.
    pub attrs_crc: u32,
    pub omap_keys: u64,
    pub omap_bytes: u64,
    /// crc32c over the omap's header, keys and values.
    pub omap_crc: u32,
    /// crc32c over the bytes, holes as zeros; `None` if they were not read.
    pub data_crc: Option<u32>,
    /// Why bytes could not be read.
    pub read_error: Option<String>,
    /// Why the metadata could not be read; what else is said here is then void.
    pub metadata_error: Option<String>,
}

impl ObjectScan {
    pub(crate) fn of(object: ObjectId) -> ObjectScan {
        ObjectScan {
            object,
            size_bytes: 0,
            info: None,
            attrs_crc: types::crc32c::SEED,
            omap_keys: 0,
            omap_bytes: 0,
            omap_crc: types::crc32c::SEED,
            data_crc: None,
            read_error: None,
            metadata_error: None,
        }
    }
}

impl Encode for ObjectScan {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.object);
            w.u64(self.size_bytes);
            w.put(&self.info);
            w.u32(self.attrs_crc);
            w.u64(self.omap_keys);
            w.u64(self.omap_bytes);
            w.u32(self.omap_crc);
            w.put(&self.data_crc);
            w.put(&self.read_error);
            w.put(&self.metadata_error);
        });
    }
}

impl Decode for ObjectScan {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<ObjectScan, DecodeError> {
        let (_, mut r) = r.versioned("scan of an object", 1)?;
        Ok(ObjectScan {
            object: r.get()?,
            size_bytes: r.u64()?,
            info: r.get::<Option<Bytes>>()?.map(|info| Bytes::copy_from_slice(&info)),
            attrs_crc: r.u32()?,
            omap_keys: r.u64()?,
            omap_bytes: r.u64()?,
            omap_crc: r.u32()?,
            data_crc: r.get()?,
            read_error: r.get()?,
            metadata_error: r.get()?,
        })
    }
}

/// What one member has of a range.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ScrubMap {
    /// Objects before this one were looked at; `None`: all of the range were.
    pub until: Option<ObjectId>,
    /// In their order.
    pub objects: Vec<ObjectScan>,
    /// Why the range could not be listed; nothing is then known of it.
    pub list_error: Option<String>,
}

impl Encode for ScrubMap {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.until);
            w.put(&self.objects);
            w.put(&self.list_error);
        });
    }
}

impl Decode for ScrubMap {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<ScrubMap, DecodeError> {
        let (_, mut r) = r.versioned("scrub map", 1)?;
        Ok(ScrubMap { until: r.get()?, objects: r.get()?, list_error: r.get()? })
    }
}
