//! Integers, texts and containers.

use super::{Decode, DecodeError, Encode, Reader, Writer};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

macro_rules! integers {
    ($($ty:ident)*) => {
        $(
            impl Encode for $ty {
                fn encode(&self, w: &mut Writer) { w.$ty(*self) }
            }
            impl Decode for $ty {
                const MIN_BYTES: usize = size_of::<$ty>();
                fn decode(r: &mut Reader<'_>) -> Result<$ty, DecodeError> { r.$ty() }
            }
        )*
    };
}

integers! { u8 u16 u32 u64 i8 i16 i32 i64 f32 f64 }

impl Encode for bool {
    fn encode(&self, w: &mut Writer) {
        w.bool(*self);
    }
}

impl Decode for bool {
    fn decode(r: &mut Reader<'_>) -> Result<bool, DecodeError> {
        r.bool()
    }
}

impl Encode for str {
    fn encode(&self, w: &mut Writer) {
        w.str(self);
    }
}

impl Encode for String {
    fn encode(&self, w: &mut Writer) {
        w.str(self);
    }
}

impl Decode for String {
    const MIN_BYTES: usize = 4;

    fn decode(r: &mut Reader<'_>) -> Result<String, DecodeError> {
        r.str().map(str::to_owned)
    }
}

impl Encode for Bytes {
    fn encode(&self, w: &mut Writer) {
        w.blob(self);
    }
}

impl Decode for Bytes {
    const MIN_BYTES: usize = 4;

    fn decode(r: &mut Reader<'_>) -> Result<Bytes, DecodeError> {
        r.blob_bytes()
    }
}

impl<T: Encode> Encode for [T] {
    fn encode(&self, w: &mut Writer) {
        w.count(self.len());
        self.iter().for_each(|item| item.encode(w));
    }
}

impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, w: &mut Writer) {
        self.as_slice().encode(w);
    }
}

impl<T: Decode> Decode for Vec<T> {
    const MIN_BYTES: usize = 4;

    fn decode(r: &mut Reader<'_>) -> Result<Vec<T>, DecodeError> {
        let count = r.count("list", T::MIN_BYTES)?;
        // An entry may be larger in memory than on the wire, so the capacity grows with the entries that arrive.
        let mut items = Vec::with_capacity(count.min(1024));
        for _ in 0..count {
            items.push(T::decode(r)?);
        }
        Ok(items)
    }
}

impl<T: Encode> Encode for BTreeSet<T> {
    fn encode(&self, w: &mut Writer) {
        w.count(self.len());
        self.iter().for_each(|item| item.encode(w));
    }
}

impl<T: Decode + Ord> Decode for BTreeSet<T> {
    const MIN_BYTES: usize = 4;

    fn decode(r: &mut Reader<'_>) -> Result<BTreeSet<T>, DecodeError> {
        let count = r.count("set", T::MIN_BYTES)?;
        (0..count).map(|_| T::decode(r)).collect()
    }
}

impl<K: Encode, V: Encode> Encode for BTreeMap<K, V> {
    fn encode(&self, w: &mut Writer) {
        w.count(self.len());
        for (key, value) in self {
            key.encode(w);
            value.encode(w);
        }
    }
}

impl<K: Decode + Ord, V: Decode> Decode for BTreeMap<K, V> {
    const MIN_BYTES: usize = 4;

    fn decode(r: &mut Reader<'_>) -> Result<BTreeMap<K, V>, DecodeError> {
        let count = r.count("map", K::MIN_BYTES + V::MIN_BYTES)?;
        (0..count).map(|_| Ok((K::decode(r)?, V::decode(r)?))).collect()
    }
}

impl<A: Encode, B: Encode> Encode for (A, B) {
    fn encode(&self, w: &mut Writer) {
        self.0.encode(w);
        self.1.encode(w);
    }
}

impl<A: Decode, B: Decode> Decode for (A, B) {
    const MIN_BYTES: usize = A::MIN_BYTES + B::MIN_BYTES;

    fn decode(r: &mut Reader<'_>) -> Result<(A, B), DecodeError> {
        Ok((A::decode(r)?, B::decode(r)?))
    }
}

impl<T: Encode> Encode for Option<T> {
    fn encode(&self, w: &mut Writer) {
        w.bool(self.is_some());
        if let Some(value) = self {
            value.encode(w);
        }
    }
}

impl<T: Decode> Decode for Option<T> {
    fn decode(r: &mut Reader<'_>) -> Result<Option<T>, DecodeError> {
        Ok(if r.bool()? { Some(T::decode(r)?) } else { None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Target;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_reads_back(map: BTreeMap<String, Vec<u64>>, pair: (i32, Option<u16>), blob: Vec<u8>) {
            let mut w = Writer::new(Target::default());
            w.put(&map);
            w.put(&pair);
            w.put(&Bytes::from(blob.clone()));
            w.versioned(3, 1, |w| w.u64(7));
            w.bool(true);
            let bytes = w.into_vec();
            let mut r = Reader::new(&bytes);
            prop_assert_eq!(r.get::<BTreeMap<String, Vec<u64>>>().unwrap(), map);
            prop_assert_eq!(r.get::<(i32, Option<u16>)>().unwrap(), pair);
            prop_assert_eq!(r.blob().unwrap(), &blob[..]);
            let (head, mut body) = r.versioned("test", 2).unwrap();
            prop_assert_eq!((head.version, body.u32().unwrap()), (3, 7));
            prop_assert!(r.bool().unwrap() && r.is_empty());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = Vec::<String>::from_slice(&bytes);
            let _ = BTreeMap::<u32, Vec<Bytes>>::from_slice(&bytes);
            let _ = Option::<(u64, String)>::from_slice(&bytes);
        }
    }

    #[test]
    fn a_claimed_count_allocates_nothing() {
        let mut bytes = u32::MAX.to_le_bytes().to_vec();
        bytes.extend([0; 64]);
        assert!(matches!(Vec::<u64>::from_slice(&bytes), Err(DecodeError::Count { .. })));
    }

    #[test]
    fn shared_readers_share() {
        let owner = Bytes::from(vec![2, 0, 0, 0, 9, 8, 7]);
        let blob = Reader::shared(&owner).blob_bytes().unwrap();
        assert_eq!((blob.as_ptr(), &blob[..]), (owner[4..].as_ptr(), &[9u8, 8][..]));
    }
}
