//! The namespaces of a pool that hold images.

use super::directory::{page, prefixed};
use crate::object::{Object, Output, Stop};
use bytes::Bytes;
use types::Errno;
use wire::Reader;

const KEY_PREFIX: &str = "name_";

pub(super) fn add(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let key = prefixed(KEY_PREFIX, &input.get::<Bytes>()?);
    if object.omap_get(&key)?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    object.omap_set(vec![(key, Bytes::new())])?;
    Ok(Output::none())
}

pub(super) fn remove(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let key = prefixed(KEY_PREFIX, &input.get::<Bytes>()?);
    object.omap_get(&key)?.ok_or(Errno::ENOENT)?;
    object.omap_remove(vec![key])?;
    Ok(Output::none())
}

pub(super) fn list(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (start, max): (Bytes, u64) = (input.get()?, input.u64()?);
    let names: Vec<Bytes> = page(object, KEY_PREFIX, &start, max)?.into_iter().map(|(name, _)| name).collect();
    Ok(Output::of(|w| w.put(&names)))
}
