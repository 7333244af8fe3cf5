//! Names and values that users and clients attach to an image.

use super::directory::{page, prefixed};
use crate::object::{Object, Output, Stop};
use bytes::Bytes;
use std::collections::BTreeMap;
use types::Errno;
use wire::Reader;

const KEY_PREFIX: &str = "metadata_";

pub(super) fn list(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (start, max): (Bytes, u64) = (input.get()?, input.u64()?);
    // A maximum of 0 asks for all values.
    let max = if max == 0 { u64::MAX } else { max };
    let values: BTreeMap<Bytes, Bytes> = page(object, KEY_PREFIX, &start, max)?.into_iter().collect();
    Ok(Output::of(|w| w.put(&values)))
}

pub(super) fn set(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let values: BTreeMap<Bytes, Bytes> = input.get()?;
    object.omap_set(values.into_iter().map(|(name, value)| (prefixed(KEY_PREFIX, &name), value)).collect())?;
    Ok(Output::none())
}

pub(super) fn remove(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let name: Bytes = input.get()?;
    object.omap_remove(vec![prefixed(KEY_PREFIX, &name)])?;
    Ok(Output::none())
}

pub(super) fn get(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let name: Bytes = input.get()?;
    let value = object.omap_get(&prefixed(KEY_PREFIX, &name))?.ok_or(Errno::ENOENT)?;
    Ok(Output::of(|w| w.put(&value)))
}
