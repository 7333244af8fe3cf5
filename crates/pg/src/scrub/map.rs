//! One member's copies of a range of a group's objects, as a scrub reads them.

use crate::coded::fingerprint::Fingerprints;
use bytes::Bytes;
use std::collections::BTreeMap;
use types::ObjectId;
use wire::{Decode, DecodeError, Encode, Reader, Writer};

/// One member's copy of one object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectScan {
    pub object: ObjectId,
    pub size_bytes: u64,
    /// The object information as it is kept; `None` if there is none.
    pub info: Option<Bytes>,
    /// crc32c over names and values of all other attributes.
    pub attrs_crc: u32,
    /// All other attributes, by their names; `None` if they are too large to be sent, or come from an OSD that sends
    /// none.
    pub attrs: Option<BTreeMap<Bytes, Bytes>>,
    pub omap_keys: u64,
    pub omap_bytes: u64,
    /// crc32c over the omap's header, keys and values.
    pub omap_crc: u32,
    /// The omap's digest as object information has it ([`crate::group::digests`]); `None` of an OSD that computes none.
    pub omap_digest: Option<u32>,
    /// crc32c over the bytes, holes as zeros; `None` if they were not read.
    pub data_crc: Option<u32>,
    /// Fingerprints of a shard's bytes; `None` of whole copies, if the bytes were not read, and of an OSD that makes
    /// none.
    pub fingerprints: Option<Fingerprints>,
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
            attrs: Some(BTreeMap::new()),
            omap_keys: 0,
            omap_bytes: 0,
            omap_crc: types::crc32c::SEED,
            omap_digest: None,
            data_crc: None,
            fingerprints: None,
            read_error: None,
            metadata_error: None,
        }
    }

    /// Returns the bytes of the attributes that the scan has with it.
    pub fn attr_bytes(&self) -> usize {
        self.attrs.iter().flatten().map(|(name, value)| name.len() + value.len()).sum()
    }
}

/// Versions of the encoding of [`ObjectScan`]. Each has all fields of those before it.
mod form {
    /// Ends with the damage of the metadata.
    pub const PLAIN: u8 = 1;
    /// Adds the attributes.
    pub const ATTRS: u8 = 2;
    /// Adds the omap's digest.
    pub const OMAP_DIGEST: u8 = 3;
    /// Adds fingerprints of shards.
    pub const FINGERPRINTS: u8 = 4;
}

impl Encode for ObjectScan {
    fn encode(&self, w: &mut Writer) {
        w.versioned(form::FINGERPRINTS, form::PLAIN, |w| {
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
            w.put(&self.attrs);
            w.put(&self.omap_digest);
            w.put(&self.fingerprints);
        });
    }
}

impl Decode for ObjectScan {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<ObjectScan, DecodeError> {
        let (head, mut r) = r.versioned("scan of an object", form::FINGERPRINTS)?;
        let scan = ObjectScan {
            object: r.get()?,
            size_bytes: r.u64()?,
            info: r.get::<Option<Bytes>>()?.map(|info| Bytes::copy_from_slice(&info)),
            attrs_crc: r.u32()?,
            attrs: None,
            omap_keys: r.u64()?,
            omap_bytes: r.u64()?,
            omap_crc: r.u32()?,
            omap_digest: None,
            data_crc: r.get()?,
            fingerprints: None,
            read_error: r.get()?,
            metadata_error: r.get()?,
        };
        let own = |bytes: Bytes| Bytes::copy_from_slice(&bytes);
        let attrs: Option<BTreeMap<Bytes, Bytes>> = if head.version >= form::ATTRS { r.get()? } else { None };
        let attrs = attrs.map(|attrs| attrs.into_iter().map(|(name, value)| (own(name), own(value))).collect());
        let omap_digest = if head.version >= form::OMAP_DIGEST { r.get()? } else { None };
        let fingerprints = if head.version >= form::FINGERPRINTS { r.get()? } else { None };
        Ok(ObjectScan { attrs, omap_digest, fingerprints, ..scan })
    }
}

/// One member's copies of a range of objects.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ScrubMap {
    /// Objects before this one were looked at; `None`: all of the range were.
    pub until: Option<ObjectId>,
    /// Objects of the range, in their order.
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

#[cfg(test)]
mod tests {
    use super::*;
    use types::PoolId;
    use wire::Target;

    fn scan() -> ObjectScan {
        let attrs = [("_a", "1"), ("_b", "")].map(|(name, value)| (Bytes::from(name), Bytes::from(value)));
        ObjectScan {
            size_bytes: 5,
            info: Some(Bytes::from_static(b"info")),
            attrs_crc: 7,
            attrs: Some(attrs.into()),
            omap_digest: Some(8),
            data_crc: Some(9),
            fingerprints: Some(Fingerprints::default()),
            ..ObjectScan::of(ObjectId::head(PoolId(1), 3, b"", b"o"))
        }
    }

    #[test]
    fn scans_read_back() {
        for scan in [scan(), ObjectScan { attrs: None, ..scan() }] {
            assert_eq!(ObjectScan::from_slice(&scan.to_vec(Target::default())), Ok(scan));
        }
    }

    #[test]
    fn an_osd_that_sends_no_attributes_is_understood() {
        let whole = scan();
        let mut w = Writer::new(Target::default());
        w.versioned(1, 1, |w| {
            w.put(&whole.object);
            w.u64(whole.size_bytes);
            w.put(&whole.info);
            w.u32(whole.attrs_crc);
            w.u64(whole.omap_keys);
            w.u64(whole.omap_bytes);
            w.u32(whole.omap_crc);
            w.put(&whole.data_crc);
            w.put(&whole.read_error);
            w.put(&whole.metadata_error);
        });
        let old = w.into_vec();
        assert_eq!(
            ObjectScan::from_slice(&old),
            Ok(ObjectScan { attrs: None, omap_digest: None, fingerprints: None, ..whole.clone() })
        );
        // An OSD of the old version reads what it knows of a newer one's, and passes over what follows.
        let new = whole.to_vec(Target::default());
        let mut r = Reader::new(&new);
        let (head, _) = r.versioned("scan of an object", 1).unwrap();
        assert_eq!((head.version, &new[6..old.len()]), (4, &old[6..]));
    }
}
