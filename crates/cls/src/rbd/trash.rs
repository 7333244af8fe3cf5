//! A pool's images that wait for their removal.

use super::ESTALE;
use super::directory::{page, prefixed};
use crate::object::{Object, Output, Stop, decode_stored};
use bytes::Bytes;
use std::collections::BTreeMap;
use types::Errno;
use wire::Reader;
use wire::rbd::TrashSpec;

const KEY_PREFIX: &str = "id_";

pub(super) fn add(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (id, spec): (Bytes, TrashSpec) = (input.get()?, input.get()?);
    object.create(false)?;
    let key = prefixed(KEY_PREFIX, &id);
    if object.omap_get(&key)?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    object.set_value(key, &spec)?;
    Ok(Output::none())
}

pub(super) fn remove(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let key = prefixed(KEY_PREFIX, &input.get::<Bytes>()?);
    object.omap_get(&key)?.ok_or(Errno::ENOENT)?;
    object.omap_remove(vec![key])?;
    Ok(Output::none())
}

pub(super) fn get(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let id: Bytes = input.get()?;
    let spec: TrashSpec = object.must_have(prefixed(KEY_PREFIX, &id))?;
    Ok(Output::of(|w| w.put(&spec)))
}

pub(super) fn list(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (start, max): (Bytes, u64) = (input.get()?, input.u64()?);
    let mut images: BTreeMap<Bytes, TrashSpec> = BTreeMap::new();
    for (id, spec) in page(object, KEY_PREFIX, &start, max)? {
        images.insert(id, decode_stored(&spec)?);
    }
    Ok(Output::of(|w| w.put(&images)))
}

pub(super) fn state_set(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (id, wanted, expected): (Bytes, u8, u8) = (input.get()?, input.u8()?, input.u8()?);
    let key = prefixed(KEY_PREFIX, &id);
    let spec: TrashSpec = object.must_have(&key)?;
    if spec.state == expected {
        object.set_value(key, &TrashSpec { state: wanted, ..spec })?;
    } else if spec.state != wanted {
        return Err(ESTALE.into());
    }
    Ok(Output::none())
}
