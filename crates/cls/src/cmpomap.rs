//! Class `cmpomap`: entries of the omap that are compared, set and removed by what they hold.

use crate::method::Method;
use crate::object::{Object, Output, Stop};
use bytes::Bytes;
use std::collections::BTreeMap;
use types::Errno;
use wire::messages::{Comparison, XattrArgs};
use wire::{DecodeError, Reader};

pub(crate) const METHODS: &[Method] = &[
    Method::read("cmp_vals", compare),
    Method::update("cmp_set_vals", compare_and_set),
    Method::update("cmp_rm_keys", compare_and_remove),
];

/// A request: values to compare with those of the omap, by key.
struct Request {
    mode: u8,
    comparison: u8,
    values: BTreeMap<Bytes, Bytes>,
}

impl Request {
    fn decode(r: &mut Reader<'_>) -> Result<Request, DecodeError> {
        Ok(Request { mode: r.get()?, comparison: r.get()?, values: r.get()? })
    }

    /// Decodes a request that has a value for keys that the omap lacks.
    fn with_default(input: &mut Reader<'_>) -> Result<(Request, Option<Bytes>), DecodeError> {
        let (_, mut r) = input.versioned("comparison of an omap", 1)?;
        Ok((Request::decode(&mut r)?, r.get()?))
    }

    /// Compares a value of the request with a stored one.
    ///
    /// Errors: EINVAL if the request makes no sense, EIO if the stored value is no number and should be one.
    fn holds(&self, given: &[u8], stored: &[u8]) -> Result<bool, Errno> {
        let ordering = match self.mode {
            // Ceph compares bytes as signed numbers.
            XattrArgs::MODE_STRING => given.iter().map(|byte| *byte as i8).cmp(stored.iter().map(|byte| *byte as i8)),
            XattrArgs::MODE_U64 => {
                let given = number(given).ok_or(Errno::EINVAL)?;
                let stored = if stored.is_empty() { 0 } else { number(stored).ok_or(Errno::EIO)? };
                given.cmp(&stored)
            }
            _ => return Err(Errno::EINVAL),
        };
        let comparison = Comparison::from_code(self.comparison.into()).ok_or(Errno::EINVAL)?;
        Ok(comparison.holds(ordering))
    }

    /// Compares as [`Request::holds`] does; a stored value that is no number is unequal in every way.
    fn holds_if_readable(&self, given: &[u8], stored: &[u8]) -> Result<bool, Errno> {
        match self.holds(given, stored) {
            Err(Errno::EIO) => Ok(false),
            other => other,
        }
    }
}

/// The number that a value begins with, little-endian.
fn number(value: &[u8]) -> Option<u64> {
    value.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

fn compare(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (request, default) = Request::with_default(input)?;
    for (key, given) in &request.values {
        let stored = object.omap_get(key)?.or_else(|| default.clone()).ok_or(Errno::ECANCELED)?;
        if !request.holds(given, &stored)? {
            return Err(Errno::ECANCELED.into());
        }
    }
    Ok(Output::none())
}

fn compare_and_set(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (request, default) = Request::with_default(input)?;
    let mut set = Vec::new();
    for (key, given) in &request.values {
        let Some(stored) = object.omap_get(key)?.or_else(|| default.clone()) else { continue };
        if request.holds_if_readable(given, &stored)? {
            set.push((key.clone(), given.clone()));
        }
    }
    if !set.is_empty() {
        object.omap_set(set)?;
    }
    Ok(Output::none())
}

fn compare_and_remove(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (_, mut r) = input.versioned("comparison of an omap", 1)?;
    let request = Request::decode(&mut r)?;
    let mut gone = Vec::new();
    for (key, given) in &request.values {
        let Some(stored) = object.omap_get(key)? else { continue };
        if request.holds_if_readable(given, &stored)? {
            gone.push(key.clone());
        }
    }
    if !gone.is_empty() {
        object.omap_remove(gone)?;
    }
    Ok(Output::none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_object::{TestObject, encode};

    const TEXT: u8 = XattrArgs::MODE_STRING;
    const NUMBER: u8 = XattrArgs::MODE_U64;

    fn call(object: &mut TestObject, method: &str, how: (u8, u8), given: &[u8], default: Option<&'static [u8]>) -> i32 {
        let values = BTreeMap::from([(Bytes::from("k"), Bytes::copy_from_slice(given))]);
        let input = encode(|w| {
            w.versioned(1, 1, |w| {
                w.put(&how.0);
                w.put(&how.1);
                w.put(&values);
                w.put(&default.map(Bytes::from_static));
            });
        });
        object.call("cmpomap", method, &input).0
    }

    fn holding(value: &[u8]) -> TestObject {
        let omap = BTreeMap::from([(Bytes::from("k"), Bytes::copy_from_slice(value))]);
        TestObject { exists: true, omap, ..TestObject::default() }
    }

    #[test]
    fn values_are_compared_as_texts_and_as_numbers() {
        let mut it = holding(&300_u64.to_le_bytes());
        let holds = [0, -125, -125, 0, -125, 0];
        for (comparison, expected) in (1..=6).zip(holds) {
            assert_eq!(call(&mut it, "cmp_vals", (NUMBER, comparison), &300_u64.to_le_bytes(), None), expected);
        }
        assert_eq!(call(&mut it, "cmp_vals", (NUMBER, 3), &301_u64.to_le_bytes(), None), 0);
        assert_eq!(call(&mut it, "cmp_vals", (TEXT, 3), &301_u64.to_le_bytes(), None), 0);
        assert_eq!(call(&mut it, "cmp_vals", (NUMBER, 7), &301_u64.to_le_bytes(), None), -22);
        assert_eq!(call(&mut it, "cmp_vals", (3, 1), &301_u64.to_le_bytes(), None), -22);
        assert_eq!(call(&mut it, "cmp_vals", (NUMBER, 1), b"short", None), -22);
        assert_eq!(call(&mut holding(b"short"), "cmp_vals", (NUMBER, 2), &[0; 8], None), -5);
        assert_eq!(call(&mut holding(b"a"), "cmp_vals", (TEXT, 5), b"\x80", None), 0, "bytes have signs");
    }

    #[test]
    fn values_are_set_and_removed_where_the_comparison_holds() {
        let mut it = TestObject { exists: true, ..TestObject::default() };
        assert_eq!(call(&mut it, "cmp_set_vals", (NUMBER, 3), &1_u64.to_le_bytes(), None), 0);
        assert!(it.omap.is_empty());
        assert_eq!(call(&mut it, "cmp_set_vals", (NUMBER, 3), &1_u64.to_le_bytes(), Some(b"")), 0);
        assert_eq!(it.omap[&b"k"[..]], &1_u64.to_le_bytes()[..]);
        assert_eq!(call(&mut it, "cmp_set_vals", (NUMBER, 5), &9_u64.to_le_bytes(), None), 0);
        assert_eq!(it.omap[&b"k"[..]], &1_u64.to_le_bytes()[..]);
        assert_eq!(call(&mut it, "cmp_rm_keys", (NUMBER, 1), &9_u64.to_le_bytes(), None), 0);
        assert_eq!(it.omap.len(), 1);
        assert_eq!(call(&mut it, "cmp_rm_keys", (NUMBER, 1), &1_u64.to_le_bytes(), None), 0);
        assert!(it.omap.is_empty());
    }
}
